/*
 * gpu_tile.cuh
 *		The search kernel for sorted probes, each served by a single thread.
 *
 * The search is limited by the number of cache lines that a warp's loads touch, and by
 * the number of instructions.  So a block sorts a tile of probes by some more bits in
 * shared memory, and descends the tree once for all of them as far as their paths are
 * the same.  If that leads to a few leaves, points are compared with the bounds of these
 * leaves' blocks, which are staged in shared memory.  A point that is no bound is in one
 * block, if at all; the others are put aside, so that all threads of a warp search blocks at
 * the same time.  The blocks of a range are found by the same bounds.
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
 * the first-level cache.  Ranges need shared memory for other things, too.
 */
template <typename Key, bool Points> struct Tile
{
	static constexpr int probes = Points ? 10 : 4;
	static constexpr uint32_t size = block_threads * probes;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
	static constexpr int blocks = 2; /* all that fit */
#else
	static constexpr int blocks = (Points ? 5 : 4) - (is_wide<Key> ? 1 : 0);
#endif

	struct Memory
	{
		uint64_t slots[size]; /* what key_in_slot() takes, sorted; then what points have found */
		union
		{
			uint32_t starts[local_bins + 1]; /* the last one is of what a tile lacks */
			uint32_t numbers[size];          /* of the probes in slots */
		};
		uint16_t aside[Points ? size : 1]; /* slots put aside */
	};
};

/*
 * What is in a tile's slots before they have results: keys, or, as wide keys do not fit, numbers of
 * probes.
 */
template <typename Key>
__device__ __forceinline__ Key
key_in_slot(const Probes<Key> &probes, uint64_t slot)
{
	if constexpr (is_wide<Key>)
		return probes.low[slot];
	else
		return (Key) slot;
}

/* What a thread keeps of a probe while its tile is sorted. */
template <typename Key> struct TileProbe
{
	uint32_t number;
	Key offset;

	__device__ __forceinline__ void take(const Probes<Key> &probes, uint32_t of_probe)
	{
		number = of_probe;
		offset = probes.low[number] - probes.base;
	}
	__device__ __forceinline__ bool is_usual(const Probes<Key> &probes) const
	{
		return probes.is_usual(offset);
	}
	__device__ __forceinline__ uint32_t top(const Probes<Key> &probes) const
	{
		return probes.top_of(offset);
	}
	__device__ __forceinline__ uint64_t slot(const Probes<Key> &probes) const
	{
		return (Key) (offset + probes.base);
	}
};

/*
 * Of a wide key, its top bits.  Unusual keys have all of them set; others that have are taken for
 * unusual.
 */
template <> struct TileProbe<Wide>
{
	uint32_t number;
	uint32_t top_bits;

	__device__ __forceinline__ void take(const Probes<Wide> &probes, uint32_t of_probe)
	{
		Wide offset = probes.low[of_probe] - probes.base;

		number = of_probe;
		top_bits = probes.is_usual(offset) ? probes.top_of(offset) : UINT32_MAX;
	}
	__device__ __forceinline__ bool is_usual(const Probes<Wide> &) const
	{
		return top_bits != UINT32_MAX;
	}
	__device__ __forceinline__ uint32_t top(const Probes<Wide> &) const
	{
		return top_bits;
	}
	__device__ __forceinline__ uint64_t slot(const Probes<Wide> &) const
	{
		return number;
	}
};

/* ----------------------------------------------------------------
 *		Sorting a tile
 * ----------------------------------------------------------------
 */

/* Find the span of the usual ones of a tile's keys.  All threads of the block take part. */
template <int Each, typename Key>
__device__ __forceinline__ Span<Key>
find_tile_span(const Tree<Key> &tree, const Probes<Key> &probes, const TileProbe<Key> (&keys)[Each])
{
	__shared__ uint32_t least[block_warps];
	__shared__ uint32_t greatest[block_warps];
	__shared__ Span<Key> span;
	int lane = (int) threadIdx.x % warp_threads;
	uint32_t low = UINT32_MAX;
	uint32_t high = 0;

#pragma unroll
	for (int j = 0; j < Each; j++)
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
		find_span(tree, probes, low, high, span);
	}
	__syncthreads();
	return span;
}

/*
 * Turn the counts of bins into where these start.  All threads of the block take part, and
 * synchronise before.
 */
