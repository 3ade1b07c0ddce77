/*
 * nodes.h
 *		What the executor halves of all nodes share.  lookup_node.h has what lookup scans and
 *		lookup joins do, planner.h what the planner halves do.
 */
#ifndef HARMONIA_EXEC_NODES_H
#define HARMONIA_EXEC_NODES_H

#include "access/parallel.h"
#include "access/tableam.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/extensible.h"

#include "am/am.h"
#include "lookup/lookup.h"

/* GUCs (settings.c) */
extern bool hm_enable_lookup_scan;
extern bool hm_enable_lookup_join;
extern bool hm_enable_lookup_aggregate;
extern bool hm_enable_btree_lookup;
extern bool hm_enable_subselect_join;
extern int hm_batch_size;

/* ----------------------------------------------------------------
 *		Plans: what both halves of a node know
 * ----------------------------------------------------------------
 */

/*
 * Whether the bracket of a value of this type among keys of a key type, which is named by its id,
 * in an index of that column alone, may be fuzzy (am.h).  If so, the clause has to be evaluated for
 * each row.  It always is if keys are not exact.
 */
extern bool hm_may_be_fuzzy(Oid key, Oid type);

/*
 * The key type with an id (am.h) of a column, in an index of this column alone or, if it is
 * composite, of several columns.
 */
static inline const HmKeyType *
hm_column_key_type(bool composite, Oid id)
{
	return composite ? hm_field_type_lookup(id) : hm_key_type_lookup(id);
}

/* The number of processes that divide work, where the leader counts as a part. */
extern double hm_parallel_processes(int workers);

extern const CustomScanMethods hm_lookup_scan_methods;
extern const CustomScanMethods hm_lookup_join_methods;
extern const CustomScanMethods hm_lookup_aggregate_methods;

/*
 * The columns of a lookup aggregate's scan tuple are those of the rows below it, followed
 * by the aggregates.
 */
enum HmAggregateExprs
{
	HM_AGGREGATE_KEYS,      /* columns of GROUP BY */
	HM_AGGREGATE_KEPT,      /* other columns that have one value per group */
	HM_AGGREGATE_ARGUMENTS, /* of each aggregate; NULL if it has none */
	HM_AGGREGATE_FILTERS,   /* of each aggregate: a list of clauses */
	HM_AGGREGATE_EXPRS_LENGTH
};

/* ----------------------------------------------------------------
 *		Fetching (fetch.c, fetch_heap.c): from probes to visible tuples
 * ----------------------------------------------------------------
 */
typedef struct HmFetchStats
{
	HmLookupStats lookup;
	uint64 heap_fetches; /* TIDs for which a tuple was fetched from the heap */
	uint64 heap_blocks;  /* how often the fetch went to another heap block */
	uint64 removed;      /* tuples whose value was none of their probe's */
} HmFetchStats;

typedef struct HmFetch HmFetch;

/*
 * Prepare to fetch from a table through one of its indexes, with the executor's snapshot.
 * The caller keeps both open and locked until hm_fetch_end().  With index_only, keys are
 * taken from the index where the visibility map allows it.  With first_rows, little is
 * done before a batch's first match.  Tuples are put in slot, made with
 * table_slot_callbacks(); if slot is NULL, the fetch makes one.  Memory is allocated in
 * CurrentMemoryContext.
 */
extern HmFetch *hm_fetch_create(Relation heap, Relation index, const EState *estate,
								bool index_only, bool first_rows, TupleTableSlot *slot);

/*
 * Say that hm_fetch_tid() will not be called.  Then matches that a device finds with index_only
 * may come in the order of their probes.
 */
extern void hm_fetch_without_tids(HmFetch *fetch);

/*
 * Say which columns of the table hm_fetch_column() and hm_fetch_columns() may be asked for with
 * index_only, by their attribute numbers.  Without this call, these are all that the index can
 * return.
 */
extern void hm_fetch_needs(HmFetch *fetch, const Bitmapset *attributes);

/*
 * Leave out hits whose composite keys do not pass all of these filters, from the next batch on; not
 * index_only.  The filters are the caller's, and must stay unchanged.
 */
extern void hm_fetch_filter(HmFetch *fetch, const HmFieldFilter *filters, int count);

/*
 * A lookup may use as much memory as a hash table (work_mem and hash_mem_multiplier).  The
 * bytes that a fetch leaves to the batch's rows, probes and lookup; and the maximum number
 * of hits in a portion.
 */
