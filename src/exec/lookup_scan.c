/*
 * lookup_scan.c
 *		Executing a lookup scan.
 *
 * lookup_scan_batch.c has what the node looks up; this file returns what is found, and has
 * the node's callbacks.
 */
#include "postgres.h"

#include "access/genam.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/lookup_scan.h"

/* ----------------------------------------------------------------
 *		Tuples
 * ----------------------------------------------------------------
 */

/* Make a tuple that has only columns of the index, and the TID for WHERE CURRENT OF. */
static TupleTableSlot *
store_columns(LookupScan *scan, uint32 match)
{
	TupleTableSlot *slot = scan->node.css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	for (int i = 0; i < scan->attribute_count; i++)
	{
		int			to = scan->attributes[i] - 1;

		slot->tts_values[to] = hm_fetch_column(scan->node.fetch, match, scan->attributes[i],
											   &slot->tts_isnull[to]);
	}
	slot->tts_tableOid = RelationGetRelid(scan->node.css.ss.ss_currentRelation);
	hm_fetch_tid(scan->node.fetch, match, &slot->tts_tid);
	return ExecStoreVirtualTuple(slot);
}

static bool
satisfies_clauses(LookupScan *scan, TupleTableSlot *slot)
{
	ExprContext *econtext = scan->node.css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQual(scan->clauses, econtext);
}

/* Go on to a run with a match that has not been taken yet.  Returns false if there is none. */
static bool
find_match(LookupScan *scan)
{
	if (!scan->started)
		hm_scan_start(scan);
	while (scan->run == NULL || scan->match == scan->run->count)
	{
		scan->run = hm_fetch_run(scan->node.fetch);
		scan->match = 0;
		if (scan->run == NULL && !hm_scan_start_batch(scan))
			return false;
	}
	return true;
}

/* The next row.  At the end the slot is empty, as WHERE CURRENT OF expects of a scan that has left its last row. */
static TupleTableSlot *
next_tuple(ScanState *state)
{
	LookupScan *scan = (LookupScan *) state;

	while (find_match(scan))
	{
		TupleTableSlot *slot = scan->index_only ? store_columns(scan, scan->match) :
			hm_fetch_store(scan->node.fetch, scan->match);

		scan->match++;
		if (!scan->recheck || satisfies_clauses(scan, slot))
			return slot;
		InstrCountFiltered2(scan, 1);
		ResetExprContext(scan->node.css.ss.ps.ps_ExprContext);
	}
	return ExecClearTuple(state->ss_ScanTupleSlot);
}

uint64
hm_lookup_scan_count(CustomScanState *node)
{
	LookupScan *scan = (LookupScan *) node;
	uint64		count = 0;

	Assert(node->ss.ps.qual == NULL);
	if (!scan->started)
		hm_scan_start(scan);
	if (scan->recheck)
	{
		while (!TTS_EMPTY(next_tuple(&node->ss)))
		{
			count++;
			ResetExprContext(node->ss.ps.ps_ExprContext);
		}
		return count;
	}
	do
		count += hm_fetch_count(scan->node.fetch);
	while (hm_scan_start_batch(scan));
	return count;
}

/* ----------------------------------------------------------------
 *		Blocks
 * ----------------------------------------------------------------
 */

bool
hm_lookup_scan_has_blocks(const CustomScanState *node)
{
	const PlanState *state = &node->ss.ps;
	ListCell   *cell;

	foreach(cell, state->plan->targetlist)
	{
		const Var  *var = (const Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varattno <= 0)
			return false;
	}
	return list_length(state->plan->targetlist) < HM_SLOT_MIN_COLUMNS && state->qual == NULL &&
		state->state->es_epq_active == NULL;
}

/* The next matches, at most "limit", that satisfy the scan's conditions; perhaps none. */
static uint32
next_matches(LookupScan *scan, uint32 limit, uint32 *matches)
{
	uint32		count = 0;

	if (scan->recheck)
	{
		if (TTS_EMPTY(next_tuple(&scan->node.css.ss)))
			return 0;
		matches[0] = scan->match - 1;
		ResetExprContext(scan->node.css.ss.ps.ps_ExprContext);
		return 1;
	}
	for (; count < limit && scan->match < scan->run->count; count++)
		matches[count] = scan->match++;
	return count;
}

