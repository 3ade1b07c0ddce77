/*
 * locks.c
 *		Heavyweight locks on "pages" of the index, and how they are waited for.
 *
 * They are locks of PostgreSQL's lock manager, so an error or a crash releases them.  But
 * no backend queues for a lock that VACUUM or a writer may hold for long: the server cancels an
 * autovacuum worker if a backend has stood in the queue behind it for deadlock_timeout.
 * A waiting backend asks again soon at first, later every two milliseconds.  src/am/README lists
 * the locks and says why such waits end.
 *
 * The visibility gate has two doors.  A lookup enters by the first one that is open, and
 * never waits.  VACUUM queues at one door after the other.  While it does, the lock manager
 * refuses that door to lookups that come, so they take the other one, and VACUUM waits for
 * those that are inside and for no others.  The second door comes first: only lookups
 * that met VACUUM at the first one are inside.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#include "am/fault.h"
#include "am/store/store.h"
#include "compat.h"

/*
 * Page numbers that stand for locks which belong to no page.  The file never has the last
 * three blocks that a file could have, see hm_extent_allocate().
 */
#define HM_ALLOCATION_BLKNO MaxBlockNumber
#define HM_FIRST_DOOR_BLKNO HM_METAPAGE_BLKNO
#define HM_SECOND_DOOR_BLKNO (MaxBlockNumber - 1)
#define HM_MOVER_BLKNO (MaxBlockNumber - 2)

/*
 * The time between two looks doubles from the least to the most, in microseconds.  A mover keeps
 * writers out for about a millisecond, so the first looks come soon.
 */
#define HM_PAUSE_MIN_US 50L
#define HM_PAUSE_MAX_US 2000L

/* ----------------------------------------------------------------
 *		Waiting
 * ----------------------------------------------------------------
 */

void
hm_pause(int *pauses, const char *event)
{
	long us = HM_PAUSE_MIN_US;

	for (int i = 0; i < *pauses && us < HM_PAUSE_MAX_US; i++)
		us *= 2;
	us = Min(us, HM_PAUSE_MAX_US);
	++*pauses;

	/* A latch's timeout is in milliseconds. */
	if (us >= 1000)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, us / 1000,
						 hm_wait_event(event));
		ResetLatch(MyLatch);
	}
	else
	{
		pgstat_report_wait_start(hm_wait_event(event));
		pg_usleep(us);
		pgstat_report_wait_end();
	}
	CHECK_FOR_INTERRUPTS();
}

/* Take a lock without standing in its queue.  The caller holds no buffer lock. */
static void
lock_page(Relation index, BlockNumber block, LOCKMODE mode, const char *event)
{
	int pauses = 0;

	while (!ConditionalLockPage(index, block, mode))
		hm_pause(&pauses, event);
}

/* ----------------------------------------------------------------
 *		Movement
 * ----------------------------------------------------------------
 */

void
hm_movement_lock(Relation index, BlockNumber header)
{
	lock_page(index, header, ExclusiveLock, HM_WAIT_MOVEMENT);
}

void
hm_movement_unlock(Relation index, BlockNumber header)
{
	UnlockPage(index, header, ExclusiveLock);
}

bool
hm_movement_keep_out(Relation index, BlockNumber header)
{
	return ConditionalLockPage(index, header, ShareLock);
}

void
hm_movement_let_in(Relation index, BlockNumber header)
{
	UnlockPage(index, header, ShareLock);
}

bool
hm_mover_lock(Relation index)
{
	return ConditionalLockPage(index, HM_MOVER_BLKNO, ExclusiveLock);
}

void
hm_mover_unlock(Relation index)
{
	UnlockPage(index, HM_MOVER_BLKNO, ExclusiveLock);
}

bool
hm_mover_is_there(Relation index)
{
	if (!ConditionalLockPage(index, HM_MOVER_BLKNO, ShareLock))
		return true;
	UnlockPage(index, HM_MOVER_BLKNO, ShareLock);
	return false;
}

/* ----------------------------------------------------------------
 *		Allocation
 * ----------------------------------------------------------------
 */

void
hm_allocation_lock(Relation index)
{
	lock_page(index, HM_ALLOCATION_BLKNO, ShareLock, HM_WAIT_ALLOCATION);
}

void
hm_allocation_unlock(Relation index)
{
	UnlockPage(index, HM_ALLOCATION_BLKNO, ShareLock);
}

bool
hm_allocation_keep_out(Relation index)
{
	return ConditionalLockPage(index, HM_ALLOCATION_BLKNO, ExclusiveLock);
}

void
hm_allocation_let_in(Relation index)
{
	UnlockPage(index, HM_ALLOCATION_BLKNO, ExclusiveLock);
}

/* ----------------------------------------------------------------
 *		The visibility gate
 * ----------------------------------------------------------------
 */

/*
 * Enter by a door if VACUUM has not closed it.  From PostgreSQL 17 on the lock manager lets a
 * process overtake VACUUM where another process of the same parallel query is inside.  These
 * could keep VACUUM waiting as long as the query runs, so the queue is looked at as well.
 */
static bool
enter_by(Relation index, BlockNumber door)
{
	LOCKTAG tag;

	if (!ConditionalLockPage(index, door, ShareLock))
		return false;
	SET_LOCKTAG_PAGE(tag, index->rd_lockInfo.lockRelId.dbId, index->rd_lockInfo.lockRelId.relId,
					 door);
	if (!LockHasWaiters(&tag, ShareLock, false))
		return true;
	UnlockPage(index, door, ShareLock);
	return false;
}

/*
 * VACUUM closes one door at a time.  So the other one is open, or the first one is open
 * again at the next attempt.
 */
BlockNumber
hm_visibility_gate_enter(Relation index)
{
	BlockNumber door = HM_FIRST_DOOR_BLKNO;

	while (!enter_by(index, door))
	{
		CHECK_FOR_INTERRUPTS();
		door = door == HM_FIRST_DOOR_BLKNO ? HM_SECOND_DOOR_BLKNO : HM_FIRST_DOOR_BLKNO;
	}
	HM_FAULT(visibility_gate_entered);
	return door;
}

void
hm_visibility_gate_leave(Relation index, BlockNumber door)
{
	UnlockPage(index, door, ShareLock);
}

/*
 * Wait until all lookups that are inside by this door have left.  This is a wait in the lock's
 * queue, which is what closes the door, and pg_blocking_pids() shows which backends VACUUM waits
 * for. lock_timeout is about locks that users know of, so it does not apply.
 */
static void
drain_door(Relation index, BlockNumber door)
{
	int nest_level = NewGUCNestLevel();

	(void) set_config_option("lock_timeout", "0", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
							 0, false);
	LockPage(index, door, ExclusiveLock);
	AtEOXact_GUC(false, nest_level);
	UnlockPage(index, door, ExclusiveLock);
}

void
hm_visibility_gate_drain(Relation index)
{
	drain_door(index, HM_SECOND_DOOR_BLKNO);
	drain_door(index, HM_FIRST_DOOR_BLKNO);
}
