/*
 * device_checks.h
 *		An index on a device, and what its searches find compared with a plain sorted array.
 */
#ifndef HARMONIA_TEST_DEVICE_CHECKS_H
#define HARMONIA_TEST_DEVICE_CHECKS_H

#include "../harmonia_device.h"
#include "model.h"

#define MAX_LEAVES 1500
#define GUARD UINT64_C(0xA5A5A5A5A5A5A5A5) /* stands behind results, and must stay */

extern HdDevice *device;
extern HdKind kind;
extern bool maps_host; /* as in HdInfo */

extern Model model; /* the index under test */
extern HdLeaf *leaves;
extern uint32_t leaf_count;

/* Make a model and an index with its entries, distributed over leaves, some of which stay empty. */
extern HdIndex *make_index(Content content, HtWidth width, int fanout);

/* Convert keys to the width that the device expects.  The result is malloc'd. */
extern void *pack(const uint64_t *keys, int n, HtWidth width);

extern int compare_tids(const void *a, const void *b);

/*
 * Search for keys or ranges, and compare with the model: hits with their probes, with their keys,
 * alone, and counted by a map; and, of distinct points, each entry once, even if several points
 * have its key.
 */
extern void check_pairs(HdIndex *index, HdBatch *batch, const uint64_t *low, const uint64_t *high);
extern void check_distinct(HdIndex *index, HdBatch *batch, const uint64_t *keys);

/* Make a random batch, and do all of that with it. */
extern void check_batch(HdIndex *index, HtWidth width);

/* Make a random batch of n probes in pinned memory, and search for pairs. */
extern void check_pinned_batch(HdIndex *index, HtWidth width, int n);

/* device_lanes.c: batches of up to so many probes on several lanes at once. */
extern void test_lanes(HtWidth width, Content content, int large);

/* device_together.c */
extern void test_together(HtWidth width, Content content);

#endif /* HARMONIA_TEST_DEVICE_CHECKS_H */
