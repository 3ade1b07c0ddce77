/*
 * dead.c
 *		Removing entries of dead rows before VACUUM does.
 *
 * A scan hears from the table which rows are dead to all snapshots, and sets hints for their
 * entries, so that later scans leave them out.  Before a leaf is split, the table is asked
 * which of its entries lead to dead rows, those with hints first: by table_index_delete_tuples(), as nbtree's deletion does
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
 *
 * Hints are bits in the leaf's hole, which are not logged (src/am/README).  They are no reason to
 * remove an entry, only one to ask.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"

#include "am/dead.h"
#include "am/fault.h"
#include "am/insert.h"
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

/*
 * Heap pages that are named in one question; the heap ignores more (BOTTOMUP_MAX_NBLOCKS in
 * PostgreSQL's access/heap/heapam.c).
 */
#define HM_DEAD_BLOCKS		6

/* What table_index_delete_tuples() is asked about the entries of a leaf, and its answers. */
typedef struct HmDeadQuestion
{
	Relation	index;
	Relation	heap;
	Buffer		leaf;
	int			count;			/* entries of the leaf */
	int			found;			/* dead ones */
	TransactionId horizon;		/* to be logged before they are removed, or invalid */
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
	ht_leaf_clear_hints(page, &change);
	hm_device_mark_page(index, leaf, ht_leaf_change_lines(page, &change));
	MarkBufferDirty(leaf);
	HM_FAULT(remove_changed);
	hm_log_leaf_change(index, leaf, &change);
	HM_FAULT(remove_logged);
	END_CRIT_SECTION();
}

void
hm_leaf_hint(Buffer leaf, const HtEntry *entries, int n)
{
	Page		page = BufferGetPage(leaf);
	bool		changed = false;

	/* A snapshot that is too old notices only by LSNs that it may miss rows. */
	if (hm_old_snapshots_possible())
		return;
	for (int i = 0; i < n; i++)
	{
		int			slot = ht_leaf_slot(page, entries[i]);

		if (slot < 0)
			continue;
		ht_leaf_set_hint(page, slot);
		changed = true;
	}
	if (changed)
		MarkBufferDirtyHint(leaf, true);
}

/* Prepare a question about all entries of a leaf, none of which is promising. */
static void
prepare(HmDeadQuestion *question, Relation index, Relation heap, Buffer leaf)
{
	question->index = index;
	question->heap = heap;
	question->leaf = leaf;
	question->count = ht_leaf_read(BufferGetPage(leaf), question->entries);
	question->found = 0;
	question->horizon = InvalidTransactionId;
	for (int i = 0; i < question->count; i++)
	{
		TM_IndexStatus *status = &question->status[i];

		hm_tid_check(index, question->entries[i].tid);
		hm_tid_unpack(question->entries[i].tid, &question->tids[i].tid);
		question->tids[i].id = (int16) i;
		status->idxoffnum = (OffsetNumber) (i + 1); /* for messages */
		status->knowndeletable = false;
		status->promising = false;
		status->freespace = 1;
		question->dead[i] = false;
	}
}

/*
 * Ask the table about n entries.  It looks at a few heap pages, those with most promising
 * entries or, if there are none, with most entries; of equal ones the first in the table.  It
 * stops when it has found as many dead ones as wanted or when a page has none.  No entry is
 * said to be dead: the table has to find that out itself, whatever a hint says.
 */
static void
ask(HmDeadQuestion *question, TM_IndexDelete *tids, int n, int wanted)
{
	TransactionId horizon;
	TM_IndexDeleteOp operation;

	if (n == 0)
		return;
	operation.irel = question->index;
	operation.iblknum = BufferGetBlockNumber(question->leaf);
	operation.bottomup = true;
	operation.bottomupfreespace = wanted;
	operation.ndeltids = n;
	operation.deltids = tids;
	operation.status = question->status;
	horizon = table_index_delete_tuples(question->heap, &operation);
	if (TransactionIdIsValid(horizon) &&
		(!TransactionIdIsValid(question->horizon) ||
		 TransactionIdFollows(horizon, question->horizon)))
		question->horizon = horizon;

	for (int i = 0; i < operation.ndeltids; i++)
	{
		int			entry = tids[i].id;

		if (!question->status[entry].knowndeletable)
			continue;
		question->dead[entry] = true;
		question->found++;
	}
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) &((const TM_IndexDelete *) a)->tid,
							  (ItemPointer) &((const TM_IndexDelete *) b)->tid);
}

