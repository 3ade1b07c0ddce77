/*
 * lookup_join_plan.c
 *		Planning a lookup join: the rows of any plan, looked up in one table or in all
 *		partitions of one.
 *
 * The hook is called for each ordered pair of relations that can be joined.  It offers a
 * path if the inner one is a table with a harmonia index, and the join clauses compare
 * the index's key with expressions on the outer one: for equality, or with a lower and an
 * upper bound.  If the inner table is partitioned or has children, these are the join's
 * targets.  Everything else in the plan is in terms of the parent's columns.
 *
 * The plan's scan tuple (custom_scan_tlist) has each column of both sides that an
 * expression refers to, once.  If the join returns the column, its Var is the one that
 * the rows of the join have.  Other clauses, which are evaluated before that, have their
 * Vars replaced by these: from 16 on, Vars of one column differ in nullingrels, which
 * says which outer joins may have made it NULL.
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "exec/nodes.h"

/* Testing whether a target's share allows a probe costs a tenth of an operator. */
#define ROUTING_OPERATORS	0.1

/* The key clauses: join clauses that find entries in an index. */
typedef struct JoinKeys
{
	List	   *clauses;		/* RestrictInfos */
	List	   *arguments;		/* the outer side of each */
	List	   *description;	/* strategy and argument type of each */
	Node	   *expr;			/* the key */
	bool		equal;
	bool		lower;
	bool		upper;
} JoinKeys;

/* What the path hands over to the plan: the order of custom_private. */
enum PathPrivate
{
	PATH_INNER,					/* RelOptInfo */
	PATH_TARGETS,				/* HmTargets */
	PATH_FLAGS,					/* JoinType, index-only?, only distinct keys? */
	PATH_KEYS,					/* key clauses */
	PATH_ARGUMENTS,
	PATH_DESCRIPTION,
	PATH_RESTRICTIONS			/* all join clauses */
};

/* ----------------------------------------------------------------
 *		Paths
 * ----------------------------------------------------------------
 */

/* Take a join clause as a key clause if it compares the index's key. */
static void
match_clause(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index,
			 RestrictInfo *info, JoinKeys *keys)
{
	OpExpr	   *clause = (OpExpr *) info->clause;
	Node	   *key,
			   *argument;
	Oid			operator;
	int			strategy;
	Oid			left_type,
				right_type;
	int			unused;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2 ||
		!restriction_is_securely_promotable(info, inner))
		return;
	if (bms_is_subset(info->left_relids, inner->relids) &&
		!bms_is_member((int) inner->relid, info->right_relids) &&
		hm_is_key(root, inner, index, linitial(clause->args)))
	{
		key = linitial(clause->args);
		argument = lsecond(clause->args);
		operator = clause->opno;
	}
	else if (bms_is_subset(info->right_relids, inner->relids) &&
			 !bms_is_member((int) inner->relid, info->left_relids) &&
			 hm_is_key(root, inner, index, lsecond(clause->args)))
	{
		key = lsecond(clause->args);
		argument = linitial(clause->args);
		operator = get_commutator(clause->opno);
	}
	else
		return;

	/* The RestrictInfo caches the answer. */
	if (!OidIsValid(operator) || contain_volatile_functions((Node *) info))
		return;
	strategy = hm_operator_strategy(index, operator);
	if (strategy == 0)
		return;
	get_op_opfamily_properties(operator, index->opfamily[0], false, &unused,
							   &left_type, &right_type);

	keys->expr = key;
	keys->clauses = lappend(keys->clauses, info);
	keys->arguments = lappend(keys->arguments, argument);
	keys->description = lappend_int(keys->description, strategy);
	keys->description = lappend_int(keys->description, (int) right_type);
	keys->equal |= strategy == BTEqualStrategyNumber;
	keys->lower |= strategy >= BTGreaterEqualStrategyNumber;
	keys->upper |= strategy <= BTLessEqualStrategyNumber;
}

/*
 * Collect the key clauses of a join.  Returns whether they limit the keys of each probe:
 * by equality, or from below and from above.
 */
