/*
 * bench.cu
 *		Batches of queries on a CUDA device: prints a CSV of medians.
 *
 * usage: bench [-q QUERIES] [-r RUNS] [-n LOG2_ENTRIES]... [-s]
 *
 * Protocol: 100 million queries (-q) for random existing keys of an index of 2^23 and
 * 2^26 entries (-n), keys and results in device memory, median of 5 runs (-r) after a
 * warm-up, timed with CUDA events from before the sort to after the last result.  Every
 * hit of the last run is checked; "wrong" counts the probes with a wrong, missing or
 * surplus one.  -s also sweeps bits of the sort and thread groups.
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include <cuda_runtime.h>
#include <unistd.h>

#include "../../cuda/device.h"

#define CHECK(call) check((call), #call, __LINE__)

static void
check(cudaError_t error, const char *call, int line)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "bench.cu:%d: %s: %s\n", line, call, cudaGetErrorString(error));
	exit(1);
}

static HdDevice *device;
static char device_name[256];
static char today[16];

static void
check(HdStatus status, const char *call, int line)
{
	if (status == HD_OK)
		return;
	fprintf(stderr, "bench.cu:%d: %s: %s\n", line, call, hd_device_error(device));
	exit(1);
}

/* ----------------------------------------------------------------
 *		Keys, tids and pages
 * ----------------------------------------------------------------
 */

