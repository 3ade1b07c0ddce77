/*
 * pin.c
 *		Pinning leaves again and again, at little cost.
 *
 * ReadBuffer() looks the block up in the buffer mapping: a partition lock and a hash
 * table in which little is in the cache, more than all of the search takes where few
 * probes meet on a leaf.  PostgreSQL lets callers say in which buffer they saw a
 * block last (ReadRecentBuffer()), and verifies it.  A backend remembers that here.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "utils/memutils.h"

#include "compat.h"
#include "lookup/internal.h"

/*
 * Blocks of all indexes, by the low bits of their numbers, so that blocks of one
 * index do not get in each other's way.  0: not known.
 */
#define MAX_REMEMBERED	(1 << 20)	/* 4 MB, enough for 8 GB of shared buffers */

#define CACHE_LINE		64

static Buffer *remembered = NULL;
static uint32 remembered_mask;

static inline Buffer *
remembered_place(Relation index, BlockNumber block)
{
	return &remembered[(block + RelationGetRelid(index) * 0x9E3779B1U) & remembered_mask];
}

static void
start_remembering(void)
{
	uint32		size = 1024;

	while (size < (uint32) NBuffers && size < MAX_REMEMBERED)
		size *= 2;
	remembered = MemoryContextAllocZero(TopMemoryContext, size * sizeof(Buffer));
	remembered_mask = size - 1;
}

Buffer
hm_pin(Relation index, BlockNumber block)
{
	Buffer	   *place;

	if (RelationUsesLocalBuffers(index))
		return ReadBuffer(index, block);
	if (remembered == NULL)
		start_remembering();

	place = remembered_place(index, block);
	if (*place != InvalidBuffer)
	{
		BufferDesc *desc = GetBufferDescriptor(*place - 1);

		/*
		 * ReadRecentBuffer() does not count as use.  Leave it at that as long as the
		 * clock hand has not come by; after that the page counts as used.
		 */
		if (BUF_STATE_GET_USAGECOUNT(pg_atomic_read_u32(&desc->state)) > 0 &&
			ReadRecentBuffer(HmRelationLocator(index), MAIN_FORKNUM, block, *place))
		{
			pgstat_count_buffer_read(index);
			pgstat_count_buffer_hit(index);
			return *place;
		}
	}
	*place = ReadBuffer(index, block);
	return *place;
}

void
hm_pin_prefetch(Relation index, BlockNumber block, int from, int to)
{
	Buffer		buffer;
	char	   *page;

	if (remembered == NULL || RelationUsesLocalBuffers(index))
		return;
	buffer = *remembered_place(index, block);
	if (buffer == InvalidBuffer)
		return;
	__builtin_prefetch(GetBufferDescriptor(buffer - 1), 1);

	/* Addresses only: nothing is read of a page that is not pinned. */
	page = (char *) BufferGetPage(buffer);
	ht_prefetch(page + HT_PAGE_END);
	ht_prefetch(page + BLCKSZ - CACHE_LINE);
	for (int at = from; at <= to; at += CACHE_LINE)
		ht_prefetch(page + at);
}
