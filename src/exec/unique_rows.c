/*
 * unique_rows.c
 *		Whether a query finds at most one row, because conditions fix all columns of a unique index.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "exec/planner.h"

/* Whether an expression is a column of the only relation of its query, as it is. */
static bool
is_column(Node *expr, AttrNumber column)
{
	Var *var = (Var *) expr;

	while (IsA(var, RelabelType))
		var = (Var *) ((RelabelType *) var)->arg;
	return IsA(var, Var) && var->varlevelsup == 0 && var->varattno == column;
}

bool
hm_fixes_column(Node *condition, Relation index, int column)
{
	OpExpr *clause = (OpExpr *) condition;
	AttrNumber attribute = index->rd_index->indkey.values[column];
	Oid collation = index->rd_indcollation[column];
	Node *value;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2 || attribute <= 0 ||
		(OidIsValid(collation) && collation != clause->inputcollid) ||
		get_op_opfamily_strategy(clause->opno, index->rd_opfamily[column]) != BTEqualStrategyNumber)
		return false;
	if (is_column(linitial(clause->args), attribute))
		value = lsecond(clause->args);
	else if (is_column(lsecond(clause->args), attribute))
		value = linitial(clause->args);
	else
		return false;
	return !contain_vars_of_level(value, 0) && !contain_volatile_functions(value);
}

/*
 * Whether all rows that the query's snapshot sees have been subject to an index.  A snapshot that
 * is older may see rows that are equal.
 */
static bool
is_old_enough(Relation table, Relation index)
{
	TransactionId built = HeapTupleHeaderGetXmin(index->rd_indextuple->t_data);

	if (!ActiveSnapshotSet())
		return false;
	if (TransactionIdIsCurrentTransactionId(built))
		return table->rd_createSubid != InvalidSubTransactionId || !IsolationUsesXactSnapshot();
	return !XidInMVCCSnapshot(built, GetActiveSnapshot());
}

/* Whether conditions fix all columns of a unique index. */
static bool
fix_index(List *conditions, Relation table, Relation index)
{
	if (!index->rd_index->indisunique || !index->rd_index->indimmediate ||
		!index->rd_index->indisvalid || index->rd_index->indcheckxmin ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) ||
		!is_old_enough(table, index))
		return false;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		bool fixed = false;
		ListCell *cell;

		foreach (cell, conditions)
			fixed |= hm_fixes_column(lfirst(cell), index, i);
		if (!fixed)
			return false;
	}
	return true;
}

RangeTblEntry *
hm_only_table(const Query *query)
{
	RangeTblRef *ref;
	RangeTblEntry *rte;

	if (list_length(query->jointree->fromlist) != 1)
		return NULL;
	ref = linitial(query->jointree->fromlist);
	if (!IsA(ref, RangeTblRef))
		return NULL;
	rte = rt_fetch(ref->rtindex, query->rtable);
	if (rte->rtekind != RTE_RELATION || rte->tablesample != NULL)
		return NULL;
	if (rte->relkind == RELKIND_PARTITIONED_TABLE)
		return rte->inh ? rte : NULL;
	if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW)
		return NULL;
	return rte->inh && has_subclass(rte->relid) ? NULL : rte;
}

AttrNumber
hm_unique_column(const Query *query)
{
	RangeTblEntry *rte = hm_only_table(query);
	List *conditions = make_ands_implicit((Expr *) query->jointree->quals);
	AttrNumber column = 0;
	Relation table;
	ListCell *cell;

	if (rte == NULL || conditions == NIL)
		return 0;

	/* The parser or the plan cache has locked it. */
	table = table_open(rte->relid, NoLock);
	foreach (cell, hm_has_virtual_columns(table) ? NIL : RelationGetIndexList(table))
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		if (column == 0 && fix_index(conditions, table, index))
			column = index->rd_index->indkey.values[0];
		index_close(index, NoLock);
	}
	table_close(table, NoLock);
	return column;
}
