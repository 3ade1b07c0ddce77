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
number_kernel(const Key *low, uint32_t count, Key base, Key *keys, uint32_t *numbers)
{
	uint32_t	i = blockIdx.x * number_threads + threadIdx.x;

	if (i >= count)
		return;
	if (base != 0)
		keys[i] = low[i] - base;
	numbers[i] = i;
}

template <typename Key>
cudaError_t
launch_number(const Key *low, uint32_t count, Key base, Key *keys, uint32_t *numbers,
			  cudaStream_t stream)
{
	number_kernel<<<blocks_for(count), number_threads, 0, stream>>>(low, count, base, keys, numbers);
	return cudaGetLastError();
}

template <typename Key>
cudaError_t
sort_probes(void *temporary, size_t *temporary_size, const Key *keys, Key *sorted_keys,
			const uint32_t *numbers, uint32_t *sorted_numbers, uint32_t count, int first_bit,
			int bits, cudaStream_t stream)
{
	return cub::DeviceRadixSort::SortPairs(temporary, *temporary_size, keys, sorted_keys,
										   numbers, sorted_numbers, count, first_bit,
										   first_bit + bits, stream);
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

/*
 * As numbers are a permutation, a window of them takes as many places before as after:
 * it is put in order in shared memory, and written as a whole.
 */
template <typename Value>
static __global__ void
__launch_bounds__(number_threads)
scatter_kernel(const uint32_t *numbers, const Value *values, uint32_t count, Value *out)
{
	constexpr uint32_t window = 1 << window_bits;
	__shared__ Value ordered[window];
	uint32_t	start = blockIdx.x * window;
	uint32_t	size = min(window, count - start);

	for (uint32_t i = threadIdx.x; i < size; i += number_threads)
		ordered[numbers[start + i] % window] = values[start + i];
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < size; i += number_threads)
		out[start + i] = ordered[i];
}

template <typename Value>
cudaError_t
launch_scatter(const uint32_t *numbers, const Value *values, uint32_t count, Value *out,
			   cudaStream_t stream)
{
	uint32_t	windows = ((count - 1) >> window_bits) + 1;

	scatter_kernel<<<windows, number_threads, 0, stream>>>(numbers, values, count, out);
	return cudaGetLastError();
}

/* A thread for each 16 bytes. */
static __global__ void
write_kernel(const uint32_t *numbers, const uint4 *staged, uint32_t words, uint32_t item_words,
			 uint4 *pages)
{
	uint32_t	i = blockIdx.x * number_threads + threadIdx.x;

	if (i < words)
		pages[(size_t) numbers[i / item_words] * item_words + i % item_words] = staged[i];
}

cudaError_t
launch_write(const uint32_t *numbers, const char *staged, uint32_t count, size_t size, char *pages,
			 cudaStream_t stream)
{
	uint32_t	item_words = (uint32_t) (size / sizeof(uint4));
	uint32_t	words = count * item_words;

	write_kernel<<<blocks_for(words), number_threads, 0, stream>>>
		(numbers, (const uint4 *) staged, words, item_words, (uint4 *) pages);
	return cudaGetLastError();
}

#define FOR_KEY(Key) \
	template cudaError_t launch_number<Key>(const Key *, uint32_t, Key, Key *, uint32_t *, cudaStream_t); \
	template cudaError_t sort_probes<Key>(void *, size_t *, const Key *, Key *, const uint32_t *, \
										  uint32_t *, uint32_t, int, int, cudaStream_t);
#define FOR_VALUE(Value) \
	template cudaError_t partition_values<Value>(void *, size_t *, const uint32_t *, uint32_t *, \
												 const Value *, Value *, uint32_t, int, int, cudaStream_t); \
	template cudaError_t launch_scatter<Value>(const uint32_t *, const Value *, uint32_t, Value *, cudaStream_t);

FOR_KEY(uint32_t)
FOR_KEY(uint64_t)
FOR_VALUE(uint32_t)
FOR_VALUE(uint64_t)

}								/* namespace harmonia */
