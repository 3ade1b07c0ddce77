/*
 * wide.h
 *		The tree engine for indexes whose keys have more than 64 bits.
 *
 * An index has keys of 64, 128 or 256 bits in memory; HtWidth says how wide they are in inner
 * nodes.  Everything that depends on the width exists once for each: for 64 bits (and
 * 32, which are 64 in memory) it is in tree.h, for the others it is declared by
 * wide_api.h, with the same names and _128 or _256 at their end, and the same contracts.
 * An index of 96, 160 or 192 bits uses the next width in memory; its leaves are as narrow as
 * their bounds allow, so that costs nothing on disk.
 *
 * Leaves.  A key is stored as its distance from the leaf's base, in any class from 16 bits up to
 * the width.  Other than with 64 bits the widest class has a base, too: that of all leaves is
 * the key of their low bound.  tree.h has the layout.
 */
#ifndef HARMONIA_WIDE_H
#define HARMONIA_WIDE_H

#include "key.h"
#include "tree.h"

#define HT_KEYS 128
#include "wide_api.h"
#define HT_KEYS 256
#include "wide_api.h"

#endif							/* HARMONIA_WIDE_H */
