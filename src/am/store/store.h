/*
 * store.h
 *		What is stored: pages, the metapage and a backend's copy of it, locks, logging, extents, the
 *		directory, shapes of leaves, segments.
 */
#ifndef HARMONIA_AM_STORE_H
#define HARMONIA_AM_STORE_H

#include "access/generic_xlog.h"

#include "am/base/base.h"
#include "am/format.h"
#include "am/keys/keys.h"

/* ----------------------------------------------------------------
 *		Page access (page.c)
 * ----------------------------------------------------------------
 */

/*
 * Initialise a page and its special area.  All other bytes become zero.  segment is the
 * block of the segment's header.
 */
extern void hm_page_init(Page page, HmPageKind kind, uint64 stamp, BlockNumber segment,
						 HmPart part);

/* Report a page that is not of this kind.  Does not return. */
extern void hm_page_report_kind(Relation index, Buffer buffer, HmPageKind kind);

/* Make a page the metapage of a new index, without any segment. */
extern void hm_meta_init(Relation index, Page page);

/*
 * Read all entries of a leaf, which the caller has locked or copied, and check everything that must
 * hold inside it (hm_leaf_problem()): entries that are copied to other leaves must not spread
 * damage.  "block" is where the leaf is. Returns the number of entries. Errors: index_corrupted.
 */
extern int hm_leaf_read_checked(Relation index, BlockNumber block, Page page, HtWidth width,
								HtEntry *entries);

/* A leaf that this backend has changed (lockleaf.c). */
typedef struct HmKnownLeaf
{
	BlockNumber leaf;
	BlockNumber header;
	uint64 stamp : 56, part : 8;
	HtEntry low;  /* its bounds then */
	HtEntry high; /* above all entries if it had none */
} HmKnownLeaf;

/*
 * How many leaves a backend remembers: as many as have room in so many bytes, which are 128 with
 * keys of 64 bits.  Clients that add the times of a moment ago change as many leaves in turn as
 * these times have: some 60 with 440,000 rows a second and times of the last 100 ms.  Few are
 * enough for tests.
 */
#ifdef HM_SMALL_LIMITS
#define HM_KNOWN_BYTES 384
#else
#define HM_KNOWN_BYTES 6144
#endif
#define HM_KNOWN_LEAVES ((int) (HM_KNOWN_BYTES / sizeof(HmKnownLeaf)))
#define HM_KNOWN_MOST 128 /* whatever the width of keys */

StaticAssertDecl(HM_KNOWN_BYTES / sizeof(HmKnownLeaf) <= HM_KNOWN_MOST,
				 "no room for the order of known leaves");

/*
 * A backend's copy of the metapage's lasting fields and of the directory's root, and the
 * leaves that it remembers.  It belongs to the relcache entry, and is freed with it.
 */
typedef struct HmCache
{
	bool remembers;
	int known_count;
	int known_next; /* the one to be forgotten next */
	int known_last; /* the one that was found last */
	HtWidth width;
	HmFields fields;
	int fanout;
	bool nulls_low;
	int depth;
	int dead_skip; /* splits before which not to look for dead entries (deadentries.c) */
	int dead_next_skip;
	uint32 root_count;
	union
	{
		HmDirectoryEntry root[HM_ROOT_MAX];
		uint64 root_words[HM_ROOT_BYTES / sizeof(uint64)];
	};

	/* This is there if "remembers" is true: in a backend that has inserted into the index. */
	uint8 known_order[HM_KNOWN_MOST]; /* numbers of leaves, by where these begin */
	union                             /* the same bytes whatever the width of keys */
	{
		HmKnownLeaf known[HM_KNOWN_BYTES / sizeof(HmKnownLeaf)];
		uint64 known_words[HM_KNOWN_BYTES / sizeof(uint64)];
	};
} HmCache;

/*
 * The backend's copy; read from the metapage if there is none, or if renew is true.  The
 * caller holds no buffer lock: it may have to be read at any time.  The result is valid until the
 * next call that may process invalidation messages, that is, until a lock of a relation is taken, a
 * metapage is read (hm_meta_buffer()), or hm_leaf_lock() is called.
 */
extern HmCache *hm_cache(Relation index, bool renew);

/*
 * Whether the backend's copy was made after the file was last truncated.  If not, its
 * entries may lie beyond the end of the file.
 */
extern bool hm_cache_is_current(Relation index);

