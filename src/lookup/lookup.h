/*
 * lookup.h
 *		Batch lookup: many keys against one index in one call.
 *
 * This is everything that this folder offers to those that look keys up.  It depends on src/am
 * (pages, directory, segments) and src/tree (in-page search, partially-sorted aggregation).  The
 * CPU searches, or a device if there is one; what that has to offer is in remote.h.
 *
 * A lookup takes a batch of probes, which are keys or ranges of keys, and returns each
 * matching (probe, entry) pair exactly once, whatever happens to the index between calls;
 * but see "done" at hm_lookup_start().
 * Between calls it holds no lock and no pin.
 *
 * The caller's duties:
 *
 * - An MVCC snapshot, active or registered, taken before hm_lookup_start() and
 *	 held until the heap tuples have been fetched with it.  Entries may be of
 *	 tuples that the snapshot does not see; rows are right once the heap is asked.
 * - The engine compares normalised keys and returns exact matches.  Those that the CPU
 *	 has found may be believed: see hm_lookup_is_exact().  The rows of others have to be
 *	 compared with their probe's key.  Where a probe's key stands for more values than one,
 *	 the caller compares these anyway.
 * - Serializable transactions: PredicateLockRelation() on the index before
 *	 hm_lookup_start().
 * - Index-only access: the lookup keeps no pins, so hits of hm_lookup_next() must not be
 *	 looked up in the visibility map; hm_lookup_next_in_gate() has that done where it is
 *	 safe.
 */
#ifndef HARMONIA_LOOKUP_H
#define HARMONIA_LOOKUP_H

#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#include "am/keyarray.h"
#include "am/marks.h"
#include "tree/tree.h"

/*
 * The values of a batch's probes, where keys are not exact.  Only tuples that have one of
 * their probe's values are matches.  Probe i has values[first[i]] up to, but without,
 * values[first[i + 1]].  Without "first" it has one value, that of row rows[i], or i if there
 * are no "rows" either; and values of rows are "stride" apart.
 */
typedef struct HmProbeValues
{
	const Datum *values;
	const uint32 *first;
	const uint32 *rows;
	uint32 stride;
	FmgrInfo *equal; /* the column's value is its first argument */
} HmProbeValues;

/*
 * A batch of probes: normalised keys, none of them NULL, in arrays of the index's key size
 * (keyarray.h).  With "high" they are ranges low[i]..high[i] that include both bounds; a range
 * with low above high matches nothing.  Without it all have the same length: they are the ranges
 * low[i]..low[i] + length, none of which may overflow the key size or, if length is 0, points.
 * These are searched faster.  Probes may come in any order.  Duplicates and
 * overlapping ranges are allowed, and each probe gets its hits; but if probes are
 * "distinct", only one of equal probes, any of them, gets hits.
 *
 * A btree that is not in the order of keys (hm_btree_has_keys()) is searched by the values of
 * points, which are given if keys are not exact.
 */
typedef struct HmProbes
{
	uint32 count;
	const void *low;
	const void *high;            /* or NULL */
	HmKey length;                /* 0 if there is "high" */
	bool distinct;               /* only without "high" and without "done" */
	const HmProbeValues *values; /* or NULL; as unchanged as the arrays */
} HmProbes;

/* Set probes to ranges low[i]..high[i].  If all have the same length, high is not used. */
extern void hm_probes_set_ranges(HmProbes *probes, const void *low, const void *high, Size key_size,
								 uint32 count);

/* Whether the probes are points. */
static inline bool
hm_probes_are_points(const HmProbes *probes)
{
	return probes->high == NULL && probes->length == 0;
}

/* The key that a probe ends with. */
static inline HmKey
hm_probe_high(const HmProbes *probes, Size key_size, uint32 probe)
{
	return probes->high == NULL ? hm_key_get(probes->low, key_size, probe) + probes->length :
								  hm_key_get(probes->high, key_size, probe);
}

/*
 * A match: "tid" is packed by hm_tid_pack(), "probe" is the probe's index in the batch.
 */
typedef HtHit HmHit;

/* No reason why the CPU searches a batch: a device does, or there is none.  A device has others. */
#define HM_NO_REASON 0

