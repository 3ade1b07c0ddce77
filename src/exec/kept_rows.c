/*
 * kept_rows.c
 *		What a lookup join keeps of the outer rows of a batch.
 *
 * Only columns that are needed after the batch has been filled are kept; none at all for
 * count(*).  A row is an array of Datums, and the rows are one after the other, so a row
 * that is read at random is a cache line or two.  Values that are passed by reference are
 * copied one after the other.  There are no bits for NULLs until the first NULL comes.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "exec/lookup_node.h"

/* The memory for copies is allocated in pieces that double in size. */
#define FIRST_COPIES (64 * 1024)
#define MAX_COPIES (8 * 1024 * 1024)

#define BITS_PER_WORD 64

/*
 * How many hits before its match an outer row is prefetched.  Hits come in the order of
 * keys or of the heap, so their outer rows are scattered over the batch.  A batch with
 * fewer rows fits into the cache.
 */
#define ROW_AHEAD 64
#define AHEAD_MIN_ROWS 1000

void
hm_kept_begin(KeptRows *rows, int count, TupleDesc outer)
{
	rows->null_words = (count + BITS_PER_WORD - 1) / BITS_PER_WORD;
	for (int i = 0; i < count; i++)
	{
		KeptColumn *column = &rows->columns[i];
		Form_pg_attribute attribute = TupleDescAttr(outer, column->source - 1);

		column->by_value = attribute->attbyval;
		column->length = attribute->attlen;
		rows->references |= !attribute->attbyval;
	}
	rows->count = count;
	rows->parent = CurrentMemoryContext;
	rows->context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia lookup join", ALLOCSET_DEFAULT_SIZES);
}

void
hm_kept_reset(KeptRows *rows)
{
	if (rows->context == NULL)
		return;
	MemoryContextReset(rows->context);
	rows->free = NULL;
	rows->left = 0;
	rows->copied = 0;
	rows->nulls = NULL;
}

static inline Size
nulls_size(const KeptRows *rows)
{
	return (Size) rows->room * rows->null_words * sizeof(uint64);
}

void
hm_kept_make_room(KeptRows *rows, uint32 room)
{
	rows->room = room;
	if (rows->count == 0)
		return;
	rows->values =
		hm_resize_large(rows->parent, rows->values, (Size) room * rows->count * sizeof(Datum));
	if (rows->nulls != NULL)
		rows->nulls = repalloc_huge(rows->nulls, nulls_size(rows));
}

/* See that there are bits for NULLs.  Those of rows that come later are cleared with these. */
static void
make_nulls(KeptRows *rows)
{
	Size size = nulls_size(rows);

	if (rows->nulls != NULL)
		return;
	rows->nulls = MemoryContextAllocHuge(rows->context, size);
	memset(rows->nulls, 0, size);
	rows->copied += size;
}

/* Note that a column of a row is NULL. */
static pg_noinline void
set_null(KeptRows *rows, uint32 row, int column)
{
	make_nulls(rows);
	rows->nulls[(Size) row * rows->null_words + column / BITS_PER_WORD] |=
		UINT64CONST(1) << (column % BITS_PER_WORD);
}

/* Copy a value that is passed by reference. */
static Datum
copy_value(KeptRows *rows, const KeptColumn *column, Datum value)
{
	Size size;
	char *copy;

	if (column->length == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
	{
		ExpandedObjectHeader *object = DatumGetEOHP(value);
		MemoryContext old_context = MemoryContextSwitchTo(rows->context);

		size = EOH_get_flat_size(object);
		copy = palloc(size);
		EOH_flatten_into(object, copy, size);
		MemoryContextSwitchTo(old_context);
		rows->copied += size;
		return PointerGetDatum(copy);
	}

	size = datumGetSize(value, false, column->length);
	if (MAXALIGN(size) > rows->left)
	{
		Size piece = Max(FIRST_COPIES, Min(MAX_COPIES, rows->copied));

		piece = Max(piece, MAXALIGN(size));
		rows->free = MemoryContextAllocHuge(rows->context, piece);
		rows->left = piece;
	}
	copy = rows->free;
	memcpy(copy, DatumGetPointer(value), size);
	rows->free += MAXALIGN(size);
	rows->left -= MAXALIGN(size);
	rows->copied += MAXALIGN(size);
	return PointerGetDatum(copy);
}

void
hm_kept_add(KeptRows *rows, uint32 row, TupleTableSlot *outer)
{
	Datum *values = rows->values + (Size) row * rows->count;

	if (rows->nulls != NULL)
		memset(rows->nulls + (Size) row * rows->null_words, 0, rows->null_words * sizeof(uint64));
	for (int i = 0; i < rows->count; i++)
	{
		const KeptColumn *column = &rows->columns[i];
		Datum value = outer->tts_values[column->source - 1];

		if (outer->tts_isnull[column->source - 1])
		{
			values[i] = (Datum) 0;
			set_null(rows, row, i);
		}
		else
			values[i] = column->by_value ? value : copy_value(rows, column, value);
	}
}

/* Copy the values of a row that are passed by reference, and are offsets from "copies" yet. */
static void
copy_references(KeptRows *rows, uint32 row, const char *copies)
{
	for (int i = 0; i < rows->count; i++)
	{
		const KeptColumn *column = &rows->columns[i];
		bool is_null;
		Datum value = hm_row_value(rows, row, i, &is_null);

		if (!column->by_value && !is_null)
			rows->values[(Size) row * rows->count + i] =
				copy_value(rows, column, PointerGetDatum(copies + value));
	}
}

void
hm_kept_add_kept(KeptRows *rows, uint32 row, const Datum *values, const uint64 *nulls,
				 const char *copies, uint32 count)
{
	Size bits = count * (Size) rows->null_words * sizeof(uint64);

	if (nulls != NULL)
		make_nulls(rows);
	if (nulls != NULL)
		memcpy(rows->nulls + (Size) row * rows->null_words, nulls, bits);
	else if (rows->nulls != NULL)
		memset(rows->nulls + (Size) row * rows->null_words, 0, bits);
	memcpy(rows->values + (Size) row * rows->count, values, count * rows->count * sizeof(Datum));
	for (uint32 i = 0; rows->references && i < count; i++)
		copy_references(rows, row + i, copies);
}

void
hm_kept_prefetch(LookupNode *lookup)
{
	const HmRun *run = lookup->run;
	const KeptRows *rows = &lookup->batch.rows;
	const LookupProbes *probes = lookup->probes;
	uint32 probe;

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
