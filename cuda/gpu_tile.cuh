/*
 * gpu_tile.cuh
 *		The search kernel for partitioned probes, each served by a single thread.
 *
 * The search is limited by the number of cache lines that a warp's loads touch, and by
 * the number of instructions.  So a block sorts a tile of probes by some more bits in
 * shared memory, and descends the tree once for all of them as far as their paths are
 * the same.  If that leads to a few leaves, points are compared with the bounds of these
 * leaves' blocks, which are staged in shared memory.  A point that is no bound is in one
 * block, if at all; the others are put aside, so that all threads of a warp search blocks at
 * the same time.  The result for each probe then replaces its key.
 */
#ifndef HARMONIA_CUDA_GPU_TILE_CUH
#define HARMONIA_CUDA_GPU_TILE_CUH

#include <cub/block/block_scan.cuh>

#include "gpu_ranges.cuh"

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
 * the first-level cache.  The pairs of ranges need shared memory for other things, too.
 */
template <bool Points, bool Pairs>
struct Tile
{
	static constexpr int probes = Points && Pairs ? 10 : !Points && Pairs ? 4 : 8;
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
		uint16_t	aside[Points ? size : 1];	/* slots put aside */
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
	int			cut_bits;		/* low bits that do not fit into 32 bits */

	/* Of a key in the span. */
	__device__ __forceinline__ uint32_t cut(Key key) const
	{
		return (uint32_t) ((Key) (key - low) >> cut_bits);
	}
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
template <typename Key, typename Low>
__device__ __forceinline__ Span<Key>
find_span(const Tree<Key> &tree, const Probes<Key, Low> &probes, uint32_t top, uint32_t top_last)
{
	DeviceGroup<warp_threads / 2> half;
	Span<Key>	span;
	Key			high;
	uint32_t	leaf;

	span.low = probes.of_top(top) + probes.base;
	high = probes.of_top(top_last) + (Key) (((Key) 1 << probes.top_shift) - 1) + probes.base;
	if (top > top_last || span.low > high)
	{
		/* There are no such keys, or they wrap around: take all keys. */
		span.low = 0;
		high = (Key) -1;
	}
	span.length = high - span.low;
	span.cut_bits = sizeof(Key) > 4 && span.length > UINT32_MAX ? 32 - __clz((int) ((uint64_t) span.length >> 32)) : 0;
	span.top = top;
	span.shift = max(32 - __clz((int) (top_last - top)) - local_bits, probes.min_shift);
	leaf = find_leaf<0>(half, tree, half.first_lane == 0 ? span.low : high);
	span.first_leaf = __shfl_sync(all_lanes, leaf, 0);
	span.last_leaf = __shfl_sync(all_lanes, leaf, warp_threads / 2);
	return span;
}

/*
 * The blocks of neighbouring leaves, and the bounds of these blocks inside a span.  A bound is
 * what is left of it in 32 bits after the span's low key is subtracted and "shift" bits are cut,
 * so two keys that look equal may differ, but the order of two that look different is right.
 */
template <typename Key>
struct Stage
{
	static constexpr uint32_t max_leaves = 16;
	static constexpr uint32_t stride = 64;	/* of a leaf */
	static_assert(HT_LEAF_MAX_BLOCKS <= stride, "a bound for each block");

	uint32_t	bounds[max_leaves * stride];
	Shape<Key>	shapes[max_leaves];
	const char *pages[max_leaves];

	/* Fill the stage.  All threads of the block take part, and synchronise afterwards. */
	__device__ __forceinline__ void fill(const Tree<Key> &tree, const Span<Key> &span)
	{
		uint32_t	leaves = span.last_leaf - span.first_leaf + 1;

		for (uint32_t i = threadIdx.x; i < leaves * stride; i += block_threads)
		{
			uint32_t	rank = span.first_leaf + i / stride;
			const char *page = tree.pages + (size_t) tree.blocks[rank] * HT_PAGE_SIZE;
			Shape<Key>	shape = read_shape<Key>(page);
			Key			after = rank + 1 < tree.leaves ? leaf_bounds(tree)[rank] : (Key) -1;
			Key			bound = block_bound(page, shape, (int) (i % stride), after);

			bounds[i] = bound < span.low ? 0 : (Key) (bound - span.low) > span.length ? UINT32_MAX : span.cut(bound);
			if (i % stride == 0)
			{
				shapes[i / stride] = shape;
				pages[i / stride] = page;
			}
		}
	}

