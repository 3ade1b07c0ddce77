/*
 * latest_plan.c
 *		Paths for latest joins: LATERAL (SELECT ... WHERE t.k = o.k ORDER BY t.at DESC LIMIT n).
 *
 * PostgreSQL plans these as a nested loop whose inner side is an index scan that stops after a few
 * rows.  A latest join is a node above this nested loop, which is executed in its place:
 *
 *		HarmoniaLatestJoin			looks up what the index scan will return, for a batch of
 *		  Nested Loop				outer rows at a time
 *			the outer side
 *			Limit, Subquery Scan
 *			  Index Scan			is executed where that was not all
 *
 * Conditions, expressions and outer joins are the loop's own, and rows keep the outer side's order.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

#include "am/am.h"
#include "compat.h"
#include "exec/latest.h"

/*
 * What a latest join takes of the time of a nested loop for each entry; but with so few outer rows
 * a nested loop takes no longer.
 */
#define LOOPS_SHARE 0.3
#define LEAST_ROWS 100

/*
 * The first batch, which is looked up before the first row is returned: where the first rows are
 * wanted, and where all are.
 */
#define FIRST_ROWS 64
#define LEAST_BATCH 1024

/* How many rows may be wanted of each range, and how many entries that may take. */
#define MOST_LATEST 1000
#define MOST_ENTRIES 2000

/* A nested loop for a latest join, as copies of PostgreSQL's paths. */
typedef struct LatestPath
{
	NestPath *loop;
	IndexPath *scan;
	double batch;  /* rows of the first batch */
	List *private; /* custom_private */
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

/*
 * The comparison of a column of a scan's index with a value of its type that a condition makes.
 * Returns false if it is none.
 */
static bool
get_key(const IndexPath *scan, const IndexClause *clause, LatestKey *key)
{
	const IndexOptInfo *index = scan->indexinfo;
	OpExpr *operation;
	Oid left, right;

	if (clause->lossy || list_length(clause->indexquals) != 1)
		return false;
	operation = (OpExpr *) linitial_node(RestrictInfo, clause->indexquals)->clause;
	if (!IsA(operation, OpExpr) || list_length(operation->args) != 2)
		return false;
	key->column = clause->indexcol;
	get_op_opfamily_properties(operation->opno, index->opfamily[key->column], false, &key->strategy,
							   &left, &right);
	return left == right && exprType(lsecond(operation->args)) == index->opcintype[key->column];
}

/*
 * Add the keys that conditions on a column of a scan's index make: the first one of equality, or
 * all others.  Returns whether there are such.
 */
static bool
add_keys(const IndexPath *scan, int column, bool equality, List **keys, List **clauses)
{
	int before = list_length(*keys);
	int number = 0; /* of a clause's first condition */
	ListCell *cell;

	foreach (cell, scan->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, cell);
		LatestKey key = {.number = number};

		number += list_length(clause->indexquals);
		if (clause->indexcol != column || !get_key(scan, clause, &key) ||
			(key.strategy == BTEqualStrategyNumber) != equality)
			continue;
		*keys = list_concat(*keys, list_make3_int(key.column, key.strategy, key.number));
		*clauses = lappend(*clauses, clause->rinfo);
		if (equality)
			return true;
	}
	return list_length(*keys) > before;
}

/*
 * The keys of a scan: for as many of the first columns as are compared for equality, and for the
 * next one.  NIL if there are none.  *clauses are those that make keys.
 */
static List *
get_keys(const IndexPath *scan, List **clauses)
{
	const IndexOptInfo *index = scan->indexinfo;
	int columns = hm_btree_columns(index->opfamily, index->opcintype, index->nkeycolumns);
	List *keys = NIL;
	int column = 0;

	*clauses = NIL;
	while (column < columns && add_keys(scan, column, true, &keys, clauses))
		column++;
	if (column > 0 && column < columns)
		(void) add_keys(scan, column, false, &keys, clauses);
	return keys;
}

