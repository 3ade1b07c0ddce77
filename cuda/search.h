/*
 * search.h
 *		Traversal: how a thread group gets from a key to its entries.
 *
 * CUDA kernels run this code, and so does the host, where it is plain C++ and one
 * thread plays all threads of a group in turn.  The kernels and loops around it are in
 * gpu_search.cuh, gpu_tile.cuh and host.cc.
 *
 * A group is the narrowed thread group of Harmonia, PPoPP 2019, section 4.2: the
 * threads that serve one query.  All of them execute the same step at the same time, and
 * they vote: group.vote(test) returns the set of threads for which test(thread) holds.
 *
 * A mirror may be older than the index, and pages can be damaged.  So whatever the pages
 * and the key region hold, this code reads nothing outside of them.
 */
#ifndef HARMONIA_CUDA_SEARCH_H
#define HARMONIA_CUDA_SEARCH_H

#include "harmonia_device.h"

#ifdef __CUDACC__
#define HD_BOTH __host__ __device__ __forceinline__
#else
#define HD_BOTH inline
#endif

namespace harmonia
{

/* Offsets and counts of a leaf page; tree.h describes the layout. */
template <typename Key>
struct Layout
{
	static constexpr int blocks = sizeof(Key) == 4 ? 60 : 58;
	static constexpr int slots = sizeof(Key) == 4 ? 12 : 9;
	static constexpr int blocks_at = sizeof(Key) == 4 ? 384 : 640;
	static constexpr int line = 64 / sizeof(Key);	/* keys in a cache line */
	static constexpr int lines = 64 / line; /* cache lines of separators */
};

/*
 * The inner levels and the leaves.  Kernels get this by value, so that the child region
 * is in constant memory: node n of level l has its first child at level_start[l + 1] +
 * (n - level_start[l]) * fanout.  The leaves' numbers follow those of the nodes.
 *
 * A node of the key region has fanout keys: fanout - 1 separators, and the one between
 * this node and the next node of its level.  The bottom level is therefore the array of
 * the leaves' low bounds, from the second leaf on.  Unused keys have the maximum value.
 */
template <typename Key>
struct Tree
{
	const char *pages;
	const Key  *keys;			/* key region */
	const uint32_t *blocks;		/* of the leaves, by rank */
	uint32_t	leaves;
	int			fanout;
	int			levels;
	bool		linear;			/* groups compare keys front to back */
	void	   *stop;			/* for gives_up() */
	uint32_t	level_start[HT_MAX_LEVELS + 1];
};

/* On the host, Tree.stop is an HdTicker (device_base.h). */
bool		search_gives_up(void *stop);

/*
 * Is the search to be given up?  Damaged pages and runs of equal keys can make each probe
 * walk over all leaves, so walks ask at each leaf after the first.  On the GPU, Tree.stop is
 * a word that the host sets.  All threads of a group get the same answer, because they vote
 * in the next step.
 */
template <typename Group, typename Key>
HD_BOTH bool
gives_up(const Group &group, const Tree<Key> &tree)
{
#ifdef __CUDA_ARCH__
	return group.vote([&](int) { return *(const volatile uint32_t *) tree.stop != 0; }) != 0;
#else
	(void) group;
	return search_gives_up(tree.stop);
#endif
}

HD_BOTH int
count_bits(uint32_t set)
{
#ifdef __CUDA_ARCH__
	return __popc(set);
#else
	return __builtin_popcount(set);
#endif
}

HD_BOTH int
lowest_bit(uint32_t set)
{
#ifdef __CUDA_ARCH__
	return __ffs((int) set) - 1;
#else
	return __builtin_ctz(set);
#endif
}

/* A group whose threads are all played by one thread. */
template <int Threads>
struct HostGroup
{
	static constexpr int threads = Threads;

