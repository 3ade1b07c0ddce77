/*
 * cost.c
 *		What a plain scan costs.
 *
 * The work is btree's: find the first entry, read leaves in key order, visit
 * the heap by the column's correlation.  So is the estimate, which asks the
 * column's statistics for the correlation and takes the number of pages from
 * the index itself.  It differs in the way down: a harmonia index has its
 * upper levels on the pages of the directory and of one header, whatever its
 * size.
 */
#include "postgres.h"

#include "nodes/pathnodes.h"
#include "utils/index_selfuncs.h"

#include "am/am.h"

/*
 * Pages above the leaves on the way to one, as the estimate charges for CPU
 * time: none for an index that is as small as a btree of a single page.
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
