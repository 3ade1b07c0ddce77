/*
 * leaves.c
 *		The list of an index's leaves, for the device.
 *
 * The list is read from the inner nodes, one segment at a time under its header's lock.
 * It shows one state of the index only if the structure has not changed while it was
 * read; the caller checks that.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/reader.h"
#include "lookup/remote.h"

static void
add_leaf(HmLeafList *list, const HmReaderLeaf *from, uint64 stamp)
{
	HmListedLeaf *leaf;

	if (list->count == list->room)
	{
		list->room = Max(1024, list->room * 2);
		list->leaves = list->leaves == NULL ?
			palloc_extended(list->room * sizeof(HmListedLeaf), MCXT_ALLOC_HUGE) :
			repalloc_huge(list->leaves, list->room * sizeof(HmListedLeaf));
	}
	leaf = &list->leaves[list->count++];
	leaf->low = from->low;
	leaf->block = from->block;
	leaf->stamp = stamp;
}

/* List all leaves of a segment, whose header is locked. */
static void
list_segment(Relation index, Buffer header, HtWidth width, HmLeafList *list)
{
	uint64		stamp = hm_page_segment(BufferGetPage(header))->stamp;
	HmReader	reader;
	HmReaderLeaf leaf;

	hm_reader_begin(&reader, index, header, width, hm_pin);
	while (hm_reader_next_leaf(&reader, &leaf))
		add_leaf(list, &leaf, stamp);
	hm_reader_end(&reader);
}

bool
hm_leaves_list(Relation index, HtWidth width, HmLeafList *list)
{
	int			segment_count,
				page_count;
	BlockNumber *pages;
	HmDirectoryEntry *segments = hm_directory_read(index, &segment_count, &pages, &page_count);
	bool		stable = true;

	list->count = 0;
	for (int i = 0; i < segment_count && stable; i++)
	{
		Buffer		header;

		if (segments[i].part != HM_PART_KEYS)
			continue;
		CHECK_FOR_INTERRUPTS();
		hm_block_check(index, segments[i].block);
		header = hm_pin(index, segments[i].block);
		LockBuffer(header, BUFFER_LOCK_SHARE);
		stable = hm_segment_is_alive_for(BufferGetPage(header), &segments[i]);
		if (stable)
			list_segment(index, header, width, list);
		UnlockReleaseBuffer(header);
	}
	pfree(segments);
	pfree(pages);
	return stable;
}
