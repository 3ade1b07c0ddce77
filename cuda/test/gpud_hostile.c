/*
 * gpud_hostile.c
 *		Messages that no correct client sends.
 */
#define _GNU_SOURCE
#include "daemon_tests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A client that keeps the rules; the others must not disturb it. */
static Connection good;
static Index good_index;

/* The index that clients use which break the rules. */
static Index bad_index;

static int
count_descriptors(void)
{
	int n = 0;

	for (int i = 0; i < 2000; i++)
	{
		char path[64];
		char target[16];

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) daemon_process.pid, i);
		n += readlink(path, target, sizeof(target)) > 0;
	}
	return n;
}

static void
check_good(const char *what)
{
	bool before = failed();

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
	Connection bad = connect_client(GENERATION);
	HpRequest request = about(&bad_index, HP_SYNC_BEGIN);

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
	Connection bad = connect_bad(in_sync);

	send_request(&bad, &request);
	check_ended(&bad, what);
}

static void
test_bad_requests(void)
{
	HpRequest request;

	for (uint32_t operation = HP_MAP; operation < HP_OPERATIONS; operation++)
	{
		Connection bad = open_connection();

		request = about(&good_index, operation);
		send_request(&bad, &request);
		check_ended(&bad, "no greeting");
	}
	report("hostile: another first request");

#define TRY(what, in_sync, start_of, change) \
	do \
	{ \
		request = start_of; \
		change; \
		try_request(what, in_sync, request); \
	} while (0)

	TRY("another version", false, make_hello(GENERATION), (void) 0);
	{
		Connection bad = open_connection();

		request = make_hello(GENERATION + 7);
		request.version++;
		send_request(&bad, &request);
		check_ended(&bad, "another version");
	}
	TRY("an operation too many", false, about(&bad_index, HP_OPERATIONS), (void) 0);
	TRY("no operation", false, about(&bad_index, HP_SEARCH), request.operation = UINT32_MAX);
	TRY("no operation, in a sync", true, about(&bad_index, HP_SEARCH),
		request.operation = 1u << 31);
	TRY("greeting twice in a sync", true, make_hello(GENERATION), (void) 0);
	for (uint32_t operation = HP_SYNC_BEGIN; operation < HP_OPERATIONS; operation++)
		TRY("a name's end", false, about(&good_index, operation), request.index.unused = 1);
	report("hostile: operations");

	for (uint32_t operation = HP_SYNC_RESERVE; operation <= HP_SYNC_END; operation++)
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
	TRY("width", false, about(&bad_index, HP_SYNC_BEGIN), request.width = 12);
	TRY("width", false, about(&bad_index, HP_SYNC_BEGIN), request.width = 32);
	TRY("width", false, about(&bad_index, HP_SYNC_BEGIN), request.width = UINT32_MAX);
	TRY("fanout", false, about(&bad_index, HP_SYNC_BEGIN), request.fanout = HT_MIN_FANOUT - 1);
	TRY("fanout", false, about(&bad_index, HP_SYNC_BEGIN), request.fanout = HT_MAX_FANOUT + 1);
	TRY("fanout", false, about(&bad_index, HP_SYNC_BEGIN), request.fanout = UINT32_MAX);
	TRY("flag", false, about(&bad_index, HP_SYNC_BEGIN), request.create = 2);
	TRY("another width", false, about(&good_index, HP_SYNC_BEGIN),
		request.width ^= HT_WIDTH32 ^ HT_WIDTH64);
	TRY("another fanout", false, about(&good_index, HP_SYNC_BEGIN), request.fanout ^= 16);
	report("hostile: attributes of an index");
}

