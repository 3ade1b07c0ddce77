/*
 * source_conditions.c
 *		A source of probes: conditions on the key, by arrays, ranges and ORs.
 *
 * They become sorted, disjoint ranges, as in a plain index scan, which are looked up in batches
 * as large as memory allows.  Where the first rows are wanted soon, batches start small and grow,
 * because the rest of a batch is wasted if the scan is not read to its end.
 *
 * If the only condition is a single array, its elements are looked up unsorted, because
 * the engine sorts the probes of each batch anyway (key_groups.c).  If a sub-select makes
 * the array, the elements may be read from it (subplan_keys.c).  If keys are not exact, they are
 * sorted, each of them once, and the fetch compares rows with the values that have the key.
 *
 * If there are several targets, there is such an array of keys: other conditions are rows
 * (source_elements.c).
 *
 * The processes of a parallel scan divide the keys (slices.c).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "exec/lookup_node.h"

#define ST_SORT sort_ranges
#define ST_ELEMENT_TYPE HmRange
#define ST_COMPARE(a, b) ((a)->low < (b)->low ? -1 : (a)->low > (b)->low ? 1 : 0)
#define ST_SCOPE static
#define ST_DEFINE
#define ST_CHECK_FOR_INTERRUPTS
#include "lib/sort_template.h"

/*
 * Ranges of the first batch, and how many times larger each next one is, if the first
 * rows are wanted soon; and the least that a batch's maximum is, however small work_mem
 * is.
 */
#define FIRST_BATCH 8
#define BATCH_GROWTH 8
#define MIN_LAST_LIMIT 1000

/* Evaluate the arms' arguments, in the current memory context. */
static void
evaluate_arguments(ScanConditions *scan)
{
	ExprContext *econtext = scan->node->ps_ExprContext;

	for (int i = 0; i < scan->arm_count; i++)
	{
		ScanArm *arm = &scan->arms[i];

		for (int j = 0; j < arm->count; j++)
		{
			bool is_null;

			arm->keys[j].sk_argument = ExecEvalExpr(arm->arguments[j], econtext, &is_null);
			if (is_null)
				arm->keys[j].sk_flags |= SK_ISNULL;
			else
				arm->keys[j].sk_flags &= ~SK_ISNULL;
		}
	}
}

/*
 * Make the union of all arms' ranges: sorted, with ranges merged that overlap or touch.  A single
 * arm keeps its filters.
 */
static void
union_ranges(ScanConditions *scan, HmRanges *result)
{
	int kept = 0;

	*result = (HmRanges){0};
	if (scan->arm_count == 1)
	{
		hm_ranges_from_keys(scan->index, scan->arms[0].keys, scan->arms[0].count, result);
		return;
	}
	for (int i = 0; i < scan->arm_count; i++)
	{
		HmRanges ranges;

		hm_ranges_from_keys(scan->index, scan->arms[i].keys, scan->arms[i].count, &ranges);
		result->recheck |= ranges.recheck || ranges.filter_count > 0;
		if (ranges.count == 0)
			continue;
		if (result->count == 0)
		{
			result->ranges = ranges.ranges;
			result->count = ranges.count;
			continue;
		}
		result->ranges =
			repalloc_huge(result->ranges, ((Size) result->count + ranges.count) * sizeof(HmRange));
		memcpy(result->ranges + result->count, ranges.ranges, ranges.count * sizeof(HmRange));
		result->count += ranges.count;
	}
	if (result->count == 0)
		return;

	sort_ranges(result->ranges, result->count);
	for (int i = 1; i < result->count; i++)
	{
		HmRange *last = &result->ranges[kept];
		HmRange *next = &result->ranges[i];

		if (next->low <= last->high || next->low == last->high + 1)
			last->high = Max(last->high, next->high);
		else
			result->ranges[++kept] = *next;
	}
	result->count = kept + 1;
}

/* Allocate an array of keys, in the current memory context. */
static void *
alloc_keys(const ScanConditions *scan, Size count)
{
	return palloc_extended(Max(1, count) * scan->key_size, MCXT_ALLOC_HUGE);
}

/*
 * If a single array is the only condition, and keys are not exact, look up each key once, and
 * have the fetch compare the rows that it finds with the key's values.  Evaluating the
 * condition for each row could take as long as the array is.
 */
