/*
 * insert.c
 *		Inserting entries, and the splits that make room for them.
 *
 * Algorithm 1 of the papers: an insert holds the segment's header in share mode (its
 * share of the coarse lock) and the leaf exclusively (the fine lock).  Splits need the
 * header exclusively, so the leaf that was found under the share lock stays the right
 * one.  If the leaf is full, the insert releases both locks, makes room under the coarse
 * lock, and starts again.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"

#include "am/fault.h"
#include "am/internal.h"
#include "compat.h"
#include "device/device.h"

/*
 * The least blocks of a segment added at the right end and of an extent for splits; the
 * most of the latter.
 */
#define HM_MIN_EXTENT		4
#define HM_MAX_SPARE		128

/*
 * From so many new entries on, they are merged with the entries of the leaf and the whole
 * leaf is rewritten: to add them one by one would change as many bytes.
 */
#define HM_MERGE_THRESHOLD	128

/*
 * In a crowded leaf, each insertion pushes other entries through several blocks of the
 * leaf.  So a leaf that receives fewer than HM_CROWD entries is split when this share of
 * its slots is still free: to fill the last slots would cost more WAL than the split.
 */
#define HM_CROWD			8
#define HM_CROWDED_PERCENT	5

/*
 * An insert that so often in a row neither inserted an entry nor made room for one has
 * met a damaged index.  Faster backends do not explain it.
 */
#define HM_MAX_IDLE_ROUNDS	1000

/*
 * A leaf that is to be split, and what the split needs.  Both buffers are locked
 * exclusively.
 */
typedef struct HmSplit
{
	Buffer		header;
	Buffer		leaf;
	HtWidth		width;
	bool		append;			/* the new entries are above all of the part */
	const HtEntry *coming;		/* new entries of this part, in order */
	int64		coming_count;	/* at least one */
	int64		merged;			/* how many of them are in entries[] */
	int			count;			/* of entries[], which the two leaves share */
	HtEntry		entries[2 * HT_LEAF_MAX_ENTRIES];
} HmSplit;

bool
hm_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
		  Relation heap, IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	HtEntry		entry = {0, hm_tid_pack(tid)};
	HmPart		part = HM_PART_KEYS;

	if (isnull[0])
		part = hm_cache(index, false)->nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH;
	else
		entry.key = hm_key_type(index)->normalise(values[0]);

	if (!hm_batch_add(index, heap, info, check, part, entry))
	{
		hm_insert_sorted(index, part, &entry, 1);

		/*
		 * index_insert() looked for conflicting readers before the entry was in the
		 * index.  A reader that came between has locked the index and not found the
		 * entry.
		 */
		CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
	}
	return false;
}

