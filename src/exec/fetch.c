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
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/spccache.h"

#include "am/fault.h"
#include "compat.h"
#include "exec/fetch.h"

/* Minimum capacity of a lookup, in probes: the first batches are small and grow. */
#define MIN_CAPACITY 64

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

		fetch->may_be_unknown |= field->null_end != 0;
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

/* Prepare to note the values of dead rows, if the index is searched by values. */
static void
init_dead_values(HmFetch *fetch)
{
	Relation index = fetch->index;

	if (!fetch->gives_hints || !hm_is_btree(index) ||
		hm_btree_has_keys(index->rd_opfamily[0], index->rd_opcintype[0]))
		return;
	get_typlenbyval(index->rd_opcintype[0], &fetch->value_length, &fetch->value_by_value);
	fetch->dead_values =
		AllocSetContextCreate(CurrentMemoryContext, "values of dead rows", ALLOCSET_SMALL_SIZES);
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
	init_dead_values(fetch);
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
	fetch->probes.values = fetch->values.values != NULL ? &fetch->values : NULL;
	fetch->counting = false;
	fetch->keys_wanted = needs_keys(fetch, probes);
	fetch->some_not_visible = !fetch->is_heap;
	hm_portion_drop(fetch);
	fetch->finished = probes->count == 0;
	if (!fetch->finished)
		hm_lookup_start(fetch->lookup, &fetch->probes, done);
}

void
hm_fetch_start_hits(HmFetch *fetch, const HmHit *hits, uint32 count)
{
	Assert(!fetch->index_only && !fetch->compare_always);
	drop_run(fetch);
	hm_portion_drop(fetch);
	fetch->done = NULL;
	fetch->finished = true;
	hm_portion_take(fetch, hits, count);
}

void
hm_fetch_stop(HmFetch *fetch)
{
	hm_fetch_give_hints(fetch);
	ExecClearTuple(fetch->slot);
	drop_run(fetch);
	hm_heap_stop(fetch);
	hm_portion_drop(fetch);
	fetch->finished = true;
	if (fetch->scan != NULL)
		table_index_fetch_reset(fetch->scan);
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
		hm_fetch_give_hints(fetch);
	if (fetch->next < fetch->count || fetch->tally_next < fetch->tally.count ||
		(!fetch->finished && hm_portion_read(fetch)))
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
	hm_fetch_give_hints(fetch);
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
	if (fetch->dead_values != NULL)
		MemoryContextDelete(fetch->dead_values);
}
