/*
 * check.c
 *		harmonia_check(): verifies an index, as amcheck verifies a btree.
 *
 * It takes AccessShareLocks only, and runs beside writers, VACUUM and replay.  These
 * rules keep their changes from looking like damage:
 *
 * - Directory against segments: a segment is entered through the directory while the
 *	 metapage is locked in share mode.  All changes of their bounds lock the metapage
 *	 exclusively.
 * - Inside a segment: everything but the leaves is copied under the header's lock.  Each
 *	 leaf is also read under that lock, after a comparison of the header with the copy;
 *	 every split changes the header.  If it has changed, the segment is entered and copied
 *	 again.  Positions only ascend, and splits and movements keep the order of entries, so
 *	 no entry is missed.
 * - Extents of different segments: a segment keeps all its extents as long as it lives.
 *	 So an overlap is damage if both owners are still alive after both were found to have
 *	 the blocks.
 *
 * Buffer locks are taken in the usual order, for one page at a time, and nothing waits
 * for a pin.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am_d.h"
#include "common/pg_prng.h"
#include "lib/bloomfilter.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "am/inspect.h"
#include "am/internal.h"
#include "compat.h"

/*
 * Give up after so many attempts if each finds an overlap that is gone at the second
 * look.
 */
#define MAX_EXTENT_ATTEMPTS		100

/* An extent and its owner. */
typedef enum OwnerKind
{
	OWNER_META,
	OWNER_DIRECTORY,
	OWNER_SEGMENT,
	OWNER_FREE
} OwnerKind;

typedef struct OwnedExtent
{
	HmExtent	extent;
	OwnerKind	kind;
	BlockNumber owner;			/* header of a segment */
	uint64		stamp;
} OwnedExtent;

/* A leaf as the inner nodes describe it. */
typedef struct ExpectedLeaf
{
	BlockNumber block;
	HmPosition	low;
} ExpectedLeaf;

typedef struct Check
{
	Relation	index;
	Relation	heap;
	HtWidth		width;
	int			fanout;
	bool		nulls_low;
	BlockNumber heap_blocks;	/* InvalidBlockNumber: the table is not a heap,
								 * so any TID may be valid */
	BufferAccessStrategy strategy;
	bloom_filter *filter;		/* NULL unless heapallindexed */

	/* The segment under verification. */
	MemoryContext context;		/* reset for each segment */
	BlockNumber block;
	uint64		stamp;
	HmPart		part;
	HmPosition	low;
	HmPosition	high;
	bool		has_high;
	HmSegmentCopy *copy;
	uint32		leaf_count;
	ExpectedLeaf *leaves;
} Check;

/* What the bloom filter is given of an entry.  It has no padding. */
typedef struct Fingerprint
{
	uint64		key;
	uint64		tid;
	uint64		part;
} Fingerprint;

PG_FUNCTION_INFO_V1(harmonia_check);

HM_NORETURN static void corrupt(Check *check, BlockNumber block, const char *format,...)
			pg_attribute_printf(3, 4);

/* Report damage found in a block; format makes a sentence without its full stop. */
static void
corrupt(Check *check, BlockNumber block, const char *format,...)
{
	StringInfoData detail;
	va_list		args;

	initStringInfo(&detail);
	for (;;)
	{
		int			needed;

		va_start(args, format);
		needed = appendStringInfoVA(&detail, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&detail, needed);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" is corrupted", RelationGetRelationName(check->index)),
			 errdetail_internal("Block %u: %s.", block, detail.data),
			 errhint("Please REINDEX it.")));
}

/* A position as text for a message, palloc'd. */
static const char *
show_position(HmPosition position)
{
	if (position.part != HM_PART_KEYS)
		return psprintf("(null, (%u,%u))", (uint32) (position.entry.tid >> 16),
						(uint16) position.entry.tid);
	return psprintf("(" UINT64_FORMAT ", (%u,%u))", position.entry.key,
					(uint32) (position.entry.tid >> 16), (uint16) position.entry.tid);
}

static inline bool
same(HmPosition a, HmPosition b)
{
	return hm_position_cmp(a, b) == 0;
}

static inline HmPosition
part_end(HmPart part)
{
	return hm_position((HmPart) (part + 1), 0, 0);
}

/* ----------------------------------------------------------------
 *		Pages and bounds
 * ----------------------------------------------------------------
 */

/*
 * Check that a block to which block "from" refers can be read; what says what it should
 * be.
 */
static void
check_block(Check *check, BlockNumber from, const char *what, BlockNumber block)
{
	if (block == HM_METAPAGE_BLKNO || block >= RelationGetNumberOfBlocks(check->index))
		corrupt(check, from,
				"it refers to block %u as %s, but the index has %u blocks and block 0 is its metapage",
				block, what, RelationGetNumberOfBlocks(check->index));
}

/*
 * Check what all pages have in common and, on pages of a segment, the fields that say to
 * which segment they belong.
 */
static void
check_page(Check *check, BlockNumber block, Page page, HmPageKind kind)
{
	static const char *const names[] = {
		"", "metapage", "directory page", "segment header", "key page",
		"auxiliary node", "leaf", "spare page"
	};
	HmSpecial  *special;

	if (PageIsNew(page))
		corrupt(check, block, "the page is empty instead of a %s", names[kind]);
	if (!hm_page_is(page, kind))
		corrupt(check, block, "the page is not a %s", names[kind]);
	if (((PageHeader) page)->pd_lower != ((PageHeader) page)->pd_upper)
		corrupt(check, block, "the page has a hole from %u to %u",
				((PageHeader) page)->pd_lower, ((PageHeader) page)->pd_upper);

	if (kind == HM_PAGE_META || kind == HM_PAGE_DIRECTORY)
		return;
	special = hm_page_special(page);
	if (special->stamp != check->stamp)
		corrupt(check, block, "the page has stamp " UINT64_FORMAT ", its segment at block %u has "
				UINT64_FORMAT, special->stamp, check->block, check->stamp);
	if (special->segment != check->block)
		corrupt(check, block, "the page belongs to the segment at block %u, not %u",
				special->segment, check->block);
	if (special->part != check->part)
		corrupt(check, block, "the page is of part %u, its segment of part %u",
				special->part, check->part);
	if ((special->flags & ~HM_HAS_HIGH) != 0)
		corrupt(check, block, "the page has unknown flags 0x%02X", special->flags);
}