static bool
match_restrictions(PlannerInfo *root, RelOptInfo *inner, IndexOptInfo *index,
				   JoinType type, RelOptInfo *joinrel, List *restrictions, JoinKeys *keys)
{
	ListCell   *cell;

	*keys = (JoinKeys) {0};
	foreach(cell, restrictions)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		/* A clause that is evaluated above an outer join does not decide what matches. */
		if (IS_OUTER_JOIN(type) && RINFO_IS_PUSHED_DOWN(info, joinrel->relids))
			continue;
		match_clause(root, inner, index, info, keys);
	}
	return keys->equal || (keys->lower && keys->upper);
}

/* Whether one of the clauses is a one-time filter.  Our nodes do not support these. */
static bool
has_pseudoconstant(List *infos)
{
	ListCell   *cell;

	foreach(cell, infos)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	}
	return false;
}

/*
 * Whether all that the join returns are columns of its inputs, or expressions that the
 * outer side has evaluated.  The join itself returns no other expressions, and no
 * whole-row reference to the inner table.
 */
static bool
can_provide_targets(RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner)
{
	ListCell   *cell;

	foreach(cell, joinrel->reltarget->exprs)
	{
		if (!IsA(lfirst(cell), Var) && !list_member(outer->reltarget->exprs, lfirst(cell)))
			return false;
	}
	foreach(cell, inner->reltarget->exprs)
	{
		Var		   *column = lfirst(cell);

		if (!IsA(column, Var) || column->varattno == InvalidAttrNumber)
			return false;
	}
	return true;
}

/* Whether expressions have a whole-row reference to a relation. */
static bool
read_row(List *exprs, Index relid)
{
	Bitmapset  *attributes = NULL;

	pull_varattnos((Node *) exprs, relid, &attributes);
	return bms_is_member(InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber, attributes);
}

static Plan *plan_lookup_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
							  List *tlist, List *clauses, List *plans);

const CustomPathMethods hm_lookup_join_path_methods = {
	.CustomName = "HarmoniaLookupJoin",
	.PlanCustomPath = plan_lookup_join,
};

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

/* What looking up a join's probes takes, in all targets. */
typedef struct LookupCost
{
	Cost		startup;
	Cost		total;
	double		candidates;		/* rows that have to be looked at */
	double		pages;			/* see hm_lookup_pages() */
} LookupCost;

/*
 * The cost of looking up probes in all targets.  width is the size of an outer row, and
 * processes the number of processes that look up so many, each those of other rows.
 */
static void
cost_targets(PlannerInfo *root, RelOptInfo *inner, List *targets, JoinType type,
			 JoinKeys *keys, bool index_only, JoinPathExtraData *extra, double probes, int width,
			 double processes, LookupCost *cost)
{
	Selectivity selectivity = clauselist_selectivity(root, keys->clauses, (int) inner->relid,
													 JOIN_INNER, NULL);
	HmLookupWork work = {0};
	double		tuples = 0;
	double		hits;
	ListCell   *cell;

	foreach(cell, targets)
		tuples += ((HmTarget *) lfirst(cell))->rel->tuples;
	hits = clamp_row_est(probes * selectivity * tuples);
	*cost = (LookupCost) {0};
	cost->candidates = rows_wanted(inner, type, keys, extra, probes, hits);
	work.processes = processes;
	work.batch = hm_join_batch_rows((Size) width, index_only);
	if (processes > 1)
		work.batch = Min(work.batch, probes * HM_FIRST_RUN);
	if (cost->candidates > probes)
		work.correlation = hm_key_correlation(root, ((HmTarget *) linitial(targets))->index);
	work.index_only = index_only;

	foreach(cell, targets)
	{
		HmTarget   *target = lfirst(cell);
		IndexOptInfo *index = target->index;
		double		fraction = target->rel->tuples / Max(1.0, tuples);
		double		share = hm_share_is_all(&target->share) ? 1.0 : fraction;

		work.probes = work.runs = clamp_row_est(probes * share);
		work.hits = work.rows = cost->candidates * fraction;

		/*
		 * Hits that are not wanted any more are left out from the next leaf on.  Their
		 * number is known for keys.  For ranges it is a guess, which only affects the
		 * time.
		 */
		if (keys->equal)
			work.hits = Min(hits * fraction,
							work.rows + probes * share *
							(index->tuples / Max(1.0, (double) index->pages)));
		hm_cost_lookup(root, target->rel, index, &work, &cost->startup, &cost->total);
		cost->pages += hm_lookup_pages(root, target->rel, index, &work);
	}

	/* Choosing the probes for each target. */
	if (list_length(targets) > 1)
		cost->total += probes * list_length(targets) * ROUTING_OPERATORS * cpu_operator_cost;
}

