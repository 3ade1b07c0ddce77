/*
 * gpu_small.cu
 *		Small batches: the GPU reads their keys where the clients have put them, in the host's
 *		pinned memory, and writes the hits there.
 *
 * The search of a thousand keys takes a GPU some microseconds: no longer than one transfer, or a
 * few calls of the driver.  So there is one kernel and no transfer.  It searches several batches at
 * once, each in blocks of its own; of each batch, the block that is the last one brings the hits
 * into the order of heap blocks, and writes their number, which the host waits for.  Larger batches
 * gain more from transfers than these cost.
 *
 * The clients can change keys while they are read.  Then their own results are wrong, and nothing
 * else: whatever the keys, walks are bounded, and hits are written where there is room for them.
 */
#include <algorithm>
#include <atomic>
#include <chrono>

#include <cub/block/block_radix_sort.cuh>

#include "gpu_device.h"
#include "gpu_ranges.cuh"

namespace harmonia
{

/*
 * So many threads search a probe together.  Few probes leave most of a GPU idle, so what counts is
 * the number of steps that depend on each other, and not their sum: two for each node of 64 keys,
 * where one thread takes six. (H200, 256 and 1,024 probes: 18.2 and 20.0 us by 8 threads, 17.6 and
 * 19.1 by 16; by 32 it is 30 us for 4,096, and not 21.)
 */
constexpr int small_threads = 16;

constexpr int few_items = 4; /* hits of a thread */
constexpr int most_items = 16;

/* A block sorts at most this many hits. */
constexpr uint64_t sorted_max = block_threads * most_items;

/* A batch of at most this many probes is small: most have a hit, and a block sorts these. */
constexpr uint32_t small_max = (uint32_t) sorted_max;

/*
 * Nor may it have room for more hits than this.  Without an order, hits are written over the bus
 * one by one, which for many of them takes longer than one transfer.
 */
constexpr uint64_t small_room = 4 * sorted_max;

/* Points of a batch that are seen are noted in a table of so many words. */
constexpr int seen_bits = 13;
constexpr uint32_t seen_size = 1 << seen_bits;

static_assert(seen_size >= 2 * small_max, "half of the table stays free");

/* A word has the number of a slot of the index, and above it that of an epoch. */
constexpr int seen_slot_bits = 36;
constexpr uint32_t epoch_end = 1 << (64 - seen_slot_bits);

static_assert((uint64_t) HD_MAX_LEAVES * HT_LEAF_MAX_ENTRIES < UINT64_C(1) << seen_slot_bits,
			  "all slots have a number");

/* SmallNumbers.hits of a batch whose search has not ended. */
constexpr unsigned long long no_number = ~0ULL;

/*
 * A small batch.  Hits are written to "found".  If there are no more than "most", they are moved to
 * "given" in the order of heap blocks or, if there is a map of pages, those that it does not count.
 */
template <typename Key> struct SmallBatch
{
	const Key *low;
	const Key *high; /* NULL: points */
	uint32_t count;
	Hits found;
	uint64_t room;
	Hits given;
	uint64_t most;
	PageMap map;
	uint32_t *counts;         /* of each probe, by the map; NULL: not wanted */
	unsigned long long *seen; /* distinct points: seen_size words; otherwise NULL */
	uint32_t epoch;           /* of these words: those of other batches are as good as empty */
};

template <typename Key> struct SmallBatches
{
	SmallBatch<Key> of[HD_TOGETHER_MAX];
	SmallCounters *counters; /* of each */
	SmallNumbers *numbers;   /* in the host's memory */
};

template <int Items>
using BlockSort = cub::BlockRadixSort<uint64_t, block_threads, Items, uint32_t>;

union SmallMemory
{
	BlockSort<few_items>::TempStorage few;
	BlockSort<most_items>::TempStorage most;
	uint32_t counts[small_max];
};

/*
 * Sort n hits, which other blocks have found, by heap block, and write them to memory of the host.
 * Only as many bits are sorted as the largest block's number has.  Not inlined: there would be two
 * dozen of it.
 */
template <int Items>
static __device__ __noinline__ void
sort_small(const Hits &from, uint32_t n, const Hits &to,
		   typename BlockSort<Items>::TempStorage &memory)
{
	__shared__ uint32_t largest;
	uint64_t tids[Items];
	uint32_t probes[Items];
	uint32_t block = 0;

	if (threadIdx.x == 0)
		largest = 0;
	__syncthreads();

	/* What is not there comes last: it has the greatest of all numbers, and the sort is stable. */
	for (int i = 0; i < Items; i++)
	{
		uint32_t at = threadIdx.x * Items + i;

		tids[i] = at < n ? __ldcg(&from.tids[at]) : UINT64_MAX;
		probes[i] = at < n && to.probes != nullptr ? __ldcg(&from.probes[at]) : 0;
		if (at < n)
			block = max(block, (uint32_t) (tids[i] >> block_first_bit));
	}
	atomicMax(&largest, block);
	__syncthreads();
	BlockSort<Items>(memory).SortBlockedToStriped(tids, probes, block_first_bit,
												  block_first_bit + max(32 - __clz(largest), 1));
	for (int i = 0; i < Items; i++)
	{
		uint32_t at = i * block_threads + threadIdx.x;

		if (at < n)
		{
			to.tids[at] = tids[i];
			if (to.probes != nullptr)
				to.probes[at] = probes[i];
		}
	}
}

/*
 * The hits that the map of a batch does not count go to the host, and counts by probe do.  Returns
 * the number of the other hits.
 */
template <typename Key>
static __device__ uint32_t
keep_small(const SmallBatch<Key> &batch, uint32_t n, uint32_t *counts)
{
	__shared__ uint32_t kept;

	if (threadIdx.x == 0)
		kept = 0;
	for (uint32_t i = threadIdx.x; batch.counts != nullptr && i < batch.count; i += block_threads)
		counts[i] = 0;
	__syncthreads();
	for (uint32_t at = threadIdx.x; at < n; at += block_threads)
	{
		uint64_t tid = __ldcg(&batch.found.tids[at]);
		bool counted = batch.map.counts(tid);
		uint32_t to = counted ? 0 : atomicAdd(&kept, 1u);

		if (!counted)
			batch.given.tids[to] = tid;
		if (!counted && batch.given.probes != nullptr)
			batch.given.probes[to] = __ldcg(&batch.found.probes[at]);
		if (counted && batch.counts != nullptr)
			atomicAdd(&counts[__ldcg(&batch.found.probes[at])], 1u);
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; batch.counts != nullptr && i < batch.count; i += block_threads)
		batch.counts[i] = counts[i];
	return n - kept;
}

/*
 * A block has written its hits.  If it is the last one of its batch, do with all hits what is
 * wanted, tell the host their number, and leave the counters as they were at the start.
 */
template <typename Key>
static __device__ void
end_block(const SmallBatch<Key> &batch, uint32_t blocks, SmallCounters &counters,
		  SmallNumbers &numbers)
{
	extern __shared__ __align__(16) char memory[];
	SmallMemory &own = *(SmallMemory *) memory;
	__shared__ bool is_last;
	__shared__ unsigned long long found;
	uint32_t counted = 0;

	/*
	 * The hits of all blocks are there before the last one reads them, or tells the host their
	 * number.
	 */
	__syncthreads();
	if (threadIdx.x == 0)
	{
		if (batch.given.tids != nullptr)
			__threadfence();
		else
			__threadfence_system();
		is_last = atomicAdd(&counters.ended, 1) == blocks - 1;
		__threadfence();
		if (is_last)
		{
			counters.ended = 0;
			found = atomicExch(&counters.found, 0);
		}
	}
	__syncthreads();
	if (!is_last)
		return;
	if (found > 0 && found <= batch.most)
	{
		if (batch.map.pages > 0)
			counted = keep_small(batch, (uint32_t) found, own.counts);
		else if (found > block_threads * few_items)
			sort_small<most_items>(batch.found, (uint32_t) found, batch.given, own.most);
		else
			sort_small<few_items>(batch.found, (uint32_t) found, batch.given, own.few);
	}
	__syncthreads();
	if (threadIdx.x == 0)
	{
		numbers.counted = counted;
		__threadfence_system();
		*(volatile unsigned long long *) &numbers.hits = found;
	}
}

/*
 * Note that a point with a hit, whose first one is in this slot of the index, is seen in a batch.
 * Returns false if an equal one was seen before.
 */
static __device__ bool
note_seen(unsigned long long *seen, uint32_t epoch, uint64_t slot)
{
	unsigned long long own = (unsigned long long) epoch << seen_slot_bits | slot;

	for (uint32_t at = (uint32_t) slot * 2654435769u >> (32 - seen_bits);;
		 at = (at + 1) % seen_size)
	{
		unsigned long long there = *(volatile unsigned long long *) &seen[at];

		if (there >> seen_slot_bits != epoch)
		{
			unsigned long long was = atomicCAS(&seen[at], there, own);

			if (was == there)
				return true;
			there = was;
		}
		if (there == own)
			return false;
	}
}

/*
 * A key for all threads of a group, read by the first one.  Its owner can change it meanwhile, and
 * threads with different keys would not stay together.  All threads of the warp call this; "there"
 * says whether the group has a key.
 */
template <int Threads, typename Key>
static __device__ Key
read_key(const DeviceGroup<Threads> &group, const Key *at, bool there)
{
	constexpr int words = sizeof(Key) / sizeof(uint32_t);
	uint32_t word[words];
	Key key = 0;

	if (there && group.thread == 0)
		key = *at;
	memcpy(word, &key, sizeof(key));
	for (int i = 0; i < words; i++)
		word[i] = __shfl_sync(all_lanes, word[i], group.first_lane);
	memcpy(&key, word, sizeof(key));
	return key;
}

/* The number of blocks whose groups of so many threads take a probe each. */
HD_BOTH uint32_t
small_blocks(uint32_t count, int threads)
{
	return (count - 1) / (uint32_t) (block_threads / threads) + 1;
}

/* Search batches: blockIdx.y is the number of the batch. */
template <typename Key, int Threads, bool Points>
static __global__ void
__launch_bounds__(block_threads) small_kernel(const __grid_constant__ Tree<Key> tree,
											  const __grid_constant__ SmallBatches<Key> batches)
{
	const SmallBatch<Key> &batch = batches.of[blockIdx.y];
	SmallCounters &counters = batches.counters[blockIdx.y];
	uint32_t blocks = small_blocks(batch.count, Threads);
	uint32_t i = blockIdx.x * (block_threads / Threads) + threadIdx.x / Threads;
	DeviceGroup<Threads> group;
	Results results = {};
	Key low = 0;
	Key high = 0;
	Found found = {};
	PlaceSpan places = {};
	uint64_t slot = 0;

	if (blockIdx.x >= blocks)
		return;
	results.probes = batch.found.probes;
	results.tids = batch.found.tids;
	results.room = batch.room;
	results.hits = &counters.found;
	low = read_key(group, &batch.low[i], i < batch.count);
	if constexpr (!Points)
		high = read_key(group, &batch.high[i], i < batch.count);
	if (i < batch.count)
	{
		if constexpr (Points)
			found = find_summary<0>(group, tree, low);
		else
			places = find_places<0>(group, tree, low, high);
		if (Points && batch.seen != nullptr && found.count > 0)
			slot = number_of_slot(group, tree, found.first_block, low);
	}
	if (Points && batch.seen != nullptr)
	{
		bool is_new =
			found.count > 0 && group.thread == 0 && note_seen(batch.seen, batch.epoch, slot);

		if (!__shfl_sync(all_lanes, is_new, group.first_lane))
			found.count = 0;
	}
	if constexpr (Points)
		give_pairs(group, tree, results, found, low, i);
	else
		give_ranges(group, tree, TreeLeaves<Key>{tree}, results, places, low, high, i);
	end_block(batch, blocks, counters, batches.numbers[blockIdx.y]);
}

template <typename Key, int Threads, bool Points>
static cudaError_t
launch_small(const Tree<Key> &tree, const SmallBatches<Key> &batches, int count,
			 cudaStream_t stream)
{
	uint32_t blocks = 0;
	cudaError_t error = cudaSuccess;

	for (int i = 0; i < count; i++)
		blocks = std::max(blocks, small_blocks(batches.of[i].count, Threads));

	/* With what ranges take, it is more than kernels may have as a rule. */
	if (!Points)
		error = cudaFuncSetAttribute(small_kernel<Key, Threads, Points>,
									 cudaFuncAttributeMaxDynamicSharedMemorySize,
									 (int) sizeof(SmallMemory));
	if (error != cudaSuccess)
		return error;
	small_kernel<Key, Threads, Points>
		<<<dim3(blocks, (uint32_t) count), block_threads, sizeof(SmallMemory), stream>>>(tree,
																						 batches);
	return cudaGetLastError();
}

/* Is a batch searched here? */
bool
CudaIndex::is_small(const HdBatch &batch) const
{
	return batch.pinned && ((const CudaDevice *) device)->sees_pinned && batch.count > 0 &&
		   batch.count <= small_max && batch.room <= small_room && !batch.on_device &&
		   batch.keys == nullptr && batch.psa_bits == HD_AUTOMATIC && batch.threads == 0;
}

bool
CudaIndex::joins(const HdBatch &batch) const
{
	return is_small(batch);
}

/*
 * Begin an epoch of the tables of points that are seen.  After the last one they are cleared; so is
 * memory that is new.  The first epoch is not far from the last one: what is rare would be untried
 * otherwise.
 */
HdStatus
CudaDevice::begin_epoch()
{
	constexpr uint32_t first_epoch = epoch_end - 1000;
	constexpr size_t size = HD_TOGETHER_MAX * seen_size * sizeof(unsigned long long);

	if (seen_points.size == 0)
	{
		TRY(this, seen_points.reserve(size));
		TRY(this, cudaMemsetAsync(seen_points.at, 0, size, stream));
		epoch = first_epoch;
	}
	if (++epoch == epoch_end)
	{
		TRY(this, cudaMemsetAsync(seen_points.at, 0, size, stream));
		epoch = 1;
	}
	return HD_OK;
}

/*
 * Bring the hits of a batch to the host that were not sorted with the others, as there were too
 * many.
 */
HdStatus
CudaIndex::bring_unsorted(const HdBatch &batch, Hits hits, uint64_t count)
{
	HdStatus status = count <= batch.room ? sort_by_block(hits, count) : HD_OK;

	return status == HD_OK ? bring_hits(batch, hits, std::min(count, batch.room)) : status;
}

/*
 * Wait until the numbers of hits are there.  That is sooner than the stream is known to be done,
 * and takes no call of the driver, which other lanes' calls would hold up; but an error is only
 * known to the stream.
 */
HdStatus
CudaDevice::wait_for_numbers(int count)
{
	constexpr uint32_t asked_after = 1024;
	const volatile SmallNumbers *numbers = words->small;
	uint32_t looks = 0;
	int known = 0;

	return wait_until(
		[&]()
		{
			cudaError_t error = cudaSuccess;

			while (known < count && numbers[known].hits != no_number)
				known++;
			std::atomic_thread_fence(std::memory_order_acquire);
			if (known == count)
				return cudaSuccess;
			if (++looks % asked_after == 0)
				error = cudaStreamQuery(stream);
			if (error == cudaErrorNotReady)
				cudaGetLastError();
			return error == cudaSuccess ? cudaErrorNotReady : error;
		});
}

/*
 * Say where the keys and hits of a lane's small batch are.  Its hits can be in the lane's memory,
 * from number "at" on.
 */
template <typename Key>
static SmallBatch<Key>
describe_small(CudaDevice *lane, const HdBatch &batch, int number, uint64_t at)
{
	SmallBatch<Key> small = {};
	Hits given = {batch.tids, batch.probes};

	small.low = (const Key *) batch.low;
	small.high = (const Key *) batch.high;
	small.count = batch.count;
	small.found = given;
	small.room = batch.room;
	small.epoch = lane->epoch;
	if (batch.distinct)
		small.seen = lane->seen_points.as<unsigned long long>() + number * seen_size;

	/*
	 * If something is done with all hits, they are found in memory of the device.  Numbers of
	 * probes that nobody wants stay there.
	 */
	if (batch.by_block || batch.map_pages > 0)
	{
		small.found.tids = lane->batch.out_tids.as<uint64_t>() + at;
		small.given = given;
		small.map = {batch.map, batch.map_pages};
		small.counts = batch.probes != nullptr ? batch.counts : nullptr;
		small.most = batch.map_pages > 0 ? batch.room : std::min(batch.room, sorted_max);
	}
	if (small.given.tids != nullptr || batch.probes == nullptr)
		small.found.probes = lane->batch.out_probes.as<uint32_t>() + at;
	return small;
}

/* Describe small batches to their kernel, on the lane that searches them. */
template <typename Key>
static HdStatus
describe_all(CudaDevice *lane, const HdBatch *batches, int count, SmallBatches<Key> &small)
{
	uint64_t room = 0;
	HdStatus status;

	for (int i = 0; i < count; i++)
		room += batches[i].room;
	TRY(lane, lane->batch.out_tids.reserve(room * sizeof(uint64_t)));
	TRY(lane, lane->batch.out_probes.reserve(room * sizeof(uint32_t)));
	status = lane->begin_epoch();
	if (status != HD_OK)
		return status;
	small.counters = lane->counters.as<SmallCounters>();
	small.numbers = lane->words->small;
	room = 0;
	for (int i = 0; i < count; i++)
	{
		small.of[i] = describe_small<Key>(lane, batches[i], i, room);
		room += batches[i].room;
		lane->words->small[i].hits = no_number;
	}
	return HD_OK;
}

template <typename Key>
HdStatus
CudaIndex::search_small(const HdBatch *batches, int count, HdResult *results)
{
	CudaDevice *lane = on();
	auto begin = std::chrono::steady_clock::now();
	SmallBatches<Key> small = {};
	HdStatus status = describe_all(lane, batches, count, small);

	if (status != HD_OK)
		return status;
	if (batches->high == nullptr)
		TRY(lane, (launch_small<Key, small_threads, true>(searched_tree<Key>(), small, count,
														  lane->stream)));
	else
		TRY(lane, (launch_small<Key, small_threads, false>(searched_tree<Key>(), small, count,
														   lane->stream)));
	status = lane->wait_for_numbers(count);
	for (int i = 0; i < count && status == HD_OK; i++)
	{
		results[i].psa_bits = 0;
		results[i].threads = 0;
		results[i].hits = lane->words->small[i].hits;
		results[i].counted = lane->words->small[i].counted;
		if (batches[i].by_block && results[i].hits > small.of[i].most)
			status = bring_unsorted(batches[i], small.of[i].found, results[i].hits);
	}

	/*
	 * The device's own clock would take longer to ask than the search.  The batches share the time.
	 */
	for (int i = 0; i < count; i++)
		results[i].search_ms =
			std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
				.count() /
			count;
	return status;
}

HdStatus
CudaIndex::search_together(const HdBatch *batches, int count, HdResult *results)
{
	if (shape.width == HT_WIDTH32)
		return search_small<uint32_t>(batches, count, results);
	if (shape.width == HT_WIDTH64)
		return search_small<uint64_t>(batches, count, results);
	return search_small<Wide>(batches, count, results);
}

} /* namespace harmonia */
