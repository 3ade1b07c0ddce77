/*
 * test_device.c
 *		Compares a device with a plain sorted array.
 *
 * usage: test_device [host | cuda] [lanes | brief] [SEED]
 *
 * Covers indexes of all kinds, with runs of duplicates over several leaves, empty leaves, the least
 * and the greatest key; probes that hit and that miss; all ways to search and to sort, all that is
 * done with hits, and several lanes.  "lanes" are these alone.  "brief" is the rest with fewer
 * indexes of each kind, for slow tools such as compute-sanitizer.  TEST_LARGE sets the size of the
 * largest batch.
 */
#include "device_checks.h"

#include <stdio.h>
#include <stdlib.h>

/* Fewer indexes of each kind. */
static bool brief;

static void
test_search_device(HtWidth width, Content content)
{
	static const int fanouts[] = {8, 9, 16, 33, 64, 64, 100, 128};
	const int count = (int) (sizeof(fanouts) / sizeof(fanouts[0]));
	int first = brief ? rnd_below(count) : 0;

	for (int f = first; f < (brief ? first + 1 : count); f++)
	{
		HdIndex *index;

		model_make(&model, content, width);
		index = make_index(content, width, fanouts[f]);
		for (int i = 0; i < 8; i++)
			check_batch(index, width);

		/* A GPU searches small ones in another way: see gpu_small.cu. */
		check_pinned_batch(index, width, 3000 + rnd_below(2000));
		check_pinned_batch(index, width, 1 + rnd_skewed(1000));
		expect(hd_index_memory(index) + hd_index_host_memory(index) >=
				   (uint64_t) leaf_count * HT_PAGE_SIZE,
			   "memory");
		hd_index_free(index);
	}
	report("search, %d bits: %s", width_bits(width), content_names[content]);
}

/*
 * Leaves of a class whose entries have the least key that the class can store and the greatest one,
 * many times each.  The first key that the next leaf can have is above that, so the end of the leaf
 * cannot pass for the greatest key.
 */
static void
test_ends_of_class(HtWidth width, int bits)
{
	enum
	{
		LEAVES = 100
	};
	uint64_t reach = ht_class_max(bits);
	uint32_t numbers[LEAVES];
	char *pages = allocate(LEAVES * HT_PAGE_SIZE);
	uint64_t base = rnd_below(2) ? 0 : ht_key_max(width) - LEAVES * (reach + 100);
	HdIndex *index;

	model.width = width;
	model.count = 0;
	for (uint32_t i = 0; i < LEAVES; i++)
	{
		HtEntry *from = model.entries + model.count;
		HtLeafShape shape;
		int n = 1 + rnd_skewed(MODEL_MAX_ENTRIES / LEAVES - 1);
		int low = rnd_skewed(n);

		base += 2 + (uint64_t) rnd_below(50);
		shape = ht_leaf_shape(bits, HT_TID_BYTES, base);
		for (int j = 0; j < n; j++)
			from[j] = make_entry(j < low ? base : base + reach, rnd_tid_of(4 + rnd_below(3)));
		n = sort_entries(from, n);
		numbers[i] = i;
		leaves[i] = (HdLeaf){make_entry(base - (uint64_t) rnd_below(2), 0), i};
		ht_leaf_init(pages + i * HT_PAGE_SIZE, shape);
		ht_leaf_fill(pages + i * HT_PAGE_SIZE, shape, from, n);
		model.count += n;
		base += reach;
	}
	leaf_count = LEAVES;
	expect(hd_index_create(device, width, HD_DEFAULT_FANOUT, &index) == HD_OK, "create");
	expect(hd_index_reserve(index, LEAVES, false) == HD_OK, "reserve");
	expect(hd_index_write(index, numbers, pages, LEAVES) == HD_OK, "write");
	expect(hd_index_set_leaves(index, leaves, LEAVES) == HD_OK, "leaves: %s",
		   hd_device_error(device));
	for (int i = 0; i < (brief ? 2 : 20); i++)
		check_batch(index, width);
	hd_index_free(index);
	free(pages);
	report("search, %d bits: least and greatest keys of class %d", width_bits(width), bits);
}

