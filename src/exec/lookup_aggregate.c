/*
 * lookup_aggregate.c
 *		Executing a lookup aggregate.
 *
 *		READ: a block of rows, from the lookup join or lookup scan below, as columns
 *		  |
 *		EVALUATE: each aggregate's input, where it is not a plain column
 *		  |
 *		GROUP: find or add each row's group           (with GROUP BY)
 *		  |
 *		ADD: each aggregate's input to its states
 *		  |
 *		EMIT: a row for each group, when no rows are left
 *
 * If the table of groups is full, rows of other groups are set aside in temporary files,
 * by the hash of their groups.  When the groups of the table have been returned, each
 * file is read like the rows below, one after the other, with an empty table.  That may
 * set rows aside again.  Each time at least some groups are done.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "exec/lookup_aggregate.h"

/* ----------------------------------------------------------------
 *		Inputs
 * ----------------------------------------------------------------
 */

/*
 * Evaluate an aggregate's input for the row in the scan slot.  A row that the filter
 * rejects has the input NULL.
 */
static void
evaluate_input(LookupAggregate *state, Aggregate *aggregate, uint32 row)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	HmColumn *input = &aggregate->input;

	input->nulls[row] = aggregate->filter != NULL && !ExecQual(aggregate->filter, econtext);
	if (input->nulls[row])
		return;
	if (aggregate->argument != NULL)
		input->values[row] =
			ExecEvalExprSwitchContext(aggregate->argument, econtext, &input->nulls[row]);
	else if (aggregate->column > 0)
	{
		const HmColumn *column = &state->columns[aggregate->column - 1];

		input->values[row] = column->values[row];
		input->nulls[row] = column->nulls[row];
	}
}

/* Evaluate the inputs that are not plain columns, for all rows of the block. */
static void
evaluate_inputs(LookupAggregate *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;

	for (uint32 row = 0; row < state->rows; row++)
	{
		ExecClearTuple(slot);
		for (int i = 0; i < state->read_count; i++)
		{
			int column = state->reads[i].column - 1;

			slot->tts_values[column] = state->columns[column].values[row];
			slot->tts_isnull[column] = state->columns[column].nulls[row];
		}
		ExecStoreVirtualTuple(slot);
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = slot;
		for (int i = 0; i < state->aggregate_count; i++)
		{
			if (state->aggregates[i].input.nulls != NULL)
				evaluate_input(state, &state->aggregates[i], row);
		}
	}
}

/* An aggregate's input; NULL if it has none. */
static const HmColumn *
aggregate_input(const LookupAggregate *state, const Aggregate *aggregate)
{
	if (aggregate->input.nulls != NULL)
		return &aggregate->input;
	return aggregate->column > 0 ? &state->columns[aggregate->column - 1] : NULL;
}

/* ----------------------------------------------------------------
 *		Execution
 * ----------------------------------------------------------------
 */

/* Add all rows of the source to their groups. */
static void
add_rows(LookupAggregate *state)
{
	while (hm_aggregates_read_block(state))
	{
		CHECK_FOR_INTERRUPTS();
		if (state->evaluates)
			evaluate_inputs(state);
		if (state->groups != NULL)
			hm_aggregates_find_groups(state);
		for (int i = 0; i < state->aggregate_count; i++)
		{
			const Aggregate *aggregate = &state->aggregates[i];

			hm_aggregate_add(aggregate->function, aggregate_input(state, aggregate), state->rows,
							 state->states + i, state->records, aggregate->offset);
		}
	}
	hm_aggregates_finish_source(state);
}

/*
 * Return the row of a group, projected, or NULL if it does not satisfy HAVING.
 */
static TupleTableSlot *
emit(LookupAggregate *state, uint32 group)
{
	CustomScanState *node = &state->css;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	char *record = NULL;
	MemoryContext old;

	ResetExprContext(econtext);
	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	if (state->groups != NULL)
		record = hm_groups_get(state->groups, group, slot->tts_values, slot->tts_isnull);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (int i = 0; i < state->aggregate_count; i++)
	{
		const Aggregate *aggregate = &state->aggregates[i];
		int column = state->column_count + i;

		slot->tts_values[column] = hm_aggregate_result(
			aggregate->function,
			record != NULL ? (HmAggregateState *) (record + aggregate->offset) : &state->states[i],
			aggregate->partial, &slot->tts_isnull[column]);
	}
	MemoryContextSwitchTo(old);
	ExecStoreVirtualTuple(slot);
	econtext->ecxt_scantuple = slot;
	if (!ExecQual(node->ss.ps.qual, econtext))
	{
		InstrCountFiltered1(node, 1);
		return NULL;
	}
	return node->ss.ps.ps_ProjInfo != NULL ? ExecProject(node->ss.ps.ps_ProjInfo) : slot;
}

static TupleTableSlot *
exec_aggregate(CustomScanState *node)
{
	LookupAggregate *state = (LookupAggregate *) node;
	TupleTableSlot *result;

	for (;;)
	{
		if (!state->source_done)
		{
			add_rows(state);
			state->next_group = 0;
		}
		while (state->next_group < (state->groups ? hm_groups_count(state->groups) : 1))
		{
			CHECK_FOR_INTERRUPTS();
			result = emit(state, state->next_group++);
			if (result != NULL)
				return result;
		}
		if (!hm_aggregates_next_source(state))
			return NULL;
	}
}

/* ----------------------------------------------------------------
 *		Beginning and end
 * ----------------------------------------------------------------
 */

static void
begin_aggregate(CustomScanState *node, EState *estate, int eflags)
{
	LookupAggregate *state = (LookupAggregate *) node;

	hm_child_begin(node, estate, eflags);
	hm_aggregates_begin(state);
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		hm_aggregates_begin_rows(state, estate);
}

static void
end_aggregate(CustomScanState *node)
{
	hm_aggregates_drop_rows((LookupAggregate *) node);
	hm_child_end(node);
}

static void
rescan(CustomScanState *node)
{
	LookupAggregate *state = (LookupAggregate *) node;

	hm_aggregates_drop_rows(state);
	if (state->groups != NULL)
		hm_groups_reset(state->groups, 0);
	memset(state->states, 0, state->aggregate_count * sizeof(HmAggregateState));
	state->source_done = false;
	hm_child_rescan(node);
}

/* Show what Agg shows. */
static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupAggregate *state = (LookupAggregate *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	if (state->aggregates[0].partial || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Partial Mode", state->aggregates[0].partial ? "Partial" : "Simple",
							es);
	hm_explain_list("Group Key", list_nth(plan->custom_exprs, HM_AGGREGATE_KEYS), node, ancestors,
					es);
	if (es->analyze && state->passes > 0)
	{
		ExplainPropertyUInteger("Passes", NULL, state->passes + 1, es);
		ExplainPropertyUInteger("Rows Set Aside", NULL, state->set_aside, es);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaLookupAggregate",
	.BeginCustomScan = begin_aggregate,
	.ExecCustomScan = exec_aggregate,
	.EndCustomScan = end_aggregate,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain,
};

static Node *
create_state(CustomScan *plan)
{
	LookupAggregate *state = palloc0(sizeof(LookupAggregate));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

const CustomScanMethods hm_lookup_aggregate_methods = {
	.CustomName = "HarmoniaLookupAggregate",
	.CreateCustomScanState = create_state,
};
