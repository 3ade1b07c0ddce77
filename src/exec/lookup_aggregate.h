/*
 * lookup_aggregate.h
 *		What lookup_aggregate.c, lookup_aggregate_plan.c, aggregates.c and
 *		aggregate_groups.c offer to one another.
 */
#ifndef HARMONIA_EXEC_LOOKUP_AGGREGATE_H
#define HARMONIA_EXEC_LOOKUP_AGGREGATE_H

#include "nodes/primnodes.h"

#include "exec/nodes.h"

/* The maximum number of rows in a block. */
#define HM_BLOCK_ROWS	1024

/* ----------------------------------------------------------------
 *		Aggregates (aggregates.c)
 * ----------------------------------------------------------------
 */

/* The state of one aggregate in one group.  All zeros is the state of no rows. */
typedef struct HmAggregateState
{
	int64		count;			/* of values that are not NULL */
	union
	{
		int128		sum;
		Datum		value;		/* undefined if count is 0 */
	}			u;
} HmAggregateState;

/* What can be computed: an aggregate function of PostgreSQL. */
typedef struct HmAggregate HmAggregate;

/* The description of an aggregate function, or NULL if it is not supported. */
extern const HmAggregate *hm_aggregate_lookup(Oid function);

/*
 * Add a block's values to states.  If records is NULL, all rows belong to *state.
 * Otherwise, records[i] is the record of row i's group, which has its state at this
 * offset.
 *
 * A row for which the input is NULL is left out.  Only count(*) without FILTER has no input.
 */
extern void hm_aggregate_add(const HmAggregate *aggregate, const HmColumn *input, uint32 rows,
							 HmAggregateState *state, char **records, Size offset);

/*
 * The result of an aggregate; or, if "partial" is set, its transition state, as a partial
 * aggregate passes it on, serialized.
 */
extern Datum hm_aggregate_result(const HmAggregate *aggregate, const HmAggregateState *state,
								 bool partial, bool *is_null);

/*
 * Check that the user may call an aggregate, and its owner the functions that it
 * consists of, as an Agg node does.
 */
extern void hm_aggregate_check_permissions(const Aggref *aggref);

/* ----------------------------------------------------------------
 *		Groups (aggregate_groups.c)
 * ----------------------------------------------------------------
 */

/*
 * A table of groups.  A group's record has its keys, the columns that are kept of its
 * first row, and the state of each aggregate.
 */
typedef struct HmGroups HmGroups;

/* Whether equality by this operator is that of Datums, so that groups can be found. */
extern bool hm_groups_can_compare(Oid operator);

/* The memory that a group takes, but for kept values that are not passed by value. */
extern Size hm_groups_record_memory(int keys, int kept, int aggregates);

/*
 * Create an empty table.  keys and kept are lists of column numbers, from 1, in a row of
 * this type.  Memory is allocated in CurrentMemoryContext.
 */
extern HmGroups *hm_groups_create(List *keys, List *kept, int aggregates, TupleDesc desc);

/* Forget all groups.  Another seed gives other hashes; it is 0 at first. */
extern void hm_groups_reset(HmGroups *groups, uint32 seed);

/* The number of groups. */
extern uint32 hm_groups_count(const HmGroups *groups);

/*
 * Find the groups of a block's rows, or add them: sets records[i] to the record of row
 * i's group, and hashes[i] to the hash of its keys.  If the table is full, it does not
 * grow.  The record of a row without a group is hm_groups_no_record() then; what is
 * added to that is never looked at.
 */
extern void hm_groups_find(HmGroups *groups, const HmColumn *columns, uint32 rows,
						   char **records, uint32 *hashes);
extern char *hm_groups_no_record(const HmGroups *groups);

/* The offset of an aggregate's state in a record. */
extern Size hm_groups_state_offset(const HmGroups *groups, int aggregate);

/* Get a group's record, by its number, and store its keys and kept columns in a row. */
extern char *hm_groups_get(const HmGroups *groups, uint32 number, Datum *values, bool *nulls);

#endif							/* HARMONIA_EXEC_LOOKUP_AGGREGATE_H */
