/*
 * lookup_join.h
 *		What the files that execute a lookup join share: lookup_join.c and
 *		lookup_join_batch.c.
 */
#ifndef HARMONIA_EXEC_LOOKUP_JOIN_H
#define HARMONIA_EXEC_LOOKUP_JOIN_H

#include "exec/nodes.h"

typedef enum JoinPhase
{
	PHASE_FILL,
	PHASE_TARGET,
	PHASE_MATCH,
	PHASE_UNMATCHED,
	PHASE_DONE
} JoinPhase;

/* A clause that finds entries. */
typedef struct JoinKey
{
	StrategyNumber strategy;
	HmBracketFunction bracket;
	ExprState  *argument;
	int			column;			/* of the outer row, if the argument is just that,
								 * or 0 */
} JoinKey;

/* Keys or ranges to be looked up. */
typedef struct JoinProbes
{
	uint32		count;
	uint32	   *rows;			/* of the batch */
	uint64	   *low;
	uint64	   *high;
	uint8	   *done;			/* for semijoins and antijoins */
} JoinProbes;

/* Outer rows and their probes, one for a row or none. */
typedef struct JoinBatch
{
	uint32		room;
	uint32		rows;
	MinimalTuple *tuples;		/* in the batch's context */
	Size		bytes;			/* of them */
	bool	   *matched;
	bool		points;			/* all probes are single keys */
	bool		exact;			/* the keys of a probe are those that satisfy the
								 * key clauses, and no others */
	JoinProbes	all;
	JoinProbes	chosen;			/* for one of several targets */
	uint64	   *hashes;			/* of all points, once a target wants to know */
	bool		hashed;
} JoinBatch;

/* A table that keys are looked up in. */
typedef struct JoinTarget
{
	Oid			table_oid;
	Oid			index_oid;
	HmShare		share;
	int		   *columns;		/* of each column of the scan tuple: this table's,
								 * or 0 */
	int			last;			/* the last one that is needed */
	Relation	table;			/* NULL until it is looked up in */
	Relation	index;
} JoinTarget;

/* Targets that no restriction of a partitioned table rules out (prune.c). */
typedef struct JoinPruning
{
	struct PartitionPruneState *state;	/* NULL if that never changes */
	MemoryContext context;		/* for the next one */
	Bitmapset  *chosen;
	bool		is_chosen;
} JoinPruning;

#define NO_ROW	PG_UINT32_MAX

/* The node. */
typedef struct LookupJoin
{
	HmNode		node;
	JoinType	type;
	bool		one_match;		/* a row is done with once it has one */
	bool		keeps_unmatched;	/* outer rows without a match are wanted */
	bool		index_only;
	bool		first_rows;		/* wanted soon */
	const HmKeyType *key_type;

	int			key_count;
	JoinKey    *keys;
	ExprState  *inner_quals;
	ExprState  *quals;			/* all join clauses */
	ExprState  *other_quals;	/* those that are no key clauses */
	int			column_count;	/* of the scan tuple */
	int		   *sources;		/* the outer row's columns, or 0 */
	int			outer_last;		/* the last one that is needed */

	int			target_count;	/* of those that are not pruned for good */
	JoinTarget *targets;
	int			pruned;			/* how many are */
	JoinPruning	pruning;
	bool		routed;			/* probes go where shares allow it */
	int			target;			/* being looked up in; negative if none is */
	int			fetch_target;	/* what node.fetch is of */
	MemoryContext fetch_context;
	FmgrInfo	hash;			/* what batch.hashes are of */

	JoinPhase	phase;
	bool		outer_done;
	uint32		limit;			/* rows of the next batch */
	uint32		max_limit;
	MemoryContext context;		/* for the rows of a batch */
	JoinBatch	batch;
	JoinProbes *probes;			/* of the batch, for the target */
	TupleTableSlot *outer_slot;
	uint32		stored_row;		/* that is in the scan slot, or NO_ROW */
	uint32		unmatched;		/* row that PHASE_UNMATCHED has come to */
} LookupJoin;

/* Begin a candidate: the columns of an outer row, all others NULL (lookup_join.c). */
extern TupleTableSlot *hm_join_store_outer(LookupJoin *join, TupleTableSlot *outer);

/* ----------------------------------------------------------------
 *		Batches (lookup_join_batch.c)
 * ----------------------------------------------------------------
 */

/* Get ready to read the outer rows from the first one. */
extern void hm_join_restart(LookupJoin *join);

/* Read the next outer rows; false if there are none left. */
extern bool hm_join_fill_batch(LookupJoin *join);

/*
 * Start looking the batch up in the next target, which is opened and locked if it
 * was not yet; false if there is none left.
 */
extern bool hm_join_next_target(LookupJoin *join);

/* End the fetch that the node has, if any, and keep what it has counted. */
extern void hm_join_end_fetch(LookupJoin *join);

/* ----------------------------------------------------------------
 *		Targets that are ruled out (prune.c)
 * ----------------------------------------------------------------
 */

/*
 * Begin, with what the plan has for it (HM_JOIN_PRUNING and HM_JOIN_PRUNE_STEPS), the inner
 * side's range table index and the number of targets.  Returns those that the node needs at
 * all; the other functions number these from 0.
 */
extern Bitmapset *hm_pruning_begin(JoinPruning *pruning, PlanState *node, List *plan,
								   List *steps, Index inner, int targets);

/* Parameters have changed. */
extern void hm_pruning_rescan(JoinPruning *pruning, const Bitmapset *changed);

/*
 * The targets to be looked up in until parameters change.  Not before the first batch: it may
 * have to compute a parameter.
 */
extern const Bitmapset *hm_pruning_choose(JoinPruning *pruning);

#endif							/* HARMONIA_EXEC_LOOKUP_JOIN_H */
