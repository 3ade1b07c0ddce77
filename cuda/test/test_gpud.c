/*
 * test_gpud.c
 *		Tests the daemon from the outside, as its supervisor and its clients see it.
 *
 * usage: test_gpud DAEMON [host | cuda | two-hosts | two-cudas | faulty [SEED]]
 *
 * Covers copies, compared with a model; syncs by several clients; memory limits; all
 * ways to end; and messages that no correct client sends.  TEST_ROUNDS is the number of
 * random ones.  With two devices everything is as with one, but for which copies give way to others (test_devices.c).
 * With "faulty", DAEMON is a daemon whose device fails as the environment
 * says, and only that is tested.
 */
#define _GNU_SOURCE
#include "index.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GENERATION	UINT64_C(0x123456789ABCDEF0)
#define MEMORY		"--memory=64"

static const char *device = "--device=host";
static const HtWidth some_widths[3] = {HT_WIDTH64, HT_WIDTH32, HT_WIDTH128};
static Daemon daemon_process;

/* Start a daemon whose copies may also take the host's memory, unless host_memory is NULL. */
static void
start_with_host(const char *memory, const char *host_memory)
{
	daemon_process = start_daemon(device, memory, host_memory);
	expect(daemon_process.ready.status == HP_OK, "start: %s", daemon_process.ready.text);
}

static void
start(const char *memory)
{
	start_with_host(memory, NULL);
}

static void
stop(void)
{
	int			status = stop_daemon(&daemon_process);

	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the daemon ends with status %#x", status);
}

/* The status of a search for one key; HP_OK also if there is not enough room. */
static int
probe_status(const Connection *connection, const Index *index)
{
	HpRequest	request = make_search(connection, index, 0);
	int			status = ask_status(connection, &request, NULL);

	return status == HP_NO_ROOM ? HP_OK : status;
}

/* ----------------------------------------------------------------
 *		Start and end
 * ----------------------------------------------------------------
 */

/* Count the daemon's descriptors that lead to its log. */
static int
count_logs(void)
{
	int			logs = 0;

	for (int i = 0; i < 64; i++)
	{
		char		path[64];
		char		target[4096];
		ssize_t		length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) daemon_process.pid, i);
		length = readlink(path, target, sizeof(target));
		if (length > 4 && memcmp(target + length - 4, "/log", 4) == 0)
			logs++;
	}
	return logs;
}

static void
test_start(void)
{
	const HpReply *ready = &daemon_process.ready;
	struct stat attributes;
	Connection	client;
	int			status;

	/* A socket's file that a dead daemon has left must not prevent the start. */
	expect(close(creat(HP_SOCKET, 0600)) == 0, "creat");
	for (int i = 0; i < 2; i++)
	{
		start(MEMORY);
		expect(ready->text[0] != '\0' && ready->memory > 0 && ready->copies == 0, "what it says");
		expect(ready->is_gpu == (strcmp(device, "--device=host") != 0), "kind of device");
		expect(stat(HP_SOCKET, &attributes) == 0 && S_ISSOCK(attributes.st_mode) &&
			   (attributes.st_mode & 0777) == 0600, "mode of the socket");
		expect(count_logs() == 1, "descriptors are still open");
		kill(daemon_process.pid, SIGINT);
		kill(daemon_process.pid, SIGHUP);
		client = connect_client(GENERATION);
		close_connection(&client);
		if (i == 0)
		{
			kill(daemon_process.pid, SIGTERM);
			status = wait_daemon(&daemon_process);
			expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "SIGTERM: status %#x", status);
			close(daemon_process.control);
		}
		else
			stop();
		expect(access(HP_SOCKET, F_OK) != 0, "the socket is left behind");
	}
	report("start and end");

	for (int i = 0; i < 6; i++)
	{
		static const char *const wrong[][2] = {
			{"--device=gpu", MEMORY}, {MEMORY, MEMORY}, {"--device=host", "--memory=1x"},
			{"--device=host", "--memory=99999999999999"}, {"--device=host", "--host-memory=-1x"},
			{"--device=host", "more"}
		};
		Daemon		none = start_daemon(wrong[i][0], wrong[i][1], NULL);

		status = stop_daemon(&none);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 2, "%s %s: status %#x", wrong[i][0],
			   wrong[i][1], status);
	}
	report("wrong options");
}

/*
 * The start fails if there is no driver or no device, or if the daemon is built without
 * CUDA.
 */
