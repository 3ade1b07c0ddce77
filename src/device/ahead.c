/*
 * ahead.c
 *		Which copies are brought up to date ahead of the batches that search them, and the
 *		life of the process that does so.
 *
 * The process itself, a background worker of a database, is in src/lookup/ahead.c.  It is started
 * when a batch had much to send, and ends when no copy was searched for a while.  Writers wake it when
 * they have marked enough lines.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"

#include "device/shared.h"

/*
 * A copy was searched lately if a batch has been noted in this time.  It is shorter than DROP DATABASE
 * waits for others to leave the database.
 */
#define LATELY_MS		2000

/* Not more than one process is started in this time. */
#define START_MS		1000

void
hm_ahead_start(void)
{
	BackgroundWorker worker = {0};
	uint64		now = hm_now_ms();
	bool		wanted;

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

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "harmonia", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "hm_ahead_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "harmonia re-sync", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "harmonia re-sync", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);

	/* If max_worker_processes is used up, batches do without. */
	(void) RegisterDynamicBackgroundWorker(&worker, NULL);
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

bool
hm_ahead_begin(void)
{
	bool		result;

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
	Latch	   *latch = hm_device->ahead_latch;

	if (latch != NULL)
		SetLatch(latch);
}

/* When did a batch last search the copy?  In ms, as means have it (costs.h); 0: never. */
static uint32
last_search(const HmDeviceCosts *costs)
{
	uint32		last = 0;

	for (int i = 0; i < HM_SIZE_CLASSES; i++)
	{
		if (costs->device[i].value > 0)
			last = Max(last, costs->device[i].at_ms);
	}
	return last;
}

Oid
hm_ahead_next(bool *idle)
{
	uint32		now_ms = (uint32) hm_now_ms();
	Oid			result = InvalidOid;
	int64		most = HM_AHEAD_LINES - 1;

	*idle = true;
	LWLockAcquire(hm_device->lock, LW_SHARED);
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot	   *slot = &hm_device->slots[i];
		int64		owed = (int64) pg_atomic_read_u64(&slot->owed);
		uint32		last = last_search(&slot->costs);

		if (slot->database != MyDatabaseId || slot->words == 0 || slot->loader != 0 ||
			last == 0 || now_ms - last > LATELY_MS)
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
