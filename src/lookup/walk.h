/*
 * walk.h
 *		What the files of this folder share.  Others use lookup.h.
 */
#ifndef HARMONIA_LOOKUP_WALK_H
#define HARMONIA_LOOKUP_WALK_H

#include "am/am.h"
#include "lookup/lookup.h"

/* ----------------------------------------------------------------
 *		Pins (pin.c)
 * ----------------------------------------------------------------
 */

/*
 * Pin a block, trying first the buffer that held it when this backend pinned
 * it last.
 */
extern Buffer hm_pin(Relation index, BlockNumber block);

/*
 * Have the cache fetch what hm_pin() will read of a block, and the page's special
 * area and those lines of it that begin in from..to, if the buffer is known that
 * may hold it.  If many lines will be read, that pays for having the addresses of all its
 * memory translated; a probe alone on its leaf, with huge pages, takes 7 % longer for it.
 */
extern void hm_pin_prefetch(Relation index, BlockNumber block, int from, int to, bool many);

/* A block has been seen in this buffer, if that is not 0: hm_pin() may try it. */
extern void hm_pin_expect(Relation index, BlockNumber block, Buffer buffer);

/*
 * Have the cache fetch what hm_pin() will read of a block, and these lines of the page (bit i
 * stands for the bytes from HP_LINE_SIZE * i on), if the buffer is known that may hold it.
 */
extern void hm_pin_prefetch_lines(Relation index, BlockNumber block, uint64 lines);

/* ----------------------------------------------------------------
 *		Routes (route.c)
 * ----------------------------------------------------------------
 */

/* A leaf to be visited. */
typedef struct HmRouteLeaf
{
	BlockNumber block;
	uint32		end;			/* probes that begin on this leaf or before:
								 * those below this place */
	uint64		stamp;			/* of its segment */
	Buffer		buffer;			/* if it is pinned already */
} HmRouteLeaf;

#define HM_ROUTE_MAX		256

/*
 * The next leaves that probes need, in order.  They were right when the header of
 * their segment was locked; since then leaves may have been split, or the
 * segment replaced.
 */
typedef struct HmRoute
{
	uint32		count;
	uint32		segments;		/* headers locked to make it */
	HmRouteLeaf	leaves[HM_ROUTE_MAX];
} HmRoute;

/* What is asked of a route. */
typedef struct HmRouteInput
{
	Relation	index;
	HtWidth		width;
	const HtProbe *probes;		/* in order */
	const uint64 *high;			/* by number, or NULL: points */
	uint32		next;			/* first probe that has not begun */
	uint32		sorted;			/* probes known so far */
	bool		complete;		/* there are no more */
	HmPosition	target;			/* where to begin */
	bool		has_reach;		/* probes that have begun go on */
	uint64		reach;			/* to here */
} HmRouteInput;

typedef enum HmRouteResult
{
	HM_ROUTE_MADE,
	HM_ROUTE_MORE,				/* the first leaf may be where probes begin
								 * that are not sorted yet */
	HM_ROUTE_END					/* the index ends before the target */
} HmRouteResult;

/*
 * Enter the segment that covers the target, and find the leaves there that the
 * probes need; if these are few, go on with the next segment.  Locks one
 * header at a time; holds no lock and no pin on return.
 * Errors: index_corrupted.
 */
extern HmRouteResult hm_route_make(HmRoute *route, const HmRouteInput *input);

#endif							/* HARMONIA_LOOKUP_WALK_H */
