/*
 * lookup_join_paths.c
 *		Paths for a lookup join: the rows of any plan, looked up in one table or in all
 *		partitions of one.
 *
 * The hook is called for each ordered pair of relations that can be joined.  It offers a
 * path if the inner one is a table with a harmonia index, and the join clauses compare
 * the index's key with expressions on the outer one: for equality, or with a lower and an
 * upper bound.  If the inner table is partitioned or has children, these are the join's
 * targets.  Everything else in the plan is in terms of the parent's columns.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "exec/lookup_join_plan.h"

/*
 * Where not every outer row has a match, the first batch is larger than a LIMIT is expected to
 * take: a second one costs more.
 */
#define FIRST_MARGIN 1.2

static bool
has_pseudoconstant(List *infos)
{
	ListCell *cell;

	foreach (cell, infos)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	}
	return false;
}

bool
hm_has_one_time_filter(RelOptInfo *inner, JoinPathExtraData *extra)
{
	return has_pseudoconstant(extra->restrictlist) || has_pseudoconstant(inner->baserestrictinfo);
}

/*
 * Divide a join's clauses into one-time filters and others, which are returned.  PostgreSQL does
 * not take a clause of an outer join for a one-time filter, because rows without a match are
 * returned whatever its value.
 */
static List *
divide_one_time(JoinType type, RelOptInfo *joinrel, List *infos, JoinKeys *filters)
{
	List *others = NIL;
	ListCell *cell;

	*filters = (JoinKeys){0};
	foreach (cell, infos)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		if (info->pseudoconstant)
			filters->one_time = lappend(filters->one_time, info);
		else if (bms_is_empty(info->clause_relids) && hm_decides_match(type, joinrel, info) &&
				 !contain_volatile_functions((Node *) info))
			filters->inner_one_time = lappend(filters->inner_one_time, info);
		else
			others = lappend(others, info);
	}
	return others;
}

/* Whether what identifies the rows of several tables that are changed may be in the scan tuple. */
static bool
has_row_identity(const PlannerInfo *root, const RelOptInfo *joinrel)
{
	return HM_SCANS_HAVE_ROWID_VARS || root->row_identity_vars == NIL ||
		   !bms_overlap(joinrel->relids, root->all_result_relids);
}

/* Whether one of the expressions is the same column. */
static bool
has_column(List *exprs, Node *column)
{
	ListCell *cell;

	foreach (cell, exprs)
	{
		if (hm_same_column(lfirst(cell), column))
			return true;
	}
	return false;
}

/*
 * The columns of a join's inputs that what it returns is made of.  An expression that neither input
 * provides is evaluated on the join's rows.
 */
static List *
columns_of_targets(List *targets, RelOptInfo *outer, RelOptInfo *inner)
{
	List *columns = NIL;
	ListCell *cell;

	foreach (cell, pull_var_clause((Node *) targets, PVC_INCLUDE_PLACEHOLDERS))
	{
		PlaceHolderVar *column = lfirst(cell);

		if (IsA(column, PlaceHolderVar) && !has_column(outer->reltarget->exprs, (Node *) column) &&
			!has_column(inner->reltarget->exprs, (Node *) column))
			columns =
				list_concat(columns, columns_of_targets(list_make1(column->phexpr), outer, inner));
		else
			columns = lappend(columns, column);
	}
	return columns;
}

/*
 * What is evaluated on the join's rows must not want a column as it is after an outer join and as
 * it was before, because the scan tuple has it once.
 */
bool
hm_can_join(RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
			List *restrictions)
{
	List *exprs = list_copy(joinrel->reltarget->exprs);
	List *columns = NIL;
	bool has_expressions = false;
	ListCell *cell;

	foreach (cell, joinrel->reltarget->exprs)
	{
		if (!IsA(lfirst(cell), Var) && !list_member(outer->reltarget->exprs, lfirst(cell)))
		{
			if (!IsA(lfirst(cell), PlaceHolderVar) && !IsA(lfirst(cell), ConvertRowtypeExpr))
				return false;
			has_expressions = true;
		}
	}
	if (!has_expressions)
		return true;
	foreach (cell, restrictions)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);

		if (!hm_decides_match(type, joinrel, info))
			exprs = lappend(exprs, info->clause);
	}
	foreach (cell, columns_of_targets(exprs, outer, inner))
	{
		if (has_column(columns, lfirst(cell)) && !list_member(columns, lfirst(cell)))
			return false;
		columns = lappend(columns, lfirst(cell));
	}
	return true;
}

