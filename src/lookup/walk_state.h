/*
 * walk_state.h
 *		The state of a walk, and what the files walk*.c offer to one another.
 */
#ifndef HARMONIA_LOOKUP_WALK_STATE_H
#define HARMONIA_LOOKUP_WALK_STATE_H

#include "lookup/walk.h"

struct HmWalk
{
	Relation index;
	HtWidth width;
	const HtSearch *search;
	bool heeds_hints;
	HmLookupStats *stats; /* the lookup's */

	/* The probes: those of the batch from "base" on. */
	uint32 base;
	HmProbes probes;
	HT_KEY length; /* of all probes, if there are no high keys */
	const uint8 *done;
	HtProbe *sorted;
	HtProbe *scratch; /* for sorting a radix partition */
	uint32 scratch_room;
	uint32 ready;  /* sorted probes that can have hits */
	bool complete; /* all probes are sorted */

	/* The progress of the walk. */
	uint32 next;         /* first sorted probe that has not begun */
	HmPosition position; /* of probes that have begun, everything before this has been answered */
	uint32 *active;      /* probes that have begun and not ended */
	uint32 active_count;

	/* The progress on the route. */
	uint32 current;       /* leaf to visit next */
	uint32 pinned;        /* the leaves from "current" to before this one are pinned */
	uint32 headers_asked, /* leaves that have been prefetched, in three stages */
		separators_asked, blocks_asked;

	/* The leaf that is being answered. */
	bool on_leaf;
	HmPosition high; /* where it ends */
	BlockNumber right;
	bool live;          /* leave out entries that are hinted to be dead */
	bool filter;        /* it begins below "position": skip entries before that */
	uint32 group_begin, /* sorted probes that begin on it */
		group_end;
	uint32 answered_active, /* active probes that have been answered there */
		answered;           /* sorted probes before this one have been answered */
	char *copy;             /* NULL until one is needed */
	bool forget;            /* drop the route once that leaf has been answered */

	/* The hits of one probe on the leaf, if they are returned in portions, or in part. */
	uint32 portion;
	uint32 portion_end;
	HtHit *portion_hits; /* NULL until they are needed */
	HT_KEY *portion_keys;
	bool collected; /* these are all hits of the following range, for the next probes that are
					 * equal: */
	HT_KEY collected_low, collected_high;
	bool collected_filter;
	uint32 collected_count;

	/* Rounds: see walk_answer.c. */
	uint32 limit;      /* hits that a probe with many gets from a leaf in this round, or 0: all */
	uint32 *later;     /* probes that are put off until the next round */
	uint8 *is_later;   /* for each probe: is it one of them? */
	uint32 later_room; /* probes that both have room for; 0 until they are needed */
	uint32 later_count;
	uint32 later_before; /* this number when the leaf was begun */

	/* Large members, which need no values before the walk starts. */
	HtPsa psa;
	HmRoute route;
};

/* The caller's arrays for hits. */
typedef struct WalkOutput
{
	HmHit *hits;
	HT_KEY *keys; /* or NULL */
	uint32 n;
	uint32 max;
} WalkOutput;

/* The keys that a probe begins and ends with.  Where the first one is at hand, pass it. */
static inline HT_KEY
walk_probe_low(const HmWalk *walk, uint32 probe)
{
	return ((const HT_KEY *) walk->probes.low)[probe];
}

static inline HT_KEY
walk_probe_high(const HmWalk *walk, uint32 probe, HT_KEY low)
{
	return walk->probes.high == NULL ? low + walk->length :
									   ((const HT_KEY *) walk->probes.high)[probe];
}

static inline bool
walk_is_done(const HmWalk *walk, uint32 probe)
{
	return walk->done != NULL && walk->done[probe] != 0;
}

/* Whether a probe goes on in the next round only. */
static inline bool
walk_is_later(const HmWalk *walk, uint32 probe)
{
	return walk->later_count > 0 && walk->is_later[probe] != 0;
}

/*
 * Prefetch what the search of the route's next leaves will read, and pin the first ones
 * (walk_ahead.c).
 */
extern void hm_walk_look_ahead(HmWalk *walk);

/*
 * Answer what is left to answer on the leaf, from the locked page or a copy (walk_answer.c).
 * Returns false if the output is full before the end.
 */
extern bool hm_walk_answer(HmWalk *walk, const char *page, WalkOutput *output);

/* The limits of rounds: of the first one, and of the one after a round with this limit. */
#define HM_FIRST_LIMIT HM_LOOKUP_FEW_HITS
#define HM_SECOND_LIMIT 32

static inline uint32
walk_next_limit(uint32 limit)
{
	return limit == HM_FIRST_LIMIT ? HM_SECOND_LIMIT : 0;
}

#endif /* HARMONIA_LOOKUP_WALK_STATE_H */
