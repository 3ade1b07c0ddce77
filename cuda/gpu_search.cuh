/*
 * gpu_search.cuh
 *		The search kernels, thin shells around search.h, and their launchers.
 *
 * gpu_search_32.cu, gpu_search_64.cu and gpu_search_wide.cu instantiate them.  Of wide keys, points
 * of 128 bits alone are searched in tiles.
 */
#ifndef HARMONIA_CUDA_GPU_SEARCH_CUH
#define HARMONIA_CUDA_GPU_SEARCH_CUH

#include "gpu_tile.cuh"

namespace harmonia
{

/*
 * @tparam Threads	number of threads in a group; a group serves one probe
 * @tparam Fanout	the tree's fanout, or 0 if it is only known at run time
 * @tparam Points	whether all probes have low equal to high
 * @tparam Pairs	whether results are pairs
 */
template <typename Key, int Threads, int Fanout, bool Points, bool Pairs>
__global__ void
__launch_bounds__(block_threads)
search_kernel(const __grid_constant__ Tree<Key> tree, const Probes<Key> probes, const Results results)
{
	uint32_t	i = blockIdx.x * (block_threads / Threads) + threadIdx.x / Threads;
	DeviceGroup<Threads> group;
	Key			low = 0;
	Key			high = 0;
	uint32_t	number = i;
	Found		found = {};
	PlaceSpan	places = {};

	if (i < probes.count)
	{
		low = probes.low[i] + probes.base;
		if ((Pairs || !Points) && probes.numbers != nullptr)
			number = probes.numbers[i];
		if constexpr (Points)
			found = find_summary<Fanout>(group, tree, low);
		else
		{
			high = probes.all_high[number];
			places = find_places<Fanout>(group, tree, low, high);
			if (!Pairs)
				found.count = count_entries(group, tree, TreeLeaves<Key>{tree}, places, low, high);
		}
		if (Points && Pairs && Threads == 1)
			keep_distinct(tree, results, low, found);
	}
	if constexpr (Pairs && !Points)
		give_ranges(group, tree, TreeLeaves<Key>{tree}, results, places, low, high, number);
	else if constexpr (Pairs)
		give_pairs(group, tree, results, found, low, number);
	else if (group.thread == 0 && i < probes.count)
	{
		if (results.output == HD_FIRST)
			put_first(results, i, found.first);
		else
			results.counts[i] = found.count;
	}
}

/*
 * A block writes the hits of its ranges, which can be many.  So few ranges are divided among this many
 * tiles at least, some for each of a GPU's blocks.
 */
constexpr uint32_t range_tiles = 4096;

template <typename Key, bool Points, bool Pairs>
static uint32_t
tile_size(uint32_t count)
{
	uint32_t	blocks = (count / range_tiles + block_threads - 1) / block_threads;

	if (Points || !Pairs || blocks * block_threads > Tile<Key, Points, Pairs>::size)
		return Tile<Key, Points, Pairs>::size;
	return blocks == 0 ? block_threads : blocks * block_threads;
}

/*
 * Have ranges in tiles of this size so few leaves that these should be staged?  The stage takes from the first-level cache.  Tiles are
 * not cut where leaves end, so they have some more than their share.
 */
template <typename Key>
static bool
stages_ranges(const Tree<Key> &tree, uint32_t count, uint32_t tile)
{
	return (uint64_t) tree.leaves * tile * 3 / 2 < (uint64_t) RangeStage<Key>::max_leaves * count;
}

template <typename Key, typename Low, bool Points, bool Pairs>
static cudaError_t
launch_tiles(const Tree<Key> &tree, const Probes<Key, Low> &probes, const Results &results,
			 cudaStream_t stream)
{
	uint32_t	tile = tile_size<Key, Points, Pairs>(probes.count);
	uint32_t	blocks = (probes.count - 1) / tile + 1;
	bool		stages = !Points && stages_ranges(tree, probes.count, tile);
	constexpr size_t without = sizeof(typename Tile<Key, Points, Pairs>::Memory);
	constexpr size_t most = without + (Points ? 0 : sizeof(RangeStage<Key>));

	static_assert(most + (Points ? 0 : sizeof(Ranges)) <= 65536, "what a block can have on GPUs of capability 7.5");

	/* The most at all times: another lane may launch the kernel meanwhile. */
	cudaError_t error = cudaFuncSetAttribute(search_tile_kernel<Key, Low, Points, Pairs>,
											 cudaFuncAttributeMaxDynamicSharedMemorySize, (int) most);

	if (error == cudaSuccess && probes.binned.bins != nullptr)
	{
		blocks = listed_tiles(probes.count, tile);
		error = launch_list(probes.binned, probes.count, tile, stream);
	}
	if (error != cudaSuccess)
		return error;
	search_tile_kernel<Key, Low, Points, Pairs> <<<blocks, block_threads, stages ? most : without, stream>>>
		(tree, probes, results, tile, stages, later_tiles());
	return cudaGetLastError();
}

template <typename Key, int Threads, int Fanout, bool Points, bool Pairs>
static cudaError_t
launch_groups(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			  cudaStream_t stream)
{
	constexpr uint32_t together = block_threads / Threads;

	search_kernel<Key, Threads, Fanout, Points, Pairs> <<<(probes.count - 1) / together + 1, block_threads, 0, stream>>>
		(tree, probes, results);
	return cudaGetLastError();
}

template <typename Key, bool Points, bool Pairs>
static cudaError_t
launch_kind(const HtGroupChoice &group, bool tiled, const Tree<Key> &tree,
			const Probes<Key> &probes, const Results &results, cudaStream_t stream)
{
	switch (group.threads)
	{
		case 1:
			if constexpr (!is_wide<Key> || Points)
			{
				if (tiled && group.search == HT_GROUP_KARY)
					return launch_tiles<Key, Key, Points, Pairs>(tree, probes, results, stream);
			}
			if (tree.fanout == HD_DEFAULT_FANOUT)
				return launch_groups<Key, 1, HD_DEFAULT_FANOUT, Points, Pairs>(tree, probes, results, stream);
			return launch_groups<Key, 1, 0, Points, Pairs>(tree, probes, results, stream);
		case 2:
			return launch_groups<Key, 2, 0, Points, Pairs>(tree, probes, results, stream);
		case 4:
			return launch_groups<Key, 4, 0, Points, Pairs>(tree, probes, results, stream);
		case 8:
			return launch_groups<Key, 8, 0, Points, Pairs>(tree, probes, results, stream);
		case 16:
			return launch_groups<Key, 16, 0, Points, Pairs>(tree, probes, results, stream);
		default:
			return launch_groups<Key, 32, 0, Points, Pairs>(tree, probes, results, stream);
	}
}

template <typename Key>
cudaError_t
launch_search(const HtGroupChoice &group, bool tiled, const Tree<Key> &tree,
			  const Probes<Key> &probes, const Results &results, cudaStream_t stream)
{
	bool		points = probes.all_high == nullptr;

	if (points && results.output == HD_PAIRS)
		return launch_kind<Key, true, true>(group, tiled, tree, probes, results, stream);
	if (points)
		return launch_kind<Key, true, false>(group, tiled, tree, probes, results, stream);
	if (results.output == HD_PAIRS)
		return launch_kind<Key, false, true>(group, tiled, tree, probes, results, stream);
	return launch_kind<Key, false, false>(group, tiled, tree, probes, results, stream);
}

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_GPU_SEARCH_CUH */
