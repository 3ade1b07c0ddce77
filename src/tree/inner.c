/*
 * inner.c
 *		Inner nodes and the shape of a segment.
 */
#include "tree.h"
#include "wide.h"

#include <string.h>

#define NODE_ALIGN 64

/* Compute the levels from the bottom, then reverse them. */
void
ht_shape_init(HtShape *shape, HtWidth width, int fanout, uint32_t leaves)
{
	uint32_t sizes[HT_MAX_LEVELS]; /* nodes of each level, bottom first */
	uint32_t size = leaves;

	memset(shape, 0, sizeof(*shape));
	shape->width = width;
	shape->fanout = fanout;
	shape->leaves = leaves;

	while (size > 1)
	{
		size = size / fanout + (size % fanout != 0);
		sizes[shape->levels++] = size;
	}

	for (int i = 0; i < shape->levels; i++)
	{
		shape->level_start[i] = shape->nodes;
		shape->nodes += sizes[shape->levels - 1 - i];
	}
	shape->level_start[shape->levels] = shape->nodes;
}

/* Size of all separators, keys and tids, in bytes. */
static size_t
separator_bytes(HtWidth width, int fanout)
{
	return (size_t) (fanout - 1) * (width + HT_TID_BYTES);
}

size_t
ht_node_size(HtWidth width, int fanout)
{
	return (separator_bytes(width, fanout) + NODE_ALIGN - 1) / NODE_ALIGN * NODE_ALIGN;
}

/* The maximum of a key and of a tid has all bits set; padding is zeros. */
void
ht_node_init(void *node, HtWidth width, int fanout)
{
	size_t used = separator_bytes(width, fanout);

	memset(node, 0xFF, used);
	memset((char *) node + used, 0, ht_node_size(width, fanout) - used);
}

#define HT_KEYS 64
#include "inner_template.h"
#define HT_KEYS 128
#include "inner_template.h"
