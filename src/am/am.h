/*
 * am.h
 *		The harmonia index access method: the formats of its pages, and what its files
 *		offer to each other and to the folders that build on them.
 *
 * doc/ARCHITECTURE.md explains the design, src/am/README the locking and crash rules.
 * Read those first.
 *
 * Conventions: functions raise errors with ereport(); "Errors:" names the SQLSTATEs that
 * belong to this access method.  "No buffer lock" means no content lock of any buffer;
 * pins do not matter.  "A header" is the header page of a segment.
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
 * The index is one ordered sequence of entries.  It has up to two parts: the key part,
 * and a NULL part before or after it, as the index's NULLS FIRST or LAST asks.  Entries
 * of a NULL part have key 0.
 */
typedef enum HmPart
{
	HM_PART_NULLS_LOW = 0,
	HM_PART_KEYS = 1,
	HM_PART_NULLS_HIGH = 2
} HmPart;

/* A point in that sequence.  The beginning of a part has key 0 and TID 0. */
typedef struct HmPosition
{
	HtEntry		entry;
	HmPart		part;
} HmPosition;

/* Compare two positions: negative, 0 or positive, as memcmp() does. */
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

/* A TID as a number that sorts as TIDs do: 32 bits of block number, 16 of offset. */
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

/* Whether a table can have a row at a TID: its block number and its offset are valid. */
static inline bool
hm_tid_is_valid(uint64 packed)
{
	return OffsetNumberIsValid((OffsetNumber) packed) &&
		BlockNumberIsValid((BlockNumber) (packed >> 16));
}

/* ----------------------------------------------------------------
 *		Pages
 *
 * Every page that was ever written has a special area of 128 bytes.  pd_lower equals
 * pd_upper on all pages, so generic WAL sees no hole and logs all bytes.
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
	HM_PAGE_KEYS = 4,			/* nodes of the key region that the header has
								 * no room for */
	HM_PAGE_AUXILIARY = 5,		/* auxiliary node */
	HM_PAGE_LEAF = 6,
	HM_PAGE_SPARE = 7			/* block of an extent that is not in use yet */
} HmPageKind;

/* HmSpecial.flags */
#define HM_HAS_HIGH		0x01	/* high is a bound; if not set, the page
								 * reaches to the end of its part */

