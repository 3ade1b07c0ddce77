/*
 * lookup_join.c
 *		Executing a lookup join.
 *
 *		+----> FILL: read a batch of outer rows; compute their probes
 *		|        |
 *		|      TARGET: start to look the probes up in the next target <--+
 *		|        |   \                                                   |
 *		|        |    MATCH: each visible tuple that the fetch returns,--+
 *		|        |           with its outer row, is a candidate
 *		|        |
 *		|      UNMATCHED (left and antijoin): outer rows without a match
 *		|        |
 *		+--------+-----> DONE, when there are no more outer rows
 *
 * A candidate is built in the scan slot, whose columns the planner has chosen.  Then the
 * inner side's restrictions and the join clauses are evaluated on it.  The fetch returns
 * only tuples whose key is one of the probe's.  So the key clauses are evaluated only if
 * some probe of the batch has keys that do not satisfy them (JoinBatch.exact).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/lookup_join.h"

/*
 * Prefetch distances, in hits: for the tuple of a row, for its pointer and its "matched"
 * flag, and for the number of the row.  An index-only join of 1 M rows took 1.2 s without
 * prefetching, 0.5 s with half of these distances, and 0.45 s with these (Zen 4).  To
 * measure again, set AHEAD_MIN_ROWS above the batch's size, or change the distances.
 */
#define TUPLE_AHEAD	16
#define ROW_AHEAD	32
#define PROBE_AHEAD	48

/* A batch with fewer rows fits into the cache. */
#define AHEAD_MIN_ROWS	1000

/* ----------------------------------------------------------------
 *		The scan slot
 * ----------------------------------------------------------------
 */

TupleTableSlot *
hm_join_store_outer(LookupJoin *join, TupleTableSlot *outer)
{
	TupleTableSlot *slot = join->node.css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	join->stored_row = NO_ROW;
	slot_getsomeattrs(outer, join->outer_last);
	for (int i = 0; i < join->column_count; i++)
	{
		int			source = join->sources[i];

		if (source > 0)
		{
			slot->tts_values[i] = outer->tts_values[source - 1];
			slot->tts_isnull[i] = outer->tts_isnull[source - 1];
		}
		else
		{
			slot->tts_values[i] = (Datum) 0;
			slot->tts_isnull[i] = true;
		}
	}
	return ExecStoreVirtualTuple(slot);
}

/*
 * Complete the candidate in the scan slot: add the columns of the target's tuple.  If
 * inner is NULL, the key is the only column.
 */
static void
store_inner(LookupJoin *join, TupleTableSlot *inner, Datum key)
{
	TupleTableSlot *slot = join->node.css.ss.ss_ScanTupleSlot;
	JoinTarget *target = &join->targets[join->target];

	if (inner != NULL)
		slot_getsomeattrs(inner, target->last);
	for (int i = 0; i < join->column_count; i++)
	{
		int			column = target->columns[i];

		if (column == 0)
			continue;
		if (inner == NULL)
		{
			slot->tts_values[i] = key;
			slot->tts_isnull[i] = false;
		}
		else if (column > 0)
		{
			slot->tts_values[i] = inner->tts_values[column - 1];
			slot->tts_isnull[i] = inner->tts_isnull[column - 1];
		}
		else
			slot->tts_values[i] = slot_getsysattr(inner, column, &slot->tts_isnull[i]);
	}
}

/*
 * Return the join's row that is in the scan slot, projected, or NULL if it does not
 * satisfy the quals above the join.
 */
static TupleTableSlot *
emit(LookupJoin *join)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = join->node.css.ss.ss_ScanTupleSlot;
	if (!ExecQual(join->node.css.ss.ps.qual, econtext))
	{
		InstrCountFiltered1(join, 1);
		return NULL;
	}
	return join->node.css.ss.ps.ps_ProjInfo != NULL ?
		ExecProject(join->node.css.ss.ps.ps_ProjInfo) : join->node.css.ss.ss_ScanTupleSlot;
}

/* ----------------------------------------------------------------
 *		Candidates
 * ----------------------------------------------------------------
 */

/*
 * Put an outer row of the batch in the scan slot.  If the slot holds it already, which is
 * common for rows with many hits, only the target's columns have to be replaced.  Not so
 * after ExecMaterializeSlot(): the slot's values are then copies in memory that the slot
 * owns.
 */
static void
store_row(LookupJoin *join, uint32 row)
{
	TupleTableSlot *slot = join->node.css.ss.ss_ScanTupleSlot;

	if (row == join->stored_row && !TTS_EMPTY(slot) && !TTS_SHOULDFREE(slot))
		return;
	ExecStoreMinimalTuple(join->batch.tuples[row], join->outer_slot, false);
	hm_join_store_outer(join, join->outer_slot);
	join->stored_row = row;
}

