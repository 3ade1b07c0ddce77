/*
 * btree_values.c
 *		Batch lookup in btree indexes by values, where keys are not in their order.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "lookup/btree.h"

/* A probe that is being sorted.  Equal values stay in the order of the batch. */
typedef struct SortedValue
{
	Datum first; /* an abbreviation of the value, or itself */
	uint32 number;
} SortedValue;

static int
compare_sorted(const SortedValue *a, const SortedValue *b, const HmBtreeValues *values)
{
	SortSupport order = values->keys->order;
	int result = ApplySortComparator(a->first, false, b->first, false, order);

	if (result == 0 && order->abbrev_converter != NULL)
		result = ApplySortAbbrevFullComparator(values->values[a->number], false,
											   values->values[b->number], false, order);
	return result != 0 ? result : (a->number > b->number) - (a->number < b->number);
}

#define ST_SORT sort_sorted_values
#define ST_ELEMENT_TYPE SortedValue
#define ST_COMPARE_ARG_TYPE const HmBtreeValues
#define ST_COMPARE(a, b, argument) compare_sorted(a, b, argument)
#define ST_SCOPE static
#define ST_DEFINE
#define ST_CHECK_FOR_INTERRUPTS
#include "lib/sort_template.h"

void
hm_btree_values_init(HmBtreeValues *values, const HmBtreeKeys *keys)
{
	values->keys = keys;
	if (keys->order != NULL)
		values->context =
			AllocSetContextCreate(CurrentMemoryContext, "values of probes", ALLOCSET_DEFAULT_SIZES);
}

void
hm_btree_values_end(HmBtreeValues *values)
{
	if (values->context != NULL)
		MemoryContextDelete(values->context);
}

/* Take over probes whose values stand side by side for each of them. */
static void
read_lists(HmBtreeValues *values, const HmProbes *batch)
{
	const uint32 *first = batch->values->first;
	uint32 begin = first[0];

	values->count = first[batch->count] - begin;
	values->owners = palloc_extended((Size) values->count * sizeof(uint32), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < batch->count; i++)
	{
		for (uint32 j = first[i]; j < first[i + 1]; j++)
			values->owners[j - begin] = i;
	}
	values->values = palloc_extended((Size) values->count * sizeof(Datum), MCXT_ALLOC_HUGE);
	memcpy(values->values, batch->values->values + begin, (Size) values->count * sizeof(Datum));
}

/* The value of a probe that has one; if none is given, its key gives it back. */
static Datum
single_value(const HmBtreeValues *values, const HmProbes *batch, uint32 probe)
{
	const HmProbeValues *given = batch->values;

	if (given == NULL)
		return values->keys->fields.fields[0].type->restore(
			hm_key_get(batch->low, sizeof(HT_KEY), probe));
	return given->values[hm_probe_value_place(given, probe)];
}

/* Values that are stored out of line, or compressed, are read once. */
static void
detoast(HmBtreeValues *values)
{
	if (values->keys->length != -1)
		return;
	for (uint32 i = 0; i < values->count; i++)
		values->values[i] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(values->values[i]));
}

void
hm_btree_values_read(HmBtreeValues *values, const HmProbes *batch)
{
	MemoryContext old_context;

	Assert(hm_probes_are_points(batch));
	MemoryContextReset(values->context);
	old_context = MemoryContextSwitchTo(values->context);
	values->owners = NULL;
	if (batch->values != NULL && batch->values->first != NULL)
		read_lists(values, batch);
	else
	{
		values->count = batch->count;
		values->values = palloc_extended((Size) values->count * sizeof(Datum), MCXT_ALLOC_HUGE);
		for (uint32 i = 0; i < values->count; i++)
			values->values[i] = single_value(values, batch, i);
	}
	detoast(values);
	MemoryContextSwitchTo(old_context);
}

void
hm_btree_values_sort(const HmBtreeValues *values, HtProbe *sorted)
{
	SortSupport order = values->keys->order;
	Size size = (Size) values->count * sizeof(SortedValue);
	SortedValue *sorting = MemoryContextAllocExtended(values->context, size, MCXT_ALLOC_HUGE);

	for (uint32 i = 0; i < values->count; i++)
	{
		Datum value = values->values[i];

		sorting[i].number = i;
		sorting[i].first =
			order->abbrev_converter == NULL ? value : order->abbrev_converter(value, order);
	}
	sort_sorted_values(sorting, values->count, values);
	for (uint32 i = 0; i < values->count; i++)
	{
		sorted[i].number = sorting[i].number;
		sorted[i].key = (HT_KEY) values->values[sorting[i].number];
	}
	pfree(sorting);
}
