/*
 * movementcopy.c
 *		The copy that a movement makes of segments, while writers go on.
 *
 * The leaves are read one by one, each under its share lock, and new segments are written to which
 * nothing refers yet.  Then the copy catches up with the writers: each leaf that has changed since
 * it was read is read again, and what entries it has got or lost since then go into the new
 * segments or out of them, by the same functions that insert and remove entries in general.  A few
 * leaves change while a thousand are copied, and fewer while these few are read again, so what is
 * left to do once the writers are kept out is little.
 *
 * Only splits change the bounds of leaves, and they never change a low bound.  So each leaf is a
 * part of one that was read before, and is compared with that part of what was read.
 *
 * A leaf has changed if its LSN has.  The LSN says nothing for indexes without WAL; of these all
 * bytes of each leaf are compared.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/fault.h"
#include "am/write/insert.h"
#include "am/write/movement.h"
#include "compat.h"

/*
 * The blocks of a new segment's main extent at most, where inserts make it grow: a share of the
 * index, but not less than the least number.  So the room that the next movement needs for its copy
 * is a share of the index, too.  VACUUM would join smaller segments.
 */
#define HM_COPY_LEAST 128
#define HM_COPY_SHARE 16

/* If an entry finds no place so often, there is none. */
#define MAX_ATTEMPTS 10

/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

/* Where a walk from leaf to leaf of a source stands. */
typedef struct LeafWalk
{
	const HmMove *move;
	const HmMoveSource *source;
	BlockNumber block; /* the next leaf, or InvalidBlockNumber */
	HtEntry low;       /* its low bound */
	uint32 leaves;     /* passed so far */
} LeafWalk;

static void
walk_begin(LeafWalk *walk, const HmMove *move, const HmMoveSource *source)
{
	walk->move = move;
	walk->source = source;
	walk->block = source->first_leaf;
	walk->low = source->low;
	walk->leaves = 0;
}

static void
report_chain(const LeafWalk *walk)
{
	hm_report_damage(
		psprintf("It breaks after %u of %u leaves.", walk->leaves, walk->source->leaves),
		"segment at block %u of index \"%s\" has a broken chain of leaves", walk->source->header,
		RelationGetRelationName(walk->move->index));
}

/*
 * Lock the next leaf in share mode, or return InvalidBuffer at the end.  This follows right links,
 * not inner nodes (reader.c), because it does not hold the header's lock.  Entries to which the
 * links do not lead would be lost, so each leaf must begin where the one before it ends.
 * Errors: index_corrupted.
 */
