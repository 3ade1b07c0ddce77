/*
 * test_wide_template.h
 *		The tests of test_wide.c for keys of the width HT_KEYS.
 */
#include "../../src/tree/key_macros.h"

#define LEAF	HT_KEYED(Leaf)


/* A page, what it should hold, and what it held when it was last logged. */
typedef struct LEAF
{
	HT_SHAPE	shape;
	char	   *allocation;
	char	   *page;			/* aligned to 8 bytes, not to 16 */
	char	   *logged;
	HtLeafChange change;
	HT_ENTRY	model[HT_LEAF_MAX_ENTRIES];
	int			n;
	size_t		bytes;			/* logged so far */
} LEAF;

/* ----------------------------------------------------------------
 *		Keys
 * ----------------------------------------------------------------
 */

/* Random bits, as many as the class has. */
static HT_KEY
HT_KEYED(rnd_key)(int bits)
{
	HT_KEY		key;
	uint64_t	words[HT_KEYS / 64];

	for (int i = 0; i < HT_KEYS / 64; i++)
		words[i] = rnd();
	memcpy(&key, words, sizeof(key));
	return bits == 0 ? KEY_OF(0) : KEY_SHIFT_RIGHT(key, HT_KEYS - bits);
}

static HT_KEY
HT_KEYED(power)(int bit)
{
	return KEY_ADD(HT_KEYED(ht_key_ones)(bit), KEY_OF(1));
}

static HT_KEY
HT_KEYED(pattern_key)(Pattern pattern, int bits, int i)
{
	HT_KEY		max = HT_KEYED(ht_class_max)(bits);
	HT_KEY		key;

	if (bits == 0)
		return KEY_OF(0);
	switch (pattern)
	{
		case ASCENDING:
			return KEY_OF((uint64_t) i * 3 & 0xFFFF);
		case DESCENDING:
			return KEY_SUBTRACT(max, KEY_OF((uint64_t) i * 3 & 0xFFFF));
		case NARROW:
			return KEY_OF((uint64_t) rnd_below(40));
		case ONE_KEY:
			return KEY_OF(42);
		case FIRST_KEY:
			return KEY_OF(rnd_below(4) == 0 ? 40 + (uint64_t) rnd_below(4) : 40);
		case MAX_KEY:
			return max;
		case EXTREMES:
			key = KEY_OF((uint64_t) rnd_below(2));
			return rnd_below(2) ? key : KEY_SUBTRACT(max, key);
		case CLUMPS:
			/* Three of the highest words, and one to all other bits. */
			key = HT_KEYED(rnd_key)(bits <= 64 ? bits / 2 : rnd_below(bits - 63));
			if (rnd_below(3) == 0)
				return key;
			return KEY_ADD(KEY_SUBTRACT(max, HT_KEYED(ht_key_ones)(bits <= 64 ? bits / 2 : bits - 64)), key);
		case SAME_FIRST_WORD:
			return bits <= 64 ? HT_KEYED(rnd_key)(bits) : HT_KEYED(rnd_key)(1 + rnd_below(bits - 64));
		case POWERS:
			key = HT_KEYED(power)(rnd_below(bits));
			return rnd_below(3) == 0 ? KEY_SUBTRACT(key, KEY_OF(1)) :
				rnd_below(2) && KEY_LESS(key, max) ? KEY_ADD(key, KEY_OF(1)) : key;
		default:
			return HT_KEYED(rnd_key)(bits);
	}
}

static HT_ENTRY
HT_KEYED(pattern_entry)(Pattern pattern, HT_SHAPE shape, int i)
{
	HT_ENTRY	entry = {HT_KEYED(pattern_key)(pattern, shape.bits, i), rnd_tid_of(shape.tid_bytes)};

	if (pattern == NARROW)
		entry.tid = 1 + (uint64_t) rnd_below(40);
	if (pattern == FIRST_KEY)
		entry.tid = ascending_tid(i);
	entry.key = KEY_ADD(entry.key, shape.base);
	return entry;
}

/* A shape whose base is at either end, at a power of two, or anywhere. */
static HT_SHAPE
HT_KEYED(random_shape)(int bits, int tid_bytes)
{
	HT_KEY		highest = KEY_SUBTRACT(KEY_MAX, HT_KEYED(ht_class_max)(bits));
	HT_KEY		base = HT_KEYED(rnd_key)(HT_KEYS);

	switch (rnd_below(5))
	{
		case 0:
			base = KEY_OF(0);
			break;
		case 1:
			base = highest;
			break;
		case 2:
			base = HT_KEYED(power)(rnd_below(HT_KEYS));
			if (rnd_below(2))
				base = KEY_SUBTRACT(base, KEY_OF(1));
			break;
		default:
			break;
	}
	return HT_KEYED(ht_leaf_shape)(bits, tid_bytes, KEY_LESS(base, highest) ? base : highest);
}

static int
HT_KEYED(compare_entries)(const void *a, const void *b)
{
	return HT_KEYED(ht_entry_cmp)(*(const HT_ENTRY *) a, *(const HT_ENTRY *) b);
}

static bool
HT_KEYED(in_range)(HT_KEY key, HT_KEY low, HT_KEY high)
{
	return !KEY_LESS(key, low) && !KEY_LESS(high, key);
}

/* ----------------------------------------------------------------
 *		Leaves
 * ----------------------------------------------------------------
 */

static void
HT_KEYED(paint_hole)(LEAF *leaf)
{
	HtByteRange hole = HT_KEYED(ht_leaf_hole)(leaf->shape);

	memset(leaf->page + hole.offset, foreign, hole.length);
}

static LEAF *
HT_KEYED(leaf_create)(int bits, int tid_bytes)
{
	LEAF	   *leaf = allocate(sizeof(LEAF));

	memset(leaf, 0, sizeof(*leaf));
	leaf->shape = HT_KEYED(random_shape)(bits, tid_bytes);
	leaf->allocation = allocate(HT_PAGE_SIZE + 8);
	leaf->page = leaf->allocation + 8;
	leaf->logged = allocate(HT_PAGE_SIZE);
	memset(leaf->page, foreign, HT_PAGE_SIZE);
	HT_KEYED(ht_leaf_init)(leaf->page, leaf->shape);
	memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
	return leaf;
}

static void
HT_KEYED(leaf_free)(LEAF *leaf)
{
	free(leaf->allocation);
	free(leaf->logged);
	free(leaf);
}

