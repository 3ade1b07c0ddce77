/*
 * am.h
 *		What the harmonia index access method offers to the folders that build on it: positions,
 *		keys (keys/keys.h), ranges, the way to a segment, and what keeps TIDs valid.
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

#include "am/keys/keys.h"
#include "compat.h"

/*
 * Binary search.  A condition on "middle" holds for the first of the numbers from low to high - 1,
 * and not for the others.  Sets low to the first for which it does not hold, or to high.
 */
#define HM_BINARY_SEARCH(low, middle, high, condition) \
	do \
	{ \
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
	HtEntry entry;
	HmPart part;
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
	HmPosition result;

	result.entry.key = key;
	result.entry.tid = tid;
	result.part = part;
	return result;
}

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
 *		What an index says of its keys (metapage.c)
 * ----------------------------------------------------------------
 */

/* The fields of an index's keys, as its metapage says.  The caller holds no buffer lock. */
extern void hm_fields_read(Relation index, HmFields *fields);

/*
 * The width of an index's keys; above 64 bits, code for 128 serves it.  The caller holds no buffer
 * lock.
 */
extern HtWidth hm_key_width(Relation index);

/*
 * The key type of an index with one column.  May read the catalogs; the caller holds no buffer
 * lock. Errors: index_corrupted, if the index was built for keys of another type.
 */
extern const HmKeyType *hm_key_type(Relation index);

/*
 * The method's amcanreturn (scantuple.c): whether an index can return a column, counted from 1, as
 * an index-only scan needs it.
 */
extern bool hm_can_return(Relation index, int attno);

/*
 * Whether a column of a table is NOT NULL in all rows that the active snapshot sees (order.c).  One
 * that is older than the declaration may see NULLs: that of a transaction in REPEATABLE READ, or,
 * in a STABLE function, of the query that calls it.  The caller has locked the table.
 */
extern bool hm_is_not_null(Relation table, AttrNumber column);

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
 *		Scan keys to ranges (ranges.c), and to keys (columnspans.c)
 * ----------------------------------------------------------------
 */

/*
 * Ranges of positions to be scanned: disjoint, in ascending order.  Both bounds are keys
 * and belong to the range, with all their TIDs.
 */
typedef struct HmRange
{
	HmPart part;
	HmKey low;
	HmKey high;
} HmRange;

/*
 * A condition on a field that ranges of keys do not express: entries match whose field lies in
 * one of the spans, which are disjoint and in ascending order.
 */
typedef struct HmFieldFilter
{
	HmField field;
	int count;
	HmSpan *spans;
} HmFieldFilter;

/* Whether a key passes all of these filters. */
static inline bool
hm_passes_filters(const HmFieldFilter *filters, int count, HmKey key)
{
	for (int i = 0; i < count; i++)
	{
		const HmFieldFilter *filter = &filters[i];
		HmKey value = key >> filter->field.shift & hm_field_mask(&filter->field);
		int low = 0, middle, high = filter->count;

		/* The first span that does not end below the value. */
		HM_BINARY_SEARCH(low, middle, high, filter->spans[middle].high < value);
		if (low == filter->count || filter->spans[low].low > value)
			return false;
	}
	return true;
}

typedef struct HmRanges
{
	int count;
	HmRange *ranges;  /* palloc'd in the current memory context */
	bool recheck;     /* the ranges may have entries that do not match, so the operators must be
					   * asked */
	int filter_count; /* filters that entries may be tested with, to leave out some that do not
					   * match */
	HmFieldFilter filters[HM_MAX_KEY_COLUMNS];
} HmRanges;

/* Whether a scan key is `= ANY (array)`. */
static inline bool
hm_is_equal_any(ScanKey key)
{
	return (key->sk_flags & SK_SEARCHARRAY) != 0 && key->sk_strategy == BTEqualStrategyNumber;
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
 * (keyarray.h), in the order of the scan key's array, and the same key may come more than once.
 * Returns false if the scan key is of another kind.  *points is allocated in the current memory
 * context; free it by resetting the context.
 */
extern bool hm_points_from_key(const HmKeyType *type, ScanKey key, void **points, uint32 *count);

/* ----------------------------------------------------------------
 *		Values by their keys (keyvalues.c), where keys are not exact
 * ----------------------------------------------------------------
 */

/* Values that are looked for.  Arrays are palloc'd. */
typedef struct HmKeyValues
{
	uint32 count;  /* keys */
	void *keys;    /* in ascending order, each once, of the index's key size (keyarray.h) */
	uint32 *first; /* the first value of each key; and the number of values */
	Datum *values; /* in the order of their keys */
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
	HM_AT_OR_AFTER, /* the segment that covers the position; if there is none, the next one */
	HM_BEFORE       /* the segment that covers what is right before the position */
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
extern Buffer hm_segment_enter(Relation index, HmPosition *position, HmSearch search, int lock);

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
HM_NORETURN extern void hm_report_damage(const char *detail, const char *format, ...)
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
#define HM_GATE_MAX_HITS 2048
#else
#define HM_GATE_MAX_HITS (1024 * 1024)
#endif

/* ----------------------------------------------------------------
 *		Hints that entries are dead (hints.c)
 * ----------------------------------------------------------------
 */

/*
 * Whether a lookup with this snapshot gives hints, and leaves out entries that have them.  Not if
 * the snapshot was taken in recovery, or the transaction began there: "dead to all" was about the
 * snapshots of another server.
 */
extern bool hm_heeds_hints(Snapshot snapshot);

/* A row of a heap table that a lookup has found dead to all, and the range that found it. */
typedef struct HmDeadRow
{
	HmKey low; /* the row's key is in low..high */
	HmKey high;
	uint64 tid;
} HmDeadRow;

/*
 * Ask a heap table whether the row that a TID leads to is dead to all.  *buffer is the page that
 * was asked last; the caller releases it at the end.  The snapshot is not an MVCC one, so that
 * serializable transactions do not read the row again.
 */
extern bool hm_row_is_dead(Relation heap, uint64 tid, Buffer *buffer);

/*
 * Give hints for the entries of n rows, 1 or more, which are put into another order.  Visits each
 * leaf once, and asks the table again.  Entries that are not found are left out.  The caller heeds
 * hints (hm_heeds_hints()), and holds no buffer lock. Errors: index_corrupted.
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
extern void hm_cost_estimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
							 Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
							 double *correlation, double *pages);

/*
 * The share of an index's entries before which, in key order, is one with another value of the
 * first column; less than 0 if that is not known.  It is that of a sample of leaves, of which at
 * most 33 blocks are read.  The caller has locked the index, and holds no buffer lock.
 */
extern double hm_first_keys_share(Relation index);

/*
 * Register the reloptions (options.c), install the hooks and callbacks and define the GUCs
 * (statement.c, moverrequest.c), register the callback that truncates (truncate.c).  Call each
 * once, from _PG_init.
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

#endif /* HARMONIA_AM_H */
