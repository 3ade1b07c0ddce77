/*
 * test_wide.c
 *		The engine for keys of 128 bits, against simple models.
 */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#include "../../src/tree/wide.h"

/* How keys are drawn; all of them are distances from a leaf's base. */
typedef enum Pattern
{
	RANDOM_KEYS,
	ASCENDING,
	DESCENDING,
	NARROW, /* so few keys and TIDs that entries repeat */
	ONE_KEY,
	MAX_KEY,
	EXTREMES,        /* 0, 1, max - 1, max */
	CLUMPS,          /* few first words, any other words */
	SAME_FIRST_WORD, /* only the last words differ */
	POWERS,          /* powers of two, and what is beside them */
	FIRST_KEY,       /* mostly the first of a few keys, with ascending TIDs */
	N_PATTERNS
} Pattern;

static const char *const pattern_names[N_PATTERNS] = {
	"random keys",
	"ascending keys",
	"descending keys",
	"few keys and tids",
	"one key",
	"the maximum key",
	"extreme keys",
	"clumps of keys",
	"one first word",
	"powers of two",
	"few keys, ascending tids, mostly of the first",
};

#define N_CLASSES 6

static const int classes[N_CLASSES] = {0, 16, 32, 64, 96, 128};

static const unsigned char foreign = 0xA5; /* fills bytes that are not the engine's */

#define KEY_MAX (~(HtKey128) 0)

/* A page, what it should hold, and what it held when it was last logged. */
typedef struct Leaf
{
	HtLeafShape128 shape;
	char *allocation;
	char *page; /* aligned to 8 bytes, not to 16 */
	char *logged;
	HtLeafChange change;
	HtEntry128 model[HT_LEAF_MAX_ENTRIES];
	int n;
	size_t bytes; /* logged so far */
} Leaf;

/* ----------------------------------------------------------------
 *		Keys
 * ----------------------------------------------------------------
 */

/* Random bits, as many as the class has. */
static HtKey128
rnd_key(int bits)
{
	HtKey128 key = rnd();

	key |= (HtKey128) rnd() << 64;
	return bits == 0 ? 0 : key >> (128 - bits);
}

static HtKey128
power(int bit)
{
	return ht_key_ones_128(bit) + 1;
}

static HtKey128
pattern_key(Pattern pattern, int bits, int i)
{
	HtKey128 max = ht_class_max_128(bits);
	HtKey128 key;

	if (bits == 0)
		return 0;
	switch (pattern)
	{
		case ASCENDING:
			return (uint64_t) i * 3 & 0xFFFF;
		case DESCENDING:
			return max - ((uint64_t) i * 3 & 0xFFFF);
		case NARROW:
			return (uint64_t) rnd_below(40);
		case ONE_KEY:
			return 42;
		case FIRST_KEY:
			return rnd_below(4) == 0 ? 40 + (uint64_t) rnd_below(4) : 40;
		case MAX_KEY:
			return max;
		case EXTREMES:
			key = (uint64_t) rnd_below(2);
			return rnd_below(2) ? key : max - key;
		case CLUMPS:
			/* Three of the highest words, and one to all other bits. */
			key = rnd_key(bits <= 64 ? bits / 2 : rnd_below(bits - 63));
			if (rnd_below(3) == 0)
				return key;
			return max - ht_key_ones_128(bits <= 64 ? bits / 2 : bits - 64) + key;
		case SAME_FIRST_WORD:
			return bits <= 64 ? rnd_key(bits) : rnd_key(1 + rnd_below(bits - 64));
		case POWERS:
			key = power(rnd_below(bits));
			return rnd_below(3) == 0 ? key - 1 : rnd_below(2) && key < max ? key + 1 : key;
		default:
			return rnd_key(bits);
	}
}

static HtEntry128
pattern_entry(Pattern pattern, HtLeafShape128 shape, int i)
{
	HtEntry128 entry = {pattern_key(pattern, shape.bits, i), rnd_tid_of(shape.tid_bytes)};

	if (pattern == NARROW)
		entry.tid = 1 + (uint64_t) rnd_below(40);
	if (pattern == FIRST_KEY)
		entry.tid = ascending_tid(i);
	entry.key = entry.key + shape.base;
	return entry;
}

/* A shape whose base is at either end, at a power of two, or anywhere. */
static HtLeafShape128
random_shape_128(int bits, int tid_bytes)
{
	HtKey128 highest = KEY_MAX - ht_class_max_128(bits);
	HtKey128 base = rnd_key(128);

	switch (rnd_below(5))
	{
		case 0:
			base = 0;
			break;
		case 1:
			base = highest;
			break;
		case 2:
			base = power(rnd_below(128));
			if (rnd_below(2))
				base = base - 1;
			break;
		default:
			break;
	}
	return ht_leaf_shape_128(bits, tid_bytes, base < highest ? base : highest);
}

static int
compare_entries_128(const void *a, const void *b)
{
	return ht_entry_cmp_128(*(const HtEntry128 *) a, *(const HtEntry128 *) b);
}

static bool
in_range(HtKey128 key, HtKey128 low, HtKey128 high)
{
	return key >= low && high >= key;
}

/* ----------------------------------------------------------------
 *		Leaves
 * ----------------------------------------------------------------
 */

static void
paint_hole(Leaf *leaf)
{
	HtByteRange hole = ht_leaf_hole_128(leaf->shape);

	memset(leaf->page + hole.offset, foreign, hole.length);
}

