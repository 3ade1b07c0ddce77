/*
 * lookup.c
 *		Batch lookup on the CPU: a walk through the index in key order.
 *
 * The probes are sorted by where they begin.  The walk visits, left to right,
 * each leaf that one of them needs, and answers there all probes that reach
 * into it.  What it remembers between leaves is a position, the bound up to which
 * everything has been answered, so it can start from the directory again
 * whenever it finds that a segment has been replaced.
 *
 * A leaf is copied under its lock and answered from the copy: so hits can be
 * handed out in portions without a pin.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "am/am.h"
#include "compat.h"
#include "lookup/lookup.h"

/* Steps that no leaf needs, unless the index is damaged. */
#define HM_MAX_STEPS	10000

struct HmLookup
{
	Relation	index;
	HtWidth		width;
	uint32		capacity;
	Snapshot	snapshot;
	HmLookupStats stats;

	/* The batch */
	HmProbes	probes;
	const uint8 *done;
	HtEntry    *order;			/* (low key, probe), sorted */
	HtEntry    *scratch;

	/* How far it has come */
	uint32		count;			/* probes in order */
	uint32		next;			/* first of them that has not begun */
	HmPosition	position;		/* all before it has been answered */
	uint32	   *active;			/* probes that have begun, not ended */
	uint32		active_count;

	/* The current leaf */
	bool		has_page;
	HmPosition	high;			/* where it ends */
	BlockNumber right;
	uint64		stamp;
	uint32		current;		/* active probe to be answered next */
	char	   *page;			/* copy */
	int			item;			/* hits of one probe on the page, */
	int			item_count;		/* to be handed out */
	uint32		item_probe;
	HtEntry		items[HT_LEAF_MAX_ENTRIES];
};

Size
hm_lookup_memory(uint32 capacity)
{
	return sizeof(HmLookup) + BLCKSZ +
		(Size) capacity * (2 * sizeof(HtEntry) + sizeof(uint32));
}

HmLookup *
hm_lookup_create(Relation index, uint32 capacity)
{
	HmLookup   *lookup = palloc0(sizeof(HmLookup));

	lookup->index = index;
	lookup->width = hm_cache(index, false)->width;
	lookup->capacity = capacity;
	lookup->order = palloc_extended(capacity * sizeof(HtEntry), MCXT_ALLOC_HUGE);
	lookup->scratch = palloc_extended(capacity * sizeof(HtEntry), MCXT_ALLOC_HUGE);
	lookup->active = palloc_extended(capacity * sizeof(uint32), MCXT_ALLOC_HUGE);
	lookup->page = palloc(BLCKSZ);
	return lookup;
}

void
hm_lookup_set_snapshot(HmLookup *lookup, Snapshot snapshot)
{
	lookup->snapshot = snapshot;
}

const HmLookupStats *
hm_lookup_stats(HmLookup *lookup)
{
	return &lookup->stats;
}

void
hm_lookup_end(HmLookup *lookup)
{
	pfree(lookup->order);
	pfree(lookup->scratch);
	pfree(lookup->active);
	pfree(lookup->page);
	pfree(lookup);
}

static inline uint64
probe_high(const HmLookup *lookup, uint32 probe)
{
	return lookup->probes.high == NULL ? lookup->probes.low[probe] : lookup->probes.high[probe];
}

