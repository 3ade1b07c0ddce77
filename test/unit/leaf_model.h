/*
 * leaf_model.h
 *		Leaf pages under test, each with a sorted array of what it should hold.
 */
#ifndef HARMONIA_LEAF_MODEL_H
#define HARMONIA_LEAF_MODEL_H

#include "../../src/tree/tree.h"

/* A page, what it should hold, and what it held when it was last logged. */
typedef struct Leaf
{
	HtLeafShape shape;
	char *allocation;
	char *page; /* aligned to 8 bytes, not to 16 */
	char *logged;
	HtLeafChange change;
	HtEntry model[HT_LEAF_MAX_ENTRIES];
	int n;
	size_t bytes; /* logged so far */
} Leaf;

typedef enum Pattern
{
	RANDOM_KEYS,
	ASCENDING,
	DESCENDING,
	NARROW, /* so few keys and TIDs that entries repeat */
	ONE_KEY,
	ONE_KEY_ASCENDING,
	MAX_KEY,
	EXTREMES,  /* 0, 1, max - 1, max */
	RUNS,      /* ascending, from starts that change */
	FIRST_KEY, /* mostly the first of a few keys, with ascending TIDs */
	N_PATTERNS
} Pattern;

/* A leaf of a class, with a random base. */
extern Leaf *leaf_create(int bits, int tid_bytes);
extern void leaf_free(Leaf *leaf);

/*
 * Change both page and model.  leaf_insert() expects the right result; leaf_fill() fills
 * the page again with the first n of the model's entries, leaf_remove_some() removes some.
 */
extern HtInsertResult leaf_insert(Leaf *leaf, HtEntry entry);
extern void leaf_remove_some(Leaf *leaf);
extern void leaf_fill(Leaf *leaf, int n);

/* Expect that page and model agree: on all entries, on a range of keys. */
extern void leaf_verify(const Leaf *leaf);
extern void leaf_expect_range(const Leaf *leaf, uint64_t low, uint64_t high);

/*
 * Expect that so many entries of a range as are enough are the first ones of "all", of which there
 * are "count".
 */
extern void leaf_expect_some(const Leaf *leaf, uint64_t low, uint64_t high, bool live,
							 const HtEntry *all, int count);

/* Expect that nothing was written outside of the engine's part of the page, or into its hole. */
extern void leaf_expect_foreign(const Leaf *leaf);

/* Make the hole what leaf_expect_foreign() expects. */
extern void leaf_paint_hole(Leaf *leaf);

/* Expect that the byte ranges of the changes since the last call contain all changes. */
extern void leaf_log(Leaf *leaf);

/* A key to search for: random, on the page, or next to one on the page. */
extern uint64_t leaf_probe(const Leaf *leaf);

/* A block of the page. */
extern uint8_t *leaf_block(const Leaf *leaf, int block);

/* The i-th entry of a pattern. */
extern HtEntry pattern_entry(Pattern pattern, HtLeafShape shape, int i);

#endif /* HARMONIA_LEAF_MODEL_H */
