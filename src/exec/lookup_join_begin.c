/*
 * lookup_join_begin.c
 *		From the plan of a lookup join to its state.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "optimizer/optimizer.h"

#include "compat.h"
#include "exec/lookup_join.h"

/*
 * Whether rows with equal values of a column are all that its field of composite keys leads to, in the
 * only target.
 */
static bool
field_is_exact(const LookupJoin *join, int column)
{
	const JoinTarget *target = &join->targets[0];
	const HmField *field = &target->fields.fields[column];

	return !join->several_targets && target->index != NULL && hm_field_is_exact(field) &&
		!hm_field_shares_null(field);
}

static void
begin_keys(LookupJoin *join, List *descriptions, List *arguments)
{
	ListCell   *cell;

	join->key_count = list_length(arguments);
	join->keys = palloc0(join->key_count * sizeof(JoinKey));
	join->plain_columns = join->composite && !join->several_targets && join->target_count > 0;
	foreach(cell, arguments)
	{
		int			i = foreach_current_index(cell);
		Expr	   *argument = lfirst(cell);
		Expr	   *column = argument;
		JoinKey    *key = &join->keys[i];

		Oid			type = (Oid) list_nth_int(descriptions, 3 * i + 1);

		key->strategy = (StrategyNumber) list_nth_int(descriptions, 3 * i);
		key->type = hm_column_key_type(join->composite, (Oid) list_nth_int(descriptions, 3 * i + 2));
		key->bracket = hm_bracket_function(key->type->type, type);
		if (key->bracket == NULL)
			elog(ERROR, "harmonia cannot compare type %u with type %u", key->type->type, type);
		key->argument = ExecInitExpr(argument, &join->node.css.ss.ps);
		key->is_exact = key->type->type == type && key->type->exact;
		join->may_be_fuzzy |= hm_may_be_fuzzy(hm_key_type_id(key->type), type) ||
			(join->composite && (key->strategy != BTEqualStrategyNumber || !field_is_exact(join, i)));
		while (IsA(column, RelabelType))
			column = ((RelabelType *) column)->arg;
		if (i == join->array.key)
			key->column = 1;
		else if (IsA(column, Var))
			key->column = join->sources[((Var *) column)->varattno - 1];
		Assert(key->column >= 0);
		join->plain_columns &= key->is_exact && key->strategy == BTEqualStrategyNumber && key->column > 0;
	}
	join->plain_key = join->key_count == 1 && !join->composite && join->keys[0].column > 0 &&
		join->keys[0].strategy == BTEqualStrategyNumber &&
		(Oid) lsecond_int(descriptions) == join->key_type->type;

	/* The fetch compares values of a plain column, so the clause need not be evaluated. */
	if (join->plain_key && !join->key_type->exact)
		join->may_be_fuzzy = false;
}

static void
begin_sources(LookupJoin *join, List *sources)
{
	Bitmapset  *wanted = NULL;
	ListCell   *cell;

	join->column_count = list_length(sources);
	join->sources = palloc(Max(1, join->column_count) * sizeof(int));
	foreach(cell, sources)
	{
		int			source = lfirst_int(cell);

		join->sources[foreach_current_index(cell)] = source;
		if (source > 0)
			wanted = bms_add_member(wanted, source);
	}
	if (!hm_join_has_array(join))
		hm_plan_rows_init(&join->outer, linitial(join->node.css.custom_ps), wanted);
	bms_free(wanted);
}

/* Add the columns of the scan tuple that expressions of the plan refer to to a set. */
static void
add_columns(List *exprs, Bitmapset **columns)
{
	Bitmapset  *attributes = NULL;
	int			attribute = -1;

	pull_varattnos((Node *) exprs, INDEX_VAR, &attributes);
	while ((attribute = bms_next_member(attributes, attribute)) >= 0)
		*columns = bms_add_member(*columns, attribute + FirstLowInvalidHeapAttributeNumber - 1);
}

/* Add the columns of the scan tuple that are this column of the outer row to a set. */
static void
add_sources(const LookupJoin *join, int source, Bitmapset **columns)
{
	for (int i = 0; i < join->column_count; i++)
	{
		if (join->sources[i] == source)
			*columns = bms_add_member(*columns, i);
	}
}

/*
 * Whether the join's result is nothing but columns of the scan tuple.  If so, *columns
 * has their numbers.
 */
