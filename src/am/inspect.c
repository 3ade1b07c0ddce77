/*
 * inspect.c
 *		SQL functions that show what an index consists of.
 *
 * They show pages as they are.  They also show a damaged index, as far as that is
 * possible without reading beyond its pages; check.c finds the damage.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "am/inspect.h"
#include "am/internal.h"
#include "compat.h"

PG_FUNCTION_INFO_V1(harmonia_metapage);
PG_FUNCTION_INFO_V1(harmonia_segments);
PG_FUNCTION_INFO_V1(harmonia_nodes);
PG_FUNCTION_INFO_V1(harmonia_leaves);
PG_FUNCTION_INFO_V1(harmonia_leaf_items);
PG_FUNCTION_INFO_V1(harmonia_page);
PG_FUNCTION_INFO_V1(harmonia_index_info);

/* A leaf, as the inner nodes refer to it. */
typedef struct ListedLeaf
{
	BlockNumber block;
	int64		number;			/* leaf number; -1 for an auxiliary node's child */
	BlockNumber auxiliary;		/* block of that node, or InvalidBlockNumber */
} ListedLeaf;

/* ----------------------------------------------------------------
 *		What check.c and reorganize.c use too
 * ----------------------------------------------------------------
 */

/* Errors: wrong_object_type, unless the relation is an index of this method. */
static void
check_is_ours(Relation relation)
{
	char		kind = relation->rd_rel->relkind;

	if (kind != RELKIND_INDEX && kind != RELKIND_PARTITIONED_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an index", RelationGetRelationName(relation))));
	if (kind == RELKIND_PARTITIONED_INDEX || relation->rd_indam->ambuild != hm_build)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a %s index",
						RelationGetRelationName(relation), "harmonia"),
				 kind != RELKIND_PARTITIONED_INDEX ? 0 :
				 errdetail("It is a partitioned index, which has no pages."),
				 kind != RELKIND_PARTITIONED_INDEX ? 0 :
				 errhint("Name the index of a partition.")));
}

Relation
hm_inspect_open(Oid oid, LOCKMODE mode)
{
	Relation	index = try_relation_open(oid, mode);

	/*
	 * The index existed when its name was looked up, but this may have waited for the
	 * lock.
	 */
	if (index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("index with OID %u does not exist", oid),
				 errdetail("It may have been dropped, or replaced by REINDEX CONCURRENTLY.")));
	check_is_ours(index);
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions"),
				 errdetail("Index \"%s\" belongs to a temporary table.",
						   RelationGetRelationName(index))));
	return index;
}

void
hm_inspect_check_valid(Relation index)
{
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", RelationGetRelationName(index)),
				 errdetail("A concurrent build or removal of it is under way, or has failed."),
				 errhint("If no session is working on it, REINDEX it or drop it.")));
}

Relation
hm_inspect_open_with_table(Oid oid, LOCKMODE mode, Relation *table)
{
	Oid			table_oid = IndexGetRelation(oid, true);
	Relation	index;

	*table = OidIsValid(table_oid) ? try_table_open(table_oid, mode) : NULL;
	index = hm_inspect_open(oid, mode);

	/* The OID may have been used again before the locks were taken. */
	if (*table == NULL || index->rd_index->indrelid != table_oid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open parent table of index \"%s\"",
						RelationGetRelationName(index))));
	return index;
}

/*
 * Copy a key page or auxiliary node.  The caller holds the header's lock, which protects
 * it.
 * Errors: index_corrupted.
 */
static void
copy_page(Relation index, BlockNumber block, HmPageKind kind, char *to)
{
	Buffer		buffer;

	if (block >= RelationGetNumberOfBlocks(index))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" refers to block %u, which does not exist",
						RelationGetRelationName(index), block),
				 errhint("Please REINDEX it.")));
	buffer = ReadBuffer(index, block);
	hm_page_check(index, buffer, kind);
	memcpy(to, BufferGetPage(buffer), BLCKSZ);
	ReleaseBuffer(buffer);
}

