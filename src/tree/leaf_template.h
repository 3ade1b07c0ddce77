/*
 * leaf_template.h
 *		Leaf page operations for one shape of leaves.
 *
 * leaf.c includes this once for each shape, with LT_BITS (the class: 16, 32 or 64) and
 * LT_TID (the bytes of a tid: 4, 5 or 6) defined.  Every name is made with LT(), so that
 * all instances can exist side by side.  The functions do what tree.h says about the
 * ht_leaf_ functions of the same name.  Inside of them keys are as they are stored: less
 * the leaf's base.
 *
 * Two invariants are not needed by readers, but by inserts.  Separators never descend,
 * so that counting finds a block.  Separators after the last entry have the maximum
 * value, so that an entry above all others finds the last used block, not an empty
 * block far behind it.
 */
#define LT_NAME_2(name, bits, tid)	name##_##bits##_##tid
#define LT_NAME_1(name, bits, tid)	LT_NAME_2(name, bits, tid)
#define LT(name)				LT_NAME_1(name, LT_BITS, LT_TID)

/* LT_SET holds a bit for each slot, and is as wide as a key if keys are wide enough. */
#if LT_BITS == 16
#define LT_KEY			uint16_t
#define LT_KEY_MAX		UINT16_MAX
#define LT_SET			uint32_t
#elif LT_BITS == 32
#define LT_KEY			uint32_t
#define LT_KEY_MAX		UINT32_MAX
#define LT_SET			uint32_t
#else
#define LT_KEY			uint64_t
#define LT_KEY_MAX		UINT64_MAX
#define LT_SET			uint64_t
#endif

#define LT_BLOCKS		HT_LEAF_BLOCKS(LT_BITS)
#define LT_SLOTS		HT_LEAF_SLOTS(LT_BITS, LT_TID)

/* Slots, rounded up to whole vectors of 16 bytes: compilers then vectorise loops over keys. */
#define LT_LANES		((LT_SLOTS * LT_BITS + 127) / 128 * (128 / LT_BITS))
#define LT_SEPARATORS	HT_LEAF_MAX_SEPARATORS	/* LT_BLOCKS - 1 of them in use */
#define LT_LINE			(HT_LEAF_LINE_SIZE / (int) sizeof(LT_KEY))	/* keys in a cache line */
#define LT_LINES		(LT_SEPARATORS / LT_LINE)
#define LT_PIVOTS		(LT_LINES - 1)

typedef struct LT(Block)
{
	LT_KEY		keys[LT_SLOTS];
	uint8_t		tids[HT_LEAF_BLOCK_COUNT_AT - LT_SLOTS * sizeof(LT_KEY)];
	uint8_t		count;
	uint8_t		unused;
} LT(Block);

/* Other code sees pages as bytes, hence may_alias. */
typedef struct __attribute__((may_alias)) LT(Page)
{
	uint8_t		header[HT_PAGE_START];
	uint8_t		bits;
	uint8_t		tid_bytes;
	uint8_t		reserved[6];
#if LT_BITS < 64
	uint64_t	base;
#endif
	LT_KEY		pivots[LT_PIVOTS];
#if LT_BITS < 64
	uint8_t		padding[HT_LEAF_SEPARATORS_AT - HT_LEAF_PIVOTS_AT(LT_BITS) - LT_PIVOTS * sizeof(LT_KEY)];
#endif
	LT_KEY		separators[LT_SEPARATORS];
#if LT_BITS < 64
	uint8_t		hole[HT_LEAF_BLOCKS_AT(LT_BITS) - HT_LEAF_SEPARATORS_AT - LT_SEPARATORS * sizeof(LT_KEY)];
#endif
	LT(Block)	blocks[LT_BLOCKS];
} LT(Page);

