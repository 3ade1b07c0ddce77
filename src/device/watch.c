/*
 * watch.c
 *		Which indexes are watched, and marking what changes in them.
 *
 * Watched indexes share a pool of words.  Each index has a range of words, with some
 * extra ones for growth.  When the pool is full, the least recently used index gives up
 * its range.  A writer that remembers an old range may still set marks in it.  These do
 * not harm the range's new owner.  The writer's own index is not watched any longer;
 * its next copy is made from its pages, and the writer still has its page locked.
 *
 * Each time an index begins to be watched, its count of structure changes starts with a
 * number in its upper half that was never used before.  The daemon keeps the count with
 * the copy.  So a copy of an index that was not watched all the time is recognised as
 * stale.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "port/pg_bitutils.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "compat.h"
#include "device/ahead.h"
#include "device/watch.h"

/*
 * Extra words of an index: a quarter of its blocks, and this many.  While half of the pool is free,
 * the index may double besides: leaves that were built full are all split within a short time, and
 * meanwhile no new copy could be made.
 */
#define GROWTH_WORDS 256

/* How many lines a writer marks before it adds them to the number of marked lines. */
#define REPORTED_LINES 16

/*
 * Ranges that this backend remembers, valid as long as the set of watched indexes stays
 * the same.  A statement changes few indexes, so a few are enough.
 */
#define KNOWN_INDEXES 8

typedef struct KnownIndex
{
	HpIndexName name; /* build_id is not set */
	HmSlot *slot;     /* NULL: not watched */
	uint32 first;
	uint32 words;
	uint32 unreported; /* lines that this backend has marked, and not added to the slot's number */
} KnownIndex;

static KnownIndex known[KNOWN_INDEXES];
static int known_count = 0;
static int known_next = 0;
static uint32 known_version = 0;

/* The slot that this backend holds by hm_watch_begin(), or NULL. */
static HmSlot *held = NULL;

static ProcessUtility_hook_type next_ProcessUtility = NULL;

/* Do two names mean the same file?  It may hold different builds. */
static inline bool
same_file(const HpIndexName *a, const HpIndexName *b)
{
	return a->relfilenode == b->relfilenode && a->database == b->database &&
		   a->tablespace == b->tablespace;
}

/* ----------------------------------------------------------------
 *		Marking
 * ----------------------------------------------------------------
 */

static KnownIndex *
know_index(Relation index)
{
	uint32 version = pg_atomic_read_u32(&hm_device->version);
	HpIndexName name = {0};
	KnownIndex *result;

	hm_index_file(index, &name.database, &name.tablespace, &name.relfilenode);
	if (version != known_version)
	{
		known_count = known_next = 0;
		known_version = version;
	}
	for (int i = 0; i < known_count; i++)
	{
		if (same_file(&known[i].name, &name))
			return &known[i];
	}

	result = &known[known_next];
	known_next = (known_next + 1) % KNOWN_INDEXES;
	known_count = Min(known_count + 1, KNOWN_INDEXES);
	result->name = name;
	result->slot = NULL;
	result->unreported = 0;
	LWLockAcquire(hm_device->lock, LW_SHARED);
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *slot = &hm_device->slots[i];

		if (slot->words > 0 && same_file(&slot->name, &name))
		{
			result->slot = slot;
			result->first = slot->first;
			result->words = slot->words;
			break;
		}
	}
	LWLockRelease(hm_device->lock);
	return result;
}

/*
 * Tell the next re-sync that there is something to take.  Marks are set before the
 * flag.
 */
static inline void
raise_flag(pg_atomic_uint32 *flag)
{
	if (pg_atomic_read_u32(flag) == 0)
		pg_atomic_write_u32(flag, 1);
}

/*
 * Note in the summary that a word is not zero.  The word was set before, and that was a barrier.
 * If the bit is set already, a re-sync that clears it from now on will read the word after that.
 */
static inline void
summarize(uint32 word)
{
	uint32 group = word / HM_GROUP_WORDS;
	pg_atomic_uint64 *summary = &hm_device_summary()[group / 64];
	uint64 bit = UINT64CONST(1) << (group % 64);

	if ((pg_atomic_read_u64(summary) & bit) == 0)
		pg_atomic_fetch_or_u64(summary, bit);
}

