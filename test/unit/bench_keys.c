/*
 * bench_keys.c
 *		Batches of look-ups with the tree engine alone, for each width of keys.
 *
 * Usage: bench_keys [log2 of the number of entries [keys of a batch [instruction set]]]
 *
 * Leaves are 90 % full, in memory that needs no pins; the time includes sorting the probes and
 * finding the leaves, as src/lookup does it.  Keys are
 *
 *	random		spread evenly; 128 bits of them are like version 4 uuids
 *	tenants		1000 tenants in the high word, serial numbers of 32 bits in the low word; with 64
 *				bits tenant and number have 32 bits each
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/tree/wide.h"

/* The number of leaves that are prefetched at a time. */
#define AHEAD 64
#define TENANTS 1000
#define ROUNDS 7

static uint64_t random_state = 1;

static uint64_t
rnd(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* A word that depends on a number alone, so that keys need not be kept. */
static uint64_t
mix(uint64_t number)
{
	number = (number ^ (number >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	number = (number ^ (number >> 27)) * UINT64_C(0x94D049BB133111EB);
	return number ^ (number >> 31);
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
	void *p;

	if (posix_memalign(&p, HT_PAGE_SIZE, size) != 0)
	{
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	return p;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return x < y ? -1 : x > y;
}

#define HT_KEYS 64
#include "bench_keys_template.h"
#define HT_KEYS 128
#include "bench_keys_template.h"

int
main(int argc, char **argv)
{
	int bits = argc > 1 ? atoi(argv[1]) : 22;
	uint32_t batch = argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 0) : 1000000;
	const char *set = argc > 3 ? argv[3] : NULL;

	for (int tenants = 0; tenants < 2; tenants++)
	{
		bench(bits, batch, set, tenants);
		bench_128(bits, batch, set, tenants);
	}
	return 0;
}
