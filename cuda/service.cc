/*
 * service.cc
 *		The daemon's connections, and the messages on them.
 */
#include "service.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace harmonia
{

/*
 * The daemon serves at most this many clients, and no more than half of its limit of
 * descriptors.
 */
static constexpr size_t clients_limit = 1000;
static constexpr int backlog = 128;

/*
 * The staging memory that is pinned is at most this, and an eighth of the machine's memory:
 * pinned memory cannot be swapped out or used for anything else.  Transfers to and from the
 * rest are slower.
 */
static constexpr uint64_t pinned_max = UINT64_C(1) << 30;

/*
 * How long all pieces of a search may take.  The largest search that staging memory has room
 * for takes a GPU less than 0.1 s.
 */
static constexpr int64_t gpu_search_max_ms = 1000;
static constexpr int64_t host_search_max_ms = 20000;

/*
 * A piece of a search is to take a fifth of this.  If one takes longer, and others wait, it is
 * given up, and smaller ones are tried.
 */
static constexpr int64_t piece_max_ms = 100;

/* Identifies the socket's file, for remove_socket(). */
static struct stat own_socket;

void
Descriptor::set(int descriptor)
{
	if (fd >= 0)
		::close(fd);
	fd = descriptor;
}

Service::Service(HdDevice *on, uint64_t memory_limit, uint64_t host_memory_limit)
	: device(on), copies(on, memory_limit, host_memory_limit),
	pins{std::min(pinned_max, (uint64_t) sysconf(_SC_PHYS_PAGES) / 8 * (uint64_t) sysconf(_SC_PAGESIZE))}
{
	struct rlimit descriptors;

	const char *piece = getenv("HARMONIA_PIECE");

	if (piece != nullptr)
		fixed_piece = (uint32_t) atoi(piece);
	clients_max = clients_limit;
	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
		clients_max = std::min(clients_max, (size_t) descriptors.rlim_cur / 2);
}

/* Clients go before the copies, which they use. */
Service::~Service()
{
	clients.clear();
}

void
remove_socket()
{
	struct stat current;

	if (stat(HP_SOCKET, &current) == 0 && current.st_dev == own_socket.st_dev &&
		current.st_ino == own_socket.st_ino)
		unlink(HP_SOCKET);
}

bool
Service::listen()
{
	struct sockaddr_un address = {};
	int			fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	mode_t		mask;
	int			bound;

	listener.set(fd);
	if (fd < 0)
		return false;
	address.sun_family = AF_UNIX;
	strcpy(address.sun_path, HP_SOCKET);
	static_assert(sizeof(HP_SOCKET) <= sizeof(address.sun_path), "room for the address");

	/* Remove the socket of a previous daemon. */
	unlink(HP_SOCKET);
	mask = umask(S_IXUSR | S_IRWXG | S_IRWXO);
	bound = bind(fd, (struct sockaddr *) &address, sizeof(address));
	umask(mask);
	return bound == 0 && stat(HP_SOCKET, &own_socket) == 0 && ::listen(fd, backlog) == 0;
}

int64_t
now_us()
{
	return std::chrono::duration_cast<std::chrono::microseconds>
		(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static int64_t
now_ms()
{
	return now_us() / 1000;
}

bool
Service::run(int control_connection)
{
	std::vector<struct pollfd> polled;
	std::vector<Client *> owners;

	control = control_connection;
	hd_device_set_goes_on(device, [](void *service) { return ((Service *) service)->goes_on(); }, this);
	while (!device_failed)
	{
		bool		client_waits = false;
		bool		unfinished = false;

		polled.clear();
		owners.clear();
		polled.push_back({control, POLLIN | POLLRDHUP, 0});
		polled.push_back({listener.get(), POLLIN, 0});
		for (Client &client : clients)
		{
			/* From a waiting client, notice only the end of its connection. */
			polled.push_back({client.connection.get(), (short) (client.waits ? 0 : POLLIN), 0});
			owners.push_back(&client);
			client_waits |= client.waits;
			unfinished |= client.unfinished && client.ready;
		}

		if (poll(polled.data(), polled.size(), unfinished ? 0 : client_waits ? HP_WAITING_MS : -1) < 0)
			continue;
		if (polled[0].revents != 0 && !answer_ping())
			return true;
		for (size_t i = 0; i < owners.size(); i++)
			notice(*owners[i], polled[i + 2].revents);
		serve_next();
		end_stalled_syncs();
		serve_waiting();
		tell_waiting();
		clients.remove_if([](const Client &client) { return client.connection.get() < 0; });
		if ((polled[1].revents & POLLIN) != 0)
			accept();
	}
	return false;
}

/* Answer a ping of the supervisor.  Returns false if its connection has ended. */
bool
Service::answer_ping()
{
	HpReply		reply = {};
	char		ping;
	ssize_t		received = recv(control, &ping, sizeof(ping), MSG_DONTWAIT);

	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (received <= 0)
		return false;
	describe(&reply, nullptr, info.name);

	/* It sends the next ping after this answer, so there is room. */
	(void) !send(control, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
	return true;
}

/* Does a client other than the current one have a request, or someone want to connect? */
bool
Service::others_wait()
{
	std::vector<struct pollfd> polled = {{listener.get(), POLLIN, 0}};

	for (const Client &client : clients)
	{
		if (&client == current)
			continue;
		if (client.ready)
			return true;
		if (!client.waits)
			polled.push_back({client.connection.get(), POLLIN, 0});
	}
	return poll(polled.data(), polled.size(), 0) > 0;
}

/*
 * Called by the device while it performs a request: is that still wanted?  Not if the client or
 * the supervisor has gone; nor if a search takes so long that it must be damaged pages, or equal
 * keys, that keep the device from other clients' requests.  A piece that takes too long gives way
 * to others, if it can be divided.
 */
bool
Service::goes_on()
{
	struct pollfd polled[] = {
		{control, POLLIN | POLLRDHUP, 0},
		{current != nullptr ? current->connection.get() : -1, POLLRDHUP, 0}
	};

	if (poll(polled, 2, 0) > 0 &&
		((polled[0].revents != 0 && !answer_ping()) || polled[1].revents != 0))
		return false;
	if (current == nullptr || current->request.operation != HP_SEARCH)
		return true;

	int64_t		taken = now_ms() - current_since;

	too_long = current->progress.time / 1000 + taken >
		(info.kind == HD_CUDA ? gpu_search_max_ms : host_search_max_ms);
	gives_way = !too_long && current_piece > piece_min() && taken > piece_max_ms && others_wait();
	return !too_long && !gives_way;
}

/* Note what poll() says of a client. */
void
Service::notice(Client &client, short events)
{
	if ((events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
		close(client);
	else if ((events & POLLIN) != 0 && !client.ready)
	{
		client.ready = true;
		client.start = std::max(clock, client.end);
	}
}

/* Receive and perform the next request, or the next piece of one, if there is any. */
void
Service::serve_next()
{
	Client	   *next = nullptr;

	for (Client &client : clients)
	{
		if (client.ready && (next == nullptr || client.start < next->start))
			next = &client;
	}
	if (next == nullptr)
		return;
	next->ready = false;
	if (next->unfinished)
		serve_or_wait(*next, Descriptor());
	else
		receive(*next);
}

void
Service::accept()
{
	Descriptor	accepted(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
	struct ucred peer;
	socklen_t	size = sizeof(peer);

	if (accepted.get() < 0)
	{
		/* If resources are short, pause before the next attempt. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			poll(nullptr, 0, 10);
		return;
	}
	if (getsockopt(accepted.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
		peer.uid != geteuid())
	{
		fprintf(stderr, "harmonia_gpud: rejected a client of another user\n");
		return;
	}
	if (clients.size() >= clients_max)
	{
		fprintf(stderr, "harmonia_gpud: rejected a client: there are already %zu clients\n", clients.size());
		return;
	}
	try
	{
		clients.emplace_back(device, pins);
	}
	catch (const std::bad_alloc &)
	{
		return;
	}
	clients.back().connection.swap(accepted);
}

/* Receive a request; perform it, unless it has to wait. */
void
Service::receive(Client &client)
{
	constexpr int descriptors_max = 8;
	union
	{
		struct cmsghdr header;
		char		bytes[CMSG_SPACE(descriptors_max * sizeof(int))];
	}			control;
	HpRequest	request;
	struct iovec part = {&request, sizeof(request)};
	struct msghdr message = {};
	Descriptor	passed;
	int			descriptors = 0;
	ssize_t		length;

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = control.bytes;
	message.msg_controllen = sizeof(control.bytes);
	length = recvmsg(client.connection.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	for (struct cmsghdr *header = length >= 0 ? CMSG_FIRSTHDR(&message) : nullptr; header != nullptr;
		 header = CMSG_NXTHDR(&message, header))
	{
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int))
		{
			int			descriptor;

			/* Keep only the last descriptor; set() closes the previous one. */
			memcpy(&descriptor, CMSG_DATA(header) + at, sizeof(int));
			passed.set(descriptor);
			descriptors++;
		}
	}
	if (length <= 0)
	{
		close(client);
		return;
	}
	if (length != sizeof(request) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
		descriptors > 1)
	{
		fprintf(stderr, "harmonia_gpud: closed a connection: it sent a message of %zd bytes with %d descriptors\n",
				length, descriptors);
		close(client);
		return;
	}

	client.request = request;
	serve_or_wait(client, passed);
}

/* Perform a client's request, or note that it has to wait. */
void
Service::serve_or_wait(Client &client, const Descriptor &passed)
{
	if (client.greeted && passed.get() < 0 && is_blocked(client))
	{
		client.waits = true;
		client.waits_since = ++waits;
		client.told = now_ms();
	}
	else
		serve(client, passed);
}

/*
 * Perform a client's request, or a piece of it, and reply at its end.  Closes the connection if
 * the client breaks a rule.
 */
void
Service::serve(Client &client, const Descriptor &passed)
{
	HpReply		reply;
	int64_t		begin = now_us();

	client.waits = client.unfinished = false;
	clock = std::max(clock, client.start);
	current = &client;
	current_since = begin / 1000;
	current_piece = 0;
	too_long = gives_way = false;
	try
	{
		perform(client, passed, &reply);
	}
	catch (const ClientGone &)
	{
		close(client);
		return;
	}
	catch (const BrokenRule &broken)
	{
		fprintf(stderr, "harmonia_gpud: closed a connection that broke a rule: %s\n", broken.rule);
		close(client);
		return;
	}
	current = nullptr;
	client.heard = now_ms();
	client.end = clock + now_us() - begin;
	if (client.unfinished)
	{
		client.progress.time += now_us() - begin;
		client.ready = true;
		client.start = client.end;
		return;
	}
	reply.busy_us = (uint32_t) std::min<int64_t>(client.progress.time + now_us() - begin, UINT32_MAX);
	client.progress = {};
	if (reply.status == HP_FAILED)
	{
		fprintf(stderr, "harmonia_gpud: %s\n", reply.text);
		device_failed = true;
	}
	if (send(client.connection.get(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(reply))
		close(client);
}

/*
 * Serve clients whose requests need not wait any longer; the longest waiting one first.
 */
void
Service::serve_waiting()
{
	while (!device_failed)
	{
		Client	   *first = nullptr;

		for (Client &client : clients)
		{
			if (client.waits && !is_blocked(client) &&
				(first == nullptr || client.waits_since < first->waits_since))
				first = &client;
		}
		if (first == nullptr)
			return;
		serve(*first, Descriptor());
	}
}

/*
 * Send HP_WAITING to waiting clients every HP_WAITING_MS, so that they do not time out.
 */
void
Service::tell_waiting()
{
	HpReply		reply = {};

	reply.status = HP_WAITING;
	for (Client &client : clients)
	{
		if (!client.waits || now_ms() - client.told < HP_WAITING_MS)
			continue;
		client.told = now_ms();

		/* Ignore errors: a client that does not read has enough of these messages. */
		(void) !send(client.connection.get(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
	}
}

/*
 * Close the connections of clients that pause in a sync while others wait for its end: a stopped
 * process, or one that waits for something itself.
 */
void
Service::end_stalled_syncs()
{
	for (Client &client : clients)
	{
		if (client.sync == nullptr || client.ready || now_ms() - client.heard < HP_SYNC_IDLE_MS ||
			!is_waited_for(client))
			continue;
		fprintf(stderr, "harmonia_gpud: closed a connection: its client stopped in a sync that others wait for\n");
		close(client);
	}
}

/* Close a client's connection.  A sync that it has not ended takes the copy with it. */
void
Service::close(Client &client)
{
	end_sync(client, false);
	client.staging.unmap();
	client.waits = client.ready = client.unfinished = false;
	if (current == &client)
		current = nullptr;
	client.connection.set(-1);
}

}								/* namespace harmonia */
