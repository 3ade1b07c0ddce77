/*
 * index.c
 *		An index that changes, and its copy in a daemon.
 */
#include "index.h"

#include <stdlib.h>
#include <string.h>

#define PROBES 100
#define ROOM (1 << 17)
#define MAP_AT ((uint64_t) 3 << 20)
#define COUNTS_AT ((uint64_t) 7 << 19)
#define KEYS_AT (((uint64_t) 2 << 20) + 1024) /* of ROOM / 2 hits, without a map */
#define GUARD UINT64_C(0xA5A5A5A5A5A5A5A5)

/*
 * After a search that took at least as long as a piece is to take, the daemon searches in smaller
 * pieces for a while.
 */
#define SLOW_MS 20
#define SEARCHES_AFTER 20

bool search_pieces = false;

/* So many of the next searches may be in several pieces. */
static int slow_searches = 0;

static int
leaf_entries(const Index *index, uint32_t leaf)
{
	return index->starts[leaf + 1] - index->starts[leaf];
}

/* A page of an index with wide keys, in any class that can store them. */
static void
fill_wide_page(char *page, const HtEntry *entries, int n)
{
	static const int classes[] = {0, 16, 32, 64, 96, 128};
	HtEntry128 wide[HT_LEAF_MAX_ENTRIES];
	HtKey128 base = n == 0 ? (HtKey128) rnd() << 64 : wide_key(entries[0].key);
	int bits = n == 0 ? 0 : ht_class_for_128(wide_key(entries[n - 1].key) - base);
	int tid_bytes = 4 + rnd_below(3);

	for (int i = 0; i < n; i++)
	{
		wide[i] = (HtEntry128){wide_key(entries[i].key), entries[i].tid};
		if (ht_tid_bytes(entries[i].tid) > tid_bytes)
			tid_bytes = ht_tid_bytes(entries[i].tid);
	}
	for (int i = 0; i < 6; i++)
		if (classes[i] > bits && rnd_below(4) == 0)
			bits = classes[i];
	ht_leaf_fill_128(page, ht_leaf_shape_128(bits, tid_bytes, base), wide, n);
}

/* Fill a leaf with these entries. */
static void
fill_with(Index *index, uint32_t leaf, const HtEntry *entries, int n)
{
	char *page = index->pages + (size_t) index->leaves[leaf].block * HT_PAGE_SIZE;

	if (index->model.width > HT_WIDTH64)
		fill_wide_page(page, entries, n);
	else
		ht_leaf_fill(page, model_shape(index->model.width, entries, n), entries, n);
}

static void
fill_leaf(Index *index, uint32_t leaf)
{
	fill_with(index, leaf, index->model.entries + index->starts[leaf], leaf_entries(index, leaf));
}

static void
add_leaf(Index *index, uint32_t block, int start, int end)
{
	uint32_t leaf = index->leaf_count++;
	HtEntry low = make_entry(ht_key_max(index->model.width), 0);

	if (start < index->model.count)
		low = index->model.entries[start];
	index->leaves[leaf] = (IndexLeaf){low, block};
	index->starts[leaf] = start;
	index->starts[leaf + 1] = end;
	fill_leaf(index, leaf);
}

Index
make_index(Content content, HtWidth width)
{
	Index index;
	uint32_t block = 0;
	int fill;

	memset(&index, 0, sizeof(index));
	index.name.build_id = rnd();
	index.name.database = (uint32_t) rnd();
	index.name.tablespace = (uint32_t) rnd_below(3);
	index.name.relfilenode = (uint32_t) rnd_below(3);
	index.fanout =
		(uint32_t) (rnd_below(2) ? 64 :
								   HT_MIN_FANOUT + rnd_below(HT_MAX_FANOUT - HT_MIN_FANOUT + 1));
	index.model.entries = allocate(sizeof(HtEntry) * MODEL_MAX_ENTRIES);
	index.leaves = allocate(sizeof(IndexLeaf) * INDEX_MAX_LEAVES);
	index.old_leaves = allocate(sizeof(IndexLeaf) * INDEX_MAX_LEAVES);
	index.starts = allocate(sizeof(int) * (INDEX_MAX_LEAVES + 1));
	index.pages = allocate((size_t) INDEX_MAX_BLOCKS * HT_PAGE_SIZE);
	index.copied = allocate((size_t) INDEX_MAX_BLOCKS * HT_PAGE_SIZE);
	memset(index.pages, 0, (size_t) INDEX_MAX_BLOCKS * HT_PAGE_SIZE);
	model_make(&index.model, content, width);

	/*
	 * Leave some blocks unused between leaves.  A leaf ends with a key if that leaves it half
	 * full: so some leaves have all entries of one key, and no others.
	 */
	fill = 1 + index.model.count / (INDEX_MAX_LEAVES / 4) + rnd_below(model_capacity(width) / 2);
	if (content == CONTENT_ONE_LEAF)
		fill = model_capacity(width);
	for (int start = 0, end; content != CONTENT_NONE && (start < index.model.count || start == 0);
		 start = end)
	{
		const HtEntry *entries = index.model.entries;

		end = start + fill < index.model.count ? start + fill : index.model.count;
		for (int cut = end; cut < index.model.count && cut > start + fill / 2; cut--)
			if (entries[cut - 1].key != entries[cut].key)
			{
				end = cut;
				break;
			}
		block += (uint32_t) rnd_below(3) + 1;
		add_leaf(&index, block - 1, start, end);
		if (end == 0)
			break;
	}
	index.blocks = block;
	return index;
}

