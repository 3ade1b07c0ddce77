/*
 * source_shared.c
 *		A source of probes: the rows of a parallel plan, which all its processes share.
 *
 * Each process reads its part of the outer rows, and adds them to what is shared, in the order of
 * their keys.  A batch is then a partition: the rows of all processes whose keys are in a range.
 * So the processes visit different leaves.  With 16 of them each visited nearly all leaves for its
 * part of the rows.
 *
 * If there is nothing that is shared, as in a plan without workers, this is source_rows.c.
 */
#include "postgres.h"

#include "utils/datum.h"

#include "am/fault.h"
#include "exec/lookup_node.h"
#include "exec/shared_rows.h"

/* Arrays in a run begin at multiples of this.  So do runs that are not small. */
#define ALIGNMENT 16
#define MIN_RUN 16384

/*
 * A run has so many rows, so that processes which are there first do not read more than they can
 * sort while the others do.
 */
#define RUN_ROWS 8192

static dsa_area *
area_of(const LookupNode *lookup)
{
	return lookup->node.css.ss.ps.state->es_query_dsa;
}

/* ----------------------------------------------------------------
 *		Adding rows
 * ----------------------------------------------------------------
 */

/* The batch's probes in the order of their keys.  The array is palloc'd. */
static uint32 *
sort_probes(const LookupProbes *probes)
{
	uint32 *order = palloc_extended(Max(1, probes->count) * sizeof(uint32), MCXT_ALLOC_HUGE);

	if (probes->key_size == sizeof(uint64))
		hm_order_keys(probes->low, probes->count, order);
	else
		hm_order_keys_128(probes->low, probes->count, order);
	return order;
}

/* Reserve bytes of a run for an array.  Returns where it begins. */
static Size
reserve(Size *size, Size bytes)
{
	Size start = TYPEALIGN(ALIGNMENT, *size);

	*size = start + bytes;
	return start;
}

/* A run's header for the batch. */
static SharedRun
plan_run(const LookupBatch *batch)
{
	const KeptRows *rows = &batch->rows;
	SharedRun run = {.size = sizeof(SharedRun), .rows = batch->count, .probes = batch->all.count};

	run.exact = batch->exact;
	run.keys = reserve(&run.size, run.probes * batch->all.key_size);
	run.values = reserve(&run.size, (Size) run.rows * rows->count * sizeof(Datum));
	if (rows->nulls != NULL)
		run.nulls = reserve(&run.size, (Size) run.rows * rows->null_words * sizeof(uint64));
	run.copies = reserve(&run.size, rows->references ? rows->copied : 0);
	return run;
}

/* Copy a kept row to a place of a run.  "used" bytes of the run's copies have been written. */
static void
put_row(SharedRun *run, const KeptRows *rows, uint32 place, uint32 row, Size *used)
{
	Datum *values = (Datum *) hm_shared_run_at(run, run->values) + (Size) place * rows->count;
	char *copies = hm_shared_run_at(run, run->copies);

	memcpy(values, rows->values + (Size) row * rows->count, rows->count * sizeof(Datum));
	if (run->nulls != 0)
		memcpy((uint64 *) hm_shared_run_at(run, run->nulls) + (Size) place * rows->null_words,
			   rows->nulls + (Size) row * rows->null_words, rows->null_words * sizeof(uint64));
	for (int i = 0; rows->references && i < rows->count; i++)
	{
		bool is_null;
		Datum value = hm_row_value(rows, row, i, &is_null);
		Size size;

		if (rows->columns[i].by_value || is_null)
			continue;
		size = datumGetSize(value, false, rows->columns[i].length);
		Assert(*used + MAXALIGN(size) <= run->size - run->copies);
		memcpy(copies + *used, DatumGetPointer(value), size);
		values[i] = (Datum) *used;
		*used += MAXALIGN(size);
	}
}

/* Copy the batch's rows that have no probe behind the others. */
static void
put_rows_without(SharedRun *run, const LookupBatch *batch, Size *used)
{
	uint32 place = run->probes;
	uint32 probe = 0;

	for (uint32 row = 0; row < batch->count && place < run->rows; row++)
	{
		if (probe < batch->all.count && hm_probe_row(&batch->all, probe) == row)
			probe++;
		else
			put_row(run, &batch->rows, place++, row, used);
	}
}

/* Make a run of the batch. */
static dsa_pointer
make_run(LookupNode *lookup)
{
	const LookupBatch *batch = &lookup->batch;
	const LookupProbes *all = &batch->all;
	SharedRun plan = plan_run(batch);
	dsa_pointer pointer =
		dsa_allocate_extended(area_of(lookup), Max(plan.size, MIN_RUN), DSA_ALLOC_HUGE);
	SharedRun *run = dsa_get_address(area_of(lookup), pointer);
	uint32 *order = sort_probes(all);
	Size used = 0;

	*run = plan;
	for (uint32 i = 0; i < run->probes; i++)
	{
		hm_key_put(hm_shared_run_at(run, run->keys), all->key_size, i,
				   hm_key_get(all->low, all->key_size, order[i]));
		if (batch->rows.count > 0)
			put_row(run, &batch->rows, i, hm_probe_row(all, order[i]), &used);
	}
	if (batch->rows.count > 0)
		put_rows_without(run, batch, &used);
	pfree(order);
	return pointer;
}

