/*
 * copies.cc
 *		Keeps copies of indexes within the memory allowed.
 */
#include "copies.h"

#include <algorithm>
#include <new>

namespace harmonia
{

static_assert(sizeof(HpIndexName) == 24, "names are compared byte by byte");
static_assert(HP_LINE_SIZE == HD_LINE_SIZE, "lines are written as they come");

/* Empty copies take no device memory; this limits their number. */
static constexpr size_t copies_max = 4096;

Copies::Copies(HdDevice *on, uint64_t limit_bytes) : device(on), limit(limit_bytes)
{
	HdInfo		info;

	/* Keep a tenth for the memory of batches. */
	if (limit == 0 && hd_device_info(device, &info) == HD_OK)
	{
		batch_limit = info.memory / 10;
		limit = info.memory - batch_limit;
	}
}

Copies::~Copies()
{
	drop_all();
}

Copy *
Copies::find(const HpIndexName &name)
{
	auto		found = all.find(name);

	if (found == all.end())
		return nullptr;
	found->second.used = ++clock;
	return &found->second;
}

HdStatus
Copies::create(const HpIndexName &name, HtWidth width, int fanout, Copy **copy)
{
	Copy		made = {};
	HdStatus	status = hd_index_create(device, width, fanout, &made.index);

	too_large = false;
	if (status != HD_OK)
		return status;
	made.width = width;
	made.fanout = fanout;
	made.used = ++clock;
	try
	{
		*copy = &all.emplace(name, made).first->second;
	}
	catch (const std::bad_alloc &)
	{
		hd_index_free(made.index);
		throw;
	}
	if (all.size() > copies_max)
		evict(*copy);
	return HD_OK;
}

void
Copies::drop(const Copy *copy)
{
	for (auto i = all.begin(); i != all.end(); i++)
	{
		if (&i->second == copy)
		{
			hd_index_free(i->second.index);
			all.erase(i);
			return;
		}
	}
}

void
Copies::drop_all()
{
	for (auto &one : all)
		hd_index_free(one.second.index);
	all.clear();
}

uint64_t
Copies::memory() const
{
	uint64_t	sum = 0;

	for (const auto &one : all)
		sum += hd_index_memory(one.second.index);
	return sum;
}

/*
 * Evict the least recently used copy, but not "kept" and none that is in a sync.
 * Returns false if there is none.
 */
bool
Copies::evict(const Copy *kept)
{
	const Copy *oldest = nullptr;

	for (const auto &one : all)
	{
		if (&one.second != kept && !one.second.in_sync &&
			(oldest == nullptr || one.second.used < oldest->used))
			oldest = &one.second;
	}
	if (oldest == nullptr)
		return false;
	drop(oldest);
	evicted++;
	return true;
}

/* Free the memory of batches if, with this much more for copies, it is not allowed. */
void
Copies::free_batch_memory(uint64_t more)
{
	if (memory() + more + hd_device_batch_memory(device) > limit + batch_limit)
		hd_device_free_batch_memory(device);
}

/*
 * Make room for this much more memory of a copy.  Returns false if there is not enough; then
 * nothing is evicted if that could never have helped.
 */
bool
Copies::make_room(const Copy *kept, uint64_t more)
{
	if (hd_index_memory(kept->index) + more > limit)
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
	HdStatus	status;

	too_large = !make_room(copy, more);
	if (too_large)
		return HD_NO_MEMORY;
	do
		status = action();
	while (status == HD_NO_MEMORY && evict(copy));
	return status;
}

/* The memory that the inner levels over this many leaves take, about. */
static uint64_t
levels_memory(const Copy &copy, uint32_t leaves)
{
	uint64_t	keys = leaves;

	for (uint64_t level = leaves; level > 1; keys += level)
		level = (level + (uint64_t) copy.fanout - 1) / (uint64_t) copy.fanout;
	return keys * (uint64_t) copy.width + leaves * sizeof(uint32_t);
}

/*
 * Growing may move the copy, which takes the memory of the old and the new allocation for
 * a while.  So reserve an eighth more, if that fits without an eviction.
 */
HdStatus
Copies::reserve(Copy *copy, uint32_t blocks)
{
	uint32_t	generous = blocks + std::min(blocks / 8, UINT32_MAX - blocks);
	HdStatus	status = HD_NO_MEMORY;

	if (blocks <= copy->blocks)
		return HD_OK;

	/* The inner levels must fit, too, before anything is evicted or sent. */
	too_large = blocks > HP_MAX_BLOCKS ||
		(uint64_t) blocks * HT_PAGE_SIZE + levels_memory(*copy, blocks) > limit;
	if (too_large)
		return HD_NO_MEMORY;
	if (memory() + (uint64_t) (generous - copy->blocks) * HT_PAGE_SIZE <= limit)
		status = hd_index_reserve(copy->index, generous);
	if (status == HD_OK)
		copy->blocks = generous;
	if (status != HD_NO_MEMORY)
		return status;

	status = with_memory(copy, (uint64_t) (blocks - copy->blocks) * HT_PAGE_SIZE,
						 [&] { return hd_index_reserve(copy->index, blocks); });
	if (status == HD_OK)
		copy->blocks = blocks;
	return status;
}

HdStatus
Copies::write_pages(Copy *copy, const uint32_t *numbers, const void *pages, uint32_t count)
{
	return with_memory(copy, 0, [&] { return hd_index_write(copy->index, numbers, pages, count); });
}

HdStatus
Copies::write_lines(Copy *copy, const uint32_t *numbers, const void *lines, uint32_t count)
{
	return with_memory(copy, 0, [&] { return hd_index_write_lines(copy->index, numbers, lines, count); });
}

/* The size of the inner levels is only known afterwards, so check the limit again. */
template <typename Action>
HdStatus
Copies::with_levels(const Copy *copy, Action action)
{
	HdStatus	status = with_memory(copy, 0, action);

	return status == HD_OK ? with_memory(copy, 0, [] { return HD_OK; }) : status;
}

HdStatus
Copies::set_leaves(Copy *copy, const std::vector<HdLeaf> &leaves)
{
	return with_levels(copy, [&] { return hd_index_set_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::set_leaves(Copy *copy, const std::vector<HdWideLeaf> &leaves)
{
	return with_levels(copy, [&] { return hd_index_set_wide_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::add_leaves(Copy *copy, const std::vector<HdNewLeaf> &leaves)
{
	return with_levels(copy, [&] { return hd_index_add_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::add_leaves(Copy *copy, const std::vector<HdWideNewLeaf> &leaves)
{
	return with_levels(copy, [&] { return hd_index_add_wide_leaves(copy->index, leaves.data(), (uint32_t) leaves.size()); });
}

HdStatus
Copies::search(Copy *copy, const HdBatch &batch, HdResult *result)
{
	HdStatus	status;

	too_large = false;
	do
		status = hd_index_search(copy->index, &batch, result);
	while (status == HD_NO_MEMORY && evict(copy));
	free_batch_memory(0);
	return status;
}

}								/* namespace harmonia */
