/*
 * remote.c
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
#include "lookup/remote.h"

/*
 * Staging memory for a chunk.  It is larger only for a single probe or for distinct
 * points.
 */
#define CHUNK_SIZE			((Size) 64 * 1024 * 1024)

/* There is room for at least this many hits. */
#define MIN_ROOM			1024

/* The number of hits that are shown to a reader in one call. */
#define SHOWN_TIDS			1024

/*
 * Where hits are counted, a page map goes along with the keys of a chunk, if it is at most
 * this share of their size.  Then reading the visibility map twice takes less time than
 * looking up one TID for each key.
 */
#define PAGE_MAP_SHARE		4

/* The words of a page map that are compared at a time. */
#define COMPARED_WORDS		1024

/*
 * A claim to staging memory.  It is given up when the memory context is reset, because
 * an error frees everything without a call of hm_remote_end().  Outlives the HmRemote.
 */
typedef struct StagingClaim
{
	MemoryContextCallback callback;
	uint64		number;			/* 0: none */
} StagingClaim;

struct HmRemote
{
	Relation	index;
	HtWidth		width;
	MemoryContext context;
	HmCopy		copy;

	/* The batch. */
	HmProbes	probes;
	const uint8 *done;
	bool		synced;			/* the copy is as up to date as it must be */
	double		device_ns;		/* spent on this batch */
	double		sync_ns;
	bool		loaded;			/* a copy was made for this batch */
	uint32		next;			/* first probe that has not been searched */

	/* Hits of the last chunk.  Their probe numbers count from its first probe. */
	uint32		first;
	uint64		hits;
	uint64		handed;			/* number of hits that have been returned */
	const uint32 *hit_probes;	/* NULL: they have no probe numbers */
	uint64	   *hit_tids;
	uint8	   *all_visible;	/* for each hit, if there is a reader */
	void	   *saved;			/* separate memory of the hits, or NULL */
	StagingClaim *claim;
	double		rate;			/* hits per probe in the last chunk, or 0 */

	const HmMapReader *reader;	/* NULL outside the visibility gate */
	bool		counting;		/* only count hits on all-visible pages */
	bool		map_changes;	/* too fast for the device to count */
	bool		by_map;			/* the device has counted those of the last chunk */
	uint64		counted;		/* of these, how many have not been reported */

	HmLookupStats *stats;		/* the lookup's */
};

static void
give_up_claim(void *argument)
{
	StagingClaim *claim = argument;

	if (claim->number != 0)
		hm_client_give_up(claim->number);
	claim->number = 0;
}

