/*
 * checkpage.c
 *		What the other files of a verification check of every page and every bound.
 */
#include "postgres.h"

#include "am/inspect/checkstate.h"

const char *
hm_show_position(HmPosition position)
{
	if (position.part != HM_PART_KEYS)
		return psprintf("(null, (%u,%u))", (uint32) (position.entry.tid >> 16),
						(uint16) position.entry.tid);
	return psprintf("(%s, (%u,%u))", hm_show_key(position.entry.key),
					(uint32) (position.entry.tid >> 16), (uint16) position.entry.tid);
}

void
hm_check_block(HmCheck *check, BlockNumber from, const char *what, BlockNumber block)
{
	if (block == HM_METAPAGE_BLKNO || block >= RelationGetNumberOfBlocks(check->index))
		hm_corrupt(
			check, from,
			"it refers to block %u as %s, but the index has %u blocks and block 0 is its metapage",
			block, what, RelationGetNumberOfBlocks(check->index));
}

void
hm_check_page(HmCheck *check, BlockNumber block, Page page, HmPageKind kind)
{
	static const char *const names[] = {
		"",         "metapage",       "directory page", "segment header",
		"key page", "auxiliary node", "leaf",           "spare page"};
	HmSpecial *special;

	if (PageIsNew(page))
		hm_corrupt(check, block, "the page is empty instead of a %s", names[kind]);
	if (!hm_page_is(page, kind))
		hm_corrupt(check, block, "the page is not a %s", names[kind]);
	if (kind != HM_PAGE_LEAF && ((PageHeader) page)->pd_lower != ((PageHeader) page)->pd_upper)
		hm_corrupt(check, block, "the page has a hole from %u to %u", ((PageHeader) page)->pd_lower,
				   ((PageHeader) page)->pd_upper);

	if (kind == HM_PAGE_META || kind == HM_PAGE_DIRECTORY)
		return;
	special = hm_page_special(page);
	if (special->stamp != check->stamp)
		hm_corrupt(check, block,
				   "the page has stamp " UINT64_FORMAT
				   ", its segment at block %u has " UINT64_FORMAT,
				   special->stamp, check->block, check->stamp);
	if (special->segment != check->block)
		hm_corrupt(check, block, "the page belongs to the segment at block %u, not %u",
				   special->segment, check->block);
	if (special->part != check->part)
		hm_corrupt(check, block, "the page is of part %u, its segment of part %u", special->part,
				   check->part);
	if ((special->flags & ~HM_HAS_HIGH) != 0)
		hm_corrupt(check, block, "the page has unknown flags 0x%02X", special->flags);
}

void
hm_check_bound(HmCheck *check, BlockNumber block, const char *what, HmPosition bound)
{
	if (bound.part != HM_PART_KEYS &&
		bound.part != (check->nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH))
		hm_corrupt(check, block, "%s is in part %d, which the index does not have", what,
				   (int) bound.part);
	if (bound.entry.key > ht_key_max(check->width) ||
		(bound.part != HM_PART_KEYS && bound.entry.key != 0))
		hm_corrupt(check, block, "%s has key %s, which is out of range", what,
				   hm_show_key(bound.entry.key));
	if (bound.entry.tid > HT_TID_MAX)
		hm_corrupt(check, block, "%s has TID " UINT64_FORMAT ", which is out of range", what,
				   bound.entry.tid);
}
