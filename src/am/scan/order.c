/*
 * order.c
 *		Which indexes keep the order of their columns.
 *
 * PostgreSQL believes that an index keeps order if the operator families of all its columns
 * have "less than".  Those of types without order have not.  That of texts in the order of
 * collation C has it, for ranges, but texts that begin alike are in no order.  Composite keys have
 * more to them: fields may be cut, NULL may share a value with a key, and directions are what the
 * metapage says, which may be other than the columns'.  So the planner's description of such an
 * index is corrected.
 *
 * What the planner believes of order has to be exact, as there is no recheck of it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_index.h"
#include "nodes/pathnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "am/scan/scan.h"
#include "compat.h"

static hm_relation_hook_type next_relation_hook = NULL;

/*
 * Whether a field's values sort as a column with this option does, in an index whose first column
 * has the option "first".
 */
static bool
field_keeps_order(const HmField *field, int16 first, int16 option, bool not_null)
{
	if (!field->type->ordered || !hm_field_is_ordered(field) ||
		field->descending != hm_option_is_descending(first, option))
		return false;
	return not_null || (hm_field_tells_null(field) &&
						field->nulls_low == hm_option_has_nulls_low(first, option));
}

/*
 * hm_keeps_order() for a composite key, if it is known which key columns are not NULL in the rows
 * that a scan returns.
 */
static bool
fields_keep_order(const HmFields *fields, Relation index, const bool *not_null)
{
	const int16 *options = index->rd_indoption;

	/* Entries of one key are in the order of the included columns, which nobody sees. */
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		if (!field_keeps_order(&fields->fields[i], options[0], options[i], not_null[i]))
			return false;
	}
	return true;
}

/* The same if all key columns are NOT NULL, or none. */
static bool
fields_keep_order_if(const HmFields *fields, Relation index, bool all_not_null)
{
	bool not_null[INDEX_MAX_KEYS];

	memset(not_null, all_not_null, sizeof(not_null));
	return fields_keep_order(fields, index, not_null);
}

bool
hm_is_not_null(Relation table, AttrNumber column)
{
	HeapTuple tuple;
	TransactionId declared;

	if (column <= 0 || !hm_attribute_not_null(RelationGetDescr(table), column) ||
		!ActiveSnapshotSet())
		return false;
	tuple =
		SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(table)), Int16GetDatum(column));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for attribute %d of relation %u", column,
			 RelationGetRelid(table));
	declared = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	if (TransactionIdIsCurrentTransactionId(declared))
		return table->rd_createSubid != InvalidSubTransactionId || !IsolationUsesXactSnapshot();
	return !XidInMVCCSnapshot(declared, GetActiveSnapshot());
}

/* Note which key columns of an index are NOT NULL.  Of expressions nobody knows. */
static void
note_constraints(Relation index, Relation table, bool *not_null)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		AttrNumber attribute = index->rd_index->indkey.values[i];

		not_null[i] = hm_is_not_null(table, attribute);
	}
}

bool
hm_keeps_order(Relation index, Relation table)
{
	HmFields fields;
	bool not_null[INDEX_MAX_KEYS];

	if (!hm_is_composite(index))
		return hm_key_type(index)->ordered;
	if (!hm_fields_try(index, &fields))
		return false;
	note_constraints(index, table, not_null);
	return fields_keep_order(&fields, index, not_null);
}

/*
 * Whether the type of an index's only column has an order, without a look at the index.  There is
 * no key type if the type is not supported, as in an index that is not built.
 */
static bool
type_is_ordered(Oid family, Oid type_oid)
{
	const HmKeyType *type = hm_key_type_lookup(hm_type_id_of_class(family, type_oid));

	return type != NULL && type->ordered;
}

bool
hm_may_keep_order(Oid index_oid, int column)
{
	Oid table_oid = IndexGetRelation(index_oid, true);
	Relation table = OidIsValid(table_oid) ? try_relation_open(table_oid, AccessShareLock) : NULL;
	Relation index = table != NULL ? try_relation_open(index_oid, AccessShareLock) : NULL;
	bool result = true;

	if (index != NULL && index->rd_rel->relkind == RELKIND_INDEX &&
		!RELATION_IS_OTHER_TEMP(index) && column <= IndexRelationGetNumberOfKeyAttributes(index))
		result = hm_is_composite(index) ?
					 hm_keeps_order(index, table) :
					 type_is_ordered(index->rd_opfamily[0], index->rd_opcintype[0]);
	if (index != NULL)
		relation_close(index, AccessShareLock);
	if (table != NULL)
		relation_close(table, AccessShareLock);
	return result;
}

/* ----------------------------------------------------------------
 *		The planner
 *
 * A scan returns rows in order, too, if those with NULL in a column are no entries of the index, or
 * are filtered out by the scan itself.
 * ----------------------------------------------------------------
 */

/*
 * Add the conditions of a join tree that all rows of the query fulfil: no outer join is above them.
 */
