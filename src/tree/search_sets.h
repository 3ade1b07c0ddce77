/*
 * search_sets.h
 *		Comparing keys of leaves, with each instruction set.
 *
 * search.c and search_wide.c instantiate search_template.h with these functions.
 */
#ifndef HARMONIA_SEARCH_SETS_H
#define HARMONIA_SEARCH_SETS_H

#include <string.h>

#include "tree.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define ST_X86
#include <immintrin.h>
#endif

/* The bytes of each tid of a leaf. */
static inline int
tid_bytes_of(const char *page)
{
	int bytes = (uint8_t) page[HT_LEAF_TID_BYTES_AT];

	return bytes == 4 || bytes == 5 ? bytes : HT_TID_BYTES;
}

/*
 * The tid in a slot of a block.  Reads eight bytes, of which the last ones may be beyond the
 * block; they are still on the page, whose last bytes are not the engine's.  tids_at, their
 * offset in the block, and bytes are constants at each call of this.
 */
static inline uint64_t
load_tid(const char *block, int tids_at, int bytes, int slot)
{
	uint64_t stored;

	memcpy(&stored, block + tids_at + slot * bytes, sizeof(stored));
	stored &= UINT64_MAX >> (64 - 8 * bytes);
	if (bytes == HT_TID_BYTES)
		return stored;
	return stored >> 9 << 16 | (stored & 511);
}

/* ----------------------------------------------------------------
 *		Functions for each instruction set
 *
 * count_line: the number of keys of a cache line that are below a key.
 * count_pivots: the number of a page's pivots that are below a key.
 * match_block: bit i says whether key i of a block is in low..high; bits that stand for no
 * slot, or for a slot beyond the block's count, may have any value.
 * match_key: the same for one key.
 * ----------------------------------------------------------------
 */

#define ST_PORTABLE(bits) \
	static inline int count_keys_##bits(const char *at, int n, uint##bits##_t key) \
	{ \
		int below = 0; \
\
		for (int i = 0; i < n; i++) \
		{ \
			uint##bits##_t other; \
\
			memcpy(&other, at + i * sizeof(other), sizeof(other)); \
			below += other < key; \
		} \
		return below; \
	} \
\
	static inline int count_line_portable_##bits(const char *line, uint##bits##_t key) \
	{ \
		return count_keys_##bits(line, HT_LEAF_LINE_SIZE * 8 / bits, key); \
	} \
\
	static inline int count_pivots_portable_##bits(const char *page, uint##bits##_t key) \
	{ \
		return count_keys_##bits(page + HT_LEAF_PIVOTS_AT(bits), \
								 HT_LEAF_MAX_SEPARATORS * bits / 8 / HT_LEAF_LINE_SIZE - 1, key); \
	} \
\
	static inline uint32_t match_block_portable_##bits(const char *block, uint##bits##_t low, \
													   uint##bits##_t high) \
	{ \
		uint32_t mask = 0; \
\
		for (int i = 0; i < HT_LEAF_SLOTS(bits, 4); i++) \
		{ \
			uint##bits##_t key; \
\
			memcpy(&key, block + i * sizeof(key), sizeof(key)); \
			mask |= (uint32_t) ((key >= low) & (key <= high)) << i; \
		} \
		return mask; \
	} \
\
	static inline uint32_t match_key_portable_##bits(const char *block, uint##bits##_t key) \
	{ \
		return match_block_portable_##bits(block, key, key); \
	}

ST_PORTABLE(16)
ST_PORTABLE(32)
ST_PORTABLE(64)

#ifdef ST_X86

#define ST_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define ST_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2,popcnt")))

/* AVX2 compares signed numbers only, so flip the top bits. */
ST_AVX2 static inline __m256i
load_flipped_32(const char *at)
{
	return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) at), _mm256_set1_epi32(INT32_MIN));
}

ST_AVX2 static inline __m256i
load_flipped_64(const char *at)
{
	return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) at),
							_mm256_set1_epi64x(INT64_MIN));
}

ST_AVX2 static inline __m256i
load_flipped_16(const char *at)
{
	return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) at), _mm256_set1_epi16(INT16_MIN));
}

/* A bit for each of 32 lanes of 16 bits, all of which are 0 or -1. */
ST_AVX2 static inline uint32_t
lanes_16(__m256i low, __m256i high)
{
	__m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);

	return (uint32_t) _mm256_movemask_epi8(bytes);
}

