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
#include "access/xlog.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/scan/scanstate.h"
#include "compat.h"

/* A column that is returned. */
typedef struct Returned
{
	int column;  /* its number in the index, from 0 */
	char *place; /* of its value in the tuple returned last; NULL: is NULL there */
	bool by_value;
	int16 length;

	/*
	 * Of a composite key, if the field's values ascend with the column's keys side by side: what
	 * hm_field_restore() finds out again for each row, in a tenth of an index-only scan's time.
	 */
	bool is_simple;
	const HmField *field;
	HmKey mask;
	HmKey null;
	HmKey first; /* the value of key 0, which need not be one of the column's */
} Returned;

struct HmScanTuple
{
	MemoryContext context;
	const HmKeyType *type; /* of the only column, if it is returned; otherwise NULL */
	IndexTuple null_tuple; /* all of its columns are NULL */
	IndexTuple tuple;      /* what was returned last; or NULL */

	HmFields fields; /* of an index with several columns */
	int count;       /* columns that are returned */
	Returned returned[HM_MAX_KEY_COLUMNS];
	IndexFetchTableData *fetch; /* NULL until a row has to be fetched */
	TupleTableSlot *slot;
};

static void
return_column(HmScanTuple *tuple, TupleDesc descriptor, int column)
{
	Returned *returned = &tuple->returned[tuple->count++];
	Form_pg_attribute attribute = TupleDescAttr(descriptor, column);
	const HmField *field = &tuple->fields.fields[column];

	Assert(attribute->attlen > 0);
	returned->column = column;
	returned->by_value = attribute->attbyval;
	returned->length = attribute->attlen;
	if (tuple->type != NULL)
		return;
	returned->is_simple = hm_field_is_returnable(field) && !field->descending && !field->in_gap;
	returned->field = field;
	returned->mask = hm_field_mask(field);
	returned->null = hm_field_null(field);
	returned->first = hm_field_value(field, field->type->least) - field->type->least;
}

static HmScanTuple *
begin(IndexScanDesc scan)
{
	Relation index = scan->indexRelation;
	MemoryContext context = GetMemoryChunkContext(scan->opaque);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	HmScanTuple *result = palloc0(sizeof(HmScanTuple));
	Datum values[INDEX_MAX_KEYS] = {0};
	bool nulls[INDEX_MAX_KEYS];

	memset(nulls, true, sizeof(nulls));
	result->context = context;
	result->null_tuple = index_form_tuple(RelationGetDescr(index), values, nulls);
	if (hm_is_composite(index))
		hm_fields_read(index, &result->fields);
	else if (hm_key_type(index)->returnable)
	{
		result->type = hm_key_type(index);
		return_column(result, RelationGetDescr(index), 0);
	}
	for (int i = 0; i < result->fields.count; i++)
	{
		if (hm_can_return(index, i + 1))
			return_column(result, RelationGetDescr(index), i);
	}
	MemoryContextSwitchTo(old_context);
	return result;
}

/*
 * Form the tuple for a row, and note where its values are: all types that are returned have a fixed
 * length.
 */
static void
form_tuple(HmScanTuple *tuple, TupleDesc descriptor, const Datum *values, const bool *nulls)
{
	MemoryContext old_context = MemoryContextSwitchTo(tuple->context);
	Datum all_values[INDEX_MAX_KEYS] = {0};
	bool all_nulls[INDEX_MAX_KEYS];
	Size offset;

	memset(all_nulls, true, sizeof(all_nulls));
	for (int i = 0; i < tuple->count; i++)
	{
		all_values[tuple->returned[i].column] = values[i];
		all_nulls[tuple->returned[i].column] = nulls[i];
	}
	if (tuple->tuple != NULL)
		pfree(tuple->tuple);
	tuple->tuple = index_form_tuple(descriptor, all_values, all_nulls);

	offset = IndexInfoFindDataOffset(tuple->tuple->t_info);
	for (int i = 0; i < tuple->count; i++)
	{
		Returned *returned = &tuple->returned[i];

		returned->place = NULL;
		if (nulls[i])
			continue;
		offset = att_align_nominal(offset, TupleDescAttr(descriptor, returned->column)->attalign);
		returned->place = (char *) tuple->tuple + offset;
		offset += returned->length;
	}
	MemoryContextSwitchTo(old_context);
}

/*
 * The tuple for a row.  To form one is a third of what an index-only scan does for a row, so
 * values are stored in the last one, if they have places there.
 */
static pg_attribute_always_inline IndexTuple
store_values(HmScanTuple *tuple, TupleDesc descriptor, const Datum *values, const bool *nulls)
{
	for (int i = 0; i < tuple->count; i++)
	{
		const Returned *returned = &tuple->returned[i];

		if (tuple->tuple == NULL || nulls[i] != (returned->place == NULL))
		{
			form_tuple(tuple, descriptor, values, nulls);
			break;
		}
		if (nulls[i])
			continue;
		if (returned->by_value)
			store_att_byval(returned->place, values[i], returned->length);
		else
			memcpy(returned->place, DatumGetPointer(values[i]), returned->length);
	}
	return tuple->tuple;
}

