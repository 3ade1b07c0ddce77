/*
 * scantuple.c
 *		The tuples that index-only scans return.
 *
 * A composite key tells the values of those columns that can be returned, but for one value that
 * NULL may share.  The row itself tells which of them it is.  This is as good as an index-only
 * scan: the server looks at rows, too, where they may be invisible.
 */
#include "postgres.h"

#include "access/itup.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/internal.h"
#include "compat.h"

struct HmScanTuple
{
	const HmKeyType *type;		/* of the only column, if it is returned; otherwise NULL */
	IndexTuple	tuple;			/* what was returned last; the value of an only column is stored in
								 * place */
	char	   *tuple_key;
	IndexTuple	null_tuple;		/* all of its columns are NULL */

	/* Of an index with several columns */
	HmFields	fields;
	int			count;			/* columns that are returned */
	int			columns[HM_MAX_KEY_COLUMNS];
	IndexFetchTableData *fetch; /* NULL until a row has to be fetched */
	TupleTableSlot *slot;
};

static HmScanTuple *
begin(Relation index)
{
	HmScanTuple *result = palloc0(sizeof(HmScanTuple));
	Datum		values[INDEX_MAX_KEYS] = {0};
	bool		nulls[INDEX_MAX_KEYS];

	memset(nulls, true, sizeof(nulls));
	result->null_tuple = index_form_tuple(RelationGetDescr(index), values, nulls);
	if (!hm_is_composite(index))
	{
		if (hm_key_type(index)->returnable)
			result->type = hm_key_type(index);
		return result;
	}
	hm_fields_read(index, &result->fields);
	for (int i = 0; i < result->fields.count; i++)
	{
		if (hm_can_return(index, i + 1))
			result->columns[result->count++] = i;
	}
	return result;
}

/* The tuple for a key of an index's only column. */
static IndexTuple
single_tuple(HmScanTuple *tuple, TupleDesc descriptor, HmKey key)
{
	Datum		value = tuple->type->restore(key);
	bool		is_null = false;

	if (tuple->tuple == NULL)
	{
		tuple->tuple = index_form_tuple(descriptor, &value, &is_null);
		tuple->tuple_key = (char *) tuple->tuple + IndexInfoFindDataOffset(tuple->tuple->t_info);
	}
	if (TupleDescAttr(descriptor, 0)->attbyval)
		store_att_byval(tuple->tuple_key, value, TupleDescAttr(descriptor, 0)->attlen);
	else
	{
		memcpy(tuple->tuple_key, DatumGetPointer(value), TupleDescAttr(descriptor, 0)->attlen);
		pfree(DatumGetPointer(value));
	}
	return tuple->tuple;
}

/* Take the values from the table's row.  Returns false if the scan does not see it. */
static bool
fetch_values(IndexScanDesc scan, HmScanTuple *tuple, Datum *values, bool *nulls)
{
	ItemPointerData tid = scan->xs_heaptid;
	bool		call_again = false;

	if (tuple->slot == NULL)
	{
		tuple->slot = table_slot_create(scan->heapRelation, NULL);
		tuple->fetch = hm_index_fetch_begin(scan->heapRelation);
	}
	if (!table_index_fetch_tuple(tuple->fetch, &tid, scan->xs_snapshot, tuple->slot, &call_again,
								 NULL))
		return false;
	for (int i = 0; i < tuple->count; i++)
	{
		int			column = tuple->columns[i];

		values[column] = slot_getattr(tuple->slot,
									  scan->indexRelation->rd_index->indkey.values[column],
									  &nulls[column]);
	}
	return true;
}

/* The tuple for a composite key; NULL if the scan does not see the row. */
static IndexTuple
composite_tuple(IndexScanDesc scan, HmScanTuple *tuple, HmKey key)
{
	Datum		values[INDEX_MAX_KEYS] = {0};
	bool		nulls[INDEX_MAX_KEYS];
	bool		known = true;

	if (tuple->count == 0)
		return tuple->null_tuple;
	memset(nulls, true, sizeof(nulls));
	for (int i = 0; known && i < tuple->count; i++)
	{
		int			column = tuple->columns[i];

		known = hm_field_restore(&tuple->fields.fields[column], key, &values[column],
								 &nulls[column]);
	}
	if (!known && !fetch_values(scan, tuple, values, nulls))
		return NULL;
	if (tuple->tuple != NULL)
		pfree(tuple->tuple);
	tuple->tuple = index_form_tuple(scan->xs_itupdesc, values, nulls);
	return tuple->tuple;
}

bool
hm_scan_tuple(IndexScanDesc scan, HmScanTuple **tuple, HmPart part, HmKey key)
{
	MemoryContext old_context = MemoryContextSwitchTo(GetMemoryChunkContext(scan->opaque));

	if (*tuple == NULL)
		*tuple = begin(scan->indexRelation);
	if ((*tuple)->fields.count > 0)
		scan->xs_itup = composite_tuple(scan, *tuple, key);
	else if (part == HM_PART_KEYS && (*tuple)->type != NULL)
		scan->xs_itup = single_tuple(*tuple, scan->xs_itupdesc, key);
	else
		scan->xs_itup = (*tuple)->null_tuple;
	MemoryContextSwitchTo(old_context);
	return scan->xs_itup != NULL;
}

void
hm_scan_tuple_end(HmScanTuple *tuple)
{
	if (tuple->slot == NULL)
		return;
	table_index_fetch_end(tuple->fetch);
	ExecDropSingleTupleTableSlot(tuple->slot);
}
