/*
 * test_ntg.c
 *		The model that chooses thread groups.
 */
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QUERIES 1000
#define LEVELS 4
#define WARP 32

static bool
near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void
test_steps(void)
{
	/* 63 keys, eight a step: key 0 in the first step, key 62 in the eighth. */
	expect(ht_ntg_steps(64, 8, 0) == 1, "first child");
	expect(ht_ntg_steps(64, 8, 7) == 1, "last key of the first step");
	expect(ht_ntg_steps(64, 8, 8) == 2, "first key of the second step");
	expect(ht_ntg_steps(64, 8, 63) == 8, "last child");
	expect(ht_ntg_steps(64, 32, 40) == 2, "a warp");

	expect(ht_ntg_steps(64, 1, 0) == 6, "halves");
	expect(ht_ntg_steps(64, 1, 63) == 6, "halves, last child");
	expect(ht_ntg_steps(65, 1, 0) == 7, "halves of one more");
	report("thread groups: steps in a node");
}

static void
test_warp(void)
{
	/* Two queries, two levels, at 16 threads both in one warp. */
	static const uint8_t children[] = {0, 63, 40, 5};
	HtProfile profile = {64, 64, 2, 2, children, false};

	/* 16 keys a step: steps are 1 and 4, 3 and 1; the slower counts. */
	expect(near(ht_ntg_warp_steps(&profile, WARP, 16), 3 + 4), "together");
	/* 32 keys a step, each in a warp of its own: 1 + 2, 2 + 1. */
	expect(near(ht_ntg_warp_steps(&profile, WARP, 32), 3), "apart");
	expect(near(ht_ntg_warp_steps(&profile, WARP, 1), 12), "halves");
	profile.sorted = true;
	expect(near(ht_ntg_warp_steps(&profile, WARP, 16), (1 + 4 + 3 + 1) / 2.0), "sorted");
	profile.root_children = 4;
	expect(near(ht_ntg_warp_steps(&profile, WARP, 1), 2 + 6), "few children in the root");
	profile.queries = 0;
	expect(near(ht_ntg_warp_steps(&profile, WARP, 1), 0) && ht_ntg_threads(&profile, WARP) == 1,
		   "no query");
	report("thread groups: steps of a warp");
}

/* No number of threads may have fewer steps for each query than the one that is chosen. */
static void
check_choice(const HtProfile *profile)
{
	int chosen = ht_ntg_threads(profile, WARP);
	double least = chosen * ht_ntg_warp_steps(profile, WARP, chosen);

	expect(chosen == 1 || chosen < profile->fanout, "%d threads, fanout %d", chosen,
		   profile->fanout);
	for (int threads = 1; threads <= WARP && threads < profile->fanout; threads *= 2)
		expect(threads * ht_ntg_warp_steps(profile, WARP, threads) >= least,
			   "%d threads and not %d", chosen, threads);
}

static void
test_choice(void)
{
	static const int fanouts[] = {8, 16, 64, 128};
	uint8_t *children = allocate(QUERIES * LEVELS);

	for (int f = 0; f < 8; f++)
	{
		HtProfile profile = {fanouts[f % 4], fanouts[f % 4], LEVELS, QUERIES, children, f >= 4};

		for (int i = 0; i < QUERIES * LEVELS; i++)
			children[i] = (uint8_t) rnd_below(1 + rnd_below(profile.fanout));
		check_choice(&profile);

		/* As measured: one thread is fastest if queries go anywhere. */
		for (int i = 0; i < QUERIES * LEVELS; i++)
			children[i] = (uint8_t) rnd_below(profile.fanout);
		check_choice(&profile);
		if (profile.fanout >= 64)
			expect(ht_ntg_threads(&profile, WARP) == 1, "%d threads, fanout %d",
				   ht_ntg_threads(&profile, WARP), profile.fanout);

		/* So it is in trees of few leaves. */
		for (profile.levels = 1; profile.root_children > 1 && f >= 4; profile.root_children--)
		{
			for (int i = 0; i < QUERIES; i++)
				children[i] = (uint8_t) (i % profile.root_children);
			expect(ht_ntg_threads(&profile, WARP) == 1, "%d threads, %d leaves",
				   ht_ntg_threads(&profile, WARP), profile.root_children);
		}
		profile.levels = LEVELS;
		profile.root_children = profile.fanout;

		/*
		 * Queries that all leave at the first key need no more than one step, if there are two
		 * threads.
		 */
		memset(children, 0, QUERIES * LEVELS);
		expect(ht_ntg_threads(&profile, WARP) == 2, "first children: %d threads",
			   ht_ntg_threads(&profile, WARP));
		memset(children, 3, QUERIES * LEVELS);
		expect(fanouts[f % 4] < 64 || ht_ntg_threads(&profile, WARP) == 2,
			   "fourth children: %d threads", ht_ntg_threads(&profile, WARP));
	}
	free(children);
	report("thread groups: choice");
}

void
test_ntg(void)
{
	test_steps();
	test_warp();
	test_choice();
}
