/*
 * lookup_aggregate.h
 *		The state of a lookup aggregate, and what lookup_aggregate*.c, aggregates.c and
 *		aggregate_groups.c offer to one another.
 */
#ifndef HARMONIA_EXEC_LOOKUP_AGGREGATE_H
#define HARMONIA_EXEC_LOOKUP_AGGREGATE_H

#include "nodes/primnodes.h"

#include "exec/nodes.h"

/* The maximum number of rows in a block. */
#define HM_BLOCK_ROWS 1024

/* ----------------------------------------------------------------
 *		Aggregates (aggregates.c)
 * ----------------------------------------------------------------
 */

/* The state of one aggregate in one group.  All zeros is the state of no rows. */
typedef struct HmAggregateState
{
	int64 count; /* of values that are not NULL */
	union
	{
		int128 sum;
		Datum value; /* undefined if count is 0 */
	} u;
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

/* Whether equality by this operator is that of bits, so that groups can be found. */
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
extern void hm_groups_find(HmGroups *groups, const HmColumn *columns, uint32 rows, char **records,
						   uint32 *hashes);
extern char *hm_groups_no_record(const HmGroups *groups);

/* The offset of an aggregate's state in a record. */
extern Size hm_groups_state_offset(const HmGroups *groups, int aggregate);

/* Get a group's record, by its number, and store its keys and kept columns in a row. */
extern char *hm_groups_get(const HmGroups *groups, uint32 number, Datum *values, bool *nulls);

/* ----------------------------------------------------------------
 *		The node's state (lookup_aggregate.c)
 * ----------------------------------------------------------------
 */

/* Rows that are set aside are divided by the upper bits of their hashes. */
#define PART_BITS 4
#define PARTS (1 << PART_BITS)

/* A column that is read from the rows below. */
typedef struct ReadColumn
{
	int column;
	bool nulls_only; /* no value is needed, but for whether it is NULL */
	bool by_value;
	int16 length;
} ReadColumn;

typedef struct Aggregate
{
	const HmAggregate *function;
	bool partial;
	int column;          /* the argument, if it is a plain column */
	ExprState *argument; /* if it is another expression */
	ExprState *filter;
	HmColumn input; /* if there is an expression or a filter */
	Size offset;    /* of its state in a group's record */
} Aggregate;

/* Rows that are set aside, and how often they have been. */
typedef struct Part
{
	Tuplestorestate *rows;
	uint32 level;
} Part;

/* hm_lookup_block(). */
typedef uint32 (*HmReadBlock)(CustomScanState *node, HmColumn *columns, uint32 max);

typedef struct LookupAggregate
{
	CustomScanState css;
	int column_count; /* of the rows below; in the scan tuple, these are followed by aggregates */
	int last_read;    /* the highest column that is read */
	int read_count;
	ReadColumn *reads;
	int aggregate_count;
	Aggregate *aggregates;
	bool evaluates; /* some input has to be evaluated */

	/* The block. */
	HmReadBlock read_block; /* reads one from the plan below; NULL: rows are read one by one */
	uint32 rows;
	uint64 counted;        /* rows that are counted, but not added yet */
	HmColumn *columns;     /* those that are read have arrays */
	MemoryContext context; /* values that are not passed by value */

	/* Groups. */
	HmGroups *groups;         /* NULL without GROUP BY */
	HmAggregateState *states; /* without GROUP BY */
	char **records;           /* of the block's rows */
	uint32 *hashes;
	TupleTableSlot *write_slot;
	TupleTableSlot *read_slot;
	Part *source;                  /* where rows are read from; NULL: from below */
	Tuplestorestate *parts[PARTS]; /* being written */
	List *pending;                 /* Parts that have been written */
	uint64 passes;                 /* how many parts have been read */
	uint64 set_aside;              /* rows */

	bool source_done;
	uint32 next_group;
} LookupAggregate;

/*
 * Set up the state from the plan, whose child's state must be there (lookup_aggregate_begin.c).
 * The second part is not for EXPLAIN alone.
 */
extern void hm_aggregates_begin(LookupAggregate *state);
extern void hm_aggregates_begin_rows(LookupAggregate *state, EState *estate);

/* ----------------------------------------------------------------
 *		Rows (lookup_aggregate_rows.c)
 * ----------------------------------------------------------------
 */

/* Read the next block from the source of rows.  Returns false if none are left. */
extern bool hm_aggregates_read_block(LookupAggregate *state);

/* Find the groups of the block's rows, and set those aside that have none. */
extern void hm_aggregates_find_groups(LookupAggregate *state);

/* The source is at its end, so what was set aside of its rows is complete. */
extern void hm_aggregates_finish_source(LookupAggregate *state);

/*
 * Begin to read rows that were set aside, with an empty table of groups.  Returns false if
 * there are none.
 */
extern bool hm_aggregates_next_source(LookupAggregate *state);

/* Drop all rows that were set aside. */
extern void hm_aggregates_drop_rows(LookupAggregate *state);

#endif /* HARMONIA_EXEC_LOOKUP_AGGREGATE_H */
