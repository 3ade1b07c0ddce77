/*
 * subselect_joins.c
 *		Left joins that stand for sub-selects by a unique key.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "exec/planner.h"
#include "exec/subselect_joins.h"

/*
 * With more joins the planner takes longer than they may save.
 */
#define MOST_JOINS 6

/* More conditions than that are not evaluated a second time, in a join. */
#define MOST_GUARDS 4

/* A sub-select that is evaluated for a smaller share of the rows is not worth a join of all. */
#define LEAST_SHARE 0.3

/* A join that stands for one or more sub-selects, which differ in what they return. */
typedef struct ScalarJoin
{
	Query *select; /* the first one, as it was */
	List *guards;  /* the conditions of the rows that are joined */
	int table;     /* range table indexes */
	int join;
} ScalarJoin;

/* ----------------------------------------------------------------
 *		Sub-selects
 * ----------------------------------------------------------------
 */

/* Whether a query has no LIMIT, or one that leaves the first row. */
static bool
leaves_a_row(const Query *query)
{
	const Const *limit = (const Const *) eval_const_expressions(NULL, query->limitCount);

	return query->limitOffset == NULL &&
		   (limit == NULL ||
			(IsA(limit, Const) && !limit->constisnull && DatumGetInt64(limit->constvalue) > 0));
}

/* Whether a query returns a value, or nothing, for each row of what it reads, and does no more. */
static bool
is_plain(const Query *query)
{
	return query->commandType == CMD_SELECT && query->setOperations == NULL && !query->hasAggs &&
		   !query->hasWindowFuncs && !query->hasTargetSRFs && !query->hasSubLinks &&
		   query->cteList == NIL && query->groupClause == NIL && query->groupingSets == NIL &&
		   query->havingQual == NULL && query->distinctClause == NIL && query->rowMarks == NIL &&
		   list_length(query->targetList) <= 1 && leaves_a_row(query);
}

/*
 * The share of a query's rows that satisfy conditions, as the planner estimates it from the
 * statistics of the query's tables; 0 if it cannot be told.
 */
static double
estimated_share(Query *query, List *conditions)
{
	PlannerInfo *root = makeNode(PlannerInfo);
	Relids tables;
	int table = -1;

	root->parse = query;
	root->glob = makeNode(PlannerGlobal);
	root->query_level = 1;
	root->planner_cxt = CurrentMemoryContext;
	root->wt_param_id = -1;
	tables = pull_varnos(root, (Node *) conditions);
	setup_simple_rel_arrays(root);
	while ((table = bms_next_member(tables, table)) >= 0)
	{
		char kind = rt_fetch(table, query->rtable)->relkind;

		if (rt_fetch(table, query->rtable)->rtekind != RTE_RELATION ||
			(kind != RELKIND_RELATION && kind != RELKIND_MATVIEW))
			return 0;
		build_simple_rel(root, table, NULL);
	}
	return clauselist_selectivity(root, conditions, 0, JOIN_INNER, NULL);
}

/* Whether a sub-select that is evaluated where these conditions are true may be worth a join. */
static bool
has_enough_rows(Query *query, List *guards)
{
	return guards == NIL || (!list_member_ptr(guards, NULL) && list_length(guards) <= MOST_GUARDS &&
							 estimated_share(query, guards) >= LEAST_SHARE);
}

/*
 * If a sub-select of a query, which is evaluated where some conditions are true, can become a left
 * join: a column that is not NULL in any row that it finds.  Otherwise 0.
 */
