/*
 * test_leaf_damage.c
 *		Damaged leaf pages: check notices, and nothing worse happens.
 */
#include "leaf_model.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

/* Damage a page: all bytes, all before the blocks, counts, or the order of blocks. */
static void
leaf_damage(Leaf *leaf, int kind)
{
	int blocks = ht_leaf_blocks(leaf->shape);
	int blocks_at = ht_leaf_blocks_at(leaf->shape);

	if (kind == 0)
		for (int i = HT_PAGE_START; i < HT_PAGE_END; i++)
			leaf->page[i] = (char) rnd();
	if (kind == 1)
		for (int i = HT_PAGE_START; i < blocks_at; i++)
			leaf->page[i] = (char) rnd();
	if (kind == 2)
		for (int i = 0; i < 10; i++)
			leaf_block(leaf, rnd_below(blocks))[HT_LEAF_BLOCK_COUNT_AT] = (uint8_t) rnd();
	if (kind > 2)
		for (int i = kind == 3 ? 2 : blocks; i > 0; i--)
		{
			uint8_t swapped[HT_LEAF_BLOCK_SIZE];
			uint8_t *a = leaf_block(leaf, rnd_below(blocks));
			uint8_t *b = leaf_block(leaf, rnd_below(blocks));

			memcpy(swapped, a, HT_LEAF_BLOCK_SIZE);
			memmove(a, b, HT_LEAF_BLOCK_SIZE);
			memcpy(b, swapped, HT_LEAF_BLOCK_SIZE);
		}
}

/*
 * Whatever bytes a page has: nothing outside of it is written, nothing beyond is read
 * (the sanitizer notices), every operation ends, and check reports damage or the page
 * is in order.
 */
static void
test_leaf_damaged(int bits, int tid_bytes)
{
	int capacity = HT_LEAF_MAX_ENTRIES; /* the shape may be damaged, too */

	for (int round = 0; round < rnd_rounds(2000) && !failed(); round++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		HtEntry *out = allocate(capacity * sizeof(HtEntry));
		bool *dead = allocate(capacity);
		bool sound;
		int n = rnd_below(capacity + 1);
		int count;

		if (rnd_below(2))
			for (int i = 0; i < n; i++)
				leaf_insert(leaf, pattern_entry((Pattern) (round % N_PATTERNS), leaf->shape, i));
		else
		{
			/* The first blocks are full, the others empty. */
			n -= n % ht_leaf_slots(leaf->shape);
			for (int i = 0; i < n; i++)
				leaf_insert(leaf, pattern_entry(ASCENDING, leaf->shape, i));
		}
		leaf_damage(leaf, rnd_below(5));

		sound = ht_leaf_check(leaf->page) == NULL;
		count = ht_leaf_count(leaf->page);
		expect(count >= 0 && count <= capacity, "count of %d entries", count);
		expect(ht_leaf_read(leaf->page, out) == count, "read other than the count");
		for (int i = 1; i < count && sound; i++)
			expect(ht_entry_cmp(out[i - 1], out[i]) < 0, "a sound page, but out of order");
		for (int i = 0; i < 10; i++)
		{
			uint64_t low = leaf_probe(leaf);
			uint64_t high = leaf_probe(leaf);

			n = ht_leaf_read_range(leaf->page, low, high, out);
			expect(n >= 0 && n <= count, "%d entries of %d in a range", n, count);
			for (int j = 0; j < n; j++)
				expect(out[j].key >= low && out[j].key <= high, "a key outside of the range");
		}

		for (int i = 0; i < 100; i++)
		{
			HtEntry entry = {leaf_probe(leaf), rnd_tid_of(tid_bytes)};

			ht_leaf_insert(leaf->page, entry, &leaf->change);
		}
		for (int i = 0; i < capacity; i++)
			dead[i] = rnd_below(2);
		ht_leaf_remove(leaf->page, dead, &leaf->change);
		expect(ht_leaf_read(leaf->page, out) <= capacity, "too many entries");
		leaf_paint_hole(leaf);
		leaf_expect_foreign(leaf);

		free(out);
		free(dead);
		leaf_free(leaf);
	}
	report("%d-bit leaf, %d-byte tids: damaged pages", bits, tid_bytes);
}

static void
expect_corrupt(const Leaf *leaf, const char *saved, const char *what)
{
	expect(ht_leaf_check(leaf->page) != NULL, "not noticed: %s", what);
	memcpy(leaf->page, saved, HT_PAGE_SIZE);
	expect(ht_leaf_check(leaf->page) == NULL, "page is not sound again");
}

