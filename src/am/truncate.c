/*
 * truncate.c
 *		Giving free blocks at the end of the file back, when the transaction commits.
 *
 * No other backend may use the index during a truncation, on a replica either.  So it
 * takes AccessExclusiveLocks.  A replica takes them too, and keeps them until the
 * transaction has ended, whatever happens here.  But VACUUM goes on to other indexes and
 * the table, and harmonia_reorganize() may be one statement of many.  Therefore indexes
 * are only noted at first, and truncated as the last thing that the transaction does.
 *
 * A transaction that rolls back, or is prepared for a two-phase commit, truncates
 * nothing; the next VACUUM does.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/fault.h"
#include "am/internal.h"
#include "compat.h"

/*
 * Fewer blocks than this, if they are less than a sixteenth of the file, are not worth a
 * truncation.
 */
#define HM_TRUNCATE_MIN		1000

/* OIDs of the indexes noted, in the transaction's memory. */
static List *noted = NIL;

bool
hm_worth_truncating(BlockNumber free, BlockNumber blocks)
{
	return free >= HM_TRUNCATE_MIN || (free > 0 && free >= blocks / 16);
}

BlockNumber
hm_truncate_at_commit(Relation index, BlockNumber end)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	BlockNumber free = blocks - hm_extents_free_end(index, end);
	MemoryContext old_context;

	if (!hm_can_truncate(index) || !hm_worth_truncating(free, blocks))
		return 0;
	old_context = MemoryContextSwitchTo(TopTransactionContext);
	noted = list_append_unique_oid(noted, RelationGetRelid(index));
	MemoryContextSwitchTo(old_context);
	return free;
}

bool
hm_can_truncate(Relation index)
{
	Relation	table;
	StdRdOptions *options;
	bool		allowed;

	if (IsParallelWorker())
		return false;
	table = relation_open(index->rd_index->indrelid, NoLock);
	options = (StdRdOptions *) table->rd_options;
	allowed = hm_vacuum_truncates(options);
	relation_close(table, NoLock);
	return allowed;
}

/*
 * Take AccessExclusiveLocks of a table and its index, if no other backend uses them.  The
 * table comes first: a query on a replica that has the table's lock and waits for the
 * index would otherwise be waited for, if VACUUM has truncated the table and the replica
 * keeps that lock.
 */
static bool
lock_to_truncate(Oid index, Oid table)
{
	if (!ConditionalLockRelationOid(table, AccessExclusiveLock))
		return false;
	if (ConditionalLockRelationOid(index, AccessExclusiveLock))
		return true;
	UnlockRelationOid(table, AccessExclusiveLock);
	return false;
}

/* Remove the extents that begin at this block or after it from the list of free extents. */
static void
shorten_list(Relation index, BlockNumber end)
{
	Buffer		buffer = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta	   *meta = hm_page_meta(GenericXLogRegisterBuffer(state, buffer, 0));

	while (meta->free_count > 0 && meta->free[meta->free_count - 1].start >= end)
	{
		meta->free_count--;
		memset(&meta->free[meta->free_count], 0, sizeof(HmExtent));
	}
	HM_FAULT(truncate_changed);
	GenericXLogFinish(state);
	HM_FAULT(truncate_logged);
	UnlockReleaseBuffer(buffer);
}

/*
 * Truncate an index.  The caller holds its AccessExclusiveLock, so no other backend reads
 * a page that is removed, or owns blocks that the metapage does not list.  The list is
 * changed first: after a crash in between, the blocks are lost until the next VACUUM,
 * which is better than a list that leads beyond the file.
 */
static void
truncate_locked(Relation index)
{
	BlockNumber end = hm_extents_end(index);

	HM_FAULT(truncate_locked);
	if (end < RelationGetNumberOfBlocks(index))
	{
		shorten_list(index, end);
		RelationTruncate(index, end);
	}
	HM_FAULT(truncate_done);
}

/* Open a relation that was noted and is locked; NULL if it is not that index any more. */
static Relation
open_noted(Oid oid, Oid table)
{
	Relation	index = try_relation_open(oid, NoLock);

	if (index != NULL &&
		(index->rd_rel->relkind != RELKIND_INDEX || index->rd_indam->ambuild != hm_build ||
		 index->rd_index->indrelid != table))
	{
		relation_close(index, NoLock);
		index = NULL;
	}
	return index;
}

/*
 * Truncate an index if it can be locked at once.  If not, list the blocks at its end that
 * the sweep has left alone for the truncation.
 */
static void
truncate_noted(Oid oid)
{
	Oid			table = IndexGetRelation(oid, true);
	bool		locked = OidIsValid(table) && lock_to_truncate(oid, table);
	Relation	index;

	if (!locked && !ConditionalLockRelationOid(oid, RowExclusiveLock))
		return;
	index = open_noted(oid, table);
	if (index != NULL)
	{
		if (locked)
			truncate_locked(index);
		else
			hm_extents_keep_end(index);
		relation_close(index, NoLock);
	}
	UnlockRelationOid(oid, locked ? AccessExclusiveLock : RowExclusiveLock);
	if (locked)
		UnlockRelationOid(table, AccessExclusiveLock);
}

static void
truncate_callback(XactEvent event, void *arg)
{
	ListCell   *cell;

	if (event == XACT_EVENT_PRE_COMMIT)
	{
		foreach(cell, noted)
			truncate_noted(lfirst_oid(cell));
	}
	noted = NIL;
}

void
hm_truncate_init(void)
{
	RegisterXactCallback(truncate_callback, NULL);
}
