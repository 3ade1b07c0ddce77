/*
 * gpu_search_narrow.cu
 *		The search kernels for points with 64-bit keys that are sorted as 32-bit offsets.
 */
#include "gpu_search.cuh"

namespace harmonia
{

constexpr uint32_t outlier_blocks = 1024;

cudaError_t
launch_narrow_search(const Tree<uint64_t> &tree, const Probes<uint64_t, uint32_t> &probes,
					 const Results &results, cudaStream_t stream)
{
	if (results.output == HD_PAIRS)
		return launch_tiles<uint64_t, uint32_t, true, true>(tree, probes, results, stream);
	return launch_tiles<uint64_t, uint32_t, true, false>(tree, probes, results, stream);
}

/* Outliers are in the first or the last leaf, if at all, so they need no order. */
template <bool Pairs>
static __global__ void
__launch_bounds__(block_threads)
outlier_kernel(const __grid_constant__ Tree<uint64_t> tree, const uint64_t *low, const Outliers outliers,
			   const Results results)
{
	DeviceGroup<1> group;
	uint32_t	count = *outliers.count;

	for (uint32_t start = blockIdx.x * block_threads; start < count; start += gridDim.x * block_threads)
	{
		uint32_t	i = start + threadIdx.x;
		uint32_t	number = 0;
		uint64_t	key = 0;
		Found		found = {};

		if (i < count)
		{
			number = outliers.numbers[i];
			key = low[number];
			found = find_summary<0>(group, tree, key);
			if (Pairs)
				keep_distinct(tree, results, key, found);
		}
		if (Pairs)
		{
			give_pairs(group, tree, results, found, key, number);
			__syncthreads();
		}
		else if (i < count)
		{
			if (results.output == HD_FIRST)
				results.tids[number] = found.first;
			else
				results.counts[number] = found.count;
		}
	}
}

cudaError_t
launch_outlier_search(const Tree<uint64_t> &tree, const uint64_t *low, const Outliers &outliers,
					  const Results &results, cudaStream_t stream)
{
	if (results.output == HD_PAIRS)
		outlier_kernel<true> <<<outlier_blocks, block_threads, 0, stream>>>(tree, low, outliers, results);
	else
		outlier_kernel<false> <<<outlier_blocks, block_threads, 0, stream>>>(tree, low, outliers, results);
	return cudaGetLastError();
}

}								/* namespace harmonia */
