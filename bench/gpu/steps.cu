/*
 * steps.cu
 *		The papers' optimisations in turn, starting with a regular B+tree.
 */
#include "lookups.h"
#include "regular.h"

static constexpr int fanout = HD_DEFAULT_FANOUT;

/* The threads that search a node together before groups are narrowed: as many as a warp has. */
static constexpr int wide_group = 32;

template <typename Key> struct SearchRegular
{
	RegularTree<Key> tree;
	const Key *low;
	uint32_t *probes;
	uint64_t *tids;

	template <typename Group> HD_BOTH void operator()(const Group &group, uint64_t i) const
	{
		uint64_t tid = tree.find(group, low[i]);

		if (leads(group))
		{
			probes[i] = (uint32_t) i;
			tids[i] = tid;
		}
	}
};

/* Times of all queries in a regular tree. */
template <typename Key>
static Times
measure_regular(const std::string &row, const RegularTree<Key> &tree, Lookups<Key> &lookups)
{
	std::vector<double> times;
	Times result = {};

	auto search = [&]()
	{
		for_each_group<wide_group>(lookups.queries, SearchRegular<Key>{tree, lookups.low(),
																	   lookups.buffers.probes.at,
																	   lookups.buffers.tids.at});
	};

	/* The first run warms up. */
	search();
	for (int run = 0; run < options.runs; run++)
	{
		lookups.spoil_results();

		Profiled profiled(row);

		times.push_back(device_ms(search));
	}
	lookups.check_results(PAIRS, lookups.queries, 0);
	result.all = result.search = median(times);
	return result;
}

/*
 * From a regular tree to the library's way; that one thread searches in tiles is not in the papers.
 */
template <typename Key>
void
bench_steps(const Entries<Key> &entries, Buffers &buffers)
{
	Copy copy(entries, fanout);
	RegularCopy<Key> regular(entries);
	Lookups<Key> lookups(entries, buffers);
	std::string what = std::to_string(entries.keys.size());

	for (Draw draw : all_draws)
	{
		std::string section = text("steps %s %s", width_name<Key>().c_str(), draw_name(draw));
		HdResult unsorted = {};
		Times times;

		lookups.prepare(options.queries, draw);

		times = measure_regular(row_name(section, what, "regular B+tree"), regular.tree, lookups);
		put_row(section, what, "regular B+tree", lookups.queries / times.all / 1e6, "billion/s",
				options.runs, lookups.details(PAIRS, fanout, unsorted, times));
		lookups.report(section, what, "+ Harmonia layout", copy.index, fanout, PAIRS,
					   {HD_UNSORTED, wide_group});
		lookups.report(section, what, "+ PSA", copy.index, fanout, PAIRS,
					   {HD_AUTOMATIC, wide_group});
		lookups.report(section, what, "+ NTG", copy.index, fanout, PAIRS,
					   {HD_AUTOMATIC, lookups.chosen_threads(copy.index)});
	}
}

template void bench_steps(const Entries<uint32_t> &, Buffers &);
template void bench_steps(const Entries<uint64_t> &, Buffers &);
