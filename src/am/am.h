/*
 * am.h
 *		The harmonia index access method: page formats and what its files offer
 *		each other and the folders that build on it.
 *
 * doc/ARCHITECTURE.md tells the design, src/am/README the locking and crash
 * rules.  Read those first.
 */
#ifndef HARMONIA_AM_H
#define HARMONIA_AM_H

#include "access/amapi.h"
#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/itup.h"
#include "access/reloptions.h"
#include "datatype/timestamp.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

#include "tree/tree.h"

StaticAssertDecl(BLCKSZ == HT_PAGE_SIZE, "harmonia supports a block size of 8192 bytes only");

/* ----------------------------------------------------------------
 *		Positions and bounds
 * ----------------------------------------------------------------
 */

/*
 * The index is one ordered sequence of entries in up to three parts.  NULL
 * keys are kept apart from the rest, before or after them as the index's NULLS
 * FIRST/LAST asks; their entries have key 0.
 */
typedef enum HmPart
{
	HM_PART_NULLS_LOW = 0,
	HM_PART_KEYS = 1,
	HM_PART_NULLS_HIGH = 2
} HmPart;

/* A point in that sequence. */
typedef struct HmPosition
{
	HtEntry		entry;
	HmPart		part;
} HmPosition;

static inline int
hm_position_cmp(HmPosition a, HmPosition b)
{
	if (a.part != b.part)
		return a.part < b.part ? -1 : 1;
	return ht_entry_cmp(a.entry, b.entry);
}

static inline HmPosition
hm_position(HmPart part, uint64 key, uint64 tid)
{
	HmPosition	result;

	result.entry.key = key;
	result.entry.tid = tid;
	result.part = part;
	return result;
}

static inline uint64
hm_tid_pack(ItemPointer tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
hm_tid_unpack(uint64 packed, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (packed >> 16), (OffsetNumber) (packed & 0xFFFF));
}

/* Whether a row may be there, in some table. */
static inline bool
hm_tid_is_valid(uint64 packed)
{
	return OffsetNumberIsValid((OffsetNumber) packed) &&
		BlockNumberIsValid((BlockNumber) (packed >> 16));
}

/* ----------------------------------------------------------------
 *		Pages
 *
 * Every page but a never-used one has a special area of 128 bytes.  pd_lower
 * equals pd_upper on all pages, so there is no hole and all bytes are logged.
 * ----------------------------------------------------------------
 */
#define HM_METAPAGE_BLKNO	0

#define HM_MAGIC			0x48524D4E	/* "HRMN" */
#define HM_FORMAT_VERSION	1
#define HM_ENDIAN_MARKER	0x0102
#define HM_PAGE_ID			0xFF8A	/* last two bytes of every page */

typedef enum HmPageKind
{
	HM_PAGE_META = 1,
	HM_PAGE_DIRECTORY = 2,
	HM_PAGE_SEGMENT = 3,		/* a segment's header */
	HM_PAGE_KEYS = 4,			/* key region beyond what the header holds */
	HM_PAGE_AUXILIARY = 5,		/* auxiliary node */
	HM_PAGE_LEAF = 6,
	HM_PAGE_SPARE = 7			/* block of an extent, not used yet */
} HmPageKind;

/* HmSpecial.flags */
#define HM_HAS_HIGH		0x01	/* high is a bound; otherwise the page reaches
								 * to the end of its part */

typedef struct HmSpecial
{
	uint64		stamp;			/* of the segment the page belongs to; never
								 * reused */
	HtEntry		low;			/* leaf: no entry is below this */
	HtEntry		high;			/* leaf: all entries are below this */
	BlockNumber right;			/* leaf: next one in the segment, or invalid */
	BlockNumber segment;		/* block of the segment's header */
	uint8		part;			/* HmPart */
	uint8		flags;
	uint8		unused[74];
	uint16		kind;			/* HmPageKind */
	uint16		page_id;		/* HM_PAGE_ID */
} HmSpecial;

StaticAssertDecl(sizeof(HmSpecial) == BLCKSZ - HT_PAGE_END, "special area does not fit");

static inline HmSpecial *
hm_page_special(Page page)
{
	return (HmSpecial *) ((char *) page + HT_PAGE_END);
}

static inline HmPosition
hm_page_low(Page page)
{
	HmSpecial  *special = hm_page_special(page);

	return hm_position((HmPart) special->part, special->low.key, special->low.tid);
}

static inline bool
hm_page_has_high(Page page)
{
	return (hm_page_special(page)->flags & HM_HAS_HIGH) != 0;
}

/*
 * The bound above all entries of a leaf: its high key or, for the last leaf of
 * a part, the beginning of the next part.
 */
