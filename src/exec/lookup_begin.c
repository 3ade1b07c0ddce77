/*
 * lookup_begin.c
 *		From the plan of a lookup scan or a lookup join to its state.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "optimizer/optimizer.h"

#include "compat.h"
#include "exec/lookup_node.h"

/*
 * Whether rows with equal values of a column are all that its field of composite keys leads to, in
 * the only target.
 */
static bool
field_is_exact(const LookupNode *lookup, int column)
{
	const SearchTarget *target = &lookup->targets[0];
	const HmField *field = &target->fields.fields[column];

	return !lookup->several_targets && target->index != NULL && hm_field_is_exact(field) &&
		   !hm_field_shares_null(field);
}

static void
begin_key(LookupNode *lookup, int number, const LookupKey *plan, Expr *argument)
{
	RowKey *key = &lookup->keys[number];
	Expr *column = argument;

	key->strategy = (StrategyNumber) plan->strategy;
	key->type = hm_column_key_type(lookup->plan.composite, plan->key_type);
	key->bracket = hm_bracket_function(key->type->type, plan->type);
	if (key->bracket == NULL)
		elog(ERROR, "harmonia cannot compare type %u with type %u", key->type->type, plan->type);
	key->argument = ExecInitExpr(argument, &lookup->node.css.ss.ps);
	key->is_exact = key->type->type == plan->type && key->type->exact;
	lookup->may_be_fuzzy |= hm_may_be_fuzzy(hm_key_type_id(key->type), plan->type) ||
							(lookup->plan.composite && !field_is_exact(lookup, plan->column));
	if (key->strategy == BTEqualStrategyNumber)
		lookup->equal_count++;
	while (IsA(column, RelabelType))
		column = ((RelabelType *) column)->arg;
	if (plan->is_array)
	{
		/* The rows are its elements. */
		lookup->elements.key = number;
		key->column = 1;
	}
	else if (IsA(column, Var))
		key->column = lookup->sources[((Var *) column)->varattno - 1];
	Assert(key->column >= 0);
	lookup->plain_columns &=
		key->is_exact && key->strategy == BTEqualStrategyNumber && key->column > 0;
}

static void
begin_keys(LookupNode *lookup)
{
	const LookupPlan *plan = &lookup->plan;
	ListCell *key, *argument;

	lookup->key_count = list_length(plan->keys);
	lookup->keys = palloc0(lookup->key_count * sizeof(RowKey));
	lookup->plain_columns =
		lookup->plan.composite && !lookup->several_targets && lookup->target_count > 0;
	forboth(key, plan->keys, argument, plan->arguments)
		begin_key(lookup, foreach_current_index(key), lfirst(key), lfirst(argument));
	lookup->plain_key = lookup->key_count == 1 && !lookup->plan.composite &&
						lookup->keys[0].column > 0 &&
						lookup->keys[0].strategy == BTEqualStrategyNumber &&
						((LookupKey *) linitial(plan->keys))->type == lookup->key_type->type;

	/* The fetch compares values of a plain column, so the clause need not be evaluated. */
	if (lookup->plain_key && !lookup->key_type->exact)
		lookup->may_be_fuzzy = false;
}

static void
begin_sources(LookupNode *lookup)
{
	const List *sources = lookup->plan.sources;
	Bitmapset *wanted = NULL;
	ListCell *cell;

	lookup->column_count = list_length(sources);
	lookup->sources = palloc(Max(1, lookup->column_count) * sizeof(int));
	foreach (cell, sources)
	{
		int source = lfirst_int(cell);

		lookup->sources[foreach_current_index(cell)] = source;
		if (source > 0)
			wanted = bms_add_member(wanted, source);
	}
	if (hm_has_outer(lookup))
		hm_plan_rows_init(&lookup->outer, linitial(lookup->node.css.custom_ps), wanted);
	bms_free(wanted);
}

/* Add the columns of the scan tuple that expressions of the plan refer to to a set. */
static void
add_columns(List *exprs, Bitmapset **columns)
{
	Bitmapset *attributes = NULL;
	int attribute = -1;

	pull_varattnos((Node *) exprs, INDEX_VAR, &attributes);
	while ((attribute = bms_next_member(attributes, attribute)) >= 0)
		*columns = bms_add_member(*columns, attribute + FirstLowInvalidHeapAttributeNumber - 1);
}

