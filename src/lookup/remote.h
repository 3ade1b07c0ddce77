/*
 * remote.h
 *		How lookups use the device; shared by the files of this folder.
 */
#ifndef HARMONIA_LOOKUP_REMOTE_H
#define HARMONIA_LOOKUP_REMOTE_H

#include "device/device.h"
#include "lookup/walk.h"

/* ----------------------------------------------------------------
 *		The list of leaves (leaves.c)
 * ----------------------------------------------------------------
 */
typedef struct HmListedLeaf
{
	HtEntry		low;
	BlockNumber block;
	uint64		stamp;			/* of its segment */
} HmListedLeaf;

typedef struct HmLeafList
{
	uint32		count;
	uint32		room;
	HmListedLeaf *leaves;		/* palloc'd, or NULL if room is 0 */
} HmLeafList;

/*
 * List all leaves that hold keys, in order, in the place of what the list had.
 * Returns false if the index changed so much on the way that a segment was not found.
 * The caller holds no buffer lock.
 * Errors: index_corrupted.
 */
extern bool hm_leaves_list(Relation index, HtWidth width, HmLeafList *list);

/* ----------------------------------------------------------------
 *		Copies (sync.c)
 * ----------------------------------------------------------------
 */

/* What bringing copies up to date has cost. */
typedef struct HmSyncCounts
{
	uint64		loads;			/* whole copies made */
	uint64		evictions;		/* copies that should have been there */
	uint64		blocks;			/* copied in whole or in part, after the load */
	uint64		lines;			/* of these */
	uint64		bytes;			/* moved to the device */
} HmSyncCounts;

/* A copy as it was when it was brought up to date. */
typedef struct HmCopy
{
	HpIndexName name;			/* what it is known by */
	uint64		structure;		/* the index's count; 0: there is no copy */
	uint64		memory;			/* bytes that it takes */
} HmCopy;

/*
 * Bring the device's copy of an index up to date with what the index holds at some moment
 * during the call.  With "load", a copy is made if there is none.  Counts are added to.
 * Returns HM_CPU_NO_REASON or why there is no such copy.  The caller holds no buffer lock.
 * Errors: index_corrupted; query_canceled and its like.
 */
extern HmCpuReason hm_sync(Relation index, bool load, HmCopy *copy, HmSyncCounts *counts);

/*
 * Whether a copy, if the device still has it, is up to date with what the index holds now,
 * or is so before it can be searched because somebody is just seeing to it.
 */
extern bool hm_copy_is_current(Relation index, const HmCopy *copy);

/* Have the device drop its copy of an index, if there is one and the daemon runs. */
extern void hm_copy_drop(Relation index);

/* ----------------------------------------------------------------
 *		Batches (remote.c)
 * ----------------------------------------------------------------
 */
typedef struct HmRemote HmRemote;

extern HmRemote *hm_remote_create(Relation index, HtWidth width);

/* stats is what the lookup has done in all; it is added to the index's counts. */
extern void hm_remote_end(HmRemote *remote, const HmLookupStats *stats);

/* HM_CPU_NO_REASON, if the device should search a batch, or why the CPU should. */
extern HmCpuReason hm_remote_choose(HmRemote *remote, const HmProbes *probes, bool keys_wanted);

/*
 * Whether points that are to be distinct can be left to the device as they are, because they
 * and their hits make one chunk.
 */
extern bool hm_remote_makes_distinct(const HmRemote *remote, const HmProbes *probes);

/*
 * Start a batch on the device, if it has been chosen for it.  HM_CPU_NO_REASON, or why it
 * cannot search.  May load the copy.
 */
extern HmCpuReason hm_remote_start(HmRemote *remote, const HmProbes *probes, const uint8 *done);

/* Forget what is left of a batch. */
extern void hm_remote_stop(HmRemote *remote);

/* See to it that there is a copy, if the next call of hm_remote_next() will search it. */
extern void hm_remote_prepare(HmRemote *remote);

/*
 * More hits, at most max; 0 when all that the device will answer has been returned.  From
 * then on *rest is the first probe of which no hit has been returned: the number of probes,
 * unless *reason is why the device cannot go on.  *filtered becomes the number of those that
 * the filter has kept back meanwhile.  With a reader or a filter no copy is loaded: the caller
 * is in the visibility gate.
 */
extern uint32 hm_remote_next(HmRemote *remote, HmHit *hits, uint64 *keys, uint32 max,
							 uint32 *rest, HmCpuReason *reason, uint64 *filtered);

/* Copies have to be brought up to date before the device is asked again. */
extern void hm_remote_forget(HmRemote *remote);

/* Who looks at tids as soon as they are read, see hm_lookup_set_reader(). */
extern void hm_remote_set_reader(HmRemote *remote, HmTidReader reader, void *argument);

/* Who keeps some of them, see hm_lookup_set_filter(). */
extern void hm_remote_set_filter(HmRemote *remote, HmTidFilter filter, void *argument);

/* A batch that the CPU has searched took so long. */
extern void hm_remote_note_cpu(HmRemote *remote, uint32 keys, double ns);

/* Fill in the device's share. */
extern void hm_remote_add_stats(const HmRemote *remote, HmLookupStats *stats);

#endif							/* HARMONIA_LOOKUP_REMOTE_H */
