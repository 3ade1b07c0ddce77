/*
 * order.c
 *		Which indexes on several columns keep the order of these.
 *
 * PostgreSQL believes that an index keeps order if the operator families of all its columns
 * have "less than".  Those of types without order have not.  Composite keys have more to them:
 * fields may be cut, NULL may share a value with a key, and storage has one direction for all
 * columns.  So the planner's description of such an index is corrected.
 *
 * What the planner believes of order has to be exact, as there is no recheck of it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_index.h"
#include "nodes/pathnodes.h"

#include "am/internal.h"
#include "compat.h"

static hm_relation_hook_type next_relation_hook = NULL;

/* Whether a column of an index, counted from 0, is never NULL.  Of an expression nobody knows. */
static bool
is_not_null(Relation index, Relation table, int column)
{
	AttrNumber	attribute = index->rd_index->indkey.values[column];

	return attribute > 0 && hm_attribute_is_not_null(RelationGetDescr(table), attribute - 1);
}

/*
 * Whether a field's values sort as its column's do, in an index that is read backwards if
 * descending is true.  NULL of a field that is whole has the greatest value.
 */
static bool
field_keeps_order(const HmField *field, int16 option, bool descending, bool not_null)
{
	bool		nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;

	if (!field->type->ordered || !hm_field_is_ordered(field) ||
		((option & INDOPTION_DESC) != 0) != descending)
		return false;
	return not_null || (!hm_field_shares_null(field) && nulls_first == descending);
}

bool
hm_keeps_order(Relation index, Relation table)
{
	bool		descending = (index->rd_indoption[0] & INDOPTION_DESC) != 0;
	HmFields	fields;

	if (!hm_is_composite(index))
		return hm_key_type(index)->ordered;
	if (!hm_fields_try(index, &fields))
		return false;

	/* Entries of one key are in the order of the included columns, which nobody sees. */
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		if (!field_keeps_order(&fields.fields[i], index->rd_indoption[i], descending,
							   is_not_null(index, table, i)))
			return false;
	}
	return true;
}

/* The same for an index that the planner has opened, and so locked, with its table. */
static bool
planned_index_keeps_order(const IndexOptInfo *info)
{
	Relation	index = index_open(info->indexoid, NoLock);
	Relation	table = table_open(index->rd_index->indrelid, NoLock);
	bool		result = hm_keeps_order(index, table);

	table_close(table, NoLock);
	index_close(index, NoLock);
	return result;
}

static void
describe_relation(HM_RELATION_HOOK_PARAMETERS)
{
	ListCell   *cell;

	if (next_relation_hook)
		next_relation_hook(HM_RELATION_HOOK_ARGUMENTS);
	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if ((void *) index->amcostestimate != (void *) hm_cost_estimate || index->ncolumns == 1)
			continue;
		if (index->sortopfamily != NULL &&
			(index->hypothetical || !planned_index_keeps_order(index)))
			index->sortopfamily = NULL;

		/* btcostestimate() looks at it, and not only if the index has an order. */
		if (index->reverse_sort == NULL)
			index->reverse_sort = palloc0(sizeof(bool) * index->nkeycolumns);
	}
}

/*
 * The hook is there in time: the planner opens an index, which loads this library, before it
 * calls the hook.
 */
void
hm_order_init(void)
{
	next_relation_hook = hm_relation_hook;
	hm_relation_hook = describe_relation;
}