static void
test_no_device(void)
{
	static const char *const devices[] = {"--device=cuda", "--device=auto"};

	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	for (int i = 0; i < 2; i++)
	{
		Daemon		none = start_daemon(devices[i], MEMORY, NULL);
		int			status = wait_daemon(&none);

		expect(none.ready.status == HP_FAILED && strstr(none.ready.text, "CUDA") != NULL,
			   "it says \"%s\"", none.ready.text);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %#x", status);
		close(none.control);
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
	report("no device");
}

static void
test_no_folder(void)
{
	Daemon		none;
	int			status;

	unlink(HP_SOCKET);
	expect(rmdir("pg_stat_tmp") == 0, "rmdir");
	none = start_daemon(device, MEMORY, NULL);
	status = wait_daemon(&none);
	expect(none.ready.status == HP_FAILED && strstr(none.ready.text, HP_SOCKET) != NULL,
		   "it says \"%s\"", none.ready.text);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %#x", status);
	close(none.control);
	expect(mkdir("pg_stat_tmp", 0700) == 0, "mkdir");
	report("nowhere to listen");
}

/* ----------------------------------------------------------------
 *		Copies
 * ----------------------------------------------------------------
 */

static void
test_life(HtWidth width, Content content, bool partial)
{
	Connection	client = connect_client(GENERATION);
	Index		index = make_index(content, width);
	HpRequest	request = about(&index, HP_SYNC_BEGIN);
	HpReply		reply;

	index.partial = partial;
	request.create = 0;
	expect(ask_status(&client, &request, NULL) == HP_UNKNOWN, "there is a copy of a new index");
	expect(probe_status(&client, &index) == HP_UNKNOWN, "search without a copy");
	for (int round = 0; round < 20 && !failed(); round++)
	{
		/* Now and then drop the copy, or use another client. */
		request = about(&index, HP_DROP);
		if (rnd_below(10) == 0)
		{
			expect(ask_status(&client, &request, &reply) == HP_OK && reply.copy_memory == 0, "drop");
			expect(probe_status(&client, &index) == HP_UNKNOWN, "search after drop");
			expect(ask_status(&client, &request, NULL) == HP_OK, "drop what is not there");
		}
		if (rnd_below(5) == 0)
		{
			close_connection(&client);
			client = connect_client(GENERATION);
		}
		expect(sync_index(&client, &index) == HP_OK, "sync");
		for (int i = 0; i < 10 && !failed(); i++)
			search_index(&client, &index);
		change_index(&index);
	}
	request = about(&index, HP_SEARCH);
	request.search.zones = index.zones_number;
	expect(ask_status(&client, &request, &reply) == HP_OK && reply.hits == 0, "no probe");
	expect(reply.copy_memory >= (uint64_t) index.blocks_copied * HT_PAGE_SIZE, "memory of the copy");
	request = about(&index, HP_DROP);
	expect(ask_status(&client, &request, &reply) == HP_OK && reply.copies == 0, "drop");
	close_connection(&client);
	free_index(&index);
	report("a %scopy's life, %d bits: %s", partial ? "partial " : "", width_bits(width), content_names[content]);
}

/* Copies whose names differ in only one field. */
static void
test_names(void)
{
	Connection	client = connect_client(GENERATION);
	Index		indexes[5];

	for (int i = 0; i < 5; i++)
	{
		indexes[i] = make_index(CONTENT_SPREAD, some_widths[i % 3]);
		indexes[i].name = indexes[0].name;
	}
	indexes[1].name.build_id ^= UINT64_C(1) << 40;
	indexes[2].name.database ^= 1;
	indexes[3].name.tablespace ^= 1;
	indexes[4].name.relfilenode ^= 1;
	for (int i = 0; i < 5; i++)
	{
		expect(probe_status(&client, &indexes[i]) == HP_UNKNOWN, "copy %d", i);
		expect(sync_index(&client, &indexes[i]) == HP_OK, "sync");
	}
	for (int i = 0; i < 50; i++)
		search_index(&client, &indexes[rnd_below(5)]);
	for (int i = 0; i < 5; i++)
	{
		HpRequest	request = about(&indexes[i], HP_DROP);

		expect(ask_status(&client, &request, NULL) == HP_OK, "drop");
		free_index(&indexes[i]);
	}
	close_connection(&client);
	report("names of indexes");
}

/* ----------------------------------------------------------------
 *		Several clients
 * ----------------------------------------------------------------
 */

/* Send a search for all entries of an index. */
static void
send_search_all(const Connection *client, const Index *index)
{
	HpRequest	request = make_search(client, index, 0);
	uint64_t	high = ht_key_max(index->model.width);

	request.search.is_range = 1;
	request.search.high_at = 64;
	pack_keys(client->staging + 64, &high, 1, index->model.width);
	request.search.probes_at = 128;
	request.search.tids_at = 1024 * 1024;
	request.search.room = MODEL_MAX_ENTRIES;
	expect(send_request(client, &request), "send");
}

/* Check the result of send_search_all(). */
static void
check_all(const Connection *client, const Index *index, const HpReply *reply)
{
	uint64_t	low = 0;
	uint64_t	high = ht_key_max(index->model.width);

	expect(reply->status == HP_OK && reply->hits == (uint64_t) index->model.count,
		   "status %u, %llu entries instead of %d", reply->status, (unsigned long long) reply->hits,
		   index->model.count);
	if (!failed())
		model_compare(&index->model, &low, &high, 1, MODEL_MAX_ENTRIES,
					  (const uint32_t *) (client->staging + 128),
					  (const uint64_t *) (client->staging + 1024 * 1024), MODEL_BY_PROBE);
}

static void
receive_all(const Connection *client, const Index *index)
{
	HpReply		reply;

	expect(receive_reply(client, &reply), "a search has no reply");
	check_all(client, index, &reply);
}

/* Searches wait for the end of a sync, and find what it has brought. */
static void
test_sync_and_search(void)
{
	Connection	writer = connect_client(GENERATION);
	Connection	waiting[3];
	Connection	third = connect_client(GENERATION);
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	Index		other = make_index(CONTENT_SPREAD, HT_WIDTH32);

	expect(sync_index(&writer, &index) == HP_OK && sync_index(&writer, &other) == HP_OK, "sync");
	for (int round = 0; round < 5 && !failed(); round++)
	{
		change_index(&index);
		expect(sync_begin(&writer, &index) == HP_OK, "begin");
		for (int i = 0; i < 3; i++)
		{
			waiting[i] = connect_client(GENERATION);
			send_search_all(&waiting[i], &index);
		}
		expect(is_silent(&waiting[0]) && is_silent(&waiting[2]), "a search during another client's sync");

		/* Neither waiting clients nor the sync delay requests for other indexes. */
		close_connection(&waiting[1]);
		search_index(&third, &other);
		expect(sync_blocks(&writer, &index) == HP_OK, "blocks");
		search_index(&third, &other);
		expect(is_silent(&waiting[0]), "a search before the sync ends");
		if (round == 0)
			expect(is_told_to_wait(&waiting[0]) && is_told_to_wait(&waiting[2]) && is_told_to_wait(&waiting[0]),
				   "waiting clients do not get HP_WAITING");
		expect(sync_end(&writer, &index) == HP_OK, "end");
		receive_all(&waiting[0], &index);
		receive_all(&waiting[2], &index);
		close_connection(&waiting[0]);
		close_connection(&waiting[2]);
	}
	report("searches wait for a sync");

	/* Other syncs also wait, one after the other, and so do searches after them. */
	for (int round = 0; round < 5 && !failed(); round++)
	{
		HpRequest	request = about(&index, HP_SYNC_BEGIN);
		HpReply		reply;

		for (int i = 0; i < 2; i++)
			waiting[i] = connect_client(GENERATION);
		expect(sync_begin(&writer, &index) == HP_OK, "begin");
		expect(send_request(&waiting[0], &request) && is_silent(&waiting[0]), "two syncs at once");
		send_search_all(&waiting[1], &index);
		expect(sync_end(&writer, &index) == HP_OK, "end");
		expect(receive_reply(&waiting[0], &reply) && reply.status == HP_OK && !reply.created &&
			   reply.structure == index.structure, "the next sync");
		expect(is_silent(&waiting[1]), "a search during the next sync");
		change_index(&index);
		expect(sync_blocks(&waiting[0], &index) == HP_OK && sync_end(&waiting[0], &index) == HP_OK,
			   "the next sync");
		receive_all(&waiting[1], &index);

		/* Dropping waits, too. */
		expect(sync_begin(&writer, &index) == HP_OK, "begin");
		request = about(&index, HP_DROP);
		expect(send_request(&waiting[0], &request) && is_silent(&waiting[0]), "drop during a sync");
		expect(sync_end(&writer, &index) == HP_OK, "end");
		expect(receive_reply(&waiting[0], &reply) && reply.status == HP_OK, "drop");
		expect(probe_status(&writer, &index) == HP_UNKNOWN, "search after drop");
		expect(sync_index(&writer, &index) == HP_OK, "sync again");
		for (int i = 0; i < 2; i++)
			close_connection(&waiting[i]);
	}
	report("syncs wait for each other");

	close_connection(&writer);
	close_connection(&third);
	free_index(&index);
	free_index(&other);
}

/* A sync that does not end leaves no copy, whatever step it has reached. */
static void
test_broken_sync(void)
{
	Connection	client = connect_client(GENERATION);
	Connection	waiting = connect_client(GENERATION);
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH32);

	for (int step = 0; step < 3; step++)
	{
		pid_t		writer;
		int			status;
		int			pipe_ends[2];
		char		byte;
		HpReply		reply;

		expect(sync_index(&client, &index) == HP_OK, "sync");
		change_index(&index);
		expect(pipe(pipe_ends) == 0, "pipe");
		writer = fork();
		if (writer == 0)
		{
			Connection	connection = connect_client(GENERATION);

			sync_begin(&connection, &index);
			if (step > 0)
				sync_blocks(&connection, &index);
			if (step > 1)
			{
				/* Stop in the middle of a request. */
				HpRequest	request = about(&index, HP_SYNC_PAGES);

				request.count = 1;
				*(uint32_t *) connection.staging = 0;
				send_request(&connection, &request);
			}
			if (write(pipe_ends[1], "", 1) != 1)
				_exit(1);
			pause();
		}
		expect(read(pipe_ends[0], &byte, 1) == 1, "read");
		send_search_all(&waiting, &index);
		expect(is_silent(&waiting), "a search during a sync");
		kill(writer, SIGKILL);
		waitpid(writer, &status, 0);
		expect(receive_reply(&waiting, &reply) && reply.status == HP_UNKNOWN, "the copy is still there");
		close(pipe_ends[0]);
		close(pipe_ends[1]);
	}
	report("clients killed during a sync");

	for (int i = 0; i < 3; i++)
	{
		HpRequest	request = about(&index, HP_DROP);

		expect(sync_begin(&client, &index) == HP_OK && sync_blocks(&client, &index) == HP_OK, "sync");
		expect(ask_status(&client, &request, NULL) == HP_OK, "drop");
		expect(probe_status(&client, &index) == HP_UNKNOWN, "the copy is still there");
	}
	report("a sync given up");

	close_connection(&client);
	close_connection(&waiting);
	free_index(&index);
}

static void
test_generations(void)
{
	Connection	old = connect_client(GENERATION);
	Connection	old_in_sync = connect_client(GENERATION);
	Connection	new;
	Index		index = make_index(CONTENT_SERIAL, HT_WIDTH64);
	Index		other = make_index(CONTENT_SERIAL, HT_WIDTH64);

	expect(sync_index(&old, &index) == HP_OK, "sync");
	expect(sync_begin(&old_in_sync, &other) == HP_OK, "sync");
	new = connect_client(GENERATION);
	expect(probe_status(&new, &index) == HP_OK, "the same generation");
	close_connection(&new);

	new = connect_client(GENERATION + 1);
	expect(probe_status(&new, &index) == HP_UNKNOWN, "a copy of another generation");
	expect(probe_status(&new, &other) == HP_UNKNOWN, "a copy of another generation, in a sync");
	expect(has_ended(&old) && has_ended(&old_in_sync), "clients of another generation");
	expect(sync_index(&new, &index) == HP_OK && probe_status(&new, &index) == HP_OK, "sync");
	close_connection(&old);
	close_connection(&old_in_sync);
	close_connection(&new);
	new = connect_client(GENERATION);
	expect(probe_status(&new, &index) == HP_UNKNOWN, "a copy of another generation");
	close_connection(&new);
	free_index(&index);
	free_index(&other);
	report("generations");
}

static void
test_many_clients(void)
{
	static int	sockets[1100];
	Connection	first = connect_client(GENERATION);
	Connection	one;
	int			many = (int) sysconf(_SC_OPEN_MAX) - 50;
	int			ended = 0;

	if (many > 1100)
		many = 1100;
	for (int i = 0; i < many; i++)
	{
		one = open_connection();
		close(one.memory);
		munmap(one.staging, one.size);
		sockets[i] = one.socket;
	}
	for (int i = 0; i < many; i++)
	{
		HpRequest	hello = make_hello(GENERATION);

		one.socket = sockets[i];
		ended += ask_status(&one, &hello, NULL) == CONNECTION_ENDED;
	}
	expect(ended > 0 && ended < many - 100, "%d of %d clients are rejected", ended, many);
	for (int i = 0; i < many; i++)
		close(sockets[i]);
	close_connection(&first);
	/* The daemon may not have noticed the ends of connections yet. */
	for (int i = 0; i < 1000; i++)
	{
		HpRequest	hello = make_hello(GENERATION);

		one = open_connection();
		ended = ask_status(&one, &hello, NULL) == CONNECTION_ENDED;
		close_connection(&one);
		if (!ended)
			break;
		usleep(10000);
	}
	expect(!ended, "a client is rejected, though others have gone");
	report("many clients");
}

