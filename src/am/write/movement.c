/*
 * movement.c
 *		Movement: segments are rewritten in pure layout.
 *
 * The papers' movement rewrites the whole key region after a batch of updates, so that
 * auxiliary nodes disappear.  Here it rewrites one segment, and readers read the old pages
 * meanwhile.  Two neighbours can be joined in the same way.  Steps:
 *
 *	1.	Take the movement lock.  It keeps other movers out, not writers.
 *	2.	Copy the leaves, one by one, into new segments in new extents, and have this copy catch
 *		up with the writers until few leaves have changed since they were read
 *		(movementcopy.c).  After a crash up to here, these blocks are lost until the next VACUUM.
 *	3.	Set the flag "moving" in the header in a WAL record.  Writers that find it look again until
 *		it is gone.  They queue for no lock, or the server would cancel an autovacuum worker that
 *		moves.  If the mover dies, by error or crash, the lock is free and the next writer removes
 *		the flag.
 *	4.	Catch up once more.  No other backend can change the leaves now: one that had a leaf locked
 *		when the flag was set has let go of it before it is looked at here (lockleaf.c).
 *	5.	In one WAL record, point the directory to the new segments and mark the old
 *		header dead.
 *	6.	Add the old extents to the list of free ones.  After a crash before that, they
 *		are lost until the next VACUUM.
 *
 * So writers wait while the leaves are looked at and some of them are read, about a millisecond,
 * but not while a thousand pages are written and logged.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/fault.h"
#include "am/marks.h"
#include "am/write/insert.h"
#include "am/write/movement.h"
#include "compat.h"

/*
 * How often a copy is begun while writers go on.  If it turns out to be of no use, because segments
 * have got other bounds or entries found no place in it, another one is made, the last one under
 * the flag.
 */
#define MOVE_ATTEMPTS 3

/*
 * How often a copy catches up with writers before they are kept out, at most; and with how few
 * changed leaves it is near enough.
 */
#define MOVE_ROUNDS 8
#define MOVE_NEAR_ENOUGH 8

/* Lock the headers of the sources exclusively. */
static void
lock_headers(HmMove *move, Buffer *headers)
{
	for (int i = 0; i < move->source_count; i++)
	{
		headers[i] = ReadBuffer(move->index, move->sources[i].header);
		LockBuffer(headers[i], BUFFER_LOCK_EXCLUSIVE);
	}
}

static void
unlock_headers(HmMove *move, Buffer *headers)
{
	for (int i = 0; i < move->source_count; i++)
		UnlockReleaseBuffer(headers[i]);
}

/*
 * Note what a source's header, which is locked, says of it.  Returns false if it is not alive, or
 * not the neighbour of the source before it.
 */
static bool
note_source(HmMove *move, int number, Buffer header)
{
	HmMoveSource *source = &move->sources[number];
	Page page = BufferGetPage(header);
	HmSegment *segment = hm_page_segment(page);
	HmPart part = (HmPart) hm_page_special(page)->part;
	Buffer leaf;

	if (!hm_segment_is_alive(page, source->stamp))
		return false;
	hm_segment_check(move->index, header, move->width);
	if (number == 0)
	{
		move->part = part;
		move->low = hm_segment_low(page);
	}
	else if (!move->has_high || move->part != part ||
			 ht_entry_cmp(move->high, hm_segment_low(page)) != 0)
		return false;
	move->high = hm_segment_high(page);
	move->has_high = hm_page_has_high(page);
	move->shadowed |= segment->auxiliaries > 0;

	source->low = hm_segment_low(page);
	source->leaves = segment->leaves;
	leaf = hm_segment_descend(move->index, header, move->width, source->low, false, NULL);
	source->first_leaf = BufferGetBlockNumber(leaf);
	ReleaseBuffer(leaf);
	return true;
}

/*
 * Note what the headers say.  The segments must be alive and, if there are two, neighbours in one
 * part; otherwise the result is false.  Removes the marks of a mover that died, so that writers
 * need not wait for them.  Returns with no buffer lock.  The caller holds the movement locks.
 */