/*
 * Prefetch what leads to the outer row of a coming hit, one step at a time.  Hits come in
 * the order of keys or of the heap, so their outer rows are scattered over the batch.
 */
static inline void
look_ahead(LookupJoin *join)
{
	HmFetch    *fetch = join->node.fetch;
	JoinBatch  *batch = &join->batch;
	JoinProbes *probes = join->probes;
	uint32		probe;

	if (batch->rows < AHEAD_MIN_ROWS || !hm_fetch_peek(fetch, TUPLE_AHEAD, &probe))
		return;
	__builtin_prefetch(batch->tuples[probes->rows[probe]]);

	if (!hm_fetch_peek(fetch, ROW_AHEAD, &probe))
		return;
	__builtin_prefetch(&batch->tuples[probes->rows[probe]]);
	__builtin_prefetch(&batch->matched[probes->rows[probe]], 1);

	if (!hm_fetch_peek(fetch, PROBE_AHEAD, &probe))
		return;
	__builtin_prefetch(&probes->rows[probe]);
	__builtin_prefetch(&probes->done[probe]);
}

/* Whether the candidate satisfies the inner side's restrictions and the join clauses. */
static inline bool
is_match(LookupJoin *join)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = join->node.css.ss.ss_ScanTupleSlot;
	return ExecQual(join->inner_quals, econtext) &&
		ExecQual(join->batch.exact ? join->other_quals : join->quals, econtext);
}

/*
 * Put the target's next candidate that is a match in the scan slot. *row is its outer
 * row.  Returns false if the target has no more.
 */
static bool
next_match(LookupJoin *join, uint32 *row)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	JoinProbes *probes = join->probes;
	TupleTableSlot *inner;
	Datum		key;
	uint32		probe;

	for (;;)
	{
		look_ahead(join);
		if (!hm_fetch_next(join->node.fetch, &probe, &inner, &key))
			return false;
		*row = probes->rows[probe];
		store_row(join, *row);
		store_inner(join, inner, key);
		if (is_match(join))
		{
			join->batch.matched[*row] = true;
			if (join->one_match)
				probes->done[probe] = 1;
			return true;
		}
		InstrCountFiltered2(join, 1);
		ResetExprContext(econtext);
	}
}

static TupleTableSlot *
exec_join(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;
	TupleTableSlot *result;
	uint32		row;

	ResetExprContext(node->ss.ps.ps_ExprContext);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (join->phase)
		{
			case PHASE_FILL:
				join->phase = hm_join_fill_batch(join) ? PHASE_TARGET : PHASE_DONE;
				break;

			case PHASE_TARGET:
				join->unmatched = 0;
				if (hm_join_next_target(join))
					join->phase = PHASE_MATCH;
				else
					join->phase = join->keeps_unmatched ? PHASE_UNMATCHED : PHASE_FILL;
				break;

			case PHASE_MATCH:
				if (!next_match(join, &row))
					join->phase = PHASE_TARGET;
				else if (join->type != JOIN_ANTI && (result = emit(join)) != NULL)
					return result;
				else
					ResetExprContext(node->ss.ps.ps_ExprContext);
				break;

			case PHASE_UNMATCHED:
				if (join->unmatched == join->batch.rows)
				{
					join->phase = PHASE_FILL;
					break;
				}
				row = join->unmatched++;
				if (join->batch.matched[row])
					break;
				ResetExprContext(node->ss.ps.ps_ExprContext);
				join->stored_row = NO_ROW;	/* it may have inner columns */
				store_row(join, row);
				if ((result = emit(join)) != NULL)
					return result;
				break;

			case PHASE_DONE:
				return ExecClearTuple(node->ss.ps.ps_ResultTupleSlot);
		}
	}
}

/* ----------------------------------------------------------------
 *		Beginning and end
 * ----------------------------------------------------------------
 */

static void
begin_keys(LookupJoin *join, List *descriptions, List *arguments)
{
	ListCell   *cell;

	join->key_count = list_length(arguments);
	join->keys = palloc0(join->key_count * sizeof(JoinKey));
	foreach(cell, arguments)
	{
		int			i = foreach_current_index(cell);
		Expr	   *argument = lfirst(cell);
		JoinKey    *key = &join->keys[i];

		key->strategy = (StrategyNumber) list_nth_int(descriptions, 2 * i);
		key->bracket = hm_bracket_function(join->key_type->type,
									   (Oid) list_nth_int(descriptions, 2 * i + 1));
		if (key->bracket == NULL)
			elog(ERROR, "harmonia cannot compare type %u with type %u",
				 join->key_type->type, (Oid) list_nth_int(descriptions, 2 * i + 1));
		key->argument = ExecInitExpr(argument, &join->node.css.ss.ps);
		if (IsA(argument, Var))
			key->column = join->sources[((Var *) argument)->varattno - 1];
		Assert(key->column >= 0);
	}
}

