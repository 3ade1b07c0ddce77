/*
 * route.c
 *		From probes to leaves: a walk through the inner nodes of one segment.
 *
 * All probes of a segment are led to their leaves under one share lock of its header.
 * As they are in order, so are the leaves: most often the next leaf has the next
 * separator in the same bottom node.
 */
#include "postgres.h"

#include "am/reader.h"
#include "lookup/walk.h"

/*
 * A route of fewer leaves is continued in the next segment, because prefetching needs
 * enough leaves ahead.
 */
#define ROUTE_ENOUGH 64

/* The state of the walk. */
typedef struct Router
{
	HmReader reader;

	/* The current bottom node; bytes is NULL before the first one. */
	uint32 node;
	const char *bytes;
	HmAuxiliary *auxiliary; /* replaces the node, or NULL */
	HtEntry node_upper;     /* entries of its leaves are below this, */
	bool node_bounded;      /* if true; otherwise there is no upper bound */

	/* The current leaf. */
	int child; /* of a node without auxiliary node */
	BlockNumber block;
	HtEntry upper;
	bool bounded;
} Router;

static void
report_damage(Router *router)
{
	hm_report_damage(psprintf("Node %u leads to no leaf.", router->node),
					 "segment at block %u of index \"%s\" has a damaged key or child region",
					 BufferGetBlockNumber(router->reader.header),
					 RelationGetRelationName(router->reader.index));
}

/* Descend from the root to the bottom node for an entry. */
static void
descend(Router *router, HtEntry entry)
{
	HmReader *reader = &router->reader;

	router->node_upper = hm_segment_high(BufferGetPage(reader->header));
	router->node_bounded = hm_page_has_high(BufferGetPage(reader->header));
	router->node =
		hm_reader_bottom(reader, entry, false, &router->node_upper, &router->node_bounded);
	router->auxiliary = hm_reader_auxiliary(reader, router->node);
	router->bytes = hm_reader_node(reader, router->node);

	/* Prefetch, or a binary search would wait for one line after the other. */
	for (int at = 0; at < reader->segment->fanout * (int) reader->width; at += 64)
		__builtin_prefetch(router->bytes + at);
}

/*
 * Most often the next leaf is the next child.  Go there if it is the leaf for the
 * entry, which is not below the end of the current leaf.
 */
static bool
at_next_child(Router *router, HtEntry entry)
{
	int fanout = router->reader.segment->fanout;
	HtEntry upper;

	if (router->child + 1 >= fanout - 1)
		return false;
	upper = ht_node_get(router->bytes, router->reader.width, fanout, router->child + 1);
	if (upper.tid == HT_TID_MAX || ht_entry_cmp(entry, upper) >= 0)
		return false;
	router->child++;
	router->upper = upper;
	router->bounded = true;
	return true;
}

/* Go to the leaf for an entry.  Entries come in order. */
static void
lead_to_leaf(Router *router, HtEntry entry)
{
	bool descended = router->bytes == NULL ||
					 (router->node_bounded && ht_entry_cmp(router->node_upper, entry) <= 0);

	if (descended)
		descend(router, entry);

	router->upper = router->node_upper;
	router->bounded = router->node_bounded;
	if (router->auxiliary != NULL)
	{
		HmAuxiliary *auxiliary = router->auxiliary;
		int child = hm_auxiliary_child(auxiliary, entry, false);

		router->block = auxiliary->children[child];
		if (child + 1 < (int) auxiliary->count)
		{
			router->upper = hm_auxiliary_low(auxiliary, child + 1);
			router->bounded = true;
		}
	}
	else
	{
		if (descended || !at_next_child(router, entry))
			router->child = hm_reader_search(&router->reader, router->bytes, entry, false,
											 &router->upper, &router->bounded);
		router->block = hm_reader_child(&router->reader, router->node, router->child);
	}
	/* With a wrong bound the same leaf would be visited again and again. */
	if (!BlockNumberIsValid(router->block) ||
		(router->bounded && ht_entry_cmp(router->upper, entry) <= 0))
		report_damage(router);
}

/*
 * The first probe, starting from a given one, whose first possible entry is not before
 * an entry.
 */
