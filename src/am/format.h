/*
 * format.h
 *		What is on disk: the kinds of pages, what stands on each, and the functions that
 *		read and check single pages.
 *
 * What holds keys, or bounds, differs by their width (width.h).
 *
 * Leaves are an exception: their bytes before the special area are those of src/tree.
 */
#ifndef HARMONIA_FORMAT_H
#define HARMONIA_FORMAT_H

#include "datatype/timestamp.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "am/am.h"

StaticAssertDecl(BLCKSZ == HT_PAGE_SIZE, "harmonia supports a block size of 8192 bytes only");

/* ----------------------------------------------------------------
 *		Pages
 *
 * Every page that was ever written has a special area of 48 bytes.  pd_lower equals
 * pd_upper on all pages but leaves, so generic WAL sees no hole and logs all bytes.  A leaf has
 * a hole: the bytes that are left to hints (ht_leaf_hole()), which are not logged.
 * ----------------------------------------------------------------
 */
#define HM_METAPAGE_BLKNO 0

#define HM_MAGIC 0x48524D4E /* "HRMN" */
#define HM_FORMAT_VERSION 2
#define HM_ENDIAN_MARKER 0x0102
#define HM_PAGE_ID 0xFF8A /* last two bytes of every page */

typedef enum HmPageKind
{
	HM_PAGE_META = 1,
	HM_PAGE_DIRECTORY = 2,
	HM_PAGE_SEGMENT = 3,   /* a segment's header */
	HM_PAGE_KEYS = 4,      /* nodes of the key region that the header has no room for */
	HM_PAGE_AUXILIARY = 5, /* auxiliary node */
	HM_PAGE_LEAF = 6,
	HM_PAGE_SPARE = 7 /* block of an extent that is not in use yet */
} HmPageKind;

/* HmSpecial.flags */
#define HM_HAS_HIGH 0x01 /* high is a bound; if not set, the page reaches to the end of its part */

/*
 * The last bytes of every page.  Bounds are those of a leaf, with their TIDs as 48 bits.  In an
 * index with wide keys the low bound's key is the base of the leaf (tree.h), and both keys here are
 * the high bound's: its lowest word and the next one.  Before this, from HT_PAGE_END on, 80 bytes
 * are left: to hints on leaves (ht_leaf_hole()), and to wide keys.
 */
typedef struct HmSpecial
{
	uint64 stamp;    /* of the segment that the page belongs to; never used again */
	uint64 low_key;  /* no entry is below this bound */
	uint64 high_key; /* all entries are below this bound */
	uint32 low_block;
	uint32 high_block;
	uint16 low_offset;
	uint16 high_offset;
	BlockNumber right;   /* leaf: block of the next leaf of the segment, or InvalidBlockNumber */
	BlockNumber segment; /* block of the segment's header */
	uint8 part : 4,      /* HmPart */
		flags : 4;
	uint8 kind;     /* HmPageKind */
	uint16 page_id; /* HM_PAGE_ID */
} HmSpecial;

StaticAssertDecl(sizeof(HmSpecial) == 48, "special area differs in size");
StaticAssertDecl(sizeof(HmSpecial) <= BLCKSZ - HT_PAGE_END, "special area does not fit");
StaticAssertDecl(sizeof(HmSpecial) <= 64, "lookups prefetch one cache line of it");

static inline HmSpecial *
hm_page_special(Page page)
{
	return (HmSpecial *) ((char *) page + BLCKSZ - sizeof(HmSpecial));
}

/* The bounds of a leaf, without its part. */
static inline HtEntry
hm_leaf_low(Page page)
{
	HmSpecial *special = hm_page_special(page);
	HtEntry low;

#if HM_KEYS == 64
	low.key = special->low_key;
#else
	low.key = ht_leaf_shape_of(page).base;
#endif
	low.tid = (uint64) special->low_block << 16 | special->low_offset;
	return low;
}

static inline HtEntry
hm_leaf_high(Page page)
{
	HmSpecial *special = hm_page_special(page);
	HtEntry high;

#if HM_KEYS == 64
	high.key = special->high_key;
#else
	high.key = (HT_KEY) special->low_key << 64 | special->high_key;
#endif
	high.tid = (uint64) special->high_block << 16 | special->high_offset;
	return high;
}