/*
 * The number of probes that take more than one block of threads or one tile of a sort.  A GPU
 * needs far more for that.
 */
static int
large_count(void)
{
	const char *large = getenv("TEST_LARGE");

	return (large != NULL ? atoi(large) : kind == HD_CUDA ? 2500000 : 100000) + rnd_below(1000);
}

/*
 * Fill the model with keys in a range of 32 bits, or a few keys less, from "start" on: all over it,
 * or at its start and one at its end.
 */
static void
make_narrow_model(uint64_t start, uint64_t range, int repeat, bool spread)
{
	int last;

	model_make(&model, CONTENT_SERIAL, HT_WIDTH64);
	last = (model.count - 1) / repeat;
	for (int i = 0; i < model.count; i++)
	{
		uint64_t step = spread && last > 0 ? range / (uint64_t) last : 1;

		model.entries[i] =
			make_entry(start + (uint64_t) (i / repeat) * step,
					   (uint64_t) rnd_below(1 << 23) << 16 | (uint64_t) (1 + rnd_below(511)));
	}
	model.entries[model.count - 1].key = start + range;
	model.count = sort_entries(model.entries, model.count);
}

/*
 * Keys near each other, in a range of 32 bits.  Some probes are beyond it, or just so, and those
 * for the last key are beyond the range of the leaves' bounds.
 */
static void
test_narrow_keys(void)
{
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) (large_count() / 4 + 1000));

	for (int round = 0; round < 6 && !failed(); round++)
	{
		uint64_t range = UINT32_MAX - (uint64_t) (rnd_below(2) * rnd_below(3));
		uint64_t start =
			round / 2 == 0 ? 0 :
			round / 2 == 1 ? UINT64_MAX - range :
							 (UINT64_C(1) << 63) - (uint64_t) rnd_below(MODEL_MAX_ENTRIES);
		int repeat = rnd_below(2) ? 1 : 1 + rnd_below(50);
		int n = 1 + large_count() / 4 / repeat;
		uint64_t bases[3] = {0, start, start};
		HdBatch batch;
		HdIndex *index;

		make_narrow_model(start, range, repeat, round % 2 == 0);
		index = make_index(CONTENT_SERIAL, HT_WIDTH64, HD_DEFAULT_FANOUT);
		if (leaf_count > 1)
			bases[2] = leaves[1].low.key;
		for (int i = 0; i < n; i++)
			low[i] = rnd_below(8) != 0 ?
						 model_probe(&model) :
						 bases[rnd_below(3)] + UINT32_MAX - 1 + (uint64_t) rnd_below(3);
		memset(&batch, 0, sizeof(batch));
		batch.low = low;
		batch.count = (uint32_t) n;
		batch.psa_bits = rnd_below(4) == 0 ? HD_AUTOMATIC : 1 + rnd_below(40);
		check_pairs(index, &batch, low, low);
		check_distinct(index, &batch, low);
		hd_index_free(index);
	}
	free(low);
	report("search, 64 bits: keys near each other");
}

/* Search for more probes than one block of threads or one tile of a sort takes. */
static void
test_large_batch(HtWidth width)
{
	int n = large_count();
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
	HdBatch batch;
	HdIndex *index;

	/* A few leaves need no sort. */
	do
		model_make(&model, CONTENT_SPREAD, width);
	while (model.count < MODEL_MAX_ENTRIES / 4);
	index = make_index(CONTENT_SPREAD, width, HD_DEFAULT_FANOUT);
	memset(&batch, 0, sizeof(batch));
	for (int i = 0; i < n; i++)
		low[i] = model_probe(&model);
	batch.low = pack(low, n, width);
	batch.count = (uint32_t) n;
	batch.psa_bits = HD_AUTOMATIC;
	check_pairs(index, &batch, low, low);
	check_distinct(index, &batch, low);
	/* Sort by more bits than so small a tree needs. */
	batch.psa_bits = 8 * (int) width;
	check_pairs(index, &batch, low, low);
	check_distinct(index, &batch, low);
	batch.high = batch.low;
	check_pairs(index, &batch, low, low);
	free((void *) batch.low);
	free(low);
	hd_index_free(index);
	report("search, %d bits: large batches", width_bits(width));
}

