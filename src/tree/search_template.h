/*
 * search_template.h
 *		Searching a leaf for many keys, for one class of leaves and one instruction set.
 *
 * search.c and search_wide.c include this with HT_KEYS (the width of the index's keys), ST_BITS
 * (the class), ST_SET (the instruction set's name) and ST_TARGET (the attribute of functions that
 * use it).  The functions do what tree.h says about HtSearch's members.  Inside of them a key,
 * low or high of type ST_KEY is as it is stored: less the leaf's base.
 *
 * Pages may be damaged, or change while they are read.  The code never reads outside of
 * the page.
 */
#define ST_NAME_2(name, set, bits) name##_##set##_##bits
#define ST_NAME_1(name, set, bits) ST_NAME_2(name, set, bits)

/* A function of search_sets.h, and one of this file. */
#define ST_COMPARE(name) ST_NAME_1(name, ST_SET, ST_BITS)
#if HT_KEYS == 64
#define ST(name) ST_COMPARE(name)
#else
#define ST_KEYED_2(name, set, bits, keys) name##_##set##_##bits##_##keys
#define ST_KEYED_1(name, set, bits, keys) ST_KEYED_2(name, set, bits, keys)
#define ST(name) ST_KEYED_1(name, ST_SET, ST_BITS, HT_KEYS)
#endif

#include "key_macros.h"

#if HT_KEYS > 64 && ST_BITS >= 64
#include "search_planes.h"
#elif ST_BITS == 0
#include "search_single.h"
#else
#include "search_flat.h"
#endif

/* What is subtracted from all keys. */
static inline HT_KEY
ST(base)(const char *page)
{
#if HT_KEYS > 64 || ST_BITS < 64
	HT_KEY base;

	memcpy(&base, page + (HT_KEYS == 64 ? HT_LEAF_BASE_AT : HT_WIDE_BASE_AT), sizeof(base));
	return base;
#else
	(void) page;
	return 0;
#endif
}

/* Whether a distance from the base is beyond the class. */
static inline bool
ST(is_beyond)(HT_KEY distance)
{
#if HT_KEYS == 64
	return distance > ST_KEY_MAX;
#elif ST_BITS == HT_KEYS
	(void) distance;
	return false;
#else
	return distance >> ST_BITS != 0;
#endif
}

/* The key as it is stored; one that is out of the leaf's reach becomes the nearest one. */
static inline ST_KEY
ST(stored)(const char *page, HT_KEY key)
{
	HT_KEY base = ST(base)(page);

	if (key < base)
		return 0;
	key -= base;
	return ST(is_beyond)(key) ? ST_KEY_MAX : (ST_KEY) key;
}

/* Whether no key of the range low..high, which is not empty, is in the leaf's reach. */
static inline bool
ST(is_out_of_reach)(HT_KEY base, HT_KEY low, HT_KEY high)
{
	return high < base || (base < low && ST(is_beyond)(low - base));
}

/* The slots of a block in use, as a bit mask. */
static inline uint32_t
ST(used)(const char *block, int slots)
{
	int count = (uint8_t) block[ST_COUNT_AT];

	return (UINT32_C(1) << (count < slots ? count : slots)) - 1;
}

/* Write the hits in the slots of a mask.  Returns their number. */
ST_TARGET static inline uint32_t
ST(emit)(const char *block, uint32_t mask, int tid_bytes, HT_KEY base, uint32_t probe, HtHit *hits,
		 HT_KEY *keys)
{
	uint32_t n = 0;

	for (; mask != 0; mask &= mask - 1)
	{
		int slot = __builtin_ctz(mask);

		hits[n].tid = ST(tid)(block, tid_bytes, slot);
		hits[n].probe = probe;
		hits[n].all_visible = 0;
		if (keys != NULL)
			keys[n] = base + ST(key)(block, tid_bytes, slot);
		n++;
	}
	return n;
}

/* Where the hints of a block begin, and those hints, as a bit mask. */
static inline const uint8_t *
ST(hints_at)(const char *page, int slots, int b)
{
	return (const uint8_t *) page + ST_HOLE_AT + b * slots / 8;
}

