/*
 * test_leaf.c
 *		Leaf pages, compared with a sorted array.
 */
#include "leaf_model.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static const char *const pattern_names[N_PATTERNS] = {
	"random keys",     "ascending keys",
	"descending keys", "few keys and tids",
	"one key",         "one key, ascending tids",
	"the maximum key", "extreme keys",
	"runs of keys",    "few keys, ascending tids, mostly of the first",
};

static void
test_leaf_pattern(int bits, int tid_bytes, Pattern pattern)
{
	Leaf *leaf = leaf_create(bits, tid_bytes);
	int i = 0;

	leaf_verify(leaf);
	for (int round = 0; round < 40 && !failed(); round++)
	{
		int inserts = rnd_below(3) == 0 ? 2 * ht_leaf_capacity(leaf->shape) : rnd_below(200);
		int log_every = 1 + rnd_below(rnd_below(2) ? 3 : 300);

		while (inserts-- > 0 && !failed())
		{
			HtEntry entry = pattern_entry(pattern, leaf->shape, i++);

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
			leaf_fill(leaf, rnd_below(leaf->n + 1));
		else
			leaf_remove_some(leaf);
		leaf_verify(leaf);
		if (rnd_below(2) == 0)
			leaf_log(leaf);
	}
	leaf_free(leaf);
	report("%d-bit leaf, %d-byte tids: %s", bits, tid_bytes, pattern_names[pattern]);
}

/* Entry number n of a series that ascends with n: by keys, or by tids if there is one key. */
static HtEntry
series_entry(HtLeafShape shape, int n)
{
	if (shape.bits == 0)
		return make_entry(shape.base, ascending_tid(n));
	return make_entry(shape.base + (uint64_t) n, rnd_tid_of(shape.tid_bytes));
}

/*
 * Ascending insertions fill a page, whatever it held before, and log little.
 * Descending ones log not much more.
 */
static void
test_leaf_in_order(int bits, int tid_bytes)
{
	int capacity = ht_leaf_capacity(ht_leaf_shape(bits, tid_bytes, 0));

	for (int percent = 0; percent < 100; percent += 10)
		for (int descending = 0; descending < 2; descending++)
		{
			Leaf *leaf = leaf_create(bits, tid_bytes);
			uint64_t last = leaf->shape.base + ht_class_max(bits);
			int start = capacity * percent / 100;
			double average;

			for (int i = 0; i < start; i++)
				leaf->model[i] = series_entry(leaf->shape, 20000 + i);
			leaf->n = start;
			ht_leaf_fill(leaf->page, leaf->shape, leaf->model, start);
			memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);

			for (int i = 0; i < capacity - start; i++)
			{
				HtEntry entry =
					series_entry(leaf->shape, descending ? 19999 - 5 * i : 30000 + 5 * i);

				expect(leaf_insert(leaf, entry) == HT_INSERTED, "page is full at %d", leaf->n);
				leaf_log(leaf);
			}
			leaf_verify(leaf);
			expect(leaf_insert(leaf, make_entry(last, 1)) == HT_FULL, "page is not full");
			average = (double) leaf->bytes / (capacity - start);
			expect(average < (percent == 0 && !descending ? 30 : 300),
				   "%.0f bytes changed per insert", average);
			leaf_free(leaf);
		}
	report("%d-bit leaf, %d-byte tids: pages filled in order", bits, tid_bytes);
}

/*
 * An entry that comes late to a page that fills in order, and others after it, change blocks at the
 * end of the page alone.
 */
static void
test_leaf_late(int bits, int tid_bytes)
{
	Leaf *leaf = leaf_create(bits, tid_bytes);
	int slots = ht_leaf_slots(leaf->shape);
	int count = slots * (ht_leaf_blocks(leaf->shape) * 2 / 3);
	int late = count - 6 * slots;

	for (int i = 0; i < count; i++)
		expect(leaf_insert(leaf, series_entry(leaf->shape, 10 * i)) == HT_INSERTED,
			   "page is full at %d", leaf->n);
	leaf_log(leaf);
	leaf->bytes = 0;
	for (int i = 1; i < 10; i++)
	{
		expect(leaf_insert(leaf, series_entry(leaf->shape, 10 * late + i)) == HT_INSERTED,
			   "page is full at %d", leaf->n);
		leaf_log(leaf);
	}
	leaf_verify(leaf);
	expect(leaf->bytes < HT_PAGE_SIZE / 4, "%ld bytes changed", (long) leaf->bytes);
	leaf_free(leaf);
	report("%d-bit leaf, %d-byte tids: late entries of a page filled in order", bits, tid_bytes);
}

/*
 * Entries that come behind those of the page's first key, while another key follows, push others
 * until one of them makes room for all that come after it.
 */
