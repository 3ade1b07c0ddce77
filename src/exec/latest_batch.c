/*
 * latest_batch.c
 *		Batches of a latest join: the last or first rows of many ranges of an index.
 *
 * Each outer row is a range of keys.  A round looks up some entries of all ranges at that end
 * where the scan begins, and fetches their rows in the order of the heap: as many of each range as
 * are still wanted, so that no row is looked at that the scan would not reach.  Where rows are
 * invisible or do not satisfy the scan's conditions, the entries that follow come next.  Ranges
 * that have not enough entries in a round are looked up again in the next one, which takes more of
 * each. Few ranges go on after the last round: these are left to the scan.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/am.h"
#include "am/keyarray.h"
#include "compat.h"
#include "exec/latest.h"
#include "lookup/lookup.h"

/* Each round takes so many times as many entries of a range, up to a number. */
#define ROUND_GROWTH 8
#define MOST_ENTRIES 4096

/* The entries of a round. */
#define ROUND_ENTRIES (1024 * 1024)

/* The fewest rows that a batch has room for. */
#define LEAST_ROOM 64

/* The memory in bytes that a batch takes for each row, without what its columns have. */
#define ROW_MEMORY 128

/* The ranges of a round that have not enough rows, by their numbers in the round. */
typedef struct Round
{
	HmEnds ends;
	uint32 *rows;      /* the outer row of each range */
	uint32 *next;      /* the first entry that has not been fetched */
	uint32 *left;      /* ranges that want more */
	uint32 left_count; /* of these */

	/* Candidates: entries of these that are fetched together */
	HmHit *hits;
	uint32 *ranges;
	uint32 *numbers; /* of found rows, plus 1; or 0 */
} Round;

/* ----------------------------------------------------------------
 *		Outer rows
 * ----------------------------------------------------------------
 */

/* Prepare to keep all columns of rows. */
static void
keep_all(KeptRows *rows, TupleDesc desc)
{
	rows->columns = palloc0(Max(desc->natts, 1) * sizeof(KeptColumn));
	for (int i = 0; i < desc->natts; i++)
		rows->columns[i].source = (AttrNumber) (i + 1);
	hm_kept_begin(rows, desc->natts, desc);
}

void
hm_latest_batch_begin(LatestBatch *batch, EState *estate, TupleDesc outer)
{
	ScanState *scan = &batch->scan->ss;

	batch->context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia latest join", ALLOCSET_DEFAULT_SIZES);
	batch->key_size = hm_key_size(batch->fields.width);
	batch->fetch = hm_fetch_create(scan->ss_currentRelation, batch->index, estate, false, false,
								   scan->ss_ScanTupleSlot);
	keep_all(&batch->outer, outer);
	keep_all(&batch->found, ExecGetResultType(&scan->ps));
}

/* The memory that a batch takes for an outer row. */
static Size
row_memory(const LatestBatch *batch)
{
	return ROW_MEMORY +
		   (batch->outer.count + batch->wanted * (batch->found.count + 1)) * sizeof(Datum) +
		   (batch->wanted + batch->entries) * sizeof(HmHit);
}

void
hm_latest_batch_reset(LatestBatch *batch, uint32 room)
{
	MemoryContext old;
	Size copied = batch->count > 0 ? batch->found.copied / batch->count : 0;
	Size most = work_mem * INT64CONST(1024) / (row_memory(batch) + copied);

	batch->count = batch->found_count = 0;
	hm_kept_reset(&batch->outer);
	hm_kept_reset(&batch->found);
	if (room == 0)
		return;
	room = (uint32) Min(room, Max(LEAST_ROOM, most));
	if (room == batch->room)
		return;
	MemoryContextReset(batch->context);
	old = MemoryContextSwitchTo(batch->context);
	batch->room = room;
	hm_kept_make_room(&batch->outer, room);
	batch->low = palloc(room * sizeof(HmKey));
	batch->high = palloc(room * sizeof(HmKey));
	batch->rows = palloc_extended((Size) room * batch->wanted * sizeof(uint32), MCXT_ALLOC_HUGE);
	batch->counts = palloc(room * sizeof(uint32));
	batch->incomplete = palloc(room * sizeof(bool));
	MemoryContextSwitchTo(old);
}

bool
hm_latest_batch_has_room(const LatestBatch *batch)
{
	return batch->count < batch->room &&
		   (batch->count == 0 || batch->outer.copied < work_mem * INT64CONST(1024));
}

