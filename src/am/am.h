/*
 * am.h
 *		What the harmonia index access method offers to the folders that build on it:
 *		positions, keys, ranges, the way to a segment, and what keeps TIDs valid.
 *
 * doc/ARCHITECTURE.md explains the design, src/am/README the locking and crash rules.
 * Read those first.  format.h has what is on the pages, for those that read pages
 * themselves; the header of each subfolder has what that offers to the others.
 *
 * Conventions: functions raise errors with ereport(); "Errors:" names the SQLSTATEs that
 * belong to this access method.  "No buffer lock" means no content lock of any buffer;
 * pins do not matter.  "A header" is the header page of a segment.
 */
#ifndef HARMONIA_AM_H
#define HARMONIA_AM_H

#include "access/amapi.h"
#include "access/genam.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "storage/buf.h"
#include "storage/itemptr.h"
#include "storage/lock.h"
#include "utils/rel.h"

#include "am/width.h"
#include "compat.h"

/*
 * Binary search.  A condition on "middle" holds for the first of the numbers from low to high - 1,
 * and not for the others.  Sets low to the first for which it does not hold, or to high.
 */
#define HM_BINARY_SEARCH(low, middle, high, condition) \
	do { \
		while ((low) < (high)) \
		{ \
			(middle) = (low) + ((high) - (low)) / 2; \
			if (condition) \
				(low) = (middle) + 1; \
			else \
				(high) = (middle); \
		} \
	} while (0)

/* ----------------------------------------------------------------
 *		Positions and bounds
 * ----------------------------------------------------------------
 */

/*
 * The index is one ordered sequence of entries.  It has up to two parts: the key part,
 * and a NULL part before or after it, as the index's NULLS FIRST or LAST asks.  Entries
 * of a NULL part have key 0.
 */
typedef enum HmPart
{
	HM_PART_NULLS_LOW = 0,
	HM_PART_KEYS = 1,
	HM_PART_NULLS_HIGH = 2
} HmPart;

/* A point in that sequence.  The beginning of a part has key 0 and TID 0. */
typedef struct HmPosition
{
	HtEntry		entry;
	HmPart		part;
} HmPosition;

/* Compare two positions: negative, 0 or positive, as memcmp() does. */
static inline int
hm_position_cmp(HmPosition a, HmPosition b)
{
	if (a.part != b.part)
		return a.part < b.part ? -1 : 1;
	return ht_entry_cmp(a.entry, b.entry);
}

static inline HmPosition
hm_position(HmPart part, HT_KEY key, uint64 tid)
{
	HmPosition	result;

	result.entry.key = key;
	result.entry.tid = tid;
	result.part = part;
	return result;
}

/*
 * A key of any width, where what is done with it is not worth code for each width: keys of values,
 * spans and ranges.  Those of narrower types are the same numbers.
 */
typedef HtKey128 HmKey;

/* A TID as a number that sorts as TIDs do: 32 bits of block number, 16 of offset. */
static inline uint64
hm_tid_pack(ItemPointer tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
hm_tid_unpack(uint64 packed, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (packed >> 16), (OffsetNumber) (packed & 0xFFFF));
}

/* Whether a table can have a row at a TID: its block number and its offset are valid. */
static inline bool
hm_tid_is_valid(uint64 packed)
{
	return OffsetNumberIsValid((OffsetNumber) packed) &&
		BlockNumberIsValid((BlockNumber) (packed >> 16));
}

/* ----------------------------------------------------------------
 *		Keys (keytypes.c): values to normalised keys and back
 * ----------------------------------------------------------------
 */

/*
 * Metapages and plans name a key type by its id: the type's OID, or, for keys that keep more of the order
 * than those of the type's default operator class, one of these, which are no type's.
 */
#define HM_TEXT_C		((Oid) 1)
#define HM_NAME_C		((Oid) 2)

