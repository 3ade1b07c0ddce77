/*
 * build.c
 *		Writing a new index.
 *
 * Entries come sorted (buildsort.c).  Segments are laid out in memory one after
 * the other and written around shared buffers, each page logged as a full
 * image.  The metapage comes last: until then nothing refers to what was
 * written.
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#include "am/fault.h"
#include "am/build/buildsort.h"
#include "compat.h"

/* Entries on each directory page that a build makes; the rest is for growth. */
#define BUILD_DIRECTORY_FILL	(HM_DIRECTORY_MAX * 9 / 10)

/* An index under construction. */
typedef struct HmBuild
{
	Relation	index;
	HmBuildSort *sort;
	HtWidth		width;
	int			fanout;
	uint32		leaves_max;		/* leaves of a segment */
	BlockNumber next_block;		/* blocks written so far */
	uint64		next_stamp;
	uint64		written;		/* entries */
	char	   *image;			/* room for the largest segment, aligned */
	HtEntry    *entries;		/* and for its entries, however many these are, and
								 * the one after */
	uint64		entries_room;
	HmLeafPlan *plan;			/* of the segment's leaves */
	HmDirectoryEntry *segments;
	int			segment_count;
	int			segment_room;
} HmBuild;

/*
 * Write pages that are contiguous in memory to the end of the file, and log them.
 *
 * The file is extended before the pages are logged.  If the disk is full, recovery must
 * not need room that never existed.  So the pages are written twice, at first without
 * LSN.  They are never empty in the file, because other backends could read empty pages
 * into shared buffers.
 */
static void
write_pages(HmBuild *build, char *pages, uint32 count)
{
	Relation	index = build->index;
	BlockNumber *blocks = palloc(count * sizeof(BlockNumber));
	Page	   *list = palloc(count * sizeof(Page));

	for (uint32 i = 0; i < count; i++)
	{
		blocks[i] = build->next_block + i;
		list[i] = (Page) (pages + (Size) i * BLCKSZ);
		hm_set_checksum(list[i], blocks[i]);
		smgrextend(RelationGetSmgr(index), MAIN_FORKNUM, blocks[i], list[i], true);
	}
	HM_FAULT(build_pages_extended);
	if (RelationNeedsWAL(index))
	{
		log_newpages(&HmRelationLocator(index), MAIN_FORKNUM, (int) count, blocks, list, true);
		for (uint32 i = 0; i < count; i++)
		{
			hm_set_checksum(list[i], blocks[i]);
			smgrwrite(RelationGetSmgr(index), MAIN_FORKNUM, blocks[i], list[i], true);
		}
	}
	build->next_block += count;
	pfree(blocks);
	pfree(list);
}

/* Write a segment with so many leaves, as build->plan and build->entries say. */
static void
write_segment(HmBuild *build, HmSegmentSpec *spec, HtEntry low, HtEntry high, uint32 leaves)
{
	uint32		pages;

	spec->leaves = leaves;
	spec->leaf_room = spec->leaves;
	spec->start = build->next_block;
	spec->stamp = build->next_stamp++;
	pages = hm_segment_image(spec, low, high, build->plan, build->entries, build->image);
	write_pages(build, build->image, pages);
	HM_FAULT(build_segment_written);

	if (build->segment_count == build->segment_room)
	{
		build->segment_room *= 2;
		build->segments = repalloc_huge(build->segments,
										(Size) build->segment_room * sizeof(HmDirectoryEntry));
	}
	build->segments[build->segment_count++] = hm_segment_entry(spec, low);
}

/* Write all entries of a part, into segments that are full but for the last one. */
static void
write_part(HmBuild *build, HmPart part)
{
	bool		nulls = part != HM_PART_KEYS;
	uint64		rest = hm_build_sort_count(build->sort, nulls);	/* not written yet */
	uint64		have = 0;		/* of them, read ahead */
	HT_KEY		step = HM_STEP_UNKNOWN;
	HtEntry		low = {0, 0};

	while (rest > 0)
	{
		uint64		want = Min(rest, build->entries_room);
		HmSegmentSpec spec = {0};
		HtEntry		high = low;
		uint32		leaves;
		uint64		n;

		CHECK_FOR_INTERRUPTS();
		have += hm_build_sort_read(build->sort, nulls, build->entries + have, want - have);
		if (have != want)
			elog(ERROR, "entries for index \"%s\" went missing in sorting",
				 RelationGetRelationName(build->index));

		/* So many entries fill more leaves than a segment has, unless they are the last ones. */
		leaves = hm_plan_leaves(build->width, hm_fillfactor(build->index),
								hm_fillfactor(build->index), low, NULL, build->entries, have, step, build->leaves_max, build->plan, &n);
		step = hm_key_step(build->entries, n);
		spec.width = build->width;
		spec.fanout = build->fanout;
		spec.part = part;
		spec.has_high = n < rest;
		if (spec.has_high)
			high = build->entries[n];
		write_segment(build, &spec, low, high, leaves);
		low = high;

		have -= n;
		rest -= n;
		memmove(build->entries, build->entries + n, have * sizeof(HtEntry));
		build->written += n;
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, (int64) build->written);
	}
}

