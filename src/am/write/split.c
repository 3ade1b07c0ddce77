/*
 * split.c
 *		Splits of leaves: under the header's exclusive lock, the coarse lock of Algorithm 1 of
 *		the papers.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/fault.h"
#include "am/marks.h"
#include "am/reader.h"
#include "am/write/insert.h"

/*
 * The last auxiliary node of a part gets new leaves at its end up to so many children.  The others
 * are for splits of these leaves, by keys that come late.  If they do not suffice, the segment is
 * moved, and its old extents stay free for long: with three fifths in place of two, the index of
 * counters that stood at 800 each, all of whose versions a snapshot kept, had 1,272 pages in place
 * of 887 (bench/dead.sh, "counters with a long reader").
 */
#define HM_AUXILIARY_APPENDS (HM_AUXILIARY_MAX * 2 / 5)

/*
 * Put a new leaf to the right of the leaf that is split.  When appending, it receives new
 * entries alone; otherwise the two leaves share split->entries.  "fresh" is the new
 * leaf's blank page, locked exclusively.  Both pages become part of the change.  Adds
 * the number of inserted entries to *inserted; returns the low bound of the new leaf.
 */
static HtEntry
split_leaf(Relation index, HmSplit *split, Buffer fresh, int64 *inserted)
{
	Page left = hm_change_page(split->leaf);
	Page right = hm_change_page(fresh);
	HtEntry low = split->bound;
	HtEntry high = hm_leaf_high(left);
	const HtEntry *upper = split->coming;
	HmLeafPlan plan;
	uint64 upper_count;

	if (split->append)
	{
		upper_count = (uint64) split->coming_count;
		if (hm_page_has_high(left))
			upper_count = (uint64) hm_entries_below(upper, split->coming_count, high);
		hm_plan_leaves(split->width, hm_fillfactor(index), hm_fillfactor(index), low,
					   hm_page_has_high(left) ? &high : NULL, upper, upper_count, split->step, 1,
					   &plan, &upper_count);
		*inserted += (int64) upper_count;
	}
	else
	{
		upper = split->entries + split->keep;
		plan.count = split->count - split->keep;
		plan.shape = hm_leaf_shape(split->width, low, hm_page_has_high(left) ? &high : NULL, upper,
								   plan.count, split->step);
		hm_leaf_fill(left,
					 hm_leaf_shape(split->width, hm_leaf_low(left), &low, split->entries,
								   split->keep, HM_STEP_UNKNOWN),
					 split->entries, split->keep);
		*inserted += split->merged;
	}

	hm_page_special(right)->kind = HM_PAGE_LEAF;
	hm_leaf_fill(right, plan.shape, upper, plan.count);
	hm_leaf_set_low(right, low);
	if (hm_page_has_high(left))
		hm_leaf_set_high(right, high);
	hm_page_special(right)->right = hm_page_special(left)->right;
	hm_leaf_set_high(left, low);
	hm_page_special(left)->right = BufferGetBlockNumber(fresh);

	/* All pages of the split are locked by now. */
	hm_mark_page(index, split->leaf, HM_ALL_LINES);
	hm_mark_page(index, fresh, HM_ALL_LINES);
	hm_mark_structure(index);
	return low;
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
		hm_report_damage(NULL, "block %u of index \"%s\" is in use twice", block,
						 RelationGetRelationName(index));
}

/*
 * Begin to use a block of the segment: give it a blank page and log that.  Returns the
 * buffer, locked exclusively.  The caller writes the contents into that page without
 * initialising it again: a page without LSN would be logged whole.
 */
static Buffer
fresh_buffer(Relation index, const HmSplit *split, Buffer other, BlockNumber block)
{
	Page header = BufferGetPage(split->header);
	Buffer buffer;

	check_not_locked(index, split, other, block);
	if (block == HM_METAPAGE_BLKNO || block >= RelationGetNumberOfBlocks(index))
		hm_report_damage(
			NULL, "segment at block %u of index \"%s\" refers to block %u, which is not its own",
			BufferGetBlockNumber(split->header), RelationGetRelationName(index), block);

	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_ZERO_AND_LOCK, NULL);
	START_CRIT_SECTION();
	hm_page_withdraw(BufferGetPage(buffer));
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
	uint32 next = segment->pure_leaves;

	if (next >= segment->leaf_room - segment->tail_used)
		return false;
	return next % segment->fanout == 0 ||
		   !BlockNumberIsValid(hm_segment_auxiliaries(segment)[next / segment->fanout]);
}

/*
 * The number of the bottom node below which an entry belongs.  The caller holds the
 * header's lock.
 * Errors: index_corrupted.
 */
