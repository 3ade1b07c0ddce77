/*
 * btree_hints.c
 *		Marks the entries of a btree as dead whose rows a lookup has found dead.
 *
 * PostgreSQL's own scans do that when they leave a page, and inserts remove such entries before
 * they split it.  A lookup fetches rows in the order of the table, long after it has read the
 * leaves, so it finds the entries again by their keys.  By then VACUUM may have removed one, and
 * another row may have got its TID.  So the table is asked once more, while the leaf is pinned:
 * VACUUM takes a lock that no pin of others allows before it lets TIDs of a leaf's entries be used
 * again.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "am/fault.h"
#include "compat.h"
#include "lookup/btree.h"

/* So many leaves are visited for all rows together, besides one for each. */
#define MORE_LEAVES 16

/* Entries that are to be marked. */
typedef struct DeadItems
{
	int count;
	OffsetNumber offsets[MaxIndexTuplesPerPage];
} DeadItems;

static int
compare_tids(const void *a, const void *b)
{
	uint64 one = *(const uint64 *) a;
	uint64 other = *(const uint64 *) b;

	return (one > other) - (one < other);
}

/* Whether all TIDs of an entry are among n sorted ones and, given a table, its rows are dead. */
static bool
are_dead(IndexTuple tuple, const uint64 *tids, int n, Relation heap, Buffer *buffer)
{
	bool posting = BTreeTupleIsPosting(tuple);
	int count = posting ? BTreeTupleGetNPosting(tuple) : 1;

	for (int i = 0; i < count; i++)
	{
		uint64 tid =
			hm_tid_pack(posting ? BTreeTupleGetPostingN(tuple, i) : BTreeTupleGetHeapTID(tuple));

		if (bsearch(&tid, tids, (size_t) n, sizeof(uint64), compare_tids) == NULL ||
			(heap != NULL && !hm_row_is_dead(heap, tid, buffer)))
			return false;
	}
	return true;
}

/* Collect the entries of a locked leaf whose rows have been found dead. */
static void
collect(Page page, const uint64 *tids, int n, DeadItems *items)
{
	items->count = 0;
	for (int i = P_FIRSTDATAKEY(BTPageGetOpaque(page)); i <= PageGetMaxOffsetNumber(page); i++)
	{
		ItemId item = PageGetItemId(page, i);
		IndexTuple tuple = (IndexTuple) PageGetItem(page, item);

		if (ItemIdIsDead(item) || !are_dead(tuple, tids, n, NULL, NULL))
			continue;
		items->offsets[items->count++] = (OffsetNumber) i;
	}
}

/* Whether an offset has the same entry on a page as on an earlier copy of it. */
static bool
is_unchanged(Page page, Page copy, OffsetNumber offset)
{
	ItemId now, then;

	if (offset > PageGetMaxOffsetNumber(page))
		return false;
	now = PageGetItemId(page, offset);
	then = PageGetItemId(copy, offset);
	return ItemIdGetLength(now) == ItemIdGetLength(then) &&
		   memcmp(PageGetItem(page, now), PageGetItem(copy, then), ItemIdGetLength(now)) == 0;
}

/*
 * Mark those entries of a leaf whose rows are dead.  The leaf is pinned, and "copy" is what was on
 * it when it was; it is not locked while the table is asked.  Entries that have moved are left to
 * the next lookup.
 */
static void
mark(Relation index, Relation heap, Buffer leaf, Page copy, const uint64 *tids, int n,
	 const DeadItems *items)
{
	Page page = BufferGetPage(leaf);
	Buffer buffer = InvalidBuffer;
	bool dead[MaxIndexTuplesPerPage];
	bool marked = false;

	for (int i = 0; i < items->count; i++)
		dead[i] = are_dead((IndexTuple) PageGetItem(copy, PageGetItemId(copy, items->offsets[i])),
						   tids, n, heap, &buffer);
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	HM_FAULT(hint_rows_asked);

	_bt_lockbuf(index, leaf, BT_READ);
	for (int i = 0; i < items->count && !P_IGNORE(BTPageGetOpaque(page)); i++)
	{
		if (!dead[i] || !is_unchanged(page, copy, items->offsets[i]))
			continue;
		ItemIdMarkDead(PageGetItemId(page, items->offsets[i]));
		marked = true;
	}
	if (marked)
	{
		BTPageGetOpaque(page)->btpo_flags |= BTP_HAS_GARBAGE;
		MarkBufferDirtyHint(leaf, true);
	}
	_bt_unlockbuf(index, leaf);
}

