/*
 * ranges.c
 *		Scan keys to ranges of keys.
 *
 * Of an index on several columns, what the scan keys accept of each column becomes spans of its
 * field's values.  As long as the first columns are compared for equality, each combination of
 * their values makes a range.  The first column with another span than a single value ends that,
 * and so does one without a scan key.  What is accepted of later columns becomes filters.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/scan/columnspans.h"

/*
 * Combinations of values at most, if two or more columns have several.  Those of further columns
 * become filters.
 */
#define MAX_COMBINATIONS (1024 * 1024)

/*
 * A range of values whose keys have so many different upper bits at most is a few spans of a
 * cut field; a longer one is all of the field.
 */
#define MAX_UPPERS 8

/* What is accepted of a field. */
typedef struct FieldSpans
{
	HmSpanList list;
	bool points; /* each span is one value */
	bool recheck;
} FieldSpans;

/* Add the values of a field from low to high; they wrap around if high is below low. */
static void
add_values(const HmField *field, HmSpanList *list, HmKey low, HmKey high)
{
	if (low > high)
	{
		list->spans[list->count++] = (HmSpan){low, hm_field_mask(field)};
		low = 0;
	}
	list->spans[list->count++] = (HmSpan){low, high};
}

/*
 * Add the values of a cut field for keys from low to high, which have at most MAX_UPPERS different
 * upper bits.  Keys with equal upper bits have values one after the other.
 */
static void
add_cut(const HmField *field, HmSpanList *list, HmKey low, HmKey high)
{
	HmKey mask = hm_field_mask(field);

	for (;;)
	{
		HmKey last = ((low - field->type->least) | mask) + field->type->least;

		last = Min(last, high);
		add_values(field, list, hm_field_value(field, low), hm_field_value(field, last));
		if (last == high)
			break;
		low = last + 1;
	}
}

/* Room for the spans of a field: those of each span of keys may wrap around; and NULL. */
static HmSpan *
alloc_spans(const HmSpanList *keys)
{
	Size room = 1;

	for (int i = 0; i < keys->count; i++)
		room += keys->spans[i].low == keys->spans[i].high ? 1 : 2 * MAX_UPPERS;
	return MemoryContextAllocHuge(CurrentMemoryContext, sizeof(HmSpan) * room);
}

/* Whether a value is in one of the spans. */
static bool
has_value(const HmSpanList *list, HmKey value)
{
	for (int i = 0; i < list->count; i++)
	{
		if (list->spans[i].low <= value && value <= list->spans[i].high)
			return true;
	}
	return false;
}

/* The values of a field for what is accepted of its column. */
static void
field_spans(const HmField *field, const HmColumnSpans *column, FieldSpans *result)
{
	const HmSpanList *keys = &column->list;
	HmKey least = field->type->least;
	HmKey most = least + ht_key_ones_128(field->type->bits);
	HmSpanList list = {alloc_spans(keys), 0};

	for (int i = 0; i < keys->count; i++)
	{
		HmKey low = Max(keys->spans[i].low, least);
		HmKey high = Min(keys->spans[i].high, most);

		CHECK_FOR_INTERRUPTS();
		if (low > high)
			continue;
		if (hm_field_is_ordered(field))
			list.spans[list.count++] = hm_field_span(field, low, high);
		else if ((high - least) >> field->bits < ((low - least) >> field->bits) + MAX_UPPERS)
			add_cut(field, &list, low, high);
		else
			add_values(field, &list, 0, hm_field_mask(field));
	}
	if (column->nulls)
		add_values(field, &list, hm_field_null(field), hm_field_null(field));
	hm_spans_normalise(&list, false);

	result->list = list;
	result->points = true;
	for (int i = 0; i < list.count; i++)
		result->points &= list.spans[i].low == list.spans[i].high;
	result->recheck = column->recheck || field->bits < field->type->bits ||
					  (hm_field_shares_null(field) && has_value(&list, hm_field_null(field)));
}

/*
 * All combinations of spans of the first fields, which are single values, with those of the next
 * field.
 */
