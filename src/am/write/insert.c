/*
 * insert.c
 *		Inserting entries into leaves.
 *
 * Algorithm 1 of the papers: an insert locks the leaf exclusively (the fine lock).  Splits and
 * movement need the segment's header exclusively (the coarse lock).  An insert has its share of
 * that lock while it looks for the leaf; then it verifies that the leaf is the right one
 * (lockleaf.c).
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
	int enough;

	if (hm_page_has_high(page))
		return Max(here, 1);
	enough = hm_leaf_fill_count(index, ht_leaf_shape_of(page));
	return n + Max(0, count - enough);
}

/*
 * Insert an entry for which its leaf, which is locked, has no room: make room, if the header can be
 * locked soon, or use a slot that is left free otherwise.  Releases the leaf.  Returns 1,
 * or 0 if neither was possible.
 */
static int64
insert_into_full_leaf(Relation index, HmPart part, HmLockedLeaf *locked, const HtEntry *entry)
{
	int64 inserted = 0;

	if (hm_make_room_at(index, part, locked, entry, &inserted))
		return inserted;
	if (ht_leaf_fits(ht_leaf_shape_of(BufferGetPage(locked->leaf)), *entry))
		inserted = hm_insert_into_leaf(index, locked->leaf, entry, 1);
	hm_leaf_release(locked);
	return inserted;
}

/*
 * Insert the first of n entries into a locked leaf, if need be in place of entries of dead
 * rows.  Releases the leaf.  Returns how many were inserted; *here becomes how many of the n
 * belong in this leaf.
 */
static int64
insert_at(Relation index, Relation heap, HmPart part, HmLockedLeaf *locked, const HtEntry *entries,
		  int64 n, bool unchanged, int64 *here)
{
	Page page = BufferGetPage(locked->leaf);
	int count = ht_leaf_count(page);
	int64 inserted;

	*here = hm_entries_for_leaf(index, page, count, entries, n);
	inserted = hm_insert_if_room(index, locked->leaf, count, entries, *here);
	if (inserted == 0 && hm_remove_dead(index, heap, locked->leaf,
										slots_wanted(index, page, count, *here, n), unchanged))
	{
		count = ht_leaf_count(page);
		*here = hm_entries_for_leaf(index, page, count, entries, n);
		inserted = hm_insert_if_room(index, locked->leaf, count, entries, *here);
	}
	if (inserted == 0 && n == 1)
		return insert_into_full_leaf(index, part, locked, entries);
	hm_leaf_release(locked);
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
	HmLockedLeaf locked;
	HmLockResult result = HM_LEAF_LOCKED;
	int64 here, inserted;

	if (!hm_leaf_lock_known(index, part, entries[0], &locked))
		result = hm_leaf_lock(index, part, entries[0], &locked);
	if (result == HM_LEAF_NO_SEGMENT)
		return hm_create_first_segment(index, part, entries, n);
	if (result == HM_LEAF_CHANGED)
		return 0;
	if (n == 1 && hm_add_to_leaf(index, locked.leaf, entries[0]))
	{
		hm_leaf_release(&locked);
		return 1;
	}

	inserted = insert_at(index, heap, part, &locked, entries, n, unchanged, &here);
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
