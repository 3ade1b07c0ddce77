/*
 * distinct_plan.c
 *		Planning: the rows of a SELECT DISTINCT before they are made distinct.
 *
 * A lookup join that needs nothing but the key of its outer rows can drop duplicates
 * itself.  So where it joins `(SELECT DISTINCT k FROM ...)`, or the same with GROUP BY, it
 * may read the rows that PostgreSQL would sort or hash.
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"

#include "compat.h"
#include "exec/planner.h"

/* Whether a query returns the distinct values of one expression, and does nothing else. */
static bool
is_distinct(const Query *query)
{
	TargetEntry *column = linitial_node(TargetEntry, query->targetList);
	List *clause = query->distinctClause != NIL ? query->distinctClause : query->groupClause;

	return list_length(query->targetList) == 1 && list_length(clause) == 1 &&
		   linitial_node(SortGroupClause, clause)->tleSortGroupRef == column->ressortgroupref &&
		   (query->distinctClause == NIL || query->groupClause == NIL) &&
		   query->groupingSets == NIL && query->havingQual == NULL && !query->hasAggs &&
		   !query->hasWindowFuncs && !query->hasTargetSRFs && query->setOperations == NULL &&
		   query->limitCount == NULL && query->limitOffset == NULL && query->rowMarks == NIL &&
		   !contain_volatile_functions((Node *) column->expr);
}

/* The input of a path that makes rows distinct, without the sort that it needs; or NULL. */
static Path *
input_of(Path *path)
{
	Path *input = NULL;

	if (IsA(path, AggPath) && ((AggPath *) path)->aggsplit == AGGSPLIT_SIMPLE)
		input = ((AggPath *) path)->subpath;
	else if (IsA(path, GroupPath))
		input = ((GroupPath *) path)->subpath;
	else if (hm_is_unique_path(path))
		input = ((HmUniquePath *) path)->subpath;
	if (input != NULL && IsA(input, SortPath))
		input = ((SortPath *) input)->subpath;
	return input;
}

Path *
hm_path_before_distinct(RelOptInfo *rel, Node *column)
{
	SubqueryScanPath *scan = (SubqueryScanPath *) rel->cheapest_total_path;
	SubqueryScanPath *result;
	Path *input;

	if (!IsA(scan, SubqueryScanPath) || rel->baserestrictinfo != NIL || !IsA(column, Var) ||
		((Var *) column)->varno != (int) rel->relid || ((Var *) column)->varattno != 1 ||
		!is_distinct(rel->subroot->parse))
		return NULL;
	input = input_of(scan->subpath);
	if (input == NULL || !equal(input->pathtarget->exprs, scan->subpath->pathtarget->exprs))
		return NULL;

	result = makeNode(SubqueryScanPath);
	*result = *scan;
	result->subpath = input;
	result->path.rows = input->rows;
	result->path.pathkeys = NIL;
	result->path.startup_cost += input->startup_cost - scan->subpath->startup_cost;
	result->path.total_cost += input->total_cost - scan->subpath->total_cost;
	return &result->path;
}