static inline HmPosition
hm_page_high(Page page)
{
	HmSpecial  *special = hm_page_special(page);

	if (special->flags & HM_HAS_HIGH)
		return hm_position((HmPart) special->part, special->high.key, special->high.tid);
	return hm_position((HmPart) (special->part + 1), 0, 0);
}

/* ----------------------------------------------------------------
 *		Directory and metapage
 * ----------------------------------------------------------------
 */

/*
 * Where a segment (or, in a root of depth 1, a directory page) begins.  The stamp
 * tells the segment meant from others that had, or will have, their header in
 * the same block: an entry in an old copy of the root must not lead to one that
 * a movement is still writing, or has given up.
 */
typedef struct HmDirectoryEntry
{
	uint64		key;
	uint64		tid:48,
				part:16;
	BlockNumber block;
	uint32		stamp;			/* lower half of the segment's stamp; 0 for a
								 * directory page */
} HmDirectoryEntry;

#define HM_DIRECTORY_AT			64

/*
 * Limits.  The small ones are for testing: they let what only happens in large
 * indexes happen in small ones.  The on-disk format differs, so the metapage says
 * which ones an index has been built with.
 */
#ifdef HM_SMALL_LIMITS
#define HM_META_LIMITS			HM_META_SMALL_LIMITS
#define HM_DIRECTORY_MAX		50
#define HM_ROOT_MAX				40
#define HM_FREE_MAX				5
#define HM_SEGMENT_MAX_BLOCKS	12
#define HM_SEGMENT_MAX_EXTENTS	5
#else
#define HM_META_LIMITS			0
#define HM_DIRECTORY_MAX		333 /* entries of a directory page */
#define HM_ROOT_MAX				192 /* entries of the root, in the metapage;
									 * no more than of a directory page */
#define HM_FREE_MAX				240 /* free extents in the metapage */
#define HM_SEGMENT_MAX_BLOCKS	1024	/* of a segment's main extent */
#define HM_SEGMENT_MAX_EXTENTS	24
#endif

/* Body of a directory page. */
typedef struct HmDirectory
{
	uint32		count;
	uint32		unused;
	HmDirectoryEntry entries[HM_DIRECTORY_MAX];
} HmDirectory;

StaticAssertDecl(HM_DIRECTORY_AT + sizeof(HmDirectory) <= HT_PAGE_END, "directory does not fit");

/* A run of blocks. */
typedef struct HmExtent
{
	BlockNumber start;
	uint32		length;
} HmExtent;

/* HmMeta.flags */
#define HM_META_SMALL_LIMITS	0x01

typedef struct HmMeta
{
	uint32		magic;
	uint16		version;
	uint16		endian;
	uint32		block_size;
	Oid			key_type;		/* type whose normalised keys are stored */
	uint16		width;			/* HtWidth */
	uint16		fanout;
	uint8		nulls_low;		/* NULL keys precede the others */
	uint8		depth;			/* 0: the root's entries are segments, 1:
								 * directory pages */
	uint16		flags;
	uint64		build_id;		/* random, tells one build from another */
	uint64		next_stamp;
	uint64		retired;		/* segments retired so far */
	uint64		drained;		/* value of retired that VACUUM has drained */
	uint32		root_count;
	uint32		free_count;
	HmDirectoryEntry root[HM_ROOT_MAX];
	HmExtent	free[HM_FREE_MAX];	/* sorted by start, never adjacent */
	TimestampTz last_movement;	/* when retired grew last, or 0 */
} HmMeta;

StaticAssertDecl(HM_DIRECTORY_AT + sizeof(HmMeta) <= HT_PAGE_END, "metapage does not fit");

static inline HmMeta *
hm_page_meta(Page page)
{
	return (HmMeta *) ((char *) page + HM_DIRECTORY_AT);
}

static inline HmDirectory *
hm_page_directory(Page page)
{
	return (HmDirectory *) ((char *) page + HM_DIRECTORY_AT);
}

/* ----------------------------------------------------------------
 *		Segments
 * ----------------------------------------------------------------
 */
/* HmSegment.state */
#define HM_SEGMENT_DEAD		0x01	/* replaced; start again from the directory */
#define HM_SEGMENT_MOVING	0x02	/* movement under way: writers must wait */

/*
 * A segment's header.  Behind it on the page follow the child region
 * (nodes prefix sums), the auxiliary node's block for each bottom node, and
 * from key_region_at the first nodes of the key region.
 *
 * The main extent is: header, key pages, leaves.  Further extents hold leaves
 * and auxiliary nodes that splits needed.
 */