/*
 * Count lines that have got a mark.  Only a few at a time are added to the number in shared memory,
 * which all writers of the index share.
 */
static inline void
count_lines(KnownIndex *at, uint64 lines)
{
	int64 owed;

	at->unreported += (uint32) pg_popcount64(lines);
	if (at->unreported < REPORTED_LINES)
		return;
	owed = (int64) pg_atomic_fetch_add_u64(&at->slot->owed, at->unreported);
	if (owed < HM_AHEAD_LINES && owed + at->unreported >= HM_AHEAD_LINES)
		hm_ahead_wake();
	at->unreported = 0;
}

/* Mark lines of a block.  Returns false if the block has no word. */
static inline bool
mark_block(KnownIndex *at, BlockNumber block, uint64 lines)
{
	uint64 before;

	if (block >= at->words)
	{
		raise_flag(&at->slot->overflow);
		return false;
	}
	before = pg_atomic_fetch_or_u64(&hm_device->words[at->first + block], lines);
	summarize(at->first + block);
	count_lines(at, lines & ~before);
	return true;
}

static void
mark_page(Relation index, Buffer buffer, uint64 lines)
{
	KnownIndex *at = know_index(index);
	BlockNumber block = BufferGetBlockNumber(buffer);

	if (at->slot == NULL || RelationUsesLocalBuffers(index))
		return;
	if (mark_block(at, block, lines))
		pg_atomic_write_u32(&hm_device_buffers()[at->first + block], (uint32) buffer);
	raise_flag(&at->slot->marked);
}

static void
mark_blocks(Relation index, BlockNumber block, uint32 count)
{
	KnownIndex *at = know_index(index);

	if (at->slot == NULL || RelationUsesLocalBuffers(index))
		return;
	for (uint32 i = 0; i < count; i++)
	{
		if (!mark_block(at, block + i, HM_ALL_LINES))
			break;
	}
	raise_flag(&at->slot->marked);
}

static void
mark_structure(Relation index)
{
	KnownIndex *at = know_index(index);

	/* A temporary index can have the same file number as another index. */
	if (at->slot != NULL && !RelationUsesLocalBuffers(index))
		pg_atomic_fetch_add_u64(&at->slot->structure, 1);
}

/* ----------------------------------------------------------------
 *		Slots
 * ----------------------------------------------------------------
 */

HmSlot *
hm_slot_find(Oid relation, bool make)
{
	HmSlot *oldest = NULL;

	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *slot = &hm_device->slots[i];

		if (slot->relation == relation && slot->database == MyDatabaseId)
			return slot;
		if (slot->words == 0 && (oldest == NULL || slot->used < oldest->used))
			oldest = slot;
	}
	if (!make || oldest == NULL)
		return NULL;
	oldest->database = MyDatabaseId;
	oldest->relation = relation;
	oldest->used = ++hm_device->clock;
	memset(&oldest->counts, 0, sizeof(oldest->counts));
	memset(&oldest->costs, 0, sizeof(oldest->costs));
	return oldest;
}

void
hm_slot_unwatch(HmSlot *slot)
{
	Assert(slot->users == 0);
	if (slot->words == 0)
		return;
	slot->words = 0;
	pg_atomic_fetch_sub_u32(&hm_device->watched, 1);
	pg_atomic_fetch_add_u32(&hm_device->version, 1);
}

/*
 * Find the first unused range of this many words that begins with a group.  Returns false if
 * there is none.
 */
static bool
find_range(uint32 words, uint32 *first)
{
	uint32 at = 0;

	while (at + words <= hm_device->word_count)
	{
		uint32 next = at;

		for (int i = 0; i < HM_DEVICE_SLOTS; i++)
		{
			HmSlot *slot = &hm_device->slots[i];

			if (slot->words > 0 && slot->first < at + words && slot->first + slot->words > at)
				next = Max(next, (uint32) TYPEALIGN(HM_GROUP_WORDS, slot->first + slot->words));
		}
		if (next == at)
		{
			*first = at;
			return true;
		}
		at = next;
	}
	return false;
}

