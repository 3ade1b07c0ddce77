/*
 * subplan_keys.c
 *		The keys of `k = ANY (ARRAY(SELECT ...))`, without the array.
 *
 * PostgreSQL evaluates such a sub-select once, as an InitPlan, and stores an array in a
 * parameter.  A lookup scan has no use for the array.  If nothing else has, the scan runs
 * the InitPlan itself, and makes a key of each row.  The same goes for
 * `k = ANY ((SELECT array_agg(...) ...)::int[])`, where the rows are those that the
 * aggregate would read.
 *
 * The planner half shows that the scan is the parameter's only user.  The parameter is
 * left unset.  EvalPlanQual may ask for it later.  So the InitPlan is rewound after it was
 * read, and must not be volatile: then it gives the same value again.
 *
 * If the parameter is set already, there is an array, and the scan takes that.  It is
 * always set in parallel workers, and in the leader where a Gather is above the scan.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "exec/plan_rows.h"
#include "exec/planner.h"

/* Room for this many keys is made at first, and at most if the planner expects more. */
#define MIN_ROOM 1024
#define MAX_ROOM (16 * 1024 * 1024)

struct HmSubplanKeys
{
	PlanState *node; /* the scan's */
	int param;
	Oid type;       /* of the keys in the rows */
	Expr *argument; /* array_agg()'s, or NULL: the first column */
	PlanRows rows;  /* its "plan" is NULL until rows are first read */
	int column;     /* of the rows, from 1 on; if it is not a column: */
	ExprState *expr;
};

/* ----------------------------------------------------------------
 *		Planning
 * ----------------------------------------------------------------
 */

/* Whether a query level is below another one, or the same. */
static bool
is_within(const PlannerInfo *root, const PlannerInfo *top)
{
	while (root != NULL && root != top)
		root = root->parent_root;
	return root != NULL;
}

/*
 * Whether a subplan has volatile functions, in itself or in its own subplans, which are
 * not part of its query any more.
 */
static bool
is_volatile(PlannerInfo *root, const SubPlan *subplan)
{
	PlannerInfo *top = list_nth_node(PlannerInfo, root->glob->subroots, subplan->plan_id - 1);
	ListCell *cell;

	foreach (cell, root->glob->subroots)
	{
		PlannerInfo *subroot = lfirst_node(PlannerInfo, cell);

		if (is_within(subroot, top) && contain_volatile_functions((Node *) subroot->parse))
			return true;
	}
	return false;
}

/*
 * A sub-select's parameter stands in one place only, if the condition was not copied.
 * Conditions are copied to the members of an inheritance tree or of a UNION ALL.  They
 * are also copied to query levels below their own, whose root has other init_plans.
 */
List *
hm_plan_subplan_keys(PlannerInfo *root, RelOptInfo *rel, Oid key_type, Node *argument, Oid type)
{
	Param *param = (Param *) argument;
	ListCell *cell;

	if (!IsA(argument, Param) || param->paramkind != PARAM_EXEC ||
		rel->reloptkind != RELOPT_BASEREL || hm_may_be_fuzzy(key_type, type) ||
		get_element_type(param->paramtype) != type)
		return NIL;
	foreach (cell, root->init_plans)
	{
		SubPlan *subplan = lfirst_node(SubPlan, cell);

		if (!list_member_int(subplan->setParam, param->paramid))
			continue;
		if ((subplan->subLinkType != ARRAY_SUBLINK || subplan->firstColType != type) &&
			subplan->subLinkType != EXPR_SUBLINK)
			return NIL;
		if (is_volatile(root, subplan))
			return NIL;
		return list_make2_int(subplan->plan_id, subplan->subLinkType == ARRAY_SUBLINK);
	}
	return NIL;
}

/* ----------------------------------------------------------------
 *		Execution
 * ----------------------------------------------------------------
 */

/*
 * The argument of array_agg(), if the plan does nothing but evaluate this aggregate for
 * rows of this type; otherwise NULL.
 */
