/*
 * ahead.h
 *		The process that brings copies up to date ahead of the batches that search them (ahead.c).
 *
 * Only one database has it at a time.
 */
#ifndef HARMONIA_DEVICE_AHEAD_H
#define HARMONIA_DEVICE_AHEAD_H

/* GUC harmonia.resync_ahead */
extern bool hm_resync_ahead;

/* So many marked lines are enough for a step. */
#ifdef HM_SMALL_LIMITS
#define HM_AHEAD_LINES 32
#else
#define HM_AHEAD_LINES 256
#endif

/*
 * Start the process for this database, unless one runs or was started a moment ago.
 */
extern void hm_ahead_start(void);

/* The process has something to do.  May be called in a critical section. */
extern void hm_ahead_wake(void);

#endif /* HARMONIA_DEVICE_AHEAD_H */