static void
make_values(ScanConditions *scan)
{
	HmKeyValues *values = &scan->values;

	evaluate_arguments(scan);
	hm_values_from_key(scan->index, &scan->arms[0].keys[0], values);
	scan->count = values->count;
	scan->low = values->keys;
	scan->high = alloc_keys(scan, scan->count);
	memcpy(scan->high, scan->low, scan->count * scan->key_size);
	scan->exact = true;
}

/*
 * If a single array is the only condition, and it is about the first column of several, look up all
 * composite keys that begin with one of its elements.  Returns false if the column's field is not
 * exact.
 */
static bool
make_prefixes(ScanConditions *scan)
{
	ScanKey key = &scan->arms[0].keys[0];
	HmFields fields;
	const HmField *field = &fields.fields[0];
	Size size;
	void *keys;

	hm_fields_read(scan->index, &fields);
	if (key->sk_attno != 1 || !hm_field_is_exact(field) ||
		!hm_points_from_key(field->type, key, &keys, &scan->count))
		return false;

	size = hm_key_size(field->type->width);
	scan->low = hm_alloc_large(Max(1, scan->count) * scan->key_size);
	scan->length = ((HmKey) 1 << field->shift) - 1;
	for (uint32 i = 0; i < scan->count; i++)
	{
		HmKey value = hm_field_value(field, hm_key_get(keys, size, i));

		scan->exact &= !(hm_field_shares_null(field) && value == hm_field_null(field));
		hm_key_put(scan->low, scan->key_size, i, value << field->shift);
	}
	return true;
}

/*
 * If a single array is the only condition, take its keys as they are: the engine sorts
 * them faster than hm_ranges_from_keys() does.  Returns false if there are other
 * conditions.
 */
static bool
make_points(ScanConditions *scan)
{
	scan->exact = true;
	scan->length = 0;
	scan->high = NULL;
	scan->filter_count = 0;
	scan->from_subplan =
		scan->subplan != NULL &&
		hm_subplan_keys_read(scan->subplan, scan->key_type, &scan->low, &scan->count);
	if (scan->from_subplan)
		return true;
	evaluate_arguments(scan);
	if (scan->arm_count > 1 || scan->arms[0].count > 1)
		return false;
	if (scan->composite)
		return make_prefixes(scan);
	return hm_points_from_key(scan->key_type, &scan->arms[0].keys[0], &scan->low, &scan->count);
}

/* Turn all arms, whose arguments have been evaluated, into sorted, disjoint ranges. */
static void
make_ranges(ScanConditions *scan)
{
	HmRanges ranges;

	if (scan->index == NULL)
		elog(ERROR, "an element of an array has no single key");
	union_ranges(scan, &ranges);
	scan->count = (uint32) ranges.count;
	scan->low = alloc_keys(scan, ranges.count);
	scan->high = alloc_keys(scan, ranges.count);
	for (int i = 0; i < ranges.count; i++)
	{
		const HmRange *range = &ranges.ranges[i];

		/* The operators are strict, so there is no range in the NULL part. */
		Assert(range->part == HM_PART_KEYS);
		hm_key_put(scan->low, scan->key_size, i, range->low);
		hm_key_put(scan->high, scan->key_size, i, range->high);
	}
	if (scan->may_filter)
	{
		memcpy(scan->filters, ranges.filters, sizeof(ranges.filters));
		scan->filter_count = ranges.filter_count;
	}
	scan->exact = !ranges.recheck && ranges.filter_count == scan->filter_count;
	if (ranges.ranges != NULL)
		pfree(ranges.ranges);
}

/*
 * The maximum number of ranges in a batch.  The batch gets the memory that the fetch
 * leaves, less what all ranges take, but at least half of it: many ranges
 * must not lead to small batches.
 */
static uint32
largest_batch(const LookupNode *lookup)
{
	const ScanConditions *scan = &lookup->conditions;
	Size leaves = hm_fetch_leaves_memory(lookup->plan.index_only);
	Size ranges = scan->count * (scan->high == NULL ? 1 : 2) * scan->key_size;
	Size memory = Max(leaves - Min(leaves, ranges), leaves / 2);
	Size probe = hm_lookup_probe_memory(scan->key_size) + hm_chosen_memory(lookup);

	return (uint32) Min((Size) hm_batch_size, Max(MIN_LAST_LIMIT, memory / probe));
}

