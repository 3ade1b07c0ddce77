/*
 * extent.c
 *		Extents: taking blocks, giving them back, finding lost ones.
 *
 * The metapage lists free extents.  The list may be incomplete: a block is in use if the
 * directory or a segment's header refers to it, and free otherwise.  A crash, an error or
 * a full list can leave free blocks unlisted.  These are lost blocks; the next VACUUM rebuilds
 * the list and so finds them.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"

#include "am/fault.h"
#include "am/store/store.h"
#include "compat.h"

/*
 * Fewer blocks than this, if they are less than a sixteenth of the file, are not worth a
 * truncation.
 */
#define TRUNCATE_MIN 1000

/*
 * The number of the extent on the list to take blocks from, or -1 if none is long enough: the one
 * that begins at "next", if there is one.
 */
static int
choose_from_list(const HmMeta *meta, uint32 length, HmExtentUse use, BlockNumber next)
{
	int best = -1;

	for (uint32 i = 0; i < meta->free_count; i++)
	{
		if (meta->free[i].length < length)
			continue;
		if (meta->free[i].start == next)
			return (int) i;
		if (best < 0 ||
			(use == HM_EXTENT_FOR_FEW && meta->free[i].length < meta->free[best].length))
			best = (int) i;
	}
	return best;
}

/*
 * Take blocks from an extent on the list.  Returns the first one, or InvalidBlockNumber
 * if no extent is long enough.
 * Errors: index_corrupted.
 */
static BlockNumber
extent_from_list(Relation index, HmMeta *meta, uint32 length, HmExtentUse use, BlockNumber next)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	int best = choose_from_list(meta, length, use, next);
	BlockNumber start;

	if (best < 0)
		return InvalidBlockNumber;

	start = meta->free[best].start;
	if (start == HM_METAPAGE_BLKNO || start >= blocks || length > blocks - start)
		hm_report_damage(NULL,
						 "index \"%s\" lists %u free blocks from block %u on, but has %u blocks",
						 RelationGetRelationName(index), meta->free[best].length, start, blocks);
	meta->free[best].start += length;
	meta->free[best].length -= length;
	if (meta->free[best].length == 0)
	{
		meta->free_count--;
		memmove(&meta->free[best], &meta->free[best + 1],
				(meta->free_count - best) * sizeof(HmExtent));
		memset(&meta->free[meta->free_count], 0, sizeof(HmExtent));
	}
	return start;
}

/* Make the file longer by empty blocks from "start" on, its end.  The caller has locked it. */
static void
extend_file(Relation index, BlockNumber start, uint32 length)
{
	HmAlignedPage zero;

	if (length > MaxBlockNumber - start - 2)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("cannot extend index \"%s\" beyond %u blocks",
							   RelationGetRelationName(index), MaxBlockNumber)));
	memset(zero.data, 0, BLCKSZ);
	for (uint32 i = 0; i < length; i++)
		smgrextend(RelationGetSmgr(index), MAIN_FORKNUM, start + i, zero.data, false);
}

/* Whether the last block of the file, so many blocks long, is empty. */
static bool
ends_empty(Relation index, BlockNumber blocks)
{
	Buffer buffer = ReadBuffer(index, blocks - 1);
	bool empty;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	empty = PageIsNew(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	return empty;
}

/*
 * Log the last of some blocks, if it is empty, so that replay makes a replica's file as long.
 * Must be done before anything refers to any of these blocks: a replica, once promoted,
 * must not find a free block beyond the end of its file.  The primary has all these
 * blocks already, so its own recovery needs no room for them, and a base backup that begins
 * too late for the record has copied them.
 */
static void
log_last_block(Relation index, BlockNumber blocks)
{
	Buffer buffer = ReadBuffer(index, blocks - 1);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	if (PageIsNew(BufferGetPage(buffer)))
	{
		GenericXLogState *state = GenericXLogStart(index);

		hm_page_init(GenericXLogRegisterBuffer(state, buffer, GENERIC_XLOG_FULL_IMAGE),
					 HM_PAGE_SPARE, 0, InvalidBlockNumber, HM_PART_KEYS);
		GenericXLogFinish(state);
	}
	UnlockReleaseBuffer(buffer);
}

/* Make the file longer, and log that.  The caller holds the allocation lock. */
static BlockNumber
extent_from_file(Relation index, uint32 length)
{
	bool lock = !RELATION_IS_LOCAL(index);
	BlockNumber start;

	HM_FAULT(extent_extend_begun);
	if (lock)
		LockRelationForExtension(index, ExclusiveLock);
	start = RelationGetNumberOfBlocks(index);
	extend_file(index, start, length);
	if (lock)
		UnlockRelationForExtension(index, ExclusiveLock);
	HM_FAULT(extent_extended);
	log_last_block(index, start + length);
	HM_FAULT(extent_extend_logged);
	return start;
}

BlockNumber
hm_extent_allocate(Relation index, uint32 length, HmExtentUse use, BlockNumber next)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta *meta = hm_page_meta(GenericXLogRegisterBuffer(state, buffer, 0));
	BlockNumber start = extent_from_list(index, meta, length, use, next);

	if (BlockNumberIsValid(start))
	{
		HM_FAULT(extent_take_changed);
		GenericXLogFinish(state);
		HM_FAULT(extent_take_logged);
	}
	else
		GenericXLogAbort(state);
	UnlockReleaseBuffer(buffer);

	return BlockNumberIsValid(start) ? start : extent_from_file(index, length);
}

