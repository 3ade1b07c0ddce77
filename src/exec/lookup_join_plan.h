/*
 * lookup_join_plan.h
 *		What lookup_join_keys.c, lookup_join_paths.c, lookup_join_cost.c and lookup_join_plan.c
 *		offer to one another, and to partitioned_scan_plan.c and src/foreign.
 */
#ifndef HARMONIA_EXEC_LOOKUP_JOIN_PLAN_H
#define HARMONIA_EXEC_LOOKUP_JOIN_PLAN_H

#include "exec/planner.h"

/* The key clauses: join clauses that find entries in an index. */
typedef struct JoinKeys
{
	List *clauses;      /* RestrictInfos */
	List *arguments;    /* the outer side of each */
	List *restrictions; /* RestrictInfos of the inner side that give columns of an index with
						 * several their values, and have arguments, too */
	List
		*one_time; /* RestrictInfos of the join that are no key clauses, but one-time filters, of */
	List *inner_one_time; /* the join, or of what matches; the inner side may have others */
	List *keys;           /* a LookupKey for each */
	List *exprs;          /* the key; or, for each of an index's first columns, what it is of the
						 * inner side */
	bool
		is_any; /* the only clause says that the key is equal to one of the arguments, or several */
	bool equal;
	bool lower;
	bool upper;
} JoinKeys;

/* What the path of a lookup join hands over to the plan: all of custom_private. */
typedef struct LookupJoinPath
{
	RelOptInfo *inner;
	List *targets; /* HmTargets */
	JoinType type;
	bool index_only;
	bool in_order;      /* rows come in the order of the outer side */
	double first_batch; /* see LookupPlan */
	bool distinct;      /* only distinct keys are looked up */
	bool is_any;        /* see JoinKeys */
	List *key_clauses;  /* RestrictInfos */
	List *arguments;
	List *keys;         /* LookupKeys */
	List *restrictions; /* all join clauses */
	List *one_time;     /* RestrictInfos: see JoinKeys */
	List *inner_one_time;
} LookupJoinPath;

/* ----------------------------------------------------------------
 *		Costs (lookup_join_cost.c)
 * ----------------------------------------------------------------
 */

/* What looking up a join's probes takes, in all targets. */
typedef struct LookupCost
{
	Cost startup;
	Cost total;
	double candidates; /* rows that have to be looked at */
	double pages;      /* see hm_lookup_pages() */
} LookupCost;

/* The cost of choosing the probes for each target.  They are points or ranges. */
extern Cost hm_cost_routing(double probes, bool points, List *targets);

/*
 * Whether the processes of a parallel index-only join share outer rows.  (If rows are read from the
 * table, each process visits pages all over it in any case.)  Not where the first rows are wanted
 * soon; nor if rows have ranges of their own or several keys (is_any), or each target makes its own
 * keys of the rows' columns.  "keys" are LookupKeys.
 */
extern bool hm_join_shares_rows(PlannerInfo *root, List *targets, List *keys, bool is_any);

/*
 * The cost of looking up probes in all targets.  "distinct" says that their keys are
 * different; otherwise they are those of outer rows.  width is the size of an outer row, and
 * processes the number of processes that look up so many, each those of other rows.
 */
extern void hm_join_cost_targets(PlannerInfo *root, RelOptInfo *inner, List *targets, JoinType type,
								 JoinKeys *keys, bool index_only, JoinPathExtraData *extra,
								 double probes, bool distinct, int width, double processes,
								 LookupCost *cost);

/*
 * The cost of keeping an outer row, and that of returning a row.  It is 0 if rows will only
 * be counted.  Of 1.25 M probes of 5,000 rows, a count took 43 ns each, a sum 59 ns, and a
 * hash join 57 ns.
 */
extern Cost hm_join_row_cost(PlannerInfo *root, const RelOptInfo *joinrel);

/* Add to a path's costs what so many rows of a first batch take before any row is returned. */
extern void hm_join_cost_first(Path *path, Path *outer_path, List *targets, const JoinKeys *keys,
							   double rows);

/* Add to a path's costs what it takes to return its rows in the order of the outer side. */
extern void hm_join_cost_order(Path *path, JoinType type);

/*
 * Set the costs of a path: those of its outer path, of its lookups, and of what it evaluates
 * and returns.  The path has its number of rows, and custom_private.  If "distinct" is not
 * 0, it drops duplicates, and looks up so many keys.
 */
extern void hm_join_cost_path(PlannerInfo *root, Path *path, Path *outer_path, RelOptInfo *inner,
							  List *targets, JoinType type, JoinKeys *keys,
							  JoinPathExtraData *extra, double distinct, const LookupCost *lookups);

