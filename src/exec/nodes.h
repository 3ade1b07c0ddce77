/*
 * nodes.h
 *		Declarations that the files of this folder share.
 */
#ifndef HARMONIA_EXEC_NODES_H
#define HARMONIA_EXEC_NODES_H

#include "access/parallel.h"
#include "access/tableam.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

#include "am/am.h"
#include "lookup/lookup.h"

/* GUCs (exec.c) */
extern bool hm_enable_lookup_scan;
extern bool hm_enable_lookup_join;
extern bool hm_enable_lookup_aggregate;
extern int	hm_batch_size;

/* ----------------------------------------------------------------
 *		Planning (planner.c, targets.c, lookup_scan_plan.c, lookup_count_plan.c,
 *		lookup_join_plan.c, lookup_aggregate_plan.c, distinct_plan.c, not_in.c,
 *		prune_plan.c, subplan_keys.c)
 * ----------------------------------------------------------------
 */

/*
 * Whether a relation can be read by lookups at all; and whether an index can be used for
 * them.
 */
extern bool hm_can_look_up(PlannerInfo *root, RelOptInfo *rel);
extern bool hm_can_use_index(const IndexOptInfo *index);

/* Whether a table has an index that can be used for lookups. */
extern bool hm_has_index(const RelOptInfo *rel);

/*
 * The strategy of an operator in the index's operator family, with the key on its left
 * side; 0 if the operator is not in the family.
 */
extern int	hm_operator_strategy(const IndexOptInfo *index, Oid operator);

/*
 * Whether one column is all that is read of the relation, by its target list and by these
 * clauses; and whether an index can return its key (index-only).
 */
extern bool hm_reads_only(RelOptInfo *rel, AttrNumber column, List *clauses);
extern bool hm_can_return_key(const IndexOptInfo *index);

/*
 * Whether the first rows are wanted soon, and maybe not all of them: the query has a
 * LIMIT, or is a cursor's, or is in an EXISTS.  A query with aggregates wants all rows.
 */
extern bool hm_wants_first_rows(PlannerInfo *root);

/*
 * The correlation between the order of the table's rows and that of an index's key, from
 * -1 to 1; 0 if there are no statistics.
 */
extern double hm_key_correlation(PlannerInfo *root, const IndexOptInfo *index);

/*
 * The work that lookups in one index have to do, as the planner expects it.  In a parallel
 * plan, this is the work of one process.
 */
typedef struct HmLookupWork
{
	double		processes;		/* how many processes do as much; 1 if not
								 * parallel */
	double		probes;
	double		batch;			/* maximum number of probes in a batch */
	double		hits;			/* entries that the probes find */
	double		rows;			/* hits whose rows are looked at */
	double		runs;			/* runs of neighbouring rows, if the table is
								 * in the order of the key */
	double		correlation;	/* 1 or -1: the table is in that order; 0: rows
								 * may be anywhere */
	bool		index_only;
} HmLookupWork;

/*
 * Add what lookups cost to *startup and *total: the least that a number of probes costs,
 * whatever they find; and the whole cost of some work.
 */
extern void hm_cost_lookup_least(double probes, Cost *startup, Cost *total);
extern void hm_cost_lookup(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
						   const HmLookupWork *work, Cost *startup, Cost *total);

/*
 * How much work that is, in pages of a table that is read as a whole.
 */
extern double hm_lookup_pages(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
							  const HmLookupWork *work);

/*
 * The number of parallel workers for this much work: as many as PostgreSQL has for a
 * sequential scan of a table with so many pages.  As there, the storage parameter
 * parallel_workers of the relation that is read in parts takes precedence.
 */
extern int	hm_parallel_workers(RelOptInfo *rel, double pages);

/* The number of processes that divide the work, where the leader counts as a part. */
extern double hm_parallel_processes(int workers);

/*
 * Whether the bracket of a value of this type among keys of another may be fuzzy (am.h).
 * If so, the clause has to be evaluated for each row.
 */
extern bool hm_may_be_fuzzy(Oid key, Oid type);

/*
 * A target's share: which keys it can have, as its partition bounds say.  They are in the
 * range low..high.  If modulus is not 0, their hash values leave this remainder.
 */
typedef struct HmShare
{
	uint64		low;
	uint64		high;
	uint64		modulus;
	uint64		remainder;
	Oid			hash;			/* the partition hash function, of a value and
								 * a seed */
} HmShare;

