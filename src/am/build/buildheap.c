/*
 * buildheap.c
 *		Reading a heap whose pages are mostly all-visible, for an index build.
 *
 * table_index_build_scan() locks the page and judges visibility for each tuple.
 * Where all tuples of a page are visible to everybody, neither is necessary, and that is
 * half the time of reading narrow rows.  So a scan with a snapshot, which has all visible tuples
 * of a page under one lock, serves these pages.  All others are left to
 * table_index_build_range_scan(), which also indexes what only older snapshots see.
 *
 * The build's lock on the table keeps writers and VACUUM away.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/snapmgr.h"

#include "am/heaprows.h"
#include "am/build/buildsort.h"
#include "compat.h"

/* A scan under way.  Blocks before "next" are done. */
typedef struct HeapScan
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	IndexBuildCallback callback;
	void	   *arg;
	BlockNumber next;
	double		tuples;			/* live ones */

	/* The page at hand. */
	HeapScanDesc scan;
	TupleTableSlot *slot;
	HeapTupleData tuple;		/* in the slot */
	OffsetNumber roots[MaxHeapTuplesPerPage];
	bool		have_roots;

	bool		fixed;			/* the index's columns are at fixed offsets: */
	HmHeapColumns columns;
} HeapScan;

/*
 * Is a scan by pages the right one?  Pages that are not all-visible are read twice, so most must
 * be. A SERIALIZABLE transaction would lock what it reads with a snapshot, and a snapshot that can
 * become too old would fail the build.  Expressions and predicates are left to core.
 */
bool
hm_build_scans_pages(Relation heap, IndexInfo *info)
{
	BlockNumber visible;

	if (heap->rd_tableam != GetHeapamTableAmRoutine() || info->ii_Concurrent ||
		info->ii_Expressions != NIL || info->ii_Predicate != NIL || IsolationIsSerializable() ||
		hm_old_snapshots_possible())
		return false;
	visibilitymap_count(heap, &visible, NULL);
	return visible / 3.0 >= RelationGetNumberOfBlocks(heap) / 4.0;
}

/* Have core index all blocks before this one that are not done. */
static void
scan_before(HeapScan *state, BlockNumber block)
{
	if (state->next < block)
		state->tuples += table_index_build_range_scan(state->heap, state->index, state->info, false, false, false,
													  state->next, block - state->next,
													  state->callback, state->arg, NULL);
	state->next = block;
}

/* The offset that an index entry has for the heap-only tuple that the scan is at. */
static OffsetNumber
root_offset(HeapScan *state)
{
	Buffer		buffer = state->scan->rs_cbuf;
	OffsetNumber offset = hm_heap_offset(state->scan);
	OffsetNumber root;

	if (!state->have_roots)
	{
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		heap_get_root_tuples(BufferGetPage(buffer), state->roots);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		state->have_roots = true;
	}
	root = state->roots[offset - 1];
	if (!OffsetNumberIsValid(root))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not find the root of heap-only tuple (%u,%u) in table \"%s\"",
						BufferGetBlockNumber(buffer), offset, RelationGetRelationName(state->heap))));
	return root;
}

/* Call the callback for the tuple that the scan is at. */
static void
index_tuple(HeapScan *state)
{
	HeapTupleHeader tuple = hm_heap_tuple(state->scan);
	OffsetNumber offset = hm_heap_offset(state->scan);
	ItemPointerData tid;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	if (HeapTupleHeaderIsHeapOnly(tuple))
		offset = root_offset(state);
	ItemPointerSet(&tid, BufferGetBlockNumber(state->scan->rs_cbuf), offset);
	if (state->fixed && hm_heap_columns_fit(&state->columns, tuple))
	{
		for (int i = 0; i < state->columns.count; i++)
		{
			values[i] = hm_heap_column(&state->columns, i, tuple);
			isnull[i] = false;
		}
	}
	else
	{
		hm_heap_store(state->scan, &state->tuple, state->slot);
		FormIndexDatum(state->info, state->slot, NULL, values, isnull);
	}
	state->callback(state->index, &tid, values, isnull, true, state->arg);
	state->tuples++;
}

/*
 * Call the callback for all tuples that a build must index, as table_index_build_scan() does.
 * Only after hm_build_scans_pages(), and not in parallel.  Returns the number of live tuples.
 */
double
hm_build_scan_pages(Relation heap, Relation index, IndexInfo *info, bool progress,
					IndexBuildCallback callback, void *arg)
{
	HeapScan	state = {heap, index, info, callback, arg};
	BlockNumber blocks = RelationGetNumberOfBlocks(heap);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan_strat(heap, snapshot, 0, NULL, true, false);

	state.slot = table_slot_create(heap, NULL);
	state.scan = hm_heap_page_scan(scan, state.slot);
	state.fixed = hm_heap_columns_locate(&state.columns, RelationGetDescr(heap), info->ii_IndexAttrNumbers,
										 info->ii_NumIndexAttrs);
	Assert(state.scan != NULL);
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, blocks);
	while (table_scan_getnextslot(scan, ForwardScanDirection, state.slot))
	{
		BlockNumber block = BufferGetBlockNumber(state.scan->rs_cbuf);
		bool		visible = PageIsAllVisible(BufferGetPage(state.scan->rs_cbuf));

		CHECK_FOR_INTERRUPTS();
		if (visible)
		{
			scan_before(&state, block);
			state.next = block + 1;
		}
		if (progress)
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, block);
		state.have_roots = false;
		do
		{
			if (visible)
				index_tuple(&state);
		} while (hm_heap_next_in_page(state.scan));
	}
	scan_before(&state, blocks);
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, blocks);

	ExecDropSingleTupleTableSlot(state.slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	return state.tuples;
}
