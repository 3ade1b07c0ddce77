/*
 * gpu_batch.cu
 *		The steps of a batch on a CUDA device.
 */
#include "gpu_device.h"

#include <algorithm>

namespace harmonia
{

namespace
{

/*
 * Digits for the radix partition.  The last pass takes the top bits.  A pass before it
 * takes some bits below them, unless these are too few.  More low bits cost more here
 * than they save in the search, but ranges, whose entries are visited twice, gain from
 * one more (measured on an H100 with 2^23 and 2^26 keys; bench/gpu measures it).
 */
constexpr int top_digit_bits = 8;
constexpr int low_digit_bits_points = 7;
constexpr int low_digit_bits_ranges = 8;
constexpr int low_digit_min = 4;

static_assert(top_digit_bits <= digit_bits && low_digit_bits_points <= digit_bits &&
			  low_digit_bits_ranges <= digit_bits, "digits fit into the bins");

/*
 * A batch of at least sample_min probes is sampled: to sort fewer takes hardly longer than to find
 * out whether they come in order.  They do if the keys of nearly all windows are within the part
 * of the key range in use that this many windows of a sorted batch cover.  More would make the
 * search slower by what the sort takes.
 */
constexpr uint32_t sample_min = 1 << 20;
constexpr uint32_t near_windows_min = sample_windows - 2;
constexpr uint32_t ordered_windows = 16;

/*
 * The digits of so many probes are estimated from a sample.  It saves a read of all keys, an eighteenth of the time
 * (H100).  Bins of fewer probes would have to be much larger than what they get.
 */
constexpr uint32_t estimated_min = 1 << 24;
constexpr uint32_t estimated_max = 1 << 30;
constexpr int counted_after_failure = 16;	/* batches */

/* No tile of a search or a pass has fewer probes. */
constexpr uint32_t least_tile = 256;

}								/* namespace */

/* Plan the passes of a sort. */
template <typename Low>
static Digits<Low>
plan_digits(const SortPlan &plan, bool ranges)
{
	Digits<Low> digits = {};
	int			top_bits = std::min(plan.bits, top_digit_bits);
	int			low_bits = std::min(plan.bits - top_bits,
									ranges ? low_digit_bits_ranges : low_digit_bits_points);

	if (low_bits >= low_digit_min)
		digits.digit[digits.passes++] = {plan.first_bit + plan.bits - top_bits - low_bits, low_bits};
	digits.digit[digits.passes++] = {plan.first_bit + plan.bits - top_bits, top_bits};
	return digits;
}

/* Note which bits of keys can differ. */
template <typename Key, typename Low>
static void
set_key_range(const SortPlan &plan, Key low_key, Probes<Key, Low> &probes)
{
	int			end = plan.first_bit + plan.bits;

	probes.prefix = (Low) (low_key - probes.base);
	probes.prefix_mask = end < 8 * (int) sizeof(Low) ? KeyLimits<Low>::max() << end : Low(0);
	probes.top_shift = std::max(end - 32, 0);
	probes.min_shift = std::max(plan.first_bit - probes.top_shift, 0);
}

/*
 * The room for what is sorted, and for its values: also for the tile that is written behind the bins after an overflow.
 * Some passes have tiles of twice the size.
 */
template <typename Low>
static size_t
room_for(uint32_t count, bool sampled)
{
	return sampled ? positions(count, true) + 2 * (size_t) pass_tile<Low>() : count;
}

/*
 * Partially-sorted aggregation: partition by the top bits here; the search kernel sorts
 * tiles by lower bits.  Unless the output is pairs, keep slots and runs for the way back
 * to probe order.  If bins are sampled, they have gaps between them, and can overflow.
 */
template <typename Key, typename Low>
HdStatus
CudaIndex::sort(const Digits<Low> &digits, HdOutput output, bool sampled, const Outliers &outliers,
				Probes<Key, Low> &probes)
{
	CudaDevice *device = on();
	uint32_t	count = probes.count;
	size_t		room = room_for<Low>(count, sampled);
	uint32_t   *overflow = sampled ? &device->batch.hits.as<BatchWords>()->overflow : nullptr;
	Bins	   *bins;

	TRY(device, device->batch.bins.reserve(passes_max * sizeof(Bins)));
	bins = device->batch.bins.as<Bins>();
	TRY(device, (launch_count<Key, Low>(probes.all_low, count, probes.base, digits, sampled, bins, device->stream)));
	for (int pass = 0; pass < digits.passes; pass++)
	{
		RadixPartition<Low> output_of_pass = {};

		TRY(device, device->batch.sorted_low[pass].reserve(room * sizeof(Low)));
		output_of_pass.low = device->batch.sorted_low[pass].as<Low>();
		if (output == HD_PAIRS || probes.all_high != nullptr)
		{
			TRY(device, device->batch.numbers[pass].reserve(room * sizeof(uint32_t)));
			output_of_pass.numbers = device->batch.numbers[pass].as<uint32_t>();
		}
		if (output != HD_PAIRS)
		{
			TRY(device, device->batch.slots[pass].reserve(room * sizeof(uint16_t)));
			TRY(device, device->batch.runs[pass].reserve((size_t) listed_tiles(count, pass_tile<Low>()) * digit_bins * sizeof(Run)));
			output_of_pass.slots = device->batch.slots[pass].as<uint16_t>();
			output_of_pass.runs = device->batch.runs[pass].as<Run>();
		}
		if (pass == 0)
			TRY(device, (launch_partition<Key, Low>(probes.all_low, nullptr, count, {}, probes.base, digits.digit[pass],
													&bins[pass], overflow, output_of_pass, outliers, device->stream)));
		else
			TRY(device, (launch_partition<Low, Low>(probes.low, probes.numbers, count, probes.binned, Low(0), digits.digit[pass],
													&bins[pass], overflow, output_of_pass, outliers, device->stream)));
		probes.low = output_of_pass.low;
		probes.numbers = output_of_pass.numbers;
		if (sampled)
		{
			TRY(device, device->batch.tiles[pass].reserve(listed_tiles(count, least_tile) * sizeof(TileRange)));
			probes.binned = {&bins[pass], overflow, device->batch.tiles[pass].as<TileRange>()};
		}
	}
	return HD_OK;
}

/*
 * Move values, which are in device->batch.values[0] in search order, to "out" in probe order.
 */
template <typename Low, typename Value, typename Out>
HdStatus
CudaIndex::restore(int passes, uint32_t count, bool sampled, Out *out)
{
	CudaDevice *device = on();
	const Value *values = device->batch.values[0].as<Value>();
	const uint32_t *overflow = sampled ? &device->batch.hits.as<BatchWords>()->overflow : nullptr;

	for (int pass = passes - 1; pass > 0; pass--)
	{
		Binned		to = {};

		if (sampled)
			to = {device->batch.bins.as<Bins>() + pass - 1, nullptr, device->batch.tiles[pass - 1].as<TileRange>()};
		TRY(device, device->batch.values[pass].reserve(room_for<Low>(count, sampled) * sizeof(Value)));
		TRY(device, (launch_restore<Low, Value, Value>(device->batch.slots[pass].as<uint16_t>(), device->batch.runs[pass].as<Run>(),
													   values, count, to, overflow, device->batch.values[pass].as<Value>(), device->stream)));
		values = device->batch.values[pass].as<Value>();
	}
	TRY(device, (launch_restore<Low, Value, Out>(device->batch.slots[0].as<uint16_t>(), device->batch.runs[0].as<Run>(),
												 values, count, {}, overflow, out, device->stream)));
	return HD_OK;
}

template <typename Low>
HdStatus
CudaIndex::restore_values(int passes, const HdBatch &batch, bool sampled, bool short_tids, void *out)
{
	if (batch.output == HD_COUNT)
		return restore<Low, uint32_t>(passes, batch.count, sampled, (uint32_t *) out);
	if (short_tids)
		return restore<Low, uint32_t>(passes, batch.count, sampled, (uint64_t *) out);
	return restore<Low, uint64_t>(passes, batch.count, sampled, (uint64_t *) out);
}

/* Choose the thread group.  Samples runs of probes that one warp searches together. */
template <typename Key>
HdStatus
CudaIndex::choose_group(const Probes<Key> &probes, HdResult *result)
{
	CudaDevice *device = on();

	if (!profiled)
	{
		Key			sample[profile_runs * profile_run];
		uint32_t	run = std::min(probes.count / profile_runs, profile_run);
		size_t		pitch = probes.count / profile_runs * sizeof(Key);
		uint32_t	count = run * profile_runs;

		if (count > 0)
			TRY(device, cudaMemcpy2DAsync(sample, run * sizeof(Key), probes.low, pitch,
										  run * sizeof(Key), profile_runs, cudaMemcpyDeviceToHost,
										  device->stream));
		AWAIT(device);
		for (uint32_t i = 0; i < count; i++)
			sample[i] = sample[i] + probes.base;
		profile(sample, count);
	}
	result->group = chosen_group();
	return HD_OK;
}

/* Count the hits on pages of the batch's map.  Replaces the hits by the others. */
HdStatus
CudaIndex::count_by_map(const HdBatch &batch, Hits &hits, HdResult *result)
{
	CudaDevice *device = on();
	cudaStream_t stream = device->stream;
	size_t		map_size = ((size_t) batch.map_pages + 31) / 32 * sizeof(uint32_t);
	unsigned long long *kept_count = device->batch.hits.as<unsigned long long>();
	size_t		counts_size = hits.probes != nullptr ? batch.count * sizeof(uint32_t) : 0;
	uint32_t   *counts = batch.counts;
	PageMap		map = {batch.map, batch.map_pages};
	Hits		kept = {};

	if (!batch.on_device)
	{
		TRY(device, device->batch.map.reserve(map_size));
		TRY(device, cudaMemcpyAsync(device->batch.map.at, batch.map, map_size, cudaMemcpyHostToDevice, stream));
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
		TRY(device, cudaMemcpyAsync(batch.counts, counts, counts_size, cudaMemcpyDeviceToHost, stream));
	TRY(device, cudaMemcpyAsync(&device->words->count, kept_count, sizeof(*kept_count),
								cudaMemcpyDeviceToHost, stream));
	AWAIT(device);
	result->counted = result->hits - device->words->count;
	hits = kept;
	return HD_OK;
}

/* Sort hits by heap block, into other memory. */
HdStatus
CudaIndex::sort_by_block(Hits &hits, uint64_t count)
{
	CudaDevice *device = on();
	size_t		size = 0;
	Hits		sorted = {};

	TRY(device, device->batch.kept.reserve(count * sizeof(uint64_t)));
	sorted.tids = device->batch.kept.as<uint64_t>();
	if (hits.probes != nullptr)
	{
		TRY(device, device->batch.kept_probes.reserve(count * sizeof(uint32_t)));
		sorted.probes = device->batch.kept_probes.as<uint32_t>();
	}
	TRY(device, launch_sort_hits(nullptr, size, hits, sorted, count, device->stream));
	TRY(device, device->batch.hit_sort.reserve(size));
	TRY(device, launch_sort_hits(device->batch.hit_sort.at, size, hits, sorted, count, device->stream));
	hits = sorted;
	return HD_OK;
}

/* Write the keys of a batch's hits, whose slots are known. */
template <typename Key>
HdStatus
CudaIndex::give_keys(const HdBatch &batch, uint64_t count)
{
	CudaDevice *device = on();
	Key		   *keys = (Key *) batch.keys;

	if (!batch.on_device)
	{
		TRY(device, device->batch.out_keys.reserve(count * sizeof(Key)));
		keys = device->batch.out_keys.as<Key>();
	}
	TRY(device, launch_read_keys<Key>(pages.at(), device->batch.hit_slots.as<uint64_t>(), count, keys, device->stream));
	if (!batch.on_device)
		TRY(device, cudaMemcpyAsync(batch.keys, keys, count * sizeof(Key), cudaMemcpyDeviceToHost, device->stream));
	return HD_OK;
}

/*
 * Can points be sorted as 32-bit offsets?  If so, set the plan's base to what they are offsets
 * from.  There are kernels for single threads only.
 */
bool
CudaIndex::plan_narrow(const HdBatch &batch, const HdResult &result, SortPlan &plan) const
{
	const HtGroupChoice &used = result.group.threads == HD_AUTOMATIC && profiled ? group : result.group;
	int			range_bits = plan.first_bit + plan.bits;

	if (plan.bits == 0 || batch.high != nullptr || range_bits > 32 || used.threads != 1 || used.search != HT_GROUP_KARY)
		return false;
	if (plan.base == AnyKey(0))
		plan.base = AnyKey((uint64_t) low_key >> range_bits << range_bits);
	return true;
}

/*
 * Are the digits of a batch's probes to be estimated?  Then these are searched in tiles, as only tiles are listed.  That is not
 * known before the thread group is chosen.  If an estimate has failed, the next ones might, too.
 */
template <typename Key>
bool
CudaIndex::to_be_estimated(const HdBatch &batch, const HdResult &result)
{
	const HtGroupChoice &used = result.group.threads == HD_AUTOMATIC && profiled ? group : result.group;

	if (used.threads != 1 || used.search != HT_GROUP_KARY || batch.count > estimated_max ||
		(is_wide<Key> && batch.high != nullptr))
		return false;
	if (batch.estimates)
		return true;
	if (batch.count < estimated_min)
		return false;
	if (counted_batches == 0)
		return true;
	counted_batches--;
	return false;
}

/* Bring a batch's keys to the device, if they are not there. */
HdStatus
CudaIndex::bring_keys(const HdBatch &batch, BatchKeys &keys)
{
	CudaDevice *device = on();
	size_t		size = batch.count * (size_t) shape.width;

	keys = {batch.low, batch.high, false};
	if (batch.on_device)
		return HD_OK;
	TRY(device, device->batch.low.reserve(size));
	TRY(device, cudaMemcpyAsync(device->batch.low.at, batch.low, size, cudaMemcpyHostToDevice, device->stream));
	keys.low = device->batch.low.at;
	if (batch.high != nullptr)
	{
		TRY(device, device->batch.high.reserve(size));
		TRY(device, cudaMemcpyAsync(device->batch.high.at, batch.high, size, cudaMemcpyHostToDevice, device->stream));
		keys.high = device->batch.high.at;
	}
	return HD_OK;
}

/*
 * Find out from samples whether probes come in the order of their keys, or so nearly that a sort
 * would gain nothing.  Batches of equal keys do, too.  A wrong answer costs time only.
 */
template <typename Key>
HdStatus
CudaIndex::find_order(const HdBatch &batch, BatchKeys &keys)
{
	CudaDevice *device = on();
	int			shift = 0;

	while (batch.count >> shift > 2 * ordered_windows * window_probes)
		shift++;
	TRY(device, launch_sample<Key>((const Key *) keys.low, batch.count, (Key) low_key, (Key) high_key,
								   (Key) ((high_key - low_key) >> shift), &device->words->near_windows,
								   device->stream));
	AWAIT(device);
	keys.ordered = device->words->near_windows >= near_windows_min;
	return HD_OK;
}

/* No slot has been seen. */
HdStatus
CudaIndex::begin_distinct(Results &results)
{
	CudaDevice *device = on();
	size_t		size = (count_slots((uint32_t) leaf_blocks.size()) + 31) / 32 * sizeof(uint32_t);

	TRY(device, device->batch.seen.reserve(size));
	results.seen = device->batch.seen.as<uint32_t>();
	TRY(device, cudaMemsetAsync(results.seen, 0, size, device->stream));
	return HD_OK;
}

/*
 * @tparam Low	the type of offsets that are sorted
 */
template <typename Key, typename Low>
HdStatus
CudaIndex::search_keys(const HdBatch &batch, const SortPlan &plan, const BatchKeys &keys, HdResult *result)
{
	constexpr bool narrow = sizeof(Low) < sizeof(Key);
	CudaDevice *device = on();
	cudaStream_t stream = device->stream;
	size_t		value_size = batch.output == HD_COUNT ? sizeof(uint32_t) : sizeof(uint64_t);
	bool		pairs = batch.output == HD_PAIRS;
	uint64_t	outputs = pairs ? batch.room : batch.count;
	bool		tiled = plan.bits > 0;
	bool		partitioned = tiled && !keys.ordered;
	bool		restores = partitioned && !pairs;
	bool		short_tids = restores && batch.output == HD_FIRST && !long_tids;
	bool		estimated = partitioned && to_be_estimated<Key>(batch, *result);
	Digits<Low> digits = {};
	Probes<Key, Low> probes = {};
	Outliers	outliers = {};
	Results		results = {};
	void	   *out_values = batch.output == HD_COUNT ? (void *) batch.counts : (void *) batch.tids;

	probes.all_low = (const Key *) keys.low;
	probes.all_high = (const Key *) keys.high;
	probes.count = batch.count;
	results.output = batch.output;
	results.room = batch.room;
	results.probes = batch.probes;
	if (!batch.on_device)
	{
		TRY(device, device->batch.out_values.reserve(outputs * value_size));
		out_values = device->batch.out_values.at;
	}
	/*
	 * Writing probe numbers costs less than a test at each pair whether they are
	 * wanted.
	 */
	if (pairs && (!batch.on_device || batch.probes == nullptr))
	{
		TRY(device, device->batch.out_probes.reserve(outputs * sizeof(uint32_t)));
		results.probes = device->batch.out_probes.as<uint32_t>();
	}
	if (batch.keys != nullptr)
	{
		TRY(device, device->batch.hit_slots.reserve(batch.room * sizeof(uint64_t)));
		results.slots = device->batch.hit_slots.as<uint64_t>();
	}

	TRY(device, device->batch.hits.reserve(sizeof(BatchWords)));
	results.hits = &device->batch.hits.as<BatchWords>()->hits;
	if constexpr (narrow)
	{
		TRY(device, device->batch.outliers.reserve(((size_t) batch.count + 1) * sizeof(uint32_t)));
		outliers.count = device->batch.outliers.as<uint32_t>();
		outliers.numbers = outliers.count + 1;
	}
	else
		probes.low = probes.all_low;
	if (tiled)
	{
		probes.base = (Key) plan.base;
		set_key_range(plan, (Key) low_key, probes);
	}
	if (partitioned)
		digits = plan_digits<Low>(plan, batch.high != nullptr);

	/* A search is repeated if it turns out that digits must be counted, or that tids are too long. */
	for (bool again = true; again;)
	{
		const BatchWords &words = device->words->batch;
		HdStatus	status = HD_OK;

		TRY(device, cudaMemsetAsync(device->batch.hits.at, 0, sizeof(BatchWords), stream));
		if constexpr (narrow)
			TRY(device, cudaMemsetAsync(outliers.count, 0, sizeof(uint32_t), stream));
		if (batch.distinct)
			status = begin_distinct(results);
		if (status == HD_OK && partitioned)
			status = sort(digits, batch.output, estimated, outliers, probes);
		if (status != HD_OK)
			return status;
		TRY(device, cudaEventRecord(device->events[1], stream));

		if constexpr (narrow)
			result->group = result->group.threads == HD_AUTOMATIC ? group : result->group;
		else if (result->group.threads == HD_AUTOMATIC)
			status = choose_group(probes, result);
		if (status != HD_OK)
			return status;

		results.tids = (uint64_t *) out_values;
		results.counts = (uint32_t *) out_values;
		if (restores)
		{
			TRY(device, device->batch.values[0].reserve(room_for<Low>(batch.count, estimated) * (short_tids ? sizeof(uint32_t) : value_size)));
			results.tids = device->batch.values[0].as<uint64_t>();
			results.counts = device->batch.values[0].as<uint32_t>();
			results.short_tids = short_tids ? device->batch.values[0].as<uint32_t>() : nullptr;
		}

		Tree<Key>	searched = searched_tree<Key>(result->group.search);

		if constexpr (narrow)
			TRY(device, launch_narrow_search(searched, probes, results, stream));
		else
			TRY(device, launch_search<Key>(result->group, tiled, searched, probes, results, stream));
		TRY(device, cudaEventRecord(device->events[2], stream));
		if (restores)
			status = restore_values<Low>(digits.passes, batch, estimated, short_tids, out_values);
		if (status != HD_OK)
			return status;
		if constexpr (narrow)
		{
			Results		restored = results;

			restored.tids = (uint64_t *) out_values;
			restored.counts = (uint32_t *) out_values;
			TRY(device, launch_outlier_search(searched, probes.all_low, outliers, restored, stream));
		}
		TRY(device, cudaEventRecord(device->events[3], stream));
		if (!pairs && !short_tids && !estimated)
			break;

		TRY(device, cudaMemcpyAsync(&device->words->batch, device->batch.hits.at, sizeof(BatchWords), cudaMemcpyDeviceToHost,
									stream));
		AWAIT(device);
		again = words.overflow != 0 || (short_tids && words.hits != 0);
		if (words.overflow != 0)
		{
			estimated = false;
			counted_batches = counted_after_failure;
		}
		else if (again)
		{
			/* This index has such tids. */
			long_tids = true;
			short_tids = false;
		}
		probes.numbers = nullptr;
		probes.binned = {};
	}
	result->estimated = estimated;

	if (pairs)
	{
		uint64_t	count;
		Hits		hits = {(uint64_t *) out_values, batch.probes != nullptr ? results.probes : nullptr};
		HdStatus	status = HD_OK;

		result->hits = count = device->words->batch.hits;
		outputs = std::min(count, batch.room);
		if (batch.map_pages > 0 && count > 0 && count <= batch.room)
			status = count_by_map(batch, hits, result);
		else if (batch.by_block && count > 1 && count <= batch.room)
			status = sort_by_block(hits, count);
		else if (batch.keys != nullptr && outputs > 0)
			status = give_keys<Key>(batch, outputs);
		if (status != HD_OK)
			return status;
		outputs -= result->counted;
		out_values = hits.tids;
		results.probes = hits.probes;
	}
	if (outputs > 0 && out_values != (batch.output == HD_COUNT ? (void *) batch.counts : batch.tids))
	{
		cudaMemcpyKind kind = batch.on_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;

		TRY(device, cudaMemcpyAsync(batch.output == HD_COUNT ? (void *) batch.counts : batch.tids,
									out_values, outputs * value_size, kind, stream));
		if (pairs && batch.probes != nullptr)
			TRY(device, cudaMemcpyAsync(batch.probes, results.probes, outputs * sizeof(uint32_t),
										kind, stream));
	}
	AWAIT(device);

	if (batch.timed)
	{
		double	   *times[] = {&result->sort_ms, &result->search_ms, &result->restore_ms};

		for (int i = 0; i < 3; i++)
		{
			float		ms;

			TRY(device, cudaEventElapsedTime(&ms, device->events[i], device->events[i + 1]));
			*times[i] = ms;
		}
	}
	return HD_OK;
}

/* Keys that are not sorted are searched as they are: as offsets from 0. */
SortPlan
CudaIndex::plan_without_base(SortPlan plan) const
{
	if (plan.base == AnyKey(0))
		return plan;
	plan.base = 0;
	plan.first_bit = bit_length(low_key ^ high_key) - plan.bits;
	return plan;
}

template <typename Key>
HdStatus
CudaIndex::search_batch(const HdBatch &batch, const SortPlan &plan, HdResult *result)
{
	BatchKeys	keys;
	HdStatus	status;

	status = bring_keys(batch, keys);
	if (status != HD_OK)
		return status;
	TRY(on(), cudaEventRecord(on()->events[0], on()->stream));
	if (plan.bits > 0 && batch.psa_bits == HD_AUTOMATIC && batch.count >= sample_min)
	{
		status = find_order<Key>(batch, keys);
		if (status != HD_OK)
			return status;
		if (keys.ordered)
			result->psa_bits = 0;
	}
	if (keys.ordered)
		return search_keys<Key, Key>(batch, plan_without_base(plan), keys, result);
	if constexpr (sizeof(Key) == HT_WIDTH64)
	{
		SortPlan	narrow = plan;

		if (plan_narrow(batch, *result, narrow))
			return search_keys<uint64_t, uint32_t>(batch, narrow, keys, result);
	}
	return search_keys<Key, Key>(batch, plan, keys, result);
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

}								/* namespace harmonia */
