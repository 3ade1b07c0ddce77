/*
 * harmonia_device.h
 *		Devices that search copies of indexes for many keys at once.
 *
 * This is all that the folder offers the daemon.  It stands on src/tree and knows
 * nothing of PostgreSQL.  There are two kinds of device: CUDA, and the host, which
 * runs the same traversal on the CPU, for tests and machines without a GPU.
 *
 * An index on a device is a mirror of the index's blocks, byte by byte, of which only
 * leaf pages are ever looked at, and inner levels over the list of its leaves.  These
 * are rebuilt from scratch, in pure Harmonia layout over all segments, whenever the
 * list changes: they are the key region in breadth-first order, and a child region
 * which, as every node but the last of a level is full, is known from the number of
 * the first node of each level.
 *
 * A device and its indexes are used by one thread at a time.  Calls return when
 * all is done.  They return a status and never exit; hd_device_error() says more.
 * After HD_FAILED the device is of no more use, but to be closed.
 */
#ifndef HARMONIA_CUDA_DEVICE_H
#define HARMONIA_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "../src/tree/tree.h"

typedef enum HdStatus
{
	HD_OK,
	HD_UNSUPPORTED,				/* no such device, or not compiled in */
	HD_INVALID,					/* the caller's mistake; nothing was done */
	HD_NO_MEMORY,				/* of the device or the host */
	HD_FAILED					/* the device failed */
} HdStatus;

typedef enum HdKind
{
	HD_HOST,
	HD_CUDA
} HdKind;

typedef struct HdDevice HdDevice;
typedef struct HdIndex HdIndex;

typedef struct HdInfo
{
	HdKind		kind;
	char		name[256];
	uint64_t	memory;			/* bytes in all and not in use; 0 if unknown */
	uint64_t	memory_free;
} HdInfo;

/* ----------------------------------------------------------------
 *		Devices
 * ----------------------------------------------------------------
 */

/* Devices of a kind. */
extern int	hd_device_count(HdKind kind);

/*
 * Open device "number" of a kind.  *device is set even if the status is not HD_OK,
 * unless it is HD_NO_MEMORY, so that hd_device_error() can tell why; close it then.
 */
extern HdStatus hd_device_open(HdKind kind, int number, HdDevice **device);

/* Close a device, NULL included, whose indexes have been freed. */
extern void hd_device_close(HdDevice *device);

extern HdStatus hd_device_info(HdDevice *device, HdInfo *info);

/*
 * Pin memory of the host that pages and batches will be in, so that transfers from
 * and to there are quicker.  If that fails, which does no harm, and on the host device, it
 * can be used all the same.  Unpin it before it is unmapped; doing so for memory that was
 * not pinned is HD_INVALID.
 */
extern HdStatus hd_device_pin(HdDevice *device, void *memory, size_t size);
extern HdStatus hd_device_unpin(HdDevice *device, void *memory);

/* What went wrong last; valid until the next call. */
extern const char *hd_device_error(const HdDevice *device);

/* ----------------------------------------------------------------
 *		Indexes
 * ----------------------------------------------------------------
 */

/* The fanout of inner nodes that searches are compiled for; others work too. */
#define HD_DEFAULT_FANOUT	64

/* The smallest part of a block that can be written: its number is block * 64 + place. */
#define HD_LINE_SIZE		128

/* Where a leaf begins and which block it is. */
typedef struct HdLeaf
{
	HtEntry		low;			/* no entry of the leaf is below this */
	uint32_t	block;
} HdLeaf;

/*
 * Create an index without blocks and leaves; HT_MIN_FANOUT <= fanout <=
 * HT_MAX_FANOUT.  Free it before its device is closed.
 */
extern HdStatus hd_index_create(HdDevice *device, HtWidth width, int fanout, HdIndex **index);
extern void hd_index_free(HdIndex *index);

