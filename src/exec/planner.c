/*
 * planner.c
 *		Planning: what lookup scans and lookup joins share, with the cost model.
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "compat.h"
#include "device/device.h"
#include "exec/nodes.h"

/*
 * What bench/ measured, in the planner's units: starting a batch costs as much as
 * handling STARTUP_TUPLES tuples, and a probe as much as PROBE_OPERATORS operators.
 * PostgreSQL charges a btree descent more than 100 operators.
 */
#define STARTUP_TUPLES		50
#define PROBE_OPERATORS		10

/*
 * Visiting a heap page again, in shared buffers, costs as much as handling PAGE_TUPLES
 * tuples.  A visit took 0.6 to 1.2 us, while one unit of cost took 2.3 us in other scans
 * and more in hash joins.  To measure again, run `s = ANY` of 10 or 50 of 100 values (200
 * k or 1 M rows of 2 M) with work_mem at 4 MB and at 512 MB: that gives 8 or 40 portions,
 * or one.  EXPLAIN ANALYZE shows the visits as "Heap Blocks".
 */
#define PAGE_TUPLES			20

bool
hm_can_look_up(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte;

	if (rel->reloptkind != RELOPT_BASEREL && rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return false;
	rte = planner_rt_fetch(rel->relid, root);
	return rel->rtekind == RTE_RELATION && !rte->inh && rte->tablesample == NULL &&
		(rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW) &&
		rel->indexlist != NIL && bms_is_empty(rel->lateral_relids) &&
		!IS_DUMMY_REL(rel) && !hm_old_snapshots_possible();
}

bool
hm_wants_first_rows(PlannerInfo *root)
{
	return root->tuple_fraction > 0 && !root->parse->hasAggs &&
		root->parse->groupClause == NIL;
}

bool
hm_can_use_index(const IndexOptInfo *index)
{
	return (void *) index->amcostestimate == (void *) hm_cost_estimate &&
		!index->hypothetical && (index->indpred == NIL || index->predOK);
}

bool
hm_has_index(const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->indexlist)
	{
		if (hm_can_use_index(lfirst_node(IndexOptInfo, cell)))
			return true;
	}
	return false;
}

int
hm_operator_strategy(const IndexOptInfo *index, Oid operator)
{
	return get_op_opfamily_strategy(operator, index->opfamily[0]);
}

bool
hm_may_be_fuzzy(Oid key, Oid type)
{
	return type == TIMESTAMPTZOID && (key == DATEOID || key == TIMESTAMPOID);
}

/* Whether one column is all that expressions read of a relation. */
static bool
only_reads(List *exprs, Index relid, AttrNumber column)
{
	Bitmapset  *attributes = NULL;
	int			member = -1;

	pull_varattnos((Node *) exprs, relid, &attributes);
	while ((member = bms_next_member(attributes, member)) >= 0)
	{
		if (member + FirstLowInvalidHeapAttributeNumber != column)
			return false;
	}
	return true;
}

bool
hm_reads_only(RelOptInfo *rel, AttrNumber column, List *clauses)
{
	return only_reads(rel->reltarget->exprs, rel->relid, column) &&
		only_reads(clauses, rel->relid, column);
}

bool
hm_can_return_key(const IndexOptInfo *index)
{
	return enable_indexonlyscan && index->canreturn[0] && index->indexkeys[0] > 0;
}

/*
 * The cost of reading some of a file's pages in physical order: between random and
 * sequential, as for a bitmap heap scan.  "pages" is the size of the file.
 */
static Cost
pages_cost(Oid tablespace, double fetched, double pages)
{
	double		random_cost,
				sequential_cost;

	if (fetched < 1)
		return 0;
	get_tablespace_page_costs(tablespace, &random_cost, &sequential_cost);
	if (fetched > 1)
		random_cost -= (random_cost - sequential_cost) * sqrt(Min(1.0, fetched / Max(1.0, pages)));
	return fetched * random_cost;
}

