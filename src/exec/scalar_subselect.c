/*
 * scalar_subselect.c
 *		Sub-selects by a unique key in expressions to left joins.
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
 * EXISTS tells whether the join has found a row.  So does IN, where NULL is as good as false.
 * Those that a WHERE clause ANDs are left to PostgreSQL, which makes them semijoins and antijoins.
 *
 * An EXISTS over a join, of which one table has a unique key, is separated: that table is joined,
 * and EXISTS is about the others.  So the rows of the query need not wait for the whole join:
 *
 *		SELECT FROM o WHERE EXISTS (SELECT FROM dim d JOIN t ON t.k = d.x WHERE d.id = o.dim)
 *		SELECT FROM o LEFT JOIN dim d ON d.id = o.dim WHERE EXISTS (SELECT FROM t WHERE t.k = d.x)
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
 * In an arm of a CASE, an OR or an AND, a sub-select is evaluated for some of the rows alone.  If
 * these are few by the tables' statistics, it is left alone.  Otherwise the join's key is NULL for
 * the other rows, so that nothing is looked up:
 *
 *		SELECT FROM o WHERE o.x = 1 OR EXISTS (SELECT FROM dim d WHERE d.id = o.dim)
 *		SELECT FROM o LEFT JOIN dim d ON d.id = CASE WHEN (o.x = 1) IS NOT TRUE THEN o.dim END
 *			WHERE o.x = 1 OR d.id IS NOT NULL
 *
 * A sub-select is left alone, too, if only the first rows are wanted.
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/planner.h"
#include "exec/subselect_joins.h"

/* Sub-selects of fewer rows than that are left alone. */
#define FEW_ROWS 100

/* Which of its rows a query's select list is evaluated for. */
typedef enum RowsWanted
{
	ALL_ROWS,
	FIRST_IN_ORDER, /* the first ones, after all have been sorted */
	FIRST_ROWS      /* the first ones */
} RowsWanted;

