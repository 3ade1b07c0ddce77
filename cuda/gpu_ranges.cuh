/*
 * gpu_ranges.cuh
 *		Writing the hits of ranges: all threads of a block share the work.
 *
 * Ranges have few hits or many, and hits must be written side by side to be written fast.  So each
 * thread finds the places of its own range only, and looks into the first and the last one. The
 * places of all ranges of the block, one range after the other, are then divided evenly among the
 * threads, a chunk at a time.  A thread lists those of its places that have hits in shared memory.
 * In the last step threads take the hits in turn, so that neighbours read neighbouring tids and
 * write neighbouring pairs: a warp finds the places of 32 hits by the places' first ones.
 */
#ifndef HARMONIA_CUDA_GPU_RANGES_CUH
#define HARMONIA_CUDA_GPU_RANGES_CUH

#include <cub/block/block_scan.cuh>

#include "gpu_group.cuh"
#include "ranges.h"

namespace harmonia
{

/*
 * Places in a chunk, and those of a thread; hits that a thread reads before it writes them.  A
 * chunk has room for the places of a block of ranges that have some 8 entries each.
 */
constexpr int thread_places = 3;
constexpr uint32_t chunk_places = block_threads * thread_places;
constexpr int hits_at_once = 2;

/*
 * A block's tids, packed: where the block is, in lines from the first page on; where its tids are;
 * and their size.  The high bits are free for the number of a range.
 */
constexpr int packed_range_at = 56;

__device__ __forceinline__ uint64_t
pack_block(const char *pages, const char *block, int tids_at, int tid_bytes)
{
	static_assert(HD_LINE_SIZE == 128, "2^32 pages have 2^38 lines");

	return (uint64_t) (block - pages) / HD_LINE_SIZE << 11 | (uint64_t) tids_at << 3 |
		   (uint64_t) tid_bytes;
}

__device__ __forceinline__ uint64_t
packed_line(uint64_t packed)
{
	return packed >> 11 & ((UINT64_C(1) << 38) - 1);
}

/* A place with hits, in the list of those of a chunk. */
struct alignas(16) ListedPlace
{
	uint64_t tid;         /* where the first hit's tid begins, in bytes from the first page on */
	uint32_t hits_before; /* in the chunk */
	uint32_t rest;        /* pack_rest() */
};

/*
 * The size of a place's tids, the range that it is in, and whether there are slots without a hit
 * between some with one.  The two highest bits are free.
 */
constexpr int rest_range_at = 8;
constexpr uint32_t rest_gap = 1 << 16;
constexpr int rest_free_at = 30;

static_assert(block_threads <= 256, "8 bits for the number of a range");

__device__ __forceinline__ uint32_t
pack_rest(uint32_t tid_bytes, uint32_t range, uint32_t set)
{
	uint32_t behind =
		set +
		(set & -set); /* without the first slots that are side by side, but with the next one */

	return tid_bytes | range << rest_range_at | ((set & behind) != 0 ? rest_gap : 0);
}

__device__ __forceinline__ uint32_t
tid_bytes_of_rest(uint32_t rest)
{
	return rest & 7;
}

__device__ __forceinline__ uint32_t
range_of_rest(uint32_t rest)
{
	return rest >> rest_range_at & 0xFF;
}

/* The ranges of a block of threads, in shared memory. */
struct Ranges
{
	uint64_t starts[block_threads + 1]; /* of each range's places, among those of all */
	uint64_t ends[2][block_threads];    /* packed: the blocks at the first and the last place */
	uint32_t sets[2][block_threads];    /* the slots with entries of the range there */
	uint32_t first[block_threads];      /* place */
	uint32_t numbers[block_threads];    /* of the probes */
	ListedPlace list[chunk_places];
	uint32_t slots[chunk_places]; /* with hits, of listed places */
	uint64_t at;                  /* where the hits of all are written */
};

/* Hits, and in the bits below places with hits, are summed up together. */
constexpr int sum_hits_at = 16;

static_assert(chunk_places * HT_LEAF_MAX_SLOTS < 1 << (32 - sum_hits_at), "room for both");

/* This thread's places of a chunk: some that follow each other. */
struct TakenPlaces
{
	uint64_t blocks[thread_places]; /* packed, with the ranges that they are in */
	uint32_t sets[thread_places];   /* slots with hits */

