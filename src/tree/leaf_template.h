/*
 * leaf_template.h
 *		Leaf page operations for one shape of leaves.
 *
 * leaf.c and leaf_wide.c include this once for each shape, with LT_BITS (the class), LT_TID
 * (the bytes of a tid: 4, 5 or 6) and LT_WIDE (0: a class that stores key after key, leaf_flat.h,
 * or class 0, which stores none, leaf_single.h; 1: one that stores keys in planes, leaf_planes.h)
 * defined.  Every name is made with LT(), so that all instances can exist side by side.  The
 * functions do what tree.h says about the ht_leaf_ functions of the same name.  Inside of them keys
 * are as they are stored: less the leaf's base. LT_ENTRY is an entry with such a key, which has
 * HT_KEYS bits in memory (key_macros.h).
 *
 * Two invariants are not needed by readers, but by inserts.  Separators never descend,
 * so that counting finds a block.  Separators after the last entry have the maximum
 * value, so that an entry above all others finds the last used block, not an empty
 * block far behind it.
 */
#define LT_NAME_2(name, bits, tid) name##_##bits##_##tid
#define LT_NAME_1(name, bits, tid) LT_NAME_2(name, bits, tid)
#if LT_WIDE
#define LT_CLASS_2(bits) w##bits
#define LT_CLASS_1(bits) LT_CLASS_2(bits)
#define LT(name) LT_NAME_1(name, LT_CLASS_1(LT_BITS), LT_TID)
#else
#define LT(name) LT_NAME_1(name, LT_BITS, LT_TID)
#endif

#if LT_BITS <= 64
#define HT_KEYS 64
#else
#define HT_KEYS 128
#endif
#include "key_macros.h"

#define LT_ENTRY HT_ENTRY
#define LT_CMP HT_KEYED(ht_entry_cmp)

/* How keys are stored. */
#if LT_WIDE
#include "leaf_planes.h"
#elif LT_BITS == 0
#include "leaf_single.h"
#else
#include "leaf_flat.h"
#endif

static ALWAYS_INLINE LT_ENTRY
LT(entry)(const LT(Block) * block, int slot)
{
	LT_ENTRY entry = {LT(key)(block, slot), load_tid(block->tids, slot, LT_TID)};

	return entry;
}

/*
 * The number of entries in a block.  A damaged page's count must not lead beyond the
 * block.
 */
static inline int
LT(used)(const LT(Block) * block)
{
	return block->count < LT_SLOTS ? block->count : LT_SLOTS;
}

/* Is entry a of a block below entry b? */
static inline bool
LT(below)(const LT(Block) * block, int a, int b)
{
	if (LT(key)(block, a) != LT(key)(block, b))
		return LT(key)(block, a) < LT(key)(block, b);
	return load_tid(block->tids, a, LT_TID) < load_tid(block->tids, b, LT_TID);
}

/* ----------------------------------------------------------------
 *		Searching
 * ----------------------------------------------------------------
 */

/* The last block that can hold a key. */
static inline int
LT(last_block)(const LT(Page) * page, LT_KEY key)
{
	return key == LT_KEY_MAX ? LT_BLOCKS - 1 : LT(first_block)(page, LT_STORED(key + 1));
}

/* The slots of the lowest and of the greatest entry of a block that is not empty. */
static inline int
LT(lowest_slot)(const LT(Block) * block)
{
	int slot = 0;

	for (int i = 1; i < LT(used)(block); i++)
		if (LT(below)(block, i, slot))
			slot = i;
	return slot;
}

static inline int
LT(greatest_slot)(const LT(Block) * block)
{
	int slot = 0;

	for (int i = 1; i < LT(used)(block); i++)
		if (LT(below)(block, slot, i))
			slot = i;
	return slot;
}

static inline LT_ENTRY
LT(lowest)(const LT(Block) * block)
{
	return LT(entry)(block, LT(lowest_slot)(block));
}

static inline LT_ENTRY
LT(greatest)(const LT(Block) * block)
{
	return LT(entry)(block, LT(greatest_slot)(block));
}

/*
 * Does the block have an entry that is not above the given entry?  Its first slot often has one,
 * because TIDs ascend, as a rule.
 */
