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
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "compat.h"
#include "exec/nodes.h"

/*
 * What bench/ measured, in the planner's units: starting a batch costs as much as
 * handling STARTUP_TUPLES tuples, and a probe as much as PROBE_OPERATORS operators.
 * PostgreSQL charges a btree descent more than 100 operators.
 */
#define STARTUP_TUPLES		50
#define PROBE_OPERATORS		10

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

int
hm_operator_strategy(const IndexOptInfo *index, Oid operator)
{
	return get_op_opfamily_strategy(operator, index->opfamily[0]);
}

/* Whether expressions read no other attribute of a relation than one column. */
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
 * The cost of reading so many of a table's rows in physical order: between that of rows
 * which may be anywhere and that of rows which lie side by side, as for a plain index scan
 * (cost_index() in costsize.c).
 */
static Cost
heap_cost(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, double rows,
		  double correlation, bool index_only)
{
	double		scattered = index_pages_fetched(rows, rel->pages, (double) index->pages, root);
	double		together = ceil(rows / Max(1.0, rel->tuples) * rel->pages);
	double		unseen = index_only ? 1.0 - rel->allvisfrac : 1.0;
	Cost		most = pages_cost(rel->reltablespace, scattered * unseen, rel->pages);
	double		random_cost,
				sequential_cost;
	Cost		least = 0;

	if (together * unseen >= 1)
	{
		get_tablespace_page_costs(rel->reltablespace, &random_cost, &sequential_cost);
		least = random_cost + (together * unseen - 1) * sequential_cost;
	}
	return most - correlation * correlation * Max(0, most - least);
}

void
hm_cost_lookup(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
			   double probes, double hits, double rows, double correlation, bool index_only,
			   Cost *startup, Cost *total)
{
	double		per_leaf = Max(1.0, index->tuples / Max(1.0, (double) index->pages));
	double		leaves = index_pages_fetched(probes + hits / per_leaf, index->pages,
											 (double) index->pages, root);

	*startup += STARTUP_TUPLES * cpu_tuple_cost;
	*total += STARTUP_TUPLES * cpu_tuple_cost +
		pages_cost(index->reltablespace, leaves, index->pages) +
		heap_cost(root, rel, index, rows, correlation, index_only) +
		probes * PROBE_OPERATORS * cpu_operator_cost +
		hits * cpu_index_tuple_cost + rows * cpu_tuple_cost;
}
