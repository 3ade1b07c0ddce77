/*
 * width.h
 *		The width of keys that a file is compiled for.
 *
 * Code that handles keys is written once, and compiled once for each width: for keys of 64 bits
 * (and 32, which are 64 in memory), and with HM_KEYS defined as 128.  widths.mk lists these files.
 * In such code HT_KEY is the type of a key, a number (tree/key_macros.h).  All other names are the
 * plain ones: where HM_KEYS is not 64, the list below appends the width to each name of which there
 * is one for each width.  So a file sees one width of what am.h, format.h, reader.h and the headers
 * of the rooms offer.
 *
 * A function that other files call and that depends on the width has to be in this list; without
 * it, linking fails.  Types and static inline functions have the plain names for both widths, but
 * for those of src/tree.  Folders that build on this one have lists of their own.
 */
#ifndef HARMONIA_WIDTH_H
#define HARMONIA_WIDTH_H

#include "tree/wide.h"

#ifndef HM_KEYS
#define HM_KEYS 64
#endif

/* The macros stay defined for the rest of the file. */
#define HT_KEYS HM_KEYS
#include "tree/key_macros.h"

/*
 * Declares the function for keys of 128 bits of which there is one for each width, for callers that
 * serve all widths; and chooses between the two by a width, or by that of an index's keys.
 */
#define HM_BOTH_WIDTHS(function) extern __typeof__(function) function##_128
#define HM_FOR_WIDTH(width, function) ((width) <= HT_WIDTH64 ? function : function##_128)
#define HM_FOR_INDEX(index, function) HM_FOR_WIDTH(hm_key_width(index), function)

#if HM_KEYS != 64

/* src/tree */
#define HtEntry HT_ENTRY
#define HtLeafShape HT_SHAPE
#define HtProbe HT_PROBE
#define HtPsa HT_PSA
#define HtSearch HT_SEARCH
#define ht_key_max HT_KEYED(ht_key_max)
#define ht_entry_cmp HT_KEYED(ht_entry_cmp)
#define ht_leaf_shape HT_KEYED(ht_leaf_shape)
#define ht_leaf_blocks HT_KEYED(ht_leaf_blocks)
#define ht_leaf_slots HT_KEYED(ht_leaf_slots)
#define ht_leaf_capacity HT_KEYED(ht_leaf_capacity)
#define ht_leaf_blocks_at HT_KEYED(ht_leaf_blocks_at)
#define ht_class_max HT_KEYED(ht_class_max)
#define ht_class_for HT_KEYED(ht_class_for)
#define ht_leaf_fits_key HT_KEYED(ht_leaf_fits_key)
#define ht_leaf_fits HT_KEYED(ht_leaf_fits)
#define ht_leaf_shape_of HT_KEYED(ht_leaf_shape_of)
#define ht_leaf_init HT_KEYED(ht_leaf_init)
#define ht_leaf_fill HT_KEYED(ht_leaf_fill)
#define ht_leaf_count HT_KEYED(ht_leaf_count)
#define ht_leaf_block_count HT_KEYED(ht_leaf_block_count)
#define ht_leaf_entry HT_KEYED(ht_leaf_entry)
#define ht_leaf_read HT_KEYED(ht_leaf_read)
#define ht_leaf_read_range HT_KEYED(ht_leaf_read_range)
#define ht_leaf_read_live HT_KEYED(ht_leaf_read_live)
#define ht_leaf_read_some HT_KEYED(ht_leaf_read_some)
#define ht_leaf_insert HT_KEYED(ht_leaf_insert)
#define ht_leaf_add HT_KEYED(ht_leaf_add)
#define ht_leaf_remove HT_KEYED(ht_leaf_remove)
#define ht_leaf_change_ranges HT_KEYED(ht_leaf_change_ranges)
#define ht_leaf_change_lines HT_KEYED(ht_leaf_change_lines)
#define ht_leaf_hole HT_KEYED(ht_leaf_hole)
#define ht_leaf_slot HT_KEYED(ht_leaf_slot)
#define ht_leaf_has_hints HT_KEYED(ht_leaf_has_hints)
#define ht_leaf_hints HT_KEYED(ht_leaf_hints)
#define ht_leaf_set_hint HT_KEYED(ht_leaf_set_hint)
#define ht_leaf_clear_hints HT_KEYED(ht_leaf_clear_hints)
#define ht_leaf_check HT_KEYED(ht_leaf_check)
#define ht_leaf_read_checked HT_KEYED(ht_leaf_read_checked)
#define ht_node_set HT_KEYED(ht_node_set)
#define ht_node_get HT_KEYED(ht_node_get)
#define ht_node_count_le HT_KEYED(ht_node_count_le)
#define ht_node_count_lt HT_KEYED(ht_node_count_lt)
#define ht_sort_entries HT_KEYED(ht_sort_entries)
#define ht_psa_start HT_KEYED(ht_psa_start)
#define ht_psa_more HT_KEYED(ht_psa_more)
#define ht_search HT_KEYED(ht_search)

