/*
 * leaf_template.h
 *		Leaf page operations for one key width.
 *
 * leaf.c includes this once per width, with LT_BITS defined as 32 or 64.
 * Every name is made with LT(), so that both instances live side by side.
 * The functions do what tree.h says of their ht_leaf_ namesakes.
 *
 * Two invariants go beyond what a reader of a page needs: separators never
 * descend, so that counting finds a block, and those behind the last entry are
 * at their maximum, so that an entry above all others finds the last used
 * block instead of an empty one far behind it.
 */
#define LT_NAME_2(name, bits)	name##_##bits
#define LT_NAME_1(name, bits)	LT_NAME_2(name, bits)
#define LT(name)				LT_NAME_1(name, LT_BITS)

#if LT_BITS == 32
#define LT_KEY			uint32_t
#define LT_KEY_MAX		UINT32_MAX
#define LT_BLOCKS		60
#define LT_SLOTS		12
#else
#define LT_KEY			uint64_t
#define LT_KEY_MAX		UINT64_MAX
#define LT_BLOCKS		58
#define LT_SLOTS		9
#endif

#define LT_SEPARATORS	64		/* LT_BLOCKS - 1 of them in use */
#define LT_LINE			(64 / (int) sizeof(LT_KEY)) /* keys in a cache line */
#define LT_LINES		(LT_SEPARATORS / LT_LINE)

typedef struct LT(Block)
{
	LT_KEY		keys[LT_SLOTS];
	uint8_t		tids[HT_LEAF_BLOCK_COUNT_AT - LT_SLOTS * sizeof(LT_KEY)];
	uint8_t		count;
	uint8_t		unused;
} LT(Block);

/* Pages are bytes to everyone else, hence may_alias. */
typedef struct __attribute__((may_alias)) LT(Page)
{
	uint8_t		header[HT_PAGE_START];
	LT_KEY		pivots[LT_LINE];	/* LT_LINES - 1 of them in use */
	LT_KEY		separators[LT_SEPARATORS];
	LT(Block)	blocks[LT_BLOCKS];
} LT(Page);

_Static_assert(sizeof(LT(Block)) == HT_LEAF_BLOCK_SIZE, "leaf block size");
_Static_assert(offsetof(LT(Block), count) == HT_LEAF_BLOCK_COUNT_AT, "count offset");
_Static_assert(offsetof(LT(Page), separators) == HT_LEAF_SEPARATORS_AT, "separator offset");
_Static_assert(sizeof(LT(Page)) == HT_PAGE_END, "leaf page size");
_Static_assert(LT_SLOTS * HT_TID_BYTES <= sizeof(((LT(Block) *) 0)->tids), "tids fit");

/*
 * Blocks can change in three ranges each (keys, tids, count), and every second
 * separator and pivot in one.
 */
_Static_assert(3 * LT_BLOCKS + LT_BLOCKS / 2 + (LT_LINES + 1) / 2 <= HT_LEAF_MAX_RANGES,
			   "ranges of a change");

static inline HtEntry
LT(entry)(const LT(Block) *block, int slot)
{
	HtEntry		entry = {block->keys[slot], load_tid(block->tids, slot)};

	return entry;
}

/*
 * Entries of a block.  That of a damaged page may claim any number of them,
 * which must not lead beyond the block.
 */
static inline int
LT(used)(const LT(Block) *block)
{
	return block->count < LT_SLOTS ? block->count : LT_SLOTS;
}

/* ----------------------------------------------------------------
 *		Searching
 * ----------------------------------------------------------------
 */

/*
 * The first block that can hold a key: the number of separators below it.  The
 * loops have constant bounds and no branches, for the compiler to unroll or
 * vectorise.  The pivot of the last line is its padding, never below a key,
 * unless the page is damaged: then whatever they find has to be on the page.
 */
