/*
 * lanes_parties.c
 *		Tests a daemon that performs small searches of several clients together.
 */
#define _GNU_SOURCE
#include "test_lanes.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Send a search for a key of the index, as a point or as a range; without room for hits if no more
 * is expected of it.
 */
static void
send_search(const Connection *client, const Index *index, uint64_t key, bool is_range,
			HpStatus status)
{
	HpRequest request = make_search(client, index, key);

	if (status == HP_NO_ROOM)
		request.search.room = 0;

	if (is_range)
	{
		request.search.is_range = 1;
		request.search.high_at = 64;
		pack_keys(client->staging + 64, &key, 1, HT_WIDTH64);
		request.search.probes_at = 128;
	}
	expect(send_request(client, &request), "send");
}

static void
receive_search(const Connection *client, const Index *index, uint64_t key, HpStatus status)
{
	static HtHit hits[MODEL_MAX_ENTRIES];
	uint64_t n = model_search(&index->model, &key, &key, 1, hits);
	const uint64_t *tids = (const uint64_t *) (client->staging + 128 * 1024);
	HpReply reply;

	if (status == HP_NO_ROOM && n == 0)
		status = HP_OK;
	expect(receive_reply(client, &reply) && reply.status == status && reply.hits == n,
		   "status %u, not %u, %d hits, not %d", reply.status, status, (int) reply.hits, (int) n);
	for (uint64_t i = 0; i < n && status == HP_OK && !failed(); i++)
		expect(tids[i] == hits[i].tid, "another client's hit");
}

/*
 * Small searches of one index are performed together, and each client gets its own hits: also where
 * others of its party leave, or the search of a party comes to nothing, which is every fifth one's
 * lot here.
 */
void
test_parties(void)
{
	enum
	{
		CLIENTS = 24,
		ROUNDS = 40,
		SLOW = 3
	};
	Connection clients[CLIENTS];
	uint64_t keys[CLIENTS];
	HpStatus status[CLIENTS];
	Index indexes[2] = {make_index(CONTENT_SPREAD, HT_WIDTH64),
						make_index(CONTENT_SPREAD, HT_WIDTH64)};
	double least = 1e9;

	setenv("FAULT_TOGETHER", "1", 1);
	setenv("FAULT_SLOW", "3", 1);
	start("--memory=64");
	connect_clients(clients, CLIENTS);
	for (int i = 0; i < 2; i++)
		expect(sync_index(&clients[0], &indexes[i]) == HP_OK, "sync");
	for (int round = 0; round < ROUNDS && !failed(); round++)
	{
		/* First all want the same of the same index, then anything. */
		bool mixed = round >= ROUNDS / 2;
		int gone = mixed ? rnd_below(CLIENTS) : CLIENTS;
		double begin = now_ms();

		for (int i = 0; i < CLIENTS; i++)
		{
			const Index *index = &indexes[mixed ? i % 2 : 0];

			/* Some keys have no hit. */
			keys[i] =
				index->model.entries[rnd_below(index->model.count)].key ^ (uint64_t) rnd_below(2);
			status[i] = !mixed || rnd_below(5) ? HP_OK : HP_NO_ROOM;
			send_search(&clients[i], index, keys[i], mixed && i % 3 == 0, status[i]);
		}
		if (gone < CLIENTS)
		{
			usleep((useconds_t) rnd_below(SLOW * 2000));
			close_connection(&clients[gone]);
		}
		for (int i = 0; i < CLIENTS && !failed(); i++)
		{
			if (i != gone)
				receive_search(&clients[i], &indexes[mixed ? i % 2 : 0], keys[i], status[i]);
		}
		if (!mixed && now_ms() - begin < least)
			least = now_ms() - begin;
		if (gone < CLIENTS)
			clients[gone] = connect_client(GENERATION);
	}

	/* Two lanes would take 36 ms, one by one. */
	expect(least < CLIENTS / 2 * SLOW * 0.75, "searches took %.0f ms at least", least);
	close_connections(clients, CLIENTS);
	stop();
	for (int i = 0; i < 2; i++)
		free_index(&indexes[i]);
	report("small searches together");
}

