/*
 * sync.c
 *		Bringing the device's copy of an index up to date.
 *
 * A re-sync sends the lines of leaves that have been marked since the last one and, if
 * the structure has changed, what is new in the list of leaves.  It takes a page's marks and
 * reads its lines under one share lock.  So the copy of a page shows the page as it was at one
 * moment after the call began.
 *
 * Each entry is in exactly one leaf, and in that leaf's copy, only if the list and the
 * pages show one state of the structure.  The structure count, read before and after,
 * tells.  If it has changed, the pages that were marked in the meantime are sent, too.  At
 * the end the daemon is told the count, and others may search.
 *
 * A change of structure marks leaves that it makes, or gives other bounds, as a whole.  So
 * those that are new since the last re-sync are among the pages that are marked so, and a leaf
 * says where its place is.  A page may look like a leaf and belong to no segment that is alive.
 * The directory tells.  It is read after the marks were taken: a movement has the directory
 * locked while it marks the leaves of new segments, so what was marked is alive by then, or
 * never will be without being marked again.  New leaves that are sent twice, or were not new,
 * do no harm.
 *
 * The daemon lets one client at a time do this.  If the re-sync fails in the middle,
 * because of an error or a cancelled query, the connection is closed and the daemon
 * drops the copy.  So it does no harm that marks have been taken.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/rel.h"

#include "am/fault.h"
#include "am/format.h"
#include "am/progress.h"
#include "am/reader.h"
#include "compat.h"
#include "lookup/remote.h"

/* If the structure changes in this many attempts, the re-sync gives up. */
#define MAX_ATTEMPTS		30

/* Larger indexes are not sent. */
#ifdef HM_SMALL_LIMITS
#define MAX_BLOCKS			2000
#else
#define MAX_BLOCKS			HP_MAX_BLOCKS
#endif

/*
 * How many lines or pages are sent in one request.  Most re-syncs send only a few
 * lines.  They would take longer with staging memory that is larger than the batch
 * itself needs.
 */
#define HALF_LINES			3584	/* two halves of them take 0.95 MB */
#define HALF_PAGES			1024

/* How many pages ahead are prefetched. */
#define AHEAD				8

typedef struct Sync
{
	Relation	index;
	HtWidth		width;
	int			fanout;
	HpIndexName name;
	HmWatch		watch;
	BlockNumber reserved;		/* blocks that the copy is known to have room for */
	HmNotedLeaves noted;		/* that may be new */
	HmLookupStats *stats;		/* to add to */
	HmCpuReason reason;		/* of a failure */

	/*
	 * Lines or pages are collected in one half of staging memory, while the device
	 * copies from the other half.
	 */
	bool		whole_pages;
	char	   *staging;
	int			half;
	bool		posted;			/* the last request has not been answered */
	uint32	   *numbers;
	char	   *data;
	uint32		count;
} Sync;

static HpRequest
request_for(const Sync *sync, HpOperation operation)
{
	HpRequest	request = {0};

	request.operation = operation;
	request.index = sync->name;
	return request;
}

/*
 * Wait for the answer to the last request.  If it is an error, set the reason and
 * return false.
 */
static bool
await_answer(Sync *sync)
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
		return true;
	return false;
}

/* Send a request of the sync and wait for its answer.  Returns false after an error. */
static bool
ask(Sync *sync, HpRequest *request)
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
reserve(Sync *sync, BlockNumber *end)
{
	HpRequest	request = request_for(sync, HP_SYNC_RESERVE);

	*end = Min(RelationGetNumberOfBlocks(sync->index), sync->watch.blocks);
	if (*end > MAX_BLOCKS)
	{
		sync->reason = HM_CPU_TOO_MANY_BLOCKS;
		return false;
	}
	if (*end <= sync->reserved)
		return true;
	request.count = sync->reserved = *end;
	return ask(sync, &request);
}

/* ----------------------------------------------------------------
 *		Lines and pages
 * ----------------------------------------------------------------
 */

static inline uint32
half_room(const Sync *sync)
{
	return sync->whole_pages ? HALF_PAGES : HALF_LINES;
}

static inline Size
item_size(const Sync *sync)
{
	return sync->whole_pages ? BLCKSZ : HP_LINE_SIZE;
}

