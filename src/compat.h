/*
 * compat.h
 *		What differs between PostgreSQL 15 to 19.  The only file that
 *		looks at PG_VERSION_NUM; each shim names the version that changed.
 */
#ifndef HARMONIA_COMPAT_H
#define HARMONIA_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "harmonia supports PostgreSQL 15 to 19"
#endif

/* 16 renamed relfilenodes to relfilelocators, and aligned pages for direct I/O. */
#if PG_VERSION_NUM >= 160000
#define HmRelationLocator(relation) ((relation)->rd_locator)
typedef PGIOAlignedBlock HmAlignedPage;
#define HM_IO_ALIGN PG_IO_ALIGN_SIZE
#define hm_first_file_subid(relation) ((relation)->rd_firstRelfilelocatorSubid)
#define hm_index_file(index, database, tablespace, number) \
	(*(database) = (index)->rd_locator.dbOid, *(tablespace) = (index)->rd_locator.spcOid, \
	 *(number) = (index)->rd_locator.relNumber)
#else
#define HmRelationLocator(relation) ((relation)->rd_node)
#define hm_first_file_subid(relation) ((relation)->rd_firstRelfilenodeSubid)
typedef PGAlignedBlock HmAlignedPage;
#define HM_IO_ALIGN MAXIMUM_ALIGNOF
#define hm_index_file(index, database, tablespace, number) \
	(*(database) = (index)->rd_node.dbNode, *(tablespace) = (index)->rd_node.spcNode, \
	 *(number) = (index)->rd_node.relNode)
#endif

/* 17 removed old_snapshot_threshold. */
#if PG_VERSION_NUM >= 170000
#define hm_test_old_snapshot(snapshot, relation, page) ((void) (relation))
#define hm_old_snapshots_possible() false
#else
#define hm_test_old_snapshot(snapshot, relation, page) TestForOldSnapshot(snapshot, relation, page)
#define hm_old_snapshots_possible() (old_snapshot_threshold >= 0)
#endif

/*
 * Since 17 EXPLAIN looks in the initplans of plans above for what gives a parameter its value, and
 * asks them for their names alone. Before, it looked these plans up.
 */
#if PG_VERSION_NUM >= 170000
#define HM_EXPLAIN_ASKS_INITPLANS true
#else
#define HM_EXPLAIN_ASKS_INITPLANS false
#endif

/* 18 gave vacuum_delay_point() an argument: whether ANALYZE calls it. */
#if PG_VERSION_NUM >= 180000
#define vacuum_delay_point_compat() vacuum_delay_point(false)
#else
#define vacuum_delay_point_compat() vacuum_delay_point()
#endif

/* 18 has the direction of an index column's order, not the strategy. */
#if PG_VERSION_NUM >= 180000
#define hm_prepare_index_order(index, descending, order) \
	PrepareSortSupportFromIndexRel(index, descending, order)
#else
#define hm_prepare_index_order(index, descending, order) \
	PrepareSortSupportFromIndexRel( \
		index, (descending) ? BTGreaterStrategyNumber : BTLessStrategyNumber, order)
#endif

/*
 * 16 replaced pg_proc_aclcheck() by object_aclcheck(), which is given the object's
 * catalog.
 */
#if PG_VERSION_NUM >= 160000
#define hm_function_aclcheck(function, role) \
	object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE)
#else
#define hm_function_aclcheck(function, role) pg_proc_aclcheck(function, role, ACL_EXECUTE)
#endif

/* 16 leaves redundant columns of GROUP BY out in a list of its own. */
#if PG_VERSION_NUM >= 160000
#define hm_group_clause(root) ((root)->processed_groupClause)
#else
#define hm_group_clause(root) ((root)->parse->groupClause)
#endif

