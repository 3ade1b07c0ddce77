/*
 * gpud_long.c
 *		Requests that take long: clients that go meanwhile, and shares of the device.
 */
#define _GNU_SOURCE
#include "daemon_tests.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONG_LEAVES 400
#define LONG_PROBES 200000

/*
 * Probes that the host device sorts for seconds, and how long it may take to notice that nobody
 * waits for them.  With the thread sanitizer each step takes long.
 */
#ifdef __SANITIZE_THREAD__
#define SORTED_PROBES 4000000
#define SORT_MS 5000
#else
#define SORTED_PROBES 16000000
#define SORT_MS 1000
#endif

/* Make a copy whose leaves are full of one key: each probe for it visits all of them. */
static HpIndexName
make_equal_keys(const Connection *client)
{
	HpRequest request = {
		.operation = HP_SYNC_BEGIN, .create = 1, .width = HT_WIDTH32, .fanout = 64};
	HtLeafShape shape = model_full_shape(HT_WIDTH32);
	int capacity = ht_leaf_capacity(shape);
	HtEntry *entries = allocate(sizeof(HtEntry) * (size_t) capacity);

	request.index.build_id = rnd();
	expect(ask_status(client, &request, NULL) == HP_OK, "begin");
	request.operation = HP_SYNC_RESERVE;
	request.count = LONG_LEAVES;
	expect(ask_status(client, &request, NULL) == HP_OK, "reserve");
	for (int i = 0; i < capacity; i++)
		entries[i] = make_entry(7, (uint64_t) i + 1);
	ht_leaf_init(client->staging + 64, shape);
	ht_leaf_fill(client->staging + 64, shape, entries, capacity);
	request.operation = HP_SYNC_PAGES;
	request.count = 1;
	request.data_at = 64;
	for (uint32_t i = 0; i < LONG_LEAVES; i++)
	{
		*(uint32_t *) client->staging = i;
		expect(ask_status(client, &request, NULL) == HP_OK, "page");
	}
	for (uint32_t i = 0; i < LONG_LEAVES; i++)
		((HpLeaf *) client->staging)[i] = (HpLeaf){bound_of(HT_WIDTH32, make_entry(7, 0)), i, 0};
	request.operation = HP_SYNC_LEAVES;
	request.count = LONG_LEAVES;
	request.data_at = 0;
	expect(ask_status(client, &request, NULL) == HP_OK, "leaves");
	request.operation = HP_SYNC_END;
	request.structure = 1;
	expect(ask_status(client, &request, NULL) == HP_OK, "end");
	free(entries);
	return request.index;
}

/*
 * Send a search for the same key again and again, which would take the host device minutes.
 * If points are to be distinct, it is not divided.
 */
static void
send_long_search(const Connection *client, HpIndexName name, bool distinct)
{
	HpRequest request = {.operation = HP_SEARCH, .index = name};

	for (int i = 0; i < LONG_PROBES; i++)
		((uint32_t *) client->staging)[i] = 7;
	request.search.count = LONG_PROBES;
	request.search.distinct = distinct;
	request.search.probes_at = 1 << 20;
	request.search.tids_at = 2 << 20;
	request.search.room = 1000;
	expect(send_request(client, &request), "send");
}

/* Ping the daemon.  Returns whether it answers in time. */
static bool
ping(void)
{
	HpReply reply;
	struct pollfd polled = {daemon_process.control, POLLIN, 0};

	return send(daemon_process.control, "", 1, MSG_NOSIGNAL) == 1 && poll(&polled, 1, 1000) == 1 &&
		   recv(daemon_process.control, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply) &&
		   reply.status == HP_OK;
}

/* So many searches at once keep all lanes of all devices busy. */
#define LANES_MAX 4

static int
lane_count(void)
{
	const char *lanes = getenv("HARMONIA_LANES");

	return (daemon_devices != NULL ? 2 : 1) * (lanes != NULL ? atoi(lanes) : 1);
}

/* A request ends when its client goes, and the next client is served. */
void
test_gone_client(void)
{
	Connection other = connect_client(GENERATION);
	HpIndexName name = make_equal_keys(&other);
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply reply;
	double longest = 0;

	expect(sync_index(&other, &index) == HP_OK, "sync");
	expect(ping(), "a ping is not answered");
	for (int round = 0; round < 5 && !failed(); round++)
	{
		Connection gone[LANES_MAX];
		double start;

		for (int i = 0; i < lane_count(); i++)
		{
			gone[i] = connect_client(GENERATION);
			send_long_search(&gone[i], name, true);
		}
		usleep(20000);
		expect(ping(), "a ping during a search is not answered");
		send_search_all(&other, &index);
		expect(strcmp(device, "--device=host") != 0 || is_silent(&other), "two searches at once");
		start = now_ms();
		for (int i = 0; i < lane_count(); i++)
			close_connection(&gone[i]);
		expect(receive_reply(&other, &reply), "a search has no reply");
		longest = now_ms() - start > longest ? now_ms() - start : longest;
		check_all(&other, &index, &reply);
	}
	printf("# the next client waited up to %.1f ms\n", longest);
	expect(longest < 100, "the next client waited %.1f ms", longest);
	report("clients that go away during a search");

	/* The supervisor goes. */
	send_long_search(&other, name, true);
	usleep(20000);
	stop();
	report("end during a search");
	close_connection(&other);
	free_index(&index);
}