typedef struct HmSpecial
{
	uint64		stamp;			/* of the segment that the page belongs to; never
								 * used again */
	HtEntry		low;			/* leaf: no entry is below this */
	HtEntry		high;			/* leaf: all entries are below this */
	BlockNumber right;			/* leaf: block of the next leaf of the segment,
								 * or InvalidBlockNumber */
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

/* The low bound of a leaf: no entry of it is below. */
static inline HmPosition
hm_page_low(Page page)
{
	HmSpecial  *special = hm_page_special(page);

	return hm_position((HmPart) special->part, special->low.key, special->low.tid);
}

/* Whether a leaf or header has a high bound inside its part. */
static inline bool
hm_page_has_high(Page page)
{
	return (hm_page_special(page)->flags & HM_HAS_HIGH) != 0;
}

/*
 * The high bound of a leaf, above all its entries: its high key or, for the last leaf of
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
 * An entry of the directory: the low bound of a segment and the block of its header or,
 * in a root of depth 1, those of a directory page.  The stamp distinguishes the segment
 * from others that had, or will have, their header in the same block.  Without it, an
 * entry of an old copy of the root could lead to a segment that a movement is still
 * writing, or has given up.
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

/* A contiguous range of blocks. */
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
	uint8		nulls_low;		/* the NULL part is before the key part */
	uint8		depth;			/* 0: the root's entries are segments, 1:
								 * directory pages */
	uint16		flags;
	uint64		build_id;		/* random; distinguishes one build from another */
	uint64		next_stamp;		/* not given to any segment yet */
	uint64		retired;		/* segments retired so far */
	uint64		drained;		/* value of "retired" when VACUUM last drained
								 * all blocks */
	uint32		root_count;
	uint32		free_count;
	HmDirectoryEntry root[HM_ROOT_MAX];
	HmExtent	free[HM_FREE_MAX];	/* sorted by start; neighbours are joined */
	TimestampTz last_movement;	/* when "retired" last grew; 0: never */
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
#define HM_SEGMENT_DEAD		0x01	/* replaced: start again from the directory */
#define HM_SEGMENT_MOVING	0x02	/* being moved: writers must wait */

/*
 * A segment's header.  After this struct the page has the child region (a prefix sum for
 * each node), the block of the auxiliary node for each bottom node and, at key_region_at,
 * the first nodes of the key region.
 *
 * The main extent has, in this order: header, key pages, leaves.  Further extents hold
 * leaves and auxiliary nodes that splits have added.
 */
typedef struct HmSegment
{
	uint64		stamp;
	HtEntry		low;
	HtEntry		high;			/* valid with HM_HAS_HIGH in the special area */
	uint32		state;
	uint16		fanout;
	uint16		levels;
	uint32		nodes;			/* inner nodes; also the number of leaf 0, which
								 * follows them in breadth-first order */
	uint32		bottom_start;	/* number of the first bottom node */
	uint32		leaf_room;		/* blocks for leaves in the main extent */
	uint32		pure_leaves;	/* of those, used by numbered leaves: leaf i is
								 * block leaf_base + i */
	uint32		tail_used;		/* of those, taken from the end by splits that
								 * shadow a bottom node */
	uint32		leaves;			/* all, numbered or not */
	uint32		auxiliaries;	/* auxiliary nodes */
	BlockNumber key_base;		/* first key page */
	BlockNumber leaf_base;
	uint32		key_region_at;	/* byte offset of node 0 on this page */
	uint32		nodes_here;		/* nodes on this page */
	uint32		nodes_per_page; /* nodes on a key page */
	uint32		extent_count;
	uint32		spare_used;		/* blocks in use of the last extent; 0 if that
								 * is the main one */
	HmExtent	extents[HM_SEGMENT_MAX_EXTENTS];	/* the main one is the first */
	uint32		child_region[FLEXIBLE_ARRAY_MEMBER];	/* one number a node,
														 * then one auxiliary
														 * block a bottom node */
} HmSegment;

static inline HmSegment *
hm_page_segment(Page page)
{
	return (HmSegment *) ((char *) page + HM_DIRECTORY_AT);
}

/*
 * The block of the auxiliary node of each bottom node, in order; InvalidBlockNumber for
 * one that has none.
 */
static inline BlockNumber *
hm_segment_auxiliaries(HmSegment *segment)
{
	return segment->child_region + segment->nodes;
}

/* Children of an auxiliary node at most. */
#define HM_AUXILIARY_MAX	440

/* Body of an auxiliary node's page: the explicit children of a shadowed bottom node. */
typedef struct HmAuxiliary
{
	uint32		count;			/* of children */
	uint32		node;			/* number of the bottom node that this one
								 * stands in for */
	uint64		keys[HM_AUXILIARY_MAX]; /* low bound of each child; that of
										 * the first is not used */
	BlockNumber children[HM_AUXILIARY_MAX];
	uint16		tids[HM_AUXILIARY_MAX][3];	/* the same bounds' TIDs: high, middle,
										 * low 16 bits */
} HmAuxiliary;

StaticAssertDecl(HM_DIRECTORY_AT + sizeof(HmAuxiliary) <= HT_PAGE_END, "auxiliary node does not fit");

static inline HmAuxiliary *
hm_page_auxiliary(Page page)
{
	return (HmAuxiliary *) ((char *) page + HM_DIRECTORY_AT);
}

/* Byte offset of the first node on a key page. */
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

/* The options of an index: those that it was created with, or the defaults. */
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
	bool		returnable;		/* restore() gives the value back bit for bit */
	uint64		(*normalise) (Datum value);

	/*
	 * normalise() for count values as an array without NULLs stores them.  keys may be the
	 * same memory as values if keys are as wide as values.
	 */
	void		(*normalise_all) (const char *values, Size count, uint64 *keys);
	Datum		(*restore) (uint64 key);	/* NULL unless returnable */
} HmKeyType;

