/*
 * test_wide.c
 *		The engine for keys of 128 and 256 bits, against simple models.
 */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#include "../../src/tree/wide.h"

/* How keys are drawn; all of them are distances from a leaf's base. */
typedef enum Pattern
{
	RANDOM_KEYS,
	ASCENDING,
	DESCENDING,
	NARROW,						/* so few keys and TIDs that entries repeat */
	ONE_KEY,
	MAX_KEY,
	EXTREMES,					/* 0, 1, max - 1, max */
	CLUMPS,						/* few first words, any other words */
	SAME_FIRST_WORD,			/* only the last words differ */
	POWERS,						/* powers of two, and what is beside them */
	FIRST_KEY,					/* mostly the first of a few keys, with ascending TIDs */
	N_PATTERNS
} Pattern;

static const char *const pattern_names[N_PATTERNS] = {
	"random keys", "ascending keys", "descending keys", "few keys and tids", "one key",
	"the maximum key", "extreme keys", "clumps of keys", "one first word", "powers of two",
	"few keys, ascending tids, mostly of the first",
};

static const int classes[] = {0, 16, 32, 64, 96, 128, 192, 256};

static const unsigned char foreign = 0xA5;	/* fills bytes that are not the engine's */

#define HT_KEYS 128
#include "test_wide_template.h"
#define HT_KEYS 256
#include "test_wide_template.h"

/* Arithmetic of 256-bit keys, against that of 128 bits. */
static void
test_key(void)
{
	for (int i = 0; i < 10000 && !failed(); i++)
	{
		HtKey128	a = (HtKey128) rnd() << rnd_below(65) | rnd() >> rnd_below(64);
		HtKey128	b = rnd_below(3) == 0 ? a : (HtKey128) rnd() << rnd_below(65) | rnd() >> rnd_below(64);
		HtKey256	wide_a = {{(uint64_t) a, (uint64_t) (a >> 64), 0, 0}};
		HtKey256	wide_b = {{(uint64_t) b, (uint64_t) (b >> 64), 0, 0}};
		HtKey256	sum = ht_key256_add(wide_a, wide_b);
		HtKey256	difference = ht_key256_subtract(wide_a, wide_b);
		int			shift = rnd_below(128);
		HtKey256	shifted = ht_key256_shift_right(wide_a, shift);

		expect(ht_key256_less(wide_a, wide_b) == (a < b), "less");
		expect(ht_key256_equal(wide_a, wide_b) == (a == b), "equal");
		expect(sum.words[0] == (uint64_t) (a + b) && sum.words[1] == (uint64_t) ((a + b) >> 64) &&
			   sum.words[2] == (a + b < a), "sum");
		expect(difference.words[0] == (uint64_t) (a - b) && difference.words[1] == (uint64_t) ((a - b) >> 64) &&
			   difference.words[2] == (a < b ? UINT64_MAX : 0), "difference");
		expect(shifted.words[0] == (uint64_t) (a >> shift) && shifted.words[1] == (uint64_t) (a >> shift >> 64),
			   "shift");
		expect(ht_key256_digit(wide_a, shift) == (uint64_t) (a >> shift), "digit");
		expect(ht_key_bits_256(wide_a) == ht_key_bits_128(a), "bits");

		/* The same in the upper half. */
		wide_a.words[2] = wide_a.words[0];
		wide_a.words[3] = wide_a.words[1];
		wide_b.words[2] = wide_b.words[0];
		wide_b.words[3] = wide_b.words[1];
		expect(ht_key256_less(wide_a, wide_b) == (a < b), "less in the upper half");
		shifted = ht_key256_shift_right(wide_a, 128 + shift);
		expect(ht_key256_digit(wide_a, 128 + shift) == (uint64_t) (a >> shift), "high digit");
		expect(shifted.words[0] == (uint64_t) (a >> shift) && shifted.words[1] == (uint64_t) (a >> shift >> 64) &&
			   shifted.words[2] == 0 && shifted.words[3] == 0, "long shift");
		expect(ht_key256_equal(ht_key256_add(ht_key256_subtract(wide_a, wide_b), wide_b), wide_a), "there and back");
	}
	expect(ht_key_bits_128(0) == 0 && ht_key_bits_128(1) == 1 && ht_key_bits_128((HtKey128) 1 << 64) == 65 &&
		   ht_key_bits_128(~(HtKey128) 0) == 128 && ht_key_bits_256(ht_key256_max()) == 256, "bits");
	expect(ht_class_for_128(0) == 0 && ht_class_for_128(1) == 16 && ht_class_for_128(0xFFFF) == 16 && ht_class_for_128(0x10000) == 32 &&
		   ht_class_for_128((HtKey128) 1 << 32) == 64 && ht_class_for_128((HtKey128) 1 << 64) == 96 &&
		   ht_class_for_128((HtKey128) 1 << 96) == 128 &&
		   ht_class_for_256(ht_key_ones_256(129)) == 192 && ht_class_for_256(ht_key_ones_256(193)) == 256,
		   "a class is not the narrowest");
	report("wide keys: arithmetic");
}

void
test_wide(void)
{
	test_key();
	test_width_128();
	test_width_256();
}
