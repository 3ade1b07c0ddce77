/*
 * cost.c
 *		What a plain scan costs.
 *
 * The work is that of btree: find the first entry, read leaves in key order, visit the
 * heap in an order that the column's correlation describes.  So the estimate is btree's
 * too: the correlation is taken from the column's statistics, the number of pages from
 * the index itself.  Only the descent differs: the levels above the leaves are on the
 * pages of the directory and of one header, whatever the size of the index.
 *
 * Of an index with several columns, a scan reads what the conditions on its first columns leave,
 * as long as they are equalities.  Other conditions restrict the heap rows that are fetched,
 * if the fields of their columns can tell (ranges.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/optimizer.h"
#include "utils/index_selfuncs.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "am/scan/scan.h"
#include "am/width.h"

HM_BOTH_WIDTHS(hm_sample_first_keys);

/*
 * The estimate charges CPU time for each page above the leaves that a descent reads; it
 * charges none for an index that is as small as a btree of a single page.
 */
#define HM_SMALL_INDEX_PAGES 8

/* What a condition on a column of an index says of the column's field. */
typedef enum FieldUse
{
	FIELD_UNKNOWN, /* nothing, or not much */
	FIELD_RANGE,
	FIELD_VALUES /* it has one of some values */
} FieldUse;

static FieldUse
field_use(const IndexOptInfo *index, const HmFields *fields, const IndexClause *clause)
{
	Oid operator= InvalidOid;
	Expr *expr = clause->rinfo->clause;

	if (list_length(clause->indexquals) == 1)
		expr = linitial_node(RestrictInfo, clause->indexquals)->clause;
	if (IsA(expr, NullTest) && ((NullTest *) expr)->nulltesttype == IS_NULL)
		return FIELD_VALUES;
	if (IsA(expr, OpExpr))
		operator=((OpExpr *) expr)->opno;
	else if (IsA(expr, ScalarArrayOpExpr))
		operator=((ScalarArrayOpExpr *) expr)->opno;
	if (OidIsValid(operator) &&
		get_op_opfamily_strategy(operator, index->opfamily[clause->indexcol]) ==
			BTEqualStrategyNumber)
		return FIELD_VALUES;
	return hm_field_is_ordered(&fields->fields[clause->indexcol]) ? FIELD_RANGE : FIELD_UNKNOWN;
}

/*
 * Sort out the conditions of a path: those that the index can tell anything about, and of them
 * those that decide which part of it is read.
 */
static void
sort_out_clauses(IndexPath *path, List **known, List **boundary)
{
	IndexOptInfo *index = path->indexinfo;
	Relation relation = index_open(index->indexoid, NoLock);
	HmFields fields;
	int column = 0; /* the first one that is not restricted to values */
	ListCell *cell;

	hm_fields_read(relation, &fields);
	index_close(relation, NoLock);

	*known = *boundary = NIL;
	foreach (cell, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);

		if (field_use(index, &fields, clause) != FIELD_UNKNOWN)
			*known = lappend(*known, clause);
	}

	/* Clauses are in the order of columns. */
	foreach (cell, *known)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);

		if (clause->indexcol == column && field_use(index, &fields, clause) == FIELD_VALUES)
			column++;
	}
	foreach (cell, *known)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);

		if (clause->indexcol <= column)
			*boundary = lappend(*boundary, clause);
	}
}

/* btree's estimate for a path on an index with several columns. */
static void
cost_composite(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
			   Cost *total_cost, Selectivity *selectivity, double *correlation, double *pages)
{
	IndexPath part = *path;
	List *known;

	sort_out_clauses(path, &known, &part.indexclauses);
	btcostestimate(root, &part, loop_count, startup_cost, total_cost, selectivity, correlation,
				   pages);
	if (list_length(known) > list_length(part.indexclauses))
	{
		List *quals =
			add_predicate_to_index_quals(path->indexinfo, get_quals_from_indexclauses(known));

		*selectivity = clauselist_selectivity(root, quals, (int) path->indexinfo->rel->relid,
											  JOIN_INNER, NULL);
	}
}

void
hm_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
				 Cost *total_cost, Selectivity *selectivity, double *correlation, double *pages)
{
	path->indexinfo->tree_height = path->indexinfo->pages <= HM_SMALL_INDEX_PAGES ? 0 : 1;
	if (path->indexinfo->ncolumns > 1 && !path->indexinfo->hypothetical)
		cost_composite(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
					   pages);
	else
		btcostestimate(root, path, loop_count, startup_cost, total_cost, selectivity, correlation,
					   pages);
}

double
hm_first_keys_share(Relation index)
{
	return HM_FOR_INDEX(index, hm_sample_first_keys)(index);
}
