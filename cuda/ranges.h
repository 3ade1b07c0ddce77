/*
 * ranges.h
 *		Traversal for ranges: how a thread group gets from two keys to the blocks between.
 *
 * The blocks where entries of a range can be lie side by side, from the first that can hold its
 * low key to the last that can hold its high key.  Two searches find both, however many blocks
 * are between them.  All entries of these others are in the range, so their keys are not read.
 *
 * Like search.h, this code trusts nothing that the pages hold: a place is checked against the
 * leaf's number of blocks, and a count of entries against the slots of a block.
 */
#ifndef HARMONIA_CUDA_RANGES_H
#define HARMONIA_CUDA_RANGES_H

#include "search.h"

namespace harmonia
{

/*
 * The *places* of an index are its leaves' blocks, numbered as if each leaf had this many.
 */
constexpr uint32_t leaf_places = 64;

static_assert((uint64_t) HD_MAX_LEAVES * leaf_places <= UINT32_MAX, "32 bits suffice");

static_assert(HT_LEAF_MAX_BLOCKS <= leaf_places && HT_WIDE_SEPARATORS <= leaf_places,
			  "a place for each block");

/* The places where entries of a range can be. */
struct PlaceSpan
{
	uint32_t first;
	uint32_t count;
};

/* The last leaf that can hold a key, of those from a leaf on that is not above it. */
template <typename Key>
HD_BOTH uint32_t
find_last_leaf(const Tree<Key> &tree, uint32_t rank, Key key)
{
	uint32_t left = tree.leaves - 1 - rank;
	uint32_t step = 1;

	if (!goes_on(tree, rank, key))
		return rank;
	for (; step <= left && leaf_bounds(tree)[rank + step - 1] <= key; step *= 2)
	{
		rank += step;
		left -= step;
	}
	left = step - 1 < left ? step - 1 : left;
	while (left > 0)
	{
		step = (left + 1) / 2;
		if (leaf_bounds(tree)[rank + step - 1] <= key)
		{
			rank += step;
			left -= step;
		}
		else
			left = step - 1;
	}
	return rank;
}

/* The key after a stored one that is not the greatest. */
template <typename Stored>
HD_BOTH Stored
stored_after(Stored key)
{
	return (Stored) (key + 1);
}

template <int Bits>
HD_BOTH PlanedKey<Bits>
stored_after(PlanedKey<Bits> key)
{
	return {key.key + decltype(key.key)(1)};
}

template <typename Stored>
HD_BOTH bool
is_greatest(Stored key)
{
	return key == greatest<Stored>();
}

template <int Bits>
HD_BOTH bool
is_greatest(PlanedKey<Bits> key)
{
	return key.key == greatest<PlanedKey<Bits>>().key;
}

/* The first block of a leaf that can hold a key; leaf_places: all its entries are below. */
template <typename Group, typename Key>
HD_BOTH uint32_t
find_first_place(const Group &group, const LeafPage<Key> &leaf, Key key)
{
	return with_stored<Key>(leaf.shape,
							[&](auto type)
							{
								using Stored = decltype(type);

								if (!reaches<Stored>(leaf.shape, key, KeyLimits<Key>::max()))
									return leaf_places;
								return (uint32_t) find_block(group, leaf.page,
															 stored_key<Stored>(leaf.shape, key));
							});
}

/*
 * The first block of a leaf that cannot hold a key or any below it; 0: all its entries are above.
 */
template <typename Group, typename Key>
HD_BOTH uint32_t
find_end_place(const Group &group, const LeafPage<Key> &leaf, Key key)
{
	return with_stored<Key>(
		leaf.shape,
		[&](auto type)
		{
			using Stored = decltype(type);
			using Leaf = Layout<Stored>;

			if (!reaches<Stored>(leaf.shape, Key(0), key))
				return UINT32_C(0);
			if constexpr (Leaf::bits != 0)
			{
				Stored stored = stored_key<Stored>(leaf.shape, key);

				if (!is_greatest(stored))
					return (uint32_t) find_block(group, leaf.page, stored_after(stored)) + 1;
			}
			return (uint32_t) Leaf::blocks;
		});
}

/* Find the places of a range; "rank" is the first leaf that can hold low. */
template <typename Group, typename Key>
HD_BOTH PlaceSpan
find_places_from(const Group &group, const Tree<Key> &tree, uint32_t rank, Key low, Key high)
{
	LeafPage<Key> leaf = read_leaf(tree, rank);
	PlaceSpan places;
	uint32_t last;
	uint32_t end;

	places.first = rank * leaf_places + find_first_place(group, leaf, low);
	if (low > high)
		return {places.first, 0};
	last = find_last_leaf(tree, rank, high);
	if (last != rank)
		leaf = read_leaf(tree, last);
	end = last * leaf_places + find_end_place(group, leaf, high);
	places.count = end > places.first ? end - places.first : 0;
	return places;
}

template <int Fanout, typename Group, typename Key>
HD_BOTH PlaceSpan
find_places(const Group &group, const Tree<Key> &tree, Key low, Key high)
{
	if (tree.leaves == 0)
		return {};
	return find_places_from(group, tree, find_leaf<Fanout>(group, tree, low), low, high);
}

/*
 * Where places are looked up: a function from a leaf's rank to its page.  This one asks the tree;
 * others have some leaves at hand.
 */
template <typename Key> struct TreeLeaves
{
	const Tree<Key> &tree;

	HD_BOTH LeafPage<Key> operator()(uint32_t rank) const
	{
		return read_leaf(tree, rank);
	}
};

/* The entries of a range at its first or its last place. */
template <typename Group, typename Leaves, typename Key>
HD_BOTH Slots
find_slots_at(const Group &group, const Leaves &leaf_of, uint32_t place, Key low, Key high)
{
	LeafBlock at = {place / leaf_places, (int) (place % leaf_places)};
	const LeafPage<Key> leaf = leaf_of(at.rank);

	return with_stored<Key>(leaf.shape,
							[&](auto type)
							{
								using Stored = decltype(type);
								using Leaf = Layout<Stored>;
								int slots = slots_of<Stored>(leaf.shape);
								Slots found;

								found.at = at;
								found.block = leaf.page + Leaf::blocks_at;
								found.tids_at = slots * (Leaf::bits / 8);
								found.tid_bytes = leaf.shape.tid_bytes;
								found.set = 0;
								if (at.block < Leaf::blocks &&
									reaches<Stored>(leaf.shape, low, high))
								{
									found.block += at.block * Leaf::block_size;
									found.set = find_slots(group, found.block, slots,
														   stored_key<Stored>(leaf.shape, low),
														   stored_key<Stored>(leaf.shape, high));
								}
								return found;
							});
}

/* The blocks of a leaf, whatever its class is. */
struct LeafBlocks
{
	const char *first;
	int blocks;
	int block_size;
	int count_at;
	int slots;
	int tids_at;
	int tid_bytes;