static Leaf *
leaf_create(int bits, int tid_bytes)
{
	Leaf *leaf = allocate(sizeof(Leaf));

	memset(leaf, 0, sizeof(*leaf));
	leaf->shape = random_shape_128(bits, tid_bytes);
	leaf->allocation = allocate(HT_PAGE_SIZE + 8);
	leaf->page = leaf->allocation + 8;
	leaf->logged = allocate(HT_PAGE_SIZE);
	memset(leaf->page, foreign, HT_PAGE_SIZE);
	ht_leaf_init_128(leaf->page, leaf->shape);
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

/* The bytes and lines of the changes since the last call contain all changes. */
static void
leaf_log(Leaf *leaf)
{
	HtByteRange ranges[HT_LEAF_MAX_RANGES + 1];
	uint64_t lines = ht_leaf_change_lines_128(leaf->page, &leaf->change);
	int end = HT_PAGE_START - 8;
	int n;

	memset(ranges, 0, sizeof(ranges));
	n = ht_leaf_change_ranges_128(leaf->page, &leaf->change, ranges);
	expect(n >= 0 && n <= HT_LEAF_MAX_RANGES, "%d ranges", n);
	expect(ranges[HT_LEAF_MAX_RANGES].length == 0, "wrote beyond the last range");
	for (int i = 0; i < HT_PAGE_SIZE; i++)
		expect(leaf->logged[i] == leaf->page[i] || (lines >> (i / HT_LEAF_BLOCK_SIZE) & 1) != 0,
			   "byte %d changed on a line that is not named", i);
	for (int i = 0; i < n && !failed(); i++)
	{
		expect(ranges[i].length > 0 && ranges[i].offset > end + 4 &&
				   ranges[i].offset + ranges[i].length <= HT_PAGE_END,
			   "range %d is %d+%d after %d", i, ranges[i].offset, ranges[i].length, end);
		end = ranges[i].offset + ranges[i].length;
		memcpy(leaf->logged + ranges[i].offset, leaf->page + ranges[i].offset, ranges[i].length);
		leaf->bytes += ranges[i].length;
	}
	expect(memcmp(leaf->logged, leaf->page, HT_PAGE_SIZE) == 0, "bytes changed unnoticed");
	memset(&leaf->change, 0, sizeof(leaf->change));
}

static void
expect_range(const Leaf *leaf, HtKey128 low, HtKey128 high)
{
	static HtEntry128 out[HT_LEAF_MAX_ENTRIES];
	int n = ht_leaf_read_range_128(leaf->page, low, high, out);
	int expected = 0;

	for (int i = 0; i < leaf->n; i++)
	{
		if (!in_range(leaf->model[i].key, low, high))
			continue;
		if (expected < n)
			expect(ht_entry_cmp_128(out[expected], leaf->model[i]) == 0,
				   "entry %d of a range is wrong", expected);
		expected++;
	}
	expect(n == expected, "%d of %d entries in a range", n, expected);
}

/* A key to search for: random, on the page, or next to one on the page. */
static HtKey128
leaf_probe(const Leaf *leaf)
{
	HtKey128 base = leaf->shape.base;
	HtKey128 max = ht_class_max_128(leaf->shape.bits);
	HtKey128 key;

	switch (rnd_below(leaf->n > 0 ? 7 : 4))
	{
		case 0:
			return base + rnd_key(leaf->shape.bits);
		case 1:
			return rnd_below(2) ? base + max : base;
		case 2:
			return rnd_below(2) ? base - 1 : base + max + 1;
		case 3:
			return rnd_below(2) ? rnd_key(128) : rnd_below(2) ? KEY_MAX : 0;
		case 4:
			/* Another first word, or the same one alone. */
			key = leaf->model[rnd_below(leaf->n)].key;
			return key + power(rnd_below(128));
		default:
			key = leaf->model[rnd_below(leaf->n)].key;
			return key + (uint64_t) rnd_below(3) - 1;
	}
}

static void
expect_foreign(const Leaf *leaf)
{
	HtByteRange hole = ht_leaf_hole_128(leaf->shape);

	for (int i = 0; i < HT_PAGE_SIZE; i++)
		if (i < HT_PAGE_START || i >= HT_PAGE_END ||
			(i >= hole.offset && i < hole.offset + hole.length))
			expect((unsigned char) leaf->page[i] == foreign, "byte %d is not the engine's", i);
}

static void
leaf_verify(const Leaf *leaf)
{
	static HtEntry128 out[HT_LEAF_MAX_ENTRIES];
	static HtEntry128 checked_out[HT_LEAF_MAX_ENTRIES];
	int checked;
	const char *complaint = ht_leaf_read_checked_128(leaf->page, checked_out, &checked);
	int n = ht_leaf_read_128(leaf->page, out);
	int counted = 0;

	expect(complaint == NULL, "%s", complaint ? complaint : "");
	expect(checked == n, "read %d entries while checking, and %d", checked, n);
	for (int i = 0; i < n && checked == n; i++)
		expect(ht_entry_cmp_128(checked_out[i], out[i]) == 0,
			   "entry %d is wrong if the page is checked", i);
	expect(ht_leaf_count_128(leaf->page) == leaf->n, "count is wrong");
	expect(n == leaf->n, "read %d of %d entries", n, leaf->n);
	for (int i = 0; i < n && n == leaf->n; i++)
		expect(ht_entry_cmp_128(out[i], leaf->model[i]) == 0, "entry %d is wrong", i);
	for (int b = 0; b < ht_leaf_blocks_128(leaf->shape); b++)
	{
		int count = ht_leaf_block_count_128(leaf->page, b);

		for (int slot = 0; slot < count && counted + slot < leaf->n; slot++)
		{
			HtEntry128 entry = ht_leaf_entry_128(leaf->page, b, slot);
			bool found = false;

			for (int i = counted; i < counted + count; i++)
				found |= ht_entry_cmp_128(leaf->model[i], entry) == 0;
			expect(found, "entry %d of block %d is wrong", slot, b);
		}
		counted += count;
	}
	expect(counted == leaf->n, "blocks have %d entries", counted);

	expect_range(leaf, 0, KEY_MAX);
	for (int i = 0; i < 4; i++)
	{
		HtKey128 key = leaf_probe(leaf);

		expect_range(leaf, key, key);
		expect_range(leaf, key, leaf_probe(leaf));
	}
	expect_foreign(leaf);
}

static HtInsertResult
leaf_insert(Leaf *leaf, HtEntry128 entry)
{
	int at = 0;
	HtInsertResult expected = HT_INSERTED;
	HtInsertResult result;

	while (at < leaf->n && ht_entry_cmp_128(leaf->model[at], entry) < 0)
		at++;
	if (entry.key < leaf->shape.base ||
		ht_class_max_128(leaf->shape.bits) < entry.key - leaf->shape.base ||
		ht_tid_bytes(entry.tid) > leaf->shape.tid_bytes)
		expected = HT_NO_FIT;
	else if (at < leaf->n && ht_entry_cmp_128(leaf->model[at], entry) == 0)
		expected = HT_PRESENT;
	else if (leaf->n == ht_leaf_capacity_128(leaf->shape))
		expected = HT_FULL;

	result = rnd_below(2) ? ht_leaf_add_128(leaf->page, entry, HT_LEAF_MAX_BLOCKS, &leaf->change) :
							HT_FULL;
	if (result == HT_FULL)
		result = ht_leaf_insert_128(leaf->page, entry, &leaf->change);
	expect(result == expected, "insert gave %d, not %d", result, expected);
	if (expected != HT_INSERTED)
		return expected;
	memmove(&leaf->model[at + 1], &leaf->model[at], (size_t) (leaf->n - at) * sizeof(HtEntry128));
	leaf->model[at] = entry;
	leaf->n++;
	return expected;
}

/* Remove random entries, a run of neighbours, or everything. */
static void
leaf_remove_some(Leaf *leaf)
{
	bool dead[HT_LEAF_MAX_ENTRIES];
	int percent = (const int[]){1, 10, 50, 90, 99}[rnd_below(5)];
	int kind = rnd_below(5);
	int start = rnd_below(leaf->n + 1);
	int end = start + rnd_below(leaf->n - start + 1);
	int n = 0;

	for (int i = 0; i < leaf->n; i++)
		dead[i] = kind == 0 ? i >= start :
				  kind == 1 ? i >= start && i < end :
							  kind == 2 || rnd_below(100) < percent;
	ht_leaf_remove_128(leaf->page, dead, &leaf->change);
	for (int i = 0; i < leaf->n; i++)
		if (!dead[i])
			leaf->model[n++] = leaf->model[i];
	leaf->n = n;
}

static void
test_leaf_pattern(int bits, int tid_bytes, Pattern pattern)
{
	Leaf *leaf = leaf_create(bits, tid_bytes);
	int i = 0;

	leaf_verify(leaf);
	for (int round = 0; round < 16 && !failed(); round++)
	{
		int inserts = rnd_below(3) == 0 ? 2 * ht_leaf_capacity_128(leaf->shape) : rnd_below(200);
		int log_every = 1 + rnd_below(rnd_below(2) ? 3 : 300);

		while (inserts-- > 0 && !failed())
		{
			HtEntry128 entry = pattern_entry(pattern, leaf->shape, i++);

			if (leaf_insert(leaf, entry) == HT_FULL)
				break;
			if (rnd_below(log_every) == 0)
				leaf_log(leaf);
			if (rnd_below(20) == 0)
				leaf_verify(leaf);
			if (rnd_below(10) == 0)
				expect(leaf_insert(leaf, entry) == HT_PRESENT, "entry is not found again");
		}
		leaf_verify(leaf);

		if (rnd_below(4) == 0)
		{
			leaf->n = rnd_below(leaf->n + 1);
			ht_leaf_fill_128(leaf->page, leaf->shape, leaf->model, leaf->n);
			memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
			memset(&leaf->change, 0, sizeof(leaf->change));
		}
		else
			leaf_remove_some(leaf);
		leaf_verify(leaf);
		if (rnd_below(2) == 0)
			leaf_log(leaf);
	}
	leaf_free(leaf);
}

/*
 * Entries that come behind those of the page's first key, while another key follows: the free slots
 * are all of use to them, and they do not push others each time.
 */
static void
test_leaf_first_key(int bits, int tid_bytes)
{
	Leaf *leaf = leaf_create(bits, tid_bytes);
	int capacity = ht_leaf_capacity_128(leaf->shape);
	int count = capacity * 7 / 8;
	int first = count / 4;
	int inserted = 0;

	for (leaf->n = 0; leaf->n < count; leaf->n++)
	{
		leaf->model[leaf->n].key = leaf->shape.base + (leaf->n < first ? 1 : 3);
		leaf->model[leaf->n].tid = ascending_tid(leaf->n);
	}
	ht_leaf_fill_128(leaf->page, leaf->shape, leaf->model, leaf->n);
	memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
	for (;; inserted++)
	{
		HtEntry128 entry = {leaf->model[0].key, ascending_tid(first + inserted)};

		if (leaf_insert(leaf, entry) != HT_INSERTED)
			break;
		leaf_log(leaf);
	}
	leaf_verify(leaf);
	expect(inserted == capacity - count, "page is full at %d", leaf->n);
	expect(leaf->bytes < HT_PAGE_SIZE * 5 / 4, "%ld bytes changed by %d entries",
		   (long) leaf->bytes, inserted);
	leaf_free(leaf);
}

/* In the test of hints an entry is dead if its TID says so. */
static bool
has_hint(const Leaf *leaf, HtEntry128 entry)
{
	int slot = ht_leaf_slot_128(leaf->page, entry);
	int slots = ht_leaf_slots_128(leaf->shape);

	expect(slot >= 0 && ht_entry_cmp_128(ht_leaf_entry_128(leaf->page, slot / slots, slot % slots),
										 entry) == 0,
		   "an entry is not in its slot");
	return slot >= 0 && (ht_leaf_hints_128(leaf->page, slot / slots) >> slot % slots & 1) != 0;
}

/* The first entries of a range, "all" of which are these. */
static void
expect_some(const Leaf *leaf, HtKey128 low, HtKey128 high, bool live, const HtEntry128 *all,
			int count)
{
	static HtEntry128 out[HT_LEAF_MAX_ENTRIES];
	int enough = 1 + (int) rnd_below(rnd_below(2) ? 20 : HT_LEAF_MAX_ENTRIES);
	int n = ht_leaf_read_some_128(leaf->page, low, high, live, enough, out);

	expect(n == count || n >= enough, "fewer entries are read than are enough");
	expect(n < enough + ht_leaf_slots_128(leaf->shape),
		   "a block is read although there are enough entries");
	for (int i = 0; i < n && !failed(); i++)
		expect(i < count && ht_entry_cmp_128(out[i], all[i]) == 0,
			   "one of the first entries is wrong");
}

/* Every hint is that of a dead entry, and only entries without hints are read. */
static void
verify_hints(const Leaf *leaf)
{
	static HtEntry128 out[HT_LEAF_MAX_ENTRIES];
	HtKey128 low = leaf_probe(leaf);
	HtKey128 high = rnd_below(3) == 0 ? KEY_MAX : leaf_probe(leaf);
	HtEntry128 other = {low, HT_TID_MAX - 1};
	int n = ht_leaf_read_live_128(leaf->page, low, high, out);
	int live = 0;
	bool any = false;

	for (int i = 0; i < leaf->n && !failed(); i++)
	{
		bool hint = has_hint(leaf, leaf->model[i]);

		any |= hint;
		expect(!hint || leaf->model[i].tid % 3 == 0, "a hint for a live entry");
		if (hint || !in_range(leaf->model[i].key, low, high))
			continue;
		expect(live < n && ht_entry_cmp_128(out[live], leaf->model[i]) == 0,
			   "an entry without hint is not read");
		live++;
	}
	expect(live == n, "an entry with a hint is read");
	expect_some(leaf, low, high, true, out, n);
	expect(ht_leaf_has_hints_128(leaf->page) == any, "whether there are hints");
	expect(ht_leaf_slot_128(leaf->page, other) == -1, "an entry that is not there has a slot");
}

static void
test_leaf_hints(int bits, int tid_bytes)
{
	for (int round = 0; round < 6 && !failed(); round++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		Pattern pattern = round == 5 ? FIRST_KEY : (Pattern) round;
		HtByteRange hole = ht_leaf_hole_128(leaf->shape);

		memset(leaf->page + hole.offset, 0, hole.length);
		for (int step = 0; step < 40 && !failed(); step++)
		{
			for (int i = rnd_below(60); i > 0; i--)
				leaf_insert(
					leaf, pattern_entry(step % 2 == 0 ? pattern : ONE_KEY, leaf->shape, i * step));
			if (rnd_below(10) == 0)
				leaf_remove_some(leaf);
			ht_leaf_clear_hints_128(leaf->page, &leaf->change);
			memset(&leaf->change, 0, sizeof(leaf->change));
			for (int i = 0; i < leaf->n; i++)
				if (leaf->model[i].tid % 3 == 0 && rnd_below(2) == 0)
					ht_leaf_set_hint_128(leaf->page, ht_leaf_slot_128(leaf->page, leaf->model[i]));
			verify_hints(leaf);
		}
		leaf_free(leaf);
	}
}

/* What just fits a leaf is stored; what just does not fit is refused. */
static void
test_leaf_limits(int bits, int tid_bytes)
{
	for (int round = 0; round < 20 && !failed(); round++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		HtEntry128 first = {leaf->shape.base, 1};
		HtEntry128 last = {first.key + ht_class_max_128(bits), 1};
		HtEntry128 below = {first.key - 1, 1};
		HtEntry128 above = {last.key + 1, 1};
		HtEntry128 far = {first.key, (UINT64_C(1) << (8 * tid_bytes - 9)) << 16 | 1};

		expect(leaf_insert(leaf, first) == HT_INSERTED, "the base does not fit");
		expect(leaf_insert(leaf, last) == (bits == 0 ? HT_PRESENT : HT_INSERTED),
			   "the greatest key does not fit");
		if (first.key != 0)
			expect(leaf_insert(leaf, below) == HT_NO_FIT, "a key below the base fits");
		if (last.key != KEY_MAX)
			expect(leaf_insert(leaf, above) == HT_NO_FIT, "a key beyond the class fits");
		if (tid_bytes < HT_TID_BYTES)
			expect(leaf_insert(leaf, far) == HT_NO_FIT, "a block beyond the width fits");
		leaf_verify(leaf);
		leaf_log(leaf);
		leaf_free(leaf);
	}
}

/* A page can be filled again with another shape; nothing of the former one shows. */
static void
test_leaf_reshape(int bits, int tid_bytes)
{
	for (int round = 0; round < 30 && !failed(); round++)
	{
		int former = classes[rnd_below(N_CLASSES)];
		Leaf *leaf = leaf_create(former, 4 + rnd_below(3));

		for (int i = rnd_below(1300); i > 0; i--)
			ht_leaf_insert_128(leaf->page, pattern_entry(RANDOM_KEYS, leaf->shape, i),
							   &leaf->change);
		leaf->shape = random_shape_128(bits, tid_bytes);
		leaf->n = rnd_below(ht_leaf_capacity_128(leaf->shape) + 1);
		for (int i = 0; i < leaf->n; i++)
			leaf->model[i] = pattern_entry(RANDOM_KEYS, leaf->shape, i);
		qsort(leaf->model, (size_t) leaf->n, sizeof(HtEntry128), compare_entries_128);
		for (int i = 1; i < leaf->n; i++)
			if (ht_entry_cmp_128(leaf->model[i - 1], leaf->model[i]) == 0)
				leaf->n = i;
		ht_leaf_fill_128(leaf->page, leaf->shape, leaf->model, leaf->n);
		paint_hole(leaf);
		memset(leaf->page + HT_PAGE_END, leaf->page[0], HT_PAGE_SIZE - HT_PAGE_END);
		leaf_verify(leaf);
		leaf_free(leaf);
	}
}

/* Each byte that says something of a leaf: a wrong one is noticed. */
static void
test_leaf_check(int bits, int tid_bytes)
{
	Leaf *leaf = leaf_create(bits, tid_bytes);
	int n = ht_leaf_capacity_128(leaf->shape) / 2;
	int separators = HT_LEAF_SEPARATORS_AT;
	int block = ht_leaf_blocks_at_128(leaf->shape);
	char saved[HT_PAGE_SIZE];

	for (int i = 0; i < n; i++)
	{
		leaf->model[i].key = leaf->shape.base + (bits == 0 ? 0 : (uint64_t) (i + 1) * 50);
		leaf->model[i].tid = (uint64_t) i << 16 | 1;
	}
	ht_leaf_fill_128(leaf->page, leaf->shape, leaf->model, n);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);
	expect(ht_leaf_check_128(leaf->page) == NULL, "page is not sound");
	for (int i = HT_LEAF_CLASS_AT; i < HT_LEAF_SEPARATORS_AT && !failed(); i++)
	{
		bool is_base = i >= HT_WIDE_BASE_AT && i < HT_WIDE_BASE_AT + (int) sizeof(HtKey128);
		bool is_free = bits == 0  ? i >= 80 && !is_base && i < HT_WIDE_BASE_AT :
					   bits == 16 ? i >= 82 && !is_base && i < HT_WIDE_BASE_AT :
					   bits == 32 ? i >= 92 && !is_base && i < HT_WIDE_BASE_AT :
									false;

		leaf->page[i] = (char) (leaf->page[i] + 7);
		if (!is_base && !is_free)
			expect(ht_leaf_check_128(leaf->page) != NULL, "byte %d is wrong, and not noticed", i);
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
	}

	/* The first separator's highest byte, a count, and an entry twice. */
	if (bits > 0)
	{
		leaf->page[separators + (bits < 64 ? bits / 8 - 1 : 7)] = (char) 0xFF;
		expect(ht_leaf_check_128(leaf->page) != NULL, "separator too high");
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
	}
	leaf->page[block + ht_leaf_block_size_128(leaf->shape) - 2] = 100;
	expect(ht_leaf_check_128(leaf->page) != NULL, "count above the number of slots");
	memcpy(leaf->page, saved, HT_PAGE_SIZE);
	memset(leaf->page + HT_WIDE_BASE_AT, 0xFF, sizeof(HtKey128));
	expect(bits == 0 || ht_leaf_check_128(leaf->page) != NULL, "a base too high for the keys");
	leaf_free(leaf);
}

