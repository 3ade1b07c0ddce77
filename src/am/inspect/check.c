/*
 * check.c
 *		harmonia_check(): verifies an index (checkindex.c).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "am/inspect/inspect.h"
#include "am/progress.h"
#include "compat.h"

PG_FUNCTION_INFO_V1(harmonia_check);

/*
 * harmonia_check(index regclass, heapallindexed boolean)
 *
 * Locks table and index with AccessShareLock, the table first.
 */
Datum
harmonia_check(PG_FUNCTION_ARGS)
{
	bool heapallindexed = PG_GETARG_BOOL(1);
	Relation heap;
	Relation index;
	Oid user;
	int security;
	int nest_level;

	index = hm_inspect_open_with_table(PG_GETARG_OID(0), AccessShareLock, &heap);
	hm_inspect_check_valid(index);

	/* Functions of the index run as the table's owner. */
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(heap->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	hm_restrict_search_path();

	if (index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED && RecoveryInProgress())
		ereport(NOTICE, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
						 errmsg("cannot verify unlogged index \"%s\" during recovery, skipping",
								RelationGetRelationName(index))));
	else
	{
		hm_progress_begin(index, HM_PROGRESS_CHECK);
		HM_FOR_INDEX(index, hm_check_index)(index, heap, heapallindexed);
		hm_progress_end();
	}

	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	index_close(index, AccessShareLock);
	table_close(heap, AccessShareLock);
	PG_RETURN_VOID();
}
