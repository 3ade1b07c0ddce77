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
 * do no harm.  Where the whole list is sent, the directory is read for the sake of its lock: a movement
 * that had not counted its change of structure when its marks were taken has done so then.
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
#include "lookup/sync_state.h"

/* If the structure changes in this many attempts, the re-sync gives up. */
#define MAX_ATTEMPTS		30

/* A step of a re-sync ahead of batches sends about so many lines. */
#define STEP_LINES			(2 * HM_AHEAD_LINES)

/*
 * A partial copy has this share of its places free when it is made, and room for a few zones.  If a
 * smaller share is free later, zones leave it.
 */
#define FREE_SHARE			64
#define FREE_ZONES			2
#define FULL_SHARE			256

/* At most this share of a copy is exchanged in one re-sync. */
#define EXCHANGE_SHARE		16

/* The heat of zones is looked at after so many probes for each zone. */
#define HEAT_A_ZONE			64

/* An index is not divided if fewer blocks than this would fit. */
#define MIN_ROOM			64

/* How long the last re-sync has waited for others to end theirs. */
static double waited_ns = 0;

/* Get staging memory for a list.  Returns NULL, and sets the reason, if there is none. */
static void *
list_staging(HmSync *sync, Size size)
{
	void	   *result = NULL;

	Assert(!sync->posted);
	if (size > HM_STAGING_MAX)
		sync->reason = HM_CPU_TOO_LARGE;
	else if ((result = hm_client_staging(Max(size, 1))) == NULL)
		sync->reason = HM_CPU_DEVICE_FAILED;
	return result;
}

/* Is the list's leaf i to be sent? */
static bool
is_sent(const HmSync *sync, const HmLeafList *list, const bool *flags, uint32 i)
{
	return flags == NULL || hm_sync_leaf_touches(sync, flags, list, i);
}

/* Send the list itself; unless flags is NULL, only leaves that touch zones with a flag. */
static bool
send_list(HmSync *sync, const HmLeafList *list, const bool *flags)
{
	HpRequest	request = hm_sync_request(sync, HP_SYNC_LEAVES);
	HpLeaf	   *out;
	uint32		count = 0;

	for (uint32 i = 0; i < list->count; i++)
		count += is_sent(sync, list, flags, i);
	out = list_staging(sync, count * sizeof(HpLeaf));
	if (out == NULL)
		return false;
	for (uint32 i = 0; i < list->count; i++)
	{
		if (!is_sent(sync, list, flags, i))
			continue;
		out->low = hm_sent_bound(list->leaves[i].low);
		out->block = list->leaves[i].block;
		out->unused = 0;
		out++;
	}
	request.count = count;
	sync->stats->counts.bytes_to_device += count * sizeof(HpLeaf);
	return hm_sync_ask(sync, &request);
}

/*
 * Send what is new in the list.  Sets *failed if these leaves do not show one state, although
 * nothing has changed: then the whole list has to be sent.
 */
