/*
 * join.c
 *		Executing a foreign join: rows of any plan, looked up in foreign tables.
 *
 *		+----> FILL: read a batch of outer rows; collect their distinct keys
 *		|        |
 *		|      TARGET: set the parameter to the array of keys; rescan the next inner plan <--+
 *		|        |   \                                                                       |
 *		|        |    MATCH: each row that it returns, with the outer rows of its key, -------+
 *		|        |           is a candidate
 *		|        |
 *		|      ROWS (left and antijoins): outer rows without a match, in their order
 *		|        |
 *		+--------+-----> DONE, when there are no more outer rows
 *
 * An inner plan is a foreign scan, made by the foreign table's own wrapper, which has one
 * condition more than the query: k = ANY ($n).  The wrapper sends the array with its remote
 * query.  So a batch is one remote query for each foreign table.
 *
 * A row that comes back is looked up in the batch's hash table.  So it is found only if its key
 * is equal to the outer row's by the join's own operator, whatever the remote server has
 * compared.  Inner rows are not kept.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "foreign/foreign_join.h"

/*
 * Rows of the first batch, and how many times larger each next one may be, where the first
 * rows are wanted soon.
 */
#define FIRST_ROWS_BATCH	100
#define FIRST_ROWS_GROWTH	10

#define MIN_ROOM		1024

/* A batch has at most this many bytes: the array's text has to fit into a gigabyte. */
#define MAX_MEMORY		((Size) 128 * 1024 * 1024)

typedef struct ForeignJoin
{
	CustomScanState css;
	JoinType	type;
	int			param;			/* the number of the array's parameter */
	bool		first_rows;
	bool		one_match;		/* an outer row's first match is enough */
	bool		keeps_unmatched;
	int			column_count;	/* of the scan tuple */
	int		   *sources;		/* see HM_FOREIGN_SOURCES */
	int			outer_last;
	ExprState  *argument;
	ExprState  *key;
	ExprState  *quals;
	ExprState **shares;			/* for each inner plan, from 1 on; NULL: it may have any key */

	LookupPhase	phase;
	HmValueSet keys;
	KeptRows	rows;
	uint32		room;			/* for rows */
	uint32		count;			/* rows in the batch */
	uint32		limit;			/* of the next batch */
	Size		memory;			/* of a batch */
	uint32	   *next_row;		/* the next one with the same key */
	uint8	   *matched;
	bool		outer_done;
	int			target;			/* the current inner plan, from 1 on */
	TupleTableSlot *inner;		/* its current row */
	uint32		row;			/* the next outer row */

	Datum		array;			/* the parameter's value, or 0 */

	uint64		batches;		/* for EXPLAIN */
	uint64		queries;		/* how often an inner plan was run */
	uint64		sent;			/* keys in these */
} ForeignJoin;

static Size
batch_memory(void)
{
	return Min(get_hash_memory_limit(), MAX_MEMORY);
}

double
hm_foreign_batch_rows(int width, int columns)
{
	Size		row = sizeof(HmSetValue) + 3 * sizeof(Datum) + sizeof(uint32) + sizeof(uint8) +
		columns * sizeof(Datum) + width;

	return Min((double) hm_batch_size, (double) batch_memory() / row);
}

/* ----------------------------------------------------------------
 *		Batches
 * ----------------------------------------------------------------
 */

static void
restart(ForeignJoin *join)
{
	join->phase = PHASE_FILL;
	join->outer_done = false;
	join->limit = join->first_rows ? FIRST_ROWS_BATCH : (uint32) hm_batch_size;
}

static void
make_room(ForeignJoin *join)
{
	MemoryContext context = join->css.ss.ps.state->es_query_cxt;
	uint32		room = Max(MIN_ROOM, join->room * 2);

	hm_rows_make_room(&join->rows, room);
	join->next_row = hm_resize_large(context, join->next_row, room * sizeof(uint32));
	join->matched = hm_resize_large(context, join->matched, room);
	join->room = room;
}

