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
 * the same time.  The blocks of a range are found by the same bounds.  The result for each probe
 * then replaces its key.
 */
#ifndef HARMONIA_CUDA_GPU_TILE_CUH
#define HARMONIA_CUDA_GPU_TILE_CUH

#include <cub/block/block_scan.cuh>

#include "gpu_ranges.cuh"
#include "gpu_stage.cuh"

namespace harmonia
{

/* Each thread of a block counts so many bins. */
constexpr int thread_bins = local_bins / block_threads;

/*
 * Probes per thread and tile, and blocks on a multiprocessor.  These values were fastest
 * on an H100 with 2^26 keys, by up to a tenth (bench/gpu measures it).  More
 * blocks hide more latency, until registers spill; larger tiles take shared memory from
 * the first-level cache.  The pairs of ranges need shared memory for other things, too.
 */
template <typename Key, bool Points, bool Pairs>
struct Tile
{
	static constexpr int probes = Points && Pairs ? 10 : !Points && Pairs ? 4 : 8;
	static constexpr uint32_t size = block_threads * probes;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
	static constexpr int blocks = Points && !Pairs ? 3 : 2;	/* all that fit */
#else
	static constexpr int blocks = (Points && !Pairs ? 6 : !Points && Pairs ? 4 : 5) - (is_wide<Key> ? 1 : 0);
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
		uint64_t	slots[size];	/* what key_in_slot() takes, sorted; then results */
		union
		{
			uint32_t	starts[local_bins + 1]; /* the last one is of what a tile lacks */
			Order		order;
		};
		uint16_t	aside[Points ? size : 1];	/* slots put aside */
	};
};

/*
 * What is in a tile's slots before they have results: keys, or, as wide keys do not fit, the places
 * where the tile's keys are.
 */
template <typename Key, typename Low>
__device__ __forceinline__ Key
key_in_slot(const Probes<Key, Low> &probes, uint32_t start, uint64_t slot)
{
	if constexpr (is_wide<Key>)
		return probes.low[start + (uint32_t) slot] + probes.base;
	else
		return (Key) slot;
}

/* What a thread keeps of a probe while its tile is sorted. */
template <typename Low>
struct TileProbe
{
	Low			offset;

	template <typename Key>
	__device__ __forceinline__ void take(const Probes<Key, Low> &, Low of_probe)
	{
		offset = of_probe;
	}
	template <typename Key>
	__device__ __forceinline__ bool is_usual(const Probes<Key, Low> &probes) const
	{
		return probes.is_usual(offset);
	}
	template <typename Key>
	__device__ __forceinline__ uint32_t top(const Probes<Key, Low> &probes) const
	{
		return probes.top_of(offset);
	}
	template <typename Key>
	__device__ __forceinline__ uint64_t slot(const Probes<Key, Low> &probes, uint32_t) const
	{
		return (Key) (offset + probes.base);
	}
};

/* Of a wide key, its top bits.  Unusual keys have all of them set; others that have are taken for unusual. */
template <>
struct TileProbe<Wide>
{
	uint32_t	top_bits;

	template <typename Key>
	__device__ __forceinline__ void take(const Probes<Key> &probes, Key offset)
	{
		top_bits = probes.is_usual(offset) ? probes.top_of(offset) : UINT32_MAX;
	}
	template <typename Key>
	__device__ __forceinline__ bool is_usual(const Probes<Key> &) const
	{
		return top_bits != UINT32_MAX;
	}
	template <typename Key>
	__device__ __forceinline__ uint32_t top(const Probes<Key> &) const
	{
		return top_bits;
	}
	template <typename Key>
	__device__ __forceinline__ uint64_t slot(const Probes<Key> &, uint32_t i) const
	{
		return i;
	}
};

/*
 * Sort the tile's probes by their top bits into memory.slots, with their numbers in
 * memory.order.  All threads of the block take part.  "later" is the tile of a later block.
 */