/* Set the low bound of a leaf that has been filled: its key is the base, unless the class is 64. */
static inline void
hm_leaf_set_low(Page page, HtEntry low)
{
	HmSpecial *special = hm_page_special(page);

#if HM_KEYS == 64
	special->low_key = low.key;
#else
	Assert(ht_leaf_shape_of(page).base == low.key);
#endif
	special->low_block = (uint32) (low.tid >> 16);
	special->low_offset = (uint16) low.tid;
}

/* Give a leaf a high bound. */
static inline void
hm_leaf_set_high(Page page, HtEntry high)
{
	HmSpecial *special = hm_page_special(page);

#if HM_KEYS != 64
	special->low_key = ht_key_word_128(high.key, 1);
#endif
	special->high_key = (uint64) high.key;
	special->high_block = (uint32) (high.tid >> 16);
	special->high_offset = (uint16) high.tid;
	special->flags |= HM_HAS_HIGH;
}

/* The low bound of a leaf: no entry of it is below. */
static inline HmPosition
hm_page_low(Page page)
{
	HtEntry low = hm_leaf_low(page);

	return hm_position((HmPart) hm_page_special(page)->part, low.key, low.tid);
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
	HmSpecial *special = hm_page_special(page);

	if (special->flags & HM_HAS_HIGH)
	{
		HtEntry high = hm_leaf_high(page);

		return hm_position((HmPart) special->part, high.key, high.tid);
	}
	return hm_position((HmPart) (special->part + 1), 0, 0);
}

/* The same within its part: the last leaf's is above all entries that there can be. */
static inline HtEntry
hm_leaf_end(Page page)
{
	const HtEntry end = {KEY_MAX, HT_TID_MAX};

	return hm_page_has_high(page) ? hm_leaf_high(page) : end;
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
	HT_KEY key;
	uint64 tid : 48, part : 16;
	BlockNumber block;
	uint32 stamp; /* lower half of the segment's stamp; 0 for a directory page */
} HmDirectoryEntry;

/* The low bound of the segment, or of the directory page, that an entry stands for. */
static inline HmPosition
hm_directory_low(const HmDirectoryEntry *entry)
{
	return hm_position((HmPart) entry->part, entry->key, entry->tid);
}

#define HM_DIRECTORY_AT 64

/* The size of an entry in an index with keys of a width. */
static inline uint32
hm_directory_entry_size(HtWidth width)
{
	return (width <= HT_WIDTH64 ? sizeof(uint64) : sizeof(HtKey128)) + 16;
}

/* Entries that bytes have room for. */
#define HM_ENTRIES_IN(bytes) ((int) ((bytes) / sizeof(HmDirectoryEntry)))

/*
 * Limits.  The small ones are for testing: they let what only happens in large
 * indexes happen in small ones.  The on-disk format differs, so the metapage says
 * which ones an index has been built with.
 */
#ifdef HM_SMALL_LIMITS
#define HM_META_LIMITS HM_META_SMALL_LIMITS
#define HM_DIRECTORY_MAX 50
#define HM_ROOT_BYTES 960
#define HM_FREE_MAX 5
#define HM_SEGMENT_MAX_BLOCKS 12
#define HM_SEGMENT_MAX_EXTENTS 5
#else
#define HM_META_LIMITS 0
#define HM_DIRECTORY_MAX HM_ENTRIES_IN(HT_PAGE_END - HM_DIRECTORY_AT - 8) /* of a directory page */
#define HM_ROOT_BYTES 4608         /* of the root, in the metapage */
#define HM_FREE_MAX 240            /* free extents in the metapage */
#define HM_SEGMENT_MAX_BLOCKS 1024 /* of a segment's main extent */
#define HM_SEGMENT_MAX_EXTENTS 24
#endif

/* Entries of the root: no more than a directory page has. */
#define HM_ROOT_MAX HM_ENTRIES_IN(HM_ROOT_BYTES)

/* Body of a directory page. */
typedef struct HmDirectory
{
	uint32 count;
	uint32 unused;
	HmDirectoryEntry entries[HM_DIRECTORY_MAX];
} HmDirectory;

