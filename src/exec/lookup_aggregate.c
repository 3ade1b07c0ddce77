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

#include "access/sysattr.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/tuplestore.h"

#include "compat.h"
#include "exec/lookup_aggregate.h"

/* A block ends after this many bytes of values that are not passed by value. */
#define BLOCK_BYTES		(1024 * 1024)

/* Rows that are set aside are divided by the upper bits of their hashes. */
#define PART_BITS		4
#define PARTS			(1 << PART_BITS)
#define PART_KILOBYTES	64		/* what is kept in memory of each part */

/* A column that is read from the rows below. */
typedef struct ReadColumn
{
	int			column;
	bool		nulls_only;		/* no value is needed, but for whether it is NULL */
	bool		by_value;
	int16		length;
} ReadColumn;

typedef struct Aggregate
{
	const HmAggregate *function;
	bool		partial;
	int			column;			/* the argument, if it is a plain column */
	ExprState  *argument;		/* if it is another expression */
	ExprState  *filter;
	HmColumn	input;			/* if there is an expression or a filter */
	Size		offset;			/* of its state in a group's record */
} Aggregate;

/* Rows that are set aside, and how often they have been. */
typedef struct Part
{
	Tuplestorestate *rows;
	uint32		level;
} Part;

typedef struct LookupAggregate
{
	CustomScanState css;
	int			column_count;	/* of the rows below; in the scan tuple, these are
								 * followed by aggregates */
	int			last_read;		/* the highest column that is read */
	int			read_count;
	ReadColumn *reads;
	int			aggregate_count;
	Aggregate  *aggregates;
	bool		evaluates;		/* some input has to be evaluated */

	/* The block. */
	bool		has_blocks;		/* the plan below returns blocks */
	uint32		rows;
	uint64		counted;		/* rows that are counted, but not added yet */
	HmColumn   *columns;		/* those that are read have arrays */
	MemoryContext context;		/* values that are not passed by value */

	/* Groups. */
	HmGroups   *groups;			/* NULL without GROUP BY */
	HmAggregateState *states;	/* without GROUP BY */
	char	  **records;		/* of the block's rows */
	uint32	   *hashes;
	TupleTableSlot *write_slot;
	TupleTableSlot *read_slot;
	Part	   *source;			/* where rows are read from; NULL: from below */
	Tuplestorestate *parts[PARTS];	/* being written */
	List	   *pending;		/* Parts that have been written */
	uint64		passes;			/* how many parts have been read */
	uint64		set_aside;		/* rows */

	bool		source_done;
	uint32		next_group;
} LookupAggregate;

/* ----------------------------------------------------------------
 *		Reading blocks
 * ----------------------------------------------------------------
 */

/* Copy a row to the end of the block.  Returns the bytes that were copied. */
static Size
append_row(LookupAggregate *state, const Datum *values, const bool *nulls)
{
	Size		bytes = 0;

	for (int i = 0; i < state->read_count; i++)
	{
		const ReadColumn *read = &state->reads[i];
		const HmColumn *column = &state->columns[read->column - 1];
		Datum		value = values[read->column - 1];
		bool		is_null = nulls[read->column - 1];

		if (!read->by_value && !read->nulls_only && !is_null)
		{
			MemoryContext old = MemoryContextSwitchTo(state->context);

			bytes += datumGetSize(value, false, read->length);
			value = datumCopy(value, false, read->length);
			MemoryContextSwitchTo(old);
		}
		column->values[state->rows] = value;
		column->nulls[state->rows] = is_null;
	}
	state->rows++;
	return bytes;
}

/* Whether nothing but the number of rows is wanted. */
static inline bool
only_counts(const LookupAggregate *state)
{
	return state->read_count == 0 && !state->evaluates && state->groups == NULL;
}

/*
 * Read a block from the lookup join below, or count its rows.  Rescan it if needed, and
 * record times and rows for EXPLAIN ANALYZE, as ExecProcNode() does otherwise.
 */
static void
read_join(LookupAggregate *state)
{
	PlanState  *child = linitial(state->css.custom_ps);
	CustomScanState *join = (CustomScanState *) child;
	uint64		rows = state->counted;

	if (rows == 0)
	{
		if (child->chgParam != NULL)
			ExecReScan(child);
		if (child->instrument)
			InstrStartNode(child->instrument);
		rows = only_counts(state) ? hm_lookup_join_count(join) :
			hm_lookup_join_block(join, state->columns, HM_BLOCK_ROWS);
		if (child->instrument)
			InstrStopNode(child->instrument, (double) rows);
	}
	state->rows = (uint32) Min(rows, PG_UINT32_MAX);
	state->counted = rows - state->rows;
	state->source_done = state->rows == 0 || (only_counts(state) && state->counted == 0);
}

