/*
 * device.cc
 *		The functions of harmonia_device.h, as far as they are the same for all kinds
 *		of device; those for lists of leaves are in leaves.cc.
 */
#include "device_base.h"

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>

using namespace harmonia;

/*
 * Smaller batches are not sorted.  The passes of a sort cost a few microseconds each,
 * more than the search of so few probes in any order.
 */
static constexpr uint32_t sort_min = 32768;

/* Nor are batches sorted by fewer bits than this. */
static constexpr int sort_bits_min = 4;

/* Nor by more. */
static constexpr int sort_bits_max = 64;

/* The widest group of threads. */
static constexpr int warp_lanes = 32;

/*
 * So many of a batch's probes are profiled.  The papers take 1,000, once; these take some 10
 * microseconds each time.
 */
static constexpr uint32_t profiled = 64;

/*
 * Entries of a leaf, about: leaves differ in width, and Equation 2 takes a logarithm of their
 * number.
 */
static constexpr uint64_t usual_leaf_entries = 1024;

HdStatus
HdDevice::fail(HdStatus status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, sizeof(error), format, args);
	va_end(args);
	return status;
}

int
hd_device_count(HdKind kind)
{
	return kind == HD_HOST ? 1 : kind == HD_CUDA ? hd_cuda_count() : 0;
}

HdStatus
hd_device_open(HdKind kind, int number, HdDevice **device)
{
	*device = nullptr;
	try
	{
		*device = kind == HD_CUDA ? hd_cuda_device() : hd_host_device();
	}
	catch (const std::bad_alloc &)
	{
		return HD_NO_MEMORY;
	}
	return (*device)->open(number);
}

void
hd_device_close(HdDevice *device)
{
	if (device != nullptr)
		device->enter();
	delete device;
}

HdStatus
hd_device_info(HdDevice *device, HdInfo *info)
{
	memset(info, 0, sizeof(*info));
	info->kind = device->kind;
	device->enter();
	return device->info(info);
}

HdStatus
hd_device_pin(HdDevice *device, void *memory, size_t size)
{
	device->enter();
	return device->pin(memory, size);
}

HdStatus
hd_device_unpin(HdDevice *device, void *memory)
{
	device->enter();
	return device->unpin(memory);
}

uint64_t
hd_device_batch_memory(const HdDevice *device)
{
	return device->batch_memory();
}

void
hd_device_free_batch_memory(HdDevice *device)
{
	device->enter();
	device->free_batch_memory();
}

void
hd_device_set_goes_on(HdDevice *device, HdGoesOn goes_on, void *argument)
{
	device->goes_on = goes_on;
	device->goes_on_argument = argument;
}

