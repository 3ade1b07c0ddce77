/*
 * foreign_join_paths.c
 *		Paths for a foreign join: the rows of any plan, looked up in foreign tables.
 *
 * PostgreSQL fetches a foreign table as a whole for a hash join, or sends a query for each outer
 * row.  A foreign join sends a query for each batch, with all of its keys in an array.
 *
 * A table with foreign partitions or children has a target for each of them.  Those that are not
 * foreign are read by lookup scans with the same array.
 *
 * The foreign table's wrapper plans that query itself: it gets a copy of the relation that has
 * the condition key = ANY (parameter) beside those of the query.  So deparsing, privileges, user
 * mappings and costs are the wrapper's.  A join is offered only if the wrapper sends the
 * parameter to the remote server, and does not evaluate the condition here.
 *
 * All rows that the wrapper returns satisfy the relation's own restrictions.  The parameter's
 * condition is a join clause that the planner allows to be evaluated before any of these
 * (restriction_is_securely_promotable()).
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "foreign/fdwapi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paramassign.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "exec/foreign_join_plan.h"

/* The number of elements that an array of unknown length is taken to have, here and remotely. */
#define NOMINAL_KEYS	10

/*
 * What a key costs that is sent: it is made text, parsed, and looked up or put into the remote
 * server's hash table.
 */
#define KEY_COST		(2 * cpu_tuple_cost)

/* Testing whether a key is in a target's share costs so many operators. */
#define SHARE_OPERATORS	2

/*
 * What is known of the relations of one query.  A wrapper may ask the remote server for costs, so
 * it is asked once for each relation and key, not for each join.
 */
static PlannerInfo *known_root = NULL;
static List *known = NIL;

static void
forget(void *root)
{
	if (known_root == root)
	{
		known_root = NULL;
		known = NIL;
	}
}

/* ----------------------------------------------------------------
 *		Inner sides
 * ----------------------------------------------------------------
 */

/* The condition that the wrapper gets. */
static RestrictInfo *
array_condition(PlannerInfo *root, const ForeignInner *side, Node *key, Selectivity selectivity)
{
	ScalarArrayOpExpr *clause = makeNode(ScalarArrayOpExpr);
	RestrictInfo *info;

	clause->opno = side->operator;
	clause->opfuncid = get_opcode(side->operator);
	clause->useOr = true;
	clause->inputcollid = side->collation;
	clause->args = list_make2(copyObject(key), copyObject(side->param));
	clause->location = -1;
	info = make_simple_restrictinfo(root, (Expr *) clause);
	info->security_level = side->security_level;
	info->leakproof = side->security_level > 0 && !contain_leaked_vars((Node *) clause);

	/*
	 * The planner takes these as they are.  The remote server looks each row up in a hash table,
	 * if it has no index.
	 */
	info->norm_selec = Min(1.0, selectivity);
	info->eval_cost.startup = 0;
	info->eval_cost.per_tuple = cpu_operator_cost;
	return info;
}

/*
 * A copy of a relation with one condition more; without what would have paths made that are of no
 * use here.
 */
static RelOptInfo *
with_condition(RelOptInfo *rel, RestrictInfo *condition)
{
	RelOptInfo *copy = makeNode(RelOptInfo);

	*copy = *rel;
	copy->baserestrictinfo = lappend(list_copy(rel->baserestrictinfo), condition);
	copy->joininfo = NIL;
	copy->has_eclass_joins = false;
	copy->pathlist = copy->ppilist = copy->partial_pathlist = NIL;
	copy->cheapest_startup_path = copy->cheapest_total_path = NULL;
	copy->cheapest_parameterized_paths = NIL;
	copy->consider_parallel = false;
	return copy;
}

