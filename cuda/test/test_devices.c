/*
 * test_devices.c
 *		Tests the daemon with several devices.
 *
 * usage: test_devices DAEMON [host | cuda | one-cuda | faulty [SEED]]
 *
 * Covers which devices have which copies, searches of several devices beside re-syncs, and what
 * becomes of the others if a device cannot be used.  test_gpud tests with two devices what is the
 * same with one.  With "one-cuda" there is one device, whose lanes search copies of many clients.
 * With "faulty", DAEMON is a daemon whose devices fail as the environment says, and only that is
 * tested.
 */
#define _GNU_SOURCE
#include "index.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define GENERATION UINT64_C(0x123456789ABCDEF0)

static const char *device = "--device=host";
static const HtWidth some_widths[3] = {HT_WIDTH64, HT_WIDTH32, HT_WIDTH128};
static Daemon daemon_process;

static void
start(const char *devices, const char *memory, const char *host_memory)
{
	daemon_devices = devices;
	daemon_process = start_daemon(device, memory, host_memory);
	expect(daemon_process.ready.status == HP_OK, "start: %s", daemon_process.ready.text);
}

static void
stop(void)
{
	int status = stop_daemon(&daemon_process);

	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the daemon ends with status %#x",
		   status);
}

static void
test_numbers(void)
{
	static const char *const wrong[] = {"--devices=",   "--devices=1,1", "--devices=0,",
										"--devices=16", "--devices=-1",  "--devices=all,1",
										"--devices=x"};

	start("--devices=0,1", "--memory=64", NULL);
	expect(daemon_process.ready.devices == 2 && strncmp(daemon_process.ready.text, "2 x ", 4) == 0,
		   "%u devices, %s", daemon_process.ready.devices, daemon_process.ready.text);
	stop();
	start(NULL, "--memory=64", NULL);
	expect(daemon_process.ready.devices == 1 && strstr(daemon_process.ready.text, " x ") == NULL,
		   "%u devices, %s", daemon_process.ready.devices, daemon_process.ready.text);
	stop();
	start("--devices=all", "--memory=64", NULL);
	expect(strcmp(device, "--device=host") != 0 || daemon_process.ready.devices == 1,
		   "all host devices");
	stop();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		Daemon none;
		int status;

		daemon_devices = wrong[i];
		none = start_daemon(device, "--memory=64", NULL);
		status = stop_daemon(&none);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 2, "%s: status %#x", wrong[i], status);
	}
	report("numbers of devices");
}

/* ----------------------------------------------------------------
 *		Which devices have which copies
 * ----------------------------------------------------------------
 */