void
hm_lookup_start(HmLookup *lookup, const HmProbes *probes, const uint8 *done)
{
	instr_time	start,
				end;

	Assert(probes->count <= lookup->capacity);
	hm_batch_apply(lookup->index);
	pgstat_count_index_scan(lookup->index);

	INSTR_TIME_SET_CURRENT(start);
	lookup->probes = *probes;
	lookup->done = done;
	lookup->count = 0;
	for (uint32 i = 0; i < probes->count; i++)
	{
		/* One above all keys of the index would be routed to no leaf. */
		if (probes->low[i] > probe_high(lookup, i) ||
			probes->low[i] > ht_key_max(lookup->width))
			continue;
		lookup->order[lookup->count].key = probes->low[i];
		lookup->order[lookup->count].tid = i;
		lookup->count++;
	}
	ht_sort_entries(lookup->order, lookup->scratch, lookup->count);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);

	lookup->next = 0;
	lookup->active_count = 0;
	lookup->position = hm_position(HM_PART_KEYS, 0, 0);
	lookup->has_page = false;
	lookup->right = InvalidBlockNumber;
	lookup->item = lookup->item_count = 0;
	lookup->stats.batches++;
	lookup->stats.probes += probes->count;
	lookup->stats.sort_ns += INSTR_TIME_GET_DOUBLE(end) * 1e9;
}

static bool
leaf_covers(Page page, uint64 stamp, HmPosition position)
{
	return hm_page_is(page, HM_PAGE_LEAF) &&
		hm_page_special(page)->stamp == stamp &&
		hm_position_cmp(hm_page_low(page), position) <= 0 &&
		hm_position_cmp(position, hm_page_high(page)) < 0;
}

/*
 * The leaf that covers the position, share-locked; InvalidBuffer if the index
 * has none.  Tries the right neighbour of the last leaf first, if the position
 * is where that began.
 */