static inline uint32_t
ST(hints)(const char *page, int slots, int b)
{
	return ht_hints_load((const uint8_t *) page + ST_HOLE_AT, b * slots, slots);
}

ST_TARGET static uint32_t
ST(range)(const char *page, int tid_bytes, HT_KEY low_key, HT_KEY high_key, uint32_t probe,
		  bool live, HtHit *hits, HT_KEY *keys, uint32_t room)
{
	HT_KEY base = ST(base)(page);
	ST_KEY low = ST(stored)(page, low_key);
	ST_KEY high = ST(stored)(page, high_key);
	int slots = ST_SLOTS(tid_bytes);
	uint32_t n = 0;
	int b;

	if (high_key < low_key || ST(is_out_of_reach)(base, low_key, high_key))
		return 0;

	for (b = ST(find_block)(page, low);; b++)
	{
		const char *block = page + ST_BLOCKS_AT + b * ST_BLOCK_SIZE;
		uint32_t mask = ST_MATCH_RANGE(block, slots, low, high) & ST(used)(block, slots);

		if (live)
			mask &= ~ST(hints)(page, slots, b);
		if (room - n < (uint32_t) __builtin_popcount(mask))
			return HT_NO_ROOM;
		n +=
			ST(emit)(block, mask, tid_bytes, base, probe, hits + n, keys == NULL ? NULL : keys + n);
		if (high < ST(separator)(page, b) || b == ST_BLOCKS - 1)
			return n;
	}
}

/*
 * Answer probes that are points, or ranges low..low + length.  Most have one hit or none, in the
 * block that the hint names; they are answered without a branch.  A probe is answered by
 * ST(range) if it may have hits in other blocks, or belongs elsewhere because the page has changed.
 *
 * tid_bytes and is_range are constants at each call of this.
 */
ST_TARGET static inline __attribute__((always_inline)) uint32_t
ST(answer)(const char *page, int tid_bytes, bool is_range, const HT_PROBE *probes, uint32_t count,
		   HT_KEY length, HtHit *hits, HT_KEY *keys, uint32_t room, uint32_t *found)
{
	int slots = ST_SLOTS(tid_bytes);
	HT_KEY base = ST(base)(page);
	uint32_t n = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
	{
		HT_KEY low_key = probes[i].key;
		HT_KEY high_key = is_range ? low_key + length : low_key;
		HT_KEY distance = low_key - base;
		ST_KEY low = is_range ? ST(stored)(page, low_key) : (ST_KEY) distance;
		ST_KEY high = is_range ? ST(stored)(page, high_key) : low;
		int b = probes[i].hint < ST_BLOCKS ? (int) probes[i].hint : 0;
		const char *block = page + ST_BLOCKS_AT + b * ST_BLOCK_SIZE;
		uint32_t mask =
			(is_range ? ST_MATCH_RANGE(block, slots, low, high) : ST_MATCH(block, slots, low)) &
			ST(used)(block, slots);
		int slot = __builtin_ctz(mask | UINT32_C(1) << (slots - 1));

		if (room - n < (uint32_t) slots)
			break;

		/* The leaf has no such keys if it cannot store them. */
		if (is_range ? __builtin_expect(ST(is_out_of_reach)(base, low_key, high_key), 0) :
					   ST_BITS < HT_KEYS && __builtin_expect(ST(is_beyond)(distance), 0))
			continue;
		if (__builtin_expect(!ST(belongs_only_in)(page, b, low, high), 0))
		{
			uint32_t more = ST(range)(page, tid_bytes, low_key, high_key, probes[i].number, false,
									  hits + n, keys == NULL ? NULL : keys + n, room - n);

			if (more == HT_NO_ROOM)
				break;
			n += more;
			continue;
		}
		if (__builtin_expect((mask & (mask - 1)) != 0, 0))
		{
			n += ST(emit)(block, mask, tid_bytes, base, probes[i].number, hits + n,
						  keys == NULL ? NULL : keys + n);
			continue;
		}
		hits[n].tid = ST(tid)(block, tid_bytes, slot);
		hits[n].probe = probes[i].number;
		hits[n].all_visible = 0;
		if (keys != NULL)
			keys[n] = is_range ? base + ST(key)(block, tid_bytes, slot) : low_key;
		n += mask != 0;
	}
	*found = n;
	return i;
}

