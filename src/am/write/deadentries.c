/*
 * deadentries.c
 *		Removing entries of dead rows before VACUUM does.
 *
 * A scan hears from the table which rows are dead to all snapshots, and sets hints for their
 * entries, so that later scans leave them out.  Before a leaf is split, the table is asked
 * which of its entries lead to dead rows, those with hints first: by table_index_delete_tuples(),
 * as nbtree's deletion does (PostgreSQL's access/nbtree/README, "Bottom-Up deletion").  If they are
 * many, the leaf is not split.
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

#include "am/write/write.h"
#include "am/fault.h"
#include "am/marks.h"
#include "am/write/insert.h"

/*
 * A leaf is not split if one of so many of its slots has become free.  The search goes on until
 * half of the entries are known to be dead, as long as the table's pages have many dead rows: the
 * next inserts need room, too, and each page is read once for all of them.
 */
#define HM_DEAD_ENOUGH 16
#define HM_DEAD_WANTED 2

/*
 * If nothing but the full leaf suggests dead rows, few leaves have any: after some vain attempts
 * only one of so many splits looks.
 */
#define HM_DEAD_MAX_SKIP 15

/* If the last search has found enough, so many pages without dead rows do not end the next one. */
#define HM_DEAD_VAIN 2

/*
 * Heap pages that are named in one question; the heap ignores more (BOTTOMUP_MAX_NBLOCKS in
 * PostgreSQL's access/heap/heapam.c).
 */
#define HM_DEAD_BLOCKS 6

/*
 * Without hints, a leaf is worth so many questions at most, and another one only if the one before
 * has found so many dead rows.  Other writers of the leaf wait meanwhile.
 */
#define HM_DEAD_QUESTIONS 8
#define HM_DEAD_FRUITFUL (2 * HM_DEAD_BLOCKS)

/* What table_index_delete_tuples() is asked about the entries of a leaf, and its answers. */
typedef struct HmDeadQuestion
{
	Relation index;
	Relation heap;
	Buffer leaf;
	int count;                            /* entries of the leaf */
	int found;                            /* dead ones */
	TransactionId horizon;                /* to be logged before they are removed, or invalid */
	HtEntry entries[HT_LEAF_MAX_ENTRIES]; /* in their order */
	bool dead[HT_LEAF_MAX_ENTRIES];
	TM_IndexDelete tids[HT_LEAF_MAX_ENTRIES];
	TM_IndexStatus status[HT_LEAF_MAX_ENTRIES];
} HmDeadQuestion;

/* The entries of a leaf that lead to one page of the table. */
typedef struct HmDeadPage
{
	int first; /* of HmDeadQuestion.tids, in the order of TIDs */
	int count;
	int promising;
} HmDeadPage;

void
hm_leaf_remove(Relation index, Buffer leaf, const bool *dead)
{
	Page page = BufferGetPage(leaf);
	HtLeafChange change = {0};

	START_CRIT_SECTION();
	ht_leaf_remove(page, dead, &change);
	ht_leaf_clear_hints(page, &change);
	hm_mark_page(index, leaf, ht_leaf_change_lines(page, &change));
	MarkBufferDirty(leaf);
	HM_FAULT(remove_changed);
	hm_log_leaf_change(index, leaf, &change);
	HM_FAULT(remove_logged);
	END_CRIT_SECTION();
}

