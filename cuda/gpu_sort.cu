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

/*
 * The i-th probe that is counted.  A sample is groups of neighbours, each as many as a line of memory has.
 */
constexpr uint32_t sample_group = 16;

static __device__ __forceinline__ uint32_t
counted_probe(uint32_t i, bool sampled)
{
	return sampled ? i / sample_group * sample_group * sample_pitch + i % sample_group : i;
}

static uint32_t
counted_probes(uint32_t count, bool sampled)
{
	return sampled ? count / (sample_group * sample_pitch) * sample_group : count;
}

/* Count the probes with each digit, in bins.next. */
template <typename Key, typename Low>
static __global__ void
__launch_bounds__(count_threads)
count_kernel(const Key *low, uint32_t count, bool sampled, Key base, const Digits<Low> digits, Bins *bins)
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

			some[j] = i < count ? offset_of<Low>(low[counted_probe(i, sampled)], base) : Low(0);
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
			atomicAdd(&bins[bin / digit_bins].next[bin % digit_bins], counts[bin]);
	}
}

/*
 * The room that a bin needs if its digit was counted so often in a sample: the standard deviation of that
 * number is its square root.  A bin that the sample misses has few probes: 24 times the pitch, or more with a probability of
 * 10^-10.  Bins begin with a line of memory.
 */
static __device__ __forceinline__ uint32_t
sampled_room(float counted)
{
	return ((uint32_t) (counted + 6 * sqrtf(counted)) + 24) * sample_pitch;
}

static_assert(sample_pitch % 32 == 0, "a line has 32 probe numbers");

/* Turn the counts of digits into bins; one block for each pass. */
static __global__ void
__launch_bounds__(digit_bins)
start_kernel(Bins *all_bins, bool sampled)
{
	using Scan = cub::BlockScan<uint32_t, digit_bins>;
	__shared__ typename Scan::TempStorage scan;
	Bins	   &bins = all_bins[blockIdx.x];
	uint32_t	bin = threadIdx.x;
	uint32_t	room = bins.next[bin];
	uint32_t	start;

	if (sampled)
		room = sampled_room((float) room);
	Scan(scan).ExclusiveSum(room, start);
	bins.start[bin] = start;
	bins.next[bin] = start;
	bins.limit[bin] = start + room;
}

/* The sum of sampled_room() is greatest if all bins have the same; and a little more, as it is rounded. */
uint32_t
positions(uint32_t count, bool sampled)
{
	double		counted = counted_probes(count, true);

	if (!sampled)
		return count;
	return (uint32_t) (sample_pitch * (counted + 6 * sqrt(counted * digit_bins) + 24 * digit_bins)) + digit_bins;
}

template <typename Key, typename Low>
cudaError_t
launch_count(const Key *low, uint32_t count, Key base, const Digits<Low> &digits, bool sampled, Bins *bins,
			 cudaStream_t stream)
{
	uint32_t	counted = counted_probes(count, sampled);
	uint32_t	blocks = counted == 0 ? 0 : blocks_for(counted, count_threads * count_loads);
	cudaError_t error = cudaMemsetAsync(bins, 0, passes_max * sizeof(Bins), stream);

	if (error != cudaSuccess)
		return error;
	if (blocks > 0)
		count_kernel<<<blocks < count_blocks ? blocks : count_blocks, count_threads, 0, stream>>>
			(low, counted, sampled, base, digits, bins);
	start_kernel<<<digits.passes, digit_bins, 0, stream>>>(bins, sampled);
	return cudaGetLastError();
}

/* One block for each bin, and one thread for each in a block. */
static __global__ void
__launch_bounds__(digit_bins)
list_kernel(const Bins *bins, const uint32_t *overflow, uint32_t tile, uint32_t room, TileRange *tiles)
{
	using Scan = cub::BlockScan<uint32_t, digit_bins>;
	__shared__ typename Scan::TempStorage scan;
	__shared__ uint32_t first;
	uint32_t	bin = threadIdx.x;
	uint32_t	filled = *overflow != 0 ? 0 : bins->next[bin] - bins->start[bin];
	uint32_t	before;
	uint32_t	all;

	Scan(scan).ExclusiveSum((filled + tile - 1) / tile, before, all);
	if (bin == blockIdx.x)
		first = before;
	__syncthreads();

	uint32_t	start = bins->start[blockIdx.x];
	uint32_t	size = *overflow != 0 ? 0 : bins->next[blockIdx.x] - start;

	for (uint32_t i = threadIdx.x; i * tile < size; i += digit_bins)
		tiles[first + i] = {start + i * tile, min(tile, size - i * tile)};
	for (uint32_t i = all + blockIdx.x * digit_bins + threadIdx.x; i < room; i += digit_bins * digit_bins)
		tiles[i] = {0, 0};
}

