/*
 * test_tree.c
 *		Unit tests of the tree engine, against simple models.
 *
 * Prints TAP.  All random choices depend on one seed, which is printed.  Give it as the
 * argument or in HARMONIA_TEST_SEED to repeat a run.
 */
#include "tap.h"

int
main(int argc, char **argv)
{
	static const int classes[] = {0, 16, 32, 64};

	tap_start(argc, argv);

	for (int tid_bytes = 4; tid_bytes <= 6; tid_bytes++)
	{
		for (int i = 0; i < 4; i++)
		{
			test_leaf(classes[i], tid_bytes);
			test_leaf_damage(classes[i], tid_bytes);
			test_hints(classes[i], tid_bytes);
			test_search(classes[i], tid_bytes);
		}
	}
	test_shape();
	test_node(HT_WIDTH32);
	test_node(HT_WIDTH64);
	test_sort();
	test_psa();
	test_ntg();
	test_wide();
	test_costs();

	return tap_finish();
}
