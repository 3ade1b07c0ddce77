/*
 * btree_last.c
 *		Batch lookup in btree indexes: the last entries of ranges, or the first.
 *
 * The probes are sorted by where the wanted end of their range is, and the leaves that have these
 * ends are visited in order.  On each the entries of its probes are read from that end on, until
 * there are enough, or the range or the leaf is at its end.  Ranges that go on beyond the leaf are
 * read on its siblings next, before the walk goes on.
 *
 * A left sibling is read if its right link leads to where the walk comes from: then nothing is between
 * them.  What moves between two visits moves right, to where it has been read already, and what
 * comes in between is too new for the snapshot.  If a sibling has been split or deleted, the
 * ranges stay incomplete.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/predicate.h"

#include "compat.h"
#include "lookup/btree.h"

/*
 * What is prefetched of a leaf, of its lines of HM_LINE_SIZE bytes: the line pointers, and the
 * last line.
 */
#define END_LINES (UINT64CONST(0x0FFF) | UINT64CONST(1) << (BLCKSZ / HM_LINE_SIZE - 1))

typedef struct EndSearch
{
	HmEnds *ends;
	HmBtreeKeys keys;
	bool heeds_hints;
	HtProbe *sorted;
	uint32 count;
	uint32 next;
	uint32 *open; /* probes whose range goes on beyond the page, in sorted order */
	uint32 open_count;
} EndSearch;

/* Sort the probes by the first key that is not before the wanted end. */
static void
sort_probes(EndSearch *search)
{
	HmEnds *ends = search->ends;

	search->sorted = palloc_extended(ends->count * sizeof(HtProbe), MCXT_ALLOC_HUGE);
	search->open = palloc_extended(ends->count * sizeof(uint32), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < ends->count; i++)
	{
		HT_KEY low = ((const HT_KEY *) ends->low)[i];
		HT_KEY high = ((const HT_KEY *) ends->high)[i];

		ends->found[i] = 0;
		ends->complete[i] = low > high;
		if (low > high || (ends->backward && high == ~(HT_KEY) 0))
			continue;
		search->sorted[search->count].key = ends->backward ? high + 1 : low;
		search->sorted[search->count++].number = i;
	}
	qsort(search->sorted, search->count, sizeof(HtProbe), hm_compare_probes);
}

/* Take over the TIDs of an entry.  Returns false if there are enough now. */
static bool
add_entry(HmEnds *ends, uint32 probe, IndexTuple tuple)
{
	uint64 *tids = ends->tids + (Size) probe * ends->most;
	int count = BTreeTupleIsPosting(tuple) ? BTreeTupleGetNPosting(tuple) : 1;

	for (int i = 0; i < count; i++)
	{
		ItemPointer tid = count > 1 ? BTreeTupleGetPostingN(tuple, i) : BTreeTupleGetHeapTID(tuple);

		if (ends->found[probe] == ends->most)
			return false;
		tids[ends->found[probe]++] = hm_tid_pack(tid);
	}
	return ends->found[probe] < ends->most;
}

/*
 * Read the entries of a probe that are on a page: those before an offset, or from it on.  Notes the
 * probe as open if it wants more of the sibling.
 */
static void
read_entries(EndSearch *search, Page page, OffsetNumber offset, uint32 probe)
{
	HmEnds *ends = search->ends;
	BTPageOpaque opaque = BTPageGetOpaque(page);
	int first = P_FIRSTDATAKEY(opaque);
	int last = PageGetMaxOffsetNumber(page);
	int step = ends->backward ? -1 : 1;

	for (int i = ends->backward ? offset - 1 : offset; i >= first && i <= last; i += step)
	{
		ItemId item = PageGetItemId(page, (OffsetNumber) i);
		HmBtreeKey key = hm_btree_key(&search->keys, page, (OffsetNumber) i);

		if (ends->backward ?
				hm_btree_below(&search->keys, key, ((const HT_KEY *) ends->low)[probe]) :
				hm_btree_above(&search->keys, key, ((const HT_KEY *) ends->high)[probe]))
		{
			ends->complete[probe] = true;
			return;
		}
		if ((!search->heeds_hints || !ItemIdIsDead(item)) &&
			!add_entry(ends, probe, (IndexTuple) PageGetItem(page, item)))
			return;
	}
	ends->complete[probe] = ends->backward ? P_LEFTMOST(opaque) : P_RIGHTMOST(opaque);
	if (!ends->complete[probe])
		search->open[search->open_count++] = probe;
}