/* Two clients in a sync must not wait for each other. */
static void
test_crossed_syncs(void)
{
	Connection first = connect_bad(true);
	Connection second = connect_client(GENERATION);
	HpRequest request = about(&bad_index, HP_SYNC_BEGIN);

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
	static const uint64_t offsets[] = {1,
									   4,
									   63,
									   STAGING_SIZE,
									   STAGING_SIZE + 64,
									   UINT64_C(1) << 32,
									   UINT64_MAX - 63,
									   UINT64_MAX,
									   UINT64_C(1) << 63};
	static const uint64_t rooms[] = {
		STAGING_SIZE / 8 + 1, STAGING_SIZE,      UINT64_C(1) << 61, (UINT64_C(1) << 61) + 8,
		UINT64_C(1) << 62,    UINT64_C(1) << 63, UINT64_MAX};
	HpRequest request;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
	{
		uint64_t at = offsets[i];

		for (uint32_t operation = HP_SYNC_LINES; operation <= HP_SYNC_PAGES; operation++)
		{
			TRY("numbers", true, about(&bad_index, operation),
				(request.count = 1, request.numbers_at = at));
			TRY("items", true, about(&bad_index, operation),
				(request.count = 1, request.data_at = at));
		}
		TRY("leaves", true, about(&bad_index, HP_SYNC_LEAVES),
			(request.count = 1, request.data_at = at));
		TRY("new leaves", true, about(&bad_index, HP_SYNC_NEW_LEAVES),
			(request.count = 1, request.data_at = at));
		TRY("low keys", false, make_search(&good, &good_index, 0), request.search.low_at = at);
		TRY("high keys", false, make_search(&good, &good_index, 0),
			(request.search.is_range = 1, request.search.high_at = at));
		TRY("probes", false, make_search(&good, &good_index, 0), request.search.probes_at = at);
		TRY("tids", false, make_search(&good, &good_index, 0), request.search.tids_at = at);
		TRY("map", false, make_search(&good, &good_index, 0),
			(request.search.tids_only = 1, request.search.map_pages = 1,
			 request.search.map_at = at));
		TRY("counts", false, make_search(&good, &good_index, 0),
			(request.search.map_pages = 1, request.search.counts_at = at));
		TRY("keys of hits", false, make_search(&good, &good_index, 0),
			(request.search.is_range = request.search.with_keys = 1, request.search.keys_at = at));
	}
	report("hostile: offsets");

	for (uint32_t count = STAGING_SIZE / 4 + 1; count != 0;
		 count = count < UINT32_MAX / 3 ? count * 3 :
				 count < UINT32_MAX     ? UINT32_MAX :
										  0)
	{
		TRY("lines", true, about(&bad_index, HP_SYNC_LINES), request.count = count);
		TRY("pages", true, about(&bad_index, HP_SYNC_PAGES), request.count = count);
		TRY("leaves", true, about(&bad_index, HP_SYNC_LEAVES), request.count = count);
		TRY("new leaves", true, about(&bad_index, HP_SYNC_NEW_LEAVES), request.count = count);
		TRY("keys", false, make_search(&good, &good_index, 0), request.search.count = count);
	}
	TRY("lines", true, about(&bad_index, HP_SYNC_LINES),
		request.count = STAGING_SIZE / HP_LINE_SIZE + 1);
	TRY("pages", true, about(&bad_index, HP_SYNC_PAGES),
		request.count = STAGING_SIZE / HT_PAGE_SIZE + 1);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
		TRY("room", false, make_search(&good, &good_index, 0), request.search.room = rooms[i]);
	TRY("flag", false, make_search(&good, &good_index, 0), request.search.is_range = 2);
	TRY("tids alone", false, make_search(&good, &good_index, 0), request.search.tids_only = 2);
	TRY("pages", false, make_search(&good, &good_index, 0),
		(request.search.tids_only = 1, request.search.map_pages = UINT32_MAX));
	TRY("by block", false, make_search(&good, &good_index, 0), request.search.by_block = 2);
	TRY("tids alone by block", false, make_search(&good, &good_index, 0),
		(request.search.tids_only = request.search.by_block = 1));
	TRY("a map and an order", false, make_search(&good, &good_index, 0),
		(request.search.tids_only = request.search.map_pages = request.search.by_block = 1));
	TRY("with keys", false, make_search(&good, &good_index, 0),
		(request.search.is_range = 1, request.search.with_keys = 2));
	TRY("unused bytes of a search", false, make_search(&good, &good_index, 0),
		request.search.unused = 1);
	TRY("keys of tids alone", false, make_search(&good, &good_index, 0),
		(request.search.is_range = request.search.with_keys = request.search.tids_only = 1));
	TRY("keys of points", false, make_search(&good, &good_index, 0), request.search.with_keys = 1);
	TRY("keys and an order", false, make_search(&good, &good_index, 0),
		(request.search.is_range = request.search.with_keys = request.search.by_block = 1));
	TRY("keys and a map", false, make_search(&good, &good_index, 0),
		(request.search.is_range = request.search.with_keys = request.search.tids_only =
			 request.search.map_pages = 1));
	report("hostile: counts");

	/* The last item may end exactly where the memory ends. */
	{
		Connection last = connect_bad(true);

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
		Connection bad = open_connection();

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
	Connection bad = connect_bad(true);
	HpRequest request = about(&bad_index, operation);
	uint32_t *numbers = (uint32_t *) bad.staging;

	numbers[0] = 0;
	numbers[1] = number;
	request.count = 2;
	request.data_at = 64;
	send_request(&bad, &request);
	check_ended(&bad, "block beyond");
}

/* A bound with a second word. */
#define BOUND(high, low, tid) \
	{ \
		{low, high}, tid \
	}

static void
try_leaves(const char *what, HpLeaf first, HpLeaf second)
{
	Connection bad = connect_bad(true);
	HpRequest request = about(&bad_index, HP_SYNC_LEAVES);
	HpLeaf *leaves = (HpLeaf *) bad.staging;

	leaves[0] = (HpLeaf){BOUND(0, 0, 0), 0, 0};
	leaves[1] = first;
	leaves[2] = second;
	request.count = 3;
	send_request(&bad, &request);
	check_ended(&bad, what);
}

static void
try_new_leaves(const char *what, HpNewLeaf first, HpNewLeaf second)
{
	Connection bad = connect_bad(true);
	HpRequest request = about(&bad_index, HP_SYNC_NEW_LEAVES);
	HpNewLeaf *leaves = (HpNewLeaf *) bad.staging;

	leaves[0] = first;
	leaves[1] = second;
	request.count = 2;
	send_request(&bad, &request);
	check_ended(&bad, what);
}

static void
test_bad_content(void)
{
	static const uint32_t beyond[] = {9, 1000, 1u << 26, UINT32_MAX / 64, UINT32_MAX};

	for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++)
	{
		try_number(HP_SYNC_PAGES, beyond[i]);
		try_number(HP_SYNC_LINES, beyond[i] < 1u << 26 ? beyond[i] * HP_PAGE_LINES : beyond[i]);
		try_leaves("leaf beyond", (HpLeaf){BOUND(0, 1, 0), beyond[i], 0},
				   (HpLeaf){BOUND(0, 2, 0), 1, 0});
		try_new_leaves("new leaf beyond", (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0},
					   (HpNewLeaf){BOUND(0, 2, 0), BOUND(0, 3, 0), beyond[i], 0});
	}
	try_leaves("leaf's end", (HpLeaf){BOUND(0, 1, 0), 1, 1}, (HpLeaf){BOUND(0, 2, 0), 2, 0});
	try_leaves("order of leaves", (HpLeaf){BOUND(0, 2, 0), 1, 0}, (HpLeaf){BOUND(0, 1, 0), 2, 0});
	try_leaves("order of leaves", (HpLeaf){BOUND(0, 2, 1), 1, 0}, (HpLeaf){BOUND(0, 2, 0), 2, 0});
	try_leaves("too large a key", (HpLeaf){BOUND(0, 1, 0), 1, 0},
			   (HpLeaf){BOUND(0, UINT64_C(1) << 32, 0), 2, 0});

	try_new_leaves("new leaf's flag", (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0},
				   (HpNewLeaf){BOUND(0, 2, 0), BOUND(0, 3, 0), 2, 2});
	try_new_leaves("order of new leaves", (HpNewLeaf){BOUND(0, 2, 0), BOUND(0, 3, 0), 1, 0},
				   (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 2, 0), 2, 0});
	try_new_leaves("new leaves that overlap", (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 3, 1), 1, 0},
				   (HpNewLeaf){BOUND(0, 3, 0), BOUND(0, 4, 0), 2, 0});
	try_new_leaves("two last leaves", (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 0, 0), 1, 1},
				   (HpNewLeaf){BOUND(0, 3, 0), BOUND(0, 0, 0), 2, 1});
	try_new_leaves("too large a low key", (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0},
				   (HpNewLeaf){BOUND(0, UINT64_C(1) << 32, 0), BOUND(0, 0, 0), 2, 1});
	try_leaves("a second word", (HpLeaf){BOUND(0, 1, 0), 1, 0}, (HpLeaf){BOUND(1, 2, 0), 2, 0});
	try_new_leaves("a low bound's second word", (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0},
				   (HpNewLeaf){BOUND(1, 2, 0), BOUND(0, 0, 0), 2, 1});
	try_new_leaves("a high bound's second word", (HpNewLeaf){BOUND(0, 1, 0), BOUND(0, 2, 0), 1, 0},
				   (HpNewLeaf){BOUND(0, 2, 0), BOUND(1, 3, 0), 2, 0});

	/* Second words are compared first. */
	bad_index.model.width = HT_WIDTH128;
	try_leaves("order of wide leaves", (HpLeaf){BOUND(2, 1, 0), 1, 0},
			   (HpLeaf){BOUND(1, 2, 0), 2, 0});
	try_new_leaves("order of new wide leaves", (HpNewLeaf){BOUND(1, 1, 0), BOUND(3, 1, 0), 1, 0},
				   (HpNewLeaf){BOUND(2, 5, 0), BOUND(4, 0, 0), 2, 0});
	bad_index.model.width = HT_WIDTH32;

	/* All leaves at existing blocks, but more leaves than blocks. */
	{
		Connection bad = connect_bad(true);
		HpRequest request = about(&bad_index, HP_SYNC_LEAVES);

		request.count = 1000;
		send_request(&bad, &request);
		check_ended(&bad, "more leaves than blocks");
	}
	report("hostile: numbers and leaves");
}

