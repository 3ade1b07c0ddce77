/*
 * lookup_join_cost.c
 *		The costs of lookup joins: their lookups in all targets, and what they evaluate.
 *
 * planner.c has the cost of lookups in one index.
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "miscadmin.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"

#include "compat.h"
#include "exec/lookup_join_plan.h"

/*
 * Testing whether a target's share allows a probe costs a tenth of an operator.  Finding a key's
 * targets by all shares at once (search_shares.c) costs no more than two, whatever their
 * number.
 */
#define ROUTING_OPERATORS 0.1
#define DIVIDING_OPERATORS 2

/*
 * What it costs to share an outer row with other processes: it is sorted, written and read again.
 */
#define SHARING_OPERATORS 4

/*
 * What a lookup join costs at most of the loops of a nested loop that finds the same rows.  It took
 * 0.1 to 0.35 of the time where rows were read from the heap in a few batches.
 */
#define LOOPS_SHARE 0.8

/*
 * To set up a lookup takes as long as some five loops: 18 us, when a loop took 3.5.  So the share
 * is larger for few probes: by this, divided by their number.
 */
#define LOOPS_SETUP 1.5

/*
 * The same where the first rows are wanted soon: no row comes before the first batch has been
 * looked up, and that is small.  Of 10 rows a lookup join took 1.1 to 1.2 times as long as loops,
 * of 100 rows 0.7, of 1,000 0.4.
 */
#define FIRST_SETUP 5

Cost
hm_cost_routing(double probes, bool points, List *targets)
{
	double operators = list_length(targets) * ROUTING_OPERATORS;

	if (list_length(targets) == 1)
		return 0;
	if (points && hm_shares_differ(targets))
		operators = Min(operators, DIVIDING_OPERATORS);
	return probes * operators * cpu_operator_cost;
}

/*
 * The number of hits whose rows have to be looked at.  A semijoin or antijoin is done
 * with an outer row when it has found a match.  If the key clauses are the only
 * conditions, the first hit is a match.  Otherwise the estimates are those of
 * PostgreSQL's nested loops (final_cost_nestloop()): the first of m matches is found
 * after 2 / (m + 1) of a row's hits, and a row without a match is compared with all.
 */
static double
rows_wanted(RelOptInfo *inner, JoinType type, JoinKeys *keys, JoinPathExtraData *extra,
			double probes, double hits)
{
	const SemiAntiJoinFactors *factors = &extra->semifactors;

	if (type != JOIN_SEMI && type != JOIN_ANTI)
		return hits;
	if (inner->baserestrictinfo == NIL &&
		list_length(extra->restrictlist) == list_length(keys->clauses))
		return Min(hits, probes);
	return hits * (1 - factors->outer_match_frac +
				   factors->outer_match_frac * Min(1.0, 2.0 / (factors->match_count + 1)));
}

/* The index that a join uses in a table; NULL if the table is none of its targets. */
static const IndexOptInfo *
index_of_target(List *targets, const RelOptInfo *table)
{
	ListCell *cell;

	foreach (cell, targets)
	{
		const HmTarget *target = lfirst(cell);

		if (target->rel == table)
			return target->index;
	}
	return NULL;
}

/* Whether a column of any index of a table is one of the first columns of this one. */
static bool
is_among_first(const IndexOptInfo *index, int count, const IndexOptInfo *other, int column)
{
	const Expr *expr = list_nth_node(TargetEntry, other->indextlist, column)->expr;

	for (int i = 0; i < count; i++)
	{
		if (equal(expr, list_nth_node(TargetEntry, index->indextlist, i)->expr))
			return true;
	}
	return false;
}

