/*
 * partitioned_scan_plan.c
 *		Planning a lookup scan of a partitioned table by `k = ANY (array)`.
 *
 * An Append has a lookup scan of each partition look up all elements of the array.  Where the
 * table is partitioned by the key, most elements can be in one partition only.  So a lookup
 * scan of the whole table is offered, too.  Its targets are the partitions, as those of a
 * lookup join (targets.c).  The elements are its probes (source_conditions.c), or rows with one
 * column if they have to be compared (source_elements.c).
 *
 * It is not offered if the partitions' bounds say nothing about the key, nor where rows are
 * locked or changed, nor with several arrays or ORs: then there is the Append.  Nor for a cursor
 * that WHERE CURRENT OF may name: PostgreSQL looks for a scan of each partition in its plan.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "exec/lookup_join_plan.h"

/* What reading and sorting an element costs, in operators. */
#define READING_OPERATORS 2

/* A lookup scan that is considered. */
typedef struct ArrayScan
{
	RelOptInfo *rel;    /* the partitioned table */
	RestrictInfo *info; /* `= ANY (array)` */
	int key;            /* the array's number among the keys */
	JoinKeys keys;
	bool distinct; /* an element is no more than its key */
	List *targets; /* HmTargets */
	bool index_only;
	double elements;
	bool guessed; /* their number is not known */
} ArrayScan;

static ScalarArrayOpExpr *
array_clause(const ArrayScan *scan)
{
	return castNode(ScalarArrayOpExpr, scan->info->clause);
}

static Node *
array_of(const ArrayScan *scan)
{
	return lsecond(array_clause(scan)->args);
}

/* ----------------------------------------------------------------
 *		Conditions
 * ----------------------------------------------------------------
 */

/*
 * Whether the elements of an array can be told apart: by their keys, or else by the hash
 * functions of the operator.
 */
static bool
has_distinct_elements(ScalarArrayOpExpr *clause, bool by_key)
{
	RegProcedure left_hash, right_hash;
	Oid left_equal, right_equal;

	return by_key || (get_op_hash_functions(clause->opno, &left_hash, &right_hash) &&
					  get_compatible_hash_operators(clause->opno, &left_equal, &right_equal));
}

/*
 * Whether a restriction is `= ANY (array)` on a column of the index.  If so, it becomes the scan's
 * array, and one of its keys.
 */
static bool
match_array(PlannerInfo *root, IndexOptInfo *index, int column, RestrictInfo *info, ArrayScan *scan)
{
	RelOptInfo *rel = scan->rel;
	ScalarArrayOpExpr *clause = (ScalarArrayOpExpr *) info->clause;
	Oid key_type = hm_index_type_id(index, column);
	Node *array;
	Oid left_type, right_type;
	int strategy;

	if (scan->info != NULL || !IsA(clause, ScalarArrayOpExpr) || !clause->useOr ||
		info->pseudoconstant || !hm_has_collation(index, column, clause->inputcollid) ||
		hm_operator_strategy(index, column, clause->opno) != BTEqualStrategyNumber ||
		!restriction_is_securely_promotable(info, rel) ||
		!hm_is_key(root, rel, index, column, linitial(clause->args)))
		return false;
	array = lsecond(clause->args);
	if (!bms_is_empty(pull_varnos(root, array)) || contain_volatile_functions((Node *) info))
		return false;

	get_op_opfamily_properties(clause->opno, index->opfamily[column], false, &strategy, &left_type,
							   &right_type);
	if (hm_key_type_lookup(key_type)->exact && hm_may_be_fuzzy(key_type, right_type))
		return false;
	scan->distinct = !hm_has_columns(index) && hm_key_type_lookup(key_type)->exact;
	if (!has_distinct_elements(clause, scan->distinct))
		return false;

	scan->info = info;
	scan->key = list_length(scan->keys.arguments);
	scan->elements = Max(1, hm_estimate_array_length(root, array));
	scan->guessed = !IsA(array, Const) && !IsA(array, ArrayExpr);
	hm_join_add_key(index, column, linitial(clause->args), clause->opno, true, array, &scan->keys);
	return true;
}

/*
 * Collect the conditions that give an index's first columns their values: an array, and in an index
 * of several columns single values.
 */
static bool
match_restrictions(PlannerInfo *root, IndexOptInfo *index, ArrayScan *scan)
{
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		bool found = false;
		ListCell *cell;

		foreach (cell, scan->rel->baserestrictinfo)
		{
			RestrictInfo *info = lfirst_node(RestrictInfo, cell);

			if (!found)
				found = match_array(root, index, i, info, scan) ||
						(hm_has_columns(index) &&
						 hm_join_match_restriction(root, scan->rel, index, i, info, &scan->keys));
		}
		if (!found)
			break;
	}
	return scan->info != NULL;
}

