/*
 * test_inner.c
 *		Shapes, compared with a breadth-first walk, and inner nodes, compared with
 *		a linear scan.
 */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------
 *		Shapes
 * ----------------------------------------------------------------
 */

/* Check the sizes of levels for any number of leaves. */
static void
expect_levels(const HtShape *shape)
{
	uint32_t below = shape->leaves;

	expect(shape->levels <= HT_MAX_LEVELS, "%d levels", shape->levels);
	expect((shape->levels == 0) == (shape->leaves == 1), "%u leaves in %d levels", shape->leaves,
		   shape->levels);
	expect(shape->level_start[0] == 0 && shape->level_start[shape->levels] == shape->nodes,
		   "levels start at %u and end at %u", shape->level_start[0],
		   shape->level_start[shape->levels]);
	if (failed())
		return;

	for (int level = shape->levels - 1; level >= 0; level--)
	{
		uint32_t size = shape->level_start[level + 1] - shape->level_start[level];

		/* Enough nodes for the level below, and not one too many. */
		expect((uint64_t) size * shape->fanout >= below &&
				   (uint64_t) (size - 1) * shape->fanout < below,
			   "level %d: %u nodes for %u", level, size, below);
		below = size;
	}
	expect(below == 1, "%u roots", below);
	expect(ht_shape_bottom_nodes(shape) ==
			   (shape->levels == 0 ? 0 : (shape->leaves - 1) / shape->fanout + 1),
		   "%u bottom nodes", ht_shape_bottom_nodes(shape));
}

/*
 * Give each node its children in breadth-first order and descend to each leaf
 * by Equation 1.
 */
static void
expect_equation_1(const HtShape *shape)
{
	uint32_t *prefix_sum = allocate((shape->nodes + 1) * sizeof(uint32_t));
	uint32_t next_child = 1;

	for (int level = 0; level < shape->levels; level++)
	{
		uint32_t end = level + 1 < shape->levels ? shape->level_start[level + 2] :
												   shape->nodes + shape->leaves;

		for (uint32_t node = shape->level_start[level]; node < shape->level_start[level + 1];
			 node++)
		{
			prefix_sum[node] = next_child;
			next_child += end - next_child < (uint32_t) shape->fanout ? end - next_child :
																		(uint32_t) shape->fanout;
		}
		expect(next_child == end, "level %d has %u children, not %u", level, next_child, end);
	}

	for (uint32_t leaf = 0; leaf < shape->leaves && !failed(); leaf++)
	{
		uint32_t node = 0;
		uint64_t reach = 1; /* leaves below a child */

		for (int level = 1; level < shape->levels; level++)
			reach *= shape->fanout;
		for (int level = 0; level < shape->levels; level++)
		{
			expect(node >= shape->level_start[level] && node < shape->level_start[level + 1],
				   "leaf %u: node %u is not of level %d", leaf, node, level);
			node = prefix_sum[node] + (uint32_t) (leaf / reach % shape->fanout);
			reach /= shape->fanout;
		}
		expect(node == shape->nodes + leaf, "leaf %u is found at %u", leaf, node);
	}
	free(prefix_sum);
}

static void
try_shape(int fanout, uint64_t leaves)
{
	HtWidth width = rnd_below(2) ? HT_WIDTH32 : HT_WIDTH64;
	HtShape shape;

	if (leaves < 1 || leaves > UINT32_MAX)
		return;
	memset(&shape, 0x55, sizeof(shape));
	ht_shape_init(&shape, width, fanout, (uint32_t) leaves);
	expect(shape.width == width && shape.fanout == fanout && shape.leaves == leaves,
		   "shape is not the one asked for");
	expect_levels(&shape);
	if (leaves < 3000 && !failed())
		expect_equation_1(&shape);
}

