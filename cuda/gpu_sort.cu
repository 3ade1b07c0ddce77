/*
 * gpu_sort.cu
 *		Partially-sorted aggregation, and the way back to probe order.
 *
 * A pass radix partitions the probes by a digit of their keys, and does not keep their
 * order.  The second of two passes partitions by the higher digit.  As blocks run nearly
 * in order, it still leaves probes of nearly the same lower digit close together.  Full
 * order is not needed.
 */
#include <cub/block/block_scan.cuh>

#include "gpu_kernels.h"

namespace harmonia
{

constexpr int count_threads = 512;
constexpr int count_blocks = 1024;
constexpr int count_loads = 8;
constexpr int write_threads = 256;

/*
 * A block partitions one tile of probes; each thread takes pass_probes of them.  Long
 * runs are written faster, but larger tiles do not fit into shared memory on every GPU.
 */
constexpr int tile_threads = 512;
constexpr int tile_blocks = 2;	/* on a multiprocessor */
template <typename Key>
constexpr uint32_t tile_size = tile_threads * pass_probes<Key>;
static_assert(tile_threads >= digit_bins && tile_size<uint32_t> <= UINT16_MAX + 1, "one thread for each bin, slots have 16 bits");

static uint32_t
blocks_for(uint32_t count, uint32_t together)
{
	return (count - 1) / together + 1;
}

/* Count the probes with each digit. */
template <typename Key>
static __global__ void
__launch_bounds__(count_threads)
count_kernel(const Key *low, uint32_t count, const Digits<Key> digits, uint32_t *totals)
{
	constexpr uint32_t together = count_threads * count_loads;
	__shared__ uint32_t counts[passes_max * digit_bins];

	for (uint32_t bin = threadIdx.x; bin < passes_max * digit_bins; bin += count_threads)
		counts[bin] = 0;
	__syncthreads();
	for (uint32_t start = blockIdx.x * together; start < count; start += gridDim.x * together)
	{
		Key			some[count_loads];

#pragma unroll
		for (int j = 0; j < count_loads; j++)
		{
			uint32_t	i = start + j * count_threads + threadIdx.x;

			some[j] = i < count ? (Key) (low[i] - digits.base) : Key(0);
		}
#pragma unroll
		for (int j = 0; j < count_loads; j++)
		{
			if (start + j * count_threads + threadIdx.x >= count)
				break;
#pragma unroll
			for (int pass = 0; pass < passes_max; pass++)
			{
				if (pass < digits.passes)
					atomicAdd(&counts[pass * digit_bins + digits.digit[pass](some[j])], 1);
			}
		}
	}
	__syncthreads();
	for (uint32_t bin = threadIdx.x; bin < passes_max * digit_bins; bin += count_threads)
	{
		if (counts[bin] > 0)
			atomicAdd(&totals[bin], counts[bin]);
	}
}

/* Turn the counts of digits into starts; one block for each pass. */
static __global__ void
__launch_bounds__(digit_bins)
start_kernel(uint32_t *totals)
{
	using Scan = cub::BlockScan<uint32_t, digit_bins>;
	__shared__ typename Scan::TempStorage scan;
	uint32_t   *mine = totals + blockIdx.x * digit_bins + threadIdx.x;
	uint32_t	start;

	Scan(scan).ExclusiveSum(*mine, start);
	*mine = start;
}

template <typename Key>
cudaError_t
launch_count(const Key *low, uint32_t count, const Digits<Key> &digits, uint32_t *starts,
			 cudaStream_t stream)
{
	uint32_t	blocks = blocks_for(count, count_threads * count_loads);
	cudaError_t error = cudaMemsetAsync(starts, 0, passes_max * digit_bins * sizeof(uint32_t), stream);

	if (error != cudaSuccess)
		return error;
	count_kernel<<<blocks < count_blocks ? blocks : count_blocks, count_threads, 0, stream>>>
		(low, count, digits, starts);
	start_kernel<<<digits.passes, digit_bins, 0, stream>>>(starts);
	return cudaGetLastError();
}

uint32_t
partition_tiles(uint32_t count, int probes_of_thread)
{
	return blocks_for(count, tile_threads * (uint32_t) probes_of_thread);
}

/*
 * Sort a tile of probes in shared memory, then write the probes of each digit side by
 * side, at next[digit].
 */
template <typename Key>
static __global__ void
__launch_bounds__(tile_threads, tile_blocks)
partition_kernel(const Key *low, const uint32_t *numbers, uint32_t count, Key base, Digit<Key> digit,
				 uint32_t *next, const RadixPartition<Key> out)
{
	using Scan = cub::BlockScan<uint32_t, tile_threads>;
	constexpr int thread_probes = pass_probes<Key>;
	constexpr uint32_t tile = tile_size<Key>;
	extern __shared__ __align__(16) char shared[];
	__shared__ typename Scan::TempStorage scan;
	__shared__ uint32_t starts[digit_bins];	/* of runs in the tile */
	__shared__ uint32_t moves[digit_bins];	/* from there to the output */
	Key		   *sorted = (Key *) shared;
	uint32_t   *sorted_numbers = (uint32_t *) (sorted + tile);
	uint32_t	bin = threadIdx.x;
	uint32_t	start = blockIdx.x * tile;
	uint32_t	size = min(tile, count - start);
	Key			keys[thread_probes];
	uint32_t	slots[thread_probes];
	uint32_t	run = 0;
	uint32_t	run_start;
	uint32_t	reserved = 0;

#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	i = j * tile_threads + threadIdx.x;

		keys[j] = i < size ? (Key) (low[start + i] - base) : Key(0);
	}
	if (bin < digit_bins)
		starts[bin] = 0;
	__syncthreads();
#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		if (j * tile_threads + threadIdx.x < size)
			slots[j] = atomicAdd(&starts[digit(keys[j])], 1);
	}
	__syncthreads();

	if (bin < digit_bins)
		run = starts[bin];
	if (run > 0)
		reserved = atomicAdd(&next[bin], run);
	Scan(scan).ExclusiveSum(run, run_start);
	if (bin < digit_bins)
	{
		starts[bin] = run_start;
		moves[bin] = reserved - run_start;
		if (out.runs != nullptr)
			out.runs[blockIdx.x * digit_bins + bin] = {run_start, reserved - run_start};
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	i = j * tile_threads + threadIdx.x;

		if (i < size)
		{
			uint32_t	slot = starts[digit(keys[j])] + slots[j];

			sorted[slot] = keys[j];
			if (out.numbers != nullptr)
				sorted_numbers[slot] = numbers != nullptr ? numbers[start + i] : start + i;
			if (out.slots != nullptr)
				out.slots[start + i] = (uint16_t) slot;
		}
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	slot = j * tile_threads + threadIdx.x;

		if (slot < size)
		{
			Key			key = sorted[slot];
			uint32_t	to = moves[digit(key)] + slot;

			out.low[to] = key;
			if (out.numbers != nullptr)
				out.numbers[to] = sorted_numbers[slot];
		}
	}
}

