/*
 * aggregate_groups.c
 *		The table of groups of a lookup aggregate.
 *
 * Groups are numbered in the order in which they are added.  Their records are in chunks, which
 * never move.  A hash table with open addressing leads from keys to numbers.  Keys are passed by
 * value, and of types for which equal values have the same bits.  Those bits of a Datum that the
 * type does not use are left out: functions leave zeros there, and tuples repeat a value's highest
 * bit (fetch_att()). NULLs are equal to one another.
 *
 * The table takes as much memory as a HashAggregate may.  When it is full, rows of other
 * groups are the caller's to keep.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "exec/lookup_aggregate.h"

#define CHUNK_SIZE 65536
#define MIN_SLOTS 256

/* However little memory there is, the table has room for some groups. */
#define MIN_GROUPS 64
#define MAX_GROUPS (1U << 30)

typedef struct GroupSlot
{
	uint32 hash;
	uint32 number; /* of the group, from 1; 0 if the slot is empty */
} GroupSlot;

/* A column of which each group has a value. */
typedef struct GroupColumn
{
	int column;
	int16 length;
	bool by_value;
	Datum used; /* of a key: the bits of a Datum that its type uses; the others may be anything */
} GroupColumn;

/*
 * A record has the values of all columns, the states of all aggregates, and for each
 * column whether its value is NULL.
 */
struct HmGroups
{
	int keys; /* the first columns are keys */
	int column_count;
	GroupColumn *columns;
	Size states_offset;
	Size nulls_offset;
	Size record_size;
	int chunk_shift; /* a chunk has 1 << chunk_shift records */
	char *no_record; /* of rows that have no group */

	uint32 seed;           /* of hashes */
	Size limit;            /* of memory */
	MemoryContext context; /* holds what follows */
	Size kept_memory;      /* of values that are not passed by value */
	uint32 count;
	char **chunks;
	uint32 chunk_room; /* elements of "chunks" */
	GroupSlot *slots;
	uint32 mask; /* number of slots - 1 */
};

bool
hm_groups_can_compare(Oid operator)
{
	switch (get_opcode(operator))
	{
		case F_BOOLEQ:
		case F_CHAREQ:
		case F_INT2EQ:
		case F_INT4EQ:
		case F_INT8EQ:
		case F_OIDEQ:
		case F_CASH_EQ:
		case F_ENUM_EQ:
		case F_DATE_EQ:
		case F_TIME_EQ:
		case F_TIMESTAMP_EQ:
		case F_TIMESTAMPTZ_EQ:
			return true;
		default:
			return false;
	}
}

Size
hm_groups_record_memory(int keys, int kept, int aggregates)
{
	/* At most half of the slots are in use, at least a quarter. */
	return (keys + kept) * (sizeof(Datum) + sizeof(bool)) + aggregates * sizeof(HmAggregateState) +
		   3 * sizeof(GroupSlot);
}

static void
add_columns(HmGroups *groups, List *numbers, TupleDesc desc)
{
	ListCell *cell;

	foreach (cell, numbers)
	{
		GroupColumn *column = &groups->columns[groups->column_count++];
		Form_pg_attribute attribute = TupleDescAttr(desc, lfirst_int(cell) - 1);

		column->column = lfirst_int(cell);
		column->length = attribute->attlen;
		column->by_value = attribute->attbyval;
		column->used = column->length < (int) sizeof(Datum) ?
						   ((Datum) 1 << (8 * column->length)) - 1 :
						   ~(Datum) 0;
	}
}

HmGroups *
hm_groups_create(List *keys, List *kept, int aggregates, TupleDesc desc)
{
	HmGroups *groups = palloc0(sizeof(HmGroups));

	groups->keys = list_length(keys);
	groups->columns = palloc((list_length(keys) + list_length(kept)) * sizeof(GroupColumn));
	add_columns(groups, keys, desc);
	add_columns(groups, kept, desc);
	groups->states_offset = groups->column_count * sizeof(Datum);
	groups->nulls_offset = groups->states_offset + aggregates * sizeof(HmAggregateState);
	groups->record_size = MAXALIGN(groups->nulls_offset + groups->column_count * sizeof(bool));
	while (groups->record_size << (groups->chunk_shift + 1) <= CHUNK_SIZE)
		groups->chunk_shift++;
	groups->no_record = palloc0(groups->record_size);
	groups->context =
		AllocSetContextCreate(CurrentMemoryContext, "harmonia groups", ALLOCSET_DEFAULT_SIZES);
	hm_groups_reset(groups, 0);
	return groups;
}

void
hm_groups_reset(HmGroups *groups, uint32 seed)
{
	MemoryContextReset(groups->context);
	groups->seed = seed;
	groups->limit = get_hash_memory_limit();
	groups->kept_memory = 0;
	groups->count = 0;
	groups->chunk_room = 16;
	groups->chunks = MemoryContextAlloc(groups->context, groups->chunk_room * sizeof(char *));
	groups->mask = MIN_SLOTS - 1;
	groups->slots = MemoryContextAllocZero(groups->context, MIN_SLOTS * sizeof(GroupSlot));
}

uint32
hm_groups_count(const HmGroups *groups)
{
	return groups->count;
}

char *
hm_groups_no_record(const HmGroups *groups)
{
	return groups->no_record;
}

Size
hm_groups_state_offset(const HmGroups *groups, int aggregate)
{
	return groups->states_offset + aggregate * sizeof(HmAggregateState);
}

static inline char *
get_record(const HmGroups *groups, uint32 number)
{
	uint32 in_chunk = number & ((1U << groups->chunk_shift) - 1);

	return groups->chunks[number >> groups->chunk_shift] + in_chunk * groups->record_size;
}