/* Whether some clause is a one-time filter: a node above the scan or the loop would evaluate it. */
static bool
has_one_time_filter(const List *clauses)
{
	ListCell *cell;

	foreach (cell, clauses)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	}
	return false;
}

/*
 * Whether an index scan has conditions that make no keys, but for IS NOT NULL.  It may begin where
 * these say, or end there: lookups would read what is left out in vain.
 */
static bool
has_other_bounds(const IndexPath *scan, const List *key_clauses)
{
	ListCell *cell;

	foreach (cell, scan->indexclauses)
	{
		const RestrictInfo *clause = lfirst_node(IndexClause, cell)->rinfo;

		if (!list_member_ptr(key_clauses, clause) &&
			!(IsA(clause->clause, NullTest) &&
			  ((const NullTest *) clause->clause)->nulltesttype == IS_NOT_NULL))
			return true;
	}
	return false;
}

/*
 * How many entries of a range a scan reads for so many rows: those that do not satisfy the
 * conditions that make no keys are read in vain.  0 if they are too many.
 */
static int
entries_wanted(PlannerInfo *root, const IndexPath *scan, const List *key_clauses, int rows)
{
	List *others = NIL;
	double entries;
	ListCell *cell;

	if (has_one_time_filter(scan->indexinfo->rel->baserestrictinfo) ||
		has_other_bounds(scan, key_clauses))
		return 0;
	foreach (cell, scan->indexinfo->rel->baserestrictinfo)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);

		if (!list_member_ptr(key_clauses, clause))
			others = lappend(others, clause);
	}
	entries = rows / clauselist_selectivity(root, others, 0, JOIN_INNER, NULL);
	return entries > MOST_ENTRIES ? 0 : (int) entries + 1;
}

#define COPY_PATH(type, path) ((type *) memcpy(palloc(sizeof(type)), (path), sizeof(type)))

/*
 * Copy the paths from a sub-select to an index scan below a limit.  Returns the scan; NULL if there
 * are other steps.  The scan reads rows, whether or not the index has all that is wanted.
 */
