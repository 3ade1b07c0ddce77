/*
 * tree.h
 *		The Harmonia tree engine: layout arithmetic and in-page search.
 *
 * This is everything that the engine offers.  It is plain C without PostgreSQL headers,
 * because the server, the device daemon, unit tests and benchmarks share it.  It
 * allocates nothing, keeps no state and reports errors only through return values.
 * Locking and logging are the caller's task.
 *
 * References: Yan et al., "Harmonia: A High Throughput B+tree for GPUs",
 * PPoPP 2019 (section 3: key region, child region, Equation 1) and the
 * extended TPDS 2020 paper (section 5: coarse index inside a leaf node).
 *
 * Vocabulary
 *		entry		a (key, tid) pair.  Entries are ordered by key, then tid, and
 *					no two are equal.
 *		key			unsigned integer that sorts as the indexed type does, of 32, 64 or
 *					128 bits; those of 32 bits take 64 in memory.
 *		tid			heap tuple identifier: block number << 16 | offset number.
 *					0 is below and HT_TID_MAX above every valid tid.
 */
#ifndef HARMONIA_TREE_H
#define HARMONIA_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HT_PAGE_SIZE 8192

/*
 * The bytes of a page that the engine uses.  Before them is PostgreSQL's page header,
 * after them the access method's special area.
 */
#define HT_PAGE_START 64
#define HT_PAGE_END 8064

#define HT_TID_BITS 48
#define HT_TID_MAX ((UINT64_C(1) << HT_TID_BITS) - 1)
#define HT_TID_BYTES 6

/*
 * Width of an index's keys, in bytes.  Nodes store keys of this width, leaves narrower ones.
 * wide.h has the functions for 128 bits.
 */
typedef enum HtWidth
{
	HT_WIDTH32 = 4,
	HT_WIDTH64 = 8,
	HT_WIDTH128 = 16
} HtWidth;

typedef struct HtEntry
{
	uint64_t key;
	uint64_t tid;
} HtEntry;

/* The largest key of a width of at most 64 bits.  Unused separators have this value. */
static inline uint64_t
ht_key_max(HtWidth width)
{
	return width == HT_WIDTH32 ? UINT32_MAX : UINT64_MAX;
}

/* Compare two entries: negative, zero or positive. */
static inline int
ht_entry_cmp(HtEntry a, HtEntry b)
{
	if (a.key != b.key)
		return a.key < b.key ? -1 : 1;
	if (a.tid != b.tid)
		return a.tid < b.tid ? -1 : 1;
	return 0;
}

/* ----------------------------------------------------------------
 *		Leaf pages (leaf.c)
 *
 * A leaf node is one page.  It says itself how wide its keys and its tids are: its
 * *shape*.  Keys are stored as their distance from the leaf's base, in 0, 16, 32 or 64 bits
 * (the *class*); the base of class 64 is 0.  All entries of a leaf of class 0 have one key, the
 * base.  Tids take 4, 5 or 6 bytes.  Entries are in blocks of 128 bytes, which are two cache
 * lines and hold keys and tids together:
 *
 *	byte	64		class: 0, 16, 32 or 64
 *			65		bytes of a tid: 4, 5 or 6
 *			66..71	0
 *
 *							class 0			class 16		class 32		class 64
 *		base				72..79			72..79			72..79			none
 *		pivots				none			80..81: 1		80..91: 3		72..127: 7
 *		separators			none			128..255: 58	128..383: 58	128..639: 57
 *		hole				128..383		256..511		384..511		8064..8143
 *		blocks				384..8063: 60	512..8063: 59	512..8063: 59	640..8063: 58
 *		slots of a block	31, 25, 21		21, 18, 15		15, 14, 12		10, 9, 9
 *							(with tids of 4, 5, 6 bytes)
 *		in a block: keys	none			+0				+0				+0
 *					tids	+0				+slots * 2		+slots * 4		+slots * 8
 *					count	+126			+126			+126			+126
 *
 * Separator i is between block i and block i + 1: no entry of blocks 0..i has a
 * key above it, no entry of blocks i+1.. has a key below it.  There is room for 64
 * separators; unused ones have all bits set.  Pivot j repeats the last separator of cache
 * line j, so that a search reads the line with the shape and the pivots, one line of
 * separators and one block.  Separators never descend; those after the last block with
 * entries are unused.  Any block may be empty.
 *
 * Entries are in order from block to block: all entries of a block are below all
 * entries of the next block.  Inside a block they are in no particular order, so that an
 * insert changes, and logs, little more than the entry.  ht_leaf_fill() writes
 * them in order, which makes reading them faster.  Slots beyond the count of a block
 * have no defined content.
 *
 * Keys are stored in the machine's byte order.  A tid is stored as a number, its lowest
 * byte first, unaligned: block << 16 | offset in 6 bytes, block << 9 | offset in 4 or 5.
 * With 4 bytes blocks are below 2^23 and offsets below 512: tables of up to 64 GB.
 *
 * The hole is for hints about entries, a bit for each slot: bit n is that of slot
 * n % slots of block n / slots.  Only functions that have "hint" in their name, and
 * ht_leaf_read_live(), touch it.  The access method lets PostgreSQL's page header say that
 * it is free.
 *
 * "page" always points to the whole page of HT_PAGE_SIZE bytes.  It is aligned to
 * 8 bytes, not necessarily to more (PostgreSQL's local buffers are not).
 *
 * The macros below are the only source of this layout, for C and for CUDA.
 * ----------------------------------------------------------------
 */
