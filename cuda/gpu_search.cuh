/*
 * gpu_search.cuh
 *		The search kernel, a thin shell around search.h.
 *
 * gpu_search_32.cu and gpu_search_64.cu instantiate it, each for one key width.
 */
#ifndef HARMONIA_GPU_SEARCH_CUH
#define HARMONIA_GPU_SEARCH_CUH

#include <cub/block/block_radix_sort.cuh>

#include "gpu_kernels.h"

namespace harmonia
{

constexpr int warp_threads = 32;
constexpr int block_threads = 256;
constexpr uint32_t all_lanes = 0xFFFFFFFF;
constexpr uint32_t staged_hits = 2048;

/* Probes that a single thread serves one after the other; blocks on a multiprocessor. */
constexpr int tile_probes = 4;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr int tile_blocks = 4;	/* all that fit */
#else
constexpr int tile_blocks = 6;
#endif

/* A group of neighbouring threads of a warp. */
template <int Threads>
struct DeviceGroup
{
	static constexpr int threads = Threads;
	int			thread;			/* which one this is */
	int			first_lane;

	__device__ __forceinline__ DeviceGroup()
	{
		int			lane = (int) threadIdx.x % warp_threads;

		thread = lane % Threads;
		first_lane = lane - thread;
	}

	template <typename Test>
	__device__ __forceinline__ uint32_t vote(Test test) const
	{
		constexpr uint32_t group = Threads == warp_threads ? all_lanes : (1u << Threads % warp_threads) - 1;

		if (Threads == 1)
			return test(0) ? 1 : 0;
		return (__ballot_sync(group << first_lane, test(thread)) >> first_lane) & group;
	}
};

/*
 * Reserve a part of the results for the hits of a block, and in there one for each of
 * its threads, which begins at the returned place and has room for "own".  All threads
 * take part.
 */
__device__ __forceinline__ uint64_t
reserve_hits(uint32_t own, unsigned long long *hits, uint64_t &block_start_at, uint64_t &block_hits)
{
	__shared__ uint64_t warp_sums[block_threads / warp_threads];
	__shared__ uint64_t block_start;
	__shared__ uint64_t block_total;
	int			lane = (int) threadIdx.x % warp_threads;
	int			warp = (int) threadIdx.x / warp_threads;
	uint64_t	before;
	uint64_t	sum;
	uint64_t	start;

	if (!__any_sync(all_lanes, own > 1))
	{
		/* The usual case for points. */
		uint32_t	set = __ballot_sync(all_lanes, own != 0);

		before = (uint64_t) __popc(set & ((1u << lane) - 1));
		sum = (uint64_t) __popc(set);
	}
	else
	{
		sum = own;
		for (int distance = 1; distance < warp_threads; distance *= 2)
		{
			uint64_t	other = __shfl_up_sync(all_lanes, (unsigned long long) sum, (unsigned int) distance);

			sum += lane >= distance ? other : 0;
		}
		before = sum - own;
	}
	if (lane == warp_threads - 1)
		warp_sums[warp] = sum;
	__syncthreads();
	if (threadIdx.x == 0)
	{
		uint64_t	total = 0;

		for (int i = 0; i < block_threads / warp_threads; i++)
			total += warp_sums[i];
		block_total = total;
		block_start = total > 0 ? (uint64_t) atomicAdd(hits, (unsigned long long) total) : 0;
	}
	__syncthreads();
	block_start_at = block_start;
	block_hits = block_total;
	start = block_start + before;
	for (int i = 0; i < warp; i++)
		start += warp_sums[i];
	return start;
}

/*
 * Serve a probe; all threads of the block take part, though not all have one.
 *
 * @tparam Threads	threads of a group, which serves one probe
 * @tparam Fanout	the tree's, or 0 if that is to be read from it
 * @tparam Points	whether low and high of all probes are the same
 * @tparam Pairs	whether results are pairs
 */
template <typename Key, int Threads, int Fanout, bool Points, bool Pairs>
__device__ __forceinline__ void
serve(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results, uint32_t i,
	  Key low, uint32_t number)
{
	DeviceGroup<Threads> group;
	bool		leads = group.thread == 0;
	Key			high = 0;
	Found		found = {};

	low += probes.base;
	if (i < probes.count)
	{
		high = Points ? low : probes.high[number];
		found = find_summary<Fanout, Points>(group, tree, low, high);
	}

	if (!Pairs)
	{
		if (leads && i < probes.count)
		{
			uint32_t	place = results.in_place ? number : i;

			if (results.output == HD_FIRST)
				results.tids[place] = found.first;
			else
				results.counts[place] = found.count;
		}
		return;
	}

	uint64_t	block_start;
	uint64_t	block_hits;
	uint64_t	start = reserve_hits(leads ? found.count : 0, results.hits, block_start, block_hits);

	if (Threads > 1)
		start = __shfl_sync(all_lanes, (unsigned long long) start, group.first_lane);

	/* A few hits for each range are gathered, to be written side by side. */
	if constexpr (!Points)
	{
		__shared__ uint64_t tids[staged_hits];
		__shared__ uint32_t numbers[staged_hits];

		if (block_hits <= staged_hits)
		{
			if (found.count > 0)
				find_hits(group, tree, found.place, low, high, [&](uint64_t n, uint64_t tid)
						  {
							  if ((int) (n % Threads) == group.thread)
							  {
								  tids[start - block_start + n] = tid;
								  numbers[start - block_start + n] = number;
							  }
						  });
			__syncthreads();
			for (uint32_t n = threadIdx.x; n < block_hits && block_start + n < results.room;
				 n += block_threads)
			{
				results.tids[block_start + n] = tids[n];
				results.probes[block_start + n] = numbers[n];
			}
			return;
		}
	}

	if (found.count == 1)
	{
		if (leads && start < results.room)
		{
			results.probes[start] = number;
			results.tids[start] = found.first;
		}
	}
	else if (found.count > 1)
	{
		find_hits(group, tree, found.place, low, high, [&](uint64_t n, uint64_t tid)
				  {
					  if ((int) (n % Threads) == group.thread && start + n < results.room)
					  {
						  results.probes[start + n] = number;
						  results.tids[start + n] = tid;
					  }
				  });
	}
}

template <typename Key, int Threads, int Fanout, bool Points, bool Pairs>
__global__ void
__launch_bounds__(block_threads)
search_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key> probes, const Results results)
{
	uint32_t	i = blockIdx.x * (block_threads / Threads) + threadIdx.x / Threads;
	Key			low = 0;
	uint32_t	number = i;

	if (i < probes.count)
	{
		low = probes.low[i];
		number = probes.numbers != nullptr ? probes.numbers[i] : i;
	}
	serve<Key, Threads, Fanout, Points, Pairs>(tree, probes, results, i, low, number);
}

