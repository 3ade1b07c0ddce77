/*
 * lookup_join_plan.c
 *		From the path of a lookup join to its plan.
 *
 * The plan's scan tuple (custom_scan_tlist) has each column of both sides that an
 * expression refers to, once.  If the join returns the column, its Var is the one that
 * the rows of the join have.  Other clauses, which are evaluated before that, have their
 * Vars replaced by these: from 16 on, Vars of one column differ in nullingrels, which
 * says which outer joins may have made it NULL.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/lookup_join_plan.h"

/* A clause, and what decides the order of evaluation. */
typedef struct OrderedClause
{
	RestrictInfo *info;
	Index level;
	Cost cost;
} OrderedClause;

/*
 * Clauses in the order in which PostgreSQL's own nodes evaluate them: by security level,
 * then by cost.  A cheap leakproof clause need not wait for those of lower levels.
 * (order_qual_clauses() in createplan.c)
 */
List *
hm_join_in_order(PlannerInfo *root, List *infos)
{
	OrderedClause *clauses = palloc(Max(1, list_length(infos)) * sizeof(OrderedClause));
	List *result = NIL;
	ListCell *cell;

	foreach (cell, infos)
	{
		OrderedClause clause = {lfirst_node(RestrictInfo, cell)};
		int i = foreach_current_index(cell);
		QualCost cost;

		cost_qual_eval_node(&cost, (Node *) clause.info, root);
		clause.cost = cost.per_tuple;
		if (!clause.info->leakproof || clause.cost >= 10 * cpu_operator_cost)
			clause.level = clause.info->security_level;

		/* Insertion keeps the order of equals, and there are few. */
		for (;
			 i > 0 && (clauses[i - 1].level > clause.level ||
					   (clauses[i - 1].level == clause.level && clauses[i - 1].cost > clause.cost));
			 i--)
			clauses[i] = clauses[i - 1];
		clauses[i] = clause;
	}
	for (int i = 0; i < list_length(infos); i++)
		result = lappend(result, clauses[i].info);
	return result;
}

/*
 * Copy clauses, with the key on the left in key clauses, as EXPLAIN shows those of index
 * scans.
 */
static List *
keys_left(PlannerInfo *root, List *clauses, List *keys, Index inner)
{
	List *result = NIL;
	ListCell *cell;

	foreach (cell, clauses)
	{
		Node *clause = lfirst(cell);

		if (IsA(clause, OpExpr) && list_member(keys, clause) &&
			!bms_is_member((int) inner, pull_varnos(root, linitial(((OpExpr *) clause)->args))))
		{
			clause = copyObject(clause);
			CommuteOpExpr((OpExpr *) clause);
		}
		result = lappend(result, clause);
	}
	return result;
}

bool
hm_same_column(Node *a, Node *b)
{
	if (IsA(a, Var) && IsA(b, Var))
		return ((Var *) a)->varno == ((Var *) b)->varno &&
			   ((Var *) a)->varattno == ((Var *) b)->varattno &&
			   ((Var *) a)->varlevelsup == ((Var *) b)->varlevelsup;
	if (IsA(a, PlaceHolderVar) && IsA(b, PlaceHolderVar))
		return ((PlaceHolderVar *) a)->phid == ((PlaceHolderVar *) b)->phid &&
			   ((PlaceHolderVar *) a)->phlevelsup == ((PlaceHolderVar *) b)->phlevelsup;
	return false;
}

/* The entry of a target list that is the same column, or NULL. */
static TargetEntry *
find_column(List *tlist, Node *column)
{
	ListCell *cell;

	foreach (cell, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (hm_same_column((Node *) entry->expr, column))
			return entry;
	}
	return NULL;
}

JoinPlan
hm_join_plan(PlannerInfo *root, RelOptInfo *inner, List *outer_tlist)
{
	return (JoinPlan){.outer_tlist = outer_tlist,
					  .inner = inner->relid,
					  .inner_exprs = inner->reltarget->exprs,
					  .inner_table = planner_rt_fetch(inner->relid, root)->relid};
}

/*
 * Whether a Var is of the inner side.  ROWID_VARs are of the side whose tables are changed.
 */
static bool
is_inner_var(const JoinPlan *plan, Node *column)
{
	const Var *var = (Var *) column;

	return IsA(column, Var) &&
		   (var->varno == (int) plan->inner ||
			(var->varno == ROWID_VAR && find_column(plan->outer_tlist, column) == NULL));
}

/* Whether the inner side provides the result of an expression. */
static bool
is_provided(const JoinPlan *plan, Node *column)
{
	ListCell *cell;

	foreach (cell, plan->inner_exprs)
	{
		if (hm_same_column(lfirst(cell), column))
			return true;
	}
	return false;
}