template <typename Key>
cudaError_t
launch_partition(const Key *low, const uint32_t *numbers, uint32_t count, Key base,
				 Digit<Key> digit, uint32_t *next, const RadixPartition<Key> &out, cudaStream_t stream)
{
	size_t		size = tile_size<Key> * (sizeof(Key) + (out.numbers != nullptr ? sizeof(uint32_t) : 0));
	cudaError_t error = cudaFuncSetAttribute(partition_kernel<Key>,
											 cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (error != cudaSuccess)
		return error;
	partition_kernel<Key> <<<partition_tiles(count, pass_probes<Key>), tile_threads, size, stream>>>
		(low, numbers, count, base, digit, next, out);
	return cudaGetLastError();
}

/*
 * The last run that starts at or before a slot.  It is not empty, so it has that slot.
 */
static __device__ __forceinline__ uint32_t
run_of(const Run *runs, uint32_t slot)
{
	uint32_t	run = 0;

#pragma unroll
	for (uint32_t step = digit_bins / 2; step > 0; step /= 2)
		run += runs[run + step].start <= slot ? step : 0;
	return run;
}

/*
 * The reverse of a pass: read the values of each run side by side, then restore the
 * tile's original order.
 */
template <int thread_probes, typename Value>
static __global__ void
__launch_bounds__(tile_threads)
restore_kernel(const uint16_t *slots, const Run *all_runs, const Value *values, uint32_t count,
			   Value *out)
{
	constexpr uint32_t tile = tile_threads * thread_probes;
	__shared__ Run runs[digit_bins];
	__shared__ Value sorted[tile];
	uint32_t	start = blockIdx.x * tile;
	uint32_t	size = min(tile, count - start);
	uint16_t	mine[thread_probes];

#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	i = j * tile_threads + threadIdx.x;

		mine[j] = i < size ? slots[start + i] : 0;
	}
	if (threadIdx.x < digit_bins)
		runs[threadIdx.x] = all_runs[blockIdx.x * digit_bins + threadIdx.x];
	__syncthreads();
#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	slot = j * tile_threads + threadIdx.x;

		if (slot < size)
			sorted[slot] = values[runs[run_of(runs, slot)].move + slot];
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	i = j * tile_threads + threadIdx.x;

		if (i < size)
			out[start + i] = sorted[mine[j]];
	}
}

