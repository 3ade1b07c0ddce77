/*
 * lookups.h
 *		Batches of queries for the device library: measured, and checked.
 */
#ifndef HARMONIA_BENCH_LOOKUPS_H
#define HARMONIA_BENCH_LOOKUPS_H

#include "workload.h"

/* Queries and results, in device memory. */
struct Buffers
{
	const uint64_t room; /* for hits */
	Array<uint64_t> low;
	Array<uint64_t> high;
	Array<uint32_t> ranks;
	Array<uint32_t> probes;
	Array<uint64_t> tids;
	Array<uint32_t> counts;
	Array<uint64_t> keys; /* of hits */
	Array<uint32_t> map;  /* all heap pages that a tid can have */
	Array<uint32_t> seen;
	Array<unsigned long long> wrong;

	/* Keys have at most so many words of 64 bits. */
	explicit Buffers(uint32_t queries, uint32_t words = 1)
		: room((uint64_t) queries * 2), low((uint64_t) queries * words),
		  high((uint64_t) queries * words), ranks(queries), probes(room), tids(room),
		  counts(queries), keys(room * words), map(tid_pages / 32), seen(room / 32 + 1), wrong(1)
	{
		map.set(0xFF, map.count);
	}
};

/* How to search a batch.  The library chooses what is automatic. */
struct Way
{
	int psa_bits = HD_AUTOMATIC;
	int threads = 0; /* a query; the library chooses one for queries in device memory */
};

/* Times on the device in ms, of the run with the median total. */
struct Times
{
	double all;
	double sort;
	double search;
	double hits; /* what is done with hits after that */
};

/* What is wanted of hits; all that queries ask for (src/lookup/remote_chunk.c). */
enum Answer
{
	PAIRS,    /* with the numbers of their queries, in any order */
	ROWS,     /* the same in the order of heap blocks: rows are fetched */
	COUNTED,  /* how many there are on pages of a map: all */
	TALLIED,  /* the same for each query */
	WITH_KEYS /* pairs of ranges, with their keys */
};

static inline const char *
answer_name(Answer answer)
{
	return answer == PAIRS   ? "pairs" :
		   answer == ROWS    ? "rows" :
		   answer == COUNTED ? "counted" :
		   answer == TALLIED ? "tallied" :
							   "with keys";
}

