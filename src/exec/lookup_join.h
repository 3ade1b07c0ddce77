/*
 * lookup_join.h
 *		The state of a lookup join, and the functions that lookup_join.c,
 *		lookup_join_batch.c and prune.c offer to one another.
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

/* A key clause: it compares the inner side's key with an argument from the outer side. */
typedef struct JoinKey
{
	StrategyNumber strategy;
	HmBracketFunction bracket;
	ExprState  *argument;
	int			column;			/* the outer row's, if the argument is a plain
								 * column; otherwise 0 */
} JoinKey;

/* Probes: keys or ranges of keys.  Each array has one element per probe. */
typedef struct JoinProbes
{
	uint32		count;
	uint32	   *rows;			/* the outer row, by its number in the batch */
	uint64	   *low;
	uint64	   *high;
	uint8	   *done;			/* set when no more hits are wanted: in
								 * semijoins and antijoins, after a match */
} JoinProbes;

/*
 * A batch: outer rows and their probes.  A row has one probe, or none if no key can
 * satisfy its key clauses.
 */
typedef struct JoinBatch
{
	uint32		room;
	uint32		rows;
	MinimalTuple *tuples;		/* copies, in LookupJoin.context */
	Size		bytes;			/* size of all tuples */
	bool	   *matched;
	bool		points;			/* every probe is a single key */
	bool		exact;			/* each probe has exactly the keys that satisfy
								 * the key clauses */
	JoinProbes	all;
	JoinProbes	chosen;			/* those for the current target, if there are
								 * several targets */
	uint64	   *hashes;			/* partition hash values of the points */
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
	Relation	table;			/* both are NULL until the first fetch */
	Relation	index;
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

#define NO_ROW	PG_UINT32_MAX

/* The node's state. */
typedef struct LookupJoin
{
	HmNode		node;
	JoinType	type;
	bool		one_match;		/* one match per outer row is enough */
	bool		keeps_unmatched;	/* returns outer rows without a match */
	bool		index_only;
	bool		first_rows;		/* the first rows are wanted soon */
	const HmKeyType *key_type;

	int			key_count;
	JoinKey    *keys;
	ExprState  *inner_quals;
	ExprState  *quals;			/* all join clauses */
	ExprState  *other_quals;	/* these without the key clauses */
	int			column_count;	/* in the scan tuple */
	int		   *sources;		/* for each of them: the outer row's column, or
								 * 0 */
	int			outer_last;		/* the highest of these */

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

	JoinPhase	phase;
	bool		outer_done;
	uint32		limit;			/* maximum number of rows in the next batch */
	uint32		max_limit;
	MemoryContext context;		/* holds the rows of one batch */
	JoinBatch	batch;
	JoinProbes *probes;			/* the batch's probes for the current target */
	TupleTableSlot *outer_slot;
	uint32		stored_row;		/* the row in the scan slot, or NO_ROW */
	uint32		unmatched;		/* the next row for PHASE_UNMATCHED */
} LookupJoin;

/*
 * Start a candidate in the scan slot: fill in the columns of an outer row, and set all
 * others to NULL (lookup_join.c).  Returns the scan slot.  Its values may point into the
 * outer row, which must not change while the candidate is used.
 */
extern TupleTableSlot *hm_join_store_outer(LookupJoin *join, TupleTableSlot *outer);

/* ----------------------------------------------------------------
 *		Batches (lookup_join_batch.c)
 * ----------------------------------------------------------------
 */

/* Drop the batch, and prepare to read the outer rows from the first one. */
extern void hm_join_restart(LookupJoin *join);

/*
 * Read the next batch of outer rows.  Returns false if it is empty: there are no more
 * rows, or none of them can be part of the result because all targets are pruned.
 */
extern bool hm_join_fill_batch(LookupJoin *join);

/*
 * Go to the next target for which the batch has probes, and start to look them up.  Opens
 * the target's table and index with AccessShareLock when it is first used.  Returns false
 * if no target is left.
 */
extern bool hm_join_next_target(LookupJoin *join);

/* End the node's fetch, if it has one, and add its counters to node.ended. */
extern void hm_join_end_fetch(LookupJoin *join);

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

#endif							/* HARMONIA_EXEC_LOOKUP_JOIN_H */
