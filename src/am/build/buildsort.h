/*
 * buildsort.h
 *		Spools: they collect a build's entries and give them back in order.  Shared by
 *		buildsort.c, which implements them, and buildscan.c, which fills them; no other
 *		file includes this one.
 */
#ifndef HARMONIA_BUILDSORT_H
#define HARMONIA_BUILDSORT_H

#include "access/tableam.h"
#include "storage/buffile.h"

#include "am/build/build.h"

typedef struct HmSpool
{
	/* Room in the current piece; only hm_spool_add() looks at these. */
	HtEntry    *next;
	HtEntry    *end;

	struct HmSpoolState *state;
} HmSpool;

/*
 * Make an empty spool.  It uses at most memory bytes, or some 200 kB if that is more, and
 * allocates in context.
 */
extern void hm_spool_init(HmSpool *spool, MemoryContext context, Size memory);

/* Make room for another entry.  For hm_spool_add() only. */
extern void hm_spool_make_room(HmSpool *spool);

/* Add an entry. */
static inline void
hm_spool_add(HmSpool *spool, HT_KEY key, uint64 tid)
{
	if (unlikely(spool->next == spool->end))
		hm_spool_make_room(spool);
	spool->next->key = key;
	spool->next->tid = tid;
	spool->next++;
}

/*
 * Sort what has been added and is not sorted yet.  After that, only runs may be added, no
 * entries.
 */
extern void hm_spool_sort(HmSpool *spool);

/*
 * Add a run: the n entries at the beginning of a file, which are in order.  The spool
 * takes the file over, and closes it when it has been read.  Only after hm_spool_sort().
 */
extern void hm_spool_add_run(HmSpool *spool, BufFile *file, uint64 n);

/*
 * Whether hm_spool_merge() has to merge runs on disk before the first entry
 * can be read.
 */
extern bool hm_spool_needs_merge(HmSpool *spool);

/* Begin to read.  Only after hm_spool_sort(). */
extern void hm_spool_merge(HmSpool *spool);

/* The number of all entries, read already or not.  Only after hm_spool_sort(). */
extern uint64 hm_spool_count(HmSpool *spool);

/*
 * Read the next entries in order.  Returns how many were written to out; less than max
 * only at the end.  Only after hm_spool_merge().
 */
extern uint64 hm_spool_read(HmSpool *spool, HtEntry *out, uint64 max);

/* Append all entries that have not been read to a file.  Only after hm_spool_merge(). */
extern void hm_spool_write(HmSpool *spool, BufFile *file);

/* Close files and release memory. */
extern void hm_spool_end(HmSpool *spool);

/* ----------------------------------------------------------------
 *		All entries of a build (buildscan.c)
 * ----------------------------------------------------------------
 */
typedef struct HmBuildSort HmBuildSort;

/*
 * Scan the heap, alone or with parallel workers (info->ii_ParallelWorkers), and sort all
 * its entries within maintenance_work_mem; what exceeds it goes to temporary files.
 * Reports progress up to the phase of writing, and the number of tuples to be written.
 * *heap_tuples and *index_tuples are what ambuild returns.  Until hm_build_sort_end() the
 * backend may be in parallel mode, in which it must not assign transaction or command
 * ids.
 */
extern HmBuildSort *hm_build_sort(Relation heap, Relation index, IndexInfo *info,
								  double *heap_tuples, double *index_tuples);

/* The number of all entries of the key part or, if nulls is true, of the NULL part. */
extern uint64 hm_build_sort_count(HmBuildSort *sort, bool nulls);

/*
 * Read the next entries of the key part or, if nulls is true, of the NULL part, in order.
 * Returns how many were written to out; less than max only at the end.
 */
extern uint64 hm_build_sort_read(HmBuildSort *sort, bool nulls, HtEntry *out, uint64 max);

/* Free everything, delete temporary files and leave parallel mode. */
extern void hm_build_sort_end(HmBuildSort *sort);

/* ----------------------------------------------------------------
 *		Reading mostly all-visible tables for a build (buildheap.c)
 * ----------------------------------------------------------------
 */
extern bool hm_build_scans_pages(Relation heap, IndexInfo *info);
extern double hm_build_scan_pages(Relation heap, Relation index, IndexInfo *info, bool progress,
								  IndexBuildCallback callback, void *arg);

#endif							/* HARMONIA_BUILDSORT_H */
