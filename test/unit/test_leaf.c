/*
 * test_leaf.c
 *		Leaf pages, compared with a sorted array.
 */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

/* A page under test, what it should hold, and what it was at the last log. */
typedef struct Leaf
{
	HtWidth		width;
	char	   *allocation;
	char	   *page;			/* aligned to 8 bytes, not to 16 */
	char	   *logged;
	HtLeafChange change;
	HtEntry		model[HT_LEAF_MAX_ENTRIES];
	int			n;
	size_t		bytes;			/* logged so far */
} Leaf;

static const unsigned char foreign = 0xA5;	/* bytes that are not the engine's */

static Leaf *
leaf_create(HtWidth width)
{
	Leaf	   *leaf = allocate(sizeof(Leaf));

	memset(leaf, 0, sizeof(*leaf));
	leaf->width = width;
	leaf->allocation = allocate(HT_PAGE_SIZE + 8);
	leaf->page = leaf->allocation + 8;
	leaf->logged = allocate(HT_PAGE_SIZE);
	memset(leaf->page, foreign, HT_PAGE_SIZE);
	ht_leaf_init(leaf->page, width);
	memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
	return leaf;
}

static void
leaf_free(Leaf *leaf)
{
	free(leaf->allocation);
	free(leaf->logged);
	free(leaf);
}

/* Bring the logged page up to date by the byte ranges alone; must be equal. */
static void
leaf_log(Leaf *leaf)
{
	HtByteRange ranges[HT_LEAF_MAX_RANGES + 1];
	int			end = HT_PAGE_START - 8;
	int			n;

	memset(ranges, 0, sizeof(ranges));
	n = ht_leaf_change_ranges(leaf->page, leaf->width, &leaf->change, ranges);
	expect(n >= 0 && n <= HT_LEAF_MAX_RANGES, "%d ranges", n);
	expect(ranges[HT_LEAF_MAX_RANGES].length == 0, "wrote beyond the last range");
	for (int i = 0; i < n && !failed(); i++)
	{
		expect(ranges[i].length > 0 && ranges[i].offset > end + 4 &&
			   ranges[i].offset + ranges[i].length <= HT_PAGE_END,
			   "range %d is %d+%d after %d", i, ranges[i].offset, ranges[i].length, end);
		end = ranges[i].offset + ranges[i].length;
		memcpy(leaf->logged + ranges[i].offset, leaf->page + ranges[i].offset,
			   ranges[i].length);
		leaf->bytes += ranges[i].length + sizeof(HtByteRange);
	}
	for (int i = 0; i < HT_PAGE_SIZE; i++)
		if (leaf->logged[i] != leaf->page[i])
		{
			expect(false, "byte %d changed unnoticed", i);
			break;
		}
	memset(&leaf->change, 0, sizeof(leaf->change));
}

static int
leaf_position(const Leaf *leaf, HtEntry entry)
{
	int			i = 0;

	while (i < leaf->n && ht_entry_cmp(leaf->model[i], entry) < 0)
		i++;
	return i;
}

static void
leaf_expect_range(const Leaf *leaf, uint64_t low, uint64_t high)
{
	HtEntry		out[HT_LEAF_MAX_ENTRIES];
	int			n = ht_leaf_read_range(leaf->page, leaf->width, low, high, out);
	int			expected = 0;

	for (int i = 0; i < leaf->n; i++)
	{
		if (leaf->model[i].key < low || leaf->model[i].key > high)
			continue;
		if (expected < n)
			expect(ht_entry_cmp(out[expected], leaf->model[i]) == 0,
				   "entry %d of range %llx..%llx is wrong", expected,
				   (unsigned long long) low, (unsigned long long) high);
		expected++;
	}
	expect(n == expected, "%d of %d entries in range %llx..%llx", n, expected,
		   (unsigned long long) low, (unsigned long long) high);
}

/* A key worth searching for: random, on the page, or next to one that is. */
static uint64_t
leaf_probe(const Leaf *leaf)
{
	uint64_t	max = ht_key_max(leaf->width);

	switch (rnd_below(leaf->n > 0 ? 4 : 2))
	{
		case 0:
			return rnd() & max;
		case 1:
			return rnd_below(2) ? max : 0;
		default:
			return (leaf->model[rnd_below(leaf->n)].key + rnd_below(3) - 1) & max;
	}
}

