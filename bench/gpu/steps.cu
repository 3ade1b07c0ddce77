/*
 * steps.cu
 *		The papers' optimisations in turn, starting with a regular B+tree.
 */
#include "lookups.h"
#include "regular.h"

static constexpr int fanout = HD_DEFAULT_FANOUT;

/* The group for wide nodes: as many threads as a warp has. */
static constexpr int wide_group = 32;

template <typename Key>
struct SearchRegular
{
	RegularTree<Key> tree;
	const Key  *low;
	uint64_t   *tids;

	template <typename Group>
	HD_BOTH void operator()(const Group &group, uint64_t i) const
	{
		uint64_t	tid = tree.find(group, low[i]);

		if (leads(group))
			tids[i] = tid;
	}
};

/* Times of all queries in a regular tree. */
template <typename Key>
static Times
measure_regular(const std::string &row, const RegularTree<Key> &tree, Lookups<Key> &lookups)
{
	std::vector<double> times;
	Times		result = {};

	auto		search = [&]()
	{
		for_each_group<wide_group>(lookups.queries,
								   SearchRegular<Key>{tree, lookups.low(), lookups.buffers.tids.at});
	};

	/* The first run warms up. */
	search();
	for (int run = 0; run < options.runs; run++)
	{
		lookups.spoil_results();

		Profiled	profiled(row);

		times.push_back(device_ms(search));
	}
	lookups.check_results(HD_FIRST, 0);
	result.all = result.search = median(times);
	return result;
}

/*
 * At each step results are in probe order, as in a regular tree.  The last step is not
 * in the papers.
 */
template <typename Key>
void
bench_steps(const Entries<Key> &entries, Buffers &buffers)
{
	Copy		copy(entries, fanout);
	RegularCopy<Key> regular(entries);
	Lookups<Key> lookups(entries, buffers);
	std::string what = std::to_string(entries.keys.size());

	for (Draw draw : all_draws)
	{
		std::string section = text("steps %s %s", width_name<Key>().c_str(), draw_name(draw));
		HdResult	unsorted = {};
		HtGroupChoice choice;
		Times		times;

		unsorted.group = {HT_GROUP_LINEAR, wide_group, 0};
		lookups.prepare(options.queries, draw);
		model_steps(lookups, fanout, HT_GROUP_LINEAR, &choice);

		times = measure_regular(row_name(section, what, "regular B+tree"), regular.tree, lookups);
		put_row(section, what, "regular B+tree", lookups.queries / times.all / 1e6, "billion/s",
				options.runs, lookups.details(HD_FIRST, fanout, unsorted, times));
		lookups.report(section, what, "+ Harmonia layout", copy.index, fanout, HD_FIRST,
					   {HD_UNSORTED, wide_group, HT_GROUP_LINEAR});
		lookups.report(section, what, "+ PSA", copy.index, fanout, HD_FIRST,
					   {HD_AUTOMATIC, wide_group, HT_GROUP_LINEAR});
		lookups.report(section, what, "+ NTG", copy.index, fanout, HD_FIRST,
					   {HD_AUTOMATIC, choice.threads, HT_GROUP_LINEAR});
		lookups.report(section, what, "+ binary search in tiles", copy.index, fanout, HD_FIRST,
					   {HD_AUTOMATIC, 1, HT_GROUP_KARY});
	}
}

template void bench_steps(const Entries<uint32_t> &, Buffers &);
template void bench_steps(const Entries<uint64_t> &, Buffers &);
