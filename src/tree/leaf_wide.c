/*
 * leaf_wide.c
 *		Leaf pages of indexes with wide keys: the operations of leaf_template.h for the shapes
 *		that keep keys in planes, and what adds a leaf's base.
 *
 * The functions of leaf_template.h store keys less the leaf's base; here the base is subtracted
 * and added.  So the instances of narrow classes serve both widths: what they store are distances
 * below 2^64.
 */
#include "leaf.h"

#include <stdlib.h>

#define LT_WIDE 1
#define LT_BITS 64
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 64
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 64
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 96
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 96
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 96
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 128
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 128
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 128
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#undef LT_WIDE

/* Entries of a leaf of a class above 64 bits at most. */
#define WIDE_MAX_ENTRIES (HT_WIDE_BLOCKS * HT_WIDE_SLOTS(96, 4))

#define WIDE_FUNCTIONS(bits) \
	{ \
		&functions_w##bits##_4, &functions_w##bits##_5, &functions_w##bits##_6 \
	}

/* The functions for leaves of these indexes whose class is at most 64. */
static inline const LeafFunctions *
wide_functions(int bits, int tid_bytes)
{
	static const LeafFunctions *const wide[3] = WIDE_FUNCTIONS(64);

	return bits < 64 ? ht_leaf_functions(bits, tid_bytes) : wide[tid_bytes - 4];
}

static inline const LeafFunctions_128 *
wide_functions_128(int bits, int tid_bytes)
{
	static const LeafFunctions_128 *const wide[2][3] = {WIDE_FUNCTIONS(96), WIDE_FUNCTIONS(128)};

	return wide[bits > 96][tid_bytes - 4];
}

/* The base of a leaf. */
static inline HtKey128
base_of(const void *page)
{
	HtKey128 base;

	memcpy(&base, (const char *) page + HT_WIDE_BASE_AT, sizeof(base));
	return base;
}

static inline void
set_base(void *page, HtKey128 base)
{
	memcpy((char *) page + HT_WIDE_BASE_AT, &base, sizeof(base));
}

HtLeafShape128
ht_leaf_shape_of_128(const void *page)
{
	const uint8_t *bytes = page;
	int class = bytes[HT_LEAF_CLASS_AT];
	uint8_t tid_bytes = bytes[HT_LEAF_TID_BYTES_AT];
	int bits = class == 0 || class == 16 || class == 32 ? class :
			   class == HT_WIDE_CLASS(64)               ? 64 :
			   class == HT_WIDE_CLASS(96)               ? 96 :
														  128;

	if (tid_bytes != 4 && tid_bytes != 5)
		tid_bytes = HT_TID_BYTES;
	return ht_leaf_shape_128(bits, tid_bytes, base_of(page));
}

/* How a leaf stores keys, apart from the base.  FUNCTIONS() calls the instance for a shape. */
#define FUNCTIONS(shape, call) \
	((shape).bits <= 64 ? wide_functions(shape.bits, (shape).tid_bytes)->call : \
						  wide_functions_128((shape).bits, (shape).tid_bytes)->call)

/* A distance as a narrower number, and back. */
static inline HtEntry
narrow(HtEntry128 entry, HtKey128 base)
{
	HtEntry stored = {(uint64_t) (entry.key - base), entry.tid};

	return stored;
}

static inline HtEntry128
widen(HtEntry stored, HtKey128 base)
{
	HtEntry128 entry = {stored.key + base, stored.tid};

	return entry;
}

static inline HtEntry128
narrow_128(HtEntry128 entry, HtKey128 base)
{
	HtEntry128 stored = {entry.key - base, entry.tid};

	return stored;
}

static inline HtEntry128
widen_128(HtEntry128 stored, HtKey128 base)
{
	HtEntry128 entry = {stored.key + base, stored.tid};

	return entry;
}

void
ht_leaf_init_128(void *page, HtLeafShape128 shape)
{
	FUNCTIONS(shape,
			  init(page, ht_leaf_shape(shape.bits <= 32 ? shape.bits : 64, shape.tid_bytes, 0)));
	set_base(page, shape.base);
}

void
ht_leaf_fill_128(void *page, HtLeafShape128 shape, const HtEntry128 *entries, int n)
{
	HtLeafShape plain = ht_leaf_shape(shape.bits <= 32 ? shape.bits : 64, shape.tid_bytes, 0);

	if (shape.bits <= 64)
	{
		HtEntry stored[HT_LEAF_MAX_ENTRIES];

		for (int i = 0; i < n; i++)
			stored[i] = narrow(entries[i], shape.base);
		wide_functions(shape.bits, shape.tid_bytes)->fill(page, plain, stored, n);
	}
	else
	{
		HtEntry128 stored[WIDE_MAX_ENTRIES];

		for (int i = 0; i < n; i++)
			stored[i] = narrow_128(entries[i], shape.base);
		wide_functions_128(shape.bits, shape.tid_bytes)->fill(page, plain, stored, n);
	}
	set_base(page, shape.base);
}

