/*
 * lookup_join.c
 *		Executing a lookup join.
 *
 *			      +--> FILL: read outer rows, keep them, note their keys
 *			      |      |
 *			      |    MATCH: look the keys up; each visible tuple of the table
 *			      |      |    with its outer row is a candidate
 *			      |      |
 *			      |    UNMATCHED (left and antijoin): outer rows without a match
 *			      |      |
 *			      +------+---> DONE, when there are no more outer rows
 *
 * Batches start small and grow, so that a join that is not read to its end does
 * not do much in vain, up to what harmonia.batch_size and work_mem allow.
 *
 * Candidates are put together in the scan slot, whose columns the planner has
 * chosen, and all join clauses are evaluated on them, those with the key as
 * well: so the heap tuple has the last word.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/internal.h"

/* Rows of the first batch, and how much larger each next one is. */
#define FIRST_BATCH		1
#define BATCH_GROWTH	4

typedef enum JoinPhase
{
	PHASE_FILL,
	PHASE_MATCH,
	PHASE_UNMATCHED,
	PHASE_DONE
} JoinPhase;

/* A clause that finds entries. */
typedef struct JoinKey
{
	StrategyNumber strategy;
	HmPlaceFunction place;
	ExprState  *argument;
	int			column;			/* of the outer row, if the argument is just that,
								 * or 0 */
} JoinKey;

/* Outer rows and their probes. */
typedef struct JoinBatch
{
	uint32		room;
	uint32		rows;
	MinimalTuple *tuples;		/* in the batch's context */
	Size		bytes;			/* of them */
	bool	   *matched;
	uint32		probes;
	uint32	   *rows_of_probes;
	uint64	   *low;
	uint64	   *high;
	uint8	   *done;			/* for semijoins and antijoins */
} JoinBatch;

typedef struct LookupJoin
{
	HmNode		node;
	JoinType	type;
	bool		index_only;
	bool		points;			/* all probes are single keys */
	Relation	heap;
	Relation	index;
	const HmKeyType *key_type;

	int			key_count;
	JoinKey    *keys;
	ExprState  *inner_quals;
	ExprState  *quals;
	int			column_count;	/* of the scan tuple */
	int		   *sources;
	int			outer_last;		/* last column of each side that is needed */
	int			inner_last;

	JoinPhase	phase;
	bool		outer_done;
	uint32		limit;			/* rows of the next batch */
	uint32		max_limit;
	MemoryContext context;		/* for the rows of a batch */
	JoinBatch	batch;
	TupleTableSlot *outer_slot;
	uint32		unmatched;		/* row that PHASE_UNMATCHED has come to */
} LookupJoin;

/* ----------------------------------------------------------------
 *		The scan slot
 * ----------------------------------------------------------------
 */

/* Begin a candidate: the columns of an outer row, all others NULL. */
static TupleTableSlot *
store_outer(LookupJoin *join, TupleTableSlot *outer)
{
	TupleTableSlot *slot = join->node.css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
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

/* Complete it: the columns of the table's tuple, or the key that stands for it. */
static void
store_inner(LookupJoin *join, TupleTableSlot *inner, Datum key)
{
	TupleTableSlot *slot = join->node.css.ss.ss_ScanTupleSlot;

	if (inner != NULL)
		slot_getsomeattrs(inner, join->inner_last);
	for (int i = 0; i < join->column_count; i++)
	{
		int			source = -join->sources[i];

		if (source <= 0)
			continue;
		slot->tts_values[i] = inner != NULL ? inner->tts_values[source - 1] : key;
		slot->tts_isnull[i] = inner != NULL ? inner->tts_isnull[source - 1] : false;
	}
}

/* The scan slot holds a row of the result, but for the quals above the join. */
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
 *		Filling a batch
 * ----------------------------------------------------------------
 */

/* Make room for a batch of "limit" rows, in the query's memory. */
static void
make_room(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	MemoryContext old_context;

	if (batch->room >= join->limit)
		return;
	if (batch->room > 0)
	{
		pfree(batch->tuples);
		pfree(batch->matched);
		pfree(batch->rows_of_probes);
		pfree(batch->low);
		pfree(batch->high);
		pfree(batch->done);
	}
	old_context = MemoryContextSwitchTo(join->node.css.ss.ps.state->es_query_cxt);
	batch->room = join->limit;
	batch->tuples = palloc_extended(batch->room * sizeof(MinimalTuple), MCXT_ALLOC_HUGE);
	batch->matched = palloc_extended(batch->room * sizeof(bool), MCXT_ALLOC_HUGE);
	batch->rows_of_probes = palloc_extended(batch->room * sizeof(uint32), MCXT_ALLOC_HUGE);
	batch->low = palloc_extended(batch->room * sizeof(uint64), MCXT_ALLOC_HUGE);
	batch->high = palloc_extended(batch->room * sizeof(uint64), MCXT_ALLOC_HUGE);
	batch->done = palloc_extended(batch->room, MCXT_ALLOC_HUGE);
	MemoryContextSwitchTo(old_context);
}

/* The range of keys that an outer row is looked up by; false if none can match. */
static bool
row_range(LookupJoin *join, TupleTableSlot *outer, uint64 *low, uint64 *high)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	uint64		max = ht_key_max(join->key_type->width);
	bool		stored = false;

	*low = 0;
	*high = max;
	for (int i = 0; i < join->key_count; i++)
	{
		JoinKey    *key = &join->keys[i];
		bool		is_null;
		Datum		value;
		HmPlace		place;
		uint64		key_low,
					key_high;

		if (key->column > 0)
			value = slot_getattr(outer, key->column, &is_null);
		else
		{
			if (!stored)
				econtext->ecxt_scantuple = store_outer(join, outer);
			stored = true;
			value = ExecEvalExprSwitchContext(key->argument, econtext, &is_null);
		}
		if (is_null)
			return false;
		place = key->place(join->key_type, value);
		if (!hm_place_range(key->strategy, &place, max, &key_low, &key_high))
			return false;
		*low = Max(*low, key_low);
		*high = Min(*high, key_high);
	}
	return *low <= *high;
}

