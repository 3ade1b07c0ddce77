/*
 * test_leaf.c
 *		Leaf pages, compared with a sorted array.
 */
#include "leaf_model.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static const char *const pattern_names[N_PATTERNS] = {
	"random keys", "ascending keys", "descending keys", "few keys and tids", "one key",
	"one key, ascending tids", "the maximum key", "extreme keys", "runs of keys",
};

static void
test_leaf_pattern(HtWidth width, Pattern pattern)
{
	Leaf	   *leaf = leaf_create(width);
	int			i = 0;

	leaf_verify(leaf);
	for (int round = 0; round < 40 && !failed(); round++)
	{
		int			inserts = rnd_below(3) == 0 ? 2 * ht_leaf_capacity(width) : rnd_below(200);
		int			log_every = 1 + rnd_below(rnd_below(2) ? 3 : 300);

		while (inserts-- > 0 && !failed())
		{
			HtEntry		entry = pattern_entry(pattern, width, i++);

			if (leaf_insert(leaf, entry) == HT_FULL)
				break;
			if (rnd_below(log_every) == 0)
				leaf_log(leaf);
			if (rnd_below(10) == 0)
				leaf_verify(leaf);
			if (rnd_below(10) == 0)
				expect(leaf_insert(leaf, entry) == HT_PRESENT, "entry is not found again");
		}
		leaf_verify(leaf);

		if (rnd_below(4) == 0)
			leaf_refill(leaf);
		else
			leaf_remove_some(leaf);
		leaf_verify(leaf);
		if (rnd_below(2) == 0)
			leaf_log(leaf);
	}
	leaf_free(leaf);
	report("%d-bit leaf: %s", width_bits(width), pattern_names[pattern]);
}

/*
 * Ascending insertions fill a page, whatever it held before, and log little.
 * Descending ones log not much more.
 */
static void
test_leaf_in_order(HtWidth width)
{
	int			capacity = ht_leaf_capacity(width);

	for (int percent = 0; percent < 100; percent += 10)
		for (int descending = 0; descending < 2; descending++)
		{
			Leaf	   *leaf = leaf_create(width);
			int			start = capacity * percent / 100;
			double		average;

			for (int i = 0; i < start; i++)
				leaf->model[i] = make_entry(1000000 + i, rnd_tid());
			leaf->n = start;
			ht_leaf_fill(leaf->page, width, leaf->model, start);
			memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);

			for (int i = 0; i < capacity - start; i++)
			{
				HtEntry		entry = {descending ? 1000000 - 5 * i : 2000000 + 5 * i, rnd_tid()};

				expect(leaf_insert(leaf, entry) == HT_INSERTED, "page is full at %d", leaf->n);
				leaf_log(leaf);
			}
			leaf_verify(leaf);
			expect(leaf_insert(leaf, make_entry(UINT32_MAX, 1)) == HT_FULL, "page is not full");
			average = (double) leaf->bytes / (capacity - start);
			expect(average < (percent == 0 && !descending ? 30 : 300),
				   "%.0f bytes changed per insert", average);
			leaf_free(leaf);
		}
	report("%d-bit leaf: pages filled in order", width_bits(width));
}

