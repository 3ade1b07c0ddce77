/*
 * lookup_join_plan.c
 *		Planning a lookup join: the rows of any plan looked up in one table.
 *
 * The join hook offers a path for each ordered pair of relations of which the
 * inner one is a table with a harmonia index, and the join clauses compare its
 * key with something of the outer one: for equality, or from below and from
 * above.
 *
 * The plan's scan tuple (custom_scan_tlist) has the columns of both sides that
 * anything refers to.  In PostgreSQL 16 and later the same column can be there
 * twice, once as the table has it and once as an outer join may have made it
 * NULL.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "exec/internal.h"

/* The clauses that find entries in an index. */
typedef struct JoinKeys
{
	List	   *clauses;		/* RestrictInfos */
	List	   *arguments;		/* their outer sides */
	List	   *description;	/* strategy and argument type of each */
	bool		equal;
	bool		lower;
	bool		upper;
} JoinKeys;

/* What the path hands over to the plan; in custom_private in this order. */
enum PathPrivate
{
	PATH_INDEX,					/* IndexOptInfo */
	PATH_FLAGS,					/* JoinType, index-only? */
	PATH_KEYS,					/* key clauses */
	PATH_ARGUMENTS,
	PATH_DESCRIPTION,
	PATH_RESTRICTIONS			/* all clauses of the join */
};

/* ----------------------------------------------------------------
 *		Paths
 * ----------------------------------------------------------------
 */

/* Take a join clause as a key clause if it compares the index's key. */
static void
match_clause(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index,
			 RestrictInfo *info, JoinKeys *keys)
{
	OpExpr	   *clause = (OpExpr *) info->clause;
	Node	   *argument;
	Oid			operator;
	int			strategy;
	Oid			left_type,
				right_type;
	int			unused;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2 ||
		!restriction_is_securely_promotable(info, inner))
		return;
	if (match_index_to_operand(linitial(clause->args), 0, index))
	{
		argument = lsecond(clause->args);
		operator = clause->opno;
	}
	else if (match_index_to_operand(lsecond(clause->args), 0, index))
	{
		argument = linitial(clause->args);
		operator = get_commutator(clause->opno);
	}
	else
		return;

	if (!OidIsValid(operator) || contain_volatile_functions(argument) ||
		bms_is_member(inner->relid, pull_varnos(root, argument)))
		return;
	strategy = hm_operator_strategy(index, operator);
	if (strategy == 0)
		return;
	get_op_opfamily_properties(operator, index->opfamily[0], false, &unused,
							   &left_type, &right_type);

	keys->clauses = lappend(keys->clauses, info);
	keys->arguments = lappend(keys->arguments, argument);
	keys->description = lappend_int(keys->description, strategy);
	keys->description = lappend_int(keys->description, (int) right_type);
	keys->equal |= strategy == BTEqualStrategyNumber;
	keys->lower |= strategy >= BTGreaterEqualStrategyNumber;
	keys->upper |= strategy <= BTLessEqualStrategyNumber;
}

/* Whether the join's clauses name few enough keys of the index. */
static bool
match_restrictions(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index,
				   JoinType type, RelOptInfo *joinrel, List *restrictions, JoinKeys *keys)
{
	ListCell   *cell;

	*keys = (JoinKeys) {0};
	foreach(cell, restrictions)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		/* What is checked above an outer join does not say what matches. */
		if (IS_OUTER_JOIN(type) && RINFO_IS_PUSHED_DOWN(info, joinrel->relids))
			continue;
		match_clause(root, inner, index, info, keys);
	}
	return keys->equal || (keys->lower && keys->upper);
}

/* Whether there is a one-time filter among clauses; no node of ours has one. */
static bool
has_pseudoconstant(List *infos)
{
	ListCell   *cell;

	foreach(cell, infos)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	}
	return false;
}

/*
 * Whether all that the join puts out is columns of its inputs: an expression
 * that has to be evaluated at the join, or system columns of the table, it
 * cannot provide.
 */
static bool
can_provide_targets(RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner)
{
	ListCell   *cell;

	foreach(cell, joinrel->reltarget->exprs)
	{
		if (!IsA(lfirst(cell), Var) && !list_member(outer->reltarget->exprs, lfirst(cell)))
			return false;
	}
	foreach(cell, inner->reltarget->exprs)
	{
		if (!IsA(lfirst(cell), Var))
			return false;
	}
	return true;
}

/* Whether expressions read neither system columns nor the row as a whole. */
static bool
only_user_columns(List *exprs, Index relid)
{
	Bitmapset  *attributes = NULL;

	pull_varattnos((Node *) exprs, relid, &attributes);
	return bms_is_empty(attributes) ||
		bms_next_member(attributes, -1) + FirstLowInvalidHeapAttributeNumber > 0;
}

static Plan *plan_lookup_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
							  List *tlist, List *clauses, List *plans);

