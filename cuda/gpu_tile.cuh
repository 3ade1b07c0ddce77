/*
 * gpu_tile.cuh
 *		The search kernel for partitioned probes, each served by a single thread.
 *
 * The search is limited by the number of cache lines that a warp's loads touch, and by
 * the number of instructions.  So a block sorts a tile of probes by some more bits in
 * shared memory, and descends the tree once for all of them as far as their paths are
 * the same.  The result for each probe then replaces its key.
 */
#ifndef HARMONIA_CUDA_GPU_TILE_CUH
#define HARMONIA_CUDA_GPU_TILE_CUH

#include <cub/block/block_scan.cuh>

#include "gpu_group.cuh"

namespace harmonia
{

/*
 * A tile is sorted by local_bits bits; each thread of a block counts thread_bins bins.
 */
constexpr int local_bits = 10;
constexpr uint32_t local_bins = 1 << local_bits;
constexpr int thread_bins = local_bins / block_threads;

/*
 * Probes per thread and tile, and blocks on a multiprocessor.  These values were fastest
 * on an H100 with 2^26 64-bit keys, by up to a tenth (bench/gpu measures it).  More
 * blocks hide more latency, until registers spill; larger tiles take shared memory from
 * the first-level cache.
 */
template <bool Points, bool Pairs>
struct Tile
{
	static constexpr int probes = Points && Pairs ? 12 : 8;
	static constexpr uint32_t size = block_threads * probes;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
	static constexpr int blocks = Points && !Pairs ? 3 : 2;	/* all that fit */
#else
	static constexpr int blocks = Points && !Pairs ? 6 : !Points && Pairs ? 4 : 5;
#endif

	/* Reuses the memory of the counters. */
	struct Order
	{
		uint32_t	numbers[Pairs || !Points ? size : 1];	/* numbers of the probes in
															 * slots */
		uint16_t	slot_of[Pairs ? 1 : size];	/* slot of the tile's i-th probe */
	};
	struct Memory
	{
		uint64_t	slots[size];	/* sorted keys, then their results */
		union
		{
			uint32_t	starts[local_bins];
			Order		order;
		};
	};
};

/* The common range of a tile's keys, apart from keys outside the range in use. */
template <typename Key>
struct Span
{
	Key			low;
	Key			length;			/* high - low */
	uint32_t	top;			/* lowest top bits in the tile */
	int			shift;			/* low ones of the top bits that keys are not sorted
								 * by */
	uint32_t	first_leaf;
	uint32_t	last_leaf;