/* The tuple for a key of an index's only column. */
static IndexTuple
single_tuple(HmScanTuple *tuple, TupleDesc descriptor, HmKey key)
{
	Datum value = tuple->type->restore(key);
	bool is_null = false;
	IndexTuple result = store_values(tuple, descriptor, &value, &is_null);

	if (!tuple->returned[0].by_value)
		pfree(DatumGetPointer(value));
	return result;
}

/* Take the values from the table's row.  Returns false if the scan does not see it. */
static bool
fetch_values(IndexScanDesc scan, HmScanTuple *tuple, Datum *values, bool *nulls)
{
	ItemPointerData tid = scan->xs_heaptid;
	bool call_again = false;

	if (tuple->slot == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(tuple->context);

		tuple->slot = table_slot_create(scan->heapRelation, NULL);
		tuple->fetch = hm_index_fetch_begin(scan->heapRelation);
		MemoryContextSwitchTo(old_context);
	}
	if (!table_index_fetch_tuple(tuple->fetch, &tid, scan->xs_snapshot, tuple->slot, &call_again,
								 NULL))
		return false;
	for (int i = 0; i < tuple->count; i++)
	{
		int column = tuple->returned[i].column;

		values[i] = slot_getattr(tuple->slot, scan->indexRelation->rd_index->indkey.values[column],
								 &nulls[i]);
	}
	return true;
}

/* The value of a column in a composite key, as by hm_field_restore(). */
static inline bool
restore(const Returned *returned, HmKey key, Datum *value, bool *is_null)
{
	HmKey number = key >> returned->field->shift & returned->mask;

	if (!returned->is_simple || number == returned->null)
		return hm_field_restore(returned->field, key, value, is_null);
	*value = returned->field->type->restore(number - returned->first);
	*is_null = false;
	return true;
}

/* The tuple for a composite key; NULL if the scan does not see the row. */
static IndexTuple
composite_tuple(IndexScanDesc scan, HmScanTuple *tuple, HmKey key)
{
	Datum values[HM_MAX_KEY_COLUMNS];
	bool nulls[HM_MAX_KEY_COLUMNS];
	bool known = true;

	if (tuple->count == 0)
		return tuple->null_tuple;
	for (int i = 0; known && i < tuple->count; i++)
		known = restore(&tuple->returned[i], key, &values[i], &nulls[i]);
	if (!known && !fetch_values(scan, tuple, values, nulls))
		return NULL;
	return store_values(tuple, scan->xs_itupdesc, values, nulls);
}

bool
hm_scan_tuple(IndexScanDesc scan, HmScanTuple **tuple, HmPart part, HmKey key)
{
	if (*tuple == NULL)
		*tuple = begin(scan);
	if ((*tuple)->fields.count > 0)
		scan->xs_itup = composite_tuple(scan, *tuple, key);
	else if (part == HM_PART_KEYS && (*tuple)->type != NULL)
		scan->xs_itup = single_tuple(*tuple, scan->xs_itupdesc, key);
	else
		scan->xs_itup = (*tuple)->null_tuple;
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

/*
 * Index-only scans need the value bit for bit.  They also need VACUUM to wait for their
 * pins, which replay on a standby does not do.
 *
 * The planner asks this of every index of a table, so nothing is read from the index: a damaged one
 * must not keep the table from being read.  Nor must a partitioned one, which is never scanned, and
 * may be of a type that no index can be built for.  If an index has other fields than new ones get,
 * scans return what its keys do not tell from the table.  So they do not compute expressions.
 */
bool
hm_can_return(Relation index, int attno)
{
	const int key_count = IndexRelationGetNumberOfKeyAttributes(index);
	HmFields fields;

	if (RecoveryInProgress() || index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX)
		return false;

	/* Only a btree's first columns are keys. */
	if (hm_is_btree(index) && attno > hm_key_columns(index))
		return false;
	if (!hm_is_composite(index))
		return hm_key_type(index)->returnable;
	if (index->rd_index->indkey.values[attno - 1] == 0)
		return false;

	/* Included columns are in keys in full, and so are key columns beside them. */
	if (attno > key_count)
		return TupleDescAttr(RelationGetDescr(index), attno - 1)->attbyval;
	if (!hm_column_type(index, attno - 1)->returnable)
		return false;
	if (!hm_is_btree(index) && key_count < IndexRelationGetNumberOfAttributes(index))
		return true;
	hm_fields_plan(index, &fields);
	return hm_field_is_returnable(&fields.fields[attno - 1]);
}