/* A client goes while the host device sorts its probes, which takes seconds. */
void
test_gone_sorting(void)
{
	const uint64_t size = UINT64_C(128) << 20;
	Connection other = connect_client(GENERATION);
	Connection gone[LANES_MAX];
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpRequest request = about(&index, HP_SEARCH);
	uint64_t *keys;
	HpReply reply;
	double start;

	expect(sync_index(&other, &index) == HP_OK, "sync");
	request.search.count = SORTED_PROBES;
	request.search.distinct = 1;
	for (int i = 0; i < lane_count(); i++)
	{
		gone[i] = connect_client(GENERATION);
		expect(ftruncate(gone[i].memory, (off_t) size) == 0, "ftruncate");
		expect(map_staging(&gone[i], gone[i].memory, size, &reply) && reply.status == HP_OK, "map");
		keys = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, gone[i].memory, 0);
		expect(keys != MAP_FAILED, "mmap");
		if (failed())
			return;
		for (int probe = 0; probe < SORTED_PROBES; probe++)
			keys[probe] = model_probe(&index.model);
		munmap(keys, size);
	}
	for (int i = 0; i < lane_count(); i++)
		expect(send_request(&gone[i], &request), "send");
	usleep(300000);
	send_search_all(&other, &index);
	expect(is_silent(&other), "two searches at once");
	start = now_ms();
	for (int i = 0; i < lane_count(); i++)
		close_connection(&gone[i]);
	receive_all(&other, &index);
	printf("# the next client waited %.1f ms\n", now_ms() - start);
	expect(now_ms() - start < SORT_MS, "the next client waited %.1f ms", now_ms() - start);
	close_connection(&other);
	free_index(&index);
	report("a client that goes away while its probes are sorted");
}

/*
 * A long search is divided: other clients are served meanwhile, though they come later.  Its
 * first pieces turn out to be too large, as each of its probes takes long.
 */
void
test_pieces(void)
{
	Connection large = connect_client(GENERATION);
	Connection small = connect_client(GENERATION);
	HpIndexName name = make_equal_keys(&large);
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	double longest = 0;

	expect(sync_index(&small, &index) == HP_OK, "sync");
	send_long_search(&large, name, false);
	usleep(20000);
	for (int i = 0; i < 20 && !failed(); i++)
	{
		double start = now_ms();

		send_search_all(&small, &index);
		receive_all(&small, &index);
		longest = now_ms() - start > longest ? now_ms() - start : longest;
	}
	expect(is_silent(&large), "the long search has ended");
	printf("# short searches beside a long one took up to %.1f ms\n", longest);
	expect(longest < 400, "a short search took %.1f ms", longest);
	expect(ping(), "a ping is not answered");
	close_connection(&large);
	close_connection(&small);
	free_index(&index);
	report("a long search in pieces");
}

/*
 * A search finds the same in pieces, also while its copy is brought up to date and dropped
 * between them.
 */
void
test_small_pieces(void)
{
	Connection client;
	Connection other;
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);

	setenv("HARMONIA_PIECE", "7", 1);
	search_pieces = true;
	start(MEMORY);
	unsetenv("HARMONIA_PIECE");
	for (HtWidth width = HT_WIDTH32; width <= HT_WIDTH128; width *= 2)
	{
		for (Content content = 0; content < CONTENT_COUNT; content++)
		{
			test_life(width, content);
		}
	}
	client = connect_client(GENERATION);
	other = connect_client(GENERATION);
	expect(sync_index(&client, &index) == HP_OK, "sync");
	for (int round = 0; round < 200 && !failed(); round++)
	{
		HpRequest request = about(&index, HP_SEARCH);
		HpReply reply;

		/* The same probe many times: a piece finds all of its hits, or none is left. */
		uint64_t key = index.model.entries[0].key;
		uint64_t each = model_search(&index.model, &key, &key, 1, NULL);

		pack_keys(client.staging, &key, 1, index.model.width);
		for (int i = 1; i < 1000; i++)
			memcpy(client.staging + i * (int) index.model.width, client.staging,
				   (size_t) index.model.width);
		request.search.count = 1000;
		request.search.probes_at = 64 * 1024;
		request.search.tids_at = 1024 * 1024;
		request.search.room = 60000;
		expect(send_request(&client, &request), "send");
		if (round % 4 == 0)
		{
			request = about(&index, HP_DROP);
			expect(ask_status(&other, &request, NULL) == HP_OK, "drop");
		}
		expect(sync_index(&other, &index) == HP_OK, "sync");
		expect(receive_reply(&client, &reply), "a search has no reply");
		expect(reply.status == HP_UNKNOWN || (reply.status == HP_OK && reply.hits == 1000 * each),
			   "status %u, %llu hits", reply.status, (unsigned long long) reply.hits);
	}
	close_connection(&client);
	close_connection(&other);
	free_index(&index);
	stop();
	search_pieces = false;
	report("searches in small pieces");
}

