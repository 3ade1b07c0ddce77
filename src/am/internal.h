/*
 * internal.h
 *		What the files of this folder offer to each other.  No other folder includes this.
 *
 * The conventions are those of am.h.
 */
#ifndef HARMONIA_INTERNAL_H
#define HARMONIA_INTERNAL_H

#include "access/generic_xlog.h"
#include "access/itup.h"
#include "access/reloptions.h"
#include "access/tableam.h"
#include "catalog/pg_index.h"
#include "nodes/execnodes.h"

#include "am/am.h"
#include "am/format.h"

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

/* The options of an index: those that it was created with, or the defaults. */
extern int	hm_fanout(Relation index);
extern int	hm_fillfactor(Relation index);

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

/*
 * Read all entries of a leaf, which the caller has locked or copied, and check everything that must hold inside it
 * (hm_leaf_problem()): entries that are copied to other leaves must not spread damage.  "block" is where the leaf is.
 * Returns the number of entries.
 * Errors: index_corrupted.
 */
extern int	hm_leaf_read_checked(Relation index, BlockNumber block, Page page, HtWidth width, HtEntry *entries);

/* A leaf that this backend has changed (target.c). */
typedef struct HmKnownLeaf
{
	BlockNumber leaf;
	BlockNumber header;
	uint64		stamp:56,
				part:8;
	HtEntry		low;			/* its bounds then */
	HtEntry		high;			/* above all entries if it had none */
} HmKnownLeaf;

/*
 * How many leaves a backend remembers: as many as have room in so many bytes, which are 128 with keys of 64 bits.  Clients
 * that add the times of a moment ago change as many leaves in turn as these times have: some 60 with 440,000 rows
 * a second and times of the last 100 ms.  Few are enough for tests.
 */
#ifdef HM_SMALL_LIMITS
#define HM_KNOWN_BYTES		384
#else
#define HM_KNOWN_BYTES		6144
#endif
#define HM_KNOWN_LEAVES		((int) (HM_KNOWN_BYTES / sizeof(HmKnownLeaf)))
#define HM_KNOWN_MOST		128	/* whatever the width of keys */

StaticAssertDecl(HM_KNOWN_BYTES / sizeof(HmKnownLeaf) <= HM_KNOWN_MOST,
				 "no room for the order of known leaves");

/*
 * A backend's copy of the metapage's lasting fields and of the directory's root, and the
 * leaves that it remembers.  It belongs to the relcache entry, and is freed with it.
 */
typedef struct HmCache
{
	bool		remembers;
	int			known_count;
	int			known_next;		/* the one to be forgotten next */
	int			known_last;		/* the one that was found last */
	HtWidth		width;
	HmFields	fields;
	int			fanout;
	bool		nulls_low;
	int			depth;
	int			dead_skip;		/* splits before which not to look for dead entries
								 * (dead.c) */
	int			dead_next_skip;
	uint32		root_count;
	union
	{
		HmDirectoryEntry root[HM_ROOT_MAX];
		uint64		root_words[HM_ROOT_BYTES / sizeof(uint64)];
	};

	/* This is there if "remembers" is true: in a backend that has inserted into the index. */
	uint8		known_order[HM_KNOWN_MOST];	/* numbers of leaves, by where these begin */
	union						/* the same bytes whatever the width of keys */
	{
		HmKnownLeaf known[HM_KNOWN_BYTES / sizeof(HmKnownLeaf)];
		uint64		known_words[HM_KNOWN_BYTES / sizeof(uint64)];
	};
} HmCache;

/*
 * The caller holds no lock of a buffer's contents, nor another lock of that kind.  (So a function that reads an index
 * may not be called while PostgreSQL prunes a parallel Append, with assertions; without them it may.)
 */
#define AssertNoContentLock()	Assert(InterruptHoldoffCount == 0)

/*
 * The backend's copy; read from the metapage if there is none, or if renew is true.  The
 * caller holds no buffer lock: it may have to be read at any time.  The result is valid until the next
 * call that may process invalidation messages, that is, until a lock of a relation is
 * taken, a metapage is read (hm_meta_buffer()), or hm_target_find() is called.
 */
extern HmCache *hm_cache(Relation index, bool renew);

/*
 * Whether the backend's copy was made after the file was last truncated.  If not, its
 * entries may lie beyond the end of the file.
 */