/*
 * Whatever bytes a page has: nothing outside of it is written, every operation ends, and check
 * reports damage or the page is in order.
 */
static void
test_leaf_damaged(int bits, int tid_bytes)
{
	static HtEntry128 out[HT_LEAF_MAX_ENTRIES];
	static bool dead[HT_LEAF_MAX_ENTRIES];

	for (int round = 0; round < rnd_rounds(300) && !failed(); round++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		int kind = rnd_below(4);
		int from = kind == 1 ? HT_LEAF_SEPARATORS_AT : HT_PAGE_START;
		int to = kind == 2 ? HT_LEAF_SEPARATORS_AT : HT_PAGE_END;
		int blocks_at = ht_leaf_blocks_at_128(leaf->shape);
		int size = ht_leaf_block_size_128(leaf->shape);
		bool sound;
		int count;

		for (int i = rnd_below(HT_LEAF_MAX_ENTRIES); i > 0; i--)
			ht_leaf_insert_128(leaf->page,
							   pattern_entry((Pattern) (round % N_PATTERNS), leaf->shape, i),
							   &leaf->change);
		if (kind == 3)
			for (int i = 0; i < 10; i++)
				leaf->page[blocks_at + (rnd_below(ht_leaf_blocks_128(leaf->shape)) + 1) * size -
						   2] = (char) rnd();
		else
			for (int i = from; i < to; i++)
				if (rnd_below(round % 2 ? 1 : 50) == 0)
					leaf->page[i] = (char) rnd();

		sound = ht_leaf_check_128(leaf->page) == NULL;
		count = ht_leaf_count_128(leaf->page);
		expect(count >= 0 && count <= HT_LEAF_MAX_ENTRIES, "count of %d entries", count);
		expect(ht_leaf_read_128(leaf->page, out) == count, "read other than the count");
		for (int i = 1; i < count && sound; i++)
			expect(ht_entry_cmp_128(out[i - 1], out[i]) < 0, "a sound page, but out of order");
		for (int i = 0; i < 10; i++)
		{
			int n = ht_leaf_read_range_128(leaf->page, leaf_probe(leaf), leaf_probe(leaf), out);

			expect(n >= 0 && n <= count, "%d entries of %d in a range", n, count);
		}
		for (int i = 0; i < 100; i++)
			ht_leaf_insert_128(leaf->page,
							   pattern_entry((Pattern) rnd_below(N_PATTERNS), leaf->shape, i),
							   &leaf->change);
		for (int i = 0; i < HT_LEAF_MAX_ENTRIES; i++)
			dead[i] = rnd_below(2);
		ht_leaf_remove_128(leaf->page, dead, &leaf->change);
		paint_hole(leaf);
		expect_foreign(leaf);
		leaf_free(leaf);
	}
}

