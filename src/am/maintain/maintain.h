/*
 * maintain.h
 *		VACUUM, reorganization and truncation.
 */
#ifndef HARMONIA_AM_MAINTAIN_H
#define HARMONIA_AM_MAINTAIN_H

#include "am/write/write.h"

/* What decides whether a segment is moved. */
typedef struct HmSegmentUse
{
	HmSegmentName name;
	HmPosition low;
	uint64 packed; /* leaves that its entries fill when packed, in parts of a leaf */
	uint32 leaves;
	uint32 pure_leaves;
	bool grows; /* the last one of its part, with room for more numbered leaves */
} HmSegmentUse;

/* The segments that a walk in key order has met; palloc'd. */
typedef struct HmSegmentUses
{
	int count;
	int room;
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
extern int hm_reorganize(Relation index, HmSegmentUses *uses, bool all);

/*
 * Move all segments that could be packed better, and compact the index.  Returns the number of
 * movements.  The caller holds no lock but on the relation.
 */
extern int hm_reorganize_all(Relation index);

/*
 * Move the next segment that wants it (hm_segment_wants_movement()), from a place in the directory
 * on, counted in segments.  *place becomes the place after it.  Returns false if there is none.
 * The caller holds no buffer lock.
 */
extern bool hm_move_outgrown(Relation index, int *place);

/* An index's size, once its transaction has committed. */
typedef struct HmSize
{
	BlockNumber blocks; /* of the file */
	BlockNumber free;   /* of these, listed or not */
} HmSize;

/*
 * Rebuild the list of free extents, have the commit give free blocks at the end of the file
 * back, and before that, if more than half of the file is free or "always" is true, move
 * segments from there to free extents before them.  Returns the number of movements and, in
 * *size, what is to be left; the same conditions.
 */
extern int hm_compact(Relation index, bool always, HmSize *size);

/* ----------------------------------------------------------------
 *		Truncation (truncate.c)
 * ----------------------------------------------------------------
 */

/*
 * Whether the transaction can truncate: that of a parallel worker cannot, as it does not
 * commit, and vacuum_truncate and VACUUM's option TRUNCATE can forbid it.  The caller holds a lock
 * on the index's table.
 */
extern bool hm_can_truncate(Relation index);

/*
 * Have the transaction give free blocks at the end of the file back to the file system
 * when it commits, if it pays and no other backend uses the index then.  Blocks from end
 * on are free, though not listed.  Returns the number of blocks that would be given back.
 */
extern BlockNumber hm_truncate_at_commit(Relation index, BlockNumber end);

/* The routine ambulkdelete, for one width of keys. */
extern IndexBulkDeleteResult *hm_delete_dead(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
											 IndexBulkDeleteCallback callback, void *state);

/* Also for keys of 128 bits; see HM_FOR_INDEX(). */
#if HM_KEYS == 64
HM_BOTH_WIDTHS(hm_delete_dead);
HM_BOTH_WIDTHS(hm_compact);
HM_BOTH_WIDTHS(hm_reorganize_all);
HM_BOTH_WIDTHS(hm_move_outgrown);
#endif

#endif /* HARMONIA_AM_MAINTAIN_H */