static inline bool
hm_share_is_all(const HmShare *share)
{
	return share->low == 0 && share->high == PG_UINT64_MAX && share->modulus == 0;
}

/* A target: a table that a join looks keys up in, with the index to use and its share. */
typedef struct HmTarget
{
	RelOptInfo *rel;
	IndexOptInfo *index;
	HmShare		share;
} HmTarget;

/*
 * The first table, of those that a relation stands for, that the planner has not pruned:
 * a partition, an inheritance child, or the relation itself.  NULL if there is none.
 */
extern RelOptInfo *hm_first_table(PlannerInfo *root, RelOptInfo *rel);

/*
 * Whether an expression on a relation's columns is the key of an index of one of its
 * tables.
 */
extern bool hm_is_key(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, Node *expr);

/*
 * All targets of a relation: HmTargets, each with an index that has the expression as its
 * key, and the operator family and key type of the model.  NIL if some table has no such
 * index.
 */
extern List *hm_targets(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *model, Node *key);

/*
 * Plan the run-time pruning of HmTargets by the inner side's restrictions.  Returns a
 * list for custom_private, which is NIL if nothing can be pruned at run time, and sets
 * *steps to what belongs in custom_exprs.
 */
extern List *hm_plan_pruning(PlannerInfo *root, RelOptInfo *inner, List *targets, List **steps);

extern void hm_lookup_scan_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern void hm_lookup_join_paths(PlannerInfo *root, RelOptInfo *joinrel,
								 RelOptInfo *outer, RelOptInfo *inner,
								 JoinType type, JoinPathExtraData *extra);

/*
 * Offer paths: lookup scans of a relation; lookup joins of an outer and an inner
 * relation; and, for the result of grouping, a lookup count of what a scan of the input
 * relation finds.  Called by the planner's hooks.
 */
extern void hm_lookup_count_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
								  const GroupPathExtraData *extra);

/*
 * Offer paths for the result of grouping: lookup aggregates of what lookup joins and
 * lookup scans of the input relation find, with and without parallel workers.
 */
extern void hm_lookup_aggregate_paths(PlannerInfo *root, RelOptInfo *input,
									  RelOptInfo *grouped, GroupPathExtraData *extra);

/* How lookup scan and lookup join paths are recognised. */
extern const CustomPathMethods hm_lookup_scan_path_methods;
extern const CustomPathMethods hm_lookup_join_path_methods;

/*
 * The cheapest of the relation's lookup scans, or of the partial ones, whose keys stand for
 * all of its restrictions, so that no filter is left.  Sets *index to its index.  NULL if
 * there is none.
 */
extern Path *hm_lookup_scan_exact_path(RelOptInfo *rel, bool partial, IndexOptInfo **index);

/*
 * If a lookup scan may read the keys of an array from the sub-select that makes it
 * (subplan_keys.c), return what the executor needs for this, for custom_private;
 * otherwise NIL.  key_type is that of the index's keys, type that of the array's elements.
 */
extern List *hm_plan_subplan_keys(PlannerInfo *root, RelOptInfo *rel, Oid key_type,
								  Node *argument, Oid type);

/*
 * Rewrite those conditions of a query that are NOT IN (SELECT ...), and can be answered by
 * an antijoin, as NOT EXISTS (not_in.c).
 */
extern void hm_rewrite_not_in(Query *query);

/*
 * If a relation is a sub-select that returns the distinct values of a column, which is
 * given, and nothing else: its cheapest path without the step that makes them distinct.
 * Otherwise NULL.
 */
extern Path *hm_path_before_distinct(RelOptInfo *rel, Node *column);

extern const CustomScanMethods hm_lookup_scan_methods;
extern const CustomScanMethods hm_lookup_count_methods;
extern const CustomScanMethods hm_lookup_join_methods;
extern const CustomScanMethods hm_lookup_aggregate_methods;

/*
 * What is in a plan's custom_private: lists of integers, but for lists of OIDs.
 * custom_exprs has lists of expressions.
 */
enum HmScanPrivate
{
	HM_SCAN_INDEX,				/* list of one OID */
	HM_SCAN_FLAGS,				/* index-only?, first rows soon? */
	HM_SCAN_ARMS,				/* a list for each arm: strategy, subtype and
								 * "is it an array?" of each condition, whose
								 * argument is in custom_exprs */
	HM_SCAN_SUBPLAN,			/* made by hm_plan_subplan_keys() for the only
								 * argument; or NIL */
	HM_SCAN_PRIVATE_LENGTH
};