/* The least recently used slot that is watched and has no users, or NULL. */
static HmSlot *
oldest_watched(void)
{
	HmSlot *oldest = NULL;

	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *slot = &hm_device->slots[i];

		if (slot->words > 0 && slot->users == 0 && (oldest == NULL || slot->used < oldest->used))
			oldest = slot;
	}
	return oldest;
}

/*
 * Find a range for an index with so many blocks that may double.  Returns false if it would take
 * too much.
 */
static bool
find_large_range(BlockNumber blocks, uint32 *words, uint32 *first)
{
	uint64 wanted = (uint64) blocks * 2 + blocks / 4 + GROWTH_WORDS;
	uint64 used = 0;

	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
		used += hm_device->slots[i].words;
	if (used + wanted > hm_device->word_count / 2)
		return false;
	*words = (uint32) wanted;
	return find_range(*words, first);
}

/*
 * Begin to watch.  May cease to watch other indexes.  The caller holds the lock
 * exclusively.
 */
static HmWatchResult
start_watching(HmSlot *slot, const HpIndexName *name, BlockNumber blocks)
{
	uint32 words;
	uint32 first;

	if (blocks > hm_device->word_count)
		return HM_WATCH_TOO_LARGE;
	if (!find_large_range(blocks, &words, &first))
	{
		words = Min(hm_device->word_count, blocks + blocks / 4 + GROWTH_WORDS);
		while (!find_range(words, &first))
		{
			HmSlot *oldest = oldest_watched();

			if (oldest == NULL)
				return HM_WATCH_BUSY;
			hm_slot_unwatch(oldest);
		}
	}

	for (uint32 i = 0; i < words; i++)
	{
		pg_atomic_init_u64(&hm_device->words[first + i], 0);
		pg_atomic_init_u32(&hm_device_buffers()[first + i], InvalidBuffer);
	}
	slot->name = *name;
	slot->first = first;
	slot->words = words;
	pg_atomic_write_u64(&slot->structure, ++hm_device->incarnation << 32);
	pg_atomic_write_u32(&slot->marked, 0);
	pg_atomic_write_u32(&slot->overflow, 0);
	pg_atomic_write_u64(&slot->owed, 0);

	/*
	 * A writer that locks a page after the first copy has read it sees these changes.
	 */
	pg_atomic_fetch_add_u32(&hm_device->watched, 1);
	pg_atomic_fetch_add_u32(&hm_device->version, 1);
	return HM_WATCHED;
}

/* Does a slot watch this build of an index, with enough words? */
static bool
is_watching(const HmSlot *slot, const HpIndexName *name, BlockNumber blocks)
{
	return slot->words >= blocks && slot->words > 0 &&
		   memcmp(&slot->name, name, sizeof(*name)) == 0 &&
		   pg_atomic_read_u32((pg_atomic_uint32 *) &slot->overflow) == 0;
}

/*
 * Stop watching what a slot has now, and stop watching this file in other slots.
 * Returns false if that is impossible because of users.
 */
static bool
clear_slot(HmSlot *slot, const HpIndexName *name)
{
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *other = &hm_device->slots[i];

		if (other->words == 0 || (other != slot && !same_file(&other->name, name)))
			continue;
		if (other->users > 0)
			return false;
		hm_slot_unwatch(other);
	}
	return true;
}

