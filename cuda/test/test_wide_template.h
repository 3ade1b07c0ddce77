/*
 * test_wide_template.h
 *		The tests of test_wide.c for keys of the width HT_KEYS.
 */
#include "../../src/tree/key_macros.h"

static HT_ENTRY HT_KEYED(entries)[MAX_ENTRIES];
static int	HT_KEYED(count);

static HT_KEY
HT_KEYED(make_key)(const uint64_t *words)
{
	HT_KEY		key;

	memcpy(&key, words, sizeof(key));
	return key;
}

static HT_KEY
HT_KEYED(content_key)(Content content)
{
	uint64_t	words[4] = {rnd(), rnd(), rnd(), rnd()};

	switch (content)
	{
		case TENANTS:
			words[0] = (uint64_t) rnd_below(100000);
			words[1] = (uint64_t) rnd_below(20);
			words[2] = words[3] = 0;
			break;
		case SERIAL:
			words[0] = UINT64_MAX - 20000 + (uint64_t) rnd_below(40000);
			words[1] = words[0] < 50000 ? 8 : 7;
			words[2] = words[3] = 3;
			break;
		case FEW_KEYS:
			words[HT_KEYS / 64 - 1] = (uint64_t) rnd_below(3);
			words[0] = (uint64_t) rnd_below(3);
			words[1] = HT_KEYS == 128 ? words[1] : 0;
			words[2] = HT_KEYS == 256 ? 5 : 0;
			break;
		case ENDS:
			if (rnd_below(10) > 0)
				memset(words, rnd_below(2) ? 0xFF : 0, sizeof(words));
			break;
		default:
			break;
	}
	return HT_KEYED(make_key)(words);
}

static int
HT_KEYED(compare_entries)(const void *a, const void *b)
{
	return HT_KEYED(ht_entry_cmp)(*(const HT_ENTRY *) a, *(const HT_ENTRY *) b);
}

/* The number of entries with keys below this one, or not above it. */
static int
HT_KEYED(rank)(HT_KEY key, bool equal)
{
	int			low = 0;
	int			high = HT_KEYED(count);

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (KEY_LESS(HT_KEYED(entries)[middle].key, key) || (equal && KEY_EQUAL(HT_KEYED(entries)[middle].key, key)))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static HdIndex *
HT_KEYED(make_index)(Content content)
{
	static HdWideLeaf leaves[MAX_LEAVES];
	static uint32_t blocks[MAX_LEAVES];
	char	   *pages = allocate((size_t) MAX_LEAVES * HT_PAGE_SIZE);
	HdIndex    *index;
	uint32_t	leaf = 0;
	int			n = 0;
	int			from = 0;

	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		HT_KEYED(entries)[i].key = HT_KEYED(content_key)(content);
		HT_KEYED(entries)[i].tid = rnd_tid_of(4 + rnd_below(3));
	}
	qsort(HT_KEYED(entries), MAX_ENTRIES, sizeof(HT_ENTRY), HT_KEYED(compare_entries));
	for (int i = 0; i < MAX_ENTRIES; i++)
		if (n == 0 || HT_KEYED(ht_entry_cmp)(HT_KEYED(entries)[n - 1], HT_KEYED(entries)[i]) < 0)
			HT_KEYED(entries)[n++] = HT_KEYED(entries)[i];
	HT_KEYED(count) = rnd_below(5) == 0 ? rnd_below(200) : n;
	n = HT_KEYED(count);

	/* Any number of entries, in any class that can store them. */
	while (leaf < MAX_LEAVES && (from < n || leaf == 0))
	{
		int			here = rnd_below(160);
		HT_KEY		base = from < n ? HT_KEYED(entries)[from].key : KEY_OF(0);
		HT_KEY		last;
		HT_SHAPE	shape;
		int			class;

		if (leaf == MAX_LEAVES - 1)
			n = HT_KEYED(count) = from + (here < n - from ? here : n - from);
		here = here < n - from ? here : n - from;
		last = here > 0 ? HT_KEYED(entries)[from + here - 1].key : base;
		class = HT_KEYED(ht_class_for)(KEY_SUBTRACT(last, base));
		for (int i = 0; i < 8; i++)
			if (classes[i] > class && classes[i] <= HT_KEYS && rnd_below(4) == 0)
				class = classes[i];
		shape = HT_KEYED(ht_leaf_shape)(class, HT_TID_BYTES, base);
		for (int i = 0; i < HT_PAGE_SIZE; i++)
			pages[(size_t) leaf * HT_PAGE_SIZE + (size_t) i] = (char) rnd();
		HT_KEYED(ht_leaf_init)(pages + (size_t) leaf * HT_PAGE_SIZE, shape);
		for (int i = here - 1; i >= 0; i--)
		{
			HtLeafChange change;

			memset(&change, 0, sizeof(change));
			expect(HT_KEYED(ht_leaf_insert)(pages + (size_t) leaf * HT_PAGE_SIZE, HT_KEYED(entries)[from + i], &change) ==
				   HT_INSERTED, "insert");
		}
		blocks[leaf] = leaf;
		memset(&leaves[leaf], 0, sizeof(leaves[leaf]));
		memcpy(leaves[leaf].low_key, &base, sizeof(base));
		leaves[leaf].low_tid = from < n ? HT_KEYED(entries)[from].tid : 0;
		leaves[leaf].block = leaf;
		leaf++;
		from += here;
	}

	expect(hd_index_create(device, (HtWidth) (HT_KEYS / 8), (int[]) {8, 64, 128}[rnd_below(3)], &index) == HD_OK, "create");
	expect(hd_index_reserve(index, MAX_LEAVES, false) == HD_OK, "reserve");
	expect(hd_index_write(index, blocks, pages, leaf) == HD_OK, "write");
	expect(hd_index_set_leaves(index, NULL, 0) == HD_INVALID, "leaves with narrow bounds");
	expect(hd_index_set_wide_leaves(index, leaves, leaf) == HD_OK, "leaves: %s", hd_device_error(device));
	free(pages);
	return index;
}