enum HmScanExprs
{
	HM_SCAN_ARGUMENTS,			/* the arguments of all arms, in order */
	HM_SCAN_CLAUSES,			/* the conditions of all arms */
	HM_SCAN_EXPRS_LENGTH
};

enum HmJoinPrivate
{
	HM_JOIN_FLAGS,				/* JoinType, index-only?, type of the key, first
								 * rows soon?, only distinct keys of the outer
								 * side? */
	HM_JOIN_KEYS,				/* strategy and argument type of each key clause */
	HM_JOIN_SOURCES,			/* for each column of the scan tuple: the outer
								 * plan's column number, or 0 if it is the
								 * inner side's */
	HM_JOIN_TARGETS,			/* a list for each target: HmTargetPrivate */
	HM_JOIN_PRUNING,			/* made by hm_plan_pruning() */
	HM_JOIN_PRIVATE_LENGTH
};

enum HmTargetPrivate
{
	HM_TARGET_OIDS,				/* the table, the index, and the share's hash
								 * function */
	HM_TARGET_SHARE,			/* two halves of low and of high; modulus,
								 * remainder */
	HM_TARGET_COLUMNS,			/* for each column of the scan tuple: the
								 * table's attribute number, or 0 if it is the
								 * outer plan's */
	HM_TARGET_PRIVATE_LENGTH
};

enum HmJoinExprs
{
	HM_JOIN_ARGUMENTS,			/* the outer sides of the key clauses */
	HM_JOIN_KEY_CLAUSES,		/* the key clauses, which are among the join
								 * clauses, too */
	HM_JOIN_INNER_QUALS,		/* the inner side's restrictions */
	HM_JOIN_QUALS,				/* all join clauses */
	HM_JOIN_PRUNE_STEPS,		/* the steps made by hm_plan_pruning() */
	HM_JOIN_EXPRS_LENGTH
};

/*
 * The columns of a lookup aggregate's scan tuple are those of the rows below it, followed
 * by the aggregates.
 */
enum HmAggregateExprs
{
	HM_AGGREGATE_KEYS,			/* columns of GROUP BY */
	HM_AGGREGATE_KEPT,			/* other columns that have one value per group */
	HM_AGGREGATE_ARGUMENTS,		/* of each aggregate; NULL if it has none */
	HM_AGGREGATE_FILTERS,		/* of each aggregate: a list of clauses */
	HM_AGGREGATE_EXPRS_LENGTH
};

/* ----------------------------------------------------------------
 *		Fetching (fetch.c, fetch_heap.c): from probes to visible tuples
 * ----------------------------------------------------------------
 */
