/*
 * fields.c
 *		Composite keys: those of indexes with several columns.
 *
 * A composite key has 64 bits, or 128 if its columns are of exact types that need more than 64 with
 * NULLs, and no more than 128 without.  Each column has a field of it, the first one the highest
 * bits.  So entries with equal values in the first columns are neighbours.  Where all columns' keys
 * fit, with a bit for NULL, fields are whole.  Where they do not, the widest columns' keys are cut.
 * Types with a gap in their keys, such as dates and times, need no bit for NULL: what is on one
 * side of the gap is moved by one, so that NULL has a value at an end.
 *
 * A cut field has the lowest bits of its column's key, plus a hash of the other bits.  So:
 *
 * - Values whose upper bits are equal have different fields, in the order of the values.  These
 *	 are, in fields of 32 bits, all bigints from 0 to 2^32 - 1, and times within 71
 *	 minutes.  Ids that are given out in order stay neighbours, and leaves that have one tenant's
 *	 ids store them in as few bits as those of an index on the id alone.
 * - Values that differ in their upper bits have the fields of random numbers, so two of them have
 *	 the same one with a probability of 2^-bits, wherever their bits differ.
 *
 * Fields that are not cut have the order of their columns.  Storage is as the first column has it,
 * which is read backwards if that is descending.  Where another column has the other direction, its
 * keys are complemented, and NULL gets the value that its place asks for.
 *
 * What is computed here is on disk, so it must never change.  How many bits a field has, and its
 * direction, are in the metapage, so hm_fields_plan() may.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "am/keys/keys.h"
#include "am/keyarray.h"

/*
 * The bits of all fields together, in keys of 64 bits.  With SMALL_LIMITS they are few, so that
 * many values share theirs with others.
 */
#ifdef HM_SMALL_LIMITS
#define KEY_BITS 12
#else
#define KEY_BITS 64
#endif

#define WIDE_BITS 128

/* The bits of a whole field. */
static inline int
whole_bits(const HmKeyType *type)
{
	return type->bits + 1;
}

/* ----------------------------------------------------------------
 *		How many bits a field has
 * ----------------------------------------------------------------
 */

/*
 * Give whole fields to those columns that need no more than their part.  Returns the number of
 * bits that are left, and in *wide the number of columns that have none yet.
 */
static int
plan_narrow(HmFields *fields, int *wide)
{
	int rest = KEY_BITS;
	bool changed = true;

	*wide = fields->count;
	while (changed && *wide > 0)
	{
		int part = rest / *wide;

		changed = false;
		for (int i = 0; i < fields->count; i++)
		{
			HmField *field = &fields->fields[i];

			if (field->bits > 0 || whole_bits(field->type) > part)
				continue;
			field->bits = (uint8) whole_bits(field->type);
			rest -= field->bits;
			(*wide)--;
			changed = true;
		}
	}
	return rest;
}

/* The bits of the keys of some columns. */
static int
bits_of_types(const Oid *ids, int count)
{
	int bits = 0;

	for (int i = 0; i < count; i++)
		bits += hm_field_type_lookup(ids[i])->bits;
	return bits;
}

/*
 * 64 bits are enough for several columns if they have room for the keys and NULLs of all, and must
 * be if 128 have no room for the keys, or if these would not be exact for all that.  Included
 * columns must have room.
 */
HtWidth
hm_width_of_types(const Oid *ids, int key_count, int count)
{
	bool exact = true;
	int nulls = 0; /* columns that need a bit for NULL */
	int bits;

	if (count == 1)
		return hm_key_type_lookup(ids[0])->width;
	for (int i = 0; i < count; i++)
	{
		exact &= hm_field_type_lookup(ids[i])->exact;
		nulls += i < key_count && !hm_field_type_lookup(ids[i])->has_gap;
	}
	bits = bits_of_types(ids, count);
	return bits + nulls > 64 && bits <= WIDE_BITS && (exact || count > key_count) ? HT_WIDTH128 :
																					HT_WIDTH64;
}

/*
 * The widest columns share what is left.  The first ones get more, because a condition on the first
 * column alone should find few other values: with two, three and four, 32 + 32 bits,
 * 24 + 20 + 20 and 19 + 16 + 14 + 15.
 */
static void
plan_cut(HmFields *fields)
{
	int wide;
	int rest = plan_narrow(fields, &wide);

	for (int i = 0; i < fields->count; i++)
	{
		HmField *field = &fields->fields[i];
		int bits = wide > 1 ? 3 * rest / (2 * wide + 2) : rest;

		if (field->bits > 0)
			continue;
		field->bits = (uint8) Min(bits, whole_bits(field->type));
		rest -= field->bits;
		wide--;
	}
}

/*
 * All columns' keys fit.  The first columns that need one get the bits that are left for NULL, then
 * the others.
 */