	__device__ __forceinline__ uint32_t bin_of(uint32_t key_top) const
	{
		return min((key_top - top) >> shift, local_bins - 1);
	}
	__device__ __forceinline__ uint32_t leaf_of(const Tree<Key> &tree, Key key) const
	{
		return (Key) (key - low) <= length ? find_leaf_between(tree, first_leaf, last_leaf, key) :
			find_leaf_between(tree, 0, tree.leaves - 1, key);
	}
};

/*
 * Find the span of keys with top bits from "top" to "top_last".  All threads of a warp
 * take part.
 */
template <typename Key>
__device__ __forceinline__ Span<Key>
find_span(const Tree<Key> &tree, const Probes<Key> &probes, uint32_t top, uint32_t top_last)
{
	DeviceGroup<warp_threads / 2> half;
	Span<Key>	span;
	Key			high;
	uint32_t	leaf;

	span.low = probes.of_top(top) + probes.base;
	high = probes.of_top(top_last) + (((Key) 1 << probes.top_shift) - 1) + probes.base;
	if (top > top_last || span.low > high)
	{
		/* There are no such keys, or they wrap around: take all keys. */
		span.low = 0;
		high = (Key) -1;
	}
	span.length = high - span.low;
	span.top = top;
	span.shift = max(32 - __clz((int) (top_last - top)) - local_bits, probes.min_shift);
	leaf = find_leaf<0>(half, tree, half.first_lane == 0 ? span.low : high);
	span.first_leaf = __shfl_sync(all_lanes, leaf, 0);
	span.last_leaf = __shfl_sync(all_lanes, leaf, warp_threads / 2);
	return span;
}

/* Minimum and maximum of the values of a warp's threads. */
__device__ __forceinline__ void
warp_bounds(uint32_t &least, uint32_t &greatest)
{
#pragma unroll
	for (int distance = warp_threads / 2; distance > 0; distance /= 2)
	{
		least = min(least, __shfl_xor_sync(all_lanes, least, distance));
		greatest = max(greatest, __shfl_xor_sync(all_lanes, greatest, distance));
	}
}

/*
 * Sort the tile's probes by their top bits into memory.slots, with their numbers in
 * memory.order.  All threads of the block take part.
 */
template <bool Points, bool Pairs, typename Key>
__device__ __forceinline__ Span<Key>
sort_tile(const Tree<Key> &tree, const Probes<Key> &probes, uint32_t start, uint32_t size,
		  typename Tile<Points, Pairs>::Memory &memory)
{
	constexpr int tile_probes = Tile<Points, Pairs>::probes;
	using Scan = cub::BlockScan<uint32_t, block_threads>;
	__shared__ typename Scan::TempStorage scan;
	__shared__ uint32_t least[block_warps];
	__shared__ uint32_t greatest[block_warps];
	__shared__ Span<Key> shared_span;
	int			lane = (int) threadIdx.x % warp_threads;
	uint32_t	low = UINT32_MAX;
	uint32_t	high = 0;
	Key			keys[tile_probes];	/* less base */
	uint32_t	slots[tile_probes];
	uint32_t	bins[thread_bins];

#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t	i = j * block_threads + threadIdx.x;

		keys[j] = i < size ? probes.low[start + i] : 0;
	}
	for (uint32_t bin = threadIdx.x; bin < local_bins; bin += block_threads)
		memory.starts[bin] = 0;
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		if (j * block_threads + threadIdx.x < size && probes.is_usual(keys[j]))
		{
			low = min(low, probes.top_of(keys[j]));
			high = max(high, probes.top_of(keys[j]));
		}
	}
	warp_bounds(low, high);
	if (lane == 0)
	{
		least[threadIdx.x / warp_threads] = low;
		greatest[threadIdx.x / warp_threads] = high;
	}
	__syncthreads();
	if (threadIdx.x < warp_threads)
	{
		low = least[lane % block_warps];
		high = greatest[lane % block_warps];
		warp_bounds(low, high);

		Span<Key>	found = find_span(tree, probes, low, high);

		if (lane == 0)
			shared_span = found;
	}
	__syncthreads();

	const Span<Key> span = shared_span;

#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		if (j * block_threads + threadIdx.x < size)
		{
			uint32_t	bin = span.bin_of(probes.top_of(keys[j]));

			slots[j] = bin << 16 | atomicAdd(&memory.starts[bin], 1);
		}
	}
	__syncthreads();
	for (int b = 0; b < thread_bins; b++)
		bins[b] = memory.starts[threadIdx.x * thread_bins + b];
	Scan(scan).ExclusiveSum(bins, bins);
	for (int b = 0; b < thread_bins; b++)
		memory.starts[threadIdx.x * thread_bins + b] = bins[b];
	__syncthreads();
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t	i = j * block_threads + threadIdx.x;

		if (i < size)
		{
			slots[j] = memory.starts[slots[j] >> 16] + (slots[j] & 0xFFFF);
			memory.slots[slots[j]] = (Key) (keys[j] + probes.base);
		}
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t	i = j * block_threads + threadIdx.x;

		if (i < size)
		{
			if (Pairs || !Points)
				memory.order.numbers[slots[j]] = probes.numbers[start + i];
			if (!Pairs)
				memory.order.slot_of[i] = (uint16_t) slots[j];
		}
	}
	__syncthreads();
	return span;
}

/*
 * The packed result of a point: one hit with its tid, or several hits with the block of
 * the first one; 0 if there is none.
 */
constexpr uint64_t one_hit = UINT64_C(1) << 63;
constexpr uint64_t several_hits = UINT64_C(1) << 62;

__device__ __forceinline__ uint64_t
pack_found(const Found &found)
{
	return found.count == 0 ? 0 : found.count == 1 ? one_hit | found.first :
		several_hits | (uint64_t) found.first_block.rank << 8 | (uint64_t) found.first_block.block;
}

__device__ __forceinline__ LeafBlock
unpack_first_block(uint64_t packed)
{
	return {(uint32_t) (packed >> 8), (int) (packed & 0xFF)};
}

