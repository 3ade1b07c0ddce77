/*
 * requests.cc
 *		What a client may ask for and when, and replies; syncs.cc and searches.cc do what takes a
 *		device.  Nothing in a request or in staging memory is trusted.  A client can change its
 *		staging memory at any time, also during a request.
 */
#include "service.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace harmonia
{

/* Offsets in staging memory are multiples of this. */
static constexpr uint64_t staging_alignment = 64;

/* ----------------------------------------------------------------
 *		Staging memory
 * ----------------------------------------------------------------
 */

bool
Staging::map(int memory, uint64_t bytes)
{
	struct stat attributes;
	int seals = fcntl(memory, F_GET_SEALS);
	void *mapped;

	/* Touching memory beyond the end of the file would kill the daemon. */
	require(seals >= 0 && (seals & F_SEAL_SHRINK) != 0,
			"staging memory must be sealed against shrinking");
	require(fstat(memory, &attributes) == 0 && bytes > 0 && bytes <= (uint64_t) attributes.st_size,
			"staging memory must not be smaller than announced");

	unmap();
	mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	require(mapped != MAP_FAILED || errno == ENOMEM, "staging memory must be writable");
	if (mapped == MAP_FAILED)
		return false;
	start = (char *) mapped;
	size = bytes;
	pinned = budget.pinned.fetch_add(size) + size <= budget.limit &&
			 hd_device_pin(device, start, size) == HD_OK;
	if (!pinned)
		budget.pinned -= size;
	return true;
}

void
Staging::unmap()
{
	if (start == nullptr)
		return;
	if (pinned)
	{
		hd_device_unpin(device, start);
		budget.pinned -= size;
	}
	pinned = false;
	munmap(start, size);
	start = nullptr;
	size = 0;
}

void *
Staging::at(uint64_t offset, uint64_t count, size_t item) const
{
	require(offset % staging_alignment == 0, "offsets must be multiples of 64");
	require(offset <= size && count <= (size - offset) / item,
			"items must be inside staging memory");
	return start + offset;
}

/* ----------------------------------------------------------------
 *		Requests
 * ----------------------------------------------------------------
 */

/* Is a request part of a sync? */
static bool
is_sync(uint32_t operation)
{
	return operation >= HP_SYNC_BEGIN && operation <= HP_SYNC_END;
}

/*
 * Does a client's request have to wait for the end of another client's sync?  A client
 * that is in a sync itself never waits, because two such clients could wait for each
 * other.
 */
bool
Service::is_blocked(const Client &client)
{
	const HpRequest &request = client.request;

	if (!client.greeted || client.passed.get() >= 0 || request.operation == HP_HELLO ||
		request.operation == HP_MAP || client.sync != nullptr)
		return false;

	IndexPointer index = indexes.find(request.index);

	return index != nullptr && index->in_sync;
}

/* Does any client wait for the end of this client's sync? */
bool
Service::is_waited_for(const Client &client)
{
	for (const Client &other : clients)
	{
		if (other.waits && indexes.find(other.request.index) == client.sync)
			return true;
	}
	return false;
}

DeviceSet
Service::all_devices() const
{
	return (DeviceSet) ((UINT64_C(1) << devices.size()) - 1);
}

/* The devices of which one can begin a client's request, or the next piece of its search. */
DeviceSet
Service::able_devices(const Client &client)
{
	IndexPointer index =
		client.request.operation == HP_SEARCH ? indexes.find(client.request.index) : nullptr;

	return index != nullptr ? index->holders : all_devices();
}

/*
 * Begin client.request, or the next piece of a search: check the rules, and do what needs no
 * device.  Returns the devices that have yet to perform it; "device" is one that could.  Throws
 * BrokenRule.
 */
DeviceSet
Service::begin(Client &client, const Device &device)
{
	const HpRequest &request = client.request;
	uint32_t operation = request.operation;
	bool about_index = operation != HP_HELLO && operation != HP_MAP;

	require(operation < HP_OPERATIONS, "unknown operation");
	require(client.greeted == (operation != HP_HELLO),
			"HP_HELLO must be the first request, and only the first");
	require((client.passed.get() >= 0) == (operation == HP_MAP),
			"HP_MAP, and nothing else, must come with a descriptor");
	client.reply = {};
	client.index = nullptr;
	if (about_index)
	{
		require(request.index.unused == 0, "unused bytes of index names must be zero");
		client.index = indexes.use(request.index);
		require(client.sync == nullptr || client.index == client.sync,
				"a sync is for one index only");
		require(client.sync == nullptr || operation == HP_DROP ||
					(is_sync(operation) && operation != HP_SYNC_BEGIN),
				"during a sync only its own requests are allowed");
		require(client.sync != nullptr || !is_sync(operation) || operation == HP_SYNC_BEGIN,
				"sync requests need HP_SYNC_BEGIN first");
	}

	switch (operation)
	{
		case HP_HELLO:
			hello(client);
			return set_of(device.number);
		case HP_MAP:
			return set_of(device.number);
		case HP_SYNC_BEGIN:
			sync_begin(client);
			break;
		case HP_SYNC_END:
			client.index->structure = request.structure;
			end_sync(client, true);
			return 0;
		case HP_SEARCH:
			return may_search(client) ? set_of(device.number) : 0;
		case HP_DROP:
			return drop(client);
	}
	return client.index != nullptr ? client.index->holders : 0;
}

/*
 * Perform a device's share of client.request.  The copy is NULL if the device has none.  Throws
 * BrokenRule and ClientGone.  If HP_FAILED is returned, the caller ends the daemon.
 */
HpStatus
Service::perform(Worker &worker, Client &client, Copy *copy)
{
	uint32_t operation = client.request.operation;

	if (operation == HP_MAP)
		return client.staging.map(client.passed.get(), client.request.size) ? HP_OK : HP_NO_MEMORY;
	if (operation == HP_SYNC_BEGIN)
		return make_copy(worker, client, copy);
	if (operation == HP_HELLO || operation == HP_DROP)
		return HP_OK;
	if (copy == nullptr)
		return operation == HP_SEARCH ? HP_UNKNOWN : HP_NO_MEMORY;
	switch (operation)
	{
		case HP_SYNC_RESERVE:
			return status(worker, worker.device.copies.reserve(copy, client.request.count));
		case HP_SYNC_LINES:
			return sync_write(worker, client, copy, HP_LINE_SIZE);
		case HP_SYNC_PAGES:
			return sync_write(worker, client, copy, HT_PAGE_SIZE);
		case HP_SYNC_LEAVES:
			return sync_leaves(worker, client, copy);
		case HP_SYNC_NEW_LEAVES:
			return sync_new_leaves(worker, client, copy);
	}
	return search(worker, client, copy);
}

/*
 * Note what a device's share of a request has come to.  A device that has no room for a copy gives
 * it up; if no other one has a copy, there is none any more.
 */
void
Service::note_result(Device &device, Client &client, HpStatus status)
{
	HpReply &reply = client.reply;

	if (status == HP_NO_MEMORY)
		snprintf(reply.text, sizeof(reply.text), "%s",
				 client.request.operation == HP_MAP ? "out of memory" : device.copies.error());
	if (status != HP_OK && is_sync(client.request.operation))
	{
		indexes.leave(client.index, device.number, false);
		device.sweeps = true;
		if (client.index->holders != 0)
			return;
	}
	reply.status = status;
}

/* All devices have performed a request: complete its reply. */
void
Service::complete(Client &client)
{
	const HpRequest &request = client.request;
	const CopiedIndex *index = client.index.get();
	const HdResult &found = client.progress.found;
	HpReply &reply = client.reply;

	if (request.operation == HP_SEARCH)
	{
		reply.hits = found.hits;
		reply.counted = found.counted;
	}
	if (request.operation == HP_SYNC_BEGIN && reply.status == HP_OK)
		reply.structure = index->structure;
	if (reply.status != HP_OK && is_sync(request.operation))
		end_sync(client, false);
	describe(&reply, index, reply.status == HP_NO_MEMORY ? reply.text : name);
}

/*
 * If the generation is new, the server has restarted and lost the marks: drop all
 * copies.
 */
void
Service::hello(Client &client)
{
	const HpRequest &request = client.request;

	require(request.version == HP_VERSION, "client and daemon must be of the same version");
	if (has_generation && request.generation != generation)
	{
		for (Client &other : clients)
		{
			if (&other != &client && other.greeted)
				close(other);
		}
		for (Device &device : devices)
			device.sweeps = true;
		indexes.drop_all();
	}
	generation = request.generation;
	has_generation = true;
	client.greeted = true;
}

bool
Service::is_gpu() const
{
	return kind == HD_CUDA;
}

/* Drop the copies of an index.  Returns the devices that have to free them. */
DeviceSet
Service::drop(Client &client)
{
	DeviceSet holders = client.index != nullptr ? client.index->holders : 0;

	if (client.sync != nullptr)
		end_sync(client, false);
	else if (client.index != nullptr)
		drop_index(client.index);
	return holders;
}

/* An index has no copies any more; devices free what they have when they are free themselves. */
void
Service::drop_index(const IndexPointer &index)
{
	for (Device &device : devices)
		device.sweeps |= (index->holders & set_of(device.number)) != 0;
	indexes.drop(index);
}

HpStatus
Service::status(Worker &worker, HdStatus status)
{
	require(status != HD_INVALID, hd_device_error(worker.uses));
	if (status == HD_ABANDONED && worker.too_long)
		return HP_TOO_LONG;
	if (status == HD_ABANDONED)
		throw ClientGone();
	return status == HD_OK ? HP_OK : status == HD_NO_MEMORY ? HP_NO_MEMORY : HP_FAILED;
}

/* Fill the fields that every reply has.  What is said of the copies is true of each of them. */
void
Service::describe(HpReply *reply, const CopiedIndex *index, const char *text)
{
	if (index != nullptr && index->holders != 0)
	{
		reply->blocks = index->blocks();
		for (const Device &device : devices)
		{
			const CopiedIndex::Held &held = index->held[device.number];

			if ((index->holders & set_of(device.number)) == 0)
				continue;
			reply->copy_host_memory = std::max(reply->copy_host_memory, held.host_memory);
			reply->copy_memory = std::max(reply->copy_memory, held.memory + held.host_memory);
		}
	}
	for (const Device &device : devices)
	{
		reply->memory = std::max(reply->memory, device.info.memory);
		reply->memory_free = std::max(reply->memory_free, device.info.memory_free);
	}
	reply->devices = (uint32_t) devices.size();
	reply->lanes = (uint32_t) workers.size();
	reply->is_gpu = is_gpu();
	reply->copies = indexes.count();
	reply->evictions = indexes.evictions();
	reply->pinned = pins.pinned;
	if (text != reply->text)
		snprintf(reply->text, sizeof(reply->text), "%s", text);
}

/* What devices are called: "2 x" one name, or different names. */
void
Service::make_name()
{
	std::string names;

	for (auto device = devices.begin(); device != devices.end();)
	{
		auto first = device;
		int same = 0;

		for (; device != devices.end() && strcmp(device->info.name, first->info.name) == 0;
			 device++)
			same++;
		names += names.empty() ? "" : ", ";
		names += same > 1 ? std::to_string(same) + " x " : "";
		names += first->info.name;
	}
	snprintf(name, sizeof(name), "%s", names.c_str());
}

/* The message that tells the supervisor that the daemon is ready. */
HpReply
Service::ready()
{
	HpReply reply = {};

	for (Device &device : devices)
	{
		if (hd_device_info(device.lanes.front(), &device.info) == HD_OK)
			continue;
		reply.status = HP_FAILED;
		describe(&reply, nullptr, hd_device_error(device.lanes.front()));
		return reply;
	}
	kind = devices.front().info.kind;
	make_name();
	describe(&reply, nullptr, name);
	return reply;
}

} /* namespace harmonia */
