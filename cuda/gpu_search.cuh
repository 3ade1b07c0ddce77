/*
 * gpu_search.cuh
 *		The search kernels, thin shells around search.h, and their launchers.
 *
 * gpu_search_32.cu, gpu_search_64.cu and gpu_search_wide.cu instantiate them.  Of wide keys, points
 * alone are searched in tiles.
 */
#ifndef HARMONIA_CUDA_GPU_SEARCH_CUH
#define HARMONIA_CUDA_GPU_SEARCH_CUH

#include "gpu_tile.cuh"

namespace harmonia
{

/*
 * Search probes one by one, each with a group of threads; ranges and distinct points with one.
 *
 * @tparam Threads	number of threads in a group
 * @tparam Fanout	the tree's fanout, or 0 if it is only known at run time
 * @tparam Points	whether probes are points, and not ranges
 */
template <typename Key, int Threads, int Fanout, bool Points>
__global__ void
__launch_bounds__(block_threads) search_kernel(const __grid_constant__ Tree<Key> tree,
											   const Probes<Key> probes, const Results results)
{
	uint32_t i = blockIdx.x * (block_threads / Threads) + threadIdx.x / Threads;
	std::conditional_t<Threads == 1, DeviceGroup<1>, FrontToBack<DeviceGroup<Threads>>> group;
	uint32_t number = 0;
	Key low = 0;
	Key high = 0;
	Found found = {};
	PlaceSpan places = {};

	if (i < probes.count)
	{
		number = probes.number(i);
		low = probes.low[number];
		if constexpr (Points)
		{
			found = find_summary<Fanout>(group, tree, low);
			if constexpr (Threads == 1)
				keep_distinct(tree, results, low, found);
		}
		else
		{
			high = probes.high[number];
			places = find_places<Fanout>(group, tree, low, high);
		}
	}
	if constexpr (Points)
		give_pairs(group, tree, results, found, low, number);
	else
		give_ranges(group, tree, TreeLeaves<Key>{tree}, results, places, low, high, number);
}

/*
 * A block writes the hits of its ranges, which can be many.  So few ranges are divided among this
 * many tiles at least, some for each of a GPU's blocks.
 */
constexpr uint32_t range_tiles = 4096;

template <typename Key, bool Points>
static uint32_t
tile_size(uint32_t count)
{
	uint32_t blocks = (count / range_tiles + block_threads - 1) / block_threads;

	if (Points || blocks * block_threads > Tile<Key, Points>::size)
		return Tile<Key, Points>::size;
	return blocks == 0 ? block_threads : blocks * block_threads;
}

/*
 * Have ranges in tiles of this size so few leaves that these should be staged?  The stage takes
 * from the first-level cache.  Tiles are not cut where leaves end, so they have some more than
 * their share.
 */
template <typename Key>
static bool
stages_ranges(const Tree<Key> &tree, uint32_t count, uint32_t tile)
{
	return (uint64_t) tree.leaves * tile * 3 / 2 < (uint64_t) RangeStage<Key>::max_leaves * count;
}

template <typename Key, bool Points>
static cudaError_t
launch_tiles(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			 cudaStream_t stream)
{
	uint32_t tile = tile_size<Key, Points>(probes.count);
	bool stages = !Points && stages_ranges(tree, probes.count, tile);
	constexpr size_t without = sizeof(typename Tile<Key, Points>::Memory);
	constexpr size_t most = without + (Points ? 0 : sizeof(RangeStage<Key>));

	static_assert(most + (Points ? 0 : sizeof(RangeMemory)) <= 65536,
				  "what a block can have on GPUs of capability 7.5");

	/* The most at all times: another lane may launch the kernel meanwhile. */
	cudaError_t error = cudaFuncSetAttribute(
		search_tile_kernel<Key, Points>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) most);

	if (error != cudaSuccess)
		return error;
	search_tile_kernel<Key, Points>
		<<<blocks_for(probes.count, tile), block_threads, stages ? most : without, stream>>>(
			tree, probes, results, tile, stages);
	return cudaGetLastError();
}

template <typename Key, int Threads, bool Points>
static cudaError_t
launch_groups(const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			  cudaStream_t stream)
{
	uint32_t blocks = blocks_for(probes.count, block_threads / Threads);

	if (Threads == 1 && tree.fanout == HD_DEFAULT_FANOUT)
		search_kernel<Key, 1, HD_DEFAULT_FANOUT, Points>
			<<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	else
		search_kernel<Key, Threads, 0, Points>
			<<<blocks, block_threads, 0, stream>>>(tree, probes, results);
	return cudaGetLastError();
}

template <typename Key, bool Points>
static cudaError_t
launch_kind(bool tiled, const Tree<Key> &tree, const Probes<Key> &probes, const Results &results,
			cudaStream_t stream)
{
	if constexpr (!is_wide<Key> || Points)
	{
		if (tiled)
			return launch_tiles<Key, Points>(tree, probes, results, stream);
	}
	return launch_groups<Key, 1, Points>(tree, probes, results, stream);
}

template <typename Key>
cudaError_t
launch_search(int threads, bool tiled, const Tree<Key> &tree, const Probes<Key> &probes,
			  const Results &results, cudaStream_t stream)
{
	if (threads > 1)
		return with_threads(threads,
							[&](auto constant) {
								return launch_groups<Key, decltype(constant)::value, true>(
									tree, probes, results, stream);
							});
	return probes.high == nullptr ? launch_kind<Key, true>(tiled, tree, probes, results, stream) :
									launch_kind<Key, false>(tiled, tree, probes, results, stream);
}

} /* namespace harmonia */

#define INSTANTIATE_SEARCH(Key) \
	template cudaError_t harmonia::launch_search<Key>( \
		int, bool, const Tree<Key> &, const Probes<Key> &, const Results &, cudaStream_t);

#endif /* HARMONIA_CUDA_GPU_SEARCH_CUH */
