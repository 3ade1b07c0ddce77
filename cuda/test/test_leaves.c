/*
 * test_leaves.c
 *		Lists of leaves that change: what a device finds after new leaves were added to a
 *		list is what it finds with the whole list.
 *
 * usage: test_leaves [host | cuda [SEED]]
 *
 * The entries stay the same; the leaves that they are on are cut again and again, as splits and
 * movements of an index do it.  All keys are looked up after each change.
 */
#include "../harmonia_device.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 4000
#define KEYS 1500
#define BLOCKS 6000
#define PER_LEAF 40

typedef struct Cut
{
	int start; /* number of the first entry */
	HtEntry low;
	uint32_t block;
	bool is_new;
} Cut;

static HdDevice *device;
static HdKind kind = HD_HOST;

static HtEntry entries[ENTRIES];
static int entry_count;
static uint32_t expected[KEYS]; /* entries of each key */
static Cut cuts[ENTRIES];
static int cut_count;
static uint32_t free_blocks[BLOCKS];
static int free_count;

static int
cut_end(int i)
{
	return i + 1 < cut_count ? cuts[i + 1].start : entry_count;
}

static void
make_entries(void)
{
	for (int i = 0; i < ENTRIES; i++)
		entries[i] = make_entry((uint64_t) (rnd_below(4) ? rnd_below(KEYS) : rnd_below(20)),
								1 + (rnd() >> 40));
	entry_count = sort_entries(entries, ENTRIES);
	memset(expected, 0, sizeof(expected));
	for (int i = 0; i < entry_count; i++)
		expected[entries[i].key]++;
	free_count = 0;
	for (uint32_t i = 0; i < BLOCKS; i++)
		free_blocks[free_count++] = i;
	cut_count = 0;
}

/* Some free block, so that blocks are used again. */
static uint32_t
take_block(void)
{
	int i = rnd_below(free_count);
	uint32_t block = free_blocks[i];

	free_blocks[i] = free_blocks[--free_count];
	return block;
}

/* Replace some leaves by others, which begin at these entries, in ascending order. */
static void
replace_cuts(int from, int to, const int *starts, int count)
{
	for (int i = from; i < to; i++)
		free_blocks[free_count++] = cuts[i].block;
	memmove(&cuts[from + count], &cuts[to], sizeof(Cut) * (size_t) (cut_count - to));
	cut_count += count - (to - from);
	for (int i = 0; i < count; i++)
	{
		Cut *cut = &cuts[from + i];

		/* Any bound above the entry before may be the low one. */
		cut->start = starts[i];
		cut->low = starts[i] == 0 ? make_entry(0, 0) : entries[starts[i]];
		if (starts[i] > 0 && entries[starts[i] - 1].key < cut->low.key && rnd_below(2))
			cut->low.tid = 0;
		cut->block = take_block();
		cut->is_new = true;
	}
}

/* A split: the left half stays where it is. */
static void
split(int i)
{
	int length = cut_end(i) - cuts[i].start;
	int start = cuts[i].start + 1 + (length > 2 ? rnd_below(length - 1) : 0);

	if (length < 2)
		return;
	replace_cuts(i + 1, i + 1, &start, 1);
	cuts[i].is_new |= rnd_below(2) == 0;
}

/* A movement of some leaves, into more or fewer ones; without any leaf, the first one. */
static void
move(int from, int to)
{
	static int starts[ENTRIES];
	int start = from < cut_count ? cuts[from].start : 0;
	int end = to > from ? cut_end(to - 1) : entry_count;
	int longest = 1 + rnd_below(PER_LEAF);
	int count = 0;
	HtEntry low = from < cut_count ? cuts[from].low : make_entry(0, 0);

	for (; start < end; start += 1 + rnd_below(longest))
		starts[count++] = start;
	replace_cuts(from, to, starts, count);
	cuts[from].low = low;
}

/* Write all pages: any of the blocks may hold what another leaf had. */
static void
write_pages(HdIndex *index, HtWidth width)
{
	static char pages[ENTRIES][HT_PAGE_SIZE] __attribute__((aligned(64)));
	static uint32_t numbers[ENTRIES];

	for (int i = 0; i < cut_count; i++)
	{
		int n = cut_end(i) - cuts[i].start;

		numbers[i] = cuts[i].block;
		ht_leaf_fill(pages[i], model_shape(width, &entries[cuts[i].start], n),
					 &entries[cuts[i].start], n);
	}
	expect(hd_index_write(index, numbers, pages, (uint32_t) cut_count) == HD_OK, "write");
}

/* Add the new leaves to the list, and some others again; or set the whole list. */
static void
change_list(HdIndex *index, bool whole)
{
	static HdLeaf all[ENTRIES];
	static HdNewLeaf added[ENTRIES];
	uint32_t count = 0;
	int again = rnd_below(3) * rnd_below(30);
	HdStatus status;

	for (int i = 0; i < cut_count; i++)
	{
		bool last = i + 1 == cut_count;

		all[i] = (HdLeaf){cuts[i].low, cuts[i].block};
		if (cuts[i].is_new || (again > 0 && rnd_below(again) == 0))
			added[count++] = (HdNewLeaf){cuts[i].low, last ? make_entry(0, 0) : cuts[i + 1].low,
										 cuts[i].block, last};
		cuts[i].is_new = false;
	}
	status = whole ? hd_index_set_leaves(index, all, (uint32_t) cut_count) :
					 hd_index_add_leaves(index, added, count);
	expect(status == HD_OK, "list: %s", hd_device_error(device));
	if (!whole && rnd_below(5) == 0)
		expect(hd_index_add_leaves(index, added, count) == HD_OK, "the same again");
}

