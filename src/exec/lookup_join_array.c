/*
 * lookup_join_array.c
 *		The elements of an array, in place of a lookup join's outer rows.
 *
 * A lookup scan of a partitioned table by `k = ANY (array)` is a lookup join without an outer
 * plan.  So each element goes to those partitions that can have it, and the work for the array
 * is done once, not once for each partition.
 *
 * If the index has one column, and its keys are exact, an element is no more than its key.
 * Keys are taken as they are, with duplicates, which the engine drops; or from a sub-select
 * without making the array (subplan_keys.c).  The processes of a parallel scan divide them
 * (slices.c).  Otherwise each different element is a row, because rows that are found have to
 * be compared with the element, and must not be found by an equal one, too.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "compat.h"
#include "exec/lookup_join.h"
#include "exec/value_set.h"

/* ----------------------------------------------------------------
 *		Beginning
 * ----------------------------------------------------------------
 */

/* Make the slot of rows that have an element of this type. */
static TupleTableSlot *
make_slot(EState *estate, Oid type)
{
	TupleDesc	desc = CreateTemplateTupleDesc(1);

	TupleDescInitEntry(desc, 1, "element", type, -1, 0);
	hm_finalize_desc(desc);
	return ExecInitExtraTupleSlot(estate, desc, &TTSOpsVirtual);
}

void
hm_array_begin(LookupJoin *join, List *plan)
{
	PlanState  *state = &join->node.css.ss.ps;
	CustomScan *scan = (CustomScan *) state->plan;
	JoinArray  *array = &join->array;
	ScalarArrayOpExpr *clause = linitial(list_nth(scan->custom_exprs, HM_JOIN_ARRAY_CLAUSE));
	Oid			type = (Oid) list_nth_int(list_nth(scan->custom_private, HM_JOIN_KEYS),
										  3 * array->key + 1);

	array->slot = make_slot(state->state, type);
	array->context = AllocSetContextCreate(CurrentMemoryContext, "harmonia array",
										   ALLOCSET_DEFAULT_SIZES);
	array->key_size = hm_key_size(join->key_type->width);
	array->scan_key.sk_flags = SK_SEARCHARRAY;
	array->scan_key.sk_strategy = BTEqualStrategyNumber;
	array->scan_key.sk_subtype = type;
	array->subplan = hm_subplan_keys_begin(state, list_delete_first(list_copy(plan)),
										   lsecond(clause->args), type);
	if (!join->drops_duplicates)
	{
		array->elements = palloc0(sizeof(HmValueSet));
		hm_value_set_begin(array->elements, clause->opno, true, clause->inputcollid, type);
	}
}

void
hm_array_restart(LookupJoin *join)
{
	join->array.started = false;
}

void
hm_array_rescan(LookupJoin *join, const Bitmapset *changed)
{
	JoinArray  *array = &join->array;

	/* Keys that were read from a sub-select depend on its parameter alone. */
	if (array->from_subplan ? hm_subplan_keys_changed(array->subplan, changed) : changed != NULL)
		array->is_read = false;
}

/* ----------------------------------------------------------------
 *		Reading the array
 * ----------------------------------------------------------------
 */

/* Evaluate the array.  Returns false if it is NULL. */
static bool
evaluate(LookupJoin *join)
{
	bool		is_null;

	join->array.scan_key.sk_argument =
		ExecEvalExpr(join->keys[join->array.key].argument,
					 join->node.css.ss.ps.ps_ExprContext, &is_null);
	return !is_null;
}

static void
read_keys(LookupJoin *join)
{
	JoinArray  *array = &join->array;

	array->count = 0;
	array->from_subplan = array->subplan != NULL &&
		hm_subplan_keys_read(array->subplan, join->key_type, &array->keys, &array->count);
	if (!array->from_subplan && evaluate(join) &&
		!hm_points_from_key(join->key_type, &array->scan_key, &array->keys, &array->count))
		elog(ERROR, "an element of an array has no single key");
}

