/*
 * lookup_scan_cost.c
 *		The costs of lookup scans: what their conditions find in an index, and what is evaluated.
 *
 * planner.c has the cost of lookups in one index.
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "access/stratnum.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "compat.h"
#include "exec/lookup_scan_plan.h"

/*
 * What it costs to send a byte of an array that is a constant to workers, in operators: a
 * plan has it twice.  An array of 100,000 bigints took 700 ms, while looking up its keys
 * took 40.
 */
#define BYTE_OPERATORS 100

/*
 * The conditions of an arm that decide which part of an index is read: later columns are looked at
 * in rows.
 */
static List *
boundary_clauses(const IndexOptInfo *index, const HmFields *fields, const Arm *arm)
{
	Bitmapset *equal = NULL; /* columns that are restricted to values */
	List *boundary = NIL;
	int last = 0;
	ListCell *cell, *clause;

	foreach (cell, arm->keys)
	{
		const LookupKey *key = lfirst(cell);

		if (key->strategy == BTEqualStrategyNumber)
			equal = bms_add_member(equal, key->column);
	}
	while (bms_is_member(last, equal))
		last++;
	forboth(cell, arm->keys, clause, arm->clauses)
	{
		int column = ((LookupKey *) lfirst(cell))->column;

		if (bms_is_member(column, equal) ?
				column <= last :
				column == last && hm_field_is_ordered(&fields->fields[column]))
			boundary = lappend(boundary, lfirst(clause));
	}
	bms_free(equal);
	return boundary;
}

/*
 * The conditions of an arm that the keys of an index tell: those on later columns filter what is
 * found, before rows are read.
 */
static List *
known_clauses(const HmFields *fields, const Arm *arm)
{
	List *known = NIL;
	ListCell *cell, *clause;

	forboth(cell, arm->keys, clause, arm->clauses)
	{
		const LookupKey *key = lfirst(cell);

		if (key->strategy == BTEqualStrategyNumber ||
			hm_field_is_ordered(&fields->fields[key->column]))
			known = lappend(known, lfirst(clause));
	}
	return known;
}

/*
 * Whether hits of a scan are filtered by the keys of later columns.  Index-only scans evaluate
 * conditions, which takes no row either.
 */
static bool
may_filter(const Conditions *conditions, bool index_only)
{
	return list_length(conditions->arms) == 1 && !index_only;
}

/* Whether all rows that an arm's keys find satisfy its conditions. */
static bool
arm_is_exact(const IndexOptInfo *index, const HmFields *fields, const Arm *arm, bool filters)
{
	ListCell *cell;

	if (hm_has_columns(index) && !filters &&
		list_length(boundary_clauses(index, fields, arm)) < list_length(arm->clauses))
		return false;
	foreach (cell, arm->keys)
	{
		if (!hm_key_is_exact(index, fields, lfirst(cell)))
			return false;
	}
	return true;
}

/* Whether a lookup scan may find rows that do not satisfy the conditions. */
static bool
finds_others(const IndexOptInfo *index, const Conditions *conditions, bool index_only)
{
	HmFields fields;
	ListCell *cell;

	hm_read_fields(index, &fields);
	foreach (cell, conditions->arms)
	{
		if (!arm_is_exact(index, &fields, lfirst(cell), may_filter(conditions, index_only)))
			return true;
	}
	return false;
}

/* The cost of all conditions that a lookup scan evaluates for each row. */
static void
cost_conditions(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
				const Conditions *conditions, bool index_only, QualCost *result)
{
	QualCost key_cost;

	cost_qual_eval(result, list_difference_ptr(rel->baserestrictinfo, conditions->exact), root);
	if (!finds_others(index, conditions, index_only))
		return;
	if (hm_scan_is_single_array(index, conditions) &&
		!hm_key_type_lookup(hm_index_type_id(index, 0))->exact)
	{
		/* The fetch compares each row with the value of its key. */
		result->per_tuple += cpu_operator_cost;
		return;
	}
	cost_qual_eval(&key_cost, conditions->clauses, root);
	result->startup += key_cost.startup;
	result->per_tuple += key_cost.per_tuple;
}

