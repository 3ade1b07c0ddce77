/*
 * btree_last.c
 *		Batch lookup in btree indexes: the last entries of ranges, or the first.
 *
 * The probes are sorted by where the wanted end of their range is, and the leaves that have these
 * ends are visited in order.  On each the entries of its probes are read from that end on, until
 * there are enough, or the range or the leaf is at its end.  Ranges that go on beyond the leaf are
 * read on its siblings next, before the walk goes on.
 *
 * A left sibling is read if its right link leads to where the walk comes from: then nothing is
 * between them.  What moves between two visits moves right, to where it has been read already, and
 * what comes in between is too new for the snapshot.  If a sibling has been split or deleted, the
 * ranges stay incomplete.
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/predicate.h"

#include "compat.h"
#include "lookup/btree.h"

/*
 * What is prefetched of a leaf before it is looked through, of its lines of HM_LINE_SIZE bytes: the
 * first and the last one.
 */
#define END_LINES (UINT64CONST(1) | UINT64CONST(1) << (BLCKSZ / HM_LINE_SIZE - 1))

/* How many leaves are looked through together. */
#define LEAVES_TOGETHER 16

/* More bytes than a tuple's header and key columns take. */
#define TUPLE_PART 256

typedef struct EndSearch
{
	HmEnds *ends;
	HmBtreeKeys keys;
	bool heeds_hints;
	bool previews; /* whatever the bits of a value are, a key can be made of it */
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
	HT_KEY *keys = palloc_extended(ends->count * sizeof(HT_KEY), MCXT_ALLOC_HUGE);
	uint32 *numbers = palloc_extended(ends->count * sizeof(uint32), MCXT_ALLOC_HUGE);
	HtPsa *psa = palloc(sizeof(HtPsa));
	HtProbe *scratch;

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
		numbers[search->count] = i;
		keys[search->count++] = ends->backward ? high + 1 : low;
	}
	ht_psa_start(psa, keys, search->count, search->sorted);
	scratch = palloc_extended(psa->largest * sizeof(HtProbe), MCXT_ALLOC_HUGE);
	while (psa->sorted < search->count)
		(void) ht_psa_more(psa, scratch);
	for (uint32 i = 0; i < search->count; i++)
		search->sorted[i].number = numbers[search->sorted[i].number];
	pfree(scratch);
	pfree(psa);
	pfree(numbers);
	pfree(keys);
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

/*
 * hm_btree_first() for few probes on each page: the entry may be anywhere on it, but most likely at
 * the offset that a preview has come to.
 */
static OffsetNumber
first_entry(const HmBtreeKeys *keys, Page page, OffsetNumber from, HT_KEY key, OffsetNumber guess)
{
	int low = from;
	int high = PageGetMaxOffsetNumber(page) + 1;
	int middle;

	if (guess > low && guess <= high &&
		hm_btree_below(keys, hm_btree_key(keys, page, OffsetNumberPrev(guess)), key))
	{
		low = guess;
		if (low < high && !hm_btree_below(keys, hm_btree_key(keys, page, guess), key))
			high = guess;
	}
	HM_BINARY_SEARCH(low, middle, high,
					 hm_btree_below(keys, hm_btree_key(keys, page, (OffsetNumber) middle), key));
	return (OffsetNumber) low;
}

