/*
 * heaprows.c
 *		Reading a heap's rows page by page, and columns where they are in a tuple.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/tableam.h"

#include "am/heaprows.h"

bool
hm_heap_columns_locate(HmHeapColumns *columns, TupleDesc table, const AttrNumber *attributes,
					   int count)
{
	*columns = (HmHeapColumns){.columns = palloc(Max(1, count) * sizeof(HmHeapColumn))};
	for (int i = 0; i < count; i++)
	{
		HmHeapColumn *column = &columns->columns[columns->count++];
		uint32 offset = 0;

		if (attributes[i] <= 0)
			return false;
		for (int j = 0; j < attributes[i]; j++)
		{
			Form_pg_attribute attribute = TupleDescAttr(table, j);

			if (attribute->attlen <= 0)
				return false;
			column->offset = (uint32) att_align_nominal(offset, attribute->attalign);
			column->length = attribute->attlen;
			column->by_value = attribute->attbyval;
			offset = column->offset + attribute->attlen;
		}
		columns->last = Max(columns->last, attributes[i]);
	}
	return true;
}

HeapScanDesc
hm_heap_page_scan(TableScanDesc scan, const TupleTableSlot *slot)
{
	if (scan->rs_rd->rd_tableam != GetHeapamTableAmRoutine() || !TTS_IS_BUFFERTUPLE(slot) ||
		(scan->rs_flags & SO_TYPE_SEQSCAN) == 0 || (scan->rs_flags & SO_ALLOW_PAGEMODE) == 0)
		return NULL;
	return (HeapScanDesc) scan;
}

void
hm_heap_store(HeapScanDesc scan, HeapTuple tuple, TupleTableSlot *slot)
{
	Page page = BufferGetPage(scan->rs_cbuf);
	ItemId line = PageGetItemId(page, hm_heap_offset(scan));

	tuple->t_data = (HeapTupleHeader) PageGetItem(page, line);
	tuple->t_len = ItemIdGetLength(line);
	tuple->t_tableOid = RelationGetRelid(scan->rs_base.rs_rd);
	ItemPointerSet(&tuple->t_self, BufferGetBlockNumber(scan->rs_cbuf), hm_heap_offset(scan));
	ExecStoreBufferHeapTuple(tuple, slot, scan->rs_cbuf);
}

/* Where a tuple has a column. */
static inline const char *
column_of(const HmHeapColumn *column, HeapTupleHeader tuple)
{
	return (const char *) tuple + tuple->t_hoff + column->offset;
}

void
hm_heap_column_store(const HmHeapColumns *columns, int i, const HeapTupleHeader *tuples, uint32 n,
					 char *values)
{
	const HmHeapColumn *column = &columns->columns[i];

	switch (column->length)
	{
		case sizeof(int32):
			for (uint32 row = 0; row < n; row++)
				memcpy(values + row * sizeof(int32), column_of(column, tuples[row]), sizeof(int32));
			break;
		case sizeof(int64):
			for (uint32 row = 0; row < n; row++)
				memcpy(values + row * sizeof(int64), column_of(column, tuples[row]), sizeof(int64));
			break;
		default:
			for (uint32 row = 0; row < n; row++)
				memcpy(values + row * column->length, column_of(column, tuples[row]),
					   column->length);
	}
}

void
hm_heap_column_datums(const HmHeapColumns *columns, int i, const HeapTupleHeader *tuples, uint32 n,
					  Datum *values, uint32 stride)
{
	const HmHeapColumn *column = &columns->columns[i];

	Assert(column->by_value);
	switch (column->length)
	{
		case sizeof(int32):
			for (uint32 row = 0; row < n; row++)
				values[(Size) row * stride] =
					fetch_att(column_of(column, tuples[row]), true, sizeof(int32));
			break;
		case sizeof(int64):
			for (uint32 row = 0; row < n; row++)
				values[(Size) row * stride] =
					fetch_att(column_of(column, tuples[row]), true, sizeof(int64));
			break;
		default:
			for (uint32 row = 0; row < n; row++)
				values[(Size) row * stride] =
					fetch_att(column_of(column, tuples[row]), true, column->length);
	}
}
