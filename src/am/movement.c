/*
 * movement.c
 *		Movement: segments are rewritten in pure layout.
 *
 * The papers' movement rewrites the whole key region after a batch of updates, so that
 * auxiliary nodes disappear.  Here it rewrites one segment, and readers read the old pages
 * meanwhile.  Two neighbours can be joined in the same way.  Steps:
 *
 *	1.	Take the movement lock, then mark the header "moving" in a WAL record.
 *		Writers that find the mark look again until it is gone.  They queue for
 *		no lock, or the server would cancel an autovacuum worker that moves.
 *		If the mover dies, by error or crash, the lock is free and the next
 *		writer removes the mark.
 *	2.	Copy the leaves, which no other backend can change now, into new segments in
 *		new extents.  After a crash up to here, these blocks are lost until the next
 *		VACUUM.
 *	3.	In one WAL record, point the directory to the new segments and mark the old
 *		header dead.
 *	4.	Add the old extents to the list of free ones.  After a crash before that, they
 *		are lost until the next VACUUM.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/fault.h"
#include "am/internal.h"
#include "compat.h"
#include "device/device.h"

#define HM_MOVE_MAX_SOURCES		2

/* A segment that is moved, as its header was when it was marked. */
typedef struct HmMoveSource
{
	BlockNumber header;
	uint64		stamp;
	HtEntry		low;
	BlockNumber first_leaf;
	uint32		leaves;
	int			extent_count;
	HmExtent	extents[HM_SEGMENT_MAX_EXTENTS];
} HmMoveSource;

/* A movement in progress.  Its memory is that of the movement's context. */
typedef struct HmMove
{
	HtWidth		width;
	HmPart		part;
	HtEntry		low;			/* of the first source */
	HtEntry		high;			/* of the last one */
	bool		has_high;
	HmMoveMode	mode;
	bool		shadowed;		/* some source has an auxiliary node */
	uint64		leaves;			/* of all sources */
	uint64		fill;			/* percent of their slots in use, summed over leaves */
	int			source_count;
	HmMoveSource sources[HM_MOVE_MAX_SOURCES];
	uint64		count;			/* entries */
	uint64		room;
	HtEntry    *entries;
	uint32		new_leaves;
	HmLeafPlan *plan;			/* of the new leaves */
} HmMove;

/* Set or clear the "moving" mark of headers.  The caller has locked them exclusively. */
static void
mark_moving(Relation index, Buffer *headers, int count, bool moving)
{
	GenericXLogState *state = GenericXLogStart(index);

	for (int i = 0; i < count; i++)
	{
		HmSegment  *segment = hm_page_segment(GenericXLogRegisterBuffer(state, headers[i], 0));

		if (moving)
			segment->state |= HM_SEGMENT_MOVING;
		else
			segment->state &= ~HM_SEGMENT_MOVING;
	}
	GenericXLogFinish(state);
}

/*
 * Remove the mark of a mover that died, if that is what a writer has found.  Returns false
 * if the mover is still at work.  The caller holds no buffer lock.
 */
static bool
remove_left_mark(Relation index, BlockNumber header_block, uint64 stamp)
{
	Buffer		header;

	if (!hm_movement_keep_out(index, header_block))
		return false;
	header = ReadBuffer(index, header_block);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	if (hm_segment_is_alive(BufferGetPage(header), stamp) &&
		(hm_page_segment(BufferGetPage(header))->state & HM_SEGMENT_MOVING))
	{
		mark_moving(index, &header, 1, false);
		HM_FAULT(move_mark_removed);
	}
	UnlockReleaseBuffer(header);
	hm_movement_let_in(index, header_block);
	return true;
}

Buffer
hm_segment_enter_to_write(Relation index, HmPosition position, int lock)
{
	int			pauses = 0;

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
			/* This is the next part's segment; the position's own part has none. */
			UnlockReleaseBuffer(header);
			return InvalidBuffer;
		}

		segment = hm_page_segment(BufferGetPage(header));
		if (!(segment->state & HM_SEGMENT_MOVING))
			return header;

		header_block = BufferGetBlockNumber(header);
		stamp = segment->stamp;
		UnlockReleaseBuffer(header);
		if (!remove_left_mark(index, header_block, stamp))
			hm_pause(&pauses, HM_WAIT_MOVEMENT);
	}
}

/*
 * Lock the headers, note what they say, and mark them.  They must be alive and, if there
 * are two, neighbours in one part; otherwise nothing is marked, and the result is false.
 * Returns with no buffer lock.  The caller holds the movement locks.
 */