static void
plan_whole(HmFields *fields)
{
	int rest = 8 * fields->width;

	for (int i = 0; i < fields->count; i++)
	{
		fields->fields[i].bits = fields->fields[i].type->bits;
		rest -= fields->fields[i].bits;
	}
	for (int i = 0; i < 2 * fields->count && rest > 0; i++)
	{
		HmField *field = &fields->fields[i % fields->count];

		if (field->type->has_gap != (i >= fields->count))
			continue;
		field->bits++;
		rest--;
	}
}

/*
 * Included columns are the last fields of a key, which no condition restricts.  So their values
 * have to be there in full, and there has to be room for all columns.
 */
static void
check_included(Relation index, const Oid *ids, int key_count, int count)
{
	for (int i = key_count; i < count; i++)
	{
		const HmKeyType *type = hm_field_type_lookup(ids[i]);

		if (type == NULL || !type->returnable)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("access method \"%s\" cannot include type %s", "harmonia",
							format_type_be(ids[i])),
					 errhint("Columns of integers, dates, times and other types of at most 64 "
							 "bits that index-only scans can return can be included.")));
	}
	if (count > key_count && bits_of_types(ids, count) > WIDE_BITS)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the columns of index \"%s\" are too wide", RelationGetRelationName(index)),
			 errdetail("Key columns and included columns take %d bits together, %d are possible.",
					   bits_of_types(ids, count), WIDE_BITS),
			 errhint("Include fewer or narrower columns.")));
}

/*
 * Let fields have the order that the key columns' options ask for, as seen from the first column,
 * whose direction is that in which storage is read.  The order of cut fields, and that of types
 * without one, is of no use.
 */
static void
plan_order(Relation index, int key_count, HmFields *fields)
{
	int16 first = index->rd_indoption[0];

	for (int i = 0; i < key_count; i++)
	{
		HmField *field = &fields->fields[i];
		bool nulls_low = hm_option_has_nulls_low(first, index->rd_indoption[i]);

		if (!field->type->ordered || !hm_field_is_ordered(field))
			continue;
		field->descending = hm_option_is_descending(first, index->rd_indoption[i]);
		field->in_gap = field->type->has_gap && !hm_field_is_whole(field);
		field->nulls_low = hm_field_tells_null(field) && nulls_low;
		if (hm_is_btree(index) && !hm_field_tells_null(field))
			field->null_end = nulls_low ? -1 : 1;
	}
}

void
hm_fields_plan(Relation index, HmFields *fields)
{
	const int count = hm_key_columns(index);
	const int key_count = Min(count, IndexRelationGetNumberOfKeyAttributes(index));
	Oid ids[HM_MAX_KEY_COLUMNS];
	int shift = 0;

	*fields = (HmFields){.count = count};
	if (fields->count > HM_MAX_KEY_COLUMNS)
		ereport(ERROR, (errcode(ERRCODE_TOO_MANY_COLUMNS),
						errmsg("access method \"%s\" cannot index more than %d columns", "harmonia",
							   HM_MAX_KEY_COLUMNS),
						errhint("Leave out the last columns: conditions on them are checked in the "
								"table's rows.")));
	for (int i = 0; i < fields->count; i++)
		ids[i] = hm_column_type_id(index, i);
	check_included(index, ids, key_count, fields->count);
	for (int i = 0; i < fields->count; i++)
		fields->fields[i].type = hm_column_type(index, i);
	if (fields->count == 1)
	{
		fields->width = fields->fields[0].type->width;
		fields->fields[0].bits = (uint8) (8 * fields->width);
		return;
	}

	fields->width = hm_width_of_types(ids, key_count, fields->count);
	if (fields->width > HT_WIDTH64 || fields->count > key_count)
		plan_whole(fields);
	else
		plan_cut(fields);
	for (int i = fields->count - 1; i >= 0; i--)
	{
		fields->fields[i].shift = (uint8) shift;
		shift += fields->fields[i].bits;
	}
	plan_order(index, key_count, fields);
}

HtWidth
hm_planned_width(Relation index)
{
	HmFields fields;

	hm_fields_plan(index, &fields);
	return fields.width;
}

/* ----------------------------------------------------------------
 *		Keys
 * ----------------------------------------------------------------
 */

/*
 * A hash of a number; that of 0 is 0.  This is the last step of MurmurHash3.
 */
static inline uint64
mix(uint64 number)
{
	number ^= number >> 33;
	number *= UINT64_C(0xFF51AFD7ED558CCD);
	number ^= number >> 33;
	number *= UINT64_C(0xC4CEB9FE1A85EC53);
	number ^= number >> 33;
	return number;
}