_Static_assert(sizeof(LT(Block)) == HT_LEAF_BLOCK_SIZE, "leaf block size");
_Static_assert(offsetof(LT(Block), count) == HT_LEAF_BLOCK_COUNT_AT, "count offset");
_Static_assert(offsetof(LT(Page), bits) == HT_LEAF_CLASS_AT, "class offset");
_Static_assert(offsetof(LT(Page), tid_bytes) == HT_LEAF_TID_BYTES_AT, "tid bytes offset");
_Static_assert(offsetof(LT(Page), pivots) == HT_LEAF_PIVOTS_AT(LT_BITS), "pivot offset");
_Static_assert(offsetof(LT(Page), separators) == HT_LEAF_SEPARATORS_AT, "separator offset");
_Static_assert(offsetof(LT(Page), blocks) == HT_LEAF_BLOCKS_AT(LT_BITS), "block offset");
_Static_assert(sizeof(LT(Page)) == HT_PAGE_END, "leaf page size");
_Static_assert(LT_SLOTS * LT_TID <= sizeof(((LT(Block) *) 0)->tids), "tids fit");
_Static_assert(LT_SLOTS <= HT_LEAF_MAX_SLOTS && LT_BLOCKS <= HT_LEAF_MAX_BLOCKS, "maxima");

/*
 * The worst case: every second slot of a block changes, each with one range for its key
 * and one for its tid, unless a slot is small enough to be merged; also every count, every
 * second separator and every second pivot.
 */
_Static_assert(((sizeof(LT_KEY) <= RANGE_MERGE_GAP ? 1 : (LT_SLOTS + 1) / 2) +
				(LT_TID <= RANGE_MERGE_GAP ? 1 : (LT_SLOTS + 1) / 2) + 1) * LT_BLOCKS +
			   LT_BLOCKS / 2 + LT_LINES / 2 <= HT_LEAF_MAX_RANGES, "ranges of a change");

/* What is subtracted from all keys. */
static inline uint64_t
LT(base)(const LT(Page) *page)
{
#if LT_BITS < 64
	return page->base;
#else
	(void) page;
	return 0;
#endif
}

static inline HtEntry
LT(entry)(const LT(Block) *block, int slot)
{
	HtEntry		entry = {block->keys[slot], load_tid(block->tids, slot, LT_TID)};

	return entry;
}

/*
 * The number of entries in a block.  A damaged page's count must not lead beyond the
 * block.
 */
static inline int
LT(used)(const LT(Block) *block)
{
	return block->count < LT_SLOTS ? block->count : LT_SLOTS;
}

/* Is entry a of a block below entry b? */
static inline bool
LT(below)(const LT(Block) *block, int a, int b)
{
	if (block->keys[a] != block->keys[b])
		return block->keys[a] < block->keys[b];
	return load_tid(block->tids, a, LT_TID) < load_tid(block->tids, b, LT_TID);
}

/* ----------------------------------------------------------------
 *		Searching
 * ----------------------------------------------------------------
 */

/*
 * The first block that can hold a key: the number of separators below it.  The loops
 * have constant bounds and no branches, so that the compiler can unroll or vectorise
 * them.  On a damaged page, too, the result must be on the page.
 */
static inline int
LT(first_block)(const LT(Page) *page, LT_KEY key)
{
	const LT_KEY *separators;
	int			line = 0;
	int			n = 0;

	for (int i = 0; i < LT_PIVOTS; i++)
		line += page->pivots[i] < key;

	separators = &page->separators[line * LT_LINE];
	for (int i = 0; i < LT_LINE; i++)
		n += separators[i] < key;

	n += line * LT_LINE;
	return n < LT_BLOCKS ? n : LT_BLOCKS - 1;
}

/* The last block that can hold a key. */
static inline int
LT(last_block)(const LT(Page) *page, LT_KEY key)
{
	return key == LT_KEY_MAX ? LT_BLOCKS - 1 : LT(first_block)(page, (LT_KEY) (key + 1));
}

/* The slots of the lowest and of the greatest entry of a block that is not empty. */
static inline int
LT(lowest_slot)(const LT(Block) *block)
{
	int			slot = 0;

	for (int i = 1; i < LT(used)(block); i++)
		if (LT(below)(block, i, slot))
			slot = i;
	return slot;
}

static inline int
LT(greatest_slot)(const LT(Block) *block)
{
	int			slot = 0;

	for (int i = 1; i < LT(used)(block); i++)
		if (LT(below)(block, slot, i))
			slot = i;
	return slot;
}

static inline HtEntry
LT(lowest)(const LT(Block) *block)
{
	return LT(entry)(block, LT(lowest_slot)(block));
}

static inline HtEntry
LT(greatest)(const LT(Block) *block)
{
	return LT(entry)(block, LT(greatest_slot)(block));
}