static bool
move_begin(Relation index, HmMove *move)
{
	Buffer		headers[HM_MOVE_MAX_SOURCES];
	bool		ready = true;

	move->shadowed = false;
	move->leaves = 0;
	move->width = hm_cache(index, false)->width;
	for (int i = 0; i < move->source_count; i++)
	{
		HmMoveSource *source = &move->sources[i];
		Page		page;
		HmSegment  *segment;
		Buffer		leaf;

		headers[i] = ReadBuffer(index, source->header);
		LockBuffer(headers[i], BUFFER_LOCK_EXCLUSIVE);
		page = BufferGetPage(headers[i]);
		segment = hm_page_segment(page);
		if (!ready || !hm_segment_is_alive(page, source->stamp))
		{
			ready = false;
			continue;
		}
		hm_segment_check(index, headers[i], move->width);

		if (i == 0)
		{
			move->part = (HmPart) hm_page_special(page)->part;
			move->low = segment->low;
		}
		else if (!move->has_high || move->part != (HmPart) hm_page_special(page)->part ||
				 ht_entry_cmp(move->high, segment->low) != 0)
		{
			ready = false;
			continue;
		}
		move->high = segment->high;
		move->has_high = hm_page_has_high(page);

		source->low = segment->low;
		source->leaves = segment->leaves;
		source->extent_count = (int) segment->extent_count;
		memcpy(source->extents, segment->extents, sizeof(source->extents));
		leaf = hm_segment_descend(index, headers[i], segment->low, false, NULL);
		source->first_leaf = BufferGetBlockNumber(leaf);
		ReleaseBuffer(leaf);
		move->leaves += segment->leaves;
		move->shadowed |= segment->auxiliaries > 0;
	}
	if (ready)
	{
		HM_FAULT(move_marking);
		mark_moving(index, headers, move->source_count, true);
	}
	for (int i = 0; i < move->source_count; i++)
		UnlockReleaseBuffer(headers[i]);

	if (ready)
	{
		HM_FAULT(move_marked);
		move->count = 0;
		move->fill = 0;
		move->room = (move->leaves + 1) * HT_LEAF_MAX_ENTRIES / 2;
		move->entries = palloc_extended(move->room * sizeof(HtEntry), MCXT_ALLOC_HUGE);
	}
	return ready;
}

/*
 * Read all entries of a source, from its first leaf on.  This follows right links, not
 * inner nodes (reader.c), because it does not hold the header's lock; the header's mark
 * keeps writers out.  Entries to which the links do not lead would be lost.  So each leaf
 * must begin where the one before it ends, and the number of leaves must be the header's.
 * Errors: index_corrupted.
 */
static void
move_read(Relation index, HmMove *move, const HmMoveSource *source)
{
	BlockNumber block = source->first_leaf;
	HtEntry		low = source->low;
	uint32		leaves = 0;

	while (BlockNumberIsValid(block))
	{
		Buffer		leaf;
		Page		page;
		int			count;

		CHECK_FOR_INTERRUPTS();
		if (move->room - move->count < HT_LEAF_MAX_ENTRIES)
		{
			move->room *= 2;
			move->entries = repalloc_huge(move->entries, move->room * sizeof(HtEntry));
		}
		hm_block_check(index, block);
		leaf = ReadBuffer(index, block);
		LockBuffer(leaf, BUFFER_LOCK_SHARE);
		hm_page_check(index, leaf, HM_PAGE_LEAF);
		hm_leaf_check(index, leaf, move->width);
		page = BufferGetPage(leaf);
		if (leaves == source->leaves || hm_page_special(page)->stamp != source->stamp ||
			ht_entry_cmp(hm_leaf_low(page), low) != 0)
			break;

		count = ht_leaf_read(page, move->entries + move->count);
		move->count += (uint64) count;
		move->fill += (uint64) count * 100 / ht_leaf_capacity(ht_leaf_shape_of(page));
		leaves++;
		low = hm_leaf_high(page);
		block = hm_page_special(page)->right;
		UnlockReleaseBuffer(leaf);
	}

	if (BlockNumberIsValid(block) || leaves != source->leaves)
		hm_report_damage(psprintf("It breaks after %u of %u leaves.", leaves, source->leaves),
						 "segment at block %u of index \"%s\" has a broken chain of leaves",
						 source->header, RelationGetRelationName(index));
}

/*
 * How full, in percent, new leaves are.  Where leaves have been split, further splits
 * are likely.  If all leaves were packed as a build packs them, they would soon be split
 * again, and the next VACUUM would move the segment again.  So they keep half of the room
 * that they have now.
 */
