/*
 * walk.h
 *		Declarations for the files of this folder only.  Other folders use lookup.h.
 */
#ifndef HARMONIA_LOOKUP_WALK_H
#define HARMONIA_LOOKUP_WALK_H

#include "am/am.h"
#include "lookup/lookup.h"

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

/*
 * Prefetch what hm_pin() will read of a block, and these lines of the page: bit i
 * stands for the HP_LINE_SIZE bytes from HP_LINE_SIZE * i on.  Does nothing if no
 * buffer is remembered for it.
 */
extern void hm_pin_prefetch_lines(Relation index, BlockNumber block, uint64 lines);

/* ----------------------------------------------------------------
 *		Routes (route.c)
 * ----------------------------------------------------------------
 */

/* A leaf to visit. */
typedef struct HmRouteLeaf
{
	BlockNumber block;
	uint32		end;			/* the first probe that begins after this leaf */
	uint64		stamp;			/* of its segment */
	Buffer		buffer;			/* if it is pinned already */
} HmRouteLeaf;

#define HM_ROUTE_MAX		256

/*
 * The next leaves that probes need, in order.  They are right at the time when the
 * header of their segment is locked; afterwards leaves may be split, or the segment may
 * be replaced.
 */
typedef struct HmRoute
{
	uint32		count;
	uint32		segments;		/* number of headers locked to make it */
	HmRouteLeaf	leaves[HM_ROUTE_MAX];
} HmRoute;

/* The input for making a route. */
typedef struct HmRouteInput
{
	Relation	index;
	HtWidth		width;
	const HtProbe *probes;		/* in order */
	const uint64 *high;			/* by number, or NULL: points */
	uint32		next;			/* first probe that has not begun */
	uint32		sorted;			/* number of probes sorted so far */
	bool		complete;		/* all probes are sorted */
	HmPosition	target;			/* where to begin */
	bool		has_reach;		/* probes that have begun go on */
	uint64		reach;			/* up to this key */
} HmRouteInput;

typedef enum HmRouteResult
{
	HM_ROUTE_MADE,
	HM_ROUTE_MORE,				/* sort more probes first: some may begin on the
								 * first leaf */
	HM_ROUTE_END					/* the index ends before the target */
} HmRouteResult;

/*
 * Make a route.  Enters the segment that covers the target, and finds the leaves in it
 * that the probes need; if these are few, goes on in the next segments.  Locks one
 * header at a time.  Holds no lock and no pin on return.
 *
 * Errors: index_corrupted.
 */
extern HmRouteResult hm_route_make(HmRoute *route, const HmRouteInput *input);

#endif							/* HARMONIA_LOOKUP_WALK_H */
