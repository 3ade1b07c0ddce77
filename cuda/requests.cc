/*
 * requests.cc
 *		Executes clients' requests.  Nothing in a request or in staging memory is
 *		trusted.  A client can change its staging memory at any time, also during a
 *		request.
 */
#include "service.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <vector>

namespace harmonia
{

/* Offsets in staging memory are multiples of this. */
static constexpr uint64_t staging_alignment = 64;

/*
 * A piece of a search is to take so long.  The first piece that a client wants has so many probes,
 * and none has fewer than the minimum: GPUs search many in little more time than a few.
 */
static constexpr int64_t piece_us = 20000;
static constexpr uint32_t gpu_piece_first = 1 << 20;
static constexpr uint32_t gpu_piece_min = 1 << 16;
static constexpr uint32_t host_piece_first = 1 << 14;
static constexpr uint32_t host_piece_min = 1 << 4;

/* A piece is at most so many times as large as the one before. */
static constexpr uint32_t piece_growth = 8;

/* How many numbers of pages or lines are copied and checked at a time. */
static constexpr uint32_t numbers_max = 1 << 16;

static void
require(bool good, const char *rule)
{
	if (!good)
		throw BrokenRule{rule};
}

/* ----------------------------------------------------------------
 *		Staging memory
 * ----------------------------------------------------------------
 */

bool
Staging::map(int memory, uint64_t bytes)
{
	struct stat attributes;
	int			seals = fcntl(memory, F_GET_SEALS);
	void	   *mapped;

	/* Touching memory beyond the end of the file would kill the daemon. */
	require(seals >= 0 && (seals & F_SEAL_SHRINK) != 0, "staging memory must be sealed against shrinking");
	require(fstat(memory, &attributes) == 0 && bytes > 0 && bytes <= (uint64_t) attributes.st_size,
			"staging memory must not be smaller than announced");

	unmap();
	mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	require(mapped != MAP_FAILED || errno == ENOMEM, "staging memory must be writable");
	if (mapped == MAP_FAILED)
		return false;
	start = (char *) mapped;
	size = bytes;
	pinned = budget.pinned + size <= budget.limit && hd_device_pin(device, start, size) == HD_OK;
	if (pinned)
		budget.pinned += size;
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
	require(offset <= size && count <= (size - offset) / item, "items must be inside staging memory");
	return start + offset;
}

/* ----------------------------------------------------------------
 *		Requests
 * ----------------------------------------------------------------
 */

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
	IndexPointer index = client.request.operation == HP_SEARCH ? indexes.find(client.request.index) : nullptr;

	return index != nullptr ? index->holders : all_devices();
}

/* The blocks that all copies of an index have room for. */
static uint32_t
blocks_of(const CopiedIndex &index)
{
	uint32_t	blocks = UINT32_MAX;

	for (int device = 0; device < HD_MAX_DEVICES; device++)
	{
		if ((index.holders & set_of(device)) != 0)
			blocks = std::min(blocks, index.held[device].blocks);
	}
	return blocks;
}

/*
 * Begin client.request, or the next piece of a search: check the rules, and do what needs no device.  Returns the devices
 * that have yet to perform it; "device" is one that could.  Throws BrokenRule.
 */
