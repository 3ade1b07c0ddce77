/*
 * break_even.cu
 *		Batches in host memory, whose hits go back to host memory, on the device and
 *		on the CPU.  How many keys must a batch have for the device to be faster?
 *		After how many such batches has loading the index paid (the reuse factor of
 *		Daga and Nutter 2012)?
 */
#include "cpu.h"
#include "lookups.h"

/* The size of the largest batch, unless -q is less. */
static constexpr uint32_t batch_max = 1 << 23;

/* Processors share a batch if each gets at least this many queries. */
static constexpr uint32_t share_min = 4096;

/* Host memory for transfers, pinned if possible. */
template <typename Type> class Staging
{
  public:
	Type *const at;

	explicit Staging(uint64_t count) : at((Type *) aligned_alloc(4096, rounded(count)))
	{
		if (at == nullptr)
			give_up(__FILE__, __LINE__, "aligned_alloc", "out of memory");
		memset(at, 0, rounded(count));
		pinned = hd_device_pin(device, at, rounded(count)) == HD_OK;
	}
	Staging(const Staging &) = delete;
	Staging &operator=(const Staging &) = delete;
	~Staging()
	{
		if (pinned)
			hd_device_unpin(device, at);
		free(at);
	}
	bool is_pinned() const
	{
		return pinned;
	}

  private:
	bool pinned;

	static size_t rounded(uint64_t count)
	{
		return (count * sizeof(Type) + 4095) / 4096 * 4096;
	}
};

/* A batch in host memory, and its results. */
template <typename Key> struct HostBatch
{
	Staging<Key> low;
	Staging<uint32_t> probes;
	Staging<uint64_t> tids;
	std::vector<uint64_t> wide; /* the same keys with 64 bits */
	std::vector<uint32_t> ranks;
	std::vector<HtHit> hits;
	std::vector<char> scratch;
	std::vector<bool> seen;
	uint32_t count = 0;

	explicit HostBatch(uint32_t room)
		: low(room), probes(room), tids(room), wide(room), ranks(room), seen(room)
	{
	}

	void prepare(const Entries<Key> &entries, uint32_t queries)
	{
		count = queries;
		for (uint32_t i = 0; i < count; i++)
		{
			ranks[i] = (uint32_t) draw_rank(UNIFORM, i, count, entries.keys.size(), count);
			wide[i] = low.at[i] = entries.keys[ranks[i]];
		}
	}

	void check_begin()
	{
		std::fill(seen.begin(), seen.end(), false);
	}
	void check_hit(uint32_t probe, uint64_t tid)
	{
		if (probe >= count || rank_of(tid) != ranks[probe] || seen[probe])
			give_up(__FILE__, __LINE__, "check_hit", "wrong hit");
		seen[probe] = true;
	}
	void check_end()
	{
		for (uint32_t i = 0; i < count; i++)
		{
			if (!seen[i])
				give_up(__FILE__, __LINE__, "check_end", "missing hit");
		}
	}
};

/* Time of a batch on the device including transfers, in ms. */
template <typename Key>
static double
measure_device(HdIndex *index, HostBatch<Key> &batch)
{
	HdBatch searched = {};
	HdResult result;
	double ms;

	searched.low = batch.low.at;
	searched.count = batch.count;
	searched.pinned = batch.low.is_pinned() && batch.probes.is_pinned() && batch.tids.is_pinned();
	searched.probes = batch.probes.at;
	searched.tids = batch.tids.at;
	searched.room = batch.count;
	searched.psa_bits = HD_AUTOMATIC;
	ms = median_ms(options.runs, [&]() { CHECK(hd_index_search(index, &searched, &result)); });
	batch.check_begin();
	for (uint64_t i = 0; i < std::min(result.hits, searched.room); i++)
		batch.check_hit(batch.probes.at[i], batch.tids.at[i]);
	batch.check_end();
	return ms;
}

/* The same on several threads of the CPU, which share the batch. */
template <typename Key>
static double
measure_cpu(const CpuTree &tree, HostBatch<Key> &batch, uint32_t threads)
{
	uint32_t share = (batch.count + threads - 1) / threads;
	uint32_t hits_room = share + HT_LEAF_MAX_ENTRIES;
	size_t scratch_size = (cpu_scratch_size(share) + 63) / 64 * 64;
	std::vector<uint32_t> hit_counts(threads);
	double ms;

	batch.hits.resize((size_t) threads * hits_room);
	batch.scratch.resize(threads * scratch_size);

	auto search = [&](uint32_t thread)
	{
		uint32_t first = std::min(thread * share, batch.count);

		hit_counts[thread] =
			cpu_search(&tree, batch.wide.data() + first, std::min(share, batch.count - first),
					   batch.scratch.data() + thread * scratch_size,
					   batch.hits.data() + (size_t) thread * hits_room);
	};

	ms = median_ms(options.runs,
				   [&]()
				   {
					   std::vector<std::thread> others;

					   for (uint32_t thread = 1; thread < threads; thread++)
						   others.emplace_back(search, thread);
					   search(0);
					   for (std::thread &other : others)
						   other.join();
				   });
	batch.check_begin();
	for (uint32_t thread = 0; thread < threads; thread++)
	{
		for (uint32_t i = 0; i < hit_counts[thread]; i++)
		{
			const HtHit &hit = batch.hits[(size_t) thread * hits_room + i];

			batch.check_hit(thread * share + hit.probe, hit.tid);
		}
	}
	batch.check_end();
	return ms;
}

