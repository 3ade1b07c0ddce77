/*
 * wide.h
 *		The tree engine for indexes whose keys have more than 64 bits: 128.
 *
 * Everything that depends on the width of keys exists twice: for 64 bits (and 32, which are 64 in
 * memory) it is in tree.h, for 128 bits it is here, with the same names and _128 at their end, and
 * the same contracts.  What is not explained here is as there.
 *
 * Leaves.  A key is stored as its distance from the leaf's base, in any class from 0 bits up to
 * 128.  Other than with 64 bits the widest class has a base, too: that of all leaves is
 * the key of their low bound.  tree.h has the layout.
 */
#ifndef HARMONIA_WIDE_H
#define HARMONIA_WIDE_H

#include "key.h"
#include "tree.h"

typedef struct HtEntry128
{
	HtKey128 key;
	uint64_t tid;
} HtEntry128;

/* The largest key of a width.  Unused separators have this value. */
static inline HtKey128
ht_key_max_128(HtWidth width)
{
	return ht_key_ones_128(8 * (int) width);
}

/* Compare two entries: negative, zero or positive. */
static inline int
ht_entry_cmp_128(HtEntry128 a, HtEntry128 b)
{
	if (a.key != b.key)
		return a.key < b.key ? -1 : 1;
	if (a.tid != b.tid)
		return a.tid < b.tid ? -1 : 1;
	return 0;
}

/* ----------------------------------------------------------------
 *		Leaf pages (leaf_wide.c)
 * ----------------------------------------------------------------
 */

/* How a leaf stores its entries. */
typedef struct HtLeafShape128
{
	HtKey128 base;     /* subtracted from all keys */
	uint8_t bits;      /* of a stored key: 0, 16, 32, 64, 96 or 128 */
	uint8_t tid_bytes; /* of a stored tid: 4, 5 or 6 */
} HtLeafShape128;

static inline HtLeafShape128
ht_leaf_shape_128(int bits, int tid_bytes, HtKey128 base)
{
	HtLeafShape128 shape = {base, (uint8_t) bits, (uint8_t) tid_bytes};

	return shape;
}

static inline int
ht_leaf_blocks_128(HtLeafShape128 shape)
{
	return shape.bits < 64 ? HT_LEAF_BLOCKS(shape.bits) : HT_WIDE_BLOCKS;
}

static inline int
ht_leaf_slots_128(HtLeafShape128 shape)
{
	return shape.bits < 64 ? HT_LEAF_SLOTS(shape.bits, shape.tid_bytes) :
							 HT_WIDE_SLOTS(shape.bits, shape.tid_bytes);
}

static inline int
ht_leaf_capacity_128(HtLeafShape128 shape)
{
	return ht_leaf_blocks_128(shape) * ht_leaf_slots_128(shape);
}

static inline int
ht_leaf_blocks_at_128(HtLeafShape128 shape)
{
	return shape.bits < 64 ? HT_LEAF_BLOCKS_AT(shape.bits) : HT_WIDE_BLOCKS_AT;
}

static inline int
ht_leaf_block_size_128(HtLeafShape128 shape)
{
	return shape.bits < 64 ? HT_LEAF_BLOCK_SIZE : HT_WIDE_BLOCK_SIZE;
}

/* The largest distance from the base that a class can store. */
static inline HtKey128
ht_class_max_128(int bits)
{
	return ht_key_ones_128(bits);
}

/* The narrowest class for keys that are at most so far from the base. */
static inline int
ht_class_for_128(HtKey128 distance)
{
	int bits = ht_key_bits_128(distance);

	return bits == 0  ? 0 :
		   bits <= 16 ? 16 :
		   bits <= 32 ? 32 :
		   bits <= 64 ? 64 :
		   bits <= 96 ? 96 :
						128;
}

/* Whether a leaf of this shape can store a key, and an entry. */
static inline bool
ht_leaf_fits_key_128(HtLeafShape128 shape, HtKey128 key)
{
	return key >= shape.base && ht_key_bits_128(key - shape.base) <= shape.bits;
}

static inline bool
ht_leaf_fits_128(HtLeafShape128 shape, HtEntry128 entry)
{
	return ht_leaf_fits_key_128(shape, entry.key) && ht_tid_bytes(entry.tid) <= shape.tid_bytes;
}