/*
 * Check that a bound is in a part that the index has and that its key and TID are in
 * range.
 */
static void
check_bound(Check *check, BlockNumber block, const char *what, HmPosition bound)
{
	if (bound.part != HM_PART_KEYS &&
		bound.part != (check->nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH))
		corrupt(check, block, "%s is in part %d, which the index does not have",
				what, (int) bound.part);
	if (bound.entry.key > ht_key_max(check->width) ||
		(bound.part != HM_PART_KEYS && bound.entry.key != 0))
		corrupt(check, block, "%s has key " UINT64_FORMAT ", which is out of range",
				what, bound.entry.key);
	if (bound.entry.tid > HT_TID_MAX)
		corrupt(check, block, "%s has TID " UINT64_FORMAT ", which is out of range",
				what, bound.entry.tid);
}

/* ----------------------------------------------------------------
 *		Metapage and directory
 * ----------------------------------------------------------------
 */
static inline HmPosition
entry_low(const HmDirectoryEntry *entry)
{
	return hm_position((HmPart) entry->part, entry->key, entry->tid);
}

/* Check directory entries that stand on one page; what says what they refer to. */
static void
check_entries(Check *check, BlockNumber block, const HmDirectoryEntry *entries,
			  uint32 count, const char *what)
{
	for (uint32 i = 0; i < count; i++)
	{
		HmPosition	low = entry_low(&entries[i]);

		check_bound(check, block, "a directory entry", low);
		if (i > 0 && hm_position_cmp(entry_low(&entries[i - 1]), low) >= 0)
			corrupt(check, block, "directory entry %u, %s, is not above the one before, %s",
					i, show_position(low), show_position(entry_low(&entries[i - 1])));
		if (i > 0 && entries[i - 1].part != entries[i].part &&
			!same(low, hm_position(low.part, 0, 0)))
			corrupt(check, block, "directory entry %u begins its part at %s",
					i, show_position(low));
		check_block(check, block, what, entries[i].block);
	}
}

/* Check the whole directory.  The caller holds the metapage's lock. */
static void
check_directory(Check *check, const HmMeta *meta)
{
	HmPosition	before = {0};

	if (meta->root_count > 0 &&
		!same(entry_low(&meta->root[0]), hm_position((HmPart) meta->root[0].part, 0, 0)))
		corrupt(check, HM_METAPAGE_BLKNO, "the directory begins at %s",
				show_position(entry_low(&meta->root[0])));
	if (meta->depth == 0)
	{
		check_entries(check, HM_METAPAGE_BLKNO, meta->root, meta->root_count, "segment");
		return;
	}

	/* A part may begin inside a directory page. */
	for (uint32 i = 0; i < meta->root_count; i++)
	{
		BlockNumber block = meta->root[i].block;
		HmPosition	low = entry_low(&meta->root[i]);
		Buffer		buffer;
		Page		page;
		HmDirectory *directory;

		check_bound(check, HM_METAPAGE_BLKNO, "a directory entry", low);
		check_block(check, HM_METAPAGE_BLKNO, "directory page", block);
		buffer = ReadBuffer(check->index, block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		check_page(check, block, page, HM_PAGE_DIRECTORY);
		directory = hm_page_directory(page);
		if (directory->count < 1 || directory->count > HM_DIRECTORY_MAX)
			corrupt(check, block, "the directory page has %u entries", directory->count);
		if (meta->root[i].stamp != 0)
			corrupt(check, HM_METAPAGE_BLKNO, "the directory page at block %u has stamp %u",
					block, meta->root[i].stamp);
		if (!same(low, entry_low(&directory->entries[0])))
			corrupt(check, block, "the directory page begins at %s, but the root has %s for it",
					show_position(entry_low(&directory->entries[0])), show_position(low));
		if (i > 0 && hm_position_cmp(before, low) >= 0)
			corrupt(check, block, "the directory page begins at %s, but the one before it ends with %s",
					show_position(low), show_position(before));
		if (i > 0 && before.part != low.part && !same(low, hm_position(low.part, 0, 0)))
			corrupt(check, block, "the directory page begins its part at %s",
					show_position(low));
		check_entries(check, block, directory->entries, directory->count, "segment");
		before = entry_low(&directory->entries[directory->count - 1]);
		UnlockReleaseBuffer(buffer);
	}
}

/* Check the list of free extents.  The caller holds the metapage's lock. */
static void
check_free_list(Check *check, const HmMeta *meta)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(check->index);
	BlockNumber end = HM_METAPAGE_BLKNO + 1;

	for (uint32 i = 0; i < meta->free_count; i++)
	{
		HmExtent	extent = meta->free[i];

		if (extent.length == 0 || extent.start >= blocks || extent.length > blocks - extent.start)
			corrupt(check, HM_METAPAGE_BLKNO,
					"free extent %u, %u blocks from %u, is not within the %u blocks of the index",
					i, extent.length, extent.start, blocks);
		if (extent.start < end)
			corrupt(check, HM_METAPAGE_BLKNO,
					"free extent %u begins at block %u, before block %u", i, extent.start, end);
		if (i > 0 && extent.start == end)
			corrupt(check, HM_METAPAGE_BLKNO,
					"free extent %u at block %u adjoins the one before", i, extent.start);
		end = extent.start + extent.length;
	}
}

/* Check the metapage, the directory and the list of free extents, all under one lock. */
static void
check_metapage(Check *check)
{
	Relation	index = check->index;
	Buffer		buffer;
	HmMeta	   *meta;
	bool		nulls_low = ((index->rd_indoption[0] & INDOPTION_NULLS_FIRST) != 0) !=
		((index->rd_indoption[0] & INDOPTION_DESC) != 0);

	if (RelationGetNumberOfBlocks(index) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" has no metapage", RelationGetRelationName(index)),
				 errhint("Please REINDEX it.")));

	buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	check_page(check, HM_METAPAGE_BLKNO, BufferGetPage(buffer), HM_PAGE_META);
	meta = hm_page_meta(BufferGetPage(buffer));

	check->width = (HtWidth) meta->width;
	check->fanout = meta->fanout;
	check->nulls_low = meta->nulls_low != 0;
	if (meta->nulls_low > 1 || check->nulls_low != nulls_low)
		corrupt(check, HM_METAPAGE_BLKNO, "NULL keys are on the wrong side");
	if (meta->next_stamp == 0)
		corrupt(check, HM_METAPAGE_BLKNO, "the next stamp is 0");
	if (meta->drained > meta->retired)
		corrupt(check, HM_METAPAGE_BLKNO,
				UINT64_FORMAT " segments are drained, but only " UINT64_FORMAT " are retired",
				meta->drained, meta->retired);
	check_directory(check, meta);
	check_free_list(check, meta);
	UnlockReleaseBuffer(buffer);
}

