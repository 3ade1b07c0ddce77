/*
 * lockleaf.c
 *		Finding the leaf in which an entry belongs, to change it; and remembering it.
 *
 * A writer does not hold its segment's header while it waits for a leaf and changes it.
 * It holds the header's share lock only while it descends, and not at all if it remembers
 * the leaf.  So when it has got the leaf's exclusive lock, it has to see whether the leaf is still
 * the one that it wants:
 *
 * - The leaf says by its stamp to which segment it belongs, and by its bounds which entries
 *	 belong in it.  Both change under the leaf's exclusive lock only: bounds by a split,
 *	 the stamp when the block is used by another segment.
 *
 * - It does not say that its segment has died or is being moved; that stands in the first word of
 *	 the header.  The writer reads this word without the header's lock.  A mover sets its flag
 *	 before it locks the leaves for the last time.  If it then locks the leaf after the writer, it
 *	 copies what the writer has written.  If before, the writer sees the flag, because it has the
 *	 lock from the mover.  The flag stays until the segment is dead, or the mover has given up.  The
 *	 header says that it is dead until its block is used again.
 *
 * - Then the block may be of any kind, and be overwritten at this moment, under a lock that the
 *	 writer does not have.  So its stamp is cleared before anything else of it changes
 *	 (hm_page_withdraw()), and the writer reads the stamp after the first word.
 *
 * The header stays pinned for this.  A pin does not keep its block from being used again, but the
 * buffer from being given to another block.
 *
 * Remembered leaves stand where they were put first, and as a rule the one that has been remembered
 * longest gives its place to a new one: what is inserted at a moving end leaves them behind in that
 * order.  known_order sorts them by their low bounds.
 *
 * Splits lock the header exclusively, and the leaf.  They have nothing to fear from a writer that
 * holds neither.
 *
 * A leaf is locked for a microsecond or two, and it takes longer to put a process to sleep and to
 * wake it up.  If many clients want the same leaf, those that sleep would pass the lock on at that
 * pace.  So a writer tries for a while before it sleeps.
 */
#include "postgres.h"

#include "storage/s_lock.h"

#include "am/fault.h"
#include "am/write/insert.h"

/*
 * For how many pauses of the CPU a writer at least and at most waits for a leaf's lock before it
 * sleeps.  The least is about what an insertion takes; the most is some 60 us.
 */
#define MIN_PAUSES 32
#define MAX_PAUSES 2048

/*
 * How long to try for a lock that must not be slept for: those that descend have a header's for a
 * microsecond.
 */
#define SOON_PAUSES 512

/* How much that changes with a wait that was long enough, and with one that was not. */
#define MORE_PAUSES 128
#define LESS_PAUSES 8

/* Whether a remembered leaf had an entry between its bounds. */
static inline bool
had_within(const HmKnownLeaf *known, HmPart part, HtEntry entry)
{
	return ht_entry_cmp(known->low, entry) <= 0 && ht_entry_cmp(entry, known->high) < 0 &&
		   known->part == part;
}

/* Whether a remembered leaf begins at or before a position. */
static inline bool
begins_by(const HmKnownLeaf *known, HmPart part, HtEntry entry)
{
	return known->part < part || (known->part == part && ht_entry_cmp(known->low, entry) <= 0);
}

/* The number of remembered leaves that do. */
static int
known_up_to(const HmCache *cache, HmPart part, HtEntry entry)
{
	int low = 0, middle, high = cache->known_count;

	HM_BINARY_SEARCH(low, middle, high,
					 begins_by(&cache->known[cache->known_order[middle]], part, entry));
	return low;
}

/*
 * A remembered leaf in which an entry belonged when it was last looked at; NULL if none is found.
 * Leaves of segments that are no more may hide others.
 */
static HmKnownLeaf *
find_known(HmCache *cache, HmPart part, HtEntry entry)
{
	int n;
	int number = cache->known_last;

	if (number < cache->known_count && had_within(&cache->known[number], part, entry))
		return &cache->known[number];
	n = known_up_to(cache, part, entry);
	if (n == 0)
		return NULL;
	number = cache->known_order[n - 1];
	if (!had_within(&cache->known[number], part, entry))
		return NULL;
	cache->known_last = number;
	return &cache->known[number];
}