extern Size hm_fetch_leaves_memory(bool index_only);
extern uint32 hm_fetch_portion_hits(bool index_only);

/*
 * The maximum number of outer rows in a batch, if keys have this size, and this many bytes of each
 * row are kept (source_rows.c).
 */
extern uint32 hm_join_batch_rows(Size key_size, Size width, bool index_only);

/*
 * Start a batch; what is left of the one before is dropped.  The arrays of probes, done and
 * values belong to the caller and must stay until the next batch is started.  done, which
 * may be NULL, has a byte for each probe (see hm_lookup_start()); pairs of probes that
 * are done are left out, and pairs of other probes may come more than once.  values is
 * NULL if keys are exact, or if the caller evaluates the
 * conditions itself.
 */
extern void hm_fetch_start(HmFetch *fetch, const HmProbes *probes, const uint8 *done,
						   const HmProbeValues *values);

/*
 * The same for hits that have been found already, of which the index has the entries: the rows of
 * these that are visible are the matches.  The number of a hit's probe is for the caller alone.
 */
extern void hm_fetch_start_hits(HmFetch *fetch, const HmHit *hits, uint32 count);

/*
 * A run: the next matches of a batch.  A match is a pair of a probe and a tuple that is
 * visible to the snapshot, whose key is one of the probe's.
 *
 * Without index_only, the tuples are given.  Those of a heap table are all on one page,
 * which is pinned as long as the run is valid.  For other access methods there is a single
 * match, and its tuple is in a slot.  With index_only, the caller may ask for the keys.
 *
 * If the batch has "done", a probe may have several matches in a run, because it could not
 * be marked in time.
 */
#define HM_RUN_MAX 256

typedef struct HmRun
{
	uint32 count;         /* matches */
	Buffer buffer;        /* the page, or InvalidBuffer */
	TupleTableSlot *slot; /* the single tuple, or NULL */
	bool in_order;        /* probes ascend: there is no need to prefetch */
	uint32 probes[HM_RUN_MAX];
	uint32 hits[HM_RUN_MAX]; /* for fetch.c */
	HeapTupleData tuples[HM_RUN_MAX];
} HmRun;

/*
 * Go to the next run.  Returns NULL at the end of the batch.  The run belongs to the
 * fetch; it is valid until the next call of this, hm_fetch_start() or hm_fetch_stop().
 */
extern const HmRun *hm_fetch_run(HmFetch *fetch);

/*
 * Set *probe to the probe of the hit that is "ahead" hits after the run's.  Returns false
 * if that hit has not been read from the index yet.  For prefetching what the hit will
 * need.
 */
extern bool hm_fetch_peek(const HmFetch *fetch, uint32 ahead, uint32 *probe);

/*
 * Put the tuple of a match in the fetch's slot.  Returns the slot.  Not for index_only.
 */
extern TupleTableSlot *hm_fetch_store(HmFetch *fetch, uint32 match);

/*
 * If index_only: the value that a column of the table has in a match of the run.  The index can
 * return the column, which is given by its attribute number.
 */
extern Datum hm_fetch_column(HmFetch *fetch, uint32 match, AttrNumber attribute, bool *is_null);

/* So many columns of a tuple are deformed faster by a slot than one by one. */
#define HM_SLOT_MIN_COLUMNS 3

/*
 * The values of a column of the table in some matches of the run.  If index_only, the index must be
 * able to return it.  by_slot: deform tuples by a slot.  What values point to is valid as long as
 * the run, with by_slot until another tuple is stored.
 */
extern void hm_fetch_columns(HmFetch *fetch, AttrNumber attribute, bool by_slot,
							 const uint32 *matches, uint32 count, Datum *values, bool *nulls);

/*
 * The TID of a match of the run.  If the tuple was not fetched from the table, this is the
 * TID in the index: the root of the tuple's HOT chain.
 */
extern void hm_fetch_tid(const HmFetch *fetch, uint32 match, ItemPointer tid);

/*
 * Go to the end of the batch.  Returns the number of matches that hm_fetch_run() would
 * have returned.
 */
extern uint64 hm_fetch_count(HmFetch *fetch);

/*
 * The same, but set "done" of each probe that has a match to 1.  It is what hm_fetch_start() got.
 */
extern void hm_fetch_note_matches(HmFetch *fetch, uint8 *done);

/* Drop what is left of the batch, and release the heap pages that are pinned for it. */
extern void hm_fetch_stop(HmFetch *fetch);

