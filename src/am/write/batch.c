/*
 * batch.c
 *		Insert batches: the entries of one statement, applied in key order.
 *
 * The papers collect updates and apply them together, each leaf once.
 * PostgreSQL's natural batch is one large statement.  While such a statement
 * runs, aminsert (insertrow.c) offers its entries to hm_batch_add, which queues them in
 * backend-local memory; they are sorted and inserted later, so that each leaf
 * is locked, changed and logged once for all entries that fall on it.
 *
 * statement.c knows which statements may do that and when the queue has to be
 * applied, and why no reader misses an entry.  This file is about the queue.
 *
 * - No queued entry outlives its tuple.  A tuple of a transaction in progress is
 *	 not removed, except for one that is speculative, and statements with ON
 *	 CONFLICT are not batched.  All queued tuples belong to the subtransaction in
 *	 which the statement began, the scope's owner; the queue is dropped when that
 *	 one aborts, and kept when an inner one does, for the statement goes on.
 *
 * - A failure loses nothing.  An index's entries leave the queue when all of them
 *	 are inserted; inserting one again changes nothing.
 *
 * - Serializable transactions: index_insert looked for conflicting readers when
 *	 the entry was queued.  A reader that came later did not find the entry, so
 *	 a look follows after the insertion: a reader that locks the index after that
 *	 look finds the entry, and a reader that locked it before is found.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "am/fault.h"
#include "am/write/insert.h"

/*
 * Insertions of a scope that are made at once before queueing starts.  Queueing
 * a few does not pay.  The planner's estimate is not used: it knows little about
 * rows that come from a function or a file.
 */
#define BATCH_AFTER_INSERTS 8

/*
 * A queue that has fewer entries when it is applied was useless, and so many are then inserted at
 * once.
 */
#define BATCH_FEW 64

#define BATCH_FIRST_CAPACITY 64 /* small, for there may be many partitions */
#define BATCH_PARTS (HM_PART_NULLS_HIGH + 1)

/* Queued entries of one part of an index. */
typedef struct QueuedPart
{
	char *entries;
	int64 count;
	int64 capacity;
} QueuedPart;

/* Queued entries of one index. */
typedef struct Batch
{
	Oid index;
	char status;    /* for simplehash */
	HtWidth width;  /* of its keys */
	bool unchanged; /* some entries come from UPDATEs that leave their keys as they are */
	int at_once;    /* so many entries are inserted at once before more are queued */
	QueuedPart parts[BATCH_PARTS];
} Batch;

#define SH_PREFIX batch_table
#define SH_ELEMENT_TYPE Batch
#define SH_KEY_TYPE Oid
#define SH_KEY index
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* GUC, in kB.  It includes the memory for sorting, which is as much as that of the queue. */
static int insert_batch_memory = 64 * 1024;

/* The queue: a child of TopTransactionContext, NULL if there is none. */
static MemoryContext batch_context = NULL;
static batch_table_hash *batches = NULL;
static int64 pending = 0;     /* entries in all batches */
static Size pending_size = 0; /* of these, in bytes */

/* Entries of the scope that were inserted at once, before queueing starts. */
static int inserts_at_once = 0;

/*
 * Find an index's batch, made if there is none.  The result is valid until the
 * next call.
 */
static Batch *
batch_for(Relation index)
{
	Batch *batch;
	bool found;

	if (batches == NULL)
	{
		batch_context = AllocSetContextCreate(TopTransactionContext, "harmonia batches",
											  ALLOCSET_DEFAULT_SIZES);
		batches = batch_table_create(batch_context, 16, NULL);
	}

	batch = batch_table_insert(batches, RelationGetRelid(index), &found);
	if (!found)
	{
		batch->width = hm_key_width(index);
		batch->unchanged = false;
		batch->at_once = 0;
		memset(batch->parts, 0, sizeof(batch->parts));
	}
	return batch;
}

/* The bytes of an entry. */
static inline Size
entry_size(const Batch *batch)
{
	return batch->width <= HT_WIDTH64 ? sizeof(HtEntry) : sizeof(HtEntry128);
}

/* Queue an entry, of so many bytes. */
static inline void
queued_append(QueuedPart *queued, const void *entry, Size size)
{
	if (queued->count == queued->capacity)
	{
		int64 capacity = Max(queued->capacity * 2, BATCH_FIRST_CAPACITY);

		if (queued->entries == NULL)
			queued->entries = MemoryContextAlloc(batch_context, capacity * size);
		else
			queued->entries = repalloc_huge(queued->entries, capacity * size);
		queued->capacity = capacity;
	}
	memcpy(queued->entries + queued->count * size, entry, size);
	queued->count++;
	pending++;
	pending_size += size;
}

/* Note that entries have left the queue. */
static void
forget_entries(const Batch *batch, int64 count)
{
	pending -= count;
	pending_size -= count * entry_size(batch);
}

/* Sort the queued entries of a part, and drop all but one of equal ones. */
static void
queued_sort(const Batch *batch, QueuedPart *queued)
{
	int64 kept = HM_FOR_WIDTH(batch->width, hm_sort_queued)(queued->entries, queued->count);

	forget_entries(batch, queued->count - kept);
	queued->count = kept;
}

