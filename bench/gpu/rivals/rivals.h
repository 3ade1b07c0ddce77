/*
 * rivals.h
 *		Others' searches, measured beside the library's (../rivals.cu).
 */
#ifndef HARMONIA_BENCH_RIVALS_H
#define HARMONIA_BENCH_RIVALS_H

#include "../lookups.h"

/*
 * Print two rows of a system: queries a second, and the same for each byte of its keys and values,
 * with what its structure adds to them.
 */
template <typename Key>
static void
put_rival(const Lookups<Key> &lookups, const std::string &system, double ms, uint64_t bytes)
{
	std::string section = text("rivals %s pairs %s", width_name<Key>().c_str(),
							   power_name(lookups.entries.keys.size()).c_str());
	double rate = lookups.queries / ms * 1e3;

	put_row(section, draw_name(lookups.draw), system, rate / 1e9, "billion/s", options.runs,
			text("queries=%u bytes=%llu", lookups.queries, (unsigned long long) bytes));
	put_row(section + " a byte", draw_name(lookups.draw), system, rate / (double) bytes,
			"lookups/s a byte", options.runs);
}

#ifdef BENCH_RIVALS

/* Makes an entry of a key and its rank; in an order like a random one, as there are 2^n entries. */
template <typename Key> struct MakeEntry
{
	const Key *keys;
	uint64_t count;
	Key *to;
	Key *ranks;

	HD_BOTH void operator()(uint64_t i) const
	{
		uint64_t rank = i * UINT64_C(0x9E3779B97F4A7C15) % count;

		to[i] = keys[rank];
		ranks[i] = (Key) rank;
	}
};

/* Makes a pair of the rank that a library has found for a query. */
template <typename Key> struct MakeResult
{
	const Key *found;
	uint32_t *probes;
	uint64_t *tids;

	HD_BOTH void operator()(uint64_t i) const
	{
		probes[i] = (uint32_t) i;
		tids[i] = tid_of(found[i]);
	}
};

/*
 * Measure a library whose values are ranks, in query order: find(queries, ranks, count) starts the
 * search.  Exits if a result is wrong.
 */
template <typename Key, typename Find>
static void
measure_library(Lookups<Key> &lookups, const std::string &system, uint64_t bytes, Find find)
{
	Array<Key> found(lookups.queries);
	std::vector<double> times;

	for (int run = 0; run <= options.runs; run++)
	{
		double ms;

		found.set(0xA5, lookups.queries);
		settle();
		ms = device_ms([&]() { find(lookups.low(), found.at, lookups.queries); });
		settle();
		if (run > 0)
			times.push_back(ms);
	}
	for_each(lookups.queries,
			 MakeResult<Key>{found.at, lookups.buffers.probes.at, lookups.buffers.tids.at});
	settle();
	lookups.check_results(PAIRS, lookups.queries, 0);
	put_rival(lookups, system, median(times), bytes);
}

/*
 * cuCollections' static_map (cuco.cu), and MVGpuBTree's B-link tree, which has keys of 32 bits
 * (mvgpubtree.cu).
 */
template <typename Key> extern void measure_cuco(Lookups<Key> &lookups);
extern void measure_mvgpubtree(Lookups<uint32_t> &lookups);

static inline void
measure_libraries(Lookups<uint64_t> &lookups)
{
	measure_cuco(lookups);
}

static inline void
measure_libraries(Lookups<uint32_t> &lookups)
{
	measure_cuco(lookups);
	measure_mvgpubtree(lookups);
}

#endif /* BENCH_RIVALS */
#endif /* HARMONIA_BENCH_RIVALS_H */