/*
 * The same for single threads and sorted probes.  What limits it is the number of cache
 * lines that the loads of a warp touch, so probes near each other are first sorted
 * by a few more bits, in shared memory.  Where results are to be restored to probe
 * order, the probes' numbers change places with them.
 */
template <typename Key, int Fanout, bool Points, bool Pairs>
__global__ void
__launch_bounds__(block_threads, tile_blocks)
search_tile_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key> probes, const Results results)
{
	using Sort = cub::BlockRadixSort<Key, block_threads, tile_probes, uint32_t>;
	constexpr uint32_t tile = block_threads * tile_probes;
	__shared__ union
	{
		typename Sort::TempStorage sort;
		struct
		{
			Key			low[tile];
			uint32_t	numbers[tile];
		}			sorted;
	}			shared;
	uint32_t	start = blockIdx.x * tile;
	Key			lows[tile_probes];
	uint32_t	numbers[tile_probes];

	/* A tile that is not full, the last one, stays as it is. */
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t	i = start + j * block_threads + threadIdx.x;

		lows[j] = i < probes.count ? probes.low[i] : 0;
		numbers[j] = i < probes.count ? probes.numbers[i] : 0;
	}
	if (start + tile <= probes.count)
	{
		Sort(shared.sort).SortBlockedToStriped(lows, numbers, probes.local_first_bit,
											   probes.local_first_bit + probes.local_bits);
		__syncthreads();
	}
	for (int j = 0; j < tile_probes; j++)
	{
		shared.sorted.low[j * block_threads + threadIdx.x] = lows[j];
		shared.sorted.numbers[j * block_threads + threadIdx.x] = numbers[j];
	}

	/* Each thread reads what it wrote. */
