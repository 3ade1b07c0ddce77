/*
 * columnspans.c
 *		What scan keys accept of one column, as spans of its keys; and the keys that an array names.
 *
 * Every scan key but `= ANY (array)` narrows one window of keys.  The keys of the
 * arrays are then collected inside that window, sorted, and intersected if there
 * is more than one array.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/arrayaccess.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "am/keyarray.h"
#include "am/scan/columnspans.h"
#include "compat.h"

/* From so many bytes on, an array is copied into huge pages. */
#define LARGE_VALUE (4 * 1024 * 1024)

/* The common keys of two spans; false if there are none. */
static bool
span_intersect(const HmSpan *a, const HmSpan *b, HmSpan *result)
{
	result->low = Max(a->low, b->low);
	result->high = Min(a->high, b->high);
	return result->low <= result->high;
}

/* The function that brackets values of the scan key's argument type. */
static HmBracketFunction
bracket_function(const HmKeyType *type, ScanKey key)
{
	Oid argument = OidIsValid(key->sk_subtype) ? key->sk_subtype : type->type;
	HmBracketFunction result = hm_bracket_function(type->type, argument);

	if (result == NULL)
		elog(ERROR, "harmonia cannot compare type %s with type %s", format_type_be(type->type),
			 format_type_be(argument));
	return result;
}

/* The elements of an array, one after the other. */
typedef struct ArrayItems
{
	Datum argument;
	AnyArrayType *array;
	array_iter iterator;
	int count;
	int next;
	int16 length;
	bool by_value;
	char align;
} ArrayItems;

/*
 * Fetch an uncompressed value that is stored out of line into memory of huge pages.  With
 * small pages, the kernel takes longer to provide the memory than it takes to fill it.
 * NULL if the value is of another kind, or small.
 */
static struct varlena *
fetch_large(struct varlena *value)
{
	struct varatt_external pointer;
	struct varlena *result;
	Relation toast;
	int32 size;

	if (!VARATT_IS_EXTERNAL_ONDISK(value))
		return NULL;
	VARATT_EXTERNAL_GET_POINTER(pointer, value);
	size = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	if (VARATT_EXTERNAL_IS_COMPRESSED(pointer) || size < LARGE_VALUE)
		return NULL;

	result = hm_alloc_large((Size) size + VARHDRSZ);
	SET_VARSIZE(result, size + VARHDRSZ);
	toast = table_open(pointer.va_toastrelid, AccessShareLock);
	table_relation_fetch_toast_slice(toast, pointer.va_valueid, size, 0, size, result);
	table_close(toast, AccessShareLock);
	return result;
}

static void
array_begin(ArrayItems *items, Datum argument)
{
	struct varlena *large = fetch_large((struct varlena *) DatumGetPointer(argument));

	items->argument = argument;
	items->array = DatumGetAnyArrayP(large != NULL ? PointerGetDatum(large) : argument);
	items->count = ArrayGetNItems(AARR_NDIM(items->array), AARR_DIMS(items->array));
	items->next = 0;
	get_typlenbyvalalign(AARR_ELEMTYPE(items->array), &items->length, &items->by_value,
						 &items->align);
	hm_array_iter_setup(&items->iterator, items->array, items->length, items->by_value,
						items->align);
}

/* The next element that is not NULL; false if there is none. */
static inline bool
array_next(ArrayItems *items, Datum *value)
{
	bool is_null = true;

	while (is_null && items->next < items->count)
	{
		CHECK_FOR_INTERRUPTS();
		*value = hm_array_iter_next(&items->iterator, &is_null, items->next++, items->length,
									items->by_value, items->align);
	}
	return !is_null;
}

static void
array_end(ArrayItems *items)
{
	if ((Pointer) items->array != DatumGetPointer(items->argument) &&
		!VARATT_IS_EXPANDED_HEADER(items->array))
		pfree(items->array);
}

