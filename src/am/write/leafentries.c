/*
 * leafentries.c
 *		What changes the entries of one leaf, and decides how many it gets.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/marks.h"
#include "am/write/insert.h"

/*
 * From so many new entries on, they are merged with the entries of the leaf and the whole
 * leaf is rewritten: to add them one by one would change as many bytes.
 */
#define HM_MERGE_THRESHOLD 128

/*
 * In a crowded leaf, each insertion pushes other entries through several blocks of the
 * leaf.  So a leaf that receives fewer than HM_CROWD entries is split when this share of
 * its slots is still free: to fill the last slots would cost more WAL than the split.  A single
 * entry whose block has a free slot pushes none, and gets that (hm_add_to_leaf()).
 */
#define HM_CROWD 8
#define HM_CROWDED_PERCENT 5

int64
hm_entries_below(const HtEntry *entries, int64 n, HtEntry bound)
{
	int64 low = 0, middle, high = n;

	HM_BINARY_SEARCH(low, middle, high, ht_entry_cmp(entries[middle], bound) < 0);
	return low;
}

bool
hm_leaf_greatest(Page page, HtEntry *entry)
{
	int block = ht_leaf_blocks(ht_leaf_shape_of(page)) - 1;
	int count;

	while (block > 0 && ht_leaf_block_count(page, block) == 0)
		block--;
	count = ht_leaf_block_count(page, block);
	for (int i = 0; i < count; i++)
	{
		HtEntry other = ht_leaf_entry(page, block, i);

		if (i == 0 || ht_entry_cmp(other, *entry) > 0)
			*entry = other;
	}
	return count > 0;
}

bool
hm_begins_leaf(Relation index, Page page, int count, HtEntry entry)
{
	HtEntry greatest;
	HtLeafShape shape = ht_leaf_shape_of(page);
	int enough = hm_leaf_fill_count(index, shape);

	if (!ht_leaf_fits_key(shape, entry.key))
	{
		/*
		 * With the entry, each half of the leaf must have room in a leaf as wide as any, whatever
		 * its TIDs.
		 */
		HtLeafShape widest = ht_leaf_shape(HM_KEYS, HT_TID_BYTES, shape.base);

		enough = Min((enough + 1) / 2, 2 * ht_leaf_capacity(widest));
	}
	return count >= enough && hm_leaf_greatest(page, &greatest) &&
		   ht_entry_cmp(greatest, entry) < 0;
}

HtEntry
hm_begun_bound(Page page, HtEntry entry, HT_KEY step)
{
	HtLeafShape shape = ht_leaf_shape_of(page);
	HtEntry bound = {0, 0};

	if (!HM_SOFT_BOUNDS && ht_leaf_fits_key(shape, entry.key))
		return entry;
	(void) hm_leaf_greatest(page, &bound);
	if (HM_SOFT_BOUNDS)
		return hm_bound_below(bound, entry, step, ht_leaf_capacity(shape));
	bound.tid++;
	return bound;
}

bool
hm_leaf_has_room(HtLeafShape shape, bool is_last, int count, int64 n)
{
	int capacity = ht_leaf_capacity(shape);

	if (n < HM_CROWD && !is_last)
		capacity -= capacity * HM_CROWDED_PERCENT / 100;
	return count + n <= capacity;
}

/*
 * How many of n sorted entries, of which there is one, are not beyond what a leaf of a shape can
 * store.
 */
static int64
entries_in_reach(HtLeafShape shape, const HtEntry *entries, int64 n)
{
	if (ht_leaf_fits_key(shape, entries[n - 1].key))
		return n;
	return hm_entries_below(entries, n, hm_leaf_reach(shape));
}

int64
hm_entries_for_leaf(Relation index, Page page, int count, const HtEntry *entries, int64 n)
{
	HtLeafShape shape = ht_leaf_shape_of(page);
	HtEntry greatest;
	int64 free_slots;

	if (hm_page_has_high(page))
	{
		if (n > 1)
			n = hm_entries_below(entries, n, hm_leaf_high(page));
		return HM_SOFT_BOUNDS ? entries_in_reach(shape, entries, n) : n;
	}
	if (hm_begins_leaf(index, page, count, entries[0]))
		return 0;

	/*
	 * Fill the last leaf as full as a build does, no further, so that the other entries
	 * can be appended.  Those below its greatest entry have no other place.
	 */
	free_slots = hm_leaf_fill_count(index, shape) - count;
	if (free_slots <= 0 && n > 1 && hm_leaf_greatest(page, &greatest))
	{
		free_slots = ht_leaf_capacity(shape) - count;
		n = hm_entries_below(entries, n, greatest);
	}
	return entries_in_reach(shape, entries, Max(1, Min(n, free_slots)));
}

