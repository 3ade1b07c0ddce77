/*
 * insert.c
 *		Inserting entries into leaves.
 *
 * Algorithm 1 of the papers: an insert locks the leaf exclusively (the fine lock).  Splits and
 * movement need the segment's header exclusively (the coarse lock).  An insert has its share of
 * that lock while it looks for the leaf; then it verifies that the leaf is the right one
 * (target.c).
 *
 * If the leaf is full, the insert makes room under the coarse lock (makeroom.c).  With many clients
 * at one leaf, all would meet it full.  So one that has the leaf locked takes the coarse lock at
 * once if that is free, and the others find room when they get the leaf.  If it is not free, a
 * single entry goes into the slots that are otherwise left free.  Only if there is none, an insert
 * gives the leaf up, waits for the coarse lock, and starts again.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "am/fault.h"
#include "am/write/insert.h"

/*
 * An insert that so often in a row neither inserted an entry nor made room for one has
 * met a damaged index.  Faster backends do not explain it.
 */
#define MAX_ATTEMPTS 1000

/*
 * How many slots have to become free in a leaf so that it need not be split, or get a new one to
 * its right.  n entries are to be inserted, of which "here" belong in it.
 */
static int64
slots_wanted(Relation index, Page page, int count, int64 here, int64 n)
{
	int target;

	if (hm_page_has_high(page))
		return Max(here, 1);
	target = hm_leaf_target(index, ht_leaf_shape_of(page));
	return n + Max(0, count - target);
}

/*
 * Insert an entry for which its leaf, the target, has no room: make room, if the header can be
 * locked soon, or use a slot that is left free otherwise.  Releases the target.  Returns 1,
 * or 0 if neither was possible.
 */
static int64
insert_into_full_leaf(Relation index, HmPart part, HmLeafTarget *target, const HtEntry *entry)
{
	int64 inserted = 0;

	if (hm_make_room_at(index, part, target, entry, &inserted))
		return inserted;
	if (ht_leaf_fits(ht_leaf_shape_of(BufferGetPage(target->leaf)), *entry))
		inserted = hm_insert_into_leaf(index, target->leaf, entry, 1);
	hm_target_release(target);
	return inserted;
}

/*
 * Insert the first of n entries into the target's leaf, if need be in place of entries of dead
 * rows.  Releases the target.  Returns how many were inserted; *here becomes how many of the n
 * belong in this leaf.
 */
static int64
insert_at(Relation index, Relation heap, HmPart part, HmLeafTarget *target, const HtEntry *entries,
		  int64 n, bool unchanged, int64 *here)
{
	Page page = BufferGetPage(target->leaf);
	int count = ht_leaf_count(page);
	int64 inserted;

	*here = hm_entries_for_leaf(index, page, count, entries, n);
	inserted = hm_insert_if_room(index, target->leaf, count, entries, *here);
	if (inserted == 0 && hm_remove_dead(index, heap, target->leaf,
										slots_wanted(index, page, count, *here, n), unchanged))
	{
		count = ht_leaf_count(page);
		*here = hm_entries_for_leaf(index, page, count, entries, n);
		inserted = hm_insert_if_room(index, target->leaf, count, entries, *here);
	}
	if (inserted == 0 && n == 1)
		return insert_into_full_leaf(index, part, target, entries);
	hm_target_release(target);
	return inserted;
}

/*
 * Insert the first of n entries, and make room if there is none.  Returns how many were inserted:
 * perhaps 0, after which the caller tries again.
 */
static int64
insert_some(Relation index, Relation heap, HmPart part, const HtEntry *entries, int64 n,
			bool unchanged)
{
	HmLeafTarget target;
	HmTargetResult result = HM_TARGET_LOCKED;
	int64 here, inserted;

	if (!hm_target_known(index, part, entries[0], &target))
		result = hm_target_find(index, part, entries[0], &target);
	if (result == HM_TARGET_NO_SEGMENT)
		return hm_create_first_segment(index, part, entries, n);
	if (result == HM_TARGET_CHANGED)
		return 0;
	if (n == 1 && hm_add_to_leaf(index, target.leaf, entries[0]))
	{
		hm_target_release(&target);
		return 1;
	}

	inserted = insert_at(index, heap, part, &target, entries, n, unchanged, &here);
	if (inserted == n)
		return inserted;
	HM_FAULT(batch_leaf_done);
	if (here == 0 || inserted < here)
	{
		HM_FAULT(insert_leaf_full);
		inserted += hm_make_room(index, part, entries + inserted, n - inserted);
	}
	return inserted;
}

void
hm_insert_sorted(Relation index, Relation heap, HmPart part, const HtEntry *entries, int64 n,
				 bool unchanged)
{
	int idle = 0;

	while (n > 0)
	{
		int64 inserted = insert_some(index, heap, part, entries, n, unchanged);

		entries += inserted;
		n -= inserted;
		idle = inserted > 0 ? 0 : idle + 1;
		if (idle > MAX_ATTEMPTS)
			hm_report_damage(NULL, "an entry finds no place in index \"%s\"",
							 RelationGetRelationName(index));
	}
}

int64
hm_sort_queued(void *queued, int64 n)
{
	HtEntry *entries = (HtEntry *) queued;
	HtEntry *scratch = MemoryContextAllocHuge(CurrentMemoryContext, n * sizeof(HtEntry));
	int64 kept = 1;

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
