/*
 * remote.h
 *		How lookups use the device; for the files of this folder only.
 */
#ifndef HARMONIA_LOOKUP_REMOTE_H
#define HARMONIA_LOOKUP_REMOTE_H

#include "am/format.h"
#include "device/device.h"
#include "lookup/walk.h"

/* ----------------------------------------------------------------
 *		The list of leaves (leaves.c)
 *
 * leaves.c is compiled once for each width of keys (width.h).  Bounds in these lists have 128 bits
 * for all of them.
 * ----------------------------------------------------------------
 */
typedef struct HmListedLeaf
{
	HtEntry128	low;
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
 * A leaf whose bounds the copy may not know, as its page says.  "note" finds them
 * on their pages: changes of structure mark these as a whole.
 */
typedef struct HmNotedLeaf
{
	HtEntry128	low;
	HtEntry128	high;
	bool		has_high;
	BlockNumber block;
	BlockNumber segment;		/* header of its segment, and */
	uint64		stamp;			/* that one's stamp */
	uint32		number;			/* in the order in which they were noted */
} HmNotedLeaf;

typedef struct HmNotedLeaves
{
	uint32		count;
	uint32		room;
	HmNotedLeaf *leaves;		/* palloc'd, or NULL if room is 0 */
} HmNotedLeaves;

/* The index's directory, as it was read. */
typedef struct HmReadDirectory
{
	void	   *segments;		/* palloc'd; of the index's width */
	int			count;
} HmReadDirectory;

/* What can be done with leaves, for sync.c.  There is one of these for each width of keys. */
typedef struct HmLeafMethods
{
	/*
	 * List all leaves that hold keys, in order.  Replaces the list's content.  Returns
	 * false if the index has changed so much in the meantime that a segment was not found.
	 * The caller holds no buffer lock.
	 *
	 * Errors: index_corrupted.
	 */
	bool		(*list) (Relation index, HtWidth width, HmLeafList *list);

	/* Note a page if it is a leaf that holds keys.  The caller holds the page's lock. */
	void		(*note) (HmNotedLeaves *list, Buffer buffer);

	/*
	 * Read the directory.  The caller frees the segments.
	 *
	 * Errors: index_corrupted.
	 */
	void		(*read_directory) (Relation index, HmReadDirectory *directory);

	/*
	 * Write those of the leaves that belong to segments of the directory to
	 * out[], which has room for all: in order, and each as it was noted last.  Others are left over from
	 * segments that are dead, or are not alive yet.  Returns their number, or -1 if they overlap, which is
	 * possible only if the leaves and the directory do not show one state.
	 */
	int64		(*write_new) (const HmNotedLeaves *list, const HmReadDirectory *directory, HpNewLeaf *out);
} HmLeafMethods;

/* For keys of at most 64 bits, and of 128. */
extern const HmLeafMethods hm_leaf_methods;
extern const HmLeafMethods hm_leaf_methods_128;

/* A bound as it is sent. */
static inline HpBound
hm_sent_bound(HtEntry128 bound)
{
	HpBound		result = {{ht_key_word_128(bound.key, 0), ht_key_word_128(bound.key, 1)}, bound.tid};

	return result;
}

/* ----------------------------------------------------------------
 *		Copies (sync.c, copies.c)
 * ----------------------------------------------------------------
 */

/* A copy, as of the last re-sync. */
typedef struct HmCopy
{
	HpIndexName name;			/* what it is known by */
	uint64		structure;		/* the index's structure count; 0: there is no copy */
	uint64		memory;			/* that it takes, in bytes */
	uint64		host_memory;	/* of this, what is not on the device */
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
 * Bring the copy of an index closer to what the index holds, if there is one: by some lines, as searches
 * of that index have to wait.  The rest is left to the next call.  Adds the work to *stats.
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
 * Set *copy to what this backend remembers of an index's copy, without its memory; or to zeros.  It may be out of
 * date, or gone.  The caller holds no buffer lock.
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

/* ----------------------------------------------------------------
 *		The choice between the CPU and the device (choice.c)
 * ----------------------------------------------------------------
 */

/* What has been chosen for a batch. */
typedef struct HmChoice
{
	bool		load;			/* make a copy if there is none */
	HmCostChoice expected;		/* on the device */
} HmChoice;

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
 *		Batches (remote.c)
 * ----------------------------------------------------------------
 */
typedef struct HmRemote HmRemote;

/*
 * Prepare batches against an index.  stats are the lookup's, and must outlive it; the
 * device's share in them is counted there.  Memory is allocated in CurrentMemoryContext.
 */
extern HmRemote *hm_remote_create(Relation index, HtWidth width, HmLookupStats *stats);

extern void hm_remote_end(HmRemote *remote);

/*
 * Can points that must be distinct be sent to the device as they are?  Only if they and
 * their hits fit in one chunk.
 */
extern bool hm_remote_makes_distinct(const HmRemote *remote, const HmProbes *probes);

/*
 * Start a batch on the device, after hm_choose() has chosen it.  keys_wanted says whether
 * hm_remote_next() will be asked for keys.  Returns HM_CPU_NO_REASON, or the reason why the device
 * cannot search.
 */
extern HmCpuReason hm_remote_start(HmRemote *remote, const HmProbes *probes, const uint8 *done,
								   bool keys_wanted, const HmChoice *choice);

/* Abandon the rest of a batch. */
extern void hm_remote_stop(HmRemote *remote);

/*
 * Make sure that there is a copy if the next call of hm_remote_next() will search it.
 */
extern void hm_remote_prepare(HmRemote *remote);

/*
 * Return more hits, at most max.  Returns 0 when the device has answered all that it
 * will.  Then *rest is the first probe of which no hit has been returned.  It is the
 * number of probes, unless the device cannot go on; then *reason says why.  The number
 * of hits that are only counted is added to *counted.
 *
 * With a reader the caller is in the visibility gate.  So this loads no copy, and shows
 * HM_GATE_MAX_HITS hits at most.  If none of these is to be returned it returns 0 with
 * *rest HM_NO_PROBE, and the next call goes on.  Hits that are tallied are in
 * hm_remote_tally() then.
 */
extern uint32 hm_remote_next(HmRemote *remote, HmHit *hits, void *keys, uint32 max,
							 uint32 *rest, HmCpuReason *reason, uint64 *counted);

/* Bring the copy up to date again before the next search. */
extern void hm_remote_forget(HmRemote *remote);

/*
 * Set the reader of hm_lookup_next_in_gate(), before the gate is entered; NULL after it was
 * left.  It is shown all hits as soon as they come.  "answer" says what becomes of those that
 * are on all-visible pages.
 */
extern void hm_remote_set_reader(HmRemote *remote, const HmMapReader *reader,
								 HmGateAnswer answer);

/* Get the tally of the last call of hm_remote_next(), valid until the next one. */
extern void hm_remote_tally(const HmRemote *remote, HmTally *tally);

#endif							/* HARMONIA_LOOKUP_REMOTE_H */