	/* A block; beyond the last one there are blocks without entries. */
	HD_BOTH const char *block(uint32_t i) const
	{
		return first + (i < (uint32_t) blocks ? i : 0) * (uint32_t) block_size;
	}
	HD_BOTH int most(uint32_t i) const
	{
		return i < (uint32_t) blocks ? slots : 0;
	}

	/* What the block says of the number of its entries, which can be more than "most". */
	HD_BOTH int stored_count(uint32_t i) const
	{
		return ((const uint8_t *) block(i))[count_at];
	}
	HD_BOTH int count(uint32_t i) const
	{
		return stored_count(i) < most(i) ? stored_count(i) : most(i);
	}
};

template <typename Key>
HD_BOTH LeafBlocks
blocks_of(const LeafPage<Key> &leaf)
{
	return with_stored<Key>(leaf.shape,
							[&](auto type)
							{
								using Stored = decltype(type);
								using Leaf = Layout<Stored>;
								int slots = slots_of<Stored>(leaf.shape);

								return LeafBlocks{leaf.page + Leaf::blocks_at,
												  Leaf::blocks,
												  Leaf::block_size,
												  Leaf::count_at,
												  slots,
												  slots * (Leaf::bits / 8),
												  leaf.shape.tid_bytes};
							});
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_RANGES_H */
