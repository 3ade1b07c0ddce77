/*
 * lookup_node.h
 *		The state of a lookup scan or a lookup join, and what the files of its executor offer to
 *		one another.
 *
 * A lookup node takes batches of probes from a source, goes with each from target to target, and
 * does something with the hits.  lookup_steps.c has the steps.  There is a choice of each, behind
 * three small interfaces: LookupSource, LookupSearch, and the functions of sink_*.c.
 */
#ifndef HARMONIA_EXEC_LOOKUP_NODE_H
#define HARMONIA_EXEC_LOOKUP_NODE_H

#include "access/skey.h"

#include "exec/lookup_plan.h"
#include "exec/nodes.h"
#include "exec/plan_rows.h"
#include "exec/value_set.h"

typedef enum LookupPhase
{
	PHASE_FILL,
	PHASE_TARGET,
	PHASE_MATCH,
	PHASE_ROWS,
	PHASE_DONE
} LookupPhase;

/*
 * A key clause: it compares the inner side's key with an argument from the outer side.  If the
 * index has several columns: a column's value.
 */
typedef struct RowKey
{
	StrategyNumber strategy;
	const HmKeyType *type; /* of the column */
	HmBracketFunction bracket;
	bool is_exact; /* an argument's key is its bracket */
	ExprState *argument;
	int column;     /* the outer row's, if the argument is a plain column; otherwise 0 */
	int page_place; /* if outer rows may be taken by the page: its place among the outer side's
					 * wanted columns */
} RowKey;

/*
 * Probes: keys or ranges of keys.  Each array has one element per probe.  Most often all ranges
 * have the same length, because they are all keys that begin with the values of the same columns;
 * then "high" has not been filled.
 */
typedef struct LookupProbes
{
	uint32 count;
	bool same_length;
	HmKey length;  /* in that case: last key less first key */
	uint32 *rows;  /* the outer row, by its number in the batch; NULL: probe i is of row i */
	Size key_size; /* of these keys */
	void *low;
	void *high;     /* NULL until it is needed */
	Size high_room; /* the bytes that it needs */
	uint8 *done;    /* nonzero when no more hits are wanted: after a match that is enough; NULL:
					 * never */
} LookupProbes;

/* A column that is kept of outer rows. */
typedef struct KeptColumn
{
	int source; /* the outer row's column, from 1 on */
	bool by_value;
	int16 length; /* attlen */
} KeptColumn;

/* What is kept of a batch's outer rows (kept_rows.c). */
typedef struct KeptRows
{
	int count; /* columns */
	KeptColumn *columns;
	bool references;       /* some columns are passed by reference */
	uint32 room;           /* rows */
	Datum *values;         /* row by row */
	int null_words;        /* in a row's bits for NULLs */
	uint64 *nulls;         /* these bits; NULL if nothing is NULL */
	MemoryContext parent;  /* holds "values" */
	MemoryContext context; /* holds the copies and "nulls", until the next batch */
	char *free;            /* where the next copy goes */
	Size left;             /* bytes there */
	Size copied;           /* bytes of all copies */
} KeptRows;

/* Which targets may have a key (search_shares.c). */
typedef struct SearchShares SearchShares;

/* A batch's probes, divided among the targets. */
typedef struct SearchDivision
{
	uint32 room;    /* probes */
	uint32 *cells;  /* of each probe, for search_shares.c */
	uint32 *first;  /* of each target, its first place in "probes"; and the end */
	uint32 *probes; /* numbers of probes, in order for each target */
} SearchDivision;

/*
 * A batch: outer rows and their probes.  A row has one probe, or none if no key can
 * satisfy its key clauses.
 */