StaticAssertDecl(HM_DIRECTORY_AT + sizeof(HmDirectory) <= HT_PAGE_END, "directory does not fit");

/* A contiguous range of blocks. */
typedef struct HmExtent
{
	BlockNumber start;
	uint32 length;
} HmExtent;

/* HmMeta.flags */
#define HM_META_SMALL_LIMITS 0x01

/* Columns of an index at most, as many as PostgreSQL allows. */
#define HM_META_COLUMNS 32

/*
 * HmMetaColumn.flags, of the fields of key columns in composite keys (am.h): values are stored in
 * descending order; NULL stands below them, not above; NULL has a value of its own, as the keys
 * have a gap.
 */
#define HM_COLUMN_DESCENDING 0x01
#define HM_COLUMN_NULLS_LOW 0x02
#define HM_COLUMN_NULL_IN_GAP 0x04

/*
 * A column of the index.  Collations are reserved, and zero.
 */
typedef struct HmMetaColumn
{
	Oid type; /* id of the key type (am.h) */
	Oid collation;
	uint32 collation_version; /* hash of the version's name */
	uint16 bits;              /* of the column's field in a key (am.h) */
	uint16 flags;
} HmMetaColumn;

typedef struct HmMeta
{
	uint32 magic;
	uint16 version;
	uint16 endian;
	uint32 block_size;
	Oid key_type; /* type whose normalised keys are stored */
	uint16 width; /* HtWidth */
	uint16 fanout;
	uint8 nulls_low; /* the NULL part is before the key part */
	uint8 depth;     /* 0: the root's entries are segments, 1: directory pages */
	uint16 flags;
	uint64 build_id;   /* random; distinguishes one build from another */
	uint64 next_stamp; /* not given to any segment yet */
	uint64 retired;    /* segments retired so far */
	uint64 drained;    /* value of "retired" when VACUUM last drained all blocks */
	uint32 root_count;
	uint32 free_count;
	union /* the same bytes whatever the width of keys */
	{
		HmDirectoryEntry root[HM_ROOT_MAX];
		uint64 root_words[HM_ROOT_BYTES / sizeof(uint64)];
	};
	HmExtent free[HM_FREE_MAX]; /* sorted by start; neighbours are joined */
	TimestampTz last_movement;  /* when "retired" last grew; 0: never */
	uint64 hash_seed;           /* of columns whose keys are hashed; reserved */
	uint16 key_columns;
	uint16 included_columns; /* these follow them, as fields of the key */
	uint32 included_bytes;   /* of an entry's values that are no fields; reserved */
	HmMetaColumn columns[HM_META_COLUMNS];
} HmMeta;

StaticAssertDecl(HM_DIRECTORY_AT + sizeof(HmMeta) <= HT_PAGE_END, "metapage does not fit");
StaticAssertDecl(sizeof(((HmMeta *) NULL)->root) <= HM_ROOT_BYTES,
				 "the root's size depends on the width of keys");

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
#define HM_SEGMENT_DEAD 0x01   /* replaced: start again from the directory */
#define HM_SEGMENT_MOVING 0x02 /* being moved: writers must wait */

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
	uint64 stamp : 56, /* in one aligned word, so that both can be read together without the lock */
		state : 8;
	uint64 low_key; /* bounds: the lowest words of their keys, */
	uint64 low_tid;
	uint64 high_key; /* valid with HM_HAS_HIGH in the special area */
	uint64 high_tid;
	uint16 fanout;
	uint16 levels;
	uint32 hinted;        /* nonzero: there may be hints on its leaves (hints.c) */
	uint32 nodes;         /* inner nodes; also the number of leaf 0, which follows them in
						   * breadth-first order */
	uint32 bottom_start;  /* number of the first bottom node */
	uint32 leaf_room;     /* blocks for leaves in the main extent */
	uint32 pure_leaves;   /* of those, used by numbered leaves: leaf i is block leaf_base + i */
	uint32 tail_used;     /* of those, taken from the end by splits that shadow a bottom node */
	uint32 leaves;        /* all, numbered or not */
	uint32 auxiliaries;   /* auxiliary nodes */
	BlockNumber key_base; /* first key page */
	BlockNumber leaf_base;
	uint32 key_region_at;  /* byte offset of node 0 on this page */
	uint32 nodes_here;     /* nodes on this page */
	uint32 nodes_per_page; /* nodes on a key page */
	uint32 extent_count;
	uint32 spare_used;                          /* blocks in use of the last extent; 0 if that is
												 * the main one */
	HmExtent extents[HM_SEGMENT_MAX_EXTENTS];   /* the main one is the first */
	uint32 child_region[FLEXIBLE_ARRAY_MEMBER]; /* one number a node, then one auxiliary block a
												 * bottom node */
} HmSegment;