static Buffer
find_leaf(HmLookup *lookup)
{
	Relation	index = lookup->index;
	HmPosition	position = lookup->position;

	if (BlockNumberIsValid(lookup->right) &&
		hm_position_cmp(position, lookup->high) == 0)
	{
		Buffer		leaf = ReadBuffer(index, lookup->right);

		LockBuffer(leaf, BUFFER_LOCK_SHARE);
		if (leaf_covers(BufferGetPage(leaf), lookup->stamp, position))
			return leaf;
		UnlockReleaseBuffer(leaf);
	}

	for (int attempt = 0;; attempt++)
	{
		Buffer		header,
					leaf;
		int			steps = 0;

		header = hm_segment_enter(index, &position, HM_AT_OR_AFTER, BUFFER_LOCK_SHARE);
		if (!BufferIsValid(header))
			return InvalidBuffer;
		lookup->stats.segments++;
		lookup->stats.restarts += attempt > 0;
		if (position.part != HM_PART_KEYS)
		{
			UnlockReleaseBuffer(header);
			return InvalidBuffer;
		}
		lookup->stamp = hm_page_segment(BufferGetPage(header))->stamp;
		leaf = hm_segment_descend(index, header, position.entry, false, NULL);
		UnlockReleaseBuffer(header);
		LockBuffer(leaf, BUFFER_LOCK_SHARE);

		/* If it was split since we left the header, the rest is to the right. */
		for (;;)
		{
			Page		page = BufferGetPage(leaf);
			BlockNumber right;

			if (leaf_covers(page, lookup->stamp, position))
				return leaf;
			if (!hm_page_is(page, HM_PAGE_LEAF) ||
				hm_page_special(page)->stamp != lookup->stamp)
				break;
			right = hm_page_special(page)->right;
			if (!BlockNumberIsValid(right))
				break;
			if (++steps > HM_MAX_STEPS)
				hm_page_no_progress(index, leaf);
			UnlockReleaseBuffer(leaf);
			leaf = ReadBuffer(index, right);
			LockBuffer(leaf, BUFFER_LOCK_SHARE);
		}

		/* Retired and reused, or no longer the last leaf: start again. */
		if (attempt == HM_MAX_STEPS)
			hm_page_no_progress(index, leaf);
		UnlockReleaseBuffer(leaf);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Forget active probes that end before the current leaf does. */
static void
drop_answered(HmLookup *lookup)
{
	uint32		kept = 0;

	for (uint32 i = 0; i < lookup->active_count; i++)
	{
		uint32		probe = lookup->active[i];

		if (lookup->high.part != HM_PART_KEYS ||
			probe_high(lookup, probe) < lookup->high.entry.key ||
			(lookup->done != NULL && lookup->done[probe]))
			continue;
		lookup->active[kept++] = probe;
	}
	lookup->active_count = kept;
}

/* Copy the next leaf that any probe needs; false if none does. */
static bool
next_leaf(HmLookup *lookup)
{
	Buffer		leaf;

	if (lookup->has_page)
	{
		drop_answered(lookup);
		lookup->position = lookup->high;
		lookup->has_page = false;
		if (lookup->position.part != HM_PART_KEYS)
			return false;
	}
	if (lookup->active_count == 0)
	{
		HmPosition	begin;

		while (lookup->next < lookup->count && lookup->done != NULL &&
			   lookup->done[lookup->order[lookup->next].tid])
			lookup->next++;
		if (lookup->next == lookup->count)
			return false;
		begin = hm_position(HM_PART_KEYS, lookup->order[lookup->next].key, 0);
		if (hm_position_cmp(begin, lookup->position) > 0)
			lookup->position = begin;
	}

	CHECK_FOR_INTERRUPTS();
	leaf = find_leaf(lookup);
	if (!BufferIsValid(leaf))
	{
		lookup->next = lookup->count;
		lookup->active_count = 0;
		return false;
	}
	lookup->stats.leaves++;
	if (lookup->snapshot != NULL)
		hm_test_old_snapshot(lookup->snapshot, lookup->index, BufferGetPage(leaf));
	memcpy(lookup->page, BufferGetPage(leaf), BLCKSZ);
	UnlockReleaseBuffer(leaf);

	lookup->has_page = true;
	lookup->high = hm_page_high((Page) lookup->page);
	lookup->right = hm_page_special((Page) lookup->page)->right;
	while (lookup->next < lookup->count &&
		   hm_position_cmp(hm_position(HM_PART_KEYS, lookup->order[lookup->next].key, 0),
						   lookup->high) < 0)
		lookup->active[lookup->active_count++] = (uint32) lookup->order[lookup->next++].tid;
	lookup->current = 0;
	return true;
}

/* Find the hits of the next probe on the page; false if that was the last one. */
static bool
next_probe(HmLookup *lookup)
{
	HtEntry		begin = lookup->position.entry;
	int			n = 0;

	if (!lookup->has_page || lookup->current == lookup->active_count)
		return false;
	lookup->item_probe = lookup->active[lookup->current++];
	lookup->item = 0;
	lookup->item_count = 0;
	if (lookup->done != NULL && lookup->done[lookup->item_probe])
		return true;

	n = ht_leaf_read_range(lookup->page, lookup->width,
						   Max(lookup->probes.low[lookup->item_probe], begin.key),
						   probe_high(lookup, lookup->item_probe), lookup->items);
	for (int i = 0; i < n; i++)
	{
		if (ht_entry_cmp(lookup->items[i], begin) >= 0)
			lookup->items[lookup->item_count++] = lookup->items[i];
	}
	return true;
}

uint32
hm_lookup_next(HmLookup *lookup, HmHit *hits, uint64 *keys, uint32 max)
{
	instr_time	start,
				end;
	uint32		n = 0;

	INSTR_TIME_SET_CURRENT(start);
	while (n < max)
	{
		if (lookup->item < lookup->item_count)
		{
			hits[n].tid = lookup->items[lookup->item].tid;
			hits[n].probe = lookup->item_probe;
			hits[n].unused = 0;
			if (keys != NULL)
				keys[n] = lookup->items[lookup->item].key;
			lookup->item++;
			n++;
		}
		else if (!next_probe(lookup) && !next_leaf(lookup))
			break;
	}
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	lookup->stats.search_ns += INSTR_TIME_GET_DOUBLE(end) * 1e9;
	lookup->stats.hits += n;
	pgstat_count_index_tuples(lookup->index, n);
	return n;
}