/* The cheapest path that returns the relation's columns and needs no other relation; or NULL. */
static Path *
cheapest_path(RelOptInfo *rel)
{
	Path	   *result = NULL;
	ListCell   *cell;

	foreach(cell, rel->pathlist)
	{
		Path	   *path = lfirst(cell);

		if (PATH_REQ_OUTER(path) == NULL && path->pathtarget == rel->reltarget &&
			(result == NULL || path->total_cost < result->total_cost))
			result = path;
	}
	return result;
}

/* The wrapper's path for a foreign table with one condition more, or NULL. */
static Path *
wrapper_path(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *condition)
{
	RelOptInfo *copy = with_condition(rel, condition);
	List	   *query_pathkeys = root->query_pathkeys;
	Oid			table = planner_rt_fetch(rel->relid, root)->relid;

	/* It need not ask the server what sorting costs. */
	root->query_pathkeys = NIL;
	copy->fdw_private = NULL;
	copy->fdwroutine->GetForeignRelSize(root, copy, table);
	copy->rows = clamp_row_est(copy->rows);
	copy->fdwroutine->GetForeignPaths(root, copy, table);
	root->query_pathkeys = query_pathkeys;
	return cheapest_path(copy);
}

/*
 * Whether the wrapper has the remote server evaluate the condition.  It has to make a plan to tell.
 */
static bool
sends_parameter(PlannerInfo *root, Path *path, RestrictInfo *condition, const Param *param)
{
	RelOptInfo *copy = path->parent;
	ForeignScan *scan;

	if (!IsA(path, ForeignPath) || ((ForeignPath *) path)->fdw_outerpath != NULL)
		return false;
	scan = copy->fdwroutine->GetForeignPlan(root, copy, planner_rt_fetch(copy->relid, root)->relid,
											(ForeignPath *) path, NIL, copy->baserestrictinfo, NULL);
	return list_member(scan->fdw_exprs, param) &&
		!list_member(scan->scan.plan.qual, condition->clause);
}

/* Describe how a foreign table is read.  Returns false if its wrapper does not send arrays. */
static bool
read_foreign(PlannerInfo *root, const ForeignInner *side, ForeignTarget *target, Node *key,
			 Selectivity selectivity)
{
	RelOptInfo *rel = target->rel;
	RestrictInfo *condition = array_condition(root, side, key, NOMINAL_KEYS * selectivity);
	Path	   *all;

	target->path = wrapper_path(root, rel, condition);
	if (target->path == NULL || !sends_parameter(root, target->path, condition, side->param))
		return false;

	/*
	 * Ask again, with keys that find all rows.  If the estimate follows, the wrapper has used our
	 * estimate, and costs follow from the number of rows.  Otherwise it has asked the remote
	 * server, which has taken the array to have the nominal number of elements.
	 */
	all = wrapper_path(root, rel, array_condition(root, side, key, 1.0));
	if (all == NULL)
		return false;
	target->linear = fabs(all->rows - rel->rows) <= 1 + 0.01 * rel->rows;
	if (all->rows > target->path->rows)
		target->per_row = (all->total_cost - target->path->total_cost) /
			(all->rows - target->path->rows);
	return true;
}

/* The same for a local table: by a lookup scan. */
static bool
read_local(PlannerInfo *root, const ForeignInner *side, ForeignTarget *target, Node *key,
		   Selectivity selectivity)
{
	RelOptInfo *copy = with_condition(target->rel,
									  array_condition(root, side, key, NOMINAL_KEYS * selectivity));

	if (!hm_enable_lookup_scan)
		return false;
	hm_lookup_scan_paths(root, copy, planner_rt_fetch(copy->relid, root));
	target->path = cheapest_path(copy);
	return target->path != NULL;
}

/* ----------------------------------------------------------------
 *		Shares
 * ----------------------------------------------------------------
 */

/* What replaces a column in conditions. */
typedef struct KeyColumn
{
	Var		   *column;
	bool		others;			/* there are other columns, too */
} KeyColumn;

