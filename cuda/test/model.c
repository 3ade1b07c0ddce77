/*
 * model.c
 *		Entries of an index as a plain sorted array.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

const char *const content_names[] = {"no leaf",     "no entries", "one leaf",    "random keys",
									 "serial keys", "duplicates", "extreme keys"};

int
rnd_skewed(int n)
{
	return rnd_below(1 + rnd_below(n));
}

int
sort_entries(HtEntry *entries, int n)
{
	int kept = 0;

	qsort(entries, (size_t) n, sizeof(HtEntry), compare_entries);
	for (int i = 0; i < n; i++)
	{
		if (kept == 0 || ht_entry_cmp(entries[kept - 1], entries[i]) != 0)
			entries[kept++] = entries[i];
	}
	return kept;
}

/* A tid that a small heap can have. */
static uint64_t
rnd_row(void)
{
	return (uint64_t) rnd_below(MODEL_PAGES) << 16 | (uint64_t) (1 + rnd_below(300));
}

HtLeafShape
model_full_shape(HtWidth width)
{
	return ht_leaf_shape(8 * (int) width, HT_TID_BYTES, 0);
}

int
model_capacity(HtWidth width)
{
	return width <= HT_WIDTH64 ?
			   ht_leaf_capacity(model_full_shape(width)) :
			   ht_leaf_capacity_128(ht_leaf_shape_128(8 * (int) width, HT_TID_BYTES, 0));
}

HtLeafShape
model_shape(HtWidth width, const HtEntry *entries, int n)
{
	int tid_bytes = 4 + rnd_below(3);
	uint64_t base = n == 0 ? clip(rnd(), width) : entries[0].key;
	int bits;

	/* The base can be anywhere below the entries. */
	if (rnd_below(2))
		base -= rnd_below(2) ? base : base < 1000 ? 0 : (uint64_t) rnd_below(1000);
	bits = n == 0 ? 0 : ht_class_for(entries[n - 1].key - base);
	while (bits < 8 * (int) width && rnd_below(4) == 0)
		bits = bits == 0 ? 16 : 2 * bits;
	for (int i = 0; i < n; i++)
		if (ht_tid_bytes(entries[i].tid) > tid_bytes)
			tid_bytes = ht_tid_bytes(entries[i].tid);
	return ht_leaf_shape(bits, tid_bytes, base);
}

void
model_make(Model *model, Content content, HtWidth width)
{
	uint64_t max = ht_key_max(width);
	int n = content == CONTENT_NONE || content == CONTENT_EMPTY ? 0 :
			content == CONTENT_ONE_LEAF                         ? rnd_below(model_capacity(width)) :
																  1 + rnd_skewed(MODEL_MAX_ENTRIES);
	int keys = 1 + rnd_below(n / 100 + 2);
	int tid_bytes = 4 + rnd_below(3);

	for (int i = 0; i < n; i++)
	{
		uint64_t key = clip(rnd(), width);

		if (content == CONTENT_SERIAL)
			key = max / 2 - (uint64_t) (n / 2) + (uint64_t) i;
		else if (content == CONTENT_DUPLICATES)
			key = max / (uint64_t) keys * (uint64_t) rnd_below(keys + 1);
		else if (content == CONTENT_ENDS && rnd_below(10) != 0)
			key = rnd_below(2) ? 0 : max;
		model->entries[i] = make_entry(key, rnd_below(2) ? rnd_tid_of(tid_bytes) : rnd_row());
	}
	model->width = width;
	model->count = sort_entries(model->entries, n);
}

