/*
 * key.h
 *		Keys of 64, 128 and 256 bits, and what code that is compiled for each of them needs.
 *
 * A key is an unsigned number that sorts as the indexed values do.  Its *width* is the bits
 * that it takes in memory.  Code for all widths is written once, in a header that is included
 * once for each width with HT_KEYS defined as 64, 128 or 256, and uses the macros of this
 * file.  For 64 bits they are the operators of C, so such code is what it would be without
 * them.  Functions for 64 bits have plain names, others end with _128 or _256.
 *
 * This is C, without PostgreSQL headers.  cuda/wide.h has the same keys in C++.
 */
#ifndef HARMONIA_KEY_H
#define HARMONIA_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "wide keys are stored with their lowest word first, and its lowest byte first"
#endif

/* Compilers align it to 16 bytes, but memory of PostgreSQL need not be. */
typedef unsigned __int128 HtKey128 __attribute__((aligned(8)));

/* The lowest word first. */
typedef struct HtKey256
{
	uint64_t	words[4];
} HtKey256;

/* ----------------------------------------------------------------
 *		256 bits, which C has no type for
 * ----------------------------------------------------------------
 */

static inline HtKey256
ht_key256(uint64_t low)
{
	HtKey256	key = {{low, 0, 0, 0}};

	return key;
}

static inline HtKey256
ht_key256_max(void)
{
	HtKey256	key = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

	return key;
}

static inline bool
ht_key256_less(HtKey256 a, HtKey256 b)
{
	if (a.words[3] != b.words[3])
		return a.words[3] < b.words[3];
	if (a.words[2] != b.words[2])
		return a.words[2] < b.words[2];
	if (a.words[1] != b.words[1])
		return a.words[1] < b.words[1];
	return a.words[0] < b.words[0];
}

static inline bool
ht_key256_equal(HtKey256 a, HtKey256 b)
{
	return ((a.words[0] ^ b.words[0]) | (a.words[1] ^ b.words[1]) |
			(a.words[2] ^ b.words[2]) | (a.words[3] ^ b.words[3])) == 0;
}

/* Modulo 2^256, as C computes with its own unsigned types. */
static inline HtKey256
ht_key256_add(HtKey256 a, HtKey256 b)
{
	HtKey256	sum;
	unsigned __int128 word = 0;

	for (int i = 0; i < 4; i++)
	{
		word = (word >> 64) + a.words[i] + b.words[i];
		sum.words[i] = (uint64_t) word;
	}
	return sum;
}

static inline HtKey256
ht_key256_subtract(HtKey256 a, HtKey256 b)
{
	HtKey256	difference;
	unsigned __int128 borrow = 0;

	for (int i = 0; i < 4; i++)
	{
		unsigned __int128 word = (unsigned __int128) a.words[i] - b.words[i] - borrow;

		difference.words[i] = (uint64_t) word;
		borrow = word >> 127;
	}
	return difference;
}

/* shift is 0 to 255 */
static inline HtKey256
ht_key256_shift_right(HtKey256 key, int shift)
{
	HtKey256	result;

	for (int i = 0; i < 4; i++)
	{
		int			from = i + shift / 64;
		uint64_t	low = from < 4 ? key.words[from] : 0;
		uint64_t	high = from + 1 < 4 ? key.words[from + 1] : 0;

		result.words[i] = shift % 64 == 0 ? low : low >> shift % 64 | high << (64 - shift % 64);
	}
	return result;
}

/* The low word of that: a digit of a sort. */
static inline uint64_t
ht_key256_digit(HtKey256 key, int shift)
{
	int			word = shift / 64;
	uint64_t	high = word < 3 ? key.words[word + 1] : 0;

	return key.words[word] >> shift % 64 | high << 1 << (63 - shift % 64);
}

/* ----------------------------------------------------------------
 *		For all widths
 * ----------------------------------------------------------------
 */

/* The number of bits from the highest one that is set: 0 for 0. */
static inline int
ht_key_bits(uint64_t key)
{
	return key == 0 ? 0 : 64 - __builtin_clzll(key);
}

static inline int
ht_key_bits_128(HtKey128 key)
{
	uint64_t	high = (uint64_t) (key >> 64);

	return high != 0 ? 64 + ht_key_bits(high) : ht_key_bits((uint64_t) key);
}

static inline int
ht_key_bits_256(HtKey256 key)
{
	for (int i = 3; i > 0; i--)
		if (key.words[i] != 0)
			return 64 * i + ht_key_bits(key.words[i]);
	return ht_key_bits(key.words[0]);
}

/* Word i of a key, the lowest one is 0. */
static inline uint64_t
ht_key_word_128(HtKey128 key, int i)
{
	return (uint64_t) (key >> 64 * i);
}

static inline uint64_t
ht_key_word_256(HtKey256 key, int i)
{
	return key.words[i];
}

/* A key that has these bits, and no others: 0 <= bits <= the key's width. */
static inline HtKey128
ht_key_ones_128(int bits)
{
	return bits == 0 ? 0 : (~(HtKey128) 0) >> (128 - bits);
}

static inline HtKey256
ht_key_ones_256(int bits)
{
	return bits == 0 ? ht_key256(0) : ht_key256_shift_right(ht_key256_max(), 256 - bits);
}

#endif							/* HARMONIA_KEY_H */
