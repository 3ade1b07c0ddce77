/*
 * leaf_wide.c
 *		Leaf pages of indexes with wide keys: the operations of leaf_template.h for the shapes
 *		that keep keys in lanes, and leaf_keys.h for each width of keys.
 */
#include "leaf.h"

#include <stdlib.h>

#define LT_WIDE 1
#define LT_BITS 64
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 64
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 64
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 96
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 96
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 96
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 128
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 128
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 128
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 192
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 192
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 192
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 256
#define LT_TID 4
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 256
#define LT_TID 5
#include "leaf_template.h"
#undef LT_BITS
#define LT_BITS 256
#define LT_TID 6
#include "leaf_template.h"
#undef LT_BITS
#undef LT_WIDE

/* Entries of a leaf of a class above 64 bits at most. */
#define WIDE_MAX_ENTRIES	(HT_WIDE_BLOCKS(96) * HT_WIDE_SLOTS(96, 4))

#define WIDE_FUNCTIONS(bits) \
	{&functions_w##bits##_4, &functions_w##bits##_5, &functions_w##bits##_6}

/* The functions for leaves of these indexes whose class is at most 64. */
static inline const LeafFunctions *
wide_functions(int bits, int tid_bytes)
{
	static const LeafFunctions *const wide[3] = WIDE_FUNCTIONS(64);

	return bits < 64 ? ht_leaf_functions(bits, tid_bytes) : wide[tid_bytes - 4];
}

static inline const LeafFunctions_128 *
wide_functions_128(int bits, int tid_bytes)
{
	static const LeafFunctions_128 *const wide[2][3] = {WIDE_FUNCTIONS(96), WIDE_FUNCTIONS(128)};

	return wide[bits > 96][tid_bytes - 4];
}

static inline const LeafFunctions_256 *
wide_functions_256(int bits, int tid_bytes)
{
	static const LeafFunctions_256 *const wide[2][3] = {WIDE_FUNCTIONS(192), WIDE_FUNCTIONS(256)};

	return wide[bits > 192][tid_bytes - 4];
}

#define HT_KEYS 128
#include "leaf_keys.h"
#define HT_KEYS 256
#include "leaf_keys.h"
