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
#include "wide.h"

namespace harmonia
{

/*
 * Offsets and counts of a leaf page of one class; tree.h describes the layout.  Lane is the type of
 * a stored key.
 */
template <typename Lane>
struct Layout
{
	static constexpr int bits = 8 * sizeof(Lane);
	static constexpr int block_size = HT_LEAF_BLOCK_SIZE;
	static constexpr int count_at = HT_LEAF_BLOCK_COUNT_AT;
	static constexpr int pivots_at = HT_LEAF_PIVOTS_AT(bits);
	static constexpr int blocks = HT_LEAF_BLOCKS(bits);
	static constexpr int blocks_at = HT_LEAF_BLOCKS_AT(bits);
	static constexpr int max_slots = HT_LEAF_SLOTS(bits, 4);
	static constexpr int line = HT_LEAF_LINE_SIZE / sizeof(Lane);	/* keys in a cache line */
	static constexpr int lines = HT_LEAF_MAX_SEPARATORS / line; /* cache lines of separators */

	static constexpr HD_BOTH int slots(int tid_bytes)
	{
		return HT_LEAF_SLOTS(bits, tid_bytes);
	}
};

/* What a leaf of class 0 stores of a key: nothing.  All entries have the leaf's base as key. */
struct NoLane
{
};

template <>
struct Layout<NoLane>
{
	static constexpr int bits = 0;
	static constexpr int block_size = HT_LEAF_BLOCK_SIZE;
	static constexpr int count_at = HT_LEAF_BLOCK_COUNT_AT;
	static constexpr int blocks = HT_LEAF_BLOCKS(0);
	static constexpr int blocks_at = HT_LEAF_BLOCKS_AT(0);

	static constexpr HD_BOTH int slots(int tid_bytes)
	{
		return HT_LEAF_SLOTS(0, tid_bytes);
	}
};

/* The key that a leaf of a wide class stores, in lanes; see tree.h. */
template <int Bits>
struct Laned
{
	static constexpr int bits = Bits;
	static constexpr int words = Bits / 64;
	static constexpr bool has_tail = Bits % 64 != 0;

	Wide<(Bits + 63) / 64> key;

	/* Word i, the highest one is 0. */
	HD_BOTH uint64_t word(int i) const
	{
		if constexpr (has_tail)
			return key.words[1] << 32 | key.words[0] >> 32;
		else
			return key.words[words - 1 - i];
	}
	HD_BOTH uint32_t tail() const
	{
		return (uint32_t) key.words[0];
	}
	/* The key in place i of lanes that have so many places. */
	static HD_BOTH Laned load(const char *lanes, int places, int i)
	{
		const uint64_t *at = (const uint64_t *) lanes;
		Laned		result;

		if constexpr (has_tail)
		{
			static_assert(Bits == 96, "one word and a tail");
			uint32_t	low = ((const uint32_t *) (at + places))[i];

			result.key.words[0] = at[i] << 32 | low;
			result.key.words[1] = at[i] >> 32;
		}
		else
		{
			for (int j = 0; j < words; j++)
				result.key.words[words - 1 - j] = at[j * places + i];
		}
		return result;
	}
};

template <int Bits>
struct Layout<Laned<Bits>>
{
	static constexpr int bits = Bits;
	static constexpr int block_size = HT_WIDE_BLOCK_SIZE;
	static constexpr int count_at = HT_WIDE_BLOCK_COUNT_AT;
	static constexpr int blocks = HT_WIDE_BLOCKS(Bits);
	static constexpr int blocks_at = HT_WIDE_BLOCKS_AT(Bits);
	static constexpr int max_slots = HT_WIDE_SLOTS(Bits, 4);
	static constexpr int line = HT_LEAF_LINE_SIZE / 8;
	static constexpr int lines = HT_WIDE_SEPARATORS / line;

	static constexpr HD_BOTH int slots(int tid_bytes)
	{
		return HT_WIDE_SLOTS(Bits, tid_bytes);
	}
};

/* Keys that are more than 64 bits wide are structs. */
template <typename Key>
constexpr bool is_wide = sizeof(Key) > 8;

/* What a leaf says of itself. */
template <typename Key>
struct Shape
{
	Key			base;			/* not used by class 64 of an index of 64 bits */
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
template <typename Key>
HD_BOTH Shape<Key>
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
	Shape<Key>	shape;

