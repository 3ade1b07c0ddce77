/*
 * keys.h
 *		Keys: types of keys, fields of composite keys, brackets.  Other folders get it by am.h.
 *
 * The conventions are those of am.h.
 */
#ifndef HARMONIA_AM_KEYS_H
#define HARMONIA_AM_KEYS_H

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "utils/rel.h"
#include "utils/sortsupport.h"

#include "am/width.h"

/*
 * A key of any width: of values, spans and ranges.  Used where a separate version for 64-bit keys
 * would not be faster.  Keys of narrower types are the same numbers.
 */
typedef HtKey128 HmKey;

/* ----------------------------------------------------------------
 *		Keys (keytypes.c): values to normalised keys and back
 * ----------------------------------------------------------------
 */

/*
 * Metapages and plans name a key type by its id: the type's OID, or, for keys that keep more of the
 * order than those of the type's default operator class, one of these, which are no type's.
 */
#define HM_TEXT_C ((Oid) 1)
#define HM_NAME_C ((Oid) 2)

/*
 * The key type of a btree's column for which there is no other: of any type, or with another
 * equality than its type's.  All values have the same key, which says nothing; the values are what
 * is compared (hm_btree_order()).
 */
#define HM_ANY_VALUE ((Oid) 3)

typedef struct HmKeyType
{
	Oid type;
	HtWidth width;
	uint8 bits;   /* keys are in the range least..least + 2^bits - 1 */
	uint64 least; /* 0 if keys have more than 64 bits */

	/*
	 * Whether only equal values have equal keys.  If not, a key that is found says no more
	 * than that the value may be the wanted one, and it has to be compared with it.
	 */
	bool exact;
	bool ordered;    /* keys sort as values do */
	bool returnable; /* restore() gives the value back bit for bit */

	/* The key of a value.  What it allocates, it frees. */
	HmKey (*normalise)(Datum value);

	/*
	 * normalise() for count values as an array without NULLs stores them, into an array of
	 * the type's key size (keyarray.h), which may be the same memory if values have that size.
	 * NULL for types that have none.
	 */
	void (*normalise_all)(const char *values, Size count, void *keys);
	Datum (*restore)(HmKey key); /* NULL unless returnable; palloc'd if it is passed by reference */

	/*
	 * If not 0, keys are not ordered, but what is above so many of their lowest bits never falls as
	 * values rise.  The lowest bits are a hash of the value.
	 */
	uint8 hash_bits;
	Oid id; /* InvalidOid if it is the type's */

	/*
	 * No value has one of the three keys after the least one.  So a field of as many bits as the
	 * keys have has room for NULL.
	 */
	bool has_gap;
} HmKeyType;

static inline Oid
hm_key_type_id(const HmKeyType *type)
{
	return OidIsValid(type->id) ? type->id : type->type;
}

/* Whether values of a type are a column's own, given its key type and the operator's other type. */
static inline bool
hm_is_own_type(const HmKeyType *key_type, Oid type)
{
	return key_type->type == type || key_type->type == HM_ANY_VALUE;
}

/* Whether keys restrict values that are compared with "less than" and its like. */
static inline bool
hm_keys_have_ranges(const HmKeyType *type)
{
	return type->ordered || type->hash_bits > 0;
}

/*
 * How many of a btree index's first key columns, of which the operator families and input types are
 * given, make its keys for lookups (btreekeys.c).  Whether keys of its first column have the order
 * of the index; if not, lookups search by values.  And the id of the key type of a column.
 */
extern int hm_btree_columns(const Oid *families, const Oid *types, int count);
extern bool hm_btree_has_keys(Oid family, Oid type);
extern Oid hm_btree_type_id(Oid family, Oid type, Oid collation);

/*
 * How values of a btree's first column compare, in the order of its pages.  All of it is in a
 * memory context of its own, order->ssup_cxt, which the caller deletes.
 */
extern SortSupport hm_btree_order(Relation index, bool abbreviate);

static inline bool
hm_is_btree(Relation index)
{
	return index->rd_rel->relam == BTREE_AM_OID;
}

/* The number of an index's columns, included ones among them, that its keys are made of. */
static inline int
hm_key_columns(Relation index)
{
	return hm_is_btree(index) ? hm_btree_columns(index->rd_opfamily, index->rd_opcintype,
												 IndexRelationGetNumberOfKeyAttributes(index)) :
								IndexRelationGetNumberOfAttributes(index);
}

/* Whether it has several of them, and so composite keys (fields.c). */
static inline bool
hm_is_composite(Relation index)
{
	return hm_key_columns(index) > 1;
}

/*
 * The type whose key an included column of a type gets in a new index: of a domain the type below
 * it, and of all enums anyenum, as operator classes have it.  Values of other types without keys,
 * such as regclass, are kept as integers of their length if they are passed by value.
 */
extern Oid hm_included_type_oid(Oid type);

/*
 * The id of the key type that a column has, alone, whose operator class has this family and input
 * type.  Types for which it depends on the family have keys for ranges if the family has "less
 * than".  May read the catalogs.
 */
extern Oid hm_type_id_of_class(Oid family, Oid type);

/*
 * The id of the key type of one of an index's columns, counted from 0, if it were alone; and its
 * key type.  They may read the catalogs, so the caller holds no buffer lock, and what is in
 * index->rd_amcache may be freed.  What they say of included columns is for new indexes: ALTER TYPE
 * may keep one that has another type's keys, which hm_fields_read() tells. Errors:
 * feature_not_supported for a type that this method does not support.
 */