cudaError_t
launch_list(const Binned &binned, uint32_t count, uint32_t tile, cudaStream_t stream)
{
	list_kernel<<<digit_bins, digit_bins, 0, stream>>>(binned.bins, binned.overflow, tile, listed_tiles(count, tile),
													   binned.tiles);
	return cudaGetLastError();
}

/* The number of tiles of a pass over probes that lie like this. */
static uint32_t
tiles_of(const Binned &binned, uint32_t count, uint32_t tile)
{
	return binned.bins != nullptr ? listed_tiles(count, tile) : blocks_for(count, tile);
}

uint32_t
later_tiles()
{
	int			device = 0;
	int			multiprocessors = 0;

	if (cudaGetDevice(&device) != cudaSuccess ||
		cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
		cudaGetLastError();		/* a wrong number costs time only */
	return (uint32_t) multiprocessors / 2;
}

template <typename Low>
uint32_t
pass_tile()
{
	return tile_threads * pass_probes<Low>;
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
 * side, into its bin.  What does not fit goes to "beyond", where there is room for a tile.
 */
template <int thread_probes, bool Numbers, typename Key, typename Low>
static __global__ void
__launch_bounds__(tile_threads, tile_blocks)
partition_kernel(const Key *low, const uint32_t *numbers, uint32_t count, const TileRange *tiles, uint32_t later_by, Key base,
				 Digit<Low> digit, Bins *bins, uint32_t *overflow, uint32_t beyond, const RadixPartition<Low> out,
				 const Outliers outliers)
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
	TileRange	own = tile_of_block(tiles, count, tile, blockIdx.x);
	TileRange	later = tile_of_block(tiles, count, tile, blockIdx.x + later_by);
	uint32_t	start = own.start;
	uint32_t	size = own.size;
	Low			keys[thread_probes];
	uint32_t	slots[thread_probes];
	uint32_t	run = 0;
	uint32_t	run_start;
	uint32_t	reserved = 0;

	if (size == 0)
		return;
#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	i = j * tile_threads + threadIdx.x;

		keys[j] = i < size ? offset_of<Low>(low[start + i], base) : Low(0);
		if constexpr (sizeof(Low) < sizeof(Key))
			note_outlier(outliers, is_outlier<Key>(keys[j]), start + i);
	}
	/* To bring both costs more than it saves on an H100. */
	if (Numbers && numbers != nullptr)
		prefetch_items<tile_threads, thread_probes>(numbers + later.start, later.size);
	else
		prefetch_items<tile_threads, thread_probes>(low + later.start, later.size);
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
		reserved = atomicAdd(&bins->next[bin], run);
	Scan(scan).ExclusiveSum(run, run_start);
	if (bin < digit_bins)
	{
		uint32_t	move = reserved - run_start;

		if (overflow != nullptr && run > 0 && reserved + run > bins->limit[bin])
		{
			*overflow = 1;
			move = beyond;
		}
		starts[bin] = run_start;
		moves[bin] = move;
		if (out.runs != nullptr)
			out.runs[blockIdx.x * digit_bins + bin] = {run_start, move};
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
			if constexpr (Numbers)
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
			if constexpr (Numbers)
				out.numbers[to] = sorted_numbers[slot];
		}
	}
}

