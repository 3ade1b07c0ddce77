/*
 * reorganize.c
 *		Which segments are worth a movement.
 *
 * Movement writes a segment's leaves anew, so it has to pay: it does if half of
 * the leaves go, or if so many of them hang from auxiliary nodes that look-ups
 * read a page more than they need.  Neighbours are joined if one of them is
 * sparse, or if both are small, so that a table that grows at one end and is
 * emptied at the other keeps few segments.
 */
#include "postgres.h"

#include "commands/vacuum.h"
#include "miscadmin.h"

#include "am/am.h"
#include "compat.h"

/* Leaves that these entries take when they are packed. */
static uint64
packed_leaves(Relation index, uint64 entries)
{
	int			target = hm_leaf_target(index, hm_cache(index, false)->width);

	return Max(1, (entries + target - 1) / target);
}

static bool
is_sparse(Relation index, const HmSegmentUse *use)
{
	return packed_leaves(index, use->entries) * 2 <= use->leaves;
}

static bool
worth_moving(Relation index, const HmSegmentUse *use, bool all)
{
	uint32		shadowed = use->leaves - use->pure_leaves;

	if (all && (shadowed > 0 || packed_leaves(index, use->entries) < use->leaves))
		return true;
	return is_sparse(index, use) || shadowed * 4 > use->leaves;
}

static bool
worth_joining(Relation index, const HmSegmentUse *a, const HmSegmentUse *b)
{
	HmCache    *cache = hm_cache(index, false);
	uint64		leaves_max = hm_segment_room(cache->width, cache->fanout,
											 HM_SEGMENT_MAX_BLOCKS);
	uint64		a_leaves = packed_leaves(index, a->entries);
	uint64		b_leaves = packed_leaves(index, b->entries);
	bool		a_sparse = is_sparse(index, a);
	bool		b_sparse = is_sparse(index, b);

	if (a->part != b->part || a_leaves + b_leaves > leaves_max * 3 / 4)
		return false;
	if (b->grows && !b_sparse)
		return false;

	/* Do not rewrite much for the sake of little. */
	if ((!a_sparse && a_leaves > b_leaves * 8) || (!b_sparse && b_leaves > a_leaves * 8))
		return false;
	return a_sparse || b_sparse || Max(a_leaves, b_leaves) < leaves_max / 8;
}

void
hm_segment_use(Buffer header, HmSegmentUse *use)
{
	Page		page = BufferGetPage(header);
	HmSegment  *segment = hm_page_segment(page);

	use->name.header = BufferGetBlockNumber(header);
	use->name.stamp = segment->stamp;
	use->part = (HmPart) hm_page_special(page)->part;
	use->entries = 0;
	use->leaves = segment->leaves;
	use->pure_leaves = segment->pure_leaves;
	use->grows = !hm_page_has_high(page) &&
		segment->pure_leaves + segment->tail_used < segment->leaf_room;
}

/*
 * Join the segment with the one after it, which then stands for both.
 */
static bool
join_with_next(Relation index, HmSegmentUse *use)
{
	HmSegmentName names[2] = {use[0].name, use[1].name};
	uint64		entries = use[0].entries + use[1].entries;
	BlockNumber block;
	Buffer		header;
	bool		alive;

	if (!hm_segments_move(index, names, 2, &block))
		return false;

	/* The new one may have been replaced already; then nothing is known of it. */
	header = ReadBuffer(index, block);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	alive = hm_page_is(BufferGetPage(header), HM_PAGE_SEGMENT);
	if (alive)
		hm_segment_use(header, &use[1]);
	UnlockReleaseBuffer(header);
	use[1].entries = entries;
	return alive;
}

int
hm_reorganize(Relation index, HmSegmentUse *uses, int count, bool all)
{
	int			movements = 0;

	for (int i = 0; i < count; i++)
	{
		vacuum_delay_point_compat();
		if (i + 1 < count && worth_joining(index, &uses[i], &uses[i + 1]))
		{
			if (join_with_next(index, &uses[i]))
			{
				movements++;
				continue;
			}
		}
		if (worth_moving(index, &uses[i], all) &&
			hm_segments_move(index, &uses[i].name, 1, NULL))
			movements++;
	}
	return movements;
}