extern bool hm_cache_is_current(Relation index);

/* ----------------------------------------------------------------
 *		Composite keys (fields.c)
 * ----------------------------------------------------------------
 */

/*
 * How the key of a new index is divided among its columns.
 * Errors: too_many_columns; feature_not_supported.
 */
extern void hm_fields_plan(Relation index, HmFields *fields);

/*
 * The key types that a new index's columns have (hm_column_type()), found for what is done under a lock.  NULL for an
 * included column of a type that is not supported.
 */
typedef struct HmColumnTypes
{
	const HmKeyType *of[HM_MAX_KEY_COLUMNS];
} HmColumnTypes;

extern void hm_column_types(Relation index, HmColumnTypes *types);

/*
 * Write that to a metapage, and read it, given the key types of the columns (hm_column_types()).  Reading returns
 * false if what is there cannot be that index's.  Included columns have the key types that they were built with.
 */
extern void hm_fields_write(Relation index, const HmFields *fields, HmMeta *meta);
extern bool hm_fields_from_meta(Relation index, const HmColumnTypes *types, const HmMeta *meta,
								HmFields *fields);

/*
 * hm_fields_read() for the planner, which a damaged index must not keep from reading the table: returns
 * false if the index is damaged.
 */
extern bool hm_fields_try(Relation index, HmFields *fields);

/* ----------------------------------------------------------------
 *		Values by their keys (valuesort.c)
 * ----------------------------------------------------------------
 */

/*
 * Sort values, of which there is at least one, by their keys into *result, whose arrays have room for them.
 * "length" is the type's typlen.
 */
extern void hm_values_sort(HmKeyValues *result, const void *keys, const Datum *values, uint32 count,
						   int16 length);
#if HM_KEYS == 64
extern void hm_values_sort_128(HmKeyValues *result, const void *keys, const Datum *values, uint32 count,
							   int16 length);
#endif

/* ----------------------------------------------------------------
 *		Order (order.c)
 * ----------------------------------------------------------------
 */

/*
 * Where storage, which is read backward if the first column is descending, has a column with an option, one
 * of rd_indoption: whether its greater values come first, and whether NULL does.
 */
static inline bool
hm_option_is_descending(int16 first, int16 option)
{
	return ((first ^ option) & INDOPTION_DESC) != 0;
}

static inline bool
hm_option_has_nulls_low(int16 first, int16 option)
{
	return ((option & INDOPTION_NULLS_FIRST) != 0) != ((first & INDOPTION_DESC) != 0);
}

/*
 * Whether a scan of all of the index, forward, returns the rows of its table in the order that the index's
 * columns, with DESC and NULLS FIRST or LAST, define; and backward, in the reverse order.  No if the
 * index is damaged.  Both relations are locked.  The caller holds no buffer lock.
 */
extern bool hm_keeps_order(Relation index, Relation table);

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
 * Wait for a moment, at most two milliseconds, before looking again whether another backend has come
 * to an end; *pauses, 0 at first, counts the calls.
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
 * The lock of the background worker that moves segments of an index (mover.c).  It is never waited
 * for: hm_mover_lock() returns false if another process has it, hm_mover_is_there() whether one has.
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
 * Log the contents of disjoint ranges of a page as a generic WAL record and set the page's LSN.  The
 * caller holds the buffer's exclusive lock, is in a critical section, has changed the
 * page, and has marked the buffer dirty.
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
 * Log that entries are about to be removed which a snapshot on a standby may need if it does not see
 * the end of the transaction "horizon", which has deleted rows of the table.  Replay waits for
 * such snapshots, or cancels their queries, before it comes to the next record.  Does nothing
 * if the horizon is invalid, or no standby can replay the index.  The caller holds the lock
 * of the page from which it removes the entries next.
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
 * hm_change_page() returns the copy of a page, the buffer of which the caller has locked exclusively.
 * In the record pages have the order of these calls; it must be that of locks (README).
 */
#define HM_CHANGE_PAGES		4

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
extern BlockNumber hm_extent_allocate(Relation index, uint32 length, HmExtentUse use, BlockNumber next);

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
 * The beginning of the free blocks at the end of the file; if they are listed, of so many of them at
 * most.  Those that a sweep has left alone are all or none, as the list does not have what would be left of them.
 * The caller holds the index's AccessExclusiveLock.
 */
