/*
 * sync_pages.c
 *		The pages and lines that a re-sync sends.
 *
 * They are read under the page's share lock, together with its marks, and sent through
 * staging memory while the next ones are collected.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/rel.h"

#include "am/fault.h"
#include "am/format.h"
#include "am/progress.h"
#include "device/client.h"
#include "device/sync.h"

/*
 * How many lines or pages are sent in one request.  Most re-syncs send only a few
 * lines.  They would take longer with staging memory that is larger than the batch
 * itself needs.
 */
#define HALF_LINES 3584 /* two halves of them take 0.95 MB */
#define HALF_PAGES 1024

/* How many pages ahead are prefetched. */
#define AHEAD 8

HpRequest
hm_sync_request(const HmSync *sync, HpOperation operation)
{
	HpRequest request = {0};

	request.operation = operation;
	request.index = sync->name;
	return request;
}

/*
 * Wait for the answer to the last request, and note for how many blocks there is room.  If it is an
 * error, set the reason and return false.
 */
static bool
await_answer(HmSync *sync)
{
	const HpReply *reply;

	if (!sync->posted)
		return true;
	sync->posted = false;
	reply = hm_client_answer();
	if (reply == NULL)
		sync->reason = HM_CPU_DEVICE_FAILED;
	else if (reply->status == HP_NO_MEMORY)
		sync->reason = HM_CPU_DEVICE_MEMORY;
	else if (reply->status != HP_OK)
		sync->reason = HM_CPU_DEVICE_FAILED;
	else
	{
		sync->reserved = reply->blocks;
		return true;
	}
	return false;
}

bool
hm_sync_ask(HmSync *sync, HpRequest *request)
{
	if (!await_answer(sync))
		return false;
	sync->posted = hm_client_post(request);
	if (!sync->posted)
		sync->reason = HM_CPU_DEVICE_FAILED;
	return await_answer(sync);
}

/*
 * Make room for all blocks in the copy.  Sets *end to the number of blocks that the
 * index has now and that are watched.
 */
