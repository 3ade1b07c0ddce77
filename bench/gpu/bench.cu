/*
 * bench.cu
 *		Measures batches of queries on a device; checks every result; prints medians as CSV.
 *
 * usage: bench [-d host] [-q QUERIES] [-r RUNS] [-n LOG2_ENTRIES]... [-w KEY_BITS]... [SECTION]...
 *
 *   sizes       trees of different sizes, queries of different distributions
 *   fanouts     8 to 128
 *   psa         number of sorted bits, from none to all (the papers' figure 8)
 *   ntg         groups of 1 to 32 threads, and the model's choice (figure 11)
 *   steps       optimisations in turn, starting with a regular B+tree (figures 13, 18, 19)
 *   ranges      ranges of different lengths; as sizes, with all that queries want of hits
 *   break_even  small batches including transfers, against the CPU
 *   brute       compare all keys with each query, in small trees
 *   wide        as sizes, with keys of 128 bits: uuids, and ids of tenants
 *   rivals      beside searches of arrays of sorted keys, which cannot be changed
 *
 *   cpu_steps   optimisations in turn on one thread of the CPU
 *   cpu_psa     number of sorted bits on the CPU
 *   cpu_brute   compare all keys with each query on the CPU
 *
 * If no section is named, all but the last three are run; these need -d host.  Defaults: 100
 * million queries (-q), medians of 5 runs (-r) after a warm-up run, 2^23 to 2^26 entries (-n), keys
 * of 64 and of 32 bits (-w; not for wide).  Queries ask for existing keys.  Keys and results are in
 * device memory.  Times are the device's, from before the sort to after the last result; break_even
 * is different.  With -d host the host device does all of that.  This shows that it works, but its
 * times mean nothing.
 *
 * The columns are those of the other benchmarks (../README.md), followed by the device and
 * details of the search.  The exit status is 1 if any result is wrong.
 */
#include "lookups.h"

#include <cstdarg>

#include <unistd.h>

Options options;
HdDevice *device;

static char device_name[256];

static const char *const sections[] = {"sizes",     "fanouts",    "psa",      "ntg",  "steps",
									   "ranges",    "break_even", "brute",    "wide", "rivals",
									   "cpu_steps", "cpu_psa",    "cpu_brute"};

void
give_up(const char *file, int line, const char *call, const char *why)
{
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, why);
	exit(1);
}

bool
wanted(const char *section)
{
	return options.sections.empty() ? strncmp(section, "cpu_", 4) != 0 :
									  std::find(options.sections.begin(), options.sections.end(),
												section) != options.sections.end();
}

std::string
text(const char *format, ...)
{
	char buffer[256];
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	return buffer;
}

void
put_row(const std::string &section, const std::string &what, const std::string &system,
		double value, const char *unit, int runs, const std::string &details)
{
	printf("kernels,%s,%s,%s,%.6g,%s,%d,,%s,%s\n", section.c_str(), what.c_str(), system.c_str(),
		   value, unit, runs, device_name, details.c_str());
	fflush(stdout);
}

template <typename Key>
static void
run_large(uint64_t entry_count, Buffers &buffers)
{
	static const struct
	{
		const char *section;
		void (*bench)(const Entries<Key> &, Buffers &);
	} all[] = {
		{"sizes", bench_sizes<Key>},
		{"fanouts", bench_fanouts<Key>},
		{"psa", bench_psa<Key>},
		{"ntg", bench_ntg<Key>},
		{"steps", bench_steps<Key>},
		{"ranges", bench_ranges<Key>},
		{"break_even", bench_break_even<Key>},
		{"rivals", bench_rivals<Key>},
		{"cpu_steps", bench_cpu_steps<Key>},
		{"cpu_psa", bench_cpu_psa<Key>},
	};

	if (std::none_of(std::begin(all), std::end(all),
					 [](const auto &one) { return wanted(one.section); }))
		return;

	Entries<Key> entries(entry_count, false);

	for (const auto &one : all)
	{
		if (wanted(one.section))
			one.bench(entries, buffers);
	}
	if (wanted("sizes"))
		bench_sizes(Entries<Key>(entry_count, true), buffers);
}

template <typename Key>
static void
run_small(Buffers &buffers)
{
	if (wanted("brute"))
		bench_brute<Key>(buffers);
	if (wanted("cpu_brute"))
		bench_cpu_brute<Key>();
}

static void
run_narrow()
{
	Buffers buffers(options.queries);

	for (int bits : options.widths)
	{
		for (int size : options.sizes)
		{
			if (bits == 64)
				run_large<uint64_t>(UINT64_C(1) << size, buffers);
			else
				run_large<uint32_t>(UINT64_C(1) << size, buffers);
		}
		if (bits == 64)
			run_small<uint64_t>(buffers);
		else
			run_small<uint32_t>(buffers);
	}
}

static void
run_wide()
{
	Buffers buffers(options.queries, sizeof(WideKey) / sizeof(uint64_t));

	for (int size : options.sizes)
	{
		for (bool serial : {false, true})
			bench_wide(Entries<WideKey>(UINT64_C(1) << size, serial), buffers);
	}
}

static bool
read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "d:q:r:n:w:")) != -1)
	{
		if (option == 'd' && strcmp(optarg, "host") == 0)
			options.host = true;
		else if (option == 'q')
			options.queries = (uint32_t) strtoul(optarg, nullptr, 0);
		else if (option == 'r')
			options.runs = atoi(optarg);
		else if (option == 'n')
			options.sizes.push_back(atoi(optarg));
		else if (option == 'w')
			options.widths.push_back(atoi(optarg));
		else
			return false;
	}
	for (; optind < argc; optind++)
	{
		if (std::find_if(std::begin(sections), std::end(sections),
						 [&](const char *section)
						 { return strcmp(section, argv[optind]) == 0; }) == std::end(sections))
			return false;
		if (strncmp(argv[optind], "cpu_", 4) == 0 && !options.host)
			return false;
		options.sections.push_back(argv[optind]);
	}
	if (options.sizes.empty())
		options.sizes = {23, 24, 25, 26};
	if (options.widths.empty())
		options.widths = {64, 32};
	for (int size : options.sizes)
	{
		if (size < 10 || size > 30)
			return false;
	}
	for (int bits : options.widths)
	{
		if (bits != 32 && bits != 64)
			return false;
	}
	return options.queries >= 1024 && options.runs >= 1;
}

int
main(int argc, char **argv)
{
	HdInfo info;

	if (!read_options(argc, argv))
	{
		fprintf(stderr, "usage: bench [-d host] [-q QUERIES] [-r RUNS] [-n LOG2_ENTRIES]... "
						"[-w KEY_BITS]... [SECTION]...\n");
		return 2;
	}
	CHECK(hd_device_open(options.host ? HD_HOST : HD_CUDA, 0, &device));
	CHECK(hd_device_info(device, &info));
	snprintf(device_name, sizeof(device_name), "%s", info.name);

	printf("suite,section,case,system,value,unit,runs,remark,device,details\n");
	run_narrow();
	if (wanted("wide"))
		run_wide();
	hd_device_close(device);
	return 0;
}
