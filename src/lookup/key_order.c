/*
 * key_order.c
 *		The order of many keys: by PSA's radix sort, to the last bit.
 *
 * This file is compiled once for each width of keys (lookup/width.h).
 */
#include "postgres.h"

#include "miscadmin.h"

#include "lookup/lookup.h"
#include "lookup/width.h"

void
hm_order_keys(const void *keys, uint32 n, uint32 *order)
{
	HtProbe *probes = palloc_extended(Max(1, n) * sizeof(HtProbe), MCXT_ALLOC_HUGE);
	HtProbe *scratch;
	HtPsa psa;

	ht_psa_start(&psa, keys, n, probes);
	scratch = palloc_extended(Max(1, psa.largest) * sizeof(HtProbe), MCXT_ALLOC_HUGE);
	while (ht_psa_more(&psa, scratch) < n)
		CHECK_FOR_INTERRUPTS();
	for (uint32 i = 0; i < n; i++)
		order[i] = probes[i].number;
	pfree(scratch);
	pfree(probes);
}
