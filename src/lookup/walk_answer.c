/*
 * walk_answer.c
 *		A walk's search on one leaf.
 *
 * Hits go directly from the page to the caller.  If those of a single probe do not fit, they
 * are collected, and returned in portions.
 *
 * Rounds.  A caller that passes "done" needs one match of a probe, but the engine learns of a match
 * only after the call.  So a probe with many hits on a leaf gets a few of them, and is put off
 * until all other probes have been answered, and the caller has looked at these hits.  Then a
 * second round answers those of these probes that are not done, with a greater limit, and a third
 * one those that are left, without a limit.
 *
 * A round goes through the index again, and returns a probe's hits from its first one on, because
 * entries may have been added and removed.  A probe is put off only if it has more than HM_MANY
 * times as many hits on the leaf as it gets, so only about a seventh of its hits come twice.  With
 * fewer hits, coming again would take longer than returning all of them at once.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lookup/walk_state.h"

/*
 * So many times the limit of the round are many hits.  If no hit is a match, and each probe has
 * about 100, the join takes a tenth longer for the rounds; with 10 hits it takes as long as without
 * them.
 */
#define HM_MANY 8

StaticAssertDecl(HM_FIRST_LIMIT *HM_MANY == HM_LOOKUP_MANY_HITS, "what callers know");

/* Collect the hits of one probe on the page, to return them in portions. */
static void
make_portions(HmWalk *walk, const char *page, HT_KEY low, uint32 probe, bool filter)
{
	HtEntry begin = walk->position.entry;
	uint32 n;

	walk->collected = false;
	if (walk->portion_hits == NULL)
	{
		MemoryContext context = GetMemoryChunkContext(walk);

		walk->portion_hits = MemoryContextAlloc(context, HT_LEAF_MAX_ENTRIES * sizeof(HtHit));
		walk->portion_keys = MemoryContextAlloc(context, HT_LEAF_MAX_ENTRIES * sizeof(HT_KEY));
	}
	n = walk->search->range(page, low, walk_probe_high(walk, probe, low), probe, walk->live,
							walk->portion_hits, walk->portion_keys, HT_LEAF_MAX_ENTRIES);

	/* Only a damaged page has more. */
	if (n == HT_NO_ROOM)
		n = HT_LEAF_MAX_ENTRIES;
	walk->portion = 0;
	walk->portion_end = n;
	if (!filter)
		return;

	walk->portion_end = 0;
	for (uint32 i = 0; i < n; i++)
	{
		HtEntry entry = {walk->portion_keys[i], walk->portion_hits[i].tid};

		if (ht_entry_cmp(entry, begin) < 0)
			continue;
		walk->portion_hits[walk->portion_end] = walk->portion_hits[i];
		walk->portion_keys[walk->portion_end] = walk->portion_keys[i];
		walk->portion_end++;
	}
}

/* Return a portion.  Returns false if more is left than fits. */
static bool
emit_portion(HmWalk *walk, WalkOutput *output)
{
	uint32 n = Min(walk->portion_end - walk->portion, output->max - output->n);

	memcpy(output->hits + output->n, walk->portion_hits + walk->portion, n * sizeof(HmHit));
	if (output->keys != NULL)
		memcpy(output->keys + output->n, walk->portion_keys + walk->portion, n * sizeof(HT_KEY));
	output->n += n;
	walk->portion += n;
	return walk->portion == walk->portion_end;
}

/* Put a probe off until the next round. */
static void
put_off(HmWalk *walk, uint32 probe)
{
	if (walk->later_room < walk->probes.count)
	{
		MemoryContext context = GetMemoryChunkContext(walk);

		Assert(walk->later_count == 0);
		if (walk->later_room > 0)
		{
			pfree(walk->later);
			pfree(walk->is_later);
		}
		walk->later_room = 0;
		walk->later = MemoryContextAllocHuge(context, walk->probes.count * sizeof(uint32));
		walk->is_later = MemoryContextAllocHuge(context, walk->probes.count);
		memset(walk->is_later, 0, walk->probes.count);
		walk->later_room = walk->probes.count;
	}
	walk->later[walk->later_count++] = probe;
	walk->is_later[probe] = 1;
}

/*
 * Answer one probe where rounds have a limit.  If it has many hits, equal probes that follow are
 * not searched for again.
 */
