/*
 * plan.c
 *		From the path of a foreign join to its plan.
 *
 * The inner plans refer to the array of keys as an executor parameter, as the inner plan of a
 * nested loop does.  The planner allows that below a NestLoop alone (SS_finalize_plan()), so each
 * inner plan is the right side of one.  That is never executed: the join sets the parameter, and
 * runs the right side.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"

#include "compat.h"
#include "foreign/foreign_join.h"

/* A nested loop that gives a plan the parameter. */
static Plan *
with_parameter(Plan *plan, const Param *param, Index inner)
{
	NestLoop   *loop = makeNode(NestLoop);
	Result	   *values = makeNode(Result);
	NestLoopParam *value = makeNode(NestLoopParam);
	Var		   *var = makeVar(inner, 1, param->paramtype, -1, param->paramcollid, 0);

	values->plan.targetlist = list_make1(makeTargetEntry((Expr *) var, 1, NULL, false));
	value->paramno = param->paramid;
	value->paramval = copyObject(var);
	loop->join.jointype = JOIN_INNER;
	loop->join.plan.lefttree = &values->plan;
	loop->join.plan.righttree = plan;
	loop->nestParams = list_make1(value);
	return &loop->join.plan;
}

/*
 * The number of a column in the rows of the inner plans, from 1 on.  They have those of the inner
 * relation's target list, in its order.
 */
static int
inner_column(RelOptInfo *inner, Node *column)
{
	ListCell   *cell;

	foreach(cell, inner->reltarget->exprs)
	{
		if (hm_same_column(lfirst(cell), column))
			return foreach_current_index(cell) + 1;
	}
	elog(ERROR, "column of a foreign join is not in its inner side");
}

static Plan *
plan_foreign_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *unused,
				  List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	const ForeignInner *side = list_nth(path->custom_private, FOREIGN_PATH_INNER);
	RestrictInfo *key_info = list_nth(path->custom_private, FOREIGN_PATH_KEY);
	List	   *restrictions = list_nth(path->custom_private, FOREIGN_PATH_RESTRICTIONS);
	JoinType	type = (JoinType) linitial_int(list_nth(path->custom_private, FOREIGN_PATH_FLAGS));
	bool		inner_left = lsecond_int(list_nth(path->custom_private, FOREIGN_PATH_FLAGS)) != 0;
	OpExpr	   *clause = (OpExpr *) key_info->clause;
	OpExpr	   *shown = copyObject(clause);
	List	   *argument = list_make1(inner_left ? lsecond(clause->args) : linitial(clause->args));
	List	   *key = list_make1(inner_left ? linitial(clause->args) : lsecond(clause->args));
	List	   *quals,
			   *other_quals = NIL;
	List	   *sources = NIL,
			   *shares = NIL;
	ListCell   *cell;
	JoinPlan	plan = {0};

	restrictions = hm_join_in_order(root, list_delete_ptr(list_copy(restrictions), key_info));
	if (IS_OUTER_JOIN(type))
		extract_actual_join_clauses(restrictions, rel->relids, &quals, &other_quals);
	else
		quals = extract_actual_clauses(restrictions, false);

	/* EXPLAIN shows the inner side's key on the left. */
	if (!inner_left)
		CommuteOpExpr(shown);
	plan.outer_tlist = ((Plan *) linitial(plans))->targetlist;
	plan.inner = side->inner->relid;
	hm_join_provide_columns(&plan, path->path.pathtarget->exprs);
	hm_join_provide_columns(&plan, other_quals);
	hm_join_provide_columns(&plan, argument);
	hm_join_provide_columns(&plan, key);
	hm_join_provide_columns(&plan, quals);
	foreach(cell, plan.sources)
	{
		TargetEntry *entry = list_nth(plan.tlist, foreach_current_index(cell));
		int			source = lfirst_int(cell);

		if (source == 0)
			source = -inner_column(side->inner, (Node *) entry->expr);
		sources = lappend_int(sources, source);
	}

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = other_quals;
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->methods = &hm_foreign_join_methods;
	scan->custom_plans = list_make1(linitial(plans));
	for (int i = 1; i < list_length(plans); i++)
		scan->custom_plans = lappend(scan->custom_plans,
									 with_parameter(list_nth(plans, i), side->param,
													side->inner->relid));
	scan->custom_scan_tlist = plan.tlist;
	scan->custom_private =
		list_make3(list_make4_int(type, side->param->paramid, hm_wants_first_rows(root), inner_left),
				   list_make3_oid(clause->opno, clause->inputcollid,
								  exprType(linitial(argument))),
				   sources);
	foreach(cell, side->targets)
		shares = lappend(shares, ((ForeignTarget *) lfirst(cell))->share);
	scan->custom_exprs = (List *)
		hm_join_use_columns((Node *) list_make5(argument, key, list_make1(shown), quals, shares),
							&plan);
	return &scan->scan.plan;
}

const CustomPathMethods hm_foreign_join_path_methods = {
	.CustomName = "HarmoniaForeignJoin",
	.PlanCustomPath = plan_foreign_join,
};