/* Make the entries promising that are hinted to be dead. */
static void
note_hints(HmDeadQuestion *question)
{
	Page		page = BufferGetPage(question->leaf);
	int			blocks = ht_leaf_blocks(ht_leaf_shape_of(page));

	for (int block = 0; block < blocks; block++)
	{
		uint32		hints = ht_leaf_hints(page, block);

		for (; hints != 0; hints &= hints - 1)
		{
			HtEntry		entry = ht_leaf_entry(page, block, pg_rightmost_one_pos32(hints));
			int			i = (int) hm_entries_below(question->entries, question->count, entry);

			if (i < question->count && ht_entry_cmp(question->entries[i], entry) == 0)
				question->status[i].promising = true;
		}
	}
}

/* Ask about the entries in all heap pages that have some with hints. */
static void
ask_hinted(HmDeadQuestion *question)
{
	TM_IndexDelete tids[HT_LEAF_MAX_ENTRIES];
	int			n = 0;
	int			blocks = 0;
	int			end;

	note_hints(question);
	qsort(question->tids, (size_t) question->count, sizeof(TM_IndexDelete), compare_tids);
	for (int i = 0; i < question->count; i = end)
	{
		BlockNumber block = ItemPointerGetBlockNumber(&question->tids[i].tid);
		bool		hinted = false;

		for (end = i; end < question->count &&
			 ItemPointerGetBlockNumber(&question->tids[end].tid) == block; end++)
			hinted |= question->status[question->tids[end].id].promising;
		if (!hinted)
			continue;
		memcpy(tids + n, question->tids + i, (end - i) * sizeof(TM_IndexDelete));
		n += end - i;
		if (++blocks == HM_DEAD_BLOCKS)
		{
			ask(question, tids, n, PG_INT32_MAX);
			n = blocks = 0;
		}
	}
	ask(question, tids, n, PG_INT32_MAX);
}

/* Ask about all entries.  Former versions of a row mostly have lower TIDs. */
static void
ask_all(HmDeadQuestion *question, bool unchanged)
{
	for (int i = 0; unchanged && i + 1 < question->count; i++)
		question->status[i].promising =
			KEY_EQUAL(question->entries[i].key, question->entries[i + 1].key);
	ask(question, question->tids, question->count, question->count / HM_DEAD_WANTED);
}

/* Remove the entries that the table has found dead.  Returns whether they are enough. */
static bool
remove_found(HmDeadQuestion *question)
{
	int			capacity = ht_leaf_capacity(ht_leaf_shape_of(BufferGetPage(question->leaf)));

	HM_FAULT(dead_found);
	if (question->found > 0)
	{
		hm_log_conflict(question->index, question->heap, question->horizon);
		HM_FAULT(dead_conflict_logged);
		hm_leaf_remove(question->index, question->leaf, question->dead);
	}
	return question->found >= Max(1, capacity / HM_DEAD_ENOUGH);
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
	HmDeadQuestion question;
	bool		result;

	if (ht_leaf_has_hints(BufferGetPage(leaf)))
	{
		prepare(&question, index, heap, leaf);
		ask_hinted(&question);
		if (remove_found(&question))
			return true;
	}
	if (!unchanged && !is_turn(index))
		return false;
	prepare(&question, index, heap, leaf);
	ask_all(&question, unchanged);
	result = remove_found(&question);
	if (!unchanged)
		note_turn(index, result);
	return result;
}