template <bool Points, bool Pairs, typename Key, typename Low>
__device__ __forceinline__ Span<Key>
sort_tile(const Tree<Key> &tree, const Probes<Key, Low> &probes, uint32_t start, uint32_t size, TileRange later,
		  typename Tile<Key, Points, Pairs>::Memory &memory)
{
	constexpr int tile_probes = Tile<Key, Points, Pairs>::probes;
	using Scan = cub::BlockScan<uint32_t, block_threads>;
	__shared__ typename Scan::TempStorage scan;
	__shared__ uint32_t least[block_warps];
	__shared__ uint32_t greatest[block_warps];
	__shared__ Span<Key> shared_span;
	int			lane = (int) threadIdx.x % warp_threads;
	uint32_t	low = UINT32_MAX;
	uint32_t	high = 0;
	TileProbe<Low> keys[tile_probes];
	uint32_t	slots[tile_probes];
	uint32_t	bins[thread_bins];

	const Low  *own = probes.low + start + threadIdx.x;
	const Low	first = probes.low[start];

	/* What the last tiles lack are copies of a probe, in a bin behind the others, so that all tiles are sorted as full ones are. */
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
		keys[j].take(probes, j * block_threads + threadIdx.x < size ? own[j * block_threads] : first);
	prefetch_items<block_threads, tile_probes>(probes.low + later.start, later.size);
	if ((Pairs || !Points) && probes.numbers != nullptr)
		prefetch_items<block_threads, tile_probes>(probes.numbers + later.start, later.size);
	for (int b = 0; b < thread_bins; b++)
		memory.starts[b * block_threads + threadIdx.x] = 0;
	if (threadIdx.x == 0)
		memory.starts[local_bins] = 0;
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		if (keys[j].is_usual(probes))
		{
			low = min(low, keys[j].top(probes));
			high = max(high, keys[j].top(probes));
		}
	}
	low = warp_least(low);
	high = warp_greatest(high);
	if (lane == 0)
	{
		least[threadIdx.x / warp_threads] = low;
		greatest[threadIdx.x / warp_threads] = high;
	}
	__syncthreads();
	if (threadIdx.x < 2 * warp_threads)
	{
		low = warp_least(least[lane % block_warps]);
		high = warp_greatest(greatest[lane % block_warps]);
		find_span(tree, probes, low, high, shared_span);
	}
	__syncthreads();

	const Span<Key> span = shared_span;

#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t	bin = j * block_threads + threadIdx.x < size ? span.bin_of(keys[j].top(probes)) : local_bins;

		slots[j] = bin << 16 | atomicAdd(&memory.starts[bin], 1);
	}
	__syncthreads();
	for (int b = 0; b < thread_bins; b++)
		bins[b] = memory.starts[threadIdx.x * thread_bins + b];
	Scan(scan).ExclusiveSum(bins, bins);
	for (int b = 0; b < thread_bins; b++)
		memory.starts[threadIdx.x * thread_bins + b] = bins[b];
	if (threadIdx.x == 0)
		memory.starts[local_bins] = size;
	__syncthreads();
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		slots[j] = memory.starts[slots[j] >> 16] + (slots[j] & 0xFFFF);
		memory.slots[slots[j]] = keys[j].slot(probes, j * block_threads + threadIdx.x);
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t	i = j * block_threads + threadIdx.x;

		if ((Pairs || !Points) && i < size)
			memory.order.numbers[slots[j]] = probes.numbers != nullptr ? probes.numbers[start + i] : start + i;
		if (!Pairs)
			memory.order.slot_of[i] = (uint16_t) slots[j];
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

/* The slots of points that a thread has searched, and so writes the hits of. */
struct OwnSlots
{
	uint32_t	others;			/* bit j: another thread has searched the point in this one's slot j */
	uint32_t	asides;			/* of all threads; each has taken its share of these slots */
};

/*
 * Write the hits of points.  "hits" is the number of those that this thread has found; are there points with several
 * hits?  Warps do not wait for each other.
 */
