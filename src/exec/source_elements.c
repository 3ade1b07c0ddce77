/*
 * source_elements.c
 *		A source of probes: the elements of an array, as rows.
 *
 * A lookup scan of a partitioned table by `k = ANY (array)` has the elements in place of a
 * lookup join's outer rows, if an element is more than its key: the index has several columns, or
 * keys are not exact.  Each different element is a row, because rows that are found have to be
 * compared with the element, and must not be found by an equal one, too.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/array.h"

#include "compat.h"
#include "exec/lookup_node.h"

/* Read the array. */
static void
read_elements(LookupNode *lookup)
{
	HmValueSet *set = &lookup->elements.set;
	MemoryContext old_context;
	ArrayIterator iterator;
	Datum value;
	bool is_null;

	hm_value_set_reset(set);
	old_context = MemoryContextSwitchTo(set->context);
	value = ExecEvalExpr(lookup->keys[lookup->elements.key].argument,
						 lookup->node.css.ss.ps.ps_ExprContext, &is_null);
	if (!is_null)
	{
		iterator = array_create_iterator(DatumGetArrayTypeP(value), 0, NULL);
		while (array_iterate(iterator, &value, &is_null))
		{
			CHECK_FOR_INTERRUPTS();
			if (!is_null)
				hm_value_set_add(set, value);
		}
		array_free_iterator(iterator);
	}
	MemoryContextSwitchTo(old_context);
}

static void
fill(LookupNode *lookup)
{
	ArrayElements *elements = &lookup->elements;
	TupleTableSlot *slot = elements->slot;

	if (!elements->is_read)
		read_elements(lookup);
	elements->is_read = true;
	while (elements->next < elements->set.count && hm_rows_may_add(lookup))
	{
		ExecClearTuple(slot);
		slot->tts_values[0] = elements->set.keys[elements->next++].value;
		slot->tts_isnull[0] = false;
		hm_rows_add(lookup, ExecStoreVirtualTuple(slot));
	}
	hm_rows_finish(lookup);
}

static void
restart(LookupNode *lookup, const Bitmapset *changed)
{
	lookup->elements.next = 0;
	if (changed != NULL)
		lookup->elements.is_read = false;
	hm_rows_begin_anew(lookup);
}

const LookupSource hm_source_elements = {
	.restart = restart,
	.fill = fill,
};

void
hm_elements_begin(LookupNode *lookup)
{
	ArrayElements *elements = &lookup->elements;
	const ScalarArrayOpExpr *clause = linitial(lookup->plan.key_clauses);
	const LookupKey *key = list_nth(lookup->plan.keys, elements->key);
	TupleDesc desc = CreateTemplateTupleDesc(1);

	TupleDescInitEntry(desc, 1, "element", key->type, -1, 0);
	hm_finalize_desc(desc);
	elements->slot = ExecInitExtraTupleSlot(lookup->node.css.ss.ps.state, desc, &TTSOpsVirtual);
	hm_value_set_begin(&elements->set, clause->opno, true, clause->inputcollid, key->type);
}
