/*
 * buildsort.h
 *		Spools: what collects a build's entries and gives them back in order.
 *		Shared by buildsort.c, which implements them, and buildscan.c, which
 *		fills them; for no other file.
 */
#ifndef HARMONIA_BUILDSORT_H
#define HARMONIA_BUILDSORT_H

#include "storage/buffile.h"

#include "am/am.h"

typedef struct HmSpool
{
	/* Room in the current chunk; only hm_spool_add() looks at these. */
	HtEntry    *next;
	HtEntry    *end;

	struct HmSpoolState *state;
} HmSpool;

/*
 * Make an empty spool that keeps within memory bytes (or some 200 kB, if that
 * is more), its own memory lying in context.
 */
extern void hm_spool_init(HmSpool *spool, MemoryContext context, Size memory);

/* Make room for another entry.  For hm_spool_add() only. */
extern void hm_spool_make_room(HmSpool *spool);

/* Add an entry. */
static inline void
hm_spool_add(HmSpool *spool, uint64 key, uint64 tid)
{
	if (unlikely(spool->next == spool->end))
		hm_spool_make_room(spool);
	spool->next->key = key;
	spool->next->tid = tid;
	spool->next++;
}

/*
 * Sort what was added so far, as far as adding did not do so already.  Entries
 * may not be added any more, only runs.
 */
extern void hm_spool_sort(HmSpool *spool);

/*
 * Add n entries that lie in order at the beginning of a file.  The spool
 * closes the file when it is done with it.  Only after hm_spool_sort().
 */
extern void hm_spool_add_run(HmSpool *spool, BufFile *file, uint64 n);

/*
 * Whether hm_spool_merge() has to merge runs on disk before the first entry
 * can be read.
 */
extern bool hm_spool_needs_merge(HmSpool *spool);

/* Get ready to read; only after hm_spool_sort(). */
extern void hm_spool_merge(HmSpool *spool);

/* Entries in all, whether read already or not.  Only after hm_spool_sort(). */
extern uint64 hm_spool_count(HmSpool *spool);

/*
 * Read the next entries in order; returns how many were written to out, less
 * than max only at the end.  Only after hm_spool_merge().
 */
extern uint64 hm_spool_read(HmSpool *spool, HtEntry *out, uint64 max);

/* Append all entries that are still to be read to a file. */
extern void hm_spool_write(HmSpool *spool, BufFile *file);

/* Close files and release memory. */
extern void hm_spool_end(HmSpool *spool);

#endif							/* HARMONIA_BUILDSORT_H */
