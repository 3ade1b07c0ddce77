/*
 * key_groups.c
 *		Dividing unsorted keys into batches that have no key in common.
 *
 * The engine sorts the probes of each batch, and drops duplicates.  If there are more keys
 * than fit into a batch, equal keys must come into the same batch, or rows would be found
 * twice.  So an incremental quicksort divides the keys.  It sorts no further than the
 * next batch needs.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "compat.h"
#include "exec/nodes.h"

/* Size of the sample whose median divides keys that are too many for one batch. */
#define SAMPLE 63

/*
 * Divide two or more keys into small keys, which go to the front, and large ones, about
 * as many of each.  No key is in both groups.  Returns the number of small keys, 0 if all
 * keys are equal.
 */
static uint32
split_keys(void *keys, Size key_size, uint32 count)
{
	HmKey sample[SAMPLE];
	uint32 sampled = hm_sample_keys(keys, key_size, count, sample, SAMPLE);
	HmKey median = sample[(sampled - 1) / 2];
	uint32 small;

	small = hm_move_to_front(keys, key_size, count, median);
	if (small == count)
		small = median == 0 ? 0 : hm_move_to_front(keys, key_size, count, median - 1);
	return small;
}

void
hm_groups_begin(HmKeyGroups *groups, void *keys, Size key_size, uint32 count)
{
	groups->keys = keys;
	groups->key_size = key_size;
	groups->next = 0;
	list_free(groups->ends);
	groups->ends = list_make1_int((int) count);
	groups->context = CurrentMemoryContext;
}

uint32
hm_groups_begin_claimed(HmKeyGroups *groups, void *keys, Size key_size, uint32 count, HmKey low,
						HmKey high)
{
	uint32 end = hm_move_to_front(keys, key_size, count, high);
	uint32 begin = low == 0 ? 0 : hm_move_to_front(keys, key_size, end, low - 1);

	hm_groups_begin(groups, hm_key_at(keys, key_size, begin), key_size, end - begin);
	return end;
}

/* Find the end of the next batch. */
static uint32
next_end(HmKeyGroups *groups, uint32 limit)
{
	uint32 end = (uint32) llast_int(groups->ends);

	/* Join groups that fit into one batch together. */
	while (list_length(groups->ends) > 1 &&
		   (uint32) list_nth_int(groups->ends, list_length(groups->ends) - 2) - groups->next <=
			   limit)
	{
		groups->ends = list_delete_last(groups->ends);
		end = (uint32) llast_int(groups->ends);
	}
	while (end - groups->next > limit)
	{
		uint32 small;

		CHECK_FOR_INTERRUPTS();
		small = split_keys(hm_key_at(groups->keys, groups->key_size, groups->next),
						   groups->key_size, end - groups->next);

		/* These keys are all equal: one of them is enough. */
		if (small == 0)
		{
			groups->next = end - 1;
			break;
		}
		end = groups->next + small;
		groups->ends = lappend_int(groups->ends, (int) end);
	}
	groups->ends = list_delete_last(groups->ends);
	return end;
}

uint32
hm_groups_next(HmKeyGroups *groups, uint32 limit, void **keys)
{
	MemoryContext old_context;
	uint32 end;
	uint32 count;

	if (groups->ends == NIL || (uint32) linitial_int(groups->ends) == groups->next)
		return 0;
	old_context = MemoryContextSwitchTo(groups->context);
	end = next_end(groups, limit);
	MemoryContextSwitchTo(old_context);
	*keys = hm_key_at(groups->keys, groups->key_size, groups->next);
	count = end - groups->next;
	groups->next = end;
	return count;
}
