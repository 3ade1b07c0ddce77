/*
 * bench_keys_template.h
 *		The benchmark of bench_keys.c for keys of the width HT_KEYS.
 */
#include "../../src/tree/key_macros.h"

/* Probes that lead to the same leaf. */
typedef struct HT_KEYED(Run)
{
	const char *page;
	HT_PROBE *probes;
	uint32_t count;
} HT_KEYED(Run);

/* Key i of 2^bits keys in order. */
static HT_KEY
HT_KEYED(key_at)(uint64_t i, int bits, bool tenants)
{
	uint64_t count = UINT64_C(1) << bits;
	uint64_t words[HT_KEYS / 64];
	HT_KEY key;

	memset(words, 0, sizeof(words));
	if (tenants)
	{
		uint64_t each = count / TENANTS + 1;

		words[0] = i % each;
		if (HT_KEYS == 64)
			words[0] |= i / each << 32;
		else
			words[HT_KEYS / 64 - 1] = i / each;
	}
	else
	{
		for (int j = 0; j < HT_KEYS / 64; j++)
			words[j] = mix(i + (uint64_t) j * count);
		words[HT_KEYS / 64 - 1] = words[HT_KEYS / 64 - 1] >> bits | i << (64 - bits);
	}
	memcpy(&key, words, sizeof(key));
	return key;
}

/* The last leaf, not before "leaf", whose low key is not above a key. */
static uint32_t
HT_KEYED(find_leaf)(const HT_KEY *lows, uint32_t leaves, uint32_t leaf, HT_KEY key)
{
	uint32_t step = 1;
	uint32_t end;

	while (step < leaves - leaf && key >= lows[leaf + step])
	{
		leaf += step;
		step *= 2;
	}
	end = step < leaves - leaf ? leaf + step : leaves;
	while (end - leaf > 1)
	{
		uint32_t middle = leaf + (end - leaf) / 2;

		if (key >= lows[middle])
			leaf = middle;
		else
			end = middle;
	}
	return leaf;
}

static uint32_t
HT_KEYED(search_runs)(const HT_SEARCH *search, const HT_KEYED(Run) * runs, uint32_t count,
					  HtHit *hits, uint32_t room)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		search->prefetch_separators(runs[i].page, runs[i].probes, runs[i].count);
	for (uint32_t i = 0; i < count; i++)
		search->prefetch_blocks(runs[i].page, runs[i].probes, runs[i].count, false);
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t found;

		search->points(runs[i].page, runs[i].probes, runs[i].count, hits + n, NULL, room - n,
					   &found);
		n += found;
	}
	return n;
}

static uint32_t
HT_KEYED(look_up)(const HT_SEARCH *search, const char *pages, const HT_KEY *lows, uint32_t leaves,
				  const HT_KEY *keys, uint32_t count, HT_PSA *psa, HT_PROBE *probes, HtHit *hits)
{
	HT_KEYED(Run) runs[AHEAD];
	uint32_t room = count + HT_LEAF_MAX_SLOTS;
	uint32_t hit_count = 0;
	uint32_t leaf = 0;
	uint32_t done = 0;
	uint32_t run_count = 0;

	HT_KEYED(ht_psa_start)(psa, keys, count, probes);
	while (done < count)
	{
		uint32_t sorted = HT_KEYED(ht_psa_more)(psa, probes + count);

		while (done < sorted)
		{
			HT_KEYED(Run) *run = &runs[run_count++];
			HT_KEY end;

			leaf = HT_KEYED(find_leaf)(lows, leaves, leaf, probes[done].key);
			end = leaf + 1 < leaves ? lows[leaf + 1] : KEY_MAX;
			run->page = pages + (size_t) leaf * HT_PAGE_SIZE;
			run->probes = probes + done;
			ht_prefetch_far(run->page + HT_PAGE_START);
			for (run->count = 1, done++; done < sorted && probes[done].key < end; done++)
				run->count++;
			if (run_count == AHEAD)
			{
				hit_count += HT_KEYED(search_runs)(search, runs, run_count, hits + hit_count,
												   room - hit_count);
				run_count = 0;
			}
		}
	}
	return hit_count +
		   HT_KEYED(search_runs)(search, runs, run_count, hits + hit_count, room - hit_count);
}

/* The shape of a leaf with these entries and a high bound: as narrow as it can be. */
static HT_SHAPE
HT_KEYED(shape_for)(HT_KEY low, HT_KEY high)
{
	HT_KEY distance = high - low;

#if HT_KEYS == 64
	return ht_leaf_shape(ht_class_for(distance), 4, low);
#else
	return HT_KEYED(ht_leaf_shape)(HT_KEYED(ht_class_for)(distance), 4, low);
#endif
}

