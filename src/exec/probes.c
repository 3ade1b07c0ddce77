/*
 * probes.c
 *		The probes of a batch: their memory, and the probe of a row.
 */
#include "postgres.h"

#include "exec/lookup_node.h"

void
hm_make_high_room(LookupNode *lookup, LookupProbes *probes)
{
	probes->high = hm_resize_large(lookup->node.css.ss.ps.state->es_query_cxt, probes->high,
								   probes->high_room);
}

void
hm_make_probes_room(LookupNode *lookup, LookupProbes *probes, Size key_size, uint32 room)
{
	MemoryContext context = lookup->node.css.ss.ps.state->es_query_cxt;

	probes->low = hm_resize_large(context, probes->low, room * key_size);
	probes->high_room = room * key_size;
	if (probes->high != NULL)
		hm_make_high_room(lookup, probes);
}

void
hm_keep_ends(LookupNode *lookup, LookupProbes *probes, uint32 count)
{
	if (probes->high == NULL)
		hm_make_high_room(lookup, probes);
	for (uint32 i = 0; i < count; i++)
		hm_key_put(probes->high, probes->key_size, i,
				   hm_key_get(probes->low, probes->key_size, i) + probes->length);
	probes->same_length = false;
}

void
hm_clear_candidate(LookupNode *lookup)
{
	TupleTableSlot *slot = lookup->node.css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, lookup->column_count * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}

TupleTableSlot *
hm_store_outer(LookupNode *lookup, TupleTableSlot *outer)
{
	TupleTableSlot *slot = lookup->node.css.ss.ss_ScanTupleSlot;

	hm_clear_candidate(lookup);
	for (int i = 0; i < lookup->column_count; i++)
	{
		int source = lookup->sources[i];

		if (source > 0)
		{
			slot->tts_values[i] = outer->tts_values[source - 1];
			slot->tts_isnull[i] = outer->tts_isnull[source - 1];
		}
	}
	return slot;
}

/*
 * The keys of its column that a key clause accepts for an outer row.  Returns false if there are
 * none.  *stored says whether the outer row is in the scan slot.  Clears batch.exact if some of the
 * keys do not satisfy the clause.
 */
static bool
clause_range(LookupNode *lookup, const RowKey *key, TupleTableSlot *outer, bool *stored, HmKey *low,
			 HmKey *high)
{
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;
	bool is_null;
	Datum value;
	HmBracket bracket;

	if (key->column > 0)
		value = slot_getattr(outer, key->column, &is_null);
	else
	{
		if (!*stored)
			econtext->ecxt_scantuple = hm_store_outer(lookup, outer);
		*stored = true;
		value = ExecEvalExprSwitchContext(key->argument, econtext, &is_null);
	}
	lookup->batch.rows.computed = value;
	lookup->batch.rows.computed_is_null = is_null;
	if (is_null)
		return false;
	if (key->is_exact)
	{
		HmKey at = key->type->normalise(value);

		*low = *high = at;
		if (key->strategy == BTEqualStrategyNumber)
			return true;
		bracket = (HmBracket){.first = at, .last = at, .has_first = true, .has_last = true};
	}
	else
	{
		bracket = key->bracket(key->type, value);
		lookup->batch.exact &= !bracket.fuzzy || lookup->compares_value;
	}
	return hm_bracket_range(key->strategy, &bracket, ht_key_max_128(key->type->width), low, high) &&
		   *low <= *high;
}

bool
hm_compose_key(const HmFields *fields, const HmKey *keys, int count, HmKey *low, HmKey *high)
{
	HmKey rest = HM_KEY_MAX;
	bool exact = true;

	*low = 0;
	for (int i = 0; i < count; i++)
	{
		const HmField *field = &fields->fields[i];
		HmKey value = hm_field_value(field, keys[i]);

		*low |= value << field->shift;
		rest = ((HmKey) 1 << field->shift) - 1;
		exact &= hm_field_is_exact(field) &&
				 !(hm_field_shares_null(field) && value == hm_field_null(field));
	}
	*high = *low | rest;
	return exact;
}

/*
 * Narrow a range, of all composite keys that begin alike, to those that have one of these keys of a
 * column in the next field.  Returns false if there are none.  Clears *exact if NULL may be among
 * them.
 */
