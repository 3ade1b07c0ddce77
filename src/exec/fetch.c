/*
 * fetch.c
 *		From a batch of probes to visible tuples.
 *
 * Hits come from the engine in portions.  A portion is sorted into heap order, so that
 * each heap page is read once per portion.  The next pages are read ahead, as in a bitmap
 * heap scan.  Where the server has read streams (17 and later) a stream reads them; its
 * buffer stays pinned until the table access method has found the page in shared buffers.
 *
 * Index-only: a TID may be looked up in the visibility map only as long as VACUUM cannot
 * set the map's bits between the reading of the TID and that of the map.  PostgreSQL's
 * index-only scans keep a pin on the leaf for this.  A batch enters the visibility gate
 * instead, for one portion at a time, and looks the whole portion up in the map before it
 * leaves the gate.  Hits that the engine had read before it entered the gate are fetched
 * from the heap, where the snapshot decides.  On a standby, the gate does not stop
 * replay, so all hits are fetched from the heap.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/spccache.h"

#include "am/fault.h"
#include "compat.h"
#include "exec/nodes.h"

/*
 * Sizes of portions, in hits.  The larger portions are, the fewer heap pages are visited
 * twice.  So a batch's first portion has HITS_OF_PROBE hits for each probe, and later
 * ones have as many as a quarter of work_mem holds.
 *
 * Portions start small and grow where the first rows are wanted soon, and where probes
 * can be done early (HmFetch.done), so that the engine can leave out their other hits.
 *
 * An index-only portion has room for all entries of a leaf: the rest of a leaf would be
 * fetched from the heap.  If most hits are visible by the map, portions fit into the
 * processor's cache.
 */
#define FIRST_PORTION	64
#define HITS_OF_PROBE	2
#define PORTION_GROWTH	4
#define FIRST_INDEX_ONLY_PORTION	HT_LEAF_MAX_ENTRIES
#define VISIBLE_PORTION	16384
#define MIN_LAST_PORTION	4096
#define MAX_LAST_PORTION	(16 * 1024 * 1024)
#define BYTES_PER_HIT	(2 * sizeof(HmHit) + sizeof(uint64))

/* Minimum capacity of a lookup, in probes: the first batches are small and grow. */
#define MIN_CAPACITY	64

/*
 * Pages of the visibility map that are kept pinned, because hits in key order may be
 * anywhere in the heap.  Each page covers 255 MB of heap, with two bits for a heap page
 * (visibilitymap.c).
 */