ST_AVX2 static inline int
count_line_avx2_16(const char *line, uint16_t key)
{
	__m256i keys = _mm256_set1_epi16((int16_t) (key ^ 0x8000));

	return _mm_popcnt_u32(lanes_16(_mm256_cmpgt_epi16(keys, load_flipped_16(line)),
								   _mm256_cmpgt_epi16(keys, load_flipped_16(line + 32))));
}

ST_AVX2 static inline int
count_pivots_avx2_16(const char *page, uint16_t key)
{
	return count_pivots_portable_16(page, key);
}

ST_AVX2 static inline int
count_pivots_avx2_32(const char *page, uint32_t key)
{
	return count_pivots_portable_32(page, key);
}

/* Which of 16 keys are outside of low..high. */
ST_AVX2 static inline __m256i
outside_avx2_16(const char *at, __m256i low, __m256i high)
{
	__m256i keys = load_flipped_16(at);

	return _mm256_or_si256(_mm256_cmpgt_epi16(low, keys), _mm256_cmpgt_epi16(keys, high));
}

ST_AVX2 static inline uint32_t
match_block_avx2_16(const char *block, uint16_t low_key, uint16_t high_key)
{
	__m256i low = _mm256_set1_epi16((int16_t) (low_key ^ 0x8000));
	__m256i high = _mm256_set1_epi16((int16_t) (high_key ^ 0x8000));

	return ~lanes_16(outside_avx2_16(block, low, high), outside_avx2_16(block + 32, low, high));
}

ST_AVX2 static inline uint32_t
match_key_avx2_16(const char *block, uint16_t key)
{
	__m256i keys = _mm256_set1_epi16((int16_t) key);

	return lanes_16(_mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) block), keys),
					_mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) (block + 32)), keys));
}

ST_AVX2 static inline int
count_line_avx2_32(const char *line, uint32_t key)
{
	__m256i keys = _mm256_set1_epi32((int32_t) (key ^ UINT32_C(0x80000000)));
	__m256i low = _mm256_cmpgt_epi32(keys, load_flipped_32(line));
	__m256i high = _mm256_cmpgt_epi32(keys, load_flipped_32(line + 32));

	return _mm_popcnt_u32((uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(low)) |
						  (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8);
}

/* The keys of a cache line that are below a key. */
ST_AVX2 static inline uint32_t
below_avx2_64(const char *line, uint64_t key)
{
	__m256i keys = _mm256_set1_epi64x((int64_t) (key ^ UINT64_C(0x8000000000000000)));
	__m256i low = _mm256_cmpgt_epi64(keys, load_flipped_64(line));
	__m256i high = _mm256_cmpgt_epi64(keys, load_flipped_64(line + 32));

	return (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(low)) |
		   (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4;
}

ST_AVX2 static inline int
count_line_avx2_64(const char *line, uint64_t key)
{
	return _mm_popcnt_u32(below_avx2_64(line, key));
}

/* The pivots are a line whose first eight bytes are something else. */
ST_AVX2 static inline int
count_pivots_avx2_64(const char *page, uint64_t key)
{
	return _mm_popcnt_u32(below_avx2_64(page + HT_LEAF_CLASS_AT, key) & 0xFE);
}

/* Which of eight keys are outside of low..high. */
ST_AVX2 static inline uint32_t
outside_avx2_32(const char *at, __m256i low, __m256i high)
{
	__m256i keys = load_flipped_32(at);

	return (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(
		_mm256_or_si256(_mm256_cmpgt_epi32(low, keys), _mm256_cmpgt_epi32(keys, high))));
}

ST_AVX2 static inline uint32_t
match_block_avx2_32(const char *block, uint32_t low_key, uint32_t high_key)
{
	__m256i low = _mm256_set1_epi32((int32_t) (low_key ^ UINT32_C(0x80000000)));
	__m256i high = _mm256_set1_epi32((int32_t) (high_key ^ UINT32_C(0x80000000)));

	return ~(outside_avx2_32(block, low, high) | outside_avx2_32(block + 32, low, high) << 8);
}

/* The ninth and the tenth key of a block, which the vectors do not cover. */
static inline uint32_t
match_block_last_two(const char *block, uint64_t low, uint64_t high)
{
	uint64_t keys[2];

	memcpy(keys, block + 64, sizeof(keys));
	return (uint32_t) ((keys[0] >= low) & (keys[0] <= high)) << 8 |
		   (uint32_t) ((keys[1] >= low) & (keys[1] <= high)) << 9;
}

ST_AVX2 static inline uint32_t
match_key_last_two(const char *block, uint64_t key)
{
	__m128i keys = _mm_loadu_si128((const __m128i *) (block + 64));

	return (uint32_t) _mm_movemask_pd(
			   _mm_castsi128_pd(_mm_cmpeq_epi64(keys, _mm_set1_epi64x((int64_t) key))))
		   << 8;
}

ST_AVX2 static inline uint32_t
outside_avx2_64(const char *at, __m256i low, __m256i high)
{
	__m256i keys = load_flipped_64(at);

	return (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(
		_mm256_or_si256(_mm256_cmpgt_epi64(low, keys), _mm256_cmpgt_epi64(keys, high))));
}

ST_AVX2 static inline uint32_t
match_block_avx2_64(const char *block, uint64_t low_key, uint64_t high_key)
{
	__m256i low = _mm256_set1_epi64x((int64_t) (low_key ^ UINT64_C(0x8000000000000000)));
	__m256i high = _mm256_set1_epi64x((int64_t) (high_key ^ UINT64_C(0x8000000000000000)));
	uint32_t outside = outside_avx2_64(block, low, high) | outside_avx2_64(block + 32, low, high)
															   << 4;

	return (~outside & 0xFF) | match_block_last_two(block, low_key, high_key);
}

ST_AVX2 static inline uint32_t
match_key_avx2_32(const char *block, uint32_t key)
{
	__m256i keys = _mm256_set1_epi32((int32_t) key);
	__m256i low = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *) block), keys);
	__m256i high = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *) (block + 32)), keys);

	return (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(low)) |
		   (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8;
}

