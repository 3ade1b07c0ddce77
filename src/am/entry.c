/*
 * entry.c
 *		The access method's routines: each calls the storage code for the width of the index's keys.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "am/fault.h"
#include "am/storage.h"
#include "compat.h"

HtWidth
hm_key_width(Relation index)
{
	const HmCache *cache = (const HmCache *) index->rd_amcache;

	if (cache != NULL)
		return cache->width;
	return hm_is_composite(index) ? hm_cache(index, false)->width : hm_key_type(index)->width;
}

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
	Oid			collation = index->rd_indcollation[column];
	Oid			id = hm_column_type_id(index, column);

	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support nondeterministic collations",
						"harmonia"),
				 errhint("Use a btree index, or an index on the column with a deterministic collation.")));

	/* Keys for ranges are in the order of bytes. */
	if ((id == HM_TEXT_C || id == HM_NAME_C) && !hm_collation_is_c(collation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" keeps the order of type %s for collation \"C\" alone, not for collation \"%s\"",
						"harmonia", format_type_be(index->rd_opcintype[column]), get_collation_name(collation)),
				 errhint("Write (column COLLATE \"C\" text_c_ops), or use the default operator class, which has equality alone.")));
}

/*
 * PostgreSQL believes that an index keeps the order of its column if the operator family has
 * "less than".  hm_validate() reports families that should not have it.
 */
static void
check_order(Relation index, int column)
{
	Oid			type = index->rd_opcintype[column];

	(void) hm_column_type(index, column);
	if (!hm_keys_have_ranges(hm_key_type_lookup(hm_column_type_id(index, column))) &&
		OidIsValid(get_opfamily_member(index->rd_opfamily[column], type, type,
									   BTLessStrategyNumber)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not keep the order of type %s",
						"harmonia", format_type_be(type)),
				 errhint("Use an operator class with equality alone, such as the default one.")));
}

IndexBuildResult *
hm_build(Relation heap, Relation index, IndexInfo *info)
{
	if (info->ii_ExclusionOps != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support exclusion constraints",
						"harmonia"),
				 errhint("Use a constraint with a btree or gist index.")));
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		check_collation(index, i);
		check_order(index, i);
	}
	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
	Assert(!hm_batch_pending(index));
	return hm_storage_for(hm_planned_width(index))->build(heap, index, info);
}

/* The metapage of an index without entries, for the init fork. */
void
hm_build_empty(Relation index)
{
	HmAlignedPage buffer;
	Page		page = (Page) buffer.data;
	SMgrRelation smgr = RelationGetSmgr(index);

	memset(buffer.data, 0, BLCKSZ);
	hm_meta_init(index, page);
	log_newpage(&HmRelationLocator(index), INIT_FORKNUM, HM_METAPAGE_BLKNO, page, true);
	hm_set_checksum(page, HM_METAPAGE_BLKNO);
	smgrextend(smgr, INIT_FORKNUM, HM_METAPAGE_BLKNO, buffer.data, true);
	smgrimmedsync(smgr, INIT_FORKNUM);
}

char *
hm_build_phase_name(int64 phase)
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

bool
hm_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
		  Relation heap, IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	return hm_storage_of(index)->insert(index, values, isnull, tid, heap, check, unchanged, info);
}

IndexBulkDeleteResult *
hm_bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			   IndexBulkDeleteCallback callback, void *state)
{
	return hm_storage_of(info->index)->bulk_delete(info, stats, callback, state);
}

IndexBulkDeleteResult *
hm_vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	HmSize		size;

	if (info->analyze_only)
		return stats;

	hm_storage_of(info->index)->compact(info->index, false, &size);
	HM_FAULT(vacuum_compacted);

	/* Without a bulk deletion nothing was counted: leave pg_class alone. */
	if (stats == NULL)
		return NULL;
	stats->num_pages = size.blocks;
	stats->pages_free = size.free;
	return stats;
}

HmListedSegment *
hm_segments_list(Relation index, int *count, BlockNumber **pages, int *page_count)
{
	return hm_storage_of(index)->list(index, count, pages, page_count);
}

HmKey *
hm_segment_keys(Relation index, int *count)
{
	return hm_storage_of(index)->segment_keys(index, count);
}

/* ----------------------------------------------------------------
 *		Scans
 * ----------------------------------------------------------------
 */

IndexScanDesc
hm_begin_scan(Relation index, int nkeys, int norderbys)
{
	return hm_storage_of(index)->begin_scan(index, nkeys, norderbys);
}

void
hm_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	hm_storage_of(scan->indexRelation)->rescan(scan, keys, nkeys);
}

bool
hm_get_tuple(IndexScanDesc scan, ScanDirection direction)
{
	return hm_storage_of(scan->indexRelation)->get_tuple(scan, direction);
}

int64
hm_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	return hm_storage_of(scan->indexRelation)->get_bitmap(scan, bitmap);
}

void
hm_end_scan(IndexScanDesc scan)
{
	hm_storage_of(scan->indexRelation)->end_scan(scan);
}

void
hm_mark_position(IndexScanDesc scan)
{
	hm_storage_of(scan->indexRelation)->mark_position(scan);
}

void
hm_restore_position(IndexScanDesc scan)
{
	hm_storage_of(scan->indexRelation)->restore_position(scan);
}

/* ----------------------------------------------------------------
 *		Hints
 * ----------------------------------------------------------------
 */

/*
 * The transaction alone does not tell: a worker has another one than its leader, and a snapshot can be imported.
 */
bool
hm_heeds_hints(Snapshot snapshot)
{
	return IsMVCCSnapshot(snapshot) && !snapshot->takenDuringRecovery &&
		!TransactionStartedDuringRecovery();
}

void
hm_give_hints(Relation index, Relation heap, HmDeadRow *rows, int n)
{
	hm_storage_of(index)->hint_rows(index, heap, rows, n);
}
