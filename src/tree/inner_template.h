/*
 * inner_template.h
 *		Inner nodes of indexes with keys of the width HT_KEYS.
 *
 * inner.c includes this once for each.
 */
#include "key_macros.h"

#if HT_KEYS == 64
static inline uint64_t
load_key(const char *node, HtWidth width, int i)
{
	if (width == HT_WIDTH32)
	{
		uint32_t key;

		memcpy(&key, node + i * sizeof(key), sizeof(key));
		return key;
	}
	else
	{
		uint64_t key;

		memcpy(&key, node + i * sizeof(key), sizeof(key));
		return key;
	}
}

static inline void
store_key(char *node, HtWidth width, int i, uint64_t key)
{
	if (width == HT_WIDTH32)
	{
		uint32_t stored = (uint32_t) key;

		memcpy(node + i * sizeof(stored), &stored, sizeof(stored));
	}
	else
		memcpy(node + i * sizeof(key), &key, sizeof(key));
}
#else
static inline HtKey128
load_key_128(const char *node, HtWidth width, int i)
{
	HtKey128 key;

	(void) width;
	memcpy(&key, node + i * sizeof(key), sizeof(key));
	return key;
}

static inline void
store_key_128(char *node, HtWidth width, int i, HtKey128 key)
{
	(void) width;
	memcpy(node + i * sizeof(key), &key, sizeof(key));
}
#endif

static inline uint64_t
HT_KEYED(load_tid)(const char *node, HtWidth width, int fanout, int i)
{
	const char *at = node + (fanout - 1) * width + i * HT_TID_BYTES;
	uint32_t block;
	uint16_t offset;

	memcpy(&block, at, sizeof(block));
	memcpy(&offset, at + sizeof(block), sizeof(offset));
	return (uint64_t) block << 16 | offset;
}

void
HT_KEYED(ht_node_set)(void *node, HtWidth width, int fanout, int i, HT_ENTRY separator)
{
	char *at = (char *) node + (fanout - 1) * width + i * HT_TID_BYTES;
	uint32_t block = (uint32_t) (separator.tid >> 16);
	uint16_t offset = (uint16_t) separator.tid;

	HT_KEYED(store_key)(node, width, i, separator.key);
	memcpy(at, &block, sizeof(block));
	memcpy(at + sizeof(block), &offset, sizeof(offset));
}

HT_ENTRY
HT_KEYED(ht_node_get)(const void *node, HtWidth width, int fanout, int i)
{
	HT_ENTRY separator = {HT_KEYED(load_key)(node, width, i),
						  HT_KEYED(load_tid)(node, width, fanout, i)};

	return separator;
}

/*
 * Count the separators with a key below the given one.  The range halves whatever the
 * comparison says, so that the result moves data instead of taking a branch.
 */
static inline int
HT_KEYED(count_below)(const char *node, HtWidth width, int fanout, HT_KEY key)
{
	int base = 0;
	int n = fanout - 1;

	while (n > 1)
	{
		int half = n / 2;

		base += HT_KEYED(load_key)(node, width, base + half - 1) < key ? half : 0;
		n -= half;
	}
	return base + (HT_KEYED(load_key)(node, width, base) < key);
}

/*
 * Count the separators below an entry, and also those equal to it if "equal" is true.
 * Tids are compared only if a separator has the entry's key.
 */
static inline int
HT_KEYED(count_separators)(const char *node, HtWidth width, int fanout, HT_ENTRY entry, bool equal)
{
	int low = HT_KEYED(count_below)(node, width, fanout, entry.key);
	int high = fanout - 1;

	if (low == high || HT_KEYED(load_key)(node, width, low) != entry.key)
		return low;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (HT_KEYED(ht_entry_cmp)(HT_KEYED(ht_node_get)(node, width, fanout, middle), entry) <
			(equal ? 1 : 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Compiled for each width: a constant width makes loads single instructions. */
#if HT_KEYS == 64
#define FOR_WIDTHS(equal) \
	if (width == HT_WIDTH32) \
		return count_separators(node, HT_WIDTH32, fanout, entry, equal); \
	return count_separators(node, HT_WIDTH64, fanout, entry, equal)
#else
#define FOR_WIDTHS(equal) \
	(void) width; \
	return count_separators_128(node, HT_WIDTH128, fanout, entry, equal)
#endif

int
HT_KEYED(ht_node_count_le)(const void *node, HtWidth width, int fanout, HT_ENTRY entry)
{
	FOR_WIDTHS(true);
}

int
HT_KEYED(ht_node_count_lt)(const void *node, HtWidth width, int fanout, HT_ENTRY entry)
{
	FOR_WIDTHS(false);
}

#undef FOR_WIDTHS
#include "key_macros_end.h"