/* Read rows from the plan below, one by one. */
static void
read_child(LookupAggregate *state)
{
	PlanState  *child = linitial(state->css.custom_ps);
	Size		bytes = 0;

	while (state->rows < HM_BLOCK_ROWS && bytes < BLOCK_BYTES)
	{
		TupleTableSlot *slot = ExecProcNode(child);

		if (TupIsNull(slot))
		{
			state->source_done = true;
			return;
		}
		slot_getsomeattrs(slot, state->last_read);
		bytes += append_row(state, slot->tts_values, slot->tts_isnull);
	}
}

/* Read rows that were set aside.  Their columns are those that are read. */
static void
read_part(LookupAggregate *state)
{
	TupleTableSlot *slot = state->read_slot;
	TupleTableSlot *row = state->css.ss.ss_ScanTupleSlot;
	Size		bytes = 0;

	ExecClearTuple(row);
	while (state->rows < HM_BLOCK_ROWS && bytes < BLOCK_BYTES)
	{
		if (!tuplestore_gettupleslot(state->source->rows, true, false, slot))
		{
			state->source_done = true;
			return;
		}
		slot_getallattrs(slot);
		for (int i = 0; i < state->read_count; i++)
		{
			row->tts_values[state->reads[i].column - 1] = slot->tts_values[i];
			row->tts_isnull[state->reads[i].column - 1] = slot->tts_isnull[i];
		}
		bytes += append_row(state, row->tts_values, row->tts_isnull);
	}
}

/* Read the next block.  Returns false if no rows are left. */
static bool
read_block(LookupAggregate *state)
{
	if (state->source_done)
		return false;
	state->rows = 0;
	MemoryContextReset(state->context);
	if (state->source != NULL)
		read_part(state);
	else if (state->has_blocks)
		read_join(state);
	else
		read_child(state);
	return state->rows > 0;
}

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
	HmColumn   *input = &aggregate->input;

	input->nulls[row] = aggregate->filter != NULL && !ExecQual(aggregate->filter, econtext);
	if (input->nulls[row])
		return;
	if (aggregate->argument != NULL)
		input->values[row] = ExecEvalExprSwitchContext(aggregate->argument, econtext,
													   &input->nulls[row]);
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
			int			column = state->reads[i].column - 1;

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
 *		Rows that are set aside
 * ----------------------------------------------------------------
 */

/* Set a row of the block aside. */
static void
set_aside(LookupAggregate *state, uint32 row)
{
	TupleTableSlot *slot = state->write_slot;
	uint32		part = state->hashes[row] >> (32 - PART_BITS);

	if (state->parts[part] == NULL)
	{
		MemoryContext old =
			MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

		state->parts[part] = tuplestore_begin_heap(false, false, PART_KILOBYTES);
		MemoryContextSwitchTo(old);
	}
	ExecClearTuple(slot);
	for (int i = 0; i < state->read_count; i++)
	{
		const HmColumn *column = &state->columns[state->reads[i].column - 1];

		slot->tts_values[i] = state->reads[i].nulls_only ? BoolGetDatum(true) :
			column->values[row];
		slot->tts_isnull[i] = column->nulls[row];
	}
	tuplestore_puttupleslot(state->parts[part], ExecStoreVirtualTuple(slot));
	state->set_aside++;
}

/* Find the groups of the block's rows, and set those aside that have none. */
static void
find_groups(LookupAggregate *state)
{
	const char *none = hm_groups_no_record(state->groups);

	hm_groups_find(state->groups, state->columns, state->rows, state->records,
				   state->hashes);
	for (uint32 row = 0; row < state->rows; row++)
	{
		if (state->records[row] == none)
			set_aside(state, row);
	}
}

/* Rows are complete that were set aside from a source of this level. */
static void
finish_parts(LookupAggregate *state, uint32 level)
{
	MemoryContext old = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

	for (int i = 0; i < PARTS; i++)
	{
		Part	   *part;

		if (state->parts[i] == NULL)
			continue;
		part = palloc(sizeof(Part));
		part->rows = state->parts[i];
		part->level = level + 1;
		state->pending = lappend(state->pending, part);
		state->parts[i] = NULL;
	}
	MemoryContextSwitchTo(old);
}

static void
end_source(LookupAggregate *state)
{
	if (state->source == NULL)
		return;
	tuplestore_end(state->source->rows);
	pfree(state->source);
	state->source = NULL;
}

/* Start to read rows that were set aside.  Returns false if there are none. */
static bool
next_source(LookupAggregate *state)
{
	end_source(state);
	if (state->pending == NIL)
		return false;
	state->source = llast(state->pending);
	state->pending = list_delete_last(state->pending);
	state->passes++;
	hm_groups_reset(state->groups, state->source->level);
	state->source_done = false;
	return true;
}

