/*
 * leaf.c
 *		Leaf pages: the operations of leaf_template.h for both key widths.
 */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

/* Merge ranges with at most this many bytes between them: another range costs more. */
#define RANGE_MERGE_GAP		4

/*
 * If the nearest free slot is farther away than this many blocks, consider a rewrite.
 */
#define REBALANCE_DISTANCE	4

/* How entries are packed into the blocks of a page. */
typedef enum Packing
{
	PACK_EVENLY,				/* evenly into all blocks */
	PACK_LOW,					/* into the first blocks, leaving no slot free */
	PACK_HIGH					/* into the last blocks, leaving no slot free */
} Packing;

static inline uint64_t
load_tid(const uint8_t *tids, int slot)
{
	uint32_t	block;
	uint16_t	offset;

	memcpy(&block, tids + slot * HT_TID_BYTES, sizeof(block));
	memcpy(&offset, tids + slot * HT_TID_BYTES + sizeof(block), sizeof(offset));
	return (uint64_t) block << 16 | offset;
}

static inline void
store_tid(uint8_t *tids, int slot, uint64_t tid)
{
	uint32_t	block = (uint32_t) (tid >> 16);
	uint16_t	offset = (uint16_t) tid;

	memcpy(tids + slot * HT_TID_BYTES, &block, sizeof(block));
	memcpy(tids + slot * HT_TID_BYTES + sizeof(block), &offset, sizeof(offset));
}

/* The set of slots 0..n - 1. */
static inline uint32_t
slots_below(int n)
{
	return (UINT32_C(1) << n) - 1;
}

/* Sort the few entries of a block. */
static inline void
sort_entries(HtEntry *entries, int n)
{
	for (int i = 1; i < n; i++)
	{
		HtEntry		entry = entries[i];
		int			j = i;

		for (; j > 0 && ht_entry_cmp(entries[j - 1], entry) > 0; j--)
			entries[j] = entries[j - 1];
		entries[j] = entry;
	}
}

/* Note that the count of a block, or a slot, changed. */
static inline void
mark_count(HtLeafChange *change, int block)
{
	change->blocks |= UINT64_C(1) << block;
	change->counts |= UINT64_C(1) << block;
}

static inline void
mark_slot(HtLeafChange *change, int block, int slot)
{
	change->blocks |= UINT64_C(1) << block;
	change->slots[block] |= (uint16_t) (1 << slot);
}

/* Append a range to n others, or extend the last one.  Returns the new n. */
static inline int
add_range(HtByteRange *ranges, int n, size_t offset, size_t length)
{
	if (n > 0)
	{
		HtByteRange *last = &ranges[n - 1];

		if (offset - (last->offset + last->length) <= RANGE_MERGE_GAP)
		{
			last->length = (uint16_t) (offset + length - last->offset);
			return n;
		}
	}
	ranges[n].offset = (uint16_t) offset;
	ranges[n].length = (uint16_t) length;
	return n + 1;
}

#define LT_BITS 32
#include "leaf_template.h"
#define LT_BITS 64
#include "leaf_template.h"

void
ht_leaf_init(void *page, HtWidth width)
{
	if (width == HT_WIDTH32)
		init_32(page);
	else
		init_64(page);
}

void
ht_leaf_fill(void *page, HtWidth width, const HtEntry *entries, int n)
{
	if (width == HT_WIDTH32)
		fill_32(page, entries, n);
	else
		fill_64(page, entries, n);
}

int
ht_leaf_count(const void *page, HtWidth width)
{
	return width == HT_WIDTH32 ? count_32(page) : count_64(page);
}

int
ht_leaf_read(const void *page, HtWidth width, HtEntry *out)
{
	return width == HT_WIDTH32 ? read_32(page, out) : read_64(page, out);
}

int
ht_leaf_read_range(const void *page, HtWidth width, uint64_t low_key,
				   uint64_t high_key, HtEntry *out)
{
	/* Bounds need not fit the width; clip them. */
	if (high_key > ht_key_max(width))
		high_key = ht_key_max(width);
	if (low_key > high_key)
		return 0;

	if (width == HT_WIDTH32)
		return read_range_32(page, (uint32_t) low_key, (uint32_t) high_key, out);
	return read_range_64(page, low_key, high_key, out);
}

HtInsertResult
ht_leaf_insert(void *page, HtWidth width, HtEntry entry, HtLeafChange *change)
{
	if (width == HT_WIDTH32)
		return insert_32(page, entry, change);
	return insert_64(page, entry, change);
}

void
ht_leaf_remove(void *page, HtWidth width, const bool *dead, HtLeafChange *change)
{
	if (width == HT_WIDTH32)
		remove_32(page, dead, change);
	else
		remove_64(page, dead, change);
}

int
ht_leaf_change_ranges(const void *page, HtWidth width,
					  const HtLeafChange *change, HtByteRange *ranges)
{
	(void) page;				/* the change has all that is needed */
	if (width == HT_WIDTH32)
		return change_ranges_32(change, ranges);
	return change_ranges_64(change, ranges);
}

uint64_t
ht_leaf_change_lines(HtWidth width, const HtLeafChange *change)
{
	int			first = ht_leaf_blocks_at(width) / HT_LEAF_BLOCK_SIZE;
	uint64_t	lines = change->blocks << first;	/* a block is a line */

	/*
	 * Separators take the lines before the blocks; pivots take half of the first of
	 * these.
	 */
	if (change->separators != 0)
		lines |= (UINT64_C(1) << first) - 1;
	return lines;
}

const char *
ht_leaf_check(const void *page, HtWidth width)
{
	return width == HT_WIDTH32 ? check_32(page) : check_64(page);
}