/* ----------------------------------------------------------------
 *		Segments
 * ----------------------------------------------------------------
 */

/*
 * Find the directory entry that covers the position or, if none does, the next one; *next
 * becomes the position at which the entry after that begins.  The caller holds the
 * metapage's lock.  Returns false if there is neither.
 */
static bool
find_entry(Check *check, const HmMeta *meta, HmPosition position,
		   HmDirectoryEntry *entry, HmPosition *next)
{
	const HmDirectoryEntry *entries = meta->root;
	uint32		count = meta->root_count;
	uint32		i = 0;
	Buffer		buffer = InvalidBuffer;
	uint32		r = 0;
	bool		found;

	if (meta->depth == 1)
	{
		while (r + 1 < count && hm_position_cmp(entry_low(&meta->root[r + 1]), position) <= 0)
			r++;
	}
	for (;;)
	{
		if (meta->depth == 1)
		{
			buffer = ReadBuffer(check->index, meta->root[r].block);
			LockBuffer(buffer, BUFFER_LOCK_SHARE);
			hm_page_check(check->index, buffer, HM_PAGE_DIRECTORY);
			entries = hm_page_directory(BufferGetPage(buffer))->entries;
			count = hm_page_directory(BufferGetPage(buffer))->count;
		}

		/*
		 * In its part, the entry that covers the position is the last one that is not
		 * above it.
		 */
		for (i = 0; i < count; i++)
		{
			if (i + 1 < count && hm_position_cmp(entry_low(&entries[i + 1]), position) <= 0)
				continue;
			if (hm_position_cmp(entry_low(&entries[i]), position) >= 0 ||
				entries[i].part == (uint64) position.part)
				break;
		}
		found = i < count;
		if (found)
		{
			*entry = entries[i];
			if (i + 1 < count)
				*next = entry_low(&entries[i + 1]);
			else if (meta->depth == 1 && r + 1 < meta->root_count)
				*next = entry_low(&meta->root[r + 1]);
			else
				*next = part_end(HM_PART_NULLS_HIGH);
		}
		if (BufferIsValid(buffer))
			UnlockReleaseBuffer(buffer);
		if (found || meta->depth == 0 || ++r == meta->root_count)
			return found;
	}
}

/*
 * Compare a header with the one that a new segment with as much room would be given.
 * That one is made here, so that the page's own numbers are not trusted.
 */
static void
check_header(Check *check, Page page)
{
	HmSegment  *segment = hm_page_segment(page);
	BlockNumber blocks = RelationGetNumberOfBlocks(check->index);
	HmSegmentSpec spec = {0};
	HmSegment  *right;
	char	   *image;

	if (segment->leaf_room < 1 || segment->leaf_room >= HM_SEGMENT_MAX_BLOCKS)
		corrupt(check, check->block, "the segment has room for %u leaves, which is out of range",
				segment->leaf_room);
	if (segment->fanout != check->fanout)
		corrupt(check, check->block, "the segment has fanout %u, but the index has %d",
				segment->fanout, check->fanout);

	spec.width = check->width;
	spec.fanout = check->fanout;
	spec.part = check->part;
	spec.low = check->low.entry;
	spec.stamp = check->stamp;
	spec.start = check->block;
	spec.leaf_room = segment->leaf_room;
	spec.leaves = 1;
	image = palloc((Size) BLCKSZ * (hm_segment_blocks(spec.width, spec.fanout, spec.leaf_room) -
									spec.leaf_room + 1));
	hm_segment_image(&spec, NULL, 0, image);
	right = hm_page_segment((Page) image);

#define CHECK_NUMBER(field, name) \
	if (segment->field != right->field) \
		corrupt(check, check->block, name " is %u, must be %u", segment->field, right->field)

	CHECK_NUMBER(levels, "number of levels");
	CHECK_NUMBER(nodes, "number of inner nodes");
	CHECK_NUMBER(bottom_start, "first bottom node");
	CHECK_NUMBER(key_region_at, "offset of the key region");
	CHECK_NUMBER(nodes_here, "number of nodes on the header page");
	CHECK_NUMBER(nodes_per_page, "number of nodes on a key page");
	CHECK_NUMBER(key_base, "first key page");
	CHECK_NUMBER(leaf_base, "first leaf");
	CHECK_NUMBER(extents[0].start, "start of the main extent");
	CHECK_NUMBER(extents[0].length, "length of the main extent");
#undef CHECK_NUMBER

	/* Equation 1 needs these. */
	for (uint32 node = 0; node < segment->nodes; node++)
	{
		if (segment->child_region[node] != right->child_region[node])
			corrupt(check, check->block, "prefix sum of node %u is %u, must be %u",
					node, segment->child_region[node], right->child_region[node]);
	}
	pfree(image);

	if (segment->pure_leaves < 1 || segment->pure_leaves > segment->leaf_room ||
		segment->tail_used > segment->leaf_room - segment->pure_leaves)
		corrupt(check, check->block,
				"%u leaves from the front and %u from the end are in use, but there is room for %u",
				segment->pure_leaves, segment->tail_used, segment->leaf_room);
	if (segment->extent_count < 1 || segment->extent_count > HM_SEGMENT_MAX_EXTENTS)
		corrupt(check, check->block, "the segment has %u extents", segment->extent_count);
	for (uint32 i = 0; i < segment->extent_count; i++)
	{
		HmExtent	extent = segment->extents[i];

		if (extent.length == 0 || extent.start == HM_METAPAGE_BLKNO ||
			extent.start >= blocks || extent.length > blocks - extent.start)
			corrupt(check, check->block,
					"extent %u, %u blocks from %u, is not within the %u blocks of the index",
					i, extent.length, extent.start, blocks);
	}
	if (segment->spare_used > (segment->extent_count == 1 ? 0 :
							   segment->extents[segment->extent_count - 1].length))
		corrupt(check, check->block, "%u blocks of the last extent are in use, more than it has",
				segment->spare_used);
}

