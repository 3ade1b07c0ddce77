/*
 * shared.h
 *		What the files of this folder share.  Others use device.h.
 */
#ifndef HARMONIA_DEVICE_SHARED_H
#define HARMONIA_DEVICE_SHARED_H

#include "storage/lwlock.h"

#include "device/device.h"

/* Indexes that are watched, or of which there are statistics. */
#define HM_DEVICE_SLOTS		64

typedef struct HmSlot
{
	/* Whose statistics these are; invalid: nobody's */
	Oid			database;
	Oid			relation;
	uint64		used;			/* HmDeviceShared.clock when it was used last */
	HmDeviceCounts counts;
	HmDeviceCosts costs;

	/* What is watched; words is 0 if nothing is */
	HpIndexName name;
	uint32		first;			/* in HmDeviceShared.words */
	uint32		words;
	int			users;			/* backends that have it by hm_device_watch() */
	pg_atomic_uint64 structure;
	pg_atomic_uint32 marked;
	pg_atomic_uint32 overflow;	/* a block without a word has changed */
} HmSlot;

/*
 * The lock protects all that is not atomic.  It may be taken while buffers are locked;
 * whoever has it waits for nothing else.
 */
typedef struct HmDeviceShared
{
	LWLock	   *lock;
	uint64		generation;		/* random, of this shared memory */
	pg_atomic_uint32 watched;	/* slots that are */
	pg_atomic_uint32 version;	/* changes whenever what is watched does */
	HmDeviceInfo info;
	uint64		clock;
	uint64		incarnation;	/* counts of structure begun so far */
	TimestampTz stats_since;
	HmSlot		slots[HM_DEVICE_SLOTS];
	uint32		word_count;
	pg_atomic_uint64 words[FLEXIBLE_ARRAY_MEMBER];	/* and as many buffers behind them */
} HmDeviceShared;

/* NULL unless preloaded. */
extern HmDeviceShared *hm_device;

/* The buffers that belong to words. */
static inline pg_atomic_uint32 *
hm_device_buffers(void)
{
	return (pg_atomic_uint32 *) &hm_device->words[hm_device->word_count];
}

/* harmonia.gpu */
typedef enum HmGpuMode
{
	HM_GPU_OFF,
	HM_GPU_AUTO,
	HM_GPU_ON,
	HM_GPU_HOST
} HmGpuMode;

extern int	hm_gpu_mode;
extern int	hm_device_memory;	/* MB; 0: as much as there is */

/*
 * The slot of an index of this database, made if "make" is true, in the place of the one
 * that was not used for longest and is neither watched nor used.  NULL if there is none.
 * The caller holds the lock, exclusively if it wants one made.
 */
extern HmSlot *hm_slot_find(Oid relation, bool make);

/* Watch a slot no longer; the caller holds the lock exclusively. */
extern void hm_slot_unwatch(HmSlot *slot);

/* Install the hook and the callback of watch.c. */
extern void hm_watch_init(void);

/* Register the supervisor (supervisor.c). */
extern void hm_supervisor_register(void);

#endif							/* HARMONIA_DEVICE_SHARED_H */