typedef struct LookupBatch
{
	uint32 room;
	uint32 count; /* rows */
	KeptRows rows;
	uint8 *matched;       /* for each row: nonzero if it has a match; NULL if nobody asks */
	bool duplicates;      /* several may be the same, and one is enough */
	bool exact;           /* each probe has exactly the keys that satisfy the key clauses */
	HmProbeValues values; /* of conditions that compare values */
	bool exact_columns;   /* if the batch keeps the keys of columns: these do */
	LookupProbes all;
	uint32 *all_rows; /* all.rows and all.done, if some row has no probe */
	uint8 *all_done;
	LookupProbes chosen; /* those for the current target, if there are several targets */
	uint32 chosen_room;
	uint64 *hashes; /* partition hash values of the points */
	bool divided;   /* the targets' probes are in "division" */
	SearchDivision division;
	HmKey *column_keys;    /* if there are several targets and columns: the keys of each row's
							* columns */
	uint8 *single_columns; /* and how many of the first ones have one value */
	bool hashed;
} LookupBatch;

/* A target: a table that keys are looked up in, and its index. */
typedef struct SearchTarget
{
	Oid table_oid;
	Oid index_oid;
	HmShare share;
	int *columns;   /* for each column of the scan tuple: this table's attribute number, or 0 */
	int last;       /* the highest of these */
	bool by_slot;   /* deform tuples by a slot */
	Relation table; /* both are NULL until the first fetch */
	Relation index;
	Size key_size;   /* of the index's keys, and */
	HmFields fields; /* of composite keys; read with the index */
} SearchTarget;

/* Run-time pruning (search_prune.c).  Numbers of targets are those of LookupNode.targets. */
typedef struct SearchPruning
{
	PlanState *node;
	struct PartitionPruneState *state; /* NULL if the choice never changes */
	ExprContext *econtext;             /* of its expressions, up to 17; see compat.h */
	MemoryContext context;             /* where "chosen" is allocated */
	Bitmapset *chosen;
	bool is_chosen;
} SearchPruning;

/*
 * An arm: conditions that are combined by AND.  A row is wanted if it satisfies any of
 * the arms.
 */
typedef struct ScanArm
{
	int count;
	ScanKeyData *keys;
	ExprState **arguments;
} ScanArm;

/* Conditions on the key, and the probes that they become (source_conditions.c). */
typedef struct ScanConditions
{
	PlanState *node;
	Relation index; /* of the only target; NULL if there are several */
	bool composite;
	bool may_filter; /* hits are read from the heap, so some may be left out by their keys */
	const HmKeyType *key_type;
	Size key_size;
	HmSlices *slices; /* NULL if not parallel */
	int arm_count;
	ScanArm *arms;
	HmSubplanKeys *subplan; /* a sub-select that has the keys, or NULL */
	bool compares_values;   /* a single array is the only condition, and the fetch compares rows
							 * with its values, because keys are not exact */

	/* The probes, in their own memory */
	MemoryContext context;
	bool is_made;
	bool started;       /* some may have been taken */
	bool from_subplan;  /* they were read from "subplan" */
	bool divided;       /* other processes look up some of them */
	bool exact;         /* they have no keys that do not satisfy the conditions */
	HmKeyValues values; /* with compares_values: the values that these keys stand for, in the same
						 * order */
	HmFieldFilter filters[HM_MAX_KEY_COLUMNS]; /* for later columns, that keys have to pass */
	int filter_count;
	uint32 count;
	void *low;
	void *high;         /* NULL: "low" has keys in any order, with duplicates; */
	HmKey length;       /* ranges of this length begin there */
	HmKeyGroups groups; /* of such keys */
	uint32 next;        /* first range that is not looked up yet; of such keys, first one that is
						 * not claimed */
	uint32 end;         /* of the ranges that are claimed */
} ScanConditions;

/* The elements of an array as rows (source_elements.c). */
typedef struct ArrayElements
{
	int key; /* the array's number among the keys */
	HmValueSet set;
	bool is_read;
	uint32 next;
	TupleTableSlot *slot; /* a row: its column is an element */
} ArrayElements;

/*
 * How to fill a slot from a match: which of its columns come from the columns that are
 * kept of the outer row, and which from the target's tuple.
 */
