/*
 * source_rows_page.c
 *		Outer rows of a lookup join, taken from a heap page column by column.
 *
 * If the outer side is a plain table, the wanted columns of its rows are at fixed offsets of the
 * page's tuples (plan_rows.h).  Each column of a page's keys is then copied and normalised in one
 * loop, and the kept columns in one loop each: no slot, and no call, for a row.  Tuples with NULLs
 * are left to the loop over rows.
 */
#include "postgres.h"

#include "am/keyarray.h"
#include "exec/lookup_node.h"

/* The size of an exact key's value. */
#define MAX_VALUE sizeof(HmKey)

/* Whether each key of a row is made of plain columns' values, and so many can be made at once. */
static bool
makes_many_keys(const LookupNode *lookup)
{
	if (!lookup->plain_key && !lookup->plain_columns)
		return false;
	for (int i = 0; i < lookup->key_count; i++)
	{
		if (lookup->keys[i].type->normalise_all == NULL)
			return false;
	}
	return true;
}

void
hm_rows_page_begin(LookupNode *lookup)
{
	const KeptRows *rows = &lookup->batch.rows;

	if (rows->references || !makes_many_keys(lookup))
		return;
	for (int i = 0; i < lookup->key_count; i++)
		lookup->keys[i].page_place = hm_plan_rows_place(&lookup->outer, lookup->keys[i].column);
	lookup->page_columns = palloc(Max(1, rows->count) * sizeof(int));
	for (int i = 0; i < rows->count; i++)
		lookup->page_columns[i] = hm_plan_rows_place(&lookup->outer, rows->columns[i].source);
}

/* The keys of one column of these tuples. */
static void
column_keys(const LookupNode *lookup, const RowKey *key, const HeapTupleHeader *tuples, uint32 n,
			void *keys)
{
	const HmHeapColumns *columns = &lookup->outer.source->offsets;
	char values[MaxHeapTuplesPerPage * MAX_VALUE];

	Assert(columns->columns[key->page_place].length <= MAX_VALUE);
	hm_heap_column_store(columns, key->page_place, tuples, n, values);
	key->type->normalise_all(values, n, keys);
}

/*
 * Add these tuples' composite keys to the batch's probes, or the ranges of keys that begin with
 * their values: hm_row_range() for many rows.  All of these have one length, so those of the batch
 * do.
 */
static void
add_ranges(LookupNode *lookup, const HeapTupleHeader *tuples, uint32 n)
{
	LookupBatch *batch = &lookup->batch;
	LookupProbes *probes = &batch->all;
	const HmField *fields = lookup->targets[0].fields.fields;
	HmKey keys[MaxHeapTuplesPerPage];
	HmKey low[MaxHeapTuplesPerPage];
	HmKey length = ((HmKey) 1 << fields[lookup->key_count - 1].shift) - 1;

	Assert(probes->same_length && (probes->count == 0 || probes->length == length));
	probes->length = length;
	memset(low, 0, n * sizeof(HmKey));
	for (int i = 0; i < lookup->key_count; i++)
	{
		column_keys(lookup, &lookup->keys[i], tuples, n, keys);
		batch->exact &= hm_field_add_values(&fields[i], keys, n, low);
	}
	for (uint32 i = 0; i < n; i++)
		hm_key_put(probes->low, probes->key_size, probes->count + i, low[i]);
}

/* Add these tuples' probes to the batch. */
static void
add_probes(LookupNode *lookup, const HeapTupleHeader *tuples, uint32 n)
{
	LookupProbes *probes = &lookup->batch.all;

	if (lookup->plain_columns)
		add_ranges(lookup, tuples, n);
	else
		column_keys(lookup, &lookup->keys[0], tuples, n,
					hm_key_at(probes->low, probes->key_size, probes->count));
	if (probes->rows != NULL)
	{
		for (uint32 i = 0; i < n; i++)
			probes->rows[probes->count + i] = lookup->batch.count + i;
	}
	probes->count += n;
}

uint32
hm_rows_add_page(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint32 max = Min(batch->room, lookup->limit) - batch->count;
	uint32 n;

	if (lookup->page_columns == NULL || batch->rows.nulls != NULL)
		return 0;
	n = hm_plan_rows_take(&lookup->outer, tuples, Min(max, MaxHeapTuplesPerPage));
	if (n == 0)
		return 0;
	add_probes(lookup, tuples, n);
	if (batch->matched != NULL)
		memset(batch->matched + batch->count, 0, n);
	for (int i = 0; i < batch->rows.count; i++)
		hm_heap_column_datums(&lookup->outer.source->offsets, lookup->page_columns[i], tuples, n,
							  batch->rows.values + (Size) batch->count * batch->rows.count + i,
							  batch->rows.count);
	batch->count += n;
	return n;
}