static void
test_places(void)
{
	Connection client;
	HpReply reply;

	/* Each device has room for 1024 blocks. */
	start("--devices=0,1", "--memory=8", NULL);
	client = connect_client(GENERATION);
	for (uint32_t i = 1; i <= 6; i++)
		expect(make_copy(&client, i, 300, &reply) == HP_OK && reply.copies == i &&
				   reply.evictions == 0,
			   "copy %u of 300 blocks: %u copies", i, reply.copies);
	for (uint32_t i = 1; i <= 6; i++)
		expect(has_copy(&client, i), "copy %u is gone", i);
	expect(make_copy(&client, 7, 300, &reply) == HP_OK && reply.copies == 6 && reply.evictions == 1,
		   "one copy too many: %u", reply.copies);
	expect(has_copy(&client, 7), "the wrong copy is evicted");
	report("copies are spread over devices before one is evicted");

	expect(make_copy(&client, 8, 1025, &reply) == HP_NO_MEMORY && reply.evictions == 1,
		   "a copy that never fits");
	expect(make_copy(&client, 9, 1000, &reply) == HP_OK && reply.copies == 4 &&
			   reply.evictions == 4,
		   "a copy as large as a device: %u copies, %u evictions", reply.copies,
		   (unsigned) reply.evictions);
	close_connection(&client);
	stop();
	report("a large copy takes one device");

	/* A copy that grows gives one device up, and then needs the memory of the other. */
	start("--devices=0,1", "--memory=8", NULL);
	client = connect_client(GENERATION);
	for (uint32_t blocks = 100; blocks <= 400; blocks += 300)
		for (uint32_t i = 1; i <= 4; i++)
			expect(make_copy(&client, i, blocks, &reply) == HP_OK &&
					   reply.copies == (blocks == 100 ? i : 4) && reply.evictions == 0,
				   "copy %u of %u blocks: %u", i, blocks, reply.copies);
	expect(make_copy(&client, 1, 900, &reply) == HP_OK && reply.evictions == 1 && reply.copies == 3,
		   "a copy that grows: %u copies", reply.copies);
	close_connection(&client);
	stop();
	report("copies that grow");

	/* What needs the host's memory is on one device. */
	start("--devices=0,1", "--memory=8", "--host-memory=8");
	client = connect_client(GENERATION);
	expect(make_copy(&client, 1, 1800, &reply) == HP_OK && reply.copy_host_memory > 0 &&
			   reply.evictions == 0,
		   "a copy that is partly on the host");
	expect(make_copy(&client, 2, 900, &reply) == HP_OK && reply.copies == 2 &&
			   reply.copy_host_memory == 0,
		   "another one on the other device");
	expect(has_copy(&client, 1), "the first copy is gone");
	close_connection(&client);
	stop();
	report("copies with memory of the host");
}

/* ----------------------------------------------------------------
 *		Many clients
 * ----------------------------------------------------------------
 */

/* Run a client in a process of its own, with random numbers of its own. */
static pid_t
start_process(void (*run)(void))
{
	pid_t pid;
	uint64_t seed = rnd();

	fflush(NULL);
	pid = fork();
	if (pid != 0)
		return pid;
	rnd_start(seed);
	run();
	_exit(process_status());
}

static void
wait_processes(const pid_t *processes, int n)
{
	for (int i = 0; i < n; i++)
	{
		int status = -1;

		waitpid(processes[i], &status, 0);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "client %d ends with status %#x", i,
			   status);
	}
}

/* Random changes, re-syncs and searches of copies, more than there is room for. */
static void
run_random(void)
{
	Connection client = connect_client(GENERATION);
	Index indexes[3];

	for (int i = 0; i < 3; i++)
		indexes[i] = make_index(CONTENT_SPREAD, some_widths[rnd_below(3)]);
	for (int i = 0; i < 60 && !failed(); i++)
	{
		Index *index = &indexes[rnd_below(3)];
		int status;

		if (rnd_below(3) == 0)
			change_index(index);

		/* Sometimes the client goes away in the middle. */
		if (rnd_below(10) == 0)
		{
			if (sync_begin(&client, index) == HP_OK && rnd_below(2))
				sync_blocks(&client, index);
			close_connection(&client);
			client = connect_client(GENERATION);
			continue;
		}
		status = sync_index(&client, index);
		expect(status == HP_OK || status == HP_NO_MEMORY, "sync: %d", status);
		for (int n = status == HP_OK ? 3 : 0; n > 0 && !failed(); n--)
		{
			HpRequest request = make_search(&client, index, 0);

			/* Others' copies may have evicted it. */
			if (ask_status(&client, &request, NULL) != HP_UNKNOWN)
				break;
			sync_index(&client, index);
		}
	}
	for (int i = 0; i < 3; i++)
		free_index(&indexes[i]);
	close_connection(&client);
}

/* The same, with room for all copies, and all searches compared with the model. */
static void
run_compared(void)
{
	Connection client = connect_client(GENERATION);
	Index index = make_index(CONTENT_SPREAD, some_widths[rnd_below(3)]);

	for (int i = 0; i < 40 && !failed(); i++)
	{
		if (rnd_below(3) == 0)
			change_index(&index);
		expect(sync_index(&client, &index) == HP_OK, "sync");
		for (int n = rnd_below(4); n > 0 && !failed(); n--)
			search_index(&client, &index);
	}
	free_index(&index);
	close_connection(&client);
}

