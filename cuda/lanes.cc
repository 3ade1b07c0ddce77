/*
 * lanes.cc
 *		Whose turn it is: the threads of the devices' lanes, and what they do not do at the same
 *		time.
 *
 * No thread waits for a device to become free.  What cannot begin now is not chosen; the thread
 * that ends what is in its way looks for the next request itself.
 */
#include "service.h"

#include <algorithm>
#include <poll.h>
#include <unistd.h>
#include <vector>

namespace harmonia
{

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

/* A small search takes less, unless its ranges, or runs of equal keys, are long. */
static constexpr int64_t quick_us = HD_TICK_MS * 1000;

/* A client that has had no request for so long is not expected to send one soon. */
static constexpr int64_t active_ms = 100;

/*
 * If the memory for batches has not sufficed for several lanes, so many searches are made alone
 * before that is tried again: getting memory that is given back at once may take as long as some
 * searches.
 */
static constexpr uint32_t crowded_searches = 256;

/* What the thread of a lane does until the end. */
void
Service::work(Worker &worker)
{
	Held held(indexes.lock);

	while (!ended)
	{
		Client *next;

		worker.owes_sign = false;
		answer_ping();
		if (can_sweep(worker.device))
		{
			sweep(held, worker);
			continue;
		}
		if (!looking)
			look(held, worker);
		next = ended ? nullptr : choose(worker.device);
		if (next != nullptr)
		{
			serve(held, worker, *next);
			continue;
		}
		wake_others(false);
		if (looking && !can_sweep(worker.device) && !ended)
		{
			worker.state = Worker::SLEEPING;
			worker.woken.wait(held);
			worker.state = Worker::WORKING;
		}
	}
}

/*
 * Copies that are left over are freed before anything else begins, as soon as no lane uses the
 * device.
 */
bool
Service::can_sweep(const Device &device) const
{
	return device.sweeps && device.busy == 0;
}

void
Service::sweep(Held &held, Worker &worker)
{
	worker.device.sweeps = false;
	occupy(worker, true);
	held.unlock();
	worker.device.copies.sweep();
	held.lock();
	leave(worker);
}

/* A worker uses its device from here on, with "alone" as the only one. */
void
Service::occupy(Worker &worker, bool alone)
{
	worker.device.busy++;
	worker.device.alone = alone;
	worker.occupies = true;
}

void
Service::leave(Worker &worker)
{
	worker.device.busy--;
	worker.device.alone = false;
	worker.occupies = false;
}

/*
 * Wake threads of other lanes that have something to do: one of each device, for that one wakes the
 * next.  With needs_looker one of those that sleep is to look for messages, unless a thread does.
 */
void
Service::wake_others(bool needs_looker)
{
	DeviceSet woken = 0;
	const Worker *looker = needs_looker && !looking ? sleeping_looker() : nullptr;

	for (Worker &other : workers)
	{
		DeviceSet device = set_of(other.device.number);
		bool works;

		if (other.state == Worker::WORKING)
			continue;
		works = (woken & device) == 0 && has_work(other);
		if (other.state == Worker::SLEEPING && (&other == looker || works))
		{
			other.state = Worker::WORKING;
			other.woken.notify_one();
			looker = nullptr;
		}
		else if (other.state == Worker::LOOKING && !nudged && works)
			wake_looker();
		if (works)
			woken |= device;
	}
}

/* End the poll of the thread that looks for messages, if there is one. */
void
Service::wake_looker()
{
	uint64_t one = 1;

	if (looking)
		nudged = write(nudge.get(), &one, sizeof(one)) == sizeof(one);
}

/*
 * May other clients soon have requests, too?  If not, no thread is woken to look for them: with a
 * single client that would cost each of its requests more than it could ever save.  If there is but
 * one device, two clients do not gain enough from its second lane, either (H100, 16 cores: they
 * lost up to a seventh; four gained a sixth to a third).
 */
bool
Service::others_are_active(const Client *client) const
{
	int64_t now = now_ms();
	int active = 0;

	for (const Client &other : clients)
		active += &other != client && !other.gone &&
				  (other.ready || other.begun() || now - other.heard < active_ms);
	return active >= (devices.size() > 1 ? 1 : 2);
}

/*
 * A sleeping thread that can look for messages, if possible that of a device that is free; or NULL.
 */
Worker *
Service::sleeping_looker()
{
	Worker *found = nullptr;

	for (Worker &worker : workers)
	{
		if (worker.state == Worker::SLEEPING &&
			(found == nullptr || worker.device.busy < found->device.busy))
			found = &worker;
	}
	return found;
}

/*
 * Does a client other than the current one wait for this lane, or someone want to connect?  What
 * another lane is free to begin does not wait.
 */
bool
Service::others_wait(const Worker &worker)
{
	const Device &device = worker.device;
	const Client *next = first(device);
	std::vector<struct pollfd> polled = {{listener.get(), POLLIN, 0}};

	if (device.sweeps)
		return true;
	if (next != nullptr)
		return !can_begin(device, *next) ||
			   std::none_of(workers.begin(), workers.end(),
							[&device](const Worker &other)
							{ return &other.device == &device && other.client == nullptr; });

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
		{client != nullptr && !client->gone ? client->connection.get() : -1, POLLRDHUP, 0}};
	int events = poll(polled, 2, 0);

