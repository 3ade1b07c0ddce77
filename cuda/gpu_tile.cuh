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
template <int Words>
struct TileProbe<Wide<Words>>
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

/* A tile's span is divided into equal parts; see Stage. */
constexpr int part_number_bits = 8;
constexpr uint32_t span_parts = 1 << part_number_bits;
static_assert(span_parts == block_threads, "each thread finds the first bound of one");

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
	int			part_bits;		/* low bits of a cut key that do not tell its part of the span */

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
 * find_leaf() by a whole warp, which reads two keys a thread at once: a node of 64 keys is one step.
 */
template <typename Key>
__device__ __forceinline__ uint32_t
find_leaf_together(const Tree<Key> &tree, Key key)
{
	int			lane = (int) threadIdx.x % warp_threads;
	uint32_t	number = 0;

	for (int level = 0; level < tree.levels; level++)
	{
		const Key  *node = tree.keys + (size_t) (tree.level_start[level] + number) * (size_t) tree.fanout;
		uint32_t	child = 0;

		for (int first = 0; first < tree.fanout - 1; first += 2 * warp_threads)
		{
			int			i = first + lane;
			int			j = i + warp_threads;
			bool		one = i < tree.fanout - 1 && node[i] < key;
			bool		other = j < tree.fanout - 1 && node[j] < key;

			child += (uint32_t) (__popc(__ballot_sync(all_lanes, one)) + __popc(__ballot_sync(all_lanes, other)));
		}
		number = number * (uint32_t) tree.fanout + child;
	}
	return number < tree.leaves ? number : tree.leaves - 1;
}

/*
 * Find the span of keys with top bits from "top" to "top_last".  The first two warps of a block do so, each for one end
 * of it; "span" is in shared memory, and known to the block once it has synchronised.
 */
template <typename Key, typename Low>
__device__ __forceinline__ void
find_span(const Tree<Key> &tree, const Probes<Key, Low> &probes, uint32_t top, uint32_t top_last, Span<Key> &span)
{
	bool		finds_first = threadIdx.x < warp_threads;
	Key			low = probes.of_top(top) + probes.base;
	Key			high = probes.of_top(top_last) + (Key) (((Key) 1 << probes.top_shift) - (Key) 1) + probes.base;
	uint32_t	leaf;

	if (top > top_last || low > high)
	{
		/* There are no such keys, or they wrap around: take all keys. */
		low = 0;
		high = KeyLimits<Key>::max();
	}
	leaf = find_leaf_together(tree, finds_first ? low : high);
	if (threadIdx.x == 0)
	{
		span.low = low;
		span.length = high - low;
		span.cut_bits = max(bit_length((Key) (high - low)) - 32, 0);
		span.part_bits = max(min(bit_length((Key) (high - low)), 32) - part_number_bits, 0);
		span.top = top;
		span.shift = max(32 - __clz((int) (top_last - top)) - local_bits, probes.min_shift);
		span.first_leaf = leaf;
	}
	else if (threadIdx.x == warp_threads)
		span.last_leaf = leaf;
}

/*
 * How keys are cut to 32 bits in a leaf of wide keys: their distance from its base, less the low bits that
 * have no room if its greatest key is to have some.  (In a span of several tenants the highest 32 bits
 * tell the tenant, and no more.)
 */
template <typename Key>
struct LeafCut
{
	Key			after;			/* the next leaf's low bound */
	Key			base;
	int			bits;			/* that are cut */

	__device__ __forceinline__ void set(const Shape<Key> &shape, Key high)
	{
		int			reach = shape.bits <= 32 ? shape.bits : 8 * (shape.bits - HT_WIDE_CLASS(0));

		after = high;
		base = shape.base;
		bits = max(min(high > base ? bit_length(high - base) : 0, reach) - 32, 0);
	}
	__device__ __forceinline__ uint32_t of(Key key) const
	{
		Key			distance = key > base ? (key - base) >> bits : Key(0);

		return distance < Key(UINT32_MAX) ? (uint32_t) distance : UINT32_MAX;
	}
};

__device__ __forceinline__ void
prefetch(const char *at)
{
	asm volatile("prefetch.global.L2 [%0];" : : "l" (at));
}

/*
 * The blocks of neighbouring leaves, and their bounds, cut to 32 bits: as keys in the span are, or, if they
 * are wide, as in the leaf.  So two keys that look equal may differ, but the order of two that look
 * different is right.
 */
template <typename Key>
struct Stage
{
	static constexpr uint32_t max_leaves = 16;
	static constexpr uint32_t stride = 64;	/* of a leaf */
	static_assert(HT_LEAF_MAX_BLOCKS <= stride && HT_WIDE_MAX_BLOCKS <= stride, "a bound for each block");

	uint32_t	bounds[max_leaves * stride];
	Shape<Key>	shapes[max_leaves];
	uint32_t	blocks[max_leaves];
	LeafCut<Key> cuts[is_wide<Key> ? max_leaves : 1];

	/* The first bound that is not below each part of the span; and the last bound.  Wide keys have none. */
	uint16_t	firsts[is_wide<Key> ? 1 : span_parts + 1];

	/* A key, and the first bound that is not below it. */
	struct Place
	{
		uint32_t	bound;
		uint32_t	cut;		/* the key */
	};