static const CustomPathMethods path_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.PlanCustomPath = plan_lookup_join,
};

/* A path with these inputs. */
static CustomPath *
make_path(PlannerInfo *root, RelOptInfo *joinrel, Path *outer_path, RelOptInfo *inner,
		  IndexOptInfo *index, JoinType type, JoinKeys *keys, bool index_only,
		  JoinPathExtraData *extra, double rows)
{
	CustomPath *path = makeNode(CustomPath);
	List	   *key_clauses = keys->clauses;
	double		probes = clamp_row_est(outer_path->rows);
	Selectivity selectivity = clauselist_selectivity(root, key_clauses, (int) inner->relid,
													 JOIN_INNER, NULL);
	double		hits = clamp_row_est(probes * selectivity * inner->tuples);
	QualCost	inner_cost,
				join_cost;

	/* With one match found, a semijoin or antijoin looks no further. */
	if (type == JOIN_SEMI || type == JOIN_ANTI || extra->inner_unique)
		hits = Min(hits, probes);

	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.parallel_safe = joinrel->consider_parallel && outer_path->parallel_safe;
	path->path.parallel_workers = outer_path->parallel_workers;
	path->path.rows = rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_paths = list_make1(outer_path);
	path->custom_private = list_make5(index, list_make2_int(type, index_only), keys->clauses,
									  keys->arguments, keys->description);
	path->custom_private = lappend(path->custom_private, extra->restrictlist);

	path->path.startup_cost = outer_path->startup_cost;
	path->path.total_cost = outer_path->total_cost + probes * cpu_tuple_cost;
	hm_cost_lookup(root, inner, index, probes, hits, index_only,
				   &path->path.startup_cost, &path->path.total_cost);
	cost_qual_eval(&inner_cost, inner->baserestrictinfo, root);
	cost_qual_eval(&join_cost, extra->restrictlist, root);
	path->path.startup_cost += inner_cost.startup + join_cost.startup +
		joinrel->reltarget->cost.startup;
	path->path.total_cost += inner_cost.startup + join_cost.startup +
		hits * (inner_cost.per_tuple + join_cost.per_tuple) +
		joinrel->reltarget->cost.startup + joinrel->reltarget->cost.per_tuple * rows;
	return path;
}

/* Offer the paths of one index: with all of the outer rows, and with a share of them. */
static void
add_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
		  IndexOptInfo *index, JoinType type, JoinKeys *keys, JoinPathExtraData *extra)
{
	List	   *clauses = list_concat(extract_actual_clauses(inner->baserestrictinfo, false),
									  get_actual_clauses(extra->restrictlist));
	bool		index_only = hm_index_only(inner, index, clauses);
	Path	   *outer_path = outer->cheapest_total_path;
	JoinType	join_type = type;

	/* Each of the outer rows once, and then a plain join. */
	if (type == JOIN_UNIQUE_OUTER)
	{
		outer_path = (Path *) create_unique_path(root, outer, outer_path, extra->sjinfo);
		join_type = JOIN_INNER;
	}
	if (outer_path == NULL || PATH_REQ_OUTER(outer_path) != NULL)
		return;
	add_path(joinrel, (Path *) make_path(root, joinrel, outer_path, inner, index, join_type,
										 keys, index_only, extra, joinrel->rows));

	if (joinrel->consider_parallel && type != JOIN_UNIQUE_OUTER &&
		outer->partial_pathlist != NIL && bms_is_empty(joinrel->lateral_relids))
	{
		CustomPath *path;

		outer_path = linitial(outer->partial_pathlist);
		path = make_path(root, joinrel, outer_path, inner, index, join_type, keys,
						 index_only, extra,
						 clamp_row_est(joinrel->rows * outer_path->rows /
									   Max(1.0, outer->rows)));

		/* Workers share nothing but their counts, but the server must know of it. */
		path->path.parallel_aware = true;
		add_partial_path(joinrel, (Path *) path);
	}
}

void
hm_lookup_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer,
					 RelOptInfo *inner, JoinType type, JoinPathExtraData *extra)
{
	ListCell   *cell;

	if (type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI &&
		type != JOIN_ANTI && type != JOIN_UNIQUE_OUTER)
		return;

	/* A row that has changed meanwhile would have to be joined anew. */
	if (root->rowMarks != NIL || bms_overlap(joinrel->relids, root->all_result_relids))
		return;
	if (!hm_can_look_up(root, inner) || !bms_is_empty(joinrel->lateral_relids) ||
		has_pseudoconstant(extra->restrictlist) ||
		has_pseudoconstant(inner->baserestrictinfo) ||
		!can_provide_targets(joinrel, outer, inner) ||
		!only_user_columns(inner->reltarget->exprs, inner->relid) ||
		!only_user_columns(get_actual_clauses(extra->restrictlist), inner->relid) ||
		!only_user_columns(extract_actual_clauses(inner->baserestrictinfo, false),
						   inner->relid))
		return;

	foreach(cell, inner->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		JoinKeys	keys;

		if (hm_can_use_index(index) &&
			match_restrictions(root, inner, index, type, joinrel, extra->restrictlist, &keys))
			add_paths(root, joinrel, outer, inner, index, type, &keys, extra);
	}
}

