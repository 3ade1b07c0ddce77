/*
 * base.h
 *		What all rooms need: options, assertions about locks, rows of the functions that show an
 *		index.
 */
#ifndef HARMONIA_AM_BASE_H
#define HARMONIA_AM_BASE_H

#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "am/am.h"

/* ----------------------------------------------------------------
 *		Options (options.c)
 * ----------------------------------------------------------------
 */

/* The method's amoptions. */
extern bytea *hm_options(Datum options, bool validate);

/* The options of an index: those that it was created with, or the defaults. */
extern int hm_fanout(Relation index);
extern int hm_fillfactor(Relation index);

/*
 * The caller holds no lock of a buffer's contents, nor another lock of that kind.  (So a function
 * that reads an index may not be called while PostgreSQL prunes a parallel Append, with assertions;
 * without them it may.)
 */
#define AssertNoContentLock() Assert(InterruptHoldoffCount == 0)

/* ----------------------------------------------------------------
 *		Rows of functions that show an index (resultrows.c): each column is made from text
 * ----------------------------------------------------------------
 */
#define HM_MAX_COLUMNS 24

typedef struct HmRow
{
	int count;
	char *values[HM_MAX_COLUMNS];
} HmRow;

/* A key as a decimal number, palloc'd. */
extern const char *hm_show_key(HmKey key);

/* Add a column to a row. */
extern void hm_show_null(HmRow *row);
extern void hm_show_text(HmRow *row, const char *value);
extern void hm_show_number(HmRow *row, uint64 value);
extern void hm_show_block(HmRow *row, BlockNumber block);
extern void hm_show_tid(HmRow *row, uint64 tid);

/* A time, as text that does not depend on DateStyle; NULL for 0. */
extern void hm_show_time(HmRow *row, TimestampTz time);

/* A bound, as two columns; both are NULL if it does not exist. */
extern void hm_show_bound(HmRow *row, bool exists, HmKey key, uint64 tid);

extern void hm_show_part(HmRow *row, uint32 part);

/* Append a TID to a text. */
extern void hm_append_tid(StringInfo to, uint64 tid);

/* The result of a function that returns one row. */
extern Datum hm_return_row(FunctionCallInfo fcinfo, HmRow *row);

/*
 * The rows of a function that returns many.  The text of a row is freed when it has been
 * added.
 */
typedef struct HmRowSink
{
	ReturnSetInfo *result;
	AttInMetadata *input;
	MemoryContext context;
} HmRowSink;

extern void hm_begin_rows(FunctionCallInfo fcinfo, HmRowSink *sink);
extern void hm_add_row(HmRowSink *sink, HmRow *row);

#endif /* HARMONIA_AM_BASE_H */
