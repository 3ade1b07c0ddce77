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

/*
 * Probes are radix partitioned by digits of at most digit_bits bits, in at most two
 * passes.
 */
constexpr int digit_bits = 8;
constexpr uint32_t digit_bins = 1 << digit_bits;
constexpr int passes_max = 2;

template <typename Key>
struct Digit
{
	int			first_bit;
	int			bits;

	HD_BOTH uint32_t operator()(Key key) const	/* key - base */
	{
		return (uint32_t) (key >> first_bit) & ((1u << bits) - 1);
	}
};

/* The digits of a sort, the lowest one first. */
template <typename Key>
struct Digits
{
	int			passes;
	Digit<Key>	digit[passes_max];
};

/*
 * Sorts move the distance of keys from a base.  Low, its type, is that of the keys or, if that
 * suffices for the range in use, narrower.  Keys that are farther from the base are outliers then:
 * all have the greatest distance, and are searched on their own.
 */
template <typename Low, typename Key>
HD_BOTH Low
offset_of(Key key, Key base)
{
	Key			offset = key - base;

	if constexpr (sizeof(Low) < sizeof(Key))
		return offset < (Low) -1 ? (Low) offset : (Low) -1;
	else
		return offset;
}

template <typename Key, typename Low>
HD_BOTH bool
is_outlier(Low offset)
{
	if constexpr (sizeof(Low) < sizeof(Key))
		return offset == (Low) -1;
	else
		return false;
}

/* Numbers of outliers. */
struct Outliers
{
	uint32_t   *numbers;		/* room for all probes */
	uint32_t   *count;			/* zero at the start */
};

/*
 * Where a pass writes the probes with each digit: from "start" on, as far as "limit".  The next ones go to
 * "next".  If digits were counted, a bin gets just as many as it has room for.  If they were estimated, it
 * can stay empty in part, or get more: an overflow.
 */
struct Bins
{
	uint32_t	start[digit_bins];
	uint32_t	next[digit_bins];
	uint32_t	limit[digit_bins];
};

/* What a batch reports to the host. */
struct BatchWords
{
	unsigned long long hits;	/* HD_PAIRS: their number; short tids: not zero if one does not fit */
	uint32_t	overflow;		/* not zero: there was one */
	uint32_t	unused;
};

/* Probes side by side that a block takes.  The size can be 0. */
struct TileRange
{
	uint32_t	start;
	uint32_t	size;
};

/*
 * Blocks have their number for a tile, and run nearly in order.  So each one has memory bring what a later one
 * will read to the second-level cache.  "later_tiles" is how many tiles further on that is: on an H200
 * half a tile for each multiprocessor, of the two to five that run at once, was the fastest.
 */
extern uint32_t later_tiles();

/* The tile of a block; "tiles" NULL: they lie side by side.  No block has those behind the last one. */
static __device__ __forceinline__ TileRange
tile_of_block(const TileRange *tiles, uint32_t count, uint32_t tile, uint32_t block)
{
	if (block >= gridDim.x)
		return {0, 0};
	if (tiles != nullptr)
		return tiles[block];
	return {block * tile, min(tile, count - block * tile)};
}

/* Have a line brought to the second-level cache. */
static __device__ __forceinline__ void
prefetch(const void *at)
{
	asm volatile("prefetch.global.L2 [%0];" : : "l" (at));
}

/* The same with items side by side, at most "each" for every thread of the block.  All take part. */
template <uint32_t threads, uint32_t each, typename Item>
static __device__ __forceinline__ void
prefetch_items(const Item *items, uint32_t count)
{
	constexpr uint32_t line_items = HD_LINE_SIZE / sizeof(Item);

#pragma unroll
	for (uint32_t first = 0; first < threads * each; first += threads * line_items)
	{
		uint32_t	i = first + threadIdx.x * line_items;

		if (i < count)
			prefetch(items + i);
	}
}

/*
 * Bins that can stay empty in part, and memory for the tiles that they are divided into.  If "bins" is NULL, probes
 * lie side by side, and tiles need not be listed.
 */
struct Binned
{
	const Bins *bins;
	const uint32_t *overflow;
	TileRange  *tiles;			/* room for listed_tiles() */
};

/* The probes of a tile that have the same digit. */
struct Run
{
	uint32_t	start;			/* in the tile, once it is in order */
	uint32_t	move;			/* add this to get the position in the output */
};

