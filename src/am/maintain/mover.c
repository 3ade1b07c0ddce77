/*
 * mover.c
 *		Movement in the background: a process that moves segments which have grown, so that
 *		inserts do not have to.
 *
 * A movement takes some ten milliseconds and more.  Writers go on meanwhile, but an insert that
 * moves a segment itself waits for all of it.  So an insert that finds a segment grown asks for a
 * background worker, once for each of a few numbers of leaves (hm_make_room()), and goes on.  Only
 * if the segment has grown to its limit before it was moved, an insert moves it.
 *
 * There is one such process an index.  It has the index's mover lock, which it takes only if that
 * is free, and moves one segment in each transaction, so that nobody waits long for its lock on the
 * relation.  It ends when no segment wants to be moved, or after two seconds; where inserts go on,
 * they ask again.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "am/maintain/maintain.h"
#include "compat.h"

/*
 * How long a worker stays, one movement more.  DROP DATABASE and others wait somewhat longer for a
 * database to be left.
 */
#define STAY_MS 2000

extern PGDLLEXPORT void hm_mover_main(Datum argument);

/*
 * Open an index and lock it and its table, as inserts do.  REINDEX CONCURRENTLY drops an index when
 * those have gone that have locked its table.  Returns NULL if it is no index that inserts go to,
 * or if somebody wants to alter or drop one of the two.
 */
static Relation
open_if_free(Oid relation)
{
	Oid heap = IndexGetRelation(relation, true);
	Relation index;

	if (!OidIsValid(heap) || !ConditionalLockRelationOid(heap, RowExclusiveLock) ||
		!ConditionalLockRelationOid(relation, RowExclusiveLock))
		return NULL;

	/* Another relation can have got the number of an index that was dropped. */
	index = try_relation_open(relation, NoLock);
	if (index == NULL)
		return NULL;
	if (hm_is_index(index) && index->rd_index->indrelid == heap && index->rd_index->indisready)
		return index;
	relation_close(index, NoLock);
	return NULL;
}

/*
 * Move the next segment that wants it, from a place in the directory on, in a transaction of its
 * own (hm_move_outgrown()).  Also returns false if the index is not free, or if another process
 * moves its segments.
 */
static bool
step(Oid relation, int *place)
{
	Relation index;
	bool moved = false;

	StartTransactionCommand();
	index = open_if_free(relation);
	if (index != NULL)
	{
		if (hm_mover_lock(index))
		{
			moved = HM_FOR_INDEX(index, hm_move_outgrown)(index, place);
			hm_mover_unlock(index);
		}
		relation_close(index, NoLock);
	}
	CommitTransactionCommand();
	return moved;
}

void
hm_mover_main(Datum argument)
{
	TimestampTz begin = GetCurrentTimestamp();
	Oid relation;
	int place;
	int moved;

	memcpy(&relation, MyBgworkerEntry->bgw_extra, sizeof(relation));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), InvalidOid, 0);

	/* Segments grow while others are moved.  All are looked at until none wants it. */
	do
	{
		moved = 0;
		place = 0;
		while (!TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), STAY_MS) &&
			   step(relation, &place))
		{
			moved++;
			CHECK_FOR_INTERRUPTS();
		}
	} while (moved > 0);
	proc_exit(0);
}
