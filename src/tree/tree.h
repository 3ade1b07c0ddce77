/*
 * tree.h
 *		The Harmonia tree engine: layout arithmetic and in-page search.
 *
 * This is all that the engine offers.  It is plain C without PostgreSQL
 * headers, because the server, the device daemon, unit tests and benchmarks
 * share it.  It allocates nothing, keeps no state and reports no errors other
 * than through return values; locking and logging are the caller's.
 *
 * References: Yan et al., "Harmonia: A High Throughput B+tree for GPUs",
 * PPoPP 2019 (section 3: key region, child region, Equation 1) and the
 * extended TPDS 2020 paper (section 5: coarse index inside a leaf node).
 *
 * Vocabulary
 *		entry		a (key, tid) pair.  Entries are ordered by key, then tid, and
 *					no two are equal, so every entry has exactly one place.
 *		key			unsigned integer that sorts as the indexed type does, 32 or
 *					64 bits wide on the page, always 64 bits wide in memory.
 *		tid			heap tuple identifier: block number << 16 | offset number.
 *					0 is below and HT_TID_MAX above every valid tid.
 */
#ifndef HARMONIA_TREE_H
#define HARMONIA_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HT_PAGE_SIZE	8192

/*
 * Bytes of a page that the engine may use.  What precedes is PostgreSQL's
 * page header, what follows is the access method's special area.
 */
#define HT_PAGE_START	64
#define HT_PAGE_END		8064

#define HT_TID_BITS		48
#define HT_TID_MAX		((UINT64_C(1) << HT_TID_BITS) - 1)
#define HT_TID_BYTES	6

/* Width of the keys on a page, in bytes. */
typedef enum HtWidth
{
	HT_WIDTH32 = 4,
	HT_WIDTH64 = 8
} HtWidth;

typedef struct HtEntry
{
	uint64_t	key;
	uint64_t	tid;
} HtEntry;

/* Largest key of a width; also what fills unused separators. */
static inline uint64_t
ht_key_max(HtWidth width)
{
	return width == HT_WIDTH32 ? UINT32_MAX : UINT64_MAX;
}

