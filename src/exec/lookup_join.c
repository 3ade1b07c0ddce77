/*
 * lookup_join.c
 *		Executing a lookup join.
 *
 *		+----> FILL: read a batch of outer rows; compute their probes
 *		|        |
 *		|      TARGET: start to look the probes up in the next target <--+
 *		|        |   \                                                   |
 *		|        |    MATCH: the visible tuples that the fetch returns,--+
 *		|        |           with their outer rows, are candidates
 *		|        |
 *		|      ROWS (not inner joins): outer rows, in their order: those with a match
 *		|        |      (semijoin), or without one (left and antijoin)
 *		|        |
 *		+--------+-----> DONE, when there are no more outer rows
 *
 * Conditions that are left, which are the inner side's restrictions and join clauses, are
 * evaluated on the scan slot, whose columns the planner has chosen.  The fetch returns
 * only tuples whose key is one of the probe's.  So the key clauses are evaluated only if
 * some probe of the batch has keys that do not satisfy them (JoinBatch.exact).
 *
 * Outer rows with equal keys may count as one row, as in IN (SELECT ...).  FILL then reads
 * all outer rows, keeps their keys, and takes the batches from these (distinct_keys.c).
 *
 * A join that has no conditions and computes nothing fills its result straight from the
 * kept columns and the tuple.  Only those columns are filled that somebody reads.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "exec/lookup_join.h"

/*
 * How many hits before its match an outer row is prefetched.  Hits come in the order of
 * keys or of the heap, so their outer rows are scattered over the batch.  A batch with
 * fewer rows fits into the cache.
 */
#define ROW_AHEAD		64
#define AHEAD_MIN_ROWS	1000

/* ----------------------------------------------------------------
 *		Slots
 * ----------------------------------------------------------------
 */

/* Begin to fill a slot.  What ExecMaterializeSlot() may have done to it is undone. */
static inline void
begin_slot(TupleTableSlot *slot)
{
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = (AttrNumber) slot->tts_tupleDescriptor->natts;
}

static inline void
fill_outer(LookupJoin *join, const JoinFill *fill, uint32 row)
{
	TupleTableSlot *slot = fill->slot;

	for (int i = 0; i < fill->outer_count; i++)
	{
		int			to = fill->outer_to[i];

		slot->tts_values[to] = hm_row_value(&join->batch.rows, row, fill->outer_from[i],
											&slot->tts_isnull[to]);
	}
}

/* The same with the columns of the target's tuple, which is in a slot. */
static void
fill_from_slot(LookupJoin *join, const JoinFill *fill, TupleTableSlot *inner)
{
	const JoinTarget *target = &join->targets[join->target];
	TupleTableSlot *slot = fill->slot;

	slot_getsomeattrs(inner, target->last);
	for (int i = 0; i < fill->inner_count; i++)
	{
		int			to = fill->inner_to[i];
		int			column = target->columns[fill->inner_from[i]];

		if (column > 0)
		{
			slot->tts_values[to] = inner->tts_values[column - 1];
			slot->tts_isnull[to] = inner->tts_isnull[column - 1];
		}
		else
			slot->tts_values[to] = slot_getsysattr(inner, column, &slot->tts_isnull[to]);
	}
}

/*
 * Fill in the columns of the target's tuple, which is the run's last match that has been
 * taken.  If the join is index-only, they are columns of the index.
 */
static inline void
fill_inner(LookupJoin *join, const JoinFill *fill)
{
	const HmRun *run = join->run;
	uint32		match = join->match - 1;
	const JoinTarget *target = &join->targets[join->target];
	TupleTableSlot *slot = fill->slot;

	if (fill->inner_count == 0)
		return;
	if (join->index_only)
	{
		for (int i = 0; i < fill->inner_count; i++)
		{
			int			to = fill->inner_to[i];

			slot->tts_values[to] = hm_fetch_column(join->node.fetch, match,
												   (AttrNumber) target->columns[fill->inner_from[i]],
												   &slot->tts_isnull[to]);
		}
	}
	else if (target->by_slot || run->slot != NULL)
	{
		if (join->inner_slot == NULL)
			join->inner_slot = hm_fetch_store(join->node.fetch, match);
		fill_from_slot(join, fill, join->inner_slot);
	}
	else
	{
		HeapTuple	tuple = unconstify(HeapTupleData *, &run->tuples[match]);
		TupleDesc	desc = RelationGetDescr(target->table);

		for (int i = 0; i < fill->inner_count; i++)
		{
			int			to = fill->inner_to[i];

			slot->tts_values[to] = heap_getattr(tuple, target->columns[fill->inner_from[i]],
												desc, &slot->tts_isnull[to]);
		}
	}
}

