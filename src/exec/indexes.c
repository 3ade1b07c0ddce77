/*
 * indexes.c
 *		Planning: the indexes that lookups can search.
 *
 * These are harmonia indexes and PostgreSQL's btrees.  A lookup searches a btree by keys that are
 * made of its first columns (am/keys/btreekeys.c), so the planner halves get a description of the
 * index as if it had no others.
 */
#include "postgres.h"

#include "catalog/pg_am.h"

#include "exec/planner.h"

bool
hm_can_use_index(const IndexOptInfo *index)
{
	return (void *) index->amcostestimate == (void *) hm_cost_estimate && !index->hypothetical &&
		   (index->indpred == NIL || index->predOK);
}

bool
hm_has_own_index(const RelOptInfo *rel)
{
	ListCell *cell;

	foreach (cell, rel->indexlist)
	{
		if (hm_can_use_index(lfirst_node(IndexOptInfo, cell)))
			return true;
	}
	return false;
}

/* How many of a btree's columns lookups can use; 0 if the index is none, or not of use. */
static int
btree_columns(const IndexOptInfo *index)
{
	if (!hm_enable_btree_lookup || index->relam != BTREE_AM_OID || index->hypothetical ||
		(index->indpred != NIL && !index->predOK))
		return 0;
	return hm_btree_columns(index->opfamily, index->opcintype, index->nkeycolumns);
}

/* Whether the key of a column, counted from 0, gives its value back. */
static bool
is_returned(const IndexOptInfo *index, int column, bool composite)
{
	return index->canreturn[column] &&
		   hm_column_key_type(composite, hm_index_type_id(index, column))->returnable;
}

/* A description of a btree, as if it had its first columns alone. */
static IndexOptInfo *
describe_btree(const IndexOptInfo *index, int columns)
{
	IndexOptInfo *result = makeNode(IndexOptInfo);

	*result = *index;
	result->unique = index->unique && columns == index->nkeycolumns;
	result->ncolumns = result->nkeycolumns = columns;
	result->canreturn = palloc(columns * sizeof(bool));
	for (int i = 0; i < columns; i++)
		result->canreturn[i] = is_returned(index, i, columns > 1);
	return result;
}

List *
hm_indexes(const RelOptInfo *rel)
{
	List *result = NIL;
	ListCell *cell;

	foreach (cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		int columns = btree_columns(index);

		if (columns > 0)
			result = lappend(result, describe_btree(index, columns));
		else if (hm_can_use_index(index))
			result = lappend(result, index);
	}
	return result;
}

bool
hm_has_index(const RelOptInfo *rel)
{
	ListCell *cell;

	foreach (cell, rel->indexlist)
	{
		const IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (hm_can_use_index(index) || btree_columns(index) > 0)
			return true;
	}
	return false;
}
