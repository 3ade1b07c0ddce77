/*
 * lookup_count_plan.c
 *		Planning a lookup count: how many rows a lookup scan finds.
 *
 * For `SELECT count(*) FROM t WHERE k = ANY (array)`, passing each row on to an aggregate
 * takes longer than the search.  So if a lookup scan's keys stand for all conditions, and
 * the query wants nothing but the number of rows, the count is offered as one node.  In a
 * parallel plan, each process has such a node.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/fmgroids.h"

#include "exec/planner.h"

/*
 * Whether an expression is count(*), or count() of the index's column.  That column is
 * not NULL in any row that the scan finds, because the scan's operators are strict.
 */
static bool
is_count(Node *node, AggSplit split, const RelOptInfo *rel, const IndexOptInfo *index)
{
	Aggref	   *aggref = (Aggref *) node;
	Var		   *var;

	if (!IsA(node, Aggref) || aggref->agglevelsup != 0 || aggref->aggfilter != NULL ||
		aggref->aggdistinct != NIL || aggref->aggorder != NIL ||
		aggref->aggsplit != split)
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
 * The counts that a query wants, whole ones or partial ones, without duplicates; NIL if it
 * wants anything else, or none.
 */
static List *
find_counts(PathTarget *target, AggSplit split, const RelOptInfo *rel, const IndexOptInfo *index)
{
	List	   *found = pull_var_clause((Node *) target->exprs,
										PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
										PVC_INCLUDE_PLACEHOLDERS);
	List	   *counts = NIL;
	ListCell   *cell;

	foreach(cell, found)
	{
		if (!is_count(lfirst(cell), split, rel, index))
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

/* A path that counts what a scan finds, in all processes together or in each of them. */
static Path *
make_path(RelOptInfo *rel, Path *scan, List *counts)
{
	CustomPath *path = makeNode(CustomPath);

	/*
	 * Nothing is charged for each row, so an aggregate on top of the scan always costs
	 * more.
	 */
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = rel->consider_parallel && scan->parallel_safe;
	path->path.parallel_workers = scan->parallel_workers;
	path->path.rows = 1;
	path->path.startup_cost = scan->total_cost + rel->reltarget->cost.startup;
	path->path.total_cost = path->path.startup_cost + rel->reltarget->cost.per_tuple;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_paths = list_make1(scan);
	path->custom_private = counts;
	return &path->path;
}

/*
 * Offer a parallel count: each process counts what it finds of a partial scan, and
 * PostgreSQL adds these numbers up.  The hook is not called for partial aggregation.  But
 * when it is called for the result, PostgreSQL has a relation for what partial aggregates
 * return, if it considers them at all.
 */
static void
add_parallel_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
				  const GroupPathExtraData *extra)
{
	IndexOptInfo *index = NULL;	/* keep the compiler quiet */
	Path	   *scan = hm_lookup_scan_exact_path(input, true, &index);
	RelOptInfo *partial;
	List	   *counts;
	Path	   *path;
	double		rows;

	if (scan == NULL || !grouped->consider_parallel || !extra->partial_costs_set)
		return;
	partial = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, grouped->relids);
	counts = find_counts(partial->reltarget, AGGSPLIT_INITIAL_SERIAL, input, index);
	if (counts == NIL)
		return;
	path = make_path(partial, scan, counts);
	rows = path->parallel_workers;
	path = (Path *) create_gather_path(root, partial, path, partial->reltarget, NULL, &rows);
	add_path(grouped, (Path *) create_agg_path(root, grouped, path, grouped->reltarget, AGG_PLAIN,
											   AGGSPLIT_FINAL_DESERIAL, NIL, NIL,
											   &extra->agg_final_costs, 1));
}

void
hm_lookup_count_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
					  const GroupPathExtraData *extra)
{
	Query	   *parse = root->parse;
	IndexOptInfo *index = NULL;	/* keep the compiler quiet */
	Path	   *scan;
	List	   *counts;

	if (input->reloptkind != RELOPT_BASEREL || !parse->hasAggs || parse->groupClause != NIL ||
		parse->groupingSets != NIL || parse->havingQual != NULL || parse->hasTargetSRFs)
		return;
	scan = hm_lookup_scan_exact_path(input, false, &index);
	if (scan != NULL &&
		(counts = find_counts(grouped->reltarget, AGGSPLIT_SIMPLE, input, index)) != NIL)
		add_path(grouped, make_path(grouped, scan, counts));
	add_parallel_path(root, input, grouped, extra);
}