double
hm_key_correlation(PlannerInfo *root, const IndexOptInfo *index)
{
	TargetEntry *key = linitial_node(TargetEntry, index->indextlist);
	Oid			less = get_opfamily_member(index->opfamily[0], index->opcintype[0],
										   index->opcintype[0], BTLessStrategyNumber);
	VariableStatData data;
	AttStatsSlot slot;
	double		correlation = 0;

	examine_variable(root, (Node *) key->expr, 0, &data);
	if (HeapTupleIsValid(data.statsTuple) && OidIsValid(less) &&
		get_attstatsslot(&slot, data.statsTuple, STATISTIC_KIND_CORRELATION, less,
						 ATTSTATSSLOT_NUMBERS))
	{
		correlation = slot.numbers[0];
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(data);
	return correlation;
}

/*
 * The number of heap pages that hold these rows if the table is in the order of the key,
 * so that the rows of each run are neighbours.
 */
static double
pages_in_order(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, double rows,
			   double runs)
{
	double		per_run = ceil(rows / runs / Max(1.0, rel->tuples) * rel->pages);

	if (runs <= 1)
		return per_run;
	return index_pages_fetched(per_run * runs, rel->pages, (double) index->pages, root);
}

/*
 * How many times a heap page is visited again, if rows may be anywhere.  A portion of
 * hits visits each page once, but the next portion may visit the same pages.
 */
static double
pages_visited_again(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
					const HmLookupWork *work, double rows)
{
	double		portions = ceil(Max(rows / hm_fetch_portion_hits(work->index_only),
									work->probes / Max(1.0, work->batch)));
	double		once = index_pages_fetched(rows, rel->pages, (double) index->pages, root);

	if (portions <= 1)
		return 0;
	return Max(0, portions * index_pages_fetched(rows / portions, rel->pages,
												 (double) index->pages, root) - once);
}

/*
 * The cost of reading a table's rows, in physical order within each portion.  It is
 * between the cost for rows that may be anywhere and that for neighbouring rows, as for a
 * plain index scan (cost_index() in costsize.c).
 */
static Cost
heap_cost(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
		  const HmLookupWork *work)
{
	double		unseen = work->index_only ? 1.0 - rel->allvisfrac : 1.0;
	double		scattered = index_pages_fetched(work->rows, rel->pages, (double) index->pages,
												root) * unseen;
	double		together = pages_in_order(root, rel, index, work->rows, work->runs) * unseen;
	Cost		most = pages_cost(rel->reltablespace, scattered, rel->pages) +
		pages_visited_again(root, rel, index, work, work->rows * unseen) *
		PAGE_TUPLES * cpu_tuple_cost;
	double		random_cost,
				sequential_cost;
	Cost		least = 0;

	if (together >= 1)
	{
		get_tablespace_page_costs(rel->reltablespace, &random_cost, &sequential_cost);
		least = work->runs > 1 ? pages_cost(rel->reltablespace, together, rel->pages) :
			random_cost + (together - 1) * sequential_cost;
	}
	return most - work->correlation * work->correlation * Max(0, most - least);
}

/*
 * Whether a device may search a batch of this size, so that the keys of rows have to be
 * compared.
 */
static bool
may_use_device(double probes)
{
	return hm_device_state() == HM_DEVICE_UP && hm_enable_device && !RecoveryInProgress() &&
		(probes >= HM_SIZE_CLASS_MIN || hm_force_device);
}

void
hm_cost_lookup_least(double probes, Cost *startup, Cost *total)
{
	*startup += STARTUP_TUPLES * cpu_tuple_cost;
	*total += STARTUP_TUPLES * cpu_tuple_cost + probes * PROBE_OPERATORS * cpu_operator_cost;
}

void
hm_cost_lookup(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
			   const HmLookupWork *work, Cost *startup, Cost *total)
{
	double		per_leaf = Max(1.0, index->tuples / Max(1.0, (double) index->pages));
	double		leaves = index_pages_fetched(work->probes + work->hits / per_leaf, index->pages,
											 (double) index->pages, root);

	hm_cost_lookup_least(work->probes, startup, total);
	*total += pages_cost(index->reltablespace, leaves, index->pages) +
		heap_cost(root, rel, index, work) +
		work->hits * cpu_index_tuple_cost + work->rows * cpu_tuple_cost;
	if (index->indexprs != NIL && may_use_device(work->probes))
	{
		QualCost	key_cost;

		cost_qual_eval_node(&key_cost, linitial(index->indexprs), root);
		*startup += key_cost.startup;
		*total += key_cost.startup + key_cost.per_tuple * work->rows;
	}
}
