/*
 * directorychange.c
 *		Changing the directory.
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "am/fault.h"
#include "am/store/store.h"

/*
 * Report a directory page that is listed twice, or is also listed as free.
 * Errors: index_corrupted.
 */
static void
directory_overlap(Relation index, BlockNumber block)
{
	hm_report_damage(NULL, "block %u of index \"%s\" is in use twice", block,
					 RelationGetRelationName(index));
}

/*
 * Split the full directory page "block" in two.  The caller has locked the metapage
 * exclusively and owns fresh_block, which becomes the second page.
 */
static void
directory_split(Relation index, Buffer meta_buffer, BlockNumber block, BlockNumber fresh_block)
{
	Buffer buffer;
	Buffer fresh_buffer;
	GenericXLogState *state;
	HmMeta *meta;
	HmDirectory *directory, *fresh;
	Page page;
	HmDirectoryEntry added;
	uint32 keep;
	int i;

	/* If the list of free extents is damaged, it may have named the page that is locked. */
	if (block == fresh_block)
		directory_overlap(index, block);
	buffer = ReadBuffer(index, block);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	hm_directory_check(index, buffer);
	fresh_buffer = ReadBufferExtended(index, MAIN_FORKNUM, fresh_block, RBM_ZERO_AND_LOCK, NULL);
	hm_page_withdraw(BufferGetPage(fresh_buffer));

	state = GenericXLogStart(index);
	meta = hm_page_meta(GenericXLogRegisterBuffer(state, meta_buffer, 0));
	directory = hm_page_directory(GenericXLogRegisterBuffer(state, buffer, 0));
	page = GenericXLogRegisterBuffer(state, fresh_buffer, GENERIC_XLOG_FULL_IMAGE);
	hm_page_init(page, HM_PAGE_DIRECTORY, 0, InvalidBlockNumber, HM_PART_KEYS);
	fresh = hm_page_directory(page);

	/* Ascending loads add at the end; otherwise split in halves. */
	i = hm_directory_search(meta->root, meta->root_count, hm_directory_low(&directory->entries[0]),
							true);
	keep = i == (int) meta->root_count - 1 ? directory->count * 9 / 10 : directory->count / 2;

	fresh->count = directory->count - keep;
	memcpy(fresh->entries, &directory->entries[keep], fresh->count * sizeof(HmDirectoryEntry));
	directory->count = keep;

	added = fresh->entries[0];
	added.block = fresh_block;
	added.stamp = 0;
	memmove(&meta->root[i + 2], &meta->root[i + 1],
			(meta->root_count - i - 1) * sizeof(HmDirectoryEntry));
	meta->root[i + 1] = added;
	meta->root_count++;

	HM_FAULT(directory_split_changed);
	GenericXLogFinish(state);
	HM_FAULT(directory_split_logged);
	UnlockReleaseBuffer(fresh_buffer);
	UnlockReleaseBuffer(buffer);
}

/* Move the root's entries to a directory page of their own. */
static void
directory_deepen(Relation index, Buffer meta_buffer, BlockNumber fresh_block)
{
	Buffer fresh_buffer =
		ReadBufferExtended(index, MAIN_FORKNUM, fresh_block, RBM_ZERO_AND_LOCK, NULL);
	GenericXLogState *state = GenericXLogStart(index);
	HmMeta *meta = hm_page_meta(GenericXLogRegisterBuffer(state, meta_buffer, 0));
	Page page = GenericXLogRegisterBuffer(state, fresh_buffer, GENERIC_XLOG_FULL_IMAGE);
	HmDirectory *fresh = hm_page_directory(page);

	hm_page_withdraw(BufferGetPage(fresh_buffer));
	hm_page_init(page, HM_PAGE_DIRECTORY, 0, InvalidBlockNumber, HM_PART_KEYS);
	fresh->count = meta->root_count;
	memcpy(fresh->entries, meta->root, meta->root_count * sizeof(HmDirectoryEntry));
	meta->depth = 1;
	meta->root_count = 1;
	meta->root[0].block = fresh_block;
	meta->root[0].stamp = 0;
	HM_FAULT(directory_deepen_changed);
	GenericXLogFinish(state);
	HM_FAULT(directory_deepen_logged);
	UnlockReleaseBuffer(fresh_buffer);
}

