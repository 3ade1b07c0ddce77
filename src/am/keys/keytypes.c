/*
 * keytypes.c
 *		Values to normalised keys and back, and the list of types.
 *
 * A normalised key is an unsigned integer.  Two values that are equal to btree's default
 * operator class of the type have the same key, which is why floating-point columns cannot
 * be given back: -0.0 is stored as 0.0, and every NaN as the same NaN.
 *
 * Keys of an exact type are equal only if the values are.  Those of an ordered type sort
 * exactly as that operator class does.  keyhash.c has the types that are not exact.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/cash.h"
#include "utils/date.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "am/keys/keys.h"
#include "am/keys/keyhash.h"

StaticAssertDecl(FLOAT8PASSBYVAL,
				 "harmonia needs a 64-bit PostgreSQL, which passes bigint and float8 by value");

#define SIGN32 UINT32_C(0x80000000)
#define SIGN64 UINT64_C(0x8000000000000000)

/* Signed to unsigned and back, keeping the order. */
static inline uint64
key_from_int32(int32 value)
{
	return (uint32) value ^ SIGN32;
}

static inline int32
key_to_int32(uint64 key)
{
	return (int32) ((uint32) key ^ SIGN32);
}

static inline uint64
key_from_int64(int64 value)
{
	return (uint64) value ^ SIGN64;
}

static inline int64
key_to_int64(uint64 key)
{
	return (int64) (key ^ SIGN64);
}

/* ----------------------------------------------------------------
 *		32-bit keys
 * ----------------------------------------------------------------
 */
static HmKey
bool_normalise(Datum value)
{
	return DatumGetBool(value) ? 1 : 0;
}

static Datum
bool_restore(HmKey key)
{
	return BoolGetDatum(key != 0);
}

/* "char" is compared as an unsigned character. */
static HmKey
char_normalise(Datum value)
{
	return (uint8) DatumGetChar(value);
}

static Datum
char_restore(HmKey key)
{
	return CharGetDatum((char) (uint8) key);
}

static HmKey
int2_normalise(Datum value)
{
	return key_from_int32(DatumGetInt16(value));
}

static Datum
int2_restore(HmKey key)
{
	return Int16GetDatum((int16) key_to_int32(key));
}

static HmKey
int4_normalise(Datum value)
{
	return key_from_int32(DatumGetInt32(value));
}

static Datum
int4_restore(HmKey key)
{
	return Int32GetDatum(key_to_int32(key));
}

static HmKey
oid_normalise(Datum value)
{
	return DatumGetObjectId(value);
}

/*
 * Extended by its sign, as a tuple gives it: nodes above may compare all bits of a Datum (Memoize
 * does).
 */
static Datum
oid_restore(HmKey key)
{
	return Int32GetDatum((int32) (uint32) key);
}

/* The infinities of dates and timestamps are the extreme integers already. */
static HmKey
date_normalise(Datum value)
{
	return key_from_int32(DatumGetDateADT(value));
}

static Datum
date_restore(HmKey key)
{
	return DateADTGetDatum(key_to_int32(key));
}

/*
 * IEEE numbers sort as integers of sign and magnitude.  NaN becomes the positive quiet
 * NaN, which is above infinity, as in btree.
 */
static HmKey
float4_normalise(Datum value)
{
	float4 number = DatumGetFloat4(value);
	uint32 bits;

	if (isnan(number))
		return UINT32_C(0x7FC00000) | SIGN32;
	if (number == 0)
		return SIGN32;
	memcpy(&bits, &number, sizeof(bits));
	return (bits & SIGN32) ? (uint32) ~bits : bits | SIGN32;
}

/* ----------------------------------------------------------------
 *		64-bit keys
 * ----------------------------------------------------------------
 */
static HmKey
int8_normalise(Datum value)
{
	return key_from_int64(DatumGetInt64(value));
}

static Datum
int8_restore(HmKey key)
{
	return Int64GetDatum(key_to_int64(key));
}

static HmKey
time_normalise(Datum value)
{
	return key_from_int64(DatumGetTimeADT(value));
}