/* Order of two entries: negative, zero or positive. */
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
 * A leaf node is one page.  Its entries live in blocks of 128 bytes, two cache
 * lines, that hold keys and tids together:
 *
 *							64-bit keys				32-bit keys
 *		pivots				64..127: 7 (of 8)		64..127: 3 (of 16)
 *		separators			128..639: 57 (of 64)	128..383: 59 (of 64)
 *		blocks				640..8063: 58			384..8063: 60
 *		in a block: keys	+0: 9 of 8 bytes		+0: 12 of 4 bytes
 *					tids	+72: 9 of 6 bytes		+48: 12 of 6 bytes
 *					count	+126: one byte			+126: one byte
 *
 * Separator i parts block i from block i + 1: no entry of blocks 0..i has a
 * key above it, no entry of blocks i+1.. has a key below it.  Unused
 * separators are ht_key_max().  Pivot j repeats the last separator of cache
 * line j, so that a search reads one line of pivots, one of separators and
 * one block.  Separators never descend; those behind the last block with
 * entries are unused.  Any block may be empty.
 *
 * Entries are in order from block to block: all of a block are below all of
 * the next one.  Within a block they are in no particular order, so that an
 * insert changes, and logs, little more than the entry.  ht_leaf_fill() writes
 * them in order, which makes reading them quicker.  What the slots beyond the
 * count of a block hold means nothing.
 *
 * A tid is stored as a 32-bit block number followed by a 16-bit offset, in the
 * machine's byte order, unaligned.
 *
 * "page" always points to the whole page of HT_PAGE_SIZE bytes; it need not be
 * aligned to more than 8 bytes (PostgreSQL's local buffers are not).
 * ----------------------------------------------------------------
 */
#define HT_LEAF_BLOCK_SIZE		128
#define HT_LEAF_BLOCK_COUNT_AT	126
#define HT_LEAF_MAX_BLOCKS		60
#define HT_LEAF_MAX_ENTRIES		720
#define HT_LEAF_SEPARATORS_AT	128

/* Blocks of a leaf page; slots of a block; entries a page can hold. */
static inline int
ht_leaf_blocks(HtWidth width)
{
	return width == HT_WIDTH32 ? 60 : 58;
}

static inline int
ht_leaf_slots(HtWidth width)
{
	return width == HT_WIDTH32 ? 12 : 9;
}

static inline int
ht_leaf_capacity(HtWidth width)
{
	return ht_leaf_blocks(width) * ht_leaf_slots(width);
}

/* Byte offset of the first block. */
static inline int
ht_leaf_blocks_at(HtWidth width)
{
	return width == HT_WIDTH32 ? 384 : 640;
}

/*
 * What an operation changed, kept so that a caller can log just that.
 * Changes of several operations on one page add up in one HtLeafChange, which
 * starts out as zeros.  Slots beyond the count of a block by now may be among
 * those changed: an earlier operation wrote what a later one left behind.
 */
typedef struct HtLeafChange
{
	uint64_t	blocks;			/* bit b: block b changed, its count or a slot */
	uint64_t	counts;			/* bit b: the count of block b changed */
	uint64_t	separators;		/* bit i: separator i changed (and so,
								 * perhaps, a pivot) */
	uint16_t	slots[HT_LEAF_MAX_BLOCKS];	/* bit i: slot i of the block changed */
} HtLeafChange;

/* A run of bytes of a page. */
typedef struct HtByteRange
{
	uint16_t	offset;
	uint16_t	length;
} HtByteRange;

/* At most this many ranges describe a change. */
#define HT_LEAF_MAX_RANGES	832

typedef enum HtInsertResult
{
	HT_INSERTED,				/* the entry is now on the page */
	HT_PRESENT,					/* it was there already; nothing changed */
	HT_FULL						/* no slot is free; nothing changed */
} HtInsertResult;

/* Make the page an empty leaf: zero all engine bytes, separators to maximum. */
extern void ht_leaf_init(void *page, HtWidth width);

/*
 * Write n entries, in order and without duplicates, spread evenly over the
 * blocks.  0 <= n <= ht_leaf_capacity().  The page is a leaf, whose entries go,
 * or its engine bytes are zeros.  Slots beyond the count of a block keep what
 * they held, so that a page changes in few bytes when it is filled again.
 */
extern void ht_leaf_fill(void *page, HtWidth width, const HtEntry *entries, int n);

/* Entries on the page. */
extern int	ht_leaf_count(const void *page, HtWidth width);

/* Copy all entries out, in order; returns their number. */
extern int	ht_leaf_read(const void *page, HtWidth width, HtEntry *out);

/*
 * Copy out, in order, the entries whose key lies in low_key..high_key, both
 * included; returns their number.  Reads only the blocks that can hold some.
 */
extern int	ht_leaf_read_range(const void *page, HtWidth width,
							   uint64_t low_key, uint64_t high_key,
							   HtEntry *out);

/*
 * Insert an entry: it takes the next slot of its block.  A full block hands
 * one entry along to the nearest block with a free slot.  An entry above all
 * others goes to the last used block, and to the next one if that is full, so
 * that ascending inserts fill a page completely.  Now and then the whole page
 * is laid out anew, where that saves later inserts more.  Adds to *change.
 */
extern HtInsertResult ht_leaf_insert(void *page, HtWidth width, HtEntry entry,
									 HtLeafChange *change);

/*
 * Remove entries: dead[i] tells whether entry i, in the order of
 * ht_leaf_read(), goes.  Last entries of the same block fill the holes.  Adds
 * to *change.
 */
extern void ht_leaf_remove(void *page, HtWidth width, const bool *dead,
						   HtLeafChange *change);

/*
 * The bytes that a change touched, as disjoint ranges in ascending order;
 * ranges with a gap too small to pay for a new one are merged.  Writes at most
 * HT_LEAF_MAX_RANGES ranges and returns their number.
 */
extern int	ht_leaf_change_ranges(const void *page, HtWidth width,
								  const HtLeafChange *change, HtByteRange *ranges);

/*
 * The lines of 128 bytes that a change touched: bit i stands for the bytes from 128 * i on.
 */
extern uint64_t ht_leaf_change_lines(HtWidth width, const HtLeafChange *change);

/*
 * Check every invariant above.  Returns NULL if all hold, otherwise a constant
 * string that says what is wrong.
 */
extern const char *ht_leaf_check(const void *page, HtWidth width);

/* ----------------------------------------------------------------
 *		Inner nodes and the shape of a segment (inner.c)
 *
 * Key region: inner nodes in breadth-first order, each of fanout - 1
 * separators (keys first, then their tids, which only break ties), rounded up
 * to 64 bytes.  Separator i of a node parts child i from child i + 1: entries
 * of child i are below it, those of child i + 1 are not.  Unused separators
 * have the maximum key and HT_TID_MAX.
 *
 * Child region: prefix_sum[node] is the number of the node's first child.
 * Nodes are numbered in breadth-first order, leaves after all inner nodes, so
 * child i of a node is prefix_sum[node] + i (Equation 1).
 * ----------------------------------------------------------------
 */
#define HT_MIN_FANOUT	8
#define HT_MAX_FANOUT	128
#define HT_MAX_LEVELS	11		/* enough for 2^32 leaves at any fanout */

/* How a segment with room for a given number of leaves is laid out. */
typedef struct HtShape
{
	HtWidth		width;
	int			fanout;
	int			levels;			/* inner levels; 0 if one leaf is all */
	uint32_t	leaves;			/* leaves that the shape has room for */
	uint32_t	nodes;			/* inner nodes; also the number of leaf 0 */
	uint32_t	level_start[HT_MAX_LEVELS + 1];	/* first node of each level,
												 * root first;
												 * level_start[levels] = nodes */
} HtShape;

/* Compute the shape for 1 or more leaves, every node but the last of a level full. */
extern void ht_shape_init(HtShape *shape, HtWidth width, int fanout, uint32_t leaves);

/* Nodes of the bottom level, whose children are leaves (0 if levels is 0). */
static inline uint32_t
ht_shape_bottom_nodes(const HtShape *shape)
{
	return shape->levels == 0 ? 0 :
		shape->nodes - shape->level_start[shape->levels - 1];
}

/* Bytes of one node of the key region, a multiple of 64. */
extern size_t ht_node_size(HtWidth width, int fanout);

/* Make a node empty: all separators unused. */
extern void ht_node_init(void *node, HtWidth width, int fanout);

/* Write or read separator i, 0 <= i < fanout - 1. */
extern void ht_node_set(void *node, HtWidth width, int fanout, int i, HtEntry separator);
extern HtEntry ht_node_get(const void *node, HtWidth width, int fanout, int i);

/*
 * Separators not above the entry (<=), that is, the child in which the entry
 * belongs; separators below it (<), that is, the child that holds the entry's
 * predecessor.  With tid 0 both give the first child that can hold the key,
 * with HT_TID_MAX the latter gives the last one (the former would count unused
 * separators if the key is the maximum).
 */
extern int	ht_node_count_le(const void *node, HtWidth width, int fanout, HtEntry entry);
extern int	ht_node_count_lt(const void *node, HtWidth width, int fanout, HtEntry entry);

/* ----------------------------------------------------------------
 *		Sorting (radix.c)
 * ----------------------------------------------------------------
 */

/*
 * Sort entries by (key, tid).  scratch has room for n entries; the result is
 * in entries.  Digits that are the same in all keys cost nothing; input that
 * comes in tid order for equal keys costs no comparison of tids.
 */
extern void ht_sort_entries(HtEntry *entries, HtEntry *scratch, size_t n);

/* ----------------------------------------------------------------
 *		Batches of probes (psa.c, search.c)
 *
 * A probe is a key that is looked up, or the low end of a range.  A hit is an
 * entry found for a probe.
 * ----------------------------------------------------------------
 */
typedef struct HtProbe
{
	uint64_t	key;
	uint32_t	number;			/* place in the batch */
	uint32_t	hint;			/* block of its leaf that it seems to lead to */
} HtProbe;

typedef struct HtHit
{
	uint64_t	tid;
	uint32_t	probe;			/* its number */
	uint32_t	all_visible;	/* nonzero: the caller knows that the TID's page
								 * is all-visible; searches set 0 */
} HtHit;

/*
 * Eq. 2 of the PPoPP paper: by how many of their top bits a batch of keys with
 * key_bits bits has to be sorted so that probes next to each other mostly lead to the
 * same cache line of a tree with tree_keys keys, line_keys in a line:
 * N = B - log2(2^B / T * K), rounded up, which is log2(T / K) within 0..key_bits.
 */
extern int	ht_psa_bits(int key_bits, uint64_t tree_keys, int line_keys);

#define HT_PSA_MAX_BITS	10

/* A batch that is being sorted; the first four members concern others. */
typedef struct HtPsa
{
	HtProbe    *probes;
	uint32_t	count;
	uint32_t	sorted;			/* probes in final order: the first so many */
	uint32_t	largest;		/* probes of the largest partition */
	uint32_t	partitions;
	uint32_t	partition;		/* to be sorted next */
	uint32_t	ends[1 << HT_PSA_MAX_BITS];
} HtPsa;

/*
 * Partition n keys, in any order, by their top bits into "probes", which is the
 * caller's and has room for n.  Keys of a partition are below those of the next.
 */
extern void ht_psa_start(HtPsa *psa, const uint64_t *keys, uint32_t n, HtProbe *probes);

/*
 * Put one more partition, or all that hold nothing and one more, into order.
 * scratch has room for psa->largest probes.  Returns psa->sorted, which is
 * psa->count at the end.
 */
extern uint32_t ht_psa_more(HtPsa *psa, HtProbe *scratch);

/*
 * Have the cache fetch what will be read of a page some time from now.  The second-level
 * cache: first-level ones fetch too few lines at a time.  1 M random keys of 20 M: 19 M
 * look-ups a second with these, 29 M with the second level (bench/engine, Zen 4).
 */
static inline void
ht_prefetch(const void *at)
{
	__builtin_prefetch(at, 0, 2);
}

/*
 * The same for what is the first to be read of a page of memory.  Zen 4 forgets what is asked
 * of the second-level cache if it has not translated the address of late; asked of the first
 * level it does that.  1 M random keys of 67 M, on pages of 4 kB: 16 M look-ups a second
 * without this, 22 M with it.
 */
static inline void
ht_prefetch_far(const void *at)
{
	__builtin_prefetch(at, 0, 3);
}

/* Returned by HtSearch.range if its hits do not fit. */
#define HT_NO_ROOM		UINT32_MAX

/*
 * Searching leaf pages for probes, for one key width, with one instruction set.
 * Keys fit the width.  Hits go to hits and, unless NULL, their keys to keys.
 */
typedef struct HtSearch
{
	const char *name;			/* of the instruction set */

	/*
	 * Find points, in any order.  Returns how many of the probes were answered
	 * and in *found the number of their hits, at most room.  Stops before a
	 * probe when fewer than a block's slots are left of the room.  Hints may be
	 * anything; what prefetch_blocks() has left there saves time.
	 */
	uint32_t	(*points) (const void *page, const HtProbe *probes, uint32_t n,
						   HtHit *hits, uint64_t *keys, uint32_t room, uint32_t *found);

	/*
	 * Find the entries in low..high, in order of their blocks; these bounds need
	 * not fit the width.  Returns their number, or HT_NO_ROOM, having written
	 * some of them.
	 */
	uint32_t	(*range) (const void *page, uint64_t low, uint64_t high, uint32_t probe,
						  HtHit *hits, uint64_t *keys, uint32_t room);

	/*
	 * Have the cache fetch the lines of separators, or, once these are there, the
	 * blocks that probes will read.  The page may change at the same time.
	 */
	void		(*prefetch_separators) (const void *page, const HtProbe *probes, uint32_t n);
	void		(*prefetch_blocks) (const void *page, HtProbe *probes, uint32_t n);
} HtSearch;

/*
 * The variant with this name ("avx512", "avx2", "portable"), or the best one if name
 * is NULL; NULL if this machine does not support it or there is none.
 */
extern const HtSearch *ht_search(HtWidth width, const char *name);

/* ----------------------------------------------------------------
 *		Narrowed thread-group traversal (ntg.c)
 * ----------------------------------------------------------------
 */

/* How the threads of a group search a node together. */
typedef enum HtGroupSearch
{
	HT_GROUP_LINEAR,			/* front to back, as many keys a step as threads */
	HT_GROUP_KARY				/* cut what is left into threads + 1 parts a step */
} HtGroupSearch;

/* Where some queries, 1000 or so in the order in which they run, branch off. */
typedef struct HtProfile
{
	int			fanout;
	int			levels;
	uint32_t	queries;
	const uint8_t *children;	/* children[query * levels + level], below fanout */
} HtProfile;

typedef struct HtGroupChoice
{
	HtGroupSearch search;
	int			threads;		/* of a group, a power of two */
	double		warp_steps;		/* of a warp, for warp / threads queries */
} HtGroupChoice;

/* Steps that a group takes in a node to find that a child is the one. */
extern int	ht_ntg_steps(HtGroupSearch search, int fanout, int threads, int child);

/*
 * Steps that a warp takes for as many queries as it has groups, on average:
 * T(GS) of Equation 3.  threads divides warp.
 */
extern double ht_ntg_warp_steps(const HtProfile *profile, HtGroupSearch search,
								int warp, int threads);

/*
 * Choose the group: start with the widest, narrow it while that pays (Equation 4).
 * To choose between kinds of search, compare threads * warp_steps.
 */
extern HtGroupChoice ht_ntg_choose(const HtProfile *profile, HtGroupSearch search, int warp);

#endif							/* HARMONIA_TREE_H */