static AttrNumber
joinable_column(Query *query, Query *select, List *guards)
{
	Node *quals = select->jointree->quals;
	AttrNumber column;

	if (!is_plain(select) || list_length(select->rtable) != 1 || quals == NULL ||
		!contain_vars_of_level(quals, 1) || hm_may_fail(quals, guards == NIL) ||
		contain_volatile_functions((Node *) select) ||
		linitial_node(RangeTblEntry, select->rtable)->securityQuals != NIL)
		return 0;
	column = hm_unique_column(select);
	return column != 0 && has_enough_rows(query, guards) ? column : 0;
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

/* A value if a condition is true, or else NULL. */
static Node *
value_if(Expr *condition, Node *value)
{
	CaseWhen *when = makeNode(CaseWhen);
	CaseExpr *result = makeNode(CaseExpr);

	when->expr = condition;
	when->result = (Expr *) value;
	when->location = -1;
	result->casetype = exprType(value);
	result->casecollid = exprCollation(value);
	result->args = list_make1(when);
	result->defresult =
		(Expr *) makeNullConst(exprType(value), exprTypmod(value), exprCollation(value));
	result->location = -1;
	return (Node *) result;
}

/* Whether an expression is a column, as it is. */
static bool
is_column(Node *expr, int table, AttrNumber column)
{
	while (IsA(expr, RelabelType))
		expr = (Node *) ((RelabelType *) expr)->arg;
	return IsA(expr, Var) && ((Var *) expr)->varlevelsup == 0 && ((Var *) expr)->varno == table &&
		   ((Var *) expr)->varattno == column;
}

/*
 * Make comparisons of a table's column with other values ones with NULL, for all rows but those
 * that satisfy the guards.
 */
static void
guard_comparisons(Node *quals, List *guards, int table, AttrNumber column)
{
	ListCell *cell, *arg;

	foreach (cell, guards == NIL ? NIL : make_ands_implicit((Expr *) quals))
	{
		OpExpr *clause = lfirst(cell);
		bool compares = false;

		if (!IsA(clause, OpExpr))
			continue;
		foreach (arg, clause->args)
			compares |= is_column(lfirst(arg), table, column);
		foreach (arg, compares ? clause->args : NIL)
		{
			if (!is_column(lfirst(arg), table, column))
				lfirst(arg) =
					value_if((Expr *) make_ands_explicit(copyObject(guards)), lfirst(arg));
		}
	}
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
add_join(SubselectJoins *joins, Query *select, AttrNumber column, List *guards)
{
	Node *quals;
	Query *query = joins->query;
	Query *copy = copyObject(select);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	ScalarJoin *join = palloc(sizeof(ScalarJoin));

	join->select = select;
	join->guards = guards;
	join->table = list_length(query->rtable) + 1;
	join->join = join->table + 1;
	hm_add_range_table(query, copy);
	rte->rtekind = RTE_JOIN;
	rte->jointype = JOIN_LEFT;
	rte->eref = makeAlias("unnamed_join", NIL);
	rte->inFromCl = true;
	query->rtable = lappend(query->rtable, rte);
	query->hasRowSecurity |= select->hasRowSecurity;
	quals = moved_up(select->jointree->quals, join->table);
	guard_comparisons(quals, join->guards, join->table, column);
	add_to_jointree(query, join->table, join->join, quals);
	joins->joins = lappend(joins->joins, join);
	return join;
}

/*
 * The join that finds the row of a sub-select: one that is there, if it is the same row, or a new
 * one.  NULL if there are as many as there may be.
 */
static ScalarJoin *
find_join(SubselectJoins *joins, Query *select, AttrNumber column, List *guards)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, select->rtable);
	HmPermissions *wanted = hm_permissions(select, rte);
	ListCell *cell;

	foreach (cell, joins->joins)
	{
		ScalarJoin *join = lfirst(cell);
		RangeTblEntry *joined = rt_fetch(join->table, joins->query->rtable);
		HmPermissions *permissions = hm_permissions(joins->query, joined);

		if (joined->relid == rte->relid && joined->inh == rte->inh &&
			permissions->checkAsUser == wanted->checkAsUser &&
			(join->guards == NIL || equal(join->guards, guards)) &&
			equal(join->select->jointree->quals, select->jointree->quals))
		{
			permissions->selectedCols =
				bms_add_members(permissions->selectedCols, wanted->selectedCols);
			return join;
		}
	}
	return list_length(joins->joins) < MOST_JOINS ? add_join(joins, select, column, guards) : NULL;
}