static Node *
use_case_value(Node *node, void *context)
{
	KeyColumn  *key = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		CaseTestExpr *value = makeNode(CaseTestExpr);

		key->others |= ((Var *) node)->varattno != key->column->varattno;
		value->typeId = key->column->vartype;
		value->typeMod = key->column->vartypmod;
		value->collation = key->column->varcollid;
		return (Node *) value;
	}
	return expression_tree_mutator(node, use_case_value, key);
}

/*
 * Whether a table's partitions are chosen by the key alone, and a row's partition is that of any
 * value that the join's operator takes for equal to the row's key.
 */
static bool
is_partitioned_by_key(const ForeignInner *side, RelOptInfo *rel, const Var *key)
{
	PartitionScheme scheme = rel->part_scheme;
	Node	   *column;

	if (scheme == NULL || rel->boundinfo == NULL || scheme->partnatts != 1 ||
		list_length(rel->partexprs[0]) != 1)
		return false;
	column = linitial(rel->partexprs[0]);
	return IsA(column, Var) && ((Var *) column)->varattno == key->varattno &&
		((Var *) column)->vartype == side->type && key->vartype == side->type &&
		scheme->partcollation[0] == side->collation &&
		get_op_opfamily_strategy(side->operator, scheme->partopfamily[0]) ==
		(scheme->strategy == PARTITION_STRATEGY_HASH ? HTEqualStrategyNumber : BTEqualStrategyNumber);
}

/*
 * The conditions on keys that can be in a partition, by its constraint; NIL if any key can.  All
 * tables from the inner side down to its parent are partitioned by the key.
 */
static List *
partition_share(PlannerInfo *root, RelOptInfo *rel, Var *key)
{
	Relation	relation = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	List	   *conditions = (List *) expression_planner((Expr *) RelationGetPartitionQual(relation));
	KeyColumn	column = {key};
	List	   *result;

	table_close(relation, NoLock);
	result = (List *) use_case_value((Node *) conditions, &column);
	return column.others ? NIL : result;
}

/* ----------------------------------------------------------------
 *		Targets
 * ----------------------------------------------------------------
 */

/* Whether a relation is a foreign table that can be read for a join. */
static bool
is_foreign(PlannerInfo *root, RelOptInfo *rel)
{
	return planner_rt_fetch(rel->relid, root)->relkind == RELKIND_FOREIGN_TABLE &&
		rel->fdwroutine != NULL && bms_is_empty(rel->lateral_relids);
}

/* Whether a relation is a foreign table, or has one among its children. */
static bool
has_foreign(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *cell;

	if (rel == NULL || IS_DUMMY_REL(rel))
		return false;
	if (!planner_rt_fetch(rel->relid, root)->inh)
		return is_foreign(root, rel);
	foreach(cell, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, cell);

		if (info->parent_relid == rel->relid &&
			has_foreign(root, root->simple_rel_array[info->child_relid]))
			return true;
	}
	return false;
}

/*
 * Add all targets of a relation, which is the inner side or one of its children.  With shared,
 * all tables above it are partitioned by the key.  Returns false if one cannot be read by an array.
 */
static bool
add_targets(PlannerInfo *root, ForeignInner *side, RelOptInfo *rel, bool shared,
			Selectivity selectivity)
{
	Node	   *key = side->key;
	ForeignTarget *target;
	ListCell   *cell;

	if (rel == NULL || IS_DUMMY_REL(rel))
		return true;
	if (rel != side->inner)
		key = hm_translate_for_child(root, key, rel, side->inner);
	if (planner_rt_fetch(rel->relid, root)->inh)
	{
		shared = shared && IsA(key, Var) && is_partitioned_by_key(side, rel, (Var *) key);
		foreach(cell, root->append_rel_list)
		{
			AppendRelInfo *info = lfirst_node(AppendRelInfo, cell);

			if (info->parent_relid == rel->relid &&
				!add_targets(root, side, root->simple_rel_array[info->child_relid], shared,
							 selectivity))
				return false;
		}
		return true;
	}

	target = palloc0(sizeof(ForeignTarget));
	target->rel = rel;
	target->fraction = 1.0;
	if (is_foreign(root, rel) ? !read_foreign(root, side, target, key, selectivity) :
		!read_local(root, side, target, key, selectivity))
		return false;
	if (shared && rel != side->inner)
		target->share = partition_share(root, rel, (Var *) key);
	if (target->share != NIL)
		target->fraction = Min(1.0, rel->rows / clamp_row_est(side->inner->rows));
	side->targets = lappend(side->targets, target);
	return true;
}