Cost
hm_cost_sending(List *arguments)
{
	Cost cost = 0;
	ListCell *cell;

	foreach (cell, arguments)
	{
		Const *array = lfirst(cell);

		if (IsA(array, Const) && !array->constisnull && array->constlen == -1)
			cost += (double) toast_raw_datum_size(array->constvalue) * BYTE_OPERATORS *
					cpu_operator_cost;
	}
	return cost;
}

/*
 * What a parallel scan costs more, in each process: that of getting the plan; and each process
 * handles all keys, to find those that it has to look up.
 */
static Cost
dividing_cost(const Conditions *conditions, double keys)
{
	Cost cost = keys * cpu_operator_cost;
	ListCell *cell;

	foreach (cell, conditions->arms)
		cost += hm_cost_sending(((Arm *) lfirst(cell))->arguments);
	return cost;
}

void
hm_scan_cost_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
				  const Conditions *conditions, bool guessed, HmLookupWork *work, Path *path)
{
	QualCost qual_cost;

	/*
	 * The keys are sorted before the first row is returned.
	 *
	 * In a table that is in the order of the key, PostgreSQL treats the rows of all keys
	 * as neighbours, and so charges a plain index scan for few pages; nor does it charge one
	 * with an array for all keys and leaves, since version 17.  The costs can be compared only if a
	 * lookup scan is charged in the same way.
	 */
	work->as_array = true;
	work->runs = 1;
	work->correlation = hm_key_correlation(root, index);
	path->startup_cost = hm_array_scan_keys(work->probes, index->pages) * 2 * cpu_operator_cost;
	if (work->processes > 1)
		path->startup_cost += dividing_cost(conditions, work->probes * work->processes);
	path->total_cost = path->startup_cost;
	hm_cost_lookup(root, rel, index, work, &path->startup_cost, &path->total_cost);
	if (guessed && work->rows <= hm_fetch_portion_hits(work->index_only))
	{
		path->startup_cost *= HM_GUESS_DISCOUNT;
		path->total_cost *= HM_GUESS_DISCOUNT;
	}
	cost_conditions(root, rel, index, conditions, work->index_only, &qual_cost);
	path->startup_cost += qual_cost.startup + rel->reltarget->cost.startup;
	path->total_cost += qual_cost.startup + qual_cost.per_tuple * work->rows +
						rel->reltarget->cost.startup + rel->reltarget->cost.per_tuple * rel->rows;
}

/*
 * The share of a table's rows that an index with several columns finds, and *looked_at: that of
 * the rows that are looked at.
 */
static Selectivity
composite_selectivity(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
					  const Conditions *conditions, bool index_only, Selectivity *looked_at)
{
	List *clauses = NIL;
	Selectivity found;
	HmFields fields;
	ListCell *cell;

	hm_read_fields(index, &fields);
	foreach (cell, conditions->arms)
		clauses =
			lappend(clauses, make_ands_explicit(boundary_clauses(index, &fields, lfirst(cell))));
	found = clause_selectivity(
		root, (Node *) (list_length(clauses) == 1 ? linitial(clauses) : make_orclause(clauses)),
		(int) rel->relid, JOIN_INNER, NULL);
	*looked_at = found;
	if (may_filter(conditions, index_only))
		*looked_at =
			clauselist_selectivity(root, known_clauses(&fields, linitial(conditions->arms)),
								   (int) rel->relid, JOIN_INNER, NULL);
	return found;
}

Selectivity
hm_scan_selectivity(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
					const Conditions *conditions, bool index_only, Selectivity *looked_at)
{
	List *clauses = NIL;
	ListCell *info;
	ListCell *clause;

	if (hm_has_columns(index))
		return composite_selectivity(root, rel, index, conditions, index_only, looked_at);
	forboth(info, conditions->infos, clause, conditions->clauses) clauses = lappend(
		clauses, list_member_ptr(conditions->exact, lfirst(info)) ? lfirst(info) : lfirst(clause));
	*looked_at = clauselist_selectivity(root, clauses, (int) rel->relid, JOIN_INNER, NULL);
	return *looked_at;
}