/*
 * Enter the segment for a position: lock its header in share mode, and compare it with
 * the directory.  Fills in what *check says about the segment.  Returns InvalidBuffer
 * after the last segment.
 */
static Buffer
enter_segment(Check *check, HmPosition position)
{
	Buffer		meta_buffer = hm_meta_buffer(check->index, BUFFER_LOCK_SHARE);
	HmMeta	   *meta = hm_page_meta(BufferGetPage(meta_buffer));
	HmDirectoryEntry entry = {0};
	HmPosition	next = {0};
	Buffer		header;
	Page		page;
	HmSegment  *segment;

	if (!find_entry(check, meta, position, &entry, &next))
	{
		UnlockReleaseBuffer(meta_buffer);
		return InvalidBuffer;
	}
	check_block(check, HM_METAPAGE_BLKNO, "segment", entry.block);
	header = ReadBuffer(check->index, entry.block);
	LockBuffer(header, BUFFER_LOCK_SHARE);
	page = BufferGetPage(header);
	segment = hm_page_segment(page);

	check->block = entry.block;
	check->stamp = segment->stamp;
	check->part = (HmPart) entry.part;
	check_page(check, entry.block, page, HM_PAGE_SEGMENT);
	if (check->stamp == 0 || check->stamp >= meta->next_stamp)
		corrupt(check, entry.block, "the segment has stamp " UINT64_FORMAT ", the next one is "
				UINT64_FORMAT, check->stamp, meta->next_stamp);
	if (segment->state & HM_SEGMENT_DEAD)
		corrupt(check, entry.block, "the directory refers to a segment that has been replaced");
	if ((segment->state & ~HM_SEGMENT_MOVING) != 0)
		corrupt(check, entry.block, "the segment has unknown state 0x%X", segment->state);

	check->low = hm_position(check->part, segment->low.key, segment->low.tid);
	check->has_high = hm_page_has_high(page);
	check->high = check->has_high ?
		hm_position(check->part, segment->high.key, segment->high.tid) : part_end(check->part);
	if (!same(check->low, entry_low(&entry)))
		corrupt(check, entry.block, "the segment begins at %s, but the directory has %s for it",
				show_position(check->low), show_position(entry_low(&entry)));
	if ((uint32) check->stamp != entry.stamp)
		corrupt(check, entry.block, "the segment has stamp " UINT64_FORMAT
				", but the directory refers to stamp %u", check->stamp, entry.stamp);
	if (next.part == check->part)
	{
		if (!check->has_high)
			corrupt(check, entry.block, "the segment has no upper bound, but the next one begins at %s",
					show_position(next));
		if (!same(check->high, next))
			corrupt(check, entry.block, "the segment ends before %s, but the next one begins at %s",
					show_position(check->high), show_position(next));
	}
	else if (check->has_high)
		corrupt(check, entry.block, "the segment ends before %s, but is the last one of its part",
				show_position(check->high));
	UnlockReleaseBuffer(meta_buffer);
	return header;
}

/*
 * Check the key region: the separators that numbered leaves use ascend within a node, and
 * all others have the value of unused ones.
 */
static void
check_nodes(Check *check)
{
	HmSegment  *segment = hm_page_segment(check->copy->header);
	int			separators = check->fanout - 1;
	bool	   *used = palloc0((Size) segment->nodes * separators);

	for (uint32 leaf = 1; leaf < segment->pure_leaves; leaf++)
	{
		uint32		node;
		int			separator;

		hm_segment_separator(segment, leaf, &node, &separator);
		used[node * separators + separator] = true;
	}

	for (uint32 node = 0; node < segment->nodes; node++)
	{
		const char *bytes = hm_copy_node(check->copy, check->width, node);
		HtEntry		before = {0, 0};
		uint32		offset;
		uint32		page = hm_node_page(segment, check->width, node, &offset);
		BlockNumber block = page == 0 ? check->block : segment->key_base + page - 1;

		for (int i = 0; i < separators; i++)
		{
			HtEntry		entry = ht_node_get(bytes, check->width, check->fanout, i);

			if (!used[node * separators + i])
			{
				if (entry.key != ht_key_max(check->width) || entry.tid != HT_TID_MAX)
					corrupt(check, block, "separator %d of node %u is %s, but leads to no leaf",
							i, node, show_position(hm_position(check->part, entry.key, entry.tid)));
				continue;
			}
			if (i > 0 && ht_entry_cmp(before, entry) >= 0)
				corrupt(check, block, "separator %d of node %u, %s, is not above the one before",
						i, node, show_position(hm_position(check->part, entry.key, entry.tid)));
			before = entry;
		}
	}
	pfree(used);
}

/* Add a leaf to those that the inner nodes lead to; "from" is the block that says so. */
static void
expect_leaf(Check *check, BlockNumber from, BlockNumber block, HmPosition low)
{
	HmSegment  *segment = hm_page_segment(check->copy->header);

	if (check->leaf_count == segment->leaves)
		corrupt(check, check->block, "inner nodes lead to more than the segment's %u leaves",
				segment->leaves);
	check_bound(check, from, "the bound of a leaf", low);
	if (check->leaf_count == 0)
	{
		if (!same(low, check->low))
			corrupt(check, from, "the first leaf begins at %s, the segment at %s",
					show_position(low), show_position(check->low));
	}
	else if (hm_position_cmp(check->leaves[check->leaf_count - 1].low, low) >= 0)
		corrupt(check, from,
				"the leaf at block %u begins at %s, not above %s, where the one before it begins",
				block, show_position(low),
				show_position(check->leaves[check->leaf_count - 1].low));
	if (hm_position_cmp(low, check->high) >= 0)
		corrupt(check, from, "the leaf at block %u begins at %s, but its segment ends before %s",
				block, show_position(low), show_position(check->high));
	check->leaves[check->leaf_count].block = block;
	check->leaves[check->leaf_count].low = low;
	check->leaf_count++;
}