/*
 * Lock the page that an entry belongs on, and the metapage.  Returns whether there is room for
 * "count" more entries. If not, unlocks all; and if the caller owns a block, *fresh, makes room by
 * that, and sets it to InvalidBlockNumber.
 */
static bool
lock_with_room(Relation index, HmPosition low, int count, BlockNumber *fresh, HmDirectoryEdit *edit)
{
	HmMeta *meta;
	BlockNumber block;

	edit->meta = hm_meta_buffer(index, BUFFER_LOCK_EXCLUSIVE);
	edit->page = InvalidBuffer;
	edit->emptied = 0;
	meta = hm_page_meta(BufferGetPage(edit->meta));
	if (meta->depth == 0)
	{
		if (meta->root_count + count <= HM_ROOT_MAX)
			return true;
		if (BlockNumberIsValid(*fresh))
			directory_deepen(index, edit->meta, *fresh);
		*fresh = InvalidBlockNumber;
		UnlockReleaseBuffer(edit->meta);
		return false;
	}

	block = meta->root[Max(0, hm_directory_search(meta->root, meta->root_count, low, true))].block;
	hm_block_check(index, block);
	edit->page = ReadBuffer(index, block);
	LockBuffer(edit->page, BUFFER_LOCK_EXCLUSIVE);
	hm_directory_check(index, edit->page);
	if (hm_page_directory(BufferGetPage(edit->page))->count + count <= HM_DIRECTORY_MAX)
		return true;

	UnlockReleaseBuffer(edit->page);
	if (meta->root_count == HM_ROOT_MAX)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("directory of index \"%s\" is full", RelationGetRelationName(index)),
						errhint("REINDEX packs segments and frees room.")));
	if (BlockNumberIsValid(*fresh))
		directory_split(index, edit->meta, block, *fresh);
	*fresh = InvalidBlockNumber;
	UnlockReleaseBuffer(edit->meta);
	return false;
}

/*
 * A block that was taken but is not needed is lost until the next VACUUM: to give it
 * back, the metapage would have to be unlocked.
 */
void
hm_directory_begin(Relation index, HmPosition low, int count, HmDirectoryEdit *edit)
{
	BlockNumber fresh = InvalidBlockNumber;
	bool owned = false;

	while (!lock_with_room(index, low, count, &fresh, edit))
	{
		/* Once a block has been used, there is room unless another backend has taken it. */
		owned = !owned;
		if (!owned)
			continue;
		fresh = hm_extent_allocate(index, 1, HM_EXTENT_FOR_FEW, InvalidBlockNumber);
		HM_FAULT(directory_allocated);
	}
}

/* The entries that an edit works on, in shared buffers. */
static HmDirectoryEntry *
edit_entries(HmDirectoryEdit *edit, uint32 *count)
{
	if (BufferIsValid(edit->page))
	{
		HmDirectory *directory = hm_page_directory(BufferGetPage(edit->page));

		*count = directory->count;
		return directory->entries;
	}
	else
	{
		HmMeta *meta = hm_page_meta(BufferGetPage(edit->meta));

		*count = meta->root_count;
		return meta->root;
	}
}

bool
hm_directory_has_part(HmDirectoryEdit *edit, HmPart part)
{
	uint32 count;
	HmDirectoryEntry *entries = edit_entries(edit, &count);

	/* The first segment of a part begins at its start, so it is here. */
	for (uint32 i = 0; i < count; i++)
	{
		if (entries[i].part == (uint64) part)
			return true;
	}
	return false;
}

/*
 * Whether the directory page after this one holds nothing but the entry of the segment at
 * block.  If so, notes that the page is to be removed with the entry.  Its block is then
 * lost until the next VACUUM.
 */
