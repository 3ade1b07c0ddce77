/*
 * lookup_join_batch.c
 *		A lookup join's batches: filling them with outer rows, and taking them from target
 *		to target.
 *
 * The first batch is small, and each next one is larger, up to what harmonia.batch_size
 * and work_mem allow, and at most a million rows.  Where the first rows are wanted soon,
 * batches grow more slowly, because the rest of a batch is wasted if the join is not read
 * to its end.
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
 * Rows of the first batch, and how many times larger each next batch is: where the first
 * rows are wanted soon, and where all rows are wanted.
 */
#define FIRST_ROWS_BATCH	1
#define FIRST_ROWS_GROWTH	4
#define FIRST_BATCH			64
#define BATCH_GROWTH		16

/*
 * Maximum rows of a batch.  Hits come in the order of the heap or the index, so a join
 * reads the rows of a batch in random order.  For larger batches, the cache misses cost
 * more than is saved by visiting fewer leaf and heap pages.
 */
#define MAX_BATCH			(1024 * 1024)

/* Minimum number of rows to allocate room for. */
#define MIN_ROOM		64

/* Bytes for each row, not counting its tuple and what the lookup needs. */
#define ROW_MEMORY		64

/* ----------------------------------------------------------------
 *		Filling a batch
 * ----------------------------------------------------------------
 */

static void
make_probes_room(JoinProbes *probes, uint32 room, bool again)
{
	if (again)
	{
		pfree(probes->rows);
		pfree(probes->low);
		pfree(probes->high);
		pfree(probes->done);
	}
	probes->rows = palloc_extended(room * sizeof(uint32), MCXT_ALLOC_HUGE);
	probes->low = palloc_extended(room * sizeof(uint64), MCXT_ALLOC_HUGE);
	probes->high = palloc_extended(room * sizeof(uint64), MCXT_ALLOC_HUGE);
	probes->done = palloc_extended(room, MCXT_ALLOC_HUGE);
}

/*
 * Make room for a batch of at least "limit" rows.  Memory is in the query's context, and
 * is kept for later batches.
 */
static void
make_room(LookupJoin *join)
{
	JoinBatch  *batch = &join->batch;
	bool		again = batch->room > 0;
	MemoryContext old_context;

	if (batch->room >= join->limit)
		return;
	old_context = MemoryContextSwitchTo(join->node.css.ss.ps.state->es_query_cxt);
	if (again)
	{
		pfree(batch->tuples);
		pfree(batch->matched);
	}
	batch->room = Max(join->limit, MIN_ROOM);
	batch->tuples = palloc_extended(batch->room * sizeof(MinimalTuple), MCXT_ALLOC_HUGE);
	batch->matched = palloc_extended(batch->room * sizeof(bool), MCXT_ALLOC_HUGE);
	make_probes_room(&batch->all, batch->room, again);
	if (join->several_targets)
	{
		make_probes_room(&batch->chosen, batch->room, again);
		if (again)
			pfree(batch->hashes);
		batch->hashes = palloc_extended(batch->room * sizeof(uint64), MCXT_ALLOC_HUGE);
	}
	MemoryContextSwitchTo(old_context);
}

/*
 * Compute the range of keys to look up for an outer row.  Returns false if no key can
 * satisfy the key clauses.  Clears batch.exact if the range has keys that do not satisfy
 * them.
 */
static bool
row_range(LookupJoin *join, TupleTableSlot *outer, uint64 *low, uint64 *high)
{
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	uint64		max = ht_key_max(join->key_type->width);
	bool		stored = false;

	*low = 0;
	*high = max;
	for (int i = 0; i < join->key_count; i++)
	{
		JoinKey    *key = &join->keys[i];
		bool		is_null;
		Datum		value;
		HmBracket	bracket;
		uint64		key_low,
					key_high;

		if (key->column > 0)
			value = slot_getattr(outer, key->column, &is_null);
		else
		{
			if (!stored)
				econtext->ecxt_scantuple = hm_join_store_outer(join, outer);
			stored = true;
			value = ExecEvalExprSwitchContext(key->argument, econtext, &is_null);
		}
		if (is_null)
			return false;
		bracket = key->bracket(join->key_type, value);
		if (!hm_bracket_range(key->strategy, &bracket, max, &key_low, &key_high))
			return false;
		join->batch.exact &= !bracket.fuzzy;
		*low = Max(*low, key_low);
		*high = Min(*high, key_high);
	}
	return *low <= *high;
}

/*
 * Add an outer row, and its probe if it has one, to the batch, unless it cannot be part
 * of the result.
 */
static void
add_row(LookupJoin *join, TupleTableSlot *outer)
{
	JoinBatch  *batch = &join->batch;
	uint64		low,
				high;
	bool		found = row_range(join, outer, &low, &high);
	MemoryContext old_context;

	if (!found && !join->keeps_unmatched)
		return;
	if (found)
	{
		JoinProbes *probes = &batch->all;

		probes->low[probes->count] = low;
		probes->high[probes->count] = high;
		probes->done[probes->count] = 0;
		probes->rows[probes->count++] = batch->rows;
		batch->points &= low == high;
	}
	old_context = MemoryContextSwitchTo(join->context);
	batch->tuples[batch->rows] = ExecCopySlotMinimalTuple(outer);
	MemoryContextSwitchTo(old_context);
	batch->bytes += batch->tuples[batch->rows]->t_len;
	batch->matched[batch->rows++] = false;
}

