/*
 * lookup_count.c
 *		Executing a lookup count.
 *
 * The node returns one row: the number of tuples that the lookup scan below it finds.
 * The scan counts them itself, without passing them on.
 */
#include "postgres.h"

#include "exec/lookup_aggregate.h"

typedef struct LookupCount
{
	CustomScanState css;
	bool		done;
} LookupCount;

/* Have the scan count its tuples. */
static uint64
count_tuples(PlanState *scan)
{
	uint64		count;

	hm_child_enter(scan);
	count = hm_lookup_count_rows(castNode(CustomScanState, scan));
	hm_child_leave(scan, count);
	return count;
}

static TupleTableSlot *
exec_count(CustomScanState *node)
{
	LookupCount *state = (LookupCount *) node;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	uint64		count;

	if (state->done)
		return NULL;
	state->done = true;
	count = count_tuples(linitial(node->custom_ps));

	ResetExprContext(econtext);
	ExecClearTuple(slot);
	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		slot->tts_values[i] = Int64GetDatum((int64) count);
		slot->tts_isnull[i] = false;
	}
	ExecStoreVirtualTuple(slot);
	econtext->ecxt_scantuple = slot;
	return node->ss.ps.ps_ProjInfo != NULL ? ExecProject(node->ss.ps.ps_ProjInfo) : slot;
}

static void
begin_count(CustomScanState *node, EState *estate, int eflags)
{
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	ListCell   *cell;

	foreach(cell, plan->custom_scan_tlist)
		hm_aggregate_check_permissions(castNode(Aggref, lfirst_node(TargetEntry, cell)->expr));
	hm_child_begin(node, estate, eflags);
}

static void
rescan(CustomScanState *node)
{
	((LookupCount *) node)->done = false;
	hm_child_rescan(node);
}

/* No ExplainCustomScan: EXPLAIN shows all there is with the scan. */
static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaLookupCount",
	.BeginCustomScan = begin_count,
	.ExecCustomScan = exec_count,
	.EndCustomScan = hm_child_end,
	.ReScanCustomScan = rescan,
};

static Node *
create_state(CustomScan *plan)
{
	LookupCount *state = palloc0(sizeof(LookupCount));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

const CustomScanMethods hm_lookup_count_methods = {
	.CustomName = "HarmoniaLookupCount",
	.CreateCustomScanState = create_state,
};