typedef struct HmSegment
{
	uint64		stamp;
	HtEntry		low;
	HtEntry		high;			/* valid with HM_HAS_HIGH in the special area */
	uint32		state;
	uint16		fanout;
	uint16		levels;
	uint32		nodes;			/* inner nodes; the number of leaf 0 */
	uint32		bottom_start;	/* first node whose children are leaves */
	uint32		leaf_room;		/* leaves that the main extent has blocks for */
	uint32		pure_leaves;	/* of those, in use by number: leaf i is block
								 * leaf_base + i */
	uint32		tail_used;		/* of those, taken from the end by splits that
								 * shadow a node */
	uint32		leaves;			/* all leaves */
	uint32		auxiliaries;	/* auxiliary nodes */
	BlockNumber key_base;		/* first key page */
	BlockNumber leaf_base;
	uint32		key_region_at;	/* byte offset of node 0 on this page */
	uint32		nodes_here;		/* nodes on this page */
	uint32		nodes_per_page; /* nodes on a key page */
	uint32		extent_count;
	uint32		spare_used;		/* blocks used of the last extent, if it is
								 * not the main one */
	HmExtent	extents[HM_SEGMENT_MAX_EXTENTS];	/* main one first */
	uint32		child_region[FLEXIBLE_ARRAY_MEMBER];	/* nodes entries, then
														 * the auxiliary blocks
														 * of the bottom nodes */
} HmSegment;

static inline HmSegment *
hm_page_segment(Page page)
{
	return (HmSegment *) ((char *) page + HM_DIRECTORY_AT);
}

/* Auxiliary nodes' blocks, one for each bottom node, or InvalidBlockNumber. */
static inline BlockNumber *
hm_segment_auxiliaries(HmSegment *segment)
{
	return segment->child_region + segment->nodes;
}

/* Auxiliary nodes: explicit children of a bottom node whose leaves split. */
#define HM_AUXILIARY_MAX	440

typedef struct HmAuxiliary
{
	uint32		count;			/* children */
	uint32		node;			/* bottom node this stands in for */
	uint64		keys[HM_AUXILIARY_MAX]; /* low bound of each child; the
										 * first's is not used */
	BlockNumber children[HM_AUXILIARY_MAX];
	uint16		tids[HM_AUXILIARY_MAX][3];	/* high, middle, low 16 bits */
} HmAuxiliary;

StaticAssertDecl(HM_DIRECTORY_AT + sizeof(HmAuxiliary) <= HT_PAGE_END, "auxiliary node does not fit");

static inline HmAuxiliary *
hm_page_auxiliary(Page page)
{
	return (HmAuxiliary *) ((char *) page + HM_DIRECTORY_AT);
}

/* Nodes on a key page begin here. */
#define HM_KEYS_AT	64

/* ----------------------------------------------------------------
 *		Options (handler.c)
 * ----------------------------------------------------------------
 */
#define HM_DEFAULT_FANOUT		64
#define HM_DEFAULT_FILLFACTOR	90
#define HM_MIN_FILLFACTOR		10

typedef struct HmOptions
{
	int32		vl_len_;
	int			fanout;
	int			fillfactor;
} HmOptions;

/* Register the reloptions; call once, from _PG_init. */
extern void hm_options_init(void);

/* Options in force for an index. */
extern int	hm_fanout(Relation index);
extern int	hm_fillfactor(Relation index);

/* ----------------------------------------------------------------
 *		Keys (keys.c): values to normalised keys and back
 * ----------------------------------------------------------------
 */
typedef struct HmKeyType
{
	Oid			type;
	HtWidth		width;
	bool		returnable;		/* the value can be given back bit for bit */
	uint64		(*normalise) (Datum value);

	/* The same for values as an array without NULLs has them; in their place, if as wide. */
	void		(*normalise_all) (const char *values, Size count, uint64 *keys);
	Datum		(*restore) (uint64 key);	/* NULL unless returnable */
} HmKeyType;

/*
 * The key type of an index's column, by its operator class's input type.
 * Errors: feature_not_supported for a type this method does not know.
 */
extern const HmKeyType *hm_key_type(Relation index);

/* The same by type; NULL if the type is not supported. */
extern const HmKeyType *hm_key_type_lookup(Oid type);

/* ----------------------------------------------------------------
 *		Memory (memory.c)
 * ----------------------------------------------------------------
 */

/*
 * Allocate memory for an array of any size in the current memory context, of huge pages
 * where the system has them for who asks: each page that is touched first takes a
 * fault, and those took a tenth of a lookup of a million keys.
 */
extern void *hm_alloc_large(Size size);

/* ----------------------------------------------------------------
 *		Brackets (bracket.c): comparison arguments among a column's keys
 * ----------------------------------------------------------------
 */

/*
 * The keys that bracket a value, in the order that the operators define.  If the
 * column can have the value, first and last are its key.  If the value falls between
 * two keys, they are those keys: first is the upper, last the lower one.
 */
