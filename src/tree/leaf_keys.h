/*
 * leaf_keys.h
 *		Leaf pages of indexes with keys of the width HT_KEYS, 128 or 256.
 *
 * leaf_wide.c includes this once for each.  The functions of leaf_template.h store keys less the
 * leaf's base; here the base is subtracted and added.  So the instances of narrow classes serve
 * all widths: what they store are distances below 2^64.
 */
#include "key_macros.h"

/* The base of a leaf. */
static inline HT_KEY
HT_KEYED(base_of)(const void *page)
{
	HT_KEY		base;

	memcpy(&base, (const char *) page + HT_WIDE_BASE_AT, sizeof(base));
	return base;
}

static inline void
HT_KEYED(set_base)(void *page, HT_KEY base)
{
	memcpy((char *) page + HT_WIDE_BASE_AT, &base, sizeof(base));
}

HT_SHAPE
HT_KEYED(ht_leaf_shape_of)(const void *page)
{
	const uint8_t *bytes = page;
	int			class = bytes[HT_LEAF_CLASS_AT];
	uint8_t		tid_bytes = bytes[HT_LEAF_TID_BYTES_AT];
	int			bits = class == 0 || class == 16 || class == 32 ? class :
		class == HT_WIDE_CLASS(64) ? 64 :
		class == HT_WIDE_CLASS(96) ? 96 :
		HT_KEYS == 128 || class == HT_WIDE_CLASS(128) ? 128 :
		class == HT_WIDE_CLASS(192) ? 192 : 256;

	if (tid_bytes != 4 && tid_bytes != 5)
		tid_bytes = HT_TID_BYTES;
	return HT_KEYED(ht_leaf_shape)(bits, tid_bytes, HT_KEYED(base_of)(page));
}

/* How a leaf stores keys, apart from the base.  FUNCTIONS() calls the instance for a shape. */
#if HT_KEYS == 128
#define FUNCTIONS(shape, call) \
	((shape).bits <= 64 ? wide_functions(shape.bits, (shape).tid_bytes)->call : \
	 wide_functions_128((shape).bits, (shape).tid_bytes)->call)
#else
#define FUNCTIONS(shape, call) \
	((shape).bits <= 64 ? wide_functions(shape.bits, (shape).tid_bytes)->call : \
	 (shape).bits <= 128 ? wide_functions_128((shape).bits, (shape).tid_bytes)->call : \
	 wide_functions_256((shape).bits, (shape).tid_bytes)->call)
#endif

/* A distance as a narrower number, and back. */
static inline HtEntry
HT_KEYED(narrow)(HT_ENTRY entry, HT_KEY base)
{
	HtEntry		stored = {KEY_LOW(KEY_SUBTRACT(entry.key, base)), entry.tid};

	return stored;
}

static inline HT_ENTRY
HT_KEYED(widen)(HtEntry stored, HT_KEY base)
{
	HT_ENTRY	entry = {KEY_ADD(KEY_OF(stored.key), base), stored.tid};

	return entry;
}

static inline HtEntry128
HT_KEYED(narrow_128)(HT_ENTRY entry, HT_KEY base)
{
#if HT_KEYS == 128
	HtEntry128	stored = {entry.key - base, entry.tid};
#else
	HT_KEY		distance = KEY_SUBTRACT(entry.key, base);
	HtEntry128	stored = {(HtKey128) distance.words[1] << 64 | distance.words[0], entry.tid};
#endif

	return stored;
}

static inline HT_ENTRY
HT_KEYED(widen_128)(HtEntry128 stored, HT_KEY base)
{
#if HT_KEYS == 128
	HT_ENTRY	entry = {stored.key + base, stored.tid};
#else
	HT_KEY		distance = {{(uint64_t) stored.key, (uint64_t) (stored.key >> 64), 0, 0}};
	HT_ENTRY	entry = {KEY_ADD(distance, base), stored.tid};
#endif

	return entry;
}

void
HT_KEYED(ht_leaf_init)(void *page, HT_SHAPE shape)
{
	FUNCTIONS(shape, init(page, ht_leaf_shape(shape.bits <= 32 ? shape.bits : 64, shape.tid_bytes, 0)));
	HT_KEYED(set_base)(page, shape.base);
}

