/*
 * checkindex.c
 *		Verifying an index, as amcheck verifies a btree.
 *
 * This runs beside writers, VACUUM and replay.  These
 * rules keep their changes from looking like damage:
 *
 * - Directory against segments: a segment is entered through the directory while the
 *	 metapage is locked in share mode.  All changes of their bounds lock the metapage
 *	 exclusively.
 * - Inside a segment: everything but the leaves is copied under the header's lock.  Each
 *	 leaf is also read under that lock, after a comparison of the header with the copy;
 *	 every split changes the header.  If it has changed, the segment is entered and copied
 *	 again.  Positions only ascend, and splits and movements keep the order of entries, so
 *	 no entry is missed.
 * - Extents of different segments: a segment keeps all its extents as long as it lives.
 *	 So an overlap is damage if both owners are still alive after both were found to have
 *	 the blocks.
 *
 * Buffer locks are taken in the usual order, for one page at a time, and nothing waits
 * for a pin.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am_d.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "am/inspect/checkstate.h"

/* ----------------------------------------------------------------
 *		Metapage and directory
 * ----------------------------------------------------------------
 */

/* Check directory entries that stand on one page; what says what they refer to. */
static void
check_entries(HmCheck *check, BlockNumber block, const HmDirectoryEntry *entries, uint32 count,
			  const char *what)
{
	for (uint32 i = 0; i < count; i++)
	{
		HmPosition low = hm_directory_low(&entries[i]);

		hm_check_bound(check, block, "a directory entry", low);
		if (i > 0 && hm_position_cmp(hm_directory_low(&entries[i - 1]), low) >= 0)
			hm_corrupt(check, block, "directory entry %u, %s, is not above the one before, %s", i,
					   hm_show_position(low), hm_show_position(hm_directory_low(&entries[i - 1])));
		if (i > 0 && entries[i - 1].part != entries[i].part &&
			!same_position(low, hm_position(low.part, 0, 0)))
			hm_corrupt(check, block, "directory entry %u begins its part at %s", i,
					   hm_show_position(low));
		hm_check_block(check, block, what, entries[i].block);
	}
}

/* Check the whole directory.  The caller holds the metapage's lock. */
static void
check_directory(HmCheck *check, const HmMeta *meta)
{
	HmPosition before = {0};

	if (meta->root_count > 0 && !same_position(hm_directory_low(&meta->root[0]),
											   hm_position((HmPart) meta->root[0].part, 0, 0)))
		hm_corrupt(check, HM_METAPAGE_BLKNO, "the directory begins at %s",
				   hm_show_position(hm_directory_low(&meta->root[0])));
	if (meta->depth == 0)
	{
		check_entries(check, HM_METAPAGE_BLKNO, meta->root, meta->root_count, "segment");
		check->segment_count = meta->root_count;
		return;
	}

	/* A part may begin inside a directory page. */
	for (uint32 i = 0; i < meta->root_count; i++)
	{
		BlockNumber block = meta->root[i].block;
		HmPosition low = hm_directory_low(&meta->root[i]);
		Buffer buffer;
		Page page;
		HmDirectory *directory;

		hm_check_bound(check, HM_METAPAGE_BLKNO, "a directory entry", low);
		hm_check_block(check, HM_METAPAGE_BLKNO, "directory page", block);
		buffer = ReadBuffer(check->index, block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		hm_check_page(check, block, page, HM_PAGE_DIRECTORY);
		directory = hm_page_directory(page);
		if (directory->count < 1 || directory->count > HM_DIRECTORY_MAX)
			hm_corrupt(check, block, "the directory page has %u entries", directory->count);
		if (meta->root[i].stamp != 0)
			hm_corrupt(check, HM_METAPAGE_BLKNO, "the directory page at block %u has stamp %u",
					   block, meta->root[i].stamp);
		if (!same_position(low, hm_directory_low(&directory->entries[0])))
			hm_corrupt(check, block, "the directory page begins at %s, but the root has %s for it",
					   hm_show_position(hm_directory_low(&directory->entries[0])),
					   hm_show_position(low));
		if (i > 0 && hm_position_cmp(before, low) >= 0)
			hm_corrupt(check, block,
					   "the directory page begins at %s, but the one before it ends with %s",
					   hm_show_position(low), hm_show_position(before));
		if (i > 0 && before.part != low.part && !same_position(low, hm_position(low.part, 0, 0)))
			hm_corrupt(check, block, "the directory page begins its part at %s",
					   hm_show_position(low));
		check_entries(check, block, directory->entries, directory->count, "segment");
		before = hm_directory_low(&directory->entries[directory->count - 1]);
		check->segment_count += directory->count;
		UnlockReleaseBuffer(buffer);
	}
}

/* Check the list of free extents.  The caller holds the metapage's lock. */
static void
check_free_list(HmCheck *check, const HmMeta *meta)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(check->index);
	BlockNumber end = HM_METAPAGE_BLKNO + 1;

	for (uint32 i = 0; i < meta->free_count; i++)
	{
		HmExtent extent = meta->free[i];

		if (extent.length == 0 || extent.start >= blocks || extent.length > blocks - extent.start)
			hm_corrupt(
				check, HM_METAPAGE_BLKNO,
				"free extent %u, %u blocks from %u, is not within the %u blocks of the index", i,
				extent.length, extent.start, blocks);
		if (extent.start < end)
			hm_corrupt(check, HM_METAPAGE_BLKNO,
					   "free extent %u begins at block %u, before block %u", i, extent.start, end);
		if (i > 0 && extent.start == end)
			hm_corrupt(check, HM_METAPAGE_BLKNO,
					   "free extent %u at block %u adjoins the one before", i, extent.start);
		end = extent.start + extent.length;
	}
}

