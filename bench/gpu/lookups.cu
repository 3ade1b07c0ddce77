/*
 * lookups.cu
 *		Sections that vary one parameter of a search: sizes, fanouts, psa, ntg, ranges.
 */
#include "lookups.h"

template <typename Key>
void
bench_sizes(const Entries<Key> &entries, Buffers &buffers)
{
	Copy copy(entries, HD_DEFAULT_FANOUT);
	Lookups<Key> lookups(entries, buffers);

	for (Draw draw : all_draws)
	{
		lookups.prepare(options.queries, draw);
		for (Answer answer : {PAIRS, ROWS, COUNTED, TALLIED})
			lookups.report(text("sizes %s %s%s", width_name<Key>().c_str(), answer_name(answer),
								entries.serial ? " serial keys" : ""),
						   std::to_string(entries.keys.size()), draw_name(draw), copy.index,
						   HD_DEFAULT_FANOUT, answer);
	}
}

template <typename Key>
void
bench_fanouts(const Entries<Key> &entries, Buffers &buffers)
{
	Lookups<Key> lookups(entries, buffers);
	std::string section = tree_section("fanouts", entries);

	lookups.prepare(options.queries, UNIFORM);
	for (int fanout = HT_MIN_FANOUT; fanout <= HT_MAX_FANOUT; fanout *= 2)
	{
		Copy copy(entries, fanout);
		std::string what = std::to_string(fanout);

		lookups.report(section, what, "harmonia", copy.index, fanout, PAIRS);
		lookups.report(section, what, "unsorted", copy.index, fanout, PAIRS, {HD_UNSORTED});
	}
}

static void
report_phases(const std::string &section, int bits, const std::string &system, const Times &times,
			  const std::string &details)
{
	std::string what = std::to_string(bits);

	put_row(section, what, system + " sort", times.sort, "ms", options.runs, details);
	put_row(section, what, system + " search", times.search, "ms", options.runs, details);
	put_row(section, what, system, times.all, "ms", options.runs, details);
}

/*
 * Compares two sorts by the top bits: the library's, of 16 bits at most, which the search in tiles
 * completes, and one of all of them (CUB's), followed by a search with one thread for each
 * query.
 */
template <typename Key>
void
bench_psa(const Entries<Key> &entries, Buffers &buffers)
{
	constexpr int key_bits = 8 * (int) sizeof(Key);
	constexpr int fanout = HD_DEFAULT_FANOUT;
	Copy copy(entries, fanout);
	Lookups<Key> lookups(entries, buffers);
	std::string section = tree_section("psa", entries);
	std::vector<int> widths = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32};
	HdResult result;
	Times times;

	for (int bits = 40; bits <= key_bits; bits += 8)
		widths.push_back(bits);

	lookups.prepare(options.queries, UNIFORM);
	for (int bits : widths)
	{
		times = lookups.measure(row_name(section, std::to_string(bits), "harmonia"), copy.index,
								PAIRS, {bits}, &result);
		report_phases(section, bits, "harmonia", times,
					  lookups.details(PAIRS, fanout, result, times));
	}

	for (int bits : widths)
	{
		std::vector<double> sorts;

		for (int run = 0; run <= options.runs; run++)
		{
			double ms;

			lookups.prepare(options.queries, UNIFORM);
			ms = sort_queries(lookups, bits);
			if (run > 0)
				sorts.push_back(ms);
		}
		times = lookups.measure(row_name(section, std::to_string(bits), "general"), copy.index,
								PAIRS, {HD_UNSORTED}, &result);
		times.sort = median(sorts);
		times.all += times.sort;
		report_phases(section, bits, "general", times,
					  lookups.details(PAIRS, fanout, result, times));
	}
}

/*
 * Groups of threads, which compare keys front to back; a thread alone halves nodes, in tiles if
 * sorted.  And the choice.
 */
template <typename Key>
void
bench_ntg(const Entries<Key> &entries, Buffers &buffers)
{
	constexpr int fanout = HD_DEFAULT_FANOUT;
	Copy copy(entries, fanout);
	Lookups<Key> lookups(entries, buffers);
	std::string section = tree_section("ntg", entries);

	lookups.prepare(options.queries, UNIFORM);
	for (int threads = 1; threads <= 32; threads *= 2)
	{
		lookups.report(section, std::to_string(threads), "PSA", copy.index, fanout, PAIRS,
					   {HD_AUTOMATIC, threads});
		lookups.report(section, std::to_string(threads), "unsorted", copy.index, fanout, PAIRS,
					   {HD_UNSORTED, threads});
	}
	put_row(section, "choice", "PSA", lookups.chosen_threads(copy.index), "threads", 1);
}

template <typename Key>
void
bench_ranges(const Entries<Key> &entries, Buffers &buffers)
{
	Copy copy(entries, HD_DEFAULT_FANOUT);
	Lookups<Key> lookups(entries, buffers);

	for (uint32_t span = 2; span <= 1024; span *= 2)
	{
		uint32_t queries = (uint32_t) std::min((uint64_t) options.queries, buffers.room / span);

		lookups.prepare(queries, UNIFORM, span);
		for (Answer answer : {PAIRS, ROWS, COUNTED, TALLIED, WITH_KEYS})
			lookups.report(text("ranges %s %s", width_name<Key>().c_str(), answer_name(answer)),
						   std::to_string(span), power_name(entries.keys.size()), copy.index,
						   HD_DEFAULT_FANOUT, answer);
	}
}

template void bench_sizes(const Entries<uint32_t> &, Buffers &);
template void bench_sizes(const Entries<uint64_t> &, Buffers &);
template void bench_fanouts(const Entries<uint32_t> &, Buffers &);
template void bench_fanouts(const Entries<uint64_t> &, Buffers &);
template void bench_psa(const Entries<uint32_t> &, Buffers &);
template void bench_psa(const Entries<uint64_t> &, Buffers &);
template void bench_ntg(const Entries<uint32_t> &, Buffers &);
template void bench_ntg(const Entries<uint64_t> &, Buffers &);
template void bench_ranges(const Entries<uint32_t> &, Buffers &);
template void bench_ranges(const Entries<uint64_t> &, Buffers &);