static inline int
LT(first_block)(const LT(Page) *page, LT_KEY key)
{
	const LT_KEY *separators;
	int			line = 0;
	int			n = 0;

	for (int i = 0; i < LT_LINES; i++)
		line += page->pivots[i] < key;
	if (line >= LT_LINES)
		line = LT_LINES - 1;

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
	return key == LT_KEY_MAX ? LT_BLOCKS - 1 : LT(first_block)(page, key + 1);
}

/*
 * The block that an entry is in or belongs in.  Separators decide unless one
 * equals the key.  If so, the entry belongs in the last block that starts at
 * or below it; empty blocks have no say.
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
		if (used <= high && ht_entry_cmp(LT(entry)(&page->blocks[used], 0), entry) <= 0)
		{
			found = used;
			low = used + 1;
		}
		else
			high = middle - 1;
	}
	return found;
}

/* Keys of a block below a key; what lies beyond the count is stale. */
static inline int
LT(count_below)(const LT(Block) *block, LT_KEY key)
{
	int			count = block->count;
	int			n = 0;

	for (int i = 0; i < LT_SLOTS; i++)
		n += (block->keys[i] < key) & (i < count);
	return n;
}

/* Entries of a block below an entry. */
static inline int
LT(find_slot)(const LT(Block) *block, HtEntry entry)
{
	int			slot = LT(count_below)(block, (LT_KEY) entry.key);

	while (slot < LT(used)(block) && block->keys[slot] == (LT_KEY) entry.key &&
		   load_tid(block->tids, slot) < entry.tid)
		slot++;
	return slot;
}

/* ----------------------------------------------------------------
 *		Changing blocks and separators
 * ----------------------------------------------------------------
 */

/* Set a separator and the pivot that repeats it, if there is one. */
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
 * A separator for two keys next to each other.  Where there is a key between
 * them it is that, because who looks for a key that equals a separator has to
 * look into both blocks.
 */
static inline LT_KEY
LT(between)(LT_KEY low, LT_KEY high)
{
	return low + (high - low) / 2;
}

/* Set separators first..last - 1; the blocks around them are not empty. */
static inline void
LT(reset_separators)(LT(Page) *page, int first, int last, HtLeafChange *change)
{
	for (int i = first; i < last; i++)
	{
		const LT(Block) *block = &page->blocks[i];

		LT(set_separator)(page, i,
						  LT(between)(block->keys[block->count - 1],
									  page->blocks[i + 1].keys[0]),
						  change);
	}
}

/* Put an entry into a slot of a block that has room. */
static inline void
LT(put)(LT(Page) *page, int b, int slot, HtEntry entry, HtLeafChange *change)
{
	LT(Block)  *block = &page->blocks[b];
	int			above = block->count - slot;

	memmove(&block->keys[slot + 1], &block->keys[slot], above * sizeof(LT_KEY));
	memmove(tid_at(block->tids, slot + 1), tid_at(block->tids, slot), above * HT_TID_BYTES);
	block->keys[slot] = (LT_KEY) entry.key;
	store_tid(block->tids, slot, entry.tid);
	block->count++;
	mark_slots(change, b, slot, block->count);
}

/* Move the last n entries of block b to the front of the next one. */
static void
LT(move_right)(LT(Page) *page, int b, int n, HtLeafChange *change)
{
	LT(Block)  *from = &page->blocks[b];
	LT(Block)  *to = &page->blocks[b + 1];

	memmove(&to->keys[n], &to->keys[0], to->count * sizeof(LT_KEY));
	memmove(tid_at(to->tids, n), to->tids, to->count * HT_TID_BYTES);
	from->count -= n;
	to->count += n;
	memcpy(&to->keys[0], &from->keys[from->count], n * sizeof(LT_KEY));
	memcpy(to->tids, tid_at(from->tids, from->count), n * HT_TID_BYTES);
	mark_slots(change, b, 0, 0);
	mark_slots(change, b + 1, 0, to->count);
}