/*
 * The outer rows of a first batch, where those that come first are wanted soon, in this order or in
 * any (NIL): as many as a LIMIT takes, if that is known.  0 if all are wanted alike.
 */
static double
first_batch(PlannerInfo *root, const RelOptInfo *joinrel, const Path *outer_path, List *pathkeys)
{
	double rows_each;

	if (pathkeys == NIL && !hm_wants_first_rows(root))
		return 0;
	if (root->limit_tuples <= 0 || !bms_is_subset(root->all_baserels, joinrel->relids) ||
		!pathkeys_contained_in(root->query_pathkeys, pathkeys))
		return 1;
	rows_each = outer_path->rows / clamp_row_est(joinrel->rows);
	return clamp_row_est(root->limit_tuples * (rows_each > 1 ? FIRST_MARGIN * rows_each : 1));
}

/*
 * A path with these inputs, and what its lookups cost.  If "distinct" is not 0, this is the
 * number of distinct keys that the outer rows have, and only these are looked up.  With pathkeys,
 * the path keeps the order of its outer path, which they are.
 */
static CustomPath *
make_path(PlannerInfo *root, RelOptInfo *joinrel, Path *outer_path, RelOptInfo *inner,
		  List *targets, JoinType type, JoinKeys *keys, bool index_only, double distinct,
		  JoinPathExtraData *extra, double rows, List *pathkeys, const LookupCost *lookups)
{
	CustomPath *path = makeNode(CustomPath);
	LookupJoinPath *private = palloc(sizeof(LookupJoinPath));

	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.parallel_safe = joinrel->consider_parallel && outer_path->parallel_safe;
	path->path.parallel_workers = outer_path->parallel_workers;
	path->path.rows = rows;
	path->path.pathkeys = pathkeys;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &hm_lookup_join_path_methods;
	path->custom_paths = list_make1(outer_path);
	if (hm_is_rechecked(root, joinrel))
		path->custom_paths = lappend(path->custom_paths, inner->cheapest_total_path);
	*private = (LookupJoinPath){.inner = inner,
								.targets = targets,
								.type = type,
								.index_only = index_only,
								.in_order = pathkeys != NIL,
								.first_batch = first_batch(root, joinrel, outer_path, pathkeys),
								.distinct = distinct > 0,
								.is_any = keys->is_any,
								.key_clauses = keys->clauses,
								.arguments = keys->arguments,
								.keys = keys->keys,
								.restrictions = extra->restrictlist,
								.one_time = keys->one_time,
								.inner_one_time = keys->inner_one_time};
	path->custom_private = list_make1(private);
	hm_join_cost_path(root, &path->path, outer_path, inner, targets, type, keys, extra, distinct,
					  lookups);
	if (pathkeys != NIL)
		hm_join_cost_order(&path->path, type);
	if (private->first_batch > 0)
		hm_join_cost_first(&path->path, outer_path, targets, keys, private->first_batch);
	return path;
}

/*
 * The columns of the inner side that all targets can return from their indexes.
 */
static Bitmapset *
returned_columns(RelOptInfo *inner, List *targets, List *keys)
{
	Bitmapset *columns = NULL;
	ListCell *cell;

	if (((HmTarget *) linitial(targets))->rel == inner)
		return hm_returned_columns(((HmTarget *) linitial(targets))->index);

	/* Columns have other numbers in partitions, but the keys are known. */
	foreach (cell, keys)
	{
		int i = foreach_current_index(cell);
		Node *key = lfirst(cell);
		bool returned = enable_indexonlyscan;
		ListCell *target;

		if (IsA(key, RelabelType))
			key = (Node *) ((RelabelType *) key)->arg;
		foreach (target, targets)
			returned &= ((HmTarget *) lfirst(target))->index->canreturn[i];
		if (returned && IsA(key, Var))
			columns = bms_add_member(columns,
									 ((Var *) key)->varattno - FirstLowInvalidHeapAttributeNumber);
	}
	return columns;
}