/* ----------------------------------------------------------------
 *		Searching
 * ----------------------------------------------------------------
 */

/* A leaf that was filled and then changed, so that blocks are not in order. */
static void
make_leaf(Leaf *leaf, int bits, int tid_bytes, Pattern pattern)
{
	int n;

	leaf->shape = random_shape_128(bits, tid_bytes);
	ht_leaf_init_128(leaf->page, leaf->shape);
	n = rnd_below(ht_leaf_capacity_128(leaf->shape) + 1);
	for (int i = 0; i < n; i++)
		ht_leaf_insert_128(leaf->page, pattern_entry(pattern, leaf->shape, i), &leaf->change);
	leaf->n = ht_leaf_read_128(leaf->page, leaf->model);
	if (rnd_below(2))
		leaf_remove_some(leaf);
}

static int
compare_hits(const void *a, const void *b)
{
	const HtHit *x = a;
	const HtHit *y = b;

	if (x->probe != y->probe)
		return x->probe < y->probe ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Hints for some of the leaf's entries, or for none. */
static void
set_hints(Leaf *leaf)
{
	HtByteRange hole = ht_leaf_hole_128(leaf->shape);
	int one_of = 1 + rnd_below(8);

	memset(leaf->page + hole.offset, 0, hole.length);
	if (rnd_below(3) == 0)
		return;
	for (int i = 0; i < leaf->n; i++)
		if (rnd_below(one_of) == 0)
			ht_leaf_set_hint_128(leaf->page, ht_leaf_slot_128(leaf->page, leaf->model[i]));
}

static void
expect_has_hints(const HtSearch128 *search, const Leaf *leaf, const HtProbe128 *probes,
				 uint32_t count)
{
	bool expected = ht_leaf_has_hints_128(leaf->page);

	if (count > 0 && count <= HT_FEW_PROBES)
	{
		expected = false;
		for (uint32_t i = 0; i < count; i++)
		{
			int block = (int) probes[i].hint;

			if (probes[i].hint >= (uint32_t) ht_leaf_blocks_128(leaf->shape))
				block = 0;
			expected |= ht_leaf_hints_128(leaf->page, block) != 0;
		}
	}
	expect(search->has_hints(leaf->page, probes, count) == expected, "hints of %u probes", count);
}

static int
expected_hits(const Leaf *leaf, HtKey128 low, HtKey128 high, uint32_t probe, bool live, HtHit *hits)
{
	int n = 0;

	for (int i = 0; i < leaf->n; i++)
		if (in_range(leaf->model[i].key, low, high) && !(live && has_hint(leaf, leaf->model[i])))
			hits[n++] = (HtHit){leaf->model[i].tid, probe, 0};
	return n;
}

static void
compare(const Leaf *leaf, HtHit *hits, const HtKey128 *keys, int n, HtHit *expected, int n_expected,
		const char *what)
{
	expect(n == n_expected, "%d hits of %s instead of %d", n, what, n_expected);
	for (int i = 0; i < n && keys != NULL && !failed(); i++)
	{
		bool found = false;

		for (int j = 0; j < leaf->n; j++)
			found |= leaf->model[j].tid == hits[i].tid && leaf->model[j].key == keys[i];
		expect(found, "a hit of %s has another key", what);
	}
	if (failed())
		return;
	qsort(hits, (size_t) n, sizeof(HtHit), compare_hits);
	qsort(expected, (size_t) n, sizeof(HtHit), compare_hits);
	for (int i = 0; i < n; i++)
		expect(hits[i].probe == expected[i].probe && hits[i].tid == expected[i].tid &&
				   hits[i].all_visible == 0,
			   "hit %d of %s is wrong", i, what);
}

#define HITS (50 * HT_LEAF_MAX_ENTRIES)

/*
 * The hint for a key that the leaf can store is the first block that can have it: no block
 * before it can, and it is not before a block that cannot either.
 */
static void
expect_hint(const Leaf *leaf, const HtProbe128 *probe)
{
	if (!ht_leaf_fits_key_128(leaf->shape, probe->key))
		return;
	for (int b = 0; b < ht_leaf_blocks_128(leaf->shape); b++)
		for (int slot = 0; slot < ht_leaf_block_count_128(leaf->page, b); slot++)
		{
			HtKey128 key = ht_leaf_entry_128(leaf->page, b, slot).key;

			expect(b >= (int) probe->hint || key < probe->key, "hint %u is too high", probe->hint);
			expect(b <= (int) probe->hint || key >= probe->key, "hint %u is too low", probe->hint);
		}
}

/* Lengths of ranges: some are shorter than gaps between keys, some longer than the leaf's reach. */
static HtKey128
random_length(void)
{
	return rnd_below(4) == 0 ? (uint64_t) rnd_below(4) : rnd_key(rnd_below(128 + 1));
}

/* Points, or ranges of one length, which is 0 now and then. */
static void
try_probes(const HtSearch128 *search, const Leaf *leaf, bool are_ranges, uint32_t room)
{
	static HtHit hits[HITS], expected[HITS];
	static HtKey128 keys[HITS];
	HtProbe128 probes[40];
	uint32_t count = (uint32_t) rnd_below(41);
	uint32_t found = UINT32_MAX;
	uint32_t answered;
	bool want_keys = rnd_below(2);
	uint32_t slots = (uint32_t) ht_leaf_slots_128(leaf->shape);
	HtKey128 length = are_ranges ? random_length() : 0;
	HtKey128 last = KEY_MAX - length;
	const char *what = are_ranges ? "ranges" : "points";
	int n = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		HtKey128 key = leaf_probe(leaf);

		key = last < key ? last : key;
		probes[i] = (HtProbe128){key, 1000 + i, (uint32_t) rnd_below(70)};
	}
	search->prefetch_separators(leaf->page, probes, count);
	if (rnd_below(2))
	{
		search->prefetch_blocks(leaf->page, probes, count, rnd_below(2));
		for (uint32_t i = 0; i < count && i < 2; i++)
			expect_hint(leaf, &probes[i]);
	}
	for (uint32_t i = 0; i < count; i++)
		if (rnd_below(4) == 0)
			probes[i].hint += (uint32_t) (rnd_below(5) - 2);
	expect_has_hints(search, leaf, probes, count);
	expect_has_hints(search, leaf, probes, count % (HT_FEW_PROBES + 2));
	if (are_ranges)
		answered = search->ranges(leaf->page, probes, count, length, hits, want_keys ? keys : NULL,
								  room, &found);
	else
		answered =
			search->points(leaf->page, probes, count, hits, want_keys ? keys : NULL, room, &found);
	expect(answered <= count && found <= room, "%u answered of %u, %u hits in room for %u",
		   answered, count, found, room);
	for (uint32_t i = 0; i <= answered && i < count && !failed(); i++)
	{
		int more = expected_hits(leaf, probes[i].key, probes[i].key + length, probes[i].number,
								 false, expected + n);

		if (i < answered)
			n += more;
		else
			expect((uint32_t) n + slots > room || (uint32_t) (n + more) > room,
				   "stopped for nothing at probe %u", i);
	}
	if (!failed())
		compare(leaf, hits, want_keys ? keys : NULL, (int) found, expected, n, what);
}

