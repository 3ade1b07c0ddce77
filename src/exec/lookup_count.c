/*
 * lookup_count.c
 *		Executing a lookup count.
 *
 * The node returns one row: the number of tuples that the lookup scan below it finds.
 * The scan counts them itself, without passing them on.
 */
#include "postgres.h"

#include "executor/instrument.h"

#include "exec/lookup_aggregate.h"

typedef struct LookupCount
{
	CustomScanState css;
	bool		done;
} LookupCount;

/*
 * Have the scan count its tuples, and do for it what ExecProcNode() does otherwise:
 * rescan it if needed, and record times and rows for EXPLAIN ANALYZE.
 */
static uint64
count_tuples(PlanState *scan)
{
	uint64		count;

	if (scan->chgParam != NULL)
		ExecReScan(scan);
	if (scan->instrument)
		InstrStartNode(scan->instrument);
	count = hm_lookup_scan_count(castNode(CustomScanState, scan));
	if (scan->instrument)
		InstrStopNode(scan->instrument, (double) count);
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
	node->custom_ps = list_make1(ExecInitNode(linitial(plan->custom_plans), estate, eflags));
}

static void
end_count(CustomScanState *node)
{
	ExecEndNode(linitial(node->custom_ps));
}

static void
rescan(CustomScanState *node)
{
	PlanState  *scan = linitial(node->custom_ps);

	((LookupCount *) node)->done = false;
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(scan, node->ss.ps.chgParam);
	if (scan->chgParam == NULL)
		ExecReScan(scan);
}

/* No ExplainCustomScan: EXPLAIN shows all there is with the scan. */
static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaLookupCount",
	.BeginCustomScan = begin_count,
	.ExecCustomScan = exec_count,
	.EndCustomScan = end_count,
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