static Expr *
aggregate_argument(Plan *plan, Oid type)
{
	Agg *agg = (Agg *) plan;
	Aggref *aggref;
	Expr *argument;

	if (!IsA(plan, Agg) || agg->aggstrategy != AGG_PLAIN || agg->aggsplit != AGGSPLIT_SIMPLE ||
		agg->groupingSets != NIL || agg->chain != NIL || plan->qual != NIL ||
		list_length(plan->targetlist) != 1)
		return NULL;
	aggref = (Aggref *) linitial_node(TargetEntry, plan->targetlist)->expr;
	if (!IsA(aggref, Aggref) || aggref->aggfnoid != F_ARRAY_AGG_ANYNONARRAY ||
		aggref->aggfilter != NULL || aggref->aggdistinct != NIL || aggref->aggorder != NIL ||
		linitial_oid(aggref->aggargtypes) != type)
		return NULL;
	argument = linitial_node(TargetEntry, aggref->args)->expr;
	return contain_subplans((Node *) argument) ? NULL : argument;
}

HmSubplanKeys *
hm_subplan_keys_begin(PlanState *node, List *plan, Node *argument, Oid type)
{
	HmSubplanKeys *keys;
	Plan *subplan;
	Expr *aggregated = NULL;

	/* Parallel workers lack some subplans. */
	if (plan == NIL ||
		(subplan = list_nth(node->state->es_plannedstmt->subplans, linitial_int(plan) - 1)) == NULL)
		return NULL;
	if (lsecond_int(plan) == 0 && (aggregated = aggregate_argument(subplan, type)) == NULL)
		return NULL;
	keys = palloc0(sizeof(HmSubplanKeys));
	keys->node = node;
	keys->param = castNode(Param, argument)->paramid;
	keys->type = type;
	keys->argument = aggregated;
	return keys;
}

bool
hm_subplan_keys_changed(const HmSubplanKeys *keys, const Bitmapset *changed)
{
	return bms_is_member(keys->param, changed);
}

/* Keys that grow in number. */
typedef struct KeyList
{
	MemoryContext context;
	Size key_size;
	void *keys;
	Size count;
	Size room;
} KeyList;

static void
make_room(KeyList *list)
{
	Size room = list->room * 2;

	if (room > PG_INT32_MAX)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("a sub-select returned too many keys for a lookup scan")));
	list->keys = hm_resize_large(list->context, list->keys, room * list->key_size);
	list->room = room;
}

/* Prepare to read the rows of a plan.  The argument's parent is the aggregate. */
static void
begin_rows(HmSubplanKeys *keys, PlanState *plan, PlanState *agg)
{
	Bitmapset *attributes = NULL;
	Bitmapset *columns = NULL;
	int attribute = -1;

	if (keys->rows.plan != NULL)
	{
		hm_plan_rows_begin(&keys->rows);
		return;
	}
	if (keys->argument == NULL || IsA(keys->argument, Var))
	{
		keys->column = keys->argument == NULL ? 1 : ((Var *) keys->argument)->varattno;
		columns = bms_make_singleton(keys->column);
	}
	else
	{
		keys->expr = ExecInitExpr(keys->argument, agg);
		pull_varattnos((Node *) keys->argument, OUTER_VAR, &attributes);
		while ((attribute = bms_next_member(attributes, attribute)) >= 0)
			columns = bms_add_member(columns, attribute + FirstLowInvalidHeapAttributeNumber);
	}
	hm_plan_rows_init(&keys->rows, plan, columns);
	hm_plan_rows_begin(&keys->rows);
}

/* A key's value in a row. */
static inline Datum
row_value(const HmSubplanKeys *keys, TupleTableSlot *row, bool *is_null)
{
	ExprContext *econtext = keys->node->ps_ExprContext;

	if (keys->expr == NULL)
	{
		*is_null = row->tts_isnull[keys->column - 1];
		return row->tts_values[keys->column - 1];
	}
	ResetExprContext(econtext);
	econtext->ecxt_outertuple = row;
	return ExecEvalExprSwitchContext(keys->expr, econtext, is_null);
}