static uint32
bottom_node(Relation index, Buffer header, HtWidth width, HtEntry entry)
{
	HmReader reader;
	uint32 node;

	hm_reader_begin(&reader, index, header, width, ReadBuffer);
	node = hm_reader_bottom(&reader, entry, false, NULL, NULL);
	hm_reader_end(&reader);
	return node;
}

/*
 * Where the leaf after a part's last one goes that cannot be the next numbered one.  If keys ascend
 * nearly, as times do, leaves before the last one are split, too, and shadow the last bottom node.
 * Then its auxiliary node gets the new leaf, as long as there is room for splits of the leaves
 * before.  To add a segment each time would waste most of the new extents.
 */
typedef enum AppendPlace
{
	APPEND_TO_AUXILIARY,
	APPEND_SEGMENT,      /* the main extent is full, or nothing is shadowed */
	APPEND_SMALL_SEGMENT /* the auxiliary node is full, so that the main extent is not */
} AppendPlace;

static AppendPlace
append_place(Relation index, const HmSplit *split)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(split->header));
	uint32 node = bottom_node(index, split->header, split->width, split->coming[0]);
	BlockNumber shadow = hm_segment_auxiliaries(segment)[node - segment->bottom_start];
	Buffer auxiliary;
	uint32 children;

	if (!BlockNumberIsValid(shadow))
		return APPEND_SEGMENT;
	check_not_locked(index, split, InvalidBuffer, shadow);
	auxiliary = ReadBuffer(index, shadow);
	LockBuffer(auxiliary, BUFFER_LOCK_SHARE);
	hm_auxiliary_check(index, auxiliary);
	children = hm_page_auxiliary(BufferGetPage(auxiliary))->count;
	UnlockReleaseBuffer(auxiliary);
	return children < HM_AUXILIARY_APPENDS ? APPEND_TO_AUXILIARY : APPEND_SMALL_SEGMENT;
}

/*
 * Split the segment's last leaf.  The new leaf becomes the next numbered one, so the
 * layout stays pure.  Returns how many entries were inserted.
 */
static int64
split_in_order(Relation index, HmSplit *split)
{
	int64 inserted = 0;
	HmSegment *segment = hm_page_segment(BufferGetPage(split->header));
	uint32 number = segment->pure_leaves;
	uint32 node, offset, page_number;
	int separator;
	Buffer keys = InvalidBuffer;
	Buffer fresh;
	Page header_page, keys_page;
	HtEntry bound;

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

	hm_change_begin(index);
	header_page = hm_change_page(split->header);
	keys_page = page_number > 0 ? hm_change_page(keys) : header_page;
	bound = split_leaf(index, split, fresh, &inserted);
	segment = hm_page_segment(header_page);
	segment->pure_leaves++;
	segment->leaves++;
	ht_node_set((char *) keys_page + offset, split->width, segment->fanout, separator, bound);
	HM_FAULT(split_in_order_changed);
	hm_change_finish();
	HM_FAULT(split_in_order_logged);

	UnlockReleaseBuffer(fresh);
	if (page_number > 0)
		UnlockReleaseBuffer(keys);
	return inserted;
}

/*
 * Make a blank page the auxiliary node of a bottom node, with the numbered leaves that
 * are its children.  The caller holds the header's exclusive lock.
 */
static void
fill_auxiliary(Relation index, Page page, Buffer header, HtWidth width, uint32 node)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(header));
	HmAuxiliary *auxiliary = hm_page_auxiliary(page);
	uint32 first = segment->child_region[node] - segment->nodes;
	uint32 count = Min(segment->fanout, segment->pure_leaves - first);
	HtEntry none = {0, 0};
	HmReader reader;
	const char *separators;

	hm_reader_begin(&reader, index, header, width, ReadBuffer);
	separators = hm_reader_node(&reader, node);
	hm_page_special(page)->kind = HM_PAGE_AUXILIARY;
	auxiliary->node = node;
	auxiliary->count = count;
	for (uint32 i = 0; i < count; i++)
	{
		HtEntry low = i == 0 ? none : ht_node_get(separators, width, segment->fanout, (int) i - 1);

		hm_auxiliary_set(auxiliary, (int) i, low, segment->leaf_base + first + i);
	}
	hm_reader_end(&reader);
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
	int64 inserted = 0;
	HmSegment *segment;
	BlockNumber *shadow;
	HmAuxiliary *children;
	Page page;
	Buffer fresh;
	HtEntry bound;
	int i;

	hm_change_begin(index);
	segment = hm_page_segment(hm_change_page(split->header));
	shadow = &hm_segment_auxiliaries(segment)[node - segment->bottom_start];
	if (BufferIsValid(auxiliary))
		page = hm_change_page(auxiliary);
	else
	{
		*shadow = hm_take_spare(segment);
		segment->auxiliaries++;
		auxiliary = fresh_buffer(index, split, InvalidBuffer, *shadow);
		page = hm_change_page(auxiliary);
		fill_auxiliary(index, page, split->header, split->width, node);
	}

	fresh = fresh_buffer(index, split, auxiliary, hm_take_spare(segment));
	segment->leaves++;
	bound = split_leaf(index, split, fresh, &inserted);

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
	hm_change_finish();
	HM_FAULT(split_shadow_logged);

	UnlockReleaseBuffer(fresh);
	UnlockReleaseBuffer(auxiliary);
	return inserted;
}

