/*
 * daemon.c
 *		What the daemon answers when its clients do nothing but ask: with one device and with two.
 *
 * usage: bench_daemon DAEMON DEVICE [ENTRIES [SECONDS [RUNS]]]
 *
 * DEVICE is cuda or host.  Prints, for each number of clients and of keys, the medians of batches a
 * second with devices 0 and with devices 0 and 1, in turns, tab-separated; bench/gpu/several.sh
 * reads this.
 *
 * Sessions of PostgreSQL make keys, and read the rows that are found, which takes them longer than
 * a device takes for a batch.  So they say little about a second device.  Clients of this program
 * have their keys in staging memory all the time, and ask again as soon as they are answered.  The
 * hits of each client's first batch are checked.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../cuda/test/client.h"
#include "../../src/tree/tree.h"

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))
#define GENERATION 1
#define MAX_CLIENTS 8
#define MAX_KEYS 1000000

#define ROWS_A_PAGE 200

/* Pages that are sent at a time. */
#define PAGES 1024

/* Staging memory: keys, numbers of probes, TIDs. */
#define PROBES_AT ((uint64_t) MAX_KEYS * 8)
#define TIDS_AT ((uint64_t) MAX_KEYS * 12)
#define CLIENT_SIZE ((uint64_t) MAX_KEYS * 20)

static const HpIndexName name = {.build_id = 1};
static const int client_counts[] = {1, MAX_CLIENTS};
static const uint32_t key_counts[] = {1000, 100000, MAX_KEYS};

static uint64_t entries;
static double seconds;

/* In shared memory. */
static struct
{
	int ready;    /* clients that have had their first answer */
	double begin; /* when they go on; 0: not yet known */
	double rates[MAX_CLIENTS];
} * shared;

static void
require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "bench_daemon: %s\n", what);
	print_log();
	exit(1);
}

/* Keys use all of their 64 bits, so leaves have class 64; i is from 0 on. */
static uint64_t
key_of(uint64_t i)
{
	return i * (UINT64_MAX / entries);
}

/* The TID of its row, and the way back. */
static uint64_t
tid_of(uint64_t i)
{
	return i / ROWS_A_PAGE << 16 | (i % ROWS_A_PAGE + 1);
}

static uint64_t
number_of(uint64_t tid)
{
	return (tid >> 16) * ROWS_A_PAGE + (tid & 0xFFFF) - 1;
}

static HpRequest
about_index(HpOperation operation)
{
	return (HpRequest){
		.operation = operation, .index = name, .create = 1, .width = HT_WIDTH64, .fanout = 64};
}

static HpReply
answer(const Connection *client, HpRequest request)
{
	HpReply reply;

	require(ask(client, &request, &reply) && reply.status == HP_OK, "a request failed");
	return reply;
}

