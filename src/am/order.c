/*
 * order.c
 *		Indexes that do not keep the order of their columns.
 *
 * PostgreSQL believes that an index keeps order if the operator families of all its columns
 * have "less than".  Those of types without order have not.  Composite keys keep no order,
 * whatever the types, so the planner's description of such an index is corrected.
 */
#include "postgres.h"

#include "nodes/pathnodes.h"

#include "am/am.h"
#include "compat.h"

static hm_relation_hook_type next_relation_hook = NULL;

static void
describe_relation(HM_RELATION_HOOK_PARAMETERS)
{
	ListCell   *cell;

	if (next_relation_hook)
		next_relation_hook(HM_RELATION_HOOK_ARGUMENTS);
	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if ((void *) index->amcostestimate == (void *) hm_cost_estimate && index->ncolumns > 1)
		{
			index->sortopfamily = NULL;

			/* btcostestimate() looks at it, and not only if the index has an order. */
			if (index->reverse_sort == NULL)
				index->reverse_sort = palloc0(sizeof(bool) * index->nkeycolumns);
		}
	}
}

/*
 * The hook is there in time: the planner opens an index, which loads this library, before it
 * calls the hook.
 */
void
hm_order_init(void)
{
	next_relation_hook = hm_relation_hook;
	hm_relation_hook = describe_relation;
}
