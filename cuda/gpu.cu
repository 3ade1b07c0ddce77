/*
 * gpu.cu
 *		The CUDA device: memory, transfers and the steps of a batch.
 */
#include "gpu_kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace harmonia;

namespace
{

/* What is written in one transfer, if it is not side by side. */
constexpr size_t staged_max = 32 << 20;

/*
 * Values are partitioned on their way back to probe order if they are more bytes than
 * this; so many can well be written at random into the L2 cache.
 */
constexpr uint64_t restore_min = 16 << 20;

/* Device memory that grows and is kept from batch to batch. */
struct Memory
{
	void	   *at = nullptr;
	size_t		size = 0;

	Memory() = default;
	Memory(const Memory &) = delete;
	Memory & operator=(const Memory &) = delete;
	~Memory()
	{
		cudaFree(at);
	}

	/* Make room; what was there is gone. */
	cudaError_t reserve(size_t needed)
	{
		cudaError_t error;

		if (needed <= size)
			return cudaSuccess;
		cudaFree(at);
		at = nullptr;
		size = 0;
		error = cudaMalloc(&at, needed);
		if (error == cudaSuccess)
			size = needed;
		return error;
	}

	template <typename Type>
	Type	   *as()
	{
		return (Type *) at;
	}
};

struct CudaDevice : HdDevice
{
	char		name[sizeof(HdInfo::name)] = "";
	cudaStream_t stream = nullptr;
	cudaEvent_t events[4] = {};

	/* Of the batch being searched; indexes take turns. */
	Memory		low,
				high,
				keys,
				numbers,
				sorted_keys,
				sorted_numbers,
				temporary,
				values,
				sorted_values,
				out_probes,
				out_values,
				hits,
				staged,
				staged_numbers;

	CudaDevice() : HdDevice(HD_CUDA)
	{
	}
	~CudaDevice() override;
	HdStatus	open(int number) override;
	HdStatus	info(HdInfo *result) override;
	HdStatus	pin(void *memory, size_t size) override;
	HdStatus	unpin(void *memory) override;
	HdIndex    *create_index() override;

