/*
 * device_together.c
 *		Searches of several batches of one index at once.
 */
#include "device_checks.h"

#include <stdlib.h>
#include <string.h>

#define PROBES 4500 /* more than a batch that joins can have */

/* A batch in pinned memory, with a guard behind each kind of results. */
typedef struct Member
{
	HdBatch batch;
	char *memory;
	size_t used;
	uint32_t *probes; /* memory for probe numbers, whether they are wanted or not */
} Member;

/* What a search has come to; sums do not depend on the order of hits. */
typedef struct Outcome
{
	uint64_t hits;
	uint64_t counted;
	uint64_t tids;
	uint64_t counts;
	bool in_order;
} Outcome;

static const size_t member_size = 1 << 20;

static void *
take(Member *member, size_t size)
{
	char *taken = member->memory + member->used;

	member->used += (size + 63) / 64 * 64;
	expect(member->used <= member_size, "too little memory for a batch");
	return taken;
}

static void
make_member(Member *member, HtWidth width, bool ranges)
{
	int n = rnd_below(4) == 0 ? 1 + rnd_below(PROBES) : 1 + rnd_skewed(1000);
	uint64_t *low = allocate(sizeof(uint64_t) * (size_t) n);
	uint64_t *high = allocate(sizeof(uint64_t) * (size_t) n);
	HdBatch *batch = &member->batch;
	uint64_t hits;
	int form = rnd_below(3);

	member->used = 0;
	memset(batch, 0, sizeof(*batch));
	if (posix_memalign((void **) &member->memory, 4096, member_size) != 0)
		abort();
	batch->pinned = hd_device_pin(device, member->memory, member_size) == HD_OK;
	for (int i = 0; i < n; i++)
	{
		low[i] = model_probe(&model);
		high[i] = ranges && rnd_below(2) ? model_probe(&model) : low[i];
	}
	batch->low = take(member, (size_t) width * (size_t) n);
	pack_keys((void *) batch->low, low, n, width);
	if (ranges)
	{
		batch->high = take(member, (size_t) width * (size_t) n);
		pack_keys((void *) batch->high, high, n, width);
	}
	batch->count = (uint32_t) n;
	batch->psa_bits = HD_AUTOMATIC;
	batch->distinct = !ranges && rnd_below(3) == 0;
	hits = model_search(&model, low, high, batch->count, NULL);
	batch->room = hits > 30000      ? 1000 :
				  rnd_below(4) == 0 ? (uint64_t) rnd_below((int) hits + 1) :
									  hits;
	batch->tids = take(member, sizeof(uint64_t) * (batch->room + 1));
	member->probes = take(member, sizeof(uint32_t) * (batch->room + 1));
	batch->probes = rnd_below(3) == 0 ? NULL : member->probes;
	batch->counts = take(member, sizeof(uint32_t) * ((size_t) n + 1));
	batch->by_block = form == 0 && batch->probes != NULL;
	if (form == 1)
	{
		batch->map_pages = 1 + (uint32_t) rnd_below(MODEL_PAGES * 2);

		uint32_t words = (batch->map_pages + 31) / 32;
		uint32_t *map = take(member, sizeof(uint32_t) * words);

		for (uint32_t i = 0; i < words; i++)
			map[i] = (uint32_t) rnd();
		batch->map = map;
	}
	free(low);
	free(high);
}

static void
clear_results(Member *member)
{
	HdBatch *batch = &member->batch;

	memset(batch->tids, 0xA5, sizeof(uint64_t) * (batch->room + 1));
	memset(member->probes, 0xA5, sizeof(uint32_t) * (batch->room + 1));
	memset(batch->counts, 0xA5, sizeof(uint32_t) * (batch->count + 1));
}

/* Which of equal points has the hits is not said, so their numbers do not count. */
static Outcome
outcome_of(const Member *member, const HdResult *result)
{
	const HdBatch *batch = &member->batch;
	Outcome outcome = {.hits = result->hits, .in_order = true};

	expect(batch->tids[batch->room] == GUARD && member->probes[batch->room] == (uint32_t) GUARD &&
			   batch->counts[batch->count] == (uint32_t) GUARD,
		   "results beyond their room");
	if (result->hits > batch->room)
		return outcome;
	outcome.counted = batch->map_pages > 0 ? result->counted : 0;
	for (uint64_t i = 0; i < outcome.hits - outcome.counted; i++)
	{
		outcome.tids +=
			batch->tids[i] *
			(batch->probes != NULL && !batch->distinct ? batch->probes[i] + UINT64_C(1) : 1);
		outcome.in_order &= i == 0 || batch->tids[i - 1] >> 16 <= batch->tids[i] >> 16;
	}
	for (uint32_t i = 0;
		 outcome.hits > 0 && batch->map_pages > 0 && batch->probes != NULL && i < batch->count; i++)
		outcome.counts += batch->counts[i] * (batch->distinct ? 1 : i + UINT64_C(1));
	return outcome;
}

/*
 * Batches of all kinds find the same together as alone, whatever lies in memory from the batches
 * before.
 */
void
test_together(HtWidth width, Content content)
{
	enum
	{
		ROUNDS = 40
	};
	HdIndex *index;
	int together = 0;

	model_make(&model, content, width);
	index = make_index(content, width, HD_DEFAULT_FANOUT);
	for (int round = 0; round < ROUNDS && !failed(); round++)
	{
		Member members[HD_TOGETHER_MAX];
		HdBatch batches[HD_TOGETHER_MAX];
		HdResult results[HD_TOGETHER_MAX];
		Outcome alone[HD_TOGETHER_MAX];
		int wanted = 1 + rnd_below(HD_TOGETHER_MAX);
		bool ranges = rnd_below(3) == 0;
		int n = 0;

		while (n < wanted)
		{
			Member *member = &members[n];

			make_member(member, width, ranges);
			clear_results(member);
			expect(hd_index_search(index, &member->batch, &results[n]) == HD_OK, "search: %s",
				   hd_device_error(device));
			alone[n] = outcome_of(member, &results[n]);
			clear_results(member);
			batches[n++] = member->batch;
			if (hd_index_joins(index, &member->batch) == 0)
			{
				expect(kind == HD_HOST || !member->batch.pinned || member->batch.count > 1000 ||
						   member->batch.room > 10000,
					   "a small batch does not join");
				n--;
				wanted--;
				if (member->batch.pinned)
					expect(hd_device_unpin(device, member->memory) == HD_OK, "unpin");
				free(member->memory);
			}
		}
		together += n;
		if (n > 0)
			expect(hd_index_search_together(device, index, batches, n, results) == HD_OK,
				   "together: %s", hd_device_error(device));
		for (int i = 0; i < n; i++)
		{
			Outcome outcome = outcome_of(&members[i], &results[i]);

			expect(outcome.hits == alone[i].hits && outcome.counted == alone[i].counted &&
					   outcome.tids == alone[i].tids && outcome.counts == alone[i].counts &&
					   (outcome.in_order || !batches[i].by_block),
				   "batch %d of %d has other results than alone", i, n);
			expect(hd_device_unpin(device, members[i].memory) == HD_OK, "unpin");
			free(members[i].memory);
		}
	}
	expect(kind == HD_HOST || together > ROUNDS, "only %d batches were searched together",
		   together);
	hd_index_free(index);
	report("searches together, %d bits: %s", width_bits(width), content_names[content]);
}
