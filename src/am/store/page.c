/*
 * page.c
 *		Page initialisation, and checks that all kinds of pages share.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#include "am/store/store.h"
#include "compat.h"

void
hm_page_init(Page page, HmPageKind kind, uint64 stamp, BlockNumber segment, HmPart part)
{
	HmSpecial *special;

	PageInit(page, BLCKSZ, sizeof(HmSpecial));

	/*
	 * Leave no hole: generic WAL does not log the bytes in it, and replay zeroes them.  A leaf
	 * gets one when it is filled.
	 */
	((PageHeader) page)->pd_lower = ((PageHeader) page)->pd_upper;

	special = hm_page_special(page);
	special->stamp = stamp;
	special->segment = segment;
	special->right = InvalidBlockNumber;
	special->part = (uint8) part;
	special->kind = (uint8) kind;
	special->page_id = HM_PAGE_ID;
}

void
hm_page_withdraw(Page page)
{
	((volatile HmSpecial *) hm_page_special(page))->stamp = 0;
	pg_write_barrier();
}

bool
hm_page_is(Page page, HmPageKind kind)
{
	return !PageIsNew(page) && PageGetSpecialSize(page) == sizeof(HmSpecial) &&
		   hm_page_special(page)->page_id == HM_PAGE_ID && hm_page_special(page)->kind == kind;
}

bool
hm_page_is_segment_of(Page page, uint32 stamp)
{
	return hm_page_is(page, HM_PAGE_SEGMENT) && (uint32) hm_page_segment(page)->stamp == stamp;
}

bool
hm_segment_is_alive(Page page, uint64 stamp)
{
	return hm_page_is(page, HM_PAGE_SEGMENT) && hm_page_segment(page)->stamp == stamp &&
		   !(hm_page_segment(page)->state & HM_SEGMENT_DEAD);
}

bool
hm_segment_is_open(Page page, uint64 stamp)
{
	uint64 word = *(volatile uint64 *) hm_page_segment(page);
	struct
	{
		uint64 stamp : 56, state : 8;
	} first;

	StaticAssertStmt(sizeof(first) == sizeof(word), "stamp and state are not one word");
	memcpy(&first, &word, sizeof(first));
	pg_read_barrier();
	return first.stamp == stamp && first.state == 0 &&
		   ((volatile HmSpecial *) hm_page_special(page))->stamp == stamp;
}

bool
hm_segment_is_alive_for(Page page, uint32 stamp)
{
	return hm_page_is_segment_of(page, stamp) && !(hm_page_segment(page)->state & HM_SEGMENT_DEAD);
}

void
hm_count_check(Relation index, Buffer buffer, uint32 count, uint32 max)
{
	if (count < 1 || count > max)
		hm_report_damage(psprintf("It claims to have %u entries.", count),
						 "index \"%s\" has a damaged page at block %u",
						 RelationGetRelationName(index), BufferGetBlockNumber(buffer));
}

void
hm_page_report_kind(Relation index, Buffer buffer, HmPageKind kind)
{
	hm_report_damage(psprintf("The page is not a harmonia page of kind %d.", (int) kind),
					 "index \"%s\" has an unexpected page at block %u",
					 RelationGetRelationName(index), BufferGetBlockNumber(buffer));
}

void
hm_page_check(Relation index, Buffer buffer, HmPageKind kind)
{
	Assert(kind != HM_PAGE_META);
	if (!hm_page_is(BufferGetPage(buffer), kind))
		hm_page_report_kind(index, buffer, kind);
}
