/*
 * fetch_portion.c
 *		Portions of a fetch's hits: how large they are, what of them need not be fetched, and their
 *		order.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/fault.h"
#include "compat.h"
#include "exec/fetch.h"

/*
 * Sizes of portions, in hits.  The larger portions are, the fewer heap pages are visited
 * twice.  So a portion has as many as fit into the memory for hits.  Its room is that of
 * HITS_OF_PROBE hits for each probe at first, and grows while it is filled: few probes mostly have
 * few hits, and new memory costs page faults.
 *
 * Portions start small and grow where the first rows are wanted soon, and where probes
 * can be done early (HmFetch.done), so that the engine can leave out their other hits.
 *
 * An index-only portion has room for all entries of a leaf: the rest of a leaf would be
 * fetched from the heap.  If most hits are visible by the map, portions fit into the
 * processor's cache; but not where each portion has the engine look through the probes that may be
 * done.
 */
#define FIRST_PORTION 64
#define HITS_OF_PROBE 2
#define PORTION_GROWTH 4
#define FIRST_INDEX_ONLY_PORTION HT_LEAF_MAX_ENTRIES
#define VISIBLE_PORTION 16384
#define MIN_LAST_PORTION 4096
#define MAX_LAST_PORTION (16 * 1024 * 1024)
#define BYTES_PER_HIT (2 * sizeof(HmHit))

/*
 * The memory for hits.  A batch's rows and its hits are about as many, and about as large.
 * Index-only portions are small.
 */
static Size
portion_memory(bool index_only)
{
	return get_hash_memory_limit() / (index_only ? 8 : 2);
}

Size
hm_fetch_leaves_memory(bool index_only)
{
	return get_hash_memory_limit() - portion_memory(index_only);
}

uint32
hm_fetch_portion_hits(bool index_only)
{
	Size hits = portion_memory(index_only) / BYTES_PER_HIT;

	return (uint32) Max(MIN_LAST_PORTION,
						Min(hits, index_only ? HM_GATE_MAX_HITS : MAX_LAST_PORTION));
}

/* Whether portions grow from one to the next only. */
static bool
grows_slowly(const HmFetch *fetch)
{
	return fetch->first_rows || fetch->done != NULL;
}

/*
 * Maximum number of hits in the next portion.  It grows if the last portion was full,
 * that is, had no room for another leaf.  It shrinks if most of the last portion's hits
 * were not wanted: with small portions, the engine learns sooner which probes are done,
 * and leaves their hits out.
 */
static uint32
portion_room(const HmFetch *fetch)
{
	uint32 first = fetch->index_only ? FIRST_INDEX_ONLY_PORTION : FIRST_PORTION;
	bool in_cache = fetch->visible > fetch->count / 2 && fetch->done == NULL;
	uint32 limit = in_cache ? Min(VISIBLE_PORTION, fetch->max_room) : fetch->max_room;
	uint32 room = Max(fetch->room, first);
	bool slowly = grows_slowly(fetch);

	if (fetch->skipped > fetch->count / 2)
		return Max(FIRST_INDEX_ONLY_PORTION, room / PORTION_GROWTH);
	if (fetch->count == 0)
	{
		/* The batch's first portion. */
		if (slowly || fetch->index_only)
			return room;
		return (uint32) Max(room, Min((uint64) fetch->probes.count * HITS_OF_PROBE, limit));
	}
	if (fetch->count + HT_LEAF_MAX_ENTRIES < room)
		return room;
	return Max(room, slowly ? Min(room * PORTION_GROWTH, limit) : limit);
}

/* Room for the hits of a portion.  They are sorted in random order, so large pages help. */
static HmHit *
alloc_hits(HmFetch *fetch)
{
	MemoryContext old_context = MemoryContextSwitchTo(GetMemoryChunkContext(fetch));
	HmHit *hits = hm_alloc_large(fetch->room * sizeof(HmHit));

	MemoryContextSwitchTo(old_context);
	return hits;
}

/* Whether the engine has to return the keys of hits: for the caller, or to filter them. */
static bool
asks_for_keys(const HmFetch *fetch)
{
	return hm_fetch_wants_keys(fetch) || fetch->filter_count > 0;
}

