/*
 * lookup_scan_plan.c
 *		Planning a lookup scan: a table's rows by many keys or ranges.
 *
 * Unlike a plain index scan, a lookup scan answers `= ANY (array)` and OR lists in a few
 * batches.  So it is offered where a condition is one of these.  Other conditions on the
 * key narrow the ranges.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "exec/lookup_scan_plan.h"

/* A comparison: two sides, with an operator. */
typedef struct Comparison
{
	Node *left;
	Node *right;
	Oid operator;
	Oid collation;
	bool is_array; /* the right side is an array, of which some element is compared */
} Comparison;

/*
 * Whether a clause is a comparison.  The index's column, if it is on one side, is on the left then.
 */
static bool
get_comparison(const IndexOptInfo *index, int column, Expr *clause, Comparison *result)
{
	OpExpr *operation = (OpExpr *) clause;
	ScalarArrayOpExpr *any = (ScalarArrayOpExpr *) clause;

	if (IsA(clause, ScalarArrayOpExpr) && any->useOr)
	{
		*result = (Comparison){linitial(any->args), lsecond(any->args), any->opno, any->inputcollid,
							   true};
		return true;
	}
	if (!IsA(clause, OpExpr) || list_length(operation->args) != 2)
		return false;
	*result = (Comparison){linitial(operation->args), lsecond(operation->args), operation->opno,
						   operation->inputcollid, false};
	if (match_index_to_operand(result->right, column, unconstify(IndexOptInfo *, index)))
	{
		result->left = lsecond(operation->args);
		result->right = linitial(operation->args);
		result->operator= get_commutator(operation->opno);
	}
	return true;
}

/*
 * Whether a clause compares a column of the index with something that is the same for the whole
 * scan.  If so, add it to an arm.
 */
static bool
match_column(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, int column, Expr *clause,
			 Arm *arm)
{
	Comparison comparison;
	LookupKey *key;

	if (!get_comparison(index, column, clause, &comparison) || !OidIsValid(comparison.operator) ||
		!hm_has_collation(index, column, comparison.collation) ||
		!match_index_to_operand(comparison.left, column, index) ||
		!bms_is_empty(pull_varnos(root, comparison.right)) ||
		contain_volatile_functions(comparison.right) ||
		hm_operator_strategy(index, column, comparison.operator) == 0)
		return false;

	key = hm_make_key(index, column, comparison.operator, comparison.is_array);
	arm->clauses = lappend(arm->clauses, clause);
	arm->keys = lappend(arm->keys, key);
	arm->arguments = lappend(arm->arguments, comparison.right);
	if (key->is_array && key->strategy == BTEqualStrategyNumber)
	{
		double length = hm_estimate_array_length(root, comparison.right);

		arm->probes = hm_has_columns(index) ? arm->probes * length : Max(arm->probes, length);
		arm->guessed = !IsA(comparison.right, Const) && !IsA(comparison.right, ArrayExpr);
	}
	return true;
}

/* The same for any of its columns. */
static bool
match_clause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, Expr *clause, Arm *arm)
{
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		if (match_column(root, rel, index, i, clause, arm))
			return true;
	}
	return false;
}

/* Whether one of an arm's conditions is on the index's first column. */
static bool
has_first_column(const Arm *arm)
{
	ListCell *cell;

	foreach (cell, arm->keys)
	{
		if (((LookupKey *) lfirst(cell))->column == 0)
			return true;
	}
	return false;
}

/*
 * Collect the conditions of one arm of an OR.  Returns false if none is on the key.
 * Resets *exact if the arm has other conditions, which a filter has to check.
 */
static bool
match_arm(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, Node *node, Arm *arm,
		  bool *exact)
{
	if (IsA(node, RestrictInfo))
		node = (Node *) ((RestrictInfo *) node)->clause;
	if (is_andclause(node))
	{
		ListCell *cell;

		foreach (cell, ((BoolExpr *) node)->args)
		{
			if (!match_arm(root, rel, index, (Node *) lfirst(cell), arm, exact))
				*exact = false;
		}
		return arm->clauses != NIL;
	}
	return match_clause(root, rel, index, (Expr *) node, arm);
}

