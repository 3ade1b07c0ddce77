/*
 * plan_rows.h
 *		Reading the rows of a plan, of which some columns are wanted.
 */
#ifndef HARMONIA_EXEC_PLAN_ROWS_H
#define HARMONIA_EXEC_PLAN_ROWS_H

#include "nodes/execnodes.h"

#include "am/heaprows.h"

/* A plan that rows come from. */
typedef struct PlanRowsSource
{
	PlanState *plan;
	AttrNumber *attributes; /* if the plan does nothing but read a table: the table's; otherwise
							 * NULL, and the following is not used */
	int last_attribute;
	bool fixed; /* they are at fixed offsets: */
	HmHeapColumns offsets;
	TupleTableSlot *stored; /* the scan's */
} PlanRowsSource;

typedef struct PlanRows
{
	PlanState *plan;
	int count;               /* wanted columns */
	int *columns;            /* numbered from 0 on */
	int last;                /* the last one, from 1 on */
	PlanRowsSource *sources; /* the plan, or the children of an Append */
	int source_count;
	PlanRowsSource *source; /* that is being read */
	TableScanDesc scan;     /* where the next row comes from, or NULL: from the source's plan */
	HeapScanDesc heap;      /* the same, if rows are taken from its page; or NULL */
	HeapTupleData tuple;    /* in "stored" */
	TupleTableSlot *slot;   /* what is returned: like the plan's */
} PlanRows;

/*
 * Prepare to read these columns, numbered from 1 on, of a plan's rows.  What is allocated is
 * in CurrentMemoryContext, which must be the query's.
 */
extern void hm_plan_rows_init(PlanRows *rows, PlanState *plan, const Bitmapset *columns);

/* Begin to read, or begin again after a rescan. */
extern void hm_plan_rows_begin(PlanRows *rows);

/*
 * For hm_plan_rows_next(): the plan's next row; and one that goes through the scan's slot, which is
 * the one that the scan is at, or else its next one.
 */
extern TupleTableSlot *hm_plan_rows_fetch(PlanRows *rows);
extern TupleTableSlot *hm_plan_rows_deform(PlanRows *rows, bool current);

/*
 * Take the rows after the one that was read last, at most "max" of them, as tuples: as long as they
 * are on its heap page and all wanted columns are at fixed offsets, which rows->source->offsets has
 * in the order of rows->columns.  Returns their number.  They are valid until the next row is read.
 */
extern uint32 hm_plan_rows_take(PlanRows *rows, HeapTupleHeader *tuples, uint32 max);

/* The place of a wanted column, numbered from 1 on, among the wanted columns. */
extern int hm_plan_rows_place(const PlanRows *rows, int column);

/*
 * Read the next row.  Returns a slot whose wanted columns are deformed; other columns are not to
 * be looked at.  What they point to is valid until the next row is read.  Returns NULL at the
 * end; do not call it again then.
 */
static inline TupleTableSlot *
hm_plan_rows_next(PlanRows *rows)
{
	HeapTupleHeader tuple;

	if (rows->heap == NULL || !hm_heap_next_in_page(rows->heap))
		return rows->scan == NULL ? hm_plan_rows_fetch(rows) : hm_plan_rows_deform(rows, false);
	tuple = hm_heap_tuple(rows->heap);
	if (!hm_heap_columns_fit(&rows->source->offsets, tuple))
		return hm_plan_rows_deform(rows, true);
	for (int i = 0; i < rows->count; i++)
	{
		rows->slot->tts_values[rows->columns[i]] = hm_heap_column(&rows->source->offsets, i, tuple);
		rows->slot->tts_isnull[rows->columns[i]] = false;
	}
	return rows->slot;
}

#endif /* HARMONIA_EXEC_PLAN_ROWS_H */