void
free_index(Index *index)
{
	free(index->model.entries);
	free(index->leaves);
	free(index->old_leaves);
	free(index->starts);
	free(index->pages);
	free(index->copied);
}

/* Move half of a leaf to a new block. */
static void
split_leaf(Index *index, uint32_t leaf)
{
	int middle = (index->starts[leaf] + index->starts[leaf + 1]) / 2;
	size_t behind = index->leaf_count - leaf - 1;

	memmove(&index->leaves[leaf + 2], &index->leaves[leaf + 1], behind * sizeof(IndexLeaf));
	memmove(&index->starts[leaf + 2], &index->starts[leaf + 1], (behind + 1) * sizeof(int));
	index->starts[leaf + 1] = middle;
	index->leaves[leaf + 1] = (IndexLeaf){index->model.entries[middle], index->blocks++};
	index->leaf_count++;
	fill_leaf(index, leaf);
	fill_leaf(index, leaf + 1);
	index->leaves_copied = false;
}

/*
 * Add and remove random entries of a leaf.  "n" is their number, "more" the number to
 * add, "end" the low bound of the next leaf.  Returns the new number.
 */
static int
change_entries(HtEntry *entries, int n, int capacity, int more, HtEntry end)
{
	int kept = 0;

	for (; more > 0 && n > 0; more--)
	{
		HtEntry entry = entries[rnd_below(n)];

		entry.tid += 1 + (uint64_t) rnd_below(1000);
		if (ht_entry_cmp(entry, end) < 0)
			entries[n++] = entry;
	}
	for (int i = 0; i < n; i++)
	{
		if (rnd_below(4) != 0)
			entries[kept++] = entries[i];
	}
	kept = sort_entries(entries, kept);
	return kept < capacity ? kept : capacity;
}

void
change_index(Index *index)
{
	HtEntry *entries = allocate(sizeof(HtEntry) * (MODEL_MAX_ENTRIES + 1000));
	HtEntry *old = index->model.entries;
	int start = 0;

	/* Build the new entries in another array; about one leaf in three changes. */
	index->model.entries = entries;
	for (uint32_t leaf = 0; leaf < index->leaf_count; leaf++)
	{
		int n = leaf_entries(index, leaf);
		bool changes = rnd_below(3) == 0;
		HtEntry end = leaf + 1 < index->leaf_count ?
						  index->leaves[leaf + 1].low :
						  make_entry(ht_key_max(index->model.width), HT_TID_MAX);

		memcpy(entries + start, old + index->starts[leaf], sizeof(HtEntry) * (size_t) n);
		if (changes)
			n = change_entries(entries + start, n, model_capacity(index->model.width),
							   index->model.count < MODEL_MAX_ENTRIES / 2 ? rnd_below(30) : 0, end);
		index->starts[leaf] = start;
		start += n;
		/*
		 * starts[leaf + 1] still has the old value here; it is needed in the next
		 * round.
		 */
		if (changes)
			fill_with(index, leaf, entries + start - n, n);
		if (leaf + 1 == index->leaf_count)
			index->starts[leaf + 1] = start;
	}
	index->model.count = start;
	free(old);

	for (int splits = rnd_below(3); splits > 0 && index->leaf_count > 0; splits--)
	{
		uint32_t leaf = (uint32_t) rnd_below((int) index->leaf_count);

		if (leaf_entries(index, leaf) >= 2 && index->leaf_count < INDEX_MAX_LEAVES &&
			index->blocks < INDEX_MAX_BLOCKS)
			split_leaf(index, leaf);
	}
}

