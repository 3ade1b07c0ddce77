/*
 * search_targets.c
 *		What is searched: a lookup node's tables and their indexes, one after the other.
 *
 * There are several targets if the table is partitioned or has children.  Targets that are pruned
 * are passed over (search_prune.c).  Each other target is opened when it is first used.  It gets
 * those probes that its share of the keys allows (search_shares.c).  There is one fetch at a time,
 * so memory does not grow with the number of targets.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "miscadmin.h"
#include "partitioning/partbounds.h"
#include "utils/memutils.h"

#include "compat.h"
#include "exec/lookup_node.h"

/* ----------------------------------------------------------------
 *		Choosing the probes for a target
 * ----------------------------------------------------------------
 */

Size
hm_chosen_memory(const LookupNode *lookup)
{
	/* Its key, "done", its row, its hash value, and its places in the division. */
	return lookup->several_targets ? lookup->batch.all.key_size + sizeof(uint8) + sizeof(uint32) +
										 sizeof(uint64) + 4 * sizeof(uint32) :
									 0;
}

/* Make room for the probes of the batch that a target gets. */
static void
make_chosen_room(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;
	MemoryContext context = lookup->node.css.ss.ps.state->es_query_cxt;
	Size room = batch->room;

	if (batch->chosen_room >= room)
		return;
	/* Composite keys of the targets may differ in size. */
	hm_make_probes_room(lookup, &batch->chosen,
						hm_keeps_columns(lookup) ? sizeof(HmKey) : batch->all.key_size,
						(uint32) room);
	batch->chosen.rows = hm_resize_large(context, batch->chosen.rows, room * sizeof(uint32));
	if (lookup->one_match)
		batch->chosen.done = hm_resize_large(context, batch->chosen.done, room);
	batch->hashes = hm_resize_large(context, batch->hashes, room * sizeof(uint64));
	batch->chosen_room = (uint32) room;
}

/* The last key of a probe. */
static pg_attribute_always_inline HmKey
probe_high(const LookupProbes *probes, Size key_size, uint32 probe)
{
	return probes->same_length ? hm_key_get(probes->low, key_size, probe) + probes->length :
								 hm_key_get(probes->high, key_size, probe);
}

/*
 * Compute the hash values of the batch's points, unless they are there from an earlier
 * target.
 */
static void
hash_points(LookupNode *lookup, const HmShare *share)
{
	LookupBatch *batch = &lookup->batch;
	const LookupProbes *all = &batch->all;
	ExprContext *econtext = lookup->node.css.ss.ps.ps_ExprContext;
	MemoryContext old_context;
	Oid collation = share->collation;
	bool is_null = false;

	if (batch->hashed && lookup->hash.fn_oid == share->hash && lookup->hash_collation == collation)
		return;
	if (lookup->hash.fn_oid != share->hash)
		fmgr_info_cxt(share->hash, &lookup->hash, lookup->node.css.ss.ps.state->es_query_cxt);
	lookup->hash_collation = collation;
	old_context = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (uint32 i = 0; i < all->count; i++)
	{
		if (hm_key_get(all->low, all->key_size, i) == probe_high(all, all->key_size, i))
		{
			Datum value = lookup->value_column < 0 ?
							  hm_restore_key(lookup, i) :
							  hm_row_value(&batch->rows, hm_probe_row(all, i), lookup->value_column,
										   &is_null);

			batch->hashes[i] =
				compute_partition_hash_value(1, &lookup->hash, &collation, &value, &is_null);
			ResetExprContext(econtext);
		}
	}
	MemoryContextSwitchTo(old_context);
	batch->hashed = true;
}

/* Divide the batch's probes among the targets, if there are many of both. */
static void
divide_probes(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;
	MemoryContext context = lookup->node.css.ss.ps.state->es_query_cxt;
	MemoryContext old_context;

	if (!hm_shares_may_divide(&batch->all))
		return;
	if (!lookup->shares_known)
	{
		old_context = MemoryContextSwitchTo(context);
		lookup->shares =
			hm_shares_create(lookup->targets, lookup->target_count, batch->all.key_size);
		MemoryContextSwitchTo(old_context);
		lookup->shares_known = true;
	}
	if (lookup->shares == NULL)
		return;
	if (hm_shares_hashed(lookup->shares) != NULL)
		hash_points(lookup, hm_shares_hashed(lookup->shares));
	batch->divided = hm_shares_divide(lookup->shares, lookup->target_count, &batch->all,
									  batch->hashes, context, &batch->division);
}

