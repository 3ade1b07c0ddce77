/*
 * searches.cc
 *		Searches, in pieces, so that clients take turns.
 */
#include "service.h"

#include <algorithm>
#include <cstring>

namespace harmonia
{

/*
 * A piece of a search is to take so long.  The first piece that a client wants has so many probes,
 * and none has fewer than the minimum: GPUs search many in little more time than a few.
 */
static constexpr int64_t piece_us = 20000;
static constexpr uint32_t gpu_piece_first = 1 << 20;
static constexpr uint32_t gpu_piece_min = 1 << 16;
static constexpr uint32_t host_piece_first = 1 << 14;
static constexpr uint32_t host_piece_min = 1 << 4;

/* A piece is at most so many times as large as the one before. */
static constexpr uint32_t piece_growth = 8;

/* No piece of a search is made smaller than this. */
uint32_t
Service::piece_min() const
{
	return is_gpu() ? gpu_piece_min : host_piece_min;
}

/* The number of probes of a client's next piece. */
uint32_t
Service::piece_of(const Client &client) const
{
	if (fixed_piece > 0)
		return fixed_piece;
	if (client.piece > 0)
		return client.piece;
	return is_gpu() ? gpu_piece_first : host_piece_first;
}

/* Note how long a piece has taken, in us, to choose the size of the next one. */
void
Service::note_piece(Client &client, uint32_t probes, int64_t time)
{
	double share = (double) piece_us / (double) std::max(time, (int64_t) 1);
	uint32_t next = (uint32_t) std::min(probes * std::min(share, (double) piece_growth), 1e9);

	client.piece = std::max(time > piece_us ? next : std::max(next, piece_of(client)), piece_min());
}

/*
 * Search the next probes of a batch, and add to what the client's search has found.  Later pieces
 * may be searched in later states of the copy; each has other probes.
 */
HpStatus
Service::search_piece(Worker &worker, Client &client, Copy *copy, HdBatch batch)
{
	SearchProgress &progress = client.progress;
	HdResult &sum = progress.found;
	uint32_t first = progress.probes;
	uint32_t n = batch.count - first;
	uint64_t stored = sum.hits - sum.counted;
	bool has_room = sum.hits <= batch.room;
	size_t width = (size_t) copy->of->width;
	int64_t begin = now_us();
	HdResult result;
	HdStatus searched;

	/* That equal points count as one cannot be said of pieces. */
	if (!batch.distinct && n > piece_of(client))
		n = piece_of(client);
	worker.piece = batch.distinct ? 0 : n;
	batch.count = n;
	batch.low = (const char *) batch.low + first * width;
	if (batch.high != nullptr)
		batch.high = (const char *) batch.high + first * width;
	if (batch.counts != nullptr)
		batch.counts += first;
	batch.room = has_room ? batch.room - sum.hits : 0;
	if (has_room)
	{
		batch.tids += stored;
		if (batch.probes != nullptr)
			batch.probes += stored;
		if (batch.keys != nullptr)
			batch.keys = (char *) batch.keys + stored * width;
	}
	searched = client.alone ?
				   worker.device.copies.search_alone(copy, batch, &result) :
				   worker.device.copies.search(worker.lane, copy, batch, &result, &worker.crowded);
	if (searched == HD_NO_MEMORY && !client.alone)
	{
		/* The device is crowded, so it is repeated alone. */
		client.unfinished = true;
		return HP_OK;
	}
	if (searched == HD_ABANDONED && worker.gives_way)
	{
		client.piece = std::max(n / 4, piece_min());
		client.unfinished = true;
		return HP_OK;
	}
	if (searched != HD_OK)
		return status(worker, searched);
	note_piece(client, n, now_us() - begin);

	if (batch.counts != nullptr && result.hits == 0)
		memset(batch.counts, 0, n * sizeof(uint32_t));
	if (batch.probes != nullptr && first > 0)
	{
		for (uint64_t i = 0; i < std::min(result.hits, batch.room) - result.counted; i++)
			batch.probes[i] += first;
	}
	note_found(client, n, result);
	return HP_OK;
}

/* Add what so many probes have found to what the client's search has found before. */
void
Service::note_found(Client &client, uint32_t probes, const HdResult &result)
{
	SearchProgress &progress = client.progress;
	HdResult &sum = progress.found;

	sum.hits += result.hits;
	sum.counted += result.counted;
	progress.probes += probes;
	client.unfinished = progress.probes < client.request.search.count;
}

/* What a search comes to that has been performed. */
static HpStatus
outcome(const Client &client)
{
	return !client.unfinished && client.progress.found.hits > client.request.search.room ?
			   HP_NO_ROOM :
			   HP_OK;
}

/* Can a search be made?  If not, the reply says why. */
bool
Service::may_search(Client &client)
{
	const HpSearch &wanted = client.request.search;

	require(wanted.is_range <= 1 && wanted.distinct <= 1 && wanted.tids_only <= 1 &&
				wanted.by_block <= 1 && wanted.with_keys <= 1 && wanted.unused == 0,
			"flags must be 0 or 1, and unused bytes zero");
	require(!wanted.is_range || !wanted.distinct, "only points can be distinct");
	require(!wanted.by_block || (wanted.map_pages == 0 && !wanted.tids_only),
			"only pairs without a map have an order");
	require(!wanted.with_keys ||
				(wanted.is_range && wanted.map_pages == 0 && !wanted.by_block && !wanted.tids_only),
			"only pairs of ranges have keys, without a map and in no order");
	if (client.index == nullptr)
		client.reply.status = HP_UNKNOWN;
	return client.reply.status == HP_OK;
}

/* A client's batch.  Throws BrokenRule. */
static HdBatch
make_batch(const Client &client, const Copy *copy)
{
	const HpSearch &wanted = client.request.search;
	const Staging &staging = client.staging;
	HdBatch batch = {};

	batch.low = staging.at(wanted.low_at, wanted.count, (size_t) copy->of->width);
	if (wanted.is_range)
		batch.high = staging.at(wanted.high_at, wanted.count, (size_t) copy->of->width);
	if (!wanted.tids_only)
		batch.probes = (uint32_t *) staging.at(wanted.probes_at, wanted.room, sizeof(uint32_t));
	batch.tids = (uint64_t *) staging.at(wanted.tids_at, wanted.room, sizeof(uint64_t));
	if (wanted.with_keys)
		batch.keys = staging.at(wanted.keys_at, wanted.room, (size_t) copy->of->width);
	if (wanted.map_pages > 0)
		batch.map = (const uint32_t *) staging.at(
			wanted.map_at, ((uint64_t) wanted.map_pages + 31) / 32, sizeof(uint32_t));
	if (wanted.map_pages > 0 && !wanted.tids_only)
		batch.counts = (uint32_t *) staging.at(wanted.counts_at, wanted.count, sizeof(uint32_t));
	batch.map_pages = wanted.map_pages;
	batch.by_block = wanted.by_block;
	batch.count = wanted.count;
	batch.room = wanted.room;
	batch.distinct = wanted.distinct;
	batch.psa_bits = HD_AUTOMATIC;
	batch.pinned = staging.is_pinned();
	return batch;
}

/* Search for the next piece of a batch. */
HpStatus
Service::search(Worker &worker, Client &client, Copy *copy)
{
	HpStatus found = search_piece(worker, client, copy, make_batch(client, copy));

	return found == HP_OK ? outcome(client) : found;
}

/* Can the search that a client has asked for be performed together with others? */
bool
Service::joins(const Client &client, const Copy *copy) const
{
	const SearchProgress &progress = client.progress;

	if (client.slow || progress.by_itself || progress.probes > 0 ||
		client.request.search.count > piece_of(client))
		return false;
	try
	{
		HdBatch batch = make_batch(client, copy);

		return hd_index_joins(copy->index, &batch) != 0;
	}
	catch (const BrokenRule &)
	{
		/* It comes to light when it is performed. */
		return false;
	}
}

/*
 * Search for all clients of a party at once.  If that takes too long, or fails, each search is
 * repeated alone: so a client that leaves, or whose search takes longer than it should, is
 * nobody else's trouble.
 */
void
Service::search_together(Worker &worker, Party &party, const Copy *copy)
{
	HdBatch batches[HD_TOGETHER_MAX];
	HdResult results[HD_TOGETHER_MAX];
	HdStatus searched;

	for (int i = 0; i < party.count; i++)
		batches[i] = make_batch(*party.clients[i], copy);
	searched = worker.device.copies.search_together(worker.lane, copy, batches, party.count,
													results, &worker.crowded);
	for (int i = 0; i < party.count; i++)
	{
		Client &client = *party.clients[i];

		if (searched == HD_OK)
			note_found(client, batches[i].count, results[i]);
		else
			client.unfinished = client.progress.by_itself = true;
		party.results[i] = searched == HD_FAILED ? HP_FAILED : outcome(client);
	}
}

} /* namespace harmonia */