/* Queries for some entries, and their search. */
template <typename Key> class Lookups
{
  public:
	const Entries<Key> &entries;
	Buffers &buffers;
	Array<Key> keys;
	uint32_t queries = 0;
	Draw draw = UNIFORM;
	uint32_t span = 1;

	Lookups(const Entries<Key> &searched, Buffers &used)
		: entries(searched), buffers(used), keys(searched.keys.size())
	{
		keys.copy_from(searched.keys.data(), searched.keys.size());
	}

	Key *low() const
	{
		return (Key *) buffers.low.at;
	}
	Key *high() const
	{
		return (Key *) buffers.high.at;
	}

	/* Choose queries; ranges if each is for more than one entry. */
	void prepare(uint32_t count, Draw drawn, uint32_t entries_each = 1)
	{
		queries = count;
		draw = drawn;
		span = entries_each;
		for_each(queries,
				 MakeQuery<Key>{keys.at, keys.count, queries, draw, span, (uint64_t) draw << 40,
								buffers.ranks.at, low(), span > 1 ? high() : nullptr});
		settle();
	}

	/* A batch of these queries, searched where they are. */
	HdBatch batch(Answer answer, const Way &way) const
	{
		HdBatch result = {};

		result.low = low();
		result.high = span > 1 ? high() : nullptr;
		result.count = queries;
		result.on_device = true;
		result.probes = answer == COUNTED ? nullptr : buffers.probes.at;
		result.tids = buffers.tids.at;
		result.room = buffers.room;
		result.by_block = answer == ROWS;
		result.keys = answer == WITH_KEYS ? buffers.keys.at : nullptr;
		if (answer == COUNTED || answer == TALLIED)
		{
			result.map = buffers.map.at;
			result.map_pages = tid_pages;
			result.counts = buffers.counts.at;
		}
		result.psa_bits = way.psa_bits;
		result.threads = way.threads;
		return result;
	}

	/*
	 * The number of threads a query that the library chooses if some of these are in host memory,
	 * where it sees them.
	 */
	int chosen_threads(HdIndex *index) const
	{
		uint32_t count = std::min(queries & ~UINT32_C(1), UINT32_C(1) << 20);
		std::vector<uint64_t> some(count * sizeof(Key) / sizeof(uint64_t));
		HdBatch seen = {};
		HdResult result;

		buffers.low.copy_to(some.data(), 0, some.size());
		seen.low = some.data();
		seen.count = count;
		seen.psa_bits = HD_AUTOMATIC;
		CHECK(hd_index_search(index, &seen, &result));
		return result.threads;
	}

	/*
	 * Overwrite the results, so that those of an earlier run cannot be taken for new
	 * ones.
	 */
	void spoil_results()
	{
		buffers.tids.set(0xA5, std::min(buffers.room, (uint64_t) queries * span));
		buffers.counts.set(0xA5, queries);
		settle();
	}

	/*
	 * Exit unless the results are exactly those of the queries; so many hits were counted by the
	 * map.
	 */
	void check_results(Answer answer, uint64_t hits, uint64_t counted)
	{
		unsigned long long wrong;
		const uint32_t *ranks = buffers.ranks.at;

		buffers.wrong.set(0, 1);
		if (answer == TALLIED)
			for_each(queries, CheckCount{span, buffers.counts.at, buffers.wrong.at});
		else if (answer != COUNTED)
		{
			buffers.seen.set(0, buffers.seen.count);
			for_each(std::min(hits, buffers.room),
					 CheckPair{ranks, queries, span, buffers.probes.at, buffers.tids.at,
							   buffers.seen.at, buffers.wrong.at});
		}
		buffers.wrong.copy_to(&wrong, 0, 1);
		if (wrong > 0 || hits != (uint64_t) queries * span ||
			counted != (answer == COUNTED || answer == TALLIED ? hits : 0))
		{
			fprintf(stderr, "%llu wrong results, %llu hits of %llu\n", wrong,
					(unsigned long long) hits, (unsigned long long) queries * span);
			exit(1);
		}
	}

	/*
	 * Search with the library.  *result is that of the last run.  "row" is what row_name() makes.
	 */
	Times measure(const std::string &row, HdIndex *index, Answer answer, const Way &way,
				  HdResult *result)
	{
		HdBatch searched = batch(answer, way);
		std::vector<Times> times;

		/* The first run warms up. */
		CHECK(hd_index_search(index, &searched, result));
		for (int run = 0; run < options.runs; run++)
		{
			spoil_results();
			{
				Profiled profiled(row);

				CHECK(hd_index_search(index, &searched, result));
			}
			times.push_back({result->sort_ms + result->search_ms + result->hits_ms, result->sort_ms,
							 result->search_ms, result->hits_ms});
		}
		check_results(answer, result->hits, result->counted);
		std::sort(times.begin(), times.end(),
				  [](const Times &a, const Times &b) { return a.all < b.all; });
		return times[times.size() / 2];
	}

	/* Describe the queries and the search. */
	std::string details(Answer answer, int fanout, const HdResult &result, const Times &times) const
	{
		return text("keys=%s draw=%s queries=%u span=%u output=%s fanout=%d psa=%d threads=%d "
					"sort_ms=%.3f search_ms=%.3f hits_ms=%.3f",
					entries.serial ? "serial" : "random", draw_name(draw), queries, span,
					answer_name(answer), fanout, result.psa_bits, result.threads, times.sort,
					times.search, times.hits);
	}

	/* Measure, and print a row with the number of queries per second. */
	void report(const std::string &section, const std::string &what, const std::string &system,
				HdIndex *index, int fanout, Answer answer, const Way &way = Way())
	{
		HdResult result;
		Times times = measure(row_name(section, what, system), index, answer, way, &result);

		put_row(section, what, system, queries / times.all / 1e6, "billion/s", options.runs,
				details(answer, fanout, result, times));
	}
};

/* "64-bit" */
template <typename Key>
static std::string
width_name()
{
	return text("%d-bit", 8 * (int) sizeof(Key));
}

/* The name of a section about one tree, such as "psa 64-bit 2^23". */
template <typename Key>
static std::string
tree_section(const char *name, const Entries<Key> &entries)
{
	return text("%s %s %s", name, width_name<Key>().c_str(),
				power_name(entries.keys.size()).c_str());
}

/*
 * Sort the queries, with their ranks, by the top bits.  Returns the time in ms
 * (sort.cu).
 */
template <typename Key> extern double sort_queries(Lookups<Key> &lookups, int bits);

/* The sections.  Each is in a file of its name, or in lookups.cu. */
template <typename Key> extern void bench_sizes(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_fanouts(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_psa(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_ntg(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_ranges(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_steps(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_break_even(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_rivals(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_brute(Buffers &buffers);
extern void bench_wide(const Entries<WideKey> &entries, Buffers &buffers);

/* The sections of the CPU (cpu_steps.cu, brute.cu). */
template <typename Key> extern void bench_cpu_steps(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_cpu_psa(const Entries<Key> &entries, Buffers &buffers);
template <typename Key> extern void bench_cpu_brute();

#endif /* HARMONIA_BENCH_LOOKUPS_H */
