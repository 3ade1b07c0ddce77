/*
 * shared_cuts.c
 *		Dividing sorted runs of outer rows into partitions of about the same size.
 *
 * A sample of all keys says where a partition ends.  In each run the probes before that key are
 * found by binary search.  Of probes with that very key, as many go to the partition as it lacks: a
 * key that a quarter of all rows have is looked up by several processes.
 */
#include "postgres.h"

#include "exec/shared_rows.h"

/* How many keys the sample has for each partition. */
#define SAMPLE 16

static int
compare_keys(const void *a, const void *b)
{
	HmKey x = *(const HmKey *) a;
	HmKey y = *(const HmKey *) b;

	return (x > y) - (x < y);
}

/* A sorted sample, with the same share of each run's keys.  Returns their number. */
static uint32
sample_runs(const SharedRun *const *runs, uint32 count, Size key_size, uint64 step, HmKey *sample)
{
	uint32 size = 0;

	for (uint32 i = 0; i < count; i++)
	{
		for (uint64 j = Min(step / 2, runs[i]->probes / 2); j < runs[i]->probes; j += step)
			sample[size++] = hm_key_get(hm_shared_run_at(runs[i], runs[i]->keys), key_size, j);
	}
	qsort(sample, size, sizeof(HmKey), compare_keys);
	return size;
}

/* How many probes of a run are below a key; or, with_equal, not above it. */
static uint32
probes_below(const SharedRun *run, Size key_size, HmKey key, bool with_equal)
{
	const void *keys = hm_shared_run_at(run, run->keys);
	uint32 low = 0;
	uint32 high = run->probes;

	while (low < high)
	{
		uint32 middle = low + (high - low) / 2;
		HmKey other = hm_key_get(keys, key_size, middle);

		if (other < key || (with_equal && other == key))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Cut all runs at a key, so that, if possible, "wanted" probes are before the cut. */
static void
cut_at(const SharedRun *const *runs, uint32 count, Size key_size, HmKey key, uint64 wanted,
	   uint32 *cut)
{
	uint64 before = 0;

	for (uint32 i = 0; i < count; i++)
	{
		cut[i] = probes_below(runs[i], key_size, key, false);
		before += cut[i];
	}
	for (uint32 i = 0; i < count && before < wanted; i++)
	{
		uint64 equal = probes_below(runs[i], key_size, key, true) - cut[i];
		uint64 more = Min(equal, wanted - before);

		cut[i] += (uint32) more;
		before += more;
	}
}

void
hm_shared_rows_cut(const SharedRun *const *runs, uint32 count, Size key_size, uint32 partitions,
				   uint32 *cuts)
{
	uint64 probes = 0;
	uint64 step;
	HmKey *sample;
	uint32 sampled;

	for (uint32 i = 0; i < count; i++)
	{
		probes += runs[i]->probes;
		cuts[i] = 0;
		cuts[(Size) partitions * count + i] = runs[i]->probes;
	}
	step = Max(1, probes / ((uint64) partitions * SAMPLE));
	sample = palloc_extended((probes / step + count + 1) * sizeof(HmKey), MCXT_ALLOC_HUGE);
	sampled = sample_runs(runs, count, key_size, step, sample);
	for (uint32 i = 1; i < partitions; i++)
	{
		uint32 *cut = cuts + (Size) i * count;

		if (sampled == 0)
			memset(cut, 0, count * sizeof(uint32));
		else
			cut_at(runs, count, key_size, sample[(uint64) i * sampled / partitions],
				   i * probes / partitions, cut);
	}
	pfree(sample);
}
