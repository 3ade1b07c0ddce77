/*
 * metapage.c
 *		The metapage: what it says of the index, and a backend's copy of that.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#include "am/store/store.h"
#include "compat.h"

/* ----------------------------------------------------------------
 *		The columns of keys
 * ----------------------------------------------------------------
 */

static void
fields_write(Relation index, const HmFields *fields, HmMeta *meta)
{
	meta->key_columns = (uint16) IndexRelationGetNumberOfKeyAttributes(index);
	meta->included_columns = (uint16) (fields->count - meta->key_columns);
	for (int i = 0; i < fields->count; i++)
	{
		const HmField *field = &fields->fields[i];

		meta->columns[i].type = hm_key_type_id(field->type);
		meta->columns[i].bits = field->bits;
		meta->columns[i].flags = (field->descending ? HM_COLUMN_DESCENDING : 0) |
								 (field->nulls_low ? HM_COLUMN_NULLS_LOW : 0) |
								 (field->in_gap ? HM_COLUMN_NULL_IN_GAP : 0);
	}
}

/* Whether a field can have the order that flags say, which those of included columns have not. */
static bool
flags_are_sound(const HmField *field, uint16 flags, bool is_key)
{
	if (flags == 0)
		return true;
	return is_key &&
		   (flags & ~(HM_COLUMN_DESCENDING | HM_COLUMN_NULLS_LOW | HM_COLUMN_NULL_IN_GAP)) == 0 &&
		   field->type->ordered && hm_field_is_ordered(field) &&
		   (!field->in_gap || (field->type->has_gap && !hm_field_is_whole(field))) &&
		   (!field->nulls_low || hm_field_tells_null(field));
}

/*
 * The key type of an included column: the one that the metapage names, even if it is not the
 * column's.  ALTER TYPE keeps the file of an index if the new type of a column stores the same
 * Datums.  Of key columns, it asks for the same operator class, too, but not of included ones.
 * Another type's keys serve as long as they have all bits of a value: that is given back as it was.
 * NULL if these are no keys of such values.
 */
static const HmKeyType *
included_type(const HmKeyType *type, Oid id, Form_pg_attribute attribute)
{
	const HmKeyType *kept;

	if (type != NULL && hm_key_type_id(type) == id)
		return type;
	kept = hm_field_type_lookup(id);
	return kept != NULL && kept->returnable && attribute->attbyval &&
				   kept->bits == 8 * attribute->attlen ?
			   kept :
			   NULL;
}

static bool
fields_from_meta(Relation index, const HmColumnTypes *types, const HmMeta *meta, HmFields *fields)
{
	int shift = 0;
	int most = meta->width == HT_WIDTH128 ? 128 : 64;

	*fields = (HmFields){.width = (HtWidth) meta->width,
						 .count = meta->key_columns + meta->included_columns};
	if (meta->key_columns != IndexRelationGetNumberOfKeyAttributes(index) ||
		fields->count != IndexRelationGetNumberOfAttributes(index) ||
		fields->count > HM_MAX_KEY_COLUMNS)
		return false;
	if (fields->count == 1 ? fields->width != types->of[0]->width :
							 fields->width != HT_WIDTH64 && fields->width != HT_WIDTH128)
		return false;
	for (int i = fields->count - 1; i >= 0; i--)
	{
		HmField *field = &fields->fields[i];

		field->type = i < meta->key_columns ?
						  types->of[i] :
						  included_type(types->of[i], meta->columns[i].type,
										TupleDescAttr(RelationGetDescr(index), i));
		if (field->type == NULL)
			return false;
		field->bits = (uint8) meta->columns[i].bits;
		field->shift = (uint8) shift;
		field->descending = (meta->columns[i].flags & HM_COLUMN_DESCENDING) != 0;
		field->nulls_low = (meta->columns[i].flags & HM_COLUMN_NULLS_LOW) != 0;
		field->in_gap = (meta->columns[i].flags & HM_COLUMN_NULL_IN_GAP) != 0;
		if (meta->columns[i].type != hm_key_type_id(field->type) || meta->columns[i].bits < 1 ||
			meta->columns[i].bits > most - shift ||
			!flags_are_sound(field, meta->columns[i].flags,
							 fields->count > 1 && i < meta->key_columns))
			return false;
		shift += field->bits;
	}
	return true;
}

void
hm_meta_init(Relation index, Page page)
{
	HmMeta *meta = hm_page_meta(page);
	int16 option = index->rd_indoption[0];
	HmFields fields;

	hm_page_init(page, HM_PAGE_META, 0, InvalidBlockNumber, HM_PART_KEYS);
	meta->magic = HM_MAGIC;
	meta->version = HM_FORMAT_VERSION;
	meta->endian = HM_ENDIAN_MARKER;
	meta->block_size = BLCKSZ;
	meta->key_type = index->rd_opcintype[0];
	meta->fanout = (uint16) hm_fanout(index);

	/* A descending index is an ascending one that is read backwards. */
	meta->nulls_low = hm_option_has_nulls_low(option, option);
	meta->flags = HM_META_LIMITS;
	hm_fields_plan(index, &fields);
	meta->width = (uint16) fields.width;
	fields_write(index, &fields, meta);
	meta->build_id = pg_prng_uint64(&pg_global_prng_state);
	meta->next_stamp = 1;
}

