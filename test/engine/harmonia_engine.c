/*
 * harmonia_engine.c
 *		Batch lookups from SQL, for tests.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "am/write/write.h"
#include "lookup/lookup.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(harmonia_engine_lookup);
PG_FUNCTION_INFO_V1(harmonia_engine_move);

/* The normalised keys of an array, whose type must be the index's, in its key size; palloc'd. */
static void *
array_keys(const HmKeyType *type, ArrayType *array, int *count)
{
	Oid element = ARR_ELEMTYPE(array);
	int16 length;
	bool by_value;
	char align;
	Datum *values;
	bool *nulls;
	Size key_size = hm_key_size(type->width);
	void *keys;

	if (element != type->type)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("the index has keys of type %s, not %s", format_type_be(type->type),
							   format_type_be(element))));
	get_typlenbyvalalign(element, &length, &by_value, &align);
	deconstruct_array(array, element, length, by_value, align, &values, &nulls, count);
	keys = palloc(Max(*count, 1) * key_size);
	for (int i = 0; i < *count; i++)
	{
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("a key is null")));
		hm_key_put(keys, key_size, i, type->normalise(values[i]));
	}
	return keys;
}

/* A key as a numeric. */
static Datum
key_numeric(HmKey key)
{
	char digits[40] = "";
	int at = lengthof(digits) - 1;

	do
	{
		digits[--at] = (char) ('0' + key % 10);
		key /= 10;
	} while (key > 0);
	return DirectFunctionCall3(numeric_in, CStringGetDatum(digits + at),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

/* See harmonia_engine--0.1.0.sql for the arguments. */
Datum
harmonia_engine_lookup(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation index;
	const HmKeyType *type;
	HmProbes probes = {0};
	HmLookup *lookup;
	HmHit *hits;
	Size key_size;
	void *keys;
	uint8 *done = NULL;
	int count, portion;
	char *between = NULL;
	uint32 n;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(3) || PG_ARGISNULL(5))
		elog(ERROR, "only \"highs\", \"between\" and \"variant\" may be null");
	index = index_open(PG_GETARG_OID(0), AccessShareLock);
	type = hm_key_type(index);
	key_size = hm_key_size(type->width);
	probes.low = array_keys(type, PG_GETARG_ARRAYTYPE_P(1), &count);
	probes.count = (uint32) count;
	if (!PG_ARGISNULL(2))
	{
		int high_count;
		void *high = array_keys(type, PG_GETARG_ARRAYTYPE_P(2), &high_count);

		if (high_count != count)
			elog(ERROR, "arrays differ in length");
		hm_probes_set_ranges(&probes, probes.low, high, key_size, probes.count);
	}
	portion = PG_GETARG_INT32(3);
	if (portion < 1)
		elog(ERROR, "a portion has at least one hit");
	if (!PG_ARGISNULL(4))
	{
		between = text_to_cstring(PG_GETARG_TEXT_PP(4));
		SPI_connect();
	}
	if (PG_GETARG_BOOL(5))
		done = palloc0(Max(count, 1));

	hits = palloc(portion * sizeof(HmHit));
	keys = palloc(portion * key_size);
	lookup = hm_lookup_create(index, probes.count);
	if (!PG_ARGISNULL(6) && !hm_lookup_set_variant(lookup, text_to_cstring(PG_GETARG_TEXT_PP(6))))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("this machine does not support the variant")));
	hm_lookup_start(lookup, &probes, done);
	while ((n = hm_lookup_next(lookup, hits, keys, (uint32) portion)) > 0)
	{
		for (uint32 i = 0; i < n; i++)
		{
			ItemPointerData tid;
			Datum values[3];
			bool nulls[3] = {false};

			CHECK_FOR_INTERRUPTS();
			if (done != NULL)
			{
				if (done[hits[i].probe])
					continue;
				done[hits[i].probe] = 1;
			}
			hm_tid_unpack(hits[i].tid, &tid);
			values[0] = Int32GetDatum((int32) hits[i].probe + 1);
			values[1] = PointerGetDatum(&tid);
			values[2] = key_numeric(hm_key_get(keys, key_size, i));
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		}
		if (between != NULL && SPI_execute(between, false, 0) < 0)
			elog(ERROR, "could not run \"%s\"", between);
	}
	hm_lookup_end(lookup);
	if (between != NULL)
		SPI_finish();
	index_close(index, AccessShareLock);
	return (Datum) 0;
}

/* Move every segment of an index; returns how many were moved. */
Datum
harmonia_engine_move(PG_FUNCTION_ARGS)
{
	Relation index = index_open(PG_GETARG_OID(0), RowExclusiveLock);
	HmPosition position = hm_position(HM_PART_NULLS_LOW, 0, 0);
	int movements = 0;

	for (;;)
	{
		Buffer header = hm_segment_enter(index, &position, HM_AT_OR_AFTER, BUFFER_LOCK_SHARE);
		HmSegmentName name;
		HtEntry high;
		HmSpecial *special;

		/* BufferIsValid() may evaluate its argument several times. */
		if (!BufferIsValid(header))
			break;
		high = hm_segment_high(BufferGetPage(header));
		special = hm_page_special(BufferGetPage(header));
		name.header = BufferGetBlockNumber(header);
		name.stamp = hm_page_segment(BufferGetPage(header))->stamp;
		if (special->flags & HM_HAS_HIGH)
			position = hm_position((HmPart) special->part, high.key, high.tid);
		else
			position = hm_position((HmPart) (special->part + 1), 0, 0);
		UnlockReleaseBuffer(header);
		if (hm_segments_move(index, &name, 1, false, NULL))
			movements++;
	}
	index_close(index, RowExclusiveLock);
	PG_RETURN_INT32(movements);
}
