/*
 * join.c
 *		Executing a foreign join: rows of any plan, looked up in foreign tables.
 *
 * This is a lookup node (exec/lookup_node.h) with a source and a search of its own.  A batch has
 * outer rows, and their distinct keys in a hash table.  A target is an inner plan: a foreign
 * scan, made by the foreign table's own wrapper, which has one condition more than the query:
 * k = ANY ($n).  The wrapper sends the array with its remote query.  So a batch is one remote
 * query for each foreign table.
 *
 * A row that comes back is looked up in the batch's hash table.  So it is found only if its key
 * is equal to the outer row's by the join's own operator, whatever the remote server has
 * compared.  Inner rows are not kept.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "compat.h"
#include "foreign/foreign_join.h"

/*
 * Rows of the first batch, and how many times larger each next one may be, where the first
 * rows are wanted soon.
 */
#define FIRST_ROWS_BATCH 100
#define FIRST_ROWS_GROWTH 10

#define MIN_ROOM 1024

/* A batch has at most this many bytes: the array's text has to fit into a gigabyte. */
#define MAX_MEMORY ((Size) 128 * 1024 * 1024)

typedef struct ForeignJoin
{
	LookupNode lookup;
	int param; /* the number of the array's parameter */
	ExprState *argument;
	ExprState *key;
	ExprState **shares; /* for each target; NULL: it may have any key */

	HmValueSet keys;  /* of the batch */
	uint32 *next_row; /* of each row: the next one with the same key */
	Size memory;      /* of a batch */
	Datum array;      /* the parameter's value, or 0 */
	uint32 row;       /* the next outer row that has the inner row's key */
	HmRun run;        /* the inner row, and outer rows that have its key */

	uint64 batches; /* for EXPLAIN */
	uint64 queries; /* how often an inner plan was run */
	uint64 sent;    /* keys in these */
} ForeignJoin;

static Size
batch_memory(void)
{
	return Min(get_hash_memory_limit(), MAX_MEMORY);
}

double
hm_foreign_batch_rows(int width, int columns)
{
	Size row = sizeof(HmSetValue) + 3 * sizeof(Datum) + sizeof(uint32) + sizeof(uint8) +
			   columns * sizeof(Datum) + width;

	return Min((double) hm_batch_size, (double) batch_memory() / row);
}

/* ----------------------------------------------------------------
 *		The source: outer rows, and their keys
 * ----------------------------------------------------------------
 */

static void
restart(LookupNode *lookup, const Bitmapset *changed)
{
	hm_plan_rows_begin(&lookup->outer);
	lookup->outer_done = false;
	lookup->limit = lookup->plan.first_rows ? FIRST_ROWS_BATCH : (uint32) hm_batch_size;
}

static void
make_room(ForeignJoin *join)
{
	LookupBatch *batch = &join->lookup.batch;
	MemoryContext context = join->lookup.node.css.ss.ps.state->es_query_cxt;

	batch->room = Max(MIN_ROOM, batch->room * 2);
	hm_kept_make_room(&batch->rows, batch->room);
	join->next_row = hm_resize_large(context, join->next_row, batch->room * sizeof(uint32));
	batch->matched = hm_resize_large(context, batch->matched, batch->room);
}

/* Note that a row has a key. */
static void
add_key(ForeignJoin *join, uint32 row, Datum value)
{
	uint32 number = hm_value_set_add(&join->keys, value);
	HmSetValue *key = &join->keys.keys[number];

	if (key->first_row == HM_NO_VALUE)
		key->first_row = row;
	else
		join->next_row[key->last_row] = row;
	key->last_row = row;
}

/* Add an outer row to the batch.  A row without a key has no match. */
static void
add_row(ForeignJoin *join, TupleTableSlot *outer)
{
	LookupNode *lookup = &join->lookup;
	LookupBatch *batch = &lookup->batch;
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;
	bool is_null;
	Datum value;

	econtext->ecxt_scantuple = hm_store_outer(lookup, outer);
	value = ExecEvalExprSwitchContext(join->argument, econtext, &is_null);
	if (is_null && !lookup->keeps_unmatched)
		return;
	if (batch->count == batch->room)
		make_room(join);
	hm_kept_add(&batch->rows, batch->count, outer);
	batch->matched[batch->count] = 0;
	join->next_row[batch->count] = HM_NO_VALUE;
	if (!is_null)
		add_key(join, batch->count, value);
	batch->count++;
}