/* Fill with any number of entries: the counts of blocks differ by at most one. */
static void
test_leaf_fill(HtWidth width)
{
	for (int n = 0; n <= ht_leaf_capacity(width) && !failed(); n++)
	{
		Leaf	   *leaf = leaf_create(width);
		int			least = ht_leaf_slots(width);
		int			most = 0;

		for (int i = 0; i < n; i++)
			leaf->model[i] = make_entry(n % 2 ? rnd() & ht_key_max(width) : (uint64_t) i / 20, i + 1);
		qsort(leaf->model, n, sizeof(HtEntry), compare_entries);
		leaf->n = n;
		if (n % 3 == 0)
			memset(leaf->page + HT_PAGE_START, 0, HT_PAGE_END - HT_PAGE_START);
		else
		{
			/* Free slots can hold anything. */
			memset(leaf->page + ht_leaf_blocks_at(width), 0x55,
				   HT_PAGE_END - ht_leaf_blocks_at(width));
			for (int b = 0; b < ht_leaf_blocks(width); b++)
				leaf_block(leaf, b)[HT_LEAF_BLOCK_COUNT_AT] = 0;
			for (int i = rnd_below(ht_leaf_capacity(width)); i > 0; i--)
				ht_leaf_insert(leaf->page, width, make_entry(rnd() & ht_key_max(width), i),
							   &leaf->change);
		}
		ht_leaf_fill(leaf->page, width, leaf->model, n);
		leaf_verify(leaf);
		for (int b = 0; b < ht_leaf_blocks(width); b++)
		{
			int			count = leaf_block(leaf, b)[HT_LEAF_BLOCK_COUNT_AT];

			least = count < least ? count : least;
			most = count > most ? count : most;
		}
		expect(most - least <= 1, "%d entries: blocks of %d and of %d", n, least, most);
		leaf_free(leaf);
	}
	report("%d-bit leaf: fill", width_bits(width));
}

static uint64_t
leaf_separator(const Leaf *leaf, int i)
{
	uint64_t	key64;
	uint32_t	key32;

	memcpy(&key64, leaf->page + HT_LEAF_SEPARATORS_AT + i * leaf->width, sizeof(key64));
	memcpy(&key32, leaf->page + HT_LEAF_SEPARATORS_AT + i * leaf->width, sizeof(key32));
	return leaf->width == HT_WIDTH32 ? key32 : key64;
}

/* Ranges are right even if blocks outside of the range seem to have its keys. */
static void
test_leaf_range_blocks(HtWidth width)
{
	for (int round = 0; round < 200 && !failed(); round++)
	{
		Leaf	   *leaf = leaf_create(width);
		uint64_t	low;
		uint64_t	high;
		int			last = ht_leaf_blocks(width) - 1;

		for (int i = 0; i < 400; i++)
			leaf_insert(leaf, pattern_entry(round % 2 ? RANDOM_KEYS : RUNS, width, i));
		low = leaf_probe(leaf);
		high = round % 3 ? low + rnd() % 50 : leaf_probe(leaf);

		for (int b = 0; b <= last; b++)
			if ((b > 0 && leaf_separator(leaf, b - 1) > high) ||
				(b < last && leaf_separator(leaf, b) < low))
			{
				uint32_t	low32 = (uint32_t) low;

				memcpy(leaf_block(leaf, b),
					   width == HT_WIDTH32 ? (void *) &low32 : (void *) &low, width);
				leaf_block(leaf, b)[HT_LEAF_BLOCK_COUNT_AT] = 1;
			}
		leaf_expect_range(leaf, low, high);
		leaf_free(leaf);
	}
	report("%d-bit leaf: ranges read no more blocks than needed", width_bits(width));
}

/* Bounds can be larger than any key. */
static void
test_leaf_wide_bounds(void)
{
	Leaf	   *leaf = leaf_create(HT_WIDTH32);

	for (int i = 0; i < 300; i++)
		leaf_insert(leaf, pattern_entry(i % 2 ? EXTREMES : RANDOM_KEYS, HT_WIDTH32, i));
	leaf_expect_range(leaf, 5, UINT64_C(1) << 32);
	leaf_expect_range(leaf, UINT64_C(1) << 32, UINT64_MAX);
	leaf_expect_range(leaf, (UINT64_C(1) << 32) + 5, (UINT64_C(1) << 32) + 9);
	leaf_free(leaf);
	report("32-bit leaf: bounds wider than keys");
}

void
test_leaf(HtWidth width)
{
	for (int pattern = 0; pattern < N_PATTERNS; pattern++)
		test_leaf_pattern(width, (Pattern) pattern);
	test_leaf_in_order(width);
	test_leaf_fill(width);
	test_leaf_range_blocks(width);
	if (width == HT_WIDTH32)
		test_leaf_wide_bounds();
}
