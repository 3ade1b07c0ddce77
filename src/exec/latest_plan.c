/*
 * latest_plan.c
 *		Paths for latest joins: LATERAL (SELECT ... WHERE t.k = o.k ORDER BY t.at DESC LIMIT n).
 *
 * PostgreSQL plans these as a nested loop whose inner side is an index scan that stops after a few
 * rows.  A latest join is this nested loop with two nodes put in:
 *
 *		HarmoniaLatestJoin
 *		  Nested Loop
 *			HarmoniaLatestRows			reads a batch of outer rows, and looks up the entries that
 *			  the outer side			the scan will want for each
 *			Limit, Subquery Scan
 *			  HarmoniaLatestScan		returns the rows of these entries
 *				Index Scan				is executed where they are not enough
 *
 * So conditions, expressions, outer joins and limits are PostgreSQL's business, and rows keep the
 * outer side's order.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

#include "am/am.h"
#include "compat.h"
#include "exec/latest.h"

/* What a latest join takes of the time of a nested loop. */
#define LOOPS_SHARE 0.5

/* With fewer outer rows a nested loop takes no longer. */
#define LEAST_ROWS 100

/* If more rows are wanted for each outer row, most of the time goes to fetch these. */
#define MOST_LATEST 4

/* A nested loop for a latest join, as copies of PostgreSQL's paths. */
typedef struct LatestPath
{
	NestPath *loop;
	IndexPath *scan;
	List *keys; /* integers, as LatestKeys */
	int rows;
} LatestPath;

static Plan *plan_latest_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
							  List *clauses, List *children);

static const CustomPathMethods path_methods = {
	.CustomName = "HarmoniaLatestJoin",
	.PlanCustomPath = plan_latest_join,
};

/* ----------------------------------------------------------------
 *		Paths
 * ----------------------------------------------------------------
 */

/* Whether a parameter of a sub-select is a column of the outer side. */
static bool
is_outer_column(const RelOptInfo *inner, const RelOptInfo *outer, const Param *param)
{
	ListCell *cell;

	foreach (cell, inner->subplan_params)
	{
		const PlannerParamItem *item = lfirst_node(PlannerParamItem, cell);

		if (item->paramId == param->paramid)
			return IsA(item->item, Var) &&
				   bms_is_member(((const Var *) item->item)->varno, outer->relids);
	}
	return false;
}

/*
 * The comparison of a column of a scan's index with a column of the outer side that a condition
 * makes.  Both have the same type.  Returns false if it is none.
 */
static bool
get_key(const IndexPath *scan, const IndexClause *clause, const RelOptInfo *inner,
		const RelOptInfo *outer, LatestKey *key)
{
	const IndexOptInfo *index = scan->indexinfo;
	OpExpr *operation;
	Param *param;
	Oid left, right;

	if (clause->lossy || list_length(clause->indexquals) != 1)
		return false;
	operation = (OpExpr *) linitial_node(RestrictInfo, clause->indexquals)->clause;
	if (!IsA(operation, OpExpr) || list_length(operation->args) != 2)
		return false;
	param = lsecond(operation->args);
	if (!IsA(param, Param) || param->paramkind != PARAM_EXEC ||
		!is_outer_column(inner, outer, param))
		return false;
	key->column = clause->indexcol;
	key->param = param->paramid;
	get_op_opfamily_properties(operation->opno, index->opfamily[key->column], false, &key->strategy,
							   &left, &right);
	return left == right && param->paramtype == index->opcintype[key->column];
}

/*
 * The keys of a scan: for as many of the first columns as are compared for equality, and for the
 * next one.  NIL if there are none, or if there are other conditions: each entry that does not
 * satisfy them would be looked up in vain.
 */
