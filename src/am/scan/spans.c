/*
 * spans.c
 *		Sorting spans, whose low keys are of one width.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/scan/columnspans.h"

/* Add a span to a list; none there begins above it. */
static inline void
spans_append(HmSpanList *list, const HmSpan *next, bool join)
{
	HmSpan *last = list->count > 0 ? &list->spans[list->count - 1] : NULL;

	if (last != NULL && (next->low <= last->high || (join && next->low == last->high + 1)))
		last->high = Max(last->high, next->high);
	else
		list->spans[list->count++] = *next;
}

void
hm_spans_sort(HmSpanList *list, bool join)
{
	Size count = (Size) list->count;
	HT_KEY *lows = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(HT_KEY) * (count + 1));
	HtProbe *order = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(HtProbe) * (count + 1));
	HmSpanList result = {0};
	HtProbe *scratch;
	HtPsa psa;

	for (Size i = 0; i < count; i++)
		lows[i] = (HT_KEY) list->spans[i].low;
	ht_psa_start(&psa, lows, (uint32) count, order);
	pfree(lows);

	scratch = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(HtProbe) * (psa.largest + 1));
	result.spans = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(HmSpan) * (count + 1));
	while (psa.sorted < psa.count)
	{
		uint32 begin = psa.sorted;
		uint32 end = ht_psa_more(&psa, scratch);

		for (uint32 i = begin; i < end; i++)
			spans_append(&result, &list->spans[order[i].number], join);
		CHECK_FOR_INTERRUPTS();
	}
	pfree(order);
	pfree(scratch);
	pfree(list->spans);
	*list = result;
}
