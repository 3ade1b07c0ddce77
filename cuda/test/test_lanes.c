/*
 * test_lanes.c
 *		Tests a daemon whose devices have two lanes.
 *
 * usage: test_lanes DAEMON [SEED]
 *
 * DAEMON has the device of faulty.cc, whose searches take as long as the environment says, and
 * which ends the daemon if a search meets a change, or memory is freed that a search uses.
 * test_devices has random copies of many clients.
 */
#define _GNU_SOURCE
#include "test_lanes.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static Daemon daemon_process;

static const char *const faults[] = {"FAULT_SLOW",     "FAULT_HANG",    "FAULT_LANE",
									 "FAULT_DEVICE",   "FAULT_BATCH",   "FAULT_ROOM",
									 "FAULT_TOGETHER", "FAULT_PARTIES", "HARMONIA_LANES"};

void
start(const char *memory)
{
	daemon_process = start_daemon("--device=cuda", memory, NULL);
	expect(daemon_process.ready.status == HP_OK, "start: %s", daemon_process.ready.text);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		unsetenv(faults[i]);
}

void
stop(void)
{
	int status = stop_daemon(&daemon_process);

	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the daemon ends with status %#x",
		   status);
}

/* A search for all entries of an index of 64-bit keys. */
static HpRequest
make_search_all(const Connection *client, const Index *index)
{
	HpRequest request = make_search(client, index, 0);
	uint64_t high = UINT64_MAX;

	request.search.is_range = 1;
	request.search.high_at = 64;
	pack_keys(client->staging + 64, &high, 1, HT_WIDTH64);
	request.search.probes_at = 128;
	request.search.tids_at = 1 << 20;
	request.search.room = MODEL_MAX_ENTRIES;
	return request;
}

/* All entries have been found, and have this tid. */
static void
check_version(const Connection *client, const Index *index, const HpReply *reply, uint64_t version)
{
	const uint64_t *tids = (const uint64_t *) (client->staging + (1 << 20));

	expect(reply->status == HP_OK && reply->hits == (uint64_t) index->model.count,
		   "status %u, %d hits", reply->status, (int) reply->hits);
	for (int i = 0; i < index->model.count && !failed(); i++)
		expect(tids[i] == version, "version %d and not %d", (int) tids[i], (int) version);
}

/*
 * Send the same request for each client, wait for the replies, and return how long that took, in
 * ms.
 */
static double
search_at_once(const Connection *clients, int n, const HpRequest *request, HpStatus status)
{
	double begin = now_ms();
	HpReply reply;

	for (int i = 0; i < n; i++)
		expect(send_request(&clients[i], request), "send");
	for (int i = 0; i < n && !failed(); i++)
		expect(receive_reply(&clients[i], &reply) && reply.status == status,
			   "client %d: status %u, %s", i, reply.status, reply.text);
	return now_ms() - begin;
}

void
connect_clients(Connection *clients, int n)
{
	for (int i = 0; i < n; i++)
		clients[i] = connect_client(GENERATION);
}

void
close_connections(Connection *clients, int n)
{
	for (int i = 0; i < n; i++)
		close_connection(&clients[i]);
}

/* What the device keeps for batches and copies, as it tells a new client. */
static uint64_t
kept_memory(void)
{
	Connection client = open_connection();
	HpRequest hello = make_hello(GENERATION);
	HpReply reply;

	expect(ask(&client, &hello, &reply) && reply.status == HP_OK, "hello");
	close_connection(&client);
	return reply.memory - reply.memory_free;
}

/* Two searches at once, and no more. */
static void
test_beside(void)
{
	static const char *const lanes[] = {"1", "2", NULL, "3"};

	for (int i = 0; i < 4; i++)
	{
		Connection clients[3];
		Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
		HpRequest request;
		HpReply reply;
		double two;
		double three;

		setenv("FAULT_SLOW", "300", 1);
		if (lanes[i] != NULL)
			setenv("HARMONIA_LANES", lanes[i], 1);
		start("--memory=64");
		connect_clients(clients, 3);
		set_tids(&index, 1);
		expect(sync_index(&clients[0], &index) == HP_OK, "sync");
		for (int client = 0; client < 3; client++)
			request = make_search_all(&clients[client], &index);
		two = search_at_once(clients, 2, &request, HP_OK);
		three = search_at_once(clients, 3, &request, HP_OK);
		expect(i == 0 ? two >= 590 : two < 550, "%d lanes: two searches took %.0f ms", i, two);
		expect(i == 3 ? three < 550 : three >= 590, "%d lanes: three searches took %.0f ms", i,
			   three);
		expect(ask(&clients[0], &request, &reply), "search");
		for (int client = 0; client < 3; client++)
			check_version(&clients[client], &index, &reply, 1);
		close_connections(clients, 3);
		stop();
		free_index(&index);
	}
	report("searches at the same time");
}