/*
 * The spans of an array's elements, unsorted, as far as they lie in the window.
 * NULL elements match nothing.  If hull is true, they are joined into one span.
 * That is exact for inequalities, whose spans all begin or all end at the same
 * key.
 */
static HmSpanList
array_spans(const HmKeyType *type, ScanKey key, const HmSpan *window, bool hull, bool *recheck)
{
	HmBracketFunction function = bracket_function(type, key);
	HmKey max = ht_key_max_128(type->width);
	HmSpanList result;
	ArrayItems items;
	Datum value;

	array_begin(&items, key->sk_argument);
	result.count = 0;
	result.spans = MemoryContextAllocHuge(CurrentMemoryContext,
										  sizeof(HmSpan) * (Size) (hull ? 1 : Max(items.count, 1)));
	while (array_next(&items, &value))
	{
		HmBracket bracket = function(type, value);
		HmSpan span;

		if (bracket.fuzzy)
			*recheck = true;
		if (!hm_bracket_range(key->sk_strategy, &bracket, max, &span.low, &span.high) ||
			!span_intersect(&span, window, &span))
			continue;
		if (hull && result.count > 0)
		{
			result.spans[0].low = Min(result.spans[0].low, span.low);
			result.spans[0].high = Max(result.spans[0].high, span.high);
		}
		else
			result.spans[result.count++] = span;
	}
	array_end(&items);
	return result;
}

/* Whether all keys of a list have at most 64 bits. */
static bool
is_narrow(const HmSpanList *list)
{
	HmKey all = 0;

	for (int i = 0; i < list->count; i++)
		all |= list->spans[i].low;
	return all <= PG_UINT64_MAX;
}

void
hm_spans_normalise(HmSpanList *list, bool join)
{
	if (is_narrow(list))
		hm_spans_sort(list, join);
	else
		hm_spans_sort_128(list, join);
}

/* Intersect two lists, both sorted and disjoint; frees their memory. */
static HmSpanList
spans_intersect(HmSpanList a, HmSpanList b)
{
	HmSpanList result;
	int i = 0;
	int j = 0;

	result.count = 0;
	result.spans = MemoryContextAllocHuge(CurrentMemoryContext,
										  sizeof(HmSpan) * ((Size) a.count + b.count + 1));
	while (i < a.count && j < b.count)
	{
		if (span_intersect(&a.spans[i], &b.spans[j], &result.spans[result.count]))
			result.count++;
		if (a.spans[i].high < b.spans[j].high)
			i++;
		else
			j++;
	}
	pfree(a.spans);
	pfree(b.spans);
	return result;
}

/*
 * Narrow the window to what a scan key of any other kind allows; false if
 * nothing is left.
 */
static bool
window_narrow(const HmKeyType *type, ScanKey key, HmSpan *window, bool *recheck)
{
	HmBracket bracket;
	HmSpan span;

	/*
	 * Keys tell nothing of it: those of a composite key have less order than the column's family.
	 */
	if (!hm_keys_have_ranges(type) && key->sk_strategy != BTEqualStrategyNumber)
	{
		*recheck = true;
		return true;
	}
	if (key->sk_flags & SK_SEARCHARRAY)
	{
		HmSpanList hull = array_spans(type, key, window, true, recheck);
		bool found = hull.count > 0;

		if (found)
			*window = hull.spans[0];
		pfree(hull.spans);
		return found;
	}

	bracket = bracket_function(type, key)(type, key->sk_argument);
	if (bracket.fuzzy)
		*recheck = true;
	return hm_bracket_range(key->sk_strategy, &bracket, ht_key_max_128(type->width), &span.low,
							&span.high) &&
		   span_intersect(&span, window, window);
}

/*
 * The keys of an array whose elements have the index's type and are not NULL.  If the
 * array is the caller's own copy, keys of the same size overwrite its elements, and it is not
 * freed.
 */
