/*
 * targets.c
 *		Planning: the targets of a lookup join, and their shares of the keys.
 *
 * The inner side of a join is one table, or a partitioned table, inheritance parent or UNION ALL,
 * possibly with several levels of children.  Each table that can have rows is a target,
 * and needs an index of its own on the key.
 *
 * Where the join's key is the first partition key, a partition's bounds say which keys it
 * can have; other keys need not be looked up there.  This is the target's share.  It is
 * kept simple: a range that may be too wide, and a remainder of the hash value.  In a join on
 * several columns it is about one of them.
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
#include "exec/planner.h"

/* What hm_targets() looks for, and what it has found. */
typedef struct Search
{
	PlannerInfo *root;
	RelOptInfo *rel; /* the inner side, in whose columns the keys are */
	List *keys;      /* for each of the index's first columns */
	IndexOptInfo *model;
	int column;                /* of the index, that shares are about */
	const HmKeyType *key_type; /* of that column */
	List *targets;             /* HmTargets found so far */
} Search;

static bool
is_parent(PlannerInfo *root, RelOptInfo *rel)
{
	return planner_rt_fetch(rel->relid, root)->inh;
}

bool
hm_is_union_all(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->rtekind == RTE_SUBQUERY && is_parent(root, rel);
}

/* The children of a parent, without those that the planner has pruned. */
static List *
children(PlannerInfo *root, RelOptInfo *rel)
{
	List *result = NIL;
	ListCell *cell;

	foreach (cell, root->append_rel_list)
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
	ListCell *cell;

	if (IS_DUMMY_REL(rel))
		return NULL;
	if (!is_parent(root, rel))
		return rel;

	/*
	 * This does not use children(): there may be thousands, and it is called for each
	 * pair of relations.
	 */
	foreach (cell, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, cell);
		RelOptInfo *table = NULL;

		if (info->parent_relid == rel->relid)
			table = hm_first_table(root, root->simple_rel_array[info->child_relid]);
		if (table != NULL)
			return table;
	}
	return NULL;
}

/*
 * Translate an expression on a relation's columns into one on a member's, which is the
 * relation itself or one of its children at any level.
 */
static Node *
translate(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *member, Node *expr)
{
	return member == rel ? expr : hm_translate_for_child(root, expr, member, rel);
}

/*
 * Whether an expression is a column of a relation, and that is a column of an index of the
 * relation or one of its children.  Sets *known to false if only translating the
 * expression can tell.
 */
static bool
is_key_column(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, int number, Node *expr,
			  bool *known)
{
	AppendRelInfo *info = NULL;
	Var *column;

	while (IsA(expr, RelabelType))
		expr = (Node *) ((RelabelType *) expr)->arg;
	column = (Var *) expr;

	/* An index's expression may be a column, taken for another type as it is. */
	*known = IsA(expr, Var) && column->varattno > 0 &&
			 (index->indexkeys[number] != 0 ||
			  (index->nkeycolumns == 1 && !IsA(linitial(index->indexprs), RelabelType)));
	if (!*known || column->varno != (int) rel->relid || index->rel == rel)
		return *known && column->varno == (int) index->rel->relid &&
			   column->varattno == index->indexkeys[number];

	if (root->append_rel_array != NULL)
		info = root->append_rel_array[index->rel->relid];
	*known = info != NULL && info->parent_relid == rel->relid;
	if (!*known)
		return false;
	column = list_nth(info->translated_vars, column->varattno - 1);
	return column != NULL && IsA(column, Var) && column->varno == (int) index->rel->relid &&
		   column->varattno == index->indexkeys[number];
}

bool
hm_is_key(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, int column, Node *expr)
{
	bool known;
	bool result = is_key_column(root, rel, index, column, expr, &known);

	/* Translating takes long, and there may be thousands of children. */
	if (known)
		return result;
	return bms_is_subset(pull_varnos(root, expr), rel->relids) &&
		   match_index_to_operand(translate(root, rel, index->rel, expr), column, index);
}

/* ----------------------------------------------------------------
 *		Shares
 * ----------------------------------------------------------------
 */