extern BlockNumber hm_extents_end(Relation index, BlockNumber most);

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
 * commit, and vacuum_truncate and VACUUM's option TRUNCATE can forbid it.  The caller holds a lock on the index's table.
 */
extern bool hm_can_truncate(Relation index);

/*
 * Have the transaction give free blocks at the end of the file back to the file system
 * when it commits, if it pays and no other backend uses the index then.  Blocks from end
 * on are free, though not listed.  Returns the number of blocks that would be given back.
 */
extern BlockNumber hm_truncate_at_commit(Relation index, BlockNumber end);

/* ----------------------------------------------------------------
 *		Directory (directory.c)
 * ----------------------------------------------------------------
 */

/*
 * Whether the segment with this header is the one that a search for the position must
 * find.  The caller holds the header's lock.
 */
extern bool hm_segment_covers(Page header, HmPosition position, HmSearch search);

/* A segment, as the directory lists it. */
typedef struct HmListedSegment
{
	BlockNumber block;			/* of its header */
	uint32		stamp;			/* the lower half */
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
	Buffer		meta;
	Buffer		page;			/* InvalidBuffer: the page is the root itself */
	int			emptied;		/* number in the root of a directory page that
								 * becomes empty and is removed; 0: none */
} HmDirectoryEdit;

extern void hm_directory_begin(Relation index, HmPosition low, int count,
							   HmDirectoryEdit *edit);

/* Whether a part has any segment, where the first one of a part is to be added. */
extern bool hm_directory_has_part(HmDirectoryEdit *edit, HmPart part);

/* Whether the entry with this low bound is that of the segment at block, with this stamp. */
extern bool hm_directory_leads_to(HmDirectoryEdit *edit, HmPosition low, BlockNumber block, uint64 stamp);

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

/* ----------------------------------------------------------------
 *		Shapes of leaves (shape.c)
 * ----------------------------------------------------------------
 */

/* The number of entries that a build puts on a leaf of a shape, by the index's fill factor. */
extern int	hm_leaf_target(Relation index, HtLeafShape shape);

/*
 * What is wrong inside a leaf, as a constant string: its bytes, or a shape that does not suit its
 * bounds; NULL if nothing is.  width is that of the index.  Reads the leaf's entries as ht_leaf_read_checked() does.
 */
extern const char *hm_leaf_problem(Page page, HtWidth width, HtEntry *entries, int *n);

/*
 * Replace all entries of a leaf, as ht_leaf_fill() does; the page's header says where the leaf has
 * its hole.
 */
extern void hm_leaf_fill(Page page, HtLeafShape shape, const HtEntry *entries, int n);

/* The bytes that these entries' TIDs are stored in; there is room for those of a larger table. */
extern int	hm_tid_bytes(const HtEntry *entries, uint64 n);

/*
 * Whether the class of a leaf with a high bound need not reach that bound (shape.c): so it is with
 * keys of more than 64 bits.
 */
#define HM_SOFT_BOUNDS		(HM_KEYS > 64)

/* The distance of keys where there are too few to tell. */
#define HM_STEP_UNKNOWN		KEY_MAX

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
	int			count;
} HmLeafPlan;

/*
 * Divide n sorted entries among leaves that are "percent" full, or those with one key alone "single"
 * percent: each gets as many as the class that has room for most.  low is the first leaf's low bound,
 * those of the others are their first entries.  high is the high bound of the last leaf, NULL if that
 * is the last one of its part;
 * step is as for hm_leaf_shape().  Plans at most max leaves, and one if there are no entries.
 * Returns their number, and in *planned the number of their entries.
 */
extern uint32 hm_plan_leaves(HtWidth width, int percent, int single, HtEntry low,
							 const HtEntry *high, const HtEntry *entries, uint64 n, HT_KEY step, uint32 max,
							 HmLeafPlan *plan, uint64 *planned);

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
	HtWidth		width;
	int			fanout;
	HmPart		part;
	bool		has_high;
	uint64		stamp;
	BlockNumber start;			/* block of the header */
	uint32		leaf_room;
	uint32		leaves;			/* leaves to be filled, 1 to leaf_room */
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
extern void hm_segment_write(Relation index, BlockNumber start, const char *image,
							 uint32 pages);

