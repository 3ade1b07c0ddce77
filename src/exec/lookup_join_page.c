/*
 * lookup_join_page.c
 *		Outer rows of a lookup join, taken from a heap page column by column.
 *
 * If the outer side is a plain table, the wanted columns of its rows are at fixed offsets of the
 * page's tuples (plan_rows.h).  The keys of a page are then copied and normalised in one loop, and the
 * kept columns in one loop each: no slot, and no call, for a row.  Tuples with NULLs are left to
 * the loop over rows.
 */
#include "postgres.h"

#include "exec/lookup_join.h"

/* The size of an exact key's value. */
#define MAX_VALUE	sizeof(HmKey)

void
hm_join_page_begin(LookupJoin *join)
{
	const JoinRows *rows = &join->batch.rows;

	if (hm_join_has_array(join) || !join->plain_key || rows->references ||
		join->key_type->normalise_all == NULL)
		return;
	join->page_key = hm_plan_rows_place(&join->outer, join->keys[0].column);
	join->page_columns = palloc(Max(1, rows->count) * sizeof(int));
	for (int i = 0; i < rows->count; i++)
		join->page_columns[i] = hm_plan_rows_place(&join->outer, rows->columns[i].source);
}

/* Add these tuples' keys to the batch's probes. */
static void
add_keys(LookupJoin *join, const HeapTupleHeader *tuples, uint32 n)
{
	const HmHeapColumns *columns = &join->outer.source->offsets;
	JoinProbes *probes = &join->batch.all;
	char		values[MaxHeapTuplesPerPage * MAX_VALUE];

	Assert(columns->columns[join->page_key].length <= MAX_VALUE);
	hm_heap_column_store(columns, join->page_key, tuples, n, values);
	join->key_type->normalise_all(values, n, (char *) probes->low + probes->count * probes->key_size);
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
	add_keys(join, tuples, n);
	if (batch->matched != NULL)
		memset(batch->matched + batch->count, 0, n);
	for (int i = 0; i < batch->rows.count; i++)
		hm_heap_column_datums(&join->outer.source->offsets, join->page_columns[i], tuples, n,
							  batch->rows.values + (Size) batch->count * batch->rows.count + i,
							  batch->rows.count);
	batch->count += n;
	return n;
}
