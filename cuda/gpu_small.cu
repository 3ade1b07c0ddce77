/*
 * gpu_small.cu
 *		Small batches: the GPU reads their keys where the client has put them, in the host's pinned
 *		memory, and writes the hits there.
 *
 * The search of a thousand keys takes a GPU some microseconds: no longer than one transfer, or a few calls of the
 * driver.  So there are two kernels and no transfers: one searches, and one, of a single block, brings the hits into
 * the order of heap blocks, and writes their number.  Larger batches gain more from transfers than these
 * cost.
 *
 * The client can change keys while they are read.  Then its results are wrong, and nothing else: whatever the
 * keys, walks are bounded, and hits are written where there is room for them.
 */
#include <algorithm>
#include <chrono>

#include <cub/block/block_radix_sort.cuh>

#include "gpu_device.h"

namespace harmonia
{

constexpr int finish_threads = 512;
constexpr int few_items = 2;	/* hits of a thread */
constexpr int most_items = 8;

/* A block sorts at most this many hits. */
constexpr uint64_t finish_max = finish_threads * most_items;

/* A batch of at most this many probes is small: most have a hit, and a block sorts these. */
constexpr uint32_t small_max = (uint32_t) finish_max;

/*
 * Nor may it have room for more hits than this.  Without an order, hits are written over the bus one by one, which for many of
 * them takes longer than one transfer.
 */
constexpr uint64_t small_room = 4 * finish_max;

template <int Items>
using BlockSort = cub::BlockRadixSort<uint64_t, finish_threads, Items, uint32_t>;

/*
 * Sort n hits by heap block, and write them to memory of the host.  Only as many bits are sorted as the
 * largest block's number has.
 */
template <int Items>
static __device__ void
sort_small(const Hits &from, uint32_t n, const Hits &to, typename BlockSort<Items>::TempStorage &memory)
{
	__shared__ uint32_t largest;
	uint64_t	tids[Items];
	uint32_t	probes[Items];
	uint32_t	block = 0;

	if (threadIdx.x == 0)
		largest = 0;
	__syncthreads();

	/* What is not there comes last: it has the greatest of all numbers, and the sort is stable. */
	for (int i = 0; i < Items; i++)
	{
		uint32_t	at = threadIdx.x * Items + i;

		tids[i] = at < n ? from.tids[at] : UINT64_MAX;
		probes[i] = at < n && to.probes != nullptr ? from.probes[at] : 0;
		if (at < n)
			block = max(block, (uint32_t) (tids[i] >> block_first_bit));
	}
	atomicMax(&largest, block);
	__syncthreads();
	BlockSort<Items>(memory).SortBlockedToStriped(tids, probes, block_first_bit, block_first_bit + max(32 - __clz(largest), 1));
	for (int i = 0; i < Items; i++)
	{
		uint32_t	at = i * finish_threads + threadIdx.x;

		if (at < n)
		{
			to.tids[at] = tids[i];
			if (to.probes != nullptr)
				to.probes[at] = probes[i];
		}
	}
}

/*
 * One block.  Moves the hits, of which there are *found, to "to" in the order of heap blocks, unless there are more than
 * "most" or finish_max.  Sets *number, in memory of the host, to how many there are, and *found to zero for the next batch.
 */
static __global__ void
__launch_bounds__(finish_threads)
finish_kernel(const Hits from, unsigned long long *found, const Hits to, uint64_t most, unsigned long long *number)
{
	__shared__ union
	{
		BlockSort<few_items>::TempStorage few;
		BlockSort<most_items>::TempStorage most;
	}			memory;
	unsigned long long n = *found;

	if (n > finish_threads * few_items && n <= min(most, finish_max))
		sort_small<most_items>(from, (uint32_t) n, to, memory.most);
	else if (n > 0 && n <= min(most, finish_max))
		sort_small<few_items>(from, (uint32_t) n, to, memory.few);
	__syncthreads();
	if (threadIdx.x == 0)
	{
		*found = 0;
		*number = n;
	}
}

/*
 * Is a batch searched here?  The first batch of an index is not, unless its points are distinct: samples of its keys are taken to
 * choose the thread group.
 */
bool
CudaIndex::is_small(const HdBatch &batch) const
{
	return batch.pinned && on()->sees_pinned && (profiled || batch.distinct) && batch.count <= small_max &&
		batch.room <= small_room && batch.output == HD_PAIRS && !batch.on_device && batch.map_pages == 0 && batch.keys == nullptr &&
		batch.psa_bits == HD_AUTOMATIC && batch.threads == HD_AUTOMATIC;
}

template <typename Key>
HdStatus
CudaIndex::search_small(const HdBatch &batch, HdResult *result)
{
	CudaDevice *device = on();
	auto		begin = std::chrono::steady_clock::now();
	Probes<Key> probes = {};
	Results		results = {};
	Hits		hits = {batch.tids, batch.probes};
	Hits		sorted = {};

	/* Hits that are to be sorted are found in memory of the device; and numbers of probes that nobody wants are written there. */
	if (batch.by_block)
	{
		TRY(device, device->batch.out_values.reserve(batch.room * sizeof(uint64_t)));
		hits.tids = device->batch.out_values.as<uint64_t>();
		sorted = {batch.tids, batch.probes};
	}
	if (batch.by_block || batch.probes == nullptr)
	{
		TRY(device, device->batch.out_probes.reserve(batch.room * sizeof(uint32_t)));
		hits.probes = device->batch.out_probes.as<uint32_t>();
	}
	probes.low = probes.all_low = (const Key *) batch.low;
	probes.all_high = (const Key *) batch.high;
	probes.count = batch.count;
	results.output = HD_PAIRS;
	results.tids = hits.tids;
	results.probes = hits.probes;
	results.room = batch.room;
	results.hits = device->found.as<unsigned long long>();
	if (batch.distinct)
	{
		HdStatus	status = begin_distinct(results);

		if (status != HD_OK)
			return status;
	}
	else
		result->group = group;
	result->psa_bits = 0;
	TRY(device, launch_search<Key>(result->group, false, searched_tree<Key>(result->group.search), probes, results,
								   device->stream));
	finish_kernel<<<1, finish_threads, 0, device->stream>>>(hits, results.hits, sorted, batch.by_block ? batch.room : 0,
															&device->words->count);
	TRY(device, cudaGetLastError());
	AWAIT(device);

	result->hits = device->words->count;
	if (batch.by_block && result->hits > std::min(batch.room, finish_max))
	{
		uint64_t	outputs = std::min(result->hits, batch.room);
		HdStatus	status = HD_OK;

		if (batch.probes == nullptr)
			hits.probes = nullptr;
		if (result->hits <= batch.room)
			status = sort_by_block(hits, result->hits);
		if (status != HD_OK)
			return status;
		TRY(device, cudaMemcpyAsync(batch.tids, hits.tids, outputs * sizeof(uint64_t), cudaMemcpyDeviceToHost,
									device->stream));
		if (batch.probes != nullptr)
			TRY(device, cudaMemcpyAsync(batch.probes, hits.probes, outputs * sizeof(uint32_t), cudaMemcpyDeviceToHost,
										device->stream));
		AWAIT(device);
	}

	/* The device's own clock would take longer to ask than the search. */
	if (batch.timed)
		result->search_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
	return HD_OK;
}

#define FOR_KEY(Key) \
	template HdStatus CudaIndex::search_small<Key>(const HdBatch &, HdResult *);

FOR_KEY(uint32_t)
FOR_KEY(uint64_t)
FOR_KEY(Wide<2>)
FOR_KEY(Wide<4>)

}								/* namespace harmonia */