typedef struct SlotFill
{
	TupleTableSlot *slot;
	int outer_count;
	int *outer_to;   /* the slot's columns, from 0 on */
	int *outer_from; /* the kept columns, from 0 on */
	int inner_count;
	int *inner_to;
	int *inner_from; /* columns of the scan tuple, from 0 on */
} SlotFill;

/* A column of the scan tuple that is computed of the match. */
typedef struct ComputedColumn
{
	int column; /* from 0 on */
	ExprState *expr;
} ComputedColumn;

/* A batch's results, which are sorted by the numbers of their outer rows (sink_ordered.c). */
typedef struct OrderedRows
{
	Tuplesortstate *sort;
	TupleTableSlot *in;  /* a row of the sort: the outer row's number, and the result's columns; */
	TupleTableSlot *out; /* and one that comes from it */
	bool pending;        /* it has results of the batch */
	bool sorted;         /* and these are being returned */
} OrderedRows;

/* Rows that EvalPlanQual has joined again (recheck.c). */
typedef struct LookupRecheck
{
	int *columns;          /* for each column of the scan tuple: the inner scan's, or 0; NULL if the
							* node is not run by EvalPlanQual */
	TupleTableSlot *outer; /* the outer row at hand, or NULL */
	bool matched;          /* it has had a match */
} LookupRecheck;

typedef struct LookupNode LookupNode;

/*
 * A source of probes: a file source_*.c for each.  Functions are called once for a batch, never
 * for a row.
 */
typedef struct LookupSource
{
	/* Go back to the first probe, as parameters are now.  "changed" are those that have changed. */
	void (*restart)(LookupNode *lookup, const Bitmapset *changed);

	/*
	 * Fill the batch, which is empty, with the next probes: at most lookup->limit, and as many as
	 * memory allows.  It stays empty if there are none left.
	 */
	void (*fill)(LookupNode *lookup);
} LookupSource;

/*
 * What is searched: search_targets.c, or src/foreign.  Functions are called once for a target or a
 * run of matches, never for a row.
 */
typedef struct LookupSearch
{
	/*
	 * Go to the next target for which the batch has probes, and start to look them up.  Sets
	 * lookup->probes.  Returns false if no target is left.
	 */
	bool (*next_target)(LookupNode *lookup);

	/* The target's next matches, or NULL, as hm_fetch_run(); not called if there is a fetch. */
	const HmRun *(*next_run)(LookupNode *lookup);
} LookupSearch;

/* The node's state. */
struct LookupNode
{
	HmNode node;
	LookupPlan plan;
	const LookupSource *source;
	const LookupSearch *search;
	LookupRecheck recheck;
	OrderedRows ordered;
	bool is_table;           /* a scan of one table: the scan tuple is its row */
	bool has_blocks;         /* its rows can be had in blocks */
	bool chosen;             /* of an index-only scan of one table: the columns of rows have been
							  * chosen, */
	bool chosen_for_exact;   /* for this value of batch.exact */
	bool one_match;          /* one match per outer row is enough */
	bool notes_matches;      /* one_match: notes which rows have a match, and returns no column of
							  * it */
	bool keeps_unmatched;    /* returns outer rows without a match */
	HmDistinctKeys distinct; /* of hm_source_distinct */
	ScanConditions conditions;
	ArrayElements elements;
	const HmKeyType *key_type; /* of the column that shares are about */
	bool may_be_fuzzy;         /* "quals" may have to be evaluated */
	bool plain_key;            /* the only key clause is equality with a plain column of the key's
								* type */
	int *page_columns;         /* if outer rows may be taken by the page (source_rows_page.c): the
								* places of the kept columns among the outer side's wanted columns;
								* otherwise NULL */
	bool plain_columns;        /* the same with several columns, whose types are exact, in a single
								* target */
	int value_column;          /* if keys are not exact, and plain_key: the kept column that the
								* fetch compares tuples with; otherwise negative */
	Oid value_type;            /* of such values; or invalid: the column's */
	FmgrInfo equal;            /* compares them */
	int key_count;
	int equal_count; /* with several columns: so many first keys are for equality, with a column
					  * each; others are for a range of the next column */
	RowKey *keys;
	ExprState *inner_quals;
	ExprState *quals;       /* all join clauses */
	ExprState *other_quals; /* these without the key clauses */
	bool has_conditions;    /* inner_quals or other_quals */
	ExprState *one_time;    /* one-time filters, of the join and of the inner side, */
	ExprState *inner_one_time;
	bool is_filtered;     /* which have been evaluated since the last rescan, */
	bool no_rows;         /* and with this result: there are no results, */
	bool no_matches;      /* or no matches */
	bool fills_candidate; /* something is evaluated on the scan slot */
	int column_count;     /* in the scan tuple */
	int *sources;         /* for each of them: the outer row's column, or 0, or HM_COMPUTED */
	int computed_count;
	ComputedColumn *computed; /* those of the last kind that somebody reads */

