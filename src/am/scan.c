/*
 * scan.c
 *		Plain index scans: forward, backward, marked, into a bitmap.
 *
 * A scan reads a leaf at a time.  All matching entries of the leaf are copied under its
 * lock.  Between leaves the scan remembers only the bounds of what it has read, so any
 * step can start from the directory again.  A step to the right follows the right link if
 * that leads to the wanted leaf.  A step to the left always descends, as there are no
 * left links.  A forward scan may begin with the first matching entries of a leaf, and takes a step to the
 * rest of it.
 *
 * Most scans hold no pin between calls.  A scan is "careful" if it relies on a TID in a
 * way that its MVCC snapshot does not protect: an index-only scan, which looks at the
 * visibility map instead of the tuple, and any scan with another kind of snapshot.  It
 * keeps a pin on the leaf from which it returns tuples, for which VACUUM waits.  After
 * reading a leaf it checks that the segment is still alive, because VACUUM does not clean
 * the pages of retired segments.
 *
 * Rows that the server finds dead to all while it follows the scan's TIDs get hints (dead.c), by
 * which later scans leave them out.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "am/dead.h"
#include "am/fault.h"
#include "compat.h"

/*
 * A search for one leaf that takes so many steps to the right, or starts again so often,
 * has met a damaged index.
 */
#define HM_MAX_STEPS	10000

/*
 * The first entries that a forward scan copies; it copies the rest of the leaf when they have been returned.
 * "ORDER BY k LIMIT 1", which takes jobs from a queue, needs no more: with all of a leaf copied, a scan took
 * 16,200 instructions where btree's took 6,900 (valgrind --tool=callgrind, for one of two clients).
 */
#define HM_FIRST_ITEMS	32
#define HM_ALL_ITEMS	INT_MAX

/* What a scan has read of one leaf. */
typedef struct HmScanPage
{
	bool		valid;
	Buffer		buffer;			/* pinned if the scan keeps a pin */
	HmPosition	low;			/* bounds of what was read */
	HmPosition	high;
	BlockNumber right;			/* the leaf to the right, if high is its
								 * beginning; or this one, if high is on it */
	uint64		stamp;
	BlockNumber block;
	XLogRecPtr	lsn;			/* of the leaf when it was read */
	int			current;		/* item returned last */
	int			count;
	HtEntry		items[HT_LEAF_MAX_ENTRIES];
} HmScanPage;

typedef struct HmScan
{
	const HmKeyType *type;		/* of the index's only column; NULL if there are several */
	bool		descending;		/* the index is DESC: storage is read backwards */
	bool		careful;
	bool		keeps_pin;		/* on the leaf from which it returns tuples */
	int			dead_count;		/* items of the page whose rows are dead to all */
	uint16	   *dead;			/* their numbers, or NULL */
	MemoryContext range_context;
	HmRanges	ranges;
	HmScanPage *marked;			/* a copy, once the scan has left the page; or
								 * NULL */
	bool		mark_set;
	bool		mark_here;		/* the mark is an item of the current page */
	int			mark_current;
	HmScanTuple *tuple;			/* for index-only scans; NULL if there was none yet */
	HmScanPage	page;			/* the last field, because its items are large */
} HmScan;

IndexScanDesc
hm_scan_begin(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	HmScan	   *state = palloc(sizeof(HmScan));

	memset(state, 0, offsetof(HmScan, page.items));
	state->type = hm_is_composite(index) ? NULL : hm_key_type(index);
	state->descending = (index->rd_indoption[0] & INDOPTION_DESC) != 0;
	state->range_context = AllocSetContextCreate(CurrentMemoryContext,
												 "harmonia scan ranges",
												 ALLOCSET_SMALL_SIZES);
	scan->xs_itupdesc = RelationGetDescr(index);
	scan->opaque = state;
	return scan;
}

/* Note that the row of the item returned last is dead to all. */
static void
note_dead(HmScan *state)
{
	if (state->dead == NULL)
		state->dead = MemoryContextAlloc(GetMemoryChunkContext(state),
										 HT_LEAF_MAX_ENTRIES * sizeof(uint16));

	/* A scan that turns round can meet an item again and again. */
	if (state->dead_count < HT_LEAF_MAX_ENTRIES)
		state->dead[state->dead_count++] = (uint16) state->page.current;
}

