/*
 * latest.c
 *		Execution of latest joins: see latest_plan.c for the node.
 *
 * The plan below is PostgreSQL's nested loop, which is not executed itself.  This node reads a
 * batch of its outer rows, has the batch looked up (latest_batch.c), and does with what was found
 * what the loop, a sub-query scan and a limit would do: in the order of the outer rows, with their
 * expressions.  For an outer row whose rows were not all found, the inner side is executed.
 *
 * Batches are small at first if not all rows may be wanted.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/rel.h"

#include "am/am.h"
#include "compat.h"
#include "exec/latest.h"

#define BATCH_GROWTH 4

typedef struct LatestJoin
{
	CustomScanState css;
	NestLoopState *loop;
	SubqueryScanState *subquery; /* of the inner side, or NULL; and its expressions, but for */
	ExprState *subquery_qual;    /* virtual tuples */
	ProjectionInfo *subquery_projection;
	LatestBatch batch;
	uint32 first_room; /* of the first batch */
	uint32 room;       /* of the next one */
	bool at_end;       /* of the outer side */
	uint32 row;        /* the first outer row of the batch that has not begun */
	bool on_row;       /* the one before is being joined */
	bool matched;
	uint32 next; /* its next row of those that were found */
	TupleTableSlot *outer;
	TupleTableSlot *found; /* as the scan returns it */
	TupleTableSlot *inner; /* as the inner side does */
} LatestJoin;

/* ----------------------------------------------------------------
 *		Begin and end
 * ----------------------------------------------------------------
 */

/* The index scan at the end of the inner side. */
static IndexScanState *
find_scan(LatestJoin *join)
{
	PlanState *state = innerPlanState(join->loop);

	if (IsA(state, SubqueryScanState))
	{
		join->subquery = (SubqueryScanState *) state;
		state = join->subquery->subplan;
	}
	return castNode(IndexScanState, outerPlanState(castNode(LimitState, state)));
}

/* Whether all rows of a range satisfy the conditions of the index; ranges include their ends. */
static bool
keys_decide(const LatestBatch *batch)
{
	const IndexScan *scan = (const IndexScan *) batch->scan->ss.ps.plan;

	for (int i = 0; i < batch->key_count; i++)
	{
		const LatestKey *key = &batch->keys[i].key;

		if (!hm_field_is_whole(&batch->fields.fields[key->column]) ||
			key->strategy == BTLessStrategyNumber || key->strategy == BTGreaterStrategyNumber)
			return false;
	}
	return batch->key_count == list_length(scan->indexqualorig);
}

/* An expression tree walker: whether there are parameters of plans. */
static bool
has_params(Node *node, void *argument)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		return true;
	return expression_tree_walker(node, has_params, argument);
}

/* Read what the planner half says. */
static void
read_plan(LatestBatch *batch, const CustomScan *plan)
{
	const List *private = plan->custom_private;

	batch->index = index_open((Oid) list_nth_int(private, LATEST_INDEX), AccessShareLock);
	hm_fields_read(batch->index, &batch->fields);
	batch->backward = list_nth_int(private, LATEST_BACKWARD) != 0;
	batch->wanted = (uint32) list_nth_int(private, LATEST_ROWS);
	batch->entries = (uint32) list_nth_int(private, LATEST_ENTRIES);
	batch->key_count = (list_length(private) - LATEST_KEYS) / 3;
	batch->keys = palloc(batch->key_count * sizeof(LatestSource));
	for (int i = 0; i < batch->key_count; i++)
	{
		LatestKey *key = &batch->keys[i].key;
		int first = LATEST_KEYS + 3 * i;
		const OpExpr *condition;

		key->column = list_nth_int(private, first);
		key->strategy = list_nth_int(private, first + 1);
		key->number = list_nth_int(private, first + 2);
		condition =
			list_nth(((const IndexScan *) batch->scan->ss.ps.plan)->indexqualorig, key->number);
		batch->keys[i].value = ExecInitExpr(lsecond(condition->args), &batch->scan->ss.ps);
	}
	batch->keys_decide = keys_decide(batch);
	batch->needs_params = !batch->keys_decide || batch->scan->ss.ps.qual != NULL ||
						  has_params((Node *) batch->scan->ss.ps.plan->targetlist, NULL);
}