ST_AVX2 static inline uint32_t
match_key_avx2_64(const char *block, uint64_t key)
{
	__m256i keys = _mm256_set1_epi64x((int64_t) key);
	__m256i low = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *) block), keys);
	__m256i high = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *) (block + 32)), keys);

	return (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(low)) |
		   (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4 |
		   match_key_last_two(block, key);
}

ST_AVX512 static inline int
count_line_avx512_16(const char *line, uint16_t key)
{
	return _mm_popcnt_u32(
		_mm512_cmplt_epu16_mask(_mm512_loadu_si512(line), _mm512_set1_epi16((int16_t) key)));
}

ST_AVX512 static inline int
count_pivots_avx512_16(const char *page, uint16_t key)
{
	return count_pivots_portable_16(page, key);
}

ST_AVX512 static inline uint32_t
match_block_avx512_16(const char *block, uint16_t low, uint16_t high)
{
	__m512i keys = _mm512_loadu_si512(block);

	return _mm512_mask_cmple_epu16_mask(
		_mm512_cmpge_epu16_mask(keys, _mm512_set1_epi16((int16_t) low)), keys,
		_mm512_set1_epi16((int16_t) high));
}

ST_AVX512 static inline uint32_t
match_key_avx512_16(const char *block, uint16_t key)
{
	return _mm512_cmpeq_epu16_mask(_mm512_loadu_si512(block), _mm512_set1_epi16((int16_t) key));
}

/* The three pivots are the first lanes of sixteen bytes. */
ST_AVX512 static inline int
count_pivots_avx512_32(const char *page, uint32_t key)
{
	__m128i pivots = _mm_loadu_si128((const __m128i *) (page + HT_LEAF_PIVOTS_AT(32)));

	return _mm_popcnt_u32(_mm_cmplt_epu32_mask(pivots, _mm_set1_epi32((int32_t) key)) & 7);
}

ST_AVX512 static inline int
count_line_avx512_32(const char *line, uint32_t key)
{
	return _mm_popcnt_u32(
		_mm512_cmplt_epu32_mask(_mm512_loadu_si512(line), _mm512_set1_epi32((int32_t) key)));
}

ST_AVX512 static inline int
count_line_avx512_64(const char *line, uint64_t key)
{
	return _mm_popcnt_u32(
		_mm512_cmplt_epu64_mask(_mm512_loadu_si512(line), _mm512_set1_epi64((int64_t) key)));
}

ST_AVX512 static inline uint32_t
match_block_avx512_32(const char *block, uint32_t low, uint32_t high)
{
	__m512i keys = _mm512_loadu_si512(block);

	return _mm512_mask_cmple_epu32_mask(
		_mm512_cmpge_epu32_mask(keys, _mm512_set1_epi32((int32_t) low)), keys,
		_mm512_set1_epi32((int32_t) high));
}

