/*
 * explain.c
 *		What EXPLAIN shows for the custom scan nodes.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "compat.h"
#include "exec/nodes.h"

/* A table's name, with its schema for EXPLAIN (VERBOSE). */
static const char *
table_name(Oid table, ExplainState *es)
{
	return es->verbose ? quote_qualified_identifier(get_namespace_name(get_rel_namespace(table)),
													get_rel_name(table)) :
						 quote_identifier(get_rel_name(table));
}

/* In formats other than text, the properties are those of PostgreSQL's own scans. */
void
hm_explain_table(const char *label, Index rti, ExplainState *es)
{
	Oid table = rt_fetch(rti, es->rtable)->relid;
	const char *name = get_rel_name(table);
	const char *alias = list_nth(es->rtable_names, (int) rti - 1);

	/* A UNION ALL has no table; 16 and later know that of a view. */
	if (rt_fetch(rti, es->rtable)->rtekind == RTE_SUBQUERY)
	{
		ExplainPropertyText(es->format == EXPLAIN_FORMAT_TEXT ? label : "Alias",
							quote_identifier(alias), es);
		return;
	}
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Relation Name", name, es);
		if (es->verbose)
			ExplainPropertyText("Schema", get_namespace_name(get_rel_namespace(table)), es);
		ExplainPropertyText("Alias", alias, es);
		return;
	}
	ExplainPropertyText(label,
						strcmp(name, alias) == 0 ?
							table_name(table, es) :
							psprintf("%s %s", table_name(table, es), quote_identifier(alias)),
						es);
}

static bool
is_btree(Oid index)
{
	Relation relation = RelationIdGetRelation(index);
	bool result = relation != NULL && hm_is_btree(relation);

	if (relation != NULL)
		RelationClose(relation);
	return result;
}

void
hm_explain_index(Oid index, ExplainState *es)
{
	ExplainPropertyText("Index Name", get_rel_name(index), es);
	if (is_btree(index))
		ExplainPropertyText("Index Method", "btree", es);
}

void
hm_explain_indexes(List *indexes, List *tables, const Bitmapset *unused, ExplainState *es)
{
	List *names = NIL;
	ListCell *index, *table;

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		forboth(index, indexes, table, tables) names =
			lappend(names, psprintf("%s on %s%s", quote_identifier(get_rel_name(lfirst_oid(index))),
									table_name(lfirst_oid(table), es),
									bms_is_member(foreach_current_index(index), unused) ?
										" (never executed)" :
										""));
		ExplainPropertyList("Indexes", names, es);
		return;
	}
	ExplainOpenGroup("Indexes", "Indexes", false, es);
	forboth(index, indexes, table, tables)
	{
		ExplainOpenGroup("Index", NULL, true, es);
		hm_explain_index(lfirst_oid(index), es);
		ExplainPropertyText("Relation Name", get_rel_name(lfirst_oid(table)), es);
		if (bms_is_member(foreach_current_index(index), unused))
			ExplainPropertyBool("Never Executed", true, es);
		ExplainCloseGroup("Index", NULL, true, es);
	}
	ExplainCloseGroup("Indexes", "Indexes", false, es);
}

/* An expression as text, with the names of tables if there are several. */
static char *
expression_text(Node *expr, CustomScanState *node, List *ancestors, bool show_casts,
				ExplainState *es)
{
	List *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	bool prefix = hm_explained_tables(es) > 1 || es->verbose;

	return deparse_expression(expr, context, prefix, show_casts);
}

void
hm_explain_clauses(const char *label, List *clauses, CustomScanState *node, List *ancestors,
				   ExplainState *es)
{
	if (clauses != NIL)
		ExplainPropertyText(
			label,
			expression_text((Node *) make_ands_explicit(clauses), node, ancestors, false, es), es);
}

void
hm_explain_list(const char *label, List *exprs, CustomScanState *node, List *ancestors,
				ExplainState *es)
{
	List *texts = NIL;
	ListCell *cell;

	foreach (cell, exprs)
		texts = lappend(texts, expression_text(lfirst(cell), node, ancestors, true, es));
	if (texts != NIL)
		ExplainPropertyList(label, texts, es);
}

void
hm_explain_filtered(const char *label, CustomScanState *node, ExplainState *es)
{
	HmNodeInstrumentation *instrument = node->ss.ps.instrument;

	if (instrument == NULL || (instrument->nfiltered2 <= 0 && es->format == EXPLAIN_FORMAT_TEXT))
		return;
	ExplainPropertyFloat(label, NULL,
						 instrument->nloops > 0 ? instrument->nfiltered2 / instrument->nloops : 0.0,
						 0, es);
}