void
HT_KEYED(ht_leaf_fill)(void *page, HT_SHAPE shape, const HT_ENTRY *entries, int n)
{
	HtLeafShape plain = ht_leaf_shape(shape.bits <= 32 ? shape.bits : 64, shape.tid_bytes, 0);

	if (shape.bits <= 64)
	{
		HtEntry		stored[HT_LEAF_MAX_ENTRIES];

		for (int i = 0; i < n; i++)
			stored[i] = HT_KEYED(narrow)(entries[i], shape.base);
		wide_functions(shape.bits, shape.tid_bytes)->fill(page, plain, stored, n);
	}
	else if (shape.bits <= 128)
	{
		HtEntry128	stored[WIDE_MAX_ENTRIES];

		for (int i = 0; i < n; i++)
			stored[i] = HT_KEYED(narrow_128)(entries[i], shape.base);
		wide_functions_128(shape.bits, shape.tid_bytes)->fill(page, plain, stored, n);
	}
#if HT_KEYS == 256
	else
	{
		HtEntry256	stored[WIDE_MAX_ENTRIES];

		for (int i = 0; i < n; i++)
		{
			stored[i].key = KEY_SUBTRACT(entries[i].key, shape.base);
			stored[i].tid = entries[i].tid;
		}
		wide_functions_256(shape.bits, shape.tid_bytes)->fill(page, plain, stored, n);
	}
#endif
	HT_KEYED(set_base)(page, shape.base);
}

int
HT_KEYED(ht_leaf_count)(const void *page)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);

	return FUNCTIONS(shape, count(page));
}

int
HT_KEYED(ht_leaf_block_count)(const void *page, int block)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);
	int			size = HT_KEYED(ht_leaf_block_size)(shape);
	int			slots = HT_KEYED(ht_leaf_slots)(shape);
	int			count = ((const uint8_t *) page)[HT_KEYED(ht_leaf_blocks_at)(shape) + (block + 1) * size - 2];

	return count < slots ? count : slots;
}

HT_ENTRY
HT_KEYED(ht_leaf_entry)(const void *page, int block, int slot)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);

	if (shape.bits <= 64)
		return HT_KEYED(widen)(wide_functions(shape.bits, shape.tid_bytes)->entry(page, block, slot), shape.base);
#if HT_KEYS == 256
	if (shape.bits > 128)
	{
		HT_ENTRY	entry = wide_functions_256(shape.bits, shape.tid_bytes)->entry(page, block, slot);

		entry.key = KEY_ADD(entry.key, shape.base);
		return entry;
	}
#endif
	return HT_KEYED(widen_128)(wide_functions_128(shape.bits, shape.tid_bytes)->entry(page, block, slot),
							   shape.base);
}

/*
 * Read the entries whose distance from the base is in low..high; if hints is not NULL, without
 * those that are hinted to be dead; "enough" is as for ht_leaf_read_some().
 */
static int
HT_KEYED(read_distances)(const void *page, HT_SHAPE shape, HT_KEY low, HT_KEY high, const uint8_t *hints,
						 int enough, HT_ENTRY *out)
{
	HT_KEY		most = HT_KEYED(ht_class_max)(shape.bits);
	int			n = 0;

	if (KEY_LESS(most, low))
		return 0;
	high = KEY_LESS(most, high) ? most : high;
	if (shape.bits <= 64)
	{
		HtEntry		stored[HT_LEAF_MAX_ENTRIES];

		n = wide_functions(shape.bits, shape.tid_bytes)->read_range(page, KEY_LOW(low), KEY_LOW(high), hints, enough,
																		  stored);
		for (int i = 0; i < n; i++)
			out[i] = HT_KEYED(widen)(stored[i], shape.base);
	}
	else if (shape.bits <= 128)
	{
		HtEntry128	stored[WIDE_MAX_ENTRIES];
		HT_ENTRY	first = {low, 0};
		HT_ENTRY	last = {high, 0};

		n = wide_functions_128(shape.bits, shape.tid_bytes)->read_range(page, HT_KEYED(narrow_128)(first, KEY_OF(0)).key,
																		 HT_KEYED(narrow_128)(last, KEY_OF(0)).key,
																		 hints, enough, stored);
		for (int i = 0; i < n; i++)
			out[i] = HT_KEYED(widen_128)(stored[i], shape.base);
	}
#if HT_KEYS == 256
	else
	{
		n = wide_functions_256(shape.bits, shape.tid_bytes)->read_range(page, low, high, hints, enough, out);
		for (int i = 0; i < n; i++)
			out[i].key = KEY_ADD(out[i].key, shape.base);
	}
#endif
	return n;
}