/* Add the columns of the scan tuple that are this column of the outer row to a set. */
static void
add_sources(const LookupNode *lookup, int source, Bitmapset **columns)
{
	for (int i = 0; i < lookup->column_count; i++)
	{
		if (lookup->sources[i] == source)
			*columns = bms_add_member(*columns, i);
	}
}

/*
 * Whether the join's result is nothing but columns of the scan tuple, and none of them is computed.
 * If so, *columns has their numbers.
 */
static bool
returns_columns(const LookupNode *lookup, List *tlist, List **columns)
{
	ListCell *cell;

	*columns = NIL;
	foreach (cell, tlist)
	{
		Var *var = (Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= 0 ||
			lookup->sources[var->varattno - 1] == HM_COMPUTED)
			return false;
		*columns = lappend_int(*columns, var->varattno - 1);
	}
	return true;
}

/*
 * Have a slot's columns filled from these columns of the scan tuple.  kept maps the
 * latter to those that are kept of outer rows.
 */
static void
begin_fill(LookupNode *lookup, SlotFill *fill, TupleTableSlot *slot, List *to, List *from,
		   const int *kept)
{
	ListCell *to_cell, *from_cell;
	int room = Max(1, list_length(to));

	fill->slot = slot;
	fill->outer_to = palloc(room * sizeof(int));
	fill->outer_from = palloc(room * sizeof(int));
	fill->inner_to = palloc(room * sizeof(int));
	fill->inner_from = palloc(room * sizeof(int));
	forboth(to_cell, to, from_cell, from)
	{
		int column = lfirst_int(from_cell);

		if (lookup->sources[column] == HM_COMPUTED)
			continue;
		if (lookup->sources[column] > 0)
		{
			fill->outer_to[fill->outer_count] = lfirst_int(to_cell);
			fill->outer_from[fill->outer_count++] = kept[column];
		}
		else
		{
			fill->inner_to[fill->inner_count] = lfirst_int(to_cell);
			fill->inner_from[fill->inner_count++] = column;
		}
	}
}

/* Whether one of these columns is of the inner side. */
static bool
has_inner(const LookupNode *lookup, const Bitmapset *columns)
{
	int column = -1;

	while ((column = bms_next_member(columns, column)) >= 0)
	{
		if (lookup->sources[column] <= 0)
			return true;
	}
	return false;
}

/*
 * Prepare to compute those of the evaluated columns that are computed, and add to these what that
 * takes.
 */
static void
begin_computed(LookupNode *lookup, Bitmapset **evaluated)
{
	ListCell *cell = list_head(lookup->plan.computed);

	lookup->computed = palloc(Max(1, list_length(lookup->plan.computed)) * sizeof(ComputedColumn));
	for (int i = 0; i < lookup->column_count; i++)
	{
		if (lookup->sources[i] != HM_COMPUTED)
			continue;
		if (bms_is_member(i, *evaluated))
		{
			ComputedColumn *computed = &lookup->computed[lookup->computed_count++];

			computed->column = i;
			computed->expr = ExecInitExpr(lfirst(cell), &lookup->node.css.ss.ps);
			add_columns(list_make1(lfirst(cell)), evaluated);
		}
		cell = lnext(lookup->plan.computed, cell);
	}
}

/*
 * Decide which columns of outer rows are kept, and how slots are filled.
 *
 * A semijoin's key can be asked for, too: if a table is joined above it by an equal column,
 * PostgreSQL may compare that with the inner key as well as with the outer one.  Then each row is
 * returned with its first match.
 */
