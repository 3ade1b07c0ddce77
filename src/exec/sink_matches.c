/*
 * sink_matches.c
 *		What is done with hits: rows that have a match get a match flag.
 */
#include "postgres.h"

#include "exec/sink.h"

/* Where every match of the fetch is one: nothing is read of the outer rows. */
static void
flag_all_matches(LookupNode *lookup)
{
	const LookupProbes *probes = lookup->probes;
	uint8 *matched = lookup->batch.matched;

	hm_fetch_note_matches(lookup->node.fetch, probes->done);
	if (probes->done == matched)
		return;
	for (uint32 i = 0; i < probes->count; i++)
		matched[hm_probe_row(probes, i)] |= probes->done[i];
}

void
hm_flag_matches(LookupNode *lookup)
{
	uint32 row;

	if (lookup->node.fetch != NULL && !lookup->has_conditions && lookup->batch.exact)
	{
		flag_all_matches(lookup);
		return;
	}
	while (has_run(lookup))
	{
		while (next_in_run(lookup, &row))
			ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
	}
}
