/*
 * directory.c
 *		The directory: which segment covers a position.  directorychange.c changes it.
 *
 * The root is in the metapage.  At depth 0 its entries are segments.  At depth 1 they are
 * directory pages, the entries of which are segments.  Searches use the backend's copy of
 * the root, however old it is.  A segment's header says which segment it is, what it
 * covers and whether it is alive.  If it is not the segment that the copy refers to, or
 * does not cover the position, the copy is renewed.  Only when the directory says that
 * something does not exist must the copy be fresh.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/fault.h"
#include "am/store/store.h"

/* If a search fails this often, the directory is damaged. */
#define MAX_ATTEMPTS 1000

int
hm_directory_search(const HmDirectoryEntry *entries, int count, HmPosition position, bool equal)
{
	int low = 0, middle, high = count;

	HM_BINARY_SEARCH(low, middle, high,
					 hm_position_cmp(hm_directory_low(&entries[middle]), position) <
						 (equal ? 1 : 0));
	return low - 1;
}

/*
 * Choose an entry.  For HM_AT_OR_AFTER: the one that covers the position or, if its part
 * has none, the next one.  For HM_BEFORE: the last one that begins below the position.
 * Returns -1 if there is none among these.
 */
static int
entries_choose(const HmDirectoryEntry *entries, int count, HmPosition position, HmSearch search)
{
	int i = hm_directory_search(entries, count, position, search == HM_AT_OR_AFTER);

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
	hm_count_check(index, buffer, hm_page_directory(BufferGetPage(buffer))->count,
				   HM_DIRECTORY_MAX);
}

typedef enum LookupResult
{
	LOOKUP_FOUND,
	LOOKUP_NONE, /* there is no such entry */
	LOOKUP_STALE /* a page was not what the copy promised */
} LookupResult;

/* Look the position up, starting from the backend's copy of the root. */
static LookupResult
directory_lookup(Relation index, HmCache *cache, HmPosition position, HmSearch search,
				 HmDirectoryEntry *result)
{
	int i;

	if (cache->depth == 0)
	{
		i = entries_choose(cache->root, cache->root_count, position, search);
		if (i < 0)
			return LOOKUP_NONE;
		*result = cache->root[i];
		return LOOKUP_FOUND;
	}

	i = Max(
		0, hm_directory_search(cache->root, cache->root_count, position, search == HM_AT_OR_AFTER));
	for (; i < (int) cache->root_count; i++)
	{
		LookupResult found = LOOKUP_STALE;
		Buffer buffer;
		Page page;

		hm_block_check(index, cache->root[i].block);
		HM_FAULT(directory_root_searched);
		buffer = ReadBuffer(index, cache->root[i].block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		if (hm_page_is(page, HM_PAGE_DIRECTORY) &&
			hm_page_directory(page)->count <= HM_DIRECTORY_MAX)
		{
			HmDirectory *directory = hm_page_directory(page);
			int j = entries_choose(directory->entries, directory->count, position, search);

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
	HmPart part = (HmPart) hm_page_special(header)->part;
	HmPosition low = {hm_segment_low(header), part};
	HmPosition high = {hm_segment_high(header), part};

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
	Buffer buffer = ReadBuffer(index, HM_METAPAGE_BLKNO);
	HmMeta *meta = hm_page_meta(BufferGetPage(buffer));
	bool same;

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
		bool fresh = attempt > 0 || !hm_cache_is_current(index);
		HmCache *cache = hm_cache(index, fresh);
		HmPosition wanted = *position;
		HmDirectoryEntry entry = {0}; /* gcc does not see that it is read only when found */
		LookupResult found;
		Buffer buffer;
		Page page;

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
				wanted = hm_position((HmPart) entry.part, ht_key_max(cache->width), HT_TID_MAX);
			else
				wanted = hm_directory_low(&entry);
		}

		hm_block_check(index, entry.block);
		buffer = ReadBuffer(index, entry.block);
		LockBuffer(buffer, lock);
		page = BufferGetPage(buffer);
		if (hm_segment_is_alive_for(page, entry.stamp) && segment_covers(page, wanted, search))
		{
			*position = wanted;
			return buffer;
		}
		UnlockReleaseBuffer(buffer);
	}

	hm_report_damage(NULL, "directory of index \"%s\" leads to no segment",
					 RelationGetRelationName(index));
}

HmDirectoryEntry *
hm_directory_read(Relation index, int *count, BlockNumber **pages, int *page_count)
{
	Buffer meta_buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta *meta = hm_page_meta(BufferGetPage(meta_buffer));
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
			Buffer buffer;
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
	HmListedSegment *result =
		palloc_extended(Max(1, *count) * sizeof(HmListedSegment), MCXT_ALLOC_HUGE);

	for (int i = 0; i < *count; i++)
		result[i] = (HmListedSegment){entries[i].block, entries[i].stamp};
	pfree(entries);
	return result;
}

HmKey *
hm_directory_keys(Relation index, int *count)
{
	BlockNumber *pages;
	int page_count, segment_count;
	HmDirectoryEntry *segments = hm_directory_read(index, &segment_count, &pages, &page_count);
	HmKey *keys = palloc(Max(1, (Size) segment_count) * sizeof(HmKey));

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