/* The range of keys of an outer row.  Returns false if it has none. */
static bool
row_range(const LatestBatch *batch, uint32 row, HmKey *low, HmKey *high)
{
	ExprContext *econtext = batch->scan->ss.ps.ps_ExprContext;
	HmKey equal[HM_MAX_KEY_COLUMNS];
	int count = 0;
	const HmField *next = NULL; /* the column after those compared for equality, and its span */
	HmKey least = 0;
	HmKey most = 0;

	ResetExprContext(econtext);
	hm_latest_batch_set_params(batch, row);
	for (int i = 0; i < batch->key_count; i++)
	{
		const LatestKey *key = &batch->keys[i].key;
		const HmField *field = &batch->fields.fields[key->column];
		bool is_null;
		Datum datum = ExecEvalExprSwitchContext(batch->keys[i].value, econtext, &is_null);
		HmKey value;

		if (is_null)
			return false;
		value = field->type->normalise(datum);
		if (key->strategy == BTEqualStrategyNumber)
		{
			equal[count++] = value;
			continue;
		}
		if (next == NULL)
		{
			least = field->type->least;
			most = least + ht_key_ones_128(field->type->bits);
		}
		next = field;
		if (key->strategy < BTEqualStrategyNumber)
			most = Min(most, value);
		else
			least = Max(least, value);
	}
	hm_compose_key(&batch->fields, equal, count, low, high);
	if (next != NULL && least > most)
		return false;
	if (next != NULL && hm_field_is_ordered(next))
	{
		HmSpan span = hm_field_span(next, least, most);

		*high = *low | span.high << next->shift | ht_key_ones_128(next->shift);
		*low |= span.low << next->shift;
	}
	return true;
}

void
hm_latest_batch_add(LatestBatch *batch, TupleTableSlot *slot)
{
	HmKey low, high;

	slot_getallattrs(slot);
	hm_kept_add(&batch->outer, batch->count, slot);
	if (!row_range(batch, batch->count, &low, &high))
	{
		low = 1;
		high = 0;
	}
	hm_key_put(batch->low, batch->key_size, batch->count, low);
	hm_key_put(batch->high, batch->key_size, batch->count++, high);
}

void
hm_latest_load(const KeptRows *rows, uint32 row, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	memcpy(slot->tts_values, rows->values + (Size) row * rows->count, rows->count * sizeof(Datum));
	if (rows->nulls == NULL)
		memset(slot->tts_isnull, false, rows->count * sizeof(bool));
	else
	{
		for (int i = 0; i < rows->count; i++)
			(void) hm_row_value(rows, row, i, &slot->tts_isnull[i]);
	}
	ExecStoreVirtualTuple(slot);
}

void
hm_latest_batch_set_params(const LatestBatch *batch, uint32 row)
{
	ParamExecData *params = batch->scan->ss.ps.ps_ExprContext->ecxt_param_exec_vals;
	ListCell *cell;

	foreach (cell, batch->loop->nestParams)
	{
		const NestLoopParam *item = lfirst_node(NestLoopParam, cell);
		ParamExecData *param = &params[item->paramno];

		param->value =
			hm_row_value(&batch->outer, row, item->paramval->varattno - 1, &param->isnull);
	}
}

/* ----------------------------------------------------------------
 *		Rows of the table
 * ----------------------------------------------------------------
 */

/* Whether the tuple in the scan's slot satisfies the scan's conditions for an outer row. */
static bool
satisfies(const LatestBatch *batch, uint32 row)
{
	IndexScanState *scan = batch->scan;
	ExprContext *econtext = scan->ss.ps.ps_ExprContext;

	ResetExprContext(econtext);
	econtext->ecxt_scantuple = scan->ss.ss_ScanTupleSlot;
	if (batch->needs_params)
		hm_latest_batch_set_params(batch, row);
	if (!batch->keys_decide && !ExecQual(scan->indexqualorig, econtext))
		return false;
	return ExecQual(scan->ss.ps.qual, econtext);
}

/* Keep what the scan returns of the tuple in its slot.  Returns its number. */
static uint32
keep_found(LatestBatch *batch)
{
	ProjectionInfo *projection = batch->scan->ss.ps.ps_ProjInfo;
	TupleTableSlot *slot =
		projection != NULL ? ExecProject(projection) : batch->scan->ss.ss_ScanTupleSlot;

	if (batch->found_count == batch->found.room)
		hm_kept_make_room(&batch->found, Max(LEAST_ROOM, batch->found.room * 2));
	slot_getallattrs(slot);
	hm_kept_add(&batch->found, batch->found_count, slot);
	return batch->found_count++;
}

/* Choose the candidates: of each range as many as are wanted.  Returns their number. */
static uint32
choose_candidates(const LatestBatch *batch, Round *round)
{
	const HmEnds *ends = &round->ends;
	uint32 count = 0;
	uint32 kept = 0;

	for (uint32 i = 0; i < round->left_count; i++)
	{
		uint32 range = round->left[i];
		uint32 wanted = batch->wanted - batch->counts[round->rows[range]];
		uint32 end = Min(ends->found[range], round->next[range] + wanted);

		if (wanted == 0 || end == round->next[range])
			continue;
		round->left[kept++] = range;
		for (; round->next[range] < end; round->next[range]++)
		{
			round->ranges[count] = range;
			round->numbers[count] = 0;
			round->hits[count].probe = count;
			round->hits[count++].tid = ends->tids[(Size) range * ends->most + round->next[range]];
		}
	}
	round->left_count = kept;
	return count;
}

