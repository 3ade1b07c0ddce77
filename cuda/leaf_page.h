/*
 * leaf_page.h
 *		A leaf page: what its classes store of keys, and how a group searches it.  tree.h describes
 *		the layout.
 *
 * Pages can be damaged: this code reads nothing outside of them.
 */
#ifndef HARMONIA_CUDA_LEAF_PAGE_H
#define HARMONIA_CUDA_LEAF_PAGE_H

#include "group.h"

#include <type_traits>

namespace harmonia
{

/*
 * Offsets and counts of a leaf page of one class.  Stored is the type of
 * a stored key.
 */
template <typename Stored> struct Layout
{
	static constexpr int bits = 8 * sizeof(Stored);
	static constexpr int block_size = HT_LEAF_BLOCK_SIZE;
	static constexpr int count_at = HT_LEAF_BLOCK_COUNT_AT;
	static constexpr int pivots_at = HT_LEAF_PIVOTS_AT(bits);
	static constexpr int blocks = HT_LEAF_BLOCKS(bits);
	static constexpr int blocks_at = HT_LEAF_BLOCKS_AT(bits);
	static constexpr int max_slots = HT_LEAF_SLOTS(bits, 4);
	static constexpr int line = HT_LEAF_LINE_SIZE / sizeof(Stored); /* keys in a cache line */
	static constexpr int lines = HT_LEAF_MAX_SEPARATORS / line;     /* cache lines of separators */

	static constexpr HD_BOTH int slots(int tid_bytes)
	{
		return HT_LEAF_SLOTS(bits, tid_bytes);
	}
};

/* What a leaf of class 0 stores of a key: nothing.  All entries have the leaf's base as key. */
struct NoKey
{
};

template <> struct Layout<NoKey>
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

/* The key that a leaf of a wide class stores, in planes; see tree.h. */
template <int Bits> struct PlanedKey
{
	std::conditional_t<Bits == 64, uint64_t, Wide> key;

	/* The highest word. */
	HD_BOTH uint64_t first_word() const
	{
		if constexpr (Bits == 64)
			return key;
		else if constexpr (Bits == 96)
			return key.words[1] << 32 | key.words[0] >> 32;
		else
			return key.words[1];
	}
	/* The key in place i of planes that have so many. */
	static HD_BOTH PlanedKey load(const char *planes, int places, int i)
	{
		const uint64_t *at = (const uint64_t *) planes;
		PlanedKey result;

		if constexpr (Bits == 64)
			result.key = at[i];
		else if constexpr (Bits == 96)
		{
			uint32_t low = ((const uint32_t *) (at + places))[i];

			result.key.words[0] = at[i] << 32 | low;
			result.key.words[1] = at[i] >> 32;
		}
		else
		{
			result.key.words[1] = at[i];
			result.key.words[0] = at[places + i];
		}
		return result;
	}
};

template <int Bits> struct Layout<PlanedKey<Bits>>
{
	static constexpr int bits = Bits;
	static constexpr int block_size = HT_WIDE_BLOCK_SIZE;
	static constexpr int count_at = HT_WIDE_BLOCK_COUNT_AT;
	static constexpr int blocks = HT_WIDE_BLOCKS;
	static constexpr int blocks_at = HT_WIDE_BLOCKS_AT;
	static constexpr int max_slots = HT_WIDE_SLOTS(Bits, 4);
	static constexpr int line = HT_LEAF_LINE_SIZE / 8;
	static constexpr int lines = HT_WIDE_SEPARATORS / line;

	static constexpr HD_BOTH int slots(int tid_bytes)
	{
		return HT_WIDE_SLOTS(Bits, tid_bytes);
	}
};

/* Keys that are more than 64 bits wide are structs. */
template <typename Key> constexpr bool is_wide = sizeof(Key) > 8;

/* What a leaf says of itself. */
template <typename Key> struct Shape
{
	Key base; /* not used by class 64 of an index of 64 bits */
	int bits;
	int tid_bytes;
};

/* Read the shape of a leaf.  A damaged one becomes the widest. */
template <typename Key>
HD_BOTH Shape<Key>
read_shape(const char *page)
{
	struct alignas(16) Line
	{
		uint64_t widths;
		uint64_t base;
	};
	static_assert(HT_LEAF_CLASS_AT % 16 == 0 && HT_LEAF_BASE_AT == HT_LEAF_CLASS_AT + 8,
				  "one load");
	static_assert(HT_LEAF_TID_BYTES_AT == HT_LEAF_CLASS_AT + 1, "the second byte");
	Line line = *(const Line *) (page + HT_LEAF_CLASS_AT);
	Shape<Key> shape;

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
 * Call run(Stored()) for the type in which a leaf of this shape stores keys.  An index with 32-bit
 * keys has no leaves of class 64.
 */
template <typename Key, typename Run>
HD_BOTH auto
with_stored(const Shape<Key> &shape, Run run)
{
	if (shape.bits == 0)
		return run(NoKey());
	if (shape.bits == 16)
		return run((uint16_t) 0);
	if constexpr (is_wide<Key>)
	{
		if (shape.bits == 32)
			return run((uint32_t) 0);
		if (shape.bits == HT_WIDE_CLASS(64))
			return run(PlanedKey<64>());
		if (shape.bits == HT_WIDE_CLASS(96))
			return run(PlanedKey<96>());
		return run(PlanedKey<128>());
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
template <typename Stored, typename Key>
HD_BOTH int
slots_of(const Shape<Key> &shape)
{
	return shape.tid_bytes == 4 ? Layout<Stored>::slots(4) :
		   shape.tid_bytes == 5 ? Layout<Stored>::slots(5) :
								  Layout<Stored>::slots(6);
}

/* Is a distance from the base beyond what the class can store? */
template <typename Stored, typename Key>
HD_BOTH bool
is_beyond(Key distance)
{
	if constexpr (Layout<Stored>::bits == 0)
		return distance > Key(0);
	else if constexpr (!is_wide<Key>)
		return distance > (Stored) -1;
	else if constexpr (Layout<Stored>::bits == 8 * (int) sizeof(Key))
		return false;
	else
		return (distance >> Layout<Stored>::bits) > Key(0);
}

/* A distance that the class can store, as it is stored; and the greatest one. */
template <typename Stored, typename Key>
HD_BOTH Stored
narrowed(Key distance)
{
	if constexpr (is_wide<Key> && sizeof(Stored) >= 8)
	{
		Stored stored;

		stored.key = decltype(stored.key)(distance);
		return stored;
	}
	else
		return (Stored) distance;
}

template <typename Stored>
HD_BOTH Stored
greatest()
{
	return (Stored) -1;
}

template <>
HD_BOTH PlanedKey<64>
greatest<PlanedKey<64>>()
{
	return {UINT64_MAX};
}

template <>
HD_BOTH PlanedKey<96>
greatest<PlanedKey<96>>()
{
	return {KeyLimits<Wide>::max() >> 32};
}

template <>
HD_BOTH PlanedKey<128>
greatest<PlanedKey<128>>()
{
	return {KeyLimits<Wide>::max()};
}

/*
 * The key as a leaf stores it; if it is out of the leaf's reach, the nearest one that is
 * not.
 */
template <typename Stored, typename Key>
HD_BOTH Stored
stored_key(const Shape<Key> &shape, Key key)
{
	if constexpr (Layout<Stored>::bits == 0)
		return {};
	else if constexpr (sizeof(Stored) == 8 && !is_wide<Key>)
		return key;
	else
	{
		Key base = shape.base;

		if (key < base)
			return narrowed<Stored>(Key(0));
		return is_beyond<Stored>((Key) (key - base)) ? greatest<Stored>() :
													   narrowed<Stored>((Key) (key - base));
	}
}

/* Can a leaf store any key of low..high? */
template <typename Stored, typename Key>
HD_BOTH bool
reaches(const Shape<Key> &shape, Key low, Key high)
{
	if constexpr (sizeof(Stored) == 8 && !is_wide<Key>)
		return true;
	else
	{
		Key base = shape.base;

		return high >= base && (low <= base || !is_beyond<Stored>((Key) (low - base)));
	}
}

/* Separator i of a leaf; and whether a key is below it, or it is the greatest one. */
template <typename Stored>
HD_BOTH bool
below_separator(const char *page, int i, Stored key)
{
	return ((const Stored *) (page + HT_LEAF_SEPARATORS_AT))[i] > key;
}

template <int Bits>
HD_BOTH bool
below_separator(const char *page, int i, PlanedKey<Bits> key)
{
	return PlanedKey<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, i).key > key.key;
}

template <typename Stored>
HD_BOTH bool
is_greatest_separator(const char *page, int i, Stored)
{
	return ((const Stored *) (page + HT_LEAF_SEPARATORS_AT))[i] == (Stored) -1;
}

template <int Bits>
HD_BOTH bool
is_greatest_separator(const char *page, int i, PlanedKey<Bits>)
{
	return PlanedKey<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, i).key ==
		   greatest<PlanedKey<Bits>>().key;
}

/* Class 0 has no separators: entries of the key can be in all blocks. */
HD_BOTH bool
below_separator(const char *, int, NoKey)
{
	return false;
}

HD_BOTH bool
is_greatest_separator(const char *, int, NoKey)
{
	return false;
}

template <typename Group>
HD_BOTH int
find_block(const Group &, const char *, NoKey)
{
	return 0;
}

/* All slots in use have the leaf's key. */
template <typename Group>
HD_BOTH uint32_t
find_slots(const Group &, const char *block, int slots, NoKey, NoKey)
{
	int count = ((const uint8_t *) block)[HT_LEAF_BLOCK_COUNT_AT];

	return (UINT32_C(1) << (count < slots ? count : slots)) - 1;
}

/* What is added to the keys that a leaf stores. */
template <typename Stored, typename Key>
HD_BOTH Key
stored_base(const Shape<Key> &shape)
{
	return sizeof(Stored) == 8 && !is_wide<Key> ? Key(0) : shape.base;
}

/* Separator i of a leaf, as a distance from what is added. */
template <typename Key, typename Stored>
HD_BOTH Key
separator_distance(const char *page, int i, Stored)
{
	return Key(((const Stored *) (page + HT_LEAF_SEPARATORS_AT))[i]);
}

template <typename Key, int Bits>
HD_BOTH Key
separator_distance(const char *page, int i, PlanedKey<Bits>)
{
	return Key(PlanedKey<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, i).key);
}

/*
 * The greatest key that a search looks for in this block of a leaf first; it may go on to the next
 * block if it looks for just that key.  "after" is the greatest one for the leaf as a whole, the
 * next leaf's low bound.  Blocks that the leaf does not have, and those behind its entries, have
 * it, too.
 */
template <typename Key>
HD_BOTH Key
block_bound(const char *page, const Shape<Key> &shape, int block, Key after)
{
	return with_stored<Key>(shape,
							[&](auto type)
							{
								using Stored = decltype(type);

								if (block >= Layout<Stored>::blocks - 1)
									return after;
								if constexpr (Layout<Stored>::bits == 0)
									return shape.base < after ? shape.base : after;
								else
								{
									/*
								   * The greatest separator is that of a block that ends with its
								   * key, or of none.
								   */
									Key distance = separator_distance<Key>(page, block, type);
									Key start = stored_base<Stored>(shape);

									return start < after && distance < (Key) (after - start) ?
											   (Key) (start + distance) :
											   after;
								}
							});
}

/* Where a block of a leaf begins; the last one if the leaf has not so many. */
template <typename Key>
HD_BOTH const char *
block_start(const char *page, const Shape<Key> &shape, int block)
{
	return with_stored<Key>(shape,
							[&](auto type)
							{
								using Leaf = Layout<decltype(type)>;

								return page + Leaf::blocks_at +
									   (block < Leaf::blocks ? block : Leaf::blocks - 1) *
										   Leaf::block_size;
							});
}

/* Find the first block of a leaf that can hold a key. */
template <typename Group, typename Stored>
HD_BOTH int
find_block(const Group &group, const char *page, Stored key)
{
	using Leaf = Layout<Stored>;
	const Stored *pivots = (const Stored *) (page + Leaf::pivots_at);
	const Stored *separators = (const Stored *) (page + HT_LEAF_SEPARATORS_AT);
	int line = find_child<Leaf::lines>(group, pivots, Leaf::lines, key);
	int block = line * Leaf::line +
				find_child<Leaf::line>(group, separators + line * Leaf::line, Leaf::line, key);

	return block < Leaf::blocks ? block : Leaf::blocks - 1;
}

/*
 * The same in a leaf of a wide class.  First words tell, unless a separator has the same as the
 * key; then the group's threads all do the same binary search.
 */
template <typename Group, int Bits>
HD_BOTH int
find_block(const Group &group, const char *page, PlanedKey<Bits> key)
{
	using Leaf = Layout<PlanedKey<Bits>>;
	const uint64_t *pivots = (const uint64_t *) (page + HT_WIDE_PIVOTS_AT);
	const uint64_t *separators = (const uint64_t *) (page + HT_LEAF_SEPARATORS_AT);
	int line = find_child<Leaf::lines>(group, pivots, Leaf::lines, key.first_word());
	int block = line * Leaf::line + find_child<Leaf::line>(group, separators + line * Leaf::line,
														   Leaf::line, key.first_word());
	int end = Leaf::blocks - 1;

	if (block >= end)
		return end;
	if (Bits > 64 && separators[block] == key.first_word())
	{
		while (block < end)
		{
			int middle = block + (end - block) / 2;

			if (PlanedKey<Bits>::load(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, middle)
					.key < key.key)
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
find_slots(const Group &group, const char *block, int slots, PlanedKey<Bits> low,
		   PlanedKey<Bits> high)
{
	constexpr int most = Layout<PlanedKey<Bits>>::max_slots;
	uint32_t set = 0;
	int count = ((const uint8_t *) block)[HT_WIDE_BLOCK_COUNT_AT];

	for (int first = 0; first < most; first += Group::threads)
		set |= group.vote(
				   [&](int thread)
				   {
					   int i = first + thread;

					   if (i >= slots)
						   return false;

					   PlanedKey<Bits> stored = PlanedKey<Bits>::load(block, slots, i);

					   return low.key <= stored.key && stored.key <= high.key;
				   })
			   << first;
	return set & ((UINT32_C(1) << (count < slots ? count : slots)) - 1);
}

/* The slots in use among a set. */
HD_BOTH uint32_t
slots_in_use(const char *block, int slots, uint32_t set)
{
	int count = ((const uint8_t *) block)[HT_LEAF_BLOCK_COUNT_AT];

	return set & ((UINT32_C(1) << (count < slots ? count : slots)) - 1);
}

/*
 * Some keys of a block, loaded at once.  What is loaded beyond the last key must be masked out.
 */
template <typename Stored> struct alignas(16) LaneVector
{
	static constexpr int size = 16 / sizeof(Stored);
	static constexpr int vectors = (Layout<Stored>::max_slots + size - 1) / size; /* of a block */
	static_assert(vectors * size <= 32 && vectors * 16 <= HT_LEAF_BLOCK_SIZE, "a set of keys");
	Stored keys[size];
};

/* Find the slots of a block that have a key, with a single thread. */
template <typename Stored>
HD_BOTH uint32_t
find_equal_slots(const char *block, int slots, Stored key)
{
	using Vector = LaneVector<Stored>;
	uint32_t set = 0;

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
	for (int i = 0; i < Vector::vectors; i++)
	{
		Vector some = ((const Vector *) block)[i];

		for (int j = 0; j < Vector::size; j++)
			set |= some.keys[j] == key ? UINT32_C(1) << (i * Vector::size + j) : 0;
	}
	return slots_in_use(block, slots, set);
}

/*
 * The same in a leaf of a wide class: first words are compared, and then the keys that have the
 * first word.
 */
template <int Bits>
HD_BOTH uint32_t
find_equal_slots(const char *block, int slots, PlanedKey<Bits> key)
{
	struct alignas(16) Vector
	{
		uint64_t words[2];
	};
	constexpr int most = Layout<PlanedKey<Bits>>::max_slots;
	int count = ((const uint8_t *) block)[HT_WIDE_BLOCK_COUNT_AT];
	uint32_t set = 0;

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
	for (int i = 0; i < (most + 1) / 2; i++)
	{
		Vector some = ((const Vector *) block)[i];

		set |= (uint32_t) (some.words[0] == key.first_word()) << 2 * i |
			   (uint32_t) (some.words[1] == key.first_word()) << (2 * i + 1);
	}
	set &= (UINT32_C(1) << (count < slots ? count : slots)) - 1;
	if (Bits > 64)
	{
		for (uint32_t rest = set; rest != 0; rest &= rest - 1)
		{
			int slot = lowest_bit(rest);

			if (!(PlanedKey<Bits>::load(block, slots, slot).key == key.key))
				set &= ~(UINT32_C(1) << slot);
		}
	}
	return set;
}

/* Find the slots of a block whose keys are in low..high. */
template <typename Group, typename Stored>
HD_BOTH uint32_t
find_slots(const Group &group, const char *block, int slots, Stored low, Stored high)
{
	Stored span = (Stored) (high - low);
	constexpr int most = Layout<Stored>::max_slots;
	uint32_t set = 0;

	if (Group::threads == 1)
	{
		using Vector = LaneVector<Stored>;

#ifdef __CUDA_ARCH__
#pragma unroll
#endif
		for (int i = 0; i < Vector::vectors; i++)
		{
			Vector some = ((const Vector *) block)[i];

			for (int j = 0; j < Vector::size; j++)
				set |= (uint32_t) ((Stored) (some.keys[j] - low) <= span) << (i * Vector::size + j);
		}
	}
	else
	{
		for (int first = 0; first < most; first += Group::threads)
			set |= group.vote(
					   [&](int thread)
					   {
						   int i = first + thread;

						   return i < most && (Stored) (((const Stored *) block)[i] - low) <= span;
					   })
				   << first;
	}
	return slots_in_use(block, slots, set);
}

/* A tid of some bytes, in two words; "before" bits are in front of it. */
HD_BOTH uint64_t
tid_of_words(uint32_t first, uint32_t second, int before, int tid_bytes)
{
	uint64_t words = ((uint64_t) second << 32 | first) >> before;
	uint32_t low = (uint32_t) words;
	uint32_t high = (uint32_t) (words >> 32) & ((UINT32_C(1) << (8 * tid_bytes - 32)) - 1);

	if (tid_bytes == HT_TID_BYTES)
		return (uint64_t) high << 32 | low;
	return (uint64_t) (high << 7 | low >> 25) << 32 | (low << 7 & UINT32_C(0xFFFF0000)) |
		   (low & 511);
}

/*
 * Load the tid in a slot; tids begin tids_at bytes after the block does.  Two aligned words
 * cover it and do not reach beyond the block.
 */
HD_BOTH uint64_t
load_tid(const char *block, int tids_at, int tid_bytes, int slot)
{
	int offset = tids_at + slot * tid_bytes;
	const uint32_t *at = (const uint32_t *) (block + (offset & ~3));

	return tid_of_words(at[0], at[1], (offset & 3) * 8, tid_bytes);
}

/* The key in a slot of a block, as a distance from what is added. */
template <typename Key, typename Stored>
HD_BOTH Key
stored_distance(const char *block, int, int slot, Stored)
{
	return Key(((const Stored *) block)[slot]);
}

template <typename Key, int Bits>
HD_BOTH Key
stored_distance(const char *block, int slots, int slot, PlanedKey<Bits>)
{
	return Key(PlanedKey<Bits>::load(block, slots, slot).key);
}

template <typename Key>
HD_BOTH Key
stored_distance(const char *, int, int, NoKey)
{
	return Key(0);
}

/* Load the key in a slot of a block of a leaf with this shape. */
template <typename Key>
HD_BOTH Key
load_key(const Shape<Key> &shape, const char *block, int slot)
{
	return with_stored<Key>(
		shape,
		[&](auto type)
		{
			using Stored = decltype(type);

			return (Key) (stored_base<Stored>(shape) +
						  stored_distance<Key>(block, slots_of<Stored>(shape), slot, type));
		});
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_LEAF_PAGE_H */
