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
	IndexTuple	null_tuple;		/* all of its columns are NULL */

	/* What was returned last.  Values of the next row are stored there, if the same ones are NULL. */
	IndexTuple	tuple;
	char	   *places[HM_MAX_KEY_COLUMNS]; /* of the values of returned columns; NULL: is NULL */

	HmFields	fields;			/* of an index with several columns */
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
		{
			result->type = hm_key_type(index);
			result->count = 1;
		}
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

/* Form the tuple for a row, and note where its values are: all types that are returned have a fixed length. */
static void
form_tuple(HmScanTuple *tuple, TupleDesc descriptor, const Datum *values, const bool *nulls)
{
	Datum		all_values[INDEX_MAX_KEYS] = {0};
	bool		all_nulls[INDEX_MAX_KEYS];
	Size		offset;

	memset(all_nulls, true, sizeof(all_nulls));
	for (int i = 0; i < tuple->count; i++)
	{
		all_values[tuple->columns[i]] = values[i];
		all_nulls[tuple->columns[i]] = nulls[i];
	}
	if (tuple->tuple != NULL)
		pfree(tuple->tuple);
	tuple->tuple = index_form_tuple(descriptor, all_values, all_nulls);

	offset = IndexInfoFindDataOffset(tuple->tuple->t_info);
	for (int i = 0; i < tuple->count; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, tuple->columns[i]);

		Assert(attribute->attlen > 0);
		tuple->places[i] = NULL;
		if (nulls[i])
			continue;
		offset = att_align_nominal(offset, attribute->attalign);
		tuple->places[i] = (char *) tuple->tuple + offset;
		offset += attribute->attlen;
	}
}

/*
 * The tuple for a row.  To form one anew is a third of what an index-only scan does for a row, so values
 * are stored in the last one, if they have places there.
 */
static IndexTuple
store_values(HmScanTuple *tuple, TupleDesc descriptor, const Datum *values, const bool *nulls)
{
	bool		fits = tuple->tuple != NULL;

	for (int i = 0; fits && i < tuple->count; i++)
		fits = nulls[i] == (tuple->places[i] == NULL);
	if (!fits)
		form_tuple(tuple, descriptor, values, nulls);
	for (int i = 0; i < tuple->count; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, tuple->columns[i]);

		if (nulls[i])
			continue;
		if (attribute->attbyval)
		{
			store_att_byval(tuple->places[i], values[i], attribute->attlen);
			continue;
		}
		memcpy(tuple->places[i], DatumGetPointer(values[i]), attribute->attlen);
	}
	return tuple->tuple;
}

/* The tuple for a key of an index's only column. */
static IndexTuple
single_tuple(HmScanTuple *tuple, TupleDesc descriptor, HmKey key)
{
	Datum		value = tuple->type->restore(key);
	bool		is_null = false;
	IndexTuple	result = store_values(tuple, descriptor, &value, &is_null);

	if (!TupleDescAttr(descriptor, 0)->attbyval)
		pfree(DatumGetPointer(value));
	return result;
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

		values[i] = slot_getattr(tuple->slot, scan->indexRelation->rd_index->indkey.values[column], &nulls[i]);
	}
	return true;
}

/* The tuple for a composite key; NULL if the scan does not see the row. */
static IndexTuple
composite_tuple(IndexScanDesc scan, HmScanTuple *tuple, HmKey key)
{
	Datum		values[HM_MAX_KEY_COLUMNS];
	bool		nulls[HM_MAX_KEY_COLUMNS];
	bool		known = true;

	if (tuple->count == 0)
		return tuple->null_tuple;
	for (int i = 0; known && i < tuple->count; i++)
		known = hm_field_restore(&tuple->fields.fields[tuple->columns[i]], key, &values[i], &nulls[i]);
	if (!known && !fetch_values(scan, tuple, values, nulls))
		return NULL;
	return store_values(tuple, scan->xs_itupdesc, values, nulls);
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
