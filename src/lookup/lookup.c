/*
 * lookup.c
 *		Batch lookup on the CPU: a walk through the index in key order.
 *
 * The probes are sorted by where they begin, one radix partition at a time (PSA).  The
 * walk enters a segment through its header and finds the route: the leaves that the
 * next probes lead to.  It visits these from left to right.  It pins leaves ahead, so
 * that what the search will read is in the cache by then; it locks one leaf, and
 * answers all probes that reach into it.
 *
 * Between leaves the walk remembers only a position of the index, up to which
 * everything has been answered.  If a leaf is not what the route says, because it was
 * split or its segment was replaced, the walk makes a new route from that position.
 *
 * Hits go directly from the locked page to the caller.  No pin and no lock outlives a
 * call.  If not all of a leaf's hits fit, the leaf is left to the next call.  If it was
 * the first leaf of the call, it is copied instead, and the following calls answer from
 * the copy.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "am/fault.h"
#include "compat.h"
#include "lookup/remote.h"
#include "lookup/walk.h"

/*
 * After this many routes in a row without a leaf that is needed, the index is damaged.
 */
#define MAX_ATTEMPTS	10000

/* The time to sort fewer probes than this is not measured. */
#define TIMED_PROBES	32

/*
 * How many leaves ahead of the search the cache is asked to fetch what is read next:
 * first buffer headers and first lines of pages, then lines of separators, then blocks.
 * A leaf is pinned between the first and the second.  A backend can hold eight pins at
 * low cost.
 */
#define HEADER_AHEAD		12
#define PIN_AHEAD			6
#define SEPARATORS_AHEAD	5
#define BLOCKS_AHEAD		3

/* With this many probes on a leaf the whole coarse index is prefetched at once. */
#define COARSE_MIN_PROBES	5
#define LAST_SEPARATORS		(HT_LEAF_SEPARATORS_AT + 448)

/* The number of hits of a walk that are shown to a reader in one call. */
#define SHOWN_HITS		256

struct HmLookup
{
	Relation	index;
	HtWidth		width;
	const HtSearch *search;
	uint32		capacity;
	Snapshot	snapshot;
	HmLookupStats stats;

	/* The batch.  The CPU searches all of its probes from "base" on. */
	HmProbes	batch;
	const uint8 *batch_done;
	HmRemote   *remote;
	bool		begun;			/* it has been decided whether the device searches */
	bool		on_device;		/* the device has searched so far */
	double		walk_ns;		/* time that the CPU has spent */
	uint32		base;
	uint32		distinct_room;	/* room of the next two, which the device gets
								 * instead of points that must be distinct */
	uint64	   *distinct_low;
	uint32	   *distinct_numbers;
	const uint32 *numbers;		/* numbers of these in the batch, or NULL */
	HmProbes	probes;
	const uint8 *done;
	HtProbe    *sorted;
	HtProbe    *scratch;		/* for sorting a radix partition */
	uint32		scratch_room;
	uint32		ready;			/* sorted probes that can have hits */
	bool		complete;		/* all probes are sorted */

	/* The progress of the walk. */
	uint32		next;			/* first sorted probe that has not begun */
	HmPosition	position;		/* of probes that have begun, everything before this
								 * has been answered */
	uint32	   *active;			/* probes that have begun and not ended */
	uint32		active_count;

	/* The progress on the route. */
	uint32		current;		/* leaf to visit next */
	uint32		pinned;			/* the leaves from "current" to before this one are
								 * pinned */
	uint32		headers_asked,	/* leaves that have been prefetched, in three stages */
				separators_asked,
				blocks_asked;

	/* The leaf that is being answered. */
	bool		on_leaf;
	HmPosition	high;			/* where it ends */
	BlockNumber right;
	bool		filter;			/* it begins below "position": skip entries before
								 * that */
	uint32		group_begin,	/* sorted probes that begin on it */
				group_end;
	uint32		answered_active,	/* active probes that have been answered there */
				answered;		/* sorted probes before this one have been answered */
	char	   *copy;			/* NULL until one is needed */
	bool		forget;			/* drop the route once that leaf has been answered */

	/* The hits of one probe on the leaf, if they are returned in portions. */
	uint32		portion;
	uint32		portion_end;
	HtHit	   *portion_hits;	/* NULL until they are needed */
	uint64	   *portion_keys;

	/* Large members, which need no values before the walk starts. */
	HtPsa		psa;
	HmRoute		route;
};

/* The caller's arrays for hits. */
typedef struct Output
{
	HmHit	   *hits;
	uint64	   *keys;			/* or NULL */
	uint32		n;
	uint32		max;
} Output;

Size
hm_lookup_probe_memory(void)
{
	return sizeof(HtProbe) + sizeof(uint32);
}