/* Does the block have an entry that is not above the given entry? */
static inline bool
LT(begins_before)(const LT(Block) *block, HtEntry entry)
{
	LT_KEY		key = (LT_KEY) entry.key;
	bool		found = false;

	for (int i = 0; i < LT(used)(block); i++)
		found |= (block->keys[i] < key) |
			((block->keys[i] == key) & (load_tid(block->tids, i, LT_TID) <= entry.tid));
	return found;
}

/*
 * The block that an entry is in, or belongs in.  Separators decide, unless one equals
 * the key.  In that case the entry belongs in the last block whose lowest entry is not
 * above it; empty blocks do not count.
 */
static inline int
LT(find_block)(const LT(Page) *page, HtEntry entry)
{
	LT_KEY		key = (LT_KEY) entry.key;
	int			found = LT(first_block)(page, key);
	int			low;
	int			high;

	if (page->separators[found] > key)
		return found;

	low = found;
	high = LT(last_block)(page, key);
	while (low <= high)
	{
		int			middle = (low + high) / 2;
		int			used = middle;

		while (used <= high && page->blocks[used].count == 0)
			used++;
		if (used <= high && LT(begins_before)(&page->blocks[used], entry))
		{
			found = used;
			low = used + 1;
		}
		else
			high = middle - 1;
	}
	return found;
}

/*
 * The entries of a block with a key in low..high, as a set of slots.  Slots beyond the
 * count are not included.
 */
static inline uint32_t
LT(find_keys)(const LT(Block) *block, LT_KEY low, LT_KEY high)
{
	LT_KEY		span = (LT_KEY) (high - low);
	LT_SET		found = 0;
	LT_KEY		keys[LT_LANES];

	memcpy(keys, block, sizeof(keys));
	for (int i = 0; i < LT_LANES; i++)
		found |= (LT_KEY) (keys[i] - low) <= span ? (LT_SET) 1 << i : 0;
	return (uint32_t) found & slots_below(LT(used)(block));
}

/* Does a block hold an entry? */
static inline bool
LT(holds)(const LT(Block) *block, HtEntry entry)
{
	uint32_t	found = LT(find_keys)(block, (LT_KEY) entry.key, (LT_KEY) entry.key);

	for (; found != 0; found &= found - 1)
		if (load_tid(block->tids, __builtin_ctz(found), LT_TID) == entry.tid)
			return true;
	return false;
}

/* ----------------------------------------------------------------
 *		Changing blocks and separators
 * ----------------------------------------------------------------
 */

