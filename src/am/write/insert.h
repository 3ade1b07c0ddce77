/*
 * insert.h
 *		What the files of this room share.
 */
#ifndef HARMONIA_INSERT_H
#define HARMONIA_INSERT_H

#include "am/write/write.h"

/* ----------------------------------------------------------------
 *		The leaf to be changed (lockleaf.c)
 * ----------------------------------------------------------------
 */

/*
 * The leaf in which an entry belongs: its buffer is locked exclusively, that of its
 * segment's header pinned.  Until the leaf is unlocked, the entry may be inserted: the segment
 * is alive, and a mover waits for the leaf.
 */
typedef struct HmLockedLeaf
{
	Buffer header;
	Buffer leaf;
	uint64 stamp;  /* of the segment */
	HtWidth width; /* of the index's keys */
} HmLockedLeaf;

extern void hm_leaf_release(HmLockedLeaf *locked);

/*
 * Lock the leaf in which an entry belongs, if this backend remembers it.  The caller holds no
 * buffer lock.
 */
extern bool hm_leaf_lock_known(Relation index, HmPart part, HtEntry entry, HmLockedLeaf *locked);

typedef enum HmLockResult
{
	HM_LEAF_LOCKED,
	HM_LEAF_CHANGED,   /* the leaf was split, or its segment moved, before it could be locked: try
						  * again; nothing is locked */
	HM_LEAF_NO_SEGMENT /* the part has no segment yet */
} HmLockResult;

/*
 * Find the leaf in which an entry belongs, lock it and remember it.  Waits while its segment is
 * being moved.  If the result is HM_LEAF_CHANGED, which damage explains too, the caller must
 * not try for ever.  The caller holds no buffer lock and no allocation lock.
 * Errors: index_corrupted.
 */
extern HmLockResult hm_leaf_lock(Relation index, HmPart part, HtEntry entry, HmLockedLeaf *locked);

/* Lock a buffer exclusively if that is possible within some microseconds. */
extern bool hm_lock_soon(Buffer buffer);

/*
 * Lock the header of the leaf's segment exclusively, too, if that is possible within some
 * microseconds.  It is against the order of locks, and so must not wait for longer, nor sleep.
 */
extern bool hm_leaf_lock_header(HmLockedLeaf *locked);

/* ----------------------------------------------------------------
 *		Entries of one leaf (leafentries.c)
 * ----------------------------------------------------------------
 */

/* The number of sorted entries that are below a bound. */
extern int64 hm_entries_below(const HtEntry *entries, int64 n, HtEntry bound);

/*
 * Whether an entry at the end of a part begins a new leaf: it is above all of the last leaf, which
 * has count entries, and that is as full as a build makes it.  So ascending inserts leave
 * the room that the fill factor asks for.  If the leaf cannot store the key, half as full
 * is enough, and so is what two leaves that can would have no room for.
 */
extern bool hm_begins_leaf(Relation index, Page page, int count, HtEntry entry);

/* The greatest entry of a leaf; false if it has none.  The caller has locked it. */
extern bool hm_leaf_greatest(Page page, HtEntry *entry);

/*
 * The low bound of the leaf that such an entry begins: the entry or, if the leaf before cannot
 * store keys up to it, what comes right after its last entry.  If bounds are soft, one that leaves
 * room below the entry (hm_bound_below()).  step is the distance of keys in the leaf before.
 */
extern HtEntry hm_begun_bound(Page page, HtEntry entry, HT_KEY step);

/*
 * Whether a leaf of a shape with count entries should receive n more.  The last leaf of a part
 * (is_last) may get full: ascending inserts push no entries.
 */
extern bool hm_leaf_has_room(HtLeafShape shape, bool is_last, int count, int64 n);

/*
 * How many of n sorted entries, the first of which belongs in this leaf, should go into
 * it; the leaf has count entries. 0 means that they should have a new leaf to the right
 * of it, or that it has to become wider.
 */
extern int64 hm_entries_for_leaf(Relation index, Page page, int count, const HtEntry *entries,
								 int64 n);

/* The last position that a leaf of a shape can store. */
extern HtEntry hm_leaf_reach(HtLeafShape shape);

/*
 * Merge the entries of a leaf with the first of *n new ones, as many as make no more than
 * max together.  Returns the number of merged entries; *n becomes the number of new ones
 * among them, duplicates included.
 */
extern int hm_merge_entries(const HtEntry *old, int old_count, const HtEntry *coming, int64 *n,
							int max, HtEntry *merged);

/*
 * Rewrite a leaf with these entries, in this shape.  The caller has locked it exclusively and, if
 * its shape changes, its header as well.
 */