static bool
is_full(const ForeignJoin *join)
{
	const LookupBatch *batch = &join->lookup.batch;
	Size row = sizeof(uint32) + sizeof(uint8) + batch->rows.count * sizeof(Datum);

	return batch->count >= join->lookup.limit ||
		   batch->count * row + batch->rows.copied + hm_value_set_memory(&join->keys) >=
			   join->memory;
}

static void
fill(LookupNode *lookup)
{
	ForeignJoin *join = (ForeignJoin *) lookup;

	hm_value_set_reset(&join->keys);
	join->array = (Datum) 0;
	while (!lookup->outer_done && !is_full(join))
	{
		TupleTableSlot *outer = hm_plan_rows_next(&lookup->outer);

		CHECK_FOR_INTERRUPTS();
		if (outer == NULL)
			lookup->outer_done = true;
		else
			add_row(join, outer);
		ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
	}
	lookup->limit = (uint32) Min((uint64) lookup->limit * FIRST_ROWS_GROWTH, hm_batch_size);
	join->batches += lookup->batch.count > 0;
}

static const LookupSource source = {
	.restart = restart,
	.fill = fill,
};

/* ----------------------------------------------------------------
 *		The search: inner plans, one after the other
 * ----------------------------------------------------------------
 */

/* The current target's plan.  The first of the node's plans is the outer one. */
static PlanState *
target_plan(const LookupNode *lookup)
{
	return list_nth(lookup->node.css.custom_ps, lookup->target + 1);
}

/* Start the next inner plan that may have some of the batch's keys, with these. */
static bool
next_target(LookupNode *lookup)
{
	ForeignJoin *join = (ForeignJoin *) lookup;
	PlanState *node = &lookup->node.css.ss.ps;
	ParamExecData *param = &node->state->es_param_exec_vals[join->param];

	/* The array of the target before is not needed any more. */
	if (join->array != (Datum) 0)
		pfree(DatumGetPointer(join->array));
	join->array = (Datum) 0;
	while (join->keys.count > 0 && ++lookup->target < lookup->target_count)
	{
		PlanState *plan = target_plan(lookup);
		uint32 count = hm_value_set_array(&join->keys, join->shares[lookup->target],
										  node->ps_ExprContext, &join->array);

		if (count == 0)
			continue;
		param->execPlan = NULL;
		param->value = join->array;
		param->isnull = false;
		plan->chgParam = bms_add_member(plan->chgParam, join->param);
		ExecReScan(plan);
		join->queries++;
		join->sent += count;
		join->row = HM_NO_VALUE;
		lookup->probes = &lookup->batch.all;
		lookup->run = NULL;
		return true;
	}
	return false;
}

/* The first outer row that has an inner row's key, or HM_NO_VALUE. */
static uint32
first_row(ForeignJoin *join, TupleTableSlot *inner)
{
	LookupNode *lookup = &join->lookup;
	const SearchTarget *target = &lookup->targets[lookup->target];
	TupleTableSlot *slot = lookup->node.css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;
	bool is_null;
	Datum value;
	uint32 key;

	/* The key refers to none of the outer columns. */
	slot_getallattrs(inner);
	hm_clear_candidate(lookup);
	for (int i = 0; i < lookup->column_count; i++)
	{
		int column = target->columns[i];

		if (column == 0)
			continue;
		slot->tts_isnull[i] = inner->tts_isnull[column - 1];
		slot->tts_values[i] = inner->tts_values[column - 1];
	}
	econtext->ecxt_scantuple = slot;
	value = ExecEvalExprSwitchContext(join->key, econtext, &is_null);
	if (is_null)
		return HM_NO_VALUE;
	key = hm_value_set_find(&join->keys, value);
	return key == HM_NO_VALUE ? HM_NO_VALUE : join->keys.keys[key].first_row;
}

