/*
 * insert.c
 *		Inserting entries, and the splits that make room for them.
 *
 * Algorithm 1 of the papers: an insert holds the segment header in share mode
 * (its share of the coarse lock) and its leaf exclusively (the fine lock).
 * Because splits need the header exclusively, the leaf found under the share
 * is the right one.  If the leaf is full, the insert lets go of everything,
 * makes room under the coarse lock, and starts again.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"

#include "am/am.h"
#include "compat.h"

/* Blocks of a segment added at the right end, and of an extent for splits. */
#define HM_MIN_EXTENT		4
#define HM_MAX_SPARE		128

/*
 * So many new entries for one leaf are merged with what is there and written
 * over the whole leaf: shifting one by one would change as many bytes.
 */
#define HM_MERGE_THRESHOLD	64

/* A leaf that is to be split and what is around it, all locked exclusively. */
typedef struct HmSplit
{
	Buffer		header;
	Buffer		leaf;
	HtWidth		width;
	HmPosition	position;		/* what found no room */
	int			count;			/* entries on the leaf */
	HtEntry		entries[HT_LEAF_MAX_ENTRIES];
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
		 * index_insert() looked for conflicting readers before.  One that
		 * came since has locked the index and not found the entry.
		 */
		CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
	}
	return false;
}

/* Entries of the run that belong on this leaf. */
static int64
entries_for_leaf(Page page, const HtEntry *entries, int64 n)
{
	int64		low = 0,
				high = n;

	if (!hm_page_has_high(page))
		return n;
	while (low < high)
	{
		int64		middle = low + (high - low) / 2;

		if (ht_entry_cmp(entries[middle], hm_page_special(page)->high) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Merge the first of n entries with what is on the locked leaf, as many as
 * fit, and write the leaf anew.  Returns how many were consumed.
 */
static int64
merge_into_leaf(Relation index, Buffer leaf, HtWidth width, const HtEntry *entries, int64 n)
{
	HtEntry		old[HT_LEAF_MAX_ENTRIES];
	HtEntry		merged[HT_LEAF_MAX_ENTRIES];
	int			capacity = ht_leaf_capacity(width);
	int			old_count = ht_leaf_read(BufferGetPage(leaf), width, old);
	int			i = 0,
				count = 0,
				old_left = old_count;
	int64		consumed = 0;
	GenericXLogState *state;

	/* Stop where what is left of the old entries just fits. */
	while (i < old_count || consumed < n)
	{
		int			cmp = i == old_count ? 1 : consumed == n ? -1 :
			ht_entry_cmp(old[i], entries[consumed]);

		if (cmp <= 0)
		{
			merged[count++] = old[i++];
			old_left--;
			if (cmp == 0)
				consumed++;
		}
		else if (count + old_left < capacity)
			merged[count++] = entries[consumed++];
		else
			n = consumed;
	}

	state = GenericXLogStart(index);
	ht_leaf_fill(GenericXLogRegisterBuffer(state, leaf, 0), width, merged, count);
	GenericXLogFinish(state);
	return consumed;
}

/* Insert entries into the locked leaf until it is full; returns how many. */
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
		MarkBufferDirty(leaf);
		hm_log_leaf_change(index, leaf, width, &change);
	}
	END_CRIT_SECTION();
	return i;
}

/* ----------------------------------------------------------------
 *		Making room
 * ----------------------------------------------------------------
 */

/* Blocks of a segment that can still be had without asking for more. */
static uint32
spare_blocks(const HmSegment *segment)
{
	uint32		result = segment->leaf_room - segment->pure_leaves - segment->tail_used;

	if (segment->extent_count > 1)
		result += segment->extents[segment->extent_count - 1].length - segment->spare_used;
	return result;
}

/* Take one of those.  The main extent's come from its end, to keep the
 * beginning for leaves that can go there by number. */
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

/* Give a segment another extent for its splits. */
static void
add_spare_extent(Relation index, BlockNumber header_block, uint64 stamp)
{
	Buffer		header;
	HmSegment  *segment;
	HmExtent	extent = {InvalidBlockNumber, HM_MIN_EXTENT};
	bool		added = false;

	hm_gate_enter(index);

	header = ReadBuffer(index, header_block);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	if (hm_page_is(BufferGetPage(header), HM_PAGE_SEGMENT))
	{
		segment = hm_page_segment(BufferGetPage(header));
		extent.length = Min(HM_MAX_SPARE, Max(HM_MIN_EXTENT, segment->leaves / 4));
	}
	LockBuffer(header, BUFFER_LOCK_UNLOCK);

	extent.start = hm_extent_allocate(index, extent.length);

	/* Somebody else may have done the same, or moved the segment. */
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	segment = hm_page_segment(BufferGetPage(header));
	if (hm_page_is(BufferGetPage(header), HM_PAGE_SEGMENT) &&
		segment->stamp == stamp &&
		!(segment->state & (HM_SEGMENT_DEAD | HM_SEGMENT_MOVING)) &&
		segment->extent_count < HM_SEGMENT_MAX_EXTENTS &&
		spare_blocks(segment) < 2)
	{
		GenericXLogState *state = GenericXLogStart(index);

		segment = hm_page_segment(GenericXLogRegisterBuffer(state, header, 0));
		segment->extents[segment->extent_count++] = extent;
		segment->spare_used = 0;
		GenericXLogFinish(state);
		added = true;
	}
	UnlockReleaseBuffer(header);
	if (!added)
		hm_extent_free(index, &extent, 1);
	hm_gate_leave(index);
}

/*
 * Blocks for a segment that is to grow with ascending inserts: a share of
 * the index, so that neither small indexes waste nor large ones have many
 * segments.
 */
static uint32
growth_blocks(Relation index)
{
	return Min(HM_SEGMENT_MAX_BLOCKS,
			   Max(HM_MIN_EXTENT, RelationGetNumberOfBlocks(index) / 8));
}

/* Write an empty segment that begins at low and reaches to the end of its part. */
static HmDirectoryEntry
write_empty_segment(Relation index, HmPosition low, HmExtent *extent)
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
	extent->start = hm_extent_allocate(index, extent->length);
	spec.start = extent->start;
	spec.stamp = hm_stamp_allocate(index);

	image = palloc((Size) BLCKSZ * (extent->length - spec.leaf_room + 1));
	pages = hm_segment_image(&spec, NULL, 0, image);
	hm_segment_write(index, spec.start, image, pages);
	pfree(image);

	entry.key = low.entry.key;
	entry.tid = low.entry.tid;
	entry.part = (uint64) low.part;
	entry.block = spec.start;
	return entry;
}