bool
hm_join_is_index_only(RelOptInfo *inner, List *targets, List *keys, List *restrictions)
{
	return hm_reads_only(inner, returned_columns(inner, targets, keys),
						 list_concat(extract_actual_clauses(inner->baserestrictinfo, false),
									 extract_actual_clauses(restrictions, false)));
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
	const IndexOptInfo *index = ((HmTarget *) linitial(targets))->index;
	const HmKeyType *key_type =
		hm_column_key_type(hm_has_columns(index), hm_index_type_id(index, 0));
	Node *argument = linitial(keys->arguments);
	ListCell *cell;

	if (!keys->equal || keys->is_any || hm_has_columns(index) ||
		list_length(extra->restrictlist) != 1 ||
		hm_may_be_fuzzy(hm_key_type_id(key_type), ((LookupKey *) linitial(keys->keys))->type))
		return false;
	foreach (cell, joinrel->reltarget->exprs)
	{
		Node *expr = lfirst(cell);

		if (list_member(outer->reltarget->exprs, expr) &&
			(!equal(expr, argument) || exprType(expr) != key_type->type ||
			 key_type->restore == NULL))
			return false;
	}
	return true;
}

/*
 * Offer paths that keep the order of the outer side, where that is the order that the query wants,
 * or begins with it.  (For a merge join above, they could drive out a path without order that costs
 * next to nothing less.)  The lookups cost as much as without.  Lookup aggregates do not know these
 * paths: they read rows in any order.
 */
static void
add_ordered_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
				  List *targets, JoinType type, JoinKeys *keys, bool index_only,
				  JoinPathExtraData *extra, const LookupCost *cost)
{
	ListCell *cell;

	foreach (cell, outer->pathlist)
	{
		Path *outer_path = lfirst(cell);
		List *pathkeys = build_join_pathkeys(root, joinrel, type, outer_path->pathkeys);
		CustomPath *path;
		int wanted;

		pathkeys_count_contained_in(root->query_pathkeys, pathkeys, &wanted);
		if (wanted == 0 || PATH_REQ_OUTER(outer_path) != NULL)
			continue;
		path = make_path(root, joinrel, outer_path, inner, targets, type, keys, index_only, 0,
						 extra, joinrel->rows, pathkeys, cost);
		add_path(joinrel, &path->path);
	}
}

static void
offer_path(PlannerInfo *root, RelOptInfo *joinrel, CustomPath *path)
{
	hm_remember_join(root, joinrel, path);
	if (path->path.parallel_aware)
		add_partial_path(joinrel, &path->path);
	else
		add_path(joinrel, &path->path);
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
	Node *argument = linitial(keys->arguments);
	RelOptInfo *rel = type == JOIN_UNIQUE_OUTER ? hm_rel_before_unique(root, outer) : outer;
	Path *before = hm_path_before_distinct(rel, argument);
	Path *outer_path = before != NULL ? before : rel->cheapest_total_path;
	LookupCost cost;

	if (type == JOIN_UNIQUE_OUTER)
	{
		if (list_length(extra->sjinfo->semi_rhs_exprs) != 1 ||
			!equal(linitial(extra->sjinfo->semi_rhs_exprs), argument))
			return;
	}
	else if (type != JOIN_INNER || before == NULL)
		return;
	if (PATH_REQ_OUTER(outer_path) != NULL || hm_is_rechecked(root, joinrel) ||
		!needs_only_key(joinrel, outer, targets, keys, extra))
		return;
	distinct = clamp_row_est(distinct);
	hm_join_cost_targets(root, inner, targets, JOIN_INNER, keys, index_only, extra, distinct, true,
						 0, 1, &cost);
	offer_path(root, joinrel,
			   make_path(root, joinrel, outer_path, inner, targets, JOIN_INNER, keys, index_only,
						 distinct, extra, joinrel->rows, NIL, &cost));
}

/*
 * Whether a lookup join chooses for itself how many processes read the outer side: this
 * is a table, and a sequential scan is the best way to read it in parallel.
 */