	__device__ __forceinline__ uint32_t hits() const
	{
		uint32_t sum = 0;

#pragma unroll
		for (int j = 0; j < thread_places; j++)
			sum += (uint32_t) __popc(sets[j]);
		return sum;
	}

	/* Those with hits. */
	__device__ __forceinline__ uint32_t places() const
	{
		uint32_t sum = 0;

#pragma unroll
		for (int j = 0; j < thread_places; j++)
			sum += sets[j] != 0 ? 1 : 0;
		return sum;
	}
};

/*
 * Find the slots with hits at this thread's places of a chunk, which begins at place "chunk" of
 * those of all ranges and ends at "end" at the latest.  If they are to be written, has their tids
 * brought to the cache.
 */
template <typename Key, typename Leaves>
__device__ __forceinline__ TakenPlaces
take_places(const Tree<Key> &tree, const Leaves &leaf_of, Ranges &ranges, uint64_t chunk,
			uint64_t end, bool written)
{
	uint32_t count = (uint32_t) min(end - chunk, (uint64_t) chunk_places);
	uint32_t each = (count + block_threads - 1) / block_threads;
	uint32_t range = 0;
	uint32_t rank = UINT32_MAX;
	LeafBlocks blocks = {};
	int counts[thread_places];           /* stored counts of blocks */
	int most[thread_places];             /* -1: the set is known */
	uint32_t first = threadIdx.x * each; /* in the chunk */
	TakenPlaces taken;

#pragma unroll
	for (uint32_t step = block_threads / 2; step > 0; step /= 2)
		range += ranges.starts[range + step] <= chunk + first ? step : 0;
#pragma unroll
	for (int j = 0; j < thread_places; j++)
	{
		uint32_t in_chunk = first + (uint32_t) j;
		uint64_t block;
		uint64_t i;

		taken.sets[j] = 0;
		counts[j] = 0;
		most[j] = -1;
		if ((uint32_t) j >= each || in_chunk >= count)
			continue;
		while (ranges.starts[range + 1] <= chunk + in_chunk)
			range++;
		i = chunk + in_chunk - ranges.starts[range];
		if (i == 0 || chunk + in_chunk + 1 == ranges.starts[range + 1])
		{
			taken.sets[j] = ranges.sets[i > 0][range];
			block = ranges.ends[i > 0][range];
		}
		else
		{
			uint32_t place = ranges.first[range] + (uint32_t) i;

			if (place / leaf_places != rank)
			{
				rank = place / leaf_places;
				blocks = blocks_of(leaf_of(rank));
			}
			counts[j] = blocks.stored_count(place % leaf_places);
			most[j] = blocks.most(place % leaf_places);
			block = pack_block(tree.pages, blocks.block(place % leaf_places), blocks.tids_at,
							   blocks.tid_bytes);
			if (written)
				prefetch(blocks.block(place % leaf_places) + blocks.tids_at);
		}
		taken.blocks[j] = block | (uint64_t) range << packed_range_at;
	}
	/* Only now, so that the counts are loaded at the same time. */
#pragma unroll
	for (int j = 0; j < thread_places; j++)
	{
		if (most[j] >= 0)
			taken.sets[j] = (1u << min(counts[j], most[j])) - 1;
	}
	return taken;
}

/* List this thread's places with hits, from number "n" of the list on. */
__device__ __forceinline__ void
list_places(const TakenPlaces &taken, uint32_t hits_before, uint32_t n, Ranges &ranges)
{
#pragma unroll
	for (int j = 0; j < thread_places; j++)
	{
		uint32_t set = taken.sets[j];

		if (set != 0)
		{
			uint64_t packed = taken.blocks[j];
			uint32_t tid_bytes = (uint32_t) packed & 7;

			ranges.list[n] = {packed_line(packed) * HD_LINE_SIZE + (packed >> 3 & 0xFF) +
								  (uint32_t) lowest_bit(set) * tid_bytes,
							  hits_before,
							  pack_rest(tid_bytes, (uint32_t) (packed >> packed_range_at), set)};
			ranges.slots[n++] = set;
			hits_before += (uint32_t) __popc(set);
		}
	}
}

/*
 * Find the last place of a list whose first hit is this one or one before.  A warp does so
 * together, in two steps.
 */
__device__ __forceinline__ uint32_t
find_listed(const ListedPlace *list, uint32_t places, uint32_t hit)
{
	static_assert(chunk_places <= warp_threads * warp_threads, "two steps");
	uint32_t lane = threadIdx.x % warp_threads;
	uint32_t i = lane * warp_threads;
	uint32_t first =
		((uint32_t) __popc(__ballot_sync(all_lanes, i < places && list[i].hits_before <= hit)) -
		 1) *
		warp_threads;

	i = first + lane;
	return first +
		   (uint32_t) __popc(__ballot_sync(all_lanes, i < places && list[i].hits_before <= hit)) -
		   1;
}

/* How many slots after the first one of a set the n-th one after it is. */
__device__ __forceinline__ uint32_t
slots_to(uint32_t set, uint32_t n)
{
	int lowest = lowest_bit(set);

	for (; n > 0; n--)
		set &= set - 1;
	return (uint32_t) (lowest_bit(set) - lowest);
}

/*
 * Write the hits of a chunk, whose places are listed, from "at" on.  Each warp writes its share,
 * and does not wait for others.
 */
__device__ __forceinline__ void
write_listed(const char *pages, const Ranges &ranges, const Results &results, uint64_t at,
			 uint32_t places, uint32_t hits)
{
	uint32_t lane = threadIdx.x % warp_threads;
	uint32_t lanes = UINT32_MAX >> (warp_threads - 1 - lane); /* up to this one */
	uint32_t each = (hits + block_threads - 1) / block_threads * warp_threads;
	uint32_t start = threadIdx.x / warp_threads * each;
	uint32_t end = min(hits, start + each);
	uint32_t written = at < results.room ? (uint32_t) min((uint64_t) end, results.room - at) : 0;
	uint32_t place; /* the last one in the list whose first hit is "start" or before */

	if (start >= end)
		return;
	place = find_listed(ranges.list, places, start);
	for (; start < end; start += warp_threads * hits_at_once)
	{
		uint32_t words[hits_at_once][2]; /* where the tids are */
		uint32_t rest[hits_at_once];     /* that of the place, and the byte where the tid begins */

#pragma unroll
		for (int j = 0; j < hits_at_once; j++)
		{
			uint32_t first = start + (uint32_t) j * warp_threads;
			uint32_t next = place + 1 + lane;
			uint32_t distance =
				next < places ? ranges.list[next].hits_before - first : warp_threads;
			uint32_t begin =
				warp_or(distance < warp_threads ? 1u << distance : 0); /* lanes with first hits */
			uint32_t own = place + (uint32_t) __popc(begin & lanes);

			place += (uint32_t) __popc(begin);
			if (first + lane < end)
			{
				ListedPlace listed = ranges.list[own];
				uint32_t n = first + lane - listed.hits_before; /* at that place */

				if ((listed.rest & rest_gap) != 0)
					n = slots_to(ranges.slots[own], n);
				listed.tid += n * tid_bytes_of_rest(listed.rest);

				const uint32_t *tid = (const uint32_t *) (pages + (listed.tid & ~(uint64_t) 3));

				words[j][0] = tid[0];
				words[j][1] = tid[1];
				rest[j] = listed.rest | (uint32_t) listed.tid << rest_free_at;
			}
		}
#pragma unroll
		for (int j = 0; j < hits_at_once; j++)
		{
			uint32_t n = start + (uint32_t) j * warp_threads + lane;

			if (n < written)
			{
				/* Streamed past the caches, which the blocks of other ranges need. */
				__stcs(&results.tids[at + n],
					   tid_of_words(words[j][0], words[j][1], (int) (rest[j] >> rest_free_at) * 8,
									(int) tid_bytes_of_rest(rest[j])));
				__stcs(&results.probes[at + n], ranges.numbers[range_of_rest(rest[j])]);
			}
		}
	}
}

/* Note where the hits of this thread's places are, which begin at "at". */
__device__ __forceinline__ void
note_slots(const TakenPlaces &taken, const Results &results, uint64_t at)
{
#pragma unroll
	for (int j = 0; j < thread_places; j++)
	{
#pragma unroll 1
		for (uint32_t rest = taken.sets[j]; rest != 0; rest &= rest - 1)
		{
			if (at < results.room)
				results.slots[at] =
					pack_slot(packed_line(taken.blocks[j]), (uint32_t) lowest_bit(rest));
			at++;
		}
	}
}

/*
 * The end of as many whole ranges as have their places in one chunk, if the first begins at place
 * "from"; if it is too long for that, the end of that range.
 */
__device__ __forceinline__ uint64_t
end_of_turn(const Ranges &ranges, uint64_t from, uint64_t total)
{
	uint32_t range = 0;

	if (total - from <= chunk_places)
		return total;
#pragma unroll
	for (uint32_t step = block_threads / 2; step > 0; step /= 2)
		range += ranges.starts[range + step] <= from + chunk_places ? step : 0;
	return ranges.starts[range] > from ? ranges.starts[range] : ranges.starts[range + 1];
}

using RangeTotals = cub::BlockScan<uint64_t, block_threads, cub::BLOCK_SCAN_WARP_SCANS>;
using RangeScan = cub::BlockScan<uint32_t, block_threads, cub::BLOCK_SCAN_WARP_SCANS>;

/* What a block shares while it writes the hits of its ranges. */
struct RangeMemory
{
	Ranges ranges;
	typename RangeTotals::TempStorage totals;
	typename RangeScan::TempStorage scan;
};

/* Now and then all threads of the block ask together whether the search is to be given up. */
template <typename Key>
__device__ __forceinline__ bool
is_stopped(const Tree<Key> &tree, uint32_t &chunks)
{
	return chunks++ % 4 == 3 &&
		   __syncthreads_or(threadIdx.x == 0 && gives_up(DeviceGroup<1>(), tree)) != 0;
}

/*
 * Note the places of each group's range, and the slots with hits at the first and the last one.
 * Returns the number of places of all ranges.
 */
template <int Threads, typename Key, typename Leaves>
__device__ __forceinline__ uint64_t
note_ranges(const DeviceGroup<Threads> &group, const Tree<Key> &tree, const Leaves &leaf_of,
			PlaceSpan places, Key low, Key high, uint32_t number, RangeMemory &memory)
{
	Ranges &ranges = memory.ranges;
	uint64_t start;
	uint64_t total;

	for (int i = 0; i < 2 && (uint32_t) i < places.count; i++)
	{
		Slots slots =
			find_slots_at(group, leaf_of, places.first + (i > 0 ? places.count - 1 : 0), low, high);

		ranges.ends[i][threadIdx.x] =
			pack_block(tree.pages, slots.block, slots.tids_at, slots.tid_bytes);
		ranges.sets[i][threadIdx.x] = slots.set;
	}
	ranges.first[threadIdx.x] = places.first;
	ranges.numbers[threadIdx.x] = number;
	RangeTotals(memory.totals).ExclusiveSum(group.thread == 0 ? places.count : 0, start, total);
	ranges.starts[threadIdx.x] = start;
	if (threadIdx.x == 0)
		ranges.starts[block_threads] = total;
	__syncthreads();
	return total;
}

/*
 * Reserve room for the hits of a range that takes several chunks: as they must be adjacent, they
 * are counted before.
 */
template <typename Key, typename Leaves>
__device__ __forceinline__ uint64_t
reserve_chunks(const Tree<Key> &tree, const Leaves &leaf_of, const Results &results, uint64_t from,
			   uint64_t end, uint32_t &chunks, bool &stopped, RangeMemory &memory)
{
	uint64_t own = 0;
	uint64_t hits;

	for (uint64_t chunk = from; chunk < end && !stopped; chunk += chunk_places)
	{
		own += take_places(tree, leaf_of, memory.ranges, chunk, end, false).hits();
		stopped = is_stopped(tree, chunks);
	}
	RangeTotals(memory.totals).ExclusiveSum(own, own, hits);
	if (threadIdx.x == 0)
		memory.ranges.at = atomicAdd(results.hits, (unsigned long long) hits);
	__syncthreads();
	return memory.ranges.at;
}

/*
 * Write the hits of a chunk to "at" or, if it is not reserved, to room that this reserves.  Returns
 * the end of that.
 */
template <typename Key, typename Leaves>
__device__ __forceinline__ uint64_t
write_chunk(const Tree<Key> &tree, const Leaves &leaf_of, const Results &results, uint64_t chunk,
			uint64_t end, bool reserved, uint64_t at, RangeMemory &memory)
{
	Ranges &ranges = memory.ranges;
	TakenPlaces taken = take_places(tree, leaf_of, ranges, chunk, end, true);
	uint32_t before;
	uint32_t sums;
	uint32_t hits;
	unsigned long long start = 0;

	RangeScan(memory.scan).ExclusiveSum(taken.hits() << sum_hits_at | taken.places(), before, sums);
	hits = sums >> sum_hits_at;
	if (threadIdx.x == 0 && !reserved)
		start = atomicAdd(results.hits, (unsigned long long) hits);
	list_places(taken, before >> sum_hits_at, before % (1u << sum_hits_at), ranges);
	if (threadIdx.x == 0 && !reserved)
		ranges.at = start;
	__syncthreads();
	if (!reserved)
		at = ranges.at;
	if (results.slots != nullptr)
		note_slots(taken, results, at + (before >> sum_hits_at));
	write_listed(tree.pages, ranges, results, at, sums % (1u << sum_hits_at), hits);
	__syncthreads();
	return at + hits;
}

/*
 * Write the hits of each group's range at its places.  All threads of the block call this together,
 * even those whose group has none.
 */
template <int Threads, typename Key, typename Leaves>
__device__ __forceinline__ void
give_ranges(const DeviceGroup<Threads> &group, const Tree<Key> &tree, const Leaves &leaf_of,
			const Results &results, PlaceSpan places, Key low, Key high, uint32_t number)
{
	__shared__ RangeMemory memory;
	uint64_t total = note_ranges(group, tree, leaf_of, places, low, high, number, memory);
	uint64_t end;
	uint32_t chunks = 0;
	bool stopped = false;

	for (uint64_t from = 0; from < total && !stopped; from = end)
	{
		bool in_chunks;
		uint64_t at = 0; /* where the hits of a chunk are written */

		end = end_of_turn(memory.ranges, from, total);
		in_chunks = end - from > chunk_places;
		if (in_chunks)
			at = reserve_chunks(tree, leaf_of, results, from, end, chunks, stopped, memory);
		for (uint64_t chunk = from; chunk < end && !stopped; chunk += chunk_places)
		{
			at = write_chunk(tree, leaf_of, results, chunk, end, in_chunks, at, memory);
			stopped = is_stopped(tree, chunks);
		}
	}
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GPU_RANGES_CUH */
