/*
 * buildscan.c
 *		Scanning a table for an index build, alone or with parallel workers.
 *
 * Workers and the leader divide the table's blocks among themselves.  Each worker sorts
 * its entries and leaves them, as one sorted run, in a file of a shared file set.  The
 * leader merges these runs with its own entries, which stay in memory if they fit.  The
 * shared files are deleted with the parallel context, so the leader stays in parallel
 * mode until the build has read all entries.
 */
#include "postgres.h"

#include <fcntl.h>

#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/sharedfileset.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "am/build/buildsort.h"
#include "am/build/build.h"
#include "compat.h"

/* The fraction of the memory, 1/16, for NULL keys, which are usually few. */
#define NULLS_SHARE		16

/* The shared memory of a parallel build. */
#define KEY_BUILD			UINT64CONST(0x4852000000000001)
#define KEY_SCAN			UINT64CONST(0x4852000000000002)
#define KEY_RESULTS			UINT64CONST(0x4852000000000003)
#define KEY_WAL_USAGE		UINT64CONST(0x4852000000000004)
#define KEY_BUFFER_USAGE	UINT64CONST(0x4852000000000005)
#define KEY_QUERY_TEXT		UINT64CONST(0x4852000000000006)

typedef struct SharedBuild
{
	/* Constant while workers run. */
	Oid			heap;
	Oid			index;
	bool		concurrent;
	int			participants;	/* as planned, the leader included */
	uint64		query_id;

	SharedFileSet files;

	ConditionVariable finished_cv;
	slock_t		mutex;			/* protects what follows */
	int			finished;		/* workers that are done */
	double		heap_tuples;	/* tuples that they have scanned */
	bool		broken_hot_chain;
} SharedBuild;

/* Entries in the files of one worker. */
typedef struct WorkerResult
{
	uint64		keys;
	uint64		nulls;
} WorkerResult;

/* The leader's state of a parallel build. */
typedef struct Leader
{
	ParallelContext *context;
	Snapshot	snapshot;
	SharedBuild *shared;
	ParallelTableScanDesc scan;
	WorkerResult *results;
} Leader;

struct HmBuildSort
{
	MemoryContext context;
	HmSpool		keys;
	HmSpool		nulls;
	HmFields	fields;
	Leader	   *leader;			/* NULL in a worker, and if there are no workers */
};

extern PGDLLEXPORT void hm_build_worker_main(dsm_segment *segment, shm_toc *toc);

/* ----------------------------------------------------------------
 *		What leader and workers have in common
 * ----------------------------------------------------------------
 */

/* Begin a sort that may use 1/shares of maintenance_work_mem. */
static HmBuildSort *
sort_begin(Relation index, int shares)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "harmonia build",
												  ALLOCSET_DEFAULT_SIZES);
	HmBuildSort *sort = MemoryContextAllocZero(context, sizeof(HmBuildSort));
	Size		memory = (Size) maintenance_work_mem * 1024 / shares;

	sort->context = context;
	hm_fields_plan(index, &sort->fields);
	hm_spool_init(&sort->keys, context, memory - memory / NULLS_SHARE);
	hm_spool_init(&sort->nulls, context, memory / NULLS_SHARE);
	return sort;
}

static void
scan_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull,
			  bool alive, void *arg)
{
	HmBuildSort *sort = arg;
	HmKey		key;
	HmSpool    *spool = hm_row_key(&sort->fields, values, isnull, &key) ? &sort->keys : &sort->nulls;

	hm_spool_add(spool, (HT_KEY) key, hm_tid_pack(tid));
}

/* Scan and sort the table, or this process's share of it. */
static double
sort_scan(HmBuildSort *sort, Relation heap, Relation index, IndexInfo *info,
		  bool progress, TableScanDesc scan)
{
	double		heap_tuples = scan == NULL && hm_build_scans_pages(heap, info) ?
		hm_build_scan_pages(heap, index, info, progress, scan_callback, sort) :
		table_index_build_scan(heap, index, info, true, progress, scan_callback, sort, scan);

	if (progress)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, HM_BUILD_PHASE_SORT);
	hm_spool_sort(&sort->keys);
	hm_spool_sort(&sort->nulls);
	return heap_tuples;
}