__device__ __forceinline__ void
sum_bins(uint32_t *starts, uint32_t size)
{
	using Scan = cub::BlockScan<uint32_t, block_threads>;
	__shared__ typename Scan::TempStorage scan;
	uint32_t bins[thread_bins];

	for (int b = 0; b < thread_bins; b++)
		bins[b] = starts[threadIdx.x * thread_bins + b];
	Scan(scan).ExclusiveSum(bins, bins);
	for (int b = 0; b < thread_bins; b++)
		starts[threadIdx.x * thread_bins + b] = bins[b];
	if (threadIdx.x == 0)
		starts[local_bins] = size;
	__syncthreads();
}

/*
 * Sort the tile's probes by their top bits into memory.slots, with their numbers in
 * memory.numbers.  All threads of the block take part.
 */
template <bool Points, typename Key>
__device__ __forceinline__ Span<Key>
sort_tile(const Tree<Key> &tree, const Probes<Key> &probes, uint32_t start, uint32_t size,
		  typename Tile<Key, Points>::Memory &memory)
{
	constexpr int tile_probes = Tile<Key, Points>::probes;
	TileProbe<Key> keys[tile_probes];
	uint32_t slots[tile_probes];
	const uint32_t first = probes.number(start);

	/*
	 * What the last tiles lack are copies of a probe, in a bin behind the others, so that all tiles
	 * are sorted as full ones are.
	 */
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t i = j * block_threads + threadIdx.x;

		keys[j].take(probes, i < size ? probes.number(start + i) : first);
	}
	for (int b = 0; b < thread_bins; b++)
		memory.starts[b * block_threads + threadIdx.x] = 0;
	if (threadIdx.x == 0)
		memory.starts[local_bins] = 0;

	const Span<Key> span = find_tile_span(tree, probes, keys);

#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t bin =
			j * block_threads + threadIdx.x < size ? span.bin_of(keys[j].top(probes)) : local_bins;

		slots[j] = bin << 16 | atomicAdd(&memory.starts[bin], 1);
	}
	__syncthreads();
	sum_bins(memory.starts, size);
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		slots[j] = memory.starts[slots[j] >> 16] + (slots[j] & 0xFFFF);
		memory.slots[slots[j]] = keys[j].slot(probes);
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < tile_probes; j++)
	{
		if (j * block_threads + threadIdx.x < size)
			memory.numbers[slots[j]] = keys[j].number;
	}
	__syncthreads();
	return span;
}

/* ----------------------------------------------------------------
 *		Points
 * ----------------------------------------------------------------
 */

/*
 * The packed result of a point: one hit with its tid, or several hits with the block of
 * the first one; 0 if there is none.
 */
constexpr uint64_t one_hit = UINT64_C(1) << 63;
constexpr uint64_t several_hits = UINT64_C(1) << 62;

__device__ __forceinline__ uint64_t
pack_found(const Found &found)
{
	return found.count == 0 ? 0 :
		   found.count == 1 ? one_hit | found.first :
							  several_hits | (uint64_t) found.first_block.rank << 8 |
								  (uint64_t) found.first_block.block;
}

__device__ __forceinline__ LeafBlock
unpack_first_block(uint64_t packed)
{
	return {(uint32_t) (packed >> 8), (int) (packed & 0xFF)};
}

/* What a thread has searched, and so writes the hits of. */
struct OwnPoints
{
	uint32_t others; /* bit j: another thread has searched the point in this one's slot j */
	uint32_t asides; /* of all threads; each has taken its share of these slots */
	uint64_t hits;
	bool several; /* a point has several hits */

	/* Note what was found for a point, in its slot. */
	template <typename Key>
	__device__ __forceinline__ void note(const Tree<Key> &tree, const Results &results, Key key,
										 Found &found, uint64_t &slot)
	{
		keep_distinct(tree, results, key, found);
		hits += found.count;
		several |= found.count > 1;
		slot = pack_found(found);
	}
};

