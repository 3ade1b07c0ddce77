/*
 * hints.c
 *		Hints that entries are dead: a bit for each slot of a leaf, in its hole.
 *
 * Single bytes are written, so that of two processes that set hints at the same time
 * one may lose its hint, but none is made up.
 */
#include "tree.h"

#include <string.h>

static uint8_t *
hints_of(void *page)
{
	return (uint8_t *) page + ht_leaf_hole(ht_leaf_shape_of(page)).offset;
}

bool
ht_leaf_has_hints(const void *page)
{
	HtByteRange hole = ht_leaf_hole(ht_leaf_shape_of(page));
	const uint8_t *hints = (const uint8_t *) page + hole.offset;
	uint64_t	any = 0;

	for (int i = 0; i < hole.length; i += 8)
	{
		uint64_t	word;

		memcpy(&word, hints + i, sizeof(word));
		any |= word;
	}
	return any != 0;
}

uint32_t
ht_leaf_hints(const void *page, int block)
{
	HtLeafShape shape = ht_leaf_shape_of(page);
	int			slots = ht_leaf_slots(shape);

	return ht_hints_load((const uint8_t *) page + ht_leaf_hole(shape).offset, block * slots, slots);
}

void
ht_leaf_set_hint(void *page, int slot)
{
	hints_of(page)[slot / 8] |= (uint8_t) (1 << slot % 8);
}

void
ht_leaf_clear_hints(void *page, const HtLeafChange *change)
{
	int			slots = ht_leaf_slots(ht_leaf_shape_of(page));
	uint8_t    *hints = hints_of(page);

	for (uint64_t rest = change->blocks; rest != 0; rest &= rest - 1)
	{
		int			block = __builtin_ctzll(rest);
		int			count = ht_leaf_block_count(page, block);

		for (int i = 0; i < slots; i++)
		{
			int			slot = block * slots + i;

			if (i >= count || (change->slots[block] >> i & 1))
				hints[slot / 8] &= (uint8_t) ~(1 << slot % 8);
		}
	}
}