/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

/* The restrictions that are evaluated for each row. */
static List *
other_restrictions(const ArrayScan *scan)
{
	return list_difference_ptr(scan->rel->baserestrictinfo, list_make1(scan->info));
}

/* An element of the array, as a column of the scan tuple. */
static Expr *
make_element(const ArrayScan *scan)
{
	Node *array = array_of(scan);
	FuncExpr *element;

	/* It is only compared with copies of itself, never evaluated. */
	element = makeFuncExpr(F_UNNEST_ANYARRAY, get_base_element_type(exprType(array)),
						   list_make1(copyObject(array)), exprCollation(array),
						   exprCollation(array), COERCE_EXPLICIT_CALL);
	element->funcretset = true;
	return (Expr *) element;
}

/* The clause `key = element`. */
static Expr *
make_comparison(const ArrayScan *scan, Expr *element)
{
	ScalarArrayOpExpr *clause = array_clause(scan);
	Expr *comparison =
		make_opclause(clause->opno, BOOLOID, false, copyObject(linitial(clause->args)), element,
					  InvalidOid, clause->inputcollid);

	set_opfuncid((OpExpr *) comparison);
	return comparison;
}

/* Let the keys be conditions: an element is no more than its key. */
static void
plan_conditions(PlannerInfo *root, const ArrayScan *scan, bool parallel, LookupPlan *plan)
{
	const LookupKey *key = linitial(scan->keys.keys);

	plan->arms = list_make1(scan->keys.keys);

	/* All processes of a parallel scan need the keys, but workers cannot run the subplan. */
	if (!parallel)
		plan->subplan =
			hm_plan_subplan_keys(root, scan->rel, key->key_type, array_of(scan), key->type);
}

/* Let the elements be rows, which have a column of the scan tuple. */
static void
plan_elements(const ArrayScan *scan, JoinPlan *columns, LookupPlan *plan)
{
	Expr *element = make_element(scan);

	columns->tlist = lappend(
		columns->tlist,
		makeTargetEntry(element, (AttrNumber) (list_length(columns->tlist) + 1), NULL, false));
	columns->sources = lappend_int(columns->sources, 1);
	plan->keys = scan->keys.keys;
	plan->quals = list_make1(make_comparison(scan, copyObject(element)));
}

static Plan *
plan_array_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
				List *plans)
{
	CustomScan *result = makeNode(CustomScan);
	const ArrayScan *scan = linitial(path->custom_private);
	LookupPlan plan = {.type = JOIN_INNER, .index_only = scan->index_only};
	JoinPlan columns = hm_join_plan(root, rel, NIL);

	/* Where a query level has no upper relations, they are hidden still. */
	hm_show_partitions(root);

	plan.arguments = scan->keys.arguments;
	plan.key_clauses = list_make1(array_clause(scan));
	plan.inner_quals = hm_join_define(
		&columns, extract_actual_clauses(hm_join_in_order(root, other_restrictions(scan)), false));

	/* Not tlist, which is NIL if a projection will replace it. */
	hm_join_provide_columns(&columns, path->path.pathtarget->exprs);
	hm_join_provide_columns(&columns, columns.computed);
	hm_join_provide_columns(&columns, scan->keys.exprs);
	hm_join_provide_columns(&columns, plan.inner_quals);
	if (scan->distinct)
		plan_conditions(root, scan, path->path.parallel_aware, &plan);
	else
		plan_elements(scan, &columns, &plan);
	hm_join_plan_targets(root, rel, &columns, scan->targets, &plan);

	result->scan.plan.targetlist = tlist;
	result->flags = path->flags;
	result->methods = &hm_lookup_scan_methods;
	hm_join_finish_plan(&columns, &plan, result);
	return &result->scan.plan;
}

const CustomPathMethods hm_lookup_array_path_methods = {
	.CustomName = "HarmoniaLookupScan",
	.PlanCustomPath = plan_array_scan,
};

/* ----------------------------------------------------------------
 *		Costs
 * ----------------------------------------------------------------
 */

/* The number of rows of a target that all elements find, as its lookup scan would estimate it. */
static double
target_rows(PlannerInfo *root, const ArrayScan *scan, const HmTarget *target)
{
	ListCell *cell;

	foreach (cell, target->rel->baserestrictinfo)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);
		ScalarArrayOpExpr *clause = (ScalarArrayOpExpr *) info->clause;

		/* The selectivity is known already. */
		if (IsA(clause, ScalarArrayOpExpr) && clause->useOr &&
			clause->opno == array_clause(scan)->opno &&
			match_index_to_operand(linitial(clause->args), scan->key, target->index))
			return target->rel->tuples *
				   clause_selectivity(root, (Node *) info, 0, JOIN_INNER, NULL);
	}
	return target->rel->rows;
}