/*
 * The key type of an index's column, found by the input type of its operator class.
 * Errors: feature_not_supported for a type that this method does not support.
 */
extern const HmKeyType *hm_key_type(Relation index);

/* The key type for a type; NULL if the type is not supported. */
extern const HmKeyType *hm_key_type_lookup(Oid type);

/* ----------------------------------------------------------------
 *		Memory (memory.c)
 * ----------------------------------------------------------------
 */

/*
 * Allocate memory for an array of any size, above 1 GB too, in the current memory
 * context.  It is backed by huge pages where the system has them (madvise): each page
 * takes a fault when it is first touched, and with small pages those faults took a tenth
 * of the time of a lookup of a million keys.
 */
extern void *hm_alloc_large(Size size);

/* The same in a given context; or, if there is an array already, make it larger. */
extern void *hm_resize_large(MemoryContext context, void *memory, Size size);

/* ----------------------------------------------------------------
 *		Brackets (bracket.c): comparison arguments among a column's keys
 * ----------------------------------------------------------------
 */

/*
 * The keys that bracket a value, in the order that the operators define.  If the column
 * can have the value, first and last are both its key.  If the value falls between two
 * keys, it is between these two: first is the upper one, last the lower one.
 */
typedef struct HmBracket
{
	uint64		first;			/* the least key that is not below the value */
	uint64		last;			/* the greatest key that is not above the value */
	bool		has_first;		/* false: the value is above all keys */
	bool		has_last;		/* false: the value is below all keys */
	bool		fuzzy;			/* the value is somewhere in first..last: any
								 * key of these may be below it, equal or above */
} HmBracket;

typedef HmBracket (*HmBracketFunction) (const HmKeyType *column, Datum value);

/*
 * The function that brackets arguments of one type among the keys of a column of another
 * (or the same) type.  NULL if btree's families have no operators for the two types.
 */
extern HmBracketFunction hm_bracket_function(Oid column, Oid argument);

/* ----------------------------------------------------------------
 *		Qualifications (quals.c): scan keys to ranges
 * ----------------------------------------------------------------
 */

/*
 * Ranges of positions to be scanned: disjoint, in ascending order.  Both bounds are keys
 * and belong to the range, with all their TIDs.
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
	bool		recheck;		/* the ranges may have entries that do not match,
								 * so the operators must be asked */
} HmRanges;

/*
 * The keys from 0 to max that a btree strategy's comparison with a bracketed value
 * accepts, as the range *low to *high, both included.  Returns false if there are none.
 * If the bracket is fuzzy, the range has all keys that may be accepted.
 */
extern bool hm_bracket_range(StrategyNumber strategy, const HmBracket *bracket, uint64 max,
						   uint64 *low, uint64 *high);

/*
 * Turn the scan keys of an index scan, which are joined by AND, into ranges.  Without any
 * scan key these are all parts.  Contradictions and NULL arguments give no range.
 * Supported are array keys (SK_SEARCHARRAY), IS NULL, IS NOT NULL and all cross-type
 * operators of the operator families.  result->ranges is palloc'd in the current memory
 * context.
 */
extern void hm_ranges_from_keys(Relation index, bool nulls_low,
								ScanKey keys, int nkeys, HmRanges *result);

/*
 * The keys that a scan key of the kind `= ANY (array)` names, if each element stands for
 * one key or for none.  They come in the array's order, and the same key may come more
 * than once.  Returns false if the scan key is of another kind.  *points is allocated in
 * the current memory context; free it by resetting the context.
 */
extern bool hm_points_from_key(Relation index, ScanKey key, uint64 **points, uint32 *count);

/* ----------------------------------------------------------------
 *		Page access (page.c)
 * ----------------------------------------------------------------
 */

/*
 * Initialise a page and its special area.  All other bytes become zero.  segment is the
 * block of the segment's header.
 */