/* Compare the page with the model in every way there is. */
static void
leaf_verify(const Leaf *leaf)
{
	HtEntry		out[HT_LEAF_MAX_ENTRIES];
	const char *complaint = ht_leaf_check(leaf->page, leaf->width);
	int			n = ht_leaf_read(leaf->page, leaf->width, out);

	expect(complaint == NULL, "%s", complaint ? complaint : "");
	expect(ht_leaf_count(leaf->page, leaf->width) == leaf->n, "count is wrong");
	expect(n == leaf->n, "read %d of %d entries", n, leaf->n);
	if (n == leaf->n)
		for (int i = 0; i < n; i++)
			expect(ht_entry_cmp(out[i], leaf->model[i]) == 0, "entry %d is wrong", i);

	leaf_expect_range(leaf, 0, UINT64_MAX);
	for (int i = 0; i < 4; i++)
	{
		uint64_t	key = leaf_probe(leaf);

		leaf_expect_range(leaf, key, key);
		leaf_expect_range(leaf, key, leaf_probe(leaf));
	}

	for (int i = 0; i < HT_PAGE_SIZE; i++)
		if (i < HT_PAGE_START || i >= HT_PAGE_END)
			expect((unsigned char) leaf->page[i] == foreign, "byte %d is not the engine's", i);
}

static HtInsertResult
leaf_insert(Leaf *leaf, HtEntry entry)
{
	int			at = leaf_position(leaf, entry);
	HtInsertResult expected = HT_INSERTED;
	HtInsertResult result;

	if (at < leaf->n && ht_entry_cmp(leaf->model[at], entry) == 0)
		expected = HT_PRESENT;
	else if (leaf->n == ht_leaf_capacity(leaf->width))
		expected = HT_FULL;

	result = ht_leaf_insert(leaf->page, leaf->width, entry, &leaf->change);
	expect(result == expected, "insert gave %d, not %d", result, expected);
	if (expected != HT_INSERTED)
		return expected;

	memmove(&leaf->model[at + 1], &leaf->model[at], (leaf->n - at) * sizeof(HtEntry));
	leaf->model[at] = entry;
	leaf->n++;
	return expected;
}

static void
leaf_remove(Leaf *leaf, const bool *dead)
{
	int			n = 0;

	ht_leaf_remove(leaf->page, leaf->width, dead, &leaf->change);
	for (int i = 0; i < leaf->n; i++)
		if (!dead[i])
			leaf->model[n++] = leaf->model[i];
	leaf->n = n;
}

/* Remove a random part, a random run, or everything. */
static void
leaf_remove_some(Leaf *leaf)
{
	bool		dead[HT_LEAF_MAX_ENTRIES];
	int			percent = (const int[]) {1, 10, 50, 90, 99}[rnd_below(5)];
	int			kind = rnd_below(5);
	int			start = rnd_below(leaf->n + 1);
	int			end = kind == 0 ? leaf->n : start + rnd_below(leaf->n - start + 1);

	for (int i = 0; i < leaf->n; i++)
	{
		if (kind < 2)
			dead[i] = i >= start && i < end;
		else if (kind == 2 && percent == 99)
			dead[i] = true;
		else
			dead[i] = rnd_below(100) < percent;
	}
	leaf_remove(leaf, dead);
}

/* Replace the content by some of the model's entries, spread anew. */
static void
leaf_refill(Leaf *leaf)
{
	leaf->n = rnd_below(leaf->n + 1);
	ht_leaf_fill(leaf->page, leaf->width, leaf->model, leaf->n);
	memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
	memset(&leaf->change, 0, sizeof(leaf->change));
}

typedef enum Pattern
{
	RANDOM_KEYS,
	ASCENDING,
	DESCENDING,
	NARROW,						/* keys and tids so few that some repeat */
	ONE_KEY,
	ONE_KEY_ASCENDING,
	MAX_KEY,
	EXTREMES,					/* 0, 1, max - 1, max */
	RUNS,						/* ascending from places that change */
	N_PATTERNS
} Pattern;

static const char *const pattern_names[N_PATTERNS] = {
	"random keys", "ascending keys", "descending keys", "few keys and tids", "one key",
	"one key, ascending tids", "the maximum key", "extreme keys", "runs of keys",
};

