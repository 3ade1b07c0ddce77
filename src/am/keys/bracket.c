/*
 * bracket.c
 *		Where a comparison's argument lies among the keys of a column.
 *
 * btree's operator families compare values of different types, and so do ours.
 * The argument of such an operator need not be a value that the column can
 * have, so it is not turned into a key, but into a bracket: the key itself or
 * the gap between two neighbouring keys.  The rules are those of the operators
 * (float48lt, date_cmp_timestamp and so on); none of them raises an error that
 * the operator would not raise.
 *
 * Brackets are fuzzy in two cases.  One is a type that is not exact, whose keys stand for
 * several values.  The other is a column of dates or timestamps without time zone compared
 * with a timestamp with time zone.  There the operator converts the column's values by the
 * rules of the session's time zone, and around a change of the zone's offset that conversion
 * does not keep the order.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "pgtime.h"
#include "utils/date.h"
#include "utils/timestamp.h"

#include "am/am.h"
#include "am/keys/keyhash.h"
#include "compat.h"

/* A time zone's offset from UTC is less than this, in seconds: seven days. */
#define OFFSET_LIMIT (7 * SECS_PER_DAY)

StaticAssertDecl(END_TIMESTAMP + OFFSET_LIMIT * USECS_PER_SEC < PG_INT64_MAX,
				 "local time of a finite timestamp might be infinite");

/* ----------------------------------------------------------------
 *		Making brackets
 * ----------------------------------------------------------------
 */
static HmBracket
bracket_at(HmKey key)
{
	return (HmBracket){.first = key, .last = key, .has_first = true, .has_last = true};
}

/* The bracket of a value in the gap right below a key; there must be a lower key. */
static HmBracket
bracket_below(HmKey key)
{
	Assert(key > 0);
	return (HmBracket){.first = key, .last = key - 1, .has_first = true, .has_last = true};
}

static HmBracket
bracket_below_all(void)
{
	return (HmBracket){.has_first = true};
}

static HmBracket
bracket_above_all(void)
{
	return (HmBracket){.last = UINT64_MAX, .has_last = true};
}

/*
 * The bracket of a value of the column's own type.  If the type is not exact, its key is that
 * of other values, too.
 */
static HmBracket
bracket_same(const HmKeyType *column, Datum value)
{
	HmBracket bracket = bracket_at(column->normalise(value));

	bracket.fuzzy = !column->exact;
	bracket.hash_bits = column->hash_bits;
	return bracket;
}

/* ----------------------------------------------------------------
 *		Strings
 * ----------------------------------------------------------------
 */
static HmBracket
bracket_string(const HmKeyType *column, HmKey key)
{
	HmBracket bracket = bracket_at(key);

	bracket.fuzzy = true;
	bracket.hash_bits = column->hash_bits;
	return bracket;
}

static HmBracket
bracket_text(const HmKeyType *column, Datum value)
{
	return bracket_string(column,
						  column->hash_bits > 0 ? hm_text_c_key(value) : hm_text_key(value));
}

static HmBracket
bracket_name(const HmKeyType *column, Datum value)
{
	return bracket_string(column,
						  column->hash_bits > 0 ? hm_name_c_key(value) : hm_name_key(value));
}

/* ----------------------------------------------------------------
 *		Integers
 * ----------------------------------------------------------------
 */
static HmBracket
bracket_integer(const HmKeyType *column, int64 value)
{
	switch (column->type)
	{
		case INT2OID:
			if (value < PG_INT16_MIN)
				return bracket_below_all();
			if (value > PG_INT16_MAX)
				return bracket_above_all();
			return bracket_at(column->normalise(Int16GetDatum((int16) value)));
		case INT4OID:
			if (value < PG_INT32_MIN)
				return bracket_below_all();
			if (value > PG_INT32_MAX)
				return bracket_above_all();
			return bracket_at(column->normalise(Int32GetDatum((int32) value)));
		default:
			return bracket_at(column->normalise(Int64GetDatum(value)));
	}
}

static HmBracket
bracket_int2(const HmKeyType *column, Datum value)
{
	return bracket_integer(column, DatumGetInt16(value));
}

static HmBracket
bracket_int4(const HmKeyType *column, Datum value)
{
	return bracket_integer(column, DatumGetInt32(value));
}

static HmBracket
bracket_int8(const HmKeyType *column, Datum value)
{
	return bracket_integer(column, DatumGetInt64(value));
}

/* ----------------------------------------------------------------
 *		Floating point
 * ----------------------------------------------------------------
 */
static HmBracket
bracket_float4_in_float8(const HmKeyType *column, Datum value)
{
	return bracket_at(column->normalise(Float8GetDatum((float8) DatumGetFloat4(value))));
}

/*
 * The operator widens the column's value.  Instead, this rounds the argument to the
 * column's type, and looks on which side of the argument the result falls.  A finite
 * argument may be rounded to an infinity, which is then beyond it, as it should be.
 * Neighbouring keys are neighbouring numbers.  Only the key right below that of zero
 * belongs to no number; as a bound it does no harm.
 */
