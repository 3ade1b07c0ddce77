/*
 * hints.c
 *		Hints for the entries of rows that were found dead after their leaves had been read.
 *
 * A lookup fetches rows in the order of the table, long after it has read the leaves, and keeps no
 * pins on these.  When it has found rows that are dead to all, it only notes them, and finds their
 * entries again later, in key order, so that each leaf is visited once.
 *
 * By then VACUUM may have removed an entry and freed its line pointer, and a new row with the same
 * key may have got that, and an equal entry.  So what the table has said before does not count.
 * The leaf is pinned while the header of its segment is locked and says that the segment is alive;
 * its entries are read; and only then is the table asked, while the leaf stays pinned.  VACUUM
 * frees no line pointer before it has drained the leaf, of living segments and of those that were
 * replaced meanwhile.  So a row that is dead now is the entry's, and stays dead, until the hint has
 * been set. The leaf is not locked while the table is asked.
 *
 * This holds for all indexes, with and without WAL, and whatever has changed on the leaf.
 *
 * The header notes that leaves of its segment have hints.  Lookups, which mostly read a few lines
 * of a leaf, look for hints only then.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

#include "am/write/write.h"
#include "am/fault.h"
#include "compat.h"

/*
 * If rows were found by ranges, so many leaves are visited for each row, and so many in any case.
 * What is beyond is left to the next lookup, which no longer finds the first rows.
 */
#define HM_LEAVES_OF_ROW 2
#define HM_LEAVES_IN_ANY_CASE 16

/* A leaf whose entries are to get hints. */
typedef struct HmHintLeaf
{
	Buffer header; /* pinned */
	Buffer leaf;   /* pinned */
	uint64 stamp;
	HmPosition low; /* its bounds */
	HmPosition high;
	int count; /* entries of noted rows */
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
} HmHintLeaf;

/* Note in a header, which the caller has pinned, that leaves of its segment have hints. */
static void
note_hinted(Relation index, Buffer header, uint64 stamp)
{
	Page page = BufferGetPage(header);

	/* It may be overwritten at this moment; then nothing is lost if this goes wrong. */
	if (hm_page_segment(page)->hinted != 0 || !ConditionalLockBuffer(header))
		return;
	if (hm_segment_is_alive(page, stamp) && hm_page_segment(page)->hinted == 0)
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_page_segment(GenericXLogRegisterBuffer(state, header, 0))->hinted = 1;
		GenericXLogFinish(state);
		HM_FAULT(hint_noted);
	}
	LockBuffer(header, BUFFER_LOCK_UNLOCK);
}

void
hm_segment_note_hinted(Relation index, BlockNumber block, uint64 stamp)
{
	Buffer header = ReadBuffer(index, block);

	note_hinted(index, header, stamp);
	ReleaseBuffer(header);
}

/* Order by range, then TID. */
static int
compare_rows(const void *a, const void *b)
{
	const HmDeadRow *one = a;
	const HmDeadRow *other = b;

	if (one->low != other->low)
		return one->low < other->low ? -1 : 1;
	if (one->high != other->high)
		return one->high < other->high ? -1 : 1;
	if (one->tid != other->tid)
		return one->tid < other->tid ? -1 : 1;
	return 0;
}

/* The number of rows, from the first one on, with the same range. */
static int
same_range(const HmDeadRow *rows, int n)
{
	int same = 1;

	while (same < n && rows[same].low == rows[0].low && rows[same].high == rows[0].high)
		same++;
	return same;
}

/* Whether one of n rows in the order of TIDs has a TID. */
static bool
have_tid(const HmDeadRow *rows, int n, uint64 tid)
{
	int low = 0, middle, high = n;

	HM_BINARY_SEARCH(low, middle, high, rows[middle].tid < tid);
	return low < n && rows[low].tid == tid;
}

/* Whether a range begins before the end of a leaf, and whether it ends before that. */
static bool
begins_before_end(const HmHintLeaf *leaf, const HmDeadRow *row)
{
	return hm_position_cmp(hm_position(HM_PART_KEYS, (HT_KEY) row->low, 0), leaf->high) < 0;
}

static bool
ends_on(const HmHintLeaf *leaf, const HmDeadRow *row)
{
	return hm_position_cmp(hm_position(HM_PART_KEYS, (HT_KEY) row->high, HT_TID_MAX), leaf->high) <
		   0;
}

/* Collect the entries of rows with the same range that have no hint yet. */
static void
collect_range(HmHintLeaf *leaf, Page page, const HmDeadRow *rows, int n)
{
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
	int count = ht_leaf_read_live(page, (HT_KEY) rows[0].low, (HT_KEY) rows[0].high, entries);

	for (int i = 0; i < count && leaf->count < HT_LEAF_MAX_ENTRIES; i++)
	{
		if (have_tid(rows, n, entries[i].tid))
			leaf->entries[leaf->count++] = entries[i];
	}
}

/*
 * Read the leaf that covers a position or, if there is none, the next one.  Collects entries of the
 * rows whose ranges reach into it.  Returns false if the index ends before.
 */