static void
try_message(const char *what, size_t size, int descriptor, int count)
{
	Connection bad = connect_bad(true);
	char *bytes = allocate(size + sizeof(HpRequest));
	HpRequest request = about(&bad_index, HP_SYNC_END);
	int descriptors[16];

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
	pid_t child;
	int status = -1;

	if (geteuid() != 0)
	{
		report("hostile: another user # SKIP needs root");
		return;
	}
	expect(chmod(".", 0755) == 0 && chmod("pg_stat_tmp", 0755) == 0 && chmod(HP_SOCKET, 0666) == 0,
		   "chmod");
	child = fork();
	if (child == 0)
	{
		HpRequest hello = make_hello(GENERATION);
		Connection other;

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
		0, 1, 4, sizeof(HpRequest) - 1, sizeof(HpRequest) + 1, 2 * sizeof(HpRequest), 65536};
	int before = count_descriptors();
	int waited = 0;

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
		Connection bad = connect_bad(false);
		HpRequest request = make_search(&bad, &good_index, 0);

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
	Connection bad = connect_bad(true);
	HpRequest request = {.operation = HP_MAP, .size = size};

	expect(memory >= 0, "%s: %s", what, strerror(errno));
	send_bytes(&bad, &request, sizeof(request), &memory, 1);
	check_ended(&bad, what);
}

