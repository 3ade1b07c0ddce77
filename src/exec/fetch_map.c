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
#define HEAP_PAGES_PER_MAP_BYTE		(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define HEAP_PAGES_PER_MAP_PAGE \
	((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * HEAP_PAGES_PER_MAP_BYTE)

/* How many words of a page map (lookup.h) a page of the visibility map stands for. */
#define WORDS_PER_MAP_PAGE			(HEAP_PAGES_PER_MAP_PAGE / 32)

/* The contents of a page of the visibility map; NULL if there is no such page. */
static inline const uint8 *
map_page(HmFetch *fetch, uint32 number)
{
	HmMapPage  *map = &fetch->maps[number % HM_MAP_PAGES];

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
	uint8		bits;

	if (map == NULL)
		return false;
	bits = map[block % HEAP_PAGES_PER_MAP_PAGE / HEAP_PAGES_PER_MAP_BYTE];
	bits >>= block % HEAP_PAGES_PER_MAP_BYTE * BITS_PER_HEAPBLOCK;
	return (bits & VISIBILITYMAP_ALL_VISIBLE) != 0;
}

/* HmMapReader.look */
static void
look_at_map(void *argument, const uint64 *tids, uint32 n, uint8 *all_visible)
{
	HmFetch    *fetch = argument;

	for (uint32 i = 0; i < n; i++)
		all_visible[i] = is_all_visible(fetch, tids[i]);
}

/* The bits of 32 heap pages: those that say that a page is all-visible, side by side. */
static inline uint32
pack_bits(const uint8 *map)
{
	uint64		bits;

	memcpy(&bits, map, sizeof(bits));
#ifdef WORDS_BIGENDIAN
	bits = pg_bswap64(bits);
#endif
	StaticAssertStmt(VISIBILITYMAP_ALL_VISIBLE == 1 && BITS_PER_HEAPBLOCK == 2, "every other bit");
	bits &= UINT64CONST(0x5555555555555555);
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
	HmFetch    *fetch = argument;

	while (words > 0)
	{
		const uint8 *map = map_page(fetch, first / WORDS_PER_MAP_PAGE);
		uint32		at = first % WORDS_PER_MAP_PAGE;
		uint32		n = Min(words, WORDS_PER_MAP_PAGE - at);

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
	HmMapReader reader = {.look = look_at_map, .pack = pack_map, .argument = fetch};

	if (with_pages && fetch->is_heap)
		reader.pages = RelationGetNumberOfBlocks(fetch->heap);
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