/* Move the first n entries of block b to the end of the previous one. */
static void
LT(move_left)(LT(Page) *page, int b, int n, HtLeafChange *change)
{
	LT(Block)  *from = &page->blocks[b];
	LT(Block)  *to = &page->blocks[b - 1];

	memcpy(&to->keys[to->count], &from->keys[0], n * sizeof(LT_KEY));
	memcpy(tid_at(to->tids, to->count), from->tids, n * HT_TID_BYTES);
	to->count += n;
	from->count -= n;
	memmove(&from->keys[0], &from->keys[n], from->count * sizeof(LT_KEY));
	memmove(from->tids, tid_at(from->tids, n), from->count * HT_TID_BYTES);
	mark_slots(change, b - 1, to->count - n, to->count);
	mark_slots(change, b, 0, from->count);
}

/* ----------------------------------------------------------------
 *		Whole pages
 * ----------------------------------------------------------------
 */

static void
LT(init)(LT(Page) *page)
{
	memset(page->pivots, 0xFF, sizeof(page->pivots));
	memset(page->separators, 0xFF, sizeof(page->separators));
	memset(page->blocks, 0, sizeof(page->blocks));
}

static int
LT(count)(const LT(Page) *page)
{
	int			n = 0;

	for (int b = 0; b < LT_BLOCKS; b++)
		n += LT(used)(&page->blocks[b]);
	return n;
}

static int
LT(read)(const LT(Page) *page, HtEntry *out)
{
	int			n = 0;

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		const LT(Block) *block = &page->blocks[b];

		for (int i = 0; i < LT(used)(block); i++)
			out[n++] = LT(entry)(block, i);
	}
	return n;
}

/*
 * Make these the entries of the page.  Empty blocks in front get the minimum
 * for separators, so that an entry below all others finds the first used block
 * and, if that is full, the empty one before it: descending inserts then fill
 * the page as ascending ones do.
 */
static void
LT(write)(LT(Page) *page, const HtEntry *entries, int n, Layout layout, HtLeafChange *change)
{
	int			start = 0;

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		LT(Block)  *block = &page->blocks[b];
		int			end;

		if (layout == LAYOUT_LOW)
			end = (b + 1) * LT_SLOTS;
		else if (layout == LAYOUT_HIGH)
			end = n - (LT_BLOCKS - 1 - b) * LT_SLOTS;
		else
			end = (n * (b + 1) + LT_BLOCKS - 1) / LT_BLOCKS;
		if (end > n)
			end = n;
		if (end < 0)
			end = 0;

		for (int i = start; i < end; i++)
		{
			block->keys[i - start] = (LT_KEY) entries[i].key;
			store_tid(block->tids, i - start, entries[i].tid);
		}
		block->count = (uint8_t) (end - start);
		mark_slots(change, b, 0, block->count);
		if (b < LT_BLOCKS - 1)
			LT(set_separator)(page, b,
							  end == n ? LT_KEY_MAX :
							  end == 0 ? 0 :
							  LT(between)((LT_KEY) entries[end - 1].key,
										  (LT_KEY) entries[end].key),
							  change);
		start = end;
	}
}

static void
LT(fill)(LT(Page) *page, const HtEntry *entries, int n)
{
	HtLeafChange change;		/* everything, so nobody asks */

	memset(&change, 0, sizeof(change));
	LT(init)(page);
	LT(write)(page, entries, n, LAYOUT_SPREAD, &change);
}

static int
LT(read_range)(const LT(Page) *page, LT_KEY low, LT_KEY high, HtEntry *out)
{
	int			b = LT(first_block)(page, low);
	int			n = 0;

	/* Only the first block can hold keys below the range. */
	for (int i = LT(count_below)(&page->blocks[b], low);; i = 0)
	{
		const LT(Block) *block = &page->blocks[b];

		for (; i < LT(used)(block); i++)
		{
			if (block->keys[i] > high)
				return n;

			/* On a damaged page; else it would be returned for two ranges. */
			if (block->keys[i] < low)
				continue;
			out[n++] = LT(entry)(block, i);
		}
		if (page->separators[b] > high || ++b == LT_BLOCKS)
			return n;
	}
}