/* Whether a share allows a probe. */
static pg_attribute_always_inline bool
is_allowed(const LookupBatch *batch, const HmShare *share, Size key_size, uint32 probe)
{
	HmKey low = hm_key_get(batch->all.low, key_size, probe);
	HmKey high = probe_high(&batch->all, key_size, probe);

	return !hm_key_less(key_size, share->high, low) && !hm_key_less(key_size, high, share->low) &&
		   (share->modulus == 0 || low != high ||
			batch->hashes[probe] % share->modulus == share->remainder);
}

/* Choose a probe, unless its row has the one match that it needs. */
static pg_attribute_always_inline void
choose_probe(LookupNode *lookup, Size key_size, uint32 probe)
{
	const LookupBatch *batch = &lookup->batch;
	const LookupProbes *all = &batch->all;
	LookupProbes *chosen = &lookup->batch.chosen;
	uint32 row = hm_probe_row(all, probe);

	if (lookup->one_match && batch->matched[row])
		return;
	hm_key_put(chosen->low, key_size, chosen->count, hm_key_get(all->low, key_size, probe));
	if (!all->same_length)
		hm_key_put(chosen->high, key_size, chosen->count, hm_key_get(all->high, key_size, probe));
	if (chosen->done != NULL)
		chosen->done[chosen->count] = 0;
	chosen->rows[chosen->count++] = row;
}

/*
 * Choose the probes to look up in a target, whose keys have this size: those that its share allows.
 */
static pg_attribute_always_inline void
choose_by_size(LookupNode *lookup, int target, Size key_size)
{
	LookupBatch *batch = &lookup->batch;
	const HmShare *share = &lookup->targets[target].share;

	if (batch->divided)
	{
		const SearchDivision *division = &batch->division;

		for (uint32 i = division->first[target]; i < division->first[target + 1]; i++)
			choose_probe(lookup, key_size, division->probes[i]);
		return;
	}
	if (share->modulus > 0)
		hash_points(lookup, share);
	for (uint32 i = 0; i < batch->all.count; i++)
	{
		if (is_allowed(batch, share, key_size, i))
			choose_probe(lookup, key_size, i);
	}
}

static void
choose_probes(LookupNode *lookup, int target)
{
	LookupBatch *batch = &lookup->batch;

	batch->chosen.count = 0;
	batch->chosen.same_length = batch->all.same_length;
	if (!batch->all.same_length && batch->chosen.high == NULL)
		hm_make_high_room(lookup, &batch->chosen);
	batch->chosen.length = batch->all.length;
	batch->chosen.key_size = batch->all.key_size;
	if (batch->all.key_size == sizeof(uint64))
		choose_by_size(lookup, target, sizeof(uint64));
	else
		choose_by_size(lookup, target, sizeof(HmKey));
}

/*
 * Make composite keys of the columns' keys of the chosen probes, as the target's index has them.
 */
static void
compose_chosen(LookupNode *lookup, const SearchTarget *target)
{
	LookupBatch *batch = &lookup->batch;
	LookupProbes *chosen = &batch->chosen;

	chosen->key_size = target->key_size;
	batch->exact = batch->exact_columns;
	for (uint32 i = 0; i < chosen->count; i++)
	{
		Size row = chosen->rows[i];
		HmKey low, high;

		batch->exact &=
			hm_compose_key(&target->fields, batch->column_keys + row * lookup->key_count,
						   batch->single_columns[row], &low, &high);
		hm_put_range(lookup, chosen, i, low, high);
	}
}

/*
 * All probes, for a single target.  If every row has one, then "matched" of the rows is
 * "done" of the probes.
 */
static LookupProbes *
all_probes(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;

	batch->all.done = NULL;
	if (!lookup->one_match)
		return &batch->all;
	if (batch->all.rows == NULL)
		batch->all.done = batch->matched;
	else
	{
		batch->all_done =
			hm_resize_large(lookup->node.css.ss.ps.state->es_query_cxt, batch->all_done,
							(Size) batch->room * lookup->probes_each);
		memset(batch->all_done, 0, batch->all.count);
		batch->all.done = batch->all_done;
	}
	return &batch->all;
}

/* ----------------------------------------------------------------
 *		Targets
 * ----------------------------------------------------------------
 */

void
hm_search_open_target(LookupNode *lookup, SearchTarget *target)
{
	const ScanState *state = &lookup->node.css.ss;
	LOCKMODE lock = AccessShareLock;

	if (target->table != NULL)
		return;
	if (lookup->is_table)
	{
		lock = exec_rt_fetch(((Scan *) state->ps.plan)->scanrelid, state->ps.state)->rellockmode;
		target->table = state->ss_currentRelation;
	}
	else
	{
		/* The planner or the plan cache has locked it, but not in a parallel worker. */
		target->table = table_open(target->table_oid, lock);
	}
	target->index = index_open(target->index_oid, lock);
	target->key_size = hm_key_size(hm_key_width(target->index));
	if (lookup->plan.composite)
		hm_fields_read(target->index, &target->fields);
}

