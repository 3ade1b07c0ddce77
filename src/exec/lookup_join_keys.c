/*
 * lookup_join_keys.c
 *		The keys of a lookup join: which clauses compare the columns of an index.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "exec/lookup_join_plan.h"

/*
 * A restriction that leaves more of the rows is not made part of a join's keys: to make a range of
 * each row's key takes as long as comparing a row.
 */
#define RANGE_SELECTIVITY 0.5

LookupKey *
hm_make_key(const IndexOptInfo *index, int column, Oid operator, bool is_array)
{
	LookupKey *key = palloc0(sizeof(LookupKey));
	Oid left_type;

	get_op_opfamily_properties(operator, index->opfamily[column], false, &key->strategy, &left_type,
							   &key->type);
	key->is_array = is_array;
	key->column = column;
	key->key_type = hm_index_type_id(index, column);
	return key;
}

void
hm_join_add_key(const IndexOptInfo *index, int column, Node *expr, Oid operator, bool is_array,
				Node *argument, JoinKeys *keys)
{
	LookupKey *key = hm_make_key(index, column, operator, is_array);

	if (list_length(keys->exprs) == column)
		keys->exprs = lappend(keys->exprs, expr);
	keys->arguments = lappend(keys->arguments, argument);
	keys->keys = lappend(keys->keys, key);
	keys->equal |= key->strategy == BTEqualStrategyNumber;
	keys->lower |= key->strategy >= BTGreaterEqualStrategyNumber;
	keys->upper |= key->strategy <= BTLessEqualStrategyNumber;
}

/*
 * Whether a clause compares a column of the index, which is "key", with an argument that is not of
 * the inner side.
 */
static bool
is_comparison(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, Node *key, Node *argument)
{
	return hm_is_key(root, inner, index, 0, key) &&
		   !bms_is_member((int) inner->relid, pull_varnos(root, argument));
}

/*
 * Take an alternative of a join clause, equality of the index's column with an argument, as a key.
 * Each probe has to find the rows of one value alone, so that a row of equal ones is found once.
 */
static bool
match_alternative(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, Oid operator,
				  Oid collation, Node *key, Node *argument, JoinKeys *keys)
{
	LookupKey *made;

	if (!is_comparison(root, inner, index, key, argument))
	{
		Node *left = key;

		key = argument;
		argument = left;
		operator= get_commutator(operator);
		if (!OidIsValid(operator) || !is_comparison(root, inner, index, key, argument))
			return false;
	}
	if (!hm_has_collation(index, 0, collation) ||
		hm_operator_strategy(index, 0, operator) != BTEqualStrategyNumber)
		return false;
	hm_join_add_key(index, 0, key, operator, false, argument, keys);
	made = llast(keys->keys);
	return made->type == hm_column_key_type(false, made->key_type)->type &&
		   !hm_may_be_fuzzy(hm_index_type_id(index, 0), made->type);
}

/* The same for all alternatives of a clause, k = a OR k = b, or k = ANY (ARRAY[a, b]). */
static bool
match_alternatives(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, Node *clause,
				   JoinKeys *keys)
{
	List *alternatives = is_orclause(clause) ? ((BoolExpr *) clause)->args : NIL;
	const ScalarArrayOpExpr *any = (ScalarArrayOpExpr *) clause;
	ListCell *cell;

	if (IsA(clause, ScalarArrayOpExpr) && any->useOr && IsA(lsecond(any->args), ArrayExpr) &&
		!((ArrayExpr *) lsecond(any->args))->multidims)
		alternatives = ((ArrayExpr *) lsecond(any->args))->elements;
	if (alternatives == NIL || list_length(alternatives) > HM_MOST_ALTERNATIVES)
		return false;
	foreach (cell, alternatives)
	{
		const OpExpr *arm = lfirst(cell);

		if (!is_orclause(clause))
		{
			if (!match_alternative(root, inner, index, any->opno, any->inputcollid,
								   linitial(any->args), lfirst(cell), keys))
				return false;
		}
		else if (!IsA(arm, OpExpr) || list_length(arm->args) != 2 ||
				 !match_alternative(root, inner, index, arm->opno, arm->inputcollid,
									linitial(arm->args), lsecond(arm->args), keys))
			return false;
	}
	return true;
}

/* Take the first join clause that has such alternatives as the only key clause. */
static bool
match_any(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, JoinType type,
		  RelOptInfo *joinrel, List *restrictions, JoinKeys *keys)
{
	ListCell *cell;

	foreach (cell, hm_has_values(index) ? NIL : restrictions)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		*keys = (JoinKeys){.clauses = list_make1(info), .is_any = true};
		if (hm_decides_match(type, joinrel, info) &&
			restriction_is_securely_promotable(info, inner) &&
			!contain_volatile_functions((Node *) info) &&
			match_alternatives(root, inner, index, (Node *) info->clause, keys))
			return true;
	}
	return false;
}

/*
 * Take a join clause as a key clause if it compares a column of the index; if the index has
 * several, only if it compares for equality, or does not ("range").
 */