#define MAP_PAGES		16
#define HEAP_PAGES_PER_MAP_BYTE		(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define HEAP_PAGES_PER_MAP_PAGE \
	((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * HEAP_PAGES_PER_MAP_BYTE)

typedef struct MapPage
{
	uint32		number;
	Buffer		buffer;			/* pinned, or invalid */
	const uint8 *bits;			/* its contents */
} MapPage;

struct HmFetch
{
	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	const HmKeyType *type;
	AttrNumber	key_column;		/* the table's column, or 0 if the key is an
								 * expression */
	ExprState  *key_expression;
	ExprContext *key_context;
	bool		compare_always; /* "compare", for all portions */
	bool		index_only;
	bool		first_rows;

	HmLookup   *lookup;
	uint32		capacity;		/* of lookup */
	HmProbes	probes;
	const uint8 *done;			/* nonzero: no more hits of that probe are
								 * wanted; or NULL */
	bool		finished;		/* the engine is known to have no more hits */
	bool		counting;		/* only the number of pairs is wanted */
	uint64		counted;		/* pairs that count_tids() has counted; they
								 * are in no portion */

	/* The portion */
	uint32		room;
	uint32		max_room;
	uint32		count;
	uint32		next;
	uint32		skipped;		/* hits of this portion whose probe was done */
	HmHit	   *hits;
	HmHit	   *scratch;		/* for sorting; NULL until it is needed */
	bool		compare;		/* whether to compare the keys of tuples with
								 * their probes */
	uint32		visible;		/* the first "visible" hits are on
								 * all-visible pages, and need not be
								 * fetched from the heap */
	uint64	   *keys;			/* if index_only, for ranges: the key of each
								 * hit; NULL until it is needed */

	/* The heap */
	IndexFetchTableData *scan;
	TupleTableSlot *slot;
	bool		own_slot;
	uint64		tid;			/* the last TID that was fetched; it has no
								 * visible tuple if the slot is empty */
	MapPage		maps[MAP_PAGES];
	int			prefetch_distance;	/* in heap pages */
	uint32		prefetch_next;	/* the first hit whose page has not been
								 * requested */
	int			prefetch_pages; /* pages requested and not yet reached */
	BlockNumber prefetch_block;
#ifdef HM_READ_STREAM
	ReadStream *stream;			/* NULL until it is first needed */
	Buffer		stream_buffer;	/* the last one it returned, pinned, or
								 * invalid */
#endif

	HmFetchStats stats;
};

Size
hm_fetch_leaves_memory(void)
{
	return (Size) work_mem * 1024 / 4 * 3;
}

uint32
hm_fetch_portion_hits(void)
{
	Size		memory = (Size) work_mem * 1024 - hm_fetch_leaves_memory();

	return (uint32) Max(MIN_LAST_PORTION, Min(MAX_LAST_PORTION, memory / BYTES_PER_HIT));
}

HmFetch *
hm_fetch_create(Relation heap, Relation index, const EState *estate, bool index_only,
				bool first_rows, TupleTableSlot *slot)
{
	HmFetch    *fetch = palloc0(sizeof(HmFetch));
	Snapshot	snapshot = estate->es_snapshot;

	fetch->heap = heap;
	fetch->index = index;
	fetch->snapshot = snapshot;
	fetch->type = hm_key_type(index);
	fetch->key_column = index->rd_index->indkey.values[0];
	if (fetch->key_column == 0)
	{
		fetch->key_expression = ExecInitExpr(linitial(RelationGetIndexExpressions(index)), NULL);
		fetch->key_context = CreateStandaloneExprContext();
	}
	fetch->compare_always = snapshot->snapshot_type != SNAPSHOT_MVCC ||
		estate->es_epq_active != NULL;
	fetch->index_only = index_only;
	fetch->first_rows = first_rows;
	fetch->finished = true;
	fetch->scan = table_index_fetch_begin(heap);
	fetch->own_slot = slot == NULL;
	fetch->slot = fetch->own_slot ? table_slot_create(heap, NULL) : slot;
	fetch->max_room = hm_fetch_portion_hits();
	if (index_only)
		fetch->max_room = Min(fetch->max_room, HM_GATE_MAX_HITS);
	fetch->prefetch_distance = get_tablespace_io_concurrency(heap->rd_rel->reltablespace);
	PredicateLockRelation(index, snapshot);
	return fetch;
}

/* End the lookup, if there is one, and add its counters to the fetch's. */
static void
keep_stats(HmFetch *fetch)
{
	const HmLookupStats *stats;
	HmFetchStats sum = {0};

	if (fetch->lookup == NULL)
		return;
	stats = hm_lookup_stats(fetch->lookup);
	sum.batches = stats->batches;
	sum.probes = stats->probes;
	sum.hits = stats->hits;
	sum.leaves = stats->leaves;
	sum.sort_ms = stats->sort_ns / 1e6;
	sum.search_ms = stats->search_ns / 1e6;
	sum.device_batches = stats->device_batches;
	sum.device_probes = stats->device_probes;
	sum.fallbacks = stats->fallbacks;
	sum.synced_blocks = stats->synced_blocks;
	sum.synced_lines = stats->synced_lines;
	sum.bytes_to_device = stats->bytes_to_device;
	sum.bytes_from_device = stats->bytes_from_device;
	sum.reason = stats->reason;
	sum.reason_probes = stats->reason_probes;
	hm_fetch_stats_add(&fetch->stats, &sum);
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

/* Whether the engine has to return the keys of hits.  Keys of points are known. */
static inline bool
wants_keys(const HmFetch *fetch)
{
	return fetch->index_only && fetch->probes.high != NULL && !fetch->counting;
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
	uint32		first = fetch->index_only ? FIRST_INDEX_ONLY_PORTION : FIRST_PORTION;
	uint32		limit = fetch->visible > fetch->count / 2 ?
		Min(VISIBLE_PORTION, fetch->max_room) : fetch->max_room;
	uint32		room = Max(fetch->room, first);
	bool		slowly = fetch->first_rows || fetch->done != NULL;

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

static void
make_portion_room(HmFetch *fetch)
{
	MemoryContext context = GetMemoryChunkContext(fetch);
	uint32		room = portion_room(fetch);

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
		fetch->hits = MemoryContextAlloc(context, room * sizeof(HmHit));
		fetch->room = room;
	}
	if (fetch->keys == NULL && wants_keys(fetch))
		fetch->keys = MemoryContextAlloc(context, room * sizeof(uint64));
}

void
hm_fetch_start(HmFetch *fetch, const HmProbes *probes, const uint8 *done)
{
	make_room(fetch, probes->count);
	fetch->probes = *probes;
	fetch->done = done;
	fetch->counting = false;
	fetch->count = fetch->next = 0;
	fetch->finished = probes->count == 0;
	if (!fetch->finished)
		hm_lookup_start(fetch->lookup, probes, done);
}

/* Stop reading ahead, and unpin the page that was read last. */
static void
stop_reading_ahead(HmFetch *fetch)
{
#ifdef HM_READ_STREAM
	if (BufferIsValid(fetch->stream_buffer))
		ReleaseBuffer(fetch->stream_buffer);
	fetch->stream_buffer = InvalidBuffer;
	if (fetch->stream != NULL)
		read_stream_reset(fetch->stream);
#endif
}

void
hm_fetch_stop(HmFetch *fetch)
{
	stop_reading_ahead(fetch);
	fetch->count = fetch->next = 0;
	fetch->finished = true;
	ExecClearTuple(fetch->slot);
	fetch->tid = 0;
	table_index_fetch_reset(fetch->scan);
}

/* The heap block of a packed TID, and of a hit. */
static inline BlockNumber
tid_block(uint64 tid)
{
	return (BlockNumber) (tid >> 16);
}

/* The same of a hit. */
static inline BlockNumber
hit_block(const HmHit *hit)
{
	return tid_block(hit->tid);
}

/*
 * Whether the visibility map says that all tuples of a TID's heap page are visible to
 * all.  This does what VM_ALL_VISIBLE() does, but keeps several pages of the map pinned.
 * As there, a byte is read without a lock.
 */
static inline bool
is_all_visible(HmFetch *fetch, uint64 tid)
{
	BlockNumber block = tid_block(tid);
	uint32		number = block / HEAP_PAGES_PER_MAP_PAGE;
	MapPage    *map = &fetch->maps[number % MAP_PAGES];
	uint8		bits;

	if (!BufferIsValid(map->buffer) || map->number != number)
	{
		(void) VM_ALL_VISIBLE(fetch->heap, block, &map->buffer);
		if (!BufferIsValid(map->buffer))
			return false;
		map->number = number;
		map->bits = (const uint8 *) PageGetContents(BufferGetPage(map->buffer));
	}
	bits = map->bits[block % HEAP_PAGES_PER_MAP_PAGE / HEAP_PAGES_PER_MAP_BYTE];
	bits >>= block % HEAP_PAGES_PER_MAP_BYTE * BITS_PER_HEAPBLOCK;
	return (bits & VISIBILITYMAP_ALL_VISIBLE) != 0;
}

/*
 * The lookup's reader (HmTidReader), called inside the gate: mark those hits of
 * the device that are on all-visible pages.
 */
static void
look_at_tids(void *argument, const uint64 *tids, uint32 n, uint8 *marks)
{
	HmFetch    *fetch = argument;

	for (uint32 i = 0; i < n; i++)
		marks[i] = is_all_visible(fetch, tids[i]);
}

/*
 * The lookup's filter (HmTidFilter), called while the gate is held: count the TIDs on
 * all-visible pages, and keep the others, which have to be fetched from the heap.
 */
static uint32
count_tids(void *argument, uint64 *tids, uint32 n)
{
	HmFetch    *fetch = argument;
	uint32		kept = 0;

	for (uint32 i = 0; i < n; i++)
	{
		uint64		tid = tids[i];

		hm_tid_check(fetch->index, tid);
		tids[kept] = tid;
		kept += !is_all_visible(fetch, tid);
	}
	fetch->counted += n - kept;
	return kept;
}

/*
 * Move those hits of the portion to the front that are on all-visible pages.  The first
 * "stale" hits were read before the gate was entered, so they may not be looked up; but
 * those of the device that look_at_tids() has marked may be trusted.
 */
static void
look_at_map(HmFetch *fetch, uint32 stale)
{
	bool		with_keys = wants_keys(fetch);
	uint32		visible = 0;

	for (uint32 i = 0; i < fetch->count; i++)
	{
		HmHit		hit = fetch->hits[i];

		if (hit.all_visible == 0 && (i < stale || !is_all_visible(fetch, hit.tid)))
			continue;
		fetch->hits[i] = fetch->hits[visible];
		fetch->hits[visible] = hit;
		if (with_keys)
		{
			uint64		key = fetch->keys[i];

			fetch->keys[i] = fetch->keys[visible];
			fetch->keys[visible] = key;
		}
		visible++;
	}
	fetch->visible = visible;
}

/* Sort the hits that have to be fetched from the heap into heap order. */
static void
sort_hits(HmFetch *fetch)
{
	uint32		count = fetch->count - fetch->visible;

	if (count > HM_HITS_FEW && fetch->scratch == NULL)
		fetch->scratch = MemoryContextAlloc(GetMemoryChunkContext(fetch),
											fetch->room * sizeof(HmHit));
	hm_hits_sort_by_tid(fetch->hits + fetch->visible, fetch->scratch, count);
}

/* Have the engine read up to a portion of hits. */
static void
read_hits(HmFetch *fetch)
{
	fetch->count = hm_lookup_next(fetch->lookup, fetch->hits,
								  wants_keys(fetch) ? fetch->keys : NULL, fetch->room);
	fetch->finished = hm_lookup_at_end(fetch->lookup);
	fetch->compare = fetch->compare_always || !hm_lookup_is_exact(fetch->lookup);
	HM_FAULT(lookup_read);
	for (uint32 i = 0; i < fetch->count; i++)
		hm_tid_check(fetch->index, fetch->hits[i].tid);
}

/* The same inside the visibility gate.  Hits on all-visible pages come first. */
static void
read_hits_in_gate(HmFetch *fetch)
{
	BlockNumber door;

	/* A serializable transaction needs each TID, to lock its heap page. */
	if (fetch->counting && !IsolationIsSerializable())
		hm_lookup_set_filter(fetch->lookup, count_tids, fetch);
	else
		hm_lookup_set_reader(fetch->lookup, look_at_tids, fetch);
	hm_lookup_prepare(fetch->lookup, wants_keys(fetch));
	HM_FAULT(lookup_prepared);
	door = hm_visibility_gate_enter(fetch->index);
	hm_lookup_forget_pages(fetch->lookup);
	read_hits(fetch);
	look_at_map(fetch, hm_lookup_stale_hits(fetch->lookup));
	hm_visibility_gate_leave(fetch->index, door);
}

/*
 * Read the next portion; false if there are no more hits.  Hits that have to be fetched
 * from the heap are sorted into heap order, except where the keys of ranges are wanted:
 * those stay in the same order as their keys.
 */
static bool
read_portion(HmFetch *fetch)
{
	stop_reading_ahead(fetch);
	fetch->visible = 0;
	do
	{
		make_portion_room(fetch);
		HM_FAULT(lookup_portion);
		if (fetch->index_only && !RecoveryInProgress())
			read_hits_in_gate(fetch);
		else
			read_hits(fetch);
	} while (fetch->count == 0 && !fetch->finished);
	if (!wants_keys(fetch))
		sort_hits(fetch);

	fetch->next = fetch->skipped = 0;
	fetch->prefetch_next = fetch->visible;
	fetch->prefetch_pages = 0;
	fetch->prefetch_block = InvalidBlockNumber;
	return fetch->count > 0;
}

#ifdef HM_READ_STREAM

/* The read stream's callback: the next heap page that the portion has wanted hits on. */
static BlockNumber
next_block(ReadStream *stream, void *argument, void *unused)
{
	HmFetch    *fetch = argument;

	while (fetch->prefetch_next < fetch->count)
	{
		const HmHit *hit = &fetch->hits[fetch->prefetch_next++];

		if (hit_block(hit) == fetch->prefetch_block ||
			(fetch->done != NULL && fetch->done[hit->probe]))
			continue;
		fetch->prefetch_block = hit_block(hit);
		return fetch->prefetch_block;
	}
	return InvalidBlockNumber;
}

/*
 * Take pages from the stream until that of a hit comes, and keep this one pinned.  Pages
 * that are passed over have only hits that have become unwanted.  Only for heap tables:
 * other access methods may use TIDs that are no page numbers.
 */
static void
read_ahead(HmFetch *fetch, const HmHit *hit)
{
	if (fetch->heap->rd_rel->relam != HEAP_TABLE_AM_OID)
		return;
	if (fetch->stream == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(GetMemoryChunkContext(fetch));

		fetch->stream = read_stream_begin_relation(HM_READ_STREAM_FLAGS, NULL, fetch->heap,
												   MAIN_FORKNUM, next_block, fetch, 0);
		MemoryContextSwitchTo(old_context);
	}
	do
	{
		if (BufferIsValid(fetch->stream_buffer))
			ReleaseBuffer(fetch->stream_buffer);
		fetch->stream_buffer = read_stream_next_buffer(fetch->stream, NULL);
	} while (BufferIsValid(fetch->stream_buffer) &&
			 BufferGetBlockNumber(fetch->stream_buffer) != hit_block(hit));

	/*
	 * The heap prunes a page when it fetches from it, but not while the page is pinned
	 * twice, as it is now; so prune it here.
	 */
	if (BufferIsValid(fetch->stream_buffer))
		heap_page_prune_opt(fetch->heap, fetch->stream_buffer);
}

#else

/* Prefetch the pages of the hits after the one that is being fetched. */
static void
prefetch(HmFetch *fetch)
{
#ifdef USE_PREFETCH
	while (fetch->prefetch_pages < fetch->prefetch_distance &&
		   fetch->prefetch_next < fetch->count)
	{
		uint32		i = fetch->prefetch_next++;
		BlockNumber block = hit_block(&fetch->hits[i]);

		if (block == fetch->prefetch_block)
			continue;
		fetch->prefetch_block = block;
		if (i <= fetch->next)
			continue;
		PrefetchBuffer(fetch->heap, MAIN_FORKNUM, block);
		fetch->prefetch_pages++;
	}
#endif
}

#endif							/* HM_READ_STREAM */

/*
 * Read ahead, before a hit is fetched.  other_page: it is not on the same page as the hit
 * before.
 */
static inline void
look_ahead(HmFetch *fetch, const HmHit *hit, bool other_page)
{
#ifdef HM_READ_STREAM
	if (other_page)
		read_ahead(fetch, hit);
#else
	if (other_page && fetch->prefetch_pages > 0)
		fetch->prefetch_pages--;
	prefetch(fetch);
#endif
}

/* Fetch the visible tuple of a TID into the slot; false if there is none. */
static bool
fetch_tuple(HmFetch *fetch, const HmHit *hit)
{
	uint64		packed = hit->tid;
	bool		other_page = fetch->tid >> 16 != packed >> 16 || fetch->tid == 0;
	ItemPointerData tid;
	bool		call_again = false;

	if (fetch->tid == packed)
		return !TTS_EMPTY(fetch->slot);

	fetch->stats.heap_blocks += other_page;
	if (fetch->prefetch_distance > 1)
		look_ahead(fetch, hit, other_page);
	fetch->tid = packed;
	hm_tid_unpack(packed, &tid);
	fetch->stats.heap_fetches++;
	if (!table_index_fetch_tuple(fetch->scan, &tid, fetch->snapshot, fetch->slot,
								 &call_again, NULL))
	{
		ExecClearTuple(fetch->slot);
		return false;
	}

	/* An MVCC snapshot sees at most one tuple of a HOT chain. */
	Assert(!call_again);
	pgstat_count_heap_fetch(fetch->index);
	return true;
}

/*
 * Whether the key of the tuple in the slot is one of a probe's keys.  If the hit is an
 * entry of the index and the snapshot is an MVCC one, it is (hm_lookup_is_exact()).  Then
 * it is not compared, because the key may be an expression that is slow to evaluate.  For
 * all other hits the tuple decides.  The exception is counting on a device: it does not
 * name the probe, so it has to be believed.
 */
static inline bool
has_key(HmFetch *fetch, uint32 probe)
{
	uint64		low,
				high,
				key;
	Datum		value;
	bool		is_null;

	if (!fetch->compare || probe == HM_NO_PROBE)
		return true;
	low = fetch->probes.low[probe];
	high = fetch->probes.high == NULL ? low : fetch->probes.high[probe];
	if (fetch->key_column != 0)
		value = slot_getattr(fetch->slot, fetch->key_column, &is_null);
	else
	{
		ResetExprContext(fetch->key_context);
		fetch->key_context->ecxt_scantuple = fetch->slot;
		value = ExecEvalExprSwitchContext(fetch->key_expression, fetch->key_context, &is_null);
	}
	if (is_null)
		return false;
	key = fetch->type->normalise(value);
	return key >= low && key <= high;
}

/* The value of the index's column in a hit, if index_only. */
static inline Datum
hit_key(const HmFetch *fetch, uint32 hit)
{
	return fetch->type->restore(wants_keys(fetch) ? fetch->keys[hit] :
								fetch->probes.low[fetch->hits[hit].probe]);
}

bool
hm_fetch_next(HmFetch *fetch, uint32 *probe, TupleTableSlot **slot, Datum *key)
{
	for (;;)
	{
		uint32		i;

		if (fetch->next == fetch->count)
		{
			if (fetch->finished || !read_portion(fetch))
			{
				hm_fetch_stop(fetch);
				return false;
			}
		}
		i = fetch->next++;
		*probe = fetch->hits[i].probe;

		CHECK_FOR_INTERRUPTS();
		if (fetch->done != NULL && fetch->done[*probe])
		{
			fetch->skipped++;
			continue;
		}
		if (i < fetch->visible)
		{
			PredicateLockPage(fetch->heap, hit_block(&fetch->hits[i]), fetch->snapshot);
			*slot = NULL;
			*key = hit_key(fetch, i);
			return true;
		}

		if (!fetch_tuple(fetch, &fetch->hits[i]) || !has_key(fetch, *probe))
			continue;
		if (fetch->index_only)
		{
			*slot = NULL;
			*key = hit_key(fetch, i);
		}
		else
			*slot = fetch->slot;
		return true;
	}
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
	uint64		count = 0;

	fetch->counting = true;
	fetch->counted = 0;
	for (;;)
	{
		if (fetch->next == fetch->count)
		{
			if (fetch->finished || !read_portion(fetch))
			{
				hm_fetch_stop(fetch);
				return count + fetch->counted;
			}
		}

		/* The test comes first because few transactions are serializable. */
		for (uint32 i = fetch->next; IsolationIsSerializable() && i < fetch->visible; i++)
			PredicateLockPage(fetch->heap, hit_block(&fetch->hits[i]), fetch->snapshot);
		if (fetch->next < fetch->visible)
		{
			count += fetch->visible - fetch->next;
			fetch->next = fetch->visible;
		}

		for (; fetch->next < fetch->count; fetch->next++)
		{
			CHECK_FOR_INTERRUPTS();
			if (fetch_tuple(fetch, &fetch->hits[fetch->next]) &&
				has_key(fetch, fetch->hits[fetch->next].probe))
				count++;
		}
	}
}

void
hm_fetch_tid(const HmFetch *fetch, ItemPointer tid)
{
	uint32		i = fetch->next - 1;

	if (i >= fetch->visible)
		*tid = fetch->slot->tts_tid;
	else
		hm_tid_unpack(fetch->hits[i].tid, tid);
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
	sum->batches += stats->batches;
	sum->probes += stats->probes;
	sum->hits += stats->hits;
	sum->leaves += stats->leaves;
	sum->heap_fetches += stats->heap_fetches;
	sum->heap_blocks += stats->heap_blocks;
	sum->sort_ms += stats->sort_ms;
	sum->search_ms += stats->search_ms;
	sum->device_batches += stats->device_batches;
	sum->device_probes += stats->device_probes;
	sum->fallbacks += stats->fallbacks;
	sum->synced_blocks += stats->synced_blocks;
	sum->synced_lines += stats->synced_lines;
	sum->bytes_to_device += stats->bytes_to_device;
	sum->bytes_from_device += stats->bytes_from_device;
	if (stats->reason_probes > sum->reason_probes)
	{
		sum->reason = stats->reason;
		sum->reason_probes = stats->reason_probes;
	}
}

void
hm_fetch_end(HmFetch *fetch)
{
	for (int i = 0; i < MAP_PAGES; i++)
	{
		if (BufferIsValid(fetch->maps[i].buffer))
			ReleaseBuffer(fetch->maps[i].buffer);
	}
	stop_reading_ahead(fetch);
#ifdef HM_READ_STREAM
	if (fetch->stream != NULL)
		read_stream_end(fetch->stream);
#endif
	if (fetch->key_context != NULL)
		FreeExprContext(fetch->key_context, true);
	if (fetch->own_slot)
		ExecDropSingleTupleTableSlot(fetch->slot);
	table_index_fetch_end(fetch->scan);
	if (fetch->lookup != NULL)
		hm_lookup_end(fetch->lookup);
}