static inline Datum *
record_values(char *record)
{
	return (Datum *) record;
}

static inline bool *
record_nulls(const HmGroups *groups, char *record)
{
	return (bool *) (record + groups->nulls_offset);
}

/* Whether a group has the keys of a row. */
static inline bool
is_group_of(const HmGroups *groups, char *record, const HmColumn *columns, uint32 row)
{
	for (int i = 0; i < groups->keys; i++)
	{
		const HmColumn *column = &columns[groups->columns[i].column - 1];

		if (record_nulls(groups, record)[i] != column->nulls[row] ||
			(!column->nulls[row] &&
			 ((record_values(record)[i] ^ column->values[row]) & groups->columns[i].used) != 0))
			return false;
	}
	return true;
}

/* Whether another group would take more memory than is allowed. */
static bool
is_full(const HmGroups *groups)
{
	Size slots = (Size) groups->mask + 1;
	Size memory =
		groups->count * groups->record_size + groups->kept_memory + slots * sizeof(GroupSlot);

	/* While the hash table grows, there are two. */
	if (groups->count * 2 >= slots)
		memory += 2 * slots * sizeof(GroupSlot);
	return groups->count >= MIN_GROUPS && (memory >= groups->limit || groups->count >= MAX_GROUPS);
}

static void
insert_slot(HmGroups *groups, uint32 hash, uint32 number)
{
	uint32 slot = hash & groups->mask;

	while (groups->slots[slot].number != 0)
		slot = (slot + 1) & groups->mask;
	groups->slots[slot].hash = hash;
	groups->slots[slot].number = number;
}

/* Double the number of slots. */
static void
grow_slots(HmGroups *groups)
{
	GroupSlot *old = groups->slots;
	Size old_count = (Size) groups->mask + 1;

	groups->slots = MemoryContextAllocExtended(groups->context, 2 * old_count * sizeof(GroupSlot),
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	groups->mask = (uint32) (2 * old_count - 1);
	for (Size i = 0; i < old_count; i++)
	{
		if (old[i].number != 0)
			insert_slot(groups, old[i].hash, old[i].number);
	}
	pfree(old);
}

/* Add a record for one more group.  Its states are those of no rows. */
static char *
add_record(HmGroups *groups)
{
	uint32 chunk = groups->count >> groups->chunk_shift;

	if (chunk << groups->chunk_shift == groups->count)
	{
		if (chunk == groups->chunk_room)
		{
			groups->chunk_room *= 2;
			groups->chunks = repalloc_huge(groups->chunks, groups->chunk_room * sizeof(char *));
		}
		groups->chunks[chunk] =
			MemoryContextAllocZero(groups->context, groups->record_size << groups->chunk_shift);
	}
	return get_record(groups, groups->count++);
}

/* Add the group of a row. */
static char *
add_group(HmGroups *groups, const HmColumn *columns, uint32 row, uint32 hash)
{
	char *record;
	MemoryContext old = MemoryContextSwitchTo(groups->context);

	if (groups->count * 2 >= (Size) groups->mask + 1)
		grow_slots(groups);
	record = add_record(groups);
	insert_slot(groups, hash, groups->count);
	for (int i = 0; i < groups->column_count; i++)
	{
		const GroupColumn *column = &groups->columns[i];
		Datum value = columns[column->column - 1].values[row];
		bool is_null = columns[column->column - 1].nulls[row];

		if (!is_null && !column->by_value)
		{
			groups->kept_memory += datumGetSize(value, false, column->length);
			value = datumCopy(value, false, column->length);
		}
		record_values(record)[i] = value;
		record_nulls(groups, record)[i] = is_null;
	}
	MemoryContextSwitchTo(old);
	return record;
}

static void
hash_keys(const HmGroups *groups, const HmColumn *columns, uint32 rows, uint32 *hashes)
{
	for (uint32 row = 0; row < rows; row++)
		hashes[row] = groups->seed;
	for (int i = 0; i < groups->keys; i++)
	{
		const HmColumn *column = &columns[groups->columns[i].column - 1];
		Datum used = groups->columns[i].used;

		for (uint32 row = 0; row < rows; row++)
		{
			uint64 hash = hashes[row] + UINT64CONST(0x9E3779B97F4A7C15);

			if (!column->nulls[row])
				hash ^= (uint64) (column->values[row] & used) * UINT64CONST(0xBF58476D1CE4E5B9);
			hash = (hash ^ hash >> 32) * UINT64CONST(0x94D049BB133111EB);
			hashes[row] = (uint32) (hash >> 32);
		}
	}
}

void
hm_groups_find(HmGroups *groups, const HmColumn *columns, uint32 rows, char **records,
			   uint32 *hashes)
{
	hash_keys(groups, columns, rows, hashes);
	for (uint32 row = 0; row < rows; row++)
	{
		uint32 hash = hashes[row];

		for (uint32 i = hash & groups->mask;; i = (i + 1) & groups->mask)
		{
			const GroupSlot *slot = &groups->slots[i];

			if (slot->number == 0)
			{
				records[row] =
					is_full(groups) ? groups->no_record : add_group(groups, columns, row, hash);
				break;
			}
			if (slot->hash != hash)
				continue;
			records[row] = get_record(groups, slot->number - 1);
			if (is_group_of(groups, records[row], columns, row))
				break;
		}
	}
}

char *
hm_groups_get(const HmGroups *groups, uint32 number, Datum *values, bool *nulls)
{
	char *record = get_record(groups, number);

	for (int i = 0; i < groups->column_count; i++)
	{
		int column = groups->columns[i].column - 1;

		values[column] = record_values(record)[i];
		nulls[column] = record_nulls(groups, record)[i];
	}
	return record;
}