HmWatchResult
hm_watch_begin(const HpIndexName *name, Oid relation, BlockNumber blocks, HmWatch *watch)
{
	HmSlot *slot;
	HmWatchResult result = HM_WATCHED;

	/* An error may have been caught without the end of a subtransaction. */
	hm_watch_end();

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	slot = hm_slot_find(relation, true);
	if (slot == NULL && oldest_watched() != NULL)
	{
		/* All slots are watched. */
		hm_slot_unwatch(oldest_watched());
		slot = hm_slot_find(relation, true);
	}
	if (slot == NULL)
		result = HM_WATCH_BUSY;
	else if (!is_watching(slot, name, blocks))
	{
		if (clear_slot(slot, name))
			result = start_watching(slot, name, blocks);
		else
			result = HM_WATCH_BUSY;
	}
	if (result == HM_WATCHED)
	{
		slot->users++;
		slot->used = ++hm_device->clock;
		held = slot;
		watch->slot = (int) (slot - hm_device->slots);
		watch->name = *name;
		watch->blocks = slot->words;
		watch->words = &hm_device->words[slot->first];
		watch->buffers = &hm_device_buffers()[slot->first];
		watch->first_group = slot->first / HM_GROUP_WORDS;
		watch->structure = &slot->structure;
		watch->marked = &slot->marked;
		watch->overflow = &slot->overflow;
		watch->owed = &slot->owed;
		watch->sync = &slot->sync;
		watch->own_sync = 0;
	}
	LWLockRelease(hm_device->lock);
	return result;
}

void
hm_watch_end(void)
{
	if (held == NULL)
		return;
	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	held->users--;
	if (held->loader == MyProcPid)
		held->loader = 0;
	LWLockRelease(hm_device->lock);
	held = NULL;
}

void
hm_watch_loads(void)
{
	Assert(held != NULL);
	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	held->loader = MyProcPid;
	LWLockRelease(hm_device->lock);
}

bool
hm_watch_begin_sync(HmWatch *watch, uint64 number)
{
	bool last;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	last = number > pg_atomic_read_u64(watch->sync);
	if (last)
		pg_atomic_write_u64(watch->sync, number);
	LWLockRelease(hm_device->lock);
	watch->own_sync = number;
	return last;
}

bool
hm_watch_lower_flag(const HmWatch *watch)
{
	bool raised;

	LWLockAcquire(hm_device->lock, LW_SHARED);
	raised = hm_watch_in_sync(watch) && pg_atomic_exchange_u32(watch->marked, 0) != 0;
	LWLockRelease(hm_device->lock);
	return raised;
}

void
hm_watch_walk_marks(const HmWatch *watch, HmMarkWalk *walk)
{
	walk->watch = watch;
	walk->group = watch->first_group;
	walk->block = walk->end = 0;
	walk->bits = 0;
}

/*
 * Take the bits of the summary from walk->group on, as far as they are in one word of it and belong
 * to the index.  They are cleared before any word of their groups is read: a writer that marks a
 * block later sets its bit again.
 */
static void
take_summary(HmMarkWalk *walk)
{
	uint32 end =
		walk->watch->first_group + (walk->watch->blocks + HM_GROUP_WORDS - 1) / HM_GROUP_WORDS;
	pg_atomic_uint64 *summary = &hm_device_summary()[walk->group / 64];
	uint32 low = walk->group % 64;
	uint64 own = PG_UINT64_MAX << low;

	walk->base = walk->group - low;
	if (end - walk->base < 64)
		own &= (UINT64CONST(1) << (end - walk->base)) - 1;
	walk->group = Min(end, walk->base + 64);
	if (pg_atomic_read_u64(summary) & own)
	{
		LWLockAcquire(hm_device->lock, LW_SHARED);
		if (hm_watch_in_sync(walk->watch))
			walk->bits = pg_atomic_fetch_and_u64(summary, ~own) & own;
		LWLockRelease(hm_device->lock);
	}
}

bool
hm_watch_next_marked(HmMarkWalk *walk, BlockNumber *block, uint64 *lines)
{
	const HmWatch *watch = walk->watch;
	uint32 end = watch->first_group + (watch->blocks + HM_GROUP_WORDS - 1) / HM_GROUP_WORDS;

	for (;;)
	{
		uint32 group;

		for (; walk->block < walk->end; walk->block++)
		{
			*lines = pg_atomic_read_u64(&watch->words[walk->block]);
			if (*lines != 0)
			{
				*block = walk->block++;
				return true;
			}
		}
		while (walk->bits == 0)
		{
			if (walk->group >= end)
				return false;
			take_summary(walk);
		}
		group = walk->base + (uint32) pg_rightmost_one_pos64(walk->bits) - watch->first_group;
		walk->bits &= walk->bits - 1;
		walk->block = group * HM_GROUP_WORDS;
		walk->end = Min(walk->block + HM_GROUP_WORDS, watch->blocks);
	}
}

