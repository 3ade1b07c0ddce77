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
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
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

/* Identifies the socket's file, for remove_socket(). */
static struct stat own_socket;

void
Descriptor::set(int descriptor)
{
	if (fd >= 0)
		::close(fd);
	fd = descriptor;
}

Service::Service(const std::vector<Lanes> &opened, uint64_t memory_limit,
				 uint64_t host_memory_limit)
	: pins{std::min(pinned_max,
					(uint64_t) sysconf(_SC_PHYS_PAGES) / 8 * (uint64_t) sysconf(_SC_PAGESIZE))}
{
	struct rlimit descriptors;
	const char *piece = getenv("HARMONIA_PIECE");

	if (piece != nullptr)
		fixed_piece = (uint32_t) atoi(piece);
	clients_max = clients_limit;
	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
	{
		rlim_t own = descriptors.rlim_cur;

		/*
		 * Each client takes two descriptors, and the usual limit has room for fewer than a server
		 * has sessions.
		 */
		descriptors.rlim_cur = descriptors.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &descriptors) != 0)
			descriptors.rlim_cur = own;
		clients_max = std::min(clients_max, (size_t) descriptors.rlim_cur / 2);
	}
	indexes.host.limit = host_memory_limit;
	for (const Lanes &lanes : opened)
	{
		devices.emplace_back((int) devices.size(), lanes, memory_limit, indexes);
		for (size_t lane = 0; lane < lanes.size(); lane++)
			workers.emplace_back(*this, devices.back(), (int) lane);
	}
}