#define HT_LEAF_CLASS_AT 64
#define HT_LEAF_TID_BYTES_AT 65
#define HT_LEAF_BASE_AT 72
#define HT_LEAF_SEPARATORS_AT 128
#define HT_LEAF_LINE_SIZE 64
#define HT_LEAF_MAX_SEPARATORS 64
#define HT_LEAF_BLOCK_SIZE 128
#define HT_LEAF_BLOCK_COUNT_AT 126
#define HT_LEAF_MAX_BLOCKS 60
#define HT_LEAF_MAX_SLOTS 31
#define HT_LEAF_MAX_ENTRIES (HT_LEAF_MAX_BLOCKS * HT_LEAF_MAX_SLOTS)

/* By the bits of a stored key, and the bytes of a stored tid. */
#define HT_LEAF_PIVOTS_AT(bits) ((bits) == 64 ? 72 : 80)
#define HT_LEAF_BLOCKS(bits) ((bits) == 64 ? 58 : (bits) == 0 ? 60 : 59)
#define HT_LEAF_BLOCKS_AT(bits) ((bits) == 64 ? 640 : (bits) == 0 ? 384 : 512)
#define HT_LEAF_HOLE_AT(bits) \
	((bits) == 64 ? HT_PAGE_END : HT_LEAF_SEPARATORS_AT + HT_LEAF_MAX_SEPARATORS * (bits) / 8)
#define HT_LEAF_SLOTS(bits, tid_bytes) (HT_LEAF_BLOCK_COUNT_AT / ((bits) / 8 + (tid_bytes)))

/*
 * Leaves of indexes with keys of 128 bits (wide.h) have classes 0, 16 and 32 as above, but
 * with the base at HT_WIDE_BASE_AT and 0 at HT_LEAF_BASE_AT; and these wide classes, whose
 * blocks have 256 bytes and keep keys in *planes*: the first words of all keys, then the second
 * ones, and so on.  A word has 64 bits, the highest one is the first.  The words are followed by
 * a plane of tails of 32 bits if 64 does not divide the class.  So a vector compares the same
 * word of several keys, and most searches need the first words alone.
 *
 *	byte	64		class: 128 + bits / 8
 *			65		bytes of a tid: 4, 5 or 6
 *			66..71	0
 *			72..95	pivots: the first words of separators 7, 15 and 23
 *			96..111	base, its lowest byte first
 *			112..127	0
 *			128		separators: the first words of all 32, then the second ones, and so on
 *
 *							class 64	96			128
 *		hole				384..639	512..639	8088..8135
 *		blocks				640: 29		640: 29		640: 29
 *		slots of a block	21, 19, 18	15, 14, 14	12, 12, 11
 *							(with tids of 4, 5, 6 bytes)
 *		in a block: words	+0, plane after plane
 *					tids	+slots * class / 8
 *					count	+254
 */
