/*
 * keys.h
 *		Keys of values: what the access method's other rooms need beyond am.h.
 */
#ifndef HARMONIA_AM_KEYS_H
#define HARMONIA_AM_KEYS_H

#include "catalog/pg_index.h"

#include "am/am.h"

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
 * The key types that a new index's columns have (hm_column_type()), found for what is done under a lock.  NULL for an
 * included column of a type that is not supported.
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
 * Where storage, which is read backward if the first column is descending, has a column with an option, one
 * of rd_indoption: whether its greater values come first, and whether NULL does.
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

#endif							/* HARMONIA_AM_KEYS_H */
