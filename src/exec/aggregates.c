/*
 * aggregates.c
 *		The aggregate functions that a lookup aggregate computes.
 *
 * Their results, and the transition states that partial aggregates pass on, are those of
 * PostgreSQL's own functions, bit by bit.  Where the result depends on the order of rows
 * (the sign of a zero among floats), rows are taken in the same order.  sum() and avg()
 * of floats and numerics are left to PostgreSQL.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "exec/lookup_aggregate.h"

typedef void (*AddFunction)(const HmColumn *input, uint32 rows, HmAggregateState *state,
							char **records, Size offset);
typedef Datum (*ResultFunction)(const HmAggregateState *state, bool partial, bool *is_null);

struct HmAggregate
{
	Oid function;
	AddFunction add;
	ResultFunction result;
};

/* ----------------------------------------------------------------
 *		Transitions
 * ----------------------------------------------------------------
 */

/* Add one value that is not NULL to a state. */
typedef void (*Transition)(HmAggregateState *state, Datum value);

static pg_attribute_always_inline void
add_rows(const HmColumn *input, uint32 rows, HmAggregateState *state, char **records, Size offset,
		 Transition transition)
{
	const Datum *values = input->values;
	const bool *nulls = input->nulls;

	if (records != NULL)
	{
		for (uint32 i = 0; i < rows; i++)
		{
			if (nulls == NULL || !nulls[i])
				transition((HmAggregateState *) (records[i] + offset), values[i]);
		}
	}
	else
	{
		HmAggregateState sum = *state; /* in registers */

		for (uint32 i = 0; i < rows; i++)
		{
			if (nulls == NULL || !nulls[i])
				transition(&sum, values[i]);
		}
		*state = sum;
	}
}

