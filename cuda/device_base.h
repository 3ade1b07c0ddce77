/*
 * device_base.h
 *		What all kinds of device share: device.cc checks arguments, keeps the inner
 *		levels and plans batches, the kinds do the rest.
 */
#ifndef HARMONIA_CUDA_DEVICE_BASE_H
#define HARMONIA_CUDA_DEVICE_BASE_H

#include <new>
#include <vector>

#include "harmonia_device.h"
#include "search.h"

namespace harmonia
{

/*
 * How the probes of a batch are sorted: by these bits of key - base.  Bits above them
 * may be set in keys outside the range in use.
 */
struct SortPlan
{
	int			bits;
	int			first_bit;
	uint64_t	base;
};

/*
 * A profile is taken from this many warps' queries, all over a batch; from none, if it
 * is too small.
 */
constexpr uint32_t profile_runs = 32;
constexpr uint32_t profile_run = 32;

}								/* namespace harmonia */

struct HdDevice
{
	HdKind		kind;
	char		error[256];

	explicit	HdDevice(HdKind device_kind) : kind(device_kind), error("")
	{
	}
	virtual ~ HdDevice()
	{
	}
	virtual HdStatus open(int number) = 0;
	virtual HdStatus info(HdInfo *result) = 0;
	virtual HdStatus pin(void *memory, size_t size) = 0;
	virtual HdStatus unpin(void *memory) = 0;
	virtual HdIndex *create_index() = 0;	/* may throw bad_alloc */

	/* Note what is wrong; returns the status. */
	HdStatus	fail(HdStatus status, const char *format,...)
		__attribute__((format(printf, 3, 4)));
};

struct HdIndex
{
	HdDevice   *device = nullptr;
	HtShape		shape = {};
	uint32_t	reserved = 0;	/* blocks */

	/* Copies of what the device has, made by set_leaves(). */
	std::vector<uint32_t> leaf_blocks;
	std::vector<char> keys;		/* key region */

	/* Range of the keys that leaves begin with, without the first leaf's. */
	uint64_t	low_key = 0;
	uint64_t	high_key = 0;

	bool		profiled = false;
	HtGroupChoice group = {};

	virtual ~ HdIndex()
	{
	}
	virtual HdStatus reserve(uint32_t blocks) = 0;
	/* Items of a size, a multiple of 16, numbered all over the blocks. */
	virtual HdStatus write(const uint32_t *numbers, const char *items, uint32_t count,
						   size_t size) = 0;
	/* leaf_blocks and keys have changed. */
	virtual HdStatus load_levels() = 0;
	virtual uint64_t memory() const = 0;
	virtual HdStatus search(const HdBatch &batch, const harmonia::SortPlan &plan,
							HdResult *result) = 0;

	/*
	 * Choose the thread group by a profile of keys in the order in which they are
	 * searched, unless that has been done.  Without any, group is one thread for now.
	 */
	void		profile(const void *sample, uint32_t count);

	/* The tree; pages, keys and blocks are the caller's to set. */
	template <typename Key>
	harmonia::Tree<Key> tree(bool linear) const
	{
		harmonia::Tree<Key> result = {};

		result.leaves = (uint32_t) leaf_blocks.size();
		result.fanout = shape.fanout;
		result.levels = shape.levels;
		result.linear = linear;
		for (int i = 0; i <= HT_MAX_LEVELS; i++)
			result.level_start[i] = shape.level_start[i];
		return result;
	}
};

/* The kinds. */
extern HdDevice *hd_host_device();
extern HdDevice *hd_cuda_device();
extern int	hd_cuda_count();

#endif							/* HARMONIA_CUDA_DEVICE_BASE_H */
