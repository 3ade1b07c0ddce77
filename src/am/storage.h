/*
 * storage.h
 *		The storage code of each width of keys, as the functions see it that are for all widths.
 *
 * No type of keys is named here: entries are bytes.  storage.c makes the table, once for each width.
 */
#ifndef HARMONIA_STORAGE_H
#define HARMONIA_STORAGE_H

#include "access/relscan.h"
#include "fmgr.h"

#include "am/internal.h"

typedef struct HmStorage
{
	Size		entry_size;

	/* Access method routines; the contracts are those of internal.h */
	IndexBuildResult *(*build) (Relation heap, Relation index, IndexInfo *info);
	bool		(*insert) (Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
						   IndexUniqueCheck check, bool unchanged, IndexInfo *info);
	IndexBulkDeleteResult *(*bulk_delete) (IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
										   IndexBulkDeleteCallback callback, void *state);
	IndexScanDesc (*begin_scan) (Relation index, int nkeys, int norderbys);
	void		(*rescan) (IndexScanDesc scan, ScanKey keys, int nkeys);
	bool		(*get_tuple) (IndexScanDesc scan, ScanDirection direction);
	int64		(*get_bitmap) (IndexScanDesc scan, TIDBitmap *bitmap);
	void		(*end_scan) (IndexScanDesc scan);
	void		(*mark_position) (IndexScanDesc scan);
	void		(*restore_position) (IndexScanDesc scan);

	/* hm_give_hints() */
	void		(*hint_rows) (Relation index, Relation heap, HmDeadRow *rows, int n);

	/* Sort n entries, and drop all but one of equal ones.  Returns how many are left. */
	int64		(*sort) (void *entries, int64 n);

	/* hm_insert_sorted(), hm_compact(), hm_segments_list() and hm_segment_keys() */
	void		(*insert_sorted) (Relation index, Relation heap, HmPart part, const void *entries,
								  int64 n, bool unchanged);
	int			(*compact) (Relation index, bool always, HmSize *size);
	HmListedSegment *(*list) (Relation index, int *count, BlockNumber **pages, int *page_count);
	HmKey	   *(*segment_keys) (Relation index, int *count);

	/*
	 * Move every segment for which harmonia_reorganize() does.  Returns the number of movements.  The
	 * caller holds no lock but on the relation.
	 */
	int			(*reorganize) (Relation index);

	/*
	 * Move the next segment that wants it (hm_segment_wants_movement()), from a place in the directory on,
	 * counted in segments.  *place becomes the place after it.  Returns false if there is none.  The caller
	 * holds no buffer lock.
	 */
	bool		(*move_outgrown) (Relation index, int *place);

	/* Verify an index for harmonia_check().  The caller has locked it and its table. */
	void		(*check) (Relation index, Relation heap, bool heapallindexed);

	/* The functions that show an index; index is their first argument, which they close. */
	Datum		(*show_segments) (FunctionCallInfo fcinfo, Relation index);
	Datum		(*show_nodes) (FunctionCallInfo fcinfo, Relation index);
	Datum		(*show_leaves) (FunctionCallInfo fcinfo, Relation index);
	Datum		(*show_leaf_items) (FunctionCallInfo fcinfo, Relation index);
	Datum		(*show_page) (FunctionCallInfo fcinfo, Relation index);
	Datum		(*show_index_info) (FunctionCallInfo fcinfo, Relation index);
} HmStorage;

extern const HmStorage hm_storage;
extern const HmStorage hm_storage_128;

/* The one for keys of a width. */
static inline const HmStorage *
hm_storage_for(HtWidth width)
{
	return width <= HT_WIDTH64 ? &hm_storage : &hm_storage_128;
}

/* The one for an index.  The caller holds no buffer lock. */
static inline const HmStorage *
hm_storage_of(Relation index)
{
	return hm_storage_for(hm_key_width(index));
}

#endif							/* HARMONIA_STORAGE_H */
