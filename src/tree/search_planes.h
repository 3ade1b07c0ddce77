/*
 * search_planes.h
 *		Reading leaves that store keys in planes, for search_template.h.
 *
 * ST_PLANES(equal, bits) and ST_PLANES(below, bits) are functions of search_sets.h.
 */
#if ST_BITS == 64
#define ST_KEY uint64_t
#else
#define ST_KEY HtKey128
#endif
#define ST_KEY_MAX ((ST_KEY) ~(ST_KEY) 0 >> (8 * sizeof(ST_KEY) - ST_BITS))

#define ST_WORDS (ST_BITS / 64)
#define ST_TAIL (ST_BITS % 64 / 32)
#define ST_BLOCKS HT_WIDE_BLOCKS
#define ST_BLOCKS_AT HT_WIDE_BLOCKS_AT
#define ST_HOLE_AT HT_WIDE_HOLE_AT(ST_BITS)
#define ST_BLOCK_SIZE HT_WIDE_BLOCK_SIZE
#define ST_COUNT_AT HT_WIDE_BLOCK_COUNT_AT
#define ST_SLOTS(tid_bytes) HT_WIDE_SLOTS(ST_BITS, tid_bytes)
#define ST_LINE (HT_LEAF_LINE_SIZE / 8)

#define ST_PLANES(compare, bits) ST_NAME_1(planes_##compare, ST_SET, bits)
#define ST_MATCH(block, slots, key) ST(match_key)(block, slots, key)
#define ST_MATCH_RANGE(block, slots, low, high) ST(match_range)(block, slots, low, high)
#define ST_COUNT_PIVOTS(page, key) ST(count_pivots)(page, ST(word)(key, 0))

/* Word i of a key, the highest one is 0. */
static inline uint64_t
ST(word)(ST_KEY key, int i)
{
#if ST_BITS == 64
	(void) i;
	return key;
#else
	return (uint64_t) (key >> (ST_BITS - 64 * (i + 1)));
#endif
}

/* The key in place i of planes that have so many items. */
static inline ST_KEY
ST(load_key)(const char *planes, int places, int i)
{
	uint64_t words[ST_WORDS];

	for (int j = 0; j < ST_WORDS; j++)
		memcpy(&words[j], planes + (j * places + i) * 8, 8);
#if ST_BITS == 64
	return words[0];
#elif ST_TAIL
	{
		uint32_t tail;

		memcpy(&tail, planes + ST_WORDS * places * 8 + i * 4, 4);
		return (ST_KEY) words[0] << 32 | tail;
	}
#else
	return (ST_KEY) words[0] << 64 | words[1];
#endif
}

static inline ST_KEY
ST(separator)(const char *page, int i)
{
	return ST(load_key)(page + HT_LEAF_SEPARATORS_AT, HT_WIDE_SEPARATORS, i);
}

static inline ST_KEY
ST(key)(const char *block, int tid_bytes, int slot)
{
	return ST(load_key)(block, ST_SLOTS(tid_bytes), slot);
}

static inline uint64_t
ST(tid)(const char *block, int tid_bytes, int slot)
{
	return load_tid(block, ST_SLOTS(tid_bytes) * (ST_BITS / 8), tid_bytes, slot);
}

static inline uint64_t
ST(first_separator_word)(const char *page, int i)
{
	uint64_t word;

	memcpy(&word, page + HT_LEAF_SEPARATORS_AT + i * 8, sizeof(word));
	return word;
}

/* The slots whose key is the given one; bits for slots beyond the count may have any value. */
ST_TARGET static inline uint32_t
ST(match_key)(const char *block, int slots, ST_KEY key)
{
	uint32_t set = ST_PLANES(equal, 64)(block, slots, ST(word)(key, 0));

	for (int i = 1; i < ST_WORDS; i++)
		set &= ST_PLANES(equal, 64)(block + i * slots * 8, slots, ST(word)(key, i));
#if ST_TAIL
	set &= ST_PLANES(equal, 32)(block + ST_WORDS * slots * 8, slots, (uint32_t) key);
#endif
	return set;
}