void
hm_leaf_hint(Buffer leaf, const HtEntry *entries, int n)
{
	Page page = BufferGetPage(leaf);
	bool changed = false;

	/* A snapshot that is too old notices only by LSNs that it may miss rows. */
	if (hm_old_snapshots_possible())
		return;
	for (int i = 0; i < n; i++)
	{
		int slot = ht_leaf_slot(page, entries[i]);

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
 * Ask the table about n entries, on HM_DEAD_BLOCKS of its pages at most.  It stops at a page that
 * has no dead one of them.  No entry is said to be dead: the table has to find that out itself,
 * whatever a hint says.
 */
static void
ask(HmDeadQuestion *question, TM_IndexDelete *tids, int n)
{
	TransactionId horizon;
	TM_IndexDeleteOp operation;

	if (n == 0)
		return;
	operation.irel = question->index;
	operation.iblknum = BufferGetBlockNumber(question->leaf);
	operation.bottomup = true;
	operation.bottomupfreespace = PG_INT32_MAX;
	operation.ndeltids = n;
	operation.deltids = tids;
	operation.status = question->status;
	horizon = table_index_delete_tuples(question->heap, &operation);
	if (TransactionIdIsValid(horizon) && (!TransactionIdIsValid(question->horizon) ||
										  TransactionIdFollows(horizon, question->horizon)))
		question->horizon = horizon;

	for (int i = 0; i < operation.ndeltids; i++)
	{
		int entry = tids[i].id;

		if (!question->status[entry].knowndeletable)
			continue;
		question->dead[entry] = true;
		question->found++;
	}
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) & ((const TM_IndexDelete *) a)->tid,
							  (ItemPointer) & ((const TM_IndexDelete *) b)->tid);
}

/* Make the entries promising that are hinted to be dead. */
static void
note_hints(HmDeadQuestion *question)
{
	Page page = BufferGetPage(question->leaf);
	int blocks = ht_leaf_blocks(ht_leaf_shape_of(page));

	for (int block = 0; block < blocks; block++)
	{
		uint32 hints = ht_leaf_hints(page, block);

		for (; hints != 0; hints &= hints - 1)
		{
			HtEntry entry = ht_leaf_entry(page, block, pg_rightmost_one_pos32(hints));
			int i = (int) hm_entries_below(question->entries, question->count, entry);

			if (i < question->count && ht_entry_cmp(question->entries[i], entry) == 0)
				question->status[i].promising = true;
		}
	}
}

/* Sort the TIDs and find out which pages of the table they are on.  Returns the number of pages. */
static int
list_pages(HmDeadQuestion *question, HmDeadPage *pages)
{
	int n = 0;
	BlockNumber block = InvalidBlockNumber;

	qsort(question->tids, (size_t) question->count, sizeof(TM_IndexDelete), compare_tids);
	for (int i = 0; i < question->count; i++)
	{
		if (n == 0 || ItemPointerGetBlockNumber(&question->tids[i].tid) != block)
		{
			block = ItemPointerGetBlockNumber(&question->tids[i].tid);
			pages[n++] = (HmDeadPage){i, 0, 0};
		}
		pages[n - 1].count++;
		pages[n - 1].promising += question->status[question->tids[i].id].promising;
	}
	return n;
}

/* Ask about the entries of the first of n pages.  Returns how many pages these were. */
static int
ask_pages(HmDeadQuestion *question, const HmDeadPage *pages, int n)
{
	TM_IndexDelete tids[HT_LEAF_MAX_ENTRIES];
	int count = 0;

	n = Min(n, HM_DEAD_BLOCKS);
	for (int i = 0; i < n; i++)
	{
		memcpy(tids + count, question->tids + pages[i].first,
			   pages[i].count * sizeof(TM_IndexDelete));
		count += pages[i].count;
	}
	ask(question, tids, count);
	return n;
}

/* Ask about the entries on all pages that have some with hints. */
static void
ask_hinted(HmDeadQuestion *question)
{
	HmDeadPage pages[HT_LEAF_MAX_ENTRIES];
	int n;
	int hinted = 0;

	note_hints(question);
	n = list_pages(question, pages);
	for (int i = 0; i < n; i++)
	{
		if (pages[i].promising > 0)
			pages[hinted++] = pages[i];
	}
	for (int i = 0; i < hinted; i += HM_DEAD_BLOCKS)
		(void) ask_pages(question, pages + i, hinted - i);
}

/*
 * Order by the expected number of dead rows; the same power of two counts as equal.  Of equal pages
 * the first one in the table is the oldest one.
 */