/* Output of a radix partition pass; NULL: not wanted. */
template <typename Key>
struct RadixPartition
{
	Key		   *low;			/* offset_of() keys */
	uint32_t   *numbers;		/* of the probes */
	uint16_t   *slots;			/* for the way back: each probe's slot in its tile */
	Run		   *runs;			/* for the way back: digit_bins runs for each tile */
};

/* Probes on the device. */
template <typename Key, typename Low = Key>
struct Probes
{
	const Low  *low;			/* offset_of() keys, in search order */
	const uint32_t *numbers;	/* probe numbers in search order; NULL: probes are in
								 * their original order */
	const Key  *all_low;		/* in probe order */
	const Key  *all_high;		/* likewise; NULL: points */
	uint32_t	count;
	Key			base;
	Binned		binned;			/* where they are, if not side by side */

	/* Of offsets: the bits that are the same all over the range in use. */
	Low			prefix;
	Low			prefix_mask;

	/*
	 * The top bits are the 32 highest bits of the others.  top_shift is the number of
	 * bits below them, min_shift the number of low ones among them that tiles are not
	 * sorted by.
	 */
	int			top_shift;
	int			min_shift;

	HD_BOTH bool is_usual(Low offset) const
	{
		return ((offset ^ prefix) & prefix_mask) == Low(0) && !is_outlier<Key>(offset);
	}
	HD_BOTH uint32_t top_of(Low offset) const
	{
		return (uint32_t) (offset >> top_shift);
	}
	HD_BOTH Low of_top(uint32_t top) const
	{
		return (prefix & prefix_mask) | ((Low) ((Low) top << top_shift) & (Low) ~prefix_mask);
	}
};

/*
 * Where results go on the device.  Pairs are written one after the other, in any order;
 * other results are in search order.
 */
struct Results
{
	HdOutput	output;
	uint32_t   *probes;
	uint64_t   *tids;
	uint32_t   *short_tids;		/* HD_FIRST: instead of tids, if not NULL */
	uint64_t   *slots;			/* HD_PAIRS of ranges: of hits, see pack_slot(); NULL: not wanted */
	uint32_t   *counts;
	uint64_t	room;
	unsigned long long *hits;	/* BatchWords.hits; zero at the start */
	uint32_t   *seen;			/* distinct points: a bit for each slot of all
								 * leaves, zero at the start; otherwise NULL */
};

/*
 * Where a hit's entry is: its block, in lines from the first page on, and the slot there.  Keys of hits
 * are read after the search, by these: kernels that write pairs need no registers for keys, and
 * need not know how wide they are.
 */
constexpr int slot_bits = 5;

static_assert(HT_LEAF_MAX_SLOTS <= 1 << slot_bits, "a slot has as many bits");

HD_BOTH uint64_t
pack_slot(uint64_t line, uint32_t slot)
{
	return line << slot_bits | slot;
}

/* A tid in 32 bits, as leaves with tids of 4 bytes have it. */
HD_BOTH bool
fits_short_tid(uint64_t tid)
{
	return tid >> 39 == 0 && (tid & 0xFFFF) <= 511;
}

HD_BOTH uint32_t
to_short_tid(uint64_t tid)
{
	return (uint32_t) (tid >> 16 << 9 | (tid & 511));
}

HD_BOTH uint64_t
from_short_tid(uint32_t tid)
{
	return (uint64_t) (tid >> 9) << 16 | (tid & 511);
}

/*
 * gpu_search_32.cu, gpu_search_64.cu, gpu_search_narrow.cu, gpu_search_wide.cu
 *
 * Search.  Probes that are near each other in search order are searched in tiles, if by single
 * threads.  If the order is not the original one, probes have numbers if the output is pairs or
 * they are ranges.
 */
template <typename Key>
extern cudaError_t launch_search(const HtGroupChoice &group, bool tiled, const Tree<Key> &tree,
								 const Probes<Key> &probes, const Results &results,
								 cudaStream_t stream);

/*
 * Search partitioned points with narrow offsets, except outliers, each with a single thread; and
 * search the outliers.  The results of the latter are written in probe order, so results in search
 * order must be back in probe order before.
 */
extern cudaError_t launch_narrow_search(const Tree<uint64_t> &tree, const Probes<uint64_t, uint32_t> &probes,
										const Results &results, cudaStream_t stream);
