/*
 * fetch.c
 *		From a batch of probes to visible tuples.
 *
 * Hits come from the engine in portions.  A portion is sorted into heap order, so that
 * each heap page is read once per portion.  The caller gets its hits in runs: some that
 * are visible by the visibility map, or those of one heap page (fetch_heap.c).
 *
 * Index-only: a TID may be looked up in the visibility map only as long as VACUUM cannot
 * set the map's bits between the reading of the TID and that of the map.  PostgreSQL's
 * index-only scans keep a pin on the leaf for this.  The engine enters the visibility gate
 * instead, for one portion at a time, and has TIDs looked up in the map before it leaves the
 * gate (hm_lookup_next_in_gate()).  Hits that it had read before it entered the gate are
 * fetched from the heap, where the snapshot decides.  On a standby, the gate does not stop
 * replay, so all hits are fetched from the heap.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/spccache.h"

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

/* Minimum capacity of a lookup, in probes: the first batches are small and grow. */
#define MIN_CAPACITY 64

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

/*
 * Prepare to return columns from keys: all that the index can return, or those among them that the
 * table has under these numbers.
 */
static void
init_returned(HmFetch *fetch, bool all, const Bitmapset *attributes)
{
	fetch->returned_count = 0;
	fetch->returned_bits = 0;
	fetch->may_be_unknown = false;
	for (int i = 0; i < fetch->fields.count; i++)
	{
		const HmField *field = &fetch->fields.fields[i];

		if (!all && !bms_is_member(fetch->columns[i], attributes))
			continue;
		if (fetch->type != NULL)
		{
			fetch->returned_bits = ~(HmKey) 0;
			continue;
		}
		if (!hm_can_return(fetch->index, i + 1))
			continue;
		fetch->returned[fetch->returned_count++] = i;
		fetch->returned_bits |= hm_field_mask(field) << field->shift;
		fetch->may_be_unknown |= !hm_field_is_returnable(field) || hm_field_shares_null(field);
	}
}

/* Prepare to compute the keys of tuples. */
static void
init_keys(HmFetch *fetch)
{
	Relation index = fetch->index;
	List *expressions = RelationGetIndexExpressions(index);
	ListCell *next = list_head(expressions);

	hm_fields_read(index, &fetch->fields);
	if (!hm_is_composite(index))
	{
		fetch->type = hm_key_type(index);
		fetch->key_column = index->rd_index->indkey.values[0];
	}
	fetch->key_context = CreateStandaloneExprContext();
	for (int i = 0; i < fetch->fields.count; i++)
	{
		fetch->columns[i] = index->rd_index->indkey.values[i];
		if (fetch->columns[i] != 0)
			continue;
		fetch->expressions[i] = ExecInitExpr(lfirst(next), NULL);
		next = lnext(expressions, next);
	}
}

HmFetch *
hm_fetch_create(Relation heap, Relation index, const EState *estate, bool index_only,
				bool first_rows, TupleTableSlot *slot)
{
	HmFetch *fetch = palloc0(sizeof(HmFetch));
	Snapshot snapshot = estate->es_snapshot;

	fetch->heap = heap;
	fetch->index = index;
	fetch->key_size = hm_key_size(hm_key_width(index));
	fetch->snapshot = snapshot;
	init_keys(fetch);
	if (index_only)
		init_returned(fetch, true, NULL);
	fetch->compare_always =
		snapshot->snapshot_type != SNAPSHOT_MVCC || estate->es_epq_active != NULL;
	fetch->index_only = index_only;
	fetch->first_rows = first_rows;
	fetch->finished = true;
	fetch->is_heap = heap->rd_rel->relam == HEAP_TABLE_AM_OID;
	if (!fetch->is_heap)
		fetch->scan = hm_index_fetch_begin(heap);
	fetch->own_slot = slot == NULL;
	fetch->slot = fetch->own_slot ? table_slot_create(heap, NULL) : slot;
	fetch->max_room = hm_fetch_portion_hits(index_only);
	fetch->gives_hints = fetch->is_heap && hm_heeds_hints(snapshot);
	fetch->io_concurrency = get_tablespace_io_concurrency(heap->rd_rel->reltablespace);
	PredicateLockRelation(index, snapshot);
	return fetch;
}

