/*
 * open.h
 *		Opening an index that a user has named (open.c).
 */
#ifndef HARMONIA_OPEN_H
#define HARMONIA_OPEN_H

#include "storage/lock.h"
#include "utils/rel.h"

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

#endif							/* HARMONIA_OPEN_H */
