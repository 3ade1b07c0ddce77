/*
 * recheck.c
 *		Joining single rows again, for EvalPlanQual.
 *
 * If a row that a statement changes or locks has been changed by another session meanwhile,
 * PostgreSQL runs the plan again, in an executor state of its own, in which the scan of each table
 * returns the row in question and no other.  There a lookup join looks nothing up.  It is a nested
 * loop over its outer plan and a second one, PostgreSQL's scan of the inner side, which nothing
 * else runs.
 *
 * postgres_fdw has a join of PostgreSQL's in that place.  A scan is enough, because all conditions
 * are in the lookup join's plan anyway; and the outer side need not be planned twice.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "exec/lookup_node.h"

void
hm_recheck_begin(LookupNode *lookup)
{
	LookupRecheck *recheck = &lookup->recheck;
	ListCell *cell;

	if (lookup->plan.recheck_columns == NIL || lookup->node.css.ss.ps.state->es_epq_active == NULL)
		return;
	recheck->columns = palloc0(lookup->column_count * sizeof(int));
	foreach (cell, lookup->plan.recheck_columns)
		recheck->columns[foreach_current_index(cell)] = lfirst_int(cell);
}

void
hm_recheck_restart(LookupNode *lookup)
{
	lookup->recheck.outer = NULL;
}

/* Go to the next outer row, and have the inner side start again.  Returns false at the end. */
static bool
next_outer(LookupNode *lookup)
{
	LookupRecheck *recheck = &lookup->recheck;
	TupleTableSlot *row = ExecProcNode(linitial(lookup->node.css.custom_ps));

	if (TupIsNull(row))
		return false;
	ExecReScan(lsecond(lookup->node.css.custom_ps));
	recheck->outer = row;
	recheck->matched = false;
	return true;
}

/* Fill the scan slot from both rows, or the outer one alone. */
static void
fill(LookupNode *lookup, TupleTableSlot *inner)
{
	LookupRecheck *recheck = &lookup->recheck;
	TupleTableSlot *slot = lookup->node.css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	for (int i = 0; i < lookup->column_count; i++)
	{
		slot->tts_isnull[i] = true;
		if (lookup->sources[i] > 0)
			slot->tts_values[i] =
				slot_getattr(recheck->outer, lookup->sources[i], &slot->tts_isnull[i]);
		else if (inner != NULL && recheck->columns[i] > 0)
			slot->tts_values[i] = slot_getattr(inner, recheck->columns[i], &slot->tts_isnull[i]);
	}
	ExecStoreVirtualTuple(slot);
	lookup->node.css.ss.ps.ps_ExprContext->ecxt_scantuple = slot;
}

/*
 * Go to the next row of the join, in the scan slot: a match, or an outer row that is kept without
 * one.  Returns false if there are no more.
 */
static bool
next_joined(LookupNode *lookup)
{
	LookupRecheck *recheck = &lookup->recheck;
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *inner;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (recheck->outer == NULL && !next_outer(lookup))
			return false;
		inner = ExecProcNode(lsecond(lookup->node.css.custom_ps));
		if (TupIsNull(inner))
		{
			bool is_kept = lookup->keeps_unmatched && !recheck->matched;

			fill(lookup, NULL);
			recheck->outer = NULL;
			if (is_kept)
				return true;
			continue;
		}
		fill(lookup, inner);
		if (!ExecQual(lookup->inner_one_time, econtext) || !ExecQual(lookup->quals, econtext))
			continue;
		recheck->matched = true;
		if (lookup->one_match)
			recheck->outer = NULL;
		if (lookup->plan.type != JOIN_ANTI)
			return true;
	}
}

TupleTableSlot *
hm_recheck_exec(LookupNode *lookup)
{
	PlanState *state = &lookup->node.css.ss.ps;

	while (ExecQual(lookup->one_time, state->ps_ExprContext) && next_joined(lookup))
	{
		if (!ExecQual(state->qual, state->ps_ExprContext))
			continue;
		if (state->ps_ProjInfo == NULL)
			return lookup->node.css.ss.ss_ScanTupleSlot;
		return ExecProject(state->ps_ProjInfo);
	}
	return ExecClearTuple(state->ps_ResultTupleSlot);
}