/* ----------------------------------------------------------------
 *		Checks
 * ----------------------------------------------------------------
 */

/* What a metapage may have that keeps this library from using it. */
typedef enum MetaProblem
{
	META_SOUND,
	META_OTHER_VERSION,
	META_NO_METAPAGE,
	META_NO_HARMONIA,
	META_OTHER_LIMITS,
	META_OTHER_TYPE,
	META_OTHER_COLUMNS,
	META_BAD_COUNT
} MetaProblem;

/* The caller holds the page's lock. */
static MetaProblem
meta_problem(Relation index, const HmColumnTypes *types, Page page)
{
	HmMeta *meta = hm_page_meta(page);
	HmFields fields;

	/* The special area, too, differs between versions. */
	if (!PageIsNew(page) && meta->magic == HM_MAGIC && meta->endian == HM_ENDIAN_MARKER &&
		meta->version != HM_FORMAT_VERSION)
		return META_OTHER_VERSION;
	if (!hm_page_is(page, HM_PAGE_META))
		return META_NO_METAPAGE;
	if (meta->magic != HM_MAGIC || meta->endian != HM_ENDIAN_MARKER || meta->block_size != BLCKSZ)
		return META_NO_HARMONIA;
	if (meta->flags != HM_META_LIMITS)
		return META_OTHER_LIMITS;
	if (meta->key_type != index->rd_opcintype[0])
		return META_OTHER_TYPE;
	if (!fields_from_meta(index, types, meta, &fields))
		return META_OTHER_COLUMNS;
	if (meta->fanout < HT_MIN_FANOUT || meta->fanout > HT_MAX_FANOUT || meta->depth > 1 ||
		(meta->depth == 1 && meta->root_count == 0) ||
		meta->root_count > HM_ROOT_BYTES / hm_directory_entry_size((HtWidth) meta->width) ||
		meta->free_count > HM_FREE_MAX)
		return META_BAD_COUNT;
	return META_SOUND;
}

static void
meta_check(Relation index, const HmColumnTypes *types, Buffer buffer)
{
	Page page = BufferGetPage(buffer);
	HmMeta *meta = hm_page_meta(page);

	switch (meta_problem(index, types, page))
	{
		case META_SOUND:
			break;
		case META_OTHER_VERSION:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" has on-disk version %d, this harmonia reads version %d",
							RelationGetRelationName(index), meta->version, HM_FORMAT_VERSION),
					 errhint("Install a harmonia release that reads this version, or REINDEX.")));
			break;
		case META_NO_METAPAGE:
			hm_page_report_kind(index, buffer, HM_PAGE_META);
			break;
		case META_NO_HARMONIA:
			hm_report_damage("Magic number, byte order or block size does not match.",
							 "index \"%s\" is not a harmonia index",
							 RelationGetRelationName(index));
			break;
		case META_OTHER_LIMITS:
			ereport(
				ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" has flags %d, this harmonia reads flags %d",
						RelationGetRelationName(index), meta->flags, HM_META_LIMITS),
				 errdetail("Flag %d is set by a harmonia for tests, compiled with SMALL_LIMITS=1.",
						   HM_META_SMALL_LIMITS),
				 errhint("Install the harmonia that the index was built with, or REINDEX.")));
			break;
		case META_OTHER_TYPE:
			hm_report_damage(NULL, "index \"%s\" was built for keys of another type",
							 RelationGetRelationName(index));
			break;
		case META_OTHER_COLUMNS:
			hm_report_damage("What it says of the columns of keys does not match the index.",
							 "index \"%s\" has a damaged metapage", RelationGetRelationName(index));
			break;
		case META_BAD_COUNT:
			hm_report_damage("Fanout, depth or a count is out of range.",
							 "index \"%s\" has a damaged metapage", RelationGetRelationName(index));
			break;
	}
}

/*
 * Whether a block can be read without an error.  One that is in no buffer is as it is in the file,
 * so that copy is verified, as reading it into a buffer does.
 */
static bool
block_is_readable(Relation index, BlockNumber block)
{
	HmAlignedPage page;

	if (block >= RelationGetNumberOfBlocks(index))
		return false;
	if (BufferIsValid(PrefetchBuffer(index, MAIN_FORKNUM, block).recent_buffer))
		return true;
	smgrread(RelationGetSmgr(index), MAIN_FORKNUM, block, page.data);
	return hm_page_is_verified((Page) page.data, block);
}