/*
 * The lookups in all targets, for one of several processes that do as much: what they cost, the
 * rows that they find, and how much work they are (hm_lookup_pages()).
 */
static void
cost_targets(PlannerInfo *root, const ArrayScan *scan, double processes, Path *path, double *rows,
			 double *pages)
{
	const IndexOptInfo *index = ((HmTarget *) linitial(scan->targets))->index;
	HmLookupWork work = {
		.processes = processes, .as_array = true, .runs = 1, .index_only = scan->index_only};
	double probes = scan->elements / processes;
	double tuples = 0;
	ListCell *cell;

	foreach (cell, scan->targets)
		tuples += ((HmTarget *) lfirst(cell))->rel->tuples;
	work.correlation = hm_key_correlation(root, index);
	work.batch = hm_join_batch_rows(hm_index_key_size(index), 0, scan->index_only);
	if (processes > 1)
		work.batch = Min(work.batch, Max(1, probes * HM_FIRST_RUN));
	*rows = *pages = 0;
	foreach (cell, scan->targets)
	{
		HmTarget *target = lfirst(cell);
		double share = hm_share_is_all(&target->share) ? 1 : target->rel->tuples / Max(1.0, tuples);
		double visits = Min(1.0, probes * share);
		double found = target_rows(root, scan, target) * share / processes;
		Cost startup = 0;
		Cost total = 0;

		/* If there are more targets than elements, some are not visited. */
		work.probes = Max(1, probes * share);
		work.hits = work.rows = clamp_row_est(found / Max(visits, 1e-6));
		hm_cost_lookup(root, target->rel, target->index, &work, &startup, &total);
		path->startup_cost = Max(path->startup_cost, startup);
		path->total_cost += visits * total;
		*rows += found;
		*pages += visits * hm_lookup_pages(root, target->rel, target->index, &work);
	}
}

/* Set a path's costs.  Returns how much work the lookups of one process are. */
static double
cost_array_scan(PlannerInfo *root, const ArrayScan *scan, double processes, Path *path)
{
	const PathTarget *target = path->pathtarget;
	const IndexOptInfo *index = ((HmTarget *) linitial(scan->targets))->index;
	HmFields fields;
	QualCost filter;
	double rows, pages;
	Cost reading = scan->elements * READING_OPERATORS * cpu_operator_cost +
				   hm_cost_routing(scan->elements / processes, true, scan->targets);

	path->startup_cost = path->total_cost = 0;
	cost_targets(root, scan, processes, path, &rows, &pages);
	if (processes > 1)
		reading += scan->elements * cpu_operator_cost + hm_cost_sending(list_make1(array_of(scan)));
	path->startup_cost += reading;
	path->total_cost += reading;
	if (scan->guessed && rows <= hm_fetch_portion_hits(scan->index_only))
	{
		path->startup_cost *= HM_GUESS_DISCOUNT;
		path->total_cost *= HM_GUESS_DISCOUNT;
	}
	cost_qual_eval(&filter, other_restrictions(scan), root);
	hm_read_fields(index, &fields);
	if (!hm_key_is_exact(index, &fields, list_nth(scan->keys.keys, scan->key)))
		filter.per_tuple += cpu_operator_cost;
	path->startup_cost += filter.startup + target->cost.startup;
	path->total_cost += filter.startup + filter.per_tuple * rows + target->cost.startup +
						target->cost.per_tuple * path->rows;
	return pages;
}

/* ----------------------------------------------------------------
 *		Paths
 * ----------------------------------------------------------------
 */

/* A path without costs, whose rows several processes divide. */
static CustomPath *
make_path(ArrayScan *scan, double processes)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = scan->rel;
	path->path.pathtarget = scan->rel->reltarget;
	path->path.parallel_safe = scan->rel->consider_parallel;
	path->path.rows = clamp_row_est(scan->rel->rows / processes);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &hm_lookup_array_path_methods;
	path->custom_private = list_make1(scan);
	return path;
}

/*
 * Whether the first rows are wanted in an order that another path has, which stops after these,
 * whatever the array's length.
 */
static bool
has_first_rows_in_order(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell *cell;

	if (!hm_wants_first_in_order(root))
		return false;
	foreach (cell, rel->pathlist)
	{
		if (pathkeys_contained_in(root->query_pathkeys, ((Path *) lfirst(cell))->pathkeys))
			return true;
	}
	return false;
}

