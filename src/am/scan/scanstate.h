/*
 * scanstate.h
 *		What plain index scans (scan.c) and reading leaves for them (scanread.c) share; no
 *		other file includes this one.
 */
#ifndef HARMONIA_SCAN_H
#define HARMONIA_SCAN_H

#include "access/relscan.h"

#include "am/scan/scan.h"

/* hm_scan_read(): all matches of a leaf. */
#define HM_ALL_ITEMS INT_MAX

/* What a scan has read of one leaf. */
typedef struct HmScanPage
{
	bool valid;
	Buffer buffer;  /* pinned if the scan keeps a pin */
	HmPosition low; /* bounds of what was read */
	HmPosition high;
	BlockNumber right; /* the leaf to the right, if high is its beginning; or this one, if high is
						* on it */
	uint64 stamp;
	BlockNumber block;
	XLogRecPtr lsn; /* of the leaf when it was read */
	int current;    /* item returned last */
	int count;
	HtEntry items[HT_LEAF_MAX_ENTRIES];
} HmScanPage;

/* ----------------------------------------------------------------
 *		Tuples of index-only scans (scantuple.c)
 * ----------------------------------------------------------------
 */
typedef struct HmScanTuple HmScanTuple;

/*
 * Set scan->xs_itup for the row xs_heaptid, whose key is given.  *tuple is NULL for the first call;
 * it lives as long as the scan, and has to be ended.  The tuple is valid until the next call.
 * Returns false if the scan does not see the row, so that it can be passed over.
 */
extern bool hm_scan_tuple(IndexScanDesc scan, HmScanTuple **tuple, HmPart part, HmKey key);
extern void hm_scan_tuple_end(HmScanTuple *tuple);

typedef struct HmScan
{
	const HmKeyType *type; /* of the index's only column; NULL if there are several */
	bool descending;       /* the index is DESC: storage is read backwards */
	bool careful;
	bool keeps_pin; /* on the leaf from which it returns tuples */
	int dead_count; /* items of the page whose rows are dead to all */
	uint16 *dead;   /* their numbers, or NULL */
	MemoryContext range_context;
	HmRanges ranges;
	HmScanPage *marked; /* a copy, once the scan has left the page; or NULL */
	bool mark_set;
	bool mark_here; /* the mark is an item of the current page */
	int mark_current;
	HmScanTuple *tuple; /* for index-only scans; NULL if there was none yet */
	HmScanPage page;    /* the last field, because its items are large */
} HmScan;

/*
 * Read leaves from the position on, in one direction, until one has a match, into the scan's page.
 * Of that "enough" matches are read, or some more.  Gives hints, and releases the pin, of the page
 * before. Returns false, with no valid page, at the end.
 */
extern bool hm_scan_read(IndexScanDesc scan, HmPosition position, bool backward, int enough);

/* Before the scan leaves its page: set hints for the items whose rows are dead to all. */
extern void hm_scan_give_hints(IndexScanDesc scan);

#endif /* HARMONIA_SCAN_H */