#define HT_WIDE_CLASS(bits) (128 + (bits) / 8)
#define HT_WIDE_PIVOTS_AT 72
#define HT_WIDE_BASE_AT 96
#define HT_WIDE_SEPARATORS 32
#define HT_WIDE_BLOCK_SIZE 256
#define HT_WIDE_BLOCK_COUNT_AT 254
#define HT_WIDE_BLOCKS 29
#define HT_WIDE_BLOCKS_AT (HT_PAGE_END - HT_WIDE_BLOCKS * HT_WIDE_BLOCK_SIZE)
#define HT_WIDE_SLOTS(bits, tid_bytes) (HT_WIDE_BLOCK_COUNT_AT / ((bits) / 8 + (tid_bytes)))
#define HT_WIDE_HOLE_AT(bits) \
	((bits) < 128 ? HT_LEAF_SEPARATORS_AT + HT_WIDE_SEPARATORS * (bits) / 8 : 8088)

/* How a leaf stores its entries. */
typedef struct HtLeafShape
{
	uint64_t base;     /* subtracted from all keys; 0 if bits is 64 */
	uint8_t bits;      /* of a stored key: 0, 16, 32 or 64 */
	uint8_t tid_bytes; /* of a stored tid: 4, 5 or 6 */
} HtLeafShape;

/*
 * Number of blocks in a leaf page, of slots in a block, and of entries that a page can
 * hold; byte offset of the first block.
 */
static inline int
ht_leaf_blocks(HtLeafShape shape)
{
	return HT_LEAF_BLOCKS(shape.bits);
}

static inline int
ht_leaf_slots(HtLeafShape shape)
{
	return HT_LEAF_SLOTS(shape.bits, shape.tid_bytes);
}

static inline int
ht_leaf_capacity(HtLeafShape shape)
{
	return ht_leaf_blocks(shape) * ht_leaf_slots(shape);
}

static inline int
ht_leaf_blocks_at(HtLeafShape shape)
{
	return HT_LEAF_BLOCKS_AT(shape.bits);
}

/* The largest distance from the base that a class can store. */
static inline uint64_t
ht_class_max(int bits)
{
	return bits == 0 ? 0 : UINT64_MAX >> (64 - bits);
}

/* The narrowest class for keys that are at most so far from the base. */
static inline int
ht_class_for(uint64_t distance)
{
	return distance == 0 ? 0 : distance <= UINT16_MAX ? 16 : distance <= UINT32_MAX ? 32 : 64;
}

/* The shape of a class; only narrow ones have a base. */
static inline HtLeafShape
ht_leaf_shape(int bits, int tid_bytes, uint64_t base)
{
	HtLeafShape shape = {bits == 64 ? 0 : base, (uint8_t) bits, (uint8_t) tid_bytes};

	return shape;
}

/*
 * The bits of the heap blocks whose tids are stored in 4 and in 5 bytes.  With the small limits of
 * an extension for tests, small tables have tids of all widths; reading pages does not depend on
 * it.
 */
#ifdef HM_SMALL_LIMITS
#define HT_TID_4_BLOCK_BITS 6
#define HT_TID_5_BLOCK_BITS 8
#else
#define HT_TID_4_BLOCK_BITS 23
#define HT_TID_5_BLOCK_BITS 31
#endif

/* The least bytes that a tid is stored in. */
static inline int
ht_tid_bytes(uint64_t tid)
{
	if ((tid & 0xFFFF) >= UINT64_C(1) << 9 || tid >> (16 + HT_TID_5_BLOCK_BITS) != 0)
		return 6;
	return tid >> (16 + HT_TID_4_BLOCK_BITS) != 0 ? 5 : 4;
}

/* Whether a leaf of this shape can store a key, and an entry. */
static inline bool
ht_leaf_fits_key(HtLeafShape shape, uint64_t key)
{
	return key >= shape.base && key - shape.base <= ht_class_max(shape.bits);
}

static inline bool
ht_leaf_fits(HtLeafShape shape, HtEntry entry)
{
	return ht_leaf_fits_key(shape, entry.key) && ht_tid_bytes(entry.tid) <= shape.tid_bytes;
}

