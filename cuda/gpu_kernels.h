/*
 * gpu_kernels.h
 *		What gpu.cu calls; each is compiled for itself, for it takes long.
 */
#ifndef HARMONIA_CUDA_GPU_KERNELS_H
#define HARMONIA_CUDA_GPU_KERNELS_H

#include <cuda_runtime.h>

#include "device_base.h"

namespace harmonia
{

/* Digits by which probes are partitioned, in so many passes. */
constexpr int digit_bits = 8;
constexpr uint32_t digit_bins = 1 << digit_bits;
constexpr int passes_max = 2;

template <typename Key>
struct Digit
{
	int			first_bit;
	int			bits;

	HD_BOTH uint32_t operator()(Key key) const	/* less base */
	{
		return (uint32_t) (key >> first_bit) & ((1u << bits) - 1);
	}
};

/* The digits of a sort, the lowest one first. */
template <typename Key>
struct Digits
{
	Key			base;			/* subtracted from keys first */
	int			passes;
	Digit<Key>	digit[passes_max];
};

/* Probes of a tile that have a digit in common. */
struct Run
{
	uint32_t	start;			/* in the tile, once that is in order */
	uint32_t	move;			/* from there to where it went */
};

/* Where a pass puts probes; NULL: nowhere. */
template <typename Key>
struct Partition
{
	Key		   *low;			/* less base */
	uint32_t   *numbers;		/* of the probes */
	uint16_t   *slots;			/* for the way back: of each probe in its tile, */
	Run		   *runs;			/* and digit_bins for each tile */
};

/* Probes on the device. */
template <typename Key>
struct Probes
{
	const Key  *low;			/* in the order of the search, less base */
	const uint32_t *numbers;	/* probe numbers in the order of the search; NULL: as
								 * they come */
	const Key  *all_low;		/* in probe order */
	const Key  *all_high;		/* likewise; NULL: points */
	uint32_t	count;
	Key			base;

	/* Of keys less base: bits that are the same all over the range in use, */
	Key			prefix;
	Key			prefix_mask;
	/* so many behind the 32 top ones of the others, and those of the top ones */
	int			top_shift;
	int			min_shift;		/* that neighbours are not sorted by. */

	HD_BOTH bool is_usual(Key offset) const
	{
		return ((offset ^ prefix) & prefix_mask) == 0;
	}
	HD_BOTH uint32_t top_of(Key offset) const
	{
		return (uint32_t) (offset >> top_shift);
	}
	HD_BOTH Key of_top(uint32_t top) const
	{
		return (prefix & prefix_mask) | ((Key) ((Key) top << top_shift) & (Key) ~prefix_mask);
	}
};

/*
 * Where results go on the device: pairs anywhere, one after the other, else in the order
 * of the search.
 */
struct Results
{
	HdOutput	output;
	uint32_t   *probes;
	uint64_t   *tids;
	uint32_t   *counts;
	uint64_t	room;
	unsigned long long *hits;	/* HD_PAIRS: zero at the start */
	uint32_t   *seen;			/* distinct points: a bit for each slot of all leaves, zero
								 * at the start; else NULL */
};

/*
 * gpu_search_32.cu, gpu_search_64.cu
 *
 * Partitioned probes have numbers if the output is pairs or they are ranges.
 */
template <typename Key>
extern cudaError_t launch_search(const HtGroupChoice &group, bool partitioned, const Tree<Key> &tree,
								 const Probes<Key> &probes, const Results &results,
								 cudaStream_t stream);

/* gpu_sort.cu */

/*
 * Set starts[pass * digit_bins + bin] to the number of probes whose digit of that pass
 * is below bin.
 */
template <typename Key>
extern cudaError_t launch_count(const Key *low, uint32_t count, const Digits<Key> &digits,
								uint32_t *starts, cudaStream_t stream);

/* Number of tiles that so many probes are partitioned in. */
extern uint32_t partition_tiles(uint32_t count);

/*
 * Partition probes by a digit of key - base, using up its starts.  Numbers NULL: as
 * they come.
 */
template <typename Key>
extern cudaError_t launch_partition(const Key *low, const uint32_t *numbers, uint32_t count,
									Key base, Digit<Key> digit, uint32_t *starts,
									const Partition<Key> &out, cudaStream_t stream);

/* Bring values from the order behind a pass into the one before. */
template <typename Value>
extern cudaError_t launch_restore(const uint16_t *slots, const Run *runs, const Value *values,
								  uint32_t count, Value *out, cudaStream_t stream);

/* Item numbers[i] of the mirror, of a size that 16 divides, becomes item i of those staged. */
extern cudaError_t launch_write(const uint32_t *numbers, const char *staged, uint32_t count,
								size_t size, char *pages, cudaStream_t stream);

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_GPU_KERNELS_H */
