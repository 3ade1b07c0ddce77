/*
 * harmonia_device.h
 *		Devices that search copies of indexes for many keys at once.
 *
 * This header is everything that this folder offers to the daemon.  It depends on
 * src/tree and does not use PostgreSQL.  There are two kinds of device: CUDA, and the
 * host device, which runs the same traversal code on the CPU.  The host device serves
 * tests and machines without a GPU.
 *
 * A copy of an index consists of two things.  The first is a mirror of the index's
 * blocks, byte by byte; only leaf pages are ever read.  The second is a set of inner
 * levels over the list of leaves, in pure Harmonia layout over all segments.  Whenever that
 * list changes, they are rebuilt from the first changed leaf on.  They consist of the
 * key region in breadth-first order, and of a child region that needs no array: every
 * node but the last of a level is full, so the number of the first node of each level
 * determines it.
 *
 * Only one thread at a time may use a device and its indexes; it need not always be the same.
 * Several threads may use several devices at the same time.  A device that is opened several times
 * has as many *lanes*, each with a stream and with memory for batches of its own: then several
 * threads may search its indexes at the same time, with hd_index_search_on().  Calls return when
 * all work is done.  They return a status and never exit; hd_device_error() gives the reason.
 * After HD_FAILED the only valid call is to close the device.
 */
#ifndef HARMONIA_CUDA_DEVICE_H
#define HARMONIA_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

#include "../src/tree/tree.h"

	typedef enum HdStatus
	{
		HD_OK,
		HD_UNSUPPORTED, /* no such device, or not compiled in */
		HD_INVALID,     /* the caller's mistake; nothing was done */
		HD_NO_MEMORY,   /* of the device or the host */
		HD_ABANDONED,   /* HdGoesOn said so; what the call was to write is undefined, all else is as
						 * before */
		HD_FAILED       /* the device failed */
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
		HdKind kind;
		char name[256];
		uint64_t memory; /* total and unused bytes; 0 if unknown */
		uint64_t memory_free;
		bool maps_host; /* copies can have blocks in the host's memory */
	} HdInfo;

/* ----------------------------------------------------------------
 *		Devices
 * ----------------------------------------------------------------
 */

/*
 * The number of devices of a kind.  There is one host device, but each number below HD_MAX_DEVICES
 * opens another one, so that tests can have several.
 */
#define HD_MAX_DEVICES 16
	extern int hd_device_count(HdKind kind);

	/*
 * Open device "number" of a kind.  Unless the status is HD_NO_MEMORY, *device is set
 * even on failure, so that hd_device_error() can give the reason; the caller then
 * closes it.
 */
	extern HdStatus hd_device_open(HdKind kind, int number, HdDevice **device);

	/* Close a device.  Free its indexes first.  NULL is allowed. */
	extern void hd_device_close(HdDevice *device);

	/* Get the device's kind, name and memory. */
	extern HdStatus hd_device_info(HdDevice *device, HdInfo *info);

	/*
 * Pin host memory that will hold pages and batches; this makes transfers to and from it
 * faster.  The memory can be used even if pinning fails.  On the host device pinning does
 * nothing.  Unpin memory before unmapping it.  Unpinning memory that is not pinned
 * returns HD_INVALID.  Memory is pinned for all devices of a kind.
 *
 * Any thread may call these at any time; hd_device_error() does not tell why they fail.
 */
	extern HdStatus hd_device_pin(HdDevice *device, void *memory, size_t size);
	extern HdStatus hd_device_unpin(HdDevice *device, void *memory);

	/*
 * Memory that the device keeps from batch to batch, in bytes, and freeing it.  The next batch
 * takes as much as it needs.
 */
	extern uint64_t hd_device_batch_memory(const HdDevice *device);
	extern void hd_device_free_batch_memory(HdDevice *device);

/*
 * Devices call this during a search, and while they wait for other work, about every
 * HD_TICK_MS.  If it returns false, nobody wants the result any longer: the call ends
 * within some milliseconds with HD_ABANDONED.
 */
#define HD_TICK_MS 5
	typedef bool (*HdGoesOn)(void *argument);

	/* Set what is called; NULL: nothing. */
	extern void hd_device_set_goes_on(HdDevice *device, HdGoesOn goes_on, void *argument);

	/* The reason for the last failure; valid until the next call. */
	extern const char *hd_device_error(const HdDevice *device);

/* ----------------------------------------------------------------
 *		Indexes
 * ----------------------------------------------------------------
 */

/*
 * Searches are compiled for this fanout of inner nodes.  Other fanouts work, but more
 * slowly.
 */