/* The times of batches on one system; smaller batches may be missing. */
struct Curve
{
	std::string system;
	std::vector<double> ms;
};

/*
 * Compare the device with a system of the CPU.  Reports the smallest batch from which
 * on the device is faster, and for each size the number of batches after which loading
 * the tree has paid.
 */
template <typename Key>
static void
report_break_even(const Entries<Key> &entries, const std::vector<uint32_t> &sizes, const Curve &gpu,
				  const Curve &cpu, double load_ms)
{
	std::string against = "against " + cpu.system;
	uint32_t from = 0;
	size_t skipped = sizes.size() - cpu.ms.size();

	for (size_t i = skipped; i < sizes.size(); i++)
	{
		double saved = cpu.ms[i - skipped] - gpu.ms[i];

		if (saved <= 0)
		{
			from = 0;
			continue;
		}
		from = from == 0 ? sizes[i] : from;
		put_row(tree_section("reuse", entries), std::to_string(sizes[i]), against, load_ms / saved,
				"batches to repay loading", 1);
	}
	if (from > 0)
		put_row("break-even " + width_name<Key>(), std::to_string(entries.keys.size()), against,
				from, "keys", 1);
}

/* Time to load the leaves, in ms, from pinned memory if possible. */
template <typename Key>
static double
measure_load(const Entries<Key> &entries)
{
	std::string section = "load " + width_name<Key>();
	std::string what = std::to_string(entries.keys.size());
	size_t pages_size = (size_t) entries.blocks * HT_PAGE_SIZE;
	double ms;

	auto load = [&]() { Copy copy(entries, HD_DEFAULT_FANOUT); };

	ms = median_ms(options.runs, load);
	put_row(section, what, "pageable memory", ms, "ms", options.runs);
	if (hd_device_pin(device, entries.pages, pages_size) == HD_OK)
	{
		ms = median_ms(options.runs, load);
		put_row(section, what, "pinned memory", ms, "ms", options.runs);
		hd_device_unpin(device, entries.pages);
	}
	return ms;
}

template <typename Key>
void
bench_break_even(const Entries<Key> &entries, Buffers &)
{
	uint32_t cpus = std::max(1u, std::thread::hardware_concurrency());
	uint32_t largest = std::min(options.queries, batch_max);
	std::string section = tree_section("break-even", entries);
	std::vector<uint32_t> blocks;
	std::vector<uint64_t> lows;
	std::vector<uint32_t> sizes;
	CpuTree tree;
	Curve gpu = {device_label(), {}};
	Curve one = {"one CPU", {}};
	Curve all = {text("%u CPUs", cpus), {}};
	double load_ms = measure_load(entries);
	Copy copy(entries, HD_DEFAULT_FANOUT);
	HostBatch<Key> batch(largest);

	for (const HdLeaf &leaf : entries.leaves)
	{
		blocks.push_back(leaf.block);
		lows.push_back(leaf.low.key);
	}
	tree = {entries.pages, blocks.data(), lows.data(), (uint32_t) blocks.size()};

	for (uint32_t size = 64; size <= largest; size *= 2)
	{
		std::string what = std::to_string(size);

		sizes.push_back(size);
		batch.prepare(entries, size);
		gpu.ms.push_back(measure_device(copy.index, batch));
		put_row(section, what, gpu.system, gpu.ms.back(), "ms", options.runs);
		one.ms.push_back(measure_cpu(tree, batch, 1));
		put_row(section, what, one.system, one.ms.back(), "ms", options.runs);
		if (cpus > 1 && size / cpus >= share_min)
		{
			all.ms.push_back(measure_cpu(tree, batch, cpus));
			put_row(section, what, all.system, all.ms.back(), "ms", options.runs);
		}
	}
	report_break_even(entries, sizes, gpu, one, load_ms);
	report_break_even(entries, sizes, gpu, all, load_ms);
}

template void bench_break_even(const Entries<uint32_t> &, Buffers &);
template void bench_break_even(const Entries<uint64_t> &, Buffers &);