/* Have the loop's expressions take virtual tuples, not what is below the loop. */
static void
prepare_loop(NestLoopState *state)
{
	PlanState *loop = &state->js.ps;
	const NestLoop *plan = (const NestLoop *) loop->plan;

	loop->subPlan = NIL;
	loop->outerops = loop->innerops = &TTSOpsVirtual;
	loop->outeropsset = loop->inneropsset = true;
	loop->outeropsfixed = loop->inneropsfixed = true;
	state->js.joinqual = ExecInitQual(plan->join.joinqual, loop);
	loop->qual = ExecInitQual(plan->join.plan.qual, loop);
	ExecAssignProjectionInfo(loop, NULL);
}

/* Make expressions like those of the sub-query scan, which may be executed itself. */
static void
prepare_subquery(LatestJoin *join)
{
	PlanState *scan = &join->subquery->ss.ps;
	List *subplans = scan->subPlan;
	const TupleTableSlotOps *ops = scan->scanops;
	bool is_fixed = scan->scanopsfixed;

	scan->scanops = &TTSOpsVirtual;
	scan->scanopsfixed = true;
	join->subquery_qual = ExecInitQual(scan->plan->qual, scan);
	if (scan->ps_ProjInfo != NULL)
		join->subquery_projection = ExecBuildProjectionInfo(
			scan->plan->targetlist, scan->ps_ExprContext, scan->ps_ResultTupleSlot, scan, NULL);
	scan->subPlan = subplans;
	scan->scanops = ops;
	scan->scanopsfixed = is_fixed;
}

static void
restart(LatestJoin *join)
{
	hm_latest_batch_reset(&join->batch, 0);
	join->room = join->first_room;
	join->row = 0;
	join->on_row = join->at_end = false;
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	LatestJoin *join = (LatestJoin *) node;
	LatestBatch *batch = &join->batch;
	TupleDesc outer;

	hm_child_begin(node, estate, eflags);
	join->loop = castNode(NestLoopState, linitial(node->custom_ps));
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
		return;
	batch->loop = (const NestLoop *) join->loop->js.ps.plan;
	batch->scan = find_scan(join);
	read_plan(batch, (const CustomScan *) node->ss.ps.plan);
	join->first_room = (uint32) list_nth_int(
		((const CustomScan *) node->ss.ps.plan)->custom_private, LATEST_BATCH);
	outer = ExecGetResultType(outerPlanState(join->loop));
	hm_latest_batch_begin(batch, estate, outer);
	join->outer = ExecInitExtraTupleSlot(estate, outer, &TTSOpsVirtual);
	join->found =
		ExecInitExtraTupleSlot(estate, ExecGetResultType(&batch->scan->ss.ps), &TTSOpsVirtual);
	join->inner = ExecInitExtraTupleSlot(estate, ExecGetResultType(innerPlanState(join->loop)),
										 &TTSOpsVirtual);
	prepare_loop(join->loop);
	if (join->subquery != NULL)
		prepare_subquery(join);
	restart(join);
}

static void
rescan_join(CustomScanState *node)
{
	hm_child_rescan(node);
	restart((LatestJoin *) node);
}

static void
end_join(CustomScanState *node)
{
	LatestJoin *join = (LatestJoin *) node;

	if (join->batch.fetch != NULL)
		hm_latest_batch_end(&join->batch);
	hm_child_end(node);
}

/* ----------------------------------------------------------------
 *		Execution
 * ----------------------------------------------------------------
 */

static void
fill_batch(LatestJoin *join)
{
	LatestBatch *batch = &join->batch;

	hm_latest_batch_reset(batch, join->room);
	while (hm_latest_batch_has_room(batch))
	{
		TupleTableSlot *slot = ExecProcNode(outerPlanState(join->loop));

		join->at_end = TupIsNull(slot);
		if (join->at_end)
			break;
		hm_latest_batch_add(batch, slot);
	}
	hm_latest_batch_look_up(batch);
	join->row = 0;
	join->room = Min(join->room * BATCH_GROWTH, LATEST_LARGEST_BATCH);
}

/* Have the inner side executed for the current row. */
static void
rescan_inner(LatestJoin *join)
{
	PlanState *inner = innerPlanState(join->loop);
	ListCell *cell;

	foreach (cell, join->batch.loop->nestParams)
		inner->chgParam =
			bms_add_member(inner->chgParam, lfirst_node(NestLoopParam, cell)->paramno);
	ExecReScan(inner);
}

