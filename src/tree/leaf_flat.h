/*
 * leaf_flat.h
 *		How leaves of the classes of tree.h store keys: one after the other.
 *
 * leaf_template.h includes this.  leaf_planes.h is the other way, with functions of the same
 * names.
 */
#if LT_BITS == 16
#define LT_KEY uint16_t
#define LT_KEY_MAX UINT16_MAX
#elif LT_BITS == 32
#define LT_KEY uint32_t
#define LT_KEY_MAX UINT32_MAX
#else
#define LT_KEY uint64_t
#define LT_KEY_MAX UINT64_MAX
#endif
#define LT_STORED(key) ((LT_KEY) (key))

/* A bit for each slot, as wide as a key if keys are wide enough. */
#if LT_BITS < 64
#define LT_SET uint32_t
#else
#define LT_SET uint64_t
#endif

#define LT_BLOCKS HT_LEAF_BLOCKS(LT_BITS)
#define LT_SLOTS HT_LEAF_SLOTS(LT_BITS, LT_TID)

/* Slots, rounded up to whole vectors of 16 bytes: compilers then vectorise loops over keys. */
#define LT_LANES ((LT_SLOTS * LT_BITS + 127) / 128 * (128 / LT_BITS))
#define LT_RANK LT_KEY /* a number of keys, and room for so many */
#define LT_RANKS LT_LANES
#define LT_SEPARATORS HT_LEAF_MAX_SEPARATORS               /* LT_BLOCKS - 1 of them in use */
#define LT_LINE (HT_LEAF_LINE_SIZE / (int) sizeof(LT_KEY)) /* keys in a cache line */
#define LT_LINES (LT_SEPARATORS / LT_LINE)
#define LT_PIVOTS (LT_LINES - 1)

typedef struct LT(Block)
{
	LT_KEY keys[LT_SLOTS];
	uint8_t tids[HT_LEAF_BLOCK_COUNT_AT - LT_SLOTS * sizeof(LT_KEY)];
	uint8_t count;
	uint8_t unused;
} LT(Block);

/* Other code sees pages as bytes, hence may_alias. */
typedef struct __attribute__((may_alias)) LT(Page)
{
	uint8_t header[HT_PAGE_START];
	uint8_t bits;
	uint8_t tid_bytes;
	uint8_t reserved[6];
#if LT_BITS < 64
	uint64_t base;
#endif
	LT_KEY pivots[LT_PIVOTS];
#if LT_BITS < 64
	uint8_t
		padding[HT_LEAF_SEPARATORS_AT - HT_LEAF_PIVOTS_AT(LT_BITS) - LT_PIVOTS * sizeof(LT_KEY)];
#endif
	LT_KEY separators[LT_SEPARATORS];
#if LT_BITS < 64
	uint8_t
		hole[HT_LEAF_BLOCKS_AT(LT_BITS) - HT_LEAF_SEPARATORS_AT - LT_SEPARATORS * sizeof(LT_KEY)];
#endif
	LT(Block) blocks[LT_BLOCKS];
} LT(Page);

_Static_assert(sizeof(LT(Block)) == HT_LEAF_BLOCK_SIZE, "leaf block size");
_Static_assert(offsetof(LT(Block), count) == HT_LEAF_BLOCK_COUNT_AT, "count offset");
_Static_assert(offsetof(LT(Page), bits) == HT_LEAF_CLASS_AT, "class offset");
_Static_assert(offsetof(LT(Page), tid_bytes) == HT_LEAF_TID_BYTES_AT, "tid bytes offset");
_Static_assert(offsetof(LT(Page), pivots) == HT_LEAF_PIVOTS_AT(LT_BITS), "pivot offset");
_Static_assert(offsetof(LT(Page), separators) == HT_LEAF_SEPARATORS_AT, "separator offset");
_Static_assert(offsetof(LT(Page), blocks) == HT_LEAF_BLOCKS_AT(LT_BITS), "block offset");
_Static_assert(sizeof(LT(Page)) == HT_PAGE_END, "leaf page size");
_Static_assert(LT_SLOTS *LT_TID <= sizeof(((LT(Block) *) 0)->tids), "tids fit");
_Static_assert(LT_SLOTS <= HT_LEAF_MAX_SLOTS && LT_BLOCKS <= HT_LEAF_MAX_BLOCKS, "maxima");

/*
 * The worst case: every second slot of a block changes, each with one range for its key
 * and one for its tid, unless a slot is small enough to be merged; also every count, every
 * second separator and every second pivot.
 */
_Static_assert(((sizeof(LT_KEY) <= RANGE_MERGE_GAP ? 1 : (LT_SLOTS + 1) / 2) +
				(LT_TID <= RANGE_MERGE_GAP ? 1 : (LT_SLOTS + 1) / 2) + 1) *
						   LT_BLOCKS +
					   LT_BLOCKS / 2 + LT_LINES / 2 <=
				   HT_LEAF_MAX_RANGES,
			   "ranges of a change");

static inline LT_KEY
LT(key)(const LT(Block) * block, int slot)
{
	return block->keys[slot];
}

static inline void
LT(put_key)(LT(Block) * block, int slot, LT_KEY key)
{
	block->keys[slot] = key;
}

