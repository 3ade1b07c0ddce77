/*
 * syncs.cc
 *		Syncs: clients bring the copies of an index up to date.  What a client sends is taken out of
 *		staging memory before it is checked.
 */
#include "service.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace harmonia
{

using std::chrono::steady_clock;

/* How many numbers of pages or lines are copied and checked at a time. */
static constexpr uint32_t numbers_max = 1 << 16;

/* Begin a sync, of an index that all devices are to have if it is new. */
void
Service::sync_begin(Client &client)
{
	const HpRequest &request = client.request;

	require(request.create <= 1, "flags must be 0 or 1");
	require(request.width == HT_WIDTH32 || request.width == HT_WIDTH64 ||
				request.width == HT_WIDTH128,
			"keys must have 32, 64 or 128 bits");
	require(request.fanout >= HT_MIN_FANOUT && request.fanout <= HT_MAX_FANOUT,
			"the fanout is out of range");
	if (client.index == nullptr && !request.create)
	{
		client.reply.status = HP_UNKNOWN;
		return;
	}
	if (client.index == nullptr)
	{
		client.index = indexes.create(request.index, (HtWidth) request.width, (int) request.fanout,
									  all_devices());
		client.reply.created = 1;
	}
	require(request.width == (uint32_t) client.index->width &&
				request.fanout == (uint32_t) client.index->fanout,
			"an index must keep its key width and fanout");
	client.index->in_sync = true;
	client.sync = client.index;
	last_sync = std::max(last_sync + 1, (uint64_t) steady_clock::now().time_since_epoch().count());
	client.reply.sync = last_sync;
}

/* A device's share of the beginning of a sync. */
HpStatus
Service::make_copy(Worker &worker, Client &client, Copy *copy)
{
	return copy == nullptr ? status(worker, worker.device.copies.create(client.index, &copy)) :
							 HP_OK;
}

/* Write pages or lines, depending on the size of an item. */
HpStatus
Service::sync_write(Worker &worker, Client &client, Copy *copy, size_t item)
{
	const HpRequest &request = client.request;
	const uint32_t *from =
		(const uint32_t *) client.staging.at(request.numbers_at, request.count, sizeof(uint32_t));
	const char *items = (const char *) client.staging.at(request.data_at, request.count, item);
	std::vector<uint32_t> numbers(std::min(request.count, numbers_max));
	HdStatus written = HD_OK;

	for (uint64_t first = 0; first < request.count && written == HD_OK; first += numbers_max)
	{
		uint32_t n = (uint32_t) std::min(request.count - first, (uint64_t) numbers_max);

		memcpy(numbers.data(), from + first, n * sizeof(uint32_t));
		written =
			item == HP_LINE_SIZE ?
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
	*to = {narrow_bound(leaf.low), leaf.is_last ? HtEntry{} : narrow_bound(leaf.high), leaf.block,
		   leaf.is_last};
}

static void
wide_leaf(const HpLeaf &leaf, HdWideLeaf *to)
{
	*to = {{leaf.low.key[0], leaf.low.key[1]}, leaf.low.tid, leaf.block};
}

static void
wide_leaf(const HpNewLeaf &leaf, HdWideNewLeaf *to)
{
	*to = {{leaf.low.key[0], leaf.low.key[1]},
		   leaf.low.tid,
		   {leaf.high.key[0], leaf.high.key[1]},
		   leaf.high.tid,
		   leaf.block,
		   leaf.is_last};
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

/* Copy leaves out of staging memory, then check each and convert it. */
template <typename Leaf, typename From>
static std::vector<Leaf>
take_leaves(const From *from, uint32_t count, void (*convert)(const From &, Leaf *))
{
	std::vector<Leaf> leaves(count);

	for (uint32_t i = 0; i < count; i++)
	{
		From leaf = from[i];

		check_leaf(leaf);
		convert(leaf, &leaves[i]);
	}
	return leaves;
}

HpStatus
Service::sync_leaves(Worker &worker, Client &client, Copy *copy)
{
	const HpRequest &request = client.request;
	const HpLeaf *from =
		(const HpLeaf *) client.staging.at(request.data_at, request.count, sizeof(HpLeaf));

	require(request.count <= copy->blocks, "there must not be more leaves than blocks");
	if (copy->of->width > HT_WIDTH64)
		return status(worker, worker.device.copies.set_leaves(
								  copy, take_leaves<HdWideLeaf>(from, request.count, wide_leaf)));
	return status(worker, worker.device.copies.set_leaves(
							  copy, take_leaves<HdLeaf>(from, request.count, narrow_leaf)));
}

HpStatus
Service::sync_new_leaves(Worker &worker, Client &client, Copy *copy)
{
	const HpRequest &request = client.request;
	const HpNewLeaf *from =
		(const HpNewLeaf *) client.staging.at(request.data_at, request.count, sizeof(HpNewLeaf));

	require(request.count <= copy->blocks, "there must not be more leaves than blocks");
	if (copy->of->width > HT_WIDTH64)
		return status(worker,
					  worker.device.copies.add_leaves(
						  copy, take_leaves<HdWideNewLeaf>(from, request.count, wide_leaf)));
	return status(worker, worker.device.copies.add_leaves(
							  copy, take_leaves<HdNewLeaf>(from, request.count, narrow_leaf)));
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

} /* namespace harmonia */
