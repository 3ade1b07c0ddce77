/*
 * paths.c
 *		Paths for a foreign join: the rows of any plan, looked up in foreign tables.
 *
 * PostgreSQL fetches a foreign table as a whole for a hash join, or sends a query for each outer
 * row.  A foreign join sends a query for each batch, with all of its keys in an array.
 * inner.c has these queries planned.
 */
#include "postgres.h"

#include <math.h>

#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "foreign/foreign_join.h"

/*
 * What a key costs at least that is sent: it is made text, parsed, and looked up or put into the
 * remote server's hash table.  That takes about as long as a row that is returned, so it is not
 * charged less than a wrapper charges for that.
 */
#define KEY_COST (2 * cpu_tuple_cost)

/* Testing whether a key is in a target's share costs so many operators. */
#define SHARE_OPERATORS 2

/* A key of an array takes at least such a part of what one key takes that is looked up alone. */
#define ARRAY_PART 0.5

/*
 * To ask the remote server about the query of one table, and to go to tables without a match, takes
 * such a part of the time of a query that finds a row or two.
 */
#define QUESTION 0.5

/* ----------------------------------------------------------------
 *		Costs
 * ----------------------------------------------------------------
 */

/*
 * What one query of a target costs with so many keys, all of which find so many rows: *startup
 * until the first row.
 */
static Cost
target_cost(const ForeignTarget *target, double keys, double rows, Cost *startup)
{
	const Path *path = target->path;
	Cost total;

	*startup = path->startup_cost;
	if (target->linear)
		total = path->total_cost + target->per_row * (rows - path->rows);
	else
		total = path->startup_cost +
				(path->total_cost - path->startup_cost) * Max(1.0, keys / HM_NOMINAL_KEYS);
	return Max(total, path->startup_cost);
}

/* The part of a path's costs that is quickly known. */
static void
cost_outer(Path *path, const Path *outer_path)
{
	hm_inherit_disabled_nodes(path, outer_path);
	path->startup_cost = outer_path->startup_cost;
	path->total_cost = outer_path->total_cost +
					   clamp_row_est(outer_path->rows) * (cpu_tuple_cost + cpu_operator_cost);
}

/* What is known of a key clause before any wrapper is asked. */
typedef struct KeyClause
{
	RestrictInfo *info;
	bool inner_left;
	Node *key;               /* its inner side */
	Node *argument;          /* its outer side */
	double distinct;         /* keys of the outer rows */
	Selectivity selectivity; /* part of the inner rows that one key finds */
} KeyClause;

static void
estimate_keys(PlannerInfo *root, KeyClause *clause, const Path *outer_path, RelOptInfo *inner)
{
	double rows = clamp_row_est(outer_path->rows);
	double groups = estimate_num_groups(root, list_make1(clause->argument), rows, NULL, NULL);

	clause->distinct = Min(clamp_row_est(groups), rows);
	clause->selectivity = clauselist_selectivity(root, list_make1(clause->info), (int) inner->relid,
												 JOIN_INNER, NULL);
}

static void
cost_path(PlannerInfo *root, Path *path, const Path *outer_path, const ForeignInner *side,
		  const KeyClause *clause, JoinPathExtraData *extra)
{
	double outer_rows = clamp_row_est(outer_path->rows);
	double batches =
		ceil(outer_rows / hm_foreign_batch_rows(outer_path->pathtarget->width,
												list_length(outer_path->pathtarget->exprs)));
	double keys;
	double fetched = 0;
	ListCell *cell;

	/* Keys may come again in later batches. */
	keys = Min(clause->distinct, outer_rows / batches);
	cost_outer(path, outer_path);
	path->startup_cost += (path->total_cost - outer_path->startup_cost) / batches;
	foreach (cell, side->targets)
	{
		ForeignTarget *target = lfirst(cell);
		double rows = clamp_row_est(target->rel->rows * Min(1.0, keys * clause->selectivity));
		double sent = clamp_row_est(keys * target->fraction);
		Cost sending = sent * Max(KEY_COST, target->per_row);
		Cost startup;
		Cost total = target_cost(target, sent, rows, &startup);

		if (target->share != NIL)
			sending += keys * SHARE_OPERATORS * cpu_operator_cost;
		fetched += rows * batches;
		path->startup_cost += sending + startup;
		path->total_cost += batches * (sending + total);
	}

	/* Looking the rows up, and what is done with a match. */
	path->total_cost += fetched * cpu_operator_cost;
	hm_add_evaluations(root, path, list_make1(clause->argument), outer_rows);
	hm_add_evaluations(root, path, extra->restrictlist,
					   Max(fetched, outer_rows * clause->selectivity * side->inner->rows));
	path->startup_cost += path->pathtarget->cost.startup;
	path->total_cost += path->pathtarget->cost.startup +
						(path->pathtarget->cost.per_tuple + cpu_tuple_cost) * path->rows;
}