bool
hm_extent_fits_below(Relation index, uint32 length, BlockNumber limit)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta *meta = hm_page_meta(BufferGetPage(buffer));
	bool result = false;

	for (uint32 i = 0; i < meta->free_count && !result; i++)
		result = meta->free[i].length >= length && meta->free[i].start + length <= limit;
	UnlockReleaseBuffer(buffer);
	return result;
}

/*
 * Add an extent to the list, which stays sorted, and join it with its neighbours.  If the
 * list is full, its shortest extent is dropped; VACUUM finds that one again.
 */
static void
extent_to_list(HmMeta *meta, HmExtent extent)
{
	uint32 i = 0;

	if (meta->free_count == HM_FREE_MAX)
	{
		uint32 shortest = 0;

		for (uint32 j = 1; j < meta->free_count; j++)
		{
			if (meta->free[j].length < meta->free[shortest].length)
				shortest = j;
		}
		if (meta->free[shortest].length >= extent.length)
			return;
		meta->free_count--;
		memmove(&meta->free[shortest], &meta->free[shortest + 1],
				(meta->free_count - shortest) * sizeof(HmExtent));
	}

	while (i < meta->free_count && meta->free[i].start < extent.start)
		i++;
	memmove(&meta->free[i + 1], &meta->free[i], (meta->free_count - i) * sizeof(HmExtent));
	meta->free[i] = extent;
	meta->free_count++;

	if (i + 1 < meta->free_count &&
		meta->free[i].start + meta->free[i].length == meta->free[i + 1].start)
	{
		meta->free[i].length += meta->free[i + 1].length;
		meta->free_count--;
		memmove(&meta->free[i + 1], &meta->free[i + 2],
				(meta->free_count - i - 1) * sizeof(HmExtent));
	}
	if (i > 0 && meta->free[i - 1].start + meta->free[i - 1].length == meta->free[i].start)
	{
		meta->free[i - 1].length += meta->free[i].length;
		meta->free_count--;
		memmove(&meta->free[i], &meta->free[i + 1], (meta->free_count - i) * sizeof(HmExtent));
	}
}

void
hm_extent_free(Relation index, const HmExtent *extents, int count)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta *meta = hm_page_meta(GenericXLogRegisterBuffer(state, buffer, 0));

	for (int i = 0; i < count; i++)
		extent_to_list(meta, extents[i]);
	HM_FAULT(extent_free_changed);
	GenericXLogFinish(state);
	HM_FAULT(extent_free_logged);
	UnlockReleaseBuffer(buffer);
}

uint64
hm_stamp_allocate(Relation index)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta *meta = hm_page_meta(GenericXLogRegisterBuffer(state, buffer, 0));
	uint64 stamp = meta->next_stamp++;

	GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);
	return stamp;
}

static int
extent_cmp(const void *a, const void *b)
{
	BlockNumber left = ((const HmExtent *) a)->start;
	BlockNumber right = ((const HmExtent *) b)->start;

	return left < right ? -1 : left > right ? 1 : 0;
}

/*
 * All extents in use, sorted and palloc'd: metapage, directory pages and segments.  The
 * caller holds the allocation lock exclusively, so no other backend can change them.
 */
