/*
 * checksegment.c
 *		harmonia_check() on segments: their headers against the directory, and their leaves
 *		against what the inner nodes say of them.
 */
#include "postgres.h"

#include "access/xact.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/inspect/checkstate.h"

/*
 * Find the directory entry that covers the position or, if none does, the next one; *next
 * becomes the position at which the entry after that begins.  The caller holds the
 * metapage's lock.  Returns false if there is neither.
 */
static bool
find_entry(HmCheck *check, const HmMeta *meta, HmPosition position, HmDirectoryEntry *entry,
		   HmPosition *next)
{
	const HmDirectoryEntry *entries = meta->root;
	uint32 count = meta->root_count;
	uint32 i = 0;
	Buffer buffer = InvalidBuffer;
	uint32 r = 0;
	bool found;

	if (meta->depth == 1)
	{
		while (r + 1 < count &&
			   hm_position_cmp(hm_directory_low(&meta->root[r + 1]), position) <= 0)
			r++;
	}
	for (;;)
	{
		if (meta->depth == 1)
		{
			buffer = ReadBuffer(check->index, meta->root[r].block);
			LockBuffer(buffer, BUFFER_LOCK_SHARE);
			hm_directory_check(check->index, buffer);
			entries = hm_page_directory(BufferGetPage(buffer))->entries;
			count = hm_page_directory(BufferGetPage(buffer))->count;
		}

		/*
		 * In its part, the entry that covers the position is the last one that is not
		 * above it.
		 */
		for (i = 0; i < count; i++)
		{
			if (i + 1 < count && hm_position_cmp(hm_directory_low(&entries[i + 1]), position) <= 0)
				continue;
			if (hm_position_cmp(hm_directory_low(&entries[i]), position) >= 0 ||
				entries[i].part == (uint64) position.part)
				break;
		}
		found = i < count;
		if (found)
		{
			*entry = entries[i];
			if (i + 1 < count)
				*next = hm_directory_low(&entries[i + 1]);
			else if (meta->depth == 1 && r + 1 < meta->root_count)
				*next = hm_directory_low(&meta->root[r + 1]);
			else
				*next = part_end(HM_PART_NULLS_HIGH);
		}
		if (BufferIsValid(buffer))
			UnlockReleaseBuffer(buffer);
		if (found || meta->depth == 0 || ++r == meta->root_count)
			return found;
	}
}

/*
 * Compare a header with the one that a new segment with as much room would be given.
 * That one is made here, so that the page's own numbers are not trusted.
 */
static void
check_layout(HmCheck *check, const HmSegment *segment)
{
	HmSegmentSpec spec = {0};
	HmLeafPlan plan = {ht_leaf_shape(8 * (int) check->width, HT_TID_BYTES, check->low.entry.key),
					   0};
	HmSegment *right;
	char *image;

	if (segment->leaf_room < 1 || segment->leaf_room >= HM_SEGMENT_MAX_BLOCKS)
		hm_corrupt(check, check->block, "the segment has room for %u leaves, which is out of range",
				   segment->leaf_room);
	if (segment->fanout != check->fanout)
		hm_corrupt(check, check->block, "the segment has fanout %u, but the index has %d",
				   segment->fanout, check->fanout);

	spec.width = check->width;
	spec.fanout = check->fanout;
	spec.part = check->part;
	spec.stamp = check->stamp;
	spec.start = check->block;
	spec.leaf_room = segment->leaf_room;
	spec.leaves = 1;
	image = palloc((Size) BLCKSZ * (hm_segment_blocks(spec.width, spec.fanout, spec.leaf_room) -
									spec.leaf_room + 1));
	hm_segment_image(&spec, check->low.entry, check->low.entry, &plan, NULL, image);
	right = hm_page_segment((Page) image);

#define CHECK_NUMBER(field, name) \
	if (segment->field != right->field) \
	hm_corrupt(check, check->block, name " is %u, must be %u", segment->field, right->field)

	CHECK_NUMBER(levels, "number of levels");
	CHECK_NUMBER(nodes, "number of inner nodes");
	CHECK_NUMBER(bottom_start, "first bottom node");
	CHECK_NUMBER(key_region_at, "offset of the key region");
	CHECK_NUMBER(nodes_here, "number of nodes on the header page");
	CHECK_NUMBER(nodes_per_page, "number of nodes on a key page");
	CHECK_NUMBER(key_base, "first key page");
	CHECK_NUMBER(leaf_base, "first leaf");
	CHECK_NUMBER(extents[0].start, "start of the main extent");
	CHECK_NUMBER(extents[0].length, "length of the main extent");
#undef CHECK_NUMBER

	/* Equation 1 needs these. */
	for (uint32 node = 0; node < segment->nodes; node++)
	{
		if (segment->child_region[node] != right->child_region[node])
			hm_corrupt(check, check->block, "prefix sum of node %u is %u, must be %u", node,
					   segment->child_region[node], right->child_region[node]);
	}
	pfree(image);
}

