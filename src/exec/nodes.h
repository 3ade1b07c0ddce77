/*
 * nodes.h
 *		What the files of this folder share.
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
extern int	hm_batch_size;

/* ----------------------------------------------------------------
 *		Planning (planner.c, targets.c, lookup_scan_plan.c, lookup_count_plan.c,
 *		lookup_join_plan.c, prune_plan.c)
 * ----------------------------------------------------------------
 */

/* Whether a relation can be read by lookups at all, and by this index. */
extern bool hm_can_look_up(PlannerInfo *root, RelOptInfo *rel);
extern bool hm_can_use_index(const IndexOptInfo *index);

/*
 * The strategy of an operator in the index's operator family, with the key on
 * its left side; 0 if it is none.
 */
extern int	hm_operator_strategy(const IndexOptInfo *index, Oid operator);

/*
 * Whether a column is all that is read of the relation, by its target and by
 * the clauses; and whether an index can give its key back.
 */
extern bool hm_reads_only(RelOptInfo *rel, AttrNumber column, List *clauses);
extern bool hm_can_return_key(const IndexOptInfo *index);

/*
 * Whether the query may not want all of its rows, but some of them soon: it has a LIMIT,
 * is a cursor's or an EXISTS.  An aggregate wants all.
 */
extern bool hm_wants_first_rows(PlannerInfo *root);

/*
 * How closely the order of the table's rows follows that of an index's key, according to
 * the statistics: from -1 to 1; 0 if they do not say.
 */
extern double hm_key_correlation(PlannerInfo *root, const IndexOptInfo *index);

/*
 * What lookups cost: so many probes, that find so many entries, of which so many rows
 * are looked at, in one or more batches.  With a correlation of 1 or -1 all rows are taken
 * to lie side by side, with 0 to be anywhere.  Adds to *startup and *total.
 */
extern void hm_cost_lookup(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
						   double probes, double hits, double rows, double correlation,
						   bool index_only, Cost *startup, Cost *total);

/*
 * Of the keys in a table, what its partition bounds say: that they lie in a range
 * and, if modulus is not 0, what is left of their hash value.
 */
typedef struct HmShare
{
	uint64		low;
	uint64		high;
	uint64		modulus;
	uint64		remainder;
	Oid			hash;			/* the function, of the key's value and a seed */
} HmShare;

static inline bool
hm_share_is_all(const HmShare *share)
{
	return share->low == 0 && share->high == PG_UINT64_MAX && share->modulus == 0;
}

/* A table that a join looks keys up in, and by which of its indexes. */
typedef struct HmTarget
{
	RelOptInfo *rel;
	IndexOptInfo *index;
	HmShare		share;
} HmTarget;

/*
 * The first table of those that a relation stands for: its partitions or its
 * inheritance children, or itself.  NULL if nothing is left of them.
 */
extern RelOptInfo *hm_first_table(PlannerInfo *root, RelOptInfo *rel);

/* Whether an expression over a relation is the key of an index of one of its tables. */
extern bool hm_is_key(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, Node *expr);

/*
 * All tables of a relation, HmTargets, with an index each of which an expression is
 * the key, and which compares it as the model does; NIL if one of them has none.
 */
extern List *hm_targets(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *model, Node *key);

/*
 * What is needed for pruning HmTargets at run time by the inner side's restrictions: a
 * list for custom_private, NIL if there is nothing to be pruned by; and steps, for custom_exprs.
 */
extern List *hm_plan_pruning(PlannerInfo *root, RelOptInfo *inner, List *targets, List **steps);

extern void hm_lookup_scan_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern void hm_lookup_join_paths(PlannerInfo *root, RelOptInfo *joinrel,
								 RelOptInfo *outer, RelOptInfo *inner,
								 JoinType type, JoinPathExtraData *extra);

/* Offer to count what a lookup scan of the input relation finds. */
extern void hm_lookup_count_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped);

/*
 * The cheapest lookup scan among the relation's paths whose keys stand for all of its
 * restrictions, and its index; NULL if there is none.
 */
extern Path *hm_lookup_scan_exact_path(RelOptInfo *rel, IndexOptInfo **index);

