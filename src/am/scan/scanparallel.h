/*
 * scanparallel.h
 *		Taking turns in a parallel index scan.
 */
#ifndef HARMONIA_SCANPARALLEL_H
#define HARMONIA_SCANPARALLEL_H

#include "access/relscan.h"

/* The size of a position, at most, in bytes. */
#define HM_POSITION_MAX 64

typedef enum HmTaken
{
	HM_TAKEN_NONE,  /* the scan is at its end */
	HM_TAKEN_FIRST, /* no process has read yet */
	HM_TAKEN_NEXT
} HmTaken;

/*
 * Wait for the turn to read.  Sets *position, of "size" bytes, to where to read on if the result is
 * HM_TAKEN_NEXT. Unless it is HM_TAKEN_NONE, hm_parallel_leave() has to follow; an error ends all
 * processes.  The caller holds no buffer lock.
 */
extern HmTaken hm_parallel_take(IndexScanDesc scan, void *position, Size size);

/* End the turn.  The next process reads on from this position; NULL: nothing is left. */
extern void hm_parallel_leave(IndexScanDesc scan, const void *position, Size size);

#endif /* HARMONIA_SCANPARALLEL_H */