static inline LT_KEY
LT(separator)(const LT(Page) * page, int i)
{
	return page->separators[i];
}

/* Set a separator, and its pivot if it has one. */
static inline void
LT(put_separator)(LT(Page) * page, int i, LT_KEY key)
{
	page->separators[i] = key;
	if (i % LT_LINE == LT_LINE - 1)
		page->pivots[i / LT_LINE] = key;
}

/* Whether a pivot repeats its separator. */
static inline bool
LT(pivots_are_right)(const LT(Page) * page)
{
	for (int i = 0; i < LT_PIVOTS; i++)
		if (page->pivots[i] != page->separators[i * LT_LINE + LT_LINE - 1])
			return false;
	return true;
}

/* What is subtracted from all keys. */
static inline uint64_t
LT(base)(const LT(Page) * page)
{
#if LT_BITS < 64
	return page->base;
#else
	(void) page;
	return 0;
#endif
}

/*
 * The first block that can hold a key: the number of separators below it.  The loops
 * have constant bounds and no branches, so that the compiler can unroll or vectorise
 * them.  On a damaged page, too, the result must be on the page.
 */
static ALWAYS_INLINE int
LT(first_block)(const LT(Page) * page, LT_KEY key)
{
	const LT_KEY *separators;
	int line = 0;
	int n = 0;

	for (int i = 0; i < LT_PIVOTS; i++)
		line += page->pivots[i] < key;

	separators = &page->separators[line * LT_LINE];
	for (int i = 0; i < LT_LINE; i++)
		n += separators[i] < key;

	n += line * LT_LINE;
	return n < LT_BLOCKS ? n : LT_BLOCKS - 1;
}

/*
 * The slots of a block with a key in low..high, as a set that may also have slots beyond the
 * count.
 */
static inline uint32_t
LT(match_keys)(const LT(Block) * block, LT_KEY low, LT_KEY high)
{
	LT_KEY span = (LT_KEY) (high - low);
	LT_SET found = 0;
	LT_KEY keys[LT_LANES];

	memcpy(keys, block, sizeof(keys));
	for (int i = 0; i < LT_LANES; i++)
		found |= (LT_KEY) (keys[i] - low) <= span ? (LT_SET) 1 << i : 0;
	return (uint32_t) found;
}

/*
 * How many of the first "count" keys of a block are smaller than each of them.  Compilers vectorise
 * the inner loop, and keep what it counts in registers if it is unrolled.
 */
static inline void
LT(rank_keys)(const LT(Block) * block, int count, LT_RANK *ranks)
{
	LT_KEY keys[LT_LANES];

	memcpy(keys, block, sizeof(keys));
	memset(ranks, 0, sizeof(keys));
	for (int j = 0; j < count; j++)
	{
#pragma GCC unroll 8
		for (int i = 0; i < LT_LANES; i++)
			ranks[i] += keys[j] < keys[i];
	}
}

/*
 * A separator between two neighbouring keys.  If there is a key between them, take it:
 * a search for a key that equals a separator has to read both blocks.
 */
static inline LT_KEY
LT(between)(LT_KEY low, LT_KEY high)
{
	return (LT_KEY) (low + (high - low) / 2);
}

static inline void
LT(init_separators)(LT(Page) * page)
{
	memset(page->pivots, 0xFF, sizeof(page->pivots));
	memset(page->separators, 0xFF, sizeof(page->separators));
}

/* Write what a leaf says of itself: the line before the separators, apart from pivots. */
static inline void
LT(set_shape)(LT(Page) * page, HtLeafShape shape)
{
	memset((char *) page + HT_PAGE_START, 0, HT_LEAF_SEPARATORS_AT - HT_PAGE_START);
	page->bits = LT_BITS;
	page->tid_bytes = LT_TID;
#if LT_BITS < 64
	page->base = shape.base;
#else
	(void) shape;
#endif
}

static int
LT(change_ranges)(const HtLeafChange *change, HtByteRange *ranges)
{
	int n = 0;

	for (int i = 0; change->separators != 0 && i < LT_PIVOTS; i++)
		if (change->separators >> (i * LT_LINE + LT_LINE - 1) & 1)
			n = add_range(ranges, n, offsetof(LT(Page), pivots) + i * sizeof(LT_KEY),
						  sizeof(LT_KEY));

	for (uint64_t rest = change->separators; rest != 0; rest &= rest - 1)
		n = add_range(ranges, n,
					  offsetof(LT(Page), separators) + __builtin_ctzll(rest) * sizeof(LT_KEY),
					  sizeof(LT_KEY));

	for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
	{
		int b = __builtin_ctzll(rest);
		size_t at = offsetof(LT(Page), blocks) + b * sizeof(LT(Block));
		size_t tids = at + offsetof(LT(Block), tids);

		for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
			n = add_range(ranges, n, at + __builtin_ctz(slots) * sizeof(LT_KEY), sizeof(LT_KEY));
		for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
			n = add_range(ranges, n, tids + __builtin_ctz(slots) * LT_TID, LT_TID);
		if (change->counts >> b & 1)
			n = add_range(ranges, n, at + HT_LEAF_BLOCK_COUNT_AT, 1);
	}
	return n;
}
