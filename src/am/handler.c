/*
 * handler.c
 *		The access method's handler and routines, which call the code for the width of the index's
 *		keys.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/xloginsert.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "am/build/build.h"
#include "am/fault.h"
#include "am/maintain/maintain.h"
#include "am/scan/scan.h"
#include "am/write/write.h"
#include "compat.h"

/* ----------------------------------------------------------------
 *		Builds
 * ----------------------------------------------------------------
 */

/*
 * Equal keys come from equal bytes, so under a collation that takes other bytes as equal there
 * is no index.
 */
static void
check_collation(Relation index, int column)
{
	Oid collation = index->rd_indcollation[column];
	Oid id = hm_column_type_id(index, column);

	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("access method \"%s\" does not support nondeterministic collations",
					"harmonia"),
			 errhint(
				 "Use a btree index, or an index on the column with a deterministic collation.")));

	/* Keys for ranges are in the order of bytes. */
	if ((id == HM_TEXT_C || id == HM_NAME_C) && !hm_collation_is_c(collation))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("access method \"%s\" keeps the order of type %s for collation "
							   "\"C\" alone, not for collation \"%s\"",
							   "harmonia", format_type_be(index->rd_opcintype[column]),
							   get_collation_name(collation)),
						errhint("Write (column COLLATE \"C\" text_c_ops), or use the default "
								"operator class, which has equality alone.")));
}

/*
 * PostgreSQL believes that an index keeps the order of its column if the operator family has
 * "less than".  hm_validate() reports families that should not have it.
 */
static void
check_order(Relation index, int column)
{
	Oid type = index->rd_opcintype[column];

	(void) hm_column_type(index, column);
	if (!hm_keys_have_ranges(hm_key_type_lookup(hm_column_type_id(index, column))) &&
		OidIsValid(
			get_opfamily_member(index->rd_opfamily[column], type, type, BTLessStrategyNumber)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not keep the order of type %s", "harmonia",
						format_type_be(type)),
				 errhint("Use an operator class with equality alone, such as the default one.")));
}

static IndexBuildResult *
handler_build(Relation heap, Relation index, IndexInfo *info)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		check_collation(index, i);
		check_order(index, i);
	}
	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
	Assert(!hm_batch_pending(index));
	return HM_FOR_WIDTH(hm_planned_width(index), hm_build_index)(heap, index, info);
}

/* The metapage of an index without entries, for the init fork. */
static void
handler_build_empty(Relation index)
{
	HmAlignedPage buffer;
	Page page = (Page) buffer.data;
	SMgrRelation smgr = RelationGetSmgr(index);

	memset(buffer.data, 0, BLCKSZ);
	hm_meta_init(index, page);
	log_newpage(&HmRelationLocator(index), INIT_FORKNUM, HM_METAPAGE_BLKNO, page, true);
	hm_set_checksum(page, HM_METAPAGE_BLKNO);
	smgrextend(smgr, INIT_FORKNUM, HM_METAPAGE_BLKNO, buffer.data, true);
	smgrimmedsync(smgr, INIT_FORKNUM);
}

static char *
handler_build_phase_name(int64 phase)
{
	switch (phase)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case HM_BUILD_PHASE_SCAN:
			return "scanning table";
		case HM_BUILD_PHASE_SORT:
			return "sorting entries";
		case HM_BUILD_PHASE_MERGE:
			return "merging sorted runs";
		case HM_BUILD_PHASE_WRITE:
			return "writing pages";
		default:
			return NULL;
	}
}

/* ----------------------------------------------------------------
 *		Changes
 * ----------------------------------------------------------------
 */

static bool
handler_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			   IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	return HM_FOR_INDEX(index, hm_insert_row)(index, values, isnull, tid, heap, check, unchanged,
											  info);
}

static IndexBulkDeleteResult *
handler_bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					IndexBulkDeleteCallback callback, void *state)
{
	return HM_FOR_INDEX(info->index, hm_delete_dead)(info, stats, callback, state);
}