__host__ __device__ static uint64_t
mix(uint64_t z)
{
	z += UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* A tid that a key tells, so that hits can be checked. */
__host__ __device__ static uint64_t
tid_of(uint64_t key)
{
	return (mix(key) & HT_TID_MAX) | 1;
}

template <typename Key>
static std::vector<Key>
make_keys(uint64_t entries, bool serial)
{
	std::vector<Key> keys(entries);
	/* One in each of as many equal parts of the key range. */
	uint64_t	part = (sizeof(Key) == 4 ? UINT64_C(1) << 32 : UINT64_MAX) / entries;

	for (uint64_t i = 0; i < entries; i++)
		keys[i] = (Key) (serial ? (UINT64_C(1) << (8 * sizeof(Key) - 1)) + i + 1 :
						 i * part + mix(i) % part);
	return keys;
}

/* Where leaf i is: segments have some pages between their leaves. */
static uint32_t
block_of(uint32_t leaf)
{
	return leaf + (leaf / 1000 + 1) * 20;
}

template <typename Key>
static HdIndex *
make_index(const std::vector<Key> &keys)
{
	HtWidth		width = sizeof(Key) == 4 ? HT_WIDTH32 : HT_WIDTH64;
	uint32_t	fill = (uint32_t) (ht_leaf_blocks(width) * (ht_leaf_slots(width) - 1));
	uint32_t	count = (uint32_t) ((keys.size() + fill - 1) / fill);
	uint32_t	blocks = block_of(count) + 1;
	std::vector<HdLeaf> leaves(count);
	std::vector<uint32_t> numbers(blocks);
	char	   *pages = (char *) calloc(blocks, HT_PAGE_SIZE);
	int			workers = (int) std::max(1u, std::thread::hardware_concurrency());
	std::vector<std::thread> threads;
	HdIndex    *index;

	if (pages == nullptr)
	{
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	for (int worker = 0; worker < workers; worker++)
	{
		threads.emplace_back([ &, worker]
							 {
								 std::vector<HtEntry> entries(fill);

								 for (uint32_t leaf = (uint32_t) worker; leaf < count; leaf += (uint32_t) workers)
								 {
									 size_t		first = (size_t) leaf * fill;
									 size_t		n = std::min((size_t) fill, keys.size() - first);
									 char	   *page = pages + (size_t) block_of(leaf) * HT_PAGE_SIZE;

									 for (size_t i = 0; i < n; i++)
										 entries[i] = {keys[first + i], tid_of(keys[first + i])};
									 ht_leaf_init(page, width);
									 ht_leaf_fill(page, width, entries.data(), (int) n);
									 leaves[leaf] = {entries[0], block_of(leaf)};
								 }
							 });
	}
	for (std::thread &thread : threads)
		thread.join();
	for (uint32_t i = 0; i < blocks; i++)
		numbers[i] = i;
	CHECK(hd_index_create(device, width, HD_DEFAULT_FANOUT, &index));
	CHECK(hd_index_reserve(index, blocks));
	CHECK(hd_index_write(index, numbers.data(), pages, blocks));
	CHECK(hd_index_set_leaves(index, leaves.data(), count));
	free(pages);
	return index;
}

/* ----------------------------------------------------------------
 *		Queries
 * ----------------------------------------------------------------
 */

typedef enum Distribution
{
	UNIFORM,
	NORMAL,						/* around the middle, a standard deviation of an eighth */
	GAMMA,						/* shape 3, mean of 3/16 */
	ZIPF						/* exponent 1, hot keys all over the range */
} Distribution;

static const char *distribution_names[] = {"uniform", "normal", "gamma", "zipf"};

__device__ static double
unit(uint64_t random)
{
	return ((double) (random >> 11) + 0.5) * (1.0 / 9007199254740992.0);
}

__device__ static uint64_t
draw(Distribution distribution, uint64_t i, uint64_t entries)
{
	uint64_t	a = mix(i * 4 + 1);
	uint64_t	b = mix(i * 4 + 2);
	double		at;

	switch (distribution)
	{
		case NORMAL:
			at = 0.5 + 0.125 * sqrt(-2 * log(unit(a))) * cospi(2 * unit(b));
			break;
		case GAMMA:
			at = -log(unit(a) * unit(b) * unit(mix(i * 4 + 3))) / 16;
			break;
		case ZIPF:
			return mix((uint64_t) exp(unit(a) * log((double) entries))) % entries;
		default:
			return a % entries;
	}
	at = at < 0 ? 0 : at > 1 ? 1 : at;
	return min((uint64_t) (at * (double) entries), entries - 1);
}

/* low and high of queries for span entries from a drawn one on, and its rank. */
template <typename Key>
__global__ void
make_queries(const Key *keys, uint64_t entries, uint32_t count, Distribution distribution,
			 uint32_t span, uint64_t seed, Key *low, Key *high, uint32_t *ranks)
{
	uint32_t	i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	uint64_t	rank = min(draw(distribution, seed + i, entries), entries - span);

	ranks[i] = (uint32_t) rank;
	low[i] = keys[rank];
	high[i] = keys[rank + span - 1];
}

/* Each probe's hits seen so far, as bits. */
template <typename Key>
__global__ void
check_pairs(const Key *keys, const uint32_t *ranks, uint32_t count, uint32_t span,
			const uint32_t *probes, const uint64_t *tids, uint64_t hits, uint32_t *seen,
			unsigned long long *wrong)
{
	uint64_t	i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= hits)
		return;
	if (probes[i] < count)
	{
		for (uint32_t j = 0; j < span; j++)
		{
			if (tids[i] != tid_of(keys[ranks[probes[i]] + j]))
				continue;
			if ((atomicOr(&seen[probes[i]], 1u << j) >> j & 1) == 0)
				return;
		}
	}
	atomicAdd(wrong, 1);
}

template <typename Key>
__global__ void
check_values(const Key *keys, const uint32_t *ranks, uint32_t count, uint32_t span,
			 HdOutput output, const uint64_t *tids, const uint32_t *counts, const uint32_t *seen,
			 unsigned long long *wrong)
{
	uint32_t	i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	if (output == HD_PAIRS ? seen[i] != (1u << span) - 1 :
		output == HD_FIRST ? tids[i] != tid_of(keys[ranks[i]]) : counts[i] != span)
		atomicAdd(wrong, 1);
}

/* ----------------------------------------------------------------
 *		Measuring
 * ----------------------------------------------------------------
 */

template <typename Type>
static Type *
on_device(uint64_t count)
{
	void	   *memory;

	CHECK(cudaMalloc(&memory, count * sizeof(Type)));
	return (Type *) memory;
}

static uint32_t
blocks_for(uint64_t count)
{
	return (uint32_t) ((count + 255) / 256);
}

static const char *output_names[] = {"pairs", "query order", "counts"};

template <typename Key>
struct Bench
{
	HdIndex    *index;
	uint64_t	entries;
	bool		serial;
	uint32_t	queries;
	int			runs;
	uint32_t	span_max;
	Key		   *keys;
	Key		   *low;
	Key		   *high;
	uint32_t   *ranks;
	uint32_t   *probes;
	uint64_t   *tids;
	uint32_t   *counts;
	uint32_t   *seen;
	unsigned long long *wrong;

	Bench(uint64_t entry_count, bool serial_keys, uint32_t query_count, int run_count, uint32_t largest_span)
		: entries(entry_count), serial(serial_keys), queries(query_count), runs(run_count),
		span_max(largest_span)
	{
		std::vector<Key> host_keys = make_keys<Key>(entries, serial);

		index = make_index(host_keys);
		keys = on_device<Key>(entries);
		CHECK(cudaMemcpy(keys, host_keys.data(), entries * sizeof(Key), cudaMemcpyHostToDevice));
		low = on_device<Key>(queries);
		high = on_device<Key>(queries);
		ranks = on_device<uint32_t>(queries);
		probes = on_device<uint32_t>((uint64_t) queries * span_max);
		tids = on_device<uint64_t>((uint64_t) queries * span_max);
		counts = on_device<uint32_t>(queries);
		seen = on_device<uint32_t>(queries);
		wrong = on_device<unsigned long long>(1);
	}

	~Bench()
	{
		hd_index_free(index);
		for (void *memory : {(void *) keys, (void *) low, (void *) high, (void *) ranks, (void *) probes,
							 (void *) tids, (void *) counts, (void *) seen, (void *) wrong})
			cudaFree(memory);
	}

	/* One line of the table: span 0 is points. */
	void		measure(Distribution distribution, uint32_t span, HdOutput output, int psa_bits,
						int threads, HtGroupSearch search)
	{
		std::vector<std::vector<double>> times;
		uint32_t	expected = std::max(span, 1u);
		unsigned long long errors;
		HdBatch		batch = {};
		HdResult	result;

		batch.low = low;
		batch.high = span > 0 ? high : nullptr;
		batch.count = queries;
		batch.on_device = true;
		batch.output = output;
		batch.probes = probes;
		batch.tids = tids;
		batch.counts = counts;
		batch.room = (uint64_t) queries * span_max;
		batch.psa_bits = psa_bits;
		batch.threads = threads;
		batch.group_search = search;
		batch.timed = true;
		make_queries<Key> <<<blocks_for(queries), 256>>>(keys, entries, queries, distribution, expected,
														(uint64_t) output << 40, low, high, ranks);
		CHECK(cudaGetLastError());
		CHECK(cudaDeviceSynchronize());
		for (int run = 0; run <= runs; run++)
		{
			CHECK(cudaMemset(tids, 0xA5, (uint64_t) queries * span_max * sizeof(uint64_t)));
			CHECK(cudaMemset(counts, 0xA5, queries * sizeof(uint32_t)));
			CHECK(cudaDeviceSynchronize());
			CHECK(hd_index_search(index, &batch, &result));
			if (run > 0)
				times.push_back({result.sort_ms + result.search_ms + result.restore_ms,
								result.sort_ms, result.search_ms, result.restore_ms});
		}
		std::sort(times.begin(), times.end());

		CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
		CHECK(cudaMemset(seen, 0, queries * sizeof(uint32_t)));
		if (output == HD_PAIRS)
			check_pairs<<<blocks_for(result.hits), 256>>>(keys, ranks, queries, expected, probes, tids,
														  result.hits, seen, wrong);
		check_values<<<blocks_for(queries), 256>>>(keys, ranks, queries, expected, output, tids, counts,
												   seen, wrong);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpy(&errors, wrong, sizeof(errors), cudaMemcpyDeviceToHost));

		std::vector<double> &median = times[times.size() / 2];

		printf("%s,%s,%llu,%d,%s,%s,%u,%u,%s,%d,%s,%d,%.3f,%.3f,%.3f,%.3f,%.2f,%llu\n",
			   today, device_name, (unsigned long long) entries, (int) (8 * sizeof(Key)),
			   serial ? "serial" : "random", distribution_names[distribution], queries, span,
			   output_names[output], result.psa_bits,
			   result.group.search == HT_GROUP_LINEAR ? "linear" : "k-ary", result.group.threads,
			   median[1], median[2], median[3], median[0], queries / median[0] / 1e6, errors);
		fflush(stdout);
		if (errors > 0)
			exit(1);
	}

	void		measure(Distribution distribution, uint32_t span, HdOutput output)
	{
		measure(distribution, span, output, HD_AUTOMATIC, HD_AUTOMATIC, HT_GROUP_KARY);
	}
};

