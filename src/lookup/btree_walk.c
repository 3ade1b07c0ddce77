/*
 * btree_walk.c
 *		Batch lookup in a btree index: a walk through its leaves in key order.
 *
 * The probes are sorted as the pages are.  The walk finds the leaves that the next ones begin on
 * (btree_route.c), and visits these from left to right.  It locks one leaf, and answers all probes
 * that reach into it; those that go on are answered on the right sibling.
 *
 * A leaf that was found on the page above may have been split or deleted by the time it is locked:
 * then what begins on it is further right, as for PostgreSQL's own descents.  What moves from a
 * leaf after it was answered moves right, and what comes later is too new for the snapshot.  A
 * deleted leaf is not used for anything else as long as an older snapshot is held.
 *
 * Hits go directly from the locked page to the caller.  If not all of a leaf's hits fit, the leaf
 * is copied, and the following calls answer from the copy.  No lock outlives a call; pins do only
 * while keep_pins() wants them, for a caller that reads the visibility map: VACUUM removes entries
 * from a leaf, before it lets their TIDs be used again, under a lock that no pin of others allows.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "am/fault.h"
#include "compat.h"
#include "lookup/btree.h"

/* How many leaves are prefetched ahead. */
#define LEAVES_AHEAD 2

/*
 * So many probes read most of a leaf.  Otherwise only some of its lines are prefetched, of
 * HM_LINE_SIZE bytes: those of the line pointers of 350 entries, and the last one.
 */
#define MANY_PROBES 6
#define FEW_LINES (UINT64CONST(0x0FFF) | UINT64CONST(1) << (BLCKSZ / HM_LINE_SIZE - 1))

struct HmWalk
{
	Relation index;
	HmLookupStats *stats; /* the lookup's */
	bool heeds_hints;     /* leave out entries that are marked as dead */
	HmBtreeKeys keys;

	/* The probes: those of the batch from "base" on. */
	uint32 base;
	uint32 capacity;
	uint32 count;       /* sorted ones */
	const HT_KEY *low;  /* in the order of the pages, as all keys here */
	const HT_KEY *high; /* or NULL: */
	HT_KEY length;      /* the length of all */
	const uint8 *done;
	HtProbe *sorted;
	HtProbe *scratch; /* for sorting a radix partition */
	uint32 scratch_room;
	HT_KEY *flipped; /* arrays of keys that had to be flipped; NULL until there are some */
	HmBtreeValues values;

	/* The progress of the walk. */
	uint32 next;    /* first sorted probe that has not begun */
	uint32 *active; /* probes that go on to the right of the last leaf */
	uint32 active_count;
	BlockNumber right; /* the sibling, if there are some */
	int asked;         /* the first leaf of the route that has not been prefetched */

	/* The leaf that is being answered: probe by probe, active ones first. */
	bool on_leaf;
	uint32 group_begin, /* sorted probes that begin on it */
		group_end;
	uint32 answered;     /* of both kinds together */
	OffsetNumber floor;  /* no entry before this belongs to a probe that is left */
	OffsetNumber offset; /* where the probe goes on, or InvalidOffsetNumber */
	int posting;         /* the next of its TIDs */
	char *copy;          /* NULL until one is needed */

	bool keeps_pins;
	int pinned_count;
	Buffer pinned[HM_PINNED_LEAVES];

	/* Large members, which need no values before the walk starts. */
	HtPsa psa;
	HmBtreeRoute route;
};

/* The caller's arrays for hits. */
typedef struct Output
{
	HmHit *hits;
	HT_KEY *keys; /* or NULL */
	uint32 n;
	uint32 max;
} Output;

static HmWalk *
create_walk(Relation index, uint32 capacity, HmLookupStats *stats)
{
	HmWalk *walk = palloc(sizeof(HmWalk));

	memset(walk, 0, offsetof(HmWalk, psa));
	walk->index = index;
	walk->capacity = capacity;
	walk->stats = stats;
	walk->sorted = hm_alloc_large(capacity * sizeof(HtProbe));
	walk->active = palloc_extended(capacity * sizeof(uint32), MCXT_ALLOC_HUGE);
	hm_btree_keys_init(&walk->keys, index);
	hm_btree_values_init(&walk->values, &walk->keys);
	return walk;
}

