/*
 * segment.c
 *		Segments: their layout on pages, and building one.
 *
 * Harmonia, PPoPP 2019, section 3: the key region holds the inner nodes in breadth-first
 * order; the child region holds the number of each node's first child.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "am/fault.h"
#include "am/store/store.h"
#include "compat.h"

/*
 * Compute the shape of a segment with room for so many leaves.  It has a root even over a
 * single leaf, so that the leaf can be split.
 */
static void
segment_shape(HtShape *shape, HtWidth width, int fanout, uint32 leaf_room)
{
	ht_shape_init(shape, width, fanout, Max(leaf_room, 2));
}

/* The byte offset on the header page at which the key region begins. */
static uint32
key_region_offset(const HtShape *shape)
{
	return TYPEALIGN(64, HM_DIRECTORY_AT + offsetof(HmSegment, child_region) +
							 (shape->nodes + ht_shape_bottom_nodes(shape)) * sizeof(uint32));
}

static uint32
nodes_on_header(const HtShape *shape)
{
	return Min(shape->nodes, (HT_PAGE_END - key_region_offset(shape)) /
								 ht_node_size(shape->width, shape->fanout));
}

static uint32
nodes_on_key_page(HtWidth width, int fanout)
{
	return (HT_PAGE_END - HM_KEYS_AT) / ht_node_size(width, fanout);
}

uint32
hm_segment_blocks(HtWidth width, int fanout, uint32 leaf_room)
{
	HtShape shape;
	uint32 per_page = nodes_on_key_page(width, fanout);

	segment_shape(&shape, width, fanout, leaf_room);
	return 1 + (shape.nodes - nodes_on_header(&shape) + per_page - 1) / per_page + leaf_room;
}

uint32
hm_segment_room(HtWidth width, int fanout, uint32 blocks)
{
	uint32 room = blocks - 1;

	while (room > 1 && hm_segment_blocks(width, fanout, room) > blocks)
		room--;
	return room;
}

void
hm_segment_separator(const HmSegment *segment, uint32 leaf, uint32 *node, int *separator)
{
	uint32 fanout = segment->fanout;
	uint32 number = leaf;
	uint32 level_nodes = segment->nodes - segment->bottom_start;
	uint32 level_start = segment->bottom_start;

	/* Find the lowest ancestor of which the leaf is not in the first subtree. */
	while (number % fanout == 0)
	{
		number /= fanout;
		level_nodes = (level_nodes + fanout - 1) / fanout;
		level_start -= level_nodes;
	}
	*separator = (int) (number % fanout) - 1;
	*node = level_start + number / fanout;
}

uint32
hm_node_page(const HmSegment *segment, HtWidth width, uint32 node, uint32 *offset)
{
	uint32 size = (uint32) ht_node_size(width, segment->fanout);

	if (node < segment->nodes_here)
	{
		*offset = segment->key_region_at + node * size;
		return 0;
	}
	node -= segment->nodes_here;
	*offset = HM_KEYS_AT + node % segment->nodes_per_page * size;
	return 1 + node / segment->nodes_per_page;
}

