/*
 * row_lists.c
 *		Lists of rows to semijoins: (a, b) IN ((1, 2), (3, 4), ...), and ORs that say the same.
 *
 * PostgreSQL plans such a list as an OR of ANDs.  Each arm is a condition of its own, with an
 * expression to evaluate, a selectivity, and paths: 6,000 pairs take 200 ms to plan and 100 ms to
 * look up, 2 ms of which are the lookup.  A semijoin with a list of VALUES takes a tenth.
 * So such conditions are rewritten before a query is planned, if a lookup join may serve it:
 *
 *		(a = 1 AND b = 2) OR (a = 3 AND b = 4) OR ...
 *		(a, b) IN (VALUES (1, 2), (3, 4), ...)
 *
 * In a WHERE clause, among conditions that it ANDs, unknown is as good as false.  So NULLs make no
 * difference.  As for NOT IN (not_in.c), nothing moves from one query level to another, and
 * queries that lock or change rows stay as they are.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_proc.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/planner.h"

/*
 * Shorter lists take no longer to plan as they are: at 60 pairs both ways took 5 ms.
 */
#define LEAST_ROWS 64

/* A column of a list, with what its values are compared by. */
typedef struct ListColumn
{
	Node *expr; /* a column of the query */
	Oid operator;
	Oid collation;
	Oid type;          /* of the values: the widest one */
	AttrNumber number; /* of the table's column */
} ListColumn;

typedef struct RowList
{
	int count;
	ListColumn columns[HM_MAX_KEY_COLUMNS];
	List *rows; /* a list for each row */
} RowList;

/* ----------------------------------------------------------------
 *		From an OR clause to a list
 * ----------------------------------------------------------------
 */

/* The column that an expression is, or NULL. */
static Var *
column_of(Node *expr)
{
	Var *var = (Var *) expr;

	while (IsA(var, RelabelType))
		var = (Var *) ((RelabelType *) var)->arg;
	return IsA(var, Var) && var->varlevelsup == 0 && var->varattno > 0 ? var : NULL;
}

/* Whether an expression is a constant or a parameter, cast or not. */
static bool
is_value(Node *expr)
{
	if (IsA(expr, RelabelType))
		return is_value((Node *) ((RelabelType *) expr)->arg);
	if (IsA(expr, FuncExpr))
		return ((FuncExpr *) expr)->funcformat != COERCE_EXPLICIT_CALL &&
			   list_length(((FuncExpr *) expr)->args) == 1 &&
			   is_value(linitial(((FuncExpr *) expr)->args)) &&
			   func_volatile(((FuncExpr *) expr)->funcid) == PROVOLATILE_IMMUTABLE &&
			   !((FuncExpr *) expr)->funcretset;
	return IsA(expr, Const) || (IsA(expr, Param) && ((Param *) expr)->paramkind == PARAM_EXTERN);
}

/* Whether a clause compares a column with a value.  If so, returns both. */
static bool
get_comparison(Node *clause, ListColumn *column, Node **value)
{
	OpExpr *operation = (OpExpr *) clause;

	if (!IsA(clause, OpExpr) || list_length(operation->args) != 2)
		return false;
	column->operator= operation->opno;
	column->collation = operation->inputcollid;
	column->expr = linitial(operation->args);
	*value = lsecond(operation->args);
	if (column_of(column->expr) == NULL)
	{
		column->operator= get_commutator(operation->opno);
		column->expr = lsecond(operation->args);
		*value = linitial(operation->args);
	}
	column->type = exprType(*value);
	return column_of(column->expr) != NULL && is_value(*value) && OidIsValid(column->operator);
}

/* The number of a list's column, or that of a new one if there is none, or -1. */
static int
find_column(RowList *list, const ListColumn *column)
{
	for (int i = 0; i < list->count; i++)
	{
		if (equal(list->columns[i].expr, column->expr))
			return list->columns[i].collation == column->collation ? i : -1;
	}
	if (list->rows != NIL || list->count == HM_MAX_KEY_COLUMNS)
		return -1;
	list->columns[list->count] = *column;
	return list->count++;
}

/* Whether two operators are the equality of one operator family, for different types. */
static bool
are_same_equality(Oid one, Oid other)
{
	ListCell *cell;

	foreach (cell, get_mergejoin_opfamilies(one))
	{
		if (get_op_opfamily_strategy(other, lfirst_oid(cell)) == BTEqualStrategyNumber)
			return true;
	}
	return false;
}

/*
 * Give a column's values the type of another one, if that is wider.  Returns false if the operators
 * do not agree.  Casts of dates and times may fail, so their types have to be the same.
 */
static bool
widen(ListColumn *column, const ListColumn *other)
{
	if (column->type == other->type)
		return column->operator== other->operator;
	if (TypeCategory(column->type) != TYPCATEGORY_NUMERIC ||
		TypeCategory(other->type) != TYPCATEGORY_NUMERIC)
		return false;
	if (!are_same_equality(column->operator, other->operator))
		return false;
	if (!can_coerce_type(1, &column->type, &other->type, COERCION_IMPLICIT))
		return can_coerce_type(1, &other->type, &column->type, COERCION_IMPLICIT);
	*column = *other;
	return true;
}

