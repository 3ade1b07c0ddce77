/*
 * scanread.c
 *		Reading leaves for plain index scans.
 *
 * All matching entries of a leaf are copied under its lock.  Between leaves the scan remembers only
 * the bounds of what it has read, so any step can start from the directory again.  A step to the
 * right follows the right link if that leads to the wanted leaf.  A step to the left always
 * descends, as there are no left links.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "am/write/write.h"
#include "am/fault.h"
#include "am/scan/scanstate.h"
#include "compat.h"

/*
 * A search for one leaf that takes so many steps to the right, or starts again so often,
 * has met a damaged index.
 */
#define MAX_ATTEMPTS 10000

/*
 * By now VACUUM may have removed an entry and freed its line pointer, and a new row with the same
 * key may have got that, and an equal entry.  A pin has kept VACUUM from that.  Without a pin, the
 * leaf must not have changed since it was read, which its LSN shows, if changes are logged.
 */
void
hm_scan_give_hints(IndexScanDesc scan)
{
	HmScan *state = (HmScan *) scan->opaque;
	HmScanPage *page = &state->page;
	bool pinned = BufferIsValid(page->buffer);
	int count = state->dead_count;
	Buffer buffer = page->buffer;
	BlockNumber header = InvalidBlockNumber;

	state->dead_count = 0;
	if (count == 0 || !(pinned || RelationNeedsWAL(scan->indexRelation)))
		return;
	if (!pinned)
		buffer = ReadBuffer(scan->indexRelation, page->block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (hm_page_is_leaf_of(BufferGetPage(buffer), page->stamp) &&
		(pinned || BufferGetLSNAtomic(buffer) == page->lsn))
	{
		HtEntry entries[HT_LEAF_MAX_ENTRIES];

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
	const HmRange *all = ranges->ranges;
	int low = 0, middle, high = ranges->count;

	HM_BINARY_SEARCH(
		low, middle, high,
		all[middle].part < position.part ||
			(all[middle].part == position.part && (HT_KEY) all[middle].high < position.entry.key));
	return low;
}

/*
 * Move the position forward to where the next range begins, or backward to
 * where the range before ends.  Returns false if there is no such range.
 */
static bool
next_wanted(const HmRanges *ranges, bool backward, HmPosition *position)
{
	int i = first_range(ranges, *position);

	if (!backward)
	{
		HmPosition begin;

		if (i == ranges->count)
			return false;
		begin = hm_position(ranges->ranges[i].part, (HT_KEY) ranges->ranges[i].low, 0);
		if (hm_position_cmp(begin, *position) > 0)
			*position = begin;
	}
	else
	{
		HmPosition end;

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
	int low = hm_position_cmp(hm_page_low(page), position);
	int high = hm_position_cmp(position, hm_page_high(page));

	return backward ? low < 0 && high <= 0 : low <= 0 && high < 0;
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
	HmScan *state = (HmScan *) scan->opaque;
	Relation index = scan->indexRelation;
	HtWidth width = hm_key_width(index);

	for (int attempt = 0;; attempt++)
	{
		Buffer header_buffer;
		Buffer leaf;
		Page page;
		uint64 stamp;
		int steps = 0;

		header_buffer = hm_segment_enter(index, position, backward ? HM_BEFORE : HM_AT_OR_AFTER,
										 BUFFER_LOCK_SHARE);
		if (!BufferIsValid(header_buffer))
			return InvalidBuffer;
		stamp = hm_page_segment(BufferGetPage(header_buffer))->stamp;
		leaf = hm_segment_descend(index, header_buffer, width, position->entry, backward, NULL);
		LockBuffer(header_buffer, BUFFER_LOCK_UNLOCK);
		HM_FAULT(scan_descended);
		LockBuffer(leaf, BUFFER_LOCK_SHARE);

		/* If the leaf was split after the header was released, the rest is to the right. */
		for (;;)
		{
			BlockNumber right;

			page = BufferGetPage(leaf);
			if (!hm_page_is_leaf_of(page, stamp) || leaf_covers(page, *position, backward))
				break;
			right = hm_page_special(page)->right;
			if (!BlockNumberIsValid(right))
				break;
			if (++steps > MAX_ATTEMPTS)
				hm_page_no_progress(index, leaf);
			UnlockReleaseBuffer(leaf);
			leaf = ReadBuffer(index, right);
			LockBuffer(leaf, BUFFER_LOCK_SHARE);
		}

		if (hm_page_is_leaf_of(page, stamp) && leaf_covers(page, *position, backward))
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
		if (attempt == MAX_ATTEMPTS)
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
	HmScan *state = (HmScan *) scan->opaque;
	Relation index = scan->indexRelation;
	Buffer leaf;
	Page page;

	if (!BlockNumberIsValid(state->page.right))
		return InvalidBuffer;
	leaf = ReadBuffer(index, state->page.right);
	LockBuffer(leaf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(leaf);
	if (hm_page_is_leaf_of(page, state->page.stamp) && leaf_covers(page, position, false))
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

/* Leave out the entries that do not pass the filters. */
static void
filter_items(const HmRanges *ranges, HmScanPage *page)
{
	int kept = 0;

	if (ranges->filter_count == 0)
		return;
	for (int i = 0; i < page->count; i++)
	{
		if (hm_passes_filters(ranges->filters, ranges->filter_count, page->items[i].key))
			page->items[kept++] = page->items[i];
	}
	page->count = kept;
}

/* The first key of what is left of a range at a position, which is not above the range. */
static HT_KEY
first_key(const HmRange *range, HmPosition position)
{
	if (range->part == position.part && (HT_KEY) range->low < position.entry.key)
		return position.entry.key;
	return (HT_KEY) range->low;
}

/*
 * Copy the entries that match and lie on the far side of the position, but not those that are
 * hinted to be dead, if skip_dead is true.  Returns false if there are at least so many as "enough"
 * and some may be left: the position after those that were copied is then the end of what was read.
 */
static bool
copy_items(HmScan *state, Page page, HmPosition position, bool backward, bool skip_dead, int enough)
{
	HmScanPage *result = &state->page;
	HmPosition low = hm_page_low(page);
	HmPosition high = hm_page_high(page);
	bool unread;

	if (backward)
		high = position;
	else
		low = position;

	/* Entries with the position's key may be before it, and do not count. */
	if (position.entry.tid != 0)
		enough = HM_ALL_ITEMS;
	result->count = 0;
	skip_dead = skip_dead && ht_leaf_has_hints(page);
	for (int i = first_range(&state->ranges, low);
		 i < state->ranges.count && result->count < enough; i++)
	{
		const HmRange *range = &state->ranges.ranges[i];

		if (hm_position_cmp(hm_position(range->part, (HT_KEY) range->low, 0), high) >= 0)
			break;
		result->count +=
			ht_leaf_read_some(page, first_key(range, low), (HT_KEY) range->high, skip_dead,
							  enough - result->count, result->items + result->count);
	}
	unread = result->count >= enough;
	if (unread)
	{
		HtEntry last = result->items[result->count - 1];

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
		int skip = 0;

		while (skip < result->count && ht_entry_cmp(result->items[skip], position.entry) < 0)
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
	bool alive;

	LockBuffer(header, BUFFER_LOCK_SHARE);
	alive = hm_segment_is_alive(BufferGetPage(header), stamp);
	LockBuffer(header, BUFFER_LOCK_UNLOCK);
	return alive;
}

/* Leave the page before: give its hints, and release its pin. */
static void
leave_page(IndexScanDesc scan)
{
	HmScanPage *page = &((HmScan *) scan->opaque)->page;

	hm_scan_give_hints(scan);
	if (BufferIsValid(page->buffer))
	{
		ReleaseBuffer(page->buffer);
		page->buffer = InvalidBuffer;
	}
	HM_FAULT(scan_leaf_left);
}

/*
 * Read a leaf, which is locked, into the scan's page, and unlock it; keep a pin if the scan needs
 * that.  A careful scan has its header pinned, and releases it.  Returns false if the segment of a
 * careful scan's leaf was not alive after that, so that what has been read does not count.
 */
static bool
read_leaf(IndexScanDesc scan, Buffer leaf, Buffer header, HmPosition position, bool backward,
		  int enough)
{
	HmScan *state = (HmScan *) scan->opaque;
	bool alive = true;

	hm_test_old_snapshot(scan->xs_snapshot, scan->indexRelation, BufferGetPage(leaf));

	/* A transaction or snapshot from recovery may need these. */
	state->page.block = BufferGetBlockNumber(leaf);
	if (!copy_items(state, BufferGetPage(leaf), position, backward,
					scan->ignore_killed_tuples && !(IsMVCCSnapshot(scan->xs_snapshot) &&
													scan->xs_snapshot->takenDuringRecovery),
					enough))
		state->page.right = state->page.block;
	state->page.lsn = BufferGetLSNAtomic(leaf);

	LockBuffer(leaf, BUFFER_LOCK_UNLOCK);
	if (state->careful)
	{
		HM_FAULT(scan_leaf_read);
		alive = segment_alive(header, state->page.stamp);
		ReleaseBuffer(header);
	}
	if (alive && state->page.count > 0 && (state->careful || state->keeps_pin))
		state->page.buffer = leaf;
	else
		ReleaseBuffer(leaf);
	return alive;
}

bool
hm_scan_read(IndexScanDesc scan, HmPosition position, bool backward, int enough)
{
	HmScan *state = (HmScan *) scan->opaque;
	bool try_right = !backward && state->page.valid;

	leave_page(scan);
	while (next_wanted(&state->ranges, backward, &position))
	{
		Buffer header = InvalidBuffer;
		Buffer leaf = InvalidBuffer;

		CHECK_FOR_INTERRUPTS();
		if (try_right && hm_position_cmp(position, state->page.high) == 0)
			leaf = follow_right(scan, position, &header);
		if (!BufferIsValid(leaf))
			leaf = find_leaf(scan, &position, backward, &header);
		if (!BufferIsValid(leaf))
			break;

		try_right = read_leaf(scan, leaf, header, position, backward, enough);
		if (!try_right)
			continue;
		try_right = !backward;
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