	/*
	 * Fill the stage, and have the leaves' blocks brought to the second-level cache, as nearly all of them will be searched.
	 * All threads of the block take part, and synchronise afterwards.
	 */
	__device__ __forceinline__ void fill(const Tree<Key> &tree, const Span<Key> &span)
	{
		uint32_t	leaves = span.last_leaf - span.first_leaf + 1;

		for (uint32_t i = threadIdx.x; i < leaves * stride; i += block_threads)
		{
			uint32_t	rank = span.first_leaf + i / stride;
			uint32_t	block = tree.blocks[rank];
			const char *page = tree.pages + (size_t) block * HT_PAGE_SIZE;
			Shape<Key>	shape = read_shape<Key>(page);
			Key			after = rank + 1 < tree.leaves ? leaf_bounds(tree)[rank] : KeyLimits<Key>::max();
			Key			bound = block_bound(page, shape, (int) (i % stride), after);

			prefetch(block_start(page, shape, (int) (i % stride)));
			if constexpr (is_wide<Key>)
			{
				LeafCut<Key> cut;

				cut.set(shape, after);
				bounds[i] = cut.of(bound);
				if (i % stride == 0)
					cuts[i / stride] = cut;
			}
			else
			{
				/* A leaf without entries can have a base far below its low bound.  Bounds of all leaves together ascend. */
				Key			before = rank > 0 ? leaf_bounds(tree)[rank - 1] : Key(0);

				bound = bound < before ? before : bound;
				bounds[i] = bound < span.low ? 0 : (Key) (bound - span.low) > span.length ? UINT32_MAX : span.cut(bound);
			}
			if (i % stride == 0)
			{
				shapes[i / stride] = shape;
				blocks[i / stride] = block;
			}
		}
	}

	/*
	 * Once the stage has been filled, note where each part of the span begins.  All threads of the block take part, and
	 * synchronise afterwards.
	 */
	__device__ __forceinline__ void divide(const Span<Key> &span, uint32_t leaves)
	{
		if constexpr (!is_wide<Key>)
		{
			firsts[threadIdx.x] = (uint16_t) first_bound(0, leaves * stride - 1, threadIdx.x << span.part_bits);
			if (threadIdx.x == 0)
				firsts[span_parts] = (uint16_t) (leaves * stride - 1);
		}
	}

	/* The first bound in low..high that is not below a cut key, or "high". */
	__device__ __forceinline__ uint32_t first_bound(uint32_t low, uint32_t high, uint32_t cut) const
	{
		while (low < high)
		{
			uint32_t	middle = (low + high) / 2;
			bool		below = bounds[middle] < cut;

			low = below ? middle + 1 : low;
			high = below ? high : middle;
		}
		return low;
	}

	/* The place of a key in the span; some place if it is not in it. */
	__device__ __forceinline__ Place find(const Span<Key> &span, uint32_t leaves, Key key) const
	{
		if constexpr (is_wide<Key>)
		{
			uint32_t	leaf = 0;
			uint32_t	left = leaves - 1;
			uint32_t	cut;

			while (left > 0)
			{
				uint32_t	step = (left + 1) / 2;

				leaf += cuts[leaf + step - 1].after < key ? step : 0;
				left -= step;
			}
			cut = cuts[leaf].of(key);
			return {leaf * stride + (uint32_t) find_child<(int) stride>(DeviceGroup<1>(), bounds + leaf * stride, (int) stride, cut), cut};
		}
		else
		{
			uint32_t	cut = span.cut(key);
			uint32_t	part = min(cut >> span.part_bits, span_parts - 1);

			return {first_bound(firsts[part], firsts[part + 1], cut), cut};
		}
	}

	/* Summarise the hits of a key in one block, which is given by its bound. */
	__device__ __forceinline__ Found search(const Tree<Key> &tree, const Span<Key> &span, uint32_t bound, Key key) const
	{
		uint32_t	leaf = bound / stride;

		return find_in_block(tree.pages + (size_t) blocks[leaf] * HT_PAGE_SIZE, shapes[leaf], LeafBlock{span.first_leaf + leaf, (int) (bound % stride)}, key);
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
	warp_bounds(low, high);
	if (lane == 0)
	{
		least[threadIdx.x / warp_threads] = low;
		greatest[threadIdx.x / warp_threads] = high;
	}
	__syncthreads();
	if (threadIdx.x < 2 * warp_threads)
	{
		low = least[lane % block_warps];
		high = greatest[lane % block_warps];
		warp_bounds(low, high);
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

/* Write the hits of points.  "own" is the number of hits in this thread's slots. */
template <typename Key, typename Low>
__device__ __forceinline__ void
give_tile_pairs(const Tree<Key> &tree, const Probes<Key, Low> &probes, const Results &results, uint32_t size,
				uint64_t own, bool several, const typename Tile<Key, true, true>::Memory &memory)
{
	constexpr int tile_probes = Tile<Key, true, true>::probes;
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
__launch_bounds__(block_threads, (Tile<Key, Points, Pairs>::blocks))
search_tile_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key, Low> probes, const Results results,
				   uint32_t range_tile)
{
	const uint32_t tile = !Points && Pairs ? range_tile : Tile<Key, Points, Pairs>::size;
	using Memory = typename Tile<Key, Points, Pairs>::Memory;
	extern __shared__ __align__(16) char shared[];
	Memory	   &memory = *(Memory *) shared;
	DeviceGroup<1> group;
	const TileRange own_tile = probes.binned.tiles != nullptr ? probes.binned.tiles[blockIdx.x] :
		TileRange{blockIdx.x * tile, min(tile, probes.count - blockIdx.x * tile)};
	uint32_t	start = own_tile.start;
	uint32_t	size = own_tile.size;

	if (size == 0)
		return;

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
				continue;
			}

			Found		found = stage.search(tree, span, place.bound, key);

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