static void
collect_conditions(Node *node, List **conditions)
{
	if (IsA(node, FromExpr))
	{
		FromExpr *from = (FromExpr *) node;
		ListCell *cell;

		*conditions = list_concat(*conditions, (List *) from->quals);
		foreach (cell, from->fromlist)
			collect_conditions(lfirst(cell), conditions);
	}
	else if (IsA(node, JoinExpr) && ((JoinExpr *) node)->jointype == JOIN_INNER)
	{
		JoinExpr *join = (JoinExpr *) node;

		*conditions = list_concat(*conditions, (List *) join->quals);
		collect_conditions(join->larg, conditions);
		collect_conditions(join->rarg, conditions);
	}
}

/*
 * The columns that the query's conditions on a relation exclude NULL of.  Those on this relation
 * alone are evaluated for each row that is read, others may be evaluated later.
 */
static List *
columns_of_conditions(PlannerInfo *root, const RelOptInfo *rel)
{
	List *conditions = NIL;
	List *clauses = NIL;
	ListCell *cell;

	if (root->parse->jointree != NULL)
		collect_conditions((Node *) root->parse->jointree, &conditions);
	foreach (cell, conditions)
	{
		Node *clause = lfirst(cell);

		if (bms_equal(pull_varnos(root, clause), rel->relids))
			clauses = lappend(clauses, clause);
	}
	return find_nonnullable_vars((Node *) clauses);
}

/*
 * Find a column of a table in the relation that the query names, of which the table may be a
 * partition or a child: *attribute becomes that relation's column, or 0.
 */
static const RelOptInfo *
named_relation(PlannerInfo *root, const RelOptInfo *rel, AttrNumber *attribute)
{
	while (IS_OTHER_REL(rel) && *attribute > 0)
	{
		AppendRelInfo *child = root->append_rel_array[rel->relid];

		/* The columns of UNION ALL are not those of its tables. */
		if (root->simple_rte_array[child->parent_relid]->rtekind != RTE_RELATION)
			*attribute = 0;
		else
			*attribute = child->parent_colnos[*attribute - 1];
		rel = root->simple_rel_array[child->parent_relid];
	}
	return rel;
}

/*
 * A relation whose indexes are described.  What is asked for all of them is found out once, if at
 * all.
 */
typedef struct Description
{
	PlannerInfo *root;
	const RelOptInfo *rel;
	bool has_conditions;
	List *conditions; /* columns_of_conditions() of the relation that the query names */
} Description;

/* Whether the query's conditions exclude NULL of a column. */
static bool
is_excluded(Description *description, AttrNumber attribute)
{
	const RelOptInfo *named = named_relation(description->root, description->rel, &attribute);

	if (attribute <= 0)
		return false;
	if (!description->has_conditions)
	{
		description->conditions = columns_of_conditions(description->root, named);
		description->has_conditions = true;
	}
	return hm_is_nonnullable(description->conditions, named->relid, attribute);
}

/* Note which columns of an index the query's conditions, or the index's own, exclude NULL of. */
static void
note_conditions(Description *description, const IndexOptInfo *index, bool *not_null)
{
	List *predicate = find_nonnullable_vars((Node *) index->indpred);

	for (int i = 0; i < index->nkeycolumns; i++)
	{
		AttrNumber attribute = (AttrNumber) index->indexkeys[i];

		if (attribute > 0 && !not_null[i])
			not_null[i] = hm_is_nonnullable(predicate, description->rel->relid, attribute) ||
						  is_excluded(description, attribute);
	}
}

/*
 * For a composite index that the planner has opened, and so locked, with its table.  Constraints
 * and conditions are looked at only if the order depends on them.
 */
static bool
scans_keep_order(Description *description, const IndexOptInfo *info)
{
	Relation index = index_open(info->indexoid, NoLock);
	HmFields fields;
	bool result = false;

	if (hm_fields_try(index, &fields) && fields_keep_order_if(&fields, index, true))
	{
		result = fields_keep_order_if(&fields, index, false);
		if (!result)
		{
			Relation table = table_open(index->rd_index->indrelid, NoLock);
			bool not_null[INDEX_MAX_KEYS];

			note_constraints(index, table, not_null);
			table_close(table, NoLock);
			note_conditions(description, info, not_null);
			result = fields_keep_order(&fields, index, not_null);
		}
	}
	index_close(index, NoLock);
	return result;
}

/* Whether an index has the order that PostgreSQL believes it has. */
static bool
planner_may_trust(Description *description, const IndexOptInfo *index)
{
	if (index->ncolumns > 1)
		return !index->hypothetical && scans_keep_order(description, index);
	return type_is_ordered(index->opfamily[0], index->opcintype[0]);
}

static void
describe_relation(HM_RELATION_HOOK_PARAMETERS)
{
	Description description = {.root = root, .rel = rel};
	ListCell *cell;

	if (next_relation_hook)
		next_relation_hook(HM_RELATION_HOOK_ARGUMENTS);
	foreach (cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if ((void *) index->amcostestimate != (void *) hm_cost_estimate)
			continue;
		if (index->sortopfamily != NULL && !planner_may_trust(&description, index))
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