DeviceSet
Service::begin(Client &client, const Device &device)
{
	const HpRequest &request = client.request;
	uint32_t	operation = request.operation;
	bool		about_index = operation != HP_HELLO && operation != HP_MAP;

	require(operation < HP_OPERATIONS, "unknown operation");
	require(client.greeted == (operation != HP_HELLO), "HP_HELLO must be the first request, and only the first");
	require((client.passed.get() >= 0) == (operation == HP_MAP), "HP_MAP, and nothing else, must come with a descriptor");
	client.reply = {};
	client.index = nullptr;
	if (about_index)
	{
		require(request.index.unused == 0, "unused bytes of index names must be zero");
		client.index = indexes.use(request.index);
		require(client.sync == nullptr || client.index == client.sync, "a sync is for one index only");
		require(client.sync == nullptr || operation == HP_DROP || (is_sync(operation) && operation != HP_SYNC_BEGIN),
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
		case HP_SYNC_ZONES:
			sync_zones(client);
			break;
		case HP_SYNC_GET_ZONES:
			sync_get_zones(client);
			return 0;
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
 * Perform a device's share of client.request.  The copy is NULL if the device has none.  Throws BrokenRule and
 * ClientGone.  If HP_FAILED is returned, the caller ends the daemon.
 */
HpStatus
Service::perform(Worker &worker, Client &client, Copy *copy)
{
	uint32_t	operation = client.request.operation;

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
		case HP_SYNC_ZONES:
			copy->is_partial = true;
			worker.device.copies.collect(copy, false);
			return HP_OK;
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
 * Note what a device's share of a request has come to.  A device that has no room for a copy gives it up; if no
 * other one has a copy, there is none any more.
 */
void
Service::note_result(Device &device, Client &client, HpStatus status)
{
	HpReply    &reply = client.reply;

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
	HpReply    &reply = client.reply;

	if (request.operation == HP_SEARCH)
	{
		reply.hits = found.hits;
		reply.counted = found.counted;
		reply.sort_ms = (float) found.sort_ms;
		reply.search_ms = (float) found.search_ms;
	}
	if (request.operation == HP_SYNC_BEGIN && reply.status == HP_OK)
	{
		reply.structure = index->structure;
		reply.zones = index->zones_number;
		reply.zone_count = (uint32_t) index->zones.size();
	}
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

/* Begin a sync, of an index that all devices are to have if it is new. */
void
Service::sync_begin(Client &client)
{
	const HpRequest &request = client.request;

	require(request.create <= 1, "flags must be 0 or 1");
	require(request.width == HT_WIDTH32 || request.width == HT_WIDTH64 || request.width == HT_WIDTH128,
			"keys must have 32, 64 or 128 bits");
	require(request.fanout >= HT_MIN_FANOUT && request.fanout <= HT_MAX_FANOUT, "the fanout is out of range");
	if (client.index == nullptr && !request.create)
	{
		client.reply.status = HP_UNKNOWN;
		return;
	}
	if (client.index == nullptr)
	{
		client.index = indexes.create(request.index, (HtWidth) request.width, (int) request.fanout, all_devices());
		client.reply.created = 1;
	}
	require(request.width == (uint32_t) client.index->width && request.fanout == (uint32_t) client.index->fanout,
			"an index must keep its key width and fanout");
	client.index->in_sync = true;
	client.sync = client.index;
}

/* A device's share of the beginning of a sync. */
HpStatus
Service::make_copy(Worker &worker, Client &client, Copy *copy)
{
	if (copy == nullptr)
		return status(worker, worker.device.copies.create(client.index, &copy));
	worker.device.copies.collect(copy, true);
	return HP_OK;
}

/* Take the zones of a copy that is, or becomes, partial, and make room for leaves of others. */
void
Service::sync_zones(Client &client)
{
	const HpRequest &request = client.request;
	CopiedIndex &index = *client.index;
	const HpZone *from = (const HpZone *) client.staging.at(request.data_at, request.count, sizeof(HpZone));

	require(request.zones != 0, "zones must have a number");
	require(request.count > 0 && request.count <= HP_MAX_ZONES, "a partial copy must have zones, and not too many");
	require(index.zones_number != 0 || blocks_of(index) == 0, "a copy with blocks cannot become partial");

	std::vector<HpZone> zones(from, from + request.count);

	for (uint32_t i = 0; i < request.count; i++)
	{
		const HpZone &zone = zones[i];

		require(zone.resident <= 1 && zone.unused == 0, "flags must be 0 or 1, and unused bytes zero");
		require(i == 0 ? zone.low[0] == 0 && zone.low[1] == 0 :
				zone.low[1] > zones[i - 1].low[1] ||
				(zone.low[1] == zones[i - 1].low[1] && zone.low[0] > zones[i - 1].low[0]),
				"zones must be in order, and begin with the least key");
	}
	index.zones.swap(zones);
	index.zones_number = request.zones;
}

void
Service::sync_get_zones(Client &client)
{
	const CopiedIndex &index = *client.index;
	HpZone	   *to = (HpZone *) client.staging.at(client.request.data_at, HP_MAX_ZONES, sizeof(HpZone));

	std::copy(index.zones.begin(), index.zones.end(), to);
	client.reply.zones = index.zones_number;
	client.reply.zone_count = (uint32_t) index.zones.size();
}

/* Write pages or lines, depending on the size of an item. */
HpStatus
Service::sync_write(Worker &worker, Client &client, Copy *copy, size_t item)
{
	const HpRequest &request = client.request;
	const uint32_t *from = (const uint32_t *) client.staging.at(request.numbers_at, request.count,
																sizeof(uint32_t));
	const char *items = (const char *) client.staging.at(request.data_at, request.count, item);
	std::vector<uint32_t> numbers(std::min(request.count, numbers_max));
	HdStatus	written = HD_OK;

	for (uint64_t first = 0; first < request.count && written == HD_OK; first += numbers_max)
	{
		uint32_t	n = (uint32_t) std::min(request.count - first, (uint64_t) numbers_max);

		memcpy(numbers.data(), from + first, n * sizeof(uint32_t));
		numbers.resize(n);
		for (uint32_t number : numbers)
			require(!copy->is_partial || item == HP_LINE_SIZE || number < HP_NUMBERED_BLOCKS,
					"blocks of a partial copy must have lines with numbers");
		written = item == HP_LINE_SIZE ?
			worker.device.copies.write_lines(copy, numbers.data(), items + first * item, n) :
			worker.device.copies.write_pages(copy, numbers.data(), items + first * item, n);
	}
	return status(worker, written);
}

/* A bound of a leaf of a copy with keys of at most 64 bits. */
static HtEntry
narrow_bound(const HpBound &bound)
{
	require(bound.key[1] == 0, "bounds must not be wider than the index's keys");
	return {bound.key[0], bound.tid};
}

static void
narrow_leaf(const HpLeaf &leaf, HdLeaf *to)
{
	*to = {narrow_bound(leaf.low), leaf.block};
}

static void
narrow_leaf(const HpNewLeaf &leaf, HdNewLeaf *to)
{
	*to = {narrow_bound(leaf.low), leaf.is_last ? HtEntry{} : narrow_bound(leaf.high), leaf.block, leaf.is_last};
}

static void
wide_leaf(const HpLeaf &leaf, HdWideLeaf *to)
{
	*to = {{leaf.low.key[0], leaf.low.key[1]}, leaf.low.tid, leaf.block};
}

static void
wide_leaf(const HpNewLeaf &leaf, HdWideNewLeaf *to)
{
	*to = {{leaf.low.key[0], leaf.low.key[1]}, leaf.low.tid, {leaf.high.key[0], leaf.high.key[1]}, leaf.high.tid,
		leaf.block, leaf.is_last};
}

static void
check_leaf(const HpLeaf &leaf)
{
	require(leaf.unused == 0, "unused bytes of leaves must be zero");
}

static void
check_leaf(const HpNewLeaf &leaf)
{
	require(leaf.is_last <= 1, "flags must be 0 or 1");
}

/*
 * Copy leaves out of staging memory, then check each and convert it.  The device knows those of a
 * partial copy by their places.
 */
template <typename Leaf, typename From>
static std::vector<Leaf>
take_leaves(const Copy *copy, const From *from, uint32_t count, void (*convert) (const From &, Leaf *))
{
	std::vector<Leaf> leaves(count);

	for (uint32_t i = 0; i < count; i++)
	{
		From		leaf = from[i];

		check_leaf(leaf);
		convert(leaf, &leaves[i]);
		require(!copy->is_partial || copy->places.find(leaf.block, &leaves[i].block),
				"leaves of a partial copy must be blocks that it has");
	}
	return leaves;
}

HpStatus
Service::sync_leaves(Worker &worker, Client &client, Copy *copy)
{
	const HpRequest &request = client.request;
	const HpLeaf *from = (const HpLeaf *) client.staging.at(request.data_at, request.count,
															sizeof(HpLeaf));

	require(request.count <= copy->blocks, "there must not be more leaves than blocks");
	if (copy->of->width > HT_WIDTH64)
		return status(worker, worker.device.copies.set_leaves(copy, take_leaves<HdWideLeaf>(copy, from, request.count, wide_leaf)));
	return status(worker, worker.device.copies.set_leaves(copy, take_leaves<HdLeaf>(copy, from, request.count, narrow_leaf)));
}

HpStatus
Service::sync_new_leaves(Worker &worker, Client &client, Copy *copy)
{
	const HpRequest &request = client.request;
	const HpNewLeaf *from = (const HpNewLeaf *) client.staging.at(request.data_at, request.count,
																  sizeof(HpNewLeaf));

	require(request.count <= copy->blocks, "there must not be more leaves than blocks");
	if (copy->of->width > HT_WIDTH64)
		return status(worker, worker.device.copies.add_leaves(copy, take_leaves<HdWideNewLeaf>(copy, from, request.count, wide_leaf)));
	return status(worker, worker.device.copies.add_leaves(copy, take_leaves<HdNewLeaf>(copy, from, request.count, narrow_leaf)));
}

bool
Service::is_gpu() const
{
	return kind == HD_CUDA;
}

/* No piece of a search is made smaller than this. */
uint32_t
Service::piece_min() const
{
	return is_gpu() ? gpu_piece_min : host_piece_min;
}

/* The number of probes of a client's next piece. */
uint32_t
Service::piece_of(const Client &client) const
{
	if (fixed_piece > 0)
		return fixed_piece;
	if (client.piece > 0)
		return client.piece;
	return is_gpu() ? gpu_piece_first : host_piece_first;
}

/* Note how long a piece has taken, in us, to choose the size of the next one. */
void
Service::note_piece(Client &client, uint32_t probes, int64_t time)
{
	double		share = (double) piece_us / (double) std::max(time, (int64_t) 1);
	uint32_t	next = (uint32_t) std::min(probes * std::min(share, (double) piece_growth), 1e9);

	client.piece = std::max(time > piece_us ? next : std::max(next, piece_of(client)), piece_min());
}

/*
 * Search the next probes of a batch, and add to what the client's search has found.  Later pieces
 * may be searched in later states of the copy; each has other probes.
 */
HpStatus
Service::search_piece(Worker &worker, Client &client, Copy *copy, HdBatch batch)
{
	SearchProgress &progress = client.progress;
	HdResult   &sum = progress.found;
	uint32_t	first = progress.probes;
	uint32_t	n = batch.count - first;
	uint64_t	stored = sum.hits - sum.counted;
	bool		has_room = sum.hits <= batch.room;
	size_t		width = (size_t) copy->of->width;
	int64_t		begin = now_us();
	HdResult	result;
	HdStatus	searched;

	/* That equal points count as one cannot be said of pieces. */
	if (!batch.distinct && n > piece_of(client))
		n = piece_of(client);
	worker.piece = batch.distinct ? 0 : n;
	batch.count = n;
	batch.low = (const char *) batch.low + first * width;
	if (batch.high != nullptr)
		batch.high = (const char *) batch.high + first * width;
	if (batch.counts != nullptr)
		batch.counts += first;
	batch.room = has_room ? batch.room - sum.hits : 0;
	if (has_room)
	{
		batch.tids += stored;
		if (batch.probes != nullptr)
			batch.probes += stored;
		if (batch.keys != nullptr)
			batch.keys = (char *) batch.keys + stored * width;
	}
	searched = client.alone ? worker.device.copies.search_alone(copy, batch, &result) :
		worker.device.copies.search(worker.lane, copy, batch, &result, &worker.crowded);
	if (searched == HD_NO_MEMORY && !client.alone)
	{
		/* The device is crowded, so it is repeated alone. */
		client.unfinished = true;
		return HP_OK;
	}
	if (searched == HD_ABANDONED && worker.gives_way)
	{
		client.piece = std::max(n / 4, piece_min());
		client.unfinished = true;
		return HP_OK;
	}
	if (searched != HD_OK)
		return status(worker, searched);
	note_piece(client, n, now_us() - begin);

	if (batch.counts != nullptr && result.hits == 0)
		memset(batch.counts, 0, n * sizeof(uint32_t));
	if (batch.probes != nullptr && first > 0)
	{
		for (uint64_t i = 0; i < std::min(result.hits, batch.room) - result.counted; i++)
			batch.probes[i] += first;
	}
	sum.hits += result.hits;
	sum.counted += result.counted;
	sum.sort_ms += result.sort_ms;
	sum.search_ms += result.search_ms;
	progress.probes += n;
	client.unfinished = progress.probes < client.request.search.count;
	return HP_OK;
}

/* Can a search be made, and of the copy that it names?  If not, the reply says why.  Zones can change between two pieces, too. */
bool
Service::may_search(Client &client)
{
	const HpSearch &wanted = client.request.search;

	require(wanted.is_range <= 1 && wanted.distinct <= 1 && wanted.tids_only <= 1 && wanted.by_block <= 1 &&
			wanted.with_keys <= 1 && wanted.unused == 0, "flags must be 0 or 1, and unused bytes zero");
	require(!wanted.is_range || !wanted.distinct, "only points can be distinct");
	require(wanted.map_pages == 0 || !wanted.by_block, "hits that are counted have no order");
	require(!wanted.with_keys || (wanted.is_range && wanted.map_pages == 0 && !wanted.by_block),
			"only hits of ranges have keys, without a map and in no order");
	if (client.index == nullptr)
		client.reply.status = HP_UNKNOWN;
	else if (wanted.zones != client.index->zones_number)
		client.reply.status = HP_OTHER_ZONES;
	return client.reply.status == HP_OK;
}

/* Search for the next piece of a batch. */
HpStatus
Service::search(Worker &worker, Client &client, Copy *copy)
{
	const HpSearch &wanted = client.request.search;
	const Staging &staging = client.staging;
	HdBatch		batch = {};
	HpStatus	found;

	batch.low = staging.at(wanted.low_at, wanted.count, (size_t) copy->of->width);
	if (wanted.is_range)
		batch.high = staging.at(wanted.high_at, wanted.count, (size_t) copy->of->width);
	if (!wanted.tids_only)
		batch.probes = (uint32_t *) staging.at(wanted.probes_at, wanted.room, sizeof(uint32_t));
	batch.tids = (uint64_t *) staging.at(wanted.tids_at, wanted.room, sizeof(uint64_t));
	if (wanted.with_keys)
		batch.keys = staging.at(wanted.keys_at, wanted.room, (size_t) copy->of->width);
	if (wanted.map_pages > 0)
		batch.map = (const uint32_t *) staging.at(wanted.map_at, ((uint64_t) wanted.map_pages + 31) / 32,
												  sizeof(uint32_t));
	if (wanted.map_pages > 0 && !wanted.tids_only)
		batch.counts = (uint32_t *) staging.at(wanted.counts_at, wanted.count, sizeof(uint32_t));
	batch.map_pages = wanted.map_pages;
	batch.by_block = wanted.by_block;
	batch.count = wanted.count;
	batch.room = wanted.room;
	batch.output = HD_PAIRS;
	batch.distinct = wanted.distinct;
	batch.psa_bits = HD_AUTOMATIC;
	batch.threads = HD_AUTOMATIC;
	batch.pinned = staging.is_pinned();
	batch.timed = true;
	found = search_piece(worker, client, copy, batch);
	return found == HP_OK && !client.unfinished && client.progress.found.hits > wanted.room ? HP_NO_ROOM : found;
}

/* Drop the copies of an index.  Returns the devices that have to free them. */
DeviceSet
Service::drop(Client &client)
{
	DeviceSet	holders = client.index != nullptr ? client.index->holders : 0;

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

/* End the client's sync, if it is in one.  Without "keep" the copies are dropped. */
void
Service::end_sync(Client &client, bool keep)
{
	IndexPointer index = client.sync;

	if (index == nullptr)
		return;
	client.sync = nullptr;
	index->in_sync = false;
	if (!keep)
		drop_index(index);
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
		reply->blocks = blocks_of(*index);
		reply->free_blocks = UINT32_MAX;
		for (const Device &device : devices)
		{
			const CopiedIndex::Held &held = index->held[device.number];

			if ((index->holders & set_of(device.number)) == 0)
				continue;
			reply->free_blocks = std::min(reply->free_blocks, held.free_blocks);
			reply->blocks_max = std::max(reply->blocks_max, held.blocks_max);
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
		auto		first = device;
		int			same = 0;

		for (; device != devices.end() && strcmp(device->info.name, first->info.name) == 0; device++)
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
	HpReply		reply = {};

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

}								/* namespace harmonia */
