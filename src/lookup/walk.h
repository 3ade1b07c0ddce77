/*
 * walk.h
 *		How lookups search on the CPU; for the files of this folder only.
 */
#ifndef HARMONIA_LOOKUP_WALK_H
#define HARMONIA_LOOKUP_WALK_H

#include "am/am.h"
#include "lookup/lookup.h"
#include "lookup/width.h"

/* ----------------------------------------------------------------
 *		Prefetching leaves (pin.c)
 * ----------------------------------------------------------------
 */

/*
 * Prefetch what hm_pin() will read of a block; also the page's special area and those
 * of its lines that begin in from..to.  Does nothing if no buffer is remembered for the
 * block.  "many" says that many lines will be read.  Then it pays to have the addresses
 * of all of the page's memory translated; for a single probe on a leaf, with huge
 * pages, that costs 7 %.
 */
extern void hm_pin_prefetch(Relation index, BlockNumber block, int from, int to, bool many);

/* ----------------------------------------------------------------
 *		Routes (route.c)
 *
 * Routes and walks are compiled once for each width of keys (width.h).
 * ----------------------------------------------------------------
 */

/* A leaf to visit. */
typedef struct HmRouteLeaf
{
	BlockNumber block;
	uint32 end;    /* the first probe that begins after this leaf */
	uint64 stamp;  /* of its segment */
	Buffer buffer; /* if it is pinned already */
	bool hinted;   /* it may have hints */
} HmRouteLeaf;

#define HM_ROUTE_MAX 256

/*
 * The next leaves that probes need, in order.  They are right at the time when the
 * header of their segment is locked; afterwards leaves may be split, or the segment may
 * be replaced.
 */
typedef struct HmRoute
{
	uint32 count;
	uint32 segments; /* number of headers locked to make it */
	HmRouteLeaf leaves[HM_ROUTE_MAX];
} HmRoute;

/* The input for making a route. */
typedef struct HmRouteInput
{
	Relation index;
	HtWidth width;
	const HtProbe *probes; /* in order */
	const HT_KEY *high;    /* by number, or NULL: */
	HT_KEY length;         /* the length of all probes */
	uint32 next;           /* first probe that has not begun */
	uint32 sorted;         /* number of probes sorted so far */
	bool complete;         /* all probes are sorted */
	HmPosition target;     /* where to begin */
	bool has_reach;        /* probes that have begun go on */
	HT_KEY reach;          /* up to this key */
} HmRouteInput;

typedef enum HmRouteResult
{
	HM_ROUTE_MADE,
	HM_ROUTE_MORE, /* sort more probes first: some may begin on the first leaf */
	HM_ROUTE_END   /* the index ends before the target */
} HmRouteResult;

/*
 * Make a route.  Enters the segment that covers the target, and finds the leaves in it
 * that the probes need; if these are few, goes on in the next segments.  Locks one
 * header at a time.  Holds no lock and no pin on return.
 *
 * Errors: index_corrupted.
 */
extern HmRouteResult hm_route_make(HmRoute *route, const HmRouteInput *input);

/* ----------------------------------------------------------------
 *		Walks (walk.c)
 * ----------------------------------------------------------------
 */
typedef struct HmWalk HmWalk;

#define HM_PINNED_LEAVES 64

/*
 * What can be done with walks, for lookup.c.  There is one of these for each width of keys, which
 * knows what an HmWalk is; arrays of keys are of its key size.
 */
typedef struct HmWalkMethods
{
	/*
	 * Prepare walks through an index, each for "capacity" probes at most.  stats are the
	 * lookup's, and must outlive it; the pages that are visited are counted there, and the
	 * time to sort.  Memory is allocated in CurrentMemoryContext.
	 */
	HmWalk *(*create)(Relation index, uint32 capacity, HmLookupStats *stats);
	void (*end)(HmWalk *walk);

	/* See hm_lookup_set_variant() and hm_lookup_set_snapshot(). */
	bool (*set_variant)(HmWalk *walk, const char *variant);
	void (*set_snapshot)(HmWalk *walk, Snapshot snapshot);

	/*
	 * Start a walk for a batch's probes from number "base" on.  The batch's arrays must stay
	 * as for hm_lookup_start().
	 */
	void (*start)(HmWalk *walk, const HmProbes *batch, const uint8 *done, uint32 base);

	/*
	 * Sort a batch instead, as a walk would: all of its points or, if they must be distinct,
	 * one of each.  Sets keys and numbers, which have room for all, and returns how many
	 * there are.  Only a device wants that; NULL for walks in what none searches.
	 */
	uint32 (*sort)(HmWalk *walk, const HmProbes *batch, void *keys, uint32 *numbers);

	/*
	 * Go on, see hm_lookup_next().  Returns 0 at the end.  The first *stale hits were read
	 * from their page before this call.
	 */
	uint32 (*next)(HmWalk *walk, HmHit *hits, void *keys, uint32 max, uint32 *stale);

	/* Is it certain that no more hits will be returned? */
	bool (*at_end)(const HmWalk *walk);

	/*
	 * Forget where the leaves are: the next call finds its way again from the headers of
	 * living segments.  Hits that were read from a page before, but not returned, are not
	 * lost; they come first.  NULL for walks that keep pins.
	 */
	void (*forget_pages)(HmWalk *walk);

	/*
	 * Have next() keep the leaves pinned that it reads hits from, but stale ones, and return
	 * after at most HM_PINNED_LEAVES of them; or no more, and release those that are pinned.
	 * NULL for walks that cannot.
	 */
	void (*keep_pins)(HmWalk *walk, bool keep);
} HmWalkMethods;

/* In harmonia indexes (walk.c) and btrees (btree_walk.c); for keys of up to 64 bits, and of 128. */
extern const HmWalkMethods hm_walk_methods;
extern const HmWalkMethods hm_walk_methods_128;
extern const HmWalkMethods hm_btree_methods;
extern const HmWalkMethods hm_btree_methods_128;

/* hm_lookup_bounds() of a btree: the keys on its root page. */
extern HmKey *hm_btree_bounds(Relation index, int *count);

/* hm_lookup_ends() of a btree (btree_last.c). */
extern void hm_btree_ends(Relation index, Snapshot snapshot, HmEnds *ends);

/* hm_lookup_give_hints() of a btree (btree_hints.c). */
extern void hm_btree_give_hints(Relation index, Relation heap, HmDeadRow *rows, int n);

/* For qsort(): the order of probes by their keys. */
static inline int
hm_compare_probes(const void *a, const void *b)
{
	HT_KEY one = ((const HtProbe *) a)->key;
	HT_KEY other = ((const HtProbe *) b)->key;

	return (one > other) - (one < other);
}

#endif /* HARMONIA_LOOKUP_WALK_H */
