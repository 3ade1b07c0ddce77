/*
 * lookup_aggregate_plan.c
 *		Planning a lookup aggregate: aggregates of what a lookup join or lookup scan
 *		finds.
 *
 * An Agg node takes the rows below it one by one, and calls a function for each aggregate
 * of each row.  A lookup aggregate takes blocks of rows as columns.  It is offered where
 * it supports all aggregates that the query wants, and where groups, if any, can be
 * compared as Datums.  All else is left to Agg.
 *
 * If only the number of rows matters, the lookup counts them and passes none on.
 *
 * With parallel workers, each worker has a lookup aggregate that computes transition
 * states.  Above the Gather, an Agg node combines these.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "exec/lookup_aggregate.h"
#include "exec/planner.h"

/*
 * The work for each row, in operators: adding a value to an aggregate, and finding the
 * group by a column.  PostgreSQL charges an Agg node one operator for each.  Of 1 M rows
 * of a lookup join, each of 5 aggregates took 24 ns a row in an Agg, and 9 ns here; a
 * column of GROUP BY took 110 ns and 30 ns.  To measure again, set
 * harmonia.enable_lookup_aggregate to off.  The number of all rows is added once a block.
 */
#define ADD_OPERATORS 0.4
#define GROUP_OPERATORS 0.3

/* What a lookup aggregate has to compute. */
typedef struct Wanted
{
	List *keys;       /* expressions of GROUP BY */
	List *kept;       /* columns that depend on these */
	List *aggregates; /* Aggrefs */
	List *having;     /* clauses */
} Wanted;

/* What the path hands over to the plan: the order of custom_private. */
enum PathPrivate
{
	PATH_KEYS,
	PATH_KEPT,
	PATH_AGGREGATES,
	PATH_HAVING
};

/* ----------------------------------------------------------------
 *		What is wanted
 * ----------------------------------------------------------------
 */

/*
 * What an aggregate adds up of a lookup's rows; NULL if only their number matters: count(*), or
 * count() of a column that is not NULL in any of them.
 */
static Expr *
argument_of(const Aggref *aggref, const Path *lookup)
{
	Expr *argument;

	if (aggref->args == NIL)
		return NULL;
	argument = linitial_node(TargetEntry, aggref->args)->expr;
	return aggref->aggfnoid == F_COUNT_ANY && hm_lookup_scan_compares(lookup, argument) ? NULL :
																						  argument;
}

/* Whether an aggregate has work to do for each row. */
static bool
adds_each_row(const Aggref *aggref, const Wanted *wanted, const Path *lookup)
{
	return wanted->keys != NIL || aggref->aggfilter != NULL ||
		   argument_of(aggref, lookup) != NULL || hm_lookup_scan_filters(lookup);
}

static bool
can_compute(Aggref *aggref)
{
	return aggref->agglevelsup == 0 && aggref->aggdistinct == NIL && aggref->aggorder == NIL &&
		   hm_aggregate_lookup(aggref->aggfnoid) != NULL &&
		   !contain_volatile_functions((Node *) aggref) && !contain_subplans((Node *) aggref);
}

/*
 * Collect what an expression on groups needs.  Returns true, which ends the walk, if that
 * cannot be provided.
 */
static bool
collect(Node *node, void *context)
{
	Wanted *wanted = context;

	if (node == NULL || list_member(wanted->keys, node))
		return false;
	if (IsA(node, Aggref))
	{
		wanted->aggregates = list_append_unique(wanted->aggregates, node);
		return !can_compute((Aggref *) node);
	}
	if (IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		wanted->kept = list_append_unique(wanted->kept, node);
		return false;
	}
	if (IsA(node, GroupingFunc) || IsA(node, WindowFunc))
		return true;
	return expression_tree_walker(node, collect, wanted);
}

/* Whether groups can be found by these clauses. */
static bool
can_group(List *clauses, List *keys)
{
	ListCell *clause, *key;

	forboth(clause, clauses, key, keys)
	{
		/* setrefs.c leaves a constant as it is, so it would be no column. */
		if (!hm_groups_can_compare(lfirst_node(SortGroupClause, clause)->eqop) ||
			!contain_var_clause(lfirst(key)))
			return false;
	}
	return true;
}

