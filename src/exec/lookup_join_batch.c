/*
 * lookup_join_batch.c
 *		A lookup join's batches: filling them with outer rows, and taking them from target
 *		to target.
 *
 * A batch has as many rows as harmonia.batch_size and memory allow, because each batch may
 * visit the same pages of index and table again.  Where the first rows are wanted soon,
 * the first batch is a single row and each next one is larger, because the rest of a batch
 * is wasted if the join is not read to its end.  In a parallel join, a batch has only a part
 * of a process's share of the rows, so that all processes end at about the same time.
 *
 * There are several targets if the inner table is partitioned or has children.  Targets
 * that are pruned are passed over (prune.c).  Each other target is opened when it is
 * first used.  It gets those probes that its share of the keys allows.  There is one
 * fetch at a time, so memory does not grow with the number of targets.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "miscadmin.h"
#include "partitioning/partbounds.h"
#include "utils/memutils.h"

#include "compat.h"
#include "exec/lookup_join.h"

/*
 * Rows of the first batch, and how many times larger each next one may be, where the
 * first rows are wanted soon.
 */
#define FIRST_ROWS_BATCH	1
#define FIRST_ROWS_GROWTH	4

/* The memory of a value that is made from a key, if it is passed by reference. */
#define RESTORED_MEMORY		32

/* Rows to make room for at first, and how many times more if there is none left. */
#define MIN_ROOM		64
#define ROOM_GROWTH		4

/* ----------------------------------------------------------------
 *		Memory
 * ----------------------------------------------------------------
 */

/* The bytes of a probe and of "matched". */
static inline Size
probe_memory(Size key_size)
{
	return key_size + sizeof(uint8);
}

/*
 * With several targets, what there is for each probe besides the chosen ones: its row, its hash
 * value, and its places in the division.
 */
#define CHOSEN_MEMORY	(sizeof(uint32) + sizeof(uint64) + 4 * sizeof(uint32))

/*
 * The bytes that a row takes, without copies and bits for NULLs.  Before a target is open, its keys
 * are taken to be as large as those of the batch.
 */
static inline Size
row_memory(const LookupJoin *join)
{
	Size		key_size = join->batch.all.key_size;
	Size		probe = probe_memory(key_size) + (join->plain_key ? 0 : key_size);
	Size		columns = hm_join_keeps_columns(join) ? join->key_count * sizeof(HmKey) + sizeof(uint8) : 0;

	/* With several targets there are the chosen probes, too. */
	return hm_lookup_probe_memory(key_size) + join->batch.rows.count * sizeof(Datum) + probe + columns +
		(join->several_targets ? probe + CHOSEN_MEMORY : 0);
}

uint32
hm_join_batch_rows(Size key_size, Size width, bool index_only)
{
	return (uint32) Min((Size) hm_batch_size,
						hm_fetch_leaves_memory(index_only) /
						(hm_lookup_probe_memory(key_size) + probe_memory(key_size) + width));
}

/* Make room for the last keys of probes. */
static pg_noinline void
make_high_room(LookupJoin *join, JoinProbes *probes)
{
	probes->high = hm_resize_large(join->node.css.ss.ps.state->es_query_cxt, probes->high,
								   probes->high_room);
}

static void
make_probes_room(LookupJoin *join, JoinProbes *probes, Size key_size, uint32 room)
{
	MemoryContext context = join->node.css.ss.ps.state->es_query_cxt;

	probes->low = hm_resize_large(context, probes->low, room * key_size);
	probes->high_room = room * key_size;
	if (probes->high != NULL)
		make_high_room(join, probes);
}

/*
 * Make room for more rows in the batch.  Memory is in the query's context, and is kept
 * for later batches.
 */