/*
 * Records what operations change on a page, so that a caller can log just that.
 * Several operations on one page can add to the same HtLeafChange, which starts out as
 * zeros.  Changed slots may be beyond the current count of a block: one operation has
 * written them, and a later one has removed them.
 */
typedef struct HtLeafChange
{
	uint64_t blocks;                    /* bit b: the count or a slot of block b changed */
	uint64_t counts;                    /* bit b: the count of block b changed */
	uint64_t separators;                /* bit i: separator i changed, and perhaps a pivot */
	uint32_t slots[HT_LEAF_MAX_BLOCKS]; /* bit i: slot i of the block changed */
} HtLeafChange;

/* A range of bytes in a page. */
typedef struct HtByteRange
{
	uint16_t offset;
	uint16_t length;
} HtByteRange;

/* The maximum number of ranges of a change. */
#define HT_LEAF_MAX_RANGES 840

typedef enum HtInsertResult
{
	HT_INSERTED, /* the entry is now on the page */
	HT_PRESENT,  /* it was there already; nothing changed */
	HT_FULL,     /* no slot is free; nothing changed */
	HT_NO_FIT    /* the leaf's shape cannot store the entry; nothing changed */
} HtInsertResult;

/*
 * The shape of a leaf.  If its bytes are none of a shape, which only a damaged page's
 * are, they are taken for those of the widest one.
 */
extern HtLeafShape ht_leaf_shape_of(const void *page);

/* Make the page an empty leaf: write the shape, set separators, zero the blocks. */
extern void ht_leaf_init(void *page, HtLeafShape shape);

/*
 * Replace all entries of a leaf by n entries, given in order and without duplicates,
 * spread evenly over the blocks; 0 <= n <= ht_leaf_capacity().  All fit the shape, which
 * need not be the former one.  Instead of a leaf, the page's engine bytes may be zeros.
 * Slots beyond the count of a block keep their content, so that filling a page again
 * changes few bytes.
 */
extern void ht_leaf_fill(void *page, HtLeafShape shape, const HtEntry *entries, int n);

/* The number of entries on the page. */
extern int ht_leaf_count(const void *page);

/* The number of entries in a block, and the entry in a slot of it. */
extern int ht_leaf_block_count(const void *page, int block);
extern HtEntry ht_leaf_entry(const void *page, int block, int slot);

/* Copy all entries out, in order.  Returns their number. */
extern int ht_leaf_read(const void *page, HtEntry *out);

/*
 * Copy out, in order, the entries whose key is in low_key..high_key, both included.
 * Returns their number.  Reads only the blocks that can hold such entries.
 */
extern int ht_leaf_read_range(const void *page, uint64_t low_key, uint64_t high_key, HtEntry *out);

/*
 * Insert an entry into the next slot of its block.  A full block passes one entry on,
 * towards the nearest block with a free slot.  An entry above all others goes to the
 * last used block, or to the next one if that is full, so that ascending inserts fill a
 * page completely.  If it saves later inserts more than it costs, the whole page is
 * rewritten.  Adds to *change.
 */
extern HtInsertResult ht_leaf_insert(void *page, HtEntry entry, HtLeafChange *change);

/*
 * Insert an entry if its block has a free slot, and report HT_FULL otherwise.  This reads a few
 * lines of the page, where ht_leaf_count() reads one of each block.  An entry above all others also
 * gets HT_FULL if the last used block is number "end", or a later one.  So such an entry is
 * inserted only if the blocks before "end" hold all.  Adds to *change.
 */
extern HtInsertResult ht_leaf_add(void *page, HtEntry entry, int end, HtLeafChange *change);

/*
 * Remove entries. dead[i] says whether to remove entry i, in the order of
 * ht_leaf_read().  The last entries of a block fill its holes.  Adds to *change.
 */
extern void ht_leaf_remove(void *page, const bool *dead, HtLeafChange *change);

/*
 * The bytes of a change, as disjoint ranges in ascending order.  Ranges with a very
 * small gap between them are merged, because a range of its own costs more.  Writes at
 * most HT_LEAF_MAX_RANGES ranges and returns their number.
 */
extern int ht_leaf_change_ranges(const void *page, const HtLeafChange *change, HtByteRange *ranges);

/*
 * The 128-byte lines of a change: bit i stands for the bytes from 128 * i on.
 */