static inline HmSegment *
hm_page_segment(Page page)
{
	return (HmSegment *) ((char *) page + HM_DIRECTORY_AT);
}

/* The other words of wide bounds, the lower one first; at HT_PAGE_END of a header. */
typedef struct HmSegmentWords
{
	uint64 low[3];
	uint64 high[3];
} HmSegmentWords;

static inline HmSegmentWords *
hm_page_segment_words(Page page)
{
	return (HmSegmentWords *) ((char *) page + HT_PAGE_END);
}

StaticAssertDecl(HT_PAGE_END + sizeof(HmSegmentWords) <= BLCKSZ - sizeof(HmSpecial),
				 "wide bounds do not fit");

/* The bounds of a segment, by its header. */
static inline HtEntry
hm_segment_low(Page page)
{
	HmSegment *segment = hm_page_segment(page);
	HtEntry low = {segment->low_key, segment->low_tid};

#if HM_KEYS != 64
	low.key |= (HT_KEY) hm_page_segment_words(page)->low[0] << 64;
#endif
	return low;
}

static inline HtEntry
hm_segment_high(Page page)
{
	HmSegment *segment = hm_page_segment(page);
	HtEntry high = {segment->high_key, segment->high_tid};

#if HM_KEYS != 64
	high.key |= (HT_KEY) hm_page_segment_words(page)->high[0] << 64;
#endif
	return high;
}

static inline void
hm_segment_set_low(Page page, HtEntry low)
{
	HmSegment *segment = hm_page_segment(page);

	segment->low_key = (uint64) low.key;
	segment->low_tid = low.tid;
#if HM_KEYS != 64
	hm_page_segment_words(page)->low[0] = ht_key_word_128(low.key, 1);
#endif
}