	if constexpr (is_wide<Key>)
		shape.base = *(const Key *) (page + HT_WIDE_BASE_AT);
	else
		shape.base = (Key) line.base;
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
with_lane(const Shape<Key> &shape, Run run)
{
	if (shape.bits == 0)
		return run(NoLane());
	if (shape.bits == 16)
		return run((uint16_t) 0);
	if constexpr (is_wide<Key>)
	{
		if (shape.bits == 32)
			return run((uint32_t) 0);
		if (shape.bits == HT_WIDE_CLASS(64))
			return run(Laned<64>());
		if (shape.bits == HT_WIDE_CLASS(96))
			return run(Laned<96>());
		if constexpr (sizeof(Key) > 16)
		{
			if (shape.bits == HT_WIDE_CLASS(192))
				return run(Laned<192>());
			if (shape.bits != HT_WIDE_CLASS(128))
				return run(Laned<256>());
		}
		return run(Laned<128>());
	}
	else
	{
		if constexpr (sizeof(Key) == 8)
		{
			if (shape.bits != 32)
				return run((uint64_t) 0);
		}
		return run((uint32_t) 0);
	}
}

/* The slots of a block. */
template <typename Lane, typename Key>
HD_BOTH int
slots_of(const Shape<Key> &shape)
{
	return shape.tid_bytes == 4 ? Layout<Lane>::slots(4) :
		shape.tid_bytes == 5 ? Layout<Lane>::slots(5) : Layout<Lane>::slots(6);
}

/* Is a distance from the base beyond what the class can store? */
template <typename Lane, typename Key>
HD_BOTH bool
is_beyond(Key distance)
{
	if constexpr (Layout<Lane>::bits == 0)
		return distance > Key(0);
	else if constexpr (!is_wide<Key>)
		return distance > (Lane) -1;
	else if constexpr (Layout<Lane>::bits == 8 * (int) sizeof(Key))
		return false;
	else
		return (distance >> Layout<Lane>::bits) > Key(0);
}

/* A distance that the class can store, as it is stored; and the greatest one. */
template <typename Lane, typename Key>
HD_BOTH Lane
narrowed(Key distance)
{
	if constexpr (is_wide<Key> && sizeof(Lane) >= 8)
	{
		Lane		lane;

		lane.key = decltype(lane.key) (distance);
		return lane;
	}
	else
		return (Lane) distance;
}

template <typename Lane>
HD_BOTH Lane
greatest()
{
	return (Lane) -1;
}

template <>
HD_BOTH Laned<64>
greatest<Laned<64>>()
{
	return {KeyLimits<Wide<1>>::max()};
}

template <>
HD_BOTH Laned<96>
greatest<Laned<96>>()
{
	return {KeyLimits<Wide<2>>::max() >> 32};
}

template <>
HD_BOTH Laned<128>
greatest<Laned<128>>()
{
	return {KeyLimits<Wide<2>>::max()};
}

template <>
HD_BOTH Laned<192>
greatest<Laned<192>>()
{
	return {KeyLimits<Wide<3>>::max()};
}

template <>
HD_BOTH Laned<256>
greatest<Laned<256>>()
{
	return {KeyLimits<Wide<4>>::max()};
}

/*
 * The key as a leaf stores it; if it is out of the leaf's reach, the nearest one that is
 * not.
 */
template <typename Lane, typename Key>
HD_BOTH Lane
stored_key(const Shape<Key> &shape, Key key)
{
	if constexpr (Layout<Lane>::bits == 0)
		return {};
	else if constexpr (sizeof(Lane) == 8 && !is_wide<Key>)
		return key;
	else
	{
		Key			base = shape.base;

		if (key < base)
			return narrowed<Lane>(Key(0));
		return is_beyond<Lane>((Key) (key - base)) ? greatest<Lane>() : narrowed<Lane>((Key) (key - base));
	}
}

/* Can a leaf store any key of low..high? */
template <typename Lane, typename Key>
HD_BOTH bool
reaches(const Shape<Key> &shape, Key low, Key high)
{
	if constexpr (sizeof(Lane) == 8 && !is_wide<Key>)
		return true;
	else
	{
		Key			base = shape.base;

		return high >= base && (low <= base || !is_beyond<Lane>((Key) (low - base)));
	}
}

/* Separator i of a leaf; and whether a key is below it, or it is the greatest one. */
template <typename Lane>
HD_BOTH bool
below_separator(const char *page, int i, Lane key)
{
	return ((const Lane *) (page + HT_LEAF_SEPARATORS_AT))[i] > key;
}

template <int Bits>
HD_BOTH bool
below_separator(const char *page, int i, Laned<Bits> key)
{
	return Laned<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, i).key > key.key;
}

template <typename Lane>
HD_BOTH bool
is_greatest_separator(const char *page, int i, Lane)
{
	return ((const Lane *) (page + HT_LEAF_SEPARATORS_AT))[i] == (Lane) -1;
}

template <int Bits>
HD_BOTH bool
is_greatest_separator(const char *page, int i, Laned<Bits>)
{
	return Laned<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, i).key == greatest<Laned<Bits>>().key;
}