#pragma unroll 1
	for (int j = 0; j < tile_probes; j++)
	{
		uint32_t	place = j * block_threads + threadIdx.x;
		uint32_t	number = shared.sorted.numbers[place];

		if (!Pairs && !results.in_place && start + place < probes.count)
			probes.numbers[start + place] = number;
		serve<Key, 1, Fanout, Points, Pairs>(tree, probes, results, start + place,
											 shared.sorted.low[place], number);
		if (Pairs)
			__syncthreads();
	}
}

template <typename Key, int Fanout>
static cudaError_t
launch_tiles(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			 cudaStream_t stream)
{
	constexpr uint32_t tile = block_threads * tile_probes;
	uint32_t	blocks = (probes.count - 1) / tile + 1;
	bool		pairs = results.output == HD_PAIRS;

	if (probes.high == nullptr && pairs)
		search_tile_kernel<Key, Fanout, true, true> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	else if (probes.high == nullptr)
		search_tile_kernel<Key, Fanout, true, false> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	else if (pairs)
		search_tile_kernel<Key, Fanout, false, true> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	else
		search_tile_kernel<Key, Fanout, false, false> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	return cudaGetLastError();
}

template <typename Key, int Threads, int Fanout>
static cudaError_t
launch_kind(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			cudaStream_t stream)
{
	uint32_t	together = block_threads / Threads;
	uint32_t	blocks = (uint32_t) (((uint64_t) probes.count + together - 1) / together);
	bool		pairs = results.output == HD_PAIRS;

	if (probes.high == nullptr && pairs)
		search_kernel<Key, Threads, Fanout, true, true> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	else if (probes.high == nullptr)
		search_kernel<Key, Threads, Fanout, true, false> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	else if (pairs)
		search_kernel<Key, Threads, Fanout, false, true> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	else
		search_kernel<Key, Threads, Fanout, false, false> <<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	return cudaGetLastError();
}

template <typename Key>
cudaError_t
launch_search(int threads, const Tree<Key> &tree, const Probes<Key> &probes,
			  const Results &results, cudaStream_t stream)
{
	switch (threads)
	{
		case 1:
			if (tree.fanout == HD_DEFAULT_FANOUT && probes.local_bits > 0)
				return launch_tiles<Key, HD_DEFAULT_FANOUT>(tree, probes, results, stream);
			if (tree.fanout == HD_DEFAULT_FANOUT)
				return launch_kind<Key, 1, HD_DEFAULT_FANOUT>(tree, probes, results, stream);
			return launch_kind<Key, 1, 0>(tree, probes, results, stream);
		case 2:
			return launch_kind<Key, 2, 0>(tree, probes, results, stream);
		case 4:
			return launch_kind<Key, 4, 0>(tree, probes, results, stream);
		case 8:
			return launch_kind<Key, 8, 0>(tree, probes, results, stream);
		case 16:
			return launch_kind<Key, 16, 0>(tree, probes, results, stream);
		default:
			return launch_kind<Key, 32, 0>(tree, probes, results, stream);
	}
}

}								/* namespace harmonia */

#endif							/* HARMONIA_GPU_SEARCH_CUH */