static void
release_pins(HmWalk *walk)
{
	for (int i = 0; i < walk->pinned_count; i++)
		ReleaseBuffer(walk->pinned[i]);
	walk->pinned_count = 0;
}

static void
end_walk(HmWalk *walk)
{
	Assert(walk->pinned_count == 0);
	pfree(walk->sorted);
	if (walk->scratch != NULL)
		pfree(walk->scratch);
	pfree(walk->active);
	if (walk->flipped != NULL)
		pfree(walk->flipped);
	if (walk->copy != NULL)
		pfree(walk->copy);
	hm_btree_values_end(&walk->values);
	hm_btree_keys_end(&walk->keys);
	pfree(walk);
}

/* There is one way to search a page. */
static bool
set_variant(HmWalk *walk, const char *variant)
{
	return strcmp(variant, "portable") == 0;
}

static void
set_snapshot(HmWalk *walk, Snapshot snapshot)
{
	walk->heeds_hints = hm_heeds_hints(snapshot);
}

static void
keep_pins(HmWalk *walk, bool keep)
{
	release_pins(walk);
	walk->keeps_pins = keep;
}

/* ----------------------------------------------------------------
 *		Probes
 * ----------------------------------------------------------------
 */

/* Flip the bits of the probes, so that they are in the order of the pages. */
static void
flip_probes(HmWalk *walk)
{
	const HT_KEY *low = walk->low;
	const HT_KEY *high = walk->high;
	HT_KEY *flipped_low, *flipped_high;

	if (walk->flipped == NULL)
		walk->flipped = MemoryContextAllocHuge(GetMemoryChunkContext(walk),
											   2 * (Size) walk->capacity * sizeof(HT_KEY));
	flipped_low = walk->flipped;
	flipped_high = walk->flipped + walk->capacity;
	for (uint32 i = 0; i < walk->count; i++)
	{
		flipped_low[i] = ~(high == NULL ? low[i] + walk->length : high[i]);
		if (high != NULL)
			flipped_high[i] = ~low[i];
	}
	walk->low = flipped_low;
	walk->high = high == NULL ? NULL : flipped_high;
}

/*
 * Keep one of equal probes, if the batch wants that.  In any case, keep one of the equal values
 * that a probe of the batch has: they are neighbours.
 */
static void
drop_duplicates(HmWalk *walk, bool distinct)
{
	const uint32 *owners = walk->values.owners;
	HtProbe *sorted = walk->sorted;
	uint32 kept = 0;

	for (uint32 i = 0; i < walk->count; i++)
	{
		if (kept > 0 && (distinct || owners[sorted[kept - 1].number] == owners[sorted[i].number]) &&
			!hm_btree_below(&walk->keys, (HmBtreeKey){sorted[kept - 1].key, 0}, sorted[i].key))
			continue;
		sorted[kept++] = sorted[i];
	}
	walk->count = kept;
}

static void
sort_keys(HmWalk *walk)
{
	HtProbe *sorted = walk->sorted;

	ht_psa_start(&walk->psa, walk->low, walk->count, sorted);
	if (walk->psa.largest > walk->scratch_room)
	{
		if (walk->scratch != NULL)
			pfree(walk->scratch);
		walk->scratch_room = walk->psa.largest;
		walk->scratch = MemoryContextAllocHuge(GetMemoryChunkContext(walk),
											   (Size) walk->scratch_room * sizeof(HtProbe));
	}
	while (walk->psa.sorted < walk->count)
		ht_psa_more(&walk->psa, walk->scratch);
}

/* Have the values of probes in the place of keys. */
static void
sort_values(HmWalk *walk, const HmProbes *batch)
{
	hm_btree_values_read(&walk->values, batch);
	walk->count = walk->values.count;
	if (walk->count > walk->capacity)
	{
		/* Several values of an array have the same key. */
		walk->capacity = walk->count;
		walk->sorted = repalloc_huge(walk->sorted, (Size) walk->capacity * sizeof(HtProbe));
		walk->active = repalloc_huge(walk->active, (Size) walk->capacity * sizeof(uint32));
	}
	hm_btree_values_sort(&walk->values, walk->sorted);
	walk->low = (const HT_KEY *) walk->values.values;
	walk->high = NULL;
	walk->length = 0;
}

