/*
 * lookup_node.c
 *		The steps of a lookup scan or a lookup join, and the callbacks of both nodes.
 *
 *		+----> FILL: have the source fill a batch of probes
 *		|        |
 *		|      TARGET: start to look the probes up in the next target <--+
 *		|        |   \                                                   |
 *		|        |    MATCH: the visible tuples that the fetch returns,--+
 *		|        |           with their outer rows, are candidates
 *		|        |
 *		|      ROWS (not inner joins): outer rows, in their order: those with a match
 *		|        |      (semijoin), or without one (left and antijoin)
 *		|        |
 *		+--------+-----> DONE, when there are no more outer rows
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "exec/sink.h"

/*
 * How many hits before its match an outer row is prefetched.  Hits come in the order of
 * keys or of the heap, so their outer rows are scattered over the batch.  A batch with
 * fewer rows fits into the cache.
 */
#define ROW_AHEAD		64
#define AHEAD_MIN_ROWS	1000

/* ----------------------------------------------------------------
 *		Steps
 * ----------------------------------------------------------------
 */

/*
 * A run has come: prefetch the outer rows of hits that are ROW_AHEAD ahead, as many as the
 * run has; or of the run itself, if it is so long that this has not been done.
 */
void
hm_prefetch_rows(LookupNode *lookup)
{
	const HmRun *run = lookup->run;
	const KeptRows *rows = &lookup->batch.rows;
	const LookupProbes *probes = lookup->probes;
	uint32		probe;

	if (rows->count == 0 || lookup->batch.count < AHEAD_MIN_ROWS || run->in_order)
		return;
	for (uint32 i = 0; run->count >= ROW_AHEAD && i < run->count; i++)
		hm_row_prefetch(rows, hm_probe_row(probes, run->probes[i]));
	for (uint32 i = run->count; i > 0 && run->count < ROW_AHEAD; i--)
	{
		if (!hm_fetch_peek(lookup->node.fetch, ROW_AHEAD - i, &probe))
			break;
		hm_row_prefetch(rows, hm_probe_row(probes, probe));
	}

	/* The rows' own lines have been asked for before. */
	for (uint32 i = 0; rows->references && i < run->count; i++)
		hm_row_prefetch_copies(rows, hm_probe_row(probes, run->probes[i]));
}

/* Whether rows of the batch are returned without a tuple of the inner side, after all matches have been found. */
static inline bool
returns_rows(const LookupNode *lookup)
{
	return lookup->keeps_unmatched || lookup->marks;
}

/* Count the rows that are left of the batch and returned without a tuple of the inner side. */
static void
count_rows(LookupNode *lookup)
{
	for (; lookup->row < lookup->batch.count; lookup->row++)
		lookup->counted += is_wanted(lookup, lookup->row);
}

/* Drop the batch, and fill it again.  Returns false if it is empty. */
static bool
fill_batch(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;

	/* If all targets are pruned, no row has a match. */
	if (!lookup->keeps_unmatched && bms_is_empty(hm_pruning_choose(&lookup->pruning)))
		return false;
	hm_rows_reset(&batch->rows);
	batch->count = batch->all.count = 0;
	batch->all.rows = NULL;
	batch->all.same_length = batch->exact = true;
	batch->all.length = 0;
	batch->duplicates = batch->hashed = batch->divided = false;
	lookup->source->fill(lookup);
	batch->exact_columns = batch->exact;
	if (!lookup->is_table)
		hm_clear_candidate(lookup);
	lookup->target = -1;
	return batch->count > 0;
}

void
hm_lookup_go_on(LookupNode *lookup)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (lookup->phase)
		{
			case PHASE_FILL:
				lookup->phase = fill_batch(lookup) ? PHASE_TARGET : PHASE_DONE;
				break;

			case PHASE_TARGET:
				lookup->row = 0;
				if (lookup->search->next_target(lookup))
					lookup->phase = PHASE_MATCH;
				else
					lookup->phase = returns_rows(lookup) ? PHASE_ROWS : PHASE_FILL;
				break;

			case PHASE_MATCH:
				if (lookup->marks)
					hm_mark_matches(lookup);
				else if (lookup->counting && takes_all_matches(lookup))
					lookup->counted += hm_fetch_count(lookup->node.fetch);
				else if (has_run(lookup))
					return;
				lookup->phase = PHASE_TARGET;
				break;

			case PHASE_ROWS:
				if (lookup->counting && lookup->node.css.ss.ps.qual == NULL)
					count_rows(lookup);
				if (lookup->row < lookup->batch.count)
					return;
				lookup->phase = PHASE_FILL;
				break;

			case PHASE_DONE:
				return;
		}
	}
}

