/*
 * search.c
 *		Batches that the device searches.
 *
 * A batch is searched in chunks that fit into staging memory.  The hits of a chunk stay
 * there and are returned from there.  If the memory is needed for something else first,
 * they move to memory of their own.  If the device fails, what it has found so far
 * counts, and the CPU goes on with the failed chunk.
 *
 * The device finds what the index held at some time after the snapshot was taken,
 * because the copy is brought up to date first: once for each batch or, if the caller
 * is in the visibility gate, each time after the caller has entered it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/fault.h"
#include "device/search.h"
#include "device/shared.h"
#include "device/stats.h"

/* The number of hits that are shown to a reader in one call. */
#define SHOWN_TIDS 1024

static void
give_up_claim(void *argument)
{
	StagingClaim *claim = argument;

	if (claim->number != 0)
		hm_client_give_up(claim->number);
	claim->number = 0;
}

static HmRemote *
create(Relation index, HtWidth width, HmLookupStats *stats)
{
	HmRemote *remote = palloc0(sizeof(HmRemote));

	remote->index = index;
	remote->width = width;
	remote->stats = stats;
	remote->context = CurrentMemoryContext;
	remote->claim = palloc0(sizeof(StagingClaim));
	remote->claim->callback.func = give_up_claim;
	remote->claim->callback.arg = remote->claim;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &remote->claim->callback);
	return remote;
}

/* ----------------------------------------------------------------
 *		Chunks
 * ----------------------------------------------------------------
 */

/*
 * Staging memory is needed for something else: save the hits that have not been
 * returned.
 */
static void
save_hits(void *owner)
{
	HmRemote *remote = owner;
	uint64 left = remote->hits - remote->handed;
	Size keys_size = remote->hit_keys != NULL ? left * remote->width : 0;
	uint64 *tids;
	uint32 *probes;

	if (left == 0)
		return;
	tids = MemoryContextAllocHuge(remote->context,
								  left * (sizeof(uint64) + sizeof(uint32)) + MAXALIGN(keys_size));
	remote->saved = tids;
	if (remote->hit_keys != NULL)
	{
		memcpy(tids, (char *) remote->hit_keys + remote->handed * remote->width, keys_size);
		remote->hit_keys = tids;
		tids += MAXALIGN(keys_size) / sizeof(uint64);
	}
	probes = (uint32 *) (tids + left);
	memcpy(tids, remote->hit_tids + remote->handed, left * sizeof(uint64));
	if (remote->hit_probes != NULL)
	{
		memcpy(probes, remote->hit_probes + remote->handed, left * sizeof(uint32));
		remote->hit_probes = probes;
	}
	if (remote->all_visible != NULL)
		memmove(remote->all_visible, remote->all_visible + remote->handed, left);
	remote->hit_tids = tids;
	remote->hits = left;
	remote->handed = 0;
	remote->claim->number = 0;
}

/* Drop the hits of a chunk. */
static void
drop_hits(HmRemote *remote)
{
	if (remote->saved != NULL)
		pfree(remote->saved);
	remote->saved = NULL;
	if (remote->all_visible != NULL)
		pfree(remote->all_visible);
	remote->all_visible = NULL;
	remote->hits = remote->handed = 0;
	give_up_claim(remote->claim);
}

/*
 * Measures what a batch takes.  What setting up this backend's connection takes meanwhile is not
 * part of it: later batches, and those of other sessions, do not take that.
 */
typedef struct Watch
{
	instr_time start;
	double setup;
} Watch;

static inline void
start_watch(Watch *watch)
{
	INSTR_TIME_SET_CURRENT(watch->start);
	watch->setup = hm_client_setup_ns();
}

static inline double
watch_ns(const Watch *watch)
{
	return hm_ns_since(watch->start) - (hm_client_setup_ns() - watch->setup);
}

/* Bring the copy up to date, unless it is so already. */
static HmCpuReason
bring_up_to_date(HmRemote *remote, bool load)
{
	HmCpuReason reason;
	HmDeviceTimes *times = &remote->times;
	Watch start;
	uint64 loads = remote->stats->counts.loads;
	uint64 lines = remote->stats->synced_lines;

	if (remote->synced)
		return HM_CPU_NO_REASON;
	if (hm_copy_is_current(remote->index, &remote->copy))
	{
		remote->synced = true;
		return HM_CPU_NO_REASON;
	}
	start_watch(&start);
	reason = hm_sync(remote->index, load, &remote->copy, remote->stats);

	/* A copy that could not grow is gone; there may be room for a new one. */
	if (reason == HM_CPU_DEVICE_MEMORY && load)
		hm_choice_note_refusal(remote->index);
	if (reason == HM_CPU_RESTLESS)
		hm_choice_note_restless(remote->index);
	remote->synced = reason == HM_CPU_NO_REASON;
	remote->may_load |= remote->synced;
	times->loaded |= remote->stats->counts.loads > loads;
	times->sync += watch_ns(&start);
	times->sync_waited += hm_sync_waited();
	times->lines += remote->stats->synced_lines - lines;
	HM_FAULT(remote_synced);
	return reason;
}

