/*
 * lookup_scan.c
 *		Executing a lookup scan.
 *
 * The conditions on the key become sorted, disjoint ranges, as in a plain index scan.
 * They are looked up in batches as large as memory allows.  Where the first rows are
 * wanted soon, batches start small and grow, because the rest of a batch is wasted if the
 * scan is not read to its end.
 *
 * If the only condition is a single array, its elements are looked up unsorted, because
 * the engine sorts the probes of each batch anyway (key_groups.c).  If a sub-select makes
 * the array, the elements may be read from it (subplan_keys.c).
 *
 * The processes of a parallel scan divide the keys (slices.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "exec/nodes.h"

/*
 * Ranges of the first batch, and how many times larger each next one is, if the first
 * rows are wanted soon; and the least that a batch's maximum is, however small work_mem
 * is.
 */
#define FIRST_BATCH		8
#define BATCH_GROWTH	8
#define MIN_LAST_LIMIT	1000

/*
 * An arm: conditions that are combined by AND.  A row is wanted if it satisfies any of
 * the arms.
 */
typedef struct ScanArm
{
	int			count;
	ScanKeyData *keys;
	ExprState **arguments;
} ScanArm;

typedef struct LookupScan
{
	HmNode		node;
	Relation	index;
	bool		index_only;
	bool		first_rows;		/* the first rows are wanted soon */
	AttrNumber	key_attribute;	/* the table's column, if index_only */
	int			arm_count;
	ScanArm    *arms;
	ExprState  *clauses;		/* the conditions of all arms */
	HmSubplanKeys *subplan;		/* a sub-select that has the keys, or NULL */
	HmSlices   *slices;			/* NULL if not parallel */

	/* The ranges, in their own memory */
	MemoryContext context;
	bool		started;
	bool		from_subplan;	/* the ranges were read from "subplan" */
	bool		divided;		/* other processes look up some of the ranges */
	bool		recheck;		/* ranges may have keys that do not satisfy the
								 * conditions */
	bool		points;			/* no range has more than one key */
	uint32		count;
	uint64	   *low;
	uint64	   *high;			/* NULL: "low" has keys in any order, with
								 * duplicates */
	HmKeyGroups groups;			/* of such keys */
	uint32		next;			/* first range that is not looked up yet; of
								 * such keys, first one that is not claimed */
	uint32		end;			/* of the ranges that are claimed */
	uint32		limit;			/* maximum number of ranges in the next
								 * batch */
	uint32		max_limit;

	const HmRun *run;			/* the matches that are being returned, or
								 * NULL */
	uint32		match;			/* the next one of these */
} LookupScan;

static Node *create_state(CustomScan *plan);

const CustomScanMethods hm_lookup_scan_methods = {
	.CustomName = "HarmoniaLookupScan",
	.CreateCustomScanState = create_state,
};

/* ----------------------------------------------------------------
 *		Ranges
 * ----------------------------------------------------------------
 */

/* Evaluate the arms' arguments, in the current memory context. */
static void
evaluate_arguments(LookupScan *scan)
{
	ExprContext *econtext = scan->node.css.ss.ps.ps_ExprContext;

	for (int i = 0; i < scan->arm_count; i++)
	{
		ScanArm    *arm = &scan->arms[i];

		for (int j = 0; j < arm->count; j++)
		{
			bool		is_null;

			arm->keys[j].sk_argument = ExecEvalExpr(arm->arguments[j], econtext, &is_null);
			if (is_null)
				arm->keys[j].sk_flags |= SK_ISNULL;
			else
				arm->keys[j].sk_flags &= ~SK_ISNULL;
		}
	}
}

static int
range_cmp(const void *a, const void *b)
{
	uint64		left = ((const HmRange *) a)->low;
	uint64		right = ((const HmRange *) b)->low;

	return left < right ? -1 : left > right ? 1 : 0;
}

/*
 * Make the union of all arms' ranges: sorted, with ranges merged that overlap or touch.
 */