static Datum
time_restore(HmKey key)
{
	return TimeADTGetDatum(key_to_int64(key));
}

static HmKey
timestamp_normalise(Datum value)
{
	return key_from_int64(DatumGetTimestamp(value));
}

static Datum
timestamp_restore(HmKey key)
{
	return TimestampGetDatum(key_to_int64(key));
}

static HmKey
timestamptz_normalise(Datum value)
{
	return key_from_int64(DatumGetTimestampTz(value));
}

static Datum
timestamptz_restore(HmKey key)
{
	return TimestampTzGetDatum(key_to_int64(key));
}

static HmKey
float8_normalise(Datum value)
{
	float8 number = DatumGetFloat8(value);
	uint64 bits;

	if (isnan(number))
		return UINT64_C(0x7FF8000000000000) | SIGN64;
	if (number == 0)
		return SIGN64;
	memcpy(&bits, &number, sizeof(bits));
	return (bits & SIGN64) ? ~bits : bits | SIGN64;
}

static HmKey
money_normalise(Datum value)
{
	return key_from_int64(DatumGetCash(value));
}

static Datum
money_restore(HmKey key)
{
	return CashGetDatum(key_to_int64(key));
}

/* ----------------------------------------------------------------
 *		128-bit keys
 * ----------------------------------------------------------------
 */

/* uuids are compared byte by byte, as if by memcmp(). */
static HmKey
uuid_normalise(Datum value)
{
	uint64 words[2];

	memcpy(words, DatumGetUUIDP(value), sizeof(words));
	return (HmKey) pg_ntoh64(words[0]) << 64 | pg_ntoh64(words[1]);
}

static Datum
uuid_restore(HmKey key)
{
	pg_uuid_t *uuid = palloc(sizeof(pg_uuid_t));
	uint64 words[2] = {pg_hton64((uint64) (key >> 64)), pg_hton64((uint64) key)};

	memcpy(uuid, words, sizeof(words));
	return UUIDPGetDatum(uuid);
}

/* ----------------------------------------------------------------
 *		Arrays
 * ----------------------------------------------------------------
 */
/*
 * The same for contiguous values, as in an array.  Keys of the same size may overwrite
 * their values.
 */
#define NORMALISE_ALL(type, Value, ToDatum) \
	static void type##_normalise_all(const char *values, Size count, void *keys) \
	{ \
		const Value *from = (const Value *) values; \
		uint64 *to = keys; \
\
		for (Size i = 0; i < count; i++) \
			to[i] = (uint64) type##_normalise(ToDatum(from[i])); \
	}

NORMALISE_ALL(bool, bool, BoolGetDatum)
NORMALISE_ALL(char, char, CharGetDatum)
NORMALISE_ALL(int2, int16, Int16GetDatum)
NORMALISE_ALL(int4, int32, Int32GetDatum)
NORMALISE_ALL(oid, Oid, ObjectIdGetDatum)
NORMALISE_ALL(date, DateADT, DateADTGetDatum)
NORMALISE_ALL(float4, float4, Float4GetDatum)
NORMALISE_ALL(int8, int64, Int64GetDatum)
NORMALISE_ALL(time, TimeADT, TimeADTGetDatum)
NORMALISE_ALL(timestamp, Timestamp, TimestampGetDatum)
NORMALISE_ALL(timestamptz, TimestampTz, TimestampTzGetDatum)
NORMALISE_ALL(float8, float8, Float8GetDatum)
NORMALISE_ALL(money, Cash, CashGetDatum)

static void
uuid_normalise_all(const char *values, Size count, void *keys)
{
	const pg_uuid_t *from = (const pg_uuid_t *) values;
	HmKey *to = keys;

	for (Size i = 0; i < count; i++)
		to[i] = uuid_normalise(UUIDPGetDatum(&from[i]));
}

static HmKey
any_value_key(Datum value)
{
	return 0;
}

/* ----------------------------------------------------------------
 *		Lookup
 * ----------------------------------------------------------------
 */
/*
 * Type, width, bits, least key, exact?, ordered?, returnable?, the functions; and, if there are
 * any, bits of hash and an id of its own.  There are no dates and timestamps next to -infinity (but
 * by casts without function), no negative times, and no negative NaN.
 */
