/*
 * sink_ordered.c
 *		What is done with hits: rows are returned in the order of the outer side.
 *
 * Matches come in the order of the heap, so the results of a batch are sorted by the numbers of
 * their outer rows, by PostgreSQL's own sort, which knows what to do if work_mem is too small.
 * Batches begin with a single row, whose results need no sort.
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/tuplesort.h"

#include "compat.h"
#include "exec/sink.h"

/* A row of the sort is the outer row's number, and what the result has. */
static void
make_slots(LookupNode *lookup)
{
	EState *estate = lookup->node.css.ss.ps.state;
	TupleDesc result = lookup->node.css.ss.ps.ps_ResultTupleSlot->tts_tupleDescriptor;
	TupleDesc desc = CreateTemplateTupleDesc(result->natts + 1);

	TupleDescInitEntry(desc, 1, "row", INT4OID, -1, 0);
	for (int i = 1; i <= result->natts; i++)
		TupleDescCopyEntry(desc, (AttrNumber) (i + 1), result, (AttrNumber) i);
	hm_finalize_desc(desc);
	lookup->ordered.in = ExecInitExtraTupleSlot(estate, desc, &TTSOpsVirtual);
	lookup->ordered.out = ExecInitExtraTupleSlot(estate, desc, &TTSOpsMinimalTuple);
}

static void
begin_sort(LookupNode *lookup)
{
	OrderedRows *ordered = &lookup->ordered;
	AttrNumber column = 1;
	Oid less = Int4LessOperator;
	Oid collation = InvalidOid;
	bool nulls_first = false;
	MemoryContext old_context = MemoryContextSwitchTo(lookup->node.css.ss.ps.state->es_query_cxt);

	if (ordered->in == NULL)
		make_slots(lookup);
	ordered->sort = tuplesort_begin_heap(ordered->in->tts_tupleDescriptor, 1, &column, &less,
										 &collation, &nulls_first, work_mem, NULL, TUPLESORT_NONE);
	MemoryContextSwitchTo(old_context);
}

/* Add a result to the sort. */
static void
put(LookupNode *lookup, uint32 row, TupleTableSlot *result)
{
	OrderedRows *ordered = &lookup->ordered;
	int columns = result->tts_tupleDescriptor->natts;
	TupleTableSlot *in;

	if (ordered->sort == NULL)
		begin_sort(lookup);
	in = ordered->in;
	slot_getallattrs(result);
	ExecClearTuple(in);
	in->tts_values[0] = Int32GetDatum((int32) row);
	in->tts_isnull[0] = false;
	memcpy(in->tts_values + 1, result->tts_values, columns * sizeof(Datum));
	memcpy(in->tts_isnull + 1, result->tts_isnull, columns * sizeof(bool));
	tuplesort_puttupleslot(ordered->sort, ExecStoreVirtualTuple(in));
	ordered->pending = true;
}

/* The next result of a sorted batch; NULL if there are no more. */
static TupleTableSlot *
get(LookupNode *lookup)
{
	OrderedRows *ordered = &lookup->ordered;
	TupleTableSlot *result = lookup->node.css.ss.ps.ps_ResultTupleSlot;
	int columns = result->tts_tupleDescriptor->natts;

	if (!tuplesort_gettupleslot(ordered->sort, true, false, ordered->out, NULL))
		return NULL;
	slot_getallattrs(ordered->out);
	ExecClearTuple(result);
	memcpy(result->tts_values, ordered->out->tts_values + 1, columns * sizeof(Datum));
	memcpy(result->tts_isnull, ordered->out->tts_isnull + 1, columns * sizeof(bool));
	return ExecStoreVirtualTuple(result);
}

void
hm_ordered_drop(LookupNode *lookup)
{
	OrderedRows *ordered = &lookup->ordered;

	if (ordered->out != NULL)
		ExecClearTuple(ordered->out);
	if (ordered->sort != NULL)
		tuplesort_end(ordered->sort);
	ordered->sort = NULL;
	ordered->pending = ordered->sorted = false;
}

TupleTableSlot *
hm_ordered_exec(LookupNode *lookup)
{
	OrderedRows *ordered = &lookup->ordered;
	TupleTableSlot *result;
	uint32 row = 0;
	bool with_inner;

	for (;;)
	{
		ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
		if (ordered->sorted)
		{
			result = get(lookup);
			if (result != NULL)
				return result;
			hm_ordered_drop(lookup);
		}
		hm_lookup_go_on(lookup);
		if (lookup->phase == PHASE_DONE)
			return ExecClearTuple(lookup->node.css.ss.ps.ps_ResultTupleSlot);
		if (lookup->phase == PHASE_FILL)
		{
			tuplesort_performsort(ordered->sort);
			ordered->sorted = true;
			continue;
		}
		if (!next_result(lookup, &row, &with_inner))
			continue;
		result = hm_emit_row(lookup, row, with_inner);
		if (lookup->batch.count == 1)
			return result;
		put(lookup, row, result);
	}
}
