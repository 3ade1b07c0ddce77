/*
 * copies.h
 *		The copies of indexes that the daemon keeps on its device.
 *
 * All copies together take no more memory than allowed; nor do they with what the device
 * keeps for batches, except during a search.  If a copy needs more, that is given back, then
 * the least recently used copies are evicted.  The same happens if the device runs out of
 * memory.
 *
 * Where the host's memory is allowed, too, a copy that the device has no room for has its last blocks
 * there.  Nothing is evicted for that.
 */
#ifndef HARMONIA_CUDA_COPIES_H
#define HARMONIA_CUDA_COPIES_H

#include <cstring>
#include <map>
#include <vector>

#include "harmonia_device.h"
#include "../src/device/protocol.h"

namespace harmonia
{

/* The places of a partial copy: where it has which block of the index. */
class Places
{
public:
	/* There are more places.  May throw bad_alloc. */
	void		add(uint32_t first, uint32_t end);

	/* Find a block's place.  Returns false if it has none. */
	bool		find(uint32_t block, uint32_t *place) const
	{
		if (block >= places.size() || places[block] == none)
			return false;
		*place = places[block];
		return true;
	}

	/* The same, but give it one.  Returns false if none is free.  May throw bad_alloc. */
	bool		make(uint32_t block, uint32_t *place);

	/* Free all places but these.  May throw bad_alloc. */
	void		keep(const uint32_t *kept, uint32_t count);

	uint32_t	free_count() const
	{
		return (uint32_t) unused.size();
	}
	bool		empty() const
	{
		return owners.empty();
	}

private:
	static constexpr uint32_t none = UINT32_MAX;
	std::vector<uint32_t> places;	/* of each block, or none */
	std::vector<uint32_t> owners;	/* the block of each place, or none */
	std::vector<uint32_t> unused;	/* places */
};

struct Copy
{
	HdIndex    *index;
	HtWidth		width;
	int			fanout;
	uint32_t	blocks = 0;		/* that it has room for */
	uint64_t	structure = 0;	/* of the last HP_SYNC_END */
	uint64_t	used = 0;		/* value of Copies.clock at the last use */
	bool		in_sync = false;	/* in a sync; it is not evicted */

	/*
	 * A partial copy has zones.  The device knows blocks by their places; leaves of the list
	 * have these numbers.
	 */
	uint64_t	zones_number = 0;	/* 0: not partial */
	std::vector<HpZone> zones;
	Places		places;
	bool		is_partial() const
	{
		return zones_number != 0;
	}
};

class Copies
{
public:
	/*
	 * limit_bytes 0: copies may take nearly all of the device's memory.  They may also take so much of
	 * the host's memory, if the device can map it.
	 */
	Copies(HdDevice *on, uint64_t limit_bytes, uint64_t host_limit_bytes);
	~Copies();

	/* Find a copy and count this as a use; NULL if there is none. */
	Copy	   *find(const HpIndexName &name);

	/*
	 * Create a copy without blocks.  There must be none of this name.  May throw
	 * bad_alloc.
	 */
	HdStatus	create(const HpIndexName &name, HtWidth width, int fanout, Copy **copy);

	/*
	 * The number of blocks that a copy can have.  A copy that could use all memory leaves what
	 * other copies have now, up to half of it; of the host's memory it leaves all that others have.
	 */
	uint32_t	blocks_max(const Copy *copy) const;

	/* Free the places of a partial copy that its leaves do not need; with "few" only if few are free. */
	void		collect(Copy *copy, bool few);

	/* Free a copy, or all of them, even during a sync. */
	void		drop(const Copy *copy);
	void		drop_all();

	/*
	 * As the functions of harmonia_device.h, but other copies are evicted if there is
	 * not enough memory.  If that does not help, the status is HD_NO_MEMORY: the copy
	 * still exists, but its content is unusable.  Numbers of blocks and lines are the index's, those
	 * of leaves in lists are places if the copy is partial.  May throw bad_alloc.
	 *
	 * Getting the host's memory takes long, so reserve() gets a part of it at a time: copy->blocks says
	 * how far it has come, and the caller calls it again.
	 */
	HdStatus	reserve(Copy *copy, uint32_t blocks);
	HdStatus	write_pages(Copy *copy, const uint32_t *numbers, const void *pages, uint32_t count);
	HdStatus	write_lines(Copy *copy, const uint32_t *numbers, const void *lines, uint32_t count);
	HdStatus	set_leaves(Copy *copy, const std::vector<HdLeaf> &leaves);
	HdStatus	set_leaves(Copy *copy, const std::vector<HdWideLeaf> &leaves);
	HdStatus	add_leaves(Copy *copy, const std::vector<HdNewLeaf> &leaves);
	HdStatus	add_leaves(Copy *copy, const std::vector<HdWideNewLeaf> &leaves);
	HdStatus	search(Copy *copy, const HdBatch &batch, HdResult *result);

	/* Memory of all copies on the device, and on the host beyond that, in bytes. */
	uint64_t	memory() const;
	uint64_t	host_memory() const;

	uint32_t	count() const
	{
		return (uint32_t) all.size();
	}
	uint64_t	evictions() const
	{
		return evicted;
	}

	/* The reason why the last status was not HD_OK; valid until the next call. */
	const char *error() const
	{
		return too_large ? "the copy does not fit into the memory allowed" : hd_device_error(device);
	}

private:
	/* HpIndexName has no padding. */
	struct Before
	{
		bool		operator() (const HpIndexName &a, const HpIndexName &b) const
		{
			return memcmp(&a, &b, sizeof(a)) < 0;
		}
	};

	HdDevice   *device;
	uint64_t	limit;
	uint64_t	host_limit = 0;
	uint64_t	batch_limit = 0;	/* what batches may take beyond that */
	uint64_t	clock = 0;
	uint64_t	evicted = 0;
	bool		too_large = false;
	std::map<HpIndexName, Copy, Before> all;

	HdStatus	write(Copy *copy, const uint32_t *numbers, const void *items, uint32_t count, size_t size);
	uint64_t	device_share(const Copy *copy) const;
	uint64_t	host_share(const Copy *copy) const;
	HdStatus	reserve_blocks(Copy *copy, uint32_t blocks);
	HdStatus	reserve_on_host(Copy *copy, uint32_t blocks);
	HdStatus	reserve_with_host(Copy *copy, uint32_t blocks);
	bool		evict(const Copy *kept);
	void		free_batch_memory(uint64_t more);
	bool		make_room(const Copy *kept, uint64_t more);

	/*
	 * Evict others until the copy can take this much more memory, then perform an
	 * action on it.  Evict more if the device itself runs out of memory.
	 */
	template <typename Action>
	HdStatus	with_memory(const Copy *copy, uint64_t more, Action action);

	/* The same for a change of the list of leaves, which changes the size of the inner levels. */
	template <typename Action>
	HdStatus	with_levels(const Copy *copy, Action action);
};

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_COPIES_H */
