/*
 * hits.c
 *		Sorting hits by heap block.
 *
 * A radix sort by the bits of the block number, least significant digit first, with as few
 * passes as the range of blocks needs: two for a table of up to 32 GB.  The order within a
 * block does not matter, because all hits of a heap page are answered while it is locked.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "lookup/lookup.h"

/* The counts of a digit of this size fit into the first-level cache, with room to spare. */
#define MAX_DIGIT_BITS 11

static inline BlockNumber
block_of(const HmHit *hit)
{
	return (BlockNumber) (hit->tid >> 16);
}

static void
insertion_sort(HmHit *hits, uint32 n)
{
	for (uint32 i = 1; i < n; i++)
	{
		HmHit hit = hits[i];
		uint32 j = i;

		for (; j > 0 && hits[j - 1].tid > hit.tid; j--)
			hits[j] = hits[j - 1];
		hits[j] = hit;
	}
}

/*
 * The range of blocks.  Returns whether the hits are sorted by block already, as hits of
 * neighbouring keys are in a table in key order.
 */
static bool
find_range(const HmHit *hits, uint32 n, BlockNumber *min, BlockNumber *max)
{
	BlockNumber last = 0;
	bool sorted = true;

	*min = MaxBlockNumber;
	*max = 0;
	for (uint32 i = 0; i < n; i++)
	{
		BlockNumber block = block_of(&hits[i]);

		sorted &= block >= last;
		last = block;
		*min = Min(*min, block);
		*max = Max(*max, block);
	}
	return sorted;
}

/* One pass: distribute hits by a digit of their block number, less the least one. */
static void
sort_by_digit(const HmHit *from, HmHit *to, uint32 n, BlockNumber min, int shift, int bits)
{
	uint32 starts[1 << MAX_DIGIT_BITS];
	uint32 mask = (1U << bits) - 1;
	uint32 start = 0;

	memset(starts, 0, sizeof(uint32) << bits);
	for (uint32 i = 0; i < n; i++)
		starts[((block_of(&from[i]) - min) >> shift) & mask]++;
	for (uint32 digit = 0; digit <= mask; digit++)
	{
		uint32 count = starts[digit];

		starts[digit] = start;
		start += count;
	}
	for (uint32 i = 0; i < n; i++)
		to[starts[((block_of(&from[i]) - min) >> shift) & mask]++] = from[i];
}

void
hm_hits_sort_by_block(HmHit *hits, HmHit *scratch, uint32 n)
{
	BlockNumber min, max;
	HmHit *from = hits;
	HmHit *to = scratch;
	int bits, passes, digit_bits;

	/* For few hits insertion sort is faster than counting digits. */
	if (n <= HM_HITS_FEW)
	{
		insertion_sort(hits, n);
		return;
	}
	if (find_range(hits, n, &min, &max))
		return;
	bits = pg_leftmost_one_pos32(max - min) + 1;
	passes = (bits + MAX_DIGIT_BITS - 1) / MAX_DIGIT_BITS;
	digit_bits = (bits + passes - 1) / passes;
	for (int pass = 0; pass < passes; pass++)
	{
		HmHit *swap = from;

		sort_by_digit(from, to, n, min, pass * digit_bits, digit_bits);
		from = to;
		to = swap;
	}
	if (from != hits)
		memcpy(hits, from, n * sizeof(HmHit));
}
