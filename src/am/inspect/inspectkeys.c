/*
 * inspectkeys.c
 *		What the SQL functions of inspect.c show of pages that hold keys.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "am/inspect/segmentcopy.h"
#include "am/reader.h"
#include "am/base/base.h"
#include "am/inspect/inspect.h"
#include "compat.h"

/* ----------------------------------------------------------------
 *		Arguments
 * ----------------------------------------------------------------
 */

/* Read the block that a function's second argument names, locked in share mode. */
static Buffer
read_argument(FunctionCallInfo fcinfo, Relation index)
{
	int64 block = PG_GETARG_INT64(1);
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	Buffer buffer;

	if (block < 0 || block >= (int64) blocks)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
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
	Buffer buffer = read_argument(fcinfo, index);

	if (!hm_page_is(BufferGetPage(buffer), kind))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block %u of index \"%s\" is not a %s", BufferGetBlockNumber(buffer),
						RelationGetRelationName(index),
						kind == HM_PAGE_LEAF ? "leaf" : "segment header"),
				 kind == HM_PAGE_LEAF ? errhint("harmonia_leaves() shows a segment's leaves.") :
										errhint("harmonia_segments() shows an index's segments.")));
	return buffer;
}

/* List the leaves of a segment, in key order; palloc'd.  The caller holds the header's lock. */
static HmReaderLeaf *
list_leaves(Relation index, Buffer header, HtWidth width, uint32 *count)
{
	uint32 room = 64;
	HmReaderLeaf *leaves = palloc(room * sizeof(HmReaderLeaf));
	HmReader reader;

	hm_reader_begin(&reader, index, header, width, ReadBuffer);
	for (*count = 0; hm_reader_next_leaf(&reader, &leaves[*count]);)
	{
		if (++*count == room)
		{
			room *= 2;
			leaves = repalloc_huge(leaves, room * sizeof(HmReaderLeaf));
		}
	}
	hm_reader_end(&reader);
	return leaves;
}

/*
 * Copy a leaf, and check that it is one.
 * Errors: index_corrupted.
 */