/* The bytes and lines of the changes since the last call contain all changes. */
static void
HT_KEYED(leaf_log)(LEAF *leaf)
{
	HtByteRange ranges[HT_LEAF_MAX_RANGES + 1];
	uint64_t	lines = HT_KEYED(ht_leaf_change_lines)(leaf->page, &leaf->change);
	int			end = HT_PAGE_START - 8;
	int			n;

	memset(ranges, 0, sizeof(ranges));
	n = HT_KEYED(ht_leaf_change_ranges)(leaf->page, &leaf->change, ranges);
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
HT_KEYED(expect_range)(const LEAF *leaf, HT_KEY low, HT_KEY high)
{
	static HT_ENTRY out[HT_LEAF_MAX_ENTRIES];
	int			n = HT_KEYED(ht_leaf_read_range)(leaf->page, low, high, out);
	int			expected = 0;

	for (int i = 0; i < leaf->n; i++)
	{
		if (!HT_KEYED(in_range)(leaf->model[i].key, low, high))
			continue;
		if (expected < n)
			expect(HT_KEYED(ht_entry_cmp)(out[expected], leaf->model[i]) == 0, "entry %d of a range is wrong", expected);
		expected++;
	}
	expect(n == expected, "%d of %d entries in a range", n, expected);
}

/* A key to search for: random, on the page, or next to one on the page. */
static HT_KEY
HT_KEYED(leaf_probe)(const LEAF *leaf)
{
	HT_KEY		base = leaf->shape.base;
	HT_KEY		max = HT_KEYED(ht_class_max)(leaf->shape.bits);
	HT_KEY		key;

	switch (rnd_below(leaf->n > 0 ? 7 : 4))
	{
		case 0:
			return KEY_ADD(base, HT_KEYED(rnd_key)(leaf->shape.bits));
		case 1:
			return rnd_below(2) ? KEY_ADD(base, max) : base;
		case 2:
			return rnd_below(2) ? KEY_SUBTRACT(base, KEY_OF(1)) : KEY_ADD(KEY_ADD(base, max), KEY_OF(1));
		case 3:
			return rnd_below(2) ? HT_KEYED(rnd_key)(HT_KEYS) : rnd_below(2) ? KEY_MAX : KEY_OF(0);
		case 4:
			/* Another first word, or the same one alone. */
			key = leaf->model[rnd_below(leaf->n)].key;
			return KEY_ADD(key, HT_KEYED(power)(rnd_below(HT_KEYS)));
		default:
			key = leaf->model[rnd_below(leaf->n)].key;
			return KEY_SUBTRACT(KEY_ADD(key, KEY_OF((uint64_t) rnd_below(3))), KEY_OF(1));
	}
}

static void
HT_KEYED(expect_foreign)(const LEAF *leaf)
{
	HtByteRange hole = HT_KEYED(ht_leaf_hole)(leaf->shape);

	for (int i = 0; i < HT_PAGE_SIZE; i++)
		if (i < HT_PAGE_START || i >= HT_PAGE_END || (i >= hole.offset && i < hole.offset + hole.length))
			expect((unsigned char) leaf->page[i] == foreign, "byte %d is not the engine's", i);
}

static void
HT_KEYED(leaf_verify)(const LEAF *leaf)
{
	static HT_ENTRY out[HT_LEAF_MAX_ENTRIES];
	static HT_ENTRY checked_out[HT_LEAF_MAX_ENTRIES];
	int			checked;
	const char *complaint = HT_KEYED(ht_leaf_read_checked)(leaf->page, checked_out, &checked);
	int			n = HT_KEYED(ht_leaf_read)(leaf->page, out);
	int			counted = 0;

	expect(complaint == NULL, "%s", complaint ? complaint : "");
	expect(checked == n, "read %d entries while checking, and %d", checked, n);
	for (int i = 0; i < n && checked == n; i++)
		expect(HT_KEYED(ht_entry_cmp)(checked_out[i], out[i]) == 0, "entry %d is wrong if the page is checked", i);
	expect(HT_KEYED(ht_leaf_count)(leaf->page) == leaf->n, "count is wrong");
	expect(n == leaf->n, "read %d of %d entries", n, leaf->n);
	for (int i = 0; i < n && n == leaf->n; i++)
		expect(HT_KEYED(ht_entry_cmp)(out[i], leaf->model[i]) == 0, "entry %d is wrong", i);
	for (int b = 0; b < HT_KEYED(ht_leaf_blocks)(leaf->shape); b++)
	{
		int			count = HT_KEYED(ht_leaf_block_count)(leaf->page, b);

		for (int slot = 0; slot < count && counted + slot < leaf->n; slot++)
		{
			HT_ENTRY	entry = HT_KEYED(ht_leaf_entry)(leaf->page, b, slot);
			bool		found = false;

			for (int i = counted; i < counted + count; i++)
				found |= HT_KEYED(ht_entry_cmp)(leaf->model[i], entry) == 0;
			expect(found, "entry %d of block %d is wrong", slot, b);
		}
		counted += count;
	}
	expect(counted == leaf->n, "blocks have %d entries", counted);

	HT_KEYED(expect_range)(leaf, KEY_OF(0), KEY_MAX);
	for (int i = 0; i < 4; i++)
	{
		HT_KEY		key = HT_KEYED(leaf_probe)(leaf);

		HT_KEYED(expect_range)(leaf, key, key);
		HT_KEYED(expect_range)(leaf, key, HT_KEYED(leaf_probe)(leaf));
	}
	HT_KEYED(expect_foreign)(leaf);
}

static HtInsertResult
HT_KEYED(leaf_insert)(LEAF *leaf, HT_ENTRY entry)
{
	int			at = 0;
	HtInsertResult expected = HT_INSERTED;
	HtInsertResult result;

	while (at < leaf->n && HT_KEYED(ht_entry_cmp)(leaf->model[at], entry) < 0)
		at++;
	if (KEY_LESS(entry.key, leaf->shape.base) ||
		KEY_LESS(HT_KEYED(ht_class_max)(leaf->shape.bits), KEY_SUBTRACT(entry.key, leaf->shape.base)) ||
		ht_tid_bytes(entry.tid) > leaf->shape.tid_bytes)
		expected = HT_NO_FIT;
	else if (at < leaf->n && HT_KEYED(ht_entry_cmp)(leaf->model[at], entry) == 0)
		expected = HT_PRESENT;
	else if (leaf->n == HT_KEYED(ht_leaf_capacity)(leaf->shape))
		expected = HT_FULL;

	result = rnd_below(2) ? HT_KEYED(ht_leaf_add)(leaf->page, entry, HT_LEAF_MAX_BLOCKS, &leaf->change) : HT_FULL;
	if (result == HT_FULL)
		result = HT_KEYED(ht_leaf_insert)(leaf->page, entry, &leaf->change);
	expect(result == expected, "insert gave %d, not %d", result, expected);
	if (expected != HT_INSERTED)
		return expected;
	memmove(&leaf->model[at + 1], &leaf->model[at], (size_t) (leaf->n - at) * sizeof(HT_ENTRY));
	leaf->model[at] = entry;
	leaf->n++;
	return expected;
}

/* Remove random entries, a run of neighbours, or everything. */
static void
HT_KEYED(leaf_remove_some)(LEAF *leaf)
{
	bool		dead[HT_LEAF_MAX_ENTRIES];
	int			percent = (const int[]) {1, 10, 50, 90, 99}[rnd_below(5)];
	int			kind = rnd_below(5);
	int			start = rnd_below(leaf->n + 1);
	int			end = start + rnd_below(leaf->n - start + 1);
	int			n = 0;

	for (int i = 0; i < leaf->n; i++)
		dead[i] = kind == 0 ? i >= start : kind == 1 ? i >= start && i < end :
			kind == 2 || rnd_below(100) < percent;
	HT_KEYED(ht_leaf_remove)(leaf->page, dead, &leaf->change);
	for (int i = 0; i < leaf->n; i++)
		if (!dead[i])
			leaf->model[n++] = leaf->model[i];
	leaf->n = n;
}

static void
HT_KEYED(test_leaf_pattern)(int bits, int tid_bytes, Pattern pattern)
{
	LEAF	   *leaf = HT_KEYED(leaf_create)(bits, tid_bytes);
	int			i = 0;

	HT_KEYED(leaf_verify)(leaf);
	for (int round = 0; round < 16 && !failed(); round++)
	{
		int			inserts = rnd_below(3) == 0 ? 2 * HT_KEYED(ht_leaf_capacity)(leaf->shape) : rnd_below(200);
		int			log_every = 1 + rnd_below(rnd_below(2) ? 3 : 300);

		while (inserts-- > 0 && !failed())
		{
			HT_ENTRY	entry = HT_KEYED(pattern_entry)(pattern, leaf->shape, i++);

			if (HT_KEYED(leaf_insert)(leaf, entry) == HT_FULL)
				break;
			if (rnd_below(log_every) == 0)
				HT_KEYED(leaf_log)(leaf);
			if (rnd_below(20) == 0)
				HT_KEYED(leaf_verify)(leaf);
			if (rnd_below(10) == 0)
				expect(HT_KEYED(leaf_insert)(leaf, entry) == HT_PRESENT, "entry is not found again");
		}
		HT_KEYED(leaf_verify)(leaf);

		if (rnd_below(4) == 0)
		{
			leaf->n = rnd_below(leaf->n + 1);
			HT_KEYED(ht_leaf_fill)(leaf->page, leaf->shape, leaf->model, leaf->n);
			memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
			memset(&leaf->change, 0, sizeof(leaf->change));
		}
		else
			HT_KEYED(leaf_remove_some)(leaf);
		HT_KEYED(leaf_verify)(leaf);
		if (rnd_below(2) == 0)
			HT_KEYED(leaf_log)(leaf);
	}
	HT_KEYED(leaf_free)(leaf);
}

/*
 * Entries that come behind those of the page's first key, while another key follows: the free slots are
 * all of use to them, and they do not push others each time.
 */
static void
HT_KEYED(test_leaf_first_key)(int bits, int tid_bytes)
{
	LEAF	   *leaf = HT_KEYED(leaf_create)(bits, tid_bytes);
	int			capacity = HT_KEYED(ht_leaf_capacity)(leaf->shape);
	int			count = capacity * 7 / 8;
	int			first = count / 4;
	int			inserted = 0;

	for (leaf->n = 0; leaf->n < count; leaf->n++)
	{
		leaf->model[leaf->n].key = KEY_ADD(leaf->shape.base, KEY_OF(leaf->n < first ? 1 : 3));
		leaf->model[leaf->n].tid = ascending_tid(leaf->n);
	}
	HT_KEYED(ht_leaf_fill)(leaf->page, leaf->shape, leaf->model, leaf->n);
	memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
	for (;; inserted++)
	{
		HT_ENTRY	entry = {leaf->model[0].key, ascending_tid(first + inserted)};

		if (HT_KEYED(leaf_insert)(leaf, entry) != HT_INSERTED)
			break;
		HT_KEYED(leaf_log)(leaf);
	}
	HT_KEYED(leaf_verify)(leaf);
	expect(inserted == capacity - count, "page is full at %d", leaf->n);
	expect(leaf->bytes < HT_PAGE_SIZE * 5 / 4, "%ld bytes changed by %d entries",
		   (long) leaf->bytes, inserted);
	HT_KEYED(leaf_free)(leaf);
}

/* In the test of hints an entry is dead if its TID says so. */
static bool
HT_KEYED(has_hint)(const LEAF *leaf, HT_ENTRY entry)
{
	int			slot = HT_KEYED(ht_leaf_slot)(leaf->page, entry);
	int			slots = HT_KEYED(ht_leaf_slots)(leaf->shape);

	expect(slot >= 0 &&
		   HT_KEYED(ht_entry_cmp)(HT_KEYED(ht_leaf_entry)(leaf->page, slot / slots, slot % slots), entry) == 0,
		   "an entry is not in its slot");
	return slot >= 0 && (HT_KEYED(ht_leaf_hints)(leaf->page, slot / slots) >> slot % slots & 1) != 0;
}

/* The first entries of a range, "all" of which are these. */
static void
HT_KEYED(expect_some)(const LEAF *leaf, HT_KEY low, HT_KEY high, bool live, const HT_ENTRY *all, int count)
{
	static HT_ENTRY out[HT_LEAF_MAX_ENTRIES];
	int			enough = 1 + (int) rnd_below(rnd_below(2) ? 20 : HT_LEAF_MAX_ENTRIES);
	int			n = HT_KEYED(ht_leaf_read_some)(leaf->page, low, high, live, enough, out);

	expect(n == count || n >= enough, "fewer entries are read than are enough");
	expect(n < enough + HT_KEYED(ht_leaf_slots)(leaf->shape), "a block is read although there are enough entries");
	for (int i = 0; i < n && !failed(); i++)
		expect(i < count && HT_KEYED(ht_entry_cmp)(out[i], all[i]) == 0, "one of the first entries is wrong");
}

/* Every hint is that of a dead entry, and only entries without hints are read. */
static void
HT_KEYED(verify_hints)(const LEAF *leaf)
{
	static HT_ENTRY out[HT_LEAF_MAX_ENTRIES];
	HT_KEY		low = HT_KEYED(leaf_probe)(leaf);
	HT_KEY		high = rnd_below(3) == 0 ? KEY_MAX : HT_KEYED(leaf_probe)(leaf);
	HT_ENTRY	other = {low, HT_TID_MAX - 1};
	int			n = HT_KEYED(ht_leaf_read_live)(leaf->page, low, high, out);
	int			live = 0;
	bool		any = false;

	for (int i = 0; i < leaf->n && !failed(); i++)
	{
		bool		hint = HT_KEYED(has_hint)(leaf, leaf->model[i]);

		any |= hint;
		expect(!hint || leaf->model[i].tid % 3 == 0, "a hint for a live entry");
		if (hint || !HT_KEYED(in_range)(leaf->model[i].key, low, high))
			continue;
		expect(live < n && HT_KEYED(ht_entry_cmp)(out[live], leaf->model[i]) == 0, "an entry without hint is not read");
		live++;
	}
	expect(live == n, "an entry with a hint is read");
	HT_KEYED(expect_some)(leaf, low, high, true, out, n);
	expect(HT_KEYED(ht_leaf_has_hints)(leaf->page) == any, "whether there are hints");
	expect(HT_KEYED(ht_leaf_slot)(leaf->page, other) == -1, "an entry that is not there has a slot");
}

static void
HT_KEYED(test_leaf_hints)(int bits, int tid_bytes)
{
	for (int round = 0; round < 6 && !failed(); round++)
	{
		LEAF	   *leaf = HT_KEYED(leaf_create)(bits, tid_bytes);
		Pattern		pattern = round == 5 ? FIRST_KEY : (Pattern) round;
		HtByteRange hole = HT_KEYED(ht_leaf_hole)(leaf->shape);

		memset(leaf->page + hole.offset, 0, hole.length);
		for (int step = 0; step < 40 && !failed(); step++)
		{
			for (int i = rnd_below(60); i > 0; i--)
				HT_KEYED(leaf_insert)(leaf, HT_KEYED(pattern_entry)(step % 2 == 0 ? pattern : ONE_KEY, leaf->shape, i * step));
			if (rnd_below(10) == 0)
				HT_KEYED(leaf_remove_some)(leaf);
			HT_KEYED(ht_leaf_clear_hints)(leaf->page, &leaf->change);
			memset(&leaf->change, 0, sizeof(leaf->change));
			for (int i = 0; i < leaf->n; i++)
				if (leaf->model[i].tid % 3 == 0 && rnd_below(2) == 0)
					HT_KEYED(ht_leaf_set_hint)(leaf->page, HT_KEYED(ht_leaf_slot)(leaf->page, leaf->model[i]));
			HT_KEYED(verify_hints)(leaf);
		}
		HT_KEYED(leaf_free)(leaf);
	}
}

/* What just fits a leaf is stored; what just does not fit is refused. */
static void
HT_KEYED(test_leaf_limits)(int bits, int tid_bytes)
{
	for (int round = 0; round < 20 && !failed(); round++)
	{
		LEAF	   *leaf = HT_KEYED(leaf_create)(bits, tid_bytes);
		HT_ENTRY	first = {leaf->shape.base, 1};
		HT_ENTRY	last = {KEY_ADD(first.key, HT_KEYED(ht_class_max)(bits)), 1};
		HT_ENTRY	below = {KEY_SUBTRACT(first.key, KEY_OF(1)), 1};
		HT_ENTRY	above = {KEY_ADD(last.key, KEY_OF(1)), 1};
		HT_ENTRY	far = {first.key, (UINT64_C(1) << (8 * tid_bytes - 9)) << 16 | 1};

		expect(HT_KEYED(leaf_insert)(leaf, first) == HT_INSERTED, "the base does not fit");
		expect(HT_KEYED(leaf_insert)(leaf, last) == (bits == 0 ? HT_PRESENT : HT_INSERTED), "the greatest key does not fit");
		if (!KEY_EQUAL(first.key, KEY_OF(0)))
			expect(HT_KEYED(leaf_insert)(leaf, below) == HT_NO_FIT, "a key below the base fits");
		if (!KEY_EQUAL(last.key, KEY_MAX))
			expect(HT_KEYED(leaf_insert)(leaf, above) == HT_NO_FIT, "a key beyond the class fits");
		if (tid_bytes < HT_TID_BYTES)
			expect(HT_KEYED(leaf_insert)(leaf, far) == HT_NO_FIT, "a block beyond the width fits");
		HT_KEYED(leaf_verify)(leaf);
		HT_KEYED(leaf_log)(leaf);
		HT_KEYED(leaf_free)(leaf);
	}
}

/* A page can be filled again with another shape; nothing of the former one shows. */
static void
HT_KEYED(test_leaf_reshape)(int bits, int tid_bytes)
{
	for (int round = 0; round < 30 && !failed(); round++)
	{
		int			former = classes[rnd_below(HT_KEYS == 128 ? 6 : 8)];
		LEAF	   *leaf = HT_KEYED(leaf_create)(former, 4 + rnd_below(3));

		for (int i = rnd_below(1300); i > 0; i--)
			HT_KEYED(ht_leaf_insert)(leaf->page, HT_KEYED(pattern_entry)(RANDOM_KEYS, leaf->shape, i), &leaf->change);
		leaf->shape = HT_KEYED(random_shape)(bits, tid_bytes);
		leaf->n = rnd_below(HT_KEYED(ht_leaf_capacity)(leaf->shape) + 1);
		for (int i = 0; i < leaf->n; i++)
			leaf->model[i] = HT_KEYED(pattern_entry)(RANDOM_KEYS, leaf->shape, i);
		qsort(leaf->model, (size_t) leaf->n, sizeof(HT_ENTRY), HT_KEYED(compare_entries));
		for (int i = 1; i < leaf->n; i++)
			if (HT_KEYED(ht_entry_cmp)(leaf->model[i - 1], leaf->model[i]) == 0)
				leaf->n = i;
		HT_KEYED(ht_leaf_fill)(leaf->page, leaf->shape, leaf->model, leaf->n);
		HT_KEYED(paint_hole)(leaf);
		memset(leaf->page + HT_PAGE_END, leaf->page[0], HT_PAGE_SIZE - HT_PAGE_END);
		HT_KEYED(leaf_verify)(leaf);
		HT_KEYED(leaf_free)(leaf);
	}
}

/* Each byte that says something of a leaf: a wrong one is noticed. */
static void
HT_KEYED(test_leaf_check)(int bits, int tid_bytes)
{
	LEAF	   *leaf = HT_KEYED(leaf_create)(bits, tid_bytes);
	int			n = HT_KEYED(ht_leaf_capacity)(leaf->shape) / 2;
	int			separators = HT_LEAF_SEPARATORS_AT;
	int			block = HT_KEYED(ht_leaf_blocks_at)(leaf->shape);
	char		saved[HT_PAGE_SIZE];

	for (int i = 0; i < n; i++)
	{
		leaf->model[i].key = KEY_ADD(leaf->shape.base, KEY_OF(bits == 0 ? 0 : (uint64_t) (i + 1) * 50));
		leaf->model[i].tid = (uint64_t) i << 16 | 1;
	}
	HT_KEYED(ht_leaf_fill)(leaf->page, leaf->shape, leaf->model, n);
	memcpy(saved, leaf->page, HT_PAGE_SIZE);
	expect(HT_KEYED(ht_leaf_check)(leaf->page) == NULL, "page is not sound");
	for (int i = HT_LEAF_CLASS_AT; i < HT_LEAF_SEPARATORS_AT && !failed(); i++)
	{
		bool		is_base = i >= HT_WIDE_BASE_AT && i < HT_WIDE_BASE_AT + HT_KEYS / 8;
		bool		is_free = bits == 0 ? i >= 80 && !is_base && i < HT_WIDE_BASE_AT : bits == 16 ? i >= 82 && !is_base && i < HT_WIDE_BASE_AT :
			bits == 32 ? i >= 92 && !is_base && i < HT_WIDE_BASE_AT : false;

		leaf->page[i] = (char) (leaf->page[i] + 7);
		if (!is_base && !is_free)
			expect(HT_KEYED(ht_leaf_check)(leaf->page) != NULL, "byte %d is wrong, and not noticed", i);
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
	}

	/* The first separator's highest byte, a count, and an entry twice. */
	if (bits > 0)
	{
		leaf->page[separators + (bits < 64 ? bits / 8 - 1 : 7)] = (char) 0xFF;
		expect(HT_KEYED(ht_leaf_check)(leaf->page) != NULL, "separator too high");
		memcpy(leaf->page, saved, HT_PAGE_SIZE);
	}
	leaf->page[block + HT_KEYED(ht_leaf_block_size)(leaf->shape) - 2] = 100;
	expect(HT_KEYED(ht_leaf_check)(leaf->page) != NULL, "count above the number of slots");
	memcpy(leaf->page, saved, HT_PAGE_SIZE);
	memset(leaf->page + HT_WIDE_BASE_AT, 0xFF, HT_KEYS / 8);
	expect(bits == 0 || HT_KEYED(ht_leaf_check)(leaf->page) != NULL, "a base too high for the keys");
	HT_KEYED(leaf_free)(leaf);
}

/*
 * Whatever bytes a page has: nothing outside of it is written, every operation ends, and check
 * reports damage or the page is in order.
 */
static void
HT_KEYED(test_leaf_damaged)(int bits, int tid_bytes)
{
	static HT_ENTRY out[HT_LEAF_MAX_ENTRIES];
	static bool dead[HT_LEAF_MAX_ENTRIES];

	for (int round = 0; round < 300 && !failed(); round++)
	{
		LEAF	   *leaf = HT_KEYED(leaf_create)(bits, tid_bytes);
		int			kind = rnd_below(4);
		int			from = kind == 1 ? HT_LEAF_SEPARATORS_AT : HT_PAGE_START;
		int			to = kind == 2 ? HT_LEAF_SEPARATORS_AT : HT_PAGE_END;
		int			blocks_at = HT_KEYED(ht_leaf_blocks_at)(leaf->shape);
		int			size = HT_KEYED(ht_leaf_block_size)(leaf->shape);
		bool		sound;
		int			count;

		for (int i = rnd_below(HT_LEAF_MAX_ENTRIES); i > 0; i--)
			HT_KEYED(ht_leaf_insert)(leaf->page, HT_KEYED(pattern_entry)((Pattern) (round % N_PATTERNS), leaf->shape, i),
									 &leaf->change);
		if (kind == 3)
			for (int i = 0; i < 10; i++)
				leaf->page[blocks_at + (rnd_below(HT_KEYED(ht_leaf_blocks)(leaf->shape)) + 1) * size - 2] = (char) rnd();
		else
			for (int i = from; i < to; i++)
				if (rnd_below(round % 2 ? 1 : 50) == 0)
					leaf->page[i] = (char) rnd();

		sound = HT_KEYED(ht_leaf_check)(leaf->page) == NULL;
		count = HT_KEYED(ht_leaf_count)(leaf->page);
		expect(count >= 0 && count <= HT_LEAF_MAX_ENTRIES, "count of %d entries", count);
		expect(HT_KEYED(ht_leaf_read)(leaf->page, out) == count, "read other than the count");
		for (int i = 1; i < count && sound; i++)
			expect(HT_KEYED(ht_entry_cmp)(out[i - 1], out[i]) < 0, "a sound page, but out of order");
		for (int i = 0; i < 10; i++)
		{
			int			n = HT_KEYED(ht_leaf_read_range)(leaf->page, HT_KEYED(leaf_probe)(leaf), HT_KEYED(leaf_probe)(leaf), out);

			expect(n >= 0 && n <= count, "%d entries of %d in a range", n, count);
		}
		for (int i = 0; i < 100; i++)
			HT_KEYED(ht_leaf_insert)(leaf->page, HT_KEYED(pattern_entry)((Pattern) rnd_below(N_PATTERNS), leaf->shape, i),
									 &leaf->change);
		for (int i = 0; i < HT_LEAF_MAX_ENTRIES; i++)
			dead[i] = rnd_below(2);
		HT_KEYED(ht_leaf_remove)(leaf->page, dead, &leaf->change);
		HT_KEYED(paint_hole)(leaf);
		HT_KEYED(expect_foreign)(leaf);
		HT_KEYED(leaf_free)(leaf);
	}
}

/* ----------------------------------------------------------------
 *		Searching
 * ----------------------------------------------------------------
 */

/* A leaf that was filled and then changed, so that blocks are not in order. */
static void
HT_KEYED(make_leaf)(LEAF *leaf, int bits, int tid_bytes, Pattern pattern)
{
	int			n;

	leaf->shape = HT_KEYED(random_shape)(bits, tid_bytes);
	HT_KEYED(ht_leaf_init)(leaf->page, leaf->shape);
	n = rnd_below(HT_KEYED(ht_leaf_capacity)(leaf->shape) + 1);
	for (int i = 0; i < n; i++)
		HT_KEYED(ht_leaf_insert)(leaf->page, HT_KEYED(pattern_entry)(pattern, leaf->shape, i), &leaf->change);
	leaf->n = HT_KEYED(ht_leaf_read)(leaf->page, leaf->model);
	if (rnd_below(2))
		HT_KEYED(leaf_remove_some)(leaf);
}

static int
HT_KEYED(compare_hits)(const void *a, const void *b)
{
	const HtHit *x = a;
	const HtHit *y = b;

	if (x->probe != y->probe)
		return x->probe < y->probe ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Hints for some of the leaf's entries, or for none. */
static void
HT_KEYED(set_hints)(LEAF *leaf)
{
	HtByteRange hole = HT_KEYED(ht_leaf_hole)(leaf->shape);
	int			one_of = 1 + rnd_below(8);

	memset(leaf->page + hole.offset, 0, hole.length);
	if (rnd_below(3) == 0)
		return;
	for (int i = 0; i < leaf->n; i++)
		if (rnd_below(one_of) == 0)
			HT_KEYED(ht_leaf_set_hint)(leaf->page, HT_KEYED(ht_leaf_slot)(leaf->page, leaf->model[i]));
}

static void
HT_KEYED(expect_has_hints)(const HT_SEARCH *search, const LEAF *leaf, const HT_PROBE *probes, uint32_t count)
{
	bool		expected = HT_KEYED(ht_leaf_has_hints)(leaf->page);

	if (count > 0 && count <= HT_FEW_PROBES)
	{
		expected = false;
		for (uint32_t i = 0; i < count; i++)
		{
			int			block = (int) probes[i].hint;

			if (probes[i].hint >= (uint32_t) HT_KEYED(ht_leaf_blocks)(leaf->shape))
				block = 0;
			expected |= HT_KEYED(ht_leaf_hints)(leaf->page, block) != 0;
		}
	}
	expect(search->has_hints(leaf->page, probes, count) == expected, "hints of %u probes", count);
}

static int
HT_KEYED(expected_hits)(const LEAF *leaf, HT_KEY low, HT_KEY high, uint32_t probe, bool live, HtHit *hits)
{
	int			n = 0;

	for (int i = 0; i < leaf->n; i++)
		if (HT_KEYED(in_range)(leaf->model[i].key, low, high) &&
			!(live && HT_KEYED(has_hint)(leaf, leaf->model[i])))
			hits[n++] = (HtHit) {leaf->model[i].tid, probe, 0};
	return n;
}

static void
HT_KEYED(compare)(const LEAF *leaf, HtHit *hits, const HT_KEY *keys, int n, HtHit *expected, int n_expected,
				  const char *what)
{
	expect(n == n_expected, "%d hits of %s instead of %d", n, what, n_expected);
	for (int i = 0; i < n && keys != NULL && !failed(); i++)
	{
		bool		found = false;

		for (int j = 0; j < leaf->n; j++)
			found |= leaf->model[j].tid == hits[i].tid && KEY_EQUAL(leaf->model[j].key, keys[i]);
		expect(found, "a hit of %s has another key", what);
	}
	if (failed())
		return;
	qsort(hits, (size_t) n, sizeof(HtHit), HT_KEYED(compare_hits));
	qsort(expected, (size_t) n, sizeof(HtHit), HT_KEYED(compare_hits));
	for (int i = 0; i < n; i++)
		expect(hits[i].probe == expected[i].probe && hits[i].tid == expected[i].tid && hits[i].all_visible == 0,
			   "hit %d of %s is wrong", i, what);
}

#define HITS	(50 * HT_LEAF_MAX_ENTRIES)

/*
 * The hint for a key that the leaf can store is the first block that can have it: no block
 * before it can, and it is not before a block that cannot either.
 */
static void
HT_KEYED(expect_hint)(const LEAF *leaf, const HT_PROBE *probe)
{
	if (!HT_KEYED(ht_leaf_fits_key)(leaf->shape, probe->key))
		return;
	for (int b = 0; b < HT_KEYED(ht_leaf_blocks)(leaf->shape); b++)
		for (int slot = 0; slot < HT_KEYED(ht_leaf_block_count)(leaf->page, b); slot++)
		{
			HT_KEY		key = HT_KEYED(ht_leaf_entry)(leaf->page, b, slot).key;

			expect(b >= (int) probe->hint || KEY_LESS(key, probe->key), "hint %u is too high", probe->hint);
			expect(b <= (int) probe->hint || !KEY_LESS(key, probe->key), "hint %u is too low", probe->hint);
		}
}

/* Lengths of ranges: some are shorter than gaps between keys, some longer than the leaf's reach. */
static HT_KEY
HT_KEYED(random_length)(void)
{
	return rnd_below(4) == 0 ? KEY_OF((uint64_t) rnd_below(4)) : HT_KEYED(rnd_key)(rnd_below(HT_KEYS + 1));
}

/* Points, or ranges of one length, which is 0 now and then. */
static void
HT_KEYED(try_probes)(const HT_SEARCH *search, const LEAF *leaf, bool are_ranges, uint32_t room)
{
	static HtHit hits[HITS],
				expected[HITS];
	static HT_KEY keys[HITS];
	HT_PROBE	probes[40];
	uint32_t	count = (uint32_t) rnd_below(41);
	uint32_t	found = UINT32_MAX;
	uint32_t	answered;
	bool		want_keys = rnd_below(2);
	uint32_t	slots = (uint32_t) HT_KEYED(ht_leaf_slots)(leaf->shape);
	HT_KEY		length = are_ranges ? HT_KEYED(random_length)() : KEY_OF(0);
	HT_KEY		last = KEY_SUBTRACT(KEY_MAX, length);
	const char *what = are_ranges ? "ranges" : "points";
	int			n = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		HT_KEY		key = HT_KEYED(leaf_probe)(leaf);

		key = KEY_LESS(last, key) ? last : key;
		probes[i] = (HT_PROBE) {key, 1000 + i, (uint32_t) rnd_below(70)};
	}
	search->prefetch_separators(leaf->page, probes, count);
	if (rnd_below(2))
	{
		search->prefetch_blocks(leaf->page, probes, count, rnd_below(2));
		for (uint32_t i = 0; i < count && i < 2; i++)
			HT_KEYED(expect_hint)(leaf, &probes[i]);
	}
	for (uint32_t i = 0; i < count; i++)
		if (rnd_below(4) == 0)
			probes[i].hint += (uint32_t) (rnd_below(5) - 2);
	HT_KEYED(expect_has_hints)(search, leaf, probes, count);
	HT_KEYED(expect_has_hints)(search, leaf, probes, count % (HT_FEW_PROBES + 2));
	if (are_ranges)
		answered = search->ranges(leaf->page, probes, count, length, hits, want_keys ? keys : NULL, room, &found);
	else
		answered = search->points(leaf->page, probes, count, hits, want_keys ? keys : NULL, room, &found);
	expect(answered <= count && found <= room, "%u answered of %u, %u hits in room for %u",
		   answered, count, found, room);
	for (uint32_t i = 0; i <= answered && i < count && !failed(); i++)
	{
		int			more = HT_KEYED(expected_hits)(leaf, probes[i].key, KEY_ADD(probes[i].key, length), probes[i].number,
												 false, expected + n);

		if (i < answered)
			n += more;
		else
			expect((uint32_t) n + slots > room || (uint32_t) (n + more) > room, "stopped for nothing at probe %u", i);
	}
	if (!failed())
		HT_KEYED(compare)(leaf, hits, want_keys ? keys : NULL, (int) found, expected, n, what);
}

static void
HT_KEYED(try_range)(const HT_SEARCH *search, const LEAF *leaf, uint32_t room)
{
	static HtHit hits[HT_LEAF_MAX_ENTRIES],
				expected[HT_LEAF_MAX_ENTRIES];
	static HT_KEY keys[HT_LEAF_MAX_ENTRIES];
	HT_KEY		low = HT_KEYED(leaf_probe)(leaf);
	HT_KEY		high = rnd_below(3) == 0 ? low : HT_KEYED(leaf_probe)(leaf);
	bool		want_keys = rnd_below(2);
	bool		live = rnd_below(2);
	uint32_t	n;
	int			n_expected;

	n = search->range(leaf->page, low, high, 77, live, hits, want_keys ? keys : NULL, room);
	n_expected = HT_KEYED(expected_hits)(leaf, low, high, 77, live, expected);
	if (n == HT_NO_ROOM)
		expect(room < (uint32_t) n_expected, "no room for %d hits in %u", n_expected, room);
	else
		HT_KEYED(compare)(leaf, hits, want_keys ? keys : NULL, (int) n, expected, n_expected, "a range");
}

static void
HT_KEYED(try_damaged)(const HT_SEARCH *search, LEAF *leaf)
{
	static HtHit hits[HT_LEAF_MAX_ENTRIES + 1];
	static HT_KEY keys[HT_LEAF_MAX_ENTRIES + 1];
	HT_PROBE	probes[10];
	uint32_t	found;

	for (int i = 0; i < HT_PAGE_SIZE; i++)
		if (rnd_below(3) == 0)
			leaf->page[i] = (char) rnd();
	for (int i = 0; i < 10; i++)
		probes[i] = (HT_PROBE) {HT_KEYED(leaf_probe)(leaf), (uint32_t) i, 0};
	hits[HT_LEAF_MAX_ENTRIES].tid = 4711;
	search->prefetch_separators(leaf->page, probes, 10);
	search->prefetch_blocks(leaf->page, probes, 10, true);
	search->has_hints(leaf->page, probes, 2);
	search->has_hints(leaf->page, probes, 10);
	search->points(leaf->page, probes, 10, hits, keys, HT_LEAF_MAX_ENTRIES, &found);
	expect(found <= HT_LEAF_MAX_ENTRIES, "%u hits", found);
	search->ranges(leaf->page, probes, 10, HT_KEYED(random_length)(), hits, keys, HT_LEAF_MAX_ENTRIES, &found);
	expect(found <= HT_LEAF_MAX_ENTRIES, "%u hits of ranges", found);
	search->range(leaf->page, probes[0].key, probes[1].key, 0, false, hits, keys, HT_LEAF_MAX_ENTRIES);
	search->range(leaf->page, KEY_OF(0), KEY_MAX, 0, true, hits, keys, HT_LEAF_MAX_ENTRIES);
	expect(hits[HT_LEAF_MAX_ENTRIES].tid == 4711, "wrote beyond the room");
}

static void
HT_KEYED(test_search)(int bits, int tid_bytes)
{
	static const char *const names[] = {"portable", "avx2", "avx512"};
	LEAF	   *leaf = HT_KEYED(leaf_create)(bits, tid_bytes);

	expect(HT_KEYED(ht_search)("mmx") == NULL && HT_KEYED(ht_search)(NULL) != NULL, "variants");
	for (int variant = 0; variant < 3; variant++)
	{
		const HT_SEARCH *search = HT_KEYED(ht_search)(names[variant]);

		if (search == NULL)
			continue;
		for (int round = 0; round < 10 * N_PATTERNS && !failed(); round++)
		{
			HT_KEYED(make_leaf)(leaf, bits, tid_bytes, (Pattern) (round % N_PATTERNS));
			for (int i = 0; i < 5 && !failed(); i++)
			{
				uint32_t	room = rnd_below(2) ? HT_LEAF_MAX_ENTRIES : (uint32_t) rnd_below(60);

				HT_KEYED(set_hints)(leaf);
				HT_KEYED(try_probes)(search, leaf, false, room);
				HT_KEYED(try_probes)(search, leaf, true, room);
				HT_KEYED(try_range)(search, leaf, room);
			}
			HT_KEYED(try_damaged)(search, leaf);
			memset(leaf->page, 0, HT_PAGE_SIZE);
		}
	}
	HT_KEYED(leaf_free)(leaf);
}

/* ----------------------------------------------------------------
 *		Sorting, aggregation, inner nodes
 * ----------------------------------------------------------------
 */

static void
HT_KEYED(try_sort)(Pattern pattern, int bits, size_t n)
{
	HT_ENTRY   *entries = allocate(n * sizeof(HT_ENTRY) + 1);
	HT_ENTRY   *expected = allocate(n * sizeof(HT_ENTRY) + 1);
	HT_ENTRY   *scratch = allocate(n * sizeof(HT_ENTRY) + 1);

	for (size_t i = 0; i < n; i++)
	{
		entries[i].key = HT_KEYED(pattern_key)(pattern, bits, (int) i);
		entries[i].tid = rnd_below(2) ? i : rnd_tid();
	}
	memcpy(expected, entries, n * sizeof(HT_ENTRY));
	qsort(expected, n, sizeof(HT_ENTRY), HT_KEYED(compare_entries));
	HT_KEYED(ht_sort_entries)(entries, scratch, n);
	for (size_t i = 0; i < n && !failed(); i++)
		expect(HT_KEYED(ht_entry_cmp)(entries[i], expected[i]) == 0, "entry %zu of %zu is wrong", i, n);
	free(entries);
	free(expected);
	free(scratch);
}

static void
HT_KEYED(try_batch)(Pattern pattern, int bits, uint32_t n)
{
	HT_KEY	   *keys = allocate((n + 1) * sizeof(HT_KEY));
	uint8_t    *seen = allocate(n + 1);
	HT_PROBE   *probes = allocate((n + 1) * sizeof(HT_PROBE));
	HT_PSA	   *psa = allocate(sizeof(HT_PSA));
	HT_PROBE   *scratch;
	uint32_t	sorted = 0;

	for (uint32_t i = 0; i < n; i++)
		keys[i] = HT_KEYED(pattern_key)(pattern, bits, (int) i);
	memset(seen, 0, n);
	HT_KEYED(ht_psa_start)(psa, keys, n, probes);
	expect(psa->largest <= n, "%u of %u in a partition", psa->largest, n);
	scratch = allocate((psa->largest + 1) * sizeof(HT_PROBE));
	while (sorted < n && !failed())
	{
		uint32_t	more = HT_KEYED(ht_psa_more)(psa, scratch);

		expect(more > sorted && more <= n && more == psa->sorted, "%u sorted of %u after %u", more, n, sorted);
		for (; sorted < more && !failed(); sorted++)
		{
			uint32_t	number = probes[sorted].number;

			expect(sorted == 0 || !KEY_LESS(probes[sorted].key, probes[sorted - 1].key), "probe %u of %u is out of order",
				   sorted, n);
			expect(number < n && KEY_EQUAL(keys[number], probes[sorted].key) && !seen[number],
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
HT_KEYED(test_node)(Pattern pattern, HtWidth width, int fanout)
{
	size_t		size = ht_node_size(width, fanout);
	char	   *node = allocate(size + 8);
	HT_ENTRY	separators[HT_MAX_FANOUT];
	int			n = rnd_below(fanout);

	memset(node + size, foreign, 8);
	ht_node_init(node, width, fanout);
	for (int i = 0; i < n; i++)
	{
		separators[i].key = HT_KEYED(pattern_key)(pattern, 8 * (int) width, i);
		separators[i].tid = (uint64_t) rnd_below(3) << 16 | (uint64_t) rnd_below(3);
	}
	qsort(separators, (size_t) n, sizeof(HT_ENTRY), HT_KEYED(compare_entries));
	for (int i = 0; i < n; i++)
		HT_KEYED(ht_node_set)(node, width, fanout, i, separators[i]);
	for (int i = 0; i < n; i++)
		expect(HT_KEYED(ht_entry_cmp)(HT_KEYED(ht_node_get)(node, width, fanout, i), separators[i]) == 0, "separator %d", i);
	for (int round = 0; round < 50 && !failed(); round++)
	{
		HT_ENTRY	entry = {HT_KEYED(pattern_key)(pattern, 8 * (int) width, round), (uint64_t) rnd_below(3) << 16};
		int			below = 0;
		int			not_above = 0;

		if (n > 0 && rnd_below(2))
			entry = separators[rnd_below(n)];
		for (int i = 0; i < n; i++)
		{
			below += HT_KEYED(ht_entry_cmp)(separators[i], entry) < 0;
			not_above += HT_KEYED(ht_entry_cmp)(separators[i], entry) <= 0;
		}
		expect(HT_KEYED(ht_node_count_lt)(node, width, fanout, entry) == below, "separators below an entry");
		expect(HT_KEYED(ht_node_count_le)(node, width, fanout, entry) == not_above, "separators not above an entry");
	}
	for (int i = 0; i < 8; i++)
		expect((unsigned char) node[size + (size_t) i] == foreign, "wrote beyond the node");
	free(node);
}

static void
HT_KEYED(test_width)(void)
{
	int			count = HT_KEYS == 128 ? 6 : 8;

	for (int i = 0; i < count; i++)
	{
		for (int tid_bytes = 4; tid_bytes <= 6; tid_bytes++)
		{
			for (int pattern = 0; pattern < N_PATTERNS; pattern++)
				HT_KEYED(test_leaf_pattern)(classes[i], tid_bytes, (Pattern) pattern);
			if (classes[i] > 0)
				HT_KEYED(test_leaf_first_key)(classes[i], tid_bytes);
			HT_KEYED(test_leaf_limits)(classes[i], tid_bytes);
			HT_KEYED(test_leaf_hints)(classes[i], tid_bytes);
			HT_KEYED(test_leaf_reshape)(classes[i], tid_bytes);
			HT_KEYED(test_leaf_check)(classes[i], tid_bytes);
			HT_KEYED(test_leaf_damaged)(classes[i], tid_bytes);
			report("%d-bit keys: %d-bit leaf, %d-byte tids", HT_KEYS, classes[i], tid_bytes);
			HT_KEYED(test_search)(classes[i], tid_bytes);
			report("%d-bit keys: %d-bit search, %d-byte tids", HT_KEYS, classes[i], tid_bytes);
		}
	}
	for (int pattern = 0; pattern < N_PATTERNS; pattern++)
	{
		for (int bits = 96; bits <= HT_KEYS; bits += 32)
		{
			for (int n = 0; n < 100; n += 7)
				HT_KEYED(try_sort)((Pattern) pattern, bits, (size_t) n);
			HT_KEYED(try_sort)((Pattern) pattern, bits, (size_t) rnd_below(5000));
			for (uint32_t n = 0; n < 100; n += 9)
				HT_KEYED(try_batch)((Pattern) pattern, bits, n);
			HT_KEYED(try_batch)((Pattern) pattern, bits, (uint32_t) rnd_below(30000));
			for (int fanout = 8; fanout <= HT_MAX_FANOUT; fanout *= 2)
				HT_KEYED(test_node)((Pattern) pattern, (HtWidth) (bits / 8), fanout);
		}
		HT_KEYED(try_sort)((Pattern) pattern, HT_KEYS, 100000);
		HT_KEYED(try_batch)((Pattern) pattern, HT_KEYS, 100000);
		report("%d-bit keys: sort, aggregation and nodes, %s", HT_KEYS, pattern_names[pattern]);
	}
}

#undef LEAF

#undef HITS
#include "../../src/tree/key_macros_end.h"