static void
add_paths(PlannerInfo *root, ArrayScan *scan)
{
	RelOptInfo *rel = scan->rel;
	CustomPath *path;
	double pages;
	double processes;
	int workers;

	if (scan->guessed && has_first_rows_in_order(root, rel))
		return;
	path = make_path(scan, 1);
	pages = cost_array_scan(root, scan, 1, &path->path);
	add_path(rel, &path->path);
	if (!rel->consider_parallel || !scan->distinct)
		return;

	/* The processes of a parallel scan divide the keys. */
	workers = hm_parallel_workers(rel, pages);
	if (workers == 0)
		return;
	processes = hm_parallel_processes(workers);
	path = make_path(scan, processes);
	path->path.parallel_aware = true;
	path->path.parallel_workers = workers;
	cost_array_scan(root, scan, processes, &path->path);
	add_partial_path(rel, &path->path);
}

/*
 * Whether the first of these paths, which is the cheapest, is a lookup scan of a partitioned table.
 */
static bool
is_cheapest(List *paths)
{
	CustomPath *path = paths != NIL ? linitial(paths) : NULL;

	return path != NULL && IsA(path, CustomPath) && path->methods == &hm_lookup_array_path_methods;
}

/*
 * Whether this is the query that PostgreSQL makes of a min() or max() (build_minmax_path()).  Its
 * paths are no upper relation's, so hm_show_partitions() is not called for it.
 */
static bool
is_of_min_max(PlannerInfo *root)
{
	TargetEntry *target;

	if (root->parent_root == NULL || !root->parent_root->parse->hasAggs ||
		list_length(root->parse->targetList) != 1)
		return false;
	target = linitial_node(TargetEntry, root->parse->targetList);
	return root->parse->limitCount != NULL && target->resname != NULL &&
		   strcmp(target->resname, "agg_target") == 0;
}

/*
 * If a partitioned table is the only relation of a query, PostgreSQL drops its paths when it knows
 * what the query returns, and makes new ones of the partitions' paths, which then compute that
 * (apply_scanjoin_target_to_paths()).  It does not ask the hook again.  A table without
 * partitions keeps its paths.  So partitions are hidden until paths have been chosen, if a path of
 * ours is the cheapest: a negative number of partitions stands for none.  The table's other paths
 * are kept, too.  Partitionwise aggregation needs the partitions' paths, so nothing is hidden
 * then.
 */
static void
hide_partitions(PlannerInfo *root, RelOptInfo *rel)
{
	const Query *query = root->parse;

	if (bms_equal(rel->relids, root->all_baserels) && !is_of_min_max(root) &&
		(is_cheapest(rel->pathlist) || is_cheapest(rel->partial_pathlist)) &&
		!(enable_partitionwise_aggregate && (query->hasAggs || query->groupClause != NIL)))
		rel->nparts = -rel->nparts;
}

void
hm_show_partitions(PlannerInfo *root)
{
	int relid;
	RelOptInfo *rel;

	if (!bms_get_singleton_member(root->all_baserels, &relid))
		return;
	rel = root->simple_rel_array[relid];
	if (rel != NULL && rel->nparts < 0)
		rel->nparts = -rel->nparts;
}

/* Whether WHERE CURRENT OF may name rows of a relation: it is all that a cursor's query reads. */
static bool
may_be_changed_by_cursor(PlannerInfo *root, RelOptInfo *rel)
{
	const Query *query = root->parse;

	return hm_is_for_cursor && bms_equal(rel->relids, root->all_baserels) && !query->hasAggs &&
		   query->groupClause == NIL;
}

/* Whether one of a relation's restrictions has an array. */
static bool
has_array(const RelOptInfo *rel)
{
	ListCell *cell;

	foreach (cell, rel->baserestrictinfo)
	{
		if (IsA(lfirst_node(RestrictInfo, cell)->clause, ScalarArrayOpExpr))
			return true;
	}
	return false;
}

void
hm_lookup_array_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	RelOptInfo *table;
	ListCell *cell;

	if (rel->reloptkind != RELOPT_BASEREL || rte->rtekind != RTE_RELATION ||
		rte->relkind != RELKIND_PARTITIONED_TABLE || !rte->inh || !has_array(rel) ||
		!hm_may_join(root, rel, rel) || hm_is_rechecked(root, rel) ||
		may_be_changed_by_cursor(root, rel))
		return;

	/* An index of the first table is the model: all other targets must have one like it. */
	table = hm_first_table(root, rel);
	if (table == NULL)
		return;
	foreach (cell, hm_indexes(table))
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		ArrayScan *scan = palloc0(sizeof(ArrayScan));

		scan->rel = rel;
		if (!match_restrictions(root, index, scan))
			continue;
		scan->targets = hm_targets(root, rel, index, scan->keys.exprs);
		if (!hm_shares_differ(scan->targets))
			continue;
		scan->index_only = hm_join_is_index_only(rel, scan->targets, scan->keys.exprs, NIL);
		add_paths(root, scan);
	}
	hide_partitions(root, rel);
}