static HmExtent *
extents_in_use(Relation index, int *count)
{
	HmListedSegment *segments;
	BlockNumber *pages;
	int segment_count, page_count;
	int room;
	HtWidth width = hm_cache(index, false)->width;
	HmExtent *used;

	segments = hm_segments_list(index, &segment_count, &pages, &page_count);
	room = 1 + page_count + segment_count * 2;
	used = palloc_extended(room * sizeof(HmExtent), MCXT_ALLOC_HUGE);
	*count = 0;

	used[(*count)++] = (HmExtent){HM_METAPAGE_BLKNO, 1};
	for (int i = 0; i < page_count; i++)
		used[(*count)++] = (HmExtent){pages[i], 1};

	for (int i = 0; i < segment_count; i++)
	{
		Buffer buffer;
		HmSegment *segment;

		CHECK_FOR_INTERRUPTS();
		hm_block_check(index, segments[i].block);
		buffer = ReadBuffer(index, segments[i].block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		hm_page_check(index, buffer, HM_PAGE_SEGMENT);
		hm_segment_check(index, buffer, width);
		segment = hm_page_segment(BufferGetPage(buffer));
		if (*count + (int) segment->extent_count > room)
		{
			room = room * 2 + HM_SEGMENT_MAX_EXTENTS;
			used = repalloc_huge(used, room * sizeof(HmExtent));
		}
		for (uint32 j = 0; j < segment->extent_count; j++)
			used[(*count)++] = segment->extents[j];
		UnlockReleaseBuffer(buffer);
	}
	qsort(used, *count, sizeof(HmExtent), extent_cmp);
	return used;
}

/*
 * Make a list of the gaps between extents in use, the HM_FREE_MAX longest ones.  Returns
 * the number of blocks in all gaps, listed or not.
 * Errors: index_corrupted.
 */
static BlockNumber
extents_complement(Relation index, const HmExtent *used, int count, BlockNumber blocks,
				   HmMeta *list)
{
	BlockNumber next = 0;
	BlockNumber result = 0;

	list->free_count = 0;
	memset(list->free, 0, sizeof(list->free));
	for (int i = 0; i <= count; i++)
	{
		BlockNumber start = i < count ? used[i].start : blocks;

		if (start < next)
			hm_report_damage(NULL, "index \"%s\" has overlapping extents at block %u",
							 RelationGetRelationName(index), start);
		if (start > next)
		{
			extent_to_list(list, (HmExtent){next, start - next});
			result += start - next;
		}
		if (i < count)
			next = start + used[i].length;
	}
	return result;
}

/* The end of the last extent in use. */
static BlockNumber
used_end(const HmExtent *used, int count)
{
	return used[count - 1].start + used[count - 1].length;
}

/*
 * A crash or an error in the middle of an extension leaves empty blocks at the end of the file,
 * of which no WAL record speaks.  Log the last one, so that they can be listed, or leave
 * them alone: it would be a waste if they are truncated next, and recovery, for which they
 * were free space again, might find no room for them.  Returns where the list is to end.
 */
static BlockNumber
log_end(Relation index, BlockNumber used, BlockNumber blocks, bool leave)
{
	if (used >= blocks || !ends_empty(index, blocks))
		return blocks;
	if (leave && hm_worth_truncating(blocks - used, blocks))
		return used;
	log_last_block(index, blocks);
	return blocks;
}

/* Write the list of free extents, if it is not what the metapage has. */
static void
write_list(Relation index, const HmMeta *list)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	HmMeta *meta = hm_page_meta(BufferGetPage(buffer));

	if (meta->free_count != list->free_count ||
		memcmp(meta->free, list->free, sizeof(list->free)) != 0)
	{
		GenericXLogState *state = GenericXLogStart(index);

		meta = hm_page_meta(GenericXLogRegisterBuffer(state, buffer, 0));
		meta->free_count = list->free_count;
		memcpy(meta->free, list->free, sizeof(list->free));
		HM_FAULT(sweep_changed);
		GenericXLogFinish(state);
		HM_FAULT(sweep_logged);
	}
	UnlockReleaseBuffer(buffer);
}

HmSweep
hm_extents_sweep(Relation index, bool leave_end)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	HmSweep result = {0, blocks};
	HmExtent *used;
	int count;
	HmMeta *list;

	if (!hm_allocation_keep_out(index))
		return result;
	HM_FAULT(sweep_entered);

	blocks = RelationGetNumberOfBlocks(index);
	used = extents_in_use(index, &count);
	result.end = log_end(index, used_end(used, count), blocks, leave_end);
	list = palloc0(sizeof(HmMeta));
	result.free = blocks - result.end + extents_complement(index, used, count, result.end, list);
	write_list(index, list);
	hm_allocation_let_in(index);

	pfree(used);
	pfree(list);
	return result;
}

BlockNumber
hm_extents_free_end(Relation index, BlockNumber end)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta *meta = hm_page_meta(BufferGetPage(buffer));

	if (meta->free_count > 0)
	{
		HmExtent *last = &meta->free[meta->free_count - 1];

		if (last->start + last->length == end)
			end = last->start;
	}
	UnlockReleaseBuffer(buffer);
	return end;
}

BlockNumber
hm_extents_end(Relation index, BlockNumber most)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	BlockNumber result = hm_extents_free_end(index, blocks);
	HmExtent *used;
	int count;

	/* If the sweep has left them alone the list does not have them. */
	if (result < blocks || !ends_empty(index, blocks))
		return Max(result, blocks - Min(blocks, most));
	used = extents_in_use(index, &count);
	result = Min(used_end(used, count), blocks);
	pfree(used);
	return result;
}

void
hm_extents_keep_end(Relation index)
{
	if (ends_empty(index, RelationGetNumberOfBlocks(index)))
		(void) hm_extents_sweep(index, false);
}

bool
hm_worth_truncating(BlockNumber free, BlockNumber blocks)
{
	return free >= TRUNCATE_MIN || (free > 0 && free >= blocks / 16);
}
