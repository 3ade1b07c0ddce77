/*
 * wide_api.h
 *		What the engine offers for keys of the width HT_KEYS, 128 or 256.
 *
 * wide.h includes this once for each.  What is not explained here is as in tree.h.
 */
#include "key_macros.h"

typedef struct HT_ENTRY
{
	HT_KEY		key;
	uint64_t	tid;
} HT_ENTRY;

/* The largest key of a width.  Unused separators have this value. */
static inline HT_KEY
HT_KEYED(ht_key_max)(HtWidth width)
{
	return HT_KEYED(ht_key_ones)(8 * (int) width);
}

/* Compare two entries: negative, zero or positive. */
static inline int
HT_KEYED(ht_entry_cmp)(HT_ENTRY a, HT_ENTRY b)
{
	if (!KEY_EQUAL(a.key, b.key))
		return KEY_LESS(a.key, b.key) ? -1 : 1;
	if (a.tid != b.tid)
		return a.tid < b.tid ? -1 : 1;
	return 0;
}

/* ----------------------------------------------------------------
 *		Leaf pages (leaf_wide.c)
 * ----------------------------------------------------------------
 */

/* How a leaf stores its entries. */
typedef struct HT_SHAPE
{
	HT_KEY		base;			/* subtracted from all keys */
	uint16_t	bits;			/* of a stored key: 0, 16, 32, 64, 96, 128, 192, 256 */
	uint8_t		tid_bytes;		/* of a stored tid: 4, 5 or 6 */
} HT_SHAPE;

static inline HT_SHAPE
HT_KEYED(ht_leaf_shape)(int bits, int tid_bytes, HT_KEY base)
{
	HT_SHAPE	shape = {base, (uint16_t) bits, (uint8_t) tid_bytes};

	return shape;
}

static inline int
HT_KEYED(ht_leaf_blocks)(HT_SHAPE shape)
{
	return shape.bits < 64 ? HT_LEAF_BLOCKS(shape.bits) : HT_WIDE_BLOCKS(shape.bits);
}

static inline int
HT_KEYED(ht_leaf_slots)(HT_SHAPE shape)
{
	return shape.bits < 64 ? HT_LEAF_SLOTS(shape.bits, shape.tid_bytes) :
		HT_WIDE_SLOTS(shape.bits, shape.tid_bytes);
}

static inline int
HT_KEYED(ht_leaf_capacity)(HT_SHAPE shape)
{
	return HT_KEYED(ht_leaf_blocks)(shape) * HT_KEYED(ht_leaf_slots)(shape);
}

static inline int
HT_KEYED(ht_leaf_blocks_at)(HT_SHAPE shape)
{
	return shape.bits < 64 ? HT_LEAF_BLOCKS_AT(shape.bits) : HT_WIDE_BLOCKS_AT(shape.bits);
}

static inline int
HT_KEYED(ht_leaf_block_size)(HT_SHAPE shape)
{
	return shape.bits < 64 ? HT_LEAF_BLOCK_SIZE : HT_WIDE_BLOCK_SIZE;
}

/* The largest distance from the base that a class can store. */
static inline HT_KEY
HT_KEYED(ht_class_max)(int bits)
{
	return HT_KEYED(ht_key_ones)(bits);
}

/* The narrowest class for keys that are at most so far from the base. */
static inline int
HT_KEYED(ht_class_for)(HT_KEY distance)
{
	int			bits = HT_KEYED(ht_key_bits)(distance);

	return bits == 0 ? 0 : bits <= 16 ? 16 : bits <= 32 ? 32 : bits <= 64 ? 64 : bits <= 96 ? 96 :
		bits <= 128 ? 128 : bits <= 192 ? 192 : 256;
}

/* Whether a leaf of this shape can store a key, and an entry. */
static inline bool
HT_KEYED(ht_leaf_fits_key)(HT_SHAPE shape, HT_KEY key)
{
	return !KEY_LESS(key, shape.base) &&
		HT_KEYED(ht_key_bits)(KEY_SUBTRACT(key, shape.base)) <= shape.bits;
}

static inline bool
HT_KEYED(ht_leaf_fits)(HT_SHAPE shape, HT_ENTRY entry)
{
	return HT_KEYED(ht_leaf_fits_key)(shape, entry.key) && ht_tid_bytes(entry.tid) <= shape.tid_bytes;
}

