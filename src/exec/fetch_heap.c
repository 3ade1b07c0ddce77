/*
 * fetch_heap.c
 *		From the hits of a portion to visible tuples of a heap table, page by page.
 *
 * Hits are in heap order.  A page is pinned once and locked once for all of its hits, as
 * in a bitmap heap scan.  HOT chains and visibility are PostgreSQL's business
 * (heap_hot_search_buffer()), and so are the conflict checks and predicate locks of
 * serializable transactions.  After the page is unlocked, its tuples are read under the
 * pin.
 *
 * Where rows are scattered, most of the time would go to waiting for memory.  So the cache
 * is asked, some hits ahead, for what comes next: headers of pages and buffers, then line
 * pointers, then tuples, whose headers and data often are in two cache lines.
 *
 * As long as pages are in shared buffers, nothing else is read ahead.  If one had to be
 * read from a file, the next ones are requested, too: by a read stream where the server
 * has these (17 and later), else by PrefetchBuffer().
 */
#include "postgres.h"

#include "access/heapam.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "compat.h"
#include "exec/fetch.h"

/*
 * Prefetch distances, in hits.  One million random rows of 20 million: 181 ms with a
 * single line of each tuple, 134 ms with both (Zen 4).
 */
#define PAGES_AHEAD 128
#define POINTERS_AHEAD 96
#define TUPLES_AHEAD 48

/* A tuple's first column begins this far behind its start, or later. */
#define TUPLE_SECOND_LINE 32

/* After so many pages in a row that were in shared buffers, stop reading ahead. */
#define CACHED_PAGES 64

/* ----------------------------------------------------------------
 *		Memory
 * ----------------------------------------------------------------
 */

static inline void
start_stage(HmAheadStage *stage, uint32 hit)
{
	stage->hit = hit;
	stage->page = 0;
	stage->block = InvalidBlockNumber;
}

/* Go to the stage's next hit.  Returns whether it is on another page. */
static inline bool
next_hit(HmAheadStage *stage, const HmHit *hits)
{
	BlockNumber block = hm_hit_block(&hits[stage->hit++]);

	if (block == stage->block)
		return false;
	stage->block = block;
	stage->page++;
	return true;
}

static void
prefetch_page(HmFetch *fetch, HmAheadStage *stage)
{
	Buffer buffer = hm_pin_expected(fetch->heap, stage->block);
	const char *page = NULL;

	if (buffer != InvalidBuffer)
	{
		page = (const char *) BufferGetPage(buffer);
		__builtin_prefetch(GetBufferDescriptor(buffer - 1), 1);
		__builtin_prefetch(page);
	}
	fetch->ahead.addresses[stage->page % HM_AHEAD_PAGES] = page;
}

/* The line pointer of the hit before the stage's next one; NULL if the page is unknown. */
static inline const ItemIdData *
line_pointer(const HmFetch *fetch, const HmAheadStage *stage)
{
	const char *page = fetch->ahead.addresses[stage->page % HM_AHEAD_PAGES];
	uint32 offset = (uint32) fetch->hits[stage->hit - 1].tid & 0xFFFF;

	if (page == NULL || offset - 1 >= MaxHeapTuplesPerPage)
		return NULL;
	return (const ItemIdData *) (page + SizeOfPageHeaderData) + (offset - 1);
}

/*
 * Ask the cache for what the hits after the next one need.  The pages are neither pinned
 * nor locked, so what is read of them here only decides what is prefetched.
 */
static inline void
prefetch_memory(HmFetch *fetch)
{
	HmAhead *ahead = &fetch->ahead;
	uint32 limit = Min(fetch->next + PAGES_AHEAD, fetch->count);
	const ItemIdData *pointer;

	while (ahead->pages.hit < limit)
	{
		if (next_hit(&ahead->pages, fetch->hits))
			prefetch_page(fetch, &ahead->pages);
	}

	limit = Min(fetch->next + POINTERS_AHEAD, fetch->count);
	while (ahead->pointers.hit < limit)
	{
		(void) next_hit(&ahead->pointers, fetch->hits);
		if ((pointer = line_pointer(fetch, &ahead->pointers)) != NULL)
			__builtin_prefetch(pointer);
	}

	limit = Min(fetch->next + TUPLES_AHEAD, fetch->count);
	while (ahead->tuples.hit < limit)
	{
		(void) next_hit(&ahead->tuples, fetch->hits);
		if ((pointer = line_pointer(fetch, &ahead->tuples)) != NULL)
		{
			const char *page = ahead->addresses[ahead->tuples.page % HM_AHEAD_PAGES];
			uint32 at = pointer->lp_off % BLCKSZ;

			__builtin_prefetch(page + at);
			__builtin_prefetch(page + Min(at + TUPLE_SECOND_LINE, BLCKSZ - 1));
		}
		if (fetch->compare && fetch->hits[ahead->tuples.hit - 1].probe != HM_NO_PROBE)
			__builtin_prefetch(hm_key_at(fetch->probes.low, fetch->key_size,
										 fetch->hits[ahead->tuples.hit - 1].probe));
	}
}