	int target_count; /* without those that were pruned when the node began */
	SearchTarget *targets;
	int pruned; /* how many targets were pruned then */
	SearchPruning pruning;
	bool several_targets; /* if so, each gets only the probes that its share allows */
	int target;           /* the current target; negative if none */
	int fetch_target;     /* the target that node.fetch reads */
	MemoryContext fetch_context;
	FmgrInfo hash;        /* the function that computed batch.hashes */
	Oid hash_collation;   /* and its collation */
	bool shares_known;    /* "shares" has been made, if possible */
	SearchShares *shares; /* NULL if shares do not divide probes */

	LookupPhase phase;
	PlanRows outer;
	bool outer_done;
	uint32 limit; /* maximum number of rows in the next batch */
	uint32 max_limit;
	LookupBatch batch;
	LookupProbes *probes;       /* the batch's probes for the current target */
	const HmRun *run;           /* the matches at hand, or NULL */
	uint32 match;               /* the next one of these */
	TupleTableSlot *inner_slot; /* the last match's tuple, if it is in a slot */
	uint32 row;                 /* the next row for PHASE_ROWS */
	bool counting;              /* only the number of results is wanted */
	uint64 counted;             /* results that are counted already */
	SlotFill candidate;         /* the scan slot, as far as conditions or the projection need it */
	SlotFill result;            /* the result slot, if there is nothing to compute for it; otherwise
								 * its slot is NULL */
};

/* ----------------------------------------------------------------
 *		Beginning (lookup_begin.c)
 * ----------------------------------------------------------------
 */

/*
 * Set up a node's state from its plan, which may only be explained.  The outer plan's state must be
 * there.  Memory is allocated in CurrentMemoryContext.
 */
extern void hm_lookup_begin(LookupNode *lookup, bool is_explained);

/* The range table index of the table that is searched. */
extern Index hm_lookup_relid(const LookupNode *lookup);

/*
 * Return the next row in the order of the outer side; drop what is left of a batch
 * (sink_ordered.c).
 */
extern TupleTableSlot *hm_ordered_exec(LookupNode *lookup);
extern void hm_ordered_drop(LookupNode *lookup);

/*
 * Whether results have to be sorted for that.  Rows that are returned without a tuple of the inner
 * side are in the order of the outer side, if no others are.
 */
static inline bool
hm_sorts_results(const LookupNode *lookup)
{
	return lookup->plan.in_order && !lookup->notes_matches;
}

/*
 * Begin to join single rows again, if the node is run by EvalPlanQual; begin again; and return the
 * next row (recheck.c).
 */
extern void hm_recheck_begin(LookupNode *lookup);
extern void hm_recheck_restart(LookupNode *lookup);
extern TupleTableSlot *hm_recheck_exec(LookupNode *lookup);

/* Whether there is an outer plan. */
static inline bool
hm_has_outer(const LookupNode *lookup)
{
	return lookup->node.css.custom_ps != NIL;
}

