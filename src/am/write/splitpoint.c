/*
 * splitpoint.c
 *		Where a full leaf is cut in two, and where the right one of these begins.
 */
#include "postgres.h"

#include "am/write/insert.h"

/*
 * Of the entries of a leaf that gets new ones below all others, the left leaf keeps one in so many:
 * the new leaf is as full as a build makes it, nearly.
 */
#define HM_SHARE_BELOW 8

/*
 * Where to cut a leaf that consists mostly of one key's entries, from its low bound on, and gets
 * one more entry behind all of these.  Rows that come later have greater TIDs, as a rule, so the
 * left leaf would stay half empty.
 *
 * A leaf that has this key alone keeps all entries, and the new one goes to the right.  In another
 * leaf the cut is at the end of the key, so that the left one becomes one of class 0.  Then there
 * may be nothing for the right one, once for each such key.
 *
 * Returns false if the leaf is another one, or the left leaf would not have room.
 */
static bool
cut_after_key(HmSplit *split, Page leaf)
{
	HtEntry entry = split->coming[0];
	HtEntry low = hm_leaf_low(leaf);
	HtEntry high = hm_leaf_high(leaf);
	int end = 0;

	if (split->merged != 1 || low.key != entry.key)
		return false;
	while (end < split->count && split->entries[end].key == entry.key)
		end++;
	if (end < 2 || end <= split->count / 2 || ht_entry_cmp(split->entries[end - 1], entry) != 0)
		return false;

	if (hm_page_has_high(leaf) ? !hm_is_single_key(low, high) : end < split->count)
	{
		split->bound.key = entry.key + 1;
		split->bound.tid = 0;
		split->keep = end;
	}
	else
	{
		split->bound = entry;
		split->keep = end - 1;
	}
	return split->keep <=
		   ht_leaf_capacity(hm_leaf_shape(split->width, low, &split->bound, split->entries,
										  split->keep, HM_STEP_UNKNOWN));
}

/*
 * The slots that the two leaves would have if the left one got so many of split->entries, and the
 * right one this bound; 0 if they are too many for one of them.
 */
static int
slots_of_halves(const HmSplit *split, Page leaf, int keep, HtEntry bound)
{
	HtEntry high = hm_leaf_high(leaf);
	const HtEntry *entries = split->entries;
	HtLeafShape left =
		hm_leaf_shape(split->width, hm_leaf_low(leaf), &bound, entries, keep, HM_STEP_UNKNOWN);
	HtLeafShape right = hm_leaf_shape(split->width, bound, hm_page_has_high(leaf) ? &high : NULL,
									  entries + keep, split->count - keep, split->step);

	if (keep > ht_leaf_capacity(left) || split->count - keep > ht_leaf_capacity(right))
		return 0;
	return ht_leaf_capacity(left) + ht_leaf_capacity(right);
}

/*
 * Which of split->entries, of those in the middle, has the greatest distance from the one before.
 */
static int
greatest_step(const HmSplit *split)
{
	const HtEntry *entries = split->entries;
	int result = split->count / 2;

	for (int i = split->count / 4 + 1; i < split->count - split->count / 4; i++)
	{
		if (entries[result].key - entries[result - 1].key < entries[i].key - entries[i - 1].key)
			result = i;
	}
	return result;
}

HtEntry
hm_bound_below(HtEntry before, HtEntry first, HT_KEY step, int keys)
{
	HT_KEY gap = first.key - before.key;

	if (step == HM_STEP_UNKNOWN || step == 0 || step >= gap / (keys + 1))
		return first;
	return (HtEntry){first.key - step * keys, 0};
}

/*
 * The low bound of the right leaf if the left one gets so many of split->entries.
 */
