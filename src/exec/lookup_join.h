/*
 * lookup_join.h
 *		The state of a lookup join, and the functions that the files lookup_join*.c and
 *		prune.c offer to one another.
 *
 * A lookup scan of a partitioned table is such a join, too.  In place of outer rows it has the
 * elements of an array.
 */
#ifndef HARMONIA_EXEC_LOOKUP_JOIN_H
#define HARMONIA_EXEC_LOOKUP_JOIN_H

#include "access/skey.h"

#include "exec/nodes.h"
#include "exec/plan_rows.h"

typedef enum JoinPhase
{
	PHASE_FILL,
	PHASE_TARGET,
	PHASE_MATCH,
	PHASE_ROWS,
	PHASE_DONE
} JoinPhase;

/*
 * A key clause: it compares the inner side's key with an argument from the outer side.  If the
 * index has several columns: a column's value.
 */
typedef struct JoinKey
{
	StrategyNumber strategy;
	const HmKeyType *type;		/* of the column */
	HmBracketFunction bracket;
	bool		is_exact;		/* an argument's key is its bracket */
	ExprState  *argument;
	int			column;			/* the outer row's, if the argument is a plain
								 * column; otherwise 0 */
	int			page_place;		/* if outer rows may be taken by the page: its place among the
								 * outer side's wanted columns */
} JoinKey;

/*
 * Probes: keys or ranges of keys.  Each array has one element per probe.  Most often all ranges have
 * the same length, because they are all keys that begin with the values of the same columns; then
 * "high" has not been filled.
 */
typedef struct JoinProbes
{
	uint32		count;
	bool		same_length;
	HmKey		length;			/* in that case: last key less first key */
	uint32	   *rows;			/* the outer row, by its number in the batch;
								 * NULL: probe i is of row i */
	Size		key_size;		/* of these keys */
	void	   *low;
	void	   *high;			/* NULL until it is needed */
	Size		high_room;		/* the bytes that it needs */
	uint8	   *done;			/* nonzero when no more hits are wanted: after a
								 * match that is enough; NULL: never */
} JoinProbes;

/* A column that is kept of outer rows. */
typedef struct JoinColumn
{
	int			source;			/* the outer row's column, from 1 on */
	bool		by_value;
	int16		length;			/* attlen */
} JoinColumn;

/* What is kept of a batch's outer rows (lookup_join_rows.c). */
typedef struct JoinRows
{
	int			count;			/* columns */
	JoinColumn *columns;
	bool		references;		/* some columns are passed by reference */
	uint32		room;			/* rows */
	Datum	   *values;			/* row by row */
	int			null_words;		/* in a row's bits for NULLs */
	uint64	   *nulls;			/* these bits; NULL if nothing is NULL */
	MemoryContext parent;		/* holds "values" */
	MemoryContext context;		/* holds the copies and "nulls", until the next
								 * batch */
	char	   *free;			/* where the next copy goes */
	Size		left;			/* bytes there */
	Size		copied;			/* bytes of all copies */
} JoinRows;

/* Which targets may have a key (lookup_join_shares.c). */
typedef struct JoinShares JoinShares;

/* A batch's probes, divided among the targets. */
typedef struct JoinDivision
{
	uint32		room;			/* probes */
	uint32	   *cells;			/* of each probe, for lookup_join_shares.c */
	uint32	   *first;			/* of each target, its first place in "probes"; and the end */
	uint32	   *probes;			/* numbers of probes, in order for each target */
} JoinDivision;

/*
 * A batch: outer rows and their probes.  A row has one probe, or none if no key can
 * satisfy its key clauses.
 */
