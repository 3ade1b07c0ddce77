/*
 * rivals.cu
 *		Section rivals: what others do with keys that never change, and others' libraries.
 *
 * The keys are in an array without gaps: in their order, as an Eytzinger array (the nodes of a
 * binary tree in breadth-first order), or as nodes of 128 bytes in breadth-first order (k-ary
 * search, as in static B-trees).  One thread answers a query, as it comes, or after CUB's radix
 * sort by the top 16 bits.  As the library's, results are pairs.
 *
 * With BENCH_RIVALS defined, others' libraries are measured as well (rivals.sh).
 */
#include "rivals/rivals.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#endif

#include <numeric>

/* The bits by which queries are sorted: two passes of 8 bits. */
constexpr int sort_bits = 16;

/* Keys in their order. */
template <typename Key> struct Sorted
{
	const Key *keys;
	uint64_t count;

	/* The place of the first key that is not below "key"; there is one. */
	HD_BOTH uint64_t find(Key key) const
	{
		uint64_t at = 0;

		for (uint64_t n = count; n > 1; n -= n / 2)
			at += keys[at + n / 2 - 1] < key ? n / 2 : 0;
		return at;
	}
	static const char *name()
	{
		return "binary search";
	}

	/* The rank of the key at each place; none has no key. */
	static constexpr uint64_t none = UINT64_MAX;
	static std::vector<uint64_t> places(uint64_t count)
	{
		std::vector<uint64_t> ranks(count);

		std::iota(ranks.begin(), ranks.end(), 0);
		return ranks;
	}
};

/* Place 1 is the root, and the children of place i are 2i and 2i + 1.  Place 0 is not used. */
template <typename Key> struct Eytzinger
{
	const Key *keys;
	uint64_t count; /* of places */

	HD_BOTH uint64_t find(Key key) const
	{
		uint64_t at = 1;
		uint64_t found = 0;

		while (at < count)
		{
			bool below = keys[at] < key;

			found = below ? found : at;
			at = 2 * at + below;
		}
		return found;
	}
	static const char *name()
	{
		return "Eytzinger";
	}
	static std::vector<uint64_t> places(uint64_t count)
	{
		std::vector<uint64_t> ranks(count + 1, Sorted<Key>::none);
		uint64_t next = 0;

		fill(ranks, 1, &next);
		return ranks;
	}

  private:
	static void fill(std::vector<uint64_t> &ranks, uint64_t at, uint64_t *next)
	{
		if (at >= ranks.size())
			return;
		fill(ranks, 2 * at, next);
		ranks[at] = (*next)++;
		fill(ranks, 2 * at + 1, next);
	}
};

/*
 * Nodes of as many keys as 128 bytes have room for.  Child i of node n is node n * (node_keys + 1)
 * + 1 + i.  Places without a key are the last ones of a node, and have the maximum.
 */
template <typename Key> struct Kary
{
	static constexpr int node_keys = 128 / sizeof(Key);

	const Key *keys;
	uint64_t count; /* of places */

	HD_BOTH uint64_t find(Key key) const
	{
		uint64_t node = 0;
		uint64_t found = 0;

		while (node * node_keys < count)
		{
			const Key *of_node = keys + node * node_keys;
			int below = 0;

			/*
			 * The keys of a node that are below: all of them, or as many as a binary search says.
			 */
			for (int n = node_keys / 2; n > 0; n /= 2)
				below += of_node[below + n - 1] < key ? n : 0;
			below += of_node[below] < key;
			if (below < node_keys)
				found = node * node_keys + below;
			node = node * (node_keys + 1) + 1 + below;
		}
		return found;
	}
	static const char *name()
	{
		return "k-ary search";
	}
	static std::vector<uint64_t> places(uint64_t count)
	{
		std::vector<uint64_t> ranks((count + node_keys - 1) / node_keys * node_keys,
									Sorted<Key>::none);
		uint64_t next = 0;

		fill(ranks, 0, count, &next);
		return ranks;
	}

  private:
	static void fill(std::vector<uint64_t> &ranks, uint64_t node, uint64_t count, uint64_t *next)
	{
		if (node * node_keys >= ranks.size())
			return;
		for (int i = 0; i <= node_keys; i++)
		{
			fill(ranks, node * (node_keys + 1) + 1 + i, count, next);
			if (i < node_keys && *next < count)
				ranks[node * node_keys + i] = (*next)++;
		}
	}
};

/* Answers query i: its tid stands beside its number. */
template <typename Key, template <typename> class Layout> struct AnswerQuery
{
	Layout<Key> layout;
	const uint64_t *tids; /* of each place */
	const Key *queries;
	const uint32_t *numbers; /* NULL: query i has number i */
	uint32_t *probes;
	uint64_t *results;

	HD_BOTH void operator()(uint64_t i) const
	{
		uint64_t place = layout.find(queries[i]);

		probes[i] = numbers == nullptr ? (uint32_t) i : numbers[i];
		results[i] = layout.keys[place] == queries[i] ? tids[place] : 0;
	}
};