static bool
read_leaf(Relation index, HmPosition position, const HmDeadRow *rows, int n, HmHintLeaf *leaf)
{
	HtWidth width = hm_key_width(index);
	Page page;
	int same;

	leaf->header = hm_segment_enter(index, &position, HM_AT_OR_AFTER, BUFFER_LOCK_SHARE);
	if (!BufferIsValid(leaf->header))
		return false;
	if (position.part != HM_PART_KEYS)
	{
		UnlockReleaseBuffer(leaf->header);
		return false;
	}
	leaf->stamp = hm_page_segment(BufferGetPage(leaf->header))->stamp;
	leaf->leaf =
		hm_segment_leaf(index, leaf->header, width, position.entry, false, BUFFER_LOCK_SHARE, NULL);
	page = BufferGetPage(leaf->leaf);
	leaf->low = hm_page_low(page);
	leaf->high = hm_page_high(page);
	leaf->count = 0;
	for (int i = 0; i < n && begins_before_end(leaf, &rows[i]); i += same)
	{
		same = same_range(&rows[i], n - i);
		if (hm_position_cmp(hm_position(HM_PART_KEYS, (HT_KEY) rows[i].high, HT_TID_MAX),
							leaf->low) >= 0)
			collect_range(leaf, page, &rows[i], same);
	}
	LockBuffer(leaf->leaf, BUFFER_LOCK_UNLOCK);
	LockBuffer(leaf->header, BUFFER_LOCK_UNLOCK);
	return true;
}

/* Keep those of the leaf's entries whose rows are dead. */
static void
keep_dead(Relation heap, HmHintLeaf *leaf)
{
	Buffer buffer = InvalidBuffer;
	int kept = 0;

	for (int i = 0; i < leaf->count; i++)
	{
		if (hm_row_is_dead(heap, leaf->entries[i].tid, &buffer))
			leaf->entries[kept++] = leaf->entries[i];
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	leaf->count = kept;
}

static void
set_hints(Relation index, HmHintLeaf *leaf)
{
	Page page = BufferGetPage(leaf->leaf);

	LockBuffer(leaf->leaf, BUFFER_LOCK_SHARE);
	if (hm_page_is_leaf_of(page, leaf->stamp))
		hm_leaf_hint(leaf->leaf, leaf->entries, leaf->count);
	LockBuffer(leaf->leaf, BUFFER_LOCK_UNLOCK);
}

void
hm_hint_rows(Relation index, Relation heap, HmDeadRow *rows, int n)
{
	int leaves = HM_LEAVES_IN_ANY_CASE + HM_LEAVES_OF_ROW * n;
	int i = 0;
	HmHintLeaf leaf;

	HM_FAULT(hint_begun);
	qsort(rows, (size_t) n, sizeof(HmDeadRow), compare_rows);
	leaf.high = hm_position(HM_PART_KEYS, (HT_KEY) rows[0].low, 0);
	for (; i < n && leaves > 0; leaves--)
	{
		HmPosition position = hm_position(HM_PART_KEYS, (HT_KEY) rows[i].low, 0);

		CHECK_FOR_INTERRUPTS();
		if (hm_position_cmp(position, leaf.high) < 0)
			position = leaf.high;
		if (!read_leaf(index, position, rows + i, n - i, &leaf))
			break;
		HM_FAULT(hint_leaf_read);
		keep_dead(heap, &leaf);
		HM_FAULT(hint_rows_asked);
		if (leaf.count > 0)
			set_hints(index, &leaf);
		note_hinted(index, leaf.header, leaf.stamp);
		ReleaseBuffer(leaf.leaf);
		ReleaseBuffer(leaf.header);
		if (leaf.high.part != HM_PART_KEYS)
			break;
		while (i < n && ends_on(&leaf, &rows[i]))
			i++;
	}
}

#if HM_KEYS == 64
/*
 * The transaction alone does not tell: a worker has another one than its leader, and a snapshot can
 * be imported.
 */
bool
hm_heeds_hints(Snapshot snapshot)
{
	return IsMVCCSnapshot(snapshot) && !snapshot->takenDuringRecovery &&
		   !TransactionStartedDuringRecovery();
}

bool
hm_row_is_dead(Relation heap, uint64 packed, Buffer *buffer)
{
	ItemPointerData tid;
	HeapTupleData tuple;
	Page page;
	OffsetNumber offset;
	bool all_dead = false;
	bool found = true;

	hm_tid_unpack(packed, &tid);
	offset = ItemPointerGetOffsetNumber(&tid);
	*buffer = ReleaseAndReadBuffer(*buffer, heap, ItemPointerGetBlockNumber(&tid));
	LockBuffer(*buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(*buffer);

	/* A damaged index may have entries without a row, which must not hide a later one. */
	if (offset <= PageGetMaxOffsetNumber(page) && ItemIdIsUsed(PageGetItemId(page, offset)))
		found = heap_hot_search_buffer(&tid, heap, *buffer, SnapshotSelf, &tuple, &all_dead, true);
	LockBuffer(*buffer, BUFFER_LOCK_UNLOCK);
	return !found && all_dead;
}

void
hm_give_hints(Relation index, Relation heap, HmDeadRow *rows, int n)
{
	HM_FOR_INDEX(index, hm_hint_rows)(index, heap, rows, n);
}
#endif
