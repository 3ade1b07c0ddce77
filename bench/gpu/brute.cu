/*
 * brute.cu
 *		Compares all keys of a small index with each query, and measures this against
 *		a search in its tree (Fix, Wilkes and Skadron 2011).  How many keys must an
 *		index have for a tree to be faster?
 */
#include "cpu.h"
#include "lookups.h"

/* 16 bytes of keys, loaded at once. */
template <typename Key> struct alignas(16) Vector
{
	static constexpr int length = 16 / sizeof(Key);
	Key keys[length];
};

/*
 * One thread for each query; all threads of a warp load the same keys. count is a
 * multiple of four.
 */
template <typename Key> struct ScanAlone
{
	const Vector<Key> *keys;
	uint32_t count;
	const Key *low;
	uint32_t *probes;
	uint64_t *tids;

	HD_BOTH void operator()(uint64_t i) const
	{
		constexpr uint32_t length = Vector<Key>::length;
		Key key = low[i];
		uint32_t behind = 0;

		for (uint32_t n = 0; n < count / length; n++)
		{
			Vector<Key> some = keys[n];

			for (uint32_t j = 0; j < length; j++)
				behind = some.keys[j] == key ? n * length + j + 1 : behind;
		}
		probes[i] = (uint32_t) i;
		tids[i] = behind == 0 ? 0 : tid_of(behind - 1);
	}
};

/* One warp for each query; it stops when it has found the key. */
template <typename Key> struct ScanTogether
{
	const Key *keys;
	uint32_t count;
	const Key *low;
	uint32_t *probes;
	uint64_t *tids;

	template <typename Group> HD_BOTH void operator()(const Group &group, uint64_t i) const
	{
		Key key = low[i];
		uint32_t found = 0;
		uint32_t first = 0;

		for (; first < count && found == 0; first += Group::threads)
			found = group.vote(
				[&](int thread)
				{
					uint32_t n = first + (uint32_t) thread;

					return n < count && keys[n] == key;
				});
		if (leads(group))
		{
			probes[i] = (uint32_t) i;
			tids[i] = found == 0 ?
						  0 :
						  tid_of(first - Group::threads + (uint32_t) harmonia::lowest_bit(found));
		}
	}
};

/* Time of work that finds the tids of the queries, in ms. */
template <typename Key, typename Work>
static double
measure(Lookups<Key> &lookups, Work work)
{
	std::vector<double> times;

	for (int run = 0; run <= options.runs; run++)
	{
		double ms;

		lookups.spoil_results();
		ms = device_ms(work);
		if (run > 0)
			times.push_back(ms);
	}
	lookups.check_results(PAIRS, lookups.queries, 0);
	return median(times);
}

/*
 * The smallest size from which on the tree is faster, up to the largest size; 0: none.
 */
struct BreakEven
{
	uint64_t from = 0;

	void add(uint64_t entries, double scan, double tree)
	{
		if (tree >= scan)
			from = 0;
		else if (from == 0)
			from = entries;
	}
};

template <typename Key>
static std::string
batch_name(uint32_t queries)
{
	return text("%s %u queries", width_name<Key>().c_str(), queries);
}

static void
report_break_even(const std::string &batch, const char *scan, const BreakEven &break_even)
{
	if (break_even.from > 0)
		put_row("brute break-even", batch, scan, (double) break_even.from, "entries", 1);
}

static inline uint32_t
cpu_scan(const uint32_t *keys, uint32_t count, uint32_t key)
{
	return cpu_scan32(keys, count, key);
}

static inline uint32_t
cpu_scan(const uint64_t *keys, uint32_t count, uint64_t key)
{
	return cpu_scan64(keys, count, key);
}