static void
union_ranges(LookupScan *scan, HmRanges *result)
{
	int			kept = 0;

	*result = (HmRanges) {0};
	for (int i = 0; i < scan->arm_count; i++)
	{
		HmRanges	ranges;

		hm_ranges_from_keys(scan->index, scan->arms[i].keys, scan->arms[i].count, &ranges);
		result->recheck |= ranges.recheck;
		if (ranges.count == 0)
			continue;
		if (result->count == 0)
		{
			result->ranges = ranges.ranges;
			result->count = ranges.count;
			continue;
		}
		result->ranges = repalloc_huge(result->ranges,
									   ((Size) result->count + ranges.count) * sizeof(HmRange));
		memcpy(result->ranges + result->count, ranges.ranges, ranges.count * sizeof(HmRange));
		result->count += ranges.count;
	}
	if (scan->arm_count == 1 || result->count == 0)
		return;

	qsort(result->ranges, result->count, sizeof(HmRange), range_cmp);
	for (int i = 1; i < result->count; i++)
	{
		HmRange    *last = &result->ranges[kept];
		HmRange    *next = &result->ranges[i];

		if (next->low <= last->high || next->low == last->high + 1)
			last->high = Max(last->high, next->high);
		else
			result->ranges[++kept] = *next;
	}
	result->count = kept + 1;
}

/*
 * If a single array is the only condition, take its keys as they are: the engine sorts
 * them faster than hm_ranges_from_keys() does.  Returns false if there are other
 * conditions.
 */
static bool
make_points(LookupScan *scan)
{
	scan->from_subplan = scan->subplan != NULL &&
		hm_subplan_keys_read(scan->subplan, hm_key_type(scan->index), &scan->low, &scan->count);
	if (!scan->from_subplan)
	{
		evaluate_arguments(scan);
		if (scan->arm_count > 1 || scan->arms[0].count > 1 ||
			!hm_points_from_key(scan->index, &scan->arms[0].keys[0], &scan->low, &scan->count))
			return false;
	}
	scan->high = NULL;
	scan->points = true;
	scan->recheck = false;
	return true;
}

/* Turn all arms, whose arguments have been evaluated, into sorted, disjoint ranges. */
static void
make_ranges(LookupScan *scan)
{
	HmRanges	ranges;

	union_ranges(scan, &ranges);
	scan->count = (uint32) ranges.count;
	scan->low = palloc_extended(Max(1, ranges.count) * sizeof(uint64), MCXT_ALLOC_HUGE);
	scan->high = palloc_extended(Max(1, ranges.count) * sizeof(uint64), MCXT_ALLOC_HUGE);
	scan->points = true;
	for (int i = 0; i < ranges.count; i++)
	{
		/* The operators are strict, so there is no range in the NULL part. */
		Assert(ranges.ranges[i].part == HM_PART_KEYS);
		scan->low[i] = ranges.ranges[i].low;
		scan->high[i] = ranges.ranges[i].high;
		scan->points &= scan->low[i] == scan->high[i];
	}
	scan->recheck = ranges.recheck;
	if (ranges.ranges != NULL)
		pfree(ranges.ranges);
}

/*
 * The maximum number of ranges in a batch.  The batch gets the memory that the fetch
 * leaves, less what all ranges take, but at least half of it: many ranges
 * must not lead to small batches.
 */
static uint32
largest_batch(const LookupScan *scan)
{
	Size		leaves = hm_fetch_leaves_memory(scan->index_only);
	Size		ranges = scan->count * (scan->high == NULL ? 1 : 2) * sizeof(uint64);
	Size		memory = Max(leaves - Min(leaves, ranges), leaves / 2);

	return (uint32) Min((Size) hm_batch_size,
						Max(MIN_LAST_LIMIT, memory / hm_lookup_probe_memory()));
}

/*
 * See that all processes divide the ranges in the same way, and cut this process's copy
 * of them accordingly.
 */
static void
divide(LookupScan *scan)
{
	const uint64 *bounds = hm_slices_bounds(scan->slices);

	if (bounds == NULL)
	{
		uint64		offer[HM_SLICES];

		if (scan->high == NULL)
			hm_slices_of_keys(scan->low, scan->count, offer);
		else
			hm_slices_of_ranges(scan->index, scan->low, scan->high, scan->count, offer);
		bounds = hm_slices_offer(scan->slices, offer);
	}
	if (scan->high != NULL)
		scan->count = hm_slices_cut(bounds, &scan->low, &scan->high, scan->count);
}

