/*
 * functions.c
 *		SQL functions: copies of indexes on the device, and statistics of batches.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "am/progress.h"
#include "compat.h"
#include "device/client.h"
#include "device/copies.h"
#include "device/stats.h"
#include "device/watch.h"

PG_FUNCTION_INFO_V1(harmonia_load);
PG_FUNCTION_INFO_V1(harmonia_unload);
PG_FUNCTION_INFO_V1(harmonia_device);
PG_FUNCTION_INFO_V1(harmonia_stat_indexes);
PG_FUNCTION_INFO_V1(harmonia_stat_reset);

/* Errors: object_not_in_prerequisite_state if the library is not preloaded. */
static void
check_preloaded(void)
{
	if (hm_device_state() == HM_DEVICE_NOT_LOADED)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("harmonia must be loaded via shared_preload_libraries"),
						errhint("Add it there and restart the server.")));
}

/* Errors: object_not_in_prerequisite_state if there is no usable device. */
static void
check_device(void)
{
	HmDeviceInfo info;

	check_preloaded();
	if (RecoveryInProgress())
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("recovery is in progress"),
						errhint("The device cannot be used during recovery.")));
	hm_device_info(&info);
	if (info.state == HM_DEVICE_OFF)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("no device is in use"), errhint("Set harmonia.gpu.")));
	if (info.state != HM_DEVICE_UP)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("the device is not available"),
						info.text[0] != '\0' ? errdetail("%s", info.text) : 0,
						info.state == HM_DEVICE_ABSENT ? 0 : errhint("Try again later.")));
}

/* Open an index that the user owns, to load or unload it. */
static Relation
open_own_index(Oid oid)
{
	Relation index = hm_inspect_open(oid, AccessShareLock);

	if (!hm_is_owner(oid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, RelationGetRelationName(index));
	if (RelationUsesLocalBuffers(index))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot keep temporary index \"%s\" on the device",
							   RelationGetRelationName(index))));
	return index;
}

/* Throw an error that says why an index could not be copied. */
static void
report_refusal(Relation index, HmCpuReason reason)
{
	const char *name = RelationGetRelationName(index);

	if (reason == HM_CPU_TOO_LARGE)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("index \"%s\" is too large for the device", name),
						errdetail("It has %u blocks.", RelationGetNumberOfBlocks(index)),
						errhint("Raise harmonia.max_resident_blocks.")));
	if (reason == HM_CPU_TOO_MANY_BLOCKS)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("index \"%s\" is too large for a device", name),
						errdetail("It has %u blocks.", RelationGetNumberOfBlocks(index))));
	if (reason == HM_CPU_DEVICE_MEMORY)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
						errmsg("not enough device memory for index \"%s\"", name),
						errhint("Raise harmonia.device_memory or harmonia.device_host_memory if "
								"that is the limit.")));
	if (reason == HM_CPU_BUSY || reason == HM_CPU_RESTLESS)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
						errmsg("could not copy index \"%s\" to the device: %s", name,
							   hm_cpu_reason_text(reason)),
						errhint("Try again later.")));
	if (reason != HM_CPU_NO_REASON)
		ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE),
						errmsg("the device failed while index \"%s\" was copied", name),
						errdetail("The server log may have more details.")));
}

/*
 * harmonia_load(index regclass) returns bigint
 *		Make a copy of an index on the device, or bring it up to date.  Returns the
 *		memory that it takes there, in bytes.
 */
Datum
harmonia_load(PG_FUNCTION_ARGS)
{
	Relation index;
	HmCopy copy;
	HmLookupStats stats = {0};
	HmDeviceCosts *costs;
	HmCpuReason reason;

	check_device();
	index = open_own_index(PG_GETARG_OID(0));
	hm_inspect_check_valid(index);
	hm_batch_apply(index);
	hm_progress_begin(index, HM_PROGRESS_LOAD);
	hm_client_be_patient();
	reason = hm_sync(index, true, &copy, &stats);
	report_refusal(index, reason);
	hm_progress_end();

	stats.counts.copy_memory = copy.memory;
	stats.counts.copy_host_memory = copy.host_memory;
	hm_stats_add(RelationGetRelid(index), &stats.counts);
	costs = hm_stats_lock_costs(RelationGetRelid(index), NULL);
	if (costs != NULL)
	{
		costs->refused = 0;
		costs->debt = 0;
		hm_stats_unlock_costs();
	}
	index_close(index, NoLock);
	PG_RETURN_INT64((int64) copy.memory);
}