/* The same for a leaf of class 0, which has neither keys nor separators. */
static void
test_single_check(int tid_bytes)
{
	Leaf *leaf = leaf_create(0, tid_bytes);
	char saved[HT_PAGE_SIZE];
	int n = ht_leaf_capacity(leaf->shape) / 2;

	for (int i = 0; i < n; i++)
		leaf->model[i] = make_entry(leaf->shape.base, (uint64_t) (i + 1) << 16 | 1);
	ht_leaf_fill(leaf->page, leaf->shape, leaf->model, n);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);

	for (int b = 0; b < ht_leaf_blocks(leaf->shape); b++)
	{
		uint8_t *block = leaf_block(leaf, b);

		block[HT_LEAF_BLOCK_COUNT_AT] = (uint8_t) (ht_leaf_slots(leaf->shape) + 1);
		expect_corrupt(leaf, saved, "count above the number of slots");
		memcpy(block, block + tid_bytes, (size_t) tid_bytes);
		expect_corrupt(leaf, saved, "an entry twice");
		if (b > 0)
		{
			memset(block, 0, (size_t) tid_bytes);
			expect_corrupt(leaf, saved, "tids out of order between blocks");
		}
	}
	for (int i = HT_LEAF_CLASS_AT; i < HT_LEAF_BASE_AT; i++)
	{
		leaf->page[i] = 7;
		expect_corrupt(leaf, saved, "a shape that there is not");
	}
	leaf_free(leaf);
	report("0-bit leaf, %d-byte tids: check finds corruption", tid_bytes);
}

static void
test_leaf_check(int bits, int tid_bytes)
{
	Leaf *leaf = leaf_create(bits, tid_bytes);
	int width = bits / 8;
	char saved[HT_PAGE_SIZE];
	int n = ht_leaf_capacity(leaf->shape) / 2;
	int slots = ht_leaf_slots(leaf->shape);
	int step = bits == 16 ? 40 : 1000;
	char *separators = leaf->page + HT_LEAF_SEPARATORS_AT;
	char *pivots = leaf->page + HT_LEAF_PIVOTS_AT(bits);

	for (int i = 0; i < n; i++)
		leaf->model[i] =
			make_entry(leaf->shape.base + (uint64_t) (i + 1) * step, (uint64_t) i << 16 | 1);
	ht_leaf_fill(leaf->page, leaf->shape, leaf->model, n);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);

	for (int b = 0; b < ht_leaf_blocks(leaf->shape); b++)
	{
		uint8_t *block = leaf_block(leaf, b);
		uint8_t *tids = block + slots * width;

		block[HT_LEAF_BLOCK_COUNT_AT] = (uint8_t) (slots + 1);
		expect_corrupt(leaf, saved, "count above the number of slots");
		if (b > 0)
		{
			uint8_t *last = leaf_block(leaf, b - 1);
			int slot = last[HT_LEAF_BLOCK_COUNT_AT] - 1;

			/* One key on both sides of the separator, TIDs in the wrong order. */
			memcpy(block, separators + (b - 1) * width, width);
			memcpy(last + slot * width, separators + (b - 1) * width, width);
			if (ht_leaf_check(leaf->page) != NULL)
				expect(false, "a key on both sides of a separator is sound");
			memset(tids, 0, tid_bytes);
			expect_corrupt(leaf, saved, "tids of one key out of order between blocks");
		}
		memcpy(block, block + width, width);
		memcpy(tids, tids + tid_bytes, tid_bytes);
		expect_corrupt(leaf, saved, "an entry twice");
		memset(block, 0, width);
		if (b > 0)
			expect_corrupt(leaf, saved, "key below the separator before it");
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
		memset(block + (block[HT_LEAF_BLOCK_COUNT_AT] - 1) * width, 0xFF, width);
		if (b < ht_leaf_blocks(leaf->shape) - 1)
			expect_corrupt(leaf, saved, "key above the separator behind it");
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
	}

	for (int i = 0; i < 64; i++)
	{
		memset(separators + i * width, 0, width);
		expect_corrupt(leaf, saved, "separator too low");
		if (i >= ht_leaf_blocks(leaf->shape) - 1)
			continue;
		memset(separators + i * width, 0xFF, width);
		expect_corrupt(leaf, saved, "separator too high");
	}

	for (int i = 0; i < HT_LEAF_MAX_SEPARATORS * width / HT_LEAF_LINE_SIZE - 1; i++)
	{
		pivots[i * width] ^= 1;
		expect_corrupt(leaf, saved, "pivot that differs from its separator");
	}

	for (int i = HT_LEAF_CLASS_AT; i < HT_LEAF_BASE_AT; i++)
	{
		leaf->page[i] = 7;
		expect_corrupt(leaf, saved, "a shape that there is not");
	}
	if (bits < 64)
	{
		memset(leaf->page + HT_LEAF_BASE_AT, 0xFF, 8);
		expect_corrupt(leaf, saved, "a base too high for the keys");
	}

	/* Blocks without entries: only the separators are wrong. */
	ht_leaf_init(leaf->page, leaf->shape);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);
	memset(separators, 0, width);
	expect_corrupt(leaf, saved, "separator that should be unused");
	ht_leaf_insert(leaf->page, make_entry(leaf->shape.base + 9, 9), &leaf->change);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);
	memset(separators + 10 * width, 0x7F, width);
	expect_corrupt(leaf, saved, "separators out of order");

	leaf_free(leaf);
	report("%d-bit leaf, %d-byte tids: check finds corruption", bits, tid_bytes);
}

void
test_leaf_damage(int bits, int tid_bytes)
{
	if (bits == 0)
		test_single_check(tid_bytes);
	else
		test_leaf_check(bits, tid_bytes);
	test_leaf_damaged(bits, tid_bytes);
}