/* am.h */
#define hm_segment_enter HT_KEYED(hm_segment_enter)

/* format.h */
#define hm_directory_check HT_KEYED(hm_directory_check)
#define hm_auxiliary_check HT_KEYED(hm_auxiliary_check)
#define hm_directory_read HT_KEYED(hm_directory_read)
#define hm_auxiliary_child HT_KEYED(hm_auxiliary_child)

/* reader.h */
#define hm_reader_begin HT_KEYED(hm_reader_begin)
#define hm_reader_end HT_KEYED(hm_reader_end)
#define hm_reader_node HT_KEYED(hm_reader_node)
#define hm_reader_auxiliary HT_KEYED(hm_reader_auxiliary)
#define hm_reader_search HT_KEYED(hm_reader_search)
#define hm_reader_bottom HT_KEYED(hm_reader_bottom)
#define hm_reader_child HT_KEYED(hm_reader_child)
#define hm_reader_next_leaf HT_KEYED(hm_reader_next_leaf)

/* The rooms */
#define hm_directory_search HT_KEYED(hm_directory_search)
#define hm_directory_begin HT_KEYED(hm_directory_begin)
#define hm_directory_has_part HT_KEYED(hm_directory_has_part)
#define hm_directory_leads_to HT_KEYED(hm_directory_leads_to)
#define hm_directory_has_next HT_KEYED(hm_directory_has_next)
#define hm_directory_could_join HT_KEYED(hm_directory_could_join)
#define hm_directory_apply HT_KEYED(hm_directory_apply)
#define hm_directory_end HT_KEYED(hm_directory_end)
#define hm_directory_list HT_KEYED(hm_directory_list)
#define hm_directory_keys HT_KEYED(hm_directory_keys)
#define hm_leaf_fill_count HT_KEYED(hm_leaf_fill_count)
#define hm_leaf_problem HT_KEYED(hm_leaf_problem)
#define hm_leaf_read_checked HT_KEYED(hm_leaf_read_checked)
#define hm_leaf_fill HT_KEYED(hm_leaf_fill)
#define hm_tid_bytes HT_KEYED(hm_tid_bytes)
#define hm_key_step HT_KEYED(hm_key_step)
#define hm_leaf_shape HT_KEYED(hm_leaf_shape)
#define hm_is_single_key HT_KEYED(hm_is_single_key)
#define hm_plan_leaves HT_KEYED(hm_plan_leaves)
#define hm_segment_image HT_KEYED(hm_segment_image)
#define hm_segment_entry HT_KEYED(hm_segment_entry)
#define hm_auxiliary_set HT_KEYED(hm_auxiliary_set)
#define hm_segment_descend HT_KEYED(hm_segment_descend)
#define hm_segment_leaf HT_KEYED(hm_segment_leaf)
#define hm_insert_sorted HT_KEYED(hm_insert_sorted)
#define hm_insert_queued HT_KEYED(hm_insert_queued)
#define hm_sort_queued HT_KEYED(hm_sort_queued)
#define hm_insert_row HT_KEYED(hm_insert_row)
#define hm_segments_move HT_KEYED(hm_segments_move)
#define hm_segment_enter_to_write HT_KEYED(hm_segment_enter_to_write)
#define hm_segment_uses_init HT_KEYED(hm_segment_uses_init)
#define hm_segment_uses_note HT_KEYED(hm_segment_uses_note)
#define hm_segment_use_add HT_KEYED(hm_segment_use_add)
#define hm_reorganize HT_KEYED(hm_reorganize)
#define hm_reorganize_all HT_KEYED(hm_reorganize_all)
#define hm_move_outgrown HT_KEYED(hm_move_outgrown)
#define hm_segment_wants_movement HT_KEYED(hm_segment_wants_movement)
#define hm_compact HT_KEYED(hm_compact)
#define hm_build_sort HT_KEYED(hm_build_sort)
#define hm_build_sort_count HT_KEYED(hm_build_sort_count)
#define hm_build_sort_read HT_KEYED(hm_build_sort_read)
#define hm_build_sort_end HT_KEYED(hm_build_sort_end)
#define hm_build_index HT_KEYED(hm_build_index)
#define hm_delete_dead HT_KEYED(hm_delete_dead)
#define hm_scan_begin HT_KEYED(hm_scan_begin)
#define hm_scan_restart HT_KEYED(hm_scan_restart)
#define hm_sample_first_keys HT_KEYED(hm_sample_first_keys)
#define hm_scan_next HT_KEYED(hm_scan_next)
#define hm_scan_bitmap HT_KEYED(hm_scan_bitmap)
#define hm_scan_end HT_KEYED(hm_scan_end)
#define hm_scan_mark HT_KEYED(hm_scan_mark)
#define hm_scan_restore HT_KEYED(hm_scan_restore)
#define hm_build_worker_main HT_KEYED(hm_build_worker_main)