static Buffer
walk_next(LeafWalk *walk)
{
	Relation index = walk->move->index;
	Buffer buffer;
	Page page;

	if (!BlockNumberIsValid(walk->block))
		return InvalidBuffer;
	CHECK_FOR_INTERRUPTS();
	hm_block_check(index, walk->block);
	buffer = ReadBuffer(index, walk->block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	hm_page_check(index, buffer, HM_PAGE_LEAF);
	page = BufferGetPage(buffer);
	if (hm_page_special(page)->stamp != walk->source->stamp ||
		ht_entry_cmp(hm_leaf_low(page), walk->low) != 0 ||
		ht_entry_cmp(hm_leaf_end(page), walk->low) <= 0)
		report_chain(walk);

	walk->leaves++;
	walk->low = hm_leaf_end(page);
	walk->block = hm_page_special(page)->right;
	return buffer;
}

/* Add a leaf to those that have been read. */
static void
note_leaf(HmMove *move, const HmCopiedLeaf *leaf)
{
	if (move->leaf_count == move->leaf_room)
	{
		move->leaf_room *= 2;
		move->leaves = repalloc_huge(move->leaves, move->leaf_room * sizeof(HmCopiedLeaf));
	}
	move->leaves[move->leaf_count++] = *leaf;
}

/* Copy a leaf, which is locked in share mode, and unlock it; check the copy, and return it. */
static Page
read_leaf(HmMove *move, Buffer buffer)
{
	HmCopiedLeaf leaf = {BufferGetBlockNumber(buffer), BufferGetLSNAtomic(buffer), palloc(BLCKSZ)};
	HtEntry entries[HT_LEAF_MAX_ENTRIES];

	memcpy(leaf.page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	(void) hm_leaf_read_checked(move->index, leaf.block, leaf.page, move->width, entries);
	note_leaf(move, &leaf);
	return leaf.page;
}

/* Read all leaves for the first time. */
static void
read_sources(HmMove *move)
{
	move->leaf_count = 0;
	move->leaf_room = 64;
	move->leaves = palloc(move->leaf_room * sizeof(HmCopiedLeaf));
	move->count = 0;
	move->fill = 0;
	for (int i = 0; i < move->source_count; i++)
	{
		LeafWalk walk;
		Buffer buffer;

		walk_begin(&walk, move, &move->sources[i]);
		while ((buffer = walk_next(&walk)) != InvalidBuffer)
		{
			Page page = read_leaf(move, buffer);
			int count = ht_leaf_count(page);

			move->count += (uint64) count;
			move->fill += (uint64) count * 100 / ht_leaf_capacity(ht_leaf_shape_of(page));
		}
	}
}

/* Collect the entries of all leaves that have been read. */
static void
collect_entries(HmMove *move)
{
	HtEntry *next;

	move->entries = palloc_extended(Max(1, move->count) * sizeof(HtEntry), MCXT_ALLOC_HUGE);
	next = move->entries;
	for (uint32 i = 0; i < move->leaf_count; i++)
		next += ht_leaf_read(move->leaves[i].page, next);
}

/* ----------------------------------------------------------------
 *		Writing
 * ----------------------------------------------------------------
 */

/*
 * In a segment that has outgrown its size, leaves that are on average as full as the first number
 * are moved into leaves as full as the second one.  Others stay as full as they are.
 */
#define NEARLY_FULL_PERCENT 75
#define OUTGROWN_PERCENT 60

/*
 * If there would be one in so many more leaves than there are, they are made fuller by so many
 * percent.
 */
#define HM_MORE_LEAVES 16
#define HM_FILL_STEP 5

/*
 * Whether new leaves are to have the room that splits would make.  Those with one key alone need
 * none: its next rows have greater TIDs, as a rule, and go to the leaf where it ends
 * (cut_after_key()).
 */
static bool
makes_room(const HmMove *move)
{
	return move->mode == HM_MOVE_OUTGROWN && move->fill / move->leaf_count >= NEARLY_FULL_PERCENT;
}

/*
 * How full, in percent, new leaves are.  Where leaves have been split, further splits
 * are likely.  If all leaves were packed as a build packs them, they would soon be split
 * again, and the next VACUUM would move the segment again.  So they keep half of the room
 * that they have now.
 *
 * If an insert finds that the segment has outgrown its size, more of them will follow.  If leaves
 * are nearly full, room for these takes the place of splits, which would cost as much WAL.  If they
 * have just been split, packing them would bring the next splits nearer.
 *
 * The percentage is one of a leaf's slots.  A leaf with one key alone has half as many again as one
 * with two, so that more leaves may come out, which then are made fuller.
 */
static int
fill_percent(const HmMove *move)
{
	int packed = hm_fillfactor(move->index);
	int now = (int) (move->fill / move->leaf_count);

	if (move->mode == HM_MOVE_OUTGROWN)
		return Min(packed, makes_room(move) ? OUTGROWN_PERCENT : Max(now, 1));
	if (move->mode != HM_MOVE_KEEP_ROOM || !move->shadowed || now >= packed)
		return packed;
	return (now + packed + 1) / 2;
}

void
hm_move_plan(HmMove *move)
{
	HtLeafShape widest = ht_leaf_shape(8 * (int) move->width, HT_TID_BYTES, 0);
	int packed = hm_fillfactor(move->index);
	int percent;
	uint64 least, planned;
	uint32 max;

	read_sources(move);
	collect_entries(move);
	percent = fill_percent(move);
	least = Max(1, ht_leaf_capacity(widest) * percent / 100);
	max = (uint32) (move->count / least + 1);
	move->plan = palloc_extended(max * sizeof(HmLeafPlan), MCXT_ALLOC_HUGE);
	for (;; percent = Min(packed, percent + HM_FILL_STEP))
	{
		move->new_leaves =
			hm_plan_leaves(move->width, percent, makes_room(move) ? packed : percent, move->low,
						   move->has_high ? &move->high : NULL, move->entries, move->count,
						   HM_STEP_UNKNOWN, max, move->plan, &planned);
		if (percent >= packed || makes_room(move) ||
			move->new_leaves <= move->leaf_count + move->leaf_count / HM_MORE_LEAVES)
			break;
	}
	if (planned != move->count)
		elog(ERROR, "movement in index \"%s\" has no room for all entries",
			 RelationGetRelationName(move->index));
}

/* Write one new segment, and note what leads to it. */
static void
write_copy(HmMove *move, HmSegmentSpec *spec, HtEntry low, HtEntry high, const HmLeafPlan *plan,
		   const HtEntry *entries)
{
	Relation index = move->index;
	uint32 blocks = hm_segment_blocks(spec->width, spec->fanout, spec->leaf_room);
	uint32 pages;
	char *image;

	spec->start = hm_extent_allocate(index, blocks, HM_EXTENT_FOR_SEGMENT, InvalidBlockNumber);
	HM_FAULT(move_allocated);
	spec->stamp = hm_stamp_allocate(index);

	image = palloc_extended((Size) blocks * BLCKSZ, MCXT_ALLOC_HUGE);
	pages = hm_segment_image(spec, low, high, plan, entries, image);
	hm_segment_write(index, spec->start, image, pages);
	HM_FAULT(move_written);
	pfree(image);

	move->copies[move->copy_count++] = hm_segment_entry(spec, low);
}

/*
 * How many numbered leaves a copy of so many leaves, which ends its part, gets to spare where
 * writers have added to the end while an earlier copy was made.
 */
static uint32
end_room(const HmMove *move, uint32 leaves, uint32 leaves_max)
{
	return move->room_at_end ? Min(leaves_max - leaves, leaves / 8 + 4) : 0;
}

/* The most blocks of a new segment's main extent. */
static uint32
copy_blocks(const HmMove *move)
{
	uint32 share = RelationGetNumberOfBlocks(move->index) / HM_COPY_SHARE;

	if (move->mode != HM_MOVE_OUTGROWN)
		return HM_SEGMENT_MAX_BLOCKS;
	return Min(HM_SEGMENT_MAX_BLOCKS, Max(HM_COPY_LEAST, share));
}

void
hm_move_write(HmMove *move)
{
	int fanout = hm_cache(move->index, false)->fanout;
	uint32 leaves_max = hm_segment_room(move->width, fanout, copy_blocks(move));
	int segments = (int) ((move->new_leaves + leaves_max - 1) / leaves_max);
	const HtEntry *entries = move->entries;
	HtEntry low = move->low;

	move->copies = palloc0(segments * sizeof(HmDirectoryEntry));
	move->copy_count = 0;
	for (int i = 0; i < segments; i++)
	{
		uint32 from = (uint32) ((uint64) move->new_leaves * i / segments);
		uint32 to = (uint32) ((uint64) move->new_leaves * (i + 1) / segments);
		bool last = i == segments - 1;
		uint64 count = 0;
		HtEntry high = move->high;
		HmSegmentSpec spec = {0};

		for (uint32 leaf = from; leaf < to; leaf++)
			count += (uint64) move->plan[leaf].count;
		spec.width = move->width;
		spec.fanout = fanout;
		spec.part = move->part;
		if (!last)
			high = entries[count];
		spec.has_high = !last || move->has_high;
		spec.leaves = to - from;
		spec.leaf_room = spec.leaves;
		if (!spec.has_high)
			spec.leaf_room += end_room(move, spec.leaves, leaves_max);
		write_copy(move, &spec, low, high, move->plan + from, entries);
		low = high;
		entries += count;
	}
	pfree(move->entries);
	move->entries = NULL;
}

/* ----------------------------------------------------------------
 *		Catching up
 * ----------------------------------------------------------------
 */

/* What a range of entries has got, and lost, since it was copied. */
typedef struct Difference
{
	int added_count;
	int removed_count;
	HtEntry added[HT_LEAF_MAX_ENTRIES];
	HtEntry removed[HT_LEAF_MAX_ENTRIES];
} Difference;

/*
 * Compare the entries that a leaf has with those that it had when it was a part of "known".
 */
static void
compare(Page known, Page leaf, Difference *difference)
{
	HtEntry known_entries[HT_LEAF_MAX_ENTRIES];
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
	int known_count = ht_leaf_read(known, known_entries);
	int end = (int) hm_entries_below(known_entries, known_count, hm_leaf_end(leaf));
	int old = (int) hm_entries_below(known_entries, known_count, hm_leaf_low(leaf));
	int count = ht_leaf_read(leaf, entries);
	int new = 0;

	difference->added_count = 0;
	difference->removed_count = 0;
	while (old < end || new < count)
	{
		int cmp = old == end   ? 1 :
				  new == count ? -1 :
								 ht_entry_cmp(known_entries[old], entries[new]);

		if (cmp < 0)
			difference->removed[difference->removed_count++] = known_entries[old];
		else if (cmp > 0)
			difference->added[difference->added_count++] = entries[new];
		old += cmp <= 0;
		new += cmp >= 0;
	}
}

/* The number of the new segment in which an entry belongs. */
static int
copy_of(const HmMove *move, HtEntry entry)
{
	int i = move->copy_count - 1;

	while (i > 0 && ht_entry_cmp(hm_directory_low(&move->copies[i]).entry, entry) > 0)
		i--;
	return i;
}

/*
 * Remove those of n sorted entries that belong in a leaf of the copy, which the caller has locked
 * exclusively.  The first one is such.  Returns their number.
 */
static int
remove_from_leaf(const HmMove *move, Buffer leaf, const HtEntry *entries, int n)
{
	HtEntry old[HT_LEAF_MAX_ENTRIES];
	bool gone[HT_LEAF_MAX_ENTRIES];
	int count = ht_leaf_read(BufferGetPage(leaf), old);
	int found = 0;

	for (int i = 0; i < count; i++)
	{
		gone[i] = found < n && ht_entry_cmp(old[i], entries[found]) == 0;
		found += gone[i];
	}
	if (found == 0)
		elog(ERROR, "movement in index \"%s\" has lost an entry",
			 RelationGetRelationName(move->index));
	hm_leaf_remove(move->index, leaf, gone);
	return found;
}

/* Remove n sorted entries from the copy. */
static void
remove_from_copy(const HmMove *move, const HtEntry *entries, int n)
{
	while (n > 0)
	{
		Buffer header = ReadBuffer(move->index, move->copies[copy_of(move, entries[0])].block);
		Buffer leaf;
		int removed;

		LockBuffer(header, BUFFER_LOCK_SHARE);
		leaf = hm_segment_leaf(move->index, header, move->width, entries[0], false,
							   BUFFER_LOCK_EXCLUSIVE, NULL);
		removed = remove_from_leaf(move, leaf, entries, n);
		UnlockReleaseBuffer(leaf);
		UnlockReleaseBuffer(header);
		entries += removed;
		n -= removed;
	}
}

/*
 * Insert the first of n entries into a new segment, making room if there is none.  All of the
 * entries belong in it. Returns how many were inserted, perhaps 0, after which the caller tries
 * again, or -1 if there is no way to make room: nothing moves the new segment, and none is added
 * after it.
 */
static int64
add_to_segment(const HmMove *move, BlockNumber block, const HtEntry *entries, int64 n)
{
	Buffer header = ReadBuffer(move->index, block);
	Buffer leaf;
	HmSplitRest rest;
	int64 inserted;

	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	leaf = hm_segment_leaf(move->index, header, move->width, entries[0], false,
						   BUFFER_LOCK_EXCLUSIVE, NULL);
	inserted =
		hm_insert_under_header(move->index, move->width, header, leaf, false, entries, n, &rest);
	if (rest.segment_blocks > 0 || rest.urgency == HM_MOVE_NOW)
		return -1;
	if (rest.wants_extent)
		hm_add_spare_extent(move->index, rest.segment);
	return inserted;
}

/* Insert n sorted entries into the copy.  Returns false if one has no place there. */
static bool
add_to_copy(const HmMove *move, const HtEntry *entries, int64 n)
{
	int idle = 0;

	while (n > 0)
	{
		int copy = copy_of(move, entries[0]);
		int64 here = n;
		int64 inserted;

		if (copy + 1 < move->copy_count)
			here = hm_entries_below(entries, n, hm_directory_low(&move->copies[copy + 1]).entry);
		inserted = add_to_segment(move, move->copies[copy].block, entries, here);
		idle = inserted > 0 ? 0 : idle + 1;
		if (inserted < 0 || idle == MAX_ATTEMPTS)
			return false;
		entries += inserted;
		n -= inserted;
	}
	return true;
}

/* Bring the copy up to date with a leaf.  Returns false if it has no place for an entry. */
static bool
catch_up_leaf(HmMove *move, Page known, Page leaf, uint32 *changed)
{
	Difference difference;

	compare(known, leaf, &difference);
	if (difference.added_count + difference.removed_count > 0)
		(*changed)++;
	remove_from_copy(move, difference.removed, difference.removed_count);
	return add_to_copy(move, difference.added, difference.added_count);
}

/* Whether two leaves of an index without WAL are equal, but for their holes. */
static bool
same_bytes(Page a, Page b)
{
	HtByteRange hole = ht_leaf_hole(ht_leaf_shape_of(a));
	int end = hole.offset + hole.length;

	/* If they have different shapes, they differ before the hole. */
	return memcmp(a, b, hole.offset) == 0 &&
		   memcmp((char *) a + end, (char *) b + end, BLCKSZ - end) == 0;
}

/* Whether a leaf, which is locked, is as it was when it was read last. */
static bool
is_unchanged(const HmMove *move, const HmCopiedLeaf *known, Buffer buffer)
{
	if (BufferGetBlockNumber(buffer) != known->block)
		return false;
	if (RelationNeedsWAL(move->index))
		return BufferGetLSNAtomic(buffer) == known->lsn;
	return same_bytes(known->page, BufferGetPage(buffer));
}

/*
 * Bring the copy up to date with a source.  *at is the leaf, of those that were read last and end
 * before known_end, with which it begins; it becomes the one after its end.
 */
static bool
catch_up_source(HmMove *move, const HmMoveSource *source, bool marked, HmCopiedLeaf **at,
				const HmCopiedLeaf *known_end, uint32 *changed)
{
	HmCopiedLeaf *known = *at;
	LeafWalk walk;
	Buffer buffer;

	walk_begin(&walk, move, source);
	while ((buffer = walk_next(&walk)) != InvalidBuffer)
	{
		int cmp;

		if (known == known_end)
			report_chain(&walk);
		cmp = ht_entry_cmp(walk.low, hm_leaf_end(known->page));
		if (cmp > 0)
			report_chain(&walk);
		if (is_unchanged(move, known, buffer))
		{
			UnlockReleaseBuffer(buffer);
			note_leaf(move, known);
		}
		else
		{
			if (!catch_up_leaf(move, known->page, read_leaf(move, buffer), changed))
				return false;
			if (cmp == 0)
				pfree(known->page);
		}
		if (cmp == 0)
			known++;
		HM_FAULT(move_leaf_checked);
	}
	if (marked && walk.leaves != source->leaves)
		report_chain(&walk);
	*at = known;
	return true;
}

bool
hm_move_catch_up(HmMove *move, bool marked, uint32 *changed)
{
	HmCopiedLeaf *old = move->leaves;
	HmCopiedLeaf *end = old + move->leaf_count;
	HmCopiedLeaf *at = old;

	*changed = 0;
	move->leaf_room = move->leaf_count + 16;
	move->leaves = palloc(move->leaf_room * sizeof(HmCopiedLeaf));
	move->leaf_count = 0;
	for (int i = 0; i < move->source_count; i++)
	{
		if (!catch_up_source(move, &move->sources[i], marked, &at, end, changed))
			return false;
	}
	pfree(old);
	return true;
}

int
hm_segment_extents(Buffer header, HmExtent *extents)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(header));

	memcpy(extents, segment->extents, segment->extent_count * sizeof(HmExtent));
	return (int) segment->extent_count;
}

HmExtent *
hm_move_extents(HmMove *move, int *count)
{
	HmExtent *result = palloc(move->copy_count * HM_SEGMENT_MAX_EXTENTS * sizeof(HmExtent));

	*count = 0;
	for (int i = 0; i < move->copy_count; i++)
	{
		Buffer header = ReadBuffer(move->index, move->copies[i].block);

		LockBuffer(header, BUFFER_LOCK_SHARE);
		*count += hm_segment_extents(header, result + *count);
		UnlockReleaseBuffer(header);
	}
	return result;
}
