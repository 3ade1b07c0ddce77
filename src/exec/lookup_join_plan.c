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

#include "compat.h"
#include "exec/lookup_join_plan.h"

/* A clause, and what decides the order of evaluation. */
typedef struct OrderedClause
{
	RestrictInfo *info;
	Index		level;
	Cost		cost;
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
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, infos)
	{
		OrderedClause clause = {lfirst_node(RestrictInfo, cell)};
		int			i = foreach_current_index(cell);
		QualCost	cost;

		cost_qual_eval_node(&cost, (Node *) clause.info, root);
		clause.cost = cost.per_tuple;
		if (!clause.info->leakproof || clause.cost >= 10 * cpu_operator_cost)
			clause.level = clause.info->security_level;

		/* Insertion keeps the order of equals, and there are few. */
		for (; i > 0 && (clauses[i - 1].level > clause.level ||
						 (clauses[i - 1].level == clause.level &&
						  clauses[i - 1].cost > clause.cost)); i--)
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
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		Node	   *clause = lfirst(cell);

		if (list_member(keys, clause) &&
			!bms_is_member((int) inner,
						   pull_varnos(root, linitial(((OpExpr *) clause)->args))))
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
	ListCell   *cell;

	foreach(cell, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (hm_same_column((Node *) entry->expr, column))
			return entry;
	}
	return NULL;
}

void
hm_join_provide_columns(JoinPlan *plan, List *exprs)
{
	List	   *columns = pull_var_clause((Node *) exprs,
										  PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
										  PVC_INCLUDE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, columns)
	{
		Node	   *column = lfirst(cell);
		bool		is_inner = IsA(column, Var) && ((Var *) column)->varno == plan->inner;
		TargetEntry *provider = is_inner ? NULL : find_column(plan->outer_tlist, column);
		int			source = provider ? provider->resno : 0;

		if (find_column(plan->tlist, column) != NULL)
			continue;
		if (source == 0 && IsA(column, PlaceHolderVar))
		{
			/*
			 * Only this join's own clauses refer to it, and they evaluate its expression.
			 */
			hm_join_provide_columns(plan, list_make1(((PlaceHolderVar *) column)->phexpr));
			continue;
		}
		if (source == 0 && !is_inner)
			elog(ERROR, "column of a lookup join is in neither of its inputs");

		plan->tlist = lappend(plan->tlist,
							  makeTargetEntry((Expr *) copyObject(column),
											  (AttrNumber) (list_length(plan->tlist) + 1),
											  NULL, false));
		plan->sources = lappend_int(plan->sources, source);
	}
}

Node *
hm_join_use_columns(Node *node, void *context)
{
	JoinPlan   *plan = context;

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

/* Append a key to a plan's list, as four integers. */
static List *
append_quarters(List *list, HmKey key)
{
	for (int shift = 96; shift >= 0; shift -= 32)
		list = lappend_int(list, (int) (uint32) (key >> shift));
	return list;
}

/* A target for the executor: the lists of HmTargetPrivate. */
static List *
plan_target(PlannerInfo *root, RelOptInfo *inner, List *scan_tlist, HmTarget *target)
{
	const HmShare *share = &target->share;
	List	   *oids = list_make4_oid(planner_rt_fetch(target->rel->relid, root)->relid,
									  target->index->indexoid, share->hash, share->collation);
	List	   *numbers = append_quarters(append_quarters(NIL, share->low), share->high);
	List	   *columns = NIL;
	ListCell   *cell;

	numbers = lappend_int(numbers, (int) share->modulus);
	numbers = lappend_int(numbers, (int) share->remainder);
	foreach(cell, scan_tlist)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, cell)->expr;
		int			column = 0;

		if (IsA(expr, Var) && ((Var *) expr)->varno == inner->relid)
		{
			if (target->rel != inner)
				expr = hm_translate_for_child(root, expr, target->rel, inner);
			column = castNode(Var, expr)->varattno;
		}
		columns = lappend_int(columns, column);
	}
	return list_make3(oids, numbers, columns);
}

