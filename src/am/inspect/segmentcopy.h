/*
 * segmentcopy.h
 *		Copies of segments, made to be shown or verified.
 */
#ifndef HARMONIA_COPY_H
#define HARMONIA_COPY_H

#include "am/inspect/inspect.h"

/*
 * A copy of everything of a segment but its leaves, made while its header was locked, so
 * that the pages belong together.  Palloc'd in the current memory context.  Nothing has
 * been verified beyond what is needed to copy it.
 */
typedef struct HmSegmentCopy
{
	BlockNumber block; /* of the header */
	Page header;
	uint32 key_pages;
	char *keys; /* key pages, one after the other */
	uint32 bottom_nodes;
	Page *auxiliaries; /* of each bottom node; NULL if it has none */
} HmSegmentCopy;

/*
 * Copy a segment.  The caller holds the header's lock, in either mode.
 * Errors: index_corrupted, if it cannot be copied.
 */
extern HmSegmentCopy *hm_segment_copy(Relation index, Buffer header, HtWidth width);

/* A node of a copied segment's key region, in the layout that src/tree reads. */
extern const char *hm_segment_copy_node(const HmSegmentCopy *copy, HtWidth width, uint32 node);

#endif /* HARMONIA_COPY_H */
