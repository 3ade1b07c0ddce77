/*
 * bench.h
 *		Shared by all parts of the benchmark: options, rows of the table, arrays on
 *		the device, and loops that run there.
 *
 * The body of a loop is an object with operator() for one item.  It runs in a CUDA
 * kernel.  With -d host, or if the benchmark is compiled without CUDA, it runs on the
 * CPU.
 */
#ifndef HARMONIA_BENCH_H
#define HARMONIA_BENCH_H

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../../cuda/search.h"

#ifdef __CUDACC__
#include <cuda_profiler_api.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX
#endif

#include "../../cuda/gpu_group.cuh"
#endif

/* ----------------------------------------------------------------
 *		Options and failures (bench.cu)
 * ----------------------------------------------------------------
 */

struct Options
{
	bool host = false; /* use the host device instead of a GPU */
	uint32_t queries = 100000000;
	int runs = 5;
	std::vector<int> sizes;            /* log2 of numbers of entries */
	std::vector<int> widths;           /* of keys, in bits */
	std::vector<std::string> sections; /* empty: all */
};

extern Options options;
extern HdDevice *device;

extern bool wanted(const char *section);

#define CHECK(call) check((call), #call, __FILE__, __LINE__)

[[noreturn]] extern void give_up(const char *file, int line, const char *call, const char *why);

static inline void
check(HdStatus status, const char *call, const char *file, int line)
{
	if (status != HD_OK)
		give_up(file, line, call, hd_device_error(device));
}

#ifdef __CUDACC__
static inline void
check(cudaError_t error, const char *call, const char *file, int line)
{
	if (error != cudaSuccess)
		give_up(file, line, call, cudaGetErrorString(error));
}
#endif

/* ----------------------------------------------------------------
 *		The table (bench.cu)
 * ----------------------------------------------------------------
 */

/* Format text as printf() does. */
extern std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Print one row: a median of "runs" runs, or a value computed from medians.  The rows
 * of a section form one table or plot, with a row for each case and a column for each
 * system.  "details" says more about the search, as "name=value name=value".
 */
extern void put_row(const std::string &section, const std::string &what, const std::string &system,
					double value, const char *unit, int runs, const std::string &details = "");

/* "GPU", or the name of its replacement. */
static inline const char *
device_label()
{
	return options.host ? "host device" : "GPU";
}

/* The name of a number of entries that is a power of two, for names of sections. */
static inline std::string
power_name(uint64_t entries)
{
	return text("2^%d", 63 - __builtin_clzll(entries));
}

static inline double
median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