/* 18 counts disabled nodes, which a path has to hand up from its input. */
#if PG_VERSION_NUM >= 180000
#define hm_inherit_disabled_nodes(path, input) ((path)->disabled_nodes = (input)->disabled_nodes)
#else
#define hm_inherit_disabled_nodes(path, input) ((void) 0)
#endif

/* 18 counts an index scan's descents for EXPLAIN ANALYZE. */
#if PG_VERSION_NUM >= 180000
#define hm_count_search(scan) \
	do \
	{ \
		if ((scan)->instrument) \
			(scan)->instrument->nsearches++; \
	} while (0)
#else
#define hm_count_search(scan) ((void) 0)
#endif

/* 18: ExecutorRun and its hook lost execute_once. */
#if PG_VERSION_NUM >= 180000
#define HM_EXECUTOR_RUN_PARAMETERS QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define HM_EXECUTOR_RUN_ARGUMENTS queryDesc, direction, count
#else
#define HM_EXECUTOR_RUN_PARAMETERS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define HM_EXECUTOR_RUN_ARGUMENTS queryDesc, direction, count, execute_once
#endif

/* 17 plans the number of a build's workers itself, if amcanbuildparallel is set. */
#if PG_VERSION_NUM >= 170000
#define hm_build_workers(heap, index, info) ((info)->ii_ParallelWorkers)
#else
#define hm_build_workers(heap, index, info) \
	plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index))
#endif

/* 16 moved the macros for values of variable length out of postgres.h. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 gave functions that may change a btree its table. */
#if PG_VERSION_NUM >= 160000
#define hm_btree_root(index) _bt_getroot(index, NULL, BT_READ)
#else
#define hm_btree_root(index) _bt_getroot(index, BT_READ)
#endif

/*
 * 17 lets an access method offer parallel builds.  18 lets one other than btree offer an
 * order and equality that the planner relies on everywhere.
 */
#if PG_VERSION_NUM >= 180000
#include "access/nbtree.h"
#define HM_ROUTINE_EXTRAS \
	.amcanbuildparallel = true, .amconsistentequality = true, .amconsistentordering = true, \
	.amtranslatestrategy = bttranslatestrategy, .amtranslatecmptype = bttranslatecmptype,
#elif PG_VERSION_NUM >= 170000
#define HM_ROUTINE_EXTRAS .amcanbuildparallel = true,
#else
#define HM_ROUTINE_EXTRAS
#endif

/*
 * Up to 18, the server frees what a handler of an access method returns; 19 keeps and never frees
 * it.
 */
#if PG_VERSION_NUM >= 190000
#define hm_handed_over(routine) (routine)
#else
#include "access/amapi.h"
static inline IndexAmRoutine *
hm_handed_over(const IndexAmRoutine *routine)
{
	IndexAmRoutine *result = makeNode(IndexAmRoutine);

	*result = *routine;
	return result;
}
#endif

/* 18 replaced pg_attribute_noreturn() by pg_noreturn, which has to stand in front. */
#if PG_VERSION_NUM >= 180000
#define HM_NORETURN pg_noreturn
#else
#define HM_NORETURN pg_attribute_noreturn()
#endif

/* 17 runs maintenance commands with a safe search_path. */
#if PG_VERSION_NUM >= 170000
#define hm_restrict_search_path() RestrictSearchPath()
#else
#define hm_restrict_search_path() ((void) 0)
#endif

/*
 * 16 replaced pg_class_ownercheck() by object_ownercheck(), which is given the object's
 * catalog.
 */
#if PG_VERSION_NUM >= 160000
#define hm_is_owner(relation_oid) object_ownercheck(RelationRelationId, relation_oid, GetUserId())
#else
#define hm_is_owner(relation_oid) pg_class_ownercheck(relation_oid, GetUserId())
#endif

/*
 * Whether a collation sorts as memcmp() does.  18 replaced lc_collate_is_c() by a field.  Up to 18,
 * pg_locale.h includes ICU's headers, which need not be installed beside the server's.
 */