/* Show the hits of a chunk to the reader, and note what it says of each. */
static void
mark_visible(HmRemote *remote)
{
	remote->all_visible = MemoryContextAllocHuge(remote->context, remote->hits);
	for (uint64 i = 0; i < remote->hits; i += SHOWN_TIDS)
		remote->reader->look(remote->reader->argument, remote->hit_tids + i,
							 (uint32) Min(SHOWN_TIDS, remote->hits - i), remote->all_visible + i);
}

/* Count the hits of a chunk that are on all-visible pages, and keep the others. */
static void
count_visible(HmRemote *remote)
{
	uint8 all_visible[SHOWN_TIDS];
	uint64 kept = 0;

	for (uint64 begin = 0; begin < remote->hits; begin += SHOWN_TIDS)
	{
		const uint64 *tids = remote->hit_tids + begin;
		uint32 n = (uint32) Min(SHOWN_TIDS, remote->hits - begin);

		for (uint32 i = 0; i < n; i++)
			hm_tid_check(remote->index, tids[i]);
		remote->reader->look(remote->reader->argument, tids, n, all_visible);
		for (uint32 i = 0; i < n; i++)
		{
			remote->hit_tids[kept] = tids[i];
			kept += all_visible[i] == 0;
		}
	}
	remote->counted += remote->hits - kept;
	remote->hits = kept;
}

uint32 *
hm_search_make_tally(HmRemote *remote, uint32 count)
{
	if (remote->tally_room < count)
	{
		if (remote->tally != NULL)
			pfree(remote->tally);
		remote->tally = NULL;
		remote->tally_room = 0;
		remote->tally = MemoryContextAllocHuge(remote->context, count * sizeof(uint32));
		remote->tally_room = count;
	}
	return remote->tally;
}

/*
 * Tally the hits of a chunk of this many probes that are on all-visible pages, and keep the
 * others.
 */
static void
tally_visible(HmRemote *remote, uint32 count)
{
	uint8 all_visible[SHOWN_TIDS];
	uint32 *tally = hm_search_make_tally(remote, count);
	uint64 kept = 0;

	memset(tally, 0, count * sizeof(uint32));
	for (uint64 begin = 0; begin < remote->hits; begin += SHOWN_TIDS)
	{
		const uint64 *tids = remote->hit_tids + begin;
		const uint32 *probes = remote->hit_probes + begin;
		uint32 n = (uint32) Min(SHOWN_TIDS, remote->hits - begin);

		for (uint32 i = 0; i < n; i++)
			hm_tid_check(remote->index, tids[i]);
		remote->reader->look(remote->reader->argument, tids, n, all_visible);
		for (uint32 i = 0; i < n; i++)
		{
			uint32 probe = probes[i];

			tally[probe] += all_visible[i];
			remote->hit_tids[kept] = tids[i];
			remote->hit_probes[kept] = probe;
			kept += all_visible[i] == 0;
		}
	}
	remote->counted += remote->hits - kept;
	remote->hits = kept;
}

/* Show the hits of a chunk of this many probes, unless the device has looked at the page map. */
static void
answer_hits(HmRemote *remote, uint32 count)
{
	if (remote->answer == HM_ANSWER_HITS)
		mark_visible(remote);
	else if (remote->by_map)
		return;
	else if (remote->answer == HM_ANSWER_TALLY)
		tally_visible(remote, count);
	else
		count_visible(remote);
}

/* The device's work for the rest of the batch, as expected, in ns; never 0. */
static double
rest_of_batch(const HmRemote *remote)
{
	double rest = remote->probes.count - remote->next;

	return 1 + remote->choice.expected.busy * rest / remote->probes.count;
}

