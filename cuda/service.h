/*
 * service.h
 *		The daemon's clients and their requests.
 *
 * service.cc handles connections and messages, lanes.cc decides whose turn it is, requests.cc
 * executes requests with syncs.cc and searches.cc.
 */
#ifndef HARMONIA_CUDA_SERVICE_H
#define HARMONIA_CUDA_SERVICE_H

#include <atomic>
#include <condition_variable>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "copies.h"

namespace harmonia
{

/* Owner of a file descriptor; closes it. */
class Descriptor
{
  public:
	explicit Descriptor(int descriptor = -1) : fd(descriptor)
	{
	}
	Descriptor(const Descriptor &) = delete;
	Descriptor &operator=(const Descriptor &) = delete;
	~Descriptor()
	{
		set(-1);
	}
	void set(int descriptor);
	void swap(Descriptor &other)
	{
		std::swap(fd, other.fd);
	}
	int get() const
	{
		return fd;
	}

  private:
	int fd;
};

/*
 * Thrown if a client breaks a rule; the daemon then closes its connection and logs the
 * rule.
 */
struct BrokenRule
{
	const char *rule;
};

/* Throws BrokenRule if a client breaks the rule, which is a constant string. */
inline void
require(bool good, const char *rule)
{
	if (!good)
		throw BrokenRule{rule};
}

/* Thrown if a client has gone while its request was performed. */
struct ClientGone
{
};

/* What all clients together may pin. */
struct PinBudget
{
	uint64_t limit; /* bytes */
	std::atomic<uint64_t> pinned{0};
};

/*
 * Staging memory that a client shares with the daemon; pinned if the device can do
 * that, and if that leaves all clients within their budget.
 */
class Staging
{
  public:
	Staging(HdDevice *on, PinBudget &pins) : device(on), budget(pins)
	{
	}
	Staging(const Staging &) = delete;
	Staging &operator=(const Staging &) = delete;
	~Staging()
	{
		unmap();
	}

	/*
	 * Map the memory behind a descriptor and unmap the previous one.  Returns false if
	 * there is no address space or memory; throws BrokenRule if the memory is not as
	 * required.
	 */
	bool map(int memory, uint64_t bytes);

	void unmap();

	bool is_pinned() const
	{
		return pinned;
	}

	/* Address of "count" items of a size at an offset; throws BrokenRule. */
	void *at(uint64_t offset, uint64_t count, size_t item) const;

  private:
	HdDevice *device;
	PinBudget &budget;
	char *start = nullptr;
	uint64_t size = 0;
	bool pinned = false;
};

/* A clock that never goes back, in us and ms. */
int64_t now_us();
inline int64_t
now_ms()
{
	return now_us() / 1000;
}

/*
 * Remove the socket that Service::listen() made, unless another daemon has replaced it.
 * May be called by a signal handler.
 */
void remove_socket();

/* How far a client's search has come, and what it has found so far. */
struct SearchProgress
{
	uint32_t probes = 0;
	HdResult found = {};
	int64_t time = 0;       /* that it has taken, in us */
	bool by_itself = false; /* it is not searched together with others */
};

struct Client
{
	Descriptor connection;
	Staging staging;
	bool greeted = false;     /* HP_HELLO came */
	bool gone = false;        /* it is removed once no device works for it */
	bool waits = false;       /* the request waits for another client's sync */
	uint64_t waits_since = 0; /* value of Service.waits when the wait began */
	int64_t told = 0;         /* when HP_WAITING was last sent, in ms */
	int64_t heard = 0;        /* when its last request was performed, in ms */
	HpRequest request = {};
	Descriptor passed;  /* came with the request */
	bool early = false; /* more has come before the reply was sent */
	IndexPointer sync;  /* index in this client's sync, or NULL */

	/*
	 * A request that has begun.  Its index may be NULL.  The devices that have yet to perform it,
	 * and those that do at the moment.
	 */
	IndexPointer index;
	DeviceSet todo = 0;
	DeviceSet doing = 0;
	HpReply reply = {};  /* what it has come to so far */
	std::string broken;  /* the rule that it breaks */
	int64_t longest = 0; /* time that a device has taken for it, in us */

	/*
	 * What the request, or the next piece of it, needs of each device that performs it: the device
	 * for itself.  Otherwise requests of other clients may be performed there at the same time.
	 */
	bool alone = false;

