/*
 * cpu.h
 *		Searches on the CPU, which devices are measured against.
 */
#ifndef HARMONIA_BENCH_CPU_H
#define HARMONIA_BENCH_CPU_H

#ifdef __cplusplus
extern "C"
{
#endif

#include "../../src/tree/tree.h"

	/* Leaf pages in memory, in key order, without duplicate keys. */
	typedef struct CpuTree
	{
		const char *pages;
		const uint32_t *blocks; /* of the leaves */
		const uint64_t *lows;   /* their low keys */
		uint32_t leaves;
	} CpuTree;

	/* The size of cpu_search()'s scratch memory for this many keys, in bytes. */
	extern size_t cpu_scratch_size(uint32_t count);

	/*
 * Look up a batch of keys with the tree engine as src/lookup does, but in pages that
 * need no pins: sort the keys (PSA), then visit each leaf once, after it was
 * prefetched.  Returns the number of hits. hits has room for count hits and those of
 * one more block.
 */
	extern uint32_t cpu_search(const CpuTree *tree, const uint64_t *keys, uint32_t count,
							   void *scratch, HtHit *hits);

	/* Compare a key with all keys.  Returns the rank of the equal one, or count. */
	extern uint32_t cpu_scan32(const uint32_t *keys, uint32_t count, uint32_t key);
	extern uint32_t cpu_scan64(const uint64_t *keys, uint32_t count, uint64_t key);

#ifdef __cplusplus
}
#endif

#endif /* HARMONIA_BENCH_CPU_H */
