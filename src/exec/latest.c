/*
 * latest.c
 *		Execution of latest joins: see latest_plan.c for the nodes.
 *
 * The rows node reads a batch of outer rows and keeps them.  It makes a range of index keys of
 * each, and looks up the entries at that end of the range where the scan begins.  It then
 * returns one row at a time, and the scan node, which the nested loop executes again for each,
 * returns the rows that the entries lead to and that satisfy the scan's conditions.  If these
 * are not enough, the plan below it, an index scan, is executed, and what has been returned is
 * skipped: under the same snapshot it finds the same rows, in the same order but for those with
 * equal values.
 *
 * Batches are small at first, because not all rows may be wanted.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/am.h"
#include "am/keyarray.h"
#include "compat.h"
#include "exec/latest.h"
#include "exec/lookup_node.h"
#include "lookup/lookup.h"

#define FIRST_BATCH 64
#define LARGEST_BATCH 16384

/* The memory in bytes that a batch takes for each row, without the row and its entries. */
#define ROW_MEMORY 128

/* A key, and the column of the outer rows that has its value. */
typedef struct LatestSource
{
	LatestKey key;
	AttrNumber source;
} LatestSource;

typedef struct LatestRows
{
	CustomScanState css;
	MemoryContext context; /* of a batch */
	Relation index;
	HmFields fields;
	int key_count;
	LatestSource *keys;
	uint32 room; /* of this batch */
	uint32 row;  /* the current one, plus 1 */
	bool at_end; /* of the outer side */
	MinimalTuple *tuples;
	TupleTableSlot *kept;
	HmEnds ends;
} LatestRows;

typedef struct LatestScan
{
	CustomScanState css;
	LatestRows *rows;
	struct IndexFetchTableData *fetch;
	uint32 next;      /* entry */
	uint32 returned;  /* rows */
	ItemPointer tids; /* of these */
	bool below;       /* the plan below is executed */
} LatestScan;

/* ----------------------------------------------------------------
 *		Outer rows
 * ----------------------------------------------------------------
 */

static PlanState *
child_of(CustomScanState *node)
{
	return linitial(node->custom_ps);
}

