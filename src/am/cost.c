/*
 * cost.c
 *		What a plain scan costs.
 *
 * The work is that of btree: find the first entry, read leaves in key order, visit the
 * heap in an order that the column's correlation describes.  So the estimate is btree's
 * too: the correlation is taken from the column's statistics, the number of pages from
 * the index itself.  Only the descent differs: the levels above the leaves are on the
 * pages of the directory and of one header, whatever the size of the index.
 */
#include "postgres.h"

#include "nodes/pathnodes.h"
#include "utils/index_selfuncs.h"

#include "am/am.h"

/*
 * The estimate charges CPU time for each page above the leaves that a descent reads; it
 * charges none for an index that is as small as a btree of a single page.
 */
#define HM_SMALL_INDEX_PAGES	8

void
hm_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count,
				 Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
				 double *correlation, double *pages)
{
	path->indexinfo->tree_height = path->indexinfo->pages <= HM_SMALL_INDEX_PAGES ? 0 : 1;
	btcostestimate(root, path, loop_count, startup_cost, total_cost,
				   selectivity, correlation, pages);
}
