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
 * do no harm.  Where the whole list is sent, the directory is read for the sake of its lock: a
 * movement that had not counted its change of structure when its marks were taken has done so then.
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
#include "am/reader.h"
#include "compat.h"
#include "device/ahead.h"
#include "device/client.h"
#include "device/sync.h"

/* If the structure changes in this many attempts, the re-sync gives up. */
#define MAX_ATTEMPTS 30

/* A step of a re-sync ahead of batches sends about so many lines. */
#define STEP_LINES (2 * HM_AHEAD_LINES)

/* How long the last re-sync has waited for others to end theirs. */
static double waited_ns = 0;

/* Get staging memory for a list.  Returns NULL, and sets the reason, if there is none. */
static void *
list_staging(HmSync *sync, Size size)
{
	void *result = NULL;

	Assert(!sync->posted);
	if (size > HM_STAGING_MAX)
		sync->reason = HM_CPU_TOO_LARGE;
	else if ((result = hm_client_staging(Max(size, 1))) == NULL)
		sync->reason = HM_CPU_DEVICE_FAILED;
	return result;
}

/* Send the list itself. */
static bool
send_list(HmSync *sync, const HmLeafList *list)
{
	HpRequest request = hm_sync_request(sync, HP_SYNC_LEAVES);
	HpLeaf *out = list_staging(sync, list->count * sizeof(HpLeaf));

	if (out == NULL)
		return false;
	for (uint32 i = 0; i < list->count; i++)
	{
		out[i].low = hm_sent_bound(list->leaves[i].low);
		out[i].block = list->leaves[i].block;
		out[i].unused = 0;
	}
	request.count = list->count;
	sync->stats->counts.bytes_to_device += list->count * sizeof(HpLeaf);
	return hm_sync_ask(sync, &request);
}

/*
 * Send what is new in the list.  Sets *failed if these leaves do not show one state, although
 * nothing has changed: then the whole list has to be sent.
 */
static bool
send_new_leaves(HmSync *sync, const HmReadDirectory *directory, bool *failed)
{
	HpRequest request = hm_sync_request(sync, HP_SYNC_NEW_LEAVES);
	HpNewLeaf *out = list_staging(sync, sync->noted.count * sizeof(HpNewLeaf));
	int64 count;

	if (out == NULL)
		return false;
	count = sync->leaves->write_new(&sync->noted, directory, out);
	*failed = count < 0;
	if (count <= 0)
		return true;
	request.count = (uint32) count;
	sync->stats->counts.bytes_to_device += (uint64) count * sizeof(HpNewLeaf);
	return hm_sync_ask(sync, &request);
}

/* ----------------------------------------------------------------
 *		The whole re-sync
 * ----------------------------------------------------------------
 */

/* What has become of an attempt to send one state of the structure. */
typedef enum Attempt
{
	ATTEMPT_SENT,
	ATTEMPT_OUTRUN, /* the structure changed meanwhile: try again */
	ATTEMPT_FAILED  /* sync->reason says why */
} Attempt;

/* What attempts leave to the next one. */
typedef struct Sending
{
	uint64 copied;   /* the structure count of the copy's list and pages; 0: it has none */
	bool complete;   /* send the whole list */
	bool has_pages;  /* the copy has all pages but for what is marked */
	HmLeafList list; /* if it is to be sent */
} Sending;

/*
 * Has the structure not changed since it was at this count?  If marks have been taken that may be
 * of new leaves, the directory is read first.  A split has the leaves locked that it marks, until
 * it has counted its change.  A movement, or a backend that adds a segment, has not, but has the
 * directory locked all the while.  So what was not counted yet is counted by then.  The directory's
 * segments are the caller's to free.
 */
static bool
structure_stays(const HmSync *sync, uint64 count, bool may_be_new, HmReadDirectory *directory)
{
	if (may_be_new)
		sync->leaves->read_directory(sync->index, directory);
	pg_memory_barrier();
	return pg_atomic_read_u64(sync->watch.structure) == count;
}

/*
 * The pages show the structure at this count: send the list, or what is new in it.  If the new
 * leaves do not fit together, the next attempt sends the whole list.
 */
static Attempt
send_structure(HmSync *sync, Sending *sending, uint64 count, const HmReadDirectory *directory)
{
	bool failed = false;

	/*
	 * If the index has outgrown its words, leaves without a word have not been sent, even if the
	 * copy has room for them.
	 */
	if (pg_atomic_read_u32(sync->watch.overflow) != 0)
		return ATTEMPT_FAILED;
	if (sending->complete)
		return send_list(sync, &sending->list) ? ATTEMPT_SENT : ATTEMPT_FAILED;
	if (directory->segments == NULL || count == sending->copied)
		return ATTEMPT_SENT;
	if (!send_new_leaves(sync, directory, &failed))
		return ATTEMPT_FAILED;
	sending->complete = failed;
	return failed ? ATTEMPT_OUTRUN : ATTEMPT_SENT;
}