/* Fetch the candidates, and keep what is found. */
static void
fetch_candidates(LatestBatch *batch, Round *round, uint32 count)
{
	const HmRun *run;

	hm_fetch_start_hits(batch->fetch, round->hits, count);
	while ((run = hm_fetch_run(batch->fetch)) != NULL)
	{
		for (uint32 i = 0; i < run->count; i++)
		{
			uint32 candidate = run->probes[i];

			hm_fetch_store(batch->fetch, i);
			if (satisfies(batch, round->rows[round->ranges[candidate]]))
				round->numbers[candidate] = keep_found(batch) + 1;
		}
	}
	for (uint32 i = 0; i < count; i++)
	{
		uint32 row = round->rows[round->ranges[i]];

		if (round->numbers[i] > 0)
			batch->rows[(Size) row * batch->wanted + batch->counts[row]++] = round->numbers[i] - 1;
	}
}

/* ----------------------------------------------------------------
 *		Rounds
 * ----------------------------------------------------------------
 */

/* Allocate a round of so many ranges, and so many entries of each. */
static void
begin_round(Round *round, uint32 count, uint32 entries)
{
	HmEnds *ends = &round->ends;

	ends->count = 0;
	ends->most = entries;
	ends->low = palloc(count * sizeof(HmKey));
	ends->high = palloc(count * sizeof(HmKey));
	ends->tids = palloc_extended((Size) count * entries * sizeof(uint64), MCXT_ALLOC_HUGE);
	ends->found = palloc(count * sizeof(uint32));
	ends->complete = palloc(count * sizeof(bool));
	round->rows = palloc(count * sizeof(uint32));
	round->left = palloc(count * sizeof(uint32));
	round->next = palloc0(count * sizeof(uint32));
}

/* Look up a round's entries, and fetch what is wanted of them. */
static void
answer_round(LatestBatch *batch, Round *round)
{
	HmEnds *ends = &round->ends;
	Size candidates = (Size) ends->count * Min(ends->most, batch->wanted);
	uint32 count;

	hm_lookup_ends(batch->index, batch->scan->ss.ps.state->es_snapshot, ends);
	round->hits = palloc_extended(candidates * sizeof(HmHit), MCXT_ALLOC_HUGE);
	round->ranges = palloc_extended(candidates * sizeof(uint32), MCXT_ALLOC_HUGE);
	round->numbers = palloc_extended(candidates * sizeof(uint32), MCXT_ALLOC_HUGE);
	while ((count = choose_candidates(batch, round)) > 0)
		fetch_candidates(batch, round, count);
}

/*
 * A round for the rows that are incomplete, which takes so many entries of each.  Returns how many
 * are still incomplete.
 */
static uint32
do_round(LatestBatch *batch, uint32 count, uint32 entries)
{
	Round round;
	HmEnds *ends = &round.ends;
	uint32 incomplete = 0;

	begin_round(&round, count, entries);
	ends->backward = batch->backward;
	for (uint32 row = 0; row < batch->count; row++)
	{
		if (!batch->incomplete[row])
			continue;
		hm_key_put((void *) ends->low, batch->key_size, ends->count,
				   hm_key_get(batch->low, batch->key_size, row));
		hm_key_put((void *) ends->high, batch->key_size, ends->count,
				   hm_key_get(batch->high, batch->key_size, row));
		batch->counts[row] = 0;
		round.left[ends->count] = ends->count;
		round.rows[ends->count++] = row;
	}
	round.left_count = count;
	answer_round(batch, &round);
	for (uint32 i = 0; i < count; i++)
	{
		uint32 row = round.rows[i];

		batch->incomplete[row] = batch->counts[row] < batch->wanted && !ends->complete[i];
		incomplete += batch->incomplete[row];
	}
	return incomplete;
}

void
hm_latest_batch_look_up(LatestBatch *batch)
{
	MemoryContext context =
		AllocSetContextCreate(batch->context, "harmonia latest rounds", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	uint32 left = batch->count;
	uint32 entries = batch->entries;

	memset(batch->incomplete, true, batch->count * sizeof(bool));
	while (left > 0)
	{
		uint32 next;

		MemoryContextReset(context);
		left = do_round(batch, left, entries);
		next = Min(entries * ROUND_GROWTH, MOST_ENTRIES);
		if (next <= entries || (Size) next * left > ROUND_ENTRIES)
			break;
		entries = next;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

void
hm_latest_batch_end(LatestBatch *batch)
{
	hm_fetch_end(batch->fetch);
	index_close(batch->index, NoLock);
}
