/*
 * foreign.c
 *		The GUC, the node and the planner hook of foreign joins.
 */
#include "postgres.h"

#include "optimizer/paths.h"
#include "utils/guc.h"

#include "foreign/foreign_join.h"

static bool enable_foreign_join = true;

static set_join_pathlist_hook_type next_join_pathlist_hook = NULL;

static void
join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
			  JoinType type, JoinPathExtraData *extra)
{
	if (next_join_pathlist_hook)
		next_join_pathlist_hook(root, joinrel, outer, inner, type, extra);
	if (enable_foreign_join)
		hm_foreign_join_paths(root, joinrel, outer, inner, type, extra);
}

void
hm_foreign_init(void)
{
	DefineCustomBoolVariable(
		"harmonia.enable_foreign_join", "Enables the planner's use of foreign joins.", NULL,
		&enable_foreign_join, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	RegisterCustomScanMethods(&hm_foreign_join_methods);
	next_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = join_pathlist;
}