HmRemote *
hm_remote_create(Relation index, HtWidth width, HmLookupStats *stats)
{
	HmRemote   *remote = palloc0(sizeof(HmRemote));

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

void
hm_remote_set_reader(HmRemote *remote, const HmMapReader *reader, bool counting)
{
	remote->reader = reader;
	remote->counting = counting;
}

void
hm_remote_forget(HmRemote *remote)
{
	remote->synced = false;
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
	HmRemote   *remote = owner;
	uint64		left = remote->hits - remote->handed;
	uint64	   *tids;
	uint32	   *probes;

	if (left == 0)
		return;
	tids = MemoryContextAllocHuge(remote->context, left * (sizeof(uint64) + sizeof(uint32)));
	probes = (uint32 *) (tids + left);
	memcpy(tids, remote->hit_tids + remote->handed, left * sizeof(uint64));
	if (remote->hit_probes != NULL)
	{
		memcpy(probes, remote->hit_probes + remote->handed, left * sizeof(uint32));
		remote->hit_probes = probes;
	}
	if (remote->all_visible != NULL)
		memmove(remote->all_visible, remote->all_visible + remote->handed, left);
	remote->saved = tids;
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

void
hm_remote_stop(HmRemote *remote)
{
	drop_hits(remote);
}

/* Bring the copy up to date, unless it is so already. */
static HmCpuReason
bring_up_to_date(HmRemote *remote, bool load)
{
	HmCpuReason reason;
	instr_time	start;
	uint64		loads = remote->stats->counts.loads;

	if (remote->synced)
		return HM_CPU_NO_REASON;
	if (hm_copy_is_current(remote->index, &remote->copy))
	{
		remote->synced = true;
		return HM_CPU_NO_REASON;
	}
	INSTR_TIME_SET_CURRENT(start);
	reason = hm_sync(remote->index, load, &remote->copy, remote->stats);
	if (reason == HM_CPU_DEVICE_MEMORY)
		hm_choice_note_refusal(remote->index);
	remote->synced = reason == HM_CPU_NO_REASON;
	remote->loaded |= remote->stats->counts.loads > loads;
	remote->sync_ns += hm_ns_since(start);
	HM_FAULT(remote_synced);
	return reason;
}

/* Offsets of a chunk's arrays in staging memory. */
typedef struct Offsets
{
	Size		low_at;
	Size		high_at;
	Size		map_at;
	uint32		map_words;		/* 0: no page map */
	Size		probes_at;
	Size		tids_at;
	Size		end;
} Offsets;

/*
 * The number of words of the page map that goes along with a chunk; 0 if none does.
 */
static uint32
page_map_words(const HmRemote *remote, uint32 count)
{
	uint32		words;

	if (!remote->counting || remote->map_changes)
		return 0;
	words = (uint32) (((uint64) remote->reader->pages + 31) / 32);
	if ((Size) words * sizeof(uint32) * PAGE_MAP_SHARE > (Size) count * remote->width)
		return 0;
	return words;
}

static Offsets
chunk_offsets(const HmRemote *remote, bool is_range, uint32 count, uint64 room)
{
	Offsets		offsets;

	offsets.low_at = 0;
	offsets.high_at = TYPEALIGN(64, (Size) count * remote->width);
	offsets.map_at = offsets.high_at +
		(is_range ? TYPEALIGN(64, (Size) count * remote->width) : 0);
	offsets.map_words = page_map_words(remote, count);
	offsets.probes_at = offsets.map_at +
		TYPEALIGN(64, (Size) offsets.map_words * sizeof(uint32));
	offsets.tids_at = offsets.probes_at +
		(remote->counting ? 0 : TYPEALIGN(64, room * sizeof(uint32)));
	offsets.end = offsets.tids_at + room * sizeof(uint64);
	return offsets;
}

/* Write keys in the width of the index. */
static void
write_keys(const HmRemote *remote, char *to, const uint64 *keys, uint32 count)
{
	if (remote->width == HT_WIDTH64)
		memcpy(to, keys, (Size) count * sizeof(uint64));
	else
	{
		for (uint32 i = 0; i < count; i++)
			((uint32 *) to)[i] = (uint32) Min(keys[i], UINT32_MAX);
	}
}

/* Is any of these keys too large for the index?  No entry has such a key. */
static bool
any_too_large(const HmRemote *remote, const uint64 *keys, uint32 count)
{
	uint64		bits = 0;

	if (remote->width == HT_WIDTH64)
		return false;
	for (uint32 i = 0; i < count; i++)
		bits |= keys[i];
	return bits > ht_key_max(remote->width);
}

/* Make ranges empty whose low bound is too large. */
static void
empty_ranges(const HmRemote *remote, char *low, char *high, const uint64 *keys, uint32 count)
{
	for (uint32 i = 0; i < count; i++)
	{
		if (keys[i] > ht_key_max(remote->width))
		{
			((uint32 *) low)[i] = 1;
			((uint32 *) high)[i] = 0;
		}
	}
}

/* Is the caller in the visibility gate?  Then it is shown the device's hits as they arrive. */
static inline bool
in_gate(const HmRemote *remote)
{
	return remote->reader != NULL;
}

/* The number of hits that a chunk may have. */
static uint64
max_hits(const HmRemote *remote)
{
	return in_gate(remote) ? HM_GATE_MAX_HITS : PG_UINT64_MAX;
}

/* The number of hits that this many probes have if they are like the last chunk's. */
static uint64
expected_hits(const HmRemote *remote, uint32 count)
{
	return remote->rate == 0 ? count : (uint64) (count * remote->rate);
}

/* The number of hits that this many probes get room for. */
static uint64
expected_room(const HmRemote *remote, uint32 count)
{
	return Min((uint64) (expected_hits(remote, count) * 1.25) + MIN_ROOM, max_hits(remote));
}

bool
hm_remote_makes_distinct(const HmRemote *remote, const HmProbes *probes)
{
	uint64		room = expected_room(remote, probes->count);

	return chunk_offsets(remote, false, probes->count, room).end <= HM_STAGING_MAX &&
		expected_hits(remote, probes->count) <= max_hits(remote) &&
		!any_too_large(remote, probes->low, probes->count);
}

/* Are all probe numbers of hits valid in a chunk? */
static bool
are_of_chunk(const uint32 *probes, uint64 n, uint32 count)
{
	uint32		last = 0;

	for (uint64 i = 0; i < n; i++)
		last = Max(last, probes[i]);
	return last < count;
}

/*
 * Are the pages of a page map still all-visible?
 *
 * The map was read before the search, but other backends bring the copy up to date as well.
 * So the search may find entries that are newer than the map: of new rows, on pages that were
 * all-visible until these rows came.  What proves that a row is visible is that its page is
 * all-visible after its entry was found, as where the reader looks up TIDs.
 */
static bool
page_map_holds(const HmRemote *remote, const uint32 *map, uint32 words)
{
	const HmMapReader *reader = remote->reader;
	uint32		now[COMPARED_WORDS];
	uint32		lost = 0;

	for (uint32 begin = 0; begin < words; begin += COMPARED_WORDS)
	{
		uint32		n = Min(COMPARED_WORDS, words - begin);

		reader->pack(reader->argument, begin, n, now);
		for (uint32 i = 0; i < n; i++)
			lost |= map[begin + i] & ~now[i];
	}
	return lost == 0;
}

/*
 * Search a chunk: the next probes, at most *count; sets *count to their number.
 * Returns HM_CPU_NO_REASON if the hits are there, HM_CPU_NOT_RESIDENT if the copy is
 * gone, or otherwise the reason why the device cannot answer.
 */
static HmCpuReason
search_chunk(HmRemote *remote, uint32 *count)
{
	const uint64 *low = remote->probes.low + remote->next;
	const uint64 *high = remote->probes.high == NULL ? NULL : remote->probes.high + remote->next;
	uint64		max = max_hits(remote);
	uint64		room = 0;

	for (;;)
	{
		uint64		hits = expected_hits(remote, *count);
		bool		too_large = any_too_large(remote, low, *count);
		bool		is_range = high != NULL || too_large;
		HpRequest	request = {0};
		const HpReply *reply;
		const uint32 *probes;
		char	   *staging;
		uint32	   *map = NULL;
		Offsets		offsets;

		room = Max(room, expected_room(remote, *count));
		offsets = chunk_offsets(remote, is_range, *count, room);
		hits = Max(hits, room);
		if ((offsets.end > CHUNK_SIZE || hits > max) && *count > 1 && !remote->probes.distinct)
		{
			/* Take only as many probes as leave room for their hits, and have not too many. */
			double		share = Min(0.9 * CHUNK_SIZE / offsets.end, 0.9 * max / hits);

			*count = Max(1, Min(*count - 1, (uint32) (*count * share)));
			room = 0;
			continue;
		}
		if (offsets.end > HM_STAGING_MAX || room > max)
			return HM_CPU_MANY_HITS;

		staging = hm_client_staging(offsets.end);
		if (staging == NULL)
			return HM_CPU_DEVICE_FAILED;
		write_keys(remote, staging + offsets.low_at, low, *count);
		if (is_range)
			write_keys(remote, staging + offsets.high_at, high != NULL ? high : low, *count);
		if (too_large)
			empty_ranges(remote, staging + offsets.low_at, staging + offsets.high_at, low, *count);
		if (offsets.map_words > 0)
		{
			map = (uint32 *) (staging + offsets.map_at);
			remote->reader->pack(remote->reader->argument, 0, offsets.map_words, map);
			HM_FAULT(remote_map_read);
		}

		request.operation = HP_SEARCH;
		request.index = remote->copy.name;
		request.search.low_at = offsets.low_at;
		request.search.high_at = is_range ? offsets.high_at : 0;
		request.search.probes_at = offsets.probes_at;
		request.search.tids_at = offsets.tids_at;
		request.search.room = room;
		request.search.count = *count;
		request.search.is_range = is_range;
		request.search.distinct = remote->probes.distinct;
		request.search.tids_only = remote->counting;
		request.search.by_block = !in_gate(remote);
		request.search.map_at = map != NULL ? offsets.map_at : 0;
		request.search.map_pages = map != NULL ? remote->reader->pages : 0;
		reply = hm_client_ask(&request);
		remote->stats->counts.bytes_to_device += offsets.probes_at;
		if (reply == NULL)
			return HM_CPU_DEVICE_FAILED;
		if (reply->status == HP_UNKNOWN)
			return HM_CPU_NOT_RESIDENT;
		if (reply->status == HP_NO_MEMORY)
			return HM_CPU_DEVICE_MEMORY;
		if (reply->status == HP_NO_ROOM)
		{
			remote->rate = (double) reply->hits / *count;
			room = reply->hits;
			continue;
		}
		if (reply->status != HP_OK || reply->hits > room || reply->counted > reply->hits ||
			(map == NULL && reply->counted > 0))
			return HM_CPU_DEVICE_FAILED;
		probes = remote->counting ? NULL : (const uint32 *) (staging + offsets.probes_at);
		if (probes != NULL && !are_of_chunk(probes, reply->hits, *count))
			return HM_CPU_DEVICE_FAILED;

		remote->rate = (double) reply->hits / *count;
		if (map != NULL && !page_map_holds(remote, map, offsets.map_words))
		{
			/* Search again, and for the rest of this lookup have the reader look up TIDs. */
			remote->map_changes = true;
			continue;
		}
		remote->by_map = map != NULL;
		remote->counted += reply->counted;
		remote->hits = reply->hits - reply->counted;
		remote->hit_probes = probes;
		remote->hit_tids = (uint64 *) (staging + offsets.tids_at);
		remote->stats->counts.bytes_from_device += remote->hits *
			(sizeof(uint64) + (remote->counting ? 0 : sizeof(uint32)));
		return HM_CPU_NO_REASON;
	}
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
	uint8		all_visible[SHOWN_TIDS];
	uint64		kept = 0;

	for (uint64 begin = 0; begin < remote->hits; begin += SHOWN_TIDS)
	{
		const uint64 *tids = remote->hit_tids + begin;
		uint32		n = (uint32) Min(SHOWN_TIDS, remote->hits - begin);

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

/* Search the next chunk and show its hits. */
static HmCpuReason
next_chunk(HmRemote *remote)
{
	HmCpuReason reason;
	uint32		count;
	instr_time	start;

	drop_hits(remote);

	/*
	 * The copy can be evicted after it was brought up to date and before the search.
	 * Then load it again, but not in the visibility gate, where VACUUM waits: loading
	 * takes long.
	 */
	for (int attempt = 0;; attempt++)
	{
		reason = bring_up_to_date(remote, attempt > 0 && !in_gate(remote));
		if (reason != HM_CPU_NO_REASON)
			return reason;
		INSTR_TIME_SET_CURRENT(start);
		count = remote->probes.count - remote->next;
		reason = search_chunk(remote, &count);
		remote->device_ns += hm_ns_since(start);
		if (reason != HM_CPU_NOT_RESIDENT || attempt == 1)
			break;
		remote->synced = false;
		remote->copy.structure = 0;
	}
	if (reason != HM_CPU_NO_REASON)
		return reason;
	HM_FAULT(remote_searched);

	remote->first = remote->next;
	remote->next += count;
	remote->stats->counts.device_keys += count;
	if (remote->hits > 0)
	{
		remote->claim->number = hm_client_claim(remote, save_hits);
		if (remote->counting && !remote->by_map)
			count_visible(remote);
		else if (!remote->counting && in_gate(remote))
			mark_visible(remote);
	}
	return HM_CPU_NO_REASON;
}

/*
 * After a copy was made, measure how long smaller batches take on the device, with the
 * first keys of this batch.
 */
static void
calibrate(HmRemote *remote)
{
	for (uint32 keys = HM_SIZE_CLASS_MIN; keys <= remote->probes.count / 4; keys *= 4)
	{
		instr_time	start;
		uint32		count = keys;

		INSTR_TIME_SET_CURRENT(start);
		if (search_chunk(remote, &count) != HM_CPU_NO_REASON)
			break;
		if (count == keys)
			hm_choice_note_sample(remote->index, keys, hm_ns_since(start));
	}
	remote->hits = remote->counted = 0;
}

/* ----------------------------------------------------------------
 *		Batches
 * ----------------------------------------------------------------
 */

HmCpuReason
hm_remote_start(HmRemote *remote, const HmProbes *probes, const uint8 *done, bool load)
{
	HmCpuReason reason;

	drop_hits(remote);
	remote->probes = *probes;
	remote->done = done;
	remote->synced = false;
	remote->loaded = false;
	remote->device_ns = remote->sync_ns = 0;
	remote->counted = 0;
	remote->next = 0;
	reason = bring_up_to_date(remote, load);
	if (reason == HM_CPU_NO_REASON && remote->loaded && !hm_force_device)
		calibrate(remote);
	if (reason == HM_CPU_DEVICE_FAILED)
		remote->stats->counts.fallbacks++;
	return reason;
}

void
hm_remote_prepare(HmRemote *remote)
{
	if (remote->handed < remote->hits || remote->next == remote->probes.count)
		return;

	/* If there can be no copy, hm_remote_next() will find that out. */
	remote->synced = false;
	(void) bring_up_to_date(remote, true);
}

/* Return hits, except those of probes that are done. */
static uint32
hand_out(HmRemote *remote, HmHit *hits, uint64 *keys, uint32 max)
{
	uint32		n = 0;
	uint64		i;

	for (i = remote->handed; i < remote->hits && n < max; i++)
	{
		uint32		probe = remote->hit_probes == NULL ? HM_NO_PROBE :
			remote->first + remote->hit_probes[i];

		if (remote->done != NULL && probe != HM_NO_PROBE && remote->done[probe])
			continue;
		hits[n].tid = remote->hit_tids[i];
		hits[n].probe = probe;
		hits[n].all_visible = remote->all_visible != NULL ? remote->all_visible[i] : 0;
		if (keys != NULL && probe != HM_NO_PROBE)
			keys[n] = remote->probes.low[probe];
		n++;
	}
	remote->handed = i;
	return n;
}

uint32
hm_remote_next(HmRemote *remote, HmHit *hits, uint64 *keys, uint32 max, uint32 *rest,
			   HmCpuReason *reason, uint64 *counted)
{
	bool		shown = false;

	*rest = 0;
	*reason = HM_CPU_NO_REASON;
	for (;;)
	{
		uint32		n = hand_out(remote, hits, keys, max);

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
		if (*reason != HM_CPU_NO_REASON)
		{
			if (remote->next > 0 || *reason == HM_CPU_DEVICE_FAILED)
				remote->stats->counts.fallbacks++;
			break;
		}
		if (*rest == 0)
			remote->stats->counts.device_batches++;
		shown = in_gate(remote) && remote->hits + remote->counted > 0;
	}
	if (*rest == remote->probes.count)
		hm_choice_note_device(remote->index, remote->probes.count, remote->device_ns,
							  remote->sync_ns, remote->loaded);
	drop_hits(remote);
	return 0;
}

void
hm_remote_end(HmRemote *remote)
{
	drop_hits(remote);
	remote->stats->counts.copy_memory = remote->copy.memory;
	pfree(remote);
}