template <int thread_probes, bool Numbers, typename Key, typename Low>
static cudaError_t
launch_partition_tiles(const Key *low, const uint32_t *numbers, uint32_t count, const Binned &from, Key base,
					   Digit<Low> digit, Bins *bins, uint32_t *overflow, const RadixPartition<Low> &out,
					   const Outliers &outliers, cudaStream_t stream)
{
	constexpr uint32_t tile = tile_threads * thread_probes;
	constexpr size_t size = tile * (sizeof(Low) + (Numbers ? sizeof(uint32_t) : 0));
	cudaError_t error = cudaFuncSetAttribute(partition_kernel<thread_probes, Numbers, Key, Low>,
											 cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (error == cudaSuccess && from.bins != nullptr)
		error = launch_list(from, count, tile, stream);
	if (error != cudaSuccess)
		return error;
	partition_kernel<thread_probes, Numbers, Key, Low> <<<tiles_of(from, count, tile), tile_threads, size, stream>>>
		(low, numbers, count, from.tiles, later_tiles(), base, digit, bins, overflow, positions(count, overflow != nullptr), out,
		 outliers);
	return cudaGetLastError();
}

template <typename Key, typename Low>
cudaError_t
launch_partition(const Key *low, const uint32_t *numbers, uint32_t count, const Binned &from, Key base, Digit<Low> digit,
				 Bins *bins, uint32_t *overflow, const RadixPartition<Low> &out, const Outliers &outliers,
				 cudaStream_t stream)
{
	if (out.slots == nullptr)
	{
		cudaError_t error = launch_partition_tiles<long_pass_probes<Low>, true>(low, numbers, count, from, base, digit, bins,
																			   overflow, out, outliers, stream);

		if (error != cudaErrorInvalidValue)
			return error;
		cudaGetLastError();		/* the GPU has less shared memory */
	}
	if (out.numbers != nullptr)
		return launch_partition_tiles<pass_probes<Low>, true>(low, numbers, count, from, base, digit, bins, overflow, out,
															  outliers, stream);
	return launch_partition_tiles<pass_probes<Low>, false>(low, numbers, count, from, base, digit, bins, overflow, out,
														   outliers, stream);
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
 * tile's original order.  After an overflow there are no values.
 */
template <int thread_probes, typename Value, typename Out>
static __global__ void
__launch_bounds__(tile_threads)
restore_kernel(const uint16_t *slots, const Run *all_runs, const Value *values, uint32_t count,
			   const TileRange *tiles, uint32_t later_by, const uint32_t *overflow, Out *out)
{
	constexpr uint32_t tile = tile_threads * thread_probes;
	extern __shared__ __align__(16) char shared[];
	__shared__ Run runs[digit_bins];
	Value	   *sorted = (Value *) shared;
	TileRange	own = tile_of_block(tiles, count, tile, blockIdx.x);
	TileRange	later = tile_of_block(tiles, count, tile, blockIdx.x + later_by);
	uint32_t	start = own.start;
	uint32_t	size = own.size;
	uint16_t	mine[thread_probes];

	if (size == 0 || (overflow != nullptr && *overflow != 0))
		return;
#pragma unroll
	for (int j = 0; j < thread_probes; j++)
	{
		uint32_t	i = j * tile_threads + threadIdx.x;

		mine[j] = i < size ? slots[start + i] : 0;
	}
	if (threadIdx.x < digit_bins)
		runs[threadIdx.x] = all_runs[blockIdx.x * digit_bins + threadIdx.x];
	prefetch_items<tile_threads, thread_probes>(slots + later.start, later.size);
	if (later.size > 0)
		prefetch_items<tile_threads, 1>(all_runs + (blockIdx.x + later_by) * digit_bins, digit_bins);
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
			   const Binned &to, const uint32_t *overflow, Out *out, cudaStream_t stream)
{
	constexpr int thread_probes = pass_probes<Low>;
	constexpr uint32_t tile = tile_threads * thread_probes;
	constexpr size_t size = tile * sizeof(Value);
	cudaError_t error = cudaFuncSetAttribute(restore_kernel<thread_probes, Value, Out>,
											 cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (error != cudaSuccess)
		return error;
	restore_kernel<thread_probes, Value, Out> <<<tiles_of(to, count, tile), tile_threads, size, stream>>>
		(slots, runs, values, count, to.tiles, later_tiles(), overflow, out);
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
	template cudaError_t launch_count<Key, Low>(const Key *, uint32_t, Key, const Digits<Low> &, bool, Bins *, \
												cudaStream_t); \
	template cudaError_t launch_partition<Key, Low>(const Key *, const uint32_t *, uint32_t, const Binned &, Key, \
													Digit<Low>, Bins *, uint32_t *, const RadixPartition<Low> &, \
													const Outliers &, cudaStream_t);
#define FOR_LOW(Low) \
	template cudaError_t launch_sample<Low>(const Low *, uint32_t, Low, Low, Low, uint32_t *, cudaStream_t); \
	template uint32_t pass_tile<Low>(); \
	FOR_KEY(Low, Low) \
	FOR_VALUE(Low, uint32_t, uint32_t) \
	FOR_VALUE(Low, uint32_t, uint64_t) \
	FOR_VALUE(Low, uint64_t, uint64_t)
#define FOR_VALUE(Low, Value, Out) \
	template cudaError_t launch_restore<Low, Value, Out>(const uint16_t *, const Run *, const Value *, uint32_t, \
														 const Binned &, const uint32_t *, Out *, cudaStream_t);

FOR_LOW(uint32_t)
FOR_LOW(uint64_t)
FOR_LOW(Wide)
FOR_KEY(uint64_t, uint32_t)

}								/* namespace harmonia */
