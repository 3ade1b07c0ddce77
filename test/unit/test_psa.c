/*
 * test_psa.c
 *		Sorting lookup batches by some bits, and how many bits are enough.
 */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

typedef enum Keys
{
	UNIFORM,
	SERIAL, /* top bits all zero */
	SORTED,
	REVERSED,
	FEW,
	ONE,
	EXTREMES,
	CLUSTERS,    /* a few dense ranges far from each other */
	EXPONENTIAL, /* each half of the range holds half of the rest */
	OUTLIER,     /* dense but for one key */
	N_KEYS
} Keys;

static const char *const key_names[N_KEYS] = {
	"uniform", "serial",       "sorted",   "reversed",    "few keys",
	"one key", "extreme keys", "clusters", "exponential", "one outlier",
};

static uint64_t
make_key(Keys keys, uint32_t i, uint32_t n)
{
	switch (keys)
	{
		case SERIAL:
			return 1000000 + rnd() % (2 * (uint64_t) n);
		case SORTED:
			return (uint64_t) i * 12345;
		case REVERSED:
			return (uint64_t) (n - i) * 12345;
		case FEW:
			return rnd() % 5 << 60;
		case ONE:
			return 42;
		case EXTREMES:
			return rnd_below(2) ? UINT64_MAX : 0;
		case CLUSTERS:
			return (rnd() % 3 << 62) + rnd() % 1000;
		case EXPONENTIAL:
			return rnd() >> rnd_below(64);
		case OUTLIER:
			return i == n / 2 ? UINT64_MAX : rnd() % 1000000;
		default:
			return rnd();
	}
}

static int
compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *) a;
	uint64_t y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

static void
try_batch(Keys kind, uint32_t n)
{
	uint64_t *keys = allocate((n + 1) * sizeof(uint64_t));
	uint64_t *expected = allocate((n + 1) * sizeof(uint64_t));
	uint8_t *seen = allocate(n + 1);
	HtProbe *probes = allocate((n + 1) * sizeof(HtProbe));
	HtProbe *scratch;
	HtPsa *psa = allocate(sizeof(HtPsa));
	uint32_t sorted = 0;

	for (uint32_t i = 0; i < n; i++)
		keys[i] = make_key(kind, i, n);
	memcpy(expected, keys, n * sizeof(uint64_t));
	qsort(expected, n, sizeof(uint64_t), compare_keys);
	memset(seen, 0, n);

	ht_psa_start(psa, keys, n, probes);
	expect(psa->largest <= n, "%u of %u in a partition", psa->largest, n);
	scratch = allocate((psa->largest + 1) * sizeof(HtProbe));
	expect(psa->sorted == 0, "%u sorted at the start", psa->sorted);
	while (sorted < n && !failed())
	{
		uint32_t more = ht_psa_more(psa, scratch);

		expect(more > sorted && more <= n && more == psa->sorted, "%u sorted of %u after %u", more,
			   n, sorted);
		for (; sorted < more && !failed(); sorted++)
		{
			uint32_t number = probes[sorted].number;

			expect(probes[sorted].key == expected[sorted], "probe %u of %u is out of order", sorted,
				   n);
			expect(number < n && keys[number] == probes[sorted].key && !seen[number],
				   "probe %u of %u has a wrong number", sorted, n);
			if (number < n)
				seen[number] = 1;
		}
	}
	expect(ht_psa_more(psa, scratch) == n, "more than all");

	free(keys);
	free(expected);
	free(seen);
	free(probes);
	free(scratch);
	free(psa);
}

void
test_psa(void)
{
	for (int kind = 0; kind < N_KEYS; kind++)
	{
		for (uint32_t n = 0; n < 100; n++)
			try_batch((Keys) kind, n);
		for (int i = 0; i < 10; i++)
			try_batch((Keys) kind, (uint32_t) rnd_below(30000));
		try_batch((Keys) kind, 300000);
		report("aggregation: %s", key_names[kind]);
	}

	/* A cache line has 2^64 / 2^26 * 8 values: 23 bits distinguish lines. */
	expect(ht_psa_bits(64, UINT64_C(1) << 26, 8) == 23, "%d",
		   ht_psa_bits(64, UINT64_C(1) << 26, 8));
	expect(ht_psa_bits(32, UINT64_C(1) << 23, 16) == 19, "%d",
		   ht_psa_bits(32, UINT64_C(1) << 23, 16));
	expect(ht_psa_bits(64, 1000, 8) == 7, "%d", ht_psa_bits(64, 1000, 8));
	expect(ht_psa_bits(64, 8, 8) == 0 && ht_psa_bits(64, 0, 8) == 0, "a tree of one line");
	expect(ht_psa_bits(4, UINT64_C(1) << 40, 8) == 4, "no more bits than keys have");
	expect(ht_psa_bits(64, UINT64_MAX, 1) == 63, "%d", ht_psa_bits(64, UINT64_MAX, 1));
	report("aggregation: Equation 2");
}
