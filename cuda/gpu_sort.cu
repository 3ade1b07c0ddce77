/*
 * gpu_sort.cu
 *		Partially-sorted aggregation: the order in which probes are searched.
 *
 * Only numbers of probes are sorted, by some bits of their keys.  The search reads the keys where
 * they are: those of all probes that one request has room for fit into the second-level cache.
 */
#include <cub/device/device_radix_sort.cuh>

#include "gpu_kernels.h"

namespace harmonia
{

constexpr int digit_threads = 256;

template <typename Key>
static __global__ void
__launch_bounds__(digit_threads)
	digit_kernel(const Key *low, uint32_t count, Key base, int first_bit, uint32_t mask,
				 uint16_t *digits, uint32_t *numbers)
{
	uint32_t i = blockIdx.x * digit_threads + threadIdx.x;

	if (i < count)
	{
		digits[i] = (uint16_t) ((uint32_t) ((Key) (low[i] - base) >> first_bit) & mask);
		numbers[i] = i;
	}
}

template <typename Key>
cudaError_t
launch_digits(const Key *low, uint32_t count, Key base, int first_bit, int bits, uint16_t *digits,
			  uint32_t *numbers, cudaStream_t stream)
{
	digit_kernel<Key><<<blocks_for(count, digit_threads), digit_threads, 0, stream>>>(
		low, count, base, first_bit, (1u << bits) - 1, digits, numbers);
	return cudaGetLastError();
}

cudaError_t
launch_sort(void *memory, size_t &memory_size, uint16_t *const digits[2],
			uint32_t *const numbers[2], uint32_t count, int bits, cudaStream_t stream)
{
	return cub::DeviceRadixSort::SortPairs(memory, memory_size, digits[0], digits[1], numbers[0],
										   numbers[1], (int) count, 0, bits, stream);
}

#define FOR_KEY(Key) \
	template cudaError_t launch_digits<Key>(const Key *, uint32_t, Key, int, int, uint16_t *, \
											uint32_t *, cudaStream_t);

FOR_KEY(uint32_t)
FOR_KEY(uint64_t)
FOR_KEY(Wide)

} /* namespace harmonia */
