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
static_assert(tile_threads >= digit_bins && tile_threads * pass_probes<uint32_t> <= UINT16_MAX + 1,
			  "one thread for each bin, slots have 16 bits");

/*
 * Twice as many if offsets have 32 bits and there is no way back: a restore would lose more than a
 * partition gains (measured on an H100).
 */
template <typename Low>
constexpr int long_pass_probes = sizeof(Low) <= 4 ? 2 * pass_probes<Low> : pass_probes<Low>;

static uint32_t
blocks_for(uint32_t count, uint32_t together)
{
	return (count - 1) / together + 1;
}

/* One warp for each window, in a single block. */
constexpr int sample_threads = 1024;

template <typename Key>
static __device__ __forceinline__ Key
clamped(Key key, Key least, Key greatest)
{
	return key < least ? least : greatest < key ? greatest : key;
}

template <typename Key>
static __global__ void
__launch_bounds__(sample_threads)
sample_kernel(const Key *low, uint32_t count, Key least, Key greatest, Key distance, uint32_t *near_windows)
{
	constexpr uint32_t warps = sample_threads / 32;
	uint32_t	pitch = (count - window_probes) / (sample_windows - 1);
	int			near = 0;

	for (uint32_t window = threadIdx.x / 32; window < sample_windows; window += warps)
	{
		const Key  *start = low + (size_t) window * pitch;
		Key			first = clamped(start[0], least, greatest);
		Key			key = clamped(start[threadIdx.x % 32 * (window_probes / 32) + window], least, greatest);

		near += __all_sync(UINT32_MAX, (key < first ? first - key : key - first) <= distance);
	}
	near = __syncthreads_count(near > 0) + __syncthreads_count(near > 1);
	if (threadIdx.x == 0)
		*near_windows = (uint32_t) near / 32;
}

template <typename Key>
cudaError_t
launch_sample(const Key *low, uint32_t count, Key least, Key greatest, Key distance,
			  uint32_t *near_windows, cudaStream_t stream)
{
	static_assert(sample_windows == 2 * sample_threads / 32 && sample_windows == window_probes / 32,
				  "two windows for each warp, another offset in each");

	sample_kernel<<<1, sample_threads, 0, stream>>>(low, count, least, greatest, distance, near_windows);
	return cudaGetLastError();
}

