/*
 * foreign_join.h
 *		What the files foreign_join*.c offer to one another.
 */
#ifndef HARMONIA_EXEC_FOREIGN_JOIN_H
#define HARMONIA_EXEC_FOREIGN_JOIN_H

#include "exec/lookup_join.h"

/* What is in a foreign join's custom_private. */
enum HmForeignPrivate
{
	HM_FOREIGN_FLAGS,			/* JoinType, parameter, first rows soon?, inner key on
								 * the left of the operator? */
	HM_FOREIGN_OPERATOR,		/* the operator of the key clause, and its collation */
	HM_FOREIGN_SOURCES,			/* for each column of the scan tuple: the outer plan's
								 * column; or the inner plans', negated */
	HM_FOREIGN_PRIVATE_LENGTH
};

/* What is in custom_exprs: lists of expressions. */
enum HmForeignExprs
{
	HM_FOREIGN_ARGUMENT,		/* the outer side of the key clause */
	HM_FOREIGN_KEY,				/* its inner side */
	HM_FOREIGN_CLAUSE,			/* the key clause, for EXPLAIN */
	HM_FOREIGN_QUALS,			/* the other join clauses */
	HM_FOREIGN_SHARES,			/* for each inner plan: the conditions on keys that it may have
								 * rows of */
	HM_FOREIGN_EXPRS_LENGTH
};

/* No row, or no key. */
#define HM_FOREIGN_NONE		PG_UINT32_MAX

/* One of the distinct keys of a batch, with the outer rows that have it, in their order. */
typedef struct ForeignKey
{
	Datum		value;
	uint32		hash;
	uint32		first_row;
	uint32		last_row;
	uint32		next;			/* the next key of the bucket */
} ForeignKey;

/* The distinct keys of a batch (foreign_join_keys.c). */
typedef struct ForeignKeys
{
	FmgrInfo	hash_outer;
	FmgrInfo	hash_inner;
	FmgrInfo	same;			/* whether two keys of outer rows are equal */
	FmgrInfo	equal;			/* the operator of the key clause */
	bool		inner_left;		/* the inner side's key is its first argument */
	Oid			collation;
	Oid			type;
	int16		length;
	bool		by_value;
	char		align;

	uint32		count;
	uint32		room;
	ForeignKey *keys;
	uint32		bucket_mask;
	uint32	   *buckets;
	Size		copied;			/* bytes of values that are passed by reference */
	MemoryContext context;		/* these, and the array; reset for each batch */
} ForeignKeys;

/* Begin with keys of the outer side of an operator. */
extern void hm_foreign_keys_begin(ForeignKeys *keys, Oid operator, bool inner_left,
								  Oid collation, Oid type);

/* Drop all keys. */
extern void hm_foreign_keys_reset(ForeignKeys *keys);

/* The number of the key with this value, which is added if need be. */
extern uint32 hm_foreign_keys_add(ForeignKeys *keys, Datum value);

/* The number of the key that is equal to an inner row's; HM_FOREIGN_NONE if there is none. */
extern uint32 hm_foreign_keys_find(ForeignKeys *keys, Datum value);

/*
 * An array of the values that satisfy a condition, in keys->context; all if that is NULL.  The
 * condition finds the value as econtext's caseValue.  Returns the number of values; if it is 0,
 * *array is not set.
 */
extern uint32 hm_foreign_keys_array(ForeignKeys *keys, ExprState *condition,
									ExprContext *econtext, Datum *array);

/* The bytes that keys take, with their array. */
extern Size hm_foreign_keys_memory(const ForeignKeys *keys);

/*
 * How many rows of this width a batch can have, about; "columns" of them are kept of each.
 */
extern double hm_foreign_batch_rows(int width, int columns);

#endif							/* HARMONIA_EXEC_FOREIGN_JOIN_H */