static bool
returns_columns(List *tlist, List **columns)
{
	ListCell   *cell;

	*columns = NIL;
	foreach(cell, tlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= 0)
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
begin_fill(LookupJoin *join, JoinFill *fill, TupleTableSlot *slot, List *to, List *from,
		   const int *kept)
{
	ListCell   *to_cell,
			   *from_cell;
	int			room = Max(1, list_length(to));

	fill->slot = slot;
	fill->outer_to = palloc(room * sizeof(int));
	fill->outer_from = palloc(room * sizeof(int));
	fill->inner_to = palloc(room * sizeof(int));
	fill->inner_from = palloc(room * sizeof(int));
	forboth(to_cell, to, from_cell, from)
	{
		int			column = lfirst_int(from_cell);

		if (join->sources[column] > 0)
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
has_inner(const LookupJoin *join, const Bitmapset *columns)
{
	int			column = -1;

	while ((column = bms_next_member(columns, column)) >= 0)
	{
		if (join->sources[column] == 0)
			return true;
	}
	return false;
}

/*
 * Decide which columns of outer rows are kept, and how slots are filled.
 *
 * A semijoin's key can be asked for, too: if a table is joined above it by an equal column, PostgreSQL may
 * compare that with the inner key as well as with the outer one.  Then each row is returned with its first match.
 */
static void
begin_columns(LookupJoin *join, TupleDesc outer, List *other_quals)
{
	CustomScan *plan = (CustomScan *) join->node.css.ss.ps.plan;
	JoinRows   *rows = &join->batch.rows;
	bool		direct;
	List	   *result_from,
			   *result_to = NIL;
	List	   *candidate_columns = NIL;
	Bitmapset  *evaluated = NULL;
	Bitmapset  *returned = NULL;
	Bitmapset  *needed = NULL;
	int		   *kept = palloc0(Max(1, join->column_count) * sizeof(int));
	int			count = 0;
	int			column = -1;

	direct = returns_columns(plan->scan.plan.targetlist, &result_from);
	add_columns(plan->scan.plan.qual, &evaluated);
	add_columns(list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS), &evaluated);
	add_columns(join->may_be_fuzzy ? list_nth(plan->custom_exprs, HM_JOIN_QUALS) : other_quals,
				&evaluated);
	if (!direct)
		add_columns(plan->scan.plan.targetlist, &evaluated);
	needed = bms_copy(evaluated);
	add_columns(plan->scan.plan.targetlist, &returned);
	needed = bms_add_members(needed, returned);
	join->marks = join->one_match && (join->type == JOIN_ANTI || !has_inner(join, returned));
	if (join->plain_key && !join->key_type->exact)
		add_sources(join, join->keys[0].column, &needed);

	join->value_column = -1;
	rows->columns = palloc(Max(1, join->column_count) * sizeof(JoinColumn));
	while ((column = bms_next_member(needed, column)) >= 0)
	{
		if (join->sources[column] == 0)
			continue;
		if (join->plain_key && !join->key_type->exact &&
			join->sources[column] == join->keys[0].column)
			join->value_column = count;
		kept[column] = count;
		rows->columns[count++].source = join->sources[column];
	}
	hm_rows_begin(rows, count, outer);
	hm_join_page_begin(join);

	column = -1;
	while ((column = bms_next_member(evaluated, column)) >= 0)
		candidate_columns = lappend_int(candidate_columns, column);
	begin_fill(join, &join->candidate, join->node.css.ss.ss_ScanTupleSlot, candidate_columns,
			   candidate_columns, kept);
	join->fills_candidate = candidate_columns != NIL;
	for (int i = 0; direct && i < list_length(result_from); i++)
		result_to = lappend_int(result_to, i);
	begin_fill(join, &join->result, direct ? join->node.css.ss.ps.ps_ResultTupleSlot : NULL,
			   result_to, direct ? result_from : NIL, kept);
	for (int i = 0; i < join->target_count; i++)
		join->targets[i].by_slot = bms_num_members(needed) - count >= HM_SLOT_MIN_COLUMNS;
}

/* A key that a plan stores as four integers. */
static HmKey
join_quarters(List *numbers, int first)
{
	HmKey		key = 0;

	for (int i = 0; i < 4; i++)
		key = key << 32 | (uint32) list_nth_int(numbers, first + i);
	return key;
}

static void
begin_target(LookupJoin *join, JoinTarget *target, List *plan)
{
	List	   *oids = list_nth(plan, HM_TARGET_OIDS);
	List	   *share = list_nth(plan, HM_TARGET_SHARE);
	ListCell   *cell;

	target->table_oid = linitial_oid(oids);
	target->index_oid = lsecond_oid(oids);
	target->share.hash = lthird_oid(oids);
	target->share.collation = lfourth_oid(oids);
	target->share.low = join_quarters(share, 0);
	target->share.high = join_quarters(share, 4);
	target->share.modulus = (uint64) list_nth_int(share, 8);
	target->share.remainder = (uint64) list_nth_int(share, 9);
	target->columns = palloc(Max(1, join->column_count) * sizeof(int));
	foreach(cell, (List *) list_nth(plan, HM_TARGET_COLUMNS))
	{
		target->columns[foreach_current_index(cell)] = lfirst_int(cell);
		target->last = Max(target->last, lfirst_int(cell));
	}
}

/* The scan tuple always has the inner side's key, so it has a Var of the inner side. */
Index
hm_join_inner_relid(LookupJoin *join)
{
	CustomScan *plan = (CustomScan *) join->node.css.ss.ps.plan;
	int			column = 0;

	while (join->sources[column] > 0)
		column++;
	return castNode(Var, list_nth_node(TargetEntry, plan->custom_scan_tlist, column)->expr)->varno;
}

/* Set up those targets that are not pruned for good. */
static void
begin_targets(LookupJoin *join)
{
	CustomScan *plan = (CustomScan *) join->node.css.ss.ps.plan;
	List	   *targets = list_nth(plan->custom_private, HM_JOIN_TARGETS);
	Bitmapset  *needed = hm_pruning_begin(&join->pruning, &join->node.css.ss.ps,
										  list_nth(plan->custom_private, HM_JOIN_PRUNING),
										  list_nth(plan->custom_exprs, HM_JOIN_PRUNE_STEPS),
										  hm_join_inner_relid(join), list_length(targets));
	int			number = -1;

	join->several_targets = list_length(targets) > 1;
	join->targets = palloc0(list_length(targets) * sizeof(JoinTarget));
	while ((number = bms_next_member(needed, number)) >= 0)
		begin_target(join, &join->targets[join->target_count++], list_nth(targets, number));
	join->pruned = list_length(targets) - join->target_count;
}

/*
 * Hash values are of what a key stands for.  If that can be neither restored nor kept, each target
 * gets all keys in its range.
 */
static void
forget_hashes(LookupJoin *join)
{
	if (join->key_type->returnable || join->value_column >= 0)
		return;
	for (int i = 0; i < join->target_count; i++)
		join->targets[i].share.modulus = join->targets[i].share.remainder = 0;
}

/* What outer rows are like. */
static TupleDesc
outer_rows(LookupJoin *join)
{
	if (hm_join_has_array(join))
		return join->array.slot->tts_tupleDescriptor;
	return ExecGetResultType(linitial(join->node.css.custom_ps));
}

void
hm_join_begin(LookupJoin *join, bool is_explained)
{
	PlanState  *state = &join->node.css.ss.ps;
	CustomScan *plan = (CustomScan *) state->plan;
	List	   *flags = list_nth(plan->custom_private, HM_JOIN_FLAGS);
	List	   *inner_quals = list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS);
	List	   *quals = list_nth(plan->custom_exprs, HM_JOIN_QUALS);
	List	   *other_quals = list_difference(quals,
											  list_nth(plan->custom_exprs, HM_JOIN_KEY_CLAUSES));
	List	   *array = list_nth(plan->custom_private, HM_JOIN_ARRAY);

	join->type = (JoinType) linitial_int(flags);
	join->one_match = join->type == JOIN_SEMI || join->type == JOIN_ANTI;
	join->keeps_unmatched = join->type == JOIN_LEFT || join->type == JOIN_ANTI;
	join->index_only = lsecond_int(flags) != 0;
	join->first_rows = lfourth_int(flags) != 0;
	join->drops_duplicates = list_nth_int(flags, 4) != 0;
	join->composite = list_nth_int(flags, 5) != 0;
	join->key_type = hm_column_key_type(join->composite, (Oid) lthird_int(flags));
	join->share_column = list_nth_int(flags, 6);
	join->array.key = array != NIL ? linitial_int(array) : -1;
	begin_sources(join, list_nth(plan->custom_private, HM_JOIN_SOURCES));
	join->inner_quals = ExecInitQual(inner_quals, state);
	join->quals = ExecInitQual(quals, state);
	join->other_quals = ExecInitQual(other_quals, state);
	join->has_conditions = inner_quals != NIL || other_quals != NIL;
	begin_targets(join);
	if (!is_explained && join->composite && !join->several_targets && join->target_count > 0)
		hm_join_open_target(join, &join->targets[0]);
	begin_keys(join, list_nth(plan->custom_private, HM_JOIN_KEYS),
			   list_nth(plan->custom_exprs, HM_JOIN_ARGUMENTS));
	if (hm_join_has_array(join))
		hm_array_begin(join, array);
	else if (join->drops_duplicates)
		hm_distinct_begin(&join->distinct, hm_key_size(join->key_type->width));
	begin_columns(join, outer_rows(join), other_quals);
	forget_hashes(join);
}
