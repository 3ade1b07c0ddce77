/*
 * segmentcopy.c
 *		Copies of segments, made to be shown or verified.
 *
 * They show pages as they are.  A damaged segment is copied, too, as far as that is
 * possible without reading beyond its pages.
 */
#include "postgres.h"

#include "am/inspect/segmentcopy.h"

/*
 * Copy a key page or auxiliary node.  The caller holds the header's lock, which protects
 * it.
 * Errors: index_corrupted.
 */
static void
copy_page(Relation index, BlockNumber block, HmPageKind kind, char *to)
{
	Buffer buffer;

	hm_block_exists_check(index, block);
	buffer = ReadBuffer(index, block);
	if (kind == HM_PAGE_AUXILIARY)
		hm_auxiliary_check(index, buffer);
	else
		hm_page_check(index, buffer, kind);
	memcpy(to, BufferGetPage(buffer), BLCKSZ);
	ReleaseBuffer(buffer);
}

HmSegmentCopy *
hm_segment_copy(Relation index, Buffer header, HtWidth width)
{
	HmSegmentCopy *copy = palloc(sizeof(HmSegmentCopy));
	HmSegment *segment;

	hm_segment_check(index, header, width);
	copy->block = BufferGetBlockNumber(header);
	copy->header = palloc(BLCKSZ);
	memcpy(copy->header, BufferGetPage(header), BLCKSZ);
	segment = hm_page_segment(copy->header);

	copy->key_pages = segment->nodes == segment->nodes_here ?
						  0 :
						  (segment->nodes - segment->nodes_here - 1) / segment->nodes_per_page + 1;
	copy->keys = palloc(Max(1, copy->key_pages) * BLCKSZ);
	for (uint32 i = 0; i < copy->key_pages; i++)
		copy_page(index, segment->key_base + i, HM_PAGE_KEYS, copy->keys + (Size) i * BLCKSZ);

	copy->bottom_nodes = segment->nodes - segment->bottom_start;
	copy->auxiliaries = palloc0(copy->bottom_nodes * sizeof(Page));
	for (uint32 i = 0; i < copy->bottom_nodes; i++)
	{
		BlockNumber block = hm_segment_auxiliaries(segment)[i];

		if (!BlockNumberIsValid(block))
			continue;
		copy->auxiliaries[i] = palloc(BLCKSZ);
		copy_page(index, block, HM_PAGE_AUXILIARY, copy->auxiliaries[i]);
	}
	return copy;
}

const char *
hm_segment_copy_node(const HmSegmentCopy *copy, HtWidth width, uint32 node)
{
	uint32 offset;
	uint32 page = hm_node_page(hm_page_segment(copy->header), width, node, &offset);

	return page == 0 ? (char *) copy->header + offset :
					   copy->keys + (Size) (page - 1) * BLCKSZ + offset;
}