/*
 * Claim ranges that no other process looks up.  Returns false if all are claimed.  Those
 * that other processes have claimed since the last time are passed over.
 */
static bool
claim(LookupScan *scan)
{
	uint64		low,
				high;

	/* If there are no slices, the leader has released the shared memory. */
	if (!scan->divided || scan->slices == NULL ||
		!hm_slices_claim(scan->slices, &low, &high))
		return false;

	if (scan->high == NULL)
	{
		uint64	   *keys = scan->low + scan->next;
		uint32		end = hm_move_to_front(keys, scan->count - scan->next, high);
		uint32		begin = low == 0 ? 0 : hm_move_to_front(keys, end, low - 1);
		MemoryContext old_context = MemoryContextSwitchTo(scan->context);

		hm_groups_begin(&scan->groups, keys + begin, end - begin);
		MemoryContextSwitchTo(old_context);
		scan->next += end;
		return true;
	}
	while (scan->next < scan->count && scan->high[scan->next] < low)
		scan->next++;
	scan->end = scan->next;
	while (scan->end < scan->count && scan->low[scan->end] <= high)
		scan->end++;
	return true;
}

/* Compute the ranges from the arguments' present values, and begin with the first one. */
static void
start(LookupScan *scan)
{
	MemoryContext old_context = MemoryContextSwitchTo(scan->context);

	if (!scan->from_subplan)
	{
		MemoryContextReset(scan->context);
		if (!make_points(scan))
			make_ranges(scan);
	}
	scan->divided = scan->slices != NULL && scan->count > 0;
	if (scan->divided)
		divide(scan);
	scan->next = 0;
	scan->end = scan->divided ? 0 : scan->count;
	if (scan->high == NULL)
		hm_groups_begin(&scan->groups, scan->low, scan->end);
	MemoryContextSwitchTo(old_context);
	scan->max_limit = largest_batch(scan);
	scan->limit = scan->first_rows ? Min(FIRST_BATCH, scan->max_limit) : scan->max_limit;
	scan->started = true;
}

/* Start to look up the next batch of ranges.  Returns false if there are none left. */
static bool
start_batch(LookupScan *scan)
{
	HmProbes	probes = {0};
	uint64	   *keys = NULL;

	do
	{
		if (scan->high == NULL)
		{
			probes.count = hm_groups_next(&scan->groups, scan->limit, &keys);
			probes.low = keys;
			probes.distinct = true;
		}
		else
		{
			probes.count = Min(scan->limit, scan->end - scan->next);
			probes.low = scan->low + scan->next;
			probes.high = scan->points ? NULL : scan->high + scan->next;
			scan->next += probes.count;
		}
	} while (probes.count == 0 && claim(scan));
	if (probes.count == 0)
		return false;
	scan->limit = (uint32) Min((uint64) scan->limit * BATCH_GROWTH, scan->max_limit);
	hm_fetch_start(scan->node.fetch, &probes, NULL);
	return true;
}

/* ----------------------------------------------------------------
 *		Tuples
 * ----------------------------------------------------------------
 */

/* Make a tuple that has only the index's column, and the TID for WHERE CURRENT OF. */
static TupleTableSlot *
store_key(LookupScan *scan, uint32 match)
{
	TupleTableSlot *slot = scan->node.css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	slot->tts_values[scan->key_attribute - 1] = hm_fetch_key(scan->node.fetch, match);
	slot->tts_isnull[scan->key_attribute - 1] = false;
	slot->tts_tableOid = RelationGetRelid(scan->node.css.ss.ss_currentRelation);
	hm_fetch_tid(scan->node.fetch, match, &slot->tts_tid);
	return ExecStoreVirtualTuple(slot);
}

static bool
satisfies_clauses(LookupScan *scan, TupleTableSlot *slot)
{
	ExprContext *econtext = scan->node.css.ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQual(scan->clauses, econtext);
}