uint32
hm_lookup_scan_block(CustomScanState *node, HmColumn *columns, uint32 max)
{
	LookupScan *scan = (LookupScan *) node;
	uint32		matches[HM_RUN_MAX];
	uint32		n = 0;

	while (n < max && find_match(scan))
	{
		uint32		count = next_matches(scan, Min(max - n, HM_RUN_MAX), matches);
		ListCell   *cell;

		foreach(cell, node->ss.ps.plan->targetlist)
		{
			const Var  *var = (const Var *) lfirst_node(TargetEntry, cell)->expr;
			HmColumn   *column = &columns[foreach_current_index(cell)];

			if (column->values != NULL)
				hm_fetch_columns(scan->node.fetch, var->varattno, false, matches, count,
								 column->values + n, column->nulls + n);
		}
		n += count;
	}
	return n;
}

/* Whether a row from EvalPlanQual satisfies the scan's conditions. */
static bool
recheck_tuple(ScanState *state, TupleTableSlot *slot)
{
	LookupScan *scan = (LookupScan *) state;

	ResetExprContext(scan->node.css.ss.ps.ps_ExprContext);
	return satisfies_clauses(scan, slot);
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	return ExecScan(&node->ss, next_tuple, recheck_tuple);
}

/* ----------------------------------------------------------------
 *		Beginning and end
 * ----------------------------------------------------------------
 */

/* Turn the plan's description of the arms into scan keys. */
static void
begin_arms(LookupScan *scan, List *descriptions, List *arguments)
{
	ListCell   *cell;
	int			argument = 0;

	scan->arm_count = list_length(descriptions);
	scan->arms = palloc(scan->arm_count * sizeof(ScanArm));
	foreach(cell, descriptions)
	{
		List	   *description = lfirst(cell);
		ScanArm    *arm = &scan->arms[foreach_current_index(cell)];

		arm->count = list_length(description) / 4;
		arm->keys = palloc0(arm->count * sizeof(ScanKeyData));
		arm->arguments = palloc(arm->count * sizeof(ExprState *));
		for (int i = 0; i < arm->count; i++)
		{
			arm->keys[i].sk_strategy = (StrategyNumber) list_nth_int(description, 4 * i);
			arm->keys[i].sk_subtype = (Oid) list_nth_int(description, 4 * i + 1);
			arm->keys[i].sk_flags = list_nth_int(description, 4 * i + 2) ? SK_SEARCHARRAY : 0;
			arm->keys[i].sk_attno = (AttrNumber) (list_nth_int(description, 4 * i + 3) + 1);
			arm->arguments[i] = ExecInitExpr(list_nth(arguments, argument++),
											 &scan->node.css.ss.ps);
		}
	}
}

static Bitmapset *
set_of(const List *numbers)
{
	Bitmapset  *set = NULL;
	ListCell   *cell;

	foreach(cell, numbers)
		set = bms_add_member(set, lfirst_int(cell));
	return set;
}

static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	LookupScan *scan = (LookupScan *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	Relation	heap = node->ss.ss_currentRelation;
	List	   *private = plan->custom_private;
	Oid			index_oid = linitial_oid(list_nth(private, HM_SCAN_INDEX));

	scan->index_only = linitial_int(list_nth(private, HM_SCAN_FLAGS)) != 0;
	scan->first_rows = lsecond_int(list_nth(private, HM_SCAN_FLAGS)) != 0;
	scan->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup scan",
										  ALLOCSET_DEFAULT_SIZES);

	/*
	 * PostgreSQL has made a slot for virtual tuples.  A slot of the table's own kind
	 * deforms only the columns that are read.
	 */
	if (!scan->index_only)
	{
		hm_init_scan_slot(estate, &node->ss, RelationGetDescr(heap), table_slot_callbacks(heap));
		ExecAssignScanProjectionInfo(&node->ss);
		node->ss.ps.qual = ExecInitQual(plan->scan.plan.qual, &node->ss.ps);
	}
	scan->clauses = ExecInitQual(list_nth(plan->custom_exprs, HM_SCAN_CLAUSES), &node->ss.ps);
	begin_arms(scan, list_nth(private, HM_SCAN_ARMS),
			   list_nth(plan->custom_exprs, HM_SCAN_ARGUMENTS));
	scan->subplan = hm_subplan_keys_begin(&node->ss.ps, list_nth(private, HM_SCAN_SUBPLAN),
										  linitial(list_nth(plan->custom_exprs, HM_SCAN_ARGUMENTS)),
										  scan->arms[0].keys[0].sk_subtype);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	scan->index = index_open(index_oid, exec_rt_fetch(plan->scan.scanrelid, estate)->rellockmode);
	scan->key_size = hm_key_size(hm_key_width(scan->index));
	scan->columns = set_of(list_nth(private, HM_SCAN_COLUMNS));
	scan->clause_columns = set_of(list_nth(private, HM_SCAN_CLAUSE_COLUMNS));

	scan->compares_values = !hm_is_composite(scan->index) &&
		!hm_key_type(scan->index)->exact && scan->arm_count == 1 &&
		scan->arms[0].count == 1 && hm_is_equal_any(&scan->arms[0].keys[0]);
	if (scan->compares_values)
		hm_key_equality(scan->index, scan->arms[0].keys[0].sk_subtype, &scan->equal,
						estate->es_query_cxt);

	/* WHERE CURRENT OF looks for the tuple in the scan's own slot. */
	scan->node.fetch = hm_fetch_create(heap, scan->index, estate, scan->index_only,
									   scan->first_rows,
									   scan->index_only ? NULL : node->ss.ss_ScanTupleSlot);
}