/* Go to the next outer row.  Returns false if there is none. */
static bool
next_outer(LatestJoin *join)
{
	const LatestBatch *batch = &join->batch;

	if (join->row == batch->count && !join->at_end)
		fill_batch(join);
	if (join->row == batch->count)
		return false;
	hm_latest_load(&batch->outer, join->row++, join->outer);
	join->on_row = true;
	join->matched = false;
	join->next = 0;
	hm_latest_batch_set_params(batch, join->row - 1);
	if (batch->incomplete[join->row - 1])
		rescan_inner(join);
	return true;
}

/* What the sub-query scan makes of a row of the scan; NULL if it filters it out. */
static TupleTableSlot *
pass_subquery(LatestJoin *join, TupleTableSlot *slot)
{
	ExprContext *econtext;

	if (join->subquery == NULL)
		return slot;
	econtext = join->subquery->ss.ps.ps_ExprContext;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	if (!ExecQual(join->subquery_qual, econtext))
		return NULL;
	return join->subquery_projection != NULL ? ExecProject(join->subquery_projection) : slot;
}

/* The next inner row of the current row, in a virtual slot. */
static TupleTableSlot *
next_inner(LatestJoin *join)
{
	const LatestBatch *batch = &join->batch;
	uint32 row = join->row - 1;

	if (batch->incomplete[row])
	{
		TupleTableSlot *slot = ExecProcNode(innerPlanState(join->loop));

		if (!TupIsNull(slot) && slot->tts_ops != &TTSOpsVirtual)
			slot = ExecCopySlot(join->inner, slot);
		return slot;
	}
	while (join->next < batch->counts[row])
	{
		TupleTableSlot *slot;

		hm_latest_load(&batch->found, batch->rows[(Size) row * batch->wanted + join->next++],
					   join->found);
		slot = pass_subquery(join, join->found);
		if (slot != NULL)
			return slot;
	}
	return NULL;
}

/* The next row of the join, as a nested loop finds it. */
static TupleTableSlot *
next_row(LatestJoin *join)
{
	JoinState *js = &join->loop->js;
	ExprContext *econtext = js->ps.ps_ExprContext;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (!join->on_row && !next_outer(join))
			return NULL;
		econtext->ecxt_outertuple = join->outer;
		econtext->ecxt_innertuple = next_inner(join);
		if (TupIsNull(econtext->ecxt_innertuple))
		{
			join->on_row = false;
			if (join->matched || js->jointype != JOIN_LEFT)
				continue;
			econtext->ecxt_innertuple = join->loop->nl_NullInnerTupleSlot;
		}
		else
		{
			if (!ExecQual(js->joinqual, econtext))
				continue;
			join->matched = true;
			join->on_row = !js->single_match;
		}
		if (ExecQual(js->ps.qual, econtext))
			return ExecProject(js->ps.ps_ProjInfo);
	}
}

static TupleTableSlot *
exec_join(CustomScanState *node)
{
	LatestJoin *join = (LatestJoin *) node;
	TupleTableSlot *row;

	hm_child_enter(&join->loop->js.ps);
	row = next_row(join);
	hm_child_leave(&join->loop->js.ps, row != NULL ? 1 : 0);
	if (row == NULL)
		return ExecClearTuple(node->ss.ps.ps_ProjInfo != NULL ? node->ss.ps.ps_ResultTupleSlot :
																node->ss.ss_ScanTupleSlot);
	if (node->ss.ps.ps_ProjInfo == NULL)
		return row;
	ResetExprContext(node->ss.ps.ps_ExprContext);
	node->ss.ps.ps_ExprContext->ecxt_scantuple = row;
	return ExecProject(node->ss.ps.ps_ProjInfo);
}

/* ----------------------------------------------------------------
 *		Methods
 * ----------------------------------------------------------------
 */

static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaLatestJoin",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = exec_join,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan_join,
};

static Node *
create_state(CustomScan *plan)
{
	LatestJoin *join = palloc0(sizeof(LatestJoin));

	NodeSetTag(join, T_CustomScanState);
	join->css.methods = &exec_methods;
	return (Node *) join;
}

const CustomScanMethods hm_latest_join_methods = {
	.CustomName = "HarmoniaLatestJoin",
	.CreateCustomScanState = create_state,
};

void
hm_latest_init(void)
{
	RegisterCustomScanMethods(&hm_latest_join_methods);
}