/* The number of sorted entries that are below a bound. */
static int64
entries_below(const HtEntry *entries, int64 n, HtEntry bound)
{
	int64		low = 0,
				high = n;

	while (low < high)
	{
		int64		middle = low + (high - low) / 2;

		if (ht_entry_cmp(entries[middle], bound) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Whether a leaf with count entries is as full as a build makes it, and the new entry is
 * above all of them.  At the end of a part such an entry begins a new leaf, so that
 * ascending inserts leave the room that the fill factor asks for.
 */
static bool
is_above_full_leaf(Relation index, Page page, HtWidth width, int count, HtEntry entry)
{
	HtEntry		entries[HT_LEAF_MAX_ENTRIES];

	if (count < hm_leaf_target(index, width))
		return false;
	count = ht_leaf_read(page, width, entries);
	return ht_entry_cmp(entries[count - 1], entry) < 0;
}

/*
 * Whether a leaf with count entries should receive n more.  The last leaf of a part may
 * get full: ascending inserts push no entries.
 */
static bool
has_room(Page page, HtWidth width, int count, int64 n)
{
	int			capacity = ht_leaf_capacity(width);

	if (n < HM_CROWD && hm_page_has_high(page))
		capacity -= capacity * HM_CROWDED_PERCENT / 100;
	return count + n <= capacity;
}

/*
 * How many of n sorted entries, the first of which belongs in this leaf, should go into
 * it; the leaf has count entries. 0 means that they should have a new leaf to the right
 * of it.
 */
static int64
entries_for_leaf(Relation index, Page page, HtWidth width, int count,
				 const HtEntry *entries, int64 n)
{
	int64		free_slots;

	if (hm_page_has_high(page))
		return n == 1 ? 1 : entries_below(entries, n, hm_page_special(page)->high);
	if (is_above_full_leaf(index, page, width, count, entries[0]))
		return 0;

	/*
	 * Fill the last leaf as full as a build does, no further, so that the other entries
	 * can be appended.
	 */
	free_slots = hm_leaf_target(index, width) - count;
	return Min(n, Max(1, free_slots));
}

/*
 * Merge the entries of a leaf with the first of *n new ones, as many as make no more than
 * max together.  Returns the number of merged entries; *n becomes the number of new ones
 * among them, duplicates included.
 */
static int
merge_entries(const HtEntry *old, int old_count, const HtEntry *coming, int64 *n,
			  int max, HtEntry *merged)
{
	int64		end = *n;
	int64		consumed = 0;
	int			i = 0,
				count = 0;

	/* Stop where the rest of the old entries just fits. */
	while (i < old_count || consumed < end)
	{
		int			cmp = i == old_count ? 1 : consumed == end ? -1 :
			ht_entry_cmp(old[i], coming[consumed]);

		if (cmp <= 0)
		{
			merged[count++] = old[i++];
			if (cmp == 0)
				consumed++;
		}
		else if (count + (old_count - i) < max)
			merged[count++] = coming[consumed++];
		else
			end = consumed;
	}
	*n = consumed;
	return count;
}

/* Rewrite a leaf with these entries.  The caller has locked it exclusively. */
static void
rewrite_leaf(Relation index, Buffer leaf, HtWidth width, const HtEntry *entries, int count)
{
	GenericXLogState *state = GenericXLogStart(index);

	hm_device_mark_page(index, leaf, HM_ALL_LINES);
	ht_leaf_fill(GenericXLogRegisterBuffer(state, leaf, 0), width, entries, count);
	HM_FAULT(insert_merging);
	GenericXLogFinish(state);
	HM_FAULT(insert_merged);
}

/*
 * Merge the first of n entries, as many as fit, with those of the leaf, and rewrite the
 * leaf.  The caller has locked it exclusively.  Returns how many of the n are in the leaf
 * now.
 */
static int64
merge_into_leaf(Relation index, Buffer leaf, HtWidth width, const HtEntry *entries, int64 n)
{
	HtEntry		old[HT_LEAF_MAX_ENTRIES];
	HtEntry		merged[HT_LEAF_MAX_ENTRIES];
	int			old_count = ht_leaf_read(BufferGetPage(leaf), width, old);
	int			count = merge_entries(old, old_count, entries, &n,
									  ht_leaf_capacity(width), merged);

	rewrite_leaf(index, leaf, width, merged, count);
	return n;
}

/*
 * Insert entries into a leaf one by one, until it is full, with one WAL record.  The
 * caller has locked the leaf exclusively.  Returns how many of the n are in the leaf now.
 */
static int64
insert_into_leaf(Relation index, Buffer leaf, HtWidth width, const HtEntry *entries, int64 n)
{
	Page		page = BufferGetPage(leaf);
	HtLeafChange change = {0};
	bool		changed = false;
	int64		i;

	START_CRIT_SECTION();
	for (i = 0; i < n; i++)
	{
		HtInsertResult result = ht_leaf_insert(page, width, entries[i], &change);

		if (result == HT_FULL)
			break;
		if (result == HT_INSERTED)
			changed = true;
	}
	if (changed)
	{
		hm_device_mark_page(index, leaf, ht_leaf_change_lines(width, &change));
		MarkBufferDirty(leaf);
		HM_FAULT(insert_changed);
		hm_log_leaf_change(index, leaf, width, &change);
		HM_FAULT(insert_logged);
	}
	END_CRIT_SECTION();
	return i;
}

/*
 * Insert n entries, all of which belong in this leaf, if it has room for all of them
 * beside the count that it has.  The caller has locked it exclusively.  Returns how many
 * are in the leaf now; 0 if it has not enough room.
 */
static int64
insert_if_room(Relation index, Buffer leaf, HtWidth width, int count,
			   const HtEntry *entries, int64 n)
{
	if (n == 0 || !has_room(BufferGetPage(leaf), width, count, n))
		return 0;
	if (n >= HM_MERGE_THRESHOLD)
		return merge_into_leaf(index, leaf, width, entries, n);
	return insert_into_leaf(index, leaf, width, entries, n);
}

/* ----------------------------------------------------------------
 *		Making room
 * ----------------------------------------------------------------
 */

/* The number of unused blocks that a segment has for splits. */
static uint32
spare_blocks(const HmSegment *segment)
{
	uint32		result = segment->leaf_room - segment->pure_leaves - segment->tail_used;

	if (segment->extent_count > 1)
		result += segment->extents[segment->extent_count - 1].length - segment->spare_used;
	return result;
}

/*
 * Take one of these blocks.  Those of the main extent are taken from its end, so that its
 * beginning stays free for numbered leaves.
 */
static BlockNumber
take_spare(HmSegment *segment)
{
	Assert(spare_blocks(segment) > 0);
	if (segment->extent_count > 1 &&
		segment->spare_used < segment->extents[segment->extent_count - 1].length)
		return segment->extents[segment->extent_count - 1].start + segment->spare_used++;
	segment->tail_used++;
	return segment->leaf_base + segment->leaf_room - segment->tail_used;
}

/*
 * Give a segment another extent for its splits, unless another backend has done so or the
 * segment has been replaced.  The caller holds no buffer lock.
 */
static void
add_spare_extent(Relation index, HmSegmentName name)
{
	Buffer		header;
	HmSegment  *segment;
	HmExtent	extent = {InvalidBlockNumber, HM_MIN_EXTENT};
	bool		added = false;

	hm_allocation_lock(index);

	header = ReadBuffer(index, name.header);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	if (hm_page_is(BufferGetPage(header), HM_PAGE_SEGMENT))
	{
		segment = hm_page_segment(BufferGetPage(header));
		extent.length = Min(HM_MAX_SPARE, Max(HM_MIN_EXTENT, segment->leaves / 4));
	}
	LockBuffer(header, BUFFER_LOCK_UNLOCK);

	extent.start = hm_extent_allocate(index, extent.length, HM_EXTENT_FOR_FEW);
	HM_FAULT(spare_allocated);

	/* Another backend may have done the same, or moved the segment. */
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	segment = hm_page_segment(BufferGetPage(header));
	if (hm_page_is(BufferGetPage(header), HM_PAGE_SEGMENT) &&
		segment->stamp == name.stamp &&
		!(segment->state & (HM_SEGMENT_DEAD | HM_SEGMENT_MOVING)) &&
		segment->extent_count < HM_SEGMENT_MAX_EXTENTS &&
		spare_blocks(segment) < 2)
	{
		GenericXLogState *state = GenericXLogStart(index);

		segment = hm_page_segment(GenericXLogRegisterBuffer(state, header, 0));
		segment->extents[segment->extent_count++] = extent;
		segment->spare_used = 0;
		HM_FAULT(spare_changed);
		GenericXLogFinish(state);
		HM_FAULT(spare_logged);
		added = true;
	}
	UnlockReleaseBuffer(header);
	if (!added)
		hm_extent_free(index, &extent, 1);
	hm_allocation_unlock(index);
}

/*
 * The number of blocks for a segment that ascending inserts will fill: a share of the
 * index, so that small indexes do not waste space and large ones do not have many
 * segments.
 */
static uint32
growth_blocks(Relation index)
{
	return Min(HM_SEGMENT_MAX_BLOCKS,
			   Max(HM_MIN_EXTENT, RelationGetNumberOfBlocks(index) / 8));
}

/*
 * Write a segment that begins at low and reaches to the end of its part.  Its only leaf
 * gets the first of *n entries, as many as a build puts on a leaf; *n becomes their
 * number.  Returns the segment's directory entry, and its blocks in *extent.  The caller
 * holds the allocation lock and no buffer lock.
 */
static HmDirectoryEntry
write_last_segment(Relation index, HmPosition low, const HtEntry *entries, int64 *n,
				   HmExtent *extent)
{
	HmCache    *cache = hm_cache(index, false);
	HmSegmentSpec spec = {0};
	char	   *image;
	uint32		pages;
	HmDirectoryEntry entry = {0};

	spec.width = cache->width;
	spec.fanout = cache->fanout;
	spec.part = low.part;
	spec.low = low.entry;
	extent->length = growth_blocks(index);
	spec.leaf_room = hm_segment_room(spec.width, spec.fanout, extent->length);
	spec.leaves = 1;
	extent->start = hm_extent_allocate(index, extent->length, HM_EXTENT_FOR_SEGMENT);
	HM_FAULT(last_segment_allocated);
	spec.start = extent->start;
	spec.stamp = hm_stamp_allocate(index);

	*n = Min(*n, hm_leaf_target(index, spec.width));
	image = palloc((Size) BLCKSZ * (extent->length - spec.leaf_room + 1));
	pages = hm_segment_image(&spec, entries, (uint64) *n, image);
	hm_segment_write(index, spec.start, image, pages);
	pfree(image);

	entry.key = low.entry.key;
	entry.tid = low.entry.tid;
	entry.part = (uint64) low.part;
	entry.block = spec.start;
	entry.stamp = (uint32) spec.stamp;
	return entry;
}

/*
 * Add the first segment of a part, with the first of n entries.  Returns how many were
 * inserted: 0 if another backend has added one.
 */
static int64
create_first_segment(Relation index, HmPart part, const HtEntry *entries, int64 n)
{
	HmPosition	low = hm_position(part, 0, 0);
	HmExtent	extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	bool		lost;

	hm_allocation_lock(index);
	entry = write_last_segment(index, low, entries, &n, &extent);
	HM_FAULT(first_segment_written);
	hm_directory_begin(index, low, 1, &edit);
	lost = hm_directory_has_part(&edit, part);
	if (!lost)
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_directory_apply(&edit, state, 0, &entry, 1);
		hm_device_mark_blocks(index, extent.start, extent.length);
		hm_device_structure_changes(index);
		HM_FAULT(first_segment_changed);
		GenericXLogFinish(state);
		HM_FAULT(first_segment_logged);
	}
	hm_directory_end(&edit);
	if (lost)
		hm_extent_free(index, &extent, 1);
	hm_allocation_unlock(index);
	return lost ? 0 : n;
}

/*
 * Add a segment to the right of the last one of a part, with the first of n entries, if
 * these are still above all others.  "name" is the last segment.  Returns how many were
 * inserted.
 */
static int64
append_segment(Relation index, HmPart part, const HtEntry *coming, int64 n,
			   HmSegmentName name)
{
	HmPosition	position = hm_position(part, coming[0].key, coming[0].tid);
	HtWidth		width = hm_cache(index, false)->width;
	HmExtent	extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	Buffer		header;
	Page		page;
	bool		added = false;

	hm_allocation_lock(index);
	entry = write_last_segment(index, position, coming, &n, &extent);
	HM_FAULT(append_written);
	hm_directory_begin(index, position, 1, &edit);

	header = ReadBuffer(index, name.header);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(header);
	if (hm_page_is(page, HM_PAGE_SEGMENT) &&
		hm_page_segment(page)->stamp == name.stamp &&
		!(hm_page_segment(page)->state & (HM_SEGMENT_DEAD | HM_SEGMENT_MOVING)) &&
		!hm_page_has_high(page))
	{
		HtEntry		end = {ht_key_max(width), HT_TID_MAX};
		Buffer		leaf = hm_segment_descend(index, header, end, true, NULL);

		if (BufferIsValid(edit.page) &&
			BufferGetBlockNumber(leaf) == BufferGetBlockNumber(edit.page))
			hm_page_no_progress(index, leaf);
		LockBuffer(leaf, BUFFER_LOCK_EXCLUSIVE);
		hm_page_check(index, leaf, HM_PAGE_LEAF);
		if (is_above_full_leaf(index, BufferGetPage(leaf), width,
							   ht_leaf_count(BufferGetPage(leaf), width), coming[0]))
		{
			GenericXLogState *state = GenericXLogStart(index);
			Page		leaf_page;

			hm_directory_apply(&edit, state, 0, &entry, 1);
			page = GenericXLogRegisterBuffer(state, header, 0);
			hm_page_segment(page)->high = position.entry;
			hm_page_special(page)->flags |= HM_HAS_HIGH;
			leaf_page = GenericXLogRegisterBuffer(state, leaf, 0);
			hm_page_special(leaf_page)->high = position.entry;
			hm_page_special(leaf_page)->flags |= HM_HAS_HIGH;
			hm_device_mark_page(index, leaf, HM_ALL_LINES);
			hm_device_mark_blocks(index, extent.start, extent.length);
			hm_device_structure_changes(index);
			HM_FAULT(append_changed);
			GenericXLogFinish(state);
			HM_FAULT(append_logged);
			added = true;
		}
		UnlockReleaseBuffer(leaf);
	}
	UnlockReleaseBuffer(header);
	hm_directory_end(&edit);
	if (!added)
		hm_extent_free(index, &extent, 1);
	hm_allocation_unlock(index);
	return added ? n : 0;
}

/*
 * Put a new leaf to the right of the leaf that is split.  When appending, it receives new
 * entries alone; otherwise the two leaves share split->entries.  "fresh" is the new
 * leaf's blank page, locked exclusively.  Registers both pages with the WAL record.  Adds
 * the number of inserted entries to *inserted; returns the low bound of the new leaf.
 */
static HtEntry
split_leaf(Relation index, GenericXLogState *state, HmSplit *split, Buffer fresh,
		   int64 *inserted)
{
	Page		left = GenericXLogRegisterBuffer(state, split->leaf, 0);
	Page		right = GenericXLogRegisterBuffer(state, fresh, 0);
	HmSpecial  *left_special = hm_page_special(left);
	HmSpecial  *right_special;
	const HtEntry *upper = split->coming;
	int			upper_count;

	if (split->append)
	{
		upper_count = (int) Min(split->coming_count, hm_leaf_target(index, split->width));
		*inserted += upper_count;
	}
	else
	{
		int			keep = split->count / 2;

		upper = split->entries + keep;
		upper_count = split->count - keep;
		ht_leaf_fill(left, split->width, split->entries, keep);
		*inserted += split->merged;
	}

	right_special = hm_page_special(right);
	right_special->kind = HM_PAGE_LEAF;
	ht_leaf_fill(right, split->width, upper, upper_count);
	right_special->low = upper[0];
	right_special->high = left_special->high;
	right_special->flags = left_special->flags;
	right_special->right = left_special->right;
	left_special->high = upper[0];
	left_special->flags |= HM_HAS_HIGH;
	left_special->right = BufferGetBlockNumber(fresh);

	/* All pages of the split are locked by now. */
	hm_device_mark_page(index, split->leaf, HM_ALL_LINES);
	hm_device_mark_page(index, fresh, HM_ALL_LINES);
	hm_device_structure_changes(index);
	return upper[0];
}

/*
 * Check that a block to be locked is not one that the split has locked already, which
 * only a damaged header can cause.  "other" is one more locked buffer, or InvalidBuffer.
 * Errors: index_corrupted.
 */
static void
check_not_locked(Relation index, const HmSplit *split, Buffer other, BlockNumber block)
{
	if (block == BufferGetBlockNumber(split->header) ||
		block == BufferGetBlockNumber(split->leaf) ||
		(BufferIsValid(other) && block == BufferGetBlockNumber(other)))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("block %u of index \"%s\" is in use twice",
						block, RelationGetRelationName(index)),
				 errhint("Please REINDEX it.")));
}