/* Return a row of the plan below, which has the columns of the node's scan tuple. */
static TupleTableSlot *
pass_on(CustomScanState *node, TupleTableSlot *row)
{
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	int columns = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	if (TupIsNull(row))
		return slot;
	slot_getallattrs(row);
	memcpy(slot->tts_values, row->tts_values, columns * sizeof(Datum));
	memcpy(slot->tts_isnull, row->tts_isnull, columns * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	if (node->ss.ps.ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(node->ss.ps.ps_ExprContext);
	node->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(node->ss.ps.ps_ProjInfo);
}

static void
forget_batch(LatestRows *rows)
{
	MemoryContextReset(rows->context);
	rows->ends.count = rows->row = 0;
}

static void
begin_rows(CustomScanState *node, EState *estate, int eflags)
{
	LatestRows *rows = (LatestRows *) node;

	hm_child_begin(node, estate, eflags);
	rows->context =
		AllocSetContextCreate(estate->es_query_cxt, "harmonia latest rows", ALLOCSET_DEFAULT_SIZES);
	rows->kept =
		ExecInitExtraTupleSlot(estate, ExecGetResultType(child_of(node)), &TTSOpsMinimalTuple);
	rows->room = FIRST_BATCH;
}

/* The range of keys of an outer row.  Returns false if it has none. */
static bool
row_range(const LatestRows *rows, TupleTableSlot *slot, HmKey *low, HmKey *high)
{
	HmKey equal[HM_MAX_KEY_COLUMNS];
	int count = 0;

	for (int i = 0; i < rows->key_count; i++)
	{
		const LatestKey *key = &rows->keys[i].key;
		const HmField *field = &rows->fields.fields[key->column];
		HmKey least = field->type->least;
		HmKey most = least + ht_key_ones_128(field->type->bits);
		bool is_null;
		Datum argument = slot_getattr(slot, rows->keys[i].source, &is_null);
		HmKey value;
		HmSpan span;

		if (is_null)
			return false;
		value = field->type->normalise(argument);
		if (key->strategy == BTEqualStrategyNumber)
		{
			equal[count++] = value;
			if (count == rows->key_count)
				hm_compose_key(&rows->fields, equal, count, low, high);
			continue;
		}
		if (i == count)
			hm_compose_key(&rows->fields, equal, count, low, high);
		if (i > count || !hm_field_is_ordered(field))
			continue;
		span = key->strategy < BTEqualStrategyNumber ? hm_field_span(field, least, value) :
													   hm_field_span(field, value, most);
		*high = *low | span.high << field->shift | ht_key_ones_128(field->shift);
		*low |= span.low << field->shift;
	}
	return true;
}

/* Keep an outer row. */
static void
keep_row(LatestRows *rows, TupleTableSlot *slot)
{
	Size size = rows->fields.width <= HT_WIDTH64 ? sizeof(uint64) : sizeof(HmKey);
	HmEnds *ends = &rows->ends;
	HmKey low, high;

	if (!row_range(rows, slot, &low, &high))
	{
		low = 1;
		high = 0;
	}
	hm_key_put((void *) ends->low, size, ends->count, low);
	hm_key_put((void *) ends->high, size, ends->count, high);
	rows->tuples[ends->count++] = ExecCopySlotMinimalTuple(slot);
}

/* Read a batch of outer rows, and look up their entries. */
static void
fill_batch(LatestRows *rows)
{
	HmEnds *ends = &rows->ends;
	MemoryContext old;

	forget_batch(rows);
	old = MemoryContextSwitchTo(rows->context);
	rows->tuples = palloc(rows->room * sizeof(MinimalTuple));
	ends->low = palloc(rows->room * sizeof(HmKey));
	ends->high = palloc(rows->room * sizeof(HmKey));
	ends->tids = palloc_extended((Size) rows->room * ends->most * sizeof(uint64), MCXT_ALLOC_HUGE);
	ends->found = palloc(rows->room * sizeof(uint32));
	ends->complete = palloc(rows->room * sizeof(bool));
	while (ends->count < rows->room &&
		   (ends->count == 0 ||
			MemoryContextMemAllocated(rows->context, false) < (Size) work_mem * 1024))
	{
		TupleTableSlot *slot;

		MemoryContextSwitchTo(old);
		slot = ExecProcNode(child_of(&rows->css));
		MemoryContextSwitchTo(rows->context);
		rows->at_end = TupIsNull(slot);
		if (rows->at_end)
			break;
		keep_row(rows, slot);
	}
	if (ends->count > 0)
		hm_lookup_ends(rows->index, rows->css.ss.ps.state->es_snapshot, ends);
	MemoryContextSwitchTo(old);
	rows->room = Min(rows->room * 4, LARGEST_BATCH);
	rows->room = Min(rows->room, Max(FIRST_BATCH, work_mem * INT64CONST(1024) / ROW_MEMORY));
}

static TupleTableSlot *
exec_rows(CustomScanState *node)
{
	LatestRows *rows = (LatestRows *) node;

	if (rows->row == rows->ends.count && !rows->at_end)
		fill_batch(rows);
	if (rows->row == rows->ends.count)
		return pass_on(node, NULL);
	ExecStoreMinimalTuple(rows->tuples[rows->row++], rows->kept, false);
	return pass_on(node, rows->kept);
}

static void
rescan_rows(CustomScanState *node)
{
	LatestRows *rows = (LatestRows *) node;

	hm_child_rescan(node);
	forget_batch(rows);
	rows->at_end = false;
	rows->room = FIRST_BATCH;
}

static void
end_rows(CustomScanState *node)
{
	LatestRows *rows = (LatestRows *) node;

	if (rows->index != NULL)
		index_close(rows->index, NoLock);
	hm_child_end(node);
}

/* ----------------------------------------------------------------
 *		The scan
 * ----------------------------------------------------------------
 */

static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	Relation table = node->ss.ss_currentRelation;

	hm_child_begin(node, estate, eflags);
	hm_init_scan_slot(estate, &node->ss, RelationGetDescr(table), table_slot_callbacks(table));
	ExecAssignScanProjectionInfo(&node->ss);
	node->ss.ps.qual = ExecInitQual(node->ss.ps.plan->qual, &node->ss.ps);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		((LatestScan *) node)->fetch = hm_index_fetch_begin(table);
}

/* Whether the next entry leads to a row, in the scan slot, that satisfies the conditions. */
static bool
fetch_row(LatestScan *scan, uint64 packed)
{
	ScanState *node = &scan->css.ss;
	ItemPointerData tid;
	bool again = false;
	bool all_dead = false;

	hm_tid_unpack(packed, &tid);
	if (!table_index_fetch_tuple(scan->fetch, &tid, node->ps.state->es_snapshot,
								 node->ss_ScanTupleSlot, &again, &all_dead))
		return false;
	ResetExprContext(node->ps.ps_ExprContext);
	node->ps.ps_ExprContext->ecxt_scantuple = node->ss_ScanTupleSlot;
	return ExecQual(node->ps.qual, node->ps.ps_ExprContext);
}

static bool
was_returned(const LatestScan *scan, ItemPointer tid)
{
	for (uint32 i = 0; i < scan->returned; i++)
	{
		if (ItemPointerEquals(&scan->tids[i], tid))
			return true;
	}
	return false;
}

/* The next row of the plan below that has not been returned. */
static TupleTableSlot *
next_below(LatestScan *scan)
{
	PlanState *child = child_of(&scan->css);
	TupleTableSlot *slot;

	if (!scan->below)
		ExecReScan(child);
	scan->below = true;
	do
		slot = ExecProcNode(child);
	while (!TupIsNull(slot) &&
		   was_returned(scan, &((ScanState *) child)->ss_ScanTupleSlot->tts_tid));
	return slot;
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	LatestScan *scan = (LatestScan *) node;
	const HmEnds *ends = &scan->rows->ends;
	uint32 row = scan->rows->row - 1;

	if (scan->below)
		return next_below(scan);
	while (scan->next < ends->found[row])
	{
		CHECK_FOR_INTERRUPTS();
		if (!fetch_row(scan, ends->tids[(Size) row * ends->most + scan->next++]))
			continue;
		scan->tids[scan->returned++] = node->ss.ss_ScanTupleSlot->tts_tid;
		return node->ss.ps.ps_ProjInfo != NULL ? ExecProject(node->ss.ps.ps_ProjInfo) :
												 node->ss.ss_ScanTupleSlot;
	}
	return ends->complete[row] ? NULL : next_below(scan);
}

static void
rescan_scan(CustomScanState *node)
{
	LatestScan *scan = (LatestScan *) node;

	scan->next = 0;
	scan->returned = 0;
	scan->below = false;
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(child_of(node), node->ss.ps.chgParam);
}

static void
end_scan(CustomScanState *node)
{
	LatestScan *scan = (LatestScan *) node;

	if (scan->fetch != NULL)
		table_index_fetch_end(scan->fetch);
	hm_child_end(node);
}

/* ----------------------------------------------------------------
 *		The join
 * ----------------------------------------------------------------
 */

/* The latest scan at the end of a nested loop's inner side. */
static LatestScan *
find_scan(PlanState *state)
{
	while (!IsA(state, CustomScanState))
		state = IsA(state, SubqueryScanState) ? ((SubqueryScanState *) state)->subplan :
												outerPlanState(state);
	return (LatestScan *) state;
}

/* The column of the outer rows that a nested loop gives a parameter the value of. */
static AttrNumber
source_of(const NestLoop *loop, int param)
{
	ListCell *cell;

	foreach (cell, loop->nestParams)
	{
		const NestLoopParam *item = lfirst_node(NestLoopParam, cell);

		if (item->paramno == param)
			return item->paramval->varattno;
	}
	elog(ERROR, "nested loop does not set parameter %d", param);
}

/* Tell the rows node of the scan's index and keys. */
static void
connect_nodes(LatestRows *rows, LatestScan *scan, const NestLoop *loop)
{
	const List *private = ((CustomScan *) scan->css.ss.ps.plan)->custom_private;

	scan->rows = rows;
	rows->index = index_open((Oid) list_nth_int(private, LATEST_INDEX), AccessShareLock);
	hm_fields_read(rows->index, &rows->fields);
	rows->ends.backward = list_nth_int(private, LATEST_BACKWARD) != 0;
	rows->ends.most = list_nth_int(private, LATEST_ROWS) + 1;
	scan->tids = palloc(rows->ends.most * sizeof(ItemPointerData));
	rows->key_count = (list_length(private) - LATEST_KEYS) / 3;
	rows->keys = palloc(rows->key_count * sizeof(LatestSource));
	for (int i = 0; i < rows->key_count; i++)
	{
		LatestKey *key = &rows->keys[i].key;
		int first = LATEST_KEYS + 3 * i;

		key->column = list_nth_int(private, first);
		key->strategy = list_nth_int(private, first + 1);
		key->param = list_nth_int(private, first + 2);
		rows->keys[i].source = source_of(loop, key->param);
	}
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	PlanState *loop;

	hm_child_begin(node, estate, eflags);
	loop = child_of(node);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		connect_nodes((LatestRows *) outerPlanState(loop), find_scan(innerPlanState(loop)),
					  (const NestLoop *) loop->plan);
}

static TupleTableSlot *
exec_join(CustomScanState *node)
{
	return pass_on(node, ExecProcNode(child_of(node)));
}

/* ----------------------------------------------------------------
 *		Methods
 * ----------------------------------------------------------------
 */

static const CustomExecMethods join_exec_methods = {
	.CustomName = "HarmoniaLatestJoin",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = exec_join,
	.EndCustomScan = hm_child_end,
	.ReScanCustomScan = hm_child_rescan,
};

static const CustomExecMethods rows_exec_methods = {
	.CustomName = "HarmoniaLatestRows",
	.BeginCustomScan = begin_rows,
	.ExecCustomScan = exec_rows,
	.EndCustomScan = end_rows,
	.ReScanCustomScan = rescan_rows,
};

static const CustomExecMethods scan_exec_methods = {
	.CustomName = "HarmoniaLatestScan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan_scan,
};

static Node *
create_state(Size size, const CustomExecMethods *methods)
{
	CustomScanState *node = palloc0(size);

	NodeSetTag(node, T_CustomScanState);
	node->methods = methods;
	return (Node *) node;
}

static Node *
create_join(CustomScan *plan)
{
	return create_state(sizeof(CustomScanState), &join_exec_methods);
}

static Node *
create_rows(CustomScan *plan)
{
	return create_state(sizeof(LatestRows), &rows_exec_methods);
}

static Node *
create_scan(CustomScan *plan)
{
	return create_state(sizeof(LatestScan), &scan_exec_methods);
}

const CustomScanMethods hm_latest_join_methods = {
	.CustomName = "HarmoniaLatestJoin",
	.CreateCustomScanState = create_join,
};

const CustomScanMethods hm_latest_rows_methods = {
	.CustomName = "HarmoniaLatestRows",
	.CreateCustomScanState = create_rows,
};

const CustomScanMethods hm_latest_scan_methods = {
	.CustomName = "HarmoniaLatestScan",
	.CreateCustomScanState = create_scan,
};

void
hm_latest_init(void)
{
	RegisterCustomScanMethods(&hm_latest_join_methods);
	RegisterCustomScanMethods(&hm_latest_rows_methods);
	RegisterCustomScanMethods(&hm_latest_scan_methods);
}
