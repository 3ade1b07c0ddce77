/*
 * spare.c
 *		Blocks of a segment for its splits.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/insert.h"

/* The least and the most blocks of an extent for splits. */
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