static IndexBulkDeleteResult *
handler_vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	HmSize size;

	if (info->analyze_only)
		return stats;

	HM_FOR_INDEX(info->index, hm_compact)(info->index, false, &size);
	HM_FAULT(vacuum_compacted);

	/* Without a bulk deletion nothing was counted: leave pg_class alone. */
	if (stats == NULL)
		return NULL;
	stats->num_pages = size.blocks;
	stats->pages_free = size.free;
	return stats;
}

/* ----------------------------------------------------------------
 *		Scans
 * ----------------------------------------------------------------
 */

static IndexScanDesc
handler_begin_scan(Relation index, int nkeys, int norderbys)
{
	return HM_FOR_INDEX(index, hm_scan_begin)(index, nkeys, norderbys);
}

static void
handler_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	HM_FOR_INDEX(scan->indexRelation, hm_scan_restart)(scan, keys, nkeys);
}

static bool
handler_get_tuple(IndexScanDesc scan, ScanDirection direction)
{
	return HM_FOR_INDEX(scan->indexRelation, hm_scan_next)(scan, direction);
}

static int64
handler_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	return HM_FOR_INDEX(scan->indexRelation, hm_scan_bitmap)(scan, bitmap);
}

static void
handler_end_scan(IndexScanDesc scan)
{
	HM_FOR_INDEX(scan->indexRelation, hm_scan_end)(scan);
}

static void
handler_mark_position(IndexScanDesc scan)
{
	HM_FOR_INDEX(scan->indexRelation, hm_scan_mark)(scan);
}

static void
handler_restore_position(IndexScanDesc scan)
{
	HM_FOR_INDEX(scan->indexRelation, hm_scan_restore)(scan);
}

/* By default, PostgreSQL says that all indexes of a method have an order, or none. */
static bool
handler_property(Oid index_oid, int attno, IndexAMProperty property, const char *name, bool *result,
				 bool *isnull)
{
	bool differs = false;

	switch (property)
	{
		case AMPROP_CLUSTERABLE:
		case AMPROP_ORDERABLE:
		case AMPROP_ASC:
		case AMPROP_DESC:
		case AMPROP_NULLS_FIRST:
		case AMPROP_NULLS_LAST:
			differs = OidIsValid(index_oid) && !hm_may_keep_order(index_oid, attno);
			break;
		default:
			break;
	}
	*result = false;
	return differs;
}

static const IndexAmRoutine routine = {
	.type = T_IndexAmRoutine,

	/* Strategies are btree's; there are no support functions. */
	.amstrategies = BTMaxStrategyNumber,
	.amsupport = 0,
	.amoptsprocnum = 0,
	.amcanorder = true,
	.amcanorderbyop = false,
	.amcanbackward = true,
	.amcanunique = false,
	.amcanmulticol = true,
	.amoptionalkey = true,
	.amsearcharray = true,
	.amsearchnulls = true,
	.amstorage = false,
	.amclusterable = true,
	.ampredlocks = false,
	.amcanparallel = true,
	.amcaninclude = true,
	.amusemaintenanceworkmem = false,
	.amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL | VACUUM_OPTION_PARALLEL_COND_CLEANUP,
	.amkeytype = InvalidOid,
	HM_ROUTINE_EXTRAS

		.ambuild = handler_build,
	.ambuildempty = handler_build_empty,
	.aminsert = handler_insert,
	.ambulkdelete = handler_bulk_delete,
	.amvacuumcleanup = handler_vacuum_cleanup,
	.amcanreturn = hm_can_return,
	.amcostestimate = hm_cost_estimate,
	.amoptions = hm_options,
	.amproperty = handler_property,
	.ambuildphasename = handler_build_phase_name,
	.amvalidate = hm_validate,
	.amadjustmembers = NULL,
	.ambeginscan = handler_begin_scan,
	.amrescan = handler_rescan,
	.amgettuple = handler_get_tuple,
	.amgetbitmap = handler_get_bitmap,
	.amendscan = handler_end_scan,
	.ammarkpos = handler_mark_position,
	.amrestrpos = handler_restore_position,
	.amestimateparallelscan = hm_estimate_parallel_scan,
	.aminitparallelscan = hm_init_parallel_scan,
	.amparallelrescan = hm_parallel_rescan,
};

PG_FUNCTION_INFO_V1(harmonia_handler);
Datum
harmonia_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(hm_handed_over(&routine));
}