#if PG_VERSION_NUM >= 180000
#pragma push_macro("USE_ICU")
#undef USE_ICU
#include "utils/pg_locale.h"
#pragma pop_macro("USE_ICU")
#define hm_collation_is_c(collation) (pg_newlocale_from_collation(collation)->collate_is_c)
#else
extern bool lc_collate_is_c(Oid collation);
#define hm_collation_is_c(collation) lc_collate_is_c(collation)
#endif

/* 17 gave estimate_array_length() the PlannerInfo, because it uses statistics. */
#if PG_VERSION_NUM >= 170000
#define hm_estimate_array_length(root, array) estimate_array_length(root, array)
#else
#define hm_estimate_array_length(root, array) ((double) estimate_array_length(array))
#endif

/*
 * 16 passes the child and the parent as RelOptInfos; before, as sets of range table
 * indexes.
 */
#if PG_VERSION_NUM >= 160000
#define hm_translate_for_child(root, node, child, parent) \
	adjust_appendrel_attrs_multilevel(root, node, child, parent)
#else
#define hm_translate_for_child(root, node, child, parent) \
	adjust_appendrel_attrs_multilevel(root, node, (child)->relids, (parent)->relids)
#endif

/*
 * Whether ROWID_VARs may be in the scan tuple of a custom scan, which is what setrefs.c needs; but
 * an assertion of it forbids them.
 */
#ifdef USE_ASSERT_CHECKING
#define HM_SCANS_HAVE_ROWID_VARS false
#else
#define HM_SCANS_HAVE_ROWID_VARS true
#endif

/*
 * Whether a path without order may win against those that a relation has.  18 compares
 * the number of disabled nodes before costs; our paths have none.  19 looks at what partial paths
 * cost before their first row, too.
 */
#if PG_VERSION_NUM >= 190000
#define hm_add_path_precheck(rel, startup, total) \
	add_path_precheck(rel, 0, startup, total, NIL, NULL)
#define hm_add_partial_path_precheck(rel, startup, total) \
	add_partial_path_precheck(rel, 0, startup, total, NIL)
#elif PG_VERSION_NUM >= 180000
#define hm_add_path_precheck(rel, startup, total) \
	add_path_precheck(rel, 0, startup, total, NIL, NULL)
#define hm_add_partial_path_precheck(rel, startup, total) \
	((void) (startup), add_partial_path_precheck(rel, 0, total, NIL))
#else
#define hm_add_path_precheck(rel, startup, total) add_path_precheck(rel, startup, total, NIL, NULL)
#define hm_add_partial_path_precheck(rel, startup, total) \
	((void) (startup), add_partial_path_precheck(rel, total, NIL))
#endif

/* 18 moved what extends EXPLAIN to headers of its own. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* 18 puts an entry for GROUP BY into the range table, and counts it out for EXPLAIN. */
#if PG_VERSION_NUM >= 180000
#define hm_explained_tables(es) ((es)->rtable_size)
#else
#define hm_explained_tables(es) list_length((es)->rtable)
#endif

/*
 * 17 has read streams, which read buffers ahead.  18 has a flag for streams whose
 * callback never waits.
 */
#if PG_VERSION_NUM >= 170000
#define HM_READ_STREAM
#include "storage/read_stream.h"
#endif
#if PG_VERSION_NUM >= 180000
#define HM_READ_STREAM_FLAGS READ_STREAM_USE_BATCHING
#elif PG_VERSION_NUM >= 170000
#define HM_READ_STREAM_FLAGS READ_STREAM_DEFAULT
#endif

/* 17 made resource owners own wait event sets; before, a memory context did. */
#if PG_VERSION_NUM >= 170000
#define hm_create_wait_event_set(events) CreateWaitEventSet(NULL, events)
#else
#define hm_create_wait_event_set(events) CreateWaitEventSet(TopMemoryContext, events)
#endif

