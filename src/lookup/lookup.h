/*
 * lookup.h
 *		Batch lookup: many keys against one index in one call, on the CPU or the device.
 *
 * This is all that the folder offers.  It stands on src/am (pages, directory,
 * segments), src/tree (in-page search, partially-sorted aggregation) and src/device.
 *
 * A lookup takes a batch of probes, keys or ranges of keys, and returns every
 * (probe, entry) pair that matches, exactly once, whatever happens to the index
 * between the calls.  Between calls it holds no lock and no pin.
 *
 * What the caller sees to:
 *
 * - An MVCC snapshot, active or registered, taken before hm_lookup_start() and
 *	 held until the heap tuples have been fetched with it.  Entries may be of
 *	 tuples that the snapshot does not see; rows are right once the heap is asked.
 * - The key is compared again with the heap tuple's only where the probe's key
 *	 stands for more than one value; the engine itself returns exact matches of
 *	 normalised keys, on the device as well.
 * - Serializable transactions: PredicateLockRelation() on the index before
 *	 hm_lookup_start().
 * - Index-only access: the lookup keeps no pins.  The caller holds the visibility
 *	 gate (am.h) while it gets hits and looks them up in the visibility map; see
 *	 hm_lookup_forget_pages().
 */
#ifndef HARMONIA_LOOKUP_H
#define HARMONIA_LOOKUP_H

#include "utils/rel.h"
#include "utils/snapshot.h"

#include "tree/tree.h"

/*
 * A batch of probes: normalised keys, none of them NULL.  Without "high" they
 * are points, otherwise ranges low[i]..high[i], both bounds included; one with
 * low above high matches nothing.  Any order; duplicates and overlapping ranges
 * are allowed and each of them gets its hits; but if points are "distinct", of those
 * that are equal only one, any of them, does.
 */
typedef struct HmProbes
{
	uint32		count;
	const uint64 *low;
	const uint64 *high;			/* NULL: points */
	bool		distinct;		/* only for points without "done" */
} HmProbes;

/*
 * A match: "tid" as hm_tid_pack() packs it, and in "probe" its probe's place in the
 * batch.
 */
typedef HtHit HmHit;

/* Why the CPU searches and not the device. */
typedef enum HmCpuReason
{
	HM_CPU_NO_REASON,			/* the device has searched, or nothing has */
	HM_CPU_NOT_PRELOADED,
	HM_CPU_GPU_OFF,
	HM_CPU_DISABLED,			/* harmonia.enable_device */
	HM_CPU_NO_DEVICE,
	HM_CPU_DEVICE_DOWN,			/* it is being started, perhaps again */
	HM_CPU_RECOVERY,			/* replay does not say what it changes */
	HM_CPU_TEMPORARY,			/* the index is */
	HM_CPU_OLD_SNAPSHOTS,		/* old_snapshot_threshold */
	HM_CPU_RANGE_KEYS,			/* the device does not say which keys of a range it
								 * has found */
	HM_CPU_FEW_KEYS,
	HM_CPU_NOT_RESIDENT,		/* there is no copy of the index */
	HM_CPU_CHEAPER,
	HM_CPU_TOO_LARGE,			/* for harmonia.max_resident_blocks */
	HM_CPU_DEVICE_MEMORY,		/* is too small */
	HM_CPU_BUSY,				/* the room that is left is used by others */
	HM_CPU_RESTLESS,			/* leaves are split faster than they are copied */
	HM_CPU_MANY_HITS,			/* of one range, more than can be transferred */
	HM_CPU_DEVICE_FAILED
} HmCpuReason;

extern const char *hm_cpu_reason_text(HmCpuReason reason);

/* What a lookup has done since it was created. */
typedef struct HmLookupStats
{
	uint64		batches;
	uint64		probes;
	uint64		hits;
	uint64		segments;		/* headers locked */
	uint64		leaves;			/* leaf pages locked */
	uint64		restarts;		/* leaves that were split, or their segment
								 * replaced, on the way to them */
	double		sort_ns;		/* time spent sorting probes */
	double		search_ns;		/* time spent on all else */

	/* The device's share */
	uint64		device_batches; /* at least in part */
	uint64		device_probes;
	uint64		device_hits;
	uint64		fallbacks;		/* batches that the CPU finished for it */
	uint64		synced_blocks;
	uint64		synced_lines;
	uint64		bytes_to_device;
	uint64		bytes_from_device;
	HmCpuReason reason;			/* why the largest batch for the CPU was not for the */
	uint32		reason_probes;	/* device, and its size */
} HmLookupStats;

typedef struct HmLookup HmLookup;

