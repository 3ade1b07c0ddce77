/*
 * target.c
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
 * - It does not say that its segment has died or is being moved; that stands in the first word
 *	 of the header.  The writer reads this word without the header's lock.  A mover sets its
 *	 mark before it locks the leaves for the last time.  If it then locks the leaf after the writer, it
 *	 copies what the writer has written.  If before, the writer sees the mark, because it has
 *	 the lock from the mover.  The mark stays until the segment is dead, or the mover has
 *	 given up.  The header says that it is dead until its block is used again.
 *
 * - Then the block may be of any kind, and be overwritten at this moment, under a lock that the
 *	 writer does not have.  So its stamp is cleared before anything else of it changes
 *	 (hm_page_withdraw()), and the writer reads the stamp after the first word.
 *
 * The header stays pinned for this.  A pin does not keep its block from being used again, but the
 * buffer from being given to another block.
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
#include "am/insert.h"

/*
 * For how many pauses of the CPU a writer at least and at most waits for a leaf's lock before it
 * sleeps.  The least is about what an insertion takes; the most is some 60 us.
 */
#define MIN_PAUSES	32
#define MAX_PAUSES	2048

/* How long to try for the header's lock, about; those that descend have it in share mode for a microsecond. */
#define HEADER_PAUSES	256

/* How much that changes with a wait that was long enough, and with one that was not. */
#define MORE_PAUSES	128
#define LESS_PAUSES	8

/* A remembered leaf in which an entry belonged when it was last looked at; NULL if there is none. */
static HmKnownLeaf *
find_known(HmCache *cache, HmPart part, HtEntry entry)
{
	for (int i = 0; i < cache->known_count; i++)
	{
		HmKnownLeaf *known = &cache->known[i];

		if (ht_entry_cmp(known->low, entry) <= 0 && ht_entry_cmp(entry, known->high) < 0 &&
			known->part == part)
			return known;
	}
	return NULL;
}

/* Set what is known of a leaf's bounds.  The caller has locked it. */
static void
note_bounds(HmKnownLeaf *known, Page page)
{
	HtEntry		end = {KEY_MAX, HT_TID_MAX};

	known->low = hm_leaf_low(page);
	known->high = hm_page_has_high(page) ? hm_leaf_high(page) : end;
}

/* Remember the target's leaf, which is locked. */
static void
remember(Relation index, HmPart part, const HmTarget *target)
{
	HmCache    *cache = (HmCache *) index->rd_amcache;
	BlockNumber leaf = BufferGetBlockNumber(target->leaf);
	HmKnownLeaf *known;
	int			i = 0;

	if (cache == NULL)
		return;
	while (i < cache->known_count && cache->known[i].leaf != leaf)
		i++;
	if (i == HM_KNOWN_LEAVES)
	{
		i = cache->known_next;
		cache->known_next = (i + 1) % HM_KNOWN_LEAVES;
	}
	else if (i == cache->known_count)
		cache->known_count++;

	known = &cache->known[i];
	known->leaf = leaf;
	known->header = BufferGetBlockNumber(target->header);
	known->stamp = target->stamp;
	known->part = part;
	note_bounds(known, BufferGetPage(target->leaf));
}

/* Forget a leaf; the last one takes its place. */
static void
forget(HmCache *cache, HmKnownLeaf *known)
{
	*known = cache->known[--cache->known_count];
	cache->known_next = 0;
}

/* Whether a leaf, which the caller has locked, is one of a segment. */
static bool
is_leaf_of(Page page, HmPart part, uint64 stamp)
{
	return hm_page_is(page, HM_PAGE_LEAF) && hm_page_special(page)->stamp == stamp &&
		hm_page_special(page)->part == part;
}

/* Whether an entry is between the bounds of a leaf, which the caller has locked. */
static bool
is_within(Page page, HtEntry entry)
{
	return ht_entry_cmp(hm_leaf_low(page), entry) <= 0 &&
		(!hm_page_has_high(page) || ht_entry_cmp(entry, hm_leaf_high(page)) < 0);
}