HmSegmentCopy *
hm_segment_copy(Relation index, Buffer header, HtWidth width)
{
	HmSegmentCopy *copy = palloc(sizeof(HmSegmentCopy));
	HmSegment  *segment;

	hm_segment_check(index, header, width);
	copy->block = BufferGetBlockNumber(header);
	copy->header = palloc(BLCKSZ);
	memcpy(copy->header, BufferGetPage(header), BLCKSZ);
	segment = hm_page_segment(copy->header);

	copy->key_pages = segment->nodes == segment->nodes_here ? 0 :
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
hm_copy_node(const HmSegmentCopy *copy, HtWidth width, uint32 node)
{
	uint32		offset;
	uint32		page = hm_node_page(hm_page_segment(copy->header), width, node, &offset);

	return page == 0 ? (char *) copy->header + offset :
		copy->keys + (Size) (page - 1) * BLCKSZ + offset;
}

/* ----------------------------------------------------------------
 *		Reading
 * ----------------------------------------------------------------
 */

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

/* Read the block that a function's second argument names, locked in share mode. */
static Buffer
read_argument(FunctionCallInfo fcinfo, Relation index)
{
	int64		block = PG_GETARG_INT64(1);
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	Buffer		buffer;

	if (block < 0 || block >= (int64) blocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block number " INT64_FORMAT " is out of range for index \"%s\"",
						block, RelationGetRelationName(index)),
				 errdetail("The index has %u blocks.", blocks)));
	buffer = ReadBuffer(index, (BlockNumber) block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	return buffer;
}

/* The same for a block that must be a page of this kind. */
static Buffer
read_argument_of_kind(FunctionCallInfo fcinfo, Relation index, HmPageKind kind)
{
	Buffer		buffer = read_argument(fcinfo, index);

	if (!hm_page_is(BufferGetPage(buffer), kind))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block %u of index \"%s\" is not a %s",
						BufferGetBlockNumber(buffer), RelationGetRelationName(index),
						kind == HM_PAGE_LEAF ? "leaf" : "segment header"),
				 kind == HM_PAGE_LEAF ?
				 errhint("harmonia_leaves() shows a segment's leaves.") :
				 errhint("harmonia_segments() shows an index's segments.")));
	return buffer;
}

/* Copy the segment that a function's second argument names. */
static HmSegmentCopy *
copy_argument(FunctionCallInfo fcinfo, Relation index, HtWidth width)
{
	Buffer		header = read_argument_of_kind(fcinfo, index, HM_PAGE_SEGMENT);
	HmSegmentCopy *copy = hm_segment_copy(index, header, width);

	UnlockReleaseBuffer(header);
	return copy;
}

/* List the leaves of a copied segment, in key order; palloc'd. */
static ListedLeaf *
list_leaves(const HmSegmentCopy *copy, uint32 *count)
{
	HmSegment  *segment = hm_page_segment(copy->header);
	uint32		room = segment->pure_leaves;
	ListedLeaf *leaves;

	for (uint32 i = 0; i < copy->bottom_nodes; i++)
	{
		if (copy->auxiliaries[i] != NULL)
			room += hm_page_auxiliary(copy->auxiliaries[i])->count;
	}
	leaves = palloc(room * sizeof(ListedLeaf));
	*count = 0;

	/*
	 * Compute leaf numbers from the bottom node's number, so that a damaged prefix sum
	 * does no harm.
	 */
	for (uint32 i = 0; i < copy->bottom_nodes; i++)
	{
		if (copy->auxiliaries[i] != NULL)
		{
			HmAuxiliary *auxiliary = hm_page_auxiliary(copy->auxiliaries[i]);

			for (uint32 j = 0; j < auxiliary->count; j++)
				leaves[(*count)++] = (ListedLeaf)
			{
				auxiliary->children[j], -1, hm_segment_auxiliaries(segment)[i]
			};
			continue;
		}
		for (uint32 j = i * segment->fanout;
			 j < (i + 1) * segment->fanout && j < segment->pure_leaves; j++)
			leaves[(*count)++] = (ListedLeaf)
		{
			segment->leaf_base + j, j, InvalidBlockNumber
		};
	}
	return leaves;
}

