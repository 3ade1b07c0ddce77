/*
 * valuesort.c
 *		Sorting values that are looked for by their keys, which are of one width (keyvalues.c).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"

#include "am/scan/scan.h"

/*
 * Add the next value in the order of keys.  One that is the same as another of its key is left
 * out: an array may have it many times.  Few values have the same key.
 */
static void
add_value(HmKeyValues *result, HT_KEY key, Datum value, int16 length)
{
	HT_KEY *keys = result->keys;
	uint32 last = result->count - 1;
	uint32 end = result->first[result->count];

	if (result->count > 0 && keys[last] == key)
	{
		for (uint32 i = result->first[last]; i < end; i++)
		{
			if (datumIsEqual(result->values[i], value, false, length))
				return;
		}
	}
	else
		keys[result->count++] = key;
	result->values[end] = value;
	result->first[result->count] = end + 1;
}

void
hm_values_sort(HmKeyValues *result, const void *keys, const Datum *values, uint32 count,
			   int16 length)
{
	HtProbe *order = hm_alloc_large(sizeof(HtProbe) * ((Size) count + 1));
	HtProbe *scratch;
	HtPsa psa;

	ht_psa_start(&psa, keys, count, order);
	scratch = hm_alloc_large(sizeof(HtProbe) * ((Size) psa.largest + 1));
	while (psa.sorted < psa.count)
	{
		uint32 begin = psa.sorted;
		uint32 end = ht_psa_more(&psa, scratch);

		CHECK_FOR_INTERRUPTS();
		for (uint32 i = begin; i < end; i++)
			add_value(result, order[i].key, values[order[i].number], length);
	}
	pfree(scratch);
	pfree(order);
}
