/*
 * lookup_node.c
 *		The callbacks of lookup scans and lookup joins.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "utils/memutils.h"

#include "exec/lookup_node.h"

static void
begin_node(CustomScanState *node, EState *estate, int eflags)
{
	LookupNode *lookup = (LookupNode *) node;

	if (((CustomScan *) node->ss.ps.plan)->custom_plans != NIL)
		hm_child_begin(node, estate, eflags);
	hm_lookup_begin(lookup, (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0);
	hm_recheck_begin(lookup);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	/* A single target's fetch lasts as long as the node. */
	lookup->fetch_context = CurrentMemoryContext;
	if (lookup->several_targets)
		lookup->fetch_context = AllocSetContextCreate(
			CurrentMemoryContext, "harmonia lookup target", ALLOCSET_DEFAULT_SIZES);
	hm_lookup_restart(lookup, NULL);
}

static TupleTableSlot *
exec_node(CustomScanState *node)
{
	LookupNode *lookup = (LookupNode *) node;

	if (lookup->recheck.columns != NULL)
		return hm_recheck_exec(lookup);
	if (hm_sorts_results(lookup))
		return hm_ordered_exec(lookup);
	return lookup->is_table ? hm_table_exec(node) : hm_rows_exec(node);
}

static void
end_node(CustomScanState *node)
{
	LookupNode *lookup = (LookupNode *) node;

	if (lookup->node.fetch != NULL)
		hm_fetch_end(lookup->node.fetch);
	if (lookup->distinct.sort != NULL)
		hm_distinct_reset(&lookup->distinct);
	hm_ordered_drop(lookup);
	for (int i = 0; i < lookup->target_count; i++)
	{
		if (lookup->targets[i].table == NULL)
			continue;
		index_close(lookup->targets[i].index, NoLock);
		if (!lookup->is_table)
			table_close(lookup->targets[i].table, NoLock);
	}
	if (hm_has_outer(lookup))
		hm_child_end(node);
}

static void
rescan_node(CustomScanState *node)
{
	LookupNode *lookup = (LookupNode *) node;

	if (hm_has_outer(lookup))
		hm_child_rescan(node);
	if (lookup->node.fetch != NULL)
		hm_fetch_stop(lookup->node.fetch);
	hm_pruning_rescan(&lookup->pruning, node->ss.ps.chgParam);
	hm_ordered_drop(lookup);
	hm_lookup_restart(lookup, node->ss.ps.chgParam);
	hm_recheck_restart(lookup);
	if (lookup->is_table)
		ExecScanReScan(&node->ss);
}

#define LOOKUP_METHODS(name) \
	{ \
		.CustomName = (name), .BeginCustomScan = begin_node, .ExecCustomScan = exec_node, \
		.EndCustomScan = end_node, .ReScanCustomScan = rescan_node, \
		.EstimateDSMCustomScan = hm_node_estimate_dsm, \
		.InitializeDSMCustomScan = hm_node_initialize_dsm, \
		.ReInitializeDSMCustomScan = hm_node_reinitialize_dsm, \
		.InitializeWorkerCustomScan = hm_node_initialize_worker, \
		.ShutdownCustomScan = hm_node_shutdown, .ExplainCustomScan = hm_lookup_explain, \
	}

static const CustomExecMethods scan_exec_methods = LOOKUP_METHODS("HarmoniaLookupScan");
static const CustomExecMethods join_exec_methods = LOOKUP_METHODS("HarmoniaLookupJoin");

static Node *
create_state(CustomScan *plan)
{
	LookupNode *lookup = palloc0(sizeof(LookupNode));

	NodeSetTag(lookup, T_CustomScanState);
	lookup->node.css.methods =
		plan->methods == &hm_lookup_join_methods ? &join_exec_methods : &scan_exec_methods;
	return (Node *) lookup;
}

const CustomScanMethods hm_lookup_scan_methods = {
	.CustomName = "HarmoniaLookupScan",
	.CreateCustomScanState = create_state,
};

const CustomScanMethods hm_lookup_join_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.CreateCustomScanState = create_state,
};
