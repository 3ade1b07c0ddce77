/*
 * directory.c
 *		The directory: which segment covers a position, and how that changes.
 *
 * The root is in the metapage.  At depth 0 its entries are segments.  At depth 1 they are
 * directory pages, the entries of which are segments.  Searches use the backend's copy of
 * the root, however old it is.  A segment's header says which segment it is, what it
 * covers and whether it is alive.  If it is not the segment that the copy refers to, or
 * does not cover the position, the copy is renewed.  Only when the directory says that
 * something does not exist must the copy be fresh.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "am/fault.h"
#include "am/store/store.h"
#include "compat.h"

/* If a search fails this often, the directory is damaged. */
#define MAX_ATTEMPTS	1000

/*
 * The number of the last entry that is below the position or, with "equal", not above it;
 * or -1.
 */
static int
entries_search(const HmDirectoryEntry *entries, int count, HmPosition position, bool equal)
{
	int			low = 0,
				middle,
				high = count;

	HM_BINARY_SEARCH(low, middle, high,
					 hm_position_cmp(hm_directory_low(&entries[middle]), position) < (equal ? 1 : 0));
	return low - 1;
}

/*
 * Choose an entry.  For HM_AT_OR_AFTER: the one that covers the position or, if its part
 * has none, the next one.  For HM_BEFORE: the last one that begins below the position.
 * Returns -1 if there is none among these.
 */
static int
entries_choose(const HmDirectoryEntry *entries, int count, HmPosition position,
			   HmSearch search)
{
	int			i = entries_search(entries, count, position, search == HM_AT_OR_AFTER);

	if (search == HM_BEFORE)
		return i;
	if (i >= 0 && entries[i].part == position.part)
		return i;
	return i + 1 < count ? i + 1 : -1;
}

void
hm_directory_check(Relation index, Buffer buffer)
{
	hm_page_check(index, buffer, HM_PAGE_DIRECTORY);
	hm_count_check(index, buffer, hm_page_directory(BufferGetPage(buffer))->count, HM_DIRECTORY_MAX);
}

typedef enum LookupResult
{
	LOOKUP_FOUND,
	LOOKUP_NONE,				/* there is no such entry */
	LOOKUP_STALE				/* a page was not what the copy promised */
} LookupResult;