/*
 * The clauses that are evaluated for each candidate.  Key clauses are among them only if
 * a bracket may be fuzzy.
 */
static List *
candidate_clauses(List *targets, JoinKeys *keys, JoinPathExtraData *extra)
{
	const IndexOptInfo *index = ((HmTarget *) linitial(targets))->index;

	for (int i = 1; i < list_length(keys->description); i += 2)
	{
		if (hm_may_be_fuzzy(index->opcintype[0], (Oid) list_nth_int(keys->description, i)))
			return extra->restrictlist;
	}
	return list_difference_ptr(extra->restrictlist, keys->clauses);
}

/* Add to a path's costs the evaluation of expressions, a number of times. */
static void
add_evaluations(PlannerInfo *root, Path *path, List *exprs, double times)
{
	QualCost	cost;

	cost_qual_eval(&cost, exprs, root);
	path->startup_cost += cost.startup;
	path->total_cost += cost.startup + cost.per_tuple * times;
}

/*
 * Add the cost of collecting keys before the first one is looked up: an operator for each,
 * and a sort if not even the distinct ones fit into memory (distinct_keys.c).
 */
static void
cost_distinct(Path *path, double rows, double distinct)
{
	double		bytes = rows * sizeof(uint64);

	path->total_cost += rows * cpu_operator_cost;
	if (distinct * sizeof(uint64) > get_hash_memory_limit())
		path->total_cost += rows * 2 * cpu_operator_cost * log2(rows) +
			2 * seq_page_cost * ceil(bytes / BLCKSZ);
	path->startup_cost = path->total_cost;
}

/*
 * A path with these inputs, and what its lookups cost.  If "distinct" is not 0, this is the
 * number of distinct keys that the outer rows have, and only these are looked up.
 */
static CustomPath *
make_path(PlannerInfo *root, RelOptInfo *joinrel, Path *outer_path, RelOptInfo *inner,
		  List *targets, JoinType type, JoinKeys *keys, bool index_only, double distinct,
		  JoinPathExtraData *extra, double rows, const LookupCost *lookups)
{
	CustomPath *path = makeNode(CustomPath);
	double		outer_rows = clamp_row_est(outer_path->rows);
	double		probes = distinct > 0 ? distinct : outer_rows;

	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.parallel_safe = joinrel->consider_parallel && outer_path->parallel_safe;
	path->path.parallel_workers = outer_path->parallel_workers;
	path->path.rows = rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &hm_lookup_join_path_methods;
	path->custom_paths = list_make1(outer_path);
	path->custom_private = list_make5(inner, targets,
									  list_make3_int(type, index_only, distinct > 0),
									  keys->clauses, keys->arguments);
	path->custom_private = lappend(path->custom_private, keys->description);
	path->custom_private = lappend(path->custom_private, extra->restrictlist);

	path->path.startup_cost = outer_path->startup_cost;
	path->path.total_cost = outer_path->total_cost;
	if (distinct > 0)
		cost_distinct(&path->path, outer_rows, distinct);
	path->path.startup_cost += lookups->startup + joinrel->reltarget->cost.startup;
	path->path.total_cost += probes * cpu_tuple_cost + lookups->total +
		joinrel->reltarget->cost.startup + joinrel->reltarget->cost.per_tuple * rows;
	add_evaluations(root, &path->path, keys->arguments, outer_rows);
	add_evaluations(root, &path->path, inner->baserestrictinfo, lookups->candidates);
	add_evaluations(root, &path->path, candidate_clauses(targets, keys, extra),
					lookups->candidates);
	return path;
}

/*
 * Whether the key is all that the join reads of its targets, and their indexes can return
 * it.
 */