static HT_KEY
HT_KEYED(probe)(Content content)
{
	HT_KEY		key;

	if (HT_KEYED(count) == 0 || rnd_below(4) == 0)
		return rnd_below(4) ? HT_KEYED(content_key)(content) : HT_KEYED(content_key)(RANDOM_KEYS);
	key = HT_KEYED(entries)[rnd_below(HT_KEYED(count))].key;
	return rnd_below(3) ? key : rnd_below(2) ? KEY_ADD(key, KEY_OF(1)) : KEY_SUBTRACT(key, KEY_OF(1));
}

static void
HT_KEYED(check_batch)(HdIndex *index, Content content, uint32_t n, bool ranges)
{
	HT_KEY	   *low = allocate(n * sizeof(HT_KEY));
	HT_KEY	   *high = allocate(n * sizeof(HT_KEY));
	uint32_t   *counts = allocate(n * sizeof(uint32_t));
	uint64_t   *firsts = allocate(n * sizeof(uint64_t));
	HdBatch		batch;
	HdResult	result;
	uint64_t	expected = 0;

	memset(&batch, 0, sizeof(batch));
	for (uint32_t i = 0; i < n; i++)
	{
		low[i] = high[i] = HT_KEYED(probe)(content);
		if (ranges && rnd_below(4))
		{
			int			rank = HT_KEYED(rank)(low[i], false) + rnd_below(20);

			high[i] = rank < HT_KEYED(count) ? HT_KEYED(entries)[rank].key : KEY_MAX;
		}
		if (!KEY_LESS(high[i], low[i]))
			expected += (uint64_t) (HT_KEYED(rank)(high[i], true) - HT_KEYED(rank)(low[i], false));
	}
	batch.low = low;
	batch.high = ranges ? high : NULL;
	batch.count = n;
	batch.psa_bits = (int[]) {HD_AUTOMATIC, HD_UNSORTED, 7, 20, 500}[rnd_below(5)];
	batch.threads = (int[]) {HD_AUTOMATIC, 1, 2, 4, 8, 16, 32}[rnd_below(7)];
	batch.group_search = rnd_below(2) ? HT_GROUP_LINEAR : HT_GROUP_KARY;

	batch.output = HD_COUNT;
	batch.counts = counts;
	expect(hd_index_search(index, &batch, &result) == HD_OK, "count: %s", hd_device_error(device));
	for (uint32_t i = 0; i < n && !failed(); i++)
	{
		int			wanted = KEY_LESS(high[i], low[i]) ? 0 : HT_KEYED(rank)(high[i], true) - HT_KEYED(rank)(low[i], false);

		expect(counts[i] == (uint32_t) wanted, "count %u of probe %u is not %d", counts[i], i, wanted);
	}
	if (!ranges)
	{
		batch.output = HD_FIRST;
		batch.tids = firsts;
		expect(hd_index_search(index, &batch, &result) == HD_OK, "first: %s", hd_device_error(device));
		for (uint32_t i = 0; i < n && !failed(); i++)
		{
			int			rank = HT_KEYED(rank)(low[i], false);
			bool		hit = rank < HT_KEYED(count) && KEY_EQUAL(HT_KEYED(entries)[rank].key, low[i]);

			expect(firsts[i] == (hit ? HT_KEYED(entries)[rank].tid : 0), "first hit of probe %u is wrong", i);
		}
	}
	if (expected < 2000000)
	{
		HtHit	   *wanted = allocate((expected + 1) * sizeof(HtHit));
		HtHit	   *found = allocate((expected + 1) * sizeof(HtHit));
		uint64_t	hits = 0;
		char	   *pinned = NULL;

		batch.output = HD_PAIRS;
		batch.room = expected;
		if (n <= 300 && expected < 20000 && rnd_below(2))
		{
			/* A GPU searches it as a small one: see gpu_small.cu. */
			if (posix_memalign((void **) &pinned, 4096, PINNED_SIZE) != 0)
				abort();
			batch.pinned = hd_device_pin(device, pinned, PINNED_SIZE) == HD_OK;
			batch.psa_bits = batch.threads = HD_AUTOMATIC;
			batch.tids = (uint64_t *) pinned;
			batch.low = memcpy(pinned + 160000 + 4096, low, n * sizeof(HT_KEY));
			if (ranges)
				batch.high = memcpy(pinned + 200000, high, n * sizeof(HT_KEY));
			batch.probes = (uint32_t *) (pinned + 240000);
		}
		else
		{
			batch.probes = allocate((expected + 1) * sizeof(uint32_t));
			batch.tids = allocate((expected + 1) * sizeof(uint64_t));
		}
		batch.tids[expected] = GUARD;
		expect(hd_index_search(index, &batch, &result) == HD_OK, "pairs: %s", hd_device_error(device));
		expect(result.hits == expected, "%llu hits, not %llu", (unsigned long long) result.hits,
			   (unsigned long long) expected);
		expect(batch.tids[expected] == GUARD, "wrote beyond the room");
		for (uint32_t i = 0; i < n; i++)
			for (int rank = HT_KEYED(rank)(low[i], false);
				 rank < HT_KEYED(count) && !KEY_LESS(high[i], HT_KEYED(entries)[rank].key); rank++)
				wanted[hits++] = (HtHit) {HT_KEYED(entries)[rank].tid, i, 0};
		for (uint64_t i = 0; i < expected && !failed(); i++)
			found[i] = (HtHit) {batch.tids[i], batch.probes[i], 0};
		qsort(wanted, expected, sizeof(HtHit), compare_hits);
		if (!failed())
			qsort(found, expected, sizeof(HtHit), compare_hits);
		for (uint64_t i = 0; i < expected && !failed(); i++)
			expect(compare_hits(&wanted[i], &found[i]) == 0, "hit %llu differs", (unsigned long long) i);

		/* Each hit of a range has its key, which is that of an entry with its tid. */
		if (ranges)
		{
			HT_KEY	   *keys = allocate((expected + 1) * sizeof(HT_KEY));

			keys[expected] = KEY_OF(GUARD);
			batch.keys = keys;
			batch.pinned = false;
			expect(hd_index_search(index, &batch, &result) == HD_OK, "keys: %s", hd_device_error(device));
			expect(result.hits == expected && KEY_EQUAL(keys[expected], KEY_OF(GUARD)), "keys of other hits");
			for (uint64_t i = 0; i < expected && !failed(); i++)
			{
				HT_ENTRY	entry = {keys[i], batch.tids[i]};

				expect(bsearch(&entry, HT_KEYED(entries), (size_t) HT_KEYED(count), sizeof(HT_ENTRY),
							   HT_KEYED(compare_entries)) != NULL && !KEY_LESS(keys[i], low[batch.probes[i]]) && !KEY_LESS(high[batch.probes[i]], keys[i]),
					   "the key of hit %llu is wrong", (unsigned long long) i);
			}
			batch.keys = NULL;
			free(keys);
		}

		/* Of equal points one has hits. */
		if (!ranges)
		{
			hits = 0;
			qsort(wanted, expected, sizeof(HtHit), compare_hits);
			for (uint32_t i = 0; i < n; i++)
			{
				bool		before = false;

				for (uint32_t j = 0; j < i && !before && n < 1000; j++)
					before = KEY_EQUAL(low[i], low[j]);
				if (!before)
					hits += (uint64_t) (HT_KEYED(rank)(low[i], true) - HT_KEYED(rank)(low[i], false));
			}
			batch.distinct = true;
			expect(hd_index_search(index, &batch, &result) == HD_OK, "distinct: %s", hd_device_error(device));
			expect(n >= 1000 || result.hits == hits, "%llu hits of distinct points, not %llu",
				   (unsigned long long) result.hits, (unsigned long long) hits);
		}
		if (pinned == NULL)
		{
			free(batch.probes);
			free(batch.tids);
		}
		else
			hd_device_unpin(device, pinned);
		free(pinned);
		free(wanted);
		free(found);
	}
	free(low);
	free(high);
	free(counts);
	free(firsts);
}

static void
HT_KEYED(test_width)(void)
{
	for (int content = 0; content < CONTENTS; content++)
	{
		for (int i = 0; i < 3; i++)
		{
			HdIndex    *index = HT_KEYED(make_index)((Content) content);

			for (int j = 0; j < 10 && !failed(); j++)
				HT_KEYED(check_batch)(index, (Content) content, 1 + (uint32_t) rnd_below(content == FEW_KEYS ? 40 : 300),
									  rnd_below(2));
			if (i == 0 && content != FEW_KEYS && content != ENDS && !failed())
			{
				HT_KEYED(check_batch)(index, (Content) content, 40000, false);
				HT_KEYED(check_batch)(index, (Content) content, 40000, true);
			}
			hd_index_free(index);
		}
		report("%d-bit keys: %s", HT_KEYS, content_names[content]);
	}
}

#include "../../src/tree/key_macros_end.h"
