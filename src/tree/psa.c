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
#include "wide.h"

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
#define INSERTION_MAX 24

/*
 * The maximum number of bits of one step, for a radix partition and for a bucket in it.
 */
#define LOCAL_BITS 13
#define INNER_BITS 8

/* Larger buckets are sorted separately before insertion sort goes over all buckets. */
#define BUCKET_MAX 16

/* Equation 2: N = B - log2(2^B / T * K) */
int
ht_psa_bits(int key_bits, uint64_t tree_keys, int line_keys)
{
	int bits = 0;

	while (bits < key_bits && bits < 63 && (tree_keys >> bits) > (uint64_t) line_keys)
		bits++;
	return bits;
}

static inline int
log2_floor(uint64_t value)
{
	return 63 - __builtin_clzll(value);
}

/* Turn counts into starts.  Returns the largest count. */
static inline uint32_t
sum_up(uint32_t *counts, size_t n)
{
	uint32_t start = 0;
	uint32_t largest = 0;

	for (size_t i = 0; i < n; i++)
	{
		uint32_t count = counts[i];

		largest = count > largest ? count : largest;
		counts[i] = start;
		start += count;
	}
	return largest;
}

#define HT_KEYS 64
#include "psa_template.h"
#define HT_KEYS 128
#include "psa_template.h"