static void
test_random(const char *devices)
{
	pid_t processes[6];

	search_pieces = true; /* the order of hits depends on pieces, and these on time */
	for (int round = 0; round < 2; round++)
	{
		start(devices, round == 0 ? "--memory=4" : "--memory=256", NULL);
		for (int i = 0; i < 6; i++)
			processes[i] = start_process(round == 0 ? run_random : run_compared);
		wait_processes(processes, 6);
		stop();
	}
	search_pieces = false;
	report("%s: random copies of many clients", devices);
}

/*
 * An index whose entries all have the number of their version as tid.  Readers find one version at
 * a time: none that is half there, and none before the last one whose re-sync had ended.
 */
static struct
{
	volatile uint64_t begun;
	volatile uint64_t ended;
	volatile uint64_t found; /* number of searches that found anything */
	volatile bool over;
} * versions;
static Index versioned;

/* No more than a search has in its first piece: between two pieces there may be a re-sync. */
#define VERSION_PROBES 16

static void
run_reader(void)
{
	Connection client = connect_client(GENERATION);
	const uint64_t *tids = (const uint64_t *) (client.staging + (1 << 20));

	while (!versions->over && !failed())
	{
		HpRequest request = about(&versioned, HP_SEARCH);
		uint64_t keys[VERSION_PROBES];
		uint64_t oldest = versions->ended;
		HpReply reply;

		for (int i = 0; i < VERSION_PROBES; i++)
			keys[i] = versioned.model.entries[rnd_below(versioned.model.count)].key;
		pack_keys(client.staging, keys, VERSION_PROBES, HT_WIDTH64);
		request.search.count = VERSION_PROBES;
		request.search.probes_at = 64 * 1024;
		request.search.tids_at = 1 << 20;
		request.search.room = 1024;
		expect(ask(&client, &request, &reply), "a search has no reply");
		expect(failed() || reply.status == HP_UNKNOWN ||
				   (reply.status == HP_OK && reply.hits == VERSION_PROBES),
			   "a search: status %u, %d hits", reply.status, (int) reply.hits);
		if (failed() || reply.status != HP_OK)
			continue;
		for (int i = 0; i < VERSION_PROBES; i++)
			expect(tids[i] == tids[0] && tids[i] >= oldest && tids[i] <= versions->begun,
				   "versions %d and %d, between %d and %d", (int) tids[0], (int) tids[i],
				   (int) oldest, (int) versions->begun);
		__atomic_fetch_add(&versions->found, 1, __ATOMIC_RELAXED);
	}
	close_connection(&client);
}

