/*
 * search_prune.c
 *		Run-time pruning of a lookup join's targets.
 *
 * Targets are pruned at two times, as in an Append.  When the node begins, the values of
 * external parameters and stable functions are known; targets that these rule out are
 * dropped for good.  Parameters that are computed by other parts of the plan have values
 * when the first batch is filled.  Whenever one of them changes, the targets are chosen
 * again.
 */
#include "postgres.h"

#include "partitioning/partdesc.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/lookup_node.h"

/*
 * Undo hm_plan_pruning()'s changes: put the steps back and make range table indexes
 * absolute.  Plans are read-only, so this makes a copy.
 */
static PartitionPruneInfo *
put_steps(PartitionPruneInfo *planned, List *steps, Index inner)
{
	PartitionPruneInfo *info = copyObject(planned);
	int next = 0;
	ListCell *hierarchy, *cell;

	foreach (hierarchy, info->prune_infos)
	{
		foreach (cell, (List *) lfirst(hierarchy))
		{
			PartitionedRelPruneInfo *table = lfirst_node(PartitionedRelPruneInfo, cell);

			table->initial_pruning_steps = list_nth(steps, next++);
			table->exec_pruning_steps = list_nth(steps, next++);
			table->rtindex += inner;
		}
	}
	return info;
}

/*
 * Whether a table's partitions are those that the planner saw.  They differ if one has
 * just been attached, or is being detached concurrently.
 */
static bool
has_planned_partitions(EState *estate, const PartitionedRelPruneInfo *table)
{
	Relation relation = hm_range_table_relation(estate, table->rtindex);
	PartitionDesc partitions;

	if (estate->es_partition_directory == NULL)
		estate->es_partition_directory = CreatePartitionDirectory(estate->es_query_cxt, false);
	partitions = PartitionDirectoryLookup(estate->es_partition_directory, relation);
	if (partitions->nparts != table->nparts)
		return false;
	for (int i = 0; i < table->nparts; i++)
	{
		/* Partitions that the planner has pruned have no OID here. */
		if (OidIsValid(table->relid_map[i]) && table->relid_map[i] != partitions->oids[i])
			return false;
	}
	return true;
}

/*
 * Whether pruning can be relied on.  PostgreSQL's functions go wrong for a table that has
 * no pruning steps of its own and whose partitions are not those that were planned: they
 * use the planner's partition numbers as indexes into the present partitions, and so drop
 * partitions that have rows.
 */
static bool
can_prune(EState *estate, const PartitionPruneInfo *info)
{
	ListCell *hierarchy, *cell;

	foreach (hierarchy, info->prune_infos)
	{
		foreach (cell, (List *) lfirst(hierarchy))
		{
			if (!has_planned_partitions(estate, lfirst_node(PartitionedRelPruneInfo, cell)))
				return false;
		}
	}
	return true;
}

Bitmapset *
hm_pruning_begin(SearchPruning *pruning, PlanState *node, List *plan, List *steps, Index inner,
				 int targets)
{
	PartitionPruneInfo *info;
	PartitionPruneState *state;
	Bitmapset *left;

	pruning->node = node;
	pruning->context = CurrentMemoryContext;
	pruning->state = NULL;
	pruning->chosen = bms_add_range(NULL, 0, targets - 1);
	pruning->is_chosen = true;
	if (plan == NIL)
		return pruning->chosen;
	info = put_steps(linitial_node(PartitionPruneInfo, plan), steps, inner);
	if (!can_prune(node->state, info))
		return pruning->chosen;
	state = hm_begin_pruning(node, targets, info, &left, &pruning->econtext);

	/* From here on, targets are numbered without those that have been pruned. */
	pruning->chosen = bms_is_empty(left) ? NULL : bms_add_range(NULL, 0, bms_num_members(left) - 1);
	if (state->do_exec_prune && !bms_is_empty(left))
	{
		pruning->state = state;
		pruning->is_chosen = false;
	}
	return left;
}

void
hm_pruning_rescan(SearchPruning *pruning, const Bitmapset *changed)
{
	if (pruning->state != NULL && bms_overlap(changed, pruning->state->execparamids))
		pruning->is_chosen = false;
}

const Bitmapset *
hm_pruning_choose(SearchPruning *pruning)
{
	MemoryContext old_context;

	if (pruning->is_chosen)
		return pruning->chosen;
	bms_free(pruning->chosen);
	pruning->chosen = NULL;
	old_context = MemoryContextSwitchTo(pruning->context);
	pruning->chosen = hm_find_targets(pruning->node, pruning->state, pruning->econtext);
	MemoryContextSwitchTo(old_context);
	pruning->is_chosen = true;
	return pruning->chosen;
}
