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

/* Offsets and counts of a leaf page of one class; tree.h describes the layout. */
template <typename Lane>
struct Layout
{
	static constexpr int bits = 8 * sizeof(Lane);
	static constexpr int pivots_at = HT_LEAF_PIVOTS_AT(bits);
	static constexpr int blocks = HT_LEAF_BLOCKS(bits);
	static constexpr int blocks_at = HT_LEAF_BLOCKS_AT(bits);
	static constexpr int max_slots = HT_LEAF_SLOTS(bits, 4);
	static constexpr int line = HT_LEAF_LINE_SIZE / sizeof(Lane);	/* keys in a cache line */
	static constexpr int lines = HT_LEAF_MAX_SEPARATORS / line; /* cache lines of separators */
};

/* What a leaf says of itself. */
struct Shape
{
	uint64_t	base;			/* not used by class 64 */
	int			bits;
	int			tid_bytes;
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

/* Read the shape of a leaf.  A damaged one becomes the widest. */
HD_BOTH Shape
read_shape(const char *page)
{
	struct alignas(16) Line
	{
		uint64_t	widths;
		uint64_t	base;
	};
	static_assert(HT_LEAF_CLASS_AT % 16 == 0 && HT_LEAF_BASE_AT == HT_LEAF_CLASS_AT + 8, "one load");
	static_assert(HT_LEAF_TID_BYTES_AT == HT_LEAF_CLASS_AT + 1, "the second byte");
	Line		line = *(const Line *) (page + HT_LEAF_CLASS_AT);
	Shape		shape;

	shape.base = line.base;
	shape.bits = (int) (line.widths & 0xFF);
	shape.tid_bytes = (int) (line.widths >> 8 & 0xFF);
	if (shape.tid_bytes != 4 && shape.tid_bytes != 5)
		shape.tid_bytes = HT_TID_BYTES;
	return shape;
}

/*
 * Call run(Lane) for the type in which a leaf of this shape stores keys.  An index with 32-bit
 * keys has no leaves of class 64.
 */
template <typename Key, typename Run>
HD_BOTH auto
with_lane(const Shape &shape, Run run)
{
	if (shape.bits == 16)
		return run((uint16_t) 0);
	if constexpr (sizeof(Key) == 8)
	{
		if (shape.bits != 32)
			return run((uint64_t) 0);
	}
	return run((uint32_t) 0);
}

/* The slots of a block. */
template <typename Lane>
HD_BOTH int
slots_of(const Shape &shape)
{
	constexpr int bits = Layout<Lane>::bits;

	return shape.tid_bytes == 4 ? HT_LEAF_SLOTS(bits, 4) :
		shape.tid_bytes == 5 ? HT_LEAF_SLOTS(bits, 5) : HT_LEAF_SLOTS(bits, 6);
}

/*
 * The key as a leaf stores it; if it is out of the leaf's reach, the nearest one that is
 * not.
 */
template <typename Lane, typename Key>
HD_BOTH Lane
stored_key(const Shape &shape, Key key)
{
	if constexpr (sizeof(Lane) == 8)
		return key;
	else
	{
		Key			base = (Key) shape.base;

		if (key < base)
			return 0;
		return (Key) (key - base) > (Lane) -1 ? (Lane) -1 : (Lane) (key - base);
	}
}

/* Can a leaf store any key of low..high? */
template <typename Lane, typename Key>
HD_BOTH bool
reaches(const Shape &shape, Key low, Key high)
{
	if constexpr (sizeof(Lane) == 8)
		return true;
	else
	{
		Key			base = (Key) shape.base;

		return high >= base && (low <= base || (Key) (low - base) <= (Lane) -1);
	}
}

/* Find the first block of a leaf that can hold a key. */
template <typename Group, typename Lane>
HD_BOTH int
find_block(const Group &group, const char *page, Lane key)
{
	using Leaf = Layout<Lane>;
	const Lane *pivots = (const Lane *) (page + Leaf::pivots_at);
	const Lane *separators = (const Lane *) (page + HT_LEAF_SEPARATORS_AT);
	int			line = find_child<Leaf::lines>(group, pivots, Leaf::lines, key);
	int			block = line * Leaf::line +
		find_child<Leaf::line>(group, separators + line * Leaf::line, Leaf::line, key);

	return block < Leaf::blocks ? block : Leaf::blocks - 1;
}

/* Find the slots of a block whose keys are in low..low + span. */
template <typename Group, typename Lane>
HD_BOTH uint32_t
find_slots(const Group &group, const char *block, int slots, Lane low, Lane span)
{
	constexpr int most = Layout<Lane>::max_slots;
	uint32_t	set = 0;
	int			count;

	if (Group::threads == 1)
	{
		/*
		 * Load 16 bytes at a time.  What is loaded beyond the last key is masked out
		 * below.
		 */
		constexpr int vector = 16 / sizeof(Lane);
		constexpr int vectors = (most + vector - 1) / vector;
		struct alignas(16) Vector
		{
			Lane		keys[vector];
		};
		static_assert(vectors * vector <= 32 && vectors * 16 <= HT_LEAF_BLOCK_SIZE, "a set of lanes");

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
		for (int i = 0; i < vectors; i++)
		{
			Vector		some = ((const Vector *) block)[i];

			for (int j = 0; j < vector; j++)
				set |= (uint32_t) ((Lane) (some.keys[j] - low) <= span) << (i * vector + j);
		}
	}
	else
	{
		for (int first = 0; first < most; first += Group::threads)
			set |= group.vote([&](int thread)
							  {
								  int			i = first + thread;

								  return i < most &&
									  (Lane) (((const Lane *) block)[i] - low) <= span;
							  }) << first;
	}

	count = ((const uint8_t *) block)[HT_LEAF_BLOCK_COUNT_AT];
	return set & ((UINT32_C(1) << (count < slots ? count : slots)) - 1);
}

/*
 * Load the tid in a slot; tids begin tids_at bytes after the block does.  Two aligned words
 * cover it and do not reach beyond the block.
 */
HD_BOTH uint64_t
load_tid(const char *block, int tids_at, int tid_bytes, int slot)
{
	int			offset = tids_at + slot * tid_bytes;
	const uint32_t *at = (const uint32_t *) (block + (offset & ~3));
	uint64_t	words = (uint64_t) at[1] << 32 | at[0];

	words = words >> (offset & 3) * 8 & (UINT64_MAX >> (64 - 8 * tid_bytes));
	return tid_bytes == HT_TID_BYTES ? words : words >> 9 << 16 | (words & 511);
}

/* A block of a leaf, from which a search goes on. */
struct LeafBlock
{
	uint32_t	rank;			/* of the leaf */
	int			block;
};

/* The slots of a block in which a search has found entries. */
struct Slots
{
	LeafBlock	at;
	const char *block;
	uint32_t	set;
	int			tids_at;
	int			tid_bytes;

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
	const char *page = tree.pages + (size_t) tree.blocks[rank] * HT_PAGE_SIZE;
	Shape		shape = read_shape(page);
	LeafBlock	at;