static void
test_leaf_first_key(int bits, int tid_bytes)
{
	Leaf *leaf = leaf_create(bits, tid_bytes);
	int count = ht_leaf_capacity(leaf->shape) * 7 / 8;
	int first = count / 4;
	int inserted = 0;

	for (int i = 0; i < count; i++)
		leaf->model[i] = make_entry(leaf->shape.base + (i < first ? 1 : 3), ascending_tid(i));
	leaf_fill(leaf, count);
	leaf->bytes = 0;
	while (leaf_insert(leaf, make_entry(leaf->shape.base + 1, ascending_tid(first + inserted))) ==
		   HT_INSERTED)
	{
		leaf_log(leaf);
		inserted++;
	}
	leaf_verify(leaf);
	expect(inserted == ht_leaf_capacity(leaf->shape) - count, "page is full at %d", leaf->n);
	expect(leaf->bytes < HT_PAGE_SIZE * 3 / 2 + 40 * (size_t) inserted,
		   "%ld bytes changed by %d entries", (long) leaf->bytes, inserted);
	leaf_free(leaf);
	report("%d-bit leaf, %d-byte tids: entries behind the first of two keys", bits, tid_bytes);
}

/* Fill with any number of entries: the counts of blocks differ by at most one. */
static void
test_leaf_fill(int bits, int tid_bytes)
{
	int capacity = ht_leaf_capacity(ht_leaf_shape(bits, tid_bytes, 0));

	for (int n = 0; n <= capacity && !failed(); n++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		uint64_t base = leaf->shape.base;
		uint64_t max = ht_class_max(bits);
		int least = ht_leaf_slots(leaf->shape);
		int most = 0;

		for (int i = 0; i < n; i++)
			leaf->model[i] =
				make_entry(base + ((n % 2 ? rnd() : (uint64_t) i / 20) & max), ascending_tid(i));
		qsort(leaf->model, n, sizeof(HtEntry), compare_entries);
		leaf->n = n;
		if (n % 3 == 0)
			memset(leaf->page + HT_PAGE_START, 0, HT_PAGE_END - HT_PAGE_START);
		else
		{
			/* Free slots can hold anything. */
			memset(leaf->page + ht_leaf_blocks_at(leaf->shape), 0x55,
				   (size_t) (HT_PAGE_END - ht_leaf_blocks_at(leaf->shape)));
			for (int b = 0; b < ht_leaf_blocks(leaf->shape); b++)
				leaf_block(leaf, b)[HT_LEAF_BLOCK_COUNT_AT] = 0;
			for (int i = rnd_below(capacity); i > 0; i--)
				ht_leaf_insert(leaf->page, make_entry(base + (rnd() & max), rnd_tid_of(tid_bytes)),
							   &leaf->change);
		}
		ht_leaf_fill(leaf->page, leaf->shape, leaf->model, n);
		leaf_paint_hole(leaf);
		leaf_verify(leaf);
		for (int b = 0; b < ht_leaf_blocks(leaf->shape); b++)
		{
			int count = leaf_block(leaf, b)[HT_LEAF_BLOCK_COUNT_AT];

			least = count < least ? count : least;
			most = count > most ? count : most;
		}
		expect(most - least <= 1, "%d entries: blocks of %d and of %d", n, least, most);
		leaf_free(leaf);
	}
	report("%d-bit leaf, %d-byte tids: fill", bits, tid_bytes);
}

/* A separator of the page, as a key. */
static uint64_t
leaf_separator(const Leaf *leaf, int i)
{
	uint64_t key = 0;

	memcpy(&key, leaf->page + HT_LEAF_SEPARATORS_AT + i * leaf->shape.bits / 8,
		   leaf->shape.bits / 8);
	return leaf->shape.base + key;
}

/* Ranges are right even if blocks outside of the range seem to have its keys. */
static void
test_leaf_range_blocks(int bits, int tid_bytes)
{
	for (int round = 0; round < rnd_rounds(200) && !failed(); round++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		int last = ht_leaf_blocks(leaf->shape) - 1;
		uint64_t low;
		uint64_t high;

		for (int i = 0; i < 400; i++)
			leaf_insert(leaf, pattern_entry(round % 2 ? RANDOM_KEYS : RUNS, leaf->shape, i));
		do
			low = leaf_probe(leaf);
		while (!ht_leaf_fits_key(leaf->shape, low));
		high = round % 3 ? low + rnd() % 50 : leaf_probe(leaf);

		for (int b = 0; b <= last; b++)
			if ((b > 0 && leaf_separator(leaf, b - 1) > high) ||
				(b < last && leaf_separator(leaf, b) < low))
			{
				uint64_t stored = low - leaf->shape.base;

				memcpy(leaf_block(leaf, b), &stored, bits / 8);
				leaf_block(leaf, b)[HT_LEAF_BLOCK_COUNT_AT] = 1;
			}
		leaf_expect_range(leaf, low, high);
		leaf_free(leaf);
	}
	report("%d-bit leaf, %d-byte tids: ranges read no more blocks than needed", bits, tid_bytes);
}