static void
make_room(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	MemoryContext context = join->node.css.ss.ps.state->es_query_cxt;
	Size		room = (Size) batch->room * ROOM_GROWTH;

	room = Max(MIN_ROOM, Min(room, join->max_limit));
	hm_rows_make_room(&batch->rows, (uint32) room);
	if (join->one_match || join->keeps_unmatched)
		batch->matched = hm_resize_large(context, batch->matched, room);
	make_probes_room(join, &batch->all, batch->all.key_size, (uint32) room);
	if (hm_join_keeps_columns(join))
	{
		batch->column_keys = hm_resize_large(context, batch->column_keys,
											 room * join->key_count * sizeof(HmKey));
		batch->single_columns = hm_resize_large(context, batch->single_columns, room);
	}
	if (batch->all_rows != NULL)
		batch->all_rows = hm_resize_large(context, batch->all_rows, room * sizeof(uint32));
	if (batch->all.rows != NULL)
		batch->all.rows = batch->all_rows;
	batch->room = (uint32) room;
}

/* Make room for the probes of the batch that a target gets. */
static void
make_chosen_room(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	MemoryContext context = join->node.css.ss.ps.state->es_query_cxt;
	Size		room = batch->room;

	if (batch->chosen_room >= room)
		return;
	/* Composite keys of the targets may differ in size. */
	make_probes_room(join, &batch->chosen,
					 hm_join_keeps_columns(join) ? sizeof(HmKey) : batch->all.key_size,
					 (uint32) room);
	batch->chosen.rows = hm_resize_large(context, batch->chosen.rows, room * sizeof(uint32));
	if (join->one_match)
		batch->chosen.done = hm_resize_large(context, batch->chosen.done, room);
	batch->hashes = hm_resize_large(context, batch->hashes, room * sizeof(uint64));
	batch->chosen_room = (uint32) room;
}

/* ----------------------------------------------------------------
 *		Filling a batch
 * ----------------------------------------------------------------
 */

/* The key of an outer row, if it is a plain column; false if it is NULL. */
static inline bool
row_key(LookupJoin *join, TupleTableSlot *outer, HmKey *key)
{
	int			column = join->keys[0].column - 1;

	if (outer->tts_isnull[column])
		return false;
	*key = join->key_type->normalise(outer->tts_values[column]);
	return true;
}

/* Fill in the last keys of the first probes, because the next one has another length. */
static pg_noinline void
keep_ends(LookupJoin *join, JoinProbes *probes, uint32 count)
{
	if (probes->high == NULL)
		make_high_room(join, probes);
	for (uint32 i = 0; i < count; i++)
		hm_key_put(probes->high, probes->key_size, i,
				   hm_key_get(probes->low, probes->key_size, i) + probes->length);
	probes->same_length = false;
}

/* Set a probe's keys; those of the probes before it are set. */
static inline void
put_range(LookupJoin *join, JoinProbes *probes, uint32 probe, HmKey low, HmKey high)
{
	hm_key_put(probes->low, probes->key_size, probe, low);
	if (probe == 0)
	{
		probes->same_length = true;
		probes->length = high - low;
	}
	if (probes->same_length && high - low != probes->length)
		keep_ends(join, probes, probe);
	if (!probes->same_length)
		hm_key_put(probes->high, probes->key_size, probe, high);
}

/* The last key of a probe. */
static pg_attribute_always_inline HmKey
probe_high(const JoinProbes *probes, Size key_size, uint32 probe)
{
	return probes->same_length ? hm_key_get(probes->low, key_size, probe) + probes->length :
		hm_key_get(probes->high, key_size, probe);
}

/* The value of the key of a probe, if that is a point. */
static inline Datum
restore_key(const LookupJoin *join, uint32 probe)
{
	const JoinProbes *all = &join->batch.all;

	return join->key_type->restore(hm_key_get(all->low, all->key_size, probe));
}

/* From now on, the batch's probes say which row they are of. */
static void
name_rows(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;

	if (batch->all_rows == NULL)
		batch->all_rows = hm_resize_large(join->node.css.ss.ps.state->es_query_cxt, NULL,
										  batch->room * sizeof(uint32));
	batch->all.rows = batch->all_rows;
	for (uint32 i = 0; i < batch->all.count; i++)
		batch->all.rows[i] = i;
}

/*
 * Add an outer row, and its probe if it has one, to the batch, unless it cannot be part
 * of the result.
 */
