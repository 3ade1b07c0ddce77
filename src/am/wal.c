/*
 * wal.c
 *		Generic WAL records for changes inside a leaf.
 *
 * GenericXLogFinish() finds what changed by comparing the page with a copy,
 * byte by byte, some 8 us a page.  A leaf operation knows what it changed, so
 * the record is put together here, in the format that generic_redo() of
 * PostgreSQL's access/transam/generic_xlog.c reads (unchanged since 9.6): for
 * each range of bytes its offset, its length and its new contents.
 * wal_consistency_checking = generic proves that replay arrives at the same
 * page, and a test does so.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/rmgr.h"
#include "access/xloginsert.h"
#include "miscadmin.h"

#include "am/am.h"
#include "compat.h"

/* Every byte of the page, if each had its own range, would not fit; see below. */
#define HM_DELTA_MAX	(BLCKSZ + HT_LEAF_MAX_RANGES * 2 * sizeof(uint16))

void
hm_log_leaf_change(Relation index, Buffer buffer, HtWidth width,
				   const HtLeafChange *change)
{
	Page		page = BufferGetPage(buffer);
	HtByteRange ranges[HT_LEAF_MAX_RANGES];
	char		delta[HM_DELTA_MAX];	/* ranges are disjoint, so it fits */
	char	   *end = delta;
	int			count;
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0);

	if (!RelationNeedsWAL(index))
		return;

	count = ht_leaf_change_ranges(page, width, change, ranges);
	Assert(count <= HT_LEAF_MAX_RANGES);
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