static HmBracket
bracket_float8_in_float4(const HmKeyType *column, Datum value)
{
	float8 wanted = DatumGetFloat8(value);
	float4 nearest = (float4) wanted;
	HmKey key = column->normalise(Float4GetDatum(nearest));

	if (isnan(wanted) || (float8) nearest == wanted)
		return bracket_at(key);
	return bracket_below((float8) nearest > wanted ? key : key + 1);
}

/* ----------------------------------------------------------------
 *		Dates and times
 * ----------------------------------------------------------------
 */

/*
 * An argument converted to the column's type, as the operator does it; one out
 * of range is beyond every finite value but not infinite.
 */
static HmBracket
bracket_converted(const HmKeyType *column, Timestamp value, int overflow)
{
	if (overflow > 0)
		return bracket_below(column->normalise(TimestampGetDatum(DT_NOEND)));
	if (overflow < 0)
		return bracket_below(column->normalise(TimestampGetDatum(DT_NOBEGIN)) + 1);
	return bracket_at(column->normalise(TimestampGetDatum(value)));
}

static HmBracket
bracket_date_in_timestamp(const HmKeyType *column, Datum value)
{
	HmConversion conversion = HM_CONVERSION;
	Timestamp converted = hm_convert(date2timestamp, DatumGetDateADT(value), &conversion);

	return bracket_converted(column, converted, hm_overflow(conversion, converted));
}

static HmBracket
bracket_date_in_timestamptz(const HmKeyType *column, Datum value)
{
	HmConversion conversion = HM_CONVERSION;
	TimestampTz converted = hm_convert(date2timestamptz, DatumGetDateADT(value), &conversion);

	return bracket_converted(column, converted, hm_overflow(conversion, converted));
}

static HmBracket
bracket_timestamp_in_timestamptz(const HmKeyType *column, Datum value)
{
	HmConversion conversion = HM_CONVERSION;
	TimestampTz converted =
		hm_convert(timestamp2timestamptz, DatumGetTimestamp(value), &conversion);

	return bracket_converted(column, converted, hm_overflow(conversion, converted));
}

/*
 * The bracket of a moment in a column of dates.  A date means its midnight.  Dates too
 * late to be a timestamp are above every finite moment.
 */
static HmBracket
bracket_among_dates(const HmKeyType *column, Timestamp moment)
{
	int64 day;
	HmKey key;

	if (TIMESTAMP_IS_NOBEGIN(moment))
		return bracket_at(column->normalise(DateADTGetDatum(DATEVAL_NOBEGIN)));
	if (TIMESTAMP_IS_NOEND(moment))
		return bracket_at(column->normalise(DateADTGetDatum(DATEVAL_NOEND)));
	moment = Min(moment, END_TIMESTAMP - 1);

	day = moment / USECS_PER_DAY;
	if (day * USECS_PER_DAY > moment)
		day--;
	key = column->normalise(DateADTGetDatum((DateADT) day));
	return day * USECS_PER_DAY == moment ? bracket_at(key) : bracket_below(key + 1);
}

static HmBracket
bracket_timestamp_in_date(const HmKeyType *column, Datum value)
{
	return bracket_among_dates(column, DatumGetTimestamp(value));
}

/*
 * The least and the greatest offset from UTC, in microseconds, that the session's time
 * zone may apply to a local time near a finite moment.
 *
 * Such a local time differs from the moment by less than OFFSET_LIMIT.  The server looks
 * for its offset as if it were UTC, from a day before it until the next change, if that
 * change precedes the result.  Hence the margin on both sides.
 */
static void
zone_offsets(TimestampTz moment, int64 *least, int64 *greatest)
{
	pg_time_t now = timestamptz_to_time_t(moment);
	pg_time_t from = now - 2 * OFFSET_LIMIT - 2 * SECS_PER_DAY;
	pg_time_t to = now + 2 * OFFSET_LIMIT + 2 * SECS_PER_DAY;
	long low = OFFSET_LIMIT;
	long high = -OFFSET_LIMIT;

	for (;;)
	{
		pg_time_t change;
		long before;
		long after;
		int before_is_dst;
		int after_is_dst;
		int found;

		found = pg_next_dst_boundary(&from, &before, &before_is_dst, &change, &after, &after_is_dst,
									 session_timezone);
		if (found < 0)
		{
			low = -OFFSET_LIMIT;
			high = OFFSET_LIMIT;
			break;
		}
		low = Min(low, before);
		high = Max(high, before);
		if (found == 0 || change > to)
			break;
		low = Min(low, after);
		high = Max(high, after);
		from = change;
	}
	*least = low * USECS_PER_SEC;
	*greatest = high * USECS_PER_SEC;
}

