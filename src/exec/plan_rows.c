/*
 * plan_rows.c
 *		Reading the rows of a plan, of which some columns are wanted.
 *
 * A scan of a plain table has nothing to compute, so its rows need not go through an executor node
 * one by one: after the first one they are taken from its table scan, as the node would do.
 * Not so where the node has more to do: a filter, expressions, counting for EXPLAIN ANALYZE, or
 * EvalPlanQual.  Of a heap page's rows, only the first one goes through the scan (heaprows.h), if
 * the wanted columns are at fixed offsets.
 *
 * The children of an Append, such as partitions, are read one after the other in its place.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "exec/plan_rows.h"

/* The column of a table that a column of a plan's rows is; 0 if it is none. */
static AttrNumber
plain_attribute(const Plan *plan, int column)
{
	const Var *var = (const Var *) list_nth_node(TargetEntry, plan->targetlist, column)->expr;

	return IsA(var, Var) ? Max(0, var->varattno) : 0;
}

/* Whether a plan does nothing but read a table from its beginning to its end. */
static bool
reads_table(const PlanState *plan, const int *columns, int count)
{
	if (!IsA(plan, SeqScanState) || plan->qual != NULL || plan->instrument != NULL ||
		plan->state->es_epq_active != NULL)
		return false;
	for (int i = 0; i < count; i++)
	{
		if (plain_attribute(plan->plan, columns[i]) == 0)
			return false;
	}
	return true;
}

/* Whether all that a plan does is to return the rows of its children, one after the other. */
static bool
is_plain_append(const PlanState *plan)
{
	const AppendState *append = (const AppendState *) plan;

	return IsA(plan, AppendState) && append->as_prune_state == NULL &&
		   append->as_nasyncplans == 0 && !plan->plan->parallel_aware && plan->instrument == NULL &&
		   plan->state->es_epq_active == NULL;
}

static void
init_source(PlanRows *rows, PlanRowsSource *source, PlanState *plan)
{
	*source = (PlanRowsSource){.plan = plan};
	if (!reads_table(plan, rows->columns, rows->count))
		return;

	source->attributes = palloc(Max(1, rows->count) * sizeof(AttrNumber));
	for (int i = 0; i < rows->count; i++)
	{
		source->attributes[i] = plain_attribute(plan->plan, rows->columns[i]);
		source->last_attribute = Max(source->last_attribute, source->attributes[i]);
	}
	source->fixed = hm_heap_columns_locate(
		&source->offsets, RelationGetDescr(((ScanState *) plan)->ss_currentRelation),
		source->attributes, rows->count);
	source->stored = ((ScanState *) plan)->ss_ScanTupleSlot;
}

void
hm_plan_rows_init(PlanRows *rows, PlanState *plan, const Bitmapset *columns)
{
	PlanState **plans = &plan;
	int column = -1;

	*rows = (PlanRows){.plan = plan, .source_count = 1};
	rows->columns = palloc(Max(1, bms_num_members(columns)) * sizeof(int));
	while ((column = bms_next_member(columns, column)) >= 0)
	{
		rows->columns[rows->count++] = column - 1;
		rows->last = column;
	}
	if (is_plain_append(plan))
	{
		plans = ((AppendState *) plan)->appendplans;
		rows->source_count = ((AppendState *) plan)->as_nplans;
	}
	rows->sources = palloc(rows->source_count * sizeof(PlanRowsSource));
	for (int i = 0; i < rows->source_count; i++)
		init_source(rows, &rows->sources[i], plans[i]);
	rows->slot = ExecInitExtraTupleSlot(plan->state, ExecGetResultType(plan), &TTSOpsVirtual);
	ExecStoreAllNullTuple(rows->slot);
}

static void
begin_source(PlanRows *rows, PlanRowsSource *source)
{
	rows->source = source;
	rows->scan = NULL;
	rows->heap = NULL;
}

void
hm_plan_rows_begin(PlanRows *rows)
{
	begin_source(rows, rows->sources);
}

/* Go on to the next source; false if there is no more. */
static bool
next_source(PlanRows *rows)
{
	if (rows->source + 1 == rows->sources + rows->source_count)
		return false;
	begin_source(rows, rows->source + 1);
	return true;
}

TupleTableSlot *
hm_plan_rows_fetch(PlanRows *rows)
{
	const PlanRowsSource *source;
	TupleTableSlot *slot;

	/* An Append whose children are read in its place tells them which parameters have changed. */
	if (rows->plan != rows->source->plan && rows->plan->chgParam != NULL)
		ExecReScan(rows->plan);
	for (;;)
	{
		slot = ExecProcNode(rows->source->plan);
		if (!TupIsNull(slot))
			break;
		if (!next_source(rows))
			return NULL;
	}
	source = rows->source;
	if (rows->last > 0)
		slot_getsomeattrs(slot, rows->last);
	if (source->attributes != NULL)
	{
		/* It has begun the scan, and rescanned it if parameters have changed. */
		rows->scan = ((ScanState *) source->plan)->ss_currentScanDesc;
		rows->heap = source->fixed ? hm_heap_page_scan(rows->scan, source->stored) : NULL;
	}
	return slot;
}

TupleTableSlot *
hm_plan_rows_deform(PlanRows *rows, bool current)
{
	const PlanRowsSource *source = rows->source;

	if (current)
		hm_heap_store(rows->heap, &rows->tuple, source->stored);
	else if (!table_scan_getnextslot(rows->scan, ForwardScanDirection, source->stored))
		return next_source(rows) ? hm_plan_rows_fetch(rows) : NULL;
	if (source->last_attribute > 0)
		slot_getsomeattrs(source->stored, source->last_attribute);
	for (int i = 0; i < rows->count; i++)
	{
		int attribute = source->attributes[i] - 1;

		rows->slot->tts_values[rows->columns[i]] = source->stored->tts_values[attribute];
		rows->slot->tts_isnull[rows->columns[i]] = source->stored->tts_isnull[attribute];
	}
	return rows->slot;
}

uint32
hm_plan_rows_take(PlanRows *rows, HeapTupleHeader *tuples, uint32 max)
{
	uint32 n = 0;

	while (rows->heap != NULL && n < max)
	{
		HeapTupleHeader tuple = hm_heap_peek(rows->heap);

		if (tuple == NULL || !hm_heap_columns_fit(&rows->source->offsets, tuple))
			break;
		(void) hm_heap_next_in_page(rows->heap);
		tuples[n++] = tuple;
	}
	return n;
}

int
hm_plan_rows_place(const PlanRows *rows, int column)
{
	int place = 0;

	while (rows->columns[place] != column - 1)
		place++;
	Assert(place < rows->count);
	return place;
}