/* Set block and low bound of child i of an auxiliary node.  Does not change its count. */
extern void hm_auxiliary_set(HmAuxiliary *auxiliary, int i, HtEntry low, BlockNumber child);

/*
 * Find the leaf in which an entry belongs or, if before is true, the leaf that holds the
 * entry's predecessor.  The caller holds the header's lock, in either mode; it has got the width of keys before that,
 * as hm_cache() may not be called now.  Returns the leaf's buffer, pinned and not locked.
 * Errors: index_corrupted.
 */
extern Buffer hm_segment_descend(Relation index, Buffer header, HtWidth width, HtEntry entry,
								 bool before, BufferAccessStrategy strategy);

/*
 * The same, but the leaf is locked (BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE), and is
 * one.  For callers that keep the header's lock: the leaf is then the right one.
 */
extern Buffer hm_segment_leaf(Relation index, Buffer header, HtWidth width, HtEntry entry,
							  bool before, int lock, BufferAccessStrategy strategy);

/* ----------------------------------------------------------------
 *		Insertion (insert.c, split.c, grow.c), movement (movement.c), batches (batch.c)
 * ----------------------------------------------------------------
 */

/*
 * Insert entries of one part, sorted and without duplicates, as the papers' Algorithm 1
 * applies a batch of updates.  An entry that is in the index already is left alone.
 * After an error any number of the entries may be in the index; the caller may insert all
 * of them again.  "unchanged" says that some come from UPDATEs that leave their keys as they
 * are (dead.h).  The caller holds no buffer lock and no allocation lock.
 * Errors: index_corrupted, program_limit_exceeded.
 */
extern void hm_insert_sorted(Relation index, Relation heap, HmPart part,
							 const HtEntry *entries, int64 n, bool unchanged);

/* The same for entries as the queue of a statement has them, after hm_sort_queued(). */
extern void hm_insert_queued(Relation index, Relation heap, HmPart part, const void *queued,
							 int64 n, bool unchanged);
extern int64 hm_sort_queued(void *queued, int64 n);

/* What identifies a segment: the block of its header, and its stamp. */
typedef struct HmSegmentName
{
	BlockNumber header;
	uint64		stamp;
} HmSegmentName;

typedef enum HmMoveMode
{
	HM_MOVE_KEEP_ROOM,			/* leaves keep some room if splits have shown that
								 * entries arrive there */
	HM_MOVE_OUTGROWN,			/* leaves that would soon be split get more room, others
								 * stay as full as they are */
	HM_MOVE_PACK,				/* all leaves become as full as a build makes them */
	HM_MOVE_IF_SMALLER			/* the same, but only if that saves leaves or auxiliary
								 * nodes */
} HmMoveMode;

/*
 * Movement: rewrite one segment, or two neighbours together, in pure layout, as one or
 * more new segments.  Leaves that are split meanwhile may leave an auxiliary node.  Returns false,
 * and changes nothing, if a segment has been replaced already, if the two cannot be replaced
 * together, or if it would not pay.  last, if not NULL, becomes the directory's entry of the
 * last new segment.  Takes memory for all entries and pages of a segment.  The caller holds no buffer
 * lock and no allocation lock.
 * Errors: index_corrupted.  The movement is then undone, apart from lost blocks and the
 * mark in the header, which the next writer removes.
 */
extern bool hm_segments_move(Relation index, const HmSegmentName *segments, int count,
							 HmMoveMode mode, HmDirectoryEntry *last);

/*
 * Enter the segment that covers a position, to write: like hm_segment_enter(), but waits
 * while the segment is being moved.  Returns InvalidBuffer if the position's part has no
 * segment.  The caller holds no buffer lock and no allocation lock.
 */
extern Buffer hm_segment_enter_to_write(Relation index, HmPosition position, int lock);

