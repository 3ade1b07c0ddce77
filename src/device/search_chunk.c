/*
 * search_chunk.c
 *		One request to the device: the search of a chunk.
 *
 * The keys, and maybe a page map, are written to staging memory, and the device writes its
 * hits there.  A chunk has as many probes as leave room for their hits.  If there is too
 * little room after all, the chunk is searched again.
 */
#include "postgres.h"

#include "am/fault.h"
#include "device/search.h"

/*
 * Staging memory for a chunk.  It is larger only for a single probe or for distinct
 * points.
 */
#define CHUNK_SIZE ((Size) 64 * 1024 * 1024)

/* There is room for at least this many hits. */
#define MIN_ROOM 1024

/*
 * Where hits are counted or tallied, a page map goes along with the keys of a chunk, if it is at
 * most this share of their size.  Then reading the visibility map twice takes less time than
 * looking up one TID for each key.
 */
#define PAGE_MAP_SHARE 4

/* The words of a page map that are compared at a time. */
#define COMPARED_WORDS 1024

/* Offsets of a chunk's arrays in staging memory. */
typedef struct Offsets
{
	Size low_at;
	Size high_at;
	Size map_at;
	uint32 map_words; /* 0: no page map */
	Size sent;        /* the end of what is sent */
	Size counts_at;
	Size probes_at;
	Size tids_at;
	Size keys_at;
	Size end;
} Offsets;

/* The next probes of a batch. */
typedef struct Chunk
{
	uint32 count;
	const void *low;  /* their keys, as many as the batch has from here on */
	const void *high; /* or NULL, as the batch's */
	bool too_large;   /* some keys are too large for the index */
	bool is_range;    /* two keys of each probe are sent */
	uint64 room;      /* for hits; 0: as many as are expected */
	Offsets offsets;
	char *staging;
	uint32 *map; /* the page map, or NULL */
} Chunk;

/*
 * The number of words of the page map that goes along with a chunk; 0 if none does.
 */
static uint32
page_map_words(const HmRemote *remote, uint32 count)
{
	uint32 words;

	if (remote->answer == HM_ANSWER_HITS || remote->map_changes)
		return 0;
	words = (uint32) (((uint64) remote->reader->pages + 31) / 32);
	if ((Size) words * sizeof(uint32) * PAGE_MAP_SHARE > (Size) count * remote->width)
		return 0;
	return words;
}

static Offsets
chunk_offsets(const HmRemote *remote, bool is_range, uint32 count, uint64 room)
{
	Offsets offsets;

	offsets.low_at = 0;
	offsets.high_at = TYPEALIGN(64, (Size) count * remote->width);
	offsets.map_at = offsets.high_at + (is_range ? TYPEALIGN(64, (Size) count * remote->width) : 0);
	offsets.map_words = page_map_words(remote, count);
	offsets.sent = offsets.counts_at =
		offsets.map_at + TYPEALIGN(64, (Size) offsets.map_words * sizeof(uint32));
	offsets.probes_at = offsets.counts_at + (remote_counts(remote) || offsets.map_words == 0 ?
												 0 :
												 TYPEALIGN(64, (Size) count * sizeof(uint32)));
	offsets.tids_at =
		offsets.probes_at + (remote_counts(remote) ? 0 : TYPEALIGN(64, room * sizeof(uint32)));
	offsets.keys_at = offsets.tids_at + TYPEALIGN(64, room * sizeof(uint64));
	offsets.end = offsets.keys_at + (remote->with_keys ? room * remote->width : 0);
	return offsets;
}

/* Write keys in the width of the index, after adding "length" to each. */
static void
write_keys(const HmRemote *remote, char *to, const void *keys, HmKey length, uint32 count)
{
	const uint64 *narrow = keys;

	if (remote->width == HT_WIDTH32)
	{
		for (uint32 i = 0; i < count; i++)
			((uint32 *) to)[i] = (uint32) Min(narrow[i] + (uint64) length, UINT32_MAX);
	}
	else if (length == 0)
		memcpy(to, keys, (Size) count * remote->width);
	else if (remote->width == HT_WIDTH64)
	{
		for (uint32 i = 0; i < count; i++)
			((uint64 *) to)[i] = narrow[i] + (uint64) length;
	}
	else
	{
		for (uint32 i = 0; i < count; i++)
			((HmKey *) to)[i] = ((const HmKey *) keys)[i] + length;
	}
}

