/*
 * scan.c
 *		Plain index scans: forward, backward, marked, into a bitmap.
 *
 * A scan reads a leaf at a time (scanread.c).  A forward scan may begin with the first matching
 * entries of a leaf, and takes a step to the rest of it.  The processes of a parallel scan take
 * turns (scanparallel.c).
 *
 * Most scans hold no pin between calls.  A scan is "careful" if it relies on a TID in a
 * way that its MVCC snapshot does not protect: an index-only scan, which looks at the
 * visibility map instead of the tuple, and any scan with another kind of snapshot.  It
 * keeps a pin on the leaf from which it returns tuples, for which VACUUM waits.  After
 * reading a leaf it checks that the segment is still alive, because VACUUM does not clean
 * the pages of retired segments.
 *
 * Rows that the server finds dead to all while it follows the scan's TIDs get hints
 * (deadentries.c), by which later scans leave them out.
 */
#include "postgres.h"

#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "am/scan/scanstate.h"
#include "am/scan/scanparallel.h"
#include "compat.h"

/*
 * The first entries that a forward scan copies; it copies the rest of the leaf when they have been
 * returned. "ORDER BY k LIMIT 1", which takes jobs from a queue, needs no more: with all of a leaf
 * copied, a scan took 16,200 instructions where btree's took 6,900 (valgrind --tool=callgrind, for
 * one of two clients).
 */
#define HM_FIRST_ITEMS 32

IndexScanDesc
hm_scan_begin(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	HmScan *state = palloc(sizeof(HmScan));

	memset(state, 0, offsetof(HmScan, page.items));
	state->type = hm_is_composite(index) ? NULL : hm_key_type(index);
	state->descending = (index->rd_indoption[0] & INDOPTION_DESC) != 0;
	state->range_context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia scan ranges", ALLOCSET_SMALL_SIZES);
	scan->xs_itupdesc = RelationGetDescr(index);
	scan->opaque = state;
	return scan;
}

/* Note that the row of the item returned last is dead to all. */
static void
note_dead(HmScan *state)
{
	if (state->dead == NULL)
		state->dead =
			MemoryContextAlloc(GetMemoryChunkContext(state), HT_LEAF_MAX_ENTRIES * sizeof(uint16));

	/* A scan that turns round can meet an item again and again. */
	if (state->dead_count < HT_LEAF_MAX_ENTRIES)
		state->dead[state->dead_count++] = (uint16) state->page.current;
}

static void
release_page(HmScanPage *page)
{
	if (BufferIsValid(page->buffer))
		ReleaseBuffer(page->buffer);
	page->buffer = InvalidBuffer;
	page->valid = false;
}

static void
forget_mark(HmScan *state)
{
	state->mark_set = false;
	state->mark_here = false;
	if (state->marked != NULL)
		release_page(state->marked);
}

/*
 * CLUSTER reads all rows in the order of an index.  PostgreSQL asks for that only once for
 * the access method, not for each index, so the scan finds out.
 */
static void
refuse_cluster(IndexScanDesc scan)
{
	HmScan *state = (HmScan *) scan->opaque;

	if (scan->xs_snapshot == SnapshotAny && scan->numberOfKeys == 0 &&
		!hm_keeps_order(scan->indexRelation, scan->heapRelation))
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot cluster on index \"%s\" because it does not keep the order of its %s",
					RelationGetRelationName(scan->indexRelation),
					state->type == NULL ? "columns" : "column"),
			 errhint("Cluster on a btree index of the %s.",
					 state->type == NULL ? "columns" : "column")));
}

void
hm_scan_restart(IndexScanDesc scan, ScanKey keys, int nkeys)
{
	HmScan *state = (HmScan *) scan->opaque;
	MemoryContext old_context;

	/* Insert this backend's queued entries, so that the scan finds them. */
	hm_batch_apply(scan->indexRelation);
	refuse_cluster(scan);

	hm_scan_give_hints(scan);
	release_page(&state->page);
	forget_mark(state);
	if (keys != NULL && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));

	MemoryContextReset(state->range_context);
	old_context = MemoryContextSwitchTo(state->range_context);
	hm_ranges_from_keys(scan->indexRelation, scan->keyData, scan->numberOfKeys, &state->ranges);
	MemoryContextSwitchTo(old_context);
}

void
hm_scan_end(IndexScanDesc scan)
{
	HmScan *state = (HmScan *) scan->opaque;

	hm_scan_give_hints(scan);
	release_page(&state->page);
	forget_mark(state);
	if (state->tuple != NULL)
		hm_scan_tuple_end(state->tuple);
	if (state->dead != NULL)
		pfree(state->dead);
	if (state->marked != NULL)
		pfree(state->marked);
	MemoryContextDelete(state->range_context);
	pfree(state);
}

/* ----------------------------------------------------------------
 *		Returning entries
 * ----------------------------------------------------------------
 */

/*
 * Keep a copy of the current page if the mark is on it.  Called before the scan leaves
 * the page.
 */
static void
save_mark(HmScan *state)
{
	if (!state->mark_here)
		return;
	if (state->marked == NULL)
		state->marked = palloc0(sizeof(HmScanPage));
	release_page(state->marked);
	*state->marked = state->page;
	state->marked->current = state->mark_current;
	if (BufferIsValid(state->marked->buffer))
		IncrBufferRefCount(state->marked->buffer);
	state->mark_here = false;
}