static void
try_range(const HtSearch128 *search, const Leaf *leaf, uint32_t room)
{
	static HtHit hits[HT_LEAF_MAX_ENTRIES], expected[HT_LEAF_MAX_ENTRIES];
	static HtKey128 keys[HT_LEAF_MAX_ENTRIES];
	HtKey128 low = leaf_probe(leaf);
	HtKey128 high = rnd_below(3) == 0 ? low : leaf_probe(leaf);
	bool want_keys = rnd_below(2);
	bool live = rnd_below(2);
	uint32_t n;
	int n_expected;

	n = search->range(leaf->page, low, high, 77, live, hits, want_keys ? keys : NULL, room);
	n_expected = expected_hits(leaf, low, high, 77, live, expected);
	if (n == HT_NO_ROOM)
		expect(room < (uint32_t) n_expected, "no room for %d hits in %u", n_expected, room);
	else
		compare(leaf, hits, want_keys ? keys : NULL, (int) n, expected, n_expected, "a range");
}

static void
try_damaged(const HtSearch128 *search, Leaf *leaf)
{
	static HtHit hits[HT_LEAF_MAX_ENTRIES + 1];
	static HtKey128 keys[HT_LEAF_MAX_ENTRIES + 1];
	HtProbe128 probes[10];
	uint32_t found;

	for (int i = 0; i < HT_PAGE_SIZE; i++)
		if (rnd_below(3) == 0)
			leaf->page[i] = (char) rnd();
	for (int i = 0; i < 10; i++)
		probes[i] = (HtProbe128){leaf_probe(leaf), (uint32_t) i, 0};
	hits[HT_LEAF_MAX_ENTRIES].tid = 4711;
	search->prefetch_separators(leaf->page, probes, 10);
	search->prefetch_blocks(leaf->page, probes, 10, true);
	search->has_hints(leaf->page, probes, 2);
	search->has_hints(leaf->page, probes, 10);
	search->points(leaf->page, probes, 10, hits, keys, HT_LEAF_MAX_ENTRIES, &found);
	expect(found <= HT_LEAF_MAX_ENTRIES, "%u hits", found);
	search->ranges(leaf->page, probes, 10, random_length(), hits, keys, HT_LEAF_MAX_ENTRIES,
				   &found);
	expect(found <= HT_LEAF_MAX_ENTRIES, "%u hits of ranges", found);
	search->range(leaf->page, probes[0].key, probes[1].key, 0, false, hits, keys,
				  HT_LEAF_MAX_ENTRIES);
	search->range(leaf->page, 0, KEY_MAX, 0, true, hits, keys, HT_LEAF_MAX_ENTRIES);
	expect(hits[HT_LEAF_MAX_ENTRIES].tid == 4711, "wrote beyond the room");
}

