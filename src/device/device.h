/*
 * device.h
 *		The server's side of the device: which indexes have a copy there, what has
 *		changed in them since, and how to talk to the daemon that keeps the copies.
 *
 * This is all that the folder offers.  It knows nothing of the pages of an index but
 * that they consist of lines of HP_LINE_SIZE bytes.
 *
 * All of it needs shared_preload_libraries = 'harmonia'.  Without that hm_device_watches()
 * is false, hm_device_state() says HM_DEVICE_NOT_LOADED, and nothing else may be called.
 *
 * Watching
 *
 * An index is watched while the device may have a copy of it.  Shared memory has a word of
 * 64 bits for each block of a watched index, a bit for each line, and a count of changes
 * of structure.  Whoever changes a page marks its lines while he holds the page locked
 * exclusively; whoever brings the copy up to date takes the marks of a page, and
 * reads its lines, while he holds the page locked in share mode.  So no change is
 * lost: a writer who found the index not watched, or its marks taken, had the page
 * locked before the reader, or sees what the reader has done when he locks it after him.
 *
 * The count of changes of structure, those which make leaves appear, disappear or pass
 * entries on to each other, grows while all pages that such a change concerns are locked
 * exclusively.  Who reads these pages, each under its lock, and finds the same count
 * before and after, has read one state of the structure.
 */
#ifndef HARMONIA_DEVICE_H
#define HARMONIA_DEVICE_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "device/protocol.h"

/* Request shared memory, start the supervisor, define the GUCs; call once, from _PG_init. */
extern void hm_device_init(void);

/* ----------------------------------------------------------------
 *		Marking changes (watch.c)
 *
 * Nothing of this allocates or fails; all of it may be called in a critical section.
 * ----------------------------------------------------------------
 */

/* Indexes that are watched; NULL unless preloaded. */
extern pg_atomic_uint32 *hm_device_watched;

/* Whether any index is watched.  A caller who changes a page has locked it before. */
static inline bool
hm_device_watches(void)
{
	return hm_device_watched != NULL && pg_atomic_read_u32(hm_device_watched) > 0;
}

extern void hm_device_mark_page_slowly(Relation index, Buffer buffer, uint64 lines);
extern void hm_device_mark_blocks_slowly(Relation index, BlockNumber block, uint32 count);
extern void hm_device_count_slowly(Relation index);

/* All lines of a page. */
#define HM_ALL_LINES	PG_UINT64_MAX

/*
 * Lines of a page are about to change: bit i stands for the bytes from HP_LINE_SIZE * i on.
 * The caller holds it locked exclusively.
 */
static inline void
hm_device_mark_page(Relation index, Buffer buffer, uint64 lines)
{
	if (unlikely(hm_device_watches()))
		hm_device_mark_page_slowly(index, buffer, lines);
}

/*
 * All lines of these blocks change, or have changed without a mark before the blocks became
 * part of the index.  The caller holds the pages locked exclusively, or those through
 * which alone they can be reached.
 */
static inline void
hm_device_mark_blocks(Relation index, BlockNumber block, uint32 count)
{
	if (unlikely(hm_device_watches()))
		hm_device_mark_blocks_slowly(index, block, count);
}

/*
 * The structure changes.  The caller holds all pages that the change concerns locked
 * exclusively, and has marked new leaves.
 */
static inline void
hm_device_structure_changes(Relation index)
{
	if (unlikely(hm_device_watches()))
		hm_device_count_slowly(index);
}

/* ----------------------------------------------------------------
 *		The device
 * ----------------------------------------------------------------
 */
typedef enum HmDeviceState
{
	HM_DEVICE_NOT_LOADED,		/* the library was not preloaded */
	HM_DEVICE_OFF,				/* harmonia.gpu = off */
	HM_DEVICE_STARTING,
	HM_DEVICE_UP,
	HM_DEVICE_ABSENT,			/* there is none */
	HM_DEVICE_FAILED			/* the daemon ended; it will be started again */
} HmDeviceState;

typedef struct HmDeviceInfo
{
	HmDeviceState state;
	bool		is_gpu;
	int			pid;			/* of the daemon; 0 if it does not run */
	uint64		memory;			/* bytes; 0 if unknown */
	uint64		starts;			/* of the daemon, since the server's */
	TimestampTz since;			/* when the state changed last */
	char		text[128];		/* the device's name, or what is wrong */
} HmDeviceInfo;

extern HmDeviceState hm_device_state(void);
extern void hm_device_info(HmDeviceInfo *info);

/* GUC harmonia.enable_device: the device may be used. */
extern bool hm_enable_device;

/* GUC harmonia.force_device: the device is used whatever the costs say. */
extern bool hm_force_device;

/* ----------------------------------------------------------------
 *		Watched indexes (watch.c)
 * ----------------------------------------------------------------
 */

/*
 * An index that this backend brings up to date on the device.  It stays watched, and
 * its words in place, until hm_device_release().
 */
typedef struct HmWatch
{
	int			slot;
	HpIndexName name;
	BlockNumber blocks;			/* that have a word */
	pg_atomic_uint64 *words;	/* of each block: lines marked */
	pg_atomic_uint32 *buffers;	/* in which who marked lines last had it; 0: not known */
	pg_atomic_uint64 *structure;	/* no value is ever used for two states */
	pg_atomic_uint32 *marked;	/* nonzero: look at the words */
} HmWatch;

typedef enum HmWatchResult
{
	HM_WATCHED,
	HM_WATCH_TOO_LARGE,			/* harmonia.max_resident_blocks */
	HM_WATCH_BUSY				/* all that others could give is in use */
} HmWatchResult;

