/*
 * shared_rows.c
 *		Generations of outer rows that the processes of a parallel lookup join share.
 *
 * shared_rows.h explains them.  A generation is in one of these states:
 *
 *		none       nobody adds rows, and there are no partitions
 *		adding     "adding" processes are at it
 *		dividing   the last of them makes partitions
 *		taking     partitions are taken and copied; when the last one has been copied, the memory is
 *		           freed, and there is no generation
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

#include "am/fault.h"
#include "compat.h"
#include "exec/nodes.h"
#include "exec/shared_rows.h"

/*
 * So many partitions for each process even out what a process more or less has to do; a partition
 * has at least so many rows; and of a batch's room, it should fill so much, since partitions differ
 * in size.
 */
#define PARTITIONS_EACH 4
#define MIN_ROWS 1000
#define BATCH_FILL 0.75

struct HmSharedRows
{
	slock_t mutex; /* protects all that follows */
	ConditionVariable changed;
	int processes;
	uint64 total; /* rows of all generations */
	int adding;   /* processes */
	bool full;    /* nobody may begin to add */
	bool dividing;
	Size bytes;
	uint64 rows;
	uint32 runs;
	dsa_pointer first_run;
	HmKey length;
	uint32 partitions;
	uint32 next; /* the first one that is not taken */
	int copying; /* processes */
	dsa_pointer cuts;
};

/* Forget a generation, whose memory is freed by the caller. */
static void
clear(HmSharedRows *shared)
{
	shared->adding = shared->copying = 0;
	shared->full = shared->dividing = false;
	shared->bytes = 0;
	shared->rows = 0;
	shared->runs = shared->partitions = shared->next = 0;
	shared->first_run = shared->cuts = InvalidDsaPointer;
	shared->length = 0;
}

Size
hm_shared_rows_size(void)
{
	return MAXALIGN(sizeof(HmSharedRows));
}

void
hm_shared_rows_init(HmSharedRows *shared, int processes)
{
	memset(shared, 0, sizeof(HmSharedRows));
	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->changed);
	shared->processes = processes;
	clear(shared);
}

/* Free the memory of a generation. */
static void
free_generation(dsa_area *area, dsa_pointer first_run, dsa_pointer cuts)
{
	while (DsaPointerIsValid(first_run))
	{
		dsa_pointer next = ((SharedRun *) dsa_get_address(area, first_run))->next;

		dsa_free(area, first_run);
		first_run = next;
	}
	if (DsaPointerIsValid(cuts))
		dsa_free(area, cuts);
}

void
hm_shared_rows_reset(HmSharedRows *shared, dsa_area *area)
{
	if (area != NULL)
		free_generation(area, shared->first_run, shared->cuts);
	clear(shared);
}

uint64
hm_shared_rows_total(HmSharedRows *shared)
{
	uint64 total;

	SpinLockAcquire(&shared->mutex);
	total = shared->total;
	SpinLockRelease(&shared->mutex);
	return total;
}

/* Take the next partition. */
static void
take(HmSharedRows *shared, SharedPartition *partition)
{
	*partition = (SharedPartition){.number = shared->next++,
								   .count = shared->partitions,
								   .runs = shared->runs,
								   .first_run = shared->first_run,
								   .cuts = shared->cuts,
								   .length = shared->length};
	shared->copying++;
}

/* What a process can do now.  Returns false if it has to wait. */
static bool
try_next(HmSharedRows *shared, bool has_rows, SharedPartition *partition, SharedStep *step)
{
	bool decided = true;

	SpinLockAcquire(&shared->mutex);
	if (shared->next < shared->partitions)
	{
		*step = SHARED_TAKE;
		take(shared, partition);
	}
	else if (shared->partitions > 0 ||
			 (shared->adding > 0 && (shared->full || shared->dividing || !has_rows)))
	{
		/* A process without rows has nothing to do in a later generation. */
		*step = SHARED_END;
		decided = shared->partitions > 0 && !has_rows;
	}
	else
	{
		*step = has_rows ? SHARED_ADD : SHARED_END;
		shared->adding += has_rows;
	}
	SpinLockRelease(&shared->mutex);
	return decided;
}

