/*
 * page.c
 *		Page initialisation and checks, the metapage, and a backend's copy of the
 *		directory's root.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#include "am/internal.h"
#include "compat.h"

void
hm_page_init(Page page, HmPageKind kind, uint64 stamp, BlockNumber segment, HmPart part)
{
	HmSpecial  *special;

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
hm_meta_init(Relation index, Page page)
{
	HmMeta	   *meta = hm_page_meta(page);
	int16		option = index->rd_indoption[0];
	HmFields	fields;

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
	hm_fields_write(index, &fields, meta);
	meta->build_id = pg_prng_uint64(&pg_global_prng_state);
	meta->next_stamp = 1;
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
	return !PageIsNew(page) &&
		PageGetSpecialSize(page) == sizeof(HmSpecial) &&
		hm_page_special(page)->page_id == HM_PAGE_ID &&
		hm_page_special(page)->kind == kind;
}

bool
hm_page_is_segment_of(Page page, uint32 stamp)
{
	return hm_page_is(page, HM_PAGE_SEGMENT) &&
		(uint32) hm_page_segment(page)->stamp == stamp;
}

bool
hm_segment_is_alive(Page page, uint64 stamp)
{
	return hm_page_is(page, HM_PAGE_SEGMENT) &&
		hm_page_segment(page)->stamp == stamp &&
		!(hm_page_segment(page)->state & HM_SEGMENT_DEAD);
}

bool
hm_segment_is_open(Page page, uint64 stamp)
{
	uint64		word = *(volatile uint64 *) hm_page_segment(page);
	struct
	{
		uint64		stamp:56,
					state:8;
	}			first;

	StaticAssertStmt(sizeof(first) == sizeof(word), "stamp and state are not one word");
	memcpy(&first, &word, sizeof(first));
	pg_read_barrier();
	return first.stamp == stamp && first.state == 0 &&
		((volatile HmSpecial *) hm_page_special(page))->stamp == stamp;
}

bool
hm_segment_is_alive_for(Page page, uint32 stamp)
{
	return hm_page_is_segment_of(page, stamp) &&
		!(hm_page_segment(page)->state & HM_SEGMENT_DEAD);
}

void
hm_count_check(Relation index, Buffer buffer, uint32 count, uint32 max)
{
	if (count < 1 || count > max)
		hm_report_damage(psprintf("It claims to have %u entries.", count),
						 "index \"%s\" has a damaged page at block %u",
						 RelationGetRelationName(index), BufferGetBlockNumber(buffer));
}

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
	HmMeta	   *meta = hm_page_meta(page);
	HmFields	fields;

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
	if (!hm_fields_from_meta(index, types, meta, &fields))
		return META_OTHER_COLUMNS;
	if (meta->fanout < HT_MIN_FANOUT || meta->fanout > HT_MAX_FANOUT ||
		meta->depth > 1 || (meta->depth == 1 && meta->root_count == 0) ||
		meta->root_count > HM_ROOT_BYTES / hm_directory_entry_size((HtWidth) meta->width) ||
		meta->free_count > HM_FREE_MAX)
		return META_BAD_COUNT;
	return META_SOUND;
}

static void
report_other_kind(Relation index, Buffer buffer, HmPageKind kind)
{
	hm_report_damage(psprintf("The page is not a harmonia page of kind %d.", (int) kind),
					 "index \"%s\" has an unexpected page at block %u",
					 RelationGetRelationName(index), BufferGetBlockNumber(buffer));
}

static void
meta_check(Relation index, const HmColumnTypes *types, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	HmMeta	   *meta = hm_page_meta(page);

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
			report_other_kind(index, buffer, HM_PAGE_META);
			break;
		case META_NO_HARMONIA:
			hm_report_damage("Magic number, byte order or block size does not match.",
							 "index \"%s\" is not a harmonia index", RelationGetRelationName(index));
			break;
		case META_OTHER_LIMITS:
			ereport(ERROR,
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

void
hm_page_check(Relation index, Buffer buffer, HmPageKind kind)
{
	Assert(kind != HM_PAGE_META);
	if (!hm_page_is(BufferGetPage(buffer), kind))
		report_other_kind(index, buffer, kind);
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

bool
hm_meta_is_sound(Relation index)
{
	HmColumnTypes types;
	Buffer		buffer;
	bool		result;

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
 * hm_meta_buffer(), and the key types of the index's columns.  They are found before the lock is taken: a
 * look into the catalogs may wait for locks of tables.
 */
static Buffer
lock_meta(Relation index, int lock, HmColumnTypes *types)
{
	Buffer		buffer;

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
	HmCache    *cache = (HmCache *) index->rd_amcache;
	HmColumnTypes types;
	Buffer		buffer;
	HmMeta	   *meta;

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
	(void) hm_fields_from_meta(index, &types, meta, &cache->fields);
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
