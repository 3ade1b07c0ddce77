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

Service::Service(const std::vector<HdDevice *> &devices, uint64_t memory_limit, uint64_t host_memory_limit)
	: pins{std::min(pinned_max, (uint64_t) sysconf(_SC_PHYS_PAGES) / 8 * (uint64_t) sysconf(_SC_PAGESIZE))}
{
	struct rlimit descriptors;
	const char *piece = getenv("HARMONIA_PIECE");

	if (piece != nullptr)
		fixed_piece = (uint32_t) atoi(piece);
	clients_max = clients_limit;
	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
		clients_max = std::min(clients_max, (size_t) descriptors.rlim_cur / 2);
	indexes.host.limit = host_memory_limit;
	for (HdDevice *device : devices)
		workers.emplace_back(*this, (int) workers.size(), device, memory_limit, indexes);
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

void
Service::run(int control_connection)
{
	std::vector<std::thread> threads;

	control = control_connection;
	nudge.set(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	for (Worker &worker : workers)
	{
		hd_device_set_goes_on(worker.device, goes_on_call, &worker);
		if (worker.number > 0)
			threads.emplace_back([this, &worker] { work(worker); });
	}
	work(workers.front());
	for (std::thread &thread : threads)
		thread.join();
}

/* What the thread of a device does until the end. */
void
Service::work(Worker &worker)
{
	Held		held(indexes.lock);

	while (!ended)
	{
		Client	   *next;

		worker.owes_sign = false;
		answer_ping();
		wake_others(false);
		if (worker.sweeps)
		{
			worker.sweeps = false;
			held.unlock();
			worker.copies.sweep();
			held.lock();
		}
		if (!looking)
		{
			look(held, worker);
			wake_others(false);
		}
		next = ended ? nullptr : choose(worker);
		if (next != nullptr)
			serve(held, worker, *next);
		else if (looking && !worker.sweeps && !ended)
		{
			worker.state = Worker::SLEEPING;
			worker.woken.wait(held);
			worker.state = Worker::WORKING;
		}
	}
}

/*
 * Wake the threads of other devices that have something to do.  With needs_looker one of those that sleep
 * is to look for messages, unless a thread does.
 */
void
Service::wake_others(bool needs_looker)
{
	needs_looker &= !looking;
	for (Worker &other : workers)
	{
		if (other.state == Worker::SLEEPING && (needs_looker || has_work(other)))
		{
			other.woken.notify_one();
			needs_looker = false;
		}
		else if (other.state == Worker::LOOKING && !nudged && has_work(other))
			wake_looker();
	}
}

/* End the poll of the thread that looks for messages, if there is one. */
void
Service::wake_looker()
{
	uint64_t	one = 1;

	if (looking)
		nudged = write(nudge.get(), &one, sizeof(one)) == sizeof(one);
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

bool
Service::has_work(const Worker &worker)
{
	return worker.sweeps || choose(worker) != nullptr;
}

/* How long may a thread wait for messages, in ms? */
int
Service::look_timeout(Worker &worker)
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
		auto		client = i++;

		if (client->gone && !client->begun())
			gone.splice(gone.end(), clients, client);
	}
}

/*
 * Receive messages, and wait for some if the thread has nothing else to do.  Only the thread that does this removes
 * clients, so the others' descriptors stay what they are meanwhile.
 */
void
Service::look(Held &held, Worker &worker)
{
	std::vector<struct pollfd> polled;
	std::vector<Client *> owners;
	std::list<Client> gone;
	int			timeout = look_timeout(worker);
	int			events;
	uint64_t	nudges;

	remove_gone(gone);
	polled.push_back({control, POLLIN | POLLRDHUP, 0});
	polled.push_back({listener.get(), POLLIN, 0});
	polled.push_back({nudge.get(), POLLIN, 0});
	for (Client &client : clients)
	{
		/*
		 * A client with a request sends nothing, as a rule; and it may have its reply before this poll
		 * ends.
		 */
		polled.push_back({client.gone ? -1 : client.connection.get(), (short) (client.early ? 0 : POLLIN), 0});
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
 * Receive a ping of the supervisor, if there is one.  Returns false if its connection has ended.  Each device that works
 * has to give a sign of life before it is answered.
 */
bool
Service::receive_ping()
{
	char		ping;
	ssize_t		received = recv(control, &ping, sizeof(ping), MSG_DONTWAIT);

	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (received <= 0)
		return false;
	pinged = true;
	for (Worker &worker : workers)
		worker.owes_sign = worker.state == Worker::WORKING && worker.client != nullptr;
	return true;
}

void
Service::answer_ping()
{
	HpReply		reply = {};

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

/* Does a client other than the current one have a request for this device, or someone want to connect? */
bool
Service::others_wait(Worker &worker)
{
	std::vector<struct pollfd> polled = {{listener.get(), POLLIN, 0}};

	if (choose(worker) != nullptr)
		return true;

	/* Another thread, which is free, receives what comes. */
	if (looking)
		return false;
	for (const Client &client : clients)
	{
		if (!client.ready && !client.begun() && !client.gone)
			polled.push_back({client.connection.get(), POLLIN, 0});
	}
	return poll(polled.data(), polled.size(), 0) > 0;
}

bool
Service::goes_on_call(void *worker)
{
	return ((Worker *) worker)->service.goes_on(*(Worker *) worker);
}

/*
 * Called by the device while it performs a request: is that still wanted?  Not if the client or
 * the supervisor has gone; nor if a search takes so long that it must be damaged pages, or equal
 * keys, that keep the device from other clients' requests.  A piece that takes too long gives way
 * to others, if it can be divided.
 */
bool
Service::goes_on(Worker &worker)
{
	std::lock_guard<std::mutex> guard(indexes.lock);
	const Client *client = worker.client;
	struct pollfd polled[] = {
		{control, POLLIN | POLLRDHUP, 0},
		{client != nullptr && !client->gone ? client->connection.get() : -1, POLLRDHUP, 0}
	};
	int			events = poll(polled, 2, 0);

	if (events > 0 && polled[0].revents != 0 && !receive_ping())
		end();
	worker.owes_sign = false;
	answer_ping();
	if (ended || (client != nullptr && client->gone) || (events > 0 && polled[1].revents != 0))
		return false;
	if (client == nullptr || client->request.operation != HP_SEARCH)
		return true;

	int64_t		taken = now_ms() - worker.since;

	worker.too_long = client->progress.time / 1000 + taken > (is_gpu() ? gpu_search_max_ms : host_search_max_ms);
	worker.gives_way = !worker.too_long && worker.piece > piece_min() && taken > piece_max_ms && others_wait(worker);
	return !worker.too_long && !worker.gives_way;
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

/* Is a client's request to be begun, or gone on with, before another's? */
bool
Service::precedes(const Client &client, const Client &other) const
{
	if (client.waits || other.waits)
		return client.waits && (!other.waits || client.waits_since < other.waits_since);
	return client.start < other.start;
}

/*
 * Choose the next client that a device can do something for; NULL if there is none.  Requests that had to wait for a
 * sync come first, the longest waiting one before the others.  Notes which ones have to wait.
 */
Client *
Service::choose(const Worker &worker)
{
	Client	   *next = nullptr;

	for (Client &client : clients)
	{
		DeviceSet	able = client.todo;

		if (client.gone || (!client.ready && !client.begun()))
			continue;
		if (!client.begun())
		{
			if (is_blocked(client))
			{
				if (!client.waits)
				{
					client.waits = true;
					client.waits_since = ++waits;
					client.told = now_ms();
				}
				continue;
			}
			able = able_devices(client);
		}
		if ((able & set_of(worker.number)) != 0 && (next == nullptr || precedes(client, *next)))
			next = &client;
	}
	return next;
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
		clients.emplace_back(workers.front().device, pins);
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
	client.passed.swap(passed);
	client.ready = true;
	client.start = std::max(clock, client.end);
}

/* Begin a client's request, or perform a device's share of it. */
void
Service::serve(Held &held, Worker &worker, Client &client)
{
	if (!client.begun())
	{
		client.waits = client.ready = client.unfinished = false;
		clock = std::max(clock, client.start);
		client.end = clock;
		try
		{
			client.todo = begin(client, worker);
		}
		catch (const BrokenRule &rule)
		{
			client.broken = rule.rule;
		}
	}
	if ((client.todo & set_of(worker.number)) != 0)
		use_device(held, worker, client);
	if (!client.begun())
		finish(client);
}

/* Perform a device's share of a request.  The lock is released meanwhile. */
void
Service::use_device(Held &held, Worker &worker, Client &client)
{
	int64_t		begin = now_us();
	int64_t		time;
	bool		sweeps = worker.sweeps;
	bool		leaves = false;
	HpStatus	result = HP_OK;
	HdInfo		info = worker.info;
	const Copy *copy = nullptr;
	CopiedIndex::Held has = {};
	std::string broken;

	client.todo &= ~set_of(worker.number);
	client.doing |= set_of(worker.number);
	worker.client = &client;
	worker.since = begin / 1000;
	worker.piece = 0;
	worker.too_long = worker.gives_way = worker.sweeps = false;
	wake_others(true);
	held.unlock();
	try
	{
		if (sweeps)
			worker.copies.sweep();
		result = perform(worker, client, worker.copies.find(client.index));
	}
	catch (const ClientGone &)
	{
		leaves = true;
	}
	catch (const BrokenRule &rule)
	{
		broken = rule.rule;
	}
	copy = worker.copies.find(client.index);
	if (copy != nullptr)
		has = worker.copies.held(copy);

	/*
	 * Asking the device for its free memory is not free; do it only when copies have
	 * changed.
	 */
	if (result != HP_FAILED && (client.request.operation == HP_HELLO || worker.copies.memory() != worker.info_copies))
	{
		worker.info_copies = worker.copies.memory();
		if (hd_device_info(worker.device, &info) != HD_OK)
			result = HP_FAILED;
	}
	held.lock();

	time = now_us() - begin;
	client.doing &= ~set_of(worker.number);
	client.longest = std::max(client.longest, time);
	client.end += time;
	worker.client = nullptr;
	worker.info = info;
	if (result == HP_FAILED)
		fail(worker, client);
	if (copy != nullptr)
		client.index->held[worker.number] = has;
	if (!broken.empty())
		client.broken = broken;
	if (leaves)
		close(client);
	else
		note_result(worker, client, result);
}

/* All devices have performed a client's request, or a piece of it: reply at its end. */
void
Service::finish(Client &client)
{
	HpReply    &reply = client.reply;

	client.progress.time += client.longest;
	client.longest = 0;
	client.heard = now_ms();
	if (!client.broken.empty() && !client.gone)
	{
		fprintf(stderr, "harmonia_gpud: closed a connection that broke a rule: %s\n", client.broken.c_str());
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
	if (send(client.connection.get(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(reply))
		close(client);
}

/* A device has failed while it performed a client's request. */
void
Service::fail(Worker &worker, const Client &client)
{
	HpReply		reply = {};

	reply.status = HP_FAILED;
	describe(&reply, nullptr, worker.copies.error());
	fprintf(stderr, "harmonia_gpud: device %d: %s\n", worker.number, reply.text);
	(void) !send(client.connection.get(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);

	/* Do not clean up: the failed driver might crash or hang.  Nor do other devices matter: see run(). */
	_exit(1);
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
		if (client.sync == nullptr || client.ready || client.begun() || now_ms() - client.heard < HP_SYNC_IDLE_MS ||
			!is_waited_for(client))
			continue;
		fprintf(stderr, "harmonia_gpud: closed a connection: its client stopped in a sync that others wait for\n");
		close(client);
	}
}

/*
 * Close a client's connection.  A sync that it has not ended takes the copies with it, but not before all devices
 * have left off performing its request.
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

}								/* namespace harmonia */