/* Check what of its room a segment uses. */
static void
check_use(HmCheck *check, const HmSegment *segment)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(check->index);

	if (segment->pure_leaves < 1 || segment->pure_leaves > segment->leaf_room ||
		segment->tail_used > segment->leaf_room - segment->pure_leaves)
		hm_corrupt(
			check, check->block,
			"%u leaves from the front and %u from the end are in use, but there is room for %u",
			segment->pure_leaves, segment->tail_used, segment->leaf_room);
	if (segment->extent_count < 1 || segment->extent_count > HM_SEGMENT_MAX_EXTENTS)
		hm_corrupt(check, check->block, "the segment has %u extents", segment->extent_count);
	for (uint32 i = 0; i < segment->extent_count; i++)
	{
		HmExtent extent = segment->extents[i];

		if (extent.length == 0 || extent.start == HM_METAPAGE_BLKNO || extent.start >= blocks ||
			extent.length > blocks - extent.start)
			hm_corrupt(check, check->block,
					   "extent %u, %u blocks from %u, is not within the %u blocks of the index", i,
					   extent.length, extent.start, blocks);
	}
	if (segment->spare_used >
		(segment->extent_count == 1 ? 0 : segment->extents[segment->extent_count - 1].length))
		hm_corrupt(check, check->block, "%u blocks of the last extent are in use, more than it has",
				   segment->spare_used);
}

/*
 * Enter the segment for a position: lock its header in share mode, and compare it with
 * the directory.  Fills in what *check says about the segment.  Returns InvalidBuffer
 * after the last segment.
 */
static Buffer
enter_segment(HmCheck *check, HmPosition position)
{
	Buffer meta_buffer = hm_meta_buffer(check->index, BUFFER_LOCK_SHARE);
	HmMeta *meta = hm_page_meta(BufferGetPage(meta_buffer));
	HmDirectoryEntry entry = {0};
	HmPosition next = {0};
	Buffer header;
	Page page;
	HmSegment *segment;

	if (!find_entry(check, meta, position, &entry, &next))
	{
		UnlockReleaseBuffer(meta_buffer);
		return InvalidBuffer;
	}
	hm_check_block(check, HM_METAPAGE_BLKNO, "segment", entry.block);
	header = ReadBuffer(check->index, entry.block);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	page = BufferGetPage(header);
	segment = hm_page_segment(page);

	check->block = entry.block;
	check->stamp = segment->stamp;
	check->part = (HmPart) entry.part;
	hm_check_page(check, entry.block, page, HM_PAGE_SEGMENT);
	if (check->stamp == 0 || check->stamp >= meta->next_stamp)
		hm_corrupt(check, entry.block,
				   "the segment has stamp " UINT64_FORMAT ", the next one is " UINT64_FORMAT,
				   check->stamp, meta->next_stamp);
	if (segment->state & HM_SEGMENT_DEAD)
		hm_corrupt(check, entry.block, "the directory refers to a segment that has been replaced");
	if ((segment->state & ~HM_SEGMENT_MOVING) != 0)
		hm_corrupt(check, entry.block, "the segment has unknown state 0x%X", segment->state);

	check->low = (HmPosition){hm_segment_low(page), check->part};
	check->has_high = hm_page_has_high(page);
	check->high =
		check->has_high ? (HmPosition){hm_segment_high(page), check->part} : part_end(check->part);
	if (!same_position(check->low, hm_directory_low(&entry)))
		hm_corrupt(check, entry.block, "the segment begins at %s, but the directory has %s for it",
				   hm_show_position(check->low), hm_show_position(hm_directory_low(&entry)));
	if ((uint32) check->stamp != entry.stamp)
		hm_corrupt(check, entry.block,
				   "the segment has stamp " UINT64_FORMAT ", but the directory refers to stamp %u",
				   check->stamp, entry.stamp);
	if (next.part == check->part)
	{
		if (!check->has_high)
			hm_corrupt(check, entry.block,
					   "the segment has no upper bound, but the next one begins at %s",
					   hm_show_position(next));
		if (!same_position(check->high, next))
			hm_corrupt(check, entry.block,
					   "the segment ends before %s, but the next one begins at %s",
					   hm_show_position(check->high), hm_show_position(next));
	}
	else if (check->has_high)
		hm_corrupt(check, entry.block,
				   "the segment ends before %s, but is the last one of its part",
				   hm_show_position(check->high));
	UnlockReleaseBuffer(meta_buffer);
	return header;
}

