/*
 * keyvalues.c
 *		Values that are looked for, of types whose keys are not exact.
 *
 * A key that is found says only that the value may be one of those that have this key.  A btree's
 * column may have none at all (HM_ANY_VALUE).
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "am/scan/scan.h"
#include "am/keyarray.h"

/* The type that an operator compares keys with. */
static Oid
argument_type(Relation index, Oid subtype)
{
	return OidIsValid(subtype) ? subtype : index->rd_opcintype[0];
}

void
hm_key_equality(Relation index, Oid argument, FmgrInfo *function, MemoryContext context)
{
	Oid type = argument_type(index, argument);
	Oid operator= get_opfamily_member(index->rd_opfamily[0], index->rd_opcintype[0], type,
									  BTEqualStrategyNumber);

	if (!OidIsValid(operator))
		elog(ERROR, "harmonia cannot compare type %s with type %s",
			 format_type_be(index->rd_opcintype[0]), format_type_be(type));
	fmgr_info_cxt(get_opcode(operator), function, context);
}

/* The elements of an array that are not NULL, and their number. */
static Datum *
array_values(Datum argument, uint32 *count)
{
	ArrayType *array = DatumGetArrayTypeP(argument);
	int16 length;
	bool by_value;
	char align;
	Datum *values;
	bool *nulls;
	int elements;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls,
					  &elements);
	*count = 0;
	for (int i = 0; i < elements; i++)
	{
		if (!nulls[i])
			values[(*count)++] = values[i];
	}
	pfree(nulls);
	return values;
}

static int
compare_values(const Datum *a, const Datum *b, SortSupport order)
{
	return ApplySortComparator(*a, false, *b, false, order);
}

#define ST_SORT sort_values
#define ST_ELEMENT_TYPE Datum
#define ST_COMPARE_ARG_TYPE SortSupportData
#define ST_COMPARE(a, b, order) compare_values(a, b, order)
#define ST_SCOPE static
#define ST_DEFINE
#define ST_CHECK_FOR_INTERRUPTS
#include "lib/sort_template.h"

/*
 * Have the numbers of values in the index's order in the place of keys, which do not tell them
 * apart.  Of equal values one is left.
 */
static void
number_values(Relation index, HmKeyValues *result, Datum *values, uint32 count)
{
	SortSupport order = hm_btree_order(index, false);

	sort_values(values, count, order);
	for (uint32 i = 0; i < count; i++)
	{
		if (i > 0 && compare_values(&values[i - 1], &values[i], order) == 0)
			continue;
		hm_key_put(result->keys, sizeof(uint64), result->count, result->count);
		result->values[result->count++] = values[i];
		result->first[result->count] = result->count;
	}
	MemoryContextDelete(order->ssup_cxt);
}

void
hm_values_from_key(Relation index, ScanKey key, HmKeyValues *result)
{
	const HmKeyType *type = hm_key_type(index);
	Oid argument = argument_type(index, key->sk_subtype);
	HmBracketFunction bracket = hm_bracket_function(type->type, argument);
	Size key_size = hm_key_size(type->width);
	uint32 count = 0;
	Datum *values = NULL;
	void *keys;

	Assert(hm_is_equal_any(key));
	if (bracket == NULL)
		elog(ERROR, "harmonia cannot compare type %s with type %s", format_type_be(type->type),
			 format_type_be(argument));
	if ((key->sk_flags & SK_ISNULL) == 0)
		values = array_values(key->sk_argument, &count);
	keys = hm_alloc_large(key_size * ((Size) count + 1));
	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		hm_key_put(keys, key_size, i, bracket(type, values[i]).first);
	}

	result->count = 0;
	result->keys = hm_alloc_large(key_size * ((Size) count + 1));
	result->first = hm_alloc_large(sizeof(uint32) * ((Size) count + 1));
	result->first[0] = 0;
	result->values = hm_alloc_large(sizeof(Datum) * ((Size) count + 1));
	if (type->type == HM_ANY_VALUE)
		number_values(index, result, values, count);
	else if (count > 0 && key_size == sizeof(uint64))
		hm_values_sort(result, keys, values, count, get_typlen(argument));
	else if (count > 0)
		hm_values_sort_128(result, keys, values, count, get_typlen(argument));
	pfree(keys);
}
