/*
 * not_in.c
 *		NOT IN (SELECT ...) to NOT EXISTS.
 *
 * PostgreSQL plans NOT IN as a subplan with a hash table, or, beyond work_mem, as one that
 * reads all rows of the sub-select for each row.  It cannot make it a join, because NULLs
 * count: one NULL among the sub-select's values, and no row is returned.  Where neither
 * side can be NULL, NOT IN means the same as NOT EXISTS, which is planned as an antijoin.
 * So such conditions are rewritten before a query is planned:
 *
 *		x NOT IN (SELECT k FROM t WHERE ...)
 *		NOT EXISTS (SELECT k FROM t WHERE ... AND x = k)
 *
 * If only x can be NULL, there is another condition beside this one.  NULL is not in an empty set;
 * otherwise NOT IN is NULL, and WHERE takes that for false:
 *
 *		(x IS NOT NULL OR NOT EXISTS (SELECT k FROM t WHERE ...))
 *
 * PostgreSQL evaluates this sub-select when it meets the first NULL, and stops at its first row.
 *
 * Nothing moves from one query level to another, so privileges, row-level security and
 * security barriers apply as before.  Whether a column can be NULL may change later.  That
 * invalidates cached plans, as any change of a table in the range table does, and the hook
 * sees the query again.
 *
 * A snapshot that is older than the declaration of a column as NOT NULL may still see a NULL there
 * (see hm_is_not_null()).  In READ COMMITTED, the snapshot of a query is taken after its tables are
 * locked, so only queries in STABLE functions can have such a one.
 *
 * Queries that lock or change rows stay as they are, too.  After a concurrent change,
 * EvalPlanQual evaluates a subplan again, but takes the rows of an antijoin's other side
 * as they were.
 *
 * 19 makes some antijoins itself, of others than these, too.  It does not look into views and
 * conditions such as IS NOT NULL, so what is here goes on to be of use.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/planner.h"

/* ----------------------------------------------------------------
 *		What cannot be NULL
 * ----------------------------------------------------------------
 */

/* Whether a WHERE clause has `expr IS NOT NULL` among the conditions that it ANDs. */
static bool
demands_not_null(Node *quals, Node *expr)
{
	if (quals == NULL)
		return false;
	if (is_andclause(quals))
	{
		ListCell *cell;

		foreach (cell, ((BoolExpr *) quals)->args)
		{
			if (demands_not_null(lfirst(cell), expr))
				return true;
		}
		return false;
	}
	return IsA(quals, NullTest) && ((NullTest *) quals)->nulltesttype == IS_NOT_NULL &&
		   !((NullTest *) quals)->argisrow && equal(((NullTest *) quals)->arg, expr);
}

/*
 * Whether a relation is in a join tree, and no outer join can make its columns NULL.
 */
static bool
is_never_nulled(Node *jointree, int varno)
{
	if (IsA(jointree, RangeTblRef))
		return ((RangeTblRef *) jointree)->rtindex == varno;
	if (IsA(jointree, FromExpr))
	{
		ListCell *cell;

		foreach (cell, ((FromExpr *) jointree)->fromlist)
		{
			if (is_never_nulled(lfirst(cell), varno))
				return true;
		}
	}
	else if (IsA(jointree, JoinExpr))
	{
		JoinExpr *join = (JoinExpr *) jointree;

		if ((join->jointype == JOIN_INNER || join->jointype == JOIN_LEFT) &&
			is_never_nulled(join->larg, varno))
			return true;
		return (join->jointype == JOIN_INNER || join->jointype == JOIN_RIGHT) &&
			   is_never_nulled(join->rarg, varno);
	}
	return false;
}

/*
 * Whether a table sees to it that its columns are not NULL if they are so declared, in all
 * rows that a query finds.  Foreign tables do not, and children of a table other than
 * partitions may have declarations of their own.
 */
