/*
 * test_search.c
 *		Searching leaves for many probes, with every instruction set that this machine
 *		has, compared with all entries of the page.
 */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES HT_LEAF_MAX_ENTRIES
#define HITS (4 * ENTRIES)

typedef struct Leaf
{
	HtLeafShape shape;
	char *allocation;
	char *page; /* aligned to 8 bytes, not to 16 */
	HtEntry entries[ENTRIES];
	int n;
} Leaf;

/* Few values make runs of equal keys over several blocks; all values make keys unique. */
static uint64_t
random_key(HtLeafShape shape, int values)
{
	uint64_t max = ht_class_max(shape.bits);

	uint64_t distance;

	if (values == 0)
		distance = rnd();
	else if (values < 0)
		distance =
			rnd_below(2) ? max - (uint64_t) rnd_below(-values) : (uint64_t) rnd_below(-values);
	else
		distance = max / 2 + (uint64_t) rnd_below(values);
	return shape.base + (distance & max);
}

/* Swap two entries of a block: their order in it must not matter. */
static void
swap_slots(Leaf *leaf, int b, int i, int j)
{
	char *block = leaf->page + ht_leaf_blocks_at(leaf->shape) + b * HT_LEAF_BLOCK_SIZE;
	size_t width = leaf->shape.bits / 8;
	size_t tid_bytes = leaf->shape.tid_bytes;
	char *tids = block + ht_leaf_slots(leaf->shape) * width;
	char key[8];
	char tid[HT_TID_BYTES];

	memcpy(key, block + i * width, width);
	memcpy(block + i * width, block + j * width, width);
	memcpy(block + j * width, key, width);
	memcpy(tid, tids + i * tid_bytes, tid_bytes);
	memcpy(tids + i * tid_bytes, tids + j * tid_bytes, tid_bytes);
	memcpy(tids + j * tid_bytes, tid, tid_bytes);
}

static void
shuffle(Leaf *leaf)
{
	for (int b = 0; b < ht_leaf_blocks(leaf->shape); b++)
	{
		int count = leaf->page[ht_leaf_blocks_at(leaf->shape) + b * HT_LEAF_BLOCK_SIZE +
							   HT_LEAF_BLOCK_COUNT_AT];

		for (int i = count - 1; i > 0; i--)
			swap_slots(leaf, b, i, rnd_below(i + 1));
	}
}

/* A leaf that was filled and then changed. */
static void
make_leaf(Leaf *leaf, int bits, int tid_bytes, int values)
{
	HtEntry scratch[ENTRIES];
	HtLeafChange change;
	bool dead[ENTRIES];
	int kept = 0;
	int n;

	leaf->shape = random_shape(bits, tid_bytes);
	n = rnd_below(ht_leaf_capacity(leaf->shape) + 1);
	ht_leaf_init(leaf->page, leaf->shape);
	for (int i = 0; i < n; i++)
		leaf->entries[i] = make_entry(random_key(leaf->shape, values), rnd_tid_of(tid_bytes));
	ht_sort_entries(leaf->entries, scratch, (size_t) n);
	for (int i = 0; i < n; i++)
	{
		if (kept == 0 || ht_entry_cmp(leaf->entries[kept - 1], leaf->entries[i]) < 0)
			leaf->entries[kept++] = leaf->entries[i];
	}
	ht_leaf_fill(leaf->page, leaf->shape, leaf->entries, kept);

	memset(&change, 0, sizeof(change));
	for (int i = rnd_below(100); i > 0; i--)
		ht_leaf_insert(leaf->page,
					   make_entry(random_key(leaf->shape, values), rnd_tid_of(tid_bytes)), &change);
	if (rnd_below(2))
	{
		n = ht_leaf_count(leaf->page);
		for (int i = 0; i < n; i++)
			dead[i] = rnd_below(4) == 0;
		ht_leaf_remove(leaf->page, dead, &change);
	}
	leaf->n = ht_leaf_read(leaf->page, leaf->entries);
	shuffle(leaf);
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
	int one_of = 1 + rnd_below(8);

	if (rnd_below(3) == 0)
		return;
	for (int i = 0; i < leaf->n; i++)
	{
		if (rnd_below(one_of) == 0)
			ht_leaf_set_hint(leaf->page, ht_leaf_slot(leaf->page, leaf->entries[i]));
	}
}

static bool
has_hint(const Leaf *leaf, HtEntry entry)
{
	int slot = ht_leaf_slot(leaf->page, entry);
	int slots = ht_leaf_slots(leaf->shape);

	return (ht_leaf_hints(leaf->page, slot / slots) >> slot % slots & 1) != 0;
}

