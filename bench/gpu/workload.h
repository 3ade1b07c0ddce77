/*
 * workload.h
 *		The workload: keys, leaf pages, queries; and the check of results.
 */
#ifndef HARMONIA_BENCH_WORKLOAD_H
#define HARMONIA_BENCH_WORKLOAD_H

#include <cmath>
#include <thread>

#include "bench.h"

extern "C"
{
#include "../../src/tree/wide.h"
}

/* As a uuid's key. */
using WideKey = harmonia::Wide;

HD_BOTH uint64_t
mix(uint64_t z)
{
	z += UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/*
 * Tids encode the ranks of their entries, so that hits can be checked.  They are those of a
 * heap of up to 64 GB, which leaves store in 4 bytes.
 */
constexpr uint32_t tid_factor = 0x7F4A7C15;

constexpr uint32_t
inverse(uint32_t odd)
{
	uint32_t x = odd;

	for (int i = 0; i < 6; i++)
		x *= 2 - odd * x;
	return x;
}

constexpr uint32_t tid_inverse = inverse(tid_factor);
constexpr uint32_t tid_mask = INT32_MAX; /* 2^31 ranks: 2^23 pages with 256 tids each */

HD_BOTH uint64_t
tid_of(uint64_t rank)
{
	uint32_t stored = (uint32_t) rank * tid_factor & tid_mask;

	return (uint64_t) (stored >> 8) << 16 | ((stored & 255) + 1);
}

/* No tid is on this heap page or a later one. */
constexpr uint32_t tid_pages = UINT32_C(1) << 23;

HD_BOTH uint64_t
rank_of(uint64_t tid)
{
	return ((uint32_t) (tid >> 16 << 8 | ((tid - 1) & 255)) * tid_inverse) & tid_mask;
}

/* Call work(i) for each i below count, on all processors. */
template <typename Work>
static void
on_all_cpus(uint32_t count, Work work)
{
	uint32_t workers = std::max(1u, std::thread::hardware_concurrency());
	std::vector<std::thread> threads;

	for (uint32_t worker = 0; worker < workers; worker++)
		threads.emplace_back(
			[=, &work]
			{
				for (uint32_t i = worker; i < count; i += workers)
					work(i);
			});
	for (std::thread &thread : threads)
		thread.join();
}

/* ----------------------------------------------------------------
 *		Entries
 * ----------------------------------------------------------------
 */

/* What depends on the width of keys. */
template <typename Key> struct Engine
{
	using Leaf = HdLeaf;

	static constexpr HtWidth width = sizeof(Key) == 4 ? HT_WIDTH32 : HT_WIDTH64;

	/*
	 * A random key in one of "count" equal intervals of the key range, or one of serial keys; "run"
	 * is for wider ones.
	 */
	static Key random_key(uint64_t i, uint64_t count)
	{
		uint64_t interval = (sizeof(Key) == 4 ? UINT64_C(1) << 32 : UINT64_MAX) / count;

		return (Key) (i * interval + mix(i) % interval);
	}
	static Key serial_key(uint64_t i, uint64_t run)
	{
		(void) run;
		return (Key) ((UINT64_C(1) << (8 * sizeof(Key) - 1)) + i + 1);
	}

	/* As a build does: the narrowest class into which a full leaf fits. */
	static int bits(uint64_t count, bool serial)
	{
		uint64_t interval = (sizeof(Key) == 4 ? UINT64_C(1) << 32 : UINT64_MAX) / count;

		return std::min(ht_class_for((serial ? 1 : interval) * HT_LEAF_MAX_ENTRIES),
						8 * (int) sizeof(Key));
	}
	static uint32_t fill(int bits)
	{
		return (uint32_t) (HT_LEAF_BLOCKS(bits) * (HT_LEAF_SLOTS(bits, 4) - 1));
	}

	/* Fill a page with keys whose ranks begin with "rank". */
	static Leaf fill_leaf(char *page, int bits, const Key *keys, uint64_t rank, uint64_t n,
						  uint32_t block)
	{
		HtEntry entries[HT_LEAF_MAX_ENTRIES];

		for (uint64_t i = 0; i < n; i++)
			entries[i] = {keys[i], tid_of(rank + i)};
		ht_leaf_fill(page, ht_leaf_shape(bits, 4, entries[0].key), entries, (int) n);
		return {entries[0], block};
	}
	static HdStatus set_leaves(HdIndex *index, const std::vector<Leaf> &leaves)
	{
		return hd_index_set_leaves(index, leaves.data(), (uint32_t) leaves.size());
	}
};

template <> struct Engine<WideKey>
{
	using Leaf = HdWideLeaf;

	static constexpr HtWidth width = HT_WIDTH128;

	/* A uuid of version 4. */
	static WideKey random_key(uint64_t i, uint64_t count)
	{
		uint64_t interval = UINT64_MAX / count;
		WideKey key;

		key.words[1] = ((i * interval + mix(i) % interval) & ~UINT64_C(0xF000)) | 0x4000;
		key.words[0] = mix(~i) >> 2 | UINT64_C(1) << 63;
		return key;
	}

	/* The ids of one tenant after the other; a tenant has "run" of them. */
	static WideKey serial_key(uint64_t i, uint64_t run)
	{
		WideKey key;

		key.words[1] = (UINT64_C(1) << 63) + i / run;
		key.words[0] = (UINT64_C(1) << 63) + i + 1;
		return key;
	}
	static int bits(uint64_t, bool serial)
	{
		return serial ? 16 : 128;
	}
	static uint32_t fill(int bits)
	{
		HtLeafShape128 shape = ht_leaf_shape_128(bits, 4, 0);

		return (uint32_t) (ht_leaf_blocks_128(shape) * (ht_leaf_slots_128(shape) - 1));
	}
	static Leaf fill_leaf(char *page, int bits, const WideKey *keys, uint64_t rank, uint64_t n,
						  uint32_t block)
	{
		HtEntry128 entries[HT_LEAF_MAX_ENTRIES];
		Leaf leaf = {};

		for (uint64_t i = 0; i < n; i++)
		{
			memcpy(&entries[i].key, &keys[i], sizeof(WideKey));
			entries[i].tid = tid_of(rank + i);
		}
		ht_leaf_fill_128(page, ht_leaf_shape_128(bits, 4, entries[0].key), entries, (int) n);
		memcpy(leaf.low_key, &keys[0], sizeof(WideKey));
		leaf.low_tid = entries[0].tid;
		leaf.block = block;
		return leaf;
	}
	static HdStatus set_leaves(HdIndex *index, const std::vector<Leaf> &leaves)
	{
		return hd_index_set_wide_leaves(index, leaves.data(), (uint32_t) leaves.size());
	}
};

/* Leaves of a tenant, in an index with serial wide keys. */
constexpr uint64_t tenant_leaves = 8;

/* Distinct keys in order, and their leaf pages, filled as a build fills them. */
template <typename Key> struct Entries
{
	static constexpr HtWidth width = Engine<Key>::width;

	bool serial;   /* serial keys; otherwise random ones */
	int bits;      /* class of all leaves */
	uint32_t fill; /* entries of a leaf */
	std::vector<Key> keys;
	std::vector<typename Engine<Key>::Leaf> leaves;
	uint32_t blocks;
	char *pages;

	Entries(uint64_t count, bool serial_keys)
		: serial(serial_keys), bits(Engine<Key>::bits(count, serial_keys)),
		  fill(Engine<Key>::fill(bits)), keys(count)
	{
		const uint64_t step = 1 << 16;

		on_all_cpus((uint32_t) ((count + step - 1) / step),
					[&](uint32_t n)
					{
						for (uint64_t i = n * step; i < std::min(count, (n + 1) * step); i++)
							keys[i] = serial ? Engine<Key>::serial_key(i, fill * tenant_leaves) :
											   Engine<Key>::random_key(i, count);
					});
		leaves.resize((count + fill - 1) / fill);
		blocks = block_of((uint32_t) leaves.size()) + 1;
		pages = (char *) aligned_alloc(HT_PAGE_SIZE, (size_t) blocks * HT_PAGE_SIZE);
		if (pages == nullptr)
			give_up(__FILE__, __LINE__, "aligned_alloc", "out of memory");
		on_all_cpus(blocks, [&](uint32_t block)
					{ memset(pages + (size_t) block * HT_PAGE_SIZE, 0, HT_PAGE_SIZE); });
		on_all_cpus((uint32_t) leaves.size(),
					[&](uint32_t leaf)
					{
						uint64_t first = (uint64_t) leaf * fill;
						uint64_t n = std::min((uint64_t) fill, count - first);
						uint32_t block = block_of(leaf);

						leaves[leaf] = Engine<Key>::fill_leaf(pages + (size_t) block * HT_PAGE_SIZE,
															  bits, &keys[first], first, n, block);
					});
	}
	Entries(const Entries &) = delete;
	Entries &operator=(const Entries &) = delete;
	~Entries()
	{
		free(pages);
	}

	/* Like segments, leave some blocks without leaves. */
	static uint32_t block_of(uint32_t leaf)
	{
		return leaf + (leaf / 1000 + 1) * 20;
	}
};

/* The copy on the device. */
class Copy
{
  public:
	HdIndex *index;

	template <typename Key> Copy(const Entries<Key> &entries, int fanout)
	{
		std::vector<uint32_t> numbers(entries.blocks);

		for (uint32_t i = 0; i < entries.blocks; i++)
			numbers[i] = i;
		CHECK(hd_index_create(device, Entries<Key>::width, fanout, &index));
		CHECK(hd_index_reserve(index, entries.blocks, false));
		CHECK(hd_index_write(index, numbers.data(), entries.pages, entries.blocks));
		CHECK(Engine<Key>::set_leaves(index, entries.leaves));
	}
	Copy(const Copy &) = delete;
	Copy &operator=(const Copy &) = delete;
	~Copy()
	{
		hd_index_free(index);
	}
};

/* ----------------------------------------------------------------
 *		Queries
 * ----------------------------------------------------------------
 */

enum Draw
{
	UNIFORM,
	NORMAL, /* mean 1/2, standard deviation 1/8 of the range */
	GAMMA,  /* shape 3, mean 3/16 of the range */
	ZIPF,   /* exponent 1, hot keys all over the range */
	SERIAL, /* in key order */
	NEARLY, /* the same, but up to 1000 places from there */
	EQUAL   /* all the same */
};

constexpr Draw all_draws[] = {UNIFORM, NORMAL, GAMMA, ZIPF, SERIAL, NEARLY, EQUAL};

static inline const char *
draw_name(Draw draw)
{
	static const char *const names[] = {"uniform", "normal",        "gamma", "zipf",
										"serial",  "nearly-serial", "equal"};

	return names[draw];
}

HD_BOTH double
unit(uint64_t random)
{
	return ((double) (random >> 11) + 0.5) * (1.0 / 9007199254740992.0);
}

/* The rank that query i of a batch asks for. */
HD_BOTH uint64_t
draw_rank(Draw draw, uint64_t i, uint64_t queries, uint64_t ranks, uint64_t seed)
{
	uint64_t a = mix((seed + i) * 4 + 1);
	uint64_t b = mix((seed + i) * 4 + 2);
	double at;

	switch (draw)
	{
		case NORMAL:
			at = 0.5 + 0.125 * sqrt(-2 * log(unit(a))) * cos(2 * 3.14159265358979323846 * unit(b));
			break;
		case GAMMA:
			at = -log(unit(a) * unit(b) * unit(mix((seed + i) * 4 + 3))) / 16;
			break;
		case ZIPF:
			return mix((uint64_t) exp(unit(a) * log((double) ranks))) % ranks;
		case SERIAL:
			at = ((double) i + 0.5) / (double) queries;
			break;
		case NEARLY:
			at = ((double) i + (double) (a % 2001) - 1000) / (double) queries;
			break;
		case EQUAL:
			return ranks / 3;
		default:
			return a % ranks;
	}
	at = at < 0 ? 0 : at > 1 ? 1 : at;
	a = (uint64_t) (at * (double) ranks);
	return a < ranks ? a : ranks - 1;
}

/* Makes a query: its rank and its key; ranges have "span" entries. */
template <typename Key> struct MakeQuery
{
	const Key *keys;
	uint64_t entries;
	uint64_t queries;
	Draw draw;
	uint32_t span;
	uint64_t seed;
	uint32_t *ranks;
	Key *low;
	Key *high; /* or NULL */

	HD_BOTH void operator()(uint64_t i) const
	{
		uint64_t rank = draw_rank(draw, i, queries, entries - span + 1, seed);

		ranks[i] = (uint32_t) rank;
		low[i] = keys[rank];
		if (high != nullptr)
			high[i] = keys[rank + span - 1];
	}
};

/* ----------------------------------------------------------------
 *		Checking
 * ----------------------------------------------------------------
 */

/*
 * A hit is right if it is an entry of its probe and was not seen before.  If all hits
 * are right and their number is right, none is missing.
 */
struct CheckPair
{
	const uint32_t *ranks;
	uint32_t count;
	uint32_t span;
	const uint32_t *probes;
	const uint64_t *tids;
	uint32_t *seen; /* one bit for each expected hit, zero at the start */
	unsigned long long *wrong;

	HD_BOTH void operator()(uint64_t i) const
	{
		uint64_t bit;

		if (probes[i] < count && rank_of(tids[i]) - ranks[probes[i]] < span)
		{
			bit = (uint64_t) probes[i] * span + (rank_of(tids[i]) - ranks[probes[i]]);
			if ((or_atomically(&seen[bit / 32], 1u << bit % 32) >> bit % 32 & 1) == 0)
				return;
		}
		add_atomically(wrong, 1ULL);
	}
};

struct CheckCount
{
	uint32_t span;
	const uint32_t *counts;
	unsigned long long *wrong;

	HD_BOTH void operator()(uint64_t i) const
	{
		if (counts[i] != span)
			add_atomically(wrong, 1ULL);
	}
};

#endif /* HARMONIA_BENCH_WORKLOAD_H */
