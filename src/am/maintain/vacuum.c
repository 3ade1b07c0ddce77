/*
 * vacuum.c
 *		Removing dead entries, and getting lost blocks back.
 *
 * The walk visits the leaves in key order: there, unlike in the order of blocks,
 * splits and movements cannot hide a leaf from it.  Each leaf is changed as a writer
 * changes it.  Then, holding nothing but a pin, VACUUM takes a cleanup lock on it, which
 * drains its pins.  A scan keeps a pin if it has copied TIDs from the page and needs them to
 * stay valid (an index-only scan, a scan with a snapshot that is not MVCC).  VACUUM may
 * free line pointers in the heap only after that pin is gone.
 *
 * Such a pin may also be on a page of a retired segment, the entries of which the walk
 * has met elsewhere.  So if any segment has been retired since all blocks were last
 * drained, the blocks that the walk has not visited are drained too.
 *
 * Batch lookups keep no pins.  Those that trust the visibility map are inside
 * the visibility gate instead, which is drained when the walk is over.
 *
 * At the end, segments that have become sparse are moved.  The pages that this retires
 * need not be drained: they hold no dead entries any more.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "commands/vacuum.h"
#include "miscadmin.h"

#include "am/maintain/maintain.h"
#include "am/fault.h"
#include "compat.h"

typedef struct HmVacuum
{
	IndexVacuumInfo *info;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void *state;
	BlockNumber blocks; /* of the index when the walk began */
	uint8 *visited;     /* a bit for each of these: the walk drained it */
	HmSegmentUses uses; /* segments that the walk has met */
	HmSegmentUse *use;  /* of them, the one with the current leaf */
} HmVacuum;

/*
 * Wait until no other backend has the buffer pinned.  The caller has it pinned, and not
 * locked.
 */
static void
drain_pins(Buffer buffer)
{
	LockBufferForCleanup(buffer);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
}

/*
 * Remove the dead entries of a leaf.  The caller has locked it exclusively, and its
 * header in share mode.
 */
static void
vacuum_leaf(HmVacuum *vacuum, Buffer leaf)
{
	Page page = BufferGetPage(leaf);
	HtEntry entries[HT_LEAF_MAX_ENTRIES];
	bool dead[HT_LEAF_MAX_ENTRIES];
	int count = ht_leaf_read(page, entries);
	int dead_count = 0;

	for (int i = 0; i < count; i++)
	{
		ItemPointerData tid;

		hm_tid_check(vacuum->info->index, entries[i].tid);
		hm_tid_unpack(entries[i].tid, &tid);
		dead[i] = vacuum->callback(&tid, vacuum->state);
		if (dead[i])
			dead_count++;
	}
	vacuum->stats->num_index_tuples += count - dead_count;
	vacuum->stats->tuples_removed += dead_count;
	hm_segment_use_add(vacuum->info->index, vacuum->use, page, count - dead_count);

	if (dead_count > 0)
		hm_leaf_remove(vacuum->info->index, leaf, dead);
}

/* Drain the blocks that the walk has not visited. */
static void
drain_others(HmVacuum *vacuum)
{
	Relation index = vacuum->info->index;
	BlockNumber blocks = RelationGetNumberOfBlocks(index);

	for (BlockNumber block = 0; block < blocks; block++)
	{
		Buffer buffer;

		if (block < vacuum->blocks && (vacuum->visited[block / 8] & (1 << block % 8)))
			continue;
		buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, vacuum->info->strategy);
		drain_pins(buffer);
		ReleaseBuffer(buffer);
		vacuum_delay_point_compat();
	}
}

/* Read how many segments have been retired so far, and how many of these are drained. */
static void
read_retired(Relation index, uint64 *retired, uint64 *drained)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	HmMeta *meta = hm_page_meta(BufferGetPage(buffer));

	*retired = meta->retired;
	*drained = meta->drained;
	UnlockReleaseBuffer(buffer);
}