typedef struct JoinBatch
{
	uint32		room;
	uint32		count;			/* rows */
	JoinRows	rows;
	uint8	   *matched;		/* for each row: nonzero if it has a match; NULL
								 * if nobody asks */
	bool		duplicates;		/* several may be the same, and one is enough */
	bool		exact;			/* each probe has exactly the keys that satisfy
								 * the key clauses */
	bool		exact_columns;	/* if the batch keeps the keys of columns: these do */
	JoinProbes	all;
	uint32	   *all_rows;		/* all.rows and all.done, if some row has no
								 * probe */
	uint8	   *all_done;
	JoinProbes	chosen;			/* those for the current target, if there are
								 * several targets */
	uint32		chosen_room;
	uint64	   *hashes;			/* partition hash values of the points */
	bool		divided;		/* the targets' probes are in "division" */
	JoinDivision division;
	HmKey	   *column_keys;	/* if there are several targets and columns: the keys
								 * of each row's columns */
	uint8	   *single_columns;	/* and how many of the first ones have one value */
	bool		hashed;
} JoinBatch;

/* A target: a table that keys are looked up in, and its index. */
typedef struct JoinTarget
{
	Oid			table_oid;
	Oid			index_oid;
	HmShare		share;
	int		   *columns;		/* for each column of the scan tuple: this
								 * table's attribute number, or 0 */
	int			last;			/* the highest of these */
	bool		by_slot;		/* deform tuples by a slot */
	Relation	table;			/* both are NULL until the first fetch */
	Relation	index;
	Size		key_size;		/* of the index's keys, and */
	HmFields	fields;			/* of composite keys; read with the index */
} JoinTarget;

/* Run-time pruning (prune.c).  Numbers of targets are those of LookupJoin.targets. */
typedef struct JoinPruning
{
	PlanState  *node;
	struct PartitionPruneState *state;	/* NULL if the choice never changes */
	ExprContext *econtext;		/* of its expressions, up to 17; see compat.h */
	MemoryContext context;		/* where "chosen" is allocated */
	Bitmapset  *chosen;
	bool		is_chosen;
} JoinPruning;

/* Elements of an array in place of outer rows (lookup_join_array.c). */
typedef struct JoinArray
{
	int			key;			/* the array's number among the keys; negative if there
								 * is no array */
	ScanKeyData scan_key;		/* `= ANY (array)`, for the keys of elements */
	HmSubplanKeys *subplan;		/* a sub-select that has the elements, or NULL */
	HmSlices   *slices;			/* NULL if not parallel */
	TupleTableSlot *slot;		/* an outer row: its column is an element */

	MemoryContext context;		/* has what is read of the array */
	bool		is_read;
	bool		from_subplan;	/* the keys were read from "subplan" */
	bool		started;		/* some keys may have been taken */
	bool		divided;		/* other processes look up some of the keys */
	Size		key_size;
	void	   *keys;			/* if the join drops duplicates: keys in any order, with
								 * duplicates */
	uint32		count;
	uint32		next;			/* the first key that is not claimed */
	HmKeyGroups groups;			/* those that are */
	struct HmValueSet *elements;	/* otherwise: distinct elements */
	uint32		next_element;
} JoinArray;

/*
 * How to fill a slot from a match: which of its columns come from the columns that are
 * kept of the outer row, and which from the target's tuple.
 */
typedef struct JoinFill
{
	TupleTableSlot *slot;
	int			outer_count;
	int		   *outer_to;		/* the slot's columns, from 0 on */
	int		   *outer_from;		/* the kept columns, from 0 on */
	int			inner_count;
	int		   *inner_to;
	int		   *inner_from;		/* columns of the scan tuple, from 0 on */
} JoinFill;