/* Whether a join has found a row, of which a column is not NULL. */
static Node *
is_found(const ScalarJoin *join, AttrNumber column)
{
	RangeTblEntry *rte = linitial_node(RangeTblEntry, join->select->rtable);
	Oid type, collation;
	int32 typmod;
	NullTest *test = makeNode(NullTest);

	get_atttypetypmodcoll(rte->relid, column, &type, &typmod, &collation);
	test->arg = (Expr *) makeVar(join->table, column, type, typmod, collation, 0);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	return (Node *) test;
}

/*
 * What stands for a sub-select, which is joined: what it selects, or whether there is a row if it
 * selects nothing.  NULL if it cannot be joined.
 */
static Node *
join_subselect(SubselectJoins *joins, Query *select, List *guards)
{
	AttrNumber column = joinable_column(joins->query, select, guards);
	ScalarJoin *join = column != 0 ? find_join(joins, select, column, guards) : NULL;
	Node *selected, *expr;

	if (join == NULL)
		return NULL;
	if (select->targetList == NIL)
		return hm_nulled_by_join(is_found(join, column), join->table, join->join);
	selected = (Node *) linitial_node(TargetEntry, select->targetList)->expr;
	expr = moved_up(selected, join->table);
	if (!IsA(selected, Var) || ((Var *) selected)->varlevelsup > 0)
		expr = value_if((Expr *) is_found(join, column), expr);
	return hm_nulled_by_join(expr, join->table, join->join);
}

/* EXISTS (SELECT ...) as a query that selects nothing. */
static Query *
rows_of_exists(const Query *select)
{
	Query *rows = copyObject(unconstify(Query *, select));

	rows->targetList = rows->sortClause = NIL;
	return rows;
}

/*
 * x IN (SELECT k FROM t ...) as a query that selects nothing, (SELECT FROM t WHERE k = x AND ...);
 * NULL if it is another comparison.
 */
static Query *
rows_of_in(const SubLink *link)
{
	OpExpr *comparison = (OpExpr *) link->testexpr;
	Query *rows = rows_of_exists(castNode(Query, link->subselect));
	TargetEntry *selected = linitial(castNode(Query, link->subselect)->targetList);

	if (!IsA(comparison, OpExpr) || !IsA(lsecond(comparison->args), Param) ||
		rows->limitCount != NULL)
		return NULL;
	comparison = copyObject(comparison);
	IncrementVarSublevelsUp(linitial(comparison->args), 1, 0);
	lsecond(comparison->args) = copyObject(selected->expr);
	rows->jointree->quals = make_and_qual(rows->jointree->quals, (Node *) comparison);
	return rows;
}

Node *
hm_join_sublink(SubselectJoins *joins, const SubLink *link, List *guards, bool null_is_false)
{
	Query *select = castNode(Query, link->subselect);

	if (link->subLinkType == EXISTS_SUBLINK)
		select = rows_of_exists(select);
	else if (link->subLinkType == ANY_SUBLINK && null_is_false)
		select = rows_of_in(link);
	else if (link->subLinkType != EXPR_SUBLINK)
		return NULL;
	return select != NULL ? join_subselect(joins, select, guards) : NULL;
}

/* ----------------------------------------------------------------
 *		EXISTS over a join
 * ----------------------------------------------------------------
 */

/* A sub-select over a join, of which a table may be joined to the query around it. */
typedef struct Separation
{
	Query *select;
	int table;        /* of the sub-select */
	ScalarJoin *join; /* of the query, which stands for it */
} Separation;

/*
 * Add the tables of a sub-select's inner joins, and their conditions, to lists.  Returns false if
 * there is anything else.
 */
static bool
flatten_joins(Node *node, List **tables, List **conditions)
{
	JoinExpr *join = (JoinExpr *) node;
	ListCell *cell;

	if (IsA(node, RangeTblRef))
	{
		*tables = lappend(*tables, node);
		return true;
	}
	if (IsA(node, FromExpr))
	{
		foreach (cell, ((FromExpr *) node)->fromlist)
		{
			if (!flatten_joins(lfirst(cell), tables, conditions))
				return false;
		}
		*conditions =
			list_concat(*conditions, make_ands_implicit((Expr *) ((FromExpr *) node)->quals));
		return true;
	}
	if (join->jointype != JOIN_INNER || join->alias != NULL ||
		!flatten_joins(join->larg, tables, conditions) ||
		!flatten_joins(join->rarg, tables, conditions))
		return false;
	*conditions = list_concat(*conditions, make_ands_implicit((Expr *) join->quals));
	return true;
}

