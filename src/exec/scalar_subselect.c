/*
 * scalar_subselect.c
 *		Scalar sub-selects by a unique key to left joins.
 *
 * PostgreSQL runs such a sub-select again for each row, with a descent of the index each time:
 *
 *		SELECT o.x, (SELECT d.name FROM dim d WHERE d.id = o.dim) FROM o
 *
 * A unique index finds at most one row, so this is the same as a left join, which is planned as a
 * lookup join, or as any join of PostgreSQL's:
 *
 *		SELECT o.x, d.name FROM o LEFT JOIN dim d ON d.id = o.dim
 *
 * So such sub-selects are rewritten before a query is planned.  The new join is on top of the
 * query's FROM list, below its WHERE clause.  What stays where it was: the WHERE clause, and what
 * is selected, if that is more than a column.
 *
 * What a query could do otherwise must not be lost, nor what it could not do come about:
 *
 * - An error because a sub-select returns several rows.  The index is valid for the snapshot,
 *	 immediate, and has no predicate; all its columns are compared by its own equality.
 * - Errors of what the sub-select evaluates.  Its conditions are evaluated for other rows in a
 *	 join, so only such are moved that cannot fail.
 * - Rows of the query are as they were: a left join keeps them, and only rows that grouping has
 *	 not joined to groups yet are joined.
 * - Privileges: the table is in the range table, and is checked as the sub-select's.  Tables with
 *	 row-level security are left alone.
 * - Queries that lock or change rows are left alone, as in not_in.c.
 *
 * A sub-select is left alone, too, if it would be evaluated for few of the rows: in an arm of a
 * CASE or the like, or if only the first rows are wanted.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "exec/planner.h"

/*
 * With more joins the planner takes longer than they may save.
 */
#define MOST_JOINS 6

/* Sub-selects of fewer rows than that are left alone. */
#define FEW_ROWS 100

/* Which of its rows a query's select list is evaluated for. */
typedef enum RowsWanted
{
	ALL_ROWS,
	FIRST_IN_ORDER, /* the first ones, after all have been sorted */
	FIRST_ROWS      /* the first ones */
} RowsWanted;

/* A join that stands for one or more sub-selects, which differ in what they return. */
typedef struct ScalarJoin
{
	Query *select; /* the first one, as it was */
	int table;     /* range table indexes */
	int join;
} ScalarJoin;

typedef struct Rewrite
{
	Query *query;
	List *joins;       /* ScalarJoins */
	List *group_exprs; /* as they were */
	bool is_above;     /* what is looked at is evaluated for groups, not for rows */
} Rewrite;

static Node *rewrite_node(Node *node, void *argument);
static void rewrite_query(Query *query, RowsWanted above);

/* The conditions that a WHERE clause ANDs. */
static List *
conditions_of(const Query *query)
{
	return make_ands_implicit((Expr *) query->jointree->quals);
}

/* ----------------------------------------------------------------
 *		Sub-selects
 * ----------------------------------------------------------------
 */

/* Whether an operator, or its negator, compares by an order of btree's. */
static bool
is_comparison(Oid operator)
{
	CatCList *list = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(operator));
	bool found = false;
	Oid left, right;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_amop member = (Form_pg_amop) GETSTRUCT(&list->members[i]->tuple);

		found |= member->amopmethod == BTREE_AM_OID;
	}
	ReleaseSysCacheList(list);

	/* What compares elements or fields may find that these have no order. */
	op_input_types(operator, & left, &right);
	return found && left != RECORDOID && (left == ANYENUMOID || !IsPolymorphicType(left));
}

/*
 * Whether the evaluation of an expression may fail, for some row or other.  What may be evaluated
 * before a security barrier does not: leakproof functions.  Neither do comparisons.
 */
static bool
may_fail(Node *node, void *argument)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_Var:
		case T_Const:
		case T_RelabelType:
		case T_BoolExpr:
		case T_BooleanTest:
		case T_NullTest:
			break;
		case T_Param:
			if (((Param *) node)->paramkind != PARAM_EXTERN)
				return true;
			break;
		case T_FuncExpr:
			if (!get_func_leakproof(((FuncExpr *) node)->funcid))
				return true;
			break;
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
		{
			OpExpr *clause = (OpExpr *) node;
			Oid operator= IsA(node, OpExpr) ? clause->opno : ((ScalarArrayOpExpr *) node)->opno;
			Oid negator = get_negator(operator);

			if (!get_func_leakproof(get_opcode(operator)) && !is_comparison(operator) &&
				!(OidIsValid(negator) && is_comparison(negator)))
				return true;
			break;
		}
		default:
			return true;
	}
	return expression_tree_walker(node, may_fail, argument);
}