void
hm_fetch_without_tids(HmFetch *fetch)
{
	fetch->by_probe = true;
}

void
hm_fetch_needs(HmFetch *fetch, const Bitmapset *attributes)
{
	if (fetch->index_only)
		init_returned(fetch, false, attributes);
}

void
hm_fetch_filter(HmFetch *fetch, const HmFieldFilter *filters, int count)
{
	Assert(count == 0 || !fetch->index_only);
	fetch->filters = filters;
	fetch->filter_count = count;
}

/* End the lookup, if there is one, and add its counters to the fetch's. */
static void
keep_stats(HmFetch *fetch)
{
	if (fetch->lookup == NULL)
		return;
	hm_lookup_stats_add(&fetch->stats.lookup, hm_lookup_stats(fetch->lookup));
	hm_lookup_end(fetch->lookup);
	fetch->lookup = NULL;
}

/*
 * See that the lookup has room for a batch.  If it has not, make another one, in the
 * memory context of the fetch.
 */
static void
make_room(HmFetch *fetch, uint32 probes)
{
	MemoryContext old_context = MemoryContextSwitchTo(GetMemoryChunkContext(fetch));

	if (fetch->lookup == NULL || fetch->capacity < probes)
	{
		keep_stats(fetch);
		fetch->capacity = Max(probes, MIN_CAPACITY);
		fetch->lookup = hm_lookup_create(fetch->index, fetch->capacity);
		hm_lookup_set_snapshot(fetch->lookup, fetch->snapshot);
	}
	MemoryContextSwitchTo(old_context);
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
make_portion_room(HmFetch *fetch)
{
	MemoryContext context = GetMemoryChunkContext(fetch);
	uint32 room = portion_room(fetch);

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

/* The bits of keys that are set in any of a batch's probes. */
static pg_attribute_always_inline HmKey
bits_of_probes(const HmProbes *probes, Size key_size)
{
	HmKey bits = 0;

	for (uint32 i = 0; i < probes->count; i++)
		bits |= hm_key_get(probes->low, key_size, i);
	return bits;
}

/*
 * Do a batch's hits need their own keys?  A point's hit has the point's key.  If all keys of a
 * range begin alike, and all keys that begin so are in it, its first key tells what they have in
 * common.
 */
static bool
needs_keys(const HmFetch *fetch, const HmProbes *probes)
{
	HmKey length = probes->length;

	if (!fetch->index_only || fetch->returned_bits == 0 || hm_probes_are_points(probes))
		return false;
	if (probes->high != NULL || (length & (length + 1)) != 0 ||
		(fetch->returned_bits & length) != 0)
		return true;
	return (length & (fetch->key_size == sizeof(uint64) ? bits_of_probes(probes, sizeof(uint64)) :
														  bits_of_probes(probes, sizeof(HmKey)))) !=
		   0;
}

/* Drop the portion. */
static void
drop_portion(HmFetch *fetch)
{
	fetch->count = fetch->next = 0;
	fetch->tally.count = fetch->tally_next = fetch->tally_used = 0;
}

/* Drop the run: release its page, and the values that were made from its keys. */
static void
drop_run(HmFetch *fetch)
{
	HmRun *run = &fetch->run;

	run->count = 0;
	if (BufferIsValid(run->buffer))
		ReleaseBuffer(run->buffer);
	run->buffer = InvalidBuffer;
	ResetExprContext(fetch->key_context);
}

void
hm_fetch_start(HmFetch *fetch, const HmProbes *probes, const uint8 *done,
			   const HmProbeValues *values)
{
	Assert(fetch->type == NULL || fetch->type->exact || (!fetch->index_only && !probes->distinct));
	drop_run(fetch);
	make_room(fetch, probes->count);
	fetch->probes = *probes;
	fetch->done = done;
	fetch->values = values != NULL ? *values : (HmProbeValues){0};
	fetch->counting = false;
	fetch->keys_wanted = needs_keys(fetch, probes);
	fetch->some_not_visible = !fetch->is_heap;
	drop_portion(fetch);
	fetch->finished = probes->count == 0;
	if (!fetch->finished)
		hm_lookup_start(fetch->lookup, probes, done);
}

/* Give hints for the entries of the dead rows that were noted. */
static void
give_hints(HmFetch *fetch)
{
	int count = fetch->dead_count;

	fetch->dead_count = 0;
	if (count > 0)
		hm_give_hints(fetch->index, fetch->heap, fetch->dead, count);
}

void
hm_fetch_stop(HmFetch *fetch)
{
	give_hints(fetch);
	ExecClearTuple(fetch->slot);
	drop_run(fetch);
	hm_heap_stop(fetch);
	drop_portion(fetch);
	fetch->finished = true;
	if (fetch->scan != NULL)
		table_index_fetch_reset(fetch->scan);
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

/*
 * Read the next portion; false if there are no more hits.  Hits that have to be fetched
 * from the heap are sorted into heap order.  Their keys, if keys are wanted, are of no use then.
 */
static bool
read_portion(HmFetch *fetch)
{
	hm_heap_stop(fetch);
	give_hints(fetch);
	fetch->tally.count = 0;
	do
	{
		make_portion_room(fetch);
		fetch->visible = 0;
		fetch->compare_keys = fetch->compare_always;
		HM_FAULT(lookup_portion);
		if (fetch->index_only && !RecoveryInProgress())
			read_hits_in_gate(fetch);
		else
			read_hits(fetch);
		fetch->finished = hm_lookup_at_end(fetch->lookup);
		fetch->compare_keys |= !hm_lookup_is_exact(fetch->lookup);
		fetch->compare = fetch->compare_keys || fetch->values.values != NULL;
	} while (fetch->count == 0 && fetch->tally.count == 0 && !fetch->finished);
	sort_hits(fetch);

	fetch->next = fetch->skipped = 0;
	fetch->dead_left = Max(HM_DEAD_ROWS / 2, fetch->count / HM_HITS_OF_DEAD_ROW);
	hm_heap_start(fetch);
	return fetch->count > 0 || fetch->tally.count > 0;
}

/* ----------------------------------------------------------------
 *		Runs
 * ----------------------------------------------------------------
 */

/* Make a run of the next hits of the tally.  It may be empty. */
static void
make_tally_run(HmFetch *fetch)
{
	HmRun *run = &fetch->run;
	const HmTally *tally = &fetch->tally;

	for (; fetch->tally_next < tally->count; fetch->tally_next++, fetch->tally_used = 0)
	{
		uint32 hits = tally->hits[fetch->tally_next];
		uint32 probe = tally->first + fetch->tally_next;

		if (hits == 0)
			continue;
		if (tally->numbers != NULL)
			probe = tally->numbers[fetch->tally_next];
		if (hm_fetch_is_done(fetch, probe))
			continue;
		for (; fetch->tally_used < hits; fetch->tally_used++)
		{
			if (run->count == HM_RUN_MAX)
				return;
			run->probes[run->count++] = probe;
		}
	}
}

/* Make a run of the next hits that are visible by the map. */
static void
make_visible_run(HmFetch *fetch)
{
	HmRun *run = &fetch->run;
	bool locks = IsolationIsSerializable();

	while (fetch->next < fetch->visible && run->count < HM_RUN_MAX)
	{
		const HmHit *hit = &fetch->hits[fetch->next++];

		if (hm_fetch_is_done(fetch, hit->probe))
		{
			fetch->skipped++;
			continue;
		}
		if (locks)
			PredicateLockPage(fetch->heap, hm_hit_block(hit), fetch->snapshot);
		run->probes[run->count] = hit->probe;
		run->hits[run->count++] = fetch->next - 1;
		/* Hits are not in the order of probes, so each key is a cache miss. */
		if (fetch->reads_keys && !hm_fetch_wants_keys(fetch))
			__builtin_prefetch(hm_key_at(fetch->probes.low, fetch->key_size, hit->probe));
	}
}

/* Make a run of the next hit, in a table of another access method than heap. */
static void
make_slot_run(HmFetch *fetch)
{
	HmRun *run = &fetch->run;
	const HmHit *hit = &fetch->hits[fetch->next++];
	ItemPointerData tid;
	bool call_again = false;

	if (hm_fetch_is_done(fetch, hit->probe))
	{
		fetch->skipped++;
		return;
	}
	fetch->stats.heap_blocks++;
	fetch->stats.heap_fetches++;
	hm_tid_unpack(hit->tid, &tid);
	if (!table_index_fetch_tuple(fetch->scan, &tid, fetch->snapshot, fetch->slot, &call_again,
								 NULL))
		return;

	/* An MVCC snapshot sees at most one tuple at an index entry's TID. */
	Assert(!call_again);
	pgstat_count_heap_fetch(fetch->index);
	if (!hm_fetch_has_key(fetch, hit->probe))
		return;
	run->probes[0] = hit->probe;
	run->hits[0] = fetch->next - 1;
	run->slot = fetch->slot;
	run->count = 1;
}

/* Read the next portion if need be.  Ends the batch if there is none. */
static bool
has_hits(HmFetch *fetch)
{
	if (fetch->dead_count >= HM_DEAD_ROWS / 2)
		give_hints(fetch);
	if (fetch->next < fetch->count || fetch->tally_next < fetch->tally.count ||
		(!fetch->finished && read_portion(fetch)))
		return true;
	hm_fetch_stop(fetch);
	return false;
}

const HmRun *
hm_fetch_run(HmFetch *fetch)
{
	HmRun *run = &fetch->run;

	do
	{
		CHECK_FOR_INTERRUPTS();
		drop_run(fetch);
		run->slot = NULL;
		run->in_order = false;
		if (!has_hits(fetch))
			return NULL;
		if (fetch->tally_next < fetch->tally.count)
		{
			make_tally_run(fetch);
			run->in_order = fetch->tally.numbers == NULL;
		}
		else if (fetch->next < fetch->visible)
			make_visible_run(fetch);
		else if (fetch->is_heap)
			hm_heap_run(fetch);
		else
			make_slot_run(fetch);
	} while (run->count == 0);
	return run;
}

bool
hm_fetch_peek(const HmFetch *fetch, uint32 ahead, uint32 *probe)
{
	if (ahead >= fetch->count - fetch->next)
		return false;
	*probe = fetch->hits[fetch->next + ahead].probe;
	return true;
}

uint64
hm_fetch_count(HmFetch *fetch)
{
	uint64 count = 0;
	const HmRun *run;

	fetch->counting = true;
	fetch->counted = 0;
	while (has_hits(fetch))
	{
		/* Serializable transactions lock the page of each hit. */
		if (fetch->next < fetch->visible && !IsolationIsSerializable() && fetch->done == NULL)
		{
			count += fetch->visible - fetch->next;
			fetch->next = fetch->visible;
		}
		else if ((run = hm_fetch_run(fetch)) != NULL)
			count += run->count;
	}
	return count + fetch->counted;
}

void
hm_fetch_note_matches(HmFetch *fetch, uint8 *done)
{
	const HmRun *run;

	Assert(done == fetch->done);
	while (has_hits(fetch))
	{
		/* Serializable transactions lock the page of each hit. */
		if (fetch->next < fetch->visible && !IsolationIsSerializable())
		{
			for (; fetch->next < fetch->visible; fetch->next++)
			{
				uint32 probe = fetch->hits[fetch->next].probe;

				fetch->skipped += done[probe];
				done[probe] = 1;
			}
		}
		else if ((run = hm_fetch_run(fetch)) != NULL)
		{
			for (uint32 i = 0; i < run->count; i++)
				done[run->probes[i]] = 1;
		}
	}
}

void
hm_fetch_stats(HmFetch *fetch, HmFetchStats *stats)
{
	keep_stats(fetch);
	*stats = fetch->stats;
}

void
hm_fetch_stats_add(HmFetchStats *sum, const HmFetchStats *stats)
{
	hm_lookup_stats_add(&sum->lookup, &stats->lookup);
	sum->heap_fetches += stats->heap_fetches;
	sum->heap_blocks += stats->heap_blocks;
	sum->removed += stats->removed;
}

void
hm_fetch_end(HmFetch *fetch)
{
	give_hints(fetch);
	hm_map_release(fetch);
	ExecClearTuple(fetch->slot);
	drop_run(fetch);
	hm_heap_end(fetch);
	FreeExprContext(fetch->key_context, true);
	if (fetch->own_slot)
		ExecDropSingleTupleTableSlot(fetch->slot);
	if (fetch->scan != NULL)
		table_index_fetch_end(fetch->scan);
	if (fetch->lookup != NULL)
		hm_lookup_end(fetch->lookup);
	if (fetch->dead != NULL)
		pfree(fetch->dead);
}