/*
 * Copy a leaf, and check that it is one.
 * Errors: index_corrupted.
 */
static void
copy_leaf(Relation index, BlockNumber block, Page to, BufferAccessStrategy strategy)
{
	Buffer		buffer;

	if (block >= RelationGetNumberOfBlocks(index))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" refers to block %u, which does not exist",
						RelationGetRelationName(index), block),
				 errhint("Please REINDEX it.")));
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	hm_page_check(index, buffer, HM_PAGE_LEAF);
	memcpy(to, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/* ----------------------------------------------------------------
 *		Making rows: each column is made from text
 * ----------------------------------------------------------------
 */
#define MAX_COLUMNS	24

typedef struct Row
{
	int			count;
	char	   *values[MAX_COLUMNS];
} Row;

static void
show_null(Row *row)
{
	Assert(row->count < MAX_COLUMNS);
	row->values[row->count++] = NULL;
}

static void
show_text(Row *row, const char *value)
{
	Assert(row->count < MAX_COLUMNS);
	row->values[row->count++] = pstrdup(value);
}

static void
show_number(Row *row, uint64 value)
{
	Assert(row->count < MAX_COLUMNS);
	row->values[row->count++] = psprintf(UINT64_FORMAT, value);
}

static void
show_block(Row *row, BlockNumber block)
{
	if (BlockNumberIsValid(block))
		show_number(row, block);
	else
		show_null(row);
}

static void
append_tid(StringInfo to, uint64 tid)
{
	appendStringInfo(to, "(%u,%u)", (uint32) (tid >> 16), (uint16) tid);
}

static void
show_tid(Row *row, uint64 tid)
{
	StringInfoData text;

	initStringInfo(&text);
	append_tid(&text, tid);
	show_text(row, text.data);
}

/* A time, as text that does not depend on DateStyle; NULL for 0. */
static void
show_time(Row *row, TimestampTz time)
{
	if (time != 0)
		show_text(row, JsonEncodeDateTime(NULL, TimestampTzGetDatum(time), TIMESTAMPTZOID, NULL));
	else
		show_null(row);
}

/* A bound, as two columns; both are NULL if it does not exist. */
static void
show_bound(Row *row, bool exists, HtEntry bound)
{
	if (exists)
	{
		show_number(row, bound.key);
		show_tid(row, bound.tid);
	}
	else
	{
		show_null(row);
		show_null(row);
	}
}

static void
show_part(Row *row, uint32 part)
{
	switch (part)
	{
		case HM_PART_KEYS:
			show_text(row, "keys");
			break;
		case HM_PART_NULLS_LOW:
		case HM_PART_NULLS_HIGH:
			show_text(row, "nulls");
			break;
		default:
			show_null(row);
	}
}

/* The result of a function that returns one row. */
static Datum
return_row(FunctionCallInfo fcinfo, Row *row)
{
	TupleDesc	descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	Assert(descriptor->natts == row->count);
	return HeapTupleGetDatum(BuildTupleFromCStrings(TupleDescGetAttInMetadata(descriptor),
													row->values));
}

/*
 * The rows of a function that returns many.  The text of a row is freed when it has been
 * added.
 */
typedef struct RowSink
{
	ReturnSetInfo *result;
	AttInMetadata *input;
	MemoryContext context;
} RowSink;

static void
begin_rows(FunctionCallInfo fcinfo, RowSink *sink)
{
	InitMaterializedSRF(fcinfo, 0);
	sink->result = (ReturnSetInfo *) fcinfo->resultinfo;
	sink->input = TupleDescGetAttInMetadata(sink->result->setDesc);
	sink->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia rows",
										  ALLOCSET_DEFAULT_SIZES);
}

static void
add_row(RowSink *sink, Row *row)
{
	Assert(sink->result->setDesc->natts == row->count);
	tuplestore_puttuple(sink->result->setResult,
						BuildTupleFromCStrings(sink->input, row->values));
	MemoryContextReset(sink->context);
}

/* ----------------------------------------------------------------
 *		The functions
 * ----------------------------------------------------------------
 */