/* Give hints on a locked leaf, which is unlocked and stays pinned. */
static void
hint_leaf(Relation index, Relation heap, Buffer leaf, const uint64 *tids, int n)
{
	PGAlignedBlock copy;
	DeadItems items;

	memcpy(copy.data, BufferGetPage(leaf), BLCKSZ);
	_bt_unlockbuf(index, leaf);
	HM_FAULT(hint_leaf_read);
	collect((Page) copy.data, tids, n, &items);
	if (items.count > 0)
		mark(index, heap, leaf, (Page) copy.data, tids, n, &items);
}

/*
 * Visit the leaf that the first of sorted probes begins on, and those to its right that the probes
 * which begin there reach into.  Returns the first probe that begins after these.
 */
static uint32
visit(const HmBtreeKeys *keys, Relation heap, const HtProbe *probes, const HT_KEY *high,
	  const uint64 *tids, uint32 next, uint32 n, int *leaves)
{
	HmBtreeRoute *route = palloc(sizeof(HmBtreeRoute));
	HT_KEY reach = high[probes[next].number];
	Buffer leaf;

	if (!hm_btree_route(route, keys, probes, next, next + 1))
		return n;
	leaf = hm_btree_go_right(keys, hm_btree_read(keys->index, route->leaves[0].block),
							 probes[next].key);
	pfree(route);
	for (;;)
	{
		Page page = BufferGetPage(leaf);
		HmBtreeKey end = hm_btree_page_end(keys, page);
		uint32 begun = hm_btree_begin_until(keys, probes, next, n, end);
		BlockNumber right = BTPageGetOpaque(page)->btpo_next;

		for (; next < begun; next++)
		{
			HmBtreeKey last = {.key = high[probes[next].number]};

			if (hm_btree_above(keys, last, reach))
				reach = last.key;
		}
		if (P_ISLEAF(BTPageGetOpaque(page)))
			hint_leaf(keys->index, heap, leaf, tids, (int) n);
		else
		{
			/* The index is damaged, which lookups report. */
			_bt_unlockbuf(keys->index, leaf);
			right = P_NONE;
		}
		ReleaseBuffer(leaf);
		(*leaves)--;
		if (right == P_NONE)
			return n;
		if (*leaves <= 0 || hm_btree_above(keys, end, reach))
			return next;
		leaf = hm_btree_read(keys->index, right);
		if (P_IGNORE(BTPageGetOpaque(BufferGetPage(leaf))))
			leaf = hm_btree_step_right(keys->index, leaf);
	}
}

/* Compare probes in the order of the pages. */
static int
compare_places(const void *a, const void *b, void *keys)
{
	return ((const HmBtreeKeys *) keys)->order == NULL ?
			   hm_compare_probes(a, b) :
			   hm_btree_compare(keys, ((const HtProbe *) a)->key, ((const HtProbe *) b)->key);
}

void
hm_btree_give_hints(Relation index, Relation heap, HmDeadRow *rows, int n)
{
	HtProbe *probes = palloc((Size) n * sizeof(HtProbe));
	HT_KEY *high = palloc((Size) n * sizeof(HT_KEY));
	uint64 *tids = palloc((Size) n * sizeof(uint64));
	int leaves = n + MORE_LEAVES;
	uint32 next = 0;
	HmBtreeKeys keys;

	hm_btree_keys_init(&keys, index);
	for (int i = 0; i < n; i++)
	{
		HT_KEY low = (HT_KEY) rows[i].low;

		probes[i].number = (uint32) i;
		probes[i].key = keys.flipped == 0 ? low : ~(HT_KEY) rows[i].high;
		high[i] = keys.flipped == 0 ? (HT_KEY) rows[i].high : ~low;
		tids[i] = rows[i].tid;
	}
	HM_FAULT(hint_begun);
	qsort_arg(probes, (size_t) n, sizeof(HtProbe), compare_places, &keys);
	qsort(tids, (size_t) n, sizeof(uint64), compare_tids);
	while (next < (uint32) n && leaves > 0)
	{
		CHECK_FOR_INTERRUPTS();
		next = visit(&keys, heap, probes, high, tids, next, (uint32) n, &leaves);
	}
	hm_btree_keys_end(&keys);
	pfree(tids);
	pfree(high);
	pfree(probes);
}