/* Whether a path returns all columns that are needed. */
static bool
can_read(const Wanted *wanted, const Path *lookup)
{
	List *columns = list_concat_copy(wanted->keys, wanted->kept);
	ListCell *cell;

	foreach (cell, wanted->aggregates)
	{
		Aggref *aggref = lfirst_node(Aggref, cell);

		columns = list_concat(
			columns,
			pull_var_clause((Node *) list_make2(argument_of(aggref, lookup), aggref->aggfilter),
							PVC_INCLUDE_PLACEHOLDERS));
	}
	return list_difference(columns, lookup->pathtarget->exprs) == NIL;
}

/* Whether a path is a lookup join or a lookup scan, maybe with a projection on top. */
static bool
is_lookup(const Path *path)
{
	const CustomPath *lookup = (const CustomPath *) path;

	while (IsA(lookup, ProjectionPath))
		lookup = (const CustomPath *) ((const ProjectionPath *) lookup)->subpath;
	return IsA(lookup, CustomPath) && (lookup->methods == &hm_lookup_join_path_methods ||
									   lookup->methods == &hm_lookup_array_path_methods ||
									   lookup->methods == &hm_lookup_scan_path_methods);
}

/* The cheapest of these paths that is a lookup; NULL if none is. */
static Path *
find_lookup(List *paths)
{
	Path *best = NULL;
	ListCell *cell;

	foreach (cell, paths)
	{
		Path *path = lfirst(cell);

		if (is_lookup(path) && (best == NULL || path->total_cost < best->total_cost))
			best = path;
	}
	return best;
}

/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

static Plan *
plan_lookup_aggregate(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					  List *clauses, List *plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List *columns = NIL;
	List *arguments = NIL;
	List *filters = NIL;
	ListCell *cell;

	foreach (cell, ((Plan *) linitial(plans))->targetlist)
		columns = lappend(columns, lfirst_node(TargetEntry, cell)->expr);
	foreach (cell, (List *) list_nth(path->custom_private, PATH_AGGREGATES))
	{
		Aggref *aggref = lfirst_node(Aggref, cell);

		columns = lappend(columns, aggref);
		arguments = lappend(arguments, argument_of(aggref, linitial(path->custom_paths)));
		filters = lappend(filters, aggref->aggfilter ? list_make1(aggref->aggfilter) : NIL);
	}

	/*
	 * In all other expressions, setrefs.c replaces what is in the scan tuple by
	 * references to it.
	 */
	foreach (cell, columns)
		scan->custom_scan_tlist =
			lappend(scan->custom_scan_tlist,
					makeTargetEntry(copyObject(lfirst(cell)),
									(AttrNumber) (foreach_current_index(cell) + 1), NULL, false));
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = list_nth(path->custom_private, PATH_HAVING);
	scan->custom_exprs = list_make4(list_nth(path->custom_private, PATH_KEYS),
									list_nth(path->custom_private, PATH_KEPT), arguments, filters);
	scan->custom_plans = plans;
	scan->flags = path->flags;
	scan->methods = &hm_lookup_aggregate_methods;
	return &scan->scan.plan;
}

static const CustomPathMethods path_methods = {
	.CustomName = "HarmoniaLookupAggregate",
	.PlanCustomPath = plan_lookup_aggregate,
};

/* ----------------------------------------------------------------
 *		Paths
 * ----------------------------------------------------------------
 */

static double
count_groups(PlannerInfo *root, const Wanted *wanted, double rows)
{
	return wanted->keys == NIL ? 1 : estimate_num_groups(root, wanted->keys, rows, NULL, NULL);
}

/*
 * The cost of setting rows aside, whose groups find no room in memory, and of reading them again;
 * as for an Agg (cost_agg() in costsize.c).
 */