static inline void
add_row(LookupJoin *join, TupleTableSlot *outer)
{
	JoinBatch  *batch = &join->batch;
	JoinProbes *probes = &batch->all;
	HmKey		low;
	HmKey		high = 0;		/* keep the compiler quiet */
	bool		found;

	if (join->plain_key)
		found = row_key(join, outer, &low);
	else
		found = hm_join_row_range(join, outer, &low, &high);
	if (!found && !join->keeps_unmatched)
		return;

	if (found)
	{
		if (probes->rows != NULL)
			probes->rows[probes->count] = batch->count;
		if (join->plain_key)
			hm_key_put(probes->low, probes->key_size, probes->count++, low);
		else
			put_range(join, probes, probes->count++, low, high);
	}
	else if (probes->rows == NULL)
		name_rows(join);
	if (batch->matched != NULL)
		batch->matched[batch->count] = 0;
	if (batch->rows.count > 0)
		hm_rows_add(&batch->rows, batch->count, outer);
	batch->count++;
}

void
hm_join_open_target(LookupJoin *join, JoinTarget *target)
{
	if (target->table != NULL)
		return;

	/* The planner or the plan cache has locked the table, but not in a parallel worker. */
	target->table = table_open(target->table_oid, AccessShareLock);
	target->index = index_open(target->index_oid, AccessShareLock);
	target->key_size = hm_key_size(hm_key_width(target->index));
	if (join->composite)
		hm_fields_read(target->index, &target->fields);
}

/*
 * The size of the batch's keys: those of the index or, if the batch keeps the keys of columns, of the
 * column that shares are about.
 */
static Size
batch_key_size(const LookupJoin *join)
{
	if (!join->composite || join->several_targets || join->target_count == 0)
		return hm_key_size(join->key_type->width);
	return join->targets[0].key_size;
}

void
hm_join_restart(LookupJoin *join)
{
	Size		memory = hm_fetch_leaves_memory(join->index_only);

	join->batch.all.key_size = batch_key_size(join);
	join->max_limit = (uint32) Min((Size) hm_batch_size,
								   memory / row_memory(join));
	join->phase = PHASE_FILL;
	if (hm_join_has_array(join))
		hm_array_restart(join);
	else
		hm_plan_rows_begin(&join->outer);
	join->outer_done = false;
	join->limit = join->first_rows ? Min(FIRST_ROWS_BATCH, join->max_limit) : join->max_limit;
	join->batch.count = 0;
	join->run = NULL;
	hm_rows_reset(&join->batch.rows);
	if (join->drops_duplicates && !hm_join_has_array(join))
		hm_distinct_reset(&join->distinct);
}

/* Drop the batch, and begin a new one. */
static void
begin_batch(JoinBatch *batch)
{
	hm_rows_reset(&batch->rows);
	batch->count = batch->all.count = 0;
	batch->all.rows = NULL;
	batch->all.same_length = batch->exact = true;
	batch->all.length = 0;
	batch->duplicates = batch->hashed = batch->divided = false;
}

/* Whether another row may be added to the batch.  Copies may use up its memory early. */
static inline bool
may_add_row(const LookupJoin *join, Size memory)
{
	const JoinBatch *batch = &join->batch;

	if (batch->count == join->limit || join->outer_done)
		return false;
	return batch->rows.copied == 0 || batch->count == 0 ||
		batch->rows.copied +
		batch->count * row_memory(join) <= memory;
}

/* The next outer row; NULL at the end. */
static inline TupleTableSlot *
next_outer(LookupJoin *join)
{
	return hm_join_has_array(join) ? hm_array_next_row(join) : hm_plan_rows_next(&join->outer);
}

/* Read all outer rows, and keep their keys. */
static void
read_keys(LookupJoin *join)
{
	for (;;)
	{
		TupleTableSlot *outer = hm_plan_rows_next(&join->outer);
		HmKey		low;
		HmKey		high;

		if (outer == NULL)
			break;
		if (join->plain_key ? row_key(join, outer, &low) : hm_join_row_range(join, outer, &low, &high))
			hm_distinct_add(&join->distinct, low);
	}
	join->outer_done = true;
}

/*
 * Take the next keys from an array or from the outer rows.  They get the memory that those that
 * are collected leave, but at least half of it.  Returns their number.
 */
