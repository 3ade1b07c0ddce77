/*
 * device_checks.c
 *		An index on a device, and what its searches find compared with a plain sorted array.
 */
#include "device_checks.h"

#include <stdlib.h>

#define SPARE_BLOCKS 50
#define PROBES 300
#define ARENA_SIZE ((size_t) 32 << 20)

HdDevice *device;
HdKind kind = HD_HOST;
bool maps_host;
Model model;
HdLeaf *leaves;
uint32_t leaf_count;

/* Pinned memory for the arrays of a batch that says that they are there. */
static char *arena;
static size_t arena_used;

/* Memory for one of a batch's arrays. */
static void *
take(const HdBatch *batch, size_t size)
{
	char *taken = arena + arena_used;

	if (!batch->pinned)
		return allocate(size);
	arena_used += (size + 63) / 64 * 64;
	if (arena_used > ARENA_SIZE)
		abort();
	return taken;
}

static void
give(const HdBatch *batch, const void *memory)
{
	if (!batch->pinned)
		free((void *) memory);
}

/*
 * Fill a page, either in order or by insertion in random order.  The latter leaves
 * blocks unordered.
 */
static void
make_page(char *page, HtWidth width, const HtEntry *from, int n)
{
	HtLeafShape shape = model_shape(width, from, n);
	HtLeafChange change;
	int *order;

	for (int i = 0; i < HT_PAGE_SIZE; i++)
		page[i] = (char) rnd();
	ht_leaf_init(page, shape);
	if (rnd_below(2))
	{
		ht_leaf_fill(page, shape, from, n);
		return;
	}
	order = allocate(sizeof(int) * (size_t) (n + 1));
	memset(&change, 0, sizeof(change));
	for (int i = 0; i < n; i++)
	{
		int j = rnd_below(i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (int i = 0; i < n; i++)
		expect(ht_leaf_insert(page, from[order[i]], &change) == HT_INSERTED, "insert");
	free(order);
}

/*
 * Damage some lines of the pages and write them again, in random or ascending order,
 * from memory that is pinned or not.
 */
static void
write_lines(HdIndex *index, const uint32_t *blocks, const char *pages, uint32_t count)
{
	const uint32_t page_lines = HT_PAGE_SIZE / HD_LINE_SIZE;
	uint32_t lines = count * page_lines;
	uint32_t first = lines > 0 ? (uint32_t) rnd_below((int) lines) : 0;
	uint32_t n = lines > 0 ? (uint32_t) rnd_below((int) (lines - first)) : 0;
	size_t size = (size_t) (n + 1) * HD_LINE_SIZE;
	uint32_t *numbers = allocate(sizeof(uint32_t) * (n + 1));
	char *from = allocate(size);
	bool all = rnd_below(2);
	bool pinned = rnd_below(2) && hd_device_pin(device, from, size) == HD_OK;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t line = first + i;

		if (all || rnd_below(10) == 0)
			numbers[kept++] = blocks[line / page_lines] * page_lines + line % page_lines;
	}
	memset(from, 0xA5, size);
	expect(hd_index_write_lines(index, numbers, from, kept) == HD_OK, "damage lines");

	for (uint32_t i = 0; i < kept && !all; i++)
	{
		uint32_t j = (uint32_t) rnd_below((int) i + 1);
		uint32_t number = numbers[i];

		numbers[i] = numbers[j];
		numbers[j] = number;
	}
	for (uint32_t i = 0; i < kept; i++)
	{
		uint32_t leaf = 0;

		while (blocks[leaf] != numbers[i] / page_lines)
			leaf++;
		memcpy(from + (size_t) i * HD_LINE_SIZE,
			   pages + (size_t) leaf * HT_PAGE_SIZE + numbers[i] % page_lines * HD_LINE_SIZE,
			   HD_LINE_SIZE);
	}
	expect(hd_index_write_lines(index, numbers, from, kept) == HD_OK, "write lines");
	if (pinned)
		expect(hd_device_unpin(device, from) == HD_OK, "unpin: %s", hd_device_error(device));
	free(numbers);
	free(from);
}

HdIndex *
make_index(Content content, HtWidth width, int fanout)
{
	HdIndex *index;
	uint32_t blocks = MAX_LEAVES + SPARE_BLOCKS;
	uint32_t *numbers = allocate(sizeof(uint32_t) * blocks);
	char *pages;
	int done = 0;
	int fill =
		1 + model.count / (MAX_LEAVES / 2) + rnd_skewed(ht_leaf_capacity(model_full_shape(width)));

	if (content == CONTENT_ONE_LEAF)
		fill = MODEL_MAX_ENTRIES;
	expect(hd_index_create(device, width, fanout, &index) == HD_OK, "create");
	/* Reserve twice, so that blocks move. */
	expect(hd_index_reserve(index, SPARE_BLOCKS, false) == HD_OK, "reserve: %s",
		   hd_device_error(device));
	for (uint32_t i = 0; i < blocks; i++)
	{
		uint32_t j = (uint32_t) rnd_below((int) i + 1);

		numbers[i] = numbers[j];
		numbers[j] = i;
	}

	leaf_count = 0;
	pages = allocate((size_t) MAX_LEAVES * HT_PAGE_SIZE);
	/* Empty leaves at the end have the greatest key as bound, which is far from serial ones. */
	while (content != CONTENT_NONE && (done < model.count || leaf_count == 0 ||
									   (content != CONTENT_ONE_LEAF && content != CONTENT_SERIAL &&
										leaf_count < MAX_LEAVES && rnd_below(4) != 0)))
	{
		HdLeaf *leaf = &leaves[leaf_count];
		int n = rnd_below(5) == 0 && leaf_count < MAX_LEAVES / 4 ? 0 : fill;

		if (n > model.count - done)
			n = model.count - done;
		if (n > ht_leaf_capacity(model_full_shape(width)))
			n = ht_leaf_capacity(model_full_shape(width));

		/*
		 * Choose any bound above the last entry before the leaf and not above its first
		 * one.
		 */
		leaf->low =
			done < model.count ? model.entries[done] : make_entry(ht_key_max(width), HT_TID_MAX);
		if (done > 0 && model.entries[done - 1].key < leaf->low.key && rnd_below(2))
			leaf->low.tid = 0;
		if (leaf_count > 0 && ht_entry_cmp(leaf->low, leaves[leaf_count - 1].low) < 0)
			leaf->low = leaves[leaf_count - 1].low;
		leaf->block = numbers[leaf_count];
		make_page(pages + (size_t) leaf_count * HT_PAGE_SIZE, width, model.entries + done, n);
		done += n;
		leaf_count++;
		if (leaf_count == 1 && leaf->block < SPARE_BLOCKS)
			expect(hd_index_write(index, numbers, pages, 1) == HD_OK, "write before blocks move");
		if (leaf_count == 1)
			expect(hd_index_reserve(index, blocks, maps_host && rnd_below(2)) == HD_OK,
				   "reserve more: %s", hd_device_error(device));
	}
	expect(hd_index_reserve(index, blocks, false) == HD_OK, "reserve more: %s",
		   hd_device_error(device));
	/* Do not write the first leaf again. */
	if (leaf_count > 0 && numbers[0] < SPARE_BLOCKS)
		expect(hd_index_write(index, numbers + 1, pages + HT_PAGE_SIZE, leaf_count - 1) == HD_OK,
			   "write");
	else
		expect(hd_index_write(index, numbers, pages, leaf_count) == HD_OK, "write");
	write_lines(index, numbers, pages, leaf_count);
	leaves[0].low.key = rnd();
	expect(hd_index_set_leaves(index, leaves, leaf_count) == HD_OK, "leaves: %s",
		   hd_device_error(device));
	free(pages);
	free(numbers);
	return index;
}

void *
pack(const uint64_t *keys, int n, HtWidth width)
{
	void *packed = allocate((size_t) width * (size_t) n);

	pack_keys(packed, keys, n, width);
	return packed;
}

int
compare_tids(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *) a;
	uint64_t right = *(const uint64_t *) b;

	return left < right ? -1 : left > right;
}