static int64_t
now_ns()
{
	return std::chrono::duration_cast<std::chrono::nanoseconds>(
			   std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

HdTicker::HdTicker(HdDevice *on) : device(on), asked_ns(now_ns())
{
}

bool
HdTicker::gives_up()
{
	if (!over && device->goes_on != nullptr)
	{
		int64_t now = now_ns();

		if (now - asked_ns >= HD_TICK_MS * INT64_C(1000000))
		{
			over = !device->goes_on(device->goes_on_argument);
			asked_ns = now_ns();
		}
	}
	return over;
}

bool
harmonia::search_gives_up(void *stop)
{
	return ((HdTicker *) stop)->gives_up();
}

const char *
hd_device_error(const HdDevice *device)
{
	return device->error;
}

HdStatus
hd_index_create(HdDevice *device, HtWidth width, int fanout, HdIndex **index)
{
	*index = nullptr;
	if (width != HT_WIDTH32 && width != HT_WIDTH64 && width != HT_WIDTH128)
		return device->fail(HD_INVALID, "keys of %d bytes are not supported", (int) width);
	if (fanout < HT_MIN_FANOUT || fanout > HT_MAX_FANOUT)
		return device->fail(HD_INVALID, "fanout %d is out of range", fanout);
	try
	{
		*index = device->create_index();
	}
	catch (const std::bad_alloc &)
	{
		return device->fail(HD_NO_MEMORY, "out of memory");
	}
	(*index)->device = device;
	(*index)->shape.width = width;
	(*index)->shape.fanout = fanout;
	return HD_OK;
}

void
hd_index_free(HdIndex *index)
{
	if (index != nullptr)
		index->device->enter();
	delete index;
}

HdStatus
hd_index_reserve(HdIndex *index, uint32_t blocks, bool on_host)
{
	HdStatus status;

	if (blocks <= index->reserved)
		return HD_OK;
	index->device->enter();
	status = index->reserve(blocks, on_host);
	if (status != HD_OK)
		return status;
	if (on_host)
		index->host_blocks += blocks - index->reserved;
	index->reserved = blocks;
	return HD_OK;
}

HdStatus
hd_index_write(HdIndex *index, const uint32_t *numbers, const void *pages, uint32_t count)
{
	index->device->enter();
	for (uint32_t i = 0; i < count; i++)
	{
		if (numbers[i] >= index->reserved)
			return index->device->fail(HD_INVALID, "block %u is beyond the %u reserved blocks",
									   numbers[i], index->reserved);
	}
	return count == 0 ? HD_OK : index->write(numbers, (const char *) pages, count, HT_PAGE_SIZE);
}

HdStatus
hd_index_write_lines(HdIndex *index, const uint32_t *numbers, const void *lines, uint32_t count)
{
	constexpr uint32_t page_lines = HT_PAGE_SIZE / HD_LINE_SIZE;

	index->device->enter();
	for (uint32_t i = 0; i < count; i++)
	{
		if (numbers[i] / page_lines >= index->reserved)
			return index->device->fail(HD_INVALID, "line %u is beyond the %u reserved blocks",
									   numbers[i], index->reserved);
	}
	return count == 0 ? HD_OK : index->write(numbers, (const char *) lines, count, HD_LINE_SIZE);
}

uint64_t
hd_index_memory(const HdIndex *index)
{
	return (uint64_t) (index->reserved - index->host_blocks) * HT_PAGE_SIZE +
		   index->levels_memory();
}

uint64_t
hd_index_host_memory(const HdIndex *index)
{
	return (uint64_t) index->host_blocks * HT_PAGE_SIZE;
}

/*
 * Plan the sort: Equation 2 of the PSA paper, on the key range in use.  Bits that are
 * the same in all keys of the range, once its lowest key is subtracted, are left out.
 */
static SortPlan
plan_sort(const HdIndex &index, const HdBatch &batch)
{
	SortPlan plan = {batch.psa_bits, 0, index.low_key};
	int key_bits = 8 * (int) index.shape.width;
	int line = 64 / (int) index.shape.width; /* keys of a cache line */
	int range_bits = bit_length(index.high_key - index.low_key);
	uint64_t entries = (uint64_t) index.leaf_blocks.size() * usual_leaf_entries;

	if (plan.bits < 0)
	{
		plan.bits = ht_psa_bits(key_bits, entries, line);
		if (batch.count < sort_min || plan.bits < sort_bits_min)
			plan.bits = 0;
	}
	plan.bits = std::min(plan.bits, std::min(range_bits, sort_bits_max));
	plan.first_bit = range_bits - plan.bits;
	return plan;
}

/*
 * Note which children some probes of a batch take in the inner nodes: runs of neighbours, spread
 * evenly.  It goes level by level, so that the memory brings nodes for several probes at the same
 * time.
 */
template <typename Key>
static void
trace(const HdIndex &index, const HdBatch &batch, uint32_t run, uint8_t *children)
{
	const Key *keys = (const Key *) index.keys.data();
	const HtShape &shape = index.shape;
	Key sample[profiled];
	uint32_t numbers[profiled] = {};

	for (uint32_t i = 0; i < profiled; i++)
		sample[i] = ((const Key *) batch.low)[batch.count / profiled * (i - i % run) + i % run];
	for (int level = 0; level < shape.levels; level++)
	{
		for (uint32_t i = 0; i < profiled; i++)
		{
			const Key *node =
				keys + (size_t) (shape.level_start[level] + numbers[i]) * (size_t) shape.fanout;
			int child =
				shape.fanout == HD_DEFAULT_FANOUT ?
					find_child<HD_DEFAULT_FANOUT>(HostGroup<1>(), node, shape.fanout, sample[i]) :
					find_child<0>(HostGroup<1>(), node, shape.fanout, sample[i]);

			numbers[i] = numbers[i] * (uint32_t) shape.fanout + (uint32_t) child;
			children[i * (uint32_t) shape.levels + (uint32_t) level] = (uint8_t) child;
		}
	}
}

/*
 * Narrowed thread groups: the number of threads for each probe of a batch.  It is chosen for
 * each batch, by a profile of some of its probes, spread evenly over it; if it is not sorted,
 * neighbours are what a warp searches together. Small batches are not worth that, and keys in
 * device memory are not there to see.
 */
static int
choose_threads(const HdIndex &index, const HdBatch &batch, bool sorted)
{
	uint8_t children[profiled * HT_MAX_LEVELS];
	const HtShape &shape = index.shape;
	uint32_t root = shape.levels == 1 ? shape.leaves : shape.level_start[2] - shape.level_start[1];
	HtProfile profile = {shape.fanout, (int) root, shape.levels, profiled, children, sorted};
	uint32_t run = sorted ? 1 : warp_lanes;

	if (batch.threads > 0)
		return batch.threads;
	if (batch.high != nullptr || batch.distinct || batch.on_device || batch.count < sort_min ||
		shape.levels == 0)
		return 1;
	if (shape.width == HT_WIDTH32)
		trace<uint32_t>(index, batch, run, children);
	else if (shape.width == HT_WIDTH64)
		trace<uint64_t>(index, batch, run, children);
	else
		trace<Wide>(index, batch, run, children);
	return ht_ntg_threads(&profile, warp_lanes);
}

HdStatus
hd_index_search(HdIndex *index, const HdBatch *batch, HdResult *result)
{
	return hd_index_search_on(index->device, index, batch, result);
}

HdStatus
hd_index_search_on(HdDevice *device, HdIndex *index, const HdBatch *batch, HdResult *result)
{
	device->enter();
	memset(result, 0, sizeof(*result));
	if (batch->psa_bits < HD_AUTOMATIC)
		return device->fail(HD_INVALID, "cannot sort by %d bits", batch->psa_bits);
	if (batch->threads < 0 || batch->threads > warp_lanes ||
		(batch->threads & (batch->threads - 1)) != 0 ||
		(batch->threads > 1 && (batch->high != nullptr || batch->distinct)))
		return device->fail(HD_INVALID, "%d threads cannot search for such a probe",
							batch->threads);
	if (batch->count > INT32_MAX)
		return device->fail(HD_INVALID, "%u probes are too many", batch->count);
	if (batch->distinct && batch->high != nullptr)
		return device->fail(HD_INVALID, "only points can be distinct");
	if (batch->map_pages > 0 && batch->probes != nullptr && batch->counts == nullptr)
		return device->fail(HD_INVALID, "with probes hits are counted where there are counts");
	if (batch->by_block && (batch->probes == nullptr || batch->map_pages > 0))
		return device->fail(HD_INVALID, "only pairs without a map can be sorted by block");
	if (batch->keys != nullptr && (batch->probes == nullptr || batch->high == nullptr ||
								   batch->map_pages > 0 || batch->by_block))
		return device->fail(HD_INVALID,
							"only pairs of ranges have keys, without a map and in no order");
	if (batch->count == 0)
		return HD_OK;

	try
	{
		SortPlan plan = plan_sort(*index, *batch);

		result->psa_bits = plan.bits;
		result->threads = choose_threads(*index, *batch, plan.bits > 0);
		return index->search(*batch, plan, result);
	}
	catch (const std::bad_alloc &)
	{
		return device->fail(HD_NO_MEMORY, "out of memory");
	}
}

int
hd_index_joins(const HdIndex *index, const HdBatch *batch)
{
	return index->joins(*batch);
}

HdStatus
hd_index_search_together(HdDevice *device, HdIndex *index, const HdBatch *batches, int count,
						 HdResult *results)
{
	device->enter();
	memset(results, 0, sizeof(*results) * (size_t) count);
	return index->search_together(batches, count, results);
}