static void
test_versions(const char *devices)
{
	enum
	{
		READERS = 4
	};
	pid_t readers[READERS];
	Connection writer;
	int broken = 0;
	double begin;

	versions =
		mmap(NULL, sizeof(*versions), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start(devices, "--memory=64", NULL);
	versioned = make_index(CONTENT_SPREAD, HT_WIDTH64);

	/*
	 * Before the writer connects: a process that begins has the connections of the one it comes
	 * from.
	 */
	for (int i = 0; i < READERS; i++)
		readers[i] = start_process(run_reader);
	writer = connect_client(GENERATION);
	begin = now_ms();
	while (!failed() && (now_ms() - begin < 1500 || versions->found < 100) &&
		   now_ms() - begin < 30000)
	{
		set_tids(&versioned, ++versions->begun);
		expect(sync_begin(&writer, &versioned) == HP_OK &&
				   sync_blocks(&writer, &versioned) == HP_OK,
			   "sync");
		if (rnd_below(10) == 0)
		{
			/* The copy goes with the connection: readers find none until there is a new one. */
			broken++;
			close_connection(&writer);
			writer = connect_client(GENERATION);
			continue;
		}
		expect(sync_end(&writer, &versioned) == HP_OK, "end");
		versions->ended = versions->begun;
		usleep(rnd_below(3) == 0 ? 3000 : 0);
	}
	versions->over = true;
	wait_processes(readers, READERS);
	printf("# %d searches beside %d re-syncs, %d of which broke off\n", (int) versions->found,
		   (int) versions->begun, broken);
	expect(versions->found >= 100, "too few searches");
	close_connection(&writer);
	stop();
	free_index(&versioned);
	munmap(versions, sizeof(*versions));
	report("%s: searches beside re-syncs", devices);
}

/* ----------------------------------------------------------------
 *		Devices that fail
 * ----------------------------------------------------------------
 */

static void
set_faults(const char *number, const char *fault, const char *value)
{
	setenv("FAULT_NUMBER", number, 1);
	setenv(fault, value, 1);
}

static void
clear_faults(void)
{
	unsetenv("FAULT_NUMBER");
	unsetenv("FAULT_DEVICE");
	unsetenv("FAULT_MEMORY");
	unsetenv("FAULT_HANG");
	unsetenv("FAULT_FREE");
	unsetenv("FAULT_BATCH");
	unsetenv("FAULT_ROOM");
	unsetenv("FAULT_TOGETHER");
}

/* Devices that cannot be opened are left out. */
static void
test_left_out(void)
{
	static const char *const numbers[] = {"0", "1", "2"};

	for (int i = 0; i < 3; i++)
	{
		/* Opening, and asking for its memory. */
		for (int call = 1; call <= 2; call++)
		{
			set_faults(numbers[i], "FAULT_DEVICE", call == 1 ? "1" : "2");
			start("--devices=all", "--memory=64", NULL);
			expect(daemon_process.ready.devices == 2, "%u devices", daemon_process.ready.devices);
			clear_faults();
			stop();
		}
	}
	setenv("FAULT_DEVICE", "1", 1);
	daemon_process = start_daemon(device, "--memory=64", NULL);
	expect(daemon_process.ready.status == HP_FAILED &&
			   strcmp(daemon_process.ready.text, "simulated failure") == 0,
		   "a daemon without devices says \"%s\"", daemon_process.ready.text);
	clear_faults();
	expect(WEXITSTATUS(stop_daemon(&daemon_process)) == 1, "its end");
	report("devices that cannot be opened are left out");
}

static Connection until_failure;

/* Searches on that connection until it ends, or the device has failed. */
static void
run_until_failure(void)
{
	Connection client = until_failure;
	HpRequest hello = make_hello(GENERATION);
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply reply;
	int status = ask_status(&client, &hello, NULL);

	if (status == HP_OK && !map_staging(&client, client.memory, client.size, &reply))
		status = CONNECTION_ENDED;
	while (status == HP_OK || status == HP_NO_ROOM)
	{
		if (status == HP_OK)
			change_index(&index);
		status = sync_index(&client, &index);
		for (int i = 0; i < 20 && (status == HP_OK || status == HP_NO_ROOM); i++)
		{
			HpRequest request = make_search(&client, &index, index.model.entries[0].key);

			status = ask_status(&client, &request, NULL);
		}
	}
	expect(status == CONNECTION_ENDED || status == HP_FAILED, "status %d", status);
}

/*
 * A device that fails ends the daemon, in the middle of others' requests, and is left out by the
 * next one.
 */
static void
test_lost(void)
{
	for (int round = 0; round < 6 && !failed(); round++)
	{
		char call[16];
		pid_t processes[4];
		Connection clients[4];
		int status;

		snprintf(call, sizeof(call), "%d", 20 + rnd_below(200));
		set_faults(round % 2 == 0 ? "1" : "0", "FAULT_DEVICE", call);
		start("--devices=0,1", "--memory=64", NULL);

		/* All connect before the first one can make the device fail. */
		for (int i = 0; i < 4; i++)
			clients[i] = open_connection();
		for (int i = 0; i < 4; i++)
		{
			until_failure = clients[i];
			processes[i] = start_process(run_until_failure);
		}
		for (int i = 0; i < 4; i++)
			close_connection(&clients[i]);
		status = wait_daemon(&daemon_process);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "the daemon ends with status %#x",
			   status);
		close(daemon_process.control);
		wait_processes(processes, 4);

		setenv("FAULT_DEVICE", "1", 1);
		start("--devices=0,1", "--memory=64", NULL);
		clear_faults();
		expect(daemon_process.ready.devices == 1, "%u devices", daemon_process.ready.devices);
		{
			Connection client = connect_client(GENERATION);
			Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);

			expect(sync_index(&client, &index) == HP_OK, "sync");
			search_index(&client, &index);
			free_index(&index);
			close_connection(&client);
		}
		stop();
	}
	report("a device is lost");
}