/* Look the position up, starting from the backend's copy of the root. */
static LookupResult
directory_lookup(Relation index, HmCache *cache, HmPosition position,
				 HmSearch search, HmDirectoryEntry *result)
{
	int			i;

	if (cache->depth == 0)
	{
		i = entries_choose(cache->root, cache->root_count, position, search);
		if (i < 0)
			return LOOKUP_NONE;
		*result = cache->root[i];
		return LOOKUP_FOUND;
	}

	i = Max(0, entries_search(cache->root, cache->root_count, position,
							  search == HM_AT_OR_AFTER));
	for (; i < (int) cache->root_count; i++)
	{
		LookupResult found = LOOKUP_STALE;
		Buffer		buffer;
		Page		page;

		hm_block_check(index, cache->root[i].block);
		HM_FAULT(directory_root_searched);
		buffer = ReadBuffer(index, cache->root[i].block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		if (hm_page_is(page, HM_PAGE_DIRECTORY) &&
			hm_page_directory(page)->count <= HM_DIRECTORY_MAX)
		{
			HmDirectory *directory = hm_page_directory(page);
			int			j = entries_choose(directory->entries, directory->count, position, search);

			found = j >= 0 ? LOOKUP_FOUND : LOOKUP_NONE;
			if (j >= 0)
				*result = directory->entries[j];
		}
		UnlockReleaseBuffer(buffer);

		/* The entry after the position may be the first one of the next page. */
		if (found != LOOKUP_NONE || search == HM_BEFORE)
			return found;
	}
	return LOOKUP_NONE;
}

/*
 * Whether the segment with this header is the one that a search for the position must
 * find.  The caller holds the header's lock.
 */
static bool
segment_covers(Page header, HmPosition position, HmSearch search)
{
	HmPart		part = (HmPart) hm_page_special(header)->part;
	HmPosition	low = {hm_segment_low(header), part};
	HmPosition	high = {hm_segment_high(header), part};

	if (!hm_page_has_high(header))
		high = hm_position((HmPart) (part + 1), 0, 0);

	if (search == HM_BEFORE)
		return hm_position_cmp(low, position) < 0 && hm_position_cmp(position, high) <= 0;
	return hm_position_cmp(low, position) <= 0 && hm_position_cmp(position, high) < 0;
}

/*
 * Whether a copy of the root, which was renewed before a search that read directory
 * pages, still equals the root.  If not, entries may have moved from one page to another
 * during the search.
 */
static bool
root_is_same(Relation index, const HmCache *cache)
{
	/* Not hm_meta_buffer(), which may free the cache. */
	Buffer		buffer = ReadBuffer(index, HM_METAPAGE_BLKNO);
	HmMeta	   *meta = hm_page_meta(BufferGetPage(buffer));
	bool		same;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	same = hm_page_is(BufferGetPage(buffer), HM_PAGE_META) && meta->depth == cache->depth &&
		meta->root_count == cache->root_count &&
		memcmp(meta->root, cache->root, cache->root_count * sizeof(HmDirectoryEntry)) == 0;
	UnlockReleaseBuffer(buffer);
	return same;
}

Buffer
hm_segment_enter(Relation index, HmPosition *position, HmSearch search, int lock)
{
	for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++)
	{
		bool		fresh = attempt > 0 || !hm_cache_is_current(index);
		HmCache    *cache = hm_cache(index, fresh);
		HmPosition	wanted = *position;
		HmDirectoryEntry entry = {0};	/* gcc does not see that it is read only when found */
		LookupResult found;
		Buffer		buffer;
		Page		page;

		CHECK_FOR_INTERRUPTS();
		found = directory_lookup(index, cache, wanted, search, &entry);
		if (found == LOOKUP_STALE)
			continue;
		if (found != LOOKUP_FOUND || entry.part != (uint64) wanted.part)
		{
			/*
			 * Nothing covers the position in its part.  Believe that only of a fresh
			 * copy, and of directory pages only if they were the root's during the whole
			 * search.
			 */
			if (!fresh || (cache->depth > 0 && !root_is_same(index, cache)))
				continue;
			if (found != LOOKUP_FOUND)
				return InvalidBuffer;
			if (search == HM_BEFORE)
				wanted = hm_position((HmPart) entry.part,
									 ht_key_max(cache->width), HT_TID_MAX);
			else
				wanted = hm_directory_low(&entry);
		}

		hm_block_check(index, entry.block);
		buffer = ReadBuffer(index, entry.block);
		LockBuffer(buffer, lock);
		page = BufferGetPage(buffer);
		if (hm_segment_is_alive_for(page, entry.stamp) &&
			segment_covers(page, wanted, search))
		{
			*position = wanted;
			return buffer;
		}
		UnlockReleaseBuffer(buffer);
	}

	hm_report_damage(NULL, "directory of index \"%s\" leads to no segment",
					 RelationGetRelationName(index));
}

/* ----------------------------------------------------------------
 *		Changes
 * ----------------------------------------------------------------
 */

/*
 * Report a directory page that is listed twice, or is also listed as free.
 * Errors: index_corrupted.
 */
static void
directory_overlap(Relation index, BlockNumber block)
{
	hm_report_damage(NULL, "block %u of index \"%s\" is in use twice", block,
					 RelationGetRelationName(index));
}

/*
 * Split the full directory page "block" in two.  The caller has locked the metapage
 * exclusively and owns fresh_block, which becomes the second page.
 */
static void
directory_split(Relation index, Buffer meta_buffer, BlockNumber block, BlockNumber fresh_block)
{
	Buffer		buffer;
	Buffer		fresh_buffer;
	GenericXLogState *state;
	HmMeta	   *meta;
	HmDirectory *directory,
			   *fresh;
	Page		page;
	HmDirectoryEntry added;
	uint32		keep;
	int			i;

	/* If the list of free extents is damaged, it may have named the page that is locked. */
	if (block == fresh_block)
		directory_overlap(index, block);
	buffer = ReadBuffer(index, block);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	hm_directory_check(index, buffer);
	fresh_buffer = ReadBufferExtended(index, MAIN_FORKNUM, fresh_block,
									  RBM_ZERO_AND_LOCK, NULL);
	hm_page_withdraw(BufferGetPage(fresh_buffer));

	state = GenericXLogStart(index);
	meta = hm_page_meta(GenericXLogRegisterBuffer(state, meta_buffer, 0));
	directory = hm_page_directory(GenericXLogRegisterBuffer(state, buffer, 0));
	page = GenericXLogRegisterBuffer(state, fresh_buffer, GENERIC_XLOG_FULL_IMAGE);
	hm_page_init(page, HM_PAGE_DIRECTORY, 0, InvalidBlockNumber, HM_PART_KEYS);
	fresh = hm_page_directory(page);

	/* Ascending loads add at the end; otherwise split in halves. */
	i = entries_search(meta->root, meta->root_count, hm_directory_low(&directory->entries[0]), true);
	keep = i == (int) meta->root_count - 1 ? directory->count * 9 / 10 : directory->count / 2;

	fresh->count = directory->count - keep;
	memcpy(fresh->entries, &directory->entries[keep], fresh->count * sizeof(HmDirectoryEntry));
	directory->count = keep;

	added = fresh->entries[0];
	added.block = fresh_block;
	added.stamp = 0;
	memmove(&meta->root[i + 2], &meta->root[i + 1],
			(meta->root_count - i - 1) * sizeof(HmDirectoryEntry));
	meta->root[i + 1] = added;
	meta->root_count++;

	HM_FAULT(directory_split_changed);
	GenericXLogFinish(state);
	HM_FAULT(directory_split_logged);
	UnlockReleaseBuffer(fresh_buffer);
	UnlockReleaseBuffer(buffer);
}

