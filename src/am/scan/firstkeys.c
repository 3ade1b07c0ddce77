/*
 * firstkeys.c
 *		How many different values the first column of an index has, by a sample of its leaves.
 *
 * Compiled for each width of keys (width.h).
 */
#include "postgres.h"

#include "storage/bufmgr.h"

#include "am/scan/scan.h"
#include "am/width.h"
#include "compat.h"

/* So many blocks are read.  32 leaves have about 10,000 entries. */
#define SAMPLED_BLOCKS 32

/* Count the entries of a leaf that have one before them, and those of these with another value. */
static void
count_neighbours(Page page, const HmFields *fields, double *neighbours, double *different)
{
	HtEntry *entries = palloc(HT_LEAF_MAX_ENTRIES * sizeof(HtEntry));
	const int shift = fields->fields[0].shift;
	int n = 0;

	/* Damage is not a planner's business. */
	if (hm_leaf_problem(page, fields->width, entries, &n) != NULL)
		n = 0;
	for (int i = 1; i < n; i++)
		*different += entries[i].key >> shift != entries[i - 1].key >> shift;
	*neighbours += Max(0, n - 1);
	pfree(entries);
}

double
hm_sample_first_keys(Relation index)
{
	const BlockNumber blocks = RelationGetNumberOfBlocks(index);
	const BlockNumber step = Max(1, blocks / SAMPLED_BLOCKS);
	HmFields fields;
	double neighbours = 0;
	double different = 0;

	hm_fields_read(index, &fields);
	for (BlockNumber block = 1; block < blocks; block += step)
	{
		Buffer buffer = ReadBuffer(index, block);
		PGAlignedBlock copy;
		bool is_leaf;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		is_leaf = hm_page_is(BufferGetPage(buffer), HM_PAGE_LEAF);
		if (is_leaf)
			memcpy(copy.data, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
		if (is_leaf)
			count_neighbours((Page) copy.data, &fields, &neighbours, &different);
	}
	return neighbours > 0 ? different / neighbours : -1;
}
