/*
 * search.h
 *		Traversal: from a key to its entries, as the threads of a group do it.
 *
 * The same code runs in CUDA kernels and, compiled as plain C++, on the host, where
 * one thread plays all threads of a group in turn.  Kernels and loops around it are in
 * gpu_search.cuh, gpu_tile.cuh and host.cc.
 *
 * A group is what Harmonia, PPoPP 2019, section 4.2 calls a narrowed thread group:
 * the threads that serve one query.  All of them are in the same place at all times
 * and vote: group.vote(test) is the set of threads for which test(thread) holds.
 *
 * What is read lies on the index's pages and in its key region, whatever these hold:
 * a mirror may be behind the index, and pages can be damaged.
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

/* Where things are on a leaf page; tree.h has the picture. */
template <typename Key>
struct Layout
{
	static constexpr int blocks = sizeof(Key) == 4 ? 60 : 58;
	static constexpr int slots = sizeof(Key) == 4 ? 12 : 9;
	static constexpr int blocks_at = sizeof(Key) == 4 ? 384 : 640;
	static constexpr int line = 64 / sizeof(Key);	/* keys of a cache line */
	static constexpr int lines = 64 / line; /* lines of separators */
};

/*
 * The inner levels and the leaves, passed to kernels by value, so that the child
 * region is in constant memory: node n of level l has its first child at
 * level_start[l + 1] + (n - level_start[l]) * fanout, and leaves are numbered on
 * after the last node.
 *
 * Nodes of the key region have fanout keys: fanout - 1 separators and the one that
 * parts the node from the next one of its level.  The bottom level is therefore
 * nothing but the leaves' low bounds, from the second on.  Unused keys are at their
 * maximum.
 */
template <typename Key>
struct Tree
{
	const char *pages;
	const Key  *keys;			/* key region */
	const uint32_t *blocks;		/* of the leaves, by their rank */
	uint32_t	leaves;
	int			fanout;
	int			levels;
	bool		linear;			/* groups compare keys front to back */
	uint32_t	level_start[HT_MAX_LEVELS + 1];
};

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

/* A group of which one thread plays all parts. */
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
 * Children before the one for a key: how many of the first children - 1 keys, which
 * do not descend, are below it.  The group cuts what is left into threads + 1 parts a
 * step; a single thread does binary search.  Parts are counted as if they were all
 * full, so all groups of a warp take as many steps.  Children is their number if it is
 * known when compiling, or 0.
 */