/* Put the outer columns of a row that has just been read in the scan slot. */
static void
put_outer(ForeignJoin *join, TupleTableSlot *outer)
{
	TupleTableSlot *slot = join->css.ss.ss_ScanTupleSlot;

	slot_getsomeattrs(outer, join->outer_last);
	ExecClearTuple(slot);
	for (int i = 0; i < join->column_count; i++)
	{
		int			source = join->sources[i];

		slot->tts_isnull[i] = source < 0 || outer->tts_isnull[source - 1];
		slot->tts_values[i] = source < 0 ? (Datum) 0 : outer->tts_values[source - 1];
	}
	ExecStoreVirtualTuple(slot);
}

/* Add an outer row to the batch.  A row without a key has no match. */
static void
add_row(ForeignJoin *join, TupleTableSlot *outer)
{
	ExprContext *econtext = join->css.ss.ps.ps_ExprContext;
	bool		is_null;
	Datum		value;

	put_outer(join, outer);
	econtext->ecxt_scantuple = join->css.ss.ss_ScanTupleSlot;
	value = ExecEvalExprSwitchContext(join->argument, econtext, &is_null);
	if (is_null && !join->keeps_unmatched)
		return;
	if (join->count == join->room)
		make_room(join);
	hm_rows_add(&join->rows, join->count, outer);
	join->matched[join->count] = 0;
	join->next_row[join->count] = HM_NO_VALUE;
	if (!is_null)
	{
		HmSetValue *key = &join->keys.keys[0];
		uint32		number = hm_value_set_add(&join->keys, value);

		key = &join->keys.keys[number];
		if (key->first_row == HM_NO_VALUE)
			key->first_row = join->count;
		else
			join->next_row[key->last_row] = join->count;
		key->last_row = join->count;
	}
	join->count++;
}

static bool
is_full(const ForeignJoin *join)
{
	Size		row = sizeof(uint32) + sizeof(uint8) + join->rows.count * sizeof(Datum);

	return join->count >= join->limit ||
		join->count * row + join->rows.copied + hm_value_set_memory(&join->keys) >= join->memory;
}

/* Read the next batch.  Returns false if it has no rows. */
static bool
fill_batch(ForeignJoin *join)
{
	PlanState  *outer_plan = linitial(join->css.custom_ps);

	hm_value_set_reset(&join->keys);
	hm_rows_reset(&join->rows);
	join->array = (Datum) 0;
	join->count = 0;
	join->target = 0;
	join->row = 0;
	while (!join->outer_done && !is_full(join))
	{
		TupleTableSlot *outer = ExecProcNode(outer_plan);

		CHECK_FOR_INTERRUPTS();
		if (TupIsNull(outer))
			join->outer_done = true;
		else
			add_row(join, outer);
		ResetExprContext(join->css.ss.ps.ps_ExprContext);
	}
	if (join->limit < (uint32) hm_batch_size / FIRST_ROWS_GROWTH)
		join->limit *= FIRST_ROWS_GROWTH;
	else
		join->limit = (uint32) hm_batch_size;
	ExecClearTuple(join->css.ss.ss_ScanTupleSlot);
	join->batches += join->count > 0;
	return join->count > 0;
}

/*
 * Start the next inner plan that may have some of the batch's keys, with these.  Returns false if
 * there is none left.
 */
