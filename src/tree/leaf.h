/*
 * leaf.h
 *		What leaf.c and leaf_wide.c share: parts of the operations on leaves, and the tables
 *		of these operations.
 */
#ifndef HARMONIA_LEAF_H
#define HARMONIA_LEAF_H

#include <string.h>

#include "wide.h"

/* Merge ranges with at most this many bytes between them: another range costs more. */
#define RANGE_MERGE_GAP 4

/*
 * If the nearest free slot is farther away than this many blocks, consider a rewrite.
 */
#define REBALANCE_DISTANCE 4

/* How entries are packed into blocks. */
typedef enum Packing
{
	PACK_EVENLY, /* evenly into all blocks */
	PACK_LOW,    /* into the first blocks, leaving no slot free */
	PACK_HIGH    /* into the last blocks, leaving no slot free */
} Packing;

/* The operations on leaves of one shape, for stored keys of each width. */
#define LEAF_FUNCTIONS(Functions, Key, Entry) \
	typedef struct Functions \
	{ \
		void (*init)(void *page, HtLeafShape shape); \
		void (*fill)(void *page, HtLeafShape shape, const Entry *entries, int n); \
		int (*count)(const void *page); \
		Entry (*entry)(const void *page, int block, int slot); \
		int (*read)(const void *page, Entry *out); \
		int (*read_range)(const void *page, Key low_key, Key high_key, const uint8_t *hints, \
						  int enough, Entry *out); \
		int (*slot)(const void *page, Entry entry); \
		HtInsertResult (*insert)(void *page, Entry entry, HtLeafChange *change); \
		HtInsertResult (*add)(void *page, Entry entry, int end, HtLeafChange *change); \
		void (*remove)(void *page, const bool *dead, HtLeafChange *change); \
		int (*change_ranges)(const HtLeafChange *change, HtByteRange *ranges); \
		const char *(*check)(const void *page, Entry *out, int *n); \
	} Functions;

LEAF_FUNCTIONS(LeafFunctions, uint64_t, HtEntry)
LEAF_FUNCTIONS(LeafFunctions_128, HtKey128, HtEntry128)

/* In an integer of 8 bytes, the lowest n bytes are these. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "tids are stored lowest byte first: load_tid() and store_tid() need big-endian versions"
#endif

/* Compilers would not inline all of their many uses; bytes is a constant at each. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

static ALWAYS_INLINE uint64_t
load_tid(const uint8_t *tids, int slot, int bytes)
{
	uint64_t stored = 0;

	memcpy(&stored, tids + slot * bytes, (size_t) bytes);
	if (bytes == HT_TID_BYTES)
		return stored;
	return stored >> 9 << 16 | (stored & 511);
}

static ALWAYS_INLINE void
store_tid(uint8_t *tids, int slot, uint64_t tid, int bytes)
{
	uint64_t stored = bytes == HT_TID_BYTES ? tid : tid >> 16 << 9 | (tid & 511);

	memcpy(tids + slot * bytes, &stored, (size_t) bytes);
}

/* The set of slots 0..n - 1. */
static inline uint32_t
slots_below(int n)
{
	return (UINT32_C(1) << n) - 1;
}

/* Sort the few entries of a block. */
#define SORT_ENTRIES(sort_entries, cmp, Entry) \
	static inline void sort_entries(Entry *entries, int n) \
	{ \
		for (int i = 1; i < n; i++) \
		{ \
			Entry entry = entries[i]; \
			int j = i; \
\
			for (; j > 0 && cmp(entries[j - 1], entry) > 0; j--) \
				entries[j] = entries[j - 1]; \
			entries[j] = entry; \
		} \
	}

SORT_ENTRIES(sort_entries, ht_entry_cmp, HtEntry)
SORT_ENTRIES(sort_entries_128, ht_entry_cmp_128, HtEntry128)

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

/* The operations on leaves of a class of tree.h (leaf.c). */
extern const LeafFunctions *ht_leaf_functions(int bits, int tid_bytes);

#endif /* HARMONIA_LEAF_H */