/* What is added to the lowest bits of a key that has these upper bits, in a cut field. */
static inline uint64
offset_of_upper(const HmField *field, uint64 upper)
{
	/* Those of small numbers that are not negative should be 0, so that nothing is added. */
	return mix(upper ^ UINT64_C(1) << (field->type->bits - 1 - field->bits));
}

/*
 * The least value of keys in an ordered field without a gap.  NULL's is the one below if it is low.
 */
static inline HmKey
values_begin(const HmField *field)
{
	return field->nulls_low ? (HmKey) 1 << field->type->bits : 0;
}

/*
 * The middle of the gap in a column's keys, counted from the least one, or from the greatest one if
 * they are descending.
 */
static inline HmKey
gap_of(const HmField *field)
{
	return field->descending ? ht_key_ones_128(field->type->bits) - 2 : 2;
}

/* Close the gap: keys on its side of NULL are moved by one; and open it again. */
static inline HmKey
close_gap(const HmField *field, HmKey key)
{
	return field->nulls_low ? key + (key < gap_of(field)) : key - (key > gap_of(field));
}

static inline HmKey
open_gap(const HmField *field, HmKey value)
{
	return field->nulls_low ? value - (value <= gap_of(field)) : value + (value >= gap_of(field));
}

static pg_attribute_always_inline HmKey
field_value(const HmField *field, HmKey key)
{
	key -= field->type->least;
	if (!hm_field_is_ordered(field))
		return (key + offset_of_upper(field, (uint64) (key >> field->bits))) & hm_field_mask(field);
	if (field->descending)
		key = ht_key_ones_128(field->type->bits) - key;
	return field->in_gap ? close_gap(field, key) : key + values_begin(field);
}

HmKey
hm_field_value(const HmField *field, HmKey key)
{
	return field_value(field, key);
}

HmSpan
hm_field_span(const HmField *field, HmKey low, HmKey high)
{
	HmKey a = hm_field_value(field, low);
	HmKey b = hm_field_value(field, high);

	Assert(hm_field_is_ordered(field));
	return (HmSpan){Min(a, b), Max(a, b)};
}

HmKey
hm_field_null(const HmField *field)
{
	if (hm_field_is_whole(field))
		return field->nulls_low ? values_begin(field) - 1 : (HmKey) 1 << field->type->bits;
	if (field->in_gap)
		return field->nulls_low ? 0 : hm_field_mask(field);
	if (field->null_end != 0)
		return field->null_end < 0 ? 0 : hm_field_mask(field);
	return UINT64_C(0x9E3779B97F4A7C15) & hm_field_mask(field);
}

/* hm_field_add_values() for keys of a size; tells whether one of them has NULL's value. */
static pg_attribute_always_inline bool
add_values_of_size(const HmField *field, const void *keys, Size key_size, Size count,
				   HmKey *composed)
{
	const HmField copy = *field; /* which the loop's stores cannot change */
	HmKey null = hm_field_null(field);
	bool has_null = false;

	for (Size i = 0; i < count; i++)
	{
		HmKey value = field_value(&copy, hm_key_get(keys, key_size, i));

		composed[i] |= value << copy.shift;
		has_null |= value == null;
	}
	return has_null;
}

bool
hm_field_add_values(const HmField *field, const void *keys, Size count, HmKey *composed)
{
	bool has_null = hm_key_size(field->type->width) == sizeof(uint64) ?
						add_values_of_size(field, keys, sizeof(uint64), count, composed) :
						add_values_of_size(field, keys, sizeof(HmKey), count, composed);

	return hm_field_is_exact(field) && !(hm_field_shares_null(field) && has_null);
}

bool
hm_field_restore(const HmField *field, HmKey key, Datum *value, bool *is_null)
{
	HmKey number = key >> field->shift & hm_field_mask(field);

	if (!hm_field_is_returnable(field))
		return false;
	*is_null = number == hm_field_null(field);
	if (*is_null && hm_field_shares_null(field))
		return false;
	if (*is_null)
	{
		*value = (Datum) 0;
		return true;
	}
	number = field->in_gap ? open_gap(field, number) : number - values_begin(field);
	if (field->descending)
		number = ht_key_ones_128(field->type->bits) - number;
	*value = field->type->restore(number + field->type->least);
	return true;
}

bool
hm_row_key(const HmFields *fields, const Datum *values, const bool *isnull, HmKey *key)
{
	*key = 0;
	if (fields->count == 1)
	{
		if (!isnull[0])
			*key = fields->fields[0].type->normalise(values[0]);
		return !isnull[0];
	}
	for (int i = 0; i < fields->count; i++)
	{
		const HmField *field = &fields->fields[i];
		HmKey value = isnull[i] ? hm_field_null(field) :
								  hm_field_value(field, field->type->normalise(values[i]));

		*key |= value << field->shift;
	}
	return true;
}