static List *
get_keys(const IndexPath *scan, const RelOptInfo *inner, const RelOptInfo *outer)
{
	const IndexOptInfo *index = scan->indexinfo;
	int columns = hm_btree_columns(index->opfamily, index->opcintype, index->nkeycolumns);
	List *keys = NIL;
	bool equal = true;

	for (int i = 0; equal && i < columns; i++)
	{
		ListCell *cell;

		equal = false;
		foreach (cell, scan->indexclauses)
		{
			LatestKey key;

			if (!get_key(scan, lfirst_node(IndexClause, cell), inner, outer, &key) ||
				key.column != i || equal || (i == 0 && key.strategy != BTEqualStrategyNumber))
				continue;
			keys = list_concat(keys, list_make3_int(key.column, key.strategy, key.param));
			equal = key.strategy == BTEqualStrategyNumber;
		}
	}
	if (list_length(keys) != 3 * list_length(scan->indexclauses) ||
		list_length(scan->indexclauses) != list_length(index->rel->baserestrictinfo))
		return NIL;
	return keys;
}

#define COPY_PATH(type, path) ((type *) memcpy(palloc(sizeof(type)), (path), sizeof(type)))

/*
 * Copy the paths from a sub-select to an index scan, which is returned.  NULL if there are others
 * between them.  The scan reads rows, whether or not the index has all that is wanted.
 */
static IndexPath *
copy_paths(Path **path)
{
	IndexPath *scan;

	switch (nodeTag(*path))
	{
		case T_SubqueryScanPath:
			*path = (Path *) COPY_PATH(SubqueryScanPath, *path);
			return copy_paths(&((SubqueryScanPath *) *path)->subpath);
		case T_LimitPath:
			*path = (Path *) COPY_PATH(LimitPath, *path);
			return copy_paths(&((LimitPath *) *path)->subpath);
		case T_ProjectionPath:
			*path = (Path *) COPY_PATH(ProjectionPath, *path);
			return copy_paths(&((ProjectionPath *) *path)->subpath);
		case T_IndexPath:
			*path = (Path *) COPY_PATH(IndexPath, *path);
			scan = (IndexPath *) *path;
			scan->path.pathtype = T_IndexScan;
			return scan;
		default:
			return NULL;
	}
}

/* Whether lookups find the ends of ranges in an index. */
static bool
has_ends(const IndexOptInfo *index)
{
	return index->relam == BTREE_AM_OID && hm_enable_btree_lookup && !index->hypothetical &&
		   !index->reverse_sort[0] && hm_btree_has_keys(index->opfamily[0], index->opcintype[0]);
}

/* How many rows a sub-select wants of its scan; 0 if that is not known, or they are many. */
static int
rows_wanted(const Query *select)
{
	const Const *limit = (const Const *) select->limitCount;

	if (limit == NULL || !IsA(limit, Const) || limit->constisnull || select->limitOffset != NULL ||
		select->limitOption != LIMIT_OPTION_COUNT || DatumGetInt64(limit->constvalue) < 1 ||
		DatumGetInt64(limit->constvalue) > MOST_LATEST)
		return 0;
	return (int) DatumGetInt64(limit->constvalue);
}

/* Whether a join has a one-time filter: a node above the nested loop would evaluate it. */
static bool
has_one_time_filter(const NestPath *loop)
{
	ListCell *cell;

	foreach (cell, loop->jpath.joinrestrictinfo)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	}
	return false;
}

/* The nested loop of a join, of those that PostgreSQL has offered, that becomes a latest join. */
static LatestPath *
find_loop(RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner)
{
	ListCell *cell;

	foreach (cell, joinrel->pathlist)
	{
		NestPath *loop = lfirst(cell);
		LatestPath *result;

		if (!IsA(loop, NestPath) || loop->jpath.outerjoinpath->parent != outer ||
			loop->jpath.innerjoinpath->parent != inner || loop->jpath.path.param_info != NULL ||
			!IsA(loop->jpath.innerjoinpath, SubqueryScanPath))
			continue;
		result = palloc(sizeof(LatestPath));
		result->loop = COPY_PATH(NestPath, loop);
		result->rows = rows_wanted(inner->subroot->parse);
		result->scan = copy_paths(&result->loop->jpath.innerjoinpath);
		if (has_one_time_filter(loop) || result->rows == 0 || result->scan == NULL ||
			!has_ends(result->scan->indexinfo) || result->scan->indexorderbys != NIL)
			return NULL;
		result->keys = get_keys(result->scan, inner, outer);
		return result->keys == NIL ? NULL : result;
	}
	return NULL;
}