/* Is any of these keys too large for the index?  No entry has such a key. */
static bool
any_too_large(const HmRemote *remote, const void *keys, uint32 count)
{
	const uint64 *narrow = keys;
	uint64 bits = 0;

	if (remote->width != HT_WIDTH32)
		return false;
	for (uint32 i = 0; i < count; i++)
		bits |= narrow[i];
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

/* The number of hits that a chunk may have. */
static uint64
max_hits(const HmRemote *remote)
{
	return remote_in_gate(remote) ? HM_GATE_MAX_HITS : PG_UINT64_MAX;
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
hm_search_makes_distinct(const HmRemote *remote, const HmProbes *probes)
{
	uint64 room = expected_room(remote, probes->count);

	return hm_probes_are_points(probes) &&
		   chunk_offsets(remote, false, probes->count, room).end <= HM_STAGING_MAX &&
		   expected_hits(remote, probes->count) <= max_hits(remote) &&
		   !any_too_large(remote, probes->low, probes->count);
}

/* Are all probe numbers of hits valid in a chunk? */
static bool
are_of_chunk(const uint32 *probes, uint64 n, uint32 count)
{
	uint32 last = 0;

	for (uint64 i = 0; i < n; i++)
		last = Max(last, probes[i]);
	return last < count;
}

/*
 * Is each hit's key one of its probe's keys?  "low" are the chunk's probes; high is NULL if all
 * have one length.  These rows are not fetched, so nothing else would show that a device is wrong.
 */
static pg_attribute_always_inline bool
keys_are_of_probes(const HmRemote *remote, HtWidth width, const void *low, const void *high,
				   const uint32 *probes, const void *keys, uint64 n)
{
	Size key_size = hm_key_size(width);
	bool wrong = false;

	for (uint64 i = 0; i < n; i++)
	{
		HmKey key = remote_key(width, keys, i);
		HmKey first = hm_key_get(low, key_size, probes[i]);

		wrong |= hm_key_less(key_size, key, first);
		wrong |= high == NULL ? hm_key_less(key_size, remote->probes.length, key - first) :
								hm_key_less(key_size, hm_key_get(high, key_size, probes[i]), key);
	}
	return !wrong;
}

/* The same, compiled for each width. */
static bool
are_keys_of_probes(const HmRemote *remote, const void *low, const void *high, const uint32 *probes,
				   const void *keys, uint64 n)
{
	if (remote->width == HT_WIDTH32)
		return keys_are_of_probes(remote, HT_WIDTH32, low, high, probes, keys, n);
	if (remote->width == HT_WIDTH64)
		return keys_are_of_probes(remote, HT_WIDTH64, low, high, probes, keys, n);
	return keys_are_of_probes(remote, HT_WIDTH128, low, high, probes, keys, n);
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
	uint32 now[COMPARED_WORDS];
	uint32 lost = 0;

	for (uint32 begin = 0; begin < words; begin += COMPARED_WORDS)
	{
		uint32 n = Min(COMPARED_WORDS, words - begin);

		reader->pack(reader->argument, begin, n, now);
		for (uint32 i = 0; i < n; i++)
			lost |= map[begin + i] & ~now[i];
	}
	return lost == 0;
}

/*
 * Copy the device's tally of a chunk out of staging memory, which may be used again before the
 * tally has been.  Returns false if the tally does not have so many hits.
 */
static bool
take_tally(HmRemote *remote, const uint32 *counts, uint32 count, uint64 hits)
{
	uint32 *tally = hm_search_make_tally(remote, count);
	uint64 sum = 0;

	for (uint32 i = 0; i < count; i++)
	{
		tally[i] = counts[i];
		sum += counts[i];
	}
	return sum == hits;
}

/* Ask the device, and note how long that takes. */
static const HpReply *
ask(HmRemote *remote, HpRequest *request)
{
	instr_time start;
	const HpReply *reply;

	INSTR_TIME_SET_CURRENT(start);
	reply = hm_client_ask(request);
	remote->times.asked += hm_ns_since(start);
	if (reply != NULL)
		remote->times.busy += 1000.0 * reply->busy_us;
	return reply;
}

/*
 * Lay out a chunk.  Takes only as many probes as leave room for their hits, and have not too many.
 * Returns false if a single probe has too many.
 */
static bool
fit_chunk(const HmRemote *remote, Chunk *chunk)
{
	uint64 max = max_hits(remote);

	for (;;)
	{
		uint64 hits;
		double share;

		chunk->too_large = any_too_large(remote, chunk->low, chunk->count);
		chunk->is_range = !hm_probes_are_points(&remote->probes) || chunk->too_large;
		chunk->room = Max(chunk->room, expected_room(remote, chunk->count));
		chunk->offsets = chunk_offsets(remote, chunk->is_range, chunk->count, chunk->room);
		hits = Max(expected_hits(remote, chunk->count), chunk->room);
		if ((chunk->offsets.end <= CHUNK_SIZE && hits <= max) || chunk->count == 1 ||
			remote->probes.distinct)
			return chunk->offsets.end <= HM_STAGING_MAX && chunk->room <= max;
		share = Min(0.9 * CHUNK_SIZE / chunk->offsets.end, 0.9 * max / hits);
		chunk->count = Max(1, Min(chunk->count - 1, (uint32) (chunk->count * share)));
		chunk->room = 0;
	}
}

/* Write a chunk to staging memory.  Returns false if there is none. */
static bool
write_chunk(const HmRemote *remote, Chunk *chunk)
{
	const Offsets *offsets = &chunk->offsets;
	char *staging = hm_client_staging(offsets->end);

	chunk->staging = staging;
	chunk->map = NULL;
	if (staging == NULL)
		return false;
	write_keys(remote, staging + offsets->low_at, chunk->low, 0, chunk->count);
	if (chunk->is_range)
		write_keys(remote, staging + offsets->high_at,
				   chunk->high != NULL ? chunk->high : chunk->low, remote->probes.length,
				   chunk->count);
	if (chunk->too_large)
		empty_ranges(remote, staging + offsets->low_at, staging + offsets->high_at, chunk->low,
					 chunk->count);
	if (offsets->map_words > 0)
	{
		chunk->map = (uint32 *) (staging + offsets->map_at);
		remote->reader->pack(remote->reader->argument, 0, offsets->map_words, chunk->map);
		HM_FAULT(remote_map_read);
	}
	return true;
}

/* Have the device search a chunk that was written.  Returns its reply, or NULL. */
static const HpReply *
ask_for_hits(HmRemote *remote, const Chunk *chunk)
{
	const Offsets *offsets = &chunk->offsets;
	HpRequest request = {0};
	const HpReply *reply;

	request.operation = HP_SEARCH;
	request.index = remote->copy.name;
	request.search.low_at = offsets->low_at;
	request.search.high_at = chunk->is_range ? offsets->high_at : 0;
	request.search.probes_at = offsets->probes_at;
	request.search.tids_at = offsets->tids_at;
	request.search.room = chunk->room;
	request.search.count = chunk->count;
	request.search.is_range = chunk->is_range;
	request.search.distinct = remote->probes.distinct;
	request.search.tids_only = remote_counts(remote);
	request.search.by_block = !remote_in_gate(remote) && !remote->with_keys;
	request.search.with_keys = remote->with_keys;
	request.search.keys_at = remote->with_keys ? offsets->keys_at : 0;
	request.search.map_at = chunk->map != NULL ? offsets->map_at : 0;
	request.search.map_pages = chunk->map != NULL ? remote->reader->pages : 0;
	request.search.counts_at = offsets->counts_at;
	reply = ask(remote, &request);
	remote->stats->counts.bytes_to_device += offsets->sent;
	return reply;
}

/* Why the device has not searched; HM_CPU_NO_REASON if it has. */
static HmCpuReason
why_not_searched(const HpReply *reply)
{
	if (reply == NULL)
		return hm_client_gave_up() ? HM_CPU_WAITING : HM_CPU_DEVICE_FAILED;
	switch (reply->status)
	{
		case HP_OK:
			return HM_CPU_NO_REASON;
		case HP_UNKNOWN:
			return HM_CPU_NOT_RESIDENT;
		case HP_NO_MEMORY:
			return HM_CPU_DEVICE_MEMORY;
		case HP_TOO_LONG:
			return HM_CPU_TOO_LONG;
		default:
			return HM_CPU_DEVICE_FAILED;
	}
}

/* Take over the hits of a chunk.  Returns false if they cannot be right. */
static bool
take_hits(HmRemote *remote, const Chunk *chunk, const HpReply *reply)
{
	char *staging = chunk->staging;
	uint64 hits = reply->hits - reply->counted;

	remote->hit_probes =
		remote_counts(remote) ? NULL : (uint32 *) (staging + chunk->offsets.probes_at);
	remote->hit_tids = (uint64 *) (staging + chunk->offsets.tids_at);
	remote->hit_keys = remote->with_keys ? staging + chunk->offsets.keys_at : NULL;
	if (remote->hit_probes != NULL && !are_of_chunk(remote->hit_probes, hits, chunk->count))
		return false;
	if (remote->hit_keys != NULL && !are_keys_of_probes(remote, chunk->low, chunk->high,
														remote->hit_probes, remote->hit_keys, hits))
		return false;
	if (chunk->map != NULL && remote->hit_probes != NULL && reply->counted > 0 &&
		!take_tally(remote, (const uint32 *) (staging + chunk->offsets.counts_at), chunk->count,
					reply->counted))
		return false;
	remote->by_map = chunk->map != NULL;
	remote->counted += reply->counted;
	remote->hits = hits;
	remote->stats->counts.bytes_from_device +=
		hits * (sizeof(uint64) + (remote->hit_probes == NULL ? 0 : sizeof(uint32)) +
				(remote->with_keys ? remote->width : 0));
	return true;
}

HmCpuReason
hm_search_chunk(HmRemote *remote, uint32 *count)
{
	Size key_size = hm_key_size(remote->width);
	Chunk chunk = {.count = *count,
				   .low = hm_key_at(remote->probes.low, key_size, remote->next),
				   .high = remote->probes.high == NULL ?
							   NULL :
							   hm_key_at(remote->probes.high, key_size, remote->next)};

	for (;;)
	{
		const HpReply *reply;
		HmCpuReason reason;

		if (!fit_chunk(remote, &chunk))
			return HM_CPU_MANY_HITS;
		if (!write_chunk(remote, &chunk))
			return HM_CPU_DEVICE_FAILED;
		reply = ask_for_hits(remote, &chunk);
		if (reply != NULL && reply->status == HP_NO_ROOM)
		{
			remote->rate = (double) reply->hits / chunk.count;
			chunk.room = reply->hits;
			continue;
		}
		reason = why_not_searched(reply);
		if (reason != HM_CPU_NO_REASON)
			return reason;
		if (reply->hits > chunk.room || reply->counted > reply->hits ||
			(chunk.map == NULL && reply->counted > 0))
			return HM_CPU_DEVICE_FAILED;
		remote->rate = (double) reply->hits / chunk.count;
		if (chunk.map != NULL && !page_map_holds(remote, chunk.map, chunk.offsets.map_words))
		{
			/* Search again, and for the rest of this lookup have the reader look up TIDs. */
			remote->map_changes = true;
			continue;
		}
		*count = chunk.count;
		return take_hits(remote, &chunk, reply) ? HM_CPU_NO_REASON : HM_CPU_DEVICE_FAILED;
	}
}