/* The bytes that this many rows take, not counting their tuples. */
static inline Size
rows_memory(uint32 rows)
{
	return rows * (hm_lookup_probe_memory(false) + ROW_MEMORY);
}

uint32
hm_join_batch_rows(Size width)
{
	return (uint32) Min((Size) Min(hm_batch_size, MAX_BATCH),
						hm_fetch_leaves_memory() / (rows_memory(1) + width));
}

void
hm_join_restart(LookupJoin *join)
{
	join->max_limit = hm_join_batch_rows(0);
	join->phase = PHASE_FILL;
	join->outer_done = false;
	join->limit = Min(join->first_rows ? FIRST_ROWS_BATCH : FIRST_BATCH, join->max_limit);
	join->batch.rows = 0;
	MemoryContextReset(join->context);
}

bool
hm_join_fill_batch(LookupJoin *join)
{
	PlanState  *outer_plan = linitial(join->node.css.custom_ps);
	ExprContext *econtext = join->node.css.ss.ps.ps_ExprContext;
	JoinBatch  *batch = &join->batch;
	Size		memory = hm_fetch_leaves_memory();

	/* If all targets are pruned, no row has a match. */
	if (!join->keeps_unmatched && bms_is_empty(hm_pruning_choose(&join->pruning)))
		return false;
	MemoryContextReset(join->context);
	join->stored_row = NO_ROW;
	make_room(join);
	batch->rows = batch->all.count = 0;
	batch->bytes = 0;
	batch->points = batch->exact = true;
	batch->hashed = false;

	/* A batch of wide rows ends when its memory is used up. */
	while (batch->rows < join->limit && !join->outer_done &&
		   (batch->rows == 0 || batch->bytes + rows_memory(batch->rows) <= memory))
	{
		TupleTableSlot *outer = ExecProcNode(outer_plan);

		if (TupIsNull(outer))
		{
			join->outer_done = true;
			break;
		}
		ResetExprContext(econtext);
		add_row(join, outer);
	}
	join->limit = (uint32)
		Min((uint64) join->limit * (join->first_rows ? FIRST_ROWS_GROWTH : BATCH_GROWTH),
			join->max_limit);
	join->target = -1;
	return batch->rows > 0;
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
hash_points(LookupJoin *join, Oid function)
{
	JoinBatch  *batch = &join->batch;
	Oid			collation = InvalidOid;
	bool		is_null = false;

	if (batch->hashed && join->hash.fn_oid == function)
		return;
	if (join->hash.fn_oid != function)
		fmgr_info_cxt(function, &join->hash, join->node.css.ss.ps.state->es_query_cxt);
	for (uint32 i = 0; i < batch->all.count; i++)
	{
		if (batch->all.low[i] == batch->all.high[i])
		{
			Datum		value = join->key_type->restore(batch->all.low[i]);

			batch->hashes[i] = compute_partition_hash_value(1, &join->hash, &collation,
															&value, &is_null);
		}
	}
	batch->hashed = true;
}

/*
 * Choose the probes to look up in a target: those that its share allows, but not those
 * whose row has the one match that it needs.
 */
static void
choose_probes(LookupJoin *join, const HmShare *share)
{
	JoinBatch  *batch = &join->batch;
	const JoinProbes *all = &batch->all;
	JoinProbes *chosen = &batch->chosen;

	if (share->modulus > 0)
		hash_points(join, share->hash);
	chosen->count = 0;
	for (uint32 i = 0; i < all->count; i++)
	{
		uint64		low = all->low[i];
		uint64		high = all->high[i];

		if (low > share->high || high < share->low ||
			(share->modulus > 0 && low == high &&
			 batch->hashes[i] % share->modulus != share->remainder) ||
			(join->one_match && batch->matched[all->rows[i]]))
			continue;
		chosen->low[chosen->count] = low;
		chosen->high[chosen->count] = high;
		chosen->done[chosen->count] = 0;
		chosen->rows[chosen->count++] = all->rows[i];
	}
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

/* Make the node's fetch read the current target. */
static void
begin_fetch(LookupJoin *join)
{
	JoinTarget *target = &join->targets[join->target];
	MemoryContext old_context;

	if (join->node.fetch != NULL && join->fetch_target == join->target)
		return;
	hm_join_end_fetch(join);
	if (target->table == NULL)
	{
		/*
		 * The planner or the plan cache has locked the table, but not in a parallel
		 * worker.
		 */
		target->table = table_open(target->table_oid, AccessShareLock);
		target->index = index_open(target->index_oid, AccessShareLock);
	}
	old_context = MemoryContextSwitchTo(join->fetch_context);
	join->node.fetch = hm_fetch_create(target->table, target->index,
									   join->node.css.ss.ps.state, join->index_only, join->first_rows, NULL);
	join->fetch_target = join->target;
	MemoryContextSwitchTo(old_context);
}

bool
hm_join_next_target(LookupJoin *join)
{
	const Bitmapset *targets = hm_pruning_choose(&join->pruning);

	while ((join->target = bms_next_member(targets, join->target)) >= 0)
	{
		HmProbes	probes = {0};

		if (!join->several_targets)
			join->probes = &join->batch.all;
		else
		{
			choose_probes(join, &join->targets[join->target].share);
			join->probes = &join->batch.chosen;
		}
		if (join->probes->count == 0)
			continue;

		begin_fetch(join);
		probes.count = join->probes->count;
		probes.low = join->probes->low;
		probes.high = join->batch.points ? NULL : join->probes->high;
		hm_fetch_start(join->node.fetch, &probes, join->one_match ? join->probes->done : NULL);
		return true;
	}
	return false;
}