/* Few probes look at the hints of their blocks only. */
static void
expect_has_hints(const HtSearch *search, const Leaf *leaf, const HtProbe *probes, uint32_t count)
{
	bool expected = ht_leaf_has_hints(leaf->page);

	if (count > 0 && count <= HT_FEW_PROBES)
	{
		expected = false;
		for (uint32_t i = 0; i < count; i++)
		{
			int block =
				probes[i].hint < (uint32_t) ht_leaf_blocks(leaf->shape) ? (int) probes[i].hint : 0;

			expected |= ht_leaf_hints(leaf->page, block) != 0;
		}
	}
	expect(search->has_hints(leaf->page, probes, count) == expected, "hints of %u probes", count);
}

/* TIDs are unique, so a probe and a TID identify one hit. */
static int
expected_hits(const Leaf *leaf, uint64_t low, uint64_t high, uint32_t probe, bool live, HtHit *hits)
{
	int n = 0;

	for (int i = 0; i < leaf->n; i++)
	{
		if (leaf->entries[i].key >= low && leaf->entries[i].key <= high &&
			!(live && has_hint(leaf, leaf->entries[i])))
			hits[n++] = (HtHit){leaf->entries[i].tid, probe, 0};
	}
	return n;
}

static void
compare(const Leaf *leaf, HtHit *hits, const uint64_t *keys, int n, HtHit *expected, int n_expected,
		const char *what)
{
	expect(n == n_expected, "%d hits of %s instead of %d", n, what, n_expected);
	if (failed())
		return;

	/* Check the keys of hits before the hits are sorted. */
	for (int i = 0; i < n && keys != NULL && !failed(); i++)
	{
		bool found = false;

		for (int j = 0; j < leaf->n; j++)
			found |= leaf->entries[j].tid == hits[i].tid && leaf->entries[j].key == keys[i];
		expect(found, "a hit of %s has another key", what);
	}
	qsort(hits, (size_t) n, sizeof(HtHit), compare_hits);
	qsort(expected, (size_t) n, sizeof(HtHit), compare_hits);
	for (int i = 0; i < n && !failed(); i++)
		expect(hits[i].probe == expected[i].probe && hits[i].tid == expected[i].tid &&
				   hits[i].all_visible == 0,
			   "hit %d of %s is wrong", i, what);
}

static uint64_t
probe_key(const Leaf *leaf, int values)
{
	uint64_t base = leaf->shape.base;
	uint64_t max = ht_class_max(leaf->shape.bits);

	switch (rnd_below(5))
	{
		case 0:
			return random_key(leaf->shape, values);
		case 1:
			return rnd_below(2) ? base : base + max;
		case 4:
			return rnd_below(3) == 0 ? rnd() : rnd_below(2) ? base - 1 : base + max + 1;
		case 2:
			return leaf->n == 0 ? 7 : (leaf->entries[rnd_below(leaf->n)].key + 1);
		default:
			return leaf->n == 0 ? 7 : leaf->entries[rnd_below(leaf->n)].key;
	}
}

/* Lengths of ranges: some are shorter than gaps between keys, some longer than the leaf's reach. */
static uint64_t
random_length(void)
{
	return rnd_below(4) == 0 ? (uint64_t) rnd_below(4) : rnd() >> rnd_below(64);
}

/* Points, or ranges of one length, which is 0 now and then. */
static void
try_probes(const HtSearch *search, const Leaf *leaf, int values, bool are_ranges, uint32_t room)
{
	static HtHit hits[HITS], expected[HITS];
	static uint64_t keys[HITS];
	HtProbe probes[40];
	uint32_t count = (uint32_t) rnd_below(41);
	uint32_t found = UINT32_MAX;
	uint32_t answered;
	bool want_keys = rnd_below(2);
	uint32_t slots = (uint32_t) ht_leaf_slots(leaf->shape);
	uint64_t length = are_ranges ? random_length() : 0;
	const char *what = are_ranges ? "ranges" : "points";
	int n = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		uint64_t key = probe_key(leaf, values);

		key = key > UINT64_MAX - length ? UINT64_MAX - length : key;
		probes[i] = (HtProbe){key, 1000 + i, (uint32_t) rnd_below(70)};
	}
	search->prefetch_separators(leaf->page, probes, count);
	if (rnd_below(2))
		search->prefetch_blocks(leaf->page, probes, count, rnd_below(2));

	/* The page can change after that: then hints are wrong by one block or by many. */
	for (uint32_t i = 0; i < count; i++)
	{
		if (rnd_below(4) == 0)
			probes[i].hint += (uint32_t) (rnd_below(5) - 2);
	}
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

		/* It may stop only because there is too little room. */
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
try_range(const HtSearch *search, const Leaf *leaf, int values, uint32_t room)
{
	static HtHit hits[HITS], expected[HITS];
	static uint64_t keys[HITS];
	uint64_t low = probe_key(leaf, values);
	uint64_t high = rnd_below(3) == 0 ? low : probe_key(leaf, values);
	bool want_keys = rnd_below(2);
	bool live = rnd_below(2);
	uint32_t n;
	int n_expected;

	/* Bounds can be wider than keys. */
	if (rnd_below(10) == 0)
		high = UINT64_MAX;
	n = search->range(leaf->page, low, high, 77, live, hits, want_keys ? keys : NULL, room);
	n_expected = expected_hits(leaf, low, high, 77, live, expected);
	if (n == HT_NO_ROOM)
		expect(room < (uint32_t) n_expected, "no room for %d hits in %u", n_expected, room);
	else
		compare(leaf, hits, want_keys ? keys : NULL, (int) n, expected, n_expected, "a range");
}