static void
start_walk(HmWalk *walk, const HmProbes *batch, const uint8 *done, uint32 base)
{
	instr_time start;

	INSTR_TIME_SET_CURRENT(start);
	walk->base = base;
	walk->count = batch->count - base;
	walk->low = hm_key_at(batch->low, sizeof(HT_KEY), base);
	walk->high = batch->high == NULL ? NULL : hm_key_at(batch->high, sizeof(HT_KEY), base);
	walk->length = (HT_KEY) batch->length;
	walk->done = done == NULL ? NULL : done + base;
	if (walk->keys.order != NULL)
		sort_values(walk, batch);
	else
	{
		if (walk->keys.flipped != 0)
			flip_probes(walk);
		sort_keys(walk);
	}
	if (batch->distinct || walk->values.owners != NULL)
		drop_duplicates(walk, batch->distinct);
	walk->next = walk->active_count = 0;
	walk->route.count = walk->route.next = 0;
	walk->on_leaf = false;
	walk->stats->sort_ns += hm_ns_since(start);
}

/* The key that a probe ends with.  Its first one is passed: to read it may take long. */
static inline HT_KEY
probe_high(const HmWalk *walk, uint32 probe, HT_KEY low)
{
	return walk->high == NULL ? low + walk->length : walk->high[probe];
}

static inline HT_KEY
active_high(const HmWalk *walk, uint32 probe)
{
	return probe_high(walk, probe, walk->high == NULL ? walk->low[probe] : 0);
}

/* The batch's probe that a probe of the walk is of: several values may be of the same one. */
static inline uint32
batch_probe(const HmWalk *walk, uint32 probe)
{
	return walk->values.owners == NULL ? probe : walk->values.owners[probe];
}

static inline bool
is_done(const HmWalk *walk, uint32 probe)
{
	return walk->done != NULL && walk->done[batch_probe(walk, probe)] != 0;
}

/* ----------------------------------------------------------------
 *		Leaves
 * ----------------------------------------------------------------
 */

/* Drop active probes that the caller has marked as done, and those that are next. */
static void
drop_done(HmWalk *walk)
{
	uint32 kept = 0;

	if (walk->done == NULL)
		return;
	for (uint32 i = 0; i < walk->active_count; i++)
	{
		if (!is_done(walk, walk->active[i]))
			walk->active[kept++] = walk->active[i];
	}
	walk->active_count = kept;
	while (walk->next < walk->count && is_done(walk, walk->sorted[walk->next].number))
		walk->next++;
}

/* Go to the route's leaf that the next probe begins on.  Returns false if there are no leaves. */
static bool
find_on_route(HmWalk *walk)
{
	HmBtreeRoute *route = &walk->route;

	while (route->next < route->count && route->leaves[route->next].end <= walk->next)
		route->next++;
	if (route->next < route->count)
		return true;
	walk->stats->segments++;
	walk->asked = 0;
	return hm_btree_route(route, &walk->keys, walk->sorted, walk->next, walk->count);
}

/*
 * Prefetch the leaves of the route that come next: those of many probes as a whole, of others what
 * all searches read, which is the page's ends and the line pointers.
 */
static void
look_ahead(HmWalk *walk)
{
	HmBtreeRoute *route = &walk->route;
	int last = Min(route->count, route->next + 1 + LEAVES_AHEAD);

	for (walk->asked = Max(walk->asked, route->next + 1); walk->asked < last; walk->asked++)
	{
		uint32 probes = route->leaves[walk->asked].end - route->leaves[walk->asked - 1].end;

		hm_pin_prefetch_lines(walk->index, route->leaves[walk->asked].block,
							  probes < MANY_PROBES ? FEW_LINES : PG_UINT64_MAX);
	}
}

