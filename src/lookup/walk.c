/*
 * walk.c
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

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "am/fault.h"
#include "am/format.h"
#include "compat.h"
#include "lookup/walk_state.h"

/*
 * After this many routes in a row without a leaf that is needed, the index is damaged.
 */
#define MAX_ATTEMPTS 10000

/* The time to sort fewer probes than this is not measured. */
#define TIMED_PROBES 32

static HmWalk *
create_walk(Relation index, uint32 capacity, HmLookupStats *stats)
{
	HmWalk *walk = palloc(sizeof(HmWalk));

	memset(walk, 0, offsetof(HmWalk, psa));
	walk->index = index;
	walk->width = hm_key_width(index);
	walk->search = ht_search(NULL);
	walk->stats = stats;
	walk->sorted = hm_alloc_large(capacity * sizeof(HtProbe));
	walk->active = palloc_extended(capacity * sizeof(uint32), MCXT_ALLOC_HUGE);
	return walk;
}

static void
end_walk(HmWalk *walk)
{
	pfree(walk->sorted);
	if (walk->scratch != NULL)
		pfree(walk->scratch);
	pfree(walk->active);
	if (walk->copy != NULL)
		pfree(walk->copy);
	if (walk->portion_hits != NULL)
	{
		pfree(walk->portion_hits);
		pfree(walk->portion_keys);
	}
	if (walk->later_room > 0)
	{
		pfree(walk->later);
		pfree(walk->is_later);
	}
	pfree(walk);
}

static bool
set_variant(HmWalk *walk, const char *variant)
{
	const HtSearch *search = ht_search(variant);

	if (search == NULL)
		return false;
	walk->search = search;
	return true;
}

static void
set_snapshot(HmWalk *walk, Snapshot snapshot)
{
	walk->heeds_hints = hm_heeds_hints(snapshot);
}

static void
forget_pages(HmWalk *walk)
{
	walk->forget = true;
}

/* Reading the clock takes longer than sorting a few probes. */
static inline void
start_sort_time(const HmWalk *walk, instr_time *start)
{
	if (walk->probes.count >= TIMED_PROBES)
		INSTR_TIME_SET_CURRENT(*start);
}

static inline void
add_sort_time(HmWalk *walk, instr_time start)
{
	if (walk->probes.count >= TIMED_PROBES)
		walk->stats->sort_ns += hm_ns_since(start);
}

/* Make room for the largest radix partition.  It is small, unless keys are skewed. */
static void
make_scratch_room(HmWalk *walk)
{
	if (walk->psa.largest <= walk->scratch_room)
		return;
	if (walk->scratch != NULL)
		pfree(walk->scratch);
	walk->scratch_room = walk->psa.largest;
	walk->scratch =
		MemoryContextAllocHuge(GetMemoryChunkContext(walk), walk->scratch_room * sizeof(HtProbe));
}

/* Go to the first sorted probe, with no leaf at hand and none pinned. */
static void
rewind_walk(HmWalk *walk)
{
	walk->next = 0;
	walk->position = hm_position(HM_PART_KEYS, 0, 0);
	walk->active_count = 0;
	walk->route.count = 0;
	walk->current = 0;
	walk->pinned = 0;
	walk->on_leaf = false;
	walk->portion = walk->portion_end = 0;
}

/* Forget that probes have been put off, but for the first ones. */
static void
forget_later(HmWalk *walk, uint32 first)
{
	while (walk->later_count > first)
		walk->is_later[walk->later[--walk->later_count]] = 0;
}