/* Whether no probe finds more than one row: a unique index has no other columns than the keys. */
static bool
finds_one(List *targets, const JoinKeys *keys)
{
	const HmTarget *target = linitial(targets);
	int equal = 0; /* first columns that have a value; a range of the next one may follow */
	ListCell *cell;

	foreach (cell, keys->keys)
	{
		const LookupKey *key = lfirst(cell);

		if (key->strategy == BTEqualStrategyNumber)
			equal = Max(equal, key->column + 1);
	}
	foreach (cell, target->rel->indexlist)
	{
		const IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		int found = 0;

		if (!index->unique || !index->immediate || (index->indpred != NIL && !index->predOK))
			continue;
		while (found < index->nkeycolumns && is_among_first(target->index, equal, index, found))
			found++;
		if (found == index->nkeycolumns)
			return true;
	}
	return false;
}

/*
 * The number of hits of so many probes in the tables of a UNION ALL, which has no statistics of its
 * own.
 */
static double
hits_in_children(PlannerInfo *root, RelOptInfo *inner, List *targets, List *clauses, double probes)
{
	double hits = 0;
	ListCell *cell;

	foreach (cell, targets)
	{
		RelOptInfo *table = ((HmTarget *) lfirst(cell))->rel;
		List *translated = (List *) hm_translate_for_child(root, (Node *) clauses, table, inner);

		hits += probes * table->tuples *
				clauselist_selectivity(root, translated, (int) table->relid, JOIN_INNER, NULL);
	}
	return clamp_row_est(hits);
}

/* The probes of an outer row. */
static int
probes_each(const JoinKeys *keys)
{
	return keys->is_any ? list_length(keys->keys) : 1;
}

/*
 * The number of hits of the probes of so many outer rows in so many rows.  For outer rows, it is
 * what PostgreSQL expects of a join: some may have no match, or values that are frequent on both
 * sides.  For ranges and distinct keys, each finds the mean of a key's rows.
 */
static double
expected_hits(PlannerInfo *root, RelOptInfo *inner, List *targets, JoinKeys *keys,
			  JoinPathExtraData *extra, double probes, bool distinct, double tuples)
{
	List *clauses = list_concat_copy(keys->clauses, keys->restrictions);
	Selectivity selectivity;
	double hits;

	if (hm_is_union_all(root, inner))
		return hits_in_children(root, inner, targets, clauses, probes);
	if (keys->equal && !distinct)
	{
		SpecialJoinInfo inner_join = *extra->sjinfo;

		inner_join.jointype = JOIN_INNER;
		selectivity = clauselist_selectivity(root, clauses, 0, JOIN_INNER, &inner_join);
	}
	else
		selectivity = clauselist_selectivity(root, clauses, (int) inner->relid, JOIN_INNER, NULL);
	hits = probes * selectivity * tuples;
	probes *= probes_each(keys);
	return clamp_row_est(hits > probes && finds_one(targets, keys) ? probes : hits);
}

/*
 * The clauses that are evaluated for each candidate.  Key clauses are among them only if
 * a bracket may be fuzzy.
 */
static List *
candidate_clauses(List *targets, JoinKeys *keys, JoinPathExtraData *extra)
{
	const IndexOptInfo *index = ((HmTarget *) linitial(targets))->index;
	HmFields fields;
	ListCell *cell;

	hm_read_fields(index, &fields);
	foreach (cell, keys->keys)
	{
		if (!hm_key_is_exact(index, &fields, lfirst(cell)))
			return extra->restrictlist;
	}
	return list_difference_ptr(extra->restrictlist, keys->clauses);
}

/*
 * Whether a lookup does nothing with a hit but mark its outer row as one that has a match.
 */
static bool
only_marks(const RelOptInfo *inner, List *targets, JoinType type, bool index_only, JoinKeys *keys,
		   JoinPathExtraData *extra)
{
	return (type == JOIN_SEMI || type == JOIN_ANTI) && index_only &&
		   inner->baserestrictinfo == NIL && candidate_clauses(targets, keys, extra) == NIL;
}

bool
hm_join_shares_rows(PlannerInfo *root, List *targets, List *keys, bool is_any)
{
	const HmTarget *first = linitial(targets);
	ListCell *cell;

	/* They are divided by their keys. */
	if (hm_index_type_id(first->index, 0) == HM_ANY_VALUE)
		return false;
	foreach (cell, keys)
	{
		if (((LookupKey *) lfirst(cell))->strategy != BTEqualStrategyNumber)
			return false;
	}
	return !is_any && !hm_wants_first_rows(root) &&
		   (list_length(targets) == 1 || !hm_has_columns(first->index));
}