/*
 * Get a fetch's counters.  This ends its lookup: only hm_fetch_start(), hm_fetch_stop() and
 * hm_fetch_end() may follow, unless the batch is at its end already.
 */
extern void hm_fetch_stats(HmFetch *fetch, HmFetchStats *stats);

/* Add counters to a sum. */
extern void hm_fetch_stats_add(HmFetchStats *sum, const HmFetchStats *stats);

/* End a fetch: release its pins, its slot and its lookup.  The rest goes with its context. */
extern void hm_fetch_end(HmFetch *fetch);

/* ----------------------------------------------------------------
 *		Keys of sub-selects (subplan_keys.c)
 * ----------------------------------------------------------------
 */
typedef struct HmSubplanKeys HmSubplanKeys;

/*
 * Prepare to read keys of this type from a sub-select.  plan is what
 * hm_plan_subplan_keys() made, argument the array.  Returns NULL if only the array will
 * do.
 */
extern HmSubplanKeys *hm_subplan_keys_begin(PlanState *node, List *plan, Node *argument, Oid type);

/*
 * Read the keys, in any order, with duplicates, into an array of the type's key size, in
 * memory of CurrentMemoryContext.  Returns false if there is an array, because something has
 * evaluated the parameter.
 */
extern bool hm_subplan_keys_read(HmSubplanKeys *keys, const HmKeyType *key_type, void **points,
								 uint32 *count);

/* Whether a change of parameters changes the keys. */
extern bool hm_subplan_keys_changed(const HmSubplanKeys *keys, const Bitmapset *changed);

/* ----------------------------------------------------------------
 *		Unsorted keys (key_arrays.c, key_groups.c, distinct_keys.c)
 * ----------------------------------------------------------------
 */

/* Move the keys that are not above a limit to the front.  Returns their number. */
extern uint32 hm_move_to_front(void *keys, Size key_size, uint32 count, HmKey limit);

/* Take a sample of keys, and sort it.  Returns its size. */
extern uint32 hm_sample_keys(const void *keys, Size key_size, uint32 count, HmKey *sample,
							 uint32 size);

/* Sort one or more keys, and drop duplicates.  Returns how many keys are left. */
extern uint32 hm_drop_duplicates(void *keys, Size key_size, uint32 count);

/* Keys in any order, with duplicates, that are divided into batches. */
typedef struct HmKeyGroups
{
	void *keys;
	Size key_size;
	uint32 next;           /* first key that has not come into a batch */
	List *ends;            /* the ends of groups that have no key in common; the next group's end is
							* last */
	MemoryContext context; /* of the list */
} HmKeyGroups;

/*
 * Begin to divide keys, which belong to the caller, and are put into another order.
 * Memory for the groups is in CurrentMemoryContext.  What is left of groups begun before is freed;
 * a caller that has reset that context sets groups->ends to NIL.
 */
extern void hm_groups_begin(HmKeyGroups *groups, void *keys, Size key_size, uint32 count);

/*
 * Begin to divide those of the keys that are in low..high, which are slices that this process has
 * claimed.  Returns the number of keys that are done with then, at the front: those up to "high".
 */
extern uint32 hm_groups_begin_claimed(HmKeyGroups *groups, void *keys, Size key_size, uint32 count,
									  HmKey low, HmKey high);

/*
 * Get the next batch: at most so many keys, none of which is in another batch.  It may
 * have duplicates.  Returns their number, 0 if there are none left.
 */
extern uint32 hm_groups_next(HmKeyGroups *groups, uint32 limit, void **keys);

/* Keys of which each is looked up once. */
typedef struct HmDistinctKeys
{
	uint32 count; /* keys in memory, or in a batch */
	uint32 room;
	void *keys;
	Size key_size;
	Size max_room;
	bool finished;
	HmKeyGroups groups;
	struct Tuplesortstate *sort; /* all keys, if they are too many for memory; otherwise NULL */
	bool has_last;               /* the last key that was read from "sort" */
	HmKey last;
	MemoryContext context;
	MemoryContext group_context;
} HmDistinctKeys;

/*
 * Begin to collect keys of a size.  They may take the memory of a hash table; if there are more,
 * they are sorted on disk.  All memory is below CurrentMemoryContext.  The second function
 * drops all keys and frees what it can.
 */
extern void hm_distinct_begin(HmDistinctKeys *distinct, Size key_size);
extern void hm_distinct_reset(HmDistinctKeys *distinct);

