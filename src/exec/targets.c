/*
 * targets.c
 *		Planning: the tables that a lookup join looks keys up in.
 *
 * The inner side of a join may be one table, or a partitioned or inherited one that
 * stands for others, at several levels.  Each of these needs an index of its own on
 * the key.
 *
 * Where the key is what a table is partitioned by, bounds say which keys are in
 * which partition, so that others are not looked up there.  What they say is kept
 * simple: a range, which may be too wide, and a remainder of the hash value.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/partition.h"
#include "optimizer/appendinfo.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "partitioning/partbounds.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "exec/nodes.h"

/* What is looked for. */
typedef struct Search
{
	PlannerInfo *root;
	RelOptInfo *rel;			/* what the key is of */
	Node	   *key;
	IndexOptInfo *model;
	const HmKeyType *key_type;
	List	   *targets;		/* found so far */
} Search;

static bool
is_parent(PlannerInfo *root, RelOptInfo *rel)
{
	return planner_rt_fetch(rel->relid, root)->inh;
}

/* The relations that an inherited one stands for, but for those that are pruned. */
static List *
children(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, cell);

		if (info->parent_relid == rel->relid)
			result = lappend(result, root->simple_rel_array[info->child_relid]);
	}
	return result;
}

RelOptInfo *
hm_first_table(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *cell;

	if (IS_DUMMY_REL(rel))
		return NULL;
	if (!is_parent(root, rel))
		return rel;
	foreach(cell, children(root, rel))
	{
		RelOptInfo *table = hm_first_table(root, lfirst(cell));

		if (table != NULL)
			return table;
	}
	return NULL;
}

/* An expression over a relation, over one that it stands for. */
static Node *
translate(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *member, Node *expr)
{
	return member == rel ? expr : hm_translate_for_child(root, expr, member, rel);
}

bool
hm_is_key(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, Node *expr)
{
	return bms_is_subset(pull_varnos(root, expr), rel->relids) &&
		match_index_to_operand(translate(root, rel, index->rel, expr), 0, index);
}

/* ----------------------------------------------------------------
 *		Shares
 * ----------------------------------------------------------------
 */

/* Whether the operator families of the partition key and of the index agree. */
static bool
sorts_alike(Search *search, PartitionScheme scheme)
{
	Oid			less = get_opfamily_member(scheme->partopfamily[0], scheme->partopcintype[0],
										   scheme->partopcintype[0], BTLessStrategyNumber);

	return OidIsValid(less) &&
		hm_operator_strategy(search->model, less) == BTLessStrategyNumber;
}

/* Whether a partitioned table's first partition key is the key that is looked for. */
static bool
is_partitioned_by_key(Search *search, RelOptInfo *rel)
{
	Node	   *key = translate(search->root, search->rel, rel, search->key);

	if (IsA(key, RelabelType))
		key = (Node *) ((RelabelType *) key)->arg;
	return rel->part_scheme != NULL &&
		rel->part_scheme->partopcintype[0] == search->model->opcintype[0] &&
		equal(linitial(rel->partexprs[0]), key);
}

/* The keys that stand in a relation to a bound; an empty range if there are none. */
static void
bound_range(Search *search, Datum bound, int strategy, uint64 *low, uint64 *high)
{
	Oid			type = search->key_type->type;
	HmBracket	bracket = hm_bracket_function(type, type) (search->key_type, bound);

	if (!hm_bracket_range((StrategyNumber) strategy, &bracket,
						ht_key_max(search->key_type->width), low, high))
	{
		*low = PG_UINT64_MAX;
		*high = 0;
	}
}

/* Each range's upper bound is the next one's lower bound. */
static void
share_ranges(Search *search, RelOptInfo *rel, HmShare *shares)
{
	PartitionBoundInfo bounds = rel->boundinfo;

	/* Of several columns only the first matters; those behind it decide at the bound. */
	int			below = rel->part_scheme->partnatts == 1 ?
		BTLessStrategyNumber : BTLessEqualStrategyNumber;

	for (int i = 0; i < bounds->ndatums; i++)
	{
		HmShare    *share;
		uint64		low,
					high;

		if (bounds->indexes[i] < 0)
			continue;
		share = &shares[bounds->indexes[i]];
		if (bounds->kind[i][0] == PARTITION_RANGE_DATUM_VALUE)
		{
			bound_range(search, bounds->datums[i][0], below, &low, &high);
			share->high = Min(share->high, high);
			share->low = Max(share->low, low);
		}
		if (i > 0 && bounds->kind[i - 1][0] == PARTITION_RANGE_DATUM_VALUE)
		{
			bound_range(search, bounds->datums[i - 1][0], BTGreaterEqualStrategyNumber,
						&low, &high);
			share->high = Min(share->high, high);
			share->low = Max(share->low, low);
		}
	}
}