/* The first segment of a part. */
static void
create_first_segment(Relation index, HmPart part)
{
	HmPosition	low = hm_position(part, 0, 0);
	HmExtent	extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	bool		lost;

	hm_gate_enter(index);
	entry = write_empty_segment(index, low, &extent);
	hm_directory_begin(index, low, 1, &edit);
	lost = hm_directory_has_part(&edit, part);
	if (!lost)
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_directory_apply(&edit, state, false, &entry, 1);
		GenericXLogFinish(state);
	}
	hm_directory_end(&edit);
	if (lost)
		hm_extent_free(index, &extent, 1);
	hm_gate_leave(index);
}

/*
 * Add a segment to the right of the last one of a part, beginning at the
 * position, if that is still above all entries.
 */
static void
append_segment(Relation index, HmPosition position, BlockNumber header_block, uint64 stamp)
{
	HtWidth		width = hm_cache(index, false)->width;
	HmExtent	extent;
	HmDirectoryEntry entry;
	HmDirectoryEdit edit;
	Buffer		header;
	Page		page;
	bool		added = false;

	hm_gate_enter(index);
	entry = write_empty_segment(index, position, &extent);
	hm_directory_begin(index, position, 1, &edit);

	header = ReadBuffer(index, header_block);
	LockBuffer(header, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(header);
	if (hm_page_is(page, HM_PAGE_SEGMENT) &&
		hm_page_segment(page)->stamp == stamp &&
		!(hm_page_segment(page)->state & (HM_SEGMENT_DEAD | HM_SEGMENT_MOVING)) &&
		!hm_page_has_high(page))
	{
		HtEntry		end = {ht_key_max(width), HT_TID_MAX};
		HtEntry		entries[HT_LEAF_MAX_ENTRIES];
		Buffer		leaf = hm_segment_descend(index, header, end, true, NULL);
		int			n;

		LockBuffer(leaf, BUFFER_LOCK_EXCLUSIVE);
		hm_page_check(index, leaf, HM_PAGE_LEAF);
		n = ht_leaf_read(BufferGetPage(leaf), width, entries);
		if (n > 0 && ht_entry_cmp(entries[n - 1], position.entry) < 0)
		{
			GenericXLogState *state = GenericXLogStart(index);
			Page		leaf_page;

			hm_directory_apply(&edit, state, false, &entry, 1);
			page = GenericXLogRegisterBuffer(state, header, 0);
			hm_page_segment(page)->high = position.entry;
			hm_page_special(page)->flags |= HM_HAS_HIGH;
			leaf_page = GenericXLogRegisterBuffer(state, leaf, 0);
			hm_page_special(leaf_page)->high = position.entry;
			hm_page_special(leaf_page)->flags |= HM_HAS_HIGH;
			GenericXLogFinish(state);
			added = true;
		}
		UnlockReleaseBuffer(leaf);
	}
	UnlockReleaseBuffer(header);
	hm_directory_end(&edit);
	if (!added)
		hm_extent_free(index, &extent, 1);
	hm_gate_leave(index);
}

/*
 * Entries that stay on the leaf.  Ascending inserts leave it as full as a
 * build would; otherwise both halves get the same.
 */
static int
split_point(Relation index, const HmSplit *split, bool ascending)
{
	if (ascending)
		return Min(split->count, hm_leaf_target(index, split->width));
	return split->count / 2;
}

/* Write the two halves: left over the old leaf, right to a new page. */
static HtEntry
split_leaf(GenericXLogState *state, HmSplit *split, int keep, Buffer fresh)
{
	Page		left = GenericXLogRegisterBuffer(state, split->leaf, GENERIC_XLOG_FULL_IMAGE);
	Page		right = GenericXLogRegisterBuffer(state, fresh, GENERIC_XLOG_FULL_IMAGE);
	HmSpecial  *left_special = hm_page_special(left);
	HmSpecial  *right_special;
	HtEntry		bound = keep < split->count ? split->entries[keep] : split->position.entry;

	hm_page_init(right, HM_PAGE_LEAF, left_special->stamp, left_special->segment,
				 (HmPart) left_special->part);
	right_special = hm_page_special(right);
	right_special->low = bound;
	right_special->high = left_special->high;
	right_special->flags = left_special->flags;
	right_special->right = left_special->right;
	left_special->high = bound;
	left_special->flags |= HM_HAS_HIGH;
	left_special->right = BufferGetBlockNumber(fresh);

	ht_leaf_fill(left, split->width, split->entries, keep);
	ht_leaf_fill(right, split->width, split->entries + keep, split->count - keep);
	return bound;
}

static Buffer
fresh_buffer(Relation index, BlockNumber block)
{
	return ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_ZERO_AND_LOCK, NULL);
}