static bool
can_choose_workers(PlannerInfo *root, RelOptInfo *outer)
{
	RangeTblEntry *rte;
	Path *path = outer->partial_pathlist != NIL ? linitial(outer->partial_pathlist) : NULL;

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
 * all of the join deserves: "pages" for the lookups.  Processes claim pages of the outer table, so
 * no more of them than it has pages get any rows.
 */
static Path *
parallel_outer_path(PlannerInfo *root, RelOptInfo *outer, double pages)
{
	Path *path = outer->partial_pathlist != NIL ? linitial(outer->partial_pathlist) : NULL;
	int most_workers = (int) outer->pages - (parallel_leader_participation ? 1 : 0);
	int workers;

	if (!can_choose_workers(root, outer))
		return path;
	workers = hm_parallel_workers(outer, outer->pages + pages);
	if (workers > most_workers)
		workers = most_workers;
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
	bool index_only = !bms_is_member((int) inner->relid, root->all_result_relids) &&
					  hm_join_is_index_only(inner, targets, keys->exprs, extra->restrictlist);
	Path *outer_path = outer->cheapest_total_path;
	JoinType join_type = type;
	LookupCost cost;
	CustomPath *path;
	double processes;

	/* Make the outer rows distinct, and then join them as for an inner join. */
	if (type == JOIN_UNIQUE_OUTER)
	{
		outer_path = hm_create_unique_path(root, outer, outer_path, extra->sjinfo);
		join_type = JOIN_INNER;
	}
	if (outer_path == NULL || PATH_REQ_OUTER(outer_path) != NULL)
		return;
	add_distinct_path(root, joinrel, outer, inner, targets, type, keys, index_only,
					  outer_path->rows, extra);
	hm_join_cost_targets(root, inner, targets, join_type, keys, index_only, extra,
						 clamp_row_est(outer_path->rows), type == JOIN_UNIQUE_OUTER,
						 outer_path->pathtarget->width, 1, &cost);
	offer_path(root, joinrel,
			   make_path(root, joinrel, outer_path, inner, targets, join_type, keys, index_only, 0,
						 extra, joinrel->rows, NIL, &cost));
	if (type != JOIN_UNIQUE_OUTER)
		add_ordered_paths(root, joinrel, outer, inner, targets, type, keys, index_only, extra,
						  &cost);

	if (!joinrel->consider_parallel || type == JOIN_UNIQUE_OUTER ||
		!bms_is_empty(joinrel->lateral_relids))
		return;
	outer_path = parallel_outer_path(root, outer, cost.pages);
	if (outer_path == NULL)
		return;
	processes = Max(1.0, outer->rows / clamp_row_est(outer_path->rows));
	hm_join_cost_targets(root, inner, targets, join_type, keys, index_only, extra,
						 clamp_row_est(outer_path->rows), false, outer_path->pathtarget->width,
						 processes, &cost);
	path = make_path(root, joinrel, outer_path, inner, targets, join_type, keys, index_only, 0,
					 extra, clamp_row_est(joinrel->rows / processes), NIL, &cost);

	/* Workers share only their counters, but these need shared memory. */
	path->path.parallel_aware = true;
	offer_path(root, joinrel, path);
}

bool
hm_is_rechecked(const PlannerInfo *root, const RelOptInfo *rel)
{
	return root->rowMarks != NIL || bms_overlap(rel->relids, root->all_result_relids);
}

bool
hm_may_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *inner)
{
	return IS_SIMPLE_REL(inner) &&
		   (inner->rtekind == RTE_RELATION || hm_is_union_all(root, inner)) &&
		   bms_is_empty(inner->lateral_relids) && bms_is_empty(joinrel->lateral_relids);
}

/*
 * Whether rows of the inner side can be joined again: its scan returns all of its columns that the
 * scan tuple may have.  If several tables are changed, ROWID_VARs stand for what identifies their
 * rows.
 */
static bool
can_recheck(const RelOptInfo *inner)
{
	ListCell *cell;

	foreach (cell, inner->reltarget->exprs)
	{
		const Var *var = lfirst(cell);

		if (!IsA(var, Var) || var->varattno == InvalidAttrNumber ||
			(var->varno != (int) inner->relid && var->varno != ROWID_VAR))
			return false;
	}
	return inner->rtekind == RTE_RELATION;
}