/*
 * Run-time pruning.  Our join keeps its PartitionPruneInfo in its own plan, as
 * PostgreSQL's nodes do up to 17.  18 keeps these in lists instead: the planner's, in
 * PlannerInfo, and the executor's, in EState.  setrefs.c moves only those of PostgreSQL's
 * own nodes from the first to the plan, and initial pruning is done for all of the second
 * at once.  So hm_make_prune_info() takes ours out of the planner's list again, and
 * hm_begin_pruning() has the executor prune a list of ours alone, and then restores its
 * lists.  Up to 17 the steps have an expression context of their own, which has to be
 * the node's while they are evaluated.  18 also asks, when a table of the range table
 * is opened, whether it will be written to.
 */
#include "executor/execPartition.h"
#include "nodes/pathnodes.h"
#include "partitioning/partprune.h"

#if PG_VERSION_NUM >= 180000
static inline PartitionPruneInfo *
hm_make_prune_info(PlannerInfo *root, RelOptInfo *parent, List *paths, List *quals)
{
	PartitionPruneInfo *info;

	if (make_partition_pruneinfo(root, parent, paths, quals) < 0)
		return NULL;
	info = llast_node(PartitionPruneInfo, root->partPruneInfos);
	root->partPruneInfos = list_delete_last(root->partPruneInfos);
	return info;
}

static inline PartitionPruneState *
hm_begin_pruning(PlanState *node, int targets, PartitionPruneInfo *info, Bitmapset **chosen,
				 ExprContext **econtext)
{
	EState *estate = node->state;
	List *infos = estate->es_part_prune_infos;
	List *states = estate->es_part_prune_states;
	List *results = estate->es_part_prune_results;
	Bitmapset *unpruned = estate->es_unpruned_relids;
	PartitionPruneState *state;

	estate->es_part_prune_infos = list_make1(info);
	estate->es_part_prune_states = NIL;
	estate->es_part_prune_results = NIL;
	estate->es_unpruned_relids = bms_copy(unpruned);
	ExecDoInitialPruning(estate);
	state = ExecInitPartitionExecPruning(node, targets, 0, info->relids, chosen);
	estate->es_part_prune_infos = infos;
	estate->es_part_prune_states = states;
	estate->es_part_prune_results = results;
	estate->es_unpruned_relids = unpruned;
	*econtext = NULL;
	return state;
}

#define hm_find_targets(node, state, econtext) ExecFindMatchingSubPlans(state, false, NULL)
#define hm_range_table_relation(estate, rti) ExecGetRangeTableRelation(estate, rti, false)
#else
#define hm_make_prune_info(root, parent, paths, quals) \
	make_partition_pruneinfo(root, parent, paths, quals)

static inline PartitionPruneState *
hm_begin_pruning(PlanState *node, int targets, PartitionPruneInfo *info, Bitmapset **chosen,
				 ExprContext **econtext)
{
	/*
	 * ExecInitPartitionPruning() replaces the node's expression context, but its
	 * projection uses the old one.
	 */
	ExprContext *own = node->ps_ExprContext;
	PartitionPruneState *state = ExecInitPartitionPruning(node, targets, info, chosen);

	*econtext = node->ps_ExprContext;
	node->ps_ExprContext = own;
	return state;
}

static inline Bitmapset *
hm_find_targets(PlanState *node, PartitionPruneState *state, ExprContext *econtext)
{
	ExprContext *own = node->ps_ExprContext;
	Bitmapset *targets;

	node->ps_ExprContext = econtext;
	targets = ExecFindMatchingSubPlans(state, false);
	node->ps_ExprContext = own;
	return targets;
}

#define hm_range_table_relation(estate, rti) ExecGetRangeTableRelation(estate, rti)
#endif

/* 16 keeps what check hooks leave behind in a memory context. */
#if PG_VERSION_NUM >= 160000
#define hm_guc_malloc(size) guc_malloc(LOG, size)
#else
#define hm_guc_malloc(size) malloc(size)
#endif

