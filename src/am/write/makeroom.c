/*
 * makeroom.c
 *		Making room for entries whose leaf is full: by a split, a new segment, a further extent or a
 *		movement.
 */
#include "postgres.h"

#include "am/fault.h"
#include "am/write/insert.h"

/*
 * How often to try for the header of a leaf that is to be split, before the leaf is waited for with
 * the header locked.
 */
#define LEAF_ATTEMPTS 4

/*
 * Have a segment moved, by a background worker if that has time.  The caller holds no buffer lock.
 */
static void
move_or_ask(Relation index, HmSegmentName name, HmUrgency urgency)
{
	if (urgency == HM_MOVE_NOW || !hm_mover_ask(index))
		hm_segments_move(index, &name, 1, HM_MOVE_OUTGROWN, NULL);
}

/*
 * What a split has left to do.  *inserted is how many of n entries it has inserted; entries that
 * begin a segment are inserted into that.  The caller holds no buffer lock.
 */
static void
finish_split(Relation index, HmPart part, const HmSplitRest *rest, const HtEntry *coming, int64 n,
			 int64 *inserted)
{
	if (rest->segment_blocks > 0)
		*inserted = hm_append_segment(index, part, rest->bound, rest->step, coming, n,
									  rest->segment_blocks, rest->segment);
	if (rest->wants_extent)
		hm_add_spare_extent(index, rest->segment);
	if (rest->urgency != HM_MOVE_LATER)
		move_or_ask(index, rest->segment, rest->urgency);
}

/*
 * Lock the segment in which an entry belongs, to write, and *leaf of it, both exclusively.  Returns
 * the header, or InvalidBuffer if the part has no segment.  The backend that has the leaf locked
 * may be reading the table, in search of dead rows (deadentries.c).  All that descend in the
 * segment need the header.  So a batch waits for the leaf without it, and tries for it then; after
 * some attempts in vain it keeps the header.  A single row has tried that before, and keeps its
 * turn: of rows that are appended one by one, those that come late split leaves.
 */
static Buffer
lock_with_leaf(Relation index, HtWidth width, HmPart part, HtEntry entry, bool batch, Buffer *leaf)
{
	HmPosition position = hm_position(part, entry.key, entry.tid);
	Buffer header;

	for (int attempt = 0; batch && attempt < LEAF_ATTEMPTS; attempt++)
	{
		HmLockedLeaf locked;

		header = hm_segment_enter_to_write(index, position, BUFFER_LOCK_EXCLUSIVE);
		if (!BufferIsValid(header))
			return InvalidBuffer;
		*leaf = hm_segment_descend(index, header, width, entry, false, NULL);
		if (hm_lock_soon(*leaf))
		{
			hm_page_check(index, *leaf, HM_PAGE_LEAF);
			return header;
		}
		ReleaseBuffer(*leaf);
		UnlockReleaseBuffer(header);

		if (!hm_leaf_lock_known(index, part, entry, &locked) &&
			hm_leaf_lock(index, part, entry, &locked) != HM_LEAF_LOCKED)
			continue;
		if (hm_leaf_lock_header(&locked))
		{
			*leaf = locked.leaf;
			return locked.header;
		}
		hm_leaf_release(&locked);
	}

	header = hm_segment_enter_to_write(index, position, BUFFER_LOCK_EXCLUSIVE);
	if (BufferIsValid(header))
		*leaf = hm_segment_leaf(index, header, width, entry, false, BUFFER_LOCK_EXCLUSIVE, NULL);
	return header;
}

int64
hm_make_room(Relation index, HmPart part, const HtEntry *coming, int64 n)
{
	HtWidth width = hm_key_width(index);
	Buffer leaf = InvalidBuffer;
	Buffer header = lock_with_leaf(index, width, part, coming[0], n > 1, &leaf);
	HmSplitRest rest;
	int64 inserted;

	if (!BufferIsValid(header))
		return 0;

	/* If several backends have found the leaf full, the first one has made room for the others. */
	inserted = hm_insert_under_header(index, width, header, leaf, hm_mover_is_possible(index),
									  coming, n, &rest);
	finish_split(index, part, &rest, coming, n, &inserted);
	return inserted;
}

bool
hm_make_room_at(Relation index, HmPart part, HmLockedLeaf *locked, const HtEntry *entry,
				int64 *inserted)
{
	HmSplit split;
	HmSplitRest rest;

	if (!hm_segment_is_open(BufferGetPage(locked->header), locked->stamp))
		return false;
	hm_plan_split(index, locked->width, locked->leaf, entry, 1, &split);
	HM_FAULT(split_planned);
	if (!hm_leaf_lock_header(locked))
		return false;
	*inserted = hm_split(index, locked->header, hm_mover_is_possible(index), &split, &rest);
	finish_split(index, part, &rest, entry, 1, inserted);
	return true;
}