static bool
next_target(ForeignJoin *join)
{
	ParamExecData *param = &join->css.ss.ps.state->es_param_exec_vals[join->param];

	/* The array of the target before is not needed any more. */
	if (join->array != (Datum) 0)
		pfree(DatumGetPointer(join->array));
	join->array = (Datum) 0;
	while (join->keys.count > 0 && ++join->target < list_length(join->css.custom_ps))
	{
		PlanState  *plan = list_nth(join->css.custom_ps, join->target);
		uint32		count = hm_value_set_array(&join->keys, join->shares[join->target],
												  join->css.ss.ps.ps_ExprContext, &join->array);

		if (count == 0)
			continue;
		param->execPlan = NULL;
		param->value = join->array;
		param->isnull = false;
		plan->chgParam = bms_add_member(plan->chgParam, join->param);
		ExecReScan(plan);
		join->queries++;
		join->sent += count;
		join->inner = NULL;
		join->row = HM_NO_VALUE;
		return true;
	}
	return false;
}

/* ----------------------------------------------------------------
 *		Matches
 * ----------------------------------------------------------------
 */

/* Fill the scan slot from an outer row and, with_inner, from the inner row. */
static void
fill_slot(ForeignJoin *join, uint32 row, bool with_inner)
{
	TupleTableSlot *slot = join->css.ss.ss_ScanTupleSlot;
	int			kept = 0;

	ExecClearTuple(slot);
	for (int i = 0; i < join->column_count; i++)
	{
		int			source = join->sources[i];

		if (source > 0)
			slot->tts_values[i] = hm_row_value(&join->rows, row, kept++, &slot->tts_isnull[i]);
		else if (with_inner)
		{
			slot->tts_values[i] = join->inner->tts_values[-source - 1];
			slot->tts_isnull[i] = join->inner->tts_isnull[-source - 1];
		}
		else
			slot->tts_isnull[i] = true;
	}
	ExecStoreVirtualTuple(slot);
}

/* The first outer row that has the inner row's key, or HM_NO_VALUE. */
static uint32
first_row(ForeignJoin *join)
{
	TupleTableSlot *slot = join->css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = join->css.ss.ps.ps_ExprContext;
	bool		is_null;
	Datum		value;
	uint32		key;

	/* The key refers to none of the outer columns. */
	slot_getallattrs(join->inner);
	ExecClearTuple(slot);
	for (int i = 0; i < join->column_count; i++)
	{
		int			source = join->sources[i];

		slot->tts_isnull[i] = source > 0 || join->inner->tts_isnull[-source - 1];
		slot->tts_values[i] = source > 0 ? (Datum) 0 : join->inner->tts_values[-source - 1];
	}
	ExecStoreVirtualTuple(slot);
	econtext->ecxt_scantuple = slot;
	value = ExecEvalExprSwitchContext(join->key, econtext, &is_null);
	if (is_null)
		return HM_NO_VALUE;
	key = hm_value_set_find(&join->keys, value);
	return key == HM_NO_VALUE ? HM_NO_VALUE : join->keys.keys[key].first_row;
}

/*
 * Go to the next match: set *row to its outer row.  Returns false at the end of the inner
 * plan.
 */
static bool
next_match(ForeignJoin *join, uint32 *row)
{
	ExprContext *econtext = join->css.ss.ps.ps_ExprContext;

	for (;;)
	{
		while (join->row == HM_NO_VALUE)
		{
			CHECK_FOR_INTERRUPTS();
			join->inner = ExecProcNode(list_nth(join->css.custom_ps, join->target));
			if (TupIsNull(join->inner))
				return false;
			ResetExprContext(econtext);
			join->row = first_row(join);
		}
		*row = join->row;
		join->row = join->next_row[*row];
		if (join->one_match && join->matched[*row] != 0)
			continue;
		ResetExprContext(econtext);
		fill_slot(join, *row, true);
		econtext->ecxt_scantuple = join->css.ss.ss_ScanTupleSlot;
		if (!ExecQual(join->quals, econtext))
		{
			InstrCountFiltered2(join, 1);
			continue;
		}
		join->matched[*row] = 1;
		return true;
	}
}