/* A device without memory for a copy leaves it to the other. */
static void
test_no_memory(void)
{
	Connection client;
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);

	set_faults("1", "FAULT_MEMORY", "4");
	start("--devices=0,1", "--memory=64", NULL);
	clear_faults();
	client = connect_client(GENERATION);
	for (int i = 0; i < 100 && !failed(); i++)
	{
		HpRequest request = about(&index, HP_DROP);

		if (i % 10 == 0)
			expect(ask_status(&client, &request, NULL) == HP_OK, "drop");
		change_index(&index);
		expect(sync_index(&client, &index) == HP_OK, "sync");
		request = make_search(&client, &index, 0);
		for (int n = 0; n < 20; n++)
		{
			int status = ask_status(&client, &request, NULL);

			/* A batch may lack memory on the device on which it happens to be searched. */
			expect(status == HP_OK || status == HP_NO_ROOM || status == HP_NO_MEMORY, "search: %d",
				   status);
		}
	}
	close_connection(&client);
	stop();
	free_index(&index);
	report("a device that lacks memory leaves copies to another");
}

/* A daemon does not answer a ping as long as one of its devices hangs. */
static void
test_hang(void)
{
	Connection clients[2];
	Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
	HpReply reply;
	struct pollfd polled;
	double begin;

	/* With more lanes the other client's searches might hang, too. */
	setenv("HARMONIA_LANES", "1", 1);
	setenv("FAULT_HANG", "2000", 1);
	setenv("FAULT_NUMBER", "1", 1);
	start("--devices=0,1", "--memory=64", NULL);
	clear_faults();
	unsetenv("HARMONIA_LANES");
	for (int i = 0; i < 2; i++)
		clients[i] = connect_client(GENERATION);
	expect(sync_index(&clients[0], &index) == HP_OK, "sync");

	/*
	 * One client's search hangs at last; the other one's, which has had some before, are answered.
	 */
	for (int round = 0; round < 10000; round++)
	{
		HpRequest request = make_search(&clients[1], &index, 0);

		expect(ask(&clients[1], &request, &reply), "the other client");
		request = make_search(&clients[0], &index, 0);
		expect(send_request(&clients[0], &request), "send");
		polled = (struct pollfd){clients[0].socket, POLLIN, 0};
		if (poll(&polled, 1, 300) == 0)
			break;
		expect(receive_reply(&clients[0], &reply), "reply");
	}
	begin = now_ms();
	expect(send(daemon_process.control, "", 1, MSG_NOSIGNAL) == 1, "ping");
	for (int i = 0; i < 10; i++)
	{
		HpRequest request = make_search(&clients[1], &index, 0);

		expect(ask(&clients[1], &request, &reply), "the other device");
	}
	expect(now_ms() - begin < 1000, "the other device waits for the one that hangs");
	polled = (struct pollfd){daemon_process.control, POLLIN, 0};
	expect(poll(&polled, 1, 200) == 0, "the ping is answered though a device hangs");
	expect(receive_reply(&clients[0], &reply), "reply");
	expect(poll(&polled, 1, 1000) == 1 &&
			   recv(daemon_process.control, &reply, sizeof(reply), MSG_WAITALL) == sizeof(reply),
		   "the ping is not answered");
	for (int i = 0; i < 2; i++)
		close_connection(&clients[i]);
	stop();
	free_index(&index);
	report("a device that hangs");
}