static bool
send_new_leaves(HmSync *sync, const HmReadDirectory *directory, bool *failed)
{
	HpRequest	request = hm_sync_request(sync, HP_SYNC_NEW_LEAVES);
	HpNewLeaf  *out = list_staging(sync, sync->noted.count * sizeof(HpNewLeaf));
	int64		count;

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
 *		Zones of a partial copy
 * ----------------------------------------------------------------
 */

/* Get the zones that the copy has.  Returns false, and sets the reason, on failure. */
static bool
get_zones(HmSync *sync, const HpReply *begun)
{
	HpRequest	request = hm_sync_request(sync, HP_SYNC_GET_ZONES);
	uint64		number = begun->zones;
	uint32		count = begun->zone_count;
	HpZone	   *staging;

	sync->zones = hm_zones_find(number);
	if (sync->zones != NULL)
		return true;
	staging = list_staging(sync, HP_MAX_ZONES * sizeof(HpZone));
	if (staging == NULL || !hm_sync_ask(sync, &request))
		return false;
	sync->zones = hm_zones_take(number, staging, count);
	if (sync->zones == NULL)
		sync->reason = HM_CPU_DEVICE_FAILED;
	return sync->zones != NULL;
}

static bool
send_zones(HmSync *sync)
{
	HpRequest	request = hm_sync_request(sync, HP_SYNC_ZONES);
	HpZone	   *staging = list_staging(sync, sync->zones->count * sizeof(HpZone));

	if (staging == NULL)
		return false;
	hm_zones_write(sync->zones, staging);
	request.count = sync->zones->count;
	request.zones = sync->zones->number;
	return hm_sync_ask(sync, &request);
}

/* How many places to leave free of so many, in an index with so many leaves and zones. */
static uint32
free_places(uint32 room, uint32 leaves, uint32 zones)
{
	return Min(room / 2, Max(room / FREE_SHARE, FREE_ZONES * leaves / zones));
}

/* The number of leaves that begin in each zone. */
static uint32 *
count_leaves(const HmZones *zones, const HmLeafList *list)
{
	uint32	   *leaves = palloc0(zones->count * sizeof(uint32));

	for (uint32 i = 0; i < list->count; i++)
		leaves[hm_zone_of(zones, sizeof(HmKey), list->leaves[i].low.key)]++;
	return leaves;
}

/*
 * Divide the index of a new partial copy into zones, and make those resident that the batch at hand has
 * most probes in.  Some places are left free for leaves that are split, and for exchanges.
 */
static bool
choose_zones(HmSync *sync, const HmLeafList *list)
{
	HmKey	   *lows = palloc_extended(Max(1, list->count) * sizeof(HmKey), MCXT_ALLOC_HUGE);
	uint32	   *heat = palloc0(HP_MAX_ZONES * sizeof(uint32));
	uint32	   *leaves;
	double		share;

	for (uint32 i = 0; i < list->count; i++)
		lows[i] = list->leaves[i].low.key;
	sync->zones = hm_zones_divide(RelationGetRelid(sync->index), lows, list->count);
	leaves = count_leaves(sync->zones, list);
	if (sync->probes != NULL)
		(void) hm_zones_count(sync->zones, sync->probes, hm_key_size(sync->width), heat);
	share = hm_zones_choose(sync->zones, heat, leaves,
							sync->room - free_places(sync->room, list->count, sync->zones->count));
	hm_heat_set_share(RelationGetRelid(sync->index), share);
	memcpy(sync->added, sync->zones->resident, sizeof(sync->added));
	pfree(lows);
	pfree(heat);
	pfree(leaves);
	return send_zones(sync);
}

/*
 * Have hot zones take the place of cold ones.  The list is cut down to the leaves of zones that stay, so that
 * the daemon can give the places of others to what comes.  All leaves are in the list that was read: the
 * caller has found that the structure has not changed meanwhile.
 */
static bool
exchange_zones(HmSync *sync, const HmLeafList *list, const uint32 *heat)
{
	HmZones    *changed = hm_zones_change(sync->zones);
	uint32	   *leaves = count_leaves(changed, list);
	bool	   *stay = palloc0(HP_MAX_ZONES * sizeof(bool));
	bool		result;

	hm_zones_exchange(changed, heat, leaves, (int64) sync->free - (int64) free_places(sync->room, list->count, changed->count),
					  sync->room / EXCHANGE_SHARE);
	for (uint32 i = 0; i < changed->count; i++)
	{
		stay[i] = changed->resident[i] && sync->zones->resident[i];
		sync->added[i] = changed->resident[i] && !sync->zones->resident[i];
	}
	sync->zones = changed;
	pfree(leaves);
	result = send_list(sync, list, stay) && send_zones(sync);
	pfree(stay);
	return result;
}

/*
 * Is it time to exchange zones of the copy?  If so, returns the heat.  It is looked at after so many
 * probes that equally hot zones do not differ much; and if leaves that were split have used up nearly all places.
 */
static uint32 *
want_exchange(const HmSync *sync)
{
	const HmZones *zones = sync->zones;
	bool		full;
	uint32	   *heat;

	if (zones == NULL || sync->probes == NULL)
		return NULL;
	full = sync->free < sync->room / FULL_SHARE;
	heat = palloc(HP_MAX_ZONES * sizeof(uint32));
	if (hm_heat_read(RelationGetRelid(sync->index), hm_zones_division(zones->number),
					 full ? 0 : (uint64) HEAT_A_ZONE * zones->count, heat, zones->count) &&
		(full || hm_zones_want_exchange(zones, heat)))
		return heat;
	pfree(heat);
	return NULL;
}

/* ----------------------------------------------------------------
 *		The whole re-sync
 * ----------------------------------------------------------------
 */

/*
 * Has the structure not changed since it was at this count?  Marks have been taken that may be of new leaves.  A split has the
 * leaves locked that it marks, until it has counted its change.  A movement, or who adds a segment, has not, but has the directory
 * locked all the while.  So that is read before the count is: what was not counted yet is counted then.  Sets *directory to it;
 * its segments are the caller's to free.
 */
static bool
structure_stays(const HmSync *sync, uint64 count, HmReadDirectory *directory)
{
	sync->leaves->read_directory(sync->index, directory);
	pg_memory_barrier();
	return pg_atomic_read_u64(sync->watch.structure) == count;
}

/*
 * Bring the leaves' pages and the list to one state.  "copied" is the structure count of the
 * copy's list and pages, or 0 if it has none.  Returns the structure count at the end, or 0 on
 * failure.
 */
static uint64
send_state(HmSync *sync, uint64 copied)
{
	HmLeafList	list = {0};
	uint32	   *heat = copied != 0 ? want_exchange(sync) : NULL;
	bool		complete = copied == 0 || heat != NULL;	/* send the whole list */
	bool		has_pages = !complete;
	uint64		result = 0;

	sync->reason = HM_CPU_RESTLESS;
	for (int attempt = 0; attempt < MAX_ATTEMPTS && result == 0; attempt++)
	{
		uint64		count = pg_atomic_read_u64(sync->watch.structure);
		HmReadDirectory directory = {0};
		bool		failed = false;
		bool		stays;

		CHECK_FOR_INTERRUPTS();

		/* Some lines alone bring no page to another state of the structure than others. */
		if (count != copied)
			sync->limit = 0;
		if (complete && !sync->leaves->list(sync->index, sync->width, &list))
			continue;
		HM_FAULT(sync_listed);
		if (sync->partial && sync->zones == NULL && !choose_zones(sync, &list))
			break;
		if (heat != NULL)
		{
			/* First bring what has changed in zones that stay: the list leads to it. */
			if (!hm_sync_send_marked(sync))
				break;
			stays = structure_stays(sync, count, &directory);
			pfree(directory.segments);
			directory.segments = NULL;
			if (!stays)
				continue;
			if (!exchange_zones(sync, &list, heat))
				break;
			pfree(heat);
			heat = NULL;
			sync->exchanged = true;
			HM_FAULT(sync_listed);
		}
		if (!has_pages)
		{
			/* What is marked from here on is sent in the next attempt at the latest. */
			if (!hm_sync_send_leaves(sync, &list))
			{
				if (sync->reason != HM_CPU_RESTLESS)
					break;
				continue;
			}
			/* Zones that stay may have changed since an earlier attempt has exchanged the others. */
			if (sync->exchanged && !hm_sync_send_marked(sync))
				break;
			has_pages = true;
		}
		else if (!hm_sync_send_marked(sync))
			break;
		HM_FAULT(sync_copied);

		/* New leaves of a complete list need not have been noted: their zone may not be resident. */
		if (complete || sync->noted.count > 0)
			stays = structure_stays(sync, count, &directory);
		else
		{
			pg_memory_barrier();
			stays = pg_atomic_read_u64(sync->watch.structure) == count;
		}
		if (stays)
		{
			/*
			 * If the index has outgrown its words, leaves without a word have not been sent,
			 * even if the copy has room for them.
			 */
			if (pg_atomic_read_u32(sync->watch.overflow) != 0)
				attempt = MAX_ATTEMPTS;
			else if (complete ? send_list(sync, &list, sync->zones == NULL ? NULL : sync->zones->resident) : directory.segments == NULL || count == copied ||
					 send_new_leaves(sync, &directory, &failed))
				result = failed ? 0 : count;
			else
				attempt = MAX_ATTEMPTS;
			complete |= failed;
		}
		if (directory.segments != NULL)
			pfree(directory.segments);
	}
	if (list.leaves != NULL)
		pfree(list.leaves);
	if (sync->noted.leaves != NULL)
		pfree(sync->noted.leaves);
	return result;
}

/* Read the copy's name, and the attributes needed to search it. */
static void
read_metapage(HmSync *sync)
{
	Buffer		buffer = hm_meta_buffer(sync->index, BUFFER_LOCK_SHARE);
	HmMeta	   *meta = hm_page_meta(BufferGetPage(buffer));

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
	HpRequest	request = hm_sync_request(sync, HP_SYNC_BEGIN);
	const HpReply *reply;
	instr_time	start;

	request.create = load;
	request.width = sync->width;
	request.fanout = (uint32) sync->fanout;
	INSTR_TIME_SET_CURRENT(start);
	reply = hm_client_ask(&request);
	waited_ns += hm_ns_since(start) - (reply != NULL ? 1000.0 * reply->busy_us : 0);
	HM_FAULT(sync_granted);
	if (reply != NULL && reply->status == HP_OK && !hm_device_begin_sync(&sync->watch, reply->sync))
		return NULL;
	return reply;
}

/*
 * Begin to make a copy: a partial one if the index does not fit.  What the daemon has is no longer
 * useful; a whole copy's memory is, for another whole copy.  Returns the reply, or NULL.
 */
static const HpReply *
begin_copy(HmSync *sync, const HpReply *reply)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(sync->index);
	HpRequest	request = hm_sync_request(sync, HP_DROP);

	sync->partial = blocks > Min(reply->blocks_max, HM_SYNC_MAX_BLOCKS);
	sync->room = Min(reply->blocks_max, HM_SYNC_MAX_BLOCKS);
	if (reply->zones == 0 && (!sync->partial || reply->blocks == 0))
		return reply;
	reply = hm_client_ask(&request);
	return reply == NULL ? NULL : begin_sync(sync, true);
}

