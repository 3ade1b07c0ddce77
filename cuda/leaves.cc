/*
 * leaves.cc
 *		The list of an index's leaves, and the inner levels over it.
 *
 * The bottom level of the key region is the list of low keys itself: key i is that of leaf
 * i + 1.  So the list is kept there; the TIDs of low bounds and the blocks are beside it.
 */
#include "device_base.h"

#include <algorithm>
#include <cstring>

using namespace harmonia;

namespace
{

/* A low bound. */
template <typename Key> struct Bound
{
	Key key;
	uint64_t tid;

	bool operator<(const Bound &other) const
	{
		return key < other.key || (key == other.key && tid < other.tid);
	}
};

/* What a list has from leaf "first" on. */
template <typename Key> struct Tail
{
	uint32_t first = 0;
	std::vector<Key> keys;
	std::vector<uint64_t> tids;
	std::vector<uint32_t> blocks;

	void reserve(size_t count)
	{
		keys.reserve(count);
		tids.reserve(count);
		blocks.reserve(count);
	}
	void add(const Bound<Key> &low, uint32_t block)
	{
		keys.push_back(low.key);
		tids.push_back(low.tid);
		blocks.push_back(block);
	}
};

/* The number of keys in the region before those of the bottom level. */
size_t
bottom_start(const HtShape &shape)
{
	return shape.levels == 0 ? 0 :
							   (size_t) shape.level_start[shape.levels - 1] * (size_t) shape.fanout;
}

int
bit_length(uint64_t value)
{
	return value == 0 ? 0 : 64 - __builtin_clzll(value);
}

/* Make room for this many items, and for some more if they move. */
template <typename Item>
void
make_room(std::vector<Item> &items, size_t count)
{
	if (count > items.capacity())
		items.reserve(items.empty() ? count : count + count / 8);
}

/*
 * Build the levels above the bottom one.  The last key of a node is followed by the first key
 * of the next node of the level, so key i of a level is the low key of leaf (i + 1) * (number
 * of leaves below a node of the next level).
 */
template <typename Key>
void
build_upper_levels(const HtShape &shape, Key *keys)
{
	const Key *bottom = keys + bottom_start(shape);
	uint64_t below = 1;

	for (int level = shape.levels - 2; level >= 0; level--)
	{
		Key *at = keys + (size_t) shape.level_start[level] * (size_t) shape.fanout;
		Key *end = keys + (size_t) shape.level_start[level + 1] * (size_t) shape.fanout;

		below *= (uint64_t) shape.fanout;
		for (uint64_t leaf = below; leaf < shape.leaves; leaf += below)
			*at++ = bottom[leaf - 1];
		memset((void *) at, 0xFF, (size_t) (end - at) * sizeof(Key));
	}
}

/*
 * Replace the list from tail.first on.  Everything before it stays, and need not go to the
 * device again unless the bottom level has moved in the key region.  May throw bad_alloc; then
 * the list is as it was.
 */
template <typename Key>
HdStatus
replace_tail(HdIndex *index, const Tail<Key> &tail)
{
	uint32_t count = tail.first + (uint32_t) tail.keys.size();
	uint32_t from = std::max(tail.first, (uint32_t) 1);
	HtShape shape;
	size_t start;
	size_t size;
	bool moves;
	Key *bottom;

	ht_shape_init(&shape, index->shape.width, index->shape.fanout, count);
	start = bottom_start(shape);
	size = (size_t) shape.nodes * (size_t) shape.fanout * sizeof(Key);
	moves = start != bottom_start(index->shape);
	make_room(index->low_tids, count);
	make_room(index->leaf_blocks, count);
	if (moves)
	{
		std::vector<char> keys;
		const Key *old = (const Key *) index->keys.data() + bottom_start(index->shape);

		keys.reserve(size + size / 8);
		keys.resize(size);
		if (tail.first > 1)
			memcpy((void *) ((Key *) keys.data() + start), old,
				   (size_t) (tail.first - 1) * sizeof(Key));
		index->keys.swap(keys);
	}
	else
	{
		make_room(index->keys, size);
		index->keys.resize(size);
	}

	/* Nothing fails from here on. */
	bottom = (Key *) index->keys.data() + start;
	if (count > from)
		memcpy((void *) (bottom + from - 1), tail.keys.data() + (from - tail.first),
			   (count - from) * sizeof(Key));
	if (shape.levels > 0)
		memset((void *) (bottom + count - 1), 0xFF, size - (start + count - 1) * sizeof(Key));
	build_upper_levels(shape, (Key *) index->keys.data());
	index->low_tids.resize(tail.first);
	index->low_tids.insert(index->low_tids.end(), tail.tids.begin(), tail.tids.end());
	index->leaf_blocks.resize(tail.first);
	index->leaf_blocks.insert(index->leaf_blocks.end(), tail.blocks.begin(), tail.blocks.end());

	index->shape = shape;
	index->low_key = AnyKey(count > 1 ? bottom[0] : Key(0));
	index->high_key = AnyKey(count > 1 ? bottom[count - 2] : Key(0));
	index->device->enter();
	return index->load_levels(moves ? 0 : tail.first);
}

/* Can an index have this many leaves? */
HdStatus
check_count(HdIndex *index, uint64_t count)
{
	if (count > HD_MAX_LEAVES)
		return index->device->fail(HD_NO_MEMORY, "%llu leaves are too many",
								   (unsigned long long) count);
	return HD_OK;
}

HdStatus
check_block(HdIndex *index, uint32_t i, uint32_t block)
{
	if (block >= index->reserved)
		return index->device->fail(HD_INVALID,
								   "leaf %u is at block %u, beyond the %u reserved blocks", i,
								   block, index->reserved);
	return HD_OK;
}

/*
 * Set the whole list.  low(i) gives the low bound of leaf i, with a key that may be wider than
 * the index's; block(i) its block.
 */
template <typename Key, typename Low, typename Block>
HdStatus
set_leaves(HdIndex *index, uint32_t count, Low low, Block block)
{
	HdStatus status = check_count(index, count);

	for (uint32_t i = 0; i < count && status == HD_OK; i++)
	{
		status = check_block(index, i, block(i));
		if (status == HD_OK && i > 1 && low(i) < low(i - 1))
			status = index->device->fail(
				HD_INVALID, "low bound of leaf %u is below that of the leaf before", i);
		if (status == HD_OK && i > 0 && bit_length(low(i).key) > 8 * (int) sizeof(Key))
			status = index->device->fail(HD_INVALID,
										 "low bound of leaf %u is too wide for the index", i);
	}
	if (status != HD_OK)
		return status;

	try
	{
		Tail<Key> all;

		all.reserve(count);
		for (uint32_t i = 0; i < count; i++)
			all.add({(Key) low(i).key, low(i).tid}, block(i));
		return replace_tail(index, all);
	}
	catch (const std::bad_alloc &)
	{
		return index->device->fail(HD_NO_MEMORY, "out of memory");
	}
}

/* The list that an index has. */
template <typename Key> class List
{
  public:
	explicit List(const HdIndex *index)
		: keys((const Key *) index->keys.data() + bottom_start(index->shape)),
		  tids(index->low_tids.data()), blocks(index->leaf_blocks.data()),
		  count((uint32_t) index->leaf_blocks.size())
	{
	}

	/* The first leaf, from number "from" on, whose low bound is not below this. */
	uint32_t find(uint32_t from, const Bound<Key> &bound) const
	{
		uint32_t end = count;

		while (from < end)
		{
			uint32_t middle = from + (end - from) / 2;

			if (low(middle) < bound)
				from = middle + 1;
			else
				end = middle;
		}
		return from;
	}

	/* Append some leaves to a tail. */
	void copy(uint32_t from, uint32_t to, Tail<Key> *tail) const
	{
		for (; from < to && from == 0; from++)
			tail->add(low(0), blocks[0]);
		if (from >= to)
			return;
		tail->keys.insert(tail->keys.end(), keys + from - 1, keys + to - 1);
		tail->tids.insert(tail->tids.end(), tids + from, tids + to);
		tail->blocks.insert(tail->blocks.end(), blocks + from, blocks + to);
	}

	uint32_t length() const
	{
		return count;
	}

  private:
	const Key *keys;
	const uint64_t *tids;
	const uint32_t *blocks;
	uint32_t count;

	/* That of the first leaf is the least one. */
	Bound<Key> low(uint32_t leaf) const
	{
		if (leaf == 0)
			return {Key(0), 0};
		return {keys[leaf - 1], tids[leaf]};
	}
};

/* A new leaf, with keys as they come. */
template <typename Key> struct NewLeaf
{
	Bound<Key> low;
	Bound<Key> high;
	uint32_t block;
	bool last;
};

/*
 * Check new leaves: in order, none inside another, all keys of the index's width.  leaf(i) gives a
 * NewLeaf, with keys that may be wider than the index's.
 */
template <typename Leaf>
HdStatus
check_new_leaves(HdIndex *index, uint32_t count, Leaf leaf)
{
	for (uint32_t i = 0; i < count; i++)
	{
		auto one = leaf(i);
		HdStatus status = check_block(index, i, one.block);

		if (status != HD_OK)
			return status;
		if (bit_length(one.low.key) > 8 * (int) index->shape.width ||
			(!one.last && bit_length(one.high.key) > 8 * (int) index->shape.width))
			return index->device->fail(HD_INVALID,
									   "a bound of new leaf %u is too wide for the index", i);
		if ((!one.last && !(one.low < one.high)) || (one.last && i + 1 < count) ||
			(!one.last && i + 1 < count && leaf(i + 1).low < one.high))
			return index->device->fail(HD_INVALID, "new leaf %u is not in order", i);
	}
	return HD_OK;
}

/* Put new leaves in place of those that begin where they are. */
template <typename Key, typename Leaf>
HdStatus
replace_leaves(HdIndex *index, uint32_t count, Leaf leaf)
{
	List<Key> old(index);
	Tail<Key> tail;
	uint64_t total;
	uint32_t at;
	HdStatus status;

	tail.first = at = old.find(0, {(Key) leaf(0).low.key, leaf(0).low.tid});
	tail.reserve((size_t) (old.length() - at) + count);
	for (uint32_t i = 0; i < count; i++)
	{
		auto one = leaf(i);
		Bound<Key> low = {(Key) one.low.key, one.low.tid};
		uint32_t end = old.find(at, low);

		old.copy(at, end, &tail);
		tail.add(low, one.block);
		at = one.last ? old.length() : old.find(end, {(Key) one.high.key, one.high.tid});
	}
	old.copy(at, old.length(), &tail);

	total = (uint64_t) tail.first + tail.keys.size();
	status = check_count(index, total);
	if (status == HD_OK && total > index->reserved)
		status = index->device->fail(HD_INVALID, "there must not be more leaves than blocks");
	return status == HD_OK ? replace_tail(index, tail) : status;
}

/* The same for leaves that have not been checked. */
template <typename Key, typename Leaf>
HdStatus
add_leaves(HdIndex *index, uint32_t count, Leaf leaf)
{
	HdStatus status = check_new_leaves(index, count, leaf);

	if (status != HD_OK || count == 0)
		return status;
	try
	{
		return replace_leaves<Key>(index, count, leaf);
	}
	catch (const std::bad_alloc &)
	{
		return index->device->fail(HD_NO_MEMORY, "out of memory");
	}
}

/* A wide bound. */
Bound<AnyKey>
wide_bound(const uint64_t *key, uint64_t tid)
{
	Bound<AnyKey> bound;

	std::copy(key, key + 2, bound.key.words);
	bound.tid = tid;
	return bound;
}

} /* namespace */

