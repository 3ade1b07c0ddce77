/*
 * psa_template.h
 *		Sorting a batch of probes with keys of the width HT_KEYS.
 *
 * psa.c, which explains it, includes this once for each.
 */
#include "key_macros.h"

static void
HT_KEYED(insertion_sort)(HT_PROBE *probes, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		HT_PROBE probe = probes[i];
		size_t j = i;

		if (probe.key >= probes[i - 1].key)
			continue;
		do
		{
			probes[j] = probes[j - 1];
			j--;
		} while (j > 0 && probe.key < probes[j - 1].key);
		probes[j] = probe;
	}
}

/* Divides the keys of a range into buckets by their top bits. */
typedef struct HT_KEYED(Digit)
{
	HT_KEY min;
	int shift;
	size_t buckets;
} HT_KEYED(Digit);

static inline HT_KEYED(Digit) HT_KEYED(make_digit)(HT_KEY min, HT_KEY max, int bits)
{
	int range_bits = min < max ? HT_KEYED(ht_key_bits)(max - min) : 0;
	HT_KEYED(Digit) digit;

	digit.min = min;
	digit.shift = range_bits > bits ? range_bits - bits : 0;
	digit.buckets = (size_t) ((max - min) >> digit.shift) + 1;
	return digit;
}

static inline size_t
HT_KEYED(digit_of)(HT_KEYED(Digit) digit, HT_KEY key)
{
	return (size_t) ((key - digit.min) >> digit.shift);
}

static inline HT_KEYED(Digit) HT_KEYED(probes_digit)(const HT_PROBE *probes, size_t n, int bits)
{
	HT_KEY min = KEY_MAX;
	HT_KEY max = 0;

	for (size_t i = 0; i < n; i++)
	{
		HT_KEY key = probes[i].key;

		min = key < min ? key : min;
		max = max < key ? key : max;
	}
	return HT_KEYED(make_digit)(min, max, bits);
}

static void HT_KEYED(sort_inner)(HT_PROBE *from, HT_PROBE *to, size_t n, bool in_to);

/*
 * One step of the sort: distribute "from" to buckets of about one probe in "to".  The
 * result is in "to" if in_to, otherwise in "from". counts has room for 2^max_bits.
 */
static inline void
HT_KEYED(sort_step)(HT_PROBE *from, HT_PROBE *to, size_t n, bool in_to, uint32_t *counts,
					int max_bits)
{
	int bits = log2_floor(n) + 1;
	HT_KEYED(Digit) digit = HT_KEYED(probes_digit)(from, n, bits < max_bits ? bits : max_bits);
	uint32_t largest;

	memset(counts, 0, digit.buckets * sizeof(*counts));
	for (size_t i = 0; i < n; i++)
		counts[HT_KEYED(digit_of)(digit, from[i].key)]++;
	largest = sum_up(counts, digit.buckets);
	for (size_t i = 0; i < n; i++)
		to[counts[HT_KEYED(digit_of)(digit, from[i].key)]++] = from[i];

	/* Each count is now the end of its bucket. */
	if (digit.shift > 0 && largest > BUCKET_MAX)
	{
		uint32_t start = 0;

		for (size_t bucket = 0; bucket < digit.buckets; bucket++)
		{
			if (counts[bucket] > start)
				HT_KEYED(sort_inner)(to + start, from + start, counts[bucket] - start, !in_to);
			start = counts[bucket];
		}
		return;
	}
	if (digit.shift > 0)
		HT_KEYED(insertion_sort)(to, n);
	if (!in_to)
		memcpy(from, to, n * sizeof(HT_PROBE));
}

/* Sort a bucket that a step has left unsorted. */
static void
HT_KEYED(sort_inner)(HT_PROBE *from, HT_PROBE *to, size_t n, bool in_to)
{
	uint32_t counts[1 << INNER_BITS];

	if (n > INSERTION_MAX)
	{
		HT_KEYED(sort_step)(from, to, n, in_to, counts, INNER_BITS);
		return;
	}
	if (in_to)
		memcpy(to, from, n * sizeof(HT_PROBE));
	HT_KEYED(insertion_sort)(in_to ? to : from, n);
}

static void
HT_KEYED(sort_partition)(HT_PROBE *probes, HT_PROBE *scratch, size_t n)
{
	uint32_t counts[1 << LOCAL_BITS];

	if (n > INSERTION_MAX)
		HT_KEYED(sort_step)(probes, scratch, n, false, counts, LOCAL_BITS);
	else
		HT_KEYED(insertion_sort)(probes, n);
}

void
HT_KEYED(ht_psa_start)(HT_PSA *psa, const HT_KEY *keys, uint32_t n, HT_PROBE *probes)
{
	HT_KEY min = KEY_MAX;
	HT_KEY max = 0;
	int bits = n > 0 ? log2_floor(n) - PARTITION_BITS : 0;
	HT_KEYED(Digit) digit;

	psa->probes = probes;
	psa->count = n;
	psa->sorted = 0;
	psa->partition = 0;

	/* One radix partition is enough. */
	if (bits <= 0)
	{
		for (uint32_t i = 0; i < n; i++)
			probes[i] = (HT_PROBE){keys[i], i, 0};
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
		max = max < keys[i] ? keys[i] : max;
	}
	digit = HT_KEYED(make_digit)(min, max, bits);
	psa->partitions = (uint32_t) digit.buckets;

	memset(psa->ends, 0, digit.buckets * sizeof(*psa->ends));
	for (uint32_t i = 0; i < n; i++)
		psa->ends[HT_KEYED(digit_of)(digit, keys[i])]++;
	psa->largest = sum_up(psa->ends, digit.buckets);
	for (uint32_t i = 0; i < n; i++)
		probes[psa->ends[HT_KEYED(digit_of)(digit, keys[i])]++] = (HT_PROBE){keys[i], i, 0};
}

uint32_t
HT_KEYED(ht_psa_more)(HT_PSA *psa, HT_PROBE *scratch)
{
	uint32_t start = psa->sorted;

	while (psa->partition < psa->partitions && psa->sorted == start)
	{
		psa->sorted = psa->ends[psa->partition++];
		HT_KEYED(sort_partition)(psa->probes + start, scratch, psa->sorted - start);
	}
	return psa->sorted;
}

#include "key_macros_end.h"
