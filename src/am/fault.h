/*
 * fault.h
 *		Fault points: places where a test can make a backend fail or stop.
 *
 * For developers.  They exist only in a library built with FAULT_POINTS=1, in
 * which the parameter harmonia.fault, 'point:action', 'point:action:skip' or
 * 'point:action:skip:times', chooses one point of the session and what happens there,
 * once or so many times, after it has been passed "skip" times:
 *
 *	error	an ERROR; in a critical section the server makes a PANIC of it
 *	panic	a PANIC, with all WAL up to there on disk
 *	wait	waits until no other session holds the exclusive advisory lock
 *			hashtext('point'); in a critical section an error
 *
 * harmonia.fault_points shows the names of all points.
 */
#ifndef HARMONIA_FAULT_H
#define HARMONIA_FAULT_H

#ifdef HM_FAULT_POINTS

/*
 * All points.  "changed" and "logged" are in a critical section or hold buffer
 * locks, around a WAL record.
 */
#define HM_FAULT_LIST(POINT) \
	/* entries of a leaf */ \
	POINT(insert_leaf_known) \
	POINT(insert_leaf_found) \
	POINT(insert_changed) \
	POINT(insert_logged) \
	POINT(insert_merging) \
	POINT(insert_merged) \
	POINT(insert_leaf_full) \
	/* splits */ \
	POINT(split_planned) \
	POINT(split_blank_changed) \
	POINT(split_blank_logged) \
	POINT(split_in_order_changed) \
	POINT(split_in_order_logged) \
	POINT(split_shadow_changed) \
	POINT(split_shadow_logged) \
	/* dead entries */ \
	POINT(dead_found) \
	POINT(dead_conflict_logged) \
	POINT(remove_changed) \
	POINT(remove_logged) \
	/* hints */ \
	POINT(hint_begun) \
	POINT(hint_leaf_read) \
	POINT(hint_rows_asked) \
	POINT(hint_noted) \
	/* spare blocks */ \
	POINT(spare_allocated) \
	POINT(spare_changed) \
	POINT(spare_logged) \
	/* new segments */ \
	POINT(last_segment_allocated) \
	POINT(first_segment_written) \
	POINT(first_segment_changed) \
	POINT(first_segment_logged) \
	POINT(append_written) \
	POINT(append_changed) \
	POINT(append_logged) \
	/* movements */ \
	POINT(move_locked) \
	POINT(move_read) \
	POINT(move_allocated) \
	POINT(move_written) \
	POINT(move_copied) \
	POINT(move_following) \
	POINT(move_leaf_checked) \
	POINT(move_followed) \
	POINT(move_flagging) \
	POINT(move_flagged) \
	POINT(move_complete) \
	POINT(move_flip_marked) \
	POINT(move_flip_changed) \
	POINT(move_flip_logged) \
	POINT(move_flipped) \
	POINT(move_freed) \
	POINT(move_flag_removed) \
	/* harmonia_reorganize() */ \
	POINT(candidate_read) \
	/* pages of a segment */ \
	POINT(segment_page_begun) \
	POINT(segment_page_changed) \
	POINT(segment_page_blank) \
	POINT(segment_page_logged) \
	/* the directory */ \
	POINT(directory_root_searched) \
	POINT(directory_allocated) \
	POINT(directory_deepen_changed) \
	POINT(directory_deepen_logged) \
	POINT(directory_split_changed) \
	POINT(directory_split_logged) \
	/* extents and truncation */ \
	POINT(extent_take_changed) \
	POINT(extent_take_logged) \
	POINT(extent_extend_begun) \
	POINT(extent_extended) \
	POINT(extent_extend_logged) \
	POINT(extent_free_changed) \
	POINT(extent_free_logged) \
	POINT(sweep_entered) \
	POINT(sweep_changed) \
	POINT(sweep_logged) \
	POINT(truncate_locked) \
	POINT(truncate_changed) \
	POINT(truncate_logged) \
	POINT(truncate_done) \
	POINT(truncate_between) \
	/* builds */ \
	POINT(build_begun) \
	POINT(build_pages_extended) \
	POINT(build_segment_written) \
	POINT(build_pages_written) \
	POINT(build_metapage_changed) \
	POINT(build_metapage_logged) \
	POINT(build_done) \
	/* VACUUM */ \
	POINT(vacuum_leaf_cleaned) \
	POINT(vacuum_walked) \
	POINT(vacuum_others_drained) \
	POINT(vacuum_drained_logged) \
	POINT(vacuum_reorganized) \
	POINT(vacuum_compacted) \
	/* batches of insertions */ \
	POINT(batch_begun) \
	POINT(batch_leaf_done) \
	POINT(batch_inserted) \
	POINT(batch_emptied) \
	/* scans */ \
	POINT(scan_descended) \
	POINT(scan_leaf_read) \
	POINT(scan_leaf_left) \
	/* the visibility gate */ \
	POINT(visibility_gate_entered) \
	/* lookups */ \
	POINT(shared_rows_read) \
	POINT(shared_rows_dividing) \
	POINT(shared_rows_copying) \
	POINT(lookup_planned) \
	POINT(lookup_going_right) \
	POINT(lookup_prepared) \
	POINT(lookup_read) \
	POINT(lookup_portion) \
	/* re-syncs and searches on a device */ \
	POINT(sync_granted) \
	POINT(sync_begun) \
	POINT(sync_listed) \
	POINT(sync_page_pinned) \
	POINT(sync_copied) \
	POINT(remote_synced) \
	POINT(remote_map_read) \
	POINT(remote_searched)

#define HM_FAULT_NUMBER(name) HM_FAULT_##name,

typedef enum HmFaultPoint
{
	HM_FAULT_LIST(HM_FAULT_NUMBER) HM_FAULT_COUNT
} HmFaultPoint;

extern int hm_fault_chosen;

extern void hm_fault_reached(HmFaultPoint point);

/* Define the parameters; call once, from _PG_init. */
extern void hm_fault_init(void);

#define HM_FAULT(name) \
	do \
	{ \
		if (hm_fault_chosen == (int) HM_FAULT_##name) \
			hm_fault_reached(HM_FAULT_##name); \
	} while (0)

#else

#define HM_FAULT(name) ((void) 0)
#define hm_fault_init() ((void) 0)

#endif /* HM_FAULT_POINTS */

#endif /* HARMONIA_FAULT_H */
