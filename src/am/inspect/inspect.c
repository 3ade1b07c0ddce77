/*
 * inspect.c
 *		SQL functions that show what an index consists of.
 *
 * They show pages as they are.  They also show a damaged index, as far as that is
 * possible without reading beyond its pages; check.c finds the damage.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "fmgr.h"

#include "am/inspect/inspect.h"

PG_FUNCTION_INFO_V1(harmonia_metapage);

/* The index that a function's first argument names, if its pages can be shown. */
static Relation
open_argument(FunctionCallInfo fcinfo)
{
	Relation index = hm_inspect_open(PG_GETARG_OID(0), AccessShareLock);

	hm_inspect_check_valid(index);
	if (index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED && RecoveryInProgress())
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot access unlogged index \"%s\" during recovery",
							   RelationGetRelationName(index))));
	return index;
}

/* harmonia_metapage(index regclass) */
Datum
harmonia_metapage(PG_FUNCTION_ARGS)
{
	Relation index = open_argument(fcinfo);
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta meta = *hm_page_meta(BufferGetPage(buffer));
	HmRow row = {0};

	UnlockReleaseBuffer(buffer);
	hm_show_number(&row, meta.version);
	hm_show_number(&row, meta.block_size);
	hm_show_number(&row, meta.key_type);
	hm_show_number(&row, meta.width * 8);
	hm_show_number(&row, meta.fanout);
	hm_show_text(&row, meta.nulls_low ? "low" : "high");
	hm_show_number(&row, meta.depth);
	hm_show_number(&row, meta.root_count);
	hm_show_number(&row, meta.free_count);
	hm_show_number(&row, meta.next_stamp);
	hm_show_number(&row, meta.retired);
	hm_show_number(&row, meta.drained);
	hm_show_text(&row,
				 psprintf("%08X%08X", (uint32) (meta.build_id >> 32), (uint32) meta.build_id));
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(hm_return_row(fcinfo, &row));
}

/*
 * The other functions: their first argument is the index, which the code for its width shows and
 * closes.
 */
#define SHOW_FUNCTION(name) \
	PG_FUNCTION_INFO_V1(harmonia_##name); \
	Datum harmonia_##name(PG_FUNCTION_ARGS) \
	{ \
		Relation index = open_argument(fcinfo); \
		return HM_FOR_INDEX(index, hm_show_##name)(fcinfo, index); \
	} \
	extern int no_such_variable

SHOW_FUNCTION(segments);   /* (index regclass) */
SHOW_FUNCTION(nodes);      /* (index regclass, segment_block bigint) */
SHOW_FUNCTION(leaves);     /* (index regclass, segment_block bigint) */
SHOW_FUNCTION(leaf_items); /* (index regclass, block bigint) */
SHOW_FUNCTION(page);       /* (index regclass, block bigint) */
SHOW_FUNCTION(index_info); /* (index regclass) */
