/*
 * parallel.c
 *		Handing the counters of parallel workers to the leader, for EXPLAIN.
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

#include "compat.h"
#include "exec/nodes.h"

struct HmSharedStats
{
	int			workers;
	HmFetchStats stats[FLEXIBLE_ARRAY_MEMBER];
};

Size
hm_node_estimate_dsm(CustomScanState *node, ParallelContext *context)
{
	return offsetof(HmSharedStats, stats) + context->nworkers * sizeof(HmFetchStats);
}

void
hm_node_initialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	HmSharedStats *shared = coordinate;

	memset(shared, 0, hm_node_estimate_dsm(node, context));
	shared->workers = context->nworkers;
	((HmNode *) node)->shared = shared;
}

/* Add the workers' counters to node->workers, and reset them in shared memory. */
static void
collect(HmNode *node)
{
	HmSharedStats *shared = node->shared;

	for (int i = 0; i < shared->workers; i++)
		hm_fetch_stats_add(&node->workers, &shared->stats[i]);
	memset(shared->stats, 0, shared->workers * sizeof(HmFetchStats));
}

void
hm_node_reinitialize_dsm(CustomScanState *node, ParallelContext *context, void *coordinate)
{
	((HmNode *) node)->shared = coordinate;
	collect((HmNode *) node);
}

void
hm_node_initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	((HmNode *) node)->shared = coordinate;
}

void
hm_node_shutdown(CustomScanState *state)
{
	HmNode	   *node = (HmNode *) state;

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
