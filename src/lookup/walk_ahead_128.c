/*
 * walk_ahead_128.c
 *		walk_ahead.c for keys of 128 bits.
 */
#define HM_KEYS 128
#include "walk_ahead.c"