/* Nor as long as one hangs that frees copies. */
static void
test_hanging_sweep(void)
{
	static const char *const numbers[] = {"0", "1"};

	for (int number = 0; number < 2; number++)
	{
		Connection clients[2];
		Index index = make_index(CONTENT_SPREAD, HT_WIDTH64);
		HpReply reply;
		struct pollfd polled;

		setenv("FAULT_FREE", "2000", 1);
		setenv("FAULT_NUMBER", numbers[number], 1);
		start("--devices=0,1", "--memory=64", NULL);
		clear_faults();
		for (int i = 0; i < 2; i++)
			clients[i] = connect_client(GENERATION);
		expect(sync_index(&clients[0], &index) == HP_OK, "sync");

		/* A client that leaves in the middle of a sync leaves a copy to be freed. */
		expect(sync_begin(&clients[0], &index) == HP_OK, "begin");
		close_connection(&clients[0]);
		do
		{
			HpRequest request = make_search(&clients[1], &index, 0);

			expect(ask(&clients[1], &request, &reply), "the other client");
		} while (reply.status == HP_OK && !failed());
		expect(reply.status == HP_UNKNOWN, "status %d", reply.status);
		usleep(100000);
		expect(send(daemon_process.control, "", 1, MSG_NOSIGNAL) == 1, "ping");
		polled = (struct pollfd){daemon_process.control, POLLIN, 0};
		expect(poll(&polled, 1, 200) == 0, "the ping is answered though a device hangs");
		expect(poll(&polled, 1, 10000) == 1 && recv(daemon_process.control, &reply, sizeof(reply),
													MSG_WAITALL) == sizeof(reply),
			   "the ping is not answered");
		close_connection(&clients[1]);
		stop();
		free_index(&index);
	}
	report("a device that hangs and frees a copy");
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
		fprintf(stderr, "usage: %s DAEMON [host | cuda | one-cuda | faulty [SEED]]\n", argv[0]);
		return 2;
	}
	if (argc > 2 && strcmp(argv[2], "host") != 0)
		device = "--device=cuda";
	tap_start(argc > 3 ? argc - 2 : 1, argc > 3 ? argv + 2 : argv);
	enter_folder(argv[1]);

	if (argc > 2 && strcmp(argv[2], "faulty") == 0)
	{
		test_left_out();
		test_lost();
		test_no_memory();
		test_hang();
		test_hanging_sweep();

		/* Two lanes, which have not always memory for two batches. */
		setenv("FAULT_BATCH", "2000", 1);
		setenv("FAULT_ROOM", "300000", 1);
		test_random("--devices=0");
		test_random("--devices=0,1");
		test_versions("--devices=0");

		/* Small searches together. */
		setenv("FAULT_TOGETHER", "1000", 1);
		test_random("--devices=0");
		test_random("--devices=0,1");
		test_versions("--devices=0");
		clear_faults();
		return finish();
	}
	if (argc > 2 && strcmp(argv[2], "one-cuda") == 0)
	{
		test_random("--devices=0");
		test_versions("--devices=0");
		return finish();
	}
	test_numbers();
	test_places();
	test_random("--devices=0,1");
	test_versions("--devices=0,1");
	if (strcmp(device, "--device=host") == 0)
	{
		/* With two lanes each, which GPUs have anyway. */
		setenv("HARMONIA_LANES", "2", 1);
		test_random("--devices=0");
		test_versions("--devices=0");
		test_random("--devices=0,1");
		unsetenv("HARMONIA_LANES");
		test_random("--devices=0,1,2");
		test_versions("--devices=0,1,2");
	}
	return finish();
}