extern HT_SHAPE HT_KEYED(ht_leaf_shape_of)(const void *page);
extern void HT_KEYED(ht_leaf_init)(void *page, HT_SHAPE shape);
extern void HT_KEYED(ht_leaf_fill)(void *page, HT_SHAPE shape, const HT_ENTRY *entries, int n);
extern int	HT_KEYED(ht_leaf_count)(const void *page);
extern int	HT_KEYED(ht_leaf_block_count)(const void *page, int block);
extern HT_ENTRY HT_KEYED(ht_leaf_entry)(const void *page, int block, int slot);
extern int	HT_KEYED(ht_leaf_read)(const void *page, HT_ENTRY *out);
extern int	HT_KEYED(ht_leaf_read_range)(const void *page, HT_KEY low_key, HT_KEY high_key, HT_ENTRY *out);
extern HtInsertResult HT_KEYED(ht_leaf_insert)(void *page, HT_ENTRY entry, HtLeafChange *change);
extern HtInsertResult HT_KEYED(ht_leaf_add)(void *page, HT_ENTRY entry, int end, HtLeafChange *change);
extern void HT_KEYED(ht_leaf_remove)(void *page, const bool *dead, HtLeafChange *change);
extern int	HT_KEYED(ht_leaf_change_ranges)(const void *page, const HtLeafChange *change, HtByteRange *ranges);
extern uint64_t HT_KEYED(ht_leaf_change_lines)(const void *page, const HtLeafChange *change);
extern HtByteRange HT_KEYED(ht_leaf_hole)(HT_SHAPE shape);
extern int	HT_KEYED(ht_leaf_slot)(const void *page, HT_ENTRY entry);
extern bool HT_KEYED(ht_leaf_has_hints)(const void *page);
extern uint32_t HT_KEYED(ht_leaf_hints)(const void *page, int block);
extern void HT_KEYED(ht_leaf_set_hint)(void *page, int slot);
extern void HT_KEYED(ht_leaf_clear_hints)(void *page, const HtLeafChange *change);
extern int	HT_KEYED(ht_leaf_read_live)(const void *page, HT_KEY low_key, HT_KEY high_key, HT_ENTRY *out);
extern int	HT_KEYED(ht_leaf_read_some)(const void *page, HT_KEY low_key, HT_KEY high_key, bool live,
										int enough, HT_ENTRY *out);
extern const char *HT_KEYED(ht_leaf_check)(const void *page);
extern const char *HT_KEYED(ht_leaf_read_checked)(const void *page, HT_ENTRY *out, int *n);

/* ----------------------------------------------------------------
 *		Inner nodes (inner_template.h)
 *
 * The width is at most that of HT_KEYS; ht_node_size() and ht_node_init() are for all widths.
 * ----------------------------------------------------------------
 */
extern void HT_KEYED(ht_node_set)(void *node, HtWidth width, int fanout, int i, HT_ENTRY separator);
extern HT_ENTRY HT_KEYED(ht_node_get)(const void *node, HtWidth width, int fanout, int i);
extern int	HT_KEYED(ht_node_count_le)(const void *node, HtWidth width, int fanout, HT_ENTRY entry);
extern int	HT_KEYED(ht_node_count_lt)(const void *node, HtWidth width, int fanout, HT_ENTRY entry);

/* ----------------------------------------------------------------
 *		Sorting (radix_template.h), batches of probes (psa_template.h, search_wide.c)
 * ----------------------------------------------------------------
 */
extern void HT_KEYED(ht_sort_entries)(HT_ENTRY *entries, HT_ENTRY *scratch, size_t n);

typedef struct HT_PROBE
{
	HT_KEY		key;
	uint32_t	number;			/* index in the batch */
	uint32_t	hint;			/* block of the leaf that probably has it */
} HT_PROBE;

typedef struct HT_PSA
{
	HT_PROBE   *probes;
	uint32_t	count;
	uint32_t	sorted;
	uint32_t	largest;
	uint32_t	partitions;
	uint32_t	partition;
	uint32_t	ends[1 << HT_PSA_MAX_BITS];
} HT_PSA;

extern void HT_KEYED(ht_psa_start)(HT_PSA *psa, const HT_KEY *keys, uint32_t n, HT_PROBE *probes);
extern uint32_t HT_KEYED(ht_psa_more)(HT_PSA *psa, HT_PROBE *scratch);

typedef struct HT_SEARCH
{
	const char *name;			/* of the instruction set */
	uint32_t	(*points) (const void *page, const HT_PROBE *probes, uint32_t n,
						   HtHit *hits, HT_KEY *keys, uint32_t room, uint32_t *found);
	uint32_t	(*ranges) (const void *page, const HT_PROBE *probes, uint32_t n, HT_KEY length,
						   HtHit *hits, HT_KEY *keys, uint32_t room, uint32_t *found);
	uint32_t	(*range) (const void *page, HT_KEY low, HT_KEY high, uint32_t probe,
						  bool live, HtHit *hits, HT_KEY *keys, uint32_t room);
	bool		(*has_hints) (const void *page, const HT_PROBE *probes, uint32_t n);
	void		(*prefetch_separators) (const void *page, const HT_PROBE *probes, uint32_t n);
	void		(*prefetch_blocks) (const void *page, HT_PROBE *probes, uint32_t n, bool hints);
} HT_SEARCH;

extern const HT_SEARCH *HT_KEYED(ht_search)(const char *name);

#include "key_macros_end.h"