/* The node's state. */
typedef struct LookupJoin
{
	HmNode		node;
	JoinType	type;
	bool		one_match;		/* one match per outer row is enough */
	bool		marks;			/* one_match: notes which rows have a match, and
								 * returns no column of it */
	bool		keeps_unmatched;	/* returns outer rows without a match */
	bool		index_only;
	bool		first_rows;		/* the first rows are wanted soon */
	bool		drops_duplicates;	/* outer rows with equal keys are one row, of
									 * which only the key is kept */
	HmDistinctKeys distinct;	/* these keys */
	JoinArray	array;
	const HmKeyType *key_type;
	bool		composite;		/* the index has several columns, and keys are the
								 * values of the first ones */
	int			share_column;	/* the column of such keys that shares are about; its
								 * type is key_type */

	bool		may_be_fuzzy;	/* "quals" may have to be evaluated */
	bool		plain_key;		/* the only key clause is equality with a plain
								 * column of the key's type */
	int		   *page_columns;	/* if outer rows may be taken by the page (lookup_join_page.c): the
								 * places of the kept columns among the outer side's wanted
								 * columns; otherwise NULL */
	bool		plain_columns;	/* the same with several columns, whose types are
								 * exact, in a single target */
	int			value_column;	/* if keys are not exact, and plain_key: the kept
								 * column that the fetch compares tuples
								 * with; otherwise negative */
	FmgrInfo	equal;			/* compares them */
	int			key_count;
	JoinKey    *keys;
	ExprState  *inner_quals;
	ExprState  *quals;			/* all join clauses */
	ExprState  *other_quals;	/* these without the key clauses */
	bool		has_conditions; /* inner_quals or other_quals */
	bool		fills_candidate;	/* something is evaluated on the scan slot */
	int			column_count;	/* in the scan tuple */
	int		   *sources;		/* for each of them: the outer row's column, or
								 * 0 */

	int			target_count;	/* without those that were pruned when the node
								 * began */
	JoinTarget *targets;
	int			pruned;			/* how many targets were pruned then */
	JoinPruning	pruning;
	bool		several_targets;	/* if so, each gets only the probes that
									 * its share allows */
	int			target;			/* the current target; negative if none */
	int			fetch_target;	/* the target that node.fetch reads */
	MemoryContext fetch_context;
	FmgrInfo	hash;			/* the function that computed batch.hashes */
	Oid			hash_collation; /* and its collation */
	bool		shares_known;	/* "shares" has been made, if possible */
	JoinShares *shares;			/* NULL if shares do not divide probes */

	JoinPhase	phase;
	PlanRows	outer;
	bool		outer_done;
	uint32		limit;			/* maximum number of rows in the next batch */
	uint32		max_limit;
	JoinBatch	batch;
	JoinProbes *probes;			/* the batch's probes for the current target */
	const HmRun *run;			/* the matches at hand, or NULL */
	uint32		match;			/* the next one of these */
	TupleTableSlot *inner_slot; /* the last match's tuple, if it is in a slot */
	uint32		row;			/* the next row for PHASE_ROWS */
	bool		counting;		/* only the number of results is wanted */
	uint64		counted;		/* results that are counted already */
	JoinFill	candidate;		/* the scan slot, as far as conditions or the
								 * projection need it */
	JoinFill	result;			/* the result slot, if there is nothing to
								 * compute for it; otherwise its slot is NULL */
} LookupJoin;

/* ----------------------------------------------------------------
 *		Beginning (lookup_join_begin.c)
 * ----------------------------------------------------------------
 */

/*
 * Set up a join's state from its plan, which may only be explained.  The outer plan's state must be
 * there.  Memory is allocated in CurrentMemoryContext.
 */
extern void hm_join_begin(LookupJoin *join, bool is_explained);

/* The inner side's range table index. */
extern Index hm_join_inner_relid(LookupJoin *join);

/* ----------------------------------------------------------------
 *		Outer rows (lookup_join_rows.c)
 * ----------------------------------------------------------------
 */

/*
 * Begin to keep rows that have these types.  The caller has allocated the columns and set
 * their sources.  Memory for copies is below CurrentMemoryContext.
 */
extern void hm_rows_begin(JoinRows *rows, int count, TupleDesc outer);

/* Drop all rows; and make room for at least as many as there was room for. */
extern void hm_rows_reset(JoinRows *rows);
extern void hm_rows_make_room(JoinRows *rows, uint32 room);

/*
 * Keep what is needed of an outer row, whose columns have been deformed.  There must be
 * room for its number.
 */
extern void hm_rows_add(JoinRows *rows, uint32 row, TupleTableSlot *outer);

/* Prefetch a row. */
static inline void
hm_row_prefetch(const JoinRows *rows, uint32 row)
{
	__builtin_prefetch(rows->values + (Size) row * rows->count);
}