/* Move the root's entries to a directory page of their own. */
static void
directory_deepen(Relation index, Buffer meta_buffer, BlockNumber fresh_block)
{
	Buffer		fresh_buffer = ReadBufferExtended(index, MAIN_FORKNUM, fresh_block,
												  RBM_ZERO_AND_LOCK, NULL);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta	   *meta = hm_page_meta(GenericXLogRegisterBuffer(state, meta_buffer, 0));
	Page		page = GenericXLogRegisterBuffer(state, fresh_buffer, GENERIC_XLOG_FULL_IMAGE);
	HmDirectory *fresh = hm_page_directory(page);

	hm_page_withdraw(BufferGetPage(fresh_buffer));
	hm_page_init(page, HM_PAGE_DIRECTORY, 0, InvalidBlockNumber, HM_PART_KEYS);
	fresh->count = meta->root_count;
	memcpy(fresh->entries, meta->root, meta->root_count * sizeof(HmDirectoryEntry));
	meta->depth = 1;
	meta->root_count = 1;
	meta->root[0].block = fresh_block;
	meta->root[0].stamp = 0;
	HM_FAULT(directory_deepen_changed);
	GenericXLogFinish(state);
	HM_FAULT(directory_deepen_logged);
	UnlockReleaseBuffer(fresh_buffer);
}

void
hm_directory_begin(Relation index, HmPosition low, int count, HmDirectoryEdit *edit)
{
	BlockNumber fresh_block = InvalidBlockNumber;

	for (;;)
	{
		HmMeta	   *meta;
		BlockNumber block;
		int			i;
		bool		room;

		edit->meta = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
		edit->page = InvalidBuffer;
		edit->emptied = 0;
		meta = hm_page_meta(BufferGetPage(edit->meta));

		if (meta->depth == 0)
		{
			if (meta->root_count + count <= HM_ROOT_MAX)
				break;
			if (BlockNumberIsValid(fresh_block))
			{
				directory_deepen(index, edit->meta, fresh_block);
				fresh_block = InvalidBlockNumber;
			}
			UnlockReleaseBuffer(edit->meta);
			if (!BlockNumberIsValid(fresh_block))
			{
				fresh_block = hm_extent_allocate(index, 1, HM_EXTENT_FOR_FEW, InvalidBlockNumber);
				HM_FAULT(directory_allocated);
			}
			continue;
		}

		i = Max(0, entries_search(meta->root, meta->root_count, low, true));
		block = meta->root[i].block;
		hm_block_check(index, block);
		edit->page = ReadBuffer(index, block);
		LockBuffer(edit->page, BUFFER_LOCK_EXCLUSIVE);
		hm_directory_check(index, edit->page);
		room = hm_page_directory(BufferGetPage(edit->page))->count + count <= HM_DIRECTORY_MAX;
		if (room)
			break;

		UnlockReleaseBuffer(edit->page);
		if (meta->root_count == HM_ROOT_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("directory of index \"%s\" is full",
							RelationGetRelationName(index)),
					 errhint("REINDEX packs segments and frees room.")));
		if (BlockNumberIsValid(fresh_block))
		{
			directory_split(index, edit->meta, block, fresh_block);
			fresh_block = InvalidBlockNumber;
		}
		UnlockReleaseBuffer(edit->meta);
		if (!BlockNumberIsValid(fresh_block))
		{
			fresh_block = hm_extent_allocate(index, 1, HM_EXTENT_FOR_FEW, InvalidBlockNumber);
			HM_FAULT(directory_allocated);
		}
	}

	/*
	 * A block that was taken but is not needed is lost until the next VACUUM: to give it
	 * back, the metapage would have to be unlocked.
	 */
}

