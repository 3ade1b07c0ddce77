/*
 * gpu_ranges.cuh
 *		Writing the hits of ranges: all threads of a block share the work.
 *
 * Ranges have few hits or many, and hits must be written side by side to be written fast.  So
 * each thread finds the places of its own range only, and looks into the first and the last one.
 * The places of all ranges of the block, one range after the other, are then divided evenly among
 * the threads, a chunk at a time.  A thread lists the hits of its places in shared memory, each as
 * a place and a slot.  In the last step threads take the listed hits in turn, so that neighbours
 * read neighbouring tids and write neighbouring pairs.
 */
#ifndef HARMONIA_CUDA_GPU_RANGES_CUH
#define HARMONIA_CUDA_GPU_RANGES_CUH

#include <cub/block/block_scan.cuh>

#include "gpu_group.cuh"
#include "ranges.h"

namespace harmonia
{

/*
 * Places in a chunk, and those of a thread; hits that are listed at a time, and those that a thread
 * reads before it writes them.  A chunk has room for the places of a block of ranges that have
 * some 8 entries each.
 */
constexpr int thread_places = 3;
constexpr uint32_t chunk_places = block_threads * thread_places;
constexpr uint32_t listed_hits = 2048;
constexpr int hits_at_once = 4;

/*
 * A block's tids, packed: where the block is, in lines from the first page on; where its tids are; and
 * their size.  The high bits are free for the number of a range.
 */
constexpr int packed_range_at = 56;

__device__ __forceinline__ uint64_t
pack_block(const char *pages, const char *block, int tids_at, int tid_bytes)
{
	static_assert(HD_LINE_SIZE == 128, "2^32 pages have 2^38 lines");

	return (uint64_t) (block - pages) / HD_LINE_SIZE << 11 | (uint64_t) tids_at << 3 | (uint64_t) tid_bytes;
}

__device__ __forceinline__ uint64_t
packed_line(uint64_t packed)
{
	return packed >> 11 & ((UINT64_C(1) << 38) - 1);
}

__device__ __forceinline__ uint64_t
load_packed_tid(const char *pages, uint64_t packed, int slot)
{
	return load_tid(pages + packed_line(packed) * HD_LINE_SIZE, (int) (packed >> 3 & 0xFF), (int) (packed & 7), slot);
}

/* The ranges of a block of threads, in shared memory. */
struct Ranges
{
	uint64_t	starts[block_threads + 1];	/* of each range's places, among those of all */
	uint64_t	ends[2][block_threads];	/* packed: the blocks at the first and the last place */
	uint32_t	sets[2][block_threads];	/* the slots with entries of the range there */
	uint32_t	first[block_threads];	/* place */
	uint32_t	numbers[block_threads];	/* of the probes */
	uint64_t	blocks[chunk_places];	/* packed, with the ranges that they are in */
	uint16_t	list[listed_hits];	/* place in the chunk * 32 + slot */
	uint64_t	at;				/* where the hits of all are written */
};

static_assert(chunk_places * 32 <= UINT16_MAX + 1 && HT_LEAF_MAX_SLOTS < 32, "16 bits suffice");

/* This thread's places of a chunk: some that follow each other. */
struct TakenPlaces
{
	uint32_t	first;			/* in the chunk */
	uint32_t	sets[thread_places];	/* slots with hits */