/*
 * Send the leaves' pages and the list as they are at a structure count, if that does not change
 * meanwhile.
 */
static Attempt
try_to_send(HmSync *sync, Sending *sending, uint64 count)
{
	HmReadDirectory directory = {0};
	Attempt result = ATTEMPT_OUTRUN;

	/* Some lines alone bring no page to another state of the structure than others. */
	if (count != sending->copied)
		sync->limit = 0;
	if (sending->complete && !sync->leaves->list(sync->index, sync->width, &sending->list))
		return ATTEMPT_OUTRUN;
	HM_FAULT(sync_listed);

	/* What is marked from here on is sent in the next attempt at the latest. */
	if (sending->has_pages ? !hm_sync_send_marked(sync) :
							 !hm_sync_send_leaves(sync, &sending->list))
		return sync->reason == HM_CPU_RESTLESS ? ATTEMPT_OUTRUN : ATTEMPT_FAILED;
	sending->has_pages = true;
	HM_FAULT(sync_copied);
	if (structure_stays(sync, count, sending->complete || sync->noted.count > 0, &directory))
		result = send_structure(sync, sending, count, &directory);
	if (directory.segments != NULL)
		pfree(directory.segments);
	return result;
}

/*
 * Bring the leaves' pages and the list to one state.  "copied" is the structure count of the
 * copy's list and pages, or 0 if it has none.  Returns the structure count at the end, or 0 on
 * failure.
 */
static uint64
send_state(HmSync *sync, uint64 copied)
{
	Sending sending = {.copied = copied, .complete = copied == 0, .has_pages = copied != 0};
	Attempt result = ATTEMPT_OUTRUN;
	uint64 count = 0;

	sync->reason = HM_CPU_RESTLESS;
	for (int attempt = 0; attempt < MAX_ATTEMPTS && result == ATTEMPT_OUTRUN; attempt++)
	{
		CHECK_FOR_INTERRUPTS();
		count = pg_atomic_read_u64(sync->watch.structure);
		result = try_to_send(sync, &sending, count);
	}
	if (sending.list.leaves != NULL)
		pfree(sending.list.leaves);
	if (sync->noted.leaves != NULL)
		pfree(sync->noted.leaves);
	return result == ATTEMPT_SENT ? count : 0;
}

/* Read the copy's name, and the attributes needed to search it. */
static void
read_metapage(HmSync *sync)
{
	Buffer buffer = hm_meta_buffer(sync->index, BUFFER_LOCK_SHARE);
	HmMeta *meta = hm_page_meta(BufferGetPage(buffer));

	hm_copy_name(sync->index, meta, &sync->name);
	sync->width = (HtWidth) meta->width;
	sync->leaves = sync->width <= HT_WIDTH64 ? &hm_leaf_methods : &hm_leaf_methods_128;
	sync->fanout = meta->fanout;
	UnlockReleaseBuffer(buffer);
}

/* Begin a sync.  Returns the reply, or NULL, also if the sync has been lost already. */
static const HpReply *
begin_sync(HmSync *sync, bool load)
{
	HpRequest request = hm_sync_request(sync, HP_SYNC_BEGIN);
	const HpReply *reply;
	instr_time start;

	request.create = load;
	request.width = sync->width;
	request.fanout = (uint32) sync->fanout;
	INSTR_TIME_SET_CURRENT(start);
	reply = hm_client_ask(&request);
	waited_ns += hm_ns_since(start) - (reply != NULL ? 1000.0 * reply->busy_us : 0);
	HM_FAULT(sync_granted);
	if (reply != NULL && reply->status == HP_OK && !hm_watch_begin_sync(&sync->watch, reply->sync))
		return NULL;
	return reply;
}

/* Why a request to begin or end a sync has failed; HM_CPU_NO_REASON if it has not. */
static HmCpuReason
why_refused(const HpReply *reply)
{
	if (reply != NULL && reply->status == HP_OK)
		return HM_CPU_NO_REASON;
	return reply != NULL && reply->status == HP_NO_MEMORY ? HM_CPU_DEVICE_MEMORY :
															HM_CPU_DEVICE_FAILED;
}