static IndexPath *
copy_paths(Path **path)
{
	IndexPath *scan;

	*path = (Path *) COPY_PATH(SubqueryScanPath, *path);
	path = &((SubqueryScanPath *) *path)->subpath;
	if (!IsA(*path, LimitPath))
		return NULL;
	*path = (Path *) COPY_PATH(LimitPath, *path);
	path = &((LimitPath *) *path)->subpath;
	if (IsA(*path, ProjectionPath))
	{
		if (!((ProjectionPath *) *path)->dummypp)
			return NULL;
		*path = (Path *) COPY_PATH(ProjectionPath, *path);
		path = &((ProjectionPath *) *path)->subpath;
	}
	if (!IsA(*path, IndexPath))
		return NULL;
	*path = (Path *) COPY_PATH(IndexPath, *path);
	scan = (IndexPath *) *path;
	scan->path.pathtype = T_IndexScan;
	return scan;
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

/*
 * Make a latest join's paths of a nested loop whose inner side is a sub-select.  NULL if that
 * cannot be.
 */
static LatestPath *
make_latest(PlannerInfo *root, NestPath *loop, SubqueryScanPath *select, RelOptInfo *inner,
			RelOptInfo *outer)
{
	LatestPath *result = palloc(sizeof(LatestPath));
	int rows = rows_wanted(inner->subroot->parse);
	List *clauses, *keys;
	int entries;

	result->loop = COPY_PATH(NestPath, loop);
	result->loop->jpath.innerjoinpath = &select->path;
	result->scan = copy_paths(&result->loop->jpath.innerjoinpath);
	if (has_one_time_filter(loop->jpath.joinrestrictinfo) ||
		has_one_time_filter(inner->baserestrictinfo) || rows == 0 || result->scan == NULL ||
		!has_ends(result->scan->indexinfo) || result->scan->indexorderbys != NIL)
		return NULL;
	keys = get_keys(result->scan, &clauses);
	entries = entries_wanted(inner->subroot, result->scan, clauses, rows);
	if (keys == NIL || entries == 0)
		return NULL;
	result->batch = hm_wants_first_rows(root) || hm_wants_first_in_order(root) ?
						FIRST_ROWS :
						Min(Max(2 * outer->rows, LEAST_BATCH), LATEST_LARGEST_BATCH);
	result->private = list_make5_int((int) result->scan->indexinfo->indexoid,
									 ScanDirectionIsBackward(result->scan->indexscandir), rows,
									 entries, (int) result->batch);
	result->private = list_concat(result->private, keys);
	return result;
}

/* The nested loop of a join, of those that PostgreSQL has offered, that becomes a latest join. */
static LatestPath *
find_loop(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner)
{
	ListCell *cell;

	foreach (cell, joinrel->pathlist)
	{
		NestPath *loop = lfirst(cell);
		Path *select;

		if (!IsA(loop, NestPath) || loop->jpath.outerjoinpath->parent != outer ||
			loop->jpath.innerjoinpath->parent != inner || loop->jpath.path.param_info != NULL)
			continue;
		select = loop->jpath.innerjoinpath;
		if (IsA(select, MemoizePath))
			select = ((MemoizePath *) select)->subpath;
		if (IsA(select, SubqueryScanPath))
			return make_latest(root, loop, (SubqueryScanPath *) select, inner, outer);
	}
	return NULL;
}

/* Charge for a latest join, from what its nested loop is charged for. */
static void
set_costs(Path *path, const LatestPath *latest)
{
	const JoinPath *loop = &latest->loop->jpath;
	const Path *outer = loop->outerjoinpath;
	double rows = outer->rows;
	Cost loops = loop->innerjoinpath->total_cost * rows * LOOPS_SHARE;

	path->total_cost = outer->total_cost + loops + loop->path.rows * cpu_tuple_cost;
	path->startup_cost = outer->startup_cost +
						 (path->total_cost - outer->startup_cost) * Min(1.0, latest->batch / rows);
}

/* Whether a join may be a latest join: of a sub-select that depends on the outer side. */
static bool
is_candidate(const PlannerInfo *root, const RelOptInfo *joinrel, const RelOptInfo *inner,
			 JoinType type)
{
	return (type == JOIN_INNER || type == JOIN_LEFT) && inner->rtekind == RTE_SUBQUERY &&
		   inner->subroot != NULL && !bms_is_empty(inner->lateral_relids) &&
		   !inner->subroot->parse->hasSubLinks &&
		   !contain_volatile_functions((Node *) inner->subroot->parse) && root->rowMarks == NIL &&
		   root->parse->commandType == CMD_SELECT && bms_is_empty(joinrel->lateral_relids) &&
		   !hm_is_grouped(joinrel) && !hm_old_snapshots_possible();
}

void
hm_latest_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
					 JoinType type)
{
	LatestPath *latest =
		is_candidate(root, joinrel, inner, type) ? find_loop(root, joinrel, outer, inner) : NULL;
	CustomPath *path;

	if (latest == NULL || latest->loop->jpath.outerjoinpath->rows < LEAST_ROWS)
		return;
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.rows = latest->loop->jpath.path.rows;
	path->path.pathkeys = latest->loop->jpath.path.pathkeys;
	set_costs(&path->path, latest);
	hm_inherit_disabled_nodes(&path->path, &latest->loop->jpath.path);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_paths = list_make1(latest->loop);
	path->custom_private = list_make1(latest->private);
	add_path(joinrel, &path->path);
}

/* ----------------------------------------------------------------
 *		Plans
 * ----------------------------------------------------------------
 */

static Plan *
plan_latest_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
				 List *children)
{
	CustomScan *node = makeNode(CustomScan);
	NestLoop *loop = linitial_node(NestLoop, children);

	node->scan.plan.targetlist = tlist;
	node->custom_scan_tlist = copyObject(loop->join.plan.targetlist);
	node->custom_plans = children;
	node->custom_private = linitial(path->custom_private);
	node->methods = &hm_latest_join_methods;
	return &node->scan.plan;
}
