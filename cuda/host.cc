/*
 * host.cc
 *		The host device: the traversal of search.h on the CPU.
 *
 * It is meant to be correct, not fast. src/tree searches faster on CPUs.
 */
#include "device_base.h"
#include "ranges.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <unistd.h>

using namespace harmonia;

namespace
{

double
now_ms()
{
	return std::chrono::duration<double, std::milli>(
			   std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

/* Thrown if the result of a sort is no longer wanted. */
struct Abandoned
{
};

/* Counts the steps of a sort, and ticks now and then. */
struct Steps
{
	HdTicker &ticker;
	uint32_t count = 0;

	void step()
	{
		if (++count % 16384 == 0 && ticker.gives_up())
			throw Abandoned();
	}
};

struct HostDevice : HdDevice
{
	HostDevice() : HdDevice(HD_HOST)
	{
	}
	HdStatus open(int number) override;
	HdStatus info(HdInfo *result) override;
	HdStatus pin(void *, size_t) override
	{
		return HD_OK;
	}
	HdStatus unpin(void *) override
	{
		return HD_OK;
	}
	HdIndex *create_index() override;
};

struct HostIndex : HdIndex
{
	char *pages = nullptr;
	void *allocated = nullptr; /* the pages are in it, aligned */

	~HostIndex() override
	{
		free(allocated);
	}
	HdStatus reserve(uint32_t blocks, bool on_host) override;
	HdStatus write(const uint32_t *numbers, const char *from, uint32_t count, size_t size) override;
	HdStatus load_levels(uint32_t) override
	{
		return HD_OK;
	}
	uint64_t levels_memory() const override
	{
		return keys.size() + leaf_blocks.size() * sizeof(uint32_t);
	}
	HdStatus search(const HdBatch &batch, const SortPlan &plan, HdResult *result) override;

	template <typename Key>
	void sort_and_search(const HdBatch &batch, const SortPlan &plan, HdTicker &ticker,
						 HdResult *result);
};

HdStatus
HostDevice::open(int number)
{
	return number >= 0 && number < HD_MAX_DEVICES ?
			   HD_OK :
			   fail(HD_UNSUPPORTED, "there is no host device %d", number);
}

HdStatus
HostDevice::info(HdInfo *result)
{
	uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);

	strcpy(result->name, "host");
	result->memory = (uint64_t) sysconf(_SC_PHYS_PAGES) * page;
	result->memory_free = (uint64_t) sysconf(_SC_AVPHYS_PAGES) * page;
	result->maps_host = true;
	return HD_OK;
}

HdIndex *
HostDevice::create_index()
{
	return new HostIndex;
}

/* All memory is the host's, so where blocks are makes no difference but in what is counted. */
HdStatus
HostIndex::reserve(uint32_t blocks, bool)
{
	size_t space = ((size_t) blocks + 1) * HT_PAGE_SIZE;
	void *more = calloc(space, 1);
	void *aligned = more;

	if (more == nullptr)
		return device->fail(HD_NO_MEMORY, "out of memory for %u blocks", blocks);
	std::align(HT_PAGE_SIZE, (size_t) blocks * HT_PAGE_SIZE, aligned, space);
	if (reserved > 0)
		memcpy(aligned, pages, (size_t) reserved * HT_PAGE_SIZE);
	free(allocated);
	allocated = more;
	pages = (char *) aligned;
	return HD_OK;
}

HdStatus
HostIndex::write(const uint32_t *numbers, const char *from, uint32_t count, size_t size)
{
	for (uint32_t i = 0; i < count; i++)
		memcpy(pages + (size_t) numbers[i] * size, from + (size_t) i * size, size);
	return HD_OK;
}

template <typename Key>
Key
read_once(const Key *key)
{
	return *(const volatile Key *) key;
}

Wide
read_once(const Wide *key)
{
	Wide result;

	for (int i = 0; i < 2; i++)
		result.words[i] = ((const volatile uint64_t *) key->words)[i];
	return result;
}

/*
 * Searches for points by the bounds of a leaf's blocks, as tiles do on a GPU (gpu_tile.cuh).  Here
 * the leaf is the one that the point before led to, if that is the same.
 */
template <typename Key> struct HostStage
{
	static constexpr int stride = 64;
	bool filled = false;
	uint32_t rank = 0;
	const char *page = nullptr;
	Shape<Key> shape = {};
	Key bounds[stride];

	Found search(const Tree<Key> &tree, Key key)
	{
		HostGroup<1> group;
		uint32_t leaf = find_leaf<0>(group, tree, key);
		int block;

		if (!filled || leaf != rank)
		{
			filled = true;
			rank = leaf;
			page = tree.pages + (size_t) tree.blocks[rank] * HT_PAGE_SIZE;
			shape = read_shape<Key>(page);
			for (int i = 0; i < stride; i++)
				bounds[i] = block_bound(
					page, shape, i, rank + 1 < tree.leaves ? leaf_bounds(tree)[rank] : (Key) -1);
		}
		block = find_child<stride>(group, bounds, stride, key);
		return bounds[block] == key ? find_summary_from(group, tree, rank, key) :
									  find_in_block(page, shape, LeafBlock{rank, block}, key);
	}
};

/* The search of one batch. */
template <typename Key> class HostSearch
{
  public:
	HostSearch(const Tree<Key> &searched, const HdBatch &of, HdTicker &on, HdResult *to)
		: tree(searched), batch(of), map{of.map, of.map_pages}, ticker(on), result(to),
		  seen(of.distinct ? count_slots(searched.leaves) : 0)
	{
		if (batch.map_pages > 0 && batch.probes != nullptr)
			memset(batch.counts, 0, batch.count * sizeof(uint32_t));
	}

	void search(const std::vector<uint32_t> &order)
	{
		const Key *low = (const Key *) batch.low;
		const Key *high = (const Key *) batch.high;

		for (uint32_t probe : order)
		{
			if (ticker.gives_up())
				return;

			/* Read each key once: the owner of the memory may change it at any time. */
			if (high == nullptr)
				search_point(probe, read_once(&low[probe]));
			else
				search_range(probe, read_once(&low[probe]), read_once(&high[probe]));
		}
	}

  private:
	const Tree<Key> tree;
	const HdBatch &batch;
	const PageMap map;
	HdTicker &ticker;
	HdResult *result;
	HostGroup<1> group;
	HostStage<Key> stage;
	std::vector<bool> seen; /* distinct points: a bit for each slot of all leaves */

	/* Wide keys are searched as a GPU does in batches that are not sorted. */
	Found find_point(Key key)
	{
		if (result->threads > 1)
			return with_threads(result->threads,
								[&](auto constant) {
									return find_summary<0>(
										FrontToBack<HostGroup<decltype(constant)::value>>(), tree,
										key);
								});
		if constexpr (!is_wide<Key>)
		{
			if (tree.leaves > 0)
				return stage.search(tree, key);
		}
		return tree.fanout == HD_DEFAULT_FANOUT ?
				   find_summary<HD_DEFAULT_FANOUT>(group, tree, key) :
				   find_summary<0>(group, tree, key);
	}

	void search_point(uint32_t probe, Key key)
	{
		Found found = find_point(key);

		if (found.count == 0)
			return;
		if (batch.distinct)
		{
			std::vector<bool>::reference slot =
				seen[number_of_slot(group, tree, found.first_block, key)];

			if (slot)
				return;
			slot = true;
		}
		find_hits(group, tree, found.first_block, key,
				  [&](uint64_t, uint64_t tid) { put(probe, tid, key); });
	}

	void search_range(uint32_t probe, Key low, Key high)
	{
		PlaceSpan places = tree.fanout == HD_DEFAULT_FANOUT ?
							   find_places<HD_DEFAULT_FANOUT>(group, tree, low, high) :
							   find_places<0>(group, tree, low, high);

		for (uint32_t i = 0; i < places.count && !ticker.gives_up(); i++)
		{
			uint32_t place = places.first + i;
			LeafPage<Key> leaf = read_leaf(tree, place / leaf_places);
			LeafBlocks blocks = blocks_of(leaf);
			const char *block = blocks.block(place % leaf_places);
			uint32_t set = (UINT32_C(1) << blocks.count(place % leaf_places)) - 1;

			if (i == 0 || i + 1 == places.count)
				set = find_slots_at(group, TreeLeaves<Key>{tree}, place, low, high).set;
			for (; set != 0; set &= set - 1)
				put(probe, load_tid(block, blocks.tids_at, blocks.tid_bytes, lowest_bit(set)),
					batch.keys != nullptr ? load_key(leaf.shape, block, lowest_bit(set)) : Key(0));
		}
	}

	/* Give a hit to the batch, or count it. */
	void put(uint32_t probe, uint64_t tid, Key key)
	{
		uint64_t at = result->hits++;

		if (at >= batch.room)
			return;
		if (batch.keys != nullptr)
			((Key *) batch.keys)[at] = key;
		if (map.counts(tid))
		{
			result->counted++;
			if (batch.probes != nullptr)
				batch.counts[probe]++;
			return;
		}
		if (batch.probes != nullptr)
			batch.probes[at - result->counted] = probe;
		batch.tids[at - result->counted] = tid;
	}
};

/* The order in which probes are searched. */
template <typename Key>
static std::vector<uint32_t>
sort_probes(const HdBatch &batch, const SortPlan &plan, HdTicker &ticker)
{
	const Key *low = (const Key *) batch.low;
	Key base = (Key) plan.base;
	uint64_t mask = plan.bits == 64 ? UINT64_MAX : (UINT64_C(1) << plan.bits) - 1;
	std::vector<uint32_t> order(batch.count);
	std::vector<uint64_t> digits(plan.bits > 0 ? batch.count : 0);
	Steps steps = {ticker};

	std::iota(order.begin(), order.end(), 0);
	if (plan.bits == 0)
		return order;

	/* Read each key once, so that the owner cannot confuse the sort by changing it. */
	for (uint32_t i = 0; i < batch.count; i++)
	{
		steps.step();
		digits[i] = (uint64_t) ((Key) (low[i] - base) >> plan.first_bit) & mask;
	}
	std::stable_sort(order.begin(), order.end(),
					 [&](uint32_t a, uint32_t b)
					 {
						 steps.step();
						 return digits[a] < digits[b];
					 });
	return order;
}

template <typename Key>
void
HostIndex::sort_and_search(const HdBatch &batch, const SortPlan &plan, HdTicker &ticker,
						   HdResult *result)
{
	double start = now_ms();
	std::vector<uint32_t> order = sort_probes<Key>(batch, plan, ticker);
	double sorted = now_ms();
	Tree<Key> searched = tree<Key>();

	searched.pages = pages;
	searched.keys = (const Key *) keys.data();
	searched.blocks = leaf_blocks.data();
	searched.stop = &ticker;
	HostSearch<Key>(searched, batch, ticker, result).search(order);
	result->sort_ms = sorted - start;
	result->search_ms = now_ms() - sorted;
}

/*
 * Sort the hits of a batch by heap block.  The owner of the memory may change it at any time,
 * so they are sorted elsewhere.
 */
void
sort_by_block(const HdBatch &batch, uint64_t count, HdTicker &ticker)
{
	Steps steps = {ticker};
	std::vector<HtHit> hits(count);

	for (uint64_t i = 0; i < count; i++)
		hits[i] = {batch.tids[i], batch.probes[i], 0};
	std::stable_sort(hits.begin(), hits.end(),
					 [&](const HtHit &a, const HtHit &b)
					 {
						 steps.step();
						 return a.tid >> 16 < b.tid >> 16;
					 });
	for (uint64_t i = 0; i < count; i++)
	{
		batch.tids[i] = hits[i].tid;
		batch.probes[i] = hits[i].probe;
	}
}

HdStatus
HostIndex::search(const HdBatch &batch, const SortPlan &plan, HdResult *result)
{
	HdDevice *lane = HdDevice::entered;
	HdTicker ticker(lane);

	try
	{
		if (shape.width == HT_WIDTH32)
			sort_and_search<uint32_t>(batch, plan, ticker, result);
		else if (shape.width == HT_WIDTH64)
			sort_and_search<uint64_t>(batch, plan, ticker, result);
		else
			sort_and_search<Wide>(batch, plan, ticker, result);
		if (batch.by_block && result->hits <= batch.room && !ticker.gives_up())
			sort_by_block(batch, result->hits, ticker);
	}
	catch (const Abandoned &)
	{
		/* The ticker knows. */
	}
	if (ticker.gives_up())
		return lane->fail(HD_ABANDONED, "the search was abandoned");
	return HD_OK;
}

} /* namespace */

HdDevice *
hd_host_device()
{
	return new HostDevice;
}
