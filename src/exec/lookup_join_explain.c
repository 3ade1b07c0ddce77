/*
 * lookup_join_explain.c
 *		What EXPLAIN shows of a lookup join, and of a lookup scan of a partitioned table.
 */
#include "postgres.h"

#include "parser/parsetree.h"

#include "compat.h"
#include "exec/lookup_join.h"

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
 * Show the inner table, under a label, as the query names it, and the indexes of its targets.  Targets
 * that were pruned when the node began are only counted, as "Subplans Removed", as an
 * Append does.
 */
static void
explain_targets(const char *label, LookupJoin *join, ExplainState *es)
{
	Index		inner = hm_join_inner_relid(join);
	List	   *indexes = NIL;
	List	   *tables = NIL;
	Bitmapset  *unused = NULL;

	hm_explain_table(label, inner, es);
	for (int i = 0; i < join->target_count; i++)
	{
		indexes = lappend_oid(indexes, join->targets[i].index_oid);
		tables = lappend_oid(tables, join->targets[i].table_oid);

		/* Parallel workers do not tell which targets they used. */
		if (es->analyze && join->targets[i].table == NULL &&
			join->node.css.ss.ps.worker_instrument == NULL)
			unused = bms_add_member(unused, i);
	}
	if (list_member_oid(tables, rt_fetch(inner, es->rtable)->relid) && !join->several_targets)
		hm_explain_index(linitial_oid(indexes), es);
	else if (tables != NIL || es->format != EXPLAIN_FORMAT_TEXT)
		hm_explain_indexes(indexes, tables, unused, es);
	if (join->pruned > 0 || (join->several_targets && es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyInteger("Subplans Removed", NULL, join->pruned, es);
}

/* Show what EXPLAIN ANALYZE has counted; the rows that conditions have rejected under a label. */
static void
explain_counters(const char *label, LookupJoin *join, ExplainState *es)
{
	if (!es->analyze)
		return;
	if (join->value_column >= 0)
		hm_explain_removed(&join->node, es);
	hm_explain_filtered(label, &join->node.css, es);
	hm_explain_stats(&join->node, es);
}

void
hm_join_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupJoin *join = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *keys = list_nth(plan->custom_exprs, HM_JOIN_KEY_CLAUSES);
	List	   *quals = list_nth(plan->custom_exprs, HM_JOIN_QUALS);

	hm_explain_join_type(join->type, es);
	explain_targets("Inner Table", join, es);
	hm_explain_clauses("Index Cond", keys, node, ancestors, es);
	hm_explain_clauses("Inner Filter", list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS),
					   node, ancestors, es);
	hm_explain_clauses("Join Filter", list_difference(quals, keys), node, ancestors, es);
	if (join->index_only)
		ExplainPropertyBool("Index Only", true, es);
	if (join->drops_duplicates)
		ExplainPropertyBool("Distinct Keys", true, es);
	explain_counters("Rows Removed by Join Filter", join, es);
}

void
hm_array_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupJoin *join = (LookupJoin *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	explain_targets("Table", join, es);
	hm_explain_clauses("Index Cond", list_nth(plan->custom_exprs, HM_JOIN_ARRAY_CLAUSE),
					   node, ancestors, es);
	hm_explain_clauses("Filter", list_nth(plan->custom_exprs, HM_JOIN_INNER_QUALS),
					   node, ancestors, es);
	if (join->index_only)
		ExplainPropertyBool("Index Only", true, es);
	if (join->array.subplan != NULL)
		ExplainPropertyBool("Keys From Subplan", true, es);
	explain_counters("Rows Removed by Filter", join, es);
}
