/*
 * lookup_join_page.c
 *		Outer rows of a lookup join, taken from a heap page column by column.
 *
 * If the outer side is a plain table, the wanted columns of its rows are at fixed offsets of the
 * page's tuples (plan_rows.h).  Each column of a page's keys is then copied and normalised in one loop, and the
 * kept columns in one loop each: no slot, and no call, for a row.  Tuples with NULLs are left to
 * the loop over rows.
 */
#include "postgres.h"

#include "am/keyarray.h"
#include "exec/lookup_join.h"

/* The size of an exact key's value. */
#define MAX_VALUE	sizeof(HmKey)

/* Whether each key of a row is made of plain columns' values, and so many can be made at once. */
static bool
makes_many_keys(const LookupJoin *join)
{
	if (!join->plain_key && !join->plain_columns)
		return false;
	for (int i = 0; i < join->key_count; i++)
	{
		if (join->keys[i].type->normalise_all == NULL)
			return false;
	}
	return true;
}

void
hm_join_page_begin(LookupJoin *join)
{
	const JoinRows *rows = &join->batch.rows;

	if (hm_join_has_array(join) || rows->references || !makes_many_keys(join))
		return;
	for (int i = 0; i < join->key_count; i++)
		join->keys[i].page_place = hm_plan_rows_place(&join->outer, join->keys[i].column);
	join->page_columns = palloc(Max(1, rows->count) * sizeof(int));
	for (int i = 0; i < rows->count; i++)
		join->page_columns[i] = hm_plan_rows_place(&join->outer, rows->columns[i].source);
}

/* The keys of one column of these tuples. */
static void
column_keys(const LookupJoin *join, const JoinKey *key, const HeapTupleHeader *tuples, uint32 n,
			void *keys)
{
	const HmHeapColumns *columns = &join->outer.source->offsets;
	char		values[MaxHeapTuplesPerPage * MAX_VALUE];

	Assert(columns->columns[key->page_place].length <= MAX_VALUE);
	hm_heap_column_store(columns, key->page_place, tuples, n, values);
	key->type->normalise_all(values, n, keys);
}

/*
 * Add these tuples' composite keys to the batch's probes, or the ranges of keys that begin with their
 * values: hm_join_row_range() for many rows.  All of these have one length, so those of the batch do.
 */
static void
add_ranges(LookupJoin *join, const HeapTupleHeader *tuples, uint32 n)
{
	JoinBatch  *batch = &join->batch;
	JoinProbes *probes = &batch->all;
	const HmField *fields = join->targets[0].fields.fields;
	HmKey		keys[MaxHeapTuplesPerPage];
	HmKey		low[MaxHeapTuplesPerPage];
	HmKey		length = ((HmKey) 1 << fields[join->key_count - 1].shift) - 1;

	Assert(probes->same_length && (probes->count == 0 || probes->length == length));
	probes->length = length;
	memset(low, 0, n * sizeof(HmKey));
	for (int i = 0; i < join->key_count; i++)
	{
		column_keys(join, &join->keys[i], tuples, n, keys);
		batch->exact &= hm_field_add_values(&fields[i], keys, n, low);
	}
	for (uint32 i = 0; i < n; i++)
		hm_key_put(probes->low, probes->key_size, probes->count + i, low[i]);
}

/* Add these tuples' probes to the batch. */
static void
add_probes(LookupJoin *join, const HeapTupleHeader *tuples, uint32 n)
{
	JoinProbes *probes = &join->batch.all;

	if (join->plain_columns)
		add_ranges(join, tuples, n);
	else
		column_keys(join, &join->keys[0], tuples, n,
					hm_key_at(probes->low, probes->key_size, probes->count));
	if (probes->rows != NULL)
	{
		for (uint32 i = 0; i < n; i++)
			probes->rows[probes->count + i] = join->batch.count + i;
	}
	probes->count += n;
}

uint32
hm_join_page_add(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint32		max = Min(batch->room, join->limit) - batch->count;
	uint32		n;

	if (join->page_columns == NULL || batch->rows.nulls != NULL)
		return 0;
	n = hm_plan_rows_take(&join->outer, tuples, Min(max, MaxHeapTuplesPerPage));
	if (n == 0)
		return 0;
	add_probes(join, tuples, n);
	if (batch->matched != NULL)
		memset(batch->matched + batch->count, 0, n);
	for (int i = 0; i < batch->rows.count; i++)
		hm_heap_column_datums(&join->outer.source->offsets, join->page_columns[i], tuples, n,
							  batch->rows.values + (Size) batch->count * batch->rows.count + i,
							  batch->rows.count);
	batch->count += n;
	return n;
}