/*
 * Begin to use a block of the segment: give it a blank page and log that.  Returns the
 * buffer, locked exclusively.  The caller writes the contents into that page without
 * initialising it again: a page without LSN would be logged whole.
 */
static Buffer
fresh_buffer(Relation index, const HmSplit *split, Buffer other, BlockNumber block)
{
	Page		header = BufferGetPage(split->header);
	Buffer		buffer;

	check_not_locked(index, split, other, block);
	if (block == HM_METAPAGE_BLKNO || block >= RelationGetNumberOfBlocks(index))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("segment at block %u of index \"%s\" refers to block %u, which is not its own",
						BufferGetBlockNumber(split->header), RelationGetRelationName(index), block),
				 errhint("Please REINDEX it.")));

	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_ZERO_AND_LOCK, NULL);
	START_CRIT_SECTION();
	hm_page_init(BufferGetPage(buffer), HM_PAGE_SPARE, hm_page_segment(header)->stamp,
				 BufferGetBlockNumber(split->header), (HmPart) hm_page_special(header)->part);
	MarkBufferDirty(buffer);
	HM_FAULT(split_blank_changed);
	hm_log_blank_page(index, buffer);
	HM_FAULT(split_blank_logged);
	END_CRIT_SECTION();
	return buffer;
}

