/*
 * device_base.h
 *		The base classes of all kinds of device. device.cc checks arguments and plans
 *		batches, leaves.cc builds the inner levels; the subclasses do the rest.
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
 * How to sort the probes of a batch: by "bits" bits of key - base, from first_bit on, or fewer of
 * the highest of them.  Keys outside the range in use may have higher bits set.  0 bits: not at
 * all.
 */
struct SortPlan
{
	int bits;
	int first_bit;
	AnyKey base;
};

} /* namespace harmonia */

/*
 * Asks from time to time whether a call's result is still wanted, and remembers it if
 * not.
 */
class HdTicker
{
  public:
	explicit HdTicker(HdDevice *on);

	/* Is the result no longer wanted?  Cheap enough to ask once a microsecond. */
	bool gives_up();

  private:
	HdDevice *device;
	int64_t asked_ns; /* when the device was last asked */
	bool over = false;
};

struct HdDevice
{
	HdKind kind;
	char error[256];
	HdGoesOn goes_on = nullptr;
	void *goes_on_argument = nullptr;

	explicit HdDevice(HdKind device_kind) : kind(device_kind), error("")
	{
	}
	virtual ~HdDevice()
	{
	}
	virtual HdStatus open(int number) = 0;

	/*
	 * The device that the thread has entered.  A search runs on that one: it can be another lane of
	 * the index's device.
	 */
	inline static thread_local HdDevice *entered = nullptr;

	/* The calling thread is about to use the device or its indexes. */
	virtual void enter()
	{
		entered = this;
	}
	virtual HdStatus info(HdInfo *result) = 0;

	/* Any thread calls these at any time, so they change nothing of the device. */
	virtual HdStatus pin(void *memory, size_t size) = 0;
	virtual HdStatus unpin(void *memory) = 0;
	virtual HdIndex *create_index() = 0; /* may throw bad_alloc */
	virtual uint64_t batch_memory() const
	{
		return 0;
	}
	virtual void free_batch_memory()
	{
	}

	/* Set the error text; returns the status. */
	HdStatus fail(HdStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));
};

struct HdIndex
{
	HdDevice *device = nullptr;
	HtShape shape = {};
	uint32_t reserved = 0;    /* blocks */
	uint32_t host_blocks = 0; /* of these, in the host's memory */

	/* Copies of what the device has, made by leaves.cc. */
	std::vector<uint32_t> leaf_blocks;
	std::vector<char> keys; /* key region */

	/* The TIDs of the leaves' low bounds. */
	std::vector<uint64_t> low_tids;

	/* The low keys of the second and of the last leaf. */
	harmonia::AnyKey low_key = 0;
	harmonia::AnyKey high_key = 0;

	virtual ~HdIndex()
	{
	}

	/* Make room for more blocks than there are: see hd_index_reserve(). */
	virtual HdStatus reserve(uint32_t blocks, bool on_host) = 0;
	/*
	 * Write items of "size" bytes, a multiple of 16, which are numbered over all
	 * blocks.
	 */
	virtual HdStatus write(const uint32_t *numbers, const char *items, uint32_t count,
						   size_t size) = 0;

	/*
	 * Bring leaf_blocks and keys to the device.  If first > 0, the device has the blocks
	 * of leaves before that one, and the keys of the bottom level that stand for them,
	 * unless an earlier call has failed.
	 */
	virtual HdStatus load_levels(uint32_t first) = 0;

	/* The device memory of all but blocks, in bytes. */
	virtual uint64_t levels_memory() const = 0;
	virtual HdStatus search(const HdBatch &batch, const harmonia::SortPlan &plan,
							HdResult *result) = 0;

	/* hd_index_joins(), hd_index_search_together() */
	virtual bool joins(const HdBatch &) const
	{
		return false;
	}
	virtual HdStatus search_together(const HdBatch *, int, HdResult *)
	{
		return device->fail(HD_INVALID, "the device does not search batches together");
	}

	/* The tree's shape.  The caller sets pages, keys and blocks. */
	template <typename Key> harmonia::Tree<Key> tree() const
	{
		harmonia::Tree<Key> result = {};

		result.leaves = (uint32_t) leaf_blocks.size();
		result.fanout = shape.fanout;
		result.levels = shape.levels;
		for (int i = 0; i <= HT_MAX_LEVELS; i++)
			result.level_start[i] = shape.level_start[i];
		return result;
	}
};

/* The kinds of device. */
extern HdDevice *hd_host_device();
extern HdDevice *hd_cuda_device();
extern int hd_cuda_count();

#endif /* HARMONIA_CUDA_DEVICE_BASE_H */
