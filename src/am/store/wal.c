/*
 * wal.c
 *		WAL records of our own making: generic ones for changes inside a leaf and of a few
 *		pages under a segment's lock, and recovery conflicts.
 *
 * GenericXLogFinish() finds what has changed by comparing the page with a copy, byte by
 * byte, which takes some 8 us a page.  A leaf operation knows what it has changed.  So
 * the record is made here, in the format that generic_redo() of PostgreSQL's
 * access/transam/generic_xlog.c reads (unchanged since 9.6): for each range of bytes its
 * offset, its length and its new contents.  With wal_consistency_checking = generic the
 * server verifies that replay makes the same page; a test does that.
 *
 * A split compares pages as well, but eight bytes at a time.  GenericXLogFinish() took half of the
 * time for which a split locks its segment.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/nbtxlog.h"
#include "access/rmgr.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"

#include "am/fault.h"
#include "am/store/store.h"
#include "compat.h"

/* Room for disjoint ranges.  (A range for each single byte would not fit.) */
#define HM_DELTA_MAX (BLCKSZ + HT_LEAF_MAX_RANGES * 2 * sizeof(uint16))

/*
 * The longest delta that append_differences() makes: all bytes of a page, and the heads of ranges,
 * between which there are eight bytes.
 */
#define HM_DIFFERENCES_MAX (BLCKSZ + BLCKSZ / 2)

/*
 * What it costs to log a page as blank first: an image with the page's header and special area, 121
 * bytes, and the head of the record with the contents.
 */
#define HM_BLANK_PAGE_COST 170

StaticAssertDecl(HM_DIFFERENCES_MAX >= BLCKSZ + (BLCKSZ / 9 + 4) * 2 * sizeof(uint16),
				 "no room for all differences");

/* Append a range of a page to a delta.  Returns the delta's new end. */
static inline char *
append_range(char *delta, const char *page, int from, int to)
{
	uint16 head[2] = {(uint16) from, (uint16) (to - from)};

	memcpy(delta, head, sizeof(head));
	memcpy(delta + sizeof(head), page + from, (size_t) (to - from));
	return delta + sizeof(head) + (to - from);
}

void
hm_log_ranges(Buffer buffer, const HtByteRange *ranges, int count)
{
	Page page = BufferGetPage(buffer);
	char delta[HM_DELTA_MAX];
	char *end = delta;
	XLogRecPtr lsn;

	Assert(CritSectionCount > 0 && count <= HT_LEAF_MAX_RANGES);
	for (int i = 0; i < count; i++)
		end = append_range(end, page, ranges[i].offset, ranges[i].offset + ranges[i].length);

	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	XLogRegisterBufData(0, delta, end - delta);
	lsn = XLogInsert(RM_GENERIC_ID, 0);
	PageSetLSN(page, lsn);
}

/*
 * A page without a hole is logged with all its bytes.  So the page has a hole in the
 * first record, and a second record removes the hole.
 */
