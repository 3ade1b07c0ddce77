/*
 * btreekeys.c
 *		Keys of PostgreSQL's btree indexes, as lookups see them.
 *
 * A lookup can search a btree index by normalised keys, too, if its first columns have types whose
 * keys are exact and sort as values do, and have room in 128 bits.  The keys are made of these
 * columns alone, as those of a harmonia index on them, with one difference: where there is no room
 * for NULL, it shares the value of the least or the greatest key, as it sorts, because the order is
 * that of the index; and so that entries with NULL are on one side of those with that key, later
 * columns have the least or the greatest values.  What is computed here is not stored.
 *
 * Of any other btree a lookup searches the first column by the values themselves, whatever their
 * type, as the operator class and the collation compare them.
 */
#include "postgres.h"

#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "am/keys/keys.h"
#include "compat.h"

/* The key type of a column, alone or among several; NULL if it has no order that keys keep. */
static const HmKeyType *
ordered_type(Oid family, Oid type, bool alone)
{
	const HmKeyType *result = alone ? hm_key_type_lookup(type) : hm_field_type_lookup(type);

	/* Families that are not a type's default one may sort in another way. */
	if (result == NULL || !result->exact || !result->ordered ||
		lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf != family)
		return NULL;
	return result;
}

bool
hm_btree_has_keys(Oid family, Oid type)
{
	return ordered_type(family, type, true) != NULL;
}

/*
 * Keys of values that are equal by the index are the same, or there are none.  Probes of exact
 * types have keys alone, which are to give the values back.
 */
Oid
hm_btree_type_id(Oid family, Oid type, Oid collation)
{
	const HmKeyType *key_type = hm_key_type_lookup(type);

	if (hm_btree_has_keys(family, type))
		return type;
	if (key_type == NULL || (key_type->exact && !key_type->returnable) ||
		(OidIsValid(collation) && !get_collation_isdeterministic(collation)) ||
		get_opfamily_member(family, type, type, BTEqualStrategyNumber) !=
			lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr)
		return HM_ANY_VALUE;
	return type;
}

SortSupport
hm_btree_order(Relation index, bool abbreviate)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "order of values", ALLOCSET_SMALL_SIZES);
	SortSupport order = MemoryContextAllocZero(context, sizeof(SortSupportData));

	order->ssup_cxt = context;
	order->ssup_collation = index->rd_indcollation[0];
	order->ssup_attno = 1;
	order->abbreviate = abbreviate;
	hm_prepare_index_order(index, (index->rd_indoption[0] & INDOPTION_DESC) != 0, order);
	return order;
}

int
hm_btree_columns(const Oid *families, const Oid *types, int count)
{
	int bits = 0;
	int columns = 0;

	if (!hm_btree_has_keys(families[0], types[0]))
		return 1;
	for (; columns < Min(count, HM_MAX_KEY_COLUMNS); columns++)
	{
		const HmKeyType *type = ordered_type(families[columns], types[columns], false);

		if (type == NULL || bits + type->bits > 128)
			break;
		bits += type->bits;
	}
	return Max(columns, 1);
}