/*
 * Whether the leaf after the segment's last one can be the next numbered leaf: the main
 * extent has a block for it, and its bottom node is not shadowed.
 */
static bool
can_append_leaf(HmSegment *segment)
{
	uint32		next = segment->pure_leaves;

	if (next >= segment->leaf_room - segment->tail_used)
		return false;
	return next % segment->fanout == 0 ||
		!BlockNumberIsValid(hm_segment_auxiliaries(segment)[next / segment->fanout]);
}

/*
 * Split the segment's last leaf.  The new leaf becomes the next numbered one, so the
 * layout stays pure.  Returns how many entries were inserted.
 */
static int64
split_in_order(Relation index, HmSplit *split)
{
	int64		inserted = 0;
	HmSegment  *segment = hm_page_segment(BufferGetPage(split->header));
	uint32		number = segment->pure_leaves;
	uint32		node,
				offset,
				page_number;
	int			separator;
	Buffer		keys = InvalidBuffer;
	Buffer		fresh;
	GenericXLogState *state;
	Page		header_page,
				keys_page;
	HtEntry		bound;

	hm_segment_separator(segment, number, &node, &separator);
	page_number = hm_node_page(segment, split->width, node, &offset);
	if (page_number > 0)
	{
		check_not_locked(index, split, InvalidBuffer, segment->key_base + page_number - 1);
		keys = ReadBuffer(index, segment->key_base + page_number - 1);
		LockBuffer(keys, BUFFER_LOCK_EXCLUSIVE);
		hm_page_check(index, keys, HM_PAGE_KEYS);
	}
	fresh = fresh_buffer(index, split, keys, segment->leaf_base + number);

	state = GenericXLogStart(index);
	header_page = GenericXLogRegisterBuffer(state, split->header, 0);
	keys_page = page_number > 0 ? GenericXLogRegisterBuffer(state, keys, 0) : header_page;
	bound = split_leaf(index, state, split, fresh, &inserted);
	segment = hm_page_segment(header_page);
	segment->pure_leaves++;
	segment->leaves++;
	ht_node_set((char *) keys_page + offset, split->width, segment->fanout, separator, bound);
	HM_FAULT(split_in_order_changed);
	GenericXLogFinish(state);
	HM_FAULT(split_in_order_logged);

	UnlockReleaseBuffer(fresh);
	if (page_number > 0)
		UnlockReleaseBuffer(keys);
	return inserted;
}