/* A client stops in its sync. */
void
test_stalled_sync(void)
{
	Connection stalled = connect_client(GENERATION);
	Connection other = connect_client(GENERATION);
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply reply;
	double start;

	expect(sync_index(&stalled, &index) == HP_OK && sync_begin(&stalled, &index) == HP_OK, "begin");
	usleep(HP_SYNC_IDLE_MS * 1000 + 500000);
	expect(sync_blocks(&stalled, &index) == HP_OK && sync_end(&stalled, &index) == HP_OK,
		   "a sync that nobody waits for may pause");
	expect(sync_begin(&stalled, &index) == HP_OK, "begin");
	start = now_ms();
	send_search_all(&other, &index);
	expect(receive_reply(&other, &reply) && reply.status == HP_UNKNOWN, "the copy is still there");
	expect(now_ms() - start > HP_SYNC_IDLE_MS / 2 && now_ms() - start < HP_SYNC_IDLE_MS * 2,
		   "it came after %.0f ms", now_ms() - start);
	expect(has_ended(&stalled), "the stalled client is still connected");
	close_connection(&stalled);
	close_connection(&other);
	free_index(&index);
	report("a sync that stalls");
}

/*
 * Clients with long searches and one with short ones: the latter is served after each long
 * search, not after one of each other client.
 */
void
test_shares(void)
{
	enum
	{
		GREEDY = 4,
		SEARCHES = 8,    /* of each greedy client, at least */
		COUNTED_MS = 500 /* what came before is paid off by then */
	};
	Connection small = connect_client(GENERATION);
	Connection greedy[GREEDY];
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	struct pollfd polled[GREEDY + 1];
	HpReply reply;
	int done[GREEDY + 1] = {0};
	int longs = 0;
	int least;
	bool warm = false;
	double begin = 0; /* when counting began */
	HpRequest request;

	expect(sync_index(&small, &index) == HP_OK, "sync");
	for (int i = 0; i < GREEDY; i++)
	{
		greedy[i] = connect_client(GENERATION);
		polled[i] = (struct pollfd){greedy[i].socket, POLLIN, 0};
	}
	polled[GREEDY] = (struct pollfd){small.socket, POLLIN, 0};
	for (int i = 0; i < GREEDY; i++)
	{
		/* 200,000 probes that find nothing */
		memset(greedy[i].staging, 0, STAGING_SIZE);
		request = about(&index, HP_SEARCH);
		request.search.count = LONG_PROBES;
		request.search.probes_at = request.search.tids_at = 3 << 20;
		expect(send_request(&greedy[i], &request), "send");
	}
	send_search_all(&small, &index);
	while ((!warm || longs < GREEDY * SEARCHES || now_ms() - begin < COUNTED_MS) && !failed())
	{
		expect(poll(polled, GREEDY + 1, 60000) > 0, "poll");
		for (int i = GREEDY; i >= 0; i--)
		{
			if (polled[i].revents == 0)
				continue;
			done[i]++;
			expect(receive_reply(i == GREEDY ? &small : &greedy[i], &reply), "reply");
			if (i == GREEDY)
			{
				send_search_all(&small, &index);

				/* Its first search also gets memory for the hits; count from the second on. */
				if (!warm && done[GREEDY] == 2)
				{
					warm = true;
					begin = now_ms();
					memset(done, 0, sizeof(done));
					longs = 0;
				}
			}
			else
			{
				longs++;
				expect(send_request(&greedy[i], &request), "send");
			}
		}
	}
	printf("# %d short searches, %d %d %d %d long ones\n", done[GREEDY], done[0], done[1], done[2],
		   done[3]);
	/* On a GPU the long searches take hardly longer than the short ones: equal shares. */
	least = strcmp(device, "--device=host") == 0 ? longs / 2 : longs / (2 * GREEDY);
	expect(done[GREEDY] >= least, "%d short searches beside %d long ones", done[GREEDY], longs);
	for (int i = 0; i < GREEDY; i++)
		expect(done[i] >= SEARCHES / 2, "client %d has %d searches of %d", i, done[i], longs);
	for (int i = 0; i < GREEDY; i++)
		close_connection(&greedy[i]);
	close_connection(&small);
	free_index(&index);
	report("shares of the device");
}