extern HtLeafShape128 ht_leaf_shape_of_128(const void *page);
extern void ht_leaf_init_128(void *page, HtLeafShape128 shape);
extern void ht_leaf_fill_128(void *page, HtLeafShape128 shape, const HtEntry128 *entries, int n);
extern int ht_leaf_count_128(const void *page);
extern int ht_leaf_block_count_128(const void *page, int block);
extern HtEntry128 ht_leaf_entry_128(const void *page, int block, int slot);
extern int ht_leaf_read_128(const void *page, HtEntry128 *out);
extern int ht_leaf_read_range_128(const void *page, HtKey128 low_key, HtKey128 high_key,
								  HtEntry128 *out);
extern HtInsertResult ht_leaf_insert_128(void *page, HtEntry128 entry, HtLeafChange *change);
extern HtInsertResult ht_leaf_add_128(void *page, HtEntry128 entry, int end, HtLeafChange *change);
extern void ht_leaf_remove_128(void *page, const bool *dead, HtLeafChange *change);
extern int ht_leaf_change_ranges_128(const void *page, const HtLeafChange *change,
									 HtByteRange *ranges);
extern uint64_t ht_leaf_change_lines_128(const void *page, const HtLeafChange *change);
extern HtByteRange ht_leaf_hole_128(HtLeafShape128 shape);
extern int ht_leaf_slot_128(const void *page, HtEntry128 entry);
extern bool ht_leaf_has_hints_128(const void *page);
extern uint32_t ht_leaf_hints_128(const void *page, int block);
extern void ht_leaf_set_hint_128(void *page, int slot);
extern void ht_leaf_clear_hints_128(void *page, const HtLeafChange *change);
extern int ht_leaf_read_live_128(const void *page, HtKey128 low_key, HtKey128 high_key,
								 HtEntry128 *out);
extern int ht_leaf_read_some_128(const void *page, HtKey128 low_key, HtKey128 high_key, bool live,
								 int enough, HtEntry128 *out);
extern const char *ht_leaf_check_128(const void *page);
extern const char *ht_leaf_read_checked_128(const void *page, HtEntry128 *out, int *n);

/* ----------------------------------------------------------------
 *		Inner nodes (inner_template.h)
 *
 * The width is HT_WIDTH128; ht_node_size() and ht_node_init() are for all widths.
 * ----------------------------------------------------------------
 */
extern void ht_node_set_128(void *node, HtWidth width, int fanout, int i, HtEntry128 separator);
extern HtEntry128 ht_node_get_128(const void *node, HtWidth width, int fanout, int i);
extern int ht_node_count_le_128(const void *node, HtWidth width, int fanout, HtEntry128 entry);
extern int ht_node_count_lt_128(const void *node, HtWidth width, int fanout, HtEntry128 entry);

/* ----------------------------------------------------------------
 *		Sorting (radix_template.h), batches of probes (psa_template.h, search_wide.c)
 * ----------------------------------------------------------------
 */
extern void ht_sort_entries_128(HtEntry128 *entries, HtEntry128 *scratch, size_t n);

typedef struct HtProbe128
{
	HtKey128 key;
	uint32_t number; /* index in the batch */
	uint32_t hint;   /* block of the leaf that probably has it */
} HtProbe128;

typedef struct HtPsa128
{
	HtProbe128 *probes;
	uint32_t count;
	uint32_t sorted;
	uint32_t largest;
	uint32_t partitions;
	uint32_t partition;
	uint32_t ends[1 << HT_PSA_MAX_BITS];
} HtPsa128;

extern void ht_psa_start_128(HtPsa128 *psa, const HtKey128 *keys, uint32_t n, HtProbe128 *probes);
extern uint32_t ht_psa_more_128(HtPsa128 *psa, HtProbe128 *scratch);

typedef struct HtSearch128
{
	const char *name; /* of the instruction set */
	uint32_t (*points)(const void *page, const HtProbe128 *probes, uint32_t n, HtHit *hits,
					   HtKey128 *keys, uint32_t room, uint32_t *found);
	uint32_t (*ranges)(const void *page, const HtProbe128 *probes, uint32_t n, HtKey128 length,
					   HtHit *hits, HtKey128 *keys, uint32_t room, uint32_t *found);
	uint32_t (*range)(const void *page, HtKey128 low, HtKey128 high, uint32_t probe, bool live,
					  HtHit *hits, HtKey128 *keys, uint32_t room);
	bool (*has_hints)(const void *page, const HtProbe128 *probes, uint32_t n);
	void (*prefetch_separators)(const void *page, const HtProbe128 *probes, uint32_t n);
	void (*prefetch_blocks)(const void *page, HtProbe128 *probes, uint32_t n, bool hints);
} HtSearch128;

extern const HtSearch128 *ht_search_128(const char *name);

#endif /* HARMONIA_WIDE_H */
