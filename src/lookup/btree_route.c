/*
 * btree_route.c
 *		Batch lookup in btree indexes: keys of tuples, and the way to the leaves.
 *
 * PostgreSQL's own descent takes the values of a single probe.  This one takes normalised keys,
 * and finds the leaves of many probes on the page above them.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "lookup/btree.h"

void
hm_btree_keys_init(HmBtreeKeys *keys, Relation index)
{
	int16 option = index->rd_indoption[0];

	memset(keys, 0, sizeof(*keys));
	keys->index = index;
	keys->desc = RelationGetDescr(index);
	hm_fields_read(index, &keys->fields);
	if (!hm_btree_has_keys(index->rd_opfamily[0], index->rd_opcintype[0]))
		keys->order = hm_btree_order(index, true);
	else if ((option & INDOPTION_DESC) != 0)
		keys->flipped = ~(HT_KEY) 0;
	keys->nulls_low = (option & INDOPTION_NULLS_FIRST) != 0;
	keys->by_value = TupleDescAttr(keys->desc, 0)->attbyval;
	keys->length = TupleDescAttr(keys->desc, 0)->attlen;
}

void
hm_btree_keys_end(HmBtreeKeys *keys)
{
	if (keys->order != NULL)
		MemoryContextDelete(keys->order->ssup_cxt);
}

HmBtreeKey
hm_btree_key_slowly(const HmBtreeKeys *keys, IndexTuple tuple)
{
	const HmFields *fields = &keys->fields;
	int count = Min(fields->count, (int) BTreeTupleGetNAtts(tuple, keys->index));
	HmKey composed = 0;
	HmBtreeKey result = {0};

	for (int i = 0; i < count; i++)
	{
		const HmField *field = &fields->fields[i];
		bool is_null;
		Datum value = index_getattr(tuple, i + 1, keys->desc, &is_null);

		if (is_null && fields->count == 1)
			return (HmBtreeKey){.beyond = keys->nulls_low ? -1 : 1};
		if (is_null)
		{
			composed |= hm_field_null(field) << field->shift;
			if (field->null_end > 0)
				composed |= ht_key_ones_128(field->shift);
			if (field->null_end != 0)
			{
				count = fields->count;
				break;
			}
		}
		else if (fields->count == 1)
			composed = keys->order != NULL ? (HmKey) value : field->type->normalise(value);
		else
			composed |= hm_field_value(field, field->type->normalise(value)) << field->shift;
	}
	result.key = (HT_KEY) composed ^ keys->flipped;
	if (count == 0)
		result.beyond = -1;
	else if (count < fields->count)
		result.key &= ~(HT_KEY) 0 << fields->fields[count - 1].shift;
	return result;
}

/* Whether the entry at an offset is below a key or, with "equal", not above it. */
static inline bool
is_before(const HmBtreeKeys *keys, Page page, int offset, HT_KEY key, bool equal)
{
	HmBtreeKey entry = hm_btree_key(keys, page, (OffsetNumber) offset);

	return equal ? !hm_btree_above(keys, entry, key) : hm_btree_below(keys, entry, key);
}

static pg_attribute_always_inline OffsetNumber
first_after(const HmBtreeKeys *keys, Page page, OffsetNumber from, HT_KEY key, bool equal)
{
	int end = PageGetMaxOffsetNumber(page) + 1;
	int low = from;
	int step = 1;
	int high = from;
	int middle;

	while (high < end && is_before(keys, page, high, key, equal))
	{
		low = high + 1;
		high += step;
		step *= 2;
	}
	high = Min(high, end);
	HM_BINARY_SEARCH(low, middle, high, is_before(keys, page, middle, key, equal));
	return (OffsetNumber) low;
}

OffsetNumber
hm_btree_first(const HmBtreeKeys *keys, Page page, OffsetNumber from, HT_KEY key)
{
	return first_after(keys, page, from, key, false);
}

OffsetNumber
hm_btree_end(const HmBtreeKeys *keys, Page page, OffsetNumber from, HT_KEY key)
{
	return first_after(keys, page, from, key, true);
}

Buffer
hm_btree_read(Relation index, BlockNumber block)
{
	Buffer buffer = hm_pin(index, block);

	_bt_lockbuf(index, buffer, BT_READ);
	_bt_checkpage(index, buffer);
	return buffer;
}

Buffer
hm_btree_step_right(Relation index, Buffer buffer)
{
	for (;;)
	{
		BTPageOpaque opaque = BTPageGetOpaque(BufferGetPage(buffer));
		BlockNumber right = opaque->btpo_next;

		if (P_RIGHTMOST(opaque))
			elog(ERROR, "fell off the end of index \"%s\"", RelationGetRelationName(index));
		_bt_relbuf(index, buffer);
		CHECK_FOR_INTERRUPTS();
		buffer = hm_btree_read(index, right);
		if (!P_IGNORE(BTPageGetOpaque(BufferGetPage(buffer))))
			return buffer;
	}
}

Buffer
hm_btree_go_right(const HmBtreeKeys *keys, Buffer buffer, HT_KEY key)
{
	for (;;)
	{
		Page page = BufferGetPage(buffer);

		if (!P_IGNORE(BTPageGetOpaque(page)) &&
			!hm_btree_below(keys, hm_btree_page_end(keys, page), key))
			return buffer;
		buffer = hm_btree_step_right(keys->index, buffer);
	}
}

