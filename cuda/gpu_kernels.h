/*
 * gpu_kernels.h
 *		The kernels that gpu_batch.cu calls.  They are separate translation units because
 *		they compile slowly.
 */
#ifndef HARMONIA_CUDA_GPU_KERNELS_H
#define HARMONIA_CUDA_GPU_KERNELS_H

#include <cuda_runtime.h>

#include "device_base.h"

namespace harmonia
{

/* The number of blocks whose threads take so many items together. */
inline uint32_t
blocks_for(uint64_t count, uint32_t together)
{
	return (uint32_t) ((count - 1) / together + 1);
}

/* Probes on the device. */
template <typename Key> struct Probes
{
	const Key *low;          /* in probe order, as high is */
	const Key *high;         /* NULL: points */
	const uint32_t *numbers; /* of the probes, in search order; NULL: that is probe order */
	uint32_t count;

	/*
	 * Tiles see keys as offsets from a base.  Those in the range in use have no other bits than
	 * "mask"; the top bits are the 32 highest of these.  top_shift is the number of bits below
	 * them, min_shift the number of low ones among them that tiles are not sorted by.
	 */
	Key base;
	Key mask;
	int top_shift;
	int min_shift;

	HD_BOTH uint32_t number(uint32_t i) const
	{
		return numbers != nullptr ? numbers[i] : i;
	}
	HD_BOTH bool is_usual(Key offset) const
	{
		return (offset & (Key) ~mask) == Key(0);
	}
	HD_BOTH uint32_t top_of(Key offset) const
	{
		return (uint32_t) (offset >> top_shift);
	}
	HD_BOTH Key of_top(uint32_t top) const
	{
		return (Key) ((Key) top << top_shift) & mask;
	}
};

/* Where hits go on the device, one after the other, in any order. */
struct Results
{
	uint32_t *probes;
	uint64_t *tids;
	uint64_t *slots; /* ranges: see pack_slot(); NULL: not wanted */
	uint64_t room;
	unsigned long long *hits; /* their number; zero at the start */
	uint32_t *seen;           /* distinct points: a bit for each slot of all leaves, zero at the
							   * start; otherwise NULL */
};

/*
 * Where a hit's entry is: its block, in lines from the first page on, and the slot there.  Keys of
 * hits are read after the search, by these: kernels that write pairs need no registers for keys,
 * and need not know how wide they are.
 */
constexpr int slot_bits = 5;

static_assert(HT_LEAF_MAX_SLOTS <= 1 << slot_bits, "a slot has as many bits");

HD_BOTH uint64_t
pack_slot(uint64_t line, uint32_t slot)
{
	return line << slot_bits | slot;
}

/*
 * gpu_search_32.cu, gpu_search_64.cu, gpu_search_wide.cu
 *
 * Search with so many threads a probe; with more than one, points that are not distinct.  Probes
 * that are near each other in search order are searched in tiles, if by one thread.
 */
template <typename Key>
extern cudaError_t launch_search(int threads, bool tiled, const Tree<Key> &tree,
								 const Probes<Key> &probes, const Results &results,
								 cudaStream_t stream);

/* gpu_sort.cu */

/* Probes are sorted by at most so many bits: two passes of CUB's radix sort. */
constexpr int sorted_bits = 16;

/* Set the digit of each probe, "bits" bits of its offset from a base; and its number. */
template <typename Key>
extern cudaError_t launch_digits(const Key *low, uint32_t count, Key base, int first_bit, int bits,
								 uint16_t *digits, uint32_t *numbers, cudaStream_t stream);

/*
 * Sort numbers of probes by digits of so many bits; digits[0] and numbers[0] become digits[1] and
 * numbers[1].  If memory is NULL, only sets memory_size to what it takes.
 */
extern cudaError_t launch_sort(void *memory, size_t &memory_size, uint16_t *const digits[2],
							   uint32_t *const numbers[2], uint32_t count, int bits,
							   cudaStream_t stream);

/* gpu_index.cu */

/*
 * Copy staged item i to item numbers[i] of the mirror.  The items' size is a multiple of
 * 16.
 */
extern cudaError_t launch_write(const uint32_t *numbers, const char *staged, uint32_t count,
								size_t size, char *pages, cudaStream_t stream);

/* gpu_hits.cu */

/* Hits on the device; probes are NULL where only tids are wanted. */
struct Hits
{
	uint64_t *tids;
	uint32_t *probes;
};

/* The bits of a tid from this one on are the heap block. */
constexpr int block_first_bit = 16;

/*
 * Sort hits, which have probes, by heap block.  If memory is NULL, only sets memory_size to what it
 * takes.
 */
extern cudaError_t launch_sort_hits(void *memory, size_t &memory_size, const Hits &from,
									const Hits &to, uint64_t count, cudaStream_t stream);

/*
 * Move the hits that a map does not count to "kept", in any order, and set *kept_count,
 * which is zero at the start, to their number.  If hits have probes, add the others to the
 * counts of their probes.
 */
extern cudaError_t launch_keep(const Hits &hits, uint64_t count, const PageMap &map,
							   const Hits &kept, unsigned long long *kept_count, uint32_t *counts,
							   cudaStream_t stream);

/* Read the keys of hits, given by their slots. */
template <typename Key>
extern cudaError_t launch_read_keys(const char *pages, const uint64_t *slots, uint64_t count,
									Key *keys, cudaStream_t stream);

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GPU_KERNELS_H */