/*
 * Search again with a map of pages: their hits must be counted, and the others returned, in
 * any order.  "all" are the tids of all hits, in order, if there is room for them.
 */
static void
check_map(HdIndex *index, HdBatch *batch, const uint64_t *all, uint64_t hits)
{
	uint32_t pages = 1 + (uint32_t) rnd_below(MODEL_PAGES * 2);
	uint32_t words = (pages + 31) / 32;
	uint32_t *map = take(batch, sizeof(uint32_t) * words);
	uint64_t density = (uint64_t) rnd_below(4);
	uint64_t kept = 0;
	HdResult result;

	for (uint32_t i = 0; i < words; i++)
		map[i] = density == 0 ? 0 : density == 1 ? UINT32_MAX : (uint32_t) rnd();
	batch->map = map;
	batch->map_pages = pages;
	batch->tids[batch->room] = GUARD;
	expect(hd_index_search(index, batch, &result) == HD_OK, "map: %s", hd_device_error(device));
	expect(result.hits == hits && batch->tids[batch->room] == GUARD,
		   "%llu hits with a map, not %llu", (unsigned long long) result.hits,
		   (unsigned long long) hits);
	batch->map_pages = 0;
	expect(result.counted <= hits, "%llu hits counted by a map",
		   (unsigned long long) result.counted);
	if (hits <= batch->room && !failed())
	{
		uint64_t returned = hits - result.counted;

		qsort(batch->tids, returned, sizeof(uint64_t), compare_tids);
		for (uint64_t i = 0; i < hits && !failed(); i++)
		{
			uint64_t page = all[i] >> 16;
			uint32_t offset = (uint32_t) (all[i] & 0xFFFF);

			if (page < pages && (map[page / 32] >> page % 32 & 1) != 0 && offset >= 1 &&
				offset <= HT_PAGE_SIZE / 4)
				continue;
			expect(kept < returned && batch->tids[kept] == all[i],
				   "a tid that the map does not count");
			kept++;
		}
		expect(kept == returned, "%llu tids and not %llu with a map", (unsigned long long) returned,
			   (unsigned long long) kept);
	}
	give(batch, map);
}

