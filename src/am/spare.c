/*
 * spare.c
 *		Blocks of a segment for its splits.
 */
#include "postgres.h"

#include <math.h>

#include "access/generic_xlog.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/insert.h"

/*
 * A segment is moved because of its growth if it has so many leaves, in percent of those that it began
 * with, but not before it has the least number; and whatever it began with, if it has the greatest number.
 */
#define HM_OUTGROWN_SHARE		215
#define HM_OUTGROWN_MIN		(HM_SEGMENT_MAX_BLOCKS * 3 / 2)
#define HM_OUTGROWN_MAX		(HM_SEGMENT_MAX_BLOCKS * 7 / 2)
#define HM_OUTGROWN_SMALL	(HM_SEGMENT_MAX_BLOCKS / 8)

/* The blocks of an extent for splits, at least and at most; and at least as a share of the segment's leaves. */
#ifdef HM_SMALL_LIMITS
#define HM_MIN_EXTENT		4
#else
#define HM_MIN_EXTENT		2
#endif
#define HM_MAX_SPARE		128
#define HM_SPARE_SHARE		16

/*
 * A movement costs least WAL in place of splits.  Random keys fill all leaves of a segment at about the same time,
 * and then split them one after the other: when the segment has twice the leaves that it began with, most have just
 * been split, and to write them again would be waste.  When it has some more, most are nearly full again, and
 * a movement is what splits them (fill_percent() in movementcopy.c).  The same goes for four times as many.
 */
uint32
hm_outgrown_leaves(const HmSegment *segment)
{
	uint32		twice = (segment->pure_leaves * HM_OUTGROWN_SHARE + 99) / 100;
	uint32		least = segment->pure_leaves < HM_OUTGROWN_SMALL ? HM_OUTGROWN_MIN : Min(HM_OUTGROWN_MIN, 2 * twice);

	return Min(HM_OUTGROWN_MAX, Max(least, twice));
}

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

/* The block after a segment's last extent, if that is for splits. */
static BlockNumber
block_after(const HmSegment *segment)
{
	const HmExtent *last = &segment->extents[segment->extent_count - 1];

	return segment->extent_count > 1 ? last->start + last->length : InvalidBlockNumber;
}

/*
 * The number of blocks of a segment's next extent.  Half of it is unused on average.  So it is small, but not so
 * small that the segment has too many extents before it has outgrown its size: it grows by the same share each
 * time.  Every other extent is expected to continue the one before, because a segment with less luck shares
 * the index's growth with several others, and costs less to move.
 */
static uint32
extent_length(const HmSegment *segment)
{
	uint32		leaves = segment->leaves;
	uint32		outgrown = Max(leaves, hm_outgrown_leaves(segment));
	uint32		left = Max(1, HM_SEGMENT_MAX_EXTENTS - segment->extent_count);
	uint32		length = (uint32) (leaves * log((double) outgrown / leaves) / (2 * left));

	return Min(HM_MAX_SPARE, Max(HM_MIN_EXTENT, Max(leaves / HM_SPARE_SHARE, length)));
}

/* Whether a segment, of which the header is locked, has a place for an extent, and needs it. */
static bool
wants_extent(Page header, HmSegmentName name, HmExtent extent)
{
	HmSegment  *segment = hm_page_segment(header);

	return hm_segment_is_alive(header, name.stamp) &&
		!(segment->state & HM_SEGMENT_MOVING) &&
		(segment->extent_count < HM_SEGMENT_MAX_EXTENTS || block_after(segment) == extent.start) &&
		hm_spare_blocks(segment) < 2;
}

/* Add an extent to a segment.  It makes the last one longer if it begins where that ends. */
static void
add_extent(HmSegment *segment, HmExtent extent)
{
	if (block_after(segment) == extent.start)
	{
		segment->extents[segment->extent_count - 1].length += extent.length;
		return;
	}
	segment->extents[segment->extent_count++] = extent;
	segment->spare_used = 0;
}

void
hm_add_spare_extent(Relation index, HmSegmentName name)
{
	Buffer		header;
	HmExtent	extent = {InvalidBlockNumber, HM_MIN_EXTENT};
	HmSegment  *segment;
	BlockNumber next;
	bool		added;

	hm_allocation_lock(index);

	header = ReadBuffer(index, name.header);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	segment = hm_page_segment(BufferGetPage(header));
	added = !hm_segment_is_alive(BufferGetPage(header), name.stamp) || hm_spare_blocks(segment) >= 2;
	if (!added)
	{
		extent.length = extent_length(segment);
		next = block_after(segment);
	}
	LockBuffer(header, BUFFER_LOCK_UNLOCK);
	if (added)
	{
		ReleaseBuffer(header);
		hm_allocation_unlock(index);
		return;
	}

	extent.start = hm_extent_allocate(index, extent.length, HM_EXTENT_FOR_FEW, next);
	HM_FAULT(spare_allocated);

	/* Another backend may have done the same, or moved the segment. */
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	added = wants_extent(BufferGetPage(header), name, extent);
	if (added)
	{
		GenericXLogState *state = GenericXLogStart(index);

		add_extent(hm_page_segment(GenericXLogRegisterBuffer(state, header, 0)), extent);
		HM_FAULT(spare_changed);
		GenericXLogFinish(state);
		HM_FAULT(spare_logged);
	}
	UnlockReleaseBuffer(header);
	if (!added)
		hm_extent_free(index, &extent, 1);
	hm_allocation_unlock(index);
}
