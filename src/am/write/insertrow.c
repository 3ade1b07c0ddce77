/*
 * insertrow.c
 *		aminsert: the entry of one row of a table.
 *
 * The way of an insert: here the row's values become a key.  If the statement is large, the entry
 * waits with others (statement.c, batch.c).  insert.c inserts sorted entries, one or many:
 * lockleaf.c finds and locks the leaf, leafentries.c changes it; if it is full, makeroom.c has it
 * split (split.c), or its segment moved (movement.c) or followed by another one (newsegment.c).
 * What is changed is logged by store/wal.c.
 */
#include "postgres.h"

#include "storage/predicate.h"

#include "am/write/insert.h"

bool
hm_insert_row(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			  IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	HtEntry entry;
	HmKey key;
	HmPart part = HM_PART_KEYS;
	HmFields fields;

	hm_fields_read(index, &fields);
	if (!hm_row_key(&fields, values, isnull, &key))
		part = hm_cache(index, false)->nulls_low ? HM_PART_NULLS_LOW : HM_PART_NULLS_HIGH;
	entry.key = (HT_KEY) key;
	entry.tid = hm_tid_pack(tid);

	if (!hm_statement_queues() || !hm_batch_add(index, heap, info, check, part, &entry, unchanged))
	{
		hm_insert_sorted(index, heap, part, &entry, 1, unchanged);

		/*
		 * index_insert() looked for conflicting readers before the entry was in the
		 * index.  A reader that came between has locked the index and not found the
		 * entry.
		 */
		CheckForSerializableConflictIn(index, NULL, InvalidBlockNumber);
	}
	return false;
}