void
hm_latest_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
					 JoinType type)
{
	LatestPath *latest;
	CustomPath *path;
	const Path *loop;
	const Path *rows;

	if ((type != JOIN_INNER && type != JOIN_LEFT) || inner->rtekind != RTE_SUBQUERY ||
		inner->subroot == NULL || bms_is_empty(inner->lateral_relids) || root->rowMarks != NIL ||
		root->parse->commandType != CMD_SELECT || !bms_is_empty(joinrel->lateral_relids) ||
		hm_is_grouped(joinrel) || hm_old_snapshots_possible())
		return;
	latest = find_loop(joinrel, outer, inner);
	if (latest == NULL)
		return;
	loop = &latest->loop->jpath.path;
	rows = latest->loop->jpath.outerjoinpath;
	if (rows->rows < LEAST_ROWS)
		return;
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.rows = loop->rows;
	path->path.pathkeys = loop->pathkeys;
	path->path.startup_cost = loop->startup_cost;
	path->path.total_cost = rows->total_cost + (loop->total_cost - rows->total_cost) * LOOPS_SHARE;
	hm_inherit_disabled_nodes(&path->path, loop);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_paths = list_make1(latest->loop);
	path->custom_private = list_make1(latest);
	add_path(joinrel, &path->path);
}

/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

/* Put a node above a plan, which has its costs. */
static CustomScan *
put_above(Plan *plan, const CustomScanMethods *methods)
{
	CustomScan *node = makeNode(CustomScan);

	node->scan.plan.targetlist = copyObject(plan->targetlist);
	node->scan.plan.startup_cost = plan->startup_cost;
	node->scan.plan.total_cost = plan->total_cost;
	node->scan.plan.plan_rows = plan->plan_rows;
	node->scan.plan.plan_width = plan->plan_width;
	node->custom_plans = list_make1(plan);
	node->methods = methods;
	return node;
}

/* Put a latest scan above the index scan that a plan has at its end. */
static void
put_scan_above(Plan **plan, const LatestPath *latest)
{
	while (!IsA(*plan, IndexScan))
		plan = IsA(*plan, SubqueryScan) ? &((SubqueryScan *) *plan)->subplan : &(*plan)->lefttree;
	{
		IndexScan *scan = (IndexScan *) *plan;
		CustomScan *node = put_above(*plan, &hm_latest_scan_methods);

		node->scan.scanrelid = scan->scan.scanrelid;
		node->scan.plan.qual =
			list_concat(copyObject(scan->indexqualorig), copyObject(scan->scan.plan.qual));
		node->custom_private =
			list_concat(list_make3_int((int) scan->indexid,
									   ScanDirectionIsBackward(scan->indexorderdir), latest->rows),
						latest->keys);
		*plan = (Plan *) node;
	}
}

static Plan *
plan_latest_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
				 List *children)
{
	const LatestPath *latest = linitial(path->custom_private);
	NestLoop *loop = linitial_node(NestLoop, children);
	CustomScan *node;
	CustomScan *rows = put_above(loop->join.plan.lefttree, &hm_latest_rows_methods);

	rows->custom_scan_tlist = copyObject(rows->scan.plan.targetlist);
	loop->join.plan.lefttree = (Plan *) rows;
	put_scan_above(&loop->join.plan.righttree, latest);
	node = put_above(&loop->join.plan, &hm_latest_join_methods);
	node->custom_scan_tlist = copyObject(loop->join.plan.targetlist);
	node->scan.plan.targetlist = tlist;
	return &node->scan.plan;
}