/*
 * Fill in split->entries: those of the leaf and the first of the new ones, at most as many as make
 * two leaves as full as a build does, or one full leaf, but at least one more than the leaf has.
 * Returns the shape that all of them would have in one leaf.
 *
 * The halves are never wider than the leaf would be as a whole, so each has room for half of the
 * entries.  New entries that a leaf with a soft bound cannot store are let in only if the first
 * one is such, and then the leaf has few enough for two that can store them (hm_begins_leaf()).
 *
 * Errors: index_corrupted.
 */
static HtLeafShape
merge_for_split(Relation index, HmSplit *split, Page leaf)
{
	HtLeafShape shape = ht_leaf_shape_of(leaf);
	HtEntry high = hm_leaf_high(leaf);
	HtEntry old[HT_LEAF_MAX_ENTRIES];
	int count =
		hm_leaf_read_checked(index, BufferGetBlockNumber(split->leaf), leaf, split->width, old);
	int tid_bytes, most;

	split->merged = split->coming_count;
	if (hm_page_has_high(leaf))
		split->merged = hm_entries_below(split->coming, split->merged, high);
	if (HM_SOFT_BOUNDS || !hm_page_has_high(leaf))
	{
		if (ht_leaf_fits_key(shape, split->coming[0].key))
			split->merged = hm_entries_below(split->coming, split->merged, hm_leaf_reach(shape));
		else
			shape = ht_leaf_shape(8 * (int) split->width, shape.tid_bytes, shape.base);
	}

	/* More than these cannot be merged. */
	split->merged = Min(split->merged, 2 * HT_LEAF_MAX_ENTRIES);

	/* Also of old entries: new leaves have TIDs with room for higher blocks, and so fewer slots. */
	tid_bytes =
		Max(hm_tid_bytes(old, (uint64) count), hm_tid_bytes(split->coming, (uint64) split->merged));
	shape.tid_bytes = (uint8) Max(shape.tid_bytes, tid_bytes);
	most = Max(2 * hm_leaf_fill_count(index, shape), ht_leaf_capacity(shape));
	split->count = hm_merge_entries(old, count, split->coming, &split->merged, Max(most, count + 1),
									split->entries);
	split->step = hm_key_step(split->entries, (uint64) split->count);
	return hm_leaf_shape(split->width, hm_leaf_low(leaf), hm_page_has_high(leaf) ? &high : NULL,
						 split->entries, split->count, split->step);
}

/* The distance of keys in a leaf. */
static HT_KEY
leaf_step(Page leaf)
{
	HtEntry entries[HT_LEAF_MAX_ENTRIES];

	return hm_key_step(entries, (uint64) ht_leaf_read(leaf, entries));
}

/*
 * Whether an entry for which a leaf has no room begins a new leaf to its right: that of the last
 * leaf of a part may, and one that is beyond the soft bound of another leaf.
 */
static bool
begins_leaf(Relation index, Page leaf, HtEntry entry)
{
	return (!hm_page_has_high(leaf) ||
			(HM_SOFT_BOUNDS && !ht_leaf_fits_key(ht_leaf_shape_of(leaf), entry.key))) &&
		   hm_begins_leaf(index, leaf, ht_leaf_count(leaf), entry);
}

void
hm_plan_split(Relation index, HtWidth width, Buffer leaf, const HtEntry *coming, int64 n,
			  HmSplit *split)
{
	Page page = BufferGetPage(leaf);

	split->leaf = leaf;
	split->width = width;
	split->coming = coming;
	split->coming_count = n;
	split->append = begins_leaf(index, page, coming[0]);
	if (split->append)
	{
		split->step = leaf_step(page);
		split->bound = hm_begun_bound(page, coming[0], split->step);
		return;
	}
	split->shape = merge_for_split(index, split, page);
	if (split->merged == 0)
		hm_page_no_progress(index, leaf);
	hm_choose_cut(split, page);
}

/*
 * Release what a split has locked.  The header comes first: those that wait for the leaf may look
 * for another one then, and would sleep if the header was locked still.
 */
static void
release_split(const HmSplit *split)
{
	UnlockReleaseBuffer(split->header);
	UnlockReleaseBuffer(split->leaf);
}

