/*
 * leaves.c
 *		The list of an index's leaves, for the device, and what is new in it.
 *
 * The whole list is read from the inner nodes, one segment at a time under its header's lock.
 * It shows one state of the index only if the structure has not changed while it was
 * read; the caller checks that.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/width.h"

#include "am/reader.h"
#include "device/leaves.h"
#include "lookup/lookup.h"

/* A bound as lists have it. */
static inline HtEntry128
listed_bound(HtEntry bound)
{
	HtEntry128 result = {bound.key, bound.tid};

	return result;
}

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
	leaf->low = listed_bound(from->low);
	leaf->block = from->block;
	leaf->stamp = stamp;
}

/* List all leaves of a segment, whose header is locked. */
static void
list_segment(Relation index, Buffer header, HtWidth width, HmLeafList *list)
{
	uint64 stamp = hm_page_segment(BufferGetPage(header))->stamp;
	HmReader reader;
	HmReaderLeaf leaf;

	hm_reader_begin(&reader, index, header, width, hm_pin);
	while (hm_reader_next_leaf(&reader, &leaf))
		add_leaf(list, &leaf, stamp);
	hm_reader_end(&reader);
}

static void
read_directory(Relation index, HmReadDirectory *directory)
{
	BlockNumber *pages;
	int page_count;

	directory->segments = hm_directory_read(index, &directory->count, &pages, &page_count);
	pfree(pages);
}

static bool
list_leaves(Relation index, HtWidth width, HmLeafList *list)
{
	HmReadDirectory directory;
	const HmDirectoryEntry *segments;
	bool stable = true;

	read_directory(index, &directory);
	segments = directory.segments;
	list->count = 0;
	for (int i = 0; i < directory.count && stable; i++)
	{
		Buffer header;

		if (segments[i].part != HM_PART_KEYS)
			continue;
		CHECK_FOR_INTERRUPTS();
		hm_block_check(index, segments[i].block);
		header = hm_pin(index, segments[i].block);
		LockBuffer(header, BUFFER_LOCK_SHARE);
		stable = hm_segment_is_alive_for(BufferGetPage(header), segments[i].stamp);
		if (stable)
			list_segment(index, header, width, list);
		UnlockReleaseBuffer(header);
	}
	pfree(directory.segments);
	return stable;
}

/* ----------------------------------------------------------------
 *		New leaves
 * ----------------------------------------------------------------
 */

static void
note_leaf(HmNotedLeaves *list, Buffer buffer)
{
	Page page = BufferGetPage(buffer);
	const HmSpecial *special = hm_page_special(page);
	HmNotedLeaf *leaf;

	if (!hm_page_is(page, HM_PAGE_LEAF) || special->part != HM_PART_KEYS)
		return;
	if (list->count == list->room)
	{
		list->room = Max(64, list->room * 2);
		list->leaves = list->leaves == NULL ?
						   palloc_extended(list->room * sizeof(HmNotedLeaf), MCXT_ALLOC_HUGE) :
						   repalloc_huge(list->leaves, list->room * sizeof(HmNotedLeaf));
	}
	leaf = &list->leaves[list->count];
	leaf->low = listed_bound(hm_leaf_low(page));
	leaf->high = listed_bound(hm_leaf_high(page));
	leaf->has_high = hm_page_has_high(page);
	leaf->block = BufferGetBlockNumber(buffer);
	leaf->segment = special->segment;
	leaf->stamp = special->stamp;
	leaf->number = list->count++;
}

/* Whether the directory leads to a leaf's segment at the leaf's low bound. */
static bool
is_in_directory(const HmNotedLeaf *leaf, const HmReadDirectory *directory)
{
	const HmDirectoryEntry *segments = directory->segments;
	HmPosition low = hm_position(HM_PART_KEYS, (HT_KEY) leaf->low.key, leaf->low.tid);
	int first = 0, /* of the segments that begin above it */
		middle, end = directory->count;

	HM_BINARY_SEARCH(first, middle, end,
					 hm_position_cmp(hm_directory_low(&segments[middle]), low) <= 0);
	return first > 0 && segments[first - 1].part == HM_PART_KEYS &&
		   segments[first - 1].block == leaf->segment &&
		   segments[first - 1].stamp == (uint32) leaf->stamp;
}

/* In key order, then in the order in which they were noted. */
static int
compare_noted(const void *a, const void *b)
{
	const HmNotedLeaf *left = *(const HmNotedLeaf *const *) a;
	const HmNotedLeaf *right = *(const HmNotedLeaf *const *) b;
	int cmp = ht_entry_cmp_128(left->low, right->low);

	return cmp != 0 ? cmp : left->number < right->number ? -1 : 1;
}

static int64
write_new_leaves(const HmNotedLeaves *list, const HmReadDirectory *directory, HpNewLeaf *out)
{
	const HmNotedLeaf **alive =
		palloc_extended(Max(1, list->count) * sizeof(HmNotedLeaf *), MCXT_ALLOC_HUGE);
	uint32 n = 0;
	int64 written = 0;

	for (uint32 i = 0; i < list->count; i++)
	{
		if (is_in_directory(&list->leaves[i], directory))
			alive[n++] = &list->leaves[i];
	}
	qsort(alive, n, sizeof(alive[0]), compare_noted);
	for (uint32 i = 0; i < n && written >= 0; i++)
	{
		const HmNotedLeaf *leaf = alive[i];
		const HmNotedLeaf *next = i + 1 < n ? alive[i + 1] : NULL;

		if (next != NULL && ht_entry_cmp_128(leaf->low, next->low) == 0)
			continue;
		if (next != NULL && (!leaf->has_high || ht_entry_cmp_128(next->low, leaf->high) < 0))
		{
			written = -1;
			break;
		}
		out[written].low = hm_sent_bound(leaf->low);
		out[written].high = hm_sent_bound(leaf->high);
		out[written].block = leaf->block;
		out[written].is_last = !leaf->has_high;
		written++;
	}
	pfree(alive);
	return written;
}

const HmLeafMethods hm_leaf_methods = {.list = list_leaves,
									   .note = note_leaf,
									   .read_directory = read_directory,
									   .write_new = write_new_leaves};