/*
 * Whether the operator families of the partition key and of the index sort in the same
 * way, and keys do.
 */
static bool
sorts_alike(Search *search, PartitionScheme scheme)
{
	Oid less = get_opfamily_member(scheme->partopfamily[0], scheme->partopcintype[0],
								   scheme->partopcintype[0], BTLessStrategyNumber);

	return OidIsValid(less) && search->key_type->ordered &&
		   hm_operator_strategy(search->model, search->column, less) == BTLessStrategyNumber;
}

/* Whether a relation's first partition key is the join's key, or this column of it. */
static bool
is_partitioned_by_key(Search *search, RelOptInfo *rel, int column)
{
	Node *key;

	if (rel->part_scheme == NULL ||
		rel->part_scheme->partopcintype[0] != search->model->opcintype[column])
		return false;
	key = translate(search->root, search->rel, rel, list_nth(search->keys, column));
	if (IsA(key, RelabelType))
		key = (Node *) ((RelabelType *) key)->arg;
	return equal(linitial(rel->partexprs[0]), key);
}

/* Choose the column that shares are about: the first partition key, if it is one of the keys. */
static void
choose_column(Search *search)
{
	int column = list_length(search->keys) - 1;

	while (column > 0 && !is_partitioned_by_key(search, search->rel, column))
		column--;
	search->column = column;
	search->key_type =
		hm_column_key_type(hm_has_columns(search->model), hm_index_type_id(search->model, column));
}

/*
 * The range of keys that are less than a bound, equal to it, and so on; an empty range if
 * there are none.
 */
static void
bound_range(Search *search, Datum bound, int strategy, HmKey *low, HmKey *high)
{
	Oid type = search->key_type->type;
	HmBracket bracket = hm_bracket_function(type, type)(search->key_type, bound);

	if (!hm_bracket_range((StrategyNumber) strategy, &bracket,
						  ht_key_max_128(search->key_type->width), low, high))
	{
		*low = HM_KEY_MAX;
		*high = 0;
	}
}

/*
 * Range partitions: datum i is the upper bound of the partition bounds->indexes[i], and
 * datum i - 1 is its lower bound.
 */
static void
share_ranges(Search *search, RelOptInfo *rel, HmShare *shares)
{
	PartitionBoundInfo bounds = rel->boundinfo;

	/*
	 * Only the first column of a bound matters here.  If there are others, these decide
	 * about rows whose first column is equal to the bound, so the bound itself may belong
	 * to the share.
	 */
	int below = rel->part_scheme->partnatts == 1 ? BTLessStrategyNumber : BTLessEqualStrategyNumber;

	for (int i = 0; i < bounds->ndatums; i++)
	{
		HmShare *share;
		HmKey low, high;

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
			bound_range(search, bounds->datums[i - 1][0], BTGreaterEqualStrategyNumber, &low,
						&high);
			share->high = Min(share->high, high);
			share->low = Max(share->low, low);
		}
	}
}