static void
test_search_128(int bits, int tid_bytes)
{
	static const char *const names[] = {"portable", "avx2", "avx512"};
	Leaf *leaf = leaf_create(bits, tid_bytes);

	expect(ht_search_128("mmx") == NULL && ht_search_128(NULL) != NULL, "variants");
	for (int variant = 0; variant < 3; variant++)
	{
		const HtSearch128 *search = ht_search_128(names[variant]);

		if (search == NULL)
			continue;
		for (int round = 0; round < 10 * N_PATTERNS && !failed(); round++)
		{
			make_leaf(leaf, bits, tid_bytes, (Pattern) (round % N_PATTERNS));
			for (int i = 0; i < 5 && !failed(); i++)
			{
				uint32_t room = rnd_below(2) ? HT_LEAF_MAX_ENTRIES : (uint32_t) rnd_below(60);

				set_hints(leaf);
				try_probes(search, leaf, false, room);
				try_probes(search, leaf, true, room);
				try_range(search, leaf, room);
			}
			try_damaged(search, leaf);
			memset(leaf->page, 0, HT_PAGE_SIZE);
		}
	}
	leaf_free(leaf);
}

/* ----------------------------------------------------------------
 *		Sorting, aggregation, inner nodes
 * ----------------------------------------------------------------
 */

