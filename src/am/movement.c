/*
 * movement.c
 *		Movement: a segment is written anew in pure Harmonia layout.
 *
 * The papers' movement rewrites the whole key region after a batch of updates
 * so that auxiliary nodes disappear.  Here it costs one segment, and readers go
 * on in the old pages meanwhile.  Steps:
 *
 *	1.	Take the header's heavyweight page lock, then mark the header "moving"
 *		in a WAL record.  Writers that find the mark wait for the page lock.
 *		If the mover dies, by error or crash, the lock is free and the next
 *		writer removes the mark.
 *	2.	Copy the leaves, which nobody changes now, into new segments in blocks
 *		of their own.  A crash up to here loses blocks until the next VACUUM.
 *	3.	In one WAL record, point the directory to the new segments and mark the
 *		old header dead.
 *	4.	Give the old extents back.  A crash before loses them until the next
 *		VACUUM.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

#include "am/am.h"
#include "compat.h"

/* The segment under movement, as its header had it when it was marked. */
typedef struct HmMove
{
	HtWidth		width;
	HmPart		part;
	HtEntry		low;
	HtEntry		high;
	bool		has_high;
	uint64		stamp;
	int			extent_count;
	HmExtent	extents[HM_SEGMENT_MAX_EXTENTS];
	uint32		leaves;
	uint64		count;			/* entries */
	HtEntry    *entries;
} HmMove;

/* Set or clear the mark of a locked header. */
static void
mark_moving(Relation index, Buffer header, bool moving)
{
	GenericXLogState *state = GenericXLogStart(index);
	HmSegment  *segment = hm_page_segment(GenericXLogRegisterBuffer(state, header, 0));

	if (moving)
		segment->state |= HM_SEGMENT_MOVING;
	else
		segment->state &= ~HM_SEGMENT_MOVING;
	GenericXLogFinish(state);
}

/* Whether the locked page is the live header of the segment with this stamp. */
static bool
is_live_header(Buffer header, uint64 stamp)
{
	Page		page = BufferGetPage(header);

	return hm_page_is(page, HM_PAGE_SEGMENT) &&
		hm_page_segment(page)->stamp == stamp &&
		!(hm_page_segment(page)->state & HM_SEGMENT_DEAD);
}

/*
 * Wait until a movement has ended.  A mark that is still there afterwards
 * belongs to a mover that died: remove it.
 */
static void
wait_for_movement(Relation index, BlockNumber header_block, uint64 stamp)
{
	Buffer		header;

	LockPage(index, header_block, ShareLock);
	header = ReadBuffer(index, header_block);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	if (is_live_header(header, stamp) &&
		(hm_page_segment(BufferGetPage(header))->state & HM_SEGMENT_MOVING))
		mark_moving(index, header, false);
	UnlockReleaseBuffer(header);
	UnlockPage(index, header_block, ShareLock);
}

Buffer
hm_segment_enter_to_write(Relation index, HmPosition position, int lock)
{
	for (;;)
	{
		HmPosition	entered = position;
		Buffer		header = hm_segment_enter(index, &entered, HM_AT_OR_AFTER, lock);
		HmSegment  *segment;
		BlockNumber header_block;
		uint64		stamp;

		if (!BufferIsValid(header))
			return InvalidBuffer;
		if (hm_position_cmp(entered, position) != 0)
		{
			/* That is the next part's; the position's own has none. */
			UnlockReleaseBuffer(header);
			return InvalidBuffer;
		}

		segment = hm_page_segment(BufferGetPage(header));
		if (!(segment->state & HM_SEGMENT_MOVING))
			return header;

		header_block = BufferGetBlockNumber(header);
		stamp = segment->stamp;
		UnlockReleaseBuffer(header);
		wait_for_movement(index, header_block, stamp);
	}
}

/* Note what the header says; returns its first leaf, pinned. */
static Buffer
move_begin(Relation index, Buffer header, HmMove *move)
{
	Page		page = BufferGetPage(header);
	HmSegment  *segment = hm_page_segment(page);

	move->width = hm_cache(index, false)->width;
	move->part = (HmPart) hm_page_special(page)->part;
	move->low = segment->low;
	move->high = segment->high;
	move->has_high = hm_page_has_high(page);
	move->stamp = segment->stamp;
	move->extent_count = (int) segment->extent_count;
	memcpy(move->extents, segment->extents, sizeof(move->extents));
	move->leaves = segment->leaves;
	move->count = 0;
	move->entries = palloc_extended((Size) segment->leaves * ht_leaf_capacity(move->width) *
									sizeof(HtEntry), MCXT_ALLOC_HUGE);
	return hm_segment_descend(index, header, segment->low, false, NULL);
}

