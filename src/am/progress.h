/*
 * progress.h
 *		Progress of commands that are functions, for the view pg_stat_progress_harmonia.
 */
#ifndef HARMONIA_PROGRESS_H
#define HARMONIA_PROGRESS_H

#include "commands/progress.h"
#include "utils/rel.h"

typedef enum HmProgressCommand
{
	HM_PROGRESS_CHECK,
	HM_PROGRESS_LOAD,
	HM_PROGRESS_REORGANIZE
} HmProgressCommand;

typedef enum HmProgressPhase
{
	HM_PROGRESS_STARTING,
	HM_PROGRESS_CHECKING_SEGMENTS,
	HM_PROGRESS_CHECKING_EXTENTS,
	HM_PROGRESS_CHECKING_TABLE,
	HM_PROGRESS_COPYING,
	HM_PROGRESS_COUNTING,
	HM_PROGRESS_MOVING,
	HM_PROGRESS_COMPACTING
} HmProgressPhase;

/*
 * Begin to report, unless this backend reports another command already.  What an error leaves
 * behind ends with its (sub)transaction.
 */
extern void hm_progress_begin(Relation index, HmProgressCommand command);
extern void hm_progress_end(void);

/*
 * These do nothing if no command of ours is reported, so they may be called by what VACUUM
 * does, too.  A phase begins with so many segments and blocks to do, 0 if these are not counted.
 */
extern void hm_progress_phase(HmProgressPhase phase, int64 segments, int64 blocks);
extern void hm_progress_segments(int64 done);
extern void hm_progress_blocks(int64 done);

#endif /* HARMONIA_PROGRESS_H */
