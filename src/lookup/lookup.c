/*
 * lookup.c
 *		Batch lookup: what other folders call, and the protocol of the visibility gate.
 *
 * For each batch a device, if there is one, says whether it searches that (remote.h).
 * If it does not, or fails, the CPU searches the batch, or the rest of it, by a
 * walk through the index (walk.c).
 */
#include "postgres.h"

#include "pgstat.h"
#include "utils/memutils.h"

#include "am/fault.h"
#include "lookup/remote.h"
#include "lookup/walk.h"
#include "tree/wide.h"

/* The number of hits of a walk that are shown to a reader in one call. */
#define SHOWN_HITS 256

HM_BOTH_WIDTHS(hm_btree_bounds);
HM_BOTH_WIDTHS(hm_btree_ends);
HM_BOTH_WIDTHS(hm_btree_give_hints);

const HmRemoteMethods *hm_remote_methods = NULL;

struct HmLookup
{
	Relation index;
	uint32 capacity;
	HmLookupStats stats;
	Size key_size;
	const HmWalkMethods *walks; /* for the index's width */
	HmWalk *walk;
	HmRemote *remote; /* NULL: there is no device */
	HmMapReader reader;

	/* The batch */
	HmProbes batch;
	const uint8 *done;
	bool begun;         /* it has been decided whether the device searches */
	bool on_device;     /* the device has searched so far */
	uint32 walked_from; /* the first probe that the CPU searches */
	double walk_ns;     /* time that the CPU has spent, until hits were ready to be used; of a batch
						 * for which that is noted */

	/* What the device gets instead of probes that must be distinct. */
	uint32 distinct_room; /* of these two arrays */
	void *distinct_low;
	uint32 *distinct_numbers;
	const uint32 *numbers; /* numbers of these in the batch, or NULL */
};

/* Whether ranges have the same length, and none is empty; then sets it. */
static pg_attribute_always_inline bool
have_same_length(const void *low, const void *high, Size key_size, uint32 count, HmKey *length)
{
	for (uint32 i = 0; i < count; i++)
	{
		HmKey first = hm_key_get(low, key_size, i);
		HmKey last = hm_key_get(high, key_size, i);

		if (i == 0)
			*length = last - first;
		if (hm_key_less(key_size, last, first) || last - first != *length)
			return false;
	}
	return count > 0;
}

void
hm_probes_set_ranges(HmProbes *probes, const void *low, const void *high, Size key_size,
					 uint32 count)
{
	HmKey length = 0;
	bool same = key_size == sizeof(uint64) ?
					have_same_length(low, high, sizeof(uint64), count, &length) :
					have_same_length(low, high, sizeof(HmKey), count, &length);

	*probes = (HmProbes){
		.count = count, .low = low, .high = same ? NULL : high, .length = same ? length : 0};
}

Size
hm_lookup_probe_memory(Size key_size)
{
	return (key_size == sizeof(uint64) ? sizeof(HtProbe) : sizeof(HtProbe128)) + sizeof(uint32);
}

HmLookup *
hm_lookup_create(Relation index, uint32 capacity)
{
	HmLookup *lookup = palloc0(sizeof(HmLookup));
	HtWidth width = hm_key_width(index);

	lookup->index = index;
	lookup->capacity = capacity;
	lookup->key_size = hm_key_size(width);
	if (hm_is_btree(index))
		lookup->walks = width <= HT_WIDTH64 ? &hm_btree_methods : &hm_btree_methods_128;
	else
		lookup->walks = width <= HT_WIDTH64 ? &hm_walk_methods : &hm_walk_methods_128;
	lookup->walk = lookup->walks->create(index, capacity, &lookup->stats);
	if (hm_remote_methods != NULL && !hm_is_btree(index))
		lookup->remote = hm_remote_methods->create(index, width, &lookup->stats);
	return lookup;
}

bool
hm_lookup_set_variant(HmLookup *lookup, const char *variant)
{
	return lookup->walks->set_variant(lookup->walk, variant);
}

void
hm_lookup_set_snapshot(HmLookup *lookup, Snapshot snapshot)
{
	lookup->walks->set_snapshot(lookup->walk, snapshot);
}

