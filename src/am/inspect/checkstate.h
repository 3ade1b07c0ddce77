/*
 * checkstate.h
 *		What the files share that verify an index: checkindex.c, which calls checksegment.c (which
 *		calls checkinner.c) and checkextents.c; all call checkpage.c.
 */
#ifndef HARMONIA_CHECK_H
#define HARMONIA_CHECK_H

#include "lib/bloomfilter.h"

#include "am/inspect/segmentcopy.h"
#include "am/inspect/inspect.h"
#include "am/progress.h"
#include "compat.h"

/* A leaf as the inner nodes describe it. */
typedef struct HmExpectedLeaf
{
	BlockNumber block;
	HmPosition low;
} HmExpectedLeaf;

/* A verification in progress. */
typedef struct HmCheck
{
	Relation index;
	Relation heap;
	HtWidth width;
	HmFields fields;
	int fanout;
	bool nulls_low;
	BlockNumber heap_blocks; /* InvalidBlockNumber: the table is not a heap, so any TID may be
							  * valid */
	BufferAccessStrategy strategy;
	bloom_filter *filter; /* NULL unless heapallindexed */
	int64 segment_count;  /* in the directory, when that was checked */

	/* The segment under verification. */
	MemoryContext context; /* reset for each segment */
	BlockNumber block;
	uint64 stamp;
	HmPart part;
	HmPosition low;
	HmPosition high;
	bool has_high;
	HmSegmentCopy *copy;
	uint32 leaf_count;
	HmExpectedLeaf *leaves;
} HmCheck;

/* What the bloom filter is given of an entry.  It has no padding. */
typedef struct HmFingerprint
{
	HT_KEY key;
	uint64 tid;
	uint64 part;
} HmFingerprint;

static inline bool
same_position(HmPosition a, HmPosition b)
{
	return hm_position_cmp(a, b) == 0;
}

static inline HmPosition
part_end(HmPart part)
{
	return hm_position((HmPart) (part + 1), 0, 0);
}

/* Report damage found in a block; what follows makes a sentence without its full stop. */
#define hm_corrupt(check, block, ...) \
	hm_report_damage(psprintf("Block %u: %s.", block, psprintf(__VA_ARGS__)), \
					 "index \"%s\" is corrupted", RelationGetRelationName((check)->index))

/* A position as text for a message, palloc'd. */
extern const char *hm_show_position(HmPosition position);

/*
 * Check that a block to which block "from" refers can be read; what says what it should
 * be.
 */
extern void hm_check_block(HmCheck *check, BlockNumber from, const char *what, BlockNumber block);

/*
 * Check what all pages have in common and, on pages of a segment, the fields that say to
 * which segment they belong.
 */
extern void hm_check_page(HmCheck *check, BlockNumber block, Page page, HmPageKind kind);

/*
 * Check that a bound is in a part that the index has and that its key and TID are in
 * range.
 */
extern void hm_check_bound(HmCheck *check, BlockNumber block, const char *what, HmPosition bound);

/* Verify all segments, in key order (checksegment.c). */
extern void hm_check_segments(HmCheck *check);

/* Verify the copied inner nodes, and list the leaves that they lead to (checkinner.c). */
extern void hm_check_inner(HmCheck *check);

/* Check that no block belongs to two owners (checkextents.c). */
extern void hm_check_extents(HmCheck *check);

#endif /* HARMONIA_CHECK_H */
