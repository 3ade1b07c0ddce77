/*
 * gpu_stage.cuh
 *		Where a tile's keys can be: its span, and the bounds of the blocks there in shared memory.
 */
#ifndef HARMONIA_CUDA_GPU_STAGE_CUH
#define HARMONIA_CUDA_GPU_STAGE_CUH

#include "gpu_group.cuh"
#include "gpu_kernels.h"
#include "ranges.h"

namespace harmonia
{

/* A tile is sorted by local_bits bits. */
constexpr int local_bits = 10;
constexpr uint32_t local_bins = 1 << local_bits;

/* A tile's span is divided into equal parts; see Stage. */
constexpr int part_number_bits = 8;
constexpr uint32_t span_parts = 1 << part_number_bits;
static_assert(span_parts == block_threads, "each thread finds the first bound of one");

/* The common range of a tile's keys, apart from keys outside the range in use. */
template <typename Key> struct Span
{
	Key low;
	Key length;   /* high - low */
	uint32_t top; /* lowest top bits in the tile */
	int shift;    /* low ones of the top bits that keys are not sorted by */
	uint32_t first_leaf;
	uint32_t last_leaf;
	int cut_bits;  /* low bits that do not fit into 32 bits */
	int part_bits; /* low bits of a cut key that do not tell its part of the span */

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
 * find_leaf() by a whole warp, which reads two keys a thread at once: a node of 64 keys is one
 * step.
 */
template <typename Key>
__device__ __forceinline__ uint32_t
find_leaf_together(const Tree<Key> &tree, Key key)
{
	int lane = (int) threadIdx.x % warp_threads;
	uint32_t number = 0;

	for (int level = 0; level < tree.levels; level++)
	{
		const Key *node =
			tree.keys + (size_t) (tree.level_start[level] + number) * (size_t) tree.fanout;
		uint32_t child = 0;

		for (int first = 0; first < tree.fanout - 1; first += 2 * warp_threads)
		{
			int i = first + lane;
			int j = i + warp_threads;
			bool one = i < tree.fanout - 1 && node[i] < key;
			bool other = j < tree.fanout - 1 && node[j] < key;

			child += (uint32_t) (__popc(__ballot_sync(all_lanes, one)) +
								 __popc(__ballot_sync(all_lanes, other)));
		}
		number = number * (uint32_t) tree.fanout + child;
	}
	return number < tree.leaves ? number : tree.leaves - 1;
}

/*
 * Find the span of keys with top bits from "top" to "top_last".  The first two warps of a block do
 * so, each for one end of it; "span" is in shared memory, and known to the block once it has
 * synchronised.
 */
template <typename Key>
__device__ __forceinline__ void
find_span(const Tree<Key> &tree, const Probes<Key> &probes, uint32_t top, uint32_t top_last,
		  Span<Key> &span)
{
	bool finds_first = threadIdx.x < warp_threads;
	Key low = probes.of_top(top) + probes.base;
	Key high =
		probes.of_top(top_last) + (Key) (((Key) 1 << probes.top_shift) - (Key) 1) + probes.base;
	uint32_t leaf;

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
 * How keys are cut to 32 bits in a leaf of wide keys: their distance from its base, less the low
 * bits that have no room if its greatest key is to have some.  (In a span of several tenants the
 * highest 32 bits tell the tenant, and no more.)
 */
template <typename Key> struct LeafCut
{
	Key after; /* the next leaf's low bound */
	Key base;
	int bits; /* that are cut */

	__device__ __forceinline__ void set(const Shape<Key> &shape, Key high)
	{
		int reach = shape.bits <= 32 ? shape.bits : 8 * (shape.bits - HT_WIDE_CLASS(0));

		after = high;
		base = shape.base;
		bits = max(min(high > base ? bit_length(high - base) : 0, reach) - 32, 0);
	}
	__device__ __forceinline__ uint32_t of(Key key) const
	{
		Key distance = key > base ? (key - base) >> bits : Key(0);

		return distance < Key(UINT32_MAX) ? (uint32_t) distance : UINT32_MAX;
	}
};

/* The leaves of a span, if they are few. */
template <typename Key> struct StagedLeaves
{
	static constexpr uint32_t max_leaves = 16;
	static constexpr uint32_t stride = leaf_places; /* bounds of a leaf */

	Shape<Key> shapes[max_leaves];
	uint32_t blocks[max_leaves];

	struct Bound
	{
		Key bound;
		Key after; /* the next leaf's low bound */
		Shape<Key> shape;
	};

	/*
	 * Read bound i of those of all leaves, and have the block brought to the second-level cache, as
	 * nearly all of them will be searched.  Notes the leaf with its first bound.
	 */
	__device__ __forceinline__ Bound take(const Tree<Key> &tree, const Span<Key> &span, uint32_t i)
	{
		uint32_t rank = span.first_leaf + i / stride;
		LeafPage<Key> leaf = read_leaf(tree, rank);
		Key after = rank + 1 < tree.leaves ? leaf_bounds(tree)[rank] : KeyLimits<Key>::max();
		Key bound = block_bound(leaf.page, leaf.shape, (int) (i % stride), after);

		prefetch(block_start(leaf.page, leaf.shape, (int) (i % stride)));
		if constexpr (!is_wide<Key>)
		{
			/*
			 * A leaf without entries can have a base far below its low bound.  Bounds of all leaves
			 * together ascend.
			 */
			Key before = rank > 0 ? leaf_bounds(tree)[rank - 1] : Key(0);

			bound = bound < before ? before : bound;
		}
		if (i % stride == 0)
		{
			shapes[i / stride] = leaf.shape;
			blocks[i / stride] = tree.blocks[rank];
		}
		return {bound, after, leaf.shape};
	}

	__device__ __forceinline__ LeafPage<Key> leaf(const Tree<Key> &tree, uint32_t i) const
	{
		return {tree.pages + (size_t) blocks[i] * HT_PAGE_SIZE, shapes[i]};
	}
};

/* The first of ascending bounds, in low..high, that is not below a key; or "high". */
template <typename Bound>
__device__ __forceinline__ uint32_t
first_bound(const Bound *bounds, uint32_t low, uint32_t high, Bound key)
{
	while (low < high)
	{
		uint32_t middle = (low + high) / 2;
		bool below = bounds[middle] < key;

		low = below ? middle + 1 : low;
		high = below ? high : middle;
	}
	return low;
}

/*
 * For points: the bounds of the leaves' blocks, cut to 32 bits: as keys in the span are, or, if
 * they are wide, as in the leaf.  So two keys that look equal may differ, but the order of two that
 * look different is right.
 */
template <typename Key> struct Stage : StagedLeaves<Key>
{
	using StagedLeaves<Key>::max_leaves;
	using StagedLeaves<Key>::stride;

	uint32_t bounds[max_leaves * stride];
	LeafCut<Key> cuts[is_wide<Key> ? max_leaves : 1];

	/*
	 * The first bound that is not below each part of the span; and the last bound.  Wide keys have
	 * none.
	 */
	uint16_t firsts[is_wide<Key> ? 1 : span_parts + 1];

	/* A key, and the first bound that is not below it. */
	struct Place
	{
		uint32_t bound;
		uint32_t cut; /* the key */
	};

	/* Fill the stage.  All threads of the block take part, and synchronise afterwards. */
	__device__ __forceinline__ void fill(const Tree<Key> &tree, const Span<Key> &span)
	{
		uint32_t leaves = span.last_leaf - span.first_leaf + 1;

		for (uint32_t i = threadIdx.x; i < leaves * stride; i += block_threads)
		{
			auto taken = this->take(tree, span, i);

			if constexpr (is_wide<Key>)
			{
				LeafCut<Key> cut;

				cut.set(taken.shape, taken.after);
				bounds[i] = cut.of(taken.bound);
				if (i % stride == 0)
					cuts[i / stride] = cut;
			}
			else
				bounds[i] = taken.bound < span.low                       ? 0 :
							(Key) (taken.bound - span.low) > span.length ? UINT32_MAX :
																		   span.cut(taken.bound);
		}
	}

	/*
	 * Once the stage has been filled, note where each part of the span begins.  All threads of the
	 * block take part, and synchronise afterwards.
	 */
	__device__ __forceinline__ void divide(const Span<Key> &span, uint32_t leaves)
	{
		if constexpr (!is_wide<Key>)
		{
			firsts[threadIdx.x] = (uint16_t) first_bound(bounds, 0, leaves * stride - 1,
														 threadIdx.x << span.part_bits);
			if (threadIdx.x == 0)
				firsts[span_parts] = (uint16_t) (leaves * stride - 1);
		}
	}

	/* The place of a key in the span; some place if it is not in it. */
	__device__ __forceinline__ Place find(const Span<Key> &span, uint32_t leaves, Key key) const
	{
		if constexpr (is_wide<Key>)
		{
			uint32_t leaf = 0;
			uint32_t left = leaves - 1;
			uint32_t cut;

			while (left > 0)
			{
				uint32_t step = (left + 1) / 2;

				leaf += cuts[leaf + step - 1].after < key ? step : 0;
				left -= step;
			}
			cut = cuts[leaf].of(key);
			return {leaf * stride + (uint32_t) find_child<(int) stride>(DeviceGroup<1>(),
																		bounds + leaf * stride,
																		(int) stride, cut),
					cut};
		}
		else
		{
			uint32_t cut = span.cut(key);
			uint32_t part = min(cut >> span.part_bits, span_parts - 1);

			return {first_bound(bounds, firsts[part], firsts[part + 1], cut), cut};
		}
	}

	/* Summarise the hits of a key in one block, which is given by its bound. */
	__device__ __forceinline__ Found search(const Tree<Key> &tree, const Span<Key> &span,
											uint32_t bound, Key key) const
	{
		LeafPage<Key> leaf = this->leaf(tree, bound / stride);

		return find_in_block(leaf.page, leaf.shape,
							 LeafBlock{span.first_leaf + bound / stride, (int) (bound % stride)},
							 key);
	}
};

/*
 * For ranges: the bounds as they are, so that nothing is in doubt.  Bound i is that of place i of
 * the leaves.
 */
template <typename Key> struct RangeStage : StagedLeaves<Key>
{
	using StagedLeaves<Key>::max_leaves;
	using StagedLeaves<Key>::stride;

	Key bounds[max_leaves * stride];
	uint16_t firsts[span_parts + 1]; /* as in Stage */

	/* As those of Stage. */
	__device__ __forceinline__ void fill(const Tree<Key> &tree, const Span<Key> &span)
	{
		uint32_t leaves = span.last_leaf - span.first_leaf + 1;

		for (uint32_t i = threadIdx.x; i < leaves * stride; i += block_threads)
			bounds[i] = this->take(tree, span, i).bound;
	}
	__device__ __forceinline__ void divide(const Span<Key> &span, uint32_t leaves)
	{
		Key distance = (Key) threadIdx.x << (span.part_bits + span.cut_bits);
		uint32_t last = leaves * stride - 1;

		firsts[threadIdx.x] =
			(uint16_t) (distance > span.length ?
							last :
							first_bound(bounds, 0, last, (Key) (span.low + distance)));
		if (threadIdx.x == 0)
			firsts[span_parts] = (uint16_t) last;
	}

	/*
	 * Find the places of a range.  Returns false if they are not all here.  Its entries are behind
	 * the bounds that are below its low key, and not behind the first one that is above its high
	 * key.
	 */
	__device__ __forceinline__ bool find(const Tree<Key> &tree, const Span<Key> &span,
										 uint32_t leaves, Key low, Key high,
										 PlaceSpan &places) const
	{
		uint32_t part = min(span.cut(low) >> span.part_bits, span_parts - 1);
		uint32_t end = leaves * stride;
		uint32_t first;
		uint32_t at;
		uint32_t step = 1;

		if ((Key) (low - span.low) > span.length || low > high)
			return false;
		first = first_bound(bounds, firsts[part], firsts[part + 1], low);

		/* Most ranges are short. */
		for (at = first; at + step <= end && bounds[at + step - 1] <= high; step *= 2)
			at += step;
		if (high == KeyLimits<Key>::max())
			at = end;
		else
			at = first_bound(bounds, at, min(at + step - 1, end), (Key) (high + 1));
		if (at == end && span.last_leaf + 1 < tree.leaves)
			return false;
		places.first = span.first_leaf * stride + first;
		places.count = min(at, end - 1) + 1 - first;
		return true;
	}
};

/* Reads leaves, those that are staged from there. */
template <typename Key> struct LeavesWithStage
{
	const Tree<Key> &tree;
	const StagedLeaves<Key> &stage;
	uint32_t first;  /* rank of the first staged one */
	uint32_t leaves; /* staged */

	__device__ __forceinline__ LeafPage<Key> operator()(uint32_t rank) const
	{
		return rank - first < leaves ? stage.leaf(tree, rank - first) : read_leaf(tree, rank);
	}
};

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GPU_STAGE_CUH */