/* End a sync that has brought the copy to this structure count, and describe the copy. */
static HmCpuReason
end_sync(HmSync *sync, uint64 count, HmCopy *copy)
{
	HpRequest request = hm_sync_request(sync, HP_SYNC_END);
	const HpReply *reply;
	HmCpuReason reason;

	request.structure = count;
	reply = hm_client_ask(&request);
	reason = why_refused(reply);
	if (reason == HM_CPU_NO_REASON)
	{
		copy->structure = count;
		copy->memory = reply->copy_memory;
		copy->host_memory = reply->copy_host_memory;
	}
	return reason;
}

/* Begin a sync, send what has changed, and end the sync.  Returns the reason. */
static HmCpuReason
sync_copy(HmSync *sync, bool load, HmCopy *copy)
{
	const HpReply *reply = begin_sync(sync, load);
	HmCpuReason reason = why_refused(reply);
	uint64 copied = 0;
	uint64 count;

	if (reply == NULL && hm_client_gave_up())
		return HM_CPU_WAITING;
	if (reply != NULL && reply->status == HP_UNKNOWN)
	{
		sync->stats->counts.evictions++;
		return HM_CPU_NOT_RESIDENT;
	}
	if (reason != HM_CPU_NO_REASON)
		return reason;

	/* A copy that was not watched all the time is useless. */
	if (!reply->created &&
		hm_watch_same_count(reply->structure, pg_atomic_read_u64(sync->watch.structure)))
		copied = reply->structure;
	sync->reserved = reply->blocks;
	if (copied == 0)
	{
		sync->stats->counts.loads++;
		hm_watch_loads();
	}
	HM_FAULT(sync_begun);

	count = send_state(sync, copied);
	return count == 0 ? sync->reason : end_sync(sync, count, copy);
}

/*
 * Bring a copy up to date.  With "ahead" only if the index is watched, and maybe only in part.
 */
static HmCpuReason
sync_index(Relation index, bool load, bool ahead, HmCopy *copy, HmLookupStats *stats)
{
	HmSync sync = {0};
	HmCpuReason reason;
	uint64 blocks_before = stats->counts.synced_blocks;
	uint64 loads_before = stats->counts.loads;

	memset(copy, 0, sizeof(*copy));
	waited_ns = 0;
	sync.index = index;
	sync.stats = stats;
	if (RelationGetNumberOfBlocks(index) > HM_SYNC_MAX_BLOCKS)
		return HM_CPU_TOO_MANY_BLOCKS;
	if (!hm_client_connect())
		return HM_CPU_DEVICE_FAILED;
	read_metapage(&sync);
	copy->name = sync.name;
	if (ahead && !hm_watch_is_on(index, &sync.name))
		return HM_CPU_NOT_RESIDENT;
	switch (hm_watch_begin(&sync.name, RelationGetRelid(index), RelationGetNumberOfBlocks(index),
						   &sync.watch))
	{
		case HM_WATCH_TOO_LARGE:
			return HM_CPU_TOO_LARGE;
		case HM_WATCH_BUSY:
			return HM_CPU_BUSY;
		case HM_WATCHED:
			break;
	}

	/* A long re-sync is done in steps.  The last one brings the copy up to date. */
	if (ahead && (int64) pg_atomic_read_u64(sync.watch.owed) > STEP_LINES)
		sync.limit = STEP_LINES;
	reason = sync_copy(&sync, load, copy);
	if (stats->counts.loads > loads_before)
		stats->counts.synced_blocks = blocks_before;

	/* If a sync was begun, closing the connection makes the daemon drop the copy. */
	if (reason != HM_CPU_NO_REASON && reason != HM_CPU_NOT_RESIDENT)
		hm_client_close();
	hm_watch_end();
	if (reason != HM_CPU_NO_REASON && reason != HM_CPU_WAITING)
		hm_watch_forget(index);
	return reason;
}

HmCpuReason
hm_sync(Relation index, bool load, HmCopy *copy, HmLookupStats *stats)
{
	HmCpuReason reason = sync_index(index, load, false, copy, stats);

	if (reason == HM_CPU_NO_REASON)
		hm_copy_remember(copy);
	return reason;
}

void
hm_sync_ahead(Relation index, HmLookupStats *stats)
{
	HmCopy copy;

	(void) sync_index(index, false, true, &copy, stats);
}

double
hm_sync_waited(void)
{
	return waited_ns;
}

void
hm_copy_drop(Relation index)
{
	HmSync sync = {0};
	HpRequest request;

	if (!hm_client_connect())
		return;
	sync.index = index;
	read_metapage(&sync);
	request = hm_sync_request(&sync, HP_DROP);
	hm_client_ask(&request);
}
