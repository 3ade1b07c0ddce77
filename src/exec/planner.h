/*
 * planner.h
 *		Declarations that the planner halves share: planner.c, targets.c, *_plan.c, *_paths.c,
 *		*_cost.c, not_in.c, row_lists.c, scalar_subselect.c, row_comparisons.c and subplan_keys.c.
 */
#ifndef HARMONIA_EXEC_PLANNER_H
#define HARMONIA_EXEC_PLANNER_H

#include "catalog/pg_am.h"
#include "nodes/pathnodes.h"

#include "exec/lookup_plan.h"
#include "exec/nodes.h"

/* Whether a relation can be read by lookups at all. */
extern bool hm_can_look_up(PlannerInfo *root, RelOptInfo *rel);

/*
 * Whether an index is a harmonia index that can be used for what the query reads, and whether a
 * table has one.
 */
extern bool hm_can_use_index(const IndexOptInfo *index);
extern bool hm_has_own_index(const RelOptInfo *rel);

/*
 * Whether a table has an index that lookups can search; and all such indexes.  Of a btree these are
 * descriptions that have only those columns, the first ones, that its keys are made of.
 */
extern bool hm_has_index(const RelOptInfo *rel);
extern List *hm_indexes(const RelOptInfo *rel);

/*
 * The key size of an index, if it is built now: for estimates, as one that is there may have
 * another.  Nothing is read from it.
 */
extern Size hm_index_key_size(const IndexOptInfo *index);

/* Whether an index has several columns, included ones among them, and so composite keys. */
static inline bool
hm_has_columns(const IndexOptInfo *index)
{
	return index->ncolumns > 1;
}

/* The id of the key type of one of its columns, counted from 0, if it were alone (am.h). */
static inline Oid
hm_index_type_id(const IndexOptInfo *index, int column)
{
	if (index->relam == BTREE_AM_OID)
		return hm_btree_type_id(index->opfamily[column], index->opcintype[column],
								index->indexcollations[column]);
	return hm_type_id_of_class(index->opfamily[column], index->opcintype[column]);
}

/*
 * Whether lookups search an index by values (am/keys/btreekeys.c): a btree whose keys are not in
 * its order.  Then only points of the column's own type can be looked up, whose values outer rows
 * give, or the elements of an array.
 */
static inline bool
hm_has_values(const IndexOptInfo *index)
{
	return index->relam == BTREE_AM_OID &&
		   !hm_btree_has_keys(index->opfamily[0], index->opcintype[0]);
}

/*
 * The strategy of an operator in the operator family of one of the index's columns, with the
 * column on its left side; 0 if the operator is not in the family, or lookups cannot use it.
 * Columns are counted from 0.
 */
extern int hm_operator_strategy(const IndexOptInfo *index, int column, Oid operator);

/* Whether an operator that is called with this collation agrees with the column. */
extern bool hm_has_collation(const IndexOptInfo *index, int column, Oid collation);

/*
 * The columns of the table that an index can return (index-only); and whether only some columns are
 * read of a relation, by its target list and by these clauses.  Sets of columns are as those of
 * pull_varattnos().
 */
extern Bitmapset *hm_returned_columns(const IndexOptInfo *index);
extern bool hm_reads_only(RelOptInfo *rel, const Bitmapset *columns, List *clauses);

/*
 * Whether the first rows are wanted soon, and maybe not all of them: the query has a
 * LIMIT, or is a cursor's, or is in an EXISTS.  A query with aggregates wants all rows.
 * And so does one with an order, because our nodes' rows have none, and have to be sorted; but it
 * wants the first rows of a path that is in order.
 */
extern bool hm_wants_first_rows(PlannerInfo *root);
extern bool hm_wants_first_in_order(PlannerInfo *root);

/*
 * The correlation between the order of the table's rows and that of an index's key, from
 * -1 to 1; 0 if there are no statistics, or keys have no order.
 */
extern double hm_key_correlation(PlannerInfo *root, const IndexOptInfo *index);

/*
 * The work that lookups in one index have to do, as the planner expects it.  In a parallel
 * plan, this is the work of one process.
 */
