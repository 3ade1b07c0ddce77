/*
 * gpu_device.h
 *		The CUDA device and its indexes; gpu_device.cu, gpu_index.cu, gpu_batch.cu and gpu_small.cu.
 */
#ifndef HARMONIA_CUDA_GPU_DEVICE_H
#define HARMONIA_CUDA_GPU_DEVICE_H

#include <chrono>

#include "gpu_kernels.h"
#include "gpu_memory.h"

namespace harmonia
{

/* A GPU that has not ended a search this long after it was told to stop has failed. */
constexpr std::chrono::milliseconds stop_patience(1000);

/* Of a small batch, while it is searched; zero otherwise. */
struct SmallCounters
{
	unsigned long long found; /* hits */
	unsigned int ended;       /* blocks */
};

/* What a small batch comes to; the GPU writes "hits" when all else is there. */
struct SmallNumbers
{
	unsigned long long hits;
	unsigned long long counted; /* HdResult.counted */
};

/*
 * Words in pinned memory: transfers to and from other memory would block until all work
 * before them is done.
 */
struct HostWords
{
	unsigned long long count; /* of hits, from the device */
	SmallNumbers small[HD_TOGETHER_MAX];
	uint32_t one;    /* to set the stop word */
	uint32_t number; /* for try_kernel() */
	alignas(16) char tried[2][16];
};

/* Device memory that grows and is kept from batch to batch. */
struct Memory
{
	void *at = nullptr;
	size_t size = 0;

	Memory() = default;
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;
	~Memory()
	{
		free();
	}
	void free()
	{
		cudaFree(at);
		at = nullptr;
		size = 0;
	}

	/* Make room; does not keep the content. */
	cudaError_t reserve(size_t needed)
	{
		cudaError_t error;

		if (needed <= size)
			return cudaSuccess;
		free();
		error = cudaMalloc(&at, needed);
		if (error == cudaSuccess)
			size = needed;
		return error;
	}

	template <typename Type> Type *as()
	{
		return (Type *) at;
	}
};

/* Memory of a lane's current batch; all indexes share it. */
struct BatchMemory
{
	Memory low, high, digits[2], numbers[2], sorting, out_probes, out_tids, out_keys, hit_slots,
		hit_count, map, kept, kept_probes, counts, seen, staged, staged_numbers;
};

/*
 * One lane of a GPU: all lanes of a GPU are in the process's one context, and use the same indexes.
 */
struct CudaDevice : HdDevice
{
	int number = -1; /* -1: it is not open */
	char name[sizeof(HdInfo::name)] = "";
	cudaStream_t stream = nullptr;
	cudaStream_t stopping = nullptr; /* on which the stop word is set */
	cudaEvent_t events[4] = {};
	HostWords *words = nullptr;
	bool maps_host = false;
	bool sees_pinned = false; /* it reads and writes pinned memory by the host's addresses */
	Memory stop;              /* the word that tells a search to stop; zero between searches */
	Memory counters;          /* of HD_TOGETHER_MAX small batches */

	Memory seen_points; /* tables of points of HD_TOGETHER_MAX small batches that are seen */
	uint32_t epoch = 0; /* of these */

	BatchMemory batch;
	char *bounce = nullptr; /* bounce_size bytes */
	size_t bounced = 0;     /* of these, in use by transfers under way */

	CudaDevice() : HdDevice(HD_CUDA)
	{
	}
	~CudaDevice() override;
	HdStatus open(int wanted) override;
	void enter() override;
	HdStatus info(HdInfo *result) override;
	HdStatus pin(void *memory, size_t size) override;
	HdStatus unpin(void *memory) override;
	HdIndex *create_index() override;
	uint64_t batch_memory() const override;
	void free_batch_memory() override;
	HdStatus try_kernel();
	HdStatus wait();
	HdStatus wait_for_numbers(int count);
	HdStatus begin_epoch();
	template <typename Done> HdStatus wait_until(Done done);
	HdStatus send(void *to, const void *from, size_t size);
	HdStatus end_stopped();

