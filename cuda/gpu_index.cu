/*
 * gpu_index.cu
 *		Indexes on a CUDA device: their pages and inner levels.
 */
#include "gpu_device.h"

#include <algorithm>

namespace harmonia
{

/* Upper limit of one transfer of items that are not adjacent, in bytes. */
constexpr size_t staged_max = 32 << 20;

constexpr int write_threads = 256;

/* One thread for each 16 bytes. */
static __global__ void
write_kernel(const uint32_t *numbers, const uint4 *staged, uint32_t words, uint32_t item_words,
			 uint4 *pages)
{
	uint32_t i = blockIdx.x * write_threads + threadIdx.x;

	if (i < words)
		pages[(size_t) numbers[i / item_words] * item_words + i % item_words] = staged[i];
}

cudaError_t
launch_write(const uint32_t *numbers, const char *staged, uint32_t count, size_t size, char *pages,
			 cudaStream_t stream)
{
	uint32_t item_words = (uint32_t) (size / sizeof(uint4));
	uint32_t words = count * item_words;

	write_kernel<<<blocks_for(words, write_threads), write_threads, 0, stream>>>(
		numbers, (const uint4 *) staged, words, item_words, (uint4 *) pages);
	return cudaGetLastError();
}

HdStatus
CudaIndex::reserve(uint32_t blocks, bool on_host)
{
	return on()->status(pages.grow((size_t) blocks * HT_PAGE_SIZE, on_host, on()->stream),
						"making room for blocks");
}

HdStatus
CudaIndex::write(const uint32_t *numbers, const char *from, uint32_t count, size_t size)
{
	CudaDevice *device = on();
	uint32_t at_once = std::min(count, (uint32_t) (staged_max / size));
	bool together = true;

	for (uint32_t i = 1; i < count && together; i++)
		together = numbers[i] == numbers[i - 1] + 1;
	if (together)
	{
		TRY(device, cudaMemcpyAsync(pages.at() + (size_t) numbers[0] * size, from,
									(size_t) count * size, cudaMemcpyHostToDevice, device->stream));
		return device->wait();
	}

	TRY(device, device->batch.staged.reserve(at_once * size));
	TRY(device, device->batch.staged_numbers.reserve(at_once * sizeof(uint32_t)));
	for (uint32_t first = 0; first < count; first += at_once)
	{
		uint32_t n = std::min(count - first, at_once);

		TRY(device, cudaMemcpyAsync(device->batch.staged_numbers.at, numbers + first,
									n * sizeof(uint32_t), cudaMemcpyHostToDevice, device->stream));
		TRY(device, cudaMemcpyAsync(device->batch.staged.at, from + (size_t) first * size, n * size,
									cudaMemcpyHostToDevice, device->stream));
		TRY(device,
			launch_write(device->batch.staged_numbers.as<uint32_t>(),
						 device->batch.staged.as<char>(), n, size, pages.at(), device->stream));
	}
	return device->wait();
}

/*
 * Make room for inner levels.  Does not keep the content.  Memory that grows once will grow
 * again, and is slow to get.
 */
static HdStatus
reserve_levels(CudaDevice *device, Memory &memory, size_t size)
{
	TRY(device, memory.reserve(size <= memory.size || memory.size == 0 ? size : size + size / 8));
	return HD_OK;
}

HdStatus
CudaIndex::load_levels(uint32_t first)
{
	CudaDevice *device = on();
	size_t blocks_size = leaf_blocks.size() * sizeof(uint32_t);
	size_t upper = shape.levels == 0 ? 0 :
									   (size_t) shape.level_start[shape.levels - 1] *
										   (size_t) shape.fanout * (size_t) shape.width;
	size_t from = upper;
	HdStatus status;

	if (!levels_loaded || keys.size() > device_keys.size || blocks_size > device_blocks.size)
		first = 0;
	levels_loaded = false;
	status = reserve_levels(device, device_keys, keys.size());
	if (status == HD_OK)
		status = reserve_levels(device, device_blocks, blocks_size);

	/* The levels above the bottom one are small; they are sent as a whole. */
	if (first > 1)
		from += (size_t) (first - 1) * (size_t) shape.width;
	device->bounced = 0;
	if (status == HD_OK)
		status = device->send(device_keys.at, keys.data(), upper);
	if (status == HD_OK && keys.size() > from)
		status =
			device->send(device_keys.as<char>() + from, keys.data() + from, keys.size() - from);
	if (status == HD_OK && leaf_blocks.size() > first)
		status = device->send(device_blocks.as<uint32_t>() + first, leaf_blocks.data() + first,
							  blocks_size - first * sizeof(uint32_t));
	if (status == HD_OK)
		status = device->wait();
	levels_loaded = status == HD_OK;
	return status;
}

} /* namespace harmonia */
