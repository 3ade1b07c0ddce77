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

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"
#include "utils/uuid.h"

#include "compat.h"
#include "exec/nodes.h"

/* Room is made for so many keys at first, and how many times more if there is none left. */
#define MIN_ROOM 1024
#define ROOM_GROWTH 4

#define SIGN UINT64_C(0x8000000000000000)

void
hm_distinct_begin(HmDistinctKeys *distinct, Size key_size)
{
	*distinct = (HmDistinctKeys){.key_size = key_size};
	distinct->max_room = get_hash_memory_limit() / key_size;
	distinct->max_room = Max(MIN_ROOM, Min(distinct->max_room, PG_INT32_MAX));
	distinct->context = CurrentMemoryContext;
	distinct->group_context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia key groups", ALLOCSET_SMALL_SIZES);
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
	distinct->groups.ends = NIL;
}

Size
hm_distinct_memory(const HmDistinctKeys *distinct)
{
	return distinct->room * distinct->key_size;
}

/*
 * Keys of 64 bits sort as bigints do, if the sign is the other way round.  Wide keys sort as uuids
 * do, whose first byte is the highest one.
 */
static void
put(HmDistinctKeys *distinct, HmKey key)
{
	uint64 words[2] = {pg_hton64((uint64) (key >> 64)), pg_hton64((uint64) key)};

	if (distinct->key_size == sizeof(uint64))
		tuplesort_putdatum(distinct->sort, Int64GetDatum((int64) ((uint64) key ^ SIGN)), false);
	else
		tuplesort_putdatum(distinct->sort, UUIDPGetDatum((pg_uuid_t *) words), false);
}

/*
 * Get the next key from the sort, in order; false at the end.  Up to 15 the sort returns a copy,
 * for which the groups' memory is used: there are no groups.
 */
static bool
get(HmDistinctKeys *distinct, HmKey *key)
{
	MemoryContext old_context = MemoryContextSwitchTo(distinct->group_context);
	Datum value;
	bool is_null;
	bool found = hm_tuplesort_getdatum(distinct->sort, &value, &is_null);

	MemoryContextSwitchTo(old_context);
	if (!found)
		return false;
	if (distinct->key_size == sizeof(uint64))
		*key = (uint64) DatumGetInt64(value) ^ SIGN;
	else
	{
		*key = hm_key_type_lookup(UUIDOID)->normalise(value);
		MemoryContextReset(distinct->group_context);
	}
	return true;
}

/* Hand all keys to a sort. */
static void
begin_sort(HmDistinctKeys *distinct)
{
	MemoryContext old_context = MemoryContextSwitchTo(distinct->context);
	Oid type = distinct->key_size == sizeof(uint64) ? INT8OID : UUIDOID;

	distinct->sort = tuplesort_begin_datum(type, lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr,
										   InvalidOid, false, work_mem, NULL, TUPLESORT_NONE);
	MemoryContextSwitchTo(old_context);
	for (uint32 i = 0; i < distinct->count; i++)
		put(distinct, hm_key_get(distinct->keys, distinct->key_size, i));
	pfree(distinct->keys);
	distinct->keys = NULL;
	distinct->room = distinct->count = 0;
}

/* Make room, or begin to sort: then there is none. */
static void
make_room(HmDistinctKeys *distinct)
{
	Size room = Max(MIN_ROOM, (Size) distinct->room * ROOM_GROWTH);

	if (distinct->room < distinct->max_room)
	{
		distinct->room = (uint32) Min(room, distinct->max_room);
		distinct->keys =
			hm_resize_large(distinct->context, distinct->keys, distinct->room * distinct->key_size);
		return;
	}
	distinct->count = hm_drop_duplicates(distinct->keys, distinct->key_size, distinct->count);
	if (distinct->count > distinct->room / 2)
		begin_sort(distinct);
}

void
hm_distinct_add_slowly(HmDistinctKeys *distinct, HmKey key)
{
	if (distinct->sort == NULL)
		make_room(distinct);
	if (distinct->sort != NULL)
		put(distinct, key);
	else
		hm_key_put(distinct->keys, distinct->key_size, distinct->count++, key);
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
	hm_groups_begin(&distinct->groups, distinct->keys, distinct->key_size, distinct->count);
	MemoryContextSwitchTo(old_context);
}

/* Read the next batch from the sort. */
static void
read_sorted(HmDistinctKeys *distinct, uint32 limit)
{
	HmKey key;

	if (distinct->room < limit)
	{
		distinct->room = limit;
		distinct->keys =
			hm_resize_large(distinct->context, distinct->keys, limit * distinct->key_size);
	}
	distinct->count = 0;
	while (distinct->count < limit && get(distinct, &key))
	{
		CHECK_FOR_INTERRUPTS();
		if (distinct->has_last && key == distinct->last)
			continue;
		distinct->has_last = true;
		distinct->last = key;
		hm_key_put(distinct->keys, distinct->key_size, distinct->count++, key);
	}
}

uint32
hm_distinct_next(HmDistinctKeys *distinct, uint32 limit, void **keys, bool *duplicates)
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
