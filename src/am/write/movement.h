/*
 * movement.h
 *		What the two files of a movement share: movement.c has its steps, and movementcopy.c makes
 *		the copy.
 */
#ifndef HARMONIA_MOVEMENT_H
#define HARMONIA_MOVEMENT_H

#include "am/write/write.h"

#define HM_MOVE_MAX_SOURCES 2

/* A segment that is moved. */
typedef struct HmMoveSource
{
	BlockNumber header;
	uint64 stamp;
	HtEntry low;
	BlockNumber first_leaf;
	uint32 leaves; /* in the header, when it was last looked at */
} HmMoveSource;

/* A leaf of a source, as it was when it was last read. */
typedef struct HmCopiedLeaf
{
	BlockNumber block;
	XLogRecPtr lsn;
	Page page; /* a copy */
} HmCopiedLeaf;

/* A movement in progress.  Its memory is that of the movement's context. */
typedef struct HmMove
{
	Relation index;
	HtWidth width;
	HmPart part;
	HtEntry low;  /* of the first source */
	HtEntry high; /* of the last one */
	bool has_high;
	HmMoveMode mode;
	bool room_at_end; /* a copy that ends its part gets numbered leaves to spare */
	bool shadowed;    /* some source has an auxiliary node */
	int source_count;
	HmMoveSource sources[HM_MOVE_MAX_SOURCES];

	/* What has been read of the sources: their leaves, in order */
	HmCopiedLeaf *leaves;
	uint32 leaf_count;
	uint32 leaf_room;
	uint64 count;     /* of their entries, when they were first read */
	uint64 fill;      /* percent of their slots in use then, summed over leaves */
	HtEntry *entries; /* these, until the new segments are written */

	/* The new segments, which are the copy */
	uint32 new_leaves;
	HmLeafPlan *plan;
	HmDirectoryEntry *copies;
	int copy_count;
} HmMove;

/*
 * Read all leaves of the sources and divide their entries among new leaves.  The caller holds the
 * movement locks, and no buffer lock; so do the callers of the other functions.
 * Errors: index_corrupted.
 */
extern void hm_move_plan(HmMove *move);

/* Write the new segments.  The caller holds the allocation lock as well. */
extern void hm_move_write(HmMove *move);

/*
 * Read the leaves that have changed since they were last read, and change the new segments to
 * match. *changed becomes the number of leaves of which that was so.  "marked" says that the
 * sources are marked, so that nothing can change meanwhile, and the result is exact.  Returns false
 * if a new segment has no place for an entry; the copy is then of no use.  The caller holds the
 * allocation lock as well. Errors: index_corrupted.
 */
extern bool hm_move_catch_up(HmMove *move, bool marked, uint32 *changed);

/* All extents of the new segments, palloc'd, and their number. */
extern HmExtent *hm_move_extents(HmMove *move, int *count);

/* Copy the extents that a header, locked by the caller, lists.  Returns their number. */
extern int hm_segment_extents(Buffer header, HmExtent *extents);

#endif /* HARMONIA_MOVEMENT_H */