/* Go to the next outer row without a match.  Returns false if there is none left. */
static bool
next_unmatched(ForeignJoin *join, uint32 *row)
{
	while (join->row < join->count)
	{
		*row = join->row++;
		if (join->matched[*row] != 0)
			continue;
		ResetExprContext(join->css.ss.ps.ps_ExprContext);
		fill_slot(join, *row, false);
		return true;
	}
	return false;
}

/* Go to the next row of the join, which is put in the scan slot.  Returns false at the end. */
static bool
next_result(ForeignJoin *join)
{
	uint32		row;

	for (;;)
	{
		switch (join->phase)
		{
			case PHASE_FILL:
				join->phase = fill_batch(join) ? PHASE_TARGET : PHASE_DONE;
				break;

			case PHASE_TARGET:
				if (next_target(join))
					join->phase = PHASE_MATCH;
				else
				{
					join->phase = join->keeps_unmatched ? PHASE_ROWS : PHASE_FILL;
					join->row = 0;
				}
				break;

			case PHASE_MATCH:
				if (!next_match(join, &row))
					join->phase = PHASE_TARGET;
				else if (join->type != JOIN_ANTI)
					return true;
				break;

			case PHASE_ROWS:
				if (next_unmatched(join, &row))
					return true;
				join->phase = PHASE_FILL;
				break;

			case PHASE_DONE:
				return false;
		}
	}
}

static TupleTableSlot *
exec_join(CustomScanState *node)
{
	ForeignJoin *join = (ForeignJoin *) node;
	PlanState  *state = &node->ss.ps;
	ExprContext *econtext = state->ps_ExprContext;

	ResetExprContext(econtext);
	while (next_result(join))
	{
		econtext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
		if (ExecQual(state->qual, econtext))
			return state->ps_ProjInfo != NULL ? ExecProject(state->ps_ProjInfo) :
				node->ss.ss_ScanTupleSlot;
		InstrCountFiltered1(node, 1);
	}
	return ExecClearTuple(state->ps_ResultTupleSlot != NULL ? state->ps_ResultTupleSlot :
						  node->ss.ss_ScanTupleSlot);
}

/* ----------------------------------------------------------------
 *		Beginning and end
 * ----------------------------------------------------------------
 */

static void
begin_columns(ForeignJoin *join, List *sources, TupleDesc outer)
{
	ListCell   *cell;
	int			count = 0;

	join->column_count = list_length(sources);
	join->sources = palloc(Max(1, join->column_count) * sizeof(int));
	join->rows.columns = palloc(Max(1, join->column_count) * sizeof(KeptColumn));
	foreach(cell, sources)
	{
		int			source = lfirst_int(cell);

		join->sources[foreach_current_index(cell)] = source;
		join->outer_last = Max(join->outer_last, source);
		if (source > 0)
			join->rows.columns[count++].source = source;
	}
	hm_rows_begin(&join->rows, count, outer);
}

/*
 * Where EXPLAIN asks the initplans of the plans above for the source of a parameter: give the state a copy of the plan with one, which
 * nothing executes, as initplans are taken from the plan itself.
 */
