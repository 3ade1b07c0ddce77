/*
 * test_hints.c
 *		Hints that entries are dead.
 *
 * An entry is dead if its numbers say so, so it shows at once whether a hint has come to stand
 * for another entry.
 */
#include "leaf_model.h"

#include "tap.h"

#include <string.h>

static bool
is_dead(HtEntry entry)
{
	return (entry.key * 7 + entry.tid * 13 + (entry.tid >> 16)) % 3 == 0;
}

static bool
has_hint(const Leaf *leaf, HtEntry entry)
{
	int slot = ht_leaf_slot(leaf->page, entry);
	int slots = ht_leaf_slots(leaf->shape);

	expect(slot >= 0, "an entry is not found");
	if (slot < 0)
		return false;
	expect(ht_entry_cmp(ht_leaf_entry(leaf->page, slot / slots, slot % slots), entry) == 0,
		   "an entry is found in another's slot");
	return (ht_leaf_hints(leaf->page, slot / slots) >> slot % slots & 1) != 0;
}

/* Every hint is that of a dead entry, and only entries without hints are read. */
static void
verify_hints(const Leaf *leaf)
{
	HtEntry out[HT_LEAF_MAX_ENTRIES];
	uint64_t low = rnd_below(4) ? leaf_probe(leaf) : 0;
	uint64_t high = rnd_below(4) ? leaf_probe(leaf) : UINT64_MAX;
	int n = ht_leaf_read_live(leaf->page, low, high, out);
	int expected = 0;
	bool any = false;

	for (int b = 0; b < ht_leaf_blocks(leaf->shape); b++)
	{
		uint32_t hints = ht_leaf_hints(leaf->page, b);

		any |= hints != 0;
		expect(hints >> ht_leaf_block_count(leaf->page, b) == 0, "a hint for a slot without entry");
		for (; hints != 0; hints &= hints - 1)
			expect(is_dead(ht_leaf_entry(leaf->page, b, __builtin_ctz(hints))),
				   "a hint for a live entry");
	}
	expect(ht_leaf_has_hints(leaf->page) == any, "whether there are hints");
	for (int i = 0; i < leaf->n; i++)
	{
		if (leaf->model[i].key < low || leaf->model[i].key > high || has_hint(leaf, leaf->model[i]))
			continue;
		expect(expected < n && ht_entry_cmp(out[expected], leaf->model[i]) == 0,
			   "an entry without hint is not read");
		expected++;
	}
	expect(n == expected, "%d entries are read, not %d", n, expected);
	leaf_expect_some(leaf, low, high, true, out, n);
	expect(ht_leaf_slot(leaf->page, make_entry(leaf->shape.base + 12345, HT_TID_MAX - 1)) == -1 ||
			   leaf->shape.tid_bytes == HT_TID_BYTES,
		   "an entry that does not fit is found");
}

static void
test_hints_pattern(int bits, int tid_bytes, Pattern pattern)
{
	for (int round = 0; round < 4 && !failed(); round++)
	{
		Leaf *leaf = leaf_create(bits, tid_bytes);
		HtByteRange hole = ht_leaf_hole(leaf->shape);

		memset(leaf->page + hole.offset, 0, hole.length);
		for (int i = 0; i < 3000 && !failed(); i++)
		{
			leaf_insert(leaf, pattern_entry(pattern, leaf->shape, i));
			if (rnd_below(300) == 0)
				leaf_remove_some(leaf);
			ht_leaf_clear_hints(leaf->page, &leaf->change);
			memset(&leaf->change, 0, sizeof(leaf->change));
			for (int j = rnd_below(3); j > 0 && leaf->n > 0; j--)
			{
				HtEntry entry = leaf->model[rnd_below(leaf->n)];

				if (is_dead(entry))
					ht_leaf_set_hint(leaf->page, ht_leaf_slot(leaf->page, entry));
			}
			if (rnd_below(50) == 0)
				verify_hints(leaf);
		}
		verify_hints(leaf);
		leaf_free(leaf);
	}
	report("%d-bit leaf, %d-byte tids, pattern %d: hints", bits, tid_bytes, (int) pattern);
}

void
test_hints(int bits, int tid_bytes)
{
	for (int pattern = 0; pattern < N_PATTERNS; pattern++)
		test_hints_pattern(bits, tid_bytes, (Pattern) pattern);
}
