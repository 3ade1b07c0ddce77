/*
 * inspect.h
 *		What verifies an index, and what shows it, for one width of keys.
 */
#ifndef HARMONIA_AM_INSPECT_H
#define HARMONIA_AM_INSPECT_H

#include "fmgr.h"

#include "am/store/store.h"

/* Verify an index.  The caller has locked it and its table (checkindex.c). */
extern void hm_check_index(Relation index, Relation heap, bool heapallindexed);

/*
 * The functions of these names, from harmonia_segments() on (inspectkeys.c).  index is what their
 * first argument names; it is closed here.
 */
extern Datum hm_show_segments(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_nodes(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_leaves(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_leaf_items(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_page(FunctionCallInfo fcinfo, Relation index);
extern Datum hm_show_index_info(FunctionCallInfo fcinfo, Relation index);

/* Also for keys of 128 bits; see HM_FOR_INDEX(). */
#if HM_KEYS == 64
HM_BOTH_WIDTHS(hm_check_index);
HM_BOTH_WIDTHS(hm_show_segments);
HM_BOTH_WIDTHS(hm_show_nodes);
HM_BOTH_WIDTHS(hm_show_leaves);
HM_BOTH_WIDTHS(hm_show_leaf_items);
HM_BOTH_WIDTHS(hm_show_page);
HM_BOTH_WIDTHS(hm_show_index_info);
#endif

#endif /* HARMONIA_AM_INSPECT_H */