HmLookup *
hm_lookup_create(Relation index, uint32 capacity)
{
	HmLookup   *lookup = palloc(sizeof(HmLookup));

	memset(lookup, 0, offsetof(HmLookup, psa));
	lookup->index = index;
	lookup->width = hm_cache(index, false)->width;
	lookup->search = ht_search(lookup->width, NULL);
	lookup->capacity = capacity;
	lookup->sorted = hm_alloc_large(capacity * sizeof(HtProbe));
	lookup->active = palloc_extended(capacity * sizeof(uint32), MCXT_ALLOC_HUGE);
	lookup->remote = hm_remote_create(index, lookup->width, &lookup->stats);
	return lookup;
}

bool
hm_lookup_set_variant(HmLookup *lookup, const char *variant)
{
	const HtSearch *search = ht_search(lookup->width, variant);

	if (search == NULL)
		return false;
	lookup->search = search;
	return true;
}

void
hm_lookup_set_snapshot(HmLookup *lookup, Snapshot snapshot)
{
	lookup->snapshot = snapshot;
}

const HmLookupStats *
hm_lookup_stats(const HmLookup *lookup)
{
	return &lookup->stats;
}

void
hm_lookup_stats_add(HmLookupStats *sum, const HmLookupStats *stats)
{
	hm_batch_counts_add(&sum->counts, &stats->counts);
	sum->segments += stats->segments;
	sum->leaves += stats->leaves;
	sum->restarts += stats->restarts;
	sum->synced_lines += stats->synced_lines;
	sum->sort_ns += stats->sort_ns;
	sum->search_ns += stats->search_ns;
	if (stats->reason_probes > sum->reason_probes)
	{
		sum->reason = stats->reason;
		sum->reason_probes = stats->reason_probes;
	}
}

void
hm_lookup_end(HmLookup *lookup)
{
	hm_remote_end(lookup->remote);
	if (hm_device_state() != HM_DEVICE_NOT_LOADED && lookup->stats.counts.batches > 0)
		hm_stats_add(RelationGetRelid(lookup->index), &lookup->stats.counts);
	pfree(lookup->sorted);
	if (lookup->scratch != NULL)
		pfree(lookup->scratch);
	if (lookup->distinct_low != NULL)
	{
		pfree(lookup->distinct_low);
		pfree(lookup->distinct_numbers);
	}
	pfree(lookup->active);
	if (lookup->copy != NULL)
		pfree(lookup->copy);
	if (lookup->portion_hits != NULL)
	{
		pfree(lookup->portion_hits);
		pfree(lookup->portion_keys);
	}
	pfree(lookup);
}

static inline uint64
probe_high(const HmLookup *lookup, uint32 probe)
{
	return lookup->probes.high == NULL ? lookup->probes.low[probe] : lookup->probes.high[probe];
}

static inline bool
is_done(const HmLookup *lookup, uint32 probe)
{
	return lookup->done != NULL && lookup->done[probe] != 0;
}

static void
add_time(double *total, instr_time start)
{
	instr_time	end;

	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	*total += INSTR_TIME_GET_DOUBLE(end) * 1e9;
}

/* Reading the clock takes longer than sorting a few probes. */
static inline void
start_sort_time(const HmLookup *lookup, instr_time *start)
{
	if (lookup->probes.count >= TIMED_PROBES)
		INSTR_TIME_SET_CURRENT(*start);
}

static inline void
add_sort_time(HmLookup *lookup, instr_time start)
{
	if (lookup->probes.count >= TIMED_PROBES)
		add_time(&lookup->stats.sort_ns, start);
}

/* Make room for the largest radix partition.  It is small, unless keys are skewed. */
static void
make_scratch_room(HmLookup *lookup)
{
	if (lookup->psa.largest <= lookup->scratch_room)
		return;
	if (lookup->scratch != NULL)
		pfree(lookup->scratch);
	lookup->scratch_room = lookup->psa.largest;
	lookup->scratch = MemoryContextAllocHuge(GetMemoryChunkContext(lookup),
											 lookup->scratch_room * sizeof(HtProbe));
}

void
hm_lookup_start(HmLookup *lookup, const HmProbes *probes, const uint8 *done)
{
	Assert(probes->count <= lookup->capacity);
	Assert(!probes->distinct || (probes->high == NULL && done == NULL));
	hm_batch_apply(lookup->index);
	pgstat_count_index_scan(lookup->index);
	hm_remote_stop(lookup->remote);

	lookup->batch = *probes;
	lookup->batch_done = done;
	lookup->numbers = NULL;
	lookup->begun = false;
	lookup->on_device = false;
	lookup->stats.counts.batches++;
	lookup->stats.counts.keys += probes->count;
}