/* The i-th entry of a pattern. */
static HtEntry
pattern_entry(Pattern pattern, HtWidth width, int i)
{
	static uint64_t run = 0;
	uint64_t	max = ht_key_max(width);
	HtEntry		entry = {rnd() & max, rnd_tid()};

	switch (pattern)
	{
		case ASCENDING:
			entry.key = (uint64_t) i * 3;
			break;
		case DESCENDING:
			entry.key = max - (uint64_t) i * 3;
			break;
		case NARROW:
			entry.key = rnd_below(40);
			entry.tid = 1 + rnd_below(40);
			break;
		case ONE_KEY:
			entry.key = 42;
			break;
		case ONE_KEY_ASCENDING:
			entry.key = 42;
			entry.tid = 1 + i;
			break;
		case MAX_KEY:
			entry.key = max;
			break;
		case EXTREMES:
			entry.key = (const uint64_t[]) {0, 1, max - 1, max}[rnd_below(4)];
			break;
		case RUNS:
			if (rnd_below(30) == 0)
				run = rnd_below(1000);
			entry.key = run += rnd_below(2);
			break;
		default:
			break;
	}
	return entry;
}

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
 * Ascending inserts fill a page whatever it held before, and changes stay
 * small.  Descending ones are not far behind.
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

static uint8_t *
leaf_block(const Leaf *leaf, int block)
{
	return (uint8_t *) leaf->page + ht_leaf_blocks_at(leaf->width) +
		block * HT_LEAF_BLOCK_SIZE;
}

/* Fill with any number of entries; blocks differ by at most one. */
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
			/* A leaf whose free slots hold anything. */
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

/* Ranges are read right even if blocks that cannot hold them seem to. */
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

/* Bounds above the width of keys are bounds all the same. */
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

/* Damage that a page can have: anything, or blocks in another order, or counts. */
static void
leaf_damage(Leaf *leaf, int kind)
{
	int			blocks = ht_leaf_blocks(leaf->width);
	int			blocks_at = ht_leaf_blocks_at(leaf->width);

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
			uint8_t		swapped[HT_LEAF_BLOCK_SIZE];
			uint8_t    *a = leaf_block(leaf, rnd_below(blocks));
			uint8_t    *b = leaf_block(leaf, rnd_below(blocks));

			memcpy(swapped, a, HT_LEAF_BLOCK_SIZE);
			memmove(a, b, HT_LEAF_BLOCK_SIZE);
			memcpy(b, swapped, HT_LEAF_BLOCK_SIZE);
		}
}

/*
 * Whatever a page holds, nothing else is written, nothing beyond is read (the
 * sanitizer sees it), every operation ends, and check says something is wrong
 * or the page is as good as any.
 */
static void
test_leaf_damaged(HtWidth width)
{
	int			capacity = ht_leaf_capacity(width);

	for (int round = 0; round < 2000 && !failed(); round++)
	{
		Leaf	   *leaf = leaf_create(width);
		HtEntry    *out = allocate(capacity * sizeof(HtEntry));
		bool	   *dead = allocate(capacity);
		bool		sound;
		int			n = rnd_below(capacity + 1);
		int			count;

		if (rnd_below(2))
			for (int i = 0; i < n; i++)
				leaf_insert(leaf, pattern_entry((Pattern) (round % N_PATTERNS), width, i));
		else
		{
			/* The blocks in front full, those behind empty. */
			n -= n % ht_leaf_slots(width);
			for (int i = 0; i < n; i++)
				leaf_insert(leaf, pattern_entry(ASCENDING, width, i));
		}
		leaf_damage(leaf, rnd_below(5));

		sound = ht_leaf_check(leaf->page, width) == NULL;
		count = ht_leaf_count(leaf->page, width);
		expect(count >= 0 && count <= capacity, "count of %d entries", count);
		expect(ht_leaf_read(leaf->page, width, out) == count, "read other than the count");
		for (int i = 1; i < count && sound; i++)
			expect(ht_entry_cmp(out[i - 1], out[i]) < 0, "a sound page, but out of order");
		for (int i = 0; i < 10; i++)
		{
			uint64_t	low = leaf_probe(leaf);
			uint64_t	high = leaf_probe(leaf);

			n = ht_leaf_read_range(leaf->page, width, low, high, out);
			expect(n >= 0 && n <= count, "%d entries of %d in a range", n, count);
			for (int j = 0; j < n; j++)
				expect(out[j].key >= low && out[j].key <= high, "a key outside of the range");
		}

		for (int i = 0; i < 100; i++)
		{
			HtEntry		entry = {leaf_probe(leaf), rnd_tid()};

			ht_leaf_insert(leaf->page, width, entry, &leaf->change);
		}
		for (int i = 0; i < capacity; i++)
			dead[i] = rnd_below(2);
		ht_leaf_remove(leaf->page, width, dead, &leaf->change);
		expect(ht_leaf_read(leaf->page, width, out) <= capacity, "too many entries");
		for (int i = 0; i < HT_PAGE_SIZE; i++)
			if (i < HT_PAGE_START || i >= HT_PAGE_END)
				expect((unsigned char) leaf->page[i] == foreign, "byte %d is not the engine's", i);

		free(out);
		free(dead);
		leaf_free(leaf);
	}
	report("%d-bit leaf: damaged pages", width_bits(width));
}