/* Count the probes with each digit. */
template <typename Key, typename Low>
static __global__ void
__launch_bounds__(count_threads)
count_kernel(const Key *low, uint32_t count, Key base, const Digits<Low> digits, uint32_t *totals)
{
	constexpr uint32_t together = count_threads * count_loads;
	__shared__ uint32_t counts[passes_max * digit_bins];

	for (uint32_t bin = threadIdx.x; bin < passes_max * digit_bins; bin += count_threads)
		counts[bin] = 0;
	__syncthreads();
	for (uint32_t start = blockIdx.x * together; start < count; start += gridDim.x * together)
	{
		Low			some[count_loads];

#pragma unroll
		for (int j = 0; j < count_loads; j++)
		{
			uint32_t	i = start + j * count_threads + threadIdx.x;

			some[j] = i < count ? offset_of<Low>(low[i], base) : Low(0);
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

template <typename Key, typename Low>
cudaError_t
launch_count(const Key *low, uint32_t count, Key base, const Digits<Low> &digits, uint32_t *starts,
			 cudaStream_t stream)
{
	uint32_t	blocks = blocks_for(count, count_threads * count_loads);
	cudaError_t error = cudaMemsetAsync(starts, 0, passes_max * digit_bins * sizeof(uint32_t), stream);

	if (error != cudaSuccess)
		return error;
	count_kernel<<<blocks < count_blocks ? blocks : count_blocks, count_threads, 0, stream>>>
		(low, count, base, digits, starts);
	start_kernel<<<digits.passes, digit_bins, 0, stream>>>(starts);
	return cudaGetLastError();
}

uint32_t
partition_tiles(uint32_t count, int probes_of_thread)
{
	return blocks_for(count, tile_threads * (uint32_t) probes_of_thread);
}

/* Note the outliers among a warp's probes.  All threads of the warp take part. */
static __device__ __forceinline__ void
note_outlier(const Outliers &outliers, bool is_one, uint32_t number)
{
	uint32_t	set = __ballot_sync(UINT32_MAX, is_one);
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	at = 0;

	if (set == 0)
		return;
	if (lane == 0)
		at = atomicAdd(outliers.count, (uint32_t) __popc(set));
	at = __shfl_sync(UINT32_MAX, at, 0) + (uint32_t) __popc(set & ((1u << lane) - 1));
	if (is_one)
		outliers.numbers[at] = number;
}

/*
 * Sort a tile of probes in shared memory, then write the probes of each digit side by
 * side, at next[digit].
 */
template <int thread_probes, typename Key, typename Low>
static __global__ void
__launch_bounds__(tile_threads, tile_blocks)
partition_kernel(const Key *low, const uint32_t *numbers, uint32_t count, Key base, Digit<Low> digit,
				 uint32_t *next, const RadixPartition<Low> out, const Outliers outliers)
{
	using Scan = cub::BlockScan<uint32_t, tile_threads>;
	constexpr uint32_t tile = tile_threads * thread_probes;
	extern __shared__ __align__(16) char shared[];
	__shared__ typename Scan::TempStorage scan;
	__shared__ uint32_t starts[digit_bins];	/* of runs in the tile */
	__shared__ uint32_t moves[digit_bins];	/* from there to the output */
	Low		   *sorted = (Low *) shared;
	uint32_t   *sorted_numbers = (uint32_t *) (sorted + tile);
	uint32_t	bin = threadIdx.x;
	uint32_t	start = blockIdx.x * tile;
	uint32_t	size = min(tile, count - start);
	Low			keys[thread_probes];
	uint32_t	slots[thread_probes];
	uint32_t	run = 0;
	uint32_t	run_start;
	uint32_t	reserved = 0;

#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	i = j * tile_threads + threadIdx.x;

		keys[j] = i < size ? offset_of<Low>(low[start + i], base) : Low(0);
		if constexpr (sizeof(Low) < sizeof(Key))
			note_outlier(outliers, is_outlier<Key>(keys[j]), start + i);
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
			Low			key = sorted[slot];
			uint32_t	to = moves[digit(key)] + slot;

			out.low[to] = key;
			if (out.numbers != nullptr)
				out.numbers[to] = sorted_numbers[slot];
		}
	}
}

template <int thread_probes, typename Key, typename Low>
static cudaError_t
launch_partition_tiles(const Key *low, const uint32_t *numbers, uint32_t count, Key base,
					   Digit<Low> digit, uint32_t *next, const RadixPartition<Low> &out,
					   const Outliers &outliers, cudaStream_t stream)
{
	size_t		size = tile_threads * thread_probes * (sizeof(Low) + (out.numbers != nullptr ? sizeof(uint32_t) : 0));
	cudaError_t error = cudaFuncSetAttribute(partition_kernel<thread_probes, Key, Low>,
											 cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (error != cudaSuccess)
		return error;
	partition_kernel<thread_probes, Key, Low> <<<partition_tiles(count, thread_probes), tile_threads, size, stream>>>
		(low, numbers, count, base, digit, next, out, outliers);
	return cudaGetLastError();
}

template <typename Key, typename Low>
cudaError_t
launch_partition(const Key *low, const uint32_t *numbers, uint32_t count, Key base, Digit<Low> digit,
				 uint32_t *next, const RadixPartition<Low> &out, const Outliers &outliers,
				 cudaStream_t stream)
{
	if (out.slots == nullptr)
	{
		cudaError_t error = launch_partition_tiles<long_pass_probes<Low>>(low, numbers, count, base, digit, next, out,
																		   outliers, stream);

		if (error != cudaErrorInvalidValue)
			return error;
		cudaGetLastError();		/* the GPU has less shared memory */
	}
	return launch_partition_tiles<pass_probes<Low>>(low, numbers, count, base, digit, next, out, outliers, stream);
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
template <int thread_probes, typename Value, typename Out>
static __global__ void
__launch_bounds__(tile_threads)
restore_kernel(const uint16_t *slots, const Run *all_runs, const Value *values, uint32_t count,
			   Out *out)
{
	constexpr uint32_t tile = tile_threads * thread_probes;
	extern __shared__ __align__(16) char shared[];
	__shared__ Run runs[digit_bins];
	Value	   *sorted = (Value *) shared;
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
		{
			if constexpr (sizeof(Out) > sizeof(Value))
				out[start + i] = from_short_tid(sorted[mine[j]]);
			else
				out[start + i] = sorted[mine[j]];
		}
	}
}

template <typename Low, typename Value, typename Out>
cudaError_t
launch_restore(const uint16_t *slots, const Run *runs, const Value *values, uint32_t count,
			   Out *out, cudaStream_t stream)
{
	constexpr int thread_probes = pass_probes<Low>;
	constexpr size_t size = tile_threads * thread_probes * sizeof(Value);
	cudaError_t error = cudaFuncSetAttribute(restore_kernel<thread_probes, Value, Out>,
											 cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (error != cudaSuccess)
		return error;
	restore_kernel<thread_probes, Value, Out> <<<partition_tiles(count, thread_probes), tile_threads, size, stream>>>
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

#define FOR_KEY(Key, Low) \
	template cudaError_t launch_count<Key, Low>(const Key *, uint32_t, Key, const Digits<Low> &, uint32_t *, \
												cudaStream_t); \
	template cudaError_t launch_partition<Key, Low>(const Key *, const uint32_t *, uint32_t, Key, Digit<Low>, \
													uint32_t *, const RadixPartition<Low> &, const Outliers &, \
													cudaStream_t);
#define FOR_LOW(Low) \
	template cudaError_t launch_sample<Low>(const Low *, uint32_t, Low, Low, Low, uint32_t *, cudaStream_t); \
	FOR_KEY(Low, Low) \
	FOR_VALUE(Low, uint32_t, uint32_t) \
	FOR_VALUE(Low, uint32_t, uint64_t) \
	FOR_VALUE(Low, uint64_t, uint64_t)
#define FOR_VALUE(Low, Value, Out) \
	template cudaError_t launch_restore<Low, Value, Out>(const uint16_t *, const Run *, const Value *, uint32_t, \
														 Out *, cudaStream_t);

FOR_LOW(uint32_t)
FOR_LOW(uint64_t)
FOR_LOW(Wide<2>)
FOR_LOW(Wide<4>)
FOR_KEY(uint64_t, uint32_t)

}								/* namespace harmonia */
