/*
 * reorganizecall.c
 *		harmonia_reorganize(): which locks it takes, and of whom.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_index.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "am/maintain/maintain.h"
#include "am/progress.h"
#include "compat.h"

PG_FUNCTION_INFO_V1(harmonia_reorganize);

/* Whether any index of a table, of which nothing is locked, is not valid. */
static bool
has_invalid_index(Oid table)
{
	Relation catalog = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	bool found = false;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(catalog, IndexIndrelidIndexId, true, NULL, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = !((Form_pg_index) GETSTRUCT(tuple))->indisvalid;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* Whether a session waits for the lock that VACUUM and concurrent builds take of a table. */
static bool
has_waiter(Oid table)
{
	LockData *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->waitLockMode == ShareUpdateExclusiveLock &&
			lock->locktag.locktag_type == LOCKTAG_RELATION &&
			lock->locktag.locktag_field1 == MyDatabaseId && lock->locktag.locktag_field2 == table)
			return true;
	}
	return false;
}

/*
 * Lock an index's table against VACUUM and other reorganizations.  A concurrent build
 * takes the same lock and, before it ends, waits for all backends with an old snapshot.
 * The query that calls harmonia_reorganize() has such a snapshot, so it must not wait for
 * a build that has the lock, nor behind one that waits for it.  If a build gets the lock
 * between the look and the wait, the server reports a deadlock.
 * Errors: object_in_use.
 */
static void
lock_table(Oid index)
{
	Oid table = IndexGetRelation(index, true);

	if (!OidIsValid(table) || ConditionalLockRelationOid(table, ShareUpdateExclusiveLock))
		return;
	if (has_invalid_index(table))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot reorganize an index while its table is in use"),
			 errdetail("An index of the table is being built, replaced or dropped concurrently."),
			 errhint("Try again when that has ended.")));
	if (has_waiter(table))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
						errmsg("cannot reorganize an index while its table is in use"),
						errdetail("Another session waits to maintain the table, perhaps to build "
								  "an index concurrently."),
						errhint("Try again when that has ended.")));
	LockRelationOid(table, ShareUpdateExclusiveLock);
}

/* Errors: insufficient_privilege, unless the user owns the relation, or it is gone. */
static void
check_owner(Oid oid)
{
	char *name = get_rel_name(oid);

	if (name != NULL && !hm_is_owner(oid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, name);
}

/*
 * Open an index for maintenance, its table locked first, as VACUUM does.  Others than the
 * owner take no lock and stand in no queue, or they could have autovacuum cancelled.  The
 * owner may have changed when the locks are there.
 * Errors: those of lock_table() and hm_inspect_open(), insufficient_privilege,
 * object_not_in_prerequisite_state.
 */
static Relation
open_to_reorganize(Oid oid, Relation *heap)
{
	Relation index;

	check_owner(oid);
	lock_table(oid);
	index = hm_inspect_open_with_table(oid, ShareUpdateExclusiveLock, heap);
	check_owner(oid);
	hm_inspect_check_valid(index);
	return index;
}

/*
 * harmonia_reorganize(index regclass) returns bigint
 *
 * Move every segment that could be packed better or has auxiliary nodes, and then
 * segments at the end of the file to its front.  Returns the number of movements.
 * Writers wait only for segments that are being moved.
 */
Datum
harmonia_reorganize(PG_FUNCTION_ARGS)
{
	Oid oid = PG_GETARG_OID(0);
	Relation heap;
	Relation index;
	int64 movements;

	if (RecoveryInProgress())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("recovery is in progress"),
						errhint("An index cannot be reorganized during recovery.")));

	index = open_to_reorganize(oid, &heap);
	hm_batch_apply(index);
	hm_cache(index, true);
	hm_progress_begin(index, HM_PROGRESS_REORGANIZE);
	movements = HM_FOR_INDEX(index, hm_reorganize_all)(index);
	hm_progress_end();
	index_close(index, NoLock);
	table_close(heap, NoLock);
	PG_RETURN_INT64(movements);
}