	/* The first bound that is not below what is left of a key in the span. */
	__device__ __forceinline__ uint32_t find(uint32_t leaves, uint32_t cut) const
	{
		uint32_t	leaf = 0;
		uint32_t	left = leaves - 1;

		while (left > 0)
		{
			uint32_t	step = (left + 1) / 2;

			leaf += bounds[(leaf + step) * stride - 1] < cut ? step : 0;
			left -= step;
		}
		return leaf * stride +
			(uint32_t) find_child<(int) stride>(DeviceGroup<1>(), bounds + leaf * stride, (int) stride, cut);
	}

	/* Summarise the hits of a key in one block, which is given by its bound. */
	__device__ __forceinline__ Found search(const Span<Key> &span, uint32_t bound, Key key) const
	{
		uint32_t	leaf = bound / stride;

		return find_in_block(pages[leaf], shapes[leaf], LeafBlock{span.first_leaf + leaf, (int) (bound % stride)}, key);
	}
};

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
template <bool Points, bool Pairs, typename Key, typename Low>
__device__ __forceinline__ Span<Key>
sort_tile(const Tree<Key> &tree, const Probes<Key, Low> &probes, uint32_t start, uint32_t size,
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
	Low			keys[tile_probes];	/* offsets */
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
				memory.order.numbers[slots[j]] = probes.numbers != nullptr ? probes.numbers[start + i] : start + i;
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
template <typename Key, typename Low>
__device__ __forceinline__ void
give_tile_pairs(const Tree<Key> &tree, const Probes<Key, Low> &probes, const Results &results, uint32_t size,
				uint64_t own, bool several, const Tile<true, true>::Memory &memory)
{
	constexpr int tile_probes = Tile<true, true>::probes;
	uint32_t	lanes_before = (1u << threadIdx.x % warp_threads) - 1;
	uint64_t	warp_hits;
	uint64_t	before = sum_before(own, warp_hits);
	uint64_t	start = reserve_hits(warp_hits, results.hits);

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
			find_hits(DeviceGroup<1>(), tree, unpack_first_block(packed), probes.all_low[number], put);
		else if (packed != 0)
			put(0, packed & HT_TID_MAX);
	}
}

/*
 * Outliers among the probes have no hits here.  "range_tile" is the number of probes in a tile if
 * pairs of ranges are wanted; otherwise it is known.
 */
template <typename Key, typename Low, bool Points, bool Pairs>
__global__ void
__launch_bounds__(block_threads, (Tile<Points, Pairs>::blocks))
search_tile_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key, Low> probes, const Results results,
				   uint32_t range_tile)
{
	const uint32_t tile = !Points && Pairs ? range_tile : Tile<Points, Pairs>::size;
	using Memory = typename Tile<Points, Pairs>::Memory;
	extern __shared__ __align__(16) char shared[];
	Memory	   &memory = *(Memory *) shared;
	DeviceGroup<1> group;
	uint32_t	start = blockIdx.x * tile;
	uint32_t	size = min(tile, probes.count - start);

	const Span<Key> span = sort_tile<Points, Pairs>(tree, probes, start, size, memory);

	if constexpr (Pairs && !Points)
	{
		for (uint32_t first = 0; first < size; first += block_threads)
		{
			uint32_t	slot = first + threadIdx.x;
			uint32_t	number = 0;
			Key			low = 0;
			Key			high = 0;
			Places		places = {};

			if (slot < size)
			{
				number = memory.order.numbers[slot];
				low = (Key) memory.slots[slot];
				high = probes.all_high[number];
				places = find_places_from(group, tree, span.leaf_of(tree, low), low, high);
			}
			give_ranges(group, tree, results, places, low, high, number);
		}
		return;
	}

	__shared__ Stage<Key> stage;
	__shared__ uint32_t aside;
	__shared__ unsigned long long owned[Points && Pairs ? block_threads : 1];
	__shared__ uint32_t several_in[block_warps];	/* is there a point with several hits? */
	uint32_t	leaves = span.last_leaf - span.first_leaf + 1;
	bool		staged = Points && leaves - 1 < Stage<Key>::max_leaves;	/* damaged nodes: leaves can be 0 */
	uint64_t	own = 0;
	bool		several = false;
	auto		is_far = [&](Key key) { return is_outlier<Key>((Low) (key - probes.base)); };

	if (threadIdx.x == 0)
		aside = 0;
	if (Points && Pairs)
	{
		owned[threadIdx.x] = 0;
		if (threadIdx.x < block_warps)
			several_in[threadIdx.x] = 0;
	}
	if (staged)
		stage.fill(tree, span);
	__syncthreads();

	/* No other thread uses this thread's slots. */
	if (staged)
	{
#pragma unroll 1
		for (uint32_t slot = threadIdx.x; slot < size; slot += block_threads)
		{
			Key			key = (Key) memory.slots[slot];
			uint32_t	bound = stage.find(leaves, span.cut(key));

			if ((Key) (key - span.low) > span.length || stage.bounds[bound] == span.cut(key) || is_far(key))
			{
				memory.aside[atomicAdd(&aside, 1)] = (uint16_t) slot;
				continue;
			}

			Found		found = stage.search(span, bound, key);

			if (Points && Pairs)
				keep_distinct(tree, results, key, found);
			own += found.count;
			several |= found.count > 1;
			memory.slots[slot] = Pairs ? pack_found(found) :
				results.output == HD_FIRST ? found.first : found.count;
		}
		__syncthreads();
	}
#pragma unroll 1
	for (uint32_t i = threadIdx.x; i < (staged ? aside : size); i += block_threads)
	{
		uint32_t	slot = staged ? memory.aside[i] : i;
		Key			low = (Key) memory.slots[slot];
		Found		found;
		uint32_t	bound = staged ? stage.find(leaves, span.cut(low)) + 1 : 0;

		/* If just one bound is in doubt, the key is in the block before or after it. */
		if (is_far(low))
			found = {};
		else if (staged && (Key) (low - span.low) <= span.length && bound % Stage<Key>::stride != 0 &&
			stage.bounds[bound] > span.cut(low))
		{
			Found		second = stage.search(span, bound, low);

			found = stage.search(span, bound - 1, low);
			if (found.count == 0)
				found = second;
			else
				found.count += second.count;
		}
		else if constexpr (Points)
			found = find_summary_from(group, tree, span.leaf_of(tree, low), low);
		else
		{
			Key			high = probes.all_high[memory.order.numbers[slot]];

			found = {};
			found.count = count_entries(group, tree, find_places_from(group, tree, span.leaf_of(tree, low), low, high),
										low, high);
		}
		if (Points && Pairs)
		{
			keep_distinct(tree, results, low, found);
			if (found.count > 0)
				atomicAdd(&owned[slot % block_threads], (unsigned long long) found.count);
			if (found.count > 1)
				several_in[slot % block_threads / warp_threads] = 1;
		}
		memory.slots[slot] = Pairs ? pack_found(found) :
			results.output == HD_FIRST ? found.first : found.count;
	}
	if (Points && Pairs)
	{
		__syncthreads();
		own += owned[threadIdx.x];
		several |= several_in[threadIdx.x / warp_threads] != 0;
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
				put_first(results, start + i, value);
			else
				results.counts[start + i] = (uint32_t) value;
		}
	}
}

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_GPU_TILE_CUH */
