/*
 * walk_ahead.c
 *		What a walk does for the leaves that it will visit next.
 *
 * Leaves are pinned ahead of the search, and the cache is asked to fetch what the search will
 * read of them.
 */
#include "postgres.h"

#include "lookup/walk_state.h"

/*
 * How many leaves ahead of the search the cache is asked to fetch what is read next:
 * first buffer headers and first lines of pages, then lines of separators, then blocks.
 * A leaf is pinned between the first and the second.  A backend can hold eight pins at
 * low cost.
 */
#define HEADER_AHEAD 12
#define PIN_AHEAD 6
#define SEPARATORS_AHEAD 5
#define BLOCKS_AHEAD 3

/* With this many probes on a leaf the whole coarse index is prefetched at once. */
#define COARSE_MIN_PROBES 5
#define LAST_SEPARATORS (HT_LEAF_SEPARATORS_AT + 448)

/* The probes that begin on a leaf, according to the route. */
static inline HtProbe *
routed_probes(const HmWalk *walk, uint32 leaf, uint32 *count)
{
	uint32 begin = leaf == 0 ? walk->next : walk->route.leaves[leaf - 1].end;

	/* Leave out those that have begun already. */
	begin = Max(begin, walk->next);
	*count = walk->route.leaves[leaf].end > begin ? walk->route.leaves[leaf].end - begin : 0;
	return &walk->sorted[begin];
}

void
hm_walk_look_ahead(HmWalk *walk)
{
	HmRoute *route = &walk->route;
	uint32 limit;
	uint32 count;

	limit = Min(route->count, walk->current + HEADER_AHEAD);
	while (walk->headers_asked < limit)
	{
		routed_probes(walk, walk->headers_asked, &count);
		hm_pin_prefetch(walk->index, route->leaves[walk->headers_asked].block, HT_PAGE_START,
						count >= COARSE_MIN_PROBES ? LAST_SEPARATORS : HT_PAGE_START, count > 1);
		walk->headers_asked++;
	}

	/* Leaves that were skipped, or answered from a copy, are not pinned. */
	walk->pinned = Max(walk->pinned, walk->current);
	walk->separators_asked = Max(walk->separators_asked, walk->current);
	walk->blocks_asked = Max(walk->blocks_asked, walk->current);

	limit = Min(route->count, walk->current + PIN_AHEAD);
	while (walk->pinned < limit)
	{
		HmRouteLeaf *leaf = &route->leaves[walk->pinned];

		leaf->buffer = hm_pin(walk->index, leaf->block);
		walk->pinned++;
	}

	/* What is read from unlocked pages here only decides what is prefetched. */
	limit = Min(route->count, walk->current + SEPARATORS_AHEAD);
	while (walk->separators_asked < limit)
	{
		HtProbe *probes = routed_probes(walk, walk->separators_asked, &count);

		if (count < COARSE_MIN_PROBES)
			walk->search->prefetch_separators(
				BufferGetPage(route->leaves[walk->separators_asked].buffer), probes, count);
		walk->separators_asked++;
	}

	limit = Min(route->count, walk->current + BLOCKS_AHEAD);
	while (walk->blocks_asked < limit)
	{
		HtProbe *probes = routed_probes(walk, walk->blocks_asked, &count);

		walk->search->prefetch_blocks(
			BufferGetPage(route->leaves[walk->blocks_asked].buffer), probes, count,
			walk->heeds_hints && route->leaves[walk->blocks_asked].hinted);
		walk->blocks_asked++;
	}
}