/*
 * The number of the bottom node below which an entry belongs.  The caller holds the
 * header's lock.
 * Errors: index_corrupted.
 */
static uint32
bottom_node(Relation index, Buffer header, HtWidth width, HtEntry entry)
{
	HmSegment  *segment = hm_page_segment(BufferGetPage(header));
	uint32		node = 0;

	while (node < segment->bottom_start)
	{
		uint32		offset;
		uint32		page_number = hm_node_page(segment, width, node, &offset);
		Buffer		buffer = header;

		if (page_number > 0)
			buffer = ReadBuffer(index, segment->key_base + page_number - 1);
		node = segment->child_region[node] +
			ht_node_count_le((char *) BufferGetPage(buffer) + offset, width,
							 segment->fanout, entry);
		if (page_number > 0)
			ReleaseBuffer(buffer);

		/*
		 * The descent to the leaf has passed here, so the numbers ascend; but they may be
		 * too large.
		 */
		if (node >= segment->nodes)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("segment at block %u of index \"%s\" refers to inner node %u of %u",
							BufferGetBlockNumber(header), RelationGetRelationName(index),
							node, segment->nodes),
					 errhint("Please REINDEX it.")));
	}
	return node;
}

/*
 * Make a blank page the auxiliary node of a bottom node, with the numbered leaves that
 * are its children.  The caller holds the header's exclusive lock.
 */