void
hm_watch_stop_walk(const HmMarkWalk *walk)
{
	pg_atomic_uint64 *summary = &hm_device_summary()[walk->base / 64];
	uint64 bits = walk->bits;

	if (walk->block < walk->end)
		bits |= UINT64CONST(1) << (walk->watch->first_group + walk->block / HM_GROUP_WORDS -
								   walk->base);
	if (bits != 0)
		pg_atomic_fetch_or_u64(summary, bits);
}

bool
hm_watch_is_on(Relation index, const HpIndexName *name)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(index);
	HmSlot *slot;
	bool result;

	LWLockAcquire(hm_device->lock, LW_SHARED);
	slot = hm_slot_find(RelationGetRelid(index), false);
	result = slot != NULL && is_watching(slot, name, blocks);
	LWLockRelease(hm_device->lock);
	return result;
}

bool
hm_watch_is_unmarked(Relation index, const HpIndexName *name, uint64 structure)
{
	HmSlot *slot;
	bool result;

	LWLockAcquire(hm_device->lock, LW_SHARED);
	slot = hm_slot_find(RelationGetRelid(index), false);
	result = slot != NULL && is_watching(slot, name, 0) &&
			 hm_watch_same_count(pg_atomic_read_u64(&slot->structure), structure) &&
			 pg_atomic_read_u32(&slot->marked) == 0;
	LWLockRelease(hm_device->lock);
	return result;
}

bool
hm_watch_forget(Relation index)
{
	HmSlot *slot;
	bool result;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	slot = hm_slot_find(RelationGetRelid(index), false);
	result = slot != NULL && slot->words > 0;
	if (result && slot->users == 0)
		hm_slot_unwatch(slot);
	if (slot != NULL)
		slot->costs.debt = 0;
	LWLockRelease(hm_device->lock);
	return result;
}

/* ----------------------------------------------------------------
 *		Databases that come and go
 * ----------------------------------------------------------------
 */

/*
 * Forget the indexes of a database whose names may soon stand for other files: because
 * the database moves back from another tablespace, or because it no longer exists.
 */
static void
forget_database(Oid database)
{
	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *slot = &hm_device->slots[i];

		if (slot->database != database)
			continue;
		/* No backend is connected to the database, so its slots should have no users. */
		if (slot->users == 0)
		{
			hm_slot_unwatch(slot);
			slot->database = slot->relation = InvalidOid;
		}
	}
	LWLockRelease(hm_device->lock);
}

static void
forget_dropped_databases(void)
{
	Oid databases[HM_DEVICE_SLOTS];

	LWLockAcquire(hm_device->lock, LW_SHARED);
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
		databases[i] = hm_device->slots[i].database;
	LWLockRelease(hm_device->lock);

	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		if (OidIsValid(databases[i]) &&
			!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(databases[i])))
			forget_database(databases[i]);
	}
}

/*
 * After these commands a name, including the build id, can stand for another copy of a
 * file, with changes that were never marked.  So forget the indexes before the command
 * runs: at this point no backend can watch the future files.
 */
static void
watch_ProcessUtility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Node *statement = pstmt->utilityStmt;

	if (IsA(statement, CreatedbStmt))
		forget_dropped_databases();
	else if (IsA(statement, AlterDatabaseStmt))
	{
		Oid database = get_database_oid(((AlterDatabaseStmt *) statement)->dbname, true);

		if (OidIsValid(database))
			forget_database(database);
	}

	if (next_ProcessUtility)
		next_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest,
								qc);
}

static void
release_at_end(XactEvent event, void *arg)
{
	hm_watch_end();
}

void
hm_watch_init(void)
{
	next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = watch_ProcessUtility;
	RegisterXactCallback(release_at_end, NULL);
}

void
hm_watch_start(void)
{
	StaticAssertStmt(HM_LINE_SIZE == HP_LINE_SIZE, "marks are of the lines that are sent");
	hm_mark_hooks = (HmMarkHooks){.page = mark_page,
								  .blocks = mark_blocks,
								  .structure = mark_structure,
								  .watched = &hm_device->watched};
}
