/*
 * leaf_single.h
 *		How leaves of class 0 store keys: not at all, because all have the leaf's base as key.
 *
 * leaf_template.h includes this.  leaf_flat.h is another way, with functions of the same names.
 * A stored key is always 0, and so is each separator, which takes no room: as in other leaves with
 * many entries of one key, tids alone tell in which block an entry is.
 */
#define LT_KEY uint8_t
#define LT_KEY_MAX ((LT_KEY) 0)
#define LT_STORED(key) ((void) (key), (LT_KEY) 0)
#define LT_SET uint32_t
#define LT_RANK uint32_t
#define LT_RANKS LT_SLOTS

#define LT_BLOCKS HT_LEAF_BLOCKS(0)
#define LT_SLOTS HT_LEAF_SLOTS(0, LT_TID)
#define LT_SEPARATORS 0

typedef struct LT(Block)
{
	uint8_t tids[HT_LEAF_BLOCK_COUNT_AT];
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
	uint64_t base;
	uint8_t padding[HT_LEAF_SEPARATORS_AT - HT_LEAF_BASE_AT - sizeof(uint64_t)];
	uint8_t hole[HT_LEAF_BLOCKS_AT(0) - HT_LEAF_SEPARATORS_AT];
	LT(Block) blocks[LT_BLOCKS];
} LT(Page);

_Static_assert(sizeof(LT(Block)) == HT_LEAF_BLOCK_SIZE, "leaf block size");
_Static_assert(offsetof(LT(Page), bits) == HT_LEAF_CLASS_AT, "class offset");
_Static_assert(offsetof(LT(Page), tid_bytes) == HT_LEAF_TID_BYTES_AT, "tid bytes offset");
_Static_assert(offsetof(LT(Page), base) == HT_LEAF_BASE_AT, "base offset");
_Static_assert(offsetof(LT(Page), blocks) == HT_LEAF_BLOCKS_AT(0), "block offset");
_Static_assert(sizeof(LT(Page)) == HT_PAGE_END, "leaf page size");
_Static_assert(LT_SLOTS *LT_TID <= sizeof(((LT(Block) *) 0)->tids), "tids fit");
_Static_assert(LT_SLOTS <= HT_LEAF_MAX_SLOTS && LT_BLOCKS <= HT_LEAF_MAX_BLOCKS, "maxima");
_Static_assert(LT_SLOTS *LT_BLOCKS <= 8 * sizeof(((LT(Page) *) 0)->hole), "a bit for each slot");

/*
 * The worst case: every second slot of a block changes, unless these are merged, and every count.
 */
_Static_assert(((LT_TID <= RANGE_MERGE_GAP ? 1 : (LT_SLOTS + 1) / 2) + 1) * LT_BLOCKS <=
				   HT_LEAF_MAX_RANGES,
			   "ranges of a change");

static inline LT_KEY
LT(key)(const LT(Block) * block, int slot)
{
	(void) block;
	(void) slot;
	return 0;
}

static inline void
LT(put_key)(LT(Block) * block, int slot, LT_KEY key)
{
	(void) block;
	(void) slot;
	(void) key;
}

static inline LT_KEY
LT(separator)(const LT(Page) * page, int i)
{
	(void) page;
	(void) i;
	return 0;
}

static inline void
LT(put_separator)(LT(Page) * page, int i, LT_KEY key)
{
	(void) page;
	(void) i;
	(void) key;
}

static inline bool
LT(pivots_are_right)(const LT(Page) * page)
{
	(void) page;
	return true;
}

/* The key of all entries. */
static inline uint64_t
LT(base)(const LT(Page) * page)
{
	return page->base;
}

/* The first block that can hold a key. */
static inline int
LT(first_block)(const LT(Page) * page, LT_KEY key)
{
	(void) page;
	(void) key;
	return 0;
}

/* The slots of a block with a key in low..high, and those beyond the count. */
static inline uint32_t
LT(match_keys)(const LT(Block) * block, LT_KEY low, LT_KEY high)
{
	(void) block;
	(void) low;
	(void) high;
	return UINT32_MAX;
}

/* How many keys of a block are smaller than each of them. */
static inline void
LT(rank_keys)(const LT(Block) * block, int count, LT_RANK *ranks)
{
	(void) block;
	memset(ranks, 0, sizeof(*ranks) * (size_t) count);
}

static inline LT_KEY
LT(between)(LT_KEY low, LT_KEY high)
{
	(void) low;
	(void) high;
	return 0;
}

static inline void
LT(init_separators)(LT(Page) * page)
{
	(void) page;
}

/* Write what a leaf says of itself. */
static inline void
LT(set_shape)(LT(Page) * page, HtLeafShape shape)
{
	memset((char *) page + HT_PAGE_START, 0, HT_LEAF_SEPARATORS_AT - HT_PAGE_START);
	page->bits = 0;
	page->tid_bytes = LT_TID;
	page->base = shape.base;
}

static int
LT(change_ranges)(const HtLeafChange *change, HtByteRange *ranges)
{
	int n = 0;

	for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
	{
		int b = __builtin_ctzll(rest);
		size_t at = offsetof(LT(Page), blocks) + b * sizeof(LT(Block));

		for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
			n = add_range(ranges, n, at + __builtin_ctz(slots) * LT_TID, LT_TID);
		if (change->counts >> b & 1)
			n = add_range(ranges, n, at + HT_LEAF_BLOCK_COUNT_AT, 1);
	}
	return n;
}
