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

#include "am/format.h"
#include "lookup/remote.h"

/* The segment being listed. */
typedef struct Listing
{
	Relation	index;
	HtWidth		width;
	Buffer		header;
	HmSegment  *segment;
	Buffer		key_page;		/* the one read last, or invalid */
	uint32		key_page_number;
	HmLeafList *list;
} Listing;

static void
add_leaf(HmLeafList *list, HtEntry low, BlockNumber block, uint64 stamp)
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
	leaf->low = low;
	leaf->block = block;
	leaf->stamp = stamp;
}

/* Read a node of the key region.  The header's lock protects key pages. */
static const char *
node_bytes(Listing *listing, uint32 node)
{
	uint32		offset;
	uint32		number = hm_node_page(listing->segment, listing->width, node, &offset);

	if (number == 0)
		return (const char *) BufferGetPage(listing->header) + offset;
	if (!BufferIsValid(listing->key_page) || listing->key_page_number != number)
	{
		if (BufferIsValid(listing->key_page))
			ReleaseBuffer(listing->key_page);
		listing->key_page = hm_pin(listing->index, listing->segment->key_base + number - 1);
		listing->key_page_number = number;
		hm_page_check(listing->index, listing->key_page, HM_PAGE_KEYS);
	}
	return (const char *) BufferGetPage(listing->key_page) + offset;
}

/* The low bound of the leaf with a number. */
static HtEntry
leaf_low(Listing *listing, uint32 number)
{
	uint32		node;
	int			slot;

	if (number == 0)
		return listing->segment->low;
	hm_segment_separator(listing->segment, number, &node, &slot);
	return ht_node_get(node_bytes(listing, node), listing->width,
					   listing->segment->fanout, slot);
}

/* List the children of an auxiliary node.  The first one has the node's low bound. */
static void
list_auxiliary(Listing *listing, BlockNumber block, HtEntry low)
{
	Buffer		buffer;
	HmAuxiliary *auxiliary;

	hm_block_check(listing->index, block);
	buffer = hm_pin(listing->index, block);
	hm_page_check(listing->index, buffer, HM_PAGE_AUXILIARY);
	auxiliary = hm_page_auxiliary(BufferGetPage(buffer));
	for (uint32 i = 0; i < auxiliary->count; i++)
	{
		if (i > 0)
			low = hm_auxiliary_low(auxiliary, (int) i);
		hm_block_check(listing->index, auxiliary->children[i]);
		add_leaf(listing->list, low, auxiliary->children[i], listing->segment->stamp);
	}
	ReleaseBuffer(buffer);
}

/* List all leaves of a segment, whose header is locked. */
static void
list_segment(Listing *listing)
{
	HmSegment  *segment = listing->segment;
	uint32		bottom_nodes = segment->nodes - segment->bottom_start;

	for (uint32 i = 0; i < bottom_nodes; i++)
	{
		uint32		first = i * segment->fanout;
		uint32		end = Min(first + segment->fanout, segment->pure_leaves);
		BlockNumber auxiliary = hm_segment_auxiliaries(segment)[i];

		if (first >= segment->pure_leaves)
			break;
		if (BlockNumberIsValid(auxiliary))
		{
			list_auxiliary(listing, auxiliary, leaf_low(listing, first));
			continue;
		}
		for (uint32 leaf = first; leaf < end; leaf++)
			add_leaf(listing->list, leaf_low(listing, leaf), segment->leaf_base + leaf,
					 segment->stamp);
	}
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
		Listing		listing = {index, width};

		if (segments[i].part != HM_PART_KEYS)
			continue;
		CHECK_FOR_INTERRUPTS();
		hm_block_check(index, segments[i].block);
		listing.list = list;
		listing.header = hm_pin(index, segments[i].block);
		LockBuffer(listing.header, BUFFER_LOCK_SHARE);
		listing.segment = hm_page_segment(BufferGetPage(listing.header));
		stable = hm_segment_is_alive_for(BufferGetPage(listing.header), &segments[i]);
		if (stable)
		{
			hm_segment_check(index, listing.header, width);
			list_segment(&listing);
		}
		if (BufferIsValid(listing.key_page))
			ReleaseBuffer(listing.key_page);
		UnlockReleaseBuffer(listing.header);
	}
	pfree(segments);
	pfree(pages);
	return stable;
}
