/*
 * exec.c
 *		Planner hooks of the custom scan nodes.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/parsenodes.h"
#include "optimizer/geqo.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"

#include "compat.h"
#include "exec/exec.h"
#include "exec/planner.h"

static planner_hook_type next_planner_hook = NULL;
static set_rel_pathlist_hook_type next_rel_pathlist_hook = NULL;
static set_join_pathlist_hook_type next_join_pathlist_hook = NULL;
#ifdef HM_NO_HOOK_FOR_ONE_TIME_FILTERS
static join_search_hook_type next_join_search_hook = NULL;
#endif
static create_upper_paths_hook_type next_create_upper_paths_hook = NULL;

/*
 * Whether rows of a cursor may be changed with WHERE CURRENT OF, for which its plan has to do no
 * more than scan their table.
 */
static bool
may_be_changed_by_cursor(const Query *query, int options)
{
	return (options & CURSOR_OPT_FAST_PLAN) != 0 && !query->hasAggs && query->groupClause == NIL &&
		   query->jointree != NULL && list_length(query->jointree->fromlist) == 1 &&
		   IsA(linitial(query->jointree->fromlist), RangeTblRef);
}

/* Planning may evaluate functions, whose queries are planned meanwhile. */
static PlannedStmt *
plan_query(HM_PLANNER_PARAMETERS)
{
	const bool outer_cursor = hm_is_for_cursor;
	PlannedStmt *volatile result = NULL;

	/* The planner changes the query, too. */
	if (hm_enable_lookup_join && !may_be_changed_by_cursor(parse, options))
	{
		hm_rewrite_not_in(parse);
		hm_rewrite_row_lists(parse);
		if (hm_enable_subselect_join)
			hm_rewrite_scalar_subselects(parse, (options & CURSOR_OPT_FAST_PLAN) != 0);
	}
	hm_is_for_cursor = (options & CURSOR_OPT_FAST_PLAN) != 0;
	PG_TRY();
	{
		if (next_planner_hook)
			result = next_planner_hook(HM_PLANNER_ARGUMENTS);
		else
			result = standard_planner(HM_PLANNER_ARGUMENTS);
	}
	PG_FINALLY();
	{
		hm_is_for_cursor = outer_cursor;
	}
	PG_END_TRY();
	return result;
}

static void
rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (next_rel_pathlist_hook)
		next_rel_pathlist_hook(root, rel, rti, rte);
	hm_row_comparison_paths(root, rel, rte);
	if (hm_enable_lookup_scan)
	{
		hm_lookup_scan_paths(root, rel, rte);
		hm_lookup_array_paths(root, rel, rte);
	}
}

#ifdef HM_NO_HOOK_FOR_ONE_TIME_FILTERS

/*
 * While the planner searches for joins, hide from it that there are one-time filters.  All that
 * it would do about them is to call neither hooks nor wrappers of foreign tables, so it has to know
 * if there are such tables.
 */
static RelOptInfo *
join_search(PlannerInfo *root, int levels_needed, List *initial_rels)
{
	const bool has_filters = root->hasPseudoConstantQuals;
	bool has_foreign = false;
	RelOptInfo *result;

	for (int i = 1; has_filters && i < root->simple_rel_array_size; i++)
		has_foreign |=
			root->simple_rel_array[i] != NULL && root->simple_rel_array[i]->fdwroutine != NULL;
	root->hasPseudoConstantQuals = has_filters && (has_foreign || !hm_enable_lookup_join);
	if (next_join_search_hook)
		result = next_join_search_hook(root, levels_needed, initial_rels);
	else if (enable_geqo && levels_needed >= geqo_threshold)
		result = geqo(root, levels_needed, initial_rels);
	else
		result = standard_join_search(root, levels_needed, initial_rels);
	root->hasPseudoConstantQuals |= has_filters;
	return result;
}

/* Whether one-time filters of a join are hidden.  Other hooks do not expect such a join. */
static bool
hides_filters(const PlannerInfo *root, const List *infos)
{
	ListCell *cell;

	foreach (cell, infos)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return !root->hasPseudoConstantQuals;
	}
	return false;
}

#else
#define hides_filters(root, infos) false
#endif

static void
join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
			  JoinType type, JoinPathExtraData *extra)
{
	if (next_join_pathlist_hook && !hides_filters(root, extra->restrictlist))
		next_join_pathlist_hook(root, joinrel, outer, inner, type, extra);
	if (hm_enable_lookup_join)
	{
		hm_lookup_join_paths(root, joinrel, outer, inner, type, extra);
		hm_latest_join_paths(root, joinrel, outer, inner, type);
	}
}

static void
create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
				   RelOptInfo *output, void *extra)
{
	if (next_create_upper_paths_hook)
		next_create_upper_paths_hook(root, stage, input, output, extra);
	if (hm_enable_lookup_aggregate && stage == UPPERREL_GROUP_AGG)
		hm_lookup_aggregate_paths(root, input, output, extra);
	if (stage == UPPERREL_FINAL)
		hm_show_partitions(root);
}

void
hm_exec_init(void)
{
	hm_settings_init();
	RegisterCustomScanMethods(&hm_lookup_scan_methods);
	RegisterCustomScanMethods(&hm_lookup_join_methods);
	RegisterCustomScanMethods(&hm_lookup_aggregate_methods);
	hm_latest_init();
	next_planner_hook = planner_hook;
	planner_hook = plan_query;
	next_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = rel_pathlist;
	next_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = join_pathlist;
#ifdef HM_NO_HOOK_FOR_ONE_TIME_FILTERS
	next_join_search_hook = join_search_hook;
	join_search_hook = join_search;
#endif
	next_create_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = create_upper_paths;
	hm_distinct_stats_init();
}
