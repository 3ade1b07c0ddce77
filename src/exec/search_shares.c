/*
 * search_shares.c
 *		Dividing a batch's probes among the targets of a lookup join, by their shares.
 *
 * A probe goes to each target whose share has its key.  To test each probe with each share
 * takes long where there are many of both.  So the sequence of all keys is cut where shares
 * begin and end.  Between two cuts, in an interval, the same shares are possible for each
 * key.  If some of these are remainders of hash values, the interval has a cell for each
 * remainder by the largest modulus, otherwise one cell.  A cell has a list of targets.  So
 * a probe's targets are found by a binary search and a division.
 *
 * Shares may overlap: a default partition's has all keys.  If there would be many times as
 * many places in lists as there are targets, or as there are probes, nothing is gained, and
 * each target looks at all probes.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "exec/lookup_node.h"

/* From so many probes and targets on, probes are divided. */
#define MIN_PROBES 64
#define MIN_TARGETS 3

/*
 * The most places that cells may have in all for each target; and the most targets that a probe
 * may have on average.
 */
#define MAX_PLACES 64
#define MAX_TARGETS 3

/* Some neighbouring keys for which the same shares are possible. */
typedef struct ShareInterval
{
	uint32 modulus; /* number of cells */
	uint32 cell;    /* the first of them */
} ShareInterval;

struct SearchShares
{
	const HmShare *hashed; /* one that has a hash function, or NULL */
	uint32 interval_count;
	Size key_size;
	void *cuts; /* the first key of each interval; the first is 0 */
	ShareInterval *intervals;
	uint32 cell_count;
	uint32 *first; /* of each cell, its first target in "targets"; and the end */
	uint32 *targets;
};

static inline bool
is_empty(const HmShare *share)
{
	return share->low > share->high;
}

/* Cut the sequence of keys where shares begin and end. */
static void
make_cuts(SearchShares *shares, const SearchTarget *targets, int count)
{
	Size key_size = shares->key_size;
	HmKey most = key_size == sizeof(uint64) ? PG_UINT64_MAX : HM_KEY_MAX;
	uint32 cuts = 1;

	shares->cuts = palloc((2 * (Size) count + 1) * key_size);
	hm_key_put(shares->cuts, key_size, 0, 0);
	for (int i = 0; i < count; i++)
	{
		const HmShare *share = &targets[i].share;

		if (is_empty(share))
			continue;
		hm_key_put(shares->cuts, key_size, cuts++, share->low);
		if (share->high < most)
			hm_key_put(shares->cuts, key_size, cuts++, share->high + 1);
	}
	shares->interval_count = hm_drop_duplicates(shares->cuts, key_size, cuts);
	shares->intervals = palloc0(shares->interval_count * sizeof(ShareInterval));
	for (uint32 i = 0; i < shares->interval_count; i++)
		shares->intervals[i].modulus = 1;
}

/* The interval that has a key. */
static pg_attribute_always_inline uint32
find_interval(const SearchShares *shares, Size key_size, HmKey key)
{
	const void *cuts = shares->cuts;
	uint32 base = 0;

	for (uint32 length = shares->interval_count; length > 1;)
	{
		uint32 half = length / 2;

		base = hm_key_less(key_size, key, hm_key_get(cuts, key_size, base + half)) ? base :
																					 base + half;
		length -= half;
	}
	return base;
}

/*
 * Decide how many cells each interval has.  Returns false if shares cannot be put into cells: they
 * are remainders by moduli of which none is a multiple of all others, or of different
 * functions; or there would be too many.
 */
static bool
make_cells(SearchShares *shares, const SearchTarget *targets, int count)
{
	Size most = (Size) count * MAX_PLACES;
	Size cells = 0;
	Size places = 0;

	for (int i = 0; i < count; i++)
	{
		const HmShare *share = &targets[i].share;

		if (is_empty(share))
			continue;
		if (share->modulus > 0)
		{
			if (shares->hashed != NULL && (shares->hashed->hash != share->hash ||
										   shares->hashed->collation != share->collation))
				return false;
			shares->hashed = share;
		}
		for (uint32 j = find_interval(shares, shares->key_size, share->low);
			 j < shares->interval_count &&
			 hm_key_get(shares->cuts, shares->key_size, j) <= share->high;
			 j++)
		{
			ShareInterval *interval = &shares->intervals[j];
			uint64 modulus = Max(share->modulus, 1);
			uint64 larger = Max(modulus, interval->modulus);

			if (larger % modulus != 0 || larger % interval->modulus != 0 || ++places > most)
				return false;
			interval->modulus = (uint32) larger;
		}
	}
	for (uint32 i = 0; i < shares->interval_count; i++)
	{
		shares->intervals[i].cell = (uint32) cells;
		cells += shares->intervals[i].modulus;
		if (cells > most)
			return false;
	}
	shares->cell_count = (uint32) cells;
	return true;
}