static TupleTableSlot *
next_tuple(ScanState *state)
{
	LookupScan *scan = (LookupScan *) state;

	if (!scan->started)
		start(scan);
	for (;;)
	{
		TupleTableSlot *slot;

		if (scan->run == NULL || scan->match == scan->run->count)
		{
			scan->run = hm_fetch_run(scan->node.fetch);
			scan->match = 0;
			if (scan->run == NULL && !start_batch(scan))
				return NULL;
			continue;
		}
		slot = scan->index_only ? store_key(scan, scan->match) :
			hm_fetch_store(scan->node.fetch, scan->match);
		scan->match++;
		if (!scan->recheck || satisfies_clauses(scan, slot))
			return slot;
		InstrCountFiltered2(scan, 1);
		ResetExprContext(scan->node.css.ss.ps.ps_ExprContext);
	}
}

uint64
hm_lookup_scan_count(CustomScanState *node)
{
	LookupScan *scan = (LookupScan *) node;
	uint64		count = 0;

	Assert(node->ss.ps.qual == NULL);
	if (!scan->started)
		start(scan);
	if (scan->recheck)
	{
		while (next_tuple(&node->ss) != NULL)
		{
			count++;
			ResetExprContext(node->ss.ps.ps_ExprContext);
		}
		return count;
	}
	do
		count += hm_fetch_count(scan->node.fetch);
	while (start_batch(scan));
	return count;
}

/* Whether a row from EvalPlanQual satisfies the scan's conditions. */
static bool
recheck_tuple(ScanState *state, TupleTableSlot *slot)
{
	LookupScan *scan = (LookupScan *) state;

	ResetExprContext(scan->node.css.ss.ps.ps_ExprContext);
	return satisfies_clauses(scan, slot);
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	return ExecScan(&node->ss, next_tuple, recheck_tuple);
}

/* ----------------------------------------------------------------
 *		Beginning and end
 * ----------------------------------------------------------------
 */
/* Turn the plan's description of the arms into scan keys. */
static void
begin_arms(LookupScan *scan, List *descriptions, List *arguments)
{
	ListCell   *cell;
	int			argument = 0;

	scan->arm_count = list_length(descriptions);
	scan->arms = palloc(scan->arm_count * sizeof(ScanArm));
	foreach(cell, descriptions)
	{
		List	   *description = lfirst(cell);
		ScanArm    *arm = &scan->arms[foreach_current_index(cell)];

		arm->count = list_length(description) / 3;
		arm->keys = palloc0(arm->count * sizeof(ScanKeyData));
		arm->arguments = palloc(arm->count * sizeof(ExprState *));
		for (int i = 0; i < arm->count; i++)
		{
			arm->keys[i].sk_attno = 1;
			arm->keys[i].sk_strategy = (StrategyNumber) list_nth_int(description, 3 * i);
			arm->keys[i].sk_subtype = (Oid) list_nth_int(description, 3 * i + 1);
			arm->keys[i].sk_flags = list_nth_int(description, 3 * i + 2) ? SK_SEARCHARRAY : 0;
			arm->arguments[i] = ExecInitExpr(list_nth(arguments, argument++),
											 &scan->node.css.ss.ps);
		}
	}
}

static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	LookupScan *scan = (LookupScan *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	Relation	heap = node->ss.ss_currentRelation;
	List	   *private = plan->custom_private;
	Oid			index_oid = linitial_oid(list_nth(private, HM_SCAN_INDEX));

	scan->index_only = linitial_int(list_nth(private, HM_SCAN_FLAGS)) != 0;
	scan->first_rows = lsecond_int(list_nth(private, HM_SCAN_FLAGS)) != 0;
	scan->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup scan",
										  ALLOCSET_DEFAULT_SIZES);

	/*
	 * PostgreSQL has made a slot for virtual tuples.  A slot of the table's own kind
	 * deforms only the columns that are read.
	 */
	if (!scan->index_only)
	{
		ExecInitScanTupleSlot(estate, &node->ss, RelationGetDescr(heap),
							  table_slot_callbacks(heap));
		ExecAssignScanProjectionInfo(&node->ss);
		node->ss.ps.qual = ExecInitQual(plan->scan.plan.qual, &node->ss.ps);
	}
	scan->clauses = ExecInitQual(list_nth(plan->custom_exprs, HM_SCAN_CLAUSES), &node->ss.ps);
	begin_arms(scan, list_nth(private, HM_SCAN_ARMS),
			   list_nth(plan->custom_exprs, HM_SCAN_ARGUMENTS));
	scan->subplan = hm_subplan_keys_begin(&node->ss.ps, list_nth(private, HM_SCAN_SUBPLAN),
										  linitial(list_nth(plan->custom_exprs, HM_SCAN_ARGUMENTS)),
										  scan->arms[0].keys[0].sk_subtype);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	scan->index = index_open(index_oid, exec_rt_fetch(plan->scan.scanrelid, estate)->rellockmode);
	if (scan->index_only)
		scan->key_attribute = scan->index->rd_index->indkey.values[0];

	/* WHERE CURRENT OF looks for the tuple in the scan's own slot. */
	scan->node.fetch = hm_fetch_create(heap, scan->index, estate, scan->index_only,
									   scan->first_rows,
									   scan->index_only ? NULL : node->ss.ss_ScanTupleSlot);
}