void
hm_lookup_restart(LookupNode *lookup, const Bitmapset *changed)
{
	lookup->phase = PHASE_FILL;
	lookup->batch.count = 0;
	lookup->run = NULL;
	hm_rows_reset(&lookup->batch.rows);
	lookup->source->restart(lookup, changed);
}

/* ----------------------------------------------------------------
 *		Callbacks
 * ----------------------------------------------------------------
 */

static void
begin_node(CustomScanState *node, EState *estate, int eflags)
{
	LookupNode *lookup = (LookupNode *) node;

	if (((CustomScan *) node->ss.ps.plan)->custom_plans != NIL)
		hm_child_begin(node, estate, eflags);
	hm_lookup_begin(lookup, (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	lookup->fetch_context = AllocSetContextCreate(CurrentMemoryContext,
												  "harmonia lookup target",
												  ALLOCSET_DEFAULT_SIZES);
	hm_lookup_restart(lookup, NULL);
}

static TupleTableSlot *
exec_node(CustomScanState *node)
{
	return ((LookupNode *) node)->is_table ? hm_table_exec(node) : hm_rows_exec(node);
}

static void
end_node(CustomScanState *node)
{
	LookupNode *lookup = (LookupNode *) node;

	hm_search_end_fetch(lookup);
	if (lookup->distinct.sort != NULL)
		hm_distinct_reset(&lookup->distinct);
	for (int i = 0; i < lookup->target_count; i++)
	{
		if (lookup->targets[i].table == NULL)
			continue;
		index_close(lookup->targets[i].index, NoLock);
		table_close(lookup->targets[i].table, NoLock);
	}
	if (hm_has_outer(lookup))
		hm_child_end(node);
}

static void
rescan_node(CustomScanState *node)
{
	LookupNode *lookup = (LookupNode *) node;

	if (hm_has_outer(lookup))
		hm_child_rescan(node);
	if (lookup->node.fetch != NULL)
		hm_fetch_stop(lookup->node.fetch);
	hm_pruning_rescan(&lookup->pruning, node->ss.ps.chgParam);
	hm_lookup_restart(lookup, node->ss.ps.chgParam);
	if (lookup->is_table)
		ExecScanReScan(&node->ss);
}

#define LOOKUP_METHODS(name) \
{ \
	.CustomName = (name), \
	.BeginCustomScan = begin_node, \
	.ExecCustomScan = exec_node, \
	.EndCustomScan = end_node, \
	.ReScanCustomScan = rescan_node, \
	.EstimateDSMCustomScan = hm_node_estimate_dsm, \
	.InitializeDSMCustomScan = hm_node_initialize_dsm, \
	.ReInitializeDSMCustomScan = hm_node_reinitialize_dsm, \
	.InitializeWorkerCustomScan = hm_node_initialize_worker, \
	.ShutdownCustomScan = hm_node_shutdown, \
	.ExplainCustomScan = hm_lookup_explain, \
}

static const CustomExecMethods scan_exec_methods = LOOKUP_METHODS("HarmoniaLookupScan");
static const CustomExecMethods join_exec_methods = LOOKUP_METHODS("HarmoniaLookupJoin");

static Node *
create_state(CustomScan *plan)
{
	LookupNode *lookup = palloc0(sizeof(LookupNode));

	NodeSetTag(lookup, T_CustomScanState);
	lookup->node.css.methods = plan->methods == &hm_lookup_join_methods ? &join_exec_methods :
		&scan_exec_methods;
	return (Node *) lookup;
}

const CustomScanMethods hm_lookup_scan_methods = {
	.CustomName = "HarmoniaLookupScan",
	.CreateCustomScanState = create_state,
};

const CustomScanMethods hm_lookup_join_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.CreateCustomScanState = create_state,
};
