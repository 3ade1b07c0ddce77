/*
 * gpu_sort.cu
 *		Partially-sorted aggregation with CUB, and the way back to probe order.
 */
#include <cub/cub.cuh>

#include "gpu_kernels.h"

namespace harmonia
{

constexpr int number_threads = 256;

static uint32_t
blocks_for(uint32_t count)
{
	return (uint32_t) (((uint64_t) count + number_threads - 1) / number_threads);
}

template <typename Key>
static __global__ void
number_kernel(const Key *low, const Key *high, uint32_t count, Key base, Key *keys, void *rests)
{
	uint32_t	i = blockIdx.x * number_threads + threadIdx.x;

	if (i >= count)
		return;
	if (base != 0)
		keys[i] = low[i] - base;
	if (high == nullptr)
		((uint32_t *) rests)[i] = i;
	else
		((RangeRest<Key> *) rests)[i] = RangeRest<Key> {high[i], i};
}

template <typename Key>
cudaError_t
launch_number(const Key *low, const Key *high, uint32_t count, Key base, Key *keys, void *rests,
			  cudaStream_t stream)
{
	number_kernel<<<blocks_for(count), number_threads, 0, stream>>>(low, high, count, base, keys, rests);
	return cudaGetLastError();
}

template <typename Key>
cudaError_t
sort_probes(void *temporary, size_t *temporary_size, bool ranges, const Key *keys,
			Key *sorted_keys, const void *rests, void *sorted_rests, uint32_t count,
			int first_bit, int bits, cudaStream_t stream)
{
	if (ranges)
		return cub::DeviceRadixSort::SortPairs(temporary, *temporary_size, keys, sorted_keys,
											   (const RangeRest<Key> *) rests,
											   (RangeRest<Key> *) sorted_rests,
											   count, first_bit, first_bit + bits, stream);
	return cub::DeviceRadixSort::SortPairs(temporary, *temporary_size, keys, sorted_keys,
										   (const uint32_t *) rests, (uint32_t *) sorted_rests,
										   count, first_bit, first_bit + bits, stream);
}

template <typename Value>
cudaError_t
partition_values(void *temporary, size_t *temporary_size, const uint32_t *numbers,
				 uint32_t *sorted_numbers, const Value *values, Value *sorted_values,
				 uint32_t count, int first_bit, int bits, cudaStream_t stream)
{
	return cub::DeviceRadixSort::SortPairs(temporary, *temporary_size, numbers, sorted_numbers,
										   values, sorted_values, count, first_bit,
										   first_bit + bits, stream);
}

template <typename Value>
static __global__ void
scatter_kernel(const uint32_t *numbers, const Value *values, uint32_t count, Value *out)
{
	uint32_t	i = blockIdx.x * number_threads + threadIdx.x;

	if (i < count)
		out[numbers[i]] = values[i];
}

template <typename Value>
cudaError_t
launch_scatter(const uint32_t *numbers, const Value *values, uint32_t count, Value *out,
			   cudaStream_t stream)
{
	scatter_kernel<<<blocks_for(count), number_threads, 0, stream>>>(numbers, values, count, out);
	return cudaGetLastError();
}

/* A block of threads a page. */
static __global__ void
write_blocks_kernel(const uint32_t *numbers, const char *staged, char *pages)
{
	const uint4 *from = (const uint4 *) (staged + (size_t) blockIdx.x * HT_PAGE_SIZE);
	uint4	   *to = (uint4 *) (pages + (size_t) numbers[blockIdx.x] * HT_PAGE_SIZE);

	for (uint32_t i = threadIdx.x; i < HT_PAGE_SIZE / sizeof(uint4); i += blockDim.x)
		to[i] = from[i];
}

cudaError_t
launch_write_blocks(const uint32_t *numbers, const char *staged, uint32_t count, char *pages,
					cudaStream_t stream)
{
	write_blocks_kernel<<<count, number_threads, 0, stream>>>(numbers, staged, pages);
	return cudaGetLastError();
}

#define FOR_KEY(Key) \
	template cudaError_t launch_number<Key>(const Key *, const Key *, uint32_t, Key, Key *, void *, cudaStream_t); \
	template cudaError_t sort_probes<Key>(void *, size_t *, bool, const Key *, Key *, const void *, \
										  void *, uint32_t, int, int, cudaStream_t);
#define FOR_VALUE(Value) \
	template cudaError_t partition_values<Value>(void *, size_t *, const uint32_t *, uint32_t *, \
												 const Value *, Value *, uint32_t, int, int, cudaStream_t); \
	template cudaError_t launch_scatter<Value>(const uint32_t *, const Value *, uint32_t, Value *, cudaStream_t);

FOR_KEY(uint32_t)
FOR_KEY(uint64_t)
FOR_VALUE(uint32_t)
FOR_VALUE(uint64_t)

}								/* namespace harmonia */