static bool
is_index_only(RelOptInfo *inner, List *targets, Node *key, JoinPathExtraData *extra)
{
	List	   *clauses;
	ListCell   *cell;

	if (IsA(key, RelabelType))
		key = (Node *) ((RelabelType *) key)->arg;
	if (!IsA(key, Var))
		return false;
	foreach(cell, inner->reltarget->exprs)
	{
		if (lfirst_node(Var, cell)->varattno != ((Var *) key)->varattno)
			return false;
	}
	foreach(cell, targets)
	{
		if (!hm_can_return_key(((HmTarget *) lfirst(cell))->index))
			return false;
	}
	clauses = list_concat(extract_actual_clauses(inner->baserestrictinfo, false),
						  get_actual_clauses(extra->restrictlist));
	return hm_reads_only(inner, ((Var *) key)->varattno, clauses);
}

/*
 * Whether the join needs nothing but the key of its outer rows, so that it can make up the
 * outer row of a key.  That is, the only clause is equality with an expression, and no
 * other column of the outer side is returned.
 */
static bool
needs_only_key(RelOptInfo *joinrel, RelOptInfo *outer, List *targets, JoinKeys *keys,
			   JoinPathExtraData *extra)
{
	const HmKeyType *key_type =
		hm_key_type_lookup(((HmTarget *) linitial(targets))->index->opcintype[0]);
	Node	   *argument = linitial(keys->arguments);
	ListCell   *cell;

	if (!keys->equal || list_length(extra->restrictlist) != 1 ||
		hm_may_be_fuzzy(key_type->type, (Oid) lsecond_int(keys->description)))
		return false;
	foreach(cell, joinrel->reltarget->exprs)
	{
		Node	   *expr = lfirst(cell);

		if (list_member(outer->reltarget->exprs, expr) &&
			(!equal(expr, argument) || exprType(expr) != key_type->type ||
			 key_type->restore == NULL))
			return false;
	}
	return true;
}

/*
 * Offer a path that drops duplicates itself: for a semijoin, where PostgreSQL would make the
 * outer rows distinct, and then join them as for an inner join; and for an inner join with
 * a SELECT DISTINCT.  "distinct" is the number of distinct rows.
 */
static void
add_distinct_path(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
				  List *targets, JoinType type, JoinKeys *keys, bool index_only, double distinct,
				  JoinPathExtraData *extra)
{
	Node	   *argument = linitial(keys->arguments);
	Path	   *before = hm_path_before_distinct(outer, argument);
	Path	   *outer_path = before != NULL ? before : outer->cheapest_total_path;
	LookupCost	cost;

	if (type == JOIN_UNIQUE_OUTER)
	{
		if (list_length(extra->sjinfo->semi_rhs_exprs) != 1 ||
			!equal(linitial(extra->sjinfo->semi_rhs_exprs), argument))
			return;
	}
	else if (type != JOIN_INNER || before == NULL)
		return;
	if (PATH_REQ_OUTER(outer_path) != NULL ||
		!needs_only_key(joinrel, outer, targets, keys, extra))
		return;
	distinct = clamp_row_est(distinct);
	cost_targets(root, inner, targets, JOIN_INNER, keys, index_only, extra, distinct, 0, 1, &cost);
	add_path(joinrel, (Path *) make_path(root, joinrel, outer_path, inner, targets, JOIN_INNER,
										 keys, index_only, distinct, extra, joinrel->rows, &cost));
}

/*
 * Whether a lookup join chooses for itself how many processes read the outer side: this
 * is a table, and a sequential scan is the best way to read it in parallel.
 */
static bool
can_choose_workers(PlannerInfo *root, RelOptInfo *outer)
{
	RangeTblEntry *rte;
	Path	   *path = outer->partial_pathlist != NIL ? linitial(outer->partial_pathlist) : NULL;

	if (!IS_SIMPLE_REL(outer) || outer->rtekind != RTE_RELATION || !outer->consider_parallel ||
		!bms_is_empty(outer->lateral_relids) || IS_DUMMY_REL(outer))
		return false;
	rte = planner_rt_fetch(outer->relid, root);
	return !rte->inh && rte->tablesample == NULL &&
		(rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW) &&
		(path == NULL || path->pathtype == T_SeqScan);
}