/* Fill in the root: with segments or, if there are too many, directory pages. */
static void
write_directory(HmBuild *build, HmMeta *meta)
{
	int			pages = (build->segment_count + BUILD_DIRECTORY_FILL - 1) / BUILD_DIRECTORY_FILL;

	if (build->segment_count <= HM_ROOT_MAX)
	{
		meta->root_count = (uint32) build->segment_count;
		memcpy(meta->root, build->segments,
			   build->segment_count * sizeof(HmDirectoryEntry));
		return;
	}
	if (pages > HM_ROOT_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" would have too many entries",
						RelationGetRelationName(build->index))));

	meta->depth = 1;
	meta->root_count = (uint32) pages;
	for (int i = 0; i < pages; i++)
	{
		int			from = (int) ((int64) build->segment_count * i / pages);
		int			to = (int) ((int64) build->segment_count * (i + 1) / pages);
		HmDirectory *directory = hm_page_directory((Page) build->image);

		meta->root[i] = build->segments[from];
		meta->root[i].block = build->next_block;
		meta->root[i].stamp = 0;

		hm_page_init((Page) build->image, HM_PAGE_DIRECTORY, 0, InvalidBlockNumber,
					 HM_PART_KEYS);
		directory->count = (uint32) (to - from);
		memcpy(directory->entries, &build->segments[from],
			   (to - from) * sizeof(HmDirectoryEntry));
		write_pages(build, build->image, 1);
	}
}

/*
 * Write the metapage into the block that was kept for it.  It goes through shared
 * buffers, which may have that block already, still empty: any backend can read the file
 * of an index that is built concurrently (pg_prewarm does).
 */
static void
write_metapage(HmBuild *build, Page page)
{
	Buffer		buffer = ReadBufferExtended(build->index, MAIN_FORKNUM, HM_METAPAGE_BLKNO,
											RBM_ZERO_AND_LOCK, NULL);
	GenericXLogState *state = GenericXLogStart(build->index);

	memcpy(GenericXLogRegisterBuffer(state, buffer, GENERIC_XLOG_FULL_IMAGE), page, BLCKSZ);
	HM_FAULT(build_metapage_changed);
	GenericXLogFinish(state);
	HM_FAULT(build_metapage_logged);
	UnlockReleaseBuffer(buffer);
}

/* Write the index that the sorted entries make. */
static void
write_index(HmBuild *build)
{
	Relation	index = build->index;
	Size		pages = HM_SEGMENT_MAX_BLOCKS;
	HmAlignedPage metapage;
	HtLeafShape widest;
	uint64		entries;
	char	   *memory;

	build->width = hm_planned_width(index);
	widest = ht_leaf_shape(8 * (int) build->width, HT_TID_BYTES, 0);
	build->fanout = hm_fanout(index);
	build->leaves_max = hm_segment_room(build->width, build->fanout, HM_SEGMENT_MAX_BLOCKS);
	build->next_stamp = 1;

	/* A small table's segment is smaller. */
	entries = Max(hm_build_sort_count(build->sort, false), hm_build_sort_count(build->sort, true));
	pages = Min(pages, entries / hm_leaf_fill_count(index, widest) + 8);
	entries = Min(entries, (uint64) build->leaves_max * HT_LEAF_MAX_ENTRIES) + 1;
	memory = palloc_extended(pages * BLCKSZ + HM_IO_ALIGN, MCXT_ALLOC_HUGE);
	build->image = (char *) TYPEALIGN(HM_IO_ALIGN, memory);
	build->entries = palloc_extended(entries * sizeof(HtEntry), MCXT_ALLOC_HUGE);
	build->entries_room = entries;
	build->plan = palloc(build->leaves_max * sizeof(HmLeafPlan));
	build->segment_room = 64;
	build->segments = palloc(build->segment_room * sizeof(HmDirectoryEntry));

	memset(metapage.data, 0, BLCKSZ);
	smgrextend(RelationGetSmgr(index), MAIN_FORKNUM, HM_METAPAGE_BLKNO, metapage.data, true);
	build->next_block = HM_METAPAGE_BLKNO + 1;
	HM_FAULT(build_begun);
	hm_meta_init(index, (Page) metapage.data);

	if (hm_page_meta((Page) metapage.data)->nulls_low)
		write_part(build, HM_PART_NULLS_LOW);
	write_part(build, HM_PART_KEYS);
	if (!hm_page_meta((Page) metapage.data)->nulls_low)
		write_part(build, HM_PART_NULLS_HIGH);

	write_directory(build, hm_page_meta((Page) metapage.data));
	hm_page_meta((Page) metapage.data)->next_stamp = build->next_stamp;
	HM_FAULT(build_pages_written);
	write_metapage(build, (Page) metapage.data);

	/*
	 * A checkpoint since the pages were logged did not write them: all but the
	 * metapage never were in shared buffers.
	 */
	if (!RelationUsesLocalBuffers(index))
		smgrimmedsync(RelationGetSmgr(index), MAIN_FORKNUM);

	pfree(build->segments);
	pfree(build->entries);
	pfree(build->plan);
	pfree(memory);
}

IndexBuildResult *
hm_build_index(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc(sizeof(IndexBuildResult));
	HmBuild		build = {0};

	build.index = index;
	build.sort = hm_build_sort(heap, index, info, &result->heap_tuples, &result->index_tuples);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, HM_BUILD_PHASE_WRITE);
	write_index(&build);
	hm_build_sort_end(build.sort);
	HM_FAULT(build_done);
	return result;
}
