/*
 * test_wide.c
 *		Compares a device with a plain sorted array, for keys of 128 bits.
 *
 * usage: test_wide [host | cuda [SEED]]
 */
#include "../harmonia_device.h"
#include "../../src/tree/wide.h"
#include "../../test/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 20000
#define MAX_LEAVES 400
#define GUARD UINT64_C(0xA5A5A5A5A5A5A5A5)
#define PINNED_SIZE 327680

typedef enum Content
{
	RANDOM_KEYS,
	TENANTS,  /* few high words, serial low ones */
	SERIAL,   /* leaves of 16 and 32 bits */
	FEW_KEYS, /* runs of equal keys over several leaves */
	ENDS,     /* mostly the least and the greatest key */
	CONTENTS
} Content;

static const char *const content_names[CONTENTS] = {"random keys", "tenants", "serial keys",
													"few keys", "least and greatest keys"};

static const int classes[] = {0, 16, 32, 64, 96, 128};

static HdDevice *device;
static HdKind kind = HD_HOST;

static int
compare_hits(const void *a, const void *b)
{
	const HtHit *x = a;
	const HtHit *y = b;

	if (x->probe != y->probe)
		return x->probe < y->probe ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static HtEntry128 entries[MAX_ENTRIES];
static int entry_count;

static HtKey128
make_key(const uint64_t *words)
{
	HtKey128 key;

	memcpy(&key, words, sizeof(key));
	return key;
}

static HtKey128
content_key(Content content)
{
	uint64_t words[2] = {rnd(), rnd()};

	switch (content)
	{
		case TENANTS:
			words[0] = (uint64_t) rnd_below(100000);
			words[1] = (uint64_t) rnd_below(20);
			break;
		case SERIAL:
			words[0] = UINT64_MAX - 20000 + (uint64_t) rnd_below(40000);
			words[1] = words[0] < 50000 ? 8 : 7;
			break;
		case FEW_KEYS:
			words[1] = (uint64_t) rnd_below(3);
			words[0] = (uint64_t) rnd_below(3);
			break;
		case ENDS:
			if (rnd_below(10) > 0)
				memset(words, rnd_below(2) ? 0xFF : 0, sizeof(words));
			break;
		default:
			break;
	}
	return make_key(words);
}

static int
compare_entries_128(const void *a, const void *b)
{
	return ht_entry_cmp_128(*(const HtEntry128 *) a, *(const HtEntry128 *) b);
}

/* The number of entries with keys below this one, or not above it. */
static int
rank_of(HtKey128 key, bool equal)
{
	int low = 0;
	int high = entry_count;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (entries[middle].key < key || (equal && entries[middle].key == key))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static HdIndex *
make_index(Content content)
{
	static HdWideLeaf leaves[MAX_LEAVES];
	static uint32_t blocks[MAX_LEAVES];
	char *pages = allocate((size_t) MAX_LEAVES * HT_PAGE_SIZE);
	HdIndex *index;
	uint32_t leaf = 0;
	int n = 0;
	int from = 0;

	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		entries[i].key = content_key(content);
		entries[i].tid = rnd_tid_of(4 + rnd_below(3));
	}
	qsort(entries, MAX_ENTRIES, sizeof(HtEntry128), compare_entries_128);
	for (int i = 0; i < MAX_ENTRIES; i++)
		if (n == 0 || ht_entry_cmp_128(entries[n - 1], entries[i]) < 0)
			entries[n++] = entries[i];
	entry_count = rnd_below(5) == 0 ? rnd_below(200) : n;
	n = entry_count;

	/* Any number of entries, in any class that can store them. */
	while (leaf < MAX_LEAVES && (from < n || leaf == 0))
	{
		int here = rnd_below(160);
		HtKey128 base = from < n ? entries[from].key : 0;
		HtKey128 last;
		HtLeafShape128 shape;
		int class;

		if (leaf == MAX_LEAVES - 1)
			n = entry_count = from + (here < n - from ? here : n - from);
		here = here < n - from ? here : n - from;
		last = here > 0 ? entries[from + here - 1].key : base;
		class = ht_class_for_128(last - base);
		for (int i = 0; i < 6; i++)
			if (classes[i] > class && rnd_below(4) == 0)
				class = classes[i];
		shape = ht_leaf_shape_128(class, HT_TID_BYTES, base);
		for (int i = 0; i < HT_PAGE_SIZE; i++)
			pages[(size_t) leaf * HT_PAGE_SIZE + (size_t) i] = (char) rnd();
		ht_leaf_init_128(pages + (size_t) leaf * HT_PAGE_SIZE, shape);
		for (int i = here - 1; i >= 0; i--)
		{
			HtLeafChange change;

			memset(&change, 0, sizeof(change));
			expect(ht_leaf_insert_128(pages + (size_t) leaf * HT_PAGE_SIZE, entries[from + i],
									  &change) == HT_INSERTED,
				   "insert");
		}
		blocks[leaf] = leaf;
		memset(&leaves[leaf], 0, sizeof(leaves[leaf]));
		memcpy(leaves[leaf].low_key, &base, sizeof(base));
		leaves[leaf].low_tid = from < n ? entries[from].tid : 0;
		leaves[leaf].block = leaf;
		leaf++;
		from += here;
	}

	expect(hd_index_create(device, HT_WIDTH128, (int[]){8, 64, 128}[rnd_below(3)], &index) == HD_OK,
		   "create");
	expect(hd_index_reserve(index, MAX_LEAVES, false) == HD_OK, "reserve");
	expect(hd_index_write(index, blocks, pages, leaf) == HD_OK, "write");
	expect(hd_index_set_leaves(index, NULL, 0) == HD_INVALID, "leaves with narrow bounds");
	expect(hd_index_set_wide_leaves(index, leaves, leaf) == HD_OK, "leaves: %s",
		   hd_device_error(device));
	free(pages);
	return index;
}

static HtKey128
random_probe(Content content)
{
	HtKey128 key;

	if (entry_count == 0 || rnd_below(4) == 0)
		return rnd_below(4) ? content_key(content) : content_key(RANDOM_KEYS);
	key = entries[rnd_below(entry_count)].key;
	return rnd_below(3) ? key : rnd_below(2) ? key + 1 : key - 1;
}

static void
check_batch(HdIndex *index, Content content, uint32_t n, bool ranges)
{
	HtKey128 *low = allocate(n * sizeof(HtKey128));
	HtKey128 *high = allocate(n * sizeof(HtKey128));
	HdBatch batch;
	HdResult result;
	uint64_t expected = 0;

	memset(&batch, 0, sizeof(batch));
	for (uint32_t i = 0; i < n; i++)
	{
		low[i] = high[i] = random_probe(content);
		if (ranges && rnd_below(4))
		{
			int rank = rank_of(low[i], false) + rnd_below(20);

			high[i] = rank < entry_count ? entries[rank].key : ht_key_max_128(HT_WIDTH128);
		}
		if (high[i] >= low[i])
			expected += (uint64_t) (rank_of(high[i], true) - rank_of(low[i], false));
	}
	batch.low = low;
	batch.high = ranges ? high : NULL;
	batch.count = n;
	batch.psa_bits = (int[]){HD_AUTOMATIC, HD_UNSORTED, 7, 20, 500}[rnd_below(5)];
	batch.threads = ranges ? 0 : (int[]){0, 0, 1, 2, 4, 8, 16, 32}[rnd_below(8)];
	if (expected < 2000000)
	{
		HtHit *wanted = allocate((expected + 1) * sizeof(HtHit));
		HtHit *found = allocate((expected + 1) * sizeof(HtHit));
		uint64_t hits = 0;
		char *pinned = NULL;

		batch.room = expected;
		if (n <= 300 && expected < 20000 && rnd_below(2))
		{
			/* A GPU searches it as a small one: see gpu_small.cu. */
			if (posix_memalign((void **) &pinned, 4096, PINNED_SIZE) != 0)
				abort();
			batch.pinned = hd_device_pin(device, pinned, PINNED_SIZE) == HD_OK;
			batch.psa_bits = HD_AUTOMATIC;
			batch.threads = 0;
			batch.tids = (uint64_t *) pinned;
			batch.low = memcpy(pinned + 160000 + 4096, low, n * sizeof(HtKey128));
			if (ranges)
				batch.high = memcpy(pinned + 200000, high, n * sizeof(HtKey128));
			batch.probes = (uint32_t *) (pinned + 240000);
		}
		else
		{
			batch.probes = allocate((expected + 1) * sizeof(uint32_t));
			batch.tids = allocate((expected + 1) * sizeof(uint64_t));
		}
		batch.tids[expected] = GUARD;
		expect(hd_index_search(index, &batch, &result) == HD_OK, "pairs: %s",
			   hd_device_error(device));
		expect(result.hits == expected, "%llu hits, not %llu", (unsigned long long) result.hits,
			   (unsigned long long) expected);
		expect(batch.tids[expected] == GUARD, "wrote beyond the room");
		for (uint32_t i = 0; i < n; i++)
			for (int rank = rank_of(low[i], false);
				 rank < entry_count && high[i] >= entries[rank].key; rank++)
				wanted[hits++] = (HtHit){entries[rank].tid, i, 0};
		for (uint64_t i = 0; i < expected && !failed(); i++)
			found[i] = (HtHit){batch.tids[i], batch.probes[i], 0};
		qsort(wanted, expected, sizeof(HtHit), compare_hits);
		if (!failed())
			qsort(found, expected, sizeof(HtHit), compare_hits);
		for (uint64_t i = 0; i < expected && !failed(); i++)
			expect(compare_hits(&wanted[i], &found[i]) == 0, "hit %llu differs",
				   (unsigned long long) i);

		/* Each hit of a range has its key, which is that of an entry with its tid. */
		if (ranges)
		{
			HtKey128 *keys = allocate((expected + 1) * sizeof(HtKey128));

			keys[expected] = GUARD;
			batch.keys = keys;
			batch.pinned = false;
			expect(hd_index_search(index, &batch, &result) == HD_OK, "keys: %s",
				   hd_device_error(device));
			expect(result.hits == expected && keys[expected] == GUARD, "keys of other hits");
			for (uint64_t i = 0; i < expected && !failed(); i++)
			{
				HtEntry128 entry = {keys[i], batch.tids[i]};

				expect(bsearch(&entry, entries, (size_t) entry_count, sizeof(HtEntry128),
							   compare_entries_128) != NULL &&
						   keys[i] >= low[batch.probes[i]] && high[batch.probes[i]] >= keys[i],
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
				bool before = false;

				for (uint32_t j = 0; j < i && !before && n < 1000; j++)
					before = low[i] == low[j];
				if (!before)
					hits += (uint64_t) (rank_of(low[i], true) - rank_of(low[i], false));
			}
			batch.distinct = true;
			batch.threads = 0;
			expect(hd_index_search(index, &batch, &result) == HD_OK, "distinct: %s",
				   hd_device_error(device));
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
}

static void
test_width(void)
{
	for (int content = 0; content < CONTENTS; content++)
	{
		for (int i = 0; i < 3; i++)
		{
			HdIndex *index = make_index((Content) content);

			for (int j = 0; j < 10 && !failed(); j++)
				check_batch(index, (Content) content,
							1 + (uint32_t) rnd_below(content == FEW_KEYS ? 40 : 300), rnd_below(2));
			if (i == 0 && content != FEW_KEYS && content != ENDS && !failed())
			{
				check_batch(index, (Content) content, 40000, false);
				check_batch(index, (Content) content, 40000, true);
			}
			hd_index_free(index);
		}
		report("%s", content_names[content]);
	}
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "cuda") == 0)
		kind = HD_CUDA;
	tap_start(argc - 1, argv + 1);
	if (hd_device_open(kind, 0, &device) != HD_OK)
	{
		printf("Bail out! no device: %s\n",
			   device == NULL ? "out of memory" : hd_device_error(device));
		return 1;
	}
	test_width();
	hd_device_close(device);
	return tap_finish();
}