/*
 * The path by which the processes of a parallel lookup join read the outer side; NULL if
 * there is none.  PostgreSQL gives a scan of a table as many workers as the size of that
 * table deserves.  Where a scan is what they read, the join has as many as the work of
 * all of the join deserves: "pages" for the lookups.
 */
static Path *
parallel_outer_path(PlannerInfo *root, RelOptInfo *outer, double pages)
{
	Path	   *path = outer->partial_pathlist != NIL ? linitial(outer->partial_pathlist) : NULL;
	int			workers;

	if (!can_choose_workers(root, outer))
		return path;
	workers = hm_parallel_workers(outer, outer->pages + pages);
	if (workers <= (path == NULL ? 0 : path->parallel_workers))
		return path;
	return create_seqscan_path(root, outer, NULL, workers);
}

/*
 * Offer paths for these targets: one with all outer rows and, if possible, a parallel
 * one.
 */
static void
add_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
		  List *targets, JoinType type, JoinKeys *keys, JoinPathExtraData *extra)
{
	bool		index_only = is_index_only(inner, targets, keys->expr, extra);
	Path	   *outer_path = outer->cheapest_total_path;
	JoinType	join_type = type;
	LookupCost	cost;
	CustomPath *path;
	double		processes;

	/* Make the outer rows distinct, and then join them as for an inner join. */
	if (type == JOIN_UNIQUE_OUTER)
	{
		outer_path = (Path *) create_unique_path(root, outer, outer_path, extra->sjinfo);
		join_type = JOIN_INNER;
	}
	if (outer_path == NULL || PATH_REQ_OUTER(outer_path) != NULL)
		return;
	add_distinct_path(root, joinrel, outer, inner, targets, type, keys, index_only,
					  outer_path->rows, extra);
	cost_targets(root, inner, targets, join_type, keys, index_only, extra,
				 clamp_row_est(outer_path->rows), outer_path->pathtarget->width, 1, &cost);
	add_path(joinrel, (Path *) make_path(root, joinrel, outer_path, inner, targets, join_type,
										 keys, index_only, 0, extra, joinrel->rows, &cost));

	if (!joinrel->consider_parallel || type == JOIN_UNIQUE_OUTER ||
		!bms_is_empty(joinrel->lateral_relids))
		return;
	outer_path = parallel_outer_path(root, outer, cost.pages);
	if (outer_path == NULL)
		return;
	processes = Max(1.0, outer->rows / clamp_row_est(outer_path->rows));
	cost_targets(root, inner, targets, join_type, keys, index_only, extra,
				 clamp_row_est(outer_path->rows), outer_path->pathtarget->width, processes, &cost);
	path = make_path(root, joinrel, outer_path, inner, targets, join_type, keys, index_only, 0,
					 extra, clamp_row_est(joinrel->rows / processes), &cost);

	/* Workers share only their counters, but these need shared memory. */
	path->path.parallel_aware = true;
	add_partial_path(joinrel, (Path *) path);
}

/*
 * Whether a lookup join is possible with this inner side.  Tests only what is quickly
 * known.
 */
static bool
may_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *inner)
{
	/* EvalPlanQual would have rows joined again that were changed concurrently. */
	return IS_SIMPLE_REL(inner) && inner->rtekind == RTE_RELATION &&
		root->rowMarks == NIL && !bms_overlap(joinrel->relids, root->all_result_relids) &&
		bms_is_empty(inner->lateral_relids) && bms_is_empty(joinrel->lateral_relids);
}

/*
 * Whether a path can win against those that the join has already.  Looks only at that
 * part of the costs that is quickly known.  Most joins of small tables end here.
 */