static bool
answer_few(HmWalk *walk, const char *page, HT_KEY low, uint32 probe, bool filter,
		   WalkOutput *output)
{
	HT_KEY high = walk_probe_high(walk, probe, low);
	uint32 many = walk->limit * HM_MANY;
	uint32 n;

	if (!walk->collected || walk->collected_low != low || walk->collected_high != high ||
		walk->collected_filter != filter)
	{
		if (!filter)
		{
			n = walk->search->range(page, low, high, probe, walk->live, output->hits + output->n,
									output->keys == NULL ? NULL : output->keys + output->n,
									Min(many, output->max - output->n));
			if (n != HT_NO_ROOM)
			{
				output->n += n;
				return true;
			}
		}
		make_portions(walk, page, low, probe, filter);
		walk->collected = true;
		walk->collected_low = low;
		walk->collected_high = high;
		walk->collected_filter = filter;
		walk->collected_count = walk->portion_end;
	}

	n = walk->collected_count;
	if (n > many)
	{
		put_off(walk, probe);
		n = walk->limit;
	}
	for (uint32 i = 0; i < n; i++)
		walk->portion_hits[i].probe = probe;
	walk->portion = 0;
	walk->portion_end = n;
	return emit_portion(walk, output);
}

/*
 * Answer one probe.  Returns false if the output is full before all of it is answered.
 * The caller passes the low end, because it is at hand in the sorted probes; in the
 * batch, which is in any order, it would be far from the cache.
 */
static bool
answer_one(HmWalk *walk, const char *page, HT_KEY low, uint32 probe, bool filter,
		   WalkOutput *output)
{
	uint32 n = HT_NO_ROOM;

	if (walk_is_done(walk, probe))
		return true;
	if (walk->limit > 0)
		return answer_few(walk, page, low, probe, filter, output);
	if (!filter)
		n = walk->search->range(page, low, walk_probe_high(walk, probe, low), probe, walk->live,
								output->hits + output->n,
								output->keys == NULL ? NULL : output->keys + output->n,
								output->max - output->n);
	if (n != HT_NO_ROOM)
	{
		output->n += n;
		return true;
	}
	make_portions(walk, page, low, probe, filter);
	return emit_portion(walk, output);
}

/*
 * Have the engine answer probes that begin on the leaf, without high keys.  Returns the number of
 * those that it has answered, as HtSearch.points does.
 *
 * Where rounds have a limit, probes get no room for more than what is many hits on average.
 * Different points cannot have more hits than the leaf has entries, whatever their number.  A few
 * times that is allowed, because some may be equal.
 */
static inline uint32
search_leaf(const HmWalk *walk, const char *page, const HtProbe *probes, uint32 count,
			const WalkOutput *output, uint32 *found)
{
	HmHit *hits = output->hits + output->n;
	HT_KEY *keys = output->keys == NULL ? NULL : output->keys + output->n;
	uint32 room = output->max - output->n;

	if (walk->limit > 0)
		room = Min(room, Min(count, HT_LEAF_MAX_ENTRIES / HM_MANY) * walk->limit * HM_MANY);
	if (walk->length == 0)
		return walk->search->points(page, probes, count, hits, keys, room, found);
	return walk->search->ranges(page, probes, count, walk->length, hits, keys, room, found);
}

/* Answer the next probe that begins on the leaf.  Returns false if the output is full. */
static inline bool
answer_next(HmWalk *walk, const char *page, WalkOutput *output)
{
	const HtProbe *probe = &walk->sorted[walk->answered++];

	return answer_one(walk, page, probe->key, probe->number, false, output);
}

/*
 * Answer the probes that begin on the leaf, if there are no high keys and none is done.  Returns
 * false if the output is full before the end.
 */
static bool
answer_together(HmWalk *walk, const char *page, WalkOutput *output)
{
	while (walk->answered < walk->group_end)
	{
		const HtProbe *probes = &walk->sorted[walk->answered];
		uint32 count = walk->group_end - walk->answered;
		uint32 found;
		uint32 n = 0;

		/* If many hits have been collected, they may be those of the next probe, too. */
		if (!walk->collected || walk->collected_low != probes->key)
		{
			n = search_leaf(walk, page, probes, count, output, &found);
			output->n += found;
			walk->answered += n;
		}

		/* Little room is left, but all hits of this probe may still fit. */
		if (n < count && !answer_next(walk, page, output))
			return false;
	}
	return true;
}

/* The same for probes with high keys, and where entries are left out. */
static bool
answer_singly(HmWalk *walk, const char *page, WalkOutput *output)
{
	while (walk->answered < walk->group_end)
	{
		if (!answer_next(walk, page, output))
			return false;
	}
	return true;
}

bool
hm_walk_answer(HmWalk *walk, const char *page, WalkOutput *output)
{
	if (walk->portion < walk->portion_end && !emit_portion(walk, output))
		return false;

	while (walk->answered_active < walk->active_count)
	{
		uint32 probe = walk->active[walk->answered_active++];

		if (!answer_one(walk, page, walk_probe_low(walk, probe), probe, walk->filter, output))
			return false;
	}
	return walk->probes.high == NULL && !walk->live ? answer_together(walk, page, output) :
													  answer_singly(walk, page, output);
}
