/*
 * stats.h
 *		Statistics of indexes' batches, and what is known of their costs (stats.c).
 */
#ifndef HARMONIA_DEVICE_STATS_H
#define HARMONIA_DEVICE_STATS_H

#include "datatype/timestamp.h"

#include "device/costs.h"
#include "lookup/lookup.h"

typedef struct HmDeviceStats
{
	Oid database;
	Oid relation;
	bool watched;
	HmBatchCounts counts;
} HmDeviceStats;

/* Add to an index's counters. */
extern void hm_stats_add(Oid relation, const HmBatchCounts *counts);

/* All statistics; the result is palloc'd. */
extern HmDeviceStats *hm_stats_read(int *count, TimestampTz *since);

/* Reset the counters of one index or, if relation is invalid, of this database. */
extern void hm_stats_reset(Oid relation);

/* What the choice has to know of a copy, besides its costs. */
typedef struct HmCopyState
{
	bool watched; /* there may be a copy */
	bool loading; /* a backend makes it */
	uint64 lines; /* that it lacks, about */
} HmCopyState;

/*
 * Get the costs of an index of this database, to read or change them, and the state of its copy
 * if state is not NULL.  Returns NULL if there is no room for them.  Otherwise the caller soon
 * calls hm_stats_unlock_costs(), and nothing in between that may fail or wait.
 */
extern HmDeviceCosts *hm_stats_lock_costs(Oid relation, HmCopyState *state);
extern void hm_stats_unlock_costs(void);

/*
 * The time in ms, never 0, by a clock that nobody sets back.  All processes of a server have the
 * same.  Costs know their age by its lower half.
 */
extern uint64 hm_now_ms(void);

#endif /* HARMONIA_DEVICE_STATS_H */