/* harmonia_metapage(index regclass) */
Datum
harmonia_metapage(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);
	Buffer		buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta		meta = *hm_page_meta(BufferGetPage(buffer));
	Row			row = {0};

	UnlockReleaseBuffer(buffer);
	show_number(&row, meta.version);
	show_number(&row, meta.block_size);
	show_number(&row, meta.key_type);
	show_number(&row, meta.width * 8);
	show_number(&row, meta.fanout);
	show_text(&row, meta.nulls_low ? "low" : "high");
	show_number(&row, meta.depth);
	show_number(&row, meta.root_count);
	show_number(&row, meta.free_count);
	show_number(&row, meta.next_stamp);
	show_number(&row, meta.retired);
	show_number(&row, meta.drained);
	show_text(&row, psprintf("%08X%08X", (uint32) (meta.build_id >> 32), (uint32) meta.build_id));
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(return_row(fcinfo, &row));
}

/* Add the columns of one segment to a row of harmonia_segments(). */
static void
show_segment(Row *row, int64 number, BlockNumber block, Page page)
{
	HmSegment  *segment = hm_page_segment(page);
	uint32		extents = Min(segment->extent_count, HM_SEGMENT_MAX_EXTENTS);
	StringInfoData text;

	show_number(row, number);
	show_number(row, block);
	show_part(row, hm_page_special(page)->part);
	show_bound(row, true, segment->low);
	show_bound(row, hm_page_has_high(page), segment->high);
	show_number(row, segment->leaves);
	show_number(row, segment->pure_leaves);
	show_number(row, segment->leaf_room);
	show_number(row, segment->auxiliaries);
	show_number(row, segment->levels);
	show_number(row, segment->nodes);
	show_number(row, segment->fanout);

	initStringInfo(&text);
	appendStringInfoChar(&text, '{');
	for (uint32 i = 0; i < extents; i++)
		appendStringInfo(&text, "%s[" INT64_FORMAT "," INT64_FORMAT ")", i > 0 ? "," : "",
						 (int64) segment->extents[i].start,
						 (int64) segment->extents[i].start + segment->extents[i].length);
	appendStringInfoChar(&text, '}');
	show_text(row, text.data);
	show_text(row, segment->state & HM_SEGMENT_DEAD ? "dead" :
			  segment->state & HM_SEGMENT_MOVING ? "moving" : "live");
	show_number(row, segment->stamp);
}