/* What decides whether a segment is moved. */
typedef struct HmSegmentUse
{
	HmSegmentName name;
	HmPosition	low;
	uint64		packed;			/* leaves that its entries fill when packed, in parts
								 * of a leaf */
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

/* Add the entries of a leaf, which are so many. */
extern void hm_segment_use_add(Relation index, HmSegmentUse *use, Page leaf, int entries);

/*
 * Move the segments for which it pays: those that are sparse or shadowed or, if all is
 * true, all that could be packed better; and join small neighbours.  Changes *uses to
 * match.  Returns the number of movements.  The caller holds no lock but on the relation.
 */
extern int	hm_reorganize(Relation index, HmSegmentUses *uses, bool all);

/* Move all segments that could be packed better, and compact the index; see storage.h. */
extern int	hm_reorganize_all(Relation index);

/*
 * Whether inserts have made a segment grow so far that it should be moved.  The caller has locked its header.
 */
extern bool hm_segment_wants_movement(Relation index, Buffer header);

/* Move the next segment that wants it; see storage.h. */
extern bool hm_move_outgrown(Relation index, int *place);

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
 * Offer an entry, an HtEntry of the index's width, to the statement's batch (batch.c).  Returns true if the batch has
 * queued it, false if the caller has to insert it at once.  May apply the whole queue;
 * the caller holds no buffer lock.
 */
extern bool hm_batch_add(Relation index, Relation heap, IndexInfo *info,
						 IndexUniqueCheck check, HmPart part, const void *entry, bool unchanged);

/*
 * Insert this backend's queued entries of all indexes.  The caller holds no buffer lock.
 */
extern void hm_batch_apply_all(void);

/* Whether this backend has queued entries of an index. */
extern bool hm_batch_pending(Relation index);

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
 *		Reading mostly all-visible tables for a build (buildheap.c)
 * ----------------------------------------------------------------
 */
extern bool hm_build_scans_pages(Relation heap, IndexInfo *info);
extern double hm_build_scan_pages(Relation heap, Relation index, IndexInfo *info, bool progress,
								  IndexBuildCallback callback, void *arg);

/* ----------------------------------------------------------------
 *		Tuples of index-only scans (scantuple.c)
 * ----------------------------------------------------------------
 */
typedef struct HmScanTuple HmScanTuple;

/*
 * Set scan->xs_itup for the row xs_heaptid, whose key is given.  *tuple is NULL for the first call;
 * it lives as long as the scan, and has to be ended.  The tuple is valid until the next call.  Returns
 * false if the scan does not see the row, so that it can be passed over.
 */
extern bool hm_scan_tuple(IndexScanDesc scan, HmScanTuple **tuple, HmPart part, HmKey key);
extern void hm_scan_tuple_end(HmScanTuple *tuple);

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
extern bool hm_validate(Oid opclass);
extern IndexScanDesc hm_begin_scan(Relation index, int nkeys, int norderbys);
extern void hm_rescan(IndexScanDesc scan, ScanKey keys, int nkeys,
					  ScanKey orderbys, int norderbys);
extern bool hm_get_tuple(IndexScanDesc scan, ScanDirection direction);
extern int64 hm_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void hm_end_scan(IndexScanDesc scan);
extern void hm_mark_position(IndexScanDesc scan);
extern void hm_restore_position(IndexScanDesc scan);
extern Size hm_estimate_parallel_scan(HM_ESTIMATE_PARALLEL_PARAMETERS);
extern void hm_init_parallel_scan(void *target);
extern void hm_parallel_rescan(IndexScanDesc scan);

/* Those that handle keys, for one width of them (storage.h). */
extern IndexBuildResult *hm_build_index(Relation heap, Relation index, IndexInfo *info);
extern bool hm_insert_row(Relation index, Datum *values, bool *isnull, ItemPointer tid,
						  Relation heap, IndexUniqueCheck check, bool unchanged,
						  IndexInfo *info);
extern IndexBulkDeleteResult *hm_delete_dead(IndexVacuumInfo *info,
											 IndexBulkDeleteResult *stats,
											 IndexBulkDeleteCallback callback,
											 void *state);
extern IndexScanDesc hm_scan_begin(Relation index, int nkeys, int norderbys);
extern void hm_scan_restart(IndexScanDesc scan, ScanKey keys, int nkeys);
extern bool hm_scan_next(IndexScanDesc scan, ScanDirection direction);
extern int64 hm_scan_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void hm_scan_end(IndexScanDesc scan);
extern void hm_scan_mark(IndexScanDesc scan);
extern void hm_scan_restore(IndexScanDesc scan);

#endif							/* HARMONIA_INTERNAL_H */