/* Counters of batches.  Those from device_batches on are of a device, and 0 without one. */
typedef struct HmBatchCounts
{
	uint64 batches;
	uint64 keys;
	uint64 hits;
	uint64 device_batches; /* of these, searched on the device at least in part */
	uint64 device_keys;
	uint64 fallbacks;     /* batches that the CPU finished after the device failed */
	uint64 loads;         /* complete copies made */
	uint64 evictions;     /* copies that were missing when they were needed */
	uint64 synced_blocks; /* changed blocks copied after that */
	uint64 bytes_to_device;
	uint64 bytes_from_device;
	uint64 copy_memory;      /* not a sum: last known size of the copy, in bytes */
	uint64 copy_host_memory; /* of this, what is not on the device */
} HmBatchCounts;

/* Add counters to a sum; the copy's memory is replaced unless it is 0. */
extern void hm_batch_counts_add(HmBatchCounts *sum, const HmBatchCounts *counts);

/* Counters of a lookup since it was created. */
typedef struct HmLookupStats
{
	HmBatchCounts counts;
	uint64 segments;      /* headers locked */
	uint64 leaves;        /* leaf pages locked */
	uint64 restarts;      /* leaves were split, or their segment replaced, before they were
						   * visited */
	uint64 synced_lines;  /* lines of synced_blocks */
	double sort_ns;       /* time spent sorting probes */
	double search_ns;     /* all other time */
	int reason;           /* why the largest batch for the CPU was not for the */
	uint32 reason_probes; /* device, and the size of that batch */
} HmLookupStats;

typedef struct HmLookup HmLookup;

/*
 * The memory in bytes that a lookup allocates for each probe of its capacity, in an index of
 * this key size.  It takes up to 16 bytes more where keys are skewed, 5 more where probes that can
 * be done have many hits, twice that with wide keys, and 12 more for a device that cannot drop
 * duplicates.  In addition it may allocate up to 40 kB.
 */
extern Size hm_lookup_probe_memory(Size key_size);

/*
 * Prepare lookups in an index.  The index belongs to the caller, which keeps it open and
 * locked until hm_lookup_end().  No batch may have more than capacity probes.  Memory
 * is allocated in CurrentMemoryContext.
 */
extern HmLookup *hm_lookup_create(Relation index, uint32 capacity);

/*
 * Set the snapshot to test pages with for "snapshot too old", which only matters if
 * old_snapshot_threshold is on (PostgreSQL 15 and 16); and which decides whether entries that are
 * hinted to be dead are left out (hm_heeds_hints()).  Without one there is no test, and all entries
 * are found.  A device's copy has no hints, so the device finds them in any case.
 */
extern void hm_lookup_set_snapshot(HmLookup *lookup, Snapshot snapshot);

/*
 * Search with a certain instruction set ("avx512", "avx2", "portable") instead of the
 * best one.  Returns false if this machine does not support it.  For tests.
 */
extern bool hm_lookup_set_variant(HmLookup *lookup, const char *variant);

/*
 * A probe that can be done, and has many hits on a leaf, more than the first number, gets a few of
 * them at first.
 */
#define HM_LOOKUP_MANY_HITS 32
#define HM_LOOKUP_FEW_HITS 4

/*
 * Start a batch; an unfinished one is abandoned.  The probes' arrays belong to the
 * caller and must stay unchanged until the next start. done, if not NULL, has a byte
 * for each probe.  Set done[i] between calls to stop hits of probe i; a few may still
 * arrive.  With "done", hits of a probe with many may come in
 * several rounds, a few at first, and some of them again in a later round.  Applies the backend's
 * insert batch, as every scan does.
 */
extern void hm_lookup_start(HmLookup *lookup, const HmProbes *probes, const uint8 *done);

/*
 * Return up to max (1 or more) hits and, unless keys is NULL, the key of each hit, in an array of
 * the index's key size.  All calls for a batch want keys, or none does.
 * Hits of points come in key order.  Those of ranges come roughly in key order, because
 * blocks of leaves are unsorted.  Hits from the device come in the order of heap blocks, chunk
 * by chunk; those of ranges with keys, and of hm_lookup_next_in_gate(), come in any order.  Locks
 * one page at a time; the caller holds no buffer lock.
 *
 * Returns 0 at the end.
 *
 * Errors: index_corrupted; query_canceled and similar ones between pages.
 */
