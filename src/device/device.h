/*
 * device.h
 *		The server's side of the device: which indexes have a copy there, what has
 *		changed in them since, and how to talk to the daemon that keeps the copies.
 *
 * This is everything that this folder offers.  It knows nothing about an index's pages
 * except that they consist of lines of HP_LINE_SIZE bytes.
 *
 * All of it needs shared_preload_libraries = 'harmonia'.  Without that
 * hm_device_state() returns HM_DEVICE_NOT_LOADED, hm_batch_counts_add() works, and nothing else may be
 * called.
 *
 * Watching
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
#ifndef HARMONIA_DEVICE_H
#define HARMONIA_DEVICE_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "am/marks.h"
#include "device/costs.h"
#include "device/protocol.h"

/*
 * Request shared memory, start the supervisor and define the GUCs.  Called once, from
 * _PG_init.
 */
extern void hm_device_init(void);

/* ----------------------------------------------------------------
 *		The device
 * ----------------------------------------------------------------
 */
typedef enum HmDeviceState
{
	HM_DEVICE_NOT_LOADED,		/* the library is not preloaded */
	HM_DEVICE_OFF,				/* harmonia.gpu = off */
	HM_DEVICE_STARTING,
	HM_DEVICE_UP,
	HM_DEVICE_HUNG,				/* the daemon does not answer; it is killed soon */
	HM_DEVICE_ABSENT,			/* there is no device */
	HM_DEVICE_FAILED			/* the daemon ended; it will be started again */
} HmDeviceState;

typedef struct HmDeviceInfo
{
	HmDeviceState state;
	bool		is_gpu;
	int			pid;			/* of the daemon; 0 if it does not run */
	uint64		memory;			/* of the largest device, in bytes; 0 if unknown */
	uint64		starts;			/* of the daemon, since the server started */
	TimestampTz since;			/* when the state last changed */
	char		text[128];		/* the devices' names, or the error */
} HmDeviceInfo;

extern HmDeviceState hm_device_state(void);
extern void hm_device_info(HmDeviceInfo *info);

/* How much memory copies can take, about, in bytes; 0 if unknown. */
extern uint64 hm_device_room(void);

/* GUC harmonia.enable_device: batches may use the device. */
extern bool hm_enable_device;

/* GUC harmonia.force_device: batches use the device whatever that costs. */
extern bool hm_force_device;

/* ----------------------------------------------------------------
 *		Watched indexes (watch.c)
 * ----------------------------------------------------------------
 */

/*
 * An index whose copy this backend brings up to date.  It stays watched, and its words
 * stay in place, until hm_device_release().
 */
typedef struct HmWatch
{
	int			slot;
	HpIndexName name;
	BlockNumber blocks;			/* number of blocks with a word */
	pg_atomic_uint64 *words;	/* for each block: its marked lines */
	pg_atomic_uint32 *buffers;	/* for each block: the buffer in which it was marked
								 * last; 0: unknown */
	pg_atomic_uint64 *structure;	/* count of structure changes; each value stands
									 * for one state */
	pg_atomic_uint32 *marked;	/* nonzero: there may be new marks */
	pg_atomic_uint32 *overflow; /* nonzero: a block without a word has changed */
	pg_atomic_uint64 *owed;		/* number of marked lines, about */
	pg_atomic_uint64 *sync;		/* number of the last sync that a backend began */
	uint64		own_sync;		/* of the one that this backend began */
	uint32		first_group;	/* in the summary of marks */
} HmWatch;

typedef enum HmWatchResult
{
	HM_WATCHED,
	HM_WATCH_TOO_LARGE,			/* more than harmonia.max_resident_blocks */
	HM_WATCH_BUSY				/* other backends use all words or slots */
} HmWatchResult;

/*
 * Watch an index with this many blocks until hm_device_release().  If it was not
 * watched, or had too few words, its count of structure changes starts again, at a
 * number that no copy has.  Indexes that were not used for long may cease to be
 * watched.  A backend can hold one index at a time.  The end of the transaction
 * releases it, too.
 */
extern HmWatchResult hm_device_watch(const HpIndexName *name, Oid relation, BlockNumber blocks,
									 HmWatch *watch);
extern void hm_device_release(void);

/*
 * This backend makes a whole copy of the index that it holds, until it releases the index.
 */
extern void hm_device_loads(void);

/*
 * The daemon has begun a sync of the index that this backend holds, and given it this number.  Returns false if a later one
 * has been begun meanwhile.
 *
 * A backend that stops in the middle of its sync can lose it, when the daemon closes the connection or is started again,
 * and notices that at its next request.  Another one makes a new copy meanwhile, and marks that are set then are owed to
 * that.  So a backend that takes marks first checks that its sync is still the last one (hm_device_in_sync()).  It holds the
 * lock of the marked page then, which the new copy's maker reads and a writer changes later, or that of the shared memory.
 */