static void
read_elements(LookupJoin *join)
{
	HmValueSet *elements = join->array.elements;
	ArrayType  *array;
	ArrayIterator iterator;
	Datum		value;
	bool		is_null;

	hm_value_set_reset(elements);
	if (!evaluate(join))
		return;
	array = DatumGetArrayTypeP(join->array.scan_key.sk_argument);
	iterator = array_create_iterator(array, 0, NULL);
	while (array_iterate(iterator, &value, &is_null))
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_null)
			hm_value_set_add(elements, value);
	}
	array_free_iterator(iterator);
}

/* Read the array, if it has not been read yet, and begin with the first element. */
static void
start(LookupJoin *join)
{
	JoinArray  *array = &join->array;
	MemoryContext old_context = MemoryContextSwitchTo(array->context);

	if (!array->is_read)
	{
		MemoryContextReset(array->context);
		if (join->drops_duplicates)
			read_keys(join);
		else
			read_elements(join);
	}
	array->divided = array->slices != NULL && array->count > 0;
	if (array->divided)
		hm_slices_divide_keys(array->slices, array->keys, array->key_size, array->count);
	array->next = 0;
	array->next_element = 0;
	hm_groups_begin(&array->groups, array->keys, array->key_size,
					array->divided ? 0 : array->count);
	MemoryContextSwitchTo(old_context);
	array->is_read = array->started = true;
}

/* ----------------------------------------------------------------
 *		Taking elements
 * ----------------------------------------------------------------
 */

/*
 * Claim keys that no other process looks up.  Returns false if all are claimed.
 */
static bool
claim(JoinArray *array)
{
	MemoryContext old_context;
	HmKey		low,
				high;

	/* If there are no slices, the leader has released the shared memory. */
	if (!array->divided || array->slices == NULL ||
		!hm_slices_claim(array->slices, &low, &high))
		return false;
	old_context = MemoryContextSwitchTo(array->context);
	array->next += hm_groups_begin_claimed(&array->groups,
										   hm_key_at(array->keys, array->key_size, array->next),
										   array->key_size, array->count - array->next, low, high);
	MemoryContextSwitchTo(old_context);
	return true;
}

uint32
hm_array_next_keys(LookupJoin *join, uint32 limit, void **keys)
{
	JoinArray  *array = &join->array;
	uint32		count;

	if (!array->started)
		start(join);
	do
		count = hm_groups_next(&array->groups, limit, keys);
	while (count == 0 && claim(array));
	return count;
}

TupleTableSlot *
hm_array_next_row(LookupJoin *join)
{
	JoinArray  *array = &join->array;
	TupleTableSlot *slot = array->slot;

	if (!array->started)
		start(join);
	if (array->next_element == array->elements->count)
		return NULL;
	ExecClearTuple(slot);
	slot->tts_values[0] = array->elements->keys[array->next_element++].value;
	slot->tts_isnull[0] = false;
	return ExecStoreVirtualTuple(slot);
}

Size
hm_array_memory(LookupJoin *join)
{
	if (!join->array.started)
		start(join);
	return join->array.count * join->array.key_size;
}

/* ----------------------------------------------------------------
 *		Parallel scans
 * ----------------------------------------------------------------
 */

/* The slices come after the workers' counters. */
Size
hm_array_estimate_dsm(CustomScanState *node, ParallelContext *context)
{
	return MAXALIGN(hm_node_estimate_dsm(node, context)) + hm_slices_size(context->nworkers + 1);
}

void
hm_array_initialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	LookupJoin *join = (LookupJoin *) node;

	hm_node_initialize_dsm(node, context, coordinate);
	join->array.slices = hm_node_after_stats(&join->node);
	hm_slices_init(join->array.slices, context->nworkers + parallel_leader_participation);
}

void
hm_array_reinitialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	LookupJoin *join = (LookupJoin *) node;

	hm_node_reinitialize_dsm(node, context, coordinate);
	join->array.slices = hm_node_after_stats(&join->node);
	hm_slices_reset(join->array.slices);
}

void
hm_array_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	LookupJoin *join = (LookupJoin *) node;

	hm_node_initialize_worker(node, toc, coordinate);
	join->array.slices = hm_node_after_stats(&join->node);
}

void
hm_array_shutdown(CustomScanState *node)
{
	hm_node_shutdown(node);
	((LookupJoin *) node)->array.slices = NULL;
}
