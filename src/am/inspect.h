/*
 * inspect.h
 *		What the functions share that show, verify and reorganize an index.
 */
#ifndef HARMONIA_INSPECT_H
#define HARMONIA_INSPECT_H

#include "am/am.h"

/*
 * A copy of everything of a segment but its leaves, made while its header was locked, so
 * that the pages belong together.  Palloc'd in the current memory context.  Nothing has
 * been verified beyond what is needed to copy it.
 */
typedef struct HmSegmentCopy
{
	BlockNumber block;			/* of the header */
	Page		header;
	uint32		key_pages;
	char	   *keys;			/* key pages, one after the other */
	uint32		bottom_nodes;
	Page	   *auxiliaries;	/* of each bottom node; NULL if it has none */
} HmSegmentCopy;

/*
 * Open a harmonia index, of which this session can read the pages.  It need not be valid.
 * Errors: undefined_table, wrong_object_type, feature_not_supported for another
 * session's temporary index.
 */
extern Relation hm_inspect_open(Oid oid, LOCKMODE mode);

/* The same, its table first, with the same lock, as queries do. */
extern Relation hm_inspect_open_with_table(Oid oid, LOCKMODE mode, Relation *table);

/*
 * Check that all pages of an index are there: a concurrent build may not have written
 * them yet.
 * Errors: object_not_in_prerequisite_state.
 */
extern void hm_inspect_check_valid(Relation index);

/*
 * Copy a segment.  The caller holds the header's lock, in either mode.
 * Errors: index_corrupted, if it cannot be copied.
 */
extern HmSegmentCopy *hm_segment_copy(Relation index, Buffer header, HtWidth width);

/* A node of a copied segment's key region, in the layout that src/tree reads. */
extern const char *hm_copy_node(const HmSegmentCopy *copy, HtWidth width, uint32 node);

#endif							/* HARMONIA_INSPECT_H */
