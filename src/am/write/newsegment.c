/*
 * newsegment.c
 *		New segments at the end of a part.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/marks.h"
#include "am/write/insert.h"
#include "compat.h"

/*
 * The blocks of a part's first segment, and the least of another one that is added at the right
 * end.
 */
#define HM_FIRST_EXTENT 2
#define HM_MIN_APPENDED 4

/*
 * The number of blocks for a segment that ascending inserts will fill: a share of the
 * index, so that small indexes do not waste space and large ones do not have many
 * segments; but at most so many.  The share is smaller in an index that is not quite small, because
 * there the header counts for less.
 */
static uint32
growth_blocks(Relation index, uint32 most)
{
	uint32 blocks = RelationGetNumberOfBlocks(index);
	uint32 least = Max(HM_FIRST_EXTENT, Min(blocks, HM_MIN_APPENDED));

	return Min(most, Max(least, Max(blocks / 16, Min(blocks / 8, 16))));
}

/*
 * Write a segment that begins at low and reaches to the end of its part.  Its only leaf
 * gets the first of *n entries, as many as a build puts on a leaf; *n becomes their
 * number.  step is the expected distance of keys, most the most blocks of the main extent.  Returns
 * the segment's directory entry, and its blocks in *extent.  The caller holds the allocation lock
 * and no buffer lock.
 */
static HmDirectoryEntry
write_last_segment(Relation index, HmPosition low, HT_KEY step, const HtEntry *entries, int64 *n,
				   uint32 most, HmExtent *extent)
{
	HmCache *cache = hm_cache(index, false);
	HmSegmentSpec spec = {0};
	HmLeafPlan plan;
	uint64 planned;
	char *image;
	uint32 pages;

	spec.width = cache->width;
	spec.fanout = cache->fanout;
	spec.part = low.part;
	extent->length = growth_blocks(index, most);
	Assert(extent->length <= HM_SEGMENT_MAX_BLOCKS);
	spec.leaf_room = hm_segment_room(spec.width, spec.fanout, extent->length);
	spec.leaves = 1;
	extent->start =
		hm_extent_allocate(index, extent->length, HM_EXTENT_FOR_SEGMENT, InvalidBlockNumber);
	HM_FAULT(last_segment_allocated);
	spec.start = extent->start;
	spec.stamp = hm_stamp_allocate(index);

	hm_plan_leaves(spec.width, hm_fillfactor(index), hm_fillfactor(index), low.entry, NULL, entries,
				   (uint64) *n, step, 1, &plan, &planned);
	*n = (int64) planned;
	image = palloc((Size) BLCKSZ * (extent->length - spec.leaf_room + 1));
	pages = hm_segment_image(&spec, low.entry, low.entry, &plan, entries, image);
	hm_segment_write(index, spec.start, image, pages);
	pfree(image);
	return hm_segment_entry(&spec, low.entry);
}

int64
hm_create_first_segment(Relation index, HmPart part, const HtEntry *entries, int64 n)
{
	HmPosition low = hm_position(part, 0, 0);
	HmExtent extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	bool lost;

	hm_allocation_lock(index);
	entry = write_last_segment(index, low, HM_STEP_UNKNOWN, entries, &n, HM_FIRST_EXTENT, &extent);
	HM_FAULT(first_segment_written);
	hm_directory_begin(index, low, 1, &edit);
	lost = hm_directory_has_part(&edit, part);
	if (!lost)
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_directory_apply(&edit, state, 0, &entry, 1);
		hm_mark_blocks(index, extent.start, extent.length);
		hm_mark_structure(index);
		HM_FAULT(first_segment_changed);
		GenericXLogFinish(state);
		HM_FAULT(first_segment_logged);
	}
	hm_directory_end(&edit);
	if (lost)
		hm_extent_free(index, &extent, 1);
	hm_allocation_unlock(index);
	return lost ? 0 : n;
}

/* Whether a last leaf can end before this bound. */
static bool
ends_before(Page leaf, HtEntry bound)
{
	HtEntry greatest;

	return (HM_SOFT_BOUNDS || ht_leaf_fits_key(ht_leaf_shape_of(leaf), bound.key)) &&
		   (!hm_leaf_greatest(leaf, &greatest) || ht_entry_cmp(greatest, bound) < 0);
}

int64
hm_append_segment(Relation index, HmPart part, HtEntry bound, HT_KEY step, const HtEntry *coming,
				  int64 n, uint32 most, HmSegmentName name)
{
	HmPosition position = hm_position(part, bound.key, bound.tid);
	HtWidth width = hm_cache(index, false)->width;
	HmExtent extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	Buffer header;
	Page page;
	bool added = false;

	hm_allocation_lock(index);
	entry = write_last_segment(index, position, step, coming, &n, most, &extent);
	HM_FAULT(append_written);
	hm_directory_begin(index, position, 1, &edit);

	header = ReadBuffer(index, name.header);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(header);
	if (hm_segment_is_alive(page, name.stamp) &&
		!(hm_page_segment(page)->state & HM_SEGMENT_MOVING) && !hm_page_has_high(page))
	{
		HtEntry end = {ht_key_max(width), HT_TID_MAX};
		Buffer leaf = hm_segment_descend(index, header, width, end, true, NULL);
		Page leaf_page;

		if (BufferIsValid(edit.page) &&
			BufferGetBlockNumber(leaf) == BufferGetBlockNumber(edit.page))
			hm_page_no_progress(index, leaf);
		LockBuffer(leaf, BUFFER_LOCK_EXCLUSIVE);
		hm_page_check(index, leaf, HM_PAGE_LEAF);
		leaf_page = BufferGetPage(leaf);
		if (hm_begins_leaf(index, leaf_page, ht_leaf_count(leaf_page), coming[0]) &&
			ends_before(leaf_page, bound))
		{
			GenericXLogState *state = GenericXLogStart(index);

			hm_directory_apply(&edit, state, 0, &entry, 1);
			page = GenericXLogRegisterBuffer(state, header, 0);
			hm_segment_set_high(page, position.entry);
			leaf_page = GenericXLogRegisterBuffer(state, leaf, 0);
			hm_leaf_set_high(leaf_page, bound);
			hm_mark_page(index, leaf, HM_ALL_LINES);
			hm_mark_blocks(index, extent.start, extent.length);
			hm_mark_structure(index);
			HM_FAULT(append_changed);
			GenericXLogFinish(state);
			HM_FAULT(append_logged);
			added = true;
		}
		UnlockReleaseBuffer(leaf);
	}
	UnlockReleaseBuffer(header);
	hm_directory_end(&edit);
	if (!added)
		hm_extent_free(index, &extent, 1);
	hm_allocation_unlock(index);
	return added ? n : 0;
}