/* Start the walk for the batch's probes from number "base" on. */
static void
start_walk(HmLookup *lookup, uint32 base)
{
	HmProbes   *probes = &lookup->probes;
	instr_time	start = {0};

	lookup->base = base;
	probes->count = lookup->batch.count - base;
	start_sort_time(lookup, &start);
	probes->low = lookup->batch.low + base;
	probes->high = lookup->batch.high == NULL ? NULL : lookup->batch.high + base;
	probes->distinct = lookup->batch.distinct;
	lookup->done = lookup->batch_done == NULL ? NULL : lookup->batch_done + base;
	ht_psa_start(&lookup->psa, probes->low, probes->count, lookup->sorted);
	make_scratch_room(lookup);
	lookup->ready = 0;
	lookup->complete = probes->count == 0;
	add_sort_time(lookup, start);

	lookup->next = 0;
	lookup->position = hm_position(HM_PART_KEYS, 0, 0);
	lookup->active_count = 0;
	lookup->route.count = 0;
	lookup->current = 0;
	lookup->pinned = 0;
	lookup->on_leaf = false;
	lookup->forget = false;
	lookup->portion = lookup->portion_end = 0;
	lookup->walk_ns = 0;
}

/* ----------------------------------------------------------------
 *		Targets and routes
 * ----------------------------------------------------------------
 */

/*
 * Take over newly sorted probes, from "begin" on: all of them, or one for each distinct
 * key.
 */
static void
add_sorted(HmLookup *lookup, uint32 begin)
{
	HtProbe    *sorted = lookup->sorted;
	uint32		end = lookup->psa.sorted;
	uint32		ready = lookup->ready;

	if (!lookup->probes.distinct)
	{
		lookup->ready = end;
		return;
	}

	/* Equal keys are in the same radix partition. */
	for (uint32 i = begin; i < end; i++)
	{
		if (i == begin || sorted[i].key != sorted[i - 1].key)
			sorted[ready++] = sorted[i];
	}
	lookup->ready = ready;
}

/* Sort one more radix partition. */
static void
sort_more(HmLookup *lookup)
{
	uint32		begin = lookup->psa.sorted;
	instr_time	start = {0};

	start_sort_time(lookup, &start);
	ht_psa_more(&lookup->psa, lookup->scratch);
	add_sorted(lookup, begin);
	lookup->complete = lookup->psa.sorted == lookup->psa.count;

	/* Drop keys that do not fit the width: no entry has them. */
	while (lookup->ready > lookup->next &&
		   lookup->sorted[lookup->ready - 1].key > ht_key_max(lookup->width))
	{
		lookup->ready--;
		lookup->complete = true;
	}
	add_sort_time(lookup, start);
}

/* Drop active probes that the caller has marked as done. */
static void
drop_done(HmLookup *lookup)
{
	uint32		kept = 0;

	if (lookup->done == NULL)
		return;
	for (uint32 i = 0; i < lookup->active_count; i++)
	{
		if (!is_done(lookup, lookup->active[i]))
			lookup->active[kept++] = lookup->active[i];
	}
	lookup->active_count = kept;
}

/*
 * The position to look at next: where active probes go on or, if there are none, where
 * the next probe begins.  Returns false if there is neither.
 */
static bool
next_target(HmLookup *lookup, HmPosition *target)
{
	if (lookup->active_count > 0)
	{
		*target = lookup->position;
		return true;
	}
	for (;;)
	{
		while (lookup->next < lookup->ready &&
			   is_done(lookup, lookup->sorted[lookup->next].number))
			lookup->next++;
		if (lookup->next < lookup->ready)
			break;
		if (lookup->complete)
			return false;
		sort_more(lookup);
	}
	*target = hm_position(HM_PART_KEYS, lookup->sorted[lookup->next].key, 0);
	return true;
}

/* Release all pins: the route outlives a call, but pins do not. */
static void
release_pins(HmLookup *lookup)
{
	for (uint32 i = lookup->current; i < lookup->pinned; i++)
	{
		if (BufferIsValid(lookup->route.leaves[i].buffer))
			ReleaseBuffer(lookup->route.leaves[i].buffer);
		lookup->route.leaves[i].buffer = InvalidBuffer;
	}
	lookup->pinned = lookup->current;
	lookup->separators_asked = Min(lookup->separators_asked, lookup->current);
	lookup->blocks_asked = Min(lookup->blocks_asked, lookup->current);
}

static void
drop_route(HmLookup *lookup)
{
	release_pins(lookup);
	lookup->route.count = 0;
	lookup->current = 0;
	lookup->pinned = 0;
}

/* Skip leaves whose probes are no longer wanted. */
static void
skip_leaves(HmLookup *lookup)
{
	HmRoute	   *route = &lookup->route;

	while (lookup->current < route->count && lookup->active_count == 0 &&
		   route->leaves[lookup->current].end <= lookup->next)
	{
		if (lookup->current < lookup->pinned)
			ReleaseBuffer(route->leaves[lookup->current].buffer);
		lookup->current++;
	}
}