/* The entries that an edit works on, in shared buffers. */
static HmDirectoryEntry *
edit_entries(HmDirectoryEdit *edit, uint32 *count)
{
	if (BufferIsValid(edit->page))
	{
		HmDirectory *directory = hm_page_directory(BufferGetPage(edit->page));

		*count = directory->count;
		return directory->entries;
	}
	else
	{
		HmMeta	   *meta = hm_page_meta(BufferGetPage(edit->meta));

		*count = meta->root_count;
		return meta->root;
	}
}

bool
hm_directory_has_part(HmDirectoryEdit *edit, HmPart part)
{
	uint32		count;
	HmDirectoryEntry *entries = edit_entries(edit, &count);

	/* The first segment of a part begins at its start, so it is here. */
	for (uint32 i = 0; i < count; i++)
	{
		if (entries[i].part == (uint64) part)
			return true;
	}
	return false;
}

/*
 * Whether the directory page after this one holds nothing but the entry of the segment at
 * block.  If so, notes that the page is to be removed with the entry.  Its block is then
 * lost until the next VACUUM.
 */
static bool
next_page_has_only(Relation index, HmDirectoryEdit *edit, BlockNumber block)
{
	HmMeta	   *meta = hm_page_meta(BufferGetPage(edit->meta));
	HmDirectory *directory = hm_page_directory(BufferGetPage(edit->page));
	int			next = entries_search(meta->root, meta->root_count,
									  hm_directory_low(&directory->entries[0]), true) + 1;
	Buffer		buffer;
	bool		result;

	if (next >= (int) meta->root_count)
		return false;
	hm_block_check(index, meta->root[next].block);
	if (meta->root[next].block == BufferGetBlockNumber(edit->page))
		directory_overlap(index, meta->root[next].block);
	buffer = ReadBuffer(index, meta->root[next].block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	hm_directory_check(index, buffer);
	directory = hm_page_directory(BufferGetPage(buffer));
	result = directory->count == 1 && directory->entries[0].block == block;
	UnlockReleaseBuffer(buffer);
	if (result)
		edit->emptied = next;
	return result;
}

bool
hm_directory_leads_to(HmDirectoryEdit *edit, HmPosition low, BlockNumber block, uint64 stamp)
{
	uint32		count;
	HmDirectoryEntry *entries = edit_entries(edit, &count);
	int			i = entries_search(entries, (int) count, low, true);

	return i >= 0 && hm_position_cmp(hm_directory_low(&entries[i]), low) == 0 &&
		entries[i].block == block && entries[i].stamp == (uint32) stamp;
}

bool
hm_directory_has_next(Relation index, HmDirectoryEdit *edit, HmPosition low,
					  BlockNumber block)
{
	uint32		count;
	HmDirectoryEntry *entries = edit_entries(edit, &count);
	int			i = entries_search(entries, (int) count, low, true);

	if (i + 1 < (int) count)
		return entries[i + 1].block == block;
	return BufferIsValid(edit->page) && next_page_has_only(index, edit, block);
}

bool
hm_directory_could_join(Relation index, HmPosition low, BlockNumber block)
{
	HmDirectoryEdit edit;
	bool		result;

	hm_directory_begin(index, low, 0, &edit);
	result = hm_directory_has_next(index, &edit, low, block);
	hm_directory_end(&edit);
	return result;
}

void
hm_directory_apply(HmDirectoryEdit *edit, GenericXLogState *state, int replaced,
				   const HmDirectoryEntry *entries, int count)
{
	HmMeta	   *meta = NULL;
	HmDirectoryEntry *target;
	uint32	   *target_count;
	int			i;
	int			here = replaced;	/* of those, entries on this page */
	bool		leads = false;	/* the entries come before all others */

	if (BufferIsValid(edit->page))
	{
		target = hm_page_directory(BufferGetPage(edit->page))->entries;
		leads = hm_position_cmp(hm_directory_low(&entries[0]), hm_directory_low(&target[0])) < 0;
	}
	if (replaced > 0 || leads || !BufferIsValid(edit->page))
		meta = hm_page_meta(GenericXLogRegisterBuffer(state, edit->meta, 0));
	if (leads)
	{
		/* A directory page begins where the root says. */
		BlockNumber block = meta->root[0].block;

		meta->root[0] = entries[0];
		meta->root[0].block = block;
		meta->root[0].stamp = 0;
	}
	if (replaced > 0)
	{
		meta->retired += (uint64) replaced;
		meta->last_movement = GetCurrentTimestamp();
	}
	if (edit->emptied > 0)
	{
		meta->root_count--;
		memmove(&meta->root[edit->emptied], &meta->root[edit->emptied + 1],
				(meta->root_count - edit->emptied) * sizeof(HmDirectoryEntry));
		here--;
	}

	if (BufferIsValid(edit->page))
	{
		HmDirectory *directory = hm_page_directory(GenericXLogRegisterBuffer(state, edit->page, 0));

		target = directory->entries;
		target_count = &directory->count;
	}
	else
	{
		target = meta->root;
		target_count = &meta->root_count;
	}

	i = entries_search(target, (int) *target_count, hm_directory_low(&entries[0]), true);
	if (replaced == 0)
		i++;
	Assert(replaced == 0 ||
		   (i >= 0 && hm_position_cmp(hm_directory_low(&target[i]), hm_directory_low(&entries[0])) == 0));
	memmove(&target[i + count], &target[i + here],
			(*target_count - i - here) * sizeof(HmDirectoryEntry));
	memcpy(&target[i], entries, count * sizeof(HmDirectoryEntry));
	*target_count += count - here;
}

void
hm_directory_end(HmDirectoryEdit *edit)
{
	if (BufferIsValid(edit->page))
		UnlockReleaseBuffer(edit->page);
	UnlockReleaseBuffer(edit->meta);
}

HmDirectoryEntry *
hm_directory_read(Relation index, int *count, BlockNumber **pages, int *page_count)
{
	Buffer		meta_buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta	   *meta = hm_page_meta(BufferGetPage(meta_buffer));
	HmDirectoryEntry *result;

	*count = 0;
	*page_count = meta->depth == 0 ? 0 : (int) meta->root_count;
	*pages = palloc(Max(1, *page_count) * sizeof(BlockNumber));

	if (meta->depth == 0)
	{
		result = palloc(Max(1, meta->root_count) * sizeof(HmDirectoryEntry));
		memcpy(result, meta->root, meta->root_count * sizeof(HmDirectoryEntry));
		*count = (int) meta->root_count;
	}
	else
	{
		result = palloc((Size) meta->root_count * HM_DIRECTORY_MAX * sizeof(HmDirectoryEntry));
		for (uint32 i = 0; i < meta->root_count; i++)
		{
			Buffer		buffer;
			HmDirectory *directory;

			hm_block_check(index, meta->root[i].block);
			buffer = ReadBuffer(index, meta->root[i].block);
			LockBuffer(buffer, BUFFER_LOCK_SHARE);
			hm_directory_check(index, buffer);
			directory = hm_page_directory(BufferGetPage(buffer));
			memcpy(&result[*count], directory->entries,
				   directory->count * sizeof(HmDirectoryEntry));
			*count += (int) directory->count;
			(*pages)[i] = meta->root[i].block;
			UnlockReleaseBuffer(buffer);
		}
	}
	UnlockReleaseBuffer(meta_buffer);
	return result;
}

HmListedSegment *
hm_directory_list(Relation index, int *count, BlockNumber **pages, int *page_count)
{
	HmDirectoryEntry *entries = hm_directory_read(index, count, pages, page_count);
	HmListedSegment *result = palloc_extended(Max(1, *count) * sizeof(HmListedSegment), MCXT_ALLOC_HUGE);

	for (int i = 0; i < *count; i++)
		result[i] = (HmListedSegment) {entries[i].block, entries[i].stamp};
	pfree(entries);
	return result;
}

HmKey *
hm_directory_keys(Relation index, int *count)
{
	BlockNumber *pages;
	int			page_count,
				segment_count;
	HmDirectoryEntry *segments = hm_directory_read(index, &segment_count, &pages, &page_count);
	HmKey	   *keys = palloc(Max(1, (Size) segment_count) * sizeof(HmKey));

	*count = 0;
	for (int i = 0; i < segment_count; i++)
	{
		if (segments[i].part == HM_PART_KEYS)
			keys[(*count)++] = segments[i].key;
	}
	pfree(segments);
	pfree(pages);
	return keys;
}

#if HM_KEYS == 64
HmListedSegment *
hm_segments_list(Relation index, int *count, BlockNumber **pages, int *page_count)
{
	return HM_FOR_INDEX(index, hm_directory_list)(index, count, pages, page_count);
}

HmKey *
hm_segment_keys(Relation index, int *count)
{
	return HM_FOR_INDEX(index, hm_directory_keys)(index, count);
}
#endif