typedef struct HmKeyType
{
	Oid			type;
	HtWidth		width;
	uint8		bits;			/* keys are in the range least..least + 2^bits - 1 */
	uint64		least;			/* 0 if keys have more than 64 bits */

	/*
	 * Whether only equal values have equal keys.  If not, a key that is found says no more
	 * than that the value may be the wanted one, and it has to be compared with it.
	 */
	bool		exact;
	bool		ordered;		/* keys sort as values do */
	bool		returnable;		/* restore() gives the value back bit for bit */

	/* The key of a value.  What it allocates, it frees. */
	HmKey		(*normalise) (Datum value);

	/*
	 * normalise() for count values as an array without NULLs stores them, into an array of
	 * the type's key size (keyarray.h), which may be the same memory if values have that size.
	 * NULL for types that have none.
	 */
	void		(*normalise_all) (const char *values, Size count, void *keys);
	Datum		(*restore) (HmKey key); /* NULL unless returnable; palloc'd if it is passed by
									 * reference */

	/*
	 * If not 0, keys are not ordered, but what is above so many of their lowest bits never falls as
	 * values rise.  The lowest bits are a hash of the value.
	 */
	uint8		hash_bits;
	Oid			id;				/* InvalidOid if it is the type's */

	/*
	 * No value has one of the three keys after the least one.  So a field of as many bits as the keys have
	 * has room for NULL.
	 */
	bool		has_gap;
} HmKeyType;

static inline Oid
hm_key_type_id(const HmKeyType *type)
{
	return OidIsValid(type->id) ? type->id : type->type;
}

/* Whether keys restrict values that are compared with "less than" and its like. */
static inline bool
hm_keys_have_ranges(const HmKeyType *type)
{
	return type->ordered || type->hash_bits > 0;
}

/*
 * Whether a column of a table is NOT NULL in all rows that the active snapshot sees (order.c).  One that is older than the
 * declaration may see NULLs: that of a transaction in REPEATABLE READ, or, in a STABLE function, of the query
 * that calls it.  The caller has locked the table.
 */
extern bool hm_is_not_null(Relation table, AttrNumber column);

/* Whether an index has several columns, included ones among them, and so composite keys (fields.c). */
static inline bool
hm_is_composite(Relation index)
{
	return IndexRelationGetNumberOfAttributes(index) > 1;
}

/*
 * The type whose key an included column of a type gets in a new index: of a domain the type below it, and of all
 * enums anyenum, as operator classes have it.  Values of other types without keys, such as regclass, are kept as
 * integers of their length if they are passed by value.
 */
extern Oid	hm_included_type_oid(Oid type);

/*
 * The id of the key type that a column has, alone, whose operator class has this family and input type.  Types
 * for which it depends on the family have keys for ranges if the family has "less than".  May read the catalogs.
 */
extern Oid	hm_type_id_of_class(Oid family, Oid type);

/*
 * The id of the key type of one of an index's columns, counted from 0, if it were alone; its key type; and that of
 * an index with one column.  They may read the catalogs, so the caller holds no buffer lock, and what is in
 * index->rd_amcache may be freed.  What they say of included columns is for new indexes: ALTER TYPE may keep one
 * that has another type's keys, which hm_fields_read() tells.
 * Errors: feature_not_supported for a type that this method does not support.
 */
extern Oid	hm_column_type_id(Relation index, int column);
extern const HmKeyType *hm_column_type(Relation index, int column);
extern const HmKeyType *hm_key_type(Relation index);

/*
 * The key type with an id, in an index on one column and in one on several; NULL if the type is not
 * supported.  They differ for types whose keys have more than 64 bits: in a composite key
 * these have the beginning and a hash of the value (keyhash.c).
 */
extern const HmKeyType *hm_key_type_lookup(Oid id);
extern const HmKeyType *hm_field_type_lookup(Oid id);

/* ----------------------------------------------------------------
 *		Composite keys (fields.c): those of indexes with several columns
 * ----------------------------------------------------------------
 */

/* Columns of an index at most. */
#define HM_MAX_KEY_COLUMNS		8

/*
 * The bits of a composite key that stand for one column.  The field of an index's only column
 * is all of the key.
 *
 * A field that has one bit more than the keys of its column is "whole": it tells them, and
 * NULL, apart.  If it has as many bits, NULL shares its value with one key, or, if the keys have a gap,
 * takes a place that is closed up there.  If it has fewer, it is "cut", and many keys share each value.
 *
 * Storage has the order of the first column.  A column that has the other direction has a descending field,
 * unless that is cut.
 */