/* Add an outer row to the batch, unless it cannot be part of the result. */
static void
add_row(LookupJoin *join, TupleTableSlot *outer)
{
	JoinBatch  *batch = &join->batch;
	uint64		low,
				high;
	bool		found = row_range(join, outer, &low, &high);
	MemoryContext old_context;

	if (!found && join->type != JOIN_LEFT && join->type != JOIN_ANTI)
		return;
	if (found)
	{
		batch->low[batch->probes] = low;
		batch->high[batch->probes] = high;
		batch->done[batch->probes] = 0;
		batch->rows_of_probes[batch->probes++] = batch->rows;
		join->points &= low == high;
	}
	old_context = MemoryContextSwitchTo(join->context);
	batch->tuples[batch->rows] = ExecCopySlotMinimalTuple(outer);
	MemoryContextSwitchTo(old_context);
	batch->bytes += batch->tuples[batch->rows]->t_len;
	batch->matched[batch->rows++] = false;
}

/* Read the next outer rows; false if there are none left. */
static bool
fill_batch(LookupJoin *join)
{
	PlanState  *outer_plan = linitial(join->node.css.custom_ps);
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	JoinBatch  *batch = &join->batch;
	Size		memory = (Size) work_mem * 1024;
	HmProbes	probes = {0};

	MemoryContextReset(join->context);
	make_room(join);
	batch->rows = batch->probes = 0;
	batch->bytes = 0;
	join->points = true;

	/* Wide rows make a batch smaller. */
	while (batch->rows < join->limit && batch->bytes <= memory && !join->outer_done)
	{
		TupleTableSlot *outer = ExecProcNode(outer_plan);

		if (TupIsNull(outer))
		{
			join->outer_done = true;
			break;
		}
		ResetExprContext(econtext);
		add_row(join, outer);
	}
	join->limit = Min(join->limit * BATCH_GROWTH, join->max_limit);
	if (batch->rows == 0)
		return false;

	probes.count = batch->probes;
	probes.low = batch->low;
	probes.high = join->points ? NULL : batch->high;
	hm_fetch_start(join->node.fetch, &probes,
				   join->type == JOIN_SEMI || join->type == JOIN_ANTI ? batch->done : NULL);
	return true;
}

/* ----------------------------------------------------------------
 *		Candidates
 * ----------------------------------------------------------------
 */

/* Put an outer row of the batch in the scan slot. */
static void
store_row(LookupJoin *join, uint32 row)
{
	ExecStoreMinimalTuple(join->batch.tuples[row], join->outer_slot, false);
	store_outer(join, join->outer_slot);
}