/* ----------------------------------------------------------------
 *		Paths
 * ----------------------------------------------------------------
 */

/*
 * Whether a join clause can be the key clause: equality, which can be hashed, of expressions on
 * either side.  Finds its sides.
 */
static bool
is_key_clause(KeyClause *key, RelOptInfo *outer, RelOptInfo *inner)
{
	RestrictInfo *info = key->info;
	OpExpr *clause = (OpExpr *) info->clause;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2 || !info->can_join ||
		!restriction_is_securely_promotable(info, inner) ||
		contain_volatile_functions((Node *) info) || !op_strict(clause->opno) ||
		!op_hashjoinable(clause->opno, exprType(linitial(clause->args))))
		return false;

	/* What a collation takes for equal may differ by server, but not for these. */
	if (OidIsValid(clause->inputcollid) && !get_collation_isdeterministic(clause->inputcollid))
		return false;
	if (bms_is_subset(info->left_relids, inner->relids) &&
		bms_is_subset(info->right_relids, outer->relids))
		key->inner_left = true;
	else if (bms_is_subset(info->right_relids, inner->relids) &&
			 bms_is_subset(info->left_relids, outer->relids))
		key->inner_left = false;
	else
		return false;
	key->key = key->inner_left ? linitial(clause->args) : lsecond(clause->args);
	key->argument = key->inner_left ? lsecond(clause->args) : linitial(clause->args);
	return true;
}

static void
add_join_path(PlannerInfo *root, RelOptInfo *joinrel, Path *outer_path, JoinType type,
			  ForeignInner *side, const KeyClause *clause, JoinPathExtraData *extra)
{
	CustomPath *path = makeNode(CustomPath);
	ForeignJoinPath *private = palloc(sizeof(ForeignJoinPath));
	ListCell *cell;

	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.rows = joinrel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &hm_foreign_join_path_methods;
	path->custom_paths = list_make1(outer_path);
	foreach (cell, side->targets)
		path->custom_paths = lappend(path->custom_paths, ((ForeignTarget *) lfirst(cell))->path);
	*private = (ForeignJoinPath){side, clause->info, extra->restrictlist, type, clause->inner_left};
	path->custom_private = list_make1(private);
	cost_path(root, &path->path, outer_path, side, clause, extra);
	if (hm_add_path_precheck(joinrel, path->path.startup_cost, path->path.total_cost) &&
		hm_foreign_sends_arrays(root, side))
		add_path(joinrel, &path->path);
}

/* Whether a path could win against those that the join has, but for what reads the inner side. */
static bool
outer_may_pay(RelOptInfo *joinrel, const Path *outer_path)
{
	Path least = {0};

	cost_outer(&least, outer_path);
	return hm_add_path_precheck(joinrel, least.startup_cost, least.total_cost);
}

/*
 * The same, with what the queries take at least: they start, each key is sent and looked up, and
 * each row that is found is read there, sent, and read here.  Only a wrapper knows more, and it may
 * ask the remote server.
 */
static bool
may_pay(RelOptInfo *joinrel, const Path *outer_path, const ForeignTables *tables,
		const KeyClause *clause, const RelOptInfo *inner)
{
	double found = inner->rows * Min(1.0, clause->distinct * clause->selectivity);
	Path least = {0};

	cost_outer(&least, outer_path);
	least.startup_cost += tables->startup;
	least.total_cost +=
		tables->startup + clause->distinct * KEY_COST + joinrel->rows * cpu_tuple_cost +
		Max(found * 3 * cpu_tuple_cost, clause->distinct * tables->single_key * ARRAY_PART);
	return hm_add_path_precheck(joinrel, least.startup_cost, least.total_cost);
}

/*
 * Whether a nested loop looks so few outer rows up remotely that it takes no longer than what we
 * could do.  A wrapper that has paths for single keys asks the remote server for costs, and we
 * would have it ask for those of arrays, too.  A nested loop goes to the partition of its key
 * alone.
 */
