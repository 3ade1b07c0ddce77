/*
 * keyvalues.c
 *		Values that are looked for, of types whose keys are not exact.
 *
 * A key that is found says only that the value may be one of those that have this key.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "am/am.h"

/* The type that an operator compares keys with. */
static Oid
argument_type(Relation index, Oid subtype)
{
	return OidIsValid(subtype) ? subtype : index->rd_opcintype[0];
}

void
hm_key_equality(Relation index, Oid argument, FmgrInfo *function, MemoryContext context)
{
	Oid			type = argument_type(index, argument);
	Oid			operator = get_opfamily_member(index->rd_opfamily[0], index->rd_opcintype[0], type,
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
	ArrayType  *array = DatumGetArrayTypeP(argument);
	int16		length;
	bool		by_value;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			elements;

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

/*
 * Add the next value in the order of keys.  One that is the same as the first of its key is
 * left out: an array may have it many times.
 */
static void
add_value(HmKeyValues *result, uint64 key, Datum value, int16 length)
{
	uint32		last = result->count - 1;
	uint32		end = result->first[result->count];

	if (result->count > 0 && result->keys[last] == key)
	{
		if (datumIsEqual(result->values[result->first[last]], value, false, length))
			return;
	}
	else
		result->keys[result->count++] = key;
	result->values[end] = value;
	result->first[result->count] = end + 1;
}

/* Sort values by their keys. */
static void
sort_values(HmKeyValues *result, const uint64 *keys, const Datum *values, uint32 count,
			int16 length)
{
	HtProbe    *order = hm_alloc_large(sizeof(HtProbe) * ((Size) count + 1));
	HtProbe    *scratch;
	HtPsa		psa;

	ht_psa_start(&psa, keys, count, order);
	scratch = hm_alloc_large(sizeof(HtProbe) * ((Size) psa.largest + 1));
	while (psa.sorted < psa.count)
	{
		uint32		begin = psa.sorted;
		uint32		end = ht_psa_more(&psa, scratch);

		CHECK_FOR_INTERRUPTS();
		for (uint32 i = begin; i < end; i++)
			add_value(result, order[i].key, values[order[i].number], length);
	}
	pfree(scratch);
	pfree(order);
}

void
hm_values_from_key(Relation index, ScanKey key, HmKeyValues *result)
{
	const HmKeyType *type = hm_key_type(index);
	Oid			argument = argument_type(index, key->sk_subtype);
	HmBracketFunction bracket = hm_bracket_function(type->type, argument);
	uint32		count = 0;
	Datum	   *values = NULL;
	uint64	   *keys;

	Assert(hm_is_equal_any(key));
	if (bracket == NULL)
		elog(ERROR, "harmonia cannot compare type %s with type %s",
			 format_type_be(type->type), format_type_be(argument));
	if ((key->sk_flags & SK_ISNULL) == 0)
		values = array_values(key->sk_argument, &count);
	keys = hm_alloc_large(sizeof(uint64) * ((Size) count + 1));
	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		keys[i] = (uint64) bracket(type, values[i]).first;
	}

	result->count = 0;
	result->keys = hm_alloc_large(sizeof(uint64) * ((Size) count + 1));
	result->first = hm_alloc_large(sizeof(uint32) * ((Size) count + 1));
	result->first[0] = 0;
	result->values = hm_alloc_large(sizeof(Datum) * ((Size) count + 1));
	if (count > 0)
		sort_values(result, keys, values, count, get_typlen(argument));
	pfree(keys);
}
