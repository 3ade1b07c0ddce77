/*
 * plan_private.c
 *		What the planner's half of a foreign join tells the executor's, in the custom scan.
 */
#include "postgres.h"

#include "foreign/foreign_join.h"

/* The custom scan's private lists end with what is the foreign join's alone. */
void
hm_foreign_plan_write(const ForeignPlan *foreign, CustomScan *scan)
{
	scan->custom_private = lappend(
		scan->custom_private, list_make4_int(foreign->param, foreign->inner_left,
											 (int) foreign->operator,(int) foreign->collation));
	scan->custom_exprs =
		lappend(lappend(scan->custom_exprs, foreign->shares), list_make1(foreign->key));
}

void
hm_foreign_plan_read(ForeignPlan *foreign, const CustomScan *scan)
{
	const List *numbers = llast(scan->custom_private);

	foreign->param = linitial_int(numbers);
	foreign->inner_left = lsecond_int(numbers) != 0;
	foreign->operator=(Oid) lthird_int(numbers);
	foreign->collation = (Oid) lfourth_int(numbers);
	foreign->shares = list_nth(scan->custom_exprs, list_length(scan->custom_exprs) - 2);
	foreign->key = linitial(llast(scan->custom_exprs));
}