int
ht_leaf_count_128(const void *page)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);

	return FUNCTIONS(shape, count(page));
}

int
ht_leaf_block_count_128(const void *page, int block)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);
	int size = ht_leaf_block_size_128(shape);
	int slots = ht_leaf_slots_128(shape);
	int count = ((const uint8_t *) page)[ht_leaf_blocks_at_128(shape) + (block + 1) * size - 2];

	return count < slots ? count : slots;
}

HtEntry128
ht_leaf_entry_128(const void *page, int block, int slot)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);

	if (shape.bits <= 64)
		return widen(wide_functions(shape.bits, shape.tid_bytes)->entry(page, block, slot),
					 shape.base);
	return widen_128(wide_functions_128(shape.bits, shape.tid_bytes)->entry(page, block, slot),
					 shape.base);
}

/*
 * Read the entries whose distance from the base is in low..high; if hints is not NULL, without
 * those that are hinted to be dead; "enough" is as for ht_leaf_read_some().
 */
static int
read_distances(const void *page, HtLeafShape128 shape, HtKey128 low, HtKey128 high,
			   const uint8_t *hints, int enough, HtEntry128 *out)
{
	HtKey128 most = ht_class_max_128(shape.bits);
	int n = 0;

	if (most < low)
		return 0;
	high = most < high ? most : high;
	if (shape.bits <= 64)
	{
		HtEntry stored[HT_LEAF_MAX_ENTRIES];

		n = wide_functions(shape.bits, shape.tid_bytes)
				->read_range(page, (uint64_t) low, (uint64_t) high, hints, enough, stored);
		for (int i = 0; i < n; i++)
			out[i] = widen(stored[i], shape.base);
	}
	else
	{
		HtEntry128 stored[WIDE_MAX_ENTRIES];

		n = wide_functions_128(shape.bits, shape.tid_bytes)
				->read_range(page, low, high, hints, enough, stored);
		for (int i = 0; i < n; i++)
			out[i] = widen_128(stored[i], shape.base);
	}
	return n;
}

/*
 * Read all entries; check the page on the way if "checked" is true.  The result is as for
 * ht_leaf_read_checked().
 */
static const char *
read_all(const void *page, bool checked, HtEntry128 *out, int *n)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);
	const char *problem = NULL;

	if (shape.bits <= 64)
	{
		const LeafFunctions *functions = wide_functions(shape.bits, shape.tid_bytes);
		HtEntry stored[HT_LEAF_MAX_ENTRIES];

		if (checked)
			problem = functions->check(page, stored, n);
		else
			*n = functions->read(page, stored);
		for (int i = 0; i < *n; i++)
			out[i] = widen(stored[i], shape.base);
	}
	else
	{
		const LeafFunctions_128 *functions = wide_functions_128(shape.bits, shape.tid_bytes);
		HtEntry128 stored[WIDE_MAX_ENTRIES];

		if (checked)
			problem = functions->check(page, stored, n);
		else
			*n = functions->read(page, stored);
		for (int i = 0; i < *n; i++)
			out[i] = widen_128(stored[i], shape.base);
	}
	return problem;
}

int
ht_leaf_read_128(const void *page, HtEntry128 *out)
{
	int n;

	(void) read_all(page, false, out, &n);
	return n;
}

static int
read_keys(const void *page, HtLeafShape128 shape, HtKey128 low_key, HtKey128 high_key,
		  const uint8_t *hints, int enough, HtEntry128 *out)
{
	if (high_key < low_key || high_key < shape.base)
		return 0;
	return read_distances(page, shape, low_key < shape.base ? 0 : low_key - shape.base,
						  high_key - shape.base, hints, enough, out);
}

int
ht_leaf_read_range_128(const void *page, HtKey128 low_key, HtKey128 high_key, HtEntry128 *out)
{
	return read_keys(page, ht_leaf_shape_of_128(page), low_key, high_key, NULL, HT_LEAF_MAX_ENTRIES,
					 out);
}

int
ht_leaf_read_live_128(const void *page, HtKey128 low_key, HtKey128 high_key, HtEntry128 *out)
{
	return ht_leaf_read_some_128(page, low_key, high_key, true, HT_LEAF_MAX_ENTRIES, out);
}