/* What just fits a leaf is stored; what just does not fit is refused. */
static void
test_leaf_limits(int bits, int tid_bytes)
{
	for (int round = 0; round < 20 && !failed(); round++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		uint64_t base = leaf->shape.base;
		uint64_t last = base + ht_class_max(bits);
		uint64_t max_block =
			tid_bytes == HT_TID_BYTES ? UINT32_MAX : (UINT64_C(1) << (8 * tid_bytes - 9)) - 1;
		uint64_t max_offset = tid_bytes == HT_TID_BYTES ? UINT16_MAX : 511;
		uint64_t tids[] = {1, max_offset, max_block << 16 | 1, max_block << 16 | max_offset};

		for (int i = 0; i < 4; i++)
		{
			expect(leaf_insert(leaf, make_entry(base, tids[i])) == HT_INSERTED,
				   "the base does not fit");
			expect(leaf_insert(leaf, make_entry(last, tids[i])) ==
					   (last == base ? HT_PRESENT : HT_INSERTED),
				   "the greatest key does not fit");
		}
		if (base > 0)
			expect(leaf_insert(leaf, make_entry(base - 1, 1)) == HT_NO_FIT,
				   "a key below the base fits");
		if (last < UINT64_MAX)
			expect(leaf_insert(leaf, make_entry(last + 1, 1)) == HT_NO_FIT,
				   "a key beyond the class fits");
		if (tid_bytes < HT_TID_BYTES)
		{
			expect(leaf_insert(leaf, make_entry(base, (max_block + 1) << 16 | 1)) == HT_NO_FIT,
				   "a block beyond the width fits");
			expect(leaf_insert(leaf, make_entry(base, 512)) == HT_NO_FIT, "an offset of 512 fits");
		}
		leaf_verify(leaf);
		leaf_log(leaf);
		leaf_free(leaf);
	}
	expect(ht_class_for(0) == 0 && ht_class_for(1) == 16 && ht_class_for(65535) == 16 &&
			   ht_class_for(65536) == 32 && ht_class_for(UINT32_MAX) == 32 &&
			   ht_class_for(UINT64_C(1) << 32) == 64 && ht_class_for(UINT64_MAX) == 64,
		   "a class is not the narrowest");
	report("%d-bit leaf, %d-byte tids: limits", bits, tid_bytes);
}

/* A page can be filled again with another shape; nothing of the former one shows. */
static void
test_leaf_reshape(int bits, int tid_bytes)
{
	for (int round = 0; round < 50 && !failed(); round++)
	{
		Leaf *leaf = leaf_create((8 << rnd_below(4)) & ~8, 4 + rnd_below(3));

		for (int i = rnd_below(1500); i > 0; i--)
			leaf_insert(leaf, pattern_entry(RANDOM_KEYS, leaf->shape, i));
		leaf->shape = random_shape(bits, tid_bytes);
		leaf->n = rnd_below(ht_leaf_capacity(leaf->shape) + 1);
		for (int i = 0; i < leaf->n; i++)
			leaf->model[i] = pattern_entry(RANDOM_KEYS, leaf->shape, i);
		qsort(leaf->model, (size_t) leaf->n, sizeof(HtEntry), compare_entries);
		for (int i = 1; i < leaf->n; i++)
			if (ht_entry_cmp(leaf->model[i - 1], leaf->model[i]) == 0)
				leaf->n = i;
		ht_leaf_fill(leaf->page, leaf->shape, leaf->model, leaf->n);
		leaf_paint_hole(leaf);
		memset(leaf->page + HT_PAGE_END, leaf->page[0], HT_PAGE_SIZE - HT_PAGE_END);
		leaf_verify(leaf);
		leaf_free(leaf);
	}
	report("%d-bit leaf, %d-byte tids: filled again from another shape", bits, tid_bytes);
}

void
test_leaf(int bits, int tid_bytes)
{
	for (int pattern = 0; pattern < N_PATTERNS; pattern++)
		test_leaf_pattern(bits, tid_bytes, (Pattern) pattern);
	test_leaf_in_order(bits, tid_bytes);
	test_leaf_fill(bits, tid_bytes);
	if (bits > 0)
	{
		test_leaf_late(bits, tid_bytes);
		test_leaf_first_key(bits, tid_bytes);
		test_leaf_range_blocks(bits, tid_bytes);
	}
	test_leaf_limits(bits, tid_bytes);
	test_leaf_reshape(bits, tid_bytes);
}
