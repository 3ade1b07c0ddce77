/*
 * keyhash.c
 *		Keys of values that do not fit into 64 bits, or are passed by reference.
 *
 * Most of these keys are not exact: values that are equal have equal keys, but so may others.
 * So a value is compared with the operator wherever a key has been found.  Keys in this file
 * are on disk, so they must never change, whatever the version of PostgreSQL.
 *
 * Such a key begins with the first bits of its value, so that neighbours in the order of bytes
 * are neighbours in the index; for values that arrive in order, as many uuids do, insertions
 * then meet few leaves.  The rest is a hash of the whole value.  It has enough bits for values
 * that all begin alike, such as URLs: of 10^9 texts, one in a thousand has the key of another.
 * The hash functions are those that PostgreSQL uses for hash partitioning, which keeps them as
 * they are for the same reason.
 *
 * With SMALL_LIMITS, keys that are not exact have four bits, so that most values share theirs.
 */
#include "postgres.h"

#include <sys/socket.h>

#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgrprotos.h"
#include "utils/inet.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/varbit.h"

#include "am/keys/keyhash.h"
#include "compat.h"

#define HASH_SEED 0

/* The first bytes of a string that its key begins with; the rest of the key is a hash. */
#define PREFIX_BYTES 3
#define HASH_BITS (64 - 8 * PREFIX_BYTES)

/* What all keys that are not exact go through. */
static inline uint64
inexact(uint64 key)
{
#ifdef HM_SMALL_LIMITS
	return (key * UINT64_C(0x9E3779B97F4A7C15)) >> 60;
#else
	return key;
#endif
}

/* ----------------------------------------------------------------
 *		Strings of bytes
 * ----------------------------------------------------------------
 */
static uint64
hash_bytes_with(const char *bytes, int length, uint64 seed)
{
	return hash_bytes_extended((const unsigned char *) bytes, length, seed);
}

/* The key of a string of bytes; a seed tells apart strings that are not equal for all that. */
static uint64
key_of_bytes(const char *bytes, int length, uint64 seed)
{
	uint64 prefix = 0;

	for (int i = 0; i < PREFIX_BYTES; i++)
		prefix = prefix << 8 | (i < length ? (uint8) bytes[i] : 0);
	return inexact(prefix << HASH_BITS | hash_bytes_with(bytes, length, seed) >> (64 - HASH_BITS));
}

/* Free what was detoasted of a value. */
static inline void
free_copy(const void *copy, Datum value)
{
	if (copy != DatumGetPointer(value))
		pfree(unconstify(void *, copy));
}

/* Under a deterministic collation, texts are equal if and only if their bytes are. */
HmKey
hm_text_key(Datum value)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	uint64 key = key_of_bytes(VARDATA_ANY(text), (int) VARSIZE_ANY_EXHDR(text), HASH_SEED);

	free_copy(text, value);
	return key;
}

/* A name can be compared with a text, so it has the same key. */
HmKey
hm_name_key(Datum value)
{
	const char *name = NameStr(*DatumGetName(value));

	return key_of_bytes(name, (int) strlen(name), HASH_SEED);
}

/* Blanks at the end do not count. */
HmKey
hm_bpchar_key(Datum value)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	const char *bytes = VARDATA_ANY(text);
	uint64 key = key_of_bytes(
		bytes, bpchartruelen(unconstify(char *, bytes), (int) VARSIZE_ANY_EXHDR(text)), HASH_SEED);

	free_copy(text, value);
	return key;
}

HmKey
hm_bytea_key(Datum value)
{
	return hm_text_key(value);
}

/* Bits at the end of the last byte are zero, so the number of bits counts, too. */
HmKey
hm_bit_key(Datum value)
{
	VarBit *bits = DatumGetVarBitP(value);
	uint64 key = key_of_bytes((const char *) VARBITS(bits), (int) VARBITBYTES(bits),
							  HASH_SEED + (uint64) VARBITLEN(bits));

	free_copy(bits, value);
	return key;
}