static HtEntry
bound_after(const HmSplit *split, Page leaf, int keep)
{
	const HtEntry *entries = split->entries;
	int count = split->count - keep;
	HtEntry high = hm_leaf_high(leaf);
	HtEntry before = keep > 0 ? entries[keep - 1] : hm_leaf_low(leaf);
	HtLeafShape shape;

	if (!HM_SOFT_BOUNDS)
		return entries[keep];
	shape = hm_leaf_shape(split->width, entries[keep], hm_page_has_high(leaf) ? &high : NULL,
						  entries + keep, count, split->step);
	return hm_bound_below(before, entries[keep], hm_key_step(entries + keep, (uint64) count),
						  ht_leaf_capacity(shape));
}

/* Where the new entries are among split->entries, if these are neighbours; or else -1. */
static int
place_of_coming(const HmSplit *split)
{
	int first = 0;
	int last;

	while (first < split->count && ht_entry_cmp(split->entries[first], split->coming[0]) != 0)
		first++;
	last = first + (int) split->merged - 1;
	return last < split->count &&
				   ht_entry_cmp(split->entries[last], split->coming[split->merged - 1]) == 0 ?
			   first :
			   -1;
}

/*
 * Where to cut a leaf of wide keys in which new entries come below others of their kind, as those
 * of a descending column do.  If they are the first ones after a gap, the right leaf gets them,
 * with room for more that come below them.  If they are the leaf's first ones, the left leaf keeps
 * few others.
 *
 * Returns false if new entries come elsewhere.
 */
static bool
cut_below(HmSplit *split, Page leaf)
{
	int first = HM_SOFT_BOUNDS ? place_of_coming(split) : -1;

	if (first < 0 || split->count - first <= split->merged)
		return false;
	split->keep = first;
	split->bound = bound_after(split, leaf, first);
	if (ht_entry_cmp(split->bound, split->entries[first]) == 0)
	{
		split->keep = (int) split->merged + (split->count - (int) split->merged) / HM_SHARE_BELOW;
		if (first > 0)
			return false;
		split->bound = split->entries[split->keep];
	}
	return slots_of_halves(split, leaf, split->keep, split->bound) > 0;
}

/*
 * Which of split->entries is the first one of its key, next to the middle; or 0 if none in the
 * middle half is.
 */
static int
key_begins(const HmSplit *split)
{
	const HtEntry *entries = split->entries;
	int middle = split->count / 2;

	for (int i = 0; i < split->count / 4; i++)
	{
		if (entries[middle - i].key != entries[middle - i - 1].key)
			return middle - i;
		if (entries[middle + i].key != entries[middle + i - 1].key)
			return middle + i;
	}
	return 0;
}

/*
 * Cut between two keys, so that the entries of each stay together.  A key's next rows have greater
 * TIDs, as a rule: if it were cut in two, they would all go to the right leaf, and the left one
 * would keep its room.
 *
 * Returns false if there is no such place near the middle, or the leaves would not have room.
 */
static bool
cut_between_keys(HmSplit *split, Page leaf)
{
	int keep = key_begins(split);
	HtEntry bound;

	if (keep == 0)
		return false;
	bound = (HtEntry){split->entries[keep].key, 0};
	if (slots_of_halves(split, leaf, keep, bound) == 0)
		return false;
	split->keep = keep;
	split->bound = bound;
	return true;
}

/*
 * Decide where to cut split->entries: in the middle, as a rule, or between two keys near it.  Of
 * wide keys, the first fields may change somewhere near the middle.  If the leaves become narrower,
 * cut there.
 */
void
hm_choose_cut(HmSplit *split, Page leaf)
{
	if (cut_after_key(split, leaf) || cut_below(split, leaf) ||
		(!HM_SOFT_BOUNDS && cut_between_keys(split, leaf)))
		return;
	split->keep = split->count / 2;
	if (HM_SOFT_BOUNDS && split->keep > 0)
	{
		int step = greatest_step(split);

		if (slots_of_halves(split, leaf, step, split->entries[step]) >
			slots_of_halves(split, leaf, split->keep, split->entries[split->keep]))
			split->keep = step;
	}
	split->bound = split->entries[split->keep];
}