/* ----------------------------------------------------------------
 *		Inserting and removing
 * ----------------------------------------------------------------
 */

static HtInsertResult LT(insert)(LT(Page) *page, HtEntry entry, HtLeafChange *change);

/* Lay out the entries of the page anew. */
static void
LT(rebalance)(LT(Page) *page, Layout layout, HtLeafChange *change)
{
	HtEntry		entries[LT_BLOCKS * LT_SLOTS];
	int			n = LT(read)(page, entries);

	LT(write)(page, entries, n, layout, change);
}

/*
 * Insert an entry whose place is a slot of a full block.
 *
 * The nearest block with room gives it, and the full blocks between pass
 * entries on.  They are rewritten anyway, so it costs nothing to pass more
 * than one and save later inserts the trouble: half of the free slots, or all
 * of them at the ends of the page, where the next entry is likely to come to
 * the same place.
 *
 * If room is far away although there is plenty, or the page is being filled
 * from an end, later inserts would go as far or farther.  Laying out the page
 * anew costs as much as a few of them.
 */
static HtInsertResult
LT(insert_into_full)(LT(Page) *page, int b, int slot, HtEntry entry, HtLeafChange *change)
{
	Layout		layout = b == 0 && slot == 0 ? LAYOUT_HIGH :
		b == LT_BLOCKS - 1 && slot == LT_SLOTS ? LAYOUT_LOW : LAYOUT_SPREAD;
	int			room = -1;
	int			target;
	int			n;

	/*
	 * The end of a block is as good a place as the start of the next one.
	 * This is also what makes ascending inserts start a new block.
	 */
	int			right = slot == LT_SLOTS ? b + 1 : b;
	int			left = slot == 0 ? b - 1 : b;

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

	/* Entries are moved only between blocks that say the truth. */
	for (int i = room < b ? room : b; i <= (room < b ? b : room); i++)
	{
		if (page->blocks[i].count > LT_SLOTS)
			return HT_FULL;
	}

	if (abs(room - b) > REBALANCE_DISTANCE &&
		(layout != LAYOUT_SPREAD || LT(count)(page) < LT_BLOCKS * LT_SLOTS * 3 / 4))
	{
		LT(rebalance)(page, layout, change);
		return LT(insert)(page, entry, change);
	}

	n = LT_SLOTS - page->blocks[room].count;
	if (layout == LAYOUT_SPREAD)
		n = (n + 1) / 2;

	if (room >= right)
	{
		target = right;
		if (target != b)
			slot = 0;
		if (n > LT_SLOTS - slot)
			n = LT_SLOTS - slot;
		for (int i = room; i > target; i--)
			LT(move_right)(page, i - 1, n, change);
	}
	else
	{
		target = left;
		if (target != b)
			slot = page->blocks[target].count;
		if (room < target)
		{
			if (n > slot)
				n = slot;
			for (int i = room; i < target; i++)
				LT(move_left)(page, i + 1, n, change);
			slot -= n;
		}
	}

	LT(put)(page, target, slot, entry, change);
	if (room > b)
		LT(reset_separators)(page, b, room, change);
	else
		LT(reset_separators)(page, room, b, change);
	return HT_INSERTED;
}

static HtInsertResult
LT(insert)(LT(Page) *page, HtEntry entry, HtLeafChange *change)
{
	int			b = LT(find_block)(page, entry);
	const LT(Block) *block = &page->blocks[b];
	int			slot = LT(find_slot)(block, entry);

	if (slot < LT(used)(block) && ht_entry_cmp(LT(entry)(block, slot), entry) == 0)
		return HT_PRESENT;
	if (block->count >= LT_SLOTS)
		return LT(insert_into_full)(page, b, slot, entry, change);
	LT(put)(page, b, slot, entry, change);
	return HT_INSERTED;
}

