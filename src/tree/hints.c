/*
 * hints.c
 *		Hints that entries are dead: a bit for each slot of a leaf, in its hole.
 *
 * Single bytes are written, so that of two processes that set hints at the same time
 * one may lose its hint, but none is made up.
 */
#include "wide.h"

#include <string.h>

#define HT_KEYS 64
#include "hints_template.h"
#define HT_KEYS 128
#include "hints_template.h"