static void
start_walk(HmWalk *walk, const HmProbes *batch, const uint8 *done, uint32 base)
{
	HmProbes *probes = &walk->probes;
	instr_time start = {0};

	walk->base = base;
	probes->count = batch->count - base;
	start_sort_time(walk, &start);
	probes->low = hm_key_at(batch->low, sizeof(HT_KEY), base);
	probes->high = batch->high == NULL ? NULL : hm_key_at(batch->high, sizeof(HT_KEY), base);
	probes->distinct = batch->distinct;
	walk->length = (HT_KEY) batch->length;
	walk->done = done == NULL ? NULL : done + base;
	ht_psa_start(&walk->psa, probes->low, probes->count, walk->sorted);
	make_scratch_room(walk);
	walk->ready = 0;
	walk->complete = probes->count == 0;
	add_sort_time(walk, start);

	rewind_walk(walk);
	walk->forget = false;
	forget_later(walk, 0);
	walk->limit = done == NULL ? 0 : HM_FIRST_LIMIT;
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
add_sorted(HmWalk *walk, uint32 begin)
{
	HtProbe *sorted = walk->sorted;
	uint32 end = walk->psa.sorted;
	uint32 ready = walk->ready;

	if (!walk->probes.distinct)
	{
		walk->ready = end;
		return;
	}

	/* Equal keys are in the same radix partition. */
	for (uint32 i = begin; i < end; i++)
	{
		if (i == begin || sorted[i].key != sorted[i - 1].key)
			sorted[ready++] = sorted[i];
	}
	walk->ready = ready;
}

/* Sort one more radix partition. */
static void
sort_more(HmWalk *walk)
{
	uint32 begin = walk->psa.sorted;
	instr_time start = {0};

	start_sort_time(walk, &start);
	ht_psa_more(&walk->psa, walk->scratch);
	add_sorted(walk, begin);
	walk->complete = walk->psa.sorted == walk->psa.count;

	/* Drop keys that do not fit the width: no entry has them. */
	while (walk->ready > walk->next && walk->sorted[walk->ready - 1].key > ht_key_max(walk->width))
	{
		walk->ready--;
		walk->complete = true;
	}
	add_sort_time(walk, start);
}

/* Drop active probes that the caller has marked as done. */
static void
drop_done(HmWalk *walk)
{
	uint32 kept = 0;

	if (walk->done == NULL)
		return;
	for (uint32 i = 0; i < walk->active_count; i++)
	{
		if (!walk_is_done(walk, walk->active[i]))
			walk->active[kept++] = walk->active[i];
	}
	walk->active_count = kept;
}

/*
 * The position to look at next: where active probes go on or, if there are none, where
 * the next probe begins.  Returns false if there is neither.
 */
static bool
next_target(HmWalk *walk, HmPosition *target)
{
	if (walk->active_count > 0)
	{
		*target = walk->position;
		return true;
	}
	for (;;)
	{
		while (walk->next < walk->ready && walk_is_done(walk, walk->sorted[walk->next].number))
			walk->next++;
		if (walk->next < walk->ready)
			break;
		if (walk->complete)
			return false;
		sort_more(walk);
	}
	*target = hm_position(HM_PART_KEYS, walk->sorted[walk->next].key, 0);
	return true;
}

/* Release all pins: the route outlives a call, but pins do not. */
static void
release_pins(HmWalk *walk)
{
	for (uint32 i = walk->current; i < walk->pinned; i++)
	{
		if (BufferIsValid(walk->route.leaves[i].buffer))
			ReleaseBuffer(walk->route.leaves[i].buffer);
		walk->route.leaves[i].buffer = InvalidBuffer;
	}
	walk->pinned = walk->current;
	walk->separators_asked = Min(walk->separators_asked, walk->current);
	walk->blocks_asked = Min(walk->blocks_asked, walk->current);
}

static void
drop_route(HmWalk *walk)
{
	release_pins(walk);
	walk->route.count = 0;
	walk->current = 0;
	walk->pinned = 0;
}

/* Skip leaves whose probes are no longer wanted. */
static void
skip_leaves(HmWalk *walk)
{
	HmRoute *route = &walk->route;

	while (walk->current < route->count && walk->active_count == 0 &&
		   route->leaves[walk->current].end <= walk->next)
	{
		if (walk->current < walk->pinned)
			ReleaseBuffer(route->leaves[walk->current].buffer);
		walk->current++;
	}
}

/*
 * Make a route from the target on.  Returns false if the index ends before the target.
 */
static bool
make_route(HmWalk *walk, HmPosition target)
{
	HmRouteInput input;
	HmRouteResult result;

	input.index = walk->index;
	input.width = walk->width;
	input.probes = walk->sorted;
	input.high = walk->probes.high;
	input.length = walk->length;
	input.next = walk->next;
	input.target = target;
	input.has_reach = walk->active_count > 0;
	input.reach = 0;
	for (uint32 i = 0; i < walk->active_count; i++)
	{
		uint32 probe = walk->active[i];
		HT_KEY high = walk_probe_high(walk, probe, walk_probe_low(walk, probe));

		if (input.reach < high)
			input.reach = high;
	}

	do
	{
		input.sorted = walk->ready;
		input.complete = walk->complete;
		result = hm_route_make(&walk->route, &input);
		walk->stats->segments += walk->route.segments;
		if (result == HM_ROUTE_MORE)
			sort_more(walk);
	} while (result == HM_ROUTE_MORE);

	walk->current = 0;
	walk->pinned = 0;
	walk->headers_asked = 0;
	walk->separators_asked = 0;
	walk->blocks_asked = 0;
	return result == HM_ROUTE_MADE;
}

/* ----------------------------------------------------------------
 *		Visiting leaves
 * ----------------------------------------------------------------
 */

/* Can a probe that ends with this key have entries after the leaf? */
static inline bool
goes_on(const HmWalk *walk, HT_KEY high)
{
	return walk->high.part == HM_PART_KEYS && high >= walk->high.entry.key;
}

/*
 * Keep the probes that go on after the leaf: active ones, and those that began on it; but not if
 * they were put off.  Without high keys, the order of the latter is that of their ends.
 */
static void
keep_active(HmWalk *walk)
{
	uint32 kept = 0;

	for (uint32 i = 0; i < walk->active_count; i++)
	{
		uint32 probe = walk->active[i];

		if (goes_on(walk, walk_probe_high(walk, probe, walk_probe_low(walk, probe))) &&
			!walk_is_done(walk, probe) && !walk_is_later(walk, probe))
			walk->active[kept++] = probe;
	}
	for (uint32 i = walk->group_end; i > walk->group_begin; i--)
	{
		const HtProbe *probe = &walk->sorted[i - 1];

		if (!goes_on(walk, walk_probe_high(walk, probe->number, probe->key)))
		{
			if (walk->probes.high == NULL)
				break;
		}
		else if (!walk_is_done(walk, probe->number) && !walk_is_later(walk, probe->number))
			walk->active[kept++] = probe->number;
	}
	walk->active_count = kept;
}

/* The leaf has been answered: keep the probes that go on, and check the route. */
static void
finish_leaf(HmWalk *walk)
{
	HmRoute *route = &walk->route;

	keep_active(walk);
	walk->position = walk->high;
	walk->on_leaf = false;

	/*
	 * If probes go on to the right, the next leaf of the route must be the right
	 * neighbour; after a split it is not.
	 */
	if (walk->active_count > 0 || walk->next < route->leaves[walk->current].end)
	{
		if (walk->current + 1 == route->count ||
			route->leaves[walk->current + 1].block != walk->right)
		{
			walk->current++;
			drop_route(walk);
			return;
		}
	}
	walk->current++;
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
	HmSpecial *special = hm_page_special(page);

	return special->stamp == leaf->stamp &&
		   (hm_page_has_high(page) || hm_page_is(page, HM_PAGE_LEAF)) &&
		   hm_position_cmp(hm_page_low(page), target) <= 0 &&
		   hm_position_cmp(target, hm_page_high(page)) < 0;
}

/* Begin to answer on a leaf that covers the target. */
static void
begin_leaf(HmWalk *walk, Page page, const HmRouteLeaf *leaf)
{
	uint32 end = leaf->end;

	walk->on_leaf = true;
	walk->high = hm_page_high(page);
	walk->right = hm_page_special(page)->right;
	walk->filter = walk->active_count > 0 && hm_position_cmp(hm_page_low(page), walk->position) < 0;
	walk->answered_active = 0;
	walk->answered = walk->group_begin = walk->next;
	walk->collected = false;
	walk->later_before = walk->later_count;

	/* After a split, probes beyond the leaf's new end are not answered here. */
	if (walk->high.part == HM_PART_KEYS)
	{
		while (end > walk->next &&
			   hm_position_cmp(hm_position(HM_PART_KEYS, walk->sorted[end - 1].key, 0),
							   walk->high) >= 0)
			end--;
	}
	walk->group_end = walk->next = Max(end, walk->next);

	/* Few probes that begin here, and none that goes on, are found where their hints say. */
	walk->live =
		leaf->hinted && walk->heeds_hints &&
		walk->search->has_hints((const char *) page, &walk->sorted[walk->group_begin],
								walk->active_count > 0 ? 0 : walk->group_end - walk->group_begin);
}

/* Leave a leaf to the next call. */
static void
put_off_leaf(HmWalk *walk)
{
	walk->next = walk->group_begin;
	walk->portion = walk->portion_end = 0;
	walk->on_leaf = false;
	forget_later(walk, walk->later_before);
}

/*
 * Find the next leaf, and lock it in share mode.  Returns NULL if nothing is left to visit.
 */
static HmRouteLeaf *
lock_next_leaf(HmWalk *walk)
{
	for (int attempt = 0;; attempt++)
	{
		HmPosition target;
		HmRouteLeaf *leaf;

		drop_done(walk);
		if (!next_target(walk, &target))
			return NULL;
		CHECK_FOR_INTERRUPTS();
		skip_leaves(walk);
		if (walk->current == walk->route.count && !make_route(walk, target))
		{
			walk->next = walk->ready;
			walk->complete = true;
			walk->active_count = 0;
			return NULL;
		}

		hm_walk_look_ahead(walk);
		HM_FAULT(lookup_planned);
		leaf = &walk->route.leaves[walk->current];
		LockBuffer(leaf->buffer, BUFFER_LOCK_SHARE);
		if (leaf_covers(leaf, BufferGetPage(leaf->buffer), target))
			return leaf;

		/* Split, or retired and reused: start again from the directory. */
		if (attempt == MAX_ATTEMPTS)
			hm_page_no_progress(walk->index, leaf->buffer);
		LockBuffer(leaf->buffer, BUFFER_LOCK_UNLOCK);
		drop_route(walk);
		walk->stats->restarts++;
	}
}

/*
 * Visit the next leaf.  Returns false if not all of its hits fit in the output, or if
 * nothing is left to visit.
 */
static bool
visit_leaf(HmWalk *walk, WalkOutput *output)
{
	uint32 before = output->n;
	HmRouteLeaf *leaf = lock_next_leaf(walk);
	Page page;
	bool answered;

	if (leaf == NULL)
		return false;
	page = BufferGetPage(leaf->buffer);
	walk->stats->leaves++;
	begin_leaf(walk, page, leaf);
	answered = hm_walk_answer(walk, (const char *) page, output);
	if (!answered && before > 0)
	{
		LockBuffer(leaf->buffer, BUFFER_LOCK_UNLOCK);
		output->n = before;
		put_off_leaf(walk);
		return false;
	}
	if (!answered)
	{
		if (walk->copy == NULL)
			walk->copy = MemoryContextAlloc(GetMemoryChunkContext(walk), BLCKSZ);
		memcpy(walk->copy, page, BLCKSZ);
	}
	UnlockReleaseBuffer(leaf->buffer);
	leaf->buffer = InvalidBuffer;
	if (answered)
		finish_leaf(walk);
	return answered;
}

static uint32
sort_batch(HmWalk *walk, const HmProbes *batch, void *keys, uint32 *numbers)
{
	start_walk(walk, batch, NULL, 0);
	while (!walk->complete)
		sort_more(walk);
	for (uint32 i = 0; i < walk->ready; i++)
	{
		((HT_KEY *) keys)[i] = walk->sorted[i].key;
		numbers[i] = walk->sorted[i].number;
	}
	return walk->ready;
}

/* Have all probes been answered that were not put off? */
static bool
round_is_over(const HmWalk *walk)
{
	return !walk->on_leaf && walk->complete && walk->active_count == 0 && walk->next >= walk->ready;
}

static bool
at_end(const HmWalk *walk)
{
	return round_is_over(walk) && walk->later_count == 0;
}

/* Start the next round, with the probes that were put off and are not done. */
static void
start_round(HmWalk *walk)
{
	HtProbe *sorted = walk->sorted;
	uint32 count = 0;
	bool in_order = true;

	for (uint32 i = 0; i < walk->later_count; i++)
	{
		uint32 probe = walk->later[i];

		if (walk_is_done(walk, probe))
			continue;
		sorted[count] = (HtProbe){.key = walk_probe_low(walk, probe), .number = probe};
		in_order &= count == 0 || sorted[count - 1].key <= sorted[count].key;
		count++;
	}

	/* Ranges that begin early may have been put off late. */
	if (!in_order)
		qsort(sorted, count, sizeof(HtProbe), hm_compare_probes);
	walk->ready = count;
	walk->complete = true;
	forget_later(walk, 0);
	walk->limit = walk_next_limit(walk->limit);
	drop_route(walk);
	rewind_walk(walk);
}

static uint32
next_hits(HmWalk *walk, HmHit *hits, void *keys, uint32 max, uint32 *stale)
{
	WalkOutput output = {hits, keys, 0, max};

	if (round_is_over(walk) && walk->later_count > 0)
		start_round(walk);
	if (walk->on_leaf && hm_walk_answer(walk, walk->copy, &output))
		finish_leaf(walk);
	*stale = output.n;
	if (walk->forget && !walk->on_leaf)
	{
		drop_route(walk);
		walk->forget = false;
	}
	while (!walk->on_leaf && output.n < max)
	{
		if (visit_leaf(walk, &output))
			continue;
		if (output.n > 0 || !round_is_over(walk) || walk->later_count == 0)
			break;
		start_round(walk);
	}
	release_pins(walk);

	for (uint32 i = 0; walk->base > 0 && i < output.n; i++)
		hits[i].probe += walk->base;
	return output.n;
}

const HmWalkMethods hm_walk_methods = {
	.create = create_walk,
	.end = end_walk,
	.set_variant = set_variant,
	.set_snapshot = set_snapshot,
	.start = start_walk,
	.sort = sort_batch,
	.next = next_hits,
	.at_end = at_end,
	.forget_pages = forget_pages,
};