/* Answer the probes whose wanted end is on a page. */
static void
answer_page(EndSearch *search, Page page, OffsetNumber guess)
{
	OffsetNumber offset = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	uint32 end = hm_btree_begin_until(&search->keys, search->sorted, search->next, search->count,
									  hm_btree_page_end(&search->keys, page));

	for (; search->next < end; search->next++)
	{
		const HtProbe *probe = &search->sorted[search->next];

		offset = first_entry(&search->keys, page, offset, probe->key, guess);
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
visit_leaf(EndSearch *search, BlockNumber block, OffsetNumber guess)
{
	Relation index = search->keys.index;
	Buffer buffer = hm_btree_read(index, block);

	buffer = hm_btree_go_right(&search->keys, buffer, search->sorted[search->next].key);
	answer_page(search, BufferGetPage(buffer), guess);
	read_siblings(search, buffer);
}

/* ----------------------------------------------------------------
 *		Memory
 * ----------------------------------------------------------------
 */

/* Ask the cache for the headers of leaves of a route. */
static void
prefetch_leaves(const EndSearch *search, const HmBtreeRoute *route, int from)
{
	for (int i = from; i < Min(from + LEAVES_TOGETHER, route->count); i++)
		hm_pin_prefetch_lines(search->keys.index, route->leaves[i].block, END_LINES);
}

/* A leaf that is looked through, and the offsets that its search has come down to. */
typedef struct Preview
{
	int number; /* in the route */
	const char *page;
	HT_KEY key;
	int low;
	int high;
} Preview;

/* The line pointer of the entry in the middle; and the entry, as far as it is on the page. */
static const ItemIdData *
middle_pointer(const Preview *leaf)
{
	return (const ItemIdData *) (leaf->page + SizeOfPageHeaderData) + (leaf->low + leaf->high) / 2 -
		   1;
}

static IndexTuple
middle_tuple(const Preview *leaf)
{
	uint32 offset = middle_pointer(leaf)->lp_off;

	return (IndexTuple) (leaf->page + Min(MAXALIGN_DOWN(offset), BLCKSZ - TUPLE_PART));
}

/* Begin to look through some leaves of a route, those that are expected to be in memory. */
static int
begin_preview(const EndSearch *search, const HmBtreeRoute *route, int from, Preview *leaves)
{
	uint32 next = search->next;
	int count = 0;

	for (int i = from; i < Min(from + LEAVES_TOGETHER, route->count); i++)
	{
		Buffer buffer = hm_pin_expected(search->keys.index, route->leaves[i].block);

		if (BufferIsValid(buffer) && next < route->leaves[i].end)
		{
			Page page = BufferGetPage(buffer);
			const HtProbe *probe = &search->sorted[next];

			leaves[count].number = i;
			leaves[count].page = (const char *) page;
			leaves[count].key = probe->key;
			leaves[count].low = P_FIRSTKEY;
			leaves[count++].high = Min(PageGetMaxOffsetNumber(page), MaxIndexTuplesPerPage);
			ht_prefetch((const char *) ((const HT_KEY *) search->ends->low + probe->number));
			ht_prefetch((const char *) (search->ends->found + probe->number));
		}
		next = Max(next, route->leaves[i].end);
	}
	return count;
}

/* Go on with the half that the entry in the middle says. */
static void
halve(const EndSearch *search, Preview *leaf)
{
	HmBtreeKey key = hm_btree_key_slowly(&search->keys, middle_tuple(leaf));
	int middle = (leaf->low + leaf->high) / 2;

	if (hm_btree_below(&search->keys, key, leaf->key))
		leaf->low = middle + 1;
	else
		leaf->high = middle;
}

/*
 * Take the steps of binary searches in some leaves of a route in turns, so that they wait for
 * memory together.  The pages are neither pinned nor locked, so what is read of them here only
 * decides what the cache is asked for, and is a guess where the first probe of a leaf ends; 0 if
 * there is none.
 */
static void
preview_leaves(const EndSearch *search, const HmBtreeRoute *route, int from, OffsetNumber *guesses)
{
	Preview leaves[LEAVES_TOGETHER];
	int count = search->previews ? begin_preview(search, route, from, leaves) : 0;
	int going = count;

	for (int i = 0; i < count; i++)
		ht_prefetch((const char *) middle_pointer(&leaves[i]));
	while (going > 0)
	{
		for (int i = 0; i < count; i++)
			ht_prefetch((const char *) middle_tuple(&leaves[i]));
		going = 0;
		for (int i = 0; i < count; i++)
		{
			if (leaves[i].low >= leaves[i].high)
				continue;
			going++;
			halve(search, &leaves[i]);
			ht_prefetch((const char *) middle_pointer(&leaves[i]));
		}
	}
	memset(guesses, 0, LEAVES_TOGETHER * sizeof(OffsetNumber));
	for (int i = 0; i < count; i++)
		guesses[leaves[i].number - from] = (OffsetNumber) leaves[i].low;
}

/* Whether keys can be made of whatever an index's tuples may contain. */
static bool
has_plain_values(const HmBtreeKeys *keys)
{
	for (int i = 0; i < keys->fields.count; i++)
	{
		Form_pg_attribute column = TupleDescAttr(keys->desc, i);

		if (!column->attbyval || column->atttypid >= FirstUnpinnedObjectId)
			return false;
	}
	return true;
}

/* Visit the leaves of a route. */
static void
visit_leaves(EndSearch *search, const HmBtreeRoute *route)
{
	OffsetNumber guesses[LEAVES_TOGETHER];

	prefetch_leaves(search, route, 0);
	for (int i = 0; i < route->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i % LEAVES_TOGETHER == 0)
		{
			prefetch_leaves(search, route, i + LEAVES_TOGETHER);
			preview_leaves(search, route, i, guesses);
		}

		/* If it has been split, more visits find the rest further right. */
		while (search->next < route->leaves[i].end)
			visit_leaf(search, route->leaves[i].block, guesses[i % LEAVES_TOGETHER]);
	}
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
	search.previews = has_plain_values(&search.keys);
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
		visit_leaves(&search, route);
	}
	pfree(search.sorted);
	pfree(search.open);
	pfree(route);
}