/* insert.h */
#define hm_leaf_release HT_KEYED(hm_leaf_release)
#define hm_leaf_lock_known HT_KEYED(hm_leaf_lock_known)
#define hm_lock_soon HT_KEYED(hm_lock_soon)
#define hm_leaf_lock HT_KEYED(hm_leaf_lock)
#define hm_leaf_lock_header HT_KEYED(hm_leaf_lock_header)
#define hm_entries_below HT_KEYED(hm_entries_below)
#define hm_begins_leaf HT_KEYED(hm_begins_leaf)
#define hm_leaf_greatest HT_KEYED(hm_leaf_greatest)
#define hm_begun_bound HT_KEYED(hm_begun_bound)
#define hm_leaf_has_room HT_KEYED(hm_leaf_has_room)
#define hm_entries_for_leaf HT_KEYED(hm_entries_for_leaf)
#define hm_leaf_reach HT_KEYED(hm_leaf_reach)
#define hm_merge_entries HT_KEYED(hm_merge_entries)
#define hm_rewrite_leaf HT_KEYED(hm_rewrite_leaf)
#define hm_insert_if_room HT_KEYED(hm_insert_if_room)
#define hm_insert_into_leaf HT_KEYED(hm_insert_into_leaf)
#define hm_add_to_leaf HT_KEYED(hm_add_to_leaf)
#define hm_make_room HT_KEYED(hm_make_room)
#define hm_flag_moving HT_KEYED(hm_flag_moving)
#define hm_plan_split HT_KEYED(hm_plan_split)
#define hm_split HT_KEYED(hm_split)
#define hm_insert_under_header HT_KEYED(hm_insert_under_header)
#define hm_movement_urgency HT_KEYED(hm_movement_urgency)
#define hm_make_room_at HT_KEYED(hm_make_room_at)
#define hm_bound_below HT_KEYED(hm_bound_below)
#define hm_choose_cut HT_KEYED(hm_choose_cut)
#define hm_create_first_segment HT_KEYED(hm_create_first_segment)
#define hm_append_segment HT_KEYED(hm_append_segment)

/* write.h, movement.h, buildsort.h */
#define hm_leaf_remove HT_KEYED(hm_leaf_remove)
#define hm_leaf_hint HT_KEYED(hm_leaf_hint)
#define hm_segment_note_hinted HT_KEYED(hm_segment_note_hinted)
#define hm_hint_rows HT_KEYED(hm_hint_rows)
#define hm_remove_dead HT_KEYED(hm_remove_dead)
#define hm_move_plan HT_KEYED(hm_move_plan)
#define hm_move_write HT_KEYED(hm_move_write)
#define hm_move_catch_up HT_KEYED(hm_move_catch_up)
#define hm_move_extents HT_KEYED(hm_move_extents)
#define hm_segment_extents HT_KEYED(hm_segment_extents)
#define hm_spool_init HT_KEYED(hm_spool_init)
#define hm_spool_make_room HT_KEYED(hm_spool_make_room)
#define hm_spool_sort HT_KEYED(hm_spool_sort)
#define hm_spool_add_run HT_KEYED(hm_spool_add_run)
#define hm_spool_needs_merge HT_KEYED(hm_spool_needs_merge)
#define hm_spool_merge HT_KEYED(hm_spool_merge)
#define hm_spool_count HT_KEYED(hm_spool_count)
#define hm_spool_read HT_KEYED(hm_spool_read)
#define hm_spool_write HT_KEYED(hm_spool_write)
#define hm_spool_end HT_KEYED(hm_spool_end)

/* scanstate.h, scan.h */
#define hm_scan_read HT_KEYED(hm_scan_read)
#define hm_scan_give_hints HT_KEYED(hm_scan_give_hints)

/* columnspans.h, scan.h */
#define hm_spans_sort HT_KEYED(hm_spans_sort)

#define hm_values_sort HT_KEYED(hm_values_sort)

/* checkstate.h, segmentcopy.h, inspect.h */
#define hm_show_position HT_KEYED(hm_show_position)
#define hm_check_block HT_KEYED(hm_check_block)
#define hm_check_page HT_KEYED(hm_check_page)
#define hm_check_bound HT_KEYED(hm_check_bound)
#define hm_check_segments HT_KEYED(hm_check_segments)
#define hm_check_inner HT_KEYED(hm_check_inner)
#define hm_check_extents HT_KEYED(hm_check_extents)
#define hm_check_index HT_KEYED(hm_check_index)
#define hm_segment_copy HT_KEYED(hm_segment_copy)
#define hm_segment_copy_node HT_KEYED(hm_segment_copy_node)
#define hm_show_segments HT_KEYED(hm_show_segments)
#define hm_show_nodes HT_KEYED(hm_show_nodes)
#define hm_show_leaves HT_KEYED(hm_show_leaves)
#define hm_show_leaf_items HT_KEYED(hm_show_leaf_items)
#define hm_show_page HT_KEYED(hm_show_page)
#define hm_show_index_info HT_KEYED(hm_show_index_info)

#endif /* HM_KEYS != 64 */

#endif /* HARMONIA_WIDTH_H */