/*
 * Whether hm_meta_buffer() would raise no error: for the planner, which a damaged index must not
 * keep from reading the table.  The caller holds no buffer lock.
 */
static bool
meta_is_sound(Relation index)
{
	HmColumnTypes types;
	Buffer buffer;
	bool result;

	if (!block_is_readable(index, HM_METAPAGE_BLKNO))
		return false;
	hm_column_types(index, &types);
	buffer = ReadBuffer(index, HM_METAPAGE_BLKNO);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	result = meta_problem(index, &types, BufferGetPage(buffer)) == META_SOUND;
	UnlockReleaseBuffer(buffer);
	return result;
}

/*
 * hm_meta_buffer(), and the key types of the index's columns.  They are found before the lock is
 * taken: a look into the catalogs may wait for locks of tables.
 */
static Buffer
lock_meta(Relation index, int lock, HmColumnTypes *types)
{
	Buffer buffer;

	AssertNoContentLock();
	hm_column_types(index, types);
	buffer = ReadBuffer(index, HM_METAPAGE_BLKNO);
	LockBuffer(buffer, lock);
	meta_check(index, types, buffer);
	return buffer;
}

Buffer
hm_meta_buffer(Relation index, int lock)
{
	HmColumnTypes types;

	return lock_meta(index, lock, &types);
}

HmCache *
hm_cache(Relation index, bool renew)
{
	HmCache *cache = (HmCache *) index->rd_amcache;
	HmColumnTypes types;
	Buffer buffer;
	HmMeta *meta;

	AssertNoContentLock();
	if (cache != NULL && !renew)
		return cache;

	buffer = lock_meta(index, BUFFER_LOCK_SHARE, &types);
	meta = hm_page_meta(BufferGetPage(buffer));

	/* To find the key types may have freed it. */
	cache = (HmCache *) index->rd_amcache;
	if (cache == NULL)
	{
		cache = MemoryContextAllocZero(index->rd_indexcxt, offsetof(HmCache, known_order));
		index->rd_amcache = cache;
	}

	/* Blocks of known leaves may be gone, if the file was truncated. */
	cache->known_count = cache->known_next = 0;
	cache->width = (HtWidth) meta->width;
	(void) fields_from_meta(index, &types, meta, &cache->fields);
	cache->fanout = meta->fanout;
	cache->nulls_low = meta->nulls_low != 0;
	cache->depth = meta->depth;
	cache->root_count = meta->root_count;
	memcpy(cache->root_words, meta->root_words,
		   meta->root_count * hm_directory_entry_size(cache->width));
	UnlockReleaseBuffer(buffer);

	/* An invalidation of the file resets this, see hm_cache_is_current(). */
	RelationSetTargetBlock(index, HM_METAPAGE_BLKNO);
	return cache;
}

/*
 * If the file was truncated after the copy was made, the copy may refer to blocks beyond
 * its end.  A truncation sends an invalidation, by which all backends forget what they
 * know of the file, including the "target block", which has no other use here.  A backend
 * that locks the index after the truncation has processed that invalidation.
 */
bool
hm_cache_is_current(Relation index)
{
	return RelationGetTargetBlock(index) == HM_METAPAGE_BLKNO;
}

/* ----------------------------------------------------------------
 *		What the metapage says, by the copy if there is one
 * ----------------------------------------------------------------
 */

void
hm_fields_read(Relation index, HmFields *fields)
{
	if (!hm_is_btree(index) && (hm_is_composite(index) || index->rd_amcache != NULL))
		*fields = hm_cache(index, false)->fields;
	else
		hm_fields_plan(index, fields);
}

bool
hm_fields_try(Relation index, HmFields *fields)
{
	if (index->rd_amcache == NULL && !meta_is_sound(index))
		return false;
	hm_fields_read(index, fields);
	return true;
}

const HmKeyType *
hm_key_type(Relation index)
{
	const HmKeyType *result = hm_column_type(index, 0);
	const HmCache *cache = hm_is_btree(index) ? NULL : (const HmCache *) index->rd_amcache;

	Assert(!hm_is_composite(index));

	/* Operators may have been added to the family since the metapage was read. */
	if (cache != NULL && hm_key_type_id(cache->fields.fields[0].type) != hm_key_type_id(result))
		hm_report_damage(NULL, "index \"%s\" was built for keys of another type",
						 RelationGetRelationName(index));
	return result;
}

HtWidth
hm_key_width(Relation index)
{
	const HmCache *cache = (const HmCache *) index->rd_amcache;

	if (hm_is_btree(index))
		return hm_planned_width(index);
	if (cache != NULL)
		return cache->width;
	return hm_is_composite(index) ? hm_cache(index, false)->width : hm_key_type(index)->width;
}