/*
 * Search again without probe numbers: the tids must be the same, in any order.  Sorts
 * the tids of the batch.
 */
static void
check_tids(HdIndex *index, HdBatch *batch, uint64_t hits)
{
	uint32_t *probes = batch->probes;
	uint64_t *with_probes = batch->tids;
	HdResult result;

	batch->probes = NULL;
	batch->by_block = false;
	batch->tids = take(batch, sizeof(uint64_t) * (batch->room + 1));
	batch->tids[batch->room] = GUARD;
	expect(hd_index_search(index, batch, &result) == HD_OK, "tids: %s", hd_device_error(device));
	expect(result.hits == hits && batch->tids[batch->room] == GUARD,
		   "tids of %llu hits instead of %llu", (unsigned long long) result.hits,
		   (unsigned long long) hits);
	if (hits <= batch->room)
	{
		qsort(batch->tids, hits, sizeof(uint64_t), compare_tids);
		qsort(with_probes, hits, sizeof(uint64_t), compare_tids);
		expect(memcmp(batch->tids, with_probes, hits * sizeof(uint64_t)) == 0, "other tids");
	}
	check_map(index, batch, with_probes, hits);
	give(batch, batch->tids);
	batch->probes = probes;
	batch->tids = with_probes;
}

/*
 * Search again with a map of pages and with probe numbers: hits on these pages must be counted for
 * their probes, and the others returned, in any order.
 */
static void
check_tally(HdIndex *index, HdBatch *batch, const uint64_t *low, const uint64_t *high,
			uint64_t hits)
{
	uint32_t pages = 1 + (uint32_t) rnd_below(MODEL_PAGES * 2);
	uint32_t words = (pages + 31) / 32;
	uint32_t *map = take(batch, sizeof(uint32_t) * words);
	uint32_t *wanted = allocate(sizeof(uint32_t) * (batch->count + 1));
	HtHit *all = allocate(sizeof(HtHit) * (hits + 1));
	uint64_t kept = 0;
	uint64_t sum = 0;
	HdResult result;

	for (uint32_t i = 0; i < words; i++)
		map[i] = (uint32_t) rnd();
	memset(wanted, 0, sizeof(uint32_t) * batch->count);
	model_search(&model, low, high, batch->count, all);
	for (uint64_t i = 0; i < hits; i++)
	{
		uint64_t page = all[i].tid >> 16;
		uint32_t offset = (uint32_t) (all[i].tid & 0xFFFF);

		if (page < pages && (map[page / 32] >> page % 32 & 1) != 0 && offset >= 1 &&
			offset <= HT_PAGE_SIZE / 4)
			wanted[all[i].probe]++;
		else
		{
			kept++;
			sum += all[i].tid * (all[i].probe + 1);
		}
	}
	batch->map = map;
	batch->map_pages = pages;
	batch->by_block = false;
	batch->counts = take(batch, sizeof(uint32_t) * (batch->count + 1));
	batch->counts[batch->count] = (uint32_t) GUARD;
	batch->tids[batch->room] = GUARD;
	batch->probes[batch->room] = (uint32_t) GUARD;
	expect(hd_index_search(index, batch, &result) == HD_OK, "tally: %s", hd_device_error(device));
	expect(result.hits == hits, "%llu hits in a tally, not %llu", (unsigned long long) result.hits,
		   (unsigned long long) hits);
	expect(batch->tids[batch->room] == GUARD && batch->probes[batch->room] == (uint32_t) GUARD &&
			   batch->counts[batch->count] == (uint32_t) GUARD,
		   "a tally writes beyond the room");
	if (hits > 0 && hits <= batch->room)
	{
		expect(result.counted == hits - kept, "%llu hits tallied, not %llu",
			   (unsigned long long) result.counted, (unsigned long long) (hits - kept));
		expect(memcmp(batch->counts, wanted, sizeof(uint32_t) * batch->count) == 0,
			   "counts of probes");
		for (uint64_t i = 0; i < kept && !failed(); i++)
			sum -= batch->tids[i] * (batch->probes[i] + 1);
		expect(sum == 0, "pairs that the map does not count");
	}
	batch->map_pages = 0;
	give(batch, batch->counts);
	batch->counts = NULL;
	give(batch, map);
	free(wanted);
	free(all);
}

