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
 * children queries take, so it is computed from a profile of about 1000 queries.
 *
 * The paper's groups compare a node's keys front to back.  If a group instead cuts the
 * node into threads + 1 parts in each step, single threads with binary search are
 * fastest on all hardware measured so far; the model agrees.
 */
#include "tree.h"

int
ht_ntg_steps(HtGroupSearch search, int fanout, int threads, int child)
{
	int			steps = 0;

	if (search == HT_GROUP_LINEAR)
	{
		/* The key after the child decides; the last child has none. */
		int			compared = child < fanout - 1 ? child + 1 : fanout - 1;

		return (compared + threads - 1) / threads;
	}
	for (int candidates = fanout; candidates > 1; steps++)
		candidates = (candidates + threads) / (threads + 1);
	return steps;
}

double
ht_ntg_warp_steps(const HtProfile *profile, HtGroupSearch search, int warp, int threads)
{
	uint32_t	together = (uint32_t) (warp / threads);
	uint32_t	warps = 0;
	uint64_t	total = 0;

	for (uint32_t first = 0; first < profile->queries; first += together)
	{
		uint32_t	end = first + together;

		if (end > profile->queries)
			end = profile->queries;
		for (int level = 0; level < profile->levels; level++)
		{
			int			slowest = 0;

			for (uint32_t query = first; query < end; query++)
			{
				int			child = profile->children[(size_t) query * profile->levels + level];
				int			steps = ht_ntg_steps(search, profile->fanout, threads, child);

				slowest = steps > slowest ? steps : slowest;
			}
			total += (uint64_t) slowest;
		}
		warps++;
	}
	return warps == 0 ? 0 : (double) total / warps;
}

HtGroupChoice
ht_ntg_choose(const HtProfile *profile, HtGroupSearch search, int warp)
{
	HtGroupChoice choice = {search, 1, 0};

	/* The widest group that has a key for each thread. */
	while (choice.threads * 2 <= warp && choice.threads * 2 < profile->fanout)
		choice.threads *= 2;
	choice.warp_steps = ht_ntg_warp_steps(profile, search, warp, choice.threads);

	while (choice.threads > 1)
	{
		double		narrowed = ht_ntg_warp_steps(profile, search, warp, choice.threads / 2);

		if (2 * choice.warp_steps <= narrowed)
			break;
		choice.threads /= 2;
		choice.warp_steps = narrowed;
	}
	return choice;
}
