/*
 * checkextents.c
 *		harmonia_check() on extents: whether any block belongs to two owners.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/inspect/checkstate.h"

/*
 * Give up after so many attempts if each finds an overlap that is gone at the second
 * look.
 */
#define MAX_ATTEMPTS 100

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
	HmExtent extent;
	OwnerKind kind;
	BlockNumber owner; /* header of a segment */
	uint64 stamp;
} OwnedExtent;

/* ----------------------------------------------------------------
 *		Extents
 * ----------------------------------------------------------------
 */
typedef struct OwnedExtents
{
	int64 count;
	int64 room;
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
	extents->list[extents->count++] = (OwnedExtent){extent, kind, owner, stamp};
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
still_alive(HmCheck *check, const OwnedExtent *extent)
{
	Buffer buffer = ReadBuffer(check->index, extent->owner);
	bool alive;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	alive = hm_segment_is_alive(BufferGetPage(buffer), extent->stamp);
	UnlockReleaseBuffer(buffer);
	return alive;
}

/* Whether any block of an extent is listed as free now. */
static bool
still_free(HmCheck *check, HmExtent extent)
{
	Buffer buffer = hm_meta_buffer(check->index, BUFFER_LOCK_SHARE);
	HmMeta *meta = hm_page_meta(BufferGetPage(buffer));
	bool found = false;

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
both_owned(HmCheck *check, const OwnedExtent *a, const OwnedExtent *b)
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
collect_extents(HmCheck *check, OwnedExtents *extents)
{
	HmDirectoryEntry *segments;
	BlockNumber *pages;
	int segment_count, page_count;
	Buffer buffer;
	HmMeta *meta;

	segments = hm_directory_read(check->index, &segment_count, &pages, &page_count);
	extents->count = 0;
	extents->room = 64;
	extents->list = palloc(extents->room * sizeof(OwnedExtent));
	add_extent(extents, (HmExtent){HM_METAPAGE_BLKNO, 1}, OWNER_META, HM_METAPAGE_BLKNO, 0);
	for (int i = 0; i < page_count; i++)
		add_extent(extents, (HmExtent){pages[i], 1}, OWNER_DIRECTORY, pages[i], 0);

	for (int i = 0; i < segment_count; i++)
	{
		HmSegment *segment;

		CHECK_FOR_INTERRUPTS();
		hm_check_block(check, HM_METAPAGE_BLKNO, "segment", segments[i].block);
		buffer = ReadBuffer(check->index, segments[i].block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		segment = hm_page_segment(BufferGetPage(buffer));
		/* Skip a segment that has been replaced; it was alive when it was verified. */
		if (hm_segment_is_alive_for(BufferGetPage(buffer), segments[i].stamp))
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

void
hm_check_extents(HmCheck *check)
{
	for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++)
	{
		OwnedExtents extents;
		bool again = false;

		collect_extents(check, &extents);
		qsort(extents.list, extents.count, sizeof(OwnedExtent), owned_extent_cmp);
		for (int64 i = 1; i < extents.count; i++)
		{
			OwnedExtent *a = &extents.list[i - 1];
			OwnedExtent *b = &extents.list[i];

			if (!overlap(a->extent, b->extent))
				continue;
			if (both_owned(check, a, b))
				hm_corrupt(check, b->extent.start, "the block belongs to %s and to %s",
						   show_owner(a), show_owner(b));
			again = true;
		}
		pfree(extents.list);
		if (!again)
			return;
	}
	ereport(NOTICE, (errmsg("extents of index \"%s\" change too fast to be verified",
							RelationGetRelationName(check->index))));
}