/* In a damaged index, a downlink or a sibling may be another page, whose tuples have no TIDs. */
static void
check_leaf(const HmWalk *walk, Buffer buffer)
{
	if (!P_ISLEAF(BTPageGetOpaque(BufferGetPage(buffer))))
		ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED),
						errmsg("index \"%s\" contains a page at block %u that should be a leaf",
							   RelationGetRelationName(walk->index), BufferGetBlockNumber(buffer)),
						errhint("Please REINDEX it.")));
}

/* Lock the next leaf that has to be visited; returns InvalidBuffer if there is none. */
static Buffer
lock_next_leaf(HmWalk *walk)
{
	Buffer buffer;

	drop_done(walk);
	if (walk->active_count > 0)
	{
		HM_FAULT(lookup_going_right);
		buffer = hm_btree_read(walk->index, walk->right);
		if (P_IGNORE(BTPageGetOpaque(BufferGetPage(buffer))))
			buffer = hm_btree_step_right(walk->index, buffer);
		return buffer;
	}
	if (walk->next == walk->count || !find_on_route(walk))
		return InvalidBuffer;
	HM_FAULT(lookup_planned);
	look_ahead(walk);
	buffer = hm_btree_read(walk->index, walk->route.leaves[walk->route.next].block);
	return hm_btree_go_right(&walk->keys, buffer, walk->sorted[walk->next].key);
}

/* Begin to answer on a leaf: find the probes that begin on it. */
static void
begin_leaf(HmWalk *walk, Page page)
{
	HmBtreeKey end = hm_btree_page_end(&walk->keys, page);

	walk->on_leaf = true;
	walk->right = BTPageGetOpaque(page)->btpo_next;
	walk->group_begin = walk->next;
	walk->group_end = hm_btree_begin_until(&walk->keys, walk->sorted, walk->next, walk->count, end);
	walk->next = walk->group_end;
	walk->answered = 0;
	walk->floor = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	walk->offset = InvalidOffsetNumber;
}

/* Return the hits of an entry for a probe.  Returns false if not all fit. */
static bool
add_hits(HmWalk *walk, IndexTuple tuple, uint32 probe, HT_KEY key, Output *output)
{
	int count = BTreeTupleIsPosting(tuple) ? BTreeTupleGetNPosting(tuple) : 1;

	for (; walk->posting < count; walk->posting++)
	{
		ItemPointer tid =
			count > 1 ? BTreeTupleGetPostingN(tuple, walk->posting) : BTreeTupleGetHeapTID(tuple);

		if (output->n == output->max)
			return false;
		if (output->keys != NULL)
			output->keys[output->n] = key ^ walk->keys.flipped;
		output->hits[output->n++] =
			(HmHit){.tid = hm_tid_pack(tid), .probe = walk->base + batch_probe(walk, probe)};
	}
	walk->posting = 0;
	return true;
}

/*
 * Answer a probe, which ends with this key, on the leaf, from walk->offset on.  Returns false if
 * not all hits fit; then it is to go on from there.  To compare values may take long, so the last
 * of many equal entries is sought.
 */
static bool
answer_probe(HmWalk *walk, Page page, uint32 probe, HT_KEY high, Output *output)
{
	bool by_value = walk->keys.order != NULL;
	OffsetNumber end = by_value ? hm_btree_end(&walk->keys, page, walk->offset, high) :
								  PageGetMaxOffsetNumber(page) + 1;

	for (; walk->offset < end; walk->offset++)
	{
		ItemId item = PageGetItemId(page, walk->offset);
		HmBtreeKey key = hm_btree_key(&walk->keys, page, walk->offset);

		if (!by_value && hm_btree_above(&walk->keys, key, high))
			break;
		if (key.beyond < 0 || (walk->heeds_hints && ItemIdIsDead(item)))
			continue;
		if (!add_hits(walk, (IndexTuple) PageGetItem(page, item), probe, key.key, output))
			return false;
	}
	walk->offset = InvalidOffsetNumber;
	return true;
}

/*
 * Answer what is left to answer on the leaf, from the locked page or a copy.  Returns false if the
 * output is full before the end.
 */
