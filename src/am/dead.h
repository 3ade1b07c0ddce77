/*
 * dead.h
 *		Removing entries of dead rows, and hints about them; for the files of this folder.
 */
#ifndef HARMONIA_DEAD_H
#define HARMONIA_DEAD_H

#include "am/internal.h"

/*
 * Remove entries from a leaf, and log that: dead[i] says whether entry i, in the order of
 * ht_leaf_read(), is to go.  The caller has locked the leaf exclusively, and knows that no
 * snapshot here needs the entries; what snapshots on a standby need is its concern, too.
 */
extern void hm_leaf_remove(Relation index, Buffer leaf, const bool *dead);

/*
 * Set hints that entries are dead to all.  Entries that are not on the leaf are left out.  The caller
 * has locked the leaf, in either mode, and knows that the entries that are on it now are those
 * whose rows it has seen dead.  Not for transactions that began in recovery.
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
 * A leaf has no room for n entries: remove entries of rows that are dead to all, if it seems to have such; if there are
 * so many, room for all n, or for half of what the leaf can hold.  "unchanged" says that the entries to be inserted come from UPDATEs that leave the key as it
 * is, so that the leaf probably has their former versions.  Returns true if so many are gone that
 * the caller should try again; if not, the leaf should be split.  The caller has locked the
 * leaf exclusively; its segment was alive, and not being moved, when the caller got the lock.
 * Errors: index_corrupted, if an entry leads to no row.
 */
extern bool hm_remove_dead(Relation index, Relation heap, Buffer leaf, int64 n, bool unchanged);

#endif							/* HARMONIA_DEAD_H */
