/*
 * hints_template.h
 *		The hints of leaves with keys of the width HT_KEYS.
 *
 * hints.c includes this once for each.
 */
#include "key_macros.h"

static uint8_t *
HT_KEYED(hints_of)(void *page)
{
	return (uint8_t *) page + HT_KEYED(ht_leaf_hole)(HT_KEYED(ht_leaf_shape_of)(page)).offset;
}

bool
HT_KEYED(ht_leaf_has_hints)(const void *page)
{
	HtByteRange hole = HT_KEYED(ht_leaf_hole)(HT_KEYED(ht_leaf_shape_of)(page));
	const uint8_t *hints = (const uint8_t *) page + hole.offset;
	uint64_t any = 0;

	for (int i = 0; i < hole.length; i += 8)
	{
		uint64_t word;

		memcpy(&word, hints + i, sizeof(word));
		any |= word;
	}
	return any != 0;
}

uint32_t
HT_KEYED(ht_leaf_hints)(const void *page, int block)
{
	HT_SHAPE shape = HT_KEYED(ht_leaf_shape_of)(page);
	int slots = HT_KEYED(ht_leaf_slots)(shape);

	return ht_hints_load((const uint8_t *) page + HT_KEYED(ht_leaf_hole)(shape).offset,
						 block * slots, slots);
}

void
HT_KEYED(ht_leaf_set_hint)(void *page, int slot)
{
	HT_KEYED(hints_of)(page)[slot / 8] |= (uint8_t) (1 << slot % 8);
}

void
HT_KEYED(ht_leaf_clear_hints)(void *page, const HtLeafChange *change)
{
	int slots = HT_KEYED(ht_leaf_slots)(HT_KEYED(ht_leaf_shape_of)(page));
	uint8_t *hints = HT_KEYED(hints_of)(page);

	for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
	{
		int block = __builtin_ctzll(rest);
		int first = block * slots;
		uint64_t used = (UINT64_C(1) << HT_KEYED(ht_leaf_block_count)(page, block)) - 1;
		uint64_t gone = (change->slots[block] | ~used) & ((UINT64_C(1) << slots) - 1);

		gone <<= first % 8;
		for (uint8_t *byte = hints + first / 8; gone != 0; byte++, gone >>= 8)
		{
			/* Others may have the line in their caches. */
			if (*byte & (uint8_t) gone)
				*byte &= (uint8_t) ~gone;
		}
	}
}

#include "key_macros_end.h"