static void
make_portion_room(HmFetch *fetch, uint32 room)
{
	MemoryContext context = GetMemoryChunkContext(fetch);

	if (room != fetch->room)
	{
		if (fetch->hits != NULL)
			pfree(fetch->hits);
		if (fetch->scratch != NULL)
			pfree(fetch->scratch);
		if (fetch->keys != NULL)
			pfree(fetch->keys);
		fetch->scratch = NULL;
		fetch->keys = NULL;
		fetch->room = room;
		fetch->hits = alloc_hits(fetch);
	}
	if (fetch->keys == NULL && asks_for_keys(fetch))
		fetch->keys = MemoryContextAllocHuge(context, room * fetch->key_size);
}

void
hm_portion_drop(HmFetch *fetch)
{
	fetch->count = fetch->next = 0;
	fetch->tally.count = fetch->tally_next = fetch->tally_used = 0;
}

void
hm_fetch_give_hints(HmFetch *fetch)
{
	int count = fetch->dead_count;

	fetch->dead_count = 0;
	if (count > 0)
		hm_lookup_give_hints(fetch->index, fetch->heap, fetch->dead, count);
	if (fetch->dead_values != NULL)
		MemoryContextReset(fetch->dead_values);
}

/* Sort the hits that have to be fetched from the heap into heap order. */
static void
sort_hits(HmFetch *fetch)
{
	uint32 count = fetch->count - fetch->visible;

	if (count > HM_HITS_FEW && fetch->scratch == NULL)
		fetch->scratch = alloc_hits(fetch);
	hm_hits_sort_by_block(fetch->hits + fetch->visible, fetch->scratch, count);
}

/* Get more room for a portion that is being read. */
static void
grow_portion(HmFetch *fetch)
{
	MemoryContext context = GetMemoryChunkContext(fetch);

	if (fetch->scratch != NULL)
		pfree(fetch->scratch);
	fetch->scratch = NULL;
	fetch->room = (uint32) Min((uint64) fetch->room * PORTION_GROWTH, fetch->max_room);
	fetch->hits = hm_resize_large(context, fetch->hits, fetch->room * sizeof(HmHit));
	if (fetch->keys != NULL)
		fetch->keys = repalloc_huge(fetch->keys, fetch->room * fetch->key_size);
}

/* Add the next hits, of which the engine has found so many, to the portion if their keys pass. */
static void
keep_hits(HmFetch *fetch, uint32 found)
{
	uint32 end = fetch->count + found;

	if (fetch->filter_count == 0)
		fetch->count = end;
	for (uint32 i = fetch->count; i < end; i++)
	{
		if (hm_passes_filters(fetch->filters, fetch->filter_count,
							  hm_key_get(fetch->keys, fetch->key_size, i)))
			fetch->hits[fetch->count++] = fetch->hits[i];
	}
}

/*
 * Whether to go on reading a portion, of which this was read last.  Gets more room for it if
 * another leaf has none.
 */
static bool
reads_on(HmFetch *fetch, uint32 found)
{
	if (found == 0 || hm_lookup_at_end(fetch->lookup))
		return false;
	if (fetch->count + HT_LEAF_MAX_ENTRIES < fetch->room)
		return fetch->filter_count > 0 && (fetch->count == 0 || !grows_slowly(fetch));
	if (fetch->room == fetch->max_room || grows_slowly(fetch))
		return false;
	grow_portion(fetch);
	return true;
}

/* Have the engine read up to a portion of hits. */
static void
read_hits(HmFetch *fetch)
{
	uint32 found;

	fetch->count = 0;
	do
	{
		void *keys =
			asks_for_keys(fetch) ? hm_key_at(fetch->keys, fetch->key_size, fetch->count) : NULL;

		CHECK_FOR_INTERRUPTS();
		found = hm_lookup_next(fetch->lookup, fetch->hits + fetch->count, keys,
							   fetch->room - fetch->count);
		fetch->compare_keys |= !hm_lookup_is_exact(fetch->lookup);
		keep_hits(fetch, found);
	} while (reads_on(fetch, found));
}

/*
 * What is wanted of hits on all-visible pages.  A serializable transaction needs each TID, to
 * lock its heap page.
 */