/* Write the hits of points.  "own" is the number of hits in this thread's slots. */
template <typename Key>
__device__ __forceinline__ void
give_tile_pairs(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results, uint32_t size,
				uint64_t own, bool several, const Tile<true, true>::Memory &memory)
{
	constexpr int tile_probes = Tile<true, true>::probes;
	uint32_t	lanes_before = (1u << threadIdx.x % warp_threads) - 1;
	uint64_t	warp_hits;
	uint64_t	before = sum_before(own, warp_hits);
	uint64_t	start = reserve_hits(warp_hits, results.hits).start;

	if (!__any_sync(all_lanes, several))
	{
#pragma unroll
		for (int j = 0; j < tile_probes; j++)
		{
			uint32_t	slot = j * block_threads + threadIdx.x;
			uint64_t	packed = slot < size ? memory.slots[slot] : 0;
			uint32_t	set = __ballot_sync(all_lanes, packed != 0);
			uint64_t	at = start + (uint64_t) __popc(set & lanes_before);

			if (packed != 0 && at < results.room)
			{
				results.probes[at] = memory.order.numbers[slot];
				results.tids[at] = packed & HT_TID_MAX;
			}
			start += (uint64_t) __popc(set);
		}
		return;
	}

	start += before;
	for (uint32_t slot = threadIdx.x; slot < size; slot += block_threads)
	{
		uint64_t	packed = memory.slots[slot];
		uint32_t	number = memory.order.numbers[slot];
		auto		put = [&](uint64_t, uint64_t tid)
		{
			if (start < results.room)
			{
				results.probes[start] = number;
				results.tids[start] = tid;
			}
			start++;
		};

		if ((packed & several_hits) != 0)
			find_hits(DeviceGroup<1>(), tree, unpack_first_block(packed), probes.all_low[number],
					  probes.all_low[number], put);
		else if (packed != 0)
			put(0, packed & HT_TID_MAX);
	}
}

template <typename Key, bool Points, bool Pairs>
__global__ void
__launch_bounds__(block_threads, (Tile<Points, Pairs>::blocks))
search_tile_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key> probes, const Results results)
{
	constexpr uint32_t tile = Tile<Points, Pairs>::size;
	using Memory = typename Tile<Points, Pairs>::Memory;
	extern __shared__ __align__(16) char shared[];
	Memory	   &memory = *(Memory *) shared;
	DeviceGroup<1> group;
	uint32_t	start = blockIdx.x * tile;
	uint32_t	size = min(tile, probes.count - start);

	const Span<Key> span = sort_tile<Points, Pairs>(tree, probes, start, size, memory);

	if (Pairs && !Points)
	{
		for (uint32_t slot = threadIdx.x; slot < tile; slot += block_threads)
		{
			Key			low = 0;
			Key			high = 0;
			Found		found = {};

			if (slot < size)
			{
				low = (Key) memory.slots[slot];
				high = probes.all_high[memory.order.numbers[slot]];
				found = find_summary_from<Points>(group, tree, span.leaf_of(tree, low), low, high);
			}
			give_pairs<Points>(group, tree, results, found, low, high, slot < size ? memory.order.numbers[slot] : 0);
			__syncthreads();
		}
		return;
	}

	uint64_t	own = 0;
	bool		several = false;

	/* No other thread uses this thread's slots. */
#pragma unroll 1
	for (uint32_t slot = threadIdx.x; slot < size; slot += block_threads)
	{
		Key			low = (Key) memory.slots[slot];
		Key			high = Points ? low : probes.all_high[memory.order.numbers[slot]];
		Found		found = find_summary_from<Points>(group, tree, span.leaf_of(tree, low), low, high);

		if (Points && Pairs)
			keep_distinct(tree, results, low, found);
		own += found.count;
		several |= found.count > 1;
		memory.slots[slot] = Pairs ? pack_found(found) :
			results.output == HD_FIRST ? found.first : found.count;
	}
	if constexpr (Points && Pairs)
		give_tile_pairs(tree, probes, results, size, own, several, memory);
	else
	{
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < size; i += block_threads)
		{
			uint64_t	value = memory.slots[memory.order.slot_of[i]];

			if (results.output == HD_FIRST)
				results.tids[start + i] = value;
			else
				results.counts[start + i] = (uint32_t) value;
		}
	}
}

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_GPU_TILE_CUH */