/* A row of the inner side, made of its columns. */
static Node *
make_row(const JoinPlan *plan, const Var *whole)
{
	Relation table = table_open(plan->inner_table, NoLock);
	TupleDesc desc = RelationGetDescr(table);
	RowExpr *row = makeNode(RowExpr);

	row->row_typeid = whole->vartype;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->location = -1;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		row->args = lappend(row->args, column->attisdropped ?
										   (void *) makeNullConst(INT4OID, -1, InvalidOid) :
										   (void *) makeVar(whole->varno, (AttrNumber) (i + 1),
															column->atttypid, column->atttypmod,
															column->attcollation, 0));
	}
	table_close(table, NoLock);
	return (Node *) row;
}

/*
 * Replace expressions that the inner side's scan would evaluate, and whole rows of it, by what
 * they are of its columns.  Expressions of the outer side stay as they are.
 */
static Node *
define(Node *node, void *context)
{
	JoinPlan *plan = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == (int) plan->inner &&
		((Var *) node)->varattno == InvalidAttrNumber)
		return make_row(plan, (Var *) node);
	if (IsA(node, PlaceHolderVar))
	{
		if (find_column(plan->outer_tlist, node) != NULL)
			return copyObject(node);
		return define((Node *) ((PlaceHolderVar *) node)->phexpr, context);
	}
	return expression_tree_mutator(node, define, context);
}

List *
hm_join_define(JoinPlan *plan, List *exprs)
{
	return (List *) define((Node *) exprs, plan);
}

/* Add a column to the scan tuple. */
static void
add_column(JoinPlan *plan, Node *column, int source)
{
	plan->tlist = lappend(plan->tlist, makeTargetEntry((Expr *) copyObject(column),
													   (AttrNumber) (list_length(plan->tlist) + 1),
													   NULL, false));
	plan->sources = lappend_int(plan->sources, source);
}

void
hm_join_provide_columns(JoinPlan *plan, List *exprs)
{
	List *columns =
		pull_var_clause((Node *) exprs, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
											PVC_INCLUDE_PLACEHOLDERS);
	ListCell *cell;

	foreach (cell, columns)
	{
		Node *column = lfirst(cell);
		bool is_inner = is_inner_var(plan, column);
		TargetEntry *provider = is_inner ? NULL : find_column(plan->outer_tlist, column);
		int source = provider ? provider->resno : 0;

		if (find_column(plan->tlist, column) != NULL)
			continue;
		if (is_inner ? ((Var *) column)->varattno == InvalidAttrNumber :
					   source == 0 && is_provided(plan, column))
		{
			plan->computed = lappend(plan->computed, define(column, plan));
			add_column(plan, column, HM_COMPUTED);
			continue;
		}
		if (source == 0 && IsA(column, PlaceHolderVar))
		{
			/* It is evaluated on the join's rows. */
			hm_join_provide_columns(plan, list_make1(((PlaceHolderVar *) column)->phexpr));
			continue;
		}
		if (source == 0 && !is_inner)
			elog(ERROR, "column of a lookup join is in neither of its inputs");
		add_column(plan, column, source);
	}
}

Node *
hm_join_use_columns(Node *node, void *context)
{
	JoinPlan *plan = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		TargetEntry *entry = find_column(plan->tlist, node);

		if (entry != NULL)
			return copyObject((Node *) entry->expr);
	}
	return expression_tree_mutator(node, hm_join_use_columns, plan);
}

/* A target for the executor. */
static LookupTarget *
plan_target(PlannerInfo *root, RelOptInfo *inner, const JoinPlan *scan, const HmTarget *target)
{
	LookupTarget *result = palloc0(sizeof(LookupTarget));
	ListCell *cell;

	result->table = planner_rt_fetch(target->rel->relid, root)->relid;
	result->index = target->index->indexoid;
	result->share = target->share;
	foreach (cell, scan->tlist)
	{
		Node *expr = (Node *) lfirst_node(TargetEntry, cell)->expr;
		int column = 0;

		if (is_inner_var(scan, expr) && ((Var *) expr)->varattno != InvalidAttrNumber)
		{
			if (target->rel != inner)
				expr = hm_translate_for_child(root, expr, target->rel, inner);
			column = castNode(Var, expr)->varattno;
		}
		result->columns = lappend_int(result->columns, column);
	}
	return result;
}

void
hm_join_plan_targets(PlannerInfo *root, RelOptInfo *inner, const JoinPlan *scan, List *targets,
					 LookupPlan *plan)
{
	const HmTarget *first = linitial(targets);
	ListCell *cell;

	plan->first_rows = hm_wants_first_rows(root);
	plan->first_batch = plan->first_rows ? 1 : 0;
	plan->composite = hm_has_columns(first->index);
	plan->share_column = first->column;
	plan->key_type = hm_index_type_id(first->index, first->column);
	plan->sources = scan->sources;
	foreach (cell, targets)
		plan->targets = lappend(plan->targets, plan_target(root, inner, scan, lfirst(cell)));
	plan->pruning = hm_plan_pruning(root, inner, targets, &plan->prune_steps);
}

/*
 * Have a sequential scan return all columns of its table, as they are, if it has nothing to
 * compute.  Then it passes its slot on without a projection; the join takes only the columns
 * that it needs (use_physical_tlist() in createplan.c does the same for other nodes).
 */
