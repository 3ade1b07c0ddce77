/*
 * shared.h
 *		Shared memory of the device, its settings, and its state (shared.c).
 *
 * Unless the library is preloaded, hm_device_state() returns HM_DEVICE_NOT_LOADED, hm_device_info()
 * works, and nothing else in this folder may be called.
 */
#ifndef HARMONIA_DEVICE_SHARED_H
#define HARMONIA_DEVICE_SHARED_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#include "device/costs.h"
#include "device/protocol.h"
#include "lookup/lookup.h"

typedef enum HmDeviceState
{
	HM_DEVICE_NOT_LOADED, /* the library is not preloaded */
	HM_DEVICE_OFF,        /* harmonia.gpu = off */
	HM_DEVICE_STARTING,
	HM_DEVICE_UP,
	HM_DEVICE_HUNG,   /* the daemon does not answer; it is killed soon */
	HM_DEVICE_ABSENT, /* there is no device */
	HM_DEVICE_FAILED  /* the daemon ended; it will be started again */
} HmDeviceState;

typedef struct HmDeviceInfo
{
	HmDeviceState state;
	bool is_gpu;
	int pid;           /* of the daemon; 0 if it does not run */
	uint64 memory;     /* of the largest device, in bytes; 0 if unknown */
	uint64 starts;     /* of the daemon, since the server started */
	TimestampTz since; /* when the state last changed */
	char text[128];    /* the devices' names, or the error */
} HmDeviceInfo;

extern HmDeviceState hm_device_state(void);
extern void hm_device_info(HmDeviceInfo *info);

/* How much memory copies can take, about, in bytes; 0 if unknown. */
extern uint64 hm_device_room(void);

/* GUC harmonia.enable_device: batches may use the device. */
extern bool hm_enable_device;

/* GUC harmonia.force_device: batches use the device whatever that costs. */
extern bool hm_force_device;

/* The number of indexes that can be watched or can have statistics. */
#define HM_DEVICE_SLOTS 64

typedef struct HmSlot
{
	/* The index with these statistics; invalid if the slot is free. */
	Oid database;
	Oid relation;
	uint64 used; /* HmDeviceShared.clock at the last use */
	HmBatchCounts counts;
	HmDeviceCosts costs;

	/* The watched file; words is 0 if none is watched. */
	HpIndexName name;
	uint32 first; /* in HmDeviceShared.words; the first of a group */
	uint32 words;
	int users;  /* backends that hold it by hm_watch_begin() */
	int loader; /* process id of the one that makes the copy, or 0 */
	pg_atomic_uint64 structure;
	pg_atomic_uint32 marked;
	pg_atomic_uint32 overflow; /* a block without a word has changed */
	pg_atomic_uint64 owed;     /* number of marked lines, about */
	pg_atomic_uint64 sync;     /* number of the last sync */
} HmSlot;

/*
 * The lock protects everything that is not atomic.  It may be taken while buffers are
 * locked.  A backend that holds it waits for nothing else.
 */
typedef struct HmDeviceShared
{
	LWLock *lock;
	uint64 generation;        /* random number of this shared memory */
	pg_atomic_uint32 watched; /* number of watched slots */
	pg_atomic_uint32 version; /* changes whenever the set of watched indexes does */
	HmDeviceInfo info;
	Latch *supervisor;            /* NULL: it does not run */
	pg_atomic_uint32 suspected;   /* a backend waits for the daemon */
	pg_atomic_uint64 queued_sync; /* work that backends have for the device, in ns */
	pg_atomic_uint64 queued_search;
	pg_atomic_uint32 queued;   /* number of these backends */
	pg_atomic_uint32 lanes;    /* that share the work */
	pg_atomic_uint64 setup_ns; /* mean of what setting up a connection takes; 0: unknown */

	/* The process that brings copies up to date ahead of batches. */
	int ahead_pid;        /* 0: it does not run */
	Latch *ahead_latch;   /* as above, as NULL; read without a lock */
	uint64 ahead_started; /* when one was last asked for, by hm_now_ms(); 0: never */
	uint64 clock;
	uint64 incarnation; /* number of structure counts begun so far */
	TimestampTz stats_since;
	HmSlot slots[HM_DEVICE_SLOTS];
	uint32 word_count;
	pg_atomic_uint64 words[FLEXIBLE_ARRAY_MEMBER]; /* followed by the summary, and by as many
													* buffers */
} HmDeviceShared;

/* NULL unless the library is preloaded. */
extern HmDeviceShared *hm_device;

/*
 * The summary has a bit for each group of this many words: some of them may not be zero.  A
 * group belongs to one index.
 */
#define HM_GROUP_WORDS 64

/* The number of 64-bit words of the summary of this many words. */
static inline uint32
hm_summary_words(uint32 word_count)
{
	return word_count / (64 * HM_GROUP_WORDS) + 1;
}

static inline pg_atomic_uint64 *
hm_device_summary(void)
{
	return &hm_device->words[hm_device->word_count];
}

/* For each word, the buffer in which its block was marked last. */
static inline pg_atomic_uint32 *
hm_device_buffers(void)
{
	return (pg_atomic_uint32 *) (hm_device_summary() + hm_summary_words(hm_device->word_count));
}

/* harmonia.gpu */
typedef enum HmGpuMode
{
	HM_GPU_OFF,
	HM_GPU_AUTO,
	HM_GPU_ON,
	HM_GPU_HOST
} HmGpuMode;

extern int hm_gpu_mode;
extern char *hm_gpu_devices;        /* "all", or numbers with commas between them */
extern int hm_device_memory;        /* MB of each device; 0: no limit */
extern int hm_device_host_memory;   /* MB */
extern int hm_device_restart_delay; /* ms */

/*
 * Find the slot of an index of this database.  If there is none and "make" is true,
 * reuse the least recently used slot that is not watched.  Returns NULL if there is
 * none.  The caller holds the lock, in exclusive mode if "make" is true.
 */
extern HmSlot *hm_slot_find(Oid relation, bool make);

/* Stop watching a slot without users.  The caller holds the lock in exclusive mode. */
extern void hm_slot_unwatch(HmSlot *slot);

/*
 * Install the hook and the callback of watch.c, and the callbacks of queue.c.  Once there is shared
 * memory, hm_watch_start() has writers mark what they change.
 */
extern void hm_watch_init(void);
extern void hm_watch_start(void);
extern void hm_queue_init(void);

/*
 * supervisor.c
 */

/* Register the supervisor. */
extern void hm_supervisor_register(void);

/*
 * Have the supervisor find out whether the daemon hangs.  If so, the state becomes
 * HM_DEVICE_HUNG after a while.
 */
extern void hm_supervisor_suspect(void);

#endif /* HARMONIA_DEVICE_SHARED_H */