template <typename Key>
static void
run(uint64_t entries, uint32_t queries, int runs, bool sweep)
{
	constexpr uint32_t span = 8;

	{
		Bench<Key>	bench(entries, false, queries, runs, span);

		bench.measure(UNIFORM, 0, HD_FIRST);
		bench.measure(UNIFORM, 0, HD_PAIRS);
		bench.measure(UNIFORM, 0, HD_COUNT);
		bench.measure(UNIFORM, span, HD_COUNT);
		bench.measure(UNIFORM, span, HD_PAIRS);
		for (Distribution distribution : {NORMAL, GAMMA, ZIPF})
		{
			bench.measure(distribution, 0, HD_FIRST);
			bench.measure(distribution, 0, HD_PAIRS);
		}
		if (sweep)
		{
			for (int bits : {0, 4, 8, 12, 16, 20, 24, (int) (8 * sizeof(Key))})
				bench.measure(UNIFORM, 0, HD_PAIRS, bits, 1, HT_GROUP_KARY);
			for (int threads = 2; threads <= 32; threads *= 2)
				bench.measure(UNIFORM, 0, HD_PAIRS, HD_AUTOMATIC, threads, HT_GROUP_KARY);
			for (int threads = 1; threads <= 32; threads *= 2)
				bench.measure(UNIFORM, 0, HD_PAIRS, HD_AUTOMATIC, threads, HT_GROUP_LINEAR);
		}
	}
	{
		Bench<Key>	bench(entries, true, queries, runs, 1);

		bench.measure(UNIFORM, 0, HD_FIRST);
		bench.measure(UNIFORM, 0, HD_PAIRS);
	}
}

