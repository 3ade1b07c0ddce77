/*
 * leaf_model.c
 *		Leaf pages under test, each with a sorted array of what it should hold.
 */
#include "leaf_model.h"

#include "tap.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char foreign = 0xA5; /* fills bytes that are not the engine's */

void
leaf_paint_hole(Leaf *leaf)
{
	HtByteRange hole = ht_leaf_hole(leaf->shape);

	memset(leaf->page + hole.offset, foreign, hole.length);
}

Leaf *
leaf_create(int bits, int tid_bytes)
{
	Leaf *leaf = allocate(sizeof(Leaf));

	memset(leaf, 0, sizeof(*leaf));
	leaf->shape = random_shape(bits, tid_bytes);
	leaf->allocation = allocate(HT_PAGE_SIZE + 8);
	leaf->page = leaf->allocation + 8;
	leaf->logged = allocate(HT_PAGE_SIZE);
	memset(leaf->page, foreign, HT_PAGE_SIZE);
	ht_leaf_init(leaf->page, leaf->shape);
	memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
	return leaf;
}

void
leaf_free(Leaf *leaf)
{
	free(leaf->allocation);
	free(leaf->logged);
	free(leaf);
}

/* Copy the byte ranges to the logged page, which must then equal the page. */
void
leaf_log(Leaf *leaf)
{
	HtByteRange ranges[HT_LEAF_MAX_RANGES + 1];
	int end = HT_PAGE_START - 8;
	int n;

	memset(ranges, 0, sizeof(ranges));
	n = ht_leaf_change_ranges(leaf->page, &leaf->change, ranges);
	expect(n >= 0 && n <= HT_LEAF_MAX_RANGES, "%d ranges", n);
	expect(ranges[HT_LEAF_MAX_RANGES].length == 0, "wrote beyond the last range");
	for (int i = 0; i < n && !failed(); i++)
	{
		expect(ranges[i].length > 0 && ranges[i].offset > end + 4 &&
				   ranges[i].offset + ranges[i].length <= HT_PAGE_END,
			   "range %d is %d+%d after %d", i, ranges[i].offset, ranges[i].length, end);
		end = ranges[i].offset + ranges[i].length;
		memcpy(leaf->logged + ranges[i].offset, leaf->page + ranges[i].offset, ranges[i].length);
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
	int i = 0;

	while (i < leaf->n && ht_entry_cmp(leaf->model[i], entry) < 0)
		i++;
	return i;
}

void
leaf_expect_range(const Leaf *leaf, uint64_t low, uint64_t high)
{
	HtEntry out[HT_LEAF_MAX_ENTRIES];
	int n = ht_leaf_read_range(leaf->page, low, high, out);
	int expected = 0;

	for (int i = 0; i < leaf->n; i++)
	{
		if (leaf->model[i].key < low || leaf->model[i].key > high)
			continue;
		if (expected < n)
			expect(ht_entry_cmp(out[expected], leaf->model[i]) == 0,
				   "entry %d of range %llx..%llx is wrong", expected, (unsigned long long) low,
				   (unsigned long long) high);
		expected++;
	}
	expect(n == expected, "%d of %d entries in range %llx..%llx", n, expected,
		   (unsigned long long) low, (unsigned long long) high);
	leaf_expect_some(leaf, low, high, false, out, n);
}

void
leaf_expect_some(const Leaf *leaf, uint64_t low, uint64_t high, bool live, const HtEntry *all,
				 int count)
{
	HtEntry out[HT_LEAF_MAX_ENTRIES];
	int enough = 1 + (int) rnd_below(rnd_below(2) ? 40 : HT_LEAF_MAX_ENTRIES);
	int n = ht_leaf_read_some(leaf->page, low, high, live, enough, out);

	expect(n == count || n >= enough,
		   "%d entries are read, of %d, which are not the %d that are enough", n, count, enough);
	expect(n < enough + ht_leaf_slots(leaf->shape), "%d entries are read, where %d are enough", n,
		   enough);
	for (int i = 0; i < n && !failed(); i++)
		expect(i < count && ht_entry_cmp(out[i], all[i]) == 0, "entry %d of the first %d is wrong",
			   i, n);
}

uint64_t
leaf_probe(const Leaf *leaf)
{
	uint64_t base = leaf->shape.base;
	uint64_t max = ht_class_max(leaf->shape.bits);

	switch (rnd_below(leaf->n > 0 ? 6 : 4))
	{
		case 0:
			return base + (rnd() & max);
		case 1:
			return rnd_below(2) ? base + max : base;
		case 2:
			return rnd_below(2) ? base - 1 : base + max + 1;
		case 3:
			return rnd_below(2) ? rnd() : rnd_below(2) ? UINT64_MAX : 0;
		default:
			return leaf->model[rnd_below(leaf->n)].key + (uint64_t) rnd_below(3) - 1;
	}
}

void
leaf_expect_foreign(const Leaf *leaf)
{
	HtByteRange hole = ht_leaf_hole(leaf->shape);

	for (int i = 0; i < HT_PAGE_SIZE; i++)
		if (i < HT_PAGE_START || i >= HT_PAGE_END ||
			(i >= hole.offset && i < hole.offset + hole.length))
			expect((unsigned char) leaf->page[i] == foreign, "byte %d is not the engine's", i);
}

/* Compare the page with the model by every function that reads it. */
void
leaf_verify(const Leaf *leaf)
{
	HtEntry out[HT_LEAF_MAX_ENTRIES];
	HtEntry checked_out[HT_LEAF_MAX_ENTRIES];
	int checked;
	const char *complaint = ht_leaf_read_checked(leaf->page, checked_out, &checked);
	int n = ht_leaf_read(leaf->page, out);

	expect(complaint == NULL, "%s", complaint ? complaint : "");
	expect(checked == n, "read %d entries while checking, and %d", checked, n);
	for (int i = 0; i < n && checked == n; i++)
		expect(ht_entry_cmp(checked_out[i], out[i]) == 0,
			   "entry %d is wrong if the page is checked", i);
	expect(ht_leaf_count(leaf->page) == leaf->n, "count is wrong");
	expect(n == leaf->n, "read %d of %d entries", n, leaf->n);
	if (n == leaf->n)
		for (int i = 0; i < n; i++)
			expect(ht_entry_cmp(out[i], leaf->model[i]) == 0, "entry %d is wrong", i);

	leaf_expect_range(leaf, 0, UINT64_MAX);
	for (int i = 0; i < 4; i++)
	{
		uint64_t key = leaf_probe(leaf);

		leaf_expect_range(leaf, key, key);
		leaf_expect_range(leaf, key, leaf_probe(leaf));
	}
	leaf_expect_foreign(leaf);
}

/* Try ht_leaf_add(), which may refuse, but then changes nothing. */
static HtInsertResult
try_to_add(Leaf *leaf, HtEntry entry, bool above_all)
{
	char before[HT_PAGE_SIZE];
	int end = rnd_below(2) ? HT_LEAF_MAX_BLOCKS : rnd_below(ht_leaf_blocks(leaf->shape));
	HtInsertResult result;

	memcpy(before, leaf->page, HT_PAGE_SIZE);
	result = ht_leaf_add(leaf->page, entry, end, &leaf->change);
	if (result != HT_INSERTED)
		expect(memcmp(before, leaf->page, HT_PAGE_SIZE) == 0,
			   "page changed although nothing was added");
	else if (above_all)
		expect(leaf->n < end * ht_leaf_slots(leaf->shape), "entry was added behind block %d", end);
	return result;
}

HtInsertResult
leaf_insert(Leaf *leaf, HtEntry entry)
{
	int at = leaf_position(leaf, entry);
	HtInsertResult expected = HT_INSERTED;
	HtInsertResult result;

	if (!ht_leaf_fits(leaf->shape, entry))
		expected = HT_NO_FIT;
	else if (at < leaf->n && ht_entry_cmp(leaf->model[at], entry) == 0)
		expected = HT_PRESENT;
	else if (leaf->n == ht_leaf_capacity(leaf->shape))
		expected = HT_FULL;

	result = rnd_below(2) ? try_to_add(leaf, entry, at == leaf->n) : HT_FULL;
	if (result == HT_FULL)
		result = ht_leaf_insert(leaf->page, entry, &leaf->change);
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
	int n = 0;

	ht_leaf_remove(leaf->page, dead, &leaf->change);
	for (int i = 0; i < leaf->n; i++)
		if (!dead[i])
			leaf->model[n++] = leaf->model[i];
	leaf->n = n;
}

/* Remove random entries, a run of neighbours, or everything. */
void
leaf_remove_some(Leaf *leaf)
{
	bool dead[HT_LEAF_MAX_ENTRIES];
	int percent = (const int[]){1, 10, 50, 90, 99}[rnd_below(5)];
	int kind = rnd_below(5);
	int start = rnd_below(leaf->n + 1);
	int end = kind == 0 ? leaf->n : start + rnd_below(leaf->n - start + 1);

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

void
leaf_fill(Leaf *leaf, int n)
{
	leaf->n = n;
	ht_leaf_fill(leaf->page, leaf->shape, leaf->model, leaf->n);
	memcpy(leaf->logged, leaf->page, HT_PAGE_SIZE);
	memset(&leaf->change, 0, sizeof(leaf->change));
}

HtEntry
pattern_entry(Pattern pattern, HtLeafShape shape, int i)
{
	static uint64_t run = 0;
	uint64_t max = ht_class_max(shape.bits);
	HtEntry entry = {rnd() & max, rnd_tid_of(shape.tid_bytes)};

	switch (pattern)
	{
		case ASCENDING:
			entry.key = (uint64_t) i * 3 & max;
			break;
		case DESCENDING:
			entry.key = max - ((uint64_t) i * 3 & max);
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
			entry.tid = ascending_tid(i);
			break;
		case MAX_KEY:
			entry.key = max;
			break;
		case EXTREMES:
			entry.key = (const uint64_t[]){0, 1, max - 1, max}[rnd_below(4)];
			break;
		case RUNS:
			if (rnd_below(30) == 0)
				run = rnd_below(1000);
			run += (uint64_t) rnd_below(2);
			entry.key = run & max;
			break;
		case FIRST_KEY:
			entry.key = rnd_below(4) == 0 ? 40 + rnd_below(4) : 40;
			entry.tid = ascending_tid(i);
			break;
		default:
			break;
	}
	entry.key = (entry.key & max) + shape.base;
	return entry;
}

uint8_t *
leaf_block(const Leaf *leaf, int block)
{
	return (uint8_t *) leaf->page + ht_leaf_blocks_at(leaf->shape) + block * HT_LEAF_BLOCK_SIZE;
}