void
hm_join_cost_targets(PlannerInfo *root, RelOptInfo *inner, List *targets, JoinType type,
					 JoinKeys *keys, bool index_only, JoinPathExtraData *extra, double probes,
					 bool distinct, int width, double processes, LookupCost *cost)
{
	HmLookupWork work = {0};
	double tuples = 0;
	double hits;
	ListCell *cell;

	foreach (cell, targets)
		tuples += ((HmTarget *) lfirst(cell))->rel->tuples;
	hits = expected_hits(root, inner, targets, keys, extra, probes, distinct, tuples);
	*cost = (LookupCost){0};
	cost->candidates = rows_wanted(inner, type, keys, extra, probes, hits);
	work.processes = processes;
	probes *= probes_each(keys);
	work.batch = hm_join_batch_rows(hm_index_key_size(((HmTarget *) linitial(targets))->index),
									(Size) width, index_only);
	if (processes > 1)
		work.batch = Min(work.batch, probes * HM_FIRST_RUN);
	work.shared =
		processes > 1 && index_only && hm_join_shares_rows(root, targets, keys->keys, keys->is_any);
	if (cost->candidates > probes)
		work.correlation = hm_key_correlation(root, ((HmTarget *) linitial(targets))->index);
	work.index_only = index_only;

	foreach (cell, targets)
	{
		HmTarget *target = lfirst(cell);
		IndexOptInfo *index = target->index;
		double fraction = target->rel->tuples / Max(1.0, tuples);
		double share = hm_share_is_all(&target->share) ? 1.0 : fraction;

		work.probes = work.runs = clamp_row_est(probes * share);
		work.hits = work.rows = cost->candidates * fraction;

		/*
		 * Hits that are not wanted any more are left out from the next leaf on, or if there
		 * are many on a leaf.  Their number is known for keys.  For ranges it is a guess, which
		 * only affects the time.
		 */
		if (keys->equal)
			work.hits = Min(hits * fraction, work.rows + probes * share *
															 (hits > probes * HM_LOOKUP_MANY_HITS ?
																  HM_LOOKUP_FEW_HITS :
																  hits / probes));
		hm_cost_lookup(root, target->rel, index, &work, &cost->startup, &cost->total);
		cost->pages += hm_lookup_pages(root, target->rel, index, &work);
	}

	cost->total += hm_cost_routing(probes, keys->equal, targets);
	if (work.shared)
		cost->total += probes * SHARING_OPERATORS * cpu_operator_cost;
	if (only_marks(inner, targets, type, index_only, keys, extra))
	{
		cost->total -= cost->candidates * cpu_tuple_cost;
		cost->candidates = 0;
	}
}

/*
 * Add the cost of collecting keys before the first one is looked up: an operator for each,
 * and a sort if not even the distinct ones fit into memory (distinct_keys.c).
 */
static void
cost_distinct(Path *path, Size key_size, double rows, double distinct)
{
	double bytes = rows * key_size;

	path->total_cost += rows * cpu_operator_cost;
	if (distinct * key_size > get_hash_memory_limit())
		path->total_cost +=
			rows * 2 * cpu_operator_cost * log2(rows) + 2 * seq_page_cost * ceil(bytes / BLCKSZ);
	path->startup_cost = path->total_cost;
}

/*
 * Whether the join's rows will only be counted, by a lookup aggregate: no column of theirs is
 * wanted, and nothing is between the join and the aggregate.
 */
static bool
only_counted(PlannerInfo *root, const RelOptInfo *joinrel)
{
	const Query *query = root->parse;

	return hm_enable_lookup_aggregate && query->hasAggs && query->groupClause == NIL &&
		   query->groupingSets == NIL && joinrel->reltarget->exprs == NIL &&
		   bms_is_subset(root->all_baserels, joinrel->relids);
}