typedef struct HmBracket
{
	uint64		first;			/* least key not below the value */
	uint64		last;			/* greatest key not above the value */
	bool		has_first;		/* false: the value is above all keys */
	bool		has_last;		/* false: the value is below all keys */
	bool		fuzzy;			/* the value is somewhere in first..last, and
								 * keys in there may be below, equal or above */
} HmBracket;

typedef HmBracket (*HmBracketFunction) (const HmKeyType *column, Datum value);

/*
 * The function that finds values of one type among the keys of a column of
 * another (or the same), NULL if the types have no operators in common.
 */
extern HmBracketFunction hm_bracket_function(Oid column, Oid argument);

/* ----------------------------------------------------------------
 *		Qualifications (quals.c): scan keys to ranges
 * ----------------------------------------------------------------
 */

/*
 * Ranges of positions to be scanned: disjoint, in ascending order.  Both
 * bounds are keys and included; tids do not matter.
 */
typedef struct HmRange
{
	HmPart		part;
	uint64		low;
	uint64		high;
} HmRange;

typedef struct HmRanges
{
	int			count;
	HmRange    *ranges;			/* palloc'd in the current memory context */
	bool		recheck;		/* ranges may hold entries that do not match */
} HmRanges;

/*
 * The keys, up to max, that stand in a strategy's relation to a bracketed value;
 * false if there are none.  If the bracket is fuzzy: all keys that may do so.
 */
extern bool hm_bracket_range(StrategyNumber strategy, const HmBracket *bracket, uint64 max,
						   uint64 *low, uint64 *high);

/*
 * Turn the scan keys of an index scan into ranges.  No key at all gives every
 * part.  Contradictions and NULL arguments give no range.  Array keys
 * (SK_SEARCHARRAY), IS NULL, IS NOT NULL and all cross-type operators of the
 * operator families are understood.
 */
extern void hm_ranges_from_keys(Relation index, bool nulls_low,
								ScanKey keys, int nkeys, HmRanges *result);

/*
 * The keys that a scan key names, if it is `= ANY (array)` and each element stands for
 * one key or none: as they come, the same perhaps more than once.  Returns false if it
 * is not.  *points is in memory of the current context that its reset frees.
 */
extern bool hm_points_from_key(Relation index, ScanKey key, uint64 **points, uint32 *count);

/* ----------------------------------------------------------------
 *		Page access (page.c)
 * ----------------------------------------------------------------
 */

/* Initialise a page, special area included; all else is zero. */
extern void hm_page_init(Page page, HmPageKind kind, uint64 stamp,
						 BlockNumber segment, HmPart part);

/* Fill in a new index's metapage. */
extern void hm_meta_init(Relation index, Page page);

/* Whether the page is one of ours and of this kind. */
extern bool hm_page_is(Page page, HmPageKind kind);

/* Whether a page, locked, is the header that a segment's directory entry means. */
extern bool hm_page_is_segment_of(Page page, const HmDirectoryEntry *entry);

/*
 * Check that a page is one of ours and of this kind.
 * Errors: index_corrupted; for the metapage also an unknown on-disk version.
 */
extern void hm_page_check(Relation index, Buffer buffer, HmPageKind kind);

/*
 * Check that the entries of a leaf, locked, are as they should be; before they
 * are copied to other leaves.
 * Errors: index_corrupted.
 */
extern void hm_leaf_check(Relation index, Buffer buffer, HtWidth width);

/*
 * Check that a block that a page refers to can be read: it is neither the
 * metapage nor no block, which would be taken for a wish for a new one.
 * Errors: index_corrupted.
 */
extern void hm_block_check(Relation index, BlockNumber block);

/* Errors: index_corrupted, for an entry that refers to no row that can be. */
extern void hm_tid_report(Relation index, uint64 packed);

/*
 * Check a TID of an entry that leaves the index: the server takes for granted that a
 * row may be there, and a missing block number for a wish for a new block.
 * Errors: index_corrupted.
 */
static inline void
hm_tid_check(Relation index, uint64 packed)
{
	if (unlikely(!hm_tid_is_valid(packed)))
		hm_tid_report(index, packed);
}

/* Errors: index_corrupted, for a walk that would not get on from this leaf. */
extern void hm_page_no_progress(Relation index, Buffer buffer);

/*
 * Read and lock the metapage, checked.  lock is BUFFER_LOCK_SHARE or
 * BUFFER_LOCK_EXCLUSIVE; the caller releases the buffer.
 */
extern Buffer hm_meta_buffer(Relation index, int lock);

/* What a backend remembers of the metapage, valid for the relcache entry's life. */
typedef struct HmCache
{
	HtWidth		width;
	int			fanout;
	bool		nulls_low;
	int			depth;
	uint32		root_count;
	HmDirectoryEntry root[HM_ROOT_MAX];
} HmCache;

/* That, read if need be; renewed from the metapage if renew is true. */
extern HmCache *hm_cache(Relation index, bool renew);