/* ----------------------------------------------------------------
 *		Requests that take long
 * ----------------------------------------------------------------
 */

#define LONG_LEAVES		400
#define LONG_PROBES		200000
#define SORTED_PROBES	16000000

/* While the host device sorts so many it asks rarely whether to go on; with the thread sanitizer each step takes long. */
#ifdef __SANITIZE_THREAD__
#define SORT_MS			10000
#else
#define SORT_MS			1000
#endif

/* Make a copy whose leaves are full of one key: each probe for it visits all of them. */
static HpIndexName
make_equal_keys(const Connection *client)
{
	HpRequest	request = {.operation = HP_SYNC_BEGIN, .create = 1, .width = HT_WIDTH32, .fanout = 64};
	HtLeafShape shape = model_full_shape(HT_WIDTH32);
	int			capacity = ht_leaf_capacity(shape);
	HtEntry    *entries = allocate(sizeof(HtEntry) * (size_t) capacity);

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
		((HpLeaf *) client->staging)[i] = (HpLeaf) {bound_of(HT_WIDTH32, make_entry(7, 0)), i, 0};
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
	HpRequest	request = {.operation = HP_SEARCH, .index = name};

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
	HpReply		reply;
	struct pollfd polled = {daemon_process.control, POLLIN, 0};

	return send(daemon_process.control, "", 1, MSG_NOSIGNAL) == 1 && poll(&polled, 1, 1000) == 1 &&
		recv(daemon_process.control, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply) &&
		reply.status == HP_OK;
}

/* So many searches at once keep all devices busy. */
static int
device_count(void)
{
	return daemon_devices != NULL ? 2 : 1;
}

