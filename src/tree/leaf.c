/*
 * leaf.c
 *		Leaf pages: the operations of leaf_template.h for all shapes.
 */
#include "leaf.h"

#include <stdlib.h>

#define LT_WIDE 0
#define LT_BITS 0
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 0
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 0
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
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

#undef LT_WIDE

static const LeafFunctions *const functions[4][3] = {
	{&functions_0_4, &functions_0_5, &functions_0_6},
	{&functions_16_4, &functions_16_5, &functions_16_6},
	{&functions_32_4, &functions_32_5, &functions_32_6},
	{&functions_64_4, &functions_64_5, &functions_64_6}};

static inline const LeafFunctions *
functions_for(int bits, int tid_bytes)
{
	return functions[bits == 0  ? 0 :
					 bits == 16 ? 1 :
					 bits == 32 ? 2 :
								  3][tid_bytes == 4 ? 0 :
									 tid_bytes == 5 ? 1 :
													  2];
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
	uint8_t bits = bytes[HT_LEAF_CLASS_AT];
	uint8_t tid_bytes = bytes[HT_LEAF_TID_BYTES_AT];
	uint64_t base;

	if (bits != 0 && bits != 16 && bits != 32)
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
	int count =
		bytes[ht_leaf_blocks_at(shape) + block * HT_LEAF_BLOCK_SIZE + HT_LEAF_BLOCK_COUNT_AT];

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
	return functions_of(page)->read_range(page, low_key, high_key, NULL, HT_LEAF_MAX_ENTRIES, out);
}

int
ht_leaf_read_live(const void *page, uint64_t low_key, uint64_t high_key, HtEntry *out)
{
	return ht_leaf_read_some(page, low_key, high_key, true, HT_LEAF_MAX_ENTRIES, out);
}

int
ht_leaf_read_some(const void *page, uint64_t low_key, uint64_t high_key, bool live, int enough,
				  HtEntry *out)
{
	const uint8_t *hints = (const uint8_t *) page + ht_leaf_hole(ht_leaf_shape_of(page)).offset;

	return functions_of(page)->read_range(page, low_key, high_key, live ? hints : NULL, enough,
										  out);
}

int
ht_leaf_slot(const void *page, HtEntry entry)
{
	return functions_of(page)->slot(page, entry);
}

HtInsertResult
ht_leaf_insert(void *page, HtEntry entry, HtLeafChange *change)
{
	return functions_of(page)->insert(page, entry, change);
}

HtInsertResult
ht_leaf_add(void *page, HtEntry entry, int end, HtLeafChange *change)
{
	return functions_of(page)->add(page, entry, end, change);
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
	int first = ht_leaf_blocks_at(ht_leaf_shape_of(page)) / HT_LEAF_BLOCK_SIZE;
	uint64_t lines = change->blocks << first; /* a block is a line */

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

	hole.offset = (uint16_t) HT_LEAF_HOLE_AT(shape.bits);
	if (shape.bits == 64)
		hole.length = (HT_LEAF_BLOCKS(64) * HT_LEAF_SLOTS(64, 4) + 63) / 64 * 8;
	else
		hole.length = (uint16_t) (HT_LEAF_BLOCKS_AT(shape.bits) - hole.offset);
	return hole;
}

const char *
ht_leaf_read_checked(const void *page, HtEntry *out, int *n)
{
	const uint8_t *bytes = page;
	HtLeafShape shape = ht_leaf_shape_of(page);

	*n = 0;
	if (bytes[HT_LEAF_CLASS_AT] != shape.bits || bytes[HT_LEAF_TID_BYTES_AT] != shape.tid_bytes)
		return "widths of keys and tids are none that a leaf can have";
	return functions_of(page)->check(page, out, n);
}

const char *
ht_leaf_check(const void *page)
{
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
	int n;

	return ht_leaf_read_checked(page, entries, &n);
}

const LeafFunctions *
ht_leaf_functions(int bits, int tid_bytes)
{
	return functions_for(bits, tid_bytes);
}
