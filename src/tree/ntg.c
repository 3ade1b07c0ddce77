/*
 * ntg.c
 *		Narrowed thread-group traversal: how many threads serve one query.
 *
 * Harmonia, PPoPP 2019, section 4.2.  All threads of a warp execute the same step: a
 * warp works on warp / threads queries at a time, and on each level takes as many steps
 * as the slowest of them.  A narrow group makes fewer useless comparisons after the key
 * that decides, but more queries wait for each other.  Halving the group doubles the
 * queries of a warp.  It pays as long as the steps of a warp less than double
 * (Equations 3 and 4: the speed-up is 2 T(GS) / T(GS / 2)).  T depends on which
 * children queries take, so it is computed from a profile of some queries.
 *
 * The paper's groups compare a node's keys front to back, also the narrowest.  Here a
 * thread alone halves the node instead, so that T can fall steeply at the last step, and
 * the first group that does not gain from narrowing need not be the best one: all are
 * compared.  (Groups that cut a node into threads + 1 parts would leave no choice:
 * they take log(fanout) / log(threads + 1) steps, and threads times that is least for one.)
 */
#include "tree.h"

int
ht_ntg_steps(int children, int threads, int child)
{
	/* The key after the child decides; the last child has none. */
	int compared = child < children - 1 ? child + 1 : children - 1;
	int steps = 0;

	if (threads > 1)
		return (compared + threads - 1) / threads;
	for (int candidates = children; candidates > 1; steps++)
		candidates = (candidates + 1) / 2;
	return steps;
}

double
ht_ntg_warp_steps(const HtProfile *profile, int warp, int threads)
{
	uint32_t together = profile->sorted ? 1 : (uint32_t) (warp / threads);
	uint32_t warps = 0;
	uint64_t total = 0;

	for (uint32_t first = 0; first < profile->queries; first += together, warps++)
	{
		uint32_t end = first + together;

		if (end > profile->queries)
			end = profile->queries;
		for (int level = 0; level < profile->levels; level++)
		{
			int children = level == 0 ? profile->root_children : profile->fanout;
			int slowest = 0;

			for (uint32_t query = first; query < end; query++)
			{
				int child = profile->children[(size_t) query * profile->levels + level];

				/* The last child that any of them takes has the most steps. */
				slowest = child > slowest ? child : slowest;
			}
			total += (uint64_t) ht_ntg_steps(children, threads, slowest);
		}
	}
	return warps == 0 ? 0 : (double) total / warps;
}

int
ht_ntg_threads(const HtProfile *profile, int warp)
{
	int best = 1;
	double least = ht_ntg_warp_steps(profile, warp, 1);

	/* As far as there is a key for each thread. */
	for (int threads = 2; threads <= warp && threads < profile->fanout; threads *= 2)
	{
		double steps = threads * ht_ntg_warp_steps(profile, warp, threads);

		if (steps < least)
		{
			least = steps;
			best = threads;
		}
	}
	return best;
}