/* 16 lets the caller choose whether a datum that was sorted is copied. */
#if PG_VERSION_NUM >= 160000
#define hm_tuplesort_getdatum(sort, value, is_null) \
	tuplesort_getdatum(sort, true, false, value, is_null, NULL)
#else
#define hm_tuplesort_getdatum(sort, value, is_null) \
	tuplesort_getdatum(sort, true, value, is_null, NULL)
#endif

/*
 * Whether a column is NOT NULL in all rows.  18 lets the constraint be NOT VALID, and has
 * generated columns that are not stored.
 */
#if PG_VERSION_NUM >= 180000
#define hm_attribute_not_null(desc, column) \
	(TupleDescCompactAttr(desc, AttrNumberGetAttrOffset(column))->attnullability == \
		 ATTNULLABLE_VALID && \
	 TupleDescAttr(desc, AttrNumberGetAttrOffset(column))->attgenerated != \
		 ATTRIBUTE_GENERATED_VIRTUAL)
#else
#define hm_attribute_not_null(desc, column) \
	(TupleDescAttr(desc, AttrNumberGetAttrOffset(column))->attnotnull)
#endif

/*
 * The record by which nbtree makes replay resolve conflicts with snapshots.  16 renamed its fields,
 * and added whether logical decoding on a standby may need the table.
 */
#if PG_VERSION_NUM >= 160000
#define hm_fill_conflict(record, index, heap, horizon) \
	((record)->locator = (index)->rd_locator, (record)->snapshotConflictHorizon = (horizon), \
	 (record)->isCatalogRel = RelationIsAccessibleInLogicalDecoding(heap))
#else
#define hm_fill_conflict(record, index, heap, horizon) \
	((record)->node = (index)->rd_node, (record)->latestRemovedFullXid = (horizon))
#endif

/*
 * What a parallel index scan is told before it begins has become more, and 18 has another name for
 * where its state is.
 */
#if PG_VERSION_NUM >= 180000
#define HM_ESTIMATE_PARALLEL_PARAMETERS Relation index, int nkeys, int norderbys
#define hm_parallel_offset(parallel) ((parallel)->ps_offset_am)
#elif PG_VERSION_NUM >= 170000
#define HM_ESTIMATE_PARALLEL_PARAMETERS int nkeys, int norderbys
#define hm_parallel_offset(parallel) ((parallel)->ps_offset)
#else
#define HM_ESTIMATE_PARALLEL_PARAMETERS void
#define hm_parallel_offset(parallel) ((parallel)->ps_offset)
#endif

/* 17 lets extensions name their wait events. */
#if PG_VERSION_NUM >= 170000
#define hm_wait_event(name) WaitEventExtensionNew(name)
#else
#define hm_wait_event(name) PG_WAIT_EXTENSION
#endif

/*
 * How many of an index's pages, and of an array's elements, an index scan with that array is
 * charged for: since 17 for no more than a third of the pages (btcostestimate()).
 */
#if PG_VERSION_NUM >= 170000
#define hm_array_scan_pages(pages) ceil(0.3333333 * (pages))
#define hm_array_scan_keys(keys, pages) Min(keys, hm_array_scan_pages(pages))
#else
#define hm_array_scan_pages(pages) ((double) (pages))
#define hm_array_scan_keys(keys, pages) (keys)
#endif

/*
 * 18 has a variable vacuum_truncate, for tables that do not set the option.  In 19 the option knows
 * itself whether it is set.
 */
#if PG_VERSION_NUM >= 190000
#define hm_vacuum_truncates(options) \
	((options) != NULL && (options)->vacuum_truncate != PG_TERNARY_UNSET ? \
		 (options)->vacuum_truncate == PG_TERNARY_TRUE : \
		 vacuum_truncate)
