/*
 * tap.c
 *		Test output, expectations and random numbers.
 */
#include "tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int tests_run = 0;
static int tests_failed = 0;
static uint64_t random_state;

/* The first failure of the current test; empty if there is none. */
static char failure[256];

void
tap_start(int argc, char **argv)
{
	const char *seed = argc > 1 ? argv[1] : getenv("HARMONIA_TEST_SEED");

	random_state = seed ? strtoull(seed, NULL, 0) : (uint64_t) time(NULL);
	printf("# seed %llu\n", (unsigned long long) random_state);
}

int
tap_finish(void)
{
	printf("1..%d\n", tests_run);
	return tests_failed != 0;
}

void
expect_at(const char *file, int line, bool good, const char *fmt, ...)
{
	va_list args;
	int n;

	if (good || failed())
		return;
	n = snprintf(failure, sizeof(failure), "%s:%d: ", file, line);
	va_start(args, fmt);
	vsnprintf(failure + n, sizeof(failure) - n, fmt, args);
	va_end(args);
}

bool
failed(void)
{
	return failure[0] != '\0';
}

int
process_status(void)
{
	if (!failed())
		return 0;
	printf("# in a process: %s\n", failure);
	fflush(stdout);
	return 1;
}

void
report(const char *fmt, ...)
{
	va_list args;

	printf("%sok %d - ", failed() ? "not " : "", ++tests_run);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	if (failed())
	{
		printf("# %s\n", failure);
		tests_failed++;
	}
	failure[0] = '\0';
	fflush(stdout);
}

int
rnd_rounds(int n)
{
	const char *length = getenv("HARMONIA_LENGTH");

	return length != NULL && strcmp(length, "long") == 0 ? n : n / 3;
}

/* splitmix64 */
uint64_t
rnd(void)
{
	uint64_t z = (random_state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

void
rnd_start(uint64_t seed)
{
	random_state = seed;
}

int
rnd_below(int n)
{
	return (int) (rnd() % (uint64_t) n);
}

uint64_t
rnd_tid(void)
{
	return 1 + rnd() % (HT_TID_MAX - 1);
}

uint64_t
rnd_tid_of(int bytes)
{
	if (bytes == HT_TID_BYTES)
		return rnd_tid();
	return rnd() % (UINT64_C(1) << (8 * bytes - 9)) << 16 | (1 + rnd() % 511);
}

uint64_t
ascending_tid(int i)
{
	return (uint64_t) (i / 500) << 16 | (uint64_t) (1 + i % 500);
}

HtLeafShape
random_shape(int bits, int tid_bytes)
{
	uint64_t highest = UINT64_MAX - ht_class_max(bits);
	uint64_t base = rnd();

	switch (rnd_below(5))
	{
		case 0:
			base = 0;
			break;
		case 1:
			base = highest;
			break;
		case 2:
			base = (UINT64_C(1) << rnd_below(64)) + (uint64_t) rnd_below(3) - 1;
			break;
		default:
			break;
	}
	return ht_leaf_shape(bits, tid_bytes, base < highest ? base : highest);
}

void *
allocate(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
	{
		printf("Bail out! out of memory\n");
		exit(1);
	}
	return p;
}

int
compare_entries(const void *a, const void *b)
{
	return ht_entry_cmp(*(const HtEntry *) a, *(const HtEntry *) b);
}
