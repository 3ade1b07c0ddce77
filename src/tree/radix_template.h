/*
 * radix_template.h
 *		Sorting entries with keys of the width HT_KEYS.
 *
 * radix.c, which explains it, includes this once for each.
 */
#include "key_macros.h"

static void
HT_KEYED(insertion_sort)(HT_ENTRY *entries, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		HT_ENTRY entry = entries[i];
		size_t j = i;

		for (; j > 0 && HT_KEYED(ht_entry_cmp)(entries[j - 1], entry) > 0; j--)
			entries[j] = entries[j - 1];
		entries[j] = entry;
	}
}

/* The member of an entry at an offset: its key or its tid. */
static inline uint64_t
HT_KEYED(member)(const HT_ENTRY *entry, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *) entry + offset, sizeof(value));
	return value;
}

/* Sort by a member that has at most this many digits; stable. */
static void
HT_KEYED(radix_sort)(HT_ENTRY *entries, HT_ENTRY *scratch, size_t n, size_t offset, int digits)
{
	size_t counts[KEY_DIGITS][BUCKETS];
	HT_ENTRY *from = entries;
	HT_ENTRY *to = scratch;

	memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < n; i++)
	{
		uint64_t value = HT_KEYED(member)(&entries[i], offset);

		for (int digit = 0; digit < KEY_DIGITS; digit++)
			counts[digit][digit_of(value, digit)]++;
	}

	for (int digit = 0; digit < digits; digit++)
	{
		size_t *count = counts[digit];
		size_t start = 0;
		HT_ENTRY *swap = from;

		if (count[digit_of(HT_KEYED(member)(from, offset), digit)] == n)
			continue; /* the same in all */

		/* Turn the count of each bucket into the index of its next entry. */
		for (int bucket = 0; bucket < BUCKETS; bucket++)
		{
			size_t size = count[bucket];

			count[bucket] = start;
			start += size;
		}

		for (size_t i = 0; i < n; i++)
			to[count[digit_of(HT_KEYED(member)(&from[i], offset), digit)]++] = from[i];

		from = to;
		to = swap;
	}

	if (from != entries)
		memcpy(entries, from, n * sizeof(HT_ENTRY));
}

/*
 * Sort entries whose keys have the same words above the given one, which is the lowest if it is
 * 0.  Then sort each run of entries with the same word that is not in order.
 */
static void
HT_KEYED(sort_by_word)(HT_ENTRY *entries, HT_ENTRY *scratch, size_t n, int word)
{
	size_t offset = offsetof(HT_ENTRY, key) + (size_t) word * sizeof(uint64_t);
	size_t end;

	HT_KEYED(radix_sort)(entries, scratch, n, offset, KEY_DIGITS);
	for (size_t start = 0; start < n; start = end)
	{
		uint64_t value = HT_KEYED(member)(&entries[start], offset);
		bool ordered = true;

		for (end = start + 1; end < n && HT_KEYED(member)(&entries[end], offset) == value; end++)
			ordered &= word == 0 ? entries[end - 1].tid <= entries[end].tid :
								   HT_KEYED(ht_entry_cmp)(entries[end - 1], entries[end]) <= 0;

		if (ordered)
			continue;
		if (end - start <= INSERTION_MAX)
			HT_KEYED(insertion_sort)(entries + start, end - start);
#if HT_KEYS > 64
		else if (word > 0)
			HT_KEYED(sort_by_word)(entries + start, scratch, end - start, word - 1);
#endif
		else
			HT_KEYED(radix_sort)
		(entries + start, scratch, end - start, offsetof(HT_ENTRY, tid), TID_DIGITS);
	}
}

void
HT_KEYED(ht_sort_entries)(HT_ENTRY *entries, HT_ENTRY *scratch, size_t n)
{
	size_t sorted = 1;

	/* Often the input is in order; finding out costs little. */
	while (sorted < n && HT_KEYED(ht_entry_cmp)(entries[sorted - 1], entries[sorted]) <= 0)
		sorted++;
	if (sorted >= n)
		return;

	if (n <= INSERTION_MAX)
		HT_KEYED(insertion_sort)(entries, n);
	else
		HT_KEYED(sort_by_word)(entries, scratch, n, HT_KEYS / 64 - 1);
}

#include "key_macros_end.h"
