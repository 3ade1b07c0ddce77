/*
 * latest_subselect.c
 *		Scalar sub-selects of the latest row of a key to left joins.
 *
 * PostgreSQL runs such a sub-select again for each row:
 *
 *		SELECT o.x, (SELECT t.v FROM t WHERE t.k = o.k ORDER BY t.at DESC LIMIT 1) FROM o
 *		SELECT o.x, (SELECT max(t.at) FROM t WHERE t.k = o.k) FROM o
 *
 * It returns at most one row, so it is the same as a left join with LATERAL, which may become a
 * latest join (latest_plan.c):
 *
 *		SELECT o.x, s.v FROM o LEFT JOIN LATERAL (SELECT ... ORDER BY t.at DESC LIMIT 1) s ON true
 *
 * PostgreSQL plans max(at) as (SELECT at ... WHERE at IS NOT NULL ORDER BY at DESC LIMIT 1), and so
 * does this.  Sub-selects are left alone if no btree has their order for a key, or if what they
 * evaluate can fail, because a join may evaluate it for other rows.  scalar_subselect.c says where
 * sub-selects are rewritten.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "exec/planner.h"

/* With more sub-selects in its FROM list a query takes longer to plan than they may save. */
#define MOST_LATERAL 6

/* An order by a column of the only table of a sub-select. */
typedef struct LatestOrder
{
	AttrNumber column;
	Oid operator;
	bool nulls_first;
	bool any_nulls; /* NULLs may be where they are in the index: this is a minimum or a maximum */
} LatestOrder;

/* Whether a sub-select reads rows of a table, and does nothing with them but sort and limit. */
static bool
is_plain(const Query *select)
{
	return select->commandType == CMD_SELECT && select->setOperations == NULL &&
		   !select->hasWindowFuncs && !select->hasTargetSRFs && !select->hasSubLinks &&
		   select->cteList == NIL && select->groupClause == NIL && select->groupingSets == NIL &&
		   select->havingQual == NULL && select->distinctClause == NIL && select->rowMarks == NIL &&
		   select->limitOffset == NULL && list_length(select->rtable) == 1 &&
		   linitial_node(RangeTblEntry, select->rtable)->securityQuals == NIL &&
		   select->jointree->quals != NULL && contain_vars_of_level(select->jointree->quals, 1) &&
		   !hm_may_fail(eval_const_expressions(NULL, select->jointree->quals), false) &&
		   !contain_volatile_functions((Node *) select);
}

/* Whether a limit is that of one row. */
static bool
is_one_row(const Query *select)
{
	const Const *limit = (const Const *) eval_const_expressions(NULL, select->limitCount);

	return limit != NULL && IsA(limit, Const) && !limit->constisnull &&
		   DatumGetInt64(limit->constvalue) == 1 && select->limitOption == LIMIT_OPTION_COUNT;
}

/* The order of ORDER BY with a limit of one row. */
static bool
sorted_order(const Query *select, LatestOrder *order)
{
	SortGroupClause *clause;
	Var *column;
	ListCell *cell;

	if (select->hasAggs || list_length(select->sortClause) != 1 || !is_one_row(select))
		return false;
	foreach (cell, select->targetList)
	{
		if (hm_may_fail((Node *) lfirst_node(TargetEntry, cell)->expr, false))
			return false;
	}
	clause = linitial_node(SortGroupClause, select->sortClause);
	column = (Var *) get_sortgroupclause_expr(clause, select->targetList);
	if (!IsA(column, Var) || column->varlevelsup > 0)
		return false;
	*order = (LatestOrder){column->varattno, clause->sortop, clause->nulls_first, false};
	return true;
}

/* The sort operator of min() and max(), as PostgreSQL's planner finds it; or InvalidOid. */
static Oid
sort_operator(Oid aggregate)
{
	HeapTuple tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Oid result;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	result = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggsortop;
	ReleaseSysCache(tuple);
	return result;
}

/* The order whose first row is that of a minimum or a maximum. */
static bool
extreme_order(const Query *select, LatestOrder *order)
{
	const Aggref *aggregate = (const Aggref *) linitial_node(TargetEntry, select->targetList)->expr;
	const Var *column;

	if (!IsA(aggregate, Aggref) || list_length(select->targetList) != 1 ||
		select->limitCount != NULL || select->sortClause != NIL || aggregate->agglevelsup > 0 ||
		list_length(aggregate->args) != 1 || aggregate->aggfilter != NULL ||
		aggregate->aggorder != NIL || aggregate->aggdistinct != NIL)
		return false;
	column = (const Var *) linitial_node(TargetEntry, aggregate->args)->expr;
	if (!IsA(column, Var) || column->varlevelsup > 0 || column->vartype != aggregate->aggtype)
		return false;
	*order = (LatestOrder){column->varattno, sort_operator(aggregate->aggfnoid), false, true};
	return OidIsValid(order->operator);
}

