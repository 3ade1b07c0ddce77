/*
 * ahead.c
 *		The process that brings copies up to date ahead of the batches that search them.
 *
 * A batch sends what has changed before it searches.  Most of that time goes into pinning and
 * locking the changed pages one by one.  So while an index is searched and changed, this background
 * worker of its database does the same, in steps of a few hundred lines, and a batch finds little
 * left to do.  It makes no copies.  It is started when a batch had much to send, and ends when no
 * copy was searched for a while.  Writers wake it when they have marked enough lines.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "am/am.h"
#include "device/ahead.h"
#include "device/copies.h"
#include "device/shared.h"
#include "device/stats.h"

/* How often to look whether any copy is still searched. */
#define LOOK_MS 500

/*
 * A copy was searched lately if a batch has been noted in this time.  It is shorter than DROP
 * DATABASE waits for others to leave the database.
 */
#define LATELY_MS 2000

/* Not more than one process is started in this time. */
#define START_MS 1000

extern PGDLLEXPORT void hm_ahead_main(Datum argument);

void
hm_ahead_start(void)
{
	uint64 now = hm_now_ms();
	bool wanted;

	if (!hm_resync_ahead)
		return;
	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	wanted = hm_device->ahead_pid == 0 &&
			 (hm_device->ahead_started == 0 || now - hm_device->ahead_started >= START_MS);
	if (wanted)
		hm_device->ahead_started = now;
	LWLockRelease(hm_device->lock);
	if (!wanted)
		return;

	/* If max_worker_processes is used up, batches do without. */
	(void) hm_start_worker("hm_ahead_main", "harmonia re-sync", InvalidOid);
}

static void
end_at_exit(int code, Datum arg)
{
	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	if (hm_device->ahead_pid == MyProcPid)
	{
		hm_device->ahead_pid = 0;
		hm_device->ahead_latch = NULL;
	}
	LWLockRelease(hm_device->lock);
}

/* This process begins to be it.  Returns false if there is another one. */
static bool
begin(void)
{
	bool result;

	before_shmem_exit(end_at_exit, (Datum) 0);
	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	result = hm_device->ahead_pid == 0;
	if (result)
	{
		hm_device->ahead_pid = MyProcPid;
		hm_device->ahead_latch = MyLatch;
	}
	LWLockRelease(hm_device->lock);
	return result;
}

void
hm_ahead_wake(void)
{
	Latch *latch = hm_device->ahead_latch;

	if (latch != NULL)
		SetLatch(latch);
}

/* When did a batch last search the copy?  In ms, as means have it (costs.h); 0: never. */
static uint32
last_search(const HmDeviceCosts *costs)
{
	uint32 last = 0;

	for (int i = 0; i < HM_SIZE_CLASSES; i++)
	{
		if (costs->classes[i].device.value > 0)
			last = Max(last, costs->classes[i].device.at_ms);
	}
	return last;
}

/*
 * Find an index of this database that has enough marked lines, and was searched lately.  Returns
 * InvalidOid if there is none; then *idle says that none was even searched.
 */
static Oid
next_index(bool *idle)
{
	uint32 now_ms = (uint32) hm_now_ms();
	Oid result = InvalidOid;
	int64 most = HM_AHEAD_LINES - 1;

	*idle = true;
	LWLockAcquire(hm_device->lock, LW_SHARED);
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *slot = &hm_device->slots[i];
		int64 owed = (int64) pg_atomic_read_u64(&slot->owed);
		uint32 last = last_search(&slot->costs);

		if (slot->database != MyDatabaseId || slot->words == 0 || slot->loader != 0 || last == 0 ||
			now_ms - last > LATELY_MS)
			continue;
		*idle = false;
		if (owed <= most)
			continue;
		most = owed;
		result = slot->relation;
	}
	LWLockRelease(hm_device->lock);
	return result;
}

/*
 * Bring the copy of an index closer to the index, unless somebody wants to alter or drop that.
 * Returns false if nothing was sent.
 */
static bool
step(Oid relation)
{
	HmLookupStats stats = {0};
	Relation index;

	StartTransactionCommand();
	if (ConditionalLockRelationOid(relation, AccessShareLock))
	{
		/* Another relation can have got the number of an index that was dropped. */
		index = try_relation_open(relation, NoLock);
		if (index != NULL && hm_is_index(index))
		{
			hm_sync_ahead(index, &stats);
			hm_stats_add(relation, &stats.counts);
		}
		if (index != NULL)
			relation_close(index, NoLock);
	}
	CommitTransactionCommand();
	return stats.synced_lines > 0;
}

void
hm_ahead_main(Datum argument)
{
	bool idle = false;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), InvalidOid, 0);
	if (!begin())
		proc_exit(0);

	while (hm_resync_ahead && hm_device_state() == HM_DEVICE_UP)
	{
		Oid relation;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		relation = next_index(&idle);
		if (idle)
			break;
		if (OidIsValid(relation) && step(relation))
			continue;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	proc_exit(0);
}