static void
drop_parts(LookupAggregate *state)
{
	ListCell   *cell;

	finish_parts(state, 0);
	foreach(cell, state->pending)
		tuplestore_end(((Part *) lfirst(cell))->rows);
	list_free_deep(state->pending);
	state->pending = NIL;
	end_source(state);
}

/* ----------------------------------------------------------------
 *		Execution
 * ----------------------------------------------------------------
 */

/* Add all rows of the source to their groups. */
static void
add_rows(LookupAggregate *state)
{
	while (read_block(state))
	{
		CHECK_FOR_INTERRUPTS();
		if (state->evaluates)
			evaluate_inputs(state);
		if (state->groups != NULL)
			find_groups(state);
		for (int i = 0; i < state->aggregate_count; i++)
		{
			const Aggregate *aggregate = &state->aggregates[i];

			hm_aggregate_add(aggregate->function, aggregate_input(state, aggregate),
							 state->rows, state->states + i, state->records,
							 aggregate->offset);
		}
	}
	finish_parts(state, state->source != NULL ? state->source->level : 0);
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
	char	   *record = NULL;
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
		int			column = state->column_count + i;

		slot->tts_values[column] =
			hm_aggregate_result(aggregate->function,
								record != NULL ?
								(HmAggregateState *) (record + aggregate->offset) :
								&state->states[i],
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
		if (!next_source(state))
			return NULL;
	}
}

/* ----------------------------------------------------------------
 *		Beginning and end
 * ----------------------------------------------------------------
 */

/* Columns of the scan tuple, as setrefs.c has left them in expressions. */
static List *
column_numbers(List *exprs)
{
	List	   *numbers = NIL;
	ListCell   *cell;

	foreach(cell, exprs)
		numbers = lappend_int(numbers, lfirst_node(Var, cell)->varattno);
	return numbers;
}

static void
begin_aggregates(LookupAggregate *state)
{
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	List	   *arguments = list_nth(plan->custom_exprs, HM_AGGREGATE_ARGUMENTS);
	List	   *filters = list_nth(plan->custom_exprs, HM_AGGREGATE_FILTERS);

	state->aggregate_count = list_length(arguments);
	state->column_count = list_length(plan->custom_scan_tlist) - state->aggregate_count;
	state->aggregates = palloc0(state->aggregate_count * sizeof(Aggregate));
	state->states = palloc0(state->aggregate_count * sizeof(HmAggregateState));
	for (int i = 0; i < state->aggregate_count; i++)
	{
		Aggregate  *aggregate = &state->aggregates[i];
		TargetEntry *entry = list_nth_node(TargetEntry, plan->custom_scan_tlist,
										   state->column_count + i);
		Aggref	   *aggref = castNode(Aggref, entry->expr);
		Expr	   *argument = list_nth(arguments, i);
		List	   *filter = list_nth(filters, i);

		hm_aggregate_check_permissions(aggref);
		aggregate->function = hm_aggregate_lookup(aggref->aggfnoid);
		aggregate->partial = DO_AGGSPLIT_SKIPFINAL(aggref->aggsplit);
		if (argument != NULL && IsA(argument, Var))
			aggregate->column = ((Var *) argument)->varattno;
		else
			aggregate->argument = ExecInitExpr(argument, &state->css.ss.ps);
		aggregate->filter = ExecInitQual(filter, &state->css.ss.ps);
		if (aggregate->argument == NULL && aggregate->filter == NULL)
			continue;
		state->evaluates = true;
		aggregate->input.values = palloc(HM_BLOCK_ROWS * sizeof(Datum));
		aggregate->input.nulls = palloc(HM_BLOCK_ROWS * sizeof(bool));
	}
}

/*
 * The columns that have to be read: all that expressions refer to.  Of those that count()
 * alone refers to, no value is needed.
 */
