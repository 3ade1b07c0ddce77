/*
 * shared_rows.h
 *		Outer rows that the processes of a parallel lookup join share.
 *
 * Processes add their shares of the outer rows in *runs*, each sorted by key, to a *generation*.
 * When there are no more rows, or the memory for them is used up, the last process that was adding
 * divides the generation into *partitions*: ranges of keys that have about as many rows each.  Then
 * processes take partitions, until all are taken, so that a leaf of the index is visited by one
 * process.  If there are rows left, a new generation begins.
 *
 * A process waits for others in two cases only: while they add rows, and while they copy the
 * last partitions.  Neither depends on anybody who reads the join's results, so processes cannot
 * wait for each other in a circle, and none waits for a worker that never starts.
 */
#ifndef HARMONIA_EXEC_SHARED_ROWS_H
#define HARMONIA_EXEC_SHARED_ROWS_H

#include "utils/dsa.h"

#include "exec/nodes.h"

/*
 * A run.  After this struct come the arrays, each from the offset given: of probes' keys; of the
 * kept columns of rows, row by row, and their bits for NULLs; and copies of values that are passed
 * by reference, whose datums are offsets into the run.
 */
typedef struct SharedRun
{
	dsa_pointer next;
	Size size;     /* of all of it */
	uint32 rows;   /* in the order of their keys; */
	uint32 probes; /* the first so many have a probe */
	bool exact;    /* see LookupBatch */
	Size keys;
	Size values;
	Size nulls; /* 0 if no value is NULL */
	Size copies;
} SharedRun;

/* A partition: some of the rows of each run of the generation. */
typedef struct SharedPartition
{
	uint32 number;
	uint32 count; /* partitions */
	uint32 runs;
	dsa_pointer first_run;
	dsa_pointer cuts; /* see hm_shared_rows_cut() */
	HmKey length;     /* of all probes: last key less first key */
} SharedPartition;

/* The bytes of a HmSharedRows; make one for so many processes; and clear it for a rescan. */
extern Size hm_shared_rows_size(void);
extern void hm_shared_rows_init(HmSharedRows *shared, int processes);
extern void hm_shared_rows_reset(HmSharedRows *shared, dsa_area *area);

/* How many rows have been added since the start. */
extern uint64 hm_shared_rows_total(HmSharedRows *shared);

/* What a process does next. */
typedef enum SharedStep
{
	SHARED_ADD,  /* add rows, until hm_shared_rows_leave() */
	SHARED_TAKE, /* copy the rows of a partition, until hm_shared_rows_taken() */
	SHARED_END   /* there is nothing left to do */
} SharedStep;

/*
 * Wait until there is something to do.  has_rows: this process may have outer rows left.
 * Between SHARED_ADD or SHARED_TAKE and the call that ends it the process must not wait for anybody
 * who reads the join's results; an error there ends the query.
 */
extern SharedStep hm_shared_rows_next(HmSharedRows *shared, bool has_rows,
									  SharedPartition *partition);

/* Whether more rows may be added to the generation.  If not, nobody begins to. */
extern bool hm_shared_rows_has_room(HmSharedRows *shared);

/*
 * Add a run whose probes have this length to the generation.  Returns false if those of others have
 * another one; then the run is still the caller's.
 */
extern bool hm_shared_rows_add(HmSharedRows *shared, dsa_area *area, dsa_pointer run, HmKey length);

/*
 * Add no more rows.  The last process to do so divides the generation.  batch_rows is the number of
 * rows that a batch has room for.  full: nobody else shall add more.
 */
extern void hm_shared_rows_leave(HmSharedRows *shared, dsa_area *area, Size key_size,
								 uint32 batch_rows, bool full);

/* The partition has been copied. */
extern void hm_shared_rows_taken(HmSharedRows *shared, dsa_area *area);

/*
 * Divide runs into partitions (shared_cuts.c).  For each limit between partitions, the first and
 * the last one included, "cuts" gets how many probes of each run are before it; it has room for
 * (partitions + 1) * runs numbers.  No partition has many more rows than others, even if keys are
 * equal.
 */
extern void hm_shared_rows_cut(const SharedRun *const *runs, uint32 count, Size key_size,
							   uint32 partitions, uint32 *cuts);

static inline void *
hm_shared_run_at(const SharedRun *run, Size offset)
{
	return (char *) run + offset;
}

#endif /* HARMONIA_EXEC_SHARED_ROWS_H */