static uint32
take_keys(LookupJoin *join, void **keys, bool *duplicates)
{
	Size		leaves = hm_fetch_leaves_memory(join->index_only);
	const JoinRows *rows = &join->batch.rows;
	Size		row = row_memory(join) + (rows->references ? rows->count * RESTORED_MEMORY : 0);
	Size		collected;
	uint32		limit;

	if (!hm_join_has_array(join) && !join->outer_done)
		read_keys(join);
	collected = hm_join_has_array(join) ? hm_array_memory(join) : hm_distinct_memory(&join->distinct);
	limit = (uint32) Min((Size) hm_batch_size,
						 (leaves - Min(leaves / 2, collected)) / row);
	if (!hm_join_has_array(join))
		return hm_distinct_next(&join->distinct, limit, keys, duplicates);

	limit = Min(limit, join->limit);
	join->limit = (uint32) Min((uint64) join->limit * FIRST_ROWS_GROWTH, join->max_limit);
	*duplicates = true;
	return hm_array_next_keys(join, limit, keys);
}

/*
 * Make a batch of distinct keys.  All that the join returns of an outer row is the key.
 */
static void
fill_distinct(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	JoinRows   *rows = &batch->rows;
	MemoryContext old_context;

	batch->count = batch->all.count = take_keys(join, &batch->all.low, &batch->duplicates);
	if (batch->room < batch->count)
	{
		batch->room = batch->count;
		hm_rows_make_room(rows, batch->room);
	}
	old_context = MemoryContextSwitchTo(rows->context);
	for (uint32 i = 0; i < batch->count; i++)
	{
		for (int j = 0; j < rows->count; j++)
			rows->values[(Size) i * rows->count + j] = restore_key(join, i);
	}
	MemoryContextSwitchTo(old_context);
}

/* Make a batch of the next outer rows. */
static void
fill_rows(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	Size		memory = hm_fetch_leaves_memory(join->index_only);

	if (join->node.shared != NULL && !join->first_rows)
	{
		Plan	   *outer = linitial(((CustomScan *) join->node.css.ss.ps.plan)->custom_plans);

		join->limit = hm_node_reserve_rows(&join->node, outer->plan_rows, join->max_limit);
	}
	while (may_add_row(join, memory))
	{
		TupleTableSlot *outer;

		if (batch->count < batch->room && hm_join_page_add(join) > 0)
			continue;
		outer = next_outer(join);
		if (outer == NULL)
		{
			join->outer_done = true;
			break;
		}
		if (batch->count == batch->room)
			make_room(join);
		add_row(join, outer);
	}
	join->limit = (uint32) Min((uint64) join->limit * FIRST_ROWS_GROWTH, join->max_limit);
}

bool
hm_join_fill_batch(LookupJoin *join)
{
	/* If all targets are pruned, no row has a match. */
	if (!join->keeps_unmatched && bms_is_empty(hm_pruning_choose(&join->pruning)))
		return false;
	begin_batch(&join->batch);
	if (join->drops_duplicates)
		fill_distinct(join);
	else
		fill_rows(join);
	join->batch.exact_columns = join->batch.exact;
	hm_join_clear_candidate(join);
	join->target = -1;
	return join->batch.count > 0;
}

/* ----------------------------------------------------------------
 *		Targets
 * ----------------------------------------------------------------
 */

/*
 * Compute the hash values of the batch's points, unless they are there from an earlier
 * target.
 */
static void
hash_points(LookupJoin *join, const HmShare *share)
{
	JoinBatch  *batch = &join->batch;
	const JoinProbes *all = &batch->all;
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	MemoryContext old_context;
	Oid			collation = share->collation;
	bool		is_null = false;

	if (batch->hashed && join->hash.fn_oid == share->hash && join->hash_collation == collation)
		return;
	if (join->hash.fn_oid != share->hash)
		fmgr_info_cxt(share->hash, &join->hash, join->node.css.ss.ps.state->es_query_cxt);
	join->hash_collation = collation;
	old_context = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (uint32 i = 0; i < all->count; i++)
	{
		if (hm_key_get(all->low, all->key_size, i) == probe_high(all, all->key_size, i))
		{
			Datum		value = join->value_column < 0 ? restore_key(join, i) :
				hm_row_value(&batch->rows, hm_probe_row(all, i), join->value_column, &is_null);

			batch->hashes[i] = compute_partition_hash_value(1, &join->hash, &collation,
															&value, &is_null);
			ResetExprContext(econtext);
		}
	}
	MemoryContextSwitchTo(old_context);
	batch->hashed = true;
}