/* ----------------------------------------------------------------
 *		Fields of an index (metapage.c)
 * ----------------------------------------------------------------
 */

/*
 * hm_fields_read() for the planner, which a damaged index must not keep from reading the table:
 * returns false if the index is damaged.
 */
extern bool hm_fields_try(Relation index, HmFields *fields);

/* ----------------------------------------------------------------
 *		Heavyweight locks (locks.c)
 *
 * All are released at abort.  The caller holds no buffer lock.  lock_timeout, which is about
 * locks that users know of, does not apply.
 * ----------------------------------------------------------------
 */

/* Wait events, named so on PostgreSQL 17 and later. */
#define HM_WAIT_MOVEMENT "HarmoniaMovement"
#define HM_WAIT_ALLOCATION "HarmoniaAllocation"

/*
 * Wait for a moment, at most two milliseconds, before looking again whether another backend has
 * come to an end; *pauses, 0 at first, counts the calls. Errors: query_canceled and its like.
 */
extern void hm_pause(int *pauses, const char *event);

/* The mover's lock on a segment, by the block of its header. */
extern void hm_movement_lock(Relation index, BlockNumber header);
extern void hm_movement_unlock(Relation index, BlockNumber header);

/* Keep movers out, for a moment; false if one has the lock. */
extern bool hm_movement_keep_out(Relation index, BlockNumber header);
extern void hm_movement_let_in(Relation index, BlockNumber header);

/*
 * The lock of the background worker that moves segments of an index (mover.c).  It is never waited
 * for: hm_mover_lock() returns false if another process has it, hm_mover_is_there() whether one
 * has.
 */
extern bool hm_mover_lock(Relation index);
extern void hm_mover_unlock(Relation index);
extern bool hm_mover_is_there(Relation index);

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
 * Wait until all that are inside now have left; those that come meanwhile do not wait.  For
 * VACUUM, before it goes on to the heap; only one backend at a time may drain an index's gate.
 */
extern void hm_visibility_gate_drain(Relation index);

/* ----------------------------------------------------------------
 *		Logging (wal.c)
 * ----------------------------------------------------------------
 */

/*
 * Log the contents of disjoint ranges of a page as a generic WAL record and set the page's LSN.
 * The caller holds the buffer's exclusive lock, is in a critical section, has changed the page, and
 * has marked the buffer dirty.
 */
extern void hm_log_ranges(Buffer buffer, const HtByteRange *ranges, int count);

/*
 * The same for a change of a leaf's entries.  Does nothing for an index without WAL.
 */
static inline void
hm_log_leaf_change(Relation index, Buffer buffer, const HtLeafChange *change)
{
	HtByteRange ranges[HT_LEAF_MAX_RANGES];

	if (RelationNeedsWAL(index))
		hm_log_ranges(buffer, ranges, ht_leaf_change_ranges(BufferGetPage(buffer), change, ranges));
}

/*
 * Log a page that hm_page_init() has just made, in few bytes, so that what is written to
 * it next can be logged as a change.  The caller holds the buffer's exclusive lock, is in
 * a critical section and has marked the buffer dirty.
 */
extern void hm_log_blank_page(Relation index, Buffer buffer);

/*
 * Log that entries are about to be removed which a snapshot on a standby may need if it does not
 * see the end of the transaction "horizon", which has deleted rows of the table.  Replay waits for
 * such snapshots, or cancels their queries, before it comes to the next record.  Does nothing if
 * the horizon is invalid, or no standby can replay the index.  The caller holds the lock of the
 * page from which it removes the entries next.
 */
extern void hm_log_conflict(Relation index, Relation heap, TransactionId horizon);

/*
 * Write an image to a page of a new segment and log that, in as few bytes as it takes: as a whole
 * page, or as a blank one and the change that makes the image of it.  The caller holds the
 * buffer's exclusive lock and is in a critical section.
 */
extern void hm_page_write(Relation index, Buffer buffer, const char *image);

/*
 * A change of up to HM_CHANGE_PAGES pages that is logged in one generic record, or written without
 * one for an index without WAL.  As with GenericXLogStart() and its like, the caller changes
 * copies of the pages; nothing has happened before hm_change_finish().  But these
 * allocate nothing, and find what has changed some ten times as fast.  So they suit changes under a
 * segment's lock.  A backend makes one such change at a time.
 *
 * hm_change_page() returns the copy of a page, the buffer of which the caller has locked
 * exclusively. In the record pages have the order of these calls; it must be that of locks
 * (README).
 */
