/*
 * test_ntg.c
 *		The model that chooses thread groups.
 */
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QUERIES		1000
#define LEVELS		4
#define WARP		32

static bool
near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void
test_steps(void)
{
	/* 63 keys, eight a step: key 0 in the first step, key 62 in the eighth. */
	expect(ht_ntg_steps(HT_GROUP_LINEAR, 64, 8, 0) == 1, "first child");
	expect(ht_ntg_steps(HT_GROUP_LINEAR, 64, 8, 7) == 1, "last key of the first step");
	expect(ht_ntg_steps(HT_GROUP_LINEAR, 64, 8, 8) == 2, "first key of the second step");
	expect(ht_ntg_steps(HT_GROUP_LINEAR, 64, 8, 63) == 8, "last child");
	expect(ht_ntg_steps(HT_GROUP_LINEAR, 64, 1, 63) == 63, "one thread");
	expect(ht_ntg_steps(HT_GROUP_LINEAR, 64, 32, 40) == 2, "a warp");

	/* Binary search; 64 children, 9 parts a step: 64, 8, 1. */
	expect(ht_ntg_steps(HT_GROUP_KARY, 64, 1, 0) == 6, "binary search");
	expect(ht_ntg_steps(HT_GROUP_KARY, 65, 1, 0) == 7, "binary search in one more");
	expect(ht_ntg_steps(HT_GROUP_KARY, 64, 8, 50) == 2, "nine parts");
	expect(ht_ntg_steps(HT_GROUP_KARY, 64, 7, 50) == 2, "eight parts");
	expect(ht_ntg_steps(HT_GROUP_KARY, 64, 3, 50) == 3, "four parts");
	report("thread groups: steps in a node");
}

static void
test_warp(void)
{
	/* Two queries, two levels, at 16 threads both in one warp. */
	static const uint8_t children[] = {0, 63, 40, 5};
	HtProfile	profile = {64, 2, 2, children};

	/* 16 keys a step: steps are 1 and 4, 3 and 1; the slower counts. */
	expect(near(ht_ntg_warp_steps(&profile, HT_GROUP_LINEAR, WARP, 16), 3 + 4), "together");
	/* 32 keys a step, each in a warp of its own: 1 + 2, 2 + 1. */
	expect(near(ht_ntg_warp_steps(&profile, HT_GROUP_LINEAR, WARP, 32), 3), "apart");
	expect(near(ht_ntg_warp_steps(&profile, HT_GROUP_KARY, WARP, 1), 12), "binary search");
	profile.queries = 0;
	expect(near(ht_ntg_warp_steps(&profile, HT_GROUP_KARY, WARP, 1), 0), "no query");
	report("thread groups: steps of a warp");
}

/* Narrowing begins with the widest group and must stop at the first step that loses. */
static void
check_choice(const HtProfile *profile, HtGroupSearch search)
{
	HtGroupChoice choice = ht_ntg_choose(profile, search, WARP);
	int			widest = profile->fanout > 32 ? 32 : profile->fanout > 16 ? 16 : 8;

	if (profile->fanout == 8)
		widest = 4;
	expect(choice.search == search, "kind of search");
	expect(near(choice.warp_steps, ht_ntg_warp_steps(profile, search, WARP, choice.threads)), "steps");
	for (int threads = widest; threads > choice.threads; threads /= 2)
		expect(2 * ht_ntg_warp_steps(profile, search, WARP, threads) >
			   ht_ntg_warp_steps(profile, search, WARP, threads / 2),
			   "narrowed from %d threads for nothing", threads);
	if (choice.threads > 1)
		expect(2 * choice.warp_steps <=
			   ht_ntg_warp_steps(profile, search, WARP, choice.threads / 2),
			   "not narrowed from %d threads", choice.threads);
}

static void
test_choice(void)
{
	static const int fanouts[] = {8, 16, 64, 128};
	uint8_t    *children = allocate(QUERIES * LEVELS);
	HtGroupChoice linear,
				kary;

	for (int f = 0; f < 4; f++)
	{
		HtProfile	profile = {fanouts[f], LEVELS, QUERIES, children};

		for (int i = 0; i < QUERIES * LEVELS; i++)
			children[i] = (uint8_t) rnd_below(fanouts[f]);
		check_choice(&profile, HT_GROUP_LINEAR);
		check_choice(&profile, HT_GROUP_KARY);

		/* As measured: one thread with binary search is fastest. */
		linear = ht_ntg_choose(&profile, HT_GROUP_LINEAR, WARP);
		kary = ht_ntg_choose(&profile, HT_GROUP_KARY, WARP);
		expect(kary.threads == 1, "%d threads, fanout %d", kary.threads, fanouts[f]);
		if (fanouts[f] >= 64)
			expect(kary.threads * kary.warp_steps < linear.threads * linear.warp_steps,
				   "linear search, fanout %d", fanouts[f]);

		/* Queries that all leave at the first key need one thread only. */
		memset(children, 0, QUERIES * LEVELS);
		linear = ht_ntg_choose(&profile, HT_GROUP_LINEAR, WARP);
		expect(linear.threads == 1 && near(linear.warp_steps, LEVELS), "first children");
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