/* ----------------------------------------------------------------
 *		Workers
 * ----------------------------------------------------------------
 */

/* The name of a worker's file. */
static void
worker_file_name(char *name, Size size, bool nulls, int worker)
{
	snprintf(name, size, "%s.%d", nulls ? "nulls" : "keys", worker);
}

/* Write a worker's entries to a file of the shared set.  Returns their number. */
static uint64
worker_export(HmSpool *spool, SharedFileSet *files, bool nulls)
{
	char		name[MAXPGPATH];
	BufFile    *file;

	if (hm_spool_count(spool) == 0)
		return 0;
	worker_file_name(name, sizeof(name), nulls, ParallelWorkerNumber);
	file = BufFileCreateFileSet(&files->fs, name);
	hm_spool_merge(spool);
	hm_spool_write(spool, file);
	BufFileExportFileSet(file);
	BufFileClose(file);
	return hm_spool_count(spool);
}

/* The entry point of a parallel worker. */
void
hm_build_worker_main(dsm_segment *segment, shm_toc *toc)
{
	SharedBuild *shared = shm_toc_lookup(toc, KEY_BUILD, false);
	WorkerResult *result = shm_toc_lookup(toc, KEY_RESULTS, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	ParallelTableScanDesc scan = shm_toc_lookup(toc, KEY_SCAN, false);
	LOCKMODE	heap_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
	LOCKMODE	index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	HmBuildSort *sort;
	double		heap_tuples;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY_TEXT, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	pgstat_report_query_id(shared->query_id, false);

	SharedFileSetAttach(&shared->files, segment);

	/* The leader has these locks, so a worker gets them at once. */
	heap = table_open(shared->heap, heap_lock);
	index = index_open(shared->index, index_lock);

	InstrStartParallelQuery();

	info = BuildIndexInfo(index);
	info->ii_Concurrent = shared->concurrent;
	sort = sort_begin(index, shared->participants);
	heap_tuples = sort_scan(sort, heap, index, info, false,
							hm_beginscan_parallel(heap, scan));
	result += ParallelWorkerNumber;
	result->keys = worker_export(&sort->keys, &shared->files, false);
	result->nulls = worker_export(&sort->nulls, &shared->files, true);
	hm_build_sort_end(sort);

	SpinLockAcquire(&shared->mutex);
	shared->finished++;
	shared->heap_tuples += heap_tuples;
	shared->broken_hot_chain |= info->ii_BrokenHotChain;
	SpinLockRelease(&shared->mutex);
	ConditionVariableSignal(&shared->finished_cv);

	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);
	index_close(index, index_lock);
	table_close(heap, heap_lock);
}

/* ----------------------------------------------------------------
 *		The leader
 * ----------------------------------------------------------------
 */

/* Leave parallel mode; the workers have finished, or will do so soon. */
static void
leader_end(Leader *leader)
{
	ParallelContext *context = leader->context;

	if (leader->shared)
	{
		WalUsage   *wal_usage = shm_toc_lookup(context->toc, KEY_WAL_USAGE, false);
		BufferUsage *buffer_usage = shm_toc_lookup(context->toc, KEY_BUFFER_USAGE, false);
		int			i;

		WaitForParallelWorkersToFinish(context);
		for (i = 0; i < context->nworkers_launched; i++)
			InstrAccumParallelQuery(&buffer_usage[i], &wal_usage[i]);
	}
	if (IsMVCCSnapshot(leader->snapshot))
		UnregisterSnapshot(leader->snapshot);
	DestroyParallelContext(context);
	ExitParallelMode();
	pfree(leader);
}

