/*
 * value_set.h
 *		Distinct values, found by the hash functions of an equality operator.
 *
 * They are the keys of a foreign join's batch, each with the outer rows that have it, or the
 * elements of an array that are rows of a lookup scan.
 */
#ifndef HARMONIA_EXEC_VALUE_SET_H
#define HARMONIA_EXEC_VALUE_SET_H

#include "executor/executor.h"

/* No row, or no key. */
#define HM_NO_VALUE PG_UINT32_MAX

/* One of the distinct keys of a batch, with the outer rows that have it, in their order. */
typedef struct HmSetValue
{
	Datum value;
	uint32 hash;
	uint32 first_row;
	uint32 last_row;
	uint32 next; /* the next key of the bucket */
} HmSetValue;

/* Distinct values. */
typedef struct HmValueSet
{
	FmgrInfo hash_outer;
	FmgrInfo hash_inner;
	FmgrInfo same;   /* whether two keys of outer rows are equal */
	FmgrInfo equal;  /* the operator of the key clause */
	bool inner_left; /* the inner side's key is its first argument */
	Oid collation;
	Oid type;
	int16 length;
	bool by_value;
	char align;

	uint32 count;
	uint32 room;
	HmSetValue *keys;
	uint32 bucket_mask;
	uint32 *buckets;
	Size copied;           /* bytes of values that are passed by reference */
	MemoryContext context; /* these, and the array; reset for each batch */
} HmValueSet;

/* Begin with keys of the outer side of an operator. */
extern void hm_value_set_begin(HmValueSet *keys, Oid operator, bool inner_left, Oid collation,
							   Oid type);

/* Drop all keys. */
extern void hm_value_set_reset(HmValueSet *keys);

/* The number of the key with this value, which is added if need be. */
extern uint32 hm_value_set_add(HmValueSet *keys, Datum value);

/* The number of the key that is equal to an inner row's; HM_NO_VALUE if there is none. */
extern uint32 hm_value_set_find(HmValueSet *keys, Datum value);

/*
 * An array of the values that satisfy a condition, in keys->context; all if that is NULL.  The
 * condition finds the value as econtext's caseValue.  Returns the number of values; if it is 0,
 * *array is not set.
 */
extern uint32 hm_value_set_array(HmValueSet *keys, ExprState *condition, ExprContext *econtext,
								 Datum *array);

/* The bytes that keys take, with their array. */
extern Size hm_value_set_memory(const HmValueSet *keys);

#endif /* HARMONIA_EXEC_VALUE_SET_H */
