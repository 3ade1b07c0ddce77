/*
 * lookup_explain.c
 *		What EXPLAIN shows of a lookup scan or a lookup join.
 */
#include "postgres.h"

#include "parser/parsetree.h"

#include "compat.h"
#include "exec/lookup_node.h"

static const char *
join_name(JoinType type)
{
	switch (type)
	{
		case JOIN_LEFT:
			return "Left";
		case JOIN_SEMI:
			return "Semi";
		case JOIN_ANTI:
			return "Anti";
		default:
			return "Inner";
	}
}

void
hm_explain_join_type(JoinType type, ExplainState *es)
{
	ExplainPropertyText("Join Type", join_name(type), es);
}

/*
 * Show the inner table, under a label, as the query names it, and the indexes of its targets.
 * Targets that were pruned when the node began are only counted, as "Subplans Removed", as an
 * Append does.
 */
static void
explain_targets(const char *label, LookupNode *lookup, ExplainState *es)
{
	Index inner = hm_lookup_relid(lookup);
	List *indexes = NIL;
	List *tables = NIL;
	Bitmapset *unused = NULL;

	if (lookup->is_table)
	{
		/* PostgreSQL has shown the table. */
		hm_explain_index(lookup->targets[0].index_oid, es);
		return;
	}
	hm_explain_table(label, inner, es);
	for (int i = 0; i < lookup->target_count; i++)
	{
		indexes = lappend_oid(indexes, lookup->targets[i].index_oid);
		tables = lappend_oid(tables, lookup->targets[i].table_oid);

		/* Parallel workers do not tell which targets they used. */
		if (es->analyze && lookup->targets[i].table == NULL &&
			lookup->node.css.ss.ps.worker_instrument == NULL)
			unused = bms_add_member(unused, i);
	}
	if (list_member_oid(tables, rt_fetch(inner, es->rtable)->relid) && !lookup->several_targets)
		hm_explain_index(linitial_oid(indexes), es);
	else if (tables != NIL || es->format != EXPLAIN_FORMAT_TEXT)
		hm_explain_indexes(indexes, tables, unused, es);
	if (lookup->pruned > 0 || (lookup->several_targets && es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyInteger("Subplans Removed", NULL, lookup->pruned, es);
}

/* What the rows that conditions reject are called. */
static const char *
removed_label(const LookupNode *lookup)
{
	if (lookup->is_table)
		return "Rows Removed by Index Recheck";
	return hm_has_outer(lookup) ? "Rows Removed by Join Filter" : "Rows Removed by Filter";
}

/* Show what EXPLAIN ANALYZE has counted. */
static void
explain_counters(LookupNode *lookup, ExplainState *es)
{
	if (!es->analyze)
		return;
	if (hm_compares_values(lookup))
		hm_explain_removed(&lookup->node, es);
	if (!lookup->is_table || !hm_compares_values(lookup))
		hm_explain_filtered(removed_label(lookup), &lookup->node.css, es);
	if (lookup->node.shares_rows &&
		(lookup->node.rows_shared > 0 || es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyUInteger("Shared Rows", NULL, lookup->node.rows_shared, es);
	hm_explain_stats(&lookup->node, es);
}

void
hm_lookup_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupNode *lookup = (LookupNode *) node;
	const LookupPlan *plan = &lookup->plan;
	bool is_join = hm_has_outer(lookup);

	if (is_join)
		hm_explain_join_type(lookup->plan.type, es);
	explain_targets(is_join ? "Inner Table" : "Table", lookup, es);
	hm_explain_clauses("One-Time Filter", plan->one_time, node, ancestors, es);
	hm_explain_clauses("Inner One-Time Filter", plan->inner_one_time, node, ancestors, es);
	hm_explain_clauses("Index Cond", plan->key_clauses, node, ancestors, es);
	hm_explain_clauses(is_join ? "Inner Filter" : "Filter", plan->inner_quals, node, ancestors, es);
	if (is_join)
		hm_explain_clauses("Join Filter", list_difference(plan->quals, plan->key_clauses), node,
						   ancestors, es);
	if (lookup->plan.index_only)
		ExplainPropertyBool("Index Only", true, es);
	if (is_join && plan->in_order)
		ExplainPropertyBool("In Outer Order", true, es);
	if (is_join && plan->distinct)
		ExplainPropertyBool("Distinct Keys", true, es);
	if (lookup->conditions.subplan != NULL)
		ExplainPropertyBool("Keys From Subplan", true, es);
	explain_counters(lookup, es);
}