template <typename Key>
static void
brute_on_device(Buffers &buffers, uint32_t queries)
{
	BreakEven alone;
	BreakEven together;
	std::string batch = batch_name<Key>(queries);

	for (int size = 4; size <= 16; size++)
	{
		Entries<Key> entries(UINT64_C(1) << size, false);
		Copy copy(entries, HD_DEFAULT_FANOUT);
		Lookups<Key> lookups(entries, buffers);
		uint32_t count = (uint32_t) entries.keys.size();
		std::string what = std::to_string(count);
		HdResult result;
		double tree;
		double scan;

		lookups.prepare(queries, UNIFORM);
		tree = lookups
				   .measure(row_name("brute " + batch, what, "tree"), copy.index, PAIRS, Way(),
							&result)
				   .all;
		put_row("brute " + batch, what, "tree", tree, "ms", options.runs);

		scan = measure(lookups,
					   [&]()
					   {
						   for_each(queries, ScanAlone<Key>{(const Vector<Key> *) lookups.keys.at,
															count, lookups.low(), buffers.probes.at,
															buffers.tids.at});
					   });
		put_row("brute " + batch, what, "scan by a thread", scan, "ms", options.runs);
		alone.add(count, scan, tree);

		scan = measure(lookups,
					   [&]()
					   {
						   for_each_group<32>(
							   queries, ScanTogether<Key>{lookups.keys.at, count, lookups.low(),
														  buffers.probes.at, buffers.tids.at});
					   });
		put_row("brute " + batch, what, "scan by a warp", scan, "ms", options.runs);
		together.add(count, scan, tree);
	}
	report_break_even(batch, "scan by a thread", alone);
	report_break_even(batch, "scan by a warp", together);
}

/* The same on one thread of the CPU, with SIMD instructions. */
template <typename Key>
static void
brute_on_cpu(uint32_t queries)
{
	BreakEven break_even;
	std::string batch = batch_name<Key>(queries);

	for (int size = 4; size <= 14; size++)
	{
		Entries<Key> entries(UINT64_C(1) << size, false);
		uint32_t count = (uint32_t) entries.keys.size();
		std::vector<uint32_t> blocks;
		std::vector<uint64_t> lows;
		std::vector<uint32_t> ranks(queries);
		std::vector<uint64_t> low(queries);
		std::vector<uint32_t> found(queries);
		std::vector<HtHit> hits(queries + HT_LEAF_MAX_ENTRIES);
		std::vector<char> scratch(cpu_scratch_size(queries));
		CpuTree tree;
		uint32_t hit_count = 0;
		uint64_t wrong = 0;
		double tree_ms;
		double scan_ms;
		std::string what = std::to_string(count);

		for (const HdLeaf &leaf : entries.leaves)
		{
			blocks.push_back(leaf.block);
			lows.push_back(leaf.low.key);
		}
		tree = {entries.pages, blocks.data(), lows.data(), (uint32_t) blocks.size()};
		for (uint32_t i = 0; i < queries; i++)
		{
			ranks[i] = (uint32_t) draw_rank(UNIFORM, i, queries, count, 0);
			low[i] = entries.keys[ranks[i]];
		}
		tree_ms = median_ms(
			options.runs, [&]()
			{ hit_count = cpu_search(&tree, low.data(), queries, scratch.data(), hits.data()); });
		scan_ms = median_ms(options.runs,
							[&]()
							{
								for (uint32_t i = 0; i < queries; i++)
									found[i] = cpu_scan(entries.keys.data(), count, (Key) low[i]);
							});
		for (uint32_t i = 0; i < hit_count; i++)
			wrong += rank_of(hits[i].tid) != ranks[hits[i].probe];
		for (uint32_t i = 0; i < queries; i++)
			wrong += found[i] != ranks[i];
		if (wrong > 0 || hit_count != queries)
			give_up(__FILE__, __LINE__, "brute_on_cpu", "wrong results");

		put_row("brute " + batch + " on one CPU", what, "tree", tree_ms, "ms", options.runs);
		put_row("brute " + batch + " on one CPU", what, "scan", scan_ms, "ms", options.runs);
		break_even.add(count, scan_ms, tree_ms);
	}
	report_break_even(batch, "scan on one CPU", break_even);
}

template <typename Key>
void
bench_brute(Buffers &buffers)
{
	for (uint32_t queries : {1000u, 30000u, 1000000u})
	{
		if (queries <= options.queries)
			brute_on_device<Key>(buffers, queries);
	}
}

template <typename Key>
void
bench_cpu_brute()
{
	brute_on_cpu<Key>(1000);
	brute_on_cpu<Key>(10000);
}

template void bench_brute<uint32_t>(Buffers &);
template void bench_brute<uint64_t>(Buffers &);
template void bench_cpu_brute<uint32_t>();
template void bench_cpu_brute<uint64_t>();