void
hm_search_end_fetch(LookupNode *lookup)
{
	HmFetchStats stats;

	if (lookup->node.fetch == NULL)
		return;
	hm_fetch_stats(lookup->node.fetch, &stats);
	hm_fetch_stats_add(&lookup->node.ended, &stats);
	hm_fetch_end(lookup->node.fetch);
	lookup->node.fetch = NULL;
	MemoryContextReset(lookup->fetch_context);
}

/* Add the columns of a target's table that a slot is filled from. */
static void
add_filled(const SlotFill *fill, const SearchTarget *target, Bitmapset **attributes)
{
	for (int i = 0; i < fill->inner_count; i++)
		*attributes = bms_add_member(*attributes, target->columns[fill->inner_from[i]]);
}

/* Tell the fetch which columns the node may ask for. */
static void
set_needs(LookupNode *lookup, const SearchTarget *target)
{
	Bitmapset *attributes = NULL;

	add_filled(&lookup->candidate, target, &attributes);
	add_filled(&lookup->result, target, &attributes);
	hm_fetch_needs(lookup->node.fetch, attributes);
	bms_free(attributes);
}

/* Make the node's fetch read the current target. */
static void
begin_fetch(LookupNode *lookup)
{
	SearchTarget *target = &lookup->targets[lookup->target];
	TupleTableSlot *slot = NULL;
	MemoryContext old_context;

	if (lookup->node.fetch != NULL && lookup->fetch_target == lookup->target)
		return;
	hm_search_end_fetch(lookup);
	hm_search_open_target(lookup, target);
	if (hm_compares_values(lookup))
		hm_key_equality(target->index, lookup->value_type, &lookup->equal, lookup->fetch_context);

	/* WHERE CURRENT OF looks for the tuple in the scan's own slot. */
	if (lookup->is_table && !lookup->plan.index_only)
		slot = lookup->node.css.ss.ss_ScanTupleSlot;
	old_context = MemoryContextSwitchTo(lookup->fetch_context);
	lookup->node.fetch = hm_fetch_create(target->table, target->index, lookup->node.css.ss.ps.state,
										 lookup->plan.index_only, lookup->plan.first_rows, slot);
	if (!lookup->is_table)
		hm_fetch_without_tids(lookup->node.fetch);
	if (lookup->plan.index_only)
		set_needs(lookup, target);
	lookup->fetch_target = lookup->target;
	MemoryContextSwitchTo(old_context);
}

/* Start to look up the current target's probes. */
static void
start_fetch(LookupNode *lookup)
{
	const LookupBatch *batch = &lookup->batch;
	const LookupProbes *chosen = lookup->probes;
	HmProbes probes = {0};
	HmProbeValues values = batch->values;

	probes.count = chosen->count;
	probes.low = chosen->low;
	probes.high = chosen->same_length ? NULL : chosen->high;
	probes.length = chosen->same_length ? chosen->length : 0;
	probes.distinct = batch->duplicates;
	if (lookup->value_column >= 0)
	{
		values.values = batch->rows.values + lookup->value_column;
		values.rows = chosen->rows;
		values.stride = (uint32) batch->rows.count;
	}
	values.equal = &lookup->equal;
	hm_fetch_filter(lookup->node.fetch, lookup->conditions.filters,
					lookup->conditions.filter_count);
	hm_fetch_start(lookup->node.fetch, &probes, chosen->done, &values);
	lookup->run = NULL;
}

static bool
next_target(LookupNode *lookup)
{
	const Bitmapset *targets = hm_pruning_choose(&lookup->pruning);

	if (lookup->target < 0 && lookup->several_targets)
	{
		make_chosen_room(lookup);
		divide_probes(lookup);
	}
	while ((lookup->target = bms_next_member(targets, lookup->target)) >= 0)
	{
		if (!lookup->several_targets)
			lookup->probes = all_probes(lookup);
		else
		{
			choose_probes(lookup, lookup->target);
			lookup->probes = &lookup->batch.chosen;
		}
		if (lookup->probes->count == 0)
			continue;
		/* Before the fetch starts, which decides by its needs whether it asks for keys. */
		if (lookup->is_table && hm_table_choose_columns(lookup) && lookup->node.fetch != NULL)
			set_needs(lookup, &lookup->targets[lookup->target]);
		begin_fetch(lookup);
		if (hm_keeps_columns(lookup))
			compose_chosen(lookup, &lookup->targets[lookup->target]);
		start_fetch(lookup);
		return true;
	}
	return false;
}

const LookupSearch hm_search_targets = {
	.next_target = next_target,
};