/* Whether all that the copy refers to lies within the file. */
extern bool hm_cache_is_current(Relation index);

/* ----------------------------------------------------------------
 *		Heavyweight locks (locks.c)
 *
 * All are released at abort.  The caller holds no buffer lock.  lock_timeout, which is about
 * locks that users know of, does not apply.
 * ----------------------------------------------------------------
 */

/* Wait events, named so on PostgreSQL 17 and later. */
#define HM_WAIT_MOVEMENT		"HarmoniaMovement"
#define HM_WAIT_ALLOCATION		"HarmoniaAllocation"

/*
 * Wait for one or two milliseconds before looking again whether another backend has come to
 * an end; *pauses, 0 at first, counts the calls.
 * Errors: query_canceled and its like.
 */
extern void hm_pause(int *pauses, const char *event);

/* The mover's lock on a segment, by the block of its header. */
extern void hm_movement_lock(Relation index, BlockNumber header);
extern void hm_movement_unlock(Relation index, BlockNumber header);

/* Keep movers out, for a moment; false if one has the lock. */
extern bool hm_movement_keep_out(Relation index, BlockNumber header);
extern void hm_movement_let_in(Relation index, BlockNumber header);

/*
 * While a backend owns blocks that neither the directory nor the free list knows of, it holds
 * the allocation lock in share mode, so that VACUUM does not take them for lost ones.
 */
extern void hm_allocation_lock(Relation index);
extern void hm_allocation_unlock(Relation index);

/* Keep all others from that; false if another backend has the lock. */
extern bool hm_allocation_keep_out(Relation index);
extern void hm_allocation_let_in(Relation index);

/*
 * A backend that trusts a TID together with the visibility map, without a pin on the leaf
 * it was read from, is inside the visibility gate from before it reads the leaf until after
 * it reads the map.  "enter" never waits, and returns the door to leave by.
 */
extern BlockNumber hm_visibility_gate_enter(Relation index);
extern void hm_visibility_gate_leave(Relation index, BlockNumber door);

/*
 * Hits that a lookup may read and look up in the map between entering the gate and leaving
 * it, so that VACUUM does not wait long.
 */
#ifdef HM_SMALL_LIMITS
#define HM_GATE_MAX_HITS		2048
#else
#define HM_GATE_MAX_HITS		(1024 * 1024)
#endif

/*
 * Wait until all that are inside now have left; those that come meanwhile do not wait.  For
 * VACUUM, before it goes on to the heap; only one backend at a time may drain an index's gate.
 */
extern void hm_visibility_gate_drain(Relation index);

/* ----------------------------------------------------------------
 *		Logging (wal.c)
 * ----------------------------------------------------------------
 */

/*
 * Log a change of a leaf's entries as a generic WAL record and set the page's
 * LSN.  The caller holds the buffer exclusively locked, is in a critical
 * section, has changed the page and marked it dirty.
 */
extern void hm_log_leaf_change(Relation index, Buffer buffer, HtWidth width,
							   const HtLeafChange *change);

/*
 * Log a page that hm_page_init() has just made, in few bytes, so that what is
 * put there can be logged as a change.  The caller holds the buffer exclusively
 * locked, is in a critical section and has marked the page dirty.
 */
extern void hm_log_blank_page(Relation index, Buffer buffer);

/* ----------------------------------------------------------------
 *		Extents (extent.c): runs of blocks, used, free and new
 * ----------------------------------------------------------------
 */

/*
 * What blocks are for.  A segment gets the first free extent that is long enough, so
 * that the end of the file becomes free.  What splits and the directory take, at
 * most 128 blocks, comes from the shortest, so that long ones stay whole.
 */
typedef enum HmExtentUse
{
	HM_EXTENT_FOR_SEGMENT,
	HM_EXTENT_FOR_FEW
} HmExtentUse;

/* Take length blocks; the caller holds the allocation lock and holds no buffer lock. */
extern BlockNumber hm_extent_allocate(Relation index, uint32 length, HmExtentUse use);

/* Whether there is a free extent of this length that ends at the limit or before. */
extern bool hm_extent_fits_below(Relation index, uint32 length, BlockNumber limit);

/* Give blocks back; the same conditions. */
extern void hm_extent_free(Relation index, const HmExtent *extents, int count);

/* A stamp that no page has had. The caller holds no buffer lock. */
extern uint64 hm_stamp_allocate(Relation index);

/* What a sweep found. */
typedef struct HmSweep
{
	BlockNumber free;			/* blocks, listed or not */
	BlockNumber end;			/* of the file, or of what is listed of it */
} HmSweep;

/*
 * Rebuild the list of free extents from what live segments do not use.  Does
 * nothing if somebody holds the allocation lock.  Blocks at the end of the file that were
 * never logged are left alone if "leave_end" is true and they are worth truncating;
 * the caller sees to that.
 */
