/*
 * storage.c
 *		The table of the storage code for one width of keys.
 */
#include "postgres.h"

#include "am/dead.h"
#include "am/show.h"
#include "am/storage.h"

const HmStorage hm_storage = {
	.entry_size = sizeof(HtEntry),
	.build = hm_build_index,
	.insert = hm_insert_row,
	.bulk_delete = hm_delete_dead,
	.begin_scan = hm_scan_begin,
	.rescan = hm_scan_restart,
	.get_tuple = hm_scan_next,
	.get_bitmap = hm_scan_bitmap,
	.end_scan = hm_scan_end,
	.mark_position = hm_scan_mark,
	.restore_position = hm_scan_restore,
	.hint_rows = hm_hint_rows,
	.sort = hm_sort_queued,
	.insert_sorted = hm_insert_queued,
	.compact = hm_compact,
	.list = hm_directory_list,
	.segment_keys = hm_directory_keys,
	.reorganize = hm_reorganize_all,
	.move_outgrown = hm_move_outgrown,
	.check = hm_check_index,
	.show_segments = hm_show_segments,
	.show_nodes = hm_show_nodes,
	.show_leaves = hm_show_leaves,
	.show_leaf_items = hm_show_leaf_items,
	.show_page = hm_show_page,
	.show_index_info = hm_show_index_info
};
