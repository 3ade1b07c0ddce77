/*
 * keyarray.h
 *		Arrays of an index's keys.
 *
 * Single keys are HmKeys, whatever the index.  Where there may be many, each takes as many bytes
 * as keys of the index's width take in memory: its key size, 8 or 16.  Loops that matter for time
 * are compiled for each size: they are in functions that are always inlined, and called with a
 * constant.
 */
#ifndef HARMONIA_KEYARRAY_H
#define HARMONIA_KEYARRAY_H

#include "am/am.h"

#define HM_KEY_MAX ((HmKey) ~(HmKey) 0)

static inline Size
hm_key_size(HtWidth width)
{
	return width <= HT_WIDTH64 ? sizeof(uint64) : sizeof(HmKey);
}

/* Key i of an array, and where it is. */
static pg_attribute_always_inline HmKey
hm_key_get(const void *keys, Size key_size, Size i)
{
	return key_size == sizeof(uint64) ? ((const uint64 *) keys)[i] : ((const HmKey *) keys)[i];
}

static inline void *
hm_key_at(const void *keys, Size key_size, Size i)
{
	return (char *) keys + key_size * i;
}

static pg_attribute_always_inline void
hm_key_put(void *keys, Size key_size, Size i, HmKey key)
{
	if (key_size == sizeof(uint64))
		((uint64 *) keys)[i] = (uint64) key;
	else
		((HmKey *) keys)[i] = key;
}

static pg_attribute_always_inline void
hm_key_swap(void *keys, Size key_size, Size i, Size j)
{
	HmKey key = hm_key_get(keys, key_size, i);

	hm_key_put(keys, key_size, i, hm_key_get(keys, key_size, j));
	hm_key_put(keys, key_size, j, key);
}

/* Whether a key of an array is below another one.  Both fit into the key size. */
static pg_attribute_always_inline bool
hm_key_less(Size key_size, HmKey a, HmKey b)
{
	return key_size == sizeof(uint64) ? (uint64) a < (uint64) b : a < b;
}

#endif /* HARMONIA_KEYARRAY_H */