static bool
move_begin(HmMove *move)
{
	Buffer headers[HM_MOVE_MAX_SOURCES];
	bool ready = true;

	move->shadowed = false;
	move->width = hm_cache(move->index, false)->width;
	lock_headers(move, headers);
	for (int i = 0; i < move->source_count; i++)
	{
		ready = ready && note_source(move, i, headers[i]);
		if (ready && (hm_page_segment(BufferGetPage(headers[i]))->state & HM_SEGMENT_MOVING))
			hm_flag_moving(move->index, &headers[i], 1, false);
	}
	unlock_headers(move, headers);
	return ready;
}

/*
 * Mark the headers, so that nothing changes in the segments from now on, and note how many leaves
 * they have.  Returns false, and marks nothing, if the last segment has got another high bound
 * since move_begin().  Returns with no buffer lock.  The caller holds the movement locks.
 */
static bool
move_mark(HmMove *move)
{
	Buffer headers[HM_MOVE_MAX_SOURCES];
	Page last;
	bool same;

	lock_headers(move, headers);
	last = BufferGetPage(headers[move->source_count - 1]);
	same = hm_page_has_high(last) == move->has_high;
	if (same)
	{
		for (int i = 0; i < move->source_count; i++)
			move->sources[i].leaves = hm_page_segment(BufferGetPage(headers[i]))->leaves;
		HM_FAULT(move_flagging);
		hm_flag_moving(move->index, headers, move->source_count, true);
	}
	unlock_headers(move, headers);
	if (same)
		HM_FAULT(move_flagged);
	return same;
}

/* Remove the marks.  The caller holds the movement locks. */
static void
move_unmark(HmMove *move)
{
	Buffer headers[HM_MOVE_MAX_SOURCES];

	lock_headers(move, headers);
	hm_flag_moving(move->index, headers, move->source_count, false);
	unlock_headers(move, headers);
}

/*
 * Have the copy catch up with writers until it is near enough.  Returns false if it is of no use.
 */
static bool
follow_writers(HmMove *move)
{
	uint32 changed = PG_UINT32_MAX;

	for (int round = 0; round < MOVE_ROUNDS && changed > MOVE_NEAR_ENOUGH; round++)
	{
		HM_FAULT(move_following);
		if (!hm_move_catch_up(move, false, &changed))
			return false;
	}
	HM_FAULT(move_followed);
	return true;
}

/*
 * Point the directory to the new segments and mark the old ones dead, in one WAL record.  *retired
 * becomes the old segments' extents, palloc'd.  If the directory does not lead to the old ones, or
 * two cannot be replaced together, because their entries are on different directory pages, does
 * nothing and returns false.  The caller holds the movement locks and the allocation lock, and has
 * marked the headers.
 */
static bool
move_flip(HmMove *move, const HmExtent *extents, int extent_count, HmExtent **retired,
		  int *retired_count)
{
	Relation index = move->index;
	HmPosition low = hm_position(move->part, move->low.key, move->low.tid);
	HmDirectoryEdit edit;
	Buffer headers[HM_MOVE_MAX_SOURCES];
	bool possible;

	*retired = palloc(HM_MOVE_MAX_SOURCES * HM_SEGMENT_MAX_EXTENTS * sizeof(HmExtent));
	*retired_count = 0;
	hm_directory_begin(index, low, move->copy_count, &edit);
	possible = hm_directory_leads_to(&edit, low, move->sources[0].header, move->sources[0].stamp) &&
			   (move->source_count == 1 ||
				hm_directory_has_next(index, &edit, low, move->sources[1].header));
	lock_headers(move, headers);
	for (int i = 0; i < move->source_count; i++)
	{
		/*
		 * Movement locks and marks have kept other backends from changing the headers.
		 * If the list of free extents is damaged, the new segments may have overwritten
		 * them.
		 */
		if (!hm_segment_is_alive(BufferGetPage(headers[i]), move->sources[i].stamp))
			hm_report_damage(NULL,
							 "segment at block %u of index \"%s\" has changed during movement",
							 move->sources[i].header, RelationGetRelationName(index));
		hm_segment_check(index, headers[i], move->width);
		*retired_count += hm_segment_extents(headers[i], *retired + *retired_count);
	}

	if (possible)
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_directory_apply(&edit, state, move->source_count, move->copies, move->copy_count);
		for (int i = 0; i < move->source_count; i++)
			hm_page_segment(GenericXLogRegisterBuffer(state, headers[i], 0))->state =
				HM_SEGMENT_DEAD;
		for (int i = 0; i < extent_count; i++)
			hm_mark_blocks(index, extents[i].start, extents[i].length);
		HM_FAULT(move_flip_marked);
		hm_mark_structure(index);
		HM_FAULT(move_flip_changed);
		GenericXLogFinish(state);
		HM_FAULT(move_flip_logged);
	}
	unlock_headers(move, headers);
	hm_directory_end(&edit);
	return possible;
}

