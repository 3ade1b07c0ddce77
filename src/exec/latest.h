/*
 * latest.h
 *		What the planner half of latest joins tells the executor half.
 */
#ifndef HARMONIA_EXEC_LATEST_H
#define HARMONIA_EXEC_LATEST_H

#include "exec/planner.h"

/* A comparison of a column of the index with a column of the outer rows, as a list of integers. */
typedef struct LatestKey
{
	int column; /* of the index, from 0 */
	int strategy;
	int param; /* of the nested loop, that has the value */
} LatestKey;

/*
 * custom_private of a latest scan: the index, whether it is read backwards, how many rows are
 * wanted, and three integers for each key: those compared for equality first.
 */
enum
{
	LATEST_INDEX,
	LATEST_BACKWARD,
	LATEST_ROWS,
	LATEST_KEYS
};

/* The nodes; latest_plan.c says what each is for. */
extern const CustomScanMethods hm_latest_join_methods;
extern const CustomScanMethods hm_latest_rows_methods;
extern const CustomScanMethods hm_latest_scan_methods;

#endif /* HARMONIA_EXEC_LATEST_H */