/* Set a separator, and its pivot if it has one. */
static inline void
LT(set_separator)(LT(Page) *page, int i, LT_KEY key, HtLeafChange *change)
{
	if (page->separators[i] == key)
		return;
	page->separators[i] = key;
	if (i % LT_LINE == LT_LINE - 1)
		page->pivots[i / LT_LINE] = key;
	change->separators |= UINT64_C(1) << i;
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

/*
 * Correct separators first..last - 1, so that each is between the blocks around it.
 * None of these blocks is empty.  Separators that are correct stay as they are, because
 * changes have to be logged.
 */
static inline void
LT(reset_separators)(LT(Page) *page, int first, int last, HtLeafChange *change)
{
	for (int i = first; i < last; i++)
	{
		const LT(Block) *block = &page->blocks[i];
		LT_KEY		low = 0;
		LT_KEY		high = LT_KEY_MAX;

		for (int j = 0; j < LT(used)(block); j++)
			low = block->keys[j] > low ? block->keys[j] : low;
		block++;
		for (int j = 0; j < LT(used)(block); j++)
			high = block->keys[j] < high ? block->keys[j] : high;

		if (page->separators[i] < low || page->separators[i] > high)
			LT(set_separator)(page, i, LT(between)(low, high), change);
	}
}

/* Write an entry into a slot. */
static inline void
LT(put)(LT(Page) *page, int b, int slot, HtEntry entry, HtLeafChange *change)
{
	LT(Block)  *block = &page->blocks[b];

	block->keys[slot] = (LT_KEY) entry.key;
	store_tid(block->tids, slot, entry.tid, LT_TID);
	mark_slot(change, b, slot);
}

/* Add an entry to a block that has a free slot. */
static inline void
LT(append)(LT(Page) *page, int b, HtEntry entry, HtLeafChange *change)
{
	LT(put)(page, b, page->blocks[b].count++, entry, change);
	mark_count(change, b);
}

/* Replace the entry in a slot.  Returns the old one. */
static inline HtEntry
LT(exchange)(LT(Page) *page, int b, int slot, HtEntry entry, HtLeafChange *change)
{
	HtEntry		former = LT(entry)(&page->blocks[b], slot);

	LT(put)(page, b, slot, entry, change);
	return former;
}

/* ----------------------------------------------------------------
 *		Whole pages
 * ----------------------------------------------------------------
 */

static inline void
LT(init_separators)(LT(Page) *page)
{
	memset(page->pivots, 0xFF, sizeof(page->pivots));
	memset(page->separators, 0xFF, sizeof(page->separators));
}

/* Write what a leaf says of itself: the line before the separators, apart from pivots. */
static inline void
LT(set_shape)(LT(Page) *page, HtLeafShape shape)
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

static void
LT(init)(void *at, HtLeafShape shape)
{
	LT(Page)   *page = at;

	LT(set_shape)(page, shape);
	LT(init_separators)(page);
	memset(page->blocks, 0, sizeof(page->blocks));
}

static int
LT(count)(const void *at)
{
	const		LT(Page) *page = at;
	int			n = 0;

	for (int b = 0; b < LT_BLOCKS; b++)
		n += LT(used)(&page->blocks[b]);
	return n;
}

/* Copy out, in order, the entries of a block with a key in low..high. */
static inline int
LT(read_keys)(const LT(Block) *block, LT_KEY low, LT_KEY high, HtEntry *out)
{
	uint32_t	found = LT(find_keys)(block, low, high);
	int			n = 0;

	for (; found != 0; found &= found - 1)
		out[n++] = LT(entry)(block, __builtin_ctz(found));
	sort_entries(out, n);
	return n;
}

/* The slots below the count whose key is not above that of the slot before. */
static inline uint32_t
LT(descents)(const LT(Block) *block)
{
	LT_SET		found = 0;

	for (int i = 0; i < LT_SLOTS - 1; i++)
		found |= block->keys[i] >= block->keys[i + 1] ? (LT_SET) 2 << i : 0;
	return (uint32_t) found & slots_below(LT(used)(block));
}

/*
 * The same as read_keys(), for a block that should have no other keys.  If it has
 * others, the page is damaged; they are neither returned nor written to out, where
 * there may be no room.
 *
 * The rank of an entry is the number of smaller keys.  Counting them is faster than
 * sorting, because no branch depends on keys.  The same holds for the test whether a
 * block is in order, as are the blocks of a page that was just filled.  Equal keys get
 * the same rank; then the tids have to be compared.
 */
static inline int
LT(read_block)(const LT(Block) *block, LT_KEY low, LT_KEY high, HtEntry *out)
{
	int			count = LT(used)(block);
	uint32_t	ranks = 0;

	if (LT(descents)(block) == 0)
	{
		if (count > 0 && (block->keys[0] < low || block->keys[count - 1] > high))
			return LT(read_keys)(block, low, high, out);
		for (int i = 0; i < count; i++)
			out[i] = LT(entry)(block, i);
		return count;
	}

	if (LT(find_keys)(block, low, high) != slots_below(count))
		return LT(read_keys)(block, low, high, out);
	for (int i = 0; i < count; i++)
	{
		int			rank = 0;

		for (int j = 0; j < count; j++)
			rank += block->keys[j] < block->keys[i];
		out[rank] = LT(entry)(block, i);
		ranks |= UINT32_C(1) << rank;
	}
	if (ranks != slots_below(count))
		return LT(read_keys)(block, low, high, out);
	return count;
}

static int
LT(read_stored)(const LT(Page) *page, HtEntry *out)
{
	int			n = 0;

	for (int b = 0; b < LT_BLOCKS; b++)
		n += LT(read_block)(&page->blocks[b], 0, LT_KEY_MAX, out + n);
	return n;
}

static HtEntry
LT(entry_at)(const void *at, int block, int slot)
{
	const		LT(Page) *page = at;
	HtEntry		entry = LT(entry)(&page->blocks[block], slot);

	entry.key += LT(base)(page);
	return entry;
}

/* Turn stored keys into keys. */
static inline void
LT(add_base)(const LT(Page) *page, HtEntry *entries, int n)
{
	uint64_t	base = LT(base)(page);

	if (base == 0)
		return;
	for (int i = 0; i < n; i++)
		entries[i].key += base;
}

static int
LT(read)(const void *at, HtEntry *out)
{
	int			n = LT(read_stored)(at, out);

	LT(add_base)(at, out, n);
	return n;
}

/*
 * Write entries to all blocks of the page; their keys have "base" added to what is
 * stored.  Empty blocks at the start get the minimum as separator.  So an entry below all others finds the first used block and, if that
 * is full, the empty one before it: descending inserts then fill the page as ascending
 * ones do.
 */
static void
LT(write)(LT(Page) *page, const HtEntry *entries, int n, uint64_t base, Packing packing,
		  HtLeafChange *change)
{
	int			start = 0;

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		LT(Block)  *block = &page->blocks[b];
		int			end;

		if (packing == PACK_LOW)
			end = (b + 1) * LT_SLOTS;
		else if (packing == PACK_HIGH)
			end = n - (LT_BLOCKS - 1 - b) * LT_SLOTS;
		else
			end = (n * (b + 1) + LT_BLOCKS - 1) / LT_BLOCKS;
		if (end > n)
			end = n;
		if (end < 0)
			end = 0;

		for (int i = start; i < end; i++)
		{
			HtEntry		stored = {entries[i].key - base, entries[i].tid};

			LT(put)(page, b, i - start, stored, change);
		}
		block->count = (uint8_t) (end - start);
		mark_count(change, b);
		if (b < LT_BLOCKS - 1)
			LT(set_separator)(page, b,
							  end == n ? LT_KEY_MAX :
							  end == 0 ? 0 :
							  LT(between)((LT_KEY) (entries[end - 1].key - base),
										  (LT_KEY) (entries[end].key - base)),
							  change);
		start = end;
	}
}