SharedStep
hm_shared_rows_next(HmSharedRows *shared, bool has_rows, SharedPartition *partition)
{
	SharedStep step;

	while (!try_next(shared, has_rows, partition, &step))
		ConditionVariableSleep(&shared->changed, hm_wait_event("HarmoniaSharedRows"));
	ConditionVariableCancelSleep();
	return step;
}

bool
hm_shared_rows_has_room(HmSharedRows *shared)
{
	Size most = get_hash_memory_limit() * shared->processes;
	bool has_room;

	SpinLockAcquire(&shared->mutex);
	shared->full |= shared->bytes >= most;
	has_room = !shared->full;
	SpinLockRelease(&shared->mutex);
	return has_room;
}

bool
hm_shared_rows_add(HmSharedRows *shared, dsa_area *area, dsa_pointer pointer, HmKey length)
{
	SharedRun *run = dsa_get_address(area, pointer);
	bool fits;

	SpinLockAcquire(&shared->mutex);
	fits = shared->runs == 0 || shared->length == length;
	if (fits)
	{
		run->next = shared->first_run;
		shared->first_run = pointer;
		shared->length = length;
		shared->runs++;
		shared->rows += run->rows;
		shared->total += run->rows;
		shared->bytes += run->size;
	}
	SpinLockRelease(&shared->mutex);
	return fits;
}

/* The number of partitions for a generation's rows. */
static uint32
partitions_for(const HmSharedRows *shared, uint32 batch_rows)
{
	uint64 least = (uint64) (shared->rows / (batch_rows * BATCH_FILL)) + 1;
	uint64 most = shared->rows / MIN_ROWS + 1;

	return (uint32) Max(least, Min(most, (uint64) shared->processes * PARTITIONS_EACH));
}

/* Divide the generation, which nobody else changes now. */
static void
divide(HmSharedRows *shared, dsa_area *area, Size key_size, uint32 batch_rows)
{
	uint32 partitions = shared->rows > 0 ? partitions_for(shared, batch_rows) : 0;
	const SharedRun **runs = palloc(Max(1, shared->runs) * sizeof(SharedRun *));
	dsa_pointer cuts = InvalidDsaPointer;
	dsa_pointer pointer = shared->first_run;

	HM_FAULT(shared_rows_dividing);
	for (uint32 i = 0; i < shared->runs; i++)
	{
		runs[i] = dsa_get_address(area, pointer);
		pointer = runs[i]->next;
	}
	if (partitions > 0)
	{
		cuts = dsa_allocate_extended(area, (partitions + 1) * (Size) shared->runs * sizeof(uint32),
									 DSA_ALLOC_HUGE);
		hm_shared_rows_cut(runs, shared->runs, key_size, partitions, dsa_get_address(area, cuts));
	}
	pfree(runs);
	SpinLockAcquire(&shared->mutex);
	shared->cuts = cuts;
	shared->partitions = partitions;
	shared->adding = 0;
	shared->dividing = shared->full = false;
	SpinLockRelease(&shared->mutex);
	ConditionVariableBroadcast(&shared->changed);
}

void
hm_shared_rows_leave(HmSharedRows *shared, dsa_area *area, Size key_size, uint32 batch_rows,
					 bool full)
{
	bool is_last;

	SpinLockAcquire(&shared->mutex);
	Assert(shared->adding > 0 && shared->partitions == 0);
	shared->full |= full;
	is_last = shared->adding == 1;
	if (is_last)
		shared->dividing = true;
	else
		shared->adding--;
	SpinLockRelease(&shared->mutex);
	if (is_last)
		divide(shared, area, key_size, batch_rows);
}

void
hm_shared_rows_taken(HmSharedRows *shared, dsa_area *area)
{
	dsa_pointer first_run = InvalidDsaPointer;
	dsa_pointer cuts = InvalidDsaPointer;
	bool is_last;

	SpinLockAcquire(&shared->mutex);
	Assert(shared->copying > 0);
	shared->copying--;
	is_last = shared->copying == 0 && shared->next == shared->partitions;
	if (is_last)
	{
		first_run = shared->first_run;
		cuts = shared->cuts;
		clear(shared);
	}
	SpinLockRelease(&shared->mutex);
	if (!is_last)
		return;
	free_generation(area, first_run, cuts);
	ConditionVariableBroadcast(&shared->changed);
}
