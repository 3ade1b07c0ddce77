/*
 * search_wide.c
 *		Searching leaves of indexes with wide keys: instances of search_template.h for all
 *		classes of leaves and instruction sets.
 */
#include "wide.h"

#include <string.h>

#include "search_sets.h"

#define ST_SET portable
#define ST_TARGET
#include "search_wide_set.h"

#ifdef ST_X86
#define ST_SET avx2
#define ST_TARGET ST_AVX2
#include "search_wide_set.h"

#define ST_SET avx512
#define ST_TARGET ST_AVX512
#include "search_wide_set.h"
#endif

/* A leaf's class in bits; that of the widest leaf if it is damaged. */
static inline int
class_of(const char *page)
{
	int class = (uint8_t) page[HT_LEAF_CLASS_AT];

	switch (class)
	{
		case 0:
		case 16:
		case 32:
			return class;
		case HT_WIDE_CLASS(64):
			return 64;
		case HT_WIDE_CLASS(96):
			return 96;
		default:
			return 128;
	}
}

/* Call a function of the instance for the class of a leaf. */
#define CALL_FOR_CLASS(page, call, set, ...) \
	switch (class_of(page)) \
	{ \
		case 0: \
			call(set##_0_128, __VA_ARGS__); \
			break; \
		case 16: \
			call(set##_16_128, __VA_ARGS__); \
			break; \
		case 32: \
			call(set##_32_128, __VA_ARGS__); \
			break; \
		case 64: \
			call(set##_64_128, __VA_ARGS__); \
			break; \
		case 96: \
			call(set##_96_128, __VA_ARGS__); \
			break; \
		default: \
			call(set##_128_128, __VA_ARGS__); \
			break; \
	}

#define CALL_FOR_TIDS(function, instance, page, ...) \
	do \
	{ \
		if (tid_bytes_of(page) == 4) \
			return function##_4_##instance(page, __VA_ARGS__); \
		if (tid_bytes_of(page) == 5) \
			return function##_5_##instance(page, __VA_ARGS__); \
		return function##_6_##instance(page, __VA_ARGS__); \
	} while (0)
#define CALL_POINTS(instance, page, ...) CALL_FOR_TIDS(points, instance, page, __VA_ARGS__)
#define CALL_RANGES(instance, page, ...) CALL_FOR_TIDS(ranges, instance, page, __VA_ARGS__)
#define CALL_RANGE(instance, page, ...) \
	return range_##instance(page, tid_bytes_of(page), __VA_ARGS__)
#define CALL_SEPARATORS(instance, ...) prefetch_separators_##instance(__VA_ARGS__)
#define CALL_BLOCKS(instance, page, ...) \
	prefetch_blocks_##instance(page, tid_bytes_of(page), __VA_ARGS__)
#define CALL_HAS_HINTS(instance, page, ...) \
	return has_hints_##instance(page, tid_bytes_of(page), __VA_ARGS__)

/* The functions for all leaves: each calls the one for the leaf's shape. */
#define ST_FUNCTIONS(set) \
	static uint32_t points_##set##_128(const void *page, const HtProbe128 *probes, uint32_t n, \
									   HtHit *hits, HtKey128 *keys, uint32_t room, \
									   uint32_t *found) \
	{ \
		CALL_FOR_CLASS(page, CALL_POINTS, set, page, probes, n, hits, keys, room, found) \
	} \
\
	static uint32_t ranges_##set##_128(const void *page, const HtProbe128 *probes, uint32_t n, \
									   HtKey128 length, HtHit *hits, HtKey128 *keys, \
									   uint32_t room, uint32_t *found) \
	{ \
		CALL_FOR_CLASS(page, CALL_RANGES, set, page, probes, n, length, hits, keys, room, found) \
	} \
\
	static uint32_t range_##set##_128(const void *page, HtKey128 low, HtKey128 high, \
									  uint32_t probe, bool live, HtHit *hits, HtKey128 *keys, \
									  uint32_t room) \
	{ \
		CALL_FOR_CLASS(page, CALL_RANGE, set, page, low, high, probe, live, hits, keys, room) \
	} \
\
	static bool has_hints_##set##_128(const void *page, const HtProbe128 *probes, uint32_t n) \
	{ \
		CALL_FOR_CLASS(page, CALL_HAS_HINTS, set, page, probes, n) \
	} \
\
	static void prefetch_separators_##set##_128(const void *page, const HtProbe128 *probes, \
												uint32_t n) \
	{ \
		CALL_FOR_CLASS(page, CALL_SEPARATORS, set, page, probes, n) \
	} \
\
	static void prefetch_blocks_##set##_128(const void *page, HtProbe128 *probes, uint32_t n, \
											bool hints) \
	{ \
		CALL_FOR_CLASS(page, CALL_BLOCKS, set, page, probes, n, hints) \
	}

#define ST_SEARCH(set) \
	{ \
#set, points_##set##_128, ranges_##set##_128, range_##set##_128, has_hints_##set##_128, \
			prefetch_separators_##set##_128, prefetch_blocks_##set##_128 \
	}

ST_FUNCTIONS(portable)
#ifdef ST_X86
ST_FUNCTIONS(avx2)
ST_FUNCTIONS(avx512)
#endif

/* The best one first. */
static const HtSearch128 searches[] = {
#ifdef ST_X86
	ST_SEARCH(avx512), ST_SEARCH(avx2),
#endif
	ST_SEARCH(portable)};

const HtSearch128 *
ht_search_128(const char *name)
{
	for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++)
	{
		if ((name == NULL || strcmp(name, searches[i].name) == 0) &&
			set_is_supported(searches[i].name))
			return &searches[i];
	}
	return NULL;
}