static void *
array_keys(const HmKeyType *type, ArrayItems *items)
{
	char *values = ARR_DATA_PTR(&items->array->flt);
	void *keys = values;
	Size key_size = hm_key_size(type->width);
	bool in_place = key_size == (Size) items->length &&
					(Pointer) items->array != DatumGetPointer(items->argument);

	if (!in_place)
		keys = hm_alloc_large(key_size * (Size) items->count);
	type->normalise_all(values, (Size) items->count, keys);
	if (!in_place)
		array_end(items);
	return keys;
}

bool
hm_points_from_key(const HmKeyType *type, ScanKey key, void **points, uint32 *count)
{
	Size key_size = hm_key_size(type->width);
	HmKey max = ht_key_max_128(type->width);
	HmBracketFunction function;
	bool same_type = !OidIsValid(key->sk_subtype) || key->sk_subtype == type->type;
	ArrayItems items;
	Datum value;

	*points = NULL;
	*count = 0;
	if (!hm_is_equal_any(key) || !type->exact)
		return false;
	if (key->sk_flags & SK_ISNULL)
		return true;

	function = bracket_function(type, key);
	array_begin(&items, key->sk_argument);
	if (same_type && type->normalise_all != NULL && items.count > 0 &&
		!VARATT_IS_EXPANDED_HEADER(items.array) && !ARR_HASNULL(&items.array->flt))
	{
		/* Elements of the index's own type: each is a key. */
		*points = array_keys(type, &items);
		*count = (uint32) items.count;
		return true;
	}

	*points = hm_alloc_large(key_size * (Size) Max(items.count, 1));
	while (array_next(&items, &value))
	{
		HmBracket bracket;
		HmKey low, high;

		if (same_type)
		{
			hm_key_put(*points, key_size, (*count)++, type->normalise(value));
			continue;
		}
		bracket = function(type, value);
		if (!hm_bracket_range(BTEqualStrategyNumber, &bracket, max, &low, &high))
			continue;
		if (low != high || bracket.fuzzy)
		{
			array_end(&items);
			pfree(*points);
			return false;
		}
		hm_key_put(*points, key_size, (*count)++, low);
	}
	array_end(&items);
	return true;
}

/*
 * The operators are strict, so a NULL argument matches nothing, and a NULL key matches
 * nothing but IS NULL.
 */
bool
hm_column_spans(const HmKeyType *type, int column, ScanKey keys, int nkeys, bool join,
				HmColumnSpans *result)
{
	HmSpan *window = palloc(sizeof(HmSpan));
	HmSpanList list = {window, 1};
	bool others = true;
	bool found = false;

	*window = (HmSpan){0, ht_key_max_128(type->width)};
	result->nulls = true;
	result->recheck = false;

	for (int i = 0; i < nkeys; i++)
	{
		ScanKey key = &keys[i];

		Assert((key->sk_flags & (SK_ROW_HEADER | SK_ORDER_BY)) == 0);
		if (key->sk_attno != column + 1)
			continue;
		found = true;

		if (key->sk_flags & SK_SEARCHNULL)
			others = false;
		else
			result->nulls = false;

		if (key->sk_flags & (SK_SEARCHNULL | SK_SEARCHNOTNULL))
			continue;
		if (key->sk_flags & SK_ISNULL)
			others = false;
		else if (others && !hm_is_equal_any(key))
			others = window_narrow(type, key, window, &result->recheck);
	}

	for (int i = 0; others && i < nkeys; i++)
	{
		HmSpanList named;

		if (keys[i].sk_attno != column + 1 || !hm_is_equal_any(&keys[i]))
			continue;
		named = array_spans(type, &keys[i], window, false, &result->recheck);
		hm_spans_normalise(&named, join);
		list = list.spans == window ? named : spans_intersect(list, named);
		others = list.count > 0;
	}
	if (!others)
		list.count = 0;
	result->list = list;
	return found;
}
