/*
 * insert.c
 *		Inserting entries into leaves.
 *
 * Algorithm 1 of the papers: an insert locks the leaf exclusively (the fine lock).  Splits and
 * movement need the segment's header exclusively (the coarse lock).  An insert has its share of
 * that lock while it looks for the leaf; then it verifies that the leaf is the right one
 * (target.c).
 *
 * If the leaf is full, the insert makes room under the coarse lock (split.c).  With many clients at
 * one leaf, all would meet it full.  So one that has the leaf locked takes the coarse lock
 * at once if that is free, and the others find room when they get the leaf.  If it is not free,
 * a single entry goes into the slots that are otherwise left free.  Only if there is none,
 * an insert gives the leaf up, waits for the coarse lock, and starts again.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/memutils.h"

#include "am/write/write.h"
#include "am/fault.h"
#include "am/write/insert.h"
#include "compat.h"
#include "device/device.h"

/*
 * From so many new entries on, they are merged with the entries of the leaf and the whole
 * leaf is rewritten: to add them one by one would change as many bytes.
 */
#define HM_MERGE_THRESHOLD	128

/*
 * In a crowded leaf, each insertion pushes other entries through several blocks of the
 * leaf.  So a leaf that receives fewer than HM_CROWD entries is split when this share of
 * its slots is still free: to fill the last slots would cost more WAL than the split.  A single entry whose
 * block has a free slot pushes none, and gets that (add_to_leaf()).
 */
#define HM_CROWD			8
#define HM_CROWDED_PERCENT	5

/*
 * An insert that so often in a row neither inserted an entry nor made room for one has
 * met a damaged index.  Faster backends do not explain it.
 */
#define HM_MAX_IDLE_ROUNDS	1000

bool
hm_insert_row(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			  IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	HtEntry		entry;
	HmKey		key;
	HmPart		part = HM_PART_KEYS;
	HmFields	fields;

	hm_fields_read(index, &fields);
	if (!hm_row_key(&fields, values, isnull, &key))
		part = hm_cache(index, false)->nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH;
	entry.key = (HT_KEY) key;
	entry.tid = hm_tid_pack(tid);

	if (!hm_batch_add(index, heap, info, check, part, &entry, unchanged))
	{
		hm_insert_sorted(index, heap, part, &entry, 1, unchanged);

		/*
		 * index_insert() looked for conflicting readers before the entry was in the
		 * index.  A reader that came between has locked the index and not found the
		 * entry.
		 */
		CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
	}
	return false;
}

int64
hm_entries_below(const HtEntry *entries, int64 n, HtEntry bound)
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

bool
hm_leaf_greatest(Page page, HtEntry *entry)
{
	int			block = ht_leaf_blocks(ht_leaf_shape_of(page)) - 1;
	int			count;

	while (block > 0 && ht_leaf_block_count(page, block) == 0)
		block--;
	count = ht_leaf_block_count(page, block);
	for (int i = 0; i < count; i++)
	{
		HtEntry		other = ht_leaf_entry(page, block, i);

		if (i == 0 || ht_entry_cmp(other, *entry) > 0)
			*entry = other;
	}
	return count > 0;
}

bool
hm_begins_leaf(Relation index, Page page, int count, HtEntry entry)
{
	HtEntry		greatest;
	HtLeafShape shape = ht_leaf_shape_of(page);
	int			enough = hm_leaf_target(index, shape);

	if (!ht_leaf_fits_key(shape, entry.key))
	{
		/* With the entry, each half of the leaf must have room in a leaf as wide as any, whatever its TIDs. */
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
	HtEntry		bound = {0, 0};

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
	int			capacity = ht_leaf_capacity(shape);

	if (n < HM_CROWD && !is_last)
		capacity -= capacity * HM_CROWDED_PERCENT / 100;
	return count + n <= capacity;
}

/* How many of n sorted entries, of which there is one, are not beyond what a leaf of a shape can store. */
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
	HtEntry		greatest;
	int64		free_slots;

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
	free_slots = hm_leaf_target(index, shape) - count;
	if (free_slots <= 0 && n > 1 && hm_leaf_greatest(page, &greatest))
	{
		free_slots = ht_leaf_capacity(shape) - count;
		n = hm_entries_below(entries, n, greatest);
	}
	return entries_in_reach(shape, entries, Max(1, Min(n, free_slots)));
}

/*
 * How many slots have to become free in a leaf so that it need not be split, or get a new one to its right.  n entries are to
 * be inserted, of which "here" belong in it.
 */
static int64
slots_wanted(Relation index, Page page, int count, int64 here, int64 n)
{
	int			target;

	if (hm_page_has_high(page))
		return Max(here, 1);
	target = hm_leaf_target(index, ht_leaf_shape_of(page));
	return n + Max(0, count - target);
}

HtEntry
hm_leaf_reach(HtLeafShape shape)
{
	HT_KEY		most = ht_class_max(shape.bits);
	HtEntry		reach = {KEY_MAX, HT_TID_MAX};

	if (KEY_MAX - most >= shape.base)
		reach.key = shape.base + most;
	return reach;
}

