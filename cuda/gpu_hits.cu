/*
 * gpu_hits.cu
 *		What is done with hits after the search: those that are only counted are left out,
 *		or all are sorted by heap block, or their keys are read.
 */
#include <cub/device/device_radix_sort.cuh>

#include "gpu_kernels.h"

namespace harmonia
{

constexpr int keep_threads = 256;

/*
 * One thread for each hit.  A warp reserves room for the hits that it keeps.  The counts of a
 * chunk's probes fit into the second-level cache.
 */
static __global__ void
__launch_bounds__(keep_threads)
	keep_kernel(const Hits hits, uint64_t count, const PageMap map, const Hits kept,
				unsigned long long *kept_count, uint32_t *counts)
{
	constexpr uint32_t all_lanes = 0xFFFFFFFF;
	uint64_t i = (uint64_t) blockIdx.x * keep_threads + threadIdx.x;
	uint32_t lane = threadIdx.x % 32;
	uint64_t tid = i < count ? hits.tids[i] : 0;
	bool counted = i < count && map.counts(tid);
	uint32_t set = __ballot_sync(all_lanes, i < count && !counted);
	unsigned long long start = 0;

	if (lane == 0 && set != 0)
		start = atomicAdd(kept_count, (unsigned long long) __popc(set));
	start = __shfl_sync(all_lanes, start, 0);
	if ((set >> lane & 1) != 0)
	{
		start += (uint64_t) __popc(set & ((1u << lane) - 1));
		kept.tids[start] = tid;
		if (hits.probes != nullptr)
			kept.probes[start] = hits.probes[i];
	}
	if (counted && hits.probes != nullptr)
		atomicAdd(&counts[hits.probes[i]], 1u);
}

cudaError_t
launch_keep(const Hits &hits, uint64_t count, const PageMap &map, const Hits &kept,
			unsigned long long *kept_count, uint32_t *counts, cudaStream_t stream)
{
	keep_kernel<<<blocks_for(count, keep_threads), keep_threads, 0, stream>>>(
		hits, count, map, kept, kept_count, counts);
	return cudaGetLastError();
}

cudaError_t
launch_sort_hits(void *memory, size_t &memory_size, const Hits &from, const Hits &to,
				 uint64_t count, cudaStream_t stream)
{
	return cub::DeviceRadixSort::SortPairs(memory, memory_size, from.tids, to.tids, from.probes,
										   to.probes, count, block_first_bit, HT_TID_BITS, stream);
}

constexpr int key_threads = 256;

/*
 * One thread for each hit.  Neighbours mostly read the same block, and the shape of the same leaf.
 */
template <typename Key>
static __global__ void
__launch_bounds__(key_threads)
	read_keys_kernel(const char *pages, const uint64_t *slots, uint64_t count, Key *keys)
{
	constexpr uint64_t page_lines = HT_PAGE_SIZE / HD_LINE_SIZE;
	uint64_t i = (uint64_t) blockIdx.x * key_threads + threadIdx.x;

	if (i < count)
	{
		uint64_t line = slots[i] >> slot_bits;
		int slot = (int) (slots[i] & ((1 << slot_bits) - 1));
		Shape<Key> shape = read_shape<Key>(pages + line / page_lines * HT_PAGE_SIZE);

		keys[i] = load_key(shape, pages + line * HD_LINE_SIZE, slot);
	}
}

template <typename Key>
cudaError_t
launch_read_keys(const char *pages, const uint64_t *slots, uint64_t count, Key *keys,
				 cudaStream_t stream)
{
	read_keys_kernel<Key>
		<<<blocks_for(count, key_threads), key_threads, 0, stream>>>(pages, slots, count, keys);
	return cudaGetLastError();
}

#define FOR_KEY(Key) \
	template cudaError_t launch_read_keys<Key>(const char *, const uint64_t *, uint64_t, Key *, \
											   cudaStream_t);

FOR_KEY(uint32_t)
FOR_KEY(uint64_t)
FOR_KEY(Wide)

} /* namespace harmonia */