/* Divide the batch's probes among the targets, if there are many of both. */
static void
divide_probes(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	MemoryContext context = join->node.css.ss.ps.state->es_query_cxt;
	MemoryContext old_context;

	if (!hm_shares_may_divide(&batch->all))
		return;
	if (!join->shares_known)
	{
		old_context = MemoryContextSwitchTo(context);
		join->shares = hm_shares_create(join->targets, join->target_count, batch->all.key_size);
		MemoryContextSwitchTo(old_context);
		join->shares_known = true;
	}
	if (join->shares == NULL)
		return;
	if (hm_shares_hashed(join->shares) != NULL)
		hash_points(join, hm_shares_hashed(join->shares));
	batch->divided = hm_shares_divide(join->shares, join->target_count, &batch->all,
									  batch->hashes, context, &batch->division);
}

/* Whether a share allows a probe. */
static pg_attribute_always_inline bool
is_allowed(const JoinBatch *batch, const HmShare *share, Size key_size, uint32 probe)
{
	HmKey		low = hm_key_get(batch->all.low, key_size, probe);
	HmKey		high = probe_high(&batch->all, key_size, probe);

	return !hm_key_less(key_size, share->high, low) && !hm_key_less(key_size, high, share->low) &&
		(share->modulus == 0 || low != high ||
		 batch->hashes[probe] % share->modulus == share->remainder);
}

/* Choose a probe, unless its row has the one match that it needs. */
static pg_attribute_always_inline void
choose_probe(LookupJoin *join, Size key_size, uint32 probe)
{
	const JoinBatch *batch = &join->batch;
	const JoinProbes *all = &batch->all;
	JoinProbes *chosen = &join->batch.chosen;
	uint32		row = hm_probe_row(all, probe);

	if (join->one_match && batch->matched[row])
		return;
	hm_key_put(chosen->low, key_size, chosen->count, hm_key_get(all->low, key_size, probe));
	if (!all->same_length)
		hm_key_put(chosen->high, key_size, chosen->count, hm_key_get(all->high, key_size, probe));
	if (chosen->done != NULL)
		chosen->done[chosen->count] = 0;
	chosen->rows[chosen->count++] = row;
}

/* Choose the probes to look up in a target, whose keys have this size: those that its share allows. */
static pg_attribute_always_inline void
choose_by_size(LookupJoin *join, int target, Size key_size)
{
	JoinBatch  *batch = &join->batch;
	const HmShare *share = &join->targets[target].share;

	if (batch->divided)
	{
		const JoinDivision *division = &batch->division;

		for (uint32 i = division->first[target]; i < division->first[target + 1]; i++)
			choose_probe(join, key_size, division->probes[i]);
		return;
	}
	if (share->modulus > 0)
		hash_points(join, share);
	for (uint32 i = 0; i < batch->all.count; i++)
	{
		if (is_allowed(batch, share, key_size, i))
			choose_probe(join, key_size, i);
	}
}

static void
choose_probes(LookupJoin *join, int target)
{
	JoinBatch  *batch = &join->batch;

	batch->chosen.count = 0;
	batch->chosen.same_length = batch->all.same_length;
	if (!batch->all.same_length && batch->chosen.high == NULL)
		make_high_room(join, &batch->chosen);
	batch->chosen.length = batch->all.length;
	batch->chosen.key_size = batch->all.key_size;
	if (batch->all.key_size == sizeof(uint64))
		choose_by_size(join, target, sizeof(uint64));
	else
		choose_by_size(join, target, sizeof(HmKey));
}

/*
 * Make composite keys of the columns' keys of the chosen probes, as the target's index has them.
 */
static void
compose_chosen(LookupJoin *join, const JoinTarget *target)
{
	JoinBatch  *batch = &join->batch;
	JoinProbes *chosen = &batch->chosen;

	chosen->key_size = target->key_size;
	batch->exact = batch->exact_columns;
	for (uint32 i = 0; i < chosen->count; i++)
	{
		Size		row = chosen->rows[i];
		HmKey		low,
					high;

		batch->exact &= hm_join_compose(&target->fields, batch->column_keys + row * join->key_count,
										batch->single_columns[row], &low, &high);
		put_range(join, chosen, i, low, high);
	}
}

