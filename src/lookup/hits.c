/*
 * hits.c
 *		Sorting hits.
 *
 * Radix sorts, least significant digit first: they are stable, and a digit that is the
 * same in all hits, as most digits of a tid are, takes no pass.
 */
#include "postgres.h"

#include "lookup/lookup.h"

#define DIGIT_BITS		8
#define BUCKETS			(1 << DIGIT_BITS)
#define MAX_DIGITS		6		/* of a tid */

static inline uint64
sort_key(const HmHit *hit, bool by_probe)
{
	return by_probe ? hit->probe : hit->tid;
}

static inline uint32
digit_of(uint64 key, int digit)
{
	return (uint32) (key >> (digit * DIGIT_BITS)) & (BUCKETS - 1);
}

static void
insertion_sort(HmHit *hits, uint32 n, bool by_probe)
{
	for (uint32 i = 1; i < n; i++)
	{
		HmHit		hit = hits[i];
		uint32		j = i;

		for (; j > 0 && sort_key(&hits[j - 1], by_probe) > sort_key(&hit, by_probe); j--)
			hits[j] = hits[j - 1];
		hits[j] = hit;
	}
}

/* Hits of neighbouring keys, in a table in key order, are already sorted. */
static pg_attribute_always_inline bool
is_sorted(const HmHit *hits, uint32 n, bool by_probe)
{
	for (uint32 i = 1; i < n; i++)
	{
		if (sort_key(&hits[i - 1], by_probe) > sort_key(&hits[i], by_probe))
			return false;
	}
	return true;
}

static pg_attribute_always_inline void
sort_hits(HmHit *hits, HmHit *scratch, uint32 n, bool by_probe)
{
	uint32		counts[MAX_DIGITS][BUCKETS];
	int			digits = by_probe ? 4 : 6;
	HmHit	   *from = hits;
	HmHit	   *to = scratch;

	/* For few hits insertion sort is faster than counting digits. */
	if (n <= HM_HITS_FEW)
	{
		insertion_sort(hits, n, by_probe);
		return;
	}

	if (is_sorted(hits, n, by_probe))
		return;
	memset(counts, 0, sizeof(counts));
	for (uint32 i = 0; i < n; i++)
	{
		uint64		key = sort_key(&hits[i], by_probe);

		for (int digit = 0; digit < digits; digit++)
			counts[digit][digit_of(key, digit)]++;
	}
	for (int digit = 0; digit < digits; digit++)
	{
		uint32	   *count = counts[digit];
		uint32		start = 0;
		HmHit	   *swap = from;

		if (count[digit_of(sort_key(from, by_probe), digit)] == n)
			continue;			/* the same in all */

		/* Turn the count of each bucket into the index of its next hit. */
		for (int bucket = 0; bucket < BUCKETS; bucket++)
		{
			uint32		size = count[bucket];

			count[bucket] = start;
			start += size;
		}
		for (uint32 i = 0; i < n; i++)
			to[count[digit_of(sort_key(&from[i], by_probe), digit)]++] = from[i];
		from = to;
		to = swap;
	}

	if (from != hits)
		memcpy(hits, from, n * sizeof(HmHit));
}

void
hm_hits_sort_by_tid(HmHit *hits, HmHit *scratch, uint32 n)
{
	sort_hits(hits, scratch, n, false);
}

void
hm_hits_sort_by_probe(HmHit *hits, HmHit *scratch, uint32 n)
{
	sort_hits(hits, scratch, n, true);
}