static void
end_scan(CustomScanState *node)
{
	LookupScan *scan = (LookupScan *) node;

	if (scan->node.fetch != NULL)
		hm_fetch_end(scan->node.fetch);
	if (scan->index != NULL)
		index_close(scan->index, NoLock);
	scan->node.fetch = NULL;
	scan->index = NULL;
}

static void
rescan(CustomScanState *node)
{
	LookupScan *scan = (LookupScan *) node;

	hm_fetch_stop(scan->node.fetch);
	scan->run = NULL;
	scan->started = false;
	if (scan->from_subplan && hm_subplan_keys_changed(scan->subplan, node->ss.ps.chgParam))
		scan->from_subplan = false;
	ExecScanReScan(&node->ss);
}

/* The slices come after the workers' counters. */
static Size
estimate_dsm(CustomScanState *node, ParallelContext *context)
{
	return MAXALIGN(hm_node_estimate_dsm(node, context)) + hm_slices_size(context->nworkers + 1);
}

static void
initialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	LookupScan *scan = (LookupScan *) node;

	hm_node_initialize_dsm(node, context, coordinate);
	scan->slices = hm_node_after_stats(&scan->node);
	hm_slices_init(scan->slices, context->nworkers + parallel_leader_participation);
}

static void
reinitialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	LookupScan *scan = (LookupScan *) node;

	hm_node_reinitialize_dsm(node, context, coordinate);
	scan->slices = hm_node_after_stats(&scan->node);
	hm_slices_reset(scan->slices);
}

static void
initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	LookupScan *scan = (LookupScan *) node;

	hm_node_initialize_worker(node, toc, coordinate);
	scan->slices = hm_node_after_stats(&scan->node);
}

static void
shut_down(CustomScanState *node)
{
	hm_node_shutdown(node);
	((LookupScan *) node)->slices = NULL;
}

static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupScan *scan = (LookupScan *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	hm_explain_index(linitial_oid(list_nth(plan->custom_private, HM_SCAN_INDEX)), es);
	hm_explain_clauses("Index Cond", list_nth(plan->custom_exprs, HM_SCAN_CLAUSES),
					   node, ancestors, es);
	if (scan->index_only)
		ExplainPropertyBool("Index Only", true, es);
	if (scan->subplan != NULL)
		ExplainPropertyBool("Keys From Subplan", true, es);
	if (es->analyze && scan->node.fetch != NULL)
	{
		if (scan->compares_values)
			hm_explain_removed(&scan->node, es);
		else
			hm_explain_filtered("Rows Removed by Index Recheck", node, es);
		hm_explain_stats(&scan->node, es);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaLookupScan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = estimate_dsm,
	.InitializeDSMCustomScan = initialize_dsm,
	.ReInitializeDSMCustomScan = reinitialize_dsm,
	.InitializeWorkerCustomScan = initialize_worker,
	.ShutdownCustomScan = shut_down,
	.ExplainCustomScan = explain,
};

static Node *
create_state(CustomScan *plan)
{
	LookupScan *scan;

	if (hm_runs_as_join(plan))
		return (Node *) hm_create_partitioned_scan();
	scan = palloc0(sizeof(LookupScan));
	NodeSetTag(scan, T_CustomScanState);
	scan->node.css.methods = &exec_methods;
	return (Node *) scan;
}

const CustomScanMethods hm_lookup_scan_methods = {
	.CustomName = "HarmoniaLookupScan",
	.CreateCustomScanState = create_state,
};