extern uint64_t ht_leaf_change_lines(const void *page, const HtLeafChange *change);

/* The bytes that are left to hints, a bit for each slot; a multiple of 8. */
extern HtByteRange ht_leaf_hole(HtLeafShape shape);

/*
 * The slot that holds an entry, counted from the first slot of the first block on; -1 if
 * the page does not have the entry.
 */
extern int ht_leaf_slot(const void *page, HtEntry entry);

/*
 * Hints that entries are dead (hints.c).  None of the other functions looks at hints, or moves
 * them with the entries: after a change of the page ht_leaf_clear_hints() removes those that
 * it makes wrong, and who fills a page again zeroes the hole.  Setting a hint needs no
 * exclusive lock.
 */
extern bool ht_leaf_has_hints(const void *page);
extern uint32_t ht_leaf_hints(const void *page, int block); /* a bit for each slot */
extern void ht_leaf_set_hint(void *page, int slot);
extern void ht_leaf_clear_hints(void *page, const HtLeafChange *change);

/* ht_leaf_read_range() without entries that are hinted to be dead. */
extern int ht_leaf_read_live(const void *page, uint64_t low_key, uint64_t high_key, HtEntry *out);

/*
 * ht_leaf_read_range(), or ht_leaf_read_live() if "live" is true, for the first entries alone: it
 * ends with the block in which it has at least so many as "enough", which is not 0.  So if it
 * returns fewer, there are no others.
 */
extern int ht_leaf_read_some(const void *page, uint64_t low_key, uint64_t high_key, bool live,
							 int enough, HtEntry *out);

/* The hints of n slots, at most 32, from bit "first" on. */
static inline uint32_t
ht_hints_load(const uint8_t *hints, int first, int n)
{
	uint64_t word;

	memcpy(&word, hints + first / 8, sizeof(word));
	return (uint32_t) (word >> first % 8 & ((UINT64_C(1) << n) - 1));
}

/*
 * Check every invariant above.  Returns NULL if all hold, otherwise a constant string
 * that describes the violation.
 */
extern const char *ht_leaf_check(const void *page);

/*
 * The same, and ht_leaf_read(): the check reads all entries anyway.  *n is the number of entries.
 * If the page is damaged, neither is of use.
 */
extern const char *ht_leaf_read_checked(const void *page, HtEntry *out, int *n);

/* ----------------------------------------------------------------
 *		Inner nodes and the shape of a segment (inner.c)
 *
 * Key region: inner nodes in breadth-first order, each of fanout - 1
 * separators (keys first, then their tids, which only break ties), rounded up
 * to 64 bytes.  Separator i of a node is between child i and child i + 1: entries
 * of child i are below it, those of child i + 1 are not.  Unused separators
 * have the maximum key and HT_TID_MAX.
 *
 * Child region: prefix_sum[node] is the number of the node's first child.
 * Nodes are numbered in breadth-first order, leaves after all inner nodes, so
 * child i of a node is prefix_sum[node] + i (Equation 1).
 * ----------------------------------------------------------------
 */
#define HT_MIN_FANOUT 8
#define HT_MAX_FANOUT 128
#define HT_MAX_LEVELS 11 /* enough for 2^32 leaves at any fanout */

/* The shape of a segment with room for a given number of leaves. */
typedef struct HtShape
{
	HtWidth width;
	int fanout;
	int levels;                              /* inner levels; 0 if there is just one leaf */
	uint32_t leaves;                         /* room for this many leaves */
	uint32_t nodes;                          /* inner nodes; also the number of the first leaf */
	uint32_t level_start[HT_MAX_LEVELS + 1]; /* first node of each level, root first;
											  * level_start[levels] = nodes */
} HtShape;

/*
 * Compute the shape for 1 or more leaves.  Every node except the last of a level is
 * full.
 */
extern void ht_shape_init(HtShape *shape, HtWidth width, int fanout, uint32_t leaves);

/* Number of nodes of the bottom level, whose children are leaves; 0 if levels is 0. */
static inline uint32_t
ht_shape_bottom_nodes(const HtShape *shape)
{
	return shape->levels == 0 ? 0 : shape->nodes - shape->level_start[shape->levels - 1];
}