/* Whether the fetch compares tuples with values, because keys are not exact. */
static inline bool
hm_compares_values(const LookupNode *lookup)
{
	return lookup->value_column >= 0 || lookup->conditions.compares_values;
}

/* ----------------------------------------------------------------
 *		Sources (source_*.c)
 * ----------------------------------------------------------------
 */
extern const LookupSource hm_source_rows;
extern const LookupSource hm_source_shared;
extern const LookupSource hm_source_distinct;
extern const LookupSource hm_source_conditions;
extern const LookupSource hm_source_elements;

/* Set up conditions, or elements, from the plan.  Targets and keys must be there. */
extern void hm_conditions_begin(LookupNode *lookup);
extern void hm_elements_begin(LookupNode *lookup);

/*
 * For sources of rows: begin again; whether another row may be added to the batch; add one; and the
 * batch has its rows.
 */
extern void hm_rows_begin_anew(LookupNode *lookup);
extern bool hm_rows_may_add(const LookupNode *lookup);
extern void hm_rows_add(LookupNode *lookup, TupleTableSlot *row);
extern void hm_rows_finish(LookupNode *lookup);

/*
 * The bytes that a row takes in a batch, without copies and bits for NULLs.  Before a target is
 * open, its keys are taken to be as large as those of the batch.
 */
extern Size hm_row_memory(const LookupNode *lookup);

/*
 * Read outer rows into the batch, until it has lookup->limit or there is no memory for more; and
 * make room for a number of rows.
 */
extern void hm_rows_read(LookupNode *lookup);
extern void hm_rows_make_room(LookupNode *lookup, uint32 rows);

/* Prepare to take rows by the heap page, if the node can (source_rows_page.c). */
extern void hm_rows_page_begin(LookupNode *lookup);

/*
 * Add the rows after the one that was read last that are on the same heap page, as far as the
 * batch has room.  Returns their number; 0 if the next row has to be read by itself.
 */
extern uint32 hm_rows_add_page(LookupNode *lookup);

/* ----------------------------------------------------------------
 *		Probes (probes.c)
 * ----------------------------------------------------------------
 */

/* Make room for the first keys of probes; and, once it is needed, for the last ones. */
extern void hm_make_probes_room(LookupNode *lookup, LookupProbes *probes, Size key_size,
								uint32 room);
extern void hm_make_high_room(LookupNode *lookup, LookupProbes *probes);

/* Fill in the last keys of the first probes, because the next one has another length. */
extern void hm_keep_ends(LookupNode *lookup, LookupProbes *probes, uint32 count);

/* Set a probe's keys; those of the probes before it are set. */
static inline void
hm_put_range(LookupNode *lookup, LookupProbes *probes, uint32 probe, HmKey low, HmKey high)
{
	hm_key_put(probes->low, probes->key_size, probe, low);
	if (probe == 0)
	{
		probes->same_length = true;
		probes->length = high - low;
	}
	if (probes->same_length && high - low != probes->length)
		hm_keep_ends(lookup, probes, probe);
	if (!probes->same_length)
		hm_key_put(probes->high, probes->key_size, probe, high);
}

/* The value of the key of a probe, if that is a point. */
static inline Datum
hm_restore_key(const LookupNode *lookup, uint32 probe)
{
	const LookupProbes *all = &lookup->batch.all;

	return lookup->key_type->restore(hm_key_get(all->low, all->key_size, probe));
}

/* The row of a probe. */
static inline uint32
hm_probe_row(const LookupProbes *probes, uint32 probe)
{
	return probes->rows == NULL ? probe : probes->rows[probe];
}

/* The key of an outer row, if it is a plain column; false if it is NULL. */
static inline bool
hm_plain_key(LookupNode *lookup, TupleTableSlot *outer, HmKey *key)
{
	int column = lookup->keys[0].column - 1;

	if (outer->tts_isnull[column])
		return false;
	*key = lookup->key_type->normalise(outer->tts_values[column]);
	return true;
}