/* A request ends when its client goes, and the next client is served. */
static void
test_gone_client(void)
{
	Connection	other = connect_client(GENERATION);
	HpIndexName name = make_equal_keys(&other);
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply		reply;
	double		longest = 0;

	expect(sync_index(&other, &index) == HP_OK, "sync");
	expect(ping(), "a ping is not answered");
	for (int round = 0; round < 5 && !failed(); round++)
	{
		Connection	gone[2];
		double		start;

		for (int i = 0; i < device_count(); i++)
		{
			gone[i] = connect_client(GENERATION);
			send_long_search(&gone[i], name, true);
		}
		usleep(20000);
		expect(ping(), "a ping during a search is not answered");
		send_search_all(&other, &index);
		expect(strcmp(device, "--device=host") != 0 || is_silent(&other), "two searches at once");
		start = now_ms();
		for (int i = 0; i < device_count(); i++)
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
static void
test_gone_sorting(void)
{
	const uint64_t size = UINT64_C(128) << 20;
	Connection	other = connect_client(GENERATION);
	Connection	gone[2];
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpRequest	request = about(&index, HP_SEARCH);
	uint64_t   *keys;
	HpReply		reply;
	double		start;

	expect(sync_index(&other, &index) == HP_OK, "sync");
	request.search.count = SORTED_PROBES;
	request.search.distinct = 1;
	for (int i = 0; i < device_count(); i++)
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
	for (int i = 0; i < device_count(); i++)
		expect(send_request(&gone[i], &request), "send");
	usleep(300000);
	send_search_all(&other, &index);
	expect(is_silent(&other), "two searches at once");
	start = now_ms();
	for (int i = 0; i < device_count(); i++)
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
static void
test_pieces(void)
{
	Connection	large = connect_client(GENERATION);
	Connection	small = connect_client(GENERATION);
	HpIndexName name = make_equal_keys(&large);
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	double		longest = 0;

	expect(sync_index(&small, &index) == HP_OK, "sync");
	send_long_search(&large, name, false);
	usleep(20000);
	for (int i = 0; i < 20 && !failed(); i++)
	{
		double		start = now_ms();

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
static void
test_small_pieces(void)
{
	Connection	client;
	Connection	other;
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);

	setenv("HARMONIA_PIECE", "7", 1);
	search_pieces = true;
	start(MEMORY);
	unsetenv("HARMONIA_PIECE");
	for (HtWidth width = HT_WIDTH32; width <= HT_WIDTH128; width *= 2)
	{
		for (Content content = 0; content < CONTENT_COUNT; content++)
		{
			test_life(width, content, false);
			test_life(width, content, true);
		}
	}
	client = connect_client(GENERATION);
	other = connect_client(GENERATION);
	expect(sync_index(&client, &index) == HP_OK, "sync");
	for (int round = 0; round < 200 && !failed(); round++)
	{
		HpRequest	request = about(&index, HP_SEARCH);
		HpReply		reply;

		/* The same probe many times: a piece finds all of its hits, or none is left. */
		uint64_t	key = index.model.entries[0].key;
		uint64_t	each = model_search(&index.model, &key, &key, 1, NULL);

		pack_keys(client.staging, &key, 1, index.model.width);
		for (int i = 1; i < 1000; i++)
			memcpy(client.staging + i * (int) index.model.width, client.staging, (size_t) index.model.width);
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
static void
test_stalled_sync(void)
{
	Connection	stalled = connect_client(GENERATION);
	Connection	other = connect_client(GENERATION);
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply		reply;
	double		start;

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
static void
test_shares(void)
{
	enum
	{
		GREEDY = 4,
		SEARCHES = 8,			/* of each greedy client, at least */
		COUNTED_MS = 500		/* what came before is paid off by then */
	};
	Connection	small = connect_client(GENERATION);
	Connection	greedy[GREEDY];
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	struct pollfd polled[GREEDY + 1];
	HpReply		reply;
	int			done[GREEDY + 1] = {0};
	int			longs = 0;
	int			least;
	bool		warm = false;
	double		begin = 0;		/* when counting began */
	HpRequest	request;

	expect(sync_index(&small, &index) == HP_OK, "sync");
	for (int i = 0; i < GREEDY; i++)
	{
		greedy[i] = connect_client(GENERATION);
		polled[i] = (struct pollfd) {greedy[i].socket, POLLIN, 0};
	}
	polled[GREEDY] = (struct pollfd) {small.socket, POLLIN, 0};
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
	printf("# %d short searches, %d %d %d %d long ones\n", done[GREEDY], done[0], done[1], done[2], done[3]);
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

/* ----------------------------------------------------------------
 *		Memory
 * ----------------------------------------------------------------
 */

/* Clients map more staging memory than may be pinned; it is used all the same. */
static void
test_pinned(void)
{
	enum
	{
		CLIENTS = 12
	};
	const uint64_t size = UINT64_C(128) << 20;
	Connection	clients[CLIENTS];
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply		reply;
	uint64_t	most = 0;

	start(MEMORY);
	for (int i = 0; i < CLIENTS; i++)
	{
		clients[i] = connect_client(GENERATION);
		expect(ftruncate(clients[i].memory, (off_t) size) == 0, "ftruncate");
		expect(map_staging(&clients[i], clients[i].memory, size, &reply) && reply.status == HP_OK, "map");
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

static void
test_memory(void)
{
	Connection	client;
	Connection	other;
	HpRequest	request = {.operation = HP_SYNC_BEGIN, .width = HT_WIDTH64, .fanout = 64};
	HpReply		reply;

	start("--memory=8");		/* 1024 blocks */
	client = connect_client(GENERATION);
	other = connect_client(GENERATION);
	for (uint32_t i = 1; i <= 3; i++)
		expect(make_copy(&client, i, 300, &reply) == HP_OK && reply.copies == i &&
			   reply.evictions == 0 && reply.copy_memory >= 300 * HT_PAGE_SIZE, "copy %u", i);
	expect(make_copy(&client, 4, 300, &reply) == HP_OK && reply.copies == 3 && reply.evictions == 1,
		   "one copy too many");
	expect(!has_copy(&client, 1) && has_copy(&client, 2), "the wrong copy is evicted");
	expect(make_copy(&client, 5, 300, &reply) == HP_OK && reply.evictions == 2, "two too many");
	expect(has_copy(&client, 2) && !has_copy(&client, 3) && has_copy(&client, 4), "the wrong copy is evicted");
	report("the least recently used copy is evicted");

	expect(make_copy(&client, 6, 1025, &reply) == HP_NO_MEMORY && reply.text[0] != '\0' &&
		   reply.evictions == 2, "a copy that will never fit");
	expect(!has_copy(&client, 6) && has_copy(&client, 2) && has_copy(&client, 5), "what is there");
	request.index.build_id = 2;
	expect(ask_status(&other, &request, NULL) == HP_OK, "begin");
	expect(make_copy(&client, 6, 1000, &reply) == HP_NO_MEMORY && reply.copies == 3,
		   "a copy in a sync is in the way, so others are not evicted");
	expect(!has_copy(&client, 6), "a copy without memory is still there");
	expect(make_copy(&client, 7, 600, &reply) == HP_OK && reply.copies == 2, "a smaller one");
	request.operation = HP_SYNC_RESERVE;
	request.count = 900;
	expect(ask_status(&other, &request, &reply) == HP_OK && reply.copies == 1 && !has_copy(&client, 7),
		   "a copy that grows");
	request.operation = HP_SYNC_END;
	expect(ask_status(&other, &request, &reply) == HP_OK &&
		   reply.copy_memory <= 1024 * HT_PAGE_SIZE, "end");
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
	expect(make_copy(&client, 2, HP_MAX_BLOCKS + 1, &reply) == HP_NO_MEMORY && reply.evictions == 0 &&
		   has_copy(&client, 1), "a copy with too many blocks");
	close_connection(&client);
	stop();
	report("too many blocks");

}

/* Random syncs and searches of more copies than fit, some of which are partly on the host. */
static void
test_coming_and_going(void)
{
	for (int round = 0; round < 6; round++)
	{
		Connection	client;
		Index		indexes[6];

		start_with_host(round % 3 < 2 ? "--memory=4" : "--memory=0", round < 3 ? NULL : round == 3 ? "--host-memory=3" : "--host-memory=64");
		client = connect_client(GENERATION);
		for (int i = 0; i < 6; i++)
		{
			indexes[i] = make_index(CONTENT_SPREAD, some_widths[i % 3]);
			indexes[i].partial = i % 2 != 0;
		}
		for (int i = 0; i < 100 && !failed(); i++)
		{
			Index	   *index = &indexes[rnd_below(6)];
			int			status;

			if (rnd_below(3) == 0)
				change_index(index);
			status = sync_index(&client, index);
			expect(status == HP_OK || (status == HP_NO_MEMORY && index->blocks > 400), "sync: %d", status);
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
static void
test_host_memory(void)
{
	Connection	client;
	HpRequest	request = {.operation = HP_SYNC_BEGIN, .width = HT_WIDTH64, .fanout = 64};
	HpReply		reply;
	uint64_t	on_device;

	start_with_host("--memory=8", "--host-memory=4");	/* 1024 and 512 blocks */
	client = connect_client(GENERATION);
	expect(make_copy(&client, 1, 300, &reply) == HP_OK && reply.copy_host_memory == 0, "a copy that fits");
	expect(make_copy(&client, 2, 1000, &reply) == HP_OK && reply.evictions == 0 && reply.copies == 2,
		   "a copy that does not: %s", reply.text);
	on_device = reply.copy_memory - reply.copy_host_memory;
	expect(reply.copy_host_memory >= 250 * HT_PAGE_SIZE && reply.copy_host_memory <= 512 * HT_PAGE_SIZE,
		   "%llu bytes on the host", (unsigned long long) reply.copy_host_memory);
	expect(on_device >= 650 * HT_PAGE_SIZE && on_device <= 724 * HT_PAGE_SIZE, "%llu bytes on the device",
		   (unsigned long long) on_device);
	expect(has_copy(&client, 1), "the other copy is gone");

	/* How large another one could be, and a copy of that size */
	request.index.build_id = 3;
	request.create = 1;
	expect(ask_status(&client, &request, &reply) == HP_OK && reply.blocks_max > 600 && reply.blocks_max < 760,
		   "%u blocks at most", reply.blocks_max);
	request.operation = HP_SYNC_RESERVE;
	request.count = reply.blocks_max;
	expect(ask_room(&client, &request, &reply) == HP_OK && reply.copy_host_memory > 0, "as many: %s", reply.text);
	request.operation = HP_SYNC_END;
	expect(ask_status(&client, &request, &reply) == HP_OK, "end");
	expect(make_copy(&client, 4, 1400, &reply) == HP_NO_MEMORY, "the host's memory is taken from others");

	/* Growing takes more of the host's memory, and more than all is refused. */
	request.operation = HP_DROP;
	for (request.index.build_id = 1; request.index.build_id <= 3; request.index.build_id++)
		expect(ask_status(&client, &request, NULL) == HP_OK, "drop");
	expect(make_copy(&client, 4, 1400, &reply) == HP_OK && reply.copy_host_memory <= 512 * HT_PAGE_SIZE, "a large copy");
	on_device = reply.copy_memory - reply.copy_host_memory;
	request = (HpRequest) {.operation = HP_SYNC_BEGIN, .width = HT_WIDTH64, .fanout = 64};
	request.index.build_id = 4;
	expect(ask_status(&client, &request, &reply) == HP_OK && reply.blocks >= 1400, "begin");
	request.operation = HP_SYNC_RESERVE;
	request.count = reply.blocks + 10;
	expect(ask_room(&client, &request, &reply) == HP_OK &&
		   reply.copy_memory - reply.copy_host_memory >= on_device, "a copy that grows");
	request.count = 1536;
	expect(ask_room(&client, &request, &reply) == HP_NO_MEMORY && reply.text[0] != '\0', "a copy that outgrows both");
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
static void
test_no_memory(void)
{
	Connection	client;
	Index		indexes[4];
	int			outcomes[HP_FAILED + 1] = {0};
	int			searches_failed = 0;

	setenv("FAULT_MEMORY", "6", 1);
	start(MEMORY);
	client = connect_client(GENERATION);
	for (int i = 0; i < 4; i++)
		indexes[i] = make_index(CONTENT_SPREAD, some_widths[i % 3]);
	for (int i = 0; i < 500 && !failed(); i++)
	{
		Index	   *index = &indexes[rnd_below(4)];
		int			status;

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
			HpReply		reply;

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
static void
test_too_long(void)
{
	Connection	client;
	Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	double		begin;

	setenv("FAULT_SLOW", "30000", 1);
	start(MEMORY);
	unsetenv("FAULT_SLOW");
	client = connect_client(GENERATION);
	expect(sync_index(&client, &index) == HP_OK, "sync");
	for (int i = 0; i < 2; i++)
	{
		begin = now_ms();
		expect(probe_status(&client, &index) == HP_TOO_LONG, "the search was not abandoned");
		expect(now_ms() - begin > 500 && now_ms() - begin < 5000, "after %.0f ms", now_ms() - begin);
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
		HpRequest	request = make_search(&client, &index, 0);

		request.search.count = probes;
		request.search.probes_at = 64 * 1024;
		expect(ask_status(&client, &request, NULL) == (probes == 1 ? HP_OK : HP_TOO_LONG), "%u pieces", probes);
	}
	close_connection(&client);
	free_index(&index);
	stop();
	report("a search that takes too long");
}

/* If any call of the device fails, the daemon reports it and ends. */
static void
test_failure(void)
{
	bool		fails = true;
	int			call;

	for (call = 1; fails && !failed(); call++)
	{
		Index		index = make_index(CONTENT_SPREAD, HT_WIDTH64);
		char		number[16];
		int			status;

		snprintf(number, sizeof(number), "%d", call);
		setenv("FAULT_DEVICE", number, 1);
		daemon_process = start_daemon(device, MEMORY, NULL);
		status = (int) daemon_process.ready.status;
		if (status == HP_OK)
		{
			Connection	client = open_connection();
			Connection	other = open_connection();
			HpRequest	hello = make_hello(GENERATION);
			HpReply		reply;

			status = ask_status(&client, &hello, NULL);
			if (status == HP_OK)
				expect(map_staging(&client, client.memory, client.size, &reply) && reply.status == HP_OK, "map");
			for (int round = 0; round < 2 && status == HP_OK; round++)
			{
				status = sync_index(&client, &index);
				if (status == HP_OK)
					status = probe_status(&client, &index);
				change_index(&index);
			}
			if (status != HP_OK)
				expect(ask_status(&other, &hello, NULL) == CONNECTION_ENDED, "another client's connection");
			close_connection(&client);
			close_connection(&other);
		}
		fails = status != HP_OK;
		if (fails)
		{
			expect(status == HP_FAILED, "call %d: status %d", call, status);
			status = wait_daemon(&daemon_process);
			expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "call %d: the daemon ends with %#x",
				   call, status);
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

/* ----------------------------------------------------------------
 *		Hostile messages
 * ----------------------------------------------------------------
 */

/* A client that keeps the rules; the others must not disturb it. */
static Connection good;
static Index good_index;

/* The index that clients use which break the rules. */
static Index bad_index;

static int
count_descriptors(void)
{
	int			n = 0;

	for (int i = 0; i < 2000; i++)
	{
		char		path[64];
		char		target[16];

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) daemon_process.pid, i);
		n += readlink(path, target, sizeof(target)) > 0;
	}
	return n;
}

static void
check_good(const char *what)
{
	bool		before = failed();

	search_index(&good, &good_index);
	if (!before && failed())
		printf("# after: %s\n", what);
}

static void
check_ended(Connection *bad, const char *what)
{
	expect(has_ended(bad), "the connection goes on: %s", what);
	expect(probe_status(&good, &bad_index) == HP_UNKNOWN, "the copy is still there: %s", what);
	close_connection(bad);
	check_good(what);
}

/* Connect a client; if in_sync, begin a sync and reserve eight blocks. */
static Connection
connect_bad(bool in_sync)
{
	Connection	bad = connect_client(GENERATION);
	HpRequest	request = about(&bad_index, HP_SYNC_BEGIN);

	if (!in_sync)
		return bad;
	expect(ask_status(&bad, &request, NULL) == HP_OK, "begin");
	request = about(&bad_index, HP_SYNC_RESERVE);
	request.count = 8;
	expect(ask_status(&bad, &request, NULL) == HP_OK, "reserve");
	memset(bad.staging, 0, 64 * 1024);
	return bad;
}

static void
try_request(const char *what, bool in_sync, HpRequest request)
{
	Connection	bad = connect_bad(in_sync);

	send_request(&bad, &request);
	check_ended(&bad, what);
}

static void
test_bad_requests(void)
{
	HpRequest	request;

	for (uint32_t operation = HP_MAP; operation < HP_OPERATIONS; operation++)
	{
		Connection	bad = open_connection();

		request = about(&good_index, operation);
		send_request(&bad, &request);
		check_ended(&bad, "no greeting");
	}
	report("hostile: another first request");

#define TRY(what, in_sync, start_of, change) \
	do { \
		request = start_of; \
		change; \
		try_request(what, in_sync, request); \
	} while (0)

	TRY("another version", false, make_hello(GENERATION), (void) 0);
	{
		Connection	bad = open_connection();

		request = make_hello(GENERATION + 7);
		request.version++;
		send_request(&bad, &request);
		check_ended(&bad, "another version");
	}
	TRY("an operation too many", false, about(&bad_index, HP_OPERATIONS), (void) 0);
	TRY("no operation", false, about(&bad_index, HP_SEARCH), request.operation = UINT32_MAX);
	TRY("no operation, in a sync", true, about(&bad_index, HP_SEARCH), request.operation = 1u << 31);
	TRY("greeting twice in a sync", true, make_hello(GENERATION), (void) 0);
	for (uint32_t operation = HP_SYNC_BEGIN; operation < HP_OPERATIONS; operation++)
		TRY("a name's end", false, about(&good_index, operation), request.index.unused = 1);
	report("hostile: operations");

	for (uint32_t operation = HP_SYNC_ZONES; operation <= HP_SYNC_END; operation++)
	{
		TRY("no sync", false, about(&good_index, operation), (void) 0);
		TRY("no sync, no copy", false, about(&bad_index, operation), (void) 0);
		TRY("another's sync", true, about(&good_index, operation), (void) 0);
	}
	TRY("begin again", true, about(&bad_index, HP_SYNC_BEGIN), (void) 0);
	TRY("begin another", true, about(&good_index, HP_SYNC_BEGIN), (void) 0);
	TRY("search in a sync", true, make_search(&good, &bad_index, 0), (void) 0);
	TRY("search another in a sync", true, make_search(&good, &good_index, 0), (void) 0);
	TRY("drop another in a sync", true, about(&good_index, HP_DROP), (void) 0);
	report("hostile: syncs");

	TRY("width", false, about(&bad_index, HP_SYNC_BEGIN), request.width = 0);
	TRY("width", false, about(&bad_index, HP_SYNC_BEGIN), request.width = HT_WIDTH96);
	TRY("width", false, about(&bad_index, HP_SYNC_BEGIN), request.width = HT_WIDTH256);
	TRY("width", false, about(&bad_index, HP_SYNC_BEGIN), request.width = UINT32_MAX);
	TRY("fanout", false, about(&bad_index, HP_SYNC_BEGIN), request.fanout = HT_MIN_FANOUT - 1);
	TRY("fanout", false, about(&bad_index, HP_SYNC_BEGIN), request.fanout = HT_MAX_FANOUT + 1);
	TRY("fanout", false, about(&bad_index, HP_SYNC_BEGIN), request.fanout = UINT32_MAX);
	TRY("flag", false, about(&bad_index, HP_SYNC_BEGIN), request.create = 2);
	TRY("another width", false, about(&good_index, HP_SYNC_BEGIN), request.width ^= HT_WIDTH32 ^ HT_WIDTH64);
	TRY("another fanout", false, about(&good_index, HP_SYNC_BEGIN), request.fanout ^= 16);
	report("hostile: attributes of an index");
}

/* Two clients in a sync must not wait for each other. */
static void
test_crossed_syncs(void)
{
	Connection	first = connect_bad(true);
	Connection	second = connect_client(GENERATION);
	HpRequest	request = about(&bad_index, HP_SYNC_BEGIN);

	request.index.build_id++;
	expect(ask_status(&second, &request, NULL) == HP_OK, "begin");
	send_request(&first, &request);
	expect(has_ended(&first), "a client in a sync waits for another client");
	request = about(&bad_index, HP_SYNC_BEGIN);
	send_request(&second, &request);
	check_ended(&second, "a client in a sync waits for another client");
	close_connection(&first);

	/* A request with a descriptor breaks a rule at once; it does not wait. */
	first = connect_bad(true);
	second = connect_client(GENERATION);
	request = about(&bad_index, HP_DROP);
	send_bytes(&second, &request, sizeof(request), &second.memory, 1);
	expect(has_ended(&second), "a request with a descriptor waits");
	close_connection(&first);
	close_connection(&second);
	check_good("crossed syncs");
	report("hostile: crossed syncs");
}

/* Offsets and counts that lead out of staging memory. */
static void
test_bad_staging(void)
{
	static const uint64_t offsets[] = {
		1, 4, 63, STAGING_SIZE, STAGING_SIZE + 64, UINT64_C(1) << 32, UINT64_MAX - 63, UINT64_MAX,
		UINT64_C(1) << 63
	};
	static const uint64_t rooms[] = {
		STAGING_SIZE / 8 + 1, STAGING_SIZE, UINT64_C(1) << 61, (UINT64_C(1) << 61) + 8,
		UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_MAX
	};
	HpRequest	request;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
	{
		uint64_t	at = offsets[i];

		for (uint32_t operation = HP_SYNC_LINES; operation <= HP_SYNC_PAGES; operation++)
		{
			TRY("numbers", true, about(&bad_index, operation), (request.count = 1, request.numbers_at = at));
			TRY("items", true, about(&bad_index, operation), (request.count = 1, request.data_at = at));
		}
		TRY("leaves", true, about(&bad_index, HP_SYNC_LEAVES), (request.count = 1, request.data_at = at));
		TRY("new leaves", true, about(&bad_index, HP_SYNC_NEW_LEAVES), (request.count = 1, request.data_at = at));
		TRY("low keys", false, make_search(&good, &good_index, 0), request.search.low_at = at);
		TRY("high keys", false, make_search(&good, &good_index, 0),
			(request.search.is_range = 1, request.search.high_at = at));
		TRY("probes", false, make_search(&good, &good_index, 0), request.search.probes_at = at);
		TRY("tids", false, make_search(&good, &good_index, 0), request.search.tids_at = at);
		TRY("map", false, make_search(&good, &good_index, 0),
			(request.search.tids_only = 1, request.search.map_pages = 1, request.search.map_at = at));
		TRY("counts", false, make_search(&good, &good_index, 0),
			(request.search.map_pages = 1, request.search.counts_at = at));
		TRY("keys of hits", false, make_search(&good, &good_index, 0),
			(request.search.is_range = request.search.with_keys = 1, request.search.keys_at = at));
	}
	report("hostile: offsets");

	for (uint32_t count = STAGING_SIZE / 4 + 1; count != 0; count = count < UINT32_MAX / 3 ? count * 3 :
		 count < UINT32_MAX ? UINT32_MAX : 0)
	{
		TRY("lines", true, about(&bad_index, HP_SYNC_LINES), request.count = count);
		TRY("pages", true, about(&bad_index, HP_SYNC_PAGES), request.count = count);
		TRY("leaves", true, about(&bad_index, HP_SYNC_LEAVES), request.count = count);
		TRY("new leaves", true, about(&bad_index, HP_SYNC_NEW_LEAVES), request.count = count);
		TRY("keys", false, make_search(&good, &good_index, 0), request.search.count = count);
	}
	TRY("lines", true, about(&bad_index, HP_SYNC_LINES), request.count = STAGING_SIZE / HP_LINE_SIZE + 1);
	TRY("pages", true, about(&bad_index, HP_SYNC_PAGES), request.count = STAGING_SIZE / HT_PAGE_SIZE + 1);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
		TRY("room", false, make_search(&good, &good_index, 0), request.search.room = rooms[i]);
	TRY("flag", false, make_search(&good, &good_index, 0), request.search.is_range = 2);
	TRY("tids alone", false, make_search(&good, &good_index, 0), request.search.tids_only = 2);
	TRY("pages", false, make_search(&good, &good_index, 0),
		(request.search.tids_only = 1, request.search.map_pages = UINT32_MAX));
	TRY("by block", false, make_search(&good, &good_index, 0), request.search.by_block = 2);
	TRY("a map and an order", false, make_search(&good, &good_index, 0),
		(request.search.tids_only = request.search.map_pages = request.search.by_block = 1));
	TRY("with keys", false, make_search(&good, &good_index, 0),
		(request.search.is_range = 1, request.search.with_keys = 2));
	TRY("unused bytes of a search", false, make_search(&good, &good_index, 0), request.search.unused = 1);
	TRY("keys of points", false, make_search(&good, &good_index, 0), request.search.with_keys = 1);
	TRY("keys and an order", false, make_search(&good, &good_index, 0),
		(request.search.is_range = request.search.with_keys = request.search.by_block = 1));
	TRY("keys and a map", false, make_search(&good, &good_index, 0),
		(request.search.is_range = request.search.with_keys = request.search.tids_only = request.search.map_pages = 1));
	report("hostile: counts");

	/* The last item may end exactly where the memory ends. */
	{
		Connection	last = connect_bad(true);

		request = about(&bad_index, HP_SYNC_PAGES);
		request.count = 1;
		request.numbers_at = STAGING_SIZE - 64;
		request.data_at = STAGING_SIZE - HT_PAGE_SIZE;
		*(uint32_t *) (last.staging + request.numbers_at) = 3;
		expect(ask_status(&last, &request, NULL) == HP_OK, "last page");
		request = about(&bad_index, HP_SYNC_PAGES);
		request.numbers_at = request.data_at = STAGING_SIZE;
		expect(ask_status(&last, &request, NULL) == HP_OK, "no page");
		request = about(&bad_index, HP_SYNC_NEW_LEAVES);
		request.data_at = STAGING_SIZE;
		expect(ask_status(&last, &request, NULL) == HP_OK, "no new leaf");
		close_connection(&last);
	}

	/* Without staging memory no offset is valid. */
	{
		Connection	bad = open_connection();

		request = make_hello(GENERATION);
		expect(ask_status(&bad, &request, NULL) == HP_OK, "hello");
		request = make_search(&good, &good_index, 0);
		send_request(&bad, &request);
		check_ended(&bad, "no staging memory");
	}
	report("staging memory's end");
}

static void
try_number(HpOperation operation, uint32_t number)
{
	Connection	bad = connect_bad(true);
	HpRequest	request = about(&bad_index, operation);
	uint32_t   *numbers = (uint32_t *) bad.staging;

	numbers[0] = 0;
	numbers[1] = number;
	request.count = 2;
	request.data_at = 64;
	send_request(&bad, &request);
	check_ended(&bad, "block beyond");
}

/* A bound with a second word. */
#define BOUND(high, low, tid)	{{low, high}, tid}

static void
try_leaves(const char *what, HpLeaf first, HpLeaf second)
{
	Connection	bad = connect_bad(true);
	HpRequest	request = about(&bad_index, HP_SYNC_LEAVES);
	HpLeaf	   *leaves = (HpLeaf *) bad.staging;

	leaves[0] = (HpLeaf) {BOUND(0, 0, 0), 0, 0};
	leaves[1] = first;
	leaves[2] = second;
	request.count = 3;
	send_request(&bad, &request);
	check_ended(&bad, what);
}

static void
try_new_leaves(const char *what, HpNewLeaf first, HpNewLeaf second)
{
	Connection	bad = connect_bad(true);
	HpRequest	request = about(&bad_index, HP_SYNC_NEW_LEAVES);
	HpNewLeaf  *leaves = (HpNewLeaf *) bad.staging;

	leaves[0] = first;
	leaves[1] = second;
	request.count = 2;
	send_request(&bad, &request);
	check_ended(&bad, what);
}

/* Zones of a copy that has none yet, with some blocks, or none. */
static void
try_zones(const char *what, uint32_t blocks, uint64_t number, uint32_t count, HpZone first, HpZone second)
{
	Connection	bad = connect_bad(true);
	HpRequest	request = about(&bad_index, HP_DROP);
	HpZone	   *zones = (HpZone *) bad.staging;

	expect(ask_status(&bad, &request, NULL) == HP_OK, "drop");
	request = about(&bad_index, HP_SYNC_BEGIN);
	expect(ask_status(&bad, &request, NULL) == HP_OK, "begin again");
	request = about(&bad_index, HP_SYNC_RESERVE);
	request.count = blocks;
	expect(ask_status(&bad, &request, NULL) == HP_OK, "reserve");
	request = about(&bad_index, HP_SYNC_ZONES);
	memset(zones, 0, HP_MAX_ZONES * sizeof(HpZone));
	for (uint32_t i = 0; i < HP_MAX_ZONES; i++)
		zones[i].low[0] = i;
	zones[0] = first;
	zones[1] = second;
	request.count = count;
	request.zones = number;
	send_request(&bad, &request);
	check_ended(&bad, what);
}

/* A partial copy with one place, and what it must not be told. */
static void
try_partial(const char *what, HpOperation operation, uint32_t number)
{
	Connection	bad = connect_bad(true);
	HpRequest	request = about(&bad_index, HP_DROP);
	HpZone	   *zones = (HpZone *) bad.staging;

	expect(ask_status(&bad, &request, NULL) == HP_OK, "drop");
	request = about(&bad_index, HP_SYNC_BEGIN);
	expect(ask_status(&bad, &request, NULL) == HP_OK, "begin again");
	request = about(&bad_index, HP_SYNC_ZONES);
	zones[0] = (HpZone) {{0, 0}, 1, 0};
	request.count = 1;
	request.zones = 1;
	expect(ask_status(&bad, &request, NULL) == HP_OK, "zones");
	request = about(&bad_index, HP_SYNC_RESERVE);
	request.count = 2;
	expect(ask_status(&bad, &request, NULL) == HP_OK, "reserve");

	/* Blocks far away are not beyond a partial copy. */
	request = about(&bad_index, HP_SYNC_PAGES);
	request.data_at = 8192;
	request.count = 1;
	*(uint32_t *) bad.staging = HP_NUMBERED_BLOCKS - 1;
	expect(ask_status(&bad, &request, NULL) == HP_OK, "a page");
	request = about(&bad_index, operation);
	request.data_at = 8192;
	request.count = 1;
	*(uint32_t *) bad.staging = number;
	memset(bad.staging + 8192, 0, sizeof(HpNewLeaf));
	if (operation == HP_SYNC_LEAVES)
		((HpLeaf *) (bad.staging + 8192))->block = number;
	if (operation == HP_SYNC_NEW_LEAVES)
		*(HpNewLeaf *) (bad.staging + 8192) = (HpNewLeaf) {BOUND(0, 0, 0), BOUND(0, 0, 0), number, 1};
	if (operation == HP_SYNC_GET_ZONES)
		request.data_at = STAGING_SIZE - 64;
	send_request(&bad, &request);
	check_ended(&bad, what);
}

static void
test_bad_zones(void)
{
	HpZone		first = {{0, 0}, 1, 0};
	HpZone		second = {{5, 0}, 0, 0};

	try_zones("zones of a copy with blocks", 1, 1, 2, first, second);
	try_zones("no number", 0, 0, 2, first, second);
	try_zones("no zones", 0, 1, 0, first, second);
	try_zones("too many zones", 0, 1, HP_MAX_ZONES + 1, first, (HpZone) {{1, 0}, 0, 0});
	try_zones("another first zone", 0, 1, 2, (HpZone) {{1, 0}, 1, 0}, second);
	try_zones("another first zone", 0, 1, 2, (HpZone) {{0, 1}, 1, 0}, (HpZone) {{0, 2}, 1, 0});
	try_zones("order of zones", 0, 1, 2, first, (HpZone) {{0, 0}, 0, 0});
	try_zones("order of zones", 0, 1, 3, first, (HpZone) {{2, 0}, 0, 0});
	try_zones("order of zones", 0, 1, 3, first, (HpZone) {{1, 1}, 0, 0});
	try_zones("a zone's flag", 0, 1, 2, first, (HpZone) {{5, 0}, 2, 0});
	try_zones("a zone's end", 0, 1, 2, first, (HpZone) {{5, 0}, 0, 1});
	try_partial("a block without numbers of lines", HP_SYNC_PAGES, HP_NUMBERED_BLOCKS);
	try_partial("a leaf that was not sent", HP_SYNC_LEAVES, 0);
	try_partial("a new leaf that was not sent", HP_SYNC_NEW_LEAVES, 7);
	try_partial("no room for zones", HP_SYNC_GET_ZONES, 0);
	report("hostile: zones");
}

static void
test_bad_content(void)
{
	static const uint32_t beyond[] = {9, 1000, 1u << 26, UINT32_MAX / 64, UINT32_MAX};

	for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++)
	{
		try_number(HP_SYNC_PAGES, beyond[i]);
		try_number(HP_SYNC_LINES, beyond[i] < 1u << 26 ? beyond[i] * HP_PAGE_LINES : beyond[i]);
		try_leaves("leaf beyond", (HpLeaf) {BOUND(0, 1, 0), beyond[i], 0}, (HpLeaf) {BOUND(0, 2, 0), 1, 0});
		try_new_leaves("new leaf beyond", (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0}, (HpNewLeaf) {BOUND(0, 2, 0), BOUND(0, 3, 0), beyond[i], 0});
	}
	try_leaves("leaf's end", (HpLeaf) {BOUND(0, 1, 0), 1, 1}, (HpLeaf) {BOUND(0, 2, 0), 2, 0});
	try_leaves("order of leaves", (HpLeaf) {BOUND(0, 2, 0), 1, 0}, (HpLeaf) {BOUND(0, 1, 0), 2, 0});
	try_leaves("order of leaves", (HpLeaf) {BOUND(0, 2, 1), 1, 0}, (HpLeaf) {BOUND(0, 2, 0), 2, 0});
	try_leaves("too large a key", (HpLeaf) {BOUND(0, 1, 0), 1, 0}, (HpLeaf) {BOUND(0, UINT64_C(1) << 32, 0), 2, 0});

	try_new_leaves("new leaf's flag", (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0}, (HpNewLeaf) {BOUND(0, 2, 0), BOUND(0, 3, 0), 2, 2});
	try_new_leaves("order of new leaves", (HpNewLeaf) {BOUND(0, 2, 0), BOUND(0, 3, 0), 1, 0}, (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 2, 0), 2, 0});
	try_new_leaves("new leaves that overlap", (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 3, 1), 1, 0}, (HpNewLeaf) {BOUND(0, 3, 0), BOUND(0, 4, 0), 2, 0});
	try_new_leaves("two last leaves", (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 0, 0), 1, 1}, (HpNewLeaf) {BOUND(0, 3, 0), BOUND(0, 0, 0), 2, 1});
	try_new_leaves("too large a low key", (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0}, (HpNewLeaf) {BOUND(0, UINT64_C(1) << 32, 0), BOUND(0, 0, 0), 2, 1});
	try_leaves("a second word", (HpLeaf) {BOUND(0, 1, 0), 1, 0}, (HpLeaf) {BOUND(1, 2, 0), 2, 0});
	try_new_leaves("a low bound's second word", (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0},
				   (HpNewLeaf) {BOUND(1, 2, 0), BOUND(0, 0, 0), 2, 1});
	try_new_leaves("a high bound's second word", (HpNewLeaf) {BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0},
				   (HpNewLeaf) {BOUND(0, 2, 0), BOUND(1, 3, 0), 2, 0});

	/* Second words are compared first. */
	bad_index.model.width = HT_WIDTH128;
	try_leaves("order of wide leaves", (HpLeaf) {BOUND(2, 1, 0), 1, 0}, (HpLeaf) {BOUND(1, 2, 0), 2, 0});
	try_new_leaves("order of new wide leaves", (HpNewLeaf) {BOUND(1, 1, 0), BOUND(3, 1, 0), 1, 0},
				   (HpNewLeaf) {BOUND(2, 5, 0), BOUND(4, 0, 0), 2, 0});
	bad_index.model.width = HT_WIDTH32;

	/* All leaves at existing blocks, but more leaves than blocks. */
	{
		Connection	bad = connect_bad(true);
		HpRequest	request = about(&bad_index, HP_SYNC_LEAVES);

		request.count = 1000;
		send_request(&bad, &request);
		check_ended(&bad, "more leaves than blocks");
	}
	report("hostile: numbers and leaves");
}

static void
try_message(const char *what, size_t size, int descriptor, int count)
{
	Connection	bad = connect_bad(true);
	char	   *bytes = allocate(size + sizeof(HpRequest));
	HpRequest	request = about(&bad_index, HP_SYNC_END);
	int			descriptors[16];

	memset(bytes, 0, size + sizeof(HpRequest));
	memcpy(bytes, &request, sizeof(request));
	for (int i = 0; i < 16; i++)
		descriptors[i] = descriptor;
	send_bytes(&bad, bytes, size, descriptors, count);
	check_ended(&bad, what);
	free(bytes);
}

/* Clients of other users are rejected, even if they can open the socket. */
static void
test_other_user(void)
{
	const uid_t nobody = 65534;
	pid_t		child;
	int			status = -1;

	if (geteuid() != 0)
	{
		report("hostile: another user # SKIP needs root");
		return;
	}
	expect(chmod(".", 0755) == 0 && chmod("pg_stat_tmp", 0755) == 0 && chmod(HP_SOCKET, 0666) == 0, "chmod");
	child = fork();
	if (child == 0)
	{
		HpRequest	hello = make_hello(GENERATION);
		Connection	other;

		if (setgid(nobody) != 0 || setuid(nobody) != 0)
			_exit(2);
		other = open_connection();
		_exit(ask_status(&other, &hello, NULL) != CONNECTION_ENDED);
	}
	waitpid(child, &status, 0);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	check_good("another user");
	report("hostile: another user");
}

static void
test_bad_messages(void)
{
	static const size_t sizes[] = {
		0, 1, 4, sizeof(HpRequest) - 1, sizeof(HpRequest) + 1, 2 * sizeof(HpRequest), 65536
	};
	int			before = count_descriptors();
	int			waited = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		try_message("a message's size", sizes[i], -1, 0);
		if (sizes[i] > 0)
			try_message("size, with a descriptor", sizes[i], good.memory, 1);
	}
	for (int count = 1; count <= 16; count++)
		try_message("a descriptor", sizeof(HpRequest), good.memory, count);

	/* The daemon does not wait for a client that does not read its replies. */
	{
		Connection	bad = connect_bad(false);
		HpRequest	request = make_search(&bad, &good_index, 0);

		while (send_request(&bad, &request) && waited < 1000000)
			waited++;
		expect(waited < 1000000, "the connection goes on");
		close_connection(&bad);
		check_good("replies that are not read");
	}
	for (int i = 0; i < 100 && count_descriptors() != before; i++)
		usleep(10000);
	expect(count_descriptors() == before, "descriptors stay open: %d instead of %d",
		   count_descriptors(), before);
	report("hostile: messages");
}

static void
try_memory(const char *what, int memory, uint64_t size)
{
	Connection	bad = connect_bad(true);
	HpRequest	request = {.operation = HP_MAP, .size = size};

	expect(memory >= 0, "%s: %s", what, strerror(errno));
	send_bytes(&bad, &request, sizeof(request), &memory, 1);
	check_ended(&bad, what);
}

static int
make_memory(unsigned int flags, int seals)
{
	int			memory = memfd_create("bad", flags);

	if (ftruncate(memory, 65536) != 0 || (seals != 0 && fcntl(memory, F_ADD_SEALS, seals) != 0))
		return -1;
	return memory;
}

static void
test_bad_memory(void)
{
	char		path[64];
	int			ends[2];
	int			descriptor;
	HpReply		reply;
	Connection	client;

	try_memory("no size", good.memory, 0);
	try_memory("larger than it is", good.memory, STAGING_SIZE + 1);
	try_memory("larger than it is", good.memory, UINT64_MAX);
	try_memory("a socket", good.socket, STAGING_SIZE);
	expect(pipe(ends) == 0, "pipe");
	try_memory("a pipe", ends[0], 4096);
	close(ends[0]);
	close(ends[1]);

	descriptor = open("/dev/zero", O_RDWR);
	try_memory("a device", descriptor, 4096);
	close(descriptor);
	descriptor = open("log", O_RDWR);
	try_memory("a file", descriptor, 1);
	close(descriptor);
	descriptor = open(".", O_RDONLY);
	try_memory("a folder", descriptor, 1);
	close(descriptor);

	descriptor = make_memory(0, 0);
	try_memory("memory that cannot be sealed", descriptor, 4096);
	close(descriptor);
	descriptor = make_memory(MFD_ALLOW_SEALING, 0);
	try_memory("memory that is not sealed", descriptor, 4096);
	close(descriptor);
	descriptor = make_memory(MFD_ALLOW_SEALING, F_SEAL_GROW);
	try_memory("memory with another seal", descriptor, 4096);
	close(descriptor);
	descriptor = make_memory(MFD_ALLOW_SEALING, F_SEAL_SHRINK | F_SEAL_WRITE);
	try_memory("memory that cannot be written", descriptor, 4096);
	close(descriptor);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", good.memory);
	descriptor = open(path, O_RDONLY);
	try_memory("memory that may only be read", descriptor, 4096);
	close(descriptor);

	{
		Connection	bad = connect_bad(true);
		HpRequest	request = {.operation = HP_MAP, .size = STAGING_SIZE};

		send_request(&bad, &request);
		check_ended(&bad, "no descriptor");
	}
	report("hostile: staging memory");

	/* Only the memory mapped last counts, and only as much of it as announced. */
	client = connect_client(GENERATION);
	descriptor = make_memory(MFD_ALLOW_SEALING, F_SEAL_SHRINK);
	expect(map_staging(&client, descriptor, 4096, &reply) && reply.status == HP_OK, "map");
	{
		HpRequest	request = about(&good_index, HP_SEARCH);

		request.search.low_at = 4096 - 64;
		request.search.count = 64 / good_index.model.width;
		expect(ask_status(&client, &request, NULL) != CONNECTION_ENDED, "what was said");
		request.search.count++;
		expect(ask_status(&client, &request, NULL) == CONNECTION_ENDED, "more than was said");
	}
	close(descriptor);
	close_connection(&client);
	report("other staging memory");
}

/*
 * Start a process that writes random values to the memory, while the daemon uses it,
 * until it is killed.
 */
static pid_t
start_scribbling(char *memory, size_t size)
{
	pid_t		pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
	{
		for (int i = 0; i < 1000; i++)
		{
			size_t		at = (size_t) rnd_below((int) size / 8);

			((volatile uint64_t *) memory)[at] = rnd_below(2) ? (uint64_t) rnd_below(64) : rnd();
		}
		usleep(200);
	}
}

static uint64_t
interesting(void)
{
	static const uint64_t values[] = {
		0, 1, 2, 4, 8, 63, 64, 128, 4096, 65536, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 61,
		UINT64_MAX
	};
	uint64_t	value = values[rnd_below(sizeof(values) / sizeof(values[0]))];

	switch (rnd_below(4))
	{
		case 0:
			return rnd() >> rnd_below(64);
		case 1:
			return value + (uint64_t) rnd_below(3) - 1;
		default:
			return value;
	}
}

/* A valid request, in which some fields may have other values. */
static HpRequest
make_random_request(const Index *indexes, int n, uint64_t size)
{
	HpRequest	request = about(&indexes[rnd_below(n)], (HpOperation) rnd_below(HP_OPERATIONS));
	uint32_t   *words = (uint32_t *) &request;

	request.version = HP_VERSION;
	request.count = (uint32_t) rnd_below(16);
	request.size = size;
	request.numbers_at = 64 * (uint64_t) rnd_below(16);
	request.data_at = 1024 + 64 * (uint64_t) rnd_below(16);
	request.search.count = (uint32_t) rnd_below(64);
	request.search.is_range = (uint32_t) rnd_below(2);
	request.search.tids_only = (uint32_t) rnd_below(2);
	request.search.by_block = (uint32_t) rnd_below(2);
	request.search.map_pages = !request.search.by_block ? (uint32_t) rnd_below(100) : 0;
	request.search.counts_at = 3072;
	request.search.with_keys = request.search.is_range && !request.search.by_block &&
		request.search.map_pages == 0 && rnd_below(2);
	request.search.keys_at = 8192;
	request.search.room = (uint64_t) rnd_below(100);
	request.search.high_at = 1024;
	request.search.probes_at = 2048;
	request.search.tids_at = 4096;
	request.zones = 1;
	request.search.zones = (uint64_t) rnd_below(2);
	for (int changes = rnd_below(4) - 1; changes > 0; changes--)
	{
		int			word = rnd_below((int) (sizeof(request) / sizeof(uint32_t)));
		uint64_t	value = interesting();

		words[word] = (uint32_t) value;
		if (word % 2 == 0 && rnd_below(2))
			words[word + 1] = (uint32_t) (value >> 32);
	}
	if (rnd_below(100) == 0)
	{
		for (size_t i = 0; i < sizeof(request) / sizeof(uint32_t); i++)
			words[i] = (uint32_t) interesting();
	}
	/* Keep the generation: another one is a legal way to drop all copies. */
	request.generation = GENERATION;
	return request;
}

static void
test_random_messages(void)
{
	const char *rounds_wanted = getenv("TEST_ROUNDS");
	int			rounds = rounds_wanted != NULL ? atoi(rounds_wanted) : 20000;
	const uint64_t size = 65536;
	Connection	bad = connect_client(GENERATION);
	Index		indexes[3];
	pid_t		scribbling = start_scribbling(bad.staging, size);
	int			memory = bad.memory;
	long		statuses[HP_FAILED + 1] = {0};
	long		ends = 0;

	for (int i = 0; i < 3; i++)
		indexes[i] = make_index(CONTENT_NONE, some_widths[i]);
	close(bad.socket);
	bad.socket = -1;
	for (int round = 0; round < rounds && !failed(); round++)
	{
		HpRequest	request = make_random_request(indexes, 3, size);
		bool		passes = rnd_below(200) == 0 ? request.operation != HP_MAP : request.operation == HP_MAP;
		HpReply		reply;

		if (bad.socket < 0)
		{
			HpRequest	hello = make_hello(GENERATION);
			Connection	again = open_connection();

			close(again.memory);
			munmap(again.staging, again.size);
			bad.socket = again.socket;
			expect(ask_status(&bad, &hello, NULL) == HP_OK &&
				   map_staging(&bad, memory, size, &reply) && reply.status == HP_OK, "connect again");
		}
		if (send_bytes(&bad, &request, sizeof(request), &memory, passes) && receive_reply(&bad, &reply))
		{
			expect(reply.status < HP_FAILED, "status %u: %s", reply.status, reply.text);
			statuses[reply.status <= HP_FAILED ? reply.status : HP_FAILED]++;
		}
		else
		{
			close(bad.socket);
			bad.socket = -1;
			ends++;
		}

		/* Random requests may have evicted the good client's copy. */
		if (round % 20 == 0)
		{
			expect(sync_index(&good, &good_index) == HP_OK, "sync");
			check_good("random messages");
		}
	}
	kill(scribbling, SIGKILL);
	waitpid(scribbling, NULL, 0);
	close_connection(&bad);
	for (int i = 0; i < 3; i++)
		free_index(&indexes[i]);
	printf("# %d messages: %ld ok, %ld unknown, %ld without room, %ld without memory, %ld connections ended\n",
		   rounds, statuses[HP_OK], statuses[HP_UNKNOWN], statuses[HP_NO_ROOM],
		   statuses[HP_NO_MEMORY], ends);
	expect(statuses[HP_OK] > rounds / 20 && ends > rounds / 20, "what is sent is not varied");
	report("hostile: random messages");
}

static void
test_hostile(void)
{
	start(MEMORY);
	good = connect_client(GENERATION);
	good_index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	good_index.fanout = 64;
	bad_index = make_index(CONTENT_NONE, HT_WIDTH32);
	bad_index.fanout = 64;
	expect(sync_index(&good, &good_index) == HP_OK, "sync");
	test_bad_requests();
	test_crossed_syncs();
	test_bad_staging();
	test_bad_content();
	test_bad_zones();
	test_other_user();
	test_bad_messages();
	test_bad_memory();
	close_connection(&good);
	stop();
	report("end after hostile messages");

	start("--memory=4");
	good = connect_client(GENERATION);
	expect(sync_index(&good, &good_index) == HP_OK, "sync");
	test_random_messages();
	close_connection(&good);
	stop();
	free_index(&good_index);
	free_index(&bad_index);
	report("end after random messages");
}

static int
finish(void)
{
	int			status = tap_finish();

	if (status != 0)
		print_log();
	return status;
}

int
main(int argc, char **argv)
{
	if (argc < 2)
	{
		fprintf(stderr, "usage: %s DAEMON [host | cuda | two-hosts | two-cudas | faulty [SEED]]\n", argv[0]);
		return 2;
	}
	if (argc > 2 && strstr(argv[2], "cuda") != NULL)
		device = "--device=cuda";
	if (argc > 2 && strstr(argv[2], "two-") != NULL)
		daemon_devices = "--devices=0,1";
	tap_start(argc > 3 ? argc - 2 : 1, argc > 3 ? argv + 2 : argv);
	enter_folder(argv[1]);

	if (argc > 2 && strcmp(argv[2], "faulty") == 0)
	{
		device = "--device=cuda";
		test_no_memory();
		test_too_long();
		test_failure();
		return finish();
	}

	test_start();
	test_no_device();
	test_no_folder();

	start(MEMORY);
	for (HtWidth width = HT_WIDTH32; width <= HT_WIDTH128; width *= 2)
	{
		for (Content content = 0; content < CONTENT_COUNT; content++)
		{
			test_life(width, content, false);
			test_life(width, content, true);
		}
	}
	test_names();
	test_sync_and_search();
	test_broken_sync();
	test_generations();
	test_many_clients();
	test_shares();
	test_stalled_sync();
	stop();
	report("end");

	start(MEMORY);
	test_gone_client();
	test_small_pieces();
	if (strcmp(device, "--device=host") == 0)
	{
		start(MEMORY);
		test_gone_sorting();
		test_pieces();
		stop();
		report("end");
	}

	if (daemon_devices == NULL)
	{
		test_memory();
		test_host_memory();
	}
	test_coming_and_going();
	test_pinned();
	test_hostile();
	return finish();
}