typedef struct Rewrite
{
	Query *query;
	SubselectJoins joins;
	List *group_exprs;  /* as they were */
	bool is_above;      /* what is looked at is evaluated for groups, not for rows */
	List *guards;       /* it is evaluated only where all of these are true; a NULL is one that
						* cannot be evaluated elsewhere */
	bool null_is_false; /* its result may be false in place of NULL */
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
 *		Where sub-selects are looked for
 * ----------------------------------------------------------------
 */

/*
 * What is looked at next is evaluated only where a test of this condition is true.
 */
static void
guard_by(Rewrite *rewrite, Expr *condition, BoolTestType type)
{
	BooleanTest *test = NULL;

	if (!contain_volatile_functions((Node *) condition) && !hm_may_fail((Node *) condition, false))
	{
		test = makeNode(BooleanTest);
		test->arg = copyObject(condition);
		test->booltesttype = type;
		test->location = -1;
	}
	rewrite->guards = lappend(list_copy(rewrite->guards), test);
}

/* Rewrite an expression's part, in place of which false may be NULL or not. */
static Node *
rewrite_part(void *part, bool null_is_false, Rewrite *rewrite)
{
	bool outer = rewrite->null_is_false;

	rewrite->null_is_false = null_is_false;
	part = rewrite_node(part, rewrite);
	rewrite->null_is_false = outer;
	return part;
}

/* Rewrite the arms of an AND or an OR: each is evaluated if those before it do not decide. */
static void
rewrite_arms(BoolExpr *expr, Rewrite *rewrite)
{
	BoolTestType undecided = expr->boolop == OR_EXPR ? IS_NOT_TRUE : IS_NOT_FALSE;
	ListCell *cell;

	foreach (cell, expr->args)
	{
		lfirst(cell) = rewrite_part(lfirst(cell), rewrite->null_is_false, rewrite);
		guard_by(rewrite, lfirst(cell), undecided);
	}
}

/* Rewrite a CASE: each of its results is evaluated if its condition is the first that is true. */
static void
rewrite_case(CaseExpr *expr, Rewrite *rewrite)
{
	ListCell *cell;

	expr->arg = (Expr *) rewrite_part(expr->arg, false, rewrite);
	foreach (cell, expr->args)
	{
		CaseWhen *when = lfirst_node(CaseWhen, cell);
		List *guards;

		when->expr = (Expr *) rewrite_part(when->expr, expr->arg == NULL, rewrite);
		guards = rewrite->guards;
		guard_by(rewrite, when->expr, IS_TRUE);
		when->result = (Expr *) rewrite_part(when->result, rewrite->null_is_false, rewrite);
		rewrite->guards = guards;
		guard_by(rewrite, when->expr, IS_NOT_TRUE);
	}
	expr->defresult = (Expr *) rewrite_part(expr->defresult, rewrite->null_is_false, rewrite);
}

/*
 * Rewrite in place an expression that does not evaluate all of its parts.  Returns whether it is
 * such an expression.
 */
static bool
rewrite_conditional(Node *node, Rewrite *rewrite)
{
	List *guards = rewrite->guards;

	if (IsA(node, CaseExpr))
		rewrite_case((CaseExpr *) node, rewrite);
	else if (IsA(node, BoolExpr) && ((BoolExpr *) node)->boolop != NOT_EXPR)
		rewrite_arms((BoolExpr *) node, rewrite);
	else if (IsA(node, CoalesceExpr))
	{
		List *args = ((CoalesceExpr *) node)->args;

		linitial(args) = rewrite_part(linitial(args), false, rewrite);
	}
	else if (IsA(node, Aggref) && ((Aggref *) node)->aggfilter != NULL)
	{
		Aggref *aggregate = (Aggref *) node;

		aggregate->aggfilter = (Expr *) rewrite_part(aggregate->aggfilter, true, rewrite);
	}
	else
		return false;
	rewrite->guards = guards;
	return true;
}

/* A mutator, which changes nodes in place as well. */
static Node *
rewrite_node(Node *node, void *argument)
{
	Rewrite *rewrite = argument;
	bool null_is_false = rewrite->null_is_false;

	if (node == NULL || IsA(node, Query))
		return node;
	if (rewrite->is_above && ((IsA(node, Aggref) && ((Aggref *) node)->agglevelsup == 0) ||
							  list_member(rewrite->group_exprs, node)))
	{
		/* These are evaluated for all rows. */
		List *guards = rewrite->guards;

		rewrite->is_above = false;
		rewrite->guards = NIL;
		node = rewrite_part(node, false, rewrite);
		rewrite->guards = guards;
		rewrite->is_above = true;
		return node;
	}
	if (!rewrite->is_above && IsA(node, SubLink))
	{
		const SubLink *link = (SubLink *) node;
		Node *joined =
			hm_join_sublink(&rewrite->joins, link, rewrite->guards, rewrite->null_is_false);

		if (joined == NULL && link->subLinkType == EXPR_SUBLINK && rewrite->guards == NIL)
			joined = hm_join_latest(rewrite->query, castNode(Query, link->subselect));
		if (joined != NULL)
			return joined;
	}
	if (rewrite_conditional(node, rewrite))
		return node;
	rewrite->null_is_false = false;
	node = expression_tree_mutator(node, rewrite_node, rewrite);
	rewrite->null_is_false = null_is_false;
	return node;
}

/* Whether PostgreSQL makes a condition a join. */
static bool
is_pulled_up(Node *condition)
{
	SubLink *link =
		(SubLink *) (is_notclause(condition) ? (Node *) get_notclausearg(condition) : condition);

	return IsA(link, SubLink) && link->subLinkType == EXISTS_SUBLINK;
}

/* Rewrite the conditions that a WHERE clause ANDs: the planner puts each where it can. */
static void
rewrite_conditions(Rewrite *rewrite)
{
	List *conditions = conditions_of(rewrite->query);
	ListCell *cell;

	foreach (cell, conditions)
	{
		if (IsA(lfirst(cell), SubLink) && ((SubLink *) lfirst(cell))->subLinkType == EXISTS_SUBLINK)
			hm_join_exists(&rewrite->joins, lfirst(cell));
		else if (!is_pulled_up(lfirst(cell)))
			lfirst(cell) = rewrite_part(lfirst(cell), !IsA(lfirst(cell), SubLink), rewrite);
	}
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
	Rewrite rewrite = {.query = query, .joins = {.query = query}};
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
