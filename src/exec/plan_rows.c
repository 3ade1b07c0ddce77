/*
 * plan_rows.c
 *		Reading the rows of a plan, of which some columns are wanted.
 *
 * A scan of a plain table has nothing to compute, so its rows need not go through an executor node
 * one by one: after the first one they are taken from its table scan, as the node would do.
 * Not so where the node has more to do: a filter, expressions, counting for EXPLAIN ANALYZE, or
 * EvalPlanQual.  Of a heap page's rows, only the first one goes through the scan (heaprows.h), if
 * the wanted columns are at fixed offsets.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "exec/plan_rows.h"

/* The column of a table that a column of a plan's rows is; 0 if it is none. */
static AttrNumber
plain_attribute(const Plan *plan, int column)
{
	const Var  *var = (const Var *) list_nth_node(TargetEntry, plan->targetlist, column)->expr;

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

void
hm_plan_rows_init(PlanRows *rows, PlanState *plan, const Bitmapset *columns)
{
	int			column = -1;

	*rows = (PlanRows) {.plan = plan};
	rows->columns = palloc(Max(1, bms_num_members(columns)) * sizeof(int));
	while ((column = bms_next_member(columns, column)) >= 0)
	{
		rows->columns[rows->count++] = column - 1;
		rows->last = column;
	}
	if (!reads_table(plan, rows->columns, rows->count))
		return;

	rows->attributes = palloc(Max(1, rows->count) * sizeof(AttrNumber));
	for (int i = 0; i < rows->count; i++)
	{
		rows->attributes[i] = plain_attribute(plan->plan, rows->columns[i]);
		rows->last_attribute = Max(rows->last_attribute, rows->attributes[i]);
	}
	rows->fixed = hm_heap_columns_locate(&rows->offsets, RelationGetDescr(((ScanState *) plan)->ss_currentRelation),
										 rows->attributes, rows->count);
	rows->stored = ((ScanState *) plan)->ss_ScanTupleSlot;
	rows->slot = ExecInitExtraTupleSlot(plan->state, ExecGetResultType(plan), &TTSOpsVirtual);
	ExecStoreAllNullTuple(rows->slot);
}

void
hm_plan_rows_begin(PlanRows *rows)
{
	rows->scan = NULL;
	rows->heap = NULL;
}

TupleTableSlot *
hm_plan_rows_fetch(PlanRows *rows)
{
	TupleTableSlot *slot = ExecProcNode(rows->plan);

	if (TupIsNull(slot))
		return NULL;
	if (rows->last > 0)
		slot_getsomeattrs(slot, rows->last);
	if (rows->attributes != NULL)
	{
		/* It has begun the scan, and rescanned it if parameters have changed. */
		rows->scan = ((ScanState *) rows->plan)->ss_currentScanDesc;
		rows->heap = rows->fixed ? hm_heap_page_scan(rows->scan, rows->stored) : NULL;
	}
	return slot;
}

TupleTableSlot *
hm_plan_rows_deform(PlanRows *rows, bool current)
{
	if (current)
		hm_heap_store(rows->heap, &rows->tuple, rows->stored);
	else if (!table_scan_getnextslot(rows->scan, ForwardScanDirection, rows->stored))
		return NULL;
	if (rows->last_attribute > 0)
		slot_getsomeattrs(rows->stored, rows->last_attribute);
	for (int i = 0; i < rows->count; i++)
	{
		int			attribute = rows->attributes[i] - 1;

		rows->slot->tts_values[rows->columns[i]] = rows->stored->tts_values[attribute];
		rows->slot->tts_isnull[rows->columns[i]] = rows->stored->tts_isnull[attribute];
	}
	return rows->slot;
}
