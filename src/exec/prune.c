/*
 * prune.c
 *		Executing: which targets of a lookup join are ruled out.
 *
 * As for an Append, there are two occasions.  When the node begins, external
 * parameters and stable functions have their values; what these rule out is left out
 * for good.  Parameters that other parts of the plan compute have theirs when the first
 * batch is filled; when one of them changes, the targets are chosen again.
 */
#include "postgres.h"

#include "compat.h"
#include "exec/lookup_join.h"

/* Put in what hm_plan_pruning() took out, in a copy, because plans are read only. */
static PartitionPruneInfo *
put_steps(PartitionPruneInfo *planned, List *steps, Index inner)
{
	PartitionPruneInfo *info = copyObject(planned);
	int			next = 0;
	ListCell   *hierarchy,
			   *cell;

	foreach(hierarchy, info->prune_infos)
	{
		foreach(cell, (List *) lfirst(hierarchy))
		{
			PartitionedRelPruneInfo *table = lfirst_node(PartitionedRelPruneInfo, cell);

			table->initial_pruning_steps = list_nth(steps, next++);
			table->exec_pruning_steps = list_nth(steps, next++);
			table->rtindex += inner;
		}
	}
	return info;
}

Bitmapset *
hm_pruning_begin(HmPruning *pruning, PlanState *node, List *plan, List *steps, Index inner,
				 int targets)
{
	PartitionPruneState *state;
	Bitmapset  *left;

	pruning->context = CurrentMemoryContext;
	pruning->state = NULL;
	pruning->chosen = bms_add_range(NULL, 0, targets - 1);
	pruning->is_chosen = true;
	if (plan == NIL)
		return pruning->chosen;

	state = hm_begin_pruning(node, targets,
							 put_steps(linitial_node(PartitionPruneInfo, plan), steps, inner),
							 &left);

	/* From here on, those that are left are all there are. */
	pruning->chosen = bms_is_empty(left) ? NULL : bms_add_range(NULL, 0, bms_num_members(left) - 1);
	if (state->do_exec_prune && !bms_is_empty(left))
	{
		pruning->state = state;
		pruning->is_chosen = false;
	}
	return left;
}

void
hm_pruning_rescan(HmPruning *pruning, const Bitmapset *changed)
{
	if (pruning->state != NULL && bms_overlap(changed, pruning->state->execparamids))
		pruning->is_chosen = false;
}

const Bitmapset *
hm_pruning_choose(HmPruning *pruning)
{
	MemoryContext old_context;

	if (pruning->is_chosen)
		return pruning->chosen;
	bms_free(pruning->chosen);
	pruning->chosen = NULL;
	old_context = MemoryContextSwitchTo(pruning->context);
	pruning->chosen = hm_find_targets(pruning->state);
	MemoryContextSwitchTo(old_context);
	pruning->is_chosen = true;
	return pruning->chosen;
}