extern Oid hm_column_type_id(Relation index, int column);
extern const HmKeyType *hm_column_type(Relation index, int column);

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
#define HM_MAX_KEY_COLUMNS 8

/*
 * The bits of a composite key that stand for one column.  The field of an index's only column
 * is all of the key.
 *
 * A field that has one bit more than the keys of its column is "whole": it tells them, and
 * NULL, apart.  If it has as many bits, NULL shares its value with one key, or, if the keys have a
 * gap, takes a place that is closed up there.  If it has fewer, it is "cut", and many keys share
 * each value.
 *
 * Storage has the order of the first column.  A column that has the other direction has a
 * descending field, unless that is cut.
 */
typedef struct HmField
{
	const HmKeyType *type;
	uint8 bits;
	uint8 shift;     /* of the lowest bit, in the key */
	bool descending; /* greater keys have lower values */
	bool in_gap;     /* as many bits as the keys, and NULL has a value of its own */
	bool nulls_low;  /* if NULL has one: it is below all keys, not above */
	int8 null_end;   /* of a btree, where NULL has none: it shares that of the least key (-1), or of
					  * the greatest (1), and later columns have no values; 0: that of some key */
} HmField;

typedef struct HmFields
{
	HtWidth width; /* of the keys */
	int count;     /* columns */
	HmField fields[HM_MAX_KEY_COLUMNS];
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
	HmKey low;
	HmKey high;
} HmSpan;

/*
 * The width that a new index has, which the types of its columns decide.  Nothing is read from the
 * index, so the planner may ask.
 */
extern HtWidth hm_planned_width(Relation index);

/*
 * The same for columns of key types with these ids, all of which are supported.  Those after
 * key_count are included columns.
 */
extern HtWidth hm_width_of_types(const Oid *ids, int key_count, int count);

/*
 * The key of a row's values.  Returns false if the row belongs in the NULL part, where
 * all keys are 0; those of several columns never do.
 */
extern bool hm_row_key(const HmFields *fields, const Datum *values, const bool *isnull, HmKey *key);

/*
 * The value of a field for a key of its column; and for NULL, in a composite key.
 */
extern HmKey hm_field_value(const HmField *field, HmKey key);
extern HmKey hm_field_null(const HmField *field);

/*
 * Add the field's values for an array of keys of its column to as many composite keys.  Returns
 * whether each of these values tells the key: no other one has it, nor NULL.
 */
extern bool hm_field_add_values(const HmField *field, const void *keys, Size count,
								HmKey *composed);

/* The values of an ordered field for the keys of its column from low to high. */
extern HmSpan hm_field_span(const HmField *field, HmKey low, HmKey high);

/*
 * Whether a field may be given back as a value: all but NULL of a field where that shares its
 * value.
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
 * Whether a column's key has a field's value, of those keys that are looked up, alone: all of them,
 * or all but the one that shares it with NULL.
 */
static inline bool
hm_field_is_exact(const HmField *field)
{
	return field->type->exact && hm_field_is_ordered(field);
}

/* Whether a key has NULL where that hides the values of later columns, or may have. */
static inline bool
hm_field_hides(const HmField *field, HmKey key)
{
	return field->null_end != 0 &&
		   (key >> field->shift & hm_field_mask(field)) == hm_field_null(field);
}

/*
 * The column's value in a composite key.  Returns false if the key does not tell: the field is
 * not returnable, or this is the value that NULL shares.
 */
extern bool hm_field_restore(const HmField *field, HmKey key, Datum *value, bool *is_null);

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
	HmKey first;     /* the least key that is not below the value */
	HmKey last;      /* the greatest key that is not above the value */
	bool has_first;  /* false: the value is above all keys */
	bool has_last;   /* false: the value is below all keys */
	bool fuzzy;      /* the value is somewhere in first..last: any key of these may be below it,
					  * equal or above */
	uint8 hash_bits; /* HmKeyType.hash_bits of the column: first and last are where equal values
					  * are; what is less may be anywhere among the keys that differ in these bits
					  * alone */
} HmBracket;

typedef HmBracket (*HmBracketFunction)(const HmKeyType *column, Datum value);

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
 *		Composite keys (fields.c)
 * ----------------------------------------------------------------
 */

/*
 * How the key of a new index is divided among its columns.
 * Errors: too_many_columns; feature_not_supported.
 */
extern void hm_fields_plan(Relation index, HmFields *fields);

/*
 * The key types that a new index's columns have (hm_column_type()), found for what is done under a
 * lock.  NULL for an included column of a type that is not supported.
 */
typedef struct HmColumnTypes
{
	const HmKeyType *of[HM_MAX_KEY_COLUMNS];
} HmColumnTypes;

extern void hm_column_types(Relation index, HmColumnTypes *types);

/* ----------------------------------------------------------------
 *		Order of columns
 * ----------------------------------------------------------------
 */

/*
 * Where storage, which is read backward if the first column is descending, has a column with an
 * option, one of rd_indoption: whether its greater values come first, and whether NULL does.
 */
static inline bool
hm_option_is_descending(int16 first, int16 option)
{
	return ((first ^ option) & INDOPTION_DESC) != 0;
}

static inline bool
hm_option_has_nulls_low(int16 first, int16 option)
{
	return ((option & INDOPTION_NULLS_FIRST) != 0) != ((first & INDOPTION_DESC) != 0);
}

/* The method's amvalidate (validate.c). */
extern bool hm_validate(Oid opclass);

#endif /* HARMONIA_AM_KEYS_H */