static void
search_all(HdIndex *index, HtWidth width)
{
	uint64_t keys[KEYS];
	char packed[KEYS * sizeof(uint64_t)];
	uint32_t counts[KEYS] = {0};
	uint64_t sum = 0;
	HdBatch batch;
	HdResult result;

	for (int i = 0; i < KEYS; i++)
	{
		keys[i] = (uint64_t) i;
		sum += (uint64_t) expected[i];
	}
	pack_keys(packed, keys, KEYS, width);
	memset(&batch, 0, sizeof(batch));
	batch.low = packed;
	batch.count = KEYS;
	batch.room = sum;
	batch.probes = allocate((sum + 1) * sizeof(uint32_t));
	batch.tids = allocate((sum + 1) * sizeof(uint64_t));
	batch.psa_bits = rnd_below(2) ? HD_AUTOMATIC : rnd_below(20);
	expect(hd_index_search(index, &batch, &result) == HD_OK, "search: %s", hd_device_error(device));
	expect(result.hits == sum, "%d entries instead of %d", (int) result.hits, (int) sum);
	for (uint64_t i = 0; i < sum && !failed(); i++)
		counts[batch.probes[i]]++;
	free(batch.probes);
	free(batch.tids);
	for (int i = 0; i < KEYS && !failed(); i++)
		expect(counts[i] == expected[i], "key %d: %u entries instead of %u in %d leaves", i,
			   counts[i], expected[i], cut_count);
}

static void
change(void)
{
	int from;

	if (cut_count == 0)
		move(0, 0);
	switch (rnd_below(4))
	{
		case 0:
			from = rnd_below(cut_count);
			move(from, from + 1 + rnd_below(cut_count - from));
			break;
		case 1:
			from = rnd_below(cut_count);
			move(from, from + 1);
			break;
		default:
			for (int n = 1 + rnd_below(20); n > 0; n--)
				split(rnd_below(3) == 0 ? cut_count - 1 : rnd_below(cut_count));
	}
}

static void
test_changes(HtWidth width, int fanout)
{
	HdIndex *index;

	make_entries();
	expect(hd_index_create(device, width, fanout, &index) == HD_OK, "create");
	expect(hd_index_reserve(index, BLOCKS, false) == HD_OK, "reserve");
	for (int round = 0; round < 300 && !failed(); round++)
	{
		change();
		write_pages(index, width);
		change_list(index, rnd_below(20) == 0);
		search_all(index, width);
	}
	hd_index_free(index);
	report("%d bits, fanout %d", width_bits(width), fanout);
}

static void
expect_refused(HdIndex *index, HdNewLeaf first, HdNewLeaf second, const char *what)
{
	HdNewLeaf list[2] = {first, second};

	expect(hd_index_add_leaves(index, list, 2) == HD_INVALID, "%s", what);
}

static void
test_mistakes(void)
{
	HdIndex *index;
	HdNewLeaf good = {{0, 0}, {10, 0}, 0, 0};
	HdNewLeaf many[4] = {{{1, 0}, {2, 0}, 0, 0},
						 {{2, 0}, {3, 0}, 0, 0},
						 {{3, 0}, {4, 0}, 0, 0},
						 {{4, 0}, {0, 0}, 0, 1}};

	expect(hd_index_create(device, HT_WIDTH32, 8, &index) == HD_OK, "create");
	expect(hd_index_reserve(index, 3, false) == HD_OK, "reserve");
	expect_refused(index, good, (HdNewLeaf){{9, 0}, {20, 0}, 1, 0}, "overlap");
	expect_refused(index, good, (HdNewLeaf){{9, UINT64_MAX}, {20, 0}, 1, 0}, "overlap");
	expect_refused(index, good, (HdNewLeaf){{10, 0}, {10, 0}, 1, 0}, "no room between the bounds");
	expect_refused(index, good, (HdNewLeaf){{10, 0}, {20, 0}, 3, 0}, "block beyond");
	expect_refused(index, good, (HdNewLeaf){{10, 0}, {UINT64_C(1) << 32, 0}, 1, 0},
				   "too wide a high key");
	expect_refused(index, good, (HdNewLeaf){{UINT64_C(1) << 32, 0}, {0, 0}, 1, 1},
				   "too wide a low key");
	expect_refused(index, (HdNewLeaf){{0, 0}, {0, 0}, 0, 1}, (HdNewLeaf){{10, 0}, {20, 0}, 1, 0},
				   "two last leaves");
	expect(hd_index_add_leaves(index, many, 4) == HD_INVALID, "more leaves than blocks");
	expect(hd_index_add_leaves(index, many, 3) == HD_OK, "as many leaves as blocks");
	expect(hd_index_add_leaves(index, many + 3, 1) == HD_INVALID, "one more");
	expect(hd_index_add_leaves(index, NULL, 0) == HD_OK, "no leaves");
	hd_index_free(index);
	expect(hd_index_create(device, HT_WIDTH128, 8, &index) == HD_OK, "create");
	expect(hd_index_add_leaves(index, many, 1) == HD_INVALID, "wide keys");
	hd_index_free(index);
	report("the caller's mistakes");
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "cuda") == 0)
		kind = HD_CUDA;
	tap_start(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
	if (hd_device_open(kind, 0, &device) != HD_OK)
	{
		expect(false, "open: %s", hd_device_error(device));
		report("open");
		return tap_finish();
	}
	for (HtWidth width = HT_WIDTH32; width <= HT_WIDTH64; width += 4)
	{
		test_changes(width, 8);
		test_changes(width, 9 + rnd_below(30));
		test_changes(width, 64);
	}
	test_mistakes();
	hd_device_close(device);
	return tap_finish();
}