/*
 * The low bound of a numbered leaf: its separator or, for the first one, the segment's
 * bound.
 */
static HmPosition
pure_leaf_low(Check *check, uint32 leaf)
{
	uint32		node;
	int			separator;
	HtEntry		low;

	if (leaf == 0)
		return check->low;
	hm_segment_separator(hm_page_segment(check->copy->header), leaf, &node, &separator);
	low = ht_node_get(hm_copy_node(check->copy, check->width, node), check->width,
					  check->fanout, separator);
	return hm_position(check->part, low.key, low.tid);
}

/*
 * The blocks of an extent that splits have taken: the last ones of the main extent, the
 * first ones of any other.
 */
static HmExtent
taken_blocks(const HmSegment *segment, uint32 i)
{
	if (i == 0)
		return (HmExtent) {segment->leaf_base + segment->leaf_room - segment->tail_used,
						   segment->tail_used};
	return (HmExtent) {segment->extents[i].start,
					   i == segment->extent_count - 1 ? segment->spare_used :
					   segment->extents[i].length};
}

/* The number of the extent from which a split has taken the block; -1 if there is none. */
static int
extent_of_taken(const HmSegment *segment, BlockNumber block)
{
	for (uint32 i = 0; i < segment->extent_count; i++)
	{
		HmExtent	taken = taken_blocks(segment, i);

		if (block >= taken.start && block - taken.start < taken.length)
			return (int) i;
	}
	return -1;
}

/*
 * Check a child of an auxiliary node, in case it is a numbered leaf: it must be a child
 * of the shadowed bottom node, and begin at its separator, which splits do not change.
 */
static void
check_numbered_child(Check *check, BlockNumber block, uint32 node, BlockNumber child,
					 HmPosition low)
{
	HmSegment  *segment = hm_page_segment(check->copy->header);
	uint32		leaf = child - segment->leaf_base;

	if (child < segment->leaf_base || leaf >= segment->pure_leaves)
		return;
	if (leaf / segment->fanout != node - segment->bottom_start)
		corrupt(check, block,
				"leaf %u is a child of node %u, but has the number of another node's child",
				leaf, node);
	if (!same(low, pure_leaf_low(check, leaf)))
		corrupt(check, block, "leaf %u begins at %s, but its separator is %s", leaf,
				show_position(low), show_position(pure_leaf_low(check, leaf)));
}

/* Check the auxiliary node of a bottom node, whose first numbered leaf is "first". */
static void
check_auxiliary(Check *check, uint32 node, uint32 first)
{
	HmSegment  *segment = hm_page_segment(check->copy->header);
	uint32		bottom = node - segment->bottom_start;
	BlockNumber block = hm_segment_auxiliaries(segment)[bottom];
	Page		page = check->copy->auxiliaries[bottom];
	HmAuxiliary *auxiliary = hm_page_auxiliary(page);

	check_page(check, block, page, HM_PAGE_AUXILIARY);
	if (first >= segment->pure_leaves)
		corrupt(check, check->block, "node %u is shadowed, but has no leaf", node);
	if (auxiliary->node != node)
		corrupt(check, block, "the auxiliary node stands in for node %u, not %u",
				auxiliary->node, node);
	for (uint32 i = 0; i < auxiliary->count; i++)
	{
		HmPosition	low;

		if (i == 0)
			low = pure_leaf_low(check, first);
		else
		{
			HtEntry		bound = hm_auxiliary_low(auxiliary, i);

			low = hm_position(check->part, bound.key, bound.tid);
		}
		check_numbered_child(check, block, node, auxiliary->children[i], low);
		expect_leaf(check, block, auxiliary->children[i], low);
	}
}

static int
block_cmp(const void *a, const void *b)
{
	BlockNumber left = *(const BlockNumber *) a;
	BlockNumber right = *(const BlockNumber *) b;

	return left < right ? -1 : left > right ? 1 : 0;
}

/*
 * Check that all blocks that splits have taken are in use; otherwise they never would be.
 * The last block of an extent may be left over when the next extent is added, because a
 * split may need two blocks.
 */
static void
check_taken(Check *check, const uint32 *in_use)
{
	HmSegment  *segment = hm_page_segment(check->copy->header);

	for (uint32 i = 0; i < segment->extent_count; i++)
	{
		uint32		taken = taken_blocks(segment, i).length;
		bool		between = i > 0 && i < segment->extent_count - 1;

		if (in_use[i] != taken && !(between && in_use[i] + 1 == taken))
			corrupt(check, check->block, "splits use %u blocks of extent %u, must be %u",
					in_use[i], i, taken);
	}
}

/*
 * Check that each leaf and auxiliary node has a block of its own, in one of the segment's
 * extents.
 */
static void
check_blocks_used(Check *check)
{
	uint32		in_use[HM_SEGMENT_MAX_EXTENTS] = {0};
	HmSegment  *segment = hm_page_segment(check->copy->header);
	BlockNumber *blocks = palloc((check->leaf_count + check->copy->bottom_nodes) *
								 sizeof(BlockNumber));
	uint32		count = 0;
	uint32		pure = 0;
	uint32		auxiliaries = 0;

	for (uint32 i = 0; i < check->leaf_count; i++)
	{
		BlockNumber block = check->leaves[i].block;

		if (block >= segment->leaf_base && block - segment->leaf_base < segment->pure_leaves)
			pure++;
		else
		{
			int			extent = extent_of_taken(segment, block);

			if (extent < 0)
				corrupt(check, check->block,
						"the leaf at block %u is outside the segment's blocks in use", block);
			in_use[extent]++;
		}
		blocks[count++] = block;
	}
	for (uint32 i = 0; i < check->copy->bottom_nodes; i++)
	{
		BlockNumber block = hm_segment_auxiliaries(segment)[i];
		int			extent;

		if (!BlockNumberIsValid(block))
			continue;
		auxiliaries++;
		extent = extent_of_taken(segment, block);
		if (extent < 0)
			corrupt(check, check->block,
					"the auxiliary node at block %u is outside the segment's blocks in use",
					block);
		in_use[extent]++;
		blocks[count++] = block;
	}
	if (auxiliaries != segment->auxiliaries)
		corrupt(check, check->block, "the segment has %u auxiliary nodes, but its header counts %u",
				auxiliaries, segment->auxiliaries);

	qsort(blocks, count, sizeof(BlockNumber), block_cmp);
	for (uint32 i = 1; i < count; i++)
	{
		if (blocks[i - 1] == blocks[i])
			corrupt(check, check->block, "two inner nodes refer to block %u", blocks[i]);
	}
	if (pure != segment->pure_leaves)
		corrupt(check, check->block, "inner nodes lead to %u of %u numbered leaves",
				pure, segment->pure_leaves);
	check_taken(check, in_use);
	pfree(blocks);
}