/* Check the metapage, the directory and the list of free extents, all under one lock. */
static void
check_metapage(HmCheck *check)
{
	Relation index = check->index;
	Buffer buffer;
	HmMeta *meta;
	bool nulls_low = hm_option_has_nulls_low(index->rd_indoption[0], index->rd_indoption[0]);

	if (RelationGetNumberOfBlocks(index) == 0)
		hm_report_damage(NULL, "index \"%s\" has no metapage", RelationGetRelationName(index));

	check->fields = hm_cache(index, true)->fields;
	buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	hm_check_page(check, HM_METAPAGE_BLKNO, BufferGetPage(buffer), HM_PAGE_META);
	meta = hm_page_meta(BufferGetPage(buffer));

	check->width = (HtWidth) meta->width;
	check->fanout = meta->fanout;
	check->nulls_low = meta->nulls_low != 0;
	if (meta->nulls_low > 1 || check->nulls_low != nulls_low)
		hm_corrupt(check, HM_METAPAGE_BLKNO, "NULL keys are on the wrong side");
	if (meta->next_stamp == 0)
		hm_corrupt(check, HM_METAPAGE_BLKNO, "the next stamp is 0");
	if (meta->drained > meta->retired)
		hm_corrupt(check, HM_METAPAGE_BLKNO,
				   UINT64_FORMAT " segments are drained, but only " UINT64_FORMAT " are retired",
				   meta->drained, meta->retired);
	check_directory(check, meta);
	check_free_list(check, meta);
	UnlockReleaseBuffer(buffer);
}

/* ----------------------------------------------------------------
 *		Table against index
 * ----------------------------------------------------------------
 */

/* Check that the index has an entry for a row of the table. */
static void
heap_tuple_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive,
					void *arg)
{
	HmCheck *check = arg;
	HmKey key;
	HmPart part = HM_PART_KEYS;
	HmFingerprint fingerprint;

	if (!hm_row_key(&check->fields, values, isnull, &key))
		part = check->nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH;
	fingerprint = (HmFingerprint){(HT_KEY) key, hm_tid_pack(tid), part};
	if (bloom_lacks_element(check->filter, (unsigned char *) &fingerprint, sizeof(fingerprint)))
		hm_report_damage(psprintf("Row (%u,%u) of table \"%s\" has no entry in it.",
								  ItemPointerGetBlockNumberNoCheck(tid),
								  ItemPointerGetOffsetNumberNoCheck(tid),
								  RelationGetRelationName(check->heap)),
						 "index \"%s\" is corrupted", RelationGetRelationName(index));
}

/*
 * Make the bloom filter, and take a snapshot before anything of the index is read: the
 * index has entries of all rows that the snapshot sees.
 * Errors: t_r_serialization_failure, if the transaction's snapshot is older than the
 * index.
 */
static Snapshot
begin_fingerprints(HmCheck *check)
{
	int64 entries = (int64) RelationGetNumberOfBlocks(check->index) * HT_LEAF_MAX_ENTRIES;
	Snapshot snapshot;

	check->filter =
		bloom_create(entries, maintenance_work_mem, pg_prng_uint64(&pg_global_prng_state));
	snapshot = RegisterSnapshot(GetTransactionSnapshot());

	/*
	 * The transaction's own snapshot may be too old for this index; amcheck has the same
	 * test.
	 */
	if (IsolationUsesXactSnapshot() && check->index->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(check->index->rd_indextuple->t_data),
							   snapshot->xmin))
		ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						errmsg("index \"%s\" cannot be verified using transaction snapshot",
							   RelationGetRelationName(check->index))));
	return snapshot;
}

/* Check that all rows that the snapshot sees have entries.  Frees filter and snapshot. */
static void
check_heap(HmCheck *check, Snapshot snapshot)
{
	IndexInfo *info = BuildIndexInfo(check->index);
	TableScanDesc scan = table_beginscan_strat(check->heap, snapshot, 0, NULL, true, true);

	/* Scan only what the snapshot sees, as a concurrent build does. */
	info->ii_Concurrent = true;
	table_index_build_scan(check->heap, check->index, info, true, true, heap_tuple_callback, check,
						   scan);
	bloom_free(check->filter);
	UnregisterSnapshot(snapshot);
}

/* ----------------------------------------------------------------
 *		All of it
 * ----------------------------------------------------------------
 */

void
hm_check_index(Relation index, Relation heap, bool heapallindexed)
{
	HmCheck check = {0};
	Snapshot snapshot = InvalidSnapshot;

	check.index = index;
	check.heap = heap;
	check.strategy = GetAccessStrategy(BAS_BULKREAD);
	check.heap_blocks = heap->rd_rel->relam == HEAP_TABLE_AM_OID ? RelationGetNumberOfBlocks(heap) :
																   InvalidBlockNumber;

	/* The snapshot may see rows of which this backend has queued the entries. */
	if (!RecoveryInProgress())
		hm_batch_apply(index);
	if (heapallindexed)
		snapshot = begin_fingerprints(&check);
	check_metapage(&check);
	hm_progress_phase(HM_PROGRESS_CHECKING_SEGMENTS, check.segment_count, 0);
	hm_check_segments(&check);
	hm_progress_phase(HM_PROGRESS_CHECKING_EXTENTS, 0, 0);
	hm_check_extents(&check);
	if (heapallindexed)
	{
		hm_progress_phase(HM_PROGRESS_CHECKING_TABLE, 0, 0);
		check_heap(&check, snapshot);
	}
}
