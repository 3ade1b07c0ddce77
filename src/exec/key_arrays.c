/*
 * key_arrays.c
 *		What is done with many keys at a time, for each key size.
 */
#include "postgres.h"

#include "exec/nodes.h"

#define ST_SORT sort_keys_64
#define ST_ELEMENT_TYPE uint64
#define ST_COMPARE(a, b) (*(a) < *(b) ? -1 : *(a) > *(b) ? 1 : 0)
#define ST_SCOPE static
#define ST_DEFINE
#define ST_CHECK_FOR_INTERRUPTS
#include "miscadmin.h"
#include "lib/sort_template.h"

#define ST_SORT sort_keys_128
#define ST_ELEMENT_TYPE HmKey
#define ST_COMPARE(a, b) (*(a) < *(b) ? -1 : *(a) > *(b) ? 1 : 0)
#define ST_SCOPE static
#define ST_DEFINE
#define ST_CHECK_FOR_INTERRUPTS
#include "lib/sort_template.h"

static pg_attribute_always_inline uint32
move_to_front(void *keys, Size key_size, uint32 count, HmKey limit)
{
	uint32 moved = 0;

	for (uint32 i = 0; i < count; i++)
	{
		HmKey key = hm_key_get(keys, key_size, i);

		hm_key_put(keys, key_size, i, hm_key_get(keys, key_size, moved));
		hm_key_put(keys, key_size, moved, key);
		moved += !hm_key_less(key_size, limit, key);
	}
	return moved;
}

uint32
hm_move_to_front(void *keys, Size key_size, uint32 count, HmKey limit)
{
	if (key_size == sizeof(uint64))
		return move_to_front(keys, sizeof(uint64), count, limit);
	return move_to_front(keys, sizeof(HmKey), count, limit);
}

uint32
hm_sample_keys(const void *keys, Size key_size, uint32 count, HmKey *sample, uint32 size)
{
	uint32 sampled = Min(count, size);

	for (uint32 i = 0; i < sampled; i++)
		sample[i] = hm_key_get(keys, key_size, (uint64) i * count / sampled);
	sort_keys_128(sample, sampled);
	return sampled;
}

/* Drop duplicates of sorted keys. */
static pg_attribute_always_inline uint32
drop_equal(void *keys, Size key_size, uint32 count)
{
	uint32 kept = 0;

	for (uint32 i = 1; i < count; i++)
	{
		HmKey key = hm_key_get(keys, key_size, i);

		if (key != hm_key_get(keys, key_size, kept))
			hm_key_put(keys, key_size, ++kept, key);
	}
	return kept + 1;
}

uint32
hm_drop_duplicates(void *keys, Size key_size, uint32 count)
{
	if (key_size == sizeof(uint64))
	{
		sort_keys_64(keys, count);
		return drop_equal(keys, sizeof(uint64), count);
	}
	sort_keys_128(keys, count);
	return drop_equal(keys, sizeof(HmKey), count);
}