static bool
answer_leaf(HmWalk *walk, Page page, Output *output)
{
	uint32 count = walk->active_count + walk->group_end - walk->group_begin;

	for (; walk->answered < count; walk->answered++)
	{
		const HtProbe *begins = NULL;
		uint32 probe;
		HT_KEY high;

		if (walk->answered < walk->active_count)
		{
			probe = walk->active[walk->answered];
			high = active_high(walk, probe);
		}
		else
		{
			begins = &walk->sorted[walk->group_begin + walk->answered - walk->active_count];
			probe = begins->number;
			high = probe_high(walk, probe, begins->key);
		}
		if (is_done(walk, probe))
		{
			walk->offset = InvalidOffsetNumber;
			walk->posting = 0;
			continue;
		}
		if (walk->offset == InvalidOffsetNumber)
		{
			if (begins != NULL)
				walk->floor = hm_btree_first(&walk->keys, page, walk->floor, begins->key);
			walk->offset = walk->floor;
		}
		if (!answer_probe(walk, page, probe, high, output))
			return false;
	}
	return true;
}

/*
 * The leaf has been answered: keep the probes that go on after it.  Without high keys, the order of
 * those that begin on it is that of their ends.
 */
static void
finish_leaf(HmWalk *walk, Page page)
{
	HmBtreeKey end = hm_btree_page_end(&walk->keys, page);
	uint32 kept = 0;

	for (uint32 i = 0; i < walk->active_count; i++)
	{
		if (!hm_btree_above(&walk->keys, end, active_high(walk, walk->active[i])))
			walk->active[kept++] = walk->active[i];
	}
	for (uint32 i = walk->group_end; i > walk->group_begin; i--)
	{
		const HtProbe *probe = &walk->sorted[i - 1];

		if (!hm_btree_above(&walk->keys, end, probe_high(walk, probe->number, probe->key)))
			walk->active[kept++] = probe->number;
		else if (walk->high == NULL)
			break;
	}
	walk->active_count = kept;
	walk->on_leaf = false;
}

/* Visit the next leaf.  Returns false if nothing is left to visit. */
static bool
visit_leaf(HmWalk *walk, Output *output)
{
	Buffer buffer = lock_next_leaf(walk);
	Page page;

	if (!BufferIsValid(buffer))
	{
		walk->next = walk->count;
		return false;
	}
	check_leaf(walk, buffer);
	page = BufferGetPage(buffer);
	walk->stats->leaves++;
	begin_leaf(walk, page);
	if (answer_leaf(walk, page, output))
		finish_leaf(walk, page);
	else
	{
		if (walk->copy == NULL)
			walk->copy = MemoryContextAlloc(GetMemoryChunkContext(walk), BLCKSZ);
		memcpy(walk->copy, page, BLCKSZ);
	}
	if (walk->keeps_pins)
	{
		_bt_unlockbuf(walk->index, buffer);
		walk->pinned[walk->pinned_count++] = buffer;
	}
	else
		_bt_relbuf(walk->index, buffer);
	return true;
}

static bool
at_end(const HmWalk *walk)
{
	return !walk->on_leaf && walk->active_count == 0 && walk->next >= walk->count;
}

static uint32
next_hits(HmWalk *walk, HmHit *hits, void *keys, uint32 max, uint32 *stale)
{
	Output output = {hits, keys, 0, max};

	if (walk->on_leaf && answer_leaf(walk, (Page) walk->copy, &output))
		finish_leaf(walk, (Page) walk->copy);
	*stale = output.n;
	while (!walk->on_leaf && output.n < max && walk->pinned_count < HM_PINNED_LEAVES &&
		   visit_leaf(walk, &output))
		CHECK_FOR_INTERRUPTS();
	return output.n;
}

const HmWalkMethods hm_btree_methods = {
	.create = create_walk,
	.end = end_walk,
	.set_variant = set_variant,
	.set_snapshot = set_snapshot,
	.start = start_walk,
	.next = next_hits,
	.at_end = at_end,
	.keep_pins = keep_pins,
};
