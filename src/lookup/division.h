/*
 * division.h
 *		Dividing a batch: what a partial copy can answer, and what is left to the CPU; for the
 *		files of this folder only.
 */
#ifndef HARMONIA_LOOKUP_DIVISION_H
#define HARMONIA_LOOKUP_DIVISION_H

#include "lookup/zones.h"

/* Memory for divided batches of a lookup. */
typedef struct HmDivision HmDivision;

/*
 * A divided batch.  The arrays belong to the division; they are valid until it is used again.  Numbers
 * are those of the caller's probes.
 */
typedef struct HmDividedBatch
{
	HmProbes	resident;		/* all their keys are in resident zones */
	const uint32 *resident_numbers;
	HmProbes	others;
	const uint32 *others_numbers;
} HmDividedBatch;

/* Memory is allocated in that context, when it is needed. */
extern HmDivision *hm_division_create(MemoryContext context, Size key_size);
extern void hm_division_end(HmDivision *division);

/*
 * Divide a batch, and add its probes to the heat of the index's zones.  Unless "numbers" is NULL, it
 * has the numbers of the probes.
 */
extern void hm_divide(HmDivision *division, Relation index, const HmZones *zones, const HmProbes *probes,
					  const uint32 *numbers, HmDividedBatch *divided);

#endif							/* HARMONIA_LOOKUP_DIVISION_H */