/* Set the columns of the inner side to NULL. */
static inline void
fill_no_inner(const JoinFill *fill)
{
	for (int i = 0; i < fill->inner_count; i++)
		fill->slot->tts_isnull[fill->inner_to[i]] = true;
}

/* Fill a slot from an outer row and, with_inner, from the match. */
static inline void
fill_slot(LookupJoin *join, const JoinFill *fill, uint32 row, bool with_inner)
{
	begin_slot(fill->slot);
	fill_outer(join, fill, row);
	if (with_inner)
		fill_inner(join, fill);
	else
		fill_no_inner(fill);
}

/*
 * Whether the row in the candidate slot satisfies the quals above the join.
 */
static inline bool
satisfies_quals(LookupJoin *join)
{
	PlanState  *state = &join->node.css.ss.ps;

	if (state->qual == NULL)
		return true;
	state->ps_ExprContext->ecxt_scantuple = join->candidate.slot;
	if (ExecQual(state->qual, state->ps_ExprContext))
		return true;
	InstrCountFiltered1(join, 1);
	return false;
}

/*
 * Return the join's row that is made of an outer row and, with_inner, of the match.  The
 * candidate slot has been filled.
 */
static inline TupleTableSlot *
emit(LookupJoin *join, uint32 row, bool with_inner)
{
	PlanState  *state = &join->node.css.ss.ps;

	if (join->result.slot != NULL)
	{
		fill_slot(join, &join->result, row, with_inner);
		return join->result.slot;
	}
	state->ps_ExprContext->ecxt_scantuple = join->candidate.slot;
	return ExecProject(state->ps_ProjInfo);
}

/* ----------------------------------------------------------------
 *		Matches
 * ----------------------------------------------------------------
 */

/*
 * A run has come: prefetch the outer rows of hits that are ROW_AHEAD ahead, as many as the
 * run has; or of the run itself, if it is so long that this has not been done.
 */
static void
prefetch_rows(LookupJoin *join)
{
	const HmRun *run = join->run;
	const JoinRows *rows = &join->batch.rows;
	const JoinProbes *probes = join->probes;
	uint32		probe;

	if (rows->count == 0 || join->batch.count < AHEAD_MIN_ROWS || run->in_order)
		return;
	for (uint32 i = 0; run->count >= ROW_AHEAD && i < run->count; i++)
		hm_row_prefetch(rows, hm_probe_row(probes, run->probes[i]));
	for (uint32 i = run->count; i > 0 && run->count < ROW_AHEAD; i--)
	{
		if (!hm_fetch_peek(join->node.fetch, ROW_AHEAD - i, &probe))
			break;
		hm_row_prefetch(rows, hm_probe_row(probes, probe));
	}

	/* The rows' own lines have been asked for before. */
	for (uint32 i = 0; rows->references && i < run->count; i++)
		hm_row_prefetch_copies(rows, hm_probe_row(probes, run->probes[i]));
}

/* Whether the candidate satisfies the inner side's restrictions and the join clauses. */
static inline bool
is_match(LookupJoin *join)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = join->candidate.slot;
	if (ExecQual(join->inner_quals, econtext) &&
		ExecQual(join->batch.exact ? join->other_quals : join->quals, econtext))
		return true;
	InstrCountFiltered2(join, 1);
	ResetExprContext(econtext);
	return false;
}

/* Whether there are matches at hand.  Reads the target's next run if need be. */
static inline bool
has_run(LookupJoin *join)
{
	if (join->run != NULL && join->match < join->run->count)
		return true;
	join->run = hm_fetch_run(join->node.fetch);
	join->match = 0;
	if (join->run == NULL)
		return false;
	prefetch_rows(join);
	return true;
}

/*
 * Go to the run's next match that satisfies all conditions.  *row is its outer row.
 * Returns false if the run has no more.
 */
static inline bool
next_in_run(LookupJoin *join, uint32 *row)
{
	while (join->match < join->run->count)
	{
		uint32		probe = join->run->probes[join->match++];

		*row = hm_probe_row(join->probes, probe);
		join->inner_slot = NULL;
		if (join->one_match && join->batch.matched[*row] != 0)
			continue;
		if (join->fills_candidate)
			fill_slot(join, &join->candidate, *row, true);
		if ((join->has_conditions || !join->batch.exact) && !is_match(join))
			continue;
		if (join->batch.matched != NULL)
			join->batch.matched[*row] = 1;
		if (join->probes->done != NULL)
			join->probes->done[probe] = 1;
		return true;
	}
	return false;
}

