/*
 * btree.h
 *		How lookups search PostgreSQL's btree indexes; for the files of this folder only.
 *
 * btree_walk.c answers a batch by a walk through the leaves, as walk.c does in a harmonia index;
 * btree_route.c finds the way to them.  Pages are PostgreSQL's (access/nbtree.h), which its README
 * explains; what is said here of page deletion, splits and truncated keys follows that.
 *
 * *Keys* are those of the index's first columns (am/keys/btreekeys.c), put in the order of its
 * pages: if the first column is descending, all bits are flipped.  An entry is never above another
 * one that follows it, but entries that differ may have the same key.  If keys do not have that
 * order, the Datums of the first column's values take their place, and are compared as the index's
 * operator class has it.
 */
#ifndef HARMONIA_LOOKUP_BTREE_H
#define HARMONIA_LOOKUP_BTREE_H

#include "access/nbtree.h"
#include "utils/sortsupport.h"

#include "lookup/walk.h"

/* What is needed to read the keys of tuples on an index's pages. */
typedef struct HmBtreeKeys
{
	Relation index;
	TupleDesc desc;
	HmFields fields;
	HT_KEY flipped;    /* bits that are flipped: none or all */
	SortSupport order; /* of values, if they take the place of keys; else NULL */
	bool nulls_low;    /* of a single column: NULLs come first */
	bool by_value;     /* of a single column: how its values are stored */
	int16 length;
} HmBtreeKeys;

/*
 * A key of a tuple, or a place beyond all keys: a NULL of a single column is below or above all of
 * them.
 */
typedef struct HmBtreeKey
{
	HT_KEY key;
	int beyond; /* -1: below all keys, 1: above */
} HmBtreeKey;

/* Compare two values, in the order of the pages. */
static inline int
hm_btree_compare(const HmBtreeKeys *keys, HT_KEY a, HT_KEY b)
{
	SortSupport order = keys->order;

	return order->abbrev_converter == NULL ?
			   ApplySortComparator((Datum) a, false, (Datum) b, false, order) :
			   ApplySortAbbrevFullComparator((Datum) a, false, (Datum) b, false, order);
}

/* Whether the key of a tuple is below that of a probe, and whether it is above. */
static inline bool
hm_btree_below(const HmBtreeKeys *keys, HmBtreeKey key, HT_KEY probe)
{
	if (unlikely(key.beyond != 0))
		return key.beyond < 0;
	return keys->order == NULL ? key.key < probe : hm_btree_compare(keys, key.key, probe) < 0;
}

static inline bool
hm_btree_above(const HmBtreeKeys *keys, HmBtreeKey key, HT_KEY probe)
{
	if (unlikely(key.beyond != 0))
		return key.beyond > 0;
	return keys->order == NULL ? key.key > probe : hm_btree_compare(keys, key.key, probe) > 0;
}

/* Prepare to read keys; and release all memory. */
extern void hm_btree_keys_init(HmBtreeKeys *keys, Relation index);
extern void hm_btree_keys_end(HmBtreeKeys *keys);

/* The key of a tuple whose columns are several, or NULL, or that lacks some. */
extern HmBtreeKey hm_btree_key_slowly(const HmBtreeKeys *keys, IndexTuple tuple);

/*
 * The key of the tuple at an offset of a page; of a pivot tuple, the least one that its columns
 * begin, as those that have been truncated are below all values.
 */
static inline HmBtreeKey
hm_btree_key(const HmBtreeKeys *keys, Page page, OffsetNumber offset)
{
	IndexTuple tuple = (IndexTuple) PageGetItem(page, PageGetItemId(page, offset));
	HmBtreeKey result = {0};
	Datum value;

	if (keys->fields.count > 1 || IndexTupleHasNulls(tuple))
		return hm_btree_key_slowly(keys, tuple);
	value =
		fetch_att((char *) tuple + MAXALIGN(sizeof(IndexTupleData)), keys->by_value, keys->length);
	result.key = keys->order != NULL ?
					 (HT_KEY) value :
					 (HT_KEY) keys->fields.fields[0].type->normalise(value) ^ keys->flipped;
	return result;
}

