/*
 * lookup_plan.h
 *		What the planner tells the executor of a lookup scan or a lookup join.
 *
 * A plan can be copied and sent to workers only as nodes and lists.  So this struct is turned
 * into the lists of a CustomScan, and back; nothing else knows their order (lookup_plan.c).
 */
#ifndef HARMONIA_EXEC_LOOKUP_PLAN_H
#define HARMONIA_EXEC_LOOKUP_PLAN_H

#include "nodes/extensible.h"

#include "am/am.h"
#include "lookup/lookup.h"

/*
 * A target's share: which keys it can have, as its partition bounds say.  They are in the
 * range low..high.  If modulus is not 0, their hash values leave this remainder.
 */
typedef struct HmShare
{
	HmKey low;
	HmKey high;
	uint64 modulus;
	uint64 remainder;
	Oid hash;      /* the partition hash function, of a value and a seed */
	Oid collation; /* that it is called with */
} HmShare;

static inline bool
hm_share_is_all(const HmShare *share)
{
	return share->low == 0 && share->high == HM_KEY_MAX && share->modulus == 0;
}

/* A condition on the key: it compares a column of the index with an argument. */
typedef struct LookupKey
{
	int strategy;
	Oid type; /* of the argument, or of its elements */
	bool is_array;
	int column;   /* of the index, from 0 on */
	Oid key_type; /* the id of the column's key type (am.h) */
} LookupKey;

/* A table to look keys up in. */
typedef struct LookupTarget
{
	Oid table;
	Oid index;
	HmShare share;
	List *columns; /* for each column of the scan tuple: the table's attribute number, or 0 if it is
					* the outer plan's */
} LookupTarget;

/*
 * The source of a column of a join's scan tuple that is an expression on the inner side's columns
 * there.  It is NULL in rows without a match.
 */
#define HM_COMPUTED (-1)

typedef struct LookupPlan
{
	/* Up to the first list, there are no pointers. */
	JoinType type;
	bool index_only;
	bool first_rows;  /* the first rows are wanted soon */
	bool in_order;    /* rows come in the order of the outer side */
	int first_batch;  /* of a join: outer rows of the first batch, if batches grow; or 0 */
	bool distinct;    /* only the distinct keys of the outer side are looked up */
	bool shares_rows; /* of a join: parallel processes share the outer rows */
	bool composite;   /* the index has several columns */
	int share_column; /* the column of the index that shares are about, and */
	Oid key_type;     /* the id of its key type */

	/*
	 * Where probes come from: conditions, as a list of arms, each a list of LookupKeys, of which
	 * a row satisfies one; or a LookupKey for each column that outer rows give a value, or the
	 * elements of an array.
	 */
	List *arms;
	List *keys;
	List *subplan; /* made by hm_plan_subplan_keys() for the only argument of arms; or NIL */
	List *sources; /* for each column of the scan tuple: the outer plan's column number, or 0 if it
					* is the inner side's, or HM_COMPUTED */
	List *targets; /* LookupTargets */
	List *pruning; /* made by hm_plan_pruning() */

	/* Of an index-only scan of one table: attribute numbers */
	List *columns;        /* that are read from rows, */
	List *clause_columns; /* and those of the key clauses */

	/*
	 * Of a join whose rows may be joined again (recheck.c): for the first columns of the scan
	 * tuple, the column of the second plan, or 0.
	 */
	List *recheck_columns;

	/* Expressions, which setrefs.c changes */
	List *arguments;      /* of all arms, or of the keys, in order */
	List *key_clauses;    /* what arms or keys stand for; in a join, they are among "quals", too */
	List *inner_quals;    /* other restrictions of the table, or of the inner side */
	List *quals;          /* all join clauses; or what compares rows with elements */
	List *prune_steps;    /* the steps made by hm_plan_pruning() */
	List *one_time;       /* a join's one-time filters: if one is not true, it has no rows; */
	List *inner_one_time; /* or, of the inner side, it finds none */
	List *computed;       /* for each column of the scan tuple that is computed: what it is */
} LookupPlan;

/* Put a plan in the lists of a CustomScan; and get it from there. */
extern void hm_lookup_plan_write(const LookupPlan *plan, CustomScan *scan);
extern void hm_lookup_plan_read(LookupPlan *plan, const CustomScan *scan);

#endif /* HARMONIA_EXEC_LOOKUP_PLAN_H */
