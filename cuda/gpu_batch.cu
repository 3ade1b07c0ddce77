/*
 * gpu_batch.cu
 *		The steps of a batch on a CUDA device.
 */
#include "gpu_device.h"

#include <algorithm>

namespace harmonia
{

/* Note which bits of offsets can differ. */
template <typename Key>
static void
set_key_range(const SortPlan &plan, Probes<Key> &probes)
{
	int end = plan.first_bit + plan.bits;

	probes.base = (Key) plan.base;
	probes.mask =
		end < 8 * (int) sizeof(Key) ? (Key) (((Key) 1 << end) - (Key) 1) : KeyLimits<Key>::max();
	probes.top_shift = std::max(end - 32, 0);
	probes.min_shift = std::max(plan.first_bit - probes.top_shift, 0);
}

/* Bring a batch's keys to the device, if they are not there. */
template <typename Key>
HdStatus
CudaIndex::bring_keys(const HdBatch &batch, Probes<Key> &probes)
{
	CudaDevice *device = on();
	size_t size = batch.count * sizeof(Key);

	probes.low = (const Key *) batch.low;
	probes.high = (const Key *) batch.high;
	probes.count = batch.count;
	if (batch.on_device)
		return HD_OK;
	TRY(device, device->batch.low.reserve(size));
	TRY(device, cudaMemcpyAsync(device->batch.low.at, batch.low, size, cudaMemcpyHostToDevice,
								device->stream));
	probes.low = device->batch.low.as<Key>();
	if (batch.high != nullptr)
	{
		TRY(device, device->batch.high.reserve(size));
		TRY(device, cudaMemcpyAsync(device->batch.high.at, batch.high, size, cudaMemcpyHostToDevice,
									device->stream));
		probes.high = device->batch.high.as<Key>();
	}
	return HD_OK;
}

/*
 * Partially-sorted aggregation: sort numbers of probes by the top bits; the search kernel sorts
 * tiles by lower bits.
 */
template <typename Key>
HdStatus
CudaIndex::sort(const SortPlan &plan, Probes<Key> &probes)
{
	CudaDevice *device = on();
	int bits = std::min(plan.bits, sorted_bits);
	size_t size = 0;
	uint16_t *digits[2];
	uint32_t *numbers[2];

	for (int i = 0; i < 2; i++)
	{
		TRY(device, device->batch.digits[i].reserve(probes.count * sizeof(uint16_t)));
		TRY(device, device->batch.numbers[i].reserve(probes.count * sizeof(uint32_t)));
		digits[i] = device->batch.digits[i].as<uint16_t>();
		numbers[i] = device->batch.numbers[i].as<uint32_t>();
	}
	TRY(device, launch_sort(nullptr, size, digits, numbers, probes.count, bits, device->stream));
	TRY(device, device->batch.sorting.reserve(size));
	TRY(device, launch_digits<Key>(probes.low, probes.count, (Key) plan.base,
								   plan.first_bit + plan.bits - bits, bits, digits[0], numbers[0],
								   device->stream));
	TRY(device, launch_sort(device->batch.sorting.at, size, digits, numbers, probes.count, bits,
							device->stream));
	probes.numbers = numbers[1];
	return HD_OK;
}

/* Say where the hits of a batch go on the device. */
HdStatus
CudaIndex::make_room(const HdBatch &batch, Results &results)
{
	CudaDevice *device = on();

	results.room = batch.room;
	results.tids = batch.tids;
	results.probes = batch.probes;
	if (!batch.on_device)
	{
		TRY(device, device->batch.out_tids.reserve(batch.room * sizeof(uint64_t)));
		results.tids = device->batch.out_tids.as<uint64_t>();
	}

	/* Writing probe numbers costs less than a test at each hit whether they are wanted. */
	if (!batch.on_device || batch.probes == nullptr)
	{
		TRY(device, device->batch.out_probes.reserve(batch.room * sizeof(uint32_t)));
		results.probes = device->batch.out_probes.as<uint32_t>();
	}
	if (batch.keys != nullptr)
	{
		TRY(device, device->batch.hit_slots.reserve(batch.room * sizeof(uint64_t)));
		results.slots = device->batch.hit_slots.as<uint64_t>();
	}
	if (batch.distinct)
	{
		size_t size = (count_slots((uint32_t) leaf_blocks.size()) + 31) / 32 * sizeof(uint32_t);

		TRY(device, device->batch.seen.reserve(size));
		results.seen = device->batch.seen.as<uint32_t>();
		TRY(device, cudaMemsetAsync(results.seen, 0, size, device->stream));
	}
	TRY(device, device->batch.hit_count.reserve(sizeof(unsigned long long)));
	results.hits = device->batch.hit_count.as<unsigned long long>();
	TRY(device, cudaMemsetAsync(results.hits, 0, sizeof(unsigned long long), device->stream));
	return HD_OK;
}

/* Get a number of hits from the device, after all that was begun before. */
HdStatus
CudaIndex::read_count(const unsigned long long *from, uint64_t *count)
{
	CudaDevice *device = on();

	TRY(device, cudaMemcpyAsync(&device->words->count, from, sizeof(*from), cudaMemcpyDeviceToHost,
								device->stream));
	AWAIT(device);
	*count = device->words->count;
	return HD_OK;
}

/* Count the hits on pages of the batch's map.  Replaces the hits by the others. */
HdStatus
CudaIndex::count_by_map(const HdBatch &batch, Hits &hits, HdResult *result)
{
	CudaDevice *device = on();
	cudaStream_t stream = device->stream;
	size_t map_size = ((size_t) batch.map_pages + 31) / 32 * sizeof(uint32_t);
	unsigned long long *kept_count = device->batch.hit_count.as<unsigned long long>();
	size_t counts_size = hits.probes != nullptr ? batch.count * sizeof(uint32_t) : 0;
	uint32_t *counts = batch.counts;
	PageMap map = {batch.map, batch.map_pages};
	Hits kept = {};
	uint64_t count;
	HdStatus status;

	if (!batch.on_device)
	{
		TRY(device, device->batch.map.reserve(map_size));
		TRY(device, cudaMemcpyAsync(device->batch.map.at, batch.map, map_size,
									cudaMemcpyHostToDevice, stream));
		map.words = device->batch.map.as<uint32_t>();
	}
	TRY(device, device->batch.kept.reserve(result->hits * sizeof(uint64_t)));
	kept.tids = device->batch.kept.as<uint64_t>();
	if (hits.probes != nullptr)
	{
		TRY(device, device->batch.kept_probes.reserve(result->hits * sizeof(uint32_t)));
		kept.probes = device->batch.kept_probes.as<uint32_t>();
		if (!batch.on_device)
		{
			TRY(device, device->batch.counts.reserve(counts_size));
			counts = device->batch.counts.as<uint32_t>();
		}
		TRY(device, cudaMemsetAsync(counts, 0, counts_size, stream));
	}
	TRY(device, cudaMemsetAsync(kept_count, 0, sizeof(*kept_count), stream));
	TRY(device, launch_keep(hits, result->hits, map, kept, kept_count, counts, stream));
	if (hits.probes != nullptr && !batch.on_device)
		TRY(device,
			cudaMemcpyAsync(batch.counts, counts, counts_size, cudaMemcpyDeviceToHost, stream));
	status = read_count(kept_count, &count);
	if (status != HD_OK)
		return status;
	result->counted = result->hits - count;
	hits = kept;
	return HD_OK;
}

/* Sort hits by heap block, into other memory. */
HdStatus
CudaIndex::sort_by_block(Hits &hits, uint64_t count)
{
	CudaDevice *device = on();
	size_t size = 0;
	Hits sorted = {};

	TRY(device, device->batch.kept.reserve(count * sizeof(uint64_t)));
	TRY(device, device->batch.kept_probes.reserve(count * sizeof(uint32_t)));
	sorted = {device->batch.kept.as<uint64_t>(), device->batch.kept_probes.as<uint32_t>()};
	TRY(device, launch_sort_hits(nullptr, size, hits, sorted, count, device->stream));
	TRY(device, device->batch.sorting.reserve(size));
	TRY(device,
		launch_sort_hits(device->batch.sorting.at, size, hits, sorted, count, device->stream));
	hits = sorted;
	return HD_OK;
}

/* Write the keys of a batch's hits, whose slots are known. */
template <typename Key>
HdStatus
CudaIndex::give_keys(const HdBatch &batch, uint64_t count)
{
	CudaDevice *device = on();
	Key *keys = (Key *) batch.keys;

	if (!batch.on_device)
	{
		TRY(device, device->batch.out_keys.reserve(count * sizeof(Key)));
		keys = device->batch.out_keys.as<Key>();
	}
	TRY(device, launch_read_keys<Key>(pages.at(), device->batch.hit_slots.as<uint64_t>(), count,
									  keys, device->stream));
	if (!batch.on_device)
		TRY(device, cudaMemcpyAsync(batch.keys, keys, count * sizeof(Key), cudaMemcpyDeviceToHost,
									device->stream));
	return HD_OK;
}

/* Bring hits to where the batch wants them. */
HdStatus
CudaIndex::bring_hits(const HdBatch &batch, const Hits &hits, uint64_t count)
{
	CudaDevice *device = on();
	cudaMemcpyKind kind = batch.on_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;

	if (count > 0 && hits.tids != batch.tids)
	{
		TRY(device,
			cudaMemcpyAsync(batch.tids, hits.tids, count * sizeof(uint64_t), kind, device->stream));
		if (batch.probes != nullptr)
			TRY(device, cudaMemcpyAsync(batch.probes, hits.probes, count * sizeof(uint32_t), kind,
										device->stream));
	}
	AWAIT(device);
	return HD_OK;
}

/* All hits of a batch are found: do with them what is wanted, and bring them. */
template <typename Key>
HdStatus
CudaIndex::give_hits(const HdBatch &batch, const Results &results, HdResult *result)
{
	CudaDevice *device = on();
	Hits hits = {results.tids, batch.probes != nullptr ? results.probes : nullptr};
	uint64_t stored;
	HdStatus status = read_count(results.hits, &result->hits);

	if (status != HD_OK)
		return status;
	stored = std::min(result->hits, batch.room);
	if (batch.map_pages > 0 && stored > 0 && stored == result->hits)
		status = count_by_map(batch, hits, result);
	else if (batch.by_block && stored > 1 && stored == result->hits)
		status = sort_by_block(hits, stored);
	else if (batch.keys != nullptr && stored > 0)
		status = give_keys<Key>(batch, stored);
	if (status != HD_OK)
		return status;
	TRY(device, cudaEventRecord(device->events[3], device->stream));
	return bring_hits(batch, hits, stored - result->counted);
}

template <typename Key>
HdStatus
CudaIndex::search_batch(const HdBatch &batch, const SortPlan &plan, HdResult *result)
{
	CudaDevice *device = on();
	Probes<Key> probes = {};
	Results results = {};
	double *times[] = {&result->sort_ms, &result->search_ms, &result->hits_ms};
	HdStatus status = bring_keys(batch, probes);

	if (status == HD_OK)
		status = make_room(batch, results);
	if (status != HD_OK)
		return status;
	TRY(device, cudaEventRecord(device->events[0], device->stream));
	if (plan.bits > 0)
	{
		set_key_range(plan, probes);
		status = sort(plan, probes);
	}
	if (status != HD_OK)
		return status;
	TRY(device, cudaEventRecord(device->events[1], device->stream));
	TRY(device, launch_search<Key>(result->threads, plan.bits > 0, searched_tree<Key>(), probes,
								   results, device->stream));
	TRY(device, cudaEventRecord(device->events[2], device->stream));
	status = give_hits<Key>(batch, results, result);
	if (status != HD_OK)
		return status;
	for (int i = 0; i < 3; i++)
	{
		float ms;

		TRY(device, cudaEventElapsedTime(&ms, device->events[i], device->events[i + 1]));
		*times[i] = ms;
	}
	return HD_OK;
}

HdStatus
CudaIndex::search(const HdBatch &batch, const SortPlan &plan, HdResult *result)
{
	if (is_small(batch))
		return search_together(&batch, 1, result);
	if (shape.width == HT_WIDTH32)
		return search_batch<uint32_t>(batch, plan, result);
	if (shape.width == HT_WIDTH64)
		return search_batch<uint64_t>(batch, plan, result);
	return search_batch<Wide>(batch, plan, result);
}

} /* namespace harmonia */