static inline double
now_ms()
{
	return std::chrono::duration<double, std::milli>(
			   std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

/* Median time of some work in ms, after a warm-up run. */
template <typename Work>
static double
median_ms(int runs, Work work)
{
	std::vector<double> times;

	for (int run = 0; run <= runs; run++)
	{
		double start = now_ms();

		work();
		if (run > 0)
			times.push_back(now_ms() - start);
	}
	return median(times);
}

/* ----------------------------------------------------------------
 *		On the device
 * ----------------------------------------------------------------
 */

/* An array in the device's memory. */
template <typename Type> class Array
{
  public:
	Type *const at;
	const uint64_t count;

	explicit Array(uint64_t size) : at((Type *) allocate(size * sizeof(Type))), count(size)
	{
	}
	Array(const Array &) = delete;
	Array &operator=(const Array &) = delete;
	~Array()
	{
#ifdef __CUDACC__
		if (!options.host)
		{
			cudaFree(at);
			return;
		}
#endif
		free(at);
	}

	/* Set the bytes of the first n elements. */
	void set(int byte, uint64_t n)
	{
#ifdef __CUDACC__
		if (!options.host)
		{
			CHECK(cudaMemset(at, byte, n * sizeof(Type)));
			return;
		}
#endif
		memset(at, byte, n * sizeof(Type));
	}
	void copy_from(const Type *from, uint64_t n)
	{
#ifdef __CUDACC__
		if (!options.host)
		{
			CHECK(cudaMemcpy(at, from, n * sizeof(Type), cudaMemcpyHostToDevice));
			return;
		}
#endif
		memcpy(at, from, n * sizeof(Type));
	}
	void copy_to(Type *to, uint64_t first, uint64_t n) const
	{
#ifdef __CUDACC__
		if (!options.host)
		{
			CHECK(cudaMemcpy(to, at + first, n * sizeof(Type), cudaMemcpyDeviceToHost));
			return;
		}
#endif
		memcpy(to, at + first, n * sizeof(Type));
	}

  private:
	static void *allocate(size_t size)
	{
		void *memory;

#ifdef __CUDACC__
		if (!options.host)
		{
			CHECK(cudaMalloc(&memory, size));
			return memory;
		}
#endif
		memory = malloc(size);
		if (memory == nullptr)
			give_up(__FILE__, __LINE__, "malloc", "out of memory");
		return memory;
	}
};

template <typename Type>
HD_BOTH Type
add_atomically(Type *to, Type value)
{
#ifdef __CUDA_ARCH__
	return atomicAdd(to, value);
#else
	Type before = *to;

	*to += value;
	return before;
#endif
}

HD_BOTH uint32_t
or_atomically(uint32_t *to, uint32_t bits)
{
#ifdef __CUDA_ARCH__
	return atomicOr(to, bits);
#else
	uint32_t before = *to;

	*to |= bits;
	return before;
#endif
}

#ifdef __CUDACC__
template <int Threads, typename Body>
__global__ void __launch_bounds__(256) group_kernel(uint64_t count, Body body)
{
	uint64_t i = ((uint64_t) blockIdx.x * 256 + threadIdx.x) / Threads;

	if (i < count)
		body(harmonia::DeviceGroup<Threads>(), i);
}
#endif

/* Does this thread write the results of its group? */
template <int Threads>
HD_BOTH bool
leads(const harmonia::HostGroup<Threads> &)
{
	return true;
}

#ifdef __CUDACC__
template <int Threads>
HD_BOTH bool
leads(const harmonia::DeviceGroup<Threads> &group)
{
	return group.thread == 0;
}
#endif

/*
 * Call body(group, i) for each i below count, in groups of threads.  On a GPU the calls
 * are only started.
 */
template <int Threads, typename Body>
static void
for_each_group(uint64_t count, const Body &body)
{
#ifdef __CUDACC__
	if (!options.host)
	{
		if (count > 0)
			group_kernel<Threads><<<(uint32_t) ((count * Threads + 255) / 256), 256>>>(count, body);
		CHECK(cudaGetLastError());
		return;
	}
#endif
	for (uint64_t i = 0; i < count; i++)
		body(harmonia::HostGroup<Threads>(), i);
}

template <typename Body> struct WithoutGroup
{
	Body body;

	template <typename Group> HD_BOTH void operator()(const Group &, uint64_t i) const
	{
		body(i);
	}
};

template <typename Body>
static void
for_each(uint64_t count, const Body &body)
{
	for_each_group<1>(count, WithoutGroup<Body>{body});
}

/* Wait until the device has finished all started work. */
static inline void
settle()
{
#ifdef __CUDACC__
	if (!options.host)
		CHECK(cudaDeviceSynchronize());
#endif
}

/*
 * While this exists, a profiler such as ncu records what the device does, under a name
 * (counters.sh).  Without a profiler nothing that is measured becomes slower.
 */
class Profiled
{
  public:
	explicit Profiled(const std::string &name)
	{
#ifdef HAVE_NVTX
		settle();
		nvtxRangePushA(name.c_str());
		cudaProfilerStart();
#else
		(void) name;
#endif
	}
	Profiled(const Profiled &) = delete;
	Profiled &operator=(const Profiled &) = delete;
	~Profiled()
	{
#ifdef HAVE_NVTX
		settle();
		cudaProfilerStop();
		nvtxRangePop();
#endif
	}
};

/* The name under which the run of a row is recorded. */
static inline std::string
row_name(const std::string &section, const std::string &what, const std::string &system)
{
	return section + ";" + what + ";" + system;
}

/* Time that some loops take on the device, in ms. */
template <typename Work>
static double
device_ms(Work work)
{
#ifdef __CUDACC__
	if (!options.host)
	{
		cudaEvent_t start;
		cudaEvent_t end;
		float ms;

		CHECK(cudaEventCreate(&start));
		CHECK(cudaEventCreate(&end));
		CHECK(cudaEventRecord(start));
		work();
		CHECK(cudaEventRecord(end));
		CHECK(cudaEventSynchronize(end));
		CHECK(cudaEventElapsedTime(&ms, start, end));
		CHECK(cudaEventDestroy(start));
		CHECK(cudaEventDestroy(end));
		return ms;
	}
#endif
	double start_ms = now_ms();

	work();
	return now_ms() - start_ms;
}

#endif /* HARMONIA_BENCH_H */