static const HmKeyType key_types[] = {
	{BOOLOID, HT_WIDTH32, 1, 0, true, true, true, bool_normalise, bool_normalise_all, bool_restore},
	{CHAROID, HT_WIDTH32, 8, 0, true, true, true, char_normalise, char_normalise_all, char_restore},
	{INT2OID, HT_WIDTH32, 16, SIGN32 - (1 << 15), true, true, true, int2_normalise,
	 int2_normalise_all, int2_restore},
	{INT4OID, HT_WIDTH32, 32, 0, true, true, true, int4_normalise, int4_normalise_all,
	 int4_restore},
	{OIDOID, HT_WIDTH32, 32, 0, true, true, true, oid_normalise, oid_normalise_all, oid_restore},
	{DATEOID, HT_WIDTH32, 32, 0, true, true, true, date_normalise, date_normalise_all, date_restore,
	 .has_gap = true},
	{FLOAT4OID, HT_WIDTH32, 32, 0, true, true, false, float4_normalise, float4_normalise_all, NULL,
	 .has_gap = true},
	{INT8OID, HT_WIDTH64, 64, 0, true, true, true, int8_normalise, int8_normalise_all,
	 int8_restore},
	{TIMEOID, HT_WIDTH64, 64, 0, true, true, true, time_normalise, time_normalise_all, time_restore,
	 .has_gap = true},
	{TIMESTAMPOID, HT_WIDTH64, 64, 0, true, true, true, timestamp_normalise,
	 timestamp_normalise_all, timestamp_restore, .has_gap = true},
	{TIMESTAMPTZOID, HT_WIDTH64, 64, 0, true, true, true, timestamptz_normalise,
	 timestamptz_normalise_all, timestamptz_restore, .has_gap = true},
	{FLOAT8OID, HT_WIDTH64, 64, 0, true, true, false, float8_normalise, float8_normalise_all, NULL,
	 .has_gap = true},
	{CASHOID, HT_WIDTH64, 64, 0, true, true, true, money_normalise, money_normalise_all,
	 money_restore},
	{TIMETZOID, HT_WIDTH64, 64, 0, true, true, false, hm_timetz_key, NULL, NULL},
	{MACADDROID, HT_WIDTH64, 48, 0, true, true, false, hm_macaddr_key, NULL, NULL},
	{MACADDR8OID, HT_WIDTH64, 64, 0, true, true, false, hm_macaddr8_key, NULL, NULL},
	/* Values of an enum can be added between others, so their OIDs have no order. */
	{ANYENUMOID, HT_WIDTH32, 32, 0, true, false, true, oid_normalise, oid_normalise_all,
	 oid_restore},
	{TEXTOID, HT_WIDTH64, 64, 0, false, false, false, hm_text_key, NULL, NULL},
	{NAMEOID, HT_WIDTH64, 64, 0, false, false, false, hm_name_key, NULL, NULL},
	{BPCHAROID, HT_WIDTH64, 64, 0, false, false, false, hm_bpchar_key, NULL, NULL},
	{BYTEAOID, HT_WIDTH64, 64, 0, false, false, false, hm_bytea_key, NULL, NULL},
	{BITOID, HT_WIDTH64, 64, 0, false, false, false, hm_bit_key, NULL, NULL},
	{VARBITOID, HT_WIDTH64, 64, 0, false, false, false, hm_bit_key, NULL, NULL},
	{UUIDOID, HT_WIDTH64, 64, 0, false, false, false, hm_uuid_key, NULL, NULL},
	{NUMERICOID, HT_WIDTH64, 64, 0, false, false, false, hm_numeric_key, NULL, NULL},
	{INTERVALOID, HT_WIDTH64, 64, 0, false, false, false, hm_interval_key, NULL, NULL},
	{INETOID, HT_WIDTH64, 64, 0, false, false, false, hm_inet_key, NULL, NULL},
	{HM_ANY_VALUE, HT_WIDTH64, 64, 0, false, false, false, any_value_key, NULL, NULL}};

