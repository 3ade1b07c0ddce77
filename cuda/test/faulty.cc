/*
 * faulty.cc
 *		A device that fails, in place of the CUDA device of a daemon under test.
 *
 * Apart from that it is the host device, of which there are three.  Environment variables select
 * the faults: FAULT_NUMBER=n: only device n has them; otherwise all have.  FAULT_LANE=n: only lane
 * n of each device. FAULT_MEMORY=n: each call runs out of memory with a chance of one in n.
 * FAULT_BATCH=n: batches take n bytes for each probe, which a lane keeps.  FAULT_ROOM=n: all lanes
 * of a device together have no more than n bytes for that; the device has no other memory, and a
 * copy takes one byte of it. FAULT_TOGETHER=n: batches of up to n probes are searched together, in
 * the time of one; but every fifth time that is abandoned, with FAULT_PARTIES=n every n-th time.
 * FAULT_SLOW=ms: each search takes this long, unless it is abandoned. FAULT_HANG=ms: each search
 * takes this long, and nothing is heard of it meanwhile.  FAULT_FREE=ms: the same of freeing a
 * copy. FAULT_DEVICE=n: call number n and all later ones fail; opening the device is the first
 * call.  FAULT_PROBES: one hit of each search has a probe number that does not exist or, where hits
 * are counted by probe, is counted twice.  FAULT_HITS: each search has one hit too many, the last
 * hit's row for the first probe.  FAULT_KEYS: one hit of each search has the greatest key, where
 * keys are wanted.
 *
 * It ends the daemon by a signal if that breaks the rules for lanes.
 */
#include "../device_base.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <unistd.h>

namespace
{

/* What the lanes of a device do, and what they keep for batches. */
struct Use
{
	std::mutex lock;
	int lanes = 0;
	int searches = 0;
	bool changes = false;
	uint64_t batch_memory = 0;
	uint64_t copies = 0;
};

Use uses[HD_MAX_DEVICES];

void
rule(bool kept, const char *text)
{
	if (kept)
		return;
	fprintf(stderr, "broken rule of lanes: %s\n", text);
	abort();
}

struct FaultyDevice : HdDevice
{
	int number = 0;
	int lane = 0;
	bool searching = false;
	uint64_t batch_kept = 0;
	std::unique_ptr<HdDevice> host;
	int calls = 0;
	int parties = 0; /* searches of several batches */
	uint64_t random = 1;

	FaultyDevice() : HdDevice(HD_CUDA), host(hd_host_device())
	{
	}

	/* The value of a fault; NULL if the device does not have it. */
	const char *fault(const char *name) const
	{
		const char *only = getenv("FAULT_NUMBER");

		const char *only_lane = getenv("FAULT_LANE");

		return (only == nullptr || atoi(only) == number) &&
					   (only_lane == nullptr || atoi(only_lane) == lane) ?
				   getenv(name) :
				   nullptr;
	}
	Use &use() const
	{
		return uses[number];
	}

	/* Begin or end a change of anything, which must have the device for itself. */
	void change(bool begins)
	{
		std::lock_guard<std::mutex> guard(use().lock);

		rule(use().searches == 0, "a change beside a search");
		rule(use().changes != begins, "two changes at once");
		use().changes = begins;
	}
	void begin_search()
	{
		std::lock_guard<std::mutex> guard(use().lock);

		rule(!searching, "two searches on one lane");
		rule(!use().changes, "a search beside a change");
		searching = true;
		use().searches++;
	}
	void end_search()
	{
		std::lock_guard<std::mutex> guard(use().lock);

		searching = false;
		use().searches--;
	}