static void
begin_reads(LookupAggregate *state, PlanState *child)
{
	TupleDesc	desc = ExecGetResultType(child);
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	List	   *arguments = list_nth(plan->custom_exprs, HM_AGGREGATE_ARGUMENTS);
	Bitmapset  *columns = NULL;
	Bitmapset  *values = NULL;
	int			member = -1;
	bool		references = false;

	pull_varattnos((Node *) plan->custom_exprs, INDEX_VAR, &columns);
	for (int i = 0; i < HM_AGGREGATE_EXPRS_LENGTH; i++)
	{
		if (i != HM_AGGREGATE_ARGUMENTS)
			pull_varattnos(list_nth(plan->custom_exprs, i), INDEX_VAR, &values);
	}
	for (int i = 0; i < state->aggregate_count; i++)
	{
		TargetEntry *entry = list_nth_node(TargetEntry, plan->custom_scan_tlist,
										   state->column_count + i);

		if (castNode(Aggref, entry->expr)->aggfnoid != F_COUNT_ANY ||
			state->aggregates[i].column == 0)
			pull_varattnos(list_nth(arguments, i), INDEX_VAR, &values);
	}

	state->columns = palloc0(Max(1, state->column_count) * sizeof(HmColumn));
	state->reads = palloc(Max(1, bms_num_members(columns)) * sizeof(ReadColumn));
	while ((member = bms_next_member(columns, member)) >= 0)
	{
		ReadColumn *read = &state->reads[state->read_count++];
		Form_pg_attribute attribute;

		read->column = member + FirstLowInvalidHeapAttributeNumber;
		attribute = TupleDescAttr(desc, read->column - 1);
		read->nulls_only = !bms_is_member(member, values);
		read->by_value = attribute->attbyval;
		read->length = attribute->attlen;
		state->last_read = read->column;
		state->columns[read->column - 1].values = palloc(HM_BLOCK_ROWS * sizeof(Datum));
		state->columns[read->column - 1].nulls = palloc(HM_BLOCK_ROWS * sizeof(bool));
		references |= !read->by_value && !read->nulls_only;
	}

	/* What a column in a block refers to may be gone by the end of the block. */
	state->has_blocks = IsA(child, CustomScanState) &&
		((CustomScan *) child->plan)->methods == &hm_lookup_join_methods &&
		hm_lookup_join_has_blocks((CustomScanState *) child) && !references;
}

static void
begin_groups(LookupAggregate *state, EState *estate, TupleDesc desc)
{
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	List	   *keys = list_nth(plan->custom_exprs, HM_AGGREGATE_KEYS);
	List	   *kept = list_nth(plan->custom_exprs, HM_AGGREGATE_KEPT);
	TupleDesc	set_aside_desc;

	if (keys == NIL)
		return;
	state->groups = hm_groups_create(column_numbers(keys), column_numbers(kept),
									 state->aggregate_count, desc);
	state->records = palloc(HM_BLOCK_ROWS * sizeof(char *));
	state->hashes = palloc(HM_BLOCK_ROWS * sizeof(uint32));
	for (int i = 0; i < state->aggregate_count; i++)
		state->aggregates[i].offset = hm_groups_state_offset(state->groups, i);

	set_aside_desc = CreateTemplateTupleDesc(state->read_count);
	for (int i = 0; i < state->read_count; i++)
	{
		const ReadColumn *read = &state->reads[i];
		Form_pg_attribute attribute = TupleDescAttr(desc, read->column - 1);

		TupleDescInitEntry(set_aside_desc, (AttrNumber) (i + 1), NULL,
						   read->nulls_only ? BOOLOID : attribute->atttypid, -1,
						   attribute->attndims);
	}
	state->write_slot = ExecInitExtraTupleSlot(estate, set_aside_desc, &TTSOpsVirtual);
	state->read_slot = ExecInitExtraTupleSlot(estate, set_aside_desc, &TTSOpsMinimalTuple);
}

static void
begin_aggregate(CustomScanState *node, EState *estate, int eflags)
{
	LookupAggregate *state = (LookupAggregate *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	PlanState  *child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);

	node->custom_ps = list_make1(child);
	begin_aggregates(state);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	begin_reads(state, child);
	begin_groups(state, estate, ExecGetResultType(child));
	state->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup aggregate",
										   ALLOCSET_DEFAULT_SIZES);
}

static void
end_aggregate(CustomScanState *node)
{
	drop_parts((LookupAggregate *) node);
	ExecEndNode(linitial(node->custom_ps));
}

static void
rescan(CustomScanState *node)
{
	LookupAggregate *state = (LookupAggregate *) node;
	PlanState  *child = linitial(node->custom_ps);

	drop_parts(state);
	if (state->groups != NULL)
		hm_groups_reset(state->groups, 0);
	memset(state->states, 0, state->aggregate_count * sizeof(HmAggregateState));
	state->source_done = false;
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(child, node->ss.ps.chgParam);
	if (child->chgParam == NULL)
		ExecReScan(child);
}

/* Show what Agg shows. */
static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupAggregate *state = (LookupAggregate *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	if (state->aggregates[0].partial || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Partial Mode",
							state->aggregates[0].partial ? "Partial" : "Simple", es);
	hm_explain_list("Group Key", list_nth(plan->custom_exprs, HM_AGGREGATE_KEYS), node,
					ancestors, es);
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