/* Each number of threads for a probe, sorted and not. */
static void
test_threads(HtWidth width)
{
	for (int threads = 1; threads <= 32; threads *= 2)
	{
		int n = 2000 + rnd_below(1000);
		uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
		Content content = rnd_below(2) ? CONTENT_SPREAD : CONTENT_DUPLICATES;
		HdIndex *index;
		HdBatch batch;
		HdResult result;

		model_make(&model, content, width);
		index = make_index(content, width,
						   rnd_below(2) ? HD_DEFAULT_FANOUT : HT_MIN_FANOUT + rnd_below(100));
		for (int i = 0; i < n; i++)
			low[i] = model_probe(&model);
		memset(&batch, 0, sizeof(batch));
		batch.low = pack(low, n, width);
		batch.count = (uint32_t) n;
		batch.threads = threads;
		if (model_search(&model, low, low, batch.count, NULL) < 2000000)
		{
			for (batch.psa_bits = 0; batch.psa_bits <= 16; batch.psa_bits += 16)
				check_pairs(index, &batch, low, low);
		}
		batch.room = 0;
		expect(hd_index_search(index, &batch, &result) == HD_OK && result.threads == threads,
			   "%d threads and not %d", result.threads, threads);
		free((void *) batch.low);
		free(low);
		hd_index_free(index);
	}
	report("search, %d bits: groups of threads", width_bits(width));
}

/* The number of threads that a device chooses for many probes, all for one key. */
static int
choice_for(HdIndex *index, HtWidth width, uint64_t key)
{
	int n = 40000;
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
	HdBatch batch;
	HdResult result;

	for (int i = 0; i < n; i++)
		low[i] = key;
	memset(&batch, 0, sizeof(batch));
	batch.low = pack(low, n, width);
	batch.count = (uint32_t) n;
	batch.psa_bits = HD_AUTOMATIC;
	expect(hd_index_search(index, &batch, &result) == HD_OK, "search: %s", hd_device_error(device));
	free((void *) batch.low);
	free(low);
	return result.threads;
}

/*
 * The number of threads is chosen for each batch.  If one comes first whose probes all take the
 * first children, that changes nothing for one whose probes take late ones, and the other way
 * round.
 */
static void
test_choice_of_threads(HtWidth width)
{
	HdIndex *index = NULL;
	uint64_t last;
	uint32_t child;

	/* Two threads gain up to the sixth child. */
	do
	{
		hd_index_free(index);
		model_make(&model, CONTENT_SPREAD, width);
		index = make_index(CONTENT_SPREAD, width, HD_DEFAULT_FANOUT);
		last = model.count > 0 ? model.entries[model.count - 1].key : 0;
		for (child = 0; child + 1 < leaf_count && leaves[child + 1].low.key < last; child++)
			;
	} while (child < 8 || leaf_count > HD_DEFAULT_FANOUT);
	for (int i = 0; i < 3; i++)
	{
		expect(choice_for(index, width, 0) == 2, "not two threads at the first child");
		expect(choice_for(index, width, last) == 1, "not one thread at child %u", child);
	}
	hd_index_free(index);
	report("search, %d bits: each batch has its number of threads", width_bits(width));
}

static int
compare_keys(const void *a, const void *b)
{
	return compare_tids(a, b);
}

