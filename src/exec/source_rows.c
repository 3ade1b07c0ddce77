/*
 * source_rows.c
 *		A source of probes: the rows of a plan.
 *
 * A batch has as many rows as harmonia.batch_size and memory allow, because each batch may
 * visit the same pages of index and table again.  Where the first rows are wanted soon, or in the
 * order of the outer side, the first batch has as many rows as a LIMIT is expected to take, or a
 * single one, and each next one is larger, because the rest of a batch is wasted if the join is
 * not read to its end.  In a parallel join, a batch has only a part of a process's share of the
 * rows, so that all processes end at about the same time.
 */
#include "postgres.h"

#include "exec/lookup_node.h"

/* How many times larger each next batch may be, where they grow. */
#define FIRST_ROWS_GROWTH 4

/* Rows to make room for at first, and how many times more if there is none left. */
#define MIN_ROOM 64
#define ROOM_GROWTH 4

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

Size
hm_row_memory(const LookupNode *lookup)
{
	Size key_size = lookup->batch.all.key_size;
	Size probe = probe_memory(key_size) + (lookup->plain_key ? 0 : key_size);
	Size columns = hm_keeps_columns(lookup) ? lookup->key_count * sizeof(HmKey) + sizeof(uint8) : 0;

	return hm_lookup_probe_memory(key_size) + lookup->batch.rows.count * sizeof(Datum) + probe +
		   columns + hm_chosen_memory(lookup) +
		   (lookup->several_targets && !lookup->plain_key ? key_size : 0);
}

uint32
hm_join_batch_rows(Size key_size, Size width, bool index_only)
{
	return (uint32) Min((Size) hm_batch_size,
						hm_fetch_leaves_memory(index_only) /
							(hm_lookup_probe_memory(key_size) + probe_memory(key_size) + width));
}

/*
 * Make room for more rows in the batch.  Memory is in the query's context, and is kept
 * for later batches.
 */
static void
make_room(LookupNode *lookup, Size room)
{
	LookupBatch *batch = &lookup->batch;
	MemoryContext context = lookup->node.css.ss.ps.state->es_query_cxt;

	hm_kept_make_room(&batch->rows, (uint32) room);
	if (lookup->one_match || lookup->keeps_unmatched)
		batch->matched = hm_resize_large(context, batch->matched, room);
	hm_make_probes_room(lookup, &batch->all, batch->all.key_size, (uint32) room);
	if (hm_keeps_columns(lookup))
	{
		batch->column_keys =
			hm_resize_large(context, batch->column_keys, room * lookup->key_count * sizeof(HmKey));
		batch->single_columns = hm_resize_large(context, batch->single_columns, room);
	}
	if (batch->all_rows != NULL)
		batch->all_rows = hm_resize_large(context, batch->all_rows, room * sizeof(uint32));
	if (batch->all.rows != NULL)
		batch->all.rows = batch->all_rows;
	batch->room = (uint32) room;
}

void
hm_rows_make_room(LookupNode *lookup, uint32 rows)
{
	if (rows > lookup->batch.room)
		make_room(lookup, rows);
}

/* ----------------------------------------------------------------
 *		Filling a batch
 * ----------------------------------------------------------------
 */

/* From now on, the batch's probes say which row they are of. */
static void
name_rows(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;

	if (batch->all_rows == NULL)
		batch->all_rows = hm_resize_large(lookup->node.css.ss.ps.state->es_query_cxt, NULL,
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
add_row(LookupNode *lookup, TupleTableSlot *outer)
{
	LookupBatch *batch = &lookup->batch;
	LookupProbes *probes = &batch->all;
	HmKey low;
	HmKey high = 0; /* keep the compiler quiet */
	bool found;

	if (batch->count == batch->room)
		make_room(lookup, Max(MIN_ROOM, Min((Size) batch->room * ROOM_GROWTH, lookup->max_limit)));
	if (lookup->plain_key)
		found = hm_plain_key(lookup, outer, &low);
	else
		found = hm_row_range(lookup, outer, &low, &high);
	if (!found && !lookup->keeps_unmatched)
		return;

	if (found)
	{
		if (probes->rows != NULL)
			probes->rows[probes->count] = batch->count;
		if (lookup->plain_key)
			hm_key_put(probes->low, probes->key_size, probes->count++, low);
		else
			hm_put_range(lookup, probes, probes->count++, low, high);
	}
	else if (probes->rows == NULL)
		name_rows(lookup);
	if (batch->matched != NULL)
		batch->matched[batch->count] = 0;
	if (batch->rows.count > 0)
		hm_kept_add(&batch->rows, batch->count, outer);
	batch->count++;
}

/* Whether another row may be added to the batch.  Copies may use up its memory early. */
static inline bool
may_add_row(const LookupNode *lookup, Size memory)
{
	const LookupBatch *batch = &lookup->batch;

	if (batch->count == lookup->limit || lookup->outer_done)
		return false;
	return batch->rows.copied == 0 || batch->count == 0 ||
		   batch->rows.copied + batch->count * hm_row_memory(lookup) <= memory;
}

/* A batch's rows have come: the next one may be larger. */
static void
grow(LookupNode *lookup)
{
	lookup->limit = (uint32) Min((uint64) lookup->limit * FIRST_ROWS_GROWTH, lookup->max_limit);
}

void
hm_rows_read(LookupNode *lookup)
{
	LookupBatch *batch = &lookup->batch;
	Size memory = hm_fetch_leaves_memory(lookup->plan.index_only);

	while (may_add_row(lookup, memory))
	{
		TupleTableSlot *outer;

		if (batch->count < batch->room && hm_rows_add_page(lookup) > 0)
			continue;
		outer = hm_plan_rows_next(&lookup->outer);
		if (outer == NULL)
		{
			lookup->outer_done = true;
			break;
		}
		add_row(lookup, outer);
	}
}

static void
fill(LookupNode *lookup)
{
	if (lookup->node.shared != NULL && !lookup->plan.first_rows)
	{
		Plan *outer = linitial(((CustomScan *) lookup->node.css.ss.ps.plan)->custom_plans);

		lookup->limit = hm_node_reserve_rows(&lookup->node, outer->plan_rows, lookup->max_limit);
	}
	hm_rows_read(lookup);
	grow(lookup);
}

static void
restart(LookupNode *lookup, const Bitmapset *changed)
{
	hm_rows_begin_anew(lookup);
	hm_plan_rows_begin(&lookup->outer);
}

const LookupSource hm_source_rows = {
	.restart = restart,
	.fill = fill,
};

void
hm_rows_begin_anew(LookupNode *lookup)
{
	Size memory = hm_fetch_leaves_memory(lookup->plan.index_only);

	lookup->max_limit = (uint32) Min((Size) hm_batch_size, memory / hm_row_memory(lookup));
	lookup->limit = lookup->plan.first_batch > 0 ?
						Min((uint32) lookup->plan.first_batch, lookup->max_limit) :
						lookup->max_limit;
	lookup->outer_done = false;
}

bool
hm_rows_may_add(const LookupNode *lookup)
{
	return may_add_row(lookup, hm_fetch_leaves_memory(lookup->plan.index_only));
}

void
hm_rows_add(LookupNode *lookup, TupleTableSlot *row)
{
	add_row(lookup, row);
}

void
hm_rows_finish(LookupNode *lookup)
{
	grow(lookup);
}