static void
fill_auxiliary(Relation index, Page page, Buffer header, HtWidth width, uint32 node)
{
	HmSegment  *segment = hm_page_segment(BufferGetPage(header));
	HmAuxiliary *auxiliary = hm_page_auxiliary(page);
	uint32		first = segment->child_region[node] - segment->nodes;
	uint32		count = Min(segment->fanout, segment->pure_leaves - first);
	uint32		offset;
	uint32		page_number = hm_node_page(segment, width, node, &offset);
	Buffer		buffer = header;
	HtEntry		none = {0, 0};

	hm_page_special(page)->kind = HM_PAGE_AUXILIARY;
	auxiliary->node = node;
	auxiliary->count = count;
	if (page_number > 0)
		buffer = ReadBuffer(index, segment->key_base + page_number - 1);
	for (uint32 i = 0; i < count; i++)
	{
		HtEntry		low = i == 0 ? none :
			ht_node_get((char *) BufferGetPage(buffer) + offset, width,
						segment->fanout, (int) i - 1);

		hm_auxiliary_set(auxiliary, (int) i, low, segment->leaf_base + first + i);
	}
	if (page_number > 0)
		ReleaseBuffer(buffer);
}

/*
 * Split any leaf, below this bottom node.  The new leaf becomes a child of the node's
 * auxiliary node, which the caller has locked exclusively; if auxiliary is InvalidBuffer,
 * it is made.  The segment has enough spare blocks.  Releases the auxiliary node.
 * Returns how many entries were inserted.
 */