/* Large batches that come in order, nearly so, or with one key only. */
static void
test_ordered_batches(HtWidth width)
{
	int n = large_count();
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
	Content contents[3] = {CONTENT_SPREAD, CONTENT_SERIAL, CONTENT_SPREAD};

	for (int order = 0; order < 3 && !failed(); order++)
	{
		HdBatch batch;
		HdIndex *index;

		do
			model_make(&model, contents[order], width);
		while (model.count < MODEL_MAX_ENTRIES / 4);
		index = make_index(contents[order], width, HD_DEFAULT_FANOUT);
		low[0] = model.entries[rnd_below(model.count)].key;
		for (int i = 0; i < n; i++)
			low[i] = order == 2 ? low[0] : model_probe(&model);
		qsort(low, (size_t) n, sizeof(uint64_t), compare_keys);
		for (int i = 0; i + 100 < n && order == 1; i += 100)
		{
			int j = i + rnd_below(100);
			uint64_t key = low[i];

			low[i] = low[j];
			low[j] = key;
		}
		memset(&batch, 0, sizeof(batch));
		batch.low = pack(low, n, width);
		batch.count = (uint32_t) n;
		batch.psa_bits = HD_AUTOMATIC;
		if (order == 2)
			check_distinct(index, &batch, low);
		else
			batch.high = order == 0 ? NULL : batch.low;
		if (order < 2)
			check_pairs(index, &batch, low, low);
		free((void *) batch.low);
		hd_index_free(index);
	}
	free(low);
	report("search, %d bits: batches in order", width_bits(width));
}

/*
 * Ranges of so many entries that the hits of one take several turns, or only some fit into the
 * room.
 */
static void
test_long_ranges(HtWidth width)
{
	for (int round = 0; round < 12 && !failed(); round++)
	{
		Content content = (Content[]){CONTENT_SPREAD, CONTENT_SERIAL, CONTENT_DUPLICATES,
									  CONTENT_ENDS}[round % 4];
		int n = 1 + rnd_skewed(40);
		uint64_t low[40];
		uint64_t high[40];
		HdBatch batch;
		HdIndex *index;

		model_make(&model, content, width);
		index = make_index(content, width, HD_DEFAULT_FANOUT);
		for (int i = 0; i < n; i++)
		{
			low[i] = model_probe(&model);
			high[i] = model_probe(&model);
			if (low[i] > high[i] && rnd_below(8) != 0)
			{
				uint64_t key = low[i];

				low[i] = high[i];
				high[i] = key;
			}
		}
		memset(&batch, 0, sizeof(batch));
		batch.low = pack(low, n, width);
		batch.high = pack(high, n, width);
		batch.count = (uint32_t) n;
		for (batch.psa_bits = 0; batch.psa_bits <= 16; batch.psa_bits += 16)
			check_pairs(index, &batch, low, high);
		free((void *) batch.low);
		free((void *) batch.high);
		hd_index_free(index);
	}
	report("search, %d bits: long ranges", width_bits(width));
}

static bool
never_goes_on(void *argument)
{
	++*(int *) argument;
	return false;
}

/* Ranges of all entries, many times: far more hits than anybody would wait for. */
static void
test_abandoned_ranges(void)
{
	int n = 1000000;
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
	uint64_t *high = allocate(sizeof(uint64_t) * (size_t) n);
	int asked = 0;
	HdBatch batch;
	HdResult result;
	HdIndex *index;

	do
		model_make(&model, CONTENT_SPREAD, HT_WIDTH64);
	while (model.count < MODEL_MAX_ENTRIES / 4);
	index = make_index(CONTENT_SPREAD, HT_WIDTH64, HD_DEFAULT_FANOUT);
	for (int i = 0; i < n; i++)
	{
		low[i] = 0;
		high[i] = UINT64_MAX;
	}
	memset(&batch, 0, sizeof(batch));
	batch.low = low;
	batch.high = high;
	batch.count = (uint32_t) n;
	batch.room = 1000;
	batch.probes = allocate(sizeof(uint32_t) * batch.room);
	batch.tids = allocate(sizeof(uint64_t) * batch.room);
	for (batch.psa_bits = HD_AUTOMATIC; batch.psa_bits <= 0; batch.psa_bits++)
	{
		hd_device_set_goes_on(device, never_goes_on, &asked);
		batch.count = (uint32_t) n;
		expect(hd_index_search(index, &batch, &result) == HD_ABANDONED, "pairs: %s",
			   hd_device_error(device));
		hd_device_set_goes_on(device, NULL, NULL);
		batch.count = 10;
		expect(hd_index_search(index, &batch, &result) == HD_OK &&
				   result.hits == 10 * (uint64_t) model.count,
			   "after that");
	}
	expect(asked > 0, "never asked");
	free(batch.probes);
	free(batch.tids);
	free(low);
	free(high);
	hd_index_free(index);
	report("a search for ranges is abandoned");
}