/*
 * All probes, for a single target.  If every row has one, then "matched" of the rows is
 * "done" of the probes.
 */
static JoinProbes *
all_probes(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;

	batch->all.done = NULL;
	if (!join->one_match)
		return &batch->all;
	if (batch->all.rows == NULL)
		batch->all.done = batch->matched;
	else
	{
		batch->all_done = hm_resize_large(join->node.css.ss.ps.state->es_query_cxt,
										  batch->all_done, batch->room);
		memset(batch->all_done, 0, batch->all.count);
		batch->all.done = batch->all_done;
	}
	return &batch->all;
}

void
hm_join_end_fetch(LookupJoin *join)
{
	HmFetchStats stats;

	if (join->node.fetch == NULL)
		return;
	hm_fetch_stats(join->node.fetch, &stats);
	hm_fetch_stats_add(&join->node.ended, &stats);
	hm_fetch_end(join->node.fetch);
	join->node.fetch = NULL;
	MemoryContextReset(join->fetch_context);
}

/* Add the columns of a target's table that a slot is filled from. */
static void
add_filled(const JoinFill *fill, const JoinTarget *target, Bitmapset **attributes)
{
	for (int i = 0; i < fill->inner_count; i++)
		*attributes = bms_add_member(*attributes, target->columns[fill->inner_from[i]]);
}

/* Tell the fetch which columns the join may ask for. */
static void
set_needs(LookupJoin *join, const JoinTarget *target)
{
	Bitmapset  *attributes = NULL;

	add_filled(&join->candidate, target, &attributes);
	add_filled(&join->result, target, &attributes);
	hm_fetch_needs(join->node.fetch, attributes);
	bms_free(attributes);
}

/* Make the node's fetch read the current target. */
static void
begin_fetch(LookupJoin *join)
{
	JoinTarget *target = &join->targets[join->target];
	MemoryContext old_context;

	if (join->node.fetch != NULL && join->fetch_target == join->target)
		return;
	hm_join_end_fetch(join);
	hm_join_open_target(join, target);
	if (join->value_column >= 0)
		hm_key_equality(target->index, InvalidOid, &join->equal, join->fetch_context);
	old_context = MemoryContextSwitchTo(join->fetch_context);
	join->node.fetch = hm_fetch_create(target->table, target->index,
									   join->node.css.ss.ps.state, join->index_only, join->first_rows, NULL);
	hm_fetch_without_tids(join->node.fetch);
	if (join->index_only)
		set_needs(join, target);
	join->fetch_target = join->target;
	MemoryContextSwitchTo(old_context);
}

bool
hm_join_next_target(LookupJoin *join)
{
	const Bitmapset *targets = hm_pruning_choose(&join->pruning);

	if (join->target < 0 && join->several_targets)
	{
		make_chosen_room(join);
		divide_probes(join);
	}
	while ((join->target = bms_next_member(targets, join->target)) >= 0)
	{
		HmProbes	probes = {0};
		HmProbeValues values = {0};

		if (!join->several_targets)
			join->probes = all_probes(join);
		else
		{
			choose_probes(join, join->target);
			join->probes = &join->batch.chosen;
		}
		if (join->probes->count == 0)
			continue;

		begin_fetch(join);
		if (hm_join_keeps_columns(join))
			compose_chosen(join, &join->targets[join->target]);
		probes.count = join->probes->count;
		probes.low = join->probes->low;
		probes.high = join->probes->same_length ? NULL : join->probes->high;
		probes.length = join->probes->same_length ? join->probes->length : 0;
		probes.distinct = join->batch.duplicates;
		if (join->value_column >= 0)
		{
			values.values = join->batch.rows.values + join->value_column;
			values.rows = join->probes->rows;
			values.stride = (uint32) join->batch.rows.count;
			values.equal = &join->equal;
		}
		hm_fetch_start(join->node.fetch, &probes, join->probes->done, &values);
		join->run = NULL;
		return true;
	}
	return false;
}