static bool
narrow_range(const HmField *field, HmSpan keys, HmKey *low, HmKey *high, bool *exact)
{
	HmKey least = field->type->least;
	HmKey most = least + ht_key_ones_128(field->type->bits);
	HmKey null = hm_field_null(field);
	HmSpan span;

	if (Max(keys.low, least) > Min(keys.high, most))
		return false;
	span = hm_field_span(field, Max(keys.low, least), Min(keys.high, most));
	*high = *low | span.high << field->shift | ht_key_ones_128(field->shift);
	*low |= span.low << field->shift;
	*exact &= !hm_field_shares_null(field) || null < span.low || null > span.high;
	return true;
}

/*
 * The same for all of an index's columns: the keys that begin with the values of the first
 * ones, and have a range of the next one's.  A column that may have several values because its
 * bracket is fuzzy is the last one that restricts them.
 *
 * With several targets, the columns' keys are kept instead, because each target has to make its own
 * composite keys of them.  The range is that of the column that shares are about.
 */
static bool
composite_range(LookupNode *lookup, TupleTableSlot *outer, HmKey *low, HmKey *high)
{
	LookupBatch *batch = &lookup->batch;
	const HmFields *fields = &lookup->targets[0].fields;
	HmKey keys[HM_MAX_KEY_COLUMNS];
	HmSpan next = {0, HM_KEY_MAX}; /* keys of the column after those with equality */
	int single = 0;                /* so many first columns have one value */
	bool stored = false;

	if (lookup->target_count == 0)
		return false;
	for (int i = 0; i < lookup->key_count; i++)
	{
		HmKey key_low, key_high;

		if (!clause_range(lookup, &lookup->keys[i], outer, &stored, &key_low, &key_high))
			return false;
		if (i >= lookup->equal_count)
		{
			next = (HmSpan){Max(next.low, key_low), Min(next.high, key_high)};
			continue;
		}
		if (i == lookup->plan.share_column)
		{
			*low = key_low;
			*high = key_high;
		}
		keys[i] = key_low;
		if (single == i && key_low == key_high)
			single++;
	}
	batch->exact &= single == lookup->equal_count;
	if (hm_keeps_columns(lookup))
	{
		Assert(lookup->equal_count == lookup->key_count);
		memcpy(batch->column_keys + (Size) batch->count * lookup->key_count, keys,
			   lookup->key_count * sizeof(HmKey));
		batch->single_columns[batch->count] = (uint8) single;
		return true;
	}
	batch->exact &= hm_compose_key(fields, keys, single, low, high);
	return single < lookup->equal_count || lookup->equal_count == lookup->key_count ||
		   narrow_range(&fields->fields[single], next, low, high, &batch->exact);
}

/* The same if keys are plain columns, and the batch has composite keys. */
static bool
plain_range(LookupNode *lookup, const TupleTableSlot *outer, HmKey *low, HmKey *high)
{
	HmKey keys[HM_MAX_KEY_COLUMNS];

	for (int i = 0; i < lookup->key_count; i++)
	{
		int column = lookup->keys[i].column - 1;

		if (outer->tts_isnull[column])
			return false;
		keys[i] = lookup->keys[i].type->normalise(outer->tts_values[column]);
	}
	lookup->batch.exact &=
		hm_compose_key(&lookup->targets[0].fields, keys, lookup->key_count, low, high);
	return true;
}

int
hm_row_keys(LookupNode *lookup, TupleTableSlot *outer, HmKey *keys)
{
	bool stored = false;
	int count = 0;

	ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
	for (int i = 0; i < lookup->key_count; i++)
	{
		HmKey key, high;
		int equal = 0;

		if (!clause_range(lookup, &lookup->keys[i], outer, &stored, &key, &high))
			continue;
		Assert(key == high);
		while (equal < count && keys[equal] != key)
			equal++;
		keys[equal] = key;
		count = Max(count, equal + 1);
	}
	return count;
}

bool
hm_row_range(LookupNode *lookup, TupleTableSlot *outer, HmKey *low, HmKey *high)
{
	bool stored = false;

	if (lookup->plain_columns)
		return plain_range(lookup, outer, low, high);
	ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
	if (lookup->plan.composite)
		return composite_range(lookup, outer, low, high);
	*low = 0;
	*high = HM_KEY_MAX;
	for (int i = 0; i < lookup->key_count; i++)
	{
		HmKey key_low, key_high;

		if (!clause_range(lookup, &lookup->keys[i], outer, &stored, &key_low, &key_high))
			return false;
		*low = Max(*low, key_low);
		*high = Min(*high, key_high);
	}
	return *low <= *high;
}