typedef struct HmField
{
	const HmKeyType *type;
	uint8		bits;
	uint8		shift;			/* of the lowest bit, in the key */
	bool		descending;		/* greater keys have lower values */
	bool		in_gap;			/* as many bits as the keys, and NULL has a value of its own */
	bool		nulls_low;		/* if NULL has one: it is below all keys, not above */
} HmField;

typedef struct HmFields
{
	HtWidth		width;			/* of the keys */
	int			count;			/* columns */
	HmField		fields[HM_MAX_KEY_COLUMNS];
} HmFields;

/* Whether a field's values sort as its column's keys do, or the other way round, NULL excepted. */
static inline bool
hm_field_is_ordered(const HmField *field)
{
	return field->bits >= field->type->bits;
}

/* Whether a field tells NULL and all keys apart. */
static inline bool
hm_field_is_whole(const HmField *field)
{
	return field->bits > field->type->bits;
}

/* Whether NULL has a value of its own in a field, at one end. */
static inline bool
hm_field_tells_null(const HmField *field)
{
	return hm_field_is_whole(field) || field->in_gap;
}

static inline HmKey
hm_field_mask(const HmField *field)
{
	return ht_key_ones_128(field->bits);
}

/* Keys, or values of a field, from low to high, both included. */
typedef struct HmSpan
{
	HmKey		low;
	HmKey		high;
} HmSpan;

/* The fields of an index's keys, as its metapage says.  The caller holds no buffer lock. */
extern void hm_fields_read(Relation index, HmFields *fields);

/*
 * The width of an index's keys; above 64 bits, code for 128 serves it.  The caller holds no buffer
 * lock.
 */
extern HtWidth hm_key_width(Relation index);

/*
 * The width that a new index has, which the types of its columns decide.  Nothing is read from the
 * index, so the planner may ask.
 */
extern HtWidth hm_planned_width(Relation index);

/*
 * The same for columns of key types with these ids, all of which are supported.  Those after key_count are
 * included columns.
 */
extern HtWidth hm_width_of_types(const Oid *ids, int key_count, int count);

/*
 * The key of a row's values.  Returns false if the row belongs in the NULL part, where
 * all keys are 0; those of several columns never do.
 */
extern bool hm_row_key(const HmFields *fields, const Datum *values, const bool *isnull,
					   HmKey *key);

/*
 * The value of a field for a key of its column; and for NULL, in a composite key.
 */
extern HmKey hm_field_value(const HmField *field, HmKey key);
extern HmKey hm_field_null(const HmField *field);

/*
 * Add the field's values for an array of keys of its column to as many composite keys.  Returns whether each of
 * these values tells the key: no other one has it, nor NULL.
 */
extern bool hm_field_add_values(const HmField *field, const void *keys, Size count, HmKey *composed);

/* The values of an ordered field for the keys of its column from low to high. */
extern HmSpan hm_field_span(const HmField *field, HmKey low, HmKey high);

/*
 * Whether a field may be given back as a value: all but NULL of a field where that shares its value.
 */
static inline bool
hm_field_is_returnable(const HmField *field)
{
	return field->type->returnable && hm_field_is_ordered(field);
}

/* Whether NULL shares its value of a field with exactly one key. */
static inline bool
hm_field_shares_null(const HmField *field)
{
	return field->bits == field->type->bits && !field->in_gap;
}

/*
 * Whether a column's key has a field's value, of those keys that are looked up, alone: all of them, or all
 * but the one that shares it with NULL.
 */
static inline bool
hm_field_is_exact(const HmField *field)
{
	return field->type->exact && hm_field_is_ordered(field);
}

/*
 * The column's value in a composite key.  Returns false if the key does not tell: the field is
 * not returnable, or this is the value that NULL shares.
 */
extern bool hm_field_restore(const HmField *field, HmKey key, Datum *value, bool *is_null);

/*
 * The method's amcanreturn (handler.c): whether an index can return a column, counted from 1, as
 * an index-only scan needs it.
 */
extern bool hm_can_return(Relation index, int attno);

/* ----------------------------------------------------------------
 *		Memory (memory.c)
 * ----------------------------------------------------------------
 */