/*
 * harmonia_unload(index regclass) returns boolean
 *		Drop an index's copy on the device.  Returns whether there may have been one.
 */
Datum
harmonia_unload(PG_FUNCTION_ARGS)
{
	Relation index;
	bool result;

	check_device();
	index = open_own_index(PG_GETARG_OID(0));
	result = hm_watch_forget(index);
	hm_copy_drop(index);
	index_close(index, NoLock);
	PG_RETURN_BOOL(result);
}

/*
 * harmonia_device() returns record
 *		The state of the daemon and its device.
 */
Datum
harmonia_device(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {[HM_DEVICE_NOT_LOADED] = "not preloaded",
										 [HM_DEVICE_OFF] = "off",
										 [HM_DEVICE_STARTING] = "starting",
										 [HM_DEVICE_UP] = "up",
										 [HM_DEVICE_HUNG] = "hung",
										 [HM_DEVICE_ABSENT] = "absent",
										 [HM_DEVICE_FAILED] = "failed"};
	TupleDesc descriptor;
	HmDeviceInfo info;
	Datum values[8] = {0};
	bool nulls[8] = {0};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	hm_device_info(&info);
	values[0] = CStringGetTextDatum(states[info.state]);
	values[1] = BoolGetDatum(info.is_gpu);
	nulls[1] = info.state != HM_DEVICE_UP;
	values[2] = CStringGetTextDatum(info.text);
	nulls[2] = info.text[0] == '\0';
	values[3] = Int32GetDatum(info.pid);
	nulls[3] = info.pid == 0;
	values[4] = Int64GetDatum((int64) info.memory);
	nulls[4] = info.memory == 0;
	values[5] = Int64GetDatum((int64) info.starts);
	values[6] = TimestampTzGetDatum(info.since);
	nulls[6] = info.since == 0;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}

/*
 * harmonia_stat_indexes() returns setof record
 *		Statistics of batches against indexes of this database, for pg_stat_harmonia.
 */
Datum
harmonia_stat_indexes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	HmDeviceStats *stats;
	TimestampTz since;
	int count;

	InitMaterializedSRF(fcinfo, 0);
	if (hm_device_state() == HM_DEVICE_NOT_LOADED)
		return (Datum) 0;

	stats = hm_stats_read(&count, &since);
	for (int i = 0; i < count; i++)
	{
		const HmBatchCounts *counts = &stats[i].counts;
		Datum values[16];
		bool nulls[16] = {0};

		if (stats[i].database != MyDatabaseId)
			continue;
		values[0] = ObjectIdGetDatum(stats[i].relation);
		values[1] = Int64GetDatum((int64) counts->batches);
		values[2] = Int64GetDatum((int64) counts->keys);
		values[3] = Int64GetDatum((int64) counts->hits);
		values[4] = Int64GetDatum((int64) counts->device_batches);
		values[5] = Int64GetDatum((int64) counts->device_keys);
		values[6] = Int64GetDatum((int64) counts->fallbacks);
		values[7] = Int64GetDatum((int64) counts->loads);
		values[8] = Int64GetDatum((int64) counts->evictions);
		values[9] = Int64GetDatum((int64) counts->synced_blocks);
		values[10] = Int64GetDatum((int64) counts->bytes_to_device);
		values[11] = Int64GetDatum((int64) counts->bytes_from_device);
		values[12] = BoolGetDatum(stats[i].watched);
		values[13] = Int64GetDatum(stats[i].watched ? (int64) counts->copy_memory : 0);
		values[14] = TimestampTzGetDatum(since);
		values[15] = Int64GetDatum(stats[i].watched ? (int64) counts->copy_host_memory : 0);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * harmonia_stat_reset(index regclass DEFAULT NULL) returns void
 *		Reset the counters of one index or, if that is NULL, of this database.
 */
Datum
harmonia_stat_reset(PG_FUNCTION_ARGS)
{
	check_preloaded();
	hm_stats_reset(PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0));
	PG_RETURN_VOID();
}