void
set_tids(Index *index, uint64_t tid)
{
	for (int i = 0; i < index->model.count; i++)
		index->model.entries[i].tid = tid;
	for (uint32_t leaf = 0; leaf < index->leaf_count; leaf++)
	{
		index->leaves[leaf].low.tid = 0;
		fill_leaf(index, leaf);
	}
	index->leaves_copied = false;
}

HpBound
bound_of(HtWidth width, HtEntry entry)
{
	HtKey128 key = width > HT_WIDTH64 ? wide_key(entry.key) : entry.key;

	return (HpBound){{(uint64_t) key, (uint64_t) (key >> 64)}, entry.tid};
}

HpRequest
about(const Index *index, HpOperation operation)
{
	return (HpRequest){.operation = operation,
					   .index = index->name,
					   .create = 1,
					   .width = index->model.width,
					   .fanout = index->fanout};
}

int
ask_status(const Connection *connection, const HpRequest *request, HpReply *reply)
{
	HpReply mine;

	if (reply == NULL)
		reply = &mine;
	return ask(connection, request, reply) ? (int) reply->status : CONNECTION_ENDED;
}

int
ask_room(const Connection *connection, const HpRequest *request, HpReply *reply)
{
	HpReply mine;
	uint32_t before = 0;
	int status;

	if (reply == NULL)
		reply = &mine;
	while ((status = ask_status(connection, request, reply)) == HP_OK &&
		   reply->blocks < request->count)
	{
		expect(reply->blocks > before, "room for %u of %u blocks, as before", reply->blocks,
			   request->count);
		if (reply->blocks <= before)
			return HP_NO_MEMORY;
		before = reply->blocks;
	}
	return status;
}

int
make_copy(const Connection *client, uint32_t number, uint32_t blocks, HpReply *reply)
{
	HpRequest request = {
		.operation = HP_SYNC_BEGIN, .create = 1, .width = HT_WIDTH64, .fanout = 64};
	int status;

	request.index.build_id = number;
	status = ask_status(client, &request, NULL);
	if (status != HP_OK)
		return status;
	request.operation = HP_SYNC_RESERVE;
	request.count = blocks;
	status = ask_room(client, &request, reply);
	if (status != HP_OK)
		return status;
	request.operation = HP_SYNC_END;
	return ask_status(client, &request, reply);
}

bool
has_copy(const Connection *client, uint32_t number)
{
	HpRequest request = {.operation = HP_SEARCH};

	request.index.build_id = number;
	return ask_status(client, &request, NULL) == HP_OK;
}

int
sync_begin(const Connection *connection, Index *index)
{
	HpRequest request = about(index, HP_SYNC_BEGIN);
	HpReply reply;
	int status = ask_status(connection, &request, &reply);

	if (status != HP_OK)
		return status;
	if (reply.created)
	{
		memset(index->copied, 0, (size_t) INDEX_MAX_BLOCKS * HT_PAGE_SIZE);
		index->blocks_copied = 0;
		index->leaves_copied = false;
		index->old_leaf_count = 0;
	}
	expect(reply.blocks >= index->blocks_copied, "room for %u blocks, not %u", reply.blocks,
		   index->blocks_copied);
	expect(reply.structure == (reply.created ? 0 : index->structure), "structure");
	expect(reply.sync > index->sync, "numbers of syncs");
	index->sync = reply.sync;
	return status;
}

