/*
 * fetch.h
 *		The state of a fetch, and what fetch.c, fetch_portion.c, fetch_match.c, fetch_heap.c and
 *		fetch_map.c offer to one another.
 */
#ifndef HARMONIA_EXEC_FETCH_H
#define HARMONIA_EXEC_FETCH_H

#include "exec/nodes.h"

/*
 * Pages of the visibility map that are kept pinned, because hits in key order may be
 * anywhere in the heap.  Each page covers 255 MB of heap, with two bits for a heap page
 * (visibilitymap.c).
 */
#define HM_MAP_PAGES 16

typedef struct HmMapPage
{
	uint32 number;
	Buffer buffer;     /* pinned, or invalid */
	const uint8 *bits; /* its contents */
} HmMapPage;

/*
 * Heap pages whose memory has been asked for, so that it is in the cache when their hits
 * are answered.  Each stage goes through the portion's hits on its own.
 */
#define HM_AHEAD_PAGES 256

typedef struct HmAheadStage
{
	uint32 hit;        /* the first one that is not done */
	uint32 page;       /* the number of the last hit's page, from 1 on */
	BlockNumber block; /* of the last hit */
} HmAheadStage;

typedef struct HmAhead
{
	HmAheadStage pages;    /* the page's header and its buffer's */
	HmAheadStage pointers; /* line pointers */
	HmAheadStage tuples;
	const char *addresses[HM_AHEAD_PAGES]; /* by number, modulo their count; NULL if unknown */
} HmAhead;

struct HmFetch
{
	Relation heap;
	Relation index;
	Size key_size; /* of its keys */
	Snapshot snapshot;
	const HmKeyType *type; /* NULL if the index has several columns */
	AttrNumber key_column; /* the table's column, or 0 if the key is an expression, or has several
							* columns */
	HmFields fields;
	AttrNumber columns[HM_MAX_KEY_COLUMNS];     /* the table's column, or 0 */
	ExprState *expressions[HM_MAX_KEY_COLUMNS]; /* in that case */
	int returned_count; /* if index_only, and the index has several columns: those that may be asked
						 * for */
	int returned[HM_MAX_KEY_COLUMNS];
	HmKey returned_bits;          /* of keys: those that tell what may be asked for */
	bool keys_wanted;             /* a hit of the batch needs its own key for that */
	const HmFieldFilter *filters; /* that the keys of hits have to pass */
	int filter_count;
	bool gives_hints;         /* that entries are dead */
	bool may_be_unknown;      /* some keys do not tell all of these */
	ExprContext *key_context; /* its memory has values that were made from keys of the run, if they
							   * are passed by reference */
	bool compare_always;      /* "compare_keys", for all portions */
	bool index_only;
	bool first_rows;
	bool by_probe; /* the caller wants no TIDs */

	HmLookup *lookup;
	uint32 capacity; /* of lookup */
	HmProbes probes;
	const uint8 *done;    /* nonzero: no more hits of that probe are wanted; or NULL */
	HmProbeValues values; /* of the probes; all zero if there are none */
	bool finished;        /* the engine is known to have no more hits */
	bool reads_keys;      /* values have been made from keys */
	bool counting;        /* only the number of pairs is wanted */
	uint64 counted;       /* pairs that the engine has only counted; they are in no portion */

	/* The portion */
	uint32 room;
	uint32 max_room;
	uint32 count;
	uint32 next;    /* the first hit that has not been in a run */
	uint32 skipped; /* hits of this portion whose probe was done */
	HmHit *hits;
	HmHit *scratch;    /* for sorting; NULL until it is needed */
	bool compare_keys; /* whether to compare the keys of tuples with their probes */
	bool compare;      /* whether to compare their keys or values */
	uint32 visible;    /* the first "visible" hits are on all-visible pages, and need not be fetched
						* from the heap */
	void *keys;        /* if keys_wanted: the key of each of these "visible" hits; NULL until it is
						* needed */
	HmTally tally;     /* other hits on all-visible pages, by probe */
	uint32 tally_next; /* the first probe that has not been in a run */
	uint32 tally_used; /* its hits that have been */
	HmMapPage maps[HM_MAP_PAGES];
	bool some_not_visible;    /* pages of the table, as the batch has shown */
	BlockNumber mapped_pages; /* that page maps cover; 0 until there may be one */

	/* Rows that were found dead, whose entries are to get hints */
	HmDeadRow *dead; /* room for HM_DEAD_ROWS; NULL until there is one */
	int dead_count;
	MemoryContext dead_values; /* copies of their values, if the index is searched by values; else
								* NULL */
	int16 value_length;        /* of these */
	bool value_by_value;
	uint32 dead_left; /* so many more of this portion may be noted */