/*
 * The offset of the downlink that a probe with this key follows, from "from" on: the last one that
 * begins below the key.  The first one of a page begins below all keys.  Entries with the key may
 * begin before a downlink that has it, too.
 */
static OffsetNumber
downlink(const HmBtreeKeys *keys, Page page, OffsetNumber from, HT_KEY key)
{
	return OffsetNumberPrev(hm_btree_first(keys, page, OffsetNumberNext(from), key));
}

static BlockNumber
child(Page page, OffsetNumber offset)
{
	return BTreeTupleGetDownLink((IndexTuple) PageGetItem(page, PageGetItemId(page, offset)));
}

/*
 * Descend to the page above the leaf that a probe with this key begins on, or to the root if that
 * is a leaf.  Returns it locked; or InvalidBuffer if the index is empty.
 */
static Buffer
descend(const HmBtreeKeys *keys, HT_KEY key)
{
	Buffer buffer = hm_btree_root(keys->index);

	while (BufferIsValid(buffer))
	{
		Page page;
		BlockNumber next;

		buffer = hm_btree_go_right(keys, buffer, key);
		page = BufferGetPage(buffer);
		if (BTPageGetOpaque(page)->btpo_level <= 1)
			break;
		next = child(page, downlink(keys, page, P_FIRSTDATAKEY(BTPageGetOpaque(page)), key));
		_bt_relbuf(keys->index, buffer);
		CHECK_FOR_INTERRUPTS();
		buffer = hm_btree_read(keys->index, next);
	}
	return buffer;
}

/* Where the leaf of a downlink ends. */
static HmBtreeKey
child_end(const HmBtreeKeys *keys, Page page, OffsetNumber offset)
{
	if (offset < PageGetMaxOffsetNumber(page))
		return hm_btree_key(keys, page, OffsetNumberNext(offset));
	return hm_btree_page_end(keys, page);
}

uint32
hm_btree_begin_until(const HmBtreeKeys *keys, const HtProbe *probes, uint32 from, uint32 count,
					 HmBtreeKey end)
{
	uint32 low = from;
	uint32 high = from;
	uint32 step = 1;
	uint32 middle;

	while (high < count && !hm_btree_below(keys, end, probes[high].key))
	{
		low = high + 1;
		high += Min(step, count - high);
		step *= 2;
	}
	HM_BINARY_SEARCH(low, middle, high, !hm_btree_below(keys, end, probes[middle].key));
	return low;
}

static void
add_leaf(HmBtreeRoute *route, BlockNumber block, uint32 end)
{
	route->leaves[route->count].block = block;
	route->leaves[route->count++].end = end;
}

bool
hm_btree_route(HmBtreeRoute *route, const HmBtreeKeys *keys, const HtProbe *probes, uint32 next,
			   uint32 count)
{
	Buffer buffer = descend(keys, probes[next].key);
	Page page;
	OffsetNumber offset;

	route->count = route->next = 0;
	if (!BufferIsValid(buffer))
		return false;
	page = BufferGetPage(buffer);
	if (P_ISLEAF(BTPageGetOpaque(page)))
		add_leaf(route, BufferGetBlockNumber(buffer), count);
	else
	{
		count = hm_btree_begin_until(keys, probes, next, count, hm_btree_page_end(keys, page));
		offset = P_FIRSTDATAKEY(BTPageGetOpaque(page));
		while (next < count && route->count < HM_BTREE_ROUTE_MAX)
		{
			offset = downlink(keys, page, offset, probes[next].key);
			next = hm_btree_begin_until(keys, probes, next, count, child_end(keys, page, offset));
			add_leaf(route, child(page, offset), next);
		}
	}
	_bt_relbuf(keys->index, buffer);
	return true;
}

HmKey *
hm_btree_bounds(Relation index, int *count)
{
	Buffer buffer = hm_btree_root(index);
	HmKey *bounds = palloc(MaxIndexTuplesPerPage * sizeof(HmKey));
	HmBtreeKeys keys;
	Page page;
	int last;

	hm_btree_keys_init(&keys, index);
	*count = 0;
	if (!BufferIsValid(buffer))
		return bounds;
	page = BufferGetPage(buffer);
	last = P_ISLEAF(BTPageGetOpaque(page)) || keys.order != NULL ? 0 : PageGetMaxOffsetNumber(page);
	for (int i = P_FIRSTDATAKEY(BTPageGetOpaque(page)) + 1; i <= last; i++)
	{
		int offset = keys.flipped == 0 ? i : last + P_FIRSTDATAKEY(BTPageGetOpaque(page)) + 1 - i;
		HmBtreeKey key = hm_btree_key(&keys, page, (OffsetNumber) offset);
		HmKey bound = (HT_KEY) (key.key ^ keys.flipped);

		if (key.beyond == 0 && (*count == 0 || bounds[*count - 1] != bound))
			bounds[(*count)++] = bound;
	}
	_bt_relbuf(index, buffer);
	hm_btree_keys_end(&keys);
	return bounds;
}
