/*
 * reader.c
 *		Reading the inner nodes of a segment.
 *
 * Harmonia, PPoPP 2019, section 3: child i of node n has the number child_region[n] + i
 * (Equation 1), where nodes are numbered breadth-first and leaves follow after them.
 */
#include "postgres.h"

#include "am/store/store.h"
#include "am/reader.h"

void
hm_reader_begin(HmReader *reader, Relation index, Buffer header, HtWidth width, HmPinFunction pin)
{
	hm_segment_check(index, header, width);
	reader->index = index;
	reader->width = width;
	reader->header = header;
	reader->segment = hm_page_segment(BufferGetPage(header));
	reader->pin = pin;
	reader->key_page = InvalidBuffer;
	reader->auxiliary_page = InvalidBuffer;
	reader->bottom = 0;
	reader->child = 0;
}

static void
release(Buffer *buffer)
{
	if (BufferIsValid(*buffer))
		ReleaseBuffer(*buffer);
	*buffer = InvalidBuffer;
}

void
hm_reader_end(HmReader *reader)
{
	release(&reader->key_page);
	release(&reader->auxiliary_page);
}

/*
 * Check that the segment can have a leaf or an auxiliary node at a block.  It can be
 * neither the header, which the caller has locked already, nor the metapage, nor P_NEW.
 * Errors: index_corrupted.
 */
static void
check_own_block(Relation index, Buffer header, BlockNumber block)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(header));

	if (block >= segment->leaf_base && block - segment->leaf_base < segment->leaf_room)
		return;
	if (block != BufferGetBlockNumber(header) && block != HM_METAPAGE_BLKNO &&
		BlockNumberIsValid(block))
	{
		for (uint32 i = 1; i < segment->extent_count; i++)
		{
			if (block >= segment->extents[i].start &&
				block - segment->extents[i].start < segment->extents[i].length)
				return;
		}
	}
	hm_report_damage(NULL,
					 "segment at block %u of index \"%s\" refers to block %u, which is not its own",
					 BufferGetBlockNumber(header), RelationGetRelationName(index), block);
}

const char *
hm_reader_node(HmReader *reader, uint32 node)
{
	HmSegment *segment = reader->segment;
	uint32 offset;
	uint32 number = hm_node_page(segment, reader->width, node, &offset);

	if (number == 0)
		return (const char *) BufferGetPage(reader->header) + offset;
	if (!BufferIsValid(reader->key_page) || reader->key_page_number != number)
	{
		if (node >= segment->nodes || number > segment->leaf_base - segment->key_base)
			hm_report_damage(NULL, "segment at block %u of index \"%s\" has no node %u",
							 BufferGetBlockNumber(reader->header),
							 RelationGetRelationName(reader->index), node);
		release(&reader->key_page);
		reader->key_page = reader->pin(reader->index, segment->key_base + number - 1);
		reader->key_page_number = number;
		hm_page_check(reader->index, reader->key_page, HM_PAGE_KEYS);
	}
	return (const char *) BufferGetPage(reader->key_page) + offset;
}

HmAuxiliary *
hm_reader_auxiliary(HmReader *reader, uint32 node)
{
	HmSegment *segment = reader->segment;
	BlockNumber block = hm_segment_auxiliaries(segment)[node - segment->bottom_start];

	release(&reader->auxiliary_page);
	if (!BlockNumberIsValid(block))
		return NULL;
	check_own_block(reader->index, reader->header, block);
	reader->auxiliary_page = reader->pin(reader->index, block);
	hm_auxiliary_check(reader->index, reader->auxiliary_page);
	return hm_page_auxiliary(BufferGetPage(reader->auxiliary_page));
}

/* Unused separators have the maximum position. */
int
hm_reader_search(const HmReader *reader, const char *node, HtEntry entry, bool before,
				 HtEntry *upper, bool *bounded)
{
	int fanout = reader->segment->fanout;
	int child = before ? ht_node_count_lt(node, reader->width, fanout, entry) :
						 ht_node_count_le(node, reader->width, fanout, entry);

	if (upper != NULL && child < fanout - 1)
	{
		HtEntry separator = ht_node_get(node, reader->width, fanout, child);

		if (separator.tid != HT_TID_MAX)
		{
			*upper = separator;
			*bounded = true;
		}
	}
	return child;
}

/* Report that a node's children are not where they should be. */
static void
report_child(HmReader *reader, uint32 node, uint32 child)
{
	hm_report_damage(psprintf("It has %u inner nodes and %u leaves that follow them.",
							  reader->segment->nodes, reader->segment->pure_leaves),
					 "segment at block %u of index \"%s\" has child %u below node %u",
					 BufferGetBlockNumber(reader->header), RelationGetRelationName(reader->index),
					 child, node);
}