/* Those that have other keys if the index has no other column. */
static const HmKeyType wide_types[] = {{UUIDOID, HT_WIDTH128, 128, 0, true, true, true,
										uuid_normalise, uuid_normalise_all, uuid_restore}};

/*
 * Those for families that have "less than", of types whose keys keep too little of the order
 * otherwise.  They are for collations that sort as memcmp() does.
 */
static const HmKeyType range_types[] = {{TEXTOID, HT_WIDTH128, 128, 0, false, false, false,
										 hm_text_c_key, NULL, NULL, HM_C_HASH_BITS, HM_TEXT_C},
										{NAMEOID, HT_WIDTH128, 128, 0, false, false, false,
										 hm_name_c_key, NULL, NULL, HM_C_HASH_BITS, HM_NAME_C}};

static const HmKeyType *
find_type(const HmKeyType *types, int count, Oid type)
{
	for (int i = 0; i < count; i++)
	{
		if (types[i].type == type)
			return &types[i];
	}
	return NULL;
}

/* The range type with an id of its own. */
static const HmKeyType *
find_range_type(Oid id)
{
	for (int i = 0; i < lengthof(range_types); i++)
	{
		if (range_types[i].id == id)
			return &range_types[i];
	}
	return NULL;
}

const HmKeyType *
hm_field_type_lookup(Oid id)
{
	const HmKeyType *range = find_range_type(id);

	return find_type(key_types, lengthof(key_types), range != NULL ? range->type : id);
}

const HmKeyType *
hm_key_type_lookup(Oid id)
{
	const HmKeyType *result = find_range_type(id);

	if (result == NULL)
		result = find_type(wide_types, lengthof(wide_types), id);
	return result != NULL ? result : hm_field_type_lookup(id);
}

Oid
hm_type_id_of_class(Oid family, Oid type)
{
	const HmKeyType *range = find_type(range_types, lengthof(range_types), type);

	if (range != NULL && OidIsValid(get_opfamily_member(family, type, type, BTLessStrategyNumber)))
		return range->id;
	return type;
}

Oid
hm_included_type_oid(Oid type)
{
	int16 length;
	bool by_value;

	type = getBaseType(type);
	if (type_is_enum(type))
		return ANYENUMOID;
	get_typlenbyval(type, &length, &by_value);
	if (!by_value || hm_field_type_lookup(type) != NULL)
		return type;
	switch (length)
	{
		case sizeof(char):
			return CHAROID;
		case sizeof(int16):
			return INT2OID;
		case sizeof(int32):
			return INT4OID;
		default:
			return INT8OID;
	}
}

/*
 * The operator class's input type decides, not the column's own, which may be
 * a domain or a type with the same storage (regclass under oid_ops).  An included column has no
 * operator class.
 */
Oid
hm_column_type_id(Relation index, int column)
{
	if (hm_is_btree(index))
		return hm_btree_type_id(index->rd_opfamily[column], index->rd_opcintype[column],
								index->rd_indcollation[column]);
	if (column < IndexRelationGetNumberOfKeyAttributes(index))
		return hm_type_id_of_class(index->rd_opfamily[column], index->rd_opcintype[column]);
	return hm_included_type_oid(TupleDescAttr(RelationGetDescr(index), column)->atttypid);
}

const HmKeyType *
hm_column_type(Relation index, int column)
{
	Oid id = hm_column_type_id(index, column);
	const HmKeyType *result =
		hm_is_composite(index) ? hm_field_type_lookup(id) : hm_key_type_lookup(id);

	if (result == NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("access method \"%s\" does not support type %s", "harmonia",
					format_type_be(id)),
			 errhint("The extension's operator classes are for the types that are supported.")));
	return result;
}

void
hm_column_types(Relation index, HmColumnTypes *types)
{
	int count = Min(IndexRelationGetNumberOfAttributes(index), HM_MAX_KEY_COLUMNS);

	for (int i = 0; i < count; i++)
		types->of[i] = i < IndexRelationGetNumberOfKeyAttributes(index) ?
						   hm_column_type(index, i) :
						   hm_field_type_lookup(hm_column_type_id(index, i));
}
