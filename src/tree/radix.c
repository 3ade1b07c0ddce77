/*
 * radix.c
 *		Sorting entries.
 *
 * A radix sort by the first word of keys, least significant digit first.  With wide keys, runs
 * that have the same first word are then sorted by the next one in the same way: mostly there
 * are none.  The sort is stable, so runs of equal
 * keys keep their order, which in a heap scan is that of their tids.  Runs that are not
 * in tid order are sorted by tid afterwards, in the same way, so that the time is
 * linear for any input.
 *
 * Digits of 8 bits are faster than digits of 11 bits, although there are more of them:
 * the open cache lines of 256 buckets stay in the first-level cache.  For the same
 * reason buffering writes does not help.
 */
#include "tree.h"
#include "wide.h"

#include <string.h>

#define DIGIT_BITS 8
#define BUCKETS (1 << DIGIT_BITS)
#define KEY_DIGITS (64 / DIGIT_BITS)
#define TID_DIGITS (HT_TID_BITS / DIGIT_BITS)

/* Up to this number insertion sort is faster than counting digits. */
#define INSERTION_MAX 64

static inline int
digit_of(uint64_t value, int digit)
{
	return (int) (value >> (digit * DIGIT_BITS) & (BUCKETS - 1));
}

#define HT_KEYS 64
#include "radix_template.h"
#define HT_KEYS 128
#include "radix_template.h"