/*
 * Make room for so many blocks, keeping those that are there.  While blocks move to
 * larger room both take memory.  Never shrinks.  New blocks are zeros.
 */
extern HdStatus hd_index_reserve(HdIndex *index, uint32_t blocks);

/*
 * Write blocks: pages[i], HT_PAGE_SIZE bytes each, one after the other, becomes block
 * numbers[i], which is below what was reserved.  No number comes twice.
 */
extern HdStatus hd_index_write(HdIndex *index, const uint32_t *numbers, const void *pages,
							   uint32_t count);

/* The same for lines, in the first 2^26 blocks. */
extern HdStatus hd_index_write_lines(HdIndex *index, const uint32_t *numbers, const void *lines,
									 uint32_t count);

/*
 * Set the leaves in key order: their low bounds do not descend.  The first one's
 * bound is of no importance.  Only leaves with keys, not those of NULLs.  Leaves with room
 * for 2^32 entries (49 GB of keys of 32 bits) are more than fit.
 */
extern HdStatus hd_index_set_leaves(HdIndex *index, const HdLeaf *leaves, uint32_t count);

/* Bytes that the index takes on the device. */
extern uint64_t hd_index_memory(const HdIndex *index);

/* ----------------------------------------------------------------
 *		Batches
 * ----------------------------------------------------------------
 */

typedef enum HdOutput
{
	HD_PAIRS,					/* all hits, as (probe number, tid) pairs */
	HD_FIRST,					/* for each probe the tid of its lowest entry, 0 if
								 * there is none; points only */
	HD_COUNT					/* for each probe the number of its hits */
} HdOutput;

/* HdBatch.psa_bits and threads */
#define HD_AUTOMATIC	(-1)

/* A device that is asked to sort by none of the bits leaves probes as they come. */
#define HD_UNSORTED		0

/*
 * A batch of probes: normalised keys as wide as the index's, uint32_t or uint64_t.
 * Without "high" they are points, otherwise ranges, both bounds included; one with
 * low above high matches nothing.  Any order, duplicates included.
 *
 * All arrays are in host memory or, with on_device, in the device's.
 *
 * Pairs: hits go to probes and tids, of room entries each, those of one probe one
 * after the other and else in any order.  *hits becomes the number of all hits there
 * are; if that is above room, some are missing, and a call with more room will
 * do.
 */
typedef struct HdBatch
{
	const void *low;
	const void *high;			/* NULL: points */
	uint32_t	count;
	bool		on_device;

	/*
	 * Points that are equal count as one of them, whichever; pairs only.  Single
	 * threads search them.
	 */
	bool		distinct;

	HdOutput	output;
	uint32_t   *probes;			/* HD_PAIRS; NULL: only the tids of the pairs are
								 * wanted */
	uint64_t   *tids;			/* HD_PAIRS: room, HD_FIRST: count entries */
	uint32_t   *counts;			/* HD_COUNT: count entries */
	uint64_t	room;

	/*
	 * How it is done: sort by so many of the top bits of the key range in use, if
	 * perhaps not completely by the lower ones, let so many threads search together
	 * (1, 2, 4 ... 32).  HD_AUTOMATIC is best.
	 */
	int			psa_bits;
	int			threads;
	HtGroupSearch group_search; /* unless threads is HD_AUTOMATIC */
	bool		timed;			/* fill in the times */
} HdBatch;

typedef struct HdResult
{
	uint64_t	hits;			/* HD_PAIRS only: all there are */
	int			psa_bits;		/* what was done */
	HtGroupChoice group;
	double		sort_ms;		/* on the device, without transfers; zeros unless */
	double		search_ms;		/* timed */
	double		restore_ms;		/* way back to probe order */
} HdResult;

/* Search. */
extern HdStatus hd_index_search(HdIndex *index, const HdBatch *batch, HdResult *result);

#ifdef __cplusplus
}
#endif

#endif							/* HARMONIA_CUDA_DEVICE_H */