/* Add an arm of an OR to a list.  Returns false if it is no row of the list's columns. */
static bool
add_arm(RowList *list, Node *arm)
{
	Node *values[HM_MAX_KEY_COLUMNS] = {NULL};
	List *row = NIL;
	ListCell *cell;

	if (!is_andclause(arm))
		return false;
	foreach (cell, ((BoolExpr *) arm)->args)
	{
		ListColumn column;
		Node *value;
		int i;

		if (!get_comparison(lfirst(cell), &column, &value))
			return false;
		i = find_column(list, &column);
		if (i < 0 || values[i] != NULL || !widen(&list->columns[i], &column))
			return false;
		values[i] = value;
	}
	for (int i = 0; i < list->count; i++)
	{
		if (values[i] == NULL)
			return false;
		row = lappend(row, values[i]);
	}
	list->rows = lappend(list->rows, row);
	return list->count > 1;
}

/*
 * The arms of an OR, in any order.  A list of rows is one of two arms, the first of which is the OR
 * of all rows before; so this does not recurse.
 */
static List *
arms_of(Node *clause)
{
	List *nodes = list_make1(clause);
	List *arms = NIL;

	while (nodes != NIL)
	{
		Node *node = llast(nodes);

		nodes = list_delete_last(nodes);
		if (is_orclause(node))
			nodes = list_concat(nodes, ((BoolExpr *) node)->args);
		else
			arms = lappend(arms, node);
	}
	return arms;
}

/* Cast values to the types of their columns. */
static void
cast_values(RowList *list)
{
	ListCell *row, *cell;

	foreach (row, list->rows)
	{
		foreach (cell, (List *) lfirst(row))
		{
			Node *value = lfirst(cell);
			Oid type = list->columns[foreach_current_index(cell)].type;

			if (exprType(value) == type)
				continue;
			value = coerce_to_target_type(NULL, value, exprType(value), type, -1, COERCION_IMPLICIT,
										  COERCE_IMPLICIT_CAST, -1);
			lfirst(cell) = eval_const_expressions(NULL, value);
		}
	}
}

/* ----------------------------------------------------------------
 *		Which indexes can serve it
 * ----------------------------------------------------------------
 */

/* Whether a sub-select becomes part of the query around it, so that its tables can be joined. */
static bool
is_pulled_up(const RangeTblEntry *rte)
{
	const Query *query = rte->subquery;

	return !rte->security_barrier && query->setOperations == NULL && !query->hasAggs &&
		   !query->hasWindowFuncs && !query->hasTargetSRFs && query->groupClause == NIL &&
		   query->groupingSets == NIL && query->distinctClause == NIL &&
		   query->limitCount == NULL && query->limitOffset == NULL && query->rowMarks == NIL &&
		   query->cteList == NIL;
}

/*
 * Find the column of a table that a column of a list is, in joins, views and sub-selects.  Returns
 * the table, or NULL if there is none.
 */
static const RangeTblEntry *
find_table(const Query *query, ListColumn *column)
{
	const Var *var = column_of(column->expr);

	while (var != NULL)
	{
		RangeTblEntry *rte = rt_fetch(var->varno, query->rtable);

		column->number = var->varattno;
		if (rte->rtekind == RTE_RELATION)
			return rte;
		if (rte->rtekind == RTE_JOIN)
			var = column_of(list_nth(rte->joinaliasvars, var->varattno - 1));
		else if (rte->rtekind == RTE_SUBQUERY && is_pulled_up(rte))
		{
			query = rte->subquery;
			var = column_of(
				(Node *) list_nth_node(TargetEntry, query->targetList, var->varattno - 1)->expr);
		}
		else
			return NULL;
	}
	return NULL;
}

/* The table that all columns of a list are of, or NULL. */
static const RangeTblEntry *
table_of(const Query *query, RowList *list)
{
	const RangeTblEntry *table = find_table(query, &list->columns[0]);

	for (int i = 1; i < list->count; i++)
	{
		if (find_table(query, &list->columns[i]) != table)
			return NULL;
	}
	return table;
}

/* Whether one of a list's columns is a column of an index, and is compared by its equality. */
static bool
has_key(const RowList *list, Relation index, int key)
{
	for (int i = 0; i < list->count; i++)
	{
		const ListColumn *column = &list->columns[i];

		if (column->number == index->rd_index->indkey.values[key])
			return get_op_opfamily_strategy(column->operator, index->rd_opfamily[key]) ==
					   BTEqualStrategyNumber &&
				   (!OidIsValid(index->rd_indcollation[key]) ||
					index->rd_indcollation[key] == column->collation);
	}
	return false;
}