/* Verify the copied inner nodes, and list the leaves that they lead to. */
static void
check_inner(Check *check)
{
	HmSegment  *segment = hm_page_segment(check->copy->header);

	for (uint32 i = 0; i < check->copy->key_pages; i++)
		check_page(check, segment->key_base + i, (Page) (check->copy->keys + (Size) i * BLCKSZ),
				   HM_PAGE_KEYS);
	check_nodes(check);

	if (segment->leaves < segment->pure_leaves ||
		segment->leaves > segment->pure_leaves + check->copy->bottom_nodes * HM_AUXILIARY_MAX)
		corrupt(check, check->block, "the header counts %u leaves, which is out of range",
				segment->leaves);
	check->leaf_count = 0;
	check->leaves = palloc(segment->leaves * sizeof(ExpectedLeaf));
	for (uint32 i = 0; i < check->copy->bottom_nodes; i++)
	{
		uint32		node = segment->bottom_start + i;
		uint32		first = segment->child_region[node] - segment->nodes;

		if (check->copy->auxiliaries[i] != NULL)
			check_auxiliary(check, node, first);
		else
		{
			for (uint32 leaf = first;
				 leaf < first + check->fanout && leaf < segment->pure_leaves; leaf++)
				expect_leaf(check, check->block, segment->leaf_base + leaf,
							pure_leaf_low(check, leaf));
		}
	}
	if (check->leaf_count != segment->leaves)
		corrupt(check, check->block, "inner nodes lead to %u leaves, but the header counts %u",
				check->leaf_count, segment->leaves);
	check_blocks_used(check);
}

/* ----------------------------------------------------------------
 *		Leaves
 * ----------------------------------------------------------------
 */

/* Check an entry's TID: the table must have, or have had, a row there. */
static void
check_tid(Check *check, BlockNumber block, uint64 tid)
{
	BlockNumber heap_block = (BlockNumber) (tid >> 16);

	if (!hm_tid_is_valid(tid))
		corrupt(check, block, "an entry refers to row (%u,%u), which no table can have",
				heap_block, (uint16) tid);
	if (check->heap_blocks == InvalidBlockNumber || heap_block < check->heap_blocks)
		return;

	/* The table may have grown since it was last asked. */
	check->heap_blocks = RelationGetNumberOfBlocks(check->heap);
	if (heap_block >= check->heap_blocks)
		corrupt(check, block, "an entry refers to row (%u,%u), but the table has %u blocks",
				heap_block, (uint16) tid, check->heap_blocks);
}

/* Verify the copy of leaf i, and add its entries to the bloom filter. */
static void
check_leaf(Check *check, uint32 i, Page page)
{
	BlockNumber block = check->leaves[i].block;
	bool		last = i == check->leaf_count - 1;
	HmPosition	low = check->leaves[i].low;
	HmPosition	high = last ? check->high : check->leaves[i + 1].low;
	BlockNumber right = last ? InvalidBlockNumber : check->leaves[i + 1].block;
	HtEntry		entries[HT_LEAF_MAX_ENTRIES];
	const char *problem;
	int			count;

	check_page(check, block, page, HM_PAGE_LEAF);
	if (!same(hm_page_low(page), low))
		corrupt(check, block, "the leaf begins at %s, but inner nodes have %s for it",
				show_position(hm_page_low(page)), show_position(low));
	if (hm_page_has_high(page) != (!last || check->has_high))
		corrupt(check, block, hm_page_has_high(page) ?
				"the leaf has an upper bound, but is the last one of its part" :
				"the leaf has no upper bound");
	if (!same(hm_page_high(page), high))
		corrupt(check, block, "the leaf ends before %s, but inner nodes have %s for its end",
				show_position(hm_page_high(page)), show_position(high));
	if (hm_page_special(page)->right != right)
		corrupt(check, block, "the right link is block %u, must be %u",
				hm_page_special(page)->right, right);

	problem = ht_leaf_check(page, check->width);
	if (problem != NULL)
		corrupt(check, block, "%s", problem);
	count = ht_leaf_read(page, check->width, entries);
	for (int j = 0; j < count; j++)
	{
		HmPosition	position = hm_position(check->part, entries[j].key, entries[j].tid);

		if (check->part != HM_PART_KEYS && entries[j].key != 0)
			corrupt(check, block, "an entry for NULL has key " UINT64_FORMAT, entries[j].key);
		if (hm_position_cmp(position, low) < 0 || hm_position_cmp(position, high) >= 0)
			corrupt(check, block, "entry %s is outside the leaf's bounds %s and %s",
					show_position(position), show_position(low), show_position(high));
		check_tid(check, block, entries[j].tid);
		if (check->filter != NULL)
		{
			Fingerprint fingerprint = {entries[j].key, entries[j].tid, check->part};

			bloom_add_element(check->filter, (unsigned char *) &fingerprint, sizeof(fingerprint));
		}
	}
}

