/*
 * parallel.c
 *		Counts of what was done, by parallel workers as well, for EXPLAIN.
 *
 * A worker writes down what it did when it shuts its copy of the node down, which
 * is before its last tuple reaches the leader.  The leader adds it up when it shuts
 * its own copy down, before the shared memory goes.  Of workers that are still
 * running then, because nobody wanted the rest of their rows, nothing is known.
 *
 * The server calls these functions for nodes that are parallel-aware.  A node that each
 * worker runs by itself, a lookup scan within a nested loop, say, is not, and may not claim to
 * be: the server plans and shows those in other ways.  Of its workers' counts EXPLAIN says
 * that they are not known.
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
