/*
 * bench_tree.c
 *		The time that the tree engine takes, and the bytes that it would log.
 *
 * Usage: bench_tree [entries to sort]
 */
#include "../../src/tree/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGES 1024 /* more than the first-level cache holds, like real ones */

static uint64_t random_state = 1;

static uint64_t
rnd(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* A TID that leaves store in 4 bytes. */
static uint64_t
rnd_tid(void)
{
	return (rnd() & 0x7FFFFF) << 16 | (1 + rnd() % 291);
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void *
allocate(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	memset(p, 0, size); /* map it before the clock runs */
	return p;
}

static void
bench_sort(const char *name, uint64_t mask, size_t n)
{
	HtEntry *entries = allocate(n * sizeof(HtEntry));
	HtEntry *scratch = allocate(n * sizeof(HtEntry));
	double start;

	for (size_t i = 0; i < n; i++)
	{
		entries[i].key = rnd() & mask;
		entries[i].tid = i;
	}
	start = seconds();
	ht_sort_entries(entries, scratch, n);
	printf("sort %zu %s: %.3f s\n", n, name, seconds() - start);
	free(entries);
	free(scratch);
}

typedef enum Order
{
	RANDOM,
	ASCENDING,
	DESCENDING,
	ONE_KEY
} Order;

/* Insert into all pages in turn until they hold "to" percent. */
static void
bench_insert(HtLeafShape shape, Order order, int from, int to)
{
	static const char *const names[] = {"random", "ascending", "descending", "one key"};
	char *pages = allocate((size_t) PAGES * HT_PAGE_SIZE);
	int capacity = ht_leaf_capacity(shape);
	int first = capacity * from / 100;
	int last = capacity * to / 100;
	HtEntry *entries = allocate((size_t) PAGES * capacity * sizeof(HtEntry));
	HtEntry *scratch = allocate(capacity * sizeof(HtEntry));
	int inserts = PAGES * (last - first);
	long bytes = 0;
	long log_ranges = 0;
	double start;
	double elapsed;

	for (int page = 0; page < PAGES; page++)
	{
		HtEntry *mine = entries + (size_t) page * capacity;

		for (int i = 0; i < capacity; i++)
		{
			mine[i].tid = rnd_tid();
			mine[i].key = order == ONE_KEY    ? 42 :
						  order == ASCENDING  ? (uint64_t) i * 5 :
						  order == DESCENDING ? (uint64_t) (capacity - i) * 5 :
												rnd() & ht_class_max(shape.bits);
		}
		if (first > 0)
			ht_sort_entries(mine, scratch, first);
		ht_leaf_fill(pages + (size_t) page * HT_PAGE_SIZE, shape, mine, first);
	}

	/* Twice: a copy of the pages gives the time, the pages give the bytes. */
	for (int pass = 0; pass < 2; pass++)
	{
		char *copy = allocate((size_t) PAGES * HT_PAGE_SIZE);

		memcpy(copy, pages, (size_t) PAGES * HT_PAGE_SIZE);
		start = seconds();
		for (int i = first; i < last; i++)
			for (int page = 0; page < PAGES; page++)
			{
				HtLeafChange change = {0};
				HtByteRange ranges[HT_LEAF_MAX_RANGES];
				int n;

				ht_leaf_insert(copy + (size_t) page * HT_PAGE_SIZE,
							   entries[(size_t) page * capacity + i], &change);
				if (pass == 0)
					continue;
				n = ht_leaf_change_ranges(copy, &change, ranges);
				log_ranges += n;
				for (int r = 0; r < n; r++)
					bytes += ranges[r].length;
			}
		if (pass == 0)
			elapsed = seconds() - start;
		free(copy);
	}
	printf("insert %d-bit %s, %d%% to %d%% full: %.1f ns, %.1f bytes in %.1f ranges\n", shape.bits,
		   names[order], from, to, elapsed / inserts * 1e9, (double) bytes / inserts,
		   (double) log_ranges / inserts);
	free(pages);
	free(entries);
	free(scratch);
}

/* Look up one key per page in turn. */
static void
bench_search(HtLeafShape shape)
{
	char *pages = allocate((size_t) PAGES * HT_PAGE_SIZE);
	int n = ht_leaf_capacity(shape) * 7 / 10;
	HtEntry *entries = allocate((size_t) PAGES * n * sizeof(HtEntry));
	HtEntry out[HT_LEAF_MAX_ENTRIES];
	long found = 0;
	double start;

	for (int page = 0; page < PAGES; page++)
	{
		HtEntry *mine = entries + (size_t) page * n;

		for (int i = 0; i < n; i++)
		{
			mine[i].key = rnd() & ht_class_max(shape.bits);
			mine[i].tid = rnd_tid();
		}
		ht_sort_entries(mine, (HtEntry *) out, n);
		ht_leaf_fill(pages + (size_t) page * HT_PAGE_SIZE, shape, mine, n);
	}
	start = seconds();
	for (int i = 0; i < n; i++)
		for (int page = 0; page < PAGES; page++)
		{
			uint64_t key = entries[(size_t) page * n + (i * 7919 + page * 31) % n].key;

			found += ht_leaf_read_range(pages + (size_t) page * HT_PAGE_SIZE, key, key, out);
		}
	printf("search %d-bit: %.1f ns (%ld found)\n", shape.bits,
		   (seconds() - start) / ((double) PAGES * n) * 1e9, found);
	free(pages);
	free(entries);
}

/* Read each page as a whole, in turn; it was built, or built half full and inserted into. */
static void
bench_read(HtLeafShape shape, bool inserted)
{
	char *pages = allocate((size_t) PAGES * HT_PAGE_SIZE);
	int n = ht_leaf_capacity(shape) * 7 / 10;
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
	HtEntry out[HT_LEAF_MAX_ENTRIES];
	int rounds = 50;
	long found = 0;
	double start;

	for (int page = 0; page < PAGES; page++)
	{
		char *to = pages + (size_t) page * HT_PAGE_SIZE;
		int built = inserted ? n / 2 : n;
		HtLeafChange change = {0};

		for (int i = 0; i < n; i++)
		{
			entries[i].key = rnd() & ht_class_max(shape.bits);
			entries[i].tid = rnd_tid();
		}
		ht_sort_entries(entries, out, built);
		ht_leaf_fill(to, shape, entries, built);
		for (int i = built; i < n; i++)
			ht_leaf_insert(to, entries[i], &change);
	}
	start = seconds();
	for (int i = 0; i < rounds; i++)
		for (int page = 0; page < PAGES; page++)
			found += ht_leaf_read_range(pages + (size_t) page * HT_PAGE_SIZE, 0,
										ht_class_max(shape.bits) - 1, out);
	printf("read %d-bit, %s: %.2f ns an entry (%ld)\n", shape.bits, inserted ? "inserted" : "built",
		   (seconds() - start) / found * 1e9, found);
	free(pages);
}

static void
bench_node(HtWidth width, int fanout)
{
	size_t size = ht_node_size(width, fanout);
	char *nodes = allocate(PAGES * size);
	HtEntry *separators = allocate(fanout * sizeof(HtEntry));
	HtEntry *scratch = allocate(fanout * sizeof(HtEntry));
	int searches = 4000 * PAGES;
	long sum = 0;
	double start;

	for (int node = 0; node < PAGES; node++)
	{
		for (int i = 0; i < fanout - 1; i++)
			separators[i].key = rnd() & ht_key_max(width);
		ht_sort_entries(separators, scratch, fanout - 1);
		for (int i = 0; i < fanout - 1; i++)
			ht_node_set(nodes + node * size, width, fanout, i, separators[i]);
	}
	start = seconds();
	for (int i = 0; i < searches; i++)
	{
		HtEntry entry = {rnd() & ht_key_max(width), 0};

		sum += ht_node_count_le(nodes + (i % PAGES) * size, width, fanout, entry);
	}
	printf("node %d-bit, fanout %d: %.1f ns (%ld)\n", 8 * (int) width, fanout,
		   (seconds() - start) / searches * 1e9, sum);
	free(nodes);
	free(separators);
	free(scratch);
}

int
main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000000;
	const HtWidth widths[] = {HT_WIDTH32, HT_WIDTH64};

	bench_sort("random 64-bit keys", UINT64_MAX, n);
	bench_sort("random 32-bit keys", UINT32_MAX, n);

	for (int bits = 16; bits <= 64; bits *= 2)
	{
		HtLeafShape shape = ht_leaf_shape(bits, 4, 0);

		bench_insert(shape, RANDOM, 0, 50);
		bench_insert(shape, RANDOM, 50, 90);
		bench_insert(shape, RANDOM, 90, 100);
		bench_insert(shape, ASCENDING, 0, 100);
		bench_insert(shape, ASCENDING, 90, 100);
		bench_insert(shape, DESCENDING, 0, 100);
		bench_insert(shape, DESCENDING, 50, 100);
		bench_insert(shape, ONE_KEY, 0, 100);
		bench_search(shape);
		bench_read(shape, false);
		bench_read(shape, true);
	}
	for (int w = 0; w < 2; w++)
	{
		bench_node(widths[w], 64);
		bench_node(widths[w], 128);
	}
	return 0;
}
