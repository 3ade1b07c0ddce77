/*
 * sink_rows.c
 *		What is done with hits: rows are returned.
 *
 * A node that has no conditions and computes nothing fills its result straight from the kept
 * columns and the tuple.  Only those columns are filled that somebody reads.  A scan of one
 * table returns its tuples in their own slot, as PostgreSQL's scans do.
 */
#include "postgres.h"

#include "optimizer/optimizer.h"

#include "compat.h"
#include "exec/sink.h"

TupleTableSlot *
hm_emit_row(LookupNode *lookup, uint32 row, bool with_inner)
{
	PlanState *state = &lookup->node.css.ss.ps;

	if (lookup->result.slot != NULL)
	{
		fill_slot(lookup, &lookup->result, row, with_inner);
		return lookup->result.slot;
	}
	/* PostgreSQL makes no projection if the result is the scan tuple as it is. */
	if (state->ps_ProjInfo == NULL)
		return lookup->candidate.slot;
	state->ps_ExprContext->ecxt_scantuple = lookup->candidate.slot;
	return ExecProject(state->ps_ProjInfo);
}

TupleTableSlot *
hm_rows_exec(CustomScanState *node)
{
	LookupNode *lookup = (LookupNode *) node;
	uint32 row;
	bool with_inner;

	ResetExprContext(node->ss.ps.ps_ExprContext);
	for (;;)
	{
		hm_lookup_go_on(lookup);
		if (lookup->phase == PHASE_DONE)
			return ExecClearTuple(node->ss.ps.ps_ResultTupleSlot);
		if (next_result(lookup, &row, &with_inner))
			return hm_emit_row(lookup, row, with_inner);
	}
}

/* ----------------------------------------------------------------
 *		Scans of one table
 * ----------------------------------------------------------------
 */

/*
 * The next row.  At the end the slot is empty, as WHERE CURRENT OF expects of a scan that has
 * left its last row.
 */
static TupleTableSlot *
next_tuple(ScanState *state)
{
	LookupNode *lookup = (LookupNode *) state;
	uint32 row;

	for (;;)
	{
		if (lookup->run != NULL && next_in_run(lookup, &row))
			return state->ss_ScanTupleSlot;
		hm_lookup_go_on(lookup);
		if (lookup->phase == PHASE_DONE)
			return ExecClearTuple(state->ss_ScanTupleSlot);
	}
}

/* Whether a row from EvalPlanQual satisfies the scan's conditions. */
static bool
recheck_tuple(ScanState *state, TupleTableSlot *slot)
{
	LookupNode *lookup = (LookupNode *) state;
	ExprContext *econtext = state->ps.ps_ExprContext;

	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	return ExecQual(lookup->quals, econtext);
}

TupleTableSlot *
hm_table_exec(CustomScanState *node)
{
	return ExecScan(&node->ss, next_tuple, recheck_tuple);
}

static Bitmapset *
set_of(const List *numbers)
{
	Bitmapset *set = NULL;
	ListCell *cell;

	foreach (cell, numbers)
		set = bms_add_member(set, lfirst_int(cell));
	return set;
}

bool
hm_table_choose_columns(LookupNode *lookup)
{
	SlotFill *fill = &lookup->candidate;
	Relation index = lookup->targets[0].index;
	bool exact = lookup->batch.exact;
	Bitmapset *columns;

	if (!lookup->plan.index_only || (lookup->chosen && lookup->chosen_for_exact == exact))
		return false;
	columns = set_of(exact ? lookup->plan.columns :
							 list_concat_copy(lookup->plan.columns, lookup->plan.clause_columns));
	ExecClearTuple(fill->slot);
	memset(fill->slot->tts_isnull, true, lookup->column_count * sizeof(bool));
	fill->inner_count = 0;
	for (int i = 0; i < IndexRelationGetNumberOfAttributes(index); i++)
	{
		AttrNumber attribute = index->rd_index->indkey.values[i];

		if (hm_can_return(index, i + 1) && bms_is_member(attribute, columns))
		{
			fill->inner_to[fill->inner_count] = attribute - 1;
			fill->inner_from[fill->inner_count++] = attribute - 1;
		}
	}
	bms_free(columns);
	lookup->chosen = true;
	lookup->chosen_for_exact = exact;
	return true;
}

/*
 * Have blocks filled with the result, if that is a column or two of the table, and all rows of the
 * scan.
 */
static void
begin_blocks(LookupNode *lookup)
{
	const PlanState *state = &lookup->node.css.ss.ps;
	List *tlist = state->plan->targetlist;
	SlotFill *fill = &lookup->result;
	ListCell *cell;

	if (list_length(tlist) >= HM_SLOT_MIN_COLUMNS || state->qual != NULL ||
		state->state->es_epq_active != NULL)
		return;
	fill->inner_to = palloc(HM_SLOT_MIN_COLUMNS * sizeof(int));
	fill->inner_from = palloc(HM_SLOT_MIN_COLUMNS * sizeof(int));
	foreach (cell, tlist)
	{
		const Var *var = (const Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varattno <= 0)
			return;
		fill->inner_to[fill->inner_count] = foreach_current_index(cell);
		fill->inner_from[fill->inner_count++] = var->varattno - 1;
	}
	lookup->has_blocks = true;
}

void
hm_table_begin(LookupNode *lookup)
{
	CustomScanState *node = &lookup->node.css;
	Relation table = node->ss.ss_currentRelation;
	SlotFill *fill = &lookup->candidate;

	/*
	 * PostgreSQL has made a slot for virtual tuples.  A slot of the table's own kind
	 * deforms only the columns that are read.
	 */
	if (!lookup->plan.index_only)
	{
		hm_init_scan_slot(node->ss.ps.state, &node->ss, RelationGetDescr(table),
						  table_slot_callbacks(table));
		ExecAssignScanProjectionInfo(&node->ss);
		node->ss.ps.qual = ExecInitQual(node->ss.ps.plan->qual, &node->ss.ps);
	}
	fill->slot = node->ss.ss_ScanTupleSlot;
	fill->inner_to = palloc(HM_MAX_KEY_COLUMNS * sizeof(int));
	fill->inner_from = palloc(HM_MAX_KEY_COLUMNS * sizeof(int));
	lookup->fills_candidate = true;
	lookup->value_column = -1;
	begin_blocks(lookup);
}
