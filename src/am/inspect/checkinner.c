/*
 * checkinner.c
 *		harmonia_check() on the inner nodes of a segment, of which there is a copy.
 *
 * reader.c is not used: it stops at the first number that it cannot follow, and trusts the
 * others.  Here each number is judged, and the report says which one is wrong.
 */
#include "postgres.h"

#include "am/inspect/checkstate.h"

/*
 * Check the key region: the separators that numbered leaves use ascend within a node, and
 * all others have the value of unused ones.
 */
static void
check_nodes(HmCheck *check)
{
	HmSegment *segment = hm_page_segment(check->copy->header);
	int separators = check->fanout - 1;
	bool *used = palloc0((Size) segment->nodes * separators);

	for (uint32 leaf = 1; leaf < segment->pure_leaves; leaf++)
	{
		uint32 node;
		int separator;

		hm_segment_separator(segment, leaf, &node, &separator);
		used[node * separators + separator] = true;
	}

	for (uint32 node = 0; node < segment->nodes; node++)
	{
		const char *bytes = hm_segment_copy_node(check->copy, check->width, node);
		HtEntry before = {0, 0};
		uint32 offset;
		uint32 page = hm_node_page(segment, check->width, node, &offset);
		BlockNumber block = page == 0 ? check->block : segment->key_base + page - 1;

		for (int i = 0; i < separators; i++)
		{
			HtEntry entry = ht_node_get(bytes, check->width, check->fanout, i);

			if (!used[node * separators + i])
			{
				if (entry.key != ht_key_max(check->width) || entry.tid != HT_TID_MAX)
					hm_corrupt(check, block, "separator %d of node %u is %s, but leads to no leaf",
							   i, node,
							   hm_show_position(hm_position(check->part, entry.key, entry.tid)));
				continue;
			}
			if (i > 0 && ht_entry_cmp(before, entry) >= 0)
				hm_corrupt(check, block, "separator %d of node %u, %s, is not above the one before",
						   i, node,
						   hm_show_position(hm_position(check->part, entry.key, entry.tid)));
			before = entry;
		}
	}
	pfree(used);
}

/* Add a leaf to those that the inner nodes lead to; "from" is the block that says so. */
static void
expect_leaf(HmCheck *check, BlockNumber from, BlockNumber block, HmPosition low)
{
	HmSegment *segment = hm_page_segment(check->copy->header);

	if (check->leaf_count == segment->leaves)
		hm_corrupt(check, check->block, "inner nodes lead to more than the segment's %u leaves",
				   segment->leaves);
	hm_check_bound(check, from, "the bound of a leaf", low);
	if (check->leaf_count == 0)
	{
		if (!same_position(low, check->low))
			hm_corrupt(check, from, "the first leaf begins at %s, the segment at %s",
					   hm_show_position(low), hm_show_position(check->low));
	}
	else if (hm_position_cmp(check->leaves[check->leaf_count - 1].low, low) >= 0)
		hm_corrupt(
			check, from,
			"the leaf at block %u begins at %s, not above %s, where the one before it begins",
			block, hm_show_position(low),
			hm_show_position(check->leaves[check->leaf_count - 1].low));
	if (hm_position_cmp(low, check->high) >= 0)
		hm_corrupt(check, from, "the leaf at block %u begins at %s, but its segment ends before %s",
				   block, hm_show_position(low), hm_show_position(check->high));
	check->leaves[check->leaf_count].block = block;
	check->leaves[check->leaf_count].low = low;
	check->leaf_count++;
}

/*
 * The low bound of a numbered leaf: its separator or, for the first one, the segment's
 * bound.
 */
static HmPosition
pure_leaf_low(HmCheck *check, uint32 leaf)
{
	uint32 node;
	int separator;
	HtEntry low;

	if (leaf == 0)
		return check->low;
	hm_segment_separator(hm_page_segment(check->copy->header), leaf, &node, &separator);
	low = ht_node_get(hm_segment_copy_node(check->copy, check->width, node), check->width,
					  check->fanout, separator);
	return hm_position(check->part, low.key, low.tid);
}

