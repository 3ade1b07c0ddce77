/*
 * planner.c
 *		Planning: what lookup scans and lookup joins share, with the cost model.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/spccache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "exec/planner.h"

/*
 * What bench/ measured, in the planner's units: starting a batch costs as much as
 * handling STARTUP_TUPLES tuples, and a probe as much as PROBE_OPERATORS operators.
 * PostgreSQL charges a btree descent more than 100 operators.  A unit of cost took 2.5 us
 * in a sequential scan with a sum, and 10 to 20 us in hash joins whose table was larger
 * than the cache, 4 us with one that fits; a join of a million probes took 0.1 us for each, of
 * which the tuples that are charged besides are three quarters, and 0.03 us if it only
 * counted.
 */
#define STARTUP_TUPLES 50
#define PROBE_OPERATORS 3

/*
 * What a probe of a composite key costs more, in operators: its key is composed, has up to 128
 * bits, and is a range if columns are left over, included ones among them.  That took 30 to 50 ns
 * for a bigint with an included integer, and 100 for two bigints, when reading and adding up a row
 * took 45 (bench/types.sh bigints included, uuid4).
 */
#define COMPOSITE_OPERATORS 6

/*
 * What a probe costs more in a btree, in operators: a leaf's entries are tuples, and are compared
 * one by one.  A probe took 0.2 us, and 0.05 in a harmonia index of 20 million rows.  With values
 * in the place of keys, each comparison calls the operator class, to sort and to search.
 */
#define BTREE_OPERATORS 10
#define BTREE_COMPARISONS 12

/*
 * Visiting a page again, in shared buffers, costs as much as handling PAGE_TUPLES tuples.
 * A visit to a heap page or a leaf took 0.2 to 0.3 us.  To measure again, join a million
 * probes with 20 million rows with work_mem at 4 MB and at 1 GB, and compare the times and,
 * in EXPLAIN ANALYZE, "Heap Blocks" and "Leaf Pages".
 */
#define PAGE_TUPLES 8

/* This many probes or hits are as much work as a page of a table.  It has so many rows. */
#define PAGE_ITEMS 100

