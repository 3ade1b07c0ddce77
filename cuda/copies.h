/*
 * copies.h
 *		The copies of indexes that the daemon keeps on its device.
 *
 * They take no more memory than allowed: whoever needs some makes those go that have not
 * been used for longest.  The same happens when the device itself has none left.
 */
#ifndef HARMONIA_CUDA_COPIES_H
#define HARMONIA_CUDA_COPIES_H

#include <cstring>
#include <map>

#include "harmonia_device.h"
#include "../src/device/protocol.h"

namespace harmonia
{

struct Copy
{
	HdIndex    *index;
	HtWidth		width;
	int			fanout;
	uint32_t	blocks = 0;		/* that it has room for */
	uint64_t	structure = 0;	/* of the last HP_SYNC_END */
	uint64_t	used = 0;		/* when, in requests */
	bool		in_sync = false;	/* it stays until the sync ends */
};

class Copies
{
public:
	/* With limit 0 copies may take nearly all of the device's memory. */
	Copies(HdDevice *on, uint64_t limit_bytes);
	~Copies();

	/* NULL if there is none; marks it as used. */
	Copy	   *find(const HpIndexName &name);

	/* Make one that does not exist, without blocks. */
	HdStatus	create(const HpIndexName &name, HtWidth width, int fanout, Copy **copy);

	/* Forget it, in a sync or not. */
	void		drop(const Copy *copy);
	void		drop_all();

	/*
	 * As those of harmonia_device.h, but others go if there is not enough memory.  If even that
	 * is not enough the copy is still there, but of no use.
	 */
	HdStatus	reserve(Copy *copy, uint32_t blocks);
	HdStatus	write_pages(Copy *copy, const uint32_t *numbers, const void *pages, uint32_t count);
	HdStatus	write_lines(Copy *copy, const uint32_t *numbers, const void *lines, uint32_t count);
	HdStatus	set_leaves(Copy *copy, const HdLeaf *leaves, uint32_t count);
	HdStatus	search(Copy *copy, const HdBatch &batch, HdResult *result);

	/* Bytes that all of them take on the device. */
	uint64_t	memory() const;

	uint32_t	count() const
	{
		return (uint32_t) all.size();
	}
	uint64_t	evictions() const
	{
		return evicted;
	}

	/* Why a status was not HD_OK; valid until the next call. */
	const char *error() const
	{
		return too_large ? "the copy does not fit into the memory allowed" : hd_device_error(device);
	}

private:
	/* The name has no padding. */
	struct Before
	{
		bool		operator() (const HpIndexName &a, const HpIndexName &b) const
		{
			return memcmp(&a, &b, sizeof(a)) < 0;
		}
	};

	HdDevice   *device;
	uint64_t	limit;
	uint64_t	clock = 0;
	uint64_t	evicted = 0;
	bool		too_large = false;
	std::map<HpIndexName, Copy, Before> all;

	bool		evict(const Copy *kept);

	/* Do something about a copy that needs so much more memory for good. */
	template <typename Action>
	HdStatus	with_memory(const Copy *copy, uint64_t more, Action action);
};

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_COPIES_H */