static bool
may_pay(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, JoinType type)
{
	Path	   *path = outer->cheapest_total_path;
	double		probes = type == JOIN_UNIQUE_OUTER ? 1 : path->rows;
	Cost		startup = path->startup_cost;
	Cost		total = path->total_cost + probes * cpu_tuple_cost;

	hm_cost_lookup_least(probes, &startup, &total);
	if (hm_add_path_precheck(joinrel, startup, total))
		return true;
	if (!joinrel->consider_parallel || type == JOIN_UNIQUE_OUTER)
		return false;

	startup = 0;
	if (can_choose_workers(root, outer))
	{
		probes /= hm_parallel_processes(Max(1, max_parallel_workers_per_gather));
		total = probes * cpu_tuple_cost;
	}
	else if (outer->partial_pathlist != NIL)
	{
		path = linitial(outer->partial_pathlist);
		probes = path->rows;
		total = path->total_cost + probes * cpu_tuple_cost;
	}
	else
		return false;
	hm_cost_lookup_least(probes, &startup, &total);
	return hm_add_partial_path_precheck(joinrel, total);
}

/* Whether a lookup join can evaluate and return all that this join needs. */
static bool
can_join(RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner, JoinPathExtraData *extra)
{
	List	   *restrictions = extract_actual_clauses(inner->baserestrictinfo, false);

	return !has_pseudoconstant(extra->restrictlist) &&
		!has_pseudoconstant(inner->baserestrictinfo) &&
		can_provide_targets(joinrel, outer, inner) &&
		!read_row(get_actual_clauses(extra->restrictlist), inner->relid) &&
		!read_row(restrictions, inner->relid);
}

void
hm_lookup_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer,
					 RelOptInfo *inner, JoinType type, JoinPathExtraData *extra)
{
	RelOptInfo *table;
	ListCell   *cell;

	if (type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI &&
		type != JOIN_ANTI && type != JOIN_UNIQUE_OUTER)
		return;
	if (!may_join(root, joinrel, inner))
		return;

	/*
	 * An index of the first table is the model: all other targets must have one like it.
	 */
	table = hm_first_table(root, inner);
	if (table == NULL || !hm_has_index(table) || !may_pay(root, joinrel, outer, type))
		return;
	foreach(cell, table->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		JoinKeys	keys;
		List	   *targets;

		if (!hm_can_use_index(index) ||
			!match_restrictions(root, inner, index, type, joinrel, extra->restrictlist, &keys))
			continue;
		if (!can_join(joinrel, outer, inner, extra))
			return;
		targets = hm_targets(root, inner, index, keys.expr);
		if (targets != NIL)
			add_paths(root, joinrel, outer, inner, targets, type, &keys, extra);
	}
}

/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

/* A clause, and what decides the order of evaluation. */
typedef struct OrderedClause
{
	RestrictInfo *info;
	Index		level;
	Cost		cost;
} OrderedClause;

/*
 * Clauses in the order in which PostgreSQL's own nodes evaluate them: by security level,
 * then by cost.  A cheap leakproof clause need not wait for those of lower levels.
 * (order_qual_clauses() in createplan.c)
 */
static List *
in_order(PlannerInfo *root, List *infos)
{
	OrderedClause *clauses = palloc(Max(1, list_length(infos)) * sizeof(OrderedClause));
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, infos)
	{
		OrderedClause clause = {lfirst_node(RestrictInfo, cell)};
		int			i = foreach_current_index(cell);
		QualCost	cost;

		cost_qual_eval_node(&cost, (Node *) clause.info, root);
		clause.cost = cost.per_tuple;
		if (!clause.info->leakproof || clause.cost >= 10 * cpu_operator_cost)
			clause.level = clause.info->security_level;

		/* Insertion keeps the order of equals, and there are few. */
		for (; i > 0 && (clauses[i - 1].level > clause.level ||
						 (clauses[i - 1].level == clause.level &&
						  clauses[i - 1].cost > clause.cost)); i--)
			clauses[i] = clauses[i - 1];
		clauses[i] = clause;
	}
	for (int i = 0; i < list_length(infos); i++)
		result = lappend(result, clauses[i].info);
	return result;
}

/*
 * Copy clauses, with the key on the left in key clauses, as EXPLAIN shows those of index
 * scans.
 */
