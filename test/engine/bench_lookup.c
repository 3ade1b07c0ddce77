/*
 * bench_lookup.c
 *		The speed of batch lookups, measured from SQL, for bench/paper.sh.
 */
#include "postgres.h"

#include <math.h>
#include <time.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "lookup/lookup.h"

PG_FUNCTION_INFO_V1(harmonia_bench_lookup);

#define SAMPLE_MAX (1 << 24)

/*
 * A sample of the index's keys, in key order; palloc'd.  Probes are chosen from it, so all
 * have hits.  Sets *count to its size and *entries to the number of entries in the index.
 */
static uint64 *
sample_keys(Relation index, uint32 *count, uint64 *entries)
{
	uint64 *sample = palloc_extended(SAMPLE_MAX * sizeof(uint64), MCXT_ALLOC_HUGE);
	HmHit *hits = palloc(10000 * sizeof(HmHit));
	uint64 *keys = palloc(10000 * sizeof(uint64));
	uint64 low = 0, high = UINT64_MAX, seen = 0, step = 1;
	HmProbes probes = {.count = 1, .low = &low, .high = &high};
	HmLookup *lookup = hm_lookup_create(index, 1);
	uint32 n;

	*count = 0;
	hm_lookup_start(lookup, &probes, NULL);
	while ((n = hm_lookup_next(lookup, hits, keys, 10000)) > 0)
	{
		for (uint32 i = 0; i < n; i++)
		{
			if (seen++ % step != 0)
				continue;
			if (*count == SAMPLE_MAX)
			{
				/* From now on keep half as many. */
				for (uint32 j = 0; j < SAMPLE_MAX / 2; j++)
					sample[j] = sample[2 * j];
				*count = SAMPLE_MAX / 2;
				step *= 2;
			}
			sample[(*count)++] = keys[i];
		}
	}
	hm_lookup_end(lookup);
	pfree(hits);
	pfree(keys);
	if (*count == 0)
		elog(ERROR, "the index is empty");
	*entries = seen;
	return sample;
}

/* Choose a number in 0..1 by a distribution; "serial" chooses the i-th of n in order. */
static double
choose(const char *distribution, pg_prng_state *state, uint32 i, uint32 n)
{
	double u = pg_prng_double(state);

	if (strcmp(distribution, "uniform") == 0)
		return u;
	if (strcmp(distribution, "normal") == 0)
		return 0.5 + 0.1 * sqrt(-2 * log(1 - u)) * cos(2 * M_PI * pg_prng_double(state));
	if (strcmp(distribution, "gamma") == 0)
	{
		/* Shape 3: a sum of exponentials. */
		double sum = 0;

		for (int j = 0; j < 3; j++)
			sum -= log(1 - pg_prng_double(state));
		return sum / 20;
	}
	if (strcmp(distribution, "zipf") == 0)
	{
		/* Exponent 1; keys of neighbouring ranks are not neighbours. */
		double rank = exp(u * log(1e6));

		return fmod(floor(rank) * 0.6180339887498949, 1);
	}
	if (strcmp(distribution, "serial") == 0)
		return (i + 0.5) / n;
	if (strcmp(distribution, "clustered") == 0)
		return fmod((double) (pg_prng_uint32(state) % 100) * 0.6180339887498949 + u / 10000, 1);
	elog(ERROR, "no such distribution: %s", distribution);
	return 0;
}

static double
cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return (x > y) - (x < y);
}

/* See harmonia_engine--0.1.0.sql for the arguments and results. */
Datum
harmonia_bench_lookup(PG_FUNCTION_ARGS)
{
	Relation index = index_open(PG_GETARG_OID(0), AccessShareLock);
	uint32 batch = (uint32) PG_GETARG_INT32(1);
	int rounds = PG_GETARG_INT32(2);
	char *distribution = text_to_cstring(PG_GETARG_TEXT_PP(3));
	char *variant = text_to_cstring(PG_GETARG_TEXT_PP(5));
	int span = PG_GETARG_INT32(6);
	pg_prng_state state;
	uint32 sample_count;
	uint64 entries;
	uint64 *sample = sample_keys(index, &sample_count, &entries);
	uint64 *keys = palloc_extended(batch * sizeof(uint64), MCXT_ALLOC_HUGE);
	uint64 *ends = NULL;
	uint64 width;
	double *times;
	uint32 room = 4096;
	HmHit *hits = palloc(room * sizeof(HmHit));
	HmLookup *lookup = hm_lookup_create(index, batch);
	HmProbes probes = {.count = batch, .low = keys};
	HmLookupStats before;
	double best = 0, total = 0, sort_ns = 0, search_ns = 0;
	TupleDesc descriptor;
	Datum values[9];
	bool nulls[9] = {false};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (batch < 1 || rounds < 1 || span < 1)
		elog(ERROR, "batch, rounds and span must be positive");
	if (strcmp(variant, "best") != 0 && !hm_lookup_set_variant(lookup, variant))
		elog(ERROR, "this machine does not support the variant");
	pg_prng_seed(&state, (uint64) PG_GETARG_INT64(4));
	times = palloc(rounds * sizeof(double));

	/* The average width of so many entries */
	width = (uint64) ((span - 1) * (double) (sample[sample_count - 1] - sample[0]) /
					  Max(entries - 1, 1));
	if (span > 1)
		probes.high = ends = palloc_extended(batch * sizeof(uint64), MCXT_ALLOC_HUGE);

	for (int round = 0; round < rounds; round++)
	{
		double seconds;

		for (uint32 i = 0; i < batch; i++)
		{
			double place = choose(distribution, &state, i, batch);

			place = Min(Max(place, 0), 1);
			keys[i] = sample[Min((uint32) (place * sample_count), sample_count - 1)];
			if (span > 1)
				ends[i] = keys[i] + Min(width, UINT64_MAX - keys[i]);
		}
		CHECK_FOR_INTERRUPTS();
		before = *hm_lookup_stats(lookup);
		seconds = cpu_seconds();
		hm_lookup_start(lookup, &probes, NULL);
		while (hm_lookup_next(lookup, hits, NULL, room) > 0)
			;
		seconds = cpu_seconds() - seconds;
		total += seconds;
		times[round] = seconds;
		if (best == 0 || seconds < best)
		{
			best = seconds;
			sort_ns = hm_lookup_stats(lookup)->sort_ns - before.sort_ns;
			search_ns = hm_lookup_stats(lookup)->search_ns - before.search_ns;
		}
	}

	qsort(times, rounds, sizeof(double), compare_doubles);
	values[0] = Float8GetDatum(batch / best / 1e6);
	values[1] = Float8GetDatum(batch / times[rounds / 2] / 1e6);
	values[2] = Float8GetDatum(batch * (double) rounds / total / 1e6);
	values[3] = Float8GetDatum(sort_ns / batch);
	values[4] = Float8GetDatum(search_ns / batch);
	values[5] = Int64GetDatum((int64) (hm_lookup_stats(lookup)->counts.hits / rounds));
	values[6] = Int64GetDatum((int64) (hm_lookup_stats(lookup)->leaves / rounds));
	values[7] = Int64GetDatum((int64) (hm_lookup_stats(lookup)->segments / rounds));
	values[8] = Int64GetDatum((int64) (hm_lookup_stats(lookup)->restarts / rounds));
	hm_lookup_end(lookup);
	pfree(sample);
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
