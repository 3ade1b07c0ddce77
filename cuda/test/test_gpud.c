/*
 * test_gpud.c
 *		Tests the daemon from the outside, as its supervisor and its clients see it.
 *
 * usage: test_gpud DAEMON [host | cuda | two-hosts | two-cudas | faulty [SEED]]
 *
 * Covers copies, compared with a model; syncs by several clients; memory limits; all ways to end;
 * and messages that no correct client sends.  TEST_ROUNDS is the number of random ones.  With two
 * devices everything is as with one, but for which copies give way to others (test_devices.c). With
 * "faulty", DAEMON is a daemon whose device fails as the environment says, and only that is tested.
 */
#define _GNU_SOURCE
#include "daemon_tests.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ----------------------------------------------------------------
 *		Start and end
 * ----------------------------------------------------------------
 */

/* Count the daemon's descriptors that lead to its log. */
static int
count_logs(void)
{
	int logs = 0;
	struct stat log;

	expect(stat("log", &log) == 0, "log");
	for (int i = 0; i < 64; i++)
	{
		char path[64];
		struct stat file;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) daemon_process.pid, i);
		if (stat(path, &file) == 0 && file.st_dev == log.st_dev && file.st_ino == log.st_ino)
			logs++;
	}
	return logs;
}

static void
test_start(void)
{
	const HpReply *ready = &daemon_process.ready;
	struct stat attributes;
	Connection client;
	int status;

	/* A socket's file that a dead daemon has left must not prevent the start. */
	expect(close(creat(HP_SOCKET, 0600)) == 0, "creat");
	for (int i = 0; i < 2; i++)
	{
		start(MEMORY);
		expect(ready->text[0] != '\0' && ready->memory > 0 && ready->copies == 0, "what it says");
		expect(ready->is_gpu == (strcmp(device, "--device=host") != 0), "kind of device");
		expect(stat(HP_SOCKET, &attributes) == 0 && S_ISSOCK(attributes.st_mode) &&
				   (attributes.st_mode & 0777) == 0600,
			   "mode of the socket");
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
		static const char *const wrong[][2] = {{"--device=gpu", MEMORY},
											   {MEMORY, MEMORY},
											   {"--device=host", "--memory=1x"},
											   {"--device=host", "--memory=99999999999999"},
											   {"--device=host", "--host-memory=-1x"},
											   {"--device=host", "more"}};
		Daemon none = start_daemon(wrong[i][0], wrong[i][1], NULL);

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
		Daemon none = start_daemon(devices[i], MEMORY, NULL);
		int status = wait_daemon(&none);

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
	Daemon none;
	int status;

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

/* With the thread sanitizer each takes long, and what threads do is the same in all of them. */
#ifdef __SANITIZE_THREAD__
#define LIFE_ROUNDS 4
#else
#define LIFE_ROUNDS 20
#endif

void
test_life(HtWidth width, Content content)
{
	Connection client = connect_client(GENERATION);
	Index index = make_index(content, width);
	HpRequest request = about(&index, HP_SYNC_BEGIN);
	HpReply reply;

	request.create = 0;
	expect(ask_status(&client, &request, NULL) == HP_UNKNOWN, "there is a copy of a new index");
	expect(probe_status(&client, &index) == HP_UNKNOWN, "search without a copy");
	for (int round = 0; round < LIFE_ROUNDS && !failed(); round++)
	{
		/* Now and then drop the copy, or use another client. */
		request = about(&index, HP_DROP);
		if (rnd_below(10) == 0)
		{
			expect(ask_status(&client, &request, &reply) == HP_OK && reply.copy_memory == 0,
				   "drop");
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
	expect(ask_status(&client, &request, &reply) == HP_OK && reply.hits == 0, "no probe");
	expect(reply.copy_memory >= (uint64_t) index.blocks_copied * HT_PAGE_SIZE,
		   "memory of the copy");
	request = about(&index, HP_DROP);
	expect(ask_status(&client, &request, &reply) == HP_OK && reply.copies == 0, "drop");
	close_connection(&client);
	free_index(&index);
	report("a copy's life, %d bits: %s", width_bits(width), content_names[content]);
}

/* Copies whose names differ in only one field. */
static void
test_names(void)
{
	Connection client = connect_client(GENERATION);
	Index indexes[5];

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
		HpRequest request = about(&indexes[i], HP_DROP);

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

/* Searches wait for the end of a sync, and find what it has brought. */
static void
test_sync_and_search(void)
{
	Connection writer = connect_client(GENERATION);
	Connection waiting[3];
	Connection third = connect_client(GENERATION);
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	Index other = make_index(CONTENT_SPREAD, HT_WIDTH32);

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
		expect(is_silent(&waiting[0]) && is_silent(&waiting[2]),
			   "a search during another client's sync");

		/* Neither waiting clients nor the sync delay requests for other indexes. */
		close_connection(&waiting[1]);
		search_index(&third, &other);
		expect(sync_blocks(&writer, &index) == HP_OK, "blocks");
		search_index(&third, &other);
		expect(is_silent(&waiting[0]), "a search before the sync ends");
		if (round == 0)
			expect(is_told_to_wait(&waiting[0]) && is_told_to_wait(&waiting[2]) &&
					   is_told_to_wait(&waiting[0]),
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
		HpRequest request = about(&index, HP_SYNC_BEGIN);
		HpReply reply;

		for (int i = 0; i < 2; i++)
			waiting[i] = connect_client(GENERATION);
		expect(sync_begin(&writer, &index) == HP_OK, "begin");
		expect(send_request(&waiting[0], &request) && is_silent(&waiting[0]), "two syncs at once");
		send_search_all(&waiting[1], &index);
		expect(sync_end(&writer, &index) == HP_OK, "end");
		expect(receive_reply(&waiting[0], &reply) && reply.status == HP_OK && !reply.created &&
				   reply.structure == index.structure,
			   "the next sync");
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
	Connection client = connect_client(GENERATION);
	Connection waiting = connect_client(GENERATION);
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH32);

	for (int step = 0; step < 3; step++)
	{
		pid_t writer;
		int status;
		int pipe_ends[2];
		char byte;
		HpReply reply;

		expect(sync_index(&client, &index) == HP_OK, "sync");
		change_index(&index);
		expect(pipe(pipe_ends) == 0, "pipe");
		writer = fork();
		if (writer == 0)
		{
			Connection connection = connect_client(GENERATION);

			sync_begin(&connection, &index);
			if (step > 0)
				sync_blocks(&connection, &index);
			if (step > 1)
			{
				/* Stop in the middle of a request. */
				HpRequest request = about(&index, HP_SYNC_PAGES);

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
		expect(receive_reply(&waiting, &reply) && reply.status == HP_UNKNOWN,
			   "the copy is still there");
		close(pipe_ends[0]);
		close(pipe_ends[1]);
	}
	report("clients killed during a sync");

	for (int i = 0; i < 3; i++)
	{
		HpRequest request = about(&index, HP_DROP);

		expect(sync_begin(&client, &index) == HP_OK && sync_blocks(&client, &index) == HP_OK,
			   "sync");
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
	Connection old = connect_client(GENERATION);
	Connection old_in_sync = connect_client(GENERATION);
	Connection new;
	Index index = make_index(CONTENT_SERIAL, HT_WIDTH64);
	Index other = make_index(CONTENT_SERIAL, HT_WIDTH64);

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
	static int sockets[1100];
	Connection first = connect_client(GENERATION);
	Connection one;
	int many = (int) sysconf(_SC_OPEN_MAX) - 50;
	int ended = 0;

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
		HpRequest hello = make_hello(GENERATION);

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
		HpRequest hello = make_hello(GENERATION);

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

static int
finish(void)
{
	int status = tap_finish();

	if (status != 0)
		print_log();
	return status;
}

int
main(int argc, char **argv)
{
	if (argc < 2)
	{
		fprintf(stderr, "usage: %s DAEMON [host | cuda | two-hosts | two-cudas | faulty [SEED]]\n",
				argv[0]);
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
			test_life(width, content);
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