/* Define a function that adds a block's values, each by this transition. */
#define DEFINE_ADD(name) \
	static void add_##name(const HmColumn *input, uint32 rows, HmAggregateState *state, \
						   char **records, Size offset) \
	{ \
		add_rows(input, rows, state, records, offset, transition_##name); \
	}

#define DEFINE_SUM(name, get) \
	static pg_attribute_always_inline void transition_##name(HmAggregateState *state, Datum value) \
	{ \
		state->count++; \
		state->u.sum += get(value); \
	} \
	DEFINE_ADD(name)

DEFINE_SUM(sum2, DatumGetInt16)
DEFINE_SUM(sum4, DatumGetInt32)
DEFINE_SUM(sum8, DatumGetInt64)

/*
 * The old value is kept if it compares as "better", and replaced if both are equal, as
 * PostgreSQL does.
 */
#define DEFINE_BEST(name, get, is_better) \
	static pg_attribute_always_inline void transition_##name(HmAggregateState *state, Datum value) \
	{ \
		if (state->count == 0 || !is_better(get(state->u.value), get(value))) \
			state->u.value = value; \
		state->count = 1; \
	} \
	DEFINE_ADD(name)

#define IS_LESS(a, b) ((a) < (b))
#define IS_GREATER(a, b) ((a) > (b))

DEFINE_BEST(min2, DatumGetInt16, IS_LESS)
DEFINE_BEST(max2, DatumGetInt16, IS_GREATER)
DEFINE_BEST(min4, DatumGetInt32, IS_LESS)
DEFINE_BEST(max4, DatumGetInt32, IS_GREATER)
DEFINE_BEST(min8, DatumGetInt64, IS_LESS)
DEFINE_BEST(max8, DatumGetInt64, IS_GREATER)
DEFINE_BEST(min_oid, DatumGetObjectId, IS_LESS)
DEFINE_BEST(max_oid, DatumGetObjectId, IS_GREATER)
DEFINE_BEST(min_float4, DatumGetFloat4, float4_lt)
DEFINE_BEST(max_float4, DatumGetFloat4, float4_gt)
DEFINE_BEST(min_float8, DatumGetFloat8, float8_lt)
DEFINE_BEST(max_float8, DatumGetFloat8, float8_gt)

/* bool_and() is the least of its values, bool_or() the greatest. */
DEFINE_BEST(min_bool, DatumGetBool, IS_LESS)
DEFINE_BEST(max_bool, DatumGetBool, IS_GREATER)

static void
add_count(const HmColumn *input, uint32 rows, HmAggregateState *state, char **records, Size offset)
{
	const bool *nulls = input != NULL ? input->nulls : NULL;

	if (records != NULL)
	{
		for (uint32 i = 0; i < rows; i++)
			((HmAggregateState *) (records[i] + offset))->count += nulls == NULL || !nulls[i];
	}
	else if (nulls != NULL)
	{
		for (uint32 i = 0; i < rows; i++)
			state->count += !nulls[i];
	}
	else
		state->count += rows;
}

/* ----------------------------------------------------------------
 *		Results
 * ----------------------------------------------------------------
 */

static Datum
count_result(const HmAggregateState *state, bool partial, bool *is_null)
{
	return Int64GetDatum(state->count);
}

static Datum
value_result(const HmAggregateState *state, bool partial, bool *is_null)
{
	*is_null = state->count == 0;
	return *is_null ? (Datum) 0 : state->u.value;
}

/* PostgreSQL adds up int2 and int4 in 64 bits, without looking for an overflow. */
static Datum
int8_result(const HmAggregateState *state, bool partial, bool *is_null)
{
	*is_null = state->count == 0;
	return Int64GetDatum((int64) state->u.sum);
}

/* The transition state of avg() of int2 and int4 is an array: count and sum. */
static Datum
average_of_int8(const HmAggregateState *state, bool partial, bool *is_null)
{
	Datum numbers[2] = {Int64GetDatum(state->count), Int64GetDatum((int64) state->u.sum)};

	if (partial)
		return PointerGetDatum(
			construct_array(numbers, 2, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	*is_null = state->count == 0;
	if (*is_null)
		return (Datum) 0;
	return DirectFunctionCall2(numeric_div, NumericGetDatum(int64_to_numeric((int64) state->u.sum)),
							   NumericGetDatum(int64_to_numeric(state->count)));
}

static Datum
numeric_from_int128(int128 value)
{
	const int64 unit = INT64CONST(1000000000000000000);
	Datum high;

	if (value >= PG_INT64_MIN && value <= PG_INT64_MAX)
		return NumericGetDatum(int64_to_numeric((int64) value));
	high = DirectFunctionCall2(numeric_mul, numeric_from_int128(value / unit),
							   NumericGetDatum(int64_to_numeric(unit)));
	return DirectFunctionCall2(numeric_add, high,
							   NumericGetDatum(int64_to_numeric((int64) (value % unit))));
}

/*
 * The transition state of sum() and avg() of int8, as int8_avg_serialize() writes it: the
 * count, and the sum, in 128 bits or as digits, most significant first, to the base 10000.
 */
#ifdef HM_BINARY_SUMS
static Datum
serialize_sum(const HmAggregateState *state)
{
	StringInfoData buffer;

	pq_begintypsend(&buffer);
	pq_sendint64(&buffer, state->count);
	pq_sendint64(&buffer, (uint64) ((uint128) state->u.sum >> 64));
	pq_sendint64(&buffer, (uint64) state->u.sum);
	return PointerGetDatum(pq_endtypsend(&buffer));
}
#else
static Datum
serialize_sum(const HmAggregateState *state)
{
	uint128 rest = state->u.sum < 0 ? -(uint128) state->u.sum : (uint128) state->u.sum;
	int16 digits[10]; /* of 39 decimal digits */
	int count = 0;
	StringInfoData buffer;

	for (; rest != 0; rest /= 10000)
		digits[count++] = (int16) (rest % 10000);

	pq_begintypsend(&buffer);
	pq_sendint64(&buffer, state->count);
	pq_sendint32(&buffer, count);
	pq_sendint32(&buffer, Max(count - 1, 0));             /* the first digit's weight */
	pq_sendint32(&buffer, state->u.sum < 0 ? 0x4000 : 0); /* the sign */
	pq_sendint32(&buffer, 0);                             /* digits after the decimal point */
	while (count > 0)
		pq_sendint16(&buffer, digits[--count]);
	return PointerGetDatum(pq_endtypsend(&buffer));
}
#endif

static Datum
numeric_result(const HmAggregateState *state, bool partial, bool *is_null)
{
	*is_null = state->count == 0;
	if (*is_null)
		return (Datum) 0;
	return partial ? serialize_sum(state) : numeric_from_int128(state->u.sum);
}

static Datum
average_of_numeric(const HmAggregateState *state, bool partial, bool *is_null)
{
	*is_null = state->count == 0;
	if (*is_null)
		return (Datum) 0;
	if (partial)
		return serialize_sum(state);
	return DirectFunctionCall2(numeric_div, numeric_from_int128(state->u.sum),
							   NumericGetDatum(int64_to_numeric(state->count)));
}

/* ----------------------------------------------------------------
 *		The list
 * ----------------------------------------------------------------
 */

static const HmAggregate aggregates[] = {
	{F_COUNT_, add_count, count_result},          {F_COUNT_ANY, add_count, count_result},
	{F_SUM_INT2, add_sum2, int8_result},          {F_SUM_INT4, add_sum4, int8_result},
	{F_SUM_INT8, add_sum8, numeric_result},       {F_AVG_INT2, add_sum2, average_of_int8},
	{F_AVG_INT4, add_sum4, average_of_int8},      {F_AVG_INT8, add_sum8, average_of_numeric},
	{F_MIN_INT2, add_min2, value_result},         {F_MAX_INT2, add_max2, value_result},
	{F_MIN_INT4, add_min4, value_result},         {F_MAX_INT4, add_max4, value_result},
	{F_MIN_INT8, add_min8, value_result},         {F_MAX_INT8, add_max8, value_result},
	{F_MIN_OID, add_min_oid, value_result},       {F_MAX_OID, add_max_oid, value_result},
	{F_MIN_DATE, add_min4, value_result},         {F_MAX_DATE, add_max4, value_result},
	{F_MIN_TIME, add_min8, value_result},         {F_MAX_TIME, add_max8, value_result},
	{F_MIN_TIMESTAMP, add_min8, value_result},    {F_MAX_TIMESTAMP, add_max8, value_result},
	{F_MIN_TIMESTAMPTZ, add_min8, value_result},  {F_MAX_TIMESTAMPTZ, add_max8, value_result},
	{F_MIN_MONEY, add_min8, value_result},        {F_MAX_MONEY, add_max8, value_result},
	{F_MIN_FLOAT4, add_min_float4, value_result}, {F_MAX_FLOAT4, add_max_float4, value_result},
	{F_MIN_FLOAT8, add_min_float8, value_result}, {F_MAX_FLOAT8, add_max_float8, value_result},
	{F_BOOL_AND, add_min_bool, value_result},     {F_EVERY, add_min_bool, value_result},
	{F_BOOL_OR, add_max_bool, value_result},
};

const HmAggregate *
hm_aggregate_lookup(Oid function)
{
	for (int i = 0; i < lengthof(aggregates); i++)
	{
		if (aggregates[i].function == function)
			return &aggregates[i];
	}
	return NULL;
}

void
hm_aggregate_add(const HmAggregate *aggregate, const HmColumn *input, uint32 rows,
				 HmAggregateState *state, char **records, Size offset)
{
	aggregate->add(input, rows, state, records, offset);
}

Datum
hm_aggregate_result(const HmAggregate *aggregate, const HmAggregateState *state, bool partial,
					bool *is_null)
{
	*is_null = false;
	return aggregate->result(state, partial, is_null);
}

/* ----------------------------------------------------------------
 *		Permissions
 * ----------------------------------------------------------------
 */

/* Check that an aggregate's owner may call one of its functions, if it has that one. */
static void
check_part(Oid function, Oid owner)
{
	AclResult result;

	if (!OidIsValid(function))
		return;
	result = hm_function_aclcheck(function, owner);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

static Oid
function_owner(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

void
hm_aggregate_check_permissions(const Aggref *aggref)
{
	AclResult result = hm_function_aclcheck(aggref->aggfnoid, GetUserId());
	HeapTuple tuple;
	FormData_pg_aggregate form;
	Oid owner;

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_AGGREGATE, get_func_name(aggref->aggfnoid));
	InvokeFunctionExecuteHook(aggref->aggfnoid);

	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	form = *(Form_pg_aggregate) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);

	owner = function_owner(aggref->aggfnoid);
	check_part(form.aggtransfn, owner);
	if (!DO_AGGSPLIT_SKIPFINAL(aggref->aggsplit))
		check_part(form.aggfinalfn, owner);
	if (DO_AGGSPLIT_SERIALIZE(aggref->aggsplit) && aggref->aggtranstype == INTERNALOID)
		check_part(form.aggserialfn, owner);
}