static inline bool
LT(begins_before)(const LT(Block) * block, LT_ENTRY entry)
{
	LT_KEY key = LT_STORED(entry.key);
	bool found = false;

	if (LT(used)(block) > 0 && LT_CMP(LT(entry)(block, 0), entry) <= 0)
		return true;
	for (int i = 1; i < LT(used)(block); i++)
		found |= (int) (LT(key)(block, i) < key) |
				 ((int) (LT(key)(block, i) == key) &
				  (int) (load_tid(block->tids, i, LT_TID) <= entry.tid));
	return found;
}

/*
 * The block that an entry is in, or belongs in.  Separators decide, unless one equals
 * the key.  In that case the entry belongs in the last block whose lowest entry is not
 * above it; empty blocks do not count.
 */
static inline int
LT(find_block)(const LT(Page) * page, LT_ENTRY entry)
{
	LT_KEY key = LT_STORED(entry.key);
	int found = LT(first_block)(page, key);
	int low;
	int high;

	if (key < LT(separator)(page, found))
		return found;

	low = found;
	high = LT(last_block)(page, key);
	while (low <= high)
	{
		int middle = (low + high) / 2;
		int used = middle;

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
LT(find_keys)(const LT(Block) * block, LT_KEY low, LT_KEY high)
{
	return LT(match_keys)(block, low, high) & slots_below(LT(used)(block));
}

/* Does a block hold an entry? */
static inline bool
LT(holds)(const LT(Block) * block, LT_ENTRY entry)
{
	uint32_t found = LT(find_keys)(block, LT_STORED(entry.key), LT_STORED(entry.key));

	for (; found != 0; found &= found - 1)
		if (load_tid(block->tids, __builtin_ctz(found), LT_TID) == entry.tid)
			return true;
	return false;
}

/* ----------------------------------------------------------------
 *		Changing blocks and separators
 * ----------------------------------------------------------------
 */

static inline void
LT(set_separator)(LT(Page) * page, int i, LT_KEY key, HtLeafChange *change)
{
	if (LT(separator)(page, i) == key)
		return;
	LT(put_separator)(page, i, key);
	change->separators |= UINT64_C(1) << i;
}

/*
 * Correct separators first..last - 1, so that each is between the blocks around it.
 * None of these blocks is empty.  Separators that are correct stay as they are, because
 * changes have to be logged.
 */
static inline void
LT(reset_separators)(LT(Page) * page, int first, int last, HtLeafChange *change)
{
	for (int i = first; i < last; i++)
	{
		const LT(Block) *block = &page->blocks[i];
		LT_KEY low = 0;
		LT_KEY high = LT_KEY_MAX;

		for (int j = 0; j < LT(used)(block); j++)
			low = low < LT(key)(block, j) ? LT(key)(block, j) : low;
		block++;
		for (int j = 0; j < LT(used)(block); j++)
			high = LT(key)(block, j) < high ? LT(key)(block, j) : high;

		if (LT(separator)(page, i) < low || high < LT(separator)(page, i))
			LT(set_separator)(page, i, LT(between)(low, high), change);
	}
}

/* Write an entry into a slot. */
static inline void
LT(put)(LT(Page) * page, int b, int slot, LT_ENTRY entry, HtLeafChange *change)
{
	LT(Block) *block = &page->blocks[b];

	LT(put_key)(block, slot, LT_STORED(entry.key));
	store_tid(block->tids, slot, entry.tid, LT_TID);
	mark_slot(change, b, slot);
}

/* Add an entry to a block that has a free slot. */
static inline void
LT(append)(LT(Page) * page, int b, LT_ENTRY entry, HtLeafChange *change)
{
	LT(put)(page, b, page->blocks[b].count++, entry, change);
	mark_count(change, b);
}

/* Replace the entry in a slot.  Returns the old one. */
static inline LT_ENTRY
LT(exchange)(LT(Page) * page, int b, int slot, LT_ENTRY entry, HtLeafChange *change)
{
	LT_ENTRY former = LT(entry)(&page->blocks[b], slot);

	LT(put)(page, b, slot, entry, change);
	return former;
}

/* ----------------------------------------------------------------
 *		Whole pages
 * ----------------------------------------------------------------
 */

static void
LT(init)(void *at, HtLeafShape shape)
{
	LT(Page) *page = at;

	LT(set_shape)(page, shape);
	LT(init_separators)(page);
	memset(page->blocks, 0, sizeof(page->blocks));
}

static int
LT(count)(const void *at)
{
	const LT(Page) *page = at;
	int n = 0;

	for (int b = 0; b < LT_BLOCKS; b++)
		n += LT(used)(&page->blocks[b]);
	return n;
}

/* Copy out, in order, the entries of a block with a key in low..high, but those in "skipped". */
static inline int
LT(read_keys_but)(const LT(Block) * block, LT_KEY low, LT_KEY high, uint32_t skipped, LT_ENTRY *out)
{
	uint32_t found = LT(find_keys)(block, low, high) & ~skipped;
	int n = 0;

	for (; found != 0; found &= found - 1)
		out[n++] = LT(entry)(block, __builtin_ctz(found));
	HT_KEYED(sort_entries)(out, n);
	return n;
}

static inline int
LT(read_keys)(const LT(Block) * block, LT_KEY low, LT_KEY high, LT_ENTRY *out)
{
	return LT(read_keys_but)(block, low, high, 0, out);
}

/* The slots below the count whose key is not above that of the slot before. */
static inline uint32_t
LT(descents)(const LT(Block) * block)
{
	LT_SET found = 0;

	for (int i = 0; i < LT_SLOTS - 1; i++)
		found |= LT(key)(block, i) >= LT(key)(block, i + 1) ? (LT_SET) 2 << i : 0;
	return (uint32_t) found & slots_below(LT(used)(block));
}

/* Are the entries of a block in order?  With keys that ascend, this does not look at a TID. */
static inline bool
LT(in_order)(const LT(Block) * block)
{
	for (uint32_t rest = LT(descents)(block); rest != 0; rest &= rest - 1)
		if (!LT(below)(block, __builtin_ctz(rest) - 1, __builtin_ctz(rest)))
			return false;
	return true;
}

/*
 * The same as read_keys(), for a block that should have no other keys.  If it has
 * others, the page is damaged; they are neither returned nor written to out, where
 * there may be no room.
 *
 * The rank of an entry is the number of smaller keys.  Counting them is faster than
 * sorting, because no branch depends on keys.  The same holds for the test whether a
 * block is in order, as are the blocks of a page that was just filled.  Equal keys have
 * the same rank.  Their entries share the places from there on, mostly in the order of their
 * tids, for tids come in order, as a rule, and so do slots; then there is little left to sort.
 */
static inline int
LT(read_block)(const LT(Block) * block, LT_KEY low, LT_KEY high, LT_ENTRY *out)
{
	int count = LT(used)(block);
	LT_RANK rank[LT_RANKS];
	uint32_t ranks = 0;

	if (LT(in_order)(block))
	{
		if (count > 0 && (LT(key)(block, 0) < low || high < LT(key)(block, count - 1)))
			return LT(read_keys)(block, low, high, out);
		for (int i = 0; i < count; i++)
			out[i] = LT(entry)(block, i);
		return count;
	}

	if (LT_BITS == 0 || LT(find_keys)(block, low, high) != slots_below(count))
		return LT(read_keys)(block, low, high, out);
	LT(rank_keys)(block, count, rank);
	for (int i = 0; i < count; i++)
	{
		out[rank[i]] = LT(entry)(block, i);
		ranks |= UINT32_C(1) << rank[i];
	}
	if (ranks == slots_below(count))
		return count;

	ranks = 0;
	for (int i = 0; i < count; i++)
	{
		int place = (int) rank[i];

		while (ranks >> place & 1)
			place++;
		out[place] = LT(entry)(block, i);
		ranks |= UINT32_C(1) << place;
	}
	HT_KEYED(sort_entries)(out, count);
	return count;
}

static int
LT(read_stored)(const LT(Page) * page, int first, int last, LT_ENTRY *out)
{
	int n = 0;

	for (int b = first; b <= last; b++)
		n += LT(read_block)(&page->blocks[b], 0, LT_KEY_MAX, out + n);
	return n;
}

static LT_ENTRY
LT(entry_at)(const void *at, int block, int slot)
{
	const LT(Page) *page = at;
	LT_ENTRY entry = LT(entry)(&page->blocks[block], slot);

	entry.key += LT(base)(page);
	return entry;
}

/* Turn stored keys into keys. */
static inline void
LT(add_base)(const LT(Page) * page, LT_ENTRY *entries, int n)
{
	HT_KEY base = LT(base)(page);

	if (base == 0)
		return;
	for (int i = 0; i < n; i++)
		entries[i].key += base;
}

static int
LT(read)(const void *at, LT_ENTRY *out)
{
	int n = LT(read_stored)(at, 0, LT_BLOCKS - 1, out);

	LT(add_base)(at, out, n);
	return n;
}

/*
 * Write entries to blocks first..last of the page; their keys have "base" added to what is stored.
 * If these are not all blocks, each must get an entry.  Empty blocks at the start get the minimum
 * as separator.  So an entry below all others finds the first used block and, if that is full, the
 * empty one before it: descending inserts then fill the page as ascending ones do.
 */
static void
LT(write)(LT(Page) * page, int first, int last, const LT_ENTRY *entries, int n, HT_KEY base,
		  Packing packing, HtLeafChange *change)
{
	const int blocks = last - first + 1;
	int start = 0;

	for (int i = 0; i < blocks; i++)
	{
		int b = first + i;
		LT(Block) *block = &page->blocks[b];
		int end;

		if (packing == PACK_LOW)
			end = (i + 1) * LT_SLOTS;
		else if (packing == PACK_HIGH)
			end = n - (blocks - 1 - i) * LT_SLOTS;
		else
			end = (n * (i + 1) + blocks - 1) / blocks;
		if (end > n)
			end = n;
		if (end < 0)
			end = 0;

		for (int j = start; j < end; j++)
		{
			LT_ENTRY stored = {entries[j].key - base, entries[j].tid};

			LT(put)(page, b, j - start, stored, change);
		}
		block->count = (uint8_t) (end - start);
		mark_count(change, b);
		if (b < last)
			LT(set_separator)
		(page, b,
		 end == n ? LT_KEY_MAX :
		 end == 0 ? 0 :
					LT(between)(LT_STORED(entries[end - 1].key - base),
								LT_STORED(entries[end].key - base)),
		 change);
		start = end;
	}
}

static void
LT(fill)(void *at, HtLeafShape shape, const LT_ENTRY *entries, int n)
{
	LT(Page) *page = at;
	HtLeafChange change; /* not used */

	memset(&change, 0, sizeof(change));
	LT(set_shape)(page, shape);
	LT(init_separators)(page);
	LT(write)(page, 0, LT_BLOCKS - 1, entries, n, LT(base)(page), PACK_EVENLY, &change);
}

/*
 * Whether a block has no entries but those in "dead".  If these fill the block, nothing is read of
 * it.
 */
static inline bool
LT(has_none_but)(const LT(Block) * block, uint32_t dead)
{
	return dead == slots_below(LT_SLOTS) || (slots_below(LT(used)(block)) & ~dead) == 0;
}

/*
 * If hints is not NULL, entries that are hinted to be dead are left out.  The reading ends with the
 * block in which it has so many entries as "enough".
 */
static int
LT(read_range)(const void *at, HT_KEY low_key, HT_KEY high_key, const uint8_t *hints, int enough,
			   LT_ENTRY *out)
{
	const LT(Page) *page = at;
	HT_KEY base = LT(base)(page);
	LT_KEY low = base < low_key ? LT_STORED(low_key - base) : 0;
	LT_KEY high = LT_KEY_MAX < high_key - base ? LT_KEY_MAX : LT_STORED(high_key - base);
	int first = LT(first_block)(page, low);
	int n = 0;

	if (high_key < low_key || high_key < base || (base < low_key && LT_KEY_MAX < low_key - base))
		return 0;

	for (int b = first; b < LT_BLOCKS && n < enough; b++)
	{
		bool last = high < LT(separator)(page, b);
		uint32_t dead = hints == NULL ? 0 : ht_hints_load(hints, b * LT_SLOTS, LT_SLOTS);

		if (!LT(has_none_but)(&page->blocks[b], dead))
			n += b == first || last || dead != 0 ?
					 LT(read_keys_but)(&page->blocks[b], low, high, dead, out + n) :
					 LT(read_block)(&page->blocks[b], low, high, out + n);
		if (last)
			break;
	}
	LT(add_base)(page, out, n);
	return n;
}

/* The slot that holds an entry, counted from the page's first one on, or -1. */
static int
LT(slot)(const void *at, LT_ENTRY entry)
{
	const LT(Page) *page = at;
	HT_KEY base = LT(base)(page);
	LT_KEY key;
	int b;
	uint32_t found;

	if (entry.key < base || LT_KEY_MAX < entry.key - base)
		return -1;
	entry.key -= base;
	key = LT_STORED(entry.key);
	b = LT(find_block)(page, entry);
	found = LT(find_keys)(&page->blocks[b], key, key);
	for (; found != 0; found &= found - 1)
		if (load_tid(page->blocks[b].tids, __builtin_ctz(found), LT_TID) == entry.tid)
			return b * LT_SLOTS + __builtin_ctz(found);
	return -1;
}

/* ----------------------------------------------------------------
 *		Inserting and removing
 * ----------------------------------------------------------------
 */

static HtInsertResult LT(insert_or_rebalance)(LT(Page) * page, LT_ENTRY entry, bool may_rebalance,
											  HtLeafChange *change);

/* Write all entries of these blocks again, packed differently. */
static void
LT(rebalance)(LT(Page) * page, int first, int last, Packing packing, HtLeafChange *change)
{
	LT_ENTRY entries[LT_BLOCKS * LT_SLOTS];
	int n = LT(read_stored)(page, first, last, entries);

	LT(write)(page, first, last, entries, n, 0, packing, change);
}

/*
 * Find the blocks around b, which is full, and "room", the nearest one with a free slot, that are
 * worth writing again evenly: the fewest of which a quarter of the slots is free.  Keys that ascend
 * nearly come to the last used blocks; they get room among these, and the others stay as they are.
 *
 * If that takes all blocks, it is worth it if fewer entries are moved than if the other free slots
 * were filled by pushing entries as far.
 */
static bool
LT(find_crowded)(const LT(Page) * page, int b, int room, int *first, int *last)
{
	int distance = abs(room - b);
	int middle = (b + room) / 2;

	for (int reach = distance;; reach *= 2)
	{
		int count = 0;
		int slots;

		*first = middle < reach ? 0 : middle - reach;
		*last = middle + reach < LT_BLOCKS ? middle + reach : LT_BLOCKS - 1;
		for (int i = *first; i <= *last; i++)
			count += LT(used)(&page->blocks[i]);
		slots = (*last - *first + 1) * LT_SLOTS;
		if (*first == 0 && *last == LT_BLOCKS - 1)
			return distance * (slots - count) > count;
		if (count <= slots * 3 / 4)
			return count >= *last - *first + 1;
	}
}

/*
 * Write the page again with all free blocks behind an entry that is to come, if that is the last
 * one of the page's first key: rows that come later have greater TIDs, as a rule, so the next ones
 * with this key come behind it.  It is worth it if fewer entries are moved than if they were pushed
 * a quarter of the page's blocks, each time, until it is full.
 */
static bool
LT(keep_room_behind)(LT(Page) * page, LT_ENTRY entry, HtLeafChange *change)
{
	LT_ENTRY entries[LT_BLOCKS * LT_SLOTS];
	int first = 0;
	int below = 0;
	int n;
	int low_end;
	int high_start;

	while (first < LT_BLOCKS - 1 && page->blocks[first].count == 0)
		first++;
	if (LT(lowest)(&page->blocks[first]).key != entry.key)
		return false;

	n = LT(read_stored)(page, 0, LT_BLOCKS - 1, entries);
	while (below < n && LT_CMP(entries[below], entry) < 0)
		below++;
	if (below == 0 || below == n || entries[below].key == entry.key)
		return false;
	low_end = (below + LT_SLOTS - 1) / LT_SLOTS;
	high_start = LT_BLOCKS - (n - below + LT_SLOTS - 1) / LT_SLOTS;
	if (low_end >= high_start || (LT_BLOCKS * LT_SLOTS - n) * (LT_BLOCKS / 4) <= n)
		return false;

	LT(write)(page, 0, low_end - 1, entries, below, 0, PACK_LOW, change);
	for (int b = low_end; b < high_start; b++)
	{
		page->blocks[b].count = 0;
		mark_count(change, b);
	}
	/* Entries between both keys, too, come behind the first. */
	for (int i = low_end - 1; i < high_start; i++)
		LT(set_separator)(page, i, LT_STORED(entries[below].key), change);
	LT(write)(page, high_start, LT_BLOCKS - 1, entries + below, n - below, 0, PACK_HIGH, change);
	return true;
}

/*
 * Write entries again where one would have to be pushed far from block b, where it belongs, to
 * "room".  It comes to an end of the page if at_start or at_end is true: others will, too, and fill
 * it from there. Returns false if the entry should rather be pushed.
 */
static bool
LT(make_room)(LT(Page) * page, int b, int room, LT_ENTRY entry, bool at_start, bool at_end,
			  HtLeafChange *change)
{
	int first = 0;
	int last = LT_BLOCKS - 1;

	if (!at_start && !at_end)
	{
		if (LT(keep_room_behind)(page, entry, change))
			return true;
		if (!LT(find_crowded)(page, b, room, &first, &last))
			return false;
	}
	LT(rebalance)
	(page, first, last, at_start ? PACK_HIGH : at_end ? PACK_LOW : PACK_EVENLY, change);
	return true;
}

/*
 * Insert an entry that belongs in a full block.
 *
 * The nearest block with a free slot takes an entry.  Each full block on the way
 * passes on its greatest entry to the right, or its lowest entry to the left, and puts the
 * entry that it gets into the slot that became free.  So such a block has to log only
 * one slot.
 *
 * If the free slot is far away, later inserts would go as far or farther.  Rewriting some blocks,
 * or the page, costs as much as a few of them.  Do it only once: if it does not help, the page is
 * damaged.
 */
static HtInsertResult
LT(insert_into_full)(LT(Page) * page, int b, LT_ENTRY entry, bool may_rebalance,
					 HtLeafChange *change)
{
	const LT(Block) *block = &page->blocks[b];
	bool first = LT_CMP(entry, LT(lowest)(block)) < 0;
	bool last = LT_CMP(entry, LT(greatest)(block)) > 0;
	int room = -1;

	/*
	 * At the end of a block the entry can also go to the start of the next one.  This
	 * is also what makes ascending inserts start a new block.
	 */
	int right = last ? b + 1 : b;
	int left = first ? b - 1 : b;

	for (int distance = 0; room < 0; distance++)
	{
		if (right + distance >= LT_BLOCKS && left - distance < 0)
			return HT_FULL;
		if (right + distance < LT_BLOCKS && page->blocks[right + distance].count < LT_SLOTS)
			room = right + distance;
		else if (left - distance >= 0 && page->blocks[left - distance].count < LT_SLOTS)
			room = left - distance;
	}

	/* Do not move entries between blocks whose count is wrong. */
	for (int i = room < b ? room : b; i <= (room < b ? b : room); i++)
	{
		if (page->blocks[i].count > LT_SLOTS)
			return HT_FULL;
	}

	if (may_rebalance && abs(room - b) > REBALANCE_DISTANCE &&
		LT(make_room)(page, b, room, entry, b == 0 && first, b == LT_BLOCKS - 1 && last, change))
		return LT(insert_or_rebalance)(page, entry, false, change);

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
LT(insert_or_rebalance)(LT(Page) * page, LT_ENTRY entry, bool may_rebalance, HtLeafChange *change)
{
	int b = LT(find_block)(page, entry);
	const LT(Block) *block = &page->blocks[b];

	if (LT(holds)(block, entry))
		return HT_PRESENT;
	if (block->count >= LT_SLOTS)
		return LT(insert_into_full)(page, b, entry, may_rebalance, change);
	LT(append)(page, b, entry, change);
	return HT_INSERTED;
}

/* Subtract the base from an entry's key; false if the page cannot store that. */
static inline bool
LT(subtract_base)(const LT(Page) * page, LT_ENTRY *entry)
{
#if !LT_WIDE
	uint64_t base = LT(base)(page);

	if (!ht_leaf_fits(ht_leaf_shape(LT_BITS, LT_TID, base), *entry))
		return false;
	entry->key -= base;
#else
	(void) page;
	(void) entry;
#endif
	return true;
}

static HtInsertResult
LT(insert)(void *at, LT_ENTRY entry, HtLeafChange *change)
{
	if (!LT(subtract_base)(at, &entry))
		return HT_NO_FIT;
	return LT(insert_or_rebalance)(at, entry, true, change);
}

/* The separator after the last used block has the maximum value. */
static HtInsertResult
LT(add)(void *at, LT_ENTRY entry, int end, HtLeafChange *change)
{
	LT(Page) *page = at;
	int b;

	if (!LT(subtract_base)(page, &entry))
		return HT_NO_FIT;
	b = LT(find_block)(page, entry);
	if (LT(holds)(&page->blocks[b], entry))
		return HT_PRESENT;
	if (page->blocks[b].count >= LT_SLOTS || (b >= end && LT(separator)(page, b) == LT_KEY_MAX))
		return HT_FULL;
	LT(append)(page, b, entry, change);
	return HT_INSERTED;
}

/*
 * The slots of a block whose entries are dead; dead[] is indexed by rank in the block.
 */
static inline uint32_t
LT(dead_slots)(const LT(Block) * block, const bool *dead)
{
	uint32_t result = 0;
	int count = LT(used)(block);

	for (int i = 0; i < count; i++)
	{
		int rank = 0;

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
	LT(Page) *page = at;
	int last = 0; /* last block with entries */

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		LT(Block) *block = &page->blocks[b];
		int count = LT(used)(block);

		if (memchr(dead, true, count) != NULL)
		{
			uint32_t holes = LT(dead_slots)(block, dead);
			int end = count;

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

/* Check a page while its entries are read. */
static const char *
LT(check)(const void *at, LT_ENTRY *out, int *n)
{
	const LT(Page) *page = at;
	int used = 0; /* number of separators with entries after them */

	*n = 0;
	for (size_t i = 0; i < sizeof(page->reserved); i++)
		if (page->reserved[i] != 0)
			return "reserved byte is not 0";

	for (int b = 0; b < LT_BLOCKS; b++)
	{
		const LT(Block) *block = &page->blocks[b];

		if (block->count > LT_SLOTS)
			return "block count exceeds the slots of a block";
		LT(read_block)(block, 0, LT_KEY_MAX, out + *n);
		for (int i = 0; i < block->count; i++, (*n)++)
		{
			LT_ENTRY entry = out[*n];

			if (*n > 0 && LT_CMP(out[*n - 1], entry) >= 0)
				return "entries are out of order, or there is a duplicate";
			if (KEY_MAX - LT(base)(page) < entry.key)
				return "key is above the greatest one";
			if (b > 0 && entry.key < LT(separator)(page, b - 1))
				return "key is below the separator before its block";
			if (LT(separator)(page, b) < entry.key)
				return "key is above the separator after its block";
			used = b;
		}
	}

	for (int i = 1; i < LT_SEPARATORS; i++)
		if (LT(separator)(page, i) < LT(separator)(page, i - 1))
			return "separators are out of order";
	for (int i = used; i < LT_SEPARATORS; i++)
		if (LT(separator)(page, i) != LT_KEY_MAX)
			return "unused separator is not the maximum key";
	if (!LT(pivots_are_right)(page))
		return "pivot differs from its separator";
	LT(add_base)(page, out, *n);
	return NULL;
}

static const HT_KEYED(LeafFunctions) LT(functions) = {
	LT(init), LT(fill),   LT(count), LT(entry_at), LT(read),          LT(read_range),
	LT(slot), LT(insert), LT(add),   LT(remove),   LT(change_ranges), LT(check)};

#undef LT_NAME_2
#undef LT_NAME_1
#undef LT_CLASS_2
#undef LT_CLASS_1
#undef LT
#undef LT_ENTRY
#undef LT_CMP
#undef LT_KEY
#undef LT_KEY_MAX
#undef LT_STORED
#undef LT_SET
#undef LT_BLOCKS
#undef LT_SLOTS
#undef LT_LANES
#undef LT_RANK
#undef LT_RANKS
#undef LT_SEPARATORS
#undef LT_LINE
#undef LT_LINES
#undef LT_PIVOTS
#undef LT_WORDS
#undef LT_TAIL
#undef LT_TID
#include "key_macros_end.h"