/* ----------------------------------------------------------------
 *		Files
 * ----------------------------------------------------------------
 */

/*
 * The next heap page, from fetch->requested on, that the portion has wanted hits on.
 */
static BlockNumber
next_block(HmFetch *fetch)
{
	while (fetch->requested < fetch->count)
	{
		const HmHit *hit = &fetch->hits[fetch->requested++];

		if (hm_hit_block(hit) == fetch->requested_block || hm_fetch_is_done(fetch, hit->probe))
			continue;
		fetch->requested_block = hm_hit_block(hit);
		return fetch->requested_block;
	}
	return InvalidBlockNumber;
}

#ifdef HM_READ_STREAM

static BlockNumber
stream_next_block(ReadStream *stream, void *argument, void *unused)
{
	return next_block(argument);
}

static void
stop_reading_ahead(HmFetch *fetch)
{
	if (fetch->reads_ahead)
		read_stream_reset(fetch->stream);
	fetch->reads_ahead = false;
}

static void
start_reading_ahead(HmFetch *fetch)
{
	if (fetch->stream == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(GetMemoryChunkContext(fetch));

		fetch->stream = read_stream_begin_relation(HM_READ_STREAM_FLAGS, NULL, fetch->heap,
												   MAIN_FORKNUM, stream_next_block, fetch, 0);
		MemoryContextSwitchTo(old_context);
	}
	fetch->reads_ahead = true;
}

/*
 * Take pages from the stream until this one comes.  Those that are passed over have only
 * hits that have become unwanted.
 */
static Buffer
read_block(HmFetch *fetch, BlockNumber block)
{
	Buffer buffer;

	while (BufferIsValid(buffer = read_stream_next_buffer(fetch->stream, NULL)))
	{
		if (BufferGetBlockNumber(buffer) == block)
		{
			hm_pin_expect(fetch->heap, block, buffer);
			return buffer;
		}
		ReleaseBuffer(buffer);
	}
	return hm_pin(fetch->heap, block);
}

#else

static void
stop_reading_ahead(HmFetch *fetch)
{
	fetch->reads_ahead = false;
}

static void
start_reading_ahead(HmFetch *fetch)
{
	fetch->reads_ahead = true;
	fetch->requests = 0;
}

static Buffer
read_block(HmFetch *fetch, BlockNumber block)
{
#ifdef USE_PREFETCH
	if (fetch->requests > 0)
		fetch->requests--;
	while (fetch->requests < fetch->io_concurrency)
	{
		BlockNumber next = next_block(fetch);

		if (next == InvalidBlockNumber)
			break;
		PrefetchBuffer(fetch->heap, MAIN_FORKNUM, next);
		fetch->requests++;
	}
#endif
	return hm_pin(fetch->heap, block);
}

#endif /* HM_READ_STREAM */

/* How many blocks this backend has read from files. */
static inline int64
blocks_read(void)
{
	return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
}

/* Pin the page of the next hit.  Begins and ends reading ahead as the case may be. */
static Buffer
pin_page(HmFetch *fetch, BlockNumber block)
{
	int64 read_before = blocks_read();
	Buffer buffer;

	if (fetch->io_concurrency <= 1)
		return hm_pin(fetch->heap, block);

	buffer = fetch->reads_ahead ? read_block(fetch, block) : hm_pin(fetch->heap, block);
	if (blocks_read() == read_before)
	{
		if (fetch->reads_ahead && ++fetch->cached_pages == CACHED_PAGES)
			stop_reading_ahead(fetch);
		return buffer;
	}
	fetch->cached_pages = 0;
	if (!fetch->reads_ahead)
	{
		/* Go on behind this page. */
		fetch->requested = fetch->next;
		fetch->requested_block = block;
		start_reading_ahead(fetch);
	}
	return buffer;
}

/* ----------------------------------------------------------------
 *		Runs
 * ----------------------------------------------------------------
 */

void
hm_heap_start(HmFetch *fetch)
{
	start_stage(&fetch->ahead.pages, fetch->visible);
	start_stage(&fetch->ahead.pointers, fetch->visible);
	start_stage(&fetch->ahead.tuples, fetch->visible);
}

/* hm_fetch_has_key() for a tuple of the run, without a slot if the key is a plain column. */
static inline bool
has_key(HmFetch *fetch, HeapTuple tuple, uint32 probe)
{
	Datum value;
	bool is_null;

	if (fetch->key_column <= 0)
	{
		ExecStoreBufferHeapTuple(tuple, fetch->slot, fetch->run.buffer);
		return hm_fetch_has_key(fetch, probe);
	}
	value = heap_getattr(tuple, fetch->key_column, RelationGetDescr(fetch->heap), &is_null);
	return hm_fetch_is_key(fetch, probe, value, is_null);
}