static bool
next_page_has_only(Relation index, HmDirectoryEdit *edit, BlockNumber block)
{
	HmMeta *meta = hm_page_meta(BufferGetPage(edit->meta));
	HmDirectory *directory = hm_page_directory(BufferGetPage(edit->page));
	int next = hm_directory_search(meta->root, meta->root_count,
								   hm_directory_low(&directory->entries[0]), true) +
			   1;
	Buffer buffer;
	bool result;

	if (next >= (int) meta->root_count)
		return false;
	hm_block_check(index, meta->root[next].block);
	if (meta->root[next].block == BufferGetBlockNumber(edit->page))
		directory_overlap(index, meta->root[next].block);
	buffer = ReadBuffer(index, meta->root[next].block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	hm_directory_check(index, buffer);
	directory = hm_page_directory(BufferGetPage(buffer));
	result = directory->count == 1 && directory->entries[0].block == block;
	UnlockReleaseBuffer(buffer);
	if (result)
		edit->emptied = next;
	return result;
}

bool
hm_directory_leads_to(HmDirectoryEdit *edit, HmPosition low, BlockNumber block, uint64 stamp)
{
	uint32 count;
	HmDirectoryEntry *entries = edit_entries(edit, &count);
	int i = hm_directory_search(entries, (int) count, low, true);

	return i >= 0 && hm_position_cmp(hm_directory_low(&entries[i]), low) == 0 &&
		   entries[i].block == block && entries[i].stamp == (uint32) stamp;
}

bool
hm_directory_has_next(Relation index, HmDirectoryEdit *edit, HmPosition low, BlockNumber block)
{
	uint32 count;
	HmDirectoryEntry *entries = edit_entries(edit, &count);
	int i = hm_directory_search(entries, (int) count, low, true);

	if (i + 1 < (int) count)
		return entries[i + 1].block == block;
	return BufferIsValid(edit->page) && next_page_has_only(index, edit, block);
}

bool
hm_directory_could_join(Relation index, HmPosition low, BlockNumber block)
{
	HmDirectoryEdit edit;
	bool result;

	hm_directory_begin(index, low, 0, &edit);
	result = hm_directory_has_next(index, &edit, low, block);
	hm_directory_end(&edit);
	return result;
}

void
hm_directory_apply(HmDirectoryEdit *edit, GenericXLogState *state, int replaced,
				   const HmDirectoryEntry *entries, int count)
{
	HmMeta *meta = NULL;
	HmDirectoryEntry *old;
	uint32 *old_count;
	int i;
	int here = replaced; /* of those, entries on this page */
	bool leads = false;  /* the entries come before all others */

	if (BufferIsValid(edit->page))
	{
		old = hm_page_directory(BufferGetPage(edit->page))->entries;
		leads = hm_position_cmp(hm_directory_low(&entries[0]), hm_directory_low(&old[0])) < 0;
	}
	if (replaced > 0 || leads || !BufferIsValid(edit->page))
		meta = hm_page_meta(GenericXLogRegisterBuffer(state, edit->meta, 0));
	if (leads)
	{
		/* A directory page begins where the root says. */
		BlockNumber block = meta->root[0].block;

		meta->root[0] = entries[0];
		meta->root[0].block = block;
		meta->root[0].stamp = 0;
	}
	if (replaced > 0)
	{
		meta->retired += (uint64) replaced;
		meta->last_movement = GetCurrentTimestamp();
	}
	if (edit->emptied > 0)
	{
		meta->root_count--;
		memmove(&meta->root[edit->emptied], &meta->root[edit->emptied + 1],
				(meta->root_count - edit->emptied) * sizeof(HmDirectoryEntry));
		here--;
	}

	if (BufferIsValid(edit->page))
	{
		HmDirectory *directory = hm_page_directory(GenericXLogRegisterBuffer(state, edit->page, 0));

		old = directory->entries;
		old_count = &directory->count;
	}
	else
	{
		old = meta->root;
		old_count = &meta->root_count;
	}

	i = hm_directory_search(old, (int) *old_count, hm_directory_low(&entries[0]), true);
	if (replaced == 0)
		i++;
	Assert(replaced == 0 || (i >= 0 && hm_position_cmp(hm_directory_low(&old[i]),
													   hm_directory_low(&entries[0])) == 0));
	memmove(&old[i + count], &old[i + here], (*old_count - i - here) * sizeof(HmDirectoryEntry));
	memcpy(&old[i], entries, count * sizeof(HmDirectoryEntry));
	*old_count += count - here;
}

void
hm_directory_end(HmDirectoryEdit *edit)
{
	if (BufferIsValid(edit->page))
		UnlockReleaseBuffer(edit->page);
	UnlockReleaseBuffer(edit->meta);
}