static int
make_memory(unsigned int flags, int seals)
{
	int memory = memfd_create("bad", flags);

	if (ftruncate(memory, 65536) != 0 || (seals != 0 && fcntl(memory, F_ADD_SEALS, seals) != 0))
		return -1;
	return memory;
}

static void
test_bad_memory(void)
{
	char path[64];
	int ends[2];
	int descriptor;
	HpReply reply;
	Connection client;

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
		Connection bad = connect_bad(true);
		HpRequest request = {.operation = HP_MAP, .size = STAGING_SIZE};

		send_request(&bad, &request);
		check_ended(&bad, "no descriptor");
	}
	report("hostile: staging memory");

	/* Only the memory mapped last counts, and only as much of it as announced. */
	client = connect_client(GENERATION);
	descriptor = make_memory(MFD_ALLOW_SEALING, F_SEAL_SHRINK);
	expect(map_staging(&client, descriptor, 4096, &reply) && reply.status == HP_OK, "map");
	{
		HpRequest request = about(&good_index, HP_SEARCH);

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
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
	{
		for (int i = 0; i < 1000; i++)
		{
			size_t at = (size_t) rnd_below((int) size / 8);

			((volatile uint64_t *) memory)[at] = rnd_below(2) ? (uint64_t) rnd_below(64) : rnd();
		}
		usleep(200);
	}
}

