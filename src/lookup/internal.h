/*
 * internal.h
 *		What the files of this folder share.  Others use lookup.h.
 */
#ifndef HARMONIA_LOOKUP_INTERNAL_H
#define HARMONIA_LOOKUP_INTERNAL_H

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
 * Have the cache fetch what hm_pin() and a look at the page will read of a
 * block, if the buffer is known that may hold it; with "coarse", the leaf's whole
 * coarse index.
 */
extern void hm_pin_prefetch(Relation index, BlockNumber block, bool coarse);

/* ----------------------------------------------------------------
 *		Plans (plan.c)
 * ----------------------------------------------------------------
 */

/* A leaf to be visited. */
typedef struct HmPlanLeaf
{
	BlockNumber block;
	uint32		end;			/* probes that begin on this leaf or before:
								 * those below this place */
	Buffer		buffer;			/* if it is pinned already */
} HmPlanLeaf;

#define HM_PLAN_MAX		256

/*
 * The next leaves of a segment that probes need, in order.  They were right when
 * its header was locked; since then leaves may have been split, or the segment
 * replaced.
 */
typedef struct HmPlan
{
	uint64		stamp;			/* of the segment */
	uint32		count;
	HmPlanLeaf	leaves[HM_PLAN_MAX];
} HmPlan;

/* What is asked of a plan. */
typedef struct HmPlanInput
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
} HmPlanInput;

typedef enum HmPlanResult
{
	HM_PLAN_MADE,
	HM_PLAN_MORE,				/* the first leaf may be where probes begin
								 * that are not sorted yet */
	HM_PLAN_END					/* the index ends before the target */
} HmPlanResult;

/*
 * Enter the segment that covers the target, and find the leaves there that the
 * probes need.  Holds no lock and no pin on return.
 * Errors: index_corrupted.
 */
extern HmPlanResult hm_plan_make(HmPlan *plan, const HmPlanInput *input);

#endif							/* HARMONIA_LOOKUP_INTERNAL_H */