/* If all parties fail, each search is repeated alone. */
void
test_failing_parties(void)
{
	enum
	{
		CLIENTS = 12
	};
	Connection clients[CLIENTS];
	uint64_t keys[CLIENTS];
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);

	setenv("FAULT_TOGETHER", "1", 1);
	setenv("FAULT_PARTIES", "1", 1);
	setenv("FAULT_SLOW", "1", 1);
	start("--memory=64");
	connect_clients(clients, CLIENTS);
	expect(sync_index(&clients[0], &index) == HP_OK, "sync");
	for (int round = 0; round < 10 && !failed(); round++)
	{
		for (int i = 0; i < CLIENTS; i++)
		{
			keys[i] = index.model.entries[rnd_below(index.model.count)].key;
			send_search(&clients[i], &index, keys[i], false, HP_OK);
		}
		for (int i = 0; i < CLIENTS && !failed(); i++)
			receive_search(&clients[i], &index, keys[i], HP_OK);
	}
	close_connections(clients, CLIENTS);
	stop();
	free_index(&index);
	report("searches whose parties come to nothing");
}

/* What the processes that search share: how many searches with one probe each of them makes,
 * how many have made theirs, and the most searches of one with many probes until then. */
typedef struct Searchers
{
	int wanted;
	atomic_int done;
	atomic_int most_slow;
} Searchers;

/*
 * Search again and again, as a process of its own, for all entries so many times: until all
 * that search for few have finished.
 */
static void
run_small_searcher(const Index *index, uint32_t ranges, Searchers *all, int quick)
{
	Connection client = connect_client(GENERATION);
	HpRequest request = make_search(&client, index, 0);
	int searches = 0;

	request.search.count = ranges;
	request.search.is_range = 1;
	request.search.high_at = 64 * 1024;
	request.search.probes_at = 128 * 1024;
	request.search.tids_at = 256 * 1024;
	request.search.room = 1;
	memset(client.staging, 0, ranges * sizeof(uint64_t));
	memset(client.staging + 64 * 1024, ranges > 1 ? 0xFF : 0, ranges * sizeof(uint64_t));
	while (ranges > 1 ? atomic_load(&all->done) < quick : searches < all->wanted)
	{
		ask_status(&client, &request, NULL);
		searches++;
	}
	if (ranges == 1)
		atomic_fetch_add(&all->done, 1);
	else
		for (int most = atomic_load(&all->most_slow);
			 searches > most && !atomic_compare_exchange_weak(&all->most_slow, &most, searches);)
			;
	_exit(0);
}

/*
 * Searches with few probes that take long, as their ranges are long, do not take other clients'
 * time.
 */
void
test_slow_members(void)
{
	enum
	{
		SLOW = 3,
		QUICK = 6
	};
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	Searchers *all =
		mmap(NULL, sizeof(Searchers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	Connection client;
	pid_t children[SLOW + QUICK];

	setenv("FAULT_TOGETHER", "4000", 1);
	start("--memory=64");
	client = connect_client(GENERATION);
	expect(all != MAP_FAILED && sync_index(&client, &index) == HP_OK, "sync, mmap");
	all->wanted = 40;
	fflush(NULL);
	for (int i = 0; i < SLOW + QUICK; i++)
	{
		children[i] = fork();
		if (children[i] == 0)
			run_small_searcher(&index, i < SLOW ? 2000 : 1, all, QUICK);
	}
	for (int i = 0; i < SLOW + QUICK; i++)
	{
		int status;

		expect(waitpid(children[i], &status, 0) == children[i] && status == 0, "a client has died");
	}
	printf("# %d quick searches of each client, beside up to %d slow ones\n", all->wanted,
		   all->most_slow);
	expect(all->wanted > 2 * all->most_slow, "slow searches take the time of quick ones");
	munmap(all, sizeof(Searchers));
	close_connection(&client);
	stop();
	free_index(&index);
	report("searches with few probes that take long");
}
