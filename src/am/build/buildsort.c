/*
 * buildsort.c
 *		Spools: external sorting of (key, TID) entries for an index build.
 *
 * Entries are collected in pieces of memory.  Each piece is radix-sorted when it is full.
 * A piece is a small fraction of the memory allowed.  So the scratch space for sorting
 * takes only that fraction, and a sort, which cannot be interrupted, is short.  When all
 * pieces are full, they are merged into a sorted run in a temporary file.  At the end,
 * what is in memory and the runs in files are merged while they are read.
 *
 * Input is often in order already, as with a serial key.  So a piece that continues the
 * one before, and a run that continues the one before, are joined with it and need no
 * merging.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "port/pg_bitutils.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#include "am/build/buildsort.h"

/*
 * A temporary file consists of units: so many blocks as entries fill to the last byte.  These are
 * their entries.
 */
#define UNIT_BLOCKS			(HM_KEYS == 64 ? 1 : HM_KEYS / 64 + 1)
#define UNIT_ENTRIES		(UNIT_BLOCKS * BLCKSZ / sizeof(HtEntry))

/*
 * A piece is at most 1/MIN_PIECES of the memory, and small enough to stay in the
 * processor's caches while it is sorted.
 */
#define MIN_PIECES			8
#define MAX_PIECE_SIZE		(512 * 1024)

/* Room for entries that the first piece, which grows, begins with. */
#define PIECE_START			UNIT_ENTRIES

/* Entries read from, or written to, a file at a time. */
#define READ_MAX			(32 * UNIT_ENTRIES)
#define WRITE_MAX			(8 * UNIT_ENTRIES)

/* Entries fetched into the cache ahead of a merge: two cache lines. */
#define PREFETCH_AHEAD		8

/*
 * The most sources that are merged at a time, because the processor can follow only so
 * many; and the entries that an inner merge hands on at a time.
 */
#define MAX_WIDTH			64
#define INNER_MAX			UNIT_ENTRIES

/*
 * The least and the most runs that are merged at a time.  Between these, as many as have
 * a buffer of READ_GOOD entries each.
 */
#define MIN_FAN_IN			8
#define MAX_FAN_IN			1024
#define READ_GOOD			(4 * UNIT_ENTRIES)

/* Sorted entries in memory. */
typedef struct Piece
{
	HtEntry    *entries;
	uint64		n;
	uint64		room;
} Piece;

/* Sorted entries in a file, from the beginning of a unit on. */
typedef struct Run
{
	BufFile    *file;
	int64		unit;
	uint64		n;
} Run;

/* What a merge reads: pieces that continue each other, a run, or another merge. */
typedef struct Source
{
	HtEntry    *next;			/* entries in memory */
	HtEntry    *end;
	Piece	   *piece;			/* pieces to follow */
	Piece	   *piece_end;
	Run			run;			/* what is left to read from the file */
	struct Merge *inner;
	HtEntry    *buffer;			/* for a run or a merge */
	uint64		buffer_size;
	uint64		n;				/* entries in all */
} Source;

/*
 * A node of the tree of losers: an entry, and the number of the source that it comes
 * from, which fits beside the TID.
 */
typedef struct Contender
{
	HT_KEY		key;
	uint64		rest;			/* tid << SOURCE_BITS | source */
} Contender;

#define SOURCE_BITS			(64 - HT_TID_BITS)
#define SOURCE_MASK			((UINT64CONST(1) << SOURCE_BITS) - 1)

/* A merge in progress.  With only one source there is no tree. */
typedef struct Merge
{
	MemoryContext context;		/* of the outermost merge */
	int			nsources;
	Source	   *sources;
	uint64		left;			/* entries left to read */
	int			leaves;			/* of the tree: nsources rounded up */
	Contender  *losers;			/* 1 .. leaves - 1 */
	Contender	winner;
} Merge;

typedef struct HmSpoolState
{
	MemoryContext context;
	uint64		piece_entries;	/* of a full piece */
	int			max_pieces;
	int			npieces;		/* sorted ones; the current one's number */
	Piece	   *pieces;
	HtEntry    *scratch;		/* for sorting */
	BufFile    *spill;			/* runs written so far */
	int64		spill_units;	/* their length */
	HtEntry		spill_last;		/* last entry of the last of them */
	int			nruns;
	int			max_runs;
	Run		   *runs;
	List	   *files;			/* all files in which there are runs */
	uint64		count;
	Merge	   *merge;
} HmSpoolState;