/*
 * Add the keys of the rows after the one that was read last that are on the same heap page, as far
 * as there is room.  Returns their number; 0 if the next row has to be read by itself.
 */
static uint32
add_page(HmSubplanKeys *keys, const HmKeyType *key_type, KeyList *list)
{
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	char values[MaxHeapTuplesPerPage * sizeof(HmKey)];
	uint32 n = hm_plan_rows_take(&keys->rows, tuples,
								 (uint32) Min(list->room - list->count, MaxHeapTuplesPerPage));

	if (n == 0)
		return 0;
	hm_heap_column_store(&keys->rows.source->offsets, hm_plan_rows_place(&keys->rows, keys->column),
						 tuples, n, values);
	key_type->normalise_all(values, n, (char *) list->keys + list->count * list->key_size);
	list->count += n;
	return n;
}

/* Read all rows into a list of keys.  NULLs match nothing, so they are left out. */
static void
read_rows(HmSubplanKeys *keys, const HmKeyType *key_type, KeyList *list)
{
	HmBracketFunction bracket_function =
		keys->type == key_type->type ? NULL : hm_bracket_function(key_type->type, keys->type);
	bool by_page =
		bracket_function == NULL && keys->expr == NULL && key_type->normalise_all != NULL;
	HmKey max = ht_key_max_128(key_type->width);
	TupleTableSlot *row;

	for (;;)
	{
		bool is_null;
		Datum value;

		if (by_page && list->count < list->room && add_page(keys, key_type, list) > 0)
			continue;
		row = hm_plan_rows_next(&keys->rows);
		if (row == NULL)
			break;
		value = row_value(keys, row, &is_null);
		if (is_null)
			continue;
		if (list->count == list->room)
			make_room(list);
		if (bracket_function == NULL)
			hm_key_put(list->keys, list->key_size, list->count++, key_type->normalise(value));
		else
		{
			HmBracket bracket = bracket_function(key_type, value);
			HmKey low, high;

			if (!hm_bracket_range(BTEqualStrategyNumber, &bracket, max, &low, &high))
				continue;
			Assert(low == high && !bracket.fuzzy);
			hm_key_put(list->keys, list->key_size, list->count++, low);
		}
	}
}

/*
 * Read the rows that array_agg() would read.  For EXPLAIN ANALYZE, the aggregate has run
 * and returned its row.
 */
static void
read_aggregated(HmSubplanKeys *keys, PlanState *agg, const HmKeyType *key_type, KeyList *list)
{
	if (agg->chgParam != NULL)
		ExecReScan(agg);
	if (agg->instrument)
		InstrStartNode(agg->instrument);
	begin_rows(keys, outerPlanState(agg), agg);
	read_rows(keys, key_type, list);
	if (agg->instrument)
		InstrStopNode(agg->instrument, 1);
}

bool
hm_subplan_keys_read(HmSubplanKeys *keys, const HmKeyType *key_type, void **points, uint32 *count)
{
	EState *estate = keys->node->state;
	SubPlanState *subplan = estate->es_param_exec_vals[keys->param].execPlan;
	ScanDirection direction = estate->es_direction;
	MemoryContext old_context;
	PlanState *rows;
	KeyList list = {CurrentMemoryContext, hm_key_size(key_type->width)};

	if (subplan == NULL)
		return false;
	rows = subplan->planstate;
	list.room = (Size) Max(MIN_ROOM, Min(MAX_ROOM, rows->plan->plan_rows));
	list.keys = hm_alloc_large(list.room * list.key_size);

	/* As ExecSetParamPlan() does it. */
	estate->es_direction = ForwardScanDirection;
	old_context = MemoryContextSwitchTo(estate->es_query_cxt);
	if (keys->argument == NULL)
	{
		begin_rows(keys, rows, NULL);
		read_rows(keys, key_type, &list);
	}
	else
		read_aggregated(keys, rows, key_type, &list);
	ExecReScan(rows);
	MemoryContextSwitchTo(old_context);
	estate->es_direction = direction;

	*points = list.keys;
	*count = (uint32) list.count;
	return true;
}