static void
name_parameter(ForeignJoin *join)
{
	CustomScan *plan = makeNode(CustomScan);
	SubPlan    *source = makeNode(SubPlan);
	List	   *initplans = join->css.ss.ps.plan->initPlan;

	/* Or it would be sent to workers. */
	Assert(!join->css.ss.ps.plan->parallel_safe);
	memcpy(plan, join->css.ss.ps.plan, sizeof(CustomScan));
	source->plan_name = pstrdup("keys");
	source->setParam = list_make1_int(join->param);
	plan->scan.plan.initPlan = lappend(list_copy(initplans), source);
	join->css.ss.ps.plan = &plan->scan.plan;
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	ForeignJoin *join = (ForeignJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *flags = list_nth(plan->custom_private, HM_FOREIGN_FLAGS);
	List	   *operator = list_nth(plan->custom_private, HM_FOREIGN_OPERATOR);
	Expr	   *argument = linitial(list_nth(plan->custom_exprs, HM_FOREIGN_ARGUMENT));

	hm_child_begin(node, estate, eflags);

	/* Only the right side of the nested loops was made to be executed (plan.c). */
	for (int i = 1; i < list_length(plan->custom_plans); i++)
		node->custom_ps = lappend(node->custom_ps,
								  ExecInitNode(innerPlan((Plan *) list_nth(plan->custom_plans, i)),
											   estate, eflags));

	join->type = (JoinType) linitial_int(flags);
	join->param = lsecond_int(flags);
	join->first_rows = lthird_int(flags) != 0;
	join->one_match = join->type == JOIN_SEMI || join->type == JOIN_ANTI;
	join->keeps_unmatched = join->type == JOIN_LEFT || join->type == JOIN_ANTI;
	join->memory = batch_memory();
	join->argument = ExecInitExpr(argument, &node->ss.ps);
	join->key = ExecInitExpr(linitial(list_nth(plan->custom_exprs, HM_FOREIGN_KEY)), &node->ss.ps);
	join->quals = ExecInitQual(list_nth(plan->custom_exprs, HM_FOREIGN_QUALS), &node->ss.ps);
	join->shares = palloc0(list_length(node->custom_ps) * sizeof(ExprState *));
	for (int i = 1; i < list_length(node->custom_ps); i++)
		join->shares[i] = ExecInitQual(list_nth(list_nth(plan->custom_exprs, HM_FOREIGN_SHARES), i - 1),
									   &node->ss.ps);
	begin_columns(join, list_nth(plan->custom_private, HM_FOREIGN_SOURCES),
				  ExecGetResultType(linitial(node->custom_ps)));
	hm_value_set_begin(&join->keys, linitial_oid(operator), lfourth_int(flags) != 0,
						  lsecond_oid(operator), lthird_oid(operator));
	if (HM_EXPLAIN_ASKS_INITPLANS)
		name_parameter(join);
	restart(join);
}

static void
end_join(CustomScanState *node)
{
	ListCell   *cell;

	foreach(cell, node->custom_ps)
		ExecEndNode(lfirst(cell));
}

static void
rescan(CustomScanState *node)
{
	hm_child_rescan(node);
	for (int i = 1; i < list_length(node->custom_ps); i++)
	{
		if (node->ss.ps.chgParam != NULL)
			UpdateChangedParamSet(list_nth(node->custom_ps, i), node->ss.ps.chgParam);
	}
	restart((ForeignJoin *) node);
}

static void
explain_join(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ForeignJoin *join = (ForeignJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	hm_explain_join_type(join->type, es);
	hm_explain_clauses("Key Cond", list_nth(plan->custom_exprs, HM_FOREIGN_CLAUSE), node, ancestors,
					   es);
	hm_explain_clauses("Join Filter", list_nth(plan->custom_exprs, HM_FOREIGN_QUALS), node,
					   ancestors, es);
	if (!es->analyze)
		return;
	hm_explain_filtered("Rows Removed by Join Filter", node, es);
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Batches", NULL, join->batches, es);
		ExplainPropertyUInteger("Queries", NULL, join->queries, es);
		ExplainPropertyUInteger("Keys", NULL, join->sent, es);
		return;
	}
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Batches: " UINT64_FORMAT "  Queries: " UINT64_FORMAT
					 "  Keys: " UINT64_FORMAT "\n", join->batches, join->queries, join->sent);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaForeignJoin",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = exec_join,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain_join,
};

static Node *
create_state(CustomScan *plan)
{
	ForeignJoin *join = palloc0(sizeof(ForeignJoin));

	NodeSetTag(join, T_CustomScanState);
	join->css.methods = &exec_methods;
	return (Node *) join;
}

const CustomScanMethods hm_foreign_join_methods = {
	.CustomName = "HarmoniaForeignJoin",
	.CreateCustomScanState = create_state,
};