bool
hm_can_look_up(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte;

	if (rel->reloptkind != RELOPT_BASEREL && rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return false;
	rte = planner_rt_fetch(rel->relid, root);
	return rel->rtekind == RTE_RELATION && !rte->inh && rte->tablesample == NULL &&
		   (rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW) &&
		   rel->indexlist != NIL && bms_is_empty(rel->lateral_relids) && !IS_DUMMY_REL(rel) &&
		   !hm_old_snapshots_possible();
}

/* Whether maybe not all rows of a query's joins are wanted. */
static bool
wants_part(PlannerInfo *root)
{
	return root->tuple_fraction > 0 && !root->parse->hasAggs && root->parse->groupClause == NIL;
}

bool
hm_wants_first_rows(PlannerInfo *root)
{
	return wants_part(root) && root->query_pathkeys == NIL;
}

bool
hm_wants_first_in_order(PlannerInfo *root)
{
	return wants_part(root) && root->query_pathkeys != NIL;
}

Size
hm_index_key_size(const IndexOptInfo *index)
{
	Oid ids[INDEX_MAX_KEYS];

	for (int i = 0; i < index->ncolumns; i++)
		ids[i] = i < index->nkeycolumns ?
					 hm_index_type_id(index, i) :
					 hm_included_type_oid(
						 exprType((Node *) list_nth_node(TargetEntry, index->indextlist, i)->expr));
	return hm_key_size(hm_width_of_types(ids, index->nkeycolumns, index->ncolumns));
}

int
hm_operator_strategy(const IndexOptInfo *index, int column, Oid operator)
{
	int strategy;
	Oid left, right;

	if (!op_in_opfamily(operator, index->opfamily[column]))
		return 0;
	get_op_opfamily_properties(operator, index->opfamily[column], false, &strategy, &left, &right);

	/*
	 * An extension may have added operators to PostgreSQL's families, or families whose "=" is
	 * another one.
	 */
	if (index->relam == BTREE_AM_OID &&
		(hm_has_values(index) ?
			 strategy != BTEqualStrategyNumber ||
				 operator!= lookup_type_cache(index->opcintype[0], TYPECACHE_EQ_OPR)->eq_opr :
			 hm_bracket_function(index->opcintype[column], right) == NULL))
		return 0;
	return strategy;
}

bool
hm_has_collation(const IndexOptInfo *index, int column, Oid collation)
{
	return !OidIsValid(index->indexcollations[column]) ||
		   index->indexcollations[column] == collation;
}

bool
hm_may_be_fuzzy(Oid key, Oid type)
{
	return !hm_key_type_lookup(key)->exact ||
		   (type == TIMESTAMPTZOID && (key == DATEOID || key == TIMESTAMPOID));
}

/* An expression as another type, to which it has an implicit cast; or the array as one of those. */
static Node *
cast_implicitly(PlannerInfo *root, Node *expr, Oid type)
{
	expr = coerce_to_target_type(NULL, expr, exprType(expr), type, -1, COERCION_IMPLICIT,
								 COERCE_IMPLICIT_CAST, -1);
	return eval_const_expressions(root, expr);
}

Expr *
hm_hash_array(PlannerInfo *root, const IndexOptInfo *index, int column, ScalarArrayOpExpr *clause)
{
	ScalarArrayOpExpr *result;
	Oid left, right, operator;

	op_input_types(clause->opno, &left, &right);
	/* To cast a date or a time may fail. */
	if (left == right || !IsA(lsecond(clause->args), Const) ||
		hm_operator_strategy(index, column, clause->opno) != BTEqualStrategyNumber ||
		TypeCategory(left) == TYPCATEGORY_DATETIME)
		return (Expr *) clause;
	if (can_coerce_type(1, &left, &right, COERCION_IMPLICIT))
		left = right;
	else if (!can_coerce_type(1, &right, &left, COERCION_IMPLICIT))
		return (Expr *) clause;
	operator= get_opfamily_member(index->opfamily[column], left, left, BTEqualStrategyNumber);
	if (!OidIsValid(operator))
		return (Expr *) clause;

	result = makeNode(ScalarArrayOpExpr);
	result->opno = operator;
	result->opfuncid = get_opcode(operator);
	result->useOr = true;
	result->inputcollid = clause->inputcollid;
	result->args = list_make2(cast_implicitly(root, linitial(clause->args), left),
							  cast_implicitly(root, lsecond(clause->args), get_array_type(left)));
	result->location = clause->location;
	convert_saop_to_hashed_saop((Node *) result);
	return (Expr *) (OidIsValid(result->hashfuncid) ? result : clause);
}

void
hm_read_fields(const IndexOptInfo *index, HmFields *fields)
{
	Relation relation = index_open(index->indexoid, NoLock);

	hm_fields_read(relation, fields);
	index_close(relation, NoLock);
}

bool
hm_key_is_exact(const IndexOptInfo *index, const HmFields *fields, const LookupKey *key)
{
	return !hm_may_be_fuzzy(hm_index_type_id(index, key->column), key->type) &&
		   hm_field_is_exact(&fields->fields[key->column]);
}

RestrictInfo *
hm_make_condition(PlannerInfo *root, Expr *clause, Index security_level)
{
	RestrictInfo *info = make_simple_restrictinfo(root, clause);

	info->security_level = security_level;
	info->leakproof = security_level > 0 && !contain_leaked_vars((Node *) clause);
	return info;
}

Bitmapset *
hm_returned_columns(const IndexOptInfo *index)
{
	Bitmapset *columns = NULL;

	for (int i = 0; enable_indexonlyscan && i < index->ncolumns; i++)
	{
		if (index->canreturn[i] && index->indexkeys[i] > 0)
			columns =
				bms_add_member(columns, index->indexkeys[i] - FirstLowInvalidHeapAttributeNumber);
	}
	return columns;
}

bool
hm_reads_only(RelOptInfo *rel, const Bitmapset *columns, List *clauses)
{
	Bitmapset *attributes = NULL;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attributes);
	pull_varattnos((Node *) clauses, rel->relid, &attributes);
	return columns != NULL && bms_is_subset(attributes, columns);
}

