/*
 * sink.h
 *		Going through the hits of a lookup node: what the files sink_*.c have in common.
 *
 * These functions are called for each row, so they are compiled into each of these files.
 *
 * Conditions that are left, which are the inner side's restrictions and join clauses, are
 * evaluated on the scan slot, whose columns the planner has chosen.  The fetch returns
 * only tuples whose key is one of the probe's.  So the key clauses are evaluated only if
 * some probe of the batch has keys that do not satisfy them (LookupBatch.exact).
 */
#ifndef HARMONIA_EXEC_SINK_H
#define HARMONIA_EXEC_SINK_H

#include "access/htup_details.h"
#include "miscadmin.h"
#include "utils/rel.h"

#include "exec/lookup_node.h"

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
fill_outer(LookupNode *lookup, const SlotFill *fill, uint32 row)
{
	TupleTableSlot *slot = fill->slot;

	for (int i = 0; i < fill->outer_count; i++)
	{
		int to = fill->outer_to[i];

		slot->tts_values[to] =
			hm_row_value(&lookup->batch.rows, row, fill->outer_from[i], &slot->tts_isnull[to]);
	}
}

/* The same with the columns of the target's tuple, which is in a slot. */
static inline void
fill_from_slot(LookupNode *lookup, const SlotFill *fill, TupleTableSlot *inner)
{
	const SearchTarget *target = &lookup->targets[lookup->target];
	TupleTableSlot *slot = fill->slot;

	slot_getsomeattrs(inner, target->last);
	for (int i = 0; i < fill->inner_count; i++)
	{
		int to = fill->inner_to[i];
		int column = target->columns[fill->inner_from[i]];

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
fill_inner(LookupNode *lookup, const SlotFill *fill)
{
	const HmRun *run = lookup->run;
	uint32 match = lookup->match - 1;
	const SearchTarget *target = &lookup->targets[lookup->target];
	TupleTableSlot *slot = fill->slot;

	if (fill->inner_count == 0)
		return;
	if (lookup->plan.index_only)
	{
		for (int i = 0; i < fill->inner_count; i++)
		{
			int to = fill->inner_to[i];

			slot->tts_values[to] = hm_fetch_column(
				lookup->node.fetch, match, (AttrNumber) target->columns[fill->inner_from[i]],
				&slot->tts_isnull[to]);
		}
	}
	else if (target->by_slot || run->slot != NULL)
	{
		if (lookup->inner_slot == NULL)
			lookup->inner_slot =
				run->slot != NULL ? run->slot : hm_fetch_store(lookup->node.fetch, match);
		fill_from_slot(lookup, fill, lookup->inner_slot);
	}
	else
	{
		HeapTuple tuple = unconstify(HeapTupleData *, &run->tuples[match]);
		TupleDesc desc = RelationGetDescr(target->table);

		for (int i = 0; i < fill->inner_count; i++)
		{
			int to = fill->inner_to[i];

			slot->tts_values[to] = heap_getattr(tuple, target->columns[fill->inner_from[i]], desc,
												&slot->tts_isnull[to]);
		}
	}
}

/* Set the columns of the inner side to NULL. */
static inline void
fill_no_inner(const SlotFill *fill)
{
	for (int i = 0; i < fill->inner_count; i++)
		fill->slot->tts_isnull[fill->inner_to[i]] = true;
}

/* Fill a slot from an outer row and, with_inner, from the match. */
static inline void
fill_slot(LookupNode *lookup, const SlotFill *fill, uint32 row, bool with_inner)
{
	begin_slot(fill->slot);
	fill_outer(lookup, fill, row);
	if (with_inner)
		fill_inner(lookup, fill);
	else
		fill_no_inner(fill);
}

/* Fill in the columns of the scan slot that are computed of the match. */
static inline void
compute_columns(LookupNode *lookup, bool with_inner)
{
	TupleTableSlot *slot = lookup->candidate.slot;
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	for (int i = 0; i < lookup->computed_count; i++)
	{
		const ComputedColumn *computed = &lookup->computed[i];

		slot->tts_isnull[computed->column] = true;
		if (with_inner)
			slot->tts_values[computed->column] = ExecEvalExprSwitchContext(
				computed->expr, econtext, &slot->tts_isnull[computed->column]);
	}
}

/* Put the match, of a scan of one table, in the scan slot. */
static inline void
store_match(LookupNode *lookup)
{
	TupleTableSlot *slot = lookup->candidate.slot;

	if (!lookup->plan.index_only)
	{
		hm_fetch_store(lookup->node.fetch, lookup->match - 1);
		return;
	}
	begin_slot(slot);
	fill_inner(lookup, &lookup->candidate);

	/* WHERE CURRENT OF asks for the TID. */
	slot->tts_tableOid = lookup->targets[0].table_oid;
	hm_fetch_tid(lookup->node.fetch, lookup->match - 1, &slot->tts_tid);
}

/* Put the match, with its outer row, in the scan slot. */
static inline void
fill_candidate(LookupNode *lookup, uint32 row)
{
	if (lookup->is_table)
		store_match(lookup);
	else
		fill_slot(lookup, &lookup->candidate, row, true);
}

/* ----------------------------------------------------------------
 *		Matches
 * ----------------------------------------------------------------
 */

/* Whether the candidate satisfies the inner side's restrictions and the join clauses. */
static inline bool
is_match(LookupNode *lookup)
{
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = lookup->candidate.slot;
	if (ExecQual(lookup->inner_quals, econtext) &&
		ExecQual(lookup->batch.exact ? lookup->other_quals : lookup->quals, econtext))
		return true;
	InstrCountFiltered2(lookup, 1);
	ResetExprContext(econtext);
	return false;
}

/* Whether there are matches at hand.  Reads the target's next run if need be. */
static inline bool
has_run(LookupNode *lookup)
{
	if (lookup->run != NULL && lookup->match < lookup->run->count)
		return true;
	lookup->run = lookup->node.fetch != NULL ? hm_fetch_run(lookup->node.fetch) :
											   lookup->search->next_run(lookup);
	lookup->match = 0;
	if (lookup->run == NULL)
		return false;
	hm_kept_prefetch(lookup);
	return true;
}

/*
 * Go to the run's next match that satisfies all conditions.  *row is its outer row.
 * Returns false if the run has no more.
 */
static inline bool
next_in_run(LookupNode *lookup, uint32 *row)
{
	while (lookup->match < lookup->run->count)
	{
		uint32 probe = lookup->run->probes[lookup->match++];

		*row = hm_probe_row(lookup->probes, probe);
		lookup->inner_slot = NULL;
		if (lookup->one_match && lookup->batch.matched[*row] != 0)
			continue;
		if (lookup->fills_candidate)
			fill_candidate(lookup, *row);
		if ((lookup->has_conditions || !lookup->batch.exact) && !is_match(lookup))
			continue;
		if (lookup->computed_count > 0)
			compute_columns(lookup, true);
		if (lookup->batch.matched != NULL)
			lookup->batch.matched[*row] = 1;
		if (lookup->probes->done != NULL)
			lookup->probes->done[probe] = 1;
		return true;
	}
	return false;
}

/* Whether a row of the batch is returned without a tuple of the inner side. */
static inline bool
is_wanted(const LookupNode *lookup, uint32 row)
{
	return lookup->batch.matched[row] == (lookup->plan.type == JOIN_SEMI);
}

/*
 * Go to the next row of the batch that is returned without a tuple of the inner side.
 * Returns false if there are no more.
 */
static inline bool
next_row(LookupNode *lookup, uint32 *row)
{
	while (lookup->row < lookup->batch.count)
	{
		*row = lookup->row++;
		if (!is_wanted(lookup, *row))
			continue;
		if (lookup->fills_candidate)
			fill_slot(lookup, &lookup->candidate, *row, false);
		if (lookup->computed_count > 0)
			compute_columns(lookup, false);
		return true;
	}
	return false;
}

/*
 * Whether the row in the candidate slot satisfies the quals above the join.
 */
static inline bool
satisfies_quals(LookupNode *lookup)
{
	PlanState *state = &lookup->node.css.ss.ps;

	if (state->qual == NULL)
		return true;
	state->ps_ExprContext->ecxt_scantuple = lookup->candidate.slot;
	if (ExecQual(state->qual, state->ps_ExprContext))
		return true;
	InstrCountFiltered1(lookup, 1);
	return false;
}

/*
 * Go to the next result: an outer row and, if *with_inner, the match.  Returns false if
 * there are no more in this phase.
 */
static inline bool
next_result(LookupNode *lookup, uint32 *row, bool *with_inner)
{
	*with_inner = lookup->phase == PHASE_MATCH;
	for (;;)
	{
		if (*with_inner ? !next_in_run(lookup, row) : !next_row(lookup, row))
			return false;
		if (satisfies_quals(lookup))
			return true;
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
	}
}

/*
 * The join's row that is made of an outer row and, with_inner, of the match.  The candidate slot
 * has been filled.  The row is valid until the next one (sink_rows.c).
 */
extern TupleTableSlot *hm_emit_row(LookupNode *lookup, uint32 row, bool with_inner);

/* Whether every match is a result. */
static inline bool
takes_all_matches(const LookupNode *lookup)
{
	return lookup->plan.type == JOIN_INNER && !lookup->has_conditions && lookup->batch.exact &&
		   lookup->node.css.ss.ps.qual == NULL;
}

#endif /* HARMONIA_EXEC_SINK_H */
