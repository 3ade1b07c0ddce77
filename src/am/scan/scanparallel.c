/*
 * scanparallel.c
 *		What the processes of a parallel index scan share: the position where the next one reads on.
 *
 * A process takes the position, reads the next leaf that has matches, and leaves the position
 * behind what it has read.  Others wait for that, as those of a parallel scan of a btree do.
 * Reading a leaf takes much less than what is then done with its rows.  As positions are bounds of
 * keys, not blocks, leaves may be split and segments moved between any two reads.
 */
#include "postgres.h"

#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"

#include "am/scan/scan.h"
#include "am/scan/scanparallel.h"
#include "compat.h"

typedef enum Phase
{
	SCAN_NOT_BEGUN,
	SCAN_IDLE,    /* the position can be taken */
	SCAN_READING, /* a process has taken it */
	SCAN_DONE
} Phase;

/* In dynamic shared memory. */
typedef struct SharedScan
{
	slock_t mutex;             /* protects the phase */
	ConditionVariable changed; /* the phase may have */
	Phase phase;
	/* Belongs to the process that reads.  Bytes, because 128 bits may not be aligned here. */
	char position[HM_POSITION_MAX];
} SharedScan;

static SharedScan *
shared_scan(IndexScanDesc scan)
{
	return (SharedScan *) ((char *) scan->parallel_scan + hm_parallel_offset(scan->parallel_scan));
}

Size
hm_estimate_parallel_scan(HM_ESTIMATE_PARALLEL_PARAMETERS)
{
	return sizeof(SharedScan);
}

void
hm_init_parallel_scan(void *at)
{
	SharedScan *shared = at;

	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->changed);
	shared->phase = SCAN_NOT_BEGUN;
}

/* No process reads now. */
void
hm_parallel_rescan(IndexScanDesc scan)
{
	SharedScan *shared = shared_scan(scan);

	SpinLockAcquire(&shared->mutex);
	shared->phase = SCAN_NOT_BEGUN;
	SpinLockRelease(&shared->mutex);
}

HmTaken
hm_parallel_take(IndexScanDesc scan, void *position, Size size)
{
	SharedScan *shared = shared_scan(scan);
	Phase phase;

	for (;;)
	{
		SpinLockAcquire(&shared->mutex);
		phase = shared->phase;
		if (phase == SCAN_NOT_BEGUN || phase == SCAN_IDLE)
			shared->phase = SCAN_READING;
		SpinLockRelease(&shared->mutex);
		if (phase != SCAN_READING)
			break;
		ConditionVariableSleep(&shared->changed, hm_wait_event("HarmoniaParallelScan"));
	}
	ConditionVariableCancelSleep();
	if (phase == SCAN_IDLE)
		memcpy(position, shared->position, size);
	return phase == SCAN_DONE ? HM_TAKEN_NONE : phase == SCAN_IDLE ? HM_TAKEN_NEXT : HM_TAKEN_FIRST;
}

void
hm_parallel_leave(IndexScanDesc scan, const void *position, Size size)
{
	SharedScan *shared = shared_scan(scan);

	Assert(size <= HM_POSITION_MAX);
	if (position != NULL)
		memcpy(shared->position, position, size);
	SpinLockAcquire(&shared->mutex);
	Assert(shared->phase == SCAN_READING);
	shared->phase = position != NULL ? SCAN_IDLE : SCAN_DONE;
	SpinLockRelease(&shared->mutex);

	/* At the end, all who wait have to see it. */
	if (position != NULL)
		ConditionVariableSignal(&shared->changed);
	else
		ConditionVariableBroadcast(&shared->changed);
}