#define HD_DEFAULT_FANOUT 64

/*
 * The smallest unit of a block that can be written.  The number of a line is block * 64
 * + its index in the block.
 */
#define HD_LINE_SIZE 128

	/* A leaf of the list: its low bound and its block. */
	typedef struct HdLeaf
	{
		HtEntry low; /* no entry of the leaf is below this */
		uint32_t block;
	} HdLeaf;

	/* The same for an index with wide keys: the lowest word of the key comes first. */
	typedef struct HdWideLeaf
	{
		uint64_t low_key[2];
		uint64_t low_tid;
		uint32_t block;
	} HdWideLeaf;

	/*
 * Create an index without blocks and leaves; HT_MIN_FANOUT <= fanout <= HT_MAX_FANOUT.  The
 * width is 32, 64 or 128 bits.  The caller frees the index before it closes the device.
 */
	extern HdStatus hd_index_create(HdDevice *device, HtWidth width, int fanout, HdIndex **index);
	extern void hd_index_free(HdIndex *index);

	/*
 * Make room for this many blocks in total and keep the existing ones.  A large copy on a GPU
 * grows where it is, if the driver can do that; otherwise, while blocks move to a larger
 * allocation, the old and the new one both take memory.  Never shrinks.  New blocks are zeros.
 *
 * With on_host, which needs HdInfo.maps_host, new blocks are in the host's memory, pinned: a GPU
 * reads them over the bus.
 */
	extern HdStatus hd_index_reserve(HdIndex *index, uint32_t blocks, bool on_host);

	/*
 * Write blocks: pages[i] becomes block numbers[i].  Pages have HT_PAGE_SIZE bytes each
 * and lie one after the other.  Each number is below the reserved count and occurs once.
 */
	extern HdStatus hd_index_write(HdIndex *index, const uint32_t *numbers, const void *pages,
								   uint32_t count);

	/* The same for lines.  Only lines of the first 2^26 blocks have a number. */
	extern HdStatus hd_index_write_lines(HdIndex *index, const uint32_t *numbers, const void *lines,
										 uint32_t count);

/* An index has at most so many leaves (64 GB). */
#define HD_MAX_LEAVES (1 << 23)

	/*
 * Set the list of leaves, in key order: low bounds must not descend.  The low bound of
 * the first leaf is not used.  List only leaves with keys, not those with NULLs.  A list
 * of more than HD_MAX_LEAVES is refused with HD_NO_MEMORY.
 */
	extern HdStatus hd_index_set_leaves(HdIndex *index, const HdLeaf *leaves, uint32_t count);

	/* The same for an index with keys of 128 bits. */
	extern HdStatus hd_index_set_wide_leaves(HdIndex *index, const HdWideLeaf *leaves,
											 uint32_t count);

	/*
 * A leaf that the list does not have yet, or has with other bounds.  It takes the place of all
 * leaves whose low bound is not below its own one, and is below "high".
 */
	typedef struct HdNewLeaf
	{
		HtEntry low;
		HtEntry high; /* above all entries of the leaf */
		uint32_t block;
		uint32_t is_last; /* 1: the leaf has no high bound; 0 otherwise */
	} HdNewLeaf;

	/*
 * Change the list of leaves by new ones, which come in key order and do not overlap.  The
 * first leaf of an index has the least low bound there is, 0 and 0.  There may not be more
 * leaves than reserved blocks.  To do this twice is to do it once.
 */
	extern HdStatus hd_index_add_leaves(HdIndex *index, const HdNewLeaf *leaves, uint32_t count);

	/* The same for an index with keys of 128 bits; the lowest word of a key comes first. */
	typedef struct HdWideNewLeaf
	{
		uint64_t low_key[2];
		uint64_t low_tid;
		uint64_t high_key[2];
		uint64_t high_tid;
		uint32_t block;
		uint32_t is_last;
	} HdWideNewLeaf;

	extern HdStatus hd_index_add_wide_leaves(HdIndex *index, const HdWideNewLeaf *leaves,
											 uint32_t count);

	/* Memory that the index takes on the device, and on the host beyond that, in bytes. */
	extern uint64_t hd_index_memory(const HdIndex *index);
	extern uint64_t hd_index_host_memory(const HdIndex *index);

/* ----------------------------------------------------------------
 *		Batches
 * ----------------------------------------------------------------
 */

/* Value of HdBatch.psa_bits: the device chooses. */
#define HD_AUTOMATIC (-1)