static inline uint32
first_from(const HmRouteInput *input, uint32 first, HtEntry entry)
{
	HT_KEY last = entry.tid > 0 ? entry.key : entry.key - 1;

	if (entry.key == 0 && entry.tid == 0)
		return first;
	while (first < input->sorted && last >= input->probes[first].key)
		first++;
	return first;
}

/* What has been routed so far. */
typedef struct Progress
{
	HtEntry target; /* where to go on */
	uint32 next;    /* first probe that is not in the route */
	bool has_reach; /* probes in the route go on */
	HT_KEY reach;   /* up to this key */
} Progress;

/* Note how far probes reach.  High keys need not be in order. */
static void
extend_reach(const HmRouteInput *input, Progress *progress, uint32 begin)
{
	if (begin == progress->next)
		return;
	if (input->high == NULL)
		progress->reach = input->probes[progress->next - 1].key + input->length;
	else
	{
		if (!progress->has_reach)
			progress->reach = 0;
		for (uint32 i = begin; i < progress->next; i++)
		{
			HT_KEY high = input->high[input->probes[i].number];

			if (progress->reach < high)
				progress->reach = high;
		}
	}
	progress->has_reach = true;
}

/* How routing in a segment ended. */
typedef enum SegmentResult
{
	SEGMENT_LEFT,    /* the target is in another segment */
	SEGMENT_STOP,    /* the route is full, or all probes are in it */
	SEGMENT_UNSORTED /* probes that are not sorted yet may begin on the target's leaf */
} SegmentResult;

static SegmentResult
route_segment(HmRoute *route, const HmRouteInput *input, Progress *progress, Router *router)
{
	HmSegment *segment = router->reader.segment;
	bool segment_bounded = hm_page_has_high(BufferGetPage(router->reader.header));

	for (;;)
	{
		uint32 begin = progress->next;
		uint32 next;

		lead_to_leaf(router, progress->target);
		next = router->bounded ? first_from(input, begin, router->upper) : input->sorted;
		if (next == input->sorted && !input->complete)
			return SEGMENT_UNSORTED;

		progress->next = next;
		route->leaves[route->count].block = router->block;
		route->leaves[route->count].end = next;
		route->leaves[route->count].stamp = segment->stamp;
		route->leaves[route->count].buffer = InvalidBuffer;
		route->leaves[route->count].hinted = segment->hinted != 0;
		route->count++;
		if (route->count == HM_ROUTE_MAX || !router->bounded)
			return SEGMENT_STOP;

		extend_reach(input, progress, begin);
		if (progress->has_reach && progress->reach >= router->upper.key)
			progress->target = router->upper;
		else if (next < input->sorted)
		{
			progress->target.key = input->probes[next].key;
			progress->target.tid = 0;
		}
		else
			return SEGMENT_STOP;
		if (segment_bounded && ht_entry_cmp(hm_segment_high(BufferGetPage(router->reader.header)),
											progress->target) <= 0)
			return SEGMENT_LEFT;
	}
}

HmRouteResult
hm_route_make(HmRoute *route, const HmRouteInput *input)
{
	HmPosition position = input->target;
	Progress progress = {input->target.entry, input->next, input->has_reach, input->reach};
	SegmentResult result;

	route->count = 0;
	route->segments = 0;
	do
	{
		Buffer header =
			hm_segment_enter(input->index, &position, HM_AT_OR_AFTER, BUFFER_LOCK_SHARE);
		Router router = {0};

		if (!BufferIsValid(header))
			return route->count > 0 ? HM_ROUTE_MADE : HM_ROUTE_END;
		if (position.part != HM_PART_KEYS)
		{
			UnlockReleaseBuffer(header);
			return route->count > 0 ? HM_ROUTE_MADE : HM_ROUTE_END;
		}

		hm_reader_begin(&router.reader, input->index, header, input->width, hm_pin);
		route->segments++;
		result = route_segment(route, input, &progress, &router);
		hm_reader_end(&router.reader);
		UnlockReleaseBuffer(header);

		position = hm_position(HM_PART_KEYS, progress.target.key, progress.target.tid);
	} while (result == SEGMENT_LEFT && route->count < ROUTE_ENOUGH);

	return result == SEGMENT_UNSORTED && route->count == 0 ? HM_ROUTE_MORE : HM_ROUTE_MADE;
}
