/*
 * remote.h
 *		What a device offers to lookups: a table of methods.
 *
 * A device is a guest.  It sets hm_remote_methods when the library is loaded.  While that is NULL,
 * the CPU searches all batches, and lookups know nothing of a device.
 *
 * For each batch, lookup.c asks whether the device is to search it.  If so it gets the device's
 * hits until there are no more; if the device cannot go on, the CPU searches the rest.  What the
 * device finds is what the index held at some time after the batch was started or, inside the
 * visibility gate, after that was entered.
 *
 *		create
 *		  choose -> start -> next, ...                  for each batch
 *		  enter -> (choose -> start) -> prepare -> next -> leave    each time, with the gate
 *		end
 *
 * None is called with a buffer lock held.  Reasons are numbers of the device's own; HM_NO_REASON is
 * none.
 */
#ifndef HARMONIA_LOOKUP_REMOTE_H
#define HARMONIA_LOOKUP_REMOTE_H

#include "lookup/lookup.h"

/* A lookup's batches on the device.  Only the device knows what it is. */
typedef struct HmRemote HmRemote;

/* No batch with fewer probes is worth a device; so nobody wants to know how long these take. */
#define HM_REMOTE_MIN_PROBES 256

typedef struct HmRemoteMethods
{
	/*
	 * The functions hm_lookup_may_use_device(), hm_lookup_device() and hm_lookup_reason() of
	 * lookup.h.
	 */
	bool (*may_search)(double probes);
	const char *(*name)(void);
	const char *(*reason_text)(int reason);

	/*
	 * Prepare batches against an index.  stats are the lookup's, and must outlive the result; the
	 * device's share in them is counted there.  Memory is allocated in CurrentMemoryContext.
	 */
	HmRemote *(*create)(Relation index, HtWidth width, HmLookupStats *stats);

	/* The lookup ends: free everything, and add the lookup's counters to the index's. */
	void (*end)(HmRemote *remote);

	/*
	 * Is the device to search this batch?  Returns HM_NO_REASON, or why not.  Abandons what is left
	 * of the batch before.  Sets *distinct if the batch wants distinct probes, and the device
	 * cannot leave equal ones out: then they must be left out before start().
	 */
	int (*choose)(HmRemote *remote, const HmProbes *probes, bool *distinct);

	/*
	 * Start the batch that was chosen.  The probes and "done" are as for hm_lookup_start();
	 * keys_wanted says whether next() will be asked for keys.  May take long.  Returns
	 * HM_NO_REASON, or why the device cannot search.
	 *
	 * Errors: index_corrupted; query_canceled and similar ones.
	 */
	int (*start)(HmRemote *remote, const HmProbes *probes, const uint8 *done, bool keys_wanted);

	/*
	 * Return more hits, at most max.  Returns 0 when the device has answered all that it
	 * will.  Then *rest is the first probe of which no hit has been returned.  It is the
	 * number of probes, unless the device cannot go on; then *reason says why.  The number
	 * of hits that are only counted, or tallied, is added to *counted.
	 *
	 * Between enter() and leave() it does nothing that takes very long, and reads HM_GATE_MAX_HITS
	 * hits at most.  If none of these is to be returned it returns 0 with *rest HM_NO_PROBE, and
	 * the next call goes on.
	 *
	 * Errors: as for start().
	 */
	uint32 (*next)(HmRemote *remote, HmHit *hits, void *keys, uint32 max, uint32 *rest, int *reason,
				   uint64 *counted);

	/*
	 * From here to leave(), hits are shown to the reader as soon as they come; "answer" says what
	 * becomes of those that are on all-visible pages.  The gate is entered after prepare(), which
	 * does what may take long, if the device searches the batch.  leave() sets the tally of what
	 * next() has found.
	 */
	void (*enter)(HmRemote *remote, const HmMapReader *reader, HmGateAnswer answer);
	void (*prepare)(HmRemote *remote);
	void (*leave)(HmRemote *remote, HmTally *tally);

	/*
	 * The CPU has searched a whole batch of so many probes, at least HM_REMOTE_MIN_PROBES, in this
	 * time.
	 */
	void (*note_walk)(HmRemote *remote, uint32 probes, double ns);
} HmRemoteMethods;

extern const HmRemoteMethods *hm_remote_methods;

#endif /* HARMONIA_LOOKUP_REMOTE_H */