/* Add a key. */
extern void hm_distinct_add_slowly(HmDistinctKeys *distinct, HmKey key);

static inline void
hm_distinct_add(HmDistinctKeys *distinct, HmKey key)
{
	if (likely(distinct->count < distinct->room))
		hm_key_put(distinct->keys, distinct->key_size, distinct->count++, key);
	else
		hm_distinct_add_slowly(distinct, key);
}

/* The bytes that the keys take. */
extern Size hm_distinct_memory(const HmDistinctKeys *distinct);

/*
 * Get the next batch: at most so many keys, none of which is in another batch.  Returns
 * their number, 0 if there are none left.  Sets *duplicates if the batch may have
 * duplicates itself.  The keys are valid until the next call.
 */
extern uint32 hm_distinct_next(HmDistinctKeys *distinct, uint32 limit, void **keys,
							   bool *duplicates);

/* One column of the rows of a block. */
typedef struct HmColumn
{
	Datum *values;
	bool *nulls;
} HmColumn;

/* ----------------------------------------------------------------
 *		The rows of lookup scans and lookup joins (sink_*.c)
 * ----------------------------------------------------------------
 */

/*
 * Whether the rows of a lookup scan or a lookup join can be had in blocks: its result is nothing
 * but columns of its inputs.  Of a scan of one table that is a column or two, it has no filter,
 * and the rows are not those of EvalPlanQual.
 */
extern bool hm_lookup_has_blocks(const CustomScanState *node);

/*
 * Read the next rows of such a node, up to max.  columns has an entry for each column of the
 * result; those that are wanted have arrays for max rows, the others have no values.  Wanted
 * columns must be passed by value.  Returns the number of rows, 0 at the end.  Does not do
 * what ExecProcNode() does besides: rescanning, and counting for EXPLAIN ANALYZE.
 */
extern uint32 hm_lookup_block(CustomScanState *node, HmColumn *columns, uint32 max);

/*
 * Run a lookup scan or a lookup join to its end.  Returns the number of rows that it would have
 * returned.  The note above on ExecProcNode() holds here, too.
 */
extern uint64 hm_lookup_count_rows(CustomScanState *node);

/* ----------------------------------------------------------------
 *		The plan below a node (plan_below.c)
 * ----------------------------------------------------------------
 */

/*
 * Begin, rescan and end what is below a node: one plan, and a second one where EvalPlanQual runs it
 * (recheck.c).
 */
extern void hm_child_begin(CustomScanState *node, EState *estate, int eflags);
extern void hm_child_rescan(CustomScanState *node);
extern void hm_child_end(CustomScanState *node);

/*
 * What ExecProcNode() does besides, where rows are not read with it: rescanning a child whose
 * parameters have changed; and recording, for EXPLAIN ANALYZE, the time that passes in
 * between, and the number of rows.
 */
extern void hm_child_enter(PlanState *child);
extern void hm_child_leave(PlanState *child, uint64 rows);

/* ----------------------------------------------------------------
 *		Parallel workers (parallel.c)
 * ----------------------------------------------------------------
 */

/* What the processes that run a parallel-aware node share. */
typedef struct HmShared HmShared;

/* In shared memory: slices of the range of all keys, and which of them are claimed. */
typedef struct HmSlices HmSlices;

/* The same: outer rows (shared_rows.h). */
typedef struct HmSharedRows HmSharedRows;

/* The start of the state of a lookup scan or a lookup join. */
typedef struct HmNode
{
	CustomScanState css;
	HmFetch *fetch;            /* NULL if there is none yet, or for EXPLAIN alone */
	HmFetchStats ended;        /* counters of fetches that have ended */
	HmFetchStats workers;      /* counters of parallel workers, once they have ended */
	HmShared *shared;          /* NULL if not parallel */
	bool divides_keys;         /* the processes of a parallel scan divide them: */
	HmSlices *slices;          /* NULL if not parallel */
	bool shares_rows;          /* those of a parallel join share outer rows: */
	HmSharedRows *shared_rows; /* NULL if not parallel */
	uint64 rows_shared;        /* how many there were, once the workers have ended */
} HmNode;

/*
 * Callbacks of parallel-aware nodes, by which workers hand counters to the leader.
 */
extern Size hm_node_estimate_dsm(CustomScanState *node, ParallelContext *context);
extern void hm_node_initialize_dsm(CustomScanState *node, ParallelContext *context,
								   void *coordinate);
extern void hm_node_reinitialize_dsm(CustomScanState *node, ParallelContext *context,
									 void *coordinate);
