/*
 * parallel.c
 *		What the processes of a parallel-aware node share: how many outer rows they have
 *		read, and the workers' counters, for EXPLAIN.
 *
 * A worker stores its counters in shared memory when it shuts its copy of the node down.
 * That is before its last tuple reaches the leader.  The leader adds them up when it
 * shuts its own copy down, before the shared memory is released.  Workers may still be
 * running then, if the rest of their rows is not wanted; their counters are lost.
 *
 * PostgreSQL calls these functions only for parallel-aware nodes.  A node that each
 * worker runs as a whole, such as a lookup scan inside a nested loop, is not
 * parallel-aware, and cannot be marked so, because the planner and EXPLAIN treat
 * parallel-aware nodes differently.  For such a node EXPLAIN says that its workers'
 * counters are not known.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "optimizer/optimizer.h"
#include "port/atomics.h"

#include "compat.h"
#include "exec/nodes.h"
#include "exec/shared_rows.h"

/* A batch of a parallel join has this many rows, where there is memory for them. */
#define MIN_ROWS 1000

struct HmShared
{
	int workers;
	int processes;             /* these and the leader, if it takes part */
	pg_atomic_uint64 reserved; /* see hm_node_reserve_rows() */
	HmFetchStats stats[FLEXIBLE_ARRAY_MEMBER];
};

/* The bytes of HmShared.  After it come the slices or the shared rows, if the node has some. */
static Size
shared_size(int workers)
{
	return MAXALIGN(offsetof(HmShared, stats) + workers * sizeof(HmFetchStats));
}

Size
hm_node_estimate_dsm(CustomScanState *node, ParallelContext *context)
{
	Size size = shared_size(context->nworkers);

	if (((HmNode *) node)->divides_keys)
		size += hm_slices_size(context->nworkers + 1);
	if (((HmNode *) node)->shares_rows)
		size += hm_shared_rows_size();
	return size;
}

/* Use what is in shared memory. */
static void
attach(HmNode *node, HmShared *shared)
{
	char *rest = (char *) shared + shared_size(shared->workers);

	node->shared = shared;
	if (node->divides_keys)
		node->slices = (HmSlices *) rest;
	if (node->shares_rows)
		node->shared_rows = (HmSharedRows *) rest;
}

void
hm_node_initialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	HmShared *shared = coordinate;

	memset(shared, 0, shared_size(context->nworkers));
	shared->workers = context->nworkers;
	shared->processes = context->nworkers + parallel_leader_participation;
	pg_atomic_init_u64(&shared->reserved, 0);
	attach((HmNode *) node, shared);
	if (((HmNode *) node)->divides_keys)
		hm_slices_init(((HmNode *) node)->slices, shared->processes);
	if (((HmNode *) node)->shares_rows)
		hm_shared_rows_init(((HmNode *) node)->shared_rows, shared->processes);
}

/* Add the workers' counters to node->workers, and reset them in shared memory. */
static void
collect(HmNode *node)
{
	HmShared *shared = node->shared;

	for (int i = 0; i < shared->workers; i++)
		hm_fetch_stats_add(&node->workers, &shared->stats[i]);
	memset(shared->stats, 0, shared->workers * sizeof(HmFetchStats));
	if (node->shared_rows != NULL)
		node->rows_shared = hm_shared_rows_total(node->shared_rows);
}

void
hm_node_reinitialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	HmShared *shared = coordinate;

	attach((HmNode *) node, shared);
	collect((HmNode *) node);
	pg_atomic_write_u64(&shared->reserved, 0);
	if (((HmNode *) node)->divides_keys)
		hm_slices_reset(((HmNode *) node)->slices);
	if (((HmNode *) node)->shares_rows)
		hm_shared_rows_reset(((HmNode *) node)->shared_rows, node->ss.ps.state->es_query_dsa);
}

void
hm_node_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	attach((HmNode *) node, coordinate);
}

void
hm_node_shutdown(CustomScanState *state)
{
	HmNode *node = (HmNode *) state;

	node->slices = NULL;
	if (node->shared == NULL)
		return;
	if (IsParallelWorker())
	{
		hm_node_stats(node, &node->shared->stats[ParallelWorkerNumber]);
	}
	else
	{
		collect(node);
		node->shared = NULL;
		node->shared_rows = NULL;
	}
}

void
hm_node_stats(HmNode *node, HmFetchStats *stats)
{
	memset(stats, 0, sizeof(HmFetchStats));
	if (node->fetch != NULL)
		hm_fetch_stats(node->fetch, stats);
	hm_fetch_stats_add(stats, &node->ended);
}

uint32
hm_node_reserve_rows(HmNode *node, double expected, uint32 max)
{
	HmShared *shared = node->shared;
	double total = expected * hm_parallel_processes(shared->workers);
	double run =
		hm_next_run(total, (double) pg_atomic_read_u64(&shared->reserved), shared->processes);
	uint32 rows = (uint32) Min(Max(run, MIN_ROWS), max);

	pg_atomic_fetch_add_u64(&shared->reserved, rows);
	return rows;
}