int
main(int argc, char **argv)
{
	uint32_t	queries = 100000000;
	int			runs = 5;
	bool		sweep = false;
	std::vector<int> sizes;
	time_t		now = time(nullptr);
	HdInfo		info;
	int			option;

	while ((option = getopt(argc, argv, "q:r:n:s")) != -1)
	{
		if (option == 'q')
			queries = (uint32_t) strtoul(optarg, nullptr, 0);
		else if (option == 'r')
			runs = atoi(optarg);
		else if (option == 'n')
			sizes.push_back(atoi(optarg));
		else if (option == 's')
			sweep = true;
		else
			return 2;
	}
	if (sizes.empty())
		sizes = {23, 26};

	CHECK(hd_device_open(HD_CUDA, 0, &device));
	CHECK(hd_device_info(device, &info));
	snprintf(device_name, sizeof(device_name), "%s", info.name);
	strftime(today, sizeof(today), "%Y-%m-%d", gmtime(&now));

	printf("date,device,entries,key_bits,keys,queries_drawn,queries,range_entries,output,psa_bits,"
		   "group_search,group_threads,sort_ms,search_ms,restore_ms,total_ms,billions_per_s,wrong\n");
	for (int size : sizes)
	{
		run<uint64_t>(UINT64_C(1) << size, queries, runs, sweep);
		run<uint32_t>(UINT64_C(1) << size, queries, runs, false);
	}
	hd_device_close(device);
	return 0;
}
