/*
 * wal.c
 *		WAL records of our own making: generic ones for changes inside a leaf, and recovery
 *		conflicts.
 *
 * GenericXLogFinish() finds what has changed by comparing the page with a copy, byte by
 * byte, which takes some 8 us a page.  A leaf operation knows what it has changed.  So
 * the record is made here, in the format that generic_redo() of PostgreSQL's
 * access/transam/generic_xlog.c reads (unchanged since 9.6): for each range of bytes its
 * offset, its length and its new contents.  With wal_consistency_checking = generic the
 * server verifies that replay makes the same page; a test does that.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/nbtxlog.h"
#include "access/rmgr.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"

#include "am/internal.h"
#include "compat.h"

/* Room for disjoint ranges.  (A range for each single byte would not fit.) */
#define HM_DELTA_MAX	(BLCKSZ + HT_LEAF_MAX_RANGES * 2 * sizeof(uint16))

/* Log the contents of disjoint ranges of a page and set its LSN. */
static void
log_ranges(Buffer buffer, const HtByteRange *ranges, int count)
{
	Page		page = BufferGetPage(buffer);
	char		delta[HM_DELTA_MAX];
	char	   *end = delta;
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0 && count <= HT_LEAF_MAX_RANGES);
	for (int i = 0; i < count; i++)
	{
		uint16		head[2] = {ranges[i].offset, ranges[i].length};

		memcpy(end, head, sizeof(head));
		end += sizeof(head);
		memcpy(end, page + ranges[i].offset, ranges[i].length);
		end += ranges[i].length;
	}

	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	XLogRegisterBufData(0, delta, end - delta);
	lsn = XLogInsert(RM_GENERIC_ID, 0);
	PageSetLSN(page, lsn);
}

void
hm_log_leaf_change(Relation index, Buffer buffer, const HtLeafChange *change)
{
	HtByteRange ranges[HT_LEAF_MAX_RANGES];

	if (RelationNeedsWAL(index))
		log_ranges(buffer, ranges,
				   ht_leaf_change_ranges(BufferGetPage(buffer), change, ranges));
}

/*
 * A page without a hole is logged with all its bytes.  So the page has a hole in the
 * first record, and a second record removes the hole.
 */
void
hm_log_blank_page(Relation index, Buffer buffer)
{
	PageHeader	header = (PageHeader) BufferGetPage(buffer);
	HtByteRange lower = {offsetof(PageHeaderData, pd_lower), sizeof(header->pd_lower)};

	if (!RelationNeedsWAL(index))
		return;
	Assert(header->pd_lower == header->pd_upper);
	header->pd_lower = SizeOfPageHeaderData;
	log_newpage_buffer(buffer, true);
	header->pd_lower = header->pd_upper;
	log_ranges(buffer, &lower, 1);
}

/*
 * Generic records have no recovery conflicts.  Core has a record that does nothing else in replay:
 * the one by which nbtree says that it uses a deleted page again.  It names a relation and a
 * transaction, and touches no page.
 */
void
hm_log_conflict(Relation index, Relation heap, TransactionId horizon)
{
	FullTransactionId next;
	uint64		behind;
	xl_btree_reuse_page record;

	if (!TransactionIdIsValid(horizon) || !RelationNeedsWAL(index) || !XLogStandbyInfoActive())
		return;

	/* The horizon is a past transaction, so it is less than 2^32 before the next one. */
	next = ReadNextFullTransactionId();
	behind = (uint32) (XidFromFullTransactionId(next) - horizon);
	memset(&record, 0, sizeof(record));
	hm_fill_conflict(&record, index, heap,
					 FullTransactionIdFromU64(U64FromFullTransactionId(next) - behind));
	XLogBeginInsert();
	XLogRegisterData((char *) &record, SizeOfBtreeReusePage);
	(void) XLogInsert(RM_BTREE_ID, XLOG_BTREE_REUSE_PAGE);
}
