/*
 * ahead.c
 *		The process that brings copies up to date ahead of the batches that search them.
 *
 * A batch sends what has changed before it searches.  Most of that time goes into pinning and
 * locking the changed pages one by one.  So while an index is searched and changed, this background
 * worker does the same, in steps of a few hundred lines, and a batch finds little left to do.  It makes no
 * copies.  src/device/ahead.c says when it runs.
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

#include "lookup/remote.h"

/* How often to look whether any copy is still searched. */
#define LOOK_MS			500

extern PGDLLEXPORT void hm_ahead_main(Datum argument);

/*
 * Bring the copy of an index closer to the index, unless somebody wants to alter or drop that.
 * Returns false if nothing was sent.
 */
static bool
step(Oid relation)
{
	HmLookupStats stats = {0};
	Relation	index;

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
	bool		idle = false;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), InvalidOid, 0);
	if (!hm_ahead_begin())
		proc_exit(0);

	while (hm_resync_ahead && hm_device_state() == HM_DEVICE_UP)
	{
		Oid			relation;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		relation = hm_ahead_next(&idle);
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