/*
 * The blocks of an extent that splits have taken: the last ones of the main extent, the
 * first ones of any other.
 */
static HmExtent
taken_blocks(const HmSegment *segment, uint32 i)
{
	if (i == 0)
		return (HmExtent){segment->leaf_base + segment->leaf_room - segment->tail_used,
						  segment->tail_used};
	return (HmExtent){segment->extents[i].start, i == segment->extent_count - 1 ?
													 segment->spare_used :
													 segment->extents[i].length};
}

/* The number of the extent from which a split has taken the block; -1 if there is none. */
static int
extent_of_taken(const HmSegment *segment, BlockNumber block)
{
	for (uint32 i = 0; i < segment->extent_count; i++)
	{
		HmExtent taken = taken_blocks(segment, i);

		if (block >= taken.start && block - taken.start < taken.length)
			return (int) i;
	}
	return -1;
}

/*
 * Check a child of an auxiliary node, in case it is a numbered leaf: it must be a child
 * of the shadowed bottom node, and begin at its separator, which splits do not change.
 */
static void
check_numbered_child(HmCheck *check, BlockNumber block, uint32 node, BlockNumber child,
					 HmPosition low)
{
	HmSegment *segment = hm_page_segment(check->copy->header);
	uint32 leaf = child - segment->leaf_base;

	if (child < segment->leaf_base || leaf >= segment->pure_leaves)
		return;
	if (leaf / segment->fanout != node - segment->bottom_start)
		hm_corrupt(check, block,
				   "leaf %u is a child of node %u, but has the number of another node's child",
				   leaf, node);
	if (!same_position(low, pure_leaf_low(check, leaf)))
		hm_corrupt(check, block, "leaf %u begins at %s, but its separator is %s", leaf,
				   hm_show_position(low), hm_show_position(pure_leaf_low(check, leaf)));
}

/* Check the auxiliary node of a bottom node, whose first numbered leaf is "first". */
static void
check_auxiliary(HmCheck *check, uint32 node, uint32 first)
{
	HmSegment *segment = hm_page_segment(check->copy->header);
	uint32 bottom = node - segment->bottom_start;
	BlockNumber block = hm_segment_auxiliaries(segment)[bottom];
	Page page = check->copy->auxiliaries[bottom];
	HmAuxiliary *auxiliary = hm_page_auxiliary(page);

	hm_check_page(check, block, page, HM_PAGE_AUXILIARY);
	if (first >= segment->pure_leaves)
		hm_corrupt(check, check->block, "node %u is shadowed, but has no leaf", node);
	if (auxiliary->node != node)
		hm_corrupt(check, block, "the auxiliary node stands in for node %u, not %u",
				   auxiliary->node, node);
	for (uint32 i = 0; i < auxiliary->count; i++)
	{
		HmPosition low;

		if (i == 0)
			low = pure_leaf_low(check, first);
		else
		{
			HtEntry bound = hm_auxiliary_low(auxiliary, i);

			low = hm_position(check->part, bound.key, bound.tid);
		}
		check_numbered_child(check, block, node, auxiliary->children[i], low);
		expect_leaf(check, block, auxiliary->children[i], low);
	}
}

static int
block_cmp(const void *a, const void *b)
{
	BlockNumber left = *(const BlockNumber *) a;
	BlockNumber right = *(const BlockNumber *) b;

	return left < right ? -1 : left > right ? 1 : 0;
}

/*
 * Check that all blocks that splits have taken are in use; otherwise they never would be.
 * The last block of an extent may be left over when the next extent is added, because a
 * split may need two blocks.
 */
static void
check_taken(HmCheck *check, const uint32 *in_use)
{
	HmSegment *segment = hm_page_segment(check->copy->header);

	for (uint32 i = 0; i < segment->extent_count; i++)
	{
		uint32 taken = taken_blocks(segment, i).length;
		bool between = i > 0 && i < segment->extent_count - 1;

		if (in_use[i] != taken && !(between && in_use[i] + 1 == taken))
			hm_corrupt(check, check->block, "splits use %u blocks of extent %u, must be %u",
					   in_use[i], i, taken);
	}
}