typedef enum MoveResult
{
	MOVE_DONE,
	MOVE_REFUSED, /* it is not possible, or would not pay */
	MOVE_AGAIN    /* the copy was of no use */
} MoveResult;

/*
 * Bring the copy to the state of the sources, with writers kept out, and replace these by it.
 * "marked" says that they are kept out already.  The caller holds the movement locks and the
 * allocation lock.
 */
static MoveResult
move_replace(HmMove *move, bool marked)
{
	MoveResult result = MOVE_AGAIN;
	HmExtent *extents, *retired;
	int extent_count, retired_count;
	uint32 changed;

	if (!marked)
		marked = follow_writers(move) && move_mark(move);
	if (marked && hm_move_catch_up(move, true, &changed))
		result = MOVE_DONE;
	extents = hm_move_extents(move, &extent_count);
	if (result == MOVE_DONE)
	{
		HM_FAULT(move_complete);
		if (!move_flip(move, extents, extent_count, &retired, &retired_count))
			result = MOVE_REFUSED;
		HM_FAULT(move_flipped);
	}
	if (marked && result != MOVE_DONE)
		move_unmark(move);

	if (result == MOVE_DONE)
		hm_extent_free(move->index, retired, retired_count);
	else
		hm_extent_free(move->index, extents, extent_count);
	HM_FAULT(move_freed);
	return result;
}

/*
 * Copy segments and replace them by the copy.  With "marked", writers are kept out from the
 * beginning. The caller holds the movement locks.
 */
static MoveResult
move_try(HmMove *move, bool marked)
{
	MoveResult result;

	if (!move_begin(move))
		return MOVE_REFUSED;
	if (marked && !move_mark(move))
		return MOVE_AGAIN;
	hm_move_plan(move);
	HM_FAULT(move_read);
	if (move->mode == HM_MOVE_IF_SMALLER && !move->shadowed && move->new_leaves >= move->leaf_count)
	{
		if (marked)
			move_unmark(move);
		return MOVE_REFUSED;
	}

	hm_allocation_lock(move->index);
	hm_move_write(move);
	HM_FAULT(move_copied);
	result = move_replace(move, marked);
	hm_allocation_unlock(move->index);
	return result;
}

bool
hm_segments_move(Relation index, const HmSegmentName *segments, int count, HmMoveMode mode,
				 HmDirectoryEntry *last)
{
	MemoryContext context, old_context;
	HmMove move = {0};
	MoveResult result = MOVE_AGAIN;

	Assert(count >= 1 && count <= HM_MOVE_MAX_SOURCES);
	move.index = index;
	move.source_count = count;
	move.mode = mode;
	for (int i = 0; i < count; i++)
	{
		move.sources[i].header = segments[i].header;
		move.sources[i].stamp = segments[i].stamp;
		hm_movement_lock(index, segments[i].header);
	}
	HM_FAULT(move_locked);
	context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia movement", ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(context);

	for (int attempt = 1; result == MOVE_AGAIN; attempt++)
	{
		MemoryContextReset(context);
		move.room_at_end = attempt > 1;
		result = move_try(&move, attempt >= MOVE_ATTEMPTS);
	}
	if (last != NULL && result == MOVE_DONE)
		*last = move.copies[move.copy_count - 1];

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	for (int i = 0; i < count; i++)
		hm_movement_unlock(index, segments[i].header);
	return result == MOVE_DONE;
}