typedef struct HmFetchStats
{
	HmLookupStats lookup;
	uint64		heap_fetches;	/* TIDs for which a tuple was fetched from the
								 * heap */
	uint64		heap_blocks;	/* how often the fetch went to another heap
								 * block */
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
 * A lookup may use as much memory as a hash table (work_mem and hash_mem_multiplier).  The
 * bytes that a fetch leaves to the batch's rows, probes and lookup; and the maximum number
 * of hits in a portion.
 */
extern Size hm_fetch_leaves_memory(bool index_only);
extern uint32 hm_fetch_portion_hits(bool index_only);

/*
 * Start a batch; what is left of the one before is dropped.  The arrays of probes and
 * done belong to the caller and must stay until the next batch is started.  done, which
 * may be NULL, has a byte for each probe (see hm_lookup_start()); pairs of probes that
 * are done are left out.
 */
extern void hm_fetch_start(HmFetch *fetch, const HmProbes *probes, const uint8 *done);

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
#define HM_RUN_MAX		256

typedef struct HmRun
{
	uint32		count;			/* matches */
	Buffer		buffer;			/* the page, or InvalidBuffer */
	TupleTableSlot *slot;		/* the single tuple, or NULL */
	uint32		probes[HM_RUN_MAX];
	uint32		hits[HM_RUN_MAX];	/* for fetch.c */
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

/* The value of the index's column in a match of the run, if index_only. */
extern Datum hm_fetch_key(HmFetch *fetch, uint32 match);

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
extern HmSubplanKeys *hm_subplan_keys_begin(PlanState *node, List *plan, Node *argument,
											Oid type);

/*
 * Read the keys, in any order, with duplicates, into memory of CurrentMemoryContext.
 * Returns false if there is an array, because something has evaluated the parameter.
 */
extern bool hm_subplan_keys_read(const HmSubplanKeys *keys, const HmKeyType *key_type,
								 uint64 **points, uint32 *count);

/* Whether a change of parameters changes the keys. */
extern bool hm_subplan_keys_changed(const HmSubplanKeys *keys, const Bitmapset *changed);

/* ----------------------------------------------------------------
 *		Unsorted keys (key_groups.c, distinct_keys.c)
 * ----------------------------------------------------------------
 */

/* Keys in any order, with duplicates, that are divided into batches. */
typedef struct HmKeyGroups
{
	uint64	   *keys;
	uint32		next;			/* first key that has not come into a batch */
	List	   *ends;			/* the ends of groups that have no key in
								 * common; the next group's end is last */
	MemoryContext context;		/* of the list */
} HmKeyGroups;

/*
 * Begin to divide keys, which belong to the caller, and are put into another order.
 * Memory for the groups is in CurrentMemoryContext.
 */
extern void hm_groups_begin(HmKeyGroups *groups, uint64 *keys, uint32 count);

/*
 * Get the next batch: at most so many keys, none of which is in another batch.  It may
 * have duplicates.  Returns their number, 0 if there are none left.
 */
extern uint32 hm_groups_next(HmKeyGroups *groups, uint32 limit, uint64 **keys);

/* Move the keys that are not above a limit to the front.  Returns their number. */
extern uint32 hm_move_to_front(uint64 *keys, uint32 count, uint64 limit);

/* Take a sample of keys, and sort it.  Returns its size. */
extern uint32 hm_sample_keys(const uint64 *keys, uint32 count, uint64 *sample, uint32 size);

/* Keys of which each is looked up once. */
typedef struct HmDistinctKeys
{
	uint32		count;			/* keys in memory, or in a batch */
	uint32		room;
	uint64	   *keys;
	Size		max_room;
	bool		finished;
	HmKeyGroups groups;
	struct Tuplesortstate *sort;	/* all keys, if they are too many for memory;
									 * otherwise NULL */
	bool		has_last;		/* the last key that was read from "sort" */
	uint64		last;
	MemoryContext context;
	MemoryContext group_context;
} HmDistinctKeys;

/*
 * Begin to collect keys.  They may take the memory of a hash table; if there are more, they
 * are sorted on disk.  All memory is below CurrentMemoryContext.  The second function
 * drops all keys and frees what it can.
 */
extern void hm_distinct_begin(HmDistinctKeys *distinct);
extern void hm_distinct_reset(HmDistinctKeys *distinct);

/* Add a key. */
extern void hm_distinct_add_slowly(HmDistinctKeys *distinct, uint64 key);

static inline void
hm_distinct_add(HmDistinctKeys *distinct, uint64 key)
{
	if (likely(distinct->count < distinct->room))
		distinct->keys[distinct->count++] = key;
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
extern uint32 hm_distinct_next(HmDistinctKeys *distinct, uint32 limit, uint64 **keys,
							   bool *duplicates);

/* ----------------------------------------------------------------
 *		Joining (lookup_join.c, lookup_join_batch.c)
 * ----------------------------------------------------------------
 */

/* The maximum number of outer rows in a batch, if this many bytes of each are kept. */
extern uint32 hm_join_batch_rows(Size width, bool index_only);

/* One column of the rows of a block. */
typedef struct HmColumn
{
	Datum	   *values;
	bool	   *nulls;
} HmColumn;

/*
 * Whether a lookup join's rows can be had in blocks: its result is nothing but columns of
 * its inputs.
 */
extern bool hm_lookup_join_has_blocks(const CustomScanState *node);

/*
 * Read the next rows of such a join, up to max.  columns has an entry for each column of the
 * result; those that are wanted have arrays for max rows, the others have no values.  Wanted
 * columns must be passed by value.  Returns the number of rows, 0 at the end.  Does not do
 * what ExecProcNode() does besides: rescanning, and counting for EXPLAIN ANALYZE.
 */
extern uint32 hm_lookup_join_block(CustomScanState *node, HmColumn *columns, uint32 max);

/*
 * Run a lookup join to its end.  Returns the number of rows that it would have returned.
 * The note above on ExecProcNode() holds here, too.
 */
extern uint64 hm_lookup_join_count(CustomScanState *node);

/* ----------------------------------------------------------------
 *		Counting (lookup_scan.c)
 * ----------------------------------------------------------------
 */

/*
 * Run a lookup scan that has no filter to its end.  Returns the number of tuples that it
 * would have returned.
 */
extern uint64 hm_lookup_scan_count(CustomScanState *node);

/* ----------------------------------------------------------------
 *		Parallel workers (parallel.c)
 * ----------------------------------------------------------------
 */

/* What the processes that run a parallel-aware node share. */
typedef struct HmShared HmShared;

/* The start of the state of a lookup scan or a lookup join. */
typedef struct HmNode
{
	CustomScanState css;
	HmFetch    *fetch;			/* NULL if there is none yet, or for EXPLAIN
								 * alone */
	HmFetchStats ended;			/* counters of fetches that have ended */
	HmFetchStats workers;		/* counters of parallel workers, once they have
								 * ended */
	HmShared   *shared;			/* NULL if not parallel */
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
#define HM_FIRST_RUN	0.8
#define HM_LAST_RUNS	0.25

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

/*
 * Where a parallel-aware node has shared memory of its own, beyond what
 * hm_node_estimate_dsm() says, rounded up to MAXALIGN.
 */
extern void *hm_node_after_stats(HmNode *node);

/* Get the counters of all of the node's fetches in this process. */
extern void hm_node_stats(HmNode *node, HmFetchStats *stats);

/* ----------------------------------------------------------------
 *		Slices (slices.c): dividing the keys of a parallel lookup scan
 * ----------------------------------------------------------------
 */

/* In shared memory: slices of the range of all keys, and which of them are claimed. */
typedef struct HmSlices HmSlices;

#define HM_SLICES	256

/* Slices for a number of processes: their size, a new start, and another one. */
extern Size hm_slices_size(int processes);
extern void hm_slices_init(HmSlices *slices, int processes);
extern void hm_slices_reset(HmSlices *slices);

/*
 * The slices' first keys, in order, the first of them 0; NULL if there are none yet.  Then
 * a process offers its own, and gets those of the process that was first.
 */
extern const uint64 *hm_slices_bounds(HmSlices *slices);
extern const uint64 *hm_slices_offer(HmSlices *slices, const uint64 *bounds);

/*
 * Claim the next run of slices: all keys from *low to *high.  These are above the keys
 * that any process has claimed before.  Returns false if all slices are claimed.  Call
 * this only if there are bounds.
 */
extern bool hm_slices_claim(HmSlices *slices, uint64 *low, uint64 *high);

/*
 * Compute bounds: for one or more keys, in any order, that are looked up; or for sorted,
 * disjoint ranges of an index's keys.
 */
extern void hm_slices_of_keys(const uint64 *keys, uint32 count, uint64 *bounds);
extern void hm_slices_of_ranges(Relation index, const uint64 *low, const uint64 *high,
								uint32 count, uint64 *bounds);

/*
 * Cut sorted, disjoint ranges where slices begin.  Replaces the arrays, which are palloc'd.
 * Returns the new number of ranges.
 */
extern uint32 hm_slices_cut(const uint64 *bounds, uint64 **low, uint64 **high, uint32 count);

/* ----------------------------------------------------------------
 *		EXPLAIN (explain.c)
 * ----------------------------------------------------------------
 */

/* Show a join's inner table, given by its range table index, as the query names it. */
extern void hm_explain_table(Index rti, ExplainState *es);

/*
 * Show the name of an index; or, for several, the names of indexes and their tables, and
 * which of them were not used; or, under a label, a list of clauses.
 */
extern void hm_explain_index(Oid index, ExplainState *es);
extern void hm_explain_indexes(List *indexes, List *tables, const Bitmapset *unused,
							   ExplainState *es);
extern void hm_explain_clauses(const char *label, List *clauses, CustomScanState *node,
							   List *ancestors, ExplainState *es);

/* Show a list of expressions under a label, if there are any. */
extern void hm_explain_list(const char *label, List *exprs, CustomScanState *node,
							List *ancestors, ExplainState *es);

/* Show how many rows the node filtered out (nfiltered2) per loop, if any. */
extern void hm_explain_filtered(const char *label, CustomScanState *node, ExplainState *es);

/*
 * Show the counters of the node's fetches, in this process and in parallel workers; or
 * that they are not known, because workers ran the node without being able to hand them
 * over.
 */
extern void hm_explain_stats(HmNode *node, ExplainState *es);

#endif							/* HARMONIA_EXEC_NODES_H */
