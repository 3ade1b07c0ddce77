/*
 * leaf_planes.h
 *		How leaves of wide classes store keys: in planes.
 *
 * leaf_template.h includes this.  leaf_flat.h is the other way, with functions of the same
 * names.  Words of a key are numbered from the highest one on; what is left of a class of
 * which 64 is no divisor is its tail, of 32 bits.
 */
#define LT_KEY HT_KEY
#define LT_KEY_MAX (LT(key_max)())
#define LT_STORED(key) (key)
#define LT_SET uint32_t
#define LT_RANK uint32_t
#define LT_RANKS LT_SLOTS

#define LT_BLOCKS HT_WIDE_BLOCKS
#define LT_SLOTS HT_WIDE_SLOTS(LT_BITS, LT_TID)
#define LT_WORDS (LT_BITS / 64)
#define LT_TAIL (LT_BITS % 64 / 32)
#define LT_SEPARATORS HT_WIDE_SEPARATORS /* LT_BLOCKS - 1 of them in use */
#define LT_LINE (HT_LEAF_LINE_SIZE / 8)  /* words in a cache line */
#define LT_LINES (LT_SEPARATORS / LT_LINE)
#define LT_PIVOTS (LT_LINES - 1)

typedef struct LT(Block)
{
	uint64_t words[LT_WORDS][LT_SLOTS];
#if LT_TAIL
	uint32_t tails[LT_SLOTS];
#endif
	uint8_t tids[HT_WIDE_BLOCK_COUNT_AT - LT_SLOTS * (LT_BITS / 8)];
	uint8_t count;
	uint8_t unused;
} LT(Block);

/* Other code sees pages as bytes, hence may_alias. */
typedef struct __attribute__((may_alias)) LT(Page)
{
	uint8_t header[HT_PAGE_START];
	uint8_t class;
	uint8_t tid_bytes;
	uint8_t reserved[6];
	uint64_t pivots[LT_PIVOTS];
	uint8_t base[sizeof(HtKey128)]; /* leaf_wide.c reads it */
	uint8_t padding[HT_LEAF_SEPARATORS_AT - HT_WIDE_BASE_AT - sizeof(HtKey128)];
	uint64_t words[LT_WORDS][LT_SEPARATORS];
#if LT_TAIL
	uint32_t tails[LT_SEPARATORS];
#endif
#if LT_BITS < 128
	uint8_t hole[HT_WIDE_BLOCKS_AT - HT_LEAF_SEPARATORS_AT - LT_SEPARATORS * (LT_BITS / 8)];
#endif
	LT(Block) blocks[LT_BLOCKS];
} LT(Page);

_Static_assert(sizeof(LT(Block)) == HT_WIDE_BLOCK_SIZE, "leaf block size");
_Static_assert(offsetof(LT(Block), count) == HT_WIDE_BLOCK_COUNT_AT, "count offset");
_Static_assert(offsetof(LT(Page), class) == HT_LEAF_CLASS_AT, "class offset");
_Static_assert(offsetof(LT(Page), tid_bytes) == HT_LEAF_TID_BYTES_AT, "tid bytes offset");
_Static_assert(offsetof(LT(Page), pivots) == HT_WIDE_PIVOTS_AT, "pivot offset");
_Static_assert(offsetof(LT(Page), base) == HT_WIDE_BASE_AT, "base offset");
_Static_assert(offsetof(LT(Page), words) == HT_LEAF_SEPARATORS_AT, "separator offset");
_Static_assert(offsetof(LT(Page), blocks) == HT_WIDE_BLOCKS_AT, "block offset");
_Static_assert(sizeof(LT(Page)) == HT_PAGE_END, "leaf page size");
_Static_assert(LT_SLOTS *LT_TID <= sizeof(((LT(Block) *) 0)->tids), "tids fit");
_Static_assert(LT_SLOTS <= HT_LEAF_MAX_SLOTS, "maxima");
_Static_assert(LT_LINES *LT_LINE == LT_SEPARATORS && LT_BLOCKS <= LT_SEPARATORS, "separators");

