/*
 * cpu.c
 *		Batches of keys on one thread of the CPU, with the tree engine and by brute
 *		force.
 */
#include "cpu.h"

/* The number of leaves that are prefetched at a time. */
#define AHEAD 64

/* Compiled for each of these instruction sets; chosen when the program starts. */
#ifdef __x86_64__
#define FOR_ALL_CPUS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_ALL_CPUS
#endif

/* Probes that lead to the same leaf. */
typedef struct Run
{
	const char *page;
	HtProbe *probes;
	uint32_t count;
} Run;

size_t
cpu_scratch_size(uint32_t count)
{
	return sizeof(HtPsa) + 2 * (size_t) count * sizeof(HtProbe);
}

/* The last leaf, not before "leaf", whose low key is not above a key. */
static uint32_t
find_leaf(const CpuTree *tree, uint32_t leaf, uint64_t key)
{
	uint32_t step = 1;
	uint32_t end;

	while (step < tree->leaves - leaf && tree->lows[leaf + step] <= key)
	{
		leaf += step;
		step *= 2;
	}
	end = step < tree->leaves - leaf ? leaf + step : tree->leaves;
	while (end - leaf > 1)
	{
		uint32_t middle = leaf + (end - leaf) / 2;

		if (tree->lows[middle] <= key)
			leaf = middle;
		else
			end = middle;
	}
	return leaf;
}

static uint32_t
search_runs(const HtSearch *search, const Run *runs, uint32_t count, HtHit *hits, uint32_t room)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		search->prefetch_separators(runs[i].page, runs[i].probes, runs[i].count);
	for (uint32_t i = 0; i < count; i++)
		search->prefetch_blocks(runs[i].page, runs[i].probes, runs[i].count, false);
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t found;

		search->points(runs[i].page, runs[i].probes, runs[i].count, hits + n, NULL, room - n,
					   &found);
		n += found;
	}
	return n;
}

uint32_t
cpu_search(const CpuTree *tree, const uint64_t *keys, uint32_t count, void *scratch, HtHit *hits)
{
	const HtSearch *search = ht_search(NULL);
	HtPsa *psa = scratch;
	HtProbe *probes = (HtProbe *) (psa + 1);
	uint32_t room = count + HT_LEAF_MAX_SLOTS;
	uint32_t hit_count = 0;
	uint32_t leaf = 0;
	uint32_t done = 0;
	Run runs[AHEAD];
	uint32_t run_count = 0;

	ht_psa_start(psa, keys, count, probes);
	while (done < count)
	{
		uint32_t sorted = ht_psa_more(psa, probes + count);

		while (done < sorted)
		{
			Run *run = &runs[run_count++];
			uint64_t end;

			leaf = find_leaf(tree, leaf, probes[done].key);
			end = leaf + 1 < tree->leaves ? tree->lows[leaf + 1] : UINT64_MAX;
			run->page = tree->pages + (size_t) tree->blocks[leaf] * HT_PAGE_SIZE;
			run->probes = probes + done;
			__builtin_prefetch(run->page + HT_PAGE_START);
			for (run->count = 1, done++; done < sorted && probes[done].key < end; done++)
				run->count++;
			if (run_count == AHEAD)
			{
				hit_count +=
					search_runs(search, runs, run_count, hits + hit_count, room - hit_count);
				run_count = 0;
			}
		}
	}
	return hit_count + search_runs(search, runs, run_count, hits + hit_count, room - hit_count);
}

FOR_ALL_CPUS
uint32_t
cpu_scan32(const uint32_t *keys, uint32_t count, uint32_t key)
{
	uint32_t behind = 0;

	for (uint32_t i = 0; i < count; i++)
		behind |= keys[i] == key ? i + 1 : 0;
	return behind == 0 ? count : behind - 1;
}

FOR_ALL_CPUS
uint32_t
cpu_scan64(const uint64_t *keys, uint32_t count, uint64_t key)
{
	uint64_t behind = 0;

	for (uint64_t i = 0; i < count; i++)
		behind |= keys[i] == key ? i + 1 : 0;
	return behind == 0 ? count : (uint32_t) behind - 1;
}
