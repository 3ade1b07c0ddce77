/*
 * lookup_aggregate_rows.c
 *		Where a lookup aggregate's rows come from: the plan below, or files.
 *
 * Rows are read in blocks, as columns.  Those whose groups find no room in the table are set
 * aside in temporary files, and read from there when the groups in the table have been
 * returned.
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "exec/lookup_aggregate.h"

/* A block ends after this many bytes of values that are not passed by value. */
#define BLOCK_BYTES (1024 * 1024)

/* What is kept in memory of each part of the rows that are set aside, in kB. */
#define PART_KILOBYTES 64

/* ----------------------------------------------------------------
 *		Reading blocks
 * ----------------------------------------------------------------
 */

/* Copy a row to the end of the block.  Returns the bytes that were copied. */
static Size
append_row(LookupAggregate *state, const Datum *values, const bool *nulls)
{
	Size bytes = 0;

	for (int i = 0; i < state->read_count; i++)
	{
		const ReadColumn *read = &state->reads[i];
		const HmColumn *column = &state->columns[read->column - 1];
		Datum value = values[read->column - 1];
		bool is_null = nulls[read->column - 1];

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

/* Run the plan below, which returns blocks, to its end, and count its rows. */
static uint64
count_child(CustomScanState *child)
{
	return hm_lookup_count_rows(child);
}

/* Read a block from the plan below, or count its rows. */
static void
read_block(LookupAggregate *state)
{
	PlanState *child = linitial(state->css.custom_ps);
	CustomScanState *node = (CustomScanState *) child;
	uint64 rows = state->counted;

	if (rows == 0)
	{
		hm_child_enter(child);
		rows = only_counts(state) ? count_child(node) :
									state->read_block(node, state->columns, HM_BLOCK_ROWS);
		hm_child_leave(child, rows);
	}
	state->rows = (uint32) Min(rows, PG_UINT32_MAX);
	state->counted = rows - state->rows;
	state->source_done = state->rows == 0 || (only_counts(state) && state->counted == 0);
}

/* Read rows from the plan below, one by one. */
static void
read_child(LookupAggregate *state)
{
	PlanState *child = linitial(state->css.custom_ps);
	Size bytes = 0;

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
	Size bytes = 0;

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

bool
hm_aggregates_read_block(LookupAggregate *state)
{
	if (state->source_done)
		return false;
	state->rows = 0;
	MemoryContextReset(state->context);
	if (state->source != NULL)
		read_part(state);
	else if (state->read_block != NULL)
		read_block(state);
	else
		read_child(state);
	return state->rows > 0;
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
	uint32 part = state->hashes[row] >> (32 - PART_BITS);

	if (state->parts[part] == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

		state->parts[part] = tuplestore_begin_heap(false, false, PART_KILOBYTES);
		MemoryContextSwitchTo(old);
	}
	ExecClearTuple(slot);
	for (int i = 0; i < state->read_count; i++)
	{
		const HmColumn *column = &state->columns[state->reads[i].column - 1];

		slot->tts_values[i] = state->reads[i].nulls_only ? BoolGetDatum(true) : column->values[row];
		slot->tts_isnull[i] = column->nulls[row];
	}
	tuplestore_puttupleslot(state->parts[part], ExecStoreVirtualTuple(slot));
	state->set_aside++;
}

void
hm_aggregates_find_groups(LookupAggregate *state)
{
	const char *none = hm_groups_no_record(state->groups);

	hm_groups_find(state->groups, state->columns, state->rows, state->records, state->hashes);
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
		Part *part;

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

void
hm_aggregates_finish_source(LookupAggregate *state)
{
	finish_parts(state, state->source != NULL ? state->source->level : 0);
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

bool
hm_aggregates_next_source(LookupAggregate *state)
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

void
hm_aggregates_drop_rows(LookupAggregate *state)
{
	ListCell *cell;

	finish_parts(state, 0);
	foreach (cell, state->pending)
		tuplestore_end(((Part *) lfirst(cell))->rows);
	list_free_deep(state->pending);
	state->pending = NIL;
	end_source(state);
}