/* The place of a remembered leaf in the order, by its number. */
static int
place_of(const HmCache *cache, int number)
{
	const uint8 *at = memchr(cache->known_order, number, (size_t) cache->known_count);

	return (int) (at - cache->known_order);
}

/* Take the leaf at a place out of the order. */
static void
take_out(HmCache *cache, int place)
{
	uint8 *at = cache->known_order + place;

	cache->known_count--;
	memmove(at, at + 1, (size_t) (cache->known_count - place));
}

/* Forget a leaf; the last one gets its number. */
static void
forget(HmCache *cache, HmKnownLeaf *known)
{
	int number = (int) (known - cache->known);
	int last = cache->known_count - 1;

	take_out(cache, place_of(cache, number));
	if (number != last)
	{
		cache->known_order[place_of(cache, last)] = (uint8) number;
		*known = cache->known[last];
	}
	if (cache->known_next >= cache->known_count)
		cache->known_next = 0;
}

/* Whether the leaf at a place in the order begins between the bounds of another one. */
static inline bool
begins_within(const HmCache *cache, int place, const HmKnownLeaf *now)
{
	const HmKnownLeaf *known = &cache->known[cache->known_order[place]];

	return had_within(now, (HmPart) known->part, known->low);
}

/*
 * Forget the leaves that begin where another one is now, which they would hide.  Returns its place
 * in the order.
 */
static int
forget_beside(HmCache *cache, const HmKnownLeaf *now)
{
	int place = known_up_to(cache, (HmPart) now->part, now->low);

	if (place > 0 && begins_within(cache, place - 1, now))
		place--;
	while (place < cache->known_count && begins_within(cache, place, now))
		forget(cache, &cache->known[cache->known_order[place]]);
	return place;
}

/* Make room for leaves to remember, before any is locked.  Backends that only read do without. */
static void
begin_to_remember(Relation index)
{
	HmCache *cache = (HmCache *) index->rd_amcache;

	if (cache == NULL || cache->remembers)
		return;
	cache = repalloc(cache, sizeof(HmCache));
	cache->remembers = true;
	index->rd_amcache = cache;
}

/* Remember a locked leaf, if there is room for that. */
static void
remember(Relation index, HmPart part, const HmLockedLeaf *locked)
{
	HmCache *cache = (HmCache *) index->rd_amcache;
	HmKnownLeaf now;
	int place;
	int number;

	if (cache == NULL || !cache->remembers)
		return;
	now.leaf = BufferGetBlockNumber(locked->leaf);
	now.header = BufferGetBlockNumber(locked->header);
	now.stamp = locked->stamp;
	now.part = part;
	now.low = hm_leaf_low(BufferGetPage(locked->leaf));
	now.high = hm_leaf_end(BufferGetPage(locked->leaf));

	place = forget_beside(cache, &now);
	number = cache->known_count;
	if (number == HM_KNOWN_LEAVES)
	{
		int former;

		number = cache->known_next;
		cache->known_next = (number + 1) % HM_KNOWN_LEAVES;
		former = place_of(cache, number);
		take_out(cache, former);
		if (former < place)
			place--;
	}
	memmove(cache->known_order + place + 1, cache->known_order + place,
			(size_t) (cache->known_count - place));
	cache->known_order[place] = (uint8) number;
	cache->known[number] = now;
	cache->known_last = number;
	cache->known_count++;
}

/* Whether a leaf, which the caller has locked, is one of a segment. */
static bool
is_leaf_of(Page page, HmPart part, uint64 stamp)
{
	return hm_page_is_leaf_of(page, stamp) && hm_page_special(page)->part == part;
}

/* Whether an entry is between the bounds of a leaf, which the caller has locked. */
static bool
is_within(Page page, HtEntry entry)
{
	return ht_entry_cmp(hm_leaf_low(page), entry) <= 0 &&
		   (!hm_page_has_high(page) || ht_entry_cmp(entry, hm_leaf_high(page)) < 0);
}

/*
 * Try to lock a buffer exclusively, with pauses of the CPU that double from "first" on.  Returns
 * their number, or -1 if "most" have not been enough.
 */
