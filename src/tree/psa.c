/*
 * psa.c
 *		Partially-sorted aggregation: sorting a batch of probes.
 *
 * Harmonia, PPoPP 2019, section 4.1: neighbouring threads should search neighbouring
 * parts of the tree.  For that it is enough to sort by the top N bits of the keys.
 * Here the batch is split into radix partitions by the top bits of the key range that
 * it uses; otherwise serial numbers, whose top bits are all zero, would not be sorted
 * at all.  Each radix partition is sorted completely, in cache, when the search gets
 * there.  This costs a few ns per probe more than a partial order, but then the search
 * need not find the leaf for each probe separately.
 *
 * Skewed batches make uneven radix partitions.  Each of them is sorted by the bits that
 * it uses itself, and the same is done for uneven buckets inside it.
 */
#include "tree.h"

#include <string.h>

/*
 * Radix partitions of 2^PARTITION_BITS to twice as many probes are sorted fastest.
 * Measured on Zen 4 with 1 M random keys, before a search of 2^26 keys: partitioning
 * and sorting take 10.7 ns per probe with 12 bits, 9.8 with 10, and 9.6 with 9, but
 * with 9 the search takes longer.  A batch has at most 2^HT_PSA_MAX_BITS radix
 * partitions, because writing to more at the same time is slower.
 */
#define PARTITION_BITS 10

/* Up to this number insertion sort is faster than counting digits. */
#define INSERTION_MAX	24

/*
 * The maximum number of bits of one step, for a radix partition and for a bucket in it.
 */
#define LOCAL_BITS		13
#define INNER_BITS		8

/* Larger buckets are sorted separately before insertion sort goes over all buckets. */
#define BUCKET_MAX		16

/* Equation 2: N = B - log2(2^B / T * K) */
int
ht_psa_bits(int key_bits, uint64_t tree_keys, int line_keys)
{
	int			bits = 0;

	while (bits < key_bits && bits < 63 && (tree_keys >> bits) > (uint64_t) line_keys)
		bits++;
	return bits;
}

static inline int
log2_floor(uint64_t value)
{
	return 63 - __builtin_clzll(value);
}

static void
insertion_sort(HtProbe *probes, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		HtProbe		probe = probes[i];
		size_t		j = i;

		if (probes[i - 1].key <= probe.key)
			continue;
		do
		{
			probes[j] = probes[j - 1];
			j--;
		} while (j > 0 && probes[j - 1].key > probe.key);
		probes[j] = probe;
	}
}

/* Divides the keys of a range into buckets by their top bits. */
typedef struct Digit
{
	uint64_t	min;
	int			shift;
	size_t		buckets;
} Digit;

static inline Digit
make_digit(uint64_t min, uint64_t max, int bits)
{
	int			range_bits = max > min ? log2_floor(max - min) + 1 : 0;
	Digit		digit;

	digit.min = min;
	digit.shift = range_bits > bits ? range_bits - bits : 0;
	digit.buckets = (size_t) ((max - min) >> digit.shift) + 1;
	return digit;
}

static inline size_t
digit_of(Digit digit, uint64_t key)
{
	return (size_t) ((key - digit.min) >> digit.shift);
}

static inline Digit
probes_digit(const HtProbe *probes, size_t n, int bits)
{
	uint64_t	min = UINT64_MAX;
	uint64_t	max = 0;

	for (size_t i = 0; i < n; i++)
	{
		uint64_t	key = probes[i].key;

		min = key < min ? key : min;
		max = key > max ? key : max;
	}
	return make_digit(min, max, bits);
}

/* Turn counts into starts.  Returns the largest count. */
static inline uint32_t
sum_up(uint32_t *counts, size_t n)
{
	uint32_t	start = 0;
	uint32_t	largest = 0;

	for (size_t i = 0; i < n; i++)
	{
		uint32_t	count = counts[i];

		largest = count > largest ? count : largest;
		counts[i] = start;
		start += count;
	}
	return largest;
}

static void sort_inner(HtProbe *from, HtProbe *to, size_t n, bool in_to);