/*
 * Bytes that a lookup allocates at most for each probe of its capacity, more if points are
 * to be distinct; up to 40 kB come on top.
 */
extern Size hm_lookup_probe_memory(bool distinct);

/*
 * Prepare lookups in an index, which stays the caller's and is open and locked
 * until hm_lookup_end().  No batch may have more than capacity probes.  Memory
 * is in CurrentMemoryContext.
 */
extern HmLookup *hm_lookup_create(Relation index, uint32 capacity);

/*
 * The snapshot to test pages with for "snapshot too old", which only matters
 * where old_snapshot_threshold is on (PostgreSQL 15 and 16).  NULL, which it is
 * at first: no test.
 */
extern void hm_lookup_set_snapshot(HmLookup *lookup, Snapshot snapshot);

/*
 * Search with a certain instruction set ("avx512", "avx2", "portable") instead of
 * the best one.  Returns false if this machine does not have it.  For tests.
 */
extern bool hm_lookup_set_variant(HmLookup *lookup, const char *variant);

/*
 * Start a batch; an unfinished one is forgotten.  The probes stay the caller's
 * and unchanged until the next start.  done, if not NULL, has a byte for each
 * probe: once the caller sets it to nonzero, between calls, no more hits of that
 * probe are wanted, and only few follow.  Applies the backend's queued
 * entries, as every scan does.
 */
extern void hm_lookup_start(HmLookup *lookup, const HmProbes *probes, const uint8 *done);

/*
 * Do what may take long before the next call of hm_lookup_next(), with or without keys: a
 * copy of the index is loaded to the device, if that is to search.  For a caller who is
 * about to enter the visibility gate.
 */
extern void hm_lookup_prepare(HmLookup *lookup, bool keys_wanted);

/*
 * Return up to max (1 or more) more hits and, in keys unless it is NULL, the
 * key of each hit.  Returns 0 only at the end.  Hits of points come in key order,
 * those of ranges about so: leaves leave their blocks' entries unsorted; those from the
 * device in any order.  Locks one
 * page at a time; the caller holds no buffer lock.
 * Errors: index_corrupted; query_canceled and its like between pages.
 */
extern uint32 hm_lookup_next(HmLookup *lookup, HmHit *hits, uint64 *keys, uint32 max);

/*
 * Whether it is known that the next call will return 0; never while the device
 * searches, whose batches end with that call.
 */
extern bool hm_lookup_at_end(const HmLookup *lookup);

/*
 * Forget where the leaves are: the next call finds its way anew, from the headers
 * of living segments.  For a caller that has just entered the visibility gate.
 * Hits that had been read from a page before, but not returned, are not lost; they
 * come first.
 */
extern void hm_lookup_forget_pages(HmLookup *lookup);

/*
 * How many of the last call's hits, the first ones, had been read before the call, or at
 * least have been shown to the reader.
 */
extern uint32 hm_lookup_stale_hits(const HmLookup *lookup);

/*
 * The device gives many hits at once, of which most are returned by later calls.  A reader
 * is shown all of them as soon as they have been read, inside a call, and gives each a
 * mark, which the hit then has in "unused".  Other hits have 0 there.  NULL, which it is
 * at first: no reader.
 */
typedef void (*HmTidReader) (void *argument, const uint64 *tids, uint32 n, uint8 *marks);
extern void hm_lookup_set_reader(HmLookup *lookup, HmTidReader reader, void *argument);

/*
 * For a caller who wants to know which tids there are, not whose: in a reader's place, a
 * filter moves those tids to the front that are to be returned, and says how many they are.
 * Their probe numbers are HM_NO_PROBE.  Hits that it is not shown are returned as ever.
 */
#define HM_NO_PROBE		PG_UINT32_MAX
typedef uint32 (*HmTidFilter) (void *argument, uint64 *tids, uint32 n);
extern void hm_lookup_set_filter(HmLookup *lookup, HmTidFilter filter, void *argument);

extern const HmLookupStats *hm_lookup_stats(HmLookup *lookup);

extern void hm_lookup_end(HmLookup *lookup);

/*
 * Sort hits: by tid, which is heap order, or by probe.  Both are stable, so
 * sorting by tid and then by probe gives (probe, tid) order.  scratch has room
 * for n hits, but is not needed for few; the result is in hits.
 */
#define HM_HITS_FEW		64

extern void hm_hits_sort_by_tid(HmHit *hits, HmHit *scratch, uint32 n);
extern void hm_hits_sort_by_probe(HmHit *hits, HmHit *scratch, uint32 n);

#endif							/* HARMONIA_LOOKUP_H */