#define HM_CHANGE_PAGES 4

extern void hm_change_begin(Relation index);
extern Page hm_change_page(Buffer buffer);
extern void hm_change_finish(void);

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
 * longer.  Returns its first block, which is "next" if these blocks are on the list; that may be
 * InvalidBlockNumber.  The caller holds the allocation lock and no buffer lock.
 * Errors: program_limit_exceeded; index_corrupted for a damaged list.
 */
extern BlockNumber hm_extent_allocate(Relation index, uint32 length, HmExtentUse use,
									  BlockNumber next);

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
	BlockNumber free; /* blocks, listed or not */
	BlockNumber end;  /* of the file, or of what is listed of it */
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
 * The beginning of the free blocks at the end of the file; if they are listed, of so many of them
 * at most.  Those that a sweep has left alone are all or none, as the list does not have what would
 * be left of them. The caller holds the index's AccessExclusiveLock.
 */
extern BlockNumber hm_extents_end(Relation index, BlockNumber most);

/* List blocks that a sweep has left alone at the end of the file. */
extern void hm_extents_keep_end(Relation index);

/* Whether it pays to truncate so many free blocks at the end of a file of so many blocks. */
extern bool hm_worth_truncating(BlockNumber free, BlockNumber blocks);

/* ----------------------------------------------------------------
 *		Directory (directory.c), and changing it (directorychange.c)
 * ----------------------------------------------------------------
 */

/*
 * The number of the last entry that is below the position or, with "equal", not above it;
 * or -1.
 */
extern int hm_directory_search(const HmDirectoryEntry *entries, int count, HmPosition position,
							   bool equal);

/* A segment, as the directory lists it. */
typedef struct HmListedSegment
{
	BlockNumber block; /* of its header */
	uint32 stamp;      /* the lower half */
} HmListedSegment;

/* hm_directory_read() for code that needs no bounds; the second one for all widths. */
extern HmListedSegment *hm_directory_list(Relation index, int *count, BlockNumber **pages,
										  int *page_count);
extern HmListedSegment *hm_segments_list(Relation index, int *count, BlockNumber **pages,
										 int *page_count);

/* hm_segment_keys() for one width. */
extern HmKey *hm_directory_keys(Relation index, int *count);

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
	Buffer meta;
	Buffer page; /* InvalidBuffer: the page is the root itself */
	int emptied; /* number in the root of a directory page that becomes empty and is removed; 0:
				  * none */
} HmDirectoryEdit;

extern void hm_directory_begin(Relation index, HmPosition low, int count, HmDirectoryEdit *edit);

/* Whether a part has any segment, where the first one of a part is to be added. */
extern bool hm_directory_has_part(HmDirectoryEdit *edit, HmPart part);

/* Whether the entry with this low bound is that of the segment at block, with this stamp. */
extern bool hm_directory_leads_to(HmDirectoryEdit *edit, HmPosition low, BlockNumber block,
								  uint64 stamp);

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
extern void hm_directory_apply(HmDirectoryEdit *edit, GenericXLogState *state, int replaced,
							   const HmDirectoryEntry *entries, int count);
extern void hm_directory_end(HmDirectoryEdit *edit);

/* ----------------------------------------------------------------
 *		Shapes of leaves (leafshape.c)
 * ----------------------------------------------------------------
 */

/* The number of entries that a build puts on a leaf of a shape, by the index's fill factor. */
extern int hm_leaf_fill_count(Relation index, HtLeafShape shape);

/*
 * What is wrong inside a leaf, as a constant string: its bytes, or a shape that does not suit its
 * bounds; NULL if nothing is.  width is that of the index.  Reads the leaf's entries as
 * ht_leaf_read_checked() does.
 */
extern const char *hm_leaf_problem(Page page, HtWidth width, HtEntry *entries, int *n);

/*
 * Replace all entries of a leaf, as ht_leaf_fill() does; the page's header says where the leaf has
 * its hole.
 */
extern void hm_leaf_fill(Page page, HtLeafShape shape, const HtEntry *entries, int n);

/* The bytes that these entries' TIDs are stored in; there is room for those of a larger table. */
extern int hm_tid_bytes(const HtEntry *entries, uint64 n);

/*
 * Whether the class of a leaf with a high bound need not reach that bound (leafshape.c): so it is
 * with keys of more than 64 bits.
 */