static void
use_physical_tlist(PlannerInfo *root, Plan *outer)
{
	ListCell *cell;
	RelOptInfo *rel;
	List *tlist;

	if (!IsA(outer, SeqScan))
		return;
	rel = find_base_rel(root, ((Scan *) outer)->scanrelid);
	foreach (cell, outer->targetlist)
	{
		Var *var = (Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varno != rel->relid || var->varattno <= 0)
			return;
	}
	tlist = build_physical_tlist(root, rel);
	if (tlist != NIL)
		outer->targetlist = tlist;
}

/*
 * The columns of a scan of the inner side that fill the scan tuple where rows are joined again:
 * none of them is computed.  The scan evaluates the inner side's restrictions itself, so their
 * columns need not be there.
 */
static List *
plan_recheck(const JoinPlan *columns, const Plan *inner)
{
	List *result = NIL;
	ListCell *column, *source;

	forboth(column, columns->tlist, source, columns->sources)
	{
		TargetEntry *entry =
			lfirst_int(source) != 0 ?
				NULL :
				find_column(inner->targetlist, (Node *) lfirst_node(TargetEntry, column)->expr);

		if (entry == NULL && lfirst_int(source) <= 0)
			elog(ERROR, "column of a lookup join is not in the scan of its inner side");
		result = lappend_int(result, entry == NULL ? 0 : entry->resno);
	}
	return result;
}

static Plan *
plan_lookup_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *unused,
				 List *plans)
{
	const LookupJoinPath *join = linitial(path->custom_private);
	CustomScan *scan = makeNode(CustomScan);
	List *keys = get_actual_clauses(join->key_clauses);
	List *restrictions = hm_join_in_order(root, join->restrictions);
	RelOptInfo *inner = join->inner;
	List *other_quals = NIL;
	LookupPlan plan = {.type = join->type};
	JoinPlan columns;

	if (IS_OUTER_JOIN(join->type))
		extract_actual_join_clauses(restrictions, rel->relids, &plan.quals, &other_quals);
	else
		plan.quals = extract_actual_clauses(restrictions, false);
	use_physical_tlist(root, linitial(plans));
	columns = hm_join_plan(root, inner, ((Plan *) linitial(plans))->targetlist);
	plan.quals = hm_join_define(&columns, keys_left(root, plan.quals, keys, inner->relid));
	plan.key_clauses = hm_join_define(&columns, keys_left(root, keys, keys, inner->relid));
	plan.inner_quals = hm_join_define(
		&columns, extract_actual_clauses(hm_join_in_order(root, inner->baserestrictinfo), false));
	plan.one_time = extract_actual_clauses(hm_join_in_order(root, join->one_time), true);
	plan.inner_one_time =
		list_concat(extract_actual_clauses(hm_join_in_order(root, inner->baserestrictinfo), true),
					get_actual_clauses(join->inner_one_time));
	plan.arguments = join->arguments;
	plan.keys = join->keys;
	plan.index_only = join->index_only;
	plan.in_order = join->in_order;
	plan.distinct = join->distinct;
	plan.is_any = join->is_any;
	plan.shares_rows = path->path.parallel_aware && join->index_only &&
					   hm_join_shares_rows(root, join->targets, join->keys, join->is_any);

	/* Not tlist, which is NIL if a projection will replace it. */
	hm_join_provide_columns(&columns, path->path.pathtarget->exprs);
	hm_join_provide_columns(&columns, other_quals);
	hm_join_provide_columns(&columns, columns.computed);
	hm_join_provide_columns(&columns, plan.arguments);
	hm_join_provide_columns(&columns, plan.key_clauses);
	hm_join_provide_columns(&columns, plan.quals);
	if (list_length(plans) > 1)
		plan.recheck_columns = plan_recheck(&columns, lsecond(plans));
	hm_join_provide_columns(&columns, plan.inner_quals);
	hm_join_plan_targets(root, inner, &columns, join->targets, &plan);
	plan.first_batch = (int) Min(join->first_batch, PG_INT32_MAX);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = other_quals;
	scan->flags = path->flags;
	scan->methods = &hm_lookup_join_methods;
	scan->custom_plans = plans;
	hm_join_finish_plan(&columns, &plan, scan);
	return &scan->scan.plan;
}

void
hm_join_finish_plan(JoinPlan *columns, LookupPlan *plan, CustomScan *scan)
{
	plan->arguments = (List *) hm_join_use_columns((Node *) plan->arguments, columns);
	plan->key_clauses = (List *) hm_join_use_columns((Node *) plan->key_clauses, columns);
	plan->inner_quals = (List *) hm_join_use_columns((Node *) plan->inner_quals, columns);
	plan->quals = (List *) hm_join_use_columns((Node *) plan->quals, columns);
	plan->computed = (List *) hm_join_use_columns((Node *) columns->computed, columns);
	scan->custom_scan_tlist = columns->tlist;
	hm_lookup_plan_write(plan, scan);
}

const CustomPathMethods hm_lookup_join_path_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.PlanCustomPath = plan_lookup_join,
};