/* Prefetch the first copy of a row. */
static inline void
hm_row_prefetch_copies(const JoinRows *rows, uint32 row)
{
	for (int i = 0; i < rows->count; i++)
	{
		if (rows->columns[i].by_value)
			continue;
		__builtin_prefetch(DatumGetPointer(rows->values[(Size) row * rows->count + i]));
		return;
	}
}

/* A column of a row.  Columns are numbered from 0 on. */
static inline Datum
hm_row_value(const JoinRows *rows, uint32 row, int column, bool *is_null)
{
	*is_null = rows->nulls != NULL &&
		(rows->nulls[(Size) row * rows->null_words + column / 64] >> (column % 64) & 1) != 0;
	return rows->values[(Size) row * rows->count + column];
}

/* ----------------------------------------------------------------
 *		Probes (lookup_join_probe.c)
 * ----------------------------------------------------------------
 */

/* The outer row of a probe. */
static inline uint32
hm_probe_row(const JoinProbes *probes, uint32 probe)
{
	return probes->rows == NULL ? probe : probes->rows[probe];
}

/* Set all columns of the scan slot to NULL. */
extern void hm_join_clear_candidate(LookupJoin *join);

/*
 * Compute the range of keys to look up for an outer row.  Returns false if no key can
 * satisfy the key clauses.  Clears batch.exact if the range has keys that do not satisfy
 * them.  If the batch keeps the keys of columns, it gets those of its next row, and the range is
 * that of the column that shares are about.
 */
extern bool hm_join_row_range(LookupJoin *join, TupleTableSlot *outer, HmKey *low, HmKey *high);

/*
 * The range of composite keys whose first columns have these keys.  Returns whether no other rows
 * are in that range.
 */
extern bool hm_join_compose(const HmFields *fields, const HmKey *keys, int count,
							HmKey *low, HmKey *high);

/* ----------------------------------------------------------------
 *		Batches (lookup_join_batch.c)
 * ----------------------------------------------------------------
 */

/* Open a target's table and index, if they are not. */
extern void hm_join_open_target(LookupJoin *join, JoinTarget *target);

/* Drop the batch, and prepare to read the outer rows from the first one. */
extern void hm_join_restart(LookupJoin *join);

/*
 * Read the next batch of outer rows.  Returns false if it is empty: there are no more
 * rows, or none of them can be part of the result because all targets are pruned.
 */
extern bool hm_join_fill_batch(LookupJoin *join);

/* Prepare to take outer rows by the heap page, if the join can (lookup_join_page.c). */
extern void hm_join_page_begin(LookupJoin *join);

/*
 * Add the outer rows after the one that was read last that are on the same heap page, as far as the batch has room.
 * Returns their number; 0 if the next row has to be read by itself.
 */
extern uint32 hm_join_page_add(LookupJoin *join);

/*
 * Whether the batch keeps the keys of columns, of which each target makes its own composite keys.
 */
static inline bool
hm_join_keeps_columns(const LookupJoin *join)
{
	return join->composite && join->several_targets;
}

/*
 * Go to the next target for which the batch has probes, and start to look them up.  Opens
 * the target's table and index with AccessShareLock when it is first used.  Returns false
 * if no target is left.
 */
extern bool hm_join_next_target(LookupJoin *join);

/* End the node's fetch, if it has one, and add its counters to node.ended. */
extern void hm_join_end_fetch(LookupJoin *join);

/* ----------------------------------------------------------------
 *		Dividing probes among targets (lookup_join_shares.c)
 * ----------------------------------------------------------------
 */

/*
 * Prepare to divide probes with keys of this size among these targets.  Returns NULL if that would not be faster than to
 * test each probe with each target's share.  Memory is allocated in CurrentMemoryContext.
 */
extern JoinShares *hm_shares_create(const JoinTarget *targets, int count, Size key_size);

/* A share by whose hash function values of probes are needed, or NULL. */
extern const HmShare *hm_shares_hashed(const JoinShares *shares);

/* Whether it pays to divide these probes, and they are points. */
extern bool hm_shares_may_divide(const JoinProbes *probes);