	template <typename Test>
	HD_BOTH uint32_t vote(Test test) const
	{
		uint32_t	set = 0;

		for (int thread = 0; thread < Threads; thread++)
			set |= (uint32_t) (test(thread) ? 1 : 0) << thread;
		return set;
	}
};

/*
 * Find the child of a node for a key: the number of keys below it among the first
 * children - 1 keys, which do not descend.
 *
 * In each step the group cuts the remaining candidates into threads + 1 parts of equal
 * size and keeps one; a single thread does binary search.  The last part counts as full
 * even if it is not, so that all groups of a warp take the same number of steps.
 * Children is the number of children if it is known at compile time, otherwise 0.
 */
template <int Children, typename Group, typename Key>
HD_BOTH int
find_child(const Group &group, const Key *keys, int children, Key key)
{
	int			first = 0;

	if constexpr (Group::threads == 1 && Children > 0)
	{
		static_assert((Children & (Children - 1)) == 0, "halves");

		/* No step reads beyond the keys, and there are no branches. */
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
		for (int step = Children / 2; step > 0; step /= 2)
			first += keys[first + step - 1] < key ? step : 0;
	}
	else
	{
		for (int candidates = children; candidates > 1;)
		{
			int			part = (candidates + Group::threads) / (Group::threads + 1);
			uint32_t	below = group.vote([&](int thread)
										   {
											   int			i = first + (thread + 1) * part - 1;

											   return i < children - 1 && keys[i] < key;
										   });

			first += count_bits(below) * part;
			candidates = part;
		}
	}
	return first;
}

/* The same, but compare front to back. */
template <typename Group, typename Key>
HD_BOTH int
find_child_linear(const Group &group, const Key *keys, int children, Key key)
{
	int			first = 0;

	for (;;)
	{
		uint32_t	below = group.vote([&](int thread)
									   {
										   int			i = first + thread;

										   return i < children - 1 && keys[i] < key;
									   });
		int			n = count_bits(below);

		first += n;
		if (n < Group::threads)
			return first;
	}
}

/*
 * Find the rank of the first leaf that can hold a key.  Fanout is the tree's fanout if
 * it is known at compile time, otherwise 0.
 */
template <int Fanout, typename Group, typename Key>
HD_BOTH uint32_t
find_leaf(const Group &group, const Tree<Key> &tree, Key key)
{
	const int	fanout = Fanout > 0 ? Fanout : tree.fanout;
	uint32_t	number = 0;		/* the node's number in its level */

	for (int level = 0; level < tree.levels; level++)
	{
		const Key  *node = tree.keys +
			(size_t) (tree.level_start[level] + number) * (size_t) fanout;
		int			child = tree.linear ?
			find_child_linear(group, node, fanout, key) : find_child<Fanout>(group, node, fanout, key);

		number = number * (uint32_t) fanout + (uint32_t) child;
	}
	return number < tree.leaves ? number : tree.leaves - 1;
}

/* The low bounds of the leaves, from the second leaf on.  Needs at least two leaves. */
template <typename Key>
HD_BOTH const Key *
leaf_bounds(const Tree<Key> &tree)
{
	return tree.keys + (size_t) tree.level_start[tree.levels - 1] * (size_t) tree.fanout;
}

/*
 * find_leaf() for a single thread, if the caller knows that first <= rank <= last.  So
 * neighbouring probes can share the descent as far as their paths are the same.
 */
template <typename Key>
HD_BOTH uint32_t
find_leaf_between(const Tree<Key> &tree, uint32_t first, uint32_t last, Key key)
{
	uint32_t	left = last - first;

	/* Halve the remaining bounds; a step may include one more than necessary. */
	while (left > 0)
	{
		uint32_t	step = (left + 1) / 2;

		first += leaf_bounds(tree)[first + step - 1] < key ? step : 0;
		left -= step;
	}
	return first;
}

/* Can the leaf after this one, which is given by rank, hold entries with this key? */
template <typename Key>
HD_BOTH bool
goes_on(const Tree<Key> &tree, uint32_t rank, Key key)
{
	return rank + 1 < tree.leaves && leaf_bounds(tree)[rank] <= key;
}

/* Find the first block of a leaf that can hold a key. */
template <typename Group, typename Key>
HD_BOTH int
find_block(const Group &group, const char *page, Key key)
{
	const Key  *pivots = (const Key *) (page + HT_PAGE_START);
	const Key  *separators = (const Key *) (page + HT_LEAF_SEPARATORS_AT);
	int			line = find_child<Layout<Key>::lines>(group, pivots, Layout<Key>::lines, key);
	int			block = line * Layout<Key>::line +
		find_child<Layout<Key>::line>(group, separators + line * Layout<Key>::line,
									  Layout<Key>::line, key);

	return block < Layout<Key>::blocks ? block : Layout<Key>::blocks - 1;
}

/* Find the slots of a block whose keys are in low..low + span. */
template <typename Group, typename Key>
HD_BOTH uint32_t
find_slots(const Group &group, const char *block, Key low, Key span)
{
	constexpr int slots = Layout<Key>::slots;
	uint32_t	set = 0;
	uint32_t	count;

	if (Group::threads == 1)
	{
		/*
		 * Load 16 bytes at a time; of nine 8-byte keys, the last one is loaded alone.
		 */
		constexpr int vector = 16 / sizeof(Key);
		struct alignas(16) Vector
		{
			Key			keys[vector];
		};

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
		for (int i = 0; i < slots / vector; i++)
		{
			Vector		some = ((const Vector *) block)[i];

			for (int j = 0; j < vector; j++)
				set |= (uint32_t) ((Key) (some.keys[j] - low) <= span) << (i * vector + j);
		}
		for (int i = slots / vector * vector; i < slots; i++)
			set |= (uint32_t) ((Key) (((const Key *) block)[i] - low) <= span) << i;
	}
	else
	{
		for (int first = 0; first < slots; first += Group::threads)
			set |= group.vote([&](int thread)
							  {
								  int			i = first + thread;

								  return i < slots &&
									  (Key) (((const Key *) block)[i] - low) <= span;
							  }) << first;
	}

	count = ((const uint8_t *) block)[HT_LEAF_BLOCK_COUNT_AT];
	return count < slots ? set & ((UINT32_C(1) << count) - 1) : set;
}

/*
 * Load the tid in a slot.  It is only 2-byte aligned.  Two aligned words cover it and do
 * not reach beyond the block.
 */
template <typename Key>
HD_BOTH uint64_t
load_tid(const char *block, int slot)
{
	int			offset = Layout<Key>::slots * (int) sizeof(Key) + slot * HT_TID_BYTES;
	const uint32_t *at = (const uint32_t *) (block + (offset & ~3));
	uint64_t	words = (uint64_t) at[1] << 32 | at[0];

	words >>= (offset & 2) * 8;
	return (words & 0xFFFFFFFF) << 16 | (words >> 32 & 0xFFFF);
}

/* A block of a leaf, from which a search goes on. */
struct LeafBlock
{
	uint32_t	rank;			/* of the leaf */
	int			block;
};

/* Find the first block that can hold a key in the leaf with this rank. */
template <typename Group, typename Key>
HD_BOTH LeafBlock
first_block_in_leaf(const Group &group, const Tree<Key> &tree, uint32_t rank, Key key)
{
	LeafBlock	at;

	at.rank = rank;
	at.block = find_block(group, tree.pages + (size_t) tree.blocks[rank] * HT_PAGE_SIZE, key);
	return at;
}

/*
 * Find the entries in low..high.  The search starts at block "at", which a search for
 * low has found.  Calls visit(at, block, slots) for each block that can hold such
 * entries, in order; slots may be empty.
 */
template <typename Group, typename Key, typename Visit>
HD_BOTH void
find_entries(const Group &group, const Tree<Key> &tree, LeafBlock at, Key low, Key high, Visit visit)
{
	for (;;)
	{
		const char *page = tree.pages + (size_t) tree.blocks[at.rank] * HT_PAGE_SIZE;
		const Key  *separators = (const Key *) (page + HT_LEAF_SEPARATORS_AT);

		for (;; at.block++)
		{
			const char *block = page + Layout<Key>::blocks_at + at.block * HT_LEAF_BLOCK_SIZE;

			visit(at, block, find_slots(group, block, low, (Key) (high - low)));
			if (at.block == Layout<Key>::blocks - 1)
				break;
			if (separators[at.block] > high)
			{
				/* A separator in use is not above the next leaf's low bound. */
				if (separators[at.block] < (Key) -1)
					return;
				break;
			}
		}
		if (!goes_on(tree, at.rank, high) || gives_up(group, tree))
			return;
		at = first_block_in_leaf(group, tree, at.rank + 1, low);
	}
}

/* The number of slots of all leaves. */
template <typename Key>
HD_BOTH uint64_t
count_slots(uint32_t leaves)
{
	return (uint64_t) leaves * (uint64_t) (Layout<Key>::blocks * Layout<Key>::slots);
}

/*
 * The number, among the slots of all leaves, of the first slot in a block that has a
 * key.  Equal points get the same number, different ones get different numbers.
 */
template <typename Group, typename Key>
HD_BOTH uint64_t
number_of_slot(const Group &group, const Tree<Key> &tree, LeafBlock at, Key key)
{
	const char *block = tree.pages + (size_t) tree.blocks[at.rank] * HT_PAGE_SIZE +
		Layout<Key>::blocks_at + at.block * HT_LEAF_BLOCK_SIZE;

	return count_slots<Key>(at.rank) +
		(uint64_t) (at.block * Layout<Key>::slots + lowest_bit(find_slots(group, block, key, (Key) 0)));
}

/* A summary of a probe's hits. */
struct Found
{
	uint32_t	count;
	uint64_t	first;			/* tid of a point's lowest entry, or of any entry of
								 * a range; 0 if there is none */
	LeafBlock	first_block;	/* of the first entry */
};

/* Summarise the hits of low..high; "rank" is the first leaf that can hold low. */
template <bool Points, typename Group, typename Key>
HD_BOTH Found
find_summary_from(const Group &group, const Tree<Key> &tree, uint32_t rank, Key low, Key high)
{
	Found		found = {};

	if (low > high)
		return found;
	find_entries(group, tree, first_block_in_leaf(group, tree, rank, low), low, high,
				 [&](LeafBlock at, const char *block, uint32_t slots)
				 {
					 /*
					  * Entries are in order from block to block, but not inside a
					  * block.
					  */
					 if (found.count == 0 && slots != 0)
					 {
						 uint32_t	rest = slots & (slots - 1);

						 found.first_block = at;
						 found.first = load_tid<Key>(block, lowest_bit(slots));
						 for (; Points && rest != 0; rest &= rest - 1)
						 {
							 uint64_t	tid = load_tid<Key>(block, lowest_bit(rest));

							 found.first = tid < found.first ? tid : found.first;
						 }
					 }
					 found.count += (uint32_t) count_bits(slots);
				 });
	return found;
}

template <int Fanout, bool Points, typename Group, typename Key>
HD_BOTH Found
find_summary(const Group &group, const Tree<Key> &tree, Key low, Key high)
{
	if (tree.leaves == 0)
		return {};
	return find_summary_from<Points>(group, tree, find_leaf<Fanout>(group, tree, low), low, high);
}

/* Call put(n, tid) for each hit of a probe that has hits; n counts from 0. */
template <typename Group, typename Key, typename Put>
HD_BOTH void
find_hits(const Group &group, const Tree<Key> &tree, LeafBlock at, Key low, Key high, Put put)
{
	uint64_t	n = 0;

	find_entries(group, tree, at, low, high, [&](LeafBlock, const char *block, uint32_t slots)
				 {
					 for (; slots != 0; slots &= slots - 1)
						 put(n++, load_tid<Key>(block, lowest_bit(slots)));
				 });
}

/*
 * Heap pages whose hits are only counted: see HdBatch.  A tid that no heap can have is not
 * counted, so that the caller sees it.
 */
struct PageMap
{
	const uint32_t *words;
	uint32_t	pages;

	HD_BOTH bool counts(uint64_t tid) const
	{
		constexpr uint32_t max_offset = HT_PAGE_SIZE / sizeof(uint32_t);
		uint64_t	page = tid >> 16;
		uint32_t	offset = (uint32_t) (tid & 0xFFFF);

		return page < pages && offset - 1 < max_offset && (words[page / 32] >> page % 32 & 1) != 0;
	}
};

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_SEARCH_H */
