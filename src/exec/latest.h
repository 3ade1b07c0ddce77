/*
 * latest.h
 *		Latest joins: what the planner half tells the executor half, and the batches of the latter.
 */
#ifndef HARMONIA_EXEC_LATEST_H
#define HARMONIA_EXEC_LATEST_H

#include "exec/lookup_node.h"
#include "exec/planner.h"

/*
 * A comparison of a column of the index with a value that does not depend on the table, as a list
 * of integers.
 */
typedef struct LatestKey
{
	int column; /* of the index, from 0 */
	int strategy;
	int number; /* of the condition, in the index scan's indexqualorig */
} LatestKey;

/*
 * custom_private of a latest join: the index, whether it is read backwards, how many rows are
 * wanted, how many entries that will take, how many outer rows the first batch has, and three
 * integers for each key: those compared for equality first.
 */
enum
{
	LATEST_INDEX,
	LATEST_BACKWARD,
	LATEST_ROWS,
	LATEST_ENTRIES,
	LATEST_BATCH,
	LATEST_KEYS
};

/* The most outer rows of a batch. */
#define LATEST_LARGEST_BATCH 65536

/* The node; latest_plan.c says what it is for. */
extern const CustomScanMethods hm_latest_join_methods;

/* ----------------------------------------------------------------
 *		Batches (latest_batch.c)
 * ----------------------------------------------------------------
 */

/* A key, and what gives its value, as an expression of the index scan's. */
typedef struct LatestSource
{
	LatestKey key;
	ExprState *value;
} LatestSource;

/*
 * A batch of outer rows, and what an index scan would return for each: the scan's conditions and
 * its target list are evaluated here, but it is not executed.
 */
typedef struct LatestBatch
{
	/* What is looked up, and how */
	const NestLoop *loop;
	IndexScanState *scan;
	bool keys_decide;  /* the conditions of the index are true for all rows of a range */
	bool needs_params; /* what is evaluated may have parameters */
	Relation index;
	HmFields fields;
	Size key_size;
	int key_count;
	LatestSource *keys;
	bool backward;
	uint32 wanted;  /* rows for each outer row */
	uint32 entries; /* that the first round takes for each */
	HmFetch *fetch;

	/* The outer rows */
	MemoryContext context; /* of what a batch allocates */
	uint32 room;
	uint32 count;
	KeptRows outer;
	void *low; /* the range of each; none if low > high */
	void *high;

	/* What was found */
	KeptRows found;
	uint32 found_count;
	uint32 *rows;     /* "wanted" numbers of found rows for each outer row, in order */
	uint32 *counts;   /* of these */
	bool *incomplete; /* there are more: the scan has to be executed for this outer row */
} LatestBatch;

/* Begin with batches of rows of these types.  What they need is below CurrentMemoryContext. */
extern void hm_latest_batch_begin(LatestBatch *batch, EState *estate, TupleDesc outer);

/* Drop the batch's rows, and have room for this many, or fewer if memory is short. */
extern void hm_latest_batch_reset(LatestBatch *batch, uint32 room);

/* Whether one more outer row may be added; and add it. */
extern bool hm_latest_batch_has_room(const LatestBatch *batch);
extern void hm_latest_batch_add(LatestBatch *batch, TupleTableSlot *slot);

/* Look up all rows of the batch. */
extern void hm_latest_batch_look_up(LatestBatch *batch);

/* Have the parameters of the nested loop set to the values of an outer row. */
extern void hm_latest_batch_set_params(const LatestBatch *batch, uint32 row);

/* Put a kept row into a virtual slot. */
extern void hm_latest_load(const KeptRows *rows, uint32 row, TupleTableSlot *slot);

extern void hm_latest_batch_end(LatestBatch *batch);

#endif /* HARMONIA_EXEC_LATEST_H */