/* From the least to the greatest value of a list. */
static void
share_lists(Search *search, RelOptInfo *rel, HmShare *shares)
{
	PartitionBoundInfo bounds = rel->boundinfo;
	HmShare    *lists = palloc(rel->nparts * sizeof(HmShare));

	for (int i = 0; i < rel->nparts; i++)
	{
		lists[i].low = i == bounds->default_index ? 0 : PG_UINT64_MAX;
		lists[i].high = i == bounds->default_index ? PG_UINT64_MAX : 0;
	}
	for (int i = 0; i < bounds->ndatums; i++)
	{
		HmShare    *list = &lists[bounds->indexes[i]];
		uint64		low,
					high;

		bound_range(search, bounds->datums[i][0], BTEqualStrategyNumber, &low, &high);
		list->low = Min(list->low, low);
		list->high = Max(list->high, high);
	}
	for (int i = 0; i < rel->nparts; i++)
	{
		shares[i].low = Max(shares[i].low, lists[i].low);
		shares[i].high = Min(shares[i].high, lists[i].high);
	}
}

/* A key that is to be hashed must be known bit for bit. */
static void
share_hashes(Search *search, RelOptInfo *rel, HmShare *shares)
{
	PartitionBoundInfo bounds = rel->boundinfo;

	if (!search->key_type->returnable || rel->part_scheme->partnatts > 1)
		return;
	for (int i = 0; i < bounds->ndatums; i++)
	{
		int			remainder = DatumGetInt32(bounds->datums[i][1]);
		HmShare    *share = &shares[bounds->indexes[remainder]];

		share->modulus = (uint64) DatumGetInt32(bounds->datums[i][0]);
		share->remainder = (uint64) remainder;
		share->hash = rel->part_scheme->partsupfunc[0].fn_oid;
	}
}

/* What each partition of a table gets of the table's own share. */
static HmShare *
partition_shares(Search *search, RelOptInfo *rel, const HmShare *whole)
{
	HmShare    *shares = palloc(rel->nparts * sizeof(HmShare));

	for (int i = 0; i < rel->nparts; i++)
		shares[i] = *whole;
	if (!is_partitioned_by_key(search, rel))
		return shares;
	if (rel->boundinfo->strategy == PARTITION_STRATEGY_HASH)
		share_hashes(search, rel, shares);
	else if (sorts_alike(search, rel->part_scheme))
	{
		if (rel->boundinfo->strategy == PARTITION_STRATEGY_RANGE)
			share_ranges(search, rel, shares);
		else
			share_lists(search, rel, shares);
	}
	return shares;
}

/* ----------------------------------------------------------------
 *		Tables
 * ----------------------------------------------------------------
 */

static IndexOptInfo *
find_index(Search *search, RelOptInfo *table)
{
	ListCell   *cell;

	if (table == search->model->rel)
		return search->model;
	foreach(cell, table->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (hm_can_use_index(index) && index->opfamily[0] == search->model->opfamily[0] &&
			index->opcintype[0] == search->model->opcintype[0] &&
			hm_is_key(search->root, search->rel, index, search->key))
			return index;
	}
	return NULL;
}

/* Add the tables that a relation stands for; false if one of them cannot be read. */
static bool
add_tables(Search *search, RelOptInfo *rel, const HmShare *share)
{
	if (IS_DUMMY_REL(rel))
		return true;

	if (!is_parent(search->root, rel))
	{
		HmTarget   *target = palloc(sizeof(HmTarget));

		target->rel = rel;
		target->share = *share;
		target->index = hm_can_look_up(search->root, rel) ? find_index(search, rel) : NULL;
		search->targets = lappend(search->targets, target);
		return target->index != NULL;
	}

	if (rel->boundinfo != NULL)
	{
		HmShare    *shares = partition_shares(search, rel, share);

		for (int i = 0; i < rel->nparts; i++)
		{
			if (rel->part_rels[i] != NULL && !add_tables(search, rel->part_rels[i], &shares[i]))
				return false;
		}
	}
	else
	{
		ListCell   *cell;

		foreach(cell, children(search->root, rel))
		{
			if (!add_tables(search, lfirst(cell), share))
				return false;
		}
	}
	return true;
}

List *
hm_targets(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *model, Node *key)
{
	Search		search = {root, rel, key, model, hm_key_type_lookup(model->opcintype[0]), NIL};
	HmShare		all = {0, PG_UINT64_MAX, 0, 0, InvalidOid};

	return add_tables(&search, rel, &all) ? search.targets : NIL;
}