HmKey *
hm_lookup_bounds(Relation index, int *count)
{
	if (!hm_is_btree(index))
		return hm_segment_keys(index, count);
	return hm_key_width(index) <= HT_WIDTH64 ? hm_btree_bounds(index, count) :
											   hm_btree_bounds_128(index, count);
}

void
hm_lookup_ends(Relation index, Snapshot snapshot, HmEnds *ends)
{
	HM_FOR_INDEX(index, hm_btree_ends)(index, snapshot, ends);
}

void
hm_lookup_give_hints(Relation index, Relation heap, HmDeadRow *rows, int n)
{
	if (hm_is_btree(index))
		HM_FOR_INDEX(index, hm_btree_give_hints)(index, heap, rows, n);
	else
		hm_give_hints(index, heap, rows, n);
}

void
hm_lookup_set_reader(HmLookup *lookup, const HmMapReader *reader)
{
	lookup->reader = *reader;
}

const HmLookupStats *
hm_lookup_stats(const HmLookup *lookup)
{
	return &lookup->stats;
}

void
hm_batch_counts_add(HmBatchCounts *sum, const HmBatchCounts *counts)
{
	sum->batches += counts->batches;
	sum->keys += counts->keys;
	sum->hits += counts->hits;
	sum->device_batches += counts->device_batches;
	sum->device_keys += counts->device_keys;
	sum->fallbacks += counts->fallbacks;
	sum->loads += counts->loads;
	sum->evictions += counts->evictions;
	sum->synced_blocks += counts->synced_blocks;
	sum->bytes_to_device += counts->bytes_to_device;
	sum->bytes_from_device += counts->bytes_from_device;
	if (counts->copy_memory > 0)
	{
		sum->copy_memory = counts->copy_memory;
		sum->copy_host_memory = counts->copy_host_memory;
	}
}

void
hm_lookup_stats_add(HmLookupStats *sum, const HmLookupStats *stats)
{
	hm_batch_counts_add(&sum->counts, &stats->counts);
	sum->segments += stats->segments;
	sum->leaves += stats->leaves;
	sum->restarts += stats->restarts;
	sum->synced_lines += stats->synced_lines;
	sum->sort_ns += stats->sort_ns;
	sum->search_ns += stats->search_ns;
	if (stats->reason_probes > sum->reason_probes)
	{
		sum->reason = stats->reason;
		sum->reason_probes = stats->reason_probes;
	}
}

void
hm_lookup_end(HmLookup *lookup)
{
	if (lookup->remote != NULL)
		hm_remote_methods->end(lookup->remote);
	lookup->walks->end(lookup->walk);
	if (lookup->distinct_low != NULL)
	{
		pfree(lookup->distinct_low);
		pfree(lookup->distinct_numbers);
	}
	pfree(lookup);
}

void
hm_lookup_start(HmLookup *lookup, const HmProbes *probes, const uint8 *done)
{
	Assert(probes->count <= lookup->capacity);
	Assert(probes->high == NULL || probes->length == 0);
	Assert(!probes->distinct || (probes->high == NULL && done == NULL));
	if (!hm_is_btree(lookup->index))
		hm_batch_apply(lookup->index);
	pgstat_count_index_scan(lookup->index);

	lookup->batch = *probes;
	lookup->done = done;
	lookup->numbers = NULL;
	lookup->begun = false;
	lookup->on_device = false;
	lookup->stats.counts.batches++;
	lookup->stats.counts.keys += probes->count;
}

/* ----------------------------------------------------------------
 *		CPU or device
 * ----------------------------------------------------------------
 */

/*
 * Replace the batch by one of each distinct probe, for the device, and remember their
 * numbers.  If the device fails, the walk goes on with these.
 */
