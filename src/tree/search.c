/*
 * search.c
 *		Searching leaves for many keys: instances of search_template.h for both key
 *		widths and several instruction sets.
 */
#include "tree.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define ST_X86
#include <immintrin.h>
#endif

#define ST_LINE_BYTES	64

static inline uint64_t
load_tid(const char *at)
{
	uint32_t	block;
	uint16_t	offset;

	memcpy(&block, at, sizeof(block));
	memcpy(&offset, at + sizeof(block), sizeof(offset));
	return (uint64_t) block << 16 | offset;
}

/* ----------------------------------------------------------------
 *		Functions for each instruction set
 *
 * count_line: the number of keys of a cache line that are below a key.
 * match_block: bit i says whether key i of a block is in low..high; bits that stand for no
 * slot, or for a slot beyond the block's count, may have any value.
 * match_key: the same for one key.
 * ----------------------------------------------------------------
 */

static inline int
count_line_portable_32(const char *line, uint32_t key)
{
	int			n = 0;

	for (int i = 0; i < 16; i++)
	{
		uint32_t	other;

		memcpy(&other, line + i * sizeof(other), sizeof(other));
		n += other < key;
	}
	return n;
}

static inline int
count_line_portable_64(const char *line, uint64_t key)
{
	int			n = 0;

	for (int i = 0; i < 8; i++)
	{
		uint64_t	other;

		memcpy(&other, line + i * sizeof(other), sizeof(other));
		n += other < key;
	}
	return n;
}

static inline uint32_t
match_block_portable_32(const char *block, uint32_t low, uint32_t high)
{
	uint32_t	mask = 0;

	for (int i = 0; i < 12; i++)
	{
		uint32_t	key;

		memcpy(&key, block + i * sizeof(key), sizeof(key));
		mask |= (uint32_t) ((key >= low) & (key <= high)) << i;
	}
	return mask;
}

static inline uint32_t
match_block_portable_64(const char *block, uint64_t low, uint64_t high)
{
	uint32_t	mask = 0;

	for (int i = 0; i < 9; i++)
	{
		uint64_t	key;

		memcpy(&key, block + i * sizeof(key), sizeof(key));
		mask |= (uint32_t) ((key >= low) & (key <= high)) << i;
	}
	return mask;
}

static inline uint32_t
match_key_portable_32(const char *block, uint32_t key)
{
	return match_block_portable_32(block, key, key);
}

static inline uint32_t
match_key_portable_64(const char *block, uint64_t key)
{
	return match_block_portable_64(block, key, key);
}

/* The ninth key of a block, which the vectors do not cover. */
static inline uint32_t
match_ninth(const char *block, uint64_t low, uint64_t high)
{
	uint64_t	key;

	memcpy(&key, block + 8 * sizeof(key), sizeof(key));
	return (uint32_t) ((key >= low) & (key <= high)) << 8;
}

#ifdef ST_X86

#define ST_AVX2		__attribute__((target("avx2,bmi,bmi2,popcnt")))
#define ST_AVX512	__attribute__((target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2,popcnt")))

/* AVX2 compares signed numbers only, so flip the top bits. */
ST_AVX2 static inline __m256i
load_flipped_32(const char *at)
{
	return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) at),
							_mm256_set1_epi32(INT32_MIN));
}

ST_AVX2 static inline __m256i
load_flipped_64(const char *at)
{
	return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) at),
							_mm256_set1_epi64x(INT64_MIN));
}

ST_AVX2 static inline int
count_line_avx2_32(const char *line, uint32_t key)
{
	__m256i		keys = _mm256_set1_epi32((int32_t) (key ^ UINT32_C(0x80000000)));
	__m256i		low = _mm256_cmpgt_epi32(keys, load_flipped_32(line));
	__m256i		high = _mm256_cmpgt_epi32(keys, load_flipped_32(line + 32));

	return _mm_popcnt_u32((uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(low)) |
						  (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8);
}

ST_AVX2 static inline int
count_line_avx2_64(const char *line, uint64_t key)
{
	__m256i		keys = _mm256_set1_epi64x((int64_t) (key ^ UINT64_C(0x8000000000000000)));
	__m256i		low = _mm256_cmpgt_epi64(keys, load_flipped_64(line));
	__m256i		high = _mm256_cmpgt_epi64(keys, load_flipped_64(line + 32));

	return _mm_popcnt_u32((uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(low)) |
						  (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4);
}

/* Which of eight keys are outside of low..high. */
ST_AVX2 static inline uint32_t
outside_avx2_32(const char *at, __m256i low, __m256i high)
{
	__m256i		keys = load_flipped_32(at);

	return (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(
															 _mm256_or_si256(_mm256_cmpgt_epi32(low, keys),
																			 _mm256_cmpgt_epi32(keys, high))));
}

ST_AVX2 static inline uint32_t
match_block_avx2_32(const char *block, uint32_t low_key, uint32_t high_key)
{
	__m256i		low = _mm256_set1_epi32((int32_t) (low_key ^ UINT32_C(0x80000000)));
	__m256i		high = _mm256_set1_epi32((int32_t) (high_key ^ UINT32_C(0x80000000)));

	return ~(outside_avx2_32(block, low, high) | outside_avx2_32(block + 32, low, high) << 8);
}

ST_AVX2 static inline uint32_t
outside_avx2_64(const char *at, __m256i low, __m256i high)
{
	__m256i		keys = load_flipped_64(at);

	return (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(
															 _mm256_or_si256(_mm256_cmpgt_epi64(low, keys),
																			 _mm256_cmpgt_epi64(keys, high))));
}

ST_AVX2 static inline uint32_t
match_block_avx2_64(const char *block, uint64_t low_key, uint64_t high_key)
{
	__m256i		low = _mm256_set1_epi64x((int64_t) (low_key ^ UINT64_C(0x8000000000000000)));
	__m256i		high = _mm256_set1_epi64x((int64_t) (high_key ^ UINT64_C(0x8000000000000000)));
	uint32_t	outside = outside_avx2_64(block, low, high) |
		outside_avx2_64(block + 32, low, high) << 4;

	return (~outside & 0xFF) | match_ninth(block, low_key, high_key);
}

ST_AVX2 static inline uint32_t
match_key_avx2_32(const char *block, uint32_t key)
{
	__m256i		keys = _mm256_set1_epi32((int32_t) key);
	__m256i		low = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *) block), keys);
	__m256i		high = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *) (block + 32)), keys);

	return (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(low)) |
		(uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8;
}