/* The pivots are a line whose first eight bytes are something else. */
ST_AVX512 static inline int
count_pivots_avx512_64(const char *page, uint64_t key)
{
	return _mm_popcnt_u32(_mm512_mask_cmplt_epu64_mask(
		0xFE, _mm512_loadu_si512(page + HT_LEAF_CLASS_AT), _mm512_set1_epi64((int64_t) key)));
}

/* The ninth and the tenth key of a block, which one vector does not cover. */
ST_AVX512 static inline uint32_t
match_block_last_two_avx512(const char *block, uint64_t low, uint64_t high)
{
	__m128i keys = _mm_loadu_si128((const __m128i *) (block + 64));

	return (uint32_t) _mm_mask_cmple_epu64_mask(
			   _mm_cmpge_epu64_mask(keys, _mm_set1_epi64x((int64_t) low)), keys,
			   _mm_set1_epi64x((int64_t) high))
		   << 8;
}

ST_AVX512 static inline uint32_t
match_block_avx512_64(const char *block, uint64_t low, uint64_t high)
{
	__m512i keys = _mm512_loadu_si512(block);

	return _mm512_mask_cmple_epu64_mask(
			   _mm512_cmpge_epu64_mask(keys, _mm512_set1_epi64((int64_t) low)), keys,
			   _mm512_set1_epi64((int64_t) high)) |
		   match_block_last_two_avx512(block, low, high);
}

ST_AVX512 static inline uint32_t
match_key_avx512_32(const char *block, uint32_t key)
{
	return _mm512_cmpeq_epu32_mask(_mm512_loadu_si512(block), _mm512_set1_epi32((int32_t) key));
}

ST_AVX512 static inline uint32_t
match_key_avx512_64(const char *block, uint64_t key)
{
	return _mm512_cmpeq_epu64_mask(_mm512_loadu_si512(block), _mm512_set1_epi64((int64_t) key)) |
		   match_key_last_two(block, key);
}

#endif /* ST_X86 */

/*
 * Have a short loop unrolled, even where compilers would rather save instructions: where the number
 * of slots is a constant, a search of a block then has no loops.
 */
#ifdef __clang__
#define ST_UNROLL _Pragma("unroll 8")
#else
#define ST_UNROLL _Pragma("GCC unroll 8")
#endif

/* ----------------------------------------------------------------
 *		Planes (leaf_planes.h)
 *
 * planes_equal, planes_below, planes_between: bit i says whether item i of a plane, of n items,
 * equals a word, is below it, or is in low..high.  Bits from n on may have any value.  A few bytes
 * behind the plane are read, too.
 * ----------------------------------------------------------------
 */

#define ST_PORTABLE_PLANES(bits) \
	static inline uint32_t planes_equal_portable_##bits(const char *at, int n, \
														uint##bits##_t word) \
	{ \
		uint32_t set = 0; \
\
		for (int i = 0; i < n; i++) \
		{ \
			uint##bits##_t other; \
\
			memcpy(&other, at + i * sizeof(other), sizeof(other)); \
			set |= (uint32_t) (other == word) << i; \
		} \
		return set; \
	} \
\
	static inline uint32_t planes_below_portable_##bits(const char *at, int n, \
														uint##bits##_t word) \
	{ \
		uint32_t set = 0; \
\
		for (int i = 0; i < n; i++) \
		{ \
			uint##bits##_t other; \
\
			memcpy(&other, at + i * sizeof(other), sizeof(other)); \
			set |= (uint32_t) (other < word) << i; \
		} \
		return set; \
	}

ST_PORTABLE_PLANES(32)
ST_PORTABLE_PLANES(64)

static inline uint32_t
planes_between_portable_64(const char *at, int n, uint64_t low, uint64_t high)
{
	uint32_t set = 0;

	for (int i = 0; i < n; i++)
	{
		uint64_t other;

		memcpy(&other, at + i * sizeof(other), sizeof(other));
		set |= (uint32_t) ((other >= low) & (other <= high)) << i;
	}
	return set;
}

#ifdef ST_X86

ST_AVX2 static inline uint32_t
planes_equal_avx2_64(const char *at, int n, uint64_t word)
{
	__m256i words = _mm256_set1_epi64x((int64_t) word);
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 4)
	{
		__m256i some = _mm256_loadu_si256((const __m256i *) (at + i * 8));

		set |= (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(some, words)))
			   << i;
	}
	return set;
}

