/*
 * model.h
 *		Entries of an index as a plain sorted array, as a reference for devices.
 */
#ifndef HARMONIA_TEST_MODEL_H
#define HARMONIA_TEST_MODEL_H

#include "../../src/tree/wide.h"
#include "../../test/unit/tap.h"

typedef enum Content
{
	CONTENT_NONE,  /* no leaf */
	CONTENT_EMPTY, /* leaves without entries */
	CONTENT_ONE_LEAF,
	CONTENT_SPREAD,     /* random keys */
	CONTENT_SERIAL,     /* around the middle, where top bits change */
	CONTENT_DUPLICATES, /* few keys */
	CONTENT_ENDS,       /* mostly the least and the greatest key */
	CONTENT_COUNT
} Content;

extern const char *const content_names[];

#define MODEL_MAX_ENTRIES 12000

/* Half of the entries are of the first pages of a heap, the others of any. */
#define MODEL_PAGES 2000

/*
 * Of an index with keys of 128 bits the model has keys of 64 bits.  Those of the index are
 * their images, which wide_key() makes.
 */
typedef struct Model
{
	HtWidth width;
	HtEntry *entries; /* in order */
	int count;
} Model;

/* Fill the model with random entries.  It has room for MODEL_MAX_ENTRIES. */
extern void model_make(Model *model, Content content, HtWidth width);

/* The widest shape of leaves of an index: all others have room for as many entries. */
extern HtLeafShape model_full_shape(HtWidth width);

/* How many entries any leaf of an index has room for. */
extern int model_capacity(HtWidth width);

/* A random shape of a leaf that can store these entries, which are in order. */
extern HtLeafShape model_shape(HtWidth width, const HtEntry *entries, int n);

/* Sort entries and remove duplicates.  Returns how many are left. */
extern int sort_entries(HtEntry *entries, int n);

/* Number of entries with keys below this key, and with keys not above it. */
extern int model_lower(const Model *model, uint64_t key);
extern int model_upper(const Model *model, uint64_t key);

/* A random probe that mostly hits, or is next to a key. */
extern uint64_t model_probe(const Model *model);

/*
 * Search the model.  Returns the number of hits; unless hits is NULL, stores all of
 * them, ordered by (probe, tid).  For points low and high are the same.
 */
extern uint64_t model_search(const Model *model, const uint64_t *low, const uint64_t *high,
							 uint32_t count, HtHit *hits);

/*
 * Expect that the given pairs are the model's hits: each one once if there is room for
 * all of them, otherwise any "room" of them.
 */
typedef enum ModelOrder
{
	MODEL_BY_PROBE, /* the hits of a probe are adjacent */
	MODEL_BY_BLOCK, /* hits are in the order of heap blocks */
	MODEL_ANY_ORDER
} ModelOrder;

extern void model_compare(const Model *model, const uint64_t *low, const uint64_t *high,
						  uint32_t count, uint64_t room, const uint32_t *probes,
						  const uint64_t *tids, ModelOrder order);

/*
 * Expect that these are the model's hits, each with its key: each one once if there is room for all
 * of them, otherwise any "room" of them.  Keys are as pack_keys() makes them.
 */
extern void model_compare_keys(const Model *model, const uint64_t *low, const uint64_t *high,
							   uint32_t count, uint64_t room, const uint32_t *probes,
							   const uint64_t *tids, const void *keys);

/* Random number below n; small numbers are more likely. */
extern int rnd_skewed(int n);

static inline uint64_t
clip(uint64_t key, HtWidth width)
{
	return key & ht_key_max(width);
}

/*
 * The image of a key: in the same order, also in leaves of 16 bits and more, and with the same
 * ends.
 */
static inline HtKey128
wide_key(uint64_t key)
{
	uint64_t high = key >> 24;
	uint64_t low = key & 0xFFFFFF;

	return (HtKey128) (high << 24 | high >> 16) << 64 | (low == 0xFFFFFF ? UINT64_MAX : low);
}

/* Convert keys to the width that the device expects. */
extern void pack_keys(void *to, const uint64_t *keys, int n, HtWidth width);

#endif /* HARMONIA_TEST_MODEL_H */
