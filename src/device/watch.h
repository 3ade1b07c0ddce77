/*
 * watch.h
 *		Watched indexes, and the marks of what changes in them (watch.c).
 *
 * An index is watched while the device may have a copy of it.  For each block of a
 * watched index, shared memory has a word of 64 bits, one bit for each line.  For each
 * watched index it has a count of structure changes.  A writer marks the lines that it
 * changes while it holds the page locked exclusively.  A summary, with a bit for each 64
 * words, spares re-syncs the words without marks.  A re-sync takes the marks of a
 * page, and then reads the marked lines, while it holds the page locked in share mode.
 * So no change is lost: a writer that finds the index not watched has locked the page
 * before the first copy reads it, and a writer that locks the page after a re-sync has
 * read it leaves its marks to the next re-sync.
 *
 * The count of structure changes covers changes that make leaves appear, disappear or
 * pass entries on to each other.  It grows while all pages of such a change are locked
 * exclusively.  A reader that locks and reads these pages one after the other, and
 * finds the same count before and after, has read one state of the structure.
 */
#ifndef HARMONIA_DEVICE_WATCH_H
#define HARMONIA_DEVICE_WATCH_H

#include "storage/bufmgr.h"

#include "am/marks.h"
#include "device/shared.h"

/*
 * An index whose copy this backend brings up to date.  It stays watched, and its words
 * stay in place, until hm_watch_end().
 */
typedef struct HmWatch
{
	int slot;
	HpIndexName name;
	BlockNumber blocks;          /* number of blocks with a word */
	pg_atomic_uint64 *words;     /* for each block: its marked lines */
	pg_atomic_uint32 *buffers;   /* for each block: the buffer in which it was marked last; 0:
								  * unknown */
	pg_atomic_uint64 *structure; /* count of structure changes; each value stands for one state */
	pg_atomic_uint32 *marked;    /* nonzero: there may be new marks */
	pg_atomic_uint32 *overflow;  /* nonzero: a block without a word has changed */
	pg_atomic_uint64 *owed;      /* number of marked lines, about */
	pg_atomic_uint64 *sync;      /* number of the last sync that a backend began */
	uint64 own_sync;             /* of the one that this backend began */
	uint32 first_group;          /* in the summary of marks */
} HmWatch;

typedef enum HmWatchResult
{
	HM_WATCHED,
	HM_WATCH_TOO_LARGE, /* more than harmonia.max_resident_blocks */
	HM_WATCH_BUSY       /* other backends use all words or slots */
} HmWatchResult;

/*
 * Watch an index with this many blocks until hm_watch_end().  If it was not
 * watched, or had too few words, its count of structure changes starts again, at a
 * number that no copy has.  Indexes that were not used for long may cease to be
 * watched.  A backend can hold one index at a time.  The end of the transaction
 * releases it, too.
 */
extern HmWatchResult hm_watch_begin(const HpIndexName *name, Oid relation, BlockNumber blocks,
									HmWatch *watch);
extern void hm_watch_end(void);

/*
 * This backend makes a whole copy of the index that it holds, until it releases the index.
 */
extern void hm_watch_loads(void);

/*
 * The daemon has begun a sync of the index that this backend holds, and given it this number.
 * Returns false if a later one has been begun meanwhile.
 *
 * A backend that stops in the middle of its sync can lose it, when the daemon closes the connection
 * or is started again, and notices that at its next request.  Another one makes a new copy
 * meanwhile, and marks that are set then are owed to that.  So a backend that takes marks first
 * checks that its sync is still the last one (hm_watch_in_sync()).  It holds the lock of the
 * marked page then, which the new copy's maker reads and a writer changes later, or that of the
 * shared memory.
 */
extern bool hm_watch_begin_sync(HmWatch *watch, uint64 number);

static inline bool
hm_watch_in_sync(const HmWatch *watch)
{
	return pg_atomic_read_u64(watch->sync) == watch->own_sync;
}

/*
 * Lower the flag that says that there may be marks.  Returns whether it was raised; also false if
 * this backend has lost its sync.
 */
extern bool hm_watch_lower_flag(const HmWatch *watch);

/*
 * A walk over the blocks of a held index that have marks, in order.  It finds all marks that
 * were made before it began, and maybe later ones.  The caller takes the marks: the next walk
 * need not find what this one has.  It ends early if this backend has lost its sync.
 */
typedef struct HmMarkWalk
{
	const HmWatch *watch;
	uint32 group;      /* the next one whose bit has not been taken */
	uint32 base;       /* the group of the lowest of bits */
	uint64 bits;       /* of groups that may have marks */
	BlockNumber block; /* the rest of the current group */
	BlockNumber end;
} HmMarkWalk;

extern void hm_watch_walk_marks(const HmWatch *watch, HmMarkWalk *walk);
extern bool hm_watch_next_marked(HmMarkWalk *walk, BlockNumber *block, uint64 *lines);

/* Have the next walk find what this one has not. */
extern void hm_watch_stop_walk(const HmMarkWalk *walk);

/* Is this file watched for the index?  Unlike hm_watch_begin(), does not begin to watch it. */
extern bool hm_watch_is_on(Relation index, const HpIndexName *name);

/* Was an index watched all the time between two values of its count? */
static inline bool
hm_watch_same_count(uint64 a, uint64 b)
{
	return a >> 32 == b >> 32;
}

/*
 * Has this index been watched since its count had the given value, and have all marks
 * made before this call been taken by a re-sync, finished or not?
 */
extern bool hm_watch_is_unmarked(Relation index, const HpIndexName *name, uint64 structure);

/*
 * Stop watching an index.  Returns false if it was not watched.  If a backend uses it,
 * it stays watched.
 */
extern bool hm_watch_forget(Relation index);

#endif /* HARMONIA_DEVICE_WATCH_H */
