/*
 * openindex.c
 *		Opening an index that a user has named, for the SQL functions.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"

#include "am/base/base.h"

bool
hm_is_index(Relation relation)
{
	return relation->rd_rel->relkind == RELKIND_INDEX &&
		   relation->rd_indam->amoptions == hm_options;
}

/* Errors: wrong_object_type, unless the relation is an index of this method. */
static void
check_is_ours(Relation relation)
{
	char kind = relation->rd_rel->relkind;

	if (kind != RELKIND_INDEX && kind != RELKIND_PARTITIONED_INDEX)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("\"%s\" is not an index", RelationGetRelationName(relation))));
	if (!hm_is_index(relation))
		ereport(
			ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a %s index", RelationGetRelationName(relation), "harmonia"),
			 kind != RELKIND_PARTITIONED_INDEX ?
				 0 :
				 errdetail("It is a partitioned index, which has no pages."),
			 kind != RELKIND_PARTITIONED_INDEX ? 0 : errhint("Name the index of a partition.")));
}

Relation
hm_inspect_open(Oid oid, LOCKMODE mode)
{
	Relation index = try_relation_open(oid, mode);

	/*
	 * The index existed when its name was looked up, but this may have waited for the
	 * lock.
	 */
	if (index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE), errmsg("index with OID %u does not exist", oid),
				 errdetail("It may have been dropped, or replaced by REINDEX CONCURRENTLY.")));
	check_is_ours(index);
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot access temporary tables of other sessions"),
						errdetail("Index \"%s\" belongs to a temporary table.",
								  RelationGetRelationName(index))));
	return index;
}

void
hm_inspect_check_valid(Relation index)
{
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", RelationGetRelationName(index)),
				 errdetail("A concurrent build or removal of it is under way, or has failed."),
				 errhint("If no session is working on it, REINDEX it or drop it.")));
}

Relation
hm_inspect_open_with_table(Oid oid, LOCKMODE mode, Relation *table)
{
	Oid table_oid = IndexGetRelation(oid, true);
	Relation index;

	*table = OidIsValid(table_oid) ? try_table_open(table_oid, mode) : NULL;
	index = hm_inspect_open(oid, mode);

	/* The OID may have been used again before the locks were taken. */
	if (*table == NULL || index->rd_index->indrelid != table_oid)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("could not open parent table of index \"%s\"",
							   RelationGetRelationName(index))));
	return index;
}
