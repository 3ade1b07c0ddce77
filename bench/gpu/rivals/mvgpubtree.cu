/*
 * mvgpubtree.cu
 *		MVGpuBTree's B-link tree without versions, the fastest of its trees: an ordered index that
 *		is changed on the GPU.
 */
#include "rivals.h"

#include <gpu_btree.h>

void
measure_mvgpubtree(Lookups<uint32_t> &lookups)
{
	uint64_t count = lookups.entries.keys.size();
	Array<uint32_t> keys(count);
	Array<uint32_t> ranks(count);
	GpuBTree::gpu_blink_tree<uint32_t, uint32_t, 16> tree;

	for_each(count, MakeEntry<uint32_t>{lookups.keys.at, count, keys.at, ranks.at});
	settle();
	tree.insert(keys.at, ranks.at, (uint32_t) count);
	settle();
	measure_library(lookups, "MVGpuBTree B-link tree",
					(uint64_t) (tree.compute_memory_usage() * (1 << 30)),
					[&](const uint32_t *queries, uint32_t *found, uint32_t n)
					{ tree.find(queries, found, n); });
}