static List *
keys_left(PlannerInfo *root, List *clauses, List *keys, Index inner)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		Node	   *clause = lfirst(cell);

		if (list_member(keys, clause) &&
			!bms_is_member((int) inner,
						   pull_varnos(root, linitial(((OpExpr *) clause)->args))))
		{
			clause = copyObject(clause);
			CommuteOpExpr((OpExpr *) clause);
		}
		result = lappend(result, clause);
	}
	return result;
}

/* The scan tuple of a plan that is being made. */
typedef struct JoinPlan
{
	List	   *outer_tlist;
	Index		inner;
	List	   *tlist;			/* the scan tuple's columns */
	List	   *sources;		/* for each of them: the outer plan's column,
								 * or 0 */
} JoinPlan;

/*
 * Whether two expressions are the same column, whatever outer joins (nullingrels) they
 * name.
 */
static bool
same_column(Node *a, Node *b)
{
	if (IsA(a, Var) && IsA(b, Var))
		return ((Var *) a)->varno == ((Var *) b)->varno &&
			((Var *) a)->varattno == ((Var *) b)->varattno &&
			((Var *) a)->varlevelsup == ((Var *) b)->varlevelsup;
	if (IsA(a, PlaceHolderVar) && IsA(b, PlaceHolderVar))
		return ((PlaceHolderVar *) a)->phid == ((PlaceHolderVar *) b)->phid &&
			((PlaceHolderVar *) a)->phlevelsup == ((PlaceHolderVar *) b)->phlevelsup;
	return false;
}

/* The entry of a target list that is the same column, or NULL. */
static TargetEntry *
find_column(List *tlist, Node *column)
{
	ListCell   *cell;

	foreach(cell, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (same_column((Node *) entry->expr, column))
			return entry;
	}
	return NULL;
}

/*
 * Add to the scan tuple what it lacks of the columns that expressions refer to.  Call it
 * first for what is evaluated on the join's rows, because the first Var of a column is
 * kept.
 */
static void
provide_columns(JoinPlan *plan, List *exprs)
{
	List	   *columns = pull_var_clause((Node *) exprs,
										  PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
										  PVC_INCLUDE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, columns)
	{
		Node	   *column = lfirst(cell);
		bool		is_inner = IsA(column, Var) && ((Var *) column)->varno == plan->inner;
		TargetEntry *provider = is_inner ? NULL : find_column(plan->outer_tlist, column);
		int			source = provider ? provider->resno : 0;

		if (find_column(plan->tlist, column) != NULL)
			continue;
		if (source == 0 && IsA(column, PlaceHolderVar))
		{
			/*
			 * Only this join's own clauses refer to it, and they evaluate its expression.
			 */
			provide_columns(plan, list_make1(((PlaceHolderVar *) column)->phexpr));
			continue;
		}
		if (source == 0 && !is_inner)
			elog(ERROR, "column of a lookup join is in neither of its inputs");

		plan->tlist = lappend(plan->tlist,
							  makeTargetEntry((Expr *) copyObject(column),
											  (AttrNumber) (list_length(plan->tlist) + 1),
											  NULL, false));
		plan->sources = lappend_int(plan->sources, source);
	}
}

/*
 * Replace the Vars in an expression by those that the scan tuple has for the same
 * columns.
 */
static Node *
use_columns(Node *node, void *context)
{
	JoinPlan   *plan = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		TargetEntry *entry = find_column(plan->tlist, node);

		if (entry != NULL)
			return copyObject((Node *) entry->expr);
	}
	return expression_tree_mutator(node, use_columns, plan);
}

/* Append a 64-bit value to a plan's list, as two integers. */
static List *
append_halves(List *list, uint64 value)
{
	return lappend_int(lappend_int(list, (int) (value >> 32)), (int) (uint32) value);
}

/* A target for the executor: the lists of HmTargetPrivate. */
static List *
plan_target(PlannerInfo *root, RelOptInfo *inner, List *scan_tlist, HmTarget *target)
{
	const HmShare *share = &target->share;
	List	   *oids = list_make3_oid(planner_rt_fetch(target->rel->relid, root)->relid,
									  target->index->indexoid, share->hash);
	List	   *numbers = append_halves(append_halves(NIL, share->low), share->high);
	List	   *columns = NIL;
	ListCell   *cell;

	numbers = lappend_int(numbers, (int) share->modulus);
	numbers = lappend_int(numbers, (int) share->remainder);
	foreach(cell, scan_tlist)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, cell)->expr;
		int			column = 0;

		if (IsA(expr, Var) && ((Var *) expr)->varno == inner->relid)
		{
			if (target->rel != inner)
				expr = hm_translate_for_child(root, expr, target->rel, inner);
			column = castNode(Var, expr)->varattno;
		}
		columns = lappend_int(columns, column);
	}
	return list_make3(oids, numbers, columns);
}