/* Whether a harmonia index begins with a list's columns, in any order. */
static bool
is_indexed(const RowList *list, Oid relid)
{
	Relation table = table_open(relid, NoLock);
	bool found = false;
	ListCell *cell;

	foreach (cell, RelationGetIndexList(table))
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);
		bool matches = (void *) index->rd_indam->amcostestimate == (void *) hm_cost_estimate &&
					   index->rd_index->indisvalid &&
					   heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) &&
					   IndexRelationGetNumberOfKeyAttributes(index) >= list->count;

		for (int i = 0; matches && i < list->count; i++)
			matches = has_key(list, index, i);
		found |= matches;
		index_close(index, NoLock);
	}
	table_close(table, NoLock);
	return found;
}

/* ----------------------------------------------------------------
 *		From a list to a semijoin
 * ----------------------------------------------------------------
 */

/* SELECT * FROM (VALUES ...) */
static Query *
make_select(const RowList *list)
{
	Query *select = makeNode(Query);
	ParseState *state = make_parsestate(NULL);
	RangeTblRef *reference = makeNode(RangeTblRef);
	List *types = NIL;
	List *modifiers = NIL;
	List *collations = NIL;

	for (int i = 0; i < list->count; i++)
	{
		const ListColumn *column = &list->columns[i];
		Var *var = makeVar(1, (AttrNumber) (i + 1), column->type, -1, column->collation, 0);

		types = lappend_oid(types, column->type);
		modifiers = lappend_int(modifiers, -1);
		collations = lappend_oid(collations, column->collation);
		select->targetList =
			lappend(select->targetList, makeTargetEntry((Expr *) var, (AttrNumber) (i + 1),
														psprintf("column%d", i + 1), false));
	}
	addRangeTableEntryForValues(state, list->rows, types, modifiers, collations, NULL, false, true);
	reference->rtindex = 1;
	select->commandType = CMD_SELECT;
	select->canSetTag = true;
	select->rtable = state->p_rtable;
	select->jointree = makeFromExpr(list_make1(reference), NULL);
	free_parsestate(state);
	return select;
}

/* (a, b, ...) IN (select) */
static Node *
make_link(const RowList *list, Query *select)
{
	SubLink *link = makeNode(SubLink);
	List *equalities = NIL;

	for (int i = 0; i < list->count; i++)
	{
		const ListColumn *column = &list->columns[i];
		Param *param = makeNode(Param);
		Expr *equality;

		param->paramkind = PARAM_SUBLINK;
		param->paramid = i + 1;
		param->paramtype = column->type;
		param->paramtypmod = -1;
		param->paramcollid = column->collation;
		param->location = -1;
		equality =
			make_opclause(column->operator, BOOLOID, false, (Expr *) copyObject(column->expr),
						  (Expr *) param, InvalidOid, column->collation);
		set_opfuncid((OpExpr *) equality);
		equalities = lappend(equalities, equality);
	}
	link->subLinkType = ANY_SUBLINK;
	link->testexpr = (Node *) make_andclause(equalities);
	link->operName = list_make1(makeString("="));
	link->subselect = (Node *) select;
	link->location = -1;
	return (Node *) link;
}

/* A condition of a query's WHERE clause, rewritten if it is a list that can be. */
static Node *
rewrite_condition(Query *query, Node *condition)
{
	RowList list = {0};
	List *arms = is_orclause(condition) ? arms_of(condition) : NIL;
	const RangeTblEntry *table;
	ListCell *cell;

	if (list_length(arms) < LEAST_ROWS)
		return condition;
	foreach (cell, arms)
	{
		if (!add_arm(&list, lfirst(cell)))
			return condition;
	}
	table = table_of(query, &list);
	if (table == NULL || !is_indexed(&list, table->relid))
		return condition;
	cast_values(&list);
	query->hasSubLinks = true;
	return make_link(&list, make_select(&list));
}

/* Rewrite the conditions that a WHERE clause ANDs. */
static Node *
rewrite_conditions(Query *query, Node *quals)
{
	ListCell *cell;

	if (quals == NULL || !is_andclause(quals))
		return quals == NULL ? NULL : rewrite_condition(query, quals);
	foreach (cell, ((BoolExpr *) quals)->args)
		lfirst(cell) = rewrite_conditions(query, lfirst(cell));
	return quals;
}

/* Rewrite the queries in an expression. */
static bool
rewrite_queries(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		hm_rewrite_row_lists((Query *) node);
		return false;
	}
	return expression_tree_walker(node, rewrite_queries, context);
}

void
hm_rewrite_row_lists(Query *query)
{
	if ((query->commandType != CMD_SELECT && query->commandType != CMD_INSERT) ||
		query->rowMarks != NIL || query->hasModifyingCTE)
		return;
	(void) query_tree_walker(query, rewrite_queries, NULL, 0);
	if (query->commandType == CMD_SELECT)
		query->jointree->quals = rewrite_conditions(query, query->jointree->quals);
}