template <typename Key, typename Value>
cudaError_t
launch_restore(const uint16_t *slots, const Run *runs, const Value *values, uint32_t count,
			   Value *out, cudaStream_t stream)
{
	restore_kernel<pass_probes<Key>><<<partition_tiles(count, pass_probes<Key>), tile_threads, 0, stream>>>
		(slots, runs, values, count, out);
	return cudaGetLastError();
}

/* One thread for each 16 bytes. */
static __global__ void
write_kernel(const uint32_t *numbers, const uint4 *staged, uint32_t words, uint32_t item_words,
			 uint4 *pages)
{
	uint32_t	i = blockIdx.x * write_threads + threadIdx.x;

	if (i < words)
		pages[(size_t) numbers[i / item_words] * item_words + i % item_words] = staged[i];
}

cudaError_t
launch_write(const uint32_t *numbers, const char *staged, uint32_t count, size_t size, char *pages,
			 cudaStream_t stream)
{
	uint32_t	item_words = (uint32_t) (size / sizeof(uint4));
	uint32_t	words = count * item_words;

	write_kernel<<<blocks_for(words, write_threads), write_threads, 0, stream>>>
		(numbers, (const uint4 *) staged, words, item_words, (uint4 *) pages);
	return cudaGetLastError();
}

#define FOR_KEY(Key) \
	template cudaError_t launch_count<Key>(const Key *, uint32_t, const Digits<Key> &, uint32_t *, cudaStream_t); \
	template cudaError_t launch_partition<Key>(const Key *, const uint32_t *, uint32_t, Key, Digit<Key>, \
											   uint32_t *, const RadixPartition<Key> &, cudaStream_t);
#define FOR_VALUE(Key, Value) \
	template cudaError_t launch_restore<Key, Value>(const uint16_t *, const Run *, const Value *, uint32_t, \
													Value *, cudaStream_t);

FOR_KEY(uint32_t)
FOR_KEY(uint64_t)
FOR_KEY(Wide<2>)
FOR_KEY(Wide<4>)
FOR_VALUE(uint32_t, uint32_t)
FOR_VALUE(uint32_t, uint64_t)
FOR_VALUE(uint64_t, uint32_t)
FOR_VALUE(uint64_t, uint64_t)
FOR_VALUE(Wide<2>, uint32_t)
FOR_VALUE(Wide<2>, uint64_t)
FOR_VALUE(Wide<4>, uint32_t)
FOR_VALUE(Wide<4>, uint64_t)

}								/* namespace harmonia */