/* Find all targets of an inner side. */
static void
find_targets(PlannerInfo *root, ForeignInner *side, Selectivity selectivity)
{
	/* The constraint of a partition has its parents' conditions, too. */
	bool		shared = !get_rel_relispartition(planner_rt_fetch(side->inner->relid, root)->relid);

	if (!add_targets(root, side, side->inner, shared, selectivity))
		side->targets = NIL;
}

/*
 * What is known of an inner side and this key clause.  Memory is the planner's, because a
 * relation outlives the joins that GEQO tries.
 */
static const ForeignInner *
inner_side(PlannerInfo *root, RelOptInfo *inner, RestrictInfo *info, bool inner_left)
{
	OpExpr	   *clause = (OpExpr *) info->clause;
	Node	   *key = inner_left ? linitial(clause->args) : lsecond(clause->args);
	Node	   *argument = inner_left ? lsecond(clause->args) : linitial(clause->args);
	Oid			operator = inner_left ? clause->opno : get_commutator(clause->opno);
	Oid			type = exprType(argument);
	Oid			array_type = get_array_type(type);
	MemoryContext old_context;
	ForeignInner *side;
	ListCell   *cell;

	if (!OidIsValid(operator) || !OidIsValid(array_type))
		return NULL;
	old_context = MemoryContextSwitchTo(root->planner_cxt);
	if (known_root != root)
	{
		MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));

		callback->func = forget;
		callback->arg = root;
		MemoryContextRegisterResetCallback(root->planner_cxt, callback);
		known = NIL;
		known_root = root;
	}
	foreach(cell, known)
	{
		side = lfirst(cell);
		if (side->inner == inner && side->operator == operator && side->type == type &&
			side->collation == clause->inputcollid &&
			side->security_level == info->security_level && equal(side->key, key))
		{
			MemoryContextSwitchTo(old_context);
			return side;
		}
	}

	side = palloc0(sizeof(ForeignInner));
	side->inner = inner;
	side->key = copyObject(key);
	side->operator = operator;
	side->collation = clause->inputcollid;
	side->type = type;
	side->security_level = info->security_level;
	side->param = generate_new_exec_param(root, array_type, -1, get_typcollation(array_type));
	find_targets(root, side, clauselist_selectivity(root, list_make1(info), (int) inner->relid,
													JOIN_INNER, NULL));
	known = lappend(known, side);
	MemoryContextSwitchTo(old_context);
	return side;
}

/* ----------------------------------------------------------------
 *		Costs
 * ----------------------------------------------------------------
 */

/*
 * What one query of a target costs with so many keys, all of which find so many rows: *startup
 * until the first row.
 */
static Cost
target_cost(const ForeignTarget *target, double keys, double rows, Cost *startup)
{
	const Path *path = target->path;
	Cost		total;

	*startup = path->startup_cost;
	if (target->linear)
		total = path->total_cost + target->per_row * (rows - path->rows);
	else
		total = path->startup_cost +
			(path->total_cost - path->startup_cost) * Max(1.0, keys / NOMINAL_KEYS);
	return Max(total, path->startup_cost);
}

/* Add to a path's cost the evaluation of expressions, a number of times. */
static void
add_evaluations(PlannerInfo *root, Path *path, List *exprs, double times)
{
	QualCost	cost;

	cost_qual_eval(&cost, exprs, root);
	path->startup_cost += cost.startup;
	path->total_cost += cost.startup + cost.per_tuple * times;
}

