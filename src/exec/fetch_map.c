/*
 * fetch_map.c
 *		What a fetch reads of the visibility map, for the engine (HmMapReader).
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "port/pg_bswap.h"
#include "storage/bufmgr.h"

#include "exec/fetch.h"

/* How many heap pages a byte and a page of the visibility map stand for. */
#define HEAP_PAGES_PER_MAP_BYTE (BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define HEAP_PAGES_PER_MAP_PAGE \
	((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * HEAP_PAGES_PER_MAP_BYTE)

/* The bits of eight bytes that say that a page is all-visible. */
#define VISIBLE_BITS UINT64CONST(0x5555555555555555)

StaticAssertDecl(VISIBILITYMAP_ALL_VISIBLE == 1 && BITS_PER_HEAPBLOCK == 2, "every other bit");

/*
 * The map of all pages between hits is read if it has no more bytes for each of them.  To read
 * eight bytes takes less than a tenth of the time that it takes to look a hit up.
 */
#define MAP_BYTES_PER_HIT 8

/*
 * How many heap pages eight bytes of the visibility map stand for, and a word of a page map
 * (lookup.h); and how many of these words a page of the visibility map has.
 */
#define HEAP_PAGES_PER_MAP_WORD 32
#define WORDS_PER_MAP_PAGE (HEAP_PAGES_PER_MAP_PAGE / HEAP_PAGES_PER_MAP_WORD)

/* The contents of a page of the visibility map; NULL if there is no such page. */
static inline const uint8 *
map_page(HmFetch *fetch, uint32 number)
{
	HmMapPage *map = &fetch->maps[number % HM_MAP_PAGES];

	if (!BufferIsValid(map->buffer) || map->number != number)
	{
		(void) VM_ALL_VISIBLE(fetch->heap, number * HEAP_PAGES_PER_MAP_PAGE, &map->buffer);
		if (!BufferIsValid(map->buffer))
			return NULL;
		map->number = number;
		map->bits = (const uint8 *) PageGetContents(BufferGetPage(map->buffer));
	}
	return map->bits;
}

/* Whether the heap page with number "page" among those of a page of the map is all-visible. */
static inline bool
page_is_visible(const uint8 *map, uint32 page)
{
	uint8 bits =
		map[page / HEAP_PAGES_PER_MAP_BYTE] >> page % HEAP_PAGES_PER_MAP_BYTE * BITS_PER_HEAPBLOCK;

	return (bits & VISIBILITYMAP_ALL_VISIBLE) != 0;
}

/*
 * Whether the visibility map says that all tuples of a TID's heap page are visible to
 * all.  This does what VM_ALL_VISIBLE() does, but keeps several pages of the map pinned.
 * As there, a byte is read without a lock.
 */
static inline bool
is_all_visible(HmFetch *fetch, uint64 tid)
{
	BlockNumber block = (BlockNumber) (tid >> 16);
	const uint8 *map = map_page(fetch, block / HEAP_PAGES_PER_MAP_PAGE);

	return map != NULL && page_is_visible(map, block % HEAP_PAGES_PER_MAP_PAGE);
}

/* HmMapReader.look */
static void
look_at_map(void *argument, const uint64 *tids, uint32 n, uint8 *all_visible)
{
	HmFetch *fetch = argument;

	for (uint32 i = 0; i < n; i++)
		all_visible[i] = is_all_visible(fetch, tids[i]);
}

/* page_is_visible() of n pages, from number "page" on. */
static bool
pages_are_visible(const uint8 *map, uint32 page, uint32 n)
{
	uint64 both = PG_UINT64_MAX;
	uint32 end = page + n;

	for (; page < end && page % HEAP_PAGES_PER_MAP_WORD != 0; page++)
	{
		if (!page_is_visible(map, page))
			return false;
	}
	for (; page + HEAP_PAGES_PER_MAP_WORD <= end; page += HEAP_PAGES_PER_MAP_WORD)
	{
		uint64 bits;

		memcpy(&bits, map + page / HEAP_PAGES_PER_MAP_BYTE, sizeof(bits));
		both &= bits;
	}
	for (; page < end; page++)
	{
		if (!page_is_visible(map, page))
			return false;
	}
	return (both & VISIBLE_BITS) == VISIBLE_BITS;
}

/*
 * HmMapReader.all.  Once a page was found that is not all-visible, hits are looked up, for the rest
 * of the batch.
 */
static bool
all_pages_are_visible(void *argument, BlockNumber first, BlockNumber last, uint32 n)
{
	HmFetch *fetch = argument;
	uint64 pages = (uint64) last - first + 1;

	if (fetch->some_not_visible || pages / HEAP_PAGES_PER_MAP_BYTE > (uint64) n * MAP_BYTES_PER_HIT)
		return false;
	while (pages > 0 && !fetch->some_not_visible)
	{
		const uint8 *map = map_page(fetch, first / HEAP_PAGES_PER_MAP_PAGE);
		uint32 at = first % HEAP_PAGES_PER_MAP_PAGE;
		uint32 here = (uint32) Min(HEAP_PAGES_PER_MAP_PAGE - at, pages);

		fetch->some_not_visible = map == NULL || !pages_are_visible(map, at, here);
		first += here;
		pages -= here;
	}
	return !fetch->some_not_visible;
}

/* The bits of 32 heap pages: those that say that a page is all-visible, side by side. */
static inline uint32
pack_bits(const uint8 *map)
{
	uint64 bits;

	memcpy(&bits, map, sizeof(bits));
#ifdef WORDS_BIGENDIAN
	bits = pg_bswap64(bits);
#endif
	bits &= VISIBLE_BITS;
	bits = (bits | bits >> 1) & UINT64CONST(0x3333333333333333);
	bits = (bits | bits >> 2) & UINT64CONST(0x0F0F0F0F0F0F0F0F);
	bits = (bits | bits >> 4) & UINT64CONST(0x00FF00FF00FF00FF);
	bits = (bits | bits >> 8) & UINT64CONST(0x0000FFFF0000FFFF);
	return (uint32) (bits | bits >> 16);
}

/* HmMapReader.pack */
static void
pack_map(void *argument, uint32 first, uint32 words, uint32 *bits)
{
	HmFetch *fetch = argument;

	while (words > 0)
	{
		const uint8 *map = map_page(fetch, first / WORDS_PER_MAP_PAGE);
		uint32 at = first % WORDS_PER_MAP_PAGE;
		uint32 n = Min(words, WORDS_PER_MAP_PAGE - at);

		if (map == NULL)
			memset(bits, 0, n * sizeof(uint32));
		for (uint32 i = 0; map != NULL && i < n; i++)
			bits[i] = pack_bits(map + (at + i) * sizeof(uint64));
		bits += n;
		first += n;
		words -= n;
	}
}

HmMapReader
hm_map_reader(HmFetch *fetch, bool with_pages)
{
	HmMapReader reader = {
		.look = look_at_map, .all = all_pages_are_visible, .pack = pack_map, .argument = fetch};

	if (!with_pages || !fetch->is_heap)
		return reader;

	/*
	 * To ask the system takes a tenth of a search for one key.  Pages that come later are looked
	 * up.
	 */
	if (fetch->mapped_pages == 0)
		fetch->mapped_pages = RelationGetNumberOfBlocks(fetch->heap);
	reader.pages = fetch->mapped_pages;
	return reader;
}

void
hm_map_release(HmFetch *fetch)
{
	for (int i = 0; i < HM_MAP_PAGES; i++)
	{
		if (BufferIsValid(fetch->maps[i].buffer))
			ReleaseBuffer(fetch->maps[i].buffer);
	}
}