static bool
enforces_not_null(Oid table, char kind)
{
	ListCell *cell;

	if (kind == RELKIND_RELATION)
		return !has_subclass(table);
	if (kind != RELKIND_PARTITIONED_TABLE)
		return false;
	foreach (cell, find_all_inheritors(table, NoLock, NULL))
	{
		char child = get_rel_relkind(lfirst_oid(cell));

		if (child != RELKIND_RELATION && child != RELKIND_PARTITIONED_TABLE)
			return false;
	}
	return true;
}

/* Whether a column is declared as NOT NULL, by a table that enforces it. */
static bool
is_declared_not_null(const RangeTblEntry *rte, AttrNumber column)
{
	Relation table;
	bool result;

	if (rte->rtekind != RTE_RELATION || column <= 0 || !enforces_not_null(rte->relid, rte->relkind))
		return false;

	/* The parser or the plan cache has locked it. */
	table = table_open(rte->relid, NoLock);
	result = hm_is_not_null(table, column);
	table_close(table, NoLock);
	return result;
}

/*
 * Whether an expression is not NULL in any row that satisfies a query's WHERE clause.
 */
static bool
is_not_null(Query *query, Node *expr)
{
	Var *var = (Var *) expr;
	RangeTblEntry *rte;

	if (IsA(expr, Const))
		return !((Const *) expr)->constisnull;
	if (IsA(expr, RelabelType))
		return is_not_null(query, (Node *) ((RelabelType *) expr)->arg);
	if (!IsA(expr, Var) || var->varlevelsup > 0)
		return false;
	if (demands_not_null(query->jointree->quals, expr))
		return true;
	if (!is_never_nulled((Node *) query->jointree, var->varno))
		return false;
	rte = rt_fetch(var->varno, query->rtable);

	/* Grouping sets return NULL for the columns that a set lacks. */
	if (rte->rtekind == RTE_SUBQUERY && rte->subquery->setOperations == NULL &&
		rte->subquery->groupingSets == NIL && var->varattno > 0)
		return is_not_null(
			rte->subquery,
			(Node *) list_nth_node(TargetEntry, rte->subquery->targetList, var->varattno - 1)
				->expr);
	return is_declared_not_null(rte, var->varattno);
}

/* ----------------------------------------------------------------
 *		Sub-selects
 * ----------------------------------------------------------------
 */

/*
 * Whether an operator is equality in the operator family of a harmonia index on a column.
 * Such operators are strict, and do not return NULL for other values.
 */
static bool
is_indexed(Oid relid, AttrNumber column, Oid operator)
{
	Relation table = table_open(relid, NoLock);
	bool found = false;
	ListCell *cell;

	foreach (cell, RelationGetIndexList(table))
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		found |= (void *) index->rd_indam->amcostestimate == (void *) hm_cost_estimate &&
				 index->rd_index->indisvalid && index->rd_index->indkey.values[0] == column &&
				 heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) &&
				 get_op_opfamily_strategy(operator, index->rd_opfamily[0]) == BTEqualStrategyNumber;
		index_close(index, NoLock);
	}
	table_close(table, NoLock);
	return found;
}

/*
 * Whether a sub-select does nothing but scan, join and filter, so that it can become one side
 * of a join.  It may refer to the query around it in its WHERE clause alone.
 */
static bool
is_simple(Query *query)
{
	Node *quals = query->jointree->quals;
	bool refers;

	if (query->commandType != CMD_SELECT || query->setOperations != NULL || query->hasAggs ||
		query->hasWindowFuncs || query->hasTargetSRFs || query->hasSubLinks ||
		query->hasDistinctOn || query->cteList != NIL || query->groupClause != NIL ||
		query->groupingSets != NIL || query->havingQual != NULL || query->limitCount != NULL ||
		query->limitOffset != NULL || query->rowMarks != NIL ||
		contain_volatile_functions((Node *) query))
		return false;
	query->jointree->quals = NULL;
	refers = contain_vars_of_level((Node *) query, 1);
	query->jointree->quals = quals;
	return !refers;
}

/*
 * Whether an expression and a sub-select may be in a query once more.  CTEs have a count of their
 * references.
 */
