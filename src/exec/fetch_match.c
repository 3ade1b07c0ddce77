/*
 * fetch_match.c
 *		What makes a hit a match: its key; and the tuples and values of matches.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "utils/rel.h"

#include "exec/fetch.h"

/* Whether a key is one of a probe's keys. */
static inline bool
is_among_keys(const HmFetch *fetch, uint32 probe, HmKey key)
{
	HmKey low = hm_key_get(fetch->probes.low, fetch->key_size, probe);

	return key >= low && key <= hm_probe_high(&fetch->probes, fetch->key_size, probe);
}

/* Whether a value is equal to one of a probe's values. */
static bool
is_among_values(const HmFetch *fetch, uint32 probe, Datum value)
{
	const HmProbeValues *values = &fetch->values;
	Oid collation = fetch->index->rd_indcollation[0];
	Size from = hm_probe_value_place(values, probe);
	Size to = values->first != NULL ? values->first[probe + 1] : from + 1;

	for (; from < to; from++)
	{
		if (DatumGetBool(FunctionCall2Coll(values->equal, collation, value, values->values[from])))
			return true;
	}
	return false;
}

bool
hm_fetch_is_key(HmFetch *fetch, uint32 probe, Datum value, bool is_null)
{
	MemoryContext old_context;
	bool result;

	if (!fetch->compare || probe == HM_NO_PROBE)
		return true;
	if (is_null || (fetch->compare_keys && fetch->type->type != HM_ANY_VALUE &&
					!is_among_keys(fetch, probe, fetch->type->normalise(value))))
		return false;
	if (fetch->values.values == NULL)
		return true;

	/* Operators may allocate memory for values that are stored out of line. */
	old_context = MemoryContextSwitchTo(fetch->key_context->ecxt_per_tuple_memory);
	result = is_among_values(fetch, probe, value);
	MemoryContextSwitchTo(old_context);
	fetch->stats.removed += !result;
	return result;
}

/* The value of a column of the index, for the tuple in the slot. */
static Datum
column_value(HmFetch *fetch, int column, bool *is_null)
{
	if (fetch->columns[column] != 0)
		return slot_getattr(fetch->slot, fetch->columns[column], is_null);
	fetch->key_context->ecxt_scantuple = fetch->slot;
	return ExecEvalExprSwitchContext(fetch->expressions[column], fetch->key_context, is_null);
}

bool
hm_fetch_has_key(HmFetch *fetch, uint32 probe)
{
	Datum values[HM_MAX_KEY_COLUMNS];
	bool nulls[HM_MAX_KEY_COLUMNS];
	HmKey key;

	if (!fetch->compare || probe == HM_NO_PROBE)
		return true;
	ResetExprContext(fetch->key_context);
	for (int i = 0; i < fetch->fields.count; i++)
		values[i] = column_value(fetch, i, &nulls[i]);
	if (fetch->type != NULL)
		return hm_fetch_is_key(fetch, probe, values[0], nulls[0]);
	return hm_row_key(&fetch->fields, values, nulls, &key) && is_among_keys(fetch, probe, key) &&
		   hm_passes_filters(fetch->filters, fetch->filter_count, key);
}

TupleTableSlot *
hm_fetch_store(HmFetch *fetch, uint32 match)
{
	HmRun *run = &fetch->run;

	if (run->slot != NULL)
		return run->slot;
	return ExecStoreBufferHeapTuple(&run->tuples[match], fetch->slot, run->buffer);
}

/* The key of a match that is visible by the map, if index_only. */
static inline HmKey
match_key(const HmFetch *fetch, uint32 match)
{
	const HmRun *run = &fetch->run;

	return hm_fetch_hit_key(fetch, run->hits[match], run->probes[match]);
}

/* The same as a value, if the index has one column. */
static Datum
restore_key(HmFetch *fetch, uint32 match)
{
	MemoryContext old_context = MemoryContextSwitchTo(fetch->key_context->ecxt_per_tuple_memory);
	Datum value = fetch->type->restore(match_key(fetch, match));

	MemoryContextSwitchTo(old_context);
	return value;
}

/*
 * Keys of matches that come from the heap are not asked for: these are not in the order of their
 * keys.
 */
Datum
hm_fetch_column(HmFetch *fetch, uint32 match, AttrNumber attribute, bool *is_null)
{
	HmRun *run = &fetch->run;
	int column = 0;
	Datum value;

	if (BufferIsValid(run->buffer))
		return heap_getattr(&run->tuples[match], attribute, RelationGetDescr(fetch->heap), is_null);
	if (run->slot != NULL)
		return slot_getattr(run->slot, attribute, is_null);
	*is_null = false;
	fetch->reads_keys = true;
	if (fetch->type != NULL)
		return restore_key(fetch, match);
	while (fetch->columns[column] != attribute)
		column++;
	if (!hm_field_restore(&fetch->fields.fields[column], match_key(fetch, match), &value, is_null))
		elog(ERROR, "index \"%s\" cannot return column %d of a row",
			 RelationGetRelationName(fetch->index), attribute);
	return value;
}

void
hm_fetch_tid(const HmFetch *fetch, uint32 match, ItemPointer tid)
{
	const HmRun *run = &fetch->run;

	if (BufferIsValid(run->buffer))
		*tid = run->tuples[match].t_self;
	else if (run->slot != NULL)
		*tid = run->slot->tts_tid;
	else
		hm_tid_unpack(fetch->hits[run->hits[match]].tid, tid);
}

void
hm_fetch_columns(HmFetch *fetch, AttrNumber attribute, bool by_slot, const uint32 *matches,
				 uint32 count, Datum *values, bool *nulls)
{
	TupleDesc desc = RelationGetDescr(fetch->heap);
	HmRun *run = &fetch->run;

	by_slot = by_slot || run->slot != NULL;
	for (uint32 i = 0; i < count; i++)
	{
		if (fetch->index_only)
			values[i] = hm_fetch_column(fetch, matches[i], attribute, &nulls[i]);
		else if (by_slot)
		{
			TupleTableSlot *slot = hm_fetch_store(fetch, matches[i]);

			values[i] = attribute > 0 ? slot_getattr(slot, attribute, &nulls[i]) :
										slot_getsysattr(slot, attribute, &nulls[i]);
		}
		else
			values[i] = heap_getattr(&run->tuples[matches[i]], attribute, desc, &nulls[i]);
	}
}