int
hm_merge_entries(const HtEntry *old, int old_count, const HtEntry *coming, int64 *n,
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

void
hm_rewrite_leaf(Relation index, Buffer leaf, HtLeafShape shape, const HtEntry *entries,
				int count)
{
	GenericXLogState *state = GenericXLogStart(index);

	hm_device_mark_page(index, leaf, HM_ALL_LINES);
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
	HtEntry		old[HT_LEAF_MAX_ENTRIES];
	HtEntry		merged[HT_LEAF_MAX_ENTRIES];
	int			old_count = ht_leaf_read(BufferGetPage(leaf), old);
	int			count = hm_merge_entries(old, old_count, entries, &n,
										 ht_leaf_capacity(shape), merged);

	hm_rewrite_leaf(index, leaf, shape, merged, count);
	return n;
}

/* Log a change of a leaf's entries.  The caller is in a critical section. */
static void
finish_change(Relation index, Buffer leaf, const HtLeafChange *change)
{
	Page		page = BufferGetPage(leaf);

	ht_leaf_clear_hints(page, change);
	hm_device_mark_page(index, leaf, ht_leaf_change_lines(page, change));
	MarkBufferDirty(leaf);
	HM_FAULT(insert_changed);
	hm_log_leaf_change(index, leaf, change);
	HM_FAULT(insert_logged);
}

/*
 * Insert entries into a leaf one by one, until it is full, with one WAL record.  The
 * caller has locked the leaf exclusively.  Returns how many of the n are in the leaf now.
 */
static int64
insert_into_leaf(Relation index, Buffer leaf, const HtEntry *entries, int64 n)
{
	Page		page = BufferGetPage(leaf);
	HtLeafChange change = {0};
	bool		changed = false;
	int64		i;

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

/*
 * Insert an entry into its leaf if that has a free slot where the entry belongs.  Nearly all single entries find one; then
 * nothing has to be known of the leaf's other blocks, each of which is a line of memory that another writer may just
 * have changed.  Of an entry that may begin a leaf, hm_entries_for_leaf() decides.  The caller has locked the leaf
 * exclusively.  Returns false if the leaf is as it was.
 */
static bool
add_to_leaf(Relation index, Buffer leaf, HtEntry entry)
{
	Page		page = BufferGetPage(leaf);
	HtLeafChange change = {0};
	HtInsertResult result;
	int			end = HT_LEAF_MAX_BLOCKS;

	if (!hm_page_has_high(page))
	{
		HtLeafShape shape = ht_leaf_shape_of(page);

		end = (hm_leaf_target(index, shape) - 1) / ht_leaf_slots(shape);
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
	Page		page = BufferGetPage(leaf);
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
	return insert_into_leaf(index, leaf, entries, n);
}

/*
 * Insert an entry for which its leaf, the target, has no room: make room, if the header can be
 * locked soon, or use a slot that is left free otherwise.  Releases the target.  Returns 1,
 * or 0 if neither was possible.
 */
static int64
insert_into_full_leaf(Relation index, HmPart part, HmLeafTarget *target, const HtEntry *entry)
{
	int64		inserted = 0;

	if (hm_make_room_at(index, part, target, entry, &inserted))
		return inserted;
	if (ht_leaf_fits(ht_leaf_shape_of(BufferGetPage(target->leaf)), *entry))
		inserted = insert_into_leaf(index, target->leaf, entry, 1);
	hm_target_release(target);
	return inserted;
}

void
hm_insert_sorted(Relation index, Relation heap, HmPart part, const HtEntry *entries,
				 int64 n, bool unchanged)
{
	int			idle = 0;

	while (n > 0)
	{
		int64		n_before = n;
		HmLeafTarget	target;
		HmTargetResult result = HM_TARGET_LOCKED;
		Page		page;
		int			count;
		int64		here,
					inserted;

		if (!hm_target_known(index, part, entries[0], &target))
			result = hm_target_find(index, part, entries[0], &target);
		if (result == HM_TARGET_NO_SEGMENT)
		{
			inserted = hm_create_first_segment(index, part, entries, n);
			entries += inserted;
			n -= inserted;
			continue;
		}
		if (idle == HM_MAX_IDLE_ROUNDS)
			hm_report_damage(NULL, "an entry finds no place in index \"%s\"",
							 RelationGetRelationName(index));
		if (result == HM_TARGET_CHANGED)
		{
			idle++;
			continue;
		}

		if (n == 1 && add_to_leaf(index, target.leaf, entries[0]))
		{
			hm_target_release(&target);
			return;
		}

		page = BufferGetPage(target.leaf);
		count = ht_leaf_count(page);
		here = hm_entries_for_leaf(index, page, count, entries, n);
		inserted = hm_insert_if_room(index, target.leaf, count, entries, here);
		if (inserted == 0 && hm_remove_dead(index, heap, target.leaf, slots_wanted(index, page, count, here, n), unchanged))
		{
			count = ht_leaf_count(page);
			here = hm_entries_for_leaf(index, page, count, entries, n);
			inserted = hm_insert_if_room(index, target.leaf, count, entries, here);
		}
		if (inserted == 0 && n == 1)
			inserted = insert_into_full_leaf(index, part, &target, entries);
		else
			hm_target_release(&target);

		entries += inserted;
		n -= inserted;
		if (n > 0)
			HM_FAULT(batch_leaf_done);
		if (n > 0 && (here == 0 || inserted < here))
		{
			HM_FAULT(insert_leaf_full);
			inserted = hm_make_room(index, part, entries, n);
			entries += inserted;
			n -= inserted;
		}
		idle = n < n_before ? 0 : idle + 1;
	}
}

int64
hm_sort_queued(void *queued, int64 n)
{
	HtEntry    *entries = (HtEntry *) queued;
	HtEntry    *scratch = MemoryContextAllocHuge(CurrentMemoryContext, n * sizeof(HtEntry));
	int64		kept = 1;

	ht_sort_entries(entries, scratch, n);
	pfree(scratch);
	for (int64 i = 1; i < n; i++)
	{
		if (ht_entry_cmp(entries[i], entries[kept - 1]) != 0)
			entries[kept++] = entries[i];
	}
	return kept;
}

void
hm_insert_queued(Relation index, Relation heap, HmPart part, const void *queued, int64 n,
				 bool unchanged)
{
	hm_insert_sorted(index, heap, part, (const HtEntry *) queued, n, unchanged);
}
