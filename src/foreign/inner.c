/*
 * inner.c
 *		What a foreign join's inner side is read by, and what that costs: queries with an array.
 *
 * A table with foreign partitions or children has a target for each of them.  Those that are not
 * foreign are read by lookup scans with the same array.
 *
 * The foreign table's wrapper plans its query itself: it gets a copy of the relation that has
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
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

#include "compat.h"
#include "foreign/foreign_join.h"

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
	info = hm_make_condition(root, (Expr *) clause, side->security_level);

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
	Path *result = NULL;
	ListCell *cell;

	foreach (cell, rel->pathlist)
	{
		Path *path = lfirst(cell);

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
	List *query_pathkeys = root->query_pathkeys;
	Oid table = planner_rt_fetch(rel->relid, root)->relid;

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
 * Whether a foreign table's wrapper has the remote server evaluate the condition.  It has to make a
 * plan to tell.
 */
static bool
sends_parameter(PlannerInfo *root, const ForeignTarget *target, const Param *param)
{
	Path *path = target->path;
	RelOptInfo *copy = path->parent;
	ForeignScan *scan;

	if (!IsA(path, ForeignPath) || ((ForeignPath *) path)->fdw_outerpath != NULL)
		return false;
	scan =
		copy->fdwroutine->GetForeignPlan(root, copy, planner_rt_fetch(copy->relid, root)->relid,
										 (ForeignPath *) path, NIL, copy->baserestrictinfo, NULL);
	return list_member(scan->fdw_exprs, param) &&
		   !list_member(scan->scan.plan.qual, target->condition->clause);
}

/* Have the wrapper plan a foreign table's query.  Returns false if it has no path for it. */
static bool
read_foreign(PlannerInfo *root, const ForeignInner *side, ForeignTarget *target, Node *key,
			 Selectivity selectivity)
{
	RelOptInfo *rel = target->rel;
	Path *all;

	/*
	 * Keys that find all rows.  If the estimate follows, the wrapper has used ours, and costs
	 * follow from the number of rows: ask again, with keys that find few.  Otherwise it has asked
	 * the remote server, which has taken the array to have the nominal number of elements; that
	 * took a while.
	 */
	target->condition = array_condition(root, side, key, 1.0);
	target->path = all = wrapper_path(root, rel, target->condition);
	if (all == NULL)
		return false;
	target->linear = fabs(all->rows - rel->rows) <= 1 + 0.01 * rel->rows;
	if (!target->linear)
		return true;
	target->condition = array_condition(root, side, key, HM_NOMINAL_KEYS * selectivity);
	target->path = wrapper_path(root, rel, target->condition);
	if (target->path == NULL)
		return false;
	if (all->rows > target->path->rows)
		target->per_row =
			(all->total_cost - target->path->total_cost) / (all->rows - target->path->rows);
	return true;
}

/* The same for a local table: by a lookup scan. */
static bool
read_local(PlannerInfo *root, const ForeignInner *side, ForeignTarget *target, Node *key,
		   Selectivity selectivity)
{
	RelOptInfo *copy = with_condition(
		target->rel, array_condition(root, side, key, HM_NOMINAL_KEYS * selectivity));

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
	Var *column;
	bool others; /* there are other columns, too */
} KeyColumn;

static Node *
use_case_value(Node *node, void *context)
{
	KeyColumn *key = context;

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
	Node *column;

	if (scheme == NULL || rel->boundinfo == NULL || scheme->partnatts != 1 ||
		list_length(rel->partexprs[0]) != 1)
		return false;
	column = linitial(rel->partexprs[0]);
	return IsA(column, Var) && ((Var *) column)->varattno == key->varattno &&
		   ((Var *) column)->vartype == side->type && key->vartype == side->type &&
		   scheme->partcollation[0] == side->collation &&
		   get_op_opfamily_strategy(side->operator, scheme->partopfamily[0]) ==
			   (scheme->strategy == PARTITION_STRATEGY_HASH ? HTEqualStrategyNumber :
															  BTEqualStrategyNumber);
}

/*
 * The conditions on keys that can be in a partition, by its constraint; NIL if any key can.  All
 * tables from the inner side down to its parent are partitioned by the key.
 */