typedef struct HmLookupWork
{
	double processes; /* how many processes do as much; 1 if not parallel */
	double probes;
	double batch;       /* maximum number of probes in a batch */
	double hits;        /* entries that the probes find */
	double rows;        /* hits whose rows are looked at */
	double runs;        /* runs of neighbouring rows, if the table is in the order of the key */
	double correlation; /* 1 or -1: the table is in that order; 0: rows may be anywhere */
	bool index_only;
	bool shared;   /* the processes share outer rows, and visit different leaves */
	bool as_array; /* keys and leaves are charged as those of an index scan with an array */
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

/* Add to a path's costs the evaluation of expressions, a number of times. */
extern void hm_add_evaluations(PlannerInfo *root, Path *path, List *exprs, double times);

/*
 * The number of parallel workers for this much work: as many as PostgreSQL has for a
 * sequential scan of a table with so many pages.  As there, the storage parameter
 * parallel_workers of the relation that is read in parts takes precedence.
 */
extern int hm_parallel_workers(RelOptInfo *rel, double pages);

/*
 * If the planner does not know an array's length, it assumes ten elements, for the
 * competing plain index scan as well.  For ten both are equally fast.  For more, this
 * path is faster, so it gets a discount.  It gets none if the rows of ten elements fill
 * more than one portion: with more elements, this path visits the same heap pages more
 * often, while a bitmap scan visits each once.
 */
#define HM_GUESS_DISCOUNT 0.8

/*
 * What it costs a worker to get the plan of a parallel scan with these arguments: it comes as text,
 * with all elements of arrays that are constants.
 */
extern Cost hm_cost_sending(List *arguments);

/* A target: a table that a join looks keys up in, with the index to use and its share. */
typedef struct HmTarget
{
	RelOptInfo *rel;
	IndexOptInfo *index;
	HmShare share;
	int column; /* of the index, that the share is about; the same for all targets of a join */
} HmTarget;

/*
 * The first table, of those that a relation stands for, that the planner has not pruned:
 * a partition, an inheritance child, or the relation itself.  NULL if there is none.
 */
extern RelOptInfo *hm_first_table(PlannerInfo *root, RelOptInfo *rel);

/*
 * Whether a relation is a UNION ALL whose sub-selects have become its children.  These are tables,
 * if the sub-selects do nothing but read one, or other sub-selects.  Its columns may be
 * expressions there.
 */
extern bool hm_is_union_all(PlannerInfo *root, RelOptInfo *rel);

/*
 * Whether an expression on a relation's columns is one of the columns of an index of one of its
 * tables.
 */
extern bool hm_is_key(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, int column,
					  Node *expr);

/*
 * All targets of a relation: HmTargets, each with an index that has the expressions as its
 * first columns, and the operator families, key types and collations of the model.  NIL if some
 * table has no such index.
 */
extern List *hm_targets(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *model, List *keys);

/* Whether the shares of HmTargets keep some keys away from some of them. */
extern bool hm_shares_differ(List *targets);

/*
 * Plan the run-time pruning of HmTargets by the inner side's restrictions.  Returns a
 * list for custom_private, which is NIL if nothing can be pruned at run time, and sets
 * *steps to what belongs in custom_exprs.
 */
extern List *hm_plan_pruning(PlannerInfo *root, RelOptInfo *inner, List *targets, List **steps);

/*
 * The fields of an index's keys; and whether all rows that a key finds satisfy its condition, so
 * that it is not evaluated.  (It is if the one value is looked up that shares its key with NULL.)
 */
extern void hm_read_fields(const IndexOptInfo *index, HmFields *fields);
extern bool hm_key_is_exact(const IndexOptInfo *index, const HmFields *fields,
							const LookupKey *key);

/*
 * The same condition as `column = ANY (array)`, about a column of the index, in a form that
 * PostgreSQL can evaluate with a hash table: with both sides of one type.  The clause itself if
 * that is not needed, not possible, or might fail.
 */
extern Expr *hm_hash_array(PlannerInfo *root, const IndexOptInfo *index, int column,
						   ScalarArrayOpExpr *clause);

/*
 * A condition on one relation that the query does not have as such.  Security barriers have to be
 * kept from it as from the condition of that level from which it follows.
 */
extern RestrictInfo *hm_make_condition(PlannerInfo *root, Expr *clause, Index security_level);

/*
 * Have the planner offer index scans and bitmap scans of a relation for comparisons of rows.
 * Called by the planner's hook.
 */
extern void hm_row_comparison_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/*
 * Offer paths: lookup scans of a relation, and of a partitioned table; lookup joins of an outer
 * and an inner relation.  Called by the planner's hooks.
 */
extern void hm_lookup_scan_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern void hm_lookup_array_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern void hm_lookup_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer,
								 RelOptInfo *inner, JoinType type, JoinPathExtraData *extra);

/*
 * Offer paths for joins with the last or first rows of each key (latest_plan.c); and register their
 * nodes, once.
 */
extern void hm_latest_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer,
								 RelOptInfo *inner, JoinType type);
extern void hm_latest_init(void);

/*
 * Offer paths for the result of grouping: lookup aggregates of what lookup joins and
 * lookup scans of the input relation find, with and without parallel workers.
 */