uint32
hm_reader_bottom(HmReader *reader, HtEntry entry, bool before, HtEntry *upper, bool *bounded)
{
	HmSegment *segment = reader->segment;
	uint32 node = 0;

	while (node < segment->bottom_start)
	{
		uint32 child =
			segment->child_region[node] +
			hm_reader_search(reader, hm_reader_node(reader, node), entry, before, upper, bounded);

		if (child <= node || child >= segment->nodes)
			report_child(reader, node, child);
		node = child;
	}
	return node;
}

BlockNumber
hm_reader_child(HmReader *reader, uint32 node, int i)
{
	HmSegment *segment = reader->segment;
	uint32 child = segment->child_region[node] + i;

	if (child < segment->nodes || child - segment->nodes >= segment->pure_leaves)
		report_child(reader, node, child);
	return segment->leaf_base + (child - segment->nodes);
}

Buffer
hm_segment_descend(Relation index, Buffer header, HtWidth width, HtEntry entry, bool before,
				   BufferAccessStrategy strategy)
{
	HmReader reader;
	HmAuxiliary *auxiliary;
	BlockNumber block;
	uint32 node;

	hm_reader_begin(&reader, index, header, width, ReadBuffer);

	/*
	 * Unused separators have the greatest position.  A backward scan from the end asks
	 * for exactly that position; no entry has it.
	 */
	if (entry.tid == HT_TID_MAX)
		before = true;

	node = hm_reader_bottom(&reader, entry, before, NULL, NULL);
	auxiliary = hm_reader_auxiliary(&reader, node);
	if (auxiliary != NULL)
	{
		block = auxiliary->children[hm_auxiliary_child(auxiliary, entry, before)];
		check_own_block(index, header, block);
	}
	else
		block = hm_reader_child(
			&reader, node,
			hm_reader_search(&reader, hm_reader_node(&reader, node), entry, before, NULL, NULL));
	hm_reader_end(&reader);
	return ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
}

Buffer
hm_segment_leaf(Relation index, Buffer header, HtWidth width, HtEntry entry, bool before, int lock,
				BufferAccessStrategy strategy)
{
	Buffer leaf = hm_segment_descend(index, header, width, entry, before, strategy);

	LockBuffer(leaf, lock);
	hm_page_check(index, leaf, HM_PAGE_LEAF);
	return leaf;
}

/* The low bound of a numbered leaf. */
static HtEntry
leaf_low(HmReader *reader, uint32 number)
{
	uint32 node;
	int separator;

	if (number == 0)
		return hm_segment_low(BufferGetPage(reader->header));
	hm_segment_separator(reader->segment, number, &node, &separator);
	return ht_node_get(hm_reader_node(reader, node), reader->width, reader->segment->fanout,
					   separator);
}

/*
 * Leaf numbers are computed from the bottom node's number, so that a damaged prefix sum
 * does no harm.
 */
bool
hm_reader_next_leaf(HmReader *reader, HmReaderLeaf *leaf)
{
	HmSegment *segment = reader->segment;
	uint32 node = segment->bottom_start + reader->bottom;
	uint32 first = reader->bottom * segment->fanout;
	HmAuxiliary *auxiliary;
	uint32 children;

	if (node >= segment->nodes || first >= segment->pure_leaves)
		return false;

	/* The auxiliary node stays pinned from one of its leaves to the next. */
	if (reader->child == 0)
		(void) hm_reader_auxiliary(reader, node);
	auxiliary = BufferIsValid(reader->auxiliary_page) ?
					hm_page_auxiliary(BufferGetPage(reader->auxiliary_page)) :
					NULL;
	if (auxiliary != NULL)
	{
		leaf->number = -1;
		leaf->auxiliary = BufferGetBlockNumber(reader->auxiliary_page);
		leaf->block = auxiliary->children[reader->child];
		leaf->low = reader->child == 0 ? leaf_low(reader, first) :
										 hm_auxiliary_low(auxiliary, (int) reader->child);
		check_own_block(reader->index, reader->header, leaf->block);
		children = auxiliary->count;
	}
	else
	{
		leaf->number = first + reader->child;
		leaf->auxiliary = InvalidBlockNumber;
		leaf->block = segment->leaf_base + first + reader->child;
		leaf->low = leaf_low(reader, first + reader->child);
		children = Min(segment->fanout, segment->pure_leaves - first);
	}
	if (++reader->child == children)
	{
		reader->bottom++;
		reader->child = 0;
	}
	return true;
}
