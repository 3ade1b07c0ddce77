/*
 * steps.cu
 *		The papers' optimisations in turn, from a regular B+tree on.
 */
#include "lookups.h"

static constexpr int fanout = HD_DEFAULT_FANOUT;

/* A group for each node's width, as far as a warp goes. */
static constexpr int wide_group = 32;

/*
 * A regular B+tree: a node has its keys, and a pointer to each child, or the tids, beside
 * them.  Key i of an inner node is the largest below child i; unused keys are at their
 * maximum.
 */
template <typename Key>
struct Node
{
	Key			keys[fanout];
	union
	{
		const Node *children[fanout];
		uint64_t	tids[fanout];
	};
	uint32_t	count;
};

template <typename Key>
struct RegularTree
{
	const Node<Key> *root;
	int			levels;			/* inner ones */
};

/* Find a query's tid, 0 if there is none: from node to node by their pointers. */
template <typename Key>
struct SearchRegular
{
	RegularTree<Key> tree;
	const Key  *low;
	uint64_t   *tids;

	template <typename Group>
	HD_BOTH void operator()(const Group &group, uint64_t i) const
	{
		Key			key = low[i];
		const Node<Key> *node = tree.root;
		int			place;

		for (int level = 0; level < tree.levels; level++)
			node = node->children[harmonia::find_child_linear(group, node->keys, fanout, key)];
		place = harmonia::find_child_linear(group, node->keys, fanout, key);
		if (leads(group))
			tids[i] = (uint32_t) place < node->count && node->keys[place] == key ? node->tids[place] : 0;
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
			uint64_t	above = (length + fanout - 1) / fanout;

			for (uint64_t n = 0; n < above; n++)
			{
				Node<Key>  &node = built[start + length + n];
				uint64_t	first = n * fanout;

				clear(node, (uint32_t) std::min((uint64_t) fanout, length - first));
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
	static constexpr uint32_t leaf_fill = fanout * 8 / 9;
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
			length = (length + fanout - 1) / fanout;
			all += length;
		}
		return all;
	}
};

/* Milliseconds of all queries in a regular tree. */
template <typename Key>
static Times
measure_regular(const RegularTree<Key> &tree, Lookups<Key> &lookups)
{
	std::vector<double> times;
	Times		result = {};

	for (int run = 0; run <= options.runs; run++)
	{
		double		ms;

		lookups.spoil_results();
		ms = device_ms([&]()
					   {
						   SearchRegular<Key> search = {tree, lookups.low(), lookups.buffers.tids.at};

						   for_each_group<wide_group>(lookups.queries, search);
					   });
		if (run > 0)
			times.push_back(ms);
	}
	lookups.check_results(HD_FIRST, 0);
	result.all = result.search = median(times);
	return result;
}

/*
 * Results go to probe order at each step, as they do in a regular tree.  The last one is
 * not in the papers.
 */
template <typename Key>
void
bench_steps(const Entries<Key> &entries, Buffers &buffers)
{
	Copy		copy(entries, fanout);
	RegularCopy<Key> regular(entries);
	Lookups<Key> lookups(entries, buffers);
	std::string what = std::to_string(entries.keys.size());

	for (Draw draw : all_draws)
	{
		std::string section = text("steps %s %s", width_name<Key>().c_str(), draw_name(draw));
		HdResult	unsorted = {0, 0, {HT_GROUP_LINEAR, wide_group, 0}, 0, 0, 0};
		HtGroupChoice choice;
		Times		times;

		lookups.prepare(options.queries, draw);
		model_steps(lookups, fanout, HT_GROUP_LINEAR, &choice);

		times = measure_regular(regular.tree, lookups);
		put_row(section, what, "regular B+tree", lookups.queries / times.all / 1e6, "billion/s",
				options.runs, lookups.details(HD_FIRST, fanout, unsorted, times));
		lookups.report(section, what, "+ Harmonia layout", copy.index, fanout, HD_FIRST,
					   {HD_UNSORTED, wide_group, HT_GROUP_LINEAR});
		lookups.report(section, what, "+ PSA", copy.index, fanout, HD_FIRST,
					   {HD_AUTOMATIC, wide_group, HT_GROUP_LINEAR});
		lookups.report(section, what, "+ NTG", copy.index, fanout, HD_FIRST,
					   {HD_AUTOMATIC, choice.threads, HT_GROUP_LINEAR});
		lookups.report(section, what, "+ binary search in tiles", copy.index, fanout, HD_FIRST);
	}
}

template void bench_steps(const Entries<uint32_t> &, Buffers &);
template void bench_steps(const Entries<uint64_t> &, Buffers &);
