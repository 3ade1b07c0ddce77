/*
 * choice.h
 *		The choice between the CPU and the device (choice.c), and the queue that it looks at
 *		(queue.c).
 */
#ifndef HARMONIA_DEVICE_CHOICE_H
#define HARMONIA_DEVICE_CHOICE_H

#include "device/costs.h"
#include "lookup/remote.h"

/* Why the CPU searches a batch and the device does not. */
typedef enum HmCpuReason
{
	HM_CPU_NO_REASON = HM_NO_REASON, /* the device searches, or nothing was searched */
	HM_CPU_GPU_OFF,
	HM_CPU_DISABLED, /* harmonia.enable_device */
	HM_CPU_NO_DEVICE,
	HM_CPU_DEVICE_DOWN,   /* the daemon is starting, or will be started again */
	HM_CPU_DEVICE_HUNG,   /* it does not answer */
	HM_CPU_RECOVERY,      /* replay does not mark what it changes */
	HM_CPU_TEMPORARY,     /* the index is temporary */
	HM_CPU_OLD_SNAPSHOTS, /* old_snapshot_threshold */
	HM_CPU_FEW_KEYS,
	HM_CPU_NOT_RESIDENT, /* there is no copy of the index */
	HM_CPU_LOADING,      /* another backend makes the copy */
	HM_CPU_WAITING,      /* another backend takes long to bring the copy up to date */
	HM_CPU_CHEAPER,
	HM_CPU_TOO_LARGE,       /* the index exceeds harmonia.max_resident_blocks */
	HM_CPU_TOO_MANY_BLOCKS, /* ... or what a device can search at all */
	HM_CPU_DEVICE_MEMORY,   /* the device has too little memory */
	HM_CPU_BUSY,            /* other backends use the rest of the memory */
	HM_CPU_RESTLESS,        /* leaves are split faster than they are copied */
	HM_CPU_MANY_HITS,       /* a single probe has more than fit in staging memory, or than one entry
							 * of the visibility gate covers */
	HM_CPU_TOO_LONG,        /* the device has abandoned the search */
	HM_CPU_DEVICE_FAILED
} HmCpuReason;

extern const char *hm_cpu_reason_text(int reason);

/* What has been chosen for a batch. */
typedef struct HmChoice
{
	bool load;             /* make a copy if there is none */
	HmCostChoice expected; /* on the device */
} HmChoice;

/* May the device search a batch of so many probes? */
extern bool hm_choice_may_search(double probes);

/*
 * Choose what searches a batch.  Returns HM_CPU_NO_REASON for the device, or the reason for
 * the CPU.
 */
extern HmCpuReason hm_choose(Relation index, const HmProbes *probes, HmChoice *choice);

/* Note how long a batch has taken. */
extern void hm_choice_note_cpu(Relation index, uint32 keys, double ns);
extern void hm_choice_note_device(Relation index, uint32 keys, const HmDeviceTimes *times);

/* Note that the device had no room for a copy. */
extern void hm_choice_note_refusal(Relation index);

/* Note that the index changed too fast for a copy to be made, or brought up to date. */
extern void hm_choice_note_restless(Relation index);

/* ----------------------------------------------------------------
 *		The queue in front of the device
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

#endif /* HARMONIA_DEVICE_CHOICE_H */