HtEntry
hm_leaf_reach(HtLeafShape shape)
{
	HT_KEY most = ht_class_max(shape.bits);
	HtEntry reach = {KEY_MAX, HT_TID_MAX};

	if (KEY_MAX - most >= shape.base)
		reach.key = shape.base + most;
	return reach;
}

int
hm_merge_entries(const HtEntry *old, int old_count, const HtEntry *coming, int64 *n, int max,
				 HtEntry *merged)
{
	int64 end = *n;
	int64 consumed = 0;
	int i = 0, count = 0;

	/* Stop where the rest of the old entries just fits. */
	while (i < old_count || consumed < end)
	{
		int cmp = i == old_count  ? 1 :
				  consumed == end ? -1 :
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

void
hm_rewrite_leaf(Relation index, Buffer leaf, HtLeafShape shape, const HtEntry *entries, int count)
{
	GenericXLogState *state = GenericXLogStart(index);

	hm_mark_page(index, leaf, HM_ALL_LINES);
	hm_leaf_fill(GenericXLogRegisterBuffer(state, leaf, 0), shape, entries, count);
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
merge_into_leaf(Relation index, Buffer leaf, const HtEntry *entries, int64 n)
{
	HtLeafShape shape = ht_leaf_shape_of(BufferGetPage(leaf));
	HtEntry old[HT_LEAF_MAX_ENTRIES];
	HtEntry merged[HT_LEAF_MAX_ENTRIES];
	int old_count = ht_leaf_read(BufferGetPage(leaf), old);
	int count = hm_merge_entries(old, old_count, entries, &n, ht_leaf_capacity(shape), merged);

	hm_rewrite_leaf(index, leaf, shape, merged, count);
	return n;
}

/* Log a change of a leaf's entries.  The caller is in a critical section. */
static void
finish_change(Relation index, Buffer leaf, const HtLeafChange *change)
{
	Page page = BufferGetPage(leaf);

	ht_leaf_clear_hints(page, change);
	hm_mark_page(index, leaf, ht_leaf_change_lines(page, change));
	MarkBufferDirty(leaf);
	HM_FAULT(insert_changed);
	hm_log_leaf_change(index, leaf, change);
	HM_FAULT(insert_logged);
}

int64
hm_insert_into_leaf(Relation index, Buffer leaf, const HtEntry *entries, int64 n)
{
	Page page = BufferGetPage(leaf);
	HtLeafChange change = {0};
	bool changed = false;
	int64 i;

	START_CRIT_SECTION();
	for (i = 0; i < n; i++)
	{
		HtInsertResult result = ht_leaf_insert(page, entries[i], &change);

		if (result == HT_FULL || result == HT_NO_FIT)
			break;
		if (result == HT_INSERTED)
			changed = true;
	}
	if (changed)
		finish_change(index, leaf, &change);
	END_CRIT_SECTION();
	return i;
}

bool
hm_add_to_leaf(Relation index, Buffer leaf, HtEntry entry)
{
	Page page = BufferGetPage(leaf);
	HtLeafChange change = {0};
	HtInsertResult result;
	int end = HT_LEAF_MAX_BLOCKS;

	if (!hm_page_has_high(page))
	{
		HtLeafShape shape = ht_leaf_shape_of(page);

		end = (hm_leaf_fill_count(index, shape) - 1) / ht_leaf_slots(shape);
	}

	START_CRIT_SECTION();
	result = ht_leaf_add(page, entry, end, &change);
	if (result == HT_INSERTED)
		finish_change(index, leaf, &change);
	END_CRIT_SECTION();
	return result == HT_INSERTED || result == HT_PRESENT;
}

int64
hm_insert_if_room(Relation index, Buffer leaf, int count, const HtEntry *entries, int64 n)
{
	Page page = BufferGetPage(leaf);
	HtLeafShape shape = ht_leaf_shape_of(page);

	if (n == 0 || !hm_leaf_has_room(shape, !hm_page_has_high(page), count, n))
		return 0;
	for (int64 i = 0; i < n; i++)
	{
		if (!ht_leaf_fits(shape, entries[i]))
			return 0;
	}
	if (n >= HM_MERGE_THRESHOLD)
		return merge_into_leaf(index, leaf, entries, n);
	return hm_insert_into_leaf(index, leaf, entries, n);
}