extern void hm_rewrite_leaf(Relation index, Buffer leaf, HtLeafShape shape, const HtEntry *entries,
							int count);

/*
 * Insert entries into a leaf one by one, until it is full, with one WAL record.  The
 * caller has locked the leaf exclusively.  Returns how many of the n are in the leaf now.
 */
extern int64 hm_insert_into_leaf(Relation index, Buffer leaf, const HtEntry *entries, int64 n);

/*
 * Insert an entry into its leaf if that has a free slot where the entry belongs.  Nearly all single
 * entries find one; then nothing has to be known of the leaf's other blocks, each of which is a
 * line of memory that another writer may just have changed.  Of an entry that may begin a leaf,
 * hm_entries_for_leaf() decides.  The caller has locked the leaf exclusively.  Returns false if the
 * leaf is as it was.
 */
extern bool hm_add_to_leaf(Relation index, Buffer leaf, HtEntry entry);

/*
 * Insert n entries, all of which belong in this leaf, if it has room for all of them
 * beside the count that it has, and can store them.  The caller has locked it exclusively.
 * Returns how many are in the leaf now; 0 if it has not enough room, or is too narrow.
 */
extern int64 hm_insert_if_room(Relation index, Buffer leaf, int count, const HtEntry *entries,
							   int64 n);

/* ----------------------------------------------------------------
 *		Splits: how they are done (split.c), and where (splitpoint.c)
 * ----------------------------------------------------------------
 */

/*
 * A leaf that is to be split, and what the split needs.  Both buffers are locked
 * exclusively.
 */
typedef struct HmSplit
{
	Buffer header;
	Buffer leaf;
	HtWidth width;
	bool append;           /* the new entries are above all of the leaf, and begin another one */
	HtEntry bound;         /* the low bound of the new leaf */
	int keep;              /* entries[] that stay in the left leaf; unless append */
	HT_KEY step;           /* distance of keys in the leaf */
	const HtEntry *coming; /* new entries of this part, in order */
	int64 coming_count;    /* at least one */
	int64 merged;          /* how many of them are in entries[] */
	int count;             /* of entries[], which the two leaves share; unless append */
	HtLeafShape shape;     /* that they would have in one leaf; unless append */
	HtEntry entries[2 * HT_LEAF_MAX_ENTRIES];
} HmSplit;

/* How urgent it is that a segment is moved. */
typedef enum HmUrgency
{
	HM_MOVE_LATER,
	HM_MOVE_SOON, /* a background worker should be asked */
	HM_MOVE_NOW   /* nothing else makes room */
} HmUrgency;

/* What a split leaves to do, once nothing is locked any more. */
typedef struct HmSplitRest
{
	HmSegmentName segment;
	HmUrgency urgency;
	bool wants_extent;     /* it has no block for another leaf */
	uint32 segment_blocks; /* not 0: the new leaf begins another segment, of so many blocks at
							* most */
	HtEntry bound;         /* its low bound */
	HT_KEY step;           /* the distance of keys in the leaf before */
} HmSplitRest;

/*
 * Find out what a split of a leaf needs to know of it and of n new entries, the first of which the
 * leaf has no room for: the longest part of its work.  The caller has locked the leaf exclusively
 * until the split is made; the header need not be locked yet.
 */
extern void hm_plan_split(Relation index, HtWidth width, Buffer leaf, const HtEntry *coming,
						  int64 n, HmSplit *split);

/*
 * Make a split that has been planned, or rewrite the leaf if that is enough.  The caller has locked
 * the header exclusively, too; its segment is alive and not being moved.  has_worker says that a
 * background worker may move it. Unlocks and releases both.  Returns how many entries were
 * inserted: none if *rest says that something has to be done first. Errors: index_corrupted.
 */
extern int64 hm_split(Relation index, Buffer header, bool has_worker, HmSplit *split,
					  HmSplitRest *rest);

/*
 * Insert the first of n entries into the leaf in which it belongs, by a split if there is no room;
 * the same conditions.
 */
extern int64 hm_insert_under_header(Relation index, HtWidth width, Buffer header, Buffer leaf,
									bool has_worker, const HtEntry *coming, int64 n,
									HmSplitRest *rest);

/*
 * A low bound for a leaf whose first entry is "first", and before which the other leaf ends with
 * the entry "before".  Keys that come below "first", but nearer to it than to "before", should get
 * into the leaf that begins there.  So the bound is lower by the distance that so many keys have
 * which are a step apart, unless it would come near to "before".
 */
extern HtEntry hm_bound_below(HtEntry before, HtEntry first, HT_KEY step, int keys);

