/*
 * sort.cu
 *		A general radix sort by the top bits of keys.
 */
#include "lookups.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#endif

#include <numeric>

#ifdef __CUDACC__
template <typename Key>
static double
sort_on_gpu(Lookups<Key> &lookups, int first_bit)
{
	constexpr int end_bit = 8 * (int) sizeof(Key);
	Array<Key> keys(lookups.queries);
	Array<uint32_t> ranks(lookups.queries);
	size_t size = 0;
	double ms;

	CHECK(cub::DeviceRadixSort::SortPairs(nullptr, size, lookups.low(), keys.at,
										  lookups.buffers.ranks.at, ranks.at, (int) lookups.queries,
										  first_bit, end_bit));

	Array<char> scratch(size);

	ms = device_ms(
		[&]()
		{
			CHECK(cub::DeviceRadixSort::SortPairs(scratch.at, size, lookups.low(), keys.at,
												  lookups.buffers.ranks.at, ranks.at,
												  (int) lookups.queries, first_bit, end_bit));
		});
	CHECK(cudaMemcpy(lookups.low(), keys.at, lookups.queries * sizeof(Key),
					 cudaMemcpyDeviceToDevice));
	CHECK(cudaMemcpy(lookups.buffers.ranks.at, ranks.at, lookups.queries * sizeof(uint32_t),
					 cudaMemcpyDeviceToDevice));
	settle();
	return ms;
}
#endif

template <typename Key>
static double
sort_on_host(Lookups<Key> &lookups, int first_bit)
{
	const Key *low = lookups.low();
	const uint32_t *ranks = lookups.buffers.ranks.at;
	std::vector<Key> keys(low, low + lookups.queries);
	std::vector<uint32_t> old_ranks(ranks, ranks + lookups.queries);
	std::vector<uint32_t> order(lookups.queries);
	double start = now_ms();

	std::iota(order.begin(), order.end(), 0);
	std::stable_sort(order.begin(), order.end(),
					 [&](uint32_t a, uint32_t b)
					 { return keys[a] >> first_bit < keys[b] >> first_bit; });
	for (uint32_t i = 0; i < lookups.queries; i++)
	{
		lookups.low()[i] = keys[order[i]];
		lookups.buffers.ranks.at[i] = old_ranks[order[i]];
	}
	return now_ms() - start;
}

template <typename Key>
double
sort_queries(Lookups<Key> &lookups, int bits)
{
	int first_bit = 8 * (int) sizeof(Key) - bits;

	if (bits == 0)
		return 0;
#ifdef __CUDACC__
	if (!options.host)
		return sort_on_gpu(lookups, first_bit);
#endif
	return sort_on_host(lookups, first_bit);
}

template double sort_queries(Lookups<uint32_t> &, int);
template double sort_queries(Lookups<uint64_t> &, int);