void
hm_explain_removed(HmNode *node, ExplainState *es)
{
	HmNodeInstrumentation *instrument = node->css.ss.ps.instrument;
	HmFetchStats sum;

	hm_node_stats(node, &sum);
	hm_fetch_stats_add(&sum, &node->workers);
	if (instrument == NULL || (sum.removed == 0 && es->format == EXPLAIN_FORMAT_TEXT))
		return;
	ExplainPropertyFloat("Rows Removed by Index Recheck", NULL,
						 instrument->nloops > 0 ? (double) sum.removed / instrument->nloops : 0.0,
						 0, es);
}

/*
 * Show what searched.  If the server has a device, also show why batches were left to the
 * CPU, and what went to the device and came back.
 */
static void
explain_device(const HmLookupStats *stats, ExplainState *es)
{
	const HmBatchCounts *counts = &stats->counts;
	const char *device = hm_lookup_device();
	const char *reason = hm_lookup_reason(stats);

	if (device == NULL || counts->device_batches == 0)
		ExplainPropertyText("Device", "CPU", es);
	else if (counts->device_batches == counts->batches)
		ExplainPropertyText("Device", device, es);
	else
		ExplainPropertyText("Device", psprintf("%s, CPU", device), es);
	if (device == NULL)
		return;

	if (reason != NULL)
		ExplainPropertyText("CPU Reason", reason, es);
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Device Batches", NULL, counts->device_batches, es);
		ExplainPropertyUInteger("Device Keys", NULL, counts->device_keys, es);
		ExplainPropertyUInteger("Device Fallbacks", NULL, counts->fallbacks, es);
		ExplainPropertyUInteger("Re-synced Blocks", NULL, counts->synced_blocks, es);
		ExplainPropertyUInteger("Re-synced Lines", NULL, stats->synced_lines, es);
		ExplainPropertyUInteger("Bytes to Device", NULL, counts->bytes_to_device, es);
		ExplainPropertyUInteger("Bytes from Device", NULL, counts->bytes_from_device, es);
	}
	else if (counts->device_batches > 0 || counts->fallbacks > 0)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(
			es->str,
			"Device Batches: " UINT64_FORMAT "  Keys: " UINT64_FORMAT "  Fallbacks: " UINT64_FORMAT
			"  Re-synced Blocks: " UINT64_FORMAT "  Lines: " UINT64_FORMAT "  Bytes: " UINT64_FORMAT
			" + " UINT64_FORMAT "\n",
			counts->device_batches, counts->device_keys, counts->fallbacks, counts->synced_blocks,
			stats->synced_lines, counts->bytes_to_device, counts->bytes_from_device);
	}
}

/*
 * Whether parallel workers ran a node that is not parallel-aware.  PostgreSQL gives
 * shared memory only to parallel-aware custom scans, so these workers cannot hand over
 * their counters (parallel.c).
 */
static bool
ran_in_silent_workers(const PlanState *node)
{
	const HmWorkerInstrumentation *workers = node->worker_instrument;

	if (node->plan->parallel_aware || workers == NULL)
		return false;
	for (int i = 0; i < workers->num_workers; i++)
	{
		if (workers->instrument[i].nloops > 0)
			return true;
	}
	return false;
}

void
hm_explain_stats(HmNode *node, ExplainState *es)
{
	HmFetchStats sum;
	const HmLookupStats *stats = &sum.lookup;
	const HmBatchCounts *counts = &stats->counts;

	/*
	 * The leader's counters alone, which are often 0, would be taken for the counters of
	 * all processes.
	 */
	if (ran_in_silent_workers(&node->css.ss.ps))
	{
		ExplainPropertyText("Lookups", "not counted in parallel workers", es);
		return;
	}
	hm_node_stats(node, &sum);
	hm_fetch_stats_add(&sum, &node->workers);
	explain_device(stats, es);
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Batches", NULL, counts->batches, es);
		ExplainPropertyUInteger("Keys", NULL, counts->keys, es);
		ExplainPropertyUInteger("Hits", NULL, counts->hits, es);
		ExplainPropertyUInteger("Leaf Pages", NULL, stats->leaves, es);
		ExplainPropertyUInteger("Heap Fetches", NULL, sum.heap_fetches, es);
		ExplainPropertyUInteger("Heap Blocks", NULL, sum.heap_blocks, es);
		if (es->timing)
		{
			ExplainPropertyFloat("Sort Time", "ms", stats->sort_ns / 1e6, 3, es);
			ExplainPropertyFloat("Search Time", "ms", stats->search_ns / 1e6, 3, es);
		}
		return;
	}

	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str,
					 "Batches: " UINT64_FORMAT "  Keys: " UINT64_FORMAT "  Hits: " UINT64_FORMAT
					 "  Leaf Pages: " UINT64_FORMAT "  Heap Fetches: " UINT64_FORMAT
					 "  Heap Blocks: " UINT64_FORMAT "\n",
					 counts->batches, counts->keys, counts->hits, stats->leaves, sum.heap_fetches,
					 sum.heap_blocks);
	if (es->timing)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Sort Time: %.3f ms  Search Time: %.3f ms\n",
						 stats->sort_ns / 1e6, stats->search_ns / 1e6);
	}
}