/*
 * Search for ranges again, and ask for the keys of hits, with enough room or too little.
 */
static void
check_keys(HdIndex *index, HdBatch *batch, const uint64_t *low, const uint64_t *high, uint64_t hits)
{
	size_t width = (size_t) model.width;
	uint64_t room = batch->room;
	char *keys = take(batch, width * (room + 1));
	HdResult result;

	memset(keys, 0xA5, width * (room + 1));
	batch->keys = keys;
	batch->by_block = false;
	batch->probes[room] = (uint32_t) GUARD;
	batch->tids[room] = GUARD;
	expect(hd_index_search(index, batch, &result) == HD_OK, "keys: %s", hd_device_error(device));
	expect(result.hits == hits, "keys of %llu hits instead of %llu",
		   (unsigned long long) result.hits, (unsigned long long) hits);
	for (size_t i = 0; i < width; i++)
		expect(keys[width * room + i] == (char) 0xA5, "the device writes keys beyond the room");
	if (!failed())
		model_compare_keys(&model, low, high, batch->count, room, batch->probes, batch->tids, keys);
	batch->keys = NULL;
	give(batch, keys);
}

void
check_pairs(HdIndex *index, HdBatch *batch, const uint64_t *low, const uint64_t *high)
{
	uint64_t expected = model_search(&model, low, high, batch->count, NULL);
	uint64_t room;
	HdResult result;

	/* Give enough room, or too little. */
	room = rnd_below(3) != 0 ? expected + (uint64_t) rnd_below(2) :
							   expected - (expected > 0 ? rnd() % expected : 0);
	batch->by_block = rnd_below(2);
	batch->room = room;
	batch->probes = take(batch, sizeof(uint32_t) * (room + 1));
	batch->tids = take(batch, sizeof(uint64_t) * (room + 1));
	for (uint64_t i = 0; i <= room; i++)
	{
		batch->probes[i] = (uint32_t) GUARD;
		batch->tids[i] = GUARD;
	}
	expect(hd_index_search(index, batch, &result) == HD_OK, "search: %s", hd_device_error(device));
	expect(result.hits == expected, "%llu hits instead of %llu", (unsigned long long) result.hits,
		   (unsigned long long) expected);
	expect(batch->probes[room] == (uint32_t) GUARD && batch->tids[room] == GUARD,
		   "the device writes beyond the room");

	model_compare(&model, low, high, batch->count, room, batch->probes, batch->tids,
				  batch->by_block ? MODEL_BY_BLOCK : MODEL_BY_PROBE);
	if (batch->high != NULL)
		check_keys(index, batch, low, high, expected);
	check_tids(index, batch, expected);
	check_tally(index, batch, low, high, expected);
	give(batch, batch->probes);
	give(batch, batch->tids);
}