static void
end_scan(CustomScanState *node)
{
	LookupScan *scan = (LookupScan *) node;

	if (scan->node.fetch != NULL)
		hm_fetch_end(scan->node.fetch);
	if (scan->index != NULL)
		index_close(scan->index, NoLock);
	scan->node.fetch = NULL;
	scan->index = NULL;
}

static void
rescan(CustomScanState *node)
{
	LookupScan *scan = (LookupScan *) node;

	hm_fetch_stop(scan->node.fetch);
	scan->run = NULL;
	scan->started = false;
	if (scan->from_subplan && hm_subplan_keys_changed(scan->subplan, node->ss.ps.chgParam))
		scan->from_subplan = false;
	ExecScanReScan(&node->ss);
}

/* The slices come after the workers' counters. */
static Size
estimate_dsm(CustomScanState *node, ParallelContext *context)
{
	return MAXALIGN(hm_node_estimate_dsm(node, context)) + hm_slices_size(context->nworkers + 1);
}

static void
initialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	LookupScan *scan = (LookupScan *) node;

	hm_node_initialize_dsm(node, context, coordinate);
	scan->slices = hm_node_after_stats(&scan->node);
	hm_slices_init(scan->slices, context->nworkers + parallel_leader_participation);
}

static void
reinitialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	LookupScan *scan = (LookupScan *) node;

	hm_node_reinitialize_dsm(node, context, coordinate);
	scan->slices = hm_node_after_stats(&scan->node);
	hm_slices_reset(scan->slices);
}

static void
initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	LookupScan *scan = (LookupScan *) node;

	hm_node_initialize_worker(node, toc, coordinate);
	scan->slices = hm_node_after_stats(&scan->node);
}

static void
shut_down(CustomScanState *node)
{
	hm_node_shutdown(node);
	((LookupScan *) node)->slices = NULL;
}

static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	LookupScan *scan = (LookupScan *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	hm_explain_index(linitial_oid(list_nth(plan->custom_private, HM_SCAN_INDEX)), es);
	hm_explain_clauses("Index Cond", list_nth(plan->custom_exprs, HM_SCAN_CLAUSES),
					   node, ancestors, es);
	if (scan->index_only)
		ExplainPropertyBool("Index Only", true, es);
	if (scan->subplan != NULL)
		ExplainPropertyBool("Keys From Subplan", true, es);
	if (es->analyze && scan->node.fetch != NULL)
	{
		hm_explain_filtered("Rows Removed by Index Recheck", node, es);
		hm_explain_stats(&scan->node, es);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = "HarmoniaLookupScan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = estimate_dsm,
	.InitializeDSMCustomScan = initialize_dsm,
	.ReInitializeDSMCustomScan = reinitialize_dsm,
	.InitializeWorkerCustomScan = initialize_worker,
	.ShutdownCustomScan = shut_down,
	.ExplainCustomScan = explain,
};

static Node *
create_state(CustomScan *plan)
{
	LookupScan *scan = palloc0(sizeof(LookupScan));

	NodeSetTag(scan, T_CustomScanState);
	scan->node.css.methods = &exec_methods;
	return (Node *) scan;
}