static void
LT(fill)(void *at, HtLeafShape shape, const HtEntry *entries, int n)
{
	LT(Page)   *page = at;
	HtLeafChange change;		/* not used */

	memset(&change, 0, sizeof(change));
	LT(set_shape)(page, shape);
	LT(init_separators)(page);
	LT(write)(page, entries, n, LT(base)(page), PACK_EVENLY, &change);
}

static int
LT(read_range)(const void *at, uint64_t low_key, uint64_t high_key, HtEntry *out)
{
	const		LT(Page) *page = at;
	uint64_t	base = LT(base)(page);
	LT_KEY		low = low_key <= base ? 0 : (LT_KEY) (low_key - base);
	LT_KEY		high = high_key - base > LT_KEY_MAX ? LT_KEY_MAX : (LT_KEY) (high_key - base);
	int			first = LT(first_block)(page, low);
	int			n = 0;

	if (low_key > high_key || high_key < base || (low_key > base && low_key - base > LT_KEY_MAX))
		return 0;

	for (int b = first; b < LT_BLOCKS; b++)
	{
		bool		last = page->separators[b] > high;

		if (b == first || last)
			n += LT(read_keys)(&page->blocks[b], low, high, out + n);
		else
			n += LT(read_block)(&page->blocks[b], low, high, out + n);
		if (last)
			break;
	}
	LT(add_base)(page, out, n);
	return n;
}

/* ----------------------------------------------------------------
 *		Inserting and removing
 * ----------------------------------------------------------------
 */

static HtInsertResult LT(insert_or_rebalance)(LT(Page) *page, HtEntry entry,
											  bool may_rebalance, HtLeafChange *change);

/* Write all entries of the page again, packed differently. */
static void
LT(rebalance)(LT(Page) *page, Packing packing, HtLeafChange *change)
{
	HtEntry		entries[LT_BLOCKS * LT_SLOTS];
	int			n = LT(read_stored)(page, entries);

	LT(write)(page, entries, n, 0, packing, change);
}

/*
 * Insert an entry that belongs in a full block.
 *
 * The nearest block with a free slot takes an entry.  Each full block on the way
 * passes on its greatest entry to the right, or its lowest entry to the left, and puts the
 * entry that it gets into the slot that became free.  So such a block has to log only
 * one slot.
 *
 * If the free slot is far away although there are many, or if the page is being filled
 * from one end, later inserts would go as far or farther.  Rewriting the page costs as
 * much as a few of them.  Do it only once: if it does not help, the page is damaged.
 */