/* A sync changes nothing before the searches that it meets have ended; those after it wait. */
static void
test_sync(void)
{
	Connection readers[3];
	Connection writer;
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpRequest request;
	HpReply reply;
	double begin;

	setenv("FAULT_SLOW", "400", 1);
	start("--memory=64");
	connect_clients(readers, 3);
	writer = connect_client(GENERATION);
	set_tids(&index, 1);
	expect(sync_index(&writer, &index) == HP_OK, "sync");
	for (int i = 0; i < 3; i++)
		request = make_search_all(&readers[i], &index);
	for (uint64_t version = 2; version < 5 && !failed(); version++)
	{
		begin = now_ms();
		expect(send_request(&readers[0], &request), "send");
		if (version > 2)
			expect(send_request(&readers[1], &request), "send");
		usleep(50000);
		set_tids(&index, version);
		expect(sync_begin(&writer, &index) == HP_OK, "begin");

		/* It begins on a lane that is free. */
		expect(version > 2 || now_ms() - begin < 250, "the sync began after %.0f ms",
			   now_ms() - begin);
		expect(send_request(&readers[2], &request) && is_silent(&readers[2]),
			   "a search during a sync");
		expect(sync_blocks(&writer, &index) == HP_OK, "blocks");
		expect(now_ms() - begin >= 390, "blocks were written after %.0f ms", now_ms() - begin);
		expect(is_silent(&readers[2]), "a search during a sync");
		for (int i = 0; i < (version > 2 ? 2 : 1); i++)
		{
			expect(receive_reply(&readers[i], &reply), "reply");
			check_version(&readers[i], &index, &reply, version - 1);
		}
		expect(sync_end(&writer, &index) == HP_OK, "end");
		expect(receive_reply(&readers[2], &reply), "reply");
		check_version(&readers[2], &index, &reply, version);
	}

	/* A copy that is dropped stays until its search has ended. */
	request = make_search_all(&readers[0], &index);
	begin = now_ms();
	expect(send_request(&readers[0], &request), "send");
	usleep(50000);
	request = about(&index, HP_DROP);
	expect(ask_status(&writer, &request, NULL) == HP_OK && now_ms() - begin >= 390, "a drop");
	expect(receive_reply(&readers[0], &reply), "reply");
	check_version(&readers[0], &index, &reply, 4);
	close_connections(readers, 3);
	close_connection(&writer);
	stop();
	free_index(&index);
	report("changes wait for searches");
}

static Index searched;

/* Search until a signal comes. */
static void
run_reader(void)
{
	Connection client = connect_client(GENERATION);
	HpRequest request = make_search_all(&client, &searched);

	while (ask_status(&client, &request, NULL) == HP_OK)
		;
	_exit(1);
}

/* However many clients search, others' copies are made, changed and dropped. */
static void
test_turns(void)
{
	enum
	{
		READERS = 6
	};
	pid_t readers[READERS];
	Connection writer;
	double longest = 0;
	HpReply reply;

	setenv("FAULT_SLOW", "30", 1);
	setenv("FAULT_ROOM", "1000000", 1);
	start("--memory=64");
	searched = make_index(CONTENT_SPREAD, HT_WIDTH64);
	writer = connect_client(GENERATION);
	expect(sync_index(&writer, &searched) == HP_OK, "sync");
	fflush(NULL);
	for (int i = 0; i < READERS; i++)
	{
		readers[i] = fork();
		if (readers[i] == 0)
			run_reader();
	}
	usleep(200000);
	for (uint32_t i = 1; i <= 10 && !failed(); i++)
	{
		HpRequest drop = {.operation = HP_DROP, .index = {.build_id = i}};
		double begin = now_ms();

		expect(make_copy(&writer, i, 10, &reply) == HP_OK, "a copy");
		expect(make_copy(&writer, i, 100, &reply) == HP_OK, "a copy that grows");
		expect(ask_status(&writer, &drop, NULL) == HP_OK, "drop");
		longest = now_ms() - begin > longest ? now_ms() - begin : longest;
	}
	printf("# changes of a copy beside searches took up to %.0f ms\n", longest);
	expect(longest < 1500, "changes of a copy took %.0f ms", longest);

	/* Nor do they keep what a broken sync leaves: here a copy takes one byte. */
	expect(kept_memory() == 1, "%d copies", (int) kept_memory());
	for (uint32_t i = 100; i < 105 && !failed(); i++)
	{
		HpRequest request = {.operation = HP_SYNC_BEGIN,
							 .create = 1,
							 .width = HT_WIDTH64,
							 .fanout = 64,
							 .index = {.build_id = i}};
		Connection broken = connect_client(GENERATION);

		expect(ask_status(&broken, &request, NULL) == HP_OK && kept_memory() == 2, "a new copy");
		close_connection(&broken);
		usleep(500000);
		expect(kept_memory() == 1, "a copy is left over");
	}
	for (int i = 0; i < READERS; i++)
	{
		int status;

		kill(readers[i], SIGKILL);
		waitpid(readers[i], &status, 0);
		expect(WIFSIGNALED(status), "a reader has ended");
	}
	close_connection(&writer);
	stop();
	free_index(&searched);
	report("searches do not keep changes away");
}

