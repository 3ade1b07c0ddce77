/*
 * pin.c
 *		Pinning leaves and heap pages again and again at little cost.
 *
 * ReadBuffer() looks up the block in the buffer mapping.  That takes a partition lock
 * and reads a hash table that is mostly not in the cache.  If few probes share a leaf,
 * it takes longer than all of the search.  PostgreSQL lets callers say in which buffer
 * they saw a block last (ReadRecentBuffer()), and verifies that.  This file remembers
 * it for the backend.
 *
 * For a block that the backend has not seen yet, it guesses: if an index was built or
 * read from one end to the other while buffers were free, consecutive blocks are in
 * consecutive buffers.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/buf_internals.h"
#include "utils/memutils.h"

#include "compat.h"
#include "lookup/walk.h"

/*
 * The buffers of blocks of all relations.  Each relation has a place in the table for all
 * its blocks, behind those of the one before it, so that relations displace each other only
 * if the table is too small for all. 0: unknown.
 */
#define MAX_REMEMBERED (1 << 20) /* 4 MB, enough for 8 GB of shared buffers */

/*
 * A session with few pins has a small table.  Clearing the large one takes
 * milliseconds, longer than that many pins.
 */
#define FEW_REMEMBERED (1 << 12)
#define FEW_PINS 1000

#define CACHE_LINE 64

/* The line with the special area of an index's page, which every visit reads (format.h). */
#define SPECIAL_LINE (BLCKSZ - CACHE_LINE)
#define MEMORY_PAGE 4096

static Buffer *remembered = NULL;
static uint32 remembered_mask;
static uint32 pins = 0; /* counted until the table is the large one */

/*
 * What is known of a relation.  A lookup goes back and forth between an index and a table,
 * so relations have a row each: one of WAYS rows from that on which the low bits of its OID
 * name.
 */
#define ROWS 64
#define WAYS 4

typedef struct PinRow
{
	Oid relation;
	uint32 place;   /* of block 0 in "remembered" */
	int64 distance; /* from the last block that was looked up to its buffer */
	bool trusted;   /* the one before it had the same distance, so that other blocks may have,
					 * too */
} PinRow;

static PinRow rows[ROWS];
static uint32 next_place = 0;
static uint32 next_way = 0;

static inline PinRow *
row_at(Relation relation, uint32 way)
{
	return &rows[(RelationGetRelid(relation) + way) % ROWS];
}

/* Find the relation's row, or give it one. */
static pg_noinline PinRow *
find_row(Relation relation)
{
	PinRow *row;

	for (uint32 way = 0; way < WAYS; way++)
	{
		row = row_at(relation, way);
		if (row->relation == RelationGetRelid(relation))
			return row;
		if (row->relation == InvalidOid)
			break;
	}
	if (row->relation != InvalidOid)
		row = row_at(relation, next_way++ % WAYS);
	row->relation = RelationGetRelid(relation);
	row->place = next_place;
	row->distance = 0;
	row->trusted = false;
	next_place += RelationGetNumberOfBlocks(relation);
	return row;
}

static inline PinRow *
row_of(Relation relation)
{
	PinRow *row = row_at(relation, 0);

	return row->relation == RelationGetRelid(relation) ? row : find_row(relation);
}

static inline Buffer *
remembered_buffer(const PinRow *row, BlockNumber block)
{
	return &remembered[(row->place + block) & remembered_mask];
}

/* Make an empty table of at most this size.  Frees the old one. */
static void
start_remembering(uint32 limit)
{
	uint32 size = 1024;
	Buffer *table;

	while (size < (uint32) NBuffers && size < limit)
		size *= 2;
	table = MemoryContextAllocZero(TopMemoryContext, size * sizeof(Buffer));
	if (remembered != NULL)
		pfree(remembered);
	remembered = table;
	remembered_mask = size - 1;
}

static pg_noinline void
count_pin(void)
{
	if (pins + 1 == FEW_PINS)
		start_remembering(MAX_REMEMBERED);
	else if (remembered == NULL)
		start_remembering(FEW_REMEMBERED);

	/*
	 * Last, so that there is a table if it is not zero, even after an out-of-memory
	 * error.
	 */
	pins++;
}

/* The buffer that may hold a block, or invalid. */
static inline Buffer
expected_buffer(const PinRow *row, BlockNumber block)
{
	Buffer buffer = *remembered_buffer(row, block);
	int64 guess = (int64) block + row->distance;

	if (buffer != InvalidBuffer || !row->trusted || guess < 1 || guess > NBuffers)
		return buffer;
	return (Buffer) guess;
}

