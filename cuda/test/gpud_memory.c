/*
 * gpud_memory.c
 *		Limits of memory, and a device that fails.
 */
#define _GNU_SOURCE
#include "daemon_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ----------------------------------------------------------------
 *		Memory
 * ----------------------------------------------------------------
 */

/* Clients map more staging memory than may be pinned; it is used all the same. */
void
test_pinned(void)
{
	enum
	{
		CLIENTS = 12
	};
	const uint64_t size = UINT64_C(128) << 20;
	Connection clients[CLIENTS];
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply reply;
	uint64_t most = 0;

	start(MEMORY);
	for (int i = 0; i < CLIENTS; i++)
	{
		clients[i] = connect_client(GENERATION);
		expect(ftruncate(clients[i].memory, (off_t) size) == 0, "ftruncate");
		expect(map_staging(&clients[i], clients[i].memory, size, &reply) && reply.status == HP_OK,
			   "map");
		expect(reply.pinned >= most && reply.pinned <= UINT64_C(1) << 30, "%llu bytes are pinned",
			   (unsigned long long) reply.pinned);
		most = reply.pinned;
	}
	expect(most > 0 && most < CLIENTS * size, "%llu bytes are pinned", (unsigned long long) most);
	for (int i = 0; i < CLIENTS; i++)
	{
		expect(sync_index(&clients[i], &index) == HP_OK, "sync");
		search_index(&clients[i], &index);
	}
	expect(map_staging(&clients[0], clients[0].memory, 4096, &reply) && reply.pinned < most,
		   "memory is pinned that is not mapped");
	for (int i = 0; i < CLIENTS; i++)
		close_connection(&clients[i]);
	free_index(&index);
	stop();
	report("pinned memory");
}

void
test_memory(void)
{
	Connection client;
	Connection other;
	HpRequest request = {.operation = HP_SYNC_BEGIN, .width = HT_WIDTH64, .fanout = 64};
	HpReply reply;

	start("--memory=8"); /* 1024 blocks */
	client = connect_client(GENERATION);
	other = connect_client(GENERATION);
	for (uint32_t i = 1; i <= 3; i++)
		expect(make_copy(&client, i, 300, &reply) == HP_OK && reply.copies == i &&
				   reply.evictions == 0 && reply.copy_memory >= 300 * HT_PAGE_SIZE,
			   "copy %u", i);
	expect(make_copy(&client, 4, 300, &reply) == HP_OK && reply.copies == 3 && reply.evictions == 1,
		   "one copy too many");
	expect(!has_copy(&client, 1) && has_copy(&client, 2), "the wrong copy is evicted");
	expect(make_copy(&client, 5, 300, &reply) == HP_OK && reply.evictions == 2, "two too many");
	expect(has_copy(&client, 2) && !has_copy(&client, 3) && has_copy(&client, 4),
		   "the wrong copy is evicted");
	report("the least recently used copy is evicted");

	expect(make_copy(&client, 6, 1025, &reply) == HP_NO_MEMORY && reply.text[0] != '\0' &&
			   reply.evictions == 2,
		   "a copy that will never fit");
	expect(!has_copy(&client, 6) && has_copy(&client, 2) && has_copy(&client, 5), "what is there");
	request.index.build_id = 2;
	expect(ask_status(&other, &request, NULL) == HP_OK, "begin");
	expect(make_copy(&client, 6, 1000, &reply) == HP_NO_MEMORY && reply.copies == 3,
		   "a copy in a sync is in the way, so others are not evicted");
	expect(!has_copy(&client, 6), "a copy without memory is still there");
	expect(make_copy(&client, 7, 600, &reply) == HP_OK && reply.copies == 2, "a smaller one");
	request.operation = HP_SYNC_RESERVE;
	request.count = 900;
	expect(ask_status(&other, &request, &reply) == HP_OK && reply.copies == 1 &&
			   !has_copy(&client, 7),
		   "a copy that grows");
	request.operation = HP_SYNC_END;
	expect(ask_status(&other, &request, &reply) == HP_OK &&
			   reply.copy_memory <= 1024 * HT_PAGE_SIZE,
		   "end");
	expect(has_copy(&client, 2), "the copy that has grown");
	for (uint32_t i = 100; i < 4300; i++)
		make_copy(&client, i, 0, &reply);
	expect(reply.status == HP_OK && reply.copies <= 4096, "%u copies of nothing", reply.copies);
	close_connection(&client);
	close_connection(&other);
	stop();
	report("copies that do not fit");

	/* More blocks than any copy can have do not evict anything, whatever the limit. */
	start("--memory=1000000");
	client = connect_client(GENERATION);
	expect(make_copy(&client, 1, 300, &reply) == HP_OK, "a copy");
	expect(make_copy(&client, 2, HP_MAX_BLOCKS + 1, &reply) == HP_NO_MEMORY &&
			   reply.evictions == 0 && has_copy(&client, 1),
		   "a copy with too many blocks");
	close_connection(&client);
	stop();
	report("too many blocks");
}

