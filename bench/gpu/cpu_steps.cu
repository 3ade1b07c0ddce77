/*
 * cpu_steps.cu
 *		The papers' measurements on one thread of the CPU (TPDS 2020): optimisations
 *		in turn, and the number of sorted bits.
 */
#include <memory>

#include "cpu.h"
#include "lookups.h"
#include "regular.h"

/* Leaf pages below inner nodes in Harmonia layout, made with the tree engine. */
template <typename Key> class CpuIndex
{
  public:
	explicit CpuIndex(const Entries<Key> &entries) : pages(entries.pages)
	{
		uint64_t below = 1; /* leaves below a child */

		for (const HdLeaf &leaf : entries.leaves)
		{
			blocks.push_back(leaf.block);
			lows.push_back(leaf.low.key);
		}
		ht_shape_init(&shape, Entries<Key>::width, HD_DEFAULT_FANOUT, (uint32_t) blocks.size());
		node_size = ht_node_size(shape.width, shape.fanout);
		nodes.reset((char *) aligned_alloc(64, std::max(shape.nodes * node_size, (size_t) 64)));
		prefix_sum.resize(shape.nodes);
		for (int level = shape.levels - 1; level >= 0; level--)
		{
			for (uint32_t node = shape.level_start[level]; node < shape.level_start[level + 1];
				 node++)
			{
				uint32_t number = node - shape.level_start[level];

				ht_node_init(node_at(node), shape.width, shape.fanout);
				prefix_sum[node] = shape.level_start[level + 1] + number * (uint32_t) shape.fanout;
				for (int i = 0; i < shape.fanout - 1; i++)
				{
					uint64_t leaf =
						((uint64_t) number * (uint64_t) shape.fanout + (uint64_t) i + 1) * below;

					if (leaf < blocks.size())
						ht_node_set(node_at(node), shape.width, shape.fanout, i,
									entries.leaves[leaf].low);
				}
			}
			below *= (uint64_t) shape.fanout;
		}
	}

	/* The leaf that holds a key. */
	const char *find_page(uint64_t key) const
	{
		uint32_t node = 0;

		for (int level = 0; level < shape.levels; level++)
			node = prefix_sum[node] + (uint32_t) ht_node_count_lt(node_at(node), shape.width,
																  shape.fanout,
																  HtEntry{key, HT_TID_MAX});
		return pages + (size_t) blocks[node - shape.nodes] * HT_PAGE_SIZE;
	}

	CpuTree leaves() const
	{
		return {pages, blocks.data(), lows.data(), (uint32_t) blocks.size()};
	}

  private:
	struct Free
	{
		void operator()(char *memory) const
		{
			free(memory);
		}
	};

	const char *pages;
	std::vector<uint32_t> blocks;
	std::vector<uint64_t> lows;
	HtShape shape;
	size_t node_size;
	std::unique_ptr<char, Free> nodes;
	std::vector<uint32_t> prefix_sum;

	char *node_at(uint32_t node) const
	{
		return nodes.get() + node * node_size;
	}
};