/*
 * See that all processes divide the ranges in the same way, and cut this process's copy
 * of them accordingly.
 */
static void
divide(ScanConditions *scan)
{
	const HmKey *bounds = hm_slices_bounds(scan->slices);

	if (scan->high == NULL)
	{
		hm_slices_divide_keys(scan->slices, scan->low, scan->key_size, scan->count);
		return;
	}
	if (bounds == NULL)
	{
		HmKey offer[HM_SLICES];

		hm_slices_of_ranges(scan->index, scan->low, scan->high, scan->key_size, scan->count, offer);
		bounds = hm_slices_offer(scan->slices, offer);
	}
	scan->count = hm_slices_cut(bounds, &scan->low, &scan->high, scan->key_size, scan->count);
}

/*
 * Claim ranges that no other process looks up.  Returns false if all are claimed.  Those
 * that other processes have claimed since the last time are passed over.
 */
static bool
claim(ScanConditions *scan)
{
	Size key_size = scan->key_size;
	HmKey low, high;

	/* If there are no slices, the leader has released the shared memory. */
	if (!scan->divided || scan->slices == NULL || !hm_slices_claim(scan->slices, &low, &high))
		return false;

	if (scan->high == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(scan->context);

		scan->next +=
			hm_groups_begin_claimed(&scan->groups, hm_key_at(scan->low, key_size, scan->next),
									key_size, scan->count - scan->next, low, high);
		MemoryContextSwitchTo(old_context);
		return true;
	}
	while (scan->next < scan->count && hm_key_get(scan->high, key_size, scan->next) < low)
		scan->next++;
	scan->end = scan->next;
	while (scan->end < scan->count && hm_key_get(scan->low, key_size, scan->end) <= high)
		scan->end++;
	return true;
}

/* Make the probes, if they have to be made, and begin with the first one. */
static void
start(LookupNode *lookup)
{
	ScanConditions *scan = &lookup->conditions;
	MemoryContext old_context = MemoryContextSwitchTo(scan->context);

	if (!scan->is_made)
	{
		MemoryContextReset(scan->context);
		scan->groups.ends = NIL;
		if (scan->compares_values)
			make_values(scan);
		else if (!make_points(scan))
			make_ranges(scan);
	}
	scan->divided = scan->slices != NULL && scan->count > 0;
	if (scan->divided)
		divide(scan);
	scan->next = 0;
	scan->end = scan->divided ? 0 : scan->count;
	if (scan->high == NULL)
		hm_groups_begin(&scan->groups, scan->low, scan->key_size, scan->end);
	MemoryContextSwitchTo(old_context);
	lookup->max_limit = largest_batch(lookup);
	lookup->limit =
		lookup->plan.first_rows ? Min(FIRST_BATCH, lookup->max_limit) : lookup->max_limit;
	scan->started = scan->is_made = true;
}

/* The next probes that this process has claimed, at most so many. */
static void
take_probes(ScanConditions *scan, LookupBatch *batch, uint32 limit)
{
	LookupProbes *all = &batch->all;
	HmProbes ranges = {0};

	if (scan->high == NULL)
	{
		all->count = hm_groups_next(&scan->groups, limit, &all->low);
		all->length = scan->length;
		batch->duplicates = true;
		return;
	}
	hm_probes_set_ranges(&ranges, hm_key_at(scan->low, scan->key_size, scan->next),
						 hm_key_at(scan->high, scan->key_size, scan->next), scan->key_size,
						 Min(limit, scan->end - scan->next));
	all->count = ranges.count;
	all->low = unconstify(void *, ranges.low);
	all->high = unconstify(void *, ranges.high);
	all->same_length = ranges.high == NULL;
	all->length = ranges.length;
	if (scan->compares_values)
	{
		batch->values.values = scan->values.values;
		batch->values.first = scan->values.first + scan->next;
	}
	scan->next += ranges.count;
}

