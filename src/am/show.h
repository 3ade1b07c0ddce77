/*
 * show.h
 *		What verifies an index, and what shows it, for one width of keys.
 */
#ifndef HARMONIA_SHOW_H
#define HARMONIA_SHOW_H

#include "fmgr.h"

#include "am/internal.h"

/* A key as a decimal number, palloc'd (rows.c). */
extern const char *hm_show_key(HmKey key);

/* Verify an index.  The caller has locked it and its table (checkindex.c). */
extern void hm_check_index(Relation index, Relation heap, bool heapallindexed);

/*
 * The functions of these names, from harmonia_segments() on (inspectkeys.c).  index is what their first
 * argument names; it is closed here.
 */
extern Datum hm_show_segments(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_nodes(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_leaves(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_leaf_items(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_page(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_index_info(FunctionCallInfo fcinfo, Relation index);

#endif							/* HARMONIA_SHOW_H */