/* Set all columns of the scan slot to NULL. */
extern void hm_clear_candidate(LookupNode *lookup);

/*
 * Start a candidate in the scan slot: fill in the columns of an outer row, and set all
 * others to NULL.  Returns the scan slot.  Its values may point into the outer row.
 */
extern TupleTableSlot *hm_store_outer(LookupNode *lookup, TupleTableSlot *outer);

/*
 * Compute the range of keys to look up for an outer row.  Returns false if no key can
 * satisfy the key clauses.  Clears batch.exact if the range has keys that do not satisfy
 * them.  If the batch keeps the keys of columns, it gets those of its next row, and the range is
 * that of the column that shares are about.
 */
extern bool hm_row_range(LookupNode *lookup, TupleTableSlot *outer, HmKey *low, HmKey *high);

/*
 * The range of composite keys whose first columns have these keys.  Returns whether no other rows
 * are in that range.
 */
extern bool hm_compose_key(const HmFields *fields, const HmKey *keys, int count, HmKey *low,
						   HmKey *high);

/* ----------------------------------------------------------------
 *		Targets (search_targets.c)
 * ----------------------------------------------------------------
 */

/*
 * Open a target's table and index, if they are not: with AccessShareLock or, of a scan of one
 * table, the lock that the query has.
 */
extern void hm_search_open_target(LookupNode *lookup, SearchTarget *target);

/*
 * Whether the batch keeps the keys of columns, of which each target makes its own composite keys.
 */
static inline bool
hm_keeps_columns(const LookupNode *lookup)
{
	return lookup->plan.composite && lookup->several_targets && lookup->key_count > 0;
}

/* The bytes that choosing among several targets takes for each probe. */
extern Size hm_chosen_memory(const LookupNode *lookup);

/* Targets are opened when they are first used. */
extern const LookupSearch hm_search_targets;

/* End the node's fetch, if it has one, and add its counters to node.ended. */
extern void hm_search_end_fetch(LookupNode *lookup);

/* ----------------------------------------------------------------
 *		Dividing probes among targets (search_shares.c)
 * ----------------------------------------------------------------
 */

/*
 * Prepare to divide probes with keys of this size among these targets.  Returns NULL if that would
 * not be faster than to test each probe with each target's share.  Memory is allocated in
 * CurrentMemoryContext.
 */
extern SearchShares *hm_shares_create(const SearchTarget *targets, int count, Size key_size);

/* A share by whose hash function values of probes are needed, or NULL. */
extern const HmShare *hm_shares_hashed(const SearchShares *shares);

/* Whether it pays to divide these probes, and they are points. */
extern bool hm_shares_may_divide(const LookupProbes *probes);

/*
 * Divide the probes of a batch.  hashes has their hash values, if there is a hash function.  The
 * division's memory is in "context", and is used again.  Returns false if too many targets may have
 * each probe.
 */
extern bool hm_shares_divide(const SearchShares *shares, int target_count,
							 const LookupProbes *probes, const uint64 *hashes,
							 MemoryContext context, SearchDivision *division);

/* ----------------------------------------------------------------
 *		Run-time pruning of targets (search_prune.c)
 * ----------------------------------------------------------------
 */

/*
 * Begin pruning.  plan and steps are what hm_plan_pruning() made, inner is the inner side's range
 * table index, and targets is the number of planned targets.  Returns the planned targets that are
 * not pruned for good, numbered as in the plan.  The other functions number these from 0.
 */
extern Bitmapset *hm_pruning_begin(SearchPruning *pruning, PlanState *node, List *plan, List *steps,
								   Index inner, int targets);

/*
 * Note that these parameters have changed.  If pruning depends on one of them,
 * hm_pruning_choose() chooses again.
 */
extern void hm_pruning_rescan(SearchPruning *pruning, const Bitmapset *changed);