/*
 * Divide the probes of a batch.  hashes has their hash values, if there is a hash function.  The
 * division's memory is in "context", and is used again.  Returns false if too many targets may have
 * each probe.
 */
extern bool hm_shares_divide(const JoinShares *shares, int target_count, const JoinProbes *probes,
							 const uint64 *hashes, MemoryContext context,
							 JoinDivision *division);

/* ----------------------------------------------------------------
 *		Arrays in place of outer rows (lookup_join_array.c)
 * ----------------------------------------------------------------
 */

/* Whether there is an array. */
static inline bool
hm_join_has_array(const LookupJoin *join)
{
	return join->array.key >= 0;
}

/* Set up the array from the plan's HM_JOIN_ARRAY.  The keys must be there. */
extern void hm_array_begin(LookupJoin *join, List *plan);

/* Go back to the first element; and drop what has been read if a parameter has changed. */
extern void hm_array_restart(LookupJoin *join);
extern void hm_array_rescan(LookupJoin *join, const Bitmapset *changed);

/*
 * If the join drops duplicates, the next batch: at most so many keys, none of which is in another
 * batch.  It may have duplicates.  Returns their number, 0 if there are none left.
 */
extern uint32 hm_array_next_keys(LookupJoin *join, uint32 limit, void **keys);

/* Otherwise, the next element as a row; NULL at the end.  No element comes twice. */
extern TupleTableSlot *hm_array_next_row(LookupJoin *join);

/* The bytes that such keys take.  Reads the array if that has not been done. */
extern Size hm_array_memory(LookupJoin *join);

/* Callbacks of parallel scans: those of parallel.c, with slices of the keys. */
extern Size hm_array_estimate_dsm(CustomScanState *node, ParallelContext *context);
extern void hm_array_initialize_dsm(CustomScanState *node, ParallelContext *context,
									void *coordinate);
extern void hm_array_reinitialize_dsm(CustomScanState *node, ParallelContext *context,
									  void *coordinate);
extern void hm_array_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate);
extern void hm_array_shutdown(CustomScanState *node);

/* ----------------------------------------------------------------
 *		Run-time pruning of targets (prune.c)
 * ----------------------------------------------------------------
 */

/*
 * Begin pruning.  plan and steps are what hm_plan_pruning() made (HM_JOIN_PRUNING and
 * HM_JOIN_PRUNE_STEPS), inner is the inner side's range table index, and targets is the
 * number of planned targets.  Returns the planned targets that are not pruned for good,
 * numbered as in the plan.  The other functions number these from 0.
 */
extern Bitmapset *hm_pruning_begin(JoinPruning *pruning, PlanState *node, List *plan,
								   List *steps, Index inner, int targets);

/*
 * Note that these parameters have changed.  If pruning depends on one of them,
 * hm_pruning_choose() chooses again.
 */
extern void hm_pruning_rescan(JoinPruning *pruning, const Bitmapset *changed);

/*
 * Return the targets to look up in.  The set belongs to pruning, and is valid until
 * parameters change.  Do not call this before the first batch is filled: it may run an
 * InitPlan to compute a parameter.
 */
extern const Bitmapset *hm_pruning_choose(JoinPruning *pruning);

/* ----------------------------------------------------------------
 *		Results as columns (lookup_join_columns.c)
 * ----------------------------------------------------------------
 */

/*
 * Put results in a block from row "first" on: so many outer rows, by their numbers in the
 * batch, and with_inner the run's matches.
 */
extern void hm_join_put_results(LookupJoin *join, HmColumn *columns, uint32 first,
								const uint32 *rows, const uint32 *matches, uint32 count,
								bool with_inner);

/* ----------------------------------------------------------------
 *		EXPLAIN (lookup_join_explain.c)
 * ----------------------------------------------------------------
 */
extern void hm_join_explain(CustomScanState *node, List *ancestors, ExplainState *es);

/* The same for a lookup scan of a partitioned table. */
extern void hm_array_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* HARMONIA_EXEC_LOOKUP_JOIN_H */
