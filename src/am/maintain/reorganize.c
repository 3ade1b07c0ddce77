/*
 * reorganize.c
 *		Which segments are worth a movement.
 *
 * A movement rewrites all leaves of a segment, so it has to pay.  It does if half of the
 * leaves would go, or if so many of them hang from auxiliary nodes that lookups read one
 * page more for many keys.  Neighbours are joined if one of them is sparse, or if both
 * are small, so that a table that grows at one end and is emptied at the other keeps few
 * segments.
 */
#include "postgres.h"

#include "commands/vacuum.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/maintain/maintain.h"
#include "am/progress.h"
#include "compat.h"

/* The share of a packed leaf is counted in these parts. */
#define LEAF_PARTS 65536

void
hm_segment_use_add(Relation index, HmSegmentUse *use, Page leaf, int entries)
{
	use->packed +=
		(uint64) entries * LEAF_PARTS / hm_leaf_fill_count(index, ht_leaf_shape_of(leaf));
}

/*
 * The number of leaves that a segment's entries take when they are packed, if leaves keep their
 * classes.
 */
static uint64
packed_leaves(const HmSegmentUse *use)
{
	return Max(1, (use->packed + LEAF_PARTS - 1) / LEAF_PARTS);
}

/* Whether packing a segment would save at least half of its leaves. */
static bool
is_sparse(const HmSegmentUse *use)
{
	return packed_leaves(use) * 2 <= use->leaves;
}

/* Whether it pays to move a segment; if all is true, whether it could be packed better. */
static bool
worth_moving(const HmSegmentUse *use, bool all)
{
	uint32 shadowed = use->leaves - use->pure_leaves;

	if (all && (shadowed > 0 || packed_leaves(use) < use->leaves))
		return true;
	return is_sparse(use) || shadowed * 4 > use->leaves;
}

/* Whether it pays to join a segment with the one after it. */
static bool
worth_joining(Relation index, const HmSegmentUse *a, const HmSegmentUse *b)
{
	HmCache *cache = hm_cache(index, false);
	uint64 leaves_max = hm_segment_room(cache->width, cache->fanout, HM_SEGMENT_MAX_BLOCKS);
	uint64 a_leaves = packed_leaves(a);
	uint64 b_leaves = packed_leaves(b);
	bool a_sparse = is_sparse(a);
	bool b_sparse = is_sparse(b);

	if (a->low.part != b->low.part || a_leaves + b_leaves > leaves_max * 3 / 4)
		return false;
	if (b->grows && !b_sparse)
		return false;

	/* Do not rewrite a large segment to save a small one. */
	if ((!a_sparse && a_leaves > b_leaves * 8) || (!b_sparse && b_leaves > a_leaves * 8))
		return false;
	return a_sparse || b_sparse || Max(a_leaves, b_leaves) * 8 < leaves_max;
}

static void
read_use(Buffer header, HmSegmentUse *use)
{
	Page page = BufferGetPage(header);
	HmSegment *segment = hm_page_segment(page);

	use->name.header = BufferGetBlockNumber(header);
	use->name.stamp = segment->stamp;
	use->low.part = (HmPart) hm_page_special(page)->part;
	use->low.entry = hm_segment_low(page);
	use->packed = 0;
	use->leaves = segment->leaves;
	use->pure_leaves = segment->pure_leaves;
	use->grows =
		!hm_page_has_high(page) && segment->pure_leaves + segment->tail_used < segment->leaf_room;
}

void
hm_segment_uses_init(HmSegmentUses *uses)
{
	uses->count = 0;
	uses->room = 64;
	uses->items = palloc(uses->room * sizeof(HmSegmentUse));
}

HmSegmentUse *
hm_segment_uses_note(HmSegmentUses *uses, Buffer header)
{
	HmSegmentUse *last = &uses->items[uses->count - 1];

	if (uses->count > 0 && last->name.stamp == hm_page_segment(BufferGetPage(header))->stamp)
		return last;
	if (uses->count == uses->room)
	{
		uses->room *= 2;
		uses->items = repalloc_huge(uses->items, (Size) uses->room * sizeof(HmSegmentUse));
	}
	read_use(header, &uses->items[uses->count]);
	return &uses->items[uses->count++];
}

/*
 * Join a segment with the one after it.  use[1] then describes the new segment.  Returns
 * whether they were joined and the new segment is known.  They cannot be joined if their
 * entries are on different directory pages; that is tested first, because the movement
 * would notice it only after all had been written.
 */