/* The next pair that satisfies the join clauses, in the scan slot; or false. */
static bool
next_match(LookupJoin *join, uint32 *row)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	JoinBatch  *batch = &join->batch;
	TupleTableSlot *inner;
	Datum		key;
	uint32		probe;

	while (hm_fetch_next(join->node.fetch, &probe, &inner, &key))
	{
		*row = batch->rows_of_probes[probe];
		if (batch->done[probe])
			continue;
		ResetExprContext(econtext);
		store_row(join, *row);
		store_inner(join, inner, key);
		econtext->ecxt_scantuple = join->node.css.ss.ss_ScanTupleSlot;
		if (ExecQual(join->inner_quals, econtext) && ExecQual(join->quals, econtext))
		{
			batch->matched[*row] = true;
			if (join->type == JOIN_SEMI || join->type == JOIN_ANTI)
				batch->done[probe] = 1;
			return true;
		}
		InstrCountFiltered2(join, 1);
	}
	return false;
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
				join->phase = fill_batch(join) ? PHASE_MATCH : PHASE_DONE;
				break;

			case PHASE_MATCH:
				if (!next_match(join, &row))
				{
					join->unmatched = 0;
					join->phase = join->type == JOIN_LEFT || join->type == JOIN_ANTI ?
						PHASE_UNMATCHED : PHASE_FILL;
				}
				else if (join->type != JOIN_ANTI && (result = emit(join)) != NULL)
					return result;
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
restart(LookupJoin *join)
{
	join->phase = PHASE_FILL;
	join->outer_done = false;
	join->limit = Min(FIRST_BATCH, join->max_limit);
	join->batch.rows = join->batch.probes = 0;
	MemoryContextReset(join->context);
}

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
		key->place = hm_place_function(join->key_type->type,
									   (Oid) list_nth_int(descriptions, 2 * i + 1));
		if (key->place == NULL)
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
		join->inner_last = Max(join->inner_last, -source);
	}
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	LookupJoin *join = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *oids = list_nth(plan->custom_private, HM_JOIN_OIDS);
	List	   *flags = list_nth(plan->custom_private, HM_JOIN_FLAGS);
	PlanState  *outer_plan = ExecInitNode(linitial(plan->custom_plans), estate, eflags);

	node->custom_ps = list_make1(outer_plan);
	join->type = (JoinType) linitial_int(flags);
	join->index_only = lsecond_int(flags) != 0;
	begin_sources(join, list_nth(plan->custom_private, HM_JOIN_SOURCES));
	join->inner_quals = ExecInitQual(list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS),
									 &node->ss.ps);
	join->quals = ExecInitQual(list_nth(plan->custom_exprs, HM_JOIN_QUALS), &node->ss.ps);
	join->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup join",
										  ALLOCSET_DEFAULT_SIZES);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	/* The planner or the plan cache has locked them; a parallel worker has not. */
	join->heap = table_open(linitial_oid(oids), AccessShareLock);
	join->index = index_open(lsecond_oid(oids), AccessShareLock);
	join->key_type = hm_key_type(join->index);
	begin_keys(join, list_nth(plan->custom_private, HM_JOIN_KEYS),
			   list_nth(plan->custom_exprs, HM_JOIN_ARGUMENTS));
	join->node.fetch = hm_fetch_create(join->heap, join->index, estate->es_snapshot,
								  join->index_only, NULL);
	join->outer_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(outer_plan),
											  &TTSOpsMinimalTuple);
	join->max_limit = (uint32)
		Max(FIRST_BATCH,
			Min((Size) hm_batch_size,
				(Size) work_mem * 1024 / (hm_lookup_memory(1000) / 1000 + 64)));
	restart(join);
}

static void
end_join(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;

	if (join->node.fetch != NULL)
		hm_fetch_end(join->node.fetch);
	if (join->index != NULL)
		index_close(join->index, AccessShareLock);
	if (join->heap != NULL)
		table_close(join->heap, NoLock);
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
	hm_fetch_stop(join->node.fetch);
	restart(join);
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

static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupJoin *join = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *keys = list_nth(plan->custom_exprs, HM_JOIN_KEY_CLAUSES);
	List	   *quals = list_nth(plan->custom_exprs, HM_JOIN_QUALS);

	ExplainPropertyText("Join Type", join_name(join->type), es);
	hm_explain_index(lsecond_oid(list_nth(plan->custom_private, HM_JOIN_OIDS)), es);
	hm_explain_clauses("Index Cond", keys, node, ancestors, es);
	hm_explain_clauses("Inner Filter", list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS),
					   node, ancestors, es);
	hm_explain_clauses("Join Filter", list_difference(quals, keys), node, ancestors, es);
	if (join->index_only)
		ExplainPropertyBool("Index Only", true, es);
	if (es->analyze && join->node.fetch != NULL)
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