/* The size of a half of staging memory. */
static inline Size
half_size(const Sync *sync)
{
	return half_room(sync) * (sizeof(uint32) + item_size(sync));
}

/* Begin to fill a half. */
static void
begin_half(Sync *sync, int half)
{
	char	   *start = sync->staging + half * half_size(sync);

	sync->half = half;
	sync->numbers = (uint32 *) start;
	sync->data = start + half_room(sync) * sizeof(uint32);
	sync->count = 0;
}

static bool
begin_halves(Sync *sync, bool whole_pages)
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
send_half(Sync *sync)
{
	HpRequest	request = request_for(sync, sync->whole_pages ? HP_SYNC_PAGES : HP_SYNC_LINES);

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
end_halves(Sync *sync)
{
	return send_half(sync) && await_answer(sync);
}

/* Copy lines of a locked page into the current half, which has room for them. */
static inline void
add_lines(Sync *sync, BlockNumber block, Page page, uint64 lines)
{
	while (lines != 0)
	{
		int			line = pg_rightmost_one_pos64(lines);

		sync->numbers[sync->count] = block * HP_PAGE_LINES + line;
		memcpy(sync->data + (Size) sync->count * HP_LINE_SIZE,
			   (char *) page + line * HP_LINE_SIZE, HP_LINE_SIZE);
		sync->count++;
		lines &= lines - 1;
	}
}

/*
 * Take the marks of a block and copy the marked lines.  The device reads leaves alone.  A block
 * that becomes a leaf later is marked again as a whole.
 */
static inline void
take_block(Sync *sync, BlockNumber block)
{
	Buffer		buffer = hm_pin(sync->index, block);
	uint64		lines;

	HM_FAULT(sync_page_pinned);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	lines = pg_atomic_exchange_u64(&sync->watch.words[block], 0);
	if (hm_page_is(BufferGetPage(buffer), HM_PAGE_LEAF))
	{
		add_lines(sync, block, BufferGetPage(buffer), lines);
		if (lines == HM_ALL_LINES)
			hm_new_leaf_note(&sync->noted, buffer);
		sync->stats->synced_lines += pg_popcount64(lines);
		sync->stats->counts.synced_blocks++;
	}
	UnlockReleaseBuffer(buffer);
}

/* Prefetch what take_block() will read. */
static inline void
prefetch_block(Sync *sync, BlockNumber block, uint64 lines)
{
	hm_pin_expect(sync->index, block, (Buffer) pg_atomic_read_u32(&sync->watch.buffers[block]));
	hm_pin_prefetch_lines(sync->index, block, lines);
}

/* Send all marked lines. */
static bool
send_marked(Sync *sync)
{
	BlockNumber ahead[AHEAD];
	uint32		in = 0,
				out = 0;
	BlockNumber end;
	HmMarkWalk	walk;
	bool		more = true;

	if (pg_atomic_exchange_u32(sync->watch.marked, 0) == 0)
		return true;

	if (!reserve(sync, &end) || !begin_halves(sync, false))
		return false;
	hm_device_walk_marks(&sync->watch, &walk);
	while (more || out != in)
	{
		BlockNumber block;
		uint64		lines;

		more = more && hm_device_next_marked(&walk, &block, &lines);
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
	return end_halves(sync);
}

/*
 * Send all pages of the list.  Also returns false if a page is not the leaf of the
 * list; then sync->reason is unchanged and a request may be unanswered.
 */
static bool
send_leaves(Sync *sync, const HmLeafList *list)
{
	BlockNumber end;

	if (!reserve(sync, &end) || !begin_halves(sync, true))
		return false;
	hm_progress_phase(HM_PROGRESS_COPYING, 0, list->count);
	for (uint32 i = 0; i < list->count; i++)
	{
		const HmListedLeaf *leaf = &list->leaves[i];
		Buffer		buffer;
		Page		page;
		bool		is_leaf;

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
		is_leaf = hm_page_is(page, HM_PAGE_LEAF) && hm_page_special(page)->stamp == leaf->stamp;
		if (is_leaf)
		{
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

/* Get staging memory for a list.  Returns NULL, and sets the reason, if there is none. */
static void *
list_staging(Sync *sync, Size size)
{
	void	   *result = NULL;

	Assert(!sync->posted);
	if (size > HM_STAGING_MAX)
		sync->reason = HM_CPU_TOO_LARGE;
	else if ((result = hm_client_staging(Max(size, 1))) == NULL)
		sync->reason = HM_CPU_DEVICE_FAILED;
	return result;
}

/* Send the list itself. */
static bool
send_list(Sync *sync, const HmLeafList *list)
{
	Size		size = list->count * sizeof(HpLeaf);
	HpRequest	request = request_for(sync, HP_SYNC_LEAVES);
	HpLeaf	   *out = list_staging(sync, size);

	if (out == NULL)
		return false;
	for (uint32 i = 0; i < list->count; i++)
	{
		out[i].low = list->leaves[i].low;
		out[i].block = list->leaves[i].block;
		out[i].unused = 0;
	}
	request.count = list->count;
	sync->stats->counts.bytes_to_device += size;
	return ask(sync, &request);
}

/*
 * Send what is new in the list.  Sets *failed if these leaves do not show one state, although
 * nothing has changed: then the whole list has to be sent.
 */
static bool
send_new_leaves(Sync *sync, const HmDirectoryEntry *segments, int segment_count, bool *failed)
{
	HpRequest	request = request_for(sync, HP_SYNC_NEW_LEAVES);
	HpNewLeaf  *out = list_staging(sync, sync->noted.count * sizeof(HpNewLeaf));
	int64		count;

	if (out == NULL)
		return false;
	count = hm_new_leaves_write(&sync->noted, segments, segment_count, out);
	*failed = count < 0;
	if (count <= 0)
		return true;
	request.count = (uint32) count;
	sync->stats->counts.bytes_to_device += (uint64) count * sizeof(HpNewLeaf);
	return ask(sync, &request);
}

/* ----------------------------------------------------------------
 *		The whole re-sync
 * ----------------------------------------------------------------
 */

/*
 * Bring the leaves' pages and the list to one state.  "copied" is the structure count of the
 * copy's list and pages, or 0 if it has none.  Returns the structure count at the end, or 0 on
 * failure.
 */
static uint64
send_state(Sync *sync, uint64 copied)
{
	HmLeafList	list = {0};
	bool		complete = copied == 0; /* send the whole list */
	bool		has_pages = !complete;
	uint64		result = 0;

	sync->reason = HM_CPU_RESTLESS;
	for (int attempt = 0; attempt < MAX_ATTEMPTS && result == 0; attempt++)
	{
		uint64		count = pg_atomic_read_u64(sync->watch.structure);
		HmDirectoryEntry *segments = NULL;
		int			segment_count = 0;
		bool		failed = false;

		CHECK_FOR_INTERRUPTS();
		if (complete && !hm_leaves_list(sync->index, sync->width, &list))
			continue;
		HM_FAULT(sync_listed);
		if (!has_pages)
		{
			/* What is marked from here on is sent in the next attempt at the latest. */
			if (!send_leaves(sync, &list))
			{
				if (sync->reason != HM_CPU_RESTLESS)
					break;
				continue;
			}
			has_pages = true;
		}
		else if (!send_marked(sync))
			break;
		HM_FAULT(sync_copied);
		if (!complete && sync->noted.count > 0)
		{
			BlockNumber *pages;
			int			page_count;

			segments = hm_directory_read(sync->index, &segment_count, &pages, &page_count);
			pfree(pages);
		}

		pg_memory_barrier();
		if (pg_atomic_read_u64(sync->watch.structure) == count)
		{
			/*
			 * If the index has outgrown its words, leaves without a word have not been sent,
			 * even if the copy has room for them.
			 */
			if (pg_atomic_read_u32(sync->watch.overflow) != 0)
				attempt = MAX_ATTEMPTS;
			else if (complete ? send_list(sync, &list) : segments == NULL || count == copied ||
					 send_new_leaves(sync, segments, segment_count, &failed))
				result = failed ? 0 : count;
			else
				attempt = MAX_ATTEMPTS;
			complete |= failed;
		}
		if (segments != NULL)
			pfree(segments);
	}
	if (list.leaves != NULL)
		pfree(list.leaves);
	if (sync->noted.leaves != NULL)
		pfree(sync->noted.leaves);
	return result;
}

/* Read the copy's name, and the attributes needed to search it. */
static void
read_metapage(Sync *sync)
{
	Buffer		buffer = hm_meta_buffer(sync->index, BUFFER_LOCK_SHARE);
	HmMeta	   *meta = hm_page_meta(BufferGetPage(buffer));

	sync->name.build_id = meta->build_id;
	sync->width = (HtWidth) meta->width;
	sync->fanout = meta->fanout;
	UnlockReleaseBuffer(buffer);
	hm_index_file(sync->index, &sync->name.database, &sync->name.tablespace,
				  &sync->name.relfilenode);
}

/* Begin a sync, send what has changed, and end the sync.  Returns the reason. */
static HmCpuReason
sync_copy(Sync *sync, bool load, HmCopy *copy)
{
	HpRequest	request = request_for(sync, HP_SYNC_BEGIN);
	const HpReply *reply;
	uint64		copied = 0;
	uint64		count;

	request.create = load;
	request.width = sync->width;
	request.fanout = (uint32) sync->fanout;
	reply = hm_client_ask(&request);
	if (reply == NULL)
		return hm_client_gave_up() ? HM_CPU_WAITING : HM_CPU_DEVICE_FAILED;
	if (reply->status == HP_UNKNOWN)
	{
		sync->stats->counts.evictions++;
		return HM_CPU_NOT_RESIDENT;
	}
	if (reply->status == HP_NO_MEMORY)
		return HM_CPU_DEVICE_MEMORY;
	if (reply->status != HP_OK)
		return HM_CPU_DEVICE_FAILED;

	/* A copy that was not watched all the time is useless. */
	if (!reply->created &&
		hm_device_same_count(reply->structure, pg_atomic_read_u64(sync->watch.structure)))
		copied = reply->structure;
	if (copied == 0)
	{
		sync->stats->counts.loads++;
		hm_device_loads();
	}
	sync->reserved = reply->blocks;
	HM_FAULT(sync_begun);

	count = send_state(sync, copied);
	if (count == 0)
		return sync->reason;
	request = request_for(sync, HP_SYNC_END);
	request.structure = count;
	reply = hm_client_ask(&request);
	if (reply == NULL || reply->status != HP_OK)
		return reply != NULL && reply->status == HP_NO_MEMORY ? HM_CPU_DEVICE_MEMORY :
			HM_CPU_DEVICE_FAILED;
	copy->structure = count;
	copy->memory = reply->copy_memory;
	return HM_CPU_NO_REASON;
}

HmCpuReason
hm_sync(Relation index, bool load, HmCopy *copy, HmLookupStats *stats)
{
	Sync		sync = {0};
	HmCpuReason reason;
	uint64		blocks_before = stats->counts.synced_blocks;
	uint64		loads_before = stats->counts.loads;

	memset(copy, 0, sizeof(*copy));
	sync.index = index;
	sync.stats = stats;
	if (RelationGetNumberOfBlocks(index) > MAX_BLOCKS)
		return HM_CPU_TOO_MANY_BLOCKS;
	if (!hm_client_connect())
		return HM_CPU_DEVICE_FAILED;
	read_metapage(&sync);
	copy->name = sync.name;
	switch (hm_device_watch(&sync.name, RelationGetRelid(index),
							RelationGetNumberOfBlocks(index), &sync.watch))
	{
		case HM_WATCH_TOO_LARGE:
			return HM_CPU_TOO_LARGE;
		case HM_WATCH_BUSY:
			return HM_CPU_BUSY;
		case HM_WATCHED:
			break;
	}

	reason = sync_copy(&sync, load, copy);
	if (stats->counts.loads > loads_before)
		stats->counts.synced_blocks = blocks_before;

	/* If a sync was begun, closing the connection makes the daemon drop the copy. */
	if (reason != HM_CPU_NO_REASON && reason != HM_CPU_NOT_RESIDENT)
		hm_client_close();
	hm_device_release();
	if (reason != HM_CPU_NO_REASON && reason != HM_CPU_WAITING)
		hm_device_forget(index);
	return reason;
}

bool
hm_copy_is_current(Relation index, const HmCopy *copy)
{
	return copy->structure != 0 && hm_client_connect() &&
		hm_device_is_unmarked(index, &copy->name, copy->structure);
}

void
hm_copy_drop(Relation index)
{
	Sync		sync = {0};
	HpRequest	request;

	if (!hm_client_connect())
		return;
	sync.index = index;
	read_metapage(&sync);
	request = request_for(&sync, HP_DROP);
	hm_client_ask(&request);
}