/*
 * Have a sequential scan return all columns of its table, as they are, if it has nothing to
 * compute.  Then it passes its slot on without a projection; the join takes only the columns
 * that it needs (use_physical_tlist() in createplan.c does the same for other nodes).
 */
static void
use_physical_tlist(PlannerInfo *root, Plan *outer)
{
	ListCell   *cell;
	RelOptInfo *rel;
	List	   *tlist;

	if (!IsA(outer, SeqScan))
		return;
	rel = find_base_rel(root, ((Scan *) outer)->scanrelid);
	foreach(cell, outer->targetlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(var, Var) || var->varno != rel->relid || var->varattno <= 0)
			return;
	}
	tlist = build_physical_tlist(root, rel);
	if (tlist != NIL)
		outer->targetlist = tlist;
}

static Plan *
plan_lookup_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
				 List *unused, List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	RelOptInfo *inner = list_nth(path->custom_private, PATH_INNER);
	List	   *join_targets = list_nth(path->custom_private, PATH_TARGETS);
	IndexOptInfo *index = ((HmTarget *) linitial(join_targets))->index;
	List	   *flags = list_nth(path->custom_private, PATH_FLAGS);
	List	   *keys = get_actual_clauses(list_nth(path->custom_private, PATH_KEYS));
	List	   *arguments = list_nth(path->custom_private, PATH_ARGUMENTS);
	List	   *restrictions = list_nth(path->custom_private, PATH_RESTRICTIONS);
	List	   *inner_quals,
			   *quals,
			   *other_quals = NIL;
	List	   *targets = NIL;
	List	   *pruning,
			   *prune_steps;
	ListCell   *cell;
	JoinPlan	plan = {0};

	restrictions = in_order(root, restrictions);
	if (IS_OUTER_JOIN(linitial_int(flags)))
		extract_actual_join_clauses(restrictions, rel->relids, &quals, &other_quals);
	else
		quals = extract_actual_clauses(restrictions, false);
	quals = keys_left(root, quals, keys, inner->relid);
	keys = keys_left(root, keys, keys, inner->relid);
	inner_quals = extract_actual_clauses(in_order(root, inner->baserestrictinfo), false);

	use_physical_tlist(root, linitial(plans));
	plan.outer_tlist = ((Plan *) linitial(plans))->targetlist;
	plan.inner = inner->relid;

	/* Not tlist, which is NIL if a projection will replace it. */
	provide_columns(&plan, path->path.pathtarget->exprs);
	provide_columns(&plan, other_quals);
	provide_columns(&plan, arguments);
	provide_columns(&plan, keys);
	provide_columns(&plan, inner_quals);
	provide_columns(&plan, quals);

	foreach(cell, join_targets)
		targets = lappend(targets, plan_target(root, inner, plan.tlist, lfirst(cell)));
	pruning = hm_plan_pruning(root, inner, join_targets, &prune_steps);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = other_quals;
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->methods = &hm_lookup_join_methods;
	scan->custom_plans = plans;
	scan->custom_scan_tlist = plan.tlist;
	flags = list_make5_int(linitial_int(flags), lsecond_int(flags), (int) index->opcintype[0],
						   hm_wants_first_rows(root), lthird_int(flags));
	scan->custom_private = list_make5(flags,
									  list_nth(path->custom_private, PATH_DESCRIPTION),
									  plan.sources, targets, pruning);
	scan->custom_exprs = (List *)
		use_columns((Node *) list_make4(arguments, keys, inner_quals, quals), &plan);
	scan->custom_exprs = lappend(scan->custom_exprs, prune_steps);
	return &scan->scan.plan;
}