static Cost
spill_cost(const Wanted *wanted, const Path *lookup, double groups)
{
	double memory = (double) get_hash_memory_limit();
	double needed = groups * (double) hm_groups_record_memory(list_length(wanted->keys),
															  list_length(wanted->kept),
															  list_length(wanted->aggregates));
	double rows, pages;

	if (wanted->keys == NIL || needed <= memory)
		return 0;
	rows = lookup->rows * (1 - memory / needed);
	/* If a part does not fit, its rows are set aside in the same part again and again. */
	rows *= 1 + Max(0, needed / memory / PARTS - 1) / 2;
	pages = rows * (lookup->pathtarget->width + MAXALIGN(SizeofMinimalTupleHeader)) / BLCKSZ;
	return pages * 2 * (random_page_cost + seq_page_cost) + rows * 2 * cpu_tuple_cost;
}

/* Set a path's costs and rows. */
static void
cost_aggregate(PlannerInfo *root, const Wanted *wanted, const Path *lookup, double groups,
			   Path *path)
{
	double operators = list_length(hm_group_clause(root)) * GROUP_OPERATORS;
	Cost startup = lookup->total_cost;
	QualCost cost;
	ListCell *cell;

	foreach (cell, wanted->aggregates)
	{
		Aggref *aggref = lfirst_node(Aggref, cell);

		if (adds_each_row(aggref, wanted, lookup))
			operators += ADD_OPERATORS;
		cost_qual_eval(&cost, list_make2(argument_of(aggref, lookup), aggref->aggfilter), root);
		startup += cost.startup + cost.per_tuple * lookup->rows;
	}
	startup += operators * cpu_operator_cost * lookup->rows + spill_cost(wanted, lookup, groups);

	/* The results. */
	startup += path->pathtarget->cost.startup;
	path->rows = groups;
	path->startup_cost = startup;
	path->total_cost = startup + groups * (cpu_tuple_cost + path->pathtarget->cost.per_tuple);
	if (wanted->having != NIL)
	{
		cost_qual_eval(&cost, wanted->having, root);
		path->startup_cost += cost.startup;
		path->total_cost += cost.startup + cost.per_tuple * groups;
		path->rows = clamp_row_est(
			groups * clauselist_selectivity(root, wanted->having, 0, JOIN_INNER, NULL));
	}
}

/* A path for what is wanted of a lookup, as rows of this relation. */
static Path *
make_path(PlannerInfo *root, RelOptInfo *rel, Path *lookup, const Wanted *wanted)
{
	CustomPath *path = makeNode(CustomPath);
	double groups = count_groups(root, wanted, lookup->rows);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = rel->consider_parallel && lookup->parallel_safe;
	path->path.parallel_workers = lookup->parallel_workers;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_paths = list_make1(lookup);
	path->custom_private =
		list_make4(wanted->keys, wanted->kept, wanted->aggregates, wanted->having);
	hm_inherit_disabled_nodes(&path->path, lookup);
	cost_aggregate(root, wanted, lookup, groups, &path->path);
	return &path->path;
}

/*
 * The cheapest lookup joins that were offered for the join of all tables of a query with
 * aggregates; NULL if there was none.  The joined relation's fdw_private points to this, unless it
 * is a foreign server's or another extension's.
 */
#define OFFERED_MAGIC 0x484D4F4A

typedef struct OfferedJoins
{
	uint32 magic;
	Path *path;
	Path *partial_path;
} OfferedJoins;

static OfferedJoins *
offered_joins(RelOptInfo *joinrel, bool make)
{
	OfferedJoins *offered = joinrel->fdw_private;

	if (joinrel->fdwroutine != NULL || !IS_JOIN_REL(joinrel))
		return NULL;
	if (offered == NULL && make)
	{
		joinrel->fdw_private = offered = palloc0(sizeof(OfferedJoins));
		offered->magic = OFFERED_MAGIC;
	}
	return offered != NULL && offered->magic == OFFERED_MAGIC ? offered : NULL;
}

void
hm_remember_join(PlannerInfo *root, RelOptInfo *joinrel, const CustomPath *path)
{
	OfferedJoins *offered;
	Path **best;

	if (!hm_enable_lookup_aggregate || !root->parse->hasAggs ||
		!bms_is_subset(root->all_baserels, joinrel->relids) ||
		(offered = offered_joins(joinrel, true)) == NULL)
		return;
	best = path->path.parallel_aware ? &offered->partial_path : &offered->path;
	if (*best == NULL || path->path.total_cost < (*best)->total_cost)
	{
		/* A copy, as add_path() frees a path that it rejects. */
		*best = palloc(sizeof(CustomPath));
		memcpy(*best, path, sizeof(CustomPath));
	}
}

