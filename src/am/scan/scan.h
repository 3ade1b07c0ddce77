/*
 * scan.h
 *		Index scans.
 */
#ifndef HARMONIA_AM_SCAN_H
#define HARMONIA_AM_SCAN_H

#include "access/relscan.h"

#include "am/store/store.h"

/*
 * Whether a scan of all of the index, forward, returns the rows of its table in the order that the
 * index's columns, with DESC and NULLS FIRST or LAST, define; and backward, in the reverse order.
 * No if the index is damaged.  Both relations are locked.  The caller holds no buffer lock.
 */
extern bool hm_keeps_order(Relation index, Relation table);

/*
 * The same for functions that show catalogs, of an index or (column > 0) of one of its columns.
 * Waits for the locks.  Yes where PostgreSQL's own answer has to do: of an included column, a
 * partitioned index, an index of another session's temporary table, or one that is gone.
 */
extern bool hm_may_keep_order(Oid index_oid, int column);

/* The routines of scans, for one width of keys. */
extern IndexScanDesc hm_scan_begin(Relation index, int nkeys, int norderbys);
extern void hm_scan_restart(IndexScanDesc scan, ScanKey keys, int nkeys);
extern bool hm_scan_next(IndexScanDesc scan, ScanDirection direction);
extern int64 hm_scan_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void hm_scan_end(IndexScanDesc scan);
extern void hm_scan_mark(IndexScanDesc scan);
extern void hm_scan_restore(IndexScanDesc scan);

/* hm_first_keys_share(), for one width of keys (firstkeys.c). */
extern double hm_sample_first_keys(Relation index);

/* Those of parallel scans (scanparallel.c). */
extern Size hm_estimate_parallel_scan(HM_ESTIMATE_PARALLEL_PARAMETERS);
extern void hm_init_parallel_scan(void *at);
extern void hm_parallel_rescan(IndexScanDesc scan);

/* ----------------------------------------------------------------
 *		Values by their keys (valuesort.c)
 * ----------------------------------------------------------------
 */

/*
 * Sort values, of which there is at least one, by their keys into *result, whose arrays have room
 * for them. "length" is the type's typlen.
 */
extern void hm_values_sort(HmKeyValues *result, const void *keys, const Datum *values, uint32 count,
						   int16 length);
/* Also for keys of 128 bits; see HM_FOR_INDEX(). */
#if HM_KEYS == 64
HM_BOTH_WIDTHS(hm_values_sort);
HM_BOTH_WIDTHS(hm_scan_begin);
HM_BOTH_WIDTHS(hm_scan_restart);
HM_BOTH_WIDTHS(hm_scan_next);
HM_BOTH_WIDTHS(hm_scan_bitmap);
HM_BOTH_WIDTHS(hm_scan_end);
HM_BOTH_WIDTHS(hm_scan_mark);
HM_BOTH_WIDTHS(hm_scan_restore);
#endif

#endif /* HARMONIA_AM_SCAN_H */