extern const CustomScanMethods hm_lookup_scan_methods;
extern const CustomScanMethods hm_lookup_count_methods;
extern const CustomScanMethods hm_lookup_join_methods;

/*
 * What a plan's custom_private has: lists of integers, but for the index's and
 * the table's OIDs.  custom_exprs have lists of expressions.
 */
enum HmScanPrivate
{
	HM_SCAN_INDEX,				/* list of one OID */
	HM_SCAN_FLAGS,				/* index-only?, first rows soon? */
	HM_SCAN_ARMS,				/* list of arms: lists of strategy, subtype,
								 * is it an array?; an argument each in
								 * custom_exprs */
	HM_SCAN_PRIVATE_LENGTH
};

enum HmScanExprs
{
	HM_SCAN_ARGUMENTS,			/* of all arms, one after the other */
	HM_SCAN_CLAUSES,			/* what the arms say */
	HM_SCAN_EXPRS_LENGTH
};

enum HmJoinPrivate
{
	HM_JOIN_FLAGS,				/* JoinType, index-only?, type of the key, first
								 * rows soon? */
	HM_JOIN_KEYS,				/* strategy and argument type of each key clause */
	HM_JOIN_SOURCES,			/* of each column of the scan tuple: the outer
								 * plan's column, or 0: the table's */
	HM_JOIN_TARGETS,			/* a list each, as follows */
	HM_JOIN_PRUNING,			/* of targets at run time (prune_plan.c) */
	HM_JOIN_PRIVATE_LENGTH
};

enum HmTargetPrivate
{
	HM_TARGET_OIDS,				/* of the table, the index, and its share's hash
								 * function */
	HM_TARGET_SHARE,			/* halves of low and high; modulus, remainder */
	HM_TARGET_COLUMNS,			/* of each column of the scan tuple: the table's
								 * attribute, or 0: the outer plan's */
	HM_TARGET_PRIVATE_LENGTH
};

enum HmJoinExprs
{
	HM_JOIN_ARGUMENTS,			/* outer sides of the key clauses */
	HM_JOIN_KEY_CLAUSES,		/* these; also among the next two */
	HM_JOIN_INNER_QUALS,		/* restrictions of the table */
	HM_JOIN_QUALS,				/* join clauses */
	HM_JOIN_PRUNE_STEPS,		/* what HM_JOIN_PRUNING evaluates */
	HM_JOIN_EXPRS_LENGTH
};

/* ----------------------------------------------------------------
 *		Fetching (fetch.c): from probes to visible tuples
 * ----------------------------------------------------------------
 */
typedef struct HmFetchStats
{
	uint64		batches;
	uint64		probes;
	uint64		hits;
	uint64		leaves;
	uint64		heap_fetches;	/* tuples fetched from the heap */
	uint64		heap_blocks;	/* how often another of its blocks was read for them */
	double		sort_ms;
	double		search_ms;
	uint64		device_batches; /* at least in part */
	uint64		device_probes;
	uint64		fallbacks;
	uint64		synced_blocks;
	uint64		synced_lines;
	uint64		bytes_to_device;
	uint64		bytes_from_device;
	HmCpuReason reason;			/* why the CPU had the largest of its batches */
	uint32		reason_probes;	/* and its size */
} HmFetchStats;

typedef struct HmFetch HmFetch;

/*
 * Prepare to fetch from a table through one of its indexes, both open and
 * locked until hm_fetch_end().  With index_only, keys are taken from the index
 * where the visibility map allows.  With first_rows, little is done before a batch's
 * first pair.  Tuples are put in slot, made by table_slot_callbacks(), or if it is NULL in
 * one of the fetch's own.  Memory is in CurrentMemoryContext.
 */
extern HmFetch *hm_fetch_create(Relation heap, Relation index, Snapshot snapshot,
								bool index_only, bool first_rows, TupleTableSlot *slot);

/* The bytes of work_mem that a fetch leaves to the batch and its lookup. */
extern Size hm_fetch_leaves_memory(void);

/*
 * Start a batch.  The probes stay the caller's until the next one.  done, which
 * may be NULL, as in lookup.h; pairs of probes that are done are not returned.
 */