/* Search the next chunk and show its hits. */
static HmCpuReason
next_chunk(HmRemote *remote)
{
	HmCpuReason reason;
	uint32 count;

	drop_hits(remote);

	/*
	 * The copy can be evicted after it was brought up to date and before the search.
	 * Then load it again, but not in the visibility gate, where VACUUM waits: loading
	 * takes long.  A copy of which this batch knows only by an earlier one can have been evicted
	 * long ago; whether to load that has been chosen.
	 */
	for (int attempt = 0;; attempt++)
	{
		reason =
			bring_up_to_date(remote, attempt > 0 && remote->may_load && !remote_in_gate(remote));
		if (reason != HM_CPU_NO_REASON)
			return reason;
		hm_queue_enter(0, rest_of_batch(remote));
		count = remote->probes.count - remote->next;
		reason = hm_search_chunk(remote, &count);
		if (reason != HM_CPU_NOT_RESIDENT || attempt == 1)
			break;
		remote->synced = false;
		remote->copy.structure = 0;
	}

	/* What is known of it is wrong. */
	if (reason == HM_CPU_NOT_RESIDENT)
	{
		hm_copy_forget(&remote->copy.name);
		remote->copy.structure = 0;
	}
	if (reason != HM_CPU_NO_REASON)
		return reason;
	remote->may_load = true;
	HM_FAULT(remote_searched);

	remote->first = remote->next;
	remote->next += count;
	remote->stats->counts.device_keys += count;
	if (remote->hits > 0)
	{
		remote->claim->number = hm_client_claim(remote, save_hits);
		if (remote_in_gate(remote))
			answer_hits(remote, count);
	}
	if (remote->answer == HM_ANSWER_TALLY && remote->counted > 0)
		remote->tallied = count;
	return HM_CPU_NO_REASON;
}

/*
 * After a copy was made, measure how long smaller batches take on the device, with the
 * first keys of this batch.  For this batch that is a part of making the copy.
 */
static void
calibrate(HmRemote *remote)
{
	HmDeviceTimes batch = remote->times;
	Watch calibration;

	start_watch(&calibration);
	for (uint32 keys = HM_SIZE_CLASS_MIN; keys <= remote->probes.count / 4; keys *= 4)
	{
		HmDeviceTimes *times = &remote->times;
		Watch start;
		uint32 count = keys;

		memset(times, 0, sizeof(*times));
		times->loaded = true;
		start_watch(&start);
		if (hm_search_chunk(remote, &count) != HM_CPU_NO_REASON)
			break;
		times->all = watch_ns(&start);
		if (count == keys)
			hm_choice_note_device(remote->index, keys, times);
	}
	remote->times = batch;
	remote->times.sync += watch_ns(&calibration);
	remote->hits = remote->counted = 0;
}

/* ----------------------------------------------------------------
 *		Batches
 * ----------------------------------------------------------------
 */

/* Choose what searches the batch; see HmRemoteMethods for this and what follows. */
static int
choose(HmRemote *remote, const HmProbes *probes, bool *distinct)
{
	HmCpuReason reason;

	drop_hits(remote);
	reason = hm_choose(remote->index, probes, &remote->choice);
	if (reason == HM_CPU_NO_REASON && probes->distinct)
		*distinct = !hm_search_makes_distinct(remote, probes);
	return reason;
}

static int
start(HmRemote *remote, const HmProbes *probes, const uint8 *done, bool keys_wanted)
{
	const HmCostChoice *expected = &remote->choice.expected;
	HmCpuReason reason;
	Watch start;

	start_watch(&start);
	remote->probes = *probes;
	remote->done = done;
	remote->with_keys = keys_wanted && !hm_probes_are_points(probes);
	remote->synced = false;
	memset(&remote->times, 0, sizeof(remote->times));
	remote->times.expected_wait = expected->wait;
	remote->times.reason = expected->reason;
	remote->counted = 0;
	remote->next = 0;
	hm_queue_enter(expected->sync, rest_of_batch(remote));
	remote->may_load = remote->choice.load;
	if (remote->copy.structure == 0)
		hm_copy_recall(remote->index, &remote->copy);
	reason = bring_up_to_date(remote, remote->choice.load);
	if (reason == HM_CPU_NO_REASON && remote->times.loaded && !hm_force_device)
		calibrate(remote);
	if (reason != HM_CPU_NO_REASON)
		hm_queue_enter(0, 0);
	if (reason == HM_CPU_DEVICE_FAILED)
		remote->stats->counts.fallbacks++;
	remote->times.all += watch_ns(&start);
	return reason;
}

static void
enter(HmRemote *remote, const HmMapReader *reader, HmGateAnswer answer)
{
	remote->reader = reader;
	remote->answer = answer;
}

/*
 * If the next call of next() searches, make sure that there is a copy.  In the gate it is brought
 * up to date again.
 */
static void
prepare(HmRemote *remote)
{
	Watch start;

	start_watch(&start);

	/* If there can be no copy, next() will find that out. */
	if (remote->handed == remote->hits && remote->next < remote->probes.count)
		(void) bring_up_to_date(remote, remote->may_load);
	remote->synced = false;
	remote->times.all += watch_ns(&start);
}

