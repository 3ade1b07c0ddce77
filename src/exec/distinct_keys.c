/*
 * distinct_keys.c
 *		Collecting keys, of which each is looked up once.
 *
 * As long as the keys fit into the memory of a hash table, they are only collected: the
 * engine drops duplicates within a batch, and batches have no key in common
 * (key_groups.c).  If they do not fit, duplicates are dropped.  If that makes too little
 * room, all keys go to a sort on disk, and come back in order.
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "compat.h"
#include "exec/nodes.h"

#define ST_SORT sort_keys
#define ST_ELEMENT_TYPE uint64
#define ST_COMPARE(a, b) (*(a) < *(b) ? -1 : *(a) > *(b) ? 1 : 0)
#define ST_SCOPE static
#define ST_DEFINE
#define ST_CHECK_FOR_INTERRUPTS
#include "lib/sort_template.h"

/* Room is made for so many keys at first, and how many times more if there is none left. */
#define MIN_ROOM	1024
#define ROOM_GROWTH	4

#define SIGN		UINT64_C(0x8000000000000000)

void
hm_distinct_begin(HmDistinctKeys *distinct)
{
	*distinct = (HmDistinctKeys) {0};
	distinct->max_room = get_hash_memory_limit() / sizeof(uint64);
	distinct->max_room = Max(MIN_ROOM, Min(distinct->max_room, PG_INT32_MAX));
	distinct->context = CurrentMemoryContext;
	distinct->group_context = AllocSetContextCreate(CurrentMemoryContext, "harmonia key groups",
													ALLOCSET_SMALL_SIZES);
}

void
hm_distinct_reset(HmDistinctKeys *distinct)
{
	if (distinct->sort != NULL)
		tuplesort_end(distinct->sort);
	distinct->sort = NULL;
	distinct->has_last = false;
	distinct->count = 0;
	distinct->finished = false;
	MemoryContextReset(distinct->group_context);
}

Size
hm_distinct_memory(const HmDistinctKeys *distinct)
{
	return distinct->room * sizeof(uint64);
}

/* Drop duplicates. */
static void
drop_duplicates(HmDistinctKeys *distinct)
{
	uint64	   *keys = distinct->keys;
	uint32		kept = 0;

	sort_keys(keys, distinct->count);
	for (uint32 i = 1; i < distinct->count; i++)
	{
		if (keys[i] != keys[kept])
			keys[++kept] = keys[i];
	}
	distinct->count = kept + 1;
}

/* Keys sort as bigints do, if the sign is the other way round. */
static inline void
put(HmDistinctKeys *distinct, uint64 key)
{
	tuplesort_putdatum(distinct->sort, Int64GetDatum((int64) (key ^ SIGN)), false);
}

/* Hand all keys to a sort. */
static void
begin_sort(HmDistinctKeys *distinct)
{
	MemoryContext old_context = MemoryContextSwitchTo(distinct->context);

	distinct->sort = tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false,
										   work_mem, NULL, TUPLESORT_NONE);
	MemoryContextSwitchTo(old_context);
	for (uint32 i = 0; i < distinct->count; i++)
		put(distinct, distinct->keys[i]);
	pfree(distinct->keys);
	distinct->keys = NULL;
	distinct->room = distinct->count = 0;
}

/* Make room, or begin to sort: then there is none. */
static void
make_room(HmDistinctKeys *distinct)
{
	Size		room = Max(MIN_ROOM, (Size) distinct->room * ROOM_GROWTH);

	if (distinct->room < distinct->max_room)
	{
		distinct->room = (uint32) Min(room, distinct->max_room);
		distinct->keys = hm_resize_large(distinct->context, distinct->keys,
										 distinct->room * sizeof(uint64));
		return;
	}
	drop_duplicates(distinct);
	if (distinct->count > distinct->room / 2)
		begin_sort(distinct);
}

void
hm_distinct_add_slowly(HmDistinctKeys *distinct, uint64 key)
{
	if (distinct->sort == NULL)
		make_room(distinct);
	if (distinct->sort != NULL)
		put(distinct, key);
	else
		distinct->keys[distinct->count++] = key;
}

/* All keys have been added. */
static void
finish(HmDistinctKeys *distinct)
{
	MemoryContext old_context;

	distinct->finished = true;
	if (distinct->sort != NULL)
	{
		tuplesort_performsort(distinct->sort);
		return;
	}
	old_context = MemoryContextSwitchTo(distinct->group_context);
	hm_groups_begin(&distinct->groups, distinct->keys, distinct->count);
	MemoryContextSwitchTo(old_context);
}

/* Read the next batch from the sort. */
static void
read_sorted(HmDistinctKeys *distinct, uint32 limit)
{
	Datum		value;
	bool		is_null;

	if (distinct->room < limit)
	{
		distinct->room = limit;
		distinct->keys = hm_resize_large(distinct->context, distinct->keys,
										 limit * sizeof(uint64));
	}
	distinct->count = 0;
	while (distinct->count < limit &&
		   hm_tuplesort_getdatum(distinct->sort, &value, &is_null))
	{
		uint64		key = (uint64) DatumGetInt64(value) ^ SIGN;

		CHECK_FOR_INTERRUPTS();
		if (distinct->has_last && key == distinct->last)
			continue;
		distinct->has_last = true;
		distinct->last = key;
		distinct->keys[distinct->count++] = key;
	}
}

uint32
hm_distinct_next(HmDistinctKeys *distinct, uint32 limit, uint64 **keys, bool *duplicates)
{
	if (!distinct->finished)
		finish(distinct);
	*duplicates = distinct->sort == NULL;
	if (distinct->sort == NULL)
		return hm_groups_next(&distinct->groups, limit, keys);
	read_sorted(distinct, limit);
	*keys = distinct->keys;
	return distinct->count;
}