#elif PG_VERSION_NUM >= 180000
#define hm_vacuum_truncates(options) \
	((options) != NULL && (options)->vacuum_truncate_set ? (options)->vacuum_truncate : \
														   vacuum_truncate)
#else
#define hm_vacuum_truncates(options) ((options) == NULL || (options)->vacuum_truncate)
#endif

/*
 * What a date is as a timestamp, where it may be out of range.  hm_overflow() then is less or more
 * than
 * 0.  19 says that by an ErrorSaveContext and an infinite result.
 */
#if PG_VERSION_NUM >= 190000
#include "nodes/miscnodes.h"
typedef ErrorSaveContext HmConversion;
#define HM_CONVERSION \
	{ \
		T_ErrorSaveContext \
	}
#define hm_convert(function, value, conversion) function##_safe(value, (Node *) (conversion))
#define hm_overflow(conversion, result) \
	(!(conversion).error_occurred ? 0 : TIMESTAMP_IS_NOEND(result) ? 1 : -1)
#else
typedef int HmConversion;
#define HM_CONVERSION 0
#define hm_convert(function, value, conversion) function##_opt_overflow(value, conversion)
#define hm_overflow(conversion, result) (conversion)
#endif

/* 19 is told of an array's elements when an iteration begins. */
#if PG_VERSION_NUM >= 190000
#define hm_array_iter_setup(iterator, array, length, by_value, align) \
	array_iter_setup(iterator, array, length, by_value, align)
#define hm_array_iter_next(iterator, is_null, i, length, by_value, align) \
	array_iter_next(iterator, is_null, i)
#else
#define hm_array_iter_setup(iterator, array, length, by_value, align) \
	array_iter_setup(iterator, array)
#define hm_array_iter_next(iterator, is_null, i, length, by_value, align) \
	array_iter_next(iterator, is_null, i, length, by_value, align)
#endif

/* 19 gave scans of tables, and slots for their rows, flags.  We set none. */
#if PG_VERSION_NUM >= 190000
#define hm_beginscan_parallel(heap, scan) table_beginscan_parallel(heap, scan, SO_NONE)
#define hm_index_fetch_begin(heap) table_index_fetch_begin(heap, SO_NONE)
#define hm_init_scan_slot(estate, node, desc, callbacks) \
	ExecInitScanTupleSlot(estate, node, desc, callbacks, 0)
#else
#define hm_beginscan_parallel(heap, scan) table_beginscan_parallel(heap, scan)
#define hm_index_fetch_begin(heap) table_index_fetch_begin(heap)
#define hm_init_scan_slot(estate, node, desc, callbacks) \
	ExecInitScanTupleSlot(estate, node, desc, callbacks)
#endif

/*
 * 19 has readers set bits of the visibility map, if their query does not write to the table.
 * Nothing of ours relies on that, so they do not.  It pins the map's page nevertheless.
 */
#if PG_VERSION_NUM >= 190000
#define hm_prune_page(heap, buffer) \
	do \
	{ \
		Buffer map_buffer = InvalidBuffer; \
\
		heap_page_prune_opt(heap, buffer, &map_buffer, false); \
		if (BufferIsValid(map_buffer)) \
			ReleaseBuffer(map_buffer); \
	} while (0)
#else
#define hm_prune_page(heap, buffer) heap_page_prune_opt(heap, buffer)
#endif

/* 19 renamed what sets a page's checksum. */
#if PG_VERSION_NUM >= 190000
#define hm_set_checksum(page, block) PageSetChecksum(page, block)
#else
#define hm_set_checksum(page, block) PageSetChecksumInplace(page, block)
#endif

/* 19 wants to be told when a tuple descriptor is complete. */
#if PG_VERSION_NUM >= 190000
#define hm_finalize_desc(desc) TupleDescFinalize(desc)
#else
#define hm_finalize_desc(desc) ((void) (desc))
#endif