/* Decide which of split->entries stay in the left leaf, and on the new leaf's bound. */
extern void hm_choose_cut(HmSplit *split, Page leaf);

/* ----------------------------------------------------------------
 *		Growth (growth.c)
 * ----------------------------------------------------------------
 */

/*
 * How urgent it is to move a segment, in which a split adds a leaf.  auxiliary is the auxiliary
 * node that gets it, or NULL.  no_spare says that the segment needs another extent for it.  Without
 * a worker nothing can wait.
 */
extern HmUrgency hm_movement_urgency(const HmSegment *segment, const HmAuxiliary *auxiliary,
									 bool no_spare, bool has_worker);

/* ----------------------------------------------------------------
 *		Extents (spareblocks.c) and segments (newsegment.c)
 * ----------------------------------------------------------------
 */

/* The number of leaves from which on a segment is moved because of its growth. */
extern uint32 hm_outgrown_leaves(const HmSegment *segment);

/* The number of unused blocks that a segment has for splits. */
extern uint32 hm_spare_blocks(const HmSegment *segment);

/*
 * Take one of these blocks.  Those of the main extent are taken from its end, so that its
 * beginning stays free for numbered leaves.
 */
extern BlockNumber hm_take_spare(HmSegment *segment);

/*
 * Give a segment more blocks for its splits, in another extent or by making the last one longer,
 * unless another backend has done so or the segment has been replaced.  The caller holds no buffer
 * lock.
 */
extern void hm_add_spare_extent(Relation index, HmSegmentName name);

/*
 * Add the first segment of a part, with the first of n entries.  Returns how many were
 * inserted: 0 if another backend has added one.
 */
extern int64 hm_create_first_segment(Relation index, HmPart part, const HtEntry *entries, int64 n);

/*
 * Add a segment to the right of the last one of a part, with the first of n entries, if
 * these still begin a leaf there.  "name" is the last segment, bound the new one's low
 * bound, step the distance of keys in the leaf before, most the most blocks that it gets.  Returns
 * how many were inserted.
 */
extern int64 hm_append_segment(Relation index, HmPart part, HtEntry bound, HT_KEY step,
							   const HtEntry *coming, int64 n, uint32 most, HmSegmentName name);

/* ----------------------------------------------------------------
 *		Making room (makeroom.c)
 * ----------------------------------------------------------------
 */

/*
 * Make room for the first of n entries: in the leaf in which it belongs, or by a new
 * leaf, a new segment, a further extent or a movement.  Inserts as many as fit.  Returns
 * how many were inserted, perhaps 0; the caller tries again with the others.  The caller
 * holds no buffer lock.
 */
extern int64 hm_make_room(Relation index, HmPart part, const HtEntry *coming, int64 n);

/*
 * The same for one entry for which a locked leaf has no room.  Only what has to be is done with the
 * header locked, so that writers of other leaves wait for less time.  Returns false, and does
 * nothing, if the header is not to be had within some microseconds or the segment is being moved;
 * otherwise it releases the leaf and sets *inserted.
 */
extern bool hm_make_room_at(Relation index, HmPart part, HmLockedLeaf *locked, const HtEntry *entry,
							int64 *inserted);

/* ----------------------------------------------------------------
 *		The flag of a segment that is being moved (movingflag.c)
 * ----------------------------------------------------------------
 */

/* Set or clear the flag of headers, which the caller has locked exclusively. */
extern void hm_flag_moving(Relation index, Buffer *headers, int count, bool moving);

/* ----------------------------------------------------------------
 *		Batches of a statement's entries (batch.c, statement.c)
 * ----------------------------------------------------------------
 */

/*
 * Whether an insertion that happens now is one of a statement whose entries may be queued: in a
 * scope (statement.c), and in the transaction that opened it.
 */
extern bool hm_statement_queues(void);

/* A statement begins. */
extern void hm_batch_begin(void);

/*
 * Offer an entry, an HtEntry of the index's width, to the statement's batch.  Returns true if the
 * batch has queued it, false if the caller has to insert it at once.  May apply the whole queue;
 * the caller holds no buffer lock, and hm_statement_queues().
 */
extern bool hm_batch_add(Relation index, Relation heap, IndexInfo *info, IndexUniqueCheck check,
						 HmPart part, const void *entry, bool unchanged);

/* Insert this backend's queued entries of all indexes.  The caller holds no buffer lock. */
extern void hm_batch_apply_all(void);

/* Give the queue's memory back, with all that is in it. */
extern void hm_batch_discard(void);

/* Define the GUC; call once. */
extern void hm_batch_init(void);

#endif /* HARMONIA_INSERT_H */