static int
fill_percent(Relation index, const HmMove *move)
{
	int			packed = hm_fillfactor(index);
	int			now = (int) (move->fill / move->leaves);

	if (move->mode != HM_MOVE_KEEP_ROOM || !move->shadowed || now >= packed)
		return packed;
	return (now + packed + 1) / 2;
}

/* Divide the entries read among new leaves. */
static void
move_plan(Relation index, HmMove *move)
{
	HtLeafShape widest = ht_leaf_shape(8 * (int) move->width, HT_TID_BYTES, 0);
	int			percent = fill_percent(index, move);
	uint64		least = Max(1, ht_leaf_capacity(widest) * percent / 100);
	uint32		max = (uint32) (move->count / least + 1);
	uint64		planned;

	move->plan = palloc_extended(max * sizeof(HmLeafPlan), MCXT_ALLOC_HUGE);
	move->new_leaves = hm_plan_leaves(move->width, percent, move->low,
									  move->has_high ? &move->high : NULL, move->entries,
									  move->count, HM_STEP_UNKNOWN, max, move->plan, &planned);
	if (planned != move->count)
		elog(ERROR, "movement in index \"%s\" has no room for all entries",
			 RelationGetRelationName(index));
}

/*
 * Write new segments for the entries read.  Returns their directory entries and extents,
 * palloc'd, and their number.  The caller holds the allocation lock.
 */
static HmDirectoryEntry *
move_write(Relation index, HmMove *move, HmExtent **extents, int *segment_count)
{
	int			fanout = hm_cache(index, false)->fanout;
	uint32		leaves_max = hm_segment_room(move->width, fanout, HM_SEGMENT_MAX_BLOCKS);
	int			segments = (int) ((move->new_leaves + leaves_max - 1) / leaves_max);
	HmDirectoryEntry *result = palloc0(segments * sizeof(HmDirectoryEntry));
	const HtEntry *entries = move->entries;
	HtEntry		low = move->low;

	*extents = palloc(segments * sizeof(HmExtent));
	for (int i = 0; i < segments; i++)
	{
		uint32		from = (uint32) ((uint64) move->new_leaves * i / segments);
		uint32		to = (uint32) ((uint64) move->new_leaves * (i + 1) / segments);
		bool		last = i == segments - 1;
		uint64		count = 0;
		HmSegmentSpec spec = {0};
		uint32		blocks;
		char	   *image;

		for (uint32 leaf = from; leaf < to; leaf++)
			count += (uint64) move->plan[leaf].count;
		spec.width = move->width;
		spec.fanout = fanout;
		spec.part = move->part;
		spec.low = low;
		spec.high = last ? move->high : entries[count];
		spec.has_high = !last || move->has_high;
		spec.leaves = to - from;
		spec.leaf_room = spec.leaves;
		blocks = hm_segment_blocks(spec.width, fanout, spec.leaf_room);
		spec.start = hm_extent_allocate(index, blocks, HM_EXTENT_FOR_SEGMENT);
		HM_FAULT(move_allocated);
		spec.stamp = hm_stamp_allocate(index);
		(*extents)[i] = (HmExtent) {spec.start, blocks};

		image = palloc_extended((Size) blocks * BLCKSZ, MCXT_ALLOC_HUGE);
		hm_segment_image(&spec, move->plan + from, entries, image);
		hm_segment_write(index, spec.start, image, blocks);
		HM_FAULT(move_written);
		pfree(image);

		result[i].key = spec.low.key;
		result[i].tid = spec.low.tid;
		result[i].part = (uint64) spec.part;
		result[i].block = spec.start;
		result[i].stamp = (uint32) spec.stamp;
		low = spec.high;
		entries += count;
	}
	*segment_count = segments;
	return result;
}

/*
 * Point the directory to the new segments and mark the old ones dead, in one WAL record.
 * If two segments cannot be replaced together, because their entries are on different
 * directory pages, removes the "moving" marks instead and returns false.  The caller
 * holds the movement locks and the allocation lock.
 */