/* Whether a query has no LIMIT, or one that leaves the first row. */
static bool
leaves_a_row(const Query *query)
{
	const Const *limit = (const Const *) eval_const_expressions(NULL, query->limitCount);

	return query->limitOffset == NULL &&
		   (limit == NULL ||
			(IsA(limit, Const) && !limit->constisnull && DatumGetInt64(limit->constvalue) > 0));
}

/* Whether a query returns a value for each row of its FROM clause, and does nothing else. */
static bool
is_plain(const Query *query)
{
	return query->commandType == CMD_SELECT && query->setOperations == NULL && !query->hasAggs &&
		   !query->hasWindowFuncs && !query->hasTargetSRFs && !query->hasSubLinks &&
		   query->cteList == NIL && query->groupClause == NIL && query->groupingSets == NIL &&
		   query->havingQual == NULL && query->distinctClause == NIL && query->rowMarks == NIL &&
		   list_length(query->rtable) == 1 && list_length(query->targetList) == 1 &&
		   leaves_a_row(query);
}

/*
 * If a sub-select of a query can become a left join, a column that is not NULL in any row that it
 * finds; otherwise 0.
 */
static AttrNumber
joinable_column(Query *select)
{
	Node *quals = select->jointree->quals;

	if (!is_plain(select) || quals == NULL || !contain_vars_of_level(quals, 1) ||
		may_fail(eval_const_expressions(NULL, quals), NULL) ||
		contain_volatile_functions((Node *) select) ||
		linitial_node(RangeTblEntry, select->rtable)->securityQuals != NIL)
		return 0;
	return hm_unique_column(select);
}

/* ----------------------------------------------------------------
 *		Joins
 * ----------------------------------------------------------------
 */

/* A copy of an expression of a sub-select's, as one of the query that it is joined to. */
static Node *
moved_up(const Node *expr, int table)
{
	Node *copy = copyObject(unconstify(Node *, expr));

	OffsetVarNodes(copy, table - 1, 0);
	IncrementVarSublevelsUp(copy, -1, 1);
	return copy;
}

/* Put a left join with a table on top of a query's FROM list. */
static void
add_to_jointree(Query *query, int table, int join_index, Node *quals)
{
	List *from = query->jointree->fromlist;
	JoinExpr *join = makeNode(JoinExpr);
	RangeTblRef *ref = makeNode(RangeTblRef);

	ref->rtindex = table;
	join->jointype = JOIN_LEFT;
	join->larg = list_length(from) == 1 ? linitial(from) : (Node *) makeFromExpr(from, NULL);
	join->rarg = (Node *) ref;
	join->quals = quals;
	join->rtindex = join_index;
	query->jointree->fromlist = list_make1(join);
}

static ScalarJoin *
add_join(Rewrite *rewrite, Query *select)
{
	Query *query = rewrite->query;
	Query *copy = copyObject(select);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	ScalarJoin *join = palloc(sizeof(ScalarJoin));

	join->select = select;
	join->table = list_length(query->rtable) + 1;
	join->join = join->table + 1;
	hm_add_range_table(query, copy);
	rte->rtekind = RTE_JOIN;
	rte->jointype = JOIN_LEFT;
	rte->eref = makeAlias("unnamed_join", NIL);
	rte->inFromCl = true;
	query->rtable = lappend(query->rtable, rte);
	query->hasRowSecurity |= select->hasRowSecurity;
	add_to_jointree(query, join->table, join->join, moved_up(select->jointree->quals, join->table));
	rewrite->joins = lappend(rewrite->joins, join);
	return join;
}

/*
 * The join that finds the row of a sub-select: one that is there, if it is the same row, or a new
 * one.  NULL if there are as many as there may be.
 */