/*
 * Check that each leaf and auxiliary node has a block of its own, in one of the segment's
 * extents.
 */
static void
check_blocks_used(HmCheck *check)
{
	uint32 in_use[HM_SEGMENT_MAX_EXTENTS] = {0};
	HmSegment *segment = hm_page_segment(check->copy->header);
	BlockNumber *blocks =
		palloc((check->leaf_count + check->copy->bottom_nodes) * sizeof(BlockNumber));
	uint32 count = 0;
	uint32 pure = 0;
	uint32 auxiliaries = 0;

	for (uint32 i = 0; i < check->leaf_count; i++)
	{
		BlockNumber block = check->leaves[i].block;

		if (block >= segment->leaf_base && block - segment->leaf_base < segment->pure_leaves)
			pure++;
		else
		{
			int extent = extent_of_taken(segment, block);

			if (extent < 0)
				hm_corrupt(check, check->block,
						   "the leaf at block %u is outside the segment's blocks in use", block);
			in_use[extent]++;
		}
		blocks[count++] = block;
	}
	for (uint32 i = 0; i < check->copy->bottom_nodes; i++)
	{
		BlockNumber block = hm_segment_auxiliaries(segment)[i];
		int extent;

		if (!BlockNumberIsValid(block))
			continue;
		auxiliaries++;
		extent = extent_of_taken(segment, block);
		if (extent < 0)
			hm_corrupt(check, check->block,
					   "the auxiliary node at block %u is outside the segment's blocks in use",
					   block);
		in_use[extent]++;
		blocks[count++] = block;
	}
	if (auxiliaries != segment->auxiliaries)
		hm_corrupt(check, check->block,
				   "the segment has %u auxiliary nodes, but its header counts %u", auxiliaries,
				   segment->auxiliaries);

	qsort(blocks, count, sizeof(BlockNumber), block_cmp);
	for (uint32 i = 1; i < count; i++)
	{
		if (blocks[i - 1] == blocks[i])
			hm_corrupt(check, check->block, "two inner nodes refer to block %u", blocks[i]);
	}
	if (pure != segment->pure_leaves)
		hm_corrupt(check, check->block, "inner nodes lead to %u of %u numbered leaves", pure,
				   segment->pure_leaves);
	check_taken(check, in_use);
	pfree(blocks);
}

void
hm_check_inner(HmCheck *check)
{
	HmSegment *segment = hm_page_segment(check->copy->header);

	for (uint32 i = 0; i < check->copy->key_pages; i++)
		hm_check_page(check, segment->key_base + i, (Page) (check->copy->keys + (Size) i * BLCKSZ),
					  HM_PAGE_KEYS);
	check_nodes(check);

	if (segment->leaves < segment->pure_leaves ||
		segment->leaves > segment->pure_leaves + check->copy->bottom_nodes * HM_AUXILIARY_MAX)
		hm_corrupt(check, check->block, "the header counts %u leaves, which is out of range",
				   segment->leaves);
	check->leaf_count = 0;
	check->leaves = palloc(segment->leaves * sizeof(HmExpectedLeaf));
	for (uint32 i = 0; i < check->copy->bottom_nodes; i++)
	{
		uint32 node = segment->bottom_start + i;
		uint32 first = segment->child_region[node] - segment->nodes;

		if (check->copy->auxiliaries[i] != NULL)
			check_auxiliary(check, node, first);
		else
		{
			for (uint32 leaf = first; leaf < first + check->fanout && leaf < segment->pure_leaves;
				 leaf++)
				expect_leaf(check, check->block, segment->leaf_base + leaf,
							pure_leaf_low(check, leaf));
		}
	}
	if (check->leaf_count != segment->leaves)
		hm_corrupt(check, check->block, "inner nodes lead to %u leaves, but the header counts %u",
				   check->leaf_count, segment->leaves);
	check_blocks_used(check);
}