int
ht_leaf_read_some_128(const void *page, HtKey128 low_key, HtKey128 high_key, bool live, int enough,
					  HtEntry128 *out)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);
	const uint8_t *hints = (const uint8_t *) page + ht_leaf_hole_128(shape).offset;

	return read_keys(page, shape, low_key, high_key, live ? hints : NULL, enough, out);
}

int
ht_leaf_slot_128(const void *page, HtEntry128 entry)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);

	if (!ht_leaf_fits_128(shape, entry))
		return -1;
	if (shape.bits <= 64)
		return wide_functions(shape.bits, shape.tid_bytes)->slot(page, narrow(entry, shape.base));
	return wide_functions_128(shape.bits, shape.tid_bytes)
		->slot(page, narrow_128(entry, shape.base));
}

HtInsertResult
ht_leaf_insert_128(void *page, HtEntry128 entry, HtLeafChange *change)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);

	if (!ht_leaf_fits_128(shape, entry))
		return HT_NO_FIT;
	if (shape.bits <= 64)
		return wide_functions(shape.bits, shape.tid_bytes)
			->insert(page, narrow(entry, shape.base), change);
	return wide_functions_128(shape.bits, shape.tid_bytes)
		->insert(page, narrow_128(entry, shape.base), change);
}

HtInsertResult
ht_leaf_add_128(void *page, HtEntry128 entry, int end, HtLeafChange *change)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);

	if (!ht_leaf_fits_128(shape, entry))
		return HT_NO_FIT;
	if (shape.bits <= 64)
		return wide_functions(shape.bits, shape.tid_bytes)
			->add(page, narrow(entry, shape.base), end, change);
	return wide_functions_128(shape.bits, shape.tid_bytes)
		->add(page, narrow_128(entry, shape.base), end, change);
}

void
ht_leaf_remove_128(void *page, const bool *dead, HtLeafChange *change)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);

	FUNCTIONS(shape, remove(page, dead, change));
}

int
ht_leaf_change_ranges_128(const void *page, const HtLeafChange *change, HtByteRange *ranges)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);

	return FUNCTIONS(shape, change_ranges(change, ranges));
}

uint64_t
ht_leaf_change_lines_128(const void *page, const HtLeafChange *change)
{
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);
	int lines_of_block = ht_leaf_block_size_128(shape) / HT_LEAF_BLOCK_SIZE;
	int first = ht_leaf_blocks_at_128(shape) / HT_LEAF_BLOCK_SIZE;
	uint64_t lines = 0;

	if (lines_of_block == 1)
		lines = change->blocks << first;
	else
	{
		for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
			lines |= UINT64_C(3) << (first + 2 * __builtin_ctzll(rest));
	}
	if (change->separators != 0)
		lines |= (UINT64_C(1) << first) - 1;
	return lines;
}

HtByteRange
ht_leaf_hole_128(HtLeafShape128 shape)
{
	HtByteRange hole;
	int bits = HT_WIDE_BLOCKS * HT_WIDE_SLOTS(shape.bits, 4);

	if (shape.bits < 64)
		return ht_leaf_hole(ht_leaf_shape(shape.bits, shape.tid_bytes, 0));
	hole.offset = (uint16_t) HT_WIDE_HOLE_AT(shape.bits);
	hole.length =
		(uint16_t) (shape.bits < 128 ? HT_WIDE_BLOCKS_AT - hole.offset : (bits + 63) / 64 * 8);
	return hole;
}

const char *
ht_leaf_read_checked_128(const void *page, HtEntry128 *out, int *n)
{
	const uint8_t *bytes = page;
	HtLeafShape128 shape = ht_leaf_shape_of_128(page);
	const char *problem;

	*n = 0;
	if (bytes[HT_LEAF_CLASS_AT] != (shape.bits < 64 ? shape.bits : HT_WIDE_CLASS(shape.bits)) ||
		bytes[HT_LEAF_TID_BYTES_AT] != shape.tid_bytes)
		return "widths of keys and tids are none that a leaf can have";
	for (int i = HT_WIDE_BASE_AT + (int) sizeof(HtKey128); i < HT_LEAF_SEPARATORS_AT; i++)
		if (bytes[i] != 0)
			return "reserved byte is not 0";
	if (shape.bits < 64 && ht_leaf_shape_of(page).base != 0)
		return "reserved byte is not 0";
	problem = read_all(page, true, out, n);

	/* The last one has the greatest distance; an overflow makes it the lowest key. */
	if (problem == NULL && *n > 0 && out[*n - 1].key < shape.base)
		return "key is above the greatest one";
	return problem;
}

const char *
ht_leaf_check_128(const void *page)
{
	HtEntry128 entries[HT_LEAF_MAX_ENTRIES];
	int n;

	return ht_leaf_read_checked_128(page, entries, &n);
}