static uint64 merge_read(Merge *merge, HtEntry *out, uint64 max);

/* ----------------------------------------------------------------
 *		Merging
 * ----------------------------------------------------------------
 */

/*
 * Get more entries of a source into memory.  Returns false if there are none.
 */
static bool
source_fill(Source *source)
{
	uint64		n;
	size_t		size;
	size_t		read;

	CHECK_FOR_INTERRUPTS();

	if (source->piece < source->piece_end)
	{
		source->next = source->piece->entries;
		source->end = source->next + source->piece->n;
		source->piece++;
		return true;
	}

	if (source->inner)
		n = merge_read(source->inner, source->buffer, source->buffer_size);
	else
	{
		n = Min(source->run.n, source->buffer_size);
		if (n == 0)
			return false;
		size = n * sizeof(HtEntry);
		if (BufFileSeekBlock(source->run.file, source->run.unit * UNIT_BLOCKS) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not seek to block %lld of temporary file",
							(long long) source->run.unit * UNIT_BLOCKS)));
		read = BufFileRead(source->run.file, source->buffer, size);
		if (read != size)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read block %lld of temporary file: read only %zu of %zu bytes",
							(long long) source->run.unit * UNIT_BLOCKS, read, size)));
		source->run.unit += n / UNIT_ENTRIES;
		source->run.n -= n;
	}
	source->next = source->buffer;
	source->end = source->next + n;
	return n > 0;
}

/* The contender of an exhausted source: above all entries. */
static inline Contender
contender_none(uint64 source)
{
	Contender	result = {KEY_MAX, HT_TID_MAX << SOURCE_BITS | source};

	return result;
}

/*
 * Take a source's next entry.  With many sources the processor does not foresee which
 * entries are needed next, so they are prefetched.
 */
static inline Contender
merge_pop(Merge *merge, uint64 i)
{
	Source	   *source = &merge->sources[i];
	Contender	result;

	if (unlikely(source->next == source->end) && !source_fill(source))
		return contender_none(i);
	result.key = source->next->key;
	result.rest = source->next->tid << SOURCE_BITS | i;
	source->next++;
	__builtin_prefetch(source->next + PREFETCH_AHEAD);
	return result;
}

static inline bool
contender_less(Contender a, Contender b)
{
#if defined(HAVE_INT128) && HM_KEYS == 64
	return ((uint128) a.key << 64 | a.rest) < ((uint128) b.key << 64 | b.rest);
#else
	return (a.key < b.key) | ((a.key == b.key) & (a.rest < b.rest));
#endif
}

/*
 * Let a contender play against the loser of an earlier match: the lesser
 * becomes the winner.  The outcome is unpredictable, so there is no branch.
 */
static inline void
merge_play(Contender *loser, Contender *winner)
{
	HT_KEY		swap = -(HT_KEY) contender_less(*loser, *winner);
	HT_KEY		key = (loser->key ^ winner->key) & swap;
	uint64		rest = (loser->rest ^ winner->rest) & (uint64) swap;

	loser->key ^= key;
	loser->rest ^= rest;
	winner->key ^= key;
	winner->rest ^= rest;
}

/* Make a merge of sources, or of merges of sources if there are many. */
static Merge *
merge_make(Source *sources, int nsources)
{
	Merge	   *merge = palloc0(sizeof(Merge));
	Contender  *winners;
	int			i;

	if (nsources > MAX_WIDTH)
	{
		int			width = (int) ceil(sqrt(nsources));
		Source	   *inner = palloc0(sizeof(Source) * width);
		int			ninner = 0;

		for (i = 0; i < nsources; i += width)
		{
			Source	   *source = &inner[ninner++];

			source->inner = merge_make(&sources[i], Min(width, nsources - i));
			source->buffer_size = INNER_MAX;
			source->buffer = palloc(sizeof(HtEntry) * source->buffer_size);
			source->n = source->inner->left;
		}
		sources = inner;
		nsources = ninner;
	}

	merge->sources = sources;
	merge->nsources = nsources;
	for (i = 0; i < nsources; i++)
		merge->left += sources[i].n;
	if (nsources <= 1)
		return merge;

	/* Play all matches of the tree, in the order in which entries come in. */
	merge->leaves = pg_nextpower2_32(nsources);
	merge->losers = palloc(sizeof(Contender) * merge->leaves);
	winners = palloc(sizeof(Contender) * 2 * merge->leaves);
	for (i = 0; i < merge->leaves; i++)
		winners[merge->leaves + i] = i < nsources ? merge_pop(merge, i) : contender_none(i);
	for (i = merge->leaves - 1; i > 0; i--)
	{
		winners[i] = winners[2 * i];
		merge->losers[i] = winners[2 * i + 1];
		merge_play(&merge->losers[i], &winners[i]);
	}
	merge->winner = winners[1];
	pfree(winners);
	return merge;
}