/*
 * The cheapest lookup whose rows are to be aggregated, of the paths that have been kept; or of all
 * that were offered.  NULL if there was none.
 */
static Path *
cheapest_lookup(PlannerInfo *root, RelOptInfo *input, bool partial)
{
	const OfferedJoins *offered = offered_joins(input, false);
	Path *path = find_lookup(partial ? input->partial_pathlist : input->pathlist);

	if (path != NULL || offered == NULL)
		return path;
	path = partial ? offered->partial_path : offered->path;
	/* The paths that were kept have got this target already. */
	return path == NULL ? NULL :
						  (Path *) create_projection_path(root, input, path, input->reltarget);
}

/* The relation of partially aggregated rows that belongs to a grouped one, or NULL. */
static RelOptInfo *
find_partially_grouped(PlannerInfo *root, const RelOptInfo *grouped)
{
	ListCell *cell;

	foreach (cell, root->upper_rels[UPPERREL_PARTIAL_GROUP_AGG])
	{
		RelOptInfo *rel = lfirst_node(RelOptInfo, cell);

		if (bms_equal(rel->relids, grouped->relids))
			return rel;
	}
	return NULL;
}

/*
 * Offer lookup aggregates in parallel workers.  The hook is not called for partially
 * grouped rows, so the nodes above them are added here, too.
 */
static void
add_parallel_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped, Path *lookup,
				  List *keys, GroupPathExtraData *extra)
{
	RelOptInfo *partial = find_partially_grouped(root, grouped);
	List *clauses = hm_group_clause(root);
	Wanted wanted = {.keys = keys};
	AggStrategy strategy = AGG_PLAIN;
	AggClauseCosts costs = {0};
	Path *path;
	double rows;

	if (partial == NULL || lookup == NULL || !partial->consider_parallel ||
		collect((Node *) partial->reltarget->exprs, &wanted) || wanted.aggregates == NIL ||
		!can_read(&wanted, lookup))
		return;
	if (keys != NIL)
	{
		/* Rows without any keys of their own are in order, whatever comes. */
		strategy = clauses != NIL ? AGG_HASHED : AGG_SORTED;
		if (clauses != NIL && (extra->flags & GROUPING_CAN_USE_HASH) == 0)
			return;
	}
	path = make_path(root, partial, lookup, &wanted);
	rows = path->rows * path->parallel_workers;
	path = (Path *) create_gather_path(root, partial, path, partial->reltarget, NULL, &rows);
	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	wanted.having = (List *) extra->havingQual;
	add_path(grouped, (Path *) create_agg_path(
						  root, grouped, path, grouped->reltarget, strategy,
						  AGGSPLIT_FINAL_DESERIAL, clauses, wanted.having, &costs,
						  count_groups(root, &wanted, input->cheapest_total_path->rows)));
}

void
hm_lookup_aggregate_paths(PlannerInfo *root, RelOptInfo *input, RelOptInfo *grouped,
						  GroupPathExtraData *extra)
{
	Query *parse = root->parse;
	Path *lookup, *partial_lookup;
	Wanted wanted = {0};

	if (!parse->hasAggs || parse->groupingSets != NIL || parse->hasTargetSRFs)
		return;
	lookup = cheapest_lookup(root, input, false);
	partial_lookup = cheapest_lookup(root, input, true);
	if (lookup == NULL && partial_lookup == NULL)
		return;

	/*
	 * Redundant columns are keys like all others, because a row of results needs their
	 * values.
	 */
	wanted.keys = get_sortgrouplist_exprs(parse->groupClause, extra->targetList);
	if (!can_group(parse->groupClause, wanted.keys))
		return;
	add_parallel_path(root, input, grouped, partial_lookup, wanted.keys, extra);

	wanted.having = (List *) extra->havingQual;
	if (lookup == NULL || collect((Node *) grouped->reltarget->exprs, &wanted) ||
		collect((Node *) wanted.having, &wanted) || wanted.aggregates == NIL ||
		!can_read(&wanted, lookup))
		return;
	add_path(grouped, make_path(root, grouped, lookup, &wanted));
}