static void
fill(LookupNode *lookup)
{
	ScanConditions *scan = &lookup->conditions;
	LookupBatch *batch = &lookup->batch;

	scan->slices = lookup->node.slices;
	if (!scan->started)
		start(lookup);
	do
		take_probes(scan, batch, lookup->limit);
	while (batch->all.count == 0 && claim(scan));
	batch->count = batch->all.count;
	batch->room = Max(batch->room, batch->count);
	batch->exact = scan->exact;
	lookup->limit = (uint32) Min((uint64) lookup->limit * BATCH_GROWTH, lookup->max_limit);
}

static void
restart(LookupNode *lookup, const Bitmapset *changed)
{
	ScanConditions *scan = &lookup->conditions;

	/* Keys that were read from a sub-select depend on its parameter alone; ranges may be cut. */
	if (scan->from_subplan ? hm_subplan_keys_changed(scan->subplan, changed) :
							 changed != NULL || scan->high != NULL)
		scan->is_made = false;
	scan->started = false;
}

const LookupSource hm_source_conditions = {
	.restart = restart,
	.fill = fill,
};

/* ----------------------------------------------------------------
 *		Beginning
 * ----------------------------------------------------------------
 */

/* Turn an arm of the plan into scan keys.  Returns the arguments of the arms after it. */
static const ListCell *
begin_arm(ScanConditions *scan, ScanArm *arm, List *keys, List *arguments, const ListCell *argument)
{
	ListCell *cell;

	arm->count = list_length(keys);
	arm->keys = palloc0(arm->count * sizeof(ScanKeyData));
	arm->arguments = palloc(arm->count * sizeof(ExprState *));
	foreach (cell, keys)
	{
		const LookupKey *key = lfirst(cell);
		ScanKey scan_key = &arm->keys[foreach_current_index(cell)];

		scan_key->sk_strategy = (StrategyNumber) key->strategy;
		scan_key->sk_subtype = key->type;
		scan_key->sk_flags = key->is_array ? SK_SEARCHARRAY : 0;
		scan_key->sk_attno = (AttrNumber) (key->column + 1);
		arm->arguments[foreach_current_index(cell)] = ExecInitExpr(lfirst(argument), scan->node);
		argument = lnext(arguments, argument);
	}
	return argument;
}

/* Whether a single array is the only condition, and keys are not exact. */
static bool
is_inexact_array(const ScanConditions *scan)
{
	return !scan->composite && !scan->key_type->exact && scan->arm_count == 1 &&
		   scan->arms[0].count == 1 && hm_is_equal_any(&scan->arms[0].keys[0]);
}

/* Whether all keys of an index tell all of its columns, so that hits can be filtered by them. */
static bool
tells_columns(Relation index)
{
	HmFields fields;

	if (index == NULL)
		return true;
	hm_fields_read(index, &fields);
	for (int i = 0; i < fields.count; i++)
	{
		if (fields.fields[i].null_end != 0)
			return false;
	}
	return true;
}

void
hm_conditions_begin(LookupNode *lookup)
{
	ScanConditions *scan = &lookup->conditions;
	const LookupPlan *plan = &lookup->plan;
	const ListCell *argument = list_head(plan->arguments);
	ListCell *cell;

	scan->node = &lookup->node.css.ss.ps;
	scan->composite = lookup->plan.composite;
	scan->key_type = lookup->key_type;
	scan->key_size = lookup->batch.all.key_size;
	scan->index = lookup->several_targets ? NULL : lookup->targets[0].index;
	scan->may_filter = !plan->index_only && tells_columns(scan->index);
	scan->context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup scan", ALLOCSET_DEFAULT_SIZES);
	scan->arm_count = list_length(plan->arms);
	scan->arms = palloc(scan->arm_count * sizeof(ScanArm));
	foreach (cell, plan->arms)
		argument = begin_arm(scan, &scan->arms[foreach_current_index(cell)], lfirst(cell),
							 plan->arguments, argument);
	scan->subplan = hm_subplan_keys_begin(scan->node, plan->subplan, linitial(plan->arguments),
										  scan->arms[0].keys[0].sk_subtype);
	scan->compares_values = is_inexact_array(scan);
	lookup->value_type = scan->arms[0].keys[0].sk_subtype;
}