static void
copy_leaf(Relation index, BlockNumber block, Page to, BufferAccessStrategy strategy)
{
	Buffer buffer;

	hm_block_exists_check(index, block);
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	hm_page_check(index, buffer, HM_PAGE_LEAF);
	memcpy(to, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

static void
show_bound(HmRow *row, bool exists, HtEntry bound)
{
	hm_show_bound(row, exists, bound.key, bound.tid);
}

/* ----------------------------------------------------------------
 *		The functions
 * ----------------------------------------------------------------
 */

/* Add the columns of one segment to a row of harmonia_segments(). */
static void
show_segment(HmRow *row, int64 number, BlockNumber block, Page page)
{
	HmSegment *segment = hm_page_segment(page);
	uint32 extents = Min(segment->extent_count, HM_SEGMENT_MAX_EXTENTS);
	StringInfoData text;

	hm_show_number(row, number);
	hm_show_number(row, block);
	hm_show_part(row, hm_page_special(page)->part);
	show_bound(row, true, hm_segment_low(page));
	show_bound(row, hm_page_has_high(page), hm_segment_high(page));
	hm_show_number(row, segment->leaves);
	hm_show_number(row, segment->pure_leaves);
	hm_show_number(row, segment->leaf_room);
	hm_show_number(row, segment->auxiliaries);
	hm_show_number(row, segment->levels);
	hm_show_number(row, segment->nodes);
	hm_show_number(row, segment->fanout);

	initStringInfo(&text);
	appendStringInfoChar(&text, '{');
	for (uint32 i = 0; i < extents; i++)
		appendStringInfo(&text, "%s[" INT64_FORMAT "," INT64_FORMAT ")", i > 0 ? "," : "",
						 (int64) segment->extents[i].start,
						 (int64) segment->extents[i].start + segment->extents[i].length);
	appendStringInfoChar(&text, '}');
	hm_show_text(row, text.data);
	hm_show_text(row, segment->state & HM_SEGMENT_DEAD   ? "dead" :
					  segment->state & HM_SEGMENT_MOVING ? "moving" :
														   "live");
	hm_show_number(row, segment->stamp);
}

/* harmonia_segments(index regclass) */
Datum
hm_show_segments(FunctionCallInfo fcinfo, Relation index)
{
	HmRowSink sink;
	HmDirectoryEntry *segments;
	BlockNumber *pages;
	int segment_count, page_count;
	PGAlignedBlock page;
	MemoryContext old_context;

	hm_begin_rows(fcinfo, &sink);
	segments = hm_directory_read(index, &segment_count, &pages, &page_count);
	old_context = MemoryContextSwitchTo(sink.context);
	for (int i = 0; i < segment_count; i++)
	{
		Buffer buffer = ReadBuffer(index, segments[i].block);
		HmRow row = {0};

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		/* Skip a segment that has been replaced: its blocks may have another use now. */
		if (!hm_page_is_segment_of(BufferGetPage(buffer), segments[i].stamp))
		{
			UnlockReleaseBuffer(buffer);
			continue;
		}
		memcpy(page.data, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
		show_segment(&row, i, segments[i].block, (Page) page.data);
		hm_add_row(&sink, &row);
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* The used separators of a node, as two columns: an array of keys and one of TIDs. */
static void
show_separators(HmRow *row, const char *node, HtWidth width, int fanout)
{
	StringInfoData keys;
	StringInfoData tids;

	initStringInfo(&keys);
	initStringInfo(&tids);
	for (int i = 0; i < fanout - 1; i++)
	{
		HtEntry entry = ht_node_get(node, width, fanout, i);

		if (entry.key == ht_key_max(width) && entry.tid == HT_TID_MAX)
			break;
		appendStringInfo(&keys, "%s%s", i > 0 ? "," : "{", hm_show_key(entry.key));
		appendStringInfoString(&tids, i > 0 ? ",\"" : "{\"");
		hm_append_tid(&tids, entry.tid);
		appendStringInfoChar(&tids, '"');
	}
	appendStringInfoString(&keys, keys.len > 0 ? "}" : "{}");
	appendStringInfoString(&tids, tids.len > 0 ? "}" : "{}");
	hm_show_text(row, keys.data);
	hm_show_text(row, tids.data);
}

/* harmonia_nodes(index regclass, segment_block bigint) */
Datum
hm_show_nodes(FunctionCallInfo fcinfo, Relation index)
{
	HtWidth width = hm_key_width(index);
	Buffer header = read_argument_of_kind(fcinfo, index, HM_PAGE_SEGMENT);
	HmSegmentCopy *copy = hm_segment_copy(index, header, width);
	HmSegment *segment = hm_page_segment(copy->header);
	HtShape shape;
	int level = 0;
	HmRowSink sink;
	MemoryContext old_context;

	UnlockReleaseBuffer(header);
	ht_shape_init(&shape, width, segment->fanout, Max(segment->leaf_room, 2));
	hm_begin_rows(fcinfo, &sink);
	old_context = MemoryContextSwitchTo(sink.context);
	for (uint32 node = 0; node < segment->nodes; node++)
	{
		HmRow row = {0};

		while (level + 1 < shape.levels && node >= shape.level_start[level + 1])
			level++;
		hm_show_number(&row, node);
		hm_show_number(&row, level);
		hm_show_number(&row, segment->child_region[node]);
		show_separators(&row, hm_segment_copy_node(copy, width, node), width, segment->fanout);
		hm_show_block(&row, node < segment->bottom_start ?
								InvalidBlockNumber :
								hm_segment_auxiliaries(segment)[node - segment->bottom_start]);
		hm_add_row(&sink, &row);
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* harmonia_leaves(index regclass, segment_block bigint) */
Datum
hm_show_leaves(FunctionCallInfo fcinfo, Relation index)
{
	HtWidth width = hm_key_width(index);
	Buffer header = read_argument_of_kind(fcinfo, index, HM_PAGE_SEGMENT);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	HmReaderLeaf *leaves;
	uint32 count;
	PGAlignedBlock page;
	HmRowSink sink;
	MemoryContext old_context;

	leaves = list_leaves(index, header, width, &count);
	UnlockReleaseBuffer(header);
	hm_begin_rows(fcinfo, &sink);
	old_context = MemoryContextSwitchTo(sink.context);
	for (uint32 i = 0; i < count; i++)
	{
		HmSpecial *special = hm_page_special((Page) page.data);
		HtLeafShape shape;
		HmRow row = {0};

		CHECK_FOR_INTERRUPTS();
		copy_leaf(index, leaves[i].block, (Page) page.data, strategy);
		shape = ht_leaf_shape_of(page.data);
		hm_show_number(&row, leaves[i].block);
		if (leaves[i].number >= 0)
			hm_show_number(&row, leaves[i].number);
		else
			hm_show_null(&row);
		hm_show_block(&row, leaves[i].auxiliary);
		hm_show_number(&row, ht_leaf_count(page.data));
		show_bound(&row, true, hm_leaf_low((Page) page.data));
		show_bound(&row, hm_page_has_high((Page) page.data), hm_leaf_high((Page) page.data));
		hm_show_block(&row, special->right);
		hm_show_number(&row, shape.bits);
		hm_show_number(&row, shape.tid_bytes);
		hm_add_row(&sink, &row);
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* The slot in a block of a leaf that holds an entry. */
static int
slot_of(const char *page, int block, int count, HtEntry entry)
{
	int slot = 0;

	while (slot < count - 1 && ht_entry_cmp(ht_leaf_entry(page, block, slot), entry) != 0)
		slot++;
	return slot;
}

/* harmonia_leaf_items(index regclass, block bigint) */
Datum
hm_show_leaf_items(FunctionCallInfo fcinfo, Relation index)
{
	const HmKeyType *type = hm_is_composite(index) ? NULL : hm_key_type(index);
	Buffer buffer = read_argument_of_kind(fcinfo, index, HM_PAGE_LEAF);
	HtLeafShape shape;
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
	PGAlignedBlock page;
	int n = 0;
	Oid output = InvalidOid;
	bool is_varlena;
	HmRowSink sink;
	MemoryContext old_context;

	memcpy(page.data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	/* "anyenum" has no output function. */
	if (type != NULL)
		getTypeOutputInfo(IsPolymorphicType(type->type) ?
							  TupleDescAttr(RelationGetDescr(index), 0)->atttypid :
							  type->type,
						  &output, &is_varlena);
	ht_leaf_read(page.data, entries);
	shape = ht_leaf_shape_of(page.data);

	hm_begin_rows(fcinfo, &sink);
	old_context = MemoryContextSwitchTo(sink.context);
	for (int b = 0; b < ht_leaf_blocks(shape); b++)
	{
		int count = ht_leaf_block_count(page.data, b);

		for (int i = 0; i < count; i++, n++)
		{
			HmRow row = {0};

			hm_show_number(&row, b);
			hm_show_number(&row, slot_of(page.data, b, count, entries[n]));
			hm_show_text(&row, hm_show_key(entries[n].key));
			if (type != NULL && type->returnable &&
				hm_page_special((Page) page.data)->part == HM_PART_KEYS)
				hm_show_text(&row, OidOutputFunctionCall(output, type->restore(entries[n].key)));
			else
				hm_show_null(&row);
			hm_show_tid(&row, entries[n].tid);
			hm_add_row(&sink, &row);
		}
	}
	MemoryContextSwitchTo(old_context);
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* The number of entries, children or leaves of a page, by its kind. */
static void
show_page_count(HmRow *row, Page page)
{
	switch (hm_page_special(page)->kind)
	{
		case HM_PAGE_META:
			hm_show_number(row, hm_page_meta(page)->root_count);
			break;
		case HM_PAGE_DIRECTORY:
			hm_show_number(row, hm_page_directory(page)->count);
			break;
		case HM_PAGE_SEGMENT:
			hm_show_number(row, hm_page_segment(page)->leaves);
			break;
		case HM_PAGE_AUXILIARY:
			hm_show_number(row, hm_page_auxiliary(page)->count);
			break;
		case HM_PAGE_LEAF:
			hm_show_number(row, ht_leaf_count(page));
			break;
		default:
			hm_show_null(row);
	}
}

/* harmonia_page(index regclass, block bigint) */
Datum
hm_show_page(FunctionCallInfo fcinfo, Relation index)
{
	static const char *const kinds[] = {NULL,   "metapage",  "directory", "header",
										"keys", "auxiliary", "leaf",      "spare"};
	Buffer buffer = read_argument(fcinfo, index);
	BlockNumber block = BufferGetBlockNumber(buffer);
	PGAlignedBlock page;
	HmSpecial *special = hm_page_special((Page) page.data);
	HmRow row = {0};

	memcpy(page.data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);

	if (PageIsNew((Page) page.data))
	{
		hm_show_text(&row, "empty");
		while (row.count < 11)
			hm_show_null(&row);
	}
	else
	{
		bool owned = special->kind >= HM_PAGE_SEGMENT && special->kind <= HM_PAGE_LEAF;
		bool leaf = special->kind == HM_PAGE_LEAF;

		if (special->kind >= lengthof(kinds) || kinds[special->kind] == NULL ||
			!hm_page_is((Page) page.data, (HmPageKind) special->kind))
			hm_report_damage(NULL, "block %u of index \"%s\" is not a harmonia page", block,
							 RelationGetRelationName(index));
		hm_show_text(&row, kinds[special->kind]);
		hm_show_text(&row, psprintf("%X/%X", LSN_FORMAT_ARGS(PageGetLSN((Page) page.data))));
		if (owned)
		{
			hm_show_number(&row, special->stamp);
			hm_show_number(&row, special->segment);
			hm_show_part(&row, special->part);
		}
		else
		{
			for (int i = 0; i < 3; i++)
				hm_show_null(&row);
		}
		show_page_count(&row, (Page) page.data);
		show_bound(&row, leaf, hm_leaf_low((Page) page.data));
		show_bound(&row, leaf && hm_page_has_high((Page) page.data),
				   hm_leaf_high((Page) page.data));
		hm_show_block(&row, leaf ? special->right : InvalidBlockNumber);
	}
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(hm_return_row(fcinfo, &row));
}

/* The sums that harmonia_index_info() shows. */
typedef struct IndexInfoSums
{
	uint64 entries;
	uint64 headers;
	uint64 keys;
	uint64 leaves;
	uint64 auxiliaries;
	uint64 slots;    /* of all leaves */
	uint64 owned;    /* blocks in extents of segments */
	uint64 shadowed; /* segments */
	uint32 levels;   /* of the deepest segment */
} IndexInfoSums;

/* Add a segment to the sums, unless it has been replaced since the directory was read. */
static void
sum_segment(Relation index, const HmDirectoryEntry *entry, HtWidth width,
			BufferAccessStrategy strategy, IndexInfoSums *sums)
{
	Buffer header = ReadBuffer(index, entry->block);
	HmSegment *segment = hm_page_segment(BufferGetPage(header));
	HmReaderLeaf *leaves;
	uint32 count;
	PGAlignedBlock page;

	LockBuffer(header, BUFFER_LOCK_SHARE);
	if (!hm_segment_is_alive_for(BufferGetPage(header), entry->stamp))
	{
		UnlockReleaseBuffer(header);
		return;
	}
	leaves = list_leaves(index, header, width, &count);
	sums->headers++;
	sums->keys += segment->leaf_base - segment->key_base;
	sums->auxiliaries += segment->auxiliaries;
	sums->shadowed += segment->auxiliaries > 0 ? 1 : 0;
	sums->levels = Max(sums->levels, segment->levels);
	for (uint32 i = 0; i < segment->extent_count; i++)
		sums->owned += segment->extents[i].length;
	UnlockReleaseBuffer(header);

	sums->leaves += count;
	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		copy_leaf(index, leaves[i].block, (Page) page.data, strategy);
		sums->entries += ht_leaf_count(page.data);
		sums->slots += ht_leaf_capacity(ht_leaf_shape_of(page.data));
	}
}

/* harmonia_index_info(index regclass) */
Datum
hm_show_index_info(FunctionCallInfo fcinfo, Relation index)
{
	HtWidth width = hm_key_width(index);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	IndexInfoSums sums = {0};
	HmDirectoryEntry *segments;
	BlockNumber *pages;
	int segment_count, page_count;
	uint64 blocks;
	uint64 free_blocks = 0;
	uint64 used;
	Buffer buffer;
	HmMeta meta;
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia index info", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context;
	HmRow row = {0};

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

	hm_show_number(&row, sums.entries);
	hm_show_number(&row, sums.headers);
	hm_show_number(&row, sums.shadowed);
	hm_show_number(&row, sums.levels + meta.depth + 1);
	if (sums.leaves > 0)
		hm_show_text(&row, psprintf("%.1f", 100.0 * sums.entries / sums.slots));
	else
		hm_show_null(&row);
	hm_show_number(&row, blocks);
	hm_show_number(&row, page_count);
	hm_show_number(&row, sums.headers);
	hm_show_number(&row, sums.keys);
	hm_show_number(&row, sums.auxiliaries);
	hm_show_number(&row, sums.leaves);
	hm_show_number(&row, sums.owned > used ? sums.owned - used : 0);
	hm_show_number(&row, free_blocks);
	used = 1 + page_count + sums.owned + free_blocks;
	hm_show_number(&row, blocks > used ? blocks - used : 0);
	hm_show_number(&row, blocks * BLCKSZ);
	hm_show_number(&row, free_blocks * BLCKSZ);
	hm_show_number(&row, meta.retired);
	hm_show_time(&row, meta.last_movement);
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(hm_return_row(fcinfo, &row));
}
