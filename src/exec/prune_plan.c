/*
 * prune_plan.c
 *		Planning the run-time pruning of a lookup join's targets.
 *
 * A restriction may compare the partition key with a parameter or a stable function.
 * Such a restriction can rule out partitions, but only at run time, when the value is
 * known.  PostgreSQL's planner turns these restrictions into pruning steps, as it does
 * for an Append.
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/restrictinfo.h"

#include "compat.h"
#include "exec/planner.h"

/*
 * One dummy path per target, because make_partition_pruneinfo() takes an Append's
 * subpaths.
 */
static List *
stand_ins(List *targets)
{
	List *paths = NIL;
	ListCell *cell;

	foreach (cell, targets)
	{
		Path *path = makeNode(Path);

		path->parent = ((HmTarget *) lfirst(cell))->rel;
		paths = lappend(paths, path);
	}
	return paths;
}

/*
 * Prepare pruning information for custom_private, where setrefs.c changes nothing: take
 * out the steps, which are expressions, and return them for custom_exprs, and make range
 * table indexes relative to the inner side's.
 */
static List *
take_steps(PartitionPruneInfo *info, Index inner)
{
	List *steps = NIL;
	ListCell *hierarchy, *cell;

	foreach (hierarchy, info->prune_infos)
	{
		foreach (cell, (List *) lfirst(hierarchy))
		{
			PartitionedRelPruneInfo *table = lfirst_node(PartitionedRelPruneInfo, cell);

			steps = lappend(steps, table->initial_pruning_steps);
			steps = lappend(steps, table->exec_pruning_steps);
			table->initial_pruning_steps = NIL;
			table->exec_pruning_steps = NIL;
			table->rtindex -= inner;
		}
	}
	return steps;
}

List *
hm_plan_pruning(PlannerInfo *root, RelOptInfo *inner, List *targets, List **steps)
{
	PartitionPruneInfo *info = NULL;

	*steps = NIL;
	if (enable_partition_pruning && IS_PARTITIONED_REL(inner) && inner->baserestrictinfo != NIL)
		info = hm_make_prune_info(root, inner, stand_ins(targets),
								  extract_actual_clauses(inner->baserestrictinfo, false));
	if (info == NULL)
		return NIL;
	*steps = take_steps(info, inner->relid);
	return list_make1(info);
}
