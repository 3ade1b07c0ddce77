/*
 * search.h
 *		Traversal: how a thread group gets from a key to its entries.
 *
 * CUDA kernels run this code, and so does the host, where it is plain C++ and one
 * thread plays all threads of a group in turn.  The kernels and loops around it are in
 * gpu_search.cuh, gpu_tile.cuh and host.cc.  group.h has the groups, leaf_page.h the leaves.
 *
 * A mirror may be older than the index, and pages can be damaged.  So whatever the pages
 * and the key region hold, this code reads nothing outside of them.
 */
#ifndef HARMONIA_CUDA_SEARCH_H
#define HARMONIA_CUDA_SEARCH_H

#include "leaf_page.h"

namespace harmonia
{

/*
 * The inner levels and the leaves.  Kernels get this by value, so that the child region
 * is in constant memory: node n of level l has its first child at level_start[l + 1] +
 * (n - level_start[l]) * fanout.  The leaves' numbers follow those of the nodes.
 *
 * A node of the key region has fanout keys: fanout - 1 separators, and the one between
 * this node and the next node of its level.  The bottom level is therefore the array of
 * the leaves' low bounds, from the second leaf on.  Unused keys have the maximum value.
 */
template <typename Key> struct Tree
{
	const char *pages;
	const Key *keys;        /* key region */
	const uint32_t *blocks; /* of the leaves, by rank */
	uint32_t leaves;
	int fanout;
	int levels;
	void *stop; /* for gives_up() */
	uint32_t level_start[HT_MAX_LEVELS + 1];
};

/* On the host, Tree.stop is an HdTicker (device_base.h). */
bool search_gives_up(void *stop);

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

/*
 * Find the rank of the first leaf that can hold a key.  Fanout is the tree's fanout if
 * it is known at compile time, otherwise 0.
 */
template <int Fanout, typename Group, typename Key>
HD_BOTH uint32_t
find_leaf(const Group &group, const Tree<Key> &tree, Key key)
{
	const int fanout = Fanout > 0 ? Fanout : tree.fanout;
	uint32_t number = 0; /* the node's number in its level */

	for (int level = 0; level < tree.levels; level++)
	{
		const Key *node = tree.keys + (size_t) (tree.level_start[level] + number) * (size_t) fanout;
		int child = find_child<Fanout>(group, node, fanout, key);

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
	uint32_t left = last - first;

	/* Halve the remaining bounds; a step may include one more than necessary. */
	while (left > 0)
	{
		uint32_t step = (left + 1) / 2;

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

/* A leaf's page, and what it says of itself. */
template <typename Key> struct LeafPage
{
	const char *page;
	Shape<Key> shape;
};

template <typename Key>
HD_BOTH LeafPage<Key>
read_leaf(const Tree<Key> &tree, uint32_t rank)
{
	const char *page = tree.pages + (size_t) tree.blocks[rank] * HT_PAGE_SIZE;

	return {page, read_shape<Key>(page)};
}

/* A block of a leaf, from which a search goes on. */
struct LeafBlock
{
	uint32_t rank; /* of the leaf */
	int block;
};

/* The slots of a block in which a search has found entries. */
struct Slots
{
	LeafBlock at;
	const char *block;
	uint32_t set;
	int tids_at;
	int tid_bytes;

	HD_BOTH uint64_t tid(int slot) const
	{
		return load_tid(block, tids_at, tid_bytes, slot);
	}
};

/* Find the first block that can hold a key in the leaf with this rank. */
template <typename Group, typename Key>
HD_BOTH LeafBlock
first_block_in_leaf(const Group &group, const Tree<Key> &tree, uint32_t rank, Key key)
{
	LeafPage<Key> leaf = read_leaf(tree, rank);
	LeafBlock at;

	at.rank = rank;
	at.block = with_stored<Key>(
		leaf.shape, [&](auto type)
		{ return find_block(group, leaf.page, stored_key<decltype(type)>(leaf.shape, key)); });
	return at;
}

/*
 * Find the entries of one leaf with a key, from block "at" on.  Returns whether the next
 * leaf can have some, too.
 */
template <typename Stored, typename Group, typename Key, typename Visit>
HD_BOTH bool
find_entries_in_leaf(const Group &group, const char *page, const Shape<Key> &shape, LeafBlock at,
					 Key key, Visit visit)
{
	using Leaf = Layout<Stored>;
	Stored stored = stored_key<Stored>(shape, key);
	int slots = slots_of<Stored>(shape);
	Slots found;

	if (!reaches<Stored>(shape, key, key))
		return true;
	found.tids_at = slots * (Leaf::bits / 8);
	found.tid_bytes = shape.tid_bytes;
	for (;; at.block++)
	{
		found.at = at;
		found.block = page + Leaf::blocks_at + at.block * Leaf::block_size;
		found.set = find_slots(group, found.block, slots, stored, stored);
		visit(found);
		if (at.block == Leaf::blocks - 1)
			return true;

		/* A separator in use is not above the next leaf's low bound. */
		if (below_separator(page, at.block, stored))
			return is_greatest_separator(page, at.block, stored);
	}
}

/*
 * Find the entries with a key.  The search starts at block "at", which a search for the
 * key has found.  Calls visit(slots) for each block that can hold such entries, in order;
 * slots.set may be empty.
 */
template <typename Group, typename Key, typename Visit>
HD_BOTH void
find_entries(const Group &group, const Tree<Key> &tree, LeafBlock at, Key key, Visit visit)
{
	for (;;)
	{
		LeafPage<Key> leaf = read_leaf(tree, at.rank);
		bool more = with_stored<Key>(leaf.shape,
									 [&](auto type) {
										 return find_entries_in_leaf<decltype(type)>(
											 group, leaf.page, leaf.shape, at, key, visit);
									 });

		if (!more || !goes_on(tree, at.rank, key) || gives_up(group, tree))
			return;
		at = first_block_in_leaf(group, tree, at.rank + 1, key);
	}
}

/* Numbers for the slots of all leaves, as many for each leaf as any can have. */
HD_BOTH uint64_t
count_slots(uint32_t leaves)
{
	return (uint64_t) leaves * HT_LEAF_MAX_ENTRIES;
}

/*
 * The number, among the slots of all leaves, of the first slot in a block that has a
 * key.  Equal points get the same number, different ones get different numbers.
 */
template <typename Group, typename Key>
HD_BOTH uint64_t
number_of_slot(const Group &group, const Tree<Key> &tree, LeafBlock at, Key key)
{
	LeafPage<Key> leaf = read_leaf(tree, at.rank);
	uint32_t set = with_stored<Key>(
		leaf.shape,
		[&](auto type)
		{
			using Stored = decltype(type);
			const char *block =
				leaf.page + Layout<Stored>::blocks_at + at.block * Layout<Stored>::block_size;
			Stored stored = stored_key<Stored>(leaf.shape, key);

			return find_slots(group, block, slots_of<Stored>(leaf.shape), stored, stored);
		});

	return count_slots(at.rank) + (uint64_t) (at.block * HT_LEAF_MAX_SLOTS + lowest_bit(set));
}

/* A summary of a point's hits.  There is no room for so many that they are not all counted. */
constexpr uint32_t found_max = UINT32_C(1) << 31;

struct Found
{
	uint32_t count;        /* found_max, or a few more: at least */
	uint64_t first;        /* tid of the lowest entry; 0 if there is none */
	LeafBlock first_block; /* of the first entry */
};

/* The lowest tid of some entries. */
HD_BOTH uint64_t
lowest_tid(const Slots &slots)
{
	uint32_t rest = slots.set & (slots.set - 1);
	uint64_t lowest = slots.tid(lowest_bit(slots.set));

	for (; rest != 0; rest &= rest - 1)
	{
		uint64_t tid = slots.tid(lowest_bit(rest));

		lowest = tid < lowest ? tid : lowest;
	}
	return lowest;
}

/*
 * Summarise the hits of a key that can only be in one block of a leaf.  For a single thread.
 */
template <typename Key>
HD_BOTH Found
find_in_block(const char *page, const Shape<Key> &shape, LeafBlock at, Key key)
{
	return with_stored<Key>(
		shape,
		[&](auto type)
		{
			using Stored = decltype(type);
			using Leaf = Layout<Stored>;
			Found found = {};

			/*
							   * In class 0, a search for the leaf's key goes on to its last block.
							   */
			if constexpr (Leaf::bits != 0)
			{
				Slots slots;
				int room = slots_of<Stored>(shape);

				if (!reaches<Stored>(shape, key, key))
					return found;
				if (at.block >= Leaf::blocks)
					at.block = Leaf::blocks - 1; /* separators descend: a damaged page */
				slots.at = at;
				slots.block = page + Leaf::blocks_at + at.block * Leaf::block_size;
				slots.set = find_equal_slots(slots.block, room, stored_key<Stored>(shape, key));
				slots.tids_at = room * (Leaf::bits / 8);
				slots.tid_bytes = shape.tid_bytes;
				if (slots.set != 0)
				{
					found.count = (uint32_t) count_bits(slots.set);
					found.first = lowest_tid(slots);
					found.first_block = at;
				}
			}
			return found;
		});
}

/* Summarise the hits of a key; "rank" is the first leaf that can hold it. */
template <typename Group, typename Key>
HD_BOTH Found
find_summary_from(const Group &group, const Tree<Key> &tree, uint32_t rank, Key key)
{
	Found found = {};

	find_entries(group, tree, first_block_in_leaf(group, tree, rank, key), key,
				 [&](const Slots &slots)
				 {
					 /*
					  * Entries are in order from block to block, but not inside a
					  * block.
					  */
					 if (found.count == 0 && slots.set != 0)
					 {
						 found.first_block = slots.at;
						 found.first = lowest_tid(slots);
					 }
					 found.count += found.count < found_max ? (uint32_t) count_bits(slots.set) : 0;
				 });
	return found;
}

template <int Fanout, typename Group, typename Key>
HD_BOTH Found
find_summary(const Group &group, const Tree<Key> &tree, Key key)
{
	if (tree.leaves == 0)
		return {};
	return find_summary_from(group, tree, find_leaf<Fanout>(group, tree, key), key);
}

/* Call put(n, tid) for each hit of a point that has hits; n counts from 0. */
template <typename Group, typename Key, typename Put>
HD_BOTH void
find_hits(const Group &group, const Tree<Key> &tree, LeafBlock at, Key key, Put put)
{
	uint64_t n = 0;

	find_entries(group, tree, at, key,
				 [&](const Slots &slots)
				 {
					 for (uint32_t rest = slots.set; rest != 0; rest &= rest - 1)
						 put(n++, slots.tid(lowest_bit(rest)));
				 });
}

/*
 * Heap pages whose hits are only counted: see HdBatch.  A tid that no heap can have is not
 * counted, so that the caller sees it.
 */
struct PageMap
{
	const uint32_t *words;
	uint32_t pages;

	HD_BOTH bool counts(uint64_t tid) const
	{
		constexpr uint32_t max_offset = HT_PAGE_SIZE / sizeof(uint32_t);
		uint64_t page = tid >> 16;
		uint32_t offset = (uint32_t) (tid & 0xFFFF);

		return page < pages && offset - 1 < max_offset && (words[page / 32] >> page % 32 & 1) != 0;
	}
};

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_SEARCH_H */