	if (events > 0 && polled[0].revents != 0 && !receive_ping())
		end();
	worker.owes_sign = false;
	answer_ping();
	if (ended || (client != nullptr && client->gone) || (events > 0 && polled[1].revents != 0))
		return false;

	/* A party was to take microseconds: one of its searches is not what it seemed to be. */
	if (worker.members > 1)
		return false;

	/*
	 * This takes long: a thread that is free is to look for requests, though no client seemed to be
	 * active.
	 */
	if (!looking)
		wake_others(true);
	if (client == nullptr || client->request.operation != HP_SEARCH)
		return true;

	int64_t taken = now_ms() - worker.since;

	worker.too_long =
		client->progress.time / 1000 + taken > (is_gpu() ? gpu_search_max_ms : host_search_max_ms);
	worker.gives_way = !worker.too_long && worker.piece > piece_min() && taken > piece_max_ms &&
					   others_wait(worker);
	return !worker.too_long && !worker.gives_way;
}

bool
Service::has_work(const Worker &worker)
{
	return can_sweep(worker.device) || choose(worker.device) != nullptr;
}

/*
 * What a client's request, or its next piece, needs of a device.  To begin a sync of a copy that is
 * there, nothing is changed; and nothing is done on a device to end one.
 */
Service::Need
Service::need_of(const Device &device, const Client &client)
{
	if (client.begun())
		return client.alone ? Need::ALL : Need::SHARE;
	switch (client.request.operation)
	{
		case HP_HELLO:
		case HP_MAP:
			return Need::SHARE;
		case HP_SEARCH:
			return device.lanes.size() == 1 || device.crowded > 0 ? Need::ALL : Need::SHARE;
		case HP_SYNC_BEGIN:
			return indexes.find(client.request.index) != nullptr ? Need::SHARE : Need::ALL;
		case HP_SYNC_END:
			return Need::NOTHING;
	}
	return Need::ALL;
}

/*
 * Searches go on beside each other.  Nothing begins beside, or before, a change of copies; so a
 * search never meets one, and a change waits for no more than the pieces that are under way.
 */