#define ST_ANSWER(tid_bytes) \
	ST_TARGET static uint32_t ST(points_##tid_bytes)(const char *page, const HT_PROBE *probes, \
													 uint32_t count, HtHit *hits, HT_KEY *keys, \
													 uint32_t room, uint32_t *found) \
	{ \
		return ST(answer)(page, tid_bytes, false, probes, count, 0, hits, keys, room, found); \
	} \
\
	ST_TARGET static uint32_t ST(ranges_##tid_bytes)(const char *page, const HT_PROBE *probes, \
													 uint32_t count, HT_KEY length, HtHit *hits, \
													 HT_KEY *keys, uint32_t room, uint32_t *found) \
	{ \
		return ST(answer)(page, tid_bytes, true, probes, count, length, hits, keys, room, found); \
	}

ST_ANSWER(4)
ST_ANSWER(5)
ST_ANSWER(6)

/* Whether there are hints in the blocks that the probes name or, if these are many, on the page. */
static inline bool
ST(has_hints)(const char *page, int tid_bytes, const HT_PROBE *probes, uint32_t count)
{
	int slots = ST_SLOTS(tid_bytes);
	uint64_t any = 0;

	if (count > 0 && count <= HT_FEW_PROBES)
	{
		for (uint32_t i = 0; i < count; i++)
			any |= ST(hints)(page, slots, probes[i].hint < ST_BLOCKS ? (int) probes[i].hint : 0);
		return any != 0;
	}
	for (int i = 0; i < (ST_BLOCKS * ST_SLOTS(4) + 63) / 64; i++)
	{
		uint64_t word;

		memcpy(&word, page + ST_HOLE_AT + i * sizeof(word), sizeof(word));
		any |= word;
	}
	return any != 0;
}

ST_TARGET static void
ST(prefetch_separators)(const char *page, const HT_PROBE *probes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ht_prefetch(page + HT_LEAF_SEPARATORS_AT +
					ST_COUNT_PIVOTS(page, ST(stored)(page, probes[i].key)) * HT_LEAF_LINE_SIZE);
}

ST_TARGET static void
ST(prefetch_blocks)(const char *page, int tid_bytes, HT_PROBE *probes, uint32_t count, bool hints)
{
	int slots = ST_SLOTS(tid_bytes);

	for (uint32_t i = 0; i < count; i++)
	{
		int b = ST(find_block)(page, ST(stored)(page, probes[i].key));
		const char *block = page + ST_BLOCKS_AT + b * ST_BLOCK_SIZE;

		probes[i].hint = (uint32_t) b;
		for (int line = 0; line < ST_BLOCK_SIZE; line += HT_LEAF_LINE_SIZE)
			ht_prefetch(block + line);
		if (hints)
			ht_prefetch(ST(hints_at)(page, slots, b));
	}
}

#undef ST_NAME_2
#undef ST_NAME_1
#undef ST_KEYED_2
#undef ST_KEYED_1
#undef ST_COMPARE
#undef ST
#undef ST_KEY
#undef ST_KEY_MAX
#undef ST_BLOCKS
#undef ST_BLOCKS_AT
#undef ST_HOLE_AT
#undef ST_BLOCK_SIZE
#undef ST_COUNT_AT
#undef ST_SLOTS
#undef ST_LINE
#undef ST_WORDS
#undef ST_TAIL
#undef ST_PLANES
#undef ST_MATCH
#undef ST_MATCH_RANGE
#undef ST_COUNT_PIVOTS
#undef ST_ANSWER
#undef ST_BITS
#include "key_macros_end.h"