int
model_lower(const Model *model, uint64_t key)
{
	int low = 0;
	int high = model->count;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (model->entries[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int
model_upper(const Model *model, uint64_t key)
{
	return key == UINT64_MAX ? model->count : model_lower(model, key + 1);
}

uint64_t
model_probe(const Model *model)
{
	uint64_t key;

	switch (rnd_below(8))
	{
		case 0:
			return 0;
		case 1:
			return ht_key_max(model->width);
		case 2:
			return clip(rnd(), model->width);
		default:
			if (model->count == 0)
				return clip(rnd(), model->width);
			key = model->entries[rnd_below(model->count)].key;
			return rnd_below(3) != 0 ? key : clip(key + (uint64_t) rnd_below(3) - 1, model->width);
	}
}

static int
compare_hits(const void *a, const void *b)
{
	const HtHit *left = a;
	const HtHit *right = b;

	if (left->probe != right->probe)
		return left->probe < right->probe ? -1 : 1;
	return left->tid < right->tid ? -1 : left->tid > right->tid;
}

uint64_t
model_search(const Model *model, const uint64_t *low, const uint64_t *high, uint32_t count,
			 HtHit *hits)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		int first = model_lower(model, low[i]);
		int end = low[i] <= high[i] ? model_upper(model, high[i]) : first;

		for (int j = first; j < end && hits != NULL; j++)
			hits[n + (uint64_t) (j - first)] = (HtHit){model->entries[j].tid, i, 0};
		n += (uint64_t) (end - first);
	}
	if (hits != NULL)
		qsort(hits, n, sizeof(HtHit), compare_hits);
	return n;
}

void
model_compare(const Model *model, const uint64_t *low, const uint64_t *high, uint32_t count,
			  uint64_t room, const uint32_t *probes, const uint64_t *tids, ModelOrder order)
{
	uint64_t expected = model_search(model, low, high, count, NULL);
	uint64_t n = room < expected ? room : expected;
	HtHit *wanted = allocate(sizeof(HtHit) * (expected + 1));
	HtHit *found = allocate(sizeof(HtHit) * (n + 1));

	model_search(model, low, high, count, wanted);
	for (uint64_t i = 0; i < n; i++)
		found[i] = (HtHit){tids[i], probes[i], 0};
	if (room >= expected)
	{
		for (uint64_t i = 2; i < n && order == MODEL_BY_PROBE; i++)
			expect(probes[i] == probes[i - 1] || probes[i] != probes[i - 2],
				   "hits of a probe are apart");
		for (uint64_t i = 1; i < n && order == MODEL_BY_BLOCK; i++)
			expect(tids[i - 1] >> 16 <= tids[i] >> 16, "hits are not in the order of blocks");
		qsort(found, n, sizeof(HtHit), compare_hits);
		for (uint64_t i = 0; i < n && !failed(); i++)
			expect(compare_hits(&wanted[i], &found[i]) == 0, "hit %llu differs",
				   (unsigned long long) i);
	}
	else
	{
		for (uint64_t i = 0; i < n && !failed(); i++)
			expect(bsearch(&found[i], wanted, expected, sizeof(HtHit), compare_hits) != NULL,
				   "hit %llu is wrong", (unsigned long long) i);
	}
	free(wanted);
	free(found);
}

/* A hit and its key, as the index has it. */
typedef struct KeyedHit
{
	uint32_t probe;
	uint64_t tid;
	HtKey128 key;
} KeyedHit;

static int
compare_keyed(const void *a, const void *b)
{
	const KeyedHit *left = a;
	const KeyedHit *right = b;

	if (left->probe != right->probe)
		return left->probe < right->probe ? -1 : 1;
	if (left->tid != right->tid)
		return left->tid < right->tid ? -1 : 1;
	return left->key < right->key ? -1 : left->key > right->key;
}

/* Search the model as model_search() does, and store keys, too. */
static uint64_t
search_keyed(const Model *model, const uint64_t *low, const uint64_t *high, uint32_t count,
			 KeyedHit *hits)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		for (int j = model_lower(model, low[i]);
			 j < model->count && model->entries[j].key <= high[i]; j++)
		{
			uint64_t key = model->entries[j].key;

			hits[n++] = (KeyedHit){i, model->entries[j].tid,
								   model->width == HT_WIDTH128 ? wide_key(key) : key};
		}
	}
	qsort(hits, n, sizeof(KeyedHit), compare_keyed);
	return n;
}

void
model_compare_keys(const Model *model, const uint64_t *low, const uint64_t *high, uint32_t count,
				   uint64_t room, const uint32_t *probes, const uint64_t *tids, const void *keys)
{
	uint64_t expected = model_search(model, low, high, count, NULL);
	uint64_t n = room < expected ? room : expected;
	KeyedHit *wanted = allocate(sizeof(KeyedHit) * (expected + 1));
	KeyedHit *found = allocate(sizeof(KeyedHit) * (n + 1));

	expect(search_keyed(model, low, high, count, wanted) == expected, "hits of the model");
	for (uint64_t i = 0; i < n; i++)
	{
		HtKey128 key = model->width == HT_WIDTH128 ? ((const HtKey128 *) keys)[i] :
					   model->width == HT_WIDTH64  ? ((const uint64_t *) keys)[i] :
													 ((const uint32_t *) keys)[i];

		found[i] = (KeyedHit){probes[i], tids[i], key};
	}
	qsort(found, n, sizeof(KeyedHit), compare_keyed);
	for (uint64_t i = 0; i < n && !failed(); i++)
	{
		if (room >= expected)
			expect(compare_keyed(&wanted[i], &found[i]) == 0, "the key of hit %llu differs",
				   (unsigned long long) i);
		else
			expect(bsearch(&found[i], wanted, expected, sizeof(KeyedHit), compare_keyed) != NULL,
				   "the key of hit %llu is wrong", (unsigned long long) i);
	}
	free(wanted);
	free(found);
}

void
pack_keys(void *to, const uint64_t *keys, int n, HtWidth width)
{
	uint32_t *narrow = to;
	HtKey128 *wide = to;

	if (width == HT_WIDTH64)
		memcpy(to, keys, sizeof(uint64_t) * (size_t) n);
	else if (width == HT_WIDTH128)
	{
		for (int i = 0; i < n; i++)
			wide[i] = wide_key(keys[i]);
	}
	else
	{
		for (int i = 0; i < n; i++)
			narrow[i] = (uint32_t) keys[i];
	}
}