static void
begin_sources(LookupJoin *join, List *sources)
{
	ListCell   *cell;

	join->column_count = list_length(sources);
	join->sources = palloc(Max(1, join->column_count) * sizeof(int));
	foreach(cell, sources)
	{
		int			source = lfirst_int(cell);

		join->sources[foreach_current_index(cell)] = source;
		join->outer_last = Max(join->outer_last, source);
	}
}

/* A 64-bit value that a plan stores as two integers. */
static uint64
join_halves(List *numbers, int first)
{
	return (uint64) (uint32) list_nth_int(numbers, first) << 32 |
		(uint32) list_nth_int(numbers, first + 1);
}

static void
begin_target(LookupJoin *join, JoinTarget *target, List *plan)
{
	List	   *oids = list_nth(plan, HM_TARGET_OIDS);
	List	   *share = list_nth(plan, HM_TARGET_SHARE);
	ListCell   *cell;

	target->table_oid = linitial_oid(oids);
	target->index_oid = lsecond_oid(oids);
	target->share.hash = lthird_oid(oids);
	target->share.low = join_halves(share, 0);
	target->share.high = join_halves(share, 2);
	target->share.modulus = (uint64) list_nth_int(share, 4);
	target->share.remainder = (uint64) list_nth_int(share, 5);
	target->columns = palloc(Max(1, join->column_count) * sizeof(int));
	foreach(cell, (List *) list_nth(plan, HM_TARGET_COLUMNS))
	{
		target->columns[foreach_current_index(cell)] = lfirst_int(cell);
		target->last = Max(target->last, lfirst_int(cell));
	}
}

/*
 * The inner side's range table index.  The scan tuple always has the inner side's key, so
 * it has a Var of the inner side.
 */
static Index
inner_relid(LookupJoin *join)
{
	CustomScan *plan = (CustomScan *) join->node.css.ss.ps.plan;
	int			column = 0;

	while (join->sources[column] > 0)
		column++;
	return castNode(Var, list_nth_node(TargetEntry, plan->custom_scan_tlist, column)->expr)->varno;
}

/* Set up those targets that are not pruned for good. */
static void
begin_targets(LookupJoin *join)
{
	CustomScan *plan = (CustomScan *) join->node.css.ss.ps.plan;
	List	   *targets = list_nth(plan->custom_private, HM_JOIN_TARGETS);
	Bitmapset  *needed = hm_pruning_begin(&join->pruning, &join->node.css.ss.ps,
										  list_nth(plan->custom_private, HM_JOIN_PRUNING),
										  list_nth(plan->custom_exprs, HM_JOIN_PRUNE_STEPS),
										  inner_relid(join), list_length(targets));
	int			number = -1;

	join->several_targets = list_length(targets) > 1;
	join->targets = palloc0(list_length(targets) * sizeof(JoinTarget));
	while ((number = bms_next_member(needed, number)) >= 0)
		begin_target(join, &join->targets[join->target_count++], list_nth(targets, number));
	join->pruned = list_length(targets) - join->target_count;
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	LookupJoin *join = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *flags = list_nth(plan->custom_private, HM_JOIN_FLAGS);
	List	   *quals = list_nth(plan->custom_exprs, HM_JOIN_QUALS);
	PlanState  *outer_plan = ExecInitNode(linitial(plan->custom_plans), estate, eflags);

	node->custom_ps = list_make1(outer_plan);
	join->type = (JoinType) linitial_int(flags);
	join->one_match = join->type == JOIN_SEMI || join->type == JOIN_ANTI;
	join->keeps_unmatched = join->type == JOIN_LEFT || join->type == JOIN_ANTI;
	join->index_only = lsecond_int(flags) != 0;
	join->key_type = hm_key_type_lookup((Oid) lthird_int(flags));
	join->first_rows = lfourth_int(flags) != 0;
	begin_sources(join, list_nth(plan->custom_private, HM_JOIN_SOURCES));
	join->inner_quals = ExecInitQual(list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS),
									 &node->ss.ps);
	join->quals = ExecInitQual(quals, &node->ss.ps);
	join->other_quals =
		ExecInitQual(list_difference(quals, list_nth(plan->custom_exprs, HM_JOIN_KEY_CLAUSES)),
					 &node->ss.ps);
	begin_targets(join);
	join->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup join",
										  ALLOCSET_DEFAULT_SIZES);
	join->fetch_context = AllocSetContextCreate(CurrentMemoryContext,
												"harmonia lookup join target",
												ALLOCSET_DEFAULT_SIZES);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	begin_keys(join, list_nth(plan->custom_private, HM_JOIN_KEYS),
			   list_nth(plan->custom_exprs, HM_JOIN_ARGUMENTS));
	join->outer_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(outer_plan),
											  &TTSOpsMinimalTuple);
	hm_join_restart(join);
}