/*
 * Allocate memory for an array of any size, above 1 GB too, in the current memory
 * context.  It is backed by huge pages where the system has them (madvise): each page
 * takes a fault when it is first touched, and with small pages those faults took a tenth
 * of the time of a lookup of a million keys.
 */
extern void *hm_alloc_large(Size size);

/* The same in a given context; or, if there is an array already, make it larger. */
extern void *hm_resize_large(MemoryContext context, void *memory, Size size);

/* ----------------------------------------------------------------
 *		Brackets (bracket.c): comparison arguments among a column's keys
 * ----------------------------------------------------------------
 */

/*
 * The keys that bracket a value, in the order that the operators define.  If the column
 * can have the value, first and last are both its key.  If the value falls between two
 * keys, it is between these two: first is the upper one, last the lower one.
 */
typedef struct HmBracket
{
	HmKey		first;			/* the least key that is not below the value */
	HmKey		last;			/* the greatest key that is not above the value */
	bool		has_first;		/* false: the value is above all keys */
	bool		has_last;		/* false: the value is below all keys */
	bool		fuzzy;			/* the value is somewhere in first..last: any
								 * key of these may be below it, equal or above */
	uint8		hash_bits;		/* HmKeyType.hash_bits of the column: first and last are
								 * where equal values are; what is less may be anywhere
								 * among the keys that differ in these bits alone */
} HmBracket;

typedef HmBracket (*HmBracketFunction) (const HmKeyType *column, Datum value);

/*
 * The function that brackets arguments of one type among the keys of a column of another
 * (or the same) type.  NULL if btree's families have no operators for the two types.
 */
extern HmBracketFunction hm_bracket_function(Oid column, Oid argument);

/*
 * The keys from 0 to max that a btree strategy's comparison with a bracketed value
 * accepts, as the range *low to *high, both included.  Returns false if there are none.
 * If the bracket is fuzzy, the range has all keys that may be accepted.
 */
extern bool hm_bracket_range(StrategyNumber strategy, const HmBracket *bracket, HmKey max,
							 HmKey *low, HmKey *high);

/* ----------------------------------------------------------------
 *		Scan keys to ranges (ranges.c), and to keys (columnspans.c)
 * ----------------------------------------------------------------
 */

/*
 * Ranges of positions to be scanned: disjoint, in ascending order.  Both bounds are keys
 * and belong to the range, with all their TIDs.
 */
typedef struct HmRange
{
	HmPart		part;
	HmKey		low;
	HmKey		high;
} HmRange;

/*
 * A condition on a field that ranges of keys do not express: entries match whose field lies in
 * one of the spans, which are disjoint and in ascending order.
 */
typedef struct HmFieldFilter
{
	HmField		field;
	int			count;
	HmSpan	   *spans;
} HmFieldFilter;

typedef struct HmRanges
{
	int			count;
	HmRange    *ranges;			/* palloc'd in the current memory context */
	bool		recheck;		/* the ranges may have entries that do not match,
								 * so the operators must be asked */
	int			filter_count;	/* filters that entries may be tested with, to leave
								 * out some that do not match */
	HmFieldFilter filters[HM_MAX_KEY_COLUMNS];
} HmRanges;

/* Whether a scan key is `= ANY (array)`. */
static inline bool
hm_is_equal_any(ScanKey key)
{
	return (key->sk_flags & SK_SEARCHARRAY) != 0 &&
		key->sk_strategy == BTEqualStrategyNumber;
}

/*
 * Turn the scan keys of an index scan, which are joined by AND, into ranges.  Without any
 * scan key these are all parts.  Contradictions and NULL arguments give no range.
 * Supported are array keys (SK_SEARCHARRAY), IS NULL, IS NOT NULL and all cross-type
 * operators of the operator families.  result->ranges is palloc'd in the current memory
 * context.
 */
extern void hm_ranges_from_keys(Relation index, ScanKey keys, int nkeys, HmRanges *result);

/*
 * The keys that a scan key of the kind `= ANY (array)` names, if each element stands for
 * one key or for none, and no other value has that key.  They are an array of the index's key size
 * (keyarray.h), in the order of the scan key's array, and the same key may come more than once.  Returns false if the scan key is of another kind.  *points is allocated in
 * the current memory context; free it by resetting the context.
 */