	/* Get memory for a batch of so many probes. */
	HdStatus take_batch_memory(uint32_t probes)
	{
		std::lock_guard<std::mutex> guard(use().lock);
		uint64_t needed = getenv("FAULT_BATCH") != nullptr ?
							  probes * strtoull(getenv("FAULT_BATCH"), nullptr, 10) :
							  0;
		uint64_t others = use().batch_memory - batch_kept;

		if (needed <= batch_kept)
			return HD_OK;
		batch_kept = 0;
		use().batch_memory = others;
		if (getenv("FAULT_ROOM") != nullptr &&
			others + needed > strtoull(getenv("FAULT_ROOM"), nullptr, 10))
			return fail(HD_NO_MEMORY, "simulated lack of memory for batches");
		batch_kept = needed;
		use().batch_memory += needed;
		return HD_OK;
	}
	uint64_t batch_memory() const override
	{
		std::lock_guard<std::mutex> guard(use().lock);

		return batch_kept;
	}
	void free_batch_memory() override
	{
		std::lock_guard<std::mutex> guard(use().lock);

		rule(!searching, "memory of a batch is freed during its search");
		use().batch_memory -= batch_kept;
		batch_kept = 0;
	}

	/* Count a call and decide whether it fails. */
	HdStatus begin(bool takes_memory)
	{
		const char *fatal = fault("FAULT_DEVICE");
		const char *memory = fault("FAULT_MEMORY");

		calls++;
		random = random * UINT64_C(6364136223846793005) + 1;
		if (fatal != nullptr && calls >= atoi(fatal))
			return fail(HD_FAILED, "simulated failure");
		if (takes_memory && memory != nullptr && (random >> 33) % (uint64_t) atoi(memory) == 0)
			return fail(HD_NO_MEMORY, "simulated lack of memory");
		return HD_OK;
	}
	HdStatus open(int wanted) override
	{
		HdStatus status;

		number = wanted;
		lane = use().lanes++;
		status = begin(false);
		return status != HD_OK ? status : host->open(number);
	}
	HdStatus info(HdInfo *result) override
	{
		HdStatus status = begin(false);

		if (status == HD_OK)
			status = host->info(result);
		if (getenv("FAULT_ROOM") != nullptr)
		{
			std::lock_guard<std::mutex> guard(use().lock);

			result->memory = strtoull(getenv("FAULT_ROOM"), nullptr, 10);
			result->memory_free = result->memory - use().batch_memory - use().copies;
		}
		return status;
	}
	HdStatus pin(void *, size_t) override
	{
		return HD_NO_MEMORY;
	}
	HdStatus unpin(void *) override
	{
		abort();
	}
	HdIndex *create_index() override;
};

/*
 * The attributes are copied to the host device's index before calls that follow a change of them.
 */
struct FaultyIndex : HdIndex
{
	std::unique_ptr<HdIndex> host;
	std::mutex copying; /* several lanes may search */
	bool changed = true;

	explicit FaultyIndex(HdIndex *index) : host(index)
	{
	}
	const char *fault(const char *name) const
	{
		return entered()->fault(name);
	}
	~FaultyIndex() override
	{
		const char *hang = ((FaultyDevice *) device)->fault("FAULT_FREE");

		if (hang != nullptr)
			usleep((useconds_t) atoi(hang) * 1000);
		((FaultyDevice *) device)->change(true);
		((FaultyDevice *) device)->use().copies--;
		((FaultyDevice *) device)->change(false);
	}

	/* The call is counted on the lane that performs it. */
	HdStatus begin(bool searches)
	{
		std::lock_guard<std::mutex> guard(copying);

		if (changed || !searches)
			(HdIndex &) *host = *this;
		changed = !searches;
		return entered()->begin(true);
	}
	static FaultyDevice *entered()
	{
		return (FaultyDevice *) HdDevice::entered;
	}

	/* Make a change. */
	template <typename Action> HdStatus change(Action action)
	{
		HdStatus status;

		entered()->change(true);
		status = begin(false);
		if (status == HD_OK)
			status = action();
		entered()->change(false);
		return status;
	}
	/* Let time pass, in ms.  Returns false if the call is abandoned. */
	bool passes(int ms)
	{
		HdTicker ticker(entered());
		auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);