extern void hm_page_init(Page page, HmPageKind kind, uint64 stamp,
						 BlockNumber segment, HmPart part);

/* Make a page the metapage of a new index, without any segment. */
extern void hm_meta_init(Relation index, Page page);

/* Whether a page is a page of a harmonia index, of this kind.  The caller holds its lock. */
extern bool hm_page_is(Page page, HmPageKind kind);

/*
 * Whether a page is the header that a directory entry means: a header with the entry's
 * stamp.  It may be dead.  The caller holds the page's lock.
 */
extern bool hm_page_is_segment_of(Page page, const HmDirectoryEntry *entry);

/*
 * Check that a page is one of a harmonia index and of this kind, and that its counts are
 * in range.  The caller holds the buffer's lock.
 * Errors: index_corrupted; feature_not_supported for a metapage of an on-disk version
 * that this library does not read.
 */
extern void hm_page_check(Relation index, Buffer buffer, HmPageKind kind);

/*
 * Check everything that must hold inside a leaf (ht_leaf_check()).  To be called before
 * its entries are copied to other leaves, so that damage does not spread.  The caller
 * holds the buffer's lock.
 * Errors: index_corrupted.
 */
extern void hm_leaf_check(Relation index, Buffer buffer, HtWidth width);

/*
 * Check that a block number found on a page may be read as a block of a segment: it is
 * neither the metapage nor P_NEW, which would extend the file.  A block beyond the end of
 * the file passes; ReadBuffer() reports it.
 * Errors: index_corrupted.
 */
extern void hm_block_check(Relation index, BlockNumber block);

/*
 * Report an entry whose TID cannot be that of a row.  Does not return.
 * Errors: index_corrupted.
 */
extern void hm_tid_report(Relation index, uint64 packed);

/*
 * Check the TID of an entry before it is handed to the server, which expects that a row
 * may be there, and would take an invalid block number for P_NEW.
 * Errors: index_corrupted.
 */
static inline void
hm_tid_check(Relation index, uint64 packed)
{
	if (unlikely(!hm_tid_is_valid(packed)))
		hm_tid_report(index, packed);
}

/*
 * Report that a walk or search makes no progress from a page, which only damage explains.
 * Does not return.
 * Errors: index_corrupted.
 */
extern void hm_page_no_progress(Relation index, Buffer buffer);

/*
 * Read, lock and check the metapage.  lock is BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE.
 * The caller holds no buffer lock, and unlocks and releases the buffer.
 * Errors: those of hm_page_check().
 */
extern Buffer hm_meta_buffer(Relation index, int lock);

/*
 * A backend's copy of the metapage's lasting fields and of the directory's root.  It
 * belongs to the relcache entry, and is freed with it.
 */
typedef struct HmCache
{
	HtWidth		width;
	int			fanout;
	bool		nulls_low;
	int			depth;
	uint32		root_count;
	HmDirectoryEntry root[HM_ROOT_MAX];
} HmCache;

/*
 * The backend's copy; read from the metapage if there is none, or if renew is true.  The
 * caller holds no buffer lock if it has to be read.  The result is valid until the next
 * call that may process invalidation messages, that is, until a heavyweight lock is
 * taken.
 */
extern HmCache *hm_cache(Relation index, bool renew);

/*
 * Whether the backend's copy was made after the file was last truncated.  If not, its
 * entries may lie beyond the end of the file.
 */
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
 * Log a change of a leaf's entries as a generic WAL record and set the page's LSN.  The
 * caller holds the buffer's exclusive lock, is in a critical section, has changed the
 * page as "change" says, and has marked the buffer dirty.  Does nothing for an index
 * without WAL.
 */
extern void hm_log_leaf_change(Relation index, Buffer buffer, HtWidth width,
							   const HtLeafChange *change);

/*
 * Log a page that hm_page_init() has just made, in few bytes, so that what is written to
 * it next can be logged as a change.  The caller holds the buffer's exclusive lock, is in
 * a critical section and has marked the buffer dirty.
 */
extern void hm_log_blank_page(Relation index, Buffer buffer);