ST_AVX2 static inline uint32_t
planes_below_avx2_64(const char *at, int n, uint64_t word)
{
	__m256i words = _mm256_set1_epi64x((int64_t) (word ^ UINT64_C(0x8000000000000000)));
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 4)
	{
		__m256i below = _mm256_cmpgt_epi64(words, load_flipped_64(at + i * 8));

		set |= (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(below)) << i;
	}
	return set;
}

ST_AVX2 static inline uint32_t
planes_between_avx2_64(const char *at, int n, uint64_t low, uint64_t high)
{
	__m256i lows = _mm256_set1_epi64x((int64_t) (low ^ UINT64_C(0x8000000000000000)));
	__m256i highs = _mm256_set1_epi64x((int64_t) (high ^ UINT64_C(0x8000000000000000)));
	uint32_t outside = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 4)
		outside |= outside_avx2_64(at + i * 8, lows, highs) << i;
	return ~outside;
}

ST_AVX2 static inline uint32_t
planes_equal_avx2_32(const char *at, int n, uint32_t word)
{
	__m256i words = _mm256_set1_epi32((int32_t) word);
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 8)
	{
		__m256i some = _mm256_loadu_si256((const __m256i *) (at + i * 4));

		set |= (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(some, words)))
			   << i;
	}
	return set;
}

ST_AVX2 static inline uint32_t
planes_below_avx2_32(const char *at, int n, uint32_t word)
{
	__m256i words = _mm256_set1_epi32((int32_t) (word ^ UINT32_C(0x80000000)));
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 8)
	{
		__m256i below = _mm256_cmpgt_epi32(words, load_flipped_32(at + i * 4));

		set |= (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(below)) << i;
	}
	return set;
}

ST_AVX512 static inline uint32_t
planes_equal_avx512_64(const char *at, int n, uint64_t word)
{
	__m512i words = _mm512_set1_epi64((int64_t) word);
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 8)
		set |= (uint32_t) _mm512_cmpeq_epu64_mask(_mm512_loadu_si512(at + i * 8), words) << i;
	return set;
}

ST_AVX512 static inline uint32_t
planes_below_avx512_64(const char *at, int n, uint64_t word)
{
	__m512i words = _mm512_set1_epi64((int64_t) word);
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 8)
		set |= (uint32_t) _mm512_cmplt_epu64_mask(_mm512_loadu_si512(at + i * 8), words) << i;
	return set;
}

ST_AVX512 static inline uint32_t
planes_between_avx512_64(const char *at, int n, uint64_t low, uint64_t high)
{
	__m512i lows = _mm512_set1_epi64((int64_t) low);
	__m512i highs = _mm512_set1_epi64((int64_t) high);
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 8)
	{
		__m512i words = _mm512_loadu_si512(at + i * 8);

		set |= (uint32_t) _mm512_mask_cmple_epu64_mask(_mm512_cmpge_epu64_mask(words, lows), words,
													   highs)
			   << i;
	}
	return set;
}

ST_AVX512 static inline uint32_t
planes_equal_avx512_32(const char *at, int n, uint32_t word)
{
	__m512i words = _mm512_set1_epi32((int32_t) word);
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 16)
		set |= (uint32_t) _mm512_cmpeq_epu32_mask(_mm512_loadu_si512(at + i * 4), words) << i;
	return set;
}

ST_AVX512 static inline uint32_t
planes_below_avx512_32(const char *at, int n, uint32_t word)
{
	__m512i words = _mm512_set1_epi32((int32_t) word);
	uint32_t set = 0;

	ST_UNROLL
	for (int i = 0; i < n; i += 16)
		set |= (uint32_t) _mm512_cmplt_epu32_mask(_mm512_loadu_si512(at + i * 4), words) << i;
	return set;
}

#endif /* ST_X86 */

/* Whether this machine has an instruction set. */
static inline bool
set_is_supported(const char *name)
{
#ifdef ST_X86
	if (strcmp(name, "avx512") == 0)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2") &&
			   __builtin_cpu_supports("popcnt");
	if (strcmp(name, "avx2") == 0)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
			   __builtin_cpu_supports("popcnt");
#endif
	return strcmp(name, "portable") == 0;
}

#endif /* HARMONIA_SEARCH_SETS_H */
