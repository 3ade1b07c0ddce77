/*
 * gpud.cc
 *		harmonia_gpud, the device daemon: searches copies of indexes for PostgreSQL.
 *
 * usage: harmonia_gpud --device=auto|cuda|host [--devices=all|NUMBER,...] [--memory=MB]
 * [--host-memory=MB]
 *
 * The server's supervisor starts it in the data directory, with a connection to itself
 * as descriptor HP_CONTROL_FD. src/device/protocol.h describes the protocol on that
 * connection and on the socket.  Messages to stderr go to the server's log.
 *
 * "devices" are those to use, by default the first one, 0.  Those that cannot be opened are left
 * out. "memory" limits the memory of all copies on each device; 0, the default, allows nearly all
 * of the device's memory.  "host-memory" is what copies on all devices together may take of the
 * machine's beyond that, by default nothing.  Tests set HARMONIA_PIECE to have searches performed
 * in pieces of so many probes, and HARMONIA_LANES to have so many lanes on each device. "auto"
 * means CUDA: the host device is only for tests, as backends themselves search faster.
 */
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "service.h"

using namespace harmonia;

namespace
{

/*
 * So many searches at once on each GPU: while one is in the driver, on the bus, or waits, another
 * one can use the GPU.  The host device has no bus, and its searches take processors from the
 * tests.
 */
constexpr int gpu_lanes = 2;
constexpr int host_lanes = 1;

struct Options
{
	HdKind kind;
	std::vector<int> numbers; /* of devices; empty: all of them */
	uint64_t memory;          /* bytes */
	uint64_t host_memory;
};

[[noreturn]] void
usage()
{
	fprintf(
		stderr,
		"usage: harmonia_gpud --device=auto|cuda|host [--devices=all|NUMBER,...] [--memory=MB]\n"
		"		[--host-memory=MB]\n"
		"PostgreSQL starts this program.\n");
	exit(2);
}

uint64_t
parse_megabytes(const char *text)
{
	char *end;
	unsigned long long megabytes;

	errno = 0;
	megabytes = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || megabytes > UINT64_MAX >> 20)
		usage();
	return megabytes << 20;
}

/* Parse "all", or different numbers. */
std::vector<int>
parse_devices(const char *text)
{
	std::vector<int> numbers;

	if (strcmp(text, "all") == 0)
		return numbers;
	for (;;)
	{
		char *end;
		long number = strtol(text, &end, 10);

		if (end == text || number < 0 || number >= HD_MAX_DEVICES ||
			(*end != '\0' && *end != ',') ||
			std::find(numbers.begin(), numbers.end(), (int) number) != numbers.end())
			usage();
		numbers.push_back((int) number);
		if (*end == '\0')
			return numbers;
		text = end + 1;
	}
}

Options
parse(int argc, char **argv)
{
	static const struct option known[] = {{"device", required_argument, nullptr, 'd'},
										  {"devices", required_argument, nullptr, 'n'},
										  {"memory", required_argument, nullptr, 'm'},
										  {"host-memory", required_argument, nullptr, 'h'},
										  {}};
	Options options = {HD_CUDA, {0}, 0, 0};
	bool has_device = false;

	for (int option; (option = getopt_long(argc, argv, "", known, nullptr)) != -1;)
	{
		if (option == 'd')
		{
			has_device = true;
			options.kind = strcmp(optarg, "host") == 0 ? HD_HOST : HD_CUDA;
			if (options.kind == HD_CUDA && strcmp(optarg, "cuda") != 0 &&
				strcmp(optarg, "auto") != 0)
				usage();
		}
		else if (option == 'n')
			options.numbers = parse_devices(optarg);
		else if (option == 'm')
			options.memory = parse_megabytes(optarg);
		else if (option == 'h')
			options.host_memory = parse_megabytes(optarg);
		else
			usage();
	}
	if (!has_device || optind != argc)
		usage();
	return options;
}

/*
 * SIGTERM: the supervisor has died (PR_SET_PDEATHSIG), or an administrator has sent the signal.
 * End at once: a daemon that waits for its device does not notice the end of a
 * connection.
 */
void
end_at_once(int)
{
	remove_socket();
	_exit(1);
}

/*
 * Undo the settings that were inherited from the server, and close its descriptors.  An
 * open descriptor would keep the space of a deleted file allocated as long as the
 * daemon lives.
 */