/* Share the batch's rows.  Returns false if that is not possible. */
static bool
share_batch(LookupNode *lookup)
{
	const LookupProbes *all = &lookup->batch.all;
	dsa_pointer run;

	if (!all->same_length)
		return false;
	run = make_run(lookup);
	if (hm_shared_rows_add(lookup->node.shared_rows, area_of(lookup), run, all->length))
		return true;
	dsa_free(area_of(lookup), run);
	return false;
}

/*
 * Add this process's rows to the generation.  A batch that cannot be shared is left.
 */
static void
add_rows(LookupNode *lookup)
{
	HmSharedRows *shared = lookup->node.shared_rows;
	bool failed = false;

	while (!failed && !lookup->outer_done && hm_shared_rows_has_room(shared))
	{
		hm_lookup_clear_batch(lookup);
		lookup->limit = Min(RUN_ROWS, lookup->max_limit);
		hm_rows_read(lookup);
		HM_FAULT(shared_rows_read);
		failed = lookup->batch.count > 0 && !share_batch(lookup);
	}
	if (!failed)
		hm_lookup_clear_batch(lookup);
	hm_shared_rows_leave(shared, area_of(lookup), lookup->batch.all.key_size, lookup->max_limit,
						 failed);
}

/* ----------------------------------------------------------------
 *		Taking partitions
 * ----------------------------------------------------------------
 */

/* The first of a run's rows without a probe that belongs to a partition. */
static uint32
first_without(const SharedRun *run, uint32 number, uint32 count)
{
	return run->probes + (uint32) ((uint64) (run->rows - run->probes) * number / count);
}

/* Add rows of a run, from a number on, to the batch's. */
static void
copy_rows(LookupBatch *batch, const SharedRun *run, uint32 first, uint32 count)
{
	const KeptRows *rows = &batch->rows;
	const uint64 *nulls = run->nulls != 0 ? hm_shared_run_at(run, run->nulls) : NULL;

	if (count > 0 && rows->count > 0)
		hm_kept_add_kept(&batch->rows, batch->count,
						 (Datum *) hm_shared_run_at(run, run->values) + (Size) first * rows->count,
						 nulls != NULL ? nulls + (Size) first * rows->null_words : NULL,
						 hm_shared_run_at(run, run->copies), count);
	batch->count += count;
}

/* The runs of the partition's generation.  The array is palloc'd. */
static const SharedRun **
runs_of(LookupNode *lookup, const SharedPartition *partition)
{
	const SharedRun **runs = palloc(partition->runs * sizeof(SharedRun *));
	dsa_pointer pointer = partition->first_run;

	for (uint32 i = 0; i < partition->runs; i++)
	{
		runs[i] = dsa_get_address(area_of(lookup), pointer);
		pointer = runs[i]->next;
	}
	return runs;
}

/* Fill the batch with the rows of a partition: those with a probe first. */
static void
copy_partition(LookupNode *lookup, const SharedPartition *partition)
{
	LookupBatch *batch = &lookup->batch;
	LookupProbes *all = &batch->all;
	const SharedRun **runs = runs_of(lookup, partition);
	const uint32 *from = (const uint32 *) dsa_get_address(area_of(lookup), partition->cuts) +
						 (Size) partition->number * partition->runs;
	const uint32 *to = from + partition->runs;
	uint32 total = 0;

	for (uint32 i = 0; i < partition->runs; i++)
		total += to[i] - from[i] + first_without(runs[i], partition->number + 1, partition->count) -
				 first_without(runs[i], partition->number, partition->count);
	hm_rows_make_room(lookup, total);
	all->length = partition->length;
	for (uint32 i = 0; i < partition->runs; i++)
	{
		memcpy(hm_key_at(all->low, all->key_size, all->count),
			   hm_key_at(hm_shared_run_at(runs[i], runs[i]->keys), all->key_size, from[i]),
			   (to[i] - from[i]) * all->key_size);
		all->count += to[i] - from[i];
		copy_rows(batch, runs[i], from[i], to[i] - from[i]);
		batch->exact &= runs[i]->exact;
	}
	for (uint32 i = 0; i < partition->runs; i++)
	{
		uint32 first = first_without(runs[i], partition->number, partition->count);

		copy_rows(batch, runs[i], first,
				  first_without(runs[i], partition->number + 1, partition->count) - first);
	}
	if (batch->matched != NULL)
		memset(batch->matched, 0, batch->count);
	pfree(runs);
}

/* ----------------------------------------------------------------
 *		The source
 * ----------------------------------------------------------------
 */
static void
fill(LookupNode *lookup)
{
	HmSharedRows *shared = lookup->node.shared_rows;
	SharedPartition partition;

	if (shared == NULL || area_of(lookup) == NULL)
	{
		hm_source_rows.fill(lookup);
		return;
	}
	while (lookup->batch.count == 0)
	{
		switch (hm_shared_rows_next(shared, !lookup->outer_done, &partition))
		{
			case SHARED_ADD:
				add_rows(lookup);
				break;

			case SHARED_TAKE:
				HM_FAULT(shared_rows_copying);
				copy_partition(lookup, &partition);
				hm_shared_rows_taken(shared, area_of(lookup));
				break;

			case SHARED_END:
				return;
		}
	}
}

static void
restart(LookupNode *lookup, const Bitmapset *changed)
{
	hm_source_rows.restart(lookup, changed);
}

const LookupSource hm_source_shared = {
	.restart = restart,
	.fill = fill,
};
