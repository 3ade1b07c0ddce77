/*
 * key.h
 *		Keys of 64 and 128 bits, and what code that is compiled for each of them needs.
 *
 * A key is an unsigned number that sorts as the indexed values do.  Its *width* is the bits
 * that it takes in memory.  Code for both widths is written once, in a header that is included
 * once for each width with HT_KEYS defined as 64 or 128 (key_macros.h).  Functions for 64 bits
 * have plain names, others end with _128.
 *
 * This is C, without PostgreSQL headers.  cuda/wide.h has keys of 128 bits in C++.
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

/* The number of bits from the highest one that is set: 0 for 0. */
static inline int
ht_key_bits(uint64_t key)
{
	return key == 0 ? 0 : 64 - __builtin_clzll(key);
}

static inline int
ht_key_bits_128(HtKey128 key)
{
	uint64_t high = (uint64_t) (key >> 64);

	return high != 0 ? 64 + ht_key_bits(high) : ht_key_bits((uint64_t) key);
}

/* Word i of a key, the lowest one is 0. */
static inline uint64_t
ht_key_word_128(HtKey128 key, int i)
{
	return (uint64_t) (key >> 64 * i);
}

/* A key that has these bits, and no others: 0 <= bits <= the key's width. */
static inline HtKey128
ht_key_ones_128(int bits)
{
	return bits == 0 ? 0 : (~(HtKey128) 0) >> (128 - bits);
}

#endif /* HARMONIA_KEY_H */