/* 19 hands EXPLAIN's state to the planner. */
#if PG_VERSION_NUM >= 190000
#define HM_PLANNER_PARAMETERS \
	Query *parse, const char *query_string, int options, ParamListInfo params, ExplainState *es
#define HM_PLANNER_ARGUMENTS parse, query_string, options, params, es
#else
#define HM_PLANNER_PARAMETERS \
	Query *parse, const char *query_string, int options, ParamListInfo params
#define HM_PLANNER_ARGUMENTS parse, query_string, options, params
#endif

/* 19 renamed the counters of plan nodes. */
#if PG_VERSION_NUM >= 190000
#include "executor/instrument.h"
typedef NodeInstrumentation HmNodeInstrumentation;
typedef WorkerNodeInstrumentation HmWorkerInstrumentation;
#else
#include "executor/instrument.h"
typedef Instrumentation HmNodeInstrumentation;
typedef WorkerInstrumentation HmWorkerInstrumentation;
#endif

/* 19 made a buffer's state 64 bits wide. */
#if PG_VERSION_NUM >= 190000
#define hm_buffer_state(desc) pg_atomic_read_u64(&(desc)->state)
#else
#define hm_buffer_state(desc) pg_atomic_read_u32(&(desc)->state)
#endif

/*
 * For a semijoin whose outer rows are to be made distinct, 19 passes a relation that already is;
 * before, the path had to be made.  And it renamed the path that drops equal neighbours.
 */
#if PG_VERSION_NUM >= 190000
typedef UniquePath HmUniquePath;
#define hm_is_unique_path(path) IsA(path, UniquePath)
#define hm_create_unique_path(root, rel, path, info) (path)
#define hm_rel_before_unique(root, rel) \
	(bms_membership((rel)->relids) == BMS_SINGLETON ? \
		 find_base_rel(root, bms_singleton_member((rel)->relids)) : \
		 find_join_rel(root, (rel)->relids))
#else
typedef UpperUniquePath HmUniquePath;
#define hm_is_unique_path(path) IsA(path, UpperUniquePath)
#define hm_create_unique_path(root, rel, path, info) \
	((Path *) create_unique_path(root, rel, path, info))
#define hm_rel_before_unique(root, rel) (rel)
#endif

/* 19 passes partial sums of int8 between processes in 128 bits; before, as decimal digits. */
#if PG_VERSION_NUM >= 190000
#define HM_BINARY_SUMS
#endif

/*
 * 15 and 16 do not call the hook for paths of joins that have a one-time filter, because only 17
 * puts these above a custom scan.
 */
#if PG_VERSION_NUM < 170000
#define HM_NO_HOOK_FOR_ONE_TIME_FILTERS
#endif

/*
 * 19 aggregates eagerly: some relations of a join stand for groups of rows.  They are children of
 * nothing, and have no indexes.
 */
#if PG_VERSION_NUM >= 190000
#define hm_is_grouped(rel) IS_GROUPED_REL(rel)
#else
#define hm_is_grouped(rel) false
#endif

/*
 * The hook that is called when the planner has described a relation; 19 has another one for that.
 */
#if PG_VERSION_NUM >= 190000
#include "optimizer/pathnode.h"
#define hm_relation_hook build_simple_rel_hook
typedef build_simple_rel_hook_type hm_relation_hook_type;
#define HM_RELATION_HOOK_PARAMETERS PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define HM_RELATION_HOOK_ARGUMENTS root, rel, rte
#else
#include "optimizer/plancat.h"
#define hm_relation_hook get_relation_info_hook
typedef get_relation_info_hook_type hm_relation_hook_type;
#define HM_RELATION_HOOK_PARAMETERS PlannerInfo *root, Oid relation, bool is_parent, RelOptInfo *rel
#define HM_RELATION_HOOK_ARGUMENTS root, relation, is_parent, rel
#endif