extern uint32 hm_lookup_next(HmLookup *lookup, HmHit *hits, void *keys, uint32 max);

/*
 * Is it certain that no more hits will be returned?  It is after a call that returned 0 at
 * the end.  Never while the device searches: its batches end with such a call.
 */
extern bool hm_lookup_at_end(const HmLookup *lookup);

/*
 * Were the last call's hits read from the index by the CPU, after the batch was started?
 * Then a tuple that an MVCC snapshot sees at such a hit has the entry's key, if the
 * snapshot is older than the batch.  The reasons: VACUUM does not free a TID while the
 * index has an entry with it, so the tuple belongs to the HOT chain that the entry was
 * made for, and all versions in a HOT chain have the same key.  Hits of a device come
 * from a copy, which proves nothing.
 */
extern bool hm_lookup_is_exact(const HmLookup *lookup);

/*
 * For index-only access: the same as hm_lookup_next(), inside the visibility gate.
 *
 * Hits that are on all-visible pages by the visibility map come first; *visible is their
 * number.  Each of them is one visible row, and the heap need not be asked.  For all others
 * the heap has to be asked.  These may be on all-visible pages, too: hits that were read
 * before the gate was entered are not looked up, because for them the map proves nothing.
 *
 * With HM_ANSWER_TALLY, hits of the device that are on all-visible pages are not returned, but
 * are in the tally, by probe: each is one visible row of a probe.  The probes come in their
 * order, which for the caller is the order of what it keeps of them.  A probe that is done may
 * be in the tally, too.  With HM_ANSWER_COUNT the number of these hits is added to *counted,
 * and the others have the probe number HM_NO_PROBE.  Neither is for callers that want keys or
 * TIDs.
 *
 * Enters the gate, reads at most HM_GATE_MAX_HITS hits, and leaves it; whatever takes long
 * is done before.  May return 0 before the end, if no hit is to be returned:
 * hm_lookup_at_end() tells.  Not during recovery: the gate does not stop replay.
 */
#define HM_NO_PROBE PG_UINT32_MAX

/*
 * What the caller wants to know of hits on all-visible pages that a device has found.  The CPU
 * returns them as usual in any case.
 */
typedef enum HmGateAnswer
{
	HM_ANSWER_HITS,  /* the hits */
	HM_ANSWER_TALLY, /* how many each probe has */
	HM_ANSWER_COUNT  /* how many there are */
} HmGateAnswer;

/*
 * A tally: the numbers of hits that some of the batch's probes have on all-visible pages, beside
 * those that are returned.  Valid until the next call for the lookup.
 */
typedef struct HmTally
{
	uint32 count;          /* probes; 0: there is no tally */
	uint32 first;          /* the first one's number in the batch */
	const uint32 *hits;    /* for each of them */
	const uint32 *numbers; /* NULL, or what a probe's number is instead */
} HmTally;

extern uint32 hm_lookup_next_in_gate(HmLookup *lookup, HmGateAnswer answer, HmHit *hits, void *keys,
									 uint32 max, uint32 *visible, HmTally *tally, uint64 *counted);

/*
 * What reads the visibility map for that.  Only what it reads inside the gate counts.
 *
 * "look" looks TIDs up, and sets all_visible for each of them: 1 if its heap page is
 * all-visible, otherwise 0.
 *
 * "all" tells whether all heap pages from first to last are all-visible, if it is cheaper to find
 * that out than to look n TIDs up; otherwise it returns false.
 *
 * "pack" makes a part of a page map, "words" words from number "first" on.  A page map has a
 * bit for each heap page, the lowest bit of a word first, set if the page is all-visible.
 */
typedef struct HmMapReader
{
	void (*look)(void *argument, const uint64 *tids, uint32 n, uint8 *all_visible);
	bool (*all)(void *argument, BlockNumber first, BlockNumber last, uint32 n);
	void (*pack)(void *argument, uint32 first, uint32 words, uint32 *bits);
	void *argument;
	BlockNumber pages; /* that a page map covers, from the table's first on */
} HmMapReader;

extern void hm_lookup_set_reader(HmLookup *lookup, const HmMapReader *reader);

/*
 * Keys that divide an index into parts of about the same size, in order, none of them twice; and
 * their number; none of an index that is searched by values.  Palloc'd.  The caller holds no buffer
 * lock.
 */
