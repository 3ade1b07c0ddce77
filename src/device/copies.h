/*
 * copies.h
 *		Copies of indexes: bringing them up to date (sync.c), and which ones this backend has
 *		(copies.c).
 */
#ifndef HARMONIA_DEVICE_COPIES_H
#define HARMONIA_DEVICE_COPIES_H

#include "am/format.h"
#include "device/choice.h"
#include "device/protocol.h"

/* A copy, as of the last re-sync. */
typedef struct HmCopy
{
	HpIndexName name;   /* what it is known by */
	uint64 structure;   /* the index's structure count; 0: there is no copy */
	uint64 memory;      /* that it takes, in bytes */
	uint64 host_memory; /* of this, what is not on the device */
} HmCopy;

/*
 * Bring the device's copy of an index up to date with what the index holds at some
 * moment during the call.  With "load", makes a copy if there is none.  Adds the work to
 * *stats: loads, evictions, what was re-synced, and the bytes to the device.  Returns
 * HM_CPU_NO_REASON, or the reason why there is no such copy.  The caller holds no buffer
 * lock.
 *
 * Errors: index_corrupted; query_canceled and similar ones.
 */
extern HmCpuReason hm_sync(Relation index, bool load, HmCopy *copy, HmLookupStats *stats);

/*
 * Bring the copy of an index closer to what the index holds, if there is one: by some lines, as
 * searches of that index have to wait.  The rest is left to the next call.  Adds the work to
 * *stats.
 */
extern void hm_sync_ahead(Relation index, HmLookupStats *stats);

/* How long the last hm_sync() has waited for other sessions' work on the device, in ns. */
extern double hm_sync_waited(void);

/* Set what a copy of an index is known by, the rest of which stands in the metapage. */
extern void hm_copy_name(Relation index, const HmMeta *meta, HpIndexName *name);

/* Remember a copy that has been brought up to date; or forget one. */
extern void hm_copy_remember(const HmCopy *copy);
extern void hm_copy_forget(const HpIndexName *name);

/*
 * Set *copy to what this backend remembers of an index's copy, without its memory; or to zeros.  It
 * may be out of date, or gone.  The caller holds no buffer lock.
 */
extern void hm_copy_recall(Relation index, HmCopy *copy);

/*
 * Will the device, if it still has the copy, search it in a state that is up to date
 * with what the index holds now?  Also true if another backend's re-sync will make it
 * so before the search.
 */
extern bool hm_copy_is_current(Relation index, const HmCopy *copy);

/*
 * Have the device drop its copy of an index.  Does nothing if the daemon does not run.
 */
extern void hm_copy_drop(Relation index);

#endif /* HARMONIA_DEVICE_COPIES_H */