	/*
	 * The status for the result of a CUDA call.  Clears CUDA's last error, so that a
	 * later call does not report it.
	 */
	HdStatus status(cudaError_t error, const char *what)
	{
		if (error == cudaSuccess)
			return HD_OK;
		cudaGetLastError();
		return fail(error == cudaErrorMemoryAllocation ? HD_NO_MEMORY : HD_FAILED, "%s: %s", what,
					cudaGetErrorString(error));
	}
};

#define TRY(device, call) \
	do \
	{ \
		HdStatus status_ = (device)->status((call), #call); \
		if (status_ != HD_OK) \
			return status_; \
	} while (0)

#define AWAIT(device) \
	do \
	{ \
		HdStatus status_ = (device)->wait(); \
		if (status_ != HD_OK) \
			return status_; \
	} while (0)

struct CudaIndex : HdIndex
{
	GrowingMemory pages;
	Memory device_keys;
	Memory device_blocks;
	bool levels_loaded = false; /* they have all of keys and leaf_blocks */

	/* The lane that works for the calling thread. */
	CudaDevice *on() const
	{
		return (CudaDevice *) HdDevice::entered;
	}
	HdStatus reserve(uint32_t blocks, bool on_host) override;
	HdStatus write(const uint32_t *numbers, const char *from, uint32_t count, size_t size) override;
	HdStatus load_levels(uint32_t first) override;
	uint64_t levels_memory() const override
	{
		return device_keys.size + device_blocks.size;
	}
	HdStatus search(const HdBatch &batch, const SortPlan &plan, HdResult *result) override;
	bool joins(const HdBatch &batch) const override;
	HdStatus search_together(const HdBatch *batches, int count, HdResult *results) override;

	/* gpu_batch.cu */
	template <typename Key> HdStatus bring_keys(const HdBatch &batch, Probes<Key> &probes);
	template <typename Key> HdStatus sort(const SortPlan &plan, Probes<Key> &probes);
	HdStatus make_room(const HdBatch &batch, Results &results);
	HdStatus read_count(const unsigned long long *from, uint64_t *count);
	HdStatus count_by_map(const HdBatch &batch, Hits &hits, HdResult *result);
	HdStatus sort_by_block(Hits &hits, uint64_t count);
	template <typename Key> HdStatus give_keys(const HdBatch &batch, uint64_t count);
	HdStatus bring_hits(const HdBatch &batch, const Hits &hits, uint64_t count);
	template <typename Key>
	HdStatus give_hits(const HdBatch &batch, const Results &results, HdResult *result);
	template <typename Key>
	HdStatus search_batch(const HdBatch &batch, const SortPlan &plan, HdResult *result);
	template <typename Key> Tree<Key> searched_tree()
	{
		Tree<Key> searched = tree<Key>();

		searched.pages = pages.at();
		searched.keys = device_keys.as<Key>();
		searched.blocks = device_blocks.as<uint32_t>();
		searched.stop = on()->stop.at;
		return searched;
	}

	/* gpu_small.cu */
	bool is_small(const HdBatch &batch) const;
	template <typename Key>
	HdStatus search_small(const HdBatch *batches, int count, HdResult *results);
	HdStatus bring_unsorted(const HdBatch &batch, Hits hits, uint64_t count);
};

/*
 * Wait until done() returns cudaSuccess, and not cudaErrorNotReady, or an error.  If nobody wants
 * the result any longer, tell a search to stop.
 */
template <typename Done>
HdStatus
CudaDevice::wait_until(Done done)
{
	HdTicker ticker(this);
	bool stopped = false;
	std::chrono::steady_clock::time_point since;
	cudaError_t error;

	while ((error = done()) == cudaErrorNotReady)
	{
		if (!ticker.gives_up())
			continue;
		if (!stopped)
		{
			TRY(this, cudaMemcpyAsync(stop.at, &words->one, sizeof(uint32_t),
									  cudaMemcpyHostToDevice, stopping));
			stopped = true;
			since = std::chrono::steady_clock::now();
		}
		else if (std::chrono::steady_clock::now() - since > stop_patience)
			return fail(HD_FAILED, "the GPU does not end a search");
	}
	TRY(this, error);
	return stopped ? end_stopped() : HD_OK;
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GPU_DEVICE_H */