/* Class 0 has no separators: entries of the key can be in all blocks. */
HD_BOTH bool
below_separator(const char *, int, NoLane)
{
	return false;
}

HD_BOTH bool
is_greatest_separator(const char *, int, NoLane)
{
	return false;
}

template <typename Group>
HD_BOTH int
find_block(const Group &, const char *, NoLane)
{
	return 0;
}

/* All slots in use have the leaf's key. */
template <typename Group>
HD_BOTH uint32_t
find_slots(const Group &, const char *block, int slots, NoLane, NoLane)
{
	int			count = ((const uint8_t *) block)[HT_LEAF_BLOCK_COUNT_AT];

	return (UINT32_C(1) << (count < slots ? count : slots)) - 1;
}

/* What is added to the keys that a leaf stores. */
template <typename Lane, typename Key>
HD_BOTH Key
stored_base(const Shape<Key> &shape)
{
	return sizeof(Lane) == 8 && !is_wide<Key> ? Key(0) : shape.base;
}

/* Separator i of a leaf, as a distance from what is added. */
template <typename Key, typename Lane>
HD_BOTH Key
separator_distance(const char *page, int i, Lane)
{
	return Key(((const Lane *) (page + HT_LEAF_SEPARATORS_AT))[i]);
}

template <typename Key, int Bits>
HD_BOTH Key
separator_distance(const char *page, int i, Laned<Bits>)
{
	return Key(Laned<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, i).key);
}

/*
 * The greatest key that a search looks for in this block of a leaf first; it may go on to the next
 * block if it looks for just that key.  "after" is the greatest one for the leaf as a whole, the next
 * leaf's low bound.  Blocks that the leaf does not have, and those behind its entries, have it, too.
 */
template <typename Key>
HD_BOTH Key
block_bound(const char *page, const Shape<Key> &shape, int block, Key after)
{
	return with_lane<Key>(shape, [&](auto lane)
						  {
							  using Lane = decltype(lane);

							  if (block >= Layout<Lane>::blocks - 1)
								  return after;
							  if constexpr (Layout<Lane>::bits == 0)
								  return shape.base < after ? shape.base : after;
							  else
							  {
								  /* The greatest separator is that of a block that ends with its key, or of none. */
								  Key		distance = separator_distance<Key>(page, block, lane);
								  Key		start = stored_base<Lane>(shape);

								  return start < after && distance < (Key) (after - start) ? (Key) (start + distance) : after;
							  }
						  });
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

/*
 * The same in a leaf of a wide class.  First words tell, unless a separator has the same as the
 * key; then the group's threads all do the same binary search.
 */
template <typename Group, int Bits>
HD_BOTH int
find_block(const Group &group, const char *page, Laned<Bits> key)
{
	using Leaf = Layout<Laned<Bits>>;
	const uint64_t *pivots = (const uint64_t *) (page + HT_WIDE_PIVOTS_AT);
	const uint64_t *separators = (const uint64_t *) (page + HT_LEAF_SEPARATORS_AT);
	int			line = find_child<Leaf::lines>(group, pivots, Leaf::lines, key.word(0));
	int			block = line * Leaf::line +
		find_child<Leaf::line>(group, separators + line * Leaf::line, Leaf::line, key.word(0));
	int			end = Leaf::blocks - 1;

	if (block >= end)
		return end;
	if (Bits > 64 && separators[block] == key.word(0))
	{
		while (block < end)
		{
			int			middle = block + (end - block) / 2;

			if (Laned<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, middle).key < key.key)
				block = middle + 1;
			else
				end = middle;
		}
	}
	return block;
}