static void
make_distinct(HmLookup *lookup)
{
	MemoryContext context = GetMemoryChunkContext(lookup);
	uint32 capacity = lookup->batch.count;

	if (lookup->distinct_low == NULL || lookup->distinct_room < capacity)
	{
		if (lookup->distinct_low != NULL)
		{
			pfree(lookup->distinct_low);
			pfree(lookup->distinct_numbers);
		}
		lookup->distinct_room = capacity;
		lookup->distinct_low = MemoryContextAllocHuge(context, capacity * lookup->key_size);
		lookup->distinct_numbers = MemoryContextAllocHuge(context, capacity * sizeof(uint32));
	}
	lookup->batch.count = lookup->walks->sort(lookup->walk, &lookup->batch, lookup->distinct_low,
											  lookup->distinct_numbers);
	lookup->batch.low = lookup->distinct_low;
	lookup->batch.distinct = false;
	lookup->numbers = lookup->distinct_numbers;
}

/* Note why the CPU searches a batch, or the first part of it. */
static void
note_reason(HmLookup *lookup, int reason)
{
	if (lookup->batch.count >= lookup->stats.reason_probes)
	{
		lookup->stats.reason = reason;
		lookup->stats.reason_probes = lookup->batch.count;
	}
}

/*
 * To read the clock takes a tenth of a search for one key, so it is read where the time is noted.
 */
static inline void
start_walk_time(const HmLookup *lookup, instr_time *start)
{
	if (lookup->remote != NULL && lookup->batch.count >= HM_REMOTE_MIN_PROBES)
		INSTR_TIME_SET_CURRENT(*start);
}

static inline void
add_walk_time(HmLookup *lookup, instr_time start)
{
	if (!INSTR_TIME_IS_ZERO(start))
		lookup->walk_ns += hm_ns_since(start);
}

/* Have the CPU search the batch's probes from this one on. */
static void
start_walk(HmLookup *lookup, uint32 from)
{
	instr_time start = {0};

	start_walk_time(lookup, &start);
	lookup->on_device = false;
	lookup->walked_from = from;
	lookup->walk_ns = 0;
	lookup->walks->start(lookup->walk, &lookup->batch, lookup->done, from);
	add_walk_time(lookup, start);
}

/* If this call has ended a walk, note how long it took. */
static void
note_walk(const HmLookup *lookup, bool was_at_end)
{
	if (lookup->remote != NULL && lookup->batch.count >= HM_REMOTE_MIN_PROBES &&
		lookup->walked_from == 0 && !was_at_end && hm_lookup_at_end(lookup))
		hm_remote_methods->note_walk(lookup->remote, lookup->batch.count, lookup->walk_ns);
}

/* Have the device search the batch, if it is to.  Returns HM_NO_REASON, or why it does not. */
static int
start_on_device(HmLookup *lookup, bool keys_wanted)
{
	bool distinct = false;
	int reason = hm_remote_methods->choose(lookup->remote, &lookup->batch, &distinct);

	if (reason != HM_NO_REASON)
		return reason;
	if (distinct)
		make_distinct(lookup);
	return hm_remote_methods->start(lookup->remote, &lookup->batch, lookup->done, keys_wanted);
}

/* Decide whether the device searches a batch, and start it. */
static void
begin_batch(HmLookup *lookup, bool keys_wanted)
{
	lookup->begun = true;
	if (lookup->remote != NULL)
	{
		int reason = start_on_device(lookup, keys_wanted);

		lookup->on_device = reason == HM_NO_REASON;
		if (lookup->on_device)
			return;
		note_reason(lookup, reason);
	}
	start_walk(lookup, 0);
}

bool
hm_lookup_at_end(const HmLookup *lookup)
{
	return lookup->begun && !lookup->on_device && lookup->walks->at_end(lookup->walk);
}

bool
hm_lookup_is_exact(const HmLookup *lookup)
{
	return !lookup->on_device;
}

/*
 * Return the next hits.  The first *stale of them were read before this call, or have been
 * shown to the reader.  Hits that are only counted are added to *counted.
 */
