/*
 * search_wide.c
 *		Searching leaves of indexes with wide keys: instances of search_template.h for all
 *		widths of keys, classes of leaves and instruction sets.
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

/*
 * A leaf's class in bits, and the bytes of its tids; those of the widest leaf of an index with
 * keys of the given width if it is damaged.
 */
static inline int
class_of(const char *page, int keys)
{
	int			class = (uint8_t) page[HT_LEAF_CLASS_AT];

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
		case HT_WIDE_CLASS(128):
			return 128;
		case HT_WIDE_CLASS(192):
			return keys < 192 ? keys : 192;
		default:
			return keys;
	}
}

/* Call a function of the instance for a class, which is one of those of the key's width. */
#define CALL_128(class, call, set, ...) \
	switch (class) \
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

#define CALL_256(class, call, set, ...) \
	switch (class) \
	{ \
		case 0: \
			call(set##_0_256, __VA_ARGS__); \
			break; \
		case 16: \
			call(set##_16_256, __VA_ARGS__); \
			break; \
		case 32: \
			call(set##_32_256, __VA_ARGS__); \
			break; \
		case 64: \
			call(set##_64_256, __VA_ARGS__); \
			break; \
		case 96: \
			call(set##_96_256, __VA_ARGS__); \
			break; \
		case 128: \
			call(set##_128_256, __VA_ARGS__); \
			break; \
		case 192: \
			call(set##_192_256, __VA_ARGS__); \
			break; \
		default: \
			call(set##_256_256, __VA_ARGS__); \
			break; \
	}

#define CALL_FOR_TIDS(function, instance, page, ...) \
	do { \
		if (tid_bytes_of(page) == 4) \
			return function##_4_##instance(page, __VA_ARGS__); \
		if (tid_bytes_of(page) == 5) \
			return function##_5_##instance(page, __VA_ARGS__); \
		return function##_6_##instance(page, __VA_ARGS__); \
	} while (0)
#define CALL_POINTS(instance, page, ...)	CALL_FOR_TIDS(points, instance, page, __VA_ARGS__)
#define CALL_RANGES(instance, page, ...)	CALL_FOR_TIDS(ranges, instance, page, __VA_ARGS__)
#define CALL_RANGE(instance, page, ...)	return range_##instance(page, tid_bytes_of(page), __VA_ARGS__)
#define CALL_SEPARATORS(instance, ...)	prefetch_separators_##instance(__VA_ARGS__)
#define CALL_BLOCKS(instance, page, ...)	prefetch_blocks_##instance(page, tid_bytes_of(page), __VA_ARGS__)
#define CALL_HAS_HINTS(instance, page, ...)	return has_hints_##instance(page, tid_bytes_of(page), __VA_ARGS__)

/* The functions for all leaves: each calls the one for the leaf's shape. */
#define ST_FUNCTIONS(set, keybits) \
static uint32_t \
points_##set##_##keybits(const void *page, const HtProbe##keybits *probes, uint32_t n, HtHit *hits, \
						 HtKey##keybits *keys, uint32_t room, uint32_t *found) \
{ \
	CALL_##keybits(class_of(page, keybits), CALL_POINTS, set, page, probes, n, hits, keys, room, found) \
} \
\
static uint32_t \
ranges_##set##_##keybits(const void *page, const HtProbe##keybits *probes, uint32_t n, HtKey##keybits length, \
						 HtHit *hits, HtKey##keybits *keys, uint32_t room, uint32_t *found) \
{ \
	CALL_##keybits(class_of(page, keybits), CALL_RANGES, set, page, probes, n, length, hits, keys, room, found) \
} \
\
static uint32_t \
range_##set##_##keybits(const void *page, HtKey##keybits low, HtKey##keybits high, uint32_t probe, \
						bool live, HtHit *hits, HtKey##keybits *keys, uint32_t room) \
{ \
	CALL_##keybits(class_of(page, keybits), CALL_RANGE, set, page, low, high, probe, live, hits, keys, room) \
} \
\
static bool \
has_hints_##set##_##keybits(const void *page, const HtProbe##keybits *probes, uint32_t n) \
{ \
	CALL_##keybits(class_of(page, keybits), CALL_HAS_HINTS, set, page, probes, n) \
} \
\
static void \
prefetch_separators_##set##_##keybits(const void *page, const HtProbe##keybits *probes, uint32_t n) \
{ \
	CALL_##keybits(class_of(page, keybits), CALL_SEPARATORS, set, page, probes, n) \
} \
\
static void \
prefetch_blocks_##set##_##keybits(const void *page, HtProbe##keybits *probes, uint32_t n, bool hints) \
{ \
	CALL_##keybits(class_of(page, keybits), CALL_BLOCKS, set, page, probes, n, hints) \
}

#define ST_SEARCH(set, keybits) \
	{ \
		#set, points_##set##_##keybits, ranges_##set##_##keybits, range_##set##_##keybits, \
		has_hints_##set##_##keybits, prefetch_separators_##set##_##keybits, prefetch_blocks_##set##_##keybits \
	}

ST_FUNCTIONS(portable, 128)
ST_FUNCTIONS(portable, 256)
#ifdef ST_X86
ST_FUNCTIONS(avx2, 128)
ST_FUNCTIONS(avx2, 256)
ST_FUNCTIONS(avx512, 128)
ST_FUNCTIONS(avx512, 256)
#endif

/* The best one first. */
#ifdef ST_X86
#define ST_SEARCHES(keybits) \
	{ST_SEARCH(avx512, keybits), ST_SEARCH(avx2, keybits), ST_SEARCH(portable, keybits)}
#else
#define ST_SEARCHES(keybits) \
	{ST_SEARCH(portable, keybits)}
#endif

static const HtSearch128 searches_128[] = ST_SEARCHES(128);
static const HtSearch256 searches_256[] = ST_SEARCHES(256);

const HtSearch128 *
ht_search_128(const char *name)
{
	for (size_t i = 0; i < sizeof(searches_128) / sizeof(searches_128[0]); i++)
	{
		if ((name == NULL || strcmp(name, searches_128[i].name) == 0) && set_is_supported(searches_128[i].name))
			return &searches_128[i];
	}
	return NULL;
}

const HtSearch256 *
ht_search_256(const char *name)
{
	for (size_t i = 0; i < sizeof(searches_256) / sizeof(searches_256[0]); i++)
	{
		if ((name == NULL || strcmp(name, searches_256[i].name) == 0) && set_is_supported(searches_256[i].name))
			return &searches_256[i];
	}
	return NULL;
}