	/*
	 * A search is performed in pieces.  Between them, it is other clients' turn.  Only the thread
	 * that performs a piece uses this meanwhile.
	 */
	bool unfinished = false; /* the request is a search with pieces left */
	SearchProgress progress;
	uint32_t piece = 0; /* number of probes that take some ms; 0: unknown */
	bool slow = false;  /* its last search by itself took long, however few its probes were */

	/*
	 * The devices' time is shared by start-time fair queueing: of the clients with a
	 * request, the one with the earliest start is next.  A start is the end of the
	 * client's last request, in time of its own, in us; but never before the start of
	 * the request that was begun last, so that pauses earn nothing.
	 */
	bool ready = false; /* there is a request, or a piece, to begin */
	int64_t start = 0;
	int64_t end = 0;

	Client(HdDevice *device, PinBudget &pins) : staging(device, pins)
	{
	}
	bool begun() const
	{
		return (todo | doing) != 0;
	}
};

/*
 * Clients whose requests a lane performs at once: one, or some with small searches of the same
 * index.
 */
struct Party
{
	Client *clients[HD_TOGETHER_MAX];
	HpStatus results[HD_TOGETHER_MAX] = {};
	int count = 0;
	/* It takes microseconds, so no thread is woken to look for others' requests meanwhile. */
	bool quick = false;

	void add(Client &client)
	{
		clients[count++] = &client;
	}
};

class Service;

/* The lanes of a device: as many times it has been opened. */
using Lanes = std::vector<HdDevice *>;

/* A device. */
struct Device
{
	int number;
	Lanes lanes;
	Copies copies;
	HdInfo info = {};
	uint64_t info_copies = 0; /* memory of the copies when info was read */
	bool sweeps = false;      /* there may be copies to free */
	int busy = 0;             /* number of lanes that use it */
	bool alone = false;       /* one does, and no other one may begin */
	uint32_t crowded = 0;     /* so many of the next searches are made alone */

	Device(int device_number, const Lanes &of, uint64_t memory_limit, Indexes &indexes)
		: number(device_number), lanes(of), copies(of, device_number, memory_limit, indexes)
	{
	}
};

/* A lane of a device, and the thread that uses it. */
struct Worker
{
	Service &service;
	Device &device;
	int lane;
	HdDevice *uses; /* its lane, or the first one while it has the device for itself */

	/* What the thread does. */
	enum
	{
		WORKING,
		LOOKING, /* it waits for messages, on behalf of all */
		SLEEPING /* it waits for "woken" */
	} state = WORKING;
	std::condition_variable woken;
	bool occupies = false;  /* it uses the device, without the lock */
	bool owes_sign = false; /* of life, since the last ping */

	/* The client whose request it performs, the first one of a party; or NULL. */
	Client *client = nullptr;
	int members = 0;        /* of the party */
	int64_t since = 0;      /* in ms */
	uint32_t piece = 0;     /* probes that could be searched in smaller pieces */
	bool too_long = false;  /* it is abandoned for that reason */
	bool gives_way = false; /* or because other clients wait */
	bool crowded = false;   /* there was not enough memory for batches of several lanes */

	Worker(Service &of, Device &on, int number)
		: service(of), device(on), lane(number), uses(on.lanes[(size_t) number])
	{
	}
};

/*
 * Each lane of each device has a thread, the main thread among them.  A thread that has nothing to
 * do for its device looks for messages; if another one does, it sleeps.  The one that receives a
 * request performs it, if its device can.  So no request of a single client changes hands.
 *
 * Lanes of a device search at the same time.  Whatever changes its copies, or needs more memory for
 * them, is done by one lane while no other one uses the device.
 *
 * Indexes.lock protects everything here, too.  Threads release it to poll, and while they use a
 * device.
 */
class Service
{
  public:
	/*
	 * There must be 1 to HD_MAX_DEVICES devices, all of one kind, with 1 to Copies::lanes_max lanes
	 * each.
	 */
	Service(const std::vector<Lanes> &opened, uint64_t memory_limit, uint64_t host_memory_limit);
	~Service();

	/* Listen on HP_SOCKET.  Returns false and sets errno on failure. */
	bool listen();

	/* The message that tells the supervisor that the daemon is ready. */
	HpReply ready();

	/*
	 * Serve clients until the supervisor's connection ends.  If a device fails, this ends the
	 * process: no call of CUDA can be relied on after that, not even for other devices.
	 */
	void run(int control_connection);