static bool
is_short_loop(const Path *outer_path, RelOptInfo *outer, RelOptInfo *inner, Node *key,
			  const ForeignTables *tables)
{
	double most = 1;
	ListCell *cell;

	if (inner->part_scheme != NULL && inner->partexprs != NULL &&
		list_member(inner->partexprs[0], key))
		most = Max(most, tables->count * (1 + QUESTION));
	if (!enable_nestloop || outer_path->rows > most)
		return false;
	foreach (cell, inner->cheapest_parameterized_paths)
	{
		Relids required = PATH_REQ_OUTER((Path *) lfirst(cell));

		if (required != NULL && bms_is_subset(required, outer->relids))
			return true;
	}
	return false;
}

/*
 * Whether the query may write to foreign tables.  A batch's remote query would see what rows of
 * earlier batches have written.
 */
static bool
may_write_remotely(PlannerInfo *root)
{
	for (; root != NULL; root = root->parent_root)
	{
		const Query *query = root->parse;
		const RangeTblEntry *rte;

		if (query->hasModifyingCTE)
			return true;
		if (query->commandType == CMD_SELECT || query->resultRelation == 0)
			continue;
		rte = rt_fetch(query->resultRelation, query->rtable);
		if (rte->relkind != RELKIND_RELATION || rte->inh)
			return true;
	}
	return false;
}

/* Whether all that is read of the inner side are its columns, one by one. */
static bool
reads_columns(RelOptInfo *inner, JoinPathExtraData *extra)
{
	Bitmapset *attributes = NULL;
	ListCell *cell;

	foreach (cell, inner->reltarget->exprs)
	{
		if (!IsA(lfirst(cell), Var))
			return false;
	}
	pull_varattnos((Node *) inner->reltarget->exprs, inner->relid, &attributes);
	pull_varattnos((Node *) extract_actual_clauses(inner->baserestrictinfo, false), inner->relid,
				   &attributes);
	pull_varattnos((Node *) extract_actual_clauses(extra->restrictlist, false), inner->relid,
				   &attributes);
	return !bms_is_member(InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber, attributes);
}

void
hm_foreign_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outer, RelOptInfo *inner,
					  JoinType type, JoinPathExtraData *extra)
{
	Path *outer_path = outer->cheapest_total_path;
	JoinType join_type = type == JOIN_UNIQUE_OUTER ? JOIN_INNER : type;
	ForeignTables tables = {0};
	ListCell *cell;

	if (join_type != JOIN_INNER && join_type != JOIN_LEFT && join_type != JOIN_SEMI &&
		join_type != JOIN_ANTI)
		return;

	/* A join of tables of one server is left to the wrapper. */
	if (hm_is_grouped(joinrel) || !hm_may_join(root, joinrel, inner) ||
		hm_is_rechecked(root, joinrel) || joinrel->fdwroutine != NULL ||
		inner->rtekind != RTE_RELATION)
		return;
	if (type == JOIN_UNIQUE_OUTER)
		outer_path = hm_create_unique_path(root, outer, outer_path, extra->sjinfo);
	if (outer_path == NULL || PATH_REQ_OUTER(outer_path) != NULL ||
		!outer_may_pay(joinrel, outer_path))
		return;
	hm_count_foreign(root, inner, &tables);
	if (tables.count == 0 || may_write_remotely(root) || hm_has_one_time_filter(inner, extra) ||
		!hm_can_join(joinrel, outer, inner, type, extra->restrictlist) ||
		!reads_columns(inner, extra))
		return;

	foreach (cell, extra->restrictlist)
	{
		KeyClause clause = {lfirst_node(RestrictInfo, cell)};
		ForeignInner *side;

		if (!hm_decides_match(join_type, joinrel, clause.info) ||
			!is_key_clause(&clause, outer, inner) ||
			is_short_loop(outer_path, outer, inner, clause.key, &tables))
			continue;
		estimate_keys(root, &clause, outer_path, inner);
		if (!may_pay(joinrel, outer_path, &tables, &clause, inner))
			continue;
		side = hm_foreign_inner(root, inner, clause.info, clause.inner_left);
		if (side != NULL && side->targets != NIL)
			add_join_path(root, joinrel, outer_path, join_type, side, &clause, extra);
	}
}