static bool
join_with_next(Relation index, HmSegmentUse *use)
{
	HmSegmentName names[2] = {use[0].name, use[1].name};
	uint64 packed = use[0].packed + use[1].packed;
	HmDirectoryEntry last;
	Buffer header;
	bool alive;

	if (!hm_directory_could_join(index, use[0].low, use[1].name.header) ||
		!hm_segments_move(index, names, 2, HM_MOVE_PACK, &last))
		return false;

	/* If the new segment has been replaced already, nothing is known of it. */
	header = ReadBuffer(index, last.block);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	alive = hm_segment_is_alive_for(BufferGetPage(header), last.stamp);
	if (alive)
		read_use(header, &use[1]);
	UnlockReleaseBuffer(header);
	use[1].packed = packed;
	return alive;
}

int
hm_reorganize(Relation index, HmSegmentUses *uses, bool all)
{
	HmSegmentUse *items = uses->items;
	int movements = 0;

	hm_progress_phase(HM_PROGRESS_MOVING, uses->count, 0);
	for (int i = 0; i < uses->count; i++)
	{
		vacuum_delay_point_compat();
		hm_progress_segments(i);
		if (i + 1 < uses->count && worth_joining(index, &items[i], &items[i + 1]) &&
			join_with_next(index, &items[i]))
		{
			movements++;
			continue;
		}
		if (worth_moving(&items[i], all) &&
			hm_segments_move(index, &items[i].name, 1,
							 all || is_sparse(&items[i]) ? HM_MOVE_IF_SMALLER : HM_MOVE_KEEP_ROOM,
							 NULL))
			movements++;
	}
	return movements;
}

/*
 * The next segment that wants to be moved, from a place in the directory on, which becomes the
 * place after it.  Returns false if there is none.
 */
static bool
next_outgrown(Relation index, int *place, HmSegmentName *name)
{
	HtWidth width = hm_key_width(index);
	BlockNumber *pages;
	int page_count, segment_count;
	HmDirectoryEntry *entries = hm_directory_read(index, &segment_count, &pages, &page_count);
	bool found = false;

	while (!found && *place < segment_count)
	{
		const HmDirectoryEntry *entry = &entries[(*place)++];
		Buffer header = ReadBuffer(index, entry->block);

		LockBuffer(header, BUFFER_LOCK_SHARE);
		if (hm_segment_is_alive_for(BufferGetPage(header), entry->stamp))
		{
			hm_segment_check(index, header, width);
			name->header = BufferGetBlockNumber(header);
			name->stamp = hm_page_segment(BufferGetPage(header))->stamp;
			found = hm_segment_wants_movement(index, header);
		}
		UnlockReleaseBuffer(header);
	}
	pfree(entries);
	pfree(pages);
	return found;
}

bool
hm_move_outgrown(Relation index, int *place)
{
	HmSegmentName name;

	if (!next_outgrown(index, place, &name))
		return false;
	(void) hm_segments_move(index, &name, 1, HM_MOVE_OUTGROWN, NULL);
	return true;
}

/* ----------------------------------------------------------------
 *		Moving segments to the front of the file
 * ----------------------------------------------------------------
 */

/* A segment that may be moved. */
typedef struct Candidate
{
	HmSegmentName name;
	uint32 blocks;    /* that its copy takes at most */
	BlockNumber last; /* start of its last extent in the file */
} Candidate;

static int
candidate_cmp(const void *a, const void *b)
{
	BlockNumber left = ((const Candidate *) a)->last;
	BlockNumber right = ((const Candidate *) b)->last;

	return left > right ? -1 : left < right ? 1 : 0;
}

/*
 * All segments, palloc'd; those nearest to the end of the file first.  Where the directory led to a
 * segment that has been moved since, there may be a copy by now to which it does not lead yet: such
 * a one must not be moved.
 */
static Candidate *
find_candidates(Relation index, int *count)
{
	HmCache *cache = hm_cache(index, true);
	HtWidth width = cache->width;
	int fanout = cache->fanout;
	BlockNumber *pages;
	int page_count, segment_count;
	HmDirectoryEntry *entries = hm_directory_read(index, &segment_count, &pages, &page_count);
	Candidate *result = palloc_extended(Max(1, segment_count) * sizeof(Candidate), MCXT_ALLOC_HUGE);

	*count = 0;
	for (int i = 0; i < segment_count; i++)
	{
		Buffer header = ReadBuffer(index, entries[i].block);
		HmSegment *segment;

		vacuum_delay_point_compat();
		HM_FAULT(candidate_read);
		LockBuffer(header, BUFFER_LOCK_SHARE);
		if (hm_segment_is_alive_for(BufferGetPage(header), entries[i].stamp))
		{
			Candidate *candidate = &result[(*count)++];

			hm_segment_check(index, header, width);
			segment = hm_page_segment(BufferGetPage(header));
			candidate->name.header = entries[i].block;
			candidate->name.stamp = segment->stamp;
			candidate->blocks = hm_segment_blocks(width, fanout, segment->leaves);
			candidate->last = 0;
			for (uint32 j = 0; j < segment->extent_count; j++)
				candidate->last = Max(candidate->last, segment->extents[j].start);
		}
		UnlockReleaseBuffer(header);
	}
	qsort(result, *count, sizeof(Candidate), candidate_cmp);
	return result;
}