static void
write_drained(Relation index, uint64 drained)
{
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta *meta = hm_page_meta(GenericXLogRegisterBuffer(state, buffer, 0));

	meta->drained = Max(meta->drained, drained);
	GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);
}

/*
 * Remove the dead entries of the leaf that covers a position, drain its pins, and move
 * the position to the next leaf.  Returns false at the end of the index.
 */
static bool
vacuum_step(HmVacuum *vacuum, HmPosition *position)
{
	Relation index = vacuum->info->index;
	HtWidth width = hm_key_width(index);
	HmPosition entered = *position;
	Buffer header = hm_segment_enter(index, &entered, HM_AT_OR_AFTER, BUFFER_LOCK_SHARE);
	Buffer leaf;
	BlockNumber block;

	if (!BufferIsValid(header))
		return false;
	if (hm_page_segment(BufferGetPage(header))->state & HM_SEGMENT_MOVING)
	{
		/* The segment is being moved: wait as a writer does, then enter it again. */
		UnlockReleaseBuffer(header);
		header = hm_segment_enter_to_write(index, entered, BUFFER_LOCK_SHARE);
		if (!BufferIsValid(header))
			return true;
	}
	vacuum->use = hm_segment_uses_note(&vacuum->uses, header);

	leaf = hm_segment_leaf(index, header, width, entered.entry, false, BUFFER_LOCK_EXCLUSIVE,
						   vacuum->info->strategy);
	vacuum_leaf(vacuum, leaf);
	if (hm_position_cmp(hm_page_high(BufferGetPage(leaf)), entered) <= 0)
		hm_page_no_progress(index, leaf);
	*position = hm_page_high(BufferGetPage(leaf));
	LockBuffer(leaf, BUFFER_LOCK_UNLOCK);
	UnlockReleaseBuffer(header);
	HM_FAULT(vacuum_leaf_cleaned);

	drain_pins(leaf);
	block = BufferGetBlockNumber(leaf);
	if (block < vacuum->blocks)
		vacuum->visited[block / 8] |= 1 << block % 8;
	ReleaseBuffer(leaf);
	vacuum_delay_point_compat();
	return true;
}

IndexBulkDeleteResult *
hm_delete_dead(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			   IndexBulkDeleteCallback callback, void *state)
{
	Relation index = info->index;
	HmPosition position = hm_position(HM_PART_NULLS_LOW, 0, 0);
	HmVacuum vacuum = {info, stats, callback, state};
	double removed_before = stats ? stats->tuples_removed : 0;
	uint64 retired_before, retired, drained;

	if (vacuum.stats == NULL)
		vacuum.stats = palloc0(sizeof(IndexBulkDeleteResult));
	vacuum.stats->num_index_tuples = 0;
	vacuum.stats->estimated_count = false;
	hm_cache(index, true);
	vacuum.blocks = RelationGetNumberOfBlocks(index);
	vacuum.visited = palloc0(vacuum.blocks / 8 + 1);
	hm_segment_uses_init(&vacuum.uses);

	read_retired(index, &retired_before, &drained);
	while (vacuum_step(&vacuum, &position))
		;
	HM_FAULT(vacuum_walked);

	hm_visibility_gate_drain(index);
	read_retired(index, &retired, &drained);
	if (retired != drained)
	{
		/*
		 * A block that the walk has drained may have been freed, then used by a segment
		 * that the walk had yet to reach, and retired with that one.  So if any segment
		 * was retired during the walk, drain all blocks.
		 */
		if (retired != retired_before)
			memset(vacuum.visited, 0, vacuum.blocks / 8 + 1);
		drain_others(&vacuum);
		HM_FAULT(vacuum_others_drained);
		write_drained(index, retired);
		HM_FAULT(vacuum_drained_logged);
	}
	if (vacuum.stats->tuples_removed > removed_before)
		hm_reorganize(index, &vacuum.uses, false);
	HM_FAULT(vacuum_reorganized);

	pfree(vacuum.visited);
	pfree(vacuum.uses.items);
	return vacuum.stats;
}
