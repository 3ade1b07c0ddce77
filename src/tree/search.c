/*
 * search.c
 *		Searching leaves for many keys: instances of search_template.h for all classes of
 *		leaves and several instruction sets.
 */
#include "wide.h"

#include <string.h>

#include "search_sets.h"

#define ST_SET portable
#define ST_TARGET
#define ST_BITS 0
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 16
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 32
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 64
#define HT_KEYS 64
#include "search_template.h"
#undef ST_SET
#undef ST_TARGET

#ifdef ST_X86
#define ST_SET avx2
#define ST_TARGET ST_AVX2
#define ST_BITS 0
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 16
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 32
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 64
#define HT_KEYS 64
#include "search_template.h"
#undef ST_SET
#undef ST_TARGET

#define ST_SET avx512
#define ST_TARGET ST_AVX512
#define ST_BITS 0
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 16
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 32
#define HT_KEYS 64
#include "search_template.h"
#define ST_BITS 64
#define HT_KEYS 64
#include "search_template.h"
#undef ST_SET
#undef ST_TARGET
#endif

/* A leaf's class, and the bytes of its tids; those of the widest leaf if it is damaged. */
static inline int
class_of(const char *page)
{
	return (uint8_t) page[HT_LEAF_CLASS_AT];
}

/* Call a function of the instance for a leaf's shape. */
#define CALL(function, set, page, ...) \
	switch (class_of(page) << 8 | tid_bytes_of(page)) \
	{ \
		case 4: \
			return function##_4_##set##_0(page, __VA_ARGS__); \
		case 5: \
			return function##_5_##set##_0(page, __VA_ARGS__); \
		case 6: \
			return function##_6_##set##_0(page, __VA_ARGS__); \
		case 16 << 8 | 4: \
			return function##_4_##set##_16(page, __VA_ARGS__); \
		case 16 << 8 | 5: \
			return function##_5_##set##_16(page, __VA_ARGS__); \
		case 16 << 8 | 6: \
			return function##_6_##set##_16(page, __VA_ARGS__); \
		case 32 << 8 | 4: \
			return function##_4_##set##_32(page, __VA_ARGS__); \
		case 32 << 8 | 5: \
			return function##_5_##set##_32(page, __VA_ARGS__); \
		case 32 << 8 | 6: \
			return function##_6_##set##_32(page, __VA_ARGS__); \
	} \
	if (tid_bytes_of(page) == 4) \
		return function##_4_##set##_64(page, __VA_ARGS__); \
	if (tid_bytes_of(page) == 5) \
		return function##_5_##set##_64(page, __VA_ARGS__); \
	return function##_6_##set##_64(page, __VA_ARGS__);

/* The functions for all leaves: each calls the one for the leaf's shape. */
#define ST_FUNCTIONS(set) \
	static uint32_t points_##set(const void *page, const HtProbe *probes, uint32_t n, HtHit *hits, \
								 uint64_t *keys, uint32_t room, uint32_t *found) \
	{ \
		CALL(points, set, page, probes, n, hits, keys, room, found) \
	} \
\
	static uint32_t ranges_##set(const void *page, const HtProbe *probes, uint32_t n, \
								 uint64_t length, HtHit *hits, uint64_t *keys, uint32_t room, \
								 uint32_t *found) \
	{ \
		CALL(ranges, set, page, probes, n, length, hits, keys, room, found) \
	} \
\
	static uint32_t range_##set(const void *page, uint64_t low, uint64_t high, uint32_t probe, \
								bool live, HtHit *hits, uint64_t *keys, uint32_t room) \
	{ \
		int tid_bytes = tid_bytes_of(page); \
\
		switch (class_of(page)) \
		{ \
			case 0: \
				return range_##set##_0(page, tid_bytes, low, high, probe, live, hits, keys, room); \
			case 16: \
				return range_##set##_16(page, tid_bytes, low, high, probe, live, hits, keys, \
										room); \
			case 32: \
				return range_##set##_32(page, tid_bytes, low, high, probe, live, hits, keys, \
										room); \
			default: \
				return range_##set##_64(page, tid_bytes, low, high, probe, live, hits, keys, \
										room); \
		} \
	} \
\
	static bool has_hints_##set(const void *page, const HtProbe *probes, uint32_t n) \
	{ \
		int tid_bytes = tid_bytes_of(page); \
\
		switch (class_of(page)) \
		{ \
			case 0: \
				return has_hints_##set##_0(page, tid_bytes, probes, n); \
			case 16: \
				return has_hints_##set##_16(page, tid_bytes, probes, n); \
			case 32: \
				return has_hints_##set##_32(page, tid_bytes, probes, n); \
			default: \
				return has_hints_##set##_64(page, tid_bytes, probes, n); \
		} \
	} \
\
	static void prefetch_separators_##set(const void *page, const HtProbe *probes, uint32_t n) \
	{ \
		switch (class_of(page)) \
		{ \
			case 0: \
				prefetch_separators_##set##_0(page, probes, n); \
				break; \
			case 16: \
				prefetch_separators_##set##_16(page, probes, n); \
				break; \
			case 32: \
				prefetch_separators_##set##_32(page, probes, n); \
				break; \
			default: \
				prefetch_separators_##set##_64(page, probes, n); \
		} \
	} \
\
	static void prefetch_blocks_##set(const void *page, HtProbe *probes, uint32_t n, bool hints) \
	{ \
		int tid_bytes = tid_bytes_of(page); \
\
		switch (class_of(page)) \
		{ \
			case 0: \
				prefetch_blocks_##set##_0(page, tid_bytes, probes, n, hints); \
				break; \
			case 16: \
				prefetch_blocks_##set##_16(page, tid_bytes, probes, n, hints); \
				break; \
			case 32: \
				prefetch_blocks_##set##_32(page, tid_bytes, probes, n, hints); \
				break; \
			default: \
				prefetch_blocks_##set##_64(page, tid_bytes, probes, n, hints); \
		} \
	}

#define ST_SEARCH(set) \
	{ \
#set, points_##set, ranges_##set, range_##set, has_hints_##set, prefetch_separators_##set, \
			prefetch_blocks_##set \
	}

ST_FUNCTIONS(portable)
#ifdef ST_X86
ST_FUNCTIONS(avx2)
ST_FUNCTIONS(avx512)
#endif

/* The best one first. */
static const HtSearch searches[] = {
#ifdef ST_X86
	ST_SEARCH(avx512), ST_SEARCH(avx2),
#endif
	ST_SEARCH(portable)};

const HtSearch *
ht_search(const char *name)
{
	for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++)
	{
		if ((name == NULL || strcmp(name, searches[i].name) == 0) &&
			set_is_supported(searches[i].name))
			return &searches[i];
	}
	return NULL;
}