static void
leave(HmRemote *remote, HmTally *tally)
{
	remote->reader = NULL;
	remote->answer = HM_ANSWER_HITS;
	remote->synced = false;
	tally->first = remote->first;
	tally->count = remote->tallied;
	tally->hits = remote->tally;
	tally->numbers = NULL;
	remote->tallied = 0;
}

/* Return hits, except those of probes that are done.  The key of a point's hit is the point. */
static uint32
hand_out(HmRemote *remote, HmHit *hits, void *keys, uint32 max)
{
	Size key_size = hm_key_size(remote->width);
	uint32 n = 0;
	uint64 i;

	Assert((keys != NULL && !hm_probes_are_points(&remote->probes)) == remote->with_keys);
	for (i = remote->handed; i < remote->hits && n < max; i++)
	{
		uint32 probe =
			remote->hit_probes == NULL ? HM_NO_PROBE : remote->first + remote->hit_probes[i];

		if (remote->done != NULL && probe != HM_NO_PROBE && remote->done[probe])
			continue;
		hits[n].tid = remote->hit_tids[i];
		hits[n].probe = probe;
		hits[n].all_visible = remote->all_visible != NULL ? remote->all_visible[i] : 0;
		if (remote->hit_keys != NULL)
			hm_key_put(keys, key_size, n, remote_key(remote->width, remote->hit_keys, i));
		else if (keys != NULL && probe != HM_NO_PROBE)
			hm_key_put(keys, key_size, n, hm_key_get(remote->probes.low, key_size, probe));
		n++;
	}
	remote->handed = i;
	return n;
}

static uint32
next_hits(HmRemote *remote, HmHit *hits, void *keys, uint32 max, uint32 *rest, int *reason,
		  uint64 *counted)
{
	bool shown = false;

	remote->tallied = 0;
	*rest = 0;
	*reason = HM_CPU_NO_REASON;
	for (;;)
	{
		uint32 n = hand_out(remote, hits, keys, max);

		*counted += remote->counted;
		remote->counted = 0;
		if (n > 0)
			return n;
		*rest = remote->next;
		if (remote->next == remote->probes.count)
			break;
		if (shown)
		{
			/* That is enough for one entry of the visibility gate. */
			*rest = HM_NO_PROBE;
			return 0;
		}
		CHECK_FOR_INTERRUPTS();
		*reason = next_chunk(remote);
		hm_queue_enter(0, 0);
		if (*reason != HM_CPU_NO_REASON)
		{
			if (remote->next > 0 || *reason == HM_CPU_DEVICE_FAILED)
				remote->stats->counts.fallbacks++;
			break;
		}
		if (*rest == 0)
			remote->stats->counts.device_batches++;
		shown = remote_in_gate(remote) && remote->hits + remote->counted > 0;
	}
	drop_hits(remote);
	return 0;
}

/* The same; measures how long it takes. */
static uint32
next(HmRemote *remote, HmHit *hits, void *keys, uint32 max, uint32 *rest, int *reason,
	 uint64 *counted)
{
	Watch start;
	uint32 n;

	start_watch(&start);
	n = next_hits(remote, hits, keys, max, rest, reason, counted);
	remote->times.all += watch_ns(&start);
	if (n == 0 && *rest == remote->probes.count)
		hm_choice_note_device(remote->index, remote->probes.count, &remote->times);
	return n;
}

static void
note_walk(HmRemote *remote, uint32 probes, double ns)
{
	hm_choice_note_cpu(remote->index, probes, ns);
}

static void
end(HmRemote *remote)
{
	HmBatchCounts *counts = &remote->stats->counts;

	drop_hits(remote);
	counts->copy_memory = remote->copy.memory;
	counts->copy_host_memory = remote->copy.host_memory;
	if (counts->batches > 0)
		hm_stats_add(RelationGetRelid(remote->index), counts);
	if (remote->tally != NULL)
		pfree(remote->tally);
	pfree(remote);
}

static const char *
name(void)
{
	HmDeviceInfo info;

	hm_device_info(&info);
	if (info.state == HM_DEVICE_OFF)
		return NULL;
	return info.is_gpu ? "GPU" : "GPU (host device)";
}

const HmRemoteMethods hm_search_methods = {.may_search = hm_choice_may_search,
										   .name = name,
										   .reason_text = hm_cpu_reason_text,
										   .create = create,
										   .end = end,
										   .choose = choose,
										   .start = start,
										   .next = next,
										   .enter = enter,
										   .prepare = prepare,
										   .leave = leave,
										   .note_walk = note_walk};