	/* Status for the outcome of a call; running out of memory leaves no trace. */
	HdStatus	status(cudaError_t error, const char *what)
	{
		if (error == cudaSuccess)
			return HD_OK;
		cudaGetLastError();
		return fail(error == cudaErrorMemoryAllocation ? HD_NO_MEMORY : HD_FAILED,
					"%s: %s", what, cudaGetErrorString(error));
	}
};

#define TRY(device, call) \
	do { \
		HdStatus	status_ = (device)->status((call), #call); \
		if (status_ != HD_OK) \
			return status_; \
	} while (0)

struct CudaIndex : HdIndex
{
	char	   *pages = nullptr;
	Memory		device_keys;
	Memory		device_blocks;

	~CudaIndex() override
	{
		cudaFree(pages);
	}
	CudaDevice *on() const
	{
		return (CudaDevice *) device;
	}
	HdStatus	reserve(uint32_t blocks) override;
	HdStatus	write(const uint32_t *numbers, const char *from, uint32_t count,
					  size_t size) override;
	HdStatus	load_levels() override;
	uint64_t	memory() const override
	{
		return (uint64_t) reserved * HT_PAGE_SIZE + device_keys.size + device_blocks.size;
	}
	HdStatus	search(const HdBatch &batch, const SortPlan &plan, HdResult *result) override;

	template <typename Key>
	HdStatus	search_keys(const HdBatch &batch, const SortPlan &plan, HdResult *result);
	template <typename Key>
	HdStatus	sort(const HdBatch &batch, const SortPlan &plan, Probes<Key> &probes);
	template <typename Key>
	HdStatus	choose_group(const Probes<Key> &probes, HdResult *result);
	template <typename Value>
	HdStatus	restore(const uint32_t *numbers, uint32_t count, Value *out);
};

/* ----------------------------------------------------------------
 *		The device
 * ----------------------------------------------------------------
 */

HdStatus
CudaDevice::open(int wanted)
{
	cudaDeviceProp properties;
	int			count = 0;
	cudaError_t error = cudaGetDeviceCount(&count);

	if (error != cudaSuccess)
	{
		cudaGetLastError();
		return fail(HD_UNSUPPORTED, "there is no CUDA device: %s", cudaGetErrorString(error));
	}
	if (wanted < 0 || wanted >= count)
		return fail(HD_UNSUPPORTED, "there is no CUDA device %d", wanted);
	TRY(this, cudaSetDevice(wanted));
	TRY(this, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (cudaEvent_t &event : events)
		TRY(this, cudaEventCreate(&event));
	TRY(this, cudaGetDeviceProperties(&properties, wanted));
	snprintf(name, sizeof(name), "%s", properties.name);
	return HD_OK;
}

CudaDevice::~CudaDevice()
{
	for (cudaEvent_t event : events)
	{
		if (event != nullptr)
			cudaEventDestroy(event);
	}
	if (stream != nullptr)
		cudaStreamDestroy(stream);
}

HdStatus
CudaDevice::info(HdInfo *result)
{
	size_t		unused;
	size_t		all;

	TRY(this, cudaMemGetInfo(&unused, &all));
	memcpy(result->name, name, sizeof(name));
	result->memory = all;
	result->memory_free = unused;
	return HD_OK;
}

/* Whatever the reason is, it is none to give the device up. */
HdStatus
CudaDevice::pin(void *memory, size_t size)
{
	cudaError_t error = cudaHostRegister(memory, size, cudaHostRegisterDefault);

	if (error == cudaSuccess)
		return HD_OK;
	cudaGetLastError();
	return fail(HD_NO_MEMORY, "pinning %zu bytes: %s", size, cudaGetErrorString(error));
}

HdStatus
CudaDevice::unpin(void *memory)
{
	cudaError_t error = cudaHostUnregister(memory);

	if (error == cudaSuccess)
		return HD_OK;
	cudaGetLastError();
	return fail(error == cudaErrorHostMemoryNotRegistered || error == cudaErrorInvalidValue ?
				HD_INVALID : HD_FAILED, "unpinning: %s", cudaGetErrorString(error));
}

HdIndex *
CudaDevice::create_index()
{
	return new CudaIndex;
}

/* ----------------------------------------------------------------
 *		Indexes
 * ----------------------------------------------------------------
 */

HdStatus
CudaIndex::reserve(uint32_t blocks)
{
	CudaDevice *device = on();
	size_t		kept = (size_t) reserved * HT_PAGE_SIZE;
	size_t		size = (size_t) blocks * HT_PAGE_SIZE;
	void	   *more;
	cudaError_t error;

	TRY(device, cudaMalloc(&more, size));
	error = cudaMemsetAsync((char *) more + kept, 0, size - kept, device->stream);
	if (error == cudaSuccess && kept > 0)
		error = cudaMemcpyAsync(more, pages, kept, cudaMemcpyDeviceToDevice, device->stream);
	if (error == cudaSuccess)
		error = cudaStreamSynchronize(device->stream);
	if (error != cudaSuccess)
	{
		cudaFree(more);
		return device->status(error, "copying blocks");
	}
	cudaFree(pages);
	pages = (char *) more;
	return HD_OK;
}

HdStatus
CudaIndex::write(const uint32_t *numbers, const char *from, uint32_t count, size_t size)
{
	CudaDevice *device = on();
	uint32_t	chunk = std::min(count, (uint32_t) (staged_max / size));
	bool		together = true;

	for (uint32_t i = 1; i < count && together; i++)
		together = numbers[i] == numbers[i - 1] + 1;
	if (together)
	{
		TRY(device, cudaMemcpyAsync(pages + (size_t) numbers[0] * size, from, (size_t) count * size,
									cudaMemcpyHostToDevice, device->stream));
		TRY(device, cudaStreamSynchronize(device->stream));
		return HD_OK;
	}

	TRY(device, device->staged.reserve(chunk * size));
	TRY(device, device->staged_numbers.reserve(chunk * sizeof(uint32_t)));
	for (uint32_t first = 0; first < count; first += chunk)
	{
		uint32_t	n = std::min(count - first, chunk);

		TRY(device, cudaMemcpyAsync(device->staged_numbers.at, numbers + first, n * sizeof(uint32_t),
									cudaMemcpyHostToDevice, device->stream));
		TRY(device, cudaMemcpyAsync(device->staged.at, from + (size_t) first * size, n * size,
									cudaMemcpyHostToDevice, device->stream));
		TRY(device, launch_write(device->staged_numbers.as<uint32_t>(), device->staged.as<char>(),
								 n, size, pages, device->stream));
	}
	TRY(device, cudaStreamSynchronize(device->stream));
	return HD_OK;
}

HdStatus
CudaIndex::load_levels()
{
	CudaDevice *device = on();
	size_t		blocks_size = leaf_blocks.size() * sizeof(uint32_t);

	TRY(device, device_keys.reserve(keys.size()));
	TRY(device, device_blocks.reserve(blocks_size));
	if (!keys.empty())
		TRY(device, cudaMemcpyAsync(device_keys.at, keys.data(), keys.size(),
									cudaMemcpyHostToDevice, device->stream));
	if (blocks_size > 0)
		TRY(device, cudaMemcpyAsync(device_blocks.at, leaf_blocks.data(), blocks_size,
									cudaMemcpyHostToDevice, device->stream));
	TRY(device, cudaStreamSynchronize(device->stream));
	return HD_OK;
}

/* ----------------------------------------------------------------
 *		Batches
 * ----------------------------------------------------------------
 */

/* Partially-sorted aggregation; probes already has the keys as they came. */
template <typename Key>
HdStatus
CudaIndex::sort(const HdBatch &batch, const SortPlan &plan, Probes<Key> &probes)
{
	CudaDevice *device = on();
	const Key  *keys = probes.low;
	Key			base = (Key) plan.base;
	size_t		size = 0;

	TRY(device, device->numbers.reserve(batch.count * sizeof(uint32_t)));
	TRY(device, device->sorted_numbers.reserve(batch.count * sizeof(uint32_t)));
	TRY(device, device->sorted_keys.reserve(batch.count * sizeof(Key)));
	if (base != 0)
	{
		TRY(device, device->keys.reserve(batch.count * sizeof(Key)));
		keys = device->keys.as<Key>();
	}
	TRY(device, sort_probes<Key>(nullptr, &size, keys, device->sorted_keys.as<Key>(),
								 device->numbers.as<uint32_t>(),
								 device->sorted_numbers.as<uint32_t>(), batch.count,
								 plan.first_bit, plan.bits, device->stream));
	TRY(device, device->temporary.reserve(size));
	TRY(device, launch_number<Key>(probes.low, batch.count, base, device->keys.as<Key>(),
								   device->numbers.as<uint32_t>(), device->stream));
	TRY(device, sort_probes<Key>(device->temporary.at, &size, keys, device->sorted_keys.as<Key>(),
								 device->numbers.as<uint32_t>(),
								 device->sorted_numbers.as<uint32_t>(), batch.count,
								 plan.first_bit, plan.bits, device->stream));
	probes.low = device->sorted_keys.as<Key>();
	probes.base = base;
	probes.numbers = device->sorted_numbers.as<uint32_t>();
	probes.local_bits = plan.local_bits;
	probes.local_first_bit = plan.first_bit - plan.local_bits;
	return HD_OK;
}

/* Take a profile of queries that run together. */
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
		TRY(device, cudaStreamSynchronize(device->stream));
		for (uint32_t i = 0; i < count; i++)
			sample[i] += probes.base;
		profile(sample, count);
	}
	result->group = group;
	return HD_OK;
}

/*
 * Bring values from the order of the search into probe order.  One random write for
 * each of many values costs more than the search does; partitioned by probe number
 * first, they stay within a window of the output that fits into shared memory.
 */
template <typename Value>
HdStatus
CudaIndex::restore(const uint32_t *numbers, uint32_t count, Value *out)
{
	CudaDevice *device = on();
	int			number_bits = 32 - __builtin_clz(count - 1);
	int			bits = number_bits - window_bits;
	uint32_t   *sorted_numbers;
	size_t		size = 0;

	/* The sort is done with these. */
	TRY(device, device->numbers.reserve(count * sizeof(uint32_t)));
	TRY(device, device->sorted_values.reserve(count * sizeof(Value)));
	sorted_numbers = device->numbers.as<uint32_t>();
	TRY(device, partition_values<Value>(nullptr, &size, numbers, sorted_numbers,
										device->values.as<Value>(), device->sorted_values.as<Value>(),
										count, window_bits, bits, device->stream));
	TRY(device, device->temporary.reserve(size));
	TRY(device, partition_values<Value>(device->temporary.at, &size, numbers, sorted_numbers,
										device->values.as<Value>(), device->sorted_values.as<Value>(),
										count, window_bits, bits, device->stream));
	TRY(device, launch_scatter<Value>(sorted_numbers, device->sorted_values.as<Value>(), count, out,
									  device->stream));
	return HD_OK;
}

template <typename Key>
HdStatus
CudaIndex::search_keys(const HdBatch &batch, const SortPlan &plan, HdResult *result)
{
	CudaDevice *device = on();
	cudaStream_t stream = device->stream;
	size_t		keys_size = batch.count * sizeof(Key);
	size_t		value_size = batch.output == HD_COUNT ? sizeof(uint32_t) : sizeof(uint64_t);
	bool		pairs = batch.output == HD_PAIRS;
	uint64_t	outputs = pairs ? batch.room : batch.count;
	bool		restores;
	Probes<Key> probes = {};
	Results		results = {};
	void	   *out_values = batch.output == HD_COUNT ? (void *) batch.counts : (void *) batch.tids;

	probes.low = (const Key *) batch.low;
	probes.high = (const Key *) batch.high;
	probes.count = batch.count;
	results.output = batch.output;
	results.room = batch.room;
	results.probes = batch.probes;
	if (!batch.on_device)
	{
		TRY(device, device->low.reserve(keys_size));
		TRY(device, cudaMemcpyAsync(device->low.at, batch.low, keys_size, cudaMemcpyHostToDevice, stream));
		probes.low = device->low.as<Key>();
		if (batch.high != nullptr)
		{
			TRY(device, device->high.reserve(keys_size));
			TRY(device, cudaMemcpyAsync(device->high.at, batch.high, keys_size, cudaMemcpyHostToDevice,
										stream));
			probes.high = device->high.as<Key>();
		}
		TRY(device, device->out_values.reserve(outputs * value_size));
		out_values = device->out_values.at;
		if (pairs)
		{
			TRY(device, device->out_probes.reserve(outputs * sizeof(uint32_t)));
			results.probes = device->out_probes.as<uint32_t>();
		}
	}

	TRY(device, cudaEventRecord(device->events[0], stream));
	if (plan.bits > 0)
	{
		HdStatus	status = sort(batch, plan, probes);

		if (status != HD_OK)
			return status;
	}
	TRY(device, cudaEventRecord(device->events[1], stream));

	if (result->group.threads == HD_AUTOMATIC)
	{
		HdStatus	status = choose_group(probes, result);

		if (status != HD_OK)
			return status;
	}

	restores = !pairs && plan.bits > 0 && outputs * value_size > restore_min;
	results.in_place = !restores;
	results.tids = (uint64_t *) out_values;
	results.counts = (uint32_t *) out_values;
	if (restores)
	{
		TRY(device, device->values.reserve(outputs * value_size));
		results.tids = device->values.as<uint64_t>();
		results.counts = device->values.as<uint32_t>();
	}
	TRY(device, device->hits.reserve(sizeof(unsigned long long)));
	results.hits = device->hits.as<unsigned long long>();
	TRY(device, cudaMemsetAsync(results.hits, 0, sizeof(unsigned long long), stream));

	Tree<Key>	searched = tree<Key>(result->group.search == HT_GROUP_LINEAR);

	searched.pages = pages;
	searched.keys = device_keys.as<Key>();
	searched.blocks = device_blocks.as<uint32_t>();
	TRY(device, launch_search<Key>(result->group.threads, searched, probes, results, stream));
	TRY(device, cudaEventRecord(device->events[2], stream));

	if (restores)
	{
		HdStatus	status = batch.output == HD_COUNT ?
			restore<uint32_t>(probes.numbers, batch.count, (uint32_t *) out_values) :
			restore<uint64_t>(probes.numbers, batch.count, (uint64_t *) out_values);

		if (status != HD_OK)
			return status;
	}
	TRY(device, cudaEventRecord(device->events[3], stream));

	if (pairs)
	{
		unsigned long long hits = 0;

		TRY(device, cudaMemcpyAsync(&hits, results.hits, sizeof(hits), cudaMemcpyDeviceToHost, stream));
		TRY(device, cudaStreamSynchronize(stream));
		result->hits = hits;
		outputs = std::min((uint64_t) hits, batch.room);
	}
	if (!batch.on_device && outputs > 0)
	{
		TRY(device, cudaMemcpyAsync(batch.output == HD_COUNT ? (void *) batch.counts : batch.tids,
									out_values, outputs * value_size, cudaMemcpyDeviceToHost, stream));
		if (pairs)
			TRY(device, cudaMemcpyAsync(batch.probes, results.probes, outputs * sizeof(uint32_t),
										cudaMemcpyDeviceToHost, stream));
	}
	TRY(device, cudaStreamSynchronize(stream));

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

HdStatus
CudaIndex::search(const HdBatch &batch, const SortPlan &plan, HdResult *result)
{
	if (shape.width == HT_WIDTH32)
		return search_keys<uint32_t>(batch, plan, result);
	return search_keys<uint64_t>(batch, plan, result);
}

}								/* namespace */

HdDevice *
hd_cuda_device()
{
	return new CudaDevice;
}

int
hd_cuda_count()
{
	int			count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess)
	{
		cudaGetLastError();
		return 0;
	}
	return count;
}
