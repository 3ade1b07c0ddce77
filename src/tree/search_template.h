/*
 * search_template.h
 *		Searching a leaf for many keys, for one key width and one instruction set.
 *
 * search.c includes this with ST_BITS (32 or 64), ST_SET (the instruction set's name)
 * and ST_TARGET (the attribute of functions that use it).  The functions do what tree.h
 * says about HtSearch's members.
 *
 * Pages may be damaged, or change while they are read.  The code never reads outside of
 * the page.
 */
#define ST_NAME_2(name, set, bits)	name##_##set##_##bits
#define ST_NAME_1(name, set, bits)	ST_NAME_2(name, set, bits)
#define ST(name)					ST_NAME_1(name, ST_SET, ST_BITS)

#if ST_BITS == 32
#define ST_KEY			uint32_t
#define ST_BLOCKS		60
#define ST_SLOTS		12
#define ST_BLOCKS_AT	384
#else
#define ST_KEY			uint64_t
#define ST_BLOCKS		58
#define ST_SLOTS		9
#define ST_BLOCKS_AT	640
#endif

#define ST_LINE			(ST_LINE_BYTES / (int) sizeof(ST_KEY))	/* keys of a cache line */
#define ST_LINES		(64 / ST_LINE)	/* lines of separators */

static inline ST_KEY
ST(separator)(const char *page, int i)
{
	ST_KEY		key;

	memcpy(&key, page + HT_LEAF_SEPARATORS_AT + i * sizeof(key), sizeof(key));
	return key;
}

/* The cache line of separators for a key. */
ST_TARGET static inline int
ST(find_line)(const char *page, ST_KEY key)
{
	return ST(count_line)(page + HT_PAGE_START, key) & (ST_LINES - 1);
}

/* The first block that can hold a key. */
ST_TARGET static inline int
ST(find_block)(const char *page, ST_KEY key)
{
	int			line = ST(find_line)(page, key);
	int			block = line * ST_LINE +
		ST(count_line)(page + HT_LEAF_SEPARATORS_AT + line * ST_LINE_BYTES, key);

	return block < ST_BLOCKS ? block : ST_BLOCKS - 1;
}

/* The slots of a block with entries in low..high, as a bit mask. */
ST_TARGET static inline uint32_t
ST(matches)(const char *block, ST_KEY low, ST_KEY high)
{
	uint32_t	count = (uint8_t) block[HT_LEAF_BLOCK_COUNT_AT];

	if (count > ST_SLOTS)
		count = ST_SLOTS;
	return ST(match_block)(block, low, high) & ((UINT32_C(1) << count) - 1);
}

/* The slots of a block with entries of a key, as a bit mask. */
ST_TARGET static inline uint32_t
ST(matches_key)(const char *block, ST_KEY key)
{
	uint32_t	count = (uint8_t) block[HT_LEAF_BLOCK_COUNT_AT];

	if (count > ST_SLOTS)
		count = ST_SLOTS;
	return ST(match_key)(block, key) & ((UINT32_C(1) << count) - 1);
}

/* Write the hits in the slots of a mask.  Returns their number. */
ST_TARGET static inline uint32_t
ST(emit)(const char *block, uint32_t mask, uint32_t probe, HtHit *hits, uint64_t *keys)
{
	uint32_t	n = 0;

	for (; mask != 0; mask &= mask - 1)
	{
		int			slot = __builtin_ctz(mask);

		hits[n].tid = load_tid(block + ST_SLOTS * sizeof(ST_KEY) + slot * HT_TID_BYTES);
		hits[n].probe = probe;
		hits[n].all_visible = 0;
		if (keys != NULL)
		{
			ST_KEY		key;

			memcpy(&key, block + slot * sizeof(key), sizeof(key));
			keys[n] = key;
		}
		n++;
	}
	return n;
}

ST_TARGET static uint32_t
ST(range)(const void *page_pointer, uint64_t low, uint64_t high, uint32_t probe,
		  HtHit *hits, uint64_t *keys, uint32_t room)
{
	const char *page = page_pointer;
	uint32_t	n = 0;
	int			b;

	if (low > (ST_KEY) -1 || low > high)
		return 0;
	if (high > (ST_KEY) -1)
		high = (ST_KEY) -1;

	for (b = ST(find_block)(page, (ST_KEY) low);; b++)
	{
		const char *block = page + ST_BLOCKS_AT + b * HT_LEAF_BLOCK_SIZE;
		uint32_t	mask = ST(matches)(block, (ST_KEY) low, (ST_KEY) high);

		if (room - n < (uint32_t) __builtin_popcount(mask))
			return HT_NO_ROOM;
		n += ST(emit)(block, mask, probe, hits + n, keys == NULL ? NULL : keys + n);
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
 */
ST_TARGET static uint32_t
ST(points)(const void *page_pointer, const HtProbe *probes, uint32_t count,
		   HtHit *hits, uint64_t *keys, uint32_t room, uint32_t *found)
{
	const char *page = page_pointer;
	uint32_t	n = 0;
	uint32_t	i;

	for (i = 0; i < count; i++)
	{
		ST_KEY		key = (ST_KEY) probes[i].key;
		int			b = probes[i].hint < ST_BLOCKS ? (int) probes[i].hint : 0;
		const char *block = page + ST_BLOCKS_AT + b * HT_LEAF_BLOCK_SIZE;
		uint32_t	mask = ST(matches_key)(block, key);
		int			slot = __builtin_ctz(mask | UINT32_C(1) << (ST_SLOTS - 1));

		if (room - n < ST_SLOTS)
			break;
		if (__builtin_expect((mask & (mask - 1)) != 0 || !ST(belongs_only_in)(page, b, key), 0))
		{
			uint32_t	more = ST(range)(page, key, key, probes[i].number, hits + n,
										 keys == NULL ? NULL : keys + n, room - n);

			if (more == HT_NO_ROOM)
				break;
			n += more;
			continue;
		}
		hits[n].tid = load_tid(block + ST_SLOTS * sizeof(ST_KEY) + slot * HT_TID_BYTES);
		hits[n].probe = probes[i].number;
		hits[n].all_visible = 0;
		if (keys != NULL)
			keys[n] = key;
		n += mask != 0;
	}
	*found = n;
	return i;
}

ST_TARGET static void
ST(prefetch_separators)(const void *page_pointer, const HtProbe *probes, uint32_t count)
{
	const char *page = page_pointer;

	for (uint32_t i = 0; i < count; i++)
		ht_prefetch(page + HT_LEAF_SEPARATORS_AT +
					ST(find_line)(page, (ST_KEY) probes[i].key) * ST_LINE_BYTES);
}

ST_TARGET static void
ST(prefetch_blocks)(const void *page_pointer, HtProbe *probes, uint32_t count)
{
	const char *page = page_pointer;

	for (uint32_t i = 0; i < count; i++)
	{
		int			b = ST(find_block)(page, (ST_KEY) probes[i].key);
		const char *block = page + ST_BLOCKS_AT + b * HT_LEAF_BLOCK_SIZE;

		probes[i].hint = (uint32_t) b;
		ht_prefetch(block);
		ht_prefetch(block + ST_LINE_BYTES);
	}
}

#undef ST_NAME_2
#undef ST_NAME_1
#undef ST
#undef ST_KEY
#undef ST_BLOCKS
#undef ST_SLOTS
#undef ST_BLOCKS_AT
#undef ST_LINE
#undef ST_LINES
#undef ST_BITS