static void
expect_corrupt(const Leaf *leaf, const char *saved, const char *what)
{
	expect(ht_leaf_check(leaf->page, leaf->width) != NULL, "not noticed: %s", what);
	memcpy(leaf->page, saved, HT_PAGE_SIZE);
	expect(ht_leaf_check(leaf->page, leaf->width) == NULL, "page is not sound again");
}

static void
test_leaf_check(HtWidth width)
{
	Leaf	   *leaf = leaf_create(width);
	char		saved[HT_PAGE_SIZE];
	int			n = ht_leaf_capacity(width) / 2;
	int			slots = ht_leaf_slots(width);
	char	   *separators = leaf->page + HT_LEAF_SEPARATORS_AT;
	char	   *pivots = leaf->page + HT_PAGE_START;

	for (int i = 0; i < n; i++)
		leaf->model[i] = make_entry(1000 + (uint64_t) i * 1000, 1 + i);
	ht_leaf_fill(leaf->page, width, leaf->model, n);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);

	for (int b = 0; b < ht_leaf_blocks(width); b++)
	{
		uint8_t    *block = leaf_block(leaf, b);
		uint8_t    *tids = block + slots * width;

		block[HT_LEAF_BLOCK_COUNT_AT] = (uint8_t) (slots + 1);
		expect_corrupt(leaf, saved, "count above the number of slots");
		if (b > 0)
		{
			uint8_t    *last = leaf_block(leaf, b - 1);
			int			slot = last[HT_LEAF_BLOCK_COUNT_AT] - 1;

			/* One key on both sides of the separator, tids the wrong way round. */
			memcpy(block, separators + (b - 1) * width, width);
			memcpy(last + slot * width, separators + (b - 1) * width, width);
			if (ht_leaf_check(leaf->page, width) != NULL)
				expect(false, "a key on both sides of a separator is sound");
			memset(tids, 0, HT_TID_BYTES);
			expect_corrupt(leaf, saved, "tids of one key out of order between blocks");
		}
		memcpy(block, block + width, width);
		memcpy(tids, tids + HT_TID_BYTES, HT_TID_BYTES);
		expect_corrupt(leaf, saved, "an entry twice");
		memset(block, 0, width);
		if (b > 0)
			expect_corrupt(leaf, saved, "key below the separator before it");
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
		memset(block + (block[HT_LEAF_BLOCK_COUNT_AT] - 1) * width, 0xFF, width);
		if (b < ht_leaf_blocks(width) - 1)
			expect_corrupt(leaf, saved, "key above the separator behind it");
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
	}

	for (int i = 0; i < 64; i++)
	{
		memset(separators + i * width, 0, width);
		expect_corrupt(leaf, saved, "separator too low");
		if (i >= ht_leaf_blocks(width) - 1)
			continue;
		memset(separators + i * width, 0xFF, width);
		expect_corrupt(leaf, saved, "separator too high");
	}

	for (int i = 0; i < 64 / (int) width; i++)
	{
		pivots[i * width] ^= 1;
		expect_corrupt(leaf, saved, "pivot that differs from its separator");
	}

	/* Blocks without entries, so that only separators tell. */
	ht_leaf_init(leaf->page, width);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);
	memset(separators, 0, width);
	expect_corrupt(leaf, saved, "separator that should be unused");
	ht_leaf_insert(leaf->page, width, make_entry(9, 9), &leaf->change);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);
	memset(separators + 10 * width, 0x7F, width);
	expect_corrupt(leaf, saved, "separators out of order");

	leaf_free(leaf);
	report("%d-bit leaf: check finds corruption", width_bits(width));
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
	test_leaf_check(width);
	test_leaf_damaged(width);
}