static uint64_t
interesting(void)
{
	static const uint64_t values[] = {0,
									  1,
									  2,
									  4,
									  8,
									  63,
									  64,
									  128,
									  4096,
									  65536,
									  UINT64_C(1) << 31,
									  UINT64_C(1) << 32,
									  UINT64_C(1) << 61,
									  UINT64_MAX};
	uint64_t value = values[rnd_below(sizeof(values) / sizeof(values[0]))];

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
	HpRequest request = about(&indexes[rnd_below(n)], (HpOperation) rnd_below(HP_OPERATIONS));
	uint32_t *words = (uint32_t *) &request;

	request.version = HP_VERSION;
	request.count = (uint32_t) rnd_below(16);
	request.size = size;
	request.numbers_at = 64 * (uint64_t) rnd_below(16);
	request.data_at = 1024 + 64 * (uint64_t) rnd_below(16);
	request.search.count = (uint32_t) rnd_below(64);
	request.search.is_range = (uint32_t) rnd_below(2);
	request.search.tids_only = (uint32_t) rnd_below(2);
	request.search.by_block = request.search.tids_only == 0 && rnd_below(2);
	request.search.map_pages = !request.search.by_block ? (uint32_t) rnd_below(100) : 0;
	request.search.counts_at = 3072;
	request.search.with_keys = request.search.is_range && !request.search.by_block &&
							   !request.search.tids_only && request.search.map_pages == 0 &&
							   rnd_below(2);
	request.search.keys_at = 8192;
	request.search.room = (uint64_t) rnd_below(100);
	request.search.high_at = 1024;
	request.search.probes_at = 2048;
	request.search.tids_at = 4096;
	for (int changes = rnd_below(4) - 1; changes > 0; changes--)
	{
		int word = rnd_below((int) (sizeof(request) / sizeof(uint32_t)));
		uint64_t value = interesting();

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
	int rounds = rounds_wanted != NULL ? atoi(rounds_wanted) : 20000;
	const uint64_t size = 65536;
	Connection bad = connect_client(GENERATION);
	Index indexes[3];
	pid_t scribbling = start_scribbling(bad.staging, size);
	int memory = bad.memory;
	long statuses[HP_FAILED + 1] = {0};
	long ends = 0;

	for (int i = 0; i < 3; i++)
		indexes[i] = make_index(CONTENT_NONE, some_widths[i]);
	close(bad.socket);
	bad.socket = -1;
	for (int round = 0; round < rounds && !failed(); round++)
	{
		HpRequest request = make_random_request(indexes, 3, size);
		bool passes =
			rnd_below(200) == 0 ? request.operation != HP_MAP : request.operation == HP_MAP;
		HpReply reply;

		if (bad.socket < 0)
		{
			HpRequest hello = make_hello(GENERATION);
			Connection again = open_connection();

			close(again.memory);
			munmap(again.staging, again.size);
			bad.socket = again.socket;
			expect(ask_status(&bad, &hello, NULL) == HP_OK &&
					   map_staging(&bad, memory, size, &reply) && reply.status == HP_OK,
				   "connect again");
		}
		if (send_bytes(&bad, &request, sizeof(request), &memory, passes) &&
			receive_reply(&bad, &reply))
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
	printf("# %d messages: %ld ok, %ld unknown, %ld without room, %ld without memory, %ld "
		   "connections ended\n",
		   rounds, statuses[HP_OK], statuses[HP_UNKNOWN], statuses[HP_NO_ROOM],
		   statuses[HP_NO_MEMORY], ends);
	expect(statuses[HP_OK] > rounds / 20 && ends > rounds / 20, "what is sent is not varied");
	report("hostile: random messages");
}

void
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