/* Begin a sync, send what has changed, and end the sync.  Returns the reason. */
static HmCpuReason
sync_copy(HmSync *sync, bool load, HmCopy *copy)
{
	HpRequest	request;
	const HpReply *reply = begin_sync(sync, load);
	uint64		copied = 0;
	uint64		count;
	BlockNumber blocks;

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
	blocks = reply->blocks;
	if (copied == 0)
	{
		sync->stats->counts.loads++;
		hm_device_loads();
		reply = begin_copy(sync, reply);
		if (reply == NULL)
			return HM_CPU_DEVICE_FAILED;
		if (reply->status != HP_OK || (sync->partial && sync->room < MIN_ROOM))
			return HM_CPU_DEVICE_MEMORY;
		blocks = reply->blocks;
		hm_heat_set_share(RelationGetRelid(sync->index), 1);
	}
	else if (reply->zones != 0)
	{
		sync->partial = true;
		sync->room = reply->blocks;
		sync->free = reply->free_blocks;
		if (!get_zones(sync, reply))
			return sync->reason;
	}
	sync->reserved = blocks;
	HM_FAULT(sync_begun);

	count = send_state(sync, copied);
	if (count == 0)
		return sync->reason;
	request = hm_sync_request(sync, HP_SYNC_END);
	request.structure = count;
	reply = hm_client_ask(&request);
	if (reply == NULL || reply->status != HP_OK)
		return reply != NULL && reply->status == HP_NO_MEMORY ? HM_CPU_DEVICE_MEMORY :
			HM_CPU_DEVICE_FAILED;
	copy->structure = count;
	copy->memory = reply->copy_memory;
	copy->host_memory = reply->copy_host_memory;
	copy->exchanged = sync->exchanged;
	copy->zones = sync->zones != NULL ? sync->zones->number : 0;
	return HM_CPU_NO_REASON;
}