	__device__ __forceinline__ uint32_t hits() const
	{
		uint32_t	sum = 0;

#pragma unroll
		for (int j = 0; j < thread_places; j++)
			sum += (uint32_t) __popc(sets[j]);
		return sum;
	}
};

/*
 * Find the slots with hits at this thread's places of a chunk, which begins at place "chunk" of those
 * of all ranges and ends at "end" at the latest.  If they are to be written, notes the blocks.
 */
template <typename Key, typename Leaves>
__device__ __forceinline__ TakenPlaces
take_places(const Tree<Key> &tree, const Leaves &leaf_of, Ranges &ranges, uint64_t chunk, uint64_t end, bool written)
{
	uint32_t	count = (uint32_t) min(end - chunk, (uint64_t) chunk_places);
	uint32_t	each = (count + block_threads - 1) / block_threads;
	uint32_t	range = 0;
	uint32_t	rank = UINT32_MAX;
	LeafBlocks	blocks = {};
	int			counts[thread_places];	/* stored counts of blocks */
	int			most[thread_places];	/* -1: the set is known */
	TakenPlaces taken;

	taken.first = threadIdx.x * each;
#pragma unroll
	for (uint32_t step = block_threads / 2; step > 0; step /= 2)
		range += ranges.starts[range + step] <= chunk + taken.first ? step : 0;
#pragma unroll
	for (int j = 0; j < thread_places; j++)
	{
		uint32_t	in_chunk = taken.first + (uint32_t) j;
		uint64_t	block;
		uint64_t	i;

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
			uint32_t	place = ranges.first[range] + (uint32_t) i;

			if (place / leaf_places != rank)
			{
				rank = place / leaf_places;
				blocks = blocks_of(leaf_of(rank));
			}
			counts[j] = blocks.stored_count(place % leaf_places);
			most[j] = blocks.most(place % leaf_places);
			block = pack_block(tree.pages, blocks.block(place % leaf_places), blocks.tids_at, blocks.tid_bytes);
		}
		if (written)
			ranges.blocks[in_chunk] = block | (uint64_t) range << packed_range_at;
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

/* List the hits of this thread's places, as far as they are among those from "start" on. */
__device__ __forceinline__ void
list_hits(const TakenPlaces &taken, uint32_t before, uint32_t start, Ranges &ranges)
{
	uint32_t	n = before - start;

#pragma unroll
	for (int j = 0; j < thread_places; j++)
	{
		for (uint32_t rest = taken.sets[j]; rest != 0; rest &= rest - 1)
		{
			if (n < listed_hits)
				ranges.list[n] = (uint16_t) ((taken.first + (uint32_t) j) * 32 + (uint32_t) lowest_bit(rest));
			n++;
		}
	}
}

/* Write the listed hits. */
__device__ __forceinline__ void
write_listed(const char *pages, const Ranges &ranges, const Results &results, uint64_t at, uint32_t count)
{
	for (uint32_t first = threadIdx.x; first < count; first += block_threads * hits_at_once)
	{
		uint64_t	tids[hits_at_once];
		uint32_t	numbers[hits_at_once];

#pragma unroll
		for (int j = 0; j < hits_at_once; j++)
		{
			uint32_t	n = first + (uint32_t) j * block_threads;

			if (n < count)
			{
				uint32_t	hit = ranges.list[n];
				uint64_t	packed = ranges.blocks[hit / 32];

				tids[j] = load_packed_tid(pages, packed, (int) (hit % 32));
				numbers[j] = ranges.numbers[packed >> packed_range_at];
			}
		}
#pragma unroll
		for (int j = 0; j < hits_at_once; j++)
		{
			uint32_t	n = first + (uint32_t) j * block_threads;

			if (n < count && at + n < results.room)
			{
				results.tids[at + n] = tids[j];
				results.probes[at + n] = numbers[j];
			}
		}
	}
}

/* Note where the listed hits are.  A loop of its own, or registers spill. */
__device__ __forceinline__ void
note_slots(const Ranges &ranges, const Results &results, uint64_t at, uint32_t count)
{
#pragma unroll 1
	for (uint32_t n = threadIdx.x; n < count && at + n < results.room; n += block_threads)
	{
		uint32_t	hit = ranges.list[n];

		results.slots[at + n] = pack_slot(packed_line(ranges.blocks[hit / 32]), hit % 32);
	}
}

/*
 * The end of as many whole ranges as have their places in one chunk, if the first begins at place "from";
 * if it is too long for that, the end of that range.
 */
__device__ __forceinline__ uint64_t
end_of_turn(const Ranges &ranges, uint64_t from, uint64_t total)
{
	uint32_t	range = 0;

	if (total - from <= chunk_places)
		return total;
#pragma unroll
	for (uint32_t step = block_threads / 2; step > 0; step /= 2)
		range += ranges.starts[range + step] <= from + chunk_places ? step : 0;
	return ranges.starts[range] > from ? ranges.starts[range] : ranges.starts[range + 1];
}

/*
 * Write the hits of each group's range at its places.  All threads of the block call this together,
 * even those whose group has none.
 */
template <int Threads, typename Key, typename Leaves>
__device__ __forceinline__ void
give_ranges(const DeviceGroup<Threads> &group, const Tree<Key> &tree, const Leaves &leaf_of, const Results &results,
			Places places, Key low, Key high, uint32_t number)
{
	using Totals = cub::BlockScan<uint64_t, block_threads, cub::BLOCK_SCAN_WARP_SCANS>;
	using Scan = cub::BlockScan<uint32_t, block_threads, cub::BLOCK_SCAN_WARP_SCANS>;
	__shared__ typename Totals::TempStorage totals;
	__shared__ typename Scan::TempStorage scan;
	__shared__ Ranges ranges;
	uint64_t	start;
	uint64_t	end;
	uint64_t	total;
	uint32_t	chunks = 0;
	bool		stopped = false;

	/* Now and then all threads ask together whether the search is to be given up. */
	auto		stop = [&]() { return chunks++ % 4 == 3 &&
		__syncthreads_or(threadIdx.x == 0 && gives_up(DeviceGroup<1>(), tree)) != 0; };

	for (int i = 0; i < 2 && (uint32_t) i < places.count; i++)
	{
		Slots		slots = find_slots_at(group, leaf_of, places.first + (i > 0 ? places.count - 1 : 0), low, high);

		ranges.ends[i][threadIdx.x] = pack_block(tree.pages, slots.block, slots.tids_at, slots.tid_bytes);
		ranges.sets[i][threadIdx.x] = slots.set;
	}
	ranges.first[threadIdx.x] = places.first;
	ranges.numbers[threadIdx.x] = number;
	Totals(totals).ExclusiveSum(group.thread == 0 ? places.count : 0, start, total);
	ranges.starts[threadIdx.x] = start;
	if (threadIdx.x == 0)
		ranges.starts[block_threads] = total;
	__syncthreads();

	for (uint64_t from = 0; from < total && !stopped; from = end)
	{
		bool		in_chunks;
		uint64_t	at = 0;		/* where the hits of a chunk are written */

		end = end_of_turn(ranges, from, total);
		in_chunks = end - from > chunk_places;

		/* The hits of a range must be adjacent: if it takes several chunks, count them before. */
		if (in_chunks)
		{
			uint64_t	own = 0;
			uint64_t	hits;

			for (uint64_t chunk = from; chunk < end && !stopped; chunk += chunk_places)
			{
				own += take_places(tree, leaf_of, ranges, chunk, end, false).hits();
				stopped = stop();
			}
			Totals(totals).ExclusiveSum(own, own, hits);
			if (threadIdx.x == 0)
				ranges.at = atomicAdd(results.hits, (unsigned long long) hits);
			__syncthreads();
			at = ranges.at;
		}
		for (uint64_t chunk = from; chunk < end && !stopped; chunk += chunk_places)
		{
			TakenPlaces taken = take_places(tree, leaf_of, ranges, chunk, end, true);
			unsigned long long reserved = 0;
			uint32_t	before;
			uint32_t	hits;
			uint32_t	listed = 0;

			Scan(scan).ExclusiveSum(taken.hits(), before, hits);
			if (threadIdx.x == 0 && !in_chunks)
				reserved = atomicAdd(results.hits, (unsigned long long) hits);
			do
			{
				list_hits(taken, before, listed, ranges);
				if (threadIdx.x == 0 && !in_chunks && listed == 0)
					ranges.at = reserved;
				__syncthreads();
				if (!in_chunks)
					at = ranges.at;
				write_listed(tree.pages, ranges, results, at + listed, min(hits - listed, listed_hits));
				if (results.slots != nullptr)
					note_slots(ranges, results, at + listed, min(hits - listed, listed_hits));
				__syncthreads();
				listed += listed_hits;
			} while (listed < hits);
			at += hits;
			stopped = stop();
		}
	}
}

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_GPU_RANGES_CUH */