/*
 * Whether a path can win against those that the join has already.  Looks only at that
 * part of the costs that is quickly known.  Most joins of small tables end here.
 */
static bool
may_pay(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, JoinType type)
{
	Path *path = outer->cheapest_total_path;
	double probes = type == JOIN_UNIQUE_OUTER ? 1 : path->rows;
	Cost row_cost = hm_join_row_cost(root, joinrel);
	Cost startup = path->startup_cost;
	Cost total = path->total_cost + probes * row_cost;

	hm_cost_lookup_least(probes, &startup, &total);
	if (hm_add_path_precheck(joinrel, startup, total))
		return true;
	if (!joinrel->consider_parallel || type == JOIN_UNIQUE_OUTER)
		return false;

	startup = 0;
	if (can_choose_workers(root, outer))
	{
		probes /= hm_parallel_processes(Max(1, max_parallel_workers_per_gather));
		total = probes * row_cost;
	}
	else if (outer->partial_pathlist != NIL)
	{
		path = linitial(outer->partial_pathlist);
		probes = path->rows;
		total = path->total_cost + probes * row_cost;
	}
	else
		return false;
	hm_cost_lookup_least(probes, &startup, &total);
	return hm_add_partial_path_precheck(joinrel, startup, total);
}

/*
 * Whether all that a join reads of a UNION ALL, with these join clauses, are columns of the tables
 * there.
 */
static bool
are_columns(PlannerInfo *root, RelOptInfo *inner, List *restrictions, List *targets)
{
	List *exprs = list_concat(extract_actual_clauses(inner->baserestrictinfo, false),
							  extract_actual_clauses(restrictions, false));
	ListCell *cell, *target;

	exprs = list_concat(exprs, inner->reltarget->exprs);
	foreach (cell, pull_var_clause((Node *) exprs, PVC_RECURSE_PLACEHOLDERS))
	{
		Var *var = lfirst_node(Var, cell);

		if (var->varno != (int) inner->relid)
			continue;
		if (var->varattno <= 0)
			return false;
		foreach (target, targets)
		{
			RelOptInfo *table = ((HmTarget *) lfirst(target))->rel;
			Var *column = (Var *) hm_translate_for_child(root, (Node *) var, table, inner);

			if (!IsA(column, Var) || column->varno != (int) table->relid || column->varattno == 0)
				return false;
		}
	}
	return true;
}

void
hm_lookup_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
					 JoinType type, JoinPathExtraData *extra)
{
	JoinPathExtraData others = *extra;
	JoinKeys filters;
	RelOptInfo *table;
	ListCell *cell;

	if (type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI &&
		type != JOIN_UNIQUE_OUTER)
		return;
	if (hm_is_grouped(joinrel) || !hm_may_join(root, joinrel, inner))
		return;

	/*
	 * An index of the first table is the model: all other targets must have one like it.
	 */
	if (hm_is_rechecked(root, joinrel) && (!can_recheck(inner) || !has_row_identity(root, joinrel)))
		return;
	table = hm_first_table(root, inner);
	if (table == NULL || !hm_has_index(table) || !may_pay(root, joinrel, outer, type))
		return;
	others.restrictlist = divide_one_time(type, joinrel, extra->restrictlist, &filters);
	foreach (cell, hm_indexes(table))
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);
		JoinKeys keys;
		List *targets;

		if (!hm_join_match_keys(root, inner, index, type, joinrel, others.restrictlist, &keys))
			continue;
		if (!hm_can_join(joinrel, outer, inner, type, others.restrictlist))
			return;
		keys.one_time = filters.one_time;
		keys.inner_one_time = filters.inner_one_time;
		targets = hm_targets(root, inner, index, keys.exprs);
		if (keys.is_any && list_length(targets) > 1)
			continue;
		if (targets != NIL && (!hm_is_union_all(root, inner) ||
							   are_columns(root, inner, others.restrictlist, targets)))
			add_paths(root, joinrel, outer, inner, targets, type, &keys, &others);
	}
}