static void
HT_KEYED(bench)(int bits, uint32_t batch, const char *set, bool tenants)
{
	const HT_SEARCH *search = HT_KEYED(ht_search)(set);
	uint64_t count = UINT64_C(1) << bits;
	uint32_t max_leaves = (uint32_t) (count / 100 + 2 * TENANTS);
	char *pages = allocate((size_t) max_leaves * HT_PAGE_SIZE); /* touched as it is filled */
	HT_KEY *lows = allocate(max_leaves * sizeof(HT_KEY));
	HT_ENTRY entries[HT_LEAF_MAX_ENTRIES];
	HT_KEY *keys = allocate(batch * sizeof(HT_KEY));
	HT_PROBE *probes = allocate(2 * (size_t) batch * sizeof(HT_PROBE));
	HtHit *hits = allocate(((size_t) batch + HT_LEAF_MAX_SLOTS) * sizeof(HtHit));
	uint32_t *wanted = allocate(batch * sizeof(uint32_t));
	HT_PSA *psa = allocate(sizeof(HT_PSA));
	uint32_t leaves = 0;
	uint64_t classes[129] = {0};
	double times[ROUNDS];

	if (search == NULL)
	{
		fprintf(stderr, "no such instruction set\n");
		exit(1);
	}
	memset(probes, 0, 2 * (size_t) batch * sizeof(HT_PROBE)); /* map it before the clock runs */
	memset(hits, 0, ((size_t) batch + HT_LEAF_MAX_SLOTS) * sizeof(HtHit));
	for (uint64_t i = 0; i < count;)
	{
		HT_KEY low = HT_KEYED(key_at)(i, bits, tenants);
		HT_SHAPE shape = HT_KEYED(shape_for)(low, low);
		int n = 0;

		/* As many as the class has room for that they need together, up to the tenant's last. */
		while (i + (uint64_t) n < count)
		{
			HT_KEY key = HT_KEYED(key_at)(i + (uint64_t) n, bits, tenants);
			HT_SHAPE wider = HT_KEYED(shape_for)(low, key);

			if (n >= HT_KEYED(ht_leaf_capacity)(wider) * 9 / 10 ||
				(tenants && n > 0 && wider.bits > 32))
				break;
			shape = wider;
			entries[n].key = key;
			entries[n].tid = (i + (uint64_t) n) / 256 << 16 | ((i + (uint64_t) n) % 256 + 1);
			n++;
		}
		lows[leaves] = low;
		HT_KEYED(ht_leaf_fill)(pages + (size_t) leaves * HT_PAGE_SIZE, shape, entries, n);
		classes[shape.bits]++;
		leaves++;
		i += (uint64_t) n;
	}

	for (int round = 0; round < ROUNDS; round++)
	{
		uint32_t found;
		double start;

		for (uint32_t i = 0; i < batch; i++)
		{
			wanted[i] = (uint32_t) (rnd() & (count - 1));
			keys[i] = HT_KEYED(key_at)(wanted[i], bits, tenants);
		}
		start = seconds();
		found = HT_KEYED(look_up)(search, pages, lows, leaves, keys, batch, psa, probes, hits);
		times[round] = seconds() - start;
		for (uint32_t i = 0; i < found; i++)
			if ((hits[i].tid >> 16) * 256 + (hits[i].tid & 0xFFFF) - 1 != wanted[hits[i].probe])
				found = 0;
		if (found != batch)
		{
			fprintf(stderr, "%d-bit keys: wrong hits\n", HT_KEYS);
			exit(1);
		}
	}
	qsort(times, ROUNDS, sizeof(double), compare_doubles);
	printf("batch of %u, 2^%d %s %d-bit keys, %s: %.1f million/s, %.1f bytes an entry, leaves of "
		   "class",
		   batch, bits, tenants ? "tenants'" : "random", HT_KEYS, search->name,
		   batch / times[ROUNDS / 2] / 1e6, (double) leaves * HT_PAGE_SIZE / (double) count);
	for (int i = 0; i <= 128; i++)
		if (classes[i] > 0)
			printf(" %d (%d %%)", i, (int) (100 * classes[i] / leaves));
	printf("\n");
	free(pages);
	free(lows);
	free(keys);
	free(probes);
	free(hits);
	free(wanted);
	free(psa);
}

#include "../../src/tree/key_macros_end.h"