static int
try_lock(Buffer buffer, int first, int most)
{
	int pauses = 0;

	for (int next = first; !ConditionalLockBuffer(buffer); next *= 2)
	{
		if (pauses + next > most)
			return -1;
		for (int i = 0; i < next; i++)
			SPIN_DELAY();
		pauses += next;
	}
	return pauses;
}

/*
 * Lock a leaf exclusively.  How long it pays to try follows from how that went the last times: it
 * does not if the process that has the lock waits for a CPU or for WAL.
 */
static void
lock_leaf(Buffer leaf)
{
	static int limit = MAX_PAUSES / 8;
	int pauses = try_lock(leaf, MIN_PAUSES / 2, limit);

	if (pauses < 0)
	{
		limit = Max(limit - LESS_PAUSES, MIN_PAUSES);
		LockBuffer(leaf, BUFFER_LOCK_EXCLUSIVE);
	}
	else if (pauses > 0)
		limit = Min(limit + MORE_PAUSES, MAX_PAUSES);
}

void
hm_leaf_release(HmLockedLeaf *locked)
{
	UnlockReleaseBuffer(locked->leaf);
	ReleaseBuffer(locked->header);
}

bool
hm_leaf_lock_known(Relation index, HmPart part, HtEntry entry, HmLockedLeaf *locked)
{
	HmCache *cache = (HmCache *) index->rd_amcache;
	HmKnownLeaf *known;
	Page page;

	if (cache == NULL || !hm_cache_is_current(index))
		return false;
	known = find_known(cache, part, entry);
	if (known == NULL)
		return false;

	locked->width = cache->width;
	locked->stamp = known->stamp;
	locked->header = ReadBuffer(index, known->header);
	locked->leaf = ReadBuffer(index, known->leaf);
	HM_FAULT(insert_leaf_known);
	lock_leaf(locked->leaf);
	page = BufferGetPage(locked->leaf);
	if (is_leaf_of(page, part, locked->stamp) &&
		hm_segment_is_open(BufferGetPage(locked->header), locked->stamp) &&
		ht_entry_cmp(known->low, hm_leaf_low(page)) == 0)
	{
		if (is_within(page, entry))
			return true;
		known->high = hm_leaf_end(page); /* a split has moved it */
	}
	else
		forget(cache, known);
	hm_leaf_release(locked);
	return false;
}

HmLockResult
hm_leaf_lock(Relation index, HmPart part, HtEntry entry, HmLockedLeaf *locked)
{
	HmPosition position = hm_position(part, entry.key, entry.tid);
	Page page;

	begin_to_remember(index);
	locked->width = hm_key_width(index);
	locked->header = hm_segment_enter_to_write(index, position, BUFFER_LOCK_SHARE);
	if (!BufferIsValid(locked->header))
		return HM_LEAF_NO_SEGMENT;
	locked->stamp = hm_page_segment(BufferGetPage(locked->header))->stamp;
	locked->leaf = hm_segment_descend(index, locked->header, locked->width, entry, false, NULL);
	LockBuffer(locked->header, BUFFER_LOCK_UNLOCK);
	HM_FAULT(insert_leaf_found);
	lock_leaf(locked->leaf);

	page = BufferGetPage(locked->leaf);
	if (!hm_segment_is_open(BufferGetPage(locked->header), locked->stamp))
	{
		hm_leaf_release(locked);
		return HM_LEAF_CHANGED;
	}

	/* Leaves of a segment stay leaves as long as it lives. */
	hm_page_check(index, locked->leaf, HM_PAGE_LEAF);
	if (!is_leaf_of(page, part, locked->stamp) || !is_within(page, entry))
	{
		hm_leaf_release(locked);
		return HM_LEAF_CHANGED;
	}
	remember(index, part, locked);
	return HM_LEAF_LOCKED;
}

bool
hm_lock_soon(Buffer buffer)
{
	return try_lock(buffer, 1, SOON_PAUSES) >= 0;
}

bool
hm_leaf_lock_header(HmLockedLeaf *locked)
{
	if (!hm_lock_soon(locked->header))
		return false;

	/* A mover that has set its flag meanwhile waits for the leaf, or will. */
	if (hm_segment_is_open(BufferGetPage(locked->header), locked->stamp))
		return true;
	LockBuffer(locked->header, BUFFER_LOCK_UNLOCK);
	return false;
}
