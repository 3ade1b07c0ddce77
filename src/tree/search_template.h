/*
 * search_template.h
 *		Searching a leaf for many keys, for one class of leaves and one instruction set.
 *
 * search.c includes this with ST_BITS (the class: 16, 32 or 64), ST_SET (the instruction
 * set's name) and ST_TARGET (the attribute of functions that use it).  The functions do
 * what tree.h says about HtSearch's members.  Inside of them a key, low or high of type
 * ST_KEY is as it is stored: less the leaf's base.
 *
 * Pages may be damaged, or change while they are read.  The code never reads outside of
 * the page.
 */
#define ST_NAME_2(name, set, bits)	name##_##set##_##bits
#define ST_NAME_1(name, set, bits)	ST_NAME_2(name, set, bits)
#define ST(name)					ST_NAME_1(name, ST_SET, ST_BITS)

#if ST_BITS == 16
#define ST_KEY			uint16_t
#elif ST_BITS == 32
#define ST_KEY			uint32_t
#else
#define ST_KEY			uint64_t
#endif

#define ST_BLOCKS		HT_LEAF_BLOCKS(ST_BITS)
#define ST_BLOCKS_AT	HT_LEAF_BLOCKS_AT(ST_BITS)
#define ST_LINE			(HT_LEAF_LINE_SIZE / (int) sizeof(ST_KEY))	/* keys of a cache line */

/* What is subtracted from all keys. */
static inline uint64_t
ST(base)(const char *page)
{
#if ST_BITS < 64
	uint64_t	base;

	memcpy(&base, page + HT_LEAF_BASE_AT, sizeof(base));
	return base;
#else
	(void) page;
	return 0;
#endif
}

static inline ST_KEY
ST(separator)(const char *page, int i)
{
	ST_KEY		key;

	memcpy(&key, page + HT_LEAF_SEPARATORS_AT + i * sizeof(key), sizeof(key));
	return key;
}

/* The key as it is stored; one that is out of the leaf's reach becomes the nearest one. */
static inline ST_KEY
ST(stored)(const char *page, uint64_t key)
{
	uint64_t	base = ST(base)(page);

	if (key < base)
		return 0;
	return key - base > (ST_KEY) -1 ? (ST_KEY) -1 : (ST_KEY) (key - base);
}

/* The first block that can hold a key. */
ST_TARGET static inline int
ST(find_block)(const char *page, ST_KEY key)
{
	int			line = ST(count_pivots)(page, key);
	int			block = line * ST_LINE +
		ST(count_line)(page + HT_LEAF_SEPARATORS_AT + line * HT_LEAF_LINE_SIZE, key);

	return block < ST_BLOCKS ? block : ST_BLOCKS - 1;
}

/* The slots of a block in use, as a bit mask. */
static inline uint32_t
ST(used)(const char *block, int slots)
{
	int			count = (uint8_t) block[HT_LEAF_BLOCK_COUNT_AT];

	return (UINT32_C(1) << (count < slots ? count : slots)) - 1;
}

/* Write the hits in the slots of a mask.  Returns their number. */
ST_TARGET static inline uint32_t
ST(emit)(const char *block, uint32_t mask, int tid_bytes, uint64_t base, uint32_t probe,
		 HtHit *hits, uint64_t *keys)
{
	uint32_t	n = 0;

	for (; mask != 0; mask &= mask - 1)
	{
		int			slot = __builtin_ctz(mask);

		hits[n].tid = load_tid(block, ST_BITS, tid_bytes, slot);
		hits[n].probe = probe;
		hits[n].all_visible = 0;
		if (keys != NULL)
		{
			ST_KEY		key;

			memcpy(&key, block + slot * sizeof(key), sizeof(key));
			keys[n] = base + key;
		}
		n++;
	}
	return n;
}

ST_TARGET static uint32_t
ST(range)(const char *page, int tid_bytes, uint64_t low_key, uint64_t high_key, uint32_t probe,
		  HtHit *hits, uint64_t *keys, uint32_t room)
{
	uint64_t	base = ST(base)(page);
	ST_KEY		low = ST(stored)(page, low_key);
	ST_KEY		high = ST(stored)(page, high_key);
	uint32_t	n = 0;
	int			b;

	if (low_key > high_key || high_key < base || (low_key > base && low_key - base > (ST_KEY) -1))
		return 0;

	for (b = ST(find_block)(page, low);; b++)
	{
		const char *block = page + ST_BLOCKS_AT + b * HT_LEAF_BLOCK_SIZE;
		uint32_t	mask = ST(match_block)(block, low, high) &
			ST(used)(block, HT_LEAF_SLOTS(ST_BITS, tid_bytes));

		if (room - n < (uint32_t) __builtin_popcount(mask))
			return HT_NO_ROOM;
		n += ST(emit)(block, mask, tid_bytes, base, probe, hits + n,
					  keys == NULL ? NULL : keys + n);
		if (ST(separator)(page, b) > high || b == ST_BLOCKS - 1)
			return n;
	}
}