List *
hm_join_plan_targets(PlannerInfo *root, RelOptInfo *inner, List *scan_tlist, List *targets)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, targets)
		result = lappend(result, plan_target(root, inner, scan_tlist, lfirst(cell)));
	return result;
}

/*
 * Have a sequential scan return all columns of its table, as they are, if it has nothing to
 * compute.  Then it passes its slot on without a projection; the join takes only the columns
 * that it needs (use_physical_tlist() in createplan.c does the same for other nodes).
 */
static void
use_physical_tlist(PlannerInfo *root, Plan *outer)
{
	ListCell   *cell;
	RelOptInfo *rel;
	List	   *tlist;

	if (!IsA(outer, SeqScan))
		return;
	rel = find_base_rel(root, ((Scan *) outer)->scanrelid);
	foreach(cell, outer->targetlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varno != rel->relid || var->varattno <= 0)
			return;
	}
	tlist = build_physical_tlist(root, rel);
	if (tlist != NIL)
		outer->targetlist = tlist;
}

static Plan *
plan_lookup_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
				 List *unused, List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	RelOptInfo *inner = list_nth(path->custom_private, PATH_INNER);
	List	   *join_targets = list_nth(path->custom_private, PATH_TARGETS);
	HmTarget   *first = linitial(join_targets);
	List	   *flags = list_nth(path->custom_private, PATH_FLAGS);
	List	   *keys = get_actual_clauses(list_nth(path->custom_private, PATH_KEYS));
	List	   *arguments = list_nth(path->custom_private, PATH_ARGUMENTS);
	List	   *restrictions = list_nth(path->custom_private, PATH_RESTRICTIONS);
	List	   *inner_quals,
			   *quals,
			   *other_quals = NIL;
	List	   *targets,
			   *pruning,
			   *prune_steps;
	JoinPlan	plan = {0};

	restrictions = hm_join_in_order(root, restrictions);
	if (IS_OUTER_JOIN(linitial_int(flags)))
		extract_actual_join_clauses(restrictions, rel->relids, &quals, &other_quals);
	else
		quals = extract_actual_clauses(restrictions, false);
	quals = keys_left(root, quals, keys, inner->relid);
	keys = keys_left(root, keys, keys, inner->relid);
	inner_quals = extract_actual_clauses(hm_join_in_order(root, inner->baserestrictinfo), false);

	use_physical_tlist(root, linitial(plans));
	plan.outer_tlist = ((Plan *) linitial(plans))->targetlist;
	plan.inner = inner->relid;

	/* Not tlist, which is NIL if a projection will replace it. */
	hm_join_provide_columns(&plan, path->path.pathtarget->exprs);
	hm_join_provide_columns(&plan, other_quals);
	hm_join_provide_columns(&plan, arguments);
	hm_join_provide_columns(&plan, keys);
	hm_join_provide_columns(&plan, inner_quals);
	hm_join_provide_columns(&plan, quals);

	targets = hm_join_plan_targets(root, inner, plan.tlist, join_targets);
	pruning = hm_plan_pruning(root, inner, join_targets, &prune_steps);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = other_quals;
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->methods = &hm_lookup_join_methods;
	scan->custom_plans = plans;
	scan->custom_scan_tlist = plan.tlist;
	flags = list_make5_int(linitial_int(flags), lsecond_int(flags), (int) hm_index_type_id(first->index, first->column),
						   hm_wants_first_rows(root), lthird_int(flags));
	flags = lappend_int(flags, hm_has_columns(first->index));
	flags = lappend_int(flags, first->column);
	scan->custom_private = list_make5(flags,
									  list_nth(path->custom_private, PATH_DESCRIPTION),
									  plan.sources, targets, pruning);
	scan->custom_private = lappend(scan->custom_private, NIL);
	scan->custom_exprs = (List *)
		hm_join_use_columns((Node *) list_make4(arguments, keys, inner_quals, quals), &plan);
	scan->custom_exprs = lappend(scan->custom_exprs, prune_steps);
	scan->custom_exprs = lappend(scan->custom_exprs, NIL);
	return &scan->scan.plan;
}

const CustomPathMethods hm_lookup_join_path_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.PlanCustomPath = plan_lookup_join,
};