/*
 * The cost of reading some of a file's pages in physical order: between random and
 * sequential, as for a bitmap heap scan.  "pages" is the size of the file.
 */
static Cost
pages_cost(Oid tablespace, double fetched, double pages)
{
	double random_cost, sequential_cost;

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
	Oid less = get_opfamily_member(index->opfamily[0], index->opcintype[0], index->opcintype[0],
								   BTLessStrategyNumber);
	VariableStatData data;
	AttStatsSlot slot;
	double correlation = 0;

	if (!hm_keys_have_ranges(hm_column_key_type(hm_has_columns(index), hm_index_type_id(index, 0))))
		return 0;
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
 * The number of heap pages that hold these rows, if they may be anywhere.  They are read
 * in physical order.  So no page is read twice, not even where the cache is too small for
 * all of them, which index_pages_fetched() would charge for.
 */
static double
pages_anywhere(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, double rows)
{
	return Min(index_pages_fetched(rows, rel->pages, (double) index->pages, root), rel->pages);
}

/*
 * The number of heap pages that hold these rows if the table is in the order of the key,
 * so that the rows of each run are neighbours.
 */
static double
pages_in_order(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, double rows,
			   double runs)
{
	double per_run = ceil(rows / runs / Max(1.0, rel->tuples) * rel->pages);

	if (runs <= 1)
		return per_run;
	return Min(index_pages_fetched(per_run * runs, rel->pages, (double) index->pages, root),
			   rel->pages);
}

/* The number of leaves that hold the entries that these probes look for. */
static double
leaves_visited(PlannerInfo *root, const IndexOptInfo *index, double probes, double hits)
{
	double per_leaf = Max(1.0, index->tuples / Max(1.0, (double) index->pages));

	return Min(
		index_pages_fetched(probes + hits / per_leaf, index->pages, (double) index->pages, root),
		index->pages);
}

/*
 * The cost of visiting pages again, of which the table and the index have so many.  Those
 * that the cache cannot hold are read from a file again.
 */
static Cost
revisits_cost(const IndexOptInfo *index, const RelOptInfo *rel, double visits)
{
	double pages = (double) rel->pages + (double) index->pages;
	double uncached = Max(0, 1 - effective_cache_size / Max(1.0, pages));

	return Max(0, visits) * (PAGE_TUPLES * cpu_tuple_cost + uncached * seq_page_cost);
}

/*
 * How many times heap pages and leaves are visited again.  A batch visits each leaf once,
 * and a portion of hits each page, but the next one may visit the same pages.
 */
static double
pages_visited_again(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
					const HmLookupWork *work, double rows)
{
	double batches = ceil(work->probes / Max(1.0, work->batch));
	double portions = Max(batches, ceil(rows / hm_fetch_portion_hits(work->index_only)));
	double again = 0;

	if (portions > 1)
		again += portions * pages_anywhere(root, rel, index, rows / portions) -
				 pages_anywhere(root, rel, index, rows);
	if (batches > 1)
		again +=
			batches * leaves_visited(root, index, work->probes / batches, work->hits / batches) -
			leaves_visited(root, index, work->probes, work->hits);
	return Max(0, again);
}

/*
 * The cost of visiting some of a file's pages in physical order, for one of several
 * processes.  Together they visit "all" different pages.  Each of these is read once, and
 * the processes share that, as PostgreSQL assumes for the inner side of a parallel nested
 * loop.  A process finds the other pages that it visits in shared buffers.
 */
static Cost
shared_pages_cost(Oid tablespace, double visited, double all, double pages, double processes)
{
	return pages_cost(tablespace, all, pages) / processes +
		   Max(0, visited - all / processes) * PAGE_TUPLES * cpu_tuple_cost;
}

/*
 * The cost of reading a table's rows, in physical order within each portion.  It is
 * between the cost for rows that may be anywhere and that for neighbouring rows, as for a
 * plain index scan (cost_index() in costsize.c).
 */
static Cost
heap_cost(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, const HmLookupWork *work)
{
	double processes = work->processes;
	double unseen = work->index_only ? 1.0 - rel->allvisfrac : 1.0;
	double scattered = pages_anywhere(root, rel, index, work->rows) * unseen;
	double all = pages_anywhere(root, rel, index, work->rows * processes) * unseen;
	double together = pages_in_order(root, rel, index, work->rows, work->runs) * unseen;
	Cost most =
		shared_pages_cost(rel->reltablespace, scattered, all, rel->pages, processes) +
		revisits_cost(index, rel, pages_visited_again(root, rel, index, work, work->rows * unseen));
	double random_cost, sequential_cost;
	Cost least = 0;

	if (together >= 1 && work->runs > 1)
	{
		all = pages_in_order(root, rel, index, work->rows * processes, work->runs * processes) *
			  unseen;
		least = shared_pages_cost(rel->reltablespace, together, all, rel->pages, processes);
	}
	else if (together >= 1)
	{
		get_tablespace_page_costs(rel->reltablespace, &random_cost, &sequential_cost);
		least = random_cost + (together - 1) * sequential_cost;
	}
	return most - work->correlation * work->correlation * Max(0, most - least);
}

void
hm_cost_lookup_least(double probes, Cost *startup, Cost *total)
{
	*startup += STARTUP_TUPLES * cpu_tuple_cost;
	*total += STARTUP_TUPLES * cpu_tuple_cost + probes * PROBE_OPERATORS * cpu_operator_cost;
}

/* What a probe costs more than in a harmonia index, in operators. */
static double
btree_operators(const IndexOptInfo *index, double probes)
{
	if (index->relam != BTREE_AM_OID)
		return 0;
	return hm_has_values(index) ? BTREE_COMPARISONS + log2(Max(1.0, probes)) : BTREE_OPERATORS;
}

void
hm_cost_lookup(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
			   const HmLookupWork *work, Cost *startup, Cost *total)
{
	double probes = work->as_array ? hm_array_scan_keys(work->probes, index->pages) : work->probes;
	double most = work->as_array ? hm_array_scan_pages(index->pages) : index->pages;
	double leaves = Min(most, leaves_visited(root, index, work->probes, work->hits));
	double all = Min(most, leaves_visited(root, index, work->probes * work->processes,
										  work->hits * work->processes));

	if (work->shared)
		leaves = all / work->processes;
	hm_cost_lookup_least(probes, startup, total);
	*total += shared_pages_cost(index->reltablespace, leaves, all, index->pages, work->processes) +
			  heap_cost(root, rel, index, work) + work->hits * cpu_index_tuple_cost +
			  work->rows * cpu_tuple_cost;
	*total += probes * btree_operators(index, work->probes) * cpu_operator_cost;
	if (hm_has_columns(index))
		*total += work->probes * COMPOSITE_OPERATORS * cpu_operator_cost;
	if (index->indexprs != NIL && hm_lookup_may_use_device(work->probes))
	{
		QualCost key_cost;

		cost_qual_eval(&key_cost, index->indexprs, root);
		*startup += key_cost.startup;
		*total += key_cost.startup + key_cost.per_tuple * work->rows;
	}
}

double
hm_lookup_pages(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
				const HmLookupWork *work)
{
	double unseen = work->index_only ? 1.0 - rel->allvisfrac : 1.0;
	double correlation = work->correlation * work->correlation;
	double heap = pages_anywhere(root, rel, index, work->rows) * (1 - correlation) +
				  pages_in_order(root, rel, index, work->rows, work->runs) * correlation;

	return leaves_visited(root, index, work->probes, work->hits) + heap * unseen +
		   (work->probes + work->hits) / PAGE_ITEMS;
}

void
hm_add_evaluations(PlannerInfo *root, Path *path, List *exprs, double times)
{
	QualCost cost;

	cost_qual_eval(&cost, exprs, root);
	path->startup_cost += cost.startup;
	path->total_cost += cost.startup + cost.per_tuple * times;
}

int
hm_parallel_workers(RelOptInfo *rel, double pages)
{
	return compute_parallel_worker(rel, pages, -1, max_parallel_workers_per_gather);
}

/* PostgreSQL's get_parallel_divisor() is not for extensions. */
double
hm_parallel_processes(int workers)
{
	double leader = parallel_leader_participation ? 1.0 - 0.3 * workers : 0;

	return workers + Max(0, leader);
}