/* Write a leaf with one entry, at the last block. */
static void
write_last(HdIndex *index, uint32_t blocks, uint64_t key, bool on_host)
{
	HtLeafShape shape = model_full_shape(HT_WIDTH64);
	HtEntry entry = make_entry(key, key + 1);
	char *page = allocate(HT_PAGE_SIZE);
	uint32_t number = blocks - 1;

	ht_leaf_init(page, shape);
	ht_leaf_fill(page, shape, &entry, 1);
	expect(hd_index_reserve(index, blocks, on_host) == HD_OK, "%u blocks: %s", blocks,
		   hd_device_error(device));
	expect(hd_index_write(index, &number, page, 1) == HD_OK, "write: %s", hd_device_error(device));
	free(page);
}

/* Search each of the leaves that write_last() has written. */
static void
search_grown(HdIndex *index, const uint32_t *blocks, int count)
{
	HdLeaf list[10];
	uint64_t keys[10];
	uint32_t probes[10];
	uint64_t tids[10];
	HdBatch batch;
	HdResult result;

	for (int i = 0; i < count; i++)
	{
		keys[i] = (uint64_t) i * 1000;
		list[i] = (HdLeaf){make_entry(keys[i], 0), blocks[i] - 1};
	}
	memset(&batch, 0, sizeof(batch));
	batch.low = keys;
	batch.count = (uint32_t) count;
	batch.probes = probes;
	batch.tids = tids;
	batch.room = (uint64_t) count;
	expect(hd_index_set_leaves(index, list, (uint32_t) count) == HD_OK, "leaves");
	expect(hd_index_search(index, &batch, &result) == HD_OK, "search: %s", hd_device_error(device));
	expect(result.hits == (uint64_t) count, "%d of %d leaves", (int) result.hits, count);
	for (int i = 0; i < count && !failed(); i++)
		expect(tids[i] == keys[probes[i]] + 1, "leaf %u of %d after %u blocks", probes[i], count,
			   blocks[count - 1]);
}

/*
 * A copy grows and keeps what it has: on the device, on the host (1), or on the one or the other
 * (2).
 */
static void
grow(int where)
{
	static const uint32_t blocks[] = {3, 400, 5000, 8193, 9000, 20000, 20500, 30000};
	HdIndex *index;
	uint32_t host_blocks = 0;

	expect(hd_index_create(device, HT_WIDTH64, 64, &index) == HD_OK, "create");
	for (int i = 0; i < 8 && !failed(); i++)
	{
		bool on_host = where == 1 || (where == 2 && rnd_below(2));

		write_last(index, blocks[i], (uint64_t) i * 1000, on_host);
		search_grown(index, blocks, i + 1);
		host_blocks += on_host ? blocks[i] - (i > 0 ? blocks[i - 1] : 0) : 0;
		expect(hd_index_host_memory(index) == (uint64_t) host_blocks * HT_PAGE_SIZE,
			   "memory of the host");
		expect(hd_index_memory(index) >= (uint64_t) (blocks[i] - host_blocks) * HT_PAGE_SIZE,
			   "memory");
	}
	hd_index_free(index);
}

