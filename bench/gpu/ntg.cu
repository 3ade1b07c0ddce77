/*
 * ntg.cu
 *		Narrowed thread groups: the model's estimates, and measured times.
 */
#include "lookups.h"

/*
 * A profile consists of this many runs of this many queries, neighbours after sorting.
 */
static constexpr uint32_t profile_runs = 32;
static constexpr uint32_t profile_run = 32;

/*
 * The nodes of the library's trees are full.  So the digits of a leaf's number, to the
 * base of the fanout, are the children that queries for it take.
 */
template <typename Key>
std::vector<double>
model_steps(const Lookups<Key> &lookups, int fanout, HtGroupSearch search, HtGroupChoice *choice)
{
	constexpr int warp = 32;
	uint32_t	leaves = (uint32_t) lookups.entries.leaves.size();
	uint32_t	sorted_count = std::min(lookups.queries, UINT32_C(1) << 20);
	uint32_t	pitch = sorted_count / profile_runs;
	std::vector<uint32_t> sorted(sorted_count);
	std::vector<uint8_t> children;
	std::vector<double> steps;
	HtProfile	profile;

	lookups.buffers.ranks.copy_to(sorted.data(), 0, sorted_count);
	std::sort(sorted.begin(), sorted.end());

	profile.fanout = fanout;
	profile.levels = 0;
	for (uint64_t below = 1; below < leaves; below *= (uint64_t) fanout)
		profile.levels++;
	profile.queries = profile_runs * profile_run;
	children.resize((size_t) profile.queries * (size_t) profile.levels);
	for (uint32_t query = 0; query < profile.queries; query++)
	{
		uint32_t	first = query / profile_run * pitch;
		uint64_t	distance = sorted[first + query % profile_run] - sorted[first];

		/* With all queries, neighbours are closer by this factor. */
		uint64_t	rank = sorted[first] + distance * sorted_count / lookups.queries;
		uint32_t	leaf = (uint32_t) (rank / lookups.entries.fill);

		for (int level = profile.levels - 1; level >= 0; level--)
		{
			children[(size_t) query * (size_t) profile.levels + (size_t) level] = (uint8_t) (leaf % (uint32_t) fanout);
			leaf /= (uint32_t) fanout;
		}
	}
	profile.children = children.data();

	for (int threads = 1; threads <= warp; threads *= 2)
		steps.push_back(ht_ntg_warp_steps(&profile, search, warp, threads) * threads / warp);
	*choice = ht_ntg_choose(&profile, search, warp);
	return steps;
}

/* Only for the smallest and the largest tree; those between are similar. */
template <typename Key>
void
bench_ntg(const Entries<Key> &entries, Buffers &buffers)
{
	int			size = 63 - __builtin_clzll(entries.keys.size());

	if (size != options.sizes.front() && size != options.sizes.back())
		return;

	Lookups<Key> lookups(entries, buffers);

	lookups.prepare(options.queries, UNIFORM);
	for (int fanout = HT_MIN_FANOUT; fanout <= HT_MAX_FANOUT; fanout *= 2)
	{
		Copy		copy(entries, fanout);

		for (HtGroupSearch search : {HT_GROUP_LINEAR, HT_GROUP_KARY})
		{
			std::string name = search == HT_GROUP_LINEAR ? "linear" : "k-ary";
			std::string section = tree_section("ntg", entries) + " " + name;
			std::string series = text("fanout %d", fanout);
			HtGroupChoice choice;
			std::vector<double> steps = model_steps(lookups, fanout, search, &choice);

			for (size_t i = 0; i < steps.size(); i++)
			{
				std::string threads = std::to_string(1 << i);
				HdResult	result;
				Times		times = lookups.measure(row_name(section, threads, series), copy.index, HD_PAIRS,
													{HD_AUTOMATIC, 1 << i, search}, &result);

				put_row(section, threads, series, times.search, "ms",
						options.runs, lookups.details(HD_PAIRS, fanout, result, times));
				put_row(tree_section("ntg model", entries) + " " + name, threads, series, steps[i],
						"warp steps/query", 1);
			}
			put_row(tree_section("ntg choice", entries), std::to_string(fanout), name, choice.threads,
					"threads", 1);
		}
	}
}

template std::vector<double> model_steps(const Lookups<uint32_t> &, int, HtGroupSearch, HtGroupChoice *);
template std::vector<double> model_steps(const Lookups<uint64_t> &, int, HtGroupSearch, HtGroupChoice *);
template void bench_ntg(const Entries<uint32_t> &, Buffers &);
template void bench_ntg(const Entries<uint64_t> &, Buffers &);