/*
 * Make a route from the target on.  Returns false if the index ends before the target.
 */
static bool
make_route(HmLookup *lookup, HmPosition target)
{
	HmRouteInput input;
	HmRouteResult result;

	input.index = lookup->index;
	input.width = lookup->width;
	input.probes = lookup->sorted;
	input.high = lookup->probes.high;
	input.next = lookup->next;
	input.target = target;
	input.has_reach = lookup->active_count > 0;
	input.reach = 0;
	for (uint32 i = 0; i < lookup->active_count; i++)
		input.reach = Max(input.reach, probe_high(lookup, lookup->active[i]));

	do
	{
		input.sorted = lookup->ready;
		input.complete = lookup->complete;
		result = hm_route_make(&lookup->route, &input);
		lookup->stats.segments += lookup->route.segments;
		if (result == HM_ROUTE_MORE)
			sort_more(lookup);
	} while (result == HM_ROUTE_MORE);

	lookup->current = 0;
	lookup->pinned = 0;
	lookup->headers_asked = 0;
	lookup->separators_asked = 0;
	lookup->blocks_asked = 0;
	return result == HM_ROUTE_MADE;
}

/* ----------------------------------------------------------------
 *		Looking ahead
 * ----------------------------------------------------------------
 */

/* The probes that begin on a leaf, according to the route. */
static inline HtProbe *
routed_probes(const HmLookup *lookup, uint32 leaf, uint32 *count)
{
	uint32		begin = leaf == 0 ? lookup->next : lookup->route.leaves[leaf - 1].end;

	/* Leave out those that have begun already. */
	begin = Max(begin, lookup->next);
	*count = lookup->route.leaves[leaf].end > begin ? lookup->route.leaves[leaf].end - begin : 0;
	return &lookup->sorted[begin];
}

static inline void
look_ahead(HmLookup *lookup)
{
	HmRoute	   *route = &lookup->route;
	uint32		limit;
	uint32		count;

	limit = Min(route->count, lookup->current + HEADER_AHEAD);
	while (lookup->headers_asked < limit)
	{
		routed_probes(lookup, lookup->headers_asked, &count);
		hm_pin_prefetch(lookup->index, route->leaves[lookup->headers_asked].block,
						HT_PAGE_START,
						count >= COARSE_MIN_PROBES ? LAST_SEPARATORS : HT_PAGE_START,
						count > 1);
		lookup->headers_asked++;
	}

	/* Leaves that were skipped, or answered from a copy, are not pinned. */
	lookup->pinned = Max(lookup->pinned, lookup->current);
	lookup->separators_asked = Max(lookup->separators_asked, lookup->current);
	lookup->blocks_asked = Max(lookup->blocks_asked, lookup->current);

	limit = Min(route->count, lookup->current + PIN_AHEAD);
	while (lookup->pinned < limit)
	{
		HmRouteLeaf *leaf = &route->leaves[lookup->pinned];

		leaf->buffer = hm_pin(lookup->index, leaf->block);
		lookup->pinned++;
	}

	/* What is read from unlocked pages here only decides what is prefetched. */
	limit = Min(route->count, lookup->current + SEPARATORS_AHEAD);
	while (lookup->separators_asked < limit)
	{
		HtProbe    *probes = routed_probes(lookup, lookup->separators_asked, &count);

		if (count < COARSE_MIN_PROBES)
			lookup->search->prefetch_separators(BufferGetPage(route->leaves[lookup->separators_asked].buffer),
												probes, count);
		lookup->separators_asked++;
	}

	limit = Min(route->count, lookup->current + BLOCKS_AHEAD);
	while (lookup->blocks_asked < limit)
	{
		HtProbe    *probes = routed_probes(lookup, lookup->blocks_asked, &count);

		lookup->search->prefetch_blocks(BufferGetPage(route->leaves[lookup->blocks_asked].buffer),
										probes, count);
		lookup->blocks_asked++;
	}
}

/* ----------------------------------------------------------------
 *		Answering on a leaf
 * ----------------------------------------------------------------
 */