static void
begin_columns(LookupNode *lookup, TupleDesc outer, List *other_quals)
{
	CustomScan *plan = (CustomScan *) lookup->node.css.ss.ps.plan;
	KeptRows *rows = &lookup->batch.rows;
	bool direct;
	List *result_from, *result_to = NIL;
	List *candidate_columns = NIL;
	Bitmapset *evaluated = NULL;
	Bitmapset *returned = NULL;
	Bitmapset *needed = NULL;
	int *kept = palloc0(Max(1, lookup->column_count) * sizeof(int));
	int count = 0;
	int column = -1;

	direct = returns_columns(lookup, plan->scan.plan.targetlist, &result_from);
	add_columns(plan->scan.plan.qual, &evaluated);
	add_columns(lookup->plan.inner_quals, &evaluated);
	add_columns(lookup->may_be_fuzzy ? lookup->plan.quals : other_quals, &evaluated);
	if (!direct)
		add_columns(plan->scan.plan.targetlist, &evaluated);
	begin_computed(lookup, &evaluated);
	needed = bms_copy(evaluated);
	add_columns(plan->scan.plan.targetlist, &returned);
	needed = bms_add_members(needed, returned);
	lookup->notes_matches =
		lookup->one_match && (lookup->plan.type == JOIN_ANTI || !has_inner(lookup, returned));
	if (lookup->plain_key && !lookup->key_type->exact)
		add_sources(lookup, lookup->keys[0].column, &needed);

	lookup->value_column = -1;
	rows->columns = palloc(Max(1, lookup->column_count) * sizeof(KeptColumn));
	while ((column = bms_next_member(needed, column)) >= 0)
	{
		if (lookup->sources[column] <= 0)
			continue;
		if (lookup->plain_key && !lookup->key_type->exact &&
			lookup->sources[column] == lookup->keys[0].column)
			lookup->value_column = count;
		kept[column] = count;
		rows->columns[count++].source = lookup->sources[column];
	}
	hm_kept_begin(rows, count, outer);
	if (lookup->source == &hm_source_rows || lookup->source == &hm_source_shared)
		hm_rows_page_begin(lookup);

	column = -1;
	while ((column = bms_next_member(evaluated, column)) >= 0)
		candidate_columns = lappend_int(candidate_columns, column);
	begin_fill(lookup, &lookup->candidate, lookup->node.css.ss.ss_ScanTupleSlot, candidate_columns,
			   candidate_columns, kept);
	lookup->fills_candidate = candidate_columns != NIL;
	for (int i = 0; direct && i < list_length(result_from); i++)
		result_to = lappend_int(result_to, i);
	begin_fill(lookup, &lookup->result, direct ? lookup->node.css.ss.ps.ps_ResultTupleSlot : NULL,
			   result_to, direct ? result_from : NIL, kept);
	lookup->has_blocks = direct;
	for (int i = 0; i < lookup->target_count; i++)
		lookup->targets[i].by_slot = bms_num_members(needed) - count >= HM_SLOT_MIN_COLUMNS;
}

/* ----------------------------------------------------------------
 *		Targets
 * ----------------------------------------------------------------
 */

static void
begin_target(LookupNode *lookup, SearchTarget *target, const LookupTarget *plan)
{
	target->table_oid = plan->table;
	target->index_oid = plan->index;
	target->share = plan->share;
	target->columns = palloc(Max(1, lookup->column_count) * sizeof(int));
	for (int i = 0; i < lookup->column_count; i++)
	{
		target->columns[i] = lookup->is_table ? i + 1 : list_nth_int(plan->columns, i);
		target->last = Max(target->last, target->columns[i]);
	}
}

/* The scan tuple always has the key of the table that is searched, so it has a Var of it. */
Index
hm_lookup_relid(const LookupNode *lookup)
{
	CustomScan *plan = (CustomScan *) lookup->node.css.ss.ps.plan;
	int column = 0;

	if (lookup->is_table)
		return plan->scan.scanrelid;
	for (;; column++)
	{
		const Var *var = (Var *) list_nth_node(TargetEntry, plan->custom_scan_tlist, column)->expr;

		if (lookup->sources[column] == 0 && var->varattno > 0)
			return var->varno;
	}
}

/* Set up those targets that are not pruned for good. */
static void
begin_targets(LookupNode *lookup)
{
	const LookupPlan *plan = &lookup->plan;
	int count = list_length(plan->targets);
	Bitmapset *needed = hm_pruning_begin(&lookup->pruning, &lookup->node.css.ss.ps, plan->pruning,
										 plan->prune_steps, hm_lookup_relid(lookup), count);
	int number = -1;

	lookup->several_targets = count > 1;
	lookup->targets = palloc0(count * sizeof(SearchTarget));
	while ((number = bms_next_member(needed, number)) >= 0)
		begin_target(lookup, &lookup->targets[lookup->target_count++],
					 list_nth(plan->targets, number));
	lookup->pruned = count - lookup->target_count;
}

/*
 * The size of the batch's keys: those of the index or, if the batch keeps the keys of columns, of
 * the column that shares are about.
 */