/* Send what differs from the copy, in items of "size" bytes. */
static int
sync_items(const Connection *connection, Index *index, HpOperation operation, size_t size)
{
	HpRequest request = about(index, operation);
	size_t items = (size_t) index->blocks * HT_PAGE_SIZE / size;
	uint32_t *numbers = (uint32_t *) connection->staging;
	size_t room = 64 * (size_t) (1 + rnd_below(8));
	int status = HP_OK;

	request.data_at = 64 * 1024;
	for (size_t i = 0; i < items && status == HP_OK; i++)
	{
		if (memcmp(index->pages + i * size, index->copied + i * size, size) != 0)
		{
			numbers[request.count] = (uint32_t) i;
			memcpy(connection->staging + request.data_at + request.count * size,
				   index->pages + i * size, size);
			memcpy(index->copied + i * size, index->pages + i * size, size);
			request.count++;
		}
		if (request.count == room || (request.count > 0 && i == items - 1))
		{
			/* Shuffle half of them: items may come in any order. */
			for (uint32_t j = request.count / 2; j < request.count; j++)
			{
				uint32_t k = (uint32_t) rnd_below((int) j + 1);
				char moved[HT_PAGE_SIZE];
				char *data = connection->staging + request.data_at;
				uint32_t number = numbers[j];

				numbers[j] = numbers[k];
				numbers[k] = number;
				memcpy(moved, data + j * size, size);
				memmove(data + j * size, data + k * size, size);
				memcpy(data + k * size, moved, size);
			}
			status = ask_status(connection, &request, NULL);
			request.count = 0;
		}
	}
	return status;
}

/* Send the leaves that are not in the copy's list, and some others. */
static int
sync_new_leaves(const Connection *connection, const Index *index)
{
	HpRequest request = about(index, HP_SYNC_NEW_LEAVES);
	HpNewLeaf *out;
	uint32_t old = 0;

	request.data_at = 64 * (uint64_t) rnd_below(10);
	out = (HpNewLeaf *) (connection->staging + request.data_at);
	for (uint32_t i = 0; i < index->leaf_count; i++)
	{
		const IndexLeaf *leaf = &index->leaves[i];
		bool last = i + 1 == index->leaf_count;
		HtEntry end = make_entry(0, 0);

		/* Leaves only get more. */
		if (old < index->old_leaf_count && index->old_leaves[old].block == leaf->block)
		{
			old++;
			if (rnd_below(4) != 0)
				continue;
		}
		out[request.count++] = (HpNewLeaf){
			bound_of(index->model.width, i == 0 ? end : leaf->low),
			bound_of(index->model.width, last ? end : index->leaves[i + 1].low), leaf->block, last};
	}
	return ask_status(connection, &request, NULL);
}

/* Send the list of leaves. */
static int
sync_leaves(const Connection *connection, const Index *index)
{
	HpRequest request = about(index, HP_SYNC_LEAVES);
	HpLeaf *out;

	request.data_at = 64 * (uint64_t) rnd_below(10);
	out = (HpLeaf *) (connection->staging + request.data_at);
	for (uint32_t i = 0; i < index->leaf_count; i++)
		out[request.count++] =
			(HpLeaf){bound_of(index->model.width, index->leaves[i].low), index->leaves[i].block, 0};
	return ask_status(connection, &request, NULL);
}

int
sync_blocks(const Connection *connection, Index *index)
{
	HpRequest request = about(index, HP_SYNC_RESERVE);
	int status = HP_OK;

	request.count = index->blocks;
	if (request.count > index->blocks_copied || rnd_below(2))
		status = ask_room(connection, &request, NULL);
	if (status == HP_OK && request.count > index->blocks_copied)
		index->blocks_copied = request.count;
	if (status == HP_OK && rnd_below(2))
		status = sync_items(connection, index, HP_SYNC_PAGES, HT_PAGE_SIZE);
	if (status == HP_OK)
		status = sync_items(connection, index, HP_SYNC_LINES, HP_LINE_SIZE);
	if (status != HP_OK || (index->leaves_copied && rnd_below(3)))
		return status;

	status = rnd_below(2) ? sync_new_leaves(connection, index) : sync_leaves(connection, index);
	index->leaves_copied = status == HP_OK;
	if (status == HP_OK)
	{
		index->old_leaf_count = index->leaf_count;
		memcpy(index->old_leaves, index->leaves, sizeof(IndexLeaf) * index->leaf_count);
	}
	return status;
}

int
sync_end(const Connection *connection, Index *index)
{
	HpRequest request = about(index, HP_SYNC_END);

	index->structure = request.structure = rnd();
	return ask_status(connection, &request, NULL);
}

int
sync_index(const Connection *connection, Index *index)
{
	int status = sync_begin(connection, index);

	if (status == HP_OK)
		status = sync_blocks(connection, index);
	if (status == HP_OK)
		status = sync_end(connection, index);
	return status;
}

/* Is a tid on a page of the map in staging memory? */
static bool
is_on_map(const Connection *connection, const HpSearch *search, uint64_t tid)
{
	const uint32_t *map = (const uint32_t *) (connection->staging + search->map_at);
	uint64_t page = tid >> 16;
	uint32_t offset = (uint32_t) (tid & 0xFFFF);

	return page < search->map_pages && (map[page / 32] >> page % 32 & 1) != 0 && offset >= 1 &&
		   offset <= HT_PAGE_SIZE / 4;
}