/* The same where every match of the fetch is one: nothing is read of the outer rows. */
static void
mark_all_matches(LookupJoin *join)
{
	const JoinProbes *probes = join->probes;
	uint8	   *matched = join->batch.matched;

	hm_fetch_mark(join->node.fetch, probes->done);
	if (probes->done == matched)
		return;
	for (uint32 i = 0; i < probes->count; i++)
		matched[hm_probe_row(probes, i)] |= probes->done[i];
}

/* Find all matches of the target, for joins that return none of them. */
static void
mark_matches(LookupJoin *join)
{
	uint32		row;

	if (!join->has_conditions && join->batch.exact)
	{
		mark_all_matches(join);
		return;
	}
	while (has_run(join))
	{
		while (next_in_run(join, &row))
			ResetExprContext(join->node.css.ss.ps.ps_ExprContext);
	}
}

/* Whether rows of the batch are returned without a tuple of the inner side, after all matches have been found. */
static inline bool
returns_rows(const LookupJoin *join)
{
	return join->keeps_unmatched || join->marks;
}

/* Whether a row of the batch is returned without a tuple of the inner side. */
static inline bool
is_wanted(const LookupJoin *join, uint32 row)
{
	return join->batch.matched[row] == (join->type == JOIN_SEMI);
}

/*
 * Go to the next row of the batch that is returned without a tuple of the inner side.
 * Returns false if there are no more.
 */
static inline bool
next_row(LookupJoin *join, uint32 *row)
{
	while (join->row < join->batch.count)
	{
		*row = join->row++;
		if (!is_wanted(join, *row))
			continue;
		if (join->fills_candidate)
			fill_slot(join, &join->candidate, *row, false);
		return true;
	}
	return false;
}

/*
 * Go to the next result: an outer row and, if *with_inner, the match.  Returns false if
 * there are no more in this phase.
 */
static inline bool
next_result(LookupJoin *join, uint32 *row, bool *with_inner)
{
	*with_inner = join->phase == PHASE_MATCH;
	for (;;)
	{
		if (*with_inner ? !next_in_run(join, row) : !next_row(join, row))
			return false;
		if (satisfies_quals(join))
			return true;
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(join->node.css.ss.ps.ps_ExprContext);
	}
}

/* Whether every match is a result. */
static inline bool
takes_all_matches(const LookupJoin *join)
{
	return join->type == JOIN_INNER && !join->has_conditions && join->batch.exact &&
		join->node.css.ss.ps.qual == NULL;
}

/* Count the rows that are left of the batch and returned without a tuple of the inner side. */
static void
count_rows(LookupJoin *join)
{
	for (; join->row < join->batch.count; join->row++)
		join->counted += is_wanted(join, join->row);
}

/*
 * Go on to where there are results, or may be: to PHASE_MATCH with a run, to PHASE_ROWS,
 * or to PHASE_DONE.
 */
static void
go_on(LookupJoin *join)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (join->phase)
		{
			case PHASE_FILL:
				join->phase = hm_join_fill_batch(join) ? PHASE_TARGET : PHASE_DONE;
				break;

			case PHASE_TARGET:
				join->row = 0;
				if (hm_join_next_target(join))
					join->phase = PHASE_MATCH;
				else
					join->phase = returns_rows(join) ? PHASE_ROWS : PHASE_FILL;
				break;

			case PHASE_MATCH:
				if (join->marks)
					mark_matches(join);
				else if (join->counting && takes_all_matches(join))
					join->counted += hm_fetch_count(join->node.fetch);
				else if (has_run(join))
					return;
				join->phase = PHASE_TARGET;
				break;

			case PHASE_ROWS:
				if (join->counting && join->node.css.ss.ps.qual == NULL)
					count_rows(join);
				if (join->row < join->batch.count)
					return;
				join->phase = PHASE_FILL;
				break;

			case PHASE_DONE:
				return;
		}
	}
}

static TupleTableSlot *
exec_join(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;
	uint32		row;
	bool		with_inner;

	ResetExprContext(node->ss.ps.ps_ExprContext);
	for (;;)
	{
		go_on(join);
		if (join->phase == PHASE_DONE)
			return ExecClearTuple(node->ss.ps.ps_ResultTupleSlot);
		if (next_result(join, &row, &with_inner))
			return emit(join, row, with_inner);
	}
}

uint64
hm_lookup_join_count(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;
	uint64		count = 0;
	uint32		row;
	bool		with_inner;

	join->counting = true;
	join->counted = 0;
	for (go_on(join); join->phase != PHASE_DONE; go_on(join))
	{
		while (next_result(join, &row, &with_inner))
		{
			count++;
			ResetExprContext(node->ss.ps.ps_ExprContext);
		}
	}
	join->counting = false;
	return count + join->counted;
}

