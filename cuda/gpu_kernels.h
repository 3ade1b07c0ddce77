/*
 * gpu_kernels.h
 *		What gpu.cu calls; each is compiled for itself, for it takes long.
 */
#ifndef HARMONIA_GPU_KERNELS_H
#define HARMONIA_GPU_KERNELS_H

#include <cuda_runtime.h>

#include "internal.h"

namespace harmonia
{

/* Probes on the device. */
template <typename Key>
struct Probes
{
	const Key  *low;			/* in the order of the search, less base */
	const Key  *high;			/* in probe order; NULL: points */
	uint32_t   *numbers;		/* probe numbers in the order of the search; NULL: as
								 * they come */
	int			local_first_bit;	/* sort neighbours by these bits, too */
	int			local_bits;
	Key			base;
	uint32_t	count;
};

/* Where results go on the device. */
struct Results
{
	HdOutput	output;
	bool		in_place;		/* HD_FIRST, HD_COUNT: in probe order, instead of
								 * in the order of the search */
	uint32_t   *probes;
	uint64_t   *tids;
	uint32_t   *counts;
	uint64_t	room;
	unsigned long long *hits;	/* HD_PAIRS: zero at the start */
};

/* gpu_search_32.cu, gpu_search_64.cu */
template <typename Key>
extern cudaError_t launch_search(int threads, const Tree<Key> &tree, const Probes<Key> &probes,
								 const Results &results, cudaStream_t stream);

/* gpu_sort.cu */

/* Number probes 0, 1, ... and, if base is not 0, subtract it from their keys. */
template <typename Key>
extern cudaError_t launch_number(const Key *low, uint32_t count, Key base, Key *keys,
								 uint32_t *numbers, cudaStream_t stream);

/*
 * Sort by bits first_bit..first_bit + bits - 1 of the keys.  With temporary NULL only
 * sets *temporary_size.
 */
template <typename Key>
extern cudaError_t sort_probes(void *temporary, size_t *temporary_size, const Key *keys,
							   Key *sorted_keys, const uint32_t *numbers,
							   uint32_t *sorted_numbers, uint32_t count, int first_bit, int bits,
							   cudaStream_t stream);

/* Likewise, values by probe numbers. */
template <typename Value>
extern cudaError_t partition_values(void *temporary, size_t *temporary_size,
									const uint32_t *numbers, uint32_t *sorted_numbers,
									const Value *values, Value *sorted_values,
									uint32_t count, int first_bit, int bits,
									cudaStream_t stream);

/*
 * Values partitioned by all but the last window_bits bits of their numbers, which are
 * 0..count - 1 in some order: out[numbers[i]] = values[i].
 */
constexpr int window_bits = 12;
template <typename Value>
extern cudaError_t launch_scatter(const uint32_t *numbers, const Value *values, uint32_t count,
								  Value *out, cudaStream_t stream);

/* Item numbers[i] of the mirror, of a size that 16 divides, becomes item i of those staged. */
extern cudaError_t launch_write(const uint32_t *numbers, const char *staged, uint32_t count,
								size_t size, char *pages, cudaStream_t stream);

}								/* namespace harmonia */

#endif							/* HARMONIA_GPU_KERNELS_H */
