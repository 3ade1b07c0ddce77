/*
 * regular.h
 *		What the papers start from: a regular B+tree, in the device's memory.
 */
#ifndef HARMONIA_BENCH_REGULAR_H
#define HARMONIA_BENCH_REGULAR_H

#include "workload.h"

constexpr int regular_fanout = HD_DEFAULT_FANOUT;

/*
 * A regular B+tree: a node has its keys, and a pointer to each child, or the tids, beside
 * them.  Key i of an inner node is the largest below child i; unused keys are at their
 * maximum.
 */
template <typename Key>
struct Node
{
	Key			keys[regular_fanout];
	union
	{
		const Node *children[regular_fanout];
		uint64_t	tids[regular_fanout];
	};
	uint32_t	count;
};

template <typename Key>
struct RegularTree
{
	const Node<Key> *root;
	int			levels;			/* inner ones */

	/* A key's tid, 0 if it is not there: from node to node by their pointers. */
	template <typename Group>
	HD_BOTH uint64_t find(const Group &group, Key key) const
	{
		const Node<Key> *node = root;
		uint32_t	place;

		for (int level = 0; level < levels; level++)
			node = node->children[count_below(group, node, key)];
		place = (uint32_t) count_below(group, node, key);
		return place < node->count && node->keys[place] == key ? node->tids[place] : 0;
	}

private:
	/* Groups compare keys front to back; single threads do binary search. */
	template <typename Group>
	HD_BOTH static int count_below(const Group &group, const Node<Key> *node, Key key)
	{
		if constexpr (Group::threads == 1)
			return harmonia::find_child<0>(group, node->keys, regular_fanout + 1, key);
		else
			return harmonia::find_child_linear(group, node->keys, regular_fanout + 1, key);
	}
};

/* Build it level by level, leaves as full as ours, and copy it to the device. */
template <typename Key>
class RegularCopy
{
public:
	RegularTree<Key> tree;

	explicit	RegularCopy(const Entries<Key> &entries) : nodes(count_nodes(entries.keys.size()))
	{
		std::vector<Node<Key>> built(nodes.count);
		uint64_t	start = 0;	/* of the level */
		uint64_t	length = (entries.keys.size() + leaf_fill - 1) / leaf_fill;

		on_all_cpus((uint32_t) length, [&](uint32_t n)
					{
						uint64_t	first = (uint64_t) n * leaf_fill;
						uint64_t	count = std::min((uint64_t) leaf_fill, entries.keys.size() - first);

						clear(built[n], (uint32_t) count);
						for (uint64_t i = 0; i < count; i++)
						{
							built[n].keys[i] = entries.keys[first + i];
							built[n].tids[i] = tid_of(first + i);
						}
					});

		/* The largest key below each node of the level last built. */
		std::vector<Key> largest(length);

		for (uint64_t n = 0; n < length; n++)
			largest[n] = built[n].keys[built[n].count - 1];
		for (tree.levels = 0; length > 1; tree.levels++)
		{
			uint64_t	above = (length + regular_fanout - 1) / regular_fanout;

			for (uint64_t n = 0; n < above; n++)
			{
				Node<Key>  &node = built[start + length + n];
				uint64_t	first = n * regular_fanout;

				clear(node, (uint32_t) std::min((uint64_t) regular_fanout, length - first));
				for (uint32_t i = 0; i < node.count; i++)
				{
					node.children[i] = nodes.at + start + first + i;
					node.keys[i] = largest[first + i];
				}
				largest[n] = largest[first + node.count - 1];
			}
			start += length;
			length = above;
		}
		tree.root = nodes.at + start;
		nodes.copy_from(built.data(), built.size());
	}

private:
	static constexpr uint32_t leaf_fill = regular_fanout * 8 / 9;
	Array<Node<Key>> nodes;

	static void clear(Node<Key> &node, uint32_t count)
	{
		memset(&node, 0, sizeof(node));
		memset(node.keys, 0xFF, sizeof(node.keys));
		node.count = count;
	}
	static uint64_t count_nodes(uint64_t entries)
	{
		uint64_t	length = (entries + leaf_fill - 1) / leaf_fill;
		uint64_t	all = length;

		while (length > 1)
		{
			length = (length + regular_fanout - 1) / regular_fanout;
			all += length;
		}
		return all;
	}
};

#endif							/* HARMONIA_BENCH_REGULAR_H */
