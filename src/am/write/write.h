/*
 * write.h
 *		Changing the index: inserts, splits, movement, early removal, hints, the batch of a
 *		statement.
 */
#ifndef HARMONIA_AM_WRITE_H
#define HARMONIA_AM_WRITE_H

#include "nodes/execnodes.h"

#include "am/store/store.h"

/* ----------------------------------------------------------------
 *		Insertion (insert.c), movement (movement.c), batches (batch.c)
 * ----------------------------------------------------------------
 */

/*
 * Insert entries of one part, sorted and without duplicates, as the papers' Algorithm 1
 * applies a batch of updates.  An entry that is in the index already is left alone.
 * After an error any number of the entries may be in the index; the caller may insert all
 * of them again.  "unchanged" says that some come from UPDATEs that leave their keys as they
 * are (hm_remove_dead()).  The caller holds no buffer lock and no allocation lock.
 * Errors: index_corrupted, program_limit_exceeded.
 */
extern void hm_insert_sorted(Relation index, Relation heap, HmPart part, const HtEntry *entries,
							 int64 n, bool unchanged);

/* The same for entries as the queue of a statement has them, after hm_sort_queued(). */
extern void hm_insert_queued(Relation index, Relation heap, HmPart part, const void *queued,
							 int64 n, bool unchanged);
extern int64 hm_sort_queued(void *queued, int64 n);

/* What identifies a segment: the block of its header, and its stamp. */
typedef struct HmSegmentName
{
	BlockNumber header;
	uint64 stamp;
} HmSegmentName;

typedef enum HmMoveMode
{
	HM_MOVE_KEEP_ROOM, /* leaves keep some room if splits have shown that entries arrive there */
	HM_MOVE_OUTGROWN,  /* leaves that would soon be split get more room, others stay as full as they
						* are */
	HM_MOVE_PACK,      /* all leaves become as full as a build makes them */
	HM_MOVE_IF_SMALLER /* the same, but only if that saves leaves or auxiliary nodes */
} HmMoveMode;

/*
 * Movement: rewrite one segment, or two neighbours together, in pure layout, as one or
 * more new segments.  Leaves that are split meanwhile may leave an auxiliary node.  Returns false,
 * and changes nothing, if a segment has been replaced already, if the two cannot be replaced
 * together, or if it would not pay.  last, if not NULL, becomes the directory's entry of the
 * last new segment.  Takes memory for all entries and pages of a segment.  The caller holds no
 * buffer lock and no allocation lock. Errors: index_corrupted.  The movement is then undone, apart
 * from lost blocks and the flag in the header, which the next writer removes.
 */
extern bool hm_segments_move(Relation index, const HmSegmentName *segments, int count,
							 HmMoveMode mode, HmDirectoryEntry *last);

/*
 * Enter the segment that covers a position, to write: like hm_segment_enter(), but waits
 * while the segment is being moved.  Returns InvalidBuffer if the position's part has no
 * segment.  The caller holds no buffer lock and no allocation lock.
 */
extern Buffer hm_segment_enter_to_write(Relation index, HmPosition position, int lock);

/*
 * Whether inserts have made a segment grow so far that it should be moved.  The caller has locked
 * its header.
 */
extern bool hm_segment_wants_movement(Relation index, Buffer header);

/* Whether this backend has queued entries of an index. */
extern bool hm_batch_pending(Relation index);

/* The routine aminsert, for one width of keys. */
extern bool hm_insert_row(Relation index, Datum *values, bool *isnull, ItemPointer tid,
						  Relation heap, IndexUniqueCheck check, bool unchanged, IndexInfo *info);

/*
 * Remove entries from a leaf, and log that: dead[i] says whether entry i, in the order of
 * ht_leaf_read(), is to go.  The caller has locked the leaf exclusively, and knows that no
 * snapshot here needs the entries; what snapshots on a standby need is its concern, too.
 */
extern void hm_leaf_remove(Relation index, Buffer leaf, const bool *dead);

/*
 * Set hints that entries are dead to all.  Entries that are not on the leaf are left out.  The
 * caller has locked the leaf, in either mode, and knows that the entries that are on it now are
 * those whose rows it has seen dead.  Not for transactions that began in recovery.
 */
extern void hm_leaf_hint(Buffer leaf, const HtEntry *entries, int n);

/*
 * Note in the header of a segment, which is or was at this block, that its leaves have hints.  The
 * caller holds no buffer lock.
 */
extern void hm_segment_note_hinted(Relation index, BlockNumber block, uint64 stamp);

/* hm_give_hints() for an index with keys of this width. */
extern void hm_hint_rows(Relation index, Relation heap, HmDeadRow *rows, int n);

/*
 * A leaf has no room for n entries: remove entries of rows that are dead to all, if it seems to
 * have such; if there are so many, room for all n, or for half of what the leaf can hold.
 * "unchanged" says that the entries to be inserted come from UPDATEs that leave the key as it is,
 * so that the leaf probably has their former versions.  Returns true if so many are gone that the
 * caller should try again; if not, the leaf should be split.  The caller has locked the leaf
 * exclusively; its segment was alive, and not being moved, when the caller got the lock. Errors:
 * index_corrupted, if an entry leads to no row.
 */
extern bool hm_remove_dead(Relation index, Relation heap, Buffer leaf, int64 n, bool unchanged);

/*
 * Can another process move segments of this index?  Not if it is temporary, or if only this
 * transaction sees it, or if the user has said that inserts shall move
 * (harmonia.background_movement).
 */
extern bool hm_mover_is_possible(Relation index);

/*
 * Ask a background worker to move those segments of an index that want it
 * (hm_segment_wants_movement()).  It may come late, or not at all if others keep the relation
 * locked.  Returns false if there is no room for a worker.  The caller holds no buffer lock.
 */
extern bool hm_mover_ask(Relation index);

/* Also for keys of 128 bits; see HM_FOR_INDEX(). */
#if HM_KEYS == 64
HM_BOTH_WIDTHS(hm_insert_row);
HM_BOTH_WIDTHS(hm_insert_queued);
HM_BOTH_WIDTHS(hm_sort_queued);
HM_BOTH_WIDTHS(hm_hint_rows);
#endif

#endif /* HARMONIA_AM_WRITE_H */
