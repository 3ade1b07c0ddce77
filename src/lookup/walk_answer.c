/*
 * walk_answer.c
 *		A walk's search on one leaf.
 *
 * Hits go directly from the page to the caller.  If those of a single probe do not fit, they
 * are collected, and returned in portions.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lookup/walk_state.h"

/* Collect the hits of one probe on the page, to return them in portions. */
static void
make_portions(HmWalk *walk, const char *page, HT_KEY low, uint32 probe, bool filter)
{
	HtEntry		begin = walk->position.entry;
	uint32		n;

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
		HtEntry		entry = {walk->portion_keys[i], walk->portion_hits[i].tid};

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
	uint32		n = Min(walk->portion_end - walk->portion, output->max - output->n);

	memcpy(output->hits + output->n, walk->portion_hits + walk->portion, n * sizeof(HmHit));
	if (output->keys != NULL)
		memcpy(output->keys + output->n, walk->portion_keys + walk->portion,
			   n * sizeof(HT_KEY));
	output->n += n;
	walk->portion += n;
	return walk->portion == walk->portion_end;
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
	uint32		n = HT_NO_ROOM;

	if (walk_is_done(walk, probe))
		return true;
	if (!filter)
		n = walk->search->range(page, low, walk_probe_high(walk, probe, low),
								probe, walk->live, output->hits + output->n,
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
 */
static inline uint32
search_leaf(const HmWalk *walk, const char *page, const HtProbe *probes, uint32 count,
			const WalkOutput *output, uint32 *found)
{
	HmHit	   *hits = output->hits + output->n;
	HT_KEY	   *keys = output->keys == NULL ? NULL : output->keys + output->n;
	uint32		room = output->max - output->n;

	if (walk->length == 0)
		return walk->search->points(page, probes, count, hits, keys, room, found);
	return walk->search->ranges(page, probes, count, walk->length, hits, keys, room, found);
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
		uint32		count = walk->group_end - walk->answered;
		uint32		found;
		uint32		n = search_leaf(walk, page, probes, count, output, &found);

		output->n += found;
		walk->answered += n;
		if (n < count)
		{
			/* Little room is left, but all hits of this probe may still fit. */
			walk->answered++;
			if (!answer_one(walk, page, probes[n].key, probes[n].number, false, output))
				return false;
		}
	}
	return true;
}

/* The same for probes with high keys, and where entries are left out. */
static bool
answer_singly(HmWalk *walk, const char *page, WalkOutput *output)
{
	while (walk->answered < walk->group_end)
	{
		const HtProbe *probe = &walk->sorted[walk->answered++];

		if (!answer_one(walk, page, probe->key, probe->number, false, output))
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
		uint32		probe = walk->active[walk->answered_active++];

		if (!answer_one(walk, page, walk_probe_low(walk, probe), probe, walk->filter, output))
			return false;
	}
	return walk->probes.high == NULL && !walk->live ? answer_together(walk, page, output) :
		answer_singly(walk, page, output);
}