/*
 * The index scan by which the inner side of a nested loop finds rows; NULL if it is not as simple.
 * Of an Append, the first child's stands for all.
 */
static const IndexPath *
index_scan_of(const Path *path)
{
	for (;;)
	{
		if (IsA(path, MemoizePath))
			path = ((const MemoizePath *) path)->subpath;
		else if (IsA(path, ProjectionPath))
			path = ((const ProjectionPath *) path)->subpath;
		else if (IsA(path, AppendPath) && ((const AppendPath *) path)->subpaths != NIL)
			path = linitial(((const AppendPath *) path)->subpaths);
		else if (IsA(path, BitmapHeapPath))
			path = ((const BitmapHeapPath *) path)->bitmapqual;
		else
			return IsA(path, IndexPath) ? (const IndexPath *) path : NULL;
	}
}

/*
 * Whether an index scan has no other conditions than those on the columns that make a join's keys.
 * Then it reads no fewer rows for an outer row than a lookup does.
 */
static bool
has_no_more_keys(const IndexPath *scan, List *targets, const JoinKeys *keys)
{
	const IndexOptInfo *index = index_of_target(targets, scan->path.parent);
	ListCell *cell;

	if (index == NULL || scan->indexclauses == NIL)
		return false;
	foreach (cell, scan->indexclauses)
	{
		if (!is_among_first(index, list_length(keys->exprs), scan->indexinfo,
							lfirst_node(IndexClause, cell)->indexcol))
			return false;
	}
	return true;
}

/*
 * The cheapest of these paths that is a nested loop with the same keys and outer relation; NULL if
 * there is none.
 */
static const JoinPath *
find_loops(List *paths, const RelOptInfo *outer, List *targets, const JoinKeys *keys)
{
	const JoinPath *best = NULL;
	ListCell *cell;

	foreach (cell, paths)
	{
		const JoinPath *path = lfirst(cell);
		const IndexPath *scan;

		if (!IsA(path, NestPath) || path->outerjoinpath->parent != outer ||
			(best != NULL && best->path.total_cost <= path->path.total_cost))
			continue;
		scan = index_scan_of(path->innerjoinpath);
		if (scan != NULL && has_no_more_keys(scan, targets, keys))
			best = path;
	}
	return best;
}

/*
 * Have a path cost less than a nested loop with the same keys, if it looks up more than a few.
 * PostgreSQL charges an inner index scan for so few pages as if there were a loop for each row of
 * an outer table, and not those of a join, and loops of an outer row with one match or none at all
 * cost less still.  For the lookups we expect what is there.  But they read no more than the loops.
 *
 * Not so if the first rows are wanted soon: that is what loops are best at.  "before" is what the
 * path costs without its lookups.
 */
static void
limit_to_loops(PlannerInfo *root, Path *path, Path *outer_path, List *targets, const JoinKeys *keys,
			   double probes, Cost before)
{
	const RelOptInfo *joinrel = path->parent;
	const JoinPath *loops =
		find_loops(path->parallel_workers > 0 ? joinrel->partial_pathlist : joinrel->pathlist,
				   outer_path->parent, targets, keys);
	Cost startup = 0;
	Cost total = 0;

	if (loops == NULL || hm_wants_first_rows(root))
		return;
	hm_cost_lookup_least(0, &startup, &total);
	total += before + LOOPS_SHARE * (probes + LOOPS_SETUP) /
						  clamp_row_est(loops->outerjoinpath->rows) *
						  (loops->path.total_cost - loops->outerjoinpath->total_cost);
	path->total_cost = Min(path->total_cost, total);

	/* If total costs are nearly the same, add_path() decides by those before the first row. */
	if (path->total_cost <= loops->path.total_cost)
		path->startup_cost = Min(path->startup_cost, loops->path.startup_cost);
	path->startup_cost = Min(path->startup_cost, path->total_cost);
}