static HmGateAnswer
wanted_answer(const HmFetch *fetch)
{
	if (IsolationIsSerializable() || hm_fetch_wants_keys(fetch))
		return HM_ANSWER_HITS;
	if (fetch->counting)
		return HM_ANSWER_COUNT;
	return fetch->by_probe && !fetch->may_be_unknown ? HM_ANSWER_TALLY : HM_ANSWER_HITS;
}

/* Whether a composite key tells all columns that may be asked for. */
static bool
is_known(const HmFetch *fetch, HmKey key)
{
	for (int i = 0; i < fetch->fields.count; i++)
	{
		if (hm_field_hides(&fetch->fields.fields[i], key))
			return false;
	}
	for (int i = 0; i < fetch->returned_count; i++)
	{
		Datum value;
		bool is_null;

		if (!hm_field_restore(&fetch->fields.fields[fetch->returned[i]], key, &value, &is_null))
			return false;
	}
	return true;
}

/* Have those hits on all-visible pages fetched from the heap whose keys do not tell all. */
static void
fetch_unknown(HmFetch *fetch)
{
	for (uint32 i = 0; i < fetch->visible;)
	{
		uint32 last = fetch->visible - 1;
		HmHit hit = fetch->hits[i];

		if (is_known(fetch, hm_fetch_hit_key(fetch, i, hit.probe)))
		{
			i++;
			continue;
		}
		fetch->hits[i] = fetch->hits[last];
		fetch->hits[last] = hit;
		if (hm_fetch_wants_keys(fetch))
			hm_key_swap(fetch->keys, fetch->key_size, i, last);
		fetch->visible = last;
	}
}

/* The same inside the visibility gate.  Hits on all-visible pages come first. */
static void
read_hits_in_gate(HmFetch *fetch)
{
	HmGateAnswer answer = wanted_answer(fetch);
	HmMapReader reader = hm_map_reader(fetch, answer != HM_ANSWER_HITS);

	hm_lookup_set_reader(fetch->lookup, &reader);
	fetch->count = hm_lookup_next_in_gate(
		fetch->lookup, answer, fetch->hits, hm_fetch_wants_keys(fetch) ? fetch->keys : NULL,
		fetch->room, &fetch->visible, &fetch->tally, &fetch->counted);
	fetch->tally_next = fetch->tally_used = 0;
	if (fetch->may_be_unknown && !fetch->counting)
		fetch_unknown(fetch);
}

bool
hm_portion_read(HmFetch *fetch)
{
	hm_heap_stop(fetch);
	hm_fetch_give_hints(fetch);
	fetch->tally.count = 0;
	do
	{
		make_portion_room(fetch, portion_room(fetch));
		fetch->visible = 0;
		fetch->compare_keys = fetch->compare_always;
		HM_FAULT(lookup_portion);
		if (fetch->index_only && !RecoveryInProgress())
			read_hits_in_gate(fetch);
		else
			read_hits(fetch);
		fetch->finished = hm_lookup_at_end(fetch->lookup);
		fetch->compare_keys |= !hm_lookup_is_exact(fetch->lookup);

		/* A btree is searched by the values themselves. */
		fetch->compare =
			fetch->compare_keys || (fetch->values.values != NULL && !hm_is_btree(fetch->index));
	} while (fetch->count == 0 && fetch->tally.count == 0 && !fetch->finished);
	sort_hits(fetch);

	fetch->next = fetch->skipped = 0;
	fetch->dead_left = Max(HM_DEAD_ROWS / 2, fetch->count / HM_HITS_OF_DEAD_ROW);
	hm_heap_start(fetch);
	return fetch->count > 0 || fetch->tally.count > 0;
}

void
hm_portion_take(HmFetch *fetch, const HmHit *hits, uint32 count)
{
	make_portion_room(fetch, Max(count, fetch->room));
	memcpy(fetch->hits, hits, count * sizeof(HmHit));
	fetch->count = count;
	fetch->visible = fetch->next = fetch->skipped = 0;
	fetch->compare = false;
	sort_hits(fetch);
	fetch->dead_left = 0;
	hm_heap_start(fetch);
}