static uint32
next_hits(HmLookup *lookup, HmHit *hits, void *keys, uint32 max, uint32 *stale, uint64 *counted)
{
	double sorted_before = lookup->stats.sort_ns;
	double taken;
	instr_time start;
	instr_time walk_start = {0};
	int reason;
	uint32 rest;
	uint32 n = 0;
	uint64 only_counted = 0;

	INSTR_TIME_SET_CURRENT(start);
	if (!lookup->begun)
		begin_batch(lookup, keys != NULL);
	if (lookup->on_device)
	{
		n = hm_remote_methods->next(lookup->remote, hits, keys, max, &rest, &reason, &only_counted);
		*stale = n;
		if (n == 0 && rest != HM_NO_PROBE)
		{
			/* If the device has failed, the CPU goes on where it stopped. */
			if (rest == 0)
				note_reason(lookup, reason);
			start_walk(lookup, rest);
		}
	}
	if (!lookup->on_device)
	{
		start_walk_time(lookup, &walk_start);
		n = lookup->walks->next(lookup->walk, hits, keys, max, stale);
		add_walk_time(lookup, walk_start);
	}
	for (uint32 i = 0; i < n; i++)
		hm_tid_check(lookup->index, hits[i].tid);
	for (uint32 i = 0; lookup->numbers != NULL && i < n; i++)
	{
		if (hits[i].probe != HM_NO_PROBE)
			hits[i].probe = lookup->numbers[hits[i].probe];
	}
	taken = hm_ns_since(start);
	lookup->stats.search_ns += taken - (lookup->stats.sort_ns - sorted_before);

	*counted += only_counted;
	lookup->stats.counts.hits += n + only_counted;
	pgstat_count_index_tuples(lookup->index, n + only_counted);
	HM_FAULT(lookup_read);
	return n;
}

uint32
hm_lookup_next(HmLookup *lookup, HmHit *hits, void *keys, uint32 max)
{
	bool was_at_end = hm_lookup_at_end(lookup);
	uint32 stale;
	uint32 n;
	uint64 counted = 0;

	n = next_hits(lookup, hits, keys, max, &stale, &counted);
	note_walk(lookup, was_at_end);
	return n;
}

/* ----------------------------------------------------------------
 *		The visibility gate
 * ----------------------------------------------------------------
 */

/*
 * Do what may take long before the gate is entered, where VACUUM waits: if the device is to
 * search, load a copy of the index.
 */
static void
prepare(HmLookup *lookup, bool keys_wanted)
{
	instr_time start;

	INSTR_TIME_SET_CURRENT(start);
	if (!lookup->begun)
		begin_batch(lookup, keys_wanted);
	if (lookup->on_device)
		hm_remote_methods->prepare(lookup->remote);
	lookup->stats.search_ns += hm_ns_since(start);
}

/* Move the hit with number "from" to the place "to" in front of it, with its key. */
static inline void
move_up(const HmLookup *lookup, HmHit *hits, void *keys, uint32 from, uint32 to)
{
	HmHit hit = hits[from];

	if (from == to)
		return;
	hits[from] = hits[to];
	hits[to] = hit;
	if (keys != NULL)
		hm_key_swap(keys, lookup->key_size, from, to);
}

/* Whether all heap pages between the first and the last one of these hits are all-visible. */
static bool
all_are_visible(const HmLookup *lookup, const HmHit *hits, uint32 n)
{
	uint64 least = HT_TID_MAX;
	uint64 greatest = 0;

	for (uint32 i = 0; i < n; i++)
	{
		uint64 tid = hits[i].tid;

		least = Min(least, tid);
		greatest = Max(greatest, tid);
	}
	return n > 0 && lookup->reader.all(lookup->reader.argument, (BlockNumber) (least >> 16),
									   (BlockNumber) (greatest >> 16), n);
}

/*
 * Move the hits on all-visible pages to the front, and return their number.  The first
 * "stale" hits are not looked up.  Those of them that the walk has read before the gate was
 * entered may be of rows that VACUUM has removed since, so the map says nothing about them.
 * Those of the device have been shown to the reader when they came, in this entry of the
 * gate or an earlier one, and have what it said.
 */