/* Numbers queries. */
struct Number
{
	uint32_t *to;

	HD_BOTH void operator()(uint64_t i) const
	{
		to[i] = (uint32_t) i;
	}
};

/* CUB's sort of queries, with their numbers. */
template <typename Key> class Sorter
{
  public:
	Array<Key> keys;
	Array<uint32_t> numbers;

	explicit Sorter(uint32_t queries)
		: keys(queries), numbers(queries), in_order(queries), scratch(scratch_size(queries))
	{
		for_each(queries, Number{in_order.at});
		settle();
	}

	void sort(const Key *queries)
	{
		constexpr int end = 8 * (int) sizeof(Key);

#ifdef __CUDACC__
		if (!options.host)
		{
			size_t size = scratch.count;

			CHECK(cub::DeviceRadixSort::SortPairs(scratch.at, size, queries, keys.at, in_order.at,
												  numbers.at, (int) keys.count, end - sort_bits,
												  end));
			return;
		}
#endif
		std::iota(numbers.at, numbers.at + numbers.count, 0);
		std::stable_sort(
			numbers.at, numbers.at + numbers.count,
			[=](uint32_t a, uint32_t b)
			{ return queries[a] >> (end - sort_bits) < queries[b] >> (end - sort_bits); });
		for (uint64_t i = 0; i < keys.count; i++)
			keys.at[i] = queries[numbers.at[i]];
	}

  private:
	Array<uint32_t> in_order;
	Array<char> scratch;

	static size_t scratch_size(uint32_t queries)
	{
		size_t size = 1;

#ifdef __CUDACC__
		constexpr int end = 8 * (int) sizeof(Key);

		if (!options.host)
			CHECK(cub::DeviceRadixSort::SortPairs(
				nullptr, size, (const Key *) nullptr, (Key *) nullptr, (const uint32_t *) nullptr,
				(uint32_t *) nullptr, (int) queries, end - sort_bits, end));
#else
		(void) queries;
#endif
		return size;
	}
};

template <typename Key, template <typename> class Layout>
static void
measure_layout(Lookups<Key> &lookups, Sorter<Key> &sorter, bool sorts)
{
	const Entries<Key> &entries = lookups.entries;
	std::vector<uint64_t> ranks = Layout<Key>::places(entries.keys.size());
	std::vector<Key> placed(ranks.size(), (Key) ~(Key) 0);
	std::vector<uint64_t> placed_tids(ranks.size());
	Array<Key> keys(ranks.size());
	Array<uint64_t> tids(ranks.size());
	Buffers &buffers = lookups.buffers;
	AnswerQuery<Key, Layout> answer;
	std::vector<double> times;
	std::string system = Layout<Key>::name();

	for (size_t i = 0; i < ranks.size(); i++)
	{
		if (ranks[i] == Sorted<Key>::none)
			continue;
		placed[i] = entries.keys[ranks[i]];
		placed_tids[i] = tid_of(ranks[i]);
	}
	keys.copy_from(placed.data(), placed.size());
	tids.copy_from(placed_tids.data(), placed_tids.size());
	answer = {{keys.at, keys.count},
			  tids.at,
			  sorts ? sorter.keys.at : lookups.low(),
			  sorts ? sorter.numbers.at : nullptr,
			  buffers.probes.at,
			  buffers.tids.at};

	for (int run = 0; run <= options.runs; run++)
	{
		double ms;

		lookups.spoil_results();
		ms = device_ms(
			[&]()
			{
				if (sorts)
					sorter.sort(lookups.low());
				for_each(lookups.queries, answer);
			});
		settle();
		if (run > 0)
			times.push_back(ms);
	}
	lookups.check_results(PAIRS, lookups.queries, 0);
	if (sorts)
		system = text("sort by %d bits and ", sort_bits) + system;
	put_rival(lookups, system, median(times), ranks.size() * (sizeof(Key) + sizeof(uint64_t)));
}

template <typename Key>
void
bench_rivals(const Entries<Key> &entries, Buffers &buffers)
{
	Lookups<Key> lookups(entries, buffers);
	Sorter<Key> sorter(options.queries);

	for (Draw draw : {UNIFORM, ZIPF, SERIAL})
	{
		lookups.prepare(options.queries, draw);
		{
			Copy copy(entries, HD_DEFAULT_FANOUT);
			HdResult result;
			Times times = lookups.measure("rivals;harmonia", copy.index, PAIRS, Way(), &result);

			put_rival(lookups, "harmonia", times.all, hd_index_memory(copy.index));
		}
#ifdef BENCH_RIVALS
		measure_libraries(lookups);
#endif
		for (bool sorts : {false, true})
		{
			measure_layout<Key, Sorted>(lookups, sorter, sorts);
			measure_layout<Key, Eytzinger>(lookups, sorter, sorts);
			measure_layout<Key, Kary>(lookups, sorter, sorts);
		}
	}
}

template void bench_rivals(const Entries<uint32_t> &, Buffers &);
template void bench_rivals(const Entries<uint64_t> &, Buffers &);
