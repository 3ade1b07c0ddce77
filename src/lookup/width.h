/*
 * width.h
 *		The names of this folder that exist once for each width of keys.
 *
 * am/width.h explains how files are compiled for a width.
 */
#ifndef HARMONIA_LOOKUP_WIDTH_H
#define HARMONIA_LOOKUP_WIDTH_H

#include "am/width.h"

#if HM_KEYS != 64
#define hm_route_make HT_KEYED(hm_route_make)
#define hm_order_keys HT_KEYED(hm_order_keys)
#define hm_walk_look_ahead HT_KEYED(hm_walk_look_ahead)
#define hm_walk_answer HT_KEYED(hm_walk_answer)
#define hm_walk_methods HT_KEYED(hm_walk_methods)
#define hm_btree_keys_init HT_KEYED(hm_btree_keys_init)
#define hm_btree_key_slowly HT_KEYED(hm_btree_key_slowly)
#define hm_btree_first HT_KEYED(hm_btree_first)
#define hm_btree_route HT_KEYED(hm_btree_route)
#define hm_btree_begin_until HT_KEYED(hm_btree_begin_until)
#define hm_btree_values_init HT_KEYED(hm_btree_values_init)
#define hm_btree_values_end HT_KEYED(hm_btree_values_end)
#define hm_btree_values_read HT_KEYED(hm_btree_values_read)
#define hm_btree_values_sort HT_KEYED(hm_btree_values_sort)
#define hm_btree_step_right HT_KEYED(hm_btree_step_right)
#define hm_btree_go_right HT_KEYED(hm_btree_go_right)
#define hm_btree_read HT_KEYED(hm_btree_read)
#define hm_btree_bounds HT_KEYED(hm_btree_bounds)
#define hm_btree_ends HT_KEYED(hm_btree_ends)
#define hm_btree_give_hints HT_KEYED(hm_btree_give_hints)
#define hm_btree_methods HT_KEYED(hm_btree_methods)
#endif

#endif /* HARMONIA_LOOKUP_WIDTH_H */
