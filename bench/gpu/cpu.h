/*
 * cpu.h
 *		What a CPU does against which devices are measured.
 */
#ifndef HARMONIA_BENCH_CPU_H
#define HARMONIA_BENCH_CPU_H

#ifdef __cplusplus
extern "C" {
#endif

#include "../../src/tree/tree.h"

/* Leaf pages in memory, in key order; no key is in there twice. */
typedef struct CpuTree
{
	HtWidth		width;
	const char *pages;
	const uint32_t *blocks;		/* of the leaves */
	const uint64_t *lows;		/* what they begin with */
	uint32_t	leaves;
} CpuTree;

/* Bytes of scratch that cpu_search() wants for so many keys. */
extern size_t cpu_scratch_size(uint32_t count);

/*
 * Look a batch of keys up with the tree engine as src/lookup does, though in pages that
 * need no pins: sort the keys (PSA), then visit each leaf once, fetched into the cache
 * ahead.  Returns the number of hits, of which there is room for count and a block's.
 */
extern uint32_t cpu_search(const CpuTree *tree, const uint64_t *keys, uint32_t count,
						   void *scratch, HtHit *hits);

/* Compare all of some keys with one: the rank of the one that is equal, or count. */
extern uint32_t cpu_scan32(const uint32_t *keys, uint32_t count, uint32_t key);
extern uint32_t cpu_scan64(const uint64_t *keys, uint32_t count, uint64_t key);

#ifdef __cplusplus
}
#endif

#endif							/* HARMONIA_BENCH_CPU_H */