/* Collect the hits of one probe on the page, to return them in portions. */
static void
make_portions(HmLookup *lookup, const char *page, uint32 probe, bool filter)
{
	HtEntry		begin = lookup->position.entry;
	uint32		n;

	if (lookup->portion_hits == NULL)
	{
		MemoryContext context = GetMemoryChunkContext(lookup);

		lookup->portion_hits = MemoryContextAlloc(context, HT_LEAF_MAX_ENTRIES * sizeof(HtHit));
		lookup->portion_keys = MemoryContextAlloc(context, HT_LEAF_MAX_ENTRIES * sizeof(uint64));
	}
	n = lookup->search->range(page, lookup->probes.low[probe], probe_high(lookup, probe), probe,
							  lookup->portion_hits, lookup->portion_keys, HT_LEAF_MAX_ENTRIES);

	/* Only a damaged page has more. */
	if (n == HT_NO_ROOM)
		n = HT_LEAF_MAX_ENTRIES;
	lookup->portion = 0;
	lookup->portion_end = n;
	if (!filter)
		return;

	lookup->portion_end = 0;
	for (uint32 i = 0; i < n; i++)
	{
		HtEntry		entry = {lookup->portion_keys[i], lookup->portion_hits[i].tid};

		if (ht_entry_cmp(entry, begin) < 0)
			continue;
		lookup->portion_hits[lookup->portion_end] = lookup->portion_hits[i];
		lookup->portion_keys[lookup->portion_end] = lookup->portion_keys[i];
		lookup->portion_end++;
	}
}

/* Return a portion.  Returns false if more is left than fits. */
static bool
emit_portion(HmLookup *lookup, Output *output)
{
	uint32		n = Min(lookup->portion_end - lookup->portion, output->max - output->n);

	memcpy(output->hits + output->n, lookup->portion_hits + lookup->portion, n * sizeof(HmHit));
	if (output->keys != NULL)
		memcpy(output->keys + output->n, lookup->portion_keys + lookup->portion,
			   n * sizeof(uint64));
	output->n += n;
	lookup->portion += n;
	return lookup->portion == lookup->portion_end;
}

/*
 * Answer one probe.  Returns false if the output is full before all of it is answered.
 * The caller passes the low end, because it is at hand in the sorted probes; in the
 * batch, which is in any order, it would be far from the cache.
 */
static bool
answer_one(HmLookup *lookup, const char *page, uint64 low, uint32 probe, bool filter,
		   Output *output)
{
	uint32		n = HT_NO_ROOM;

	if (is_done(lookup, probe))
		return true;
	if (!filter)
		n = lookup->search->range(page, low, probe_high(lookup, probe),
								  probe, output->hits + output->n,
								  output->keys == NULL ? NULL : output->keys + output->n,
								  output->max - output->n);
	if (n != HT_NO_ROOM)
	{
		output->n += n;
		return true;
	}
	make_portions(lookup, page, probe, filter);
	return emit_portion(lookup, output);
}

/*
 * Answer the points that begin on the leaf.  Returns false if the output is full before
 * the end.
 */
static bool
answer_points(HmLookup *lookup, const char *page, Output *output)
{
	while (lookup->answered < lookup->group_end)
	{
		const HtProbe *probes = &lookup->sorted[lookup->answered];
		uint32		count = lookup->group_end - lookup->answered;
		uint32		found;
		uint32		n;

		if (lookup->done != NULL)
		{
			uint32		wanted = 0;

			while (wanted < count && !lookup->done[probes[wanted].number])
				wanted++;
			if (wanted == 0)
			{
				lookup->answered++;
				continue;
			}
			count = wanted;
		}

		n = lookup->search->points(page, probes, count, output->hits + output->n,
								   output->keys == NULL ? NULL : output->keys + output->n,
								   output->max - output->n, &found);
		output->n += found;
		lookup->answered += n;
		if (n < count)
		{
			/* Little room is left, but all hits of this probe may still fit. */
			if (!answer_one(lookup, page, probes[n].key, probes[n].number, false, output))
			{
				lookup->answered++;
				return false;
			}
			lookup->answered++;
		}
	}
	return true;
}

/*
 * Answer what is left to answer on the leaf, from the locked page or a copy.  Returns
 * false if the output is full before the end.
 */
static bool
answer(HmLookup *lookup, const char *page, Output *output)
{
	if (lookup->portion < lookup->portion_end && !emit_portion(lookup, output))
		return false;

	while (lookup->answered_active < lookup->active_count)
	{
		uint32		probe = lookup->active[lookup->answered_active++];

		if (!answer_one(lookup, page, lookup->probes.low[probe], probe, lookup->filter, output))
			return false;
	}
	if (lookup->probes.high == NULL)
		return answer_points(lookup, page, output);
	while (lookup->answered < lookup->group_end)
	{
		const HtProbe *probe = &lookup->sorted[lookup->answered++];

		if (!answer_one(lookup, page, probe->key, probe->number, false, output))
			return false;
	}
	return true;
}

/* Can a probe have entries after this leaf? */
static inline bool
goes_on(const HmLookup *lookup, uint32 probe)
{
	return lookup->high.part == HM_PART_KEYS &&
		probe_high(lookup, probe) >= lookup->high.entry.key &&
		!is_done(lookup, probe);
}

