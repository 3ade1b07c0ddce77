/*
 * gpu_device.cu
 *		The CUDA device: memory and transfers.
 */
#include "gpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace harmonia
{

/* Pinned memory through which inner levels go, in bytes. */
constexpr size_t bounce_size = 4 << 20;

HdStatus
CudaDevice::open(int wanted)
{
	cudaDeviceProp properties;
	int count = 0;
	int same_addresses = 0;
	cudaError_t error = cudaGetDeviceCount(&count);

	if (error != cudaSuccess)
	{
		cudaGetLastError();
		return fail(HD_UNSUPPORTED, "there is no CUDA device: %s", cudaGetErrorString(error));
	}
	if (wanted < 0 || wanted >= count)
		return fail(HD_UNSUPPORTED, "there is no CUDA device %d", wanted);
	TRY(this, cudaSetDevice(wanted));
	number = wanted;
	TRY(this, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	TRY(this, cudaStreamCreateWithFlags(&stopping, cudaStreamNonBlocking));
	TRY(this, cudaMallocHost((void **) &words, sizeof(*words)));
	TRY(this, cudaMallocHost((void **) &bounce, bounce_size));
	TRY(this, stop.reserve(sizeof(uint32_t)));
	TRY(this, cudaMemsetAsync(stop.at, 0, sizeof(uint32_t), stream));
	TRY(this, counters.reserve(sizeof(SmallCounters[HD_TOGETHER_MAX])));
	TRY(this, cudaMemsetAsync(counters.at, 0, counters.size, stream));
	for (cudaEvent_t &event : events)
		TRY(this, cudaEventCreate(&event));
	TRY(this, cudaGetDeviceProperties(&properties, wanted));
	snprintf(name, sizeof(name), "%s", properties.name);
	maps_host = host_memory_maps();
	TRY(this, cudaDeviceGetAttribute(&same_addresses, cudaDevAttrCanUseHostPointerForRegisteredMem,
									 wanted));
	sees_pinned = same_addresses != 0;
	return try_kernel();
}

/* CUDA's current device is one for each thread.  If this fails, so do the calls after it. */
void
CudaDevice::enter()
{
	HdDevice::enter();
	if (number >= 0 && cudaSetDevice(number) != cudaSuccess)
		cudaGetLastError();
}

/*
 * Run a kernel and check what it has done.  A device for which there is no code, or which
 * does not work, is thus found out before anything relies on it.
 */
HdStatus
CudaDevice::try_kernel()
{
	size_t size = sizeof(words->tried[0]);

	words->one = 1;
	words->number = 1;
	memset(words->tried[0], 0xA5, size);
	memset(words->tried[1], 0, size);
	TRY(this, batch.staged.reserve(size));
	TRY(this, batch.staged_numbers.reserve(sizeof(uint32_t)));
	TRY(this, batch.kept.reserve(2 * size));
	TRY(this, cudaMemcpyAsync(batch.staged_numbers.at, &words->number, sizeof(uint32_t),
							  cudaMemcpyHostToDevice, stream));
	TRY(this,
		cudaMemcpyAsync(batch.staged.at, words->tried[0], size, cudaMemcpyHostToDevice, stream));
	TRY(this, launch_write(batch.staged_numbers.as<uint32_t>(), batch.staged.as<char>(), 1, size,
						   batch.kept.as<char>(), stream));
	TRY(this, cudaMemcpyAsync(words->tried[1], batch.kept.as<char>() + size, size,
							  cudaMemcpyDeviceToHost, stream));
	TRY(this, cudaStreamSynchronize(stream));
	if (memcmp(words->tried[0], words->tried[1], size) != 0)
		return fail(HD_FAILED, "the GPU does not compute what it should");
	return HD_OK;
}

/* Wait until all work is done, or stopped as nobody wants it any longer. */
HdStatus
CudaDevice::wait()
{
	return wait_until(
		[this]()
		{
			cudaError_t error = cudaStreamQuery(stream);

			/* Or it would count as the error of a later launch. */
			if (error == cudaErrorNotReady)
				cudaGetLastError();
			return error;
		});
}

/*
 * Begin to bring memory that is not pinned to the device, by way of memory that is: several
 * times as fast.  The caller waits for the end.
 */
HdStatus
CudaDevice::send(void *to, const void *from, size_t size)
{
	for (size_t done = 0; done < size;)
	{
		size_t n = std::min(size - done, bounce_size - bounced);

		if (n == 0)
		{
			HdStatus status = wait();

			if (status != HD_OK)
				return status;
			bounced = 0;
			continue;
		}
		memcpy(bounce + bounced, (const char *) from + done, n);
		TRY(this, cudaMemcpyAsync((char *) to + done, bounce + bounced, n, cudaMemcpyHostToDevice,
								  stream));
		bounced += n;
		done += n;
	}
	return HD_OK;
}

/* A search has stopped: let the next one go on. */
HdStatus
CudaDevice::end_stopped()
{
	TRY(this, cudaMemsetAsync(stop.at, 0, sizeof(uint32_t), stopping));
	TRY(this, cudaStreamSynchronize(stopping));
	return fail(HD_ABANDONED, "the search was abandoned");
}

CudaDevice::~CudaDevice()
{
	cudaFreeHost(words);
	cudaFreeHost(bounce);
	if (stopping != nullptr)
		cudaStreamDestroy(stopping);
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
	size_t unused;
	size_t all;

	TRY(this, cudaMemGetInfo(&unused, &all));
	memcpy(result->name, name, sizeof(name));
	result->memory = all;
	result->memory_free = unused;
	result->maps_host = maps_host;
	return HD_OK;
}

/* Failing to pin memory is harmless, so it is never HD_FAILED. */
HdStatus
CudaDevice::pin(void *memory, size_t size)
{
	if (cudaHostRegister(memory, size, cudaHostRegisterPortable) == cudaSuccess)
		return HD_OK;
	cudaGetLastError();
	return HD_NO_MEMORY;
}

HdStatus
CudaDevice::unpin(void *memory)
{
	cudaError_t error = cudaHostUnregister(memory);

	if (error == cudaSuccess)
		return HD_OK;
	cudaGetLastError();
	return error == cudaErrorHostMemoryNotRegistered || error == cudaErrorInvalidValue ?
			   HD_INVALID :
			   HD_FAILED;
}

HdIndex *
CudaDevice::create_index()
{
	return new CudaIndex;
}

/* BatchMemory consists of nothing but Memory. */
static_assert(sizeof(BatchMemory) % sizeof(Memory) == 0, "an array of Memory");

uint64_t
CudaDevice::batch_memory() const
{
	const Memory *memory = (const Memory *) &batch;
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(batch) / sizeof(Memory); i++)
		sum += memory[i].size;
	return sum;
}

void
CudaDevice::free_batch_memory()
{
	Memory *memory = (Memory *) &batch;

	for (size_t i = 0; i < sizeof(batch) / sizeof(Memory); i++)
		memory[i].free();
}

} /* namespace harmonia */

using namespace harmonia;

HdDevice *
hd_cuda_device()
{
	return new CudaDevice;
}

int
hd_cuda_count()
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess)
	{
		cudaGetLastError();
		return 0;
	}
	return count;
}