/* ----------------------------------------------------------------
 *		Leaves
 * ----------------------------------------------------------------
 */

/* Check an entry's TID: the table must have, or have had, a row there. */
static void
check_tid(HmCheck *check, BlockNumber block, uint64 tid)
{
	BlockNumber heap_block = (BlockNumber) (tid >> 16);

	if (!hm_tid_is_valid(tid))
		hm_corrupt(check, block, "an entry refers to row (%u,%u), which no table can have",
				   heap_block, (uint16) tid);
	if (check->heap_blocks == InvalidBlockNumber || heap_block < check->heap_blocks)
		return;

	/* The table may have grown since it was last asked. */
	check->heap_blocks = RelationGetNumberOfBlocks(check->heap);
	if (heap_block >= check->heap_blocks)
		hm_corrupt(check, block, "an entry refers to row (%u,%u), but the table has %u blocks",
				   heap_block, (uint16) tid, check->heap_blocks);
}

/*
 * Whether scans of this transaction leave out an entry of a leaf, by its hint.  For them a row that
 * has no other entry is lost.
 */
static bool
is_left_out(Page page, HtEntry entry)
{
	int slots = ht_leaf_slots(ht_leaf_shape_of(page));
	int slot;

	if (TransactionStartedDuringRecovery())
		return false;
	slot = ht_leaf_slot(page, entry);
	return slot >= 0 && (ht_leaf_hints(page, slot / slots) >> slot % slots & 1) != 0;
}

