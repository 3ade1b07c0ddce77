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
	NestLoop *loop = makeNode(NestLoop);
	Result *values = makeNode(Result);
	NestLoopParam *value = makeNode(NestLoopParam);
	Var *var = makeVar(inner, 1, param->paramtype, -1, param->paramcollid, 0);

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
	ListCell *cell;

	foreach (cell, inner->reltarget->exprs)
	{
		if (hm_same_column(lfirst(cell), column))
			return foreach_current_index(cell) + 1;
	}
	elog(ERROR, "column of a foreign join is not in its inner side");
}

/* A target for the executor: an inner plan, whose rows fill this scan tuple. */
static LookupTarget *
plan_target(const ForeignInner *side, const JoinPlan *columns)
{
	LookupTarget *target = palloc0(sizeof(LookupTarget));
	ListCell *cell, *source;

	forboth(cell, columns->tlist, source, columns->sources) target->columns =
		lappend_int(target->columns,
					lfirst_int(source) > 0 ?
						0 :
						inner_column(side->inner, (Node *) lfirst_node(TargetEntry, cell)->expr));
	return target;
}

/*
 * Divide the join clauses without the key clause.  Returns those that are evaluated above an outer
 * join.
 */
static List *
divide_clauses(PlannerInfo *root, const ForeignJoinPath *join, RelOptInfo *rel, List **quals)
{
	List *others =
		hm_join_in_order(root, list_delete_ptr(list_copy(join->restrictions), join->key));
	List *above = NIL;

	if (IS_OUTER_JOIN(join->type))
		extract_actual_join_clauses(others, rel->relids, quals, &above);
	else
		*quals = extract_actual_clauses(others, false);
	return above;
}

/* The key clause as EXPLAIN shows it: with the inner side's key on the left. */
static OpExpr *
shown_clause(const ForeignJoinPath *join)
{
	OpExpr *shown = copyObject((OpExpr *) join->key->clause);

	if (!join->inner_left)
		CommuteOpExpr(shown);
	return shown;
}

static Plan *
plan_foreign_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *unused,
				  List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	const ForeignJoinPath *join = linitial(path->custom_private);
	const ForeignInner *side = join->side;
	OpExpr *clause = (OpExpr *) join->key->clause;
	OpExpr *shown = shown_clause(join);
	JoinPlan columns = hm_join_plan(root, side->inner, ((Plan *) linitial(plans))->targetlist);
	LookupPlan plan = {.type = join->type, .first_rows = hm_wants_first_rows(root)};
	ForeignPlan foreign = {side->param->paramid, join->inner_left, clause->opno,
						   clause->inputcollid};
	ListCell *cell;

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = divide_clauses(root, join, rel, &plan.quals);
	scan->flags = path->flags;
	scan->methods = &hm_foreign_join_methods;
	scan->custom_plans = list_make1(linitial(plans));
	for (int i = 1; i < list_length(plans); i++)
		scan->custom_plans =
			lappend(scan->custom_plans,
					with_parameter(list_nth(plans, i), side->param, side->inner->relid));

	foreign.key = linitial(shown->args);
	plan.arguments = list_make1(lsecond(shown->args));
	plan.key_clauses = list_make1(shown);
	hm_join_provide_columns(&columns, path->path.pathtarget->exprs);
	hm_join_provide_columns(&columns, scan->scan.plan.qual);
	hm_join_provide_columns(&columns, plan.key_clauses);
	hm_join_provide_columns(&columns, plan.quals);
	plan.sources = columns.sources;
	foreach (cell, side->targets)
	{
		foreign.shares = lappend(foreign.shares, ((ForeignTarget *) lfirst(cell))->share);
		plan.targets = lappend(plan.targets, plan_target(side, &columns));
	}
	hm_join_finish_plan(&columns, &plan, scan);
	foreign.key = (Expr *) hm_join_use_columns((Node *) foreign.key, &columns);
	hm_foreign_plan_write(&foreign, scan);
	return &scan->scan.plan;
}

const CustomPathMethods hm_foreign_join_path_methods = {
	.CustomName = "HarmoniaForeignJoin",
	.PlanCustomPath = plan_foreign_join,
};