/* 16 returns a set of columns from find_nonnullable_vars(), 15 a list of Vars. */
#if PG_VERSION_NUM >= 160000
#include "access/sysattr.h"
#include "nodes/multibitmapset.h"
#define hm_is_nonnullable(columns, relation, attribute) \
	mbms_is_member(relation, (attribute) -FirstLowInvalidHeapAttributeNumber, columns)
#else
#include "nodes/primnodes.h"
static inline bool
hm_is_nonnullable(List *columns, Index relation, AttrNumber attribute)
{
	ListCell *cell;

	foreach (cell, columns)
	{
		Var *column = lfirst_node(Var, cell);

		if (column->varno == relation && column->varattno == attribute)
			return true;
	}
	return false;
}
#endif

/*
 * 16 took what a query's privileges are checked by out of its range table, and marks columns
 * with the outer joins that may make them NULL.
 */
#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"
#include "rewrite/rewriteManip.h"
typedef RTEPermissionInfo HmPermissions;
#define hm_permissions(query, rte) getRTEPermissionInfo((query)->rteperminfos, rte)
#define hm_add_range_table(query, from) \
	CombineRangeTables(&(query)->rtable, &(query)->rteperminfos, (from)->rtable, \
					   (from)->rteperminfos)
#define hm_keep_range_table_entry(query, table) \
	do \
	{ \
		RangeTblEntry *kept_ = list_nth((query)->rtable, (table) -1); \
		(query)->rtable = list_make1(kept_); \
		if (kept_->perminfoindex > 0) \
			(query)->rteperminfos = \
				list_make1(list_nth((query)->rteperminfos, (int) kept_->perminfoindex - 1)); \
		kept_->perminfoindex = Min(kept_->perminfoindex, 1); \
	} while (0)
#define hm_nulled_by_join(expr, table, join) \
	add_nulling_relids(expr, bms_make_singleton(table), bms_make_singleton(join))
#else
#include "nodes/parsenodes.h"
typedef RangeTblEntry HmPermissions;
#define hm_permissions(query, rte) (rte)
#define hm_add_range_table(query, from) \
	((query)->rtable = list_concat((query)->rtable, (from)->rtable))
#define hm_keep_range_table_entry(query, table) \
	((query)->rtable = list_make1(list_nth((query)->rtable, (table) -1)))
#define hm_nulled_by_join(expr, table, join) (expr)
#endif

/*
 * 18 has the expressions of GROUP BY in the range table, and columns that are computed when read;
 * and the direction of an order in its clause.
 */
#if PG_VERSION_NUM >= 180000
#define hm_set_reverse_sort(clause, reverse) ((clause)->reverse_sort = (reverse))
#define hm_group_exprs(rte) ((rte)->rtekind == RTE_GROUP ? &(rte)->groupexprs : NULL)
#define hm_has_virtual_columns(table) \
	(RelationGetDescr(table)->constr != NULL && \
	 RelationGetDescr(table)->constr->has_generated_virtual)
#else
#define hm_group_exprs(rte) ((List **) ((void) (rte), NULL))
#define hm_has_virtual_columns(table) false
#define hm_set_reverse_sort(clause, reverse) ((void) (clause), (void) (reverse))
#endif

/* 18 renamed what verifies a page that was read, and has it tell whether the checksum was wrong. */
#if PG_VERSION_NUM >= 180000
#define hm_page_is_verified(page, block) PageIsVerified(page, block, 0, &(bool){false})
#else
#define hm_page_is_verified(page, block) PageIsVerifiedExtended(page, block, 0)
#endif

/* 16 renamed what reads the state of a backend. */
#if PG_VERSION_NUM >= 160000
#define hm_backend_status(i) pgstat_get_local_beentry_by_index(i)
#else
#define hm_backend_status(i) pgstat_fetch_stat_local_beentry(i)
#endif

#endif /* HARMONIA_COMPAT_H */