/* The end of a page: no entry on it or left of it is above that.  Beyond all keys if rightmost. */
static inline HmBtreeKey
hm_btree_page_end(const HmBtreeKeys *keys, Page page)
{
	if (P_RIGHTMOST(BTPageGetOpaque(page)))
		return (HmBtreeKey){.beyond = 1};
	return hm_btree_key(keys, page, P_HIKEY);
}

/*
 * The first offset from "from" on, of a page of the walk, whose entry is not below a key, or above
 * it; or the one after the last.  Gallops, because the next probe's entry is mostly near.
 */
extern OffsetNumber hm_btree_first(const HmBtreeKeys *keys, Page page, OffsetNumber from,
								   HT_KEY key);
extern OffsetNumber hm_btree_end(const HmBtreeKeys *keys, Page page, OffsetNumber from, HT_KEY key);

/*
 * Probes by values (btree_values.c).  A probe of the batch may have several, which become probes of
 * their own.
 */
typedef struct HmBtreeValues
{
	const HmBtreeKeys *keys;
	MemoryContext context; /* holds what follows, until the next batch; NULL if there are none */
	uint32 count;
	Datum *values;
	uint32 *owners; /* the batch's probe of each; NULL if they are the same */
} HmBtreeValues;

/* Prepare for batches, where keys->order is given; and release all memory. */
extern void hm_btree_values_init(HmBtreeValues *values, const HmBtreeKeys *keys);
extern void hm_btree_values_end(HmBtreeValues *values);

/*
 * Take over the values of a batch; and sort them into "sorted", which has room for all, with their
 * Datums in the place of keys.
 */
extern void hm_btree_values_read(HmBtreeValues *values, const HmProbes *batch);
extern void hm_btree_values_sort(const HmBtreeValues *values, HtProbe *sorted);

/*
 * The leaves that the next probes begin on, in order, as a page above them had them.  By the time
 * that a leaf is visited it may have been split, so that a probe begins further right, or deleted,
 * so that it is to be sought further right, too; but never further left.
 */
#define HM_BTREE_ROUTE_MAX 256

typedef struct HmBtreeRoute
{
	int count;
	int next;
	struct
	{
		BlockNumber block;
		uint32 end; /* the first probe that begins after this leaf */
	} leaves[HM_BTREE_ROUTE_MAX];
} HmBtreeRoute;

/*
 * Make a route for sorted probes from number "next" on; there are "count".  Locks one page at a
 * time; holds no lock and no pin on return.  Returns false if the index is empty.
 */
extern bool hm_btree_route(HmBtreeRoute *route, const HmBtreeKeys *keys, const HtProbe *probes,
						   uint32 next, uint32 count);

/* The first of sorted probes, from this one on, that begins after the end of a page; or "count". */
extern uint32 hm_btree_begin_until(const HmBtreeKeys *keys, const HtProbe *probes, uint32 from,
								   uint32 count, HmBtreeKey end);

/*
 * Step right from a page that is locked for reading, to the next one that is in the tree.  Returns
 * that one, locked; "buffer" is released.
 */
extern Buffer hm_btree_step_right(Relation index, Buffer buffer);

/*
 * From a page that is locked for reading, go right to the one that a probe with this key begins on:
 * it may have been split or deleted since something pointed to it.
 */
extern Buffer hm_btree_go_right(const HmBtreeKeys *keys, Buffer buffer, HT_KEY key);

/* Read a page and lock it for reading. Errors: index_corrupted, as PostgreSQL words them. */
extern Buffer hm_btree_read(Relation index, BlockNumber block);

#endif /* HARMONIA_LOOKUP_BTREE_H */