static bool
move_flip(Relation index, HmMove *move, const HmDirectoryEntry *entries,
		  const HmExtent *extents, int segment_count)
{
	HmDirectoryEdit edit;
	Buffer		headers[HM_MOVE_MAX_SOURCES];
	bool		possible;

	hm_directory_begin(index, hm_position(move->part, move->low.key, move->low.tid),
					   segment_count, &edit);
	possible = move->source_count == 1 ||
		hm_directory_has_next(index, &edit,
							  hm_position(move->part, move->low.key, move->low.tid),
							  move->sources[1].header);

	for (int i = 0; i < move->source_count; i++)
	{
		headers[i] = ReadBuffer(index, move->sources[i].header);
		LockBuffer(headers[i], BUFFER_LOCK_EXCLUSIVE);

		/*
		 * Movement locks and marks have kept other backends from changing the headers.
		 * If the list of free extents is damaged, the new segments may have overwritten
		 * them.
		 */
		if (!hm_segment_is_alive(BufferGetPage(headers[i]), move->sources[i].stamp))
			hm_report_damage(NULL,
							 "segment at block %u of index \"%s\" has changed during movement",
							 move->sources[i].header, RelationGetRelationName(index));
	}

	if (possible)
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_directory_apply(&edit, state, move->source_count, entries, segment_count);
		for (int i = 0; i < move->source_count; i++)
			hm_page_segment(GenericXLogRegisterBuffer(state, headers[i], 0))->state =
				HM_SEGMENT_DEAD;
		for (int i = 0; i < segment_count; i++)
			hm_device_mark_blocks(index, extents[i].start, extents[i].length);
		hm_device_structure_changes(index);
		HM_FAULT(move_flip_changed);
		GenericXLogFinish(state);
		HM_FAULT(move_flip_logged);
	}
	else
		mark_moving(index, headers, move->source_count, false);

	for (int i = 0; i < move->source_count; i++)
		UnlockReleaseBuffer(headers[i]);
	hm_directory_end(&edit);
	return possible;
}

/* Remove the "moving" marks.  The caller holds the movement locks. */
static void
move_give_up(Relation index, HmMove *move)
{
	Buffer		headers[HM_MOVE_MAX_SOURCES];

	for (int i = 0; i < move->source_count; i++)
	{
		headers[i] = ReadBuffer(index, move->sources[i].header);
		LockBuffer(headers[i], BUFFER_LOCK_EXCLUSIVE);
	}
	mark_moving(index, headers, move->source_count, false);
	for (int i = 0; i < move->source_count; i++)
		UnlockReleaseBuffer(headers[i]);
}

/*
 * Copy marked segments and replace them by the copies.  *result becomes the directory
 * entry of the last new segment.  Returns false if they cannot be replaced together, or if it
 * would not pay.
 */
static bool
move_copy(Relation index, HmMove *move, HmDirectoryEntry *result)
{
	HmDirectoryEntry *entries;
	HmExtent   *extents;
	int			segment_count;
	bool		done;

	for (int i = 0; i < move->source_count; i++)
		move_read(index, move, &move->sources[i]);
	HM_FAULT(move_read);
	move_plan(index, move);
	if (move->mode == HM_MOVE_IF_SMALLER && !move->shadowed && move->new_leaves >= move->leaves)
	{
		move_give_up(index, move);
		return false;
	}

	hm_allocation_lock(index);
	entries = move_write(index, move, &extents, &segment_count);
	HM_FAULT(move_copied);
	done = move_flip(index, move, entries, extents, segment_count);
	HM_FAULT(move_flipped);
	if (done)
	{
		for (int i = 0; i < move->source_count; i++)
			hm_extent_free(index, move->sources[i].extents, move->sources[i].extent_count);
	}
	else
		hm_extent_free(index, extents, segment_count);
	HM_FAULT(move_freed);
	hm_allocation_unlock(index);
	*result = entries[segment_count - 1];
	return done;
}

bool
hm_segments_move(Relation index, const HmSegmentName *segments, int count, HmMoveMode mode,
				 BlockNumber *last_header)
{
	MemoryContext context,
				old_context;
	HmMove		move;
	HmDirectoryEntry last = {0};
	bool		done = false;

	Assert(count >= 1 && count <= HM_MOVE_MAX_SOURCES);
	move.source_count = count;
	move.mode = mode;
	for (int i = 0; i < count; i++)
	{
		move.sources[i].header = segments[i].header;
		move.sources[i].stamp = segments[i].stamp;
		hm_movement_lock(index, segments[i].header);
	}
	HM_FAULT(move_locked);
	context = AllocSetContextCreate(CurrentMemoryContext, "harmonia movement",
									ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(context);

	if (move_begin(index, &move))
		done = move_copy(index, &move, &last);

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	for (int i = 0; i < count; i++)
		hm_movement_unlock(index, segments[i].header);
	if (last_header != NULL)
		*last_header = last.block;
	return done;
}