static ScalarJoin *
find_join(Rewrite *rewrite, Query *select)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, select->rtable);
	HmPermissions *wanted = hm_permissions(select, rte);
	ListCell *cell;

	foreach (cell, rewrite->joins)
	{
		ScalarJoin *join = lfirst(cell);
		RangeTblEntry *joined = rt_fetch(join->table, rewrite->query->rtable);
		HmPermissions *permissions = hm_permissions(rewrite->query, joined);

		if (joined->relid == rte->relid && joined->inh == rte->inh &&
			permissions->checkAsUser == wanted->checkAsUser &&
			equal(join->select->jointree->quals, select->jointree->quals))
		{
			permissions->selectedCols =
				bms_add_members(permissions->selectedCols, wanted->selectedCols);
			return join;
		}
	}
	return list_length(rewrite->joins) < MOST_JOINS ? add_join(rewrite, select) : NULL;
}

/* What is selected of a row that was found, or else NULL. */
static Node *
if_found(const ScalarJoin *join, AttrNumber column, Node *expr)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, join->select->rtable);
	Oid type, collation;
	int32 typmod;
	NullTest *test = makeNode(NullTest);
	CaseWhen *when = makeNode(CaseWhen);
	CaseExpr *result = makeNode(CaseExpr);

	get_atttypetypmodcoll(rte->relid, column, &type, &typmod, &collation);
	test->arg = (Expr *) makeVar(join->table, column, type, typmod, collation, 0);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	when->expr = (Expr *) test;
	when->result = (Expr *) expr;
	when->location = -1;
	result->casetype = exprType(expr);
	result->casecollid = exprCollation(expr);
	result->args = list_make1(when);
	result->defresult =
		(Expr *) makeNullConst(exprType(expr), exprTypmod(expr), exprCollation(expr));
	result->location = -1;
	return (Node *) result;
}

/* What stands for a sub-select, which is joined; NULL if it cannot be. */
static Node *
join_subselect(Rewrite *rewrite, Query *select)
{
	AttrNumber column = joinable_column(select);
	ScalarJoin *join = column != 0 ? find_join(rewrite, select) : NULL;
	Node *selected = (Node *) linitial_node(TargetEntry, select->targetList)->expr;
	Node *expr;

	if (join == NULL)
		return NULL;
	expr = moved_up(selected, join->table);
	if (!IsA(selected, Var) || ((Var *) selected)->varlevelsup > 0)
		expr = if_found(join, column, expr);
	return hm_nulled_by_join(expr, join->table, join->join);
}

/* ----------------------------------------------------------------
 *		Where sub-selects are looked for
 * ----------------------------------------------------------------
 */

/* Rewrite the first of several expressions, which is the only one that is evaluated always. */
static void
rewrite_first(List *exprs, Rewrite *rewrite)
{
	linitial(exprs) = rewrite_node(linitial(exprs), rewrite);
}

/*
 * Rewrite in place what is always evaluated of an expression that does not evaluate all of its
 * parts.  Returns whether it is such an expression.
 */
static bool
rewrite_conditional(Node *node, Rewrite *rewrite)
{
	if (IsA(node, CaseExpr))
	{
		CaseExpr *expr = (CaseExpr *) node;
		CaseWhen *first = linitial_node(CaseWhen, expr->args);

		expr->arg = (Expr *) rewrite_node((Node *) expr->arg, rewrite);
		first->expr = (Expr *) rewrite_node((Node *) first->expr, rewrite);
	}
	else if (IsA(node, CoalesceExpr))
		rewrite_first(((CoalesceExpr *) node)->args, rewrite);
	else if (IsA(node, BoolExpr))
		rewrite_first(((BoolExpr *) node)->args, rewrite);
	else if (IsA(node, Aggref) && ((Aggref *) node)->aggfilter != NULL)
	{
		Aggref *aggregate = (Aggref *) node;

		aggregate->aggfilter = (Expr *) rewrite_node((Node *) aggregate->aggfilter, rewrite);
	}
	else
		return false;
	return true;
}

/* A mutator, which changes nodes in place as well. */
static Node *
rewrite_node(Node *node, void *argument)
{
	Rewrite *rewrite = argument;

	if (node == NULL || IsA(node, Query))
		return node;
	if (rewrite->is_above && ((IsA(node, Aggref) && ((Aggref *) node)->agglevelsup == 0) ||
							  list_member(rewrite->group_exprs, node)))
	{
		rewrite->is_above = false;
		node = rewrite_node(node, rewrite);
		rewrite->is_above = true;
		return node;
	}
	if (!rewrite->is_above && IsA(node, SubLink) && ((SubLink *) node)->subLinkType == EXPR_SUBLINK)
	{
		Query *select = castNode(Query, ((SubLink *) node)->subselect);
		Node *joined = join_subselect(rewrite, select);

		if (joined == NULL)
			joined = hm_join_latest(rewrite->query, select);
		if (joined != NULL)
			return joined;
	}
	if (rewrite_conditional(node, rewrite))
		return node;
	return expression_tree_mutator(node, rewrite_node, rewrite);
}