extern HmSweep hm_extents_sweep(Relation index, bool leave_end);

/* The beginning of the listed free extent that ends at "end"; end if there is none. */
extern BlockNumber hm_extents_free_end(Relation index, BlockNumber end);

/*
 * The beginning of the free blocks at the end of the file, whether listed or left alone by a
 * sweep.  The caller has locked the index against everybody.
 */
extern BlockNumber hm_extents_end(Relation index);

/* List blocks that a sweep has left alone at the end of the file. */
extern void hm_extents_keep_end(Relation index);

/* ----------------------------------------------------------------
 *		Truncation (truncate.c)
 * ----------------------------------------------------------------
 */

/* Whether so many free blocks at the end of a file are worth being given back. */
extern bool hm_worth_truncating(BlockNumber free, BlockNumber blocks);

/* Whether the transaction can truncate anything: a parallel worker's own does not commit. */
extern bool hm_can_truncate(void);

/*
 * Have the transaction give free blocks at the end of the file back to the file system when
 * it commits, if they are worth it and nobody else uses the index then.  Blocks from "end" on are
 * free, though not listed.  Returns the number of blocks that would go.
 */
extern BlockNumber hm_truncate_at_commit(Relation index, BlockNumber end);

/* Register the callback; call once, from _PG_init. */
extern void hm_truncate_init(void);

/* ----------------------------------------------------------------
 *		Directory (directory.c)
 * ----------------------------------------------------------------
 */

typedef enum HmSearch
{
	HM_AT_OR_AFTER,				/* the segment that covers the position, else
								 * the next one that has any entries' room */
	HM_BEFORE					/* the segment that covers what comes right
								 * before the position */
} HmSearch;

/*
 * Enter a segment: read its header, locked as asked (BUFFER_LOCK_SHARE or
 * BUFFER_LOCK_EXCLUSIVE), alive at the time of the call.  *position becomes
 * the beginning of the segment if it lay between segments' parts.  Returns
 * InvalidBuffer if there is no segment in that direction.  Holds no other lock
 * on return.  The caller holds no buffer lock.
 */
extern Buffer hm_segment_enter(Relation index, HmPosition *position,
							   HmSearch search, int lock);

/*
 * Likewise for a writer, with HM_AT_OR_AFTER: waits until no movement is under
 * way in the segment.  Returns InvalidBuffer if the position's part has no
 * segment at all.
 */
extern Buffer hm_segment_enter_to_write(Relation index, HmPosition position, int lock);

/*
 * Whether what a search looks for lies in the segment with this header page,
 * which the caller has locked.
 */
extern bool hm_segment_covers(Page header, HmPosition position, HmSearch search);

/*
 * Changing the directory.  "begin" finds the page where an entry with this low
 * bound stands or belongs, makes room for count more and locks that page and
 * the metapage; "apply" registers the page with a generic WAL record and writes
 * the entries in the place of "replaced" ones, of which the first has the first
 * entry's bound, or adds them if replaced is 0; "end" releases.  The caller is
 * holds the allocation lock, holds no buffer lock at "begin", and locks other pages after
 * it.
 */
typedef struct HmDirectoryEdit
{
	Buffer		meta;
	Buffer		page;			/* InvalidBuffer if the root is the page */
	int			emptied;		/* place in the root of a directory page that
								 * goes, or 0 */
} HmDirectoryEdit;

extern void hm_directory_begin(Relation index, HmPosition low, int count,
							   HmDirectoryEdit *edit);
extern bool hm_directory_has_part(HmDirectoryEdit *edit, HmPart part);

/*
 * Whether the entry after the one with this bound is that of the segment at
 * block, and "apply" could replace both.
 */
extern bool hm_directory_has_next(Relation index, HmDirectoryEdit *edit, HmPosition low,
								  BlockNumber block);

/*
 * The same for now, where nobody is about to change anything.  The caller holds no
 * buffer lock.
 */
extern bool hm_directory_could_join(Relation index, HmPosition low, BlockNumber block);
extern void hm_directory_apply(HmDirectoryEdit *edit, GenericXLogState *state,
							   int replaced, const HmDirectoryEntry *entries, int count);
extern void hm_directory_end(HmDirectoryEdit *edit);

/*
 * All segments' entries, in order, palloc'd, and the blocks of the directory
 * pages.  Locks the metapage while it reads.
 */
extern HmDirectoryEntry *hm_directory_read(Relation index, int *count,
										   BlockNumber **pages, int *page_count);

/* ----------------------------------------------------------------
 *		Segments (segment.c)
 * ----------------------------------------------------------------
 */

/* Leaves that fit in an extent of so many blocks, header included. */
extern uint32 hm_segment_room(HtWidth width, int fanout, uint32 blocks);