/* Is this block the only one that can hold a key? */
static inline bool
ST(belongs_only_in)(const char *page, int b, ST_KEY key)
{
	return ST(separator)(page, b) > key && (b == 0 || ST(separator)(page, b - 1) < key);
}

/*
 * Most points have one hit or none, in the block that the hint names; they are answered
 * without a branch.  A point is answered as a range if it has several hits, may have
 * hits in the next block, or belongs in another block because the page has changed.
 *
 * tid_bytes is a constant at each call of this.
 */
ST_TARGET static inline __attribute__((always_inline)) uint32_t
ST(points)(const char *page, int tid_bytes, const HtProbe *probes, uint32_t count,
		   HtHit *hits, uint64_t *keys, uint32_t room, uint32_t *found)
{
	int			slots = HT_LEAF_SLOTS(ST_BITS, tid_bytes);
	uint64_t	base = ST(base)(page);
	uint32_t	n = 0;
	uint32_t	i;

	for (i = 0; i < count; i++)
	{
		ST_KEY		key = (ST_KEY) (probes[i].key - base);
		int			b = probes[i].hint < ST_BLOCKS ? (int) probes[i].hint : 0;
		const char *block = page + ST_BLOCKS_AT + b * HT_LEAF_BLOCK_SIZE;
		uint32_t	mask = ST(match_key)(block, key) & ST(used)(block, slots);
		int			slot = __builtin_ctz(mask | UINT32_C(1) << (slots - 1));

		if (room - n < (uint32_t) slots)
			break;

		/* The leaf has no such key if it cannot store it. */
		if (ST_BITS < 64 && __builtin_expect(probes[i].key - base > (ST_KEY) -1, 0))
			continue;
		if (__builtin_expect((mask & (mask - 1)) != 0 || !ST(belongs_only_in)(page, b, key), 0))
		{
			uint32_t	more = ST(range)(page, tid_bytes, probes[i].key, probes[i].key,
										 probes[i].number, hits + n,
										 keys == NULL ? NULL : keys + n, room - n);

			if (more == HT_NO_ROOM)
				break;
			n += more;
			continue;
		}
		hits[n].tid = load_tid(block, ST_BITS, tid_bytes, slot);
		hits[n].probe = probes[i].number;
		hits[n].all_visible = 0;
		if (keys != NULL)
			keys[n] = probes[i].key;
		n += mask != 0;
	}
	*found = n;
	return i;
}

ST_TARGET static uint32_t
ST(points_4)(const char *page, const HtProbe *probes, uint32_t count,
			 HtHit *hits, uint64_t *keys, uint32_t room, uint32_t *found)
{
	return ST(points)(page, 4, probes, count, hits, keys, room, found);
}

ST_TARGET static uint32_t
ST(points_5)(const char *page, const HtProbe *probes, uint32_t count,
			 HtHit *hits, uint64_t *keys, uint32_t room, uint32_t *found)
{
	return ST(points)(page, 5, probes, count, hits, keys, room, found);
}

ST_TARGET static uint32_t
ST(points_6)(const char *page, const HtProbe *probes, uint32_t count,
			 HtHit *hits, uint64_t *keys, uint32_t room, uint32_t *found)
{
	return ST(points)(page, 6, probes, count, hits, keys, room, found);
}

ST_TARGET static void
ST(prefetch_separators)(const char *page, const HtProbe *probes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ht_prefetch(page + HT_LEAF_SEPARATORS_AT +
					ST(count_pivots)(page, ST(stored)(page, probes[i].key)) * HT_LEAF_LINE_SIZE);
}

ST_TARGET static void
ST(prefetch_blocks)(const char *page, HtProbe *probes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
	{
		int			b = ST(find_block)(page, ST(stored)(page, probes[i].key));
		const char *block = page + ST_BLOCKS_AT + b * HT_LEAF_BLOCK_SIZE;

		probes[i].hint = (uint32_t) b;
		ht_prefetch(block);
		ht_prefetch(block + HT_LEAF_LINE_SIZE);
	}
}

#undef ST_NAME_2
#undef ST_NAME_1
#undef ST
#undef ST_KEY
#undef ST_BLOCKS
#undef ST_BLOCKS_AT
#undef ST_LINE
#undef ST_BITS