/* A batch, memory for its search, and its hits. */
template <typename Key> class CpuBatch
{
  public:
	std::vector<uint64_t> keys;
	std::vector<HtProbe> probes; /* in search order, followed by room for sorting */
	std::vector<HtHit> hits;
	uint32_t hit_count = 0;

	CpuBatch(const Entries<Key> &entries, uint32_t queries, Draw draw)
		: keys(queries), probes(2 * (size_t) queries), hits(queries + HT_LEAF_MAX_ENTRIES),
		  ranks(queries), scratch(cpu_scratch_size(queries))
	{
		for (uint32_t i = 0; i < queries; i++)
		{
			ranks[i] =
				(uint32_t) draw_rank(draw, i, queries, entries.keys.size(), (uint64_t) draw << 40);
			keys[i] = entries.keys[ranks[i]];
		}
	}

	uint32_t count() const
	{
		return (uint32_t) keys.size();
	}

	void leave_unsorted()
	{
		for (uint32_t i = 0; i < count(); i++)
			probes[i] = {keys[i], i, 0};
	}

	/* Sort as the engine does. */
	void sort()
	{
		HtPsa *psa = (HtPsa *) scratch.data();

		ht_psa_start(psa, keys.data(), count(), probes.data());
		while (psa->sorted < count())
			ht_psa_more(psa, probes.data() + count());
	}

	/* Sort by the top bits alone, with digits of at most eight bits. */
	void sort_by(int bits)
	{
		constexpr int key_bits = 8 * (int) sizeof(Key);

		leave_unsorted();
		for (int first = key_bits - bits; first < key_bits; first += 8)
		{
			uint32_t starts[257] = {};
			int digit_bits = std::min(8, key_bits - first);
			uint64_t mask = (UINT64_C(1) << digit_bits) - 1;

			for (uint32_t i = 0; i < count(); i++)
				starts[(probes[i].key >> first & mask) + 1]++;
			for (int i = 0; i < 256; i++)
				starts[i + 1] += starts[i];
			for (uint32_t i = 0; i < count(); i++)
				probes[count() + starts[probes[i].key >> first & mask]++] = probes[i];
			std::copy(probes.begin() + count(), probes.end(), probes.begin());
		}
	}

	/* Search one probe after the other. */
	void search(const CpuIndex<Key> &index, const HtSearch *search)
	{
		hit_count = 0;
		for (uint32_t i = 0; i < count(); i++)
		{
			uint32_t found;

			search->points(index.find_page(probes[i].key), &probes[i], 1, &hits[hit_count], nullptr,
						   (uint32_t) hits.size() - hit_count, &found);
			hit_count += found;
		}
	}

	void search_regular(const RegularTree<Key> &tree)
	{
		for (hit_count = 0; hit_count < count(); hit_count++)
			hits[hit_count] = {tree.find(harmonia::HostGroup<1>(), (Key) keys[hit_count]),
							   hit_count, 0};
	}
	void search_in_batches(const CpuIndex<Key> &index)
	{
		CpuTree tree = index.leaves();

		hit_count = cpu_search(&tree, keys.data(), count(), scratch.data(), hits.data());
	}

	/* Give up unless each probe has its hit. */
	void check_hits() const
	{
		std::vector<bool> seen(count());

		if (hit_count != count())
			give_up(__FILE__, __LINE__, "check_hits", "wrong number of hits");
		for (uint32_t i = 0; i < hit_count; i++)
		{
			uint32_t probe = hits[i].probe;

			if (probe >= count() || rank_of(hits[i].tid) != ranks[probe] || seen[probe])
				give_up(__FILE__, __LINE__, "check_hits", "wrong hit");
			seen[probe] = true;
		}
	}

  private:
	std::vector<uint32_t> ranks;
	std::vector<char> scratch;
};

template <typename Key>
void
bench_cpu_steps(const Entries<Key> &entries, Buffers &)
{
	CpuIndex<Key> index(entries);
	RegularCopy<Key> regular(entries);
	const HtSearch *portable = ht_search("portable");
	const HtSearch *best = ht_search(nullptr);

	for (Draw draw : all_draws)
	{
		CpuBatch<Key> batch(entries, options.queries, draw);

		auto report = [&](const std::string &system, auto search)
		{
			double ms = median_ms(options.runs, search);

			batch.check_hits();
			put_row(text("steps %s %s", width_name<Key>().c_str(), draw_name(draw)),
					std::to_string(entries.keys.size()), system, batch.count() / ms / 1e3,
					"million/s", options.runs);
		};

		report("regular B+tree", [&]() { batch.search_regular(regular.tree); });
		report("+ Harmonia layout",
			   [&]()
			   {
				   batch.leave_unsorted();
				   batch.search(index, portable);
			   });
		report("+ PSA",
			   [&]()
			   {
				   batch.sort();
				   batch.search(index, portable);
			   });
		report("+ SIMD",
			   [&]()
			   {
				   batch.sort();
				   batch.search(index, best);
			   });
		report("+ leaves ahead", [&]() { batch.search_in_batches(index); });
	}
}

template <typename Key>
void
bench_cpu_psa(const Entries<Key> &entries, Buffers &)
{
	constexpr int key_bits = 8 * (int) sizeof(Key);
	CpuIndex<Key> index(entries);
	CpuBatch<Key> batch(entries, options.queries, UNIFORM);
	const HtSearch *best = ht_search(nullptr);
	std::string section = tree_section("psa", entries);

	for (int bits = 0; bits <= key_bits; bits += bits < 32 ? 4 : 8)
	{
		std::string what = std::to_string(bits);
		double sort = median_ms(options.runs, [&]() { batch.sort_by(bits); });
		double search = median_ms(options.runs, [&]() { batch.search(index, best); });

		batch.check_hits();
		put_row(section, what, "sort", sort, "ms", options.runs);
		put_row(section, what, "search", search, "ms", options.runs);
		put_row(section, what, "both", sort + search, "ms", options.runs);
	}
}

template void bench_cpu_steps(const Entries<uint32_t> &, Buffers &);
template void bench_cpu_steps(const Entries<uint64_t> &, Buffers &);
template void bench_cpu_psa(const Entries<uint32_t> &, Buffers &);
template void bench_cpu_psa(const Entries<uint64_t> &, Buffers &);
