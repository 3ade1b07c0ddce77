/*
 * distinct_stats.c
 *		Tells the planner how many different values the first column of an index has.
 *
 * ANALYZE takes equal values that are neighbours in a table for fewer than they are, because it
 * samples few pages: 385,000 for the 1,500,000 orders of TPC-H's lineitem.  Then a join expects
 * too many rows for a key, and an aggregate too few groups.  The leaves of an index tell how often
 * the next entry has another value.  If these are many more than ANALYZE says, the planner gets
 * the column's statistics with this number in place of that.  An ALTER COLUMN ... SET (n_distinct)
 * still decides.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/attoptcache.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

#include "compat.h"
#include "exec/planner.h"

/* How many times as many values there must be. */
#define LEAST_FACTOR 1.5

/* What hm_first_keys_share() said of an index. */
typedef struct KnownShare
{
	Oid index;
	double share;
} KnownShare;

static HTAB *known_shares = NULL;
static get_relation_stats_hook_type next_relation_stats_hook = NULL;

/* An index has changed, or has been analyzed: forget its share.  InvalidOid stands for all. */
static void
forget_shares(Datum unused, Oid relid)
{
	HASH_SEQ_STATUS status;
	const KnownShare *known;

	if (OidIsValid(relid))
	{
		hash_search(known_shares, &relid, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&status, known_shares);
	while ((known = hash_seq_search(&status)) != NULL)
		hash_search(known_shares, &known->index, HASH_REMOVE, NULL);
}

static double
share_of(Oid index_oid)
{
	KnownShare *known = hash_search(known_shares, &index_oid, HASH_FIND, NULL);
	Relation index;
	double share;

	if (known != NULL)
		return known->share;
	/* The planner has locked it. */
	index = index_open(index_oid, NoLock);
	share = hm_first_keys_share(index);
	index_close(index, NoLock);
	known = hash_search(known_shares, &index_oid, HASH_ENTER, NULL);
	known->share = share;
	return share;
}

static const RelOptInfo *
find_table(const PlannerInfo *root, const RangeTblEntry *rte)
{
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		if (root->simple_rte_array[i] == rte)
			return root->simple_rel_array[i];
	}
	return NULL;
}

/* An index of ours that begins with the column, and has all rows; NULL if there is none. */
static const IndexOptInfo *
find_index(const RelOptInfo *table, AttrNumber column)
{
	ListCell *cell;

	foreach (cell, table->indexlist)
	{
		const IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (hm_can_use_index(index) && index->indpred == NIL && index->indexkeys[0] == column)
			return index;
	}
	return NULL;
}

static bool
is_set_by_user(Oid relid, AttrNumber column)
{
	const AttributeOpts *options = get_attribute_options(relid, column);

	return options != NULL && options->n_distinct != 0;
}

/*
 * Whether the planner may show the values to functions that leak them.  It is less than what
 * PostgreSQL allows: a user who may read just this column is not asked for.
 */
static bool
may_show(const RelOptInfo *table, const RangeTblEntry *rte)
{
	Oid user = OidIsValid(table->userid) ? table->userid : GetUserId();

	return rte->securityQuals == NIL &&
		   pg_class_aclcheck(rte->relid, user, ACL_SELECT) == ACLCHECK_OK;
}

/* get_relation_stats_hook */
static bool
relation_stats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber column, VariableStatData *data)
{
	const RelOptInfo *table;
	const IndexOptInfo *index;
	HeapTuple tuple;
	double values;
	double found;

	if (next_relation_stats_hook && next_relation_stats_hook(root, rte, column, data))
		return true;
	if (rte->rtekind != RTE_RELATION || rte->inh || (table = find_table(root, rte)) == NULL ||
		(index = find_index(table, column)) == NULL)
		return false;
	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(rte->relid), Int16GetDatum(column),
							BoolGetDatum(false));
	if (!HeapTupleIsValid(tuple))
		return false;
	values = ((Form_pg_statistic) GETSTRUCT(tuple))->stadistinct;
	if (values <= 0 ||
		(found = share_of(index->indexoid) * index->tuples) < values * LEAST_FACTOR ||
		is_set_by_user(rte->relid, column))
	{
		ReleaseSysCache(tuple);
		return false;
	}
	data->statsTuple = heap_copytuple(tuple);
	data->freefunc = heap_freetuple;
	data->acl_ok = may_show(table, rte);
	((Form_pg_statistic) GETSTRUCT(data->statsTuple))->stadistinct = (float4) found;
	ReleaseSysCache(tuple);
	return true;
}

void
hm_distinct_stats_init(void)
{
	HASHCTL control = {.keysize = sizeof(Oid), .entrysize = sizeof(KnownShare)};

	known_shares = hash_create("shares of first keys in harmonia indexes", 64, &control,
							   HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(forget_shares, (Datum) 0);
	next_relation_stats_hook = get_relation_stats_hook;
	get_relation_stats_hook = relation_stats;
}
