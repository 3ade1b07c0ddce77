/*
 * insert.h
 *		What inserting into leaves (insert.c), splitting them (split.c) and the growth of an
 *		index (grow.c) share; no other file includes this one.
 */
#ifndef HARMONIA_INSERT_H
#define HARMONIA_INSERT_H

#include "am/internal.h"

/* ----------------------------------------------------------------
 *		Entries of one leaf (insert.c)
 * ----------------------------------------------------------------
 */

/* The number of sorted entries that are below a bound. */
extern int64 hm_entries_below(const HtEntry *entries, int64 n, HtEntry bound);

/*
 * Whether a leaf with count entries is as full as a build makes it, and the new entry is
 * above all of them.  At the end of a part such an entry begins a new leaf, so that
 * ascending inserts leave the room that the fill factor asks for.
 */
extern bool hm_is_above_full_leaf(Relation index, Page page, HtWidth width, int count,
								  HtEntry entry);

/*
 * Whether a leaf with count entries should receive n more.  The last leaf of a part may
 * get full: ascending inserts push no entries.
 */
extern bool hm_leaf_has_room(Page page, HtWidth width, int count, int64 n);

/*
 * How many of n sorted entries, the first of which belongs in this leaf, should go into
 * it; the leaf has count entries. 0 means that they should have a new leaf to the right
 * of it.
 */
extern int64 hm_entries_for_leaf(Relation index, Page page, HtWidth width, int count,
								 const HtEntry *entries, int64 n);

/*
 * Merge the entries of a leaf with the first of *n new ones, as many as make no more than
 * max together.  Returns the number of merged entries; *n becomes the number of new ones
 * among them, duplicates included.
 */
extern int	hm_merge_entries(const HtEntry *old, int old_count, const HtEntry *coming,
							 int64 *n, int max, HtEntry *merged);

/* Rewrite a leaf with these entries.  The caller has locked it exclusively. */
extern void hm_rewrite_leaf(Relation index, Buffer leaf, HtWidth width,
							const HtEntry *entries, int count);

/*
 * Insert n entries, all of which belong in this leaf, if it has room for all of them
 * beside the count that it has.  The caller has locked it exclusively.  Returns how many
 * are in the leaf now; 0 if it has not enough room.
 */
extern int64 hm_insert_if_room(Relation index, Buffer leaf, HtWidth width, int count,
							   const HtEntry *entries, int64 n);

/* ----------------------------------------------------------------
 *		Splits (split.c)
 * ----------------------------------------------------------------
 */

/*
 * Make room for the first of n entries: in the leaf in which it belongs, or by a new
 * leaf, a new segment, a further extent or a movement.  Inserts as many as fit.  Returns
 * how many were inserted, perhaps 0; the caller tries again with the others.  The caller
 * holds no buffer lock.
 */
extern int64 hm_make_room(Relation index, HmPart part, const HtEntry *coming, int64 n);

/* ----------------------------------------------------------------
 *		Extents and segments (grow.c)
 * ----------------------------------------------------------------
 */

/* The number of unused blocks that a segment has for splits. */
extern uint32 hm_spare_blocks(const HmSegment *segment);

/*
 * Take one of these blocks.  Those of the main extent are taken from its end, so that its
 * beginning stays free for numbered leaves.
 */
extern BlockNumber hm_take_spare(HmSegment *segment);

/*
 * Give a segment another extent for its splits, unless another backend has done so or the
 * segment has been replaced.  The caller holds no buffer lock.
 */
extern void hm_add_spare_extent(Relation index, HmSegmentName name);

/*
 * Add the first segment of a part, with the first of n entries.  Returns how many were
 * inserted: 0 if another backend has added one.
 */
extern int64 hm_create_first_segment(Relation index, HmPart part, const HtEntry *entries,
									 int64 n);

/*
 * Add a segment to the right of the last one of a part, with the first of n entries, if
 * these are still above all others.  "name" is the last segment.  Returns how many were
 * inserted.
 */
extern int64 hm_append_segment(Relation index, HmPart part, const HtEntry *coming, int64 n,
							   HmSegmentName name);

#endif							/* HARMONIA_INSERT_H */