/* Random syncs and searches of more copies than fit, some of which are partly on the host. */
void
test_coming_and_going(void)
{
	for (int round = 0; round < 6; round++)
	{
		Connection client;
		Index indexes[6];

		start_with_host(round % 3 < 2 ? "--memory=4" : "--memory=0",
						round < 3  ? NULL :
						round == 3 ? "--host-memory=3" :
									 "--host-memory=64");
		client = connect_client(GENERATION);
		for (int i = 0; i < 6; i++)
			indexes[i] = make_index(CONTENT_SPREAD, some_widths[i % 3]);
		for (int i = 0; i < 100 && !failed(); i++)
		{
			Index *index = &indexes[rnd_below(6)];
			int status;

			if (rnd_below(3) == 0)
				change_index(index);
			status = sync_index(&client, index);
			expect(status == HP_OK || (status == HP_NO_MEMORY && index->blocks > 400), "sync: %d",
				   status);
			if (status == HP_OK)
				search_index(&client, index);
		}
		for (int i = 0; i < 6; i++)
			free_index(&indexes[i]);
		close_connection(&client);
		stop();
	}
	report("copies come and go");
}

/* What the device has no room for is in the host's memory, as far as that is allowed. */
void
test_host_memory(void)
{
	Connection client;
	HpRequest request = {.operation = HP_SYNC_BEGIN, .width = HT_WIDTH64, .fanout = 64};
	HpReply reply;
	uint64_t on_device;

	start_with_host("--memory=8", "--host-memory=4"); /* 1024 and 512 blocks */
	client = connect_client(GENERATION);
	expect(make_copy(&client, 1, 300, &reply) == HP_OK && reply.copy_host_memory == 0,
		   "a copy that fits");
	expect(make_copy(&client, 2, 1000, &reply) == HP_OK && reply.evictions == 0 &&
			   reply.copies == 2,
		   "a copy that does not: %s", reply.text);
	on_device = reply.copy_memory - reply.copy_host_memory;
	expect(reply.copy_host_memory >= 250 * HT_PAGE_SIZE &&
			   reply.copy_host_memory <= 512 * HT_PAGE_SIZE,
		   "%llu bytes on the host", (unsigned long long) reply.copy_host_memory);
	expect(on_device >= 650 * HT_PAGE_SIZE && on_device <= 724 * HT_PAGE_SIZE,
		   "%llu bytes on the device", (unsigned long long) on_device);
	expect(has_copy(&client, 1), "the other copy is gone");

	/* A third one can have half of the device's memory, and what is left of the host's. */
	expect(make_copy(&client, 3, 600, &reply) == HP_OK && reply.copy_host_memory > 0, "half: %s",
		   reply.text);
	expect(make_copy(&client, 4, 1400, &reply) == HP_NO_MEMORY,
		   "the host's memory is taken from others");

	/* Growing takes more of the host's memory, and more than all is refused. */
	request.operation = HP_DROP;
	for (request.index.build_id = 1; request.index.build_id <= 3; request.index.build_id++)
		expect(ask_status(&client, &request, NULL) == HP_OK, "drop");
	expect(make_copy(&client, 4, 1400, &reply) == HP_OK &&
			   reply.copy_host_memory <= 512 * HT_PAGE_SIZE,
		   "a large copy");
	on_device = reply.copy_memory - reply.copy_host_memory;
	request = (HpRequest){.operation = HP_SYNC_BEGIN, .width = HT_WIDTH64, .fanout = 64};
	request.index.build_id = 4;
	expect(ask_status(&client, &request, &reply) == HP_OK && reply.blocks >= 1400, "begin");
	request.operation = HP_SYNC_RESERVE;
	request.count = reply.blocks + 10;
	expect(ask_room(&client, &request, &reply) == HP_OK &&
			   reply.copy_memory - reply.copy_host_memory >= on_device,
		   "a copy that grows");
	request.count = 1536;
	expect(ask_room(&client, &request, &reply) == HP_NO_MEMORY && reply.text[0] != '\0',
		   "a copy that outgrows both");
	expect(!has_copy(&client, 4), "it is still there");

	/* Its memory can be used again. */
	expect(make_copy(&client, 5, 1400, &reply) == HP_OK, "another one");
	close_connection(&client);
	stop();
	report("copies that are partly on the host");
}

/* ----------------------------------------------------------------
 *		A device that fails
 * ----------------------------------------------------------------
 */