template <int Children, typename Group, typename Key>
HD_BOTH int
find_child(const Group &group, const Key *keys, int children, Key key)
{
	int			first = 0;

	if constexpr (Group::threads == 1 && Children > 0)
	{
		static_assert((Children & (Children - 1)) == 0, "halves");

		/* No step goes beyond the keys, and no branch is taken. */
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
		for (int part = Children / 2; part > 0; part /= 2)
			first += keys[first + part - 1] < key ? part : 0;
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

/* The same, but front to back. */
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
 * The rank of the first leaf that can hold a key.  Fanout is the tree's, or 0 if
 * that is known at run time only.
 */
template <int Fanout, typename Group, typename Key>
HD_BOTH uint32_t
find_leaf(const Group &group, const Tree<Key> &tree, Key key)
{
	const int	fanout = Fanout > 0 ? Fanout : tree.fanout;
	uint32_t	place = 0;		/* in the level */

	for (int level = 0; level < tree.levels; level++)
	{
		const Key  *node = tree.keys +
			(size_t) (tree.level_start[level] + place) * (size_t) fanout;
		int			child = tree.linear ?
			find_child_linear(group, node, fanout, key) : find_child<Fanout>(group, node, fanout, key);

		place = place * (uint32_t) fanout + (uint32_t) child;
	}
	return place < tree.leaves ? place : tree.leaves - 1;
}

/* The low bounds of the leaves, from the second on; there is more than one leaf. */
template <typename Key>
HD_BOTH const Key *
leaf_bounds(const Tree<Key> &tree)
{
	return tree.keys + (size_t) tree.level_start[tree.levels - 1] * (size_t) tree.fanout;
}

/*
 * find_leaf() for a single thread, where it is known that first <= rank <= last: the
 * way down to what neighbours have in common is gone once for all of them.
 */
template <typename Key>
HD_BOTH uint32_t
find_leaf_between(const Tree<Key> &tree, uint32_t first, uint32_t last, Key key)
{
	uint32_t	left = last - first;

	/* Bounds that are left are halved; a step may see one more than it has to. */
	while (left > 0)
	{
		uint32_t	part = (left + 1) / 2;

		first += leaf_bounds(tree)[first + part - 1] < key ? part : 0;
		left -= part;
	}
	return first;
}

/* Whether entries with this key can be in the leaf behind that of a rank, too. */
template <typename Key>
HD_BOTH bool
goes_on(const Tree<Key> &tree, uint32_t rank, Key key)
{
	return rank + 1 < tree.leaves && leaf_bounds(tree)[rank] <= key;
}

/* The first block of a leaf that can hold a key. */
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

/* The slots of a block with keys in low..low + span. */
template <typename Group, typename Key>
HD_BOTH uint32_t
find_slots(const Group &group, const char *block, Key low, Key span)
{
	constexpr int slots = Layout<Key>::slots;
	uint32_t	set = 0;
	uint32_t	count;

	if (Group::threads == 1)
	{
		/* The ninth key of eight bytes comes alone. */
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
 * The tid in a slot.  It is aligned to two bytes only; two aligned words cover it, and
 * do not reach beyond the block.
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

/* Where a search goes on: a block of a leaf. */
struct Place
{
	uint32_t	rank;			/* of the leaf */
	int			block;
};

/* The first block of a leaf, given by its rank, that can hold a key. */
template <typename Group, typename Key>
HD_BOTH Place
place_in_leaf(const Group &group, const Tree<Key> &tree, uint32_t rank, Key key)
{
	Place		place;

	place.rank = rank;
	place.block = find_block(group, tree.pages + (size_t) tree.blocks[rank] * HT_PAGE_SIZE, key);
	return place;
}

/*
 * Find the entries in low..high from a place on, to which low has led: calls
 * visit(place, block, slots) for each block that can hold some, in order; slots may be
 * none.
 */
template <typename Group, typename Key, typename Visit>
HD_BOTH void
find_entries(const Group &group, const Tree<Key> &tree, Place place, Key low, Key high, Visit visit)
{
	for (;;)
	{
		const char *page = tree.pages + (size_t) tree.blocks[place.rank] * HT_PAGE_SIZE;
		const Key  *separators = (const Key *) (page + HT_LEAF_SEPARATORS_AT);

		for (;; place.block++)
		{
			const char *block = page + Layout<Key>::blocks_at + place.block * HT_LEAF_BLOCK_SIZE;

			visit(place, block, find_slots(group, block, low, (Key) (high - low)));
			if (place.block == Layout<Key>::blocks - 1)
				break;
			if (separators[place.block] > high)
			{
				/* In use it is not above what the next leaf begins with. */
				if (separators[place.block] < (Key) -1)
					return;
				break;
			}
		}
		if (!goes_on(tree, place.rank, high))
			return;
		place = place_in_leaf(group, tree, place.rank + 1, low);
	}
}

/* Slots of all leaves. */
template <typename Key>
HD_BOTH uint64_t
count_slots(uint32_t leaves)
{
	return (uint64_t) leaves * (uint64_t) (Layout<Key>::blocks * Layout<Key>::slots);
}

/*
 * The number, among these, of the first slot in a block that has a key.  Points that
 * are equal find the same one, and others another.
 */
template <typename Group, typename Key>
HD_BOTH uint64_t
number_of_slot(const Group &group, const Tree<Key> &tree, Place place, Key key)
{
	const char *block = tree.pages + (size_t) tree.blocks[place.rank] * HT_PAGE_SIZE +
		Layout<Key>::blocks_at + place.block * HT_LEAF_BLOCK_SIZE;

	return count_slots<Key>(place.rank) +
		(uint64_t) (place.block * Layout<Key>::slots + lowest_bit(find_slots(group, block, key, (Key) 0)));
}

/* What a probe has found, without the entries themselves. */
struct Found
{
	uint32_t	count;
	uint64_t	first;			/* tid of a point's lowest entry, or of any entry
								 * of a range; 0 if there is none */
	Place		place;			/* of the first entry */
};

/* From the first leaf on that can hold low. */
template <bool Points, typename Group, typename Key>
HD_BOTH Found
find_summary_from(const Group &group, const Tree<Key> &tree, uint32_t rank, Key low, Key high)
{
	Found		found = {};

	if (low > high)
		return found;
	find_entries(group, tree, place_in_leaf(group, tree, rank, low), low, high,
				 [&](Place place, const char *block, uint32_t slots)
				 {
					 /* Entries are in order from block to block. */
					 if (found.count == 0 && slots != 0)
					 {
						 uint32_t	rest = slots & (slots - 1);

						 found.place = place;
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

/*
 * Hand each hit of a probe that has found some to put(n, tid), numbered from 0.
 */
template <typename Group, typename Key, typename Put>
HD_BOTH void
find_hits(const Group &group, const Tree<Key> &tree, Place place, Key low, Key high, Put put)
{
	uint64_t	n = 0;

	find_entries(group, tree, place, low, high, [&](Place, const char *block, uint32_t slots)
				 {
					 for (; slots != 0; slots &= slots - 1)
						 put(n++, load_tid<Key>(block, lowest_bit(slots)));
				 });
}

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_SEARCH_H */
