/*
 * search_flat.h
 *		Reading leaves of the classes of tree.h, for search_template.h.
 */
#if ST_BITS == 16
#define ST_KEY uint16_t
#elif ST_BITS == 32
#define ST_KEY uint32_t
#else
#define ST_KEY uint64_t
#endif
#define ST_KEY_MAX ((ST_KEY) -1)

#define ST_BLOCKS HT_LEAF_BLOCKS(ST_BITS)
#define ST_BLOCKS_AT HT_LEAF_BLOCKS_AT(ST_BITS)
#define ST_HOLE_AT HT_LEAF_HOLE_AT(ST_BITS)
#define ST_BLOCK_SIZE HT_LEAF_BLOCK_SIZE
#define ST_COUNT_AT HT_LEAF_BLOCK_COUNT_AT
#define ST_SLOTS(tid_bytes) HT_LEAF_SLOTS(ST_BITS, tid_bytes)
#define ST_LINE (HT_LEAF_LINE_SIZE / (int) sizeof(ST_KEY)) /* keys of a cache line */

#define ST_MATCH(block, slots, key) ST_COMPARE(match_key)(block, key)
#define ST_MATCH_RANGE(block, slots, low, high) ST_COMPARE(match_block)(block, low, high)
#define ST_COUNT_PIVOTS(page, key) ST_COMPARE(count_pivots)(page, key)

static inline ST_KEY
ST(separator)(const char *page, int i)
{
	ST_KEY key;

	memcpy(&key, page + HT_LEAF_SEPARATORS_AT + i * sizeof(key), sizeof(key));
	return key;
}

static inline ST_KEY
ST(key)(const char *block, int tid_bytes, int slot)
{
	ST_KEY key;

	(void) tid_bytes;
	memcpy(&key, block + slot * sizeof(key), sizeof(key));
	return key;
}

static inline uint64_t
ST(tid)(const char *block, int tid_bytes, int slot)
{
	return load_tid(block, HT_LEAF_SLOTS(ST_BITS, tid_bytes) * (ST_BITS / 8), tid_bytes, slot);
}

/* The first block that can hold a key. */
ST_TARGET static inline int
ST(find_block)(const char *page, ST_KEY key)
{
	int line = ST_COMPARE(count_pivots)(page, key);
	int block = line * ST_LINE + ST_COMPARE(count_line)(
									 page + HT_LEAF_SEPARATORS_AT + line * HT_LEAF_LINE_SIZE, key);

	return block < ST_BLOCKS ? block : ST_BLOCKS - 1;
}

/* Is this block the only one that can hold keys in low..high? */
static inline bool
ST(belongs_only_in)(const char *page, int b, ST_KEY low, ST_KEY high)
{
	return ST(separator)(page, b) > high && (b == 0 || ST(separator)(page, b - 1) < low);
}