/* Estimate what the workers share, and make the memory for it.  Returns false if there is none. */
static bool
make_shared_memory(ParallelContext *context, int workers, Size scan_size, Size query_size)
{
	shm_toc_estimate_chunk(&context->estimator, sizeof(SharedBuild));
	shm_toc_estimate_chunk(&context->estimator, scan_size);
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(WorkerResult), workers));
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(WalUsage), workers));
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(BufferUsage), workers));
	shm_toc_estimate_chunk(&context->estimator, query_size);
	shm_toc_estimate_keys(&context->estimator, 6);
	InitializeParallelDSM(context);
	return context->seg != NULL;
}

static SharedBuild *
make_shared_build(ParallelContext *context, Relation heap, Relation index, bool concurrent, int workers)
{
	SharedBuild *shared = shm_toc_allocate(context->toc, sizeof(SharedBuild));

	memset(shared, 0, sizeof(SharedBuild));
	shared->heap = RelationGetRelid(heap);
	shared->index = RelationGetRelid(index);
	shared->concurrent = concurrent;
	shared->participants = workers + 1;
	shared->query_id = pgstat_get_my_query_id();
	SharedFileSetInit(&shared->files, context->seg);
	ConditionVariableInit(&shared->finished_cv);
	SpinLockInit(&shared->mutex);
	shm_toc_insert(context->toc, KEY_BUILD, shared);
	return shared;
}

/*
 * Enter parallel mode and launch workers.  If no worker can be launched: returns
 * NULL, and the backend is not in parallel mode.
 */
static Leader *
leader_begin(Relation heap, Relation index, bool concurrent, int workers)
{
	Leader	   *leader = palloc0(sizeof(Leader));
	Size		query_size = debug_query_string ? strlen(debug_query_string) + 1 : 0;
	ParallelContext *context;
	Size		scan_size;

	EnterParallelMode();
	context = CreateParallelContext("harmonia", CppAsString2(hm_build_worker_main), workers);
	leader->context = context;

	/*
	 * A concurrent build indexes what is visible to a snapshot, any other build
	 * all tuples that might be visible to any snapshot.
	 */
	leader->snapshot = concurrent ? RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;

	scan_size = table_parallelscan_estimate(heap, leader->snapshot);
	if (!make_shared_memory(context, workers, scan_size, query_size))
	{
		leader_end(leader);
		return NULL;
	}
	leader->shared = make_shared_build(context, heap, index, concurrent, workers);

	leader->scan = shm_toc_allocate(context->toc, scan_size);
	table_parallelscan_initialize(heap, leader->scan, leader->snapshot);
	shm_toc_insert(context->toc, KEY_SCAN, leader->scan);

	leader->results = shm_toc_allocate(context->toc, mul_size(sizeof(WorkerResult), workers));
	memset(leader->results, 0, sizeof(WorkerResult) * workers);
	shm_toc_insert(context->toc, KEY_RESULTS, leader->results);

	shm_toc_insert(context->toc, KEY_WAL_USAGE,
				   shm_toc_allocate(context->toc, mul_size(sizeof(WalUsage), workers)));
	shm_toc_insert(context->toc, KEY_BUFFER_USAGE,
				   shm_toc_allocate(context->toc, mul_size(sizeof(BufferUsage), workers)));
	if (debug_query_string)
	{
		char	   *query = shm_toc_allocate(context->toc, query_size);

		memcpy(query, debug_query_string, query_size);
		shm_toc_insert(context->toc, KEY_QUERY_TEXT, query);
	}

	LaunchParallelWorkers(context);
	if (context->nworkers_launched == 0)
	{
		leader_end(leader);
		return NULL;
	}
	return leader;
}

/* Add what a worker left in its file. */
static void
leader_import(Leader *leader, HmSpool *spool, bool nulls, int worker, uint64 n)
{
	char		name[MAXPGPATH];

	if (n == 0)
		return;
	worker_file_name(name, sizeof(name), nulls, worker);
	hm_spool_add_run(spool,
					 BufFileOpenFileSet(&leader->shared->files.fs, name, O_RDONLY, false), n);
}

