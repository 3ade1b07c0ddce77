/*
 * settings.c
 *		What all files of planning and execution can ask: the GUCs of the custom scan nodes, and
 *		whether a cursor's query is being planned.
 */
#include "postgres.h"

#include "utils/guc.h"

#include "exec/planner.h"

#define MIN_BATCH_SIZE 1000
#define MAX_BATCH_SIZE 100000000

bool hm_enable_lookup_scan = true;
bool hm_enable_lookup_join = true;
bool hm_enable_lookup_aggregate = true;
bool hm_enable_btree_lookup = true;
bool hm_enable_subselect_join = true;
int hm_batch_size = 16000000;
bool hm_is_for_cursor = false;

void
hm_settings_init(void)
{
	DefineCustomBoolVariable(
		"harmonia.enable_lookup_scan", "Enables the planner's use of lookup scans.", NULL,
		&hm_enable_lookup_scan, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"harmonia.enable_lookup_join", "Enables the planner's use of lookup joins.", NULL,
		&hm_enable_lookup_join, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"harmonia.enable_lookup_aggregate", "Enables the planner's use of lookup aggregates.", NULL,
		&hm_enable_lookup_aggregate, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"harmonia.enable_btree_lookup", "Enables the planner's use of lookups in btree indexes.",
		NULL, &hm_enable_btree_lookup, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("harmonia.enable_subselect_join",
							 "Enables the planner's use of joins for scalar sub-selects.", NULL,
							 &hm_enable_subselect_join, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
							 NULL);
	DefineCustomIntVariable("harmonia.batch_size",
							"Sets the largest number of keys that are looked up in one call.",
							"work_mem may allow less.", &hm_batch_size, 16000000, MIN_BATCH_SIZE,
							MAX_BATCH_SIZE, PGC_USERSET, 0, NULL, NULL, NULL);
}