static void
try_sort(Pattern pattern, int bits, size_t n)
{
	HtEntry128 *entries = allocate(n * sizeof(HtEntry128) + 1);
	HtEntry128 *expected = allocate(n * sizeof(HtEntry128) + 1);
	HtEntry128 *scratch = allocate(n * sizeof(HtEntry128) + 1);

	for (size_t i = 0; i < n; i++)
	{
		entries[i].key = pattern_key(pattern, bits, (int) i);
		entries[i].tid = rnd_below(2) ? i : rnd_tid();
	}
	memcpy(expected, entries, n * sizeof(HtEntry128));
	qsort(expected, n, sizeof(HtEntry128), compare_entries_128);
	ht_sort_entries_128(entries, scratch, n);
	for (size_t i = 0; i < n && !failed(); i++)
		expect(ht_entry_cmp_128(entries[i], expected[i]) == 0, "entry %zu of %zu is wrong", i, n);
	free(entries);
	free(expected);
	free(scratch);
}

static void
try_batch(Pattern pattern, int bits, uint32_t n)
{
	HtKey128 *keys = allocate((n + 1) * sizeof(HtKey128));
	uint8_t *seen = allocate(n + 1);
	HtProbe128 *probes = allocate((n + 1) * sizeof(HtProbe128));
	HtPsa128 *psa = allocate(sizeof(HtPsa128));
	HtProbe128 *scratch;
	uint32_t sorted = 0;

	for (uint32_t i = 0; i < n; i++)
		keys[i] = pattern_key(pattern, bits, (int) i);
	memset(seen, 0, n);
	ht_psa_start_128(psa, keys, n, probes);
	expect(psa->largest <= n, "%u of %u in a partition", psa->largest, n);
	scratch = allocate((psa->largest + 1) * sizeof(HtProbe128));
	while (sorted < n && !failed())
	{
		uint32_t more = ht_psa_more_128(psa, scratch);

		expect(more > sorted && more <= n && more == psa->sorted, "%u sorted of %u after %u", more,
			   n, sorted);
		for (; sorted < more && !failed(); sorted++)
		{
			uint32_t number = probes[sorted].number;

			expect(sorted == 0 || probes[sorted].key >= probes[sorted - 1].key,
				   "probe %u of %u is out of order", sorted, n);
			expect(number < n && keys[number] == probes[sorted].key && !seen[number],
				   "probe %u of %u has a wrong number", sorted, n);
			if (number < n)
				seen[number] = 1;
		}
	}
	free(keys);
	free(seen);
	free(probes);
	free(scratch);
	free(psa);
}