#define HM_SOFT_BOUNDS (HM_KEYS > 64)

/* The distance of keys where there are too few to tell. */
#define HM_STEP_UNKNOWN KEY_MAX

/* The average distance of the keys of sorted entries, rounded up: 0 if all have one key. */
extern HT_KEY hm_key_step(const HtEntry *entries, uint64 n);

/*
 * The shape for a leaf with n sorted entries.  low and high are its bounds; high is NULL for the
 * last leaf of a part.  Then "step" is the expected distance of keys to come.
 */
extern HtLeafShape hm_leaf_shape(HtWidth width, HtEntry low, const HtEntry *high,
								 const HtEntry *entries, int n, HT_KEY step);

/* Whether a leaf with these bounds can have only one key. */
extern bool hm_is_single_key(HtEntry low, HtEntry high);

/* A leaf that is to be filled: with so many of the next entries. */
typedef struct HmLeafPlan
{
	HtLeafShape shape;
	int count;
} HmLeafPlan;

/*
 * Divide n sorted entries among leaves that are "percent" full, or those with one key alone
 * "single" percent: each gets as many as the class that has room for most.  low is the first leaf's
 * low bound, those of the others are their first entries.  high is the high bound of the last leaf,
 * NULL if that is the last one of its part; step is as for hm_leaf_shape().  Plans at most max
 * leaves, and one if there are no entries. Returns their number, and in *planned the number of
 * their entries.
 */
extern uint32 hm_plan_leaves(HtWidth width, int percent, int single, HtEntry low,
							 const HtEntry *high, const HtEntry *entries, uint64 n, HT_KEY step,
							 uint32 max, HmLeafPlan *plan, uint64 *planned);

/* ----------------------------------------------------------------
 *		Segments (segment.c, reader.c)
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

/* What a new segment is to be. */
typedef struct HmSegmentSpec
{
	HtWidth width;
	int fanout;
	HmPart part;
	bool has_high;
	uint64 stamp;
	BlockNumber start; /* block of the header */
	uint32 leaf_room;
	uint32 leaves; /* leaves to be filled, 1 to leaf_room */
} HmSegmentSpec;

/* Lay out header and key pages in memory, but for bounds and separators. */
extern void hm_segment_layout(const HmSegmentSpec *spec, char *image);

/*
 * Lay out a whole segment in memory: header, key pages and the leaves to be filled, with
 * the entries that the plan gives to each.  high counts if the segment has a high bound.  image has
 * room for these pages; pages of further leaves are not touched.  Returns the number of pages made.
 */
extern uint32 hm_segment_image(const HmSegmentSpec *spec, HtEntry low, HtEntry high,
							   const HmLeafPlan *plan, const HtEntry *entries, char *image);

/* What leads to a new segment. */
extern HmDirectoryEntry hm_segment_entry(const HmSegmentSpec *spec, HtEntry low);

/*
 * Write the pages of an image into the first blocks of an extent, and log them as full
 * images.  The caller owns the blocks and holds no buffer lock.
 */
extern void hm_segment_write(Relation index, BlockNumber start, const char *image, uint32 pages);

/* Set block and low bound of child i of an auxiliary node.  Does not change its count. */
extern void hm_auxiliary_set(HmAuxiliary *auxiliary, int i, HtEntry low, BlockNumber child);

/*
 * Find the leaf in which an entry belongs or, if before is true, the leaf that holds the
 * entry's predecessor.  The caller holds the header's lock, in either mode; it has got the width of
 * keys before that, as hm_cache() may not be called now.  Returns the leaf's buffer, pinned and not
 * locked. Errors: index_corrupted.
 */
extern Buffer hm_segment_descend(Relation index, Buffer header, HtWidth width, HtEntry entry,
								 bool before, BufferAccessStrategy strategy);

/*
 * The same, but the leaf is locked (BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE), and is
 * one.  For callers that keep the header's lock: the leaf is then the right one.
 */
extern Buffer hm_segment_leaf(Relation index, Buffer header, HtWidth width, HtEntry entry,
							  bool before, int lock, BufferAccessStrategy strategy);

/* Also for keys of 128 bits; see HM_FOR_INDEX(). */
#if HM_KEYS == 64
HM_BOTH_WIDTHS(hm_directory_list);
HM_BOTH_WIDTHS(hm_directory_keys);
#endif

#endif /* HARMONIA_AM_STORE_H */