/* Drop the matches whose tuple does not have one of the probe's keys or values. */
static void
compare_keys(HmFetch *fetch)
{
	HmRun *run = &fetch->run;
	uint32 kept = 0;

	ResetExprContext(fetch->key_context);
	for (uint32 i = 0; i < run->count; i++)
	{
		if (!has_key(fetch, &run->tuples[i], run->probes[i]))
			continue;
		run->probes[kept] = run->probes[i];
		run->hits[kept] = run->hits[i];
		run->tuples[kept++] = run->tuples[i];
	}
	ExecClearTuple(fetch->slot);
	run->count = kept;
}

/*
 * Have a copy of a probe's value in the place of the key of a row: the batch may be gone when hints
 * are given.  Returns false if it is stored out of line, which is not read under a lock.  Of
 * several values with one key, this is the first.
 */
static bool
keep_value(HmFetch *fetch, uint32 probe, HmDeadRow *row)
{
	const HmProbeValues *values = &fetch->values;
	MemoryContext old_context = MemoryContextSwitchTo(fetch->dead_values);
	Datum value = values->values == NULL ? fetch->type->restore(row->low) :
										   values->values[hm_probe_value_place(values, probe)];
	bool kept = fetch->value_length != -1 || !VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value));

	if (kept)
		row->low = row->high = datumCopy(value, fetch->value_by_value, fetch->value_length);
	MemoryContextSwitchTo(old_context);
	return kept;
}

/*
 * Note that a hit's row is dead to all.  A device finds its entry again whether or not it has a
 * hint, and does not always say for which probe.
 */
static void
note_dead(HmFetch *fetch, const HmHit *hit)
{
	HmDeadRow *row;

	if (fetch->dead_left == 0 || fetch->dead_count == HM_DEAD_ROWS ||
		!hm_lookup_is_exact(fetch->lookup))
		return;
	if (fetch->dead == NULL)
		fetch->dead =
			MemoryContextAlloc(GetMemoryChunkContext(fetch), HM_DEAD_ROWS * sizeof(HmDeadRow));
	row = &fetch->dead[fetch->dead_count];
	row->low = hm_key_get(fetch->probes.low, fetch->key_size, hit->probe);
	row->high = hm_probe_high(&fetch->probes, fetch->key_size, hit->probe);
	row->tid = hit->tid;
	if (fetch->dead_values != NULL && !keep_value(fetch, hit->probe, row))
		return;
	fetch->dead_count++;
	fetch->dead_left--;
}

void
hm_heap_run(HmFetch *fetch)
{
	HmRun *run = &fetch->run;
	bool all_dead = false;
	BlockNumber block = hm_hit_block(&fetch->hits[fetch->next]);

	/* The page's first hits may have become unwanted, and maybe all of them. */
	while (hm_fetch_is_done(fetch, fetch->hits[fetch->next].probe))
	{
		fetch->skipped++;
		if (++fetch->next == fetch->count || hm_hit_block(&fetch->hits[fetch->next]) != block)
			return;
	}

	prefetch_memory(fetch);
	run->buffer = pin_page(fetch, block);
	hm_prune_page(fetch->heap, run->buffer);
	fetch->stats.heap_blocks++;
	LockBuffer(run->buffer, BUFFER_LOCK_SHARE);
	while (fetch->next < fetch->count && run->count < HM_RUN_MAX)
	{
		const HmHit *hit = &fetch->hits[fetch->next];
		HeapTuple tuple = &run->tuples[run->count];
		ItemPointerData tid;

		if (hm_hit_block(hit) != block)
			break;
		prefetch_memory(fetch);
		fetch->next++;
		if (hm_fetch_is_done(fetch, hit->probe))
		{
			fetch->skipped++;
			continue;
		}
		fetch->stats.heap_fetches++;
		hm_tid_unpack(hit->tid, &tid);
		if (!heap_hot_search_buffer(&tid, fetch->heap, run->buffer, fetch->snapshot, tuple,
									fetch->gives_hints ? &all_dead : NULL, true))
		{
			if (all_dead)
				note_dead(fetch, hit);
			continue;
		}
		pgstat_count_heap_fetch(fetch->index);
		run->probes[run->count] = hit->probe;
		run->hits[run->count++] = fetch->next - 1;
	}
	LockBuffer(run->buffer, BUFFER_LOCK_UNLOCK);
	if (fetch->compare)
		compare_keys(fetch);
}

void
hm_heap_stop(HmFetch *fetch)
{
	stop_reading_ahead(fetch);
}

void
hm_heap_end(HmFetch *fetch)
{
	stop_reading_ahead(fetch);
#ifdef HM_READ_STREAM
	if (fetch->stream != NULL)
		read_stream_end(fetch->stream);
#endif
}