/* ----------------------------------------------------------------
 *		Extents (extent.c): contiguous blocks, used, free and new
 * ----------------------------------------------------------------
 */

/*
 * What blocks are for.  A segment takes the first free extent that is long enough, so
 * that the end of the file becomes free.  Splits and the directory, which take at most
 * 128 blocks, use the shortest free extent that is long enough, so that long ones stay
 * whole.
 */
typedef enum HmExtentUse
{
	HM_EXTENT_FOR_SEGMENT,
	HM_EXTENT_FOR_FEW
} HmExtentUse;

/*
 * Take a new extent of this length, in blocks, from the free list or by making the file
 * longer.  Returns its first block.  The caller holds the allocation lock and no buffer
 * lock.
 * Errors: program_limit_exceeded; index_corrupted for a damaged list.
 */
extern BlockNumber hm_extent_allocate(Relation index, uint32 length, HmExtentUse use);

/*
 * Whether the list has a free extent of at least this length, in which so many blocks end
 * at limit or before.  The caller holds no buffer lock.
 */
extern bool hm_extent_fits_below(Relation index, uint32 length, BlockNumber limit);

/*
 * Give extents back to the list of free extents.  The caller holds the allocation lock
 * and no buffer lock.  Nothing refers to the blocks any more.
 */
extern void hm_extent_free(Relation index, const HmExtent *extents, int count);

/* A stamp that no page has had.  The caller holds no buffer lock. */
extern uint64 hm_stamp_allocate(Relation index);

/* What a sweep found. */
typedef struct HmSweep
{
	BlockNumber free;			/* blocks, listed or not */
	BlockNumber end;			/* of the file, or of what is listed of it */
} HmSweep;

/*
 * Rebuild the list of free extents from what live segments do not use.  Does nothing if
 * another backend holds the allocation lock.  If leave_end is true, blocks at the end of
 * the file that were never logged are not listed if it pays to truncate them; the caller
 * must then truncate them, or call hm_extents_keep_end().  The caller holds no buffer
 * lock.
 * Errors: index_corrupted.
 */
extern HmSweep hm_extents_sweep(Relation index, bool leave_end);

/* The beginning of the listed free extent that ends at "end"; end if there is none. */
extern BlockNumber hm_extents_free_end(Relation index, BlockNumber end);

/*
 * The beginning of the free blocks at the end of the file, whether listed or left alone
 * by a sweep.  The caller holds the index's AccessExclusiveLock.
 */
extern BlockNumber hm_extents_end(Relation index);

/* List blocks that a sweep has left alone at the end of the file. */
extern void hm_extents_keep_end(Relation index);

/* ----------------------------------------------------------------
 *		Truncation (truncate.c)
 * ----------------------------------------------------------------
 */

/* Whether it pays to truncate so many free blocks at the end of a file of so many blocks. */
extern bool hm_worth_truncating(BlockNumber free, BlockNumber blocks);

/*
 * Whether the transaction can truncate: that of a parallel worker cannot, as it does not
 * commit.
 */
extern bool hm_can_truncate(void);

/*
 * Have the transaction give free blocks at the end of the file back to the file system
 * when it commits, if it pays and no other backend uses the index then.  Blocks from end
 * on are free, though not listed.  Returns the number of blocks that would be given back.
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
	HM_AT_OR_AFTER,				/* the segment that covers the position; if there
								 * is none, the next one */
	HM_BEFORE					/* the segment that covers what is right before
								 * the position */
} HmSearch;

/*
 * Enter a segment: find it in the directory, read its header and lock it
 * (BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE).  The segment is alive at the time of the
 * call.  If no segment covers the position, *position becomes the beginning of the
 * segment found.  Returns InvalidBuffer if there is no segment in that direction.  The
 * caller holds no buffer lock; on return it holds the header's lock alone, and releases
 * it.
 * Errors: index_corrupted.
 */
extern Buffer hm_segment_enter(Relation index, HmPosition *position,
							   HmSearch search, int lock);

