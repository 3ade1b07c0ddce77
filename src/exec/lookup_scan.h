/*
 * lookup_scan.h
 *		The state of a lookup scan, and what lookup_scan.c and lookup_scan_batch.c offer to
 *		one another.
 */
#ifndef HARMONIA_EXEC_LOOKUP_SCAN_H
#define HARMONIA_EXEC_LOOKUP_SCAN_H

#include "access/skey.h"

#include "exec/nodes.h"

/*
 * An arm: conditions that are combined by AND.  A row is wanted if it satisfies any of
 * the arms.
 */
typedef struct ScanArm
{
	int			count;
	ScanKeyData *keys;
	ExprState **arguments;
} ScanArm;

typedef struct LookupScan
{
	HmNode		node;
	Relation	index;
	Size		key_size;		/* of its keys */
	bool		index_only;
	bool		first_rows;		/* the first rows are wanted soon */
	Bitmapset  *columns;		/* if index_only: the table's columns that are read from rows, */
	Bitmapset  *clause_columns; /* and those of "clauses" */
	int			attribute_count;	/* those that rows of the present ranges need; */
	AttrNumber	attributes[HM_MAX_KEY_COLUMNS];
	bool		chosen;			/* they have been found out, */
	bool		chosen_for_recheck; /* for this value of "recheck" */
	int			arm_count;
	ScanArm    *arms;
	ExprState  *clauses;		/* the conditions of all arms */
	bool		compares_values;	/* a single array is the only condition, and
									 * the fetch compares rows with its values,
									 * because keys are not exact */
	FmgrInfo	equal;			/* compares them */
	HmSubplanKeys *subplan;		/* a sub-select that has the keys, or NULL */
	HmSlices   *slices;			/* NULL if not parallel */

	/* The ranges, in their own memory */
	MemoryContext context;
	bool		started;
	bool		from_subplan;	/* the ranges were read from "subplan" */
	bool		divided;		/* other processes look up some of the ranges */
	bool		recheck;		/* ranges may have keys that do not satisfy the
								 * conditions */
	HmKeyValues values;			/* with compares_values: the values that these keys
								 * stand for, in the same order */
	uint32		count;
	void	   *low;
	void	   *high;			/* NULL: "low" has keys in any order, with
								 * duplicates; */
	HmKey		length;			/* ranges of this length begin there */
	HmKeyGroups groups;			/* of such keys */
	uint32		next;			/* first range that is not looked up yet; of
								 * such keys, first one that is not claimed */
	uint32		end;			/* of the ranges that are claimed */
	uint32		limit;			/* maximum number of ranges in the next
								 * batch */
	uint32		max_limit;

	const HmRun *run;			/* the matches that are being returned, or
								 * NULL */
	uint32		match;			/* the next one of these */
} LookupScan;

/* Compute the ranges from the arguments' present values, and begin with the first one. */
extern void hm_scan_start(LookupScan *scan);

/* Start to look up the next batch of ranges.  Returns false if there are none left. */
extern bool hm_scan_start_batch(LookupScan *scan);

#endif							/* HARMONIA_EXEC_LOOKUP_SCAN_H */