/* Entries queued for one index. */
static int64
batch_count(const Batch *batch)
{
	int64 count = 0;

	for (int part = 0; part < BATCH_PARTS; part++)
		count += batch->parts[part].count;
	return count;
}

/*
 * Insert a batch's entries into its index and empty it.  The caller holds a
 * lock that allows insertion.  After an error the batch still has them all.
 */
static void
batch_apply(Batch *batch, Relation index)
{
	MemoryContext work;
	MemoryContext old;
	int64 count = batch_count(batch);
	Relation heap = table_open(index->rd_index->indrelid, AccessShareLock);

	/* Scratch space and what the insertion allocates are freed together. */
	work =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia batch apply", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	HM_FAULT(batch_begun);

	for (int part = 0; part < BATCH_PARTS; part++)
	{
		QueuedPart *queued = &batch->parts[part];

		if (queued->count == 0)
			continue;
		queued_sort(batch, queued);
		HM_FOR_WIDTH(batch->width, hm_insert_queued)
		(index, heap, (HmPart) part, queued->entries, queued->count, batch->unchanged);
	}

	HM_FAULT(batch_inserted);

	/* Look after the entries are in the index, see the file head. */
	CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);

	table_close(heap, AccessShareLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);

	/* A statement may change many indexes: keep no memory. */
	forget_entries(batch, batch_count(batch));
	for (int part = 0; part < BATCH_PARTS; part++)
	{
		if (batch->parts[part].entries != NULL)
			pfree(batch->parts[part].entries);
	}
	memset(batch->parts, 0, sizeof(batch->parts));
	batch->unchanged = false;
	HM_FAULT(batch_emptied);

	elog(DEBUG1, "applied " INT64_FORMAT " queued entries to index \"%s\"", count,
		 RelationGetRelationName(index));
}

/* Apply all batches. */
static void
apply_pending(void)
{
	batch_table_iterator iterator;
	Batch *batch;

	batch_table_start_iterate(batches, &iterator);
	while ((batch = batch_table_iterate(batches, &iterator)) != NULL)
	{
		Relation index;

		if (batch_count(batch) == 0)
			continue;

		/* COPY has given up its locks on indexes when its scope ends. */
		index = index_open(batch->index, RowExclusiveLock);
		batch_apply(batch, index);
		index_close(index, RowExclusiveLock);
	}
	Assert(pending == 0);
}

void
hm_batch_discard(void)
{
	if (batches != NULL)
	{
		batches = NULL;
		pending = 0;
		pending_size = 0;
		MemoryContextDelete(batch_context);
		batch_context = NULL;
	}
}

void
hm_batch_begin(void)
{
	inserts_at_once = 0;
}

bool
hm_batch_add(Relation index, Relation heap, IndexInfo *info, IndexUniqueCheck check, HmPart part,
			 const void *entry, bool unchanged)
{
	Batch *batch;

	/* A row of an exclusion constraint is looked for as soon as its entry has been inserted. */
	if (check != UNIQUE_CHECK_NO || info->ii_Concurrent || index->rd_index->indisexclusion ||
		heap->rd_tableam != GetHeapamTableAmRoutine())
		return false;

	if (inserts_at_once < BATCH_AFTER_INSERTS)
	{
		inserts_at_once++;
		return false;
	}

	batch = batch_for(index);
	if (batch->at_once > 0)
	{
		batch->at_once--;
		return false;
	}
	batch->unchanged |= unchanged;
	queued_append(&batch->parts[part], entry, entry_size(batch));

	/* Sorting needs as much memory again. */
	if (2 * pending_size >= (Size) insert_batch_memory * 1024)
		apply_pending();
	return true;
}

/*
 * Apply what is queued for one index, which is going to be scanned.
 *
 * If there are only a few entries, the statement alternates between reading the index and writing
 * it, as an update by a nested loop does.  Make it insert at once into this index for a while, so
 * that useless queueing stays a small part of its work.  Entries of other indexes are queued as
 * before.
 */
void
hm_batch_apply(Relation index)
{
	Batch *batch;

	if (likely(pending == 0))
		return;

	batch = batch_table_lookup(batches, RelationGetRelid(index));
	if (batch != NULL && batch_count(batch) > 0)
	{
		if (batch_count(batch) < BATCH_FEW)
			batch->at_once = BATCH_FEW;
		batch_apply(batch, index);
	}
}

/*
 * Apply what is queued for all indexes.  If there are only a few entries, insert at once for a
 * while, as above, whatever the index.
 */
void
hm_batch_apply_all(void)
{
	if (likely(pending == 0))
		return;

	if (pending < BATCH_FEW)
		inserts_at_once = BATCH_AFTER_INSERTS - BATCH_FEW;
	apply_pending();
}

/* Whether anything is queued for this index. */
bool
hm_batch_pending(Relation index)
{
	Batch *batch;

	if (pending == 0)
		return false;

	batch = batch_table_lookup(batches, RelationGetRelid(index));
	return batch != NULL && batch_count(batch) > 0;
}

void
hm_batch_init(void)
{
	DefineCustomIntVariable(
		"harmonia.insert_batch_memory",
		"Sets the memory for index entries of a statement that wait to be applied.",
		"More memory means fewer, larger batches.", &insert_batch_memory, 64 * 1024, 64,
		MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
}