/* Rewrite the conditions that a WHERE clause ANDs: the planner puts each where it can. */
static void
rewrite_conditions(Rewrite *rewrite)
{
	List *conditions = conditions_of(rewrite->query);
	ListCell *cell;

	foreach (cell, conditions)
		lfirst(cell) = rewrite_node(lfirst(cell), rewrite);
	rewrite->query->jointree->quals =
		conditions == NIL ? NULL : (Node *) make_ands_explicit(conditions);
}

static bool
is_grouped(const Query *query)
{
	return query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		   query->havingQual != NULL;
}

/* Rewrite what a query evaluates after its WHERE clause. */
static void
rewrite_targets(Rewrite *rewrite, RowsWanted wanted)
{
	Query *query = rewrite->query;
	ListCell *cell;

	foreach (cell, query->rtable)
	{
		List **exprs = hm_group_exprs(lfirst_node(RangeTblEntry, cell));

		if (exprs != NULL && query->groupingSets == NIL)
			*exprs = castNode(List, rewrite_node((Node *) *exprs, rewrite));
	}
	rewrite->is_above = is_grouped(query);
	foreach (cell, query->groupingSets == NIL ? query->groupClause : NIL)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, cell);

		rewrite->group_exprs = lappend(
			rewrite->group_exprs,
			copyObject(get_sortgroupref_tle(clause->tleSortGroupRef, query->targetList)->expr));
	}
	foreach (cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (wanted == ALL_ROWS || entry->ressortgroupref != 0)
			entry->expr = (Expr *) rewrite_node((Node *) entry->expr, rewrite);
	}
	query->havingQual = rewrite_node(query->havingQual, rewrite);
}

/*
 * Whether a query may read many rows.  Where it does not, what a sub-select takes is not worth the
 * planning of a join.
 */
static bool
may_have_many_rows(const Query *query)
{
	ListCell *cell;

	if (hm_unique_column(query) != 0)
		return false;
	foreach (cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);
		Relation table;
		double rows;

		if (rte->rtekind == RTE_JOIN || rte->rtekind == RTE_RESULT)
			continue;
		if (rte->rtekind != RTE_RELATION)
			return true;
		table = table_open(rte->relid, NoLock);
		rows = table->rd_rel->reltuples;
		table_close(table, NoLock);
		if (rows < 0 || rows >= FEW_ROWS)
			return true;
	}
	return false;
}

static RowsWanted
rows_wanted(const Query *query, RowsWanted above)
{
	if (is_grouped(query) || (query->limitCount == NULL && above == ALL_ROWS))
		return ALL_ROWS;
	if (query->sortClause != NIL || query->distinctClause != NIL || query->hasWindowFuncs)
		return FIRST_IN_ORDER;
	return query->limitCount != NULL ? FIRST_ROWS : above;
}

/* Rewrite a query of which those rows are wanted, and those that it reads. */
static void
rewrite_query(Query *query, RowsWanted above)
{
	RowsWanted wanted = rows_wanted(query, above);
	Rewrite rewrite = {.query = query};
	ListCell *cell;

	if ((query->commandType != CMD_SELECT && query->commandType != CMD_INSERT) ||
		query->rowMarks != NIL || query->hasModifyingCTE)
		return;
	foreach (cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);

		if (rte->rtekind == RTE_SUBQUERY)
			rewrite_query(rte->subquery, wanted);
	}
	foreach (cell, query->cteList)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, cell);

		if (!cte->cterecursive)
			rewrite_query(castNode(Query, cte->ctequery), wanted);
	}
	if (query->commandType != CMD_SELECT || !query->hasSubLinks || wanted == FIRST_ROWS ||
		query->setOperations != NULL || query->jointree->fromlist == NIL ||
		!may_have_many_rows(query))
		return;
	rewrite_conditions(&rewrite);
	rewrite_targets(&rewrite, wanted);
}

void
hm_rewrite_scalar_subselects(Query *query, bool is_cursor)
{
	rewrite_query(query, is_cursor ? FIRST_ROWS : ALL_ROWS);
}