/* The same; on a GPU also where there is no room for a second copy. */
static void
test_growth(void)
{
	HdIndex *index;
	HdInfo before, after;
	uint32_t large[2];

	expect(hd_device_info(device, &before) == HD_OK, "info");
	for (int where = 0; where < (maps_host ? 5 : 1); where++)
		grow(where < 2 ? where : 2);
	report("a copy grows%s", maps_host ? ", also on the host" : "");

	if (kind == HD_HOST)
		return;
	expect(hd_index_create(device, HT_WIDTH64, 64, &index) == HD_OK, "create");
	for (int i = 0; i < 2; i++)
	{
		large[i] = (uint32_t) (before.memory_free / HT_PAGE_SIZE * (i == 0 ? 60 : 85) / 100);
		write_last(index, large[i], (uint64_t) i * 1000, false);
		search_grown(index, large, i + 1);
	}
	expect(hd_index_reserve(index, UINT32_MAX / 2, false) == HD_NO_MEMORY, "more than there is");
	search_grown(index, large, 2);
	hd_index_free(index);
	expect(hd_device_info(device, &after) == HD_OK, "info");
	expect(after.memory_free + ((uint64_t) 256 << 20) > before.memory_free,
		   "%llu MB are not given back",
		   (unsigned long long) ((before.memory_free - after.memory_free) >> 20));
	report("a copy of more than half of the memory grows");
}

/* Serial numbers, whose top bits are all the same, or change in the middle. */
static void
test_sort_plan(void)
{
	HdIndex *index;
	HdLeaf list[4096];
	uint64_t key = 0;
	HdBatch batch;
	HdResult result;

	expect(hd_index_create(device, HT_WIDTH64, 64, &index) == HD_OK, "create");
	expect(hd_index_reserve(index, 1, false) == HD_OK, "reserve");
	memset(&batch, 0, sizeof(batch));
	batch.low = &key;
	batch.count = 1;
	batch.psa_bits = 64;
	for (int i = 0; i < 4096; i++)
		list[i] = (HdLeaf){make_entry(UINT64_C(1) << 63, 0), 0};
	for (int i = 0; i < 4096; i++)
		list[i].low.key += (uint64_t) i * 256;
	expect(hd_index_set_leaves(index, list, 4096) == HD_OK, "leaves");
	expect(hd_index_search(index, &batch, &result) == HD_OK, "search");
	expect(result.psa_bits == 20, "%d bits of serial numbers", result.psa_bits);
	for (int i = 0; i < 4096; i++)
		list[i].low.key -= 2048 * 256;
	expect(hd_index_set_leaves(index, list, 4096) == HD_OK, "leaves");
	expect(hd_index_search(index, &batch, &result) == HD_OK, "search");
	expect(result.psa_bits == 20, "%d bits of serial numbers around zero", result.psa_bits);

	/* A batch with few probes is not sorted. */
	batch.psa_bits = HD_AUTOMATIC;
	expect(hd_index_search(index, &batch, &result) == HD_OK, "search");
	expect(result.psa_bits == 0, "one probe sorted by %d bits", result.psa_bits);
	hd_index_free(index);
	report("bits to sort by");
}