/* List partitions: from the least to the greatest value in the list. */
static void
share_lists(Search *search, RelOptInfo *rel, HmShare *shares)
{
	PartitionBoundInfo bounds = rel->boundinfo;
	HmShare *lists = palloc(rel->nparts * sizeof(HmShare));

	for (int i = 0; i < rel->nparts; i++)
	{
		lists[i].low = i == bounds->default_index ? 0 : HM_KEY_MAX;
		lists[i].high = i == bounds->default_index ? HM_KEY_MAX : 0;
	}
	for (int i = 0; i < bounds->ndatums; i++)
	{
		HmShare *list = &lists[bounds->indexes[i]];
		HmKey low, high;

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

/*
 * Hash partitions.  The value is hashed, so it must be possible to restore it from the key; or
 * the executor keeps it, as it may if keys are not exact.  Not where values that the index takes as
 * equal may have other hash values.
 */
static void
share_hashes(Search *search, RelOptInfo *rel, HmShare *shares)
{
	PartitionBoundInfo bounds = rel->boundinfo;

	if (rel->part_scheme->partnatts > 1 || search->key_type->type == HM_ANY_VALUE ||
		(!search->key_type->returnable &&
		 (search->key_type->exact || hm_has_columns(search->model))))
		return;
	for (int i = 0; i < bounds->ndatums; i++)
	{
		int remainder = DatumGetInt32(bounds->datums[i][1]);
		HmShare *share = &shares[bounds->indexes[remainder]];

		share->modulus = (uint64) DatumGetInt32(bounds->datums[i][0]);
		share->remainder = (uint64) remainder;
		share->hash = rel->part_scheme->partsupfunc[0].fn_oid;
		share->collation = rel->part_scheme->partcollation[0];
	}
}

/* The shares of a table's partitions, each of them within the table's own share. */
static HmShare *
partition_shares(Search *search, RelOptInfo *rel, const HmShare *whole)
{
	HmShare *shares = palloc(rel->nparts * sizeof(HmShare));

	for (int i = 0; i < rel->nparts; i++)
		shares[i] = *whole;
	if (!is_partitioned_by_key(search, rel, search->column))
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

bool
hm_shares_differ(List *targets)
{
	ListCell *cell;

	foreach (cell, targets)
	{
		if (!hm_share_is_all(&((HmTarget *) lfirst(cell))->share))
			return list_length(targets) > 1;
	}
	return false;
}

/* ----------------------------------------------------------------
 *		Tables
 * ----------------------------------------------------------------
 */

/* Whether an index has the keys as its first columns, and these are like the model's. */
static bool
is_like_model(Search *search, IndexOptInfo *index)
{
	const IndexOptInfo *model = search->model;

	if (index->relam != model->relam || hm_has_columns(index) != hm_has_columns(model) ||
		index->nkeycolumns < list_length(search->keys))
		return false;
	for (int i = 0; i < list_length(search->keys); i++)
	{
		if (index->opfamily[i] != model->opfamily[i] ||
			index->opcintype[i] != model->opcintype[i] ||
			index->indexcollations[i] != model->indexcollations[i] ||
			!hm_is_key(search->root, search->rel, index, i, list_nth(search->keys, i)))
			return false;
	}
	return true;
}

static IndexOptInfo *
find_index(Search *search, RelOptInfo *table)
{
	ListCell *cell;

	if (table == search->model->rel)
		return search->model;
	foreach (cell, hm_indexes(table))
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (is_like_model(search, index))
			return index;
	}
	return NULL;
}

/*
 * Add all targets below a relation, or the relation itself.  Returns false if one of them
 * has no usable index.
 */
static bool
add_tables(Search *search, RelOptInfo *rel, const HmShare *share)
{
	if (IS_DUMMY_REL(rel))
		return true;

	/* A table in a UNION ALL may have policies of its own.  Only the parent's are evaluated. */
	if (rel != search->rel && planner_rt_fetch(rel->relid, search->root)->securityQuals != NIL)
		return false;
	if (!is_parent(search->root, rel))
	{
		HmTarget *target = palloc(sizeof(HmTarget));

		target->rel = rel;
		target->share = *share;
		target->column = search->column;
		target->index = hm_can_look_up(search->root, rel) ? find_index(search, rel) : NULL;
		search->targets = lappend(search->targets, target);
		return target->index != NULL;
	}

	if (rel->boundinfo != NULL)
	{
		HmShare *shares = partition_shares(search, rel, share);

		for (int i = 0; i < rel->nparts; i++)
		{
			if (rel->part_rels[i] != NULL && !add_tables(search, rel->part_rels[i], &shares[i]))
				return false;
		}
	}
	else
	{
		ListCell *cell;

		foreach (cell, children(search->root, rel))
		{
			if (!add_tables(search, lfirst(cell), share))
				return false;
		}
	}
	return true;
}

List *
hm_targets(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *model, List *keys)
{
	Search search = {.root = root, .rel = rel, .keys = keys, .model = model};
	HmShare all = {.low = 0, .high = HM_KEY_MAX};

	choose_column(&search);
	return add_tables(&search, rel, &all) ? search.targets : NIL;
}