static List *
partition_share(PlannerInfo *root, RelOptInfo *rel, Var *key)
{
	Relation relation = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	List *conditions = (List *) expression_planner((Expr *) RelationGetPartitionQual(relation));
	KeyColumn column = {key};
	List *result;

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

/*
 * What one row of another relation costs to be looked up in a foreign table, or 0 if there is no
 * path.
 */
static Cost
single_key_cost(const RelOptInfo *rel)
{
	Cost least = 0;
	ListCell *cell;

	foreach (cell, rel->cheapest_parameterized_paths)
	{
		Path *path = lfirst(cell);
		Cost cost = path->total_cost - path->startup_cost;

		if (PATH_REQ_OUTER(path) != NULL && (least == 0 || cost < least))
			least = cost;
	}
	return least;
}

void
hm_count_foreign(PlannerInfo *root, RelOptInfo *rel, ForeignTables *tables)
{
	ListCell *cell;

	if (rel == NULL || IS_DUMMY_REL(rel))
		return;
	if (!planner_rt_fetch(rel->relid, root)->inh)
	{
		Cost least = -1;
		Cost key = single_key_cost(rel);

		if (!is_foreign(root, rel))
			return;
		foreach (cell, rel->pathlist)
		{
			const Path *path = lfirst(cell);

			if (least < 0 || path->startup_cost < least)
				least = path->startup_cost;
		}
		tables->startup += Max(least, 0);
		tables->single_key = tables->count == 0 ? key : Min(tables->single_key, key);
		tables->count++;
		return;
	}
	foreach (cell, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, cell);

		if (info->parent_relid == rel->relid)
			hm_count_foreign(root, root->simple_rel_array[info->child_relid], tables);
	}
}

/*
 * Add all targets of a relation, which is the inner side or one of its children.  With shared,
 * all tables above it are partitioned by the key.  Returns false if one cannot be read by an array.
 */
static bool
add_targets(PlannerInfo *root, ForeignInner *side, RelOptInfo *rel, bool shared,
			Selectivity selectivity)
{
	Node *key = side->key;
	ForeignTarget *target;
	ListCell *cell;

	if (rel == NULL || IS_DUMMY_REL(rel))
		return true;
	if (rel != side->inner)
		key = hm_translate_for_child(root, key, rel, side->inner);
	if (planner_rt_fetch(rel->relid, root)->inh)
	{
		shared = shared && IsA(key, Var) && is_partitioned_by_key(side, rel, (Var *) key);
		foreach (cell, root->append_rel_list)
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
	bool shared = !get_rel_relispartition(planner_rt_fetch(side->inner->relid, root)->relid);

	if (!add_targets(root, side, side->inner, shared, selectivity))
		side->targets = NIL;
}

ForeignInner *
hm_foreign_inner(PlannerInfo *root, RelOptInfo *inner, RestrictInfo *info, bool inner_left)
{
	OpExpr *clause = (OpExpr *) info->clause;
	Node *key = inner_left ? linitial(clause->args) : lsecond(clause->args);
	Node *argument = inner_left ? lsecond(clause->args) : linitial(clause->args);
	Oid operator= inner_left ? clause->opno : get_commutator(clause->opno);
	Oid type = exprType(argument);
	Oid array_type = get_array_type(type);
	MemoryContext old_context;
	ForeignInner *side;
	ListCell *cell;

	if (!OidIsValid(operator) || !OidIsValid(array_type))
		return NULL;
	/* A relation outlives the joins that GEQO tries. */
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
	foreach (cell, known)
	{
		side = lfirst(cell);
		if (side->inner == inner && side->operator== operator&& side->type == type &&
									side->collation == clause->inputcollid &&
									side->security_level == info->security_level &&
									equal(side->key, key))
		{
			MemoryContextSwitchTo(old_context);
			return side;
		}
	}

	side = palloc0(sizeof(ForeignInner));
	side->inner = inner;
	side->key = copyObject(key);
	side->operator= operator;
	side->collation = clause->inputcollid;
	side->type = type;
	side->security_level = info->security_level;
	side->param = generate_new_exec_param(root, array_type, -1, get_typcollation(array_type));
	find_targets(
		root, side,
		clauselist_selectivity(root, list_make1(info), (int) inner->relid, JOIN_INNER, NULL));
	known = lappend(known, side);
	MemoryContextSwitchTo(old_context);
	return side;
}

bool
hm_foreign_sends_arrays(PlannerInfo *root, ForeignInner *side)
{
	MemoryContext old_context;
	ListCell *cell;

	if (side->sends_known || side->targets == NIL)
		return side->targets != NIL;
	old_context = MemoryContextSwitchTo(root->planner_cxt);
	foreach (cell, side->targets)
	{
		ForeignTarget *target = lfirst(cell);

		if (target->condition != NULL && !sends_parameter(root, target, side->param))
		{
			side->targets = NIL;
			break;
		}
	}
	side->sends_known = true;
	MemoryContextSwitchTo(old_context);
	return side->targets != NIL;
}