/*
 * One step of the sort: distribute "from" to buckets of about one probe in "to".  The
 * result is in "to" if in_to, otherwise in "from". counts has room for 2^max_bits.
 */
static inline void
sort_step(HtProbe *from, HtProbe *to, size_t n, bool in_to, uint32_t *counts, int max_bits)
{
	int			bits = log2_floor(n) + 1;
	Digit		digit = probes_digit(from, n, bits < max_bits ? bits : max_bits);
	uint32_t	largest;

	memset(counts, 0, digit.buckets * sizeof(*counts));
	for (size_t i = 0; i < n; i++)
		counts[digit_of(digit, from[i].key)]++;
	largest = sum_up(counts, digit.buckets);
	for (size_t i = 0; i < n; i++)
		to[counts[digit_of(digit, from[i].key)]++] = from[i];

	/* Each count is now the end of its bucket. */
	if (digit.shift > 0 && largest > BUCKET_MAX)
	{
		uint32_t	start = 0;

		for (size_t bucket = 0; bucket < digit.buckets; bucket++)
		{
			if (counts[bucket] > start)
				sort_inner(to + start, from + start, counts[bucket] - start, !in_to);
			start = counts[bucket];
		}
		return;
	}
	if (digit.shift > 0)
		insertion_sort(to, n);
	if (!in_to)
		memcpy(from, to, n * sizeof(HtProbe));
}

/* Sort a bucket that a step has left unsorted. */
static void
sort_inner(HtProbe *from, HtProbe *to, size_t n, bool in_to)
{
	uint32_t	counts[1 << INNER_BITS];

	if (n > INSERTION_MAX)
	{
		sort_step(from, to, n, in_to, counts, INNER_BITS);
		return;
	}
	if (in_to)
		memcpy(to, from, n * sizeof(HtProbe));
	insertion_sort(in_to ? to : from, n);
}

static void
sort_partition(HtProbe *probes, HtProbe *scratch, size_t n)
{
	uint32_t	counts[1 << LOCAL_BITS];

	if (n > INSERTION_MAX)
		sort_step(probes, scratch, n, false, counts, LOCAL_BITS);
	else
		insertion_sort(probes, n);
}

void
ht_psa_start(HtPsa *psa, const uint64_t *keys, uint32_t n, HtProbe *probes)
{
	uint64_t	min = UINT64_MAX;
	uint64_t	max = 0;
	int			bits = n > 0 ? log2_floor(n) - PARTITION_BITS : 0;
	Digit		digit;

	psa->probes = probes;
	psa->count = n;
	psa->sorted = 0;
	psa->partition = 0;

	/* One radix partition is enough. */
	if (bits <= 0)
	{
		for (uint32_t i = 0; i < n; i++)
			probes[i] = (HtProbe) {keys[i], i, 0};
		psa->partitions = 1;
		psa->largest = n;
		psa->ends[0] = n;
		return;
	}

	if (bits > HT_PSA_MAX_BITS)
		bits = HT_PSA_MAX_BITS;
	for (uint32_t i = 0; i < n; i++)
	{
		min = keys[i] < min ? keys[i] : min;
		max = keys[i] > max ? keys[i] : max;
	}
	digit = make_digit(min, max, bits);
	psa->partitions = (uint32_t) digit.buckets;

	memset(psa->ends, 0, digit.buckets * sizeof(*psa->ends));
	for (uint32_t i = 0; i < n; i++)
		psa->ends[digit_of(digit, keys[i])]++;
	psa->largest = sum_up(psa->ends, digit.buckets);
	for (uint32_t i = 0; i < n; i++)
		probes[psa->ends[digit_of(digit, keys[i])]++] = (HtProbe) {keys[i], i, 0};
}

uint32_t
ht_psa_more(HtPsa *psa, HtProbe *scratch)
{
	uint32_t	start = psa->sorted;

	while (psa->partition < psa->partitions && psa->sorted == start)
	{
		psa->sorted = psa->ends[psa->partition++];
		sort_partition(psa->probes + start, scratch, psa->sorted - start);
	}
	return psa->sorted;
}
