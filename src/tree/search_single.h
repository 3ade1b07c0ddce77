/*
 * search_single.h
 *		Reading leaves of class 0, which store no keys, for search_template.h.
 */
#define ST_KEY uint8_t
#define ST_KEY_MAX ((ST_KEY) 0)

#define ST_BLOCKS HT_LEAF_BLOCKS(0)
#define ST_BLOCKS_AT HT_LEAF_BLOCKS_AT(0)
#define ST_HOLE_AT HT_LEAF_HOLE_AT(0)
#define ST_BLOCK_SIZE HT_LEAF_BLOCK_SIZE
#define ST_COUNT_AT HT_LEAF_BLOCK_COUNT_AT
#define ST_SLOTS(tid_bytes) HT_LEAF_SLOTS(0, tid_bytes)

/* Entries of the leaf's key are in all blocks. */
#define ST_MATCH(block, slots, key) UINT32_MAX
#define ST_MATCH_RANGE(block, slots, low, high) ((void) (low), UINT32_MAX)
#define ST_COUNT_PIVOTS(page, key) ((void) (key), 0)

static inline ST_KEY
ST(separator)(const char *page, int i)
{
	(void) page;
	(void) i;
	return 0;
}

static inline ST_KEY
ST(key)(const char *block, int tid_bytes, int slot)
{
	(void) block;
	(void) tid_bytes;
	(void) slot;
	return 0;
}

static inline uint64_t
ST(tid)(const char *block, int tid_bytes, int slot)
{
	return load_tid(block, 0, tid_bytes, slot);
}

/* The first block that can hold a key. */
static inline int
ST(find_block)(const char *page, ST_KEY key)
{
	(void) page;
	(void) key;
	return 0;
}

/* Is this block the only one that can hold keys in low..high? */
static inline bool
ST(belongs_only_in)(const char *page, int b, ST_KEY low, ST_KEY high)
{
	(void) page;
	(void) b;
	(void) low;
	(void) high;
	return false;
}