/* Have both lanes search until one of the clients gets no reply.  Returns which one, or -1. */
static int
find_hanging(const Connection *clients, const HpRequest *request)
{
	for (int round = 0; round < 1000; round++)
	{
		int hangs = -1;

		for (int i = 0; i < 3; i++)
			expect(send_request(&clients[i], request), "send");
		for (int i = 0; i < 3; i++)
		{
			struct pollfd polled = {clients[i].socket, POLLIN, 0};
			HpReply reply;

			if (poll(&polled, 1, 400) == 0)
				hangs = i;
			else
				expect(receive_reply(&clients[i], &reply), "reply");
		}
		if (hangs >= 0)
			return hangs;
	}
	return -1;
}

/* A ping is not answered as long as a lane hangs, though another one works. */
static void
test_hang(void)
{
	static const char *const lanes[] = {"0", "1"};

	for (int lane = 0; lane < 2; lane++)
	{
		Connection clients[3];
		Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
		HpRequest request;
		HpReply reply;
		struct pollfd polled;
		double begin;
		int hangs;

		setenv("FAULT_HANG", "2000", 1);
		setenv("FAULT_LANE", lanes[lane], 1);
		start("--memory=64");
		connect_clients(clients, 3);
		expect(sync_index(&clients[0], &index) == HP_OK, "sync");
		for (int i = 0; i < 3; i++)
			request = make_search_all(&clients[i], &index);
		hangs = find_hanging(clients, &request);
		expect(hangs >= 0, "no search hangs");
		if (failed())
			break;
		begin = now_ms();
		expect(send(daemon_process.control, "", 1, MSG_NOSIGNAL) == 1, "ping");
		for (int i = 0; i < 10; i++)
			expect(ask(&clients[(hangs + 1) % 3], &request, &reply) && reply.status == HP_OK,
				   "the other lane");
		expect(now_ms() - begin < 1000, "the other lane waits for the one that hangs");
		polled = (struct pollfd){daemon_process.control, POLLIN, 0};
		expect(poll(&polled, 1, 200) == 0, "the ping is answered though a lane hangs");
		expect(receive_reply(&clients[hangs], &reply) && reply.status == HP_OK, "reply");
		expect(poll(&polled, 1, 1000) == 1 && recv(daemon_process.control, &reply, sizeof(reply),
												   MSG_WAITALL) == sizeof(reply),
			   "the ping is not answered");
		close_connections(clients, 3);
		stop();
		free_index(&index);
	}
	report("a lane that hangs");
}