extern HmKey *hm_lookup_bounds(Relation index, int *count);

/*
 * A batch of ranges of keys, of each of which the last entries are wanted, or the first.  The
 * arrays are the caller's; low and high are of the index's key size.  Range i has the found[i] TIDs
 * from tids[i * most] on, in the order of a scan from that end.  If it is not complete[i], it may
 * have more, which a plain scan finds; it may return entries with equal values in another order.
 */
typedef struct HmEnds
{
	uint32 count;
	const void *low;
	const void *high;
	bool backward; /* the last ones, in descending order */
	uint32 most;   /* TIDs for each, at most */
	uint64 *tids;
	uint32 *found;
	bool *complete;
} HmEnds;

/*
 * Look up the ends of ranges in a btree that has keys (hm_btree_has_keys()), the first of its
 * columns ascending.  As for hm_lookup_start(), the snapshot is taken before, and held until the
 * rows have been fetched.  Holds no lock and no pin on return.  Errors: index_corrupted.
 */
extern void hm_lookup_ends(Relation index, Snapshot snapshot, HmEnds *ends);

/*
 * Give hints for the entries of n rows that lookups have found dead, as hm_give_hints(): in a btree
 * they are marked as dead, as PostgreSQL's own scans do, so that inserts can remove them.
 */
extern void hm_lookup_give_hints(Relation index, Relation heap, HmDeadRow *rows, int n);

/* Get the counters, and add counters to a sum; it keeps the reason of the larger batch. */
extern const HmLookupStats *hm_lookup_stats(const HmLookup *lookup);
extern void hm_lookup_stats_add(HmLookupStats *sum, const HmLookupStats *stats);

extern void hm_lookup_end(HmLookup *lookup);

/* ----------------------------------------------------------------
 *		The device, for plans and EXPLAIN
 * ----------------------------------------------------------------
 */

/*
 * May a device search a batch of so many probes?  Then the keys of rows have to be compared:
 * hm_lookup_is_exact().
 */
extern bool hm_lookup_may_use_device(double probes);

/* What the device is called; NULL if there is none, or it is turned off. */
extern const char *hm_lookup_device(void);

/* The reason of HmLookupStats, for users; NULL if there is none. */
extern const char *hm_lookup_reason(const HmLookupStats *stats);

/*
 * Sort hits by heap block.  Within a block they keep their order, or are in the order of
 * TIDs.  scratch has room for n hits, and may be missing if n <= HM_HITS_FEW.  The result
 * is in hits.
 */
#define HM_HITS_FEW 64

extern void hm_hits_sort_by_block(HmHit *hits, HmHit *scratch, uint32 n);

/* ----------------------------------------------------------------
 *		Pins (pin.c), also for the pages of tables
 * ----------------------------------------------------------------
 */

/*
 * Pin a block of a relation.  First tries the buffer in which this backend pinned it
 * last.
 */
extern Buffer hm_pin(Relation relation, BlockNumber block);

/*
 * The buffer in which a block was seen last, or a guess, or InvalidBuffer; 0 for relations
 * in local buffers.  The buffer may hold another block by now: use it only to prefetch, or
 * to decide whether to.
 */
extern Buffer hm_pin_expected(Relation relation, BlockNumber block);

/*
 * Remember that a block was seen in this buffer, unless that is 0. hm_pin() may try it.
 */
extern void hm_pin_expect(Relation relation, BlockNumber block, Buffer buffer);

/*
 * Prefetch what hm_pin() will read of an index's block, and these lines of the page (am/marks.h).
 * Does nothing if no buffer is remembered for it.
 */
extern void hm_pin_prefetch_lines(Relation index, BlockNumber block, uint64 lines);

/* The time since "start", in ns. */
static inline double
hm_ns_since(instr_time start)
{
	instr_time end;

	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	return INSTR_TIME_GET_DOUBLE(end) * 1e9;
}

/*
 * The order of keys: order[i] becomes the number of the key that is the i-th.  The second function
 * is for keys of 16 bytes (key_order.c).  Takes temporary memory of 40 bytes a key at most.
 */
extern void hm_order_keys(const void *keys, uint32 n, uint32 *order);
extern void hm_order_keys_128(const void *keys, uint32 n, uint32 *order);

#endif /* HARMONIA_LOOKUP_H */
