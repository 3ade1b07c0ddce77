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
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/storage.h"
#include "commands/defrem.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/fault.h"
#include "am/maintain/maintain.h"
#include "compat.h"

/*
 * Blocks that one step of a truncation removes at most.  Others wait as long as a step takes: a
 * look at each of the shared buffers, and what it costs to drop so many of them and to make the
 * file shorter.
 */
#ifdef HM_SMALL_LIMITS
#define HM_TRUNCATE_STEP 16
#else
#define HM_TRUNCATE_STEP Max(1024, NBuffers / 64)
#endif

/*
 * So often, and so many microseconds apart, the next step tries to lock an index that others use
 * meanwhile.
 */
#define HM_TRUNCATE_TRIES 10
#define HM_TRUNCATE_PAUSE 1000

/* OIDs of the indexes noted, in the transaction's memory. */
static List *noted = NIL;

/* The option TRUNCATE of the VACUUM that runs. */
static VacOptValue truncate_option = VACOPTVALUE_UNSPECIFIED;

static ProcessUtility_hook_type next_ProcessUtility = NULL;

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
	Relation table;
	StdRdOptions *options;
	bool allowed;

	if (IsParallelWorker())
		return false;
	if (truncate_option != VACOPTVALUE_UNSPECIFIED)
		return truncate_option == VACOPTVALUE_ENABLED;
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

/* Take this block and those after it from the list of free extents. */
static void
shorten_list(Relation index, BlockNumber end)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta *meta = hm_page_meta(GenericXLogRegisterBuffer(state, buffer, 0));

	while (meta->free_count > 0 && meta->free[meta->free_count - 1].start >= end)
	{
		meta->free_count--;
		memset(&meta->free[meta->free_count], 0, sizeof(HmExtent));
	}
	if (meta->free_count > 0)
	{
		HmExtent *last = &meta->free[meta->free_count - 1];

		last->length = Min(last->length, end - last->start);
	}
	HM_FAULT(truncate_changed);
	GenericXLogFinish(state);
	HM_FAULT(truncate_logged);
	UnlockReleaseBuffer(buffer);
}

/*
 * Truncate an index by one step.  Returns whether there is more to truncate.  The caller holds its
 * AccessExclusiveLock, so no other backend reads a page that is removed, or owns blocks that the
 * metapage does not list.  The list is changed first: after a crash in between, the blocks are lost
 * until the next VACUUM, which is better than a list that leads beyond the file.
 */
static bool
truncate_step(Relation index)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	BlockNumber end = hm_extents_end(index, HM_TRUNCATE_STEP);

	HM_FAULT(truncate_locked);
	if (end < blocks)
	{
		shorten_list(index, end);
		RelationTruncate(index, end);
	}
	HM_FAULT(truncate_done);
	return end < blocks && hm_extents_free_end(index, end) < end;
}

/* Open a relation that was noted and is locked; NULL if it is not that index any more. */
static Relation
open_noted(Oid oid, Oid table)
{
	Relation index = try_relation_open(oid, NoLock);

	if (index != NULL && (!hm_is_index(index) || index->rd_index->indrelid != table))
	{
		relation_close(index, NoLock);
		index = NULL;
	}
	return index;
}

/*
 * Truncate an index by one step if it can be locked at once.  If not, list the blocks at its end
 * that the sweep has left alone for the truncation.  Returns whether it was locked; *more says
 * whether there is more to truncate.
 */
static bool
truncate_noted(Oid oid, bool *more)
{
	Oid table = IndexGetRelation(oid, true);
	bool locked = OidIsValid(table) && lock_to_truncate(oid, table);
	Relation index;

	if (!locked && !ConditionalLockRelationOid(oid, RowExclusiveLock))
		return false;
	index = open_noted(oid, table);
	if (index == NULL)
		*more = false;
	else
	{
		if (locked)
			*more = truncate_step(index);
		else
			hm_extents_keep_end(index);
		relation_close(index, NoLock);
	}
	UnlockRelationOid(oid, locked ? AccessExclusiveLock : RowExclusiveLock);
	if (locked)
		UnlockRelationOid(table, AccessExclusiveLock);
	return locked;
}

/*
 * Truncate an index step by step, and let others use it in between.  It ends early if they always
 * do; what is left stays listed.  A truncation flushes WAL up to its own record, so what the
 * transaction has written before is flushed before others have to wait.
 */
static void
truncate_in_steps(Oid oid)
{
	bool more = false;
	bool locked;

	XLogFlush(XactLastRecEnd);
	locked = truncate_noted(oid, &more);

	for (int tries = 0; more && tries < HM_TRUNCATE_TRIES; tries = locked ? 0 : tries + 1)
	{
		HM_FAULT(truncate_between);
		if (!locked)
			pg_usleep(HM_TRUNCATE_PAUSE);
		CHECK_FOR_INTERRUPTS();
		locked = truncate_noted(oid, &more);
	}
}

static void
truncate_callback(XactEvent event, void *arg)
{
	ListCell *cell;

	if (event == XACT_EVENT_PRE_COMMIT)
	{
		foreach (cell, noted)
			truncate_in_steps(lfirst_oid(cell));
	}
	noted = NIL;
}

/* What a statement says of TRUNCATE, if it is a VACUUM.  As there, the last one counts. */
static VacOptValue
option_of(Node *statement)
{
	VacOptValue result = VACOPTVALUE_UNSPECIFIED;
	ListCell *cell;

	if (!IsA(statement, VacuumStmt))
		return result;
	foreach (cell, ((VacuumStmt *) statement)->options)
	{
		DefElem *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "truncate") == 0)
			result = defGetBoolean(option) ? VACOPTVALUE_ENABLED : VACOPTVALUE_DISABLED;
	}
	return result;
}

/* VACUUM does not tell an index what it has been told. */
static void
truncate_ProcessUtility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
						ProcessUtilityContext context, ParamListInfo params,
						QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	ProcessUtility_hook_type next =
		next_ProcessUtility ? next_ProcessUtility : standard_ProcessUtility;
	VacOptValue outer = truncate_option;

	truncate_option = option_of(pstmt->utilityStmt);
	PG_TRY();
	{
		next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		truncate_option = outer;
	}
	PG_END_TRY();
}

void
hm_truncate_init(void)
{
	next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = truncate_ProcessUtility;
	RegisterXactCallback(truncate_callback, NULL);
}