extern void hm_fetch_start(HmFetch *fetch, const HmProbes *probes, const uint8 *done);

/*
 * Go to the next pair of probe and visible tuple; false at the end of the batch.
 * *probe is the probe's number.  Either *slot is the tuple, valid until the
 * next call, or it is NULL and *key is the value of the index's column.  A tuple
 * is visible to the snapshot, and its own key is one that the probe stands for.
 */
extern bool hm_fetch_next(HmFetch *fetch, uint32 *probe, TupleTableSlot **slot, Datum *key);

/*
 * The probe of the hit that comes so many hits after the next one; false if that is not
 * known yet.  For asking the cache for what belongs to it.
 */
extern bool hm_fetch_peek(const HmFetch *fetch, uint32 ahead, uint32 *probe);

/* How many pairs hm_fetch_next() would go to before the end of the batch; goes there. */
extern uint64 hm_fetch_count(HmFetch *fetch);

/*
 * Where the tuple is that hm_fetch_next() returned last; if the heap was not asked,
 * that is where its chain of versions begins.
 */
extern void hm_fetch_tid(const HmFetch *fetch, ItemPointer tid);

/* Forget what is left of the batch. */
extern void hm_fetch_stop(HmFetch *fetch);

extern void hm_fetch_stats(HmFetch *fetch, HmFetchStats *stats);
extern void hm_fetch_stats_add(HmFetchStats *sum, const HmFetchStats *stats);
extern void hm_fetch_end(HmFetch *fetch);

/* ----------------------------------------------------------------
 *		Counting (lookup_scan.c)
 * ----------------------------------------------------------------
 */

/*
 * How many tuples a lookup scan without a filter would return from here to its end;
 * goes there.
 */
extern uint64 hm_lookup_scan_count(CustomScanState *node);

/* ----------------------------------------------------------------
 *		Parallel workers (parallel.c)
 * ----------------------------------------------------------------
 */
typedef struct HmSharedStats HmSharedStats;

/* What the state of each of our nodes begins with. */
typedef struct HmNode
{
	CustomScanState css;
	HmFetch    *fetch;			/* NULL if nothing is executed */
	HmFetchStats ended;			/* what fetches did that there were before */
	HmFetchStats workers;		/* what workers did, once they have ended */
	HmSharedStats *shared;		/* where they say so; or NULL */
} HmNode;

/* Callbacks that hand the counts of workers, which share nothing else, to the leader. */
extern Size hm_node_estimate_dsm(CustomScanState *node, ParallelContext *context);
extern void hm_node_initialize_dsm(CustomScanState *node, ParallelContext *context,
								   void *coordinate);
extern void hm_node_reinitialize_dsm(CustomScanState *node, ParallelContext *context,
									 void *coordinate);
extern void hm_node_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate);
extern void hm_node_shutdown(CustomScanState *node);

/* What all fetches of this process did. */
extern void hm_node_stats(HmNode *node, HmFetchStats *stats);

/* ----------------------------------------------------------------
 *		EXPLAIN (explain.c)
 * ----------------------------------------------------------------
 */

/*
 * Show the table that a join looks up in: by its number in the range table, as the
 * query names it.
 */
extern void hm_explain_table(Index rti, ExplainState *es);

/*
 * Show the index's name; those of several, each with its table's, and which of them were not
 * used; and, deparsed, a list of clauses under a label.
 */
extern void hm_explain_index(Oid index, ExplainState *es);
extern void hm_explain_indexes(List *indexes, List *tables, const Bitmapset *unused,
							   ExplainState *es);
extern void hm_explain_clauses(const char *label, List *clauses, CustomScanState *node,
							   List *ancestors, ExplainState *es);

/* Show how many rows the node dropped (nfiltered2) per loop, if any. */
extern void hm_explain_filtered(const char *label, CustomScanState *node, ExplainState *es);

/* Show what fetching did, in this process and in parallel workers. */
extern void hm_explain_stats(HmNode *node, ExplainState *es);

#endif							/* HARMONIA_EXEC_NODES_H */