void
leave_server()
{
	sigset_t none;
	std::vector<int> inherited;
	DIR *folder = opendir("/proc/self/fd");

	/* Signals from a terminal are for the server, which then ends the daemon. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, end_at_once);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, nullptr);
	prctl(PR_SET_PDEATHSIG, SIGTERM);

	if (folder == nullptr)
		return;
	while (const struct dirent *entry = readdir(folder))
	{
		int descriptor = atoi(entry->d_name);

		if (descriptor > HP_CONTROL_FD && descriptor != dirfd(folder))
			inherited.push_back(descriptor);
	}
	closedir(folder);
	for (int descriptor : inherited)
		close(descriptor);
	fcntl(HP_CONTROL_FD, F_SETFD, FD_CLOEXEC);
}

/* Send a message to the supervisor; if it is an error, also log it. */
bool
tell(const HpReply &reply)
{
	if (reply.status != HP_OK)
		fprintf(stderr, "harmonia_gpud: %s\n", reply.text);
	return send(HP_CONTROL_FD, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply) &&
		   reply.status == HP_OK;
}

HpReply
failure(const char *text)
{
	HpReply reply = {};

	reply.status = HP_FAILED;
	snprintf(reply.text, sizeof(reply.text), "%.*s", (int) sizeof(reply.text) - 1, text);
	return reply;
}

/* Open more lanes of a device.  If one cannot be opened, the device has fewer. */
void
open_lanes(HdKind kind, int number, Lanes &lanes)
{
	const char *wanted = getenv("HARMONIA_LANES");
	size_t count = (size_t) (wanted != nullptr ? atoi(wanted) :
							 kind == HD_HOST   ? host_lanes :
												 gpu_lanes);

	while (lanes.size() < std::min(count, Copies::lanes_max))
	{
		HdDevice *lane;

		if (hd_device_open(kind, number, &lane) == HD_OK)
		{
			lanes.push_back(lane);
			continue;
		}
		fprintf(stderr, "harmonia_gpud: device %d has %zu lanes only: %s\n", number, lanes.size(),
				lane != nullptr ? hd_device_error(lane) : "out of memory");
		hd_device_close(lane);
		return;
	}
}

/*
 * Open devices, as many as can be opened.  If there are none, tells the supervisor why the last one
 * could not be.
 */
std::vector<Lanes>
open_devices(const Options &options)
{
	std::vector<int> numbers = options.numbers;
	std::vector<Lanes> devices;
	char text[sizeof(HpReply::text)] = "there is no device";

	for (int i = 0;
		 options.numbers.empty() && i < std::min(hd_device_count(options.kind), HD_MAX_DEVICES);
		 i++)
		numbers.push_back(i);

	/* Why there are none, the first one knows best. */
	if (numbers.empty())
		numbers.push_back(0);
	for (int number : numbers)
	{
		HdDevice *device;
		HdInfo info;

		if (hd_device_open(options.kind, number, &device) == HD_OK &&
			hd_device_info(device, &info) == HD_OK)
		{
			devices.push_back({device});
			open_lanes(options.kind, number, devices.back());
			continue;
		}
		snprintf(text, sizeof(text), "%.*s", (int) sizeof(text) - 1,
				 device != nullptr ? hd_device_error(device) : "out of memory");
		if (numbers.size() > 1)
			fprintf(stderr, "harmonia_gpud: device %d is left out: %s\n", number, text);
		hd_device_close(device);
	}
	if (devices.empty())
		tell(failure(text));
	return devices;
}

/* Serve on devices until the supervisor ends.  Returns false on failure. */
bool
serve(const std::vector<Lanes> &devices, const Options &options)
{
	Service service(devices, options.memory, options.host_memory);

	if (!service.listen())
	{
		char text[128];

		snprintf(text, sizeof(text), "could not listen on \"%s\": %s", HP_SOCKET, strerror(errno));
		tell(failure(text));
		return false;
	}
	if (!tell(service.ready()))
		return false;
	service.run(HP_CONTROL_FD);
	remove_socket();
	return true;
}

} /* namespace */

int
main(int argc, char **argv)
{
	Options options = parse(argc, argv);
	std::vector<Lanes> devices;
	bool served;

	leave_server();

	/* No batch is to wait, and to be measured, while CUDA loads the code that it needs. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	devices = open_devices(options);
	served = !devices.empty() && serve(devices, options);
	for (const Lanes &lanes : devices)
	{
		for (HdDevice *lane : lanes)
			hd_device_close(lane);
	}
	return served ? 0 : 1;
}