static Connection
connect_with(uint64_t size)
{
	Connection client = connect_client(GENERATION);
	int memory = memfd_create("staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	HpReply reply;

	require(memory >= 0 && ftruncate(memory, (off_t) size) == 0 &&
				fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
			"no memory");
	munmap(client.staging, client.size);
	close(client.memory);
	client.memory = memory;
	client.size = size;
	client.staging = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	require(client.staging != MAP_FAILED, "no memory");
	memset(client.staging, 0, size);
	require(map_staging(&client, memory, size, &reply) && reply.status == HP_OK,
			"staging memory is refused");
	return client;
}

/* Give the daemon a copy of the index, in full leaves. */
static void
load(void)
{
	const uint64_t per_leaf = (uint64_t) ht_leaf_capacity(ht_leaf_shape(64, 4, 0));
	const uint64_t leaves = (entries + per_leaf - 1) / per_leaf;
	const uint64_t pages_at = PAGES * sizeof(uint32_t);
	const uint64_t list_size = leaves * sizeof(HpLeaf);
	const uint64_t pages_size = pages_at + (uint64_t) PAGES * HT_PAGE_SIZE;
	Connection client = connect_with(list_size > pages_size ? list_size : pages_size);
	HpRequest request = about_index(HP_SYNC_RESERVE);
	HpLeaf *list = (HpLeaf *) client.staging;
	HpReply reply;

	answer(&client, about_index(HP_SYNC_BEGIN));
	request.count = (uint32_t) leaves;
	do
		reply = answer(&client, request);
	while (reply.blocks < request.count);

	request = about_index(HP_SYNC_PAGES);
	request.data_at = pages_at;
	for (uint64_t leaf = 0; leaf < leaves; leaf++)
	{
		HtEntry filled[HT_LEAF_MAX_ENTRIES];
		int n = 0;

		for (uint64_t i = leaf * per_leaf; i < entries && i < (leaf + 1) * per_leaf; i++)
			filled[n++] = (HtEntry){key_of(i), tid_of(i)};
		ht_leaf_fill(client.staging + pages_at + (uint64_t) request.count * HT_PAGE_SIZE,
					 ht_leaf_shape(64, 4, filled[0].key), filled, n);
		((uint32_t *) client.staging)[request.count++] = (uint32_t) leaf;
		if (request.count == PAGES || leaf + 1 == leaves)
		{
			answer(&client, request);
			request.count = 0;
		}
	}

	request = about_index(HP_SYNC_LEAVES);
	request.count = (uint32_t) leaves;
	for (uint64_t leaf = 0; leaf < leaves; leaf++)
		list[leaf] = (HpLeaf){.low = {{key_of(leaf * per_leaf), 0}, 0}, .block = (uint32_t) leaf};
	answer(&client, request);
	request = about_index(HP_SYNC_END);
	request.structure = 1;
	answer(&client, request);
	close_connection(&client);
}

/* Each probe has one hit, with the TID that says its place. */
static void
check_hits(const Connection *client, uint32_t count, const HpReply *reply)
{
	const uint64_t *keys = (const uint64_t *) client->staging;
	const uint32_t *probes = (const uint32_t *) (client->staging + PROBES_AT);
	const uint64_t *tids = (const uint64_t *) (client->staging + TIDS_AT);

	require(reply->hits == count, "wrong number of hits");
	for (uint32_t i = 0; i < count; i++)
		require(probes[i] < count && key_of(number_of(tids[i])) == keys[probes[i]], "a wrong hit");
}

/* Ask as often as possible, from when all clients are ready on. */
static void
run_client(int number, uint32_t count)
{
	Connection client = connect_with(CLIENT_SIZE);
	uint64_t *keys = (uint64_t *) client.staging;
	uint64_t random = 88172645463325252u + (uint64_t) number * 7919;
	HpRequest request = about_index(HP_SEARCH);
	HpReply reply;
	uint64_t batches = 0;
	double begin, end;

	for (uint32_t i = 0; i < count; i++)
	{
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		keys[i] = key_of(random % entries);
	}
	request.search =
		(HpSearch){.probes_at = PROBES_AT, .tids_at = TIDS_AT, .room = count, .count = count};
	reply = answer(&client, request);
	check_hits(&client, count, &reply);
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	do
	{
		usleep(100);
		__atomic_load(&shared->begin, &begin, __ATOMIC_SEQ_CST);
	} while (begin == 0 || now_ms() < begin);
	for (end = begin + seconds * 1000; now_ms() < end; batches++)
		answer(&client, request);
	shared->rates[number] = (double) batches / ((now_ms() - begin) / 1000);
	close_connection(&client);
	_exit(0);
}

/* The batches a second of so many clients together. */
static double
measure(int clients, uint32_t count)
{
	double begin = 0;
	double sum = 0;
	int status;

	memset(shared, 0, sizeof(*shared));
	for (int i = 0; i < clients; i++)
	{
		pid_t pid = fork();

		require(pid >= 0, "no process");
		if (pid == 0)
			run_client(i, count);
	}
	while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < clients)
	{
		require(waitpid(-1, &status, WNOHANG) == 0, "a client failed");
		usleep(1000);
	}
	begin = now_ms() + 10;
	__atomic_store(&shared->begin, &begin, __ATOMIC_SEQ_CST);
	for (int i = 0; i < clients; i++)
		require(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0,
				"a client failed");
	for (int i = 0; i < clients; i++)
		sum += shared->rates[i];
	return sum;
}

static int
compare_rates(const void *a, const void *b)
{
	double left = *(const double *) a;
	double right = *(const double *) b;

	return left < right ? -1 : left > right;
}

int
main(int argc, char **argv)
{
	const int cells = LENGTH(client_counts) * LENGTH(key_counts);
	char device[32];
	double *results;
	int runs;

	if (argc < 3)
	{
		fprintf(stderr, "usage: %s DAEMON cuda | host [ENTRIES [SECONDS [RUNS]]]\n", argv[0]);
		return 2;
	}
	snprintf(device, sizeof(device), "--device=%s", argv[2]);
	entries = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_C(1) << 24;
	seconds = argc > 4 ? atof(argv[4]) : 2;
	runs = argc > 5 ? atoi(argv[5]) : 3;
	require(entries > 1 && runs > 0, "bad arguments");
	tap_start(1, argv);
	fflush(stdout);
	enter_folder(argv[1]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	results = calloc((size_t) (2 * cells * runs), sizeof(double));
	require(shared != MAP_FAILED && results != NULL, "no memory");

	for (int run = 0; run < runs; run++)
	{
		for (int two = 0; two < 2; two++)
		{
			Daemon daemon;

			daemon_devices = two ? "--devices=0,1" : "--devices=0";
			daemon = start_daemon(device, NULL, NULL);
			require(daemon.ready.status == HP_OK && daemon.ready.devices == (two ? 2 : 1),
					"not these devices");
			load();
			for (int cell = 0; cell < cells; cell++)
				results[(two * cells + cell) * runs + run] =
					measure(client_counts[cell / LENGTH(key_counts)],
							key_counts[cell % LENGTH(key_counts)]);
			require(stop_daemon(&daemon) == 0, "the daemon failed");
		}
	}
	for (int cell = 0; cell < cells; cell++)
	{
		printf("%d\t%u", client_counts[cell / LENGTH(key_counts)],
			   key_counts[cell % LENGTH(key_counts)]);
		for (int two = 0; two < 2; two++)
		{
			double *figures = &results[(two * cells + cell) * runs];

			qsort(figures, (size_t) runs, sizeof(double), compare_rates);
			printf("\t%.6g", figures[runs / 2]);
		}
		printf("\n");
	}
	return 0;
}