/* Write the hits of points with one hit at most.  All threads of the warp take part. */
template <typename Key>
__device__ __forceinline__ void
give_single_hits(const Results &results, uint32_t size, const OwnPoints &own,
				 const typename Tile<Key, true>::Memory &memory)
{
	uint32_t lane = threadIdx.x % warp_threads;
	uint32_t lanes_before = (1u << lane) - 1;
	uint64_t start = reserve_warp_hits(warp_sum((uint32_t) own.hits), results.hits);

	/* "searched" is false if this thread has no such slot. */
	auto give = [&](bool searched, uint32_t slot)
	{
		uint64_t packed = searched ? memory.slots[slot] : 0;
		uint32_t set = __ballot_sync(all_lanes, packed != 0);
		uint64_t at = start + (uint64_t) __popc(set & lanes_before);

		if (packed != 0 && at < results.room)
		{
			results.probes[at] = memory.numbers[slot];
			results.tids[at] = packed & HT_TID_MAX;
		}
		start += (uint64_t) __popc(set);
	};

#pragma unroll
	for (int j = 0; j < Tile<Key, true>::probes; j++)
	{
		uint32_t slot = j * block_threads + threadIdx.x;

		give(slot < size && (own.others >> j & 1) == 0, slot);
	}
#pragma unroll 1
	for (uint32_t i = threadIdx.x; i - lane < own.asides; i += block_threads)
		give(i < own.asides, i < own.asides ? memory.aside[i] : 0);
}

/* The same if there are points with more. */
template <typename Key>
__device__ __forceinline__ void
give_several_hits(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
				  uint32_t size, const OwnPoints &own,
				  const typename Tile<Key, true>::Memory &memory)
{
	constexpr uint32_t own_slots = Tile<Key, true>::probes * block_threads;
	uint64_t warp_hits;
	uint64_t before = sum_before(own.hits, warp_hits);
	uint64_t start = reserve_warp_hits(warp_hits, results.hits) + before;

	/* One loop for both, as find_hits() is long. */
	for (uint32_t i = threadIdx.x; i < own_slots + own.asides; i += block_threads)
	{
		uint32_t slot = i < own_slots ? i : memory.aside[i - own_slots];

		if (i < own_slots && (i >= size || (own.others >> i / block_threads & 1) != 0))
			continue;

		uint64_t packed = memory.slots[slot];
		uint32_t number = memory.numbers[slot];
		auto put = [&](uint64_t, uint64_t tid)
		{
			if (start < results.room)
			{
				results.probes[start] = number;
				results.tids[start] = tid;
			}
			start++;
		};

		if ((packed & several_hits) != 0)
			find_hits(DeviceGroup<1>(), tree, unpack_first_block(packed), probes.low[number], put);
		else if (packed != 0)
			put(0, packed & HT_TID_MAX);
	}
}

/*
 * Search the points of a tile whose leaves are staged, but put those aside that look like a bound.
 * No other thread uses this thread's slots.
 */
template <typename Key>
__device__ __forceinline__ void
search_staged(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			  const Span<Key> &span, const Stage<Key> &stage, uint32_t leaves, uint32_t size,
			  typename Tile<Key, true>::Memory &memory, uint32_t &aside, OwnPoints &own)
{
#pragma unroll 1
	for (uint32_t slot = threadIdx.x; slot < size; slot += block_threads)
	{
		Key key = key_in_slot(probes, memory.slots[slot]);
		auto place = stage.find(span, leaves, key);

		if ((Key) (key - span.low) > span.length || stage.bounds[place.bound] == place.cut)
		{
			memory.aside[atomicAdd(&aside, 1)] = (uint16_t) slot;
			own.others |= 1u << slot / block_threads;
			continue;
		}

		Found found = stage.search(tree, span, place.bound, key);

		own.note(tree, results, key, found, memory.slots[slot]);
	}
}

/* Search for a point that looks like a bound, or is not in the span. */
template <typename Key>
__device__ __forceinline__ Found
search_aside(const Tree<Key> &tree, const Span<Key> &span, const Stage<Key> &stage, uint32_t leaves,
			 Key key)
{
	auto place = stage.find(span, leaves, key);
	uint32_t next = place.bound + 1;
	Found found;
	Found second;

	if ((Key) (key - span.low) > span.length || next % Stage<Key>::stride == 0 ||
		stage.bounds[next] <= place.cut)
		return find_summary_from(DeviceGroup<1>(), tree, span.leaf_of(tree, key), key);

	/* If just one bound is in doubt, the key is in the block before or after it. */
	second = stage.search(tree, span, next, key);
	found = stage.search(tree, span, place.bound, key);
	if (found.count == 0)
		return second;
	found.count += second.count;
	return found;
}

