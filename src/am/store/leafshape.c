/*
 * leafshape.c
 *		Which shape a leaf gets: how wide it stores its keys and TIDs.
 *
 * A leaf's base is its low bound's key.  Its class follows from its bounds alone: it can store
 * any key that belongs in the leaf.  So no key that arrives makes it wider, and only splits
 * change bounds.  The last leaf of a part has no high bound.  Its class is a bound of its own, a
 * soft one: as far as ascending keys are expected to come until the leaf is full, at the
 * distance that they have had.  A key beyond it begins a new leaf, or makes the leaf
 * wider if it is less than half full (hm_begins_leaf()).
 *
 * With keys of more than 64 bits all leaves have such a soft bound if it makes them narrower.  A
 * leaf that ends with a tenant's keys has the first key of the next tenant as its high bound, far
 * away.  Keys that arrive between the two are rare, and are treated as those beyond the last leaf's
 * reach.
 *
 * TIDs are as wide as those stored ask for, with some room, because a table grows.  One that
 * does not fit makes the leaf wider, or splits it.
 */
#include "postgres.h"

#include "am/store/store.h"

/* TIDs are given a width that also suits blocks that are higher by one part in so many. */
#define TID_ROOM 4

/* From so many entries on, their own distances say more than those of their neighbours. */
#define OWN_STEP_MIN 8

int
hm_leaf_fill_count(Relation index, HtLeafShape shape)
{
	return Max(1, ht_leaf_capacity(shape) * hm_fillfactor(index) / 100);
}

/* The next narrower class. */
static int
narrower(int bits)
{
	switch (bits)
	{
		case 128:
			return 96;
		case 96:
			return 64;
		case 16:
			return 0;
		default:
			return bits / 2;
	}
}

/*
 * The greatest key that belongs in a leaf with this high bound.  The bound itself does not, and no
 * TID is 0.
 */
static HT_KEY
last_key(HtEntry high)
{
	return high.tid == 0 && high.key > 0 ? high.key - 1 : high.key;
}

/* Whether a leaf of this shape can store all keys up to its high bound. */
static bool
reaches(HtLeafShape shape, HtEntry high)
{
	return shape.bits == HM_KEYS || ht_leaf_fits_key(shape, last_key(high));
}

bool
hm_is_single_key(HtEntry low, HtEntry high)
{
	return last_key(high) == low.key;
}

const char *
hm_leaf_problem(Page page, HtWidth width, HtEntry *entries, int *n)
{
	HtLeafShape shape = ht_leaf_shape_of(page);
	HtByteRange hole = ht_leaf_hole(shape);
	const char *problem = ht_leaf_read_checked(page, entries, n);

	if (problem != NULL)
		return problem;
	if (shape.bits > 8 * (int) width)
		return "the leaf stores wider keys than the index has";
	if (shape.bits < HM_KEYS && shape.base != hm_leaf_low(page).key)
		return "the base of the leaf is not its low bound";
	if (!HM_SOFT_BOUNDS && hm_page_has_high(page) && !reaches(shape, hm_leaf_high(page)))
		return "the leaf cannot store all keys between its bounds";
	if (((PageHeader) page)->pd_lower != hole.offset ||
		((PageHeader) page)->pd_upper != hole.offset + hole.length)
		return "the hole is not where the leaf has it";
	for (int block = 0; block < ht_leaf_blocks(shape); block++)
	{
		if (ht_leaf_hints(page, block) >> ht_leaf_block_count(page, block) != 0)
			return "a slot without entry has a hint";
	}
	return NULL;
}

int
hm_leaf_read_checked(Relation index, BlockNumber block, Page page, HtWidth width, HtEntry *entries)
{
	int n;
	const char *problem = hm_leaf_problem(page, width, entries, &n);

	if (problem != NULL)
		hm_report_damage(problem, "index \"%s\" has a damaged leaf at block %u",
						 RelationGetRelationName(index), block);
	return n;
}

void
hm_leaf_fill(Page page, HtLeafShape shape, const HtEntry *entries, int n)
{
	HtByteRange former = ht_leaf_hole(ht_leaf_shape_of(page));
	HtByteRange hole = ht_leaf_hole(shape);

	if (n > ht_leaf_capacity(shape))
		elog(ERROR, "%d entries have no room in a leaf of %d slots", n, ht_leaf_capacity(shape));

	/*
	 * Forget hints, and leave none of the former shape's bytes where the new one has hints.
	 * GenericXLogFinish() zeroes holes, too, but only for what it logs.
	 */
	memset((char *) page + former.offset, 0, former.length);
	ht_leaf_fill(page, shape, entries, n);
	memset((char *) page + hole.offset, 0, hole.length);
	((PageHeader) page)->pd_lower = hole.offset;
	((PageHeader) page)->pd_upper = hole.offset + hole.length;
}

int
hm_tid_bytes(const HtEntry *entries, uint64 n)
{
	uint64 offsets = 0;
	uint64 block = 0;

	for (uint64 i = 0; i < n; i++)
	{
		offsets |= entries[i].tid & 0xFFFF;
		block = Max(block, entries[i].tid >> 16);
	}
	block += block / TID_ROOM;
	return block > PG_UINT32_MAX ? HT_TID_BYTES : ht_tid_bytes(block << 16 | offsets);
}

