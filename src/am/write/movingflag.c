/*
 * movingflag.c
 *		The flag "moving" in a segment's header, which keeps writers out of it (movement.c).
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/write/insert.h"

void
hm_flag_moving(Relation index, Buffer *headers, int count, bool moving)
{
	GenericXLogState *state = GenericXLogStart(index);

	for (int i = 0; i < count; i++)
	{
		HmSegment *segment = hm_page_segment(GenericXLogRegisterBuffer(state, headers[i], 0));

		if (moving)
			segment->state |= HM_SEGMENT_MOVING;
		else
			segment->state &= ~HM_SEGMENT_MOVING;
	}
	GenericXLogFinish(state);
}

/*
 * Remove the flag of a mover that died, if that is what a writer has found.  Returns false
 * if the mover is still at work.  The caller holds no buffer lock.
 */
static bool
remove_left_mark(Relation index, BlockNumber header_block, uint64 stamp)
{
	Buffer header;

	if (!hm_movement_keep_out(index, header_block))
		return false;
	header = ReadBuffer(index, header_block);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	if (hm_segment_is_alive(BufferGetPage(header), stamp) &&
		(hm_page_segment(BufferGetPage(header))->state & HM_SEGMENT_MOVING))
	{
		hm_flag_moving(index, &header, 1, false);
		HM_FAULT(move_flag_removed);
	}
	UnlockReleaseBuffer(header);
	hm_movement_let_in(index, header_block);
	return true;
}

Buffer
hm_segment_enter_to_write(Relation index, HmPosition position, int lock)
{
	int pauses = 0;

	for (;;)
	{
		HmPosition entered = position;
		Buffer header = hm_segment_enter(index, &entered, HM_AT_OR_AFTER, lock);
		HmSegment *segment;
		BlockNumber header_block;
		uint64 stamp;

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
