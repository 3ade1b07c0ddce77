/*
 * service.h
 *		The daemon's clients, and what they ask for.
 *
 * service.cc has connections and messages, requests.cc does what they say.
 */
#ifndef HARMONIA_CUDA_SERVICE_H
#define HARMONIA_CUDA_SERVICE_H

#include <list>
#include <utility>

#include "copies.h"

namespace harmonia
{

/* A descriptor, closed in the end. */
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

/* Thrown at what a client may not do: why its connection is closed. */
struct BrokenRule
{
	const char *rule;
};

/* Memory that a client shares with the daemon, pinned if the device can do so. */
class Staging
{
public:
	explicit	Staging(HdDevice *on) : device(on)
	{
	}
	Staging(const Staging &) = delete;
	Staging & operator=(const Staging &) = delete;
	~Staging()
	{
		unmap();
	}

	/* Map the memory behind a descriptor, in place of the last; false if that fails. */
	bool		map(int memory, uint64_t bytes);

	void		unmap();

	/* Where count items of a size begin; throws BrokenRule. */
	void	   *at(uint64_t offset, uint64_t count, size_t item) const;

private:
	HdDevice   *device;
	char	   *start = nullptr;
	uint64_t	size = 0;
	bool		pinned = false;
};

/*
 * Remove the socket that Service::listen() made, unless another daemon's has taken its
 * place.  May be called by a signal handler.
 */
void		remove_socket();

struct Client
{
	Descriptor	connection;
	Staging		staging;
	bool		greeted = false;	/* HP_HELLO came */
	bool		waits = false;	/* the request is for an index in another's sync */
	uint64_t	waits_since = 0;	/* Service.waits at the time */
	int64_t		told = 0;		/* when, in ms, he last was that he does */
	HpRequest	request = {};
	Copy	   *sync = nullptr; /* being brought up to date */

	explicit	Client(HdDevice *device) : staging(device)
	{
	}
};

class Service
{
public:
	Service(HdDevice *on, uint64_t memory_limit);
	~Service();

	/* Listen on HP_SOCKET; false, with errno set, if that cannot be. */
	bool		listen();

	/* What the supervisor is told. */
	HpReply		ready();

	/* Serve clients; true when the connection "control" ends, false if the device fails. */
	bool		run(int control);

private:
	HdDevice   *device;
	Copies		copies;
	Descriptor	listener;
	std::list<Client> clients;	/* those without connection go soon */
	uint64_t	waits = 0;		/* how often one had to wait */
	uint64_t	generation = 0; /* of the last HP_HELLO, if there was any */
	bool		has_generation = false;
	bool		device_failed = false;
	HdInfo		info = {};
	uint64_t	info_copies = 0;	/* memory of the copies at that time */
	size_t		clients_max;

	/* service.cc */
	void		accept();
	void		receive(Client &client);
	void		serve(Client &client, const Descriptor &passed);
	void		serve_waiting();
	void		tell_waiting();
	void		close(Client &client);

	/* requests.cc */
	bool		is_blocked(const Client &client);
	void		perform(Client &client, const Descriptor &passed, HpReply *reply);
	void		hello(Client &client);
	HpStatus	map(Client &client, const Descriptor &passed);
	HpStatus	sync_begin(Client &client, HpReply *reply);
	HpStatus	sync_write(Client &client, size_t item);
	HpStatus	sync_leaves(Client &client);
	HpStatus	search(const Client &client, HpReply *reply);
	void		drop(Client &client);
	void		end_sync(Client &client, bool keep);
	HpStatus	status(HdStatus status);
	void		describe(HpReply *reply, const Copy *copy, const char *text);
};

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_SERVICE_H */