static void
test_node_128(Pattern pattern, int fanout)
{
	size_t size = ht_node_size(HT_WIDTH128, fanout);
	char *node = allocate(size + 8);
	HtEntry128 separators[HT_MAX_FANOUT];
	int n = rnd_below(fanout);

	memset(node + size, foreign, 8);
	ht_node_init(node, HT_WIDTH128, fanout);
	for (int i = 0; i < n; i++)
	{
		separators[i].key = pattern_key(pattern, 128, i);
		separators[i].tid = (uint64_t) rnd_below(3) << 16 | (uint64_t) rnd_below(3);
	}
	qsort(separators, (size_t) n, sizeof(HtEntry128), compare_entries_128);
	for (int i = 0; i < n; i++)
		ht_node_set_128(node, HT_WIDTH128, fanout, i, separators[i]);
	for (int i = 0; i < n; i++)
		expect(ht_entry_cmp_128(ht_node_get_128(node, HT_WIDTH128, fanout, i), separators[i]) == 0,
			   "separator %d", i);
	for (int round = 0; round < 50 && !failed(); round++)
	{
		HtEntry128 entry = {pattern_key(pattern, 128, round), (uint64_t) rnd_below(3) << 16};
		int below = 0;
		int not_above = 0;

		if (n > 0 && rnd_below(2))
			entry = separators[rnd_below(n)];
		for (int i = 0; i < n; i++)
		{
			below += ht_entry_cmp_128(separators[i], entry) < 0;
			not_above += ht_entry_cmp_128(separators[i], entry) <= 0;
		}
		expect(ht_node_count_lt_128(node, HT_WIDTH128, fanout, entry) == below,
			   "separators below an entry");
		expect(ht_node_count_le_128(node, HT_WIDTH128, fanout, entry) == not_above,
			   "separators not above an entry");
	}
	for (int i = 0; i < 8; i++)
		expect((unsigned char) node[size + (size_t) i] == foreign, "wrote beyond the node");
	free(node);
}

static void
test_width(void)
{
	for (int i = 0; i < N_CLASSES; i++)
	{
		for (int tid_bytes = 4; tid_bytes <= 6; tid_bytes++)
		{
			for (int pattern = 0; pattern < N_PATTERNS; pattern++)
				test_leaf_pattern(classes[i], tid_bytes, (Pattern) pattern);
			if (classes[i] > 0)
				test_leaf_first_key(classes[i], tid_bytes);
			test_leaf_limits(classes[i], tid_bytes);
			test_leaf_hints(classes[i], tid_bytes);
			test_leaf_reshape(classes[i], tid_bytes);
			test_leaf_check(classes[i], tid_bytes);
			test_leaf_damaged(classes[i], tid_bytes);
			report("128-bit keys: %d-bit leaf, %d-byte tids", classes[i], tid_bytes);
			test_search_128(classes[i], tid_bytes);
			report("128-bit keys: %d-bit search, %d-byte tids", classes[i], tid_bytes);
		}
	}
	for (int pattern = 0; pattern < N_PATTERNS; pattern++)
	{
		for (int bits = 96; bits <= 128; bits += 32)
		{
			for (int n = 0; n < 100; n += 7)
				try_sort((Pattern) pattern, bits, (size_t) n);
			try_sort((Pattern) pattern, bits, (size_t) rnd_below(5000));
			for (uint32_t n = 0; n < 100; n += 9)
				try_batch((Pattern) pattern, bits, n);
			try_batch((Pattern) pattern, bits, (uint32_t) rnd_below(30000));
		}
		for (int fanout = 8; fanout <= HT_MAX_FANOUT; fanout *= 2)
			test_node_128((Pattern) pattern, fanout);
		try_sort((Pattern) pattern, 128, 100000);
		try_batch((Pattern) pattern, 128, 100000);
		report("128-bit keys: sort, aggregation and nodes, %s", pattern_names[pattern]);
	}
}

static void
test_key(void)
{
	expect(ht_key_bits_128(0) == 0 && ht_key_bits_128(1) == 1 &&
			   ht_key_bits_128((HtKey128) 1 << 64) == 65 && ht_key_bits_128(KEY_MAX) == 128,
		   "bits");
	expect(ht_class_for_128(0) == 0 && ht_class_for_128(1) == 16 &&
			   ht_class_for_128(0xFFFF) == 16 && ht_class_for_128(0x10000) == 32 &&
			   ht_class_for_128((HtKey128) 1 << 32) == 64 &&
			   ht_class_for_128((HtKey128) 1 << 64) == 96 &&
			   ht_class_for_128((HtKey128) 1 << 96) == 128,
		   "a class is not the narrowest");
	report("128-bit keys: bits and classes");
}

void
test_wide(void)
{
	test_key();
	test_width();
}
