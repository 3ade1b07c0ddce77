/*
 * test_sort.c
 *		Sorting, compared with qsort().
 */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

typedef enum Input
{
	RANDOM,
	RANDOM_32, /* 32-bit keys */
	ONE_DIGIT, /* keys that differ in one digit: an odd number of passes */
	FEW_KEYS,
	FEW_ENTRIES, /* some entries are equal */
	ONE_KEY,
	ONE_KEY_REVERSED,
	ONE_OUTLIER, /* all entries but one have the same key */
	SORTED,
	NEARLY_SORTED, /* all but the last entry */
	REVERSED,
	EXTREMES, /* minimum and maximum keys and tids */
	N_INPUTS
} Input;

static const char *const input_names[N_INPUTS] = {
	"random entries",
	"32-bit keys",
	"keys that differ in one digit",
	"few keys",
	"few entries",
	"one key",
	"one key, tids reversed",
	"one key but for one entry",
	"sorted entries",
	"sorted entries but for the last",
	"reversed entries",
	"extreme entries",
};

static void
make_input(HtEntry *entries, size_t n, Input input)
{
	for (size_t i = 0; i < n; i++)
	{
		HtEntry entry = {rnd(), rnd_tid()};

		switch (input)
		{
			case RANDOM_32:
				entry.key &= UINT32_MAX;
				break;
			case ONE_DIGIT:
				entry.key = UINT64_C(0xABCD00EF) + ((entry.key & 0xFF) << 8);
				entry.tid = i;
				break;
			case FEW_KEYS:
				entry.key %= 10;
				break;
			case FEW_ENTRIES:
				entry.key %= 10;
				entry.tid %= 10;
				break;
			case ONE_KEY:
				entry.key = 42;
				break;
			case ONE_KEY_REVERSED:
				entry.key = 42;
				entry.tid = n - i;
				break;
			case ONE_OUTLIER:
				entry.key = i == n / 2 ? 41 : 42;
				break;
			case EXTREMES:
				entry.key = rnd_below(2) ? UINT64_MAX : 0;
				entry.tid = (const uint64_t[]){0, 1, HT_TID_MAX}[rnd_below(3)];
				break;
			default:
				break;
		}
		entries[i] = entry;
	}

	if (input == SORTED || input == NEARLY_SORTED || input == REVERSED)
		qsort(entries, n, sizeof(HtEntry), compare_entries);
	if (input == NEARLY_SORTED && n > 0)
		entries[n - 1].key = 0;
	if (input == REVERSED)
		for (size_t i = 0; i < n / 2; i++)
		{
			HtEntry swap = entries[i];

			entries[i] = entries[n - 1 - i];
			entries[n - 1 - i] = swap;
		}
}

static void
try_sort(Input input, size_t n)
{
	/* At least one byte: NULL would look like a lack of memory. */
	HtEntry *entries = allocate(n * sizeof(HtEntry) + 1);
	HtEntry *expected = allocate(n * sizeof(HtEntry) + 1);
	HtEntry *scratch = allocate(n * sizeof(HtEntry) + 1);

	make_input(entries, n, input);
	memcpy(expected, entries, n * sizeof(HtEntry));
	qsort(expected, n, sizeof(HtEntry), compare_entries);
	ht_sort_entries(entries, scratch, n);
	for (size_t i = 0; i < n && !failed(); i++)
		expect(ht_entry_cmp(entries[i], expected[i]) == 0, "entry %zu of %zu is wrong", i, n);

	free(entries);
	free(expected);
	free(scratch);
}

void
test_sort(void)
{
	for (int input = 0; input < N_INPUTS; input++)
	{
		for (size_t n = 0; n <= 200; n++)
			try_sort((Input) input, n);
		for (int i = 0; i < 20; i++)
			try_sort((Input) input, (size_t) rnd_below(5000));
		try_sort((Input) input, 200000);
		report("sort: %s", input_names[input]);
	}
}