static int64
split_shadowing(Relation index, HmSplit *split, uint32 node, Buffer auxiliary)
{
	int64		inserted = 0;
	GenericXLogState *state = GenericXLogStart(index);
	Page		header_page = GenericXLogRegisterBuffer(state, split->header, 0);
	HmSegment  *segment = hm_page_segment(header_page);
	BlockNumber *shadow = &hm_segment_auxiliaries(segment)[node - segment->bottom_start];
	HmAuxiliary *children;
	Page		page;
	Buffer		fresh;
	HtEntry		bound;
	int			i;

	if (BufferIsValid(auxiliary))
		page = GenericXLogRegisterBuffer(state, auxiliary, 0);
	else
	{
		*shadow = take_spare(segment);
		segment->auxiliaries++;
		auxiliary = fresh_buffer(index, split, InvalidBuffer, *shadow);
		page = GenericXLogRegisterBuffer(state, auxiliary, 0);
		fill_auxiliary(index, page, split->header, split->width, node);
	}

	fresh = fresh_buffer(index, split, auxiliary, take_spare(segment));
	segment->leaves++;
	bound = split_leaf(index, state, split, fresh, &inserted);

	children = hm_page_auxiliary(page);
	i = hm_auxiliary_child(children, bound, true) + 1;
	memmove(&children->keys[i + 1], &children->keys[i],
			(children->count - i) * sizeof(children->keys[0]));
	memmove(&children->tids[i + 1], &children->tids[i],
			(children->count - i) * sizeof(children->tids[0]));
	memmove(&children->children[i + 1], &children->children[i],
			(children->count - i) * sizeof(children->children[0]));
	children->count++;
	hm_auxiliary_set(children, i, bound, BufferGetBlockNumber(fresh));
	HM_FAULT(split_shadow_changed);
	GenericXLogFinish(state);
	HM_FAULT(split_shadow_logged);

	UnlockReleaseBuffer(fresh);
	UnlockReleaseBuffer(auxiliary);
	return inserted;
}

/*
 * Fill in split->entries: those of the leaf and the first of the new ones, at most as
 * many as make two leaves as full as a build does, but at least one more than fit on one
 * leaf.
 */
static void
merge_for_split(Relation index, HmSplit *split, Page leaf)
{
	HtEntry		old[HT_LEAF_MAX_ENTRIES];
	int			count = ht_leaf_read(leaf, split->width, old);
	int			max = Max(2 * hm_leaf_target(index, split->width),
						  ht_leaf_capacity(split->width) + 1);

	split->merged = split->coming_count;
	if (hm_page_has_high(leaf))
		split->merged = entries_below(split->coming, split->merged,
									  hm_page_special(leaf)->high);
	split->count = merge_entries(old, count, split->coming, &split->merged, max,
								 split->entries);
}

/*
 * Make room for the first of n entries: in the leaf in which it belongs, or by a new
 * leaf, a new segment, a further extent or a movement.  Inserts as many as fit.  Returns
 * how many were inserted, perhaps 0; the caller tries again with the others.  The caller
 * holds no buffer lock.
 */