/* Find the slots of a block whose keys are in low..high. */
template <typename Group, int Bits>
HD_BOTH uint32_t
find_slots(const Group &group, const char *block, int slots, Laned<Bits> low, Laned<Bits> high)
{
	constexpr int most = Layout<Laned<Bits>>::max_slots;
	uint32_t	set = 0;
	int			count = ((const uint8_t *) block)[HT_WIDE_BLOCK_COUNT_AT];

	for (int first = 0; first < most; first += Group::threads)
		set |= group.vote([&](int thread)
						  {
							  int			i = first + thread;

							  if (i >= slots)
								  return false;

							  Laned<Bits> stored = Laned<Bits>::load(block, slots, i);

							  return low.key <= stored.key && stored.key <= high.key;
						  }) << first;
	return set & ((UINT32_C(1) << (count < slots ? count : slots)) - 1);
}

/* The slots in use among a set. */
HD_BOTH uint32_t
slots_in_use(const char *block, int slots, uint32_t set)
{
	int			count = ((const uint8_t *) block)[HT_LEAF_BLOCK_COUNT_AT];

	return set & ((UINT32_C(1) << (count < slots ? count : slots)) - 1);
}

/*
 * Some keys of a block, loaded at once.  What is loaded beyond the last key must be masked out.
 */
template <typename Lane>
struct alignas(16) LaneVector
{
	static constexpr int lanes = 16 / sizeof(Lane);
	static constexpr int vectors = (Layout<Lane>::max_slots + lanes - 1) / lanes;	/* of a block */
	static_assert(vectors * lanes <= 32 && vectors * 16 <= HT_LEAF_BLOCK_SIZE, "a set of lanes");
	Lane		keys[lanes];
};

/* Find the slots of a block that have a key, with a single thread. */
template <typename Lane>
HD_BOTH uint32_t
find_equal_slots(const char *block, int slots, Lane key)
{
	using Vector = LaneVector<Lane>;
	uint32_t	set = 0;

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
	for (int i = 0; i < Vector::vectors; i++)
	{
		Vector		some = ((const Vector *) block)[i];

		for (int j = 0; j < Vector::lanes; j++)
			set |= some.keys[j] == key ? UINT32_C(1) << (i * Vector::lanes + j) : 0;
	}
	return slots_in_use(block, slots, set);
}

/* The same in a leaf of a wide class: first words are compared, and then the keys that have the first word. */
template <int Bits>
HD_BOTH uint32_t
find_equal_slots(const char *block, int slots, Laned<Bits> key)
{
	struct alignas(16) Vector
	{
		uint64_t	words[2];
	};
	constexpr int most = Layout<Laned<Bits>>::max_slots;
	int			count = ((const uint8_t *) block)[HT_WIDE_BLOCK_COUNT_AT];
	uint32_t	set = 0;

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
	for (int i = 0; i < (most + 1) / 2; i++)
	{
		Vector		some = ((const Vector *) block)[i];

		set |= (uint32_t) (some.words[0] == key.word(0)) << 2 * i | (uint32_t) (some.words[1] == key.word(0)) << (2 * i + 1);
	}
	set &= (UINT32_C(1) << (count < slots ? count : slots)) - 1;
	if (Bits > 64)
	{
		for (uint32_t rest = set; rest != 0; rest &= rest - 1)
		{
			int			slot = lowest_bit(rest);

			if (!(Laned<Bits>::load(block, slots, slot).key == key.key))
				set &= ~(UINT32_C(1) << slot);
		}
	}
	return set;
}