/* The leaf has been answered: keep the probes that go on, and check the route. */
static void
finish_leaf(HmLookup *lookup)
{
	HmRoute	   *route = &lookup->route;
	uint32		kept = 0;

	for (uint32 i = 0; i < lookup->active_count; i++)
	{
		if (goes_on(lookup, lookup->active[i]))
			lookup->active[kept++] = lookup->active[i];
	}
	if (lookup->probes.high == NULL)
	{
		/* Of points, only those with the last key can go on. */
		for (uint32 i = lookup->group_end; i > lookup->group_begin; i--)
		{
			uint32		probe = lookup->sorted[i - 1].number;

			if (lookup->high.part != HM_PART_KEYS ||
				lookup->sorted[i - 1].key < lookup->high.entry.key)
				break;
			if (goes_on(lookup, probe))
				lookup->active[kept++] = probe;
		}
	}
	else
	{
		for (uint32 i = lookup->group_begin; i < lookup->group_end; i++)
		{
			if (goes_on(lookup, lookup->sorted[i].number))
				lookup->active[kept++] = lookup->sorted[i].number;
		}
	}
	lookup->active_count = kept;
	lookup->position = lookup->high;
	lookup->on_leaf = false;

	/*
	 * If probes go on to the right, the next leaf of the route must be the right
	 * neighbour; after a split it is not.
	 */
	if (lookup->active_count > 0 || lookup->next < route->leaves[lookup->current].end)
	{
		if (lookup->current + 1 == route->count ||
			route->leaves[lookup->current + 1].block != lookup->right)
		{
			lookup->current++;
			drop_route(lookup);
			return;
		}
	}
	lookup->current++;
}

/*
 * Is a locked page the leaf of the route, and does it hold the target's position?
 * Stamps are never 0, so comparing them does what hm_page_is() does, without reading the
 * cache line of the page header.  The kind, in the page's last line, matters only for
 * pages without a high bound: with one, only leaves pass the comparison of bounds,
 * because the bounds of a segment's other pages are zero.
 */
static inline bool
leaf_covers(const HmRouteLeaf *leaf, Page page, HmPosition target)
{
	HmSpecial  *special = hm_page_special(page);

	return special->stamp == leaf->stamp &&
		(hm_page_has_high(page) || hm_page_is(page, HM_PAGE_LEAF)) &&
		hm_position_cmp(hm_page_low(page), target) <= 0 &&
		hm_position_cmp(target, hm_page_high(page)) < 0;
}

/* Begin to answer on a leaf that covers the target. */
static void
begin_leaf(HmLookup *lookup, Page page, uint32 end)
{
	lookup->on_leaf = true;
	lookup->high = hm_page_high(page);
	lookup->right = hm_page_special(page)->right;
	lookup->filter = lookup->active_count > 0 &&
		hm_position_cmp(hm_page_low(page), lookup->position) < 0;
	lookup->answered_active = 0;
	lookup->answered = lookup->group_begin = lookup->next;

	/* After a split, probes beyond the leaf's new end are not answered here. */
	if (lookup->high.part == HM_PART_KEYS)
	{
		while (end > lookup->next &&
			   hm_position_cmp(hm_position(HM_PART_KEYS, lookup->sorted[end - 1].key, 0),
							   lookup->high) >= 0)
			end--;
	}
	lookup->group_end = lookup->next = Max(end, lookup->next);
}

/* Leave a leaf to the next call. */
static void
put_off_leaf(HmLookup *lookup)
{
	lookup->next = lookup->group_begin;
	lookup->portion = lookup->portion_end = 0;
	lookup->on_leaf = false;
}

/*
 * Visit the next leaf.  Returns false if not all of its hits fit in the output, or if
 * nothing is left to visit.
 */