/* The arms of an OR clause; NIL if one of them has no condition on the key. */
static List *
match_or(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, RestrictInfo *info, bool *exact)
{
	List *arms = NIL;
	ListCell *cell;

	*exact = true;
	if (!restriction_is_or_clause(info))
		return NIL;
	foreach (cell, ((BoolExpr *) info->orclause)->args)
	{
		Arm *arm = palloc0(sizeof(Arm));

		arm->probes = 1;
		if (!match_arm(root, rel, index, (Node *) lfirst(cell), arm, exact))
			return NIL;
		arms = lappend(arms, arm);
	}
	return arms;
}

/*
 * A condition as it is evaluated for rows, if it has to be.  "key" is what is made of it.
 */
static Expr *
clause_for_rows(PlannerInfo *root, const IndexOptInfo *index, Expr *clause, const LookupKey *key)
{
	return key->is_array ? hm_hash_array(root, index, key->column, (ScalarArrayOpExpr *) clause) :
						   clause;
}

/* The conditions of the arms, as one OR clause. */
static Expr *
clause_of_arms(PlannerInfo *root, const IndexOptInfo *index, List *arms)
{
	List *clauses = NIL;
	ListCell *cell;

	foreach (cell, arms)
	{
		const Arm *arm = lfirst(cell);
		List *all = NIL;
		ListCell *clause, *key;

		forboth(clause, arm->clauses, key, arm->keys) all =
			lappend(all, clause_for_rows(root, index, lfirst(clause), lfirst(key)));
		clauses = lappend(clauses, make_ands_explicit(all));
	}
	return make_orclause(clauses);
}

bool
hm_scan_is_single_array(const IndexOptInfo *index, const Conditions *conditions)
{
	List *keys = ((Arm *) linitial(conditions->arms))->keys;
	const LookupKey *key = linitial(keys);

	return !hm_has_columns(index) && list_length(conditions->arms) == 1 && list_length(keys) == 1 &&
		   key->strategy == BTEqualStrategyNumber && key->is_array;
}

/*
 * Collect the conditions that a relation's restrictions put on an index's key.  Returns
 * false if there is no array and no OR, so that a plain index scan does as well.
 */
static bool
match_restrictions(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, Conditions *result)
{
	Arm *common = palloc0(sizeof(Arm));
	List *arms = NIL;
	bool many = false;
	ListCell *cell;

	common->probes = 1;
	*result = (Conditions){0};
	foreach (cell, rel->baserestrictinfo)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);
		bool exact = true;

		if (info->pseudoconstant || !restriction_is_securely_promotable(info, rel))
			continue;
		if (match_clause(root, rel, index, info->clause, common))
		{
			many |= IsA(info->clause, ScalarArrayOpExpr);
			llast(common->clauses) = info;
			result->clauses = lappend(
				result->clauses, clause_for_rows(root, index, info->clause, llast(common->keys)));
		}
		else if (arms == NIL && (arms = match_or(root, rel, index, info, &exact)) != NIL)
			result->clauses = lappend(result->clauses, clause_of_arms(root, index, arms));
		else
			continue;
		result->infos = lappend(result->infos, info);
		if (exact)
			result->exact = lappend(result->exact, info);
	}
	if (!many && arms == NIL)
		return false;

	/* Conditions outside the OR hold for each arm. */
	foreach (cell, arms)
	{
		Arm *arm = lfirst(cell);

		arm->clauses = list_concat_copy(arm->clauses, common->clauses);
		arm->keys = list_concat(arm->keys, common->keys);
		arm->arguments = list_concat(arm->arguments, common->arguments);
		if (hm_has_columns(index))
			arm->probes *= common->probes;
		else if (common->probes > 1)
			arm->probes = Min(arm->probes, common->probes);
		arm->guessed |= common->guessed;
	}
	result->arms = arms != NIL ? arms : list_make1(common);
	if (hm_has_values(index) && !hm_scan_is_single_array(index, result))
		return false;
	foreach (cell, result->arms)
	{
		if (!has_first_column(lfirst(cell)))
			return false;
	}
	return true;
}

