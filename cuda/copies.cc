/*
 * copies.cc
 *		Keeps copies of indexes within the memory allowed.
 */
#include "copies.h"

#include <algorithm>
#include <new>

namespace harmonia
{

static_assert(HP_LINE_SIZE == HD_LINE_SIZE, "lines are written as they come");
static_assert(HP_MAX_BLOCKS <= HD_MAX_LEAVES, "any list of leaves will do");

/* Empty copies take no device memory; this limits their number. */
static constexpr size_t copies_max = 4096;

/*
 * What a copy needs beside its blocks and inner levels, for these grow in steps: a share of the
 * memory.
 */
static constexpr uint64_t margin_share = 128;

/*
 * So many blocks of the host's memory, 256 MB, are got at a time: in about 0.1 s, as the system
 * clears the memory.  A copy that grows gets this share more than it needs.
 */
static constexpr uint32_t host_step = 1 << 15;
static constexpr uint32_t host_spare_share = 64;

/* At least what inner levels take for each leaf, if there are many. */
static uint64_t
leaf_levels_memory(const Copy *copy)
{
	return 2 * (uint64_t) copy->of->width + sizeof(uint32_t);
}

Copies::Copies(const std::vector<HdDevice *> &on, int device_number, uint64_t limit_bytes,
			   Indexes &all_indexes)
	: lane_count(on.size()), device(on.front()), number(device_number), indexes(all_indexes),
	  limit(limit_bytes)
{
	HdInfo info;

	for (size_t i = 0; i < lane_count; i++)
		lanes[i].device = on[i];
	if (hd_device_info(device, &info) != HD_OK)
		return;
	maps_host = info.maps_host;

	/* Keep a tenth for the memory of batches. */
	if (limit == 0)
	{
		batch_limit = info.memory / 10;
		limit = info.memory - batch_limit;
	}
}

Copies::~Copies()
{
	for (const Copy &copy : all)
		hd_index_free(copy.index);
}

Copy *
Copies::find(const IndexPointer &index)
{
	for (Copy &copy : all)
	{
		if (copy.of == index)
			return &copy;
	}
	return nullptr;
}

HdStatus
Copies::create(const IndexPointer &index, Copy **copy)
{
	HdIndex *made;
	HdStatus status = hd_index_create(device, index->width, index->fanout, &made);

	too_large = false;
	if (status != HD_OK)
		return status;
	try
	{
		all.emplace_front();
	}
	catch (const std::bad_alloc &)
	{
		hd_index_free(made);
		throw;
	}
	*copy = &all.front();
	(*copy)->index = made;
	(*copy)->of = index;
	forced = true;
	if (all.size() > copies_max)
		evict(*copy);
	return HD_OK;
}

/* Free the memory of a copy, whose index has been told before. */
void
Copies::free_copy(const Copy *copy)
{
	uint64_t host_memory = hd_index_host_memory(copy->index);

	hd_index_free(copy->index);
	all.remove_if([copy](const Copy &one) { return &one == copy; });

	std::lock_guard<std::mutex> guard(indexes.lock);

	indexes.host.taken -= host_memory;
}

void
Copies::sweep()
{
	std::vector<const Copy *> left;

	{
		std::lock_guard<std::mutex> guard(indexes.lock);

		for (const Copy &copy : all)
		{
			if ((copy.of->holders & set_of(number)) == 0)
				left.push_back(&copy);
		}
	}
	for (const Copy *copy : left)
		free_copy(copy);
}

CopiedIndex::Held
Copies::held(const Copy *copy) const
{
	uint64_t forced_blocks = (limit + host_share(copy)) / (HT_PAGE_SIZE + leaf_levels_memory(copy));

	return {copy->blocks, (uint32_t) std::min(forced_blocks, (uint64_t) HP_MAX_BLOCKS),
			hd_index_memory(copy->index), hd_index_host_memory(copy->index)};
}

uint64_t
Copies::memory() const
{
	uint64_t sum = 0;

	for (const Copy &copy : all)
		sum += hd_index_memory(copy.index);
	return sum;
}

/* Does another device have a copy, too, that can be searched?  The caller holds the lock. */
bool
Copies::is_spare(const Copy &copy) const
{
	return !copy.of->in_sync && (copy.of->holders & ~set_of(number)) != 0;
}

/* The memory of "kept", and of all copies that must not be evicted for it. */
uint64_t
Copies::staying_memory(const Copy *kept) const
{
	uint64_t sum = 0;
	std::lock_guard<std::mutex> guard(indexes.lock);

	for (const Copy &copy : all)
	{
		if (&copy == kept || copy.of->in_sync || (!forced && !is_spare(copy)))
			sum += hd_index_memory(copy.index);
	}
	return sum;
}

/*
 * Evict the least recently used copy that another device has, too; with force also of others.  Not
 * "kept", and none that is in a sync.  Returns false if there is none.
 */
bool
Copies::evict(const Copy *kept)
{
	const Copy *victim = nullptr;

	{
		std::lock_guard<std::mutex> guard(indexes.lock);
		bool victim_spare = false;

		for (const Copy &copy : all)
		{
			bool spare = is_spare(copy);

			if (&copy == kept || copy.of->in_sync || (!spare && !forced))
				continue;
			if (victim != nullptr &&
				(spare == victim_spare ? copy.of->used >= victim->of->used : victim_spare))
				continue;
			victim = &copy;
			victim_spare = spare;
		}
		if (victim == nullptr)
			return false;
		indexes.leave(victim->of, number, true);
	}
	free_copy(victim);
	return true;
}

/*
 * Leave a copy to another device that has it, and has room for so many blocks.  Returns false if
 * there is none.
 */
bool
Copies::give_way(const Copy *copy, uint32_t blocks)
{
	CopiedIndex &index = *copy->of;
	std::lock_guard<std::mutex> guard(indexes.lock);

	for (int other = 0; other < HD_MAX_DEVICES; other++)
	{
		if (other == number || (index.holders & set_of(other)) == 0 ||
			index.held[other].blocks_forced < blocks)
			continue;
		indexes.leave(copy->of, number, false);
		return true;
	}
	return false;
}

template <typename Action>
HdStatus
Copies::with_place(Copy *copy, uint32_t blocks, Action action)
{
	HdStatus status;

	forced = false;
	status = action();
	if (status != HD_NO_MEMORY || give_way(copy, blocks))
		return status;
	forced = true;
	return action();
}

/* Free what lanes other than the first one keep for batches.  Returns false if that is nothing. */
bool
Copies::free_other_lanes()
{
	bool freed = false;

	for (size_t i = 1; i < lane_count; i++)
	{
		if (hd_device_batch_memory(lanes[i].device) == 0)
			continue;
		hd_device_free_batch_memory(lanes[i].device);
		note_batch_memory(lanes[i]);
		freed = true;
	}
	return freed;
}

/*
 * The device has no memory left: free some, of other lanes' batches, or else of a copy.  Returns
 * false if there is none.
 */
bool
Copies::relieve(const Copy *kept)
{
	return free_other_lanes() || evict(kept);
}

void
Copies::note_batch_memory(Lane &lane)
{
	lane.batch_memory = hd_device_batch_memory(lane.device);
}

/* What all lanes keep for batches; of those that search, what they kept before. */
uint64_t
Copies::batch_memory() const
{
	uint64_t sum = 0;

	for (size_t i = 0; i < lane_count; i++)
		sum += lanes[i].batch_memory;
	return sum;
}

/* Free the memory of batches if, with this much more for copies, it is not allowed. */
void
Copies::free_batch_memory(uint64_t more)
{
	note_batch_memory(lanes[0]);
	if (memory() + more + batch_memory() > limit + batch_limit)
		free_other_lanes();
	if (memory() + more + batch_memory() > limit + batch_limit)
		hd_device_free_batch_memory(device);
	note_batch_memory(lanes[0]);
}

/*
 * Make room for this much more memory of a copy.  Returns false if there is not enough; then
 * nothing is evicted, as that could not have helped.
 */
bool
Copies::make_room(const Copy *kept, uint64_t more)
{
	if (staying_memory(kept) + more > limit)
		return false;
	free_batch_memory(more);
	while (memory() + more > limit)
	{
		if (!evict(kept))
			return false;
	}
	return true;
}

template <typename Action>
HdStatus
Copies::with_memory(const Copy *copy, uint64_t more, Action action)
{
	HdStatus status;

	too_large = !make_room(copy, more);
	if (too_large)
		return HD_NO_MEMORY;
	do
		status = action();
	while (status == HD_NO_MEMORY && relieve(copy));
	note_batch_memory(lanes[0]);
	return status;
}

/*
 * What other copies leave of the device's memory, or half of it, without what inner levels need to
 * grow.  Those that another device has, too, can leave all of theirs.
 */
uint64_t
Copies::device_share(const Copy *copy) const
{
	uint64_t others = 0;

	{
		std::lock_guard<std::mutex> guard(indexes.lock);

		for (const Copy &other : all)
		{
			if (&other != copy && !is_spare(other))
				others += hd_index_memory(other.index);
		}
	}

	uint64_t share = std::max(limit - std::min(limit, others), limit / 2);

	return share - share / margin_share;
}

/* What other copies leave of the host's memory. */
uint64_t
Copies::host_share(const Copy *copy) const
{
	std::lock_guard<std::mutex> guard(indexes.lock);
	uint64_t others = indexes.host.taken - hd_index_host_memory(copy->index);

	return maps_host ? indexes.host.limit - std::min(indexes.host.limit, others) : 0;
}

/* The memory that the inner levels over this many leaves take, about. */
static uint64_t
levels_memory(const CopiedIndex &index, uint32_t leaves)
{
	uint64_t keys = leaves;

	for (uint64_t level = leaves; level > 1; keys += level)
		level = (level + (uint64_t) index.fanout - 1) / (uint64_t) index.fanout;
	return keys * (uint64_t) index.width + leaves * sizeof(uint32_t);
}

/* Returns false if another device has been faster. */
static bool
take_host_memory(Indexes &indexes, uint64_t bytes)
{
	std::lock_guard<std::mutex> guard(indexes.lock);

	if (indexes.host.taken + bytes > indexes.host.limit)
		return false;
	indexes.host.taken += bytes;
	return true;
}

static void
return_host_memory(Indexes &indexes, uint64_t bytes, bool is_all)
{
	std::lock_guard<std::mutex> guard(indexes.lock);

	indexes.host.taken -= bytes;
	if (is_all)
		indexes.host.limit = indexes.host.taken;
}

/*
 * Get a part of the host's memory.  If there is less than is allowed, no more is asked for later.
 */
HdStatus
Copies::reserve_on_host(Copy *copy, uint32_t blocks)
{
	uint32_t share = (uint32_t) std::min(host_share(copy) / HT_PAGE_SIZE, (uint64_t) HP_MAX_BLOCKS);
	uint32_t have = (uint32_t) (hd_index_host_memory(copy->index) / HT_PAGE_SIZE);
	uint32_t wanted = std::min(blocks - copy->blocks, host_step);
	HdStatus status;

	too_large = wanted > share - std::min(share, have);
	if (too_large)
		return HD_NO_MEMORY;
	wanted = std::min({std::max(wanted, blocks / host_spare_share), share - have, host_step});
	if (!take_host_memory(indexes, (uint64_t) wanted * HT_PAGE_SIZE))
		return HD_NO_MEMORY;
	status = hd_index_reserve(copy->index, copy->blocks + wanted, true);
	if (status == HD_OK)
		copy->blocks += wanted;
	else
		return_host_memory(indexes, (uint64_t) wanted * HT_PAGE_SIZE, status == HD_NO_MEMORY);
	return status;
}

/*
 * Make room on the device for as many blocks as it can have of so many, and then on the host.  From
 * then on the copy grows there: to make room on the device has evicted others, which come back.
 */
HdStatus
Copies::reserve_with_host(Copy *copy, uint32_t blocks)
{
	uint64_t share = device_share(copy);
	uint64_t for_blocks = share - std::min(share, blocks * leaf_levels_memory(copy));
	uint32_t on_device = (uint32_t) std::min(for_blocks / HT_PAGE_SIZE, (uint64_t) blocks);

	if (hd_index_host_memory(copy->index) == 0 && on_device > copy->blocks)
	{
		HdStatus status =
			with_memory(copy, (uint64_t) (on_device - copy->blocks) * HT_PAGE_SIZE,
						[&] { return hd_index_reserve(copy->index, on_device, false); });

		if (status != HD_OK)
			return status;
		copy->blocks = on_device;
	}
	return copy->blocks < blocks ? reserve_on_host(copy, blocks) : HD_OK;
}

/*
 * Growing may move the copy, which takes the memory of the old and the new allocation for
 * a while.  So reserve an eighth more, if that fits without an eviction.
 */
HdStatus
Copies::reserve_blocks(Copy *copy, uint32_t blocks)
{
	uint32_t generous = blocks + std::min(blocks / 8, UINT32_MAX - blocks);
	uint64_t needed = (uint64_t) blocks * HT_PAGE_SIZE + levels_memory(*copy->of, blocks);
	HdStatus status = HD_NO_MEMORY;

	too_large = blocks > HP_MAX_BLOCKS;
	if (!too_large && host_share(copy) > 0 && needed > device_share(copy))
		return forced ? reserve_with_host(copy, blocks) : HD_NO_MEMORY;

	/* The inner levels must fit, too, before anything is evicted or sent. */
	too_large |= needed > limit;
	if (too_large)
		return HD_NO_MEMORY;
	if (memory() + (uint64_t) (generous - copy->blocks) * HT_PAGE_SIZE <= limit)
		status = hd_index_reserve(copy->index, generous, false);
	if (status == HD_OK)
	{
		copy->blocks = generous;
		free_batch_memory(0);
	}
	if (status != HD_NO_MEMORY)
		return status;

	status = with_memory(copy, (uint64_t) (blocks - copy->blocks) * HT_PAGE_SIZE,
						 [&] { return hd_index_reserve(copy->index, blocks, false); });
	if (status == HD_OK)
		copy->blocks = blocks;
	return status;
}

HdStatus
Copies::reserve(Copy *copy, uint32_t blocks)
{
	return blocks <= copy->blocks ?
			   HD_OK :
			   with_place(copy, blocks, [&] { return reserve_blocks(copy, blocks); });
}

HdStatus
Copies::write_pages(Copy *copy, const uint32_t *numbers, const void *pages, uint32_t count)
{
	return with_place(copy, copy->blocks,
					  [&]
					  {
						  return with_memory(
							  copy, 0,
							  [&] { return hd_index_write(copy->index, numbers, pages, count); });
					  });
}

HdStatus
Copies::write_lines(Copy *copy, const uint32_t *numbers, const void *lines, uint32_t count)
{
	return with_place(
		copy, copy->blocks,
		[&]
		{
			return with_memory(
				copy, 0, [&] { return hd_index_write_lines(copy->index, numbers, lines, count); });
		});
}

/* The size of the inner levels is only known afterwards, so check the limit again. */
template <typename Action>
HdStatus
Copies::with_levels(Copy *copy, Action action)
{
	return with_place(copy, copy->blocks,
					  [&]
					  {
						  HdStatus status = with_memory(copy, 0, action);

						  return status == HD_OK ? with_memory(copy, 0, [] { return HD_OK; }) :
												   status;
					  });
}

HdStatus
Copies::set_leaves(Copy *copy, const std::vector<HdLeaf> &leaves)
{
	return with_levels(
		copy,
		[&] { return hd_index_set_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::set_leaves(Copy *copy, const std::vector<HdWideLeaf> &leaves)
{
	return with_levels(
		copy, [&]
		{ return hd_index_set_wide_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::add_leaves(Copy *copy, const std::vector<HdNewLeaf> &leaves)
{
	return with_levels(
		copy,
		[&] { return hd_index_add_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::add_leaves(Copy *copy, const std::vector<HdWideNewLeaf> &leaves)
{
	return with_levels(
		copy, [&]
		{ return hd_index_add_wide_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::search_alone(Copy *copy, const HdBatch &batch, HdResult *result)
{
	HdStatus status;

	too_large = false;
	forced = true;
	free_other_lanes();
	do
		status = hd_index_search(copy->index, &batch, result);
	while (status == HD_NO_MEMORY && evict(copy));
	free_batch_memory(0);
	return status;
}

/*
 * A lane has searched beside others: has the device, or is it allowed, less memory than all lanes'
 * batches take?  Others may search, so a lane frees no memory but its own.  That of others is freed
 * when the next search is made alone; then the device keeps what it would keep with one lane.
 */
bool
Copies::is_crowded(Lane &lane, HdStatus status)
{
	note_batch_memory(lane);
	if (status != HD_NO_MEMORY && memory() + batch_memory() <= limit + batch_limit)
		return false;
	hd_device_free_batch_memory(lane.device);
	note_batch_memory(lane);
	return true;
}

HdStatus
Copies::search(int lane, const Copy *copy, const HdBatch &batch, HdResult *result, bool *crowded)
{
	HdStatus status = hd_index_search_on(lanes[lane].device, copy->index, &batch, result);

	*crowded = is_crowded(lanes[lane], status);
	return status;
}

HdStatus
Copies::search_together(int lane, const Copy *copy, const HdBatch *batches, int count,
						HdResult *results, bool *crowded)
{
	HdStatus status =
		hd_index_search_together(lanes[lane].device, copy->index, batches, count, results);

	*crowded = is_crowded(lanes[lane], status);
	return status;
}

} /* namespace harmonia */
