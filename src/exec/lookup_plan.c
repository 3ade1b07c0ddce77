/*
 * lookup_plan.c
 *		A lookup node's plan as lists: the one writer and the one reader.
 */
#include "postgres.h"

#include "exec/lookup_plan.h"

/* The order of custom_private.  In custom_exprs are the expressions, as the struct has them. */
enum
{
	PLAN_WORDS,
	PLAN_ARMS,
	PLAN_KEYS,
	PLAN_SUBPLAN,
	PLAN_SOURCES,
	PLAN_TARGETS,
	PLAN_PRUNING,
	PLAN_COLUMNS,
	PLAN_CLAUSE_COLUMNS,
	PLAN_RECHECK_COLUMNS
};

/* A struct that has no pointers, as integers. */
static List *
write_words(const void *data, Size size)
{
	List *list = NIL;

	for (Size i = 0; i < size / sizeof(int); i++)
		list = lappend_int(list, ((const int *) data)[i]);
	return list;
}

static void
read_words(void *data, const List *list)
{
	ListCell *cell;

	foreach (cell, list)
		((int *) data)[foreach_current_index(cell)] = lfirst_int(cell);
}

/* Lists of LookupKeys. */
static List *
write_keys(const List *keys)
{
	List *lists = NIL;
	ListCell *cell;

	foreach (cell, keys)
		lists = lappend(lists, write_words(lfirst(cell), sizeof(LookupKey)));
	return lists;
}

static List *
read_keys(const List *lists)
{
	List *keys = NIL;
	ListCell *cell;

	foreach (cell, lists)
	{
		LookupKey *key = palloc(sizeof(LookupKey));

		read_words(key, lfirst(cell));
		keys = lappend(keys, key);
	}
	return keys;
}

/* Lists of these. */
static List *
each_arm(const List *arms, List *(*function)(const List *) )
{
	List *result = NIL;
	ListCell *cell;

	foreach (cell, arms)
		result = lappend(result, function(lfirst(cell)));
	return result;
}

/* Lists of LookupTargets. */
static List *
write_targets(const List *targets)
{
	List *lists = NIL;
	ListCell *cell;

	foreach (cell, targets)
	{
		const LookupTarget *target = lfirst(cell);

		lists = lappend(lists, list_make2(write_words(target, offsetof(LookupTarget, columns)),
										  target->columns));
	}
	return lists;
}

static List *
read_targets(const List *lists)
{
	List *targets = NIL;
	ListCell *cell;

	foreach (cell, lists)
	{
		LookupTarget *target = palloc0(sizeof(LookupTarget));

		read_words(target, linitial((List *) lfirst(cell)));
		target->columns = lsecond((List *) lfirst(cell));
		targets = lappend(targets, target);
	}
	return targets;
}

void
hm_lookup_plan_write(const LookupPlan *plan, CustomScan *scan)
{
	scan->custom_private =
		list_make5(write_words(plan, offsetof(LookupPlan, arms)), each_arm(plan->arms, write_keys),
				   write_keys(plan->keys), plan->subplan, plan->sources);
	scan->custom_private = list_concat(
		scan->custom_private, list_make5(write_targets(plan->targets), plan->pruning, plan->columns,
										 plan->clause_columns, plan->recheck_columns));
	scan->custom_exprs = list_make5(plan->arguments, plan->key_clauses, plan->inner_quals,
									plan->quals, plan->prune_steps);
	scan->custom_exprs = list_concat(
		scan->custom_exprs, list_make3(plan->one_time, plan->inner_one_time, plan->computed));
}

void
hm_lookup_plan_read(LookupPlan *plan, const CustomScan *scan)
{
	const List *lists = scan->custom_private;

	read_words(plan, list_nth(lists, PLAN_WORDS));
	plan->arms = each_arm(list_nth(lists, PLAN_ARMS), read_keys);
	plan->keys = read_keys(list_nth(lists, PLAN_KEYS));
	plan->subplan = list_nth(lists, PLAN_SUBPLAN);
	plan->sources = list_nth(lists, PLAN_SOURCES);
	plan->targets = read_targets(list_nth(lists, PLAN_TARGETS));
	plan->pruning = list_nth(lists, PLAN_PRUNING);
	plan->columns = list_nth(lists, PLAN_COLUMNS);
	plan->clause_columns = list_nth(lists, PLAN_CLAUSE_COLUMNS);
	plan->recheck_columns = list_nth(lists, PLAN_RECHECK_COLUMNS);
	plan->arguments = linitial(scan->custom_exprs);
	plan->key_clauses = lsecond(scan->custom_exprs);
	plan->inner_quals = lthird(scan->custom_exprs);
	plan->quals = lfourth(scan->custom_exprs);
	plan->prune_steps = list_nth(scan->custom_exprs, 4);
	plan->one_time = list_nth(scan->custom_exprs, 5);
	plan->inner_one_time = list_nth(scan->custom_exprs, 6);
	plan->computed = list_nth(scan->custom_exprs, 7);
}