/* Give a segment a high bound. */
static inline void
hm_segment_set_high(Page page, HtEntry high)
{
	HmSegment *segment = hm_page_segment(page);

	segment->high_key = (uint64) high.key;
	segment->high_tid = high.tid;
#if HM_KEYS != 64
	hm_page_segment_words(page)->high[0] = ht_key_word_128(high.key, 1);
#endif
	hm_page_special(page)->flags |= HM_HAS_HIGH;
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
#if HM_KEYS == 64
#define HM_AUXILIARY_MAX 440
#else
#define HM_AUXILIARY_MAX ((HT_PAGE_END - HM_DIRECTORY_AT - 8) / (HM_KEYS / 8 + 10))
#endif

/* Body of an auxiliary node's page: the explicit children of a shadowed bottom node. */
typedef struct HmAuxiliary
{
	uint32 count;                  /* of children */
	uint32 node;                   /* number of the bottom node that this one stands in for */
	HT_KEY keys[HM_AUXILIARY_MAX]; /* low bound of each child; that of the first is not used */
	BlockNumber children[HM_AUXILIARY_MAX];
	uint16 tids[HM_AUXILIARY_MAX][3]; /* the same bounds' TIDs: high, middle, low 16 bits */
} HmAuxiliary;

StaticAssertDecl(HM_DIRECTORY_AT + sizeof(HmAuxiliary) <= HT_PAGE_END,
				 "auxiliary node does not fit");

static inline HmAuxiliary *
hm_page_auxiliary(Page page)
{
	return (HmAuxiliary *) ((char *) page + HM_DIRECTORY_AT);
}

/* Byte offset of the first node on a key page. */
#define HM_KEYS_AT 64

/* ----------------------------------------------------------------
 *		Reading pages (page.c, segment.c, directory.c)
 * ----------------------------------------------------------------
 */

/* Whether a page is a page of a harmonia index, of this kind.  The caller holds its lock. */
extern bool hm_page_is(Page page, HmPageKind kind);

/* Whether a page, which is locked, is a leaf of the segment with this stamp. */
static inline bool
hm_page_is_leaf_of(Page page, uint64 stamp)
{
	return hm_page_is(page, HM_PAGE_LEAF) && hm_page_special(page)->stamp == stamp;
}

/*
 * Whether a page is the header that a directory entry means: a header with the entry's
 * stamp, of which that has the lower half.  It may be dead.  The caller holds the page's lock.
 */
extern bool hm_page_is_segment_of(Page page, uint32 stamp);

/*
 * Whether a page is the header of the segment with this stamp, or of the one that a
 * directory entry means, and that segment is alive.  The caller holds the page's lock.
 */
extern bool hm_segment_is_alive(Page page, uint64 stamp);
extern bool hm_segment_is_alive_for(Page page, uint32 stamp);

/*
 * Whether a page is the header of the segment with this stamp, and that segment is alive and
 * not being moved.  The caller has the page pinned, and needs no lock of it.  What it may
 * conclude from the answer says lockleaf.c.
 */
extern bool hm_segment_is_open(Page page, uint64 stamp);

/*
 * Make sure that hm_segment_is_open() does not take a page that is being overwritten for the
 * header that it may have been.  To be called before a block of an extent that was allocated gets
 * new contents; the caller has locked the page exclusively.
 */
extern void hm_page_withdraw(Page page);

/*
 * Check that a page is one of a harmonia index and of this kind, and that a metapage suits the
 * index. The caller holds the buffer's lock. Errors: index_corrupted; feature_not_supported for a
 * metapage of an on-disk version that this library does not read.
 */
extern void hm_page_check(Relation index, Buffer buffer, HmPageKind kind);

/*
 * Check a count that a page begins with.
 * Errors: index_corrupted.
 */
extern void hm_count_check(Relation index, Buffer buffer, uint32 count, uint32 max);

/* The same as hm_page_check() for these kinds, and that the count is in range. */
extern void hm_directory_check(Relation index, Buffer buffer);
extern void hm_auxiliary_check(Relation index, Buffer buffer);

/*
 * Read, lock and check the metapage.  lock is BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE.
 * The caller holds no buffer lock, and unlocks and releases the buffer.
 * Errors: those of hm_page_check().
 */
extern Buffer hm_meta_buffer(Relation index, int lock);

/*
 * Read the whole directory: the entries of all segments, in order, and the blocks of the
 * directory pages.  Both arrays are palloc'd.  Holds the metapage's share lock while it
 * reads; the caller holds no buffer lock.
 */
extern HmDirectoryEntry *hm_directory_read(Relation index, int *count, BlockNumber **pages,
										   int *page_count);

/*
 * Check that a header can be used: that nothing found by its numbers lies outside of a
 * page.  The page has passed hm_page_check(); the caller holds its lock.
 * Errors: index_corrupted.
 */
extern void hm_segment_check(Relation index, Buffer header, HtWidth width);

/*
 * Where the separator between a leaf (1 or more) and the leaf before it stands: the
 * number of the node, and the number of the separator in that node.
 */
extern void hm_segment_separator(const HmSegment *segment, uint32 leaf, uint32 *node,
								 int *separator);

/*
 * Where a node stands.  Returns 0 for the header page, n for the n-th key page, and in
 * *offset the node's byte offset on that page.
 */
extern uint32 hm_node_page(const HmSegment *segment, HtWidth width, uint32 node, uint32 *offset);

/*
 * Search an auxiliary node.  Returns the number of the child in which an entry belongs
 * or, if before is true, of the child that holds the entry's predecessor.
 */
extern int hm_auxiliary_child(const HmAuxiliary *auxiliary, HtEntry entry, bool before);

/* The low bound of child i of an auxiliary node; meaningless for child 0. */
static inline HtEntry
hm_auxiliary_low(const HmAuxiliary *auxiliary, int i)
{
	HtEntry low;

	low.key = auxiliary->keys[i];
	low.tid = ((uint64) auxiliary->tids[i][0] << 32) | ((uint64) auxiliary->tids[i][1] << 16) |
			  auxiliary->tids[i][2];
	return low;
}

#endif /* HARMONIA_FORMAT_H */