/*
 * Return the targets to look up in.  The set belongs to pruning, and is valid until
 * parameters change.  Do not call this before the first batch is filled: it may run an
 * InitPlan to compute a parameter.
 */
extern const Bitmapset *hm_pruning_choose(SearchPruning *pruning);

/* ----------------------------------------------------------------
 *		What is kept of rows (kept_rows.c)
 * ----------------------------------------------------------------
 */

/*
 * Begin to keep rows that have these types.  The caller has allocated the columns and set
 * their sources.  Memory for copies is below CurrentMemoryContext.
 */
extern void hm_kept_begin(KeptRows *rows, int count, TupleDesc outer);

/* Drop all rows; and make room for at least as many as there was room for. */
extern void hm_kept_reset(KeptRows *rows);
extern void hm_kept_make_room(KeptRows *rows, uint32 room);

/*
 * Keep what is needed of an outer row, whose columns have been deformed.  There must be
 * room for its number.
 */
extern void hm_kept_add(KeptRows *rows, uint32 row, TupleTableSlot *outer);

/*
 * Keep rows that another process has kept: "count" of them, from a number on.  There is room.  The
 * arrays are like those of KeptRows; nulls is NULL if nothing is NULL.  Values that are passed by
 * reference are given as offsets from "copies", and copied.
 */
extern void hm_kept_add_kept(KeptRows *rows, uint32 row, const Datum *values, const uint64 *nulls,
							 const char *copies, uint32 count);

/*
 * A run has come: prefetch the rows of hits that are some way ahead, as many as the run has; or of
 * the run itself, if it is so long that this has not been done.
 */
extern void hm_kept_prefetch(LookupNode *lookup);

/* Prefetch a row. */
static inline void
hm_row_prefetch(const KeptRows *rows, uint32 row)
{
	__builtin_prefetch(rows->values + (Size) row * rows->count);
}

/* Prefetch the first copy of a row. */
static inline void
hm_row_prefetch_copies(const KeptRows *rows, uint32 row)
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
hm_row_value(const KeptRows *rows, uint32 row, int column, bool *is_null)
{
	*is_null = rows->nulls != NULL &&
			   (rows->nulls[(Size) row * rows->null_words + column / 64] >> (column % 64) & 1) != 0;
	return rows->values[(Size) row * rows->count + column];
}

/* ----------------------------------------------------------------
 *		The steps (lookup_steps.c)
 * ----------------------------------------------------------------
 */

/* Drop the batch's rows and probes. */
extern void hm_lookup_clear_batch(LookupNode *lookup);

/* Drop the batch, and go back to the first probe; "changed" are parameters that have changed. */
extern void hm_lookup_restart(LookupNode *lookup, const Bitmapset *changed);

/*
 * Go on to where there are results, or may be: to PHASE_MATCH with a run, to PHASE_ROWS,
 * or to PHASE_DONE.
 */
extern void hm_lookup_go_on(LookupNode *lookup);

/* ----------------------------------------------------------------
 *		What is done with hits (sink_*.c)
 * ----------------------------------------------------------------
 */

/* Rows (sink_rows.c): of a join, and of a scan of one table. */
extern TupleTableSlot *hm_rows_exec(CustomScanState *node);
extern TupleTableSlot *hm_table_exec(CustomScanState *node);

/* Prepare to return the rows of one table, whose state PostgreSQL has set up. */
extern void hm_table_begin(LookupNode *lookup);

/*
 * Have index-only rows of a table filled with the columns that the present batch needs.  Returns
 * whether these are others than before.
 */
extern bool hm_table_choose_columns(LookupNode *lookup);

/*
 * Match flags (sink_matches.c): find all matches of the target, for joins that return none of them.
 */
extern void hm_flag_matches(LookupNode *lookup);

/* ----------------------------------------------------------------
 *		EXPLAIN (lookup_explain.c)
 * ----------------------------------------------------------------
 */
extern void hm_lookup_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif /* HARMONIA_EXEC_LOOKUP_NODE_H */
