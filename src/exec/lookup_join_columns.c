/*
 * lookup_join_columns.c
 *		The results of a lookup join as columns of a block, for a lookup aggregate.
 */
#include "postgres.h"

#include "exec/lookup_join.h"

/* Put a column of outer rows in a block. */
static void
put_outer(const LookupJoin *join, int column, const uint32 *rows, uint32 count, Datum *values,
		  bool *nulls)
{
	for (uint32 i = 0; i < count; i++)
		values[i] = hm_row_value(&join->batch.rows, rows[i], column, &nulls[i]);
}

void
hm_join_put_results(LookupJoin *join, HmColumn *columns, uint32 first, const uint32 *rows,
					const uint32 *matches, uint32 count, bool with_inner)
{
	const JoinFill *fill = &join->result;

	for (int i = 0; i < fill->outer_count; i++)
	{
		HmColumn   *column = &columns[fill->outer_to[i]];

		if (column->values != NULL)
			put_outer(join, fill->outer_from[i], rows, count, column->values + first,
					  column->nulls + first);
	}
	for (int i = 0; i < fill->inner_count; i++)
	{
		HmColumn   *column = &columns[fill->inner_to[i]];

		if (column->values == NULL)
			continue;
		if (with_inner)
		{
			const JoinTarget *target = &join->targets[join->target];

			hm_fetch_columns(join->node.fetch, (AttrNumber) target->columns[fill->inner_from[i]],
							 target->by_slot, matches, count, column->values + first,
							 column->nulls + first);
		}
		else
			memset(column->nulls + first, true, count * sizeof(bool));
	}
}