/* ----------------------------------------------------------------
 *		What any join node has to ask for first (lookup_join_paths.c)
 * ----------------------------------------------------------------
 */

/* Whether a join of this kind is possible with this inner side.  Tests what is quickly known. */
extern bool hm_may_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *inner);

/*
 * Whether EvalPlanQual may have rows of a relation joined again, because the query changes or locks
 * rows.
 */
extern bool hm_is_rechecked(const PlannerInfo *root, const RelOptInfo *rel);

/*
 * Whether all that a join with these clauses returns is provided by its inputs, or can be computed
 * of their columns.
 */
extern bool hm_can_join(RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
						List *restrictions);

/* Whether a join or its inner side has a one-time filter.  Only a lookup join evaluates these. */
extern bool hm_has_one_time_filter(RelOptInfo *inner, JoinPathExtraData *extra);

/*
 * Collect the key clauses of a join for an index.  Returns whether they limit the keys of each
 * probe: by equality, or from below and from above.
 */
extern bool hm_join_match_keys(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index,
							   JoinType type, RelOptInfo *joinrel, List *restrictions,
							   JoinKeys *keys);

/* Whether a clause decides what matches in a join: it is not evaluated above an outer join. */
extern bool hm_decides_match(JoinType type, RelOptInfo *joinrel, RestrictInfo *info);

/*
 * The key that a comparison of a column of the index, on the left, makes; is_array: with the
 * elements of an array.
 */
extern LookupKey *hm_make_key(const IndexOptInfo *index, int column, Oid operator, bool is_array);

/* Add a comparison of a column of the index with an argument to the keys. */
extern void hm_join_add_key(const IndexOptInfo *index, int column, Node *key, Oid operator,
							bool is_array, Node *argument, JoinKeys *keys);

/*
 * Whether a restriction of the inner side gives a column of the index its value.  If so, add that
 * to the keys.
 */
extern bool hm_join_match_restriction(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index,
									  int column, RestrictInfo *info, JoinKeys *keys);

/*
 * Whether a join with these restrictions, RestrictInfos, reads only what the indexes of its targets
 * can return.  keys is what their first columns are of the inner side.
 */
extern bool hm_join_is_index_only(RelOptInfo *inner, List *targets, List *keys, List *restrictions);

/* ----------------------------------------------------------------
 *		Making the scan tuple (lookup_join_plan.c)
 * ----------------------------------------------------------------
 */

/* The scan tuple of a plan that is being made. */
typedef struct JoinPlan
{
	List *outer_tlist;
	Index inner;
	List *inner_exprs; /* what the inner side provides, in place of its scan */
	Oid inner_table;
	List *tlist;    /* the scan tuple's columns */
	List *sources;  /* for each of them: the outer plan's column, or 0, or HM_COMPUTED */
	List *computed; /* the expressions of these last ones, in order */
} JoinPlan;

/* Begin to make the scan tuple of a plan with this inner side. */
extern JoinPlan hm_join_plan(PlannerInfo *root, RelOptInfo *inner, List *outer_tlist);

/*
 * Clauses in the order in which PostgreSQL's own nodes evaluate them: by security level,
 * then by cost.
 */
extern List *hm_join_in_order(PlannerInfo *root, List *infos);

/*
 * Whether two expressions are the same column, whatever outer joins (nullingrels) they
 * name.
 */
extern bool hm_same_column(Node *a, Node *b);

/*
 * Add to the scan tuple what it lacks of the columns that expressions refer to.  Call it
 * first for what is evaluated on the join's rows, because the first Var of a column is
 * kept; and then for what is computed.
 */
extern void hm_join_provide_columns(JoinPlan *plan, List *exprs);

/*
 * Replace what is computed of the inner side in expressions on candidates, which are evaluated
 * before that, by its definition.
 */
extern List *hm_join_define(JoinPlan *plan, List *exprs);

/*
 * Replace the Vars in an expression by those that the scan tuple has for the same
 * columns.  context is a JoinPlan.
 */
extern Node *hm_join_use_columns(Node *node, void *context);

/*
 * Have the expressions of a plan use the columns of its scan tuple, and put both in a CustomScan.
 */
extern void hm_join_finish_plan(JoinPlan *columns, LookupPlan *plan, CustomScan *scan);

/*
 * Say in a plan what is searched: these HmTargets, whose rows fill this scan tuple, by lookups that
 * are index-only or not; and which of them restrictions may prune.
 */
extern void hm_join_plan_targets(PlannerInfo *root, RelOptInfo *inner, const JoinPlan *scan,
								 List *targets, LookupPlan *plan);

#endif /* HARMONIA_EXEC_LOOKUP_JOIN_PLAN_H */
