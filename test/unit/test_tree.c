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
	tap_start(argc, argv);

	test_leaf(HT_WIDTH32);
	test_leaf_damage(HT_WIDTH32);
	test_leaf(HT_WIDTH64);
	test_leaf_damage(HT_WIDTH64);
	test_shape();
	test_node(HT_WIDTH32);
	test_node(HT_WIDTH64);
	test_sort();
	test_psa();
	test_search(HT_WIDTH32);
	test_search(HT_WIDTH64);
	test_ntg();

	return tap_finish();
}
