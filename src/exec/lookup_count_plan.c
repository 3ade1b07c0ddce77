/*
 * lookup_count_plan.c
 *		Planning a lookup count: how many rows a lookup scan finds.
 *
 * For `SELECT count(*) FROM t WHERE k = ANY (array)`, passing each row on to an aggregate
 * takes longer than the search.  So if a lookup scan's keys stand for all conditions, and
 * the query wants nothing but the number of rows, the count is offered as one node.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/fmgroids.h"

#include "exec/nodes.h"

/*
 * Whether an expression is count(*), or count() of the index's column.  That column is
 * not NULL in any row that the scan finds, because the scan's operators are strict.
 */
static bool
is_count(Node *node, const RelOptInfo *rel, const IndexOptInfo *index)
{
	Aggref	   *aggref = (Aggref *) node;
	Var		   *var;

	if (!IsA(node, Aggref) || aggref->agglevelsup != 0 || aggref->aggfilter != NULL ||
		aggref->aggdistinct != NIL || aggref->aggorder != NIL ||
		aggref->aggsplit != AGGSPLIT_SIMPLE)
		return false;
	if (aggref->aggfnoid == F_COUNT_)
		return true;
	if (aggref->aggfnoid != F_COUNT_ANY)
		return false;
	var = (Var *) linitial_node(TargetEntry, aggref->args)->expr;
	return IsA(var, Var) && var->varno == (int) rel->relid && var->varlevelsup == 0 &&
		index->indexkeys[0] != 0 && var->varattno == index->indexkeys[0];
}

/*
 * The counts that a query wants, without duplicates; NIL if it wants anything else, or
 * none.
 */
static List *
find_counts(PathTarget *target, const RelOptInfo *rel, const IndexOptInfo *index)
{
	List	   *found = pull_var_clause((Node *) target->exprs,
										PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
										PVC_INCLUDE_PLACEHOLDERS);
	List	   *counts = NIL;
	ListCell   *cell;

	foreach(cell, found)
	{
		if (!is_count(lfirst(cell), rel, index))
			return NIL;
		counts = list_append_unique(counts, lfirst(cell));
	}
	return counts;
}

static Plan *
plan_lookup_count(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
				  List *clauses, List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	ListCell   *cell;

	/*
	 * In the target list, setrefs.c replaces the aggregates by references to these
	 * columns.
	 */
	foreach(cell, path->custom_private)
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  makeTargetEntry(copyObject(lfirst(cell)),
														  (AttrNumber) (foreach_current_index(cell) + 1),
														  NULL, false));
	scan->scan.plan.targetlist = tlist;
	scan->custom_plans = plans;
	scan->flags = path->flags;
	scan->methods = &hm_lookup_count_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods path_methods = {
	.CustomName = "HarmoniaLookupCount",
	.PlanCustomPath = plan_lookup_count,
};

void
hm_lookup_count_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped)
{
	Query	   *parse = root->parse;
	CustomPath *path;
	IndexOptInfo *index = NULL;	/* keep the compiler quiet */
	Path	   *scan;
	List	   *counts;

	if (input->reloptkind != RELOPT_BASEREL || !parse->hasAggs || parse->groupClause != NIL ||
		parse->groupingSets != NIL || parse->havingQual != NULL || parse->hasTargetSRFs)
		return;
	scan = hm_lookup_scan_exact_path(input, &index);
	if (scan == NULL)
		return;
	counts = find_counts(grouped->reltarget, input, index);
	if (counts == NIL)
		return;

	/*
	 * Nothing is charged for each row, so an aggregate on top of the scan always costs
	 * more.
	 */
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = grouped;
	path->path.pathtarget = grouped->reltarget;
	path->path.parallel_safe = grouped->consider_parallel && scan->parallel_safe;
	path->path.rows = 1;
	path->path.startup_cost = scan->total_cost + grouped->reltarget->cost.startup;
	path->path.total_cost = path->path.startup_cost + grouped->reltarget->cost.per_tuple;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_paths = list_make1(scan);
	path->custom_private = counts;
	add_path(grouped, &path->path);
}