void
test_shape(void)
{
	for (int fanout = HT_MIN_FANOUT; fanout <= HT_MAX_FANOUT; fanout++)
	{
		for (uint64_t full = 1; full <= UINT32_MAX; full *= fanout)
		{
			try_shape(fanout, full - 1);
			try_shape(fanout, full);
			try_shape(fanout, full + 1);
		}
		try_shape(fanout, UINT32_MAX);
		for (int i = 0; i < 20; i++)
		{
			try_shape(fanout, rnd() >> (32 + rnd_below(32)));
			try_shape(fanout, 1 + rnd_below(3000));
		}
	}
	report("shapes of every fanout");
}

/* ----------------------------------------------------------------
 *		Nodes
 * ----------------------------------------------------------------
 */

/* A key of many, of few, or an extreme one. */
static uint64_t
node_key(HtWidth width, int kind)
{
	uint64_t max = ht_key_max(width);

	switch (kind)
	{
		case 0:
			return rnd() & max;
		case 1:
			return 100 + rnd_below(5);
		case 2:
			return 7;
		default:
			return (const uint64_t[]){0, 1, max - 1, max}[rnd_below(4)];
	}
}

static uint64_t
node_tid(void)
{
	switch (rnd_below(4))
	{
		case 0:
			return 0;
		case 1:
			return HT_TID_MAX;
		case 2:
			return 1 + rnd_below(5);
		default:
			return rnd_tid();
	}
}

static void
try_node(HtWidth width, int fanout, int kind, int used)
{
	size_t size = ht_node_size(width, fanout);
	char *allocation = allocate(size + 8);
	char *node = allocation + 8; /* aligned to 8 bytes, not to 16 */
	HtEntry separators[HT_MAX_FANOUT - 1];

	expect(size % 64 == 0 && size >= (size_t) (fanout - 1) * (width + HT_TID_BYTES), "%zu bytes",
		   size);

	for (int i = 0; i < used; i++)
	{
		separators[i].key = node_key(width, kind);
		separators[i].tid = node_tid();
	}
	qsort(separators, used, sizeof(HtEntry), compare_entries);
	for (int i = used; i < fanout - 1; i++)
	{
		separators[i].key = ht_key_max(width);
		separators[i].tid = HT_TID_MAX;
	}

	memset(node, 0x55, size);
	ht_node_init(node, width, fanout);
	for (int i = 0; i < fanout - 1; i++)
	{
		HtEntry unused = ht_node_get(node, width, fanout, i);

		expect(unused.key == ht_key_max(width) && unused.tid == HT_TID_MAX,
			   "separator %d is used in a new node", i);
	}

	for (int i = used - 1; i >= 0; i--)
		ht_node_set(node, width, fanout, i, separators[i]);
	for (int i = 0; i < fanout - 1; i++)
		expect(ht_node_get(node, width, fanout, i).key == separators[i].key &&
				   ht_node_get(node, width, fanout, i).tid == separators[i].tid,
			   "separator %d is not what was set", i);

	for (int probe = 0; probe < 50 && !failed(); probe++)
	{
		HtEntry entry = {node_key(width, kind), node_tid()};
		int le = 0;
		int lt = 0;

		if (rnd_below(2))
			entry = separators[rnd_below(fanout - 1)];
		for (int i = 0; i < fanout - 1; i++)
		{
			le += ht_entry_cmp(separators[i], entry) <= 0;
			lt += ht_entry_cmp(separators[i], entry) < 0;
		}
		expect(ht_node_count_le(node, width, fanout, entry) == le, "count <= is not %d", le);
		expect(ht_node_count_lt(node, width, fanout, entry) == lt, "count < is not %d", lt);
	}
	free(allocation);
}

void
test_node(HtWidth width)
{
	for (int fanout = HT_MIN_FANOUT; fanout <= HT_MAX_FANOUT; fanout++)
		for (int kind = 0; kind < 4; kind++)
		{
			try_node(width, fanout, kind, 0);
			try_node(width, fanout, kind, fanout - 1);
			for (int i = 0; i < 10; i++)
				try_node(width, fanout, kind, rnd_below(fanout));
		}
	report("%d-bit inner nodes of every fanout", width_bits(width));
}
