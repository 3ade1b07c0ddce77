/*
 * heaprows.h
 *		Reading a heap's rows page by page, and columns where they are in a tuple.
 *
 * A sequential heap scan with an MVCC snapshot has found all visible tuples of a page when it
 * returns the first one.  It keeps the page pinned, and their line pointers in its
 * descriptor.  So the others can be taken from the page, and the descriptor moved on, as
 * heap_getnextslot() would do.
 */
#ifndef HARMONIA_AM_HEAPROWS_H
#define HARMONIA_AM_HEAPROWS_H

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "executor/tuptable.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* A column at a fixed offset of tuples without NULLs. */
typedef struct HmHeapColumn
{
	uint32 offset; /* in the tuple's data */
	int16 length;
	bool by_value;
} HmHeapColumn;

typedef struct HmHeapColumns
{
	int count;
	int last; /* the highest attribute number of them */
	HmHeapColumn *columns;
} HmHeapColumns;

/*
 * Locate attributes of a table.  Returns false if one of them is not at a fixed offset, or is not a
 * user's column.  What is allocated is in CurrentMemoryContext.
 */
extern bool hm_heap_columns_locate(HmHeapColumns *columns, TupleDesc table,
								   const AttrNumber *attributes, int count);

/*
 * The scan, if it leaves the visible tuples of a page in its descriptor after it has returned one
 * of them into this slot; otherwise NULL.
 */
extern HeapScanDesc hm_heap_page_scan(TableScanDesc scan, const TupleTableSlot *slot);

/*
 * Store the tuple that the scan is at in a slot, which pins the page.  "tuple" has to last as long
 * as it is in the slot.
 */
extern void hm_heap_store(HeapScanDesc scan, HeapTuple tuple, TupleTableSlot *slot);

/* The tuple that the scan is at, and the number of its line pointer. */
static inline OffsetNumber
hm_heap_offset(HeapScanDesc scan)
{
	return scan->rs_vistuples[scan->rs_cindex];
}

static inline HeapTupleHeader
hm_heap_tuple(HeapScanDesc scan)
{
	Page page = BufferGetPage(scan->rs_cbuf);

	Assert(ItemIdIsNormal(PageGetItemId(page, hm_heap_offset(scan))));
	return (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, hm_heap_offset(scan)));
}

/* The scan's next visible tuple, if it is on the same page, or else NULL. */
static inline HeapTupleHeader
hm_heap_peek(HeapScanDesc scan)
{
	Page page = BufferGetPage(scan->rs_cbuf);
	uint32 next = (uint32) scan->rs_cindex + 1;

	if (next >= (uint32) scan->rs_ntuples)
		return NULL;
	return (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, scan->rs_vistuples[next]));
}

/*
 * Move the scan on to the next visible tuple of its page.  Returns false if there is no more; then
 * table_scan_getnextslot() goes to the next page.
 */
static inline bool
hm_heap_next_in_page(HeapScanDesc scan)
{
	if ((uint32) scan->rs_cindex + 1 >= (uint32) scan->rs_ntuples)
		return false;
	scan->rs_cindex++;
	pgstat_count_heap_getnext(scan->rs_base.rs_rd);
	return true;
}

/* Whether all columns are where they were located. */
static inline bool
hm_heap_columns_fit(const HmHeapColumns *columns, HeapTupleHeader tuple)
{
	return (tuple->t_infomask & HEAP_HASNULL) == 0 &&
		   HeapTupleHeaderGetNatts(tuple) >= columns->last;
}

/* The value of the i-th column.  It may point into the page. */
static inline Datum
hm_heap_column(const HmHeapColumns *columns, int i, HeapTupleHeader tuple)
{
	const HmHeapColumn *column = &columns->columns[i];

	return fetch_att((const char *) tuple + tuple->t_hoff + column->offset, column->by_value,
					 column->length);
}

/*
 * Copy the i-th column of n tuples, in all of which the columns fit.  hm_heap_column_store()
 * makes an array as the tuples store the values, without padding; hm_heap_column_datums() one
 * of Datums that are "stride" places apart, and the column has to be one that is passed by value.
 */
extern void hm_heap_column_store(const HmHeapColumns *columns, int i, const HeapTupleHeader *tuples,
								 uint32 n, char *values);
extern void hm_heap_column_datums(const HmHeapColumns *columns, int i,
								  const HeapTupleHeader *tuples, uint32 n, Datum *values,
								  uint32 stride);

#endif /* HARMONIA_AM_HEAPROWS_H */
