/*
 * sink_columns.c
 *		What is done with hits: their columns are put in a block, for a lookup aggregate.
 */
#include "postgres.h"

#include "exec/sink.h"

/* Put a column of outer rows in a block. */
static void
put_outer(const LookupNode *lookup, int column, const uint32 *rows, uint32 count, Datum *values,
		  bool *nulls)
{
	for (uint32 i = 0; i < count; i++)
		values[i] = hm_row_value(&lookup->batch.rows, rows[i], column, &nulls[i]);
}

/*
 * Put results in a block from row "first" on: so many outer rows, by their numbers in the
 * batch, and with_inner the run's matches.
 */
static void
put_results(LookupNode *lookup, HmColumn *columns, uint32 first, const uint32 *rows,
			const uint32 *matches, uint32 count, bool with_inner)
{
	const SlotFill *fill = &lookup->result;

	for (int i = 0; i < fill->outer_count; i++)
	{
		HmColumn *column = &columns[fill->outer_to[i]];

		if (column->values != NULL)
			put_outer(lookup, fill->outer_from[i], rows, count, column->values + first,
					  column->nulls + first);
	}
	for (int i = 0; i < fill->inner_count; i++)
	{
		HmColumn *column = &columns[fill->inner_to[i]];

		if (column->values == NULL)
			continue;
		if (with_inner)
		{
			const SearchTarget *target = &lookup->targets[lookup->target];

			hm_fetch_columns(lookup->node.fetch, (AttrNumber) target->columns[fill->inner_from[i]],
							 target->by_slot, matches, count, column->values + first,
							 column->nulls + first);
		}
		else
			memset(column->nulls + first, true, count * sizeof(bool));
	}
}

/* The next results of the run or the batch, at most "limit": their rows and matches. */
static uint32
next_results(LookupNode *lookup, uint32 limit, uint32 *rows, uint32 *matches, bool *with_inner)
{
	uint32 count = 0;

	if (lookup->phase == PHASE_MATCH && takes_all_matches(lookup))
	{
		*with_inner = true;
		for (; count < limit && lookup->match < lookup->run->count; count++)
		{
			rows[count] = hm_probe_row(lookup->probes, lookup->run->probes[lookup->match]);
			matches[count] = lookup->match++;
		}
		return count;
	}
	if (lookup->phase == PHASE_ROWS && lookup->node.css.ss.ps.qual == NULL)
	{
		*with_inner = false;
		for (; count < limit && lookup->row < lookup->batch.count; lookup->row++)
		{
			rows[count] = lookup->row;
			count += is_wanted(lookup, lookup->row);
		}
		return count;
	}
	while (count < limit && next_result(lookup, &rows[count], with_inner))
	{
		matches[count++] = lookup->match - 1;
		ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
	}
	return count;
}

uint32
hm_lookup_block(CustomScanState *node, HmColumn *columns, uint32 max)
{
	LookupNode *lookup = (LookupNode *) node;
	uint32 rows[HM_RUN_MAX];
	uint32 matches[HM_RUN_MAX];
	uint32 n = 0;

	while (n < max)
	{
		uint32 count;
		bool with_inner = false;

		hm_lookup_go_on(lookup);
		if (lookup->phase == PHASE_DONE)
			break;
		count = next_results(lookup, Min(max - n, HM_RUN_MAX), rows, matches, &with_inner);
		put_results(lookup, columns, n, rows, matches, count, with_inner);
		n += count;
	}
	return n;
}

bool
hm_lookup_has_blocks(const CustomScanState *node)
{
	return ((const LookupNode *) node)->has_blocks;
}