/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

/* Clauses in the order in which they may be evaluated: security barriers first. */
static List *
in_secure_order(List *infos)
{
	List	   *result = NIL;
	Index		level = 0;

	while (list_length(result) < list_length(infos))
	{
		ListCell   *cell;

		foreach(cell, infos)
		{
			RestrictInfo *info = lfirst_node(RestrictInfo, cell);

			if (info->security_level == level)
				result = lappend(result, info);
		}
		level++;
	}
	return result;
}

/* A plan in the making. */
typedef struct JoinPlan
{
	List	   *outer_tlist;
	Index		inner;
	List	   *tlist;			/* of the scan tuple */
	List	   *sources;		/* where its columns come from */
} JoinPlan;

/*
 * The outer plan's column that provides an expression, or 0.  Below this join
 * there is one version of a Var, whatever outer joins the expression thinks of.
 */
static int
outer_column(JoinPlan *plan, Node *expr)
{
	ListCell   *cell;

	foreach(cell, plan->outer_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (equal(entry->expr, expr))
			return entry->resno;
		if (IsA(expr, Var) && IsA(entry->expr, Var) &&
			((Var *) expr)->varno == ((Var *) entry->expr)->varno &&
			((Var *) expr)->varattno == ((Var *) entry->expr)->varattno &&
			((Var *) expr)->varlevelsup == ((Var *) entry->expr)->varlevelsup)
			return entry->resno;
	}
	return 0;
}

/* See to it that the scan tuple has all columns that expressions refer to. */
static void
provide_columns(JoinPlan *plan, List *exprs)
{
	List	   *columns = pull_var_clause((Node *) exprs,
										  PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
										  PVC_INCLUDE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, columns)
	{
		Node	   *column = lfirst(cell);
		int			source;

		if (tlist_member((Expr *) column, plan->tlist))
			continue;
		if (IsA(column, Var) && ((Var *) column)->varno == plan->inner)
			source = -((Var *) column)->varattno;
		else
			source = outer_column(plan, column);
		if (source == 0 && IsA(column, PlaceHolderVar))
		{
			/* Only clauses of this join want it: they evaluate what it stands for. */
			provide_columns(plan, list_make1(((PlaceHolderVar *) column)->phexpr));
			continue;
		}
		if (source == 0)
			elog(ERROR, "column of a lookup join is in neither of its inputs");

		plan->tlist = lappend(plan->tlist,
							  makeTargetEntry((Expr *) copyObject(column),
											  (AttrNumber) (list_length(plan->tlist) + 1),
											  NULL, false));
		plan->sources = lappend_int(plan->sources, source);
	}
}

static Plan *
plan_lookup_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
				 List *unused, List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	IndexOptInfo *index = list_nth(path->custom_private, PATH_INDEX);
	List	   *flags = list_nth(path->custom_private, PATH_FLAGS);
	List	   *keys = get_actual_clauses(list_nth(path->custom_private, PATH_KEYS));
	List	   *arguments = list_nth(path->custom_private, PATH_ARGUMENTS);
	List	   *restrictions = list_nth(path->custom_private, PATH_RESTRICTIONS);
	RelOptInfo *inner = index->rel;
	List	   *inner_quals,
			   *quals,
			   *other_quals = NIL;
	JoinPlan	plan = {0};

	restrictions = in_secure_order(restrictions);
	if (IS_OUTER_JOIN(linitial_int(flags)))
		extract_actual_join_clauses(restrictions, rel->relids, &quals, &other_quals);
	else
		quals = extract_actual_clauses(restrictions, false);
	inner_quals = extract_actual_clauses(in_secure_order(inner->baserestrictinfo), false);

	plan.outer_tlist = ((Plan *) linitial(plans))->targetlist;
	plan.inner = inner->relid;

	/* Not those of tlist, which is NIL where a projection is to replace it. */
	provide_columns(&plan, path->path.pathtarget->exprs);
	provide_columns(&plan, arguments);
	provide_columns(&plan, keys);
	provide_columns(&plan, inner_quals);
	provide_columns(&plan, quals);
	provide_columns(&plan, other_quals);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = other_quals;
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->methods = &hm_lookup_join_methods;
	scan->custom_plans = plans;
	scan->custom_scan_tlist = plan.tlist;
	scan->custom_private = list_make4(list_make2_oid(planner_rt_fetch(inner->relid, root)->relid, index->indexoid),
									  flags,
									  list_nth(path->custom_private, PATH_DESCRIPTION),
									  plan.sources);
	scan->custom_exprs = list_make4(arguments, keys, inner_quals, quals);
	return &scan->scan.plan;
}