template <typename Key, typename Low>
__device__ __forceinline__ void
give_tile_pairs(const Tree<Key> &tree, const Probes<Key, Low> &probes, const Results &results, uint32_t size,
				const OwnSlots &own, uint64_t hits, bool several, const typename Tile<Key, true, true>::Memory &memory)
{
	constexpr int tile_probes = Tile<Key, true, true>::probes;
	uint32_t	lane = threadIdx.x % warp_threads;
	uint32_t	lanes_before = (1u << lane) - 1;
	uint64_t	start = 0;

	if (!__any_sync(all_lanes, several))
	{
		/* All threads of the warp take part.  "searched" is false if this one has no such slot. */
		auto		give = [&](bool searched, uint32_t slot)
		{
			uint64_t	packed = searched ? memory.slots[slot] : 0;
			uint32_t	set = __ballot_sync(all_lanes, packed != 0);
			uint64_t	at = start + (uint64_t) __popc(set & lanes_before);

			if (packed != 0 && at < results.room)
			{
				results.probes[at] = memory.order.numbers[slot];
				results.tids[at] = packed & HT_TID_MAX;
			}
			start += (uint64_t) __popc(set);
		};

		start = reserve_warp_hits(warp_sum((uint32_t) hits), results.hits);
#pragma unroll
		for (int j = 0; j < tile_probes; j++)
		{
			uint32_t	slot = j * block_threads + threadIdx.x;

			give(slot < size && (own.others >> j & 1) == 0, slot);
		}
#pragma unroll 1
		for (uint32_t i = threadIdx.x; i - lane < own.asides; i += block_threads)
			give(i < own.asides, i < own.asides ? memory.aside[i] : 0);
		return;
	}

	uint64_t	warp_hits;
	uint64_t	before = sum_before(hits, warp_hits);
	auto		give_all = [&](uint32_t slot)
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
	};

	start = reserve_warp_hits(warp_hits, results.hits) + before;
	/* One loop for both, as find_hits() is long. */
	for (uint32_t i = threadIdx.x; i < tile_probes * block_threads + own.asides; i += block_threads)
	{
		uint32_t	j = i / block_threads;

		if (j >= tile_probes)
			give_all(memory.aside[i - tile_probes * block_threads]);
		else if (i < size && (own.others >> j & 1) == 0)
			give_all(i);
	}
}

/*
 * Search a tile's points: write their hits if pairs are wanted, and otherwise leave their results in the slots.  All threads of
 * the block take part.
 */
template <bool Pairs, typename Key, typename Low>
__device__ __forceinline__ void
search_points(const Tree<Key> &tree, const Probes<Key, Low> &probes, const Results &results, const Span<Key> &span,
			  uint32_t start, uint32_t size, typename Tile<Key, true, Pairs>::Memory &memory)
{
	__shared__ Stage<Key> stage;
	__shared__ uint32_t aside;
	uint32_t	leaves = span.last_leaf - span.first_leaf + 1;
	bool		staged = leaves - 1 < stage.max_leaves; /* damaged nodes: leaves can be 0 */
	uint64_t	hits = 0;
	bool		several = false;
	OwnSlots	own = {};
	auto		is_far = [&](Key key) { return is_outlier<Key>((Low) (key - probes.base)); };

	if (threadIdx.x == 0)
		aside = 0;
	if (staged)
	{
		stage.fill(tree, span);
		__syncthreads();
		stage.divide(span, leaves);
	}
	__syncthreads();

	/* No other thread uses this thread's slots. */
	if (staged)
	{
#pragma unroll 1
		for (uint32_t slot = threadIdx.x; slot < size; slot += block_threads)
		{
			Key			key = key_in_slot(probes, start, memory.slots[slot]);
			auto		place = stage.find(span, leaves, key);

			if ((Key) (key - span.low) > span.length || stage.bounds[place.bound] == place.cut || is_far(key))
			{
				memory.aside[atomicAdd(&aside, 1)] = (uint16_t) slot;
				own.others |= 1u << slot / block_threads;
				continue;
			}

			Found		found = stage.search(tree, span, place.bound, key);

			if (Pairs)
				keep_distinct(tree, results, key, found);
			hits += found.count;
			several |= found.count > 1;
			memory.slots[slot] = Pairs ? pack_found(found) :
				results.output == HD_FIRST ? found.first : found.count;
		}
		__syncthreads();
		own.asides = aside;
	}
#pragma unroll 1
	for (uint32_t i = threadIdx.x; i < (staged ? own.asides : size); i += block_threads)
	{
		uint32_t	slot = staged ? memory.aside[i] : i;
		Key			low = key_in_slot(probes, start, memory.slots[slot]);
		Found		found;
		typename Stage<Key>::Place place = {};
		uint32_t	bound = 0;

		if (staged)
		{
			place = stage.find(span, leaves, low);
			bound = place.bound + 1;
		}

		/* If just one bound is in doubt, the key is in the block before or after it. */
		if (is_far(low))
			found = {};
		else if (staged && (Key) (low - span.low) <= span.length && bound % Stage<Key>::stride != 0 &&
			stage.bounds[bound] > place.cut)
		{
			Found		second = stage.search(tree, span, bound, low);

			found = stage.search(tree, span, bound - 1, low);
			if (found.count == 0)
				found = second;
			else
				found.count += second.count;
		}
		else
			found = find_summary_from(DeviceGroup<1>(), tree, span.leaf_of(tree, low), low);
		if (Pairs)
		{
			keep_distinct(tree, results, low, found);
			hits += found.count;
			several |= found.count > 1;
		}
		memory.slots[slot] = Pairs ? pack_found(found) :
			results.output == HD_FIRST ? found.first : found.count;
	}
	if constexpr (Pairs)
		give_tile_pairs(tree, probes, results, size, own, hits, several, memory);
}