static HtInsertResult
LT(insert_into_full)(LT(Page) *page, int b, HtEntry entry, bool may_rebalance,
					 HtLeafChange *change)
{
	const LT(Block) *block = &page->blocks[b];
	bool		first = ht_entry_cmp(entry, LT(lowest)(block)) < 0;
	bool		last = ht_entry_cmp(entry, LT(greatest)(block)) > 0;
	Packing		packing = b == 0 && first ? PACK_HIGH :
		b == LT_BLOCKS - 1 && last ? PACK_LOW : PACK_EVENLY;
	int			room = -1;

	/*
	 * At the end of a block the entry can also go to the start of the next one.  This
	 * is also what makes ascending inserts start a new block.
	 */
	int			right = last ? b + 1 : b;
	int			left = first ? b - 1 : b;

	for (int distance = 0; room < 0; distance++)
	{
		if (right + distance >= LT_BLOCKS && left - distance < 0)
			return HT_FULL;
		if (right + distance < LT_BLOCKS &&
			page->blocks[right + distance].count < LT_SLOTS)
			room = right + distance;
		else if (left - distance >= 0 &&
				 page->blocks[left - distance].count < LT_SLOTS)
			room = left - distance;
	}

	/* Do not move entries between blocks whose count is wrong. */
	for (int i = room < b ? room : b; i <= (room < b ? b : room); i++)
	{
		if (page->blocks[i].count > LT_SLOTS)
			return HT_FULL;
	}

	if (may_rebalance && abs(room - b) > REBALANCE_DISTANCE &&
		(packing != PACK_EVENLY || LT(count)(page) < LT_BLOCKS * LT_SLOTS * 3 / 4))
	{
		LT(rebalance)(page, packing, change);
		return LT(insert_or_rebalance)(page, entry, false, change);
	}

	for (int i = right; i < room; i++)
		entry = LT(exchange)(page, i, LT(greatest_slot)(&page->blocks[i]), entry, change);
	for (int i = left; i > room; i--)
		entry = LT(exchange)(page, i, LT(lowest_slot)(&page->blocks[i]), entry, change);
	LT(append)(page, room, entry, change);

	if (room > b)
		LT(reset_separators)(page, b, room, change);
	else
		LT(reset_separators)(page, room, b, change);
	return HT_INSERTED;
}

static HtInsertResult
LT(insert_or_rebalance)(LT(Page) *page, HtEntry entry, bool may_rebalance,
						HtLeafChange *change)
{
	int			b = LT(find_block)(page, entry);
	const LT(Block) *block = &page->blocks[b];

	if (LT(holds)(block, entry))
		return HT_PRESENT;
	if (block->count >= LT_SLOTS)
		return LT(insert_into_full)(page, b, entry, may_rebalance, change);
	LT(append)(page, b, entry, change);
	return HT_INSERTED;
}

static HtInsertResult
LT(insert)(void *at, HtEntry entry, HtLeafChange *change)
{
	LT(Page)   *page = at;
	uint64_t	base = LT(base)(page);

	if (!ht_leaf_fits(ht_leaf_shape(LT_BITS, LT_TID, base), entry))
		return HT_NO_FIT;
	entry.key -= base;
	return LT(insert_or_rebalance)(page, entry, true, change);
}

/*
 * The slots of a block whose entries are dead; dead[] is indexed by rank in the block.
 */
static inline uint32_t
LT(dead_slots)(const LT(Block) *block, const bool *dead)
{
	uint32_t	result = 0;
	int			count = LT(used)(block);

	for (int i = 0; i < count; i++)
	{
		int			rank = 0;

		for (int j = 0; j < count; j++)
			rank += LT(below)(block, j, i);
		result |= (uint32_t) dead[rank] << i;
	}
	return result;
}

