/*
 * radix.c
 *		Sorting entries.
 *
 * A radix sort by key, least significant digit first.  It is stable, so runs of equal
 * keys keep their order, which in a heap scan is that of their tids.  Runs that are not
 * in tid order are sorted by tid afterwards, in the same way, so that the time is
 * linear for any input.
 *
 * Digits of 8 bits are faster than digits of 11 bits, although there are more of them:
 * the open cache lines of 256 buckets stay in the first-level cache.  For the same
 * reason buffering writes does not help.
 */
#include "tree.h"

#include <string.h>

#define DIGIT_BITS		8
#define BUCKETS			(1 << DIGIT_BITS)
#define KEY_DIGITS		(64 / DIGIT_BITS)
#define TID_DIGITS		(HT_TID_BITS / DIGIT_BITS)

/* Up to this number insertion sort is faster than counting digits. */
#define INSERTION_MAX	64

static void
insertion_sort(HtEntry *entries, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		HtEntry		entry = entries[i];
		size_t		j = i;

		for (; j > 0 && ht_entry_cmp(entries[j - 1], entry) > 0; j--)
			entries[j] = entries[j - 1];
		entries[j] = entry;
	}
}

/* The member of an entry at an offset: its key or its tid. */
static inline uint64_t
member(const HtEntry *entry, size_t offset)
{
	uint64_t	value;

	memcpy(&value, (const char *) entry + offset, sizeof(value));
	return value;
}

static inline int
digit_of(uint64_t value, int digit)
{
	return (int) (value >> (digit * DIGIT_BITS) & (BUCKETS - 1));
}

/* Sort by a member that has at most this many digits; stable. */
static void
radix_sort(HtEntry *entries, HtEntry *scratch, size_t n, size_t offset, int digits)
{
	size_t		counts[KEY_DIGITS][BUCKETS];
	HtEntry    *from = entries;
	HtEntry    *to = scratch;

	memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < n; i++)
	{
		uint64_t	value = member(&entries[i], offset);

		for (int digit = 0; digit < KEY_DIGITS; digit++)
			counts[digit][digit_of(value, digit)]++;
	}

	for (int digit = 0; digit < digits; digit++)
	{
		size_t	   *count = counts[digit];
		size_t		start = 0;
		HtEntry    *swap = from;

		if (count[digit_of(member(from, offset), digit)] == n)
			continue;			/* the same in all */

		/* Turn the count of each bucket into the index of its next entry. */
		for (int bucket = 0; bucket < BUCKETS; bucket++)
		{
			size_t		size = count[bucket];

			count[bucket] = start;
			start += size;
		}

		for (size_t i = 0; i < n; i++)
			to[count[digit_of(member(&from[i], offset), digit)]++] = from[i];

		from = to;
		to = swap;
	}

	if (from != entries)
		memcpy(entries, from, n * sizeof(HtEntry));
}

/* Sort each run of equal keys by tid, if it is not in order. */
static void
sort_runs(HtEntry *entries, HtEntry *scratch, size_t n)
{
	size_t		end;

	for (size_t start = 0; start < n; start = end)
	{
		bool		ordered = true;

		for (end = start + 1; end < n && entries[end].key == entries[start].key; end++)
			ordered &= entries[end - 1].tid <= entries[end].tid;

		if (ordered)
			continue;
		if (end - start <= INSERTION_MAX)
			insertion_sort(entries + start, end - start);
		else
			radix_sort(entries + start, scratch, end - start,
					   offsetof(HtEntry, tid), TID_DIGITS);
	}
}

void
ht_sort_entries(HtEntry *entries, HtEntry *scratch, size_t n)
{
	size_t		sorted = 1;

	/* Often the input is in order; finding out costs little. */
	while (sorted < n && ht_entry_cmp(entries[sorted - 1], entries[sorted]) <= 0)
		sorted++;
	if (sorted >= n)
		return;

	if (n <= INSERTION_MAX)
		insertion_sort(entries, n);
	else
	{
		radix_sort(entries, scratch, n, offsetof(HtEntry, key), KEY_DIGITS);
		sort_runs(entries, scratch, n);
	}
}
