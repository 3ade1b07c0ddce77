/*
 * lookup_steps.c
 *		The steps of a lookup node.
 *
 *		+----> FILL: have the source fill a batch of probes
 *		|        |
 *		|      TARGET: start to look the probes up in the next target <--+
 *		|        |   \                                                   |
 *		|        |    MATCH: the visible tuples that the fetch returns,--+
 *		|        |           with their outer rows, are candidates
 *		|        |
 *		|      ROWS (not inner joins): outer rows, in their order: those with a match
 *		|        |      (semijoin), or without one (left and antijoin)
 *		|        |
 *		+--------+-----> DONE, when there are no more outer rows
 */
#include "postgres.h"

#include "miscadmin.h"

#include "exec/sink.h"

/*
 * Whether rows of the batch are returned without a tuple of the inner side, after all matches have
 * been found.
 */
static inline bool
returns_rows(const LookupNode *lookup)
{
	return lookup->keeps_unmatched || lookup->notes_matches;
}

/* Count the rows that are left of the batch and returned without a tuple of the inner side. */
static void
count_rows(LookupNode *lookup)
{
	for (; lookup->row < lookup->batch.count; lookup->row++)
		lookup->counted += is_wanted(lookup, lookup->row);
}

/* Evaluate the one-time filters, as they are now. */
static void
filter_once(LookupNode *lookup)
{
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;

	if (lookup->is_filtered)
		return;
	lookup->no_rows = !ExecQual(lookup->one_time, econtext);
	lookup->no_matches = lookup->no_rows || !ExecQual(lookup->inner_one_time, econtext);
	lookup->is_filtered = true;
}

void
hm_lookup_clear_batch(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;

	hm_kept_reset(&batch->rows);
	batch->count = batch->all.count = 0;
	batch->all.rows = NULL;
	batch->all.same_length = batch->exact = true;
	batch->all.length = 0;
	batch->duplicates = batch->hashed = batch->divided = false;
}

/* Drop the batch, and fill it again.  Returns false if it is empty. */
static bool
fill_batch(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;

	filter_once(lookup);
	if (lookup->no_rows)
		return false;
	/* If all targets are pruned, no row has a match. */
	if (!lookup->keeps_unmatched &&
		(lookup->no_matches || bms_is_empty(hm_pruning_choose(&lookup->pruning))))
		return false;
	hm_lookup_clear_batch(lookup);
	lookup->source->fill(lookup);
	batch->exact_columns = batch->exact;
	if (!lookup->is_table)
		hm_clear_candidate(lookup);
	lookup->target = -1;
	return batch->count > 0;
}

void
hm_lookup_go_on(LookupNode *lookup)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (lookup->phase)
		{
			case PHASE_FILL:
				if (lookup->ordered.pending)
					return;
				lookup->phase = fill_batch(lookup) ? PHASE_TARGET : PHASE_DONE;
				break;

			case PHASE_TARGET:
				lookup->row = 0;
				if (!lookup->no_matches && lookup->search->next_target(lookup))
					lookup->phase = PHASE_MATCH;
				else
					lookup->phase = returns_rows(lookup) ? PHASE_ROWS : PHASE_FILL;
				break;

			case PHASE_MATCH:
				if (lookup->notes_matches)
					hm_flag_matches(lookup);
				else if (lookup->counting && takes_all_matches(lookup))
					lookup->counted += hm_fetch_count(lookup->node.fetch);
				else if (has_run(lookup))
					return;
				lookup->phase = PHASE_TARGET;
				break;

			case PHASE_ROWS:
				if (lookup->counting && lookup->node.css.ss.ps.qual == NULL)
					count_rows(lookup);
				if (lookup->row < lookup->batch.count)
					return;
				lookup->phase = PHASE_FILL;
				break;

			case PHASE_DONE:
				return;
		}
	}
}

void
hm_lookup_restart(LookupNode *lookup, const Bitmapset *changed)
{
	lookup->phase = PHASE_FILL;
	lookup->is_filtered = false;
	lookup->batch.count = 0;
	lookup->run = NULL;
	hm_kept_reset(&lookup->batch.rows);
	lookup->source->restart(lookup, changed);
}