/* Find the slots of a block whose keys are in low..high. */
template <typename Group, typename Lane>
HD_BOTH uint32_t
find_slots(const Group &group, const char *block, int slots, Lane low, Lane high)
{
	Lane		span = (Lane) (high - low);
	constexpr int most = Layout<Lane>::max_slots;
	uint32_t	set = 0;

	if (Group::threads == 1)
	{
		using Vector = LaneVector<Lane>;

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
		for (int i = 0; i < Vector::vectors; i++)
		{
			Vector		some = ((const Vector *) block)[i];

			for (int j = 0; j < Vector::lanes; j++)
				set |= (uint32_t) ((Lane) (some.keys[j] - low) <= span) << (i * Vector::lanes + j);
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
	return slots_in_use(block, slots, set);
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

/* The key in a slot of a block, as a distance from what is added. */
template <typename Key, typename Lane>
HD_BOTH Key
stored_distance(const char *block, int, int slot, Lane)
{
	return Key(((const Lane *) block)[slot]);
}

template <typename Key, int Bits>
HD_BOTH Key
stored_distance(const char *block, int slots, int slot, Laned<Bits>)
{
	return Key(Laned<Bits>::load(block, slots, slot).key);
}

template <typename Key>
HD_BOTH Key
stored_distance(const char *, int, int, NoLane)
{
	return Key(0);
}

/* Load the key in a slot of a block of a leaf with this shape. */
template <typename Key>
HD_BOTH Key
load_key(const Shape<Key> &shape, const char *block, int slot)
{
	return with_lane<Key>(shape, [&](auto lane)
						  {
							  using Lane = decltype(lane);

							  return (Key) (stored_base<Lane>(shape) +
											stored_distance<Key>(block, slots_of<Lane>(shape), slot, lane));
						  });
}

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
	Shape<Key>	shape = read_shape<Key>(page);
	LeafBlock	at;

	at.rank = rank;
	at.block = with_lane<Key>(shape, [&](auto lane)
							  {
								  return find_block(group, page, stored_key<decltype(lane)>(shape, key));
							  });
	return at;
}

/*
 * Find the entries of one leaf with a key, from block "at" on.  Returns whether the next
 * leaf can have some, too.
 */
template <typename Lane, typename Group, typename Key, typename Visit>
HD_BOTH bool
find_entries_in_leaf(const Group &group, const char *page, const Shape<Key> &shape, LeafBlock at,
					 Key key, Visit visit)
{
	using Leaf = Layout<Lane>;
	Lane		stored = stored_key<Lane>(shape, key);
	int			slots = slots_of<Lane>(shape);
	Slots		found;

	if (!reaches<Lane>(shape, key, key))
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
		const char *page = tree.pages + (size_t) tree.blocks[at.rank] * HT_PAGE_SIZE;
		Shape<Key>	shape = read_shape<Key>(page);
		bool		more = with_lane<Key>(shape, [&](auto lane)
										  {
											  return find_entries_in_leaf<decltype(lane)>(group, page, shape, at,
																						  key, visit);
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
	const char *page = tree.pages + (size_t) tree.blocks[at.rank] * HT_PAGE_SIZE;
	Shape<Key>	shape = read_shape<Key>(page);
	uint32_t	set = with_lane<Key>(shape, [&](auto lane)
									 {
										 using Lane = decltype(lane);
										 const char *block = page + Layout<Lane>::blocks_at +
											 at.block * Layout<Lane>::block_size;
										 Lane		stored = stored_key<Lane>(shape, key);

										 return find_slots(group, block, slots_of<Lane>(shape), stored, stored);
									 });

	return count_slots(at.rank) + (uint64_t) (at.block * HT_LEAF_MAX_SLOTS + lowest_bit(set));
}

/* A summary of a point's hits. */
struct Found
{
	uint32_t	count;
	uint64_t	first;			/* tid of the lowest entry; 0 if there is none */
	LeafBlock	first_block;	/* of the first entry */
};

/* The lowest tid of some entries. */
HD_BOTH uint64_t
lowest_tid(const Slots &slots)
{
	uint32_t	rest = slots.set & (slots.set - 1);
	uint64_t	lowest = slots.tid(lowest_bit(slots.set));

	for (; rest != 0; rest &= rest - 1)
	{
		uint64_t	tid = slots.tid(lowest_bit(rest));

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
	return with_lane<Key>(shape, [&](auto lane)
						  {
							  using Lane = decltype(lane);
							  using Leaf = Layout<Lane>;
							  Found		found = {};

							  /* In class 0, a search for the leaf's key goes on to its last block. */
							  if constexpr (Leaf::bits != 0)
							  {
								  Slots		slots;
								  int		room = slots_of<Lane>(shape);

								  if (!reaches<Lane>(shape, key, key))
									  return found;
								  if (at.block >= Leaf::blocks)
									  at.block = Leaf::blocks - 1;	/* separators descend: a damaged page */
								  slots.at = at;
								  slots.block = page + Leaf::blocks_at + at.block * Leaf::block_size;
								  slots.set = find_equal_slots(slots.block, room, stored_key<Lane>(shape, key));
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
	Found		found = {};

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
					 found.count += (uint32_t) count_bits(slots.set);
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
	uint64_t	n = 0;

	find_entries(group, tree, at, key, [&](const Slots &slots)
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