/*
 * Wait until all workers have finished, and add their runs and counts to the leader's.
 * Returns the number of heap tuples that they scanned.
 */
static double
leader_collect(Leader *leader, HmBuildSort *sort, IndexInfo *info)
{
	ParallelContext *context = leader->context;
	SharedBuild *shared = leader->shared;
	bool		finished;
	int			i;

	/* Do not wait for a worker that failed to start: this raises an error for it. */
	WaitForParallelWorkersToAttach(context);

	for (;;)
	{
		SpinLockAcquire(&shared->mutex);
		finished = shared->finished == context->nworkers_launched;
		SpinLockRelease(&shared->mutex);
		if (finished)
			break;
		ConditionVariableSleep(&shared->finished_cv, WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN);
	}
	ConditionVariableCancelSleep();

	for (i = 0; i < context->nworkers_launched; i++)
	{
		leader_import(leader, &sort->keys, false, i, leader->results[i].keys);
		leader_import(leader, &sort->nulls, true, i, leader->results[i].nulls);
	}
	if (shared->broken_hot_chain)
		info->ii_BrokenHotChain = true;
	return shared->heap_tuples;
}

/* ----------------------------------------------------------------
 *		What the build calls
 * ----------------------------------------------------------------
 */

HmBuildSort *
hm_build_sort(Relation heap, Relation index, IndexInfo *info,
			  double *heap_tuples, double *index_tuples)
{
	Leader	   *leader = NULL;
	TableScanDesc scan = NULL;
	HmBuildSort *sort;
	int			workers = 0;

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, HM_BUILD_PHASE_SCAN);

	/* An empty table is not worth workers, even if it has parallel_workers set. */
	if (IsNormalProcessingMode() && RelationGetNumberOfBlocks(heap) > 0)
		workers = hm_build_workers(heap, index, info);
	if (workers > 0)
		leader = leader_begin(heap, index, info->ii_Concurrent, workers);

	sort = sort_begin(index, leader ? leader->context->nworkers_launched + 1 : 1);
	sort->leader = leader;
	if (leader)
		scan = hm_beginscan_parallel(heap, leader->scan);
	*heap_tuples = sort_scan(sort, heap, index, info, true, scan);
	if (leader)
		*heap_tuples += leader_collect(leader, sort, info);

	if (hm_spool_needs_merge(&sort->keys) || hm_spool_needs_merge(&sort->nulls))
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, HM_BUILD_PHASE_MERGE);
	hm_spool_merge(&sort->keys);
	hm_spool_merge(&sort->nulls);

	*index_tuples = hm_spool_count(&sort->keys) + hm_spool_count(&sort->nulls);

	/* The writing phase counts tuples, not blocks. */
	{
		const int	params[] = {
			PROGRESS_CREATEIDX_TUPLES_TOTAL,
			PROGRESS_SCAN_BLOCKS_TOTAL,
			PROGRESS_SCAN_BLOCKS_DONE
		};
		const int64 values[] = {(int64) *index_tuples, 0, 0};

		pgstat_progress_update_multi_param(lengthof(params), params, values);
	}
	return sort;
}

uint64
hm_build_sort_count(HmBuildSort *sort, bool nulls)
{
	return hm_spool_count(nulls ? &sort->nulls : &sort->keys);
}

uint64
hm_build_sort_read(HmBuildSort *sort, bool nulls, HtEntry *out, uint64 max)
{
	return hm_spool_read(nulls ? &sort->nulls : &sort->keys, out, max);
}

void
hm_build_sort_end(HmBuildSort *sort)
{
	Leader	   *leader = sort->leader;

	/* The spools have files open that the parallel context deletes. */
	hm_spool_end(&sort->keys);
	hm_spool_end(&sort->nulls);
	MemoryContextDelete(sort->context);
	if (leader)
		leader_end(leader);
}