/* A run has outer rows that have one inner row's key. */
static const HmRun *
next_run(LookupNode *lookup)
{
	ForeignJoin *join = (ForeignJoin *) lookup;
	HmRun *run = &join->run;

	while (join->row == HM_NO_VALUE)
	{
		CHECK_FOR_INTERRUPTS();
		run->slot = ExecProcNode(target_plan(lookup));
		if (TupIsNull(run->slot))
			return NULL;
		ResetExprContext(lookup->node.css.ss.ps.ps_ExprContext);
		join->row = first_row(join, run->slot);
	}
	for (run->count = 0; run->count < HM_RUN_MAX && join->row != HM_NO_VALUE; run->count++)
	{
		run->probes[run->count] = join->row;
		join->row = join->next_row[join->row];
	}
	return run;
}

static const LookupSearch search = {
	.next_target = next_target,
	.next_run = next_run,
};

/* ----------------------------------------------------------------
 *		The node
 * ----------------------------------------------------------------
 */

/*
 * Where EXPLAIN asks the initplans of the plans above for the source of a parameter: give the
 * state a copy of the plan with one, which nothing executes, as initplans are taken from the plan
 * itself.
 */
static void
name_parameter(ForeignJoin *join)
{
	CustomScan *plan = makeNode(CustomScan);
	SubPlan *source = makeNode(SubPlan);
	List *initplans = join->lookup.node.css.ss.ps.plan->initPlan;

	/* Or it would be sent to workers. */
	Assert(!join->lookup.node.css.ss.ps.plan->parallel_safe);
	memcpy(plan, join->lookup.node.css.ss.ps.plan, sizeof(CustomScan));
	source->plan_name = pstrdup("keys");
	source->setParam = list_make1_int(join->param);
	plan->scan.plan.initPlan = lappend(list_copy(initplans), source);
	join->lookup.node.css.ss.ps.plan = &plan->scan.plan;
}

static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	ForeignJoin *join = (ForeignJoin *) node;
	LookupNode *lookup = &join->lookup;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	ForeignPlan foreign;

	hm_foreign_plan_read(&foreign, plan);
	hm_child_begin(node, estate, eflags);

	/* Only the right side of the nested loops was made to be executed (plan.c). */
	for (int i = 1; i < list_length(plan->custom_plans); i++)
		node->custom_ps = lappend(
			node->custom_ps,
			ExecInitNode(innerPlan((Plan *) list_nth(plan->custom_plans, i)), estate, eflags));

	lookup->source = &source;
	lookup->search = &search;
	hm_lookup_begin(lookup, (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0);
	join->run.in_order = true;
	join->param = foreign.param;
	join->memory = batch_memory();
	join->argument = ExecInitExpr(linitial(lookup->plan.arguments), &node->ss.ps);
	join->key = ExecInitExpr(foreign.key, &node->ss.ps);
	join->shares = palloc0(lookup->target_count * sizeof(ExprState *));
	for (int i = 0; i < lookup->target_count; i++)
		join->shares[i] = ExecInitQual(list_nth(foreign.shares, i), &node->ss.ps);
	hm_value_set_begin(&join->keys, foreign.operator, foreign.inner_left, foreign.collation,
					   exprType(linitial(lookup->plan.arguments)));
	if (HM_EXPLAIN_ASKS_INITPLANS)
		name_parameter(join);
	hm_lookup_restart(lookup, NULL);
}

static void
end_join(CustomScanState *node)
{
	ListCell *cell;

	foreach (cell, node->custom_ps)
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
	hm_lookup_restart((LookupNode *) node, node->ss.ps.chgParam);
}

static void
explain_join(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ForeignJoin *join = (ForeignJoin *) node;
	const LookupPlan *plan = &join->lookup.plan;

	hm_explain_join_type(plan->type, es);
	hm_explain_clauses("Key Cond", plan->key_clauses, node, ancestors, es);
	hm_explain_clauses("Join Filter", plan->quals, node, ancestors, es);
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
	appendStringInfo(es->str,
					 "Batches: " UINT64_FORMAT "  Queries: " UINT64_FORMAT "  Keys: " UINT64_FORMAT
					 "\n",
					 join->batches, join->queries, join->sent);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaForeignJoin",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = hm_rows_exec,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain_join,
};

static Node *
create_state(CustomScan *plan)
{
	ForeignJoin *join = palloc0(sizeof(ForeignJoin));

	NodeSetTag(join, T_CustomScanState);
	join->lookup.node.css.methods = &exec_methods;
	return (Node *) join;
}

const CustomScanMethods hm_foreign_join_methods = {
	.CustomName = "HarmoniaForeignJoin",
	.CreateCustomScanState = create_state,
};