/* Put a map of some pages in staging memory. */
static void
make_map(const Connection *connection, HpSearch *search)
{
	uint32_t *map = (uint32_t *) (connection->staging + MAP_AT);

	search->map_at = MAP_AT;
	search->map_pages = 1 + (uint32_t) rnd_below(MODEL_PAGES * 2);
	for (uint32_t i = 0; i < (search->map_pages + 31) / 32; i++)
		map[i] = (uint32_t) rnd();
}

/*
 * Repeat a search, whose tids are in staging memory, with a map of some pages: their hits are
 * counted, and the tids of the others come.
 */
static void
count_by_map(const Connection *connection, HpRequest request, uint64_t hits)
{
	HpSearch *search = &request.search;
	uint64_t *tids = (uint64_t *) (connection->staging + search->tids_at);
	uint64_t kept = 0;
	uint64_t sum = 0;
	HpReply reply;

	make_map(connection, search);
	for (uint64_t i = 0; i < hits; i++)
	{
		if (is_on_map(connection, search, tids[i]))
			continue;
		kept++;
		sum += tids[i];
	}
	expect(ask(connection, &request, &reply) && reply.status == HP_OK && reply.hits == hits &&
			   reply.counted == hits - kept,
		   "hits counted by a map");
	for (uint64_t i = 0; i < kept && !failed(); i++)
		sum -= tids[i];
	expect(sum == 0, "other tids with a map");
}

/*
 * Repeat a search with a map of some pages: their hits are counted by probe, and the others
 * come as pairs.
 */
static void
tally_by_map(const Connection *connection, const Index *index, HpRequest request,
			 const uint64_t *low, const uint64_t *high, uint64_t hits)
{
	HpSearch *search = &request.search;
	uint32_t *probes = (uint32_t *) (connection->staging + search->probes_at);
	uint64_t *tids = (uint64_t *) (connection->staging + search->tids_at);
	uint32_t *counts = (uint32_t *) (connection->staging + COUNTS_AT);
	HtHit *all = malloc(sizeof(HtHit) * (hits + 1));
	uint32_t wanted[PROBES] = {0};
	uint64_t kept = 0;
	uint64_t sum = 0;
	HpReply reply;

	make_map(connection, search);
	search->counts_at = COUNTS_AT;
	model_search(&index->model, low, high, search->count, all);
	for (uint64_t i = 0; i < hits; i++)
	{
		if (is_on_map(connection, search, all[i].tid))
			wanted[all[i].probe]++;
		else
		{
			kept++;
			sum += all[i].tid * (all[i].probe + 1);
		}
	}
	free(all);
	memset(counts, 0xFF, (search->count + 1) * sizeof(uint32_t));
	expect(ask(connection, &request, &reply) && reply.status == HP_OK && reply.hits == hits &&
			   reply.counted == hits - kept,
		   "hits tallied by a map");
	for (uint64_t i = 0; i < kept && !failed(); i++)
		sum -= tids[i] * (probes[i] + 1);
	expect(sum == 0, "other pairs with a map");
	expect(hits == 0 || memcmp(counts, wanted, search->count * sizeof(uint32_t)) == 0,
		   "counts of probes");
	expect(counts[search->count] == UINT32_MAX, "counts of more probes");
}

/* Repeat a search for ranges, and ask for the keys of hits, too. */
static void
ask_keys(const Connection *connection, const Index *index, HpRequest request, const uint64_t *low,
		 const uint64_t *high, uint64_t hits)
{
	HpSearch *search = &request.search;
	size_t width = (size_t) index->model.width;
	char *keys = connection->staging + KEYS_AT;
	HpReply reply;

	search->with_keys = 1;
	search->keys_at = KEYS_AT;
	search->room = hits;
	memset(keys, 0xA5, (hits + 1) * width);
	expect(ask(connection, &request, &reply) && reply.status == HP_OK && reply.hits == hits,
		   "hits with keys");
	for (size_t i = 0; i < width; i++)
		expect(keys[hits * width + i] == (char) 0xA5, "the daemon writes keys beyond the room");
	if (!failed())
		model_compare_keys(&index->model, low, high, search->count, hits,
						   (const uint32_t *) (connection->staging + search->probes_at),
						   (const uint64_t *) (connection->staging + search->tids_at), keys);
}