/*
 * Watch an index with so many blocks, and keep it so until hm_device_release().  If it was
 * not watched, or had too few words, its count of structure begins anew with a
 * number that no copy has; others that have not been used for long may lose their place.
 * A backend can hold one such at a time.  Released at the transaction's end, too.
 */
extern HmWatchResult hm_device_watch(const HpIndexName *name, Oid relation, BlockNumber blocks,
									 HmWatch *watch);
extern void hm_device_release(void);

/* Whether an index was watched all the time between two values of its count. */
static inline bool
hm_device_same_count(uint64 a, uint64 b)
{
	return a >> 32 == b >> 32;
}

/* Whether this index is watched. */
extern bool hm_device_is_watched(Relation index);

/*
 * Whether it has been watched since its count had this value, and all marks that were made
 * before this call have been taken by somebody who brings, or has brought, the copy up to date.
 */
extern bool hm_device_is_unmarked(Relation index, const HpIndexName *name, uint64 structure);

/* Watch it no longer; false if it was not watched.  If somebody uses it, nothing happens. */
extern bool hm_device_forget(Relation index);

/* ----------------------------------------------------------------
 *		Statistics (stats.c)
 * ----------------------------------------------------------------
 */

/*
 * Batches fall into classes by size, each four times the last one's.  A class's
 * means say what a key takes, in ns.
 */
#define HM_SIZE_CLASSES		10
#define HM_SIZE_CLASS_MIN	256

static inline int
hm_size_class(uint32 keys)
{
	int			class = 0;

	while (class < HM_SIZE_CLASSES - 1 && keys >= (uint32) HM_SIZE_CLASS_MIN * 4 << 2 * class)
		class++;
	return class;
}

/* What CPU and device have taken for batches against an index; 0: not known. */
typedef struct HmDeviceCosts
{
	float		cpu[HM_SIZE_CLASSES];
	float		device[HM_SIZE_CLASSES];
	float		sync;			/* ns to bring the copy up to date */
	float		debt;			/* ns that batches took since the index was last loaded
								 * or unloaded, for want of a copy */
	uint32		batches;		/* since then */
	TimestampTz refused;		/* when the device had no room for it, or 0 */
} HmDeviceCosts;

/* What has happened to an index's batches, as pg_stat_harmonia shows it. */
typedef struct HmDeviceCounts
{
	uint64		batches;
	uint64		keys;
	uint64		hits;
	uint64		device_batches; /* of them, on the device at least in part */
	uint64		device_keys;
	uint64		fallbacks;		/* batches that the CPU finished for the device */
	uint64		loads;			/* whole copies made */
	uint64		evictions;		/* copies that were gone when they were needed */
	uint64		synced_blocks;	/* copied since, because they had changed */
	uint64		bytes_to_device;
	uint64		bytes_from_device;
	uint64		copy_memory;	/* not a sum: bytes of the copy, as last known */
} HmDeviceCounts;

typedef struct HmDeviceStats
{
	Oid			database;
	Oid			relation;
	bool		watched;
	HmDeviceCounts counts;
} HmDeviceStats;

/* Costs known of an index of this database; false if it has none yet. */
extern bool hm_stats_costs(Oid relation, HmDeviceCosts *costs);

/* Write them back: what others have written in the meantime is lost, which does not matter. */
extern void hm_stats_set_costs(Oid relation, const HmDeviceCosts *costs);

/* Add to an index's counts; copy_memory is set, unless it is 0. */
extern void hm_stats_add(Oid relation, const HmDeviceCounts *counts);

/* All that is known, palloc'd. */
extern HmDeviceStats *hm_stats_read(int *count, TimestampTz *since);

/* Forget the counts, of one index or, if relation is invalid, of all of this database. */
extern void hm_stats_reset(Oid relation);

/* ----------------------------------------------------------------
 *		Talking to the daemon (client.c)
 *
 * A backend has one connection, made when it is first needed and then kept.  It ends, and
 * the daemon drops the copy that was being brought up to date, if a request fails or is
 * abandoned by an error, a cancelled query's among them.
 * ----------------------------------------------------------------
 */

/* Whether there is a connection to the daemon; makes one if need be. */
extern bool hm_client_connect(void);

extern void hm_client_close(void);

/* Largest staging memory. */
#define HM_STAGING_MAX		((Size) 256 * 1024 * 1024)

/*
 * Staging memory of at least this size, at most HM_STAGING_MAX; NULL if there is none to
 * be had or the daemon is gone.  What it held may be lost.  Whoever had claimed it
 * saves what he needs now.
 */
extern char *hm_client_staging(Size size);

/*
 * Until somebody else asks for staging memory, what it holds is the owner's; then, if he has
 * not given it up, save() is called.  Returns a number by which to give it up; giving
 * up what is no longer his does nothing.
 */
extern uint64 hm_client_claim(void *owner, void (*save) (void *owner));
extern void hm_client_give_up(uint64 claim);

/*
 * Send a request and wait for the answer.  Returns NULL, and closes the connection, if the
 * daemon has gone, does not answer or has failed.  The reply is good until the next
 * request.  Every request of a sync, from HP_SYNC_BEGIN on, must be followed by another
 * one or by hm_client_close(): until HP_SYNC_END or HP_DROP the connection counts as
 * being in the middle of something.
 * Errors: query_canceled and its like.
 */
extern const HpReply *hm_client_ask(HpRequest *request);

/*
 * The same in two steps, with other work in between: send a request, and wait for its answer,
 * which must be done before the next is sent.  False, and the connection closed, if it
 * cannot be sent.
 */
extern bool hm_client_post(HpRequest *request);
extern const HpReply *hm_client_answer(void);

#endif							/* HARMONIA_DEVICE_H */