static HmSpanList
combine(HmSpanList first, const HmField *field, HmSpanList next)
{
	HmSpanList result = {0};

	result.spans = MemoryContextAllocHuge(CurrentMemoryContext,
										  sizeof(HmSpan) * ((Size) first.count * next.count + 1));
	for (int i = 0; i < first.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < next.count; j++)
		{
			HmSpan *span = &result.spans[result.count++];

			span->low = first.spans[i].low | next.spans[j].low << field->shift;
			span->high = first.spans[i].high | next.spans[j].high << field->shift;
		}
	}
	pfree(first.spans);
	pfree(next.spans);
	return result;
}

/* Whether so many values of the first fields may be combined with those of the next field. */
static bool
may_combine(int first, int next)
{
	return first == 1 || next == 1 || (int64) first * next <= MAX_COMBINATIONS;
}

/* hm_ranges_from_keys() for an index with several columns; *result is zero. */
static void
composite_ranges(Relation index, ScanKey keys, int nkeys, HmRanges *result)
{
	HmFields fields;
	HmSpanList list = {palloc0(sizeof(HmSpan)), 1};
	bool equal = true; /* the first fields are single values */
	HmKey rest;        /* bits of the key that ranges do not restrict */

	hm_fields_read(index, &fields);
	rest = hm_field_mask(&fields.fields[0]) << fields.fields[0].shift |
		   ht_key_ones_128(fields.fields[0].shift);
	for (int i = 0; i < fields.count && list.count > 0; i++)
	{
		const HmField *field = &fields.fields[i];
		HmColumnSpans column;
		FieldSpans spans;

		if (!hm_column_spans(field->type, i, keys, nkeys, false, &column))
		{
			pfree(column.list.spans);
			equal = false;
			continue;
		}
		field_spans(field, &column, &spans);
		pfree(column.list.spans);
		result->recheck |= spans.recheck;
		if (spans.list.count == 0)
			list.count = 0;
		else if (equal && may_combine(list.count, spans.list.count))
		{
			list = combine(list, field, spans.list);
			rest = ht_key_ones_128(field->shift);
			equal = spans.points;
		}
		else
		{
			HmFieldFilter *filter = &result->filters[result->filter_count++];

			filter->field = *field;
			filter->spans = spans.list.spans;
			filter->count = spans.list.count;
			equal = false;
		}
	}
	if (list.count == 0)
		result->filter_count = 0;

	result->count = list.count;
	result->ranges =
		MemoryContextAllocHuge(CurrentMemoryContext, sizeof(HmRange) * ((Size) list.count + 1));
	for (int i = 0; i < list.count; i++)
		result->ranges[i] = (HmRange){HM_PART_KEYS, list.spans[i].low, list.spans[i].high | rest};
	pfree(list.spans);
}

/* Make the result: the spans of a list, and the range of NULLs. */
static void
ranges_emit(HmRanges *result, const HmSpanList *list, bool nulls, bool nulls_low)
{
	HmRange *range;
	const HmRange null_range = {nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH, 0, 0};

	result->count = list->count + (nulls ? 1 : 0);
	if (result->count == 0)
		return;
	result->ranges =
		MemoryContextAllocHuge(CurrentMemoryContext, sizeof(HmRange) * (Size) result->count);
	range = result->ranges;
	if (nulls && nulls_low)
		*range++ = null_range;
	for (int i = 0; i < list->count; i++)
	{
		range->part = HM_PART_KEYS;
		range->low = list->spans[i].low;
		range->high = list->spans[i].high;
		range++;
	}
	if (nulls && !nulls_low)
		*range = null_range;
}

void
hm_ranges_from_keys(Relation index, ScanKey keys, int nkeys, HmRanges *result)
{
	HmColumnSpans spans;

	*result = (HmRanges){0};
	if (hm_is_composite(index))
	{
		composite_ranges(index, keys, nkeys, result);
		return;
	}
	hm_column_spans(hm_key_type(index), 0, keys, nkeys, true, &spans);
	result->recheck = spans.recheck;
	ranges_emit(result, &spans.list, spans.nulls, spans.nulls && hm_cache(index, false)->nulls_low);
	pfree(spans.list.spans);
}
