/*
 * device_lanes.c
 *		Searches of one index by several threads at once, each on a lane of its own.
 */
#include "device_checks.h"

#include <pthread.h>
#include <stdlib.h>

#define LANES 3
#define BATCHES 8 /* of each lane */
#define ROUNDS 4  /* of the same batches */

/* A batch, and what was found when nothing else was searched. */
typedef struct Found
{
	HdBatch batch;
	uint64_t hits;
	uint64_t sum;
} Found;

typedef struct Searcher
{
	HdDevice *lane;
	HdIndex *index;
	Found found[BATCHES];
	int wrong; /* results that differ */
	pthread_t thread;
} Searcher;

/* A sum over results that does not depend on the order of hits. */
static uint64_t
sum_of(const HdBatch *batch, const HdResult *result)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < result->hits; i++)
		sum += batch->tids[i] * ((uint64_t) batch->probes[i] + 1);
	return sum;
}

static HdBatch
make_batch(int n, HtWidth width, bool pinned)
{
	size_t size = sizeof(uint64_t) * (size_t) n * 4;
	uint64_t *keys = allocate(sizeof(uint64_t) * (size_t) n);
	HdBatch batch = {.count = (uint32_t) n, .psa_bits = HD_AUTOMATIC};

	for (int i = 0; i < n; i++)
		keys[i] = model_probe(&model);
	batch.low = pack(keys, n, width);
	batch.room = model_search(&model, keys, keys, batch.count, NULL);
	batch.by_block = rnd_below(2);
	batch.tids = allocate(sizeof(uint64_t) * (batch.room + 1));
	batch.probes = allocate(sizeof(uint32_t) * (batch.room + 1));
	if (pinned)
	{
		char *memory = allocate(size + sizeof(uint64_t) * 2 * batch.room);

		batch.pinned =
			hd_device_pin(device, memory, size + sizeof(uint64_t) * 2 * batch.room) == HD_OK;
		memcpy(memory, batch.low, (size_t) n * (size_t) width);
		free((void *) batch.low);
		free(batch.tids);
		free(batch.probes);
		batch.low = memory;
		batch.tids = (uint64_t *) (memory + size);
		batch.probes = (uint32_t *) (batch.tids + batch.room);
	}
	free(keys);
	return batch;
}

static void
free_batch(const HdBatch *batch, bool pinned)
{
	if (pinned && batch->pinned)
		expect(hd_device_unpin(device, (void *) batch->low) == HD_OK, "unpin");
	if (!pinned)
	{
		free(batch->tids);
		free(batch->probes);
	}
	free((void *) batch->low);
}

static void *
search(void *argument)
{
	Searcher *searcher = argument;

	for (int i = 0; i < BATCHES * ROUNDS; i++)
	{
		const Found *found = &searcher->found[i % BATCHES];
		HdResult result;

		searcher->wrong +=
			hd_index_search_on(searcher->lane, searcher->index, &found->batch, &result) != HD_OK ||
			result.hits != found->hits || sum_of(&found->batch, &result) != found->sum;
	}
	return NULL;
}

/* Every other batch is a small one in pinned memory. */
void
test_lanes(HtWidth width, Content content, int large)
{
	static Searcher searchers[LANES];
	HdIndex *index;

	model_make(&model, content, width);
	index = make_index(content, width, HD_DEFAULT_FANOUT);
	for (int i = 0; i < LANES; i++)
	{
		Searcher *searcher = &searchers[i];

		searcher->index = index;
		searcher->wrong = 0;
		searcher->lane = device;
		if (i > 0)
			expect(hd_device_open(kind, 0, &searcher->lane) == HD_OK, "open: %s",
				   hd_device_error(searcher->lane));
		for (int n = 0; n < BATCHES; n++)
		{
			Found *found = &searcher->found[n];
			HdResult result;

			found->batch = make_batch(1 + rnd_below(n % 2 == 0 ? large : 4000), width, n % 2 != 0);
			expect(hd_index_search(index, &found->batch, &result) == HD_OK, "search: %s",
				   hd_device_error(device));
			found->hits = result.hits;
			found->sum = sum_of(&found->batch, &result);
		}
	}
	for (int i = 0; i < LANES; i++)
		expect(pthread_create(&searchers[i].thread, NULL, search, &searchers[i]) == 0,
			   "pthread_create");
	for (int i = 0; i < LANES; i++)
	{
		pthread_join(searchers[i].thread, NULL);
		expect(searchers[i].wrong == 0, "lane %d: %d wrong results", i, searchers[i].wrong);
		expect(kind == HD_HOST || hd_device_batch_memory(searchers[i].lane) > 0,
			   "lane %d has no memory of its own", i);
		hd_device_free_batch_memory(searchers[i].lane);
		for (int n = 0; n < BATCHES; n++)
			free_batch(&searchers[i].found[n].batch, n % 2 != 0);
	}
	hd_index_free(index);
	for (int i = 1; i < LANES; i++)
		hd_device_close(searchers[i].lane);
	report("lanes, %d bits: %s", width_bits(width), content_names[content]);
}
