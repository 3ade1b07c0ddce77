/*
 * cuco.cu
 *		cuCollections' static_map: a hash table, which has no order and no ranges.
 */
#include "rivals.h"

/* cuCollections uses what the CUDA toolkit has had no more of since version 13. */
#include <thrust/functional.h>
#if CCCL_MAJOR_VERSION >= 3
namespace thrust
{
template <typename Type = void> struct identity
{
	__host__ __device__ constexpr Type operator()(const Type &x) const
	{
		return x;
	}
};

template <> struct identity<void>
{
	template <typename Type> __host__ __device__ constexpr Type &&operator()(Type &&x) const
	{
		return static_cast<Type &&>(x);
	}
};
} // namespace thrust
#endif

#include <cuco/static_map.cuh>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/iterator/transform_iterator.h>

template <typename Key> struct MakePair
{
	const Key *keys;
	const Key *ranks;

	__host__ __device__ cuco::pair<Key, Key> operator()(uint64_t i) const
	{
		return {keys[i], ranks[i]};
	}
};

/* A map in which so many threads probe for a key together. */
template <int Threads, typename Key>
static void
measure_map(Lookups<Key> &lookups, const Array<Key> &keys, const Array<Key> &ranks, double load)
{
	uint64_t count = lookups.entries.keys.size();

	/* No entry has the highest key. */
	auto map =
		cuco::static_map{(size_t) ((double) count / load), cuco::empty_key<Key>{(Key) ~(Key) 0},
						 cuco::empty_value<Key>{(Key) ~(Key) 0}, thrust::equal_to<Key>{},
						 cuco::linear_probing<Threads, cuco::default_hash_function<Key>>{}};
	auto pairs = thrust::make_transform_iterator(thrust::counting_iterator<uint64_t>(0),
												 MakePair<Key>{keys.at, ranks.at});

	map.insert(pairs, pairs + count);
	measure_library(lookups,
					text("cuCollections static_map at load %.1f with groups of %d", load, Threads),
					map.capacity() * 2 * sizeof(Key),
					[&](const Key *queries, Key *found, uint32_t n)
					{ map.find_async(queries, queries + n, found); });
}

template <typename Key>
void
measure_cuco(Lookups<Key> &lookups)
{
	uint64_t count = lookups.entries.keys.size();
	Array<Key> keys(count);
	Array<Key> ranks(count);

	for_each(count, MakeEntry<Key>{lookups.keys.at, count, keys.at, ranks.at});
	settle();
	for (double load : {0.5, 0.8})
	{
		measure_map<1>(lookups, keys, ranks, load);
		measure_map<2>(lookups, keys, ranks, load);
		measure_map<4>(lookups, keys, ranks, load);
	}
}

template void measure_cuco(Lookups<uint32_t> &);
template void measure_cuco(Lookups<uint64_t> &);
