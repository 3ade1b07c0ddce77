/*
 * lookup_join_probe.c
 *		The probe of an outer row in a lookup join.
 */
#include "postgres.h"

#include "exec/lookup_join.h"

void
hm_join_clear_candidate(LookupJoin *join)
{
	TupleTableSlot *slot = join->node.css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, join->column_count * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}

/*
 * Start a candidate in the scan slot: fill in the columns of an outer row, and set all
 * others to NULL.  Returns the scan slot.  Its values may point into the outer row.
 */
static TupleTableSlot *
store_outer(LookupJoin *join, TupleTableSlot *outer)
{
	TupleTableSlot *slot = join->node.css.ss.ss_ScanTupleSlot;

	hm_join_clear_candidate(join);
	for (int i = 0; i < join->column_count; i++)
	{
		int			source = join->sources[i];

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
clause_range(LookupJoin *join, const JoinKey *key, TupleTableSlot *outer, bool *stored,
			 HmKey *low, HmKey *high)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	bool		is_null;
	Datum		value;
	HmBracket	bracket;

	if (key->column > 0)
		value = slot_getattr(outer, key->column, &is_null);
	else
	{
		if (!*stored)
			econtext->ecxt_scantuple = store_outer(join, outer);
		*stored = true;
		value = ExecEvalExprSwitchContext(key->argument, econtext, &is_null);
	}
	if (is_null)
		return false;
	if (key->is_exact)
	{
		HmKey		at = key->type->normalise(value);

		*low = *high = at;
		if (key->strategy == BTEqualStrategyNumber)
			return true;
		bracket = (HmBracket) {.first = at, .last = at, .has_first = true, .has_last = true};
	}
	else
	{
		bracket = key->bracket(key->type, value);
		join->batch.exact &= !bracket.fuzzy;
	}
	return hm_bracket_range(key->strategy, &bracket, ht_key_max_128(key->type->width), low, high) &&
		*low <= *high;
}

bool
hm_join_compose(const HmFields *fields, const HmKey *keys, int count, HmKey *low, HmKey *high)
{
	HmKey		rest = HM_KEY_MAX;
	bool		exact = true;

	*low = 0;
	for (int i = 0; i < count; i++)
	{
		const HmField *field = &fields->fields[i];
		HmKey		value = hm_field_value(field, keys[i]);

		*low |= value << field->shift;
		rest = ((HmKey) 1 << field->shift) - 1;
		exact &= hm_field_is_exact(field) &&
			!(hm_field_shares_null(field) && value == hm_field_null(field));
	}
	*high = *low | rest;
	return exact;
}

/*
 * The same for all of an index's columns: the keys that begin with the values of the first
 * ones.  A column that may have several values is the last one that restricts them.
 *
 * With several targets, the columns' keys are kept instead, because each target has to make its own
 * composite keys of them.  The range is that of the column that shares are about.
 */
static bool
composite_range(LookupJoin *join, TupleTableSlot *outer, HmKey *low, HmKey *high)
{
	JoinBatch  *batch = &join->batch;
	HmKey		keys[HM_MAX_KEY_COLUMNS];
	int			single = 0;		/* so many first columns have one value */
	bool		stored = false;

	if (join->target_count == 0)
		return false;
	for (int i = 0; i < join->key_count; i++)
	{
		HmKey		key_low,
					key_high;

		if (!clause_range(join, &join->keys[i], outer, &stored, &key_low, &key_high))
			return false;
		if (i == join->share_column)
		{
			*low = key_low;
			*high = key_high;
		}
		keys[i] = key_low;
		if (single == i && key_low == key_high)
			single++;
	}
	batch->exact &= single == join->key_count;
	if (hm_join_keeps_columns(join))
	{
		memcpy(batch->column_keys + (Size) batch->count * join->key_count, keys,
			   join->key_count * sizeof(HmKey));
		batch->single_columns[batch->count] = (uint8) single;
	}
	else
		batch->exact &= hm_join_compose(&join->targets[0].fields, keys, single, low, high);
	return true;
}

/* The same if keys are plain columns, and the batch has composite keys. */
static bool
plain_range(LookupJoin *join, const TupleTableSlot *outer, HmKey *low, HmKey *high)
{
	HmKey		keys[HM_MAX_KEY_COLUMNS];

	for (int i = 0; i < join->key_count; i++)
	{
		int			column = join->keys[i].column - 1;

		if (outer->tts_isnull[column])
			return false;
		keys[i] = join->keys[i].type->normalise(outer->tts_values[column]);
	}
	join->batch.exact &= hm_join_compose(&join->targets[0].fields, keys, join->key_count, low, high);
	return true;
}

bool
hm_join_row_range(LookupJoin *join, TupleTableSlot *outer, HmKey *low, HmKey *high)
{
	bool		stored = false;

	if (join->plain_columns)
		return plain_range(join, outer, low, high);
	ResetExprContext(join->node.css.ss.ps.ps_ExprContext);
	if (join->composite)
		return composite_range(join, outer, low, high);
	*low = 0;
	*high = HM_KEY_MAX;
	for (int i = 0; i < join->key_count; i++)
	{
		HmKey		key_low,
					key_high;

		if (!clause_range(join, &join->keys[i], outer, &stored, &key_low, &key_high))
			return false;
		*low = Max(*low, key_low);
		*high = Min(*high, key_high);
	}
	return *low <= *high;
}