/* The part of a path's costs that is quickly known. */
static void
cost_outer(Path *path, const Path *outer_path)
{
	hm_inherit_disabled_nodes(path, outer_path);
	path->startup_cost = outer_path->startup_cost;
	path->total_cost = outer_path->total_cost +
		clamp_row_est(outer_path->rows) * (cpu_tuple_cost + cpu_operator_cost);
}

static void
cost_path(PlannerInfo *root, Path *path, const Path *outer_path, const ForeignInner *side,
		  RestrictInfo *info, Node *argument, JoinPathExtraData *extra)
{
	double		outer_rows = clamp_row_est(outer_path->rows);
	double		distinct = estimate_num_groups(root, list_make1(argument), outer_rows, NULL, NULL);
	double		batches = ceil(outer_rows /
							   hm_foreign_batch_rows(outer_path->pathtarget->width,
													 list_length(outer_path->pathtarget->exprs)));
	Selectivity selectivity = clauselist_selectivity(root, list_make1(info),
													 (int) side->inner->relid, JOIN_INNER, NULL);
	double		keys;
	double		fetched = 0;
	ListCell   *cell;

	/* Keys may come again in later batches. */
	distinct = Min(clamp_row_est(distinct), outer_rows);
	keys = Min(distinct, outer_rows / batches);
	cost_outer(path, outer_path);
	path->startup_cost += (path->total_cost - outer_path->startup_cost) / batches;
	foreach(cell, side->targets)
	{
		ForeignTarget *target = lfirst(cell);
		double		rows = clamp_row_est(target->rel->rows * Min(1.0, keys * selectivity));
		double		sent = clamp_row_est(keys * target->fraction);
		Cost		sending = sent * KEY_COST;
		Cost		startup;
		Cost		total = target_cost(target, sent, rows, &startup);

		if (target->share != NIL)
			sending += keys * SHARE_OPERATORS * cpu_operator_cost;
		fetched += rows * batches;
		path->startup_cost += sending + startup;
		path->total_cost += batches * (sending + total);
	}

	/* Looking the rows up, and what is done with a match. */
	path->total_cost += fetched * cpu_operator_cost;
	add_evaluations(root, path, list_make1(argument), outer_rows);
	add_evaluations(root, path, extra->restrictlist,
					Max(fetched, outer_rows * selectivity * side->inner->rows));
	path->startup_cost += path->pathtarget->cost.startup;
	path->total_cost += path->pathtarget->cost.startup +
		(path->pathtarget->cost.per_tuple + cpu_tuple_cost) * path->rows;
}

/* ----------------------------------------------------------------
 *		Paths
 * ----------------------------------------------------------------
 */

/*
 * Whether a join clause can be the key clause: equality, which can be hashed, of expressions on
 * either side.
 */
static bool
is_key_clause(RestrictInfo *info, RelOptInfo *outer, RelOptInfo *inner, bool *inner_left)
{
	OpExpr	   *clause = (OpExpr *) info->clause;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2 || !info->can_join ||
		!restriction_is_securely_promotable(info, inner) ||
		contain_volatile_functions((Node *) info) ||
		!op_strict(clause->opno) ||
		!op_hashjoinable(clause->opno, exprType(linitial(clause->args))))
		return false;

	/* What a collation takes for equal may differ by server, but not for these. */
	if (OidIsValid(clause->inputcollid) && !get_collation_isdeterministic(clause->inputcollid))
		return false;
	if (bms_is_subset(info->left_relids, inner->relids) &&
		bms_is_subset(info->right_relids, outer->relids))
		*inner_left = true;
	else if (bms_is_subset(info->right_relids, inner->relids) &&
			 bms_is_subset(info->left_relids, outer->relids))
		*inner_left = false;
	else
		return false;
	return true;
}