/* The last entries of a block fill the holes of removed ones. */
static void
LT(remove)(void *at, const bool *dead, HtLeafChange *change)
{
	LT(Page)   *page = at;
	int			last = 0;		/* last block with entries */

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		LT(Block)  *block = &page->blocks[b];
		int			count = LT(used)(block);

		if (memchr(dead, true, count) != NULL)
		{
			uint32_t	holes = LT(dead_slots)(block, dead);
			int			end = count;

			while (holes != 0)
			{
				end--;
				if (holes >> end & 1)
					holes &= ~(UINT32_C(1) << end);
				else
				{
					LT(put)(page, b, __builtin_ctz(holes), LT(entry)(block, end), change);
					holes &= holes - 1;
				}
			}
			block->count = (uint8_t) end;
			mark_count(change, b);
		}
		dead += count;
		if (block->count > 0)
			last = b;
	}

	for (int i = last; i < LT_BLOCKS - 1; i++)
		LT(set_separator)(page, i, LT_KEY_MAX, change);
}

static int
LT(change_ranges)(const HtLeafChange *change, HtByteRange *ranges)
{
	int			n = 0;

	for (int i = 0; change->separators != 0 && i < LT_PIVOTS; i++)
		if (change->separators >> (i * LT_LINE + LT_LINE - 1) & 1)
			n = add_range(ranges, n, offsetof(LT(Page), pivots) + i * sizeof(LT_KEY),
						  sizeof(LT_KEY));

	for (uint64_t rest = change->separators; rest != 0; rest &= rest - 1)
		n = add_range(ranges, n, offsetof(LT(Page), separators) + __builtin_ctzll(rest) * sizeof(LT_KEY),
					  sizeof(LT_KEY));

	for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
	{
		int			b = __builtin_ctzll(rest);
		size_t		at = offsetof(LT(Page), blocks) + b * sizeof(LT(Block));
		size_t		tids = at + offsetof(LT(Block), tids);

		for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
			n = add_range(ranges, n, at + __builtin_ctz(slots) * sizeof(LT_KEY), sizeof(LT_KEY));
		for (uint32_t slots = change->slots[b]; slots != 0; slots &= slots - 1)
			n = add_range(ranges, n, tids + __builtin_ctz(slots) * LT_TID, LT_TID);
		if (change->counts >> b & 1)
			n = add_range(ranges, n, at + HT_LEAF_BLOCK_COUNT_AT, 1);
	}
	return n;
}

static const char *
LT(check)(const void *at)
{
	const		LT(Page) *page = at;
	HtEntry		entries[LT_SLOTS];
	HtEntry		previous = {0, 0};
	bool		any = false;	/* is there a previous entry? */
	int			used = 0;		/* number of separators with entries after them */

	for (size_t i = 0; i < sizeof(page->reserved); i++)
		if (page->reserved[i] != 0)
			return "reserved byte is not 0";

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		const LT(Block) *block = &page->blocks[b];

		if (block->count > LT_SLOTS)
			return "block count exceeds the slots of a block";
		LT(read_block)(block, 0, LT_KEY_MAX, entries);
		for (int i = 0; i < block->count; i++)
		{
			HtEntry		entry = entries[i];

			if (any && ht_entry_cmp(previous, entry) >= 0)
				return "entries are out of order, or there is a duplicate";
			if (entry.key > UINT64_MAX - LT(base)(page))
				return "key is above the greatest one";
			if (b > 0 && entry.key < page->separators[b - 1])
				return "key is below the separator before its block";
			if (entry.key > page->separators[b])
				return "key is above the separator after its block";
			previous = entry;
			any = true;
			used = b;
		}
	}

	for (int i = 1; i < LT_SEPARATORS; i++)
		if (page->separators[i] < page->separators[i - 1])
			return "separators are out of order";
	for (int i = used; i < LT_SEPARATORS; i++)
		if (page->separators[i] != LT_KEY_MAX)
			return "unused separator is not the maximum key";
	for (int i = 0; i < LT_PIVOTS; i++)
		if (page->pivots[i] != page->separators[i * LT_LINE + LT_LINE - 1])
			return "pivot differs from its separator";
	return NULL;
}

static const LeafFunctions LT(functions) =
{
	LT(init), LT(fill), LT(count), LT(entry_at), LT(read), LT(read_range), LT(insert), LT(remove),
	LT(change_ranges), LT(check)
};

#undef LT_NAME_2
#undef LT_NAME_1
#undef LT
#undef LT_KEY
#undef LT_KEY_MAX
#undef LT_SET
#undef LT_BLOCKS
#undef LT_SLOTS
#undef LT_LANES
#undef LT_SEPARATORS
#undef LT_LINE
#undef LT_LINES
#undef LT_PIVOTS
#undef LT_TID