/*
 * The bracket of a moment in a column of local times.  If the zone's offset does not
 * change near it, that is the moment's own local time.  Otherwise it is anywhere between
 * the local times that the offsets give.  Neither can reach an infinity.
 */
static HmBracket
bracket_local(const HmKeyType *column, TimestampTz moment,
			  HmBracket (*among)(const HmKeyType *column, Timestamp local))
{
	int64 least;
	int64 greatest;
	HmBracket low;
	HmBracket high;

	if (TIMESTAMP_NOT_FINITE(moment))
		return among(column, moment);

	zone_offsets(moment, &least, &greatest);
	low = among(column, moment + least);
	if (least == greatest)
		return low;
	high = among(column, moment + greatest);
	low.last = high.last;
	low.fuzzy = true;
	return low;
}

static HmBracket
bracket_among_timestamps(const HmKeyType *column, Timestamp moment)
{
	return bracket_at(column->normalise(TimestampGetDatum(moment)));
}

static HmBracket
bracket_timestamptz_in_date(const HmKeyType *column, Datum value)
{
	return bracket_local(column, DatumGetTimestampTz(value), bracket_among_dates);
}

static HmBracket
bracket_timestamptz_in_timestamp(const HmKeyType *column, Datum value)
{
	return bracket_local(column, DatumGetTimestampTz(value), bracket_among_timestamps);
}

/* ----------------------------------------------------------------
 *		Lookup
 * ----------------------------------------------------------------
 */
static const struct
{
	Oid column;
	Oid argument;
	HmBracketFunction function;
} cross_types[] = {{INT2OID, INT4OID, bracket_int4},
				   {INT2OID, INT8OID, bracket_int8},
				   {INT4OID, INT2OID, bracket_int2},
				   {INT4OID, INT8OID, bracket_int8},
				   {INT8OID, INT2OID, bracket_int2},
				   {INT8OID, INT4OID, bracket_int4},
				   {FLOAT4OID, FLOAT8OID, bracket_float8_in_float4},
				   {FLOAT8OID, FLOAT4OID, bracket_float4_in_float8},
				   {DATEOID, TIMESTAMPOID, bracket_timestamp_in_date},
				   {DATEOID, TIMESTAMPTZOID, bracket_timestamptz_in_date},
				   {TIMESTAMPOID, DATEOID, bracket_date_in_timestamp},
				   {TIMESTAMPOID, TIMESTAMPTZOID, bracket_timestamptz_in_timestamp},
				   {TIMESTAMPTZOID, DATEOID, bracket_date_in_timestamptz},
				   {TIMESTAMPTZOID, TIMESTAMPOID, bracket_timestamp_in_timestamptz},
				   {TEXTOID, NAMEOID, bracket_name},
				   {NAMEOID, TEXTOID, bracket_text}};

HmBracketFunction
hm_bracket_function(Oid column, Oid argument)
{
	if (column == argument || column == HM_ANY_VALUE)
		return hm_key_type_lookup(column) != NULL ? bracket_same : NULL;
	for (int i = 0; i < lengthof(cross_types); i++)
	{
		if (cross_types[i].column == column && cross_types[i].argument == argument)
			return cross_types[i].function;
	}
	return NULL;
}

/* The strategy that accepts equal values, too. */
static StrategyNumber
or_equal(StrategyNumber strategy)
{
	if (strategy == BTLessStrategyNumber)
		return BTLessEqualStrategyNumber;
	if (strategy == BTGreaterStrategyNumber)
		return BTGreaterEqualStrategyNumber;
	return strategy;
}

bool
hm_bracket_range(StrategyNumber strategy, const HmBracket *bracket, HmKey max, HmKey *low,
				 HmKey *high)
{
	HmKey hash = ht_key_ones_128(bracket->hash_bits);
	HmKey first = bracket->first;
	HmKey last = bracket->last;

	*low = 0;
	*high = max;

	if (strategy != BTEqualStrategyNumber)
	{
		first &= ~hash;
		last |= hash;
	}

	switch (bracket->fuzzy ? or_equal(strategy) : strategy)
	{
		case BTLessStrategyNumber:
			if (!bracket->has_first)
				return true;
			if (first == 0)
				return false;
			*high = first - 1;
			return true;

		case BTLessEqualStrategyNumber:
			if (!bracket->has_last)
				return false;
			*high = Min(last, max);
			return true;

		case BTEqualStrategyNumber:
			if (!bracket->has_first || !bracket->has_last)
				return false;
			*low = first;
			*high = last;
			return *low <= *high;

		case BTGreaterEqualStrategyNumber:
			if (!bracket->has_first)
				return false;
			*low = first;
			return true;

		case BTGreaterStrategyNumber:
			if (!bracket->has_last)
				return true;
			if (last >= max)
				return false;
			*low = last + 1;
			return true;

		default:
			elog(ERROR, "unrecognized strategy number: %d", (int) strategy);
			return false;
	}
}
