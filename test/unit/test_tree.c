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

	for (int tid_bytes = 4; tid_bytes <= 6; tid_bytes++)
	{
		for (int bits = 16; bits <= 64; bits *= 2)
		{
			test_leaf(bits, tid_bytes);
			test_leaf_damage(bits, tid_bytes);
			test_hints(bits, tid_bytes);
			test_search(bits, tid_bytes);
		}
	}
	test_shape();
	test_node(HT_WIDTH32);
	test_node(HT_WIDTH64);
	test_sort();
	test_psa();
	test_ntg();
	test_wide();

	return tap_finish();
}