extern void hm_lookup_aggregate_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
									  GroupPathExtraData *extra);

/* Whether the query that is being planned is a cursor's; exec.c sets it. */
extern bool hm_is_for_cursor;

/* Define the GUCs; call once. */
extern void hm_settings_init(void);

/* Install the hook that tells numbers of values (distinct_stats.c); call once. */
extern void hm_distinct_stats_init(void);

/*
 * Undo what hm_lookup_array_paths() may have done to a query's only relation.  Call it when all
 * paths of a query level have been chosen.
 */
extern void hm_show_partitions(PlannerInfo *root);

/*
 * Remember a path of a lookup join that is about to be offered.  add_path() may reject it although
 * it is the cheapest with a lookup aggregate on top.
 */
extern void hm_remember_join(PlannerInfo *root, RelOptInfo *joinrel, const CustomPath *path);

/* How paths of lookup scans, of partitioned tables too, and of lookup joins are recognised. */
extern const CustomPathMethods hm_lookup_scan_path_methods;
extern const CustomPathMethods hm_lookup_array_path_methods;
extern const CustomPathMethods hm_lookup_join_path_methods;

/*
 * Whether a path is a lookup scan of one table, and the expression is the first column of its
 * index.  The scan compares that column with strict operators, so no row that it finds has a
 * NULL there.
 */
extern bool hm_lookup_scan_compares(const Path *path, const Expr *expr);

/* Whether a path is a lookup scan of one table with restrictions that its keys do not stand for. */
extern bool hm_lookup_scan_filters(const Path *path);

/*
 * If a lookup scan may read the keys of an array from the sub-select that makes it
 * (subplan_keys.c), return what the executor needs for this, for custom_private;
 * otherwise NIL.  key_type is that of the index's keys, type that of the array's elements.
 */
extern List *hm_plan_subplan_keys(PlannerInfo *root, RelOptInfo *rel, Oid key_type, Node *argument,
								  Oid type);

/*
 * Rewrite those conditions of a query that are NOT IN (SELECT ...), and can be answered by
 * an antijoin, as NOT EXISTS (not_in.c).
 */
extern void hm_rewrite_not_in(Query *query);

/*
 * Rewrite those conditions of a query that are long lists of rows, and can be answered by a lookup
 * join, as IN (VALUES ...) (row_lists.c).
 */
extern void hm_rewrite_row_lists(Query *query);

/*
 * If a query reads a single table, and conditions fix all columns of a unique index, so that there
 * is at most one row: the first column of the index.  Otherwise 0 (unique_rows.c).  The table is
 * locked.
 */
extern AttrNumber hm_unique_column(const Query *query);

/* Whether a condition fixes a column of an index, counted from 0. */
extern bool hm_fixes_column(Node *condition, Relation index, int column);

/* The only relation that a query reads, if it is a table whose indexes know all of its rows. */
extern RangeTblEntry *hm_only_table(const Query *query);

/*
 * Whether the evaluation of an expression may fail, for some row or other (may_fail.c).  What may
 * be evaluated before a security barrier does not: leakproof functions.  Neither do comparisons.
 * If constants are evaluated here, other functions of constants do not, either; those that fail do
 * so at once, so this is for what is evaluated always.
 */
extern bool hm_may_fail(Node *expr, bool evaluate_constants);

/*
 * Whether the evaluation of an expression may fail, for some row or other (may_fail.c).  What may
 * be evaluated before a security barrier does not: leakproof functions.  Neither do comparisons.
 * If constants are evaluated here, other functions of constants do not, either; those that fail do
 * so at once, so this is for what is evaluated always.
 */
extern bool hm_may_fail(Node *expr, bool evaluate_constants);

/*
 * Rewrite sub-selects of a query that find at most one row by a unique index as left joins, where
 * this may pay (scalar_subselect.c): those that return a value, EXISTS and IN.  Maybe not all rows
 * of a cursor's query are wanted.
 */
extern void hm_rewrite_scalar_subselects(Query *query, bool is_cursor);

/*
 * What stands for a scalar sub-select of a query, if it returns the latest row of a key and can be
 * a left join, which is added on top of the query's FROM list; otherwise NULL (latest_subselect.c).
 */
extern Node *hm_join_latest(Query *query, const Query *select);

/*
 * If a relation is a sub-select that returns the distinct values of a column, which is
 * given, and nothing else: its cheapest path without the step that makes them distinct.
 * Otherwise NULL.
 */
extern Path *hm_path_before_distinct(RelOptInfo *rel, Node *column);

#endif /* HARMONIA_EXEC_PLANNER_H */