/* A table of a sub-select, with the conditions about it alone, as a sub-select of its own. */
static Query *
rows_of_table(const Query *select, int table, List *conditions)
{
	Query *rows = copyObject(unconstify(Query *, select));
	RangeTblRef *ref = makeNode(RangeTblRef);
	List *quals = NIL;
	ListCell *cell;

	foreach (cell, conditions)
	{
		Relids tables = pull_varnos(NULL, lfirst(cell));

		if (bms_is_subset(tables, bms_make_singleton(table)))
			quals = lappend(quals, copyObject(lfirst(cell)));
	}
	ref->rtindex = 1;
	hm_keep_range_table_entry(rows, table);
	ChangeVarNodes((Node *) quals, table, 1, 0);
	rows->jointree =
		makeFromExpr(list_make1(ref), quals == NIL ? NULL : (Node *) make_ands_explicit(quals));
	return rows;
}

/* Replace the columns of the table that has been joined. */
static Node *
use_joined(Node *node, void *argument)
{
	Separation *separation = argument;
	Var *var = (Var *) node;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var) || var->varlevelsup != 0 || var->varno != separation->table)
		return expression_tree_mutator(node, use_joined, argument);
	var = copyObject(var);
	var->varno = separation->join->table;
	var = (Var *) hm_nulled_by_join((Node *) var, var->varno, separation->join->join);
	var->varlevelsup = 1;
	return (Node *) var;
}

/* Whether conditions refer to the columns of a join, as USING makes them. */
static bool
has_join_columns(const Query *select, List *conditions)
{
	Relids tables = pull_varnos(NULL, (Node *) conditions);
	int table = -1;

	while ((table = bms_next_member(tables, table)) >= 0)
	{
		if (rt_fetch(table, select->rtable)->rtekind != RTE_RELATION)
			return true;
	}
	return false;
}

/*
 * Join one of these tables of a sub-select to the query, if that has a row of it at most.  The
 * conditions that are left must not be true without such a row.
 */
static bool
separate_table(SubselectJoins *joins, Separation *separation, List *conditions)
{
	Query *rows = rows_of_table(separation->select, separation->table, conditions);
	AttrNumber column = joinable_column(joins->query, rows, NIL);
	List *left = NIL;
	ListCell *cell;

	if (column == 0)
		return false;
	foreach (cell, conditions)
	{
		if (!bms_is_subset(pull_varnos(NULL, lfirst(cell)), bms_make_singleton(separation->table)))
			left = lappend(left, lfirst(cell));
	}
	if (!bms_is_member(separation->table, find_nonnullable_rels((Node *) left)))
		return false;
	separation->join = find_join(joins, rows, column, NIL);
	if (separation->join == NULL)
		return false;
	separation->select->jointree->quals = use_joined((Node *) make_ands_explicit(left), separation);
	return true;
}

void
hm_join_exists(SubselectJoins *joins, SubLink *link)
{
	Separation separation = {.select = rows_of_exists(castNode(Query, link->subselect))};
	Query *select = separation.select;
	List *tables = NIL;
	List *conditions = NIL;
	ListCell *cell;

	if (list_length(select->rtable) < 2 || !is_plain(select) ||
		!flatten_joins((Node *) select->jointree, &tables, &conditions) ||
		list_length(tables) < 2 || has_join_columns(select, conditions))
		return;
	foreach (cell, tables)
	{
		separation.table = lfirst_node(RangeTblRef, cell)->rtindex;
		if (separate_table(joins, &separation, conditions))
		{
			select->jointree->fromlist = list_delete_ptr(tables, lfirst(cell));
			link->subselect = (Node *) select;
			return;
		}
	}
}