/* hm_btree_first() for few probes on each page: the entry may be anywhere on it. */
static OffsetNumber
first_entry(const HmBtreeKeys *keys, Page page, OffsetNumber from, HT_KEY key)
{
	int low = from;
	int high = PageGetMaxOffsetNumber(page) + 1;
	int middle;

	HM_BINARY_SEARCH(low, middle, high,
					 hm_btree_below(keys, hm_btree_key(keys, page, (OffsetNumber) middle), key));
	return (OffsetNumber) low;
}

/* Answer the probes whose wanted end is on a page. */
static void
answer_page(EndSearch *search, Page page)
{
	OffsetNumber offset = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	uint32 end = hm_btree_begin_until(&search->keys, search->sorted, search->next, search->count,
									  hm_btree_page_end(&search->keys, page));

	for (; search->next < end; search->next++)
	{
		const HtProbe *probe = &search->sorted[search->next];

		offset = first_entry(&search->keys, page, offset, probe->key);
		read_entries(search, page, offset, probe->number);
	}
}

/*
 * Read and lock the sibling of a page where open probes go on.  Returns InvalidBuffer if it is not
 * known what is there now.
 */
static Buffer
read_sibling(const EndSearch *search, BlockNumber block, BlockNumber sibling)
{
	Relation index = search->keys.index;
	Buffer buffer = hm_btree_read(index, sibling);
	BTPageOpaque opaque = BTPageGetOpaque(BufferGetPage(buffer));

	if (!search->ends->backward)
		return P_IGNORE(opaque) ? hm_btree_step_right(index, buffer) : buffer;
	if (!P_IGNORE(opaque) && opaque->btpo_next == block)
		return buffer;
	_bt_relbuf(index, buffer);
	return InvalidBuffer;
}

/* Read on for the open probes, from the page that is in a buffer, which is released. */
static void
read_siblings(EndSearch *search, Buffer buffer)
{
	Relation index = search->keys.index;
	bool backward = search->ends->backward;

	for (;;)
	{
		BTPageOpaque opaque = BTPageGetOpaque(BufferGetPage(buffer));
		BlockNumber block = BufferGetBlockNumber(buffer);
		BlockNumber sibling = backward ? opaque->btpo_prev : opaque->btpo_next;
		uint32 count = search->open_count;
		Page page;

		_bt_relbuf(index, buffer);
		CHECK_FOR_INTERRUPTS();
		search->open_count = 0;
		buffer = count > 0 ? read_sibling(search, block, sibling) : InvalidBuffer;
		if (!BufferIsValid(buffer))
			return;
		page = BufferGetPage(buffer);
		for (uint32 i = 0; i < count; i++)
			read_entries(search, page,
						 backward ? (OffsetNumber) (PageGetMaxOffsetNumber(page) + 1) :
									P_FIRSTDATAKEY(BTPageGetOpaque(page)),
						 search->open[i]);
	}
}

/* Visit a leaf on the way to the next probe's, and what is right of it if that has moved. */
static void
visit_leaf(EndSearch *search, BlockNumber block, Snapshot snapshot)
{
	Relation index = search->keys.index;
	Buffer buffer = hm_btree_read(index, block);

	buffer = hm_btree_go_right(&search->keys, buffer, search->sorted[search->next].key);
	hm_test_old_snapshot(snapshot, index, BufferGetPage(buffer));
	answer_page(search, BufferGetPage(buffer));
	read_siblings(search, buffer);
}

void
hm_btree_ends(Relation index, Snapshot snapshot, HmEnds *ends)
{
	EndSearch search = {.ends = ends, .heeds_hints = hm_heeds_hints(snapshot)};
	HmBtreeRoute *route = palloc(sizeof(HmBtreeRoute));

	PredicateLockRelation(index, snapshot);
	pgstat_count_index_scan(index);
	hm_btree_keys_init(&search.keys, index);
	Assert(search.keys.order == NULL && search.keys.flipped == 0);
	sort_probes(&search);
	while (search.next < search.count)
	{
		if (!hm_btree_route(route, &search.keys, search.sorted, search.next, search.count))
		{
			/* The index is empty. */
			for (; search.next < search.count; search.next++)
				ends->complete[search.sorted[search.next].number] = true;
			break;
		}
		for (int i = 0; i < route->count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (i + 1 < route->count)
				hm_pin_prefetch_lines(index, route->leaves[i + 1].block, END_LINES);
			if (search.next < route->leaves[i].end)
				visit_leaf(&search, route->leaves[i].block, snapshot);
		}
	}
	pfree(search.sorted);
	pfree(search.open);
	pfree(route);
}