void
search_index(const Connection *connection, const Index *index)
{
	const Model *model = &index->model;
	HpRequest request = about(index, HP_SEARCH);
	HpSearch *search = &request.search;
	uint64_t low[PROBES];
	uint64_t high[PROBES];
	uint32_t n = (uint32_t) rnd_skewed(PROBES + 1);
	uint64_t expected;
	uint64_t sum = 0;
	uint32_t *probes;
	uint64_t *tids;
	HpReply reply;
	double start;

	search->is_range = (uint32_t) rnd_below(2);
	for (uint32_t i = 0; i < n; i++)
	{
		low[i] = high[i] = model_probe(model);
		if (search->is_range)
		{
			int end = model_lower(model, low[i]) + rnd_skewed(30);

			high[i] = end < model->count && rnd_below(20) != 0 ? model->entries[end].key :
																 model_probe(model);
		}
	}
	expected = model_search(model, low, high, n, NULL);

	search->count = n;
	search->by_block = (uint32_t) rnd_below(2);
	search->room = rnd_below(4) != 0 ? expected + (uint64_t) rnd_below(3) :
									   (uint64_t) rnd_below((int) expected + 1);
	if (search->room > ROOM)
		search->room = ROOM;
	search->low_at = 64 * (uint64_t) rnd_below(10);
	search->high_at = search->low_at + 2048 * (uint64_t) (1 + rnd_below(3));
	search->probes_at = 64 * 1024 + 64 * (uint64_t) rnd_below(10);
	search->tids_at = 1024 * 1024 + 64 * (uint64_t) rnd_below(10);
	pack_keys(connection->staging + search->low_at, low, (int) n, model->width);
	if (search->is_range)
		pack_keys(connection->staging + search->high_at, high, (int) n, model->width);
	probes = (uint32_t *) (connection->staging + search->probes_at);
	tids = (uint64_t *) (connection->staging + search->tids_at);
	probes[search->room] = (uint32_t) GUARD;
	tids[search->room] = GUARD;

	start = now_ms();
	expect(ask(connection, &request, &reply), "a search has no reply");
	if (failed())
		return;
	if (now_ms() - start >= SLOW_MS)
		slow_searches = SEARCHES_AFTER;
	expect((int) reply.status == (expected > search->room ? HP_NO_ROOM : HP_OK),
		   "search: status %u, %s", reply.status, reply.text);
	expect(reply.hits == expected, "%llu hits instead of %llu", (unsigned long long) reply.hits,
		   (unsigned long long) expected);
	expect(probes[search->room] == (uint32_t) GUARD && tids[search->room] == GUARD,
		   "the daemon writes beyond the room");
	if (!failed())
		model_compare(model, low, high, n, search->room, probes, tids,
					  !search->by_block                  ? MODEL_BY_PROBE :
					  search_pieces || slow_searches > 0 ? MODEL_ANY_ORDER :
														   MODEL_BY_BLOCK);
	slow_searches -= slow_searches > 0;

	/* Search again without probe numbers; nothing may be written at probes_at. */
	if (reply.status != HP_OK)
		return;
	for (uint64_t i = 0; i < expected; i++)
	{
		sum -= tids[i];
		probes[i] = (uint32_t) GUARD;
	}
	search->tids_only = 1;
	search->by_block = 0;
	expect(ask(connection, &request, &reply) && reply.status == HP_OK && reply.hits == expected,
		   "tids alone");
	for (uint64_t i = 0; i < expected && !failed(); i++)
	{
		sum += tids[i];
		expect(probes[i] == (uint32_t) GUARD, "numbers of probes");
	}
	expect(sum == 0, "other tids");
	if (!failed())
		count_by_map(connection, request, expected);
	search->tids_only = 0;
	if (!failed())
		tally_by_map(connection, index, request, low, high, expected);
	if (search->is_range && expected <= ROOM / 2 && !failed())
		ask_keys(connection, index, request, low, high, expected);
}

HpRequest
make_search(const Connection *connection, const Index *index, uint64_t key)
{
	HpRequest request = about(index, HP_SEARCH);

	pack_keys(connection->staging, &key, 1, index->model.width);
	request.search.count = 1;
	request.search.probes_at = 64;
	request.search.tids_at = 128 * 1024;
	request.search.room = 1024;
	return request;
}
