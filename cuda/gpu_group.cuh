/*
 * gpu_group.cuh
 *		Common parts of the search kernels: thread groups, and writing pairs.
 */
#ifndef HARMONIA_CUDA_GPU_GROUP_CUH
#define HARMONIA_CUDA_GPU_GROUP_CUH

#include "gpu_kernels.h"

namespace harmonia
{

constexpr int warp_threads = 32;
constexpr int block_threads = 256;
constexpr int block_warps = block_threads / warp_threads;
constexpr uint32_t all_lanes = 0xFFFFFFFF;

/* A group of neighbouring threads of a warp. */
template <int Threads> struct DeviceGroup
{
	static constexpr int threads = Threads;
	int thread; /* this thread's number in the group */
	int first_lane;

	__device__ __forceinline__ DeviceGroup()
	{
		int lane = (int) threadIdx.x % warp_threads;

		thread = lane % Threads;
		first_lane = lane - thread;
	}

	template <typename Test> __device__ __forceinline__ uint32_t vote(Test test) const
	{
		constexpr uint32_t group =
			Threads == warp_threads ? all_lanes : (1u << Threads % warp_threads) - 1;

		if (Threads == 1)
			return test(0) ? 1 : 0;
		return (__ballot_sync(group << first_lane, test(thread)) >> first_lane) & group;
	}
};

/* Have a line brought to the second-level cache. */
__device__ __forceinline__ void
prefetch(const void *at)
{
	asm volatile("prefetch.global.L2 [%0];" : : "l"(at));
}

/* Minimum, maximum and sum of the values of a warp's threads, and the bits that any of them has. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ __forceinline__ uint32_t
warp_least(uint32_t value)
{
	return __reduce_min_sync(all_lanes, value);
}

__device__ __forceinline__ uint32_t
warp_greatest(uint32_t value)
{
	return __reduce_max_sync(all_lanes, value);
}

__device__ __forceinline__ uint32_t
warp_sum(uint32_t value)
{
	return __reduce_add_sync(all_lanes, value);
}

__device__ __forceinline__ uint32_t
warp_or(uint32_t value)
{
	return __reduce_or_sync(all_lanes, value);
}
#else
template <typename Reduce>
__device__ __forceinline__ uint32_t
warp_reduce(uint32_t value, Reduce reduce)
{
#pragma unroll
	for (int distance = warp_threads / 2; distance > 0; distance /= 2)
		value = reduce(value, __shfl_xor_sync(all_lanes, value, distance));
	return value;
}

__device__ __forceinline__ uint32_t
warp_least(uint32_t value)
{
	return warp_reduce(value, [](uint32_t a, uint32_t b) { return min(a, b); });
}

__device__ __forceinline__ uint32_t
warp_greatest(uint32_t value)
{
	return warp_reduce(value, [](uint32_t a, uint32_t b) { return max(a, b); });
}

__device__ __forceinline__ uint32_t
warp_sum(uint32_t value)
{
	return warp_reduce(value, [](uint32_t a, uint32_t b) { return a + b; });
}

__device__ __forceinline__ uint32_t
warp_or(uint32_t value)
{
	return warp_reduce(value, [](uint32_t a, uint32_t b) { return a | b; });
}
#endif

/* ----------------------------------------------------------------
 *		Pairs
 * ----------------------------------------------------------------
 */

/* Sum over the lanes before this one.  Also returns the sum over the whole warp. */
__device__ __forceinline__ uint64_t
sum_before(uint64_t own, uint64_t &warp_sum)
{
	int lane = (int) threadIdx.x % warp_threads;
	uint64_t sum = own;

	for (int distance = 1; distance < warp_threads; distance *= 2)
	{
		uint64_t other =
			__shfl_up_sync(all_lanes, (unsigned long long) sum, (unsigned int) distance);

		sum += lane >= distance ? other : 0;
	}
	warp_sum = __shfl_sync(all_lanes, (unsigned long long) sum, warp_threads - 1);
	return sum - own;
}

/*
 * Reserve room in the results for the hits of a block, and in it room for each of its
 * warps.  Returns the start of this warp's.  All threads of the block call this together, and
 * synchronise before they call it again.
 */
__device__ __forceinline__ uint64_t
reserve_hits(uint64_t warp_hits, unsigned long long *hits)
{
	__shared__ uint64_t warp_sums[block_warps];
	__shared__ uint64_t block_start;
	int warp = (int) threadIdx.x / warp_threads;
	uint64_t before = 0;
	uint64_t block_hits = 0;

	if (threadIdx.x % warp_threads == 0)
		warp_sums[warp] = warp_hits;
	__syncthreads();
	for (int i = 0; i < block_warps; i++)
	{
		before += i < warp ? warp_sums[i] : 0;
		block_hits += warp_sums[i];
	}
	if (threadIdx.x == 0 && block_hits > 0)
		block_start = (uint64_t) atomicAdd(hits, (unsigned long long) block_hits);
	__syncthreads();
	return block_start + before;
}

/*
 * The same for the hits of a warp alone, which no other waits for.  All its threads call this
 * together.
 */
__device__ __forceinline__ uint64_t
reserve_warp_hits(uint64_t warp_hits, unsigned long long *hits)
{
	unsigned long long start = 0;

	if (threadIdx.x % warp_threads == 0 && warp_hits > 0)
		start = atomicAdd(hits, (unsigned long long) warp_hits);
	return __shfl_sync(all_lanes, start, 0);
}

/* With distinct points: clear "found" if an equal point was found before. */
template <typename Key>
__device__ __forceinline__ void
keep_distinct(const Tree<Key> &tree, const Results &results, Key key, Found &found)
{
	if (results.seen != nullptr && found.count > 0)
	{
		uint64_t slot = number_of_slot(DeviceGroup<1>(), tree, found.first_block, key);
		uint32_t bit = 1u << (uint32_t) (slot % 32);

		if ((atomicOr(&results.seen[slot / 32], bit) & bit) != 0)
			found.count = 0;
	}
}

/*
 * Write the hits of each group's point.  All threads of the block call this together, even
 * those whose group has found nothing.
 */
template <int Threads, typename Key>
__device__ __forceinline__ void
give_pairs(const DeviceGroup<Threads> &group, const Tree<Key> &tree, const Results &results,
		   const Found &found, Key key, uint32_t number)
{
	bool leads = group.thread == 0;
	uint64_t warp_hits;
	uint64_t start = sum_before(leads ? found.count : 0, warp_hits);

	start += reserve_hits(warp_hits, results.hits);
	if (Threads > 1)
		start = __shfl_sync(all_lanes, (unsigned long long) start, group.first_lane);

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
		find_hits(group, tree, found.first_block, key,
				  [&](uint64_t n, uint64_t tid)
				  {
					  if ((int) (n % Threads) == group.thread && start + n < results.room)
					  {
						  results.probes[start + n] = number;
						  results.tids[start + n] = tid;
					  }
				  });
	}
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GPU_GROUP_CUH */
