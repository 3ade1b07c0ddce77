/*
 * columnspans.h
 *		What scan keys accept of one column; for ranges.c.
 */
#ifndef HARMONIA_COLUMNSPANS_H
#define HARMONIA_COLUMNSPANS_H

#include "am/scan/scan.h"

typedef struct HmSpanList
{
	HmSpan *spans; /* palloc'd */
	int count;
} HmSpanList;

/*
 * Sort spans, and join those that overlap.  If join is true, also those that touch.
 */
extern void hm_spans_normalise(HmSpanList *list, bool join);

/* The same for lists whose low keys have at most 64 bits, and for any (spans.c). */
extern void hm_spans_sort(HmSpanList *list, bool join);
#if HM_KEYS == 64
HM_BOTH_WIDTHS(hm_spans_sort);
#endif

/* What scan keys accept of one column. */
typedef struct HmColumnSpans
{
	HmSpanList list; /* of its keys: disjoint, in ascending order */
	bool nulls;      /* NULL, too */
	bool recheck;    /* some of these may not match */
} HmColumnSpans;

/*
 * The keys of a column, counted from 0, that those of the scan keys accept that are on it.
 * Returns whether there are any.  join is as above.
 */
extern bool hm_column_spans(const HmKeyType *type, int column, ScanKey keys, int nkeys, bool join,
							HmColumnSpans *result);

#endif /* HARMONIA_COLUMNSPANS_H */