/*
 * Whether the segment's last leaf can be followed by the next one by number:
 * the main extent has a block for it, and the bottom node that it would hang
 * from is not shadowed.
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

/* Split the segment's last leaf; the new one takes the next leaf number. */
static void
split_appending(Relation index, HmSplit *split, bool ascending)
{
	HmSegment  *segment = hm_page_segment(BufferGetPage(split->header));
	uint32		number = segment->pure_leaves;
	uint32		node,
				offset,
				page_number;
	int			slot;
	Buffer		keys = InvalidBuffer;
	Buffer		fresh;
	GenericXLogState *state;
	Page		header_page,
				keys_page;
	HtEntry		bound;

	hm_segment_separator(segment, number, &node, &slot);
	page_number = hm_node_page(segment, split->width, node, &offset);
	if (page_number > 0)
	{
		keys = ReadBuffer(index, segment->key_base + page_number - 1);
		LockBuffer(keys, BUFFER_LOCK_EXCLUSIVE);
		hm_page_check(index, keys, HM_PAGE_KEYS);
	}
	fresh = fresh_buffer(index, segment->leaf_base + number);

	state = GenericXLogStart(index);
	header_page = GenericXLogRegisterBuffer(state, split->header, 0);
	keys_page = page_number > 0 ? GenericXLogRegisterBuffer(state, keys, 0) : header_page;
	bound = split_leaf(state, split, split_point(index, split, ascending), fresh);
	segment = hm_page_segment(header_page);
	segment->pure_leaves++;
	segment->leaves++;
	ht_node_set((char *) keys_page + offset, split->width, segment->fanout, slot, bound);
	GenericXLogFinish(state);

	UnlockReleaseBuffer(fresh);
	if (page_number > 0)
		UnlockReleaseBuffer(keys);
}

/* The bottom node whose child an entry belongs to. */
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
	}
	return node;
}

/* Make an auxiliary node with the children that a bottom node has by number. */
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

	hm_page_init(page, HM_PAGE_AUXILIARY, segment->stamp, BufferGetBlockNumber(header),
				 (HmPart) hm_page_special(BufferGetPage(header))->part);
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