		while (std::chrono::steady_clock::now() < end && !ticker.gives_up())
			usleep(1000);
		return !ticker.gives_up();
	}
	HdStatus reserve(uint32_t blocks, bool on_host) override
	{
		return change([&] { return host->reserve(blocks, on_host); });
	}
	HdStatus write(const uint32_t *numbers, const char *items, uint32_t count, size_t size) override
	{
		return change([&] { return host->write(numbers, items, count, size); });
	}
	HdStatus load_levels(uint32_t first) override
	{
		return change([&] { return host->load_levels(first); });
	}
	uint64_t levels_memory() const override
	{
		return keys.size() + leaf_blocks.size() * sizeof(uint32_t);
	}
	HdStatus search(const HdBatch &batch, const harmonia::SortPlan &plan, HdResult *result) override
	{
		HdStatus status;

		entered()->begin_search();
		status = search_with_faults(batch, plan, result);
		entered()->end_search();
		return status;
	}
	bool joins(const HdBatch &batch) const override
	{
		return getenv("FAULT_TOGETHER") != nullptr &&
			   batch.count <= (uint32_t) atoi(getenv("FAULT_TOGETHER")) && !batch.distinct;
	}
	HdStatus search_together(const HdBatch *batches, int count, HdResult *results) override
	{
		HdStatus status = begin(true);

		rule(count > 0 && count <= HD_TOGETHER_MAX, "too many batches");
		for (int i = 0; i < count; i++)
			rule(joins(batches[i]) && (batches[i].high == nullptr) == (batches->high == nullptr),
				 "batches do not join");
		entered()->begin_search();
		for (int i = 0; i < count && status == HD_OK; i++)
			status = host->search(batches[i], harmonia::SortPlan(), &results[i]);
		if (status == HD_OK && fault("FAULT_SLOW") != nullptr && !passes(atoi(fault("FAULT_SLOW"))))
			status = entered()->fail(HD_ABANDONED, "simulated slow search");
		if (count > 1 && status == HD_OK &&
			++entered()->parties %
					(fault("FAULT_PARTIES") != nullptr ? atoi(fault("FAULT_PARTIES")) : 5) ==
				0)
			status = entered()->fail(HD_ABANDONED, "simulated");
		entered()->end_search();
		return status;
	}
	HdStatus search_with_faults(const HdBatch &batch, const harmonia::SortPlan &plan,
								HdResult *result)
	{
		HdStatus status = begin(true);

		if (status == HD_OK)
			status = entered()->take_batch_memory(batch.count);
		if (status == HD_OK)
			status = host->search(batch, plan, result);
		if (fault("FAULT_HANG") != nullptr)
			usleep((useconds_t) atoi(fault("FAULT_HANG")) * 1000);
		if (fault("FAULT_SLOW") != nullptr && status == HD_OK && !passes(atoi(fault("FAULT_SLOW"))))
			status = entered()->fail(HD_ABANDONED, "simulated slow search");
		if (fault("FAULT_PROBES") != nullptr && status == HD_OK && batch.probes != nullptr &&
			result->hits > 0)
		{
			if (result->counted > 0)
				batch.counts[batch.count / 2]++;
			else
				batch.probes[result->hits / 2] = batch.count;
		}
		if (fault("FAULT_HITS") != nullptr && status == HD_OK && batch.probes != nullptr &&
			result->hits > 1 && result->hits < batch.room)
		{
			batch.probes[result->hits] = 0;
			batch.tids[result->hits] = batch.tids[result->hits - 1];
			if (batch.keys != nullptr)
				memcpy((char *) batch.keys + result->hits * (size_t) shape.width,
					   (char *) batch.keys + (result->hits - 1) * (size_t) shape.width,
					   (size_t) shape.width);
			result->hits++;
		}
		if (getenv("FAULT_KEYS") != nullptr && status == HD_OK && batch.keys != nullptr &&
			result->hits > 0)
			memset((char *) batch.keys + result->hits / 2 * (size_t) shape.width, 0xFF,
				   (size_t) shape.width);
		return status;
	}
};

HdIndex *
FaultyDevice::create_index()
{
	change(true);
	use().copies++;
	change(false);
	return new FaultyIndex(host->create_index());
}

} /* namespace */

HdDevice *
hd_cuda_device()
{
	return new FaultyDevice;
}

int
hd_cuda_count()
{
	return 3;
}
