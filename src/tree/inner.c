/*
 * inner.c
 *		Inner nodes and the shape of a segment.
 */
#include "tree.h"

#include <string.h>

#define NODE_ALIGN	64

/* Compute the levels from the bottom, then reverse them. */
void
ht_shape_init(HtShape *shape, HtWidth width, int fanout, uint32_t leaves)
{
	uint32_t	sizes[HT_MAX_LEVELS];	/* nodes of each level, bottom first */
	uint32_t	size = leaves;

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
	size_t		used = separator_bytes(width, fanout);

	memset(node, 0xFF, used);
	memset((char *) node + used, 0, ht_node_size(width, fanout) - used);
}

static inline uint64_t
load_key(const char *node, HtWidth width, int i)
{
	if (width == HT_WIDTH32)
	{
		uint32_t	key;

		memcpy(&key, node + i * sizeof(key), sizeof(key));
		return key;
	}
	else
	{
		uint64_t	key;

		memcpy(&key, node + i * sizeof(key), sizeof(key));
		return key;
	}
}

static inline uint64_t
load_tid(const char *node, HtWidth width, int fanout, int i)
{
	const char *at = node + (fanout - 1) * width + i * HT_TID_BYTES;
	uint32_t	block;
	uint16_t	offset;

	memcpy(&block, at, sizeof(block));
	memcpy(&offset, at + sizeof(block), sizeof(offset));
	return (uint64_t) block << 16 | offset;
}

void
ht_node_set(void *node, HtWidth width, int fanout, int i, HtEntry separator)
{
	char	   *at = (char *) node + (fanout - 1) * width + i * HT_TID_BYTES;
	uint32_t	block = (uint32_t) (separator.tid >> 16);
	uint16_t	offset = (uint16_t) separator.tid;

	if (width == HT_WIDTH32)
	{
		uint32_t	key = (uint32_t) separator.key;

		memcpy((char *) node + i * sizeof(key), &key, sizeof(key));
	}
	else
		memcpy((char *) node + i * sizeof(separator.key), &separator.key,
			   sizeof(separator.key));
	memcpy(at, &block, sizeof(block));
	memcpy(at + sizeof(block), &offset, sizeof(offset));
}

HtEntry
ht_node_get(const void *node, HtWidth width, int fanout, int i)
{
	HtEntry		separator = {load_key(node, width, i), load_tid(node, width, fanout, i)};

	return separator;
}

/*
 * Count the separators with a key below the given one.  The range halves whatever the
 * comparison says, so that the result moves data instead of taking a branch.
 */
static inline int
count_below(const char *node, HtWidth width, int fanout, uint64_t key)
{
	int			base = 0;
	int			n = fanout - 1;

	while (n > 1)
	{
		int			half = n / 2;

		base += load_key(node, width, base + half - 1) < key ? half : 0;
		n -= half;
	}
	return base + (load_key(node, width, base) < key);
}

/*
 * Count the separators below an entry, and also those equal to it if "equal" is true.
 * Tids are compared only if a separator has the entry's key.
 */
static inline int
count_separators(const char *node, HtWidth width, int fanout, HtEntry entry, bool equal)
{
	int			low = count_below(node, width, fanout, entry.key);
	int			high = fanout - 1;

	if (low == high || load_key(node, width, low) != entry.key)
		return low;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (ht_entry_cmp(ht_node_get(node, width, fanout, middle), entry) < (equal ? 1 : 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int
ht_node_count_le(const void *node, HtWidth width, int fanout, HtEntry entry)
{
	if (width == HT_WIDTH32)
		return count_separators(node, HT_WIDTH32, fanout, entry, true);
	return count_separators(node, HT_WIDTH64, fanout, entry, true);
}

int
ht_node_count_lt(const void *node, HtWidth width, int fanout, HtEntry entry)
{
	if (width == HT_WIDTH32)
		return count_separators(node, HT_WIDTH32, fanout, entry, false);
	return count_separators(node, HT_WIDTH64, fanout, entry, false);
}