HT_KEY
hm_key_step(const HtEntry *entries, uint64 n)
{
	if (n < 2)
		return HM_STEP_UNKNOWN;
	if (entries[n - 1].key == entries[0].key)
		return 0;
	return (entries[n - 1].key - entries[0].key) / (n - 1) + 1;
}

/*
 * Whether a last leaf of this shape, with n entries, can also store those that ascending
 * inserts will add until it is full, if their keys are "step" apart.
 */
static bool
can_grow(HtLeafShape shape, const HtEntry *entries, uint64 n, HT_KEY step)
{
	uint64 more = Max((uint64) ht_leaf_capacity(shape), n) - n;
	HT_KEY last = n == 0 ? shape.base : entries[n - 1].key;
	HT_KEY rest;

	if (!ht_leaf_fits_key(shape, last))
		return false;
	rest = ht_class_max(shape.bits) - (last - shape.base);
	if (step == HM_STEP_UNKNOWN)
		step = 1;
	return more == 0 || rest / more >= step;
}

static HT_KEY
likely_step(const HtEntry *entries, uint64 n, HT_KEY step)
{
	return n >= OWN_STEP_MIN || step == HM_STEP_UNKNOWN ? hm_key_step(entries, n) : step;
}

/*
 * Whether a leaf of this shape with n sorted entries is wide enough.  It reaches to "high", or to
 * the end of the part if that is NULL.
 */
static bool
is_wide_enough(HtLeafShape shape, const HtEntry *high, const HtEntry *entries, uint64 n,
			   HT_KEY step)
{
	return (high != NULL && reaches(shape, *high)) ||
		   ((high == NULL || HM_SOFT_BOUNDS) && can_grow(shape, entries, n, step));
}

HtLeafShape
hm_leaf_shape(HtWidth width, HtEntry low, const HtEntry *high, const HtEntry *entries, int n,
			  HT_KEY step)
{
	int tid_bytes = hm_tid_bytes(entries, (uint64) n);
	HtLeafShape result = ht_leaf_shape(8 * (int) width, tid_bytes, low.key);

	step = likely_step(entries, (uint64) n, step);

	/* From wide to narrow, as long as the narrower one will do. */
	while (result.bits > 0)
	{
		HtLeafShape shape = ht_leaf_shape(narrower(result.bits), tid_bytes, low.key);

		if (!is_wide_enough(shape, high, entries, (uint64) n, step))
			break;
		result = shape;
	}

	/*
	 * A leaf with a soft bound that is fuller than the class that it will need can hold stays
	 * narrow: it will be split soon, or closed.
	 */
	while ((high == NULL || HM_SOFT_BOUNDS) && ht_leaf_capacity(result) < n && result.bits > 0 &&
		   ht_leaf_fits_key(ht_leaf_shape(narrower(result.bits), tid_bytes, low.key),
							entries[n - 1].key))
		result = ht_leaf_shape(narrower(result.bits), tid_bytes, low.key);
	return result;
}

/*
 * How many of n sorted entries a leaf of this shape gets, if it begins at the shape's base and
 * the next leaf begins with the entry after them.  If it gets all of them it reaches to
 * "high", or to the end of the part if that is NULL.
 */
static uint64
entries_within(HtLeafShape shape, int percent, const HtEntry *high, const HtEntry *entries,
			   uint64 n, HT_KEY step)
{
	uint64 enough = Max(1, ht_leaf_capacity(shape) * percent / 100);
	uint64 low = 0, middle, end;

	if (n <= enough)
	{
		if (is_wide_enough(shape, high, entries, n, likely_step(entries, n, step)))
			return n;
		end = n;
	}
	else
		end = enough + 1;

	/*
	 * Count the entries that can be stored; the last of them is the next leaf's, unless the bound
	 * is soft.
	 */
	HM_BINARY_SEARCH(low, middle, end, ht_leaf_fits_key(shape, entries[middle].key));
	if (HM_SOFT_BOUNDS)
		return Min(low, enough);
	return low == 0 ? 0 : low - 1;
}

uint32
hm_plan_leaves(HtWidth width, int percent, int single, HtEntry low, const HtEntry *high,
			   const HtEntry *entries, uint64 n, HT_KEY step, uint32 max, HmLeafPlan *plan,
			   uint64 *planned)
{
	int tid_bytes = hm_tid_bytes(entries, n);
	uint64 done = 0;
	uint32 leaves = 0;

	*planned = n;
	if (n == 0)
	{
		plan[0].shape = hm_leaf_shape(width, low, high, entries, 0, step);
		plan[0].count = 0;
		return 1;
	}
	do
	{
		HtLeafShape best = ht_leaf_shape(8 * (int) width, tid_bytes, low.key);
		uint64 most = Min(n - done, Max(1, ht_leaf_capacity(best) * percent / 100));

		/* Of two classes with as many entries the narrower one has more room. */
		for (int bits = best.bits; bits > 0;)
		{
			HtLeafShape shape;
			uint64 here;

			bits = narrower(bits);
			shape = ht_leaf_shape(bits, tid_bytes, low.key);
			here = entries_within(shape, bits == 0 ? single : percent, high, entries + done,
								  n - done, step);

			if (here >= most)
			{
				best = shape;
				most = here;
			}
		}
		plan[leaves].shape = best;
		plan[leaves].count = (int) most;
		leaves++;
		if (most > 1)
			step = hm_key_step(entries + done, most);
		done += most;
		if (done < n)
			low = entries[done];
	} while (done < n && leaves < max);
	*planned = done;
	return leaves;
}