/* Note the buffer of a block that had to be looked up. */
static void
note_distance(PinRow *row, BlockNumber block, Buffer buffer)
{
	int64 distance = (int64) buffer - (int64) block;

	row->trusted = row->distance == distance;
	row->distance = distance;
}

Buffer
hm_pin_expected(Relation relation, BlockNumber block)
{
	if (remembered == NULL || RelationUsesLocalBuffers(relation))
		return InvalidBuffer;
	return expected_buffer(row_of(relation), block);
}

/* Whether a block seems to be in that buffer.  Looks at the buffer without a lock. */
static bool
seems_valid(Buffer buffer, BlockNumber block)
{
	BufferDesc *desc = GetBufferDescriptor(buffer - 1);

	return desc->tag.blockNum == block && BUF_STATE_GET_USAGECOUNT(hm_buffer_state(desc)) > 0;
}

Buffer
hm_pin(Relation relation, BlockNumber block)
{
	PinRow *row;
	Buffer buffer;

	if (RelationUsesLocalBuffers(relation))
		return ReadBuffer(relation, block);
	if (pins < FEW_PINS)
		count_pin();

	/*
	 * ReadRecentBuffer() does not raise the usage count.  That is fine until the clock
	 * hand has come by; after that ReadBuffer() raises it.  The block number is read
	 * without a lock, only to avoid useless attempts.
	 */
	row = row_of(relation);
	buffer = expected_buffer(row, block);
	if (buffer != InvalidBuffer && seems_valid(buffer, block) &&
		ReadRecentBuffer(HmRelationLocator(relation), MAIN_FORKNUM, block, buffer))
	{
		pgstat_count_buffer_read(relation);
		pgstat_count_buffer_hit(relation);
		*remembered_buffer(row, block) = buffer;
		return buffer;
	}
	buffer = ReadBuffer(relation, block);
	note_distance(row, block, buffer);
	*remembered_buffer(row, block) = buffer;
	return buffer;
}

void
hm_pin_prefetch(Relation index, BlockNumber block, int from, int to, bool many)
{
	const PinRow *row;
	Buffer buffer;
	char *page;

	if (remembered == NULL || RelationUsesLocalBuffers(index))
		return;
	row = row_of(index);
	buffer = expected_buffer(row, block);
	if (buffer == InvalidBuffer)
		return;
	__builtin_prefetch(GetBufferDescriptor(buffer - 1), 1);

	/*
	 * Only addresses matter here: what is read from an unpinned page is not used.  But
	 * a page that this process has not touched yet may be missing in its page table,
	 * and prefetching it would do nothing; so read from it.
	 */
	page = (char *) BufferGetPage(buffer);
	if (*remembered_buffer(row, block) == InvalidBuffer)
		(void) *(volatile char *) (page + SPECIAL_LINE);
	if (many)
	{
		ht_prefetch_far(page + SPECIAL_LINE);
		ht_prefetch_far(page + from);

		/*
		 * Before PostgreSQL 16 buffers are not aligned; most of them overlap three
		 * memory pages.
		 */
		if ((uintptr_t) page % MEMORY_PAGE != 0)
			ht_prefetch_far(page + MEMORY_PAGE);
	}
	ht_prefetch(page + SPECIAL_LINE);
	for (int at = from; at <= to; at += CACHE_LINE)
		ht_prefetch(page + at);
}

void
hm_pin_expect(Relation index, BlockNumber block, Buffer buffer)
{
	if (buffer < 1 || buffer > NBuffers)
		return;
	if (remembered == NULL)
		count_pin();
	*remembered_buffer(row_of(index), block) = buffer;
}

void
hm_pin_prefetch_lines(Relation index, BlockNumber block, uint64 lines)
{
	Buffer buffer;
	char *page;

	if (remembered == NULL)
		return;
	buffer = expected_buffer(row_of(index), block);
	if (buffer == InvalidBuffer)
		return;
	__builtin_prefetch(GetBufferDescriptor(buffer - 1), 1);
	page = (char *) BufferGetPage(buffer);
	for (; lines != 0; lines &= lines - 1)
	{
		char *line = page + pg_rightmost_one_pos64(lines) * HM_LINE_SIZE;

		for (int at = 0; at < HM_LINE_SIZE; at += CACHE_LINE)
			ht_prefetch(line + at);
	}
}