static void
add_join_path(PlannerInfo *root, RelOptInfo *joinrel, Path *outer_path, JoinType type,
			  const ForeignInner *side, RestrictInfo *info, bool inner_left,
			  JoinPathExtraData *extra)
{
	OpExpr	   *clause = (OpExpr *) info->clause;
	CustomPath *path = makeNode(CustomPath);
	ListCell   *cell;

	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.rows = joinrel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &hm_foreign_join_path_methods;
	path->custom_paths = list_make1(outer_path);
	foreach(cell, side->targets)
		path->custom_paths = lappend(path->custom_paths, ((ForeignTarget *) lfirst(cell))->path);
	path->custom_private = list_make4(unconstify(ForeignInner *, side), info, extra->restrictlist,
									  list_make2_int(type, inner_left));
	cost_path(root, &path->path, outer_path, side, info,
			  inner_left ? lsecond(clause->args) : linitial(clause->args), extra);
	add_path(joinrel, &path->path);
}

/* Whether a path could win against those that the join has, by what is quickly known. */
static bool
may_pay(RelOptInfo *joinrel, Path *outer_path)
{
	Path		least = {0};

	cost_outer(&least, outer_path);
	return hm_add_path_precheck(joinrel, least.startup_cost, least.total_cost);
}

/*
 * Whether a nested loop does with one outer row what we could do.  A wrapper that has paths for single
 * keys asks the remote server for costs, and asking it for those of arrays takes longer than the query.
 */
static bool
is_single_lookup(const Path *outer_path, RelOptInfo *outer, RelOptInfo *inner)
{
	ListCell   *cell;

	if (!enable_nestloop || outer_path->rows > 1)
		return false;
	foreach(cell, inner->cheapest_parameterized_paths)
	{
		Relids		required = PATH_REQ_OUTER((Path *) lfirst(cell));

		if (required != NULL && bms_is_subset(required, outer->relids))
			return true;
	}
	return false;
}

/*
 * Whether the query may write to foreign tables.  A batch's remote query would see what rows of
 * earlier batches have written.
 */
static bool
may_write_remotely(PlannerInfo *root)
{
	for (; root != NULL; root = root->parent_root)
	{
		const Query *query = root->parse;
		const RangeTblEntry *rte;

		if (query->hasModifyingCTE)
			return true;
		if (query->commandType == CMD_SELECT || query->resultRelation == 0)
			continue;
		rte = rt_fetch(query->resultRelation, query->rtable);
		if (rte->relkind != RELKIND_RELATION || rte->inh)
			return true;
	}
	return false;
}

void
hm_foreign_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
					  JoinType type, JoinPathExtraData *extra)
{
	Path	   *outer_path = outer->cheapest_total_path;
	JoinType	join_type = type == JOIN_UNIQUE_OUTER ? JOIN_INNER : type;
	ListCell   *cell;

	if (join_type != JOIN_INNER && join_type != JOIN_LEFT && join_type != JOIN_SEMI &&
		join_type != JOIN_ANTI)
		return;

	/* A join of tables of one server is left to the wrapper. */
	if (hm_is_grouped(joinrel) || !hm_may_join(root, joinrel, inner) ||
		joinrel->fdwroutine != NULL)
		return;
	if (type == JOIN_UNIQUE_OUTER)
		outer_path = hm_create_unique_path(root, outer, outer_path, extra->sjinfo);
	if (outer_path == NULL || PATH_REQ_OUTER(outer_path) != NULL || !may_pay(joinrel, outer_path) ||
		!has_foreign(root, inner) || is_single_lookup(outer_path, outer, inner) ||
		may_write_remotely(root) || !hm_can_join(joinrel, outer, inner, extra))
		return;

	foreach(cell, extra->restrictlist)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);
		const ForeignInner *side;
		bool		inner_left;

		if (!hm_decides_match(join_type, joinrel, info) ||
			!is_key_clause(info, outer, inner, &inner_left))
			continue;
		side = inner_side(root, inner, info, inner_left);
		if (side != NULL && side->targets != NIL)
			add_join_path(root, joinrel, outer_path, join_type, side, info, inner_left, extra);
	}
}
