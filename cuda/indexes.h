/*
 * indexes.h
 *		The indexes that have copies, and which devices have these.
 *
 * A copy is repeated: each device has one of its own, as long as there is room.  Where there is
 * not, copies that another device has, too, give way first.  So many small indexes are on all
 * devices, and what does not fit on each of them is spread over them.  What one device alone has is
 * evicted only for a copy that would have no place otherwise.
 */
#ifndef HARMONIA_CUDA_INDEXES_H
#define HARMONIA_CUDA_INDEXES_H

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "harmonia_device.h"
#include "../src/device/protocol.h"

namespace harmonia
{

/* A set of devices has a bit for each. */
using DeviceSet = uint32_t;
static_assert(HD_MAX_DEVICES <= 32, "a bit for each device");

inline DeviceSet
set_of(int device)
{
	return (DeviceSet) 1 << device;
}

/* What is the same for all copies of an index. */
struct CopiedIndex
{
	HpIndexName name;
	HtWidth width;
	int fanout;
	DeviceSet holders = 0;  /* devices that have a copy, or are to make one */
	uint64_t structure = 0; /* of the last HP_SYNC_END */
	uint64_t used = 0;      /* value of Indexes.clock at the last use */
	bool in_sync = false;   /* no copy is evicted or searched */

	/* What each holder has told of its copy last. */
	struct Held
	{
		uint32_t blocks;
		uint32_t blocks_forced; /* that it could have if all others were evicted */
		uint64_t memory;
		uint64_t host_memory;
	};
	Held held[HD_MAX_DEVICES] = {};

	/* The blocks that all copies have room for. */
	uint32_t blocks() const;
};

using IndexPointer = std::shared_ptr<CopiedIndex>;

/* The host's memory that all copies together may take and do take, in bytes. */
struct HostBudget
{
	uint64_t limit = 0;
	uint64_t taken = 0;
};

/*
 * All of this is protected by the lock, which a caller of a function or reader of an index holds.
 * Only what is written once, the name, width and fanout, may be read without.
 */
class Indexes
{
  public:
	std::mutex lock;
	HostBudget host;

	/* Find an index; NULL if no device has a copy. */
	IndexPointer find(const HpIndexName &name) const;

	/* The same, and count this as a use. */
	IndexPointer use(const HpIndexName &name);

	/*
	 * Make an index that has the given holders.  There must be none of this name.  May throw
	 * bad_alloc.
	 */
	IndexPointer create(const HpIndexName &name, HtWidth width, int fanout, DeviceSet holders);

	/* The index, or all of them, has no copies any more.  The holders free what they have later. */
	void drop(const IndexPointer &index);
	void drop_all();

	/*
	 * A device gives its copy up.  If it is the last one, that counts as an eviction if the index
	 * is evicted, and the index is gone.
	 */
	void leave(const IndexPointer &index, int device, bool evicted);

	uint32_t count() const
	{
		return (uint32_t) all.size();
	}
	uint64_t evictions() const
	{
		return evicted_count;
	}

  private:
	/* HpIndexName has no padding. */
	struct Before
	{
		bool operator()(const HpIndexName &a, const HpIndexName &b) const
		{
			return memcmp(&a, &b, sizeof(a)) < 0;
		}
	};

	uint64_t clock = 0;
	uint64_t evicted_count = 0;
	std::map<HpIndexName, IndexPointer, Before> all;
};

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_INDEXES_H */