/* Read all entries; check the page on the way if "checked" is true.  The result is as for ht_leaf_read_checked(). */
static const char *
HT_KEYED(read_all)(const void *page, bool checked, HT_ENTRY *out, int *n)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);
	const char *problem = NULL;

	if (shape.bits <= 64)
	{
		const LeafFunctions *functions = wide_functions(shape.bits, shape.tid_bytes);
		HtEntry		stored[HT_LEAF_MAX_ENTRIES];

		if (checked)
			problem = functions->check(page, stored, n);
		else
			*n = functions->read(page, stored);
		for (int i = 0; i < *n; i++)
			out[i] = HT_KEYED(widen)(stored[i], shape.base);
		return problem;
	}
#if HT_KEYS == 256
	if (shape.bits > 128)
	{
		const LeafFunctions_256 *functions = wide_functions_256(shape.bits, shape.tid_bytes);

		if (checked)
			problem = functions->check(page, out, n);
		else
			*n = functions->read(page, out);
		for (int i = 0; i < *n; i++)
			out[i].key = KEY_ADD(out[i].key, shape.base);
		return problem;
	}
#endif
	{
		const LeafFunctions_128 *functions = wide_functions_128(shape.bits, shape.tid_bytes);
		HtEntry128	stored[WIDE_MAX_ENTRIES];

		if (checked)
			problem = functions->check(page, stored, n);
		else
			*n = functions->read(page, stored);
		for (int i = 0; i < *n; i++)
			out[i] = HT_KEYED(widen_128)(stored[i], shape.base);
		return problem;
	}
}

int
HT_KEYED(ht_leaf_read)(const void *page, HT_ENTRY *out)
{
	int			n;

	(void) HT_KEYED(read_all)(page, false, out, &n);
	return n;
}

static int
HT_KEYED(read_keys)(const void *page, HT_SHAPE shape, HT_KEY low_key, HT_KEY high_key, const uint8_t *hints,
					int enough, HT_ENTRY *out)
{
	if (KEY_LESS(high_key, low_key) || KEY_LESS(high_key, shape.base))
		return 0;
	return HT_KEYED(read_distances)(page, shape,
									KEY_LESS(low_key, shape.base) ? KEY_OF(0) : KEY_SUBTRACT(low_key, shape.base),
									KEY_SUBTRACT(high_key, shape.base), hints, enough, out);
}

int
HT_KEYED(ht_leaf_read_range)(const void *page, HT_KEY low_key, HT_KEY high_key, HT_ENTRY *out)
{
	return HT_KEYED(read_keys)(page, HT_KEYED(ht_leaf_shape_of)(page), low_key, high_key, NULL,
							   HT_LEAF_MAX_ENTRIES, out);
}

int
HT_KEYED(ht_leaf_read_live)(const void *page, HT_KEY low_key, HT_KEY high_key, HT_ENTRY *out)
{
	return HT_KEYED(ht_leaf_read_some)(page, low_key, high_key, true, HT_LEAF_MAX_ENTRIES, out);
}

int
HT_KEYED(ht_leaf_read_some)(const void *page, HT_KEY low_key, HT_KEY high_key, bool live, int enough,
							HT_ENTRY *out)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);
	const uint8_t *hints = (const uint8_t *) page + HT_KEYED(ht_leaf_hole)(shape).offset;

	return HT_KEYED(read_keys)(page, shape, low_key, high_key, live ? hints : NULL, enough, out);
}

int
HT_KEYED(ht_leaf_slot)(const void *page, HT_ENTRY entry)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);

	if (!HT_KEYED(ht_leaf_fits)(shape, entry))
		return -1;
	if (shape.bits <= 64)
		return wide_functions(shape.bits, shape.tid_bytes)->slot(page, HT_KEYED(narrow)(entry, shape.base));
#if HT_KEYS == 256
	if (shape.bits > 128)
	{
		entry.key = KEY_SUBTRACT(entry.key, shape.base);
		return wide_functions_256(shape.bits, shape.tid_bytes)->slot(page, entry);
	}
#endif
	return wide_functions_128(shape.bits, shape.tid_bytes)->slot(page, HT_KEYED(narrow_128)(entry, shape.base));
}

HtInsertResult
HT_KEYED(ht_leaf_insert)(void *page, HT_ENTRY entry, HtLeafChange *change)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);

	if (!HT_KEYED(ht_leaf_fits)(shape, entry))
		return HT_NO_FIT;
	if (shape.bits <= 64)
		return wide_functions(shape.bits, shape.tid_bytes)->insert(page, HT_KEYED(narrow)(entry, shape.base), change);