/* Blocks that a segment with this leaf room takes, header included. */
extern uint32 hm_segment_blocks(HtWidth width, int fanout, uint32 leaf_room);

/* Entries that a build or a movement puts on a leaf. */
extern int	hm_leaf_target(Relation index, HtWidth width);

typedef struct HmSegmentSpec
{
	HtWidth		width;
	int			fanout;
	HmPart		part;
	HtEntry		low;
	HtEntry		high;
	bool		has_high;
	uint64		stamp;
	BlockNumber start;			/* block of the header */
	uint32		leaf_room;
	uint32		leaves;			/* to be filled, 1 <= leaves <= leaf_room */
} HmSegmentSpec;

/*
 * Lay out a whole segment in memory: the header, the key pages and the leaves
 * in use, with n entries spread evenly over the leaves.  image has room for
 * hm_segment_blocks(leaf_room) pages; pages of leaves not in use are left
 * alone.  Returns the number of pages made.
 */
extern uint32 hm_segment_image(const HmSegmentSpec *spec, const HtEntry *entries,
							   uint64 n, char *image);

/*
 * The separator that parts leaf (1 or more) from the leaf before it: its node
 * and its place in the node.
 */
extern void hm_segment_separator(const HmSegment *segment, uint32 leaf,
								 uint32 *node, int *slot);

/* Where node stands: 0 is the header page, n the n-th key page; byte offset. */
extern uint32 hm_node_page(const HmSegment *segment, HtWidth width, uint32 node,
						   uint32 *offset);

/*
 * Write the pages of an image into the blocks of an extent, with full-page
 * images in WAL.  The caller holds no buffer lock; the blocks are its own.
 */
extern void hm_segment_write(Relation index, BlockNumber start, const char *image,
							 uint32 pages);

/*
 * Check that a locked page of kind HM_PAGE_SEGMENT can be used: nothing that
 * is reached by its numbers lies outside of a page.
 * Errors: index_corrupted.
 */
extern void hm_segment_check(Relation index, Buffer header, HtWidth width);

/* Search an auxiliary node: the child for an entry, or for its predecessor. */
extern int	hm_auxiliary_child(const HmAuxiliary *auxiliary, HtEntry entry, bool before);

/* The low bound of child i of an auxiliary node; of no meaning for the first. */
static inline HtEntry
hm_auxiliary_low(const HmAuxiliary *auxiliary, int i)
{
	HtEntry		low;

	low.key = auxiliary->keys[i];
	low.tid = ((uint64) auxiliary->tids[i][0] << 32) |
		((uint64) auxiliary->tids[i][1] << 16) | auxiliary->tids[i][2];
	return low;
}

/* Set child i of an auxiliary node. */
extern void hm_auxiliary_set(HmAuxiliary *auxiliary, int i, HtEntry low, BlockNumber child);

/*
 * Find the leaf for an entry: the one in which it belongs or, with before, the
 * one that holds its predecessor.  The caller holds the header's lock, in
 * either mode.  Returns the leaf's buffer, pinned, not locked.
 */
extern Buffer hm_segment_descend(Relation index, Buffer header, HtEntry entry,
								 bool before, BufferAccessStrategy strategy);

/* ----------------------------------------------------------------
 *		Insertion (insert.c), movement (movement.c), batches (batch.c)
 * ----------------------------------------------------------------
 */

/*
 * Insert entries of one part, sorted and without duplicates.  An entry that is
 * there already is left alone.  The caller holds no buffer lock.
 */
extern void hm_insert_sorted(Relation index, HmPart part,
							 const HtEntry *entries, int64 n);

/* What a segment is known by. */
typedef struct HmSegmentName
{
	BlockNumber header;
	uint64		stamp;
} HmSegmentName;

/*
 * Movement: rewrite one segment, or two neighbours together, in pure Harmonia
 * layout, as one or more new segments.  Leaves that have been split keep some room,
 * unless "pack" asks for leaves as full as a build makes them.  Does nothing and returns false if they
 * have been replaced already or cannot be replaced together.  last_header, if
 * not NULL, becomes the header of the last new segment.  The caller holds no
 * buffer lock and does not hold the allocation lock.
 */
extern bool hm_segments_move(Relation index, const HmSegmentName *segments, int count,
							 bool pack, BlockNumber *last_header);

/* What is known of a segment when it comes to whether it should be moved. */
typedef struct HmSegmentUse
{
	HmSegmentName name;
	HmPosition	low;
	uint64		entries;
	uint32		leaves;
	uint32		pure_leaves;
	bool		grows;			/* the last of its part, room for leaves left */
} HmSegmentUse;

/* Segments that a walk in key order came by; palloc'd. */
typedef struct HmSegmentUses
{
	int			count;
	int			room;
	HmSegmentUse *items;
} HmSegmentUses;