/* Whether a btree has an order for each key that conditions fix. */
static bool
has_order(Relation index, List *conditions, LatestOrder *order)
{
	int columns = IndexRelationGetNumberOfKeyAttributes(index);
	int column = 0;
	bool reverse, nulls_first;
	int strategy;

	if (index->rd_rel->relam != BTREE_AM_OID || !index->rd_index->indisvalid ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
		return false;
	for (bool fixed = true; fixed && column < columns; column += fixed)
	{
		ListCell *cell;

		fixed = false;
		foreach (cell, conditions)
			fixed |= hm_fixes_column(lfirst(cell), index, column);
	}
	if (column == 0 || column == columns || index->rd_index->indkey.values[column] != order->column)
		return false;
	strategy = get_op_opfamily_strategy(order->operator, index->rd_opfamily[column]);
	if (strategy != BTLessStrategyNumber && strategy != BTGreaterStrategyNumber)
		return false;
	reverse = (strategy == BTGreaterStrategyNumber) !=
			  ((index->rd_indoption[column] & INDOPTION_DESC) != 0);
	nulls_first = reverse != ((index->rd_indoption[column] & INDOPTION_NULLS_FIRST) != 0);
	if (order->any_nulls)
		order->nulls_first = nulls_first;
	return order->nulls_first == nulls_first;
}

/* Whether some btree of a sub-select's table has its order; and whether the column may be NULL. */
static bool
find_order(const Query *select, LatestOrder *order, bool *not_null)
{
	RangeTblEntry *rte = hm_only_table(select);
	List *conditions = make_ands_implicit((Expr *) select->jointree->quals);
	bool found = false;
	Relation table;
	ListCell *cell;

	if (rte == NULL || order->column <= 0 || rte->relkind != RELKIND_RELATION)
		return false;

	/* The parser or the plan cache has locked it. */
	table = table_open(rte->relid, NoLock);
	*not_null = TupleDescAttr(RelationGetDescr(table), order->column - 1)->attnotnull;
	foreach (cell, hm_has_virtual_columns(table) ? NIL : RelationGetIndexList(table))
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		found = found || has_order(index, conditions, order);
		index_close(index, NoLock);
	}
	table_close(table, NoLock);
	return found;
}

/* Make the first row in an order of a sub-select that computes an extreme. */
static void
make_first_row(Query *select, const LatestOrder *order, bool not_null)
{
	TargetEntry *entry = linitial_node(TargetEntry, select->targetList);
	Aggref *aggregate = castNode(Aggref, entry->expr);
	SortGroupClause *sort = makeNode(SortGroupClause);
	bool reverse;

	entry->expr = linitial_node(TargetEntry, aggregate->args)->expr;
	entry->ressortgroupref = 1;
	sort->tleSortGroupRef = 1;
	sort->eqop = get_equality_op_for_ordering_op(order->operator, & reverse);
	hm_set_reverse_sort(sort, reverse);
	sort->sortop = order->operator;
	sort->nulls_first = order->nulls_first;
	select->sortClause = list_make1(sort);
	select->hasAggs = false;
	select->limitOption = LIMIT_OPTION_COUNT;
	select->limitCount = (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
											Int64GetDatum(1), false, FLOAT8PASSBYVAL);
	if (!not_null)
	{
		NullTest *test = makeNode(NullTest);

		test->arg = copyObject(entry->expr);
		test->nulltesttype = IS_NOT_NULL;
		test->location = -1;
		select->jointree->quals = make_and_qual(select->jointree->quals, (Node *) test);
	}
}

/* Put a left join with a sub-select on top of a query's FROM list.  Returns its first column. */
static Node *
add_lateral(Query *query, Query *select)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblEntry *join_rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	JoinExpr *join = makeNode(JoinExpr);
	List *from = query->jointree->fromlist;
	Var *result;
	ListCell *cell;

	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = select;
	rte->lateral = rte->inFromCl = true;
	rte->eref = makeAlias("unnamed_subquery", NIL);
	foreach (cell, select->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!entry->resjunk)
			rte->eref->colnames =
				lappend(rte->eref->colnames,
						makeString(pstrdup(entry->resname ? entry->resname : "?column?")));
	}
	join_rte->rtekind = RTE_JOIN;
	join_rte->jointype = JOIN_LEFT;
	join_rte->eref = makeAlias("unnamed_join", NIL);
	join_rte->inFromCl = true;
	query->rtable = lappend(lappend(query->rtable, rte), join_rte);
	ref->rtindex = list_length(query->rtable) - 1;
	join->jointype = JOIN_LEFT;
	join->larg = list_length(from) == 1 ? linitial(from) : (Node *) makeFromExpr(from, NULL);
	join->rarg = (Node *) ref;
	join->rtindex = list_length(query->rtable);
	query->jointree->fromlist = list_make1(join);
	result = makeVarFromTargetEntry(ref->rtindex, linitial_node(TargetEntry, select->targetList));
	return hm_nulled_by_join((Node *) result, ref->rtindex, join->rtindex);
}

/* How many sub-selects a query's FROM list has that depend on the rest of it. */
static int
lateral_count(const Query *query)
{
	int count = 0;
	ListCell *cell;

	foreach (cell, query->rtable)
		count += lfirst_node(RangeTblEntry, cell)->lateral;
	return count;
}

Node *
hm_join_latest(Query *query, const Query *select)
{
	LatestOrder order;
	bool not_null;
	Query *copy;

	if (!hm_enable_lookup_join || !hm_enable_btree_lookup || !is_plain(select) ||
		(!sorted_order(select, &order) && !extreme_order(select, &order)) ||
		lateral_count(query) >= MOST_LATERAL || !find_order(select, &order, &not_null))
		return NULL;
	copy = copyObject(unconstify(Query *, select));
	if (order.any_nulls)
		make_first_row(copy, &order, not_null);
	query->hasRowSecurity |= select->hasRowSecurity;
	return add_lateral(query, copy);
}