static void
count_search(IndexScanDesc scan)
{
	pgstat_count_index_scan(scan->indexRelation);
	hm_count_search(scan);
}

/*
 * Read what is next in the scan's direction; of a parallel scan, wherever its processes have come
 * to.
 */
static bool
read_on(IndexScanDesc scan, HmPosition position, bool backward, int enough)
{
	HmScan *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;
	HmTaken taken;
	bool found;

	if (scan->parallel_scan == NULL)
		return hm_scan_read(scan, position, backward, enough);

	/*
	 * Others may wait for their turn meanwhile, so this comes before; and VACUUM may wait for the
	 * pin, and who reads for VACUUM.
	 */
	hm_scan_give_hints(scan);
	if (BufferIsValid(page->buffer))
		ReleaseBuffer(page->buffer);
	page->buffer = InvalidBuffer;
	StaticAssertStmt(sizeof(position) <= HM_POSITION_MAX, "a position is too large");
	taken = hm_parallel_take(scan, &position, sizeof(position));
	if (taken == HM_TAKEN_NONE)
	{
		release_page(page);
		return false;
	}
	if (taken == HM_TAKEN_FIRST)
		count_search(scan);
	found = hm_scan_read(scan, position, backward, HM_ALL_ITEMS);
	hm_parallel_leave(scan, !found ? NULL : backward ? &page->low : &page->high, sizeof(position));
	return found;
}

/* Begin at the first entry of the scan or, if backward, at the last one. */
static bool
read_first(IndexScanDesc scan, bool backward, int enough)
{
	HmScan *state = (HmScan *) scan->opaque;

	/* Many processes make one search. */
	if (scan->parallel_scan == NULL)
		count_search(scan);
	state->careful = scan->xs_want_itup || !IsMVCCSnapshot(scan->xs_snapshot);
	return read_on(scan, hm_position((HmPart) (backward ? HM_PART_NULLS_HIGH + 1 : 0), 0, 0),
				   backward, enough);
}

/* Go to the next item.  Returns false if there are no more. */
static bool
next_item(IndexScanDesc scan, bool backward)
{
	HmScan *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;

	if (!page->valid)
	{
		/* Without a log, nothing but a pin lets the scan set hints. */
		state->keeps_pin = !RelationNeedsWAL(scan->indexRelation) && scan->ignore_killed_tuples;
		return read_first(scan, backward,
						  backward || !IsMVCCSnapshot(scan->xs_snapshot) ? HM_ALL_ITEMS :
																		   HM_FIRST_ITEMS);
	}
	if (scan->kill_prior_tuple)
		note_dead(state);
	scan->kill_prior_tuple = false;
	page->current += backward ? -1 : 1;
	if (page->current >= 0 && page->current < page->count)
		return true;
	save_mark(state);
	return read_on(scan, backward ? page->low : page->high, backward, HM_ALL_ITEMS);
}

bool
hm_scan_next(IndexScanDesc scan, ScanDirection direction)
{
	HmScan *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;
	bool backward = ScanDirectionIsBackward(direction) != state->descending;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!next_item(scan, backward))
			return false;
		hm_tid_check(scan->indexRelation, page->items[page->current].tid);
		hm_tid_unpack(page->items[page->current].tid, &scan->xs_heaptid);
		scan->xs_recheck = state->ranges.recheck;
	} while (scan->xs_want_itup &&
			 !hm_scan_tuple(scan, &state->tuple, page->low.part, page->items[page->current].key));
	return true;
}

int64
hm_scan_bitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	HmScan *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;
	ItemPointerData tids[HT_LEAF_MAX_ENTRIES];
	int64 result = 0;

	state->keeps_pin = false;
	if (!read_first(scan, false, HM_ALL_ITEMS))
		return 0;
	do
	{
		for (int i = 0; i < page->count; i++)
		{
			hm_tid_check(scan->indexRelation, page->items[i].tid);
			hm_tid_unpack(page->items[i].tid, &tids[i]);
		}
		tbm_add_tuples(bitmap, tids, page->count, state->ranges.recheck);
		result += page->count;
	} while (hm_scan_read(scan, page->high, false, HM_ALL_ITEMS));
	return result;
}

void
hm_scan_mark(IndexScanDesc scan)
{
	HmScan *state = (HmScan *) scan->opaque;

	if (state->marked != NULL)
		release_page(state->marked);
	state->mark_set = state->page.valid;
	state->mark_here = state->page.valid;
	state->mark_current = state->page.current;
}

void
hm_scan_restore(IndexScanDesc scan)
{
	HmScan *state = (HmScan *) scan->opaque;

	if (state->mark_here)
	{
		state->page.current = state->mark_current;
		return;
	}
	hm_scan_give_hints(scan);
	release_page(&state->page);
	if (!state->mark_set)
		return;

	/* The mark may be restored again: it is now on this page. */
	state->page = *state->marked;
	state->marked->buffer = InvalidBuffer;
	state->marked->valid = false;
	state->mark_here = true;
	state->mark_current = state->page.current;
}