extern void hm_node_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate);
extern void hm_node_shutdown(CustomScanState *node);

/*
 * Work that several processes do is divided into runs.  This is the size of the next run,
 * if of all the work some is taken already.  Runs get smaller towards the end, so that all
 * processes end at about the same time.  They do not begin small, because each run is a
 * batch of its own, and may visit pages that other runs visit, too.  The first one is
 * HM_FIRST_RUN of a process's fair share.  The last ones are HM_LAST_RUNS of that share; or
 * of what has been taken, if that is more than all the work was expected to be.
 */
#define HM_FIRST_RUN 0.8
#define HM_LAST_RUNS 0.25

static inline double
hm_next_run(double all, double taken, int processes)
{
	return Max((all - taken) * HM_FIRST_RUN, Max(all, taken) * HM_LAST_RUNS) / processes;
}

/*
 * How many outer rows, max at most, the next batch of a parallel join should have, if the
 * planner expects so many for each process.
 */
extern uint32 hm_node_reserve_rows(HmNode *node, double expected, uint32 max);

/* Get the counters of all of the node's fetches in this process. */
extern void hm_node_stats(HmNode *node, HmFetchStats *stats);

/* ----------------------------------------------------------------
 *		Slices (slices.c): dividing the keys of a parallel lookup scan
 * ----------------------------------------------------------------
 */

#define HM_SLICES 256

/* Slices for a number of processes: their size, a new start, and another one. */
extern Size hm_slices_size(int processes);
extern void hm_slices_init(HmSlices *slices, int processes);
extern void hm_slices_reset(HmSlices *slices);

/*
 * The slices' first keys, in order, the first of them 0; NULL if there are none yet.  Then
 * a process offers its own, and gets those of the process that was first.
 */
extern const HmKey *hm_slices_bounds(HmSlices *slices);
extern const HmKey *hm_slices_offer(HmSlices *slices, const HmKey *bounds);

/*
 * Claim the next run of slices: all keys from *low to *high.  These are above the keys
 * that any process has claimed before.  Returns false if all slices are claimed.  Call
 * this only if there are bounds.
 */
extern bool hm_slices_claim(HmSlices *slices, HmKey *low, HmKey *high);

/* See that there are bounds, for one or more keys, in any order, that are looked up. */
extern void hm_slices_divide_keys(HmSlices *slices, const void *keys, Size key_size, uint32 count);

/* Compute bounds for sorted, disjoint ranges of an index's keys. */
extern void hm_slices_of_ranges(Relation index, const void *low, const void *high, Size key_size,
								uint32 count, HmKey *bounds);

/*
 * Cut sorted, disjoint ranges where slices begin.  Replaces the arrays, which are palloc'd.
 * Returns the new number of ranges.
 */
extern uint32 hm_slices_cut(const HmKey *bounds, void **low, void **high, Size key_size,
							uint32 count);

/* ----------------------------------------------------------------
 *		EXPLAIN (explain.c)
 * ----------------------------------------------------------------
 */

/* Show a table, given by its range table index, under a label, as the query names it. */
extern void hm_explain_table(const char *label, Index rti, ExplainState *es);

/*
 * Show the name of an index; or, for several, the names of indexes and their tables, and
 * which of them were not used; or, under a label, a list of clauses.
 */
extern void hm_explain_index(Oid index, ExplainState *es);
extern void hm_explain_indexes(List *indexes, List *tables, const Bitmapset *unused,
							   ExplainState *es);
extern void hm_explain_join_type(JoinType type, ExplainState *es);
extern void hm_explain_clauses(const char *label, List *clauses, CustomScanState *node,
							   List *ancestors, ExplainState *es);

/* Show a list of expressions under a label, if there are any. */
extern void hm_explain_list(const char *label, List *exprs, CustomScanState *node, List *ancestors,
							ExplainState *es);

/*
 * Show how many rows the node filtered out (nfiltered2) per loop, if any; and how many its
 * fetches did.
 */
extern void hm_explain_filtered(const char *label, CustomScanState *node, ExplainState *es);
extern void hm_explain_removed(HmNode *node, ExplainState *es);

/*
 * Show the counters of the node's fetches, in this process and in parallel workers; or
 * that they are not known, because workers ran the node without being able to hand them
 * over.
 */
extern void hm_explain_stats(HmNode *node, ExplainState *es);

#endif /* HARMONIA_EXEC_NODES_H */
