/*
 * tap.h
 *		What the unit tests share: test output, expectations, random numbers.
 */
#ifndef HARMONIA_TAP_H
#define HARMONIA_TAP_H

#include "../../src/tree/tree.h"

/* Seed from the first argument, HARMONIA_TEST_SEED or the time; prints it. */
extern void tap_start(int argc, char **argv);

/* Print the plan; returns the exit status. */
extern int tap_finish(void);

/* A test is a series of expectations and the report that ends it. */
#define expect(good, ...) expect_at(__FILE__, __LINE__, (good), __VA_ARGS__)
extern void expect_at(const char *file, int line, bool good, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
extern void report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Has the current test failed?  Only the first failure is reported. */
extern bool failed(void);

/* In a process of a test: print why it has failed, if it has; returns its exit status. */
extern int process_status(void);

/* How many rounds a random test has: n, or a third of that without HARMONIA_LENGTH=long. */
extern int rnd_rounds(int n);

extern uint64_t rnd(void);

/*
 * Go on with the random numbers of another seed: one that rnd() returned for a process that begins.
 */
extern void rnd_start(uint64_t seed);
extern int rnd_below(int n);
extern uint64_t rnd_tid(void);

/* A TID that so many bytes can store. */
extern uint64_t rnd_tid_of(int bytes);

/* The i-th of TIDs that ascend. */
extern uint64_t ascending_tid(int i);

/* A shape whose base is at either end, at a power of two, or anywhere. */
extern HtLeafShape random_shape(int bits, int tid_bytes);

/* malloc(), but exits if there is no memory */
extern void *allocate(size_t size);

/* for qsort() */
extern int compare_entries(const void *a, const void *b);

static inline HtEntry
make_entry(uint64_t key, uint64_t tid)
{
	HtEntry entry = {key, tid};

	return entry;
}

static inline int
width_bits(HtWidth width)
{
	return 8 * (int) width;
}

/* All tests of a part of the engine, or of the choice between CPU and device. */
extern void test_costs(void);
extern void test_leaf(int bits, int tid_bytes);
extern void test_leaf_damage(int bits, int tid_bytes);
extern void test_hints(int bits, int tid_bytes);
extern void test_shape(void);
extern void test_node(HtWidth width);
extern void test_sort(void);
extern void test_psa(void);
extern void test_search(int bits, int tid_bytes);
extern void test_ntg(void);
extern void test_wide(void);

#endif /* HARMONIA_TAP_H */
