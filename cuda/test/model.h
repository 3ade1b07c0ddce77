/*
 * model.h
 *		Entries of an index as a plain sorted array, to compare devices with.
 */
#ifndef HARMONIA_TEST_MODEL_H
#define HARMONIA_TEST_MODEL_H

#include "../../test/unit/tap.h"

typedef enum Content
{
	CONTENT_NONE,				/* no leaf */
	CONTENT_EMPTY,				/* leaves without entries */
	CONTENT_ONE_LEAF,
	CONTENT_SPREAD,				/* random keys */
	CONTENT_SERIAL,				/* around the middle, where top bits change */
	CONTENT_DUPLICATES,			/* few keys */
	CONTENT_ENDS,				/* most have the least or the greatest key */
	CONTENT_COUNT
} Content;

extern const char *const content_names[];

#define MODEL_MAX_ENTRIES	12000

typedef struct Model
{
	HtWidth		width;
	HtEntry    *entries;		/* in order */
	int			count;
} Model;

/* Fill the model with entries, at most MODEL_MAX_ENTRIES, for which it has room. */
extern void model_make(Model *model, Content content, HtWidth width);

/* Sort entries and keep one of equals; returns how many are left. */
extern int	sort_entries(HtEntry *entries, int n);

/* Entries with keys below this one, and with keys not above. */
extern int	model_lower(const Model *model, uint64_t key);
extern int	model_upper(const Model *model, uint64_t key);

/* A key that hits, mostly, or misses by one. */
extern uint64_t model_probe(const Model *model);

/*
 * Probes, points if low and high are the same array: how many hits there are and,
 * unless hits is NULL, all of them by (probe, tid).
 */
extern uint64_t model_search(const Model *model, const uint64_t *low, const uint64_t *high,
							 uint32_t count, HtHit *hits);

/*
 * Expect found, of which there are as many as hits or, if that is less, as room, to be
 * the model's, each once if there is room for all.
 */
extern void model_compare(const Model *model, const uint64_t *low, const uint64_t *high,
						  uint32_t count, uint64_t room, const uint32_t *probes,
						  const uint64_t *tids);

/* Random below n, but small numbers are as likely as large ones. */
extern int	rnd_skewed(int n);

static inline uint64_t
clip(uint64_t key, HtWidth width)
{
	return key & ht_key_max(width);
}

/* Copy keys as the device takes them. */
extern void pack_keys(void *to, const uint64_t *keys, int n, HtWidth width);

#endif							/* HARMONIA_TEST_MODEL_H */
