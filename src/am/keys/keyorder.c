/*
 * keyorder.c
 *		Keys of strings that sort as memcmp() does, for ranges.
 *
 * Such a key has the beginning of its string in its upper 88 bits, and in the other 40 a hash of
 * all of it.  If a string is less than another, what is above the hash is not greater.  Strings
 * that begin alike are in no order, but their keys differ all the same, so equality finds one of
 * them.
 *
 * Each byte is written as a code of 5 to 12 bits, so that digits and letters, which most strings
 * consist of, take few: the upper bits have the first 17 digits, 16 hexadecimal digits, 14 small
 * letters, 11 capitals, or 8 bytes of other letters.  The codes of greater bytes are greater, and
 * none is the beginning of another.  So what the codes of a string begin with sorts as the string
 * does.  A string that ends is followed by zero bits, and is not above one that goes on.
 *
 * Keys are on disk, so neither codes nor hash may ever change.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/builtins.h"

#include "am/keys/keyhash.h"
#include "compat.h"

/* With SMALL_LIMITS, many strings share both parts of their keys with others. */
#ifdef HM_SMALL_LIMITS
#define PREFIX_BITS 14
#define HASH_MASK UINT64_C(0xF)
#else
#define PREFIX_BITS (128 - HM_C_HASH_BITS)
#define HASH_MASK ((UINT64_C(1) << HM_C_HASH_BITS) - 1)
#endif

/* Codes have so many bits at most. */
#define MOST_BITS 12

/* Bytes with codes of the same length, up to the last one. */
static const struct
{
	uint8 last;
	uint8 bits;
} runs[] = {{0x1F, 12}, {' ', 8},   {',', 12},  {'/', 8},  {'9', 5}, {':', 8},
			{'?', 12},  {'@', 8},   {'Z', 8},   {'^', 12}, {'_', 8}, {'`', 12},
			{'z', 6},   {0x7F, 12}, {0xEF, 10}, {0xFF, 12}};

typedef struct ByteCode
{
	uint16 code;
	uint8 bits;
} ByteCode;

static ByteCode codes[256];

/*
 * Number the codes: each is the next one of its length above the code before, both filled up to
 * MOST_BITS bits.
 */
static void
make_codes(void)
{
	int byte = 0;
	uint32 next = 0; /* with MOST_BITS bits */

	for (int i = 0; i < lengthof(runs); i++)
	{
		int bits = runs[i].bits;
		uint32 size = 1 << (MOST_BITS - bits);

		next = (next + size - 1) / size * size;
		for (; byte <= runs[i].last; byte++, next += size)
			codes[byte] = (ByteCode){.code = (uint16) (next / size), .bits = (uint8) bits};
	}
	Assert(byte == lengthof(codes) && next <= 1 << MOST_BITS);
}

/* The first bits of the codes of a string, of which there are PREFIX_BITS. */
static HmKey
prefix_of(const char *bytes, int length)
{
	HmKey result = 0;
	int room = PREFIX_BITS;

	if (unlikely(codes[0].bits == 0))
		make_codes();
	for (int i = 0; i < length && room > 0; i++)
	{
		ByteCode code = codes[(uint8) bytes[i]];
		int excess = Max(0, code.bits - room);

		room -= code.bits - excess;
		result |= (HmKey) (code.code >> excess) << room;
	}
	return result;
}

static HmKey
key_of_bytes(const char *bytes, int length)
{
	uint64 hash = hash_bytes_extended((const unsigned char *) bytes, length, 0);

	return prefix_of(bytes, length) << HM_C_HASH_BITS | (hash >> (64 - HM_C_HASH_BITS) & HASH_MASK);
}

HmKey
hm_text_c_key(Datum value)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	HmKey key = key_of_bytes(VARDATA_ANY(text), (int) VARSIZE_ANY_EXHDR(text));

	if ((Pointer) text != DatumGetPointer(value))
		pfree(text);
	return key;
}

HmKey
hm_name_c_key(Datum value)
{
	const char *name = NameStr(*DatumGetName(value));

	return key_of_bytes(name, (int) strlen(name));
}