/* A lane that fails ends the daemon; one that cannot be opened is left out. */
static void
test_failure(void)
{
	static const char *const lanes[] = {"0", "1"};

	for (int lane = 0; lane < 2; lane++)
	{
		Connection clients[2];
		Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
		HpRequest request;
		bool fails = false;
		int status;

		setenv("FAULT_DEVICE", "1000", 1);
		setenv("FAULT_LANE", lanes[lane], 1);
		start("--memory=64");
		connect_clients(clients, 2);
		expect(sync_index(&clients[0], &index) == HP_OK, "sync");
		for (int i = 0; i < 2; i++)
			request = make_search_all(&clients[i], &index);
		for (int round = 0; round < 100000 && !fails; round++)
		{
			HpReply reply;

			for (int i = 0; i < 2; i++)
				send_request(&clients[i], &request);
			for (int i = 0; i < 2; i++)
				fails |= !receive_reply(&clients[i], &reply) || reply.status == HP_FAILED;
		}
		expect(fails, "the lane does not fail");
		status = wait_daemon(&daemon_process);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "the daemon ends with status %#x",
			   status);
		close(daemon_process.control);
		close_connections(clients, 2);
		free_index(&index);
	}
	setenv("FAULT_DEVICE", "1", 1);
	setenv("FAULT_LANE", "1", 1);
	setenv("FAULT_SLOW", "100", 1);
	start("--memory=64");
	expect(daemon_process.ready.devices == 1, "%u devices", daemon_process.ready.devices);
	{
		Connection clients[2];
		HpReply reply;
		HpRequest request = {.operation = HP_SEARCH, .index = {.build_id = 1}};

		connect_clients(clients, 2);
		expect(make_copy(&clients[0], 1, 10, &reply) == HP_OK, "a copy");
		request.search.count = 1;
		expect(search_at_once(clients, 2, &request, HP_OK) > 0, "search");
		close_connections(clients, 2);
	}
	stop();
	report("a lane that fails");
}

/* ----------------------------------------------------------------
 *		Memory of batches
 * ----------------------------------------------------------------
 */

/* A search for so many probes in a copy that make_copy() has made. */
static HpRequest
make_batch(uint32_t number, uint32_t probes)
{
	HpRequest request = {.operation = HP_SEARCH, .index = {.build_id = number}};

	request.search.count = probes;
	return request;
}

/* A search that is made alone ends, too, when its client goes; on whichever lane. */
static void
test_gone(void)
{
	Connection clients[2];
	HpReply reply;
	HpRequest request = make_batch(1, 2000);

	setenv("FAULT_SLOW", "900", 1);
	setenv("FAULT_BATCH", "1000", 1);
	setenv("FAULT_ROOM", "3000000", 1);
	start("--memory=64");
	for (int round = 0; round < 6 && !failed(); round++)
	{
		Connection other = connect_client(GENERATION);
		double begin;

		connect_clients(clients, 2);
		if (round == 0)
			expect(make_copy(&other, 1, 10, &reply) == HP_OK, "a copy");
		for (int i = 0; i < 2; i++)
			expect(send_request(&clients[i], &request), "send");
		usleep(50000);
		begin = now_ms();
		close_connection(&clients[0]);
		usleep(50000);
		close_connection(&clients[1]);
		expect(ask(&other, &(HpRequest){.operation = HP_DROP, .index = {.build_id = 2}}, &reply),
			   "a request");
		expect(now_ms() - begin < 700, "searches ended %.0f ms after their clients",
			   now_ms() - begin);
		close_connection(&other);
	}
	stop();
	report("clients that go away while they have the device for themselves");
}

/* Where there is no memory for two batches at once, there is for one after the other. */
static void
test_no_memory(void)
{
	Connection clients[4];
	HpReply reply;
	HpRequest request;

	setenv("FAULT_SLOW", "20", 1);
	setenv("FAULT_BATCH", "1000", 1);
	setenv("FAULT_ROOM", "3000000", 1);
	start("--memory=64");
	connect_clients(clients, 4);
	for (uint32_t i = 1; i <= 2; i++)
		expect(make_copy(&clients[0], i, 10, &reply) == HP_OK, "a copy");
	for (int round = 0; round < 20 && !failed(); round++)
	{
		request = make_batch(1, 2000 + (uint32_t) rnd_below(1000));
		search_at_once(clients, 4, &request, HP_OK);
	}
	expect(kept_memory() <= 3000000 + 2, "%d bytes are kept", (int) kept_memory());
	expect(has_copy(&clients[0], 2), "a copy has been evicted for a batch");
	request = make_batch(1, 3001);
	search_at_once(clients, 4, &request, HP_NO_MEMORY);
	request = make_batch(1, 3000);
	search_at_once(clients, 4, &request, HP_OK);
	close_connections(clients, 4);
	stop();
	report("no memory for two batches at once");
}

/*
 * What both lanes keep for batches is within the limit; where it would not be, they work in turns
 * for a while.
 */