/* A search of a damaged page can find anything, but reads and writes nothing beyond. */
static void
try_damaged(const HtSearch *search, Leaf *leaf)
{
	static HtHit hits[ENTRIES + 1];
	static uint64_t keys[ENTRIES + 1];
	HtProbe probes[10];
	uint32_t found;

	for (int i = 0; i < HT_PAGE_SIZE; i++)
	{
		if (rnd_below(3) == 0)
			leaf->page[i] = (char) rnd();
	}
	for (int i = 0; i < 10; i++)
		probes[i] =
			(HtProbe){leaf->shape.base + (rnd() & ht_class_max(leaf->shape.bits)), (uint32_t) i, 0};
	hits[ENTRIES].tid = keys[ENTRIES] = 4711;
	search->prefetch_separators(leaf->page, probes, 10);
	search->prefetch_blocks(leaf->page, probes, 10, true);
	search->has_hints(leaf->page, probes, 2);
	search->has_hints(leaf->page, probes, 10);
	search->points(leaf->page, probes, 10, hits, keys, ENTRIES, &found);
	expect(found <= ENTRIES, "%u hits", found);
	search->ranges(leaf->page, probes, 10, random_length(), hits, keys, ENTRIES, &found);
	expect(found <= ENTRIES, "%u hits of ranges", found);
	search->range(leaf->page, probes[0].key, probes[1].key, 0, false, hits, keys, ENTRIES);
	search->range(leaf->page, 0, UINT64_MAX, 0, true, hits, keys, ENTRIES);
	expect(hits[ENTRIES].tid == 4711 && keys[ENTRIES] == 4711, "wrote beyond the room");
}

void
test_search(int bits, int tid_bytes)
{
	static const char *const names[] = {"portable", "avx2", "avx512"};
	Leaf leaf;

	expect(ht_search("mmx") == NULL, "found a variant that there is not");
	expect(ht_search(NULL) != NULL, "found no variant");
	expect(ht_search("portable") != NULL, "found no portable variant");
	report("%d-bit search, %d-byte tids: variants, best is %s", bits, tid_bytes,
		   ht_search(NULL)->name);

	memset(&leaf, 0, sizeof(leaf));
	leaf.allocation = allocate(HT_PAGE_SIZE + 8);
	leaf.page = leaf.allocation + 8;
	for (int variant = 0; variant < 3; variant++)
	{
		const HtSearch *search = ht_search(names[variant]);
		static const int values[] = {0, 1, 3, 50, 1000, -1, -30};

		if (search == NULL)
		{
			report("%d-bit search, %d-byte tids: %s # SKIP not on this machine", bits, tid_bytes,
				   names[variant]);
			continue;
		}
		for (int round = 0; round < rnd_rounds(350) && !failed(); round++)
		{
			int keys = values[round % 7];

			memset(leaf.page, 0, HT_PAGE_SIZE);
			make_leaf(&leaf, bits, tid_bytes, keys);
			set_hints(&leaf);
			for (int i = 0; i < 5 && !failed(); i++)
			{
				uint32_t room = rnd_below(2) ? HITS / 4 : (uint32_t) rnd_below(60);

				try_probes(search, &leaf, keys, false, room);
				try_probes(search, &leaf, keys, true, room);
				try_range(search, &leaf, keys, room);
			}
			try_damaged(search, &leaf);
		}
		report("%d-bit search, %d-byte tids: %s", bits, tid_bytes, names[variant]);
	}
	free(leaf.allocation);
}