/*
 * Begin to merge some of the spool's runs and, if asked, its pieces.  The merge
 * lies in a memory context of its own.
 */
static Merge *
merge_begin(HmSpoolState *state, int first_run, int nruns, bool pieces)
{
	MemoryContext context = AllocSetContextCreate(state->context, "harmonia merge",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int			npieces = pieces ? state->npieces : 0;
	Source	   *sources = palloc0(sizeof(Source) * Max(nruns + npieces, 1));
	Source	   *source = sources;
	uint64		buffer_size;
	Merge	   *merge;
	int			i;

	for (i = 0; i < npieces; i++)
	{
		Piece	   *piece = &state->pieces[i];

		if (i > 0 && ht_entry_cmp(piece[-1].entries[piece[-1].n - 1], piece->entries[0]) < 0)
			source--;
		else
			source->piece = piece;
		source->piece_end = piece + 1;
		source->n += piece->n;
		source++;
	}

	/* The scratch space of sorting is now used to read runs. */
	buffer_size = state->piece_entries / Max(nruns, 1);
	buffer_size -= buffer_size % UNIT_ENTRIES;
	buffer_size = Max(buffer_size, UNIT_ENTRIES);
	buffer_size = Min(buffer_size, READ_MAX);
	for (i = 0; i < nruns; i++)
	{
		source->run = state->runs[first_run + i];
		source->n = source->run.n;
		source->buffer_size = buffer_size;
		source->buffer = palloc(sizeof(HtEntry) * buffer_size);
		source++;
	}

	merge = merge_make(sources, source - sources);
	merge->context = context;
	MemoryContextSwitchTo(old);
	return merge;
}

/* Read the next entries; returns less than max only at the end. */
static uint64
merge_read(Merge *merge, HtEntry *out, uint64 max)
{
	uint64		n = Min(max, merge->left);
	HtEntry    *end = out + n;
	Contender	winner = merge->winner;
	Contender  *losers = merge->losers;
	uint64		leaves = merge->leaves;

	if (merge->nsources == 1)
	{
		Source	   *source = merge->sources;

		while (out < end)
		{
			uint64		length;

			if (source->next == source->end && !source_fill(source))
				elog(ERROR, "sorted run ended too early");
			length = Min(source->end - source->next, end - out);
			memcpy(out, source->next, length * sizeof(HtEntry));
			source->next += length;
			out += length;
		}
	}

	while (out < end)
	{
		uint64		i = winner.rest & SOURCE_MASK;
		uint64		node;

		out->key = winner.key;
		out->tid = winner.rest >> SOURCE_BITS;
		out++;
		winner = merge_pop(merge, i);
		for (node = (leaves + i) >> 1; node > 0; node >>= 1)
			merge_play(&losers[node], &winner);
	}

	merge->winner = winner;
	merge->left -= n;
	return n;
}

static void
merge_end(Merge *merge)
{
	MemoryContextDelete(merge->context);
}

/* Append all that a merge has left to a file. */
static void
merge_write(Merge *merge, BufFile *file)
{
	HtEntry    *buffer = palloc(sizeof(HtEntry) * WRITE_MAX);
	uint64		n;

	while ((n = merge_read(merge, buffer, WRITE_MAX)) > 0)
		BufFileWrite(file, buffer, n * sizeof(HtEntry));
	pfree(buffer);
}

/* ----------------------------------------------------------------
 *		Runs
 * ----------------------------------------------------------------
 */

static void
runs_append(HmSpoolState *state, BufFile *file, int64 unit, uint64 n)
{
	Run		   *run;

	if (state->nruns == state->max_runs)
	{
		int			max_runs = Max(16, state->max_runs * 2);

		if (state->runs == NULL)
			state->runs = palloc(sizeof(Run) * max_runs);
		else
			state->runs = repalloc_huge(state->runs, sizeof(Run) * max_runs);
		state->max_runs = max_runs;
	}
	run = &state->runs[state->nruns++];
	run->file = file;
	run->unit = unit;
	run->n = n;
}

/*
 * Merge the pieces into a run in the spill file and empty them.  All pieces are
 * full, and so the run is of whole units.
 */
static void
spool_spill(HmSpoolState *state)
{
	Merge	   *merge;
	HtEntry		first = state->pieces[0].entries[0];
	HtEntry		last = state->pieces[0].entries[state->pieces[0].n - 1];
	uint64		n;
	int			i;

	for (i = 1; i < state->npieces; i++)
	{
		Piece	   *piece = &state->pieces[i];

		if (ht_entry_cmp(piece->entries[0], first) < 0)
			first = piece->entries[0];
		if (ht_entry_cmp(piece->entries[piece->n - 1], last) > 0)
			last = piece->entries[piece->n - 1];
	}

	if (state->spill == NULL)
	{
		state->spill = BufFileCreateTemp(false);
		state->files = lappend(state->files, state->spill);
	}

	merge = merge_begin(state, 0, 0, true);
	n = merge->left;
	merge_write(merge, state->spill);
	merge_end(merge);

	if (state->nruns > 0 && ht_entry_cmp(state->spill_last, first) < 0)
		state->runs[state->nruns - 1].n += n;
	else
		runs_append(state, state->spill, state->spill_units, n);
	Assert(n % UNIT_ENTRIES == 0);
	state->spill_units += n / UNIT_ENTRIES;
	state->spill_last = last;
	state->npieces = 0;
}

/* Runs that can be merged at once, with buffers that are large enough. */
static int
runs_fan_in(HmSpoolState *state)
{
	uint64		fan_in = state->piece_entries / READ_GOOD;

	return (int) Min(Max(fan_in, MIN_FAN_IN), MAX_FAN_IN);
}

/*
 * Merge runs with each other until few enough are left to be merged at once, but no
 * further.
 */
static void
runs_reduce(HmSpoolState *state)
{
	int			fan_in = runs_fan_in(state);

	while (state->nruns > fan_in)
	{
		BufFile    *file = BufFileCreateTemp(false);
		int64		units = 0;
		int			done = 0;	/* runs merged */
		int			made = 0;	/* runs made of them */

		while (made + state->nruns - done > fan_in && done < state->nruns)
		{
			int			excess = made + state->nruns - done - fan_in;
			int			n = Min(Min(fan_in, excess + 1), state->nruns - done);
			Merge	   *merge = merge_begin(state, done, n, false);
			Run			run = {file, units, merge->left};

			merge_write(merge, file);
			merge_end(merge);
			units += run.n / UNIT_ENTRIES;
			if (run.n % UNIT_ENTRIES != 0)
			{
				Size		size = (UNIT_ENTRIES - run.n % UNIT_ENTRIES) * sizeof(HtEntry);
				char	   *zeros = palloc0(size);

				BufFileWrite(file, zeros, size);
				pfree(zeros);
				units++;
			}
			state->runs[made++] = run;
			done += n;
		}

		/* The old files can be closed unless some runs stay in them. */
		if (done == state->nruns)
		{
			ListCell   *cell;

			foreach(cell, state->files)
				BufFileClose((BufFile *) lfirst(cell));
			list_free(state->files);
			state->files = NIL;
		}
		memmove(&state->runs[made], &state->runs[done],
				sizeof(Run) * (state->nruns - done));
		state->nruns -= done - made;
		state->files = lappend(state->files, file);
	}
}

/* ----------------------------------------------------------------
 *		Spools
 * ----------------------------------------------------------------
 */

void
hm_spool_init(HmSpool *spool, MemoryContext context, Size memory)
{
	MemoryContext spool_context = AllocSetContextCreate(context, "harmonia spool",
														ALLOCSET_DEFAULT_SIZES);
	HmSpoolState *state = MemoryContextAllocZero(spool_context, sizeof(HmSpoolState));
	uint64		entries = memory / sizeof(HtEntry);
	uint64		piece_entries;

	state->context = spool_context;
	piece_entries = Min(entries / MIN_PIECES, MAX_PIECE_SIZE);
	piece_entries -= piece_entries % UNIT_ENTRIES;
	state->piece_entries = Max(piece_entries, UNIT_ENTRIES);

	/* The memory of one piece is for scratch space and reading buffers. */
	state->max_pieces = Max(entries / state->piece_entries, MIN_PIECES) - 1;
	state->pieces = MemoryContextAllocZero(state->context, sizeof(Piece) * state->max_pieces);

	spool->next = NULL;
	spool->end = NULL;
	spool->state = state;
}

/* Sort the current piece, which is not empty, and close it. */
static void
spool_sort_piece(HmSpool *spool)
{
	HmSpoolState *state = spool->state;
	Piece	   *piece = &state->pieces[state->npieces];

	piece->n = spool->next - piece->entries;
	Assert(piece->n > 0);

	CHECK_FOR_INTERRUPTS();

	/* If the first piece to be sorted is not full, it is the only one. */
	if (state->scratch == NULL)
		state->scratch = palloc(sizeof(HtEntry) * piece->n);
	ht_sort_entries(piece->entries, state->scratch, piece->n);
	state->count += piece->n;
	state->npieces++;
}

void
hm_spool_make_room(HmSpool *spool)
{
	HmSpoolState *state = spool->state;
	MemoryContext old = MemoryContextSwitchTo(state->context);
	Piece	   *piece = &state->pieces[state->npieces];
	uint64		used = piece->room;

	if (used == state->piece_entries)
	{
		spool_sort_piece(spool);
		if (state->npieces == state->max_pieces)
			spool_spill(state);
		piece = &state->pieces[state->npieces];
		used = 0;
	}

	/* The first piece grows, so that small tables need little memory. */
	if (piece->room == 0)
	{
		piece->room = state->npieces == 0 ? PIECE_START : state->piece_entries;
		piece->entries = palloc(sizeof(HtEntry) * piece->room);
	}
	else if (used > 0)
	{
		piece->room = Min(piece->room * 2, state->piece_entries);
		piece->entries = repalloc(piece->entries, sizeof(HtEntry) * piece->room);
	}

	spool->next = piece->entries + used;
	spool->end = piece->entries + piece->room;
	MemoryContextSwitchTo(old);
}

void
hm_spool_sort(HmSpool *spool)
{
	HmSpoolState *state = spool->state;
	MemoryContext old = MemoryContextSwitchTo(state->context);
	int			i;

	/* Once anything was added, there is something in the current piece. */
	if (spool->end != NULL)
		spool_sort_piece(spool);
	spool->next = spool->end = NULL;

	for (i = state->npieces; i < state->max_pieces; i++)
	{
		if (state->pieces[i].entries)
			pfree(state->pieces[i].entries);
		state->pieces[i].entries = NULL;
	}
	if (state->scratch)
		pfree(state->scratch);
	state->scratch = NULL;
	MemoryContextSwitchTo(old);
}

void
hm_spool_add_run(HmSpool *spool, BufFile *file, uint64 n)
{
	HmSpoolState *state = spool->state;
	MemoryContext old = MemoryContextSwitchTo(state->context);

	state->files = lappend(state->files, file);
	runs_append(state, file, 0, n);
	state->count += n;
	MemoryContextSwitchTo(old);
}

bool
hm_spool_needs_merge(HmSpool *spool)
{
	return spool->state->nruns > runs_fan_in(spool->state);
}

void
hm_spool_merge(HmSpool *spool)
{
	HmSpoolState *state = spool->state;
	MemoryContext old = MemoryContextSwitchTo(state->context);

	runs_reduce(state);
	state->merge = merge_begin(state, 0, state->nruns, true);
	MemoryContextSwitchTo(old);
}

uint64
hm_spool_count(HmSpool *spool)
{
	return spool->state->count;
}

uint64
hm_spool_read(HmSpool *spool, HtEntry *out, uint64 max)
{
	return merge_read(spool->state->merge, out, max);
}

void
hm_spool_write(HmSpool *spool, BufFile *file)
{
	merge_write(spool->state->merge, file);
}

void
hm_spool_end(HmSpool *spool)
{
	HmSpoolState *state = spool->state;
	ListCell   *cell;

	foreach(cell, state->files)
		BufFileClose((BufFile *) lfirst(cell));
	MemoryContextDelete(state->context);
}