bool
Service::can_begin(const Device &device, const Client &client)
{
	Need need = need_of(device, client);

	return need == Need::NOTHING ||
		   (!device.alone && !device.sweeps && (need == Need::SHARE || device.busy == 0));
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
 * The next client that a device can do something for, at once or later; NULL if there is none.
 * Requests that had to wait for a sync come first, the longest waiting one before the others.
 * Notes which ones have to wait.
 */
Client *
Service::first(const Device &device)
{
	Client *next = nullptr;

	for (Client &client : clients)
	{
		DeviceSet able = client.todo;

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
		if ((able & set_of(device.number)) != 0 && (next == nullptr || precedes(client, *next)))
			next = &client;
	}
	return next;
}

/*
 * The next client that a free lane of a device serves; NULL if there is none.  If the one whose
 * turn it is has to wait for other lanes, so do those after it: otherwise it might wait for ever.
 */
Client *
Service::choose(const Device &device)
{
	Client *next = first(device);

	return next != nullptr && can_begin(device, *next) ? next : nullptr;
}

/*
 * Begin a client's request, or the next piece of its search.  "device" is one that can.  If it is
 * not the client's turn, but that of another one in whose party it is, the clock stays what it is,
 * and the client owes what it owed.
 */
void
Service::begin_request(Client &client, const Device &device, bool turn)
{
	client.alone = need_of(device, client) == Need::ALL;
	client.waits = client.ready = client.unfinished = false;
	if (turn)
		clock = std::max(clock, client.start);
	client.end = std::max(clock, client.start);
	try
	{
		client.todo = begin(client, device);
	}
	catch (const BrokenRule &rule)
	{
		client.broken = rule.rule;
	}
}

/*
 * A search is about to be performed.  If it is a small one, a device performs others of the same
 * index along with it in hardly more time: begin those that wait, the ones before others whose turn
 * it is.  They need nothing that it does not need, and no more than it do they have to wait for a
 * sync.
 */
void
Service::gather(Device &device, Party &party)
{
	const Client &first = *party.clients[0];
	const Copy *copy = device.copies.find(first.index);
	std::vector<Client *> others;

	if (first.request.operation != HP_SEARCH || first.alone || copy == nullptr ||
		!joins(first, copy))
		return;
	party.quick = true;
	for (Client &other : clients)
	{
		if (other.ready && !other.begun() && !other.gone && other.request.operation == HP_SEARCH &&
			indexes.find(other.request.index) == first.index &&
			other.request.search.is_range == first.request.search.is_range && joins(other, copy))
			others.push_back(&other);
	}
	std::sort(others.begin(), others.end(),
			  [this](const Client *one, const Client *two) { return precedes(*one, *two); });
	for (size_t i = 0; i < others.size() && party.count < HD_TOGETHER_MAX; i++)
	{
		begin_request(*others[i], device, false);
		if (others[i]->begun())
			party.add(*others[i]);
		else
			finish(*others[i]);
	}
}

/*
 * Begin a client's request, or perform a device's share of it; of small searches several at once.
 */
void
Service::serve(Held &held, Worker &worker, Client &client)
{
	Party party;

	if (!client.begun())
		begin_request(client, worker.device, true);
	party.add(client);
	if ((client.todo & set_of(worker.device.number)) != 0)
	{
		gather(worker.device, party);
		use_device(held, worker, party);
	}
	for (int i = 0; i < party.count; i++)
	{
		if (!party.clients[i]->begun())
			finish(*party.clients[i]);
	}
}

/* A lane's work for a party, beside the results of its requests. */
struct Service::Work
{
	int64_t begin = now_us();
	bool sweeps;
	bool leaves = false; /* the client has gone */
	std::string broken;  /* the rule that it breaks */
	const Copy *copy = nullptr;
	CopiedIndex::Held has = {}; /* of the copy, afterwards */
	HdInfo info;                /* of the device */
	uint64_t info_copies;
};

/* A lane is about to perform a device's share of a party's requests. */
void
Service::begin_work(Worker &worker, Party &party, Work &work)
{
	Client &client = *party.clients[0];
	Device &device = worker.device;

	work.sweeps = client.alone && device.sweeps;
	work.info = device.info;
	work.info_copies = device.info_copies;
	for (int i = 0; i < party.count; i++)
	{
		party.clients[i]->todo &= ~set_of(device.number);
		party.clients[i]->doing |= set_of(device.number);
	}
	occupy(worker, client.alone);
	if (work.sweeps)
		device.sweeps = false;
	if (client.alone && client.request.operation == HP_SEARCH && device.crowded > 0)
		device.crowded--;
	worker.client = &client;
	worker.uses = client.alone ? device.lanes.front() : device.lanes[(size_t) worker.lane];
	hd_device_set_goes_on(worker.uses, goes_on_call, &worker);
	worker.since = work.begin / 1000;
	worker.piece = 0;
	worker.members = party.count;
	worker.too_long = worker.gives_way = worker.crowded = false;
	wake_others(!party.quick && others_are_active(&client));
}

/* Perform it.  The lock is not held. */
void
Service::do_work(Worker &worker, Party &party, Work &work)
{
	Client &client = *party.clients[0];
	Copies &copies = worker.device.copies;

	try
	{
		if (work.sweeps)
			copies.sweep();
		if (party.count == 1)
			party.results[0] = perform(worker, client, copies.find(client.index));
		else
			search_together(worker, party, copies.find(client.index));
	}
	catch (const ClientGone &)
	{
		work.leaves = true;
	}
	catch (const BrokenRule &rule)
	{
		work.broken = rule.rule;
	}
	work.copy = copies.find(client.index);
	if (work.copy != nullptr)
		work.has = copies.held(work.copy);

	/*
	 * Asking the device for its free memory is not free; do it only when copies have
	 * changed.
	 */
	if (party.results[0] == HP_FAILED ||
		(client.request.operation != HP_HELLO && copies.memory() == work.info_copies))
		return;
	work.info_copies = copies.memory();
	if (hd_device_info(worker.uses, &work.info) != HD_OK)
		party.results[0] = HP_FAILED;
}

/*
 * It is done.  A client is charged for the time that its lane has worked for it, a party for equal
 * parts of it.  Beside another lane's search that is more than alone, for all clients alike.
 */
void
Service::end_work(Worker &worker, Party &party, const Work &work)
{
	Client &client = *party.clients[0];
	Device &device = worker.device;
	int64_t time = (now_us() - work.begin + party.count - 1) / party.count;

	for (int i = 0; i < party.count; i++)
	{
		Client &member = *party.clients[i];

		/* What a party has taken that came to nothing is no part of a search. */
		member.doing &= ~set_of(device.number);
		if (party.count == 1 || !member.unfinished)
			member.longest = std::max(member.longest, time);
		member.end += time;
	}
	if (client.request.operation == HP_SEARCH && party.count == 1)
		client.slow = time > quick_us;
	worker.client = nullptr;
	if (party.results[0] == HP_FAILED)
		fail(worker, client);
	leave(worker);
	device.info = work.info;
	device.info_copies = work.info_copies;
	if (worker.crowded)
		device.crowded = crowded_searches;
	if (work.copy != nullptr)
		client.index->held[device.number] = work.has;
	if (!work.broken.empty())
		client.broken = work.broken;
	if (work.leaves)
		close(client);
	for (int i = 0; i < party.count && !work.leaves; i++)
		note_result(device, *party.clients[i], party.results[i]);
}

/* Perform a device's share of a party's requests.  The lock is released meanwhile. */
void
Service::use_device(Held &held, Worker &worker, Party &party)
{
	Work work;

	begin_work(worker, party, work);
	held.unlock();
	do_work(worker, party, work);
	held.lock();
	end_work(worker, party, work);
}

} /* namespace harmonia */