void
check_distinct(HdIndex *index, HdBatch *batch, const uint64_t *keys)
{
	HtEntry *wanted = allocate(sizeof(HtEntry) * batch->count);
	HtEntry *found = allocate(sizeof(HtEntry) * (size_t) (model.count + 1));
	uint64_t expected = 0;
	HdResult result;
	int n;

	for (uint32_t i = 0; i < batch->count; i++)
		wanted[i] = make_entry(keys[i], 0);
	n = sort_entries(wanted, (int) batch->count);
	for (int i = 0; i < n; i++)
		expected +=
			(uint64_t) (model_upper(&model, wanted[i].key) - model_lower(&model, wanted[i].key));

	batch->distinct = true;
	batch->by_block = rnd_below(2);
	batch->room = (uint64_t) model.count + 1;
	batch->probes = take(batch, sizeof(uint32_t) * batch->room);
	batch->tids = take(batch, sizeof(uint64_t) * batch->room);
	expect(hd_index_search(index, batch, &result) == HD_OK, "distinct: %s",
		   hd_device_error(device));
	expect(result.hits == expected, "%llu distinct hits instead of %llu",
		   (unsigned long long) result.hits, (unsigned long long) expected);
	for (uint64_t i = 0; i < expected && !failed(); i++)
	{
		int at;

		expect(batch->probes[i] < batch->count, "a probe too many");
		if (failed())
			break;
		found[i] = make_entry(keys[batch->probes[i]], batch->tids[i]);
		at = model_lower(&model, found[i].key);
		while (at < model.count && ht_entry_cmp(model.entries[at], found[i]) < 0)
			at++;
		expect(at < model.count && ht_entry_cmp(model.entries[at], found[i]) == 0,
			   "an entry that is not there");
	}
	if (!failed())
	{
		expect(sort_entries(found, (int) expected) == (int) expected, "an entry twice");
		check_tids(index, batch, expected);
	}

	batch->distinct = false;
	give(batch, batch->probes);
	give(batch, batch->tids);
	free(wanted);
	free(found);
}

/* Make random probes: ranges, or points. */
static void
make_probes(uint64_t *low, uint64_t *high, int n, bool ranges)
{
	for (int i = 0; i < n; i++)
	{
		low[i] = high[i] = model_probe(&model);
		if (ranges)
		{
			/* Mostly short ranges from one entry to another, some empty. */
			int end = model_lower(&model, low[i]) + rnd_skewed(30);

			if (end < model.count && rnd_below(20) != 0)
				high[i] = model.entries[end].key -
						  (uint64_t) (model.entries[end].key > 0 && rnd_below(4) == 0);
			else
				high[i] = model_probe(&model);
		}
	}
}

void
check_batch(HdIndex *index, HtWidth width)
{
	int n = 1 + rnd_skewed(PROBES);
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
	uint64_t *high = allocate(sizeof(uint64_t) * (size_t) n);
	bool ranges = rnd_below(2);
	HdBatch batch;

	memset(&batch, 0, sizeof(batch));
	make_probes(low, high, n, ranges);
	batch.low = pack(low, n, width);
	batch.high = ranges ? pack(high, n, width) : NULL;
	batch.count = (uint32_t) n;
	batch.psa_bits = rnd_below(3) == 0 ? HD_AUTOMATIC : rnd_below(8 * (int) width + 9);
	check_pairs(index, &batch, low, high);
	if (!ranges)
		check_distinct(index, &batch, low);
	free((void *) batch.low);
	free((void *) batch.high);
	free(low);
	free(high);
}

void
check_pinned_batch(HdIndex *index, HtWidth width, int n)
{
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
	uint64_t *high = allocate(sizeof(uint64_t) * (size_t) n);
	size_t size = (size_t) width * (size_t) n;
	bool ranges = rnd_below(2);
	HdBatch batch;

	memset(&batch, 0, sizeof(batch));
	make_probes(low, high, n, ranges);
	if (posix_memalign((void **) &arena, 4096, ARENA_SIZE) != 0)
		abort();
	arena_used = 0;
	batch.pinned = hd_device_pin(device, arena, ARENA_SIZE) == HD_OK;
	batch.low = take(&batch, size);
	batch.high = ranges ? take(&batch, size) : NULL;
	pack_keys((void *) batch.low, low, n, width);
	if (ranges)
		pack_keys((void *) batch.high, high, n, width);
	batch.count = (uint32_t) n;
	batch.psa_bits = HD_AUTOMATIC;

	/* Where nearly all entries have one key, there would be no room. */
	if (model_search(&model, low, high, (uint32_t) n, NULL) < ARENA_SIZE / 256)
	{
		check_pairs(index, &batch, low, high);
		if (!ranges)
			check_distinct(index, &batch, low);
	}
	give(&batch, batch.low);
	give(&batch, batch.high);
	if (batch.pinned)
		expect(hd_device_unpin(device, arena) == HD_OK, "unpin");
	free(arena);
	free(low);
	free(high);
}