/*
 * Enter the segment that covers a position, to write: like hm_segment_enter(), but waits
 * while the segment is being moved.  Returns InvalidBuffer if the position's part has no
 * segment.  The caller holds no buffer lock and no allocation lock.
 */
extern Buffer hm_segment_enter_to_write(Relation index, HmPosition position, int lock);

/*
 * Whether the segment with this header is the one that a search for the position must
 * find.  The caller holds the header's lock.
 */
extern bool hm_segment_covers(Page header, HmPosition position, HmSearch search);

/*
 * Changing the directory, in four steps.
 *
 * - hm_directory_begin() finds the page on which an entry with the low bound stands or
 *	 belongs, makes room for count more entries, and locks that page and the metapage
 *	 exclusively.  The caller holds the allocation lock, unless count is 0, and no buffer
 *	 lock.
 *
 * - The caller locks the other pages of its change, and begins a generic WAL record.
 *
 * - hm_directory_apply() registers one or two buffers with the record.  It puts the new
 *	 entries, which are in order, in place of "replaced" old ones; the first old one has
 *	 the same low bound as the first new one.  If replaced is 0, it only adds the new
 *	 ones.
 *
 * - hm_directory_end() unlocks and releases these buffers, after the record has been
 *	 written.
 */
typedef struct HmDirectoryEdit
{
	Buffer		meta;
	Buffer		page;			/* InvalidBuffer: the page is the root itself */
	int			emptied;		/* number in the root of a directory page that
								 * becomes empty and is removed; 0: none */
} HmDirectoryEdit;

extern void hm_directory_begin(Relation index, HmPosition low, int count,
							   HmDirectoryEdit *edit);

/* Whether a part has any segment, where the first one of a part is to be added. */
extern bool hm_directory_has_part(HmDirectoryEdit *edit, HmPart part);

/*
 * Whether the entry after the one with this low bound is that of the segment at block,
 * and hm_directory_apply() could replace both.
 */
extern bool hm_directory_has_next(Relation index, HmDirectoryEdit *edit, HmPosition low,
								  BlockNumber block);

/*
 * The same without an edit: whether two neighbours could be replaced together now.  The
 * answer may be outdated soon.  The caller holds no buffer lock.
 */
extern bool hm_directory_could_join(Relation index, HmPosition low, BlockNumber block);
extern void hm_directory_apply(HmDirectoryEdit *edit, GenericXLogState *state,
							   int replaced, const HmDirectoryEntry *entries, int count);
extern void hm_directory_end(HmDirectoryEdit *edit);

/*
 * Read the whole directory: the entries of all segments, in order, and the blocks of the
 * directory pages.  Both arrays are palloc'd.  Holds the metapage's share lock while it
 * reads; the caller holds no buffer lock.
 */
extern HmDirectoryEntry *hm_directory_read(Relation index, int *count,
										   BlockNumber **pages, int *page_count);

/* ----------------------------------------------------------------
 *		Segments (segment.c)
 * ----------------------------------------------------------------
 */

/*
 * The number of leaves that an extent of so many blocks has room for, beside header and
 * key pages.
 */
extern uint32 hm_segment_room(HtWidth width, int fanout, uint32 blocks);

/*
 * The number of blocks that a segment with room for so many leaves takes, header
 * included.
 */
extern uint32 hm_segment_blocks(HtWidth width, int fanout, uint32 leaf_room);

/* The number of entries that a build puts on a leaf, by the index's fill factor. */
extern int	hm_leaf_target(Relation index, HtWidth width);

/* What hm_segment_image() has to make. */
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
	uint32		leaves;			/* leaves to be filled, 1 to leaf_room */
} HmSegmentSpec;

/*
 * Lay out a whole segment in memory: header, key pages and the leaves to be filled, with
 * n entries spread evenly over them.  image has room for these pages; pages of further
 * leaves are not touched.  Returns the number of pages made.
 */
extern uint32 hm_segment_image(const HmSegmentSpec *spec, const HtEntry *entries,
							   uint64 n, char *image);

/*
 * Where the separator between a leaf (1 or more) and the leaf before it stands: the
 * number of the node, and the number of the separator in that node.
 */