/* Search a tile's points, and write their hits.  All threads of the block take part. */
template <typename Key>
__device__ __forceinline__ void
search_points(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			  const Span<Key> &span, uint32_t size, typename Tile<Key, true>::Memory &memory)
{
	__shared__ Stage<Key> stage;
	__shared__ uint32_t aside;
	uint32_t leaves = span.last_leaf - span.first_leaf + 1;
	bool staged = leaves - 1 < stage.max_leaves; /* damaged nodes: leaves can be 0 */
	OwnPoints own = {};

	if (threadIdx.x == 0)
		aside = 0;
	if (staged)
	{
		stage.fill(tree, span);
		__syncthreads();
		stage.divide(span, leaves);
	}
	__syncthreads();
	if (staged)
	{
		search_staged(tree, probes, results, span, stage, leaves, size, memory, aside, own);
		__syncthreads();
		own.asides = aside;
	}
#pragma unroll 1
	for (uint32_t i = threadIdx.x; i < (staged ? own.asides : size); i += block_threads)
	{
		uint32_t slot = staged ? memory.aside[i] : i;
		Key key = key_in_slot(probes, memory.slots[slot]);
		Found found = staged ?
						  search_aside(tree, span, stage, leaves, key) :
						  find_summary_from(DeviceGroup<1>(), tree, span.leaf_of(tree, key), key);

		own.note(tree, results, key, found, memory.slots[slot]);
	}

	/* Warps do not wait for each other. */
	if (!__any_sync(all_lanes, own.several))
		give_single_hits<Key>(results, size, own, memory);
	else
		give_several_hits(tree, probes, results, size, own, memory);
}

/* ----------------------------------------------------------------
 *		Ranges
 * ----------------------------------------------------------------
 */

/*
 * Search a tile's ranges, and write their hits.  All threads of the block take part.  "stage" is in
 * shared memory; NULL: there is none.
 */
template <typename Key>
__device__ __forceinline__ void
search_ranges(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			  const Span<Key> &span, uint32_t size, typename Tile<Key, false>::Memory &memory,
			  RangeStage<Key> *stage)
{
	DeviceGroup<1> group;
	uint32_t leaves = span.last_leaf - span.first_leaf + 1;
	bool staged =
		stage != nullptr && leaves - 1 < stage->max_leaves; /* damaged nodes: leaves can be 0 */
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
		uint32_t slot = first + threadIdx.x;
		uint32_t number = 0;
		Key low = 0;
		Key high = 0;
		PlaceSpan places = {};

		if (slot < size)
		{
			number = memory.numbers[slot];
			low = (Key) memory.slots[slot];
			high = probes.high[number];
			if (!staged || !stage->find(tree, span, leaves, low, high, places))
				places = find_places_from(group, tree, span.leaf_of(tree, low), low, high);
		}
		give_ranges(group, tree, leaf_of, results, places, low, high, number);
	}
}

/*
 * "range_tile" is the number of probes in a tile of ranges; that of points is known.  "range_stage"
 * says whether the dynamic shared memory has a RangeStage behind the tile's memory.
 */
template <typename Key, bool Points>
__global__ void
__launch_bounds__(block_threads, (Tile<Key, Points>::blocks))
	search_tile_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key> probes,
					   const Results results, uint32_t range_tile, bool range_stage)
{
	const uint32_t tile = Points ? Tile<Key, Points>::size : range_tile;
	using Memory = typename Tile<Key, Points>::Memory;
	extern __shared__ __align__(16) char shared[];
	Memory &memory = *(Memory *) shared;
	uint32_t start = blockIdx.x * tile;
	uint32_t size = min(tile, probes.count - start);
	const Span<Key> span = sort_tile<Points>(tree, probes, start, size, memory);

	if constexpr (Points)
		search_points(tree, probes, results, span, size, memory);
	else
	{
		using Stage = RangeStage<Key>;
		static_assert(alignof(Stage) <= alignof(Memory), "it can follow");

		search_ranges(tree, probes, results, span, size, memory,
					  range_stage ? (Stage *) (&memory + 1) : nullptr);
	}
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GPU_TILE_CUH */