static Size
batch_key_size(const LookupNode *lookup)
{
	if (!lookup->plan.composite || lookup->several_targets || lookup->target_count == 0)
		return hm_key_size(lookup->key_type->width);
	return lookup->targets[0].key_size;
}

/*
 * Hash values are of what a key stands for.  If that can be neither restored nor kept, each target
 * gets all keys in its range.
 */
static void
forget_hashes(LookupNode *lookup)
{
	if (lookup->key_type == NULL || lookup->key_type->returnable || lookup->value_column >= 0)
		return;
	for (int i = 0; i < lookup->target_count; i++)
		lookup->targets[i].share.modulus = lookup->targets[i].share.remainder = 0;
}

/* ----------------------------------------------------------------
 *		The node
 * ----------------------------------------------------------------
 */

/* Choose the source, and set it up.  Returns what rows of it are like, if it has rows. */
static TupleDesc
begin_source(LookupNode *lookup)
{
	const LookupPlan *plan = &lookup->plan;

	if (lookup->source != NULL)
		return ExecGetResultType(linitial(lookup->node.css.custom_ps));
	lookup->batch.all.key_size = batch_key_size(lookup);
	if (plan->arms != NIL)
	{
		lookup->source = &hm_source_conditions;
		hm_conditions_begin(lookup);
		return NULL;
	}
	begin_keys(lookup);
	if (!hm_has_outer(lookup))
	{
		lookup->source = &hm_source_elements;
		hm_elements_begin(lookup);
		return lookup->elements.slot->tts_tupleDescriptor;
	}
	lookup->source = plan->distinct    ? &hm_source_distinct :
					 plan->shares_rows ? &hm_source_shared :
										 &hm_source_rows;
	if (plan->distinct)
		hm_distinct_begin(&lookup->distinct, lookup->batch.all.key_size);
	return ExecGetResultType(linitial(lookup->node.css.custom_ps));
}

/* The conditions that are evaluated.  Returns the join clauses that are no key clauses. */
static List *
begin_quals(LookupNode *lookup)
{
	const LookupPlan *plan = &lookup->plan;
	PlanState *state = &lookup->node.css.ss.ps;
	List *other_quals =
		hm_has_outer(lookup) ? list_difference(plan->quals, plan->key_clauses) : NIL;

	lookup->inner_quals = ExecInitQual(plan->inner_quals, state);
	lookup->quals = ExecInitQual(lookup->is_table ? plan->key_clauses : plan->quals, state);
	lookup->other_quals = ExecInitQual(other_quals, state);
	lookup->one_time = ExecInitQual(plan->one_time, state);
	lookup->inner_one_time = ExecInitQual(plan->inner_one_time, state);
	lookup->has_conditions = plan->inner_quals != NIL || other_quals != NIL;
	return other_quals;
}

void
hm_lookup_begin(LookupNode *lookup, bool is_explained)
{
	const CustomScan *scan = (CustomScan *) lookup->node.css.ss.ps.plan;
	LookupPlan *plan = &lookup->plan;
	List *other_quals;
	TupleDesc rows;

	hm_lookup_plan_read(plan, scan);
	lookup->is_table = scan->scan.scanrelid > 0;
	lookup->one_match = plan->type == JOIN_SEMI || plan->type == JOIN_ANTI;
	lookup->keeps_unmatched = plan->type == JOIN_LEFT || plan->type == JOIN_ANTI;
	lookup->value_column = -1;
	if (lookup->search == NULL)
	{
		lookup->search = &hm_search_targets;
		lookup->key_type = hm_column_key_type(plan->composite, plan->key_type);
	}
	if (lookup->is_table)
		lookup->column_count =
			RelationGetNumberOfAttributes(lookup->node.css.ss.ss_currentRelation);
	else
		begin_sources(lookup);
	begin_targets(lookup);
	if (!is_explained && !lookup->several_targets && lookup->target_count > 0 &&
		(lookup->plan.composite || lookup->is_table))
		hm_search_open_target(lookup, &lookup->targets[0]);
	if (lookup->is_table)
		hm_table_begin(lookup);
	other_quals = begin_quals(lookup);
	rows = begin_source(lookup);
	if (!lookup->is_table)
		begin_columns(lookup, rows, other_quals);
	lookup->node.divides_keys = lookup->source == &hm_source_conditions;
	lookup->node.shares_rows = lookup->source == &hm_source_shared;
	forget_hashes(lookup);
}