	at.rank = rank;
	at.block = with_lane<Key>(shape, [&](auto lane)
							  {
								  return find_block(group, page, stored_key<decltype(lane)>(shape, key));
							  });
	return at;
}

/*
 * Find the entries of one leaf in low..high, from block "at" on.  Returns whether the
 * next leaf can have some, too.
 */
template <typename Lane, typename Group, typename Key, typename Visit>
HD_BOTH bool
find_entries_in_leaf(const Group &group, const char *page, const Shape &shape, LeafBlock at,
					 Key low_key, Key high_key, Visit visit)
{
	using Leaf = Layout<Lane>;
	const Lane *separators = (const Lane *) (page + HT_LEAF_SEPARATORS_AT);
	Lane		low = stored_key<Lane>(shape, low_key);
	Lane		high = stored_key<Lane>(shape, high_key);
	int			slots = slots_of<Lane>(shape);
	Slots		found;

	if (!reaches<Lane>(shape, low_key, high_key))
		return true;
	found.tids_at = slots * (int) sizeof(Lane);
	found.tid_bytes = shape.tid_bytes;
	for (;; at.block++)
	{
		found.at = at;
		found.block = page + Leaf::blocks_at + at.block * HT_LEAF_BLOCK_SIZE;
		found.set = find_slots(group, found.block, slots, low, (Lane) (high - low));
		visit(found);
		if (at.block == Leaf::blocks - 1)
			return true;

		/* A separator in use is not above the next leaf's low bound. */
		if (separators[at.block] > high)
			return separators[at.block] == (Lane) -1;
	}
}

/*
 * Find the entries in low..high.  The search starts at block "at", which a search for
 * low has found.  Calls visit(slots) for each block that can hold such entries, in order;
 * slots.set may be empty.
 */
template <typename Group, typename Key, typename Visit>
HD_BOTH void
find_entries(const Group &group, const Tree<Key> &tree, LeafBlock at, Key low, Key high, Visit visit)
{
	for (;;)
	{
		const char *page = tree.pages + (size_t) tree.blocks[at.rank] * HT_PAGE_SIZE;
		Shape		shape = read_shape(page);
		bool		more = with_lane<Key>(shape, [&](auto lane)
										  {
											  return find_entries_in_leaf<decltype(lane)>(group, page, shape, at,
																						  low, high, visit);
										  });

		if (!more || !goes_on(tree, at.rank, high) || gives_up(group, tree))
			return;
		at = first_block_in_leaf(group, tree, at.rank + 1, low);
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
	const char *page = tree.pages + (size_t) tree.blocks[at.rank] * HT_PAGE_SIZE;
	Shape		shape = read_shape(page);
	uint32_t	set = with_lane<Key>(shape, [&](auto lane)
									 {
										 using Lane = decltype(lane);
										 const char *block = page + Layout<Lane>::blocks_at +
											 at.block * HT_LEAF_BLOCK_SIZE;

										 return find_slots(group, block, slots_of<Lane>(shape),
														   stored_key<Lane>(shape, key), (Lane) 0);
									 });

	return count_slots(at.rank) + (uint64_t) (at.block * HT_LEAF_MAX_SLOTS + lowest_bit(set));
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
				 [&](const Slots &slots)
				 {
					 /*
					  * Entries are in order from block to block, but not inside a
					  * block.
					  */
					 if (found.count == 0 && slots.set != 0)
					 {
						 uint32_t	rest = slots.set & (slots.set - 1);

						 found.first_block = slots.at;
						 found.first = slots.tid(lowest_bit(slots.set));
						 for (; Points && rest != 0; rest &= rest - 1)
						 {
							 uint64_t	tid = slots.tid(lowest_bit(rest));

							 found.first = tid < found.first ? tid : found.first;
						 }
					 }
					 found.count += (uint32_t) count_bits(slots.set);
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

	find_entries(group, tree, at, low, high, [&](const Slots &slots)
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
