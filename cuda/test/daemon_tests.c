/*
 * daemon_tests.c
 *		What the tests of the daemon share.
 */
#define _GNU_SOURCE
#include "daemon_tests.h"

#include <sys/wait.h>

const char *device = "--device=host";
const HtWidth some_widths[3] = {HT_WIDTH64, HT_WIDTH32, HT_WIDTH128};
Daemon daemon_process;

void
start_with_host(const char *memory, const char *host_memory)
{
	daemon_process = start_daemon(device, memory, host_memory);
	expect(daemon_process.ready.status == HP_OK, "start: %s", daemon_process.ready.text);
}

void
start(const char *memory)
{
	start_with_host(memory, NULL);
}

void
stop(void)
{
	int status = stop_daemon(&daemon_process);

	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the daemon ends with status %#x",
		   status);
}

int
probe_status(const Connection *connection, const Index *index)
{
	HpRequest request = make_search(connection, index, 0);
	int status = ask_status(connection, &request, NULL);

	return status == HP_NO_ROOM ? HP_OK : status;
}

void
send_search_all(const Connection *client, const Index *index)
{
	HpRequest request = make_search(client, index, 0);
	uint64_t high = ht_key_max(index->model.width);

	request.search.is_range = 1;
	request.search.high_at = 64;
	pack_keys(client->staging + 64, &high, 1, index->model.width);
	request.search.probes_at = 128;
	request.search.tids_at = 1024 * 1024;
	request.search.room = MODEL_MAX_ENTRIES;
	expect(send_request(client, &request), "send");
}

void
check_all(const Connection *client, const Index *index, const HpReply *reply)
{
	uint64_t low = 0;
	uint64_t high = ht_key_max(index->model.width);

	expect(reply->status == HP_OK && reply->hits == (uint64_t) index->model.count,
		   "status %u, %llu entries instead of %d", reply->status, (unsigned long long) reply->hits,
		   index->model.count);
	if (!failed())
		model_compare(&index->model, &low, &high, 1, MODEL_MAX_ENTRIES,
					  (const uint32_t *) (client->staging + 128),
					  (const uint64_t *) (client->staging + 1024 * 1024), MODEL_BY_PROBE);
}

void
receive_all(const Connection *client, const Index *index)
{
	HpReply reply;

	expect(receive_reply(client, &reply), "a search has no reply");
	check_all(client, index, &reply);
}