extern void hm_segment_separator(const HmSegment *segment, uint32 leaf,
								 uint32 *node, int *separator);

/*
 * Where a node stands.  Returns 0 for the header page, n for the n-th key page, and in
 * *offset the node's byte offset on that page.
 */
extern uint32 hm_node_page(const HmSegment *segment, HtWidth width, uint32 node,
						   uint32 *offset);

/*
 * Write the pages of an image into the first blocks of an extent, and log them as full
 * images.  The caller owns the blocks and holds no buffer lock.
 */
extern void hm_segment_write(Relation index, BlockNumber start, const char *image,
							 uint32 pages);

/*
 * Check that a header can be used: that nothing found by its numbers lies outside of a
 * page.  The page has passed hm_page_check(); the caller holds its lock.
 * Errors: index_corrupted.
 */
extern void hm_segment_check(Relation index, Buffer header, HtWidth width);

/*
 * Search an auxiliary node.  Returns the number of the child in which an entry belongs
 * or, if before is true, of the child that holds the entry's predecessor.
 */
extern int	hm_auxiliary_child(const HmAuxiliary *auxiliary, HtEntry entry, bool before);

/* The low bound of child i of an auxiliary node; meaningless for child 0. */
static inline HtEntry
hm_auxiliary_low(const HmAuxiliary *auxiliary, int i)
{
	HtEntry		low;

	low.key = auxiliary->keys[i];
	low.tid = ((uint64) auxiliary->tids[i][0] << 32) |
		((uint64) auxiliary->tids[i][1] << 16) | auxiliary->tids[i][2];
	return low;
}

/* Set block and low bound of child i of an auxiliary node.  Does not change its count. */
extern void hm_auxiliary_set(HmAuxiliary *auxiliary, int i, HtEntry low, BlockNumber child);

/*
 * Find the leaf in which an entry belongs or, if before is true, the leaf that holds the
 * entry's predecessor.  The caller holds the header's lock, in either mode.  Returns the
 * leaf's buffer, pinned and not locked.
 * Errors: index_corrupted.
 */
extern Buffer hm_segment_descend(Relation index, Buffer header, HtEntry entry,
								 bool before, BufferAccessStrategy strategy);

/* ----------------------------------------------------------------
 *		Insertion (insert.c), movement (movement.c), batches (batch.c)
 * ----------------------------------------------------------------
 */

/*
 * Insert entries of one part, sorted and without duplicates, as the papers' Algorithm 1
 * applies a batch of updates.  An entry that is in the index already is left alone.
 * After an error any number of the entries may be in the index; the caller may insert all
 * of them again.  The caller holds no buffer lock and no allocation lock.
 * Errors: index_corrupted, program_limit_exceeded.
 */
extern void hm_insert_sorted(Relation index, HmPart part,
							 const HtEntry *entries, int64 n);

/* What identifies a segment: the block of its header, and its stamp. */
typedef struct HmSegmentName
{
	BlockNumber header;
	uint64		stamp;
} HmSegmentName;

/*
 * Movement: rewrite one segment, or two neighbours together, in pure layout, as one or
 * more new segments.  Leaves keep some room if splits have shown that entries arrive
 * there; if pack is true, all leaves become as full as a build makes them.  Returns
 * false, and does nothing, if a segment has been replaced already or if the two cannot be
 * replaced together.  last_header, if not NULL, becomes the header's block of the last new
 * segment.  The caller holds no buffer lock and no allocation lock.
 * Errors: index_corrupted.  The movement is then undone, apart from lost blocks and the
 * mark in the header, which the next writer removes.
 */
extern bool hm_segments_move(Relation index, const HmSegmentName *segments, int count,
							 bool pack, BlockNumber *last_header);

/* What decides whether a segment is moved. */
typedef struct HmSegmentUse
{
	HmSegmentName name;
	HmPosition	low;
	uint64		entries;
	uint32		leaves;
	uint32		pure_leaves;
	bool		grows;			/* the last one of its part, with room for more
								 * numbered leaves */
} HmSegmentUse;

