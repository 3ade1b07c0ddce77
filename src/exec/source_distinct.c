/*
 * source_distinct.c
 *		A source of probes: the keys of a plan's rows, each once.
 *
 * Rows with equal keys may count as one row, as in IN (SELECT ...).  So all rows are read, their
 * keys are kept (distinct_keys.c), and batches are made of these.
 */
#include "postgres.h"

#include "exec/lookup_node.h"

/* The memory of a value that is made from a key, if it is passed by reference. */
#define RESTORED_MEMORY 32

/* Read all outer rows, and keep their keys. */
static void
read_keys(LookupNode *lookup)
{
	for (;;)
	{
		TupleTableSlot *outer = hm_plan_rows_next(&lookup->outer);
		HmKey low;
		HmKey high;

		if (outer == NULL)
			break;
		if (lookup->plain_key ? hm_plain_key(lookup, outer, &low) :
								hm_row_range(lookup, outer, &low, &high))
			hm_distinct_add(&lookup->distinct, low);
	}
	lookup->outer_done = true;
}

/*
 * How many keys the next batch may have.  They get the memory that those that are collected
 * leave, but at least half of it.
 */
static uint32
batch_limit(const LookupNode *lookup)
{
	const KeptRows *rows = &lookup->batch.rows;
	Size leaves = hm_fetch_leaves_memory(lookup->plan.index_only);
	Size row = hm_row_memory(lookup) + (rows->references ? rows->count * RESTORED_MEMORY : 0);

	return (uint32) Min((Size) hm_batch_size,
						(leaves - Min(leaves / 2, hm_distinct_memory(&lookup->distinct))) / row);
}

/* All that the join returns of a row is the key. */
static void
fill(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;
	KeptRows *rows = &batch->rows;
	MemoryContext old_context;

	if (!lookup->outer_done)
		read_keys(lookup);
	batch->count = batch->all.count = hm_distinct_next(&lookup->distinct, batch_limit(lookup),
													   &batch->all.low, &batch->duplicates);
	if (batch->room < batch->count)
	{
		batch->room = batch->count;
		hm_kept_make_room(rows, batch->room);
	}
	old_context = MemoryContextSwitchTo(rows->context);
	for (uint32 i = 0; i < batch->count; i++)
	{
		for (int j = 0; j < rows->count; j++)
			rows->values[(Size) i * rows->count + j] = hm_restore_key(lookup, i);
	}
	MemoryContextSwitchTo(old_context);
}

static void
restart(LookupNode *lookup, const Bitmapset *changed)
{
	hm_plan_rows_begin(&lookup->outer);
	hm_distinct_reset(&lookup->distinct);
	lookup->outer_done = false;
}

const LookupSource hm_source_distinct = {
	.restart = restart,
	.fill = fill,
};