/*
 * Put targets into cells: count how many each cell has, in first[cell + 1]; or, with "fill", put
 * them there, from first[cell] on, which is moved on.  Returns false if there are too many.
 */
static bool
put_targets(SearchShares *shares, const SearchTarget *targets, int count, bool fill)
{
	Size left = (Size) count * MAX_PLACES;

	for (int i = 0; i < count; i++)
	{
		const HmShare *share = &targets[i].share;

		if (is_empty(share))
			continue;
		for (uint32 j = find_interval(shares, shares->key_size, share->low);
			 j < shares->interval_count &&
			 hm_key_get(shares->cuts, shares->key_size, j) <= share->high;
			 j++)
		{
			const ShareInterval *interval = &shares->intervals[j];

			for (uint64 k = share->remainder; k < interval->modulus; k += Max(share->modulus, 1))
			{
				uint32 cell = interval->cell + (uint32) k;

				if (fill)
					shares->targets[shares->first[cell]++] = (uint32) i;
				else
					shares->first[cell + 1]++;
				if (left-- == 0)
					return false;
			}
		}
	}
	return true;
}

/* Make the lists of all cells. */
static bool
make_lists(SearchShares *shares, const SearchTarget *targets, int count)
{
	shares->first = palloc0(((Size) shares->cell_count + 1) * sizeof(uint32));
	if (!put_targets(shares, targets, count, false))
		return false;
	for (uint32 i = 0; i < shares->cell_count; i++)
		shares->first[i + 1] += shares->first[i];
	shares->targets = palloc(Max(1, shares->first[shares->cell_count]) * sizeof(uint32));
	put_targets(shares, targets, count, true);

	/* Each cell's place is at its end now, where the next one's begins. */
	memmove(shares->first + 1, shares->first, shares->cell_count * sizeof(uint32));
	shares->first[0] = 0;
	return true;
}

SearchShares *
hm_shares_create(const SearchTarget *targets, int count, Size key_size)
{
	SearchShares *shares = palloc0(sizeof(SearchShares));

	if (count < MIN_TARGETS)
		return NULL;
	shares->key_size = key_size;
	make_cuts(shares, targets, count);
	if (!make_cells(shares, targets, count) || !make_lists(shares, targets, count))
		return NULL;
	return shares;
}

const HmShare *
hm_shares_hashed(const SearchShares *shares)
{
	return shares->hashed;
}

bool
hm_shares_may_divide(const LookupProbes *probes)
{
	return probes->same_length && probes->length == 0 && probes->count >= MIN_PROBES;
}

/* Find each probe's cell, and count the probes of each target in first[target + 1]. */
static pg_attribute_always_inline void
find_cells(const SearchShares *shares, Size key_size, const LookupProbes *probes,
		   const uint64 *hashes, SearchDivision *division)
{
	for (uint32 i = 0; i < probes->count; i++)
	{
		const ShareInterval *interval =
			&shares
				 ->intervals[find_interval(shares, key_size, hm_key_get(probes->low, key_size, i))];
		uint32 cell = interval->cell;

		if (interval->modulus > 1)
			cell += (uint32) (hashes[i] % interval->modulus);
		division->cells[i] = cell;
		for (uint32 j = shares->first[cell]; j < shares->first[cell + 1]; j++)
			division->first[shares->targets[j] + 1]++;
	}
}

bool
hm_shares_divide(const SearchShares *shares, int target_count, const LookupProbes *probes,
				 const uint64 *hashes, MemoryContext context, SearchDivision *division)
{
	uint64 places = 0;

	if (division->room < probes->count)
	{
		division->cells = hm_resize_large(context, division->cells, probes->count * sizeof(uint32));
		division->probes = hm_resize_large(context, division->probes,
										   (Size) probes->count * MAX_TARGETS * sizeof(uint32));
		division->room = probes->count;
	}
	division->first =
		hm_resize_large(context, division->first, ((Size) target_count + 1) * sizeof(uint32));
	memset(division->first, 0, ((Size) target_count + 1) * sizeof(uint32));
	if (shares->key_size == sizeof(uint64))
		find_cells(shares, sizeof(uint64), probes, hashes, division);
	else
		find_cells(shares, sizeof(HmKey), probes, hashes, division);
	for (int i = 1; i <= target_count; i++)
		places += division->first[i];
	if (places > (uint64) probes->count * MAX_TARGETS)
		return false;

	for (int i = 0; i < target_count; i++)
		division->first[i + 1] += division->first[i];
	for (uint32 i = 0; i < probes->count; i++)
	{
		uint32 cell = division->cells[i];

		for (uint32 j = shares->first[cell]; j < shares->first[cell + 1]; j++)
			division->probes[division->first[shares->targets[j]]++] = i;
	}
	memmove(division->first + 1, division->first, target_count * sizeof(uint32));
	division->first[0] = 0;
	return true;
}