extern bool hm_device_begin_sync(HmWatch *watch, uint64 number);

static inline bool
hm_device_in_sync(const HmWatch *watch)
{
	return pg_atomic_read_u64(watch->sync) == watch->own_sync;
}

/*
 * Lower the flag that says that there may be marks.  Returns whether it was raised; also false if this backend has
 * lost its sync.
 */
extern bool hm_device_lower_flag(const HmWatch *watch);

/*
 * A walk over the blocks of a held index that have marks, in order.  It finds all marks that
 * were made before it began, and maybe later ones.  The caller takes the marks: the next walk
 * need not find what this one has.  It ends early if this backend has lost its sync.
 */
typedef struct HmMarkWalk
{
	const HmWatch *watch;
	uint32		group;			/* the next one whose bit has not been taken */
	uint32		base;			/* the group of the lowest of bits */
	uint64		bits;			/* of groups that may have marks */
	BlockNumber block;			/* the rest of the current group */
	BlockNumber end;
} HmMarkWalk;

extern void hm_device_walk_marks(const HmWatch *watch, HmMarkWalk *walk);
extern bool hm_device_next_marked(HmMarkWalk *walk, BlockNumber *block, uint64 *lines);

/* Have the next walk find what this one has not. */
extern void hm_device_stop_walk(const HmMarkWalk *walk);

/* Is this file watched for the index?  Unlike hm_device_watch(), does not begin to watch it. */
extern bool hm_device_is_watching(Relation index, const HpIndexName *name);

/* Was an index watched all the time between two values of its count? */
static inline bool
hm_device_same_count(uint64 a, uint64 b)
{
	return a >> 32 == b >> 32;
}

/*
 * Has this index been watched since its count had the given value, and have all marks
 * made before this call been taken by a re-sync, finished or not?
 */
extern bool hm_device_is_unmarked(Relation index, const HpIndexName *name, uint64 structure);

/*
 * Stop watching an index.  Returns false if it was not watched.  If a backend uses it,
 * it stays watched.
 */
extern bool hm_device_forget(Relation index);

/* ----------------------------------------------------------------
 *		The process that brings copies up to date ahead of batches (ahead.c)
 *
 * Only one database has it at a time.
 * ----------------------------------------------------------------
 */

/* GUC harmonia.resync_ahead */
extern bool hm_resync_ahead;

/* So many marked lines are enough for a step. */
#ifdef HM_SMALL_LIMITS
#define HM_AHEAD_LINES		32
#else
#define HM_AHEAD_LINES		256
#endif

/*
 * Start the process for this database, unless one runs or was started a moment ago.
 */
extern void hm_ahead_start(void);

/* This process begins to be it.  Returns false if there is another one. */
extern bool hm_ahead_begin(void);

/*
 * Find an index of this database that has enough marked lines, and was searched lately.  Returns
 * InvalidOid if there is none; then *idle says that none was even searched.
 */
extern Oid	hm_ahead_next(bool *idle);

/* ----------------------------------------------------------------
 *		Statistics (stats.c)
 * ----------------------------------------------------------------
 */

/* Counters of an index's batches, as pg_stat_harmonia shows them. */
typedef struct HmBatchCounts
{
	uint64		batches;
	uint64		keys;
	uint64		hits;
	uint64		device_batches; /* of these, searched on the device at least in part */
	uint64		device_keys;
	uint64		fallbacks;		/* batches that the CPU finished after the device
								 * failed */
	uint64		loads;			/* complete copies made */
	uint64		evictions;		/* copies that were missing when they were needed */
	uint64		synced_blocks;	/* changed blocks copied after that */
	uint64		bytes_to_device;
	uint64		bytes_from_device;
	uint64		copy_memory;	/* not a sum: last known size of the copy, in bytes */
	uint64		copy_host_memory;	/* of this, what is not on the device */
} HmBatchCounts;

typedef struct HmDeviceStats
{
	Oid			database;
	Oid			relation;
	bool		watched;
	HmBatchCounts counts;
} HmDeviceStats;

/* What the choice has to know of a copy, besides its costs. */
typedef struct HmCopyState
{
	bool		watched;		/* there may be a copy */
	bool		loading;		/* a backend makes it */
	uint64		lines;			/* that it lacks, about */
} HmCopyState;

