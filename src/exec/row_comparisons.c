/*
 * row_comparisons.c
 *		Index scans for comparisons of rows: WHERE (a, b) > (x, y).
 *
 * PostgreSQL makes index conditions of these for btree alone.  Without one, a page of results that
 * begins behind the last row of the page before would be found by reading all rows before it.  So
 * the planner is asked once more for paths, with a condition that follows from the comparison: a >=
 * x.  The comparison itself stays a filter, which drops the rows with a = x that come before.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/paths.h"
#include "utils/lsyscache.h"

#include "exec/planner.h"

/* What a comparison of rows says of their first columns, as a condition of its own; or NULL. */
static RestrictInfo *
first_column_condition(PlannerInfo *root, const RestrictInfo *info)
{
	RowCompareExpr *rows = (RowCompareExpr *) info->clause;
	Oid operator, family, left, right;
	int strategy;
	Expr *clause;

	if (info->pseudoconstant || !IsA(rows, RowCompareExpr))
		return NULL;

	/* Of rows that are less or greater, the first columns may also be equal. */
	operator= linitial_oid(rows->opnos);
	family = linitial_oid(rows->opfamilies);
	get_op_opfamily_properties(operator, family, false, &strategy, &left, &right);
	if (strategy == BTLessStrategyNumber)
		strategy = BTLessEqualStrategyNumber;
	else if (strategy == BTGreaterStrategyNumber)
		strategy = BTGreaterEqualStrategyNumber;
	operator= get_opfamily_member(family, left, right, (int16) strategy);
	if (!OidIsValid(operator))
		return NULL;

	clause = make_opclause(operator, BOOLOID, false, (Expr *) copyObject(linitial(rows->largs)),
						   (Expr *) copyObject(linitial(rows->rargs)), InvalidOid,
						   linitial_oid(rows->inputcollids));
	set_opfuncid((OpExpr *) clause);
	return hm_make_condition(root, clause, info->security_level);
}

/* Whether a condition on rows' first columns restricts an index. */
static bool
restricts(const RestrictInfo *condition, IndexOptInfo *index)
{
	OpExpr *clause = (OpExpr *) condition->clause;

	return match_index_to_operand(linitial(clause->args), 0, index) ||
		   match_index_to_operand(lsecond(clause->args), 0, index);
}

/*
 * Leave out the index scans that do without the conditions: where these exclude few rows they look
 * cheaper, as fewer conditions are evaluated.  But all rows that are excluded may come before the
 * first one of the result.
 */
static List *
without_scans_of(List *paths, List *indexes)
{
	List *result = NIL;
	ListCell *cell;

	foreach (cell, paths)
	{
		Path *path = lfirst(cell);

		if (!IsA(path, IndexPath) || !list_member_ptr(indexes, ((IndexPath *) path)->indexinfo))
			result = lappend(result, path);
	}
	return result;
}

void
hm_row_comparison_paths(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	List *all_indexes = rel->indexlist;
	List *all_restrictions = NIL;
	List *indexes = NIL;
	List *conditions = NIL;
	ListCell *cell, *other;

	/* An index scan does not sample. */
	if (IS_DUMMY_REL(rel) || rte->tablesample != NULL || !hm_has_own_index(rel))
		return;
	foreach (cell, rel->baserestrictinfo)
	{
		RestrictInfo *condition = first_column_condition(root, lfirst_node(RestrictInfo, cell));

		if (condition != NULL)
			conditions = lappend(conditions, condition);
	}
	if (conditions == NIL)
		return;

	/* The conditions are for the paths that are made now, and no other ones. */
	foreach (cell, all_indexes)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		bool restricted = false;

		foreach (other, conditions)
			restricted |= restricts(lfirst_node(RestrictInfo, other), index);
		if (!restricted || !hm_can_use_index(index))
			continue;
		indexes = lappend(indexes, index);
		all_restrictions = lappend(all_restrictions, index->indrestrictinfo);
		index->indrestrictinfo = list_concat_copy(index->indrestrictinfo, conditions);
	}
	rel->indexlist = indexes;
	rel->pathlist = without_scans_of(rel->pathlist, indexes);
	rel->partial_pathlist = without_scans_of(rel->partial_pathlist, indexes);
	create_index_paths(root, rel);
	rel->indexlist = all_indexes;
	forboth(cell, indexes, other, all_restrictions) lfirst_node(IndexOptInfo, cell)
		->indrestrictinfo = (List *) lfirst(other);
}