/* Value of HdBatch.psa_bits: probes are searched in the order in which they come. */
#define HD_UNSORTED 0

	/*
 * A batch of probes.  Keys are normalised and as wide as the index's: uint32_t,
 * uint64_t or HtKey128.  Without "high" probes are points.  Otherwise they are ranges that include
 * both bounds; a range with low above high matches nothing.  Probes may come in any
 * order and may be duplicates.
 *
 * All arrays are in host memory or, with on_device, in device memory.
 *
 * Hits are (probe number, tid) pairs.  They are written to probes and tids, which have room for
 * "room" entries each.  The hits of one probe are adjacent; otherwise the order is undefined.
 * HdResult.hits becomes the number of all hits.  If it is above room, some hits are missing, and
 * the caller can call again with more room.
 */
	typedef struct HdBatch
	{
		const void *low;
		const void *high; /* NULL: points */
		uint32_t count;
		bool on_device;
		bool pinned; /* all arrays are in memory that hd_device_pin() has pinned, for any device */

		/* Equal points count as one: only one of them, any of them, gets hits. */
		bool distinct;

		uint32_t *probes; /* NULL: return only the tids */
		uint64_t *tids;
		uint64_t room;

		/*
	 * Ranges with probes, without a map and not by_block: the key of each hit, as wide as the
	 * index's, with room for as many; or NULL.  (The key of a point's hit is the point.)
	 */
		void *keys;

		/*
	 * Heap pages whose hits are only counted: a bit for each page, the lowest bit of a
	 * word first.  Other hits, and those with tids that no heap can have,
	 * are returned; there are HdResult.hits - HdResult.counted of them.  With probes, hits
	 * are counted for each probe, in counts; these are not set if there are no hits, or more
	 * than room.  The hits of one probe are then not adjacent.
	 */
		const uint32_t *map;
		uint32_t map_pages; /* 0: no map, all tids are returned */
		uint32_t *counts;   /* for each probe; a map with probes */

		/*
	 * With probes and without a map: return hits in the order of heap blocks, that is, of tids
	 * without their lowest 16 bits.  The hits of one probe are then not adjacent.
	 */
		bool by_block;

		/*
	 * The number of top bits of the key range in use to sort by; the order by the lower ones of
	 * these bits may be incomplete.  HD_AUTOMATIC is best.
	 */
		int psa_bits;

		/*
	 * The number of threads that search for a probe together: 1, and for points that are not
	 * distinct up to 32, a power of two.  0: the device chooses, for each batch by its own probes.
	 * The papers' NTG.
	 */
		int threads;
	} HdBatch;

	typedef struct HdResult
	{
		uint64_t hits;    /* the number of all hits */
		uint64_t counted; /* of these, how many are on pages of the map; not set if there are more
						   * hits than room */
		int psa_bits;     /* what was used; 0: not sorted */
		int threads;      /* for each probe; 0: a GPU has searched a small batch in its own way */
		double sort_ms;   /* time on the device, without transfers of keys and hits */
		double search_ms;
		double hits_ms; /* what is done with hits after that: by a map, by block, their keys */
	} HdResult;

	/* Search a batch.  The result is complete when the call returns HD_OK. */
	extern HdStatus hd_index_search(HdIndex *index, const HdBatch *batch, HdResult *result);

	/*
 * The same on a lane: a device opened with the number of the index's one.  The lane keeps the
 * memory of the batch, has the HdGoesOn that is asked, and tells the error.  Threads may make such
 * calls for the same index at the same time, each with another lane.  Any other call for the index
 * waits until these have returned, and they for it. The caller sees to that.
 */
	extern HdStatus hd_index_search_on(HdDevice *lane, HdIndex *index, const HdBatch *batch,
									   HdResult *result);

/*
 * Can a batch be searched together with others of the same index, so that all of them take hardly
 * longer than one?  A GPU does that with few keys in pinned memory.  1: yes; no call for the index
 * has been made since that could change the answer.
 */
#define HD_TOGETHER_MAX 16

	extern int hd_index_joins(const HdIndex *index, const HdBatch *batch);

	/*
 * Search 1 to HD_TOGETHER_MAX batches that join, all of them points or all of them ranges, on a
 * lane; for the rest as hd_index_search_on().  If the status is not HD_OK, none of them has a
 * result.
 */
	extern HdStatus hd_index_search_together(HdDevice *lane, HdIndex *index, const HdBatch *batches,
											 int count, HdResult *results);

#ifdef __cplusplus
}
#endif

#endif /* HARMONIA_CUDA_DEVICE_H */