static bool
may_repeat(Node *outer, const Query *select)
{
	ListCell *cell;

	if (!contain_vars_of_level(outer, 0) || contain_volatile_functions(outer) ||
		checkExprHasSubLink(outer))
		return false;
	foreach (cell, select->rtable)
	{
		RTEKind kind = lfirst_node(RangeTblEntry, cell)->rtekind;

		if (kind != RTE_RELATION && kind != RTE_JOIN)
			return false;
	}
	return true;
}

/* The condition that an expression is not NULL, or a sub-select has no rows. */
static Node *
not_null_or_empty(Node *outer, Query *select)
{
	NullTest *test = makeNode(NullTest);
	SubLink *exists = makeNode(SubLink);

	test->arg = copyObject((Expr *) outer);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	exists->subLinkType = EXISTS_SUBLINK;
	exists->subselect = (Node *) copyObject(select);
	exists->location = -1;
	return (Node *) make_orclause(list_make2(test, make_notclause((Expr *) exists)));
}

/*
 * What a condition of a query's WHERE clause is rewritten as, if it is a NOT IN that can be;
 * otherwise the condition.
 */
static Node *
rewrite_condition(Query *query, Node *condition)
{
	SubLink *link;
	Node *beside = NULL;
	OpExpr *equality;
	Param *param;
	Query *select;
	Node *outer;
	Var *column;
	RangeTblEntry *rte;

	if (!is_notclause(condition))
		return condition;
	link = (SubLink *) get_notclausearg(condition);
	if (!IsA(link, SubLink) || link->subLinkType != ANY_SUBLINK || !IsA(link->testexpr, OpExpr))
		return condition;
	equality = (OpExpr *) link->testexpr;
	outer = linitial(equality->args);
	param = lsecond(equality->args);
	select = castNode(Query, link->subselect);
	column = (Var *) linitial_node(TargetEntry, select->targetList)->expr;
	if (!IsA(param, Param) || param->paramkind != PARAM_SUBLINK || !IsA(column, Var) ||
		column->varlevelsup > 0 || !is_simple(select))
		return condition;
	rte = rt_fetch(column->varno, select->rtable);
	if (rte->rtekind != RTE_RELATION || !is_not_null(select, (Node *) column) ||
		!is_indexed(rte->relid, column->varattno, equality->opno))
		return condition;
	if (!is_not_null(query, outer))
	{
		if (!may_repeat(outer, select))
			return condition;
		beside = not_null_or_empty(outer, select);
	}

	/* The sub-select belongs to the sub-link alone, as does the expression. */
	IncrementVarSublevelsUp(outer, 1, 0);
	equality->args = list_make2(outer, copyObject(column));
	select->jointree->quals = make_and_qual(select->jointree->quals, (Node *) equality);
	link->subLinkType = EXISTS_SUBLINK;
	link->subLinkId = 0;
	link->testexpr = NULL;
	link->operName = NIL;
	return make_and_qual(condition, beside);
}

/* Rewrite the conditions that a WHERE clause ANDs.  Returns the new clause. */
static Node *
rewrite_conditions(Query *query, Node *quals)
{
	if (quals != NULL && is_andclause(quals))
	{
		ListCell *cell;

		foreach (cell, ((BoolExpr *) quals)->args)
			lfirst(cell) = rewrite_conditions(query, lfirst(cell));
		return quals;
	}
	return quals == NULL ? NULL : rewrite_condition(query, quals);
}

void
hm_rewrite_not_in(Query *query)
{
	ListCell *cell;

	if ((query->commandType != CMD_SELECT && query->commandType != CMD_INSERT) ||
		query->rowMarks != NIL || query->hasModifyingCTE)
		return;
	if (query->hasSubLinks)
		query->jointree->quals = rewrite_conditions(query, query->jointree->quals);
	foreach (cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);

		if (rte->rtekind == RTE_SUBQUERY)
			hm_rewrite_not_in(rte->subquery);
	}
	foreach (cell, query->cteList)
		hm_rewrite_not_in(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery));
}
