/*
 * spareblocks.c
 *		Blocks of a segment for its splits.
 */
#include "postgres.h"

#include <math.h>

#include "access/generic_xlog.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/write/insert.h"

/*
 * A segment is moved because of its growth if it has so many leaves, in percent of those that it
 * began with, but not before it has the least number; and whatever it began with, if it has the
 * greatest number.  One that did not begin small is also moved if it has twice the share.
 */
#define HM_OUTGROWN_SHARE 215
#define HM_OUTGROWN_MIN (HM_SEGMENT_MAX_BLOCKS * 3 / 2)
#define HM_OUTGROWN_MAX (HM_SEGMENT_MAX_BLOCKS * 7 / 2)
#define HM_OUTGROWN_SMALL 128

/*
 * The blocks of an extent for splits, at least and at most; and at least as a share of the
 * segment's leaves.
 */
#ifdef HM_SMALL_LIMITS
#define HM_MIN_SPARE 4
#else
#define HM_MIN_SPARE 2
#endif
#define HM_MAX_SPARE 128
#define HM_SPARE_SHARE 16

/*
 * A movement costs least WAL in place of splits.  Random keys fill all leaves of a segment at about
 * the same time, and then split them one after the other: when the segment has twice the leaves
 * that it began with, most have just been split, and to write them again would be waste.  When it
 * has some more, most are nearly full again, and a movement is what splits them (fill_percent() in
 * movementcopy.c).  The same goes for four times as many.
 */
uint32
hm_outgrown_leaves(const HmSegment *segment)
{
	uint32 twice = (segment->pure_leaves * HM_OUTGROWN_SHARE + 99) / 100;
	uint32 least = segment->pure_leaves < HM_OUTGROWN_SMALL ? HM_OUTGROWN_MIN :
															  Min(HM_OUTGROWN_MIN, 2 * twice);

	return Min(HM_OUTGROWN_MAX, Max(least, twice));
}

uint32
hm_spare_blocks(const HmSegment *segment)
{
	uint32 result = segment->leaf_room - segment->pure_leaves - segment->tail_used;

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
 * The number of blocks of a segment's next extent.  Half of it is unused on average.  So it is
 * small, but not so small that the segment has too many extents before it has outgrown its size: it
 * grows by the same share each time.  Every other extent is expected to continue the one before,
 * because a segment with less luck shares the index's growth with several others, and costs less to
 * move.
 */
static uint32
extent_length(const HmSegment *segment)
{
	uint32 leaves = segment->leaves;
	uint32 outgrown = Max(leaves, hm_outgrown_leaves(segment));
	uint32 left = Max(1, HM_SEGMENT_MAX_EXTENTS - segment->extent_count);
	uint32 length = (uint32) (leaves * log((double) outgrown / leaves) / (2 * left));

	return Min(HM_MAX_SPARE, Max(HM_MIN_SPARE, Max(leaves / HM_SPARE_SHARE, length)));
}

/* Whether a segment, of which the header is locked, lives and needs more blocks. */
static bool
wants_extent(Page header, HmSegmentName name)
{
	HmSegment *segment = hm_page_segment(header);

	return hm_segment_is_alive(header, name.stamp) && !(segment->state & HM_SEGMENT_MOVING) &&
		   hm_spare_blocks(segment) < 2;
}

/*
 * Add an extent to a segment.  It makes the last one longer if it begins where that ends.  Returns
 * false if there is no place for it.
 */
static bool
add_extent(HmSegment *segment, HmExtent extent)
{
	if (block_after(segment) == extent.start)
		segment->extents[segment->extent_count - 1].length += extent.length;
	else if (segment->extent_count < HM_SEGMENT_MAX_EXTENTS)
	{
		segment->extents[segment->extent_count++] = extent;
		segment->spare_used = 0;
	}
	else
		return false;
	return true;
}

/*
 * Allocate blocks, those from "next" on if they are free, and add them to a segment, which has
 * wanted them.
 */
static void
allocate_for(Relation index, Buffer header, HmSegmentName name, uint32 length, BlockNumber next)
{
	HmExtent extent = {hm_extent_allocate(index, length, HM_EXTENT_FOR_FEW, next), length};
	bool added = false;

	HM_FAULT(spare_allocated);

	/* Another backend may have done the same, or moved the segment. */
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	if (wants_extent(BufferGetPage(header), name))
	{
		GenericXLogState *state = GenericXLogStart(index);

		added = add_extent(hm_page_segment(GenericXLogRegisterBuffer(state, header, 0)), extent);
		HM_FAULT(spare_changed);
		GenericXLogFinish(state);
		HM_FAULT(spare_logged);
	}
	LockBuffer(header, BUFFER_LOCK_UNLOCK);
	if (!added)
		hm_extent_free(index, &extent, 1);
}

void
hm_add_spare_extent(Relation index, HmSegmentName name)
{
	Buffer header;
	bool wanted;
	uint32 length = 0;
	BlockNumber next = InvalidBlockNumber;

	hm_allocation_lock(index);
	header = ReadBuffer(index, name.header);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	wanted = wants_extent(BufferGetPage(header), name);
	if (wanted)
	{
		HmSegment *segment = hm_page_segment(BufferGetPage(header));

		length = extent_length(segment);
		next = block_after(segment);
	}
	LockBuffer(header, BUFFER_LOCK_UNLOCK);

	if (wanted)
		allocate_for(index, header, name, length, next);
	ReleaseBuffer(header);
	hm_allocation_unlock(index);
}
