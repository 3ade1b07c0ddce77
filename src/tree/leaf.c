/*
 * leaf.c
 *		Leaf pages: the operations of leaf_template.h for all shapes.
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

/* The operations on leaves of one shape. */
typedef struct LeafFunctions
{
	void		(*init) (void *page, HtLeafShape shape);
	void		(*fill) (void *page, HtLeafShape shape, const HtEntry *entries, int n);
	int			(*count) (const void *page);
	HtEntry		(*entry) (const void *page, int block, int slot);
	int			(*read) (const void *page, HtEntry *out);
	int			(*read_range) (const void *page, uint64_t low_key, uint64_t high_key,
							   HtEntry *out);
	HtInsertResult (*insert) (void *page, HtEntry entry, HtLeafChange *change);
	void		(*remove) (void *page, const bool *dead, HtLeafChange *change);
	int			(*change_ranges) (const HtLeafChange *change, HtByteRange *ranges);
	const char *(*check) (const void *page);
} LeafFunctions;

/* In an integer of 8 bytes, the lowest n bytes are these. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "tids are stored with their lowest byte first; this needs load_tid() and store_tid() for big-endian machines"
#endif

/* bytes is a constant wherever these are called. */
static inline uint64_t
load_tid(const uint8_t *tids, int slot, int bytes)
{
	uint64_t	stored = 0;

	memcpy(&stored, tids + slot * bytes, (size_t) bytes);
	if (bytes == HT_TID_BYTES)
		return stored;
	return stored >> 9 << 16 | (stored & 511);
}

static inline void
store_tid(uint8_t *tids, int slot, uint64_t tid, int bytes)
{
	uint64_t	stored = bytes == HT_TID_BYTES ? tid : tid >> 16 << 9 | (tid & 511);

	memcpy(tids + slot * bytes, &stored, (size_t) bytes);
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
	change->slots[block] |= UINT32_C(1) << slot;
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

#define LT_BITS 16
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 32
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 64
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 16
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 32
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 64
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 16
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 32
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 64
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS

static const LeafFunctions *const functions[3][3] =
{
	{&functions_16_4, &functions_16_5, &functions_16_6},
	{&functions_32_4, &functions_32_5, &functions_32_6},
	{&functions_64_4, &functions_64_5, &functions_64_6}
};

static inline const LeafFunctions *
functions_for(int bits, int tid_bytes)
{
	return functions[bits == 16 ? 0 : bits == 32 ? 1 : 2]
		[tid_bytes == 4 ? 0 : tid_bytes == 5 ? 1 : 2];
}

static inline const LeafFunctions *
functions_of(const void *page)
{
	const uint8_t *bytes = page;

	return functions_for(bytes[HT_LEAF_CLASS_AT], bytes[HT_LEAF_TID_BYTES_AT]);
}

HtLeafShape
ht_leaf_shape_of(const void *page)
{
	const uint8_t *bytes = page;
	uint8_t		bits = bytes[HT_LEAF_CLASS_AT];
	uint8_t		tid_bytes = bytes[HT_LEAF_TID_BYTES_AT];
	uint64_t	base;

	if (bits != 16 && bits != 32)
		bits = 64;
	if (tid_bytes != 4 && tid_bytes != 5)
		tid_bytes = HT_TID_BYTES;
	memcpy(&base, bytes + HT_LEAF_BASE_AT, sizeof(base));
	return ht_leaf_shape(bits, tid_bytes, base);
}

void
ht_leaf_init(void *page, HtLeafShape shape)
{
	functions_for(shape.bits, shape.tid_bytes)->init(page, shape);
}

void
ht_leaf_fill(void *page, HtLeafShape shape, const HtEntry *entries, int n)
{
	functions_for(shape.bits, shape.tid_bytes)->fill(page, shape, entries, n);
}

int
ht_leaf_count(const void *page)
{
	return functions_of(page)->count(page);
}

int
ht_leaf_block_count(const void *page, int block)
{
	HtLeafShape shape = ht_leaf_shape_of(page);
	const uint8_t *bytes = page;
	int			count = bytes[ht_leaf_blocks_at(shape) + block * HT_LEAF_BLOCK_SIZE + HT_LEAF_BLOCK_COUNT_AT];

	return count < ht_leaf_slots(shape) ? count : ht_leaf_slots(shape);
}

HtEntry
ht_leaf_entry(const void *page, int block, int slot)
{
	return functions_of(page)->entry(page, block, slot);
}

int
ht_leaf_read(const void *page, HtEntry *out)
{
	return functions_of(page)->read(page, out);
}

int
ht_leaf_read_range(const void *page, uint64_t low_key, uint64_t high_key, HtEntry *out)
{
	return functions_of(page)->read_range(page, low_key, high_key, out);
}

HtInsertResult
ht_leaf_insert(void *page, HtEntry entry, HtLeafChange *change)
{
	return functions_of(page)->insert(page, entry, change);
}

void
ht_leaf_remove(void *page, const bool *dead, HtLeafChange *change)
{
	functions_of(page)->remove(page, dead, change);
}

int
ht_leaf_change_ranges(const void *page, const HtLeafChange *change, HtByteRange *ranges)
{
	return functions_of(page)->change_ranges(change, ranges);
}

uint64_t
ht_leaf_change_lines(const void *page, const HtLeafChange *change)
{
	int			first = ht_leaf_blocks_at(ht_leaf_shape_of(page)) / HT_LEAF_BLOCK_SIZE;
	uint64_t	lines = change->blocks << first;	/* a block is a line */

	/*
	 * Separators take the lines before the blocks; pivots take half of the first of
	 * these.
	 */
	if (change->separators != 0)
		lines |= (UINT64_C(1) << first) - 1;
	return lines;
}

HtByteRange
ht_leaf_hole(HtLeafShape shape)
{
	HtByteRange hole;

	if (shape.bits == 64)
	{
		hole.offset = HT_PAGE_END;
		hole.length = (HT_LEAF_BLOCKS(64) * HT_LEAF_SLOTS(64, 4) + 63) / 64 * 8;
	}
	else
	{
		hole.offset = (uint16_t) (HT_LEAF_SEPARATORS_AT + HT_LEAF_MAX_SEPARATORS * shape.bits / 8);
		hole.length = (uint16_t) (HT_LEAF_BLOCKS_AT(shape.bits) - hole.offset);
	}
	return hole;
}

const char *
ht_leaf_check(const void *page)
{
	const uint8_t *bytes = page;
	HtLeafShape shape = ht_leaf_shape_of(page);

	if (bytes[HT_LEAF_CLASS_AT] != shape.bits || bytes[HT_LEAF_TID_BYTES_AT] != shape.tid_bytes)
		return "widths of keys and tids are none that a leaf can have";
	return functions_of(page)->check(page);
}