extern bool hm_points_from_key(const HmKeyType *type, ScanKey key, void **points,
							   uint32 *count);

/* ----------------------------------------------------------------
 *		Values by their keys (keyvalues.c), where keys are not exact
 * ----------------------------------------------------------------
 */

/* Values that are looked for.  Arrays are palloc'd. */
typedef struct HmKeyValues
{
	uint32		count;			/* keys */
	void	   *keys;			/* in ascending order, each once, of the index's key
								 * size (keyarray.h) */
	uint32	   *first;			/* the first value of each key; and the number of
								 * values */
	Datum	   *values;			/* in the order of their keys */
} HmKeyValues;

/*
 * The values that a scan key of the kind `= ANY (array)` names, and their keys.  Values point
 * into the array, or into a copy of it in the current memory context.
 */
extern void hm_values_from_key(Relation index, ScanKey key, HmKeyValues *result);

/*
 * The function of the operator family's equality of the index's column, on the left, with
 * values of a type (InvalidOid: the column's own), prepared in a memory context.  Call it with
 * the index's collation.
 */
extern void hm_key_equality(Relation index, Oid argument, FmgrInfo *function,
							MemoryContext context);

/* ----------------------------------------------------------------
 *		Segments (directory.c)
 * ----------------------------------------------------------------
 */

typedef enum HmSearch
{
	HM_AT_OR_AFTER,				/* the segment that covers the position; if there
								 * is none, the next one */
	HM_BEFORE					/* the segment that covers what is right before
								 * the position */
} HmSearch;

/*
 * Enter a segment: find it in the directory, read its header and lock it
 * (BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE).  The segment is alive at the time of the
 * call.  If no segment covers the position, *position becomes the beginning of the
 * segment found.  Returns InvalidBuffer if there is no segment in that direction.  The
 * caller holds no buffer lock; on return it holds the header's lock alone, and releases
 * it.
 * Errors: index_corrupted.
 */
extern Buffer hm_segment_enter(Relation index, HmPosition *position,
							   HmSearch search, int lock);

/*
 * The low keys of all segments of the key part, in order, and their number; palloc'd.  The
 * caller holds no buffer lock.
 * Errors: index_corrupted.
 */
extern HmKey *hm_segment_keys(Relation index, int *count);

/* ----------------------------------------------------------------
 *		Damage (damage.c)
 * ----------------------------------------------------------------
 */

/*
 * Report damage, with the hint to REINDEX.  format, and what follows it, make the message.
 * detail is a sentence, or NULL.  Does not return.
 * Errors: index_corrupted.
 */
HM_NORETURN extern void hm_report_damage(const char *detail, const char *format,...)
			pg_attribute_printf(2, 3);

/*
 * Check that a block number found on a page may be read as a block of a segment: it is
 * neither the metapage nor P_NEW, which would extend the file.  A block beyond the end of
 * the file passes; ReadBuffer() reports it.
 * Errors: index_corrupted.
 */
extern void hm_block_check(Relation index, BlockNumber block);

/*
 * Check that a block number found on a page is within the file, for callers that must report
 * a damaged index as such.
 * Errors: index_corrupted.
 */
extern void hm_block_exists_check(Relation index, BlockNumber block);

/*
 * Report an entry whose TID cannot be that of a row.  Does not return.
 * Errors: index_corrupted.
 */
HM_NORETURN extern void hm_tid_report(Relation index, uint64 packed);

/*
 * Check the TID of an entry before it is handed to the server, which expects that a row
 * may be there, and would take an invalid block number for P_NEW.
 * Errors: index_corrupted.
 */
static inline void
hm_tid_check(Relation index, uint64 packed)
{
	if (unlikely(!hm_tid_is_valid(packed)))
		hm_tid_report(index, packed);
}

/*
 * Report that a walk or search makes no progress from a page, which only damage explains.
 * Does not return.
 * Errors: index_corrupted.
 */
HM_NORETURN extern void hm_page_no_progress(Relation index, Buffer buffer);

