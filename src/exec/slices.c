/*
 * slices.c
 *		Dividing the keys of a parallel lookup scan among its processes.
 *
 * The range of all possible keys is cut into slices, so that each has about as much of what
 * the scan looks up.  A process claims a run of slices, looks up what it has to in there,
 * and then claims the next run.  So each key is looked up once, however often it is in an
 * array, and a process that starts late or is slow claims less.
 *
 * Each process evaluates the scan's conditions for itself.  The keys are the same
 * everywhere, but their order may differ: an array may come from a stable function that
 * reads a table.  So a slice is not defined by places in an array, but by bounds, which
 * are in shared memory.  A process that finds none there computes some, and offers them.
 * The first offer is taken.  So no process waits for another one.
 */
#include "postgres.h"

#include "port/atomics.h"

#include "exec/nodes.h"

/* How many keys of an array are looked at for each slice. */
#define SAMPLE 4

struct HmSlices
{
	int processes;                                  /* the leader, and all workers that may start */
	pg_atomic_uint32 chosen;                        /* number of the offer that was taken, plus 1; 0
													 * if there is none yet */
	pg_atomic_uint32 next;                          /* the first slice that is not claimed */
	HmKey offers[FLEXIBLE_ARRAY_MEMBER][HM_SLICES]; /* of each process: the first keys of slices */
};

Size
hm_slices_size(int processes)
{
	return offsetof(HmSlices, offers) + processes * sizeof(HmKey[HM_SLICES]);
}

void
hm_slices_init(HmSlices *slices, int processes)
{
	slices->processes = processes;
	pg_atomic_init_u32(&slices->chosen, 0);
	pg_atomic_init_u32(&slices->next, 0);
}

void
hm_slices_reset(HmSlices *slices)
{
	hm_slices_init(slices, slices->processes);
}

const HmKey *
hm_slices_bounds(HmSlices *slices)
{
	uint32 chosen = pg_atomic_read_u32(&slices->chosen);

	if (chosen == 0)
		return NULL;
	pg_read_barrier();
	return slices->offers[chosen - 1];
}

const HmKey *
hm_slices_offer(HmSlices *slices, const HmKey *bounds)
{
	uint32 number = IsParallelWorker() ? (uint32) ParallelWorkerNumber + 1 : 0;
	uint32 chosen = 0;

	memcpy(slices->offers[number], bounds, sizeof(HmKey[HM_SLICES]));

	/* This is a full barrier: a process that sees the number sees the bounds, too. */
	pg_atomic_compare_exchange_u32(&slices->chosen, &chosen, number + 1);
	return hm_slices_bounds(slices);
}

bool
hm_slices_claim(HmSlices *slices, HmKey *low, HmKey *high)
{
	const HmKey *bounds = hm_slices_bounds(slices);
	uint32 next = pg_atomic_read_u32(&slices->next);
	uint32 end;

	do
	{
		do
		{
			uint32 run = (uint32) hm_next_run(HM_SLICES, next, slices->processes);

			if (next == HM_SLICES)
				return false;
			end = Min(next + Max(run, 1), HM_SLICES);
		} while (!pg_atomic_compare_exchange_u32(&slices->next, &next, end));
		*low = bounds[next];
		*high = end == HM_SLICES ? HM_KEY_MAX : bounds[end] - 1;
		next = end;

		/* Of slices that begin with the same key, all but the last are empty. */
	} while (end < HM_SLICES && bounds[end] == *low);
	return true;
}

/* ----------------------------------------------------------------
 *		Bounds
 * ----------------------------------------------------------------
 */

void
hm_slices_divide_keys(HmSlices *slices, const void *keys, Size key_size, uint32 count)
{
	HmKey sample[SAMPLE * HM_SLICES];
	HmKey bounds[HM_SLICES];
	uint32 sampled;

	if (hm_slices_bounds(slices) != NULL)
		return;
	sampled = hm_sample_keys(keys, key_size, count, sample, lengthof(sample));
	for (uint32 i = 0; i < HM_SLICES; i++)
		bounds[i] = sample[i * sampled / HM_SLICES];

	/* Keys that are not in the sample may be below it. */
	bounds[0] = 0;
	hm_slices_offer(slices, bounds);
}

/*
 * Cut ranges where segments of the index begin.  Segments have similar numbers of entries,
 * so a piece that is a whole segment is as much work as another one.  Returns the number
 * of pieces.
 */
static uint32
cut_at_segments(Relation index, const void *low, const void *high, Size key_size, uint32 count,
				HmRange **pieces)
{
	int segment_count;
	HmKey *segments = hm_lookup_bounds(index, &segment_count);
	uint32 made = 0;
	int next = 0;

	*pieces = palloc(((Size) count + segment_count) * sizeof(HmRange));
	for (uint32 i = 0; i < count; i++)
	{
		HmKey start = hm_key_get(low, key_size, i);
		HmKey end = hm_key_get(high, key_size, i);

		for (; next < segment_count && segments[next] <= end; next++)
		{
			if (segments[next] <= start)
				continue;
			(*pieces)[made++] = (HmRange){HM_PART_KEYS, start, segments[next] - 1};
			start = segments[next];
		}
		(*pieces)[made++] = (HmRange){HM_PART_KEYS, start, end};
	}
	pfree(segments);
	return made;
}

void
hm_slices_of_ranges(Relation index, const void *low, const void *high, Size key_size, uint32 count,
					HmKey *bounds)
{
	HmRange *pieces = NULL;
	double pieces_per_slice;

	/* A few ranges may have any number of rows.  Many are taken to have equal numbers. */
	if (count < HM_SLICES)
		count = cut_at_segments(index, low, high, key_size, count, &pieces);
	pieces_per_slice = (double) count / HM_SLICES;
	for (uint32 i = 0; i < HM_SLICES; i++)
	{
		double place = i * pieces_per_slice;
		uint32 piece = (uint32) place;
		HmKey first = pieces != NULL ? pieces[piece].low : hm_key_get(low, key_size, piece);
		HmKey last = pieces != NULL ? pieces[piece].high : hm_key_get(high, key_size, piece);

		bounds[i] = first + (HmKey) ((double) (last - first) * (place - piece));
	}
	bounds[0] = 0;
	if (pieces != NULL)
		pfree(pieces);
}

uint32
hm_slices_cut(const HmKey *bounds, void **low, void **high, Size key_size, uint32 count)
{
	Size room = ((Size) count + HM_SLICES) * key_size;
	void *new_low = palloc_extended(room, MCXT_ALLOC_HUGE);
	void *new_high = palloc_extended(room, MCXT_ALLOC_HUGE);
	uint32 made = 0;
	uint32 next = 0;

	for (uint32 i = 0; i < count; i++)
	{
		HmKey start = hm_key_get(*low, key_size, i);
		HmKey end = hm_key_get(*high, key_size, i);

		for (; next < HM_SLICES && bounds[next] <= end; next++)
		{
			if (bounds[next] <= start)
				continue;
			hm_key_put(new_low, key_size, made, start);
			hm_key_put(new_high, key_size, made++, bounds[next] - 1);
			start = bounds[next];
		}
		hm_key_put(new_low, key_size, made, start);
		hm_key_put(new_high, key_size, made++, end);
	}
	pfree(*low);
	pfree(*high);
	*low = new_low;
	*high = new_high;
	return made;
}