/*
 * Whether a relation has an array or an OR among its restrictions.  Most have not, and
 * planning is then over quickly.
 */
static bool
may_name_many(const RelOptInfo *rel)
{
	ListCell *cell;

	foreach (cell, rel->baserestrictinfo)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		if (IsA(info->clause, ScalarArrayOpExpr) || restriction_is_or_clause(info))
			return true;
	}
	return false;
}

/* The attribute numbers of a table's columns in some expressions, which have no system columns. */
static List *
columns_of(Index relid, Node *expressions)
{
	Bitmapset *attributes = NULL;
	List *columns = NIL;
	int next = -1;

	pull_varattnos(expressions, relid, &attributes);
	while ((next = bms_next_member(attributes, next)) >= 0)
		columns = lappend_int(columns, next + FirstLowInvalidHeapAttributeNumber);
	bms_free(attributes);
	return columns;
}

/* The only target: the table itself. */
static LookupTarget *
plan_target(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index)
{
	LookupTarget *target = palloc0(sizeof(LookupTarget));

	target->table = planner_rt_fetch(rel->relid, root)->relid;
	target->index = index->indexoid;
	target->share.high = HM_KEY_MAX;
	return target;
}

static Plan *
plan_lookup_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
				 List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	IndexOptInfo *index = linitial(path->custom_private);
	Conditions *conditions = lthird(path->custom_private);
	LookupPlan plan = {.type = JOIN_INNER};
	ListCell *cell;

	plan.index_only = intVal(lsecond(path->custom_private));
	plan.first_rows = hm_wants_first_rows(root);
	plan.composite = hm_has_columns(index);
	plan.key_type = hm_index_type_id(index, 0);
	plan.targets = list_make1(plan_target(root, rel, index));
	plan.key_clauses = conditions->clauses;
	foreach (cell, conditions->arms)
	{
		const Arm *arm = lfirst(cell);

		plan.arms = lappend(plan.arms, arm->keys);
		plan.arguments = list_concat(plan.arguments, arm->arguments);
	}

	/* All processes of a parallel scan need the keys, but workers cannot run the subplan. */
	if (hm_scan_is_single_array(index, conditions) && !path->path.parallel_aware)
		plan.subplan = hm_plan_subplan_keys(root, rel, plan.key_type, linitial(plan.arguments),
											((LookupKey *) linitial(linitial(plan.arms)))->type);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual =
		extract_actual_clauses(list_difference_ptr(clauses, conditions->exact), false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = &hm_lookup_scan_methods;
	if (plan.index_only)
	{
		/* The target list may have columns that nobody reads. */
		plan.columns = columns_of(
			rel->relid, (Node *) list_concat_copy(rel->reltarget->exprs, scan->scan.plan.qual));
		plan.clause_columns = columns_of(rel->relid, (Node *) conditions->clauses);
	}
	hm_lookup_plan_write(&plan, scan);
	return &scan->scan.plan;
}

const CustomPathMethods hm_lookup_scan_path_methods = {
	.CustomName = "HarmoniaLookupScan",
	.PlanCustomPath = plan_lookup_scan,
};

bool
hm_lookup_scan_compares(const Path *path, const Expr *expr)
{
	const CustomPath *scan = (const CustomPath *) path;
	const Var *var = (const Var *) expr;
	const IndexOptInfo *index;

	if (!IsA(scan, CustomPath) || scan->methods != &hm_lookup_scan_path_methods || !IsA(var, Var))
		return false;
	index = linitial(scan->custom_private);
	return var->varno == (int) index->rel->relid && var->varlevelsup == 0 &&
		   index->indexkeys[0] != 0 && var->varattno == index->indexkeys[0];
}

bool
hm_lookup_scan_filters(const Path *path)
{
	const CustomPath *scan = (const CustomPath *) path;
	const Conditions *conditions;

	if (!IsA(scan, CustomPath) || scan->methods != &hm_lookup_scan_path_methods)
		return false;
	conditions = lthird(scan->custom_private);
	return list_difference_ptr(path->parent->baserestrictinfo, conditions->exact) != NIL;
}

/*
 * Whether the first rows are wanted in an order in which a plain scan of the index
 * returns them, for the same single array.
 */
