/*
 * foreign_join.h
 *		Foreign joins: what this folder offers, and what its files offer to one another.
 *
 * The folder uses src/exec, which knows nothing of it: what any join node has to ask for first,
 * the scan tuple, lookup scans of local partitions (lookup_join_plan.h, planner.h), the steps of a
 * lookup node and what it returns (lookup_node.h), sets of values (value_set.h), and EXPLAIN
 * (nodes.h).
 */
#ifndef HARMONIA_FOREIGN_JOIN_H
#define HARMONIA_FOREIGN_JOIN_H

#include "exec/lookup_node.h"
#include "exec/lookup_join_plan.h"
#include "exec/value_set.h"

/*
 * Define the GUC, register the node, and install the planner hook.  Call it once, from
 * _PG_init(), after hm_exec_init().
 */
extern void hm_foreign_init(void);

/* What the planner tells the executor of a foreign join, beside its LookupPlan. */
typedef struct ForeignPlan
{
	int param;       /* the number of the array's parameter */
	bool inner_left; /* the inner key is on the left of the operator */
	Oid operator;    /* of the key clause, and its collation */
	Oid collation;
	Expr *key;    /* the inner side of the key clause */
	List *shares; /* for each inner plan: the conditions on keys that it may have rows of */
} ForeignPlan;

/*
 * Add it to a CustomScan that has the LookupPlan, whose only argument is the outer side of the key
 * clause; and get it from there (plan_private.c).
 */
extern void hm_foreign_plan_write(const ForeignPlan *foreign, CustomScan *scan);
extern void hm_foreign_plan_read(ForeignPlan *foreign, const CustomScan *scan);

/*
 * How many rows of this width a batch can have, about; "columns" of them are kept of each.
 */
extern double hm_foreign_batch_rows(int width, int columns);

/* The number of elements that an array of unknown length is taken to have, here and remotely. */
#define HM_NOMINAL_KEYS 10

/* The foreign tables of an inner side. */
typedef struct ForeignTables
{
	int count;
	Cost startup;    /* until all have returned a row, at least */
	Cost single_key; /* of a query for one key, without its start; 0: there may be no path for
					  * one */
} ForeignTables;

/* A foreign or local table, as it is read with one condition more: key = ANY (array). */
typedef struct ForeignTarget
{
	RelOptInfo *rel;
	RestrictInfo *condition; /* NULL: a local table */
	Path *path;              /* for as many keys as an array is taken to have; its parent is a copy
							  * of the relation */
	bool linear;             /* the costs of other numbers follow from the rows; otherwise, they are
							  * proportional to the number */
	Cost per_row;            /* 0 if not linear */
	List *share;             /* conditions on a key, which is a CaseTestExpr: other keys have no
							  * rows here.  NIL: any may have */
	double fraction;         /* of the keys, in the share */
} ForeignTarget;

/*
 * A foreign table, or a table with foreign partitions or children, as the inner side of
 * foreign joins by one key.
 */
typedef struct ForeignInner
{
	RelOptInfo *inner;
	Node *key;
	Oid operator; /* with the key on its left side */
	Oid collation;
	Oid type; /* of the array's elements */
	Index security_level;
	Param *param;     /* the array */
	List *targets;    /* ForeignTargets; NIL: no join is possible */
	bool sends_known; /* see hm_foreign_sends_arrays() */
} ForeignInner;

/* What a path hands over to the plan: all of custom_private. */
typedef struct ForeignJoinPath
{
	ForeignInner *side;
	RestrictInfo *key;  /* the key clause */
	List *restrictions; /* all join clauses */
	JoinType type;
	bool inner_left; /* the inner side is on the left of the key clause */
} ForeignJoinPath;

extern const CustomPathMethods hm_foreign_join_path_methods;
extern const CustomScanMethods hm_foreign_join_methods;

/* Offer foreign joins of an outer and an inner relation. */
extern void hm_foreign_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer,
								  RelOptInfo *inner, JoinType type, JoinPathExtraData *extra);

/* Add the foreign tables of a relation, or among its children, to what has been counted. */
extern void hm_count_foreign(PlannerInfo *root, RelOptInfo *rel, ForeignTables *tables);

/*
 * What is known of an inner side and this key clause; NULL if there is no such array.  The
 * planner's memory has it.
 */
extern ForeignInner *hm_foreign_inner(PlannerInfo *root, RelOptInfo *inner, RestrictInfo *info,
									  bool inner_left);

/*
 * Whether the queries of an inner side have the arrays sent.  Asks the wrappers for plans, so ask
 * this last.
 */
extern bool hm_foreign_sends_arrays(PlannerInfo *root, ForeignInner *side);

#endif /* HARMONIA_FOREIGN_JOIN_H */
