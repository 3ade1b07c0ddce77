/*
 * dead.c
 *		Removing entries of dead rows before VACUUM does.
 *
 * Before a leaf is split, the table is asked which of its entries lead to rows that are dead
 * to all snapshots: by table_index_delete_tuples(), as nbtree's deletion does
 * (PostgreSQL's access/nbtree/README, "Bottom-Up deletion").  If they are many, the leaf is
 * not split.
 *
 * The leaf stays locked exclusively from before the table is asked until the entries are gone,
 * and the segment is alive and not being moved when the leaf is locked.  VACUUM frees no line
 * pointer before it has met the entry, for which it needs that lock; a mover needs it to
 * read the entry.  So what the table says is about the row that the entry was made for.  If
 * the leaf were unlocked in between, VACUUM could free the line pointer, and a new row with the
 * same key could get it: the entry of a live row would be removed.  The header need not be
 * locked, and should not be, because the heap may have to be read from disk.
 *
 * A standby may have older snapshots than this server.  The table returns the newest
 * transaction whose deletion of a row it has relied on, and a record that makes replay wait
 * for, or cancel, queries with snapshots from before it precedes the removal
 * (hm_log_conflict()).
 */
#include "postgres.h"

#include "access/tableam.h"
#include "miscadmin.h"

#include "am/dead.h"
#include "am/fault.h"
#include "device/device.h"

/*
 * A leaf is not split if one of so many of its slots has become free.  The table looks for more, as
 * long as each heap page that it reads has some: the next inserts need them.
 */
#define HM_DEAD_ENOUGH		16
#define HM_DEAD_WANTED		2

/*
 * If nothing but the full leaf suggests dead rows, few leaves have any: after some vain attempts
 * only one of so many splits looks.
 */
#define HM_DEAD_MAX_SKIP	15

/* What table_index_delete_tuples() is asked about the entries of a leaf. */
typedef struct HmDeadQuestion
{
	int			count;
	HtEntry		entries[HT_LEAF_MAX_ENTRIES];
	bool		dead[HT_LEAF_MAX_ENTRIES];
	TM_IndexDelete tids[HT_LEAF_MAX_ENTRIES];
	TM_IndexStatus status[HT_LEAF_MAX_ENTRIES];
} HmDeadQuestion;

void
hm_leaf_remove(Relation index, Buffer leaf, const bool *dead)
{
	Page		page = BufferGetPage(leaf);
	HtLeafChange change = {0};

	START_CRIT_SECTION();
	ht_leaf_remove(page, dead, &change);
	hm_device_mark_page(index, leaf, ht_leaf_change_lines(page, &change));
	MarkBufferDirty(leaf);
	HM_FAULT(remove_changed);
	hm_log_leaf_change(index, leaf, &change);
	HM_FAULT(remove_logged);
	END_CRIT_SECTION();
}

/*
 * Ask the table which entries of a leaf are dead.  It looks at a few heap pages, those with
 * most former versions of rows or, if keys do not stay unchanged, with most entries of this leaf;
 * of equal ones the first in the table.  It stops when it has found as many as wanted or when a
 * page has none.  Returns the number of dead entries; *horizon
 * becomes the transaction to log before they are removed, or InvalidTransactionId.
 */
static int
find_dead(Relation index, Relation heap, Buffer leaf, bool unchanged, int wanted,
		  HmDeadQuestion *question, TransactionId *horizon)
{
	const HtEntry *entries = question->entries;
	int			count = ht_leaf_read(BufferGetPage(leaf), question->entries);
	int			result = 0;
	TM_IndexDeleteOp operation;

	question->count = count;
	*horizon = InvalidTransactionId;
	if (count == 0)
		return 0;
	for (int i = 0; i < count; i++)
	{
		TM_IndexStatus *status = &question->status[i];

		hm_tid_check(index, entries[i].tid);
		hm_tid_unpack(entries[i].tid, &question->tids[i].tid);
		question->tids[i].id = (int16) i;
		status->idxoffnum = (OffsetNumber) (i + 1); /* for messages */
		status->knowndeletable = false;

		/* Former versions of a row mostly have lower TIDs. */
		status->promising = unchanged && i + 1 < count && entries[i + 1].key == entries[i].key;
		status->freespace = 1;
		question->dead[i] = false;
	}

	operation.irel = index;
	operation.iblknum = BufferGetBlockNumber(leaf);
	operation.bottomup = true;
	operation.bottomupfreespace = wanted;
	operation.ndeltids = count;
	operation.deltids = question->tids;
	operation.status = question->status;
	*horizon = table_index_delete_tuples(heap, &operation);

	for (int i = 0; i < operation.ndeltids; i++)
	{
		int			entry = question->tids[i].id;

		if (!question->status[entry].knowndeletable)
			continue;
		question->dead[entry] = true;
		result++;
	}
	return result;
}

/*
 * Remove dead entries of a leaf, which the caller has locked exclusively.  Returns whether they
 * were enough.
 */
static bool
remove_from_leaf(Relation index, Relation heap, Buffer leaf, bool unchanged)
{
	int			capacity = ht_leaf_capacity(ht_leaf_shape_of(BufferGetPage(leaf)));
	int			enough = Max(1, capacity / HM_DEAD_ENOUGH);
	TransactionId horizon;
	HmDeadQuestion question;
	int			found = find_dead(index, heap, leaf, unchanged, capacity / HM_DEAD_WANTED, &question,
									  &horizon);

	HM_FAULT(dead_found);
	if (found > 0)
	{
		hm_log_conflict(index, heap, horizon);
		HM_FAULT(dead_conflict_logged);
		hm_leaf_remove(index, leaf, question.dead);
	}
	return found >= enough;
}

/* Whether it is worth while to look for dead entries although nothing suggests them. */
static bool
is_turn(Relation index)
{
	HmCache    *cache = hm_cache(index, false);

	if (cache->dead_skip == 0)
		return true;
	cache->dead_skip--;
	return false;
}

/* Note how such a search went. */
static void
note_turn(Relation index, bool success)
{
	HmCache    *cache = hm_cache(index, false);

	cache->dead_next_skip = success ? 0 : Min(2 * cache->dead_next_skip + 1, HM_DEAD_MAX_SKIP);
	cache->dead_skip = cache->dead_next_skip;
}

bool
hm_remove_dead(Relation index, Relation heap, Buffer leaf, bool unchanged)
{
	bool		result;

	if (unchanged)
		return remove_from_leaf(index, heap, leaf, true);
	if (!is_turn(index))
		return false;
	result = remove_from_leaf(index, heap, leaf, false);
	note_turn(index, result);
	return result;
}
