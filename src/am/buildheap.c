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

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/internal.h"
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
	double		tuples;			/* live ones found by core */
} HeapScan;

/*
 * Is a scan by pages the right one?  Pages that are not all-visible are read twice, so most must be.
 * A SERIALIZABLE transaction would lock what it reads with a snapshot, and a snapshot that can become
 * too old would fail the build.  Expressions and predicates are left to core.
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

/* The offset that index entries have for a heap-only tuple.  Fills "roots" if it is not. */
static OffsetNumber
root_offset(Relation heap, Buffer buffer, OffsetNumber offset, OffsetNumber *roots, bool *filled)
{
	OffsetNumber root;

	if (!*filled)
	{
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		heap_get_root_tuples(BufferGetPage(buffer), roots);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		*filled = true;
	}
	root = roots[offset - 1];
	if (!OffsetNumberIsValid(root))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not find the root of heap-only tuple (%u,%u) in table \"%s\"",
						BufferGetBlockNumber(buffer), offset, RelationGetRelationName(heap))));
	return root;
}

/*
 * Call the callback for all tuples that a build must index, as table_index_build_scan() does.
 * Only after hm_build_scans_pages(), and not in parallel.  Returns the number of live tuples.
 */
double
hm_build_scan_pages(Relation heap, Relation index, IndexInfo *info, bool progress,
					IndexBuildCallback callback, void *arg)
{
	HeapScan	state = {heap, index, info, callback, arg, 0, 0};
	BlockNumber blocks = RelationGetNumberOfBlocks(heap);
	BlockNumber block = InvalidBlockNumber;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan_strat(heap, snapshot, 0, NULL, true, false);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	OffsetNumber roots[MaxHeapTuplesPerPage];
	bool		have_roots = false;
	bool		visible = false;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, blocks);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Buffer		buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;
		ItemPointerData tid = slot->tts_tid;

		if (ItemPointerGetBlockNumber(&tid) != block)
		{
			CHECK_FOR_INTERRUPTS();
			block = ItemPointerGetBlockNumber(&tid);
			visible = PageIsAllVisible(BufferGetPage(buffer));
			have_roots = false;
			if (visible)
			{
				scan_before(&state, block);
				state.next = block + 1;
			}
			if (progress)
				pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, block);
		}
		if (!visible)
			continue;
		if (HeapTupleHeaderIsHeapOnly(((HeapTupleTableSlot *) slot)->tuple->t_data))
			ItemPointerSetOffsetNumber(&tid, root_offset(heap, buffer, ItemPointerGetOffsetNumber(&tid),
														 roots, &have_roots));
		FormIndexDatum(info, slot, NULL, values, isnull);
		callback(index, &tid, values, isnull, true, arg);
		state.tuples++;
	}
	scan_before(&state, blocks);
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, blocks);

	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	return state.tuples;
}