/*
 * Before the scan leaves its page: set hints for the items whose rows are dead.  By now VACUUM
 * may have removed an entry and freed its line pointer, and a new row with the same key may
 * have got that, and an equal entry.  A pin has kept VACUUM from that.  Without a pin, the leaf
 * must not have changed since it was read, which its LSN shows, if changes are logged.
 */
static void
give_hints(IndexScanDesc scan)
{
	HmScan	   *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;
	bool		pinned = BufferIsValid(page->buffer);
	int			count = state->dead_count;
	Buffer		buffer = page->buffer;
	BlockNumber header = InvalidBlockNumber;

	state->dead_count = 0;
	if (count == 0 || !(pinned || RelationNeedsWAL(scan->indexRelation)))
		return;
	if (!pinned)
		buffer = ReadBuffer(scan->indexRelation, page->block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (hm_page_is(BufferGetPage(buffer), HM_PAGE_LEAF) &&
		hm_page_special(BufferGetPage(buffer))->stamp == page->stamp &&
		(pinned || BufferGetLSNAtomic(buffer) == page->lsn))
	{
		HtEntry		entries[HT_LEAF_MAX_ENTRIES];

		for (int i = 0; i < count; i++)
			entries[i] = page->items[state->dead[i]];
		hm_leaf_hint(buffer, entries, count);
		header = hm_page_special(BufferGetPage(buffer))->segment;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (!pinned)
		ReleaseBuffer(buffer);
	if (header != InvalidBlockNumber)
	{
		hm_block_check(scan->indexRelation, header);
		hm_segment_note_hinted(scan->indexRelation, header, page->stamp);
	}
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
	HmScan	   *state = (HmScan *) scan->opaque;

	if (scan->xs_snapshot == SnapshotAny && scan->numberOfKeys == 0 &&
		!hm_keeps_order(scan->indexRelation, scan->heapRelation))
		ereport(ERROR,
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
	HmScan	   *state = (HmScan *) scan->opaque;
	MemoryContext old_context;

	/* Insert this backend's queued entries, so that the scan finds them. */
	hm_batch_apply(scan->indexRelation);
	refuse_cluster(scan);

	give_hints(scan);
	release_page(&state->page);
	forget_mark(state);
	if (keys != NULL && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));

	MemoryContextReset(state->range_context);
	old_context = MemoryContextSwitchTo(state->range_context);
	hm_ranges_from_keys(scan->indexRelation, scan->keyData, scan->numberOfKeys,
						&state->ranges);
	MemoryContextSwitchTo(old_context);
}

void
hm_scan_end(IndexScanDesc scan)
{
	HmScan	   *state = (HmScan *) scan->opaque;

	give_hints(scan);
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
 *		Where to go
 * ----------------------------------------------------------------
 */

/*
 * The first range that is not wholly below the position, or the count.  A
 * range with the position's key may hold entries on both its sides.
 */
static int
first_range(const HmRanges *ranges, HmPosition position)
{
	int			low = 0,
				high = ranges->count;

	while (low < high)
	{
		int			middle = (low + high) / 2;
		const HmRange *range = &ranges->ranges[middle];

		if (range->part < position.part ||
			(range->part == position.part && KEY_LESS((HT_KEY) range->high, position.entry.key)))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Move the position forward to where the next range begins, or backward to
 * where the range before ends.  Returns false if there is no such range.
 */
static bool
next_target(const HmRanges *ranges, bool backward, HmPosition *position)
{
	int			i = first_range(ranges, *position);

	if (!backward)
	{
		HmPosition	begin;

		if (i == ranges->count)
			return false;
		begin = hm_position(ranges->ranges[i].part, (HT_KEY) ranges->ranges[i].low, 0);
		if (hm_position_cmp(begin, *position) > 0)
			*position = begin;
	}
	else
	{
		HmPosition	end;

		/* Range i counts only if it begins below the position. */
		if (i == ranges->count ||
			hm_position_cmp(hm_position(ranges->ranges[i].part, (HT_KEY) ranges->ranges[i].low, 0),
							*position) >= 0)
			i--;
		if (i < 0)
			return false;
		end = hm_position(ranges->ranges[i].part, (HT_KEY) ranges->ranges[i].high, HT_TID_MAX);
		if (hm_position_cmp(end, *position) < 0)
			*position = end;
	}
	return true;
}

/* ----------------------------------------------------------------
 *		Reading a leaf
 * ----------------------------------------------------------------
 */

/* Whether the position lies on this leaf or, backward, what comes before it. */
static bool
leaf_covers(Page page, HmPosition position, bool backward)
{
	int			low = hm_position_cmp(hm_page_low(page), position);
	int			high = hm_position_cmp(position, hm_page_high(page));

	return backward ? low < 0 && high <= 0 : low <= 0 && high < 0;
}

/* Whether a locked page is a leaf of the segment with this stamp. */
static bool
is_leaf_of(Page page, uint64 stamp)
{
	return hm_page_is(page, HM_PAGE_LEAF) && hm_page_special(page)->stamp == stamp;
}

/*
 * Find the leaf for a position through the directory.  Unlike hm_segment_leaf(), this
 * releases the header before it waits for the leaf, so that a scan holds one content lock
 * at a time; the leaf's stamp and bounds show what has happened in between.  Returns it
 * locked in share mode, and its header pinned if the scan is careful; InvalidBuffer if the
 * index ends before.  *position may move over a gap between parts.
 */
static Buffer
find_leaf(IndexScanDesc scan, HmPosition *position, bool backward, Buffer *header)
{
	HmScan	   *state = (HmScan *) scan->opaque;
	Relation	index = scan->indexRelation;

	for (int attempt = 0;; attempt++)
	{
		Buffer		header_buffer;
		Buffer		leaf;
		Page		page;
		uint64		stamp;
		int			steps = 0;

		header_buffer = hm_segment_enter(index, position, backward ? HM_BEFORE : HM_AT_OR_AFTER,
										 BUFFER_LOCK_SHARE);
		if (!BufferIsValid(header_buffer))
			return InvalidBuffer;
		stamp = hm_page_segment(BufferGetPage(header_buffer))->stamp;
		leaf = hm_segment_descend(index, header_buffer, position->entry, backward, NULL);
		LockBuffer(header_buffer, BUFFER_LOCK_UNLOCK);
		HM_FAULT(scan_descended);
		LockBuffer(leaf, BUFFER_LOCK_SHARE);

		/* If the leaf was split after the header was released, the rest is to the right. */
		for (;;)
		{
			BlockNumber right;

			page = BufferGetPage(leaf);
			if (!is_leaf_of(page, stamp) || leaf_covers(page, *position, backward))
				break;
			right = hm_page_special(page)->right;
			if (!BlockNumberIsValid(right))
				break;
			if (++steps > HM_MAX_STEPS)
				hm_page_no_progress(index, leaf);
			UnlockReleaseBuffer(leaf);
			leaf = ReadBuffer(index, right);
			LockBuffer(leaf, BUFFER_LOCK_SHARE);
		}

		if (is_leaf_of(page, stamp) && leaf_covers(page, *position, backward))
		{
			if (state->careful)
				*header = header_buffer;
			else
				ReleaseBuffer(header_buffer);
			return leaf;
		}

		/*
		 * The leaf was retired and used again, or its segment is not the last one any
		 * more: start again.
		 */
		if (attempt == HM_MAX_STEPS)
			hm_page_no_progress(index, leaf);
		UnlockReleaseBuffer(leaf);
		ReleaseBuffer(header_buffer);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * The leaf to which the right link of the leaf read last leads, locked in share mode, and
 * its header pinned if the scan is careful; InvalidBuffer if it is not the one for the
 * position.
 */
static Buffer
follow_right(IndexScanDesc scan, HmPosition position, Buffer *header)
{
	HmScan	   *state = (HmScan *) scan->opaque;
	Relation	index = scan->indexRelation;
	Buffer		leaf;
	Page		page;

	if (!BlockNumberIsValid(state->page.right))
		return InvalidBuffer;
	leaf = ReadBuffer(index, state->page.right);
	LockBuffer(leaf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(leaf);
	if (is_leaf_of(page, state->page.stamp) && leaf_covers(page, position, false))
	{
		if (state->careful)
		{
			hm_block_check(index, hm_page_special(page)->segment);
			*header = ReadBuffer(index, hm_page_special(page)->segment);
		}
		return leaf;
	}
	UnlockReleaseBuffer(leaf);
	return InvalidBuffer;
}

/* Whether an entry passes all filters. */
static bool
passes_filters(const HmRanges *ranges, HT_KEY key)
{
	for (int i = 0; i < ranges->filter_count; i++)
	{
		const HmFieldFilter *filter = &ranges->filters[i];
		HmKey		value = key >> filter->field.shift & hm_field_mask(&filter->field);
		int			low = 0,
					high = filter->count;

		/* The first span that does not end below the value. */
		while (low < high)
		{
			int			middle = (low + high) / 2;

			if (filter->spans[middle].high < value)
				low = middle + 1;
			else
				high = middle;
		}
		if (low == filter->count || filter->spans[low].low > value)
			return false;
	}
	return true;
}

/* Leave out the entries that do not pass the filters. */
static void
filter_items(const HmRanges *ranges, HmScanPage *page)
{
	int			kept = 0;

	if (ranges->filter_count == 0)
		return;
	for (int i = 0; i < page->count; i++)
	{
		if (passes_filters(ranges, page->items[i].key))
			page->items[kept++] = page->items[i];
	}
	page->count = kept;
}

/* The first key of what is left of a range at a position, which is not above the range. */
static HT_KEY
first_key(const HmRange *range, HmPosition position)
{
	if (range->part == position.part && KEY_LESS((HT_KEY) range->low, position.entry.key))
		return position.entry.key;
	return (HT_KEY) range->low;
}

/*
 * Copy the entries that match and lie on the far side of the position, but not those that are
 * hinted to be dead, if skip_dead is true.  Returns false if there are at least so many as "enough" and some
 * may be left: the position after those that were copied is then the end of what was read.
 */
static bool
copy_items(HmScan *state, Page page, HmPosition position, bool backward, bool skip_dead, int enough)
{
	HmScanPage *result = &state->page;
	HmPosition	low = hm_page_low(page);
	HmPosition	high = hm_page_high(page);
	bool		unread;

	if (backward)
		high = position;
	else
		low = position;

	/* Entries with the position's key may be before it, and do not count. */
	if (position.entry.tid != 0)
		enough = HM_ALL_ITEMS;
	result->count = 0;
	skip_dead = skip_dead && ht_leaf_has_hints(page);
	for (int i = first_range(&state->ranges, low); i < state->ranges.count && result->count < enough; i++)
	{
		const HmRange *range = &state->ranges.ranges[i];

		if (hm_position_cmp(hm_position(range->part, (HT_KEY) range->low, 0), high) >= 0)
			break;
		result->count += ht_leaf_read_some(page, first_key(range, low), (HT_KEY) range->high, skip_dead,
										   enough - result->count, result->items + result->count);
	}
	unread = result->count >= enough;
	if (unread)
	{
		HtEntry		last = result->items[result->count - 1];

		high = hm_position(low.part, last.key, last.tid + 1);
	}

	/*
	 * The leaf was found again by a search, so it may have entries that were returned
	 * already.
	 */
	if (backward)
	{
		while (result->count > 0 &&
			   ht_entry_cmp(result->items[result->count - 1], position.entry) >= 0)
			result->count--;
	}
	else
	{
		int			skip = 0;

		while (skip < result->count &&
			   ht_entry_cmp(result->items[skip], position.entry) < 0)
			skip++;
		result->count -= skip;
		memmove(result->items, result->items + skip, result->count * sizeof(HtEntry));
	}
	filter_items(&state->ranges, result);
	result->low = low;
	result->high = high;
	result->right = backward ? InvalidBlockNumber : hm_page_special(page)->right;
	result->stamp = hm_page_special(page)->stamp;
	return !unread;
}

/* Whether the segment that a leaf was read from is still alive. */
static bool
segment_alive(Buffer header, uint64 stamp)
{
	bool		alive;

	LockBuffer(header, BUFFER_LOCK_SHARE);
	alive = hm_segment_is_alive(BufferGetPage(header), stamp);
	LockBuffer(header, BUFFER_LOCK_UNLOCK);
	return alive;
}

/*
 * Read leaves from the position on, in one direction, until one has a match.  Of that "enough" matches are
 * read, or some more.  Returns false, with no valid page, at the end.
 */
static bool
read_from(IndexScanDesc scan, HmPosition position, bool backward, int enough)
{
	HmScan	   *state = (HmScan *) scan->opaque;
	Relation	index = scan->indexRelation;
	bool		try_right = !backward && state->page.valid;

	give_hints(scan);
	if (BufferIsValid(state->page.buffer))
	{
		ReleaseBuffer(state->page.buffer);
		state->page.buffer = InvalidBuffer;
	}
	HM_FAULT(scan_leaf_left);

	while (next_target(&state->ranges, backward, &position))
	{
		Buffer		header = InvalidBuffer;
		Buffer		leaf = InvalidBuffer;

		CHECK_FOR_INTERRUPTS();
		if (try_right && hm_position_cmp(position, state->page.high) == 0)
			leaf = follow_right(scan, position, &header);
		if (!BufferIsValid(leaf))
		{
			leaf = find_leaf(scan, &position, backward, &header);
			if (!BufferIsValid(leaf))
				break;
		}
		hm_test_old_snapshot(scan->xs_snapshot, index, BufferGetPage(leaf));

		/* A transaction or snapshot from recovery may need these. */
		state->page.block = BufferGetBlockNumber(leaf);
		if (!copy_items(state, BufferGetPage(leaf), position, backward,
						scan->ignore_killed_tuples &&
						!(IsMVCCSnapshot(scan->xs_snapshot) && scan->xs_snapshot->takenDuringRecovery),
						enough))
			state->page.right = state->page.block;
		state->page.lsn = BufferGetLSNAtomic(leaf);
		try_right = !backward;

		if (state->careful)
		{
			bool		alive;

			LockBuffer(leaf, BUFFER_LOCK_UNLOCK);
			HM_FAULT(scan_leaf_read);
			alive = segment_alive(header, state->page.stamp);
			ReleaseBuffer(header);
			if (!alive)
			{
				ReleaseBuffer(leaf);
				try_right = false;
				continue;
			}
			if (state->page.count > 0)
				state->page.buffer = leaf;
			else
				ReleaseBuffer(leaf);
		}
		else if (state->keeps_pin && state->page.count > 0)
		{
			LockBuffer(leaf, BUFFER_LOCK_UNLOCK);
			state->page.buffer = leaf;
		}
		else
			UnlockReleaseBuffer(leaf);

		if (state->page.count > 0)
		{
			state->page.valid = true;
			state->page.current = backward ? state->page.count - 1 : 0;
			return true;
		}
		position = backward ? state->page.low : state->page.high;
	}

	state->page.valid = false;
	return false;
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

/* Begin at the first entry of the scan or, if backward, at the last one. */
static bool
read_first(IndexScanDesc scan, bool backward, int enough)
{
	HmScan	   *state = (HmScan *) scan->opaque;

	pgstat_count_index_scan(scan->indexRelation);
	hm_count_search(scan);
	state->careful = scan->xs_want_itup || !IsMVCCSnapshot(scan->xs_snapshot);
	return read_from(scan, hm_position((HmPart) (backward ? HM_PART_NULLS_HIGH + 1 : 0), KEY_OF(0), 0),
					 backward, enough);
}

/* Go to the next item.  Returns false if there are no more. */
static bool
next_item(IndexScanDesc scan, bool backward)
{
	HmScan	   *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;

	if (!page->valid)
	{
		/* Without a log, nothing but a pin lets the scan set hints. */
		state->keeps_pin = !RelationNeedsWAL(scan->indexRelation) && scan->ignore_killed_tuples;
		return read_first(scan, backward,
						  backward || !IsMVCCSnapshot(scan->xs_snapshot) ? HM_ALL_ITEMS : HM_FIRST_ITEMS);
	}
	if (scan->kill_prior_tuple)
		note_dead(state);
	scan->kill_prior_tuple = false;
	page->current += backward ? -1 : 1;
	if (page->current >= 0 && page->current < page->count)
		return true;
	save_mark(state);
	return read_from(scan, backward ? page->low : page->high, backward, HM_ALL_ITEMS);
}

bool
hm_scan_next(IndexScanDesc scan, ScanDirection direction)
{
	HmScan	   *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;
	bool		backward = ScanDirectionIsBackward(direction) != state->descending;

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
	HmScan	   *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;
	ItemPointerData tids[HT_LEAF_MAX_ENTRIES];
	int64		result = 0;

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
	} while (read_from(scan, page->high, false, HM_ALL_ITEMS));
	return result;
}

void
hm_scan_mark(IndexScanDesc scan)
{
	HmScan	   *state = (HmScan *) scan->opaque;

	if (state->marked != NULL)
		release_page(state->marked);
	state->mark_set = state->page.valid;
	state->mark_here = state->page.valid;
	state->mark_current = state->page.current;
}

void
hm_scan_restore(IndexScanDesc scan)
{
	HmScan	   *state = (HmScan *) scan->opaque;

	if (state->mark_here)
	{
		state->page.current = state->mark_current;
		return;
	}
	give_hints(scan);
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