/* The segments that a walk in key order has met; palloc'd. */
typedef struct HmSegmentUses
{
	int			count;
	int			room;
	HmSegmentUse *items;
} HmSegmentUses;

extern void hm_segment_uses_init(HmSegmentUses *uses);

/*
 * The item of the segment with this header, which the caller has locked.  A new item has
 * the counts of the header and no entries; the caller adds the entries that it meets.
 * The result is valid until the next call.
 */
extern HmSegmentUse *hm_segment_uses_note(HmSegmentUses *uses, Buffer header);

/*
 * Move the segments for which it pays: those that are sparse or shadowed or, if all is
 * true, all that could be packed better; and join small neighbours.  Changes *uses to
 * match.  Returns the number of movements.  The caller holds no lock but on the relation.
 */
extern int	hm_reorganize(Relation index, HmSegmentUses *uses, bool all);

/* An index's size, once its transaction has committed. */
typedef struct HmSize
{
	BlockNumber blocks;			/* of the file */
	BlockNumber free;			/* of these, listed or not */
} HmSize;

/*
 * Rebuild the list of free extents, have the commit give free blocks at the end of the file
 * back, and before that, if more than half of the file is free or "always" is true, move
 * segments from there to free extents before them.  Returns the number of movements and, in
 * *size, what is to be left; the same conditions.
 */
extern int	hm_compact(Relation index, bool always, HmSize *size);

/*
 * Offer an entry to the statement's batch (batch.c).  Returns true if the batch has
 * queued it, false if the caller has to insert it at once.  May apply the whole queue;
 * the caller holds no buffer lock.
 */
extern bool hm_batch_add(Relation index, Relation heap, IndexInfo *info,
						 IndexUniqueCheck check, HmPart part, HtEntry entry);

/*
 * Insert this backend's queued entries of one index, or of all indexes.  The caller holds
 * no buffer lock.
 */
extern void hm_batch_apply(Relation index);
extern void hm_batch_apply_all(void);

/* Whether this backend has queued entries of an index. */
extern bool hm_batch_pending(Relation index);

/* Install the hooks and callbacks, define the GUCs; call once, from _PG_init. */
extern void hm_batch_init(void);

/* ----------------------------------------------------------------
 *		Sorting for a build (buildscan.c, buildsort.c)
 * ----------------------------------------------------------------
 */

/* Phases of a build, for progress reports; phase 1, initializing, is the server's. */
#define HM_BUILD_PHASE_SCAN		2
#define HM_BUILD_PHASE_SORT		3
#define HM_BUILD_PHASE_MERGE	4
#define HM_BUILD_PHASE_WRITE	5

typedef struct HmBuildSort HmBuildSort;

/*
 * Scan the heap, alone or with parallel workers (info->ii_ParallelWorkers), and sort all
 * its entries within maintenance_work_mem; what exceeds it goes to temporary files.
 * Reports progress up to the phase of writing, and the number of tuples to be written.
 * *heap_tuples and *index_tuples are what ambuild returns.  Until hm_build_sort_end() the
 * backend may be in parallel mode, in which it must not assign transaction or command
 * ids.
 */
extern HmBuildSort *hm_build_sort(Relation heap, Relation index, IndexInfo *info,
								  double *heap_tuples, double *index_tuples);

/* The number of all entries of the key part or, if nulls is true, of the NULL part. */
extern uint64 hm_build_sort_count(HmBuildSort *sort, bool nulls);

/*
 * Read the next entries of the key part or, if nulls is true, of the NULL part, in order.
 * Returns how many were written to out; less than max only at the end.
 */
extern uint64 hm_build_sort_read(HmBuildSort *sort, bool nulls, HtEntry *out, uint64 max);

/* Free everything, delete temporary files and leave parallel mode. */
extern void hm_build_sort_end(HmBuildSort *sort);

/* ----------------------------------------------------------------
 *		Access method routines; PostgreSQL's documentation of the index access method
 *		interface has their contracts
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