static void
test_limit(void)
{
	Connection clients[2];
	HpReply reply;
	HpRequest large = make_batch(1, 2500);
	HpRequest small = make_batch(1, 1);
	uint64_t most;
	bool beside = false;

	setenv("FAULT_SLOW", "20", 1);
	setenv("FAULT_BATCH", "1000", 1);
	setenv("FAULT_ROOM", "1000000000", 1);
	start("--memory=4");
	connect_clients(clients, 2);
	expect(make_copy(&clients[0], 1, 10, &reply) == HP_OK, "a copy");
	most = (UINT64_C(4) << 20) - reply.copy_memory;
	for (int i = 0; i < 5; i++)
	{
		search_at_once(clients, 2, &large, HP_OK);
		expect(kept_memory() <= most + 1, "%d bytes are kept", (int) kept_memory());
		expect(i == 0 || kept_memory() == 2500000 + 1, "memory is freed though one lane's fits: %d",
			   (int) kept_memory());
		expect(i == 0 || search_at_once(clients, 2, &small, HP_OK) >= 40,
			   "lanes do not work in turns");
	}

	/* Small batches fit beside each other, which is tried again at some time. */
	for (int i = 0; i < 600 && !beside; i++)
		beside = search_at_once(clients, 2, &small, HP_OK) < 36;
	expect(beside, "lanes work in turns for ever");

	/*
	 * One lane has the memory of its large batch; that of the other one has room beside it.  A copy
	 * takes both.
	 */
	large = make_batch(1, 1000);
	for (int i = 0; i < 3; i++)
		search_at_once(clients, 2, &large, HP_OK);
	expect(kept_memory() == 3500000 + 1, "%d bytes are kept", (int) kept_memory());
	expect(make_copy(&clients[0], 2, 400, &reply) == HP_OK && reply.copies == 2,
		   "a copy in place of batches");
	expect(kept_memory() <= most - reply.copy_memory + 2, "%d bytes are kept beside a copy",
		   (int) kept_memory());
	close_connections(clients, 2);
	stop();
	report("the limit of memory, with batches of both lanes");
}

/* ----------------------------------------------------------------
 *		One client
 * ----------------------------------------------------------------
 */

/* How often the daemon's threads have waited: all but the one that did most often. */
static long
count_waits(void)
{
	char path[300];
	DIR *folder;
	long sum = 0;
	long most = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int) daemon_process.pid);
	folder = opendir(path);
	expect(folder != NULL, "%s", path);
	for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
	{
		char line[200];
		long waits;
		FILE *status;

		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int) daemon_process.pid,
				 entry->d_name);
		status = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
		while (status != NULL && fgets(line, sizeof(line), status) != NULL)
		{
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &waits) != 1)
				continue;
			sum += waits;
			most = waits > most ? waits : most;
		}
		if (status != NULL)
			fclose(status);
	}
	if (folder != NULL)
		closedir(folder);
	return sum - most;
}

/* A single client's requests wake one thread each. */
static void
test_one_client(void)
{
	enum
	{
		SEARCHES = 2000
	};
	Connection clients[2];
	HpReply reply;
	HpRequest request = make_batch(1, 1);
	long waits;

	start("--memory=64");
	connect_clients(clients, 2);
	expect(make_copy(&clients[0], 1, 10, &reply) == HP_OK, "a copy");
	for (int i = 0; i < 100; i++)
		search_at_once(clients, 2, &request, HP_OK);
	usleep(200000);
	waits = -count_waits();
	for (int i = 0; i < SEARCHES && !failed(); i++)
		expect(ask(&clients[0], &request, &reply) && reply.status == HP_OK, "search");
	waits += count_waits();
	printf("# other threads than the first waited %ld times in %d searches\n", waits, SEARCHES);
	expect(waits < SEARCHES / 10, "other threads waited %ld times", waits);
	close_connections(clients, 2);
	stop();
	report("one client wakes one thread");
}

int
main(int argc, char **argv)
{
	int status;

	if (argc < 2)
	{
		fprintf(stderr, "usage: %s DAEMON [SEED]\n", argv[0]);
		return 2;
	}
	tap_start(argc > 2 ? argc - 1 : 1, argc > 2 ? argv + 1 : argv);
	enter_folder(argv[1]);
	test_beside();
	test_sync();
	test_turns();
	test_hang();
	test_failure();
	test_no_memory();
	test_gone();
	test_limit();
	test_parties();
	test_failing_parties();
	test_slow_members();
	test_one_client();
	status = tap_finish();
	if (status != 0)
		print_log();
	return status;
}