static int
compare_pages(const void *a, const void *b)
{
	const HmDeadPage *one = a;
	const HmDeadPage *other = b;
	uint32 one_promising = pg_nextpower2_32(Max(1, one->promising));
	uint32 other_promising = pg_nextpower2_32(Max(1, other->promising));
	uint32 one_count = pg_nextpower2_32(one->count);
	uint32 other_count = pg_nextpower2_32(other->count);

	if (one_promising != other_promising)
		return one_promising > other_promising ? -1 : 1;
	if (one_count != other_count)
		return one_count > other_count ? -1 : 1;
	return one->first < other->first ? -1 : 1;
}

/*
 * Ask about entries without hints.  Former versions of a row mostly have lower TIDs.  Of the pages
 * at the beginning so many may have no dead rows, such as those of a transaction that is still in
 * progress.
 */
static void
ask_all(HmDeadQuestion *question, bool unchanged, int vain)
{
	HmDeadPage pages[HT_LEAF_MAX_ENTRIES];
	int n;
	int asked = 0;
	bool again;

	for (int i = 0; unchanged && i + 1 < question->count; i++)
		question->status[i].promising = question->entries[i].key == question->entries[i + 1].key;
	n = list_pages(question, pages);
	qsort(pages, (size_t) n, sizeof(HmDeadPage), compare_pages);
	do
	{
		int before = question->found;
		int pages_asked = ask_pages(question, pages + asked, n - asked);

		again = question->found - before >= HM_DEAD_FRUITFUL;
		if (question->found == 0 && vain > 0)
		{
			vain--;
			pages_asked = 1;
			again = true;
		}
		asked += pages_asked;
	} while (again && asked < Min(n, HM_DEAD_QUESTIONS * HM_DEAD_BLOCKS) &&
			 question->found < question->count / HM_DEAD_WANTED);
}

/* Remove the entries that the table has found dead. */
static void
remove_found(HmDeadQuestion *question)
{
	HM_FAULT(dead_found);
	if (question->found > 0)
	{
		hm_log_conflict(question->index, question->heap, question->horizon);
		HM_FAULT(dead_conflict_logged);
		hm_leaf_remove(question->index, question->leaf, question->dead);
	}
}

/* Whether so many entries are enough for a leaf not to be split, which has to make room for n. */
static bool
is_enough(Buffer leaf, int found, int64 n)
{
	int capacity = ht_leaf_capacity(ht_leaf_shape_of(BufferGetPage(leaf)));

	return found >= Max(capacity / HM_DEAD_ENOUGH, Min(n, capacity / HM_DEAD_WANTED));
}

/*
 * Whether it is worth while to look for dead entries although nothing suggests them.  A leaf is
 * locked, so if what is known of the index has been freed it cannot be read again; the next search
 * begins without experience.
 */
static bool
is_turn(Relation index)
{
	HmCache *cache = (HmCache *) index->rd_amcache;

	if (cache == NULL || cache->dead_skip == 0)
		return true;
	cache->dead_skip--;
	return false;
}

/* Note how such a search went. */
static void
note_turn(Relation index, bool success)
{
	HmCache *cache = (HmCache *) index->rd_amcache;

	if (cache == NULL)
		return;
	cache->dead_next_skip = success ? 0 : Min(2 * cache->dead_next_skip + 1, HM_DEAD_MAX_SKIP);
	cache->dead_skip = cache->dead_next_skip;
}

bool
hm_remove_dead(Relation index, Relation heap, Buffer leaf, int64 n, bool unchanged)
{
	HmDeadQuestion question;
	int found = 0;

	if (ht_leaf_has_hints(BufferGetPage(leaf)))
	{
		prepare(&question, index, heap, leaf);
		ask_hinted(&question);
		remove_found(&question);
		found = question.found;
		if (is_enough(leaf, found, n))
			return true;
	}
	if (unchanged || is_turn(index))
	{
		const HmCache *cache = (const HmCache *) index->rd_amcache;

		prepare(&question, index, heap, leaf);
		ask_all(&question, unchanged,
				cache == NULL || cache->dead_next_skip == 0 ? HM_DEAD_VAIN : 0);
		remove_found(&question);
		if (!unchanged)
			note_turn(index, is_enough(leaf, question.found, 1));
		found += question.found;
	}
	return is_enough(leaf, found, 1);
}