extern cudaError_t launch_outlier_search(const Tree<uint64_t> &tree, const uint64_t *low,
										 const Outliers &outliers, const Results &results,
										 cudaStream_t stream);

/* gpu_sort.cu */

/*
 * Look at samples of probes: set *near_windows, in pinned memory, to the number of windows, of
 * sample_windows, whose probes are all near each other.  A window is window_probes probes; they
 * are near if their keys are no farther than "distance" from that of the first one.  Keys outside
 * of least..greatest count as these.
 */
constexpr uint32_t sample_windows = 64;
constexpr uint32_t window_probes = 2048;

template <typename Key>
extern cudaError_t launch_sample(const Key *low, uint32_t count, Key least, Key greatest, Key distance,
								 uint32_t *near_windows, cudaStream_t stream);

/*
 * Set the bins of each pass.  With "sampled" only one probe of sample_pitch is looked at, and bins get room for six
 * standard deviations more than that suggests; then they end before positions(count, true).
 */
constexpr uint32_t sample_pitch = 32;

template <typename Key, typename Low>
extern cudaError_t launch_count(const Key *low, uint32_t count, Key base, const Digits<Low> &digits,
								bool sampled, Bins *bins, cudaStream_t stream);

extern uint32_t positions(uint32_t count, bool sampled);

/*
 * List the tiles of up to "tile" probes that the bins after a pass are divided into; after an overflow, none.  Tiles that are
 * not needed get the size 0.
 */
extern cudaError_t launch_list(const Binned &binned, uint32_t count, uint32_t tile, cudaStream_t stream);

/* The number of tiles that can be needed. */
HD_BOTH uint32_t
listed_tiles(uint32_t count, uint32_t tile)
{
	return count / tile + digit_bins;
}

/*
 * The probes that each thread of a radix partition pass takes: as many as fit into 48 KB of
 * shared memory.
 */
template <typename Key>
constexpr int pass_probes = sizeof(Key) <= 8 ? 8 : 4;

/* The number of probes in a tile of a pass. */
template <typename Low>
extern uint32_t pass_tile();

/*
 * Radix partition probes by a digit of their offsets from a base, into bins.  If numbers is NULL, probes are numbered from
 * 0.  Outliers are noted if there can be any.  Probes that a bin has no room for are written behind positions(count, true), where
 * there is room for a tile, and *overflow is set; NULL: there is room for all.
 */
template <typename Key, typename Low>
extern cudaError_t launch_partition(const Key *low, const uint32_t *numbers, uint32_t count, const Binned &from,
									Key base, Digit<Low> digit, Bins *bins, uint32_t *overflow,
									const RadixPartition<Low> &out, const Outliers &outliers,
									cudaStream_t stream);

/*
 * Move values from the order after a pass, with offsets of this type, to the order before it, that of probes in "to".
 * If only the output has 64 bits, values are short tids, and become tids.  Nothing is moved if *overflow is set; NULL: it is not.
 */
template <typename Low, typename Value, typename Out>
extern cudaError_t launch_restore(const uint16_t *slots, const Run *runs, const Value *values,
								  uint32_t count, const Binned &to, const uint32_t *overflow, Out *out,
								  cudaStream_t stream);

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
	uint64_t   *tids;
	uint32_t   *probes;
};

/* The bits of a tid from this one on are the heap block. */
constexpr int block_first_bit = 16;

/*
 * Sort hits by heap block.  If memory is NULL, only sets memory_size to what it takes.
 */
extern cudaError_t launch_sort_hits(void *memory, size_t &memory_size, const Hits &from,
									const Hits &to, uint64_t count, cudaStream_t stream);

/*
 * Move the hits that a map does not count to "kept", in any order, and set *kept_count,
 * which is zero at the start, to their number.  If hits have probes, add the others to the
 * counts of their probes.
 */
extern cudaError_t launch_keep(const Hits &hits, uint64_t count, const PageMap &map,
							   const Hits &kept, unsigned long long *kept_count,
							   uint32_t *counts, cudaStream_t stream);

/* Read the keys of hits, given by their slots. */
template <typename Key>
extern cudaError_t launch_read_keys(const char *pages, const uint64_t *slots, uint64_t count, Key *keys,
									cudaStream_t stream);

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_GPU_KERNELS_H */