/* Clients go before the devices, which they use. */
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
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	mode_t mask;
	int bound;

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
	return std::chrono::duration_cast<std::chrono::microseconds>(
			   std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

void
Service::run(int control_connection)
{
	std::vector<std::thread> threads;

	control = control_connection;
	nudge.set(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	for (Worker &worker : workers)
	{
		if (&worker != &workers.front())
			threads.emplace_back([this, &worker] { work(worker); });
	}
	work(workers.front());
	for (std::thread &thread : threads)
		thread.join();
}

/* The supervisor's connection has ended: so does everything. */
void
Service::end()
{
	ended = true;
	for (Worker &worker : workers)
		worker.woken.notify_one();
	wake_looker();
}

/* How long may a thread wait for messages, in ms? */
int
Service::look_timeout(const Worker &worker)
{
	if (has_work(worker))
		return 0;
	for (const Client &client : clients)
	{
		if (client.ready || client.begun())
			return HP_WAITING_MS;
	}
	return -1;
}

/* Take clients out of the list that are gone, and that no device works for. */
void
Service::remove_gone(std::list<Client> &gone)
{
	for (auto i = clients.begin(); i != clients.end();)
	{
		auto client = i++;

		if (client->gone && !client->begun())
			gone.splice(gone.end(), clients, client);
	}
}

/*
 * Receive messages, and wait for some if the thread has nothing else to do.  Only the thread that
 * does this removes clients, so the others' descriptors stay what they are meanwhile.
 */
void
Service::look(Held &held, Worker &worker)
{
	std::vector<struct pollfd> polled;
	std::vector<Client *> owners;
	std::list<Client> gone;
	int timeout = look_timeout(worker);
	int events;
	uint64_t nudges;

	/* It may find something for others to do, and not be there to tell them later. */
	if (timeout != 0)
		wake_others(false);
	remove_gone(gone);
	polled.push_back({control, POLLIN | POLLRDHUP, 0});
	polled.push_back({listener.get(), POLLIN, 0});
	polled.push_back({nudge.get(), POLLIN, 0});
	for (Client &client : clients)
	{
		/*
		 * A client with a request sends nothing, as a rule; and it may have its reply before this
		 * poll ends.
		 */
		polled.push_back(
			{client.gone ? -1 : client.connection.get(), (short) (client.early ? 0 : POLLIN), 0});
		owners.push_back(&client);
	}
	looking = true;
	worker.state = Worker::LOOKING;
	held.unlock();
	gone.clear();
	events = poll(polled.data(), polled.size(), timeout);
	held.lock();
	looking = false;
	worker.state = Worker::WORKING;
	if (events > 0)
	{
		if (polled[0].revents != 0 && !receive_ping())
			end();
		answer_ping();
		if (polled[2].revents != 0 && read(nudge.get(), &nudges, sizeof(nudges)) == sizeof(nudges))
			nudged = false;
		for (size_t i = 0; i < owners.size(); i++)
			notice(*owners[i], polled[i + 3].revents);
		if ((polled[1].revents & POLLIN) != 0)
			accept();
	}
	end_stalled_syncs();
	tell_waiting();
}

/*
 * Receive a ping of the supervisor, if there is one.  Returns false if its connection has ended.
 * Each device that works has to give a sign of life, on each lane in use, before it is answered.
 */
bool
Service::receive_ping()
{
	char ping;
	ssize_t received = recv(control, &ping, sizeof(ping), MSG_DONTWAIT);

	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (received <= 0)
		return false;
	pinged = true;
	for (Worker &worker : workers)
		worker.owes_sign = worker.occupies;
	return true;
}

void
Service::answer_ping()
{
	HpReply reply = {};

	if (!pinged)
		return;
	for (const Worker &worker : workers)
	{
		if (worker.owes_sign)
			return;
	}
	pinged = false;
	describe(&reply, nullptr, name);

	/* It sends the next ping after this answer, so there is room. */
	(void) !send(control, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Note what poll() says of a client. */
void
Service::notice(Client &client, short events)
{
	if (client.gone)
		return;
	if ((events & (POLLHUP | POLLERR | POLLNVAL)) != 0)
		close(client);
	else if ((events & POLLIN) != 0 && (client.ready || client.begun()))
		client.early = true;
	else if ((events & POLLIN) != 0)
		receive(client);
}

void
Service::accept()
{
	Descriptor accepted(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
	struct ucred peer;
	socklen_t size = sizeof(peer);

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
		fprintf(stderr, "harmonia_gpud: rejected a client: there are already %zu clients\n",
				clients.size());
		return;
	}
	try
	{
		clients.emplace_back(devices.front().lanes.front(), pins);
	}
	catch (const std::bad_alloc &)
	{
		return;
	}
	clients.back().connection.swap(accepted);
}

/* Receive a request. */
void
Service::receive(Client &client)
{
	constexpr int descriptors_max = 8;
	union
	{
		struct cmsghdr header;
		char bytes[CMSG_SPACE(descriptors_max * sizeof(int))];
	} control;
	HpRequest request;
	struct iovec part = {&request, sizeof(request)};
	struct msghdr message = {};
	Descriptor passed;
	int descriptors = 0;
	ssize_t length;

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = control.bytes;
	message.msg_controllen = sizeof(control.bytes);
	length = recvmsg(client.connection.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	for (struct cmsghdr *header = length >= 0 ? CMSG_FIRSTHDR(&message) : nullptr;
		 header != nullptr; header = CMSG_NXTHDR(&message, header))
	{
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int))
		{
			int descriptor;

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
		fprintf(stderr,
				"harmonia_gpud: closed a connection: it sent a message of %zd bytes with %d "
				"descriptors\n",
				length, descriptors);
		close(client);
		return;
	}

	client.request = request;
	client.passed.swap(passed);
	client.ready = true;
	client.start = std::max(clock, client.end);
}

/* All devices have performed a client's request, or a piece of it: reply at its end. */
void
Service::finish(Client &client)
{
	HpReply &reply = client.reply;

	client.progress.time += client.longest;
	client.longest = 0;
	client.heard = now_ms();
	if (!client.broken.empty() && !client.gone)
	{
		fprintf(stderr, "harmonia_gpud: closed a connection that broke a rule: %s\n",
				client.broken.c_str());
		close(client);
	}
	if (client.gone)
	{
		end_sync(client, false);
		return;
	}
	if (client.unfinished)
	{
		client.ready = true;
		client.start = client.end;
		return;
	}
	complete(client);
	reply.busy_us = (uint32_t) std::min<int64_t>(client.progress.time, UINT32_MAX);
	client.progress = {};
	client.index = nullptr;
	client.passed.set(-1);
	if (client.early)
		wake_looker();
	client.early = false;
	if (send(client.connection.get(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT) !=
		sizeof(reply))
		close(client);
}

/* A device has failed while it performed a client's request. */
void
Service::fail(const Worker &worker, const Client &client)
{
	HpReply reply = {};

	reply.status = HP_FAILED;
	describe(&reply, nullptr, hd_device_error(worker.uses));
	fprintf(stderr, "harmonia_gpud: device %d: %s\n", worker.device.number, reply.text);
	(void) !send(client.connection.get(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);

	/*
	 * Do not clean up: the failed driver might crash or hang.  Nor do other devices matter: see
	 * run().
	 */
	_exit(1);
}

/*
 * Send HP_WAITING to waiting clients every HP_WAITING_MS, so that they do not time out.
 */
void
Service::tell_waiting()
{
	HpReply reply = {};

	reply.status = HP_WAITING;
	for (Client &client : clients)
	{
		if (client.gone || !client.waits || now_ms() - client.told < HP_WAITING_MS)
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
		if (client.sync == nullptr || client.ready || client.begun() ||
			now_ms() - client.heard < HP_SYNC_IDLE_MS || !is_waited_for(client))
			continue;
		fprintf(stderr, "harmonia_gpud: closed a connection: its client stopped in a sync that "
						"others wait for\n");
		close(client);
	}
}

/*
 * Close a client's connection.  A sync that it has not ended takes the copies with it, but not
 * before all devices have left off performing its request.
 */
void
Service::close(Client &client)
{
	client.gone = true;
	client.todo = 0;
	client.waits = client.ready = false;
	shutdown(client.connection.get(), SHUT_RDWR);
	if (!client.begun())
		end_sync(client, false);
}

} /* namespace harmonia */