HdStatus
hd_index_set_leaves(HdIndex *index, const HdLeaf *leaves, uint32_t count)
{
	auto low = [=](uint32_t i) { return Bound<uint64_t>{leaves[i].low.key, leaves[i].low.tid}; };
	auto block = [=](uint32_t i) { return leaves[i].block; };

	if (index->shape.width == HT_WIDTH32)
		return set_leaves<uint32_t>(index, count, low, block);
	if (index->shape.width == HT_WIDTH64)
		return set_leaves<uint64_t>(index, count, low, block);
	return index->device->fail(HD_INVALID, "the index has wide keys");
}

HdStatus
hd_index_set_wide_leaves(HdIndex *index, const HdWideLeaf *leaves, uint32_t count)
{
	auto low = [=](uint32_t i) { return wide_bound(leaves[i].low_key, leaves[i].low_tid); };
	auto block = [=](uint32_t i) { return leaves[i].block; };

	if (index->shape.width == HT_WIDTH128)
		return set_leaves<Wide>(index, count, low, block);
	return index->device->fail(HD_INVALID, "the index has no wide keys");
}

HdStatus
hd_index_add_leaves(HdIndex *index, const HdNewLeaf *leaves, uint32_t count)
{
	auto leaf = [=](uint32_t i)
	{
		const HdNewLeaf &one = leaves[i];

		return NewLeaf<uint64_t>{
			{one.low.key, one.low.tid}, {one.high.key, one.high.tid}, one.block, one.is_last != 0};
	};

	if (index->shape.width == HT_WIDTH32)
		return add_leaves<uint32_t>(index, count, leaf);
	if (index->shape.width == HT_WIDTH64)
		return add_leaves<uint64_t>(index, count, leaf);
	return index->device->fail(HD_INVALID, "the index has wide keys");
}

HdStatus
hd_index_add_wide_leaves(HdIndex *index, const HdWideNewLeaf *leaves, uint32_t count)
{
	auto leaf = [=](uint32_t i)
	{
		const HdWideNewLeaf &one = leaves[i];

		return NewLeaf<AnyKey>{wide_bound(one.low_key, one.low_tid),
							   wide_bound(one.high_key, one.high_tid), one.block, one.is_last != 0};
	};

	if (index->shape.width == HT_WIDTH128)
		return add_leaves<Wide>(index, count, leaf);
	return index->device->fail(HD_INVALID, "the index has no wide keys");
}