/*
 * The worst case: every second slot of a block changes, with a range for each of its words, one
 * for its tail and one for its tid, unless these are small enough to be merged; also every
 * count, every second separator and every second pivot.
 */
_Static_assert((LT_WORDS * ((LT_SLOTS + 1) / 2) + LT_TAIL +
				(LT_TID <= RANGE_MERGE_GAP ? 1 : (LT_SLOTS + 1) / 2) + 1) *
						   LT_BLOCKS +
					   LT_WORDS * LT_SEPARATORS / 2 + LT_TAIL + LT_PIVOTS <=
				   HT_LEAF_MAX_RANGES,
			   "ranges of a change");

/* The key whose words and tail are these. */
static inline LT_KEY
LT(compose)(const uint64_t *words, size_t pitch, const uint32_t *tail)
{
	(void) pitch;
	(void) tail;
#if LT_BITS == 64
	return words[0];
#elif LT_BITS == 96
	return (LT_KEY) words[0] << 32 | *tail;
#else
	return (LT_KEY) words[0] << 64 | words[pitch];
#endif
}

/* Word i of a key. */
static inline uint64_t
LT(word)(LT_KEY key, int i)
{
#if LT_BITS == 64
	(void) i;
	return key;
#else
	return (uint64_t) (key >> (LT_BITS - 64 * (i + 1)));
#endif
}

static inline LT_KEY
LT(key_max)(void)
{
#if LT_BITS == 64
	return UINT64_MAX;
#else
	return HT_KEYED(ht_key_ones)(LT_BITS);
#endif
}

static inline LT_KEY
LT(key)(const LT(Block) * block, int slot)
{
#if LT_TAIL
	return LT(compose)(&block->words[0][slot], LT_SLOTS, &block->tails[slot]);
#else
	return LT(compose)(&block->words[0][slot], LT_SLOTS, NULL);
#endif
}

static inline void
LT(put_key)(LT(Block) * block, int slot, LT_KEY key)
{
	for (int i = 0; i < LT_WORDS; i++)
		block->words[i][slot] = LT(word)(key, i);
#if LT_TAIL
	block->tails[slot] = (uint32_t) key;
#endif
}

static inline LT_KEY
LT(separator)(const LT(Page) * page, int i)
{
#if LT_TAIL
	return LT(compose)(&page->words[0][i], LT_SEPARATORS, &page->tails[i]);
#else
	return LT(compose)(&page->words[0][i], LT_SEPARATORS, NULL);
#endif
}

/* Set a separator, and its pivot if it has one. */
static inline void
LT(put_separator)(LT(Page) * page, int i, LT_KEY key)
{
	for (int j = 0; j < LT_WORDS; j++)
		page->words[j][i] = LT(word)(key, j);
#if LT_TAIL
	page->tails[i] = (uint32_t) key;
#endif
	if (i % LT_LINE == LT_LINE - 1 && i / LT_LINE < LT_PIVOTS)
		page->pivots[i / LT_LINE] = LT(word)(key, 0);
}

/* Whether a pivot repeats its separator's first word. */
static inline bool
LT(pivots_are_right)(const LT(Page) * page)
{
	for (int i = 0; i < LT_PIVOTS; i++)
		if (page->pivots[i] != page->words[0][i * LT_LINE + LT_LINE - 1])
			return false;
	return true;
}

/* The base is subtracted before keys get here. */
static inline HT_KEY
LT(base)(const LT(Page) * page)
{
	(void) page;
	return 0;
}

/*
 * The first block that can hold a key: the number of separators below it.  First words decide,
 * as in a search of one word, unless a separator has the same.  On a damaged page, too, the
 * result must be on the page.
 */
