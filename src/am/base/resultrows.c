/*
 * resultrows.c
 *		Rows of the functions that show an index: each column is made from text.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "am/base/base.h"

const char *
hm_show_key(HmKey key)
{
	char digits[40];
	char *at = digits + sizeof(digits);

	/* 2^128 has 39 digits. */
	*--at = '\0';
	do
		*--at = (char) ('0' + (int) (key % 10));
	while ((key /= 10) > 0);
	return pstrdup(at);
}

void
hm_show_null(HmRow *row)
{
	Assert(row->count < HM_MAX_COLUMNS);
	row->values[row->count++] = NULL;
}

void
hm_show_text(HmRow *row, const char *value)
{
	Assert(row->count < HM_MAX_COLUMNS);
	row->values[row->count++] = pstrdup(value);
}

void
hm_show_number(HmRow *row, uint64 value)
{
	Assert(row->count < HM_MAX_COLUMNS);
	row->values[row->count++] = psprintf(UINT64_FORMAT, value);
}

void
hm_show_block(HmRow *row, BlockNumber block)
{
	if (BlockNumberIsValid(block))
		hm_show_number(row, block);
	else
		hm_show_null(row);
}

void
hm_append_tid(StringInfo to, uint64 tid)
{
	appendStringInfo(to, "(%u,%u)", (uint32) (tid >> 16), (uint16) tid);
}

void
hm_show_tid(HmRow *row, uint64 tid)
{
	StringInfoData text;

	initStringInfo(&text);
	hm_append_tid(&text, tid);
	hm_show_text(row, text.data);
}

void
hm_show_time(HmRow *row, TimestampTz time)
{
	if (time != 0)
		hm_show_text(row,
					 JsonEncodeDateTime(NULL, TimestampTzGetDatum(time), TIMESTAMPTZOID, NULL));
	else
		hm_show_null(row);
}

void
hm_show_bound(HmRow *row, bool exists, HmKey key, uint64 tid)
{
	if (exists)
	{
		hm_show_text(row, hm_show_key(key));
		hm_show_tid(row, tid);
	}
	else
	{
		hm_show_null(row);
		hm_show_null(row);
	}
}

void
hm_show_part(HmRow *row, uint32 part)
{
	switch (part)
	{
		case HM_PART_KEYS:
			hm_show_text(row, "keys");
			break;
		case HM_PART_NULLS_LOW:
		case HM_PART_NULLS_HIGH:
			hm_show_text(row, "nulls");
			break;
		default:
			hm_show_null(row);
	}
}

Datum
hm_return_row(FunctionCallInfo fcinfo, HmRow *row)
{
	TupleDesc descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	Assert(descriptor->natts == row->count);
	return HeapTupleGetDatum(
		BuildTupleFromCStrings(TupleDescGetAttInMetadata(descriptor), row->values));
}

void
hm_begin_rows(FunctionCallInfo fcinfo, HmRowSink *sink)
{
	InitMaterializedSRF(fcinfo, 0);
	sink->result = (ReturnSetInfo *) fcinfo->resultinfo;
	sink->input = TupleDescGetAttInMetadata(sink->result->setDesc);
	sink->context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia rows", ALLOCSET_DEFAULT_SIZES);
}

void
hm_add_row(HmRowSink *sink, HmRow *row)
{
	/* Before ALTER EXTENSION UPDATE the function has fewer columns. */
	Assert(sink->result->setDesc->natts <= row->count);
	tuplestore_puttuple(sink->result->setResult, BuildTupleFromCStrings(sink->input, row->values));
	MemoryContextReset(sink->context);
}
