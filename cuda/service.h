/*
 * service.h
 *		The daemon's clients and their requests.
 *
 * service.cc handles connections and messages, requests.cc executes requests.
 */
#ifndef HARMONIA_CUDA_SERVICE_H
#define HARMONIA_CUDA_SERVICE_H

#include <list>
#include <utility>

#include "copies.h"

namespace harmonia
{

/* Owner of a file descriptor; closes it. */
class Descriptor
{
public:
	explicit	Descriptor(int descriptor = -1) : fd(descriptor)
	{
	}
	Descriptor(const Descriptor &) = delete;
	Descriptor & operator=(const Descriptor &) = delete;
	~Descriptor()
	{
		set(-1);
	}
	void		set(int descriptor);
	void		swap(Descriptor &other)
	{
		std::swap(fd, other.fd);
	}
	int			get() const
	{
		return fd;
	}

private:
	int			fd;
};

/*
 * Thrown if a client breaks a rule; the daemon then closes its connection and logs the
 * rule.
 */
struct BrokenRule
{
	const char *rule;
};

/* Thrown if a client has gone while its request was performed. */
struct ClientGone
{
};

/* What all clients together may pin. */
struct PinBudget
{
	uint64_t	limit;			/* bytes */
	uint64_t	pinned = 0;
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
	Staging & operator=(const Staging &) = delete;
	~Staging()
	{
		unmap();
	}

	/*
	 * Map the memory behind a descriptor and unmap the previous one.  Returns false if
	 * there is no address space or memory; throws BrokenRule if the memory is not as
	 * required.
	 */
	bool		map(int memory, uint64_t bytes);

	void		unmap();

	/* Address of "count" items of a size at an offset; throws BrokenRule. */
	void	   *at(uint64_t offset, uint64_t count, size_t item) const;

private:
	HdDevice   *device;
	PinBudget  &budget;
	char	   *start = nullptr;
	uint64_t	size = 0;
	bool		pinned = false;
};

/* A clock that never goes back, in us. */
int64_t		now_us();

/*
 * Remove the socket that Service::listen() made, unless another daemon has replaced it.
 * May be called by a signal handler.
 */
void		remove_socket();

/* How far a client's search has come, and what it has found so far. */
struct SearchProgress
{
	uint32_t	probes = 0;
	HdResult	found = {};
	int64_t		time = 0;		/* that it has taken, in us */
};

struct Client
{
	Descriptor	connection;
	Staging		staging;
	bool		greeted = false;	/* HP_HELLO came */
	bool		waits = false;	/* the request waits for another client's sync */
	uint64_t	waits_since = 0;	/* value of Service.waits when the wait began */
	int64_t		told = 0;		/* when HP_WAITING was last sent, in ms */
	int64_t		heard = 0;		/* when its last request was performed, in ms */
	HpRequest	request = {};
	Copy	   *sync = nullptr; /* copy in this client's sync, or NULL */

	/*
	 * A search is performed in pieces.  Between them, it is other clients' turn.
	 */
	bool		unfinished = false; /* the request is a search with pieces left */
	SearchProgress progress;
	uint32_t	piece = 0;		/* number of probes that take some ms; 0: unknown */

	/*
	 * The daemon's time is shared by start-time fair queueing: of the clients with a
	 * request, the one with the earliest start is next.  A start is the end of the
	 * client's last request, in time of its own, in us; but never before the start of
	 * the request that was performed last, so that pauses earn nothing.
	 */
	bool		ready = false;	/* there is a request to be received */
	int64_t		start = 0;
	int64_t		end = 0;

	Client(HdDevice *device, PinBudget &pins) : staging(device, pins)
	{
	}
};

class Service
{
public:
	Service(HdDevice *on, uint64_t memory_limit, uint64_t host_memory_limit);
	~Service();

	/* Listen on HP_SOCKET.  Returns false and sets errno on failure. */
	bool		listen();

	/* The message that tells the supervisor that the daemon is ready. */
	HpReply		ready();

	/*
	 * Serve clients.  Returns true when the supervisor's connection ends, false if the
	 * device fails.
	 */
	bool		run(int control_connection);

private:
	HdDevice   *device;
	Copies		copies;
	PinBudget	pins;
	int			control = -1;
	Descriptor	listener;
	std::list<Client> clients;	/* those without a connection are removed soon */
	uint64_t	waits = 0;		/* how often a request had to wait */
	uint64_t	generation = 0; /* of the last HP_HELLO, if there was one */
	bool		has_generation = false;
	bool		device_failed = false;
	HdInfo		info = {};
	uint64_t	info_copies = 0;	/* memory of the copies when info was read */
	size_t		clients_max;

	/* The request that is performed. */
	const Client *current = nullptr;
	int64_t		current_since = 0;	/* in ms */
	uint32_t	current_piece = 0;	/* probes that could be searched in smaller pieces */
	bool		too_long = false;	/* it is abandoned for that reason */
	bool		gives_way = false;	/* or because other clients wait */
	int64_t		clock = 0;		/* its start */
	uint32_t	fixed_piece = 0;	/* tests: the size of all pieces */

	/* service.cc */
	bool		answer_ping();
	bool		goes_on();
	bool		others_wait();
	void		accept();
	void		notice(Client &client, short events);
	void		serve_next();
	void		receive(Client &client);
	void		serve_or_wait(Client &client, const Descriptor &passed);
	void		serve(Client &client, const Descriptor &passed);
	void		serve_waiting();
	void		tell_waiting();
	void		end_stalled_syncs();
	void		close(Client &client);

	/* requests.cc */
	bool		is_blocked(const Client &client);
	bool		is_waited_for(const Client &client);
	void		perform(Client &client, const Descriptor &passed, HpReply *reply);
	void		hello(Client &client);
	HpStatus	map(Client &client, const Descriptor &passed);
	HpStatus	sync_begin(Client &client, HpReply *reply);
	void		sync_zones(Client &client, HpReply *reply);
	void		sync_get_zones(Client &client, HpReply *reply);
	HpStatus	sync_write(Client &client, size_t item);
	HpStatus	sync_leaves(Client &client);
	HpStatus	sync_new_leaves(Client &client);
	HpStatus	search(Client &client, HpReply *reply);
	HpStatus	search_piece(Client &client, Copy *copy, HdBatch batch);
	uint32_t	piece_min() const;
	uint32_t	piece_of(const Client &client) const;
	void		note_piece(Client &client, uint32_t probes, int64_t time);
	void		drop(Client &client);
	void		end_sync(Client &client, bool keep);
	HpStatus	status(HdStatus status);
	void		describe(HpReply *reply, const Copy *copy, const char *text);
};

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_SERVICE_H */