/* ----------------------------------------------------------------
 *		Other types that are not exact
 * ----------------------------------------------------------------
 */

/*
 * As one of several columns.  The first four bytes; version 7 begins with the time, and these
 * change every 65 seconds.
 */
HmKey
hm_uuid_key(Datum value)
{
	const pg_uuid_t *uuid = DatumGetUUIDP(value);
	const unsigned char *bytes = uuid->data;
	uint64 prefix = (uint64) bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];

	return inexact(prefix << 32 | hash_bytes_with((const char *) bytes, UUID_LEN, HASH_SEED) >> 32);
}

/* Equal numbers have the same hash, whatever their scale. */
HmKey
hm_numeric_key(Datum value)
{
	Numeric number = DatumGetNumeric(value);
	uint64 hash = DatumGetUInt64(DirectFunctionCall2(hash_numeric_extended, NumericGetDatum(number),
													 Int64GetDatum(HASH_SEED)));

	free_copy(number, value);
	return inexact(hash);
}

/*
 * Intervals are equal if they have as many microseconds, with months of 30 days and days of
 * 24 hours (interval_cmp_value() in timestamp.c).  The lower 64 bits of that number are all
 * of it for up to 292,000 years.
 */
HmKey
hm_interval_key(Datum value)
{
	const Interval *interval = DatumGetIntervalP(value);
	uint64 days =
		(uint64) (int64) interval->month * DAYS_PER_MONTH + (uint64) (int64) interval->day;

	return inexact((days * (uint64) USECS_PER_DAY + (uint64) interval->time) ^
				   UINT64_C(0x8000000000000000));
}

/*
 * An IPv4 address with its netmask has room; of an IPv6 address, the first 31 bits are the
 * prefix.
 */
HmKey
hm_inet_key(Datum value)
{
	inet *address = DatumGetInetPP(value);
	const unsigned char *bytes = ip_addr(address);
	uint64 prefix = (uint64) bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
	uint64 key;

	if (ip_family(address) == PGSQL_AF_INET)
		key = prefix << 8 | ip_bits(address);
	else
		key = UINT64_C(1) << 63 | prefix >> 1 << 32 |
			  hash_bytes_with((const char *) bytes, ip_addrsize(address),
							  HASH_SEED + ip_bits(address)) >>
				  32;
	free_copy(address, value);
	return inexact(key);
}

/* ----------------------------------------------------------------
 *		Exact types that are passed by reference
 * ----------------------------------------------------------------
 */

/* The offset of a time zone is less than this, in seconds; see OFFSET_LIMIT in bracket.c. */
#define ZONE_BITS 21
#define ZONE_LIMIT (1 << (ZONE_BITS - 1))

/* By the time in UTC, which has 41 bits, then by the zone (timetz_cmp_internal() in date.c). */
HmKey
hm_timetz_key(Datum value)
{
	const TimeTzADT *timetz = DatumGetTimeTzADTP(value);
	int64 utc = timetz->time + timetz->zone * USECS_PER_SEC;

	Assert(timetz->zone > -ZONE_LIMIT && timetz->zone < ZONE_LIMIT);
	return (uint64) (utc + ZONE_LIMIT * USECS_PER_SEC) << ZONE_BITS |
		   (uint64) (timetz->zone + ZONE_LIMIT);
}

HmKey
hm_macaddr_key(Datum value)
{
	const macaddr *address = DatumGetMacaddrP(value);

	return (uint64) address->a << 40 | (uint64) address->b << 32 | (uint64) address->c << 24 |
		   (uint64) address->d << 16 | (uint64) address->e << 8 | (uint64) address->f;
}

HmKey
hm_macaddr8_key(Datum value)
{
	const macaddr8 *address = DatumGetMacaddr8P(value);

	return (uint64) address->a << 56 | (uint64) address->b << 48 | (uint64) address->c << 40 |
		   (uint64) address->d << 32 | (uint64) address->e << 24 | (uint64) address->f << 16 |
		   (uint64) address->g << 8 | (uint64) address->h;
}