/* ----------------------------------------------------------------
 *		The visibility gate (locks.c)
 * ----------------------------------------------------------------
 */

/*
 * A backend that trusts a TID together with the visibility map, without a pin on the leaf
 * it was read from, is inside the visibility gate from before it reads the leaf until after
 * it reads the map.  "enter" never waits, and returns the door to leave by.
 */
extern BlockNumber hm_visibility_gate_enter(Relation index);
extern void hm_visibility_gate_leave(Relation index, BlockNumber door);

/*
 * Hits that a lookup may read and look up in the map between entering the gate and leaving
 * it, so that VACUUM does not wait long.
 */
#ifdef HM_SMALL_LIMITS
#define HM_GATE_MAX_HITS		2048
#else
#define HM_GATE_MAX_HITS		(1024 * 1024)
#endif

/* ----------------------------------------------------------------
 *		Hints that entries are dead (hints.c)
 * ----------------------------------------------------------------
 */

/*
 * Whether a lookup with this snapshot gives hints, and leaves out entries that have them.  Not if the snapshot
 * was taken in recovery, or the transaction began there: "dead to all" was about the snapshots of another server.
 */
extern bool hm_heeds_hints(Snapshot snapshot);

/* A row of a heap table that a lookup has found dead to all, and the range that found it. */
typedef struct HmDeadRow
{
	HmKey		low;			/* the row's key is in low..high */
	HmKey		high;
	uint64		tid;
} HmDeadRow;

/*
 * Give hints for the entries of n rows, 1 or more, which are put into another order.  Visits each leaf
 * once, and asks the table again.  Entries that are not found are left out.  The caller heeds
 * hints (hm_heeds_hints()), and holds no buffer lock.
 * Errors: index_corrupted.
 */
extern void hm_give_hints(Relation index, Relation heap, HmDeadRow *rows, int n);

/* ----------------------------------------------------------------
 *		Indexes that a user has named (openindex.c)
 * ----------------------------------------------------------------
 */

/*
 * Open a harmonia index, of which this session can read the pages.  It need not be valid.
 * Errors: undefined_table, wrong_object_type, feature_not_supported for another
 * session's temporary index.
 */
extern Relation hm_inspect_open(Oid oid, LOCKMODE mode);

/* The same, its table first, with the same lock, as queries do. */
extern Relation hm_inspect_open_with_table(Oid oid, LOCKMODE mode, Relation *table);

/* Is an open relation a harmonia index? */
extern bool hm_is_index(Relation relation);

/*
 * Check that all pages of an index are there: a concurrent build may not have written
 * them yet.
 * Errors: object_not_in_prerequisite_state.
 */
extern void hm_inspect_check_valid(Relation index);

/* ----------------------------------------------------------------
 *		The rest
 * ----------------------------------------------------------------
 */

/*
 * Insert this backend's queued entries of an index (batch.c).  The caller holds no buffer
 * lock.
 */
extern void hm_batch_apply(Relation index);

/*
 * The method's amcostestimate (cost.c), by which the planner's description of an index
 * shows that it is one of this method.
 */
extern void hm_cost_estimate(struct PlannerInfo *root, struct IndexPath *path,
							 double loop_count, Cost *startup_cost,
							 Cost *total_cost, Selectivity *selectivity,
							 double *correlation, double *pages);

/*
 * Register the reloptions (options.c), install the hooks and callbacks and define the GUCs
 * (statement.c, moverrequest.c), register the callback that truncates (truncate.c).  Call each once, from
 * _PG_init.
 */
extern void hm_options_init(void);
extern void hm_statement_init(void);
extern void hm_truncate_init(void);
extern void hm_mover_init(void);

/* Install the planner's hook (order.c), from _PG_init, too. */
extern void hm_order_init(void);

/* ----------------------------------------------------------------
 *		Background workers (base/worker.c)
 * ----------------------------------------------------------------
 */

/*
 * Have a background worker of this library run a function, whose argument is the OID of the
 * session's database, and which finds that of a relation in bgw_extra.  The name is shown in
 * pg_stat_activity.  Returns false if max_worker_processes is used up.
 */
extern bool hm_start_worker(const char *function, const char *name, Oid relation);

#endif							/* HARMONIA_AM_H */