/* Verify the copy of leaf i, and add its entries to the bloom filter. */
static void
check_leaf(HmCheck *check, uint32 i, Page page)
{
	BlockNumber block = check->leaves[i].block;
	bool last = i == check->leaf_count - 1;
	HmPosition low = check->leaves[i].low;
	HmPosition high = last ? check->high : check->leaves[i + 1].low;
	BlockNumber right = last ? InvalidBlockNumber : check->leaves[i + 1].block;
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
	const char *problem;
	int count;
	bool hints = ht_leaf_has_hints(page);

	hm_check_page(check, block, page, HM_PAGE_LEAF);
	if (!same_position(hm_page_low(page), low))
		hm_corrupt(check, block, "the leaf begins at %s, but inner nodes have %s for it",
				   hm_show_position(hm_page_low(page)), hm_show_position(low));
	if (hm_page_has_high(page) != (!last || check->has_high))
		hm_corrupt(check, block,
				   hm_page_has_high(page) ?
					   "the leaf has an upper bound, but is the last one of its part" :
					   "the leaf has no upper bound");
	if (!same_position(hm_page_high(page), high))
		hm_corrupt(check, block, "the leaf ends before %s, but inner nodes have %s for its end",
				   hm_show_position(hm_page_high(page)), hm_show_position(high));
	if (hm_page_special(page)->right != right)
		hm_corrupt(check, block, "the right link is block %u, must be %u",
				   hm_page_special(page)->right, right);

	problem = hm_leaf_problem(page, check->width, entries, &count);
	if (problem != NULL)
	{
		hm_corrupt(check, block, "%s", problem);
		count = ht_leaf_read(page, entries);
	}
	for (int j = 0; j < count; j++)
	{
		HmPosition position = hm_position(check->part, entries[j].key, entries[j].tid);

		if (check->part != HM_PART_KEYS && entries[j].key != 0)
			hm_corrupt(check, block, "an entry for NULL has key %s", hm_show_key(entries[j].key));
		if (hm_position_cmp(position, low) < 0 || hm_position_cmp(position, high) >= 0)
			hm_corrupt(check, block, "entry %s is outside the leaf's bounds %s and %s",
					   hm_show_position(position), hm_show_position(low), hm_show_position(high));
		check_tid(check, block, entries[j].tid);
		if (check->filter != NULL && !(hints && is_left_out(page, entries[j])))
		{
			HmFingerprint fingerprint = {entries[j].key, entries[j].tid, check->part};

			bloom_add_element(check->filter, (unsigned char *) &fingerprint, sizeof(fingerprint));
		}
	}
}

/* The number of the leaf that covers a position of the segment. */
static uint32
find_leaf(HmCheck *check, HmPosition position)
{
	uint32 low = 1, middle, high = check->leaf_count;

	HM_BINARY_SEARCH(low, middle, high, hm_position_cmp(check->leaves[middle].low, position) <= 0);
	return low - 1;
}

/* Copy a leaf.  The caller holds the header's lock. */
static void
copy_leaf(HmCheck *check, BlockNumber block, Page to)
{
	Buffer buffer;

	hm_check_block(check, check->block, "leaf", block);
	buffer = ReadBufferExtended(check->index, MAIN_FORKNUM, block, RBM_NORMAL, check->strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(to, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/*
 * Verify the segment with this header, from a position on.  Stops early, but after at
 * least one leaf, if the segment has changed meanwhile.  The caller has locked the header
 * in share mode; it is released here.  Returns the position up to which the leaves have
 * been verified.
 */
static HmPosition
check_segment(HmCheck *check, Buffer header, HmPosition position)
{
	PGAlignedBlock leaf;
	HmPosition done;
	uint32 i;

	check_layout(check, hm_page_segment(BufferGetPage(header)));
	check_use(check, hm_page_segment(BufferGetPage(header)));
	check->copy = hm_segment_copy(check->index, header, check->width);
	hm_check_inner(check);

	i = find_leaf(check, position);
	for (;;)
	{
		copy_leaf(check, check->leaves[i].block, (Page) leaf.data);
		LockBuffer(header, BUFFER_LOCK_UNLOCK);

		CHECK_FOR_INTERRUPTS();
		check_leaf(check, i, (Page) leaf.data);
		done = hm_page_high((Page) leaf.data);
		if (++i == check->leaf_count)
			break;

		LockBuffer(header, BUFFER_LOCK_SHARE);
		if (memcmp(BufferGetPage(header), check->copy->header, BLCKSZ) != 0)
		{
			LockBuffer(header, BUFFER_LOCK_UNLOCK);
			break;
		}
	}
	ReleaseBuffer(header);
	return done;
}

void
hm_check_segments(HmCheck *check)
{
	HmPosition position = hm_position(HM_PART_NULLS_LOW, 0, 0);
	MemoryContext old_context;
	int64 done = 0;

	check->context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia check", ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(check->context);
	for (;;)
	{
		Buffer header = enter_segment(check, position);

		if (!BufferIsValid(header))
			break;
		position = check_segment(check, header, position);
		MemoryContextReset(check->context);
		hm_progress_segments(++done);
	}
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(check->context);
}