static void
test_mistakes(void)
{
	HdIndex *index;
	HdLeaf list[3] = {{{9, 0}, 0}, {{5, 2}, 1}, {{5, 1}, 0}};
	char *page = allocate(HT_PAGE_SIZE);
	uint32_t number = 2;
	uint64_t key = 5;
	uint64_t tid = GUARD;
	uint64_t found = GUARD;
	uint32_t probe;
	uint32_t count;
	HdBatch batch;
	HdResult result;

	expect(hd_index_create(device, (HtWidth) 5, 64, &index) == HD_INVALID, "width");
	expect(hd_index_create(device, (HtWidth) 32, 64, &index) == HD_INVALID, "width of 256 bits");
	expect(hd_index_create(device, HT_WIDTH64, 7, &index) == HD_INVALID, "fanout 7");
	expect(hd_index_create(device, HT_WIDTH64, 129, &index) == HD_INVALID, "fanout 129");
	expect(hd_index_create(device, HT_WIDTH64, 64, &index) == HD_OK, "create");
	expect(hd_index_reserve(index, 2, false) == HD_OK, "reserve");
	expect(hd_index_write(index, &number, page, 1) == HD_INVALID, "block beyond");
	number = 2 * HT_PAGE_SIZE / HD_LINE_SIZE;
	expect(hd_index_write_lines(index, &number, page, 1) == HD_INVALID, "line beyond");
	expect(strstr(hd_device_error(device), "line 128") != NULL, "message");
	number = 2;
	expect(hd_index_write(index, &number, page, 1) == HD_INVALID, "block beyond");
	expect(strstr(hd_device_error(device), "block 2") != NULL, "message");
	expect(hd_index_set_leaves(index, list, 3) == HD_INVALID, "order of leaves");
	expect(hd_index_set_leaves(index, list, HD_MAX_LEAVES + 1) == HD_NO_MEMORY,
		   "more leaves than can be numbered");
	list[1].block = 2;
	expect(hd_index_set_leaves(index, list, 2) == HD_INVALID, "leaf beyond");

	memset(&batch, 0, sizeof(batch));
	batch.low = &key;
	batch.count = 1;
	batch.tids = &tid;
	batch.room = 1;
	batch.by_block = true;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "tids alone by block");
	batch.probes = &probe;
	batch.map_pages = 1;
	batch.counts = &count;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "a map and an order");
	batch.by_block = false;
	batch.counts = NULL;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "a map for pairs without counts");
	batch.map_pages = 0;
	batch.keys = &found;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "keys of points");
	batch.high = &key;
	batch.by_block = true;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "keys and an order");
	batch.by_block = false;
	batch.counts = &count;
	batch.map_pages = 1;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "keys and a map");
	batch.map_pages = 0;
	batch.probes = NULL;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "keys of tids alone");
	batch.probes = &probe;
	batch.distinct = true;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "distinct ranges");
	batch.distinct = false;
	expect(hd_index_search(index, &batch, &result) == HD_OK && result.hits == 0 && found == GUARD,
		   "keys of no hits");
	batch.high = NULL;
	batch.keys = NULL;
	batch.psa_bits = -2;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "bits");
	batch.psa_bits = HD_AUTOMATIC;
	for (batch.threads = -1; batch.threads <= 64; batch.threads += batch.threads < 3 ? 4 : 61)
		expect(hd_index_search(index, &batch, &result) == HD_INVALID, "%d threads", batch.threads);
	batch.threads = 2;
	batch.distinct = true;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "groups for distinct points");
	batch.distinct = false;
	batch.high = &key;
	expect(hd_index_search(index, &batch, &result) == HD_INVALID, "groups for ranges");
	batch.high = NULL;
	batch.threads = 0;
	batch.count = 0;
	expect(hd_index_search(index, &batch, &result) == HD_OK && tid == GUARD, "no probe");
	batch.count = 1;
	expect(hd_index_search(index, &batch, &result) == HD_OK && result.hits == 0 && tid == GUARD,
		   "index without leaves");
	hd_index_free(index);
	free(page);
	report("the caller's mistakes");
}

/*
 * Damaged pages may yield any result, but searches must end and must not read
 * elsewhere.
 */