#if ST_BITS > 64
/* The same for keys below the given one; those that equal it become *equal. */
ST_TARGET static inline uint32_t
ST(match_below)(const char *block, int slots, ST_KEY key, uint32_t *equal)
{
	uint32_t below = ST_PLANES(below, 64)(block, slots, ST(word)(key, 0));
	uint32_t same = ST_PLANES(equal, 64)(block, slots, ST(word)(key, 0));

	for (int i = 1; i < ST_WORDS; i++)
	{
		below |= same & ST_PLANES(below, 64)(block + i * slots * 8, slots, ST(word)(key, i));
		same &= ST_PLANES(equal, 64)(block + i * slots * 8, slots, ST(word)(key, i));
	}
#if ST_TAIL
	below |= same & ST_PLANES(below, 32)(block + ST_WORDS * slots * 8, slots, (uint32_t) key);
	same &= ST_PLANES(equal, 32)(block + ST_WORDS * slots * 8, slots, (uint32_t) key);
#endif
	*equal = same;
	return below;
}

ST_TARGET static __attribute__((noinline)) uint32_t
ST(match_words)(const char *block, int slots, ST_KEY low, ST_KEY high)
{
	uint32_t equal;
	uint32_t outside = ST(match_below)(block, slots, low, &equal);
	uint32_t inside = ST(match_below)(block, slots, high, &equal);

	return (inside | equal) & ~outside;
}
#endif

/*
 * The same for keys in low..high.  Mostly the first words leave one key at most, which is compared
 * alone.
 */
ST_TARGET static inline uint32_t
ST(match_range)(const char *block, int slots, ST_KEY low, ST_KEY high)
{
	uint32_t first = ST_PLANES(between, 64)(block, slots, ST(word)(low, 0), ST(word)(high, 0)) &
					 ((UINT32_C(1) << slots) - 1);

#if ST_BITS > 64
	ST_KEY key = ST(load_key)(block, slots, __builtin_ctz(first | UINT32_C(1) << (slots - 1)));

	if (__builtin_expect((first & (first - 1)) != 0, 0))
		return ST(match_words)(block, slots, low, high);
	if (key < low || high < key)
		first = 0;
#endif
	return first;
}

ST_TARGET static inline int
ST(count_pivots)(const char *page, uint64_t word)
{
	return __builtin_popcount(
		ST_PLANES(below, 64)(page + HT_WIDE_PIVOTS_AT, HT_WIDE_SEPARATORS / ST_LINE - 1, word) & 7);
}

/* The first block that can hold a key.  Mostly the first words tell. */
ST_TARGET static inline int
ST(find_block)(const char *page, ST_KEY key)
{
	uint64_t word = ST(word)(key, 0);
	int line = ST(count_pivots)(page, word);
	int block = line * ST_LINE +
				__builtin_popcount(ST_PLANES(below, 64)(
					page + HT_LEAF_SEPARATORS_AT + line * HT_LEAF_LINE_SIZE, ST_LINE, word));
	int end = ST_BLOCKS - 1;

	if (block >= end)
		return end;
	if (ST_BITS > 64 && __builtin_expect(ST(first_separator_word)(page, block) == word, 0))
	{
		while (block < end)
		{
			int middle = block + (end - block) / 2;

			if (ST(separator)(page, middle) < key)
				block = middle + 1;
			else
				end = middle;
		}
	}
	return block;
}

/* Is this block the only one that can hold keys in low..high? */
static inline bool
ST(belongs_only_in)(const char *page, int b, ST_KEY low, ST_KEY high)
{
	if (ST(first_separator_word)(page, b) > ST(word)(high, 0) &&
		(b == 0 || ST(first_separator_word)(page, b - 1) < ST(word)(low, 0)))
		return true;
	return high < ST(separator)(page, b) && (b == 0 || ST(separator)(page, b - 1) < low);
}