static int64
make_room(Relation index, HmPart part, const HtEntry *coming, int64 n)
{
	HmSplit		split;
	HmSegment  *segment;
	Page		leaf_page;
	HmSegmentName name;
	int			count;
	bool		last;
	int64		inserted;

	split.header = hm_segment_enter_to_write(index,
											 hm_position(part, coming[0].key, coming[0].tid),
											 BUFFER_LOCK_EXCLUSIVE);
	if (!BufferIsValid(split.header))
		return 0;
	split.width = hm_cache(index, false)->width;
	split.coming = coming;
	split.coming_count = n;
	segment = hm_page_segment(BufferGetPage(split.header));
	name.header = BufferGetBlockNumber(split.header);
	name.stamp = segment->stamp;

	split.leaf = hm_segment_descend(index, split.header, coming[0], false, NULL);
	LockBuffer(split.leaf, BUFFER_LOCK_EXCLUSIVE);
	hm_page_check(index, split.leaf, HM_PAGE_LEAF);
	leaf_page = BufferGetPage(split.leaf);
	hm_leaf_check(index, split.leaf, split.width);

	/*
	 * The first of several backends that found the leaf full has made room for the
	 * others.  With many clients at the right end of the index, every split has others.
	 */
	count = ht_leaf_count(leaf_page, split.width);
	inserted = insert_if_room(index, split.leaf, split.width, count, coming,
							  entries_for_leaf(index, leaf_page, split.width, count, coming, n));
	if (inserted > 0)
	{
		UnlockReleaseBuffer(split.leaf);
		UnlockReleaseBuffer(split.header);
		return inserted;
	}

	last = !BlockNumberIsValid(hm_page_special(leaf_page)->right);
	split.append = !hm_page_has_high(leaf_page) &&
		is_above_full_leaf(index, leaf_page, split.width, count, coming[0]);

	if (!split.append)
	{
		merge_for_split(index, &split, leaf_page);
		if (split.merged == 0)
			hm_page_no_progress(index, split.leaf);
	}

	if (!split.append && has_room(leaf_page, split.width, split.count, 0))
	{
		/* Some of the entries were in the leaf already, so the others fit. */
		rewrite_leaf(index, split.leaf, split.width, split.entries, split.count);
		inserted = split.merged;
	}
	else if (last && can_append_leaf(segment))
		inserted = split_in_order(index, &split);
	else if (split.append)
	{
		UnlockReleaseBuffer(split.leaf);
		UnlockReleaseBuffer(split.header);
		return append_segment(index, part, coming, n, name);
	}
	else
	{
		uint32		node = bottom_node(index, split.header, split.width, coming[0]);
		BlockNumber shadow = hm_segment_auxiliaries(segment)[node - segment->bottom_start];
		Buffer		auxiliary = InvalidBuffer;
		bool		full = segment->leaves >= 2 * HM_SEGMENT_MAX_BLOCKS;
		bool		no_spare = spare_blocks(segment) < (BlockNumberIsValid(shadow) ? 1 : 2);

		if (BlockNumberIsValid(shadow))
		{
			check_not_locked(index, &split, InvalidBuffer, shadow);
			auxiliary = ReadBuffer(index, shadow);
			LockBuffer(auxiliary, BUFFER_LOCK_EXCLUSIVE);
			hm_page_check(index, auxiliary, HM_PAGE_AUXILIARY);
			if (hm_page_auxiliary(BufferGetPage(auxiliary))->count == HM_AUXILIARY_MAX)
				full = true;
		}
		if (no_spare && segment->extent_count == HM_SEGMENT_MAX_EXTENTS)
			full = true;

		if (full || no_spare)
		{
			if (BufferIsValid(auxiliary))
				UnlockReleaseBuffer(auxiliary);
			UnlockReleaseBuffer(split.leaf);
			UnlockReleaseBuffer(split.header);
			if (full)
				hm_segments_move(index, &name, 1, false, NULL);
			else
				add_spare_extent(index, name);
			return 0;
		}
		inserted = split_shadowing(index, &split, node, auxiliary);
	}
	UnlockReleaseBuffer(split.leaf);
	UnlockReleaseBuffer(split.header);
	return inserted;
}

void
hm_insert_sorted(Relation index, HmPart part, const HtEntry *entries, int64 n)
{
	int			idle = 0;

	while (n > 0)
	{
		int64		n_before = n;
		HmPosition	position = hm_position(part, entries[0].key, entries[0].tid);
		Buffer		header = hm_segment_enter_to_write(index, position, BUFFER_LOCK_SHARE);
		HtWidth		width = hm_cache(index, false)->width;
		Buffer		leaf;
		Page		page;
		int			count;
		int64		here,
					inserted;

		if (!BufferIsValid(header))
		{
			inserted = create_first_segment(index, part, entries, n);
			entries += inserted;
			n -= inserted;
			continue;
		}

		leaf = hm_segment_descend(index, header, entries[0], false, NULL);
		LockBuffer(leaf, BUFFER_LOCK_EXCLUSIVE);
		hm_page_check(index, leaf, HM_PAGE_LEAF);
		page = BufferGetPage(leaf);

		count = ht_leaf_count(page, width);
		here = entries_for_leaf(index, page, width, count, entries, n);
		if ((here == 0 && hm_page_has_high(page)) ||
			idle == HM_MAX_IDLE_ROUNDS)
			hm_page_no_progress(index, leaf);
		inserted = insert_if_room(index, leaf, width, count, entries, here);
		UnlockReleaseBuffer(leaf);
		UnlockReleaseBuffer(header);

		entries += inserted;
		n -= inserted;
		if (n > 0)
			HM_FAULT(batch_leaf_done);
		if (here == 0 || inserted < here)
		{
			HM_FAULT(insert_leaf_full);
			inserted = make_room(index, part, entries, n);
			entries += inserted;
			n -= inserted;
		}
		idle = n < n_before ? 0 : idle + 1;
	}
}