static uint32
put_visible_first(HmLookup *lookup, HmHit *hits, void *keys, uint32 n, uint32 stale)
{
	uint64 tids[SHOWN_HITS];
	uint8 all_visible[SHOWN_HITS];
	uint32 visible = 0;

	if (stale == 0 && all_are_visible(lookup, hits, n))
		return n;
	for (uint32 i = 0; i < stale; i++)
	{
		if (hits[i].all_visible != 0)
			move_up(lookup, hits, keys, i, visible++);
	}
	for (uint32 begin = stale; begin < n; begin += SHOWN_HITS)
	{
		uint32 count = Min(SHOWN_HITS, n - begin);

		for (uint32 i = 0; i < count; i++)
			tids[i] = hits[begin + i].tid;
		lookup->reader.look(lookup->reader.argument, tids, count, all_visible);
		for (uint32 i = 0; i < count; i++)
		{
			if (all_visible[i] != 0)
				move_up(lookup, hits, keys, begin + i, visible++);
		}
	}
	return visible;
}

/*
 * The same in a btree, whose VACUUM waits for pins instead.  Few leaves are pinned at a time, so
 * hits on all-visible pages are put together from several steps.
 */
static uint32
next_with_pins(HmLookup *lookup, HmHit *hits, void *keys, uint32 max, uint32 *visible)
{
	uint32 n = 0;
	uint32 found;

	*visible = 0;
	do
	{
		uint32 stale, here;
		uint64 counted = 0;
		HmHit *new_hits = hits + n;
		void *new_keys = keys == NULL ? NULL : hm_key_at(keys, lookup->key_size, n);

		lookup->walks->keep_pins(lookup->walk, true);
		found = next_hits(lookup, new_hits, new_keys, max - n, &stale, &counted);
		here = put_visible_first(lookup, new_hits, new_keys, found, stale);
		for (uint32 i = 0; i < here; i++)
			move_up(lookup, hits, keys, n + i, (*visible)++);
		n += found;
	} while (n < max && !hm_lookup_at_end(lookup));
	lookup->walks->keep_pins(lookup->walk, false);
	return n;
}

uint32
hm_lookup_next_in_gate(HmLookup *lookup, HmGateAnswer answer, HmHit *hits, void *keys, uint32 max,
					   uint32 *visible, HmTally *tally, uint64 *counted)
{
	bool was_at_end = hm_lookup_at_end(lookup);
	BlockNumber door;
	uint32 stale;
	uint32 n;
	instr_time start = {0};
	uint64 not_returned = 0;

	Assert(keys == NULL || answer == HM_ANSWER_HITS);
	tally->count = 0;
	if (hm_is_btree(lookup->index))
		return next_with_pins(lookup, hits, keys, Min(max, HM_GATE_MAX_HITS), visible);
	if (lookup->remote != NULL)
		hm_remote_methods->enter(lookup->remote, &lookup->reader, answer);
	prepare(lookup, keys != NULL);
	HM_FAULT(lookup_prepared);
	door = hm_visibility_gate_enter(lookup->index);

	/* What has been read of the index may be older than the entry of the gate. */
	lookup->walks->forget_pages(lookup->walk);
	n = next_hits(lookup, hits, keys, Min(max, HM_GATE_MAX_HITS), &stale, &not_returned);
	start_walk_time(lookup, &start);
	*visible = put_visible_first(lookup, hits, keys, n, stale);
	if (!lookup->on_device)
		add_walk_time(lookup, start);
	hm_visibility_gate_leave(lookup->index, door);
	note_walk(lookup, was_at_end);
	if (answer == HM_ANSWER_COUNT)
		*counted += not_returned;
	tally->count = 0;
	if (lookup->remote != NULL)
		hm_remote_methods->leave(lookup->remote, tally);
	tally->numbers =
		tally->count > 0 && lookup->numbers != NULL ? lookup->numbers + tally->first : NULL;
	return n;
}

/* ----------------------------------------------------------------
 *		The device, for plans and EXPLAIN
 * ----------------------------------------------------------------
 */

bool
hm_lookup_may_use_device(double probes)
{
	return hm_remote_methods != NULL && hm_remote_methods->may_search(probes);
}

const char *
hm_lookup_device(void)
{
	return hm_remote_methods == NULL ? NULL : hm_remote_methods->name();
}

const char *
hm_lookup_reason(const HmLookupStats *stats)
{
	return hm_remote_methods == NULL ? NULL : hm_remote_methods->reason_text(stats->reason);
}