static void
end_join(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;

	hm_join_end_fetch(join);
	for (int i = 0; i < join->target_count; i++)
	{
		if (join->targets[i].table == NULL)
			continue;
		index_close(join->targets[i].index, NoLock);
		table_close(join->targets[i].table, NoLock);
	}
	ExecEndNode(linitial(node->custom_ps));
}

static void
rescan(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;
	PlanState  *outer_plan = linitial(node->custom_ps);

	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(outer_plan, node->ss.ps.chgParam);
	if (outer_plan->chgParam == NULL)
		ExecReScan(outer_plan);
	if (join->node.fetch != NULL)
		hm_fetch_stop(join->node.fetch);
	hm_pruning_rescan(&join->pruning, node->ss.ps.chgParam);
	hm_join_restart(join);
}

static const char *
join_name(JoinType type)
{
	switch (type)
	{
		case JOIN_LEFT:
			return "Left";
		case JOIN_SEMI:
			return "Semi";
		case JOIN_ANTI:
			return "Anti";
		default:
			return "Inner";
	}
}

/*
 * Show the inner table as the query names it, and the indexes of its targets.  Targets
 * that were pruned when the node began are only counted, as "Subplans Removed", as an
 * Append does.
 */
static void
explain_targets(LookupJoin *join, ExplainState *es)
{
	Index		inner = inner_relid(join);
	List	   *indexes = NIL;
	List	   *tables = NIL;
	Bitmapset  *unused = NULL;

	hm_explain_table(inner, es);
	for (int i = 0; i < join->target_count; i++)
	{
		indexes = lappend_oid(indexes, join->targets[i].index_oid);
		tables = lappend_oid(tables, join->targets[i].table_oid);

		/* Parallel workers do not tell which targets they used. */
		if (es->analyze && join->targets[i].table == NULL &&
			join->node.css.ss.ps.worker_instrument == NULL)
			unused = bms_add_member(unused, i);
	}
	if (list_member_oid(tables, rt_fetch(inner, es->rtable)->relid) && !join->several_targets)
		hm_explain_index(linitial_oid(indexes), es);
	else if (tables != NIL || es->format != EXPLAIN_FORMAT_TEXT)
		hm_explain_indexes(indexes, tables, unused, es);
	if (join->pruned > 0 || (join->several_targets && es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyInteger("Subplans Removed", NULL, join->pruned, es);
}

static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupJoin *join = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *keys = list_nth(plan->custom_exprs, HM_JOIN_KEY_CLAUSES);
	List	   *quals = list_nth(plan->custom_exprs, HM_JOIN_QUALS);

	ExplainPropertyText("Join Type", join_name(join->type), es);
	explain_targets(join, es);
	hm_explain_clauses("Index Cond", keys, node, ancestors, es);
	hm_explain_clauses("Inner Filter", list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS),
					   node, ancestors, es);
	hm_explain_clauses("Join Filter", list_difference(quals, keys), node, ancestors, es);
	if (join->index_only)
		ExplainPropertyBool("Index Only", true, es);
	if (es->analyze)
	{
		hm_explain_filtered("Rows Removed by Join Filter", node, es);
		hm_explain_stats(&join->node, es);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = exec_join,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = hm_node_estimate_dsm,
	.InitializeDSMCustomScan = hm_node_initialize_dsm,
	.ReInitializeDSMCustomScan = hm_node_reinitialize_dsm,
	.InitializeWorkerCustomScan = hm_node_initialize_worker,
	.ShutdownCustomScan = hm_node_shutdown,
	.ExplainCustomScan = explain,
};

static Node *
create_state(CustomScan *plan)
{
	LookupJoin *join = palloc0(sizeof(LookupJoin));

	NodeSetTag(join, T_CustomScanState);
	join->node.css.methods = &exec_methods;
	return (Node *) join;
}

const CustomScanMethods hm_lookup_join_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.CreateCustomScanState = create_state,
};