/* ----------------------------------------------------------------
 *		Blocks
 * ----------------------------------------------------------------
 */

bool
hm_lookup_join_has_blocks(const CustomScanState *node)
{
	return ((const LookupJoin *) node)->result.slot != NULL;
}

/* The next results of the run or the batch, at most "limit": their rows and matches. */
static uint32
next_results(LookupJoin *join, uint32 limit, uint32 *rows, uint32 *matches, bool *with_inner)
{
	uint32		count = 0;

	if (join->phase == PHASE_MATCH && takes_all_matches(join))
	{
		*with_inner = true;
		for (; count < limit && join->match < join->run->count; count++)
		{
			rows[count] = hm_probe_row(join->probes, join->run->probes[join->match]);
			matches[count] = join->match++;
		}
		return count;
	}
	if (join->phase == PHASE_ROWS && join->node.css.ss.ps.qual == NULL)
	{
		*with_inner = false;
		for (; count < limit && join->row < join->batch.count; join->row++)
		{
			rows[count] = join->row;
			count += is_wanted(join, join->row);
		}
		return count;
	}
	while (count < limit && next_result(join, &rows[count], with_inner))
	{
		matches[count++] = join->match - 1;
		ResetExprContext(join->node.css.ss.ps.ps_ExprContext);
	}
	return count;
}

uint32
hm_lookup_join_block(CustomScanState *node, HmColumn *columns, uint32 max)
{
	LookupJoin *join = (LookupJoin *) node;
	uint32		rows[HM_RUN_MAX];
	uint32		matches[HM_RUN_MAX];
	uint32		n = 0;

	while (n < max)
	{
		uint32		count;
		bool		with_inner = false;

		go_on(join);
		if (join->phase == PHASE_DONE)
			break;
		count = next_results(join, Min(max - n, HM_RUN_MAX), rows, matches, &with_inner);
		hm_join_put_results(join, columns, n, rows, matches, count, with_inner);
		n += count;
	}
	return n;
}

/* ----------------------------------------------------------------
 *		Beginning and end
 * ----------------------------------------------------------------
 */

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	LookupJoin *join = (LookupJoin *) node;

	if (((CustomScan *) node->ss.ps.plan)->custom_plans != NIL)
		hm_child_begin(node, estate, eflags);
	hm_join_begin(join, (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0);
	join->fetch_context = AllocSetContextCreate(CurrentMemoryContext,
												"harmonia lookup join target",
												ALLOCSET_DEFAULT_SIZES);
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		hm_join_restart(join);
}

static void
end_join(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;

	hm_join_end_fetch(join);
	if (join->distinct.sort != NULL)
		hm_distinct_reset(&join->distinct);
	for (int i = 0; i < join->target_count; i++)
	{
		if (join->targets[i].table == NULL)
			continue;
		index_close(join->targets[i].index, NoLock);
		table_close(join->targets[i].table, NoLock);
	}
	if (!hm_join_has_array(join))
		hm_child_end(node);
}

static void
rescan(CustomScanState *node)
{
	LookupJoin *join = (LookupJoin *) node;

	if (hm_join_has_array(join))
		hm_array_rescan(join, node->ss.ps.chgParam);
	else
		hm_child_rescan(node);
	if (join->node.fetch != NULL)
		hm_fetch_stop(join->node.fetch);
	hm_pruning_rescan(&join->pruning, node->ss.ps.chgParam);
	hm_join_restart(join);
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
	.ExplainCustomScan = hm_join_explain,
};

static Node *
create_state(CustomScan *plan)
{
	LookupJoin *join = palloc0(sizeof(LookupJoin));

	NodeSetTag(join, T_CustomScanState);
	join->node.css.methods = &exec_methods;
	return (Node *) join;
}

/* ----------------------------------------------------------------
 *		Lookup scans of partitioned tables
 * ----------------------------------------------------------------
 */

static const CustomExecMethods scan_exec_methods = {
	.CustomName = "HarmoniaLookupScan",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = exec_join,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = hm_array_estimate_dsm,
	.InitializeDSMCustomScan = hm_array_initialize_dsm,
	.ReInitializeDSMCustomScan = hm_array_reinitialize_dsm,
	.InitializeWorkerCustomScan = hm_array_initialize_worker,
	.ShutdownCustomScan = hm_array_shutdown,
	.ExplainCustomScan = hm_array_explain,
};

CustomScanState *
hm_create_partitioned_scan(void)
{
	LookupJoin *join = (LookupJoin *) create_state(NULL);

	join->node.css.methods = &scan_exec_methods;
	return &join->node.css;
}

const CustomScanMethods hm_lookup_join_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.CreateCustomScanState = create_state,
};