/*
 * Get the costs of an index of this database, to read or change them, and the state of its copy
 * if state is not NULL.  Returns NULL if there is no room for them.  Otherwise the caller soon calls
 * hm_stats_unlock_costs(), and nothing in between that may fail or wait.
 */
extern HmDeviceCosts *hm_stats_lock_costs(Oid relation, HmCopyState *state);
extern void hm_stats_unlock_costs(void);

/*
 * The time in ms, never 0, by a clock that nobody sets back.  All processes of a server have the same.  Costs know
 * their age by its lower half.
 */
extern uint64 hm_now_ms(void);

/* Add counters to a sum; the copy's memory is replaced unless it is 0. */
extern void hm_batch_counts_add(HmBatchCounts *sum, const HmBatchCounts *counts);

/* Add to an index's counters. */
extern void hm_stats_add(Oid relation, const HmBatchCounts *counts);

/* All statistics; the result is palloc'd. */
extern HmDeviceStats *hm_stats_read(int *count, TimestampTz *since);

/* Reset the counters of one index or, if relation is invalid, of this database. */
extern void hm_stats_reset(Oid relation);

/* ----------------------------------------------------------------
 *		The queue in front of the device (queue.c)
 * ----------------------------------------------------------------
 */

/*
 * This backend is about to have the device work for it, so long, in ns: on a re-sync, and on a
 * search.  Replaces what it has said before.  With two zeros, or at the end of the (sub)transaction
 * at the latest, it leaves the queue.
 */
extern void hm_queue_enter(double sync_ns, double search_ns);

/* What other backends have in the queue; sets all fields but the number of lines. */
extern void hm_queue_others(HmQueue *queue);

/* ----------------------------------------------------------------
 *		Talking to the daemon (client.c)
 *
 * A backend has one connection, made when it is first needed and then kept.  If a request
 * fails or is abandoned because of an error, such as a cancelled query, the connection is
 * closed.  The daemon then ends the request at once, and drops the copy that was being brought
 * up to date.
 *
 * A backend that waits for an answer has the supervisor ask whether the daemon is alive.  If
 * it is not, its state becomes HM_DEVICE_HUNG for all backends, and none waits any longer.
 * ----------------------------------------------------------------
 */

/*
 * Connect to the daemon, unless connected already.  Returns false on failure, or if the daemon
 * is not up.
 */
extern bool hm_client_connect(void);

extern void hm_client_close(void);

/* The maximum size of staging memory. */
#define HM_STAGING_MAX		((Size) 256 * 1024 * 1024)

/*
 * Get staging memory of at least this size, at most HM_STAGING_MAX.  Returns NULL if
 * there is no memory or no connection to the daemon.  The memory's content may be lost.
 * If it is claimed, its owner's save() is called first.
 */
extern char *hm_client_staging(Size size);

/*
 * What it has taken this backend so far to connect and to get staging memory, which is pinned, in ns; and what
 * it is expected to take before the next batch: 0 if there are both.
 */
extern double hm_client_setup_ns(void);
extern double hm_client_setup_owed(void);

/*
 * Claim the content of staging memory for an owner.  When staging memory is requested
 * next, and the owner has not given it up, save() is called.  Returns a number to give
 * the claim up with; giving up a claim that is no longer valid does nothing.  The end
 * of the transaction ends the claim without save().
 */
extern uint64 hm_client_claim(void *owner, void (*save) (void *owner));
extern void hm_client_give_up(uint64 claim);

/*
 * Send a request and wait for the answer.  Returns NULL, and closes the connection, if
 * the daemon has gone, does not answer or has failed.  The reply is valid until the
 * next request.  During a sync, from HP_SYNC_BEGIN until HP_SYNC_END or HP_DROP, every
 * request must be followed by another one or by hm_client_close(); otherwise the next
 * hm_client_connect() closes the connection.
 *
 * Errors: query_canceled and similar ones.
 */
extern const HpReply *hm_client_ask(HpRequest *request);

/*
 * The same in two steps, with other work between them: send a request, then wait for
 * its answer before the next request. hm_client_post() returns false, and closes the
 * connection, if the request cannot be sent.
 */
extern bool hm_client_post(HpRequest *request);
extern const HpReply *hm_client_answer(void);

/*
 * A request that waits for another client's sync is given up after HP_WAITING_MS, as if the daemon
 * had gone: the CPU is sooner.  Was that the reason for the last NULL?  Requests to drop a copy
 * wait for as long as it takes, and so do all until the end of a transaction that is patient,
 * and with harmonia.force_device.
 */
extern bool hm_client_gave_up(void);
extern void hm_client_be_patient(void);

#endif							/* HARMONIA_DEVICE_H */