/*
 * Bring a copy up to date.  With "ahead" only if the index is watched, and maybe only in part.
 */
static HmCpuReason
sync_index(Relation index, bool load, bool ahead, const HmProbes *probes, HmCopy *copy,
		   HmLookupStats *stats)
{
	HmSync		sync = {0};
	HmCpuReason reason;
	uint64		blocks_before = stats->counts.synced_blocks;
	uint64		loads_before = stats->counts.loads;

	memset(copy, 0, sizeof(*copy));
	waited_ns = 0;
	sync.index = index;
	sync.stats = stats;
	sync.probes = probes;
	if (RelationGetNumberOfBlocks(index) > HM_SYNC_MAX_NUMBER)
		return HM_CPU_TOO_MANY_BLOCKS;
	if (!hm_client_connect())
		return HM_CPU_DEVICE_FAILED;
	read_metapage(&sync);
	copy->name = sync.name;
	if (ahead && !hm_device_is_watching(index, &sync.name))
		return HM_CPU_NOT_RESIDENT;
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

	/* A long re-sync is done in steps.  The last one brings the copy up to date. */
	if (ahead && (int64) pg_atomic_read_u64(sync.watch.owed) > STEP_LINES)
		sync.limit = STEP_LINES;
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

HmCpuReason
hm_sync(Relation index, bool load, const HmProbes *probes, HmCopy *copy, HmLookupStats *stats)
{
	HmCpuReason reason = sync_index(index, load, false, probes, copy, stats);

	if (reason == HM_CPU_NO_REASON)
		hm_copy_remember(copy);
	return reason;
}

void
hm_sync_ahead(Relation index, HmLookupStats *stats)
{
	HmCopy		copy;

	(void) sync_index(index, false, true, NULL, &copy, stats);
}

double
hm_sync_waited(void)
{
	return waited_ns;
}

void
hm_copy_drop(Relation index)
{
	HmSync		sync = {0};
	HpRequest	request;

	if (!hm_client_connect())
		return;
	sync.index = index;
	read_metapage(&sync);
	request = hm_sync_request(&sync, HP_DROP);
	hm_client_ask(&request);
}