/*
 * Move segments at the end of the file to free extents before them, as long as there are
 * such extents.  Returns the number of movements.
 */
static int
move_to_front(Relation index, bool pack)
{
	int count;
	Candidate *candidates = find_candidates(index, &count);
	int movements = 0;

	/*
	 * Stop at the first one that cannot be moved: the file cannot become shorter than up
	 * to its end.
	 */
	hm_progress_phase(HM_PROGRESS_COMPACTING, count, 0);
	for (int i = 0; i < count; i++)
	{
		vacuum_delay_point_compat();
		hm_progress_segments(i);
		if (!hm_extent_fits_below(index, candidates[i].blocks, candidates[i].last))
			break;
		if (hm_segments_move(index, &candidates[i].name, 1, pack ? HM_MOVE_PACK : HM_MOVE_KEEP_ROOM,
							 NULL))
			movements++;
	}
	pfree(candidates);
	return movements;
}

/*
 * The list of free extents may have no room for all gaps.  So that the file does not stay
 * mostly empty, this repeats with a new list as long as segments can be moved.  They only
 * move towards the front, so it ends.
 */
int
hm_compact(Relation index, bool always, HmSize *size)
{
	int movements = 0;
	bool again;

	do
	{
		HmSweep sweep = hm_extents_sweep(index, hm_can_truncate(index));
		int moved = 0;
		BlockNumber leaving;

		if (always || sweep.free > RelationGetNumberOfBlocks(index) / 2)
			moved = move_to_front(index, always);
		leaving = hm_truncate_at_commit(index, sweep.end);
		size->blocks = RelationGetNumberOfBlocks(index) - leaving;
		size->free = sweep.free - Min(sweep.free, leaving);
		movements += moved;
		again = moved > 0 && size->free > size->blocks / 2;
	} while (again);
	return movements;
}

/* ----------------------------------------------------------------
 *		All segments
 * ----------------------------------------------------------------
 */

/*
 * Count the entries of the leaf that covers a position, and move the position to the next
 * leaf.  Returns false at the end of the index.
 */
static bool
count_step(Relation index, HmSegmentUses *uses, HmPosition *position, BufferAccessStrategy strategy)
{
	HtWidth width = hm_key_width(index);
	HmPosition entered = *position;
	Buffer header = hm_segment_enter(index, &entered, HM_AT_OR_AFTER, BUFFER_LOCK_SHARE);
	HmSegmentUse *use;
	Buffer leaf;
	Page page;

	if (!BufferIsValid(header))
		return false;
	use = hm_segment_uses_note(uses, header);
	leaf = hm_segment_leaf(index, header, width, entered.entry, false, BUFFER_LOCK_SHARE, strategy);
	page = BufferGetPage(leaf);
	hm_segment_use_add(index, use, page, ht_leaf_count(page));
	if (hm_position_cmp(hm_page_high(page), entered) <= 0)
		hm_page_no_progress(index, leaf);
	*position = hm_page_high(page);
	UnlockReleaseBuffer(leaf);
	UnlockReleaseBuffer(header);
	vacuum_delay_point_compat();
	return true;
}

/* How many segments the directory lists. */
static int
count_segments(Relation index)
{
	BlockNumber *pages;
	int page_count, count;

	pfree(hm_directory_read(index, &count, &pages, &page_count));
	return count;
}

int
hm_reorganize_all(Relation index)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_VACUUM);
	HmPosition position = hm_position(HM_PART_NULLS_LOW, 0, 0);
	HmSegmentUses uses;
	HmSize size;
	int movements;

	hm_segment_uses_init(&uses);
	hm_progress_phase(HM_PROGRESS_COUNTING, count_segments(index), 0);
	while (count_step(index, &uses, &position, strategy))
		hm_progress_segments(uses.count);
	movements = hm_reorganize(index, &uses, true);
	movements += hm_compact(index, true, &size);
	FreeAccessStrategy(strategy);
	pfree(uses.items);
	return movements;
}