static bool
visit_leaf(HmLookup *lookup, Output *output)
{
	uint32		before = output->n;

	for (int attempt = 0;; attempt++)
	{
		HmPosition	target;
		HmRouteLeaf *leaf;
		Page		page;
		bool		answered;

		drop_done(lookup);
		if (!next_target(lookup, &target))
			return false;
		CHECK_FOR_INTERRUPTS();
		skip_leaves(lookup);
		if (lookup->current == lookup->route.count && !make_route(lookup, target))
		{
			lookup->next = lookup->ready;
			lookup->complete = true;
			lookup->active_count = 0;
			return false;
		}

		look_ahead(lookup);
		HM_FAULT(lookup_planned);
		leaf = &lookup->route.leaves[lookup->current];
		LockBuffer(leaf->buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(leaf->buffer);
		if (!leaf_covers(leaf, page, target))
		{
			/* Split, or retired and reused: start again from the directory. */
			if (attempt == MAX_ATTEMPTS)
				hm_page_no_progress(lookup->index, leaf->buffer);
			LockBuffer(leaf->buffer, BUFFER_LOCK_UNLOCK);
			drop_route(lookup);
			lookup->stats.restarts++;
			continue;
		}

		lookup->stats.leaves++;
		if (lookup->snapshot != NULL)
			hm_test_old_snapshot(lookup->snapshot, lookup->index, page);
		begin_leaf(lookup, page, leaf->end);
		answered = answer(lookup, (const char *) page, output);
		if (!answered && before > 0)
		{
			LockBuffer(leaf->buffer, BUFFER_LOCK_UNLOCK);
			output->n = before;
			put_off_leaf(lookup);
			return false;
		}
		if (!answered)
		{
			if (lookup->copy == NULL)
				lookup->copy = MemoryContextAlloc(GetMemoryChunkContext(lookup), BLCKSZ);
			memcpy(lookup->copy, page, BLCKSZ);
		}
		UnlockReleaseBuffer(leaf->buffer);
		leaf->buffer = InvalidBuffer;
		if (answered)
			finish_leaf(lookup);
		return answered;
	}
}

/*
 * Replace the batch by one of each distinct point, for the device, and remember their
 * numbers.  If the device fails, the walk goes on with these.
 */
static void
make_distinct(HmLookup *lookup)
{
	MemoryContext context = GetMemoryChunkContext(lookup);
	uint32		capacity = lookup->batch.count;
	uint32		count = 0;

	start_walk(lookup, 0);
	while (!lookup->complete)
		sort_more(lookup);
	count = lookup->ready;
	if (lookup->distinct_low == NULL || lookup->distinct_room < capacity)
	{
		if (lookup->distinct_low != NULL)
		{
			pfree(lookup->distinct_low);
			pfree(lookup->distinct_numbers);
		}
		lookup->distinct_room = capacity;
		lookup->distinct_low = MemoryContextAllocHuge(context, capacity * sizeof(uint64));
		lookup->distinct_numbers = MemoryContextAllocHuge(context, capacity * sizeof(uint32));
	}
	for (uint32 i = 0; i < count; i++)
	{
		lookup->distinct_low[i] = lookup->sorted[i].key;
		lookup->distinct_numbers[i] = lookup->sorted[i].number;
	}
	lookup->batch.low = lookup->distinct_low;
	lookup->batch.count = count;
	lookup->batch.distinct = false;
	lookup->numbers = lookup->distinct_numbers;
}

/* Note why the CPU searches a batch, or the first part of it. */
static void
note_reason(HmLookup *lookup, HmCpuReason reason)
{
	if (lookup->batch.count >= lookup->stats.reason_probes)
	{
		lookup->stats.reason = reason;
		lookup->stats.reason_probes = lookup->batch.count;
	}
}

/* Decide whether the device searches a batch. */
static void
begin_batch(HmLookup *lookup, bool keys_wanted)
{
	HmCpuReason reason = hm_remote_choose(lookup->remote, &lookup->batch, keys_wanted);

	lookup->begun = true;
	if (reason == HM_CPU_NO_REASON)
	{
		if (lookup->batch.distinct && !hm_remote_makes_distinct(lookup->remote, &lookup->batch))
			make_distinct(lookup);
		reason = hm_remote_start(lookup->remote, &lookup->batch, lookup->batch_done);
	}
	lookup->on_device = reason == HM_CPU_NO_REASON;
	if (lookup->on_device)
		return;
	note_reason(lookup, reason);
	start_walk(lookup, 0);
}

/*
 * Continue the walk.  Returns no hits at its end.  The first *stale hits were read from
 * their page before this call.
 */
static uint32
walk_on(HmLookup *lookup, HmHit *hits, uint64 *keys, uint32 max, uint32 *stale)
{
	Output		output = {hits, keys, 0, max};

	if (lookup->on_leaf && answer(lookup, lookup->copy, &output))
		finish_leaf(lookup);
	*stale = output.n;
	if (lookup->forget && !lookup->on_leaf)
	{
		drop_route(lookup);
		lookup->forget = false;
	}
	while (!lookup->on_leaf && output.n < max)
	{
		if (!visit_leaf(lookup, &output))
			break;
	}
	release_pins(lookup);

	for (uint32 i = 0; lookup->base > 0 && i < output.n; i++)
		hits[i].probe += lookup->base;
	return output.n;
}

bool
hm_lookup_at_end(const HmLookup *lookup)
{
	return lookup->begun && !lookup->on_device && !lookup->on_leaf && lookup->complete &&
		lookup->active_count == 0 && lookup->next >= lookup->ready;
}

bool
hm_lookup_is_exact(const HmLookup *lookup)
{
	return !lookup->on_device;
}

/*
 * Return the next hits.  The first *stale of them were read before this call, or have been
 * shown to the reader.  Hits that are only counted are added to *counted.
 */
static uint32
next_hits(HmLookup *lookup, HmHit *hits, uint64 *keys, uint32 max, uint32 *stale,
		  uint64 *counted)
{
	bool		was_at_end = hm_lookup_at_end(lookup);
	double		sorted_before = lookup->stats.sort_ns;
	double		taken = 0;
	instr_time	start;
	HmCpuReason reason;
	uint32		rest;
	uint32		n = 0;
	uint64		only_counted = 0;

	INSTR_TIME_SET_CURRENT(start);
	if (!lookup->begun)
		begin_batch(lookup, keys != NULL);
	if (lookup->on_device)
	{
		n = hm_remote_next(lookup->remote, hits, keys, max, &rest, &reason, &only_counted);
		*stale = n;
		if (n == 0 && rest != HM_NO_PROBE)
		{
			/* If the device has failed, the CPU goes on where it stopped. */
			lookup->on_device = false;
			if (rest == 0)
				note_reason(lookup, reason);
			start_walk(lookup, rest);
		}
	}
	if (!lookup->on_device)
		n = walk_on(lookup, hits, keys, max, stale);
	for (uint32 i = 0; i < n; i++)
		hm_tid_check(lookup->index, hits[i].tid);
	for (uint32 i = 0; lookup->numbers != NULL && i < n; i++)
	{
		if (hits[i].probe != HM_NO_PROBE)
			hits[i].probe = lookup->numbers[hits[i].probe];
	}
	add_time(&taken, start);
	if (!lookup->on_device)
		lookup->walk_ns += taken;
	if (lookup->base == 0 && !was_at_end && hm_lookup_at_end(lookup))
		hm_remote_note_cpu(lookup->remote, lookup->batch.count, lookup->walk_ns);
	lookup->stats.search_ns += taken - (lookup->stats.sort_ns - sorted_before);

	*counted += only_counted;
	lookup->stats.counts.hits += n + only_counted;
	pgstat_count_index_tuples(lookup->index, n + only_counted);
	HM_FAULT(lookup_read);
	return n;
}

uint32
hm_lookup_next(HmLookup *lookup, HmHit *hits, uint64 *keys, uint32 max)
{
	uint32		stale;
	uint64		counted = 0;

	return next_hits(lookup, hits, keys, max, &stale, &counted);
}

/* ----------------------------------------------------------------
 *		The visibility gate
 * ----------------------------------------------------------------
 */

/*
 * Do what may take long before the gate is entered, where VACUUM waits: if the device is to
 * search, load a copy of the index.
 */
static void
prepare(HmLookup *lookup, bool keys_wanted)
{
	double		taken = 0;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	if (!lookup->begun)
		begin_batch(lookup, keys_wanted);
	else if (lookup->on_device)
		hm_remote_prepare(lookup->remote);
	add_time(&taken, start);
	lookup->stats.search_ns += taken;
}

/* Forget what has been read of the index: it may be older than the entry of the gate. */
static void
forget_pages(HmLookup *lookup)
{
	lookup->forget = true;
	hm_remote_forget(lookup->remote);
}

/* Show hits to a reader, and store what it says of them. */
static void
show_hits(HmHit *hits, uint32 n, HmTidReader reader, void *argument)
{
	uint64		tids[SHOWN_HITS];
	uint8		all_visible[SHOWN_HITS];

	for (uint32 begin = 0; begin < n; begin += SHOWN_HITS)
	{
		uint32		count = Min(SHOWN_HITS, n - begin);

		for (uint32 i = 0; i < count; i++)
			tids[i] = hits[begin + i].tid;
		reader(argument, tids, count, all_visible);
		for (uint32 i = 0; i < count; i++)
			hits[begin + i].all_visible = all_visible[i];
	}
}

/*
 * Hits that the walk has read before the gate was entered may be of rows that VACUUM has
 * removed since, so the map says nothing about them.  Hits of the device have been shown
 * to the reader when they came, in this entry of the gate or an earlier one.
 */
uint32
hm_lookup_next_in_gate(HmLookup *lookup, HmTidReader reader, void *argument, HmHit *hits,
					   uint64 *keys, uint32 max, uint64 *counted)
{
	BlockNumber door;
	uint32		stale;
	uint32		n;
	uint64		none = 0;

	hm_remote_set_reader(lookup->remote, reader, argument, counted != NULL);
	prepare(lookup, keys != NULL);
	HM_FAULT(lookup_prepared);
	door = hm_visibility_gate_enter(lookup->index);
	forget_pages(lookup);
	n = next_hits(lookup, hits, keys, Min(max, HM_GATE_MAX_HITS), &stale,
				  counted != NULL ? counted : &none);
	show_hits(hits + stale, n - stale, reader, argument);
	hm_visibility_gate_leave(lookup->index, door);
	hm_remote_set_reader(lookup->remote, NULL, NULL, false);
	return n;
}