/* The number of the leaf that covers a position of the segment. */
static uint32
find_leaf(Check *check, HmPosition position)
{
	uint32		low = 0,
				high = check->leaf_count;

	while (high - low > 1)
	{
		uint32		middle = low + (high - low) / 2;

		if (hm_position_cmp(check->leaves[middle].low, position) <= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Copy a leaf.  The caller holds the header's lock. */
static void
copy_leaf(Check *check, BlockNumber block, Page to)
{
	Buffer		buffer;

	check_block(check, check->block, "leaf", block);
	buffer = ReadBufferExtended(check->index, MAIN_FORKNUM, block, RBM_NORMAL, check->strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(to, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/*
 * Verify the segment with this header, from a position on.  Stops early, but after at
 * least one leaf, if the segment has changed meanwhile.  The caller has locked the header
 * in share mode; it is released here.  Returns the position up to which the leaves have
 * been verified.
 */
static HmPosition
check_segment(Check *check, Buffer header, HmPosition position)
{
	PGAlignedBlock leaf;
	HmPosition	done;
	uint32		i;

	check_header(check, BufferGetPage(header));
	check->copy = hm_segment_copy(check->index, header, check->width);
	check_inner(check);

	i = find_leaf(check, position);
	for (;;)
	{
		copy_leaf(check, check->leaves[i].block, (Page) leaf.data);
		LockBuffer(header, BUFFER_LOCK_UNLOCK);

		CHECK_FOR_INTERRUPTS();
		check_leaf(check, i, (Page) leaf.data);
		done = hm_page_high((Page) leaf.data);
		if (++i == check->leaf_count)
			break;

		LockBuffer(header, BUFFER_LOCK_SHARE);
		if (memcmp(BufferGetPage(header), check->copy->header, BLCKSZ) != 0)
		{
			LockBuffer(header, BUFFER_LOCK_UNLOCK);
			break;
		}
	}
	ReleaseBuffer(header);
	return done;
}

/* Verify all segments, in key order. */
static void
check_segments(Check *check)
{
	HmPosition	position = hm_position(HM_PART_NULLS_LOW, 0, 0);
	MemoryContext old_context;

	check->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia check",
										   ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(check->context);
	for (;;)
	{
		Buffer		header = enter_segment(check, position);

		if (!BufferIsValid(header))
			break;
		position = check_segment(check, header, position);
		MemoryContextReset(check->context);
	}
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(check->context);
}

/* ----------------------------------------------------------------
 *		Extents
 * ----------------------------------------------------------------
 */
typedef struct OwnedExtents
{
	int64		count;
	int64		room;
	OwnedExtent *list;
} OwnedExtents;

static void
add_extent(OwnedExtents *extents, HmExtent extent, OwnerKind kind, BlockNumber owner, uint64 stamp)
{
	if (extents->count == extents->room)
	{
		extents->room *= 2;
		extents->list = repalloc_huge(extents->list, extents->room * sizeof(OwnedExtent));
	}
	extents->list[extents->count++] = (OwnedExtent) {extent, kind, owner, stamp};
}

static int
owned_extent_cmp(const void *a, const void *b)
{
	BlockNumber left = ((const OwnedExtent *) a)->extent.start;
	BlockNumber right = ((const OwnedExtent *) b)->extent.start;

	return left < right ? -1 : left > right ? 1 : 0;
}

static inline bool
overlap(HmExtent a, HmExtent b)
{
	return a.start < b.start + b.length && b.start < a.start + a.length;
}

/* Whether the segment that owned an extent is still alive. */
static bool
still_alive(Check *check, const OwnedExtent *extent)
{
	Buffer		buffer = ReadBuffer(check->index, extent->owner);
	Page		page = BufferGetPage(buffer);
	bool		alive;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	alive = hm_page_is(page, HM_PAGE_SEGMENT) &&
		hm_page_segment(page)->stamp == extent->stamp &&
		!(hm_page_segment(page)->state & HM_SEGMENT_DEAD);
	UnlockReleaseBuffer(buffer);
	return alive;
}

/* Whether any block of an extent is listed as free now. */
static bool
still_free(Check *check, HmExtent extent)
{
	Buffer		buffer = hm_meta_buffer(check->index, BUFFER_LOCK_SHARE);
	HmMeta	   *meta = hm_page_meta(BufferGetPage(buffer));
	bool		found = false;

	for (uint32 i = 0; i < meta->free_count; i++)
		found |= overlap(meta->free[i], extent);
	UnlockReleaseBuffer(buffer);
	return found;
}

/*
 * Whether the owners of two extents that overlap owned them at the same time.  Metapage
 * and directory pages never get another use.
 */
static bool
both_owned(Check *check, const OwnedExtent *a, const OwnedExtent *b)
{
	if (a->kind == OWNER_FREE && !still_free(check, b->extent))
		return false;
	if (b->kind == OWNER_FREE && !still_free(check, a->extent))
		return false;
	return (a->kind != OWNER_SEGMENT || still_alive(check, a)) &&
		(b->kind != OWNER_SEGMENT || still_alive(check, b));
}

/*
 * Collect all extents with their owners.  The free list is read last: an extent that is
 * freed meanwhile is collected twice, and both_owned() then finds its segment dead.
 */
static void
collect_extents(Check *check, OwnedExtents *extents)
{
	HmDirectoryEntry *segments;
	BlockNumber *pages;
	int			segment_count,
				page_count;
	Buffer		buffer;
	HmMeta	   *meta;

	segments = hm_directory_read(check->index, &segment_count, &pages, &page_count);
	extents->count = 0;
	extents->room = 64;
	extents->list = palloc(extents->room * sizeof(OwnedExtent));
	add_extent(extents, (HmExtent) {HM_METAPAGE_BLKNO, 1}, OWNER_META, HM_METAPAGE_BLKNO, 0);
	for (int i = 0; i < page_count; i++)
		add_extent(extents, (HmExtent) {pages[i], 1}, OWNER_DIRECTORY, pages[i], 0);

	for (int i = 0; i < segment_count; i++)
	{
		HmSegment  *segment;

		CHECK_FOR_INTERRUPTS();
		check_block(check, HM_METAPAGE_BLKNO, "segment", segments[i].block);
		buffer = ReadBuffer(check->index, segments[i].block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		segment = hm_page_segment(BufferGetPage(buffer));
		/* Skip a segment that has been replaced; it was alive when it was verified. */
		if (hm_page_is_segment_of(BufferGetPage(buffer), &segments[i]) &&
			!(segment->state & HM_SEGMENT_DEAD))
		{
			for (uint32 j = 0; j < Min(segment->extent_count, HM_SEGMENT_MAX_EXTENTS); j++)
				add_extent(extents, segment->extents[j], OWNER_SEGMENT, segments[i].block,
						   segment->stamp);
		}
		UnlockReleaseBuffer(buffer);
	}

	buffer = hm_meta_buffer(check->index, BUFFER_LOCK_SHARE);
	meta = hm_page_meta(BufferGetPage(buffer));
	for (uint32 i = 0; i < meta->free_count; i++)
		add_extent(extents, meta->free[i], OWNER_FREE, InvalidBlockNumber, 0);
	UnlockReleaseBuffer(buffer);
	pfree(segments);
	pfree(pages);
}

/* The owner of an extent, as text for a message. */
static const char *
show_owner(const OwnedExtent *extent)
{
	switch (extent->kind)
	{
		case OWNER_META:
			return "the metapage";
		case OWNER_DIRECTORY:
			return "a directory page";
		case OWNER_SEGMENT:
			return psprintf("the segment at block %u", extent->owner);
		case OWNER_FREE:
			return "the list of free extents";
	}
	return "";
}

/* Check that no block belongs to two owners. */
static void
check_extents(Check *check)
{
	for (int attempt = 0; attempt < MAX_EXTENT_ATTEMPTS; attempt++)
	{
		OwnedExtents extents;
		bool		again = false;

		collect_extents(check, &extents);
		qsort(extents.list, extents.count, sizeof(OwnedExtent), owned_extent_cmp);
		for (int64 i = 1; i < extents.count; i++)
		{
			OwnedExtent *a = &extents.list[i - 1];
			OwnedExtent *b = &extents.list[i];

			if (!overlap(a->extent, b->extent))
				continue;
			if (both_owned(check, a, b))
				corrupt(check, b->extent.start, "the block belongs to %s and to %s",
						show_owner(a), show_owner(b));
			again = true;
		}
		pfree(extents.list);
		if (!again)
			return;
	}
	ereport(NOTICE,
			(errmsg("extents of index \"%s\" change too fast to be verified",
					RelationGetRelationName(check->index))));
}

/* ----------------------------------------------------------------
 *		Table against index
 * ----------------------------------------------------------------
 */
/* Check that the index has an entry for a row of the table. */
static void
heap_tuple_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull,
					bool alive, void *arg)
{
	Check	   *check = arg;
	Fingerprint fingerprint = {0, hm_tid_pack(tid), HM_PART_KEYS};

	if (isnull[0])
		fingerprint.part = check->nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH;
	else
		fingerprint.key = hm_key_type(index)->normalise(values[0]);
	if (bloom_lacks_element(check->filter, (unsigned char *) &fingerprint, sizeof(fingerprint)))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is corrupted", RelationGetRelationName(index)),
				 errdetail("Row (%u,%u) of table \"%s\" has no entry in it.",
						   ItemPointerGetBlockNumberNoCheck(tid),
						   ItemPointerGetOffsetNumberNoCheck(tid),
						   RelationGetRelationName(check->heap)),
				 errhint("Please REINDEX it.")));
}

/*
 * Make the bloom filter, and take a snapshot before anything of the index is read: the
 * index has entries of all rows that the snapshot sees.
 * Errors: t_r_serialization_failure, if the transaction's snapshot is older than the
 * index.
 */
static Snapshot
begin_fingerprints(Check *check)
{
	int64		entries = (int64) RelationGetNumberOfBlocks(check->index) *
		ht_leaf_capacity(hm_key_type(check->index)->width);
	Snapshot	snapshot;

	check->filter = bloom_create(entries, maintenance_work_mem,
								 pg_prng_uint64(&pg_global_prng_state));
	snapshot = RegisterSnapshot(GetTransactionSnapshot());

	/*
	 * The transaction's own snapshot may be too old for this index; amcheck has the same
	 * test.
	 */
	if (IsolationUsesXactSnapshot() && check->index->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(check->index->rd_indextuple->t_data),
							   snapshot->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("index \"%s\" cannot be verified using transaction snapshot",
						RelationGetRelationName(check->index))));
	return snapshot;
}

/* Check that all rows that the snapshot sees have entries.  Frees filter and snapshot. */
static void
check_heap(Check *check, Snapshot snapshot)
{
	IndexInfo  *info = BuildIndexInfo(check->index);
	TableScanDesc scan = table_beginscan_strat(check->heap, snapshot, 0, NULL, true, true);

	/* Scan only what the snapshot sees, as a concurrent build does. */
	info->ii_Concurrent = true;
	table_index_build_scan(check->heap, check->index, info, true, false,
						   heap_tuple_callback, check, scan);
	bloom_free(check->filter);
	UnregisterSnapshot(snapshot);
}

/* ----------------------------------------------------------------
 *		The function
 * ----------------------------------------------------------------
 */
/* Verify an index.  The caller has locked it and its table. */
static void
check_index(Relation index, Relation heap, bool heapallindexed)
{
	Check		check = {0};
	Snapshot	snapshot = InvalidSnapshot;

	check.index = index;
	check.heap = heap;
	check.strategy = GetAccessStrategy(BAS_BULKREAD);
	check.heap_blocks = heap->rd_rel->relam == HEAP_TABLE_AM_OID ?
		RelationGetNumberOfBlocks(heap) : InvalidBlockNumber;

	/* The snapshot may see rows of which this backend has queued the entries. */
	if (!RecoveryInProgress())
		hm_batch_apply(index);
	if (heapallindexed)
		snapshot = begin_fingerprints(&check);
	check_metapage(&check);
	check_segments(&check);
	check_extents(&check);
	if (heapallindexed)
		check_heap(&check, snapshot);
}

/*
 * harmonia_check(index regclass, heapallindexed boolean)
 *
 * Locks table and index with AccessShareLock, the table first.
 */
Datum
harmonia_check(PG_FUNCTION_ARGS)
{
	bool		heapallindexed = PG_GETARG_BOOL(1);
	Relation	heap;
	Relation	index;
	Oid			user;
	int			security;
	int			nest_level;

	index = hm_inspect_open_with_table(PG_GETARG_OID(0), AccessShareLock, &heap);
	hm_inspect_check_valid(index);

	/* Functions of the index run as the table's owner. */
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(heap->rd_rel->relowner,
						   security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	hm_restrict_search_path();

	if (index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED && RecoveryInProgress())
		ereport(NOTICE,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot verify unlogged index \"%s\" during recovery, skipping",
						RelationGetRelationName(index))));
	else
		check_index(index, heap, heapallindexed);

	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	index_close(index, AccessShareLock);
	table_close(heap, AccessShareLock);
	PG_RETURN_VOID();
}