/* Size of one node of the key region in bytes, a multiple of 64. */
extern size_t ht_node_size(HtWidth width, int fanout);

/* Make a node empty: all separators unused. */
extern void ht_node_init(void *node, HtWidth width, int fanout);

/* Write or read separator i, 0 <= i < fanout - 1. */
extern void ht_node_set(void *node, HtWidth width, int fanout, int i, HtEntry separator);
extern HtEntry ht_node_get(const void *node, HtWidth width, int fanout, int i);

/*
 * count_le counts the separators that are not above the entry; this is the child to
 * which the entry belongs. count_lt counts those below it; this is the child that holds
 * the entry's predecessor.  With tid 0 both return the first child that can hold the
 * key.  With HT_TID_MAX count_lt returns the last such child; count_le would count
 * unused separators if the key is the maximum.
 */
extern int ht_node_count_le(const void *node, HtWidth width, int fanout, HtEntry entry);
extern int ht_node_count_lt(const void *node, HtWidth width, int fanout, HtEntry entry);

/* ----------------------------------------------------------------
 *		Sorting (radix.c)
 * ----------------------------------------------------------------
 */

/*
 * Sort entries by (key, tid). scratch has room for n entries; the result is in entries.
 * Digits that are the same in all keys are skipped.  If entries with equal keys come in
 * tid order, tids are not sorted.
 */
extern void ht_sort_entries(HtEntry *entries, HtEntry *scratch, size_t n);

/* ----------------------------------------------------------------
 *		Batches of probes (psa.c, search.c)
 *
 * A probe is a key, or the low end of a range, to be looked up.  A hit is an
 * entry found for a probe.
 * ----------------------------------------------------------------
 */
typedef struct HtProbe
{
	uint64_t key;
	uint32_t number; /* index in the batch */
	uint32_t hint;   /* block of the leaf that probably has it */
} HtProbe;

typedef struct HtHit
{
	uint64_t tid;
	uint32_t probe;       /* number of the probe */
	uint32_t all_visible; /* nonzero: the caller knows that the TID's page is all-visible; searches
						   * set 0 */
} HtHit;

/*
 * Equation 2 of the PPoPP paper: the number of top bits to sort a batch by, so that
 * neighbouring probes mostly lead to the same cache line.  Keys have key_bits bits, the
 * tree has tree_keys keys, a line has line_keys keys.  N = B - log2(2^B / T * K),
 * rounded up, which is log2(T / K), limited to 0..key_bits.
 */
extern int ht_psa_bits(int key_bits, uint64_t tree_keys, int line_keys);

#define HT_PSA_MAX_BITS 10

/*
 * The state of sorting a batch.  The first four members are for callers, the others are
 * internal.
 */
typedef struct HtPsa
{
	HtProbe *probes;
	uint32_t count;
	uint32_t sorted;  /* this many probes, from the first on, are in final order */
	uint32_t largest; /* number of probes in the largest radix partition */
	uint32_t partitions;
	uint32_t partition; /* the next one to sort */
	uint32_t ends[1 << HT_PSA_MAX_BITS];
} HtPsa;

/*
 * Distribute n keys, in any order, to radix partitions by their top bits.  Keys of a
 * radix partition are below those of the next one.  The result is in "probes", which
 * belongs to the caller and has room for n.
 */
extern void ht_psa_start(HtPsa *psa, const uint64_t *keys, uint32_t n, HtProbe *probes);

/*
 * Sort the next radix partition that is not empty. scratch has room for psa->largest
 * probes.  Returns psa->sorted, which is psa->count when all probes are sorted.
 */
extern uint32_t ht_psa_more(HtPsa *psa, HtProbe *scratch);

/*
 * Prefetch what will be read from a page some time from now, into the second-level cache:
 * first-level caches fetch too few lines at a time.  1 M random keys of 20 M: 19 M
 * look-ups a second with these, 29 M with the second level (bench/paper.sh, Zen 4).
 *
 * gcc takes a function that only prefetches for one without effects, and leaves out calls
 * of it; the empty instruction is an effect.
 */
static inline void
ht_prefetch(const void *at)
{
	__builtin_prefetch(at, 0, 2);
	__asm__ volatile("");
}

