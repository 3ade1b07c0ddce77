/*
 * regular.h
 *		The starting point of the papers: a regular B+tree, in device memory.
 */
#ifndef HARMONIA_BENCH_REGULAR_H
#define HARMONIA_BENCH_REGULAR_H

#include "workload.h"

constexpr int regular_fanout = HD_DEFAULT_FANOUT;

/*
 * A regular B+tree.  A node has its keys and, for each key, the pointer to a child or a
 * tid.  Key i of an inner node is the largest key below child i; unused keys have the
 * maximum value.
 */
template <typename Key> struct Node
{
	Key keys[regular_fanout];
	union
	{
		const Node *children[regular_fanout];
		uint64_t tids[regular_fanout];
	};
	uint32_t count;
};

template <typename Key> struct RegularTree
{
	const Node<Key> *root;
	int levels; /* inner levels */

	/* Find a key's tid, or 0, following the pointers from node to node. */
	template <typename Group> HD_BOTH uint64_t find(const Group &group, Key key) const
	{
		const Node<Key> *node = root;
		uint32_t slot;

		for (int level = 0; level < levels; level++)
			node = node->children[count_below(group, node, key)];
		slot = (uint32_t) count_below(group, node, key);
		return slot < node->count && node->keys[slot] == key ? node->tids[slot] : 0;
	}

  private:
	/* Groups compare keys front to back; single threads do binary search. */
	template <typename Group>
	HD_BOTH static int count_below(const Group &group, const Node<Key> *node, Key key)
	{
		if constexpr (Group::threads == 1)
			return harmonia::find_child<0>(group, node->keys, regular_fanout + 1, key);
		else
		{
			for (int first = 0;; first += Group::threads)
			{
				int n = harmonia::count_bits(group.vote(
					[&](int thread)
					{
						int i = first + thread;

						return i < regular_fanout && node->keys[i] < key;
					}));

				if (n < Group::threads)
					return first + n;
			}
		}
	}
};

/*
 * Builds the tree level by level, with leaves as full as ours, and copies it to the
 * device.
 */
template <typename Key> class RegularCopy
{
  public:
	RegularTree<Key> tree;

	explicit RegularCopy(const Entries<Key> &entries) : nodes(count_nodes(entries.keys.size()))
	{
		std::vector<Node<Key>> built(nodes.count);
		uint64_t start = 0; /* first node of the level */
		uint64_t length = (entries.keys.size() + leaf_fill - 1) / leaf_fill;

		on_all_cpus((uint32_t) length,
					[&](uint32_t n)
					{
						uint64_t first = (uint64_t) n * leaf_fill;
						uint64_t count =
							std::min((uint64_t) leaf_fill, entries.keys.size() - first);

						clear(built[n], (uint32_t) count);
						for (uint64_t i = 0; i < count; i++)
						{
							built[n].keys[i] = entries.keys[first + i];
							built[n].tids[i] = tid_of(first + i);
						}
					});

		/* The largest key below each node of the level that was built last. */
		std::vector<Key> largest(length);

		for (uint64_t n = 0; n < length; n++)
			largest[n] = built[n].keys[built[n].count - 1];
		for (tree.levels = 0; length > 1; tree.levels++)
		{
			uint64_t above = (length + regular_fanout - 1) / regular_fanout;

			for (uint64_t n = 0; n < above; n++)
			{
				Node<Key> &node = built[start + length + n];
				uint64_t first = n * regular_fanout;

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
		uint64_t length = (entries + leaf_fill - 1) / leaf_fill;
		uint64_t all = length;

		while (length > 1)
		{
			length = (length + regular_fanout - 1) / regular_fanout;
			all += length;
		}
		return all;
	}
};

#endif /* HARMONIA_BENCH_REGULAR_H */