ST_AVX2 static inline uint32_t
match_key_avx2_64(const char *block, uint64_t key)
{
	__m256i		keys = _mm256_set1_epi64x((int64_t) key);
	__m256i		low = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *) block), keys);
	__m256i		high = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *) (block + 32)), keys);

	return (uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(low)) |
		(uint32_t) _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4 |
		match_ninth(block, key, key);
}

ST_AVX512 static inline int
count_line_avx512_32(const char *line, uint32_t key)
{
	return _mm_popcnt_u32(_mm512_cmplt_epu32_mask(_mm512_loadu_si512(line),
												  _mm512_set1_epi32((int32_t) key)));
}

ST_AVX512 static inline int
count_line_avx512_64(const char *line, uint64_t key)
{
	return _mm_popcnt_u32(_mm512_cmplt_epu64_mask(_mm512_loadu_si512(line),
												  _mm512_set1_epi64((int64_t) key)));
}

ST_AVX512 static inline uint32_t
match_block_avx512_32(const char *block, uint32_t low, uint32_t high)
{
	__m512i		keys = _mm512_loadu_si512(block);

	return _mm512_mask_cmple_epu32_mask(_mm512_cmpge_epu32_mask(keys, _mm512_set1_epi32((int32_t) low)),
										keys, _mm512_set1_epi32((int32_t) high));
}

ST_AVX512 static inline uint32_t
match_block_avx512_64(const char *block, uint64_t low, uint64_t high)
{
	__m512i		keys = _mm512_loadu_si512(block);

	return _mm512_mask_cmple_epu64_mask(_mm512_cmpge_epu64_mask(keys, _mm512_set1_epi64((int64_t) low)),
										keys, _mm512_set1_epi64((int64_t) high)) |
		match_ninth(block, low, high);
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
		match_ninth(block, key, key);
}

#endif							/* ST_X86 */

#define ST_SET portable
#define ST_TARGET
#define ST_BITS 32
#include "search_template.h"
#define ST_BITS 64
#include "search_template.h"
#undef ST_SET
#undef ST_TARGET

#ifdef ST_X86
#define ST_SET avx2
#define ST_TARGET ST_AVX2
#define ST_BITS 32
#include "search_template.h"
#define ST_BITS 64
#include "search_template.h"
#undef ST_SET
#undef ST_TARGET

#define ST_SET avx512
#define ST_TARGET ST_AVX512
#define ST_BITS 32
#include "search_template.h"
#define ST_BITS 64
#include "search_template.h"
#undef ST_SET
#undef ST_TARGET
#endif

#define ST_FUNCTIONS(set, bits) \
	{ \
		#set, points_##set##_##bits, range_##set##_##bits, \
		prefetch_separators_##set##_##bits, prefetch_blocks_##set##_##bits \
	}

/* The best one first. */
static const HtSearch searches_32[] = {
#ifdef ST_X86
	ST_FUNCTIONS(avx512, 32),
	ST_FUNCTIONS(avx2, 32),
#endif
	ST_FUNCTIONS(portable, 32)
};

static const HtSearch searches_64[] = {
#ifdef ST_X86
	ST_FUNCTIONS(avx512, 64),
	ST_FUNCTIONS(avx2, 64),
#endif
	ST_FUNCTIONS(portable, 64)
};

static bool
supported(const char *name)
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

const HtSearch *
ht_search(HtWidth width, const char *name)
{
	const HtSearch *searches = width == HT_WIDTH32 ? searches_32 : searches_64;

	for (size_t i = 0; i < sizeof(searches_64) / sizeof(searches_64[0]); i++)
	{
		if ((name == NULL || strcmp(name, searches[i].name) == 0) && supported(searches[i].name))
			return &searches[i];
	}
	return NULL;
}