static void
test_damage(HtWidth width)
{
	HdIndex *index;
	char *pages = allocate(3 * HT_PAGE_SIZE);
	HdLeaf list[3] = {{{0, 0}, 0}, {{1000, 0}, 1}, {{2000, 0}, 2}};
	uint32_t numbers[3] = {0, 1, 2};
	uint64_t tids[101];
	uint32_t probes[100];
	uint64_t keys[100];
	uint64_t high[100];
	HdBatch batch;
	HdResult result;

	memset(&batch, 0, sizeof(batch));
	expect(hd_index_create(device, width, 16, &index) == HD_OK, "create");
	expect(hd_index_reserve(index, 3, false) == HD_OK, "reserve");
	expect(hd_index_set_leaves(index, list, 3) == HD_OK, "leaves");
	for (int i = 0; i < 100; i++)
	{
		keys[i] = rnd_below(2) ? rnd() : (uint64_t) rnd_below(3000);
		high[i] = rnd_below(2) ? rnd() : keys[i] + (uint64_t) rnd_below(3000);
	}
	batch.low = keys;
	batch.count = 100;
	batch.tids = tids;
	batch.probes = probes;
	batch.room = 100;
	tids[100] = GUARD;
	for (int round = 0; round < 20; round++)
	{
		for (int i = 0; i < 3 * HT_PAGE_SIZE; i++)
			pages[i] = (char) (rnd_below(4) == 0 ? 0xFF : rnd());
		expect(hd_index_write(index, numbers, pages, 3) == HD_OK, "write");
		for (int i = 0; i < 12; i++)
		{
			batch.psa_bits = rnd_below(2) * 8;
			batch.high = rnd_below(2) ? NULL : high;
			expect(hd_index_search(index, &batch, &result) == HD_OK, "search");
			expect(tids[100] == GUARD, "the device writes beyond the room");
		}
	}
	hd_index_free(index);
	free(pages);
	report("damaged pages, %d bits", width_bits(width));
}

int
main(int argc, char **argv)
{
	HdInfo info;
	bool lanes = false;

	if (argc > 1 && (strcmp(argv[1], "cuda") == 0 || strcmp(argv[1], "host") == 0))
	{
		kind = strcmp(argv[1], "cuda") == 0 ? HD_CUDA : HD_HOST;
		argc--;
		argv++;
	}
	if (argc > 1 && (strcmp(argv[1], "lanes") == 0 || strcmp(argv[1], "brief") == 0))
	{
		lanes = strcmp(argv[1], "lanes") == 0;
		brief = !lanes;
		argc--;
		argv++;
	}
	tap_start(argc, argv);
	model.entries = allocate(sizeof(HtEntry) * MODEL_MAX_ENTRIES);
	leaves = allocate(sizeof(HdLeaf) * MAX_LEAVES);

	expect(hd_device_open(kind, 1000, &device) == HD_UNSUPPORTED, "there is no device 1000");
	expect(hd_device_error(device)[0] != '\0', "no message");
	hd_device_close(device);
	expect(hd_device_open(kind, 0, &device) == HD_OK, "open: %s", hd_device_error(device));
	expect(hd_device_info(device, &info) == HD_OK, "info: %s", hd_device_error(device));
	maps_host = info.maps_host;
	printf("# %s%s\n", info.name, maps_host ? "" : ", which cannot map the host's memory");
	report("open");

	for (HtWidth width = HT_WIDTH32; width <= HT_WIDTH64 && !lanes; width += 4)
	{
		for (Content content = 0; content < CONTENT_COUNT; content++)
			test_search_device(width, content);
		test_ends_of_class(width, 0);
		test_ends_of_class(width, 16);
		if (width == HT_WIDTH64)
			test_ends_of_class(width, 32);
		test_large_batch(width);
		test_threads(width);
		test_choice_of_threads(width);
		test_ordered_batches(width);
		test_long_ranges(width);
		test_damage(width);
	}
	if (!lanes)
		test_narrow_keys();
	if (!lanes && !brief)
	{
		test_abandoned_ranges();
		test_sort_plan();
		test_growth();
		test_mistakes();
	}
	for (HtWidth width = HT_WIDTH32; width <= HT_WIDTH64; width += 4)
	{
		if (!brief)
		{
			test_lanes(width, CONTENT_SPREAD, large_count());
			test_lanes(width, CONTENT_SERIAL, large_count());
		}
		test_together(width, CONTENT_SPREAD);
		test_together(width, CONTENT_DUPLICATES);
	}

	hd_device_close(device);
	free(model.entries);
	free(leaves);
	return tap_finish();
}
