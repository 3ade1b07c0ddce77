/*
 * lookup_join_cost.c
 *		The costs of lookup joins: their lookups in all targets, and what they evaluate.
 *
 * planner.c has the cost of lookups in one index.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "compat.h"
#include "exec/lookup_join_plan.h"

/*
 * Testing whether a target's share allows a probe costs a tenth of an operator.  Finding a key's
 * targets by all shares at once (search_shares.c) costs no more than two, whatever their
 * number.
 */
#define ROUTING_OPERATORS 0.1
#define DIVIDING_OPERATORS 2

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

/*
 * The number of hits of so many probes in so many rows.  That is the mean of a key's rows for each
 * probe; or more, where values that are frequent on both sides meet.
 */
static double
expected_hits(PlannerInfo *root, RelOptInfo *inner, List *targets, JoinKeys *keys,
			  JoinPathExtraData *extra, double probes, bool distinct, double tuples)
{
	List *clauses = list_concat_copy(keys->clauses, keys->restrictions);
	Selectivity selectivity;

	if (hm_is_union_all(root, inner))
		return hits_in_children(root, inner, targets, clauses, probes);
	selectivity = clauselist_selectivity(root, clauses, (int) inner->relid, JOIN_INNER, NULL);
	if (keys->equal && !distinct)
	{
		SpecialJoinInfo inner_join = *extra->sjinfo;

		inner_join.jointype = JOIN_INNER;
		selectivity =
			Max(selectivity, clauselist_selectivity(root, clauses, 0, JOIN_INNER, &inner_join));
	}
	return clamp_row_est(probes * selectivity * tuples);
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
	work.batch = hm_join_batch_rows(hm_index_key_size(((HmTarget *) linitial(targets))->index),
									(Size) width, index_only);
	if (processes > 1)
		work.batch = Min(work.batch, probes * HM_FIRST_RUN);
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
}

/*
 * The clauses that are evaluated for each candidate.  Key clauses are among them only if
 * a bracket may be fuzzy.
 */
static List *
candidate_clauses(List *targets, JoinKeys *keys, JoinPathExtraData *extra)
{
	const IndexOptInfo *index = ((HmTarget *) linitial(targets))->index;
	ListCell *cell;

	if (hm_has_columns(index))
		return extra->restrictlist;
	foreach (cell, keys->keys)
	{
		if (hm_may_be_fuzzy(hm_index_type_id(index, 0), ((LookupKey *) lfirst(cell))->type))
			return extra->restrictlist;
	}
	return list_difference_ptr(extra->restrictlist, keys->clauses);
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

Cost
hm_join_row_cost(PlannerInfo *root, const RelOptInfo *joinrel)
{
	return only_counted(root, joinrel) ? 0 : cpu_tuple_cost;
}

void
hm_join_cost_path(PlannerInfo *root, Path *path, Path *outer_path, RelOptInfo *inner, List *targets,
				  JoinKeys *keys, JoinPathExtraData *extra, double distinct,
				  const LookupCost *lookups)
{
	const QualCost *target = &path->pathtarget->cost;
	double outer_rows = clamp_row_est(outer_path->rows);
	double probes = distinct > 0 ? distinct : outer_rows;
	Cost row_cost = hm_join_row_cost(root, path->parent);

	hm_inherit_disabled_nodes(path, outer_path);
	path->startup_cost = outer_path->startup_cost;
	path->total_cost = outer_path->total_cost;
	if (distinct > 0)
		cost_distinct(path, hm_index_key_size(((HmTarget *) linitial(targets))->index), outer_rows,
					  distinct);
	path->startup_cost += lookups->startup + target->startup;
	path->total_cost +=
		probes * row_cost + lookups->total + target->startup + target->per_tuple * path->rows;
	/* The lookups' costs have one for each row that they return. */
	path->total_cost -= (cpu_tuple_cost - row_cost) * Min(path->rows, lookups->candidates);
	hm_add_evaluations(root, path, keys->arguments, outer_rows);
	hm_add_evaluations(root, path, inner->baserestrictinfo, lookups->candidates);
	path->startup_cost += inner->reltarget->cost.startup;
	path->total_cost +=
		inner->reltarget->cost.startup + inner->reltarget->cost.per_tuple * lookups->candidates;
	hm_add_evaluations(root, path, candidate_clauses(targets, keys, extra), lookups->candidates);
}