/*
 * Whether the leaf need not be split after all: it only has to become wider, or some of the entries
 * were in it already, so the others fit.
 */
static bool
fits_in_one_leaf(const HmSplit *split)
{
	return !split->append &&
		   hm_leaf_has_room(split->shape, !hm_page_has_high(BufferGetPage(split->leaf)),
							split->count, 0);
}

/*
 * Whether the new leaf begins a segment after this one.  Notes in *rest how long that may be: the
 * next segment will come to the same end as this one.
 */
static bool
begins_segment(Relation index, const HmSplit *split, HmSplitRest *rest)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(split->header));
	AppendPlace place;

	if (!split->append || hm_page_has_high(BufferGetPage(split->leaf)))
		return false;
	place = append_place(index, split);
	if (place == APPEND_TO_AUXILIARY)
		return false;
	rest->segment_blocks = HM_SEGMENT_MAX_BLOCKS;
	if (place == APPEND_SMALL_SEGMENT)
		rest->segment_blocks = Min(HM_SEGMENT_MAX_BLOCKS, segment->leaves + segment->leaves / 8);
	return true;
}

/*
 * Lock the auxiliary node of a bottom node; InvalidBuffer if there is none.  Errors:
 * index_corrupted.
 */
static Buffer
lock_auxiliary(Relation index, const HmSplit *split, BlockNumber block)
{
	Buffer auxiliary;

	if (!BlockNumberIsValid(block))
		return InvalidBuffer;
	check_not_locked(index, split, InvalidBuffer, block);
	auxiliary = ReadBuffer(index, block);
	LockBuffer(auxiliary, BUFFER_LOCK_EXCLUSIVE);
	hm_auxiliary_check(index, auxiliary);
	return auxiliary;
}

/*
 * Make the new leaf a child of an auxiliary node, unless the segment needs a movement or another
 * extent first, of which *rest tells.  Returns how many entries were inserted.
 */
static int64
shadow_or_wait(Relation index, HmSplit *split, bool has_worker, HmSplitRest *rest)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(split->header));
	uint32 node = bottom_node(index, split->header, split->width, split->coming[0]);
	BlockNumber shadow = hm_segment_auxiliaries(segment)[node - segment->bottom_start];
	bool no_spare = hm_spare_blocks(segment) < (BlockNumberIsValid(shadow) ? 1 : 2);
	Buffer auxiliary = lock_auxiliary(index, split, shadow);
	HmAuxiliary *children =
		BufferIsValid(auxiliary) ? hm_page_auxiliary(BufferGetPage(auxiliary)) : NULL;

	rest->urgency = hm_movement_urgency(segment, children, no_spare, has_worker);
	rest->wants_extent = no_spare && rest->urgency != HM_MOVE_NOW;
	if (rest->urgency != HM_MOVE_NOW && !no_spare)
		return split_shadowing(index, split, node, auxiliary);
	if (BufferIsValid(auxiliary))
		UnlockReleaseBuffer(auxiliary);
	return 0;
}

int64
hm_split(Relation index, Buffer header, bool has_worker, HmSplit *split, HmSplitRest *rest)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(header));
	bool last = !BlockNumberIsValid(hm_page_special(BufferGetPage(split->leaf))->right);
	int64 inserted = 0;

	*rest = (HmSplitRest){.segment = {BufferGetBlockNumber(header), segment->stamp},
						  .bound = split->bound,
						  .step = split->step};
	split->header = header;
	hm_segment_check(index, header, split->width);
	if (fits_in_one_leaf(split))
	{
		hm_rewrite_leaf(index, split->leaf, split->shape, split->entries, split->count);
		inserted = split->merged;
	}
	else if (last && can_append_leaf(segment))
		inserted = split_in_order(index, split);
	else if (!begins_segment(index, split, rest))
		inserted = shadow_or_wait(index, split, has_worker, rest);
	release_split(split);
	return inserted;
}

int64
hm_insert_under_header(Relation index, HtWidth width, Buffer header, Buffer leaf, bool has_worker,
					   const HtEntry *coming, int64 n, HmSplitRest *rest)
{
	Page page = BufferGetPage(leaf);
	int count = ht_leaf_count(page);
	int64 inserted = hm_insert_if_room(index, leaf, count, coming,
									   hm_entries_for_leaf(index, page, count, coming, n));
	HmSplit split;

	if (inserted == 0)
	{
		hm_plan_split(index, width, leaf, coming, n, &split);
		return hm_split(index, header, has_worker, &split, rest);
	}
	*rest = (HmSplitRest){0};
	UnlockReleaseBuffer(leaf);
	UnlockReleaseBuffer(header);
	return inserted;
}
