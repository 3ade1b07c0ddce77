/*
 * value_set.c
 *		Distinct values: a hash table, by an equality operator's own hash functions.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "exec/value_set.h"

#define MIN_ROOM 1024

void
hm_value_set_begin(HmValueSet *keys, Oid operator, bool inner_left, Oid collation, Oid type)
{
	RegProcedure left_hash, right_hash;
	Oid left_equal, right_equal;

	if (!get_op_hash_functions(operator, & left_hash, &right_hash) ||
		!get_compatible_hash_operators(operator, & left_equal, &right_equal))
		elog(ERROR, "operator %u cannot be hashed", operator);
	fmgr_info(inner_left ? right_hash : left_hash, &keys->hash_outer);
	fmgr_info(inner_left ? left_hash : right_hash, &keys->hash_inner);
	fmgr_info(get_opcode(inner_left ? right_equal : left_equal), &keys->same);
	fmgr_info(get_opcode(operator), &keys->equal);
	keys->inner_left = inner_left;
	keys->collation = collation;
	keys->type = type;
	get_typlenbyvalalign(type, &keys->length, &keys->by_value, &keys->align);
	keys->context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia value set", ALLOCSET_DEFAULT_SIZES);
}

void
hm_value_set_reset(HmValueSet *keys)
{
	MemoryContextReset(keys->context);
	keys->keys = NULL;
	keys->buckets = NULL;
	keys->count = keys->room = 0;
	keys->copied = 0;
}

/* Twice the room, and twice the buckets. */
static void
make_room(HmValueSet *keys)
{
	Size room = Max(MIN_ROOM, (Size) keys->room * 2);

	if (keys->keys == NULL)
	{
		keys->keys = MemoryContextAllocHuge(keys->context, room * sizeof(HmSetValue));
		keys->buckets = MemoryContextAllocHuge(keys->context, room * sizeof(uint32));
	}
	else
	{
		keys->keys = repalloc_huge(keys->keys, room * sizeof(HmSetValue));
		keys->buckets = repalloc_huge(keys->buckets, room * sizeof(uint32));
	}
	keys->room = (uint32) room;
	keys->bucket_mask = (uint32) room - 1;
	memset(keys->buckets, 0xff, room * sizeof(uint32));
	for (uint32 i = 0; i < keys->count; i++)
	{
		uint32 *bucket = &keys->buckets[keys->keys[i].hash & keys->bucket_mask];

		keys->keys[i].next = *bucket;
		*bucket = i;
	}
}

/* Copy a value, as it is in an array: never out of line, nor compressed. */
static Datum
copy_value(HmValueSet *keys, Datum value)
{
	MemoryContext old_context;
	Datum copy;

	if (keys->by_value)
		return value;
	old_context = MemoryContextSwitchTo(keys->context);
	if (keys->length == -1)
		copy = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	else
		copy = datumCopy(value, false, keys->length);
	keys->copied += MAXALIGN(datumGetSize(copy, false, keys->length)) + 2 * sizeof(void *);
	MemoryContextSwitchTo(old_context);
	return copy;
}

/* The hash functions of integers are weak in their low bits for some types: mix them. */
static inline uint32
mix(Datum hash)
{
	return murmurhash32(DatumGetUInt32(hash));
}

uint32
hm_value_set_add(HmValueSet *keys, Datum value)
{
	uint32 hash = mix(FunctionCall1Coll(&keys->hash_outer, keys->collation, value));
	uint32 number;
	HmSetValue *key;

	if (keys->count == keys->room)
		make_room(keys);
	for (number = keys->buckets[hash & keys->bucket_mask]; number != HM_NO_VALUE;
		 number = keys->keys[number].next)
	{
		key = &keys->keys[number];
		if (key->hash == hash &&
			DatumGetBool(FunctionCall2Coll(&keys->same, keys->collation, key->value, value)))
			return number;
	}
	number = keys->count++;
	key = &keys->keys[number];
	key->value = copy_value(keys, value);
	key->hash = hash;
	key->first_row = key->last_row = HM_NO_VALUE;
	key->next = keys->buckets[hash & keys->bucket_mask];
	keys->buckets[hash & keys->bucket_mask] = number;
	return number;
}

uint32
hm_value_set_find(HmValueSet *keys, Datum value)
{
	uint32 hash = mix(FunctionCall1Coll(&keys->hash_inner, keys->collation, value));

	for (uint32 number = keys->buckets[hash & keys->bucket_mask]; number != HM_NO_VALUE;
		 number = keys->keys[number].next)
	{
		HmSetValue *key = &keys->keys[number];

		if (key->hash == hash &&
			DatumGetBool(FunctionCall2Coll(&keys->equal, keys->collation,
										   keys->inner_left ? value : key->value,
										   keys->inner_left ? key->value : value)))
			return number;
	}
	return HM_NO_VALUE;
}

uint32
hm_value_set_array(HmValueSet *keys, ExprState *condition, ExprContext *econtext, Datum *array)
{
	MemoryContext old_context = MemoryContextSwitchTo(keys->context);
	Datum *values = palloc_extended(keys->count * sizeof(Datum), MCXT_ALLOC_HUGE);
	uint32 count = 0;

	for (uint32 i = 0; i < keys->count; i++)
	{
		if (condition != NULL)
		{
			ResetExprContext(econtext);
			econtext->caseValue_datum = keys->keys[i].value;
			econtext->caseValue_isNull = false;
			if (!ExecQual(condition, econtext))
				continue;
		}
		values[count++] = keys->keys[i].value;
	}
	if (count > 0)
		*array = PointerGetDatum(construct_array(values, (int) count, keys->type, keys->length,
												 keys->by_value, keys->align));
	pfree(values);
	MemoryContextSwitchTo(old_context);
	return count;
}

Size
hm_value_set_memory(const HmValueSet *keys)
{
	/* The array, and for a moment what it is made of, are about as large as the values. */
	return keys->room * (sizeof(HmSetValue) + sizeof(uint32)) + keys->count * 2 * sizeof(Datum) +
		   2 * keys->copied;
}