/* Split a leaf in the middle; the new one hangs from an auxiliary node. */
static void
split_shadowing(Relation index, HmSplit *split, uint32 node, Buffer auxiliary, bool ascending)
{
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
		auxiliary = fresh_buffer(index, *shadow);
		page = GenericXLogRegisterBuffer(state, auxiliary, GENERIC_XLOG_FULL_IMAGE);
		fill_auxiliary(index, page, split->header, split->width, node);
	}

	fresh = fresh_buffer(index, take_spare(segment));
	segment->leaves++;
	bound = split_leaf(state, split, split_point(index, split, ascending), fresh);

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
	GenericXLogFinish(state);

	UnlockReleaseBuffer(fresh);
	UnlockReleaseBuffer(auxiliary);
}

/*
 * Make room in the leaf where the position belongs, by whatever way fits.
 * Does nothing if there is room by now; the caller tries again in any case.
 */
static void
make_room(Relation index, HmPosition position)
{
	HmSplit		split;
	HmSegment  *segment;
	Page		leaf_page;
	BlockNumber header_block;
	uint64		stamp;
	bool		last,
				ascending;

	split.header = hm_segment_enter_to_write(index, position, BUFFER_LOCK_EXCLUSIVE);
	if (!BufferIsValid(split.header))
		return;
	split.width = hm_cache(index, false)->width;
	split.position = position;
	segment = hm_page_segment(BufferGetPage(split.header));
	header_block = BufferGetBlockNumber(split.header);
	stamp = segment->stamp;

	split.leaf = hm_segment_descend(index, split.header, position.entry, false, NULL);
	LockBuffer(split.leaf, BUFFER_LOCK_EXCLUSIVE);
	hm_page_check(index, split.leaf, HM_PAGE_LEAF);
	leaf_page = BufferGetPage(split.leaf);
	split.count = ht_leaf_read(leaf_page, split.width, split.entries);

	last = !BlockNumberIsValid(hm_page_special(leaf_page)->right);
	ascending = last && !hm_page_has_high(leaf_page) && split.count > 0 &&
		ht_entry_cmp(split.entries[split.count - 1], position.entry) < 0;

	if (split.count < ht_leaf_capacity(split.width))
		 /* somebody else made room */ ;
	else if (last && can_append_leaf(segment))
		split_appending(index, &split, ascending);
	else if (ascending)
	{
		UnlockReleaseBuffer(split.leaf);
		UnlockReleaseBuffer(split.header);
		append_segment(index, position, header_block, stamp);
		return;
	}
	else
	{
		uint32		node = bottom_node(index, split.header, split.width, position.entry);
		BlockNumber shadow = hm_segment_auxiliaries(segment)[node - segment->bottom_start];
		Buffer		auxiliary = InvalidBuffer;
		bool		full = segment->leaves >= 2 * HM_SEGMENT_MAX_BLOCKS;
		bool		no_spare = spare_blocks(segment) < (BlockNumberIsValid(shadow) ? 1 : 2);

		if (BlockNumberIsValid(shadow))
		{
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
				hm_segment_move(index, header_block, stamp);
			else
				add_spare_extent(index, header_block, stamp);
			return;
		}
		split_shadowing(index, &split, node, auxiliary, ascending);
	}
	UnlockReleaseBuffer(split.leaf);
	UnlockReleaseBuffer(split.header);
}

void
hm_insert_sorted(Relation index, HmPart part, const HtEntry *entries, int64 n)
{
	int64		done = 0;

	while (done < n)
	{
		HmPosition	position = hm_position(part, entries[done].key, entries[done].tid);
		Buffer		header = hm_segment_enter_to_write(index, position, BUFFER_LOCK_SHARE);
		HtWidth		width = hm_cache(index, false)->width;
		Buffer		leaf;
		Page		page;
		int64		here,
					inserted;

		if (!BufferIsValid(header))
		{
			create_first_segment(index, part);
			continue;
		}

		leaf = hm_segment_descend(index, header, entries[done], false, NULL);
		LockBuffer(leaf, BUFFER_LOCK_EXCLUSIVE);
		hm_page_check(index, leaf, HM_PAGE_LEAF);
		page = BufferGetPage(leaf);

		here = n - done == 1 ? 1 : entries_for_leaf(page, entries + done, n - done);
		Assert(here > 0);
		if (here >= HM_MERGE_THRESHOLD)
			inserted = merge_into_leaf(index, leaf, width, entries + done, here);
		else
			inserted = insert_into_leaf(index, leaf, width, entries + done, here);
		UnlockReleaseBuffer(leaf);
		UnlockReleaseBuffer(header);

		done += inserted;
		if (inserted < here)
			make_room(index, hm_position(part, entries[done].key, entries[done].tid));
	}
}
