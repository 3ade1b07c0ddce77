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
PG_FUNCTION_INFO_V1(harmonia_segments);
PG_FUNCTION_INFO_V1(harmonia_nodes);
PG_FUNCTION_INFO_V1(harmonia_leaves);
PG_FUNCTION_INFO_V1(harmonia_leaf_items);
PG_FUNCTION_INFO_V1(harmonia_page);
PG_FUNCTION_INFO_V1(harmonia_index_info);

/* The index that a function's first argument names, if its pages can be shown. */
static Relation
open_argument(FunctionCallInfo fcinfo)
{
	Relation	index = hm_inspect_open(PG_GETARG_OID(0), AccessShareLock);

	hm_inspect_check_valid(index);
	if (index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED && RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access unlogged index \"%s\" during recovery",
						RelationGetRelationName(index))));
	return index;
}

/* harmonia_metapage(index regclass) */
Datum
harmonia_metapage(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);
	Buffer		buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta		meta = *hm_page_meta(BufferGetPage(buffer));
	HmRow		row = {0};

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
	hm_show_text(&row, psprintf("%08X%08X", (uint32) (meta.build_id >> 32), (uint32) meta.build_id));
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(hm_return_row(fcinfo, &row));
}

/* harmonia_segments(index regclass) */
Datum
harmonia_segments(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);

	return HM_FOR_INDEX(index, hm_show_segments)(fcinfo, index);
}

/* harmonia_nodes(index regclass, segment_block bigint) */
Datum
harmonia_nodes(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);

	return HM_FOR_INDEX(index, hm_show_nodes)(fcinfo, index);
}

/* harmonia_leaves(index regclass, segment_block bigint) */
Datum
harmonia_leaves(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);

	return HM_FOR_INDEX(index, hm_show_leaves)(fcinfo, index);
}

/* harmonia_leaf_items(index regclass, block bigint) */
Datum
harmonia_leaf_items(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);

	return HM_FOR_INDEX(index, hm_show_leaf_items)(fcinfo, index);
}

/* harmonia_page(index regclass, block bigint) */
Datum
harmonia_page(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);

	return HM_FOR_INDEX(index, hm_show_page)(fcinfo, index);
}

/* harmonia_index_info(index regclass) */
Datum
harmonia_index_info(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);

	return HM_FOR_INDEX(index, hm_show_index_info)(fcinfo, index);
}