/* harmonia_segments(index regclass) */
Datum
harmonia_segments(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);
	RowSink		sink;
	HmDirectoryEntry *segments;
	BlockNumber *pages;
	int			segment_count,
				page_count;
	PGAlignedBlock page;
	MemoryContext old_context;

	begin_rows(fcinfo, &sink);
	segments = hm_directory_read(index, &segment_count, &pages, &page_count);
	old_context = MemoryContextSwitchTo(sink.context);
	for (int i = 0; i < segment_count; i++)
	{
		Buffer		buffer = ReadBuffer(index, segments[i].block);
		Row			row = {0};

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		/* Skip a segment that has been replaced: its blocks may have another use now. */
		if (!hm_page_is_segment_of(BufferGetPage(buffer), &segments[i]))
		{
			UnlockReleaseBuffer(buffer);
			continue;
		}
		memcpy(page.data, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
		show_segment(&row, i, segments[i].block, (Page) page.data);
		add_row(&sink, &row);
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* The used separators of a node, as two columns: an array of keys and one of TIDs. */
static void
show_separators(Row *row, const char *node, HtWidth width, int fanout)
{
	StringInfoData keys;
	StringInfoData tids;

	initStringInfo(&keys);
	initStringInfo(&tids);
	for (int i = 0; i < fanout - 1; i++)
	{
		HtEntry		entry = ht_node_get(node, width, fanout, i);

		if (entry.key == ht_key_max(width) && entry.tid == HT_TID_MAX)
			break;
		appendStringInfo(&keys, "%s" UINT64_FORMAT, i > 0 ? "," : "{", entry.key);
		appendStringInfoString(&tids, i > 0 ? ",\"" : "{\"");
		append_tid(&tids, entry.tid);
		appendStringInfoChar(&tids, '"');
	}
	appendStringInfoString(&keys, keys.len > 0 ? "}" : "{}");
	appendStringInfoString(&tids, tids.len > 0 ? "}" : "{}");
	show_text(row, keys.data);
	show_text(row, tids.data);
}

/* harmonia_nodes(index regclass, segment_block bigint) */
Datum
harmonia_nodes(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);
	HtWidth		width = hm_key_type(index)->width;
	HmSegmentCopy *copy = copy_argument(fcinfo, index, width);
	HmSegment  *segment = hm_page_segment(copy->header);
	HtShape		shape;
	int			level = 0;
	RowSink		sink;
	MemoryContext old_context;

	ht_shape_init(&shape, width, segment->fanout, Max(segment->leaf_room, 2));
	begin_rows(fcinfo, &sink);
	old_context = MemoryContextSwitchTo(sink.context);
	for (uint32 node = 0; node < segment->nodes; node++)
	{
		Row			row = {0};

		while (level + 1 < shape.levels && node >= shape.level_start[level + 1])
			level++;
		show_number(&row, node);
		show_number(&row, level);
		show_number(&row, segment->child_region[node]);
		show_separators(&row, hm_copy_node(copy, width, node), width, segment->fanout);
		show_block(&row, node < segment->bottom_start ? InvalidBlockNumber :
				   hm_segment_auxiliaries(segment)[node - segment->bottom_start]);
		add_row(&sink, &row);
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* harmonia_leaves(index regclass, segment_block bigint) */
Datum
harmonia_leaves(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);
	HtWidth		width = hm_key_type(index)->width;
	HmSegmentCopy *copy = copy_argument(fcinfo, index, width);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	ListedLeaf *leaves;
	uint32		count;
	PGAlignedBlock page;
	RowSink		sink;
	MemoryContext old_context;

	leaves = list_leaves(copy, &count);
	begin_rows(fcinfo, &sink);
	old_context = MemoryContextSwitchTo(sink.context);
	for (uint32 i = 0; i < count; i++)
	{
		HmSpecial  *special = hm_page_special((Page) page.data);
		Row			row = {0};

		CHECK_FOR_INTERRUPTS();
		copy_leaf(index, leaves[i].block, (Page) page.data, strategy);
		show_number(&row, leaves[i].block);
		if (leaves[i].number >= 0)
			show_number(&row, leaves[i].number);
		else
			show_null(&row);
		show_block(&row, leaves[i].auxiliary);
		show_number(&row, ht_leaf_count(page.data, width));
		show_bound(&row, true, special->low);
		show_bound(&row, hm_page_has_high((Page) page.data), special->high);
		show_block(&row, special->right);
		add_row(&sink, &row);
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* The slot in a block of a leaf that holds an entry. */
static int
slot_of(const char *block, HtWidth width, HtEntry entry)
{
	int			slots = ht_leaf_slots(width);
	uint32		key32 = (uint32) entry.key;
	void	   *key = width == HT_WIDTH32 ? (void *) &key32 : (void *) &entry.key;
	uint32		tid_block = (uint32) (entry.tid >> 16);
	uint16		tid_offset = (uint16) entry.tid;
	int			slot = 0;

	for (; slot < slots - 1; slot++)
	{
		const char *tid = block + slots * width + slot * HT_TID_BYTES;

		if (memcmp(block + slot * width, key, width) == 0 &&
			memcmp(tid, &tid_block, sizeof(tid_block)) == 0 &&
			memcmp(tid + sizeof(tid_block), &tid_offset, sizeof(tid_offset)) == 0)
			break;
	}
	return slot;
}

/*
 * harmonia_leaf_items(index regclass, block bigint)
 *
 * This is the only function outside src/tree that knows the bytes of a block of a leaf,
 * because it shows in which slots the entries are.
 */
Datum
harmonia_leaf_items(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);
	const HmKeyType *type = hm_key_type(index);
	Buffer		buffer = read_argument_of_kind(fcinfo, index, HM_PAGE_LEAF);
	int			slots = ht_leaf_slots(type->width);
	HtEntry		entries[HT_LEAF_MAX_ENTRIES];
	PGAlignedBlock page;
	int			n = 0;
	Oid			output;
	bool		is_varlena;
	RowSink		sink;
	MemoryContext old_context;

	memcpy(page.data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	getTypeOutputInfo(type->type, &output, &is_varlena);
	ht_leaf_read(page.data, type->width, entries);

	begin_rows(fcinfo, &sink);
	old_context = MemoryContextSwitchTo(sink.context);
	for (int b = 0; b < ht_leaf_blocks(type->width); b++)
	{
		const char *block = page.data + ht_leaf_blocks_at(type->width) + b * HT_LEAF_BLOCK_SIZE;
		int			count = (uint8) block[HT_LEAF_BLOCK_COUNT_AT];

		for (int i = 0; i < Min(count, slots); i++, n++)
		{
			Row			row = {0};

			show_number(&row, b);
			show_number(&row, slot_of(block, type->width, entries[n]));
			show_number(&row, entries[n].key);
			if (type->returnable && hm_page_special((Page) page.data)->part == HM_PART_KEYS)
				show_text(&row, OidOutputFunctionCall(output, type->restore(entries[n].key)));
			else
				show_null(&row);
			show_tid(&row, entries[n].tid);
			add_row(&sink, &row);
		}
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* The number of entries, children or leaves of a page, by its kind. */
static void
show_page_count(Row *row, Page page, HtWidth width)
{
	switch (hm_page_special(page)->kind)
	{
		case HM_PAGE_META:
			show_number(row, hm_page_meta(page)->root_count);
			break;
		case HM_PAGE_DIRECTORY:
			show_number(row, hm_page_directory(page)->count);
			break;
		case HM_PAGE_SEGMENT:
			show_number(row, hm_page_segment(page)->leaves);
			break;
		case HM_PAGE_AUXILIARY:
			show_number(row, hm_page_auxiliary(page)->count);
			break;
		case HM_PAGE_LEAF:
			show_number(row, ht_leaf_count(page, width));
			break;
		default:
			show_null(row);
	}
}

/* harmonia_page(index regclass, block bigint) */
Datum
harmonia_page(PG_FUNCTION_ARGS)
{
	static const char *const kinds[] = {
		NULL, "metapage", "directory", "header", "keys", "auxiliary", "leaf", "spare"
	};
	Relation	index = open_argument(fcinfo);
	HtWidth		width = hm_key_type(index)->width;
	Buffer		buffer = read_argument(fcinfo, index);
	BlockNumber block = BufferGetBlockNumber(buffer);
	PGAlignedBlock page;
	HmSpecial  *special = hm_page_special((Page) page.data);
	Row			row = {0};

	memcpy(page.data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);

	if (PageIsNew((Page) page.data))
	{
		show_text(&row, "empty");
		while (row.count < 11)
			show_null(&row);
	}
	else
	{
		bool		owned = special->kind >= HM_PAGE_SEGMENT && special->kind <= HM_PAGE_LEAF;
		bool		leaf = special->kind == HM_PAGE_LEAF;

		if (special->kind >= lengthof(kinds) || kinds[special->kind] == NULL ||
			!hm_page_is((Page) page.data, (HmPageKind) special->kind))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("block %u of index \"%s\" is not a harmonia page",
							block, RelationGetRelationName(index)),
					 errhint("Please REINDEX it.")));
		show_text(&row, kinds[special->kind]);
		show_text(&row, psprintf("%X/%X", LSN_FORMAT_ARGS(PageGetLSN((Page) page.data))));
		if (owned)
		{
			show_number(&row, special->stamp);
			show_number(&row, special->segment);
			show_part(&row, special->part);
		}
		else
		{
			for (int i = 0; i < 3; i++)
				show_null(&row);
		}
		show_page_count(&row, (Page) page.data, width);
		show_bound(&row, leaf, special->low);
		show_bound(&row, leaf && hm_page_has_high((Page) page.data), special->high);
		show_block(&row, leaf ? special->right : InvalidBlockNumber);
	}
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(return_row(fcinfo, &row));
}

/* The sums that harmonia_index_info() shows. */
typedef struct IndexInfoSums
{
	uint64		entries;
	uint64		headers;
	uint64		keys;
	uint64		leaves;
	uint64		auxiliaries;
	uint64		owned;			/* blocks in extents of segments */
	uint64		shadowed;		/* segments */
	uint32		levels;			/* of the deepest segment */
} IndexInfoSums;

/* Add a segment to the sums, unless it has been replaced since the directory was read. */
static void
sum_segment(Relation index, const HmDirectoryEntry *entry, HtWidth width,
			BufferAccessStrategy strategy, IndexInfoSums *sums)
{
	Buffer		header = ReadBuffer(index, entry->block);
	HmSegmentCopy *copy;
	HmSegment  *segment;
	ListedLeaf *leaves;
	uint32		count;
	PGAlignedBlock page;

	LockBuffer(header, BUFFER_LOCK_SHARE);
	if (!hm_page_is_segment_of(BufferGetPage(header), entry) ||
		(hm_page_segment(BufferGetPage(header))->state & HM_SEGMENT_DEAD))
	{
		UnlockReleaseBuffer(header);
		return;
	}
	copy = hm_segment_copy(index, header, width);
	UnlockReleaseBuffer(header);

	segment = hm_page_segment(copy->header);
	sums->headers++;
	sums->keys += segment->leaf_base - segment->key_base;
	sums->auxiliaries += segment->auxiliaries;
	sums->shadowed += segment->auxiliaries > 0 ? 1 : 0;
	sums->levels = Max(sums->levels, segment->levels);
	for (uint32 i = 0; i < segment->extent_count; i++)
		sums->owned += segment->extents[i].length;

	leaves = list_leaves(copy, &count);
	sums->leaves += count;
	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		copy_leaf(index, leaves[i].block, (Page) page.data, strategy);
		sums->entries += ht_leaf_count(page.data, width);
	}
}

/* harmonia_index_info(index regclass) */
Datum
harmonia_index_info(PG_FUNCTION_ARGS)
{
	Relation	index = open_argument(fcinfo);
	HtWidth		width = hm_key_type(index)->width;
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	IndexInfoSums sums = {0};
	HmDirectoryEntry *segments;
	BlockNumber *pages;
	int			segment_count,
				page_count;
	uint64		blocks;
	uint64		free_blocks = 0;
	uint64		used;
	Buffer		buffer;
	HmMeta		meta;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "harmonia index info",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context;
	Row			row = {0};

	segments = hm_directory_read(index, &segment_count, &pages, &page_count);
	old_context = MemoryContextSwitchTo(context);
	for (int i = 0; i < segment_count; i++)
	{
		sum_segment(index, &segments[i], width, strategy, &sums);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old_context);

	buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	meta = *hm_page_meta(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	for (uint32 i = 0; i < meta.free_count; i++)
		free_blocks += meta.free[i].length;
	blocks = RelationGetNumberOfBlocks(index);
	used = sums.headers + sums.keys + sums.leaves + sums.auxiliaries;

	show_number(&row, sums.entries);
	show_number(&row, sums.headers);
	show_number(&row, sums.shadowed);
	show_number(&row, sums.levels + meta.depth + 1);
	if (sums.leaves > 0)
		show_text(&row, psprintf("%.1f", 100.0 * sums.entries /
								 (sums.leaves * ht_leaf_capacity(width))));
	else
		show_null(&row);
	show_number(&row, blocks);
	show_number(&row, page_count);
	show_number(&row, sums.headers);
	show_number(&row, sums.keys);
	show_number(&row, sums.auxiliaries);
	show_number(&row, sums.leaves);
	show_number(&row, sums.owned > used ? sums.owned - used : 0);
	show_number(&row, free_blocks);
	used = 1 + page_count + sums.owned + free_blocks;
	show_number(&row, blocks > used ? blocks - used : 0);
	show_number(&row, blocks * BLCKSZ);
	show_number(&row, free_blocks * BLCKSZ);
	show_number(&row, meta.retired);
	show_time(&row, meta.last_movement);
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(return_row(fcinfo, &row));
}
