/*
 * segmentimage.c
 *		What holds keys in a segment: laying it out in memory, and its auxiliary nodes.
 *
 * segment.c has the rest of the layout.
 */
#include "postgres.h"

#include "am/store/store.h"

uint32
hm_segment_image(const HmSegmentSpec *spec, HtEntry low, HtEntry high, const HmLeafPlan *plan,
				 const HtEntry *entries, char *image)
{
	HmSegment *segment = hm_page_segment((Page) image);

	Assert(spec->leaves >= 1 && spec->leaves <= spec->leaf_room);

	hm_segment_layout(spec, image);
	hm_segment_set_low((Page) image, low);
	if (spec->has_high)
		hm_segment_set_high((Page) image, high);
	for (uint32 leaf = 0; leaf < spec->leaves; leaf++)
	{
		BlockNumber block = segment->leaf_base + leaf;
		Page page = (Page) (image + (Size) (block - spec->start) * BLCKSZ);
		bool last = leaf == spec->leaves - 1;

		hm_page_init(page, HM_PAGE_LEAF, spec->stamp, spec->start, spec->part);
		hm_leaf_fill(page, plan[leaf].shape, entries, plan[leaf].count);
		entries += plan[leaf].count;

		hm_leaf_set_low(page, low);
		if (!last)
			hm_leaf_set_high(page, entries[0]);
		else if (spec->has_high)
			hm_leaf_set_high(page, high);
		if (!last)
			hm_page_special(page)->right = block + 1;

		if (leaf > 0)
		{
			uint32 node, offset, key_page;
			int separator;

			hm_segment_separator(segment, leaf, &node, &separator);
			key_page = hm_node_page(segment, spec->width, node, &offset);
			ht_node_set(image + (Size) key_page * BLCKSZ + offset, spec->width, spec->fanout,
						separator, low);
		}
		low = hm_leaf_high(page);
	}
	return segment->leaf_base - spec->start + spec->leaves;
}

HmDirectoryEntry
hm_segment_entry(const HmSegmentSpec *spec, HtEntry low)
{
	HmDirectoryEntry entry;

	memset(&entry, 0, sizeof(entry));
	entry.key = low.key;
	entry.tid = low.tid;
	entry.part = (uint64) spec->part;
	entry.block = spec->start;
	entry.stamp = (uint32) spec->stamp;
	return entry;
}

void
hm_auxiliary_check(Relation index, Buffer buffer)
{
	hm_page_check(index, buffer, HM_PAGE_AUXILIARY);
	hm_count_check(index, buffer, hm_page_auxiliary(BufferGetPage(buffer))->count,
				   HM_AUXILIARY_MAX);
}

int
hm_auxiliary_child(const HmAuxiliary *auxiliary, HtEntry entry, bool before)
{
	int low = 1, middle, high = (int) auxiliary->count;

	/*
	 * Count the children whose low bound is not above (with "before", is below) the
	 * entry.
	 */
	HM_BINARY_SEARCH(low, middle, high,
					 ht_entry_cmp(hm_auxiliary_low(auxiliary, middle), entry) < (before ? 0 : 1));
	return low - 1;
}

void
hm_auxiliary_set(HmAuxiliary *auxiliary, int i, HtEntry low, BlockNumber child)
{
	auxiliary->keys[i] = low.key;
	auxiliary->tids[i][0] = (uint16) (low.tid >> 32);
	auxiliary->tids[i][1] = (uint16) (low.tid >> 16);
	auxiliary->tids[i][2] = (uint16) low.tid;
	auxiliary->children[i] = child;
}
