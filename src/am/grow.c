/*
 * grow.c
 *		What makes an index grow: further extents of a segment, and new segments at the end
 *		of a part.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/insert.h"
#include "compat.h"
#include "device/device.h"

/*
 * The least blocks of a segment added at the right end and of an extent for splits; the
 * most of the latter.
 */
#define HM_MIN_EXTENT		4
#define HM_MAX_SPARE		128

uint32
hm_spare_blocks(const HmSegment *segment)
{
	uint32		result = segment->leaf_room - segment->pure_leaves - segment->tail_used;

	if (segment->extent_count > 1)
		result += segment->extents[segment->extent_count - 1].length - segment->spare_used;
	return result;
}

BlockNumber
hm_take_spare(HmSegment *segment)
{
	Assert(hm_spare_blocks(segment) > 0);
	if (segment->extent_count > 1 &&
		segment->spare_used < segment->extents[segment->extent_count - 1].length)
		return segment->extents[segment->extent_count - 1].start + segment->spare_used++;
	segment->tail_used++;
	return segment->leaf_base + segment->leaf_room - segment->tail_used;
}

void
hm_add_spare_extent(Relation index, HmSegmentName name)
{
	Buffer		header;
	HmSegment  *segment;
	HmExtent	extent = {InvalidBlockNumber, HM_MIN_EXTENT};
	bool		added = false;

	hm_allocation_lock(index);

	header = ReadBuffer(index, name.header);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	if (hm_page_is(BufferGetPage(header), HM_PAGE_SEGMENT))
	{
		segment = hm_page_segment(BufferGetPage(header));
		extent.length = Min(HM_MAX_SPARE, Max(HM_MIN_EXTENT, segment->leaves / 4));
	}
	LockBuffer(header, BUFFER_LOCK_UNLOCK);

	extent.start = hm_extent_allocate(index, extent.length, HM_EXTENT_FOR_FEW);
	HM_FAULT(spare_allocated);

	/* Another backend may have done the same, or moved the segment. */
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	segment = hm_page_segment(BufferGetPage(header));
	if (hm_segment_is_alive(BufferGetPage(header), name.stamp) &&
		!(segment->state & HM_SEGMENT_MOVING) &&
		segment->extent_count < HM_SEGMENT_MAX_EXTENTS &&
		hm_spare_blocks(segment) < 2)
	{
		GenericXLogState *state = GenericXLogStart(index);

		segment = hm_page_segment(GenericXLogRegisterBuffer(state, header, 0));
		segment->extents[segment->extent_count++] = extent;
		segment->spare_used = 0;
		HM_FAULT(spare_changed);
		GenericXLogFinish(state);
		HM_FAULT(spare_logged);
		added = true;
	}
	UnlockReleaseBuffer(header);
	if (!added)
		hm_extent_free(index, &extent, 1);
	hm_allocation_unlock(index);
}

/*
 * The number of blocks for a segment that ascending inserts will fill: a share of the
 * index, so that small indexes do not waste space and large ones do not have many
 * segments.
 */
static uint32
growth_blocks(Relation index)
{
	return Min(HM_SEGMENT_MAX_BLOCKS,
			   Max(HM_MIN_EXTENT, RelationGetNumberOfBlocks(index) / 8));
}

/*
 * Write a segment that begins at low and reaches to the end of its part.  Its only leaf
 * gets the first of *n entries, as many as a build puts on a leaf; *n becomes their
 * number.  step is the expected distance of keys.  Returns the segment's directory entry, and its blocks in *extent.  The caller
 * holds the allocation lock and no buffer lock.
 */
static HmDirectoryEntry
write_last_segment(Relation index, HmPosition low, uint64 step, const HtEntry *entries,
				   int64 *n, HmExtent *extent)
{
	HmCache    *cache = hm_cache(index, false);
	HmSegmentSpec spec = {0};
	HmLeafPlan	plan;
	uint64		planned;
	char	   *image;
	uint32		pages;
	HmDirectoryEntry entry = {0};

	spec.width = cache->width;
	spec.fanout = cache->fanout;
	spec.part = low.part;
	spec.low = low.entry;
	extent->length = growth_blocks(index);
	spec.leaf_room = hm_segment_room(spec.width, spec.fanout, extent->length);
	spec.leaves = 1;
	extent->start = hm_extent_allocate(index, extent->length, HM_EXTENT_FOR_SEGMENT);
	HM_FAULT(last_segment_allocated);
	spec.start = extent->start;
	spec.stamp = hm_stamp_allocate(index);

	hm_plan_leaves(spec.width, hm_fillfactor(index), low.entry, NULL, entries, (uint64) *n, step, 1,
				   &plan, &planned);
	*n = (int64) planned;
	image = palloc((Size) BLCKSZ * (extent->length - spec.leaf_room + 1));
	pages = hm_segment_image(&spec, &plan, entries, image);
	hm_segment_write(index, spec.start, image, pages);
	pfree(image);

	entry.key = low.entry.key;
	entry.tid = low.entry.tid;
	entry.part = (uint64) low.part;
	entry.block = spec.start;
	entry.stamp = (uint32) spec.stamp;
	return entry;
}

int64
hm_create_first_segment(Relation index, HmPart part, const HtEntry *entries, int64 n)
{
	HmPosition	low = hm_position(part, 0, 0);
	HmExtent	extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	bool		lost;

	hm_allocation_lock(index);
	entry = write_last_segment(index, low, HM_STEP_UNKNOWN, entries, &n, &extent);
	HM_FAULT(first_segment_written);
	hm_directory_begin(index, low, 1, &edit);
	lost = hm_directory_has_part(&edit, part);
	if (!lost)
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_directory_apply(&edit, state, 0, &entry, 1);
		hm_device_mark_blocks(index, extent.start, extent.length);
		hm_device_structure_changes(index);
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
	HtEntry		greatest;

	return ht_leaf_fits_key(ht_leaf_shape_of(leaf), bound.key) &&
		(!hm_leaf_greatest(leaf, &greatest) || ht_entry_cmp(greatest, bound) < 0);
}

int64
hm_append_segment(Relation index, HmPart part, HtEntry bound, uint64 step,
				  const HtEntry *coming, int64 n, HmSegmentName name)
{
	HmPosition	position = hm_position(part, bound.key, bound.tid);
	HtWidth		width = hm_cache(index, false)->width;
	HmExtent	extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	Buffer		header;
	Page		page;
	bool		added = false;

	hm_allocation_lock(index);
	entry = write_last_segment(index, position, step, coming, &n, &extent);
	HM_FAULT(append_written);
	hm_directory_begin(index, position, 1, &edit);

	header = ReadBuffer(index, name.header);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(header);
	if (hm_segment_is_alive(page, name.stamp) &&
		!(hm_page_segment(page)->state & HM_SEGMENT_MOVING) &&
		!hm_page_has_high(page))
	{
		HtEntry		end = {ht_key_max(width), HT_TID_MAX};
		Buffer		leaf = hm_segment_descend(index, header, end, true, NULL);
		Page		leaf_page;

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
			hm_page_segment(page)->high = position.entry;
			hm_page_special(page)->flags |= HM_HAS_HIGH;
			leaf_page = GenericXLogRegisterBuffer(state, leaf, 0);
			hm_leaf_set_high(leaf_page, bound);
			hm_device_mark_page(index, leaf, HM_ALL_LINES);
			hm_device_mark_blocks(index, extent.start, extent.length);
			hm_device_structure_changes(index);
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