/*
 * Search a tile's ranges: write their hits if pairs are wanted, and otherwise leave their counts in the slots.  All threads of
 * the block take part.  "stage" is in shared memory; NULL: there is none.
 */
template <bool Pairs, typename Key>
__device__ __forceinline__ void
search_ranges(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results, const Span<Key> &span,
			  uint32_t size, typename Tile<Key, false, Pairs>::Memory &memory, RangeStage<Key> *stage)
{
	DeviceGroup<1> group;
	uint32_t	leaves = span.last_leaf - span.first_leaf + 1;
	bool		staged = stage != nullptr && leaves - 1 < stage->max_leaves;	/* damaged nodes: leaves can be 0 */
	LeavesWithStage<Key> leaf_of = {tree, *stage, span.first_leaf, staged ? leaves : 0};

	if (staged)
	{
		stage->fill(tree, span);
		__syncthreads();
		stage->divide(span, leaves);
		__syncthreads();
	}
	for (uint32_t first = 0; first < size; first += block_threads)
	{
		uint32_t	slot = first + threadIdx.x;
		uint32_t	number = 0;
		Key			low = 0;
		Key			high = 0;
		PlaceSpan	places = {};

		if (slot < size)
		{
			number = memory.order.numbers[slot];
			low = (Key) memory.slots[slot];
			high = probes.all_high[number];
			if (!staged || !stage->find(tree, span, leaves, low, high, places))
				places = find_places_from(group, tree, span.leaf_of(tree, low), low, high);
		}
		if constexpr (Pairs)
			give_ranges(group, tree, leaf_of, results, places, low, high, number);
		else if (slot < size)
			memory.slots[slot] = count_entries(group, tree, leaf_of, places, low, high);
	}
}

/*
 * Outliers among the probes have no hits here.  "range_tile" is the number of probes in a tile if
 * pairs of ranges are wanted; otherwise it is known.  "range_stage" says whether the dynamic shared memory has
 * a RangeStage behind the tile's memory.
 */
template <typename Key, typename Low, bool Points, bool Pairs>
__global__ void
__launch_bounds__(block_threads, (Tile<Key, Points, Pairs>::blocks))
search_tile_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key, Low> probes, const Results results,
				   uint32_t range_tile, bool range_stage, uint32_t later_by)
{
	const uint32_t tile = !Points && Pairs ? range_tile : Tile<Key, Points, Pairs>::size;
	using Memory = typename Tile<Key, Points, Pairs>::Memory;
	extern __shared__ __align__(16) char shared[];
	Memory	   &memory = *(Memory *) shared;
	const TileRange own_tile = tile_of_block(probes.binned.tiles, probes.count, tile, blockIdx.x);
	uint32_t	start = own_tile.start;
	uint32_t	size = own_tile.size;

	if (size == 0)
		return;

	const Span<Key> span = sort_tile<Points, Pairs>(tree, probes, start, size,
													 tile_of_block(probes.binned.tiles, probes.count, tile, blockIdx.x + later_by),
													 memory);

	if constexpr (Points)
		search_points<Pairs>(tree, probes, results, span, start, size, memory);
	else
	{
		using Stage = RangeStage<Key>;
		static_assert(alignof(Stage) <= alignof(Memory), "it can follow");

		search_ranges<Pairs>(tree, probes, results, span, size, memory, range_stage ? (Stage *) (&memory + 1) : nullptr);
	}
	if constexpr (!Pairs)
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