/* Copies that do not fit are dropped; the others stay correct. */
void
test_no_memory(void)
{
	Connection client;
	Index indexes[4];
	int outcomes[HP_FAILED + 1] = {0};
	int searches_failed = 0;

	setenv("FAULT_MEMORY", "6", 1);
	start(MEMORY);
	client = connect_client(GENERATION);
	for (int i = 0; i < 4; i++)
		indexes[i] = make_index(CONTENT_SPREAD, some_widths[i % 3]);
	/* Few re-syncs need memory. */
	for (int i = 0; (i < 500 || outcomes[HP_NO_MEMORY] < 2) && i < 20000 && !failed(); i++)
	{
		Index *index = &indexes[rnd_below(4)];
		int status;

		if (rnd_below(3) == 0)
			change_index(index);
		status = sync_index(&client, index);
		expect(status == HP_OK || status == HP_NO_MEMORY, "sync: %d", status);
		if (status == HP_NO_MEMORY)
			expect(probe_status(&client, index) == HP_UNKNOWN, "a broken copy is still there");
		if (failed())
			break;
		outcomes[status]++;

		/* A search that runs out of memory can be repeated. */
		for (status = status == HP_OK ? HP_NO_MEMORY : HP_OK; status == HP_NO_MEMORY && !failed();)
		{
			HpReply reply;

			send_search_all(&client, index);
			expect(receive_reply(&client, &reply), "a search has no reply");
			status = (int) reply.status;
			searches_failed += status == HP_NO_MEMORY;
			if (status != HP_NO_MEMORY)
				check_all(&client, index, &reply);
		}
	}
	expect(outcomes[HP_OK] > 50 && outcomes[HP_NO_MEMORY] > 1 && searches_failed > 1,
		   "%d syncs succeed, %d do not, nor do %d searches", outcomes[HP_OK],
		   outcomes[HP_NO_MEMORY], searches_failed);
	for (int i = 0; i < 4; i++)
		free_index(&indexes[i]);
	close_connection(&client);
	stop();
	unsetenv("FAULT_MEMORY");
	report("a device that runs out of memory now and then");
}

/* A search that takes too long, all pieces together, is abandoned, and the copy stays. */
void
test_too_long(void)
{
	Connection client;
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	double begin;

	setenv("FAULT_SLOW", "30000", 1);
	start(MEMORY);
	unsetenv("FAULT_SLOW");
	client = connect_client(GENERATION);
	expect(sync_index(&client, &index) == HP_OK, "sync");
	for (int i = 0; i < 2; i++)
	{
		begin = now_ms();
		expect(probe_status(&client, &index) == HP_TOO_LONG, "the search was not abandoned");
		expect(now_ms() - begin > 500 && now_ms() - begin < 5000, "after %.0f ms",
			   now_ms() - begin);
	}
	close_connection(&client);
	stop();

	setenv("FAULT_SLOW", "300", 1);
	setenv("HARMONIA_PIECE", "1", 1);
	start(MEMORY);
	unsetenv("FAULT_SLOW");
	unsetenv("HARMONIA_PIECE");
	client = connect_client(GENERATION);
	expect(sync_index(&client, &index) == HP_OK, "sync");
	for (uint32_t probes = 1; probes < 20; probes += 9)
	{
		HpRequest request = make_search(&client, &index, 0);

		request.search.count = probes;
		request.search.probes_at = 64 * 1024;
		expect(ask_status(&client, &request, NULL) == (probes == 1 ? HP_OK : HP_TOO_LONG),
			   "%u pieces", probes);
	}
	close_connection(&client);
	free_index(&index);
	stop();
	report("a search that takes too long");
}

/* If any call of the device fails, the daemon reports it and ends. */
void
test_failure(void)
{
	bool fails = true;
	int call;

	for (call = 1; fails && !failed(); call++)
	{
		Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
		char number[16];
		int status;

		snprintf(number, sizeof(number), "%d", call);
		setenv("FAULT_DEVICE", number, 1);
		daemon_process = start_daemon(device, MEMORY, NULL);
		status = (int) daemon_process.ready.status;
		if (status == HP_OK)
		{
			Connection client = open_connection();
			Connection other = open_connection();
			HpRequest hello = make_hello(GENERATION);
			HpReply reply;

			status = ask_status(&client, &hello, NULL);
			if (status == HP_OK)
				expect(map_staging(&client, client.memory, client.size, &reply) &&
						   reply.status == HP_OK,
					   "map");
			for (int round = 0; round < 2 && status == HP_OK; round++)
			{
				status = sync_index(&client, &index);
				if (status == HP_OK)
					status = probe_status(&client, &index);
				change_index(&index);
			}
			if (status != HP_OK)
				expect(ask_status(&other, &hello, NULL) == CONNECTION_ENDED,
					   "another client's connection");
			close_connection(&client);
			close_connection(&other);
		}
		fails = status != HP_OK;
		if (fails)
		{
			expect(status == HP_FAILED, "call %d: status %d", call, status);
			status = wait_daemon(&daemon_process);
			expect(WIFEXITED(status) && WEXITSTATUS(status) == 1,
				   "call %d: the daemon ends with %#x", call, status);
			close(daemon_process.control);
		}
		else
			stop();
		free_index(&index);
	}
	unsetenv("FAULT_DEVICE");
	expect(call > 8, "no more than %d calls", call);
	report("a device that fails at each of %d calls", call - 2);
}