/* Read all entries, from the first leaf on. */
static void
move_read(Relation index, Buffer leaf, HmMove *move)
{
	for (uint32 i = 0;; i++)
	{
		BlockNumber right;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(leaf, BUFFER_LOCK_SHARE);
		hm_page_check(index, leaf, HM_PAGE_LEAF);
		hm_leaf_check(index, leaf, move->width);
		if (i == move->leaves)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("segment of index \"%s\" has more than its %u leaves",
							RelationGetRelationName(index), move->leaves),
					 errdetail("The leaf at block %u is one too many.",
							   BufferGetBlockNumber(leaf)),
					 errhint("Please REINDEX it.")));
		move->count += ht_leaf_read(BufferGetPage(leaf), move->width,
									move->entries + move->count);
		right = hm_page_special(BufferGetPage(leaf))->right;
		UnlockReleaseBuffer(leaf);
		if (!BlockNumberIsValid(right))
			return;
		leaf = ReadBuffer(index, right);
	}
}

/*
 * Write new segments for the entries read.  Returns their directory entries,
 * palloc'd, and their number.
 */
static HmDirectoryEntry *
move_write(Relation index, HmMove *move, int *segment_count)
{
	int			fanout = hm_cache(index, false)->fanout;
	int			per_leaf = hm_leaf_target(index, move->width);
	uint64		leaves = Max(1, (move->count + per_leaf - 1) / per_leaf);
	uint32		leaves_max = hm_segment_room(move->width, fanout, HM_SEGMENT_MAX_BLOCKS);
	int			segments = (int) ((leaves + leaves_max - 1) / leaves_max);
	HmDirectoryEntry *result = palloc0(segments * sizeof(HmDirectoryEntry));
	HtEntry		low = move->low;

	for (int i = 0; i < segments; i++)
	{
		uint64		from = move->count * i / segments;
		uint64		to = move->count * (i + 1) / segments;
		bool		last = i == segments - 1;
		HmSegmentSpec spec = {0};
		uint32		blocks;
		char	   *image;

		spec.width = move->width;
		spec.fanout = fanout;
		spec.part = move->part;
		spec.low = low;
		spec.high = last ? move->high : move->entries[to];
		spec.has_high = !last || move->has_high;
		spec.leaves = (uint32) Max(1, (to - from + per_leaf - 1) / per_leaf);
		spec.leaf_room = spec.leaves;
		blocks = hm_segment_blocks(spec.width, fanout, spec.leaf_room);
		spec.start = hm_extent_allocate(index, blocks);
		spec.stamp = hm_stamp_allocate(index);

		image = palloc_extended((Size) blocks * BLCKSZ, MCXT_ALLOC_HUGE);
		hm_segment_image(&spec, move->entries + from, to - from, image);
		hm_segment_write(index, spec.start, image, blocks);
		pfree(image);

		result[i].key = spec.low.key;
		result[i].tid = spec.low.tid;
		result[i].part = (uint64) spec.part;
		result[i].block = spec.start;
		low = spec.high;
	}
	*segment_count = segments;
	return result;
}

/* Point the directory to the new segments and kill the old one. */
static void
move_flip(Relation index, BlockNumber header_block, HmMove *move,
		  const HmDirectoryEntry *entries, int segment_count)
{
	HmDirectoryEdit edit;
	Buffer		header;
	GenericXLogState *state;

	hm_directory_begin(index, hm_position(move->part, move->low.key, move->low.tid),
					   segment_count - 1, &edit);
	header = ReadBuffer(index, header_block);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);

	/* Our page lock and the mark have kept everybody else from replacing it. */
	if (!is_live_header(header, move->stamp))
		elog(ERROR, "segment at block %u of index \"%s\" has changed during movement",
			 header_block, RelationGetRelationName(index));

	state = GenericXLogStart(index);
	hm_directory_apply(&edit, state, true, entries, segment_count);
	hm_page_segment(GenericXLogRegisterBuffer(state, header, 0))->state = HM_SEGMENT_DEAD;
	GenericXLogFinish(state);
	UnlockReleaseBuffer(header);
	hm_directory_end(&edit);
}

void
hm_segment_move(Relation index, BlockNumber header_block, uint64 stamp)
{
	MemoryContext context,
				old_context;
	Buffer		header;
	Buffer		first_leaf = InvalidBuffer;
	HmMove		move;

	LockPage(index, header_block, ExclusiveLock);

	context = AllocSetContextCreate(CurrentMemoryContext, "harmonia movement",
									ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(context);

	header = ReadBuffer(index, header_block);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	if (is_live_header(header, stamp))
	{
		mark_moving(index, header, true);
		first_leaf = move_begin(index, header, &move);
	}
	UnlockReleaseBuffer(header);

	if (BufferIsValid(first_leaf))
	{
		HmDirectoryEntry *entries;
		int			segment_count;

		move_read(index, first_leaf, &move);
		hm_gate_enter(index);
		entries = move_write(index, &move, &segment_count);
		move_flip(index, header_block, &move, entries, segment_count);
		hm_extent_free(index, move.extents, move.extent_count);
		hm_gate_leave(index);
	}

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	UnlockPage(index, header_block, ExclusiveLock);
}
