/*
 * prune_plan.c
 *		Planning: what rules out targets of a lookup join at run time.
 *
 * A restriction of a partitioned table that compares its partition key with a
 * parameter or a stable function rules out partitions only when their values are
 * known.  PostgreSQL's own planner says how, as it does for an Append.
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/restrictinfo.h"

#include "compat.h"
#include "exec/nodes.h"

/* Paths that stand for the targets, for a function that expects those of an Append. */
static List *
stand_ins(List *targets)
{
	List	   *paths = NIL;
	ListCell   *cell;

	foreach(cell, targets)
	{
		Path	   *path = makeNode(Path);

		path->parent = ((HmTarget *) lfirst(cell))->rel;
		paths = lappend(paths, path);
	}
	return paths;
}

/*
 * Take out what changes when the plan is put together with those of other queries: steps, which
 * are expressions, are returned, and range table indexes counted from that of the inner side.
 */
static List *
take_steps(PartitionPruneInfo *info, Index inner)
{
	List	   *steps = NIL;
	ListCell   *hierarchy,
			   *cell;

	foreach(hierarchy, info->prune_infos)
	{
		foreach(cell, (List *) lfirst(hierarchy))
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