static bool
match_clause(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, int column, bool range,
			 RestrictInfo *info, JoinKeys *keys)
{
	OpExpr *clause = (OpExpr *) info->clause;
	Node *key, *argument;
	Oid operator;
	int strategy;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2 ||
		!hm_has_collation(index, column, clause->inputcollid) ||
		!restriction_is_securely_promotable(info, inner))
		return false;
	if (bms_is_subset(info->left_relids, inner->relids) &&
		!bms_is_member((int) inner->relid, info->right_relids) &&
		hm_is_key(root, inner, index, column, linitial(clause->args)))
	{
		key = linitial(clause->args);
		argument = lsecond(clause->args);
		operator= clause->opno;
	}
	else if (bms_is_subset(info->right_relids, inner->relids) &&
			 !bms_is_member((int) inner->relid, info->left_relids) &&
			 hm_is_key(root, inner, index, column, lsecond(clause->args)))
	{
		key = lsecond(clause->args);
		argument = linitial(clause->args);
		operator= get_commutator(clause->opno);
	}
	else
		return false;

	/* The RestrictInfo caches the answer. */
	if (!OidIsValid(operator) || contain_volatile_functions((Node *) info))
		return false;
	strategy = hm_operator_strategy(index, column, operator);
	if (strategy == 0 || (hm_has_columns(index) && (strategy != BTEqualStrategyNumber) != range))
		return false;
	if (hm_has_values(index) && keys->clauses != NIL)
		return false;

	keys->clauses = lappend(keys->clauses, info);
	hm_join_add_key(index, column, key, operator, false, argument, keys);
	return true;
}

/* The same for a restriction of the inner side, of an index with several columns. */
static bool
match_restriction(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, int column, bool range,
				  RestrictInfo *info, JoinKeys *keys)
{
	OpExpr *clause = (OpExpr *) info->clause;
	Node *key, *argument;
	Oid operator;
	int strategy;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2 || info->pseudoconstant ||
		!hm_has_collation(index, column, clause->inputcollid) ||
		!restriction_is_securely_promotable(info, inner))
		return false;
	key = linitial(clause->args);
	argument = lsecond(clause->args);
	operator= clause->opno;
	if (!hm_is_key(root, inner, index, column, key))
	{
		if (!hm_is_key(root, inner, index, column, argument))
			return false;
		key = argument;
		argument = linitial(clause->args);
		operator= get_commutator(operator);
	}
	if (!OidIsValid(operator) || !bms_is_empty(pull_varnos(root, argument)) ||
		contain_volatile_functions((Node *) info))
		return false;
	strategy = hm_operator_strategy(index, column, operator);
	if (strategy == 0 || (strategy != BTEqualStrategyNumber) != range)
		return false;
	keys->restrictions = lappend(keys->restrictions, info);
	hm_join_add_key(index, column, key, operator, false, argument, keys);
	return true;
}

bool
hm_join_match_restriction(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, int column,
						  RestrictInfo *info, JoinKeys *keys)
{
	return match_restriction(root, inner, index, column, false, info, keys);
}

bool
hm_decides_match(JoinType type, RelOptInfo *joinrel, RestrictInfo *info)
{
	return !IS_OUTER_JOIN(type) || !RINFO_IS_PUSHED_DOWN(info, joinrel->relids);
}

/*
 * Add to the keys what narrows the range of the column that follows those with a value: join
 * clauses, and restrictions of the inner side that rule out half of the rows.  Of several targets,
 * each would need ranges of its own, so there are none.
 */
static void
match_range(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, JoinType type,
			RelOptInfo *joinrel, List *restrictions, JoinKeys *keys)
{
	int column = list_length(keys->exprs);
	HmFields fields;
	ListCell *cell;

	if (column == 0 || column == index->nkeycolumns || index->rel != inner)
		return;
	hm_read_fields(index, &fields);
	if (!hm_field_is_exact(&fields.fields[column]))
		return;
	foreach (cell, restrictions)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		if (hm_decides_match(type, joinrel, info))
			match_clause(root, inner, index, column, true, info, keys);
	}
	foreach (cell, inner->baserestrictinfo)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		if (clause_selectivity(root, (Node *) info, 0, JOIN_INNER, NULL) < RANGE_SELECTIVITY)
			match_restriction(root, inner, index, column, true, info, keys);
	}
}

/*
 * Collect the key clauses of a join for an index of several columns: for as many of its first
 * columns as have one, or a value that a restriction of the inner side gives them; and for ranges
 * of the next column.  Returns whether there is a key clause, and if that is not for equality, a
 * lower and an upper bound.
 */
static bool
match_columns(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, JoinType type,
			  RelOptInfo *joinrel, List *restrictions, JoinKeys *keys)
{
	bool equal;

	*keys = (JoinKeys){0};
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		bool found = false;
		ListCell *cell;

		foreach (cell, restrictions)
		{
			RestrictInfo *info = lfirst_node(RestrictInfo, cell);

			if (!found && hm_decides_match(type, joinrel, info))
				found = match_clause(root, inner, index, i, false, info, keys);
		}
		foreach (cell, inner->baserestrictinfo)
		{
			if (!found)
				found = hm_join_match_restriction(root, inner, index, i, lfirst(cell), keys);
		}
		if (!found)
			break;
	}
	equal = keys->clauses != NIL;
	match_range(root, inner, index, type, joinrel, restrictions, keys);
	return equal || (keys->clauses != NIL && keys->lower && keys->upper);
}

bool
hm_join_match_keys(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index, JoinType type,
				   RelOptInfo *joinrel, List *restrictions, JoinKeys *keys)
{
	ListCell *cell;

	if (hm_has_columns(index))
		return match_columns(root, inner, index, type, joinrel, restrictions, keys);
	*keys = (JoinKeys){0};
	foreach (cell, restrictions)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		if (hm_decides_match(type, joinrel, info))
			match_clause(root, inner, index, 0, false, info, keys);
	}
	return keys->equal || (keys->lower && keys->upper) ||
		   match_any(root, inner, index, type, joinrel, restrictions, keys);
}