void
hm_join_cost_first(Path *path, Path *outer_path, List *targets, const JoinKeys *keys, double rows)
{
	const JoinPath *loops = find_loops(path->parent->pathlist, outer_path->parent, targets, keys);
	double outer_rows = clamp_row_est(outer_path->rows);
	Cost lookup = (path->total_cost - outer_path->total_cost) / outer_rows;
	Cost loop = lookup;

	if (loops != NULL)
		loop = Max(loop, (loops->path.total_cost - loops->outerjoinpath->total_cost) /
							 clamp_row_est(loops->outerjoinpath->rows));

	/* A LIMIT adds its share of the total cost. */
	path->startup_cost +=
		Max(0, LOOPS_SHARE * loop - lookup) * Min(rows, outer_rows) + FIRST_SETUP * loop;
	path->startup_cost = Min(path->startup_cost, path->total_cost);
}

Cost
hm_join_row_cost(PlannerInfo *root, const RelOptInfo *joinrel)
{
	return only_counted(root, joinrel) ? 0 : cpu_tuple_cost;
}

void
hm_join_cost_order(Path *path, JoinType type)
{
	double rows = clamp_row_est(path->rows);

	if (type == JOIN_INNER || type == JOIN_LEFT)
		path->total_cost += rows * (2 * cpu_tuple_cost + cpu_operator_cost * log2(rows + 1) / 2);
}

/*
 * Whether the rows of one side have at most one match each.  Then PostgreSQL charges a hash join
 * next to nothing for the rows that it returns, and for other conditions on them, because it takes
 * the selectivity of the join for the share of rows that have a match (eqjoinsel() goes by
 * sjinfo->jointype, which is not JOIN_SEMI).
 */
static bool
has_unique_side(PlannerInfo *root, const RelOptInfo *joinrel, const RelOptInfo *outer,
				RelOptInfo *inner, JoinType type, JoinPathExtraData *extra)
{
	if (type != JOIN_INNER && type != JOIN_LEFT)
		return false;
	return extra->inner_unique ||
		   innerrel_is_unique(root, joinrel->relids, inner->relids, unconstify(RelOptInfo *, outer),
							  type == JOIN_LEFT ? JOIN_RIGHT : type, extra->restrictlist, false);
}

void
hm_join_cost_path(PlannerInfo *root, Path *path, Path *outer_path, RelOptInfo *inner, List *targets,
				  JoinType type, JoinKeys *keys, JoinPathExtraData *extra, double distinct,
				  const LookupCost *lookups)
{
	const QualCost *target = &path->pathtarget->cost;
	double outer_rows = clamp_row_est(outer_path->rows);
	double probes = distinct > 0 ? distinct : outer_rows;
	Cost row_cost = hm_join_row_cost(root, path->parent);
	bool unique = has_unique_side(root, path->parent, outer_path->parent, inner, type, extra);
	Cost before;

	hm_inherit_disabled_nodes(path, outer_path);
	path->startup_cost = outer_path->startup_cost;
	path->total_cost = outer_path->total_cost;
	if (distinct > 0)
		cost_distinct(path, hm_index_key_size(((HmTarget *) linitial(targets))->index), outer_rows,
					  distinct);
	before = path->total_cost;
	path->startup_cost += lookups->startup + target->startup;
	path->total_cost +=
		probes * row_cost + lookups->total + target->startup + target->per_tuple * path->rows;
	/* The lookups' costs have one for each row that they return. */
	path->total_cost -=
		(cpu_tuple_cost - (unique ? 0 : row_cost)) * Min(path->rows, lookups->candidates);
	hm_add_evaluations(root, path, keys->arguments, outer_rows);
	hm_add_evaluations(root, path, inner->baserestrictinfo, lookups->candidates);
	path->startup_cost += inner->reltarget->cost.startup;
	path->total_cost +=
		inner->reltarget->cost.startup + inner->reltarget->cost.per_tuple * lookups->candidates;
	if (!unique)
		hm_add_evaluations(root, path, candidate_clauses(targets, keys, extra),
						   lookups->candidates);
	limit_to_loops(root, path, outer_path, targets, keys, probes, before);
}