static inline int
LT(first_block)(const LT(Page) * page, LT_KEY key)
{
	uint64_t word = LT(word)(key, 0);
	int line = 0;
	int n = 0;
	int end = LT_BLOCKS - 1;

	for (int i = 0; i < LT_PIVOTS; i++)
		line += page->pivots[i] < word;
	for (int i = 0; i < LT_LINE; i++)
		n += page->words[0][line * LT_LINE + i] < word;

	n += line * LT_LINE;
	if (n >= end)
		return end;
	if (LT_BITS > 64 && page->words[0][n] == word)
	{
		while (n < end)
		{
			int middle = n + (end - n) / 2;

			if (LT(separator)(page, middle) < key)
				n = middle + 1;
			else
				end = middle;
		}
	}
	return n;
}

/*
 * The slots of a block with a key in low..high, as a set that may also have slots beyond the
 * count.
 */
static inline uint32_t
LT(match_keys)(const LT(Block) * block, LT_KEY low, LT_KEY high)
{
	uint32_t found = 0;

	for (int i = 0; i < LT_SLOTS; i++)
	{
		LT_KEY key = LT(key)(block, i);

		found |= (uint32_t) ((int) (key >= low) & (int) (key <= high)) << i;
	}
	return found;
}

/* How many of the first "count" keys of a block are smaller than each of them. */
static inline void
LT(rank_keys)(const LT(Block) * block, int count, LT_RANK *ranks)
{
	for (int i = 0; i < count; i++)
	{
		ranks[i] = 0;
		for (int j = 0; j < count; j++)
			ranks[i] += LT(key)(block, j) < LT(key)(block, i);
	}
}

/*
 * A separator between two neighbouring keys.  If there is a key between them, take it:
 * a search for a key that equals a separator has to read both blocks.
 */
static inline LT_KEY
LT(between)(LT_KEY low, LT_KEY high)
{
	return low + ((high - low) >> 1);
}

static inline void
LT(init_separators)(LT(Page) * page)
{
	for (int i = 0; i < LT_SEPARATORS; i++)
		LT(put_separator)(page, i, LT_KEY_MAX);
}

/* Write what a leaf says of itself: the line before the separators, apart from pivots and base. */
static inline void
LT(set_shape)(LT(Page) * page, HtLeafShape shape)
{
	(void) shape;
	memset((char *) page + HT_PAGE_START, 0, HT_LEAF_SEPARATORS_AT - HT_PAGE_START);
	page->class = HT_WIDE_CLASS(LT_BITS);
	page->tid_bytes = LT_TID;
}

static int
LT(change_ranges)(const HtLeafChange *change, HtByteRange *ranges)
{
	int n = 0;

	for (int i = 0; change->separators != 0 && i < LT_PIVOTS; i++)
		if (change->separators >> (i * LT_LINE + LT_LINE - 1) & 1)
			n = add_range(ranges, n, offsetof(LT(Page), pivots) + i * 8, 8);

	for (int i = 0; i < LT_WORDS; i++)
		for (uint64_t rest = change->separators; rest != 0; rest &= rest - 1)
			n = add_range(
				ranges, n,
				offsetof(LT(Page), words) + (i * LT_SEPARATORS + __builtin_ctzll(rest)) * 8, 8);
#if LT_TAIL
	for (uint64_t rest = change->separators; rest != 0; rest &= rest - 1)
		n = add_range(ranges, n, offsetof(LT(Page), tails) + __builtin_ctzll(rest) * 4, 4);
#endif

	for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
	{
		int b = __builtin_ctzll(rest);
		size_t at = offsetof(LT(Page), blocks) + b * sizeof(LT(Block));

		for (int i = 0; i < LT_WORDS; i++)
			for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
				n = add_range(ranges, n, at + (i * LT_SLOTS + __builtin_ctz(slots)) * 8, 8);
#if LT_TAIL
		for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
			n = add_range(ranges, n, at + offsetof(LT(Block), tails) + __builtin_ctz(slots) * 4, 4);
#endif
		for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
			n = add_range(ranges, n, at + offsetof(LT(Block), tids) + __builtin_ctz(slots) * LT_TID,
						  LT_TID);
		if (change->counts >> b & 1)
			n = add_range(ranges, n, at + HT_WIDE_BLOCK_COUNT_AT, 1);
	}
	return n;
}