static bool
has_first_rows_in_order(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						Conditions *conditions)
{
	ListCell *cell;

	if (!enable_indexscan || !hm_wants_first_in_order(root) || list_length(conditions->arms) > 1)
		return false;
	foreach (cell, rel->pathlist)
	{
		IndexPath *path = lfirst(cell);

		if (IsA(path, IndexPath) && path->indexinfo->indexoid == index->indexoid &&
			path->indexclauses != NIL && path->path.param_info == NULL &&
			pathkeys_contained_in(root->query_pathkeys, path->path.pathkeys))
			return true;
	}
	return false;
}

/* A path with these conditions, without its costs. */
static CustomPath *
make_path(RelOptInfo *rel, IndexOptInfo *index, bool index_only, Conditions *conditions)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.rows = rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &hm_lookup_scan_path_methods;
	path->custom_private = list_make3(index, makeInteger(index_only), conditions);
	return path;
}

/* Offer a parallel scan, whose processes divide the keys.  "work" is that of all keys. */
static void
add_partial_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
					  Conditions *conditions, bool guessed, HmLookupWork *work)
{
	int workers = hm_parallel_workers(rel, hm_lookup_pages(root, rel, index, work));
	CustomPath *path;

	if (workers == 0)
		return;
	work->processes = hm_parallel_processes(workers);
	work->probes = clamp_row_est(work->probes / work->processes);
	work->hits = clamp_row_est(work->hits / work->processes);
	work->rows = clamp_row_est(work->rows / work->processes);
	work->batch = Min(work->batch, Max(1, work->probes * HM_FIRST_RUN));
	path = make_path(rel, index, work->index_only, conditions);
	path->path.parallel_aware = true;
	path->path.parallel_workers = workers;
	path->path.rows = clamp_row_est(rel->rows / work->processes);
	hm_scan_cost_path(root, rel, index, conditions, guessed, work, &path->path);
	add_partial_path(rel, &path->path);
}

static void
add_lookup_scan_paths(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
					  bool may_be_index_only, Conditions *conditions)
{
	CustomPath *path;
	List *clauses = extract_actual_clauses(rel->baserestrictinfo, false);
	HmLookupWork work = {.processes = 1};
	bool guessed = false;
	Selectivity found, looked_at;
	ListCell *cell;

	foreach (cell, conditions->arms)
	{
		work.probes += ((Arm *) lfirst(cell))->probes;
		guessed |= ((Arm *) lfirst(cell))->guessed;
	}

	/*
	 * A plain index scan stops after the first rows, whatever the array's length.  A
	 * lookup scan has to find all rows and sort them.
	 */
	if (guessed && has_first_rows_in_order(root, rel, index, conditions))
		return;

	work.index_only = may_be_index_only && hm_reads_only(rel, hm_returned_columns(index), clauses);
	found = hm_scan_selectivity(root, rel, index, conditions, work.index_only, &looked_at);
	work.hits = clamp_row_est(rel->tuples * found);
	work.rows = clamp_row_est(rel->tuples * looked_at);
	work.batch = (double) hm_fetch_leaves_memory(work.index_only) /
				 hm_lookup_probe_memory(hm_index_key_size(index));
	work.batch = Min(work.batch, hm_batch_size);
	path = make_path(rel, index, work.index_only, conditions);
	hm_scan_cost_path(root, rel, index, conditions, guessed, &work, &path->path);
	add_path(rel, &path->path);
	if (rel->consider_parallel)
		add_partial_scan_path(root, rel, index, conditions, guessed, &work);
}

void
hm_lookup_scan_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	ListCell *cell;

	if (!may_name_many(rel) || !hm_can_look_up(root, rel))
		return;

	foreach (cell, hm_indexes(rel))
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		Conditions *conditions = palloc(sizeof(Conditions));

		/* Not index-only if rows are locked or changed: that needs the row itself. */
		if (match_restrictions(root, rel, index, conditions))
			add_lookup_scan_paths(root, rel, index,
								  root->rowMarks == NIL &&
									  !bms_is_member(rel->relid, root->all_result_relids),
								  conditions);
	}
}