#if HT_KEYS == 256
	if (shape.bits > 128)
	{
		entry.key = KEY_SUBTRACT(entry.key, shape.base);
		return wide_functions_256(shape.bits, shape.tid_bytes)->insert(page, entry, change);
	}
#endif
	return wide_functions_128(shape.bits, shape.tid_bytes)->insert(page, HT_KEYED(narrow_128)(entry, shape.base),
																   change);
}

HtInsertResult
HT_KEYED(ht_leaf_add)(void *page, HT_ENTRY entry, int end, HtLeafChange *change)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);

	if (!HT_KEYED(ht_leaf_fits)(shape, entry))
		return HT_NO_FIT;
	if (shape.bits <= 64)
		return wide_functions(shape.bits, shape.tid_bytes)->add(page, HT_KEYED(narrow)(entry, shape.base), end, change);
#if HT_KEYS == 256
	if (shape.bits > 128)
	{
		entry.key = KEY_SUBTRACT(entry.key, shape.base);
		return wide_functions_256(shape.bits, shape.tid_bytes)->add(page, entry, end, change);
	}
#endif
	return wide_functions_128(shape.bits, shape.tid_bytes)->add(page, HT_KEYED(narrow_128)(entry, shape.base), end,
																change);
}

void
HT_KEYED(ht_leaf_remove)(void *page, const bool *dead, HtLeafChange *change)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);

	FUNCTIONS(shape, remove(page, dead, change));
}

int
HT_KEYED(ht_leaf_change_ranges)(const void *page, const HtLeafChange *change, HtByteRange *ranges)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);

	return FUNCTIONS(shape, change_ranges(change, ranges));
}

uint64_t
HT_KEYED(ht_leaf_change_lines)(const void *page, const HtLeafChange *change)
{
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);
	int			lines_of_block = HT_KEYED(ht_leaf_block_size)(shape) / HT_LEAF_BLOCK_SIZE;
	int			first = HT_KEYED(ht_leaf_blocks_at)(shape) / HT_LEAF_BLOCK_SIZE;
	uint64_t	lines = 0;

	if (lines_of_block == 1)
		lines = change->blocks << first;
	else
	{
		for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
			lines |= UINT64_C(3) << (first + 2 * __builtin_ctzll(rest));
	}
	if (change->separators != 0)
		lines |= (UINT64_C(1) << first) - 1;
	return lines;
}

HtByteRange
HT_KEYED(ht_leaf_hole)(HT_SHAPE shape)
{
	HtByteRange hole;
	int			bits = HT_WIDE_BLOCKS(shape.bits) * HT_WIDE_SLOTS(shape.bits, 4);

	if (shape.bits < 64)
		return ht_leaf_hole(ht_leaf_shape(shape.bits, shape.tid_bytes, 0));
	hole.offset = (uint16_t) HT_WIDE_HOLE_AT(shape.bits);
	hole.length = (uint16_t) (shape.bits < 128 ? HT_WIDE_BLOCKS_AT(shape.bits) - hole.offset : (bits + 63) / 64 * 8);
	return hole;
}

const char *
HT_KEYED(ht_leaf_read_checked)(const void *page, HT_ENTRY *out, int *n)
{
	const uint8_t *bytes = page;
	HT_SHAPE	shape = HT_KEYED(ht_leaf_shape_of)(page);
	const char *problem;

	*n = 0;
	if (bytes[HT_LEAF_CLASS_AT] != (shape.bits < 64 ? shape.bits : HT_WIDE_CLASS(shape.bits)) ||
		bytes[HT_LEAF_TID_BYTES_AT] != shape.tid_bytes)
		return "widths of keys and tids are none that a leaf can have";
	for (int i = HT_WIDE_BASE_AT + HT_KEYS / 8; i < HT_LEAF_SEPARATORS_AT; i++)
		if (bytes[i] != 0)
			return "reserved byte is not 0";
	if (shape.bits < 64 && ht_leaf_shape_of(page).base != 0)
		return "reserved byte is not 0";
	problem = HT_KEYED(read_all)(page, true, out, n);

	/* The last one has the greatest distance; an overflow makes it the lowest key. */
	if (problem == NULL && *n > 0 && KEY_LESS(out[*n - 1].key, shape.base))
		return "key is above the greatest one";
	return problem;
}

const char *
HT_KEYED(ht_leaf_check)(const void *page)
{
	HT_ENTRY	entries[HT_LEAF_MAX_ENTRIES];
	int			n;

	return HT_KEYED(ht_leaf_read_checked)(page, entries, &n);
}

#undef FUNCTIONS
#include "key_macros_end.h"