static bool
reserve(HmSync *sync, BlockNumber *end)
{
	HpRequest request = hm_sync_request(sync, HP_SYNC_RESERVE);

	*end = Min(RelationGetNumberOfBlocks(sync->index), sync->watch.blocks);
	if (*end > HM_SYNC_MAX_BLOCKS)
	{
		sync->reason = HM_CPU_TOO_MANY_BLOCKS;
		return false;
	}
	request.count = *end;

	/* The daemon may get memory part by part. */
	while (sync->reserved < request.count)
	{
		BlockNumber before = sync->reserved;

		if (!hm_sync_ask(sync, &request))
			return false;
		if (sync->reserved <= before)
		{
			sync->reason = HM_CPU_DEVICE_FAILED;
			return false;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/* ----------------------------------------------------------------
 *		Lines and pages
 * ----------------------------------------------------------------
 */

static inline uint32
half_room(const HmSync *sync)
{
	return sync->whole_pages ? HALF_PAGES : HALF_LINES;
}

static inline Size
item_size(const HmSync *sync)
{
	return sync->whole_pages ? BLCKSZ : HP_LINE_SIZE;
}

/* The size of a half of staging memory. */
static inline Size
half_size(const HmSync *sync)
{
	return half_room(sync) * (sizeof(uint32) + item_size(sync));
}

/* Begin to fill a half. */
static void
begin_half(HmSync *sync, int half)
{
	char *start = sync->staging + half * half_size(sync);

	sync->half = half;
	sync->numbers = (uint32 *) start;
	sync->data = start + half_room(sync) * sizeof(uint32);
	sync->count = 0;
}

static bool
begin_halves(HmSync *sync, bool whole_pages)
{
	/* An abandoned attempt may have left a request without answer. */
	if (!await_answer(sync))
		return false;
	sync->whole_pages = whole_pages;
	sync->staging = hm_client_staging(2 * half_size(sync));
	if (sync->staging == NULL)
	{
		sync->reason = HM_CPU_DEVICE_FAILED;
		return false;
	}
	begin_half(sync, 0);
	return true;
}

/*
 * Wait until the device has copied the other half, send the current one, and begin the
 * other.
 */
static bool
send_half(HmSync *sync)
{
	HpRequest request = hm_sync_request(sync, sync->whole_pages ? HP_SYNC_PAGES : HP_SYNC_LINES);

	if (sync->count == 0)
		return true;
	if (!await_answer(sync))
		return false;
	request.count = sync->count;
	request.numbers_at = (uint64) ((char *) sync->numbers - sync->staging);
	request.data_at = (uint64) (sync->data - sync->staging);
	sync->stats->counts.bytes_to_device += sync->count * (sizeof(uint32) + item_size(sync));
	sync->posted = hm_client_post(&request);
	if (!sync->posted)
	{
		sync->reason = HM_CPU_DEVICE_FAILED;
		return false;
	}
	begin_half(sync, 1 - sync->half);
	return true;
}

/* Send the rest and wait for the answer. */
static bool
end_halves(HmSync *sync)
{
	return send_half(sync) && await_answer(sync);
}

/* Copy lines of a locked page into the current half, which has room for them. */
static inline void
add_lines(HmSync *sync, BlockNumber block, Page page, uint64 lines)
{
	while (lines != 0)
	{
		int line = pg_rightmost_one_pos64(lines);

		sync->numbers[sync->count] = block * HP_PAGE_LINES + line;
		memcpy(sync->data + (Size) sync->count * HP_LINE_SIZE, (char *) page + line * HP_LINE_SIZE,
			   HP_LINE_SIZE);
		sync->count++;
		lines &= lines - 1;
	}
}

/*
 * Take the marks of a block and copy the marked lines of a leaf: the device reads leaves alone.  A
 * block that becomes a leaf later is marked again as a whole.  There are none for a backend that
 * has lost its sync; its next request will fail.
 */
static inline void
take_block(HmSync *sync, BlockNumber block)
{
	Buffer buffer = hm_pin(sync->index, block);
	uint64 lines;

	HM_FAULT(sync_page_pinned);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	lines =
		hm_watch_in_sync(&sync->watch) ? pg_atomic_exchange_u64(&sync->watch.words[block], 0) : 0;
	if (hm_page_is(BufferGetPage(buffer), HM_PAGE_LEAF))
	{
		add_lines(sync, block, BufferGetPage(buffer), lines);
		if (lines == HM_ALL_LINES)
			sync->leaves->note(&sync->noted, buffer);
		sync->stats->synced_lines += pg_popcount64(lines);
		sync->stats->counts.synced_blocks++;
	}
	UnlockReleaseBuffer(buffer);
}

/* Prefetch what take_block() will read. */
static inline void
prefetch_block(HmSync *sync, BlockNumber block, uint64 lines)
{
	hm_pin_expect(sync->index, block, (Buffer) pg_atomic_read_u32(&sync->watch.buffers[block]));
	hm_pin_prefetch_lines(sync->index, block, lines);
}

/*
 * Are there marks to be taken?  The flag is lowered before any is.  With a limit it stays: a
 * backend that finds it lowered relies on this re-sync to send all that was marked before.
 */
static bool
begin_marked(HmSync *sync)
{
	if (sync->limit > 0)
		return true;
	if (!hm_watch_lower_flag(&sync->watch))
		return false;

	/* Lines that are marked from here on may be counted, and taken nevertheless. */
	pg_atomic_write_u64(sync->watch.owed, 0);
	return true;
}

bool
hm_sync_send_marked(HmSync *sync)
{
	BlockNumber ahead[AHEAD];
	uint32 in = 0, out = 0;
	BlockNumber end;
	HmMarkWalk walk;
	bool more = true;
	uint64 before = sync->stats->synced_lines;

	if (!begin_marked(sync))
		return true;
	if (!reserve(sync, &end) || !begin_halves(sync, false))
		return false;
	hm_watch_walk_marks(&sync->watch, &walk);
	while (more || out != in)
	{
		BlockNumber block;
		uint64 lines;

		if (more && sync->limit > 0 && sync->stats->synced_lines - before >= sync->limit)
		{
			hm_watch_stop_walk(&walk);
			more = false;
		}
		more = more && hm_watch_next_marked(&walk, &block, &lines);
		if (more)
		{
			/* The file may have grown, and that block have been marked, since we looked. */
			if (block >= end && !reserve(sync, &end))
				return false;

			/* Marks of a block that was cut off say nothing. */
			if (block >= end)
				continue;
			prefetch_block(sync, block, lines);
			ahead[in++ % AHEAD] = block;
			if (in - out < AHEAD)
				continue;
		}
		else if (out == in)
			break;
		CHECK_FOR_INTERRUPTS();
		if (sync->count + HP_PAGE_LINES > HALF_LINES && !send_half(sync))
			return false;
		take_block(sync, ahead[out++ % AHEAD]);
	}
	if (sync->limit > 0)
		pg_atomic_fetch_sub_u64(sync->watch.owed, (int64) (sync->stats->synced_lines - before));
	return end_halves(sync);
}

bool
hm_sync_send_leaves(HmSync *sync, const HmLeafList *list)
{
	BlockNumber end;

	if (!reserve(sync, &end) || !begin_halves(sync, true))
		return false;
	pg_atomic_write_u64(sync->watch.owed, 0);
	hm_progress_phase(HM_PROGRESS_COPYING, 0, list->count);
	for (uint32 i = 0; i < list->count; i++)
	{
		const HmListedLeaf *leaf = &list->leaves[i];
		Buffer buffer;
		Page page;
		bool is_leaf;

		CHECK_FOR_INTERRUPTS();
		if (leaf->block >= end)
			return false;
		if (sync->count == HALF_PAGES)
		{
			hm_progress_blocks(i);
			if (!send_half(sync))
				return false;
		}
		buffer = hm_pin(sync->index, leaf->block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		is_leaf = hm_page_is_leaf_of(page, leaf->stamp);
		if (is_leaf)
		{
			if (hm_watch_in_sync(&sync->watch))
				pg_atomic_write_u64(&sync->watch.words[leaf->block], 0);
			sync->numbers[sync->count] = leaf->block;
			memcpy(sync->data + (Size) sync->count * BLCKSZ, page, BLCKSZ);
			sync->count++;
		}
		UnlockReleaseBuffer(buffer);
		if (!is_leaf)
			return false;
	}
	return end_halves(sync);
}