void
hm_segment_layout(const HmSegmentSpec *spec, char *image)
{
	HtShape shape;
	HmSegment *segment;
	uint32 *first_child;
	BlockNumber *auxiliaries;

	segment_shape(&shape, spec->width, spec->fanout, spec->leaf_room);
	hm_page_init((Page) image, HM_PAGE_SEGMENT, spec->stamp, spec->start, spec->part);

	segment = hm_page_segment((Page) image);
	segment->stamp = spec->stamp;
	segment->fanout = (uint16) spec->fanout;
	segment->levels = (uint16) shape.levels;
	segment->nodes = shape.nodes;
	segment->bottom_start = shape.level_start[shape.levels - 1];
	segment->leaf_room = spec->leaf_room;
	segment->pure_leaves = spec->leaves;
	segment->leaves = spec->leaves;
	segment->key_region_at = key_region_offset(&shape);
	segment->nodes_here = nodes_on_header(&shape);
	segment->nodes_per_page = nodes_on_key_page(spec->width, spec->fanout);
	segment->key_base = spec->start + 1;
	segment->extent_count = 1;
	segment->extents[0].start = spec->start;
	segment->extents[0].length = hm_segment_blocks(spec->width, spec->fanout, spec->leaf_room);
	segment->leaf_base = spec->start + segment->extents[0].length - spec->leaf_room;

	/* A level's children are contiguous, so each node's first child is a prefix sum. */
	first_child = segment->child_region;
	for (int level = 0; level < shape.levels; level++)
	{
		for (uint32 i = shape.level_start[level]; i < shape.level_start[level + 1]; i++)
			*first_child++ = shape.level_start[level + 1] +
							 (i - shape.level_start[level]) * (uint32) spec->fanout;
	}
	auxiliaries = hm_segment_auxiliaries(segment);
	for (uint32 i = 0; i < ht_shape_bottom_nodes(&shape); i++)
		auxiliaries[i] = InvalidBlockNumber;

	for (BlockNumber block = segment->key_base; block < segment->leaf_base; block++)
		hm_page_init((Page) (image + (Size) (block - spec->start) * BLCKSZ), HM_PAGE_KEYS,
					 spec->stamp, spec->start, spec->part);
	for (uint32 node = 0; node < shape.nodes; node++)
	{
		uint32 offset;
		uint32 page = hm_node_page(segment, spec->width, node, &offset);

		ht_node_init(image + (Size) page * BLCKSZ + offset, spec->width, spec->fanout);
	}
}

void
hm_segment_write(Relation index, BlockNumber start, const char *image, uint32 pages)
{
	for (uint32 i = 0; i < pages; i++)
	{
		Buffer buffer;

		CHECK_FOR_INTERRUPTS();
		HM_FAULT(segment_page_begun);
		buffer = ReadBufferExtended(index, MAIN_FORKNUM, start + i, RBM_ZERO_AND_LOCK, NULL);
		START_CRIT_SECTION();
		hm_page_withdraw(BufferGetPage(buffer));
		hm_page_write(index, buffer, image + (Size) i * BLCKSZ);
		HM_FAULT(segment_page_logged);
		END_CRIT_SECTION();
		UnlockReleaseBuffer(buffer);
	}
}

/*
 * These are the numbers that readers and writers of the segment rely on so that they
 * neither leave a page nor loop for ever.
 */
void
hm_segment_check(Relation index, Buffer header, HtWidth width)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(header));
	uint32 bottom_nodes = segment->nodes - segment->bottom_start;
	uint32 size;

	if (segment->fanout >= HT_MIN_FANOUT && segment->fanout <= HT_MAX_FANOUT &&
		segment->nodes <= HM_SEGMENT_MAX_BLOCKS && segment->bottom_start < segment->nodes &&
		segment->key_region_at <= HT_PAGE_END &&
		(char *) (segment->child_region + segment->nodes + bottom_nodes) <=
			(char *) BufferGetPage(header) + segment->key_region_at &&
		segment->nodes_here <= segment->nodes && segment->nodes_per_page > 0 &&
		segment->nodes_per_page <= HT_PAGE_END &&
		segment->key_base == BufferGetBlockNumber(header) + 1 &&
		segment->extents[0].start == BufferGetBlockNumber(header) &&
		segment->leaf_base >= segment->key_base &&
		segment->leaf_base - segment->extents[0].start < HM_SEGMENT_MAX_BLOCKS &&
		segment->leaf_base - segment->extents[0].start + segment->leaf_room ==
			segment->extents[0].length &&
		segment->leaf_room <= bottom_nodes * segment->fanout && segment->pure_leaves > 0 &&
		segment->pure_leaves <= segment->leaf_room &&
		segment->tail_used <= segment->leaf_room - segment->pure_leaves &&
		segment->extent_count > 0 && segment->extent_count <= HM_SEGMENT_MAX_EXTENTS)
	{
		size = (uint32) ht_node_size(width, segment->fanout);
		if (segment->key_region_at + segment->nodes_here * size <= HT_PAGE_END &&
			HM_KEYS_AT + segment->nodes_per_page * size <= HT_PAGE_END &&
			(segment->extent_count == 1 ||
			 segment->spare_used <= segment->extents[segment->extent_count - 1].length))
			return;
	}

	hm_report_damage(NULL, "index \"%s\" has a damaged segment header at block %u",
					 RelationGetRelationName(index), BufferGetBlockNumber(header));
}