static void
LT(remove)(LT(Page) *page, const bool *dead, HtLeafChange *change)
{
	int			last = 0;		/* last block with entries */

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		LT(Block)  *block = &page->blocks[b];
		int			count = LT(used)(block);
		int			first = LT_SLOTS;
		int			n = 0;

		for (int i = 0; i < count; i++)
		{
			if (dead[i])
			{
				if (first == LT_SLOTS)
					first = i;
				continue;
			}
			if (n < i)
			{
				block->keys[n] = block->keys[i];
				store_tid(block->tids, n, load_tid(block->tids, i));
			}
			n++;
		}
		dead += count;
		if (n < count)
		{
			block->count = (uint8_t) n;
			mark_slots(change, b, first, n);
		}
		if (n > 0)
			last = b;
	}

	for (int i = last; i < LT_BLOCKS - 1; i++)
		LT(set_separator)(page, i, LT_KEY_MAX, change);
}

static int
LT(change_ranges)(const HtLeafChange *change, HtByteRange *ranges)
{
	int			n = 0;

	for (int i = 0; i < LT_LINES - 1; i++)
		if (change->separators >> (i * LT_LINE + LT_LINE - 1) & 1)
			n = add_range(ranges, n, offsetof(LT(Page), pivots) + i * sizeof(LT_KEY),
						  sizeof(LT_KEY));

	for (int i = 0; i < LT_BLOCKS - 1; i++)
		if (change->separators >> i & 1)
			n = add_range(ranges, n, offsetof(LT(Page), separators) + i * sizeof(LT_KEY),
						  sizeof(LT_KEY));

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		size_t		at = offsetof(LT(Page), blocks) + b * sizeof(LT(Block));
		int			first = change->first[b];
		int			slots = change->end[b] - first;

		if (!(change->blocks >> b & 1))
			continue;
		if (slots > 0)
		{
			n = add_range(ranges, n, at + first * sizeof(LT_KEY), slots * sizeof(LT_KEY));
			n = add_range(ranges, n,
						  at + offsetof(LT(Block), tids) + first * HT_TID_BYTES,
						  slots * HT_TID_BYTES);
		}
		n = add_range(ranges, n, at + HT_LEAF_BLOCK_COUNT_AT, 1);
	}
	return n;
}

static const char *
LT(check)(const LT(Page) *page)
{
	HtEntry		previous = {0, 0};
	bool		any = false;	/* is there a previous entry? */
	int			used = 0;		/* separators that have entries behind them */

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		const LT(Block) *block = &page->blocks[b];

		if (block->count > LT_SLOTS)
			return "block count exceeds the slots of a block";
		for (int i = 0; i < block->count; i++)
		{
			HtEntry		entry = LT(entry)(block, i);

			if (any && ht_entry_cmp(previous, entry) >= 0)
				return "entries are out of order";
			if (b > 0 && entry.key < page->separators[b - 1])
				return "key is below the separator before its block";
			if (entry.key > page->separators[b])
				return "key is above the separator behind its block";
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
			return "unused separator is not at its maximum";
	for (int i = 0; i < LT_LINE; i++)
	{
		LT_KEY		expected = i < LT_LINES - 1 ?
			page->separators[i * LT_LINE + LT_LINE - 1] : LT_KEY_MAX;

		if (page->pivots[i] != expected)
			return "pivot differs from its separator";
	}
	return NULL;
}

#undef LT_NAME_2
#undef LT_NAME_1
#undef LT
#undef LT_KEY
#undef LT_KEY_MAX
#undef LT_BLOCKS
#undef LT_SLOTS
#undef LT_SEPARATORS
#undef LT_LINE
#undef LT_LINES
#undef LT_BITS