extern void hm_segment_uses_init(HmSegmentUses *uses);

/*
 * What is known of the segment with this header, locked; begins with its
 * header's counts and no entries, which are the caller's to add.
 */
extern HmSegmentUse *hm_segment_uses_note(HmSegmentUses *uses, Buffer header);

/*
 * Move what is worth it: segments that are sparse or shadowed, all that could
 * be packed better if "all" is true, and join small neighbours.  Returns the
 * number of movements.  The caller holds no lock but on the relation.
 */
extern int	hm_reorganize(Relation index, HmSegmentUses *uses, bool all);

/*
 * Rebuild the list of free extents, have the commit give free blocks at the end of the file
 * back, and before that, if more than half of the file is free or "always" is true, move
 * segments from there to free extents before them.  Returns the number of movements and, if
 * free_blocks is not NULL, there that of free blocks; the same conditions.
 */
extern int	hm_compact(Relation index, bool always, BlockNumber *free_blocks);

/*
 * Offer an entry to the statement's batch.  Returns true if the batch took it,
 * false if it has to be inserted at once.
 */
extern bool hm_batch_add(Relation index, Relation heap, IndexInfo *info,
						 IndexUniqueCheck check, HmPart part, HtEntry entry);

/* Apply what is queued for one index, or for all. */
extern void hm_batch_apply(Relation index);
extern void hm_batch_apply_all(void);

/* Whether anything is queued for this index. */
extern bool hm_batch_pending(Relation index);

/* Install the hooks and callbacks, define the GUCs; call once, from _PG_init. */
extern void hm_batch_init(void);

/* ----------------------------------------------------------------
 *		Sorting for a build (buildscan.c, buildsort.c)
 * ----------------------------------------------------------------
 */

/* Phases of a build that it reports; the server reports 1, initializing. */
#define HM_BUILD_PHASE_SCAN		2
#define HM_BUILD_PHASE_SORT		3
#define HM_BUILD_PHASE_MERGE	4
#define HM_BUILD_PHASE_WRITE	5

typedef struct HmBuildSort HmBuildSort;

/*
 * Scan the heap, serially or with parallel workers (info->ii_ParallelWorkers),
 * and sort all its entries within maintenance_work_mem, spilling to temporary
 * files beyond it.  Reports progress up to the phase of writing, and the total
 * number of tuples to be written.  *heap_tuples and *index_tuples are what
 * ambuild returns.  Until hm_build_sort_end() the backend may be in parallel
 * mode, in which it must not assign transaction or command ids.
 */
extern HmBuildSort *hm_build_sort(Relation heap, Relation index, IndexInfo *info,
								  double *heap_tuples, double *index_tuples);

/* Entries in all: with a key, or with a NULL key. */
extern uint64 hm_build_sort_count(HmBuildSort *sort, bool nulls);

/*
 * Read the next entries in order, those with a key or those with NULL; returns
 * how many were written to out, less than max only at the end.
 */
extern uint64 hm_build_sort_read(HmBuildSort *sort, bool nulls, HtEntry *out, uint64 max);

extern void hm_build_sort_end(HmBuildSort *sort);

/* ----------------------------------------------------------------
 *		Access method routines
 * ----------------------------------------------------------------
 */
extern IndexBuildResult *hm_build(Relation heap, Relation index, IndexInfo *info);
extern void hm_build_empty(Relation index);
extern char *hm_build_phase_name(int64 phase);
extern bool hm_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
					  Relation heap, IndexUniqueCheck check, bool unchanged,
					  IndexInfo *info);
extern IndexBulkDeleteResult *hm_bulk_delete(IndexVacuumInfo *info,
											 IndexBulkDeleteResult *stats,
											 IndexBulkDeleteCallback callback,
											 void *state);
extern IndexBulkDeleteResult *hm_vacuum_cleanup(IndexVacuumInfo *info,
												IndexBulkDeleteResult *stats);
extern bool hm_can_return(Relation index, int attno);
extern void hm_cost_estimate(struct PlannerInfo *root, struct IndexPath *path,
							 double loop_count, Cost *startup_cost,
							 Cost *total_cost, Selectivity *selectivity,
							 double *correlation, double *pages);
extern bool hm_validate(Oid opclass);
extern IndexScanDesc hm_begin_scan(Relation index, int nkeys, int norderbys);
extern void hm_rescan(IndexScanDesc scan, ScanKey keys, int nkeys,
					  ScanKey orderbys, int norderbys);
extern bool hm_get_tuple(IndexScanDesc scan, ScanDirection direction);
extern int64 hm_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void hm_end_scan(IndexScanDesc scan);
extern void hm_mark_position(IndexScanDesc scan);
extern void hm_restore_position(IndexScanDesc scan);

#endif							/* HARMONIA_AM_H */