void
hm_log_blank_page(Relation index, Buffer buffer)
{
	PageHeader header = (PageHeader) BufferGetPage(buffer);
	HtByteRange lower = {offsetof(PageHeaderData, pd_lower), sizeof(header->pd_lower)};

	if (!RelationNeedsWAL(index))
		return;
	Assert(header->pd_lower == header->pd_upper);
	header->pd_lower = SizeOfPageHeaderData;
	log_newpage_buffer(buffer, true);
	header->pd_lower = header->pd_upper;
	hm_log_ranges(buffer, &lower, 1);
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
	uint64 behind;
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

/* ----------------------------------------------------------------
 *		Changes of several pages
 * ----------------------------------------------------------------
 */

/* A change that has begun.  Its memory lasts, so that none has to be allocated. */
static struct
{
	Relation index;
	int count;
	Buffer buffers[HM_CHANGE_PAGES];
	PGAlignedBlock copies[HM_CHANGE_PAGES];
	char deltas[HM_CHANGE_PAGES][HM_DIFFERENCES_MAX];
} change;

void
hm_change_begin(Relation index)
{
	change.index = index;
	change.count = 0;
}

Page
hm_change_page(Buffer buffer)
{
	char *copy = change.copies[change.count].data;

	Assert(change.count < HM_CHANGE_PAGES);
	change.buffers[change.count++] = buffer;
	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	return (Page) copy;
}

/* Whether the eight bytes at an offset differ. */
static inline bool
differ(const char *old, const char *new, int at)
{
	uint64 a, b;

	memcpy(&a, old + at, sizeof(a));
	memcpy(&b, new + at, sizeof(b));
	return a != b;
}

/* Append the ranges in from..to - 1 in which two pages differ to a delta.  Returns its new end. */
static char *
append_differences(char *delta, const char *old, const char *new, int from, int to)
{
	const int step = sizeof(uint64);
	int at = from;

	while (at < to)
	{
		int start, end;

		while (at + step <= to && !differ(old, new, at))
			at += step;
		while (at < to && old[at] == new[at])
			at++;
		if (at == to)
			break;

		/* Eight equal bytes end the range. */
		start = at;
		while (at + step <= to && differ(old, new, at))
			at += step;
		end = at + step <= to ? at : to;
		while (end > start && old[end - 1] == new[end - 1])
			end--;
		delta = append_range(delta, new, start, end);
		at = Max(at, end);
	}
	return delta;
}

/*
 * The same for the part of a page before or after its hole.  Replay has zeroed what was in the
 * hole of the old page, so all of that counts as different.
 */
static char *
append_part(char *delta, const char *old, const char *new, int from, int to)
{
	int hole_start = Min(Max(((const PageHeaderData *) old)->pd_lower, from), to);
	int hole_end = Min(Max(((const PageHeaderData *) old)->pd_upper, from), to);

	delta = append_differences(delta, old, new, from, hole_start);
	if (hole_start < hole_end)
		delta = append_range(delta, new, hole_start, hole_end);
	return append_differences(delta, old, new, hole_end, to);
}

/*
 * Make the blank page that has the header and the special area of an image, as replay of
 * hm_page_write()'s first record makes it.
 */
static void
make_blank(char *blank, const char *image)
{
	const PageHeaderData *header = (const PageHeaderData *) image;

	memset(blank, 0, BLCKSZ);
	memcpy(blank, image, SizeOfPageHeaderData);
	memcpy(blank + header->pd_special, image + header->pd_special, BLCKSZ - header->pd_special);
	((PageHeader) blank)->pd_lower = SizeOfPageHeaderData;
	((PageHeader) blank)->pd_upper = header->pd_special;
}

/* Make the delta that turns a blank page into its image.  Returns its length. */
static int
blank_delta(const char *blank, const char *image, char *delta)
{
	const PageHeaderData *header = (const PageHeaderData *) image;
	char *end = append_differences(delta, blank, image, 0, header->pd_lower);

	end = append_differences(end, blank, image, header->pd_upper, BLCKSZ);
	return (int) (end - delta);
}

void
hm_page_write(Relation index, Buffer buffer, const char *image)
{
	Page page = BufferGetPage(buffer);
	const PageHeaderData *header = (const PageHeaderData *) image;
	int whole = BLCKSZ - (header->pd_upper - header->pd_lower);
	char *blank = change.copies[0].data; /* no change is under way */
	char *delta = change.deltas[0];
	bool logged = RelationNeedsWAL(index);
	bool begin_blank;
	int length;
	XLogRecPtr lsn;

	Assert(CritSectionCount > 0);
	make_blank(blank, image);
	length = blank_delta(blank, image, delta);
	begin_blank = logged && length + HM_BLANK_PAGE_COST < whole;

	memcpy(page, begin_blank ? blank : image, BLCKSZ);
	MarkBufferDirty(buffer);
	HM_FAULT(segment_page_changed);
	if (!logged)
		return;
	lsn = log_newpage_buffer(buffer, true);
	if (!begin_blank)
		return;
	HM_FAULT(segment_page_blank);

	/* Without its LSN, the page would be logged whole. */
	memcpy(page, image, BLCKSZ);
	PageSetLSN(page, lsn);
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	XLogRegisterBufData(0, delta, length);
	lsn = XLogInsert(RM_GENERIC_ID, 0);
	PageSetLSN(page, lsn);
}

void
hm_change_finish(void)
{
	bool logged = RelationNeedsWAL(change.index);
	int lengths[HM_CHANGE_PAGES];
	XLogRecPtr lsn;

	for (int i = 0; logged && i < change.count; i++)
	{
		const char *old = BufferGetPage(change.buffers[i]);
		const char *new = change.copies[i].data;
		const PageHeaderData *header = (const PageHeaderData *) new;
		char *delta = change.deltas[i];
		char *end = append_part(delta, old, new, 0, header->pd_lower);

		end = append_part(end, old, new, header->pd_upper, BLCKSZ);
		lengths[i] = (int) (end - delta);
		Assert(lengths[i] <= HM_DIFFERENCES_MAX);
	}

	START_CRIT_SECTION();
	if (logged)
		XLogBeginInsert();
	for (int i = 0; i < change.count; i++)
	{
		Page page = BufferGetPage(change.buffers[i]);
		const char *new = change.copies[i].data;
		int lower = ((const PageHeaderData *) new)->pd_lower;
		int upper = ((const PageHeaderData *) new)->pd_upper;

		memcpy(page, new, (size_t) lower);
		memset(page + lower, 0, (size_t) (upper - lower));
		memcpy(page + upper, new + upper, (size_t) (BLCKSZ - upper));
		MarkBufferDirty(change.buffers[i]);
		if (logged)
		{
			XLogRegisterBuffer((uint8) i, change.buffers[i], REGBUF_STANDARD);
			XLogRegisterBufData((uint8) i, change.deltas[i], lengths[i]);
		}
	}
	if (logged)
	{
		lsn = XLogInsert(RM_GENERIC_ID, 0);
		for (int i = 0; i < change.count; i++)
			PageSetLSN(BufferGetPage(change.buffers[i]), lsn);
	}
	END_CRIT_SECTION();
}