/*
 * Prefetch the first bytes that will be read from a page of memory, into the
 * first-level cache.  Zen 4 drops a prefetch into the second-level cache if it has not
 * translated the address recently; for the first level it translates it. 1 M random
 * keys of 67 M, on pages of 4 kB: 16 M look-ups a second without this, 22 M with it.
 */
static inline void
ht_prefetch_far(const void *at)
{
	__builtin_prefetch(at, 0, 3);
}

/* See HtSearch.has_hints. */
#define HT_FEW_PROBES 4

/* Returned by HtSearch.range if its hits do not fit. */
#define HT_NO_ROOM UINT32_MAX

/*
 * Functions that search leaf pages of any shape for probes, for one instruction set.  Hits
 * are written to hits and, unless keys is NULL, their keys to keys.
 */
typedef struct HtSearch
{
	const char *name; /* of the instruction set */

	/*
	 * Find points, in any order.  Returns the number of answered probes, and in *found
	 * the number of their hits, at most room.  Stops before a probe if less room is
	 * left than HT_LEAF_MAX_SLOTS.  Any hint is allowed; the right one, which
	 * prefetch_blocks() sets, saves time.
	 */
	uint32_t (*points)(const void *page, const HtProbe *probes, uint32_t n, HtHit *hits,
					   uint64_t *keys, uint32_t room, uint32_t *found);

	/*
	 * The same for ranges: each begins with its probe's key, and ends "length" above it, which is
	 * no overflow.
	 */
	uint32_t (*ranges)(const void *page, const HtProbe *probes, uint32_t n, uint64_t length,
					   HtHit *hits, uint64_t *keys, uint32_t room, uint32_t *found);

	/*
	 * Find the entries in low..high, in the order of their blocks; if "live", but those
	 * that are hinted to be dead.  Returns the number of hits; or HT_NO_ROOM if they do not
	 * fit, and then some may have been written.
	 */
	uint32_t (*range)(const void *page, uint64_t low, uint64_t high, uint32_t probe, bool live,
					  HtHit *hits, uint64_t *keys, uint32_t room);

	/*
	 * Whether hits of the probes may be hinted to be dead.  Of up to HT_FEW_PROBES probes it looks
	 * only at the blocks that their hints name, otherwise at the whole page.
	 */
	bool (*has_hints)(const void *page, const HtProbe *probes, uint32_t n);

	/*
	 * Prefetch the lines of separators that probes will read; or, once these are in the
	 * cache, the blocks and, if "hints", the hints that they have.  The page may change at the same
	 * time.
	 */
	void (*prefetch_separators)(const void *page, const HtProbe *probes, uint32_t n);
	void (*prefetch_blocks)(const void *page, HtProbe *probes, uint32_t n, bool hints);
} HtSearch;

/*
 * The functions for an instruction set ("avx512", "avx2", "portable"), or the best ones
 * if name is NULL.  Returns NULL if this machine does not support the set, or the name
 * is unknown.
 */
extern const HtSearch *ht_search(const char *name);

/* ----------------------------------------------------------------
 *		Narrowed thread-group traversal (ntg.c)
 * ----------------------------------------------------------------
 */

/* The children that some queries take in the inner nodes. */
typedef struct HtProfile
{
	int fanout;
	int root_children; /* so many at most are searched in the root */
	int levels;
	uint32_t queries;
	const uint8_t *children; /* children[query * levels + level], below fanout */

	/*
	 * Queries are searched in key order, so that those of a warp take the same children, or nearly
	 * so: each query here stands for a warp's.  Otherwise as many neighbours here as a warp has
	 * groups are searched together.
	 */
	bool sorted;
} HtProfile;

/*
 * The number of steps that a group takes in a node to find a child: a thread alone halves the
 * node, several compare its keys front to back.
 */
extern int ht_ntg_steps(int children, int threads, int child);

/*
 * The average number of steps that a warp takes for as many queries as it has groups:
 * T(GS) of Equation 3. threads divides warp.
 */
extern double ht_ntg_warp_steps(const HtProfile *profile, int warp, int threads);

/*
 * The number of threads, a power of two, with which a warp takes the fewest steps for each query.
 */
extern int ht_ntg_threads(const HtProfile *profile, int warp);

#endif /* HARMONIA_TREE_H */
