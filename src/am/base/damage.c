/*
 * damage.c
 *		Reporting a damaged index, and the checks that keep damage from spreading.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "storage/bufmgr.h"

#include "am/format.h"

void
hm_report_damage(const char *detail, const char *format, ...)
{
	StringInfoData message;
	va_list args;

	initStringInfo(&message);
	for (;;)
	{
		int needed;

		va_start(args, format);
		needed = appendStringInfoVA(&message, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&message, needed);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED), errmsg_internal("%s", message.data),
			 detail != NULL ? errdetail_internal("%s", detail) : 0, errhint("Please REINDEX it.")));
}

void
hm_block_check(Relation index, BlockNumber block)
{
	if (block == HM_METAPAGE_BLKNO || !BlockNumberIsValid(block))
		hm_report_damage(NULL, "a page of index \"%s\" refers to block %u",
						 RelationGetRelationName(index), block);
}

void
hm_block_exists_check(Relation index, BlockNumber block)
{
	if (block >= RelationGetNumberOfBlocks(index))
		hm_report_damage(NULL, "index \"%s\" refers to block %u, which does not exist",
						 RelationGetRelationName(index), block);
}

void
hm_tid_report(Relation index, uint64 packed)
{
	hm_report_damage("No table can have a row there.",
					 "an entry of index \"%s\" refers to row (%u,%u)",
					 RelationGetRelationName(index), (BlockNumber) (packed >> 16), (uint16) packed);
}

void
hm_page_no_progress(Relation index, Buffer buffer)
{
	hm_report_damage(NULL, "search of index \"%s\" makes no progress at block %u",
					 RelationGetRelationName(index), BufferGetBlockNumber(buffer));
}