  private:
	Indexes indexes;
	std::list<Device> devices;
	std::list<Worker> workers;
	char name[sizeof(HpReply::text)] = ""; /* of the devices */
	PinBudget pins;
	int control = -1;
	Descriptor listener;
	Descriptor nudge; /* ends the poll of the thread that looks */
	bool nudged = false;
	bool looking = false; /* a thread does */
	bool ended = false;   /* the supervisor's connection has */
	bool pinged = false;  /* a ping has no answer yet */
	std::list<Client> clients;
	uint64_t waits = 0;      /* how often a request had to wait */
	uint64_t last_sync = 0;  /* number of the last sync that was begun */
	uint64_t generation = 0; /* of the last HP_HELLO, if there was one */
	bool has_generation = false;
	size_t clients_max;
	HdKind kind = HD_HOST;    /* of all devices */
	int64_t clock = 0;        /* start of the request that was begun last */
	uint32_t fixed_piece = 0; /* tests: the size of all pieces */

	using Held = std::unique_lock<std::mutex>;

	/* service.cc */
	void end();
	void look(Held &held, Worker &worker);
	int look_timeout(const Worker &worker);
	void remove_gone(std::list<Client> &gone);
	bool receive_ping();
	void answer_ping();
	void accept();
	void notice(Client &client, short events);
	void receive(Client &client);
	void finish(Client &client);
	[[noreturn]] void fail(const Worker &worker, const Client &client);
	void tell_waiting();
	void end_stalled_syncs();
	void close(Client &client);

	/* lanes.cc */
	enum class Need
	{
		NOTHING, /* no device */
		SHARE,   /* a lane */
		ALL      /* a device, of which no other lane is used */
	};

	void work(Worker &worker);
	void sweep(Held &held, Worker &worker);
	void occupy(Worker &worker, bool alone);
	void leave(Worker &worker);
	bool can_sweep(const Device &device) const;
	void wake_others(bool needs_looker);
	void wake_looker();
	bool others_are_active(const Client *client) const;
	Worker *sleeping_looker();
	static bool goes_on_call(void *worker);
	bool goes_on(Worker &worker);
	bool others_wait(const Worker &worker);
	bool has_work(const Worker &worker);
	Need need_of(const Device &device, const Client &client);
	bool can_begin(const Device &device, const Client &client);
	Client *first(const Device &device);
	Client *choose(const Device &device);
	bool precedes(const Client &client, const Client &other) const;
	void serve(Held &held, Worker &worker, Client &client);
	void begin_request(Client &client, const Device &device, bool turn);
	void gather(Device &device, Party &party);
	struct Work;
	void begin_work(Worker &worker, Party &party, Work &work);
	void do_work(Worker &worker, Party &party, Work &work);
	void end_work(Worker &worker, Party &party, const Work &work);
	void use_device(Held &held, Worker &worker, Party &party);

	/* requests.cc: the lock is held */
	bool is_blocked(const Client &client);
	bool is_waited_for(const Client &client);
	DeviceSet all_devices() const;
	DeviceSet able_devices(const Client &client);
	DeviceSet begin(Client &client, const Device &device);
	void hello(Client &client);
	DeviceSet drop(Client &client);
	void drop_index(const IndexPointer &index);
	void note_result(Device &device, Client &client, HpStatus status);
	void complete(Client &client);
	void describe(HpReply *reply, const CopiedIndex *index, const char *text);
	void make_name();
	bool is_gpu() const;

	/* The same: the lock is not held, as the device is used */
	HpStatus perform(Worker &worker, Client &client, Copy *copy);
	HpStatus status(Worker &worker, HdStatus status);

	/* syncs.cc: the lock is held */
	void sync_begin(Client &client);
	void end_sync(Client &client, bool keep);

	/* The same: the lock is not held, as the device is used */
	HpStatus make_copy(Worker &worker, Client &client, Copy *copy);
	HpStatus sync_write(Worker &worker, Client &client, Copy *copy, size_t item);
	HpStatus sync_leaves(Worker &worker, Client &client, Copy *copy);
	HpStatus sync_new_leaves(Worker &worker, Client &client, Copy *copy);

	/* searches.cc: the lock is held */
	bool may_search(Client &client);
	bool joins(const Client &client, const Copy *copy) const;

	/* The same: the lock is not held, as the device is used */
	HpStatus search(Worker &worker, Client &client, Copy *copy);
	HpStatus search_piece(Worker &worker, Client &client, Copy *copy, HdBatch batch);
	void search_together(Worker &worker, Party &party, const Copy *copy);
	void note_found(Client &client, uint32_t probes, const HdResult &result);
	uint32_t piece_min() const;
	uint32_t piece_of(const Client &client) const;
	void note_piece(Client &client, uint32_t probes, int64_t time);
};

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_SERVICE_H */