	/* The table */
	bool is_heap;              /* its access method is PostgreSQL's heap */
	IndexFetchTableData *scan; /* of other access methods */
	TupleTableSlot *slot;
	bool own_slot;
	int io_concurrency;
	bool reads_ahead; /* pages are being read from files */
	int cached_pages; /* pages since the last one that was */
	uint32 requested; /* the first hit whose page has not been requested */
	int requests;     /* pages requested and not yet reached */
	BlockNumber requested_block;
#ifdef HM_READ_STREAM
	ReadStream *stream; /* NULL until it is first needed */
#endif
	HmAhead ahead;

	HmFetchStats stats;
	HmRun run;
};

/*
 * The number of dead rows that can be noted.  When there are half as many, their entries get hints;
 * a heap page may have so many more.
 */
#define HM_DEAD_ROWS 2048

/*
 * To give a hint takes some ten times as long as to find a row dead.  So beyond the first ones, at
 * most one row of so many hits of a portion is noted.  The next lookup notes others.
 */
#define HM_HITS_OF_DEAD_ROW 16

/* The heap block of a hit. */
static inline BlockNumber
hm_hit_block(const HmHit *hit)
{
	return (BlockNumber) (hit->tid >> 16);
}

/* Whether no more hits of a probe are wanted. */
static inline bool
hm_fetch_is_done(const HmFetch *fetch, uint32 probe)
{
	return fetch->done != NULL && fetch->done[probe] != 0;
}

/* Whether the engine has to return the keys of hits. */
static inline bool
hm_fetch_wants_keys(const HmFetch *fetch)
{
	return fetch->keys_wanted && !fetch->counting;
}

/*
 * The key of one of the portion's hits, which is of this probe, if index_only; or a key that says
 * the same of the columns that may be asked for.
 */
static inline HmKey
hm_fetch_hit_key(const HmFetch *fetch, uint32 hit, uint32 probe)
{
	return hm_fetch_wants_keys(fetch) ? hm_key_get(fetch->keys, fetch->key_size, hit) :
										hm_key_get(fetch->probes.low, fetch->key_size, probe);
}

/*
 * Whether the key of the tuple in the slot is one of a probe's keys.  If the hit is an
 * entry of the index and the snapshot is an MVCC one, it is (hm_lookup_is_exact()).  Then
 * it is not compared, because the key may be an expression that is slow to evaluate.  For
 * all other hits the tuple decides.  The exception is counting on a device: it does not
 * name the probe, so it has to be believed.  Where keys are not exact, the tuple always
 * decides, and not by its key alone; then nothing is counted on a device.
 */
extern bool hm_fetch_has_key(HmFetch *fetch, uint32 probe);

/* The same for the value of the tuple's key. */
extern bool hm_fetch_is_key(HmFetch *fetch, uint32 probe, Datum value, bool is_null);

/* ----------------------------------------------------------------
 *		Portions (fetch_portion.c)
 * ----------------------------------------------------------------
 */

/*
 * Read the next portion; false if there are no more hits.  Hits that have to be fetched
 * from the heap are sorted into heap order.  Their keys, if keys are wanted, are of no use then.
 */
extern bool hm_portion_read(HmFetch *fetch);

extern void hm_portion_drop(HmFetch *fetch);

/* Make a portion of hits that are given, as hm_fetch_start_hits(). */
extern void hm_portion_take(HmFetch *fetch, const HmHit *hits, uint32 count);

/* Give hints for the entries of the dead rows that were noted. */
extern void hm_fetch_give_hints(HmFetch *fetch);

/* ----------------------------------------------------------------
 *		Heap pages (fetch_heap.c)
 * ----------------------------------------------------------------
 */

/* A portion has been read: prepare to go through those of its hits that are not visible. */
extern void hm_heap_start(HmFetch *fetch);

/*
 * Make a run of the next hits, which are on one heap page.  The run may be empty.  Pins
 * the page and locks it once.  The pin belongs to the run.
 */
extern void hm_heap_run(HmFetch *fetch);

/* Stop reading ahead; and release what that needs. */
extern void hm_heap_stop(HmFetch *fetch);
extern void hm_heap_end(HmFetch *fetch);

/* ----------------------------------------------------------------
 *		The visibility map (fetch_map.c)
 * ----------------------------------------------------------------
 */

/* A reader of the table's visibility map; with page maps only if with_pages. */
extern HmMapReader hm_map_reader(HmFetch *fetch, bool with_pages);

/* Release the pages of the map that are pinned. */
extern void hm_map_release(HmFetch *fetch);

#endif /* HARMONIA_EXEC_FETCH_H */
