/*
 * lookup_aggregate_begin.c
 *		From the plan of a lookup aggregate to its state.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "compat.h"
#include "exec/lookup_aggregate.h"

/* Columns of the scan tuple, as setrefs.c has left them in expressions. */
static List *
column_numbers(List *exprs)
{
	List *numbers = NIL;
	ListCell *cell;

	foreach (cell, exprs)
		numbers = lappend_int(numbers, lfirst_node(Var, cell)->varattno);
	return numbers;
}

void
hm_aggregates_begin(LookupAggregate *state)
{
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	List *arguments = list_nth(plan->custom_exprs, HM_AGGREGATE_ARGUMENTS);
	List *filters = list_nth(plan->custom_exprs, HM_AGGREGATE_FILTERS);

	state->aggregate_count = list_length(arguments);
	state->column_count = list_length(plan->custom_scan_tlist) - state->aggregate_count;
	state->aggregates = palloc0(state->aggregate_count * sizeof(Aggregate));
	state->states = palloc0(state->aggregate_count * sizeof(HmAggregateState));
	for (int i = 0; i < state->aggregate_count; i++)
	{
		Aggregate *aggregate = &state->aggregates[i];
		TargetEntry *entry =
			list_nth_node(TargetEntry, plan->custom_scan_tlist, state->column_count + i);
		Aggref *aggref = castNode(Aggref, entry->expr);
		Expr *argument = list_nth(arguments, i);
		List *filter = list_nth(filters, i);

		hm_aggregate_check_permissions(aggref);
		aggregate->function = hm_aggregate_lookup(aggref->aggfnoid);
		aggregate->partial = DO_AGGSPLIT_SKIPFINAL(aggref->aggsplit);
		if (argument != NULL && IsA(argument, Var))
			aggregate->column = ((Var *) argument)->varattno;
		else
			aggregate->argument = ExecInitExpr(argument, &state->css.ss.ps);
		aggregate->filter = ExecInitQual(filter, &state->css.ss.ps);
		if (aggregate->argument == NULL && aggregate->filter == NULL)
			continue;
		state->evaluates = true;
		aggregate->input.values = palloc(HM_BLOCK_ROWS * sizeof(Datum));
		aggregate->input.nulls = palloc(HM_BLOCK_ROWS * sizeof(bool));
	}
}

/* How to read blocks from the plan below; NULL if it does not return any. */
static HmReadBlock
block_reader(const CustomScanState *child)
{
	return hm_lookup_has_blocks(child) ? hm_lookup_block : NULL;
}

/*
 * The columns that have to be read: all that expressions refer to.  Of those that count()
 * alone refers to, no value is needed.
 */
static void
begin_reads(LookupAggregate *state, PlanState *child)
{
	TupleDesc desc = ExecGetResultType(child);
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	List *arguments = list_nth(plan->custom_exprs, HM_AGGREGATE_ARGUMENTS);
	Bitmapset *columns = NULL;
	Bitmapset *values = NULL;
	int member = -1;
	bool references = false;

	pull_varattnos((Node *) plan->custom_exprs, INDEX_VAR, &columns);
	for (int i = 0; i < HM_AGGREGATE_EXPRS_LENGTH; i++)
	{
		if (i != HM_AGGREGATE_ARGUMENTS)
			pull_varattnos(list_nth(plan->custom_exprs, i), INDEX_VAR, &values);
	}
	for (int i = 0; i < state->aggregate_count; i++)
	{
		TargetEntry *entry =
			list_nth_node(TargetEntry, plan->custom_scan_tlist, state->column_count + i);

		if (castNode(Aggref, entry->expr)->aggfnoid != F_COUNT_ANY ||
			state->aggregates[i].column == 0)
			pull_varattnos(list_nth(arguments, i), INDEX_VAR, &values);
	}

	state->columns = palloc0(Max(1, state->column_count) * sizeof(HmColumn));
	state->reads = palloc(Max(1, bms_num_members(columns)) * sizeof(ReadColumn));
	while ((member = bms_next_member(columns, member)) >= 0)
	{
		ReadColumn *read = &state->reads[state->read_count++];
		Form_pg_attribute attribute;

		read->column = member + FirstLowInvalidHeapAttributeNumber;
		attribute = TupleDescAttr(desc, read->column - 1);
		read->nulls_only = !bms_is_member(member, values);
		read->by_value = attribute->attbyval;
		read->length = attribute->attlen;
		state->last_read = read->column;
		state->columns[read->column - 1].values = palloc(HM_BLOCK_ROWS * sizeof(Datum));
		state->columns[read->column - 1].nulls = palloc(HM_BLOCK_ROWS * sizeof(bool));
		references |= !read->by_value && !read->nulls_only;
	}

	/* What a column in a block refers to may be gone by the end of the block. */
	if (!references && IsA(child, CustomScanState))
		state->read_block = block_reader((CustomScanState *) child);
}

static void
begin_groups(LookupAggregate *state, EState *estate, TupleDesc desc)
{
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	List *keys = list_nth(plan->custom_exprs, HM_AGGREGATE_KEYS);
	List *kept = list_nth(plan->custom_exprs, HM_AGGREGATE_KEPT);
	TupleDesc set_aside_desc;

	if (keys == NIL)
		return;
	state->groups =
		hm_groups_create(column_numbers(keys), column_numbers(kept), state->aggregate_count, desc);
	state->records = palloc(HM_BLOCK_ROWS * sizeof(char *));
	state->hashes = palloc(HM_BLOCK_ROWS * sizeof(uint32));
	for (int i = 0; i < state->aggregate_count; i++)
		state->aggregates[i].offset = hm_groups_state_offset(state->groups, i);

	set_aside_desc = CreateTemplateTupleDesc(state->read_count);
	for (int i = 0; i < state->read_count; i++)
	{
		const ReadColumn *read = &state->reads[i];
		Form_pg_attribute attribute = TupleDescAttr(desc, read->column - 1);

		TupleDescInitEntry(set_aside_desc, (AttrNumber) (i + 1), NULL,
						   read->nulls_only ? BOOLOID : attribute->atttypid, -1,
						   attribute->attndims);
	}
	hm_finalize_desc(set_aside_desc);
	state->write_slot = ExecInitExtraTupleSlot(estate, set_aside_desc, &TTSOpsVirtual);
	state->read_slot = ExecInitExtraTupleSlot(estate, set_aside_desc, &TTSOpsMinimalTuple);
}

void
hm_aggregates_begin_rows(LookupAggregate *state, EState *estate)
{
	PlanState *child = linitial(state->css.custom_ps);

	begin_reads(state, child);
	begin_groups(state, estate, ExecGetResultType(child));
	state->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup aggregate",
										   ALLOCSET_DEFAULT_SIZES);
}
