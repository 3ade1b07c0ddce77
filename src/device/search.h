/*
 * search.h
 *		The state of a lookup's batches on the device (search.c), and the search of a chunk
 *		(search_chunk.c).
 */
#ifndef HARMONIA_DEVICE_SEARCH_H
#define HARMONIA_DEVICE_SEARCH_H

#include "am/am.h"
#include "device/client.h"
#include "device/copies.h"
#include "lookup/remote.h"

/* The methods that lookups are given. */
extern const HmRemoteMethods hm_search_methods;

/*
 * A claim to staging memory.  It is given up when the memory context is reset, because
 * an error frees everything without a call of "end".  Outlives the HmRemote.
 */
typedef struct StagingClaim
{
	MemoryContextCallback callback;
	uint64 number; /* 0: none */
} StagingClaim;

struct HmRemote
{
	Relation index;
	HtWidth width;
	MemoryContext context;
	HmCopy copy;

	/* The batch. */
	HmProbes probes;
	const uint8 *done;
	HmChoice choice;     /* that was made for it */
	bool synced;         /* the copy is as up to date as it must be */
	bool may_load;       /* if it has gone it can be made again: that was chosen, or it was there */
	HmDeviceTimes times; /* spent on this batch */
	uint32 next;         /* first probe that has not been searched */
	bool with_keys;      /* the device returns the keys of hits: they are wanted, and probes are
						  * ranges */

	/* Hits of the last chunk.  Their probe numbers count from its first probe. */
	uint32 first;
	uint64 hits;
	uint64 handed;      /* number of hits that have been returned */
	uint32 *hit_probes; /* NULL: they have no probe numbers */
	uint64 *hit_tids;
	void *hit_keys;     /* as wide as the index's; NULL unless with_keys */
	uint8 *all_visible; /* for each hit, if there is a reader */
	void *saved;        /* separate memory of the hits, or NULL */
	StagingClaim *claim;
	double rate; /* hits per probe in the last chunk, or 0 */

	const HmMapReader *reader; /* NULL outside the visibility gate */
	HmGateAnswer answer;       /* what becomes of hits on all-visible pages */
	bool map_changes;          /* too fast for the device to count */
	bool by_map;               /* the device has counted or tallied those of the last chunk */
	uint64 counted;            /* hits that are counted or tallied, and have not been reported */

	uint32 *tally; /* hits of each probe of the last chunk */
	uint32 tally_room;
	uint32 tallied; /* probes in it that leave() reports */

	HmLookupStats *stats; /* the lookup's */
};

/* Is the caller in the visibility gate?  Then it is shown the device's hits as they arrive. */
static inline bool
remote_in_gate(const HmRemote *remote)
{
	return remote->reader != NULL;
}

/* Are hits on all-visible pages only counted? */
static inline bool
remote_counts(const HmRemote *remote)
{
	return remote->answer == HM_ANSWER_COUNT;
}

/* A key as the device has it, with number i of an array. */
static pg_attribute_always_inline HmKey
remote_key(HtWidth width, const void *keys, uint64 i)
{
	return width == HT_WIDTH32 ? ((const uint32 *) keys)[i] :
								 hm_key_get(keys, hm_key_size(width), i);
}

/*
 * Search a chunk: the next probes, at most *count; sets *count to their
 * number.  Returns HM_CPU_NO_REASON if the hits are there, HM_CPU_NOT_RESIDENT if the copy is
 * gone, or otherwise the reason why the device cannot answer.
 *
 * The hits are in staging memory; the caller claims it to keep them.  The copy is up to date, and
 * no hits of an earlier chunk are left.
 */
extern HmCpuReason hm_search_chunk(HmRemote *remote, uint32 *count);

/*
 * Can the device leave out equal points of a batch?  Only if they and their hits fit in one chunk.
 */
extern bool hm_search_makes_distinct(const HmRemote *remote, const HmProbes *probes);

/* Make room for a tally of so many probes (search.c).  Its content is undefined. */
extern uint32 *hm_search_make_tally(HmRemote *remote, uint32 count);

#endif /* HARMONIA_DEVICE_SEARCH_H */
