/*
 * copies.h
 *		The copies of indexes that the daemon keeps on one of its devices.
 *
 * All copies together take no more memory than allowed; nor do they with what the device keeps for
 * batches, except during a search.  If a copy needs more, that is given back.  Then copies are
 * evicted that other devices have, too, the least recently used one first.  If that is not enough,
 * and another device has room for the copy that needs more, this device gives that copy up;
 * otherwise it evicts any others.  The same happens if the device runs out of memory.
 *
 * Where the host's memory is allowed, too, a copy that the device has no room for has its last
 * blocks there, unless another device has room for it.  Nothing is evicted for that.
 *
 * Searches may run at the same time, each on a lane of its own.  They change nothing, and neither
 * do functions that are const.  Any other function is called only while no lane uses the device: by
 * the thread that has the device for itself.  All are called without Indexes.lock, which they take
 * for a moment.
 */
#ifndef HARMONIA_CUDA_COPIES_H
#define HARMONIA_CUDA_COPIES_H

#include <atomic>
#include <list>
#include <vector>

#include "indexes.h"

namespace harmonia
{

struct Copy
{
	HdIndex *index;
	IndexPointer of;
	uint32_t blocks = 0; /* that it has room for */
};

class Copies
{
  public:
	/*
	 * The lanes are 1 to lanes_max; all changes are made on the first one.  limit_bytes 0: copies
	 * may take nearly all of the device's memory.  They may also take the host's, as far as
	 * all_indexes.host allows, if the device can map it.
	 */
	static constexpr size_t lanes_max = 8;
	Copies(const std::vector<HdDevice *> &on, int device_number, uint64_t limit_bytes,
		   Indexes &all_indexes);
	Copies(const Copies &) = delete;
	Copies &operator=(const Copies &) = delete;
	~Copies();

	/* Find the copy of an index; NULL if there is none. */
	Copy *find(const IndexPointer &index);

	/*
	 * Create a copy without blocks.  There must be none of this index.  May throw
	 * bad_alloc.
	 */
	HdStatus create(const IndexPointer &index, Copy **copy);

	/* Free the copies that the device is no holder of any more. */
	void sweep();

	/* What others are told of a copy. */
	CopiedIndex::Held held(const Copy *copy) const;

	/*
	 * As the functions of harmonia_device.h, but other copies are evicted if there is not enough
	 * memory.  If that does not help, or this copy gives way itself, the status is HD_NO_MEMORY:
	 * the copy still exists, but its content is unusable.  May throw bad_alloc.
	 *
	 * Getting the host's memory takes long, so reserve() gets a part of it at a time: copy->blocks
	 * says how far it has come, and the caller calls it again.
	 */
	HdStatus reserve(Copy *copy, uint32_t blocks);
	HdStatus write_pages(Copy *copy, const uint32_t *numbers, const void *pages, uint32_t count);
	HdStatus write_lines(Copy *copy, const uint32_t *numbers, const void *lines, uint32_t count);
	HdStatus set_leaves(Copy *copy, const std::vector<HdLeaf> &leaves);
	HdStatus set_leaves(Copy *copy, const std::vector<HdWideLeaf> &leaves);
	HdStatus add_leaves(Copy *copy, const std::vector<HdNewLeaf> &leaves);
	HdStatus add_leaves(Copy *copy, const std::vector<HdWideNewLeaf> &leaves);
	HdStatus search_alone(Copy *copy, const HdBatch &batch, HdResult *result);

	/*
	 * Search on a lane beside others, which may search, too.  Nothing is evicted.  *crowded becomes
	 * true if the device has, or is allowed, less memory than the lanes' batches take together: the
	 * next searches are then better made alone.  If the status is HD_NO_MEMORY the search is to be
	 * repeated so.
	 */
	HdStatus search(int lane, const Copy *copy, const HdBatch &batch, HdResult *result,
					bool *crowded);

	/* The same for several batches: see hd_index_search_together(). */
	HdStatus search_together(int lane, const Copy *copy, const HdBatch *batches, int count,
							 HdResult *results, bool *crowded);

	/* Memory of all copies on the device, in bytes. */
	uint64_t memory() const;

	/* The reason why the last status was not HD_OK, but for search(); valid until the next call. */
	const char *error() const
	{
		return too_large ? "the copy does not fit into the memory allowed" :
						   hd_device_error(device);
	}

  private:
	struct Lane
	{
		HdDevice *device = nullptr;
		std::atomic<uint64_t> batch_memory{0}; /* that it kept when its last search ended */
	};
	Lane lanes[lanes_max];
	size_t lane_count;
	HdDevice *device; /* the first lane */
	int number;
	Indexes &indexes;
	uint64_t limit;
	bool maps_host = false;
	uint64_t batch_limit = 0; /* what batches may take beyond that */
	bool too_large = false;
	bool forced = false; /* copies that no other device has may be evicted */
	std::list<Copy> all;

	void free_copy(const Copy *copy);
	bool is_spare(const Copy &copy) const;
	uint64_t staying_memory(const Copy *kept) const;
	uint64_t device_share(const Copy *copy) const;
	uint64_t host_share(const Copy *copy) const;
	bool give_way(const Copy *copy, uint32_t blocks);
	HdStatus reserve_blocks(Copy *copy, uint32_t blocks);
	HdStatus reserve_on_host(Copy *copy, uint32_t blocks);
	HdStatus reserve_with_host(Copy *copy, uint32_t blocks);
	bool evict(const Copy *kept);
	bool free_other_lanes();
	bool relieve(const Copy *kept);
	void note_batch_memory(Lane &lane);
	bool is_crowded(Lane &lane, HdStatus status);
	uint64_t batch_memory() const;
	void free_batch_memory(uint64_t more);
	bool make_room(const Copy *kept, uint64_t more);

	/*
	 * Perform an action on a copy that is to have so many blocks; again with force if there is not
	 * enough memory, and no other device has room for the copy.
	 */
	template <typename Action> HdStatus with_place(Copy *copy, uint32_t blocks, Action action);

	/*
	 * Evict others until the copy can take this much more memory, then perform an
	 * action on it.  Evict more if the device itself runs out of memory.
	 */
	template <typename Action> HdStatus with_memory(const Copy *copy, uint64_t more, Action action);

	/* The same for a change of the list of leaves, which changes the size of the inner levels. */
	template <typename Action> HdStatus with_levels(Copy *copy, Action action);
};

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_COPIES_H */
