/*
 * lookup_join_columns.c
 *		The results of a lookup join as columns of a block, for a lookup aggregate.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "utils/rel.h"

#include "exec/lookup_join.h"

/* Put a column of outer rows in a block. */
static void
put_outer(const LookupJoin *join, int column, const uint32 *rows, uint32 count, Datum *values,
		  bool *nulls)
{
	for (uint32 i = 0; i < count; i++)
		values[i] = hm_row_value(&join->batch.rows, rows[i], column, &nulls[i]);
}

/* Put a column of the inner side in a block.  The matches are the run's. */
static void
put_inner(LookupJoin *join, int column, const uint32 *matches, uint32 count, Datum *values,
		  bool *nulls)
{
	const JoinTarget *target = &join->targets[join->target];
	int			attribute = target->columns[column];

	for (uint32 i = 0; i < count; i++)
	{
		if (join->index_only)
			values[i] = hm_fetch_column(join->node.fetch, matches[i], (AttrNumber) attribute, &nulls[i]);
		else if (target->by_slot || join->run->slot != NULL)
		{
			TupleTableSlot *inner = hm_fetch_store(join->node.fetch, matches[i]);

			values[i] = attribute > 0 ? slot_getattr(inner, attribute, &nulls[i]) :
				slot_getsysattr(inner, attribute, &nulls[i]);
		}
		else
			values[i] = heap_getattr(unconstify(HeapTupleData *, &join->run->tuples[matches[i]]),
									 attribute, RelationGetDescr(target->table), &nulls[i]);
	}
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
			put_inner(join, fill->inner_from[i], matches, count, column->values + first,
					  column->nulls + first);
		else
			memset(column->nulls + first, true, count * sizeof(bool));
	}
}