/*
 * Lock a leaf exclusively.  How long it pays to try follows from how that went the last times: it
 * does not if the process that has the lock waits for a CPU or for WAL.
 */
static void
lock_leaf(Buffer leaf)
{
	static int	limit = MAX_PAUSES / 8;
	int			pauses = 0;

	for (int next = MIN_PAUSES / 2; !ConditionalLockBuffer(leaf); next *= 2)
	{
		if (pauses + next > limit)
		{
			limit = Max(limit - LESS_PAUSES, MIN_PAUSES);
			LockBuffer(leaf, BUFFER_LOCK_EXCLUSIVE);
			return;
		}
		for (int i = 0; i < next; i++)
			SPIN_DELAY();
		pauses += next;
	}
	if (pauses > 0)
		limit = Min(limit + MORE_PAUSES, MAX_PAUSES);
}

void
hm_target_release(HmTarget *target)
{
	UnlockReleaseBuffer(target->leaf);
	ReleaseBuffer(target->header);
}

bool
hm_target_known(Relation index, HmPart part, HtEntry entry, HmTarget *target)
{
	HmCache    *cache = (HmCache *) index->rd_amcache;
	HmKnownLeaf *known;
	Page		page;

	if (cache == NULL || !hm_cache_is_current(index))
		return false;
	known = find_known(cache, part, entry);
	if (known == NULL)
		return false;

	target->stamp = known->stamp;
	target->header = ReadBuffer(index, known->header);
	target->leaf = ReadBuffer(index, known->leaf);
	HM_FAULT(insert_leaf_known);
	lock_leaf(target->leaf);
	page = BufferGetPage(target->leaf);
	if (is_leaf_of(page, part, target->stamp) &&
		hm_segment_is_open(BufferGetPage(target->header), target->stamp))
	{
		if (is_within(page, entry))
			return true;
		note_bounds(known, page);
	}
	else
		forget(cache, known);
	hm_target_release(target);
	return false;
}

HmTargetResult
hm_target_find(Relation index, HmPart part, HtEntry entry, HmTarget *target)
{
	HmPosition	position = hm_position(part, entry.key, entry.tid);
	Page		page;

	target->header = hm_segment_enter_to_write(index, position, BUFFER_LOCK_SHARE);
	if (!BufferIsValid(target->header))
		return HM_TARGET_NO_SEGMENT;
	target->stamp = hm_page_segment(BufferGetPage(target->header))->stamp;
	target->leaf = hm_segment_descend(index, target->header, entry, false, NULL);
	LockBuffer(target->header, BUFFER_LOCK_UNLOCK);
	HM_FAULT(insert_leaf_found);
	lock_leaf(target->leaf);

	page = BufferGetPage(target->leaf);
	if (!hm_segment_is_open(BufferGetPage(target->header), target->stamp))
	{
		hm_target_release(target);
		return HM_TARGET_CHANGED;
	}

	/* Leaves of a segment stay leaves as long as it lives. */
	hm_page_check(index, target->leaf, HM_PAGE_LEAF);
	if (!is_leaf_of(page, part, target->stamp) || !is_within(page, entry))
	{
		hm_target_release(target);
		return HM_TARGET_CHANGED;
	}
	remember(index, part, target);
	return HM_TARGET_LOCKED;
}

bool
hm_target_lock_header(HmTarget *target)
{
	for (int next = 1; !ConditionalLockBuffer(target->header); next *= 2)
	{
		if (next > HEADER_PAUSES)
			return false;
		for (int i = 0; i < next; i++)
			SPIN_DELAY();
	}

	/* A mover that has set its mark meanwhile waits for the leaf, or will. */
	if (hm_segment_is_open(BufferGetPage(target->header), target->stamp))
		return true;
	LockBuffer(target->header, BUFFER_LOCK_UNLOCK);
	return false;
}
